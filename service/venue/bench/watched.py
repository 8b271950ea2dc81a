"""`venue bench watched`: whether orders are slower while somebody watches.

A real `venue serve` on loopback takes orders at a steady rate, in short blocks: by turns nobody watches, and Prometheus
scrapes every second while three pages have a book open each. Both sides come from the same run, so that what else
happens on the machine meets both.

What is compared is the exchange's work, not the machine's mood: exchange and client run before all others if that is
allowed, and every core is kept awake on both sides.

The JSON object has, beside ``bench`` and ``conditions``: ``rate``, ``put_first``, ``pages``, ``blocks`` and ``orders``
(of each side), ``order_to_ack_us`` (the exchange's own histogram) and ``client_us`` (from when an order was due until
its answer was read), each with ``alone`` and ``watched`` (``p50``, ``p99`` and ``p99.9`` of all blocks together),
``p99_difference`` (a share), ``p99_difference_90`` (where it lies in nine of ten draws of the same blocks) and
``block_p99`` (a p99 of each block of each side); and what the watchers saw: ``watched_seconds``, ``scrapes``,
``scrape_bytes``, ``updates_per_page_s``; and ``telemetry_cpu``, a share of one core.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from venue.bench.exchange import BenchError, Served, account_names, accounts_toml, serving
from venue.bench.order_client import OrderClient, percentile_us
from venue.bench.report import Report, Rows, steps
from venue.engine import cells
from venue.engine.cells import Int64s
from venue.engine.counters import ORDER_TO_ACK

PERCENTS: Final = (50.0, 99.0, 99.9)
NAMES: Final = tuple(f"p{percent:g}" for percent in PERCENTS)
SIDES: Final = ("alone", "watched")
RESAMPLES: Final = 200
LEAST_UPDATES_A_S: Final = 10
"""Of the 20 that a page can get: with less, the exchange was hardly watched."""
Percentile = Callable[[Sequence[Int64s], float], float]
CONFIG: Final = """
[engine]
mode = "match"
wait = "park"
"""
"""Parked while there is nothing to do: a thread that comes before all others must not spin."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured."""

    rate: int = 2_000
    """Orders a second, each an Enter and a Cancel."""
    blocks: int = 8
    """Of each side."""
    block_s: float = 2.0
    pages: int = 3


@dataclass(slots=True)
class Side:
    """What was measured while nobody, or somebody, watched."""

    latencies_ns: list[Int64s]
    """A block each, as the client saw them."""
    histograms: list[Int64s]
    """A block each: what the exchange's order-to-ack histogram gained."""


def bench_watched(sizes: Sizes = Sizes()) -> Report:
    """`venue bench watched`. BenchError if an order is not answered, or the watchers see nothing."""
    alone, watched = Side([], []), Side([], [])
    seen: list[dict[str, float]] = []
    with (
        steps(2 * sizes.blocks) as progress,
        serving(CONFIG + accounts_toml(1)) as served,
        OrderClient(served.addresses["orders"], account_names(1)) as client,
        watchers(served, sizes.pages) as watch,
        awake_cores(),
    ):
        first = put_first(served)
        client.run(sizes.rate, rate=sizes.rate)
        watch.begin()  # the first time of everything that watching needs
        watch.end()
        cpu_s = -telemetry_cpu_s(served)
        for block in range(sizes.blocks):
            for side in (alone, watched) if block % 2 == 0 else (watched, alone):  # a drift meets both
                progress.begin("watched" if side is watched else "alone")
                if side is watched:
                    watch.begin()
                measure(served, client, sizes, side)
                if side is watched:
                    seen.append(watch.end())
                progress.done()
        cpu_s += telemetry_cpu_s(served)
    figures = {
        "rate": sizes.rate,
        "put_first": first,
        "pages": sizes.pages,
        "blocks": sizes.blocks,
        "orders": sum(len(block) for block in alone.latencies_ns),
        "order_to_ack_us": compare(alone.histograms, watched.histograms, of_histograms),
        "client_us": compare(alone.latencies_ns, watched.latencies_ns, of_samples),
    } | what_was_seen(seen, sizes, cpu_s)
    return Report(tables(figures), figures, notes(figures, sizes))


def measure(served: Served, client: OrderClient, sizes: Sizes, side: Side) -> None:
    """One block."""
    before = served.counters().histograms[ORDER_TO_ACK]
    run = client.run(int(sizes.rate * sizes.block_s), rate=sizes.rate)
    side.histograms.append(served.counters().histograms[ORDER_TO_ACK] - before)
    side.latencies_ns.append(run.latencies_ns)


# --- watching ---------------------------------------------------------------------------------------------------------


class Watchers:
    """The process that watches. One thread uses it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def begin(self) -> None:
        """Returns once every page has its book and the first scrape is in."""
        self._say()

    def end(self) -> dict[str, float]:
        """What was seen since then; returns once all have gone."""
        return self._say()

    def _say(self) -> dict[str, float]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise BenchError("the watchers are gone; what they said is above")
        answer: dict[str, float] = json.loads(line)
        return answer


@contextmanager
def watchers(served: Served, pages: int) -> Iterator[Watchers]:
    host, port = served.addresses["http"]
    command = [sys.executable, "-m", "venue.bench.watchers", host, str(port), str(pages)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Watchers(process)
        finally:
            process.terminate()


AWAKE: Final = """
import os
os.nice(19)
os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
parent = os.getppid()
while os.getppid() == parent:
    for _ in range(100_000):
        pass
"""


@contextmanager
def awake_cores() -> Iterator[None]:
    """Keep every core busy with what gives way to all else, on both sides alike.

    A virtual machine's core that has gone to sleep takes long to wake: whoever watches keeps it awake, and orders would
    be faster for it.
    """
    with ExitStack() as running:
        for _ in os.sched_getaffinity(0):
            process = running.enter_context(subprocess.Popen([sys.executable, "-c", AWAKE]))
            running.callback(process.terminate)
        yield


def put_first(served: Served) -> bool:
    """Let the exchange's threads and this one run before all others, if that is allowed (it is to root).

    Two cores have more threads to run here than they can. Who waits for whom then decides the p99, by far more than
    what watching takes: without this, orders were even faster for being watched.
    """
    threads = [int(task.name) for task in Path(f"/proc/{served.pid}/task").iterdir()]
    try:
        for thread in (0, *threads):
            os.sched_setscheduler(thread, os.SCHED_RR, os.sched_param(1))
    except PermissionError:
        return False
    return True


def telemetry_cpu_s(served: Served) -> float:
    """What the telemetry process, the exchange's only child, has used of a core so far."""
    (child,) = Path(f"/proc/{served.pid}/task/{served.pid}/children").read_text().split()
    fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# --- figures ----------------------------------------------------------------------------------------------------------


def of_samples(blocks: Sequence[Int64s], percent: float) -> float:
    """A percentile of blocks of latencies in ns together, in µs."""
    return percentile_us(np.concatenate(blocks), percent)


def of_histograms(blocks: Sequence[Int64s], percent: float) -> float:
    """The same of histograms; a cell's samples are taken to lie evenly in it."""
    row = np.sum(blocks, axis=0)[: cells.CELLS]
    below = np.concatenate(([0], np.cumsum(row)))
    rank = percent / 100 * below[-1]
    place = int(np.searchsorted(below, rank)) - 1
    low = int(cells.EDGES[place - 1]) if place else 0
    share = float(rank - below[place]) / int(row[place])
    return (low + (int(cells.EDGES[place]) - low) * share) / 1e3


def compare(alone: list[Int64s], watched: list[Int64s], percentile: Percentile) -> dict[str, Any]:
    """Both sides in figures, and the difference of their p99 with its spread over the blocks."""
    pooled = {name: {f"p{p:g}": percentile(blocks, p) for p in PERCENTS} for name, blocks in
              (("alone", alone), ("watched", watched))}  # fmt: skip
    chance = np.random.default_rng(1)
    differences = []
    for _ in range(RESAMPLES):
        drawn = chance.integers(0, len(alone), len(alone))
        one, other = [[blocks[i] for i in drawn] for blocks in (alone, watched)]
        differences.append(percentile(other, 99.0) / percentile(one, 99.0) - 1)
    return pooled | {
        "p99_difference": pooled["watched"]["p99"] / pooled["alone"]["p99"] - 1,
        "p99_difference_90": [float(edge) for edge in np.percentile(differences, (5, 95))],
        "block_p99": {
            "alone": [percentile([block], 99.0) for block in alone],
            "watched": [percentile([block], 99.0) for block in watched],
        },
    }


def what_was_seen(seen: list[dict[str, float]], sizes: Sizes, cpu_s: float) -> dict[str, float]:
    seconds = sum(each["seconds"] for each in seen)
    totals = {name: sum(each[name] for each in seen) for name in ("scrapes", "scraped_bytes", "updates")}
    if not totals["scrapes"] or not totals["updates"]:
        raise BenchError("the watchers saw nothing")
    return {
        "watched_seconds": seconds,
        "scrapes": totals["scrapes"],
        "scrape_bytes": totals["scraped_bytes"] / max(1, totals["scrapes"]),
        "updates_per_page_s": totals["updates"] / seconds / sizes.pages,
        "telemetry_cpu": cpu_s / seconds,
    }


# --- words ------------------------------------------------------------------------------------------------------------


def tables(figures: dict[str, Any]) -> list[Rows]:
    titles = {
        "order_to_ack_us": "Order to ack, as the exchange measures it, µs",
        "client_us": "From when an order was due until its answer was read by the client, µs",
    }
    found = []
    for key, title in titles.items():
        both = figures[key]
        rows = [(name, *(f"{both[name][p]:,.1f}" for p in NAMES), spread(both["block_p99"][name])) for name in SIDES]
        low, high = both["p99_difference_90"]
        change = ("difference", "", f"{both['p99_difference']:+.1%}", "", f"{low:+.1%} to {high:+.1%}")
        found.append(Rows(title, ("", *NAMES, "p99 of the blocks"), [*rows, change]))
    return found


def spread(values: list[float]) -> str:
    """The middle half."""
    low, high = np.percentile(values, (25, 75))
    return f"{low:,.1f} to {high:,.1f}"


def notes(figures: dict[str, Any], sizes: Sizes) -> list[str]:
    found = [
        f"{sizes.rate:,} orders a second (an Enter and a Cancel each), {sizes.blocks} blocks of {sizes.block_s:g} s of "
        "each side. p50, p99 and p99.9 are of all blocks of a side together; of the blocks' own p99 the middle half is "
        "shown. The range of the difference is where it lies in nine of ten draws of the same blocks.",
        f"Watched for {figures['watched_seconds']:.0f} s by {sizes.pages} pages, each with "
        f"{figures['updates_per_page_s']:.1f} updates a second, and by {figures['scrapes']:.0f} scrapes of "
        f"{figures['scrape_bytes']:,.0f} bytes. "
        f"The telemetry process used {figures['telemetry_cpu']:.1%} of a core. Pages and Prometheus stand for other "
        "machines: their process gives way to everything else.",
    ]
    if figures["put_first"]:
        found.append("The exchange and the client run before all other threads (SCHED_RR), on both sides.")
    else:
        found.append("Not allowed to let the exchange and the client run first: scheduling decides much of the p99.")
    if figures["updates_per_page_s"] < LEAST_UPDATES_A_S:
        found.append("That is too little to say anything: the machine is too busy for this.")
    return found
