import json
import signal
import socket
import subprocess
import sys
import threading
from collections import deque
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import typer
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from capture_files import add_order, binary_file, delete_order, ethernet, ipv4, pcap, system_event, udp
from shared import SHARED_DATA, needs_shared
from venue.wire.moldudp64 import (
    Packet,
    Receiver,
    Request,
    decode_packet,
    encode_packet,
    end_of_session,
    events,
    heartbeat,
)
from venue.wire.moldudp64.receiver import RECOVERY
from venue_clients.capture import Capture, open_capture
from venue_clients.commands_replay import replay as replay_command
from venue_clients.faults import Faults
from venue_clients.line import Address, UdpLine
from venue_clients.replay import Replay
from venue_clients.sent import SentMessages

SECOND_NS = 1_000_000_000
OPEN_NS = 34_200 * SECOND_NS


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


def every(interval_ns: int, count: int) -> list[bytes]:
    return [add_order(i, OPEN_NS + i * interval_ns) for i in range(count)]


def ask(session: str, sequence: int, count: int) -> bytes:
    return Request(session=session, sequence=sequence, count=count).encode()


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


# Faults


def faulty(seed: int, **rates: float) -> tuple[list[int], Faults]:
    faults = Faults(**rates, seed=seed)
    out = [packet for i in range(2_000) for packet in faults.apply(i.to_bytes(2, "big"))] + faults.flush()
    return [int.from_bytes(packet, "big") for packet in out], faults


def test_faults_are_the_same_for_the_same_seed() -> None:
    assert faulty(3, drop=5, duplicate=5, reorder=5)[0] == faulty(3, drop=5, duplicate=5, reorder=5)[0]
    assert faulty(3, drop=5, duplicate=5, reorder=5)[0] != faulty(4, drop=5, duplicate=5, reorder=5)[0]


def test_faults_come_as_often_as_asked_for() -> None:
    out, faults = faulty(1, drop=5)
    assert faults.dropped == 2_000 - len(out) == pytest.approx(100, abs=40)
    assert out == sorted(out)
    out, faults = faulty(1, duplicate=5)
    assert faults.duplicated == len(out) - 2_000 == pytest.approx(100, abs=40)
    out, faults = faulty(1, reorder=5)
    assert faults.reordered == sum(a > b for a, b in pairwise(out)) == pytest.approx(100, abs=40)
    assert sorted(out) == list(range(2_000))
    assert faulty(1)[0] == list(range(2_000))
    assert faulty(1, drop=100)[0] == []
    assert sorted(faulty(1, reorder=100)[0]) == list(range(2_000))


@pytest.mark.parametrize("rates", [{"drop": -1}, {"duplicate": 101}, {"reorder": float("nan")}])
def test_impossible_rates_are_refused(rates) -> None:
    with pytest.raises(ValueError, match="percentage"):
        Faults(**rates)


# Over real sockets: a receiver beside the replay


class Listener(threading.Thread):
    """Receives a feed until its end, asking for what is missing; keeps the messages in order."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[bytes] = []
        self.lost = self.asked = 0
        self.feed = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.feed.bind(("127.0.0.1", 0))
        self.recovery = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.recovery.bind(("127.0.0.1", 0))
        self.recovery.settimeout(10)
        self.feed.settimeout(0.02)
        self.request_address: tuple[str, int] = ("", 0)
        self.receiver = Receiver(join="start", max_requests=50)

    def run(self) -> None:
        now = 0
        while True:
            try:
                happened = self.receiver.receive(0, self.feed.recv(65_536), now)
            except TimeoutError:
                now += 100_000_000  # nothing for a while: what is overdue is asked for again
                happened = self.receiver.handle_timer(now)
            if self._handle(happened, now):
                return

    def _handle(self, happened: list[events.FeedEvent], now: int) -> bool:
        queue = deque(happened)
        while queue:
            match queue.popleft():
                case events.Deliver() as deliver:
                    self.messages += deliver.messages
                case events.RequestGap(session=session, first=first, count=count):
                    self.asked += 1
                    self.recovery.sendto(ask(session, first, count), self.request_address)
                    queue.extend(self.receiver.receive(RECOVERY, self.recovery.recv(65_536), now))
                case events.MessagesLost(count=count):
                    self.lost += count
                case events.EndOfSession():
                    return True
        return False

    def close(self) -> None:
        self.feed.close()
        self.recovery.close()


@pytest.fixture
def listener():
    thread = Listener()
    yield thread
    thread.close()


def run_against(listener: Listener, capture, **options) -> Replay:
    with UdpLine(listener.feed.getsockname()) as line:
        listener.request_address = line.request_address
        listener.start()
        player = Replay(capture, line, linger_s=5, **options)
        sender = threading.Thread(target=player.run)
        sender.start()
        listener.join()
        player.stop()
        sender.join()
    return player


@pytest.mark.parametrize("speed", [None, 1.0])
def test_lost_doubled_and_reordered_packets_are_recovered_over_udp(day, listener, speed) -> None:
    messages = every(10_000, 20_000)
    faults = Faults(drop=5, duplicate=5, reorder=5, seed=11)
    player = run_against(listener, day(messages), speed=speed, faults=faults)
    assert min(faults.dropped, faults.duplicated, faults.reordered) > 5
    assert listener.messages == messages
    assert listener.lost == 0
    assert player.stats.requests >= 1
    assert player.stats.retransmitted >= faults.dropped


def test_a_receiver_that_missed_everything_gets_it_from_the_request_server(day, listener) -> None:
    messages = every(0, 5_000)
    run_against(listener, day(messages), speed=None, faults=Faults(drop=100))
    assert listener.messages == messages


@needs_shared
def test_the_real_day_arrives_whole_at_maximum_speed(listener) -> None:
    capture = open_capture(SHARED_DATA / "itch" / "aapl-20200130-10k.itch")
    run_against(listener, capture, speed=None)
    assert listener.messages == list(capture.messages())


def test_wake_ends_a_wait_of_an_hour() -> None:
    with UdpLine(("127.0.0.1", 9)) as line:
        waiter = threading.Thread(target=line.wait, args=[line.now_ns() + 3_600 * SECOND_NS], daemon=True)
        waiter.start()
        line.wake()
        waiter.join(timeout=30)
        assert not waiter.is_alive()


def test_stop_wakes_a_replay_that_waits_for_a_distant_message(day) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as feed:
        feed.bind(("127.0.0.1", 0))
        feed.settimeout(30)
        with UdpLine(feed.getsockname()) as line:
            player = Replay(day([add_order(1, OPEN_NS), add_order(2, OPEN_NS + 3_600 * SECOND_NS)]), line)
            sender = threading.Thread(target=player.run)
            sender.start()
            assert decode_packet(feed.recv(2_048)).count == 1
            player.stop()
            sender.join(timeout=30)
            assert not sender.is_alive()
            assert decode_packet(feed.recv(2_048)).count == END


def test_multicast_over_loopback(day) -> None:
    group = "239.255.77.77"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as feed:
        feed.bind((group, 0))
        feed.setsockopt(
            socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton(group) + socket.inet_aton("127.0.0.1")
        )
        feed.settimeout(30)
        for interface in ("127.0.0.1", "lo"):
            with UdpLine((group, feed.getsockname()[1]), interface=interface, ttl=0) as line:
                assert line.request_address[0] == "127.0.0.1"
                Replay(day(every(0, 3)), line, linger_s=0).run()
            assert [decode_packet(feed.recv(2_048)).count for _ in range(2)] == [3, END]


def test_a_line_that_cannot_be_is_one_clear_error() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("127.0.0.1", 0))
        port = other.getsockname()[1]
        with pytest.raises(OSError, match=f"cannot answer requests at 127.0.0.1:{port}: Address already in use"):
            UdpLine(("127.0.0.1", 9), request_port=port)
    with pytest.raises(OSError, match="no multicast address"):
        UdpLine(("127.0.0.1", 9), interface="lo")
    with pytest.raises(OSError, match="no network interface 'nonesuch'"):
        UdpLine(("239.255.77.77", 9), interface="nonesuch")


# The command

APP = typer.Typer()
APP.command()(replay_command)


def test_command_prints_a_summary(day) -> None:
    path = day(every(1_000, 500)).path
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as feed:
        feed.bind(("127.0.0.1", 0))
        arguments = [str(path), "--to", f"127.0.0.1:{feed.getsockname()[1]}", "--speed", "max", "--json"]
        result = CliRunner().invoke(APP, arguments)
        assert result.exit_code == 0, result.output
        summary = json.loads(result.stdout)
        assert (summary["messages"], summary["packets"], summary["loops"]) == (500, 14, 1)
        assert (summary["refused"], summary["interrupted"], summary["kind"]) == (0, False, "BinaryFILE")
        assert "re-requests at 127.0.0.1:" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["/no/such/file"], "cannot read /no/such/file: no such file or directory"),
        (["FILE", "--speed", "fast"], "--speed is a factor above 0, or max, not 'fast'"),
        (["FILE", "--speed", "nan"], "--speed is a factor above 0, or max, not 'nan'"),
        (["FILE", "--to", "26477"], "--to takes HOST:PORT"),
        (["FILE", "--to", "127.0.0.1:99999"], "--to takes HOST:PORT"),
        (["FILE", "--interface", "lo"], "no multicast address"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(day, arguments, reason) -> None:
    path = str(day(every(0, 1)).path)
    result = CliRunner().invoke(APP, [path if argument == "FILE" else argument for argument in arguments])
    assert result.exit_code == 2
    assert result.stderr.startswith("venue replay: ")
    assert reason in result.stderr
    assert result.stderr.count("\n") == 1


def test_ctrl_c_ends_with_the_summary_and_exit_code_130(day) -> None:
    path = day(every(3_600 * SECOND_NS, 2)).path
    code = "import typer; from venue_clients.commands_replay import replay; typer.run(replay)"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as feed:
        feed.bind(("127.0.0.1", 0))
        feed.settimeout(60)
        process = subprocess.Popen(
            [sys.executable, "-c", code, str(path), "--to", f"127.0.0.1:{feed.getsockname()[1]}"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert decode_packet(feed.recv(2_048)).count == 1  # it is under way, and the signal handler in place
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert out.startswith("1 messages in 1 packets, 0.0 recorded seconds in ")
    assert out.count("\n") == 1
    assert "Traceback" not in err
