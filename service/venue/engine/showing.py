"""Depth for those who look: copies of the books that somebody wishes to see, made by the matching thread.

Nobody looking costs one load a turn. A book is copied at most 20 times a second, and only if something happened since;
one book at a time, after what had come was matched and told, so that an order waits for one copy at most.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from venue.engine import system
from venue.engine.atomics import fence, load_acquire, outlined, store_release_first
from venue.engine.books import Books
from venue.engine.kernel import part, verb
from venue.engine.live_records import DEPTH_LEVELS, DEPTH_ORDERS, PLACES, Live
from venue.engine.records import BUY, RECORDED, SELL, Array

INTERVAL_NS: Final = 50_000_000
MAX_STEPS: Final = 512
"""Orders, and levels with orders, looked at on one side in one copy: where own orders stand behind more, those are not
listed.

An order of a long queue that is in no cache costs up to 170 ns: with 4,096 of them one copy took 0.7 ms longer."""
NEVER: Final = 1 << 62

# words of Showing.state
NEXT_NS: Final = 0  # when to look at the wishes again
STEPS: Final = 1  # of the copy that is being made
OF_PLACES: Final = 8  # from here on three words a place
SHOWN, SEEN, DUE_NS = 0, 1, 2  # its wish, the count of commands at its last copy, when the next copy may be
STATE_WORDS: Final = OF_PLACES + 3 * PLACES


class Showing(NamedTuple):
    """What the matching thread needs to show books."""

    wishes: Array  # [WISHES] int64
    depths: Array  # [PLACES] DEPTH
    levels: Array  # [PLACES * 2 * DEPTH_LEVELS] DEPTH_LEVEL
    orders: Array  # [PLACES * DEPTH_ORDERS] DEPTH_ORDER
    state: Array  # [STATE_WORDS] int64


def create(live: Live) -> Showing:
    """A Showing over arrays in which no book is shown yet."""
    state = np.zeros(STATE_WORDS, np.int64)
    state[OF_PLACES + SHOWN :: 3] = -1
    live.depths["wish"] = -1
    return Showing(live.wishes, live.depths, live.depth_levels, live.depth_orders, state)


# --- one copy -----------------------------------------------------------------------------------------------------


@verb
def list_own(b: Books, s: Showing, place: int, level: int, side: int) -> int:
    """List the own orders of one level, each with the shares before it; gives back the sum of their shares."""
    head = s.depths[place]
    queue = b.levels[level]
    left = int(queue["own"])
    slot = int(queue["head"])
    ahead = 0
    own_shares = 0
    while slot != 0 and left > 0 and s.state[STEPS] < MAX_STEPS:
        s.state[STEPS] += 1
        order = b.orders[slot]
        if int(order["account"]) != RECORDED:
            left -= 1
            own_shares += int(order["open"])
            if int(head["own"]) < DEPTH_ORDERS:
                row = s.orders[place * DEPTH_ORDERS + int(head["own"])]
                row["open"] = order["open"]
                row["queue_ahead"] = ahead
                row["price"] = order["price"]
                row["user_ref"] = order["user_ref"]
                row["account"] = order["account"]
                row["side"] = side
                head["own"] += 1
        ahead += int(order["open"])
        slot = int(order["next"])
    return own_shares


@part
def copy_side(b: Books, s: Showing, place: int, instrument: int, side: int) -> int:
    """Copy the best levels of a side and list its own orders; gives back how many levels were copied."""
    outlined()
    row = b.sides[2 * instrument + side]
    block = int(row["block"])
    position = int(row["count"]) - 1
    left = int(row["own"])
    first = (2 * place + side) * DEPTH_LEVELS
    copied = 0
    while position >= 0 and (copied < DEPTH_LEVELS or (left > 0 and s.state[STEPS] < MAX_STEPS)):
        level = int(b.ladders[block + position] & 0xFFFFFFFF)
        queue = b.levels[level]
        position -= 1
        if int(queue["count"]) == 0:
            continue
        s.state[STEPS] += 1
        own_shares = 0
        if int(queue["own"]) > 0:
            left -= int(queue["own"])
            own_shares = list_own(b, s, place, level, side)
        if copied < DEPTH_LEVELS:
            shown = s.levels[first + copied]
            shown["price"] = queue["price"]
            shown["shares"] = queue["shares"]
            shown["own_shares"] = own_shares
            shown["orders"] = queue["count"]
            copied += 1
    return copied


@part
def copy_book(b: Books, s: Showing, place: int, wish: int) -> None:
    """Show the wished book in a place. Readers see by the version that it is being written."""
    outlined()
    instrument = wish & 0xFFFF
    head = s.depths[place]
    version = int(head["version"])
    store_release_first(s.depths, place, version + 1)
    fence()
    s.state[STEPS] = 0
    book = b.books[instrument]
    head["time_ns"] = b.counters[0]["last_command_time_ns"]
    head["last_price"] = book["last_price"]
    head["wish"] = wish
    head["instrument"] = instrument
    head["own"] = 0
    head["bids"] = copy_side(b, s, place, instrument, BUY)
    s.state[STEPS] = 0
    head["asks"] = copy_side(b, s, place, instrument, SELL)
    head["own_total"] = b.sides[2 * instrument]["own"] + b.sides[2 * instrument + 1]["own"]
    head["state"] = book["state"]
    head["incomplete"] = book["incomplete"]
    store_release_first(s.depths, place, version + 2)


# --- when ---------------------------------------------------------------------------------------------------------


@part
def refresh(b: Books, s: Showing, now_ns: int, most: int) -> int:
    """Copy what is wished and due, at most so many books. Gives back when there is more to do; ``NEVER``: not before
    something happens."""
    outlined()
    wished = min(max(load_acquire(s.wishes, 0), 0), PLACES)
    commands = int(b.counters[0]["commands"])
    soonest = NEVER
    for place in range(wished):
        wish = int(s.wishes[1 + place])
        at = OF_PLACES + 3 * place
        if wish < 0 or (wish & 0xFFFF) >= len(b.books):
            continue
        same = s.state[at + SHOWN] == wish
        if same and s.state[at + SEEN] == commands:
            continue
        due_ns = int(s.state[at + DUE_NS]) if same else 0
        if now_ns >= due_ns and most > 0:
            copy_book(b, s, place, wish)
            s.state[at + SHOWN] = wish
            s.state[at + SEEN] = commands
            s.state[at + DUE_NS] = now_ns + INTERVAL_NS
            most -= 1
        else:
            soonest = min(soonest, max(due_ns, now_ns))
    return soonest


@verb
def look_up(b: Books, s: Showing, scratch: Array) -> None:
    """Between two turns of work: copy one book, if somebody looks and one is due."""
    if load_acquire(s.wishes, 0) == 0:
        return
    now_ns = system.now_ns(scratch)
    if now_ns >= s.state[NEXT_NS]:
        soonest = refresh(b, s, now_ns, 1)
        s.state[NEXT_NS] = min(soonest, now_ns + INTERVAL_NS)


@verb
def settle_down(b: Books, s: Showing, scratch: Array) -> int:
    """With nothing to do: copy one book that is due. Gives back in how many ns there is more, ``NEVER`` if not."""
    if load_acquire(s.wishes, 0) == 0:
        return NEVER
    now_ns = system.now_ns(scratch)
    s.state[NEXT_NS] = 0
    soonest = refresh(b, s, now_ns, 1)
    return NEVER if soonest == NEVER else max(soonest - now_ns, 0)
