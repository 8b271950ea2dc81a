"""`venue bench orders`: order entry of a real `venue serve` on loopback, with a compiled client in this process.

Order to ack with one order in flight, in turns with a bare uvloop echo server of the same sizes; then how many orders
a second are accepted and acknowledged with many in flight; then latencies at shares of that rate, from when an order
was due. Every order is one Enter that rests and is canceled later, so that two messages go each way for it.

The JSON object has, beside ``bench`` and ``conditions``: ``round_trip`` (``orders``; ``order_us``, ``echo_us`` and
``ratio``, each with ``p50``, ``p99`` and ``p99.9``), ``throughput`` (a list of ``connections``, ``orders``,
``orders_per_s``, and ``exchange_cpu_ns`` and ``client_cpu_ns``, both an order), ``latency`` (a list of ``share``,
``rate``, ``orders_per_s`` and ``latency_us``) and ``acknowledged``, the orders of the whole bench.
"""

from __future__ import annotations

import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from venue.bench import order_traffic as traffic
from venue.bench.exchange import BenchError, Served, account_names, accounts_toml, serving
from venue.bench.order_client import OrderClient, Run, percentile_us, prepare_socket
from venue.bench.report import Report, Rows, Steps, steps
from venue.engine.records import Array

CONNECTIONS: Final = (1, 4, 16)
SHARES: Final = (0.25, 0.5, 0.75, 0.9)
PERCENTS: Final = (50.0, 99.0, 99.9)

CONFIG: Final = """
[engine]
mode = "match"
[orders]
max_store_bytes = 68719476736
"""
"""No feed; no limits on the accounts; a session store that no run can fill, of which only what is used is taken."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured."""

    rounds: int = 20
    """Of round trips, each a block to the exchange and one to the echo server."""
    block: int = 2_000
    """Round trips of a block."""
    burst: int = 400_000
    """Orders of a run with many in flight."""
    repeats: int = 5
    seconds: float = 2.0
    """At each rate."""


def bench_orders(sizes: Sizes = Sizes()) -> Report:
    """`venue bench orders`. BenchError if an order is not acknowledged, or the exchange counts other orders."""
    with (
        steps(1 + len(CONNECTIONS) + len(SHARES)) as progress,
        serving(CONFIG + accounts_toml(max(CONNECTIONS))) as served,
    ):
        trips, entered = round_trips(served, sizes, progress)
        rows, best, more = throughput(served, sizes, progress)
        entered += more
        latencies, more = at_rates(served, sizes, progress, best)
        entered += more
        check(served, entered)
    figures = {"round_trip": trips, "throughput": rows, "latency": latencies, "acknowledged": entered}
    return Report(tables(figures, sizes), figures, notes(figures))


# --- the three parts --------------------------------------------------------------------------------------------------


def round_trips(served: Served, sizes: Sizes, progress: Steps) -> tuple[dict[str, Any], int]:
    """One order in flight, in turns with the echo server; and how many orders were entered."""
    progress.begin("one order in flight")
    orders, echoes = [], []
    with OrderClient(served.addresses["orders"], account_names(1)) as client, echoing() as echo:
        client.round_trips(sizes.block)
        echo_trips(echo, sizes.block)
        for _ in range(sizes.rounds):
            orders.append(client.round_trips(sizes.block).latencies_ns)
            echoes.append(echo_trips(echo, sizes.block))
    progress.done()
    order_us, echo_us = percentiles(np.concatenate(orders)), percentiles(np.concatenate(echoes))
    ratio = {name: order_us[name] / echo_us[name] for name in order_us}
    count = sizes.rounds * sizes.block
    return {"orders": count, "order_us": order_us, "echo_us": echo_us, "ratio": ratio}, client.orders


def throughput(served: Served, sizes: Sizes, progress: Steps) -> tuple[list[dict[str, Any]], tuple[int, float], int]:
    """Many in flight: a row for each number of connections, the best of them, and how many orders were entered."""
    rows: list[dict[str, Any]] = []
    entered = 0
    for connections in CONNECTIONS:
        progress.begin(f"many in flight, {connections} connections")
        with OrderClient(served.addresses["orders"], account_names(connections)) as client:
            client.run(sizes.burst // 4)
            exchange_s, client_s = cpu_s(served.pid), time.thread_time()
            runs = [client.run(sizes.burst) for _ in range(sizes.repeats)]
            orders = sum(run.orders for run in runs)
            rows.append(
                {
                    "connections": connections,
                    "orders": orders,
                    "orders_per_s": statistics.median(run.orders_per_s for run in runs),
                    "exchange_cpu_ns": (cpu_s(served.pid) - exchange_s) / orders * 1e9,
                    "client_cpu_ns": (time.thread_time() - client_s) / orders * 1e9,
                }
            )
        entered += client.orders
        progress.done()
    best: dict[str, Any] = max(rows, key=lambda row: row["orders_per_s"])
    return rows, (best["connections"], best["orders_per_s"]), entered


def at_rates(
    served: Served, sizes: Sizes, progress: Steps, best: tuple[int, float]
) -> tuple[list[dict[str, Any]], int]:
    """Latencies at shares of the best throughput, over as many connections; and how many orders were entered."""
    rows = []
    connections, orders_per_s = best
    with OrderClient(served.addresses["orders"], account_names(connections)) as client:
        for share in SHARES:
            rate = max(1, int(share * orders_per_s))
            progress.begin(f"{rate:,} orders/s")
            run: Run = client.run(max(connections, int(rate * sizes.seconds)), rate=rate)
            figures = {"share": share, "rate": rate, "orders_per_s": run.orders_per_s}
            rows.append(figures | {"latency_us": percentiles(run.latencies_ns)})
            progress.done()
    return rows, client.orders


def check(served: Served, entered: int) -> None:
    """The exchange has counted the same orders, and has none left. BenchError otherwise."""
    counted = served.counters()
    seen = {
        "Enter messages": int(counted.gateway["messages_in"][0, ord("O")]),
        "Accepted sent": int(counted.gateway["messages_out"][0, ord("A")]),
        "orders accepted": int(counted.matcher["orders_accepted"][0]),
        "orders canceled": int(counted.matcher["orders_canceled"][0]),
    }
    if wrong := [f"{count:,} {what}" for what, count in seen.items() if count != entered]:
        raise BenchError(f"{entered:,} orders were acknowledged, but the exchange counts {', '.join(wrong)}")


def percentiles(latencies_ns: Array) -> dict[str, float]:
    return {f"p{percent:g}": percentile_us(latencies_ns, percent) for percent in PERCENTS}


def cpu_s(pid: int) -> float:
    """What a process has used of all cores, in user and in kernel mode."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# --- the echo server ------------------------------------------------------------------------------------------------


@contextmanager
def echoing() -> Iterator[socket.socket]:
    """A connection to an echo server, a process of its own."""
    command = [sys.executable, "-m", "venue.bench.echo", str(traffic.ENTER_BYTES), str(traffic.ACCEPTED_BYTES)]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            port = process.stdout.readline()
            if not port:
                raise BenchError("the echo server did not start")
            with socket.create_connection(("127.0.0.1", int(port))) as line:
                prepare_socket(line)
                yield line
        finally:
            process.terminate()


def echo_trips(line: socket.socket, count: int) -> Array:
    """Latencies of round trips to the echo server."""
    c = traffic.connections(1)
    c.polls[0] = line.fileno()
    latencies_ns = np.zeros((1, count), np.int64)
    if traffic.echo_trips(c, count, latencies_ns) != traffic.DONE:
        raise BenchError("the echo server does not answer")
    return latencies_ns.reshape(-1)


# --- words ----------------------------------------------------------------------------------------------------------


def tables(figures: dict[str, Any], sizes: Sizes) -> list[Rows]:
    names = tuple(f"p{percent:g}" for percent in PERCENTS)
    trips = figures["round_trip"]
    return [
        Rows(
            "Order to ack, one order in flight, µs",
            ("", *names),
            [
                ("order", *(f"{trips['order_us'][name]:.1f}" for name in names)),
                ("echo", *(f"{trips['echo_us'][name]:.1f}" for name in names)),
                ("ratio", *(f"{trips['ratio'][name]:.2f}" for name in names)),
            ],
        ),
        Rows(
            f"Accepted and acknowledged, many in flight, median of {sizes.repeats}",
            ("connections", "orders/s", "CPU ns/order: exchange", "client"),
            [
                (
                    str(row["connections"]),
                    f"{row['orders_per_s']:,.0f}",
                    f"{row['exchange_cpu_ns']:,.0f}",
                    f"{row['client_cpu_ns']:,.0f}",
                )
                for row in figures["throughput"]
            ],
        ),
        Rows(
            "From when an order was due to its ack, µs",
            ("share of the best", "orders/s wanted", "orders/s", *names),
            [
                (
                    f"{row['share']:.0%}",
                    f"{row['rate']:,}",
                    f"{row['orders_per_s']:,.0f}",
                    *(f"{row['latency_us'][name]:,.1f}" for name in names),
                )
                for row in figures["latency"]
            ],
        ),
    ]


def notes(figures: dict[str, Any]) -> list[str]:
    return [
        f"{figures['acknowledged']:,} orders, every one accepted, acknowledged and later canceled; the exchange counts "
        "the same. An order is an Enter and a Cancel in, an Accepted and a Canceled out.",
        f"Each connection is one account with {traffic.LIVE} orders resting over 8 stocks, 2 sides and 16 prices; no "
        "limits, no feed. The client's thread, the exchange's two threads and the kernel's TCP share the cores.",
        "With one order in flight the exchange's threads still look for work when the next one comes, while the echo "
        "server sleeps and its core may, too: where waking takes long, as in virtual machines, the echo is the slower.",
    ]
