"""Latency histograms: where a sample counts, and what is read back."""

import math

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from venue.engine import cells
from venue.engine.cells import CELLS, EDGES, HIGHEST_NS, OVERFLOW, ROW, SUM, Int64s
from venue.engine.histogram import cell_of, record

LATENCIES_NS = st.one_of(
    st.integers(0, 2 * HIGHEST_NS), st.integers(0, 10_000), st.sampled_from(EDGES.tolist()), st.just(0)
)


def histogram_of(*samples_ns: int) -> Int64s:
    row = np.zeros(ROW, np.int64)
    for sample_ns in samples_ns:
        record(row, sample_ns)
    return row


def test_thirty_two_cells_an_octave_from_64_ns_to_17_s() -> None:
    assert EDGES[0] == 64
    assert EDGES[1:33].tolist() == list(range(66, 129, 2))
    assert EDGES[-1] == HIGHEST_NS == 2**34
    assert len(EDGES) == CELLS == 1 + 28 * 32
    lower, upper = EDGES[:-1], EDGES[1:]
    assert ((upper - lower) * 32 <= lower).all()


def test_a_sample_on_an_edge_counts_below_it_and_one_more_above() -> None:
    for cell, edge in enumerate(EDGES.tolist()):
        assert cell_of(edge) == cell
        assert cell_of(edge + 1) == cell + 1  # after the last cell: overflow


@given(st.integers(65, HIGHEST_NS))
def test_a_cell_holds_what_is_above_its_lower_edge_up_to_its_upper(value_ns: int) -> None:
    cell = cell_of(value_ns)
    assert EDGES[cell - 1] < value_ns <= EDGES[cell]


def test_tiny_and_impossible_samples_count_in_the_first_cell() -> None:
    row = histogram_of(0, 1, 64, -5)
    assert row[0] == cells.count(row) == 4
    assert row[SUM] == 65


def test_twenty_seconds_is_overflow_and_lands_only_in_inf() -> None:
    row = histogram_of(20_000_000_000)
    assert row[OVERFLOW] == 1
    assert row[:CELLS].sum() == 0
    assert cells.cumulative_counts(row, cells.ORDER_TO_ACK_BOUNDS) == [0] * 81 + [1]
    assert row[SUM] == 20_000_000_000
    assert cells.percentiles(row, [0.5]) == [HIGHEST_NS]


@given(st.lists(LATENCIES_NS, min_size=1, max_size=200), st.integers(0, 1000))
def test_a_percentile_is_the_sample_of_that_rank_up_to_its_cell(samples_ns: list[int], per_mille: int) -> None:
    rank = max(1, -(-per_mille * len(samples_ns) // 1000))
    exact = sorted(samples_ns)[rank - 1]
    expected = min((edge for edge in EDGES.tolist() if edge >= exact), default=HIGHEST_NS)
    assert cells.percentiles(histogram_of(*samples_ns), [per_mille / 1000]) == [expected]


def test_an_empty_histogram_has_no_percentile() -> None:
    assert cells.percentiles(histogram_of(), [0.5]) is None


@pytest.mark.parametrize("quantile", [-0.1, 1.1, math.nan, 50])
def test_a_quantile_outside_0_to_1_is_refused(quantile: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        cells.percentiles(histogram_of(100), [quantile])


@given(st.lists(st.one_of(LATENCIES_NS, st.sampled_from(cells.ORDER_TO_ACK_BOUNDS)), max_size=200))
def test_cumulative_counts_are_exact_at_every_bound(samples_ns: list[int]) -> None:
    for bounds_ns in (cells.ORDER_TO_ACK_BOUNDS, cells.STAGE_BOUNDS):
        expected = [sum(sample <= bound for sample in samples_ns) for bound in bounds_ns]
        counts = cells.cumulative_counts(histogram_of(*samples_ns), bounds_ns)
        assert counts == [*expected, len(samples_ns)]


def test_a_bound_between_two_edges_is_refused() -> None:
    for bound in (65, HIGHEST_NS + 1):
        with pytest.raises(ValueError, match="not a cell edge"):
            cells.cumulative_counts(histogram_of(), (100, bound))


def test_the_bounds_are_fixed_for_good() -> None:
    """Series of two versions can only be joined if their bounds are the same."""
    assert cells.ORDER_TO_ACK_BOUNDS == (
        100, 126, 160, 200, 252, 320, 400, 504, 624, 800,
        992, 1248, 1600, 1984, 2496, 3136, 3968, 4992, 6272, 7936,
        9984, 12544, 15872, 19968, 25088, 31744, 39936, 50176, 63488, 79872,
        100352, 124928, 159744, 200704, 249856, 319488, 401408, 499712, 638976, 786432,
        999424, 1245184, 1572864, 1998848, 2490368, 3145728, 3997696, 4980736, 6291456, 7995392,
        9961472, 12582912, 15728640, 19922944, 25165824, 31457280, 39845888, 50331648, 62914560, 79691776,
        100663296, 125829120, 159383552, 201326592, 251658240, 318767104, 394264576, 503316480, 637534208, 788529152,
        1006632960, 1275068416, 1577058304, 1979711488, 2483027968, 3154116608, 3959422976, 4966055936, 6308233216,
        7918845952, 9932111872,
    )  # fmt: skip
    assert cells.ORDER_TO_ACK_BOUNDS[::2] == cells.STAGE_BOUNDS
    for step, bound in enumerate(cells.ORDER_TO_ACK_BOUNDS):
        assert bound == pytest.approx(100 * 10 ** (step / 10), rel=1 / 64)


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")
def test_recording_is_compiled_to_integers_only() -> None:
    record(histogram_of(), 100)
    for function in (record, cell_of):
        for signature in function.nopython_signatures:  # type: ignore[attr-defined]
            assert "float" not in str(signature)
            assert "uint64" not in str(signature)
