"""Replays a capture as a MoldUDP64 feed: paced by the recorded times, with heartbeats and a re-request server.

A BinaryFILE is packed anew: session names of our own, sequence numbers from 1, up to 1,400 bytes a packet. Its records
are message blocks already, so a packet is a header and a slice of the file. A pcap goes out packet by packet as it was
recorded, session and sequence numbers kept, unless symbols are picked from it, which makes it a feed of its own.

Pacing is from absolute deadlines: the message recorded t after the first is due t / speed after the loop began,
whatever happened before, so nothing adds up. Messages that are due at the same moment share packets. When sending falls
behind, everything overdue goes out at once and the delay of the oldest is the replay lag.

At maximum speed only the receivers hold the packets back: after every 32 packets waiting requests are answered, and as
long as each is followed by another within 2 ms (at most a second on end), nothing new is sent. So a receiver whose
socket buffer overflows finds what it lost through the request server, before that has left the window of what is kept.

Everything runs in the thread that calls `run`; the Line stands for sockets and clock.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from venue.wire.layout import WireError
from venue.wire.moldudp64 import END_OF_SESSION_COUNT, Header, Request, blocks_end, end_of_session, heartbeat
from venue_clients.capture import Capture, CapturedPacket
from venue_clients.faults import Faults
from venue_clients.line import Address, Line
from venue_clients.records import Chunk, Int64s, SymbolFilter
from venue_clients.sent import BLOCKS_LIMIT_BYTES, SentMessages

SECOND_NS = 1_000_000_000
HEARTBEAT_NS = SECOND_NS
WINDOW_BYTES = 256 * 1_048_576
_PACKETS_BETWEEN_REQUESTS = 32
_CATCH_UP_NS = 2_000_000
_SESSIONS_KEPT = 2
_NEVER_NS = 2**63 - 1


@dataclass
class ReplayStats:
    """Running figures; another thread may read them at any time. Faults on purpose do not change the first five."""

    messages: int = 0
    packets: int = 0
    sent_bytes: int = 0
    heartbeats: int = 0
    loops: int = 0
    requests: int = 0
    """Requests answered."""
    retransmitted: int = 0
    """Messages sent again in answers."""
    unanswered: int = 0
    """Requests that made no sense or asked for what is not kept (any more)."""
    filtered: int = 0
    """Messages left out because of their symbol."""
    first_recorded_ns: int | None = None
    recorded_ns: int = 0
    """The recorded clock: time of the message sent last; since midnight, or since the epoch for packets of a pcap."""
    lag_ns: int = 0
    max_lag_ns: int = 0
    started_ns: int = 0
    finished_ns: int | None = None
    """When the last message had been sent, by the Line's clock."""
    skipped: dict[str, int] = field(default_factory=dict)
    """What the capture held besides usable messages."""
    symbols_not_seen: list[str] = field(default_factory=list)

    def seconds(self, now_ns: int) -> float:
        """How long the sending has taken so far; the time spent waiting for late requests does not count."""
        return ((now_ns if self.finished_ns is None else self.finished_ns) - self.started_ns) / 1e9


class Pace:
    """When a recorded moment is due. `speed` is a factor, or None for as fast as possible, which is also how all that
    was recorded before `from_ns` goes."""

    def __init__(self, speed: float | None, from_ns: int = 0) -> None:
        self._speed = speed
        self._from_ns = from_ns
        self._first_ns: int | None = None
        self._start_ns = 0

    def deadlines_ns(self, times_ns: Int64s, now_ns: int) -> list[int] | None:
        """Deadlines for recorded times, the first one that is paced being due now; None when there are none to keep."""
        if self._speed is None or int(times_ns[-1]) < self._from_ns:
            return None
        if self._first_ns is None:
            self._first_ns, self._start_ns = max(int(times_ns[0]), self._from_ns), now_ns
        after_ns = np.maximum(times_ns - self._first_ns, 0)
        due: list[int] = (np.rint(after_ns / self._speed).astype(np.int64) + self._start_ns).tolist()
        return due


class Replay:
    """One replay of a capture over a Line.

    `speed` None is as fast as possible, and so goes all that was recorded before `from_ns`, a time as in
    `ReplayStats.recorded_ns`: it builds the books up to there. `loops` None is for ever; each loop is a session of its
    own. `window_bytes` bounds what is kept for requests. After each loop end-of-session packets go out every second
    until `linger_s` have passed without a request. `session` begins the names of our sessions (up to 7 letters or
    digits); by default it comes from the time of day, so that a receiver never takes a second replay for duplicates of
    the first.

    `run` returns when everything has been sent, or soon after `stop`.
    """

    def __init__(
        self,
        capture: Capture,
        line: Line,
        *,
        speed: float | None = 1.0,
        from_ns: int = 0,
        loops: int | None = 1,
        symbols: Iterable[str] = (),
        faults: Faults | None = None,
        window_bytes: int = WINDOW_BYTES,
        linger_s: float = 2.0,
        session: str | None = None,
    ) -> None:
        if speed is not None and not 0 < speed < float("inf"):
            raise ValueError(f"the speed is a factor above 0, not {speed}")
        self.capture = capture
        self.stats = ReplayStats()
        self.faults = faults or Faults()
        self._line = line
        self._speed = speed
        self._from_ns = from_ns
        self._paced = speed is not None
        self._loops = loops
        self._symbols = tuple(symbols)
        self._window_bytes = window_bytes
        self._linger_ns = int(linger_s * SECOND_NS)
        self._session_prefix = _base36(int(time.time()), 7) if session is None else session
        self._sessions_named = 0
        self._stores: dict[str, SentMessages] = {}
        self._next: dict[str, int] = {}  # sequence number to come, of the sessions in _stores
        self._session = ""
        self._heartbeat_due_ns = _NEVER_NS
        self._stopped = False

    def stop(self) -> None:
        """End the replay: `run` says end of session and returns. Any thread and a signal handler may call it."""
        self._stopped = True
        self._line.wake()

    def run(self) -> ReplayStats:
        """Send it all. Blocks the calling thread; raises CaptureError if the file cannot be read (any more)."""
        stats = self.stats
        stats.started_ns = finished_ns = self._line.now_ns()
        while not self._stopped and (self._loops is None or stats.loops < self._loops):
            before = stats.messages
            if self.capture.has_packets and not self._symbols:
                self._send_recorded()
            else:
                self._send_repacked()
            stats.loops += not self._stopped
            finished_ns = self._line.now_ns()
            self._end_session()
            if stats.messages == before:
                break  # nothing in it to send: looping would only spin
        stats.finished_ns = finished_ns
        return stats

    def _send_repacked(self) -> None:
        symbol_filter = SymbolFilter(self._symbols) if self._symbols else None
        pace = Pace(self._speed, self._from_ns)
        self._begin_session(self._new_session_name())
        for chunk in self.capture.chunks():
            if self._stopped:
                break
            kept = chunk if symbol_filter is None else symbol_filter.apply(chunk)
            self.stats.filtered += len(chunk) - len(kept)
            if len(kept):
                self._send_chunk(kept, pace)
            self.stats.skipped = dict(self.capture.skipped)
        self.stats.skipped = dict(self.capture.skipped)
        self.stats.symbols_not_seen = sorted(symbol_filter.not_seen) if symbol_filter else []

    def _send_chunk(self, chunk: Chunk, pace: Pace) -> None:
        """Pack and send a chunk's records as they become due."""
        self._stores[self._session].add(self._next[self._session], chunk.block, chunk.bounds)
        bounds: list[int] = chunk.bounds.tolist()
        deadlines = pace.deadlines_ns(chunk.times_ns, self._line.now_ns())
        self._paced = deadlines is not None
        if self.stats.first_recorded_ns is None:
            self.stats.first_recorded_ns = int(chunk.times_ns[0])
        at, end = 0, len(chunk)
        while at < end and not self._stopped:
            due = end
            if deadlines is not None:
                self._wait_until(deadlines[at])
                if self._stopped:
                    return
                due = bisect_right(deadlines, self._note_lag(deadlines[at]), at + 1)
            due = self._send_records(chunk.block, bounds, at, due)
            self.stats.recorded_ns = int(chunk.times_ns[due - 1])
            at = due

    def _send_records(self, block: bytes, bounds: list[int], at: int, end: int) -> int:
        """Send records `at` to `end` in as few packets as they fit; returns how far it came before a stop."""
        session, sequence = self._session, self._next[self._session]
        while at < end:
            upto = bisect_right(bounds, bounds[at] + BLOCKS_LIMIT_BYTES, at + 1, end + 1) - 1
            count = upto - at
            self._send(Header(session, sequence, count).encode() + block[bounds[at] : bounds[upto]])
            at = upto
            sequence += count
            self._next[session] = sequence
            self.stats.messages += count
            if self.stats.packets % _PACKETS_BETWEEN_REQUESTS == 0:
                self._catch_up()
                if self._stopped:
                    break
        return at

    def _send_recorded(self) -> None:
        """Send a pcap's packets as they were; only a second loop needs session names of its own."""
        pace = Pace(self._speed, self._from_ns)
        names: dict[str, str] = {}
        recorded_ns = 0
        for packet in self.capture.packets():
            recorded_ns = max(recorded_ns, packet.time_ns)
            deadlines = pace.deadlines_ns(np.array([recorded_ns], np.int64), self._line.now_ns())
            self._paced = deadlines is not None
            if deadlines is not None:
                self._wait_until(deadlines[0])
            if self._stopped:
                break
            if deadlines is not None:
                self._note_lag(deadlines[0])
            name = packet.session
            if self.stats.loops:
                if len(names) > 1_000:
                    names.clear()
                name = names.get(name) or names.setdefault(name, self._new_session_name())
            if self.stats.first_recorded_ns is None:
                self.stats.first_recorded_ns = recorded_ns
            self.stats.recorded_ns = recorded_ns
            self._send_packet(packet, name)
            self.stats.skipped = self.capture.skipped
            if self.stats.packets % _PACKETS_BETWEEN_REQUESTS == 0:
                self._catch_up()
        self.stats.skipped = dict(self.capture.skipped)

    def _send_packet(self, packet: CapturedPacket, session: str) -> None:
        count = 0 if packet.count == END_OF_SESSION_COUNT else packet.count
        self._begin_session(session)
        if count:
            bounds = [0]
            for _ in range(count):
                bounds.append(blocks_end(packet.blocks, 1, bounds[-1]))
            self._stores[session].add(packet.sequence, packet.blocks, np.array(bounds, np.int64))
        self._next[session] = max(self._next[session], packet.sequence + count)
        self._send(Header(session, packet.sequence, packet.count).encode() + packet.blocks)
        self.stats.messages += count

    def _new_session_name(self) -> str:
        self._sessions_named += 1
        return self._session_prefix + _base36(self._sessions_named, 3)

    def _begin_session(self, session: str) -> None:
        self._session = session
        if session not in self._stores:
            if len(self._stores) == _SESSIONS_KEPT:
                oldest = next(iter(self._stores))
                del self._stores[oldest], self._next[oldest]
            self._stores[session] = SentMessages(self._window_bytes)
            self._next[session] = 1

    def _send(self, packet: bytes) -> None:
        for each in self.faults.apply(packet):
            self._line.send(each)
            self.stats.sent_bytes += len(each)
        self.stats.packets += 1
        self._heartbeat_due_ns = self._line.now_ns() + HEARTBEAT_NS

    def _note_lag(self, deadline_ns: int) -> int:
        """Returns the time now."""
        now_ns = self._line.now_ns()
        self.stats.lag_ns = max(0, now_ns - deadline_ns)
        self.stats.max_lag_ns = max(self.stats.max_lag_ns, self.stats.lag_ns)
        return now_ns

    def _wait_until(self, deadline_ns: int) -> None:
        """Answer requests and send heartbeats until then, or until stopped."""
        while not self._stopped and self._line.now_ns() < deadline_ns:
            self._serve(min(deadline_ns, self._heartbeat_due_ns))
            now_ns = self._line.now_ns()
            if self._heartbeat_due_ns <= now_ns < deadline_ns and not self._stopped:
                self.stats.heartbeats += 1
                for each in self.faults.apply(heartbeat(self._session, self._next[self._session])):
                    self._line.send(each)
                self._heartbeat_due_ns = now_ns + HEARTBEAT_NS

    def _end_session(self) -> None:
        """End-of-session packets in place of heartbeats, while receivers may still ask for what they lost."""
        for each in self.faults.flush():
            self._line.send(each)
        if self._session not in self._next:
            return
        self._heartbeat_due_ns = _NEVER_NS
        packet_due_ns = self._line.now_ns()
        end_ns = packet_due_ns + self._linger_ns
        while True:
            if self._line.now_ns() >= packet_due_ns:
                self._line.send(end_of_session(self._session, self._next[self._session]))
                packet_due_ns += HEARTBEAT_NS
            if self._stopped or self._line.now_ns() >= end_ns:
                return
            if self._serve(min(end_ns, packet_due_ns)):
                end_ns = self._line.now_ns() + self._linger_ns

    def _catch_up(self) -> None:
        """Answer what has been asked; at maximum speed also wait for the next question of a receiver that is behind."""
        if not self._serve(0) or self._paced:
            return
        end_ns = self._line.now_ns() + SECOND_NS
        while not self._stopped and self._line.now_ns() < end_ns:
            if not self._serve(self._line.now_ns() + _CATCH_UP_NS):
                return

    def _serve(self, until_ns: int) -> int:
        """Wait for requests, not past `until_ns`, and answer them; returns how many got an answer."""
        answered = 0
        for data, address in self._line.wait(until_ns):
            answered += self._answer(data, address)
        return answered

    def _answer(self, data: bytes, address: Address) -> bool:
        """One packet for a request, or silence where it cannot be answered (MoldUDP64 1.00 knows no error reply)."""
        try:
            request = Request.decode(data[: Request.layout.size])
        except WireError:
            self.stats.unanswered += 1
            return False
        store = self._stores.get(request.session)
        count, blocks = 0, b""
        if store is not None:
            sent = self._next[request.session] - request.sequence
            count, blocks = store.answer(request.sequence, min(request.count, sent))
        if not count:
            self.stats.unanswered += 1
            return False
        self._line.reply(Header(request.session, request.sequence, count).encode() + blocks, address)
        self.stats.requests += 1
        self.stats.retransmitted += count
        return True


def _base36(number: int, width: int) -> str:
    digits = ""
    for _ in range(width):
        number, digit = divmod(number, 36)
        digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[digit] + digits
    return digits
