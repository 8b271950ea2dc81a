"""How the taker of the demo trades: decisions only, no network, no clock; all chance comes from a seed.

Three of four orders take what the touch offers, immediate or cancel: mostly a few hundred shares, now and then enough
to sweep the best price and reach what stands behind it. The others are day orders that rest near the touch until they
are filled, replaced or canceled. Where the position has reached its limit, only the side that reduces it is taken. It
never trades with itself: what would meet an order of its own has that one canceled instead.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from venue_clients.orders import OrderState
from venue_clients.prices import MAX_PRICE
from venue_clients.quoting import Cancel, Replace, on_step, price_step
from venue_clients.touch import Touch
from venue_clients.trading import DAY, IOC

MAX_POSITION: Final = 2_000
"""Shares of a stock, long or short, from which on only the other side is traded."""
MAX_RESTING: Final = 24
"""With so many day orders in the book, one of them is changed before another is sent."""
MAX_SHARES: Final = 5_000

_CHANGE, _REST = 0.13, 0.25  # below the first a standing order is changed, below the second one is left in the book
_CANCEL = 0.5
_ODD_LOT, _SWEEP = 0.15, 0.25  # sizes of what takes: below the first 1 to 99 shares, below the second beyond the touch
_REACH_STEPS = 2
_BEHIND_STEPS = 3


@dataclass(frozen=True, slots=True)
class Order:
    symbol: str
    side: str
    quantity: int
    price: int
    tif: str


TakerAction = Order | Replace | Cancel


class TakerRules:
    """Decides what to do next, and when: `rate` times a second on average, at random like customers who know nothing of
    each other."""

    def __init__(self, seed: int, rate: float) -> None:
        self._random = random.Random(seed)
        self._rate = rate

    def pause_s(self) -> float:
        return self._random.expovariate(self._rate)

    def decide(
        self, touches: Mapping[str, Touch], positions: Mapping[str, int], standing: Sequence[OrderState]
    ) -> TakerAction | None:
        """`standing` are our day orders that are live or wait for an answer. None while there is nothing to do."""
        chance = self._random.random()
        live = [order for order in standing if order.is_live]
        if live and (chance < _CHANGE or len(live) >= MAX_RESTING):
            order = self._random.choice(live)
            return self._change(order, touches.get(order.symbol, Touch()))
        symbols = sorted(symbol for symbol, touch in touches.items() if touch.is_two_sided)
        if not symbols:
            return None
        symbol = self._random.choice(symbols)
        side = self._side(positions.get(symbol, 0))
        against = [order for order in standing if order.symbol == symbol and order.side != side]
        if against:
            return Cancel(against[0]) if against[0].is_live else None
        if chance < _REST:
            return Order(symbol, side, self._lots(3), self._price_behind(side, touches[symbol]), DAY)
        return self._take(symbol, side, touches[symbol])

    def _side(self, position: int) -> str:
        if abs(position) >= MAX_POSITION:
            return "S" if position > 0 else "B"
        return "B" if self._random.random() < 0.5 else "S"

    def _take(self, symbol: str, side: str, touch: Touch) -> Order:
        reach = self._random.randint(0, _REACH_STEPS)
        if side == "B":
            price = min(MAX_PRICE, on_step(touch.ask, down=False) + reach * price_step(touch.ask))
        else:
            price = max(1, on_step(touch.bid, down=True) - reach * price_step(touch.bid))
        return Order(symbol, side, self._shares(touch.ask_size if side == "B" else touch.bid_size), price, IOC)

    def _shares(self, offered: int) -> int:
        chance = self._random.random()
        if chance < _ODD_LOT:
            return self._random.randint(1, 99)
        if chance < _SWEEP:
            return min(MAX_SHARES, offered + self._lots(5))
        return self._lots(4)

    def _lots(self, most: int) -> int:
        return 100 * self._random.randint(1, most)

    def _price_behind(self, side: str, touch: Touch) -> int:
        """At the touch of its own side or a few steps behind it."""
        behind = self._random.randint(0, _BEHIND_STEPS)
        if side == "B":
            return max(1, on_step(touch.bid, down=True) - behind * price_step(touch.bid))
        return min(MAX_PRICE, on_step(touch.ask, down=False) + behind * price_step(touch.ask))

    def _change(self, order: OrderState, touch: Touch) -> TakerAction:
        if not touch.is_two_sided or self._random.random() < _CANCEL:
            return Cancel(order)
        return Replace(order, order.executed + self._lots(3), self._price_behind(order.side, touch))
