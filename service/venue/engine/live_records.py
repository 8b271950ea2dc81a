"""What people look at while the exchange runs: depth, trades and own orders, laid out for shared memory.

The matching thread writes these arrays as it goes, other processes read them. A reader never holds the writer up, so
each array says how to know that a copy is whole. Little-endian, like all records; nothing here is compiled.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from venue.engine.records import BOOK, SIDE, Array, aligned

# --- trades -------------------------------------------------------------------------------------------------------

TAPE: Final = np.dtype(
    [
        ("number", "<i8"),  # 1, 2, ...: written last
        ("time_ns", "<i8"),
        ("price", "<i8"),
        ("quantity", "<i8"),
        ("match_number", "<i8"),  # as the clients are told; 0: no client has part in it
        ("resting_user_ref", "<u4"),
        ("taking_user_ref", "<u4"),
        ("instrument", "<u2"),
        ("resting_account", "<u2"),  # RECORDED: the feed's order
        ("taking_account", "<u2"),
        ("side", "u1"),  # BUY or SELL: of the taking order; NO_SIDE: not known
        ("kind", "u1"),
        ("_", "<i8"),
    ]
)
"""One trade; number n stands at ``(n - 1) % TRADES_KEPT``. The counter ``trades`` says which was the last. A copy of
number n is whole if the record says n and the counter, read after copying, is below n - 1 + TRADES_KEPT."""

OWN_TRADE: Final = 0  # an order of a client has part in it
RECORDED_EXECUTION: Final = 1
RECORDED_HIDDEN: Final = 2  # against interest that was not displayed
RECORDED_CROSS: Final = 3
NO_SIDE: Final = 2
TRADES_KEPT: Final = 1 << 16

# --- own orders ---------------------------------------------------------------------------------------------------

SHOWN_ORDER: Final = np.dtype(
    [
        ("reference", "<i8"),  # 0: no order here
        ("open", "<i8"),
        ("price", "<i8"),
        ("next", "<i4"),  # while it is not in use: the next free one
        ("user_ref", "<u4"),
        ("instrument", "<u2"),
        ("account", "<u2"),
        ("side", "u1"),  # BUY or SELL
        ("wire_side", "u1"),  # B S T E
        ("tif", "u1"),
        ("capacity", "u1"),
        ("_0", "<i8"),
        ("_1", "<i8"),
        ("_2", "<i8"),
    ]
)
"""A copy of an own order that stands in a book, from slot 1 on. A row is whole if two copies of it are equal."""

ORDERS_SHOWN: Final = 1 << 16
"""Own orders beyond are in the books like any others, but not in this table."""

# --- depth --------------------------------------------------------------------------------------------------------

PLACES: Final = 16
"""How many books can be looked at at the same time."""
DEPTH_LEVELS: Final = 20
DEPTH_ORDERS: Final = 64

DEPTH: Final = np.dtype(
    [
        ("version", "<i8"),  # odd: being written; a copy is whole if it is even, and the same afterwards
        ("time_ns", "<i8"),  # market time of the last command before the copy of the book
        ("last_price", "<i8"),
        ("instrument", "<i4"),
        ("bids", "<i4"),  # how many levels follow in DEPTH_LEVEL
        ("asks", "<i4"),
        ("own", "<i4"),  # how many orders follow in DEPTH_ORDER
        ("own_total", "<i4"),  # how many own orders stand in the book
        ("state", "u1"),
        ("incomplete", "u1"),
        ("_0", "<u2"),
        ("wish", "<i8"),  # the wish that this answers
        ("_1", "<i8"),
    ]
)
DEPTH_LEVEL: Final = np.dtype(
    [("price", "<i8"), ("shares", "<i8"), ("own_shares", "<i8"), ("orders", "<i4"), ("_", "<i4")]
)
"""``2 * DEPTH_LEVELS`` rows a place: bids, then asks, best first."""
DEPTH_ORDER: Final = np.dtype(
    [
        ("open", "<i8"),
        ("queue_ahead", "<i8"),  # shares before it at its price
        ("price", "<i4"),
        ("user_ref", "<u4"),
        ("account", "<u2"),
        ("side", "u1"),
        ("_0", "u1"),
        ("_1", "<i4"),
    ]
)
"""``DEPTH_ORDERS`` rows a place: own orders, bids first, each side best price first, then oldest first."""

WISHES: Final = 32
"""Words: how many places are in use (0 to ``PLACES``), then for each place a wish, or -1: the instrument that somebody
looks at in the low 16 bits, and above them a number that is new with each wish, so that the answer to it can be told
from an older one. Written by whoever looks, read by the matching thread."""

for _dtype, _size in {TAPE: 64, SHOWN_ORDER: 64, DEPTH: 64, DEPTH_LEVEL: 32, DEPTH_ORDER: 32}.items():
    assert _dtype.itemsize == _size, (_dtype, _dtype.itemsize)


class Live(NamedTuple):
    """All arrays that the matching thread shows."""

    books: Array  # [instruments] BOOK
    sides: Array  # [2 * instruments] SIDE
    tape: Array  # [2^k] TAPE
    shown: Array  # [n + 1] SHOWN_ORDER
    depths: Array  # [PLACES] DEPTH
    depth_levels: Array  # [PLACES * 2 * DEPTH_LEVELS] DEPTH_LEVEL
    depth_orders: Array  # [PLACES * DEPTH_ORDERS] DEPTH_ORDER
    wishes: Array  # [WISHES] int64


def shapes(instruments: int, trades: int, orders: int) -> dict[str, tuple[np.dtype[Any], int]]:
    """Record type and length of each array but the wishes."""
    return {
        "books": (BOOK, instruments),
        "sides": (SIDE, 2 * instruments),
        "tape": (TAPE, trades),
        "shown": (SHOWN_ORDER, orders + 1),
        "depths": (DEPTH, PLACES),
        "depth_levels": (DEPTH_LEVEL, PLACES * 2 * DEPTH_LEVELS),
        "depth_orders": (DEPTH_ORDER, PLACES * DEPTH_ORDERS),
    }


def create_private(instruments: int, trades: int = 1 << 10, orders: int = 0) -> Live:
    """Arrays in private memory, for an engine that nobody looks at."""
    arrays = {name: aligned(length, dtype) for name, (dtype, length) in shapes(instruments, trades, orders).items()}
    return Live(**arrays, wishes=np.zeros(WISHES, np.int64))
