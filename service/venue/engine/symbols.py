"""From a symbol's eight bytes to its instrument: an open-addressed hash table that kernels can read.

A key is the int64 view of the eight bytes as they stand on the wire (right padded with spaces), which is what
``load_be64`` gives. The table is a flat int64 array of pairs (key, instrument), at most half full, so that a search
for an absent key ends. Entries are never removed. One thread, the loop thread, writes and reads it.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from venue.engine.kernel import kernel, verb
from venue.engine.records import NO_INSTRUMENT, Array

SYMBOL_BYTES: Final = 8
BLANK: Final = ord(" ")
LAST_PRINTABLE: Final = ord("~")
EMPTY: Final = -1
"""In the place of an instrument: nothing here, and a search ends."""

NONE: Final = -1
"""No such instrument, or none known for a Stock Locate."""
IGNORED: Final = -2
"""For a Stock Locate: a stock for which there was no room, so that its messages are skipped."""

MULTIPLIER: Final = 0x1E3779B97F4A7C15
"""2^64 divided by the golden ratio, less its top bits, so that Numba takes it for an int64."""


def create(capacity: int) -> Array:
    """A table with room for ``capacity`` symbols."""
    places = 1 << max(2 * capacity - 1, 1).bit_length()
    table = np.zeros(2 * places, np.int64)
    table[1::2] = EMPTY
    return table


def key_of(symbol: str) -> int:
    """The key of a symbol without its padding."""
    return int.from_bytes(symbol.encode("latin-1").ljust(SYMBOL_BYTES), "big", signed=True)


@kernel
def is_key(key: int) -> bool:
    """Whether the eight bytes are a symbol: 1 to 8 printable characters without a blank, then only padding."""
    padding = True
    for place in range(SYMBOL_BYTES):
        character = (int(key) >> 8 * place) & 0xFF
        if padding and character == BLANK:
            continue
        padding = False
        if character <= BLANK or character > LAST_PRINTABLE:
            return False
    return not padding


@verb
def _first_place(table: Array, key: int) -> int:
    """Where the search for a key begins. Only bits that are the same in wrapping and in unbounded arithmetic."""
    mixed = (int(key) ^ (int(key) >> 32)) * MULTIPLIER
    return (mixed ^ (mixed >> 32)) & ((len(table) >> 1) - 1)


@kernel
def find(table: Array, key: int) -> int:
    """The instrument of a key, or ``NO_INSTRUMENT``."""
    place = _first_place(table, key)
    while True:
        instrument = int(table[2 * place + 1])
        if instrument == EMPTY:
            return NO_INSTRUMENT
        if table[2 * place] == key:
            return instrument
        place = (place + 1) & ((len(table) >> 1) - 1)


@kernel
def insert(table: Array, key: int, instrument: int) -> None:
    """Enter a key that is not there yet; the caller keeps to the table's capacity."""
    place = _first_place(table, key)
    while table[2 * place + 1] != EMPTY:
        place = (place + 1) & ((len(table) >> 1) - 1)
    table[2 * place] = key
    table[2 * place + 1] = instrument
