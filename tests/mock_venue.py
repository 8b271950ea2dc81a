"""A made-up venue for the live page: its files, and answers of the right shape that a script of figures fills in.

For what a real exchange shows rarely or never on demand: a halted book, an incomplete one, no traffic at all, a server
that falls silent. What it says is deterministic.
"""

from __future__ import annotations

import asyncio
import math
import random
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any, Final

import orjson
from aiohttp import WSMsgType, web

import venue.telemetry

WEB: Final = Path(venue.telemetry.__file__).parent / "web"
CSP: Final = "default-src 'self'; base-uri 'none'; frame-ancestors 'none'; form-action 'none'"
SYMBOLS: Final = {"AAPL": 189.50, "AMD": 141.10, "AMZN": 178.20, "GOOG": 165.75, "MSFT": 415.30, "NVDA": 121.40,
                  "QQQ": 480.05, "SIRI": 3.1275, "SPY": 551.62, "TSLA": 243.85, "ZVZZT": 15.00}  # fmt: skip
STAGES: Final = {"socket_to_ring": 2_300, "ring_wait": 900, "match": 420, "ring_back": 5_200, "encode_write": 7_600}
MEDIAN_NS: Final = 17_300
OPEN_NS: Final = 34_200_000_000_000
BEAT_S: Final = 0.05
STATS_BEATS: Final = 10
Json = dict[str, Any]


def price(ticks: int) -> str:
    return f"{ticks // 10_000}.{ticks % 10_000:04d}"


class MadeUpBook:
    """One stock: a price that wanders, levels around it, and two clients' orders among them."""

    def __init__(self, symbol: str, seed: int) -> None:
        self.symbol = symbol
        self.random = random.Random(seed)
        self.state, self.incomplete = "trading", False
        self.tick = 100 if SYMBOLS[symbol] >= 5 else 25
        self.mid = round(SYMBOLS[symbol] * 10_000 / self.tick) * self.tick
        self.last: int | None = None
        self.trades = 0
        self.exchange_ahead_ns = 0
        """How far the exchange's clock is before the feed's."""
        self.sizes = {side: [self._size() for _ in range(20)] for side in "BS"}

    def _size(self) -> int:
        return 100 * int(self.random.lognormvariate(1.6, 0.9) + 1)

    def step(self, time_ns: int) -> list[Json]:
        """Move on by one beat; the trades of it."""
        for side in "BS":
            self.sizes[side][self.random.randrange(20)] = self._size()
        if self.state != "trading" or self.random.random() > 0.35:
            return []
        side = self.random.choice("BS")
        self.mid += self.tick * self.random.choice([0, 0, 0, 1 if side == "B" else -1])
        self.last = self.mid + (self.tick if side == "B" else -self.tick)
        self.trades += 1
        return [self._trade(side, time_ns)]

    def _trade(self, side: str, time_ns: int) -> Json:
        taker = {"account": "TAKER", "user_ref": self.trades}
        maker = {"account": "MAKER", "user_ref": self.trades + 7}
        taking, resting = self.random.choice([(None, None)] * 5 + [(taker, maker), (taker, None), (None, maker)])
        hidden = not taking and not resting and self.random.random() < 0.2
        kind = "own" if taking or resting else "hidden" if hidden else "recorded"
        time_ns += self.exchange_ahead_ns if taking else 0
        return {"number": self.trades, "time_ns": time_ns, "symbol": self.symbol, "price": price(self.last or 0),
                "quantity": self.random.choice([1, 25, 100, 100, 200, 400]), "side": None if hidden else side,
                "kind": kind, "match_number": self.trades if kind == "own" else 0,
                "resting": resting, "taking": taking}  # fmt: skip

    def picture(self, time_ns: int) -> Json:
        own = [("MAKER", 4711, "B", 0, 300), ("TRADER", 12, "B", 3, 100), ("MAKER", 4713, "B", 3, 300),
               ("MAKER", 4712, "S", 0, 300), ("TRADER", 13, "S", 5, 1_000)]  # fmt: skip
        return {"symbol": self.symbol, "time_ns": time_ns, "state": self.state, "incomplete": self.incomplete,
                "last_price": None if self.last is None else price(self.last),
                "bids": self._side("B", own), "asks": self._side("S", own),
                "own": [{"account": account, "user_ref": number, "side": side, "price": self._price(side, level),
                         "open": shares, "queue_ahead": self.sizes[side][level] - 100}
                        for account, number, side, level, shares in own], "own_total": len(own)}  # fmt: skip

    def _price(self, side: str, level: int) -> str:
        return price(self.mid + self.tick * (level + 1) * (-1 if side == "B" else 1))

    def _side(self, side: str, own: list[tuple[str, int, str, int, int]]) -> list[Json]:
        mine = [sum(order[4] for order in own if order[2:4] == (side, level)) for level in range(20)]
        return [
            {"price": self._price(side, level), "shares": shares + mine[level], "orders": 1 + shares // 300,
             "own_shares": mine[level]}
            for level, shares in enumerate(self.sizes[side])
        ]  # fmt: skip


class MadeUpFigures:
    """What /live says about the exchange as a whole; ``quiet`` is an exchange that nobody has spoken to."""

    def __init__(self, *, quiet: bool) -> None:
        self.quiet = quiet
        self.random = random.Random(7)
        self.started = datetime.now(UTC)
        self.cells: dict[int, int] = {}
        self.messages = self.orders = 0

    def step(self) -> None:
        if self.quiet:
            return
        self.messages += self.random.randint(600, 900)
        for _ in range(60):
            self.orders += 1
            tail = 12 if self.random.random() < 0.02 else 1
            ns = MEDIAN_NS * self.random.lognormvariate(0, 0.22) * tail
            step = math.ceil(10 * math.log10(ns / 100))
            le_ns = round(100 * 10 ** (step / 10))
            self.cells[le_ns] = self.cells.get(le_ns, 0) + 1

    def percentiles(self, median_ns: float, *, idle: bool = False) -> Json:
        factors = {"p50_ns": 1.0, "p90_ns": 1.35, "p99_ns": 3.1, "p999_ns": 11, "max_ns": 19}
        if self.quiet or idle:
            return {"count": 0, **dict.fromkeys(factors)}
        wobble = 1 + 0.08 * math.sin(self.messages / 40_000) + self.random.random() * 0.03
        return {"count": min(self.orders, 12_000)} | {
            name: int(median_ns * factor * wobble * (1 + self.random.random() * factor / 40))
            for name, factor in factors.items()
        }

    def stats(self, time_ns: int | None) -> Json:
        n = self.orders
        uptime_s = (datetime.now(UTC) - self.started).total_seconds()
        return {"state": "ready", "mode": "consume", "started_at": self.started.isoformat(), "uptime_s": uptime_s,
                "order_to_ack": self.percentiles(MEDIAN_NS),
                "order_to_ack_cells": sorted(self.cells.items()),
                "stages": {name: self.percentiles(ns) for name, ns in STAGES.items()},
                "feed": {"time_ns": time_ns, "messages": self.messages, "rate_per_s": 0 if self.quiet else 14_812.4,
                         "lag_ns": None if self.quiet else 1_240_000, "gaps": 0, "missing": 0,
                         "duplicates": self.messages // 900, "kernel_drops": 0, "incomplete_books": 0,
                         "divergence": {"events": n // 700, "shares": n // 7}, "to_book": self.percentiles(6_100)},
                "orders": {"accepted": n, "replaced": n // 4, "canceled": n // 3, "modified": n // 90,
                           "rejected": n // 40, "ignored_duplicate": 0, "ignored_stale": n // 2_000},
                "rejects": {} if self.quiet else {"price_collar": n // 60, "order_rate": n // 160, "halted": n // 400},
                "fills": n // 9, "filled_shares": n * 11, "live_orders": 0 if self.quiet else 6_412,
                "live_own_orders": 0 if self.quiet else 5,
                "sessions": [self.session(name, i) for i, name in enumerate(["TRADER", "MAKER", "TAKER", "LOADER"])],
                "ring": {"command_depth": 0 if self.quiet else self.random.randrange(9),
                         "high_water": 0 if self.quiet else 412, "event_full": 0}}  # fmt: skip

    def session(self, account: str, i: int) -> Json:
        on = not self.quiet and account != "LOADER"
        return {"account": account, "logged_in": on, "peer": f"127.0.0.1:5{i}118" if on else None,
                "connected_at": self.started.isoformat() if on else None, "unsent_bytes": 0, "killed": False,
                "sequence": self.orders * on, "messages_in": self.orders // 3 * on, "open_orders": 2 * on,
                "open_shares": 600 * on, "open_notional": f"{113_700 * on}.0000",
                "order_to_ack": self.percentiles(MEDIAN_NS + 900 * i, idle=not on)}  # fmt: skip


class MockVenue:
    """The server. Start it, let pages look at it, stop it; start another one on the same port and it is a restart."""

    def __init__(self, *, quiet: bool = False, symbols: bool = True, still: bool = False) -> None:
        """``still``: nothing moves but by :meth:`advance`."""
        self.still = still
        self.books = {symbol: MadeUpBook(symbol, seed) for seed, symbol in enumerate(SYMBOLS) if symbols}
        self.figures = MadeUpFigures(quiet=quiet)
        self.time_ns = OPEN_NS + 3_225_000_000_000
        self.silent = False
        self._recent: dict[str, list[Json]] = {symbol: [] for symbol in self.books}
        self._runner: web.AppRunner | None = None

    async def start(self, port: int = 0) -> int:
        """Serve on loopback; the port."""
        app = web.Application()
        app.add_routes(
            [
                web.get("/", self._index),
                web.static("/web", WEB),
                web.get("/api/instruments", self._instruments),
                web.get("/live", self._live),
            ]
        )
        app.on_response_prepare.append(self._headers)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", port, reuse_address=True)
        await site.start()
        self._life = asyncio.create_task(self._live_on())
        bound: int = self._runner.addresses[0][1]
        return bound

    async def stop(self) -> None:
        assert self._runner is not None
        self._life.cancel()
        await self._runner.cleanup()

    async def _live_on(self) -> None:
        while True:
            await asyncio.sleep(BEAT_S)
            if not self.still:
                self.advance(1)

    def advance(self, beats: int) -> None:
        for _ in range(beats):
            self.figures.step()
            if self.figures.quiet:
                continue
            self.time_ns += int(BEAT_S * 1e9) + self.figures.random.randrange(1_000_000)
            for symbol, book in self.books.items():
                self._recent[symbol] = (self._recent[symbol] + book.step(self.time_ns))[-50:]

    async def _headers(self, _: web.Request, response: web.StreamResponse) -> None:
        response.headers["Content-Security-Policy"] = CSP

    async def _index(self, _: web.Request) -> web.FileResponse:
        return web.FileResponse(WEB / "index.html")

    async def _instruments(self, request: web.Request) -> web.Response:
        prefix, limit = request.query.get("prefix", ""), int(request.query.get("limit", "100"))
        found = [book.picture(0) for symbol, book in self.books.items() if symbol.startswith(prefix)]
        rows = [
            {"symbol": book["symbol"], "state": book["state"], "incomplete": book["incomplete"],
             "last_price": book["last_price"], "bid": book["bids"][0]["price"], "ask": book["asks"][0]["price"]}
            for book in found[:limit]
        ]  # fmt: skip
        return web.json_response({"instruments": rows, "total": len(found), "next": None})

    async def _live(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        symbol: list[str] = []
        sender = asyncio.create_task(self._send(socket, symbol))
        try:
            async for message in socket:
                if message.type is WSMsgType.TEXT:
                    symbol[:] = [orjson.loads(message.data)["symbol"]]
        finally:
            sender.cancel()
        return socket

    async def _send(self, socket: web.WebSocketResponse, symbol: list[str]) -> None:
        known, newest = "", 0
        for beat in count():
            update: Json = {"type": "update", "at": datetime.now(UTC).isoformat()}
            if symbol and symbol[0] in self.books:
                if symbol[0] != known:
                    known, newest = symbol[0], 0
                trades = [trade for trade in self._recent[known] if trade["number"] > newest]
                newest = trades[-1]["number"] if trades else newest
                update |= {"symbol": known, "book": self.books[known].picture(self.time_ns), "trades": trades}
            if beat % STATS_BEATS == 0:
                update["stats"] = self.figures.stats(None if self.figures.quiet else self.time_ns)
            if not self.silent and len(update) > 2:
                await socket.send_str(orjson.dumps(update).decode())
            await asyncio.sleep(BEAT_S)


async def main() -> None:
    """Serve until interrupted, for a look at the page."""
    venue_ = MockVenue()
    print(f"http://127.0.0.1:{await venue_.start(26490)}/", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
