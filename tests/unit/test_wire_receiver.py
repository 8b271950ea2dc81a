"""Stories of a MoldUDP64 receiver: what came, and the whole list of events it led to."""

import pytest

from receiver_rig import MS, deliver, message, packet, started
from venue.wire import moldudp64 as mold
from venue.wire.moldudp64 import (
    RECOVERY,
    Deliver,
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


def test_the_story_of_gap_late_packet_duplicate_overlap_tail_and_end() -> None:
    receiver = started()
    assert receiver.receive(0, packet(7, 2), 0) == [GapDetected(4, 3), RequestGap("S", 4, 3)]
    assert receiver.receive(0, packet(4, 3), 0) == [deliver(4, 3), deliver(7, 2)]
    assert receiver.receive(0, packet(1, 3), 0) == [Duplicate(3)]
    assert receiver.receive(0, packet(8, 4), 0) == [deliver(9, 3)]
    assert receiver.receive(0, mold.heartbeat("S", 15), 0) == [
        GapDetected(12, 3),
        RequestGap("S", 12, 3),
        Heartbeat(15),
    ]
    assert receiver.receive(0, packet(12, 3), 0) == [deliver(12, 3)]
    assert receiver.receive(0, mold.end_of_session("S", 15), 0) == [EndOfSession(15)]
    assert receiver.expected == 15
    assert receiver.receive(0, packet(1, 1, "T"), 0) == [
        SessionChanged("S", "T"),
        SessionStarted("T", 1),
        deliver(1, 1),
    ]
    assert receiver.next_timer() is None
    assert receiver.lines[0] == LineCounters(packets=9, messages=15, duplicates=4)


def test_a_messages_bytes_can_be_taken_apart() -> None:
    receiver = started()
    (event,) = receiver.receive(0, packet(4, 2), 0)
    assert isinstance(event, Deliver)
    assert event.messages == [b"message 4", b"message 5"]


def test_joining_late_begins_with_the_first_packet() -> None:
    receiver = Receiver()
    assert not receiver.in_order
    assert receiver.receive(0, packet(100, 2), 0) == [SessionStarted("S", 100), deliver(100, 2)]
    assert receiver.in_order
    receiver = Receiver()
    assert receiver.receive(0, mold.heartbeat("S", 100), 0) == [SessionStarted("S", 100), Heartbeat(100)]
    assert receiver.receive(0, packet(101, 1), 0) == [GapDetected(100, 1), RequestGap("S", 100, 1)]


def test_joining_from_the_start_asks_for_what_was_before() -> None:
    receiver = Receiver(join="start")
    assert receiver.receive(0, packet(100, 2), 0) == [
        SessionStarted("S", 1),
        GapDetected(1, 99),
        RequestGap("S", 1, 99),
    ]
    assert receiver.receive(RECOVERY, packet(1, 99), 0) == [deliver(1, 99), deliver(100, 2)]


def test_the_rest_of_a_gap_is_asked_for_after_each_answer() -> None:
    """An answer holds one packet, and a request at most `request_limit` messages."""
    receiver = started(request_limit=50)
    assert receiver.receive(0, packet(104, 1), 0) == [GapDetected(4, 100), RequestGap("S", 4, 50)]
    assert receiver.receive(RECOVERY, packet(4, 36), 1) == [deliver(4, 36), RequestGap("S", 40, 50)]
    assert receiver.receive(RECOVERY, packet(40, 36), 2) == [deliver(40, 36), RequestGap("S", 76, 28)]
    assert receiver.receive(RECOVERY, packet(76, 28), 3) == [deliver(76, 28), deliver(104, 1)]
    assert receiver.lines == [LineCounters(2, 4), LineCounters(3, 100)]
    assert receiver.next_timer() is None


def test_a_late_packet_on_a_line_shrinks_the_gap_without_another_request() -> None:
    receiver = started()
    receiver.receive(0, packet(8, 1), 0)
    assert receiver.receive(0, packet(5, 1), 0) == []
    assert receiver.receive(0, packet(4, 1), 10) == [deliver(4, 1), deliver(5, 1)]
    assert receiver.next_timer() == 100 * MS
    assert receiver.handle_timer(100 * MS) == [RequestGap("S", 6, 2)]
    assert receiver.receive(RECOVERY, packet(6, 2), 0) == [deliver(6, 2), deliver(8, 1)]


def test_the_answer_from_a_store_closes_a_gap_of_any_size() -> None:
    store = mold.MessageStore("S")
    for number in range(1, 2001):
        store.append(message(number))
    receiver = started()
    requests = receiver.receive(0, packet(1990, 11), 0)[1:]
    delivered = 3
    for _ in range(200):
        if not requests:
            break
        (request,) = requests
        assert isinstance(request, RequestGap)
        answer = store.answer(mold.Request(request.session, request.first, request.count).encode())
        assert answer is not None
        events = receiver.receive(RECOVERY, answer, 0)
        delivered += sum(event.count for event in events if isinstance(event, Deliver))
        requests = [event for event in events if isinstance(event, RequestGap)]
    assert delivered == 2000
    assert receiver.in_order


def test_an_unanswered_request_is_repeated_and_then_given_up() -> None:
    receiver = started(retry_ns=100, max_requests=3)
    assert receiver.receive(0, packet(7, 2), 0) == [GapDetected(4, 3), RequestGap("S", 4, 3)]
    assert receiver.receive(0, packet(9, 1), 50) == []
    assert receiver.next_timer() == 100
    assert receiver.handle_timer(99) == []
    assert receiver.handle_timer(100) == [RequestGap("S", 4, 3)]
    assert receiver.handle_timer(200) == [RequestGap("S", 4, 3)]
    assert receiver.handle_timer(300) == [MessagesLost(4, 3), deliver(7, 2), deliver(9, 1)]
    assert receiver.next_timer() is None
    assert receiver.handle_timer(400) == []
    assert receiver.receive(0, packet(4, 3), 500) == [Duplicate(3)]
    assert receiver.in_order


def test_without_a_request_server_early_packets_wait_for_late_ones_only_so_long() -> None:
    receiver = started(request_server=False, hold_ns=50)
    assert receiver.receive(0, packet(7, 2), 10) == [GapDetected(4, 3)]
    assert receiver.next_timer() == 60
    assert receiver.receive(0, packet(5, 1), 20) == []
    assert receiver.handle_timer(59) == []
    assert receiver.handle_timer(60) == [
        MessagesLost(4, 1),
        deliver(5, 1),
        MessagesLost(6, 1),
        deliver(7, 2),
    ]


def test_each_gap_has_its_own_request_and_losses_are_told_in_order() -> None:
    receiver = started(retry_ns=100, max_requests=1)
    assert receiver.receive(0, packet(5, 1), 0) == [GapDetected(4, 1), RequestGap("S", 4, 1)]
    assert receiver.receive(0, packet(8, 1), 10) == [GapDetected(6, 2), RequestGap("S", 6, 2)]
    assert receiver.receive(RECOVERY, packet(6, 1), 105) == [RequestGap("S", 7, 1)]
    assert receiver.next_timer() == 100
    assert receiver.handle_timer(150) == [MessagesLost(4, 1), deliver(5, 1), deliver(6, 1)]
    assert receiver.next_timer() == 205
    assert receiver.handle_timer(205) == [MessagesLost(7, 1), deliver(8, 1)]


def test_a_later_gap_that_is_given_up_first_waits_its_turn() -> None:
    receiver = started(retry_ns=100, max_requests=1)
    receiver.receive(0, packet(10, 1), 0)
    receiver.receive(0, packet(12, 1), 0)
    assert receiver.receive(RECOVERY, packet(4, 1), 90) == [deliver(4, 1), RequestGap("S", 5, 5)]
    assert receiver.handle_timer(100) == []
    assert receiver.receive(RECOVERY, packet(5, 5), 110) == [
        deliver(5, 5),
        deliver(10, 1),
        MessagesLost(11, 1),
        deliver(12, 1),
    ]


def test_two_lines_one_stream() -> None:
    """B is a little behind A and loses other packets: nothing is missing and nothing comes twice."""
    receiver = Receiver(lines=2)
    assert receiver.receive(0, packet(1, 2), 0) == [SessionStarted("S", 1), deliver(1, 2)]
    assert receiver.receive(1, packet(1, 2), 0) == [Duplicate(2)]
    assert receiver.receive(1, packet(3, 2), 0) == [deliver(3, 2)]
    assert receiver.receive(0, packet(5, 2), 0) == [deliver(5, 2)]
    assert receiver.receive(1, packet(5, 4), 0) == [deliver(7, 2)]
    assert receiver.lines == [LineCounters(2, 4), LineCounters(3, 4, 4), LineCounters()]
    assert receiver.in_order


def test_more_than_may_be_held_gives_up_the_oldest_gap() -> None:
    receiver = started(hold_packets=3)
    receiver.receive(0, packet(5, 1), 0)
    receiver.receive(0, packet(7, 1), 0)
    assert receiver.receive(0, packet(8, 1), 0) == []
    assert receiver.receive(0, packet(9, 1), 0) == [MessagesLost(4, 1), deliver(5, 1)]
    assert receiver.receive(0, packet(10, 1), 0) == [
        MessagesLost(6, 1),
        deliver(7, 1),
        deliver(8, 1),
        deliver(9, 1),
        deliver(10, 1),
    ]


def test_the_bytes_held_are_bounded_too() -> None:
    receiver = started(hold_bytes=100)
    big = mold.encode_packet("S", 5, [bytes(60)])
    assert receiver.receive(0, big, 0) == [GapDetected(4, 1), RequestGap("S", 4, 1)]
    assert receiver.receive(0, mold.encode_packet("S", 6, [bytes(60)]), 0) == [
        MessagesLost(4, 1),
        Deliver(5, 1, big[20:]),
        Deliver(6, 1, big[20:]),
    ]


def test_the_end_is_told_once_and_only_when_all_before_it_is_done() -> None:
    receiver = started(retry_ns=100, max_requests=1)
    assert receiver.receive(0, mold.end_of_session("S", 6), 0) == [GapDetected(4, 2), RequestGap("S", 4, 2)]
    assert receiver.receive(0, mold.end_of_session("S", 6), 50) == []
    assert receiver.receive(RECOVERY, packet(4, 1), 60) == [deliver(4, 1), RequestGap("S", 5, 1)]
    assert receiver.handle_timer(160) == [MessagesLost(5, 1), EndOfSession(6)]
    assert receiver.receive(0, mold.end_of_session("S", 6), 200) == []
    assert receiver.receive(0, packet(6, 1), 300) == []
    assert receiver.lines[0].stale == 2
    assert not receiver.in_order


@pytest.mark.parametrize("size", range(len(packet(4, 2))))
def test_a_packet_cut_anywhere_is_counted_and_shows_as_a_gap(size: int) -> None:
    receiver = started()
    (event,) = receiver.receive(0, packet(4, 2)[:size], 0)
    assert isinstance(event, Malformed)
    assert receiver.lines[0].malformed == 1
    assert receiver.receive(0, packet(6, 1), 0) == [GapDetected(4, 2), RequestGap("S", 4, 2)]


def test_a_count_above_the_blocks_present() -> None:
    receiver = started()
    data = mold.Header("S", 4, 3).encode() + packet(4, 2)[20:]
    assert receiver.receive(0, data, 0) == [Malformed("block 3 of 3 is missing")]
    assert receiver.expected == 4


@pytest.mark.parametrize("sequence", [0, 2**63 - 1, 2**63, 2**64 - 1])
def test_numbers_out_of_range(sequence: int) -> None:
    receiver = started()
    assert receiver.receive(0, mold.encode_packet("S", sequence, [b"x"]), 0) == [
        Malformed(f"sequence number {sequence} is out of range")
    ]


def test_the_owner_may_deliver_by_itself_while_all_is_in_order() -> None:
    receiver = started()
    assert receiver.in_order
    receiver.advance(4)
    assert receiver.expected == 8
    assert receiver.receive(0, packet(6, 3), 0) == [deliver(8, 1)]
    receiver.expected = 20
    assert receiver.receive(0, packet(20, 1), 0) == [deliver(20, 1)]
    assert receiver.receive(0, packet(23, 1), 0) == [GapDetected(21, 2), RequestGap("S", 21, 2)]
    assert not receiver.in_order
    assert receiver.lines[0].messages == 3 + 4 + 1 + 1 + 1


def test_held_packets_that_overlap_are_delivered_once() -> None:
    receiver = started()
    receiver.receive(0, packet(6, 2), 0)
    assert receiver.receive(0, packet(7, 3), 0) == []
    assert receiver.receive(0, packet(7, 1), 0) == [Duplicate(1)]
    assert receiver.receive(0, packet(5, 6), 0) == []
    assert receiver.receive(0, packet(4, 1), 0) == [deliver(4, 1), deliver(5, 6)]
    assert receiver.in_order
    assert receiver.next_timer() is None
