"""Pool: slots of one element each, given back in any order. For orders, levels, and copies of orders."""

from __future__ import annotations

from typing import Final

from venue.engine.allocators.links import link, set_link
from venue.engine.kernel import jitable, verb
from venue.engine.records import Array

FREE: Final = 0  # the slot given back last, still warm in the cache; 0 = none
FRESH: Final = 1  # the lowest slot that was never used
FREED: Final = 2  # how many were used and are free again
STATE_WORDS: Final = 3


@jitable
def reset(state: Array, at: int) -> None:
    """All slots are free."""
    state[at + FREE] = 0
    state[at + FRESH] = 1
    state[at + FREED] = 0


@jitable
def in_use(state: Array, at: int) -> int:
    """How many slots are given out."""
    return int(state[at + FRESH] - 1 - state[at + FREED])


@verb
def allocate(memory: Array, state: Array, at: int, size: int) -> int:
    """A slot, or 0 if all are in use or ``size`` is not 1.

    A fresh one changes a single word of the state: with a count of the slots in use beside it, 1.0 ns became 2.0.
    """
    if size != 1:
        return 0
    slot = int(state[at + FREE])
    if slot != 0:
        state[at + FREE] = link(memory, slot)
        state[at + FREED] -= 1
        return slot
    slot = int(state[at + FRESH])
    if slot >= len(memory):
        return 0
    state[at + FRESH] = slot + 1
    return slot


@verb
def deallocate(memory: Array, state: Array, at: int, position: int, size: int) -> None:
    """Give a slot back; it is the next to be given out."""
    set_link(memory, position, int(state[at + FREE]))
    state[at + FREE] = position
    state[at + FREED] += 1
