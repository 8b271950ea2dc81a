"""Puts one MoldUDP64 stream in order: several lines, gaps, re-requests, packets that come early, twice or never.

All numbers below `expected` have been delivered or given up. `horizon` is the first number nobody has spoken of yet.
What lies between is either held back or in a gap:

    delivered | expected ..gap.. | held | ..gap.. | held | horizon

A gap is asked for when it shows, in one request; an answer (a packet on the line RECOVERY) holds as much as fits, so
what is left of the gap is asked for at once. Without progress it is asked for again after `retry_ns`. After
`max_requests` in vain, or `hold_ns` where there is no re-request server, or when more would have to be held than
allowed, the gap is lost and the stream goes on behind it. A gap that begins where the last one ends is part of it.

One datagram alone never leads the stream elsewhere: another session, or a number more than `max_jump` ahead, is
believed when `CONFIRMATIONS` packets in a row say so. Those of the other session are held till then, so that nothing
of it is lost. A session that begins at 1 after the end of the last one needs no more than that.

No socket and no clock: times are integer nanoseconds of any clock that never goes back. One thread at a time.
"""

import heapq
from bisect import bisect_right
from dataclasses import dataclass, replace
from itertools import count as count_up
from operator import attrgetter
from typing import Final, Literal, NamedTuple

from venue.wire.layout import Bytes, WireError
from venue.wire.moldudp64.events import (
    Deliver,
    Duplicate,
    EndOfSession,
    FeedEvent,
    GapDetected,
    Heartbeat,
    Malformed,
    MessagesLost,
    RequestGap,
    SessionChanged,
    SessionStarted,
)
from venue.wire.moldudp64.packets import END_OF_SESSION_COUNT, HEADER, MAX_SEQUENCE, blocks_end

MILLISECOND_NS = 1_000_000
RECOVERY = -1
"""The line on which a re-request server's answers come."""
CONFIRMATIONS: Final = 3
"""How many packets in a row must say that the stream has gone elsewhere."""


@dataclass(slots=True)
class LineCounters:
    """What came on one line. `messages` arrived here first; `duplicates` are messages that were no longer needed;
    `malformed` (or not believed) and `stale` (of a session that is over, or an answer for another one) are packets,
    dropped whole."""

    packets: int = 0
    messages: int = 0
    duplicates: int = 0
    malformed: int = 0
    stale: int = 0


@dataclass(slots=True)
class _Gap:
    """Numbers first .. end - 1; none once all have come. `asked` is the first number of the last request, `deadline`
    when that is overdue."""

    first: int
    end: int
    asked: int
    requests: int
    deadline: int
    lost: bool = False


class _Packet(NamedTuple):
    """One that is whole. `size` is the count of the header, maybe END_OF_SESSION_COUNT; `blocks` is a copy."""

    line: int
    session: str
    sequence: int
    size: int
    blocks: bytes


_END = attrgetter("end")


class Receiver:
    """One stream. With `join` "now" the first packet says where to begin, with "start" a session begins at 1 and what
    was sent before is asked for. `request_limit` is the largest count in a request; `hold_packets` bounds the gaps
    too."""

    def __init__(
        self,
        *,
        lines: int = 1,
        join: Literal["now", "start"] = "now",
        request_server: bool = True,
        retry_ns: int = 100 * MILLISECOND_NS,
        max_requests: int = 5,
        request_limit: int = 1000,
        hold_ns: int = 50 * MILLISECOND_NS,
        hold_packets: int = 8192,
        hold_bytes: int = 8 << 20,
        max_jump: int = 1_000_000,
    ) -> None:
        self.session: str | None = None
        self.expected = 0
        """The next number to deliver. While `in_order`, the owner may deliver messages itself and raise this."""
        self.lines = [LineCounters() for _ in range(lines + 1)]
        """By line; the last one, lines[RECOVERY], counts the re-request server's answers."""
        self._join: Literal["now", "start"] = join
        self._request_server = request_server
        self._wait_ns = retry_ns if request_server else hold_ns
        self._max_requests = max_requests
        self._request_limit = request_limit
        self._hold_packets = hold_packets
        self._hold_bytes = hold_bytes
        self._horizon = 0
        self._max_jump = max_jump
        self._gaps: list[_Gap] = []
        self._due: list[tuple[int, int, int, _Gap]] = []  # a heap; one entry a gap, never later than its deadline
        self._serials = count_up()
        self._held: list[tuple[int, int, bytes]] = []  # a heap of (sequence, count, blocks)
        self._held_bytes = 0
        self._end: int | None = None
        self._over: str | None = None
        self._strays: list[_Packet] = []  # of one other session
        self._far: list[int] = []  # numbers beyond max_jump, in a row

    @property
    def in_order(self) -> bool:
        """Nothing is missing and nothing held: a packet of `session` that begins at `expected` can be delivered by
        the owner without `receive`, if it then calls `advance` (or sets `expected`)."""
        return not self._gaps and self._is_plain

    @property
    def _is_plain(self) -> bool:
        """The stream has a next message, and no packet before it waits for others to be believed."""
        return not self._strays and not self._far and self.session != self._over and self._end is None

    @property
    def horizon(self) -> int:
        """While `missing`: the first number nobody has spoken of yet."""
        return self._horizon

    @property
    def gaps_end(self) -> int:
        """Behind the last number missing; 0 if nothing is, or if `receive` has to see every packet. Packets of
        `session` that begin here or behind, but not behind `horizon`, bring nothing that is missing: the owner may
        drop what they repeat and give what is new to `hold`."""
        return self._gaps[-1].end if self._gaps and self._is_plain else 0

    @property
    def missing(self) -> bool:
        """There is a gap, neither closed nor given up."""
        return bool(self._gaps)

    def advance(self, count: int, line: int = 0) -> None:
        """The owner has itself delivered `count` messages, from `expected` on, that came on `line`."""
        self.expected += count
        self.lines[line].messages += count

    def hold(self, line: int, count: int, blocks: bytes) -> list[FeedEvent]:
        """While `gaps_end` is not 0: `count` more messages, from `horizon` on, came on `line`, maybe in several
        packets. `blocks` is whole blocks. What this leads to, which is nothing unless the bounds are reached."""
        events: list[FeedEvent] = []
        self.lines[line].messages += count
        heapq.heappush(self._held, (self._horizon, count, blocks))
        self._held_bytes += len(blocks)
        self._horizon += count
        self._keep_bounds(events)
        return events

    def receive(self, line: int, packet: Bytes, now: int) -> list[FeedEvent]:
        """What this datagram leads to, in order. Whatever it holds, nothing is raised and nothing grows beyond the
        bounds. `line` counts from 0, RECOVERY for answers to requests."""
        counters = self.lines[line]
        counters.packets += 1
        try:
            session, sequence, count = HEADER.read(packet)
            messages = 0 if count == END_OF_SESSION_COUNT else count
            if not 1 <= sequence <= MAX_SEQUENCE - messages:
                raise WireError(f"sequence number {sequence} is out of range")
            end = blocks_end(packet, messages, HEADER.size)
        except WireError as error:
            counters.malformed += 1
            return [Malformed(str(error))]
        events: list[FeedEvent] = []
        self._hear(_Packet(line, session, sequence, count, bytes(packet[HEADER.size : end])), now, events)
        return events

    def next_timer(self) -> int | None:
        """When to call `handle_timer` next, if nothing comes before."""
        while self._due:
            deadline, _, _, gap = self._due[0]
            if gap.lost or gap.first == gap.end:
                heapq.heappop(self._due)
            elif gap.deadline > deadline:
                heapq.heapreplace(self._due, (gap.deadline, gap.first, next(self._serials), gap))
            else:
                return deadline
        return None

    def handle_timer(self, now: int) -> list[FeedEvent]:
        """Asks again for gaps that are overdue, or gives them up. Calling it early does no harm."""
        events: list[FeedEvent] = []
        while (deadline := self.next_timer()) is not None and deadline <= now:
            gap = self._due[0][-1]
            if self._request_server and gap.requests < self._max_requests:
                self._request(gap, now, events)
            else:
                gap.lost = True
        self._drain(events)
        return events

    # --- where the stream is --------------------------------------------------------------------------------------

    def _hear(self, packet: _Packet, now: int, events: list[FeedEvent]) -> None:
        """One packet that is whole, of whatever session."""
        if packet.session == self._over:
            self.lines[packet.line].stale += 1
            return
        if self.session is None:
            self._start(packet.session, packet.sequence, now, events)
        if packet.session != self.session:
            self._stray(packet, now, events)
            return
        self._horizon = max(self._horizon, self.expected)
        if packet.size == END_OF_SESSION_COUNT and packet.sequence < self.expected:
            self._reject(packet, f"an end at {packet.sequence}, with {self.expected} expected", events)
        elif self._is_far(packet.sequence):
            self._reject(packet, f"sequence number {packet.sequence} is far beyond {self._horizon}", events)
        else:
            self._drop_strays(events)
            self._follow(packet, now, events)

    def _follow(self, packet: _Packet, now: int, events: list[FeedEvent]) -> None:
        """A packet of this session with a number that can be."""
        self._announce(packet.sequence, now, events)
        if packet.size == END_OF_SESSION_COUNT:
            self._end = packet.sequence
        elif packet.size:
            self._take(packet, now, events)
        else:
            events.append(Heartbeat(packet.sequence))
        self._drain(events)
        self._keep_bounds(events)

    def _keep_bounds(self, events: list[FeedEvent]) -> None:
        """Gives gaps up, the first ones first, till no more is held than allowed."""
        while (
            len(self._held) > self._hold_packets
            or self._held_bytes > self._hold_bytes
            or len(self._gaps) > self._hold_packets
        ):
            self._gaps[0].lost = True
            self._drain(events)

    def _is_far(self, sequence: int) -> bool:
        """Whether a number is too far ahead to be believed, for now."""
        if sequence - self._horizon <= self._max_jump:
            self._far.clear()
            return False
        if self._far and abs(sequence - self._far[-1]) > self._max_jump:
            self._far.clear()
        self._far.append(sequence)
        if len(self._far) < CONFIRMATIONS:
            return True
        self._far.clear()
        return False

    def _stray(self, packet: _Packet, now: int, events: list[FeedEvent]) -> None:
        """A packet of another session: a stray one, or the first of a new session."""
        if packet.line == RECOVERY:  # a server answers; what the stream is, the lines say
            self.lines[RECOVERY].stale += 1
            return
        if self._strays and self._strays[0].session != packet.session:
            self._drop_strays(events)
        self._strays.append(packet)
        begins = self.session == self._over and packet.sequence == 1
        if begins or len(self._strays) == CONFIRMATIONS:
            strays, self._strays = self._strays, []
            self._start(packet.session, min(stray.sequence for stray in strays), now, events)
            for stray in strays:
                self._hear(stray, now, events)

    def _drop_strays(self, events: list[FeedEvent]) -> None:
        for stray in self._strays:
            self._reject(stray, f"a stray packet of session {stray.session!r}", events)
        self._strays.clear()

    def _reject(self, packet: _Packet, reason: str, events: list[FeedEvent]) -> None:
        self.lines[packet.line].malformed += 1
        events.append(Malformed(reason))

    def _start(self, session: str, sequence: int, now: int, events: list[FeedEvent]) -> None:
        """Leaves the session so far, if there is one, and joins this one."""
        if self.session is not None:
            for gap in self._gaps:
                gap.lost = True
            self._drain(events)
            events.append(SessionChanged(self.session, session))
        self.session = session
        self.expected = self._horizon = 1 if self._join == "start" else sequence
        self._end = None
        self._far.clear()
        events.append(SessionStarted(session, self.expected))
        self._announce(sequence, now, events)  # however far: the number of a first packet has nothing to be far from

    # --- gaps -----------------------------------------------------------------------------------------------------

    def _announce(self, sequence: int, now: int, events: list[FeedEvent]) -> None:
        """Everything below `sequence` has been sent: what nobody has spoken of yet is a gap."""
        if sequence <= self._horizon:
            return
        first, self._horizon = self._horizon, sequence
        events.append(GapDetected(first, sequence - first))
        if self._gaps and self._gaps[-1].end == first and not self._gaps[-1].lost:
            self._gaps[-1].end = sequence  # asked for with what is left of that gap
            return
        gap = _Gap(first, sequence, asked=0, requests=0, deadline=now)
        self._gaps.append(gap)
        self._request(gap, now, events)
        self._watch(gap)

    def _watch(self, gap: _Gap) -> None:
        """Remember the gap's deadline. Entries of gaps that are gone stay only while they are few."""
        heapq.heappush(self._due, (gap.deadline, gap.first, next(self._serials), gap))
        if len(self._due) > 2 * len(self._gaps) + 64:
            self._due = [(gap.deadline, gap.first, next(self._serials), gap) for gap in self._gaps if not gap.lost]
            heapq.heapify(self._due)

    def _request(self, gap: _Gap, now: int, events: list[FeedEvent]) -> None:
        """Asks for the gap, or for its beginning, and starts its clock."""
        gap.deadline = now + self._wait_ns
        if self._request_server:
            gap.asked = gap.first
            gap.requests += 1
            count = min(gap.end - gap.first, self._request_limit)
            assert self.session is not None
            events.append(RequestGap(self.session, gap.first, count))

    def _take(self, packet: _Packet, now: int, events: list[FeedEvent]) -> None:
        """One data packet of the session."""
        line, _, sequence, count, blocks = packet
        end = sequence + count
        fresh = max(0, end - max(sequence, self._horizon))
        self._horizon = max(self._horizon, end)
        filled, rest = self._fill(sequence, end)
        fresh += filled
        self.lines[line].messages += fresh
        self.lines[line].duplicates += count - fresh
        if not fresh:
            events.append(Duplicate(count))
            return
        heapq.heappush(self._held, (sequence, count, blocks))
        self._held_bytes += len(blocks)
        self._drain(events)
        if rest is not None:  # what has come shows that more may: the clock and the count of requests start anew
            rest.deadline, rest.requests = now + self._wait_ns, min(rest.requests, 1)
            if line == RECOVERY and sequence == rest.asked:
                self._request(rest, now, events)

    def _fill(self, first: int, end: int) -> tuple[int, _Gap | None]:
        """Takes first .. end - 1 out of the gaps. Returns how many numbers that were, and what is left of a gap whose
        beginning has come."""
        low = high = bisect_right(self._gaps, first, key=_END)
        filled, pieces, rest, split = 0, [], None, None
        while high < len(self._gaps) and self._gaps[high].first < end:
            gap = self._gaps[high]
            high += 1
            before, after = max(gap.first, first), min(gap.end, end)
            filled += after - before
            if gap.first < before:
                pieces.append(gap)
                if after < gap.end:
                    split = replace(gap, first=after)
                    pieces.append(split)
                gap.end = before
            else:
                gap.first = after
                if after < gap.end:
                    pieces.append(gap)
                    rest = None if gap.lost else gap
        self._gaps[low:high] = pieces
        if split is not None:
            self._watch(split)
        return filled, rest

    def _drain(self, events: list[FeedEvent]) -> None:
        """Delivers what is in order now, steps over what is lost, and reports the end when all is said."""
        while True:
            if self._held and self._held[0][0] <= self.expected:
                self._deliver(*heapq.heappop(self._held), events)
            elif self._gaps and self._gaps[0].lost:
                gap = self._gaps.pop(0)
                self.expected = gap.end
                events.append(MessagesLost(gap.first, gap.end - gap.first))
            else:
                break
        if self._end is not None and self.expected >= self._end:
            events.append(EndOfSession(self._end))
            self._over, self._end = self.session, None

    def _deliver(self, sequence: int, count: int, blocks: bytes, events: list[FeedEvent]) -> None:
        self._held_bytes -= len(blocks)
        known = self.expected - sequence
        if known >= count:
            return
        if known:
            blocks = blocks[blocks_end(blocks, known) :]
        events.append(Deliver(self.expected, count - known, blocks))
        self.expected = sequence + count
