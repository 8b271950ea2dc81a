"""All books of the exchange as arrays, and the verbs that keep one book's levels and queues.

Each side of a book is a ladder: an ascending array of words ``key << 32 | level`` with the best price at its end
(the key is the price for bids and the negative price for asks), so that what trades most moves least. Each level has
a queue of its orders, oldest first. The orders in a queue are those with open shares; a recorded order whose shares
own orders have taken is still known by its reference, but stands in no queue.

A level that its last order has left stays in its ladder, empty, since the next order at its price is seldom far:
whoever walks a ladder meets such levels. The best level of a side is never empty.

Only the matching thread touches these arrays while it runs.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from venue.engine import index, live_records
from venue.engine.allocators import free_list, pool
from venue.engine.atomics import LANES, above, choose, move, outlined, store_release_first
from venue.engine.counters import MATCHER
from venue.engine.kernel import part, verb
from venue.engine.live_records import Live
from venue.engine.records import BUY, FILL, LEVEL, ORDER, POSITION, RECORDED, Array, aligned

# words of Books.state
PRIORITY: Final = 0  # the next order's place in time
REFERENCES: Final = 1  # own orders accepted so far
MATCHES: Final = 2  # trades so far
MODE: Final = 3
HISTORY_LOST: Final = 4  # 1: messages of this feed session were lost, or it was joined late
EMPTY_LEVELS: Final = 5  # levels without orders that stand in ladders
ORDER_POOL: Final = 8
LEVEL_POOL: Final = 16
SHOWN_POOL: Final = 20
LADDERS: Final = 24
STATE_WORDS: Final = LADDERS + free_list.STATE_WORDS

SMALLEST_LADDER: Final = 16  # levels
NEAR: Final = 128
"""Levels of a book that are found without a search, most of those that stand within so many ticks or cents.

A message of 2,000 books with 340,000 live orders takes 62 ns instead of 71, one of 8 books with 10,000 33 instead of
40: the ladder is not read, unless a level comes or goes.
"""
MOST_EMPTY: Final = 64
"""Empty levels in a ladder, at most, so that they never make walking it long."""
SCARCE_QUARTERS: Final = 3
"""Quarters of all levels in use from which on no other one is kept empty: so all are in use again only after many
orders, and empty ones are seldom looked for everywhere."""
SPARE_LEVELS: Final = 4
"""How far below the place of a ladder without gaps the look at it begins, so that the place is not at its very edge."""


class Books(NamedTuple):
    """Everything that matching reads and writes."""

    orders: Array  # [order_capacity + 1] ORDER
    levels: Array  # [level_capacity + 1] LEVEL; no side has level 0
    near: Array  # [instruments * NEAR] int32: the level that was last used at a price
    sides: Array  # [2 * instruments] SIDE, seen from outside
    books: Array  # [instruments] BOOK, seen from outside
    ladders: Array  # int64 words of all ladders
    references: Array  # index of the recorded orders by reference
    user_refs: Array  # [accounts * 2^k] int32: slot of the account's live order whose UserRefNum has these low bits
    accounts: Array  # [accounts] ACCOUNT, in the counters page
    positions: Array  # [accounts * instruments] POSITION
    fills: Array  # [order_capacity + 1] FILL: what the order at hand met, one line a resting order
    state: Array  # [STATE_WORDS] int64
    counters: Array  # [1] MATCHER, in the counters page
    tape: Array  # [2^k] TAPE: the last trades, seen from outside
    shown: Array  # [n + 1] SHOWN_ORDER: copies of own orders, seen from outside


def create(
    *,
    instruments: int,
    accounts: Array,
    orders: int,
    levels: int,
    user_refs: int,
    mode: int,
    counters: Array | None = None,
    live: Live | None = None,
) -> Books:
    """Empty books for the ``accounts`` (ACCOUNT records with their limits set).

    ``orders`` and ``levels`` are capacities; ``user_refs`` (a power of two) is how far apart the UserRefNums of an
    account's live orders may be. ``live`` are zeroed arrays that others look at, for as many instruments.
    """
    if user_refs & (user_refs - 1):
        raise ValueError(f"user_refs must be a power of two, not {user_refs}")
    state = aligned(STATE_WORDS, np.dtype("<i8"))
    state[MODE] = mode
    state[PRIORITY] = 1
    pool.reset(state, ORDER_POOL)
    pool.reset(state, LEVEL_POOL)
    pool.reset(state, SHOWN_POOL)
    free_list.reset(state, LADDERS)
    live = live or live_records.create_private(instruments)
    live.books["state"] = ord("T")
    made = Books(
        orders=aligned(orders + 1, ORDER),
        levels=aligned(levels + 1, LEVEL),
        near=aligned(instruments * NEAR, np.dtype("<i4")),
        sides=live.sides,
        books=live.books,
        # with the blocks that it has grown out of, a ladder takes four words at most for each level that it may have
        ladders=aligned(free_list.FIRST + 4 * (levels + 2 * MOST_EMPTY * instruments), np.dtype("<i8")),
        references=index.create(orders),
        user_refs=aligned(len(accounts) * user_refs, np.dtype("<i4")),
        accounts=accounts,
        positions=aligned(len(accounts) * instruments, POSITION),
        fills=aligned(orders + 1, FILL),
        state=state,
        counters=aligned(1, MATCHER) if counters is None else counters,
        tape=live.tape,
        shown=live.shown,
    )
    made.levels[0]["row"] = -1
    made.counters["order_capacity"] = orders
    made.counters["level_capacity"] = levels
    return made


# --- ladders ------------------------------------------------------------------------------------------------------


@verb
def ladder_key(side: int, price: int) -> int:
    """What a side's ladder is sorted by, ascending: the best price has the highest key."""
    return price if side == BUY else -price


@verb
def ladder_bound(key: int) -> int:
    """The highest word that a level at ``key`` could have: words above it are levels at better prices."""
    return (key << 32) | 0xFFFFFFFF


@verb
def ladder_window(row: Array, key: int) -> int:
    """Where in a side's ladder two cache lines begin, ``LANES`` levels, among which ``key`` most likely belongs.

    Levels are a cent apart or more, so that above a key there are at most as many as there are cents to the best price.
    """
    cents = max(((int(row["best"]) - key) * 41) >> 12, 0)  # by 99.9
    return max(int(row["count"]) - cents - SPARE_LEVELS, 0) & -8


@verb
def halve(words: Array, low: int, high: int, bound: int) -> int:
    """The first of the ascending ``words[low:high]`` above ``bound``, or ``high``."""
    while low < high:
        middle = (low + high) >> 1
        if words[middle] <= bound:
            low = middle + 1
        else:
            high = middle
    return low


@verb
def ladder_position(b: Books, row: Array, key: int) -> int:
    """How many levels of the side are at ``key`` or worse: the level at ``key``, if any, is the one before.

    One look at sixteen levels almost always decides; where it does not (gaps, prices below a dollar), halving does.
    Together with queues that are linked without branches, the benchmark's workload went from 24 to 28 M messages/s.
    """
    words = b.ladders
    block = int(row["block"])
    count = int(row["count"])
    bound = ladder_bound(key)
    start = ladder_window(row, key)
    lanes = min(count - start, LANES)
    better = above(words, block + start, lanes, bound)
    end = start + lanes
    if better == 0 and end < count:
        return halve(words, block + end, block + count, bound) - block
    if better == lanes and start > 0:
        return halve(words, block, block + start, bound) - block
    return end - better


@verb
def best_level(b: Books, row: Array) -> int:
    """The level at the best price of a side, 0 if the side is empty."""
    count = int(row["count"])
    if count == 0:
        return 0
    return int(b.ladders[int(row["block"]) + count - 1] & 0xFFFFFFFF)


@part
def grow_ladder(b: Books, row: Array) -> bool:
    """Move a full ladder into a block twice its size. False if there is no room."""
    outlined()
    count = int(row["count"])
    capacity = max(2 * count, SMALLEST_LADDER)
    block = free_list.allocate(b.ladders, b.state, LADDERS, capacity)
    if block == 0:
        return False
    old = int(row["block"])
    move(b.ladders, block, old, count)
    if count > 0:
        free_list.deallocate(b.ladders, b.state, LADDERS, old, count)
    row["block"] = block
    row["capacity"] = capacity
    return True


@verb
def add_level(b: Books, number: int, position: int, key: int, price: int) -> int:
    """Put a new, empty level into the ladder of a side at ``position``; there is room for it."""
    row = b.sides[number]
    level = pool.allocate(b.levels, b.state, LEVEL_POOL, 1)
    words = b.ladders
    block = int(row["block"])
    count = int(row["count"])
    move(words, block + position + 1, block + position, count - position)
    words[block + position] = (key << 32) | level
    row["count"] = count + 1
    row["best"] = words[block + count] >> 32
    new = b.levels[level]
    new["shares"] = 0
    new["price"] = price
    new["head"] = 0
    new["tail"] = 0
    new["count"] = 0
    new["own"] = 0
    new["row"] = number
    count_empty(b, row, 1)
    return level


@verb
def near_place(instrument: int, price: int) -> int:
    """Where the level at ``price`` is remembered: neighbours by a tick or a cent have different places, and of those
    within ``NEAR`` ticks or cents hardly any two share one."""
    return instrument * NEAR + (((price * 4137) >> 12) & (NEAR - 1))  # price + price / 99.9


@part
def seek_level(b: Books, number: int, side: int, price: int) -> int:
    """The level of a side at ``price``, found in its ladder or new there, and remembered. 0 if there is no room."""
    outlined()
    row = b.sides[number]
    key = ladder_key(side, price)
    position = ladder_position(b, row, key)
    level = 0
    if position > 0:
        word = int(b.ladders[int(row["block"]) + position - 1])
        if word >> 32 == key:
            level = word & 0xFFFFFFFF
    if level == 0:
        if int(row["count"]) == int(row["capacity"]) or all_levels_in_use(b):
            if not make_room(b, row):
                return 0
            position = ladder_position(b, row, key)
        level = add_level(b, number, position, key, price)
    b.near[near_place(number >> 1, price)] = level
    return level


@verb
def level_at(b: Books, number: int, side: int, price: int) -> int:
    """The level of a side at ``price``, a new one if there is none. 0 if there is no room for it."""
    level = int(b.near[near_place(number >> 1, price)])
    near = b.levels[level]
    if int(near["price"]) == price and int(near["row"]) == number:
        return level
    return seek_level(b, number, side, price)


# --- empty levels -------------------------------------------------------------------------------------------------


@verb
def all_levels_in_use(b: Books) -> bool:
    """Whether none is left in the pool; some of them may be empty."""
    return pool.in_use(b.state, LEVEL_POOL) == len(b.levels) - 1


@verb
def count_empty(b: Books, row: Array, change: int) -> None:
    """Note that a side has more or fewer empty levels."""
    row["empty"] += change
    b.state[EMPTY_LEVELS] += change


@verb
def free_level(b: Books, row: Array, level: int) -> None:
    """Give back an empty level that its ladder is about to lose. By its price ``level_at`` sees that it has gone."""
    b.levels[level]["price"] = -1
    pool.deallocate(b.levels, b.state, LEVEL_POOL, level, 1)
    count_empty(b, row, -1)


@part
def drop_level(b: Books, row: Array, key: int) -> None:
    """Take the empty level at ``key`` out of its ladder, and those that would be the best now and are empty, too."""
    outlined()
    words = b.ladders
    block = int(row["block"])
    count = int(row["count"]) - 1
    position = count if key == int(row["best"]) else ladder_position(b, row, key) - 1
    free_level(b, row, int(words[block + position] & 0xFFFFFFFF))
    move(words, block + position, block + position + 1, count - position)
    while count > 0 and int(b.levels[int(words[block + count - 1] & 0xFFFFFFFF)]["count"]) == 0:
        count -= 1
        free_level(b, row, int(words[block + count] & 0xFFFFFFFF))
    row["count"] = count
    if count > 0:
        row["best"] = words[block + count - 1] >> 32


@part
def pack_ladder(b: Books, row: Array) -> None:
    """Take all empty levels out of a ladder."""
    outlined()
    words = b.ladders
    block = int(row["block"])
    kept = 0
    for position in range(int(row["count"])):
        word = int(words[block + position])
        if int(b.levels[word & 0xFFFFFFFF]["count"]) > 0:
            words[block + kept] = word
            kept += 1
        else:
            free_level(b, row, word & 0xFFFFFFFF)
    row["count"] = kept


@verb
def note_empty(b: Books, row: Array, key: int) -> None:
    """The last order has left the level at ``key``. It stays where it is, unless it was the best, or levels are scarce,
    or there are too many empty ones. Positions in the ladder may change.

    A message of 2,000 books with 340,000 live orders took 60 ns instead of 74 (what the fastest tenth of 79
    stretches of 200,000 messages stayed below, before there was a limit of ``MOST_EMPTY``, which costs one): hardly any
    ladder changes.
    """
    count_empty(b, row, 1)
    if key == int(row["best"]) or 4 * pool.in_use(b.state, LEVEL_POOL) > SCARCE_QUARTERS * len(b.levels):
        drop_level(b, row, key)
    elif int(row["empty"]) > MOST_EMPTY:
        pack_ladder(b, row)


@part
def drop_empty_levels(b: Books) -> None:
    """Take the empty levels out of all ladders."""
    outlined()
    for number in range(len(b.sides)):
        if int(b.sides[number]["empty"]) > 0:
            pack_ladder(b, b.sides[number])


@part
def make_room(b: Books, row: Array) -> bool:
    """Have a level to give and a free place in a side's ladder. False if there is no room."""
    outlined()
    if all_levels_in_use(b) and b.state[EMPTY_LEVELS] > 0:
        drop_empty_levels(b)
    if all_levels_in_use(b):
        return False
    if int(row["count"]) == int(row["capacity"]) and not grow_ladder(b, row) and int(row["empty"]) > 0:
        pack_ladder(b, row)
    return int(row["count"]) < int(row["capacity"])


@verb
def take_place_in_time(b: Books, order: Array) -> None:
    """Let an order be the latest of all."""
    order["priority"] = b.state[PRIORITY]
    b.state[PRIORITY] += 1


# --- what others see of own orders --------------------------------------------------------------------------------


@part
def show(b: Books, slot: int) -> None:
    """Copy an own order that has joined its queue to where others see it, if there is room."""
    outlined()
    order = b.orders[slot]
    place = pool.allocate(b.shown, b.state, SHOWN_POOL, 1)
    order["displayed"] = place
    if place == 0:
        return
    row = b.shown[place]
    row["open"] = order["open"]
    row["price"] = order["price"]
    row["user_ref"] = order["user_ref"]
    row["instrument"] = order["instrument"]
    row["account"] = order["account"]
    row["side"] = order["side"]
    row["wire_side"] = order["wire_side"]
    row["tif"] = order["tif"]
    row["capacity"] = order["capacity"]
    store_release_first(b.shown, place, int(order["reference"]))


@verb
def hide(b: Books, slot: int) -> None:
    """An own order leaves its queue: its copy goes, too."""
    order = b.orders[slot]
    place = int(order["displayed"])
    if place != 0:
        b.shown[place]["reference"] = 0
        pool.deallocate(b.shown, b.state, SHOWN_POOL, place, 1)
        order["displayed"] = 0


# --- queues -------------------------------------------------------------------------------------------------------


@verb
def join(b: Books, slot: int) -> bool:
    """Put an order with open shares at the back of the queue at its price. False if there is no room for its level.

    The order's priority is its place in time from here on.
    """
    order = b.orders[slot]
    side = int(order["side"])
    number = 2 * int(order["instrument"]) + side
    level = level_at(b, number, side, int(order["price"]))
    if level == 0:
        return False
    queue = b.levels[level]
    tail = int(queue["tail"])
    order["level"] = level
    order["previous"] = tail
    order["next"] = 0
    take_place_in_time(b, order)
    b.orders[tail]["next"] = slot
    queue["head"] = choose(tail == 0, slot, int(queue["head"]))
    queue["tail"] = slot
    count_empty(b, b.sides[number], -int(tail == 0))
    queue["count"] += 1
    queue["shares"] += order["open"]
    if int(order["account"]) != RECORDED:
        queue["own"] += 1
        b.sides[number]["own"] += 1
        if len(b.shown) > 1:
            show(b, slot)
    return True


@verb
def unlink(b: Books, slot: int) -> int:
    """Take an order out of its queue and its open shares out of the level. Gives back the level's order count."""
    order = b.orders[slot]
    queue = b.levels[int(order["level"])]
    before = int(order["previous"])
    after = int(order["next"])
    b.orders[before]["next"] = after  # where there is none, slot 0 takes it: cheaper than a branch nobody can foresee
    b.orders[after]["previous"] = before
    queue["head"] = choose(before == 0, after, int(queue["head"]))
    queue["tail"] = choose(after == 0, before, int(queue["tail"]))
    queue["shares"] -= order["open"]
    queue["count"] -= 1
    if int(order["account"]) != RECORDED:
        queue["own"] -= 1
        b.sides[2 * int(order["instrument"]) + int(order["side"])]["own"] -= 1
        hide(b, slot)
    order["level"] = 0
    return int(queue["count"])


@verb
def leave(b: Books, slot: int) -> None:
    """Take an order out of its queue. Its open shares stay in its record."""
    if unlink(b, slot) == 0:
        order = b.orders[slot]
        side = int(order["side"])
        note_empty(b, b.sides[2 * int(order["instrument"]) + side], ladder_key(side, int(order["price"])))


@verb
def reduce(b: Books, slot: int, shares: int) -> None:
    """Take ``shares`` (fewer than all) off an order; it keeps its place."""
    order = b.orders[slot]
    order["open"] -= shares
    b.levels[int(order["level"])]["shares"] -= shares
    if int(order["account"]) != RECORDED:
        b.shown[int(order["displayed"])]["open"] = order["open"]


# --- own orders ---------------------------------------------------------------------------------------------------


@verb
def new_order(b: Books) -> int:
    """A slot for an order, 0 if all are in use."""
    return pool.allocate(b.orders, b.state, ORDER_POOL, 1)


@verb
def free_order(b: Books, slot: int) -> None:
    """Give the slot of an order back that stands in no queue and in no index any more."""
    pool.deallocate(b.orders, b.state, ORDER_POOL, slot, 1)


@verb
def user_ref_place(b: Books, account: int, user_ref: int) -> int:
    """Where in the direct index the order of an account with this UserRefNum belongs."""
    width = len(b.user_refs) // len(b.accounts)
    return account * width + (user_ref & (width - 1))


@verb
def find_own(b: Books, account: int, user_ref: int) -> int:
    """The slot of an account's live order, 0 if it has none of that number."""
    slot = int(b.user_refs[user_ref_place(b, account, user_ref)])
    if slot != 0 and int(b.orders[slot]["user_ref"]) == user_ref:
        return slot
    return 0


@verb
def forget_own(b: Books, slot: int) -> None:
    """Free an own order that stands in no queue any more."""
    order = b.orders[slot]
    b.user_refs[user_ref_place(b, int(order["account"]), int(order["user_ref"]))] = 0
    free_order(b, slot)


@verb
def position_of(b: Books, account: int, instrument: int) -> int:
    """The row of ``positions`` of an account in an instrument."""
    return account * len(b.books) + instrument
