"""Puts one MoldUDP64 stream in order: several lines, gaps, re-requests, packets that come early, twice or never.

All numbers below `expected` have been delivered or given up. `horizon` is the first number nobody has spoken of yet.
What lies between is either held back or in a gap:

    delivered | expected ..gap.. | held | ..gap.. | held | horizon

A gap is asked for when it shows, in one request; an answer (a packet on the line RECOVERY) holds as much as fits, so
what is left of the gap is asked for at once. Without progress it is asked for again after `retry_ns`. After
`max_requests` in vain, or `hold_ns` where there is no re-request server, or when more would have to be held than
allowed, the gap is lost and the stream goes on behind it.

No socket and no clock: times are integer nanoseconds of any clock that never goes back. One thread at a time.
"""

import heapq
from bisect import bisect_right
from dataclasses import dataclass
from operator import attrgetter
from typing import Literal

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


@dataclass(slots=True)
class LineCounters:
    """What came on one line. `messages` arrived here first; `duplicates` are messages that were no longer needed;
    `malformed` and `stale` (of a session that is over) are packets, dropped whole."""

    packets: int = 0
    messages: int = 0
    duplicates: int = 0
    malformed: int = 0
    stale: int = 0


@dataclass(slots=True)
class _Gap:
    """Numbers first .. end - 1. `asked` is the first number of the last request, `deadline` when that is overdue."""

    first: int
    end: int
    asked: int
    requests: int
    deadline: int
    lost: bool = False


_END = attrgetter("end")


class Receiver:
    """One stream. With `join` "now" the first packet says where to begin, with "start" a session begins at 1 and what
    was sent before is asked for. `request_limit` is the largest count in a request."""

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
        self._gaps: list[_Gap] = []
        self._held: list[tuple[int, int, bytes]] = []  # a heap of (sequence, count, blocks)
        self._held_bytes = 0
        self._end: int | None = None
        self._over: str | None = None
        self._left: tuple[str, int] | None = None

    @property
    def in_order(self) -> bool:
        """Nothing is missing and nothing held: a packet of `session` that begins at `expected` can be delivered by
        the owner without `receive`, if it then calls `advance` (or sets `expected`)."""
        return self.session != self._over and not self._gaps and self._end is None

    def advance(self, count: int, line: int = 0) -> None:
        """The owner has itself delivered `count` messages, from `expected` on, that came on `line`."""
        self.expected += count
        self.lines[line].messages += count

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
        if session == self._over:
            counters.stale += 1
            return []
        events: list[FeedEvent] = []
        if session != self.session:
            self._start(session, sequence, events)
        self._horizon = max(self._horizon, self.expected)
        self._announce(sequence, now, events)
        if messages:
            blocks = bytes(packet[HEADER.size : end])
            self._take(counters, sequence, messages, blocks, now, events)
        elif count == END_OF_SESSION_COUNT:
            self._end = sequence
        else:
            events.append(Heartbeat(sequence))
        self._drain(events)
        return events

    def next_timer(self) -> int | None:
        """When to call `handle_timer` next, if nothing comes before."""
        return min((gap.deadline for gap in self._gaps if not gap.lost), default=None)

    def handle_timer(self, now: int) -> list[FeedEvent]:
        """Asks again for gaps that are overdue, or gives them up. Calling it early does no harm."""
        events: list[FeedEvent] = []
        for gap in self._gaps:
            if gap.lost or gap.deadline > now:
                continue
            if self._request_server and gap.requests < self._max_requests:
                self._request(gap, now, events)
            else:
                gap.lost = True
        self._drain(events)
        return events

    def _start(self, session: str, sequence: int, events: list[FeedEvent]) -> None:
        """Leaves the session so far, if there is one, and joins this one."""
        if self.session is not None:
            for gap in self._gaps:
                gap.lost = True
            self._drain(events)
            events.append(SessionChanged(self.session, session))
        left, self._left = self._left, None
        if self.session is not None and self.session != self._over:
            self._left = (self.session, self.expected)
        if left is not None and left[0] == session:  # a stray packet had led us away: go on where we were
            self.expected = left[1]
        else:
            self.expected = 1 if self._join == "start" else sequence
        self.session = session
        self._horizon = self.expected
        self._end = None
        events.append(SessionStarted(session, self.expected))

    def _announce(self, sequence: int, now: int, events: list[FeedEvent]) -> None:
        """Everything below `sequence` has been sent: what nobody has spoken of yet is a gap."""
        if sequence > self._horizon:
            gap = _Gap(self._horizon, sequence, asked=0, requests=0, deadline=now)
            self._gaps.append(gap)
            self._horizon = sequence
            events.append(GapDetected(gap.first, gap.end - gap.first))
            self._request(gap, now, events)

    def _request(self, gap: _Gap, now: int, events: list[FeedEvent]) -> None:
        """Asks for the gap, or for its beginning, and starts its clock."""
        gap.deadline = now + self._wait_ns
        if self._request_server:
            gap.asked = gap.first
            gap.requests += 1
            count = min(gap.end - gap.first, self._request_limit)
            assert self.session is not None
            events.append(RequestGap(self.session, gap.first, count))

    def _take(
        self, counters: LineCounters, sequence: int, count: int, blocks: bytes, now: int, events: list[FeedEvent]
    ) -> None:
        """One data packet of the session, whose blocks are all there."""
        end = sequence + count
        fresh = max(0, end - max(sequence, self._horizon))
        self._horizon = max(self._horizon, end)
        filled, rest = self._fill(sequence, end)
        fresh += filled
        counters.messages += fresh
        counters.duplicates += count - fresh
        if not fresh:
            events.append(Duplicate(count))
            return
        heapq.heappush(self._held, (sequence, count, blocks))
        self._held_bytes += len(blocks)
        self._drain(events)
        if rest is not None:  # what has come shows that more may: the clock and the count of requests start anew
            rest.deadline, rest.requests = now + self._wait_ns, min(rest.requests, 1)
            if counters is self.lines[RECOVERY] and sequence == rest.asked:
                self._request(rest, now, events)
        while len(self._held) > self._hold_packets or self._held_bytes > self._hold_bytes:
            self._gaps[0].lost = True
            self._drain(events)

    def _fill(self, first: int, end: int) -> tuple[int, _Gap | None]:
        """Takes first .. end - 1 out of the gaps. Returns how many numbers that were, and what is left of a gap whose
        beginning has come."""
        low = high = bisect_right(self._gaps, first, key=_END)
        filled, pieces, rest = 0, [], None
        while high < len(self._gaps) and self._gaps[high].first < end:
            gap = self._gaps[high]
            high += 1
            before, after = max(gap.first, first), min(gap.end, end)
            filled += after - before
            if gap.first < before:
                pieces.append(_Gap(gap.first, before, gap.asked, gap.requests, gap.deadline, gap.lost))
            if after < gap.end:
                pieces.append(_Gap(after, gap.end, gap.asked, gap.requests, gap.deadline, gap.lost))
                if gap.first == before and not gap.lost:
                    rest = pieces[-1]
        self._gaps[low:high] = pieces
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
