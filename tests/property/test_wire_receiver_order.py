"""However packets are lost, doubled, overlapped or shuffled: each message comes once, in order, or is told as lost."""

from hypothesis import given, settings
from hypothesis import strategies as st

from venue.wire import moldudp64 as mold
from venue.wire.moldudp64 import Deliver, EndOfSession, FeedEvent, MessagesLost, Receiver, RequestGap

LAST = 40
MESSAGES = [b"%d" % number for number in range(LAST + 1)]

PACKET = st.tuples(st.integers(1, LAST), st.integers(0, 6), st.integers(0, 1))
"""First number, count (0 = heartbeat), line."""


class Listener:
    """Follows events and checks that they tell of 1, 2, 3, … with nothing skipped."""

    def __init__(self, receiver: Receiver) -> None:
        self.receiver = receiver
        self.next = 1
        self.lost: set[int] = set()
        self.ended = False
        self.requests: list[RequestGap] = []

    def take(self, events: list[FeedEvent]) -> None:
        for event in events:
            if isinstance(event, Deliver):
                assert event.sequence == self.next
                assert event.messages == MESSAGES[self.next : self.next + event.count]
                self.next += event.count
            elif isinstance(event, MessagesLost):
                assert event.first == self.next
                self.lost.update(range(event.first, event.first + event.count))
                self.next += event.count
            elif isinstance(event, RequestGap):
                self.requests.append(event)
            elif isinstance(event, EndOfSession):
                assert event.next_sequence == self.next == LAST + 1
                assert not self.ended
                self.ended = True
        assert self.receiver.expected == self.next


def packet(first: int, count: int) -> bytes:
    return mold.encode_packet("S", first, MESSAGES[first : first + count])


def run(receiver: Receiver, packets: list[tuple[int, int, int]], holding: bool = False) -> Listener:
    """``holding``: what goes on behind a gap is held without ``receive``."""
    listener = Listener(receiver)
    for now, (first, count, line) in enumerate(packets):
        known, count = receiver.horizon - first, min(count, LAST + 1 - first)
        if holding and 0 < receiver.gaps_end <= first and 0 <= known < count:
            listener.take(receiver.hold(line, count - known, packet(first + known, count - known)[20:]))
        else:
            listener.take(receiver.receive(line, packet(first, count), now))
    listener.take(receiver.receive(0, mold.end_of_session("S", LAST + 1), len(packets)))
    return listener


def settle(listener: Listener) -> None:
    for _ in range(1000):
        timer = listener.receiver.next_timer()
        if timer is None:
            return
        listener.take(listener.receiver.handle_timer(timer))
    raise AssertionError("the receiver never comes to rest")


@settings(deadline=None)
@given(st.lists(PACKET, max_size=40), st.booleans(), st.integers(1, 8))
def test_with_no_answers_what_came_is_delivered_and_the_rest_reported(
    packets: list[tuple[int, int, int]], request_server: bool, hold_packets: int
) -> None:
    receiver = Receiver(lines=2, join="start", request_server=request_server, hold_packets=hold_packets)
    listener = run(receiver, packets)
    settle(listener)
    assert listener.ended
    assert bool(listener.requests) <= request_server
    came = {n for first, count, _ in packets for n in range(first, min(first + count, LAST + 1))}
    assert len(listener.lost) + sum(line.messages for line in receiver.lines) == LAST
    if hold_packets == 8 and len(packets) <= 8:
        assert listener.lost == set(range(1, LAST + 1)) - came


@settings(deadline=None)
@given(st.lists(PACKET, max_size=40), st.lists(st.booleans(), max_size=60))
def test_with_answers_nothing_is_lost(packets: list[tuple[int, int, int]], dropped: list[bool]) -> None:
    """The server answers each request unless that answer is dropped; after the drops run out all is recovered."""
    receiver = Receiver(lines=2, join="start", max_requests=100, request_limit=7)
    store = mold.MessageStore("S")
    for message in MESSAGES[1:]:
        store.append(message)
    listener = run(receiver, packets)
    drops = iter(dropped)
    for _ in range(1000):
        while listener.requests:
            request = listener.requests.pop()
            answer = store.answer(mold.Request(request.session, request.first, request.count).encode())
            assert answer is not None
            if not next(drops, False):
                listener.take(receiver.receive(mold.RECOVERY, answer, 0))
        timer = receiver.next_timer()
        if timer is None:
            break
        listener.take(receiver.handle_timer(timer))
    assert listener.ended
    assert not listener.lost


@settings(deadline=None)
@given(st.lists(PACKET, max_size=40), st.integers(1, 8), st.sampled_from([10, 1 << 20]))
def test_held_by_the_owner_or_by_the_receiver_is_the_same(
    packets: list[tuple[int, int, int]], hold_packets: int, hold_bytes: int
) -> None:
    outcomes = []
    for holding in (False, True):
        receiver = Receiver(lines=2, join="start", hold_packets=hold_packets, hold_bytes=hold_bytes)
        listener = run(receiver, packets, holding)
        settle(listener)
        assert listener.ended
        outcomes.append((listener.lost, listener.requests, [line.messages for line in receiver.lines]))
    assert outcomes[0] == outcomes[1]


@settings(deadline=None)
@given(st.lists(st.binary(max_size=60)))
def test_random_datagrams_raise_nothing(datagrams: list[bytes]) -> None:
    receiver = Receiver(lines=2, hold_packets=4)
    receiver.receive(0, packet(1, 1), 0)
    for now, datagram in enumerate(datagrams):
        receiver.receive(now % 2, datagram, now)
        receiver.receive(now % 2, mold.Header("S", 1 + now, 1).encode()[:18] + datagram, now)
        receiver.handle_timer(now)


NUMBER = st.one_of(st.integers(1, 60), st.sampled_from([2**40, 2**62]))
ANY_PACKET = st.tuples(
    st.sampled_from("SSSSX"), NUMBER, st.sampled_from([0, 1, 1, 2, 6, mold.END_OF_SESSION_COUNT]), st.integers(-1, 1)
)
"""Session, first number, count, line."""


@settings(deadline=None)
@given(st.lists(st.tuples(ANY_PACKET, st.integers(0, 30)), max_size=80), st.booleans())
def test_whatever_comes_all_is_bounded_and_no_deadline_is_forgotten(
    steps: list[tuple[tuple[str, int, int, int], int]], request_server: bool
) -> None:
    receiver = Receiver(
        lines=2, request_server=request_server, retry_ns=50, max_requests=2, hold_ns=50, hold_packets=4, max_jump=100
    )
    now = 0
    for (session, first, count, line), passed in steps:
        now += passed
        messages = 0 if count == mold.END_OF_SESSION_COUNT else count
        receiver.receive(line, mold.Header(session, first, count).encode() + b"\0\1x" * messages, now)
        assert receiver.next_timer() == min((gap.deadline for gap in receiver._gaps if not gap.lost), default=None)
        receiver.handle_timer(now)
        due = receiver.next_timer()
        assert due is None or due > now
        assert len(receiver._gaps) <= 4
        assert len(receiver._held) <= 4
        assert len(receiver._strays) < 3
        assert all(gap.first < gap.end for gap in receiver._gaps)
