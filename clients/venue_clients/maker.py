"""A market maker: quotes both sides of a few stocks around the touch that it sees on the feed.

maker = Maker(client, ["AAPL"], QuoteSettings(size=100))
feed = await MarketData.listen("127.0.0.1:26478", ["AAPL"], maker.on_touch)
await maker.run()           # until maker.stop() or the end of the session
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from venue.wire import ouch
from venue_clients.orders import OrderState, Status
from venue_clients.prices import TICKS_A_DOLLAR
from venue_clients.quoting import Action, Cancel, Enter, Quoter, QuoteSettings, Replace
from venue_clients.touch import Touch
from venue_clients.trading import DisconnectedError, TradingClient

LEAVE_S: Final = 2.0
"""So long the venue may take to confirm the last cancels."""


@dataclass(slots=True)
class MakerStats:
    """Since the start; notional is ticks of 1/10,000 USD times shares."""

    entered: int = 0
    replaced: int = 0
    canceled: int = 0
    rejected: int = 0
    fills: int = 0
    bought: int = 0
    sold: int = 0
    cash: int = 0
    """Notional sold less notional bought."""


class Maker:
    """One market maker on one login, which it has for itself: orders that stand in its stocks when it starts are
    canceled, and so are its quotes when it ends."""

    def __init__(
        self,
        client: TradingClient,
        symbols: Iterable[str],
        settings: QuoteSettings | None = None,
        on_fill: Callable[[ouch.Executed], None] = lambda fill: None,
    ) -> None:
        settings = settings or QuoteSettings()
        self._on_fill = on_fill
        self.stats = MakerStats()
        self._client = client
        self._settings = settings
        self._quoters = {symbol: Quoter(settings) for symbol in symbols}
        self._touches = dict.fromkeys(self._quoters, Touch())
        self._latest: dict[tuple[str, str], int] = {}  # UserRefNum of the last order by symbol and side
        self._awake = asyncio.Event()
        self._stopped = False
        self._first_sequence = client.next_sequence  # what is older has happened before us
        self._held_before = dict(client.view.positions)
        self._middles: dict[str, int] = {}  # twice the middle of the latest touch with two sides

    def on_touch(self, symbol: str, touch: Touch) -> None:
        """Tell it what the feed shows."""
        if symbol in self._touches:
            self._touches[symbol] = touch
            if touch.is_two_sided:
                self._middles[symbol] = touch.bid + touch.ask
            self._awake.set()

    def stop(self) -> None:
        """Let `run` cancel the quotes and return."""
        self._stopped = True
        self._awake.set()

    def inventory(self, symbol: str) -> int:
        return self._client.view.positions.get(symbol, 0)

    def profit_usd(self) -> float:
        """Of what has been traded since the start, with what is left of it at the middle of the touch."""
        twice = 2 * self.stats.cash
        for symbol, twice_middle in self._middles.items():
            twice += (self.inventory(symbol) - self._held_before.get(symbol, 0)) * twice_middle
        return twice / (2 * TICKS_A_DOLLAR)

    async def run(self) -> None:
        """Quote until `stop`, or until the venue ends the session. Raises TradingError when the connection is lost for
        good."""
        for order in self._client.view.live():
            if order.symbol in self._quoters:
                self._client.cancel(order.user_ref)
        reader = asyncio.create_task(self._read())
        try:
            while not self._stopped and not reader.done():
                self._quote()
                await self._pause(self._settings.pause_ns / 1e9)
            if not reader.done():
                self.stats.canceled += await cancel_orders(self._client, self._quoters)
        finally:
            reader.cancel()
            result = (await asyncio.gather(reader, return_exceptions=True))[0]
        if isinstance(result, Exception):
            raise result

    async def _pause(self, seconds: float) -> None:
        """Until there is news, or for so long: what a pause held back is due then."""
        try:
            async with asyncio.timeout(seconds):
                await self._awake.wait()
        except TimeoutError:
            pass
        self._awake.clear()

    def _quote(self) -> None:
        if not self._client.connected:
            return
        now_ns = time.monotonic_ns()
        for symbol, quoter in self._quoters.items():
            bid, ask = self._order(symbol, "B"), self._order(symbol, "S")
            for action in quoter.decide(now_ns, self._touches[symbol], self.inventory(symbol), bid, ask):
                self._act(symbol, action)

    def _order(self, symbol: str, side: str) -> OrderState | None:
        """Our latest order on this side. A replace that failed leaves the order before it standing."""
        order = self._client.view.orders.get(self._latest.get((symbol, side), 0))
        while order is not None and order.status in (Status.REJECTED, Status.IGNORED) and order.replaces:
            order = self._client.view.orders.get(order.replaces)
        return order

    def _act(self, symbol: str, action: Action) -> None:
        match action:
            case Enter():
                user_ref = self._client.enter(symbol, action.side, action.quantity, action.price)
                self._latest[symbol, action.side] = user_ref
                self.stats.entered += 1
            case Replace():
                user_ref = self._client.replace(action.order.user_ref, action.quantity, action.price)
                self._latest[symbol, action.order.side] = user_ref
                self.stats.replaced += 1
            case Cancel():
                self._client.cancel(action.order.user_ref, action.quantity)
                self.stats.canceled += 1

    async def _read(self) -> None:
        """Count what happens. Ends with the session."""
        try:
            async for sequence, message in self._client:
                if sequence >= self._first_sequence:
                    self._count(message)
                self._awake.set()
        finally:
            self._awake.set()

    def _count(self, message: ouch.OutboundMessage) -> None:
        if isinstance(message, ouch.Rejected):
            self.stats.rejected += 1
        if not isinstance(message, ouch.Executed):
            return
        order = self._client.view.orders.get(message.user_ref_num)
        if order is None:
            return
        self.stats.fills += 1
        if order.side == "B":
            self.stats.bought += message.quantity
            self.stats.cash -= message.quantity * message.price
        else:
            self.stats.sold += message.quantity
            self.stats.cash += message.quantity * message.price
        self._on_fill(message)


async def cancel_orders(client: TradingClient, symbols: Iterable[str]) -> int:
    """Cancel what stands in these stocks, and wait until it is gone, or for LEAVE_S. Gives back how many."""
    names = frozenset(symbols)
    canceled = 0
    try:
        async with asyncio.timeout(LEAVE_S):
            await client.query()  # so that nothing is still waiting for its answer
            for order in client.view.live():
                if order.symbol in names:
                    client.cancel(order.user_ref)
                    canceled += 1
            await client.query()
    except (TimeoutError, DisconnectedError):
        pass
    return canceled
