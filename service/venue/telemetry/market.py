"""From live memory to answers: instruments, books, clients' orders, trades.

Everything is copied first, and checked to be whole as :mod:`venue.engine.live_records` says; the matching thread never
waits for a reader.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from venue.engine.live_records import (
    DEPTH_LEVELS,
    DEPTH_ORDERS,
    NO_SIDE,
    ORDERS_SHOWN,
    OWN_TRADE,
    RECORDED_CROSS,
    RECORDED_EXECUTION,
    RECORDED_HIDDEN,
    Live,
)
from venue.engine.records import BUY, RECORDED, SELL, Array
from venue.telemetry import answers
from venue.telemetry.answers import SideLetter, TradeKind, TradingState
from venue.telemetry.live_memory import LiveMemory
from venue.telemetry.page import Page

STATES: Final[dict[int, TradingState]] = {
    ord("T"): "trading",
    ord("H"): "halted",
    ord("P"): "paused",
    ord("Q"): "quotation only",
}
SIDES: Final[dict[int, SideLetter]] = {BUY: "B", SELL: "S"}
KINDS: Final[dict[int, TradeKind]] = {
    OWN_TRADE: "own",
    RECORDED_EXECUTION: "recorded",
    RECORDED_HIDDEN: "hidden",
    RECORDED_CROSS: "cross",
}
TRIES: Final = 1_000
"""How often a copy is tried that the writer spoils; it writes for a few microseconds, 20 times a second."""
TICKS_A_DOLLAR: Final = 10_000


def price_text(ticks: int) -> str:
    """Ticks as dollars with four decimals."""
    dollars, rest = divmod(abs(ticks), TICKS_A_DOLLAR)
    return f"{'-' if ticks < 0 else ''}{dollars}.{rest:04d}"


class Market:
    """Reads one exchange's live memory; one thread may use it."""

    def __init__(self, page: Page, memory: LiveMemory) -> None:
        self.page = page
        self.memory = memory
        self._symbols: list[str] = []
        self._instruments: dict[str, int] = {}

    # --- instruments ----------------------------------------------------------------------------------------------

    @property
    def symbols(self) -> list[str]:
        """All symbols by their instrument."""
        count = int(self.memory.count[0])
        if len(self._symbols) < count:
            known = len(self._symbols)
            for text in self.memory.symbols[known:count].copy():
                symbol = text.tobytes().decode("ascii", "replace").rstrip()
                self._instruments[symbol] = len(self._symbols)
                self._symbols.append(symbol)
        return self._symbols

    def instrument(self, symbol: str) -> int | None:
        """The number of a symbol, None if it is not traded here."""
        return self._instruments.get(symbol) if self.symbols else None

    def instruments(self, prefix: str, offset: int, limit: int) -> answers.Instruments:
        """Instruments whose symbol begins with ``prefix``, in the order in which they became known."""
        matching = [number for number, symbol in enumerate(self.symbols) if symbol.startswith(prefix)]
        page = matching[offset : offset + limit]
        following = offset + limit if offset + limit < len(matching) else None
        return answers.Instruments(
            instruments=[self._instrument(number) for number in page], total=len(matching), next=following
        )

    def _instrument(self, number: int) -> answers.Instrument:
        live = self.memory.of(number)
        book, bid, ask = live.books[number], live.sides[2 * number], live.sides[2 * number + 1]
        last_price = int(book["last_price"])
        return answers.Instrument(
            symbol=self._symbols[number],
            state=STATES.get(int(book["state"]), "unknown"),
            incomplete=bool(book["incomplete"]),
            last_price=price_text(last_price) if last_price else None,
            bid=price_text(int(bid["best"])) if bid["count"] > 0 else None,
            ask=price_text(-int(ask["best"])) if ask["count"] > 0 else None,
        )

    # --- books ----------------------------------------------------------------------------------------------------

    def book_version(self, place: int, wish: int) -> int | None:
        """The version of the copy that answers a wish; None as long as there is none, or while it is being written."""
        head = self._shows(wish).depths[place]
        version = int(head["version"])
        return version if version % 2 == 0 and int(head["wish"]) == wish else None

    def _shows(self, wish: int) -> Live:
        """Where the answer to a wish is: its low bits are the instrument."""
        return self.memory.of(wish & 0xFFFF)

    def book(self, place: int, wish: int, depth: int = DEPTH_LEVELS) -> answers.Book | None:
        """The copy that answers a wish; None as long as there is none."""
        live = self._shows(wish)
        first_level, first_order = 2 * place * DEPTH_LEVELS, place * DEPTH_ORDERS
        for _ in range(TRIES):
            head = live.depths[place].copy()
            levels = live.depth_levels[first_level : first_level + 2 * DEPTH_LEVELS].copy()
            orders = live.depth_orders[first_order : first_order + DEPTH_ORDERS].copy()
            if int(head["version"]) % 2 == 0 and live.depths["version"][place] == head["version"]:
                return self._book(head, levels, orders, depth) if int(head["wish"]) == wish else None
        return None

    def _book(self, head: Array, levels: Array, orders: Array, depth: int) -> answers.Book:
        names = self.page.account_names()
        last_price, time_ns = int(head["last_price"]), int(head["time_ns"])
        bids, asks = min(depth, int(head["bids"])), min(depth, int(head["asks"]))
        return answers.Book(
            symbol=self.symbols[int(head["instrument"])],
            time_ns=time_ns or None,
            state=STATES.get(int(head["state"]), "unknown"),
            incomplete=bool(head["incomplete"]),
            last_price=price_text(last_price) if last_price else None,
            bids=[_level(*row) for row in levels[:bids].tolist()],
            asks=[_level(*row) for row in levels[DEPTH_LEVELS : DEPTH_LEVELS + asks].tolist()],
            own=[_book_order(names, row) for row in orders[: int(head["own"])]],
            own_total=int(head["own_total"]),
        )

    # --- orders ---------------------------------------------------------------------------------------------------

    def orders(self, account: str | None, symbol: str | None, offset: int, limit: int) -> answers.Orders:
        """Clients' live orders, one matching thread's after the other's and oldest first; of one account and of one
        symbol if those are given."""
        names = self.page.account_names()
        shown = [self._shown(shard, len(names)) for shard in range(len(self.memory.shards))]
        rows = np.concatenate([rows for rows, _ in shown])
        missing = sum(missing for _, missing in shown)
        if account is not None:
            rows = rows[rows["account"] == (names.index(account) if account in names else RECORDED)]
        if symbol is not None:
            number = self.instrument(symbol)
            rows = rows[rows["instrument"] == (RECORDED if number is None else number)]
        rows = rows[np.argsort(rows["reference"])]
        return answers.Orders(
            orders=[self._order(names, row) for row in rows[offset : offset + limit]],
            total=len(rows),
            missing=missing,
            next=offset + limit if offset + limit < len(rows) else None,
        )

    def _shown(self, shard: int, accounts: int) -> tuple[Array, int]:
        """The rows of one matching thread's table, and how many orders found no room in it."""
        table = self.memory.shards[shard].shown
        places = np.flatnonzero(table["reference"])
        places = places[places > 0]
        rows, again = table[places].copy(), table[places].copy()
        rows = rows[(rows == again) & (rows["reference"] != 0) & (rows["account"] < accounts)]
        if len(rows) < ORDERS_SHOWN:
            return rows, 0
        return rows, max(0, int(self.page.shards[shard].matcher["live_own_orders"][0]) - len(rows))

    def _order(self, names: list[str], row: Array) -> answers.Order:
        return answers.Order(
            account=names[int(row["account"])],
            user_ref=int(row["user_ref"]),
            symbol=self.symbols[int(row["instrument"])],
            side=SIDES[int(row["side"])],
            wire_side=chr(row["wire_side"]),
            price=price_text(int(row["price"])),
            ticks=int(row["price"]),
            open=int(row["open"]),
            time_in_force=chr(row["tif"]),
            capacity=chr(row["capacity"]),
            reference=int(row["reference"]),
        )

    # --- trades ---------------------------------------------------------------------------------------------------

    def shard_of(self, instrument: int) -> int:
        """Which matching thread has an instrument, and numbers its trades."""
        return instrument % len(self.memory.shards)

    def newest_trade(self, shard: int = 0) -> int:
        """The number of a matching thread's last trade, 0 before the first."""
        return int(self.page.shards[shard].matcher["trades"][0])

    def trades_after(self, number: int, shard: int = 0) -> Array:
        """TAPE records of a matching thread's trades after ``number``, without those that are no longer kept."""
        tape = self.memory.shards[shard].tape
        kept = len(tape)
        newest = self.newest_trade(shard)
        numbers = np.arange(max(number + 1, newest - kept + 2, 1), newest + 1)
        rows: Array = tape[(numbers - 1) % kept]  # a copy
        whole = numbers > self.newest_trade(shard) + 1 - kept  # the next one is perhaps being written
        rows, numbers = rows[whole], numbers[whole]
        behind = np.flatnonzero(rows["number"] < numbers)
        return rows[: int(behind[0])] if len(behind) else rows

    def fills(self, since: Sequence[int], limit: int) -> answers.Fills:
        """Trades of clients after the numbers ``since``, one of each matching thread (0 where there is none): the
        oldest first by their times, and each thread's in its own order."""
        names = self.page.account_names()
        waiting: list[list[Array]] = []  # of each thread: its own trades, the newest first
        following, missed = [], 0
        for shard in range(len(self.memory.shards)):
            after, newest = since[shard] if shard < len(since) else 0, self.newest_trade(shard)
            rows = self.trades_after(after, shard)
            missed += max(0, (int(rows["number"][0]) if len(rows) else newest + 1) - after - 1)
            following.append(int(rows[-1]["number"]) if len(rows) else newest)
            waiting.append(list(rows[rows["kind"] == OWN_TRADE][: limit + 1][::-1]))
        trades: list[answers.Trade] = []
        while len(trades) < limit and any(waiting):
            _, shard = min((int(own[-1]["time_ns"]), shard) for shard, own in enumerate(waiting) if own)
            trades.append(self.trade(names, waiting[shard].pop()))
        for shard, own in enumerate(waiting):
            if own:
                following[shard] = int(own[-1]["number"]) - 1
        return answers.Fills(fills=trades, next=_cursor(following), missed=missed)

    def trade(self, names: list[str], row: Array) -> answers.Trade:
        """One TAPE record as an answer."""
        return answers.Trade(
            number=int(row["number"]),
            time_ns=int(row["time_ns"]),
            symbol=self.symbols[int(row["instrument"])],
            price=price_text(int(row["price"])),
            ticks=int(row["price"]),
            quantity=int(row["quantity"]),
            side=None if row["side"] == NO_SIDE else SIDES[int(row["side"])],
            kind=KINDS[int(row["kind"])],
            shard=self.shard_of(int(row["instrument"])),
            match_number=int(row["match_number"]),
            resting=_party(names, int(row["resting_account"]), int(row["resting_user_ref"])),
            taking=_party(names, int(row["taking_account"]), int(row["taking_user_ref"])),
        )


def _cursor(numbers: list[int]) -> int | str:
    """Where to go on: a number, or with several matching threads one of each with commas between."""
    return numbers[0] if len(numbers) == 1 else ",".join(map(str, numbers))


def _level(price: int, shares: int, own_shares: int, orders: int, _: int) -> answers.Level:
    return answers.Level(price=price_text(price), ticks=price, shares=shares, orders=orders, own_shares=own_shares)


def _book_order(names: list[str], row: Array) -> answers.BookOrder:
    return answers.BookOrder(
        account=names[int(row["account"])],
        user_ref=int(row["user_ref"]),
        side=SIDES[int(row["side"])],
        price=price_text(int(row["price"])),
        ticks=int(row["price"]),
        open=int(row["open"]),
        queue_ahead=int(row["queue_ahead"]),
    )


def _party(names: list[str], account: int, user_ref: int) -> answers.Party | None:
    return None if account == RECORDED else answers.Party(account=names[account], user_ref=user_ref)
