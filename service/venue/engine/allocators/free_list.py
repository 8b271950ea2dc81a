"""Free list: blocks of 2^k elements, given back in any order. For the ladders of books, which grow.

A size is rounded up to a power of two, and a block given back is used again for blocks of its own power only: neither
split nor joined, which keeps both verbs free of loops. Blocks are handed out from the eighth element on, one after
another, so that ladders, multiples of eight words, begin on cache lines.
"""

from __future__ import annotations

from typing import Final

from venue.engine.allocators.links import link, set_link
from venue.engine.atomics import leading_zeros
from venue.engine.kernel import jitable, verb
from venue.engine.records import Array

CLASSES: Final = 40  # the blocks given back, one chain for each power of two; 0 = none
UNUSED: Final = CLASSES  # the first element that was never given out
STATE_WORDS: Final = CLASSES + 1
FIRST: Final = 8


@jitable
def reset(state: Array, at: int) -> None:
    """Everything is free."""
    for size_class in range(CLASSES):
        state[at + size_class] = 0
    state[at + UNUSED] = FIRST


@verb
def class_of(size: int) -> int:
    """The power of two that ``size``, at least 1, is rounded up to."""
    return 64 - leading_zeros(size - 1)


@verb
def allocate(memory: Array, state: Array, at: int, size: int) -> int:
    """A block of ``size`` elements rounded up to a power of two, or 0 if there is no room for it."""
    if size < 1 or size > len(memory):
        return 0
    size_class = class_of(size)
    position = int(state[at + size_class])
    if position != 0:
        state[at + size_class] = link(memory, position)
        return position
    position = int(state[at + UNUSED])
    if (1 << size_class) > len(memory) - position:
        return 0
    state[at + UNUSED] = position + (1 << size_class)
    return position


@verb
def deallocate(memory: Array, state: Array, at: int, position: int, size: int) -> None:
    """Give a block back, to be used again for blocks of its power of two. ``size`` is what it was allocated for."""
    size_class = class_of(size)
    set_link(memory, position, int(state[at + size_class]))
    state[at + size_class] = position
