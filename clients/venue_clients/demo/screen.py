"""What a demo shows while it runs: a picture that moves on a terminal, and a line every few seconds elsewhere.

All of it goes to standard error; only the report at the end is output.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from venue_clients.demo.figures import ORDER_TO_ACK, Watch
from venue_clients.prices import dollars
from venue_clients.touch import Touch

WIDTH: Final = 76
"""Room on a terminal of 80 columns for the ^C that it echoes: on a line of its own it would spoil the clearing."""
LINE_EVERY_S: Final = 3.0
STOCKS_SHOWN: Final = 3


@dataclass(frozen=True, slots=True)
class Moment:
    """What there is to show now."""

    title: str
    elapsed_s: float
    seconds: float | None
    """How long the demo takes; None = until Ctrl-C."""
    recorded_ns: int
    watch: Watch
    stocks: Sequence[tuple[str, Touch, int]]
    """Symbol, touch of the feed, shares that the market maker holds."""


class Screen:
    """Where it is shown."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Live | None = None
        self._line_at_s = 0.0

    @property
    def moves(self) -> bool:
        return self._console.is_terminal

    @contextmanager
    def picture(self) -> Iterator[None]:
        """On a terminal, `show` and `waiting` draw in one place as long as this is open, which then is cleared."""
        if not self.moves:
            yield
            return
        with Live(console=self._console, auto_refresh=False, transient=True) as self._live:
            yield
        self._live = None

    def say(self, text: str) -> None:
        """One line that stays."""
        self._console.print(text, highlight=False, soft_wrap=True)

    def waiting(self, text: str, since_s: float) -> None:
        """Something is under way that takes its time."""
        if self._live is not None:
            self._live.update(Spinner("dots", f"{text} · {since_s:.0f} s", style="cyan"), refresh=True)

    def show(self, moment: Moment) -> None:
        if self._live is not None:
            self._live.update(picture(moment), refresh=True)
        elif not self.moves and moment.elapsed_s - self._line_at_s >= LINE_EVERY_S:
            self._line_at_s = moment.elapsed_s
            self.say(line(moment))


def picture(moment: Moment) -> RenderableType:
    parts = Group(_progress(moment), "", _flow(moment), "", _stocks(moment))
    hint = "Ctrl-C stops it" if moment.seconds is None else "Ctrl-C ends it early"
    return Panel(
        parts,
        title=Text.assemble(("venue demo", "bold"), f" · {moment.title}"),
        subtitle=Text(hint, style="dim"),
        title_align="left",
        subtitle_align="right",
        width=WIDTH,
        padding=(1, 2),
        border_style="cyan",
    )


def _progress(moment: Moment) -> RenderableType:
    row = Table.grid(padding=(0, 2))
    recorded = Text.assemble(("recorded clock ", "dim"), clock(moment.recorded_ns))
    if moment.seconds is None:
        row.add_row(Text(minutes(moment.elapsed_s), style="bold"), recorded)
    else:
        done = min(moment.elapsed_s, moment.seconds)
        row.add_row(
            Text.assemble((minutes(done), "bold"), (f" of {minutes(moment.seconds)}", "dim")),
            ProgressBar(total=moment.seconds, completed=done, width=23, complete_style="cyan", finished_style="cyan"),
            recorded,
        )
    return row


def _flow(moment: Moment) -> RenderableType:
    watch, figures = moment.watch, moment.watch.latest
    gaps, lost = figures.total("venue_feed_gaps_total"), figures.total("venue_feed_missing_messages_total")
    table = Table.grid(padding=(0, 3))
    table.add_column(style="bold cyan", width=12, no_wrap=True)
    for _ in range(3):
        table.add_column(justify="right", width=16, no_wrap=True)
    table.add_row(
        "feed",
        f"{watch.rate('venue_feed_messages_total'):,.0f} messages/s",
        f"{figures.total('venue_feed_messages_total'):,} in all",
        Text(f"{gaps:,} gaps, {lost:,} lost", style="bold red" if lost else ""),
    )
    table.add_row(
        "orders",
        f"{watch.rate('venue_gateway_messages_received_total'):,.0f} messages/s",
        f"{figures.total('venue_gateway_messages_received_total'):,} in all",
        f"{figures.total('venue_live_orders', origin='client'):,} in the book",
    )
    table.add_row(
        "trades",
        f"{watch.rate('venue_fills_total'):,.0f} trades/s",
        f"{figures.total('venue_fills_total'):,} in all",
        f"{figures.total('venue_filled_shares_total'):,} shares",
    )
    recent = [(name, figures.recent(ORDER_TO_ACK, quantile)) for name, quantile in RECENT.items()]
    table.add_row("order to ack", *(f"{name} {duration(seconds)}" for name, seconds in recent))
    return table


RECENT: Final = {"p50": "0.5", "p99": "0.99", "max": "1"}


def _stocks(moment: Moment) -> RenderableType:
    table = Table.grid(padding=(0, 3))
    table.add_column(style="bold", width=12, no_wrap=True)
    for _ in range(3):
        table.add_column(justify="right", width=16, no_wrap=True)
    table.add_row(*(Text(head, style="dim") for head in ("", "bid", "ask", "the maker holds")))
    for symbol, touch, inventory in moment.stocks[:STOCKS_SHOWN]:
        bid = f"{touch.bid_size:,} × {dollars(touch.bid)}" if touch.bid else "–"
        ask = f"{dollars(touch.ask)} × {touch.ask_size:,}" if touch.ask else "–"
        table.add_row(symbol, Text(bid, style="green"), Text(ask, style="red"), f"{inventory:+,} shares")
    return table


def line(moment: Moment) -> str:
    """The same for a log."""
    watch, figures = moment.watch, moment.watch.latest
    return (
        f"{minutes(moment.elapsed_s)}  {clock(moment.recorded_ns)}  "
        f"feed {watch.rate('venue_feed_messages_total'):,.0f}/s, "
        f"{figures.total('venue_feed_missing_messages_total'):,} lost  "
        f"orders {watch.rate('venue_gateway_messages_received_total'):,.0f}/s, "
        f"{figures.total('venue_live_orders', origin='client'):,} in the book  "
        f"trades {figures.total('venue_fills_total'):,}, {figures.total('venue_filled_shares_total'):,} shares  "
        f"order to ack p50 {duration(figures.recent(ORDER_TO_ACK, '0.5'))}, "
        f"p99 {duration(figures.recent(ORDER_TO_ACK, '0.99'))}"
    )


def minutes(seconds: float) -> str:
    return f"{int(seconds) // 60:02}:{int(seconds) % 60:02}"


def clock(time_ns: int) -> str:
    """Time of day to a tenth of a second."""
    tenths = time_ns // 100_000_000
    return f"{tenths // 36_000:02}:{tenths // 600 % 60:02}:{tenths // 10 % 60:02}.{tenths % 10}"


def duration(seconds: float | None) -> str:
    """With three digits at most, in the unit that suits; a dash for None."""
    if seconds is None:
        return "–"
    for limit_s, factor, unit in ((999.5e-9, 1e9, "ns"), (999.5e-6, 1e6, "µs"), (0.9995, 1e3, "ms")):
        if seconds < limit_s:
            value = seconds * factor
            return f"{value:.1f} {unit}" if value < 9.95 else f"{value:.0f} {unit}"
    return f"{seconds:.1f} s"
