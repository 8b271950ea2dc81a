"""The live page of a real exchange in a real Chromium: a day is replayed, a client trades, the service restarts.

What the page shows is held against the naive exchange, which is told the same messages, and against /metrics.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from chromium import NARROW, Browsing, Visit, needs_chromium
from exchange import Levels
from oracle_streams import binary_file, itch_command
from reference import Reference
from venue.wire import itch
from venue.wire.moldudp64 import Header
from venue_clients.capture import open_capture
from venue_clients.generate import DayPlan, generate
from venue_clients.line import UdpLine
from venue_clients.replay import Replay
from venue_clients.trading import TradingClient

pytestmark = [needs_chromium, pytest.mark.timeout(300)]

PATIENCE_S = 60.0
START_PATIENCE_S = 200.0  # it may have to compile its kernels, on a busy machine
SYMBOLS = ("AAPL", "MSFT")
PERCENTILES = {"p50_ns": "0.5", "p90_ns": "0.9", "p99_ns": "0.99", "p999_ns": "0.999", "max_ns": "1"}


# --- an exchange that serves, and a replay that waits on the way --------------------------------------------------


class Service:
    """`venue serve` as a process of its own."""

    def __init__(self, process: asyncio.subprocess.Process, addresses: dict[str, str]) -> None:
        self.process = process
        self.addresses = addresses

    @property
    def url(self) -> str:
        return f"http://{self.addresses['http']}/"

    def address(self, name: str) -> tuple[str, int]:
        host, _, port = self.addresses[name].rpartition(":")
        return host, int(port)

    async def metrics(self) -> dict[str, float]:
        """Samples by name and label values, as `venue_orders_total{accepted}`."""
        async with aiohttp.ClientSession() as http, http.get(self.url + "metrics") as response:
            text = await response.text()
        return {
            f"{sample.name}{{{','.join(sample.labels.values())}}}" if sample.labels else sample.name: sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }

    async def stop(self) -> None:
        self.process.terminate()
        await self.process.communicate()


@asynccontextmanager
async def serving(http_port: int = 0) -> AsyncIterator[Service]:
    """A service that is ready; it ends with the story, if not before."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "venue", "serve"),
        *("--order-port", "0", "--feed-port", "0", "--http-port", str(http_port)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert process.stdout is not None
    try:
        line = await asyncio.wait_for(process.stdout.readline(), START_PATIENCE_S)
        yield Service(process, json.loads(line))
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


class HeldLine(UdpLine):
    """A line on which the replay waits as soon as it has sent a message, until it may go on to another one."""

    def __init__(self, to: tuple[str, int]) -> None:
        super().__init__(to)
        self.sent = 0
        self._hold_at = 0
        self._may_go_on = threading.Condition()

    def send(self, packet: bytes) -> None:
        with self._may_go_on:
            assert self._may_go_on.wait_for(lambda: self.sent <= self._hold_at, PATIENCE_S)
        super().send(packet)
        header = Header.decode(packet[:20])
        if 0 < header.count < 0xFFFF:
            self.sent = header.sequence + header.count - 1

    def go_on_to(self, number: int) -> None:
        """Let messages go out until at least this one has."""
        with self._may_go_on:
            self._hold_at = number
            self._may_go_on.notify()


async def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"in vain: {what}"
        await asyncio.sleep(0.01)


class Day:
    """A made-up day: replayed to an exchange in parts, and the naive exchange that hears the same messages."""

    def __init__(self, path: Path, messages: int = 6_000) -> None:
        generate(path, DayPlan(SYMBOLS, messages, 60.0, 3, 400))
        self.path = path
        self.messages = [itch.decode(raw) for raw in binary_file(path)]
        self.naive = Reference(instruments=len(SYMBOLS), orders=messages)
        self.told = 0
        self._instruments: dict[int, int] = {}

    @asynccontextmanager
    async def replayed(self, service: Service) -> AsyncIterator[HeldLine]:
        with HeldLine(service.address("feed")) as line:
            replay = Replay(open_capture(self.path), line, speed=None, linger_s=0)
            running = asyncio.create_task(asyncio.to_thread(replay.run))
            try:
                yield line
            finally:
                line.go_on_to(len(self.messages))
                await running

    def tell(self, number: int) -> None:
        """Let the naive exchange hear the messages up to this one."""
        for message in self.messages[self.told : number]:
            if isinstance(message, itch.StockDirectory):
                self._instruments[message.stock_locate] = SYMBOLS.index(message.stock)
            command = itch_command(message, self._instruments.get(message.stock_locate, 0))
            if command is not None:
                self.naive.send(command)
        self.told = number

    def book(self, symbol: str) -> dict[str, list[list[str]]]:
        """What the page has to show: price, shares and orders of up to twenty levels, from the top of the page down."""
        bids, asks = self.naive.book(SYMBOLS.index(symbol))
        return {"asks": shown(asks)[::-1], "bids": shown(bids)}

    def last_trade(self, symbol: str) -> int:
        """Shares of the latest one."""
        instrument = SYMBOLS.index(symbol)
        for message in reversed(self.messages[: self.told]):
            if self._instruments.get(message.stock_locate) == instrument:
                if isinstance(message, itch.OrderExecuted | itch.OrderExecutedWithPrice):
                    return message.executed_shares
                if isinstance(message, itch.Trade | itch.CrossTrade):
                    return message.shares
        raise AssertionError("no trade yet")


def shown(levels: Levels) -> list[list[str]]:
    return [
        [f"{price / 10_000:,.2f}", f"{sum(open_ for _, open_, _ in queue):,}", str(len(queue))]
        for price, queue in levels[:20]
    ]


# --- what the page shows ------------------------------------------------------------------------------------------


LADDER = """() => Object.fromEntries(["asks", "bids"].map((side) => [side,
    [...document.querySelectorAll(`#${side} tr:not(:has(.price:empty))`)].map((row) =>
        ["price", "shares", "orders"].map((column) => row.querySelector(`.${column}`).textContent))]))"""


async def ladder(seen: Visit) -> dict[str, list[list[str]]]:
    """Both sides, of one and the same moment."""
    sides: dict[str, list[list[str]]] = await seen.page.evaluate(LADDER)
    return sides


async def until_equal(reading: Callable[[], Awaitable[tuple[Any, Any]]]) -> None:
    """Wait until both parts of a reading are equal; the last ones are in the complaint."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        found, wanted = await reading()
        if found == wanted:
            return
        assert time.monotonic() < deadline, f"{found} is not {wanted}"
        await asyncio.sleep(0.1)


def matching(seen: Visit, day: Day, symbol: str) -> Callable[[], Awaitable[tuple[Any, Any]]]:
    """The ladder and the count of messages, beside the naive exchange's book and what it was told."""

    async def reading() -> tuple[Any, Any]:
        return (await ladder(seen), await seen.value("#feed-messages")), (day.book(symbol), str(day.told))

    return reading


def figures(seen: Visit, service: Service) -> Callable[[], Awaitable[tuple[Any, Any]]]:
    """What the page says in figures beside /metrics."""

    async def reading() -> tuple[Any, Any]:
        page = {
            name: float(await seen.value(f"#{name}") or "nan")
            for name in (*PERCENTILES, "feed-messages", "live-orders", "live-own-orders", "fills", "filled-shares")
        }
        page["TRADER p99"] = float(await seen.value("#sessions tr:first-child td:nth-child(7) data") or "nan")
        page |= {
            f"{list_} {name}": float(await seen.value(f"#{list_} [data-name={name}] data") or "nan")
            for list_, name in (("outcomes", "accepted"), ("outcomes", "rejected"), ("rejects", REASON))
        }
        metrics = await service.metrics()
        own = metrics["venue_live_orders{client}"]
        return page, {
            **{
                name: round(1e9 * metrics.get(f"venue_order_to_ack_recent_seconds{{{quantile}}}", 0))
                for name, quantile in PERCENTILES.items()
            },
            "TRADER p99": round(1e9 * metrics.get("venue_account_order_to_ack_recent_seconds{TRADER,0.99}", 0)),
            "feed-messages": total(metrics, "venue_feed_messages_total"),
            "live-orders": metrics["venue_live_orders{feed}"] + own,
            "live-own-orders": own,
            "fills": metrics["venue_fills_total"],
            "filled-shares": metrics["venue_filled_shares_total"],
            "outcomes accepted": metrics["venue_orders_total{accepted}"],
            "outcomes rejected": metrics["venue_orders_total{rejected}"],
            f"rejects {REASON}": metrics[f"venue_orders_rejected_total{{{REASON}}}"],
        }

    return reading


def total(metrics: dict[str, float], name: str) -> float:
    return sum(value for key, value in metrics.items() if key.partition("{")[0] == name)


# --- the stories --------------------------------------------------------------------------------------------------


def test_the_page_shows_the_day_as_it_is_replayed(browsing: Browsing, tmp_path: Path) -> None:
    day = Day(tmp_path / "day.itch")

    async def story() -> None:
        async with serving() as service, browsing.visit(service.url + "#AAPL") as seen:
            await seen.until("#state", "ready")
            assert await seen.text("#trades-empty") == "No traffic"
            async with day.replayed(service) as line:
                for part in (0.3, 0.6, 0.9):
                    stop = int(part * len(day.messages))
                    line.go_on_to(stop)
                    await until(lambda stop=stop: line.sent > stop, "the next part of the day")
                    day.tell(line.sent)
                    await until_equal(matching(seen, day, "AAPL"))
                    assert len(day.book("AAPL")["bids"]) == 20
                assert await seen.text("#trades tr:first-child td:nth-child(3)") == f"{day.last_trade('AAPL'):,}"
                clock = await seen.text("#feed-clock")
                assert clock == await seen.page.get_attribute("#day", "aria-valuetext")
                await choose(seen, "MSFT")
                await until_equal(matching(seen, day, "MSFT"))
                assert await seen.text("#trades tr:first-child td:nth-child(3)") == f"{day.last_trade('MSFT'):,}"
            await until_equal(emptied(seen))
            assert await seen.value("#feed-missing") == await seen.value("#feed-incomplete") == "0"

    browsing.tell(story())


async def choose(seen: Visit, symbol: str) -> None:
    """With the keyboard alone."""
    await seen.page.focus("#symbol")
    await seen.page.keyboard.type(symbol[:2].lower())
    await seen.until("#symbols [aria-selected=true] b", symbol)
    await seen.page.keyboard.press("Enter")
    await seen.until("#book-symbol", symbol)


def emptied(seen: Visit) -> Callable[[], Awaitable[tuple[Any, Any]]]:
    async def reading() -> tuple[Any, Any]:
        return await ladder(seen), {"asks": [], "bids": []}  # no order is left at the end of a day

    return reading


def test_a_client_trades_and_the_service_restarts(browsing: Browsing, tmp_path: Path) -> None:
    day = Day(tmp_path / "day.itch")

    async def story() -> None:
        async with serving() as service, browsing.visit(service.url + "#AAPL", restarts=True) as seen:
            async with day.replayed(service) as line:
                stop = len(day.messages) // 2
                line.go_on_to(stop)
                await until(lambda: line.sent > stop, "half of the day")
                day.tell(line.sent)
                await until_equal(matching(seen, day, "AAPL"))
                await trade(seen, service, day)
            await service.stop()
            await seen.until("#banner", "Reconnecting…")
            async with serving(service.address("http")[1]):
                await seen.until_hidden("#banner")
                await seen.until("#state", "ready")
                await seen.until("#latency-count", "no traffic")
                await until_equal(emptied(seen))
                assert await seen.page.locator("#trades tr, #own-orders tr, #outcomes > div").count() == 0
                assert await seen.value("#feed-messages") == "0"

    browsing.tell(story())


REASON = "invalid_price"


async def trade(seen: Visit, service: Service, day: Day) -> None:
    """A client joins the best bid, takes the best offer, and has an order rejected."""
    bids, asks = day.naive.book(SYMBOLS.index("AAPL"))
    (bid, queue), (ask, offers) = bids[0], asks[0]
    ahead, offered = (sum(open_ for _, open_, _ in level) for level in (queue, offers))
    async with await TradingClient.connect(*service.address("orders"), "TRADER", "venue") as client:
        number = client.enter("AAPL", "B", 300, bid)
        await seen.until_shown("#bids tr.has-own")
        assert await seen.text("#bids tr:first-child .own") == f"◆ TRADER 300({ahead:,})"
        assert (await seen.texts("#own-orders tr:first-child td"))[:4] == ["TRADER", str(number), "buy", "300"]
        client.enter("AAPL", "B", offered, ask, "3")
        await seen.until("#trades tr:first-child .who", "◆ TRADER / feed")
        client.enter("AAPL", "B", 100, 0)
        await until_equal(figures(seen, service))
        assert await seen.value("#filled-shares") == str(offered)
        assert (await seen.texts("#sessions tr:first-child td"))[0] == "● yes"
        await seen.page.set_viewport_size({"width": NARROW[0], "height": NARROW[1]})
        assert await seen.page.evaluate("document.documentElement.scrollWidth") == NARROW[0]
