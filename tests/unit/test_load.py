"""Open-loop load: arithmetic of schedule and percentiles, a whole run in virtual time, and one over loopback."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from click.testing import Result
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from scripted_exchange import Exchange, accepted, canceled
from venue.wire import ouch, soupbintcp
from venue.wire.soupbintcp import FrameReader
from venue_clients import commands_trading
from venue_clients import load as loading
from venue_clients.connection import DisconnectedError, LoginRejectedError, TradingError
from venue_clients.latencies import Latencies, Schedule
from venue_clients.load import LIVE_ORDERS, Load, LoadConnection, LoadResult
from venue_clients.stops import STOPS
from virtual_time import SECOND, VirtualLoop, VirtualSelector

MS = 1_000_000


def test_orders_are_due_evenly_from_the_start() -> None:
    schedule = Schedule(start_ns=5 * SECOND, rate=1_000, count=3_000)
    assert [schedule.due_ns(number) - 5 * SECOND for number in (0, 1, 999, 2_999)] == [0, MS, 999 * MS, 2_999 * MS]
    assert [schedule.due_by(5 * SECOND + ns) for ns in (-1, 0, MS - 1, MS, 10 * SECOND)] == [0, 1, 1, 2, 3_000]


@given(rate=st.floats(0.1, 1e6), count=st.integers(1, 10**7), number=st.integers(0, 10**7))
def test_what_is_due_and_when_agree(rate: float, count: int, number: int) -> None:
    schedule = Schedule(1_000 * SECOND, rate, count)
    number = min(number, count - 1)
    due = schedule.due_ns(number)
    assert schedule.due_by(due) > number
    assert schedule.due_by(due - 1) <= number


def test_percentiles_are_latencies_that_occurred() -> None:
    latencies = Latencies()
    assert latencies.percentiles() == {}
    for value in reversed(range(1, 1_001)):
        latencies.add(value)
    assert latencies.percentiles() == {"p50": 500, "p90": 900, "p99": 990, "p99.9": 999, "max": 1_000}
    one = Latencies()
    one.add(7)
    assert set(one.percentiles().values()) == {7}


@pytest.mark.parametrize(("rate", "seconds"), [(0, 1), (-1, 1), (1, 0), (0.1, 1), (float("nan"), 1)])
def test_a_load_without_orders_is_refused(rate: float, seconds: float) -> None:
    with pytest.raises(TradingError, match="are no load"):
        Load(["AAPL"], rate, seconds)


# --- in virtual time ------------------------------------------------------------------------------------------------


class Venue(asyncio.Transport):
    """The other end of a connection, in memory: answers 20 µs after an order, but not while it is stalled."""

    def __init__(self, loop: VirtualLoop, connection: LoadConnection, stall: range) -> None:
        super().__init__()
        self._loop, self._connection, self._stall = loop, connection, stall
        self._reader = FrameReader()
        self.live = self.most_live = 0
        self.entered: list[str] = []
        self.closed = False

    def write(self, data: Any) -> None:
        self._reader.feed(data)
        while (frame := self._reader.next()) is not None:
            self._handle(bytes(frame))

    def _handle(self, frame: bytes) -> None:
        if frame[:1] == b"L":
            self._say(soupbintcp.packet(soupbintcp.LoginAccepted(session="TEST", sequence=1)))
        elif frame[:1] == b"U":
            message = ouch.decode_inbound(frame[1:])
            if isinstance(message, ouch.AccountQuery):
                self._answer(ouch.AccountQueryResponse(timestamp=0, next_user_ref_num=1_000))
            elif isinstance(message, ouch.EnterOrder):
                assert message.user_ref_num == 1_000 + len(self.entered)
                self.entered.append(message.symbol)
                self.live += 1
                self.most_live = max(self.most_live, self.live)
                self._answer(accepted(message))
            elif isinstance(message, ouch.CancelOrder):
                self.live -= 1
                self._answer(canceled(message.user_ref_num, 100))

    def _answer(self, message: ouch.OutboundMessage) -> None:
        self._say(soupbintcp.frame(b"S", message.encode()))

    def _say(self, data: bytes) -> None:
        at_ns = self._loop.selector.now_ns + 20_000
        if at_ns in self._stall:
            at_ns = self._stall.stop
        self._loop.call_at(at_ns / SECOND, self._connection.data_received, data)

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True
        self._loop.call_soon(self._connection.connection_lost, None)


def run_virtually(monkeypatch: pytest.MonkeyPatch, load: Load, users: int = 1, stall: range = range(0)) -> list[Venue]:
    loop = VirtualLoop()
    venues: list[Venue] = []

    async def open_connection(host: str, port: int, protocol: Any) -> LoadConnection:
        connection: LoadConnection = protocol()
        venues.append(Venue(loop, connection, stall))
        connection.connection_made(venues[-1])
        return connection

    monkeypatch.setattr(loading, "open_connection", open_connection)
    monkeypatch.setattr(loading, "time", SimpleNamespace(monotonic_ns=lambda: loop.selector.now_ns))
    logins = [(f"USER{number}", "venue") for number in range(users)]
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(load.run("nowhere", 1, logins))
    return venues


def test_a_steady_venue_shows_its_latency(monkeypatch: pytest.MonkeyPatch) -> None:
    load = Load(["AAPL", "MSFT"], rate=1_000, seconds=2)
    [venue] = run_virtually(monkeypatch, load)
    figures = load.result.as_dict()
    assert (figures["sent"], figures["accepted"], figures["unanswered"]) == (2_000, 2_000, 0)
    assert figures["latency_ns"]["p50"] == pytest.approx(20_000, abs=1_000)
    assert figures["latency_ns"]["max"] < 1 * MS
    assert figures["orders_per_s"] == pytest.approx(1_000, rel=0.01)
    assert venue.entered[:3] == ["AAPL", "MSFT", "AAPL"]
    assert (venue.live, venue.most_live) == (0, LIVE_ORDERS + 1)


def test_a_venue_that_stalls_for_a_second_shows_a_second_of_slow_orders(monkeypatch: pytest.MonkeyPatch) -> None:
    """1,000 orders a second, answers stopped from 1.0 to 2.0 s: the orders due then waited 0.5 s at the median."""
    load = Load(["AAPL"], rate=1_000, seconds=3)
    start = VirtualSelector.now_ns + loading.START_AFTER_NS
    run_virtually(monkeypatch, load, stall=range(start + SECOND, start + 2 * SECOND))
    by_due = list(load.result.latencies.samples)
    stalled = Latencies()
    for latency in by_due[1_000:2_000]:
        stalled.add(latency)
    figures = stalled.percentiles()
    assert figures["p50"] == pytest.approx(500 * MS, rel=0.01)
    assert figures["p90"] == pytest.approx(900 * MS, rel=0.01)
    assert figures["max"] == pytest.approx(1_000 * MS, rel=0.01)
    assert max(by_due[:999]) < 1 * MS
    assert max(by_due[2_001:]) < 1 * MS
    assert load.result.latencies.percentiles()["p90"] == pytest.approx(700 * MS, rel=0.01)


def test_orders_are_dealt_out_to_the_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    load = Load(["AAPL"], rate=1_000, seconds=1)
    venues = run_virtually(monkeypatch, load, users=3)
    assert [len(venue.entered) for venue in venues] == [334, 333, 333]
    assert load.result.latencies.percentiles()["max"] < 1 * MS


def test_answers_that_never_come_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    load = Load(["AAPL"], rate=100, seconds=1)
    start = VirtualSelector.now_ns + loading.START_AFTER_NS
    run_virtually(monkeypatch, load, stall=range(start + SECOND // 2, start + 100 * SECOND))
    assert (load.result.sent, load.result.accepted, load.result.unanswered) == (100, 50, 50)


def test_nothing_is_measured_of_numbers_that_are_not_ours() -> None:
    async def story() -> LoadResult:
        load = Load(["AAPL"], rate=100, seconds=1)
        connection = LoadConnection("USER", ["AAPL"], load)
        stray = ouch.Rejected(timestamp=0, user_ref_num=5, reason=1, cl_ord_id="")
        connection.data_received(soupbintcp.frame(b"S", stray.encode()) + soupbintcp.frame(b"H"))
        return load.result

    assert len(asyncio.run(story()).latencies) == 0


# --- over loopback --------------------------------------------------------------------------------------------------


def run_on(exchange: Exchange, load: Load) -> LoadResult:
    async def run() -> LoadResult:
        await exchange.start()
        try:
            async with asyncio.timeout(20):
                return await load.run("127.0.0.1", exchange.port, [("LOADER", "venue")])
        finally:
            await exchange.stop()

    return asyncio.run(run())


def test_a_run_over_tcp_counts_rejections_by_reason() -> None:
    def answer(message: ouch.InboundMessage) -> list[ouch.OutboundMessage]:
        if not isinstance(message, ouch.EnterOrder):
            return []
        if message.symbol == "AAPL":
            return [accepted(message)]
        return [ouch.Rejected(timestamp=0, user_ref_num=message.user_ref_num, reason=0x17, cl_ord_id="")]

    exchange = Exchange()
    exchange.answer = answer
    exchange.last_user_ref = 41
    result = run_on(exchange, Load(["AAPL", "NOPE"], rate=2_000, seconds=0.1)).as_dict()
    assert (result["sent"], result["accepted"], result["rejected"]) == (200, 100, 100)
    assert result["reasons"] == {"invalid_symbol": 100}
    entered = [message.user_ref_num for message in exchange.heard if isinstance(message, ouch.EnterOrder)]
    cancels = [message.user_ref_num for message in exchange.heard if isinstance(message, ouch.CancelOrder)]
    assert entered == cancels == list(range(42, 242))


def test_a_refused_login_is_one_clear_error() -> None:
    exchange = Exchange()
    exchange.refuse = "A"
    with pytest.raises(LoginRejectedError, match="LOADER rejected: unknown name or wrong password"):
        run_on(exchange, Load(["AAPL"], rate=1_000, seconds=1))


def test_a_lost_connection_is_one_clear_error() -> None:
    exchange = Exchange()

    def answer(message: ouch.InboundMessage) -> list[ouch.OutboundMessage]:
        exchange.cut()
        return []

    exchange.answer = answer
    with pytest.raises(DisconnectedError, match="the venue closed the connection of LOADER"):
        run_on(exchange, Load(["AAPL"], rate=1_000, seconds=1))


def test_an_account_named_twice_is_refused_before_there_is_a_connection() -> None:
    with pytest.raises(TradingError, match=r"^name each account once"):
        asyncio.run(Load(["AAPL"], 1_000, 1).run("127.0.0.1", 1, [("LOADER", "venue"), ("LOADER", "venue")]))


# --- the command ----------------------------------------------------------------------------------------------------


def command(exchange: Exchange, *arguments: str, until: Event | None = None) -> Result:
    """`venue load` in this thread, the main one, with the exchange in another, which stops after `until`."""
    app = typer.Typer()
    app.command()(commands_trading.load)
    with ThreadPoolExecutor(1) as pool:
        loop = asyncio.new_event_loop()
        started: Future[None] = Future()

        async def serve() -> None:
            await exchange.start()
            started.set_result(None)

        def work() -> None:
            loop.run_until_complete(serve())
            loop.run_forever()
            loop.run_until_complete(exchange.stop())
            loop.close()

        serving = pool.submit(work)
        started.result(timeout=10)
        try:
            return CliRunner().invoke(app, ["--port", str(exchange.port), *arguments])
        finally:
            if until is not None:
                until.wait(timeout=10)
            loop.call_soon_threadsafe(loop.stop)
            serving.result(timeout=10)


@pytest.mark.parametrize("number", STOPS)
def test_a_stop_cancels_what_is_open_and_prints_the_figures_so_far(number: signal.Signals) -> None:
    exchange = Exchange()
    live: set[int] = set()
    all_canceled = Event()

    def answer(message: ouch.InboundMessage) -> list[ouch.OutboundMessage]:
        if isinstance(message, ouch.EnterOrder):
            live.add(message.user_ref_num)
            if message.user_ref_num == 100:
                os.kill(os.getpid(), number)
            return [accepted(message)]
        if isinstance(message, ouch.CancelOrder):
            live.discard(message.user_ref_num)
            if not live:
                all_canceled.set()
            return [canceled(message.user_ref_num, 100)]
        return []

    exchange.answer = answer
    result = command(exchange, "--rate", "2000", "--seconds", "600", "--json", until=all_canceled)
    assert result.exit_code == 128 + number, result.output
    figures = json.loads(result.stdout)
    assert figures["interrupted"] is True
    assert 100 <= figures["accepted"] == figures["sent"] < 1_200_000
    assert live == set()


def test_a_load_of_which_nothing_is_accepted_says_why_and_is_exit_code_1() -> None:
    def answer(message: ouch.InboundMessage) -> list[ouch.OutboundMessage]:
        if not isinstance(message, ouch.EnterOrder):
            return []
        return [ouch.Rejected(timestamp=0, user_ref_num=message.user_ref_num, reason=0x17, cl_ord_id="")]

    exchange = Exchange()
    exchange.answer = answer
    result = command(exchange, "--rate", "1000", "--seconds", "0.05", "--symbols", "NOPE")
    assert result.exit_code == 1
    assert "0 accepted, 50 rejected" in result.stdout
    assert result.stderr == "venue load: no order was accepted: this symbol is not traded here (0x17)\n"
