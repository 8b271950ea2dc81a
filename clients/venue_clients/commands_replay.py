"""The commands `venue replay` and `venue generate`."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer
from rich.console import Console, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from venue_clients.capture import Capture, CaptureError, open_capture
from venue_clients.faults import Faults
from venue_clients.generate import DayPlan, PlanError, SyntheticDay, stock_names
from venue_clients.generate import generate as write_day
from venue_clients.line import Destination, UdpLine
from venue_clients.replay import Replay, ReplayStats
from venue_clients.stops import STOPS

DEFAULT_TO = "127.0.0.1:26477"
_SPEED_HELP = "1 = as recorded, 10 = ten times as fast, 0.5 = half as fast, max = as fast as the receiver recovers"


def replay(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="BinaryFILE, pcap or pcapng; plain or gzip", show_default=False)
    ],
    to: Annotated[
        list[str] | None,
        typer.Option(
            metavar="HOST:PORT",
            help="where the feed goes, unicast or multicast; repeat it for copies  [default: 127.0.0.1:26477]",
        ),
    ] = None,
    speed: Annotated[str, typer.Option(metavar="1|N|max", help=_SPEED_HELP)] = "1",
    loop: Annotated[
        bool, typer.Option("--loop", help="start over until Ctrl-C; each time is a new MoldUDP64 session")
    ] = False,
    symbols: Annotated[
        str, typer.Option(metavar="AAPL,MSFT", help="only these stocks, and what concerns all of them")
    ] = "",
    request_port: Annotated[
        int, typer.Option(min=0, max=65_535, help="UDP port of the re-request server; 0 = any free")
    ] = 0,
    window_mb: Annotated[
        int, typer.Option(min=1, help="how much is kept for re-requests: about 30 messages a kilobyte")
    ] = 256,
    interface: Annotated[str | None, typer.Option(help="multicast leaves here: a name or an IPv4 address")] = None,
    ttl: Annotated[int, typer.Option(min=0, max=255, help="how far multicast goes: 0 this host, 1 this network")] = 1,
    drop: Annotated[float, typer.Option(min=0, max=100, help="lose so many percent of the packets")] = 0.0,
    duplicate: Annotated[float, typer.Option(min=0, max=100, help="send so many percent of them twice")] = 0.0,
    reorder: Annotated[
        float, typer.Option(min=0, max=100, help="let so many percent be overtaken by the next one")
    ] = 0.0,
    seed: Annotated[int, typer.Option(help="the same seed loses, doubles and reorders the same packets")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="print the summary as one JSON line")] = False,
) -> None:
    """Send recorded market data as a live MoldUDP64 feed over UDP.

    The file's content says what it is. Messages of a BinaryFILE are packed anew,
    up to 1,400 bytes a packet, with sequence numbers from 1; packets of a pcap
    go out as they were recorded. Sending is paced by the recorded times against
    absolute deadlines; lag shows how late the latest message was. Whoever misses
    a packet can ask the re-request server for it, also while end-of-session
    packets go out after the last message. The exit code is 1 if nobody heard it:
    every packet was refused, or none of the symbols is in the file.

    As recorded, to a venue on this host:

      venue replay day.itch.gz

    An hour a minute, two stocks:

      venue replay day.itch --speed 60 --symbols AAPL,MSFT

    A copy for a market maker, which cannot share the venue's port:

      venue replay day.itch --to 127.0.0.1:26477 --to 127.0.0.1:26478

    Multicast that stays on this host:

      venue replay feed.pcap --to 239.1.1.1:26477 --interface lo --ttl 0

    How good is the receiver?

      venue replay day.itch --drop 5 --duplicate 5 --reorder 5 --seed 7
    """
    with _one_line_errors("replay"):
        capture = open_capture(file)
        factor = _speed(speed)
        first, *copies = map(_host_and_port, to or [DEFAULT_TO])
        names = [name for name in symbols.upper().split(",") if name]
        with UdpLine(
            first,
            copies=copies,
            interface=interface,
            ttl=ttl,
            request_port=request_port,
            on_refused=_say_refused,
        ) as line:
            player = Replay(
                capture,
                line,
                speed=factor,
                loops=None if loop else 1,
                symbols=names,
                faults=Faults(drop, duplicate, reorder, seed),
                window_bytes=window_mb * 1_048_576,
            )
            print(_beginning(capture, line), file=sys.stderr, flush=True)
            with _stopping(player) as interrupted, _display(player, line):
                player.run()
            summary = _summary(capture, player, line) | {"interrupted": bool(interrupted)}
    print(json.dumps(summary) if as_json else _sentence(player.stats, player.faults, line))
    if interrupted:
        raise typer.Exit(128 + interrupted[0])
    if complaint := _nobody_heard(capture, player, line, names):
        print(f"venue replay: {complaint}", file=sys.stderr)
        raise typer.Exit(1)


def _beginning(capture: Capture, line: UdpLine) -> str:
    where = " and ".join(_host_port(each.address) for each in line.destinations)
    requests = _host_port(line.request_address)
    return f"replaying {capture.path} ({capture.kind}) to {where}, re-requests at {requests}"


def _nobody_heard(capture: Capture, player: Replay, line: UdpLine, names: list[str]) -> str | None:
    """Why it was all in vain, or None."""
    if names and len(player.stats.symbols_not_seen) == len(set(names)):
        return f"none of the symbols is in {capture.path}: {', '.join(sorted(set(names)))}"
    if all(each.nobody_heard for each in line.destinations):
        return "every packet was refused"
    return None


def generate(
    out: Annotated[
        Path, typer.Argument(metavar="OUT", help="the file to write; gzip if it ends in .gz", show_default=False)
    ],
    symbols: Annotated[str, typer.Option(metavar="N|AAPL,MSFT", help="how many stocks, or which")] = "8",
    messages: Annotated[int, typer.Option(help="how many messages, all in all")] = 200_000,
    seconds: Annotated[float, typer.Option(help="market time from the first to the last message")] = 60.0,
    seed: Annotated[int, typer.Option(help="the same seed gives the same bytes")] = 1,
    live: Annotated[int, typer.Option(help="orders in the books most of the time; 0 = 1 % of the messages")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="print the summary as one JSON line")] = False,
) -> None:
    """Make up a Nasdaq day: an ITCH 5.0 BinaryFILE with the message mix of a real one.

    It has a directory spin, an opening, a continuous session and a close. The
    books are consistent: they are never crossed, executions hit the oldest order
    at the best price, and no order is left at the end.

    A minute of 8 stocks in 200,000 messages:

      venue generate day.itch.gz

    Half an hour of 50 stocks, and one stock from another seed:

      venue generate big.itch --messages 5000000 --seconds 1800 --symbols 50

      venue generate one.itch --symbols AAPL --seed 42
    """
    with _one_line_errors("generate"):
        names = stock_names(int(symbols)) if symbols.isdecimal() else tuple(symbols.upper().split(","))
        plan = DayPlan(names, messages, seconds, seed, live)
        with Console(stderr=True).status(f"generating {messages:,} messages"):
            day = write_day(out, plan)
    if as_json:
        print(json.dumps(_day_summary(out, day)))
    else:
        mix = ", ".join(f"{code} {count:,}" for code, count in day.counts.most_common(7))
        print(f"{out}: {day.counts.total():,} messages ({mix}, …), at most {day.peak_live:,} live orders")


def _say_refused(destination: Destination) -> None:
    print(f"venue replay: nothing listens at {_host_port(destination.address)} (yet)", file=sys.stderr, flush=True)


@contextmanager
def _one_line_errors(command: str) -> Iterator[None]:
    try:
        yield
    except (CaptureError, PlanError, typer.BadParameter) as error:
        reason = str(error)
    except OSError as error:
        reason = f"{error.filename}: {error.strerror}" if error.filename else error.strerror or str(error)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    else:
        return
    print(f"venue {command}: {reason}", file=sys.stderr)
    raise typer.Exit(2)


def _speed(text: str) -> float | None:
    if text == "max":
        return None
    try:
        factor = float(text)
    except ValueError:
        factor = 0.0
    if not 0 < factor < float("inf"):
        raise typer.BadParameter(f"--speed is a factor above 0, or max, not {text!r}")
    return factor


def _host_and_port(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65_536:
        raise typer.BadParameter(f"--to takes HOST:PORT, such as 127.0.0.1:26477, not {text!r}")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _host_port(address: tuple[str, int]) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


@contextmanager
def _stopping(player: Replay) -> Iterator[list[int]]:
    """``STOPS`` stop the replay in good order; yields a list that then holds the signal's number."""
    received: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        received.append(number)
        player.stop()

    before = {number: signal.signal(number, stop) for number in STOPS}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _display(player: Replay, line: UdpLine) -> Iterator[None]:
    """A bar with the recorded clock, messages, rate and lag, for people: nothing where stderr is not a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    stats = player.stats
    seen = (0, line.now_ns())

    def picture() -> RenderableType:
        nonlocal seen
        now = (stats.messages, line.now_ns())
        rate = (now[0] - seen[0]) / max(1e-9, (now[1] - seen[1]) / 1e9)
        seen = now
        row = Table.grid(padding=(0, 2))
        row.add_row(
            _clock(stats.recorded_ns),
            ProgressBar(total=1.0, completed=player.capture.fraction_read, width=30),
            f"{stats.messages:,} messages",
            f"{rate:,.0f}/s",
            f"lag {stats.lag_ns / 1e6:.1f} ms",
            f"loop {stats.loops + 1}" if stats.loops else "",
        )
        return row

    with Live(get_renderable=picture, console=console, refresh_per_second=4):
        yield


def _clock(time_ns: int) -> str:
    seconds, ns = divmod(time_ns, 1_000_000_000)
    return f"{seconds // 3600 % 24:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{ns // 1_000_000:03}"


def _summary(capture: Capture, player: Replay, line: UdpLine) -> dict[str, Any]:
    stats, faults = player.stats, player.faults
    seconds = stats.seconds(line.now_ns())
    return {
        "file": str(capture.path),
        "kind": capture.kind,
        "to": [_host_port(each.address) for each in line.destinations],
        "request_address": _host_port(line.request_address),
        "messages": stats.messages,
        "packets": stats.packets,
        "sent_bytes": stats.sent_bytes,
        "heartbeats": stats.heartbeats,
        "loops": stats.loops,
        "seconds": seconds,
        "messages_per_s": stats.messages / seconds if seconds else 0.0,
        "recorded_seconds": _recorded_seconds(stats),
        "max_lag_ns": stats.max_lag_ns,
        "requests": stats.requests,
        "retransmitted": stats.retransmitted,
        "unanswered": stats.unanswered,
        "dropped": faults.dropped,
        "duplicated": faults.duplicated,
        "reordered": faults.reordered,
        "refused": [each.refused for each in line.destinations],
        "filtered": stats.filtered,
        "skipped": stats.skipped,
        "symbols_not_seen": stats.symbols_not_seen,
    }


def _recorded_seconds(stats: ReplayStats) -> float:
    return (stats.recorded_ns - (stats.first_recorded_ns or stats.recorded_ns)) / 1e9


def _sentence(stats: ReplayStats, faults: Faults, line: UdpLine) -> str:
    seconds = stats.seconds(0)
    parts = [
        f"{stats.messages:,} messages in {stats.packets:,} packets, {_recorded_seconds(stats):,.1f} recorded seconds "
        f"in {seconds:,.1f} s ({stats.messages / max(seconds, 1e-9):,.0f} a second), "
        f"at most {stats.max_lag_ns / 1e6:,.1f} ms late"
    ]
    if stats.requests or stats.unanswered:
        parts.append(
            f"{stats.requests:,} requests answered with {stats.retransmitted:,} messages, "
            f"{stats.unanswered:,} unanswered"
        )
    if faults.dropped or faults.duplicated or faults.reordered:
        parts.append(
            f"{faults.dropped:,} packets dropped, {faults.duplicated:,} sent twice, {faults.reordered:,} overtaken"
        )
    parts += [
        f"{each.refused:,} packets refused: nothing listens at {_host_port(each.address)}"
        for each in line.destinations
        if each.refused
    ]
    if stats.symbols_not_seen:
        parts.append(f"not in this file: {', '.join(stats.symbols_not_seen)}")
    parts += [f"{count:,} × {reason}" for reason, count in stats.skipped.items()]
    return "; ".join(parts)


def _day_summary(out: Path, day: SyntheticDay) -> dict[str, Any]:
    return {
        "file": str(out),
        "messages": day.counts.total(),
        "counts": dict(day.counts),
        "peak_live": day.peak_live,
        "symbols": list(day.plan.symbols),
        "seed": day.plan.seed,
    }
