"""From a feed's order reference to the order's slot: a hash table with open addressing.

One flat int64 array of pairs (reference, slot); a slot of 0 marks an empty place. Collisions go to the next place,
and erasing moves later entries back instead of leaving tombstones, so that a day of adds and deletes does not wear
the table out. The caller keeps the load at or below one half.
"""

from __future__ import annotations

import numpy as np

from venue.engine.kernel import verb
from venue.engine.records import Array, aligned


def create(orders: int) -> Array:
    """A table for ``orders`` live references."""
    places = 1 << max(4, (2 * orders - 1).bit_length())
    return aligned(2 * places, np.dtype("<i8"))


@verb
def home(table: Array, reference: int) -> int:
    """The place where a reference belongs. References rise through the day, so their bits have to be mixed.

    The product stays below 2^63: the same number comes out with wrapping machine integers and without JIT.
    """
    mixed = ((reference ^ (reference >> 31)) & 0x7FFFFFFF) * 0x9E3779B1
    return (mixed >> 24) & ((len(table) >> 1) - 1)


@verb
def locate(table: Array, reference: int) -> int:
    """The place of a reference, or the empty place where it would go: ``table[place + 1]`` is its slot, or 0."""
    mask = len(table) - 1
    place = 2 * home(table, reference)
    while table[place + 1] != 0 and table[place] != reference:
        place = (place + 2) & mask
    return place


@verb
def guess(table: Array, reference: int) -> int:
    """The place of a known reference if it is one of the first two; no branch depends on it."""
    place = 2 * home(table, reference)
    return (place + 2 * int(table[place] != reference)) & (len(table) - 1)


@verb
def confirm(table: Array, reference: int, place: int) -> int:
    """The same, where ``place`` is where the reference stood a moment ago, or any other."""
    if table[place] == reference and table[place + 1] != 0:
        return place
    return locate(table, reference)


@verb
def insert(table: Array, place: int, reference: int, slot: int) -> None:
    """Remember a reference that is not known yet, at the place that ``locate`` gave for it."""
    table[place] = reference
    table[place + 1] = slot


@verb
def erase(table: Array, hole: int) -> None:
    """Forget the reference at a place, and move back what collisions had pushed behind it."""
    mask = len(table) - 1
    place = hole
    while True:
        place = (place + 2) & mask
        if table[place + 1] == 0:
            break
        belongs = 2 * home(table, table[place])
        if (place - belongs) & mask >= (place - hole) & mask:
            table[hole] = table[place]
            table[hole + 1] = table[place + 1]
            hole = place
    table[hole + 1] = 0
