"""The records that the matching thread reads, keeps and writes, and the codes inside them.

All are little-endian and laid out by hand, so that one record is one cache line (64 bytes) or a simple fraction of
one. Prices are ticks of 1/10,000 USD, quantities shares, times nanoseconds since midnight (market time) or of the
monotonic clock (``ingress_ns``). 64-bit identities are int64 views of the wire's bits.
"""

from __future__ import annotations

import contextlib
import mmap
from typing import Any, Final

import numpy as np

Array = np.ndarray[Any, Any]
"""A numpy array of one of the dtypes below; kernels take them as they are."""

# --- commands: what the loop thread asks of the matching thread ---------------------------------------------------

COMMAND = np.dtype(
    [
        ("time_ns", "<i8"),  # market time: of the recorded message, or of the arrival of the order
        ("ingress_ns", "<i8"),  # monotonic clock when the bytes were read; 0: by the service, or an Account Query
        ("price", "<i8"),
        ("word0", "<i8"),  # recorded: order reference; orders: first 8 bytes of ClOrdID
        ("word1", "<i8"),  # recorded: new reference or match number; orders: last 6 bytes of ClOrdID
        ("quantity", "<u4"),
        ("user_ref", "<u4"),
        ("extra", "<u4"),  # Replace: original UserRefNum; Enter: minimum quantity
        ("instrument", "<u2"),
        ("account", "<u2"),
        ("kind", "u1"),
        ("side", "u1"),  # the wire's byte: B S T E; in a Replace 0 keeps the side
        ("tif", "u1"),
        ("display", "u1"),
        ("capacity", "u1"),
        ("iso", "u1"),
        ("cross", "u1"),
        ("detail", "u1"),  # a reject reason the decoder found, a trading state, a system event, flags
    ]
)

NO_INSTRUMENT: Final = 0xFFFF
"""In a command: a symbol that is not traded here."""

# recorded market data (ITCH message type in brackets)
ADD: Final = 1  # A F
EXECUTE: Final = 2  # E
EXECUTE_AT_PRICE: Final = 3  # C
REDUCE: Final = 4  # X
DELETE: Final = 5  # D
REPLACE_RECORDED: Final = 6  # U: word0 original, word1 new reference
TRADE: Final = 7  # P
CROSS: Final = 8  # Q: a price for the book, a line for the tape
TRADING_STATE: Final = 9  # H: detail is the state
FEED_EVENT: Final = 10  # S: detail is the event code
FEED_LOSS: Final = 11  # messages were lost for good: every book is incomplete from here on
FEED_RESET: Final = 12  # a new feed session: forget every recorded order
# orders
ENTER: Final = 16
REPLACE: Final = 17
CANCEL: Final = 18
MODIFY: Final = 19
QUERY: Final = 20  # Account Query
# the service itself
CANCEL_ALL: Final = 24  # all orders of an account; detail is the cancel reason
SET_KILL_SWITCH: Final = 25  # detail 1 on, 0 off
DAY_EVENT: Final = 26  # System Event to an account: detail S or E

# --- events: what the matching thread tells the clients -----------------------------------------------------------

EVENT = np.dtype(
    {
        "names": [
            "time_ns",
            "ingress_ns",
            "price",
            "reference",
            "word0",
            "word1",
            "quantity",
            "user_ref",
            "original_user_ref",
            "leaves",
            "instrument",
            "account",
            "kind",
            "side",
            "tif",
            "display",
            "capacity",
            "iso",
            "cross",
            "detail",
        ],
        "formats": ["<i8"] * 6 + ["<u4"] * 4 + ["<u2"] * 2 + ["u1"] * 8,
        "offsets": [0, 8, 16, 24, 32, 40, 56, 60, 64, 68, 72, 74, 76, 77, 78, 79, 80, 81, 82, 83],
        "itemsize": 128,
    }
)
"""Two cache lines. ``kind`` is the OUCH message type; ``reference`` the order's or the match number; ``ingress_ns``
is set only in the first answer to a message of a client (that is what order-to-ack measures), else 0; ``detail`` is
the reject reason, the cancel reason, the liquidity flag, the order state or the event code. ``leaves`` is what the
order still has open: with 0 in Executed or Canceled it has ended. ``original_user_ref`` in Rejected is 0 unless a
Replace was."""

ACCEPTED: Final = ord("A")
REPLACED: Final = ord("U")
CANCELED: Final = ord("C")
EXECUTED: Final = ord("E")
REJECTED: Final = ord("J")
MODIFIED: Final = ord("M")
SYSTEM_EVENT: Final = ord("S")
QUERY_RESPONSE: Final = ord("Q")
UNTAKEN: Final = 1  # for the merge of several matching threads, not for clients: a Replace did not use its number up

# --- books --------------------------------------------------------------------------------------------------------

BUY: Final = 0
SELL: Final = 1

ORDER = np.dtype(
    [
        ("reference", "<i8"),  # the feed's, or our own from FIRST_OWN_REFERENCE on
        ("priority", "<i8"),  # place in time: lower was earlier at its price
        ("open", "<i8"),  # shares that can trade here
        ("displayed", "<i8"),  # recorded: what history says is left, never less than open; own: its row in Books.shown
        ("price", "<i4"),
        ("spent", "<i4"),  # own: shares of the chain executed or taken off by self-match prevention
        ("next", "<i4"),  # towards the back of the queue; 0 = none
        ("previous", "<i4"),
        ("level", "<i4"),  # 0 = not in a queue
        ("user_ref", "<u4"),
        ("instrument", "<u2"),
        ("account", "<u2"),  # RECORDED, or the account's number
        ("side", "u1"),  # BUY or SELL
        ("wire_side", "u1"),  # own: B S T E
        ("tif", "u1"),
        ("capacity", "u1"),  # own: as entered, echoed by Replaced
    ]
)
"""One cache line. Slot 0 is never used, so that 0 means "none" in every link."""

RECORDED: Final = 0xFFFF
"""The account of orders that came with the feed."""

FIRST_OWN_REFERENCE: Final = 1 << 62

LEVEL = np.dtype(
    {
        "names": [
            "shares",  # sum of the open shares of its orders
            "price",
            "head",
            "tail",
            "count",
            "own",  # how many of its orders are own orders
            "row",  # of its side in Books.sides
            "next",  # while it is not in use, in the same place: the next free one
        ],
        "formats": ["<i8"] + ["<i4"] * 7,
        "offsets": [0, 8, 12, 16, 20, 24, 28, 28],
        "itemsize": 32,
    }
)
"""One price of one side with its queue; two a cache line."""

SIDE = np.dtype(
    [
        ("block", "<i8"),  # where its ladder begins in the ladder arena
        ("capacity", "<i4"),
        ("count", "<i4"),  # levels
        ("own", "<i4"),  # own orders on this side
        ("best", "<i4"),  # its best price, negative for asks, if there are levels; for those who look from outside
        ("recorded", "<i4"),  # of the bids: 1 = the book has had a recorded order
        ("empty", "<i4"),  # levels without orders among them
    ]
)
"""One side of one book; row ``2 * instrument + side``. Its ladder is sorted with the best price at the end."""

BOOK = np.dtype(
    [
        ("last_price", "<i8"),  # of the last trade of any kind; 0 = none yet
        ("time_ns", "<i8"),  # market time of the last recorded message
        ("state", "u1"),  # H P Q T of the Stock Trading Action; T until told otherwise
        ("incomplete", "u1"),  # 1 = messages of its history are missing
        ("_0", "<u2"),
        ("_1", "<u4"),
        ("_2", "<i8"),
    ]
)

FILL = np.dtype(
    [
        ("reference", "<i8"),
        ("quantity", "<i4"),
        ("leaves", "<u4"),  # what the resting order still has open: a recorded one may have 2^32 - 1 shares
        ("price", "<i4"),
        ("user_ref", "<u4"),
        ("account", "<u2"),  # of the resting order
        ("side", "u1"),  # of the resting order
        ("kind", "u1"),
        ("_", "<u4"),
    ]
)
"""What a taking order met in the book, one line a resting order; half a cache line."""

FILL_TRADE: Final = 0
FILL_RESTING_REDUCED: Final = 1  # self-match prevention took shares off the resting order
FILL_BOTH_REDUCED: Final = 2  # self-match prevention took shares off both

# --- accounts -----------------------------------------------------------------------------------------------------

ACCOUNT = np.dtype(
    [
        # limits; 0 = no limit (set by the loop thread before the matching thread starts)
        ("max_order_quantity", "<i8"),
        ("max_order_notional", "<i8"),  # ticks × shares
        ("collar_bp", "<i8"),  # basis points
        ("max_open_orders", "<i8"),
        ("max_long", "<i8"),  # shares, an instrument
        ("max_short", "<i8"),
        ("max_orders_per_s", "<i8"),
        ("self_match", "<i8"),
        # state (of the matching thread)
        ("killed", "<i8"),
        ("last_user_ref", "<i8"),
        ("open_orders", "<i8"),
        ("open_shares", "<i8"),
        ("open_notional", "<i8"),
        ("rate_time_ns", "<i8"),  # when the next order would be due at the highest rate
        ("_0", "<i8"),
        ("_1", "<i8"),
    ]
)

ALLOW: Final = 0
CANCEL_NEWEST: Final = 1
CANCEL_OLDEST: Final = 2
DECREMENT: Final = 3

POSITION = np.dtype([("position", "<i8"), ("open_buy", "<i8"), ("open_sell", "<i8"), ("_", "<i8")])
"""Shares of one account in one instrument: bought less sold, and what its open orders could still add."""

# --- modes --------------------------------------------------------------------------------------------------------

MATCH: Final = 0  # live orders only
CONSUME: Final = 1  # liquidity of the recorded orders that own orders took stays taken
PASSIVE: Final = 2  # own fills leave the recorded orders untouched

MAX_QUANTITY: Final = 999_999  # OUCH 5.0: shares of one order, and of a chain of replaces
MAX_PRICE: Final = 1_999_999_900  # OUCH 5.0: the highest limit price, 199,999.9900
MARKET_PRICES: Final = (2_000_000_000, 0x7FFFFFFF, 0x7FFFFFFFFFFFFFFF, -1)
"""OUCH 5.0, Enter Order: prices that mean "at market" (the last is 2^64 - 1 as its int64 view)."""

SIZES = {COMMAND: 64, EVENT: 128, ORDER: 64, LEVEL: 32, SIDE: 32, BOOK: 32, FILL: 32, ACCOUNT: 128, POSITION: 32}
for _dtype, _size in SIZES.items():
    assert _dtype.itemsize == _size, (_dtype, _dtype.itemsize)


SMALL_PAGE: Final = 1 << 12
HUGE_PAGE: Final = 1 << 21
HUGE_FROM: Final = 1 << 19
"""Bytes from which memory is asked for in huge pages, where the system has them."""


def aligned(length: int, dtype: np.dtype[Any]) -> Array:
    """Zeros that begin on a cache line and may be read 128 bytes beyond their end; pages are touched only when used.

    Large arrays ask for huge pages and begin on one: a message of 2,000 books with 340,000 live orders takes 62 ns,
    one of 8 books with 10,000 33. Where only arrays from 4 MiB asked, and began anywhere, it took 65 and 37.
    """
    size = length * dtype.itemsize + 256
    if size < HUGE_FROM:
        raw: Array = np.zeros(size, np.uint8)
        start = -raw.ctypes.data % 128
    else:
        pages = mmap.mmap(-1, size + HUGE_PAGE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        with contextlib.suppress(OSError, AttributeError):
            pages.madvise(mmap.MADV_HUGEPAGE)
        raw = np.frombuffer(pages, np.uint8)
        start = -raw.ctypes.data % HUGE_PAGE
    return raw[start : start + length * dtype.itemsize].view(dtype)
