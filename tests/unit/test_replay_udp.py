"""A replay over real UDP sockets, with a receiver beside it, and the command around it."""

import json
import signal
import socket
import subprocess
import sys
import threading
from collections import deque
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from capture_files import OPEN_NS, SECOND_NS, add_order, ask, binary_file, every
from shared import SHARED_DATA, needs_shared
from venue.wire.moldudp64 import Receiver, decode_packet, events
from venue.wire.moldudp64.receiver import RECOVERY
from venue_clients.capture import open_capture
from venue_clients.commands_replay import replay as replay_command
from venue_clients.faults import Faults
from venue_clients.line import UdpLine
from venue_clients.replay import Replay
from venue_clients.stops import STOPS

END = 0xFFFF


@pytest.fixture
def day(tmp_path: Path):
    """Writes a BinaryFILE of messages and opens it."""

    def write(messages: list[bytes]):
        path = tmp_path / "day.itch"
        path.write_bytes(binary_file(messages))
        return open_capture(path)

    return write


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


def closed_port() -> int:
    """A UDP port where nobody listens."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def test_copies_get_the_same_packets_and_one_that_nobody_hears_harms_nothing(day) -> None:
    messages = every(0, 2_000)
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as first,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as second,
    ):
        for feed in (first, second):
            feed.bind(("127.0.0.1", 0))
            feed.settimeout(30)
        copies = [("127.0.0.1", closed_port()), second.getsockname()]
        with UdpLine(first.getsockname(), copies=copies) as line:
            stats = Replay(day(messages), line, speed=None, linger_s=0).run()
            refused = [each.refused for each in line.destinations]
        heard = [[feed.recv(2_048) for _ in range(stats.packets + 1)] for feed in (first, second)]
    assert heard[0] == heard[1]
    assert [message for packet in heard[0] for message in decode_packet(packet).messages] == messages
    assert (refused[0], refused[2]) == (0, 0)
    assert refused[1] > 0


def test_an_interface_is_for_the_multicast_among_the_destinations() -> None:
    with UdpLine(("127.0.0.1", 9), copies=[("239.255.77.77", 9)], interface="lo", ttl=0) as line:
        assert [each.is_multicast for each in line.destinations] == [False, True]


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
        assert (summary["refused"], summary["interrupted"], summary["kind"]) == ([0], False, "BinaryFILE")
        assert "re-requests at 127.0.0.1:" in result.stderr


def test_command_sends_to_each_to_and_says_where_nobody_listens(day) -> None:
    path = day(every(0, 500)).path
    nobody = f"127.0.0.1:{closed_port()}"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as feed:
        feed.bind(("127.0.0.1", 0))
        there = f"127.0.0.1:{feed.getsockname()[1]}"
        arguments = [str(path), "--speed", "max", "--to", there, "--to", nobody]
        result = CliRunner().invoke(APP, arguments)
        assert result.exit_code == 0, result.output
        assert f"to {there} and {nobody}, re-requests at" in result.stderr
        assert f"packets refused: nothing listens at {nobody}" in result.stdout
        assert there not in result.stdout
        summary = json.loads(CliRunner().invoke(APP, [*arguments, "--json"]).stdout)
    assert summary["to"] == [there, nobody]
    assert summary["refused"][0] == 0 < summary["refused"][1]


def test_command_says_early_that_nobody_listens_and_ends_with_exit_code_1(day) -> None:
    path = day(every(0, 500)).path
    nobody = f"127.0.0.1:{closed_port()}"
    result = CliRunner().invoke(APP, [str(path), "--speed", "max", "--to", nobody])
    assert result.exit_code == 1
    assert result.stderr.splitlines()[1:] == [
        f"venue replay: nothing listens at {nobody} (yet)",
        "venue replay: every packet was refused",
    ]


@pytest.mark.parametrize(("symbols", "code"), [("NOPE", 1), ("nope,NADA,NOPE", 1), ("NOPE,AAPL", 0)])
def test_command_ends_with_exit_code_1_if_no_symbol_is_in_the_file(day, symbols: str, code: int) -> None:
    path = day(every(0, 20)).path
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as feed:
        feed.bind(("127.0.0.1", 0))
        arguments = [str(path), "--speed", "max", "--to", f"127.0.0.1:{feed.getsockname()[1]}", "--symbols", symbols]
        result = CliRunner().invoke(APP, arguments)
    assert result.exit_code == code, result.output
    assert ("venue replay: none of the symbols is in" in result.stderr) == bool(code)


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


@pytest.mark.parametrize("number", STOPS)
def test_a_stop_ends_with_the_summary_and_the_exit_code_of_its_signal(day, number: signal.Signals) -> None:
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
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 128 + number, err
    assert out.startswith("1 messages in 1 packets, 0.0 recorded seconds in ")
    assert out.count("\n") == 1
    assert "Traceback" not in err
