"""A made-up ITCH flow for `venue bench book`: as many messages, symbols and live orders as wished, the same every time.

The mix is that of all of Nasdaq on 2019-12-30: A 43.6 %, D 42.6 %, U 8.1 %, E 2.1 %, X 1.0 %, F 0.6 %, P 0.5 %,
C 0.04 % (types that name no order are left out). It begins with adds until enough orders are live. Stocks differ in
activity as 1/rank. New orders are placed within 60 cents of a price that walks at random, most of them within a few
cents, and never cross. Executions hit the oldest order at the best price. Deleted, replaced or reduced is any live
order: harder on the memory than a real day, on which most orders that go are young.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from venue.engine import books
from venue.engine.atomics import store_be16, store_be32, store_be64
from venue.engine.books import Books, best_level, free_order, join, leave, new_order, reduce
from venue.engine.kernel import kernel, verb
from venue.engine.records import ACCOUNT, BUY, CONSUME, RECORDED, Array, aligned
from venue.engine.symbols import key_of
from venue.wire import itch

A, F = itch.AddOrder.layout, itch.AddOrderMpid.layout
E, C = itch.OrderExecuted.layout, itch.OrderExecutedWithPrice.layout
X, D, U, P = itch.OrderCancel.layout, itch.OrderDelete.layout, itch.OrderReplace.layout, itch.Trade.layout
A_SIZE, F_SIZE, E_SIZE, C_SIZE, X_SIZE, D_SIZE, U_SIZE, P_SIZE = (int(of.size) for of in (A, F, E, C, X, D, U, P))
LARGEST: Final = 2 + max(A_SIZE, F_SIZE, E_SIZE, C_SIZE, X_SIZE, D_SIZE, U_SIZE, P_SIZE)
"""The most bytes of one record: its length and the message."""

LOCATE: Final = A.offset("stock_locate")  # the same in every message that names an order
TIMESTAMP: Final = A.offset("timestamp")
REFERENCE: Final = A.offset("order_reference_number")
ADD_SIDE: Final = A.offset("buy_sell_indicator")
ADD_SHARES: Final = A.offset("shares")
ADD_STOCK: Final = A.offset("stock")
ADD_PRICE: Final = A.offset("price")
ADD_ATTRIBUTION: Final = F.offset("attribution")
EXECUTED_SHARES: Final = E.offset("executed_shares")
EXECUTED_MATCH: Final = E.offset("match_number")
EXECUTED_PRINTABLE: Final = C.offset("printable")
EXECUTED_PRICE: Final = C.offset("execution_price")
CANCELED_SHARES: Final = X.offset("cancelled_shares")
NEW_REFERENCE: Final = U.offset("new_order_reference_number")
NEW_SHARES: Final = U.offset("shares")
NEW_PRICE: Final = U.offset("price")
TRADE_MATCH: Final = P.offset("match_number")

MIX_ADD_OR_DELETE: Final = 868  # of 985 steps: up to which each kind goes
MIX_REPLACE: Final = 949
MIX_EXECUTE: Final = 970
MIX_REDUCE: Final = 980
MIX_ALL: Final = 985
SLACK: Final = 8
"""One part in so many more or fewer orders than wished, and only adds or only deletes happen."""
LOT: Final = 100
TICKS_A_CENT: Final = 100
NEAR_CENTS: Final = 60
LOWEST_CENTS: Final = 200
ACTIVITY: Final = 1 << 16
OPEN_NS: Final = 34_200_000_000_000
STEP_NS: Final = 2_000

# words of Flow.numbers
RANDOM: Final = 0
LAST_REFERENCE: Final = 1
LAST_MATCH: Final = 2
STEPS: Final = 3
LIVE: Final = 4


class Flow(NamedTuple):
    """A flow that is being made: the books behind it, and what it draws from."""

    b: Books
    live: Array  # int64 [live + 2]: slots of the live orders; an order knows its place here by its field user_ref
    activity: Array  # int32 [ACTIVITY] instruments, each as often as its share of the messages
    cents: Array  # int64 [symbols]: the price that each stock's orders are placed around
    stocks: Array  # int64 [symbols]: their names as they stand on the wire
    numbers: Array  # int64 [8]


def create(symbols: int, live: int, seed: int) -> Flow:
    """A flow that has not begun, over stocks numbered from 0, whose Stock Locates are one higher."""
    b = books.create(
        instruments=symbols,
        accounts=aligned(1, ACCOUNT),
        orders=live + live // SLACK + 64,
        levels=max(live // 2, 4096) + 128 * symbols,
        user_refs=1,
        mode=CONSUME,
    )
    weights = 1.0 / (np.arange(symbols) + 2)
    borders = (np.cumsum(weights) / weights.sum() * ACTIVITY).astype(np.int64)
    activity = np.searchsorted(borders, np.arange(ACTIVITY), side="right").clip(max=symbols - 1).astype(np.int32)
    activity[:symbols] = np.arange(symbols)  # everyone gets some
    cents = 1_000 + np.random.default_rng(seed).integers(0, 30_000, symbols)
    stocks = np.array([key_of(name) for name in names(symbols)], np.int64)
    numbers = np.zeros(8, np.int64)
    numbers[RANDOM] = seed
    return Flow(b, np.zeros(live + live // SLACK + 64, np.int64), activity, cents, stocks, numbers)


def names(symbols: int) -> list[str]:
    """The symbols of the stocks, by number."""
    return [f"S{number:06}" for number in range(symbols)]


# --- chance -------------------------------------------------------------------------------------------------------


@verb
def draw(f: Flow, below: int) -> int:
    """A number from 0 to ``below`` - 1 (up to 2^31), from a linear congruence of 48 bits."""
    state = (int(f.numbers[RANDOM]) * 0x5DEECE66D + 11) & 0xFFFFFFFFFFFF
    f.numbers[RANDOM] = state
    return int((state >> 17) * below >> 31)


@verb
def walk(f: Flow, instrument: int) -> None:
    """Sometimes move a stock's price by a cent, but never away from the touch before that has followed."""
    chance = draw(f, 50)
    if chance > 1:
        return
    cents = int(f.cents[instrument]) + 2 * chance - 1
    bids, asks = f.b.sides[2 * instrument], f.b.sides[2 * instrument + 1]
    bid = int(bids["best"]) // TICKS_A_CENT if int(bids["count"]) > 0 else 0
    ask = -int(asks["best"]) // TICKS_A_CENT if int(asks["count"]) > 0 else cents
    if LOWEST_CENTS <= cents <= ask + 1 and cents >= bid:
        f.cents[instrument] = cents


@verb
def price_for(f: Flow, instrument: int, side: int) -> int:
    """Where to place a new order, in ticks: near the stock's price, and not where it would trade."""
    u = draw(f, 1024)
    away = (u * u * u * NEAR_CENTS) >> 30
    other = f.b.sides[2 * instrument + 1 - side]
    there = int(other["count"]) > 0
    cents = int(f.cents[instrument])
    if side == BUY:
        price = (cents - 1 - away) * TICKS_A_CENT
        return min(price, -int(other["best"]) - TICKS_A_CENT) if there else price
    price = (cents + away) * TICKS_A_CENT
    return max(price, int(other["best"]) + TICKS_A_CENT) if there else price


@verb
def any_instrument(f: Flow) -> int:
    """A stock, the active ones more often."""
    return int(f.activity[draw(f, ACTIVITY)])


# --- messages -----------------------------------------------------------------------------------------------------


@verb
def begin(f: Flow, data: Array, at: int, size: int, code: int, instrument: int, reference: int) -> int:
    """Write the length and what all messages begin with; gives back where the message stands."""
    store_be16(data, at, size)
    time_ns = OPEN_NS + STEP_NS * int(f.numbers[STEPS])
    data[at + 2] = code
    store_be16(data, at + 2 + LOCATE, instrument + 1)
    store_be16(data, at + 2 + LOCATE + 2, 0)
    store_be16(data, at + 2 + TIMESTAMP, time_ns >> 32)
    store_be32(data, at + 2 + TIMESTAMP + 2, time_ns)
    store_be64(data, at + 2 + REFERENCE, reference)
    return at + 2


@verb
def stand(f: Flow, instrument: int, side: int, price: int, shares: int) -> int:
    """Let a new order stand in the book; gives back its reference."""
    slot = new_order(f.b)
    order = f.b.orders[slot]
    f.numbers[LAST_REFERENCE] += 1
    order["reference"] = f.numbers[LAST_REFERENCE]
    order["open"] = shares
    order["price"] = price
    order["instrument"] = instrument
    order["account"] = RECORDED
    order["side"] = side
    order["user_ref"] = f.numbers[LIVE]
    join(f.b, slot)
    f.live[f.numbers[LIVE]] = slot
    f.numbers[LIVE] += 1
    return int(order["reference"])


@verb
def fall(f: Flow, slot: int) -> None:
    """Take a live order out of the book; the last of the live ones takes its place in the list."""
    place = int(f.b.orders[slot]["user_ref"])
    f.numbers[LIVE] -= 1
    last = int(f.live[f.numbers[LIVE]])
    f.live[place] = last
    f.b.orders[last]["user_ref"] = place
    leave(f.b, slot)
    free_order(f.b, slot)


@verb
def add(f: Flow, data: Array, at: int) -> int:
    """A or, seldom, F."""
    instrument = any_instrument(f)
    walk(f, instrument)
    side = draw(f, 2)
    price = price_for(f, instrument, side)
    shares = LOT * (1 + draw(f, 9))
    reference = stand(f, instrument, side, price, shares)
    attributed = draw(f, 1000) < 14
    size = F_SIZE if attributed else A_SIZE
    here = begin(f, data, at, size, ord("F") if attributed else ord("A"), instrument, reference)
    data[here + ADD_SIDE] = ord("B") if side == BUY else ord("S")
    store_be32(data, here + ADD_SHARES, shares)
    store_be64(data, here + ADD_STOCK, int(f.stocks[instrument]))
    store_be32(data, here + ADD_PRICE, price)
    if attributed:
        store_be32(data, here + ADD_ATTRIBUTION, 0x564E5541)  # VNUA
    return here + size


@verb
def delete(f: Flow, data: Array, at: int, slot: int) -> int:
    """D."""
    order = f.b.orders[slot]
    here = begin(f, data, at, D_SIZE, ord("D"), int(order["instrument"]), int(order["reference"]))
    fall(f, slot)
    return here + D_SIZE


@verb
def replace(f: Flow, data: Array, at: int, slot: int) -> int:
    """U: another price, sometimes another size."""
    order = f.b.orders[slot]
    instrument, side, reference = int(order["instrument"]), int(order["side"]), int(order["reference"])
    fall(f, slot)
    price = price_for(f, instrument, side)
    shares = LOT * (1 + draw(f, 9))
    here = begin(f, data, at, U_SIZE, ord("U"), instrument, reference)
    store_be64(data, here + NEW_REFERENCE, stand(f, instrument, side, price, shares))
    store_be32(data, here + NEW_SHARES, shares)
    store_be32(data, here + NEW_PRICE, price)
    return here + U_SIZE


@verb
def execute(f: Flow, data: Array, at: int) -> int:
    """E or, seldom, C: the oldest order at the best price of some stock. Nothing if that side is empty."""
    instrument = any_instrument(f)
    level = best_level(f.b, f.b.sides[2 * instrument + draw(f, 2)])
    if level == 0:
        return at
    slot = int(f.b.levels[level]["head"])
    order = f.b.orders[slot]
    whole = draw(f, 100) < 76 or int(order["open"]) <= LOT
    shares = int(order["open"]) if whole else LOT
    priced = draw(f, 100) < 2
    size = C_SIZE if priced else E_SIZE
    here = begin(f, data, at, size, ord("C") if priced else ord("E"), instrument, int(order["reference"]))
    f.numbers[LAST_MATCH] += 1
    store_be32(data, here + EXECUTED_SHARES, shares)
    store_be64(data, here + EXECUTED_MATCH, f.numbers[LAST_MATCH])
    if priced:
        data[here + EXECUTED_PRINTABLE] = ord("Y")
        store_be32(data, here + EXECUTED_PRICE, int(order["price"]))
    if whole:
        fall(f, slot)
    else:
        reduce(f.b, slot, shares)
    return here + size


@verb
def cancel_part(f: Flow, data: Array, at: int, slot: int) -> int:
    """X: a lot off an order that has more; nothing if it has not."""
    order = f.b.orders[slot]
    if int(order["open"]) <= LOT:
        return at
    here = begin(f, data, at, X_SIZE, ord("X"), int(order["instrument"]), int(order["reference"]))
    store_be32(data, here + CANCELED_SHARES, LOT)
    reduce(f.b, slot, LOT)
    return here + X_SIZE


@verb
def hidden_trade(f: Flow, data: Array, at: int) -> int:
    """P: a trade of an order that nobody saw."""
    instrument = any_instrument(f)
    here = begin(f, data, at, P_SIZE, ord("P"), instrument, 0)
    f.numbers[LAST_MATCH] += 1
    data[here + ADD_SIDE] = ord("B")
    store_be32(data, here + ADD_SHARES, LOT)
    store_be64(data, here + ADD_STOCK, int(f.stocks[instrument]))
    store_be32(data, here + ADD_PRICE, int(f.cents[instrument]) * TICKS_A_CENT)
    store_be64(data, here + TRADE_MATCH, f.numbers[LAST_MATCH])
    return here + P_SIZE


@verb
def wants_order(f: Flow, live: int) -> bool:
    """Whether the next step adds rather than deletes: by chance, the more surely the further ``live`` is away."""
    missing = live - int(f.numbers[LIVE])
    return draw(f, 1000) < 500 + missing * SLACK * 500 // live


@kernel
def make(f: Flow, data: Array, at: int, messages: int, live: int) -> int:
    """Write ``messages`` more records of a BinaryFILE into ``data`` (uint8, ``LARGEST`` bytes each at most) from
    ``at`` on, about ``live`` orders being live once there are as many; gives back where they end."""
    written = 0
    while written < messages:
        f.numbers[STEPS] += 1
        step = draw(f, MIX_ALL)
        chosen = int(f.live[draw(f, max(int(f.numbers[LIVE]), 1))])
        if int(f.numbers[LIVE]) < 2 or (step < MIX_ADD_OR_DELETE and wants_order(f, live)):
            end = add(f, data, at)
        elif step < MIX_ADD_OR_DELETE:
            end = delete(f, data, at, chosen)
        elif step < MIX_REPLACE:
            end = replace(f, data, at, chosen)
        elif step < MIX_EXECUTE:
            end = execute(f, data, at)
        elif step < MIX_REDUCE:
            end = cancel_part(f, data, at, chosen)
        else:
            end = hidden_trade(f, data, at)
        written += end > at
        at = end
    return at
