"""Asking for memory before it is needed: what recorded commands will touch, in three steps.

With hundreds of thousands of live orders almost every message would otherwise wait for memory several times in a row:
its place in the index, the order, its level, its neighbours in the queue. Each step needs what the one before it has
asked for. While one command is applied, each step is taken for one of those behind it, the first for the farthest: a
core can wait for a dozen or so lines of memory at a time, and asked for more at once it does nothing else meanwhile.
Nothing but ``hints`` is changed, and a hint may be wrong by the time its command is applied, since those before it
change the books.

A message of 2,000 books with 340,000 live orders takes 2.4 times as long without, and 5 % longer if the second step is
taken for a whole batch of 64 before it is applied. With distances of 96, 48 and 12 it takes 7 % longer, with those from
24, 10 and 5 to 64, 24 and 8 at most 3 %. (Medians of the ratios of stretches of 200,000 messages, all variants taking
turns, in several processes each.) One of 8 books with 10,000 orders, which needs none of it, took 7 % more, hence
``MANY``; that and the figures in ``index.py``, ``feed_codec.py``, ``records.py`` and of ``NEAR`` in ``books.py`` are
from before, each the least CPU time of nine alternating runs.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from venue.engine import index, ring
from venue.engine.allocators import pool
from venue.engine.atomics import outlined, prefetch
from venue.engine.books import LEVEL_POOL, ORDER_POOL, Books, near_place
from venue.engine.kernel import part, verb
from venue.engine.records import Array
from venue.engine.ring import Ring

FEWEST: Final = 4
"""So many commands have to be coming for the look-ahead to begin."""
MANY: Final = 20_000
"""Orders and levels from which it pays: fewer fit into the core's own cache."""
PLACES_AHEAD: Final = 48
"""Commands between the first step and its command."""
ORDERS_AHEAD: Final = 16
"""Commands between the second step and its command."""
NEIGHBOURS_AHEAD: Final = 6
"""Commands between the third step and its command."""
HINTS: Final = 32
"""Commands whose hints are kept: a power of two, more than there are between the second step and its command."""
assert HINTS > ORDERS_AHEAD
assert HINTS & (HINTS - 1) == 0

HINT = np.dtype(
    [
        ("place", "<u4"),  # where the index may have the command's order
        ("slot", "<i4"),  # that order; 0 = none
        ("level", "<i4"),  # that which it may join; 0 = none
    ]
)


@verb
def book_of(b: Books, command: Array) -> int:
    """The command's instrument; without one that of some other."""
    return min(int(command["instrument"]), len(b.books) - 1)


@verb
def near_of(b: Books, command: Array) -> int:
    """Where the level that an Add or a Replace joins is remembered; without a price always the same place, which is
    in the cache."""
    price = int(command["price"])
    return near_place(book_of(b, command), price) & -int(price != 0)


@verb
def worth_it(b: Books, coming: int) -> bool:
    """Whether to look ahead at ``coming`` commands."""
    return coming >= FEWEST and pool.in_use(b.state, ORDER_POOL) + pool.in_use(b.state, LEVEL_POOL) >= MANY


@verb
def ask_for_places(b: Books, command: Array) -> None:
    """The first step: where the command's order, its level and its book's touch are to be found."""
    prefetch(b.references, index.home(b.references, int(command["word0"])))
    prefetch(b.near, near_of(b, command))
    prefetch(b.sides, 2 * book_of(b, command))
    if int(command["word1"]) != 0:  # the reference of a replace
        prefetch(b.references, index.home(b.references, int(command["word1"])))


@verb
def ask_for_order(b: Books, command: Array, hint: Array) -> None:
    """The second step: the order that the command names, the level that it may join."""
    place = index.guess(b.references, int(command["word0"]))
    slot = index.slot_at(b.references, place)
    level = int(b.near[near_of(b, command)])
    hint["place"] = place
    hint["slot"] = slot
    hint["level"] = level
    prefetch(b.orders, slot)
    prefetch(b.levels, level)


@verb
def ask_for_neighbours(b: Books, hint: Array) -> None:
    """The third step: the order's level, who stands before and behind it, and who is last where it may join."""
    order = b.orders[int(hint["slot"])]
    prefetch(b.levels, int(order["level"]))
    prefetch(b.orders, int(order["previous"]))
    prefetch(b.orders, int(order["next"]))
    prefetch(b.orders, int(b.levels[int(hint["level"])]["tail"]))


@verb
def hint_at(hints: Array, place: int) -> Array:
    """The hint of the command that stands at ``place`` of the ring."""
    hint: Array = hints[place & (len(hints) - 1)]
    return hint


@verb
def look_further(b: Books, commands: Ring, hints: Array, ahead: int, coming: int) -> None:
    """Before command ``ahead`` of ``coming`` is applied: each step for the one that is as far behind it, if any."""
    if 0 <= ahead + PLACES_AHEAD < coming:
        ask_for_places(b, commands.records[ring.read_position(commands, ahead + PLACES_AHEAD)])
    if 0 <= ahead + ORDERS_AHEAD < coming:
        place = ring.read_position(commands, ahead + ORDERS_AHEAD)
        ask_for_order(b, commands.records[place], hint_at(hints, place))
    if 0 <= ahead + NEIGHBOURS_AHEAD < coming:
        ask_for_neighbours(b, hint_at(hints, ring.read_position(commands, ahead + NEIGHBOURS_AHEAD)))


@part
def look_ahead(b: Books, commands: Ring, hints: Array, coming: int) -> None:
    """Before the first of ``coming`` commands is applied: what ``look_further`` would have done before those before it.
    ``hints`` [HINTS] HINT."""
    outlined()
    for ahead in range(-PLACES_AHEAD, 0):
        look_further(b, commands, hints, ahead, coming)
