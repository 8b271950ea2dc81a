"""`venue bench allocators`, small: what it computes, not how quick anything is."""

from __future__ import annotations

import pytest

from venue.bench.allocating import CONDITIONS, Outcome, Timed, Times
from venue.bench.allocators import bench_allocators, figures
from venue.engine.kernel import JIT


@pytest.mark.skipif(not JIT, reason="calls malloc from compiled code")
def test_every_allocator_is_measured_under_every_condition() -> None:
    """The process that measures says how many threads it had, and ends if two blocks are in one place."""
    report = bench_allocators(repeats=2, count=1000)
    alone = ["malloc", "linear", "pool", "free list", "malloc, reverse", "stack, reverse"]
    names = [*alone, "malloc, 2 threads", "reverse, 2 threads"]
    assert [[row[0] for row in table.rows] for table in report.tables] == [names] * len(CONDITIONS)
    rows = report.figures["rows"]
    assert [(row["condition"], row["allocator"]) for row in rows[: len(CONDITIONS) * len(alone)]] == [
        (condition.name, name) for condition in CONDITIONS for name in alone
    ]
    assert all(row["allocate_ns"] > 0 and row["deallocate_ns"] > 0 for row in rows)
    assert (report.figures["count"], report.figures["size_bytes"], report.figures["threads"]) == (1000, 16, 1)


def test_each_row_is_held_against_malloc_in_its_own_order_without_and_with_a_second_thread() -> None:
    def timed(name: str, reverse: bool, *runs_ns: tuple[float, float]) -> Timed:
        return Timed("warm", name, reverse, [Times(a * 1e-9 * 10, d * 1e-9 * 10) for a, d in runs_ns])

    outcome = Outcome(
        count=10,
        threads=1,
        timed=[
            timed("malloc", False, (20, 10), (500, 500), (20, 10)),
            timed("malloc, reverse", True, (10, 5)),
            timed("pool", False, (2, 1)),
            timed("stack, reverse", True, (2, 1)),
            timed("malloc, 2 threads", False, (40, 20)),
            timed("reverse, 2 threads", True, (50, 25)),
        ],
    )
    rows = {row.pop("allocator"): row for row in figures(outcome)}
    assert [round(row["malloc_ratio"], 6) for row in rows.values()] == [1, 1, 10, 5, 0.5, 0.2]
    assert [round(row["malloc_with_threads_ratio"], 6) for row in rows.values()] == [2, 5, 20, 25, 1, 1]
    pool = {name: round(value, 6) for name, value in rows["pool"].items() if name.endswith("_ns")}
    assert pool == {"allocate_ns": 2, "deallocate_ns": 1, "pair_ns": 3}
