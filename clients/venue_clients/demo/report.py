"""What a demo prints at the end: who traded, how long orders took, how well the feed arrived."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from typing import Final

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from venue_clients.demo.figures import FEED_TO_BOOK, ORDER_TO_ACK, STAGE, STAGES, Watch
from venue_clients.demo.screen import duration
from venue_clients.demo.tape import Tape
from venue_clients.prices import dollars
from venue_clients.touch import Touch

PERCENTILES: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999}
WIDTH: Final = 80
"""Of all tables."""


def output() -> Console:
    """Standard output: with colours on a terminal, plain elsewhere; wide enough for the tables, whatever it is."""
    return Console(highlight=False, width=max(WIDTH, Console().width) if sys.stdout.isatty() else WIDTH)


def print_report(console: Console, watch: Watch, tape: Tape, roles: Mapping[str, str], sent: int | None) -> None:
    """`roles` say in words what each account does; `sent` is how many messages went out on the feed, None while more
    go out."""
    console.print(fills(watch, tape, roles), orders(watch), latencies(watch), feed(watch, sent), divergence(watch))


def fills(watch: Watch, tape: Tape, roles: Mapping[str, str]) -> Table:
    table = _table("Fills", "fills", "shares")
    for role, words in roles.items():
        volume = tape.by_role[role]
        table.add_row(Text.assemble(role, (f"  {words}", "dim")), f"{volume.fills:,}", f"{volume.shares:,}")
    table.add_section()
    for name, volume in (("trades between the two", tape.between), ("trades with recorded orders", tape.with_recorded)):
        table.add_row(name, f"{volume.fills:,}", f"{volume.shares:,}")
    figures = watch.latest
    trades, shares = figures.total("venue_fills_total"), figures.total("venue_filled_shares_total")
    table.add_row("trades in all", f"{trades:,}", f"{shares:,}", style="bold")
    return table


def orders(watch: Watch) -> Text:
    names = ("accepted", "replaced", "canceled", "rejected")
    counts = [f"{watch.latest.total('venue_orders_total', outcome=name):,} {name}" for name in names]
    return Text(f"orders: {', '.join(counts)}\n", style="dim")


def latencies(watch: Watch) -> Table:
    table = _table("Latency", *PERCENTILES, "max")

    def add(title: str, name: str, stage: str = "", style: str = "") -> None:
        labels = {"stage": stage} if stage else {}
        values = [watch.latest.percentile(name, q, **labels) for q in PERCENTILES.values()]
        largest = watch.largest(name, stage)
        shown = [value if largest is None or value is None else min(value, largest) for value in values]
        table.add_row(title, *(duration(value) for value in (*shown, largest)), style=style)

    add("order to ack", ORDER_TO_ACK, style="bold")
    for stage, words in STAGES.items():
        add(f"  {words}", STAGE, stage)
    add("datagram to book", FEED_TO_BOOK)
    return table


def feed(watch: Watch, sent: int | None) -> Table:
    total = watch.latest.total
    pairs = [
        ("sessions", total("venue_feed_sessions_total")) if sent is None else ("messages sent", sent),
        ("messages received", total("venue_feed_messages_total")),
        ("datagrams", total("venue_feed_datagrams_total")),
        ("gaps", total("venue_feed_gaps_total")),
        ("recovered", total("venue_feed_recovered_messages_total")),
        ("missing", total("venue_feed_missing_messages_total")),
        ("duplicates", total("venue_feed_duplicate_messages_total")),
        ("kernel drops", total("venue_feed_kernel_drops_total")),
        ("unknown references", total("venue_book_anomalies_total", kind="unknown_reference")),
    ]
    table = _table("Feed", "", "", "", "", "")
    rows = len(pairs) // 3
    for row in range(rows):
        table.add_row(*(cell for name, count in pairs[row::rows] for cell in (name, f"{count:,}")))
    return table


def divergence(watch: Watch) -> Text:
    executions = watch.latest.total("venue_divergence_events_total")
    shares = watch.latest.total("venue_divergence_shares_total")
    return Text(
        f"divergence: {executions:,} times, {shares:,} shares that history traded were taken already\n",
        style="dim",
    )


def print_next_steps(console: Console, addresses: Mapping[str, tuple[str, int]], symbol: str, touch: Touch) -> None:
    """What to do with an exchange that goes on running."""
    port, (host, http_port) = addresses["orders"][1], addresses["http"]
    price = dollars(touch.ask) if touch.ask else "market"
    console.print("Everything goes on until Ctrl-C. Try in another terminal:\n", style="bold")
    for command in (
        f"{program()} trade buy {symbol} 100 {price} --port {port}",
        f"{program()} load --rate 2000 --symbols {symbol} --port {port}",
        f"curl http://{host}:{http_port}/api/book/{symbol}",
    ):
        console.print(f"    {command}", style="cyan", soft_wrap=True)
    console.print()


def program() -> str:
    """How whoever started this may call us."""
    if shutil.which("venue"):
        return "venue"
    return f"{sys.executable} -m venue" if sys.argv[0].endswith("__main__.py") else sys.argv[0]


def _table(title: str, *columns: str) -> Table:
    """The first column takes what room the others leave."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, width=WIDTH)
    table.add_column(Text(title, style="bold cyan"), ratio=1, no_wrap=True)
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    return table
