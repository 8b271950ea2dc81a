"""From ITCH messages to commands for the matching thread.

Each message that matters to a book becomes one COMMAND; what goes where is the table ``_SOURCES`` below, and the
offsets follow from the wire layer's tables. A message that needs the registry of instruments changed stops the call
with ``NEEDS_INSTRUMENT``; Python changes it and calls again from the same place. Every message counts exactly once: in
``messages`` by its type, in ``messages_malformed`` or in ``unknown_types``.

Malformed are a known type with a length that is not its own, a price above 2^31 - 1, an order whose side is neither
B nor S, and a stock that is new and cannot be a symbol. Such a message is skipped; the engine then counts whatever
later refers to it as unknown.

Locates come with ``R``, but one may also join in the middle of the day: the stock that A, F, P, Q and H name themselves
makes their locate known as well. A known locate decides alone; the stock beside it is not read again.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from venue.engine import records, ring, symbols, system
from venue.engine.atomics import load_be16, load_be64, prefetch_to_read
from venue.engine.kernel import kernel, verb
from venue.engine.records import NO_INSTRUMENT, Array
from venue.engine.ring import Ring
from venue.engine.symbols import IGNORED, NONE
from venue.wire import itch

# --- what a message becomes ---------------------------------------------------------------------------------------

DIRECTORY: Final = 255
"""In the table below, in the place of a command's kind: announces an instrument."""

SIZE, KIND, HAS_STOCK, WORD0, WORD1, QUANTITY, PRICE, SIDE, DETAIL, STOCK, MASKS = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 7
"""Columns. From WORD0 on a field's last eight bytes begin at the offset in its column, and ``MASKS`` columns further
stands which of their bits are the field: any field is one load and one mask, and one that a type lacks is 0."""

_FIELDS: Final = ("word0", "word1", "quantity", "price", "side", "detail", "stock")

_SOURCES: Final[dict[type[itch.ItchMessage], tuple[int, dict[str, str]]]] = {
    itch.SystemEvent: (records.FEED_EVENT, {"detail": "event_code"}),
    itch.StockDirectory: (DIRECTORY, {"stock": "stock"}),
    itch.StockTradingAction: (records.TRADING_STATE, {"detail": "trading_state", "stock": "stock"}),
    itch.AddOrder: (
        records.ADD,
        {
            "word0": "order_reference_number",
            "side": "buy_sell_indicator",
            "quantity": "shares",
            "price": "price",
            "stock": "stock",
        },
    ),
    itch.OrderExecuted: (
        records.EXECUTE,
        {"word0": "order_reference_number", "word1": "match_number", "quantity": "executed_shares"},
    ),
    itch.OrderExecutedWithPrice: (
        records.EXECUTE_AT_PRICE,
        {
            "word0": "order_reference_number",
            "word1": "match_number",
            "quantity": "executed_shares",
            "price": "execution_price",
        },
    ),
    itch.OrderCancel: (records.REDUCE, {"word0": "order_reference_number", "quantity": "cancelled_shares"}),
    itch.OrderDelete: (records.DELETE, {"word0": "order_reference_number"}),
    itch.OrderReplace: (
        records.REPLACE_RECORDED,
        {
            "word0": "original_order_reference_number",
            "word1": "new_order_reference_number",
            "quantity": "shares",
            "price": "price",
        },
    ),
    itch.Trade: (
        records.TRADE,
        {
            "word0": "order_reference_number",
            "word1": "match_number",
            "side": "buy_sell_indicator",
            "quantity": "shares",
            "price": "price",
            "stock": "stock",
        },
    ),
    itch.CrossTrade: (
        records.CROSS,
        {"word1": "match_number", "quantity": "shares", "price": "cross_price", "stock": "stock"},
    ),
}
_SOURCES[itch.AddOrderMpid] = _SOURCES[itch.AddOrder]


def _table() -> Array:
    table = np.zeros((256, WORD0 + 2 * MASKS), np.int64)
    table[:, SIZE] = itch.SIZES
    for message, (kind, sources) in _SOURCES.items():
        row = table[message.layout.code[0]]
        row[KIND] = kind
        row[HAS_STOCK] = "stock" in sources
        for column, name in enumerate(_FIELDS, WORD0):
            if name in sources:
                field = next(field for field in message.layout.fields if field.name == sources[name])
                row[column] = field.offset + field.size - 8
                row[column + MASKS] = -1 if field.size == 8 else (1 << 8 * field.size) - 1
    return table


TABLE: Final = _table()
LOCATE: Final = itch.AddOrder.layout.offset("stock_locate")
TIMESTAMP_END: Final = itch.AddOrder.layout.offset("timestamp") + 6
TIMESTAMP_MASK: Final = (1 << 48) - 1
MAX_TICKS: Final = (1 << 31) - 1
"""The engine keeps prices in 32 bits; the highest price of ITCH, 200,000.0000, is below."""
MAX_SHARES: Final = (1 << 32) - 1
SIDE_BUY: Final = ord("B")
SIDE_SELL: Final = ord("S")

assert min(size for size in itch.SIZES if size) >= 8, "an eight-byte load at offset 0 stays inside any message"
assert (TABLE[:, WORD0:STOCK] >= 0).all()

# --- the call -----------------------------------------------------------------------------------------------------

DONE: Final = 0
"""All that was given has been dealt with."""
RING_FULL: Final = 1
"""The command ring has no room for the feed; go on later."""
NEEDS_INSTRUMENT: Final = 2
"""The message at ``POSITION`` is of an instrument or a locate that the registry has to learn (or ignore) first."""
CUT_SHORT: Final = 3
"""The block at ``POSITION`` does not end inside the region."""
UNUSUAL: Final = 4
"""The packet at ``INDEX`` is not simply the next one; the Receiver has to see it."""

INPUT_AHEAD: Final = 1024
"""Bytes from a message to those that are asked for meanwhile. The core's own guesses do not reach so far: from bytes in
memory to books a message takes 62 instead of 68 ns in 2,000 books with 340,000 live orders, 33 instead of 38 in 8 with
10,000; 2,048 is no better."""

POSITION: Final = 0
"""Progress: where the first block begins that has not been dealt with."""
MESSAGES: Final = 1
"""Progress: how many messages this call has dealt with."""
INDEX: Final = 2
"""Progress, in and out: the first datagram that has not been dealt with."""
EXPECTED: Final = 3
"""Progress, in and out: the sequence number of the next message."""
TAKEN: Final = 4
"""Progress, in and out: how many messages of the datagram at ``INDEX`` were dealt with before."""
PROGRESS_WORDS: Final = 5

NO_SYMBOL: Final = -3
"""In the place of an instrument: the message names a stock that is new and no symbol."""


class Decoder(NamedTuple):
    """What the decoder works on. All of it belongs to the loop thread, but for the ring's other end."""

    commands: Ring
    limit: int  # how many commands may wait on the ring before the feed stops; the rest is for orders
    wake: int  # descriptor to write to when the matching thread sleeps
    counters: Array  # the page's feed section, shape (1,)
    locates: Array  # int32[65536]
    symbols: Array  # table of venue.engine.symbols
    progress: Array  # int64[PROGRESS_WORDS]
    scratch: Array  # int64[2] for system calls


@verb
def _instrument(decoder: Decoder, data: Array, at: int, kind: int, row: Array) -> int:
    """The instrument of a message; ``NO_INSTRUMENT``, ``NONE`` if it has to be learned, ``IGNORED`` or ``NO_SYMBOL``.

    Messages that name only an order need no locate: the engine knows the order. Locate 0 is no stock; the symbol
    decides then.
    """
    locate = load_be16(data, at + LOCATE)
    mapped = int(decoder.locates[locate])
    if kind != DIRECTORY:
        if mapped >= 0:
            return mapped
        if mapped == IGNORED and locate != 0:
            return IGNORED
        if row[HAS_STOCK] == 0:
            return NO_INSTRUMENT
    key = load_be64(data, at + int(row[STOCK]))
    named = symbols.find(decoder.symbols, key)
    if named == NO_INSTRUMENT:
        if mapped == IGNORED:
            return IGNORED
        return NONE if symbols.is_key(key) else NO_SYMBOL
    return named if locate == 0 or mapped == named else NONE


@verb
def _field(data: Array, at: int, row: Array, column: int) -> int:
    return load_be64(data, at + int(row[column])) & int(row[column + MASKS])


@verb
def _clear(command: Any, kind: int, time_ns: int, ingress_ns: int) -> None:
    """Begin a command, since the record was another one before; what is not mentioned here the caller sets."""
    command["kind"] = kind
    command["time_ns"] = time_ns
    command["ingress_ns"] = ingress_ns
    command["user_ref"] = 0
    command["extra"] = 0
    command["account"] = records.RECORDED
    command["tif"] = 0
    command["display"] = 0
    command["capacity"] = 0
    command["iso"] = 0
    command["cross"] = 0


@verb
def _fill(command: Any, data: Array, at: int, row: Array, instrument: int, ingress_ns: int) -> bool:
    """Write the command of one message; False if a value is out of range."""
    kind = int(row[KIND])
    price = _field(data, at, row, PRICE)
    side = _field(data, at, row, SIDE)
    wrong_side = (kind == records.ADD) & (side != SIDE_BUY) & (side != SIDE_SELL)  # no branch on what comes at random
    if (price > MAX_TICKS) | wrong_side:
        return False
    shares = _field(data, at, row, QUANTITY)
    if shares < 0 or shares > MAX_SHARES:  # only a cross counts its shares in 64 bits, and only its price moves a book
        shares = MAX_SHARES
    _clear(command, kind, load_be64(data, at + TIMESTAMP_END - 8) & TIMESTAMP_MASK, ingress_ns)
    command["price"] = price
    command["word0"] = _field(data, at, row, WORD0)
    command["word1"] = _field(data, at, row, WORD1)
    command["quantity"] = shares
    command["instrument"] = instrument
    command["side"] = side
    command["detail"] = _field(data, at, row, DETAIL)
    return True


@verb
def _room(decoder: Decoder, wanted: int) -> int:
    """How many commands the feed may write; looks at how far the reader is only if fewer than ``wanted``."""
    reserved = len(decoder.commands.records) - decoder.limit
    return max(ring.free(decoder.commands, wanted + reserved) - reserved, 0)


@verb
def publish(decoder: Decoder, count: int) -> None:
    """Hand over the commands written, and wake the matching thread if it sleeps."""
    if count == 0:
        return
    ring.publish(decoder.commands, count, system.now_ns(decoder.scratch))
    if ring.must_wake(decoder.commands):
        system.wake(decoder.wake, decoder.scratch)


@kernel
def put(decoder: Decoder, kind: int, time_ns: int) -> bool:
    """Publish a command of the feed itself (``FEED_LOSS``, ``FEED_RESET``); False if the ring is full."""
    if ring.free(decoder.commands, 1) == 0:
        return False
    command = decoder.commands.records[ring.write_position(decoder.commands, 0)]
    _clear(command, kind, time_ns, 0)
    command["price"] = 0
    command["word0"] = 0
    command["word1"] = 0
    command["quantity"] = 0
    command["instrument"] = NO_INSTRUMENT
    command["side"] = 0
    command["detail"] = 0
    publish(decoder, 1)
    return True


@kernel
def decode_blocks(decoder: Decoder, data: Array, start: int, end: int, ingress_ns: int) -> int:
    """Turn the message blocks in ``data[start:end]`` (uint8) into commands, published when the call ends.

    Returns ``DONE``, ``RING_FULL``, ``NEEDS_INSTRUMENT`` or ``CUT_SHORT``; ``progress[POSITION]`` is where to go on and
    ``progress[MESSAGES]`` how many messages were dealt with. ``ingress_ns``: monotonic clock when the bytes were read.
    """
    counters = decoder.counters
    room = _room(decoder, 1)
    position, messages, written = start, 0, 0
    code = DONE
    while position < end:
        at = position + 2
        size = load_be16(data, position) if at <= end else end
        prefetch_to_read(data, position + INPUT_AHEAD)
        if at + size > end:
            code = CUT_SHORT
            break
        kind_byte = int(data[at]) if size > 0 else 0
        row = TABLE[kind_byte]
        kind = int(row[KIND])
        if size == 0 or row[SIZE] == 0:
            counters[0]["unknown_types"] += 1
        elif size != row[SIZE]:
            counters[0]["messages_malformed"] += 1
        elif kind == 0:
            counters[0]["messages"][kind_byte] += 1
        else:
            instrument = _instrument(decoder, data, at, kind, row)
            if instrument == NONE:
                code = NEEDS_INSTRUMENT
                break
            good = instrument != NO_SYMBOL
            if good and kind != DIRECTORY and instrument != IGNORED:
                if written == room:
                    room = _room(decoder, written + 1)
                    if written == room:
                        code = RING_FULL
                        break
                place = ring.write_position(decoder.commands, written)
                good = _fill(decoder.commands.records[place], data, at, row, instrument, ingress_ns)
                written += good
            if good:
                counters[0]["messages"][kind_byte] += 1
            else:
                counters[0]["messages_malformed"] += 1
        position = at + size
        messages += 1
    publish(decoder, written)
    decoder.progress[POSITION] = position
    decoder.progress[MESSAGES] = messages
    return code
