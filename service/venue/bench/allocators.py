"""`venue bench allocators`: linear, stack, pool and free list against libc's malloc, from the same compiled code.

A million allocations of 16 bytes, then a million deallocations; what that needs is initialised before. What is timed,
and in which process, is in :mod:`venue.bench.allocating`.

What holds malloc back (glibc 2.36, by its profile): the cache of its thread holds seven blocks of a size, so all others
take the slow way. An allocation looks into the cache and the bins, splits 32 bytes off a large free piece and writes
the block's header; giving back checks the block and its neighbour, and chains it into the bin of its size, unjoined.
Each is two nested calls. As soon as the process has a second thread, each also locks or swaps atomically. None of this
is wrong for an allocator of all sizes and threads: ours are quick since they are for one thread and one kind of memory,
and since they become part of the code that calls them, with a size that is known there.

What holds ours back once blocks are written is memory: 16 MB do not fit into a core's own cache. Before that, it is a
word of state that is stored and loaded again for the next block: linear takes 0.9 ns, and so does the same loop in C.
"""

from __future__ import annotations

import os
import subprocess
import sys
from statistics import median
from typing import Any, Final

import msgspec

from venue.bench.allocating import CONDITIONS, MALLOC, MALLOC_IN_REVERSE, SIZE_BYTES, Outcome, Timed
from venue.bench.report import Report, Rows

COUNT: Final = 1_000_000
COLUMNS: Final = ("ns", "allocate", "deallocate", "pair", "malloc / this", "2 threads")

NOTES: Final = [
    "Last two columns: how many times longer malloc's pair takes; first in a process with one thread, as all figures "
    "before, which is malloc's best case, then the same once more with a second thread, even one that only sleeps: "
    "then malloc locks, as it would in the exchange.",
    "Blocks are given back in the order in which they were allocated, or in reverse where it says so: a stack knows no "
    "other. Each is held against malloc in the same order.",
    "Linear gives nothing back before its reset, so its deallocate is empty and what is counted is the loop. Storing "
    "where each block is (8 bytes) counts in all rows.",
    "Pages are alike on both sides: 4 KiB, and touched before or not, as the title says. malloc needs 32 bytes a block "
    "and writes 8 of its own before each; ours need 16 and write nothing into a block that is in use. With fresh "
    "pages it is mostly page faults that are measured.",
]


def bench_allocators(repeats: int, count: int = COUNT) -> Report:
    """`venue bench allocators`."""
    outcome = measured(count, repeats)
    rows = figures(outcome)
    tables = [
        Rows(
            f"{count:,} times {SIZE_BYTES} bytes, median of {repeats}: {condition.name}",
            COLUMNS,
            lines([row for row in rows if row["condition"] == condition.name]),
        )
        for condition in CONDITIONS
    ]
    facts = {"count": count, "size_bytes": SIZE_BYTES, "repeats": repeats}
    return Report(tables, facts | {"rows": rows}, NOTES)


def figures(outcome: Outcome) -> list[dict[str, Any]]:
    """One object a row, condition by condition."""

    def pair_ns(timed: Timed) -> float:
        return median(run.allocate_s + run.deallocate_s for run in timed.runs) / outcome.count * 1e9

    malloc_ns = {
        (row.condition, row.threads, row.reverse): pair_ns(row)
        for row in outcome.timed
        if row.name in (MALLOC.name, MALLOC_IN_REVERSE.name)
    }
    return [
        {
            "condition": timed.condition,
            "threads": timed.threads,
            "allocator": timed.name,
            "allocate_ns": median(run.allocate_s for run in timed.runs) / outcome.count * 1e9,
            "deallocate_ns": median(run.deallocate_s for run in timed.runs) / outcome.count * 1e9,
            "pair_ns": pair_ns(timed),
            "malloc_ratio": malloc_ns[timed.condition, timed.threads, timed.reverse] / pair_ns(timed),
        }
        for timed in outcome.timed
    ]


def lines(rows: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    """The rows of one condition's table: what was measured with one thread, and the ratio with two."""
    alone, with_threads = ([row for row in rows if row["threads"] == threads] for threads in (1, 2))
    return [
        (
            one["allocator"],
            *(f"{one[name]:.2f}" for name in ("allocate_ns", "deallocate_ns", "pair_ns")),
            *(f"{row['malloc_ratio']:.1f}" for row in (one, other)),
        )
        for one, other in zip(alone, with_threads, strict=True)
    ]


def measured(count: int, repeats: int) -> Outcome:
    """Have it measured in a process of its own."""
    command = [sys.executable, "-P", "-m", "venue.bench.allocating", str(count), str(repeats)]
    alone = os.environ | {"OPENBLAS_NUM_THREADS": "1"}  # numpy would start a thread for each core
    done = subprocess.run(command, env=alone, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True)
    return msgspec.json.decode(done.stdout, type=Outcome)
