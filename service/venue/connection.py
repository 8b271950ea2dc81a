"""One order connection: bytes in to the compiled decoder, slices of the account's stream out.

While a client is not logged in, and for whatever the decoder leaves, packets go through the SoupBinTCP session; the
bulk of an established connection never does.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from venue.engine import order_decoder, order_turn
from venue.engine.order_encoder import NO_LINE
from venue.store import Stream
from venue.wire import ouch
from venue.wire.layout import WireError
from venue.wire.soupbintcp import (
    MAX_FRAME_BYTES,
    MAX_LOGIN_FRAME_BYTES,
    LoginRequested,
    LogoutRequested,
    ProtocolError,
    ServerSession,
    Timeout,
    Unsequenced,
)
from venue.wire.soupbintcp.session import State

if TYPE_CHECKING:
    from venue.gateway import Gateway

RECEIVE_BYTES: Final = 128 << 10
"""The receive buffer: a whole packet of the largest size and as much again."""
assert RECEIVE_BYTES > MAX_FRAME_BYTES
WRITE_BYTES: Final = 256 << 10
"""What is given to the transport at a time. It keeps at most one such slice that the kernel has not taken."""
WRITES: Final = 4
"""So many slices before others get their turn."""
STALL_NS: Final = 15_000_000_000
"""How long a client may take nothing of what is there for it."""
LINGER_NS: Final = 2_000_000_000
"""How long a client may take to close its side once we have closed ours."""
NOBODY: Final = -1


class Connection(asyncio.BufferedProtocol):
    """From accept to close; belongs to the loop thread."""

    transport: asyncio.Transport

    def __init__(self, gateway: Gateway) -> None:
        now = gateway.clock()
        self.gateway = gateway
        self.session = ServerSession(now)
        self.peer = "?"
        self.host = "?"
        self.connected_at_ns = time.time_ns()
        self.account = NOBODY
        self.stream: Stream | None = None
        self.end_reason = ""
        """Why it ended, or is about to; empty while it goes on."""
        self._end_by_ns = 0
        self.ended = asyncio.get_running_loop().create_future()
        """Done when the connection is gone."""
        # receiving
        memory = bytearray(RECEIVE_BYTES)
        self._bytes = memoryview(memory)
        self._buffer = np.frombuffer(memory, np.uint8)  # the same bytes as the decoder takes them
        self._start = 0
        self._end = 0
        self._arrival_ns = now
        # sending
        self._line = NO_LINE
        """A descriptor of our own for the socket, while we are logged in: the transport's may be closed, and be
        another client's, before anybody is told."""
        self._writable = True
        self._login_bytes = 0
        """Where the stream ended at the login: what comes before is owed to no slowness of this client."""
        self._taken = 0
        self._progress_ns = now
        self._again: asyncio.Handle | None = None
        """There is more to write than one call may; the next one comes by itself."""
        self._ending = False
        self._reject_at_ns = 0
        """When the answer to a wrong login is due; 0 = none."""

    # --- the transport's calls ------------------------------------------------------------------------------------

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        transport.set_write_buffer_limits(high=0)  # says at once when the kernel takes no more, and when it does again
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        address = transport.get_extra_info("peername") or ("?", 0)
        self.host, self.peer = str(address[0]), f"{address[0]}:{address[1]}"
        self.gateway.connected(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._bytes[self._end :] if self._end else self._bytes

    def buffer_updated(self, nbytes: int) -> None:
        now = self.gateway.clock()
        self._end += nbytes
        self._arrival_ns = now
        self.session.heard(now)
        self.read(now)

    def pause_writing(self) -> None:
        self._writable = False
        if self.stream is not None and not self.end_reason:
            self.stream.set_line()

    def resume_writing(self) -> None:
        self._writable = True
        self._write_on()

    def connection_lost(self, exc: Exception | None) -> None:
        self._leave(f"connection lost: {exc}" if exc else "closed by the client")
        self.gateway.disconnected(self)
        if not self.ended.done():
            self.ended.set_result(None)

    # --- receiving --------------------------------------------------------------------------------------------------

    def read(self, now: int) -> None:
        """Handle what the receive buffer holds, as far as it goes now."""
        if self.end_reason or (self.gateway.closing and self.stream is not None):
            self._start = self._end  # nobody is listening any more
        elif self.stream is None:
            self._read_login(now)
        elif self.gateway.closed_accounts[self.account]:
            self._pass_on(self._end - self._start, now)
        else:
            self._read_orders(now)
        self._compact()

    def read_on(self, now: int) -> None:
        """The command ring has room again: handle what waits here, and if that is all, read the socket again."""
        self.read(now)
        if not self.gateway.waits_for_room(self) and not self.transport.is_closing():
            self.transport.resume_reading()

    def _read_login(self, now: int) -> None:
        """Give the session one packet at a time: what follows a login stays here for the decoder."""
        while self.session.state is State.LOGIN and self._end - self._start >= 2:
            length = int.from_bytes(self._bytes[self._start : self._start + 2], "big")
            if 0 < length <= MAX_LOGIN_FRAME_BYTES - 2 and self._end - self._start < 2 + length:
                return
            self._pass_on(min(2 + length, self._end - self._start), now)

    def _read_orders(self, now: int) -> None:
        gateway = self.gateway
        if gateway.service_waits:
            gateway.wait_for_room(self)
            return
        stop, used, count, done, left, empty = order_turn.turn(
            gateway.turn_memory,
            self._buffer,
            self._start,
            self._end,
            self.account,
            gateway.firms[self.account],
            self._arrival_ns,
            now + gateway.market_offset_ns,
            gateway.command_wake,
        )
        self._start += used
        gateway.messages_in[self.account] += count
        if stop == order_decoder.RING_FULL:
            gateway.wait_for_room(self)
        if done < 0 or left or not empty:
            gateway.delivered(done, left, empty)  # what a socket took in part is whole before anything ends
        if self.end_reason:
            return
        if stop == order_decoder.SESSION:
            self._pass_on(2 + self._packet_length(), now)
        elif stop == order_decoder.BAD_MESSAGE:
            start = self._start + 3
            self._protocol_error(_complaint(bytes(self._bytes[start : start + self._packet_length() - 1])))

    def _packet_length(self) -> int:
        return int.from_bytes(self._bytes[self._start : self._start + 2], "big")

    def _pass_on(self, count: int, now: int) -> None:
        """Give the next ``count`` bytes to the session and do what it says."""
        data = bytes(self._bytes[self._start : self._start + count])
        self._start += count
        self.gateway.count_bytes_in(count)
        for event in self.session.receive(data, now):
            if self.end_reason:
                return  # nobody is listening any more
            self._handle(event)

    def _handle(self, event: object) -> None:
        match event:
            case LoginRequested():
                self.transport.pause_reading()
                self.gateway.login(self, event)
            case LogoutRequested():
                self.close("logged out")
            case ProtocolError(reason):
                self._protocol_error(reason)
            case Unsequenced():
                self._protocol_error("an order for an account whose store is full")
            case Timeout("login"):
                self.gateway.counters["login_timeouts"] += 1
                self.cut("no login in time")
            case Timeout():
                self.gateway.counters["silence_cuts"] += 1
                self.cut("silence")

    def _protocol_error(self, reason: str) -> None:
        self.gateway.counters["protocol_errors"] += 1
        self.close(f"protocol error: {reason}")

    def _compact(self) -> None:
        """Move the beginning of a packet to the front, so that the rest of it has room."""
        left = self._end - self._start
        if left and self._start:
            self._bytes[:left] = self._bytes[self._start : self._end]
        self._start, self._end = 0, left

    # --- logging in -------------------------------------------------------------------------------------------------

    def accept(self, account: int, stream: Stream, session: str, requested: int, now: int) -> int:
        """Log in and give the client its stream from the number it asked for, or else from the next one."""
        sequence = requested if 1 <= requested <= stream.count else stream.count + 1
        self.account, self.stream = account, stream
        with contextlib.suppress(OSError):  # no descriptor is left: then the transport writes everything
            self._line = os.dup(self.transport.get_extra_info("socket").fileno())
        stream.sent = stream.position(sequence)
        self._login_bytes = stream.size_bytes
        self._taken, self._progress_ns = stream.sent, now
        self.session.accept_login(session, sequence, now)
        self._write_session()
        self.gateway.count_bytes_out(self.pump(now))
        self.transport.resume_reading()
        self._arrival_ns = now
        self.read(now)
        return sequence

    def reject(self, reason: Literal["A", "S"], now: int) -> None:
        self.session.reject_login(reason, now)
        self._write_session()
        self.close("login rejected")

    def reject_at(self, at_ns: int) -> None:
        """A wrong login, answered later (reason A)."""
        self._reject_at_ns = at_ns

    # --- sending ----------------------------------------------------------------------------------------------------

    def pump(self, now: int) -> int:
        """Write what the stream holds beyond what was written, as long as the kernel takes it, ``WRITES`` slices now
        and the others in later turns of the loop; returns the bytes."""
        stream = self.stream
        if stream is None or self.end_reason or self._again:
            return 0
        first, size = stream.sent, stream.size_bytes
        stream.set_line()
        for _ in range(WRITES):
            if not self._writable or stream.sent == size:
                break
            end = min(stream.sent + WRITE_BYTES, size)
            self.transport.write(stream.slice(stream.sent, end))
            stream.sent = end
        else:
            self._again = asyncio.get_running_loop().call_soon(self._write_on)
        if stream.sent != first:
            self.session.sent(now)
        if not self._writable and self.unsent_bytes() > self.gateway.max_unsent_bytes:
            self.gateway.counters["slow_client_cuts"] += 1
            self.cut(f"slow: {self.unsent_bytes()} bytes not taken")
        elif self._ending and stream.sent == size:
            self._end_session()
        elif self._writable and not self._again:
            stream.set_line(self._line)
        return stream.sent - first

    def _write_on(self) -> None:
        self._again = None
        self.gateway.count_bytes_out(self.pump(self.gateway.clock()))

    def unsent_bytes(self) -> int:
        """What this client has been owed since its login and its kernel has not taken yet."""
        if self.stream is None:
            return 0
        return self.stream.size_bytes - max(
            self.stream.sent - self.transport.get_write_buffer_size(), self._login_bytes
        )

    def tick(self, now: int) -> None:
        """Every quarter of a second: what is due by the clock."""
        if self.end_reason:
            if now >= self._end_by_ns:
                self.transport.abort()
            return
        if self._reject_at_ns and now >= self._reject_at_ns:
            self.reject("A", now)
            return
        if self.stream is not None:
            self.session.sent(self.stream.sent_ns)
            if not self._goes_on(self.stream, now):
                self.gateway.counters["slow_client_cuts"] += 1
                self.cut("slow: it takes nothing")
                return
        for event in self.session.handle_timer(now):
            self._handle(event)
        self._write_session()

    def _goes_on(self, stream: Stream, now: int) -> bool:
        """Whether the client takes what is there for it."""
        taken = stream.sent - self.transport.get_write_buffer_size()
        if taken != self._taken or taken == stream.size_bytes:
            self._taken, self._progress_ns = taken, now
        if not self._writable:
            self.session.sent(now)  # no heartbeat: it would not arrive, or in the middle of a message
        return now - self._progress_ns <= STALL_NS

    def _write_session(self) -> None:
        data = self.session.data_to_send()
        if data and not self.transport.is_closing():
            self.transport.write(data)
            self.gateway.count_bytes_out(len(data))

    # --- ending -----------------------------------------------------------------------------------------------------

    def end(self, now: int) -> None:
        """The session of the day is over: End of Session once everything before it is written, then close."""
        self._ending = True
        if self.stream is None:
            self.close("end of session")
        else:
            self.pump(now)

    def _end_session(self) -> None:
        self.session.end_session()
        self._write_session()
        self.close("end of session")

    def close(self, reason: str) -> None:
        """Close our side once what was written is out, and the connection when the client closes its own, or after
        ``LINGER_NS``. Until then its input is read and dropped: Linux answers input that nobody has read with a
        reset, and a reset takes what the client has not received yet with it."""
        self._leave(reason)
        if not self.transport.is_closing():
            self.transport.write_eof()
            self.transport.resume_reading()

    def cut(self, reason: str) -> None:
        """Close at once."""
        self._leave(reason)
        self.transport.abort()

    def _leave(self, reason: str) -> None:
        if not self.end_reason:
            self.end_reason = reason
            self._end_by_ns = self.gateway.clock() + LINGER_NS
            if self.stream is not None:
                self.stream.set_line()
            if self._line != NO_LINE:
                os.close(self._line)
                self._line = NO_LINE
            self.gateway.leaving(self)


def _complaint(payload: bytes) -> str:
    """Why this is no message, in the words of the wire layer, and which order it was meant for."""
    try:
        ouch.decode_inbound(payload)
    except WireError as error:
        return f"{error}{_order_meant(payload)}"
    return "a message that cannot be read"


def _order_meant(payload: bytes) -> str:
    message = ouch.INBOUND.get(payload[:1])
    if message is None or len(payload) < (end := message.layout.offset("user_ref_num") + 4):
        return ""
    return f" (UserRefNum {int.from_bytes(payload[end - 4 : end], 'big')})"
