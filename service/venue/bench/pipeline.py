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
from venue.bench.pipeline_stages import BATCH, BEGUN_NS, ENDED_NS, ROOM
from venue.bench.pipeline_workload import INSTRUMENTS, MESSAGES, Market, Outcome, Workload
from venue.bench.report import Report, Rows, steps
from venue.bench.warming import WARM_NS, begin_warm
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
    """``inline``: all work on one thread; ``shards``: each thread does all of it for its instruments; ``two`` or
    ``three``: stages joined by queues."""
    by_mutex: bool = False
    batch: int = BATCH


ROWS: Final = (
    Row("inline", 1, "inline"),
    *(
        Row(f"{split} threads, {'mutex' if by_mutex else 'ring'}, batch {batch}", threads, split, by_mutex, batch)
        for threads, split in ((3, "three"), (2, "two"))
        for by_mutex in (True, False)
        for batch in (1, BATCH)
    ),
    Row("sharded, 1 shard", 1, "shards"),
    Row("sharded, 2 shards", 2, "shards"),
)


class DifferentOutcomeError(Exception):
    """Two rows did not come to the same books, quotes and fills, or one left out messages: a bug, no figure counts."""


Stage = Callable[[Array], None]
"""What one thread does; it writes into the clock that it is given when it began and when it ended."""
Parts = list[tuple[list[int], Market, Exchange]]
"""Instruments, and the market and exchange that know how these ended."""


def whole_stages(load: Workload, row: Row) -> tuple[list[Stage], Parts]:
    """Each thread does everything for its instruments, with as many of their messages at a time as inline has."""
    made: list[Stage] = []
    parts: Parts = []
    batch = BATCH * row.threads
    for instruments in workload.shards(load, row.threads):
        market = workload.market(load, instruments, ring.create(batch, COMMAND))
        exchange = workload.exchange()
        feed, update = (load.data, load.ends_by(batch)), aligned(1, UPDATE)
        if row.split == "shards":
            made.append(partial(stages.shard, market, exchange, *feed, aligned(batch * ROOM, np.dtype("u1")), update))
        else:
            made.append(partial(stages.whole, market, exchange, *feed, update))
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
    made, parts = (whole_stages if row.split in ("inline", "shards") else split_stages)(load, row)
    clocks = np.zeros((len(made), 16), np.int64)
    start = threading.Barrier(len(made))

    def work(stage: Stage, clock: Array) -> None:
        begin_warm(start)
        stage(clock)

    with ThreadPoolExecutor(len(made)) as pool:
        for done in [pool.submit(work, stage, clock) for stage, clock in zip(made, clocks, strict=True)]:
            done.result()
    elapsed_ns = int(clocks[:, ENDED_NS].max() - clocks[:, BEGUN_NS].min())
    return elapsed_ns, workload.outcome(parts)


def measure(load: Workload, repeats: int, progress: Callable[[str], None]) -> tuple[dict[str, int], Outcome]:
    """The median time of each row in ns, and what they agree on.

    DifferentOutcomeError if they do not, or if they did not react to as many messages as the input has for them.

    All rows take turns, so that a change of the machine's speed is one for all of them.
    """
    warm = load.first(2 * BATCH)
    for row in ROWS:
        progress(f"compiling: {row.name}")
        run(warm, row)
    times: dict[str, list[int]] = {row.name: [] for row in ROWS}
    agreed: Outcome | None = None
    for turn in range(repeats):
        for row in ROWS:
            progress(f"{turn + 1} of {repeats}: {row.name}")
            elapsed_ns, outcome = run(load, row)
            if outcome.events != load.events():
                raise DifferentOutcomeError(f"{row.name} reacted to {outcome.events} messages of {load.events()}")
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
        f"Each core is kept busy for {WARM_NS // 1_000_000} ms before the start: one that has slept is slow at first.",
        f"Ring: a consumer that has caught up pauses {stages.PAUSES} times before it looks again.",
        "Sharded: each thread looks through the whole feed, takes the messages of its own instruments out of it and "
        "does all of the work for these; each has as many of them, and about as many messages.",
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
