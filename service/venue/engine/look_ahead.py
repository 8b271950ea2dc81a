"""Asking for memory before it is needed: what recorded commands will touch, in three steps.

With hundreds of thousands of live orders almost every message would otherwise wait for memory several times in a row:
its place in the index, the order, its level, its neighbours in the queue. Each step needs what the one before it has
asked for. The first is taken a batch ahead and the third a few commands ahead, both while other commands are applied,
since a core can wait for a dozen or so lines of memory at a time and would do nothing else meanwhile; the second for a
whole batch at once. Nothing but ``hints`` is changed, and a hint may be wrong by the time its command is applied, since
those before it change the books.

A message of 2,000 books with 340,000 live orders takes 60 ns instead of 142, and 70 if all three steps are taken for a
whole batch before it is applied. Taking the second step while commands are applied, too, cost half as much again. One
of 8 books with 10,000, which needs none of it, would take 7 % more, hence ``MANY``. (The figures here are what the
fastest tenth of 79 stretches of 200,000 messages stayed below, all variants taking turns; those in ``index.py``,
``feed_codec.py``, ``records.py`` and of ``NEAR`` in ``books.py`` are from before, each the least CPU time of nine
alternating runs.)
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
"""Commands from which a batch is looked through."""
MANY: Final = 20_000
"""Orders and levels from which it pays: fewer fit into the core's own cache."""
NEIGHBOURS_AHEAD: Final = 8
"""Commands between the third step and its command."""

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
def worth_it(b: Books, ready: int) -> bool:
    """Whether to look through a batch of ``ready`` commands."""
    return ready >= FEWEST and int(b.state[ORDER_POOL + pool.IN_USE] + b.state[LEVEL_POOL + pool.IN_USE]) >= MANY


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


@part
def look_ahead(b: Books, commands: Ring, hints: Array, asked: int, ready: int) -> None:
    """Before a batch of ``ready`` commands is applied: the second step for all of them, and what of the other two is
    not done while commands are applied. For ``asked`` of them the first step was. ``hints`` [ready or more] HINT."""
    outlined()
    for ahead in range(asked, ready):
        ask_for_places(b, commands.records[ring.read_position(commands, ahead)])
    for ahead in range(ready):
        ask_for_order(b, commands.records[ring.read_position(commands, ahead)], hints[ahead])
    for ahead in range(min(ready, NEIGHBOURS_AHEAD)):
        ask_for_neighbours(b, hints[ahead])


@verb
def look_further(b: Books, commands: Ring, hints: Array, ahead: int, ready: int, further: int) -> None:
    """Before command ``ahead`` of a batch is applied: the third step for one a little later in it, and the first for
    one of the ``further`` commands of the batch after it."""
    if ahead + NEIGHBOURS_AHEAD < ready:
        ask_for_neighbours(b, hints[ahead + NEIGHBOURS_AHEAD])
    if ahead < further:
        ask_for_places(b, commands.records[ring.read_position(commands, ready + ahead)])
