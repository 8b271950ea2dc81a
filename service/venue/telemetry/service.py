"""What the HTTP handlers share: one exchange, seen through its counters page and its live memory."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final

from aiohttp import web

from venue.telemetry import answers, live_memory
from venue.telemetry.collector import PageCollector
from venue.telemetry.figures import Figures
from venue.telemetry.market import Market
from venue.telemetry.page import Page
from venue.telemetry.pages import PageError
from venue.telemetry.watches import Watch, Watches

BOOK_TIMEOUT_S: Final = 1.0
POLL_S: Final = 0.005


class ApiError(Exception):
    """What a client is told: an HTTP status and one line."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Service:
    """One exchange. Live memory is there once the exchange has reserved it; until then market data is refused (503)."""

    def __init__(self, page: Page, collector: PageCollector) -> None:
        self.page = page
        self.figures = Figures(page, collector.window)
        self._market: Market | None = None
        self._watches: Watches | None = None

    def tick(self) -> None:
        """Once a second."""
        self.figures.tick()
        if self._watches is not None:
            self._watches.tick()

    @property
    def market(self) -> Market:
        """Books, orders and trades. ApiError while the exchange starts."""
        if self._market is None:
            try:
                memory = live_memory.open_beside(self.page.path)
            except PageError:
                raise ApiError(503, "the exchange is starting: no books yet") from None
            self._market = Market(self.page, memory)
            self._watches = Watches(memory)
        return self._market

    def watch(self, symbol: str) -> Watch:
        """Look at a book until :meth:`unwatch`. ApiError if there is none, or if too many others are looked at."""
        instrument = self.market.instrument(symbol)
        if instrument is None:
            raise ApiError(404, f"no instrument {symbol!r}")
        assert self._watches is not None
        watch = self._watches.begin(instrument)
        if watch is None:
            raise ApiError(503, "too many books are looked at; try again later")
        return watch

    def unwatch(self, watch: Watch, *, lingers: bool) -> None:
        if self._watches is not None:
            self._watches.end(watch, lingers=lingers)

    async def book(self, symbol: str, depth: int) -> answers.Book:
        """A book as it was at most 50 ms ago. ApiError if the exchange does not show it."""
        watch = self.watch(symbol)
        try:
            deadline = time.monotonic() + BOOK_TIMEOUT_S
            while (book := self.market.book(watch.place, watch.wish, depth)) is None:
                if time.monotonic() > deadline:
                    raise ApiError(503, f"the exchange, which is {self.page.state.name.lower()}, does not answer")
                await asyncio.sleep(POLL_S)
            return book
        finally:
            self.unwatch(watch, lingers=True)


def respond(answer: Any, status: int = 200) -> web.Response:
    """An answer over HTTP."""
    return web.Response(
        body=answers.encode(answer),
        status=status,
        content_type="application/json",
        headers={"Cache-Control": "no-store"},
    )
