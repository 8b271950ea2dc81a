"""Having every kernel compiled before the first message.

The first start of a version on a kind of CPU compiles them, which takes a while; later starts find them in the disk
cache. Numba compiles on one thread at a time, so a first start has a second process help it: that one begins where
this one would come last, and both find in the cache what the other has done. Neither waits for the other.
"""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numba

from venue.engine import kernel, loop, orders
from venue.engine.reference import Reference

if TYPE_CHECKING:
    from venue.app import Exchange

log = logging.getLogger("venue.app")


def compile_kernels(exchange: Exchange, helping: contextlib.ExitStack) -> None:
    """Have every kernel ready. Takes well under a second from the cache. Whoever stops before that closes ``helping``,
    which may hold a second process."""
    begun = time.monotonic()
    with helping:
        help_first_start(entries_of(exchange), helping)
        compile_from_the_beginning(exchange)
    log.info("kernels ready", extra={"seconds": round(time.monotonic() - begun, 3)})


def compile_from_the_beginning(exchange: Exchange) -> None:
    """The matching thread, then what takes orders and feed to it."""
    loop.warm_up(exchange.matchers[0])
    if exchange.shards is not None:
        exchange.shards.warm_up()
    exchange.gateway.warm_up()
    if exchange.feed is not None:
        exchange.feed.warm_up()


def compile_from_the_end(exchange: Exchange) -> None:
    """What the other comes to last: orders in the matching thread, then the codecs of both ports."""
    matcher = exchange.matchers[0]
    typeof: Any = numba.typeof
    books, out = Reference(typeof(matcher.books)), Reference(typeof(matcher.out))
    for step in (orders.enter, orders.replace, orders.cancel, orders.modify):
        kernel.compile_for(step, books, out, typeof(matcher.commands.records[0]))
    if exchange.feed is not None:
        exchange.feed.warm_up()
    exchange.gateway.warm_up()


def entries_of(exchange: Exchange) -> list[str]:
    """The largest kernel of each part of the exchange, as the files of the cache begin with it."""
    several = ["merging.turn"] if exchange.shards is not None else []
    feed = ["feed_packets.receive"] if exchange.feed is not None else []
    return ["loop.run", "order_turn.turn", *several, *feed]


def is_first_start(entries: list[str]) -> bool:
    """Whether one of these kernels has still to be compiled."""
    cache = Path(kernel.settings.CACHE_DIR)
    return kernel.JIT and not all(any(cache.glob(f"*/{entry}-*.nbi")) for entry in entries)


def help_first_start(entries: list[str], helping: contextlib.ExitStack) -> None:
    """Say that this will take a while, and have a second process help until ``helping`` is closed, if there is a
    processor for it."""
    if not is_first_start(entries):
        return
    if len(os.sched_getaffinity(0)) > 1:
        helping.callback(start_helper(helping.enter_context(tempfile.TemporaryDirectory(prefix="venue-"))))
    log.info(
        "compiling kernels for this version and this CPU, once: may take half a minute",
        extra={"cache": kernel.settings.CACHE_DIR},
    )


def start_helper(folder: str) -> Callable[[], None]:
    """Start the second process, whose files lie in ``folder``, since it has no time to clear them away. Gives back what
    ends it."""
    command = [sys.executable, "-P", "-m", "venue.warm_up", folder]
    # in a group of its own: Ctrl-C in a terminal reaches only this process
    helper = subprocess.Popen(command, stdin=subprocess.DEVNULL, process_group=0)

    def end() -> None:
        helper.terminate()
        helper.wait()

    return end
