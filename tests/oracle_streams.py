"""Captured days as commands: ITCH messages and LOBSTER rows in, COMMAND records out."""

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from commands import Command, add, delete, execute, hidden_trade, reduce
from exchange import Levels
from venue.engine import records as r
from venue.wire import itch

# --- ITCH ---------------------------------------------------------------------------------------------------------


def binary_file(path: Path) -> Iterator[bytes]:
    """The messages of a BinaryFILE day: each behind its length in two bytes."""
    data, at = path.read_bytes(), 0
    while at < len(data):
        size = int.from_bytes(data[at : at + 2], "big")
        yield data[at + 2 : at + 2 + size]
        at += 2 + size


def _signed(number: int) -> int:
    """The int64 view of eight unsigned bytes."""
    return number - 2**64 if number >= 2**63 else number


def itch_command(message: itch.ItchMessage, instrument: int = 0) -> Command | None:
    """What the matching thread is told of a message; None if it does not concern the book."""
    common = Command(time_ns=message.timestamp, instrument=instrument)
    match message:
        case itch.AddOrder() | itch.AddOrderMpid():
            return common._replace(
                kind=r.ADD,
                word0=_signed(message.order_reference_number),
                side=ord(message.buy_sell_indicator),
                quantity=message.shares,
                price=message.price,
            )
        case itch.OrderExecuted() | itch.OrderExecutedWithPrice():
            priced = isinstance(message, itch.OrderExecutedWithPrice)
            return common._replace(
                kind=r.EXECUTE_AT_PRICE if priced else r.EXECUTE,
                word0=_signed(message.order_reference_number),
                word1=_signed(message.match_number),
                quantity=message.executed_shares,
                price=message.execution_price if isinstance(message, itch.OrderExecutedWithPrice) else 0,
            )
        case itch.OrderCancel():
            word0 = _signed(message.order_reference_number)
            return common._replace(kind=r.REDUCE, word0=word0, quantity=message.cancelled_shares)
        case itch.OrderDelete():
            return common._replace(kind=r.DELETE, word0=_signed(message.order_reference_number))
        case itch.OrderReplace():
            return common._replace(
                kind=r.REPLACE_RECORDED,
                word0=_signed(message.original_order_reference_number),
                word1=_signed(message.new_order_reference_number),
                quantity=message.shares,
                price=message.price,
            )
        case itch.Trade():
            return common._replace(kind=r.TRADE, quantity=message.shares, price=message.price)
        case itch.CrossTrade():
            return common._replace(kind=r.CROSS, price=message.cross_price)
        case itch.StockTradingAction():
            return common._replace(kind=r.TRADING_STATE, detail=ord(message.trading_state))
        case _:
            return None


# --- LOBSTER ------------------------------------------------------------------------------------------------------

NO_ASK, NO_BID = 9_999_999_999, -9_999_999_999


def window(book: tuple[Levels, Levels], depth: int) -> list[int]:
    """A book as a LOBSTER row: ask price, ask shares, bid price, bid shares, level by level."""
    bids, asks = ([(price, sum(open for _, open, _ in queue)) for price, queue in side] for side in book)
    row: list[int] = []
    for level in range(depth):
        row += asks[level] if level < len(asks) else (NO_ASK, 0)
        row += bids[level] if level < len(bids) else (NO_BID, 0)
    return row


class Row(NamedTuple):
    """One row of a message file."""

    kind: int
    """1 new, 2 partial cancel, 3 delete, 4 visible execution, 5 hidden execution, 7 halt."""
    order: int
    shares: int
    price: int
    side: str
    """Of the resting order."""


def lobster_messages(path: Path) -> list[Row]:
    with path.open() as file:
        return [
            Row(int(kind), int(order), int(shares), int(price), "B" if direction == "1" else "S")
            for _, kind, order, shares, price, direction in csv.reader(file)
        ]


def lobster_books(path: Path) -> list[list[int]]:
    with path.open() as file:
        return [[int(value) for value in row] for row in csv.reader(file)]


def lobster_command(row: Row, reference: int) -> Command:
    """What the row does to the order that it names, which stands in the book as `reference`."""
    match row.kind:
        case 1:
            return add(reference, row.side, row.shares, row.price)
        case 2:
            return reduce(reference, row.shares)
        case 3:
            return delete(reference)
        case 4:
            return execute(reference, row.shares)
        case 5:
            return hidden_trade(row.shares, row.price)
        case _:
            raise ValueError(f"no such LOBSTER event: {row}")
