"""`venue bench pipeline`: what it costs, and what it gains, to spread the work of a message over threads.

Binary market data is decoded, books are rebuilt, market makers react, and their orders pass the risk checks into a
simulated exchange: on one thread, on threads joined by mutex queues or by rings, and sharded by instrument. Every row
does the same work on the same input, and every row has to come to the same books, quotes and fills.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any, Final

import numpy as np

from venue.bench import pipeline_stages as stages
from venue.bench import pipeline_workload as workload
from venue.bench.maker import UPDATE, Exchange
from venue.bench.pipeline_stages import BATCH, BEGUN_NS, ENDED_NS
from venue.bench.pipeline_workload import INSTRUMENTS, MESSAGES, Market, Outcome, Workload
from venue.bench.report import Report, Rows, steps
from venue.engine import ring
from venue.engine.records import COMMAND, Array, aligned

PUBLISHED: Final = "11.04 inline; three threads: mutex 2.57 and 4.17, ring 4.30 and 11.29 (batch 1 and 64)"
"""M events/s of the C++20 engine Pulse on an Apple M1 Pro."""


@dataclass(frozen=True, slots=True)
class Row:
    """One way to spread the work."""

    name: str
    threads: int
    split: str
    """``whole``: each thread does all the work of its instruments; ``two`` or ``three``: stages joined by queues."""
    by_mutex: bool = False
    batch: int = BATCH


ROWS: Final = (
    Row("inline", 1, "whole"),
    *(
        Row(f"{split} threads, {'mutex' if by_mutex else 'ring'}, batch {batch}", threads, split, by_mutex, batch)
        for threads, split in ((3, "three"), (2, "two"))
        for by_mutex in (True, False)
        for batch in (1, BATCH)
    ),
    Row("sharded, 1 shard", 1, "whole"),
    Row("sharded, 2 shards", 2, "whole"),
)


class DifferentOutcomeError(Exception):
    """Two rows did not come to the same books, quotes and fills: a bug, and no figure counts."""


Stage = Callable[[Array], None]
"""What one thread does; it writes into the clock that it is given when it began and when it ended."""
Parts = list[tuple[list[int], Market, Exchange]]
"""Instruments, and the market and exchange that know how these ended."""


def whole_stages(load: Workload, row: Row) -> tuple[list[Stage], Parts]:
    """Each thread decodes the whole feed, skips what is not of its instruments, and does all the rest for these."""
    made: list[Stage] = []
    parts: Parts = []
    for instruments in workload.shards(load, row.threads):
        market = workload.market(load, instruments, ring.create(BATCH, COMMAND))
        exchange = workload.exchange()
        made.append(partial(stages.whole, market, exchange, load.data, load.ends_by(BATCH), aligned(1, UPDATE)))
        parts.append((instruments, market, exchange))
    return made, parts


def split_stages(load: Workload, row: Row) -> tuple[list[Stage], Parts]:
    """Feed and books, or feed, books; then strategy with risk and exchange."""
    everything = list(range(INSTRUMENTS))
    exchange = workload.exchange()
    updates = stages.join(UPDATE, row.by_mutex, row.batch)
    made: list[Stage] = [partial(stages.trade, exchange, updates)]
    if row.split == "two":
        market = workload.market(load, everything, ring.create(BATCH, COMMAND))
        made.append(partial(stages.feed_and_rebuild, market, load.data, load.ends_by(BATCH), updates))
    else:
        commands = stages.join(COMMAND, row.by_mutex, row.batch)
        market = workload.market(load, everything, commands.far)
        feed = market.decoder._replace(commands=commands.near, limit=len(commands.near.records))
        made.append(partial(stages.rebuild, market, commands, updates))
        made.append(partial(stages.feed, feed, load.data, load.ends_by(row.batch), commands))
    return made, [(everything, market, exchange)]


def run(load: Workload, row: Row) -> tuple[int, Outcome]:
    """Do all the work once, on fresh books: nanoseconds from the first stage's begin to the last one's end."""
    made, parts = (whole_stages if row.split == "whole" else split_stages)(load, row)
    clocks = np.zeros((len(made), 16), np.int64)
    start = threading.Barrier(len(made))

    def work(stage: Stage, clock: Array) -> None:
        start.wait()
        stage(clock)

    with ThreadPoolExecutor(len(made)) as pool:
        for done in [pool.submit(work, stage, clock) for stage, clock in zip(made, clocks, strict=True)]:
            done.result()
    elapsed_ns = int(clocks[:, ENDED_NS].max() - clocks[:, BEGUN_NS].min())
    return elapsed_ns, workload.outcome(parts)


def measure(load: Workload, repeats: int, progress: Callable[[str], None]) -> tuple[dict[str, int], Outcome]:
    """The median time of each row in ns, and what they agree on. DifferentOutcomeError if they do not.

    All rows take turns, so that a change of the machine's speed is one for all of them.
    """
    warm = Workload(load.data, load.ends[: 2 * BATCH], load.locates[: 2 * BATCH], load.live)
    for row in ROWS:
        progress(f"compiling: {row.name}")
        run(warm, row)
    times: dict[str, list[int]] = {row.name: [] for row in ROWS}
    agreed: Outcome | None = None
    for turn in range(repeats):
        for row in ROWS:
            progress(f"{turn + 1} of {repeats}: {row.name}")
            elapsed_ns, outcome = run(load, row)
            if agreed is not None and outcome != agreed:
                raise DifferentOutcomeError(f"{row.name} ended with {outcome}, the rows before with {agreed}")
            agreed = outcome
            times[row.name].append(elapsed_ns)
    assert agreed is not None
    return {name: int(median(values)) for name, values in times.items()}, agreed


def bench_pipeline(repeats: int, messages: int = MESSAGES) -> Report:
    """`venue bench pipeline`."""
    with steps(1 + len(ROWS) * (repeats + 1)) as shown:

        def progress(what: str) -> None:
            shown.done()
            shown.begin(what)

        shown.begin("making the input")
        load = workload.create(messages)
        times, outcome = measure(load, repeats, progress)
    cores = len(os.sched_getaffinity(0))
    figures = [figures_of(row, times, outcome.events, cores) for row in ROWS]
    table = Rows(
        f"From market data to orders, {INSTRUMENTS} instruments, median of {repeats}",
        ("how", "threads", "M events/s", "to inline"),
        [
            (
                str(one["row"]) + (" *" if one["more_threads_than_cores"] else ""),
                str(one["threads"]),
                f"{one['events_per_s'] / 1e6:.2f}",
                f"{one['ratio_to_inline']:.2f}",
            )
            for one in figures
        ],
    )
    notes = [
        f"All rows: {outcome.events:,} events, {outcome.quotes:,} enters, replaces and cancels, {outcome.rejected:,} "
        f"of them rejected, {outcome.fills:,} fills; the same final books (sha256 {outcome.sha256[:16]}…).",
        "An event is one market data message: decoded, applied to its book, and reacted to.",
        "Three threads: feed | books | makers with risk checks and exchange. Two: feed and books | the rest.",
        "Sharded: each thread decodes the whole feed and does all of the work for its own instruments, which are "
        "spread as evenly as their messages allow.",
        f"Published for Pulse (C++20, Apple M1 Pro), M events/s: {PUBLISHED}.",
    ]
    if any(one["more_threads_than_cores"] for one in figures):
        notes.append(f"* more threads than the {cores} cores here: they take turns, which says little of the joint.")
    return Report([table], {"repeats": repeats, "messages": messages} | outcome._asdict() | {"rows": figures}, notes)


def figures_of(row: Row, times: dict[str, int], events: int, cores: int) -> dict[str, Any]:
    """A row of the JSON object."""
    seconds = times[row.name] / 1e9
    return {
        "row": row.name,
        "threads": row.threads,
        "more_threads_than_cores": row.threads > cores,
        "seconds": seconds,
        "events_per_s": events / seconds,
        "ratio_to_inline": times[ROWS[0].name] / times[row.name],
    }
