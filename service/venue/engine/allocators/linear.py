"""Linear: each block begins where the last one ended, and all are given back at once.

For what lives as long as one batch: allocate along the way, ``reset`` at its end. The engine's own batches (the fills
of one order, the lists of one pass of the encoder) are linear without this module: each is a single list in an array
of its own, so that its length in a local variable is all the state there is.
"""

from __future__ import annotations

from typing import Final

from venue.engine.kernel import jitable, verb
from venue.engine.records import Array

END: Final = 0  # where the next block begins
STATE_WORDS: Final = 1


@jitable
def reset(state: Array, at: int) -> None:
    """Everything is free."""
    state[at + END] = 1


@verb
def allocate(memory: Array, state: Array, at: int, size: int) -> int:
    """``size`` elements behind the last block, or 0 if there are not so many."""
    position = int(state[at + END])
    if size < 1 or size > len(memory) - position:
        return 0
    state[at + END] = position + size
    return position


@verb
def deallocate(memory: Array, state: Array, at: int, position: int, size: int) -> None:
    """Nothing: only ``reset`` gives memory back."""
