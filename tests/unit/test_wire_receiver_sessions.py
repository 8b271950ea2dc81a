"""Where the stream is: new sessions and stray packets, numbers that cannot be, ends that are none."""

from receiver_rig import deliver, packet, started
from venue.wire import moldudp64 as mold
from venue.wire.moldudp64 import (
    RECOVERY,
    Duplicate,
    EndOfSession,
    GapDetected,
    Heartbeat,
    LineCounters,
    Malformed,
    MessagesLost,
    Receiver,
    RequestGap,
    SessionChanged,
    SessionStarted,
)


def test_a_new_session_while_the_old_one_has_a_gap() -> None:
    """Nobody has said that the old one is over: three packets in a row say so, and nothing of them is lost."""
    receiver = started()
    receiver.receive(0, packet(5, 1), 0)
    assert receiver.receive(0, packet(41, 1, "T"), 0) == []
    assert receiver.receive(0, packet(42, 2, "T"), 0) == []
    assert receiver.receive(0, mold.heartbeat("T", 44), 0) == [
        MessagesLost(4, 1),
        deliver(5, 1),
        SessionChanged("S", "T"),
        SessionStarted("T", 41),
        deliver(41, 1),
        deliver(42, 2),
        Heartbeat(44),
    ]
    assert receiver.in_order


def test_a_stray_packet_of_another_session_changes_nothing() -> None:
    receiver = started()
    assert receiver.receive(0, mold.heartbeat("X", 77), 0) == []
    assert not receiver.in_order, "the next packet decides"
    assert receiver.receive(0, packet(5, 1), 0) == [
        Malformed("a stray packet of session 'X'"),
        GapDetected(4, 1),
        RequestGap("S", 4, 1),
    ]
    assert receiver.receive(0, packet(4, 1), 0) == [deliver(4, 1), deliver(5, 1)]
    for number in (6, 7, 8):
        assert receiver.receive(0, packet(1, 1, "X"), 0) == []
        assert receiver.receive(0, packet(2, 1, "X"), 0) == []
        assert receiver.receive(0, packet(number, 1), 0) == [
            Malformed("a stray packet of session 'X'"),
            Malformed("a stray packet of session 'X'"),
            deliver(number, 1),
        ]
    assert receiver.in_order
    assert receiver.lines[0].malformed == 7


def test_stray_packets_of_different_sessions_do_not_add_up() -> None:
    receiver = started()
    for session in ("X", "Y", "X", "Z"):
        events = receiver.receive(0, packet(1, 1, session), 0)
        assert all(isinstance(event, Malformed) for event in events)
    assert receiver.session == "S"
    assert receiver.lines[0].malformed == 3


def test_a_new_session_after_an_end_begins_with_its_first_message_at_once() -> None:
    receiver = started()
    assert receiver.receive(0, mold.end_of_session("S", 4), 0) == [EndOfSession(4)]
    assert receiver.receive(0, packet(9, 1, "X"), 0) == [], "not the first one: it may be a stray"
    assert receiver.receive(0, packet(1, 1, "T"), 0) == [
        Malformed("a stray packet of session 'X'"),
        SessionChanged("S", "T"),
        SessionStarted("T", 1),
        deliver(1, 1),
    ]


def test_a_new_session_whose_first_packets_come_out_of_order_on_two_lines() -> None:
    receiver = Receiver(lines=2)
    receiver.receive(0, packet(1, 3), 0)
    assert receiver.receive(0, packet(2, 1, "T"), 0) == []
    assert receiver.receive(1, packet(1, 1, "T"), 0) == []
    assert receiver.receive(0, packet(3, 1, "T"), 0) == [
        SessionChanged("S", "T"),
        SessionStarted("T", 1),
        GapDetected(1, 1),
        RequestGap("T", 1, 1),
        deliver(1, 1),
        deliver(2, 1),
        deliver(3, 1),
    ]


def test_an_answer_of_another_session_is_stale() -> None:
    receiver = started()
    for number in range(1, 6):
        assert receiver.receive(RECOVERY, packet(number, 1, "X"), 0) == []
    assert receiver.lines[RECOVERY].stale == 5
    assert receiver.in_order


def test_one_number_far_ahead_does_not_make_the_stream_deaf() -> None:
    receiver = started(request_server=False, hold_ns=50)
    far = [Malformed(f"sequence number {2**62} is far beyond 4")]
    assert receiver.receive(0, mold.heartbeat("S", 2**62), 0) == far
    assert receiver.receive(0, mold.end_of_session("S", 2**62), 0) == far
    assert not receiver.in_order, "the next packet decides"
    assert receiver.receive(0, packet(4, 1), 0) == [deliver(4, 1)]
    assert receiver.receive(0, mold.heartbeat("S", 2**62), 0) == [Malformed(f"sequence number {2**62} is far beyond 5")]
    assert receiver.receive(0, packet(5, 1), 0) == [deliver(5, 1)]
    assert receiver.in_order
    assert receiver.lines[0].malformed == 3


def test_a_stream_that_really_is_far_ahead_is_followed() -> None:
    """After a long outage every packet is far ahead: the third in a row is believed, the two before show as a gap."""
    receiver = started(max_jump=100)
    for number in (2**40, 200, 201):
        assert receiver.receive(0, packet(number, 1), 0) == [Malformed(f"sequence number {number} is far beyond 4")]
    assert receiver.receive(0, packet(202, 1), 0) == [GapDetected(4, 198), RequestGap("S", 4, 198)]
    assert receiver.receive(0, packet(303, 1), 0) == [GapDetected(203, 100), RequestGap("S", 203, 100)]


def test_joining_from_the_start_very_late() -> None:
    receiver = Receiver(join="start", request_server=False)
    assert receiver.receive(0, packet(500_000_000, 1), 0) == [
        SessionStarted("S", 1),
        GapDetected(1, 499_999_999),
    ]
    assert receiver.receive(0, packet(500_000_001, 1), 0) == []
    assert receiver.lines[0].messages == 2


def test_an_end_before_what_has_been_delivered_is_no_end() -> None:
    receiver = started()
    assert receiver.receive(0, mold.end_of_session("S", 3), 0) == [Malformed("an end at 3, with 4 expected")]
    assert receiver.receive(0, packet(4, 1), 0) == [deliver(4, 1)]
    assert receiver.lines[0].malformed == 1


def test_an_ended_session_that_lingers_on_the_other_line() -> None:
    receiver = Receiver(lines=2)
    receiver.receive(0, mold.end_of_session("S", 9), 0)
    receiver.receive(0, packet(1, 1, "T"), 0)
    assert receiver.receive(1, mold.end_of_session("S", 9), 0) == []
    assert receiver.receive(1, packet(1, 1, "T"), 0) == [Duplicate(1)]
    assert receiver.lines[1] == LineCounters(packets=2, duplicates=1, stale=1)
