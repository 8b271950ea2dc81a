"""`venue stat`: a running or dead exchange in a terminal, from its counters page alone."""

from __future__ import annotations

import dataclasses
import time
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final

import numpy as np
import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from venue.telemetry import answers, pages
from venue.telemetry.answers import encode
from venue.telemetry.figures import Figures
from venue.telemetry.page import Page, open_read_only
from venue.telemetry.pages import PageError
from venue.telemetry.window import Recent, Window

REFRESH_S: Final = 0.5
NS_A_SECOND: Final = 1_000_000_000
UNITS: Final = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs"))


def stat(
    pid: Annotated[
        int | None, typer.Argument(help="Process of the exchange; without it the newest running one, or dead one.")
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Go on until Ctrl-C.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object, as /api/stats.")] = False,
    list_: Annotated[bool, typer.Option("--list", "-l", help="Only say which exchanges there are.")] = False,
) -> None:
    """Look at a running exchange, or at what a crashed one has left behind.

    Reads the counters page in shared memory and nothing else: the exchange does not notice. The percentiles are those
    since the start; with --watch, those of the last ten seconds.
    """
    console = Console()
    found = pages.list_pages()
    if list_:
        console.print(listing(found))
        return
    page = open_read_only(choose(found, pid).path)
    if as_json and not watch:
        print(encode(Figures(page, since_the_start(page)).stats()).decode())
    elif not watch:
        console.print(view(Figures(page, since_the_start(page)).stats(), int(page.header["pid"][0]), "since the start"))
    else:
        follow(page, console, as_json=as_json)


def choose(found: list[pages.PageFile], pid: int | None) -> pages.PageFile:
    """The page of a process, or the newest one, of a running exchange if there is one. PageError if there is none."""
    for page in found:
        if pid is None or page.pid == pid:
            return page
    raise PageError("no exchange has left a counters page" if pid is None else f"no exchange with the pid {pid}")


def since_the_start(page: Page) -> Window:
    """A window that begins with nothing."""
    views = page.snapshot()
    nothing = {name: np.zeros_like(getattr(views, name)) for name in Recent._fields}
    return Window(dataclasses.replace(views, **nothing), time.monotonic_ns())


def follow(page: Page, console: Console, *, as_json: bool) -> None:
    """Show the figures again and again until Ctrl-C, or until the exchange has ended."""
    window = Window(page.snapshot(), time.monotonic_ns())
    figures, pid = Figures(page, window), int(page.header["pid"][0])
    with Live(console=console, auto_refresh=False, screen=False) as screen:
        while True:
            window.keep(page.snapshot(), time.monotonic_ns())
            figures.tick()
            stats = figures.stats()
            if as_json:
                print(encode(stats).decode(), flush=True)
            else:
                screen.update(view(stats, pid, "the last 10 s"), refresh=True)
            if not page.owner_alive():
                return
            time.sleep(REFRESH_S)


# --- what it looks like -------------------------------------------------------------------------------------------


def listing(found: list[pages.PageFile]) -> RenderableType:
    """All exchanges that have a page."""
    table = Table("pid", "state", "mode", "started", "version", title="exchanges", title_justify="left")
    for file in found:
        try:
            views = open_read_only(file.path).snapshot()
        except PageError as error:
            table.add_row(str(file.pid), "?", str(error), "", "")
            continue
        started = datetime.fromtimestamp(int(views.header["started_at_ns"][0]) / 1e9).isoformat(" ", "seconds")
        state = views.state.name.lower()
        if not file.alive:
            state = f"dead for {age(time.time() - int(views.header['heartbeat_at_ns'][0]) / 1e9)}, was {state}"
        table.add_row(str(file.pid), state, views.mode, started, views.venue_version)
    return table if found else Text("no exchange has left a counters page")


def view(stats: answers.Stats, pid: int, span: str) -> RenderableType:
    """Everything, for a terminal of 80 columns."""
    head = Text.assemble(
        ("venue ", "bold"), f"{stats.version}  pid {pid}  ", (stats.state, "bold"), f"  mode {stats.mode}  "
    )
    head.append(f"up {stats.uptime_s:,.0f} s")
    if stats.state == "dead":
        heard = datetime.fromisoformat(stats.started_at).astimezone() + timedelta(seconds=stats.uptime_s)
        ago = age((datetime.now(UTC) - heard).total_seconds())
        head.append(f"\nlast sign of life {heard:%Y-%m-%d %H:%M:%S}, {ago} ago")
    return Group(head, latency(stats, span), flow(stats), accounts(stats))


def latency(stats: answers.Stats, span: str) -> Table:
    table = Table("", "count", "p50", "p99", "max", title=f"latency, {span}", title_justify="left")
    clients = {
        f"of {session.account}": session.order_to_ack for session in stats.sessions if session.order_to_ack.count
    }
    rows = {"order to ack": stats.order_to_ack, **clients, **stats.stages, "feed to book": stats.feed.to_book}
    for name, row in rows.items():
        cells = (duration(row.p50_ns), duration(row.p99_ns), duration(row.max_ns))
        table.add_row(name.replace("_", " "), f"{row.count:,}", *cells)
    for column in table.columns[1:]:
        column.justify = "right"
    return table


def flow(stats: answers.Stats) -> Table:
    """Feed, orders and rings, two figures a line."""
    feed, ring = stats.feed, stats.ring
    figures = {
        "feed": clock(feed.time_ns),
        "lag": duration(feed.lag_ns),
        "messages": f"{feed.messages:,}",
        "a second": f"{feed.rate_per_s:,.0f}",
        "gaps": f"{feed.gaps:,}",
        "missing": f"{feed.missing:,}",
        "kernel drops": f"{feed.kernel_drops:,}",
        "incomplete books": f"{feed.incomplete_books:,}",
        "live orders": f"{stats.live_orders:,}",
        "of clients": f"{stats.live_own_orders:,}",
        "fills": f"{stats.fills:,}",
        "filled shares": f"{stats.filled_shares:,}",
        **{name.replace("_", " "): f"{count:,}" for name, count in stats.orders.items() if count},
        **{f"rejected: {name.replace('_', ' ')}": f"{count:,}" for name, count in stats.rejects.items()},
        "command ring": f"{ring.command_depth:,} of {ring.capacity:,}, at most {ring.high_water:,}",
        "event ring full": f"{ring.event_full:,}",
    }
    table = Table.grid(padding=(0, 2))
    pairs = list(figures.items())
    for i in range(0, len(pairs), 2):
        table.add_row(*[text for pair in pairs[i : i + 2] for text in pair])
    return table


def accounts(stats: answers.Stats) -> Table:
    table = Table(
        "account", "client", "in", "out", "unsent", "orders", "shares", title="accounts", title_justify="left"
    )
    for session in stats.sessions:
        peer = ("killed, " if session.killed else "") + (session.peer or "not connected")
        numbers = (
            session.messages_in,
            session.sequence,
            session.unsent_bytes,
            session.open_orders,
            session.open_shares,
        )
        table.add_row(session.account, peer, *[f"{number:,}" for number in numbers])
    for column in table.columns[2:]:
        column.justify = "right"
    return table


def duration(value_ns: int | None) -> str:
    """With three digits and a unit; a dash for none."""
    if value_ns is None:
        return "–"
    for unit_ns, unit in UNITS:
        if value_ns >= unit_ns:
            value = value_ns / unit_ns
            return f"{value:,.{2 if value < 10 else 1 if value < 100 else 0}f} {unit}"
    return f"{value_ns} ns"


def age(seconds: float) -> str:
    """In whole units of the largest that fits."""
    for unit_s, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= unit_s:
            return f"{int(seconds // unit_s)} {unit}"
    return f"{max(0, int(seconds))} s"


def clock(time_ns: int | None) -> str:
    """A time of day; a dash for none."""
    if time_ns is None:
        return "–"
    seconds = time_ns // NS_A_SECOND
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
