"""Asking for memory before it is needed: what a batch of recorded commands will touch, step by step.

With hundreds of thousands of live orders almost every message would otherwise wait for memory several times in a row:
its place in the index, the order, its level, its neighbours in the queue. Here each step is taken for a whole batch
before the next one is, so that the waits overlap. Nothing but ``hints`` is changed, and a hint may be wrong by the time
its command is applied, since those before it change the books.

A message of 2,000 books with 340,000 live orders takes 62 ns instead of 115; one of 8 books with 10,000, which need
none of it, would take 7 ns more, hence ``MANY``. Steps for one command at a time, 48, 32 and 16 commands before
it is applied, were slower (68 instead of 59 ns), batches of 32 and 128 as well (65 and 64 instead of 60). Each figure
is the least CPU time of nine alternating runs on an otherwise stopped machine, as in ``books.py``, ``index.py``,
``feed_codec.py`` and ``records.py``.
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

HINT = np.dtype(
    [
        ("place", "<u4"),  # where the index may have the command's order
        ("slot", "<i4"),  # that order; 0 = none
        ("near", "<i4"),  # where the level that the command may join is remembered
        ("level", "<i4"),  # that level; 0 = none
    ]
)


@verb
def near_of(b: Books, command: Array) -> int:
    """Where the level that an Add or a Replace joins is remembered; without a price always the same place, which is
    in the cache."""
    price = int(command["price"])
    return near_place(min(int(command["instrument"]), len(b.books) - 1), price) & -int(price != 0)


@verb
def worth_it(b: Books, ready: int) -> bool:
    """Whether to look through a batch of ``ready`` commands."""
    return ready >= FEWEST and int(b.state[ORDER_POOL + pool.IN_USE] + b.state[LEVEL_POOL + pool.IN_USE]) >= MANY


@part
def look_ahead(b: Books, commands: Ring, hints: Array, ready: int) -> None:
    """Ask for what the next ``ready`` commands will touch; ``hints`` [ready or more] HINT say what was found."""
    outlined()
    first = ring.read_position(commands, 0)
    wrap = len(commands.records) - 1
    for ahead in range(ready):
        command = commands.records[(first + ahead) & wrap]
        near = near_of(b, command)
        hints[ahead]["near"] = near
        prefetch(b.references, index.home(b.references, int(command["word0"])))
        prefetch(b.near, near)
        if int(command["word1"]) != 0:  # the reference of a replace
            prefetch(b.references, index.home(b.references, int(command["word1"])))
    for ahead in range(ready):
        command = commands.records[(first + ahead) & wrap]
        hint = hints[ahead]
        place = index.guess(b.references, int(command["word0"]))
        slot = index.slot_at(b.references, place)
        level = int(b.near[int(hint["near"])])
        hint["place"] = place
        hint["slot"] = slot
        hint["level"] = level
        prefetch(b.orders, slot)
        prefetch(b.levels, level)
    for ahead in range(ready):
        hint = hints[ahead]
        order = b.orders[int(hint["slot"])]
        prefetch(b.levels, int(order["level"]))
        prefetch(b.orders, int(order["previous"]))
        prefetch(b.orders, int(order["next"]))
        prefetch(b.orders, int(b.levels[int(hint["level"])]["tail"]))
