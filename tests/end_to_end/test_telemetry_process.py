"""The telemetry process as its own process: scraped over HTTP, attacked, and left behind."""

import http.client
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from venue.engine.counters import ORDER_TO_ACK
from venue.engine.histogram import record
from venue.telemetry import launch
from venue.telemetry.giving_way import NICENESS
from venue.telemetry.page import Page, State, create
from venue.telemetry.pages import process_start_ticks
from venue.telemetry.server import CONNECTIONS

PROMETHEUS_ACCEPTS = (
    "application/openmetrics-text;version=1.0.0;q=0.6,application/openmetrics-text;version=0.0.1;q=0.5,"
    "text/plain;version=1.0.0;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)

TYPES = {"js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}

OWNER = """
import socket, sys
from pathlib import Path
from venue.telemetry import launch
from venue.telemetry.page import create
page = create(mode="match", folder=Path(sys.argv[1]))
process = launch(page.path, socket.create_server(("127.0.0.1", 0)))
print(process.pid, flush=True)
input()
"""


def wait_until(condition: Callable[[], bool], what: str, timeout_s: float = 30.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {timeout_s} s: {what}"
        time.sleep(0.01)


def listen() -> socket.socket:
    return socket.create_server(("127.0.0.1", 0))


class Telemetry:
    """A running telemetry process, its page, and a way to ask it."""

    def __init__(self, page: Page) -> None:
        self.page = page
        with listen() as listening:
            self.address: tuple[str, int] = listening.getsockname()
            self.process = launch(page.path, listening)
        wait_until(lambda: self.get("/healthz")[0] == 200, "an answer")

    def get(self, path: str, accept: str = "*/*", method: str = "GET") -> tuple[int, str, str]:
        """Status, content type and text."""
        connection = http.client.HTTPConnection(*self.address, timeout=30)
        try:
            connection.request(method, path, headers={"Accept": accept})
            response = connection.getresponse()
            return response.status, response.headers["Content-Type"], response.read().decode()
        finally:
            connection.close()


@pytest.fixture
def telemetry(tmp_path: Path) -> Iterator[Telemetry]:
    page = create(mode="consume", accounts=["alice"], folder=tmp_path / "pages")
    telemetry = Telemetry(page)
    yield telemetry
    telemetry.process.kill()
    telemetry.process.wait()


def test_prometheus_scrapes_it_in_both_formats(telemetry: Telemetry) -> None:
    telemetry.page.matcher["fills"][0] = 12
    record(telemetry.page.histograms[ORDER_TO_ACK], 20_000)

    status, content_type, text = telemetry.get("/metrics")
    assert (status, content_type) == (200, "text/plain; version=0.0.4; charset=utf-8")
    plain = {family.name: family for family in parse_text(text)}
    assert plain["venue_fills"].samples[0].value == 12
    assert [s.value for s in plain["venue_order_to_ack_seconds"].samples if s.name.endswith("_count")] == [1]

    status, content_type, text = telemetry.get("/metrics", PROMETHEUS_ACCEPTS)
    assert status == 200
    assert content_type.startswith("application/openmetrics-text; version=1.0.0")
    assert {family.name for family in parse_openmetrics(text)} == {name.removesuffix("_info") for name in plain}


def test_latency_recorded_before_the_first_scrape_is_in_its_recent_figures(telemetry: Telemetry) -> None:
    record(telemetry.page.histograms[ORDER_TO_ACK], 20_000)
    _, _, text = telemetry.get("/metrics")
    assert 'venue_order_to_ack_recent_seconds{quantile="0.99"} 2.048e-05' in text.splitlines()


def test_ready_follows_the_state(telemetry: Telemetry) -> None:
    for state in State:
        telemetry.page.set_state(state)
        status, _, text = telemetry.get("/readyz")
        assert (status, text) == (200 if state is State.READY else 503, f"{state.name.lower()}\n")


def test_healthy_needs_a_heartbeat_once_it_is_ready(telemetry: Telemetry) -> None:
    page = telemetry.page
    page.set_state(State.COMPILING)
    page.header["heartbeat_monotonic_ns"] -= 6_000_000_000
    assert telemetry.get("/healthz")[::2] == (200, "ok\n")
    page.header["state"][0] = State.READY
    status, _, text = telemetry.get("/healthz")
    assert status == 503
    assert text.startswith("no heartbeat for ")
    page.beat()
    assert telemetry.get("/healthz")[::2] == (200, "ok\n")


def test_the_page_and_its_files_are_served_and_the_rest_is_not_found(telemetry: Telemetry) -> None:
    status, content_type, text = telemetry.get("/")
    assert (status, content_type) == (200, "text/html; charset=utf-8")
    files = re.findall(r'(?:src|href)="(web/[^"]+)"', text)
    assert {name.rpartition(".")[2] for name in files} == {"js", "css", "svg"}
    for name in files:
        status, content_type, _ = telemetry.get(f"/{name}")
        assert (status, content_type.partition(";")[0]) == (200, TYPES[name.rpartition(".")[2]])
    for path in ("/../../etc/passwd", "/web/..%2fserver.py", "/web/server.py", "/web/none.js", "/web/"):
        assert telemetry.get(path)[0] == 404, path
    assert telemetry.get("/metrics", method="DELETE")[0] == 405
    assert telemetry.get("/metrics", method="HEAD")[::2] == (200, "")


@pytest.mark.parametrize(
    "attack",
    [
        b"\0" * 1000,
        b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 100_000 + b"\r\n\r\n",
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: application/openmetrics-text;version=x.y\r\n\r\n",
        b"GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: text/plain;version=\xff\r\n\r\n",
    ],
    ids=["zeros", "long header", "long path", "negative length", "bad chunk", "bad version", "bad bytes"],
)
def test_hostile_requests_harm_nobody(telemetry: Telemetry, attack: bytes) -> None:
    with socket.create_connection(telemetry.address, timeout=30) as attacker:
        attacker.sendall(attack)
        answer = attacker.recv(12)
    assert answer in (b"HTTP/1.1 200", b"HTTP/1.0 400", b"HTTP/1.1 400", b"HTTP/1.1 404", b"HTTP/1.1 405")
    assert telemetry.get("/healthz")[0] == 200


def test_connections_are_bounded(telemetry: Telemetry) -> None:
    idle = [socket.create_connection(telemetry.address, timeout=30) for _ in range(CONNECTIONS)]
    try:
        with socket.create_connection(telemetry.address, timeout=30) as one_more:
            assert one_more.recv(1) == b""
    finally:
        for connection in idle:
            connection.close()

    def answers() -> bool:
        try:
            return telemetry.get("/healthz")[0] == 200
        except ConnectionError:
            return False

    wait_until(answers, "an answer after the others have left")


def test_it_gives_way_and_does_not_load_the_compiler(telemetry: Telemetry) -> None:
    pid = telemetry.process.pid
    assert os.getpriority(os.PRIO_PROCESS, pid) == min(19, os.getpriority(os.PRIO_PROCESS, 0) + NICENESS)
    assert os.sched_getscheduler(pid) in (os.SCHED_IDLE, os.SCHED_BATCH), "the latter where no core is free"
    assert "llvmlite" not in Path(f"/proc/{pid}/maps").read_text()


def test_sigterm_ends_it_cleanly_but_ctrl_c_or_a_closed_terminal_does_not(telemetry: Telemetry) -> None:
    for number in (signal.SIGINT, signal.SIGHUP):
        telemetry.process.send_signal(number)
    assert telemetry.get("/healthz")[0] == 200
    telemetry.process.terminate()
    assert telemetry.process.wait(30) == 0


def test_it_ends_when_the_owner_is_killed(tmp_path: Path) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path / "pages")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with owner:
        assert owner.stdout is not None
        pid = int(owner.stdout.readline())
        assert process_start_ticks(pid) is not None
        owner.kill()
    wait_until(lambda: process_start_ticks(pid) is None, "the end of the telemetry process")


def test_what_is_no_page_ends_it_with_one_line(tmp_path: Path) -> None:
    with listen() as listening:
        command = [sys.executable, "-m", "venue.telemetry", str(tmp_path / "none"), str(listening.fileno())]
        done = subprocess.run(
            command, pass_fds=[listening.fileno()], capture_output=True, text=True, timeout=60, check=False
        )
    assert done.returncode == 2
    assert done.stderr == f"venue telemetry: cannot open counters page {tmp_path / 'none'}: No such file or directory\n"


def test_wrong_arguments_end_it_with_its_usage() -> None:
    done = subprocess.run([sys.executable, "-m", "venue.telemetry"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("usage: ")
