"""The composition root: what a running exchange is made of, how it starts and how it stops. Read it first.

One process, two threads. The loop thread (uvloop) has all sockets: orders come in through the gateway, the recorded
day through the feed, and both write commands to one ring. The matching thread takes them off, keeps the books, and
writes events to the other ring, which the gateway turns into answers. What both count lies in a page of shared
memory, which a second process serves to Prometheus and to people. With ``engine.shards`` there are several matching
threads, each with books and rings of its own, and the loop thread moves commands and events between them and the two.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import functools
import gc
import json
import logging
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import version
from typing import Any, Final
from zoneinfo import ZoneInfo

import numpy as np
import uvloop

from venue import config as configuration
from venue.compiling import compile_kernels
from venue.config import Config, ConfigError
from venue.engine import books, events, loop, pages, records, ring, sharding, system
from venue.engine.link import Link
from venue.engine.live_records import Live
from venue.feed import Feed
from venue.feed_clock import FeedClock
from venue.feed_sockets import FeedSockets, open_feed_sockets
from venue.gateway import Gateway
from venue.instruments import Instruments
from venue.operator_mailbox import OperatorMailbox
from venue.shards import Shards
from venue.telemetry import launch, live_memory
from venue.telemetry.page import Page, Shard, State
from venue.telemetry.page import create as create_page

log = logging.getLogger("venue.app")

MARKET_TIME: Final = ZoneInfo("America/New_York")
"""ITCH and OUCH count nanoseconds since midnight there."""
MODES: Final = {"match": records.MATCH, "consume": records.CONSUME, "passive": records.PASSIVE}
WAITS: Final = {"spin": loop.SPIN, "park": loop.PARK, "adaptive": loop.ADAPTIVE}
SELF_MATCH: Final = {
    "allow": records.ALLOW,
    "cancel_newest": records.CANCEL_NEWEST,
    "cancel_oldest": records.CANCEL_OLDEST,
    "decrement": records.DECREMENT,
}
LIMITS: Final = ("max_order_quantity", "collar_bp", "max_open_orders", "max_long", "max_short", "max_orders_per_s")
OPTIONS: Final = {"orders": "order-port", "http": "http-port"}
BEAT_S: Final = 0.5
LAST_EVENTS_S: Final = 2.0
"""How long the end of the day may take to reach the streams of all accounts."""
JOIN_S: Final = 5.0
HANGUP_IGNORED: Final = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
STOPS: Final = (signal.SIGINT, signal.SIGTERM) + (() if HANGUP_IGNORED else (signal.SIGHUP,))
"""A terminal that is closed stops the exchange like Ctrl-C in it, unless nohup had it ignore that."""
FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 30.0
"""Between two starts of the telemetry process; twice as long every time, until one has lived longer than that."""


@dataclass(frozen=True, slots=True)
class Sockets:
    """Everything that is bound before anything else happens, so that a busy port is found at once."""

    orders: socket.socket
    http: socket.socket
    feed: FeedSockets | None

    @property
    def addresses(self) -> dict[str, str]:
        """By service, as ``host:port``."""
        named = {"orders": self.orders, "http": self.http}
        if self.feed is not None:
            named["feed"] = self.feed.lines[0]
        return {name: "{}:{}".format(*of.getsockname()[:2]) for name, of in named.items()}

    def close(self) -> None:
        self.orders.close()
        self.http.close()
        if self.feed is not None:
            self.feed.close()


class Telemetry:
    """The process that serves the page. Should it end, another one takes its place."""

    def __init__(
        self,
        page: Page,
        listening: socket.socket,
        operator_token_hash: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._launch = functools.partial(launch, page.path, listening, operator_token_hash)
        self._clock = clock
        self._started_at = clock()
        self._pause_s = FIRST_PAUSE_S
        self.process = self._launch()

    def keep_running(self) -> None:
        """With every beat. No error: an exchange that nobody can look at is better than none."""
        code, now = self.process.poll(), self._clock()
        if code is None:
            if now - self._started_at > LONGEST_PAUSE_S:
                self._pause_s = FIRST_PAUSE_S
            return
        if now - self._started_at < self._pause_s:
            return
        self._started_at, self._pause_s = now, min(2 * self._pause_s, LONGEST_PAUSE_S)
        log.error("the telemetry process ended; starting another", extra={"exit_code": code})
        try:
            self.process = self._launch()
        except OSError as error:
            fields = {"reason": error.strerror or str(error), "again_after_s": self._pause_s}
            log.error("the telemetry process cannot be started", extra=fields)

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(JOIN_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@dataclass(frozen=True, slots=True)
class Exchange:
    """All parts of one exchange, connected."""

    page: Page
    link: Link
    instruments: Instruments
    matchers: tuple[loop.Matcher, ...]
    """Each in a thread of its own."""
    shards: Shards | None
    """If there are several of them."""
    gateway: Gateway
    feed: Feed | None
    operator: OperatorMailbox
    market_offset_ns: int

    @property
    def queues(self) -> list[ring.Ring]:
        """Every ring on the way of a command to the events that the gateway reads, in this order."""
        if self.shards is None:
            return [self.link.commands]
        links = self.shards.links
        return [self.link.commands, *(link.commands for link in links), *(link.events for link in links)]


def serve(config: Config) -> int:
    """Run an exchange until one of ``STOPS``; gives back the exit code. ConfigError for what cannot work."""
    config = configuration.with_session(config, datetime.now(MARKET_TIME))
    with contextlib.ExitStack() as closing:
        stop_early = functools.partial(end_at_once, closing)
        for number in STOPS:
            signal.signal(number, stop_early)
        sockets = closing.enter_context(contextlib.closing(open_sockets(config)))
        run_info = {"version": version("venue"), "mode": config.engine.mode, "session": config.orders.session}
        log.info("starting", extra=run_info | {"accounts": len(config.accounts)})
        if config.has_feed and config.feed.exposed:
            fields = {"hosts": config.feed.exposed, "hint": "let a firewall pass only its sender to the feed's port"}
            log.warning("the feed can be reached from outside, and takes packets from anybody", extra=fields)
        cores, shards = len(os.sched_getaffinity(0)), config.engine.shards
        if shards > 1 and shards > cores - 1:
            hint = "each matching thread wants a core of its own, and the loop thread another one"
            log.warning("too few cores for the shards", extra={"shards": shards, "cores": cores, "hint": hint})
        with stops_held_back(stop_early):  # a page that nobody removes would stay in memory
            names = [account.username for account in config.accounts]
            page = create_page(mode=config.engine.mode, accounts=names, shards=shards)
            closing.callback(page.remove)
            telemetry = Telemetry(page, sockets.http, config.http.operator_token_hash)
            closing.callback(telemetry.stop)
        closing.callback(page.set_state, State.STOPPED)
        closing.callback(ignore_stops)
        exchange = assemble(config, page)
        page.set_state(State.COMPILING)
        compile_kernels(exchange, closing.enter_context(contextlib.ExitStack()))
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(run(exchange, sockets, telemetry))


def end_at_once(closing: contextlib.ExitStack, number: int, frame: object) -> None:
    """A stop while the exchange starts is as clean as a later one: clear up and end, wherever the signal came. The exit
    code is 0, or 1 if something could not be cleared up.

    Not by an exception: the compiler calls back from foreign code, which would swallow it. One stop is enough: a second
    one, such as that of a parent after Ctrl-C, would end the clearing up that the first one began.
    """
    ignore_stops()
    code = 1
    try:
        closing.close()
        code = 0
    except Exception:
        log.exception("not all could be cleared up")
    finally:
        os._exit(code)


def ignore_stops() -> None:
    """From now on only clearing up is left, which one stop after another would not make shorter."""
    for each in STOPS:
        signal.signal(each, lambda *_: None)


@contextlib.contextmanager
def stops_held_back(stop_early: Callable[[int, object], None]) -> Iterator[None]:
    """Stops take effect at the end of the block. (A signal mask is for one thread; numpy has others.)"""
    held: list[int] = []
    for number in STOPS:
        signal.signal(number, lambda number, _: held.append(number))
    try:
        yield
    finally:
        for number in STOPS:
            signal.signal(number, stop_early)
    if held:
        stop_early(held[0], None)


# --- start --------------------------------------------------------------------------------------------------------


def open_sockets(config: Config) -> Sockets:
    """Bind every port of the configuration, or none: ConfigError names the one that is taken."""
    with contextlib.ExitStack() as opened:
        try:
            orders = opened.enter_context(listen("orders", config.orders.host, config.orders.port))
            http = opened.enter_context(listen("http", config.http.host, config.http.port))
            feed = open_feed_sockets(config.feed) if config.has_feed else None
        except OSError as error:
            raise ConfigError(str(error)) from None
        opened.pop_all()
    return Sockets(orders, http, feed)


def listen(key: str, host: str, port: int) -> socket.socket:
    """A TCP socket bound to an address. OSError with one line that names the key."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(128)
    except OSError as error:
        listening.close()
        reason = (error.strerror or str(error)).lower()
        raise OSError(f"{key}.port: {host}:{port}: {reason}; choose another with --{OPTIONS[key]}, 0 = any") from None
    listening.setblocking(False)
    return listening


def market_offset_ns() -> int:
    """Nanoseconds since midnight in New York, less the monotonic clock; fixed for the life of the process."""
    monotonic_ns, now_ns = time.monotonic_ns(), time.time_ns()
    midnight = datetime.fromtimestamp(now_ns / 1e9, MARKET_TIME).replace(hour=0, minute=0, second=0, microsecond=0)
    return now_ns - int(midnight.timestamp()) * 1_000_000_000 - monotonic_ns


def assemble(config: Config, page: Page) -> Exchange:
    """Make every part and connect them; nothing runs yet. ConfigError if there is not the memory for them."""
    try:
        return connect(config, page)
    except (MemoryError, OverflowError, OSError) as error:
        if isinstance(error, OSError) and error.errno != errno.ENOMEM:
            raise
        engine = config.engine
        raise ConfigError(
            f"engine: not enough memory for {engine.orders} orders, {engine.levels} levels, {engine.instruments} "
            f"instruments and {config.orders.max_store_bytes} bytes of session store; lower engine.orders, levels, "
            "instruments, orders_per_account or the rings, or orders.max_store_bytes"
        ) from None


def connect(config: Config, page: Page) -> Exchange:
    """All parts. MemoryError or OSError if there is not the memory for them."""
    engine = config.engine
    for shard in page.shards:
        set_limits(shard.exposures, config.accounts)
    memory = live_memory.create(page.path, engine.instruments, engine.shards)
    link = Link(
        ring.create(engine.command_ring, records.COMMAND),
        ring.create(engine.event_ring, records.EVENT),
        system.wake_descriptor(),
        system.wake_descriptor(),
    )
    shards = None
    if engine.shards > 1:
        accounts, user_refs = page.exposures[: len(config.accounts)], engine.orders_per_account
        shards = Shards(link, engine.shards, accounts, user_refs=user_refs, capacities=engine.shard_rings)
    links = [link] if shards is None else shards.links
    matchers = tuple(
        make_matcher(config, number, ends, page.shards[number], memory.shards[number])
        for number, ends in enumerate(links)
    )
    instruments = Instruments(engine.instruments, (memory.symbols, memory.count))
    for symbol in config.instruments.symbols:
        instruments.add(symbol)
    offset_ns = market_offset_ns()
    gateway = Gateway(link, page, instruments, config.accounts, config.orders, offset_ns)
    feed = Feed(link, page, instruments, config.feed, offset_ns) if config.has_feed else None
    operator = OperatorMailbox(page, memory.requests, gateway)
    return Exchange(page, link, instruments, matchers, shards, gateway, feed, operator, offset_ns)


def make_matcher(config: Config, number: int, link: Link, sections: Shard, live: Live) -> loop.Matcher:
    """One matching thread's part: ``link`` are its ends, ``sections`` and ``live`` what it writes of itself."""
    engine = config.engine
    sections.matcher["command_ring_capacity"] = len(link.commands.records)
    sections.matcher["event_ring_capacity"] = len(link.events.records)
    state = books.create(
        instruments=engine.instruments,
        accounts=sections.exposures[: len(config.accounts)],
        orders=engine.orders,
        levels=engine.levels,
        user_refs=engine.orders_per_account,
        mode=MODES[engine.mode],
        counters=sections.matcher,
        live=live,
    )
    pages.touch_first(state)
    outbox = events.create_outbox(link.events, link.event_wake)
    if engine.shards > 1:
        sharding.number_apart(state, outbox, number)
    waiting = WAITS[engine.wait]
    return loop.create(state, outbox, link.commands, sections.histograms, waiting, link.command_wake, live)


def set_limits(rows: records.Array, accounts: tuple[configuration.Account, ...]) -> None:
    """Write the risk limits of the configuration where the matching thread reads them."""
    for row, account in zip(rows, accounts, strict=False):
        row["max_order_notional"] = account.limits.max_order_notional
        for limit in LIMITS:
            row[limit] = getattr(account.limits, limit)
        row["killed"] = account.limits.kill_switch
        row["self_match"] = SELF_MATCH[account.self_match]


# --- life ---------------------------------------------------------------------------------------------------------


async def run(exchange: Exchange, sockets: Sockets, telemetry: Telemetry) -> int:
    """Start all threads, say so, and stop in order when a signal comes. Gives back the exit code."""
    stopping = asyncio.Event()
    failures: list[dict[str, Any]] = []
    running = asyncio.get_running_loop()
    for number in STOPS:
        running.add_signal_handler(number, stopping.set)

    def fail(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """A broken invariant in a callback or in the beat: rather stop than go on with it."""
        failures.append(context)
        log.critical("a callback failed", extra={"what": context["message"]}, exc_info=context.get("exception"))
        stopping.set()

    def beat_ended(beating: asyncio.Task[None]) -> None:
        if not beating.cancelled():
            running.call_exception_handler({"message": "the beat ended", "exception": beating.exception()})

    running.set_exception_handler(fail)
    matching = [start_matching(matcher) for matcher in exchange.matchers]
    await open_doors(exchange, sockets)
    beating = asyncio.create_task(beat(exchange, telemetry, matching))
    beating.add_done_callback(beat_ended)
    gc.collect()
    gc.freeze()  # what is here now lives as long as the process: no collection has to look at it again
    exchange.page.set_state(State.READY)
    announce(sockets.addresses)
    await stopping.wait()
    log.info("stopping")
    exchange.page.set_state(State.STOPPING)
    beating.cancel()
    await stop(exchange, matching)
    return 1 if failures else 0


def start_matching(matcher: loop.Matcher) -> threading.Thread:
    """A matching thread, which runs until :func:`stop`."""
    matching = threading.Thread(target=loop.run, args=(matcher, -1), name="matching", daemon=True)
    matching.start()
    return matching


async def open_doors(exchange: Exchange, sockets: Sockets) -> None:
    """Begin the day of every account, and take orders and market data from now on."""
    if exchange.shards is not None:
        exchange.shards.start(exchange.gateway.handle_events)
    exchange.gateway.start_day()
    await exchange.gateway.start(sockets.orders)
    if exchange.feed is not None and sockets.feed is not None:
        exchange.feed.start(sockets.feed)


def announce(addresses: dict[str, str]) -> None:
    """One line of JSON on standard output: now clients may come."""
    print(json.dumps({"ready": True, **addresses}), flush=True)
    log.info("ready", extra=addresses)


async def beat(exchange: Exchange, telemetry: Telemetry, matching: list[threading.Thread]) -> None:
    """Show in the counters page that all threads run, do what the operator asks, see to it that somebody serves.

    RuntimeError if a matching thread has ended.
    """
    feed_clock = FeedClock(exchange.page)
    while True:
        if not all(thread.is_alive() for thread in matching):
            raise RuntimeError("a matching thread has ended")
        exchange.page.beat()
        feed_clock.update(time.monotonic_ns() + exchange.market_offset_ns)
        if exchange.shards is not None:  # between two turns, what is in the intake is what is held back
            exchange.page.gateway["intake_ring_depth"] = ring.depth(exchange.link.commands)
        exchange.operator.poll()
        telemetry.keep_running()
        await asyncio.sleep(BEAT_S)


async def stop(exchange: Exchange, matching: list[threading.Thread]) -> None:
    """No more market data, the end of the day to every account, then the threads."""
    if exchange.feed is not None:
        exchange.feed.stop()
    exchange.gateway.end_day()
    await settle(exchange.gateway, exchange.queues)
    await exchange.gateway.stop()
    if exchange.shards is not None:
        exchange.shards.stop()
    for matcher in exchange.matchers:
        events.stop(matcher.out)
        system.wake(int(matcher.wait[1]), np.zeros(2, np.int64))
    deadline = time.monotonic() + JOIN_S
    for thread in matching:
        thread.join(max(deadline - time.monotonic(), 0.0))
        if thread.is_alive():
            log.error("a matching thread did not stop")


async def settle(gateway: Gateway, queues: list[ring.Ring]) -> None:
    """Wait until every command, also one that waits for room, has been applied and its events are out."""
    deadline = time.monotonic() + LAST_EVENTS_S
    while gateway.service_waits or any(ring.depth(queue) > 0 for queue in queues):
        if time.monotonic() > deadline:
            return
        await asyncio.sleep(0.001)
