"""Real days through the books, held against what others made of them, row by row."""

import os
from collections import Counter

from commands import add, delete, execute, feed_reset, reduce
from exchange import Exchange, NewExchange
from oracle_streams import (
    Row,
    binary_file,
    itch_command,
    lobster_books,
    lobster_command,
    lobster_messages,
    window,
)
from shared import SHARED_DATA, needs_shared
from venue.wire import itch

pytestmark = needs_shared

EVERY = {"quick": 40}.get(os.environ.get("VENUE_TEST_PROFILE", ""), 1)
"""Only every so many-th transition is tried where kernels run uncompiled."""


def not_crossed(exchange: Exchange) -> bool:
    ask, _, bid, _ = window(exchange.book(), 1)
    return bid < ask


# --- ITCH ---------------------------------------------------------------------------------------------------------


def test_ten_levels_after_each_message_of_a_real_morning(fresh: NewExchange) -> None:
    """The other program writes one row a message that concerns the book (also of P and H), and two a U: after its
    delete, and after its add. Only the second of the two is a book that ever existed."""
    exchange = fresh()
    folder = SHARED_DATA / "itch"
    expected = lobster_books(folder / "aapl-20200130-10k-shifted.orderbook_10.csv")
    line = 0
    for data in binary_file(folder / "aapl-20200130-10k-shifted.itch"):
        command = itch_command(itch.decode(data))
        if command is None:
            continue
        exchange.send(command)
        line += 2 if data[:1] == b"U" else 1
        assert window(exchange.book(), 10) == expected[line - 1], (line, command)
    assert line == len(expected) == 9_953


def test_the_first_ten_thousand_messages_of_a_real_day(fresh: NewExchange) -> None:
    exchange = fresh()
    kinds: Counter[str] = Counter()
    for data in binary_file(SHARED_DATA / "itch" / "aapl-20200130-10k.itch"):
        kinds[chr(data[0])] += 1
        command = itch_command(itch.decode(data))
        if command is not None:
            assert exchange.send(command) == []
            assert not_crossed(exchange)
    assert kinds == Counter(A=4758, D=4083, E=849, P=240, L=52, U=7, X=6, F=2, R=1, H=1, Y=1)
    bids, asks = exchange.book()
    assert sum(len(queue) for _, queue in bids + asks) == 215
    assert exchange.counters() == {}  # nothing unknown, nothing out of order: 849 of 849 at the best and oldest
    assert exchange.state()["incomplete"] == 0
    exchange.check_invariants()


def test_a_cut_out_of_the_middle_of_a_day_of_many_stocks(fresh: NewExchange) -> None:
    """Most of what is replaced, deleted or executed was entered before the cut."""
    exchange = fresh(instruments=321)
    instruments: dict[int, int] = {}
    unknown: Counter[str] = Counter()
    for data in binary_file(SHARED_DATA / "itch" / "all-20191230-0930-1k.itch"):
        message = itch.decode(data)
        if message.stock_locate == 0:
            continue
        instrument = instruments.setdefault(message.stock_locate, len(instruments))
        command = itch_command(message, instrument)
        if command is not None:
            before = exchange.counters().get("unknown_references", 0)
            exchange.send(command)
            if exchange.counters().get("unknown_references", 0) > before:
                unknown[chr(data[0])] += 1
                assert exchange.state(instrument)["incomplete"] == 1
    assert len(instruments) == 321
    assert unknown == Counter(U=225, D=139, E=28, X=6, C=1)
    exchange.check_invariants()


# --- LOBSTER ------------------------------------------------------------------------------------------------------


def test_every_change_of_the_touch_of_a_real_day(fresh: NewExchange) -> None:
    """A file of one level tells only what happens at the touch, so each row is tried alone: the touch before it, its
    message, the touch after it. What is behind a level that empties is not in the file; it can only be worse."""
    exchange = fresh()
    folder = SHARED_DATA / "lobster"
    rows = lobster_messages(folder / "amzn-20120621.message_1.csv")
    books = lobster_books(folder / "amzn-20120621.orderbook_1.csv")
    emptied = 0
    for k in range(1, len(rows), EVERY):
        row, (ask, ask_shares, bid, bid_shares) = rows[k], books[k - 1]
        exchange.send(feed_reset())
        for side, price, shares in (("S", ask, ask_shares), ("B", bid, bid_shares)):
            if side == row.side and row.kind in (3, 4) and price == row.price:  # the order at hand, and the rest
                exchange.send(add(row.order, side, row.shares, price))
                shares -= row.shares
            reference = row.order if side == row.side and row.kind == 2 else ord(side)
            if shares > 0:
                exchange.send(add(reference, side, shares, price))
        exchange.send(lobster_command(row, row.order))
        now, then = window(exchange.book(), 1), books[k]
        own = 2 * (row.side == "B")  # where the row's side stands
        if now[own + 1] == 0:
            emptied += 1
            assert then[own] < row.price if row.side == "B" else then[own] > row.price
            now[own : own + 2] = then[own : own + 2]
        assert now == then, (k, row)
    assert exchange.counters() == {}
    if EVERY == 1:
        assert emptied == 13_953
    assert len(rows) == 57_515


def test_ten_levels_after_each_row_of_a_real_opening(fresh: NewExchange) -> None:
    """The book begins as the first row shows it, in orders without a name. A level that comes into the window at its
    bottom (318 times) is known from before or, 14 times, had changed while it was out of sight: only then, and only
    there, the book is told what the row shows."""
    exchange = fresh()
    folder = SHARED_DATA / "lobster"
    rows = lobster_messages(folder / "aapl-20120621-head.message_10.csv")
    books = lobster_books(folder / "aapl-20120621-head.orderbook_10.csv")
    nameless = iter(range(10**12, 2 * 10**12))
    for level in range(10):
        ask, ask_shares, bid, bid_shares = books[0][4 * level : 4 * level + 4]
        exchange.send(add(next(nameless), "S", ask_shares, ask))
        exchange.send(add(next(nameless), "B", bid_shares, bid))
    assert window(exchange.book(), 10) == books[0]

    appeared, corrected = 0, 0
    for row, before, then in zip(rows[1:], books, books[1:], strict=False):
        apply_row(exchange, row)
        bottom = slice(38, 40) if row.side == "B" else slice(36, 38)
        appeared += then[bottom.start] not in [row.price, *before[bottom.start % 4 :: 4]]
        now = window(exchange.book(), 10)
        if now[bottom] != then[bottom]:
            corrected += 1
            price, shares = then[bottom]
            for ref in beyond_ninth(exchange, row.side, price):
                exchange.send(delete(ref))
            exchange.send(add(next(nameless), row.side, shares, price))
            now[bottom] = then[bottom]
        assert window(exchange.book(), 10) == now == then, row
        assert not_crossed(exchange)
    assert (len(rows), appeared, corrected) == (999, 318, 14)
    assert exchange.counters() == {}


def apply_row(exchange: Exchange, row: Row) -> None:
    """The row's message; if its order rested before the file began, a nameless one at its price gives the shares."""
    if row.kind in (3, 4) and exchange.displayed(row.order) is None:
        [queue] = [queue for price, queue in exchange.book()[row.side == "S"] if price == row.price]
        nameless = queue[0][0]
        assert nameless >= 10**12
        exchange.send(reduce(nameless, row.shares) if row.kind == 3 else execute(nameless, row.shares))
    else:
        exchange.send(lobster_command(row, row.order))


def beyond_ninth(exchange: Exchange, side: str, worst: int) -> list[int]:
    """The orders behind the ninth level of a side, up to a price."""
    levels = exchange.book()[side == "S"][9:]
    near = [queue for price, queue in levels if (price >= worst if side == "B" else price <= worst)]
    return [reference for queue in near for reference, _, _ in queue]
