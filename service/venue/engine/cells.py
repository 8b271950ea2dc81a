"""The shape of a latency histogram and how it is read: log-linear cells, 32 an octave, from 64 ns to 2^34 ns.

A histogram is one row of int64 in the counters page, ``ROW`` wide: first the cells, then how many samples lay above
the last one, then the sum of all samples. Cell ``i`` counts the samples in ``(EDGES[i - 1], EDGES[i]]``, so that a
sample exactly on an edge counts in the bucket whose ``le`` is that edge; the first cell takes everything up to
64 ns. A cell is never wider than 1/32 of its lower edge, which is how exact a percentile is.

Nothing here is compiled: readers in other processes need no Numba. Recording is in :mod:`venue.engine.histogram`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]

SUB_BUCKET_BITS: Final = 5
SUB_BUCKETS: Final = 1 << SUB_BUCKET_BITS
FIRST_OCTAVE: Final = 6
LAST_OCTAVE: Final = 34
LOWEST_NS: Final = 1 << FIRST_OCTAVE
"""The upper edge of the first cell: 64 ns. Everything at or below it counts there."""
HIGHEST_NS: Final = 1 << LAST_OCTAVE
"""The upper edge of the last cell: 2^34 ns, about 17.18 s. Everything above it is overflow."""

CELLS: Final = 1 + (LAST_OCTAVE - FIRST_OCTAVE) * SUB_BUCKETS
OVERFLOW: Final = CELLS
"""The place in a row that counts samples above ``HIGHEST_NS``."""
SUM: Final = CELLS + 1
"""The place in a row with the sum of all samples, in ns."""
ROW: Final = -(-(CELLS + 2) // 16) * 16
"""The width of a row in int64, rounded up to 128 bytes, so that writers of two rows share no cache line."""


def _edges() -> Int64s:
    edges = np.empty(CELLS, np.int64)
    edges[0] = LOWEST_NS
    steps = np.arange(1, SUB_BUCKETS + 1, dtype=np.int64) + SUB_BUCKETS
    for octave in range(LAST_OCTAVE - FIRST_OCTAVE):
        first = 1 + octave * SUB_BUCKETS
        edges[first : first + SUB_BUCKETS] = steps << (octave + FIRST_OCTAVE - SUB_BUCKET_BITS)
    edges.flags.writeable = False
    return edges


EDGES: Final = _edges()
"""The upper edge of each cell in ns, rising, inclusive."""


def _nearest_edges(per_decade: int) -> tuple[int, ...]:
    """The cell edges nearest to ``per_decade`` even steps a decade, from 100 ns to 10 s."""
    wanted = [100 * 10 ** (step / per_decade) for step in range(8 * per_decade + 1)]
    return tuple(int(EDGES[np.abs(EDGES - value).argmin()]) for value in wanted)


ORDER_TO_ACK_BOUNDS: Final = _nearest_edges(10)
"""The 81 ``le`` bounds of order-to-ack in ns: ten a decade, 100 ns to 10 s. Fixed for good."""
STAGE_BOUNDS: Final = _nearest_edges(5)
"""The 41 ``le`` bounds of a stage in ns: five a decade, every second one of ``ORDER_TO_ACK_BOUNDS``. Fixed for good."""


QUANTILES: Final = (0.5, 0.9, 0.99, 0.999, 1.0)
"""Those that are shown everywhere; 1 is the maximum."""


def count(row: Int64s) -> int:
    """How many samples a row holds, overflow included."""
    return int(row[: CELLS + 1].sum())


def percentiles(row: Int64s, quantiles: Sequence[float]) -> list[int] | None:
    """For each quantile (0 to 1) the smallest cell edge in ns that so many of the samples do not exceed; None if empty.

    This is the sample of that rank, rounded up to the edge of its cell; 1.0 is the maximum. Overflow gives
    ``HIGHEST_NS``, which then reads "this or more".
    """
    for quantile in quantiles:
        if not 0.0 <= quantile <= 1.0:
            raise ValueError(f"quantile {quantile} is not between 0 and 1")
    cumulative = np.cumsum(row[: CELLS + 1])
    total = int(cumulative[-1])
    if total == 0:
        return None
    # rounded, as 0.07 * 100 is a little more than 7
    ranks = [max(1, math.ceil(round(quantile * total, 6))) for quantile in quantiles]
    edges: list[int] = EDGES[np.minimum(np.searchsorted(cumulative, ranks), CELLS - 1)].tolist()
    return edges


def cumulative_counts(row: Int64s, bounds_ns: tuple[int, ...]) -> list[int]:
    """How many samples are at or below each bound, and last of all how many there are (``+Inf``).

    Exact, because every bound has to be a cell edge: ValueError otherwise.
    """
    places = np.searchsorted(EDGES, bounds_ns)
    if not np.array_equal(EDGES[np.minimum(places, CELLS - 1)], bounds_ns):
        raise ValueError("a bound is not a cell edge")
    cumulative = np.cumsum(row[: CELLS + 1])
    return [*cumulative[places].tolist(), int(cumulative[-1])]
