"""Stack: each block begins where the last one ended, and they are given back in reverse.

For what is nested: what was allocated last is needed no longer first. Nothing in the engine is: orders, levels and
ladders come and go in any order, and its compiled functions do not recurse.
"""

from __future__ import annotations

from typing import Final

from venue.engine.kernel import jitable, verb
from venue.engine.records import Array

TOP: Final = 0  # where the next block begins
STATE_WORDS: Final = 1


@jitable
def reset(state: Array, at: int) -> None:
    """Everything is free."""
    state[at + TOP] = 1


@verb
def allocate(memory: Array, state: Array, at: int, size: int) -> int:
    """``size`` elements on top of the last block, or 0 if there are not so many."""
    position = int(state[at + TOP])
    if size < 1 or size > len(memory) - position:
        return 0
    state[at + TOP] = position + size
    return position


@verb
def deallocate(memory: Array, state: Array, at: int, position: int, size: int) -> None:
    """Give a block back, and with it all that were allocated after it."""
    state[at + TOP] = position
