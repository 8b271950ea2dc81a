"""The taker of the demo: plays what `taking` decides on one login.

taker = Taker(client, ["AAPL"], TakerRules(seed=1, rate=50))
feed = await MarketData.listen("127.0.0.1:26478", ["AAPL"], taker.on_touch)
await taker.run()           # until taker.stop() or the end of the session
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from venue.wire import ouch
from venue_clients.maker import cancel_orders
from venue_clients.orders import FINISHED
from venue_clients.quoting import Cancel, Replace
from venue_clients.taking import Order, TakerRules
from venue_clients.touch import Touch
from venue_clients.trading import DAY, TradingClient


@dataclass(slots=True)
class TakerStats:
    """Since the start."""

    entered: int = 0
    replaced: int = 0
    canceled: int = 0
    rejected: int = 0


class Taker:
    """One taker on one login, which it has for itself. When it ends, its orders are canceled."""

    def __init__(
        self,
        client: TradingClient,
        symbols: Iterable[str],
        rules: TakerRules,
        on_fill: Callable[[ouch.Executed], None] = lambda fill: None,
    ) -> None:
        self.stats = TakerStats()
        self._client = client
        self._rules = rules
        self._on_fill = on_fill
        self._touches = dict.fromkeys(symbols, Touch())
        self._day_orders: list[int] = []  # UserRefNums of those that may stand
        self._stopping = asyncio.Event()

    def on_touch(self, symbol: str, touch: Touch) -> None:
        """Tell it what the feed shows."""
        if symbol in self._touches:
            self._touches[symbol] = touch

    def stop(self) -> None:
        """Let `run` cancel the orders and return."""
        self._stopping.set()

    async def run(self) -> None:
        """Trade until `stop`, or until the venue ends the session. Raises TradingError when the connection is lost for
        good."""
        reader = asyncio.create_task(self._read())
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            while not self._stopping.is_set() and not reader.done():
                self._trade()
                await asyncio.wait((stopping,), timeout=self._rules.pause_s())
            if not reader.done():
                await cancel_orders(self._client, self._touches)
        finally:
            stopping.cancel()
            reader.cancel()
            result = (await asyncio.gather(reader, return_exceptions=True))[0]
        if isinstance(result, Exception):
            raise result

    def _trade(self) -> None:
        if not self._client.connected:
            return
        view = self._client.view
        self._day_orders = [
            ref for ref in self._day_orders if ref in view.orders and view.orders[ref].status not in FINISHED
        ]
        standing = [view.orders[ref] for ref in self._day_orders]
        match self._rules.decide(self._touches, view.positions, standing):
            case Order() as order:
                user_ref = self._client.enter(order.symbol, order.side, order.quantity, order.price, order.tif)
                if order.tif == DAY:
                    self._day_orders.append(user_ref)
                self.stats.entered += 1
            case Replace() as change:
                self._day_orders.append(self._client.replace(change.order.user_ref, change.quantity, change.price))
                self.stats.replaced += 1
            case Cancel() as change:
                self._client.cancel(change.order.user_ref)
                self.stats.canceled += 1

    async def _read(self) -> None:
        """Count what happens. Ends with the session."""
        try:
            async for _, message in self._client:
                if isinstance(message, ouch.Rejected):
                    self.stats.rejected += 1
                elif isinstance(message, ouch.Executed):
                    self._on_fill(message)
        finally:
            self._stopping.set()
