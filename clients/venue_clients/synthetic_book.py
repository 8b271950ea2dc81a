"""The books behind a generated day: enough price-time order to say which order an execution hits and what would cross.

Prices are whole cents here. Randomness comes in through `uniform`, a function that gives floats in [0, 1).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable

Uniform = Callable[[], float]

PRICE_SPREAD_CENTS = 60
"""How far from the touch new orders are placed at most; most are within a few cents."""
LOWEST_FAIR_CENTS = 200
"""The fair price stays above this, so that every order is priced above 1 USD, where the tick is one cent."""


class Order:
    """A live order. `at` is its place in Orders, for constant-time removal."""

    __slots__ = ("at", "book", "price_cents", "reference", "shares", "side")

    def __init__(self, reference: int, book: Book, side: Side, price_cents: int, shares: int) -> None:
        self.reference = reference
        self.book = book
        self.side = side
        self.price_cents = price_cents
        self.shares = shares
        self.at = 0


class Side:
    """One side of a book: price levels in order, and in each its orders from the oldest to the newest."""

    __slots__ = ("best_at", "indicator", "levels", "prices")

    def __init__(self, indicator: bytes) -> None:
        self.indicator = indicator
        self.best_at = -1 if indicator == b"B" else 0
        self.prices: list[int] = []
        self.levels: dict[int, dict[int, Order]] = {}

    def best_cents(self) -> int | None:
        return self.prices[self.best_at] if self.prices else None

    def oldest_at_best(self) -> Order:
        return next(iter(self.levels[self.prices[self.best_at]].values()))

    def newest_at_best(self) -> Order:
        return next(reversed(self.levels[self.prices[self.best_at]].values()))

    def add(self, order: Order) -> None:
        level = self.levels.get(order.price_cents)
        if level is None:
            level = self.levels[order.price_cents] = {}
            insort(self.prices, order.price_cents)
        level[order.reference] = order

    def remove(self, order: Order) -> None:
        level = self.levels[order.price_cents]
        del level[order.reference]
        if not level:
            del self.levels[order.price_cents]
            del self.prices[bisect_left(self.prices, order.price_cents)]


class Book:
    """One stock: two sides and a fair price that walks at random, which quotes and executions follow.

    Bids are placed below `fair_cents`, asks at or above it, and never through the other side.
    """

    __slots__ = ("asks", "bids", "fair_cents", "locate", "symbol")

    def __init__(self, symbol: bytes, locate: int, fair_cents: int) -> None:
        self.symbol = symbol
        self.locate = locate
        self.fair_cents = fair_cents
        self.bids = Side(b"B")
        self.asks = Side(b"S")

    def walk(self, step_cents: int) -> None:
        """Move the fair price, but not away from the touch before the touch has followed."""
        fair = self.fair_cents + step_cents
        bid, ask = self.bids.best_cents(), self.asks.best_cents()
        if fair >= LOWEST_FAIR_CENTS and (ask is None or fair <= ask + 1) and (bid is None or fair >= bid):
            self.fair_cents = fair

    def stale_side(self) -> Side | None:
        """The side whose best price the fair price has passed: its quotes are pulled or hit first."""
        ask = self.asks.best_cents()
        if ask is not None and ask < self.fair_cents:
            return self.asks
        bid = self.bids.best_cents()
        if bid is not None and bid >= self.fair_cents:
            return self.bids
        return None

    def price_for(self, side: Side, uniform: Uniform) -> int:
        """A price for a new order: near the fair price, a few far away, none that would trade."""
        u = uniform()
        away = int(u * u * u * PRICE_SPREAD_CENTS)
        if side is self.bids:
            ask = self.asks.best_cents()
            price = self.fair_cents - 1 - away
            return price if ask is None or price < ask else ask - 1
        bid = self.bids.best_cents()
        price = self.fair_cents + away
        return price if bid is None or price > bid else bid + 1

    def side_to_hit(self, uniform: Uniform) -> Side | None:
        """Where the next incoming order trades; None when the book is empty."""
        side = self.stale_side() or (self.bids if uniform() < 0.5 else self.asks)
        if side.prices:
            return side
        other = self.asks if side is self.bids else self.bids
        return other if other.prices else None

    def price_between(self, uniform: Uniform) -> int:
        """A price within the touch, for trades that the book does not show."""
        bid, ask = self.bids.best_cents(), self.asks.best_cents()
        if bid is None or ask is None:
            return self.fair_cents
        return bid + int(uniform() * (ask - bid + 1))


class Orders:
    """All live orders of all books, to draw one at random."""

    def __init__(self) -> None:
        self.live: list[Order] = []

    def __len__(self) -> int:
        return len(self.live)

    def add(self, order: Order) -> None:
        order.at = len(self.live)
        self.live.append(order)
        order.side.add(order)

    def remove(self, order: Order) -> None:
        order.side.remove(order)
        last = self.live.pop()
        if last is not order:
            self.live[order.at] = last
            last.at = order.at

    def draw(self, uniform: Uniform) -> Order:
        """An order somebody wants to change: any, but first those quoted at a price that is no longer fair."""
        order = self.live[int(uniform() * len(self.live))]
        stale = order.book.stale_side()
        return order if stale is None else stale.newest_at_best()
