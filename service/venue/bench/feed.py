"""`venue bench feed`: how much market data a real `venue serve` takes over UDP loopback without losing any.

The rate rises until datagrams are lost; then the highest rate without loss is searched between the last two. A bare
recvmmsg loop in a thread of this process, with the same socket settings, is measured in the same way.

The JSON object has, beside ``bench`` and ``conditions``: ``exchange`` and ``bare``, each with ``messages_per_s``,
``datagrams_per_s`` (at the highest rate without loss, as sent), ``lossless_runs`` (how many at that rate) and ``runs``
(a list of ``rate``, ``messages_per_s``, ``datagrams_per_s``, ``sent`` and ``lost``, the last two in datagrams);
``messages`` and ``datagrams`` of the day that is sent again and again, and ``receive_buffer_bytes``.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

from venue import config
from venue.bench.exchange import BenchError, Served, serving
from venue.bench.feed_traffic import BareReceiver, Prepared, prepare, send
from venue.bench.order_client import precise_sleep
from venue.bench.report import Report, Rows, Steps, steps
from venue.feed_sockets import open_feed_sockets

STOCKS: Final = 100
RISE: Final = 1.5
CLOSE: Final = 1.06
"""The search ends when the highest rate without loss and the lowest with it are so close."""
KEPT_UP: Final = 0.95
"""Less of a rate than that is not that rate: the sender is the limit, or the receiver has a queue."""
WARM_UP_RATE: Final = 250_000
ARRIVE_WITHIN_S: Final = 0.5
"""After the last progress, what has not come is lost."""
LOOK_S: Final = 0.001


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured."""

    messages: int = 200_000
    """Of the day that is sent again and again."""
    first_rate: int = 1_000_000
    """Messages a second."""
    seconds: float = 0.5
    """Of a run."""
    repeats: int = 3
    """Runs without loss that make a rate lossless."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One run at one rate. What was reached is counted until the last datagram was taken off the socket: what only
    waits in the kernel's buffer is not received."""

    rate: int
    messages_per_s: float
    datagrams_per_s: float
    sent: int
    lost: int


Receive = Callable[[int], int]
"""Waits for so many datagrams since it was last called, and gives back how many came."""


def bench_feed(sizes: Sizes = Sizes()) -> Report:
    """`venue bench feed`. BenchError if messages are lost at the first rate already."""
    precise_sleep()
    day = prepare(sizes.messages, STOCKS)
    with steps(2) as progress:
        with bare_receiver() as (to, received):
            progress.begin("a bare receiver")
            warm_up(day, to, received)
            bare = search(day, to, received, sizes, progress, "bare receiver")
            progress.done()
        with serving("") as served:
            buffer_bytes = int(served.counters().feed["receive_buffer_bytes"][0])
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as to:
                to.connect(served.addresses["feed"])
                received = exchange_received(served)
                warmed = warm_up(day, to, received)
                exchange = search(day, to, received, sizes, progress, "exchange")
            check(served, warmed, exchange)
            progress.done()
    figures = {"exchange": exchange, "bare": bare, "messages": day.messages, "datagrams": len(day.starts)}
    figures["receive_buffer_bytes"] = buffer_bytes
    return Report([table(figures)], figures, notes(figures))


# --- the search -----------------------------------------------------------------------------------------------------


def search(
    day: Prepared, to: socket.socket, received: Receive, sizes: Sizes, progress: Steps, name: str
) -> dict[str, Any]:
    """The highest rate without loss, found between the first one with loss and the one before it."""
    runs: list[Outcome] = []

    def lossless(rate: int) -> bool:
        """All of the repeats; the first with a loss ends them."""
        for _ in range(sizes.repeats):
            progress.begin(f"{name}, {rate:,} messages/s")
            runs.append(one_run(day, to, received, rate, sizes.seconds, f"{name[:4]}{len(runs)}"))
            if runs[-1].lost or runs[-1].messages_per_s < KEPT_UP * rate:
                return False
        return True

    good, bad = 0, sizes.first_rate
    while lossless(bad):
        good, bad = bad, int(bad * RISE)
    if not good:
        last = runs[-1]
        raise BenchError(
            f"{name}: {last.lost:,} of {last.sent:,} datagrams lost at {last.messages_per_s:,.0f} messages/s already"
        )
    while bad / good > CLOSE:
        middle = int((good * bad) ** 0.5)
        if lossless(middle):
            good = middle
        else:
            bad = middle
    best = [run for run in runs if run.rate == good]
    return {
        "messages_per_s": float(np.median([run.messages_per_s for run in best])),
        "datagrams_per_s": float(np.median([run.datagrams_per_s for run in best])),
        "lossless_runs": len(best),
        "runs": [asdict(run) for run in runs],
    }


def warm_up(day: Prepared, to: socket.socket, received: Receive) -> int:
    """The whole day once, slowly: stocks are learned, and memory is touched for the first time. Gives back how many
    datagrams arrived."""
    send(day, to, "warm up", WARM_UP_RATE, len(day.starts))
    return received(len(day.starts))


def one_run(day: Prepared, to: socket.socket, received: Receive, rate: int, seconds: float, session: str) -> Outcome:
    datagrams = max(1, int(rate * seconds * len(day.starts) / day.messages))
    sent = send(day, to, session, rate, datagrams)
    ended = time.monotonic()
    lost = datagrams - received(datagrams)
    datagrams_per_s = datagrams / (sent.seconds + time.monotonic() - ended)
    return Outcome(rate, datagrams_per_s * day.messages / len(day.starts), datagrams_per_s, datagrams, lost)


def arrive(count: Callable[[], int], wanted: int) -> int:
    """Wait until ``count`` has reached ``wanted``, or does not go up any more; gives back how far it came."""
    seen, at = count(), time.monotonic()
    while seen < wanted and time.monotonic() - at < ARRIVE_WITHIN_S:
        time.sleep(LOOK_S)
        if (now := count()) != seen:
            seen, at = now, time.monotonic()
    return seen


# --- the two receivers ----------------------------------------------------------------------------------------------


def exchange_received(served: Served) -> Receive:
    def datagrams() -> int:
        return int(served.page.feed["datagrams"][0])

    before = datagrams()

    def receive(wanted: int) -> int:
        nonlocal before
        came, before = arrive(datagrams, before + wanted) - before, datagrams()
        return came

    return receive


@contextmanager
def bare_receiver() -> Iterator[tuple[socket.socket, Receive]]:
    """A thread that reads datagrams and does nothing with them, and a socket that sends to it."""
    lines = open_feed_sockets(config.Feed(port=0)).lines
    receiver = BareReceiver(lines[0])
    thread = threading.Thread(target=receiver.run, name="bare receiver")
    thread.start()
    before = 0

    def receive(wanted: int) -> int:
        nonlocal before
        came, before = arrive(lambda: receiver.datagrams, before + wanted) - before, receiver.datagrams
        return came

    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as to:
            to.connect(lines[0].getsockname())
            yield to, receive
    finally:
        receiver.stop()
        thread.join()
        lines[0].close()


def check(served: Served, warmed: int, exchange: dict[str, Any]) -> None:
    """The exchange has counted the datagrams that were not lost, and understood them all. BenchError otherwise."""
    counted = served.counters().feed[0]
    datagrams = warmed + sum(run["sent"] - run["lost"] for run in exchange["runs"])
    if counted["datagrams"] != datagrams:
        raise BenchError(f"{datagrams:,} datagrams arrived, but the exchange counts {counted['datagrams']:,}")
    for name in ("packets_malformed", "messages_malformed", "unknown_types"):
        if counted[name]:
            raise BenchError(f"the exchange counts {counted[name]:,} {name.replace('_', ' ')}")


# --- words ----------------------------------------------------------------------------------------------------------


def table(figures: dict[str, Any]) -> Rows:
    names = {"exchange": "venue serve: decoded, applied to the books", "bare": "a recvmmsg loop: only counted"}
    return Rows(
        "UDP loopback without loss",
        ("", "M messages/s", "datagrams/s", "of bare"),
        [
            (
                words,
                f"{figures[name]['messages_per_s'] / 1e6:.2f}",
                f"{figures[name]['datagrams_per_s']:,.0f}",
                f"{figures[name]['messages_per_s'] / figures['bare']['messages_per_s']:.0%}",
            )
            for name, words in names.items()
        ],
    )


def notes(figures: dict[str, Any]) -> list[str]:
    exchange = figures["exchange"]["runs"]
    lost = [run for run in exchange if run["lost"]]
    first = f"a loss at {min(run['rate'] for run in lost) / 1e6:.2f} M messages/s" if lost else "no loss at any rate"
    return [
        f"{first}; {sum(run['sent'] for run in exchange):,} datagrams sent to the exchange in {len(exchange)} runs.",
        f"A made-up day of {figures['messages']:,} messages on {STOCKS} stocks in {figures['datagrams']:,} datagrams, "
        f"sent again and again; receive buffer {figures['receive_buffer_bytes']:,} bytes. The sender and the "
        "receiver's threads share the cores: a rate that the sender does not reach ends the search, too. Time counts "
        "until the last datagram is taken off the socket.",
    ]
