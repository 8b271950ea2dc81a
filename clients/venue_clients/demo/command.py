"""The command `venue demo`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from venue_clients.demo.play import Demo, Wish
from venue_clients.demo.screen import Screen
from venue_clients.demo.service import DemoError
from venue_clients.marketdata import FeedError
from venue_clients.trading import TradingError


def demo(
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="[FILE]",
            help="Recorded market data: BinaryFILE, pcap or pcapng, plain or gzip. Without one, a day is made up.",
            show_default=False,
        ),
    ] = None,
    seconds: Annotated[float, typer.Option(min=1, max=86_400, help="How long to play.")] = 30.0,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave everything running after the report, until Ctrl-C.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Of the made-up day, and of what the taker does.")] = 1,
) -> None:
    """Show a whole exchange at work: feed, market maker, trades, latencies.

    Starts an exchange on free ports of this host, replays a day to it, lets a market maker quote and a taker trade, and
    reports at the end who traded and how long orders took. The first start compiles for about half a minute.

    From a FILE it plays the eight stocks with the most orders, as fast as they were recorded, from the opening of the
    market on, or from the first order if the file holds no opening; what comes before is sent at once, to build the
    books. Less than 200 messages a second are played faster, and a file that ends sooner is played more slowly.

        venue demo

        venue demo day.itch.gz --seconds 60 --keep
    """
    screen = Screen(Console(stderr=True))
    try:
        code = asyncio.run(Demo(Wish(file, seconds, keep, seed), screen).run())
    except (DemoError, TradingError, FeedError, OSError) as error:
        if isinstance(error, DemoError) and error.log:
            print(error.log, file=sys.stderr)
        print(f"venue demo: {error}", file=sys.stderr)
        code = 1
    raise typer.Exit(code)
