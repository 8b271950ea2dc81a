"""`venue bench …`: each prints tables for people or, with --json, one JSON object. Benches are imported when called."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from venue.bench.report import conditions, show

app = typer.Typer(help="Measure it.", no_args_is_help=True)

AsJson = Annotated[bool, typer.Option("--json", help="One JSON object instead of tables.")]
Repeats = Annotated[int, typer.Option(min=1, help="Runs of each row; the median counts.")]


@app.callback()
def bench() -> None:
    """Measure the exchange. Run benches on a quiet machine: the figures are the median of several runs."""


@app.command()
def match(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A workload of the matching-engine benchmark, plain or xz.")
    ],
    repeats: Repeats = 5,
    as_json: AsJson = False,
) -> None:
    """Match a workload in one thread and print the SHA-256 of its reports.

    The time is that of matching and writing the reports into memory. Reading the file, sorting, formatting and hashing
    are not in it. The hash has to be the one that is published for the workload.

    venue bench match orders_normal_s23_n1000000.bin.xz --json
    """
    from venue.bench.match import bench_match

    before = conditions()
    show("match", bench_match(file, repeats), before, as_json)


@app.command()
def orders(as_json: AsJson = False) -> None:
    """Order entry over TCP on loopback: round trip against an echo server, throughput, latency against rate.

    A real `venue serve` and a compiled client on this machine share its cores. Every order has to be acknowledged.

    venue bench orders
    """
    from venue.bench.orders import bench_orders

    before = conditions()
    show("orders", bench_orders(), before, as_json)


@app.command()
def pipeline(repeats: Repeats = 5, as_json: AsJson = False) -> None:
    """Decode a feed, rebuild books, quote and trade: on one thread, over queues and rings, and sharded.

    Eight stocks, a million messages of a made-up morning, a market maker in each stock, its orders through the risk
    checks into a simulated exchange. All rows do the same work and have to end with the same books, quotes and fills.
    Rows with more threads than cores are marked.

    venue bench pipeline --repeats 9
    """
    from venue.bench.pipeline import bench_pipeline

    before = conditions()
    show("pipeline", bench_pipeline(repeats), before, as_json)


@app.command()
def feed(as_json: AsJson = False) -> None:
    """Market data over UDP on loopback: the highest rate without loss, against a bare recvmmsg loop.

    A real `venue serve` and a compiled sender on this machine share its cores.

    venue bench feed
    """
    from venue.bench.feed import bench_feed

    before = conditions()
    show("feed", bench_feed(), before, as_json)


@app.command()
def handoff(repeats: Repeats = 5, as_json: AsJson = False) -> None:
    """Hand records from thread to thread: latency through the ring and a mutex queue, throughput of three rings.

    Latency is at a steady million messages a second, from when each message was due. Both threads spin: this needs two
    free cores.

    venue bench handoff
    """
    from venue.bench.handoff import bench_handoff

    before = conditions()
    show("handoff", bench_handoff(repeats), before, as_json)


@app.command()
def allocators(repeats: Repeats = 7, as_json: AsJson = False) -> None:
    """Linear, stack, pool and free list against malloc: a million allocations of 16 bytes, then as many frees.

    All are called from compiled code of the same shape, with everything initialised before. The ratios are those of an
    allocation and a deallocation together.

    venue bench allocators
    """
    from venue.bench.allocators import bench_allocators

    before = conditions()
    show("allocators", bench_allocators(repeats), before, as_json)


@app.command()
def watched(as_json: AsJson = False) -> None:
    """Compare the latency of orders while nobody watches with that while Prometheus and three pages do.

    Both by turns in the same run, in blocks of two seconds. It counts as unnoticed if the p99 differs by less than the
    blocks among each other.
    """
    from venue.bench.watched import bench_watched

    before = conditions()
    show("watched", bench_watched(), before, as_json)


@app.command()
def book(
    file: Annotated[
        Path | None,
        typer.Argument(metavar="[FILE]", help="An ITCH 5.0 BinaryFILE, plain or gzip, instead of a made-up flow."),
    ] = None,
    repeats: Repeats = 3,
    as_json: AsJson = False,
) -> None:
    """Build books from ITCH messages, and see what more symbols and more live orders cost.

    Without a file: 10 million messages over 2,000 symbols with some 340,000 live orders, made up in memory (1 GB),
    then a million for 8 to 8,000 symbols and for 10,000 to 2,000,000 live orders.

    venue bench book --json
    """
    from venue.bench.book import bench_book

    before = conditions()
    show("book", bench_book(file, repeats), before, as_json)


@app.command()
def start(repeats: Repeats = 1, as_json: AsJson = False) -> None:
    """Start `venue serve` with an empty compile cache, then five times with a full one: seconds until it is ready.

    venue bench start
    """
    from venue.bench.start import bench_start

    before = conditions()
    show("start", bench_start(repeats), before, as_json)
