"""Recording a latency into a histogram of the counters page: compiled, without the GIL, nothing allocated.

The shape of the row and everything that reads it are in :mod:`venue.engine.cells`.
"""

from __future__ import annotations

from venue.engine.atomics import leading_zeros
from venue.engine.cells import (
    CELLS,
    FIRST_OCTAVE,
    HIGHEST_NS,
    LOWEST_NS,
    OVERFLOW,
    SUB_BUCKET_BITS,
    SUB_BUCKETS,
    SUM,
    Int64s,
)
from venue.engine.kernel import kernel

assert OVERFLOW == CELLS, "cell_of gives overflow as the cell after the last"


@kernel
def cell_of(value_ns: int) -> int:
    """The place in a row that counts a sample of ``value_ns``; ``OVERFLOW`` above ``HIGHEST_NS``."""
    if value_ns <= LOWEST_NS:
        return 0
    if value_ns > HIGHEST_NS:
        return OVERFLOW
    below = value_ns - 1  # a cell is (lower, upper]: its samples less one share their leading bits
    octave = 63 - leading_zeros(below)
    sub_bucket = (below >> (octave - SUB_BUCKET_BITS)) - SUB_BUCKETS
    return 1 + (octave - FIRST_OCTAVE) * SUB_BUCKETS + sub_bucket


@kernel
def record(row: Int64s, value_ns: int) -> None:
    """Count one sample. ``row`` is one histogram of ``ROW`` int64; only one thread may ever record into it.

    A sample below zero (it can only be a fault of the caller's clocks) counts in the first cell and adds nothing to
    the sum, which therefore never falls.
    """
    row[cell_of(value_ns)] += 1
    row[SUM] += max(value_ns, 0)
