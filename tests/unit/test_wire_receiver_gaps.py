"""Many gaps: they are bounded, and so is the work on each packet."""

import pytest

from receiver_rig import MS, deliver, packet, started
from venue.wire import moldudp64 as mold
from venue.wire.moldudp64 import (
    RECOVERY,
    GapDetected,
    Heartbeat,
    MessagesLost,
    RequestGap,
)


def test_heartbeats_that_announce_more_and_more_are_one_gap() -> None:
    receiver = started(retry_ns=100)
    assert receiver.receive(0, mold.heartbeat("S", 5), 0) == [
        GapDetected(4, 1),
        RequestGap("S", 4, 1),
        Heartbeat(5),
    ]
    for number in range(6, 1000):
        assert receiver.receive(0, mold.heartbeat("S", number), 10) == [GapDetected(number - 1, 1), Heartbeat(number)]
    assert receiver.receive(RECOVERY, packet(4, 1), 20) == [deliver(4, 1), RequestGap("S", 5, 994)]
    assert receiver.next_timer() == 120
    assert receiver.handle_timer(120) == [RequestGap("S", 5, 994)]
    assert receiver.receive(0, packet(999, 1), 130) == []
    assert receiver.receive(0, mold.heartbeat("S", 1001), 130) == [
        GapDetected(1000, 1),
        RequestGap("S", 1000, 1),
        Heartbeat(1001),
    ]


def test_a_gap_that_is_given_up_does_not_grow() -> None:
    receiver = started(retry_ns=100, max_requests=1)
    receiver.receive(0, packet(6, 1), 0)
    receiver.receive(0, mold.heartbeat("S", 8), 0)
    assert receiver.receive(RECOVERY, packet(4, 1), 90) == [deliver(4, 1), RequestGap("S", 5, 1)]
    assert receiver.handle_timer(100) == []
    assert receiver.receive(0, mold.heartbeat("S", 9), 100) == [
        GapDetected(8, 1),
        RequestGap("S", 8, 1),
        Heartbeat(9),
    ]
    assert receiver.handle_timer(190) == [MessagesLost(5, 1), deliver(6, 1), MessagesLost(7, 1)]
    assert receiver.missing
    assert receiver.handle_timer(200) == [MessagesLost(8, 1)]
    assert not receiver.missing


def test_no_more_gaps_than_packets_may_be_held() -> None:
    receiver = started(hold_packets=2)
    receiver.receive(0, packet(5, 1), 0)
    receiver.receive(0, packet(7, 1), 0)
    assert receiver.receive(0, mold.heartbeat("S", 9), 0) == [
        GapDetected(8, 1),
        RequestGap("S", 8, 1),
        Heartbeat(9),
        MessagesLost(4, 1),
        deliver(5, 1),
    ]


def test_thousands_of_gaps_and_their_timers() -> None:
    """Every second message is missing; the gaps come due in the order in which they were last asked for."""
    receiver = started(retry_ns=1000, max_requests=2)
    gaps = range(4, 4004, 2)
    for now, number in enumerate(gaps):
        receiver.receive(0, packet(number + 1, 1), now % 500)
    asked = [event for now in range(1000, 1500) for event in receiver.handle_timer(now)]
    assert sorted(asked, key=str) == sorted([RequestGap("S", number, 1) for number in gaps], key=str)
    assert receiver.next_timer() == 2000
    assert receiver.receive(0, packet(4, 1), 1600) == [deliver(4, 1), deliver(5, 1)]
    lost = [event for event in receiver.handle_timer(2500) if isinstance(event, MessagesLost)]
    assert lost == [MessagesLost(number, 1) for number in gaps[1:]]
    assert receiver.next_timer() is None
    assert receiver.in_order


def test_what_is_remembered_of_gaps_that_have_closed_is_bounded() -> None:
    receiver = started()
    receiver.receive(0, packet(5, 1), 0)
    for number in range(7, 5007, 2):
        receiver.receive(0, packet(number, 1), 1)
        receiver.receive(0, packet(number - 1, 1), 1)
    assert len(receiver._due) < 100
    assert receiver.next_timer() == 100 * MS


def test_the_owner_may_hold_what_goes_on_behind_the_last_gap() -> None:
    receiver = started()
    assert receiver.gaps_end == 0
    receiver.receive(0, packet(6, 1), 0)
    receiver.receive(0, packet(9, 1), 0)
    assert (receiver.gaps_end, receiver.horizon) == (9, 10)
    assert receiver.hold(0, 4, packet(10, 2)[20:] + packet(12, 2)[20:]) == []
    assert (receiver.gaps_end, receiver.horizon, receiver.expected) == (9, 14, 4)
    assert receiver.receive(0, packet(13, 2), 0) == []
    assert receiver.receive(0, packet(7, 2), 0) == []
    assert receiver.receive(0, packet(4, 2), 0) == [
        deliver(4, 2), deliver(6, 1), deliver(7, 2), deliver(9, 1), deliver(10, 4), deliver(14, 1)
    ]  # fmt: skip
    assert (receiver.in_order, receiver.gaps_end) == (True, 0)
    assert receiver.lines[0].messages == 14


def test_what_the_owner_holds_is_bounded_like_everything_held() -> None:
    receiver = started(hold_bytes=40)
    receiver.receive(0, packet(6, 1), 0)
    assert receiver.hold(0, 3, packet(7, 3)[20:]) == [MessagesLost(4, 2), deliver(6, 1), deliver(7, 3)]
    assert receiver.in_order


@pytest.mark.parametrize("unusual", [mold.end_of_session("S", 9), packet(1, 1, session="X"), packet(2**40, 1)])
def test_the_owner_holds_nothing_while_each_packet_counts(unusual: bytes) -> None:
    """The end is known, or another session or a number far ahead waits for others that confirm it."""
    receiver = started()
    receiver.receive(0, packet(6, 1), 0)
    assert receiver.gaps_end == 6
    receiver.receive(0, unusual, 0)
    assert receiver.missing
    assert receiver.gaps_end == 0
