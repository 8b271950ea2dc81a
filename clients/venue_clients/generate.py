"""A synthetic ITCH 5.0 day with the message mix of a real one, as a BinaryFILE.

The mix is that of all of Nasdaq on 2019-12-30 (268,744,780 messages): A 43.6 %, D 42.6 %, U 8.1 %, E 2.1 %, I 1.5 %,
X 1.0 %, F 0.6 %, P 0.5 %, L 0.08 %, C 0.04 %. The day is whole and consistent: start of messages, the directory spin,
an opening, a continuous session, a close and an end; executions hit the oldest order at the best price, no book is ever
crossed, a partial cancel never takes an order to zero, references and match numbers are unique and increasing, and at
the end no order is left. What is simpler than reality: the crosses trade nothing that is displayed, and imbalance
messages come all day.

The same plan gives the same bytes on every machine and Python version: all chance comes from `random.Random.random`,
whose stream is documented as stable, and no float function of the C library is involved.
"""

from __future__ import annotations

import gzip
import os
import random
import struct
from bisect import bisect
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from venue.wire import itch
from venue_clients.synthetic_book import Book, Order, Orders, Side

SECOND_NS = 1_000_000_000
OPEN_NS = (9 * 3600 + 30 * 60) * SECOND_NS
MAX_SECONDS = 12 * 3600
TICKS_A_CENT = 100
_BLOCK_BYTES = 65_536
_SLICE_MESSAGES = 65_536

_OTHER_KINDS = {"U": 0.081, "E": 0.021, "I": 0.015, "X": 0.010, "P": 0.005, "L": 0.0008, "C": 0.0004}
"""Share of each type that neither adds nor deletes. A, F and D share the rest, steered by the number of live orders."""
_ADDS = 0.509  # of A + F + D on the real day
_ATTRIBUTED = 0.0136  # F of A + F on the real day
_FULLY_EXECUTED = 0.76  # of executions: what makes adds - deletes - full executions come out at zero
_WALK = 0.04  # how often the fair price of a stock moves by a cent, per message of that stock

_KNOWN_STOCKS = {
    "AAPL": 189.50, "MSFT": 415.20, "NVDA": 121.40, "AMZN": 183.10, "GOOGL": 164.80, "META": 512.70, "TSLA": 242.60,
    "AMD": 148.90, "INTC": 22.30, "CSCO": 49.80, "NFLX": 688.40, "AVGO": 165.10, "QCOM": 168.20, "ADBE": 561.30,
    "PEP": 176.40, "COST": 892.10, "SBUX": 94.70, "MU": 96.50, "PYPL": 71.90, "CMCSA": 39.60,
}  # fmt: skip
"""Names for made-up stocks, with a price in dollars to start from."""
_MARKET_MAKERS = (b"VNUA", b"VNUB", b"VNUC", b"VNUD", b"VNUE")


class PlanError(ValueError):
    """A day that cannot be generated; the text is one line that says what to change."""


@dataclass(frozen=True, slots=True)
class DayPlan:
    """What to generate. `seconds` of market time pass between the first and the last message; `live` orders are in the
    books most of the time (0: 1 % of the messages, at least 40 a stock)."""

    symbols: tuple[str, ...] = tuple(_KNOWN_STOCKS)[:8]
    messages: int = 200_000
    seconds: float = 60.0
    seed: int = 1
    live: int = 0

    def live_orders(self) -> int:
        return self.live or max(40 * len(self.symbols), self.messages // 100)

    def flow_messages(self) -> int:
        """What is left for the continuous session once events, each stock's own messages and live orders are in."""
        return self.messages - (6 + 6 * len(self.symbols) + 2 * self.live_orders())

    def check(self) -> None:
        """Raise PlanError if there can be no such day."""
        if not 1 <= len(self.symbols) <= 65_535:
            raise PlanError(f"a day has 1 to 65,535 symbols, not {len(self.symbols):,}")
        if len(set(self.symbols)) < len(self.symbols):
            raise PlanError("each symbol can be there only once")
        for symbol in self.symbols:
            if not (1 <= len(symbol) <= 8 and symbol.isascii() and symbol.isprintable() and " " not in symbol):
                raise PlanError(f"{symbol!r} is no symbol: up to 8 ASCII characters without spaces")
        if not 0 < self.seconds <= MAX_SECONDS:
            raise PlanError(f"market time must be above 0 and up to {MAX_SECONDS:,} seconds, not {self.seconds}")
        if self.live < 0:
            raise PlanError("the number of live orders cannot be negative")
        if self.flow_messages() < 0:
            least = self.messages - self.flow_messages()
            raise PlanError(
                f"{self.messages:,} messages are too few for {len(self.symbols):,} symbols and "
                f"{self.live_orders():,} live orders: take {least:,} or more, or lower --live"
            )


def stock_names(count: int) -> tuple[str, ...]:
    """Symbols for `count` stocks, AAPL first; made-up names follow the well-known ones."""
    known = tuple(_KNOWN_STOCKS)[:count]
    return known + tuple(f"S{number:06}" for number in range(len(known) + 1, count + 1))


def generate(path: Path | str, plan: DayPlan) -> SyntheticDay:
    """Write the day to `path`, gzip if its name ends in .gz. Returns the finished day for its counts.

    The file appears under its name only when it is complete, or takes the place of an older one then; a link stays a
    link to it, and what is no file (a device, a folder) is refused. Raises PlanError or OSError.
    """
    path = Path(path).resolve()
    if path.exists() and not path.is_file():
        raise PlanError(f"{path} is no ordinary file")
    day = SyntheticDay(plan)
    partial = path.with_name(path.name + ".part")
    try:
        with partial.open("wb") as file:
            if path.suffix == ".gz":  # without name and time in its header, so that the same plan gives the same bytes
                with gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=file, mtime=0) as packed:
                    packed.writelines(day.blocks())
            else:
                file.writelines(day.blocks())
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
    return day


def _record(message: type[itch.ItchMessage]) -> struct.Struct:
    """Packs a whole record: length, type byte, the fields of the message's table, its six-byte time as u16 and u32."""
    fields = ("HI" if field.size == 6 else field.kind.struct for field in message.layout.fields)
    return struct.Struct(">Hc" + "".join(fields))


_RECORDS = {message: _record(message) for message in itch.MESSAGES.values()}


class SyntheticDay:
    """Generates one day. Iterate `blocks()` once; `counts`, `peak_live` and `last_ns` tell what was made so far."""

    def __init__(self, plan: DayPlan) -> None:
        plan.check()
        self.plan = plan
        self.counts: Counter[str] = Counter()
        self.peak_live = 0
        self.last_ns = 0
        self._uniform = random.Random(plan.seed).random
        self._orders = Orders()
        self._books = [self._new_book(locate, symbol) for locate, symbol in enumerate(plan.symbols, 1)]
        self._activity = list(accumulate(1.0 / (rank + 2) for rank in range(len(self._books))))
        self._reference = self._match = 0
        self._buffer = bytearray(_BLOCK_BYTES + 256)
        self._used = 0
        self._kinds = list(_OTHER_KINDS)
        # The build-up and the end know only adds and deletes: in between the others come more often to make up for it.
        more = min(3.0, plan.messages / max(1, plan.flow_messages()))
        self._thresholds = list(accumulate(share * more for share in _OTHER_KINDS.values()))

    def _new_book(self, locate: int, symbol: str) -> Book:
        price = _KNOWN_STOCKS.get(symbol)
        cents = round(price * 100) if price else 1_000 + int(self._uniform() * 30_000)
        return Book(symbol.encode().ljust(8), locate, cents)

    def blocks(self) -> Iterator[bytes]:
        """The day's bytes, about 64 KiB at a time."""
        span_ns = int(self.plan.seconds * SECOND_NS)
        start_ns, close_ns = OPEN_NS - span_ns * 5 // 100, OPEN_NS + span_ns * 92 // 100
        end_ns = start_ns + span_ns
        live = self.plan.live_orders()
        spun_ns = start_ns + (OPEN_NS - start_ns) // 10

        yield from self._spin(start_ns, spun_ns)
        yield from self._build_up(live, spun_ns, OPEN_NS)
        self._event(OPEN_NS, b"Q")
        for book in self._books:
            self._cross(OPEN_NS, book, b"O")
            yield from self._full_blocks()
        yield from self._continuous(self.plan.flow_messages(), live, OPEN_NS, close_ns)
        for _ in range(live - len(self._orders)):
            self._imbalance(close_ns, self._any_book())
            yield from self._full_blocks()
        self._event(close_ns, b"M")
        for book in self._books:
            self._cross(close_ns, book, b"C")
            yield from self._full_blocks()
        yield from self._wind_up(close_ns, end_ns)
        self._event(end_ns, b"C")
        yield from self._full_blocks(1)

    def _spin(self, start_ns: int, end_ns: int) -> Iterator[bytes]:
        """Start of messages, and what a receiver needs to know of each stock before system hours begin."""
        self._event(start_ns, b"O")
        for number, book in enumerate(self._books):
            time_ns = start_ns + (end_ns - start_ns) * number // len(self._books)
            self._put(
                itch.StockDirectory, time_ns, book.locate, book.symbol,
                b"Q", b"N", 100, b"N", b"C", b"Z ", b"P", b"N", b"N", b"1", b"N", 0, b"N",
            )  # fmt: skip
            self._put(itch.StockTradingAction, time_ns, book.locate, book.symbol, b"T", b" ", b"    ")
            self._put(itch.RegShoRestriction, time_ns, book.locate, book.symbol, b"0")
            self._position(time_ns, book)
            yield from self._full_blocks()
        self._event(end_ns, b"S")

    def _build_up(self, live: int, start_ns: int, end_ns: int) -> Iterator[bytes]:
        for time_ns in self._times(live, start_ns, end_ns):
            self._add(time_ns, self._any_book())
            yield from self._full_blocks()

    def _continuous(self, flow: int, live: int, start_ns: int, end_ns: int) -> Iterator[bytes]:
        """`flow` messages of the mix, that leave at most `live` orders."""
        left = flow
        for time_ns in self._times(flow, start_ns, end_ns):
            if len(self._orders) - live >= left - 1 and len(self._orders):
                self._delete(time_ns, self._orders.draw(self._uniform))
            else:
                self._one_of_the_mix(time_ns, live)
            left -= 1
            if self._used >= _BLOCK_BYTES:
                yield from self._full_blocks()

    def _wind_up(self, start_ns: int, end_ns: int) -> Iterator[bytes]:
        """End of system hours; then everything that still rests is deleted."""
        self._event(start_ns, b"E")
        for time_ns in self._times(len(self._orders), start_ns, end_ns):
            self._delete(time_ns, self._orders.live[int(self._uniform() * len(self._orders))])
            yield from self._full_blocks()

    def _one_of_the_mix(self, time_ns: int, target: int) -> None:
        uniform, live = self._uniform, len(self._orders)
        place = bisect(self._thresholds, uniform())
        if not live:
            self._add(time_ns, self._any_book())
        elif place == len(self._kinds):
            steer = (target - live) / target
            if uniform() < _ADDS + max(-0.3, min(0.3, steer)):
                self._add(time_ns, self._any_book())
            else:
                self._delete(time_ns, self._orders.draw(uniform))
        else:
            self._other(self._kinds[place], time_ns)

    def _other(self, kind: str, time_ns: int) -> None:
        if kind == "U":
            self._replace(time_ns, self._orders.draw(self._uniform))
        elif kind == "X":
            self._cancel(time_ns, self._orders.draw(self._uniform))
        elif kind in "EC":
            self._execute(time_ns, self._any_book(), with_price=kind == "C")
        elif kind == "I":
            self._imbalance(time_ns, self._any_book())
        elif kind == "P":
            self._hidden_trade(time_ns, self._any_book())
        else:
            self._position(time_ns, self._any_book())

    def _any_book(self) -> Book:
        """A stock by activity: the first ones are busiest."""
        book = self._books[bisect(self._activity, self._uniform() * self._activity[-1])]
        if self._uniform() < _WALK:
            book.walk(1 if self._uniform() < 0.5 else -1)
        return book

    def _size(self) -> int:
        u = self._uniform()
        if u < 0.75:
            return 100
        if u < 0.93:
            return 100 * (2 + int(self._uniform() * 9))
        return 1 + int(self._uniform() * 99)

    def _times(self, count: int, start_ns: int, end_ns: int) -> Iterator[int]:
        """`count` moments of a Poisson flow between two times: given their number, they are sorted uniform draws."""
        done = 0
        while done < count:
            batch = min(_SLICE_MESSAGES, count - done)
            first = start_ns + (end_ns - start_ns) * done // count
            span = start_ns + (end_ns - start_ns) * (done + batch) // count - first
            yield from sorted(first + int(self._uniform() * span) for _ in range(batch))
            done += batch

    def _add(self, time_ns: int, book: Book) -> None:
        uniform = self._uniform
        side = book.bids if uniform() < 0.5 else book.asks
        order = self._new_order(book, side, self._size())
        fields = (order.reference, side.indicator, order.shares, book.symbol, order.price_cents * TICKS_A_CENT)
        if uniform() < _ATTRIBUTED:
            self._put(itch.AddOrderMpid, time_ns, book.locate, *fields, self._market_maker())
        else:
            self._put(itch.AddOrder, time_ns, book.locate, *fields)

    def _new_order(self, book: Book, side: Side, shares: int) -> Order:
        self._reference += 1
        order = Order(self._reference, book, side, book.price_for(side, self._uniform), shares)
        self._orders.add(order)
        self.peak_live = max(self.peak_live, len(self._orders))
        return order

    def _delete(self, time_ns: int, order: Order) -> None:
        self._orders.remove(order)
        self._put(itch.OrderDelete, time_ns, order.book.locate, order.reference)

    def _replace(self, time_ns: int, order: Order) -> None:
        self._orders.remove(order)
        shares = order.shares if self._uniform() < 0.8 else self._size()
        new = self._new_order(order.book, order.side, shares)
        price = new.price_cents * TICKS_A_CENT
        self._put(itch.OrderReplace, time_ns, order.book.locate, order.reference, new.reference, shares, price)

    def _cancel(self, time_ns: int, order: Order) -> None:
        if order.shares == 1:  # a cancel of its only share is a delete
            return self._delete(time_ns, order)
        lots = (order.shares - 1) // 100
        cancelled = 100 * (1 + int(self._uniform() * lots)) if lots else 1 + int(self._uniform() * (order.shares - 1))
        order.shares -= cancelled
        return self._put(itch.OrderCancel, time_ns, order.book.locate, order.reference, cancelled)

    def _execute(self, time_ns: int, book: Book, with_price: bool) -> None:
        side = book.side_to_hit(self._uniform)
        if side is None:
            return self._add(time_ns, book)
        order = side.oldest_at_best()
        executed = order.shares
        if executed > 1 and self._uniform() >= _FULLY_EXECUTED:
            executed = 1 + int(self._uniform() * (order.shares - 1))
        order.shares -= executed
        if not order.shares:
            self._orders.remove(order)
        self._match += 1
        if not with_price:
            return self._put(itch.OrderExecuted, time_ns, book.locate, order.reference, executed, self._match)
        price = (order.price_cents + (1 if side is book.bids else -1)) * TICKS_A_CENT  # improved by a tick
        return self._put(
            itch.OrderExecutedWithPrice, time_ns, book.locate, order.reference, executed, self._match, b"Y", price
        )

    def _hidden_trade(self, time_ns: int, book: Book) -> None:
        self._match += 1
        price = book.price_between(self._uniform) * TICKS_A_CENT
        self._put(itch.Trade, time_ns, book.locate, 0, b"B", self._size(), book.symbol, price, self._match)

    def _imbalance(self, time_ns: int, book: Book) -> None:
        paired, imbalance = 100 * int(self._uniform() * 5_000), 100 * int(self._uniform() * 500)
        direction = b"N" if not imbalance else b"B" if self._uniform() < 0.5 else b"S"
        price = book.fair_cents * TICKS_A_CENT
        self._put(
            itch.Noii, time_ns, book.locate, paired, imbalance, direction, book.symbol, price, price, price, b"C", b"L"
        )

    def _position(self, time_ns: int, book: Book) -> None:
        maker = self._market_maker()
        self._put(itch.MarketParticipantPosition, time_ns, book.locate, maker, book.symbol, b"Y", b"N", b"A")

    def _market_maker(self) -> bytes:
        return _MARKET_MAKERS[int(self._uniform() * len(_MARKET_MAKERS))]

    def _cross(self, time_ns: int, book: Book, cross_type: bytes) -> None:
        self._match += 1
        shares, price = 100 * int(self._uniform() * 10_000), book.fair_cents * TICKS_A_CENT
        self._put(itch.CrossTrade, time_ns, book.locate, shares, book.symbol, price, self._match, cross_type)

    def _event(self, time_ns: int, code: bytes) -> None:
        self._put(itch.SystemEvent, time_ns, 0, code)

    def _put(self, message: type[itch.ItchMessage], time_ns: int, locate: int, *fields: int | bytes) -> None:
        record = _RECORDS[message]
        code = message.layout.code
        record.pack_into(
            self._buffer, self._used, record.size - 2, code, locate, 0, time_ns >> 32, time_ns & 0xFFFFFFFF, *fields
        )
        self._used += record.size
        self.counts[code.decode()] += 1
        self.last_ns = time_ns

    def _full_blocks(self, least_bytes: int = _BLOCK_BYTES) -> Iterator[bytes]:
        """What has been written, if it is at least so much."""
        if self._used >= least_bytes:
            yield bytes(self._buffer[: self._used])
            self._used = 0
