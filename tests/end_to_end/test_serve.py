"""`venue serve` as a process of its own: it starts, serves, says what is wrong, and stops in order."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvloop
from prometheus_client.parser import text_string_to_metric_families

import recorded_day as day
from exchange_rig import Trader, enter, say
from venue import passwords
from venue.app import STOPS
from venue.telemetry import page as counters_page
from venue.telemetry import pages
from venue.telemetry.page import State
from venue.wire.soupbintcp import LoginAccepted
from venue_clients.capture import open_capture
from venue_clients.line import UdpLine
from venue_clients.replay import Replay

PATIENCE_S = 60.0
ANY_PORTS = ("--order-port", "0", "--feed-port", "0", "--http-port", "0")
COMMAND = [sys.executable, "-m", "venue", "serve"]


def wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"in vain: {what}"
        time.sleep(0.005)


class Service:
    """The process, its ready line and its HTTP side."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.addresses: dict[str, tuple[str, int]] = {}

    def wait_ready(self) -> None:
        assert self.process.stdout is not None
        readable, _, _ = select.select([self.process.stdout], [], [], PATIENCE_S)
        assert readable, "not ready in time"
        line = json.loads(self.process.stdout.readline())
        assert line.pop("ready") is True
        assert list(line) == ["orders", "http", "feed"]
        for name, address in line.items():
            host, _, port = address.rpartition(":")
            self.addresses[name] = (host, int(port))

    @property
    def page(self) -> Path | None:
        """Its counters page, as long as there is one."""
        return next((page.path for page in pages.list_pages() if page.pid == self.process.pid), None)

    def get(self, path: str) -> tuple[int, str]:
        with contextlib.closing(http.client.HTTPConnection(*self.addresses["http"], timeout=PATIENCE_S)) as connection:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

    def metrics(self) -> dict[str, float]:
        """Samples by name and labels, as `venue_orders_total{accepted}`."""
        status, text = self.get("/metrics")
        assert status == 200
        return {
            f"{sample.name}{{{','.join(sample.labels.values())}}}" if sample.labels else sample.name: sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }

    def finish(self) -> tuple[int, str, str]:
        """Exit code, and what else it wrote."""
        out, err = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, out, err


@contextlib.contextmanager
def serving(*arguments: str, **environment: str) -> Iterator[Service]:
    """The service, not ready yet; it is killed if the test leaves it running."""
    process = subprocess.Popen(
        [*COMMAND, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "VENUE_LOG": "json", **environment},
    )
    try:
        yield Service(process)
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


async def a_trade(service: Service, stop: Callable[[], None]) -> list[str]:
    """What a client of the running service hears: the day's beginning, an order filled by history, and the end."""
    with socket.socket() as sock:
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, service.addresses["orders"])
        client = Trader(sock)
        assert isinstance(await client.login("TRADER", password="venue", sequence=1), LoginAccepted)
        heard = await client.hear(enter(1, "B", 150, 10_0000))
        stop()
        heard.append(say(await client.message()))
        assert await client.rest() == [b"Z"], "the end of the session"
        return heard


@pytest.mark.parametrize("number", STOPS)
def test_a_service_from_its_start_to_its_end(tmp_path: Path, number: signal.Signals) -> None:
    with serving(*ANY_PORTS) as service:
        service.wait_ready()
        page = service.page
        assert page is not None
        assert service.get("/healthz") == (200, "ok\n")
        assert service.get("/readyz") == (200, "ready\n")
        capture = open_capture(day.write(tmp_path / "day.itch", [day.added(11, "S", 100, 10_0000)]))
        with UdpLine(service.addresses["feed"]) as line:
            Replay(capture, line, speed=None, linger_s=0).run()
        wait_until(lambda: service.metrics()["venue_feed_messages_total{add_order}"] == 1, "the recorded order")
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            heard = runner.run(a_trade(service, lambda: service.process.send_signal(number)))
        assert heard == [
            "system event S",
            "accepted 1: B 150 @ 100000",
            "executed 1: 100 @ 100000 R",
            "system event E",
        ]
        code, out, err = service.finish()
    assert (code, out) == (0, "")
    events = [json.loads(line)["event"] for line in err.splitlines()]
    assert events[0] == "starting"
    assert "kernels ready" in events
    assert events[-1] in ("stopping", "connection ended")
    assert not page.exists()
    for name, kind in (("orders", socket.SOCK_STREAM), ("feed", socket.SOCK_DGRAM)):
        with socket.socket(socket.AF_INET, kind) as again:
            again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            again.bind(service.addresses[name])


def test_what_a_scrape_shows_of_a_trade(tmp_path: Path) -> None:
    with serving(*ANY_PORTS) as service:
        service.wait_ready()
        before = service.metrics()
        assert before["venue_fills_total"] == before["venue_order_to_ack_seconds_count"] == 0
        capture = open_capture(day.write(tmp_path / "day.itch", [day.added(11, "S", 100, 10_0000)]))
        with UdpLine(service.addresses["feed"]) as line:
            Replay(capture, line, speed=None, linger_s=0).run()
        wait_until(lambda: service.metrics()["venue_feed_messages_total{add_order}"] == 1, "the recorded order")

        def look() -> None:
            wait_until(lambda: service.metrics()["venue_order_to_ack_seconds_count"] == 1, "the answer")
            wait_until(lambda: service.metrics()["venue_gateway_sessions"] == 1, "a gauge, set four times a second")
            seen.update(service.metrics())
            service.process.terminate()

        seen: dict[str, float] = {}
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(a_trade(service, look))
        assert service.finish()[0] == 0
    wanted = {
        "venue_fills_total": 1,
        "venue_filled_shares_total": 100,
        "venue_filled_notional_dollars_total": 1_000,
        "venue_orders_total{accepted}": 1,
        "venue_gateway_logins_total{accepted}": 1,
        "venue_gateway_sessions": 1,
        "venue_feed_gaps_total": 0,
        "venue_live_orders{client}": 1,
        "venue_order_to_ack_seconds_bucket{+Inf}": 1,
    }
    assert {name: seen[name] for name in wanted} == wanted


def test_a_service_with_several_matching_threads(tmp_path: Path) -> None:
    path = tmp_path / "venue.toml"
    path.write_text("[engine]\nshards = 16\nevent_ring = 16384\norders = 1000\nlevels = 1000\n")
    with serving("--config", str(path), *ANY_PORTS) as service:
        service.wait_ready()
        capture = open_capture(day.write(tmp_path / "day.itch", [day.added(11, "S", 100, 10_0000)]))
        with UdpLine(service.addresses["feed"]) as line:
            Replay(capture, line, speed=None, linger_s=0).run()
        wait_until(lambda: service.metrics()["venue_live_orders{feed}"] == 1, "the recorded order")
        assert service.metrics()["venue_matching_threads"] == 16

        def look() -> None:
            seen.append(json.loads(service.get("/api/fills")[1]))
            seen.append(json.loads(service.get(f"/api/fills?since={seen[0]['next']}")[1]))
            seen.append(json.loads(service.get("/api/book/AAPL")[1]))
            service.process.terminate()

        seen: list[Any] = []
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            heard = runner.run(a_trade(service, look))
        assert heard == [
            "system event S",
            "accepted 1: B 150 @ 100000",
            "executed 1: 100 @ 100000 R",
            "system event E",
        ]
        code, out, err = service.finish()
    assert (code, out) == (0, "")
    fills, more, book = seen
    assert [(fill["symbol"], fill["shard"], fill["number"]) for fill in fills["fills"]] == [("AAPL", 0, 1)]
    assert fills["next"] == ",".join(["1"] + ["0"] * 15)
    assert more == {"fills": [], "next": fills["next"], "missed": 0}
    assert [order["open"] for order in book["own"]] == [50]
    lines = map(json.loads, err.splitlines())
    warned = [line["shards"] for line in lines if line["event"] == "too few cores for the shards"]
    assert warned == ([16] if len(os.sched_getaffinity(0)) < 17 else [])


# --- what cannot work ---------------------------------------------------------------------------------------------


def complaint(*arguments: str) -> str:
    """The one line that a service that cannot start says."""
    with serving(*arguments) as service:
        code, out, err = service.finish()
        assert (code, out) == (2, ""), err
        assert err.count("\n") == 1, err
        assert service.page is None
    return err.rstrip("\n")


def test_a_busy_port_is_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert complaint("--order-port", port, "--feed-port", "0", "--http-port", "0") == (
            f"venue: orders.port: 127.0.0.1:{port}: address already in use; choose another with --order-port, 0 = any"
        )
        assert "--http-port" in complaint("--order-port", "0", "--feed-port", "0", "--http-port", port)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        port = str(taken.getsockname()[1])
        line = complaint("--order-port", "0", "--feed-port", port, "--http-port", "0")
        assert f"127.0.0.1:{port}" in line
        assert "in use" in line


CONFIGURATIONS = {
    "[orders]\nprot = 1\n": "orders.prot: unknown key; known here are",
    "[orders]\nport = 'many'\n": "orders.port: expected a whole number, not text",
    "[engine]\nmode = 'sonsume'\n": 'engine.mode: expected "consume" or "match" or "passive", not',
    "[engine\n": "no valid TOML",
    "[orders]\nhost = '0.0.0.0'\n": "the password of account TRADER is public",
    "[http]\nhost = '0.0.0.0'\n": "http.host: 0.0.0.0 can be reached from outside: set http.operator_token_hash first",
}


@pytest.mark.parametrize(("text", "expected"), CONFIGURATIONS.items(), ids=range(len(CONFIGURATIONS)))
def test_a_configuration_that_cannot_work_is_one_line(tmp_path: Path, text: str, expected: str) -> None:
    path = tmp_path / "venue.toml"
    path.write_text(text)
    line = complaint("--config", str(path), *ANY_PORTS)
    assert line.startswith(f"venue: {path}: ")
    assert expected in line


def test_a_configuration_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "none.toml"
    assert complaint("--config", str(path)) == f"venue: {path}: no such file or directory"


# --- the operator -------------------------------------------------------------------------------------------------


def test_the_operator_kills_an_account_of_the_running_service(tmp_path: Path) -> None:
    path = tmp_path / "venue.toml"
    path.write_text(f'[http]\noperator_token_hash = "{passwords.hash_password("operator")}"\n')
    with serving("--config", str(path), *ANY_PORTS) as service:
        service.wait_ready()
        page = service.page
        assert page is not None
        files = [page.with_suffix(suffix) for suffix in (".page", ".live", ".requests")]
        assert all(file.exists() for file in files)
        with contextlib.closing(http.client.HTTPConnection(*service.addresses["http"], timeout=PATIENCE_S)) as client:
            for token, status in (("wrong", 403), ("operator", 200)):
                headers = {"Authorization": f"Bearer {token}"}
                client.request("POST", "/api/accounts/TAKER/kill", body='{"on": true}', headers=headers)
                answer = client.getresponse()
                assert (answer.status, answer.getheader("Content-Type")) == (status, "application/json"), answer.read()
                answer.read()
        sessions = json.loads(service.get("/api/sessions")[1])["sessions"]
        assert [session["account"] for session in sessions if session["killed"]] == ["TAKER"]
        assert json.loads(service.get("/api/book/AAPL")[1])["own_total"] == 0
        service.process.send_signal(signal.SIGTERM)
        code, _, err = service.finish()
        assert code == 0
        assert "kill switch set by the operator" in err
        assert "scrypt$" not in err
        assert not any(file.exists() for file in files)


# --- stopping early -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_while_kernels_are_compiled_is_clean(tmp_path: Path, number: signal.Signals) -> None:
    """The compile cache is empty, so that this would take half a minute."""
    with serving(*ANY_PORTS, VENUE_CACHE_DIR=str(tmp_path)) as service:
        assert service.process.stderr is not None
        events = [json.loads(service.process.stderr.readline())["event"] for _ in range(2)]
        assert events == ["starting", "compiling kernels for this version and this CPU, once: may take half a minute"]
        path = service.page
        assert path is not None
        page = counters_page.open_read_only(path)
        assert page.state is State.COMPILING
        service.process.send_signal(number)
        code, out, err = service.finish()
        assert (code, out, err) == (0, "", "")
        assert page.state is State.STOPPED
        assert not path.exists()
