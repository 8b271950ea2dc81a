"""The feed: ITCH messages over MoldUDP64 over UDP, from one or two lines, onto the command ring.

Packets in order pass through compiled code only (:mod:`venue.engine.feed_packets`). Everything else goes to
:class:`venue.wire.moldudp64.Receiver`, which keeps the stream in order, and what it delivers goes to the ring in the
same way. What comes behind a gap is gathered by compiled code, too, and held by the batch: the feed has to be read as
fast as ever while something is missing, or the kernel drops more of it and there is no end to gaps.

If an eighth of the ring is in use, reading stops, since orders come over the same ring and should find few commands
before them: datagrams wait in the socket, and what the kernel drops when that is full too is a gap like any other.

Where a stream begins is ``feed.join``: with "start" what was sent before the first packet is a gap, asked for if there
is a request server and otherwise soon given up; with "now" the day begins with that packet. The books are flagged as
incomplete (``FEED_LOSS``) when messages are lost for good, and when the stream begins behind message 1. A new session
(``FEED_RESET``) makes the engine forget every recorded order.

Everything here runs in the loop thread.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections import deque
from dataclasses import dataclass
from typing import Final

import numpy as np

from venue import config
from venue.engine import ring
from venue.engine.counters import FEED
from venue.engine.feed_codec import (
    DONE,
    EXPECTED,
    INDEX,
    NEEDS_INSTRUMENT,
    POSITION,
    PROGRESS_WORDS,
    RING_FULL,
    TAKEN,
    Decoder,
    decode_blocks,
    put,
)
from venue.engine.feed_packets import count_datagram, gather, receive, session_words
from venue.engine.link import Link
from venue.engine.records import COMMAND, FEED_LOSS, FEED_RESET, Array
from venue.engine.symbols import IGNORED, NONE
from venue.feed_sockets import FeedLine, FeedSockets, dropped_datagrams, receive_buffer_bytes
from venue.instruments import Instruments
from venue.sparing_log import SparingLog
from venue.telemetry.page import Views
from venue.wire import itch
from venue.wire.moldudp64 import (
    RECOVERY,
    Deliver,
    EndOfSession,
    FeedEvent,
    GapDetected,
    Heartbeat,
    Malformed,
    MessagesLost,
    Receiver,
    Request,
    RequestGap,
    SessionChanged,
    SessionStarted,
)

log = logging.getLogger("venue.feed")

STEPS_A_TURN: Final = 64
"""How many steps in Python (a packet out of order, a new stock) before others get their turn; each takes some 10 µs."""
RING_SHARE: Final = 1 / 8
"""How much of the command ring the feed may fill: an order waits for what is there before it."""
RETRY_S: Final = 0.001  # uvloop counts whole milliseconds: anything less is a busy loop
"""How long to wait for room on the command ring."""
GRACE_S: Final = 0.05
"""After a wait, before a gap may time out: its messages may have been in the socket all the time."""
TICK_S: Final = 1.0

YIELD: Final = -1
"""A turn ended with work left."""

NAMES_A_STOCK: Final = (
    itch.StockDirectory,
    itch.StockTradingAction,
    itch.AddOrder,
    itch.AddOrderMpid,
    itch.Trade,
    itch.CrossTrade,
)


@dataclass(frozen=True, slots=True)
class FeedStatus:
    """Where the feed is. ``session`` is None before the first packet; ``ended`` after an end of session."""

    session: str | None
    next_sequence: int
    ended: bool


class Feed:
    """Reads the feed's sockets, from :meth:`start` to :meth:`stop`, and writes to the command ring.

    ``market_offset_ns`` is market time less monotonic clock.
    """

    def __init__(
        self, link: Link, page: Views, instruments: Instruments, settings: config.Feed, market_offset_ns: int
    ) -> None:
        self._instruments = instruments
        self._market_offset_ns = market_offset_ns
        self._counters = page.feed
        self._decoder = Decoder(
            commands=link.commands,
            limit=max(1, int(len(link.commands.records) * RING_SHARE)),
            wake=link.command_wake,
            counters=page.feed,
            locates=instruments.locates,
            symbols=instruments.table,
            progress=np.zeros(PROGRESS_WORDS, np.int64),
            scratch=np.zeros(2, np.int64),
        )
        self._receiver = Receiver(
            lines=2 if settings.line_b else 1, join=settings.join, request_server=bool(settings.request_server)
        )
        self._session = session_words("")
        self._unsettled = 0  # messages of gaps that have neither come nor been given up
        self._pending: deque[Deliver | MessagesLost | SessionChanged | SessionStarted] = deque()
        self._position = 0  # in the first of these
        self._released_ns = 0  # when the datagram came that released them
        self._steps = 0
        self._lines: list[FeedLine] = []
        self._requests: socket.socket | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._turn_handle: asyncio.Handle | None = None
        self._gap_timer: asyncio.TimerHandle | None = None
        self._tick_timer: asyncio.TimerHandle | None = None
        self._reading = False
        self._complaints = SparingLog(log)

    def warm_up(self) -> None:
        """Compile all that is called later; before the matching thread starts. Takes seconds the first time."""
        spare = self._decoder._replace(commands=ring.create(2, COMMAND), limit=2, wake=-1, counters=np.zeros(1, FEED))
        put(spare, FEED_LOSS, 0)
        decode_blocks(spare, np.zeros(0, np.uint8), 0, 0, 0)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as unused:
            unused.setblocking(False)
            line = FeedLine(0, unused)
            line.read()
            receive(spare, line.reader.batch, 0, self._session, 0, 0)
            gather(line.reader.batch, 0, self._session, 0, 1, spare.progress, spare.counters)
        count_datagram(spare.counters, 0, 0)
        Instruments(1).add("A")

    def start(self, sockets: FeedSockets) -> None:
        """Read from these sockets from now on, in the running loop. They belong to the feed after this."""
        self._loop = asyncio.get_running_loop()
        self._lines = [FeedLine(number, line) for number, line in enumerate(sockets.lines)]
        self._counters[0]["receive_buffer_bytes"] = min(receive_buffer_bytes(line) for line in sockets.lines)
        self._requests = sockets.requests
        if sockets.requests is not None:
            self._lines.append(FeedLine(RECOVERY, sockets.requests))
        self._read(True)
        self._tick()

    def stop(self) -> None:
        """Close the sockets. What has not reached the ring is dropped."""
        self._read(False)
        for handle in (self._turn_handle, self._gap_timer, self._tick_timer):
            if handle is not None:
                handle.cancel()
        for line in self._lines:
            line.socket.close()
        self._lines = []

    def status(self) -> FeedStatus:
        session = self._receiver.session
        ended = session is not None and not self._counters[0]["session_open"]
        return FeedStatus(session, self._receiver.expected, ended)

    # --- turns ----------------------------------------------------------------------------------------------------

    def _read(self, on: bool) -> None:
        if on == self._reading:
            return
        assert self._loop is not None
        self._reading = on
        for line in self._lines:
            if on:
                self._loop.add_reader(line.socket, self._readable, line)
            else:
                self._loop.remove_reader(line.socket)

    def _readable(self, line: FeedLine) -> None:
        if line.index == line.count:
            line.read()
        if self._turn_handle is None:
            self._turn()

    def _turn(self) -> None:
        """Do some of the work that is there; if some is left, see to it that it goes on."""
        assert self._loop is not None
        self._turn_handle = None
        self._steps = STEPS_A_TURN
        code = self._work()
        if code == RING_FULL:
            if self._reading:
                self._counters[0]["command_ring_full"] += 1
                self._read(False)
            self._turn_handle = self._loop.call_later(RETRY_S, self._turn)
        else:
            if not self._reading:
                self._read(True)
                self._cancel_gap_timer()
                self._arm_gap_timer(GRACE_S)
            if code == YIELD:
                self._turn_handle = self._loop.call_soon(self._turn)
        self._counters[0]["next_sequence"] = self._receiver.expected

    def _work(self) -> int:
        """``DONE``, ``RING_FULL`` or ``YIELD``."""
        code = self._apply()
        for line in self._lines:
            while code == DONE and line.index < line.count:
                code = self._next_datagrams(line)
        return code

    def _next_datagrams(self, line: FeedLine) -> int:
        """Go on in the batch that was read from this line: as far as a fast path leads, then by one datagram."""
        if self._receiver.in_order:
            code = self._deliver_in_order(line)
            if code in (DONE, RING_FULL):
                return code
            if code == NEEDS_INSTRUMENT:
                self._learn(line.reader.batch.arena)
                return self._step()
        elif self._receiver.gaps_end:
            self._hold_behind_gaps(line)
        if line.index < line.count:
            self._give_to_receiver(line)
        code = self._apply()
        return self._step() if code == DONE else code

    def _step(self) -> int:
        self._steps -= 1
        return DONE if self._steps > 0 else YIELD

    def _deliver_in_order(self, line: FeedLine) -> int:
        progress, expected = self._decoder.progress, self._receiver.expected
        progress[INDEX], progress[TAKEN], progress[EXPECTED] = line.index, line.taken, expected
        batch = line.reader.batch
        code = int(receive(self._decoder, batch, line.count, self._session, line.number, line.ingress_ns))
        line.index, line.taken = int(progress[INDEX]), int(progress[TAKEN])
        self._receiver.advance(int(progress[EXPECTED]) - expected, line.number)
        return code

    def _hold_behind_gaps(self, line: FeedLine) -> None:
        """All that goes on where the stream ends so far, as one piece. With one datagram in a hundred lost and asked
        for again the feed keeps up with 3 M messages/s, and with 1 M/s packet by packet (two cores, 44 messages each).
        """
        progress, batch = self._decoder.progress, line.reader.batch
        lowest, horizon = self._receiver.gaps_end, self._receiver.horizon
        progress[INDEX], progress[EXPECTED] = line.index, horizon
        start, end = gather(batch, line.count, self._session, line.number, lowest, progress, self._counters)
        line.index = int(progress[INDEX])
        if end > start:
            count = int(progress[EXPECTED]) - horizon
            self._released_ns = line.ingress_ns
            self._note(self._receiver.hold(line.number, count, batch.arena[start:end].tobytes()))

    def _give_to_receiver(self, line: FeedLine) -> None:
        """One datagram that is not simply the next one."""
        datagram = line.reader.datagram(line.index)
        line.index += 1
        count_datagram(self._counters, 0 if datagram is None else len(datagram), line.number)
        if datagram is None:
            self._note([Malformed("a datagram is longer than any packet")])
            return
        tally = self._receiver.lines[line.number]
        messages, duplicates = tally.messages, tally.duplicates
        self._released_ns = line.ingress_ns
        events = self._receiver.receive(line.number, datagram, time.monotonic_ns())
        counters = self._counters[0]
        counters["duplicates"] += tally.duplicates - duplicates - line.taken
        line.taken = 0
        if tally.messages > messages:
            counters["packets_held"] += not any(isinstance(event, Deliver) for event in events)
            if line.number != RECOVERY:
                counters["line_first_arrivals"][line.number] += 1
        self._note(events)

    # --- what the receiver says -----------------------------------------------------------------------------------

    def _note(self, events: list[FeedEvent]) -> None:
        """Count, ask and log at once; keep what goes to the ring for :meth:`_apply`."""
        counters = self._counters[0]
        for event in events:
            match event:
                case Deliver():
                    self._pending.append(event)
                case Heartbeat():
                    counters["heartbeats"] += 1
                case Malformed(reason):
                    counters["packets_malformed"] += 1
                    self._complaints.warning("malformed packet dropped", reason=reason)
                case GapDetected(first, count):
                    counters["gaps"] += 1
                    self._unsettled += count
                    self._complaints.warning("messages missing", first=first, count=count)
                case RequestGap():
                    self._ask(event)
                case MessagesLost(first, count):
                    counters["missing_messages"] += count
                    self._unsettled -= count
                    self._pending.append(event)
                    self._complaints.warning("messages lost", first=first, count=count)
                case SessionChanged(old, new):
                    self._pending.append(event)
                    self._complaints.warning("another session", old=old, new=new)
                case SessionStarted(session, sequence):
                    counters["sessions_started"] += 1
                    self._session = session_words(session)
                    counters["session_open"] = 1
                    self._pending.append(event)
                    log.info("session begins", extra={"session": session, "sequence": sequence})
                case EndOfSession(next_sequence):
                    counters["session_open"] = 0
                    log.info("session ended", extra={"next_sequence": next_sequence})
        if self._receiver.missing:
            self._arm_gap_timer()
        else:
            counters["recovered_messages"] += self._unsettled
            self._unsettled = 0

    def _apply(self) -> int:
        """Put what is pending on the ring, in order: ``DONE``, ``RING_FULL`` or ``YIELD``."""
        while self._pending:
            event = self._pending[0]
            code = self._deliver(event) if isinstance(event, Deliver) else self._tell_engine(event)
            if code == RING_FULL:
                return RING_FULL
            if code == DONE:
                self._pending.popleft()
            if self._step() == YIELD:
                return YIELD if self._pending else DONE
        return DONE

    def _deliver(self, event: Deliver) -> int:
        # a copy that may be written to: the arena is, and an array that is not would compile everything a second time
        blocks: Array = np.frombuffer(bytearray(event.blocks), np.uint8)
        code = int(decode_blocks(self._decoder, blocks, self._position, len(blocks), self._released_ns))
        self._position = 0 if code == DONE else int(self._decoder.progress[POSITION])
        if code == NEEDS_INSTRUMENT:
            self._learn(blocks)
        return code

    def _tell_engine(self, event: MessagesLost | SessionChanged | SessionStarted) -> int:
        if isinstance(event, SessionStarted) and event.sequence == 1:
            return DONE
        kind = FEED_RESET if isinstance(event, SessionChanged) else FEED_LOSS
        if not put(self._decoder, kind, time.monotonic_ns() + self._market_offset_ns):
            return RING_FULL
        if kind == FEED_RESET:
            self._instruments.forget_locates()
        return DONE

    def _learn(self, data: Array) -> None:
        """Register the stock, or at least its locate, of the message at which the decoder stopped."""
        at = int(self._decoder.progress[POSITION])
        size = int.from_bytes(data[at : at + 2].tobytes(), "big")
        message = itch.decode(data[at + 2 : at + 2 + size].tobytes())
        assert isinstance(message, NAMES_A_STOCK)
        instrument = self._instruments.add(message.stock)
        self._instruments.map_locate(message.stock_locate, IGNORED if instrument == NONE else instrument)
        if instrument == NONE:
            self._complaints.warning("no room for a stock, see engine.instruments", stock=message.stock)

    def _ask(self, gap: RequestGap) -> None:
        assert self._requests is not None
        try:
            self._requests.send(Request(gap.session, gap.first, gap.count).encode())
            self._counters[0]["requests_sent"] += 1
        except OSError as error:  # the gap is asked for again when its time is up
            self._complaints.warning("request not sent", reason=error.strerror)

    # --- timers ---------------------------------------------------------------------------------------------------

    def _arm_gap_timer(self, at_least_s: float = 0.001) -> None:
        """Look after gaps when the first of them is due. A timer that is early does no harm."""
        if self._loop is None or self._gap_timer is not None:
            return
        if (deadline := self._receiver.next_timer()) is not None:
            delay_s = max((deadline - time.monotonic_ns()) / 1e9, at_least_s)
            self._gap_timer = self._loop.call_later(delay_s, self._gaps_due)

    def _cancel_gap_timer(self) -> None:
        if self._gap_timer is not None:
            self._gap_timer.cancel()
            self._gap_timer = None

    def _gaps_due(self) -> None:
        self._gap_timer = None
        if not self._reading:  # what is missing may wait in the socket: the end of the wait sets the timer again
            return
        self._released_ns = time.monotonic_ns()
        self._note(self._receiver.handle_timer(self._released_ns))
        if self._turn_handle is None:
            self._turn()

    def _tick(self) -> None:
        """Once a second: what did the kernel drop?"""
        assert self._loop is not None
        for line in self._lines:
            dropped = dropped_datagrams(line.socket)
            self._counters[0]["kernel_drops"] += (dropped - line.dropped) & 0xFFFFFFFF
            line.dropped = dropped
        self._tick_timer = self._loop.call_later(TICK_S, self._tick)
