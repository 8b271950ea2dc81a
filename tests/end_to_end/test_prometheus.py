"""A real Prometheus scrapes a real venue: every query of every panel and rule finds data while orders and feed flow."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import math
import shutil
import socket
import subprocess
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import promql
from venue_clients.capture import open_capture
from venue_clients.demo.service import Service
from venue_clients.generate import DayPlan, generate
from venue_clients.line import UdpLine
from venue_clients.prices import ticks
from venue_clients.replay import Replay
from venue_clients.trading import IOC, TradingClient

PROGRAM = shutil.which("prometheus")
pytestmark = [
    pytest.mark.skipif(PROGRAM is None, reason="no prometheus: apt-get install prometheus"),
    pytest.mark.timeout(300),  # the first of them may compile the exchange
]

PATIENCE_S = 60.0
NO_REQUEST_SERVER = ("127.0.0.1", 9)
"""The discard port: nothing is lost on the way here."""
SYMBOLS = ("AAPL", "MSFT")
Sample = dict[str, Any]


class Prometheus:
    """The process with the configuration in deploy/, and its HTTP API."""

    def __init__(self, folder: Path, target: tuple[str, int]) -> None:
        assert PROGRAM is not None
        shutil.copytree(promql.PROMETHEUS, folder / "config")
        (folder / "config" / "targets.yml").write_text(json.dumps([{"targets": ["{}:{}".format(*target)]}]))
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.address = "{}:{}".format(*probe.getsockname())
        self._log = folder / "prometheus.log"
        command = [
            PROGRAM,
            f"--config.file={folder / 'config' / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address={self.address}",
        ]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)

    def get(self, path: str, **parameters: str) -> Any:
        """The data of an answer; raises OSError as long as it does not answer, or says no."""
        assert self._process.poll() is None, self._log.read_text()
        url = f"http://{self.address}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(url, timeout=10) as answer:
            return json.load(answer)["data"]

    def query(self, expr: str) -> list[Sample]:
        """What an expression gives now: samples, or a scalar as one of them."""
        data = self.get("query", query=expr)
        return [{"value": data["result"]}] if data["resultType"] == "scalar" else data["result"]

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(PATIENCE_S)


@contextlib.contextmanager
def replaying(line: UdpLine, day: Path) -> Iterator[None]:
    """The day again and again, from another thread."""
    replay = Replay(open_capture(day), line, loops=None, linger_s=0.0)
    thread = threading.Thread(target=replay.run, name="replay")
    thread.start()
    try:
        yield
    finally:
        replay.stop()
        thread.join(PATIENCE_S)


async def trade(address: tuple[str, int], stop: threading.Event) -> None:
    """A client that does everything that a client does, many times a second."""
    async with await TradingClient.connect(*address, "TRADER", "venue") as client:
        for number in itertools.count():
            if stop.is_set():
                return
            symbol = SYMBOLS[number % 2]
            client.enter(symbol, "B", 500, ticks("1900.00"), IOC)  # takes what history will trade
            client.enter("NOSUCH", "B", 0, ticks("1.00"))  # rejected
            resting = client.enter(symbol, "B", 100, ticks("1.00"))
            replaced = client.replace(resting, 50, ticks("1.01"))
            client.modify(replaced, "B", 40)
            client.cancel(replaced)
            if number < 3:
                client.enter(symbol, "B", 10, ticks("1.02"))  # stays
            await asyncio.sleep(0.02)


@contextlib.contextmanager
def trading(address: tuple[str, int]) -> Iterator[None]:
    stop = threading.Event()
    failures: list[BaseException] = []

    def run() -> None:
        try:
            asyncio.run(trade(address, stop))
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run, name="trading")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(PATIENCE_S)
    assert failures == []


async def start(folder: Path, request_server: tuple[str, int]) -> Service:
    service = await Service.start(folder, request_server)
    await service.ready()
    return service


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """Prometheus beside a venue to which a day and orders flow."""
    folder = tmp_path_factory.mktemp("prometheus")
    generate(folder / "day.itch", DayPlan(SYMBOLS, messages=40_000, seconds=20.0, seed=5))
    with asyncio.Runner() as runner, contextlib.ExitStack() as running:
        service = runner.run(start(folder, NO_REQUEST_SERVER))
        running.callback(lambda: runner.run(service.stop()))
        line = running.enter_context(UdpLine(service.addresses["feed"]))
        prometheus = Prometheus(folder, service.addresses["http"])
        running.callback(prometheus.stop)
        running.enter_context(replaying(line, folder / "day.itch"))
        running.enter_context(trading(service.addresses["orders"]))
        yield prometheus


def wait_for(condition: Callable[[], Any], what: Callable[[], object]) -> Any:
    """The first result that is not false; fails at the deadline with what was missing."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        with contextlib.suppress(OSError):
            if result := condition():
                return result
        assert time.monotonic() < deadline, what()
        time.sleep(0.1)


def finite(samples: list[Sample]) -> bool:
    return bool(samples) and all(math.isfinite(float(sample["value"][1])) for sample in samples)


def wait_for_data(prometheus: Prometheus, expressions: dict[str, str]) -> None:
    """Until each expression, named by where it stands, has given samples, all of them numbers."""
    pending = dict(expressions)
    answers: dict[str, list[Sample]] = {}

    def ask() -> bool:
        for where in list(pending):
            answers[where] = prometheus.query(pending[where])
            if finite(answers[where]):
                del pending[where]
        return not pending

    wait_for(ask, lambda: {where: (expr, answers.get(where, "never asked")) for where, expr in pending.items()})


def test_it_scrapes_open_metrics_without_an_error(prometheus: Prometheus) -> None:
    def scraped() -> Any:
        return [target for target in prometheus.get("targets")["activeTargets"] if target["health"] != "unknown"]

    (target,) = wait_for(scraped, lambda: "no target")
    assert (target["health"], target["lastError"], target["scrapePool"]) == ("up", "", "venue")
    assert target["scrapeInterval"] == f"{promql.SCRAPE_S}s"
    metadata = wait_for(lambda: prometheus.get("targets/metadata"), lambda: "no metadata")
    kinds = {family["metric"]: family["type"] for family in metadata}
    # only OpenMetrics has infos, and counters whose family is called otherwise than their sample
    assert (kinds["venue_build"], kinds["venue_fills"]) == ("info", "counter")
    assert kinds["venue_order_to_ack_seconds"] == "histogram"


def test_every_query_of_every_panel_finds_numbers(prometheus: Prometheus) -> None:
    wait_for_data(prometheus, {where: promql.as_grafana_sends(expr) for where, expr in promql.panel_expressions()})


def test_every_recording_rule_records_numbers(prometheus: Prometheus) -> None:
    wait_for_data(prometheus, {rule["record"]: rule["record"] for rule in promql.rules("record")})


def test_every_alert_looks_at_something(prometheus: Prometheus) -> None:
    """An alert that does not fire gives nothing; without its limits it does."""
    wait_for_data(prometheus, {rule["alert"]: promql.without_limits(rule["expr"]) for rule in promql.rules("alert")})
    for rule in promql.rules("alert"):
        for selector in promql.selectors(rule["expr"]):
            assert finite(prometheus.query(selector.text)), selector


def test_every_rule_is_evaluated_and_healthy(prometheus: Prometheus) -> None:
    def evaluated() -> Any:
        found = [rule for group in prometheus.get("rules")["groups"] for rule in group["rules"]]
        return found if found and all(rule["health"] != "unknown" for rule in found) else None

    rules = wait_for(evaluated, lambda: prometheus.get("rules"))
    assert {rule["name"] for rule in rules} == {
        rule[kind] for kind in ("alert", "record") for rule in promql.rules(kind)
    }
    assert {rule["name"]: rule.get("lastError", "") for rule in rules if rule["health"] != "ok"} == {}


def test_alerts_reach_the_dashboard_and_none_says_that_the_venue_is_in_trouble(prometheus: Prometheus) -> None:
    def firing() -> set[str]:
        return {sample["metric"]["alertname"] for sample in prometheus.query('ALERTS{alertstate="firing"}')}

    wait_for(lambda: "VenueDivergence" in firing(), lambda: "orders took what history traded, but it says nothing")
    assert firing().isdisjoint({"VenueDown", "VenueStuck", "VenueFeedSilent", "VenueMissingMessages"})


def test_the_numbers_are_those_of_the_venue(prometheus: Prometheus) -> None:
    """Two series of the same scrape agree, as each scrape is one snapshot."""
    assert prometheus.query("venue_order_to_ack_seconds_count > 0") != []
    assert prometheus.query(
        'venue_order_to_ack_seconds_bucket{le="+Inf"} == ignoring (le) venue_order_to_ack_seconds_count'
    )
    reasons, rejected = "sum without (reason) (venue_orders_rejected_total)", 'venue_orders_total{outcome="rejected"}'
    assert prometheus.query(f"{reasons} == ignoring (outcome) {rejected}")
