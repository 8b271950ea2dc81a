"""Where orders, levels and ladders live: everything is reserved at the start, nothing is allocated while matching.

Reserved memory costs address space only; its pages are touched when they are first used. What a pool or a free list
knows of itself are a few words of an int64 array that its owner keeps (``state``), beginning at ``at``.
"""

from __future__ import annotations

from typing import Final

from venue.engine.kernel import verb
from venue.engine.records import Array

# --- Pool: slots of one size --------------------------------------------------------------------------------------

FREE: Final = 0  # the slot given back last, still warm in the cache; 0 = none
FRESH: Final = 1  # the lowest slot that was never used
IN_USE: Final = 2
POOL_WORDS: Final = 3


def reset_pool(state: Array, at: int) -> None:
    """All slots are free."""
    state[at : at + POOL_WORDS] = (0, 1, 0)


@verb
def allocate(records: Array, state: Array, at: int) -> int:
    """A slot of ``records``, or 0 if all are in use. Slot 0 is never given out: it means "none".

    Slots given back are chained by their field ``next``.
    """
    slot = state[at + FREE]
    if slot != 0:
        state[at + FREE] = records[slot]["next"]
    else:
        slot = state[at + FRESH]
        if slot == len(records):
            return 0
        state[at + FRESH] = slot + 1
    state[at + IN_USE] += 1
    return int(slot)


@verb
def deallocate(records: Array, state: Array, at: int, slot: int) -> None:
    """Give a slot back."""
    records[slot]["next"] = state[at + FREE]
    state[at + FREE] = slot
    state[at + IN_USE] -= 1


# --- FreeList: blocks of 2^k words --------------------------------------------------------------------------------

CLASSES: Final = 40
UNUSED: Final = CLASSES  # the first word that was never given out
FREE_LIST_WORDS: Final = CLASSES + 1


def reset_free_list(state: Array, at: int) -> None:
    """All words are free."""
    state[at : at + CLASSES] = -1
    state[at + UNUSED] = 0


@verb
def allocate_block(words: Array, state: Array, at: int, size_class: int) -> int:
    """Where a block of ``2 ** size_class`` words begins, or -1 if there is no room.

    Blocks given back are chained by their first word, one chain a size.
    """
    block = state[at + size_class]
    if block >= 0:
        state[at + size_class] = words[block]
        return int(block)
    block = state[at + UNUSED]
    if block + (1 << size_class) > len(words):
        return -1
    state[at + UNUSED] = block + (1 << size_class)
    return int(block)


@verb
def deallocate_block(words: Array, state: Array, at: int, block: int, size_class: int) -> None:
    """Give a block back, to be used again for blocks of its size."""
    words[block] = state[at + size_class]
    state[at + size_class] = block
