"""Best bid and offer of a few stocks, from ITCH messages: no network, no clock, plain Python.

Every order of the stocks asked for is kept, for a price level is known only by its orders. Messages about other stocks
cost a look into a dictionary.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from venue.wire import itch


class Touch(NamedTuple):
    """Prices in ticks of 1/10,000 USD, sizes in shares; 0 = that side is empty."""

    bid: int = 0
    bid_size: int = 0
    ask: int = 0
    ask_size: int = 0

    @property
    def is_two_sided(self) -> bool:
        """Both sides are there, and neither locked nor crossed."""
        return 0 < self.bid < self.ask


@dataclass(slots=True)
class _Book:
    symbol: str
    bids: dict[int, int] = field(default_factory=dict)  # shares by price
    asks: dict[int, int] = field(default_factory=dict)

    def touch(self) -> Touch:
        bid, ask = max(self.bids, default=0), min(self.asks, default=0)
        return Touch(bid, self.bids.get(bid, 0), ask, self.asks.get(ask, 0))


@dataclass(slots=True)
class _Order:
    book: _Book
    levels: dict[int, int]  # its side of the book
    price: int
    shares: int


_REFERENCE: Final = itch.OrderDelete.layout.offset("order_reference_number")
_ADD: Final = struct.Struct(">QcI8sI")
_REDUCE: Final = struct.Struct(">QI")
_REPLACE: Final = struct.Struct(">QQII")

_TABLES: Final[list[tuple[type[itch.ItchMessage], list[str]]]] = [
    (itch.AddOrder, ["order_reference_number", "buy_sell_indicator", "shares", "stock", "price"]),
    (itch.OrderExecuted, ["order_reference_number", "executed_shares"]),
    (itch.OrderCancel, ["order_reference_number", "cancelled_shares"]),
    (itch.OrderReplace, ["original_order_reference_number", "new_order_reference_number", "shares", "price"]),
]
for _cls, _expected in _TABLES:  # what the three formats above take for granted
    _names = [_field.name for _field in _cls.layout.fields if _field.offset >= _REFERENCE]
    assert _names[: len(_expected)] == _expected, _names


class TouchBooks:
    """The books of the stocks asked for. `apply` takes messages in their order; `changed` holds the stocks whose touch
    may have changed since it was last cleared."""

    def __init__(self, symbols: Iterable[str]) -> None:
        self._books = {symbol.ljust(8).encode("ascii"): _Book(symbol) for symbol in symbols}
        self._by_symbol = {book.symbol: book for book in self._books.values()}
        self._orders: dict[int, _Order] = {}
        self.changed: set[str] = set()
        self.malformed = 0
        """Messages of a length that is not that of their type."""
        self._actions: dict[int, Callable[[bytes], None]] = {
            ord("A"): self._add,
            ord("F"): self._add,
            ord("E"): self._reduce,
            ord("C"): self._reduce,
            ord("X"): self._reduce,
            ord("D"): self._delete,
            ord("U"): self._replace,
        }

    def touch(self, symbol: str) -> Touch:
        """KeyError for a stock that was not asked for."""
        return self._by_symbol[symbol].touch()

    def clear(self) -> None:
        """A new day."""
        self._orders.clear()
        for book in self._books.values():
            book.bids.clear()
            book.asks.clear()
            self.changed.add(book.symbol)

    def apply(self, message: bytes) -> None:
        size = itch.SIZES[message[0]] if message else 0
        if len(message) != size or not size:
            self.malformed += bool(size) or not message
            return
        action = self._actions.get(message[0])
        if action is not None:
            action(message)

    def _add(self, message: bytes) -> None:
        reference, side, shares, stock, price = _ADD.unpack_from(message, _REFERENCE)
        book = self._books.get(stock)
        if book is not None and reference not in self._orders:
            self._enter(reference, _Order(book, book.bids if side == b"B" else book.asks, price, shares))

    def _reduce(self, message: bytes) -> None:
        reference, shares = _REDUCE.unpack_from(message, _REFERENCE)
        order = self._orders.get(reference)
        if order is not None:
            self._take_off(reference, order, min(shares, order.shares))

    def _delete(self, message: bytes) -> None:
        reference = int.from_bytes(message[_REFERENCE : _REFERENCE + 8], "big")
        order = self._orders.get(reference)
        if order is not None:
            self._take_off(reference, order, order.shares)

    def _replace(self, message: bytes) -> None:
        old, new, shares, price = _REPLACE.unpack_from(message, _REFERENCE)
        order = self._orders.get(old)
        if order is not None:
            self._take_off(old, order, order.shares)
            self._enter(new, _Order(order.book, order.levels, price, shares))

    def _enter(self, reference: int, order: _Order) -> None:
        if order.shares:
            self._orders[reference] = order
            order.levels[order.price] = order.levels.get(order.price, 0) + order.shares
            self.changed.add(order.book.symbol)

    def _take_off(self, reference: int, order: _Order, shares: int) -> None:
        order.shares -= shares
        if not order.shares:
            del self._orders[reference]
        left = order.levels[order.price] - shares
        if left:
            order.levels[order.price] = left
        else:
            del order.levels[order.price]
        self.changed.add(order.book.symbol)
