"""`venue bench allocators`, small: what it computes, not how quick anything is."""

from __future__ import annotations

import pytest

from venue.bench.allocating import CONDITIONS, Outcome, Timed, Times
from venue.bench.allocators import bench_allocators, figures, lines
from venue.engine.kernel import JIT


@pytest.mark.skipif(not JIT, reason="calls malloc from compiled code")
def test_every_allocator_is_measured_under_every_condition() -> None:
    """The process that measures says how many threads it had, and ends if two blocks are in one place."""
    report = bench_allocators(repeats=2, count=1000)
    names = ["malloc", "linear", "pool", "free list", "malloc, reverse", "stack, reverse"]
    assert [[row[0] for row in table.rows] for table in report.tables] == [names] * len(CONDITIONS)
    rows = report.figures["rows"]
    assert [(row["threads"], row["condition"], row["allocator"]) for row in rows] == [
        (threads, condition.name, name) for threads in (1, 2) for condition in CONDITIONS for name in names
    ]
    assert all(row["allocate_ns"] > 0 and row["deallocate_ns"] > 0 for row in rows)
    assert (report.figures["count"], report.figures["size_bytes"]) == (1000, 16)


def test_each_row_is_held_against_malloc_in_its_own_order_with_as_many_threads() -> None:
    def timed(threads: int, name: str, *runs_ns: tuple[float, float]) -> Timed:
        times = [Times(a * 1e-9 * 10, d * 1e-9 * 10) for a, d in runs_ns]
        return Timed("warm", threads, name, name.endswith("reverse"), times)

    outcome = Outcome(
        count=10,
        timed=[
            timed(1, "malloc", (20, 10), (500, 500), (20, 10)),
            timed(1, "malloc, reverse", (10, 5)),
            timed(1, "pool", (2, 1)),
            timed(1, "stack, reverse", (2, 1)),
            timed(2, "malloc", (40, 20)),
            timed(2, "malloc, reverse", (50, 25)),
            timed(2, "pool", (4, 2)),
            timed(2, "stack, reverse", (2, 1)),
        ],
    )
    rows = figures(outcome)
    assert [round(row["malloc_ratio"], 6) for row in rows] == [1, 1, 10, 5, 1, 1, 10, 25]
    pool = {name: round(value, 6) for name, value in rows[2].items() if name.endswith("_ns")}
    assert pool == {"allocate_ns": 2, "deallocate_ns": 1, "pair_ns": 3}
    assert lines(rows)[3] == ("stack, reverse", "2.00", "1.00", "3.00", "5.0", "25.0")
