from collections import deque
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capture_files import (
    OPEN_NS,
    SECOND_NS,
    add_order,
    ask,
    binary_file,
    delete_order,
    ethernet,
    every,
    ipv4,
    pcap,
    system_event,
    udp,
)
from shared import SHARED_DATA, needs_shared
from venue.wire.moldudp64 import (
    Packet,
    Receiver,
    decode_packet,
    encode_packet,
    end_of_session,
    events,
    heartbeat,
)
from venue_clients.capture import Capture, open_capture
from venue_clients.line import Address
from venue_clients.replay import Replay
from venue_clients.sent import SentMessages


class FakeLine:
    """A clock that moves only when somebody waits or sends, and a record of what was sent when."""

    def __init__(self, *, send_ns: int = 0) -> None:
        self.time_ns = 0
        self.sent: list[tuple[int, bytes]] = []
        self.replies: list[bytes] = []
        self.requests: deque[tuple[int, bytes]] = deque()
        self.woken = False
        self._send_ns = send_ns

    def now_ns(self) -> int:
        return self.time_ns

    def send(self, packet: bytes) -> None:
        self.sent.append((self.time_ns, packet))
        self.time_ns += self._send_ns

    def reply(self, packet: bytes, address: Address) -> None:
        self.replies.append(packet)

    def wait(self, until_ns: int) -> list[tuple[bytes, Address]]:
        if self.requests and self.requests[0][0] <= max(until_ns, self.time_ns):
            due_ns, request = self.requests.popleft()
            self.time_ns = max(self.time_ns, due_ns)
            return [(request, "somebody")]
        if not self.woken:
            self.time_ns = max(self.time_ns, until_ns)
        return []

    def wake(self) -> None:
        self.woken = True

    def packets(self, count: int | None = None) -> list[tuple[int, Packet]]:
        """Data packets only, or those with this count."""
        decoded = [(time_ns, decode_packet(packet)) for time_ns, packet in self.sent]
        if count is not None:
            return [(time_ns, packet) for time_ns, packet in decoded if packet.count == count]
        return [(time_ns, packet) for time_ns, packet in decoded if packet.messages]


END = 0xFFFF


@pytest.fixture
def day(tmp_path: Path):
    """Writes a BinaryFILE of messages and opens it."""

    def write(messages: list[bytes]):
        path = tmp_path / "day.itch"
        path.write_bytes(binary_file(messages))
        return open_capture(path)

    return write


# Pacing


@pytest.mark.parametrize(("speed", "takes_s"), [(1.0, 600), (10.0, 60), (0.5, 1200)])
def test_ten_recorded_minutes_take_what_they_should_and_every_loop_the_same(day, speed, takes_s) -> None:
    line = FakeLine()
    Replay(day(every(SECOND_NS, 601)), line, speed=speed, loops=2, session="T", linger_s=3).run()
    loops = [[time for time, packet in line.packets() if packet.session == name] for name in ("T001", "T002")]
    assert all(loop[-1] - loop[0] == takes_s * SECOND_NS for loop in loops)
    assert [time - loops[0][0] for time in loops[0]] == [time - loops[1][0] for time in loops[1]]
    assert [time - loops[0][0] for time in loops[0]] == [int(i * SECOND_NS / speed) for i in range(601)]


def test_each_loop_is_a_session_of_its_own_numbered_from_1(day) -> None:
    line = FakeLine()
    stats = Replay(day(every(SECOND_NS, 3)), line, loops=3, session="T", linger_s=0).run()
    assert [(p.session, p.sequence) for _, p in line.packets()] == [
        (f"T00{loop}", sequence) for loop in (1, 2, 3) for sequence in (1, 2, 3)
    ]
    assert [(p.session, p.sequence) for _, p in line.packets(END)] == [("T001", 4), ("T002", 4), ("T003", 4)]
    assert (stats.loops, stats.messages) == (3, 9)


def test_two_replays_never_share_a_session_name_by_default(day) -> None:
    line = FakeLine()
    Replay(day(every(0, 1)), line, linger_s=0).run()
    (_, packet), *_ = line.packets()
    assert len(packet.session) == 10
    assert packet.session.isalnum()


def test_falling_behind_shows_as_lag_and_is_caught_up_in_full_packets(day) -> None:
    slow = FakeLine(send_ns=10_000_000)  # a packet takes as long as ten messages
    stats = Replay(day(every(1_000_000, 1_000)), slow, linger_s=0).run()
    assert 9_000_000 <= stats.max_lag_ns <= 10_000_000
    counts = [packet.count for _, packet in slow.packets()]
    assert counts[0] == 1
    assert set(counts[1:-1]) == {10}
    fast = FakeLine(send_ns=500_000)
    assert Replay(day(every(1_000_000, 1_000)), fast, linger_s=0).run().max_lag_ns == 0


def test_a_standstill_does_not_move_the_deadlines_after_it(day) -> None:
    line = FakeLine()
    capture = day(every(SECOND_NS, 20))
    send = line.send

    def stall_once(packet: bytes) -> None:
        send(packet)
        if len(line.sent) == 5:
            line.time_ns += 7 * SECOND_NS + 1

    line.send = stall_once  # type: ignore[method-assign]
    stats = Replay(capture, line, linger_s=0).run()
    times = [time for time, packet in line.packets() for _ in packet.messages]
    assert times[:5] == [i * SECOND_NS for i in range(5)]
    assert times[5:12] == [11 * SECOND_NS + 1] * 7  # all that was overdue, at once
    assert times[12:] == [i * SECOND_NS for i in range(12, 20)]
    assert stats.max_lag_ns == 6 * SECOND_NS + 1
    assert stats.lag_ns == 0


@pytest.mark.parametrize("speed", [1.0, 10.0])
def test_what_was_recorded_before_the_start_goes_at_once_and_the_rest_is_paced_from_there(day, speed) -> None:
    early = [add_order(i, OPEN_NS - 3_600 * SECOND_NS + i * SECOND_NS) for i in range(3_000)]
    line = FakeLine(send_ns=1_000)
    stats = Replay(day(early + every(SECOND_NS, 20)), line, speed=speed, from_ns=OPEN_NS, linger_s=0).run()
    times = [time for time, packet in line.packets() for _ in packet.messages]
    assert times[2_999] < 1_000_000
    start_ns = times[3_000]
    assert start_ns < 1_000_000
    steps = [round((time - start_ns) * speed / SECOND_NS, 3) for time in times[3_000:]]
    assert steps == pytest.approx(list(range(20)), abs=0.01)
    assert stats.max_lag_ns < 1_000_000


# Packing


def test_messages_of_one_moment_share_packets_up_to_1400_bytes(day) -> None:
    messages = [add_order(i, OPEN_NS) for i in range(100)] + [delete_order(1, OPEN_NS + 1)]
    line = FakeLine()
    Replay(day(messages), line, session="T", linger_s=0).run()
    assert [(time, p.sequence, p.count) for time, p in line.packets()] == [
        (0, 1, 36), (0, 37, 36), (0, 73, 28), (1, 101, 1),
    ]  # fmt: skip
    assert [m for _, p in line.packets() for m in p.messages] == messages
    assert max(len(packet) for _, packet in line.sent) <= 1_400


@given(sizes=st.lists(st.sampled_from([12, 19, 36, 50, 700, 1_378]), min_size=1, max_size=200))
@settings(max_examples=30)
def test_full_packets_carry_the_file_byte_by_byte(tmp_path_factory, sizes) -> None:
    messages = [system_event("O", 0), *(b"\xff" + bytes(size - 1) for size in sizes)]
    path = tmp_path_factory.mktemp("day") / "day.itch"
    path.write_bytes(binary_file(messages))
    line = FakeLine()
    Replay(Capture(path, "BinaryFILE", False, 0), line, speed=None, session="T", linger_s=0).run()
    data = [packet for _, packet in line.sent[:-1]]
    assert b"".join(packet[20:] for packet in data) == path.read_bytes()
    assert all(len(packet) <= 1_400 for packet in data)
    for packet, following in pairwise(data):  # no packet could have taken the next message too
        assert len(packet) + 2 + int.from_bytes(following[20:22], "big") > 1_400


def test_only_the_chosen_symbols_go_out(day) -> None:
    messages = [
        system_event("O", 0),
        add_order(1, 1, "AAPL", 1),
        add_order(2, 2, "MSFT", 2),
        delete_order(1, 3, 1),
        delete_order(2, 4, 2),
        system_event("C", 5),
    ]
    line = FakeLine()
    stats = Replay(day(messages), line, symbols=["MSFT", "NONE"], session="T", linger_s=0).run()
    assert [m for _, p in line.packets() for m in p.messages] == [messages[i] for i in (0, 2, 4, 5)]
    assert [p.sequence for _, p in line.packets()] == [1, 2, 3, 4]
    assert (stats.messages, stats.filtered, stats.symbols_not_seen) == (4, 2, ["NONE"])


# Quiet times and the end


def test_heartbeats_once_a_second_while_idle(day) -> None:
    line = FakeLine()
    Replay(day([add_order(1, OPEN_NS), add_order(2, OPEN_NS + 4_500_000_000)]), line, session="T", linger_s=0).run()
    assert [packet for _, packet in line.sent[1:-2]] == [heartbeat("T001", 2)] * 4
    assert [time for time, _ in line.sent[1:-2]] == [i * SECOND_NS for i in (1, 2, 3, 4)]


def test_end_of_session_repeats_until_nobody_has_asked_for_a_while(day) -> None:
    line = FakeLine()
    line.requests.append((1_500_000_000, ask("T001", 1, 1)))
    stats = Replay(day(every(0, 2)), line, session="T", linger_s=2).run()
    ends = [(time, packet) for time, packet in line.sent if packet == end_of_session("T001", 3)]
    assert [time for time, _ in ends] == [0, SECOND_NS, 2 * SECOND_NS, 3 * SECOND_NS]
    assert line.time_ns == 3_500_000_000
    assert stats.requests == 1
    assert stats.seconds(line.time_ns) == 0.0  # waiting for requests is no sending time


def test_stop_says_end_of_session_and_returns(day) -> None:
    line = FakeLine()
    player = Replay(day(every(SECOND_NS, 100)), line, loops=None, session="T")
    send = line.send

    def stop_at_fifth(packet: bytes) -> None:
        send(packet)
        if len(line.sent) == 5:
            player.stop()

    line.send = stop_at_fifth  # type: ignore[method-assign]
    stats = player.run()
    assert stats.messages == 5
    assert line.sent[-1][1] == end_of_session("T001", 6)
    assert len(line.sent) == 6


def test_an_empty_day_ends_even_when_looped(day) -> None:
    line = FakeLine()
    capture = day([delete_order(1, 1)])
    stats = Replay(capture, line, symbols=["NONE"], loops=None, session="T", linger_s=0).run()
    assert stats.messages == 0
    assert [packet for _, packet in line.sent] == [end_of_session("T001", 1)]


# Re-requests


def served(day, messages: list[bytes], requests: list[tuple[int, bytes]], **options) -> tuple[list[Packet], Replay]:
    line = FakeLine()
    line.requests.extend(requests)
    player = Replay(day(messages), line, session="T", linger_s=1, **options)
    player.run()
    return [decode_packet(reply) for reply in line.replies], player


def test_requests_are_answered_with_as_many_messages_as_fit(day) -> None:
    messages = every(0, 100)
    after = SECOND_NS // 2
    requests = [(after, ask("T001", 1, 1)), (after, ask("T001", 10, 500)), (after, ask("T001", 99, 50))]
    answers, player = served(day, messages, requests)
    assert [(a.session, a.sequence, a.count) for a in answers] == [("T001", 1, 1), ("T001", 10, 36), ("T001", 99, 2)]
    assert answers[1].messages == messages[9:45]
    assert (player.stats.requests, player.stats.retransmitted) == (3, 39)


def test_bad_requests_get_silence_and_are_counted(day) -> None:
    now = SECOND_NS // 2
    bad = [b"", b"short", ask("OTHER", 1, 1), ask("T001", 0, 1), ask("T001", 3, 1), ask("T001", 1, 0)]
    answers, player = served(day, every(0, 2), [(now, request) for request in bad])
    assert answers == []
    assert player.stats.unanswered == len(bad)


def test_what_has_not_been_sent_yet_is_not_answered(day) -> None:
    requests = [(SECOND_NS // 2, ask("T001", 1, 10)), (SECOND_NS // 2, ask("T001", 2, 10))]
    answers, player = served(day, every(SECOND_NS, 3), requests)
    assert [(a.sequence, a.count) for a in answers] == [(1, 1)]
    assert player.stats.unanswered == 1


def test_the_session_before_can_still_be_asked_for(day) -> None:
    requests = [(1_500_000_000, ask("T001", 1, 1)), (1_500_000_000, ask("T002", 1, 1))]
    answers, _ = served(day, every(0, 1), requests, loops=2)
    assert [a.session for a in answers] == ["T001", "T002"]


def test_window_forgets_the_oldest_and_stays_bounded() -> None:
    store, size = SentMessages(window_bytes=50_000), 38
    block, bounds = binary_file(every(0, 10)), np.arange(11) * size
    for run in range(1_000):
        store.add(1 + 10 * run, block, bounds)
    assert store._size_bytes <= 50_000
    assert len(store._runs) > 50
    assert store.answer(1, 10) == (0, b"")
    assert store.answer(9_991, 10) == (10, block)
    assert store.answer(9_986, 10) == (10, block[5 * size :] + block[: 5 * size])  # across two runs
    assert store.answer(9_995, 100) == (6, block[4 * size :])


def test_store_keeps_early_and_late_packets_but_none_twice() -> None:
    store = SentMessages(window_bytes=50_000)
    messages = every(0, 6)
    for first in (1, 5, 3, 3):
        pair = messages[first - 1 : first + 1]
        store.add(first, binary_file(pair), np.array([0, 38, 76]))
    assert store.answer(1, 10) == (6, binary_file(messages))
    assert len(store._runs) == 3


# Recorded packets


def recorded(tmp_path: Path, payloads: list[bytes], interval_ns: int = SECOND_NS):
    path = tmp_path / "feed.pcap"
    path.write_bytes(pcap([(i * interval_ns, ethernet(ipv4(udp(payload)))) for i, payload in enumerate(payloads)]))
    return open_capture(path)


def test_packets_of_a_pcap_go_out_as_they_were(tmp_path) -> None:
    payloads = [
        encode_packet("000010059B", 500, every(0, 3)),
        heartbeat("000010059B", 503),
        encode_packet("000010059B", 503, every(0, 60)),  # longer than we would make them
        end_of_session("000010059B", 563),
    ]
    line = FakeLine()
    stats = Replay(recorded(tmp_path, payloads), line, linger_s=0).run()
    assert [packet for _, packet in line.sent] == [*payloads, payloads[-1]]
    assert [time for time, _ in line.sent[:4]] == [0, SECOND_NS, 2 * SECOND_NS, 3 * SECOND_NS]
    assert (stats.messages, stats.packets) == (63, 4)


def test_second_loop_of_a_pcap_is_a_new_session_with_the_same_numbers(tmp_path) -> None:
    payloads = [encode_packet("000010059B", 500, every(0, 3)), encode_packet("000010059B", 503, every(0, 2))]
    line = FakeLine()
    Replay(recorded(tmp_path, payloads), line, loops=2, session="T", linger_s=0).run()
    assert [(p.session, p.sequence) for _, p in line.packets()] == [
        ("000010059B", 500), ("000010059B", 503), ("T001", 500), ("T001", 503),
    ]  # fmt: skip


def test_recorded_packets_can_be_asked_for_again(tmp_path) -> None:
    messages = [b"", *every(0, 3)]  # an empty block has a number too
    line = FakeLine()
    line.requests.append((SECOND_NS // 2, ask("000010059B", 501, 9)))
    Replay(recorded(tmp_path, [encode_packet("000010059B", 500, messages)]), line, linger_s=1).run()
    assert line.replies == [encode_packet("000010059B", 501, messages[1:])]


def test_symbols_picked_from_a_pcap_are_a_feed_of_their_own(tmp_path) -> None:
    messages = [add_order(1, 1, "AAPL", 1), add_order(2, 2, "MSFT", 2), add_order(3, 3, "AAPL", 1)]
    line = FakeLine()
    capture = recorded(tmp_path, [encode_packet("000010059B", 500, messages)])
    Replay(capture, line, symbols=["AAPL"], session="T", linger_s=0).run()
    assert [(p.session, p.sequence, p.messages) for _, p in line.packets()] == [
        ("T001", 1, [messages[0]]), ("T001", 2, [messages[2]]),
    ]  # fmt: skip


@needs_shared
def test_the_real_pcap_is_replayed_packet_by_packet() -> None:
    capture = open_capture(SHARED_DATA / "pcap" / "nasdaq-moldudp64-20230822.pcap")
    line = FakeLine()
    Replay(capture, line, linger_s=0).run()
    receiver = Receiver()
    happened = [event for time, packet in line.sent for event in receiver.receive(0, packet, time)]
    delivered = [event for event in happened if isinstance(event, events.Deliver)]
    assert [event.sequence for event in delivered] == [packet.sequence for packet in capture.packets()]
    assert sum(event.count for event in delivered) == 269
    assert not [event for event in happened if isinstance(event, events.GapDetected | events.Malformed)]
    assert receiver.expected == 14_757_970
