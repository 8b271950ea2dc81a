"""Which instruments are traded: symbols, their numbers, and the feed's Stock Locate codes of the day.

Numbers are handed out in order from 0 and never change. The tables are numpy arrays that kernels read as they are;
only the loop thread writes and reads them.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from venue.engine import symbols
from venue.engine.records import NO_INSTRUMENT, Array
from venue.engine.symbols import IGNORED, NONE, SYMBOL_BYTES

MAX_INSTRUMENTS: Final = 65_534
"""A command names its instrument in 16 bits, two values of which mean "none" and "recorded"."""
LOCATES: Final = 1 << 16


class Instruments:
    """The registry. ``capacity`` is how many instruments there can ever be (1 to ``MAX_INSTRUMENTS``).

    ``memory`` is where symbols (uint8 [capacity, 8], blanks) and their count (int64 [1], 0) are kept if others look
    at them.
    """

    def __init__(self, capacity: int, memory: tuple[Array, Array] | None = None) -> None:
        if not 1 <= capacity <= MAX_INSTRUMENTS:
            raise ValueError(f"there can be 1 to {MAX_INSTRUMENTS} instruments, not {capacity}")
        self.capacity = capacity
        if memory is None:
            memory = np.full((capacity, SYMBOL_BYTES), ord(" "), np.uint8), np.zeros(1, np.int64)
        self._count: Array = memory[1]
        self.symbols: Array = memory[0]
        """[instrument, 8] bytes as they stand on the wire."""
        self.locates: Array = np.full(LOCATES, NONE, np.int32)
        """[Stock Locate] instrument, ``NONE`` or ``IGNORED``.

        Locate 0 means "no stock" in the feed and is never mapped: a message with it goes by its symbol. Its entry
        is ``IGNORED`` once the registry is full, since then an unknown symbol cannot be learned.
        """
        self.table: Array = symbols.create(capacity)
        """From symbol to instrument, for :func:`venue.engine.symbols.find`."""

    @property
    def count(self) -> int:
        """How many instruments there are."""
        return int(self._count[0])

    @property
    def full(self) -> bool:
        return self.count == self.capacity

    def add(self, symbol: str) -> int:
        """The instrument of a symbol, new or known; ``NONE`` when there is no room. ValueError for what is no symbol.

        A symbol is 1 to 8 printable ASCII characters without a blank.
        """
        instrument = self.index(symbol)
        if instrument != NONE:
            return instrument
        if not is_symbol(symbol):
            raise ValueError(f"{symbol!r} is no symbol: 1 to {SYMBOL_BYTES} printable ASCII characters without a blank")
        if self.full:
            return NONE
        instrument = self.count
        self.symbols[instrument, : len(symbol)] = np.frombuffer(symbol.encode("ascii"), np.uint8)
        symbols.insert(self.table, symbols.key_of(symbol), instrument)
        self._count[0] += 1
        if self.full:
            self.locates[0] = IGNORED
        return instrument

    def index(self, symbol: str) -> int:
        """The instrument of a symbol, or ``NONE``."""
        if not is_symbol(symbol):
            return NONE
        instrument = int(symbols.find(self.table, symbols.key_of(symbol)))
        return NONE if instrument == NO_INSTRUMENT else instrument

    def symbol(self, instrument: int) -> str:
        """The symbol without its padding. IndexError for an instrument that does not exist."""
        if not 0 <= instrument < self.count:
            raise IndexError(f"there are {self.count} instruments, no number {instrument}")
        raw: bytes = self.symbols[instrument].tobytes()
        return raw.decode("ascii").rstrip(" ")

    def map_locate(self, locate: int, instrument: int) -> None:
        """Say what a Stock Locate stands for: an instrument, or ``IGNORED``. Locate 0 stays unmapped."""
        if locate != 0:
            self.locates[locate] = instrument

    def forget_locates(self) -> None:
        """A new day: the feed assigns every Stock Locate afresh."""
        self.locates[1:] = NONE


def is_symbol(symbol: str) -> bool:
    """Whether this can be a symbol: 1 to 8 printable ASCII characters without a blank."""
    return 1 <= len(symbol) <= SYMBOL_BYTES and all("!" <= character <= "~" for character in symbol)
