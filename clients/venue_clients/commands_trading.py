"""The commands `venue maker` and `venue load`."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from venue_clients import load as loading
from venue_clients import words
from venue_clients.login_options import Host, Password, Port
from venue_clients.maker import Maker
from venue_clients.marketdata import MarketData
from venue_clients.quoting import QuoteSettings
from venue_clients.stops import STOPS
from venue_clients.trading import TradingClient, TradingError

REPORT_EVERY_S = 5.0


def maker(
    symbols: Annotated[list[str], typer.Argument(metavar="SYMBOL", help="What to quote.", show_default=False)],
    feed: Annotated[
        str,
        typer.Option(metavar="HOST:PORT", help="Where the feed is heard: a port of this host, or a group."),
    ] = "127.0.0.1:26478",
    interface: Annotated[str, typer.Option(metavar="ADDRESS", help="Join the group here.", show_default=False)] = "",
    request_server: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Ask here for what got lost.", show_default=False)
    ] = "",
    size: Annotated[int, typer.Option(min=1, max=999_999, help="Shares of each quote.")] = 100,
    edge: Annotated[int, typer.Option(help="Cents behind the touch: 0 joins it, -1 improves it.")] = 0,
    max_inventory: Annotated[int, typer.Option(min=1, help="Shares of a stock, long or short.")] = 1_000,
    seconds: Annotated[float, typer.Option(help="Quote for so long; 0 = until Ctrl-C.")] = 0.0,
    user: Annotated[str, typer.Option(help="Account.")] = "MAKER",
    password: Password = "venue",
    host: Host = "127.0.0.1",
    port: Port = 26_400,
) -> None:
    """Quote both sides of a stock around the touch of the feed.

    Quotes follow the touch, lean against the inventory, and stop on the side that would take it beyond its limit. When
    it ends, all quotes are canceled. Only one process of a host can have a unicast port, so the feed has to be sent
    here as well as to the venue, or by multicast.

        venue maker AAPL --feed 127.0.0.1:26478 --size 200 --max-inventory 2000
    """
    settings = QuoteSettings(size, edge, max_inventory)
    names = [symbol.upper() for symbol in symbols]

    async def quote() -> None:
        async with await TradingClient.connect(host, port, user, password) as client:
            made = Maker(client, names, settings)
            heard = await MarketData.listen(
                feed, names, made.on_touch, interface=interface, request_server=request_server
            )
            loop = asyncio.get_running_loop()
            for number in STOPS:
                loop.add_signal_handler(number, made.stop)
            if seconds:
                loop.call_later(seconds, made.stop)
            reporter = asyncio.create_task(_report(made, names, heard))
            try:
                await made.run()
            finally:
                reporter.cancel()
                await heard.close()
        print(made_line(made, names, heard))

    asyncio.run(quote())


async def _report(made: Maker, names: list[str], heard: MarketData) -> None:
    while True:
        await asyncio.sleep(REPORT_EVERY_S)
        print(made_line(made, names, heard), file=sys.stderr, flush=True)


def made_line(made: Maker, names: list[str], heard: MarketData) -> str:
    stats = made.stats
    inventory = ", ".join(f"{name} {made.inventory(name):+,}" for name in names)
    return (
        f"{stats.fills:,} fills, bought {stats.bought:,}, sold {stats.sold:,}, inventory {inventory}, "
        f"profit {made.profit_usd():+,.2f} USD; {stats.entered:,} quotes entered, {stats.replaced:,} replaced, "
        f"{stats.canceled:,} canceled, {stats.rejected:,} rejected; "
        f"feed: {heard.messages:,} messages, {heard.lost:,} lost"
    )


def load(
    rate: Annotated[float, typer.Option(help="Orders a second, all in all.")] = 1_000.0,
    seconds: Annotated[float, typer.Option(help="How long.")] = 10.0,
    user: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Account; repeat it for more connections, one each.  [default: LOADER]"),
    ] = None,
    symbols: Annotated[str, typer.Option(metavar="AAPL,MSFT", help="Taken in turns.")] = "AAPL",
    password: Password = "venue",
    host: Host = "127.0.0.1",
    port: Port = 26_400,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """Send orders at a fixed rate and measure how long the answers take.

    Each order goes out when it is due, however slow the venue is, and its latency counts from then: a venue that stalls
    shows as many slow orders, not as one. They are buys far below the market that are canceled 64 orders later, so each
    costs the venue two messages. An account has one connection at a time: name several for several connections. Ctrl-C
    ends it early, with the figures so far and exit code 130; if no order was accepted, the exit code is 1.

        venue load --rate 5000 --seconds 30 --user LOADER --user TAKER
    """
    logins = [(name, password) for name in user or ["LOADER"]]
    names = [name for name in symbols.upper().split(",") if name]
    if not names:
        raise TradingError("--symbols names no stock")
    flow = loading.Load(names, rate, seconds, _progress(rate * seconds))
    try:
        result = loading.run(flow, host, port, logins)
    finally:
        if sys.stderr.isatty():
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
    if as_json:
        print(json.dumps(result.as_dict()))
    else:
        _print_table(result)
    if result.interrupted:
        raise typer.Exit(128 + result.interrupted)
    if not result.accepted:
        reasons = "; ".join(words.reject_reason(reason) for reason in result.reasons)
        print(f"venue load: no order was accepted: {reasons or 'no answer'}", file=sys.stderr)
        raise typer.Exit(1)


def _progress(orders: float) -> Callable[[loading.LoadResult], None]:
    """A line that is written over each second, for people; plain, so that drawing it delays no order."""

    def show(result: loading.LoadResult) -> None:
        answers = f"{result.rejected:,} rejected, {result.unanswered:,} unanswered"
        text = f"{result.sent:,} of {int(orders):,} orders sent, {answers}"
        print(f"\r{text}\x1b[K", end="", file=sys.stderr, flush=True)

    return show if sys.stderr.isatty() else lambda result: None


def _print_table(result: loading.LoadResult) -> None:
    figures = result.as_dict()
    table = Table("", *figures["latency_ns"], title="microseconds", title_justify="left")
    for name, key in (("order to answer, from when it was due", "latency_ns"), ("sent after it was due", "late_ns")):
        table.add_row(name, *(f"{value / 1000:,.0f}" for value in figures[key].values()))
    print(
        f"{figures['sent']:,} orders in {figures['seconds']:,.1f} s ({figures['orders_per_s']:,.0f} a second): "
        f"{figures['accepted']:,} accepted, {figures['rejected']:,} rejected, {figures['unanswered']:,} unanswered"
    )
    for reason, count in result.reasons.items():
        print(f"rejected {count:,}: {loading.reason_name(reason)}")
    Console().print(table)
