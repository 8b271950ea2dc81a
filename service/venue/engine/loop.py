"""The matching thread's duty cycle: take commands off the ring, apply each completely, publish what happened.

``run`` is one endless kernel without the GIL. It reads no clock for its decisions: every command carries its time, so
the same commands give the same events, bit for bit, in any process. The clock is read only to measure.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from venue.engine import orders, recorded, ring, showing, system
from venue.engine.allocators import pool
from venue.engine.atomics import cpu_relax, load_acquire
from venue.engine.books import EMPTY_LEVELS, LEVEL_POOL, ORDER_POOL, Books
from venue.engine.counters import FEED_DATAGRAM_TO_BOOK, MATCH, RING_WAIT
from venue.engine.events import STOP, Outbox, publish, stop
from venue.engine.histogram import record
from venue.engine.kernel import inlined, kernel, verb
from venue.engine.live_records import Live, create_private
from venue.engine.look_ahead import HINT, HINTS, hint_at, look_ahead, look_further, worth_it
from venue.engine.records import (
    ADD,
    CANCEL,
    CANCEL_ALL,
    CROSS,
    DAY_EVENT,
    DELETE,
    ENTER,
    EXECUTE,
    EXECUTE_AT_PRICE,
    FEED_LOSS,
    FEED_RESET,
    MODIFY,
    QUERY,
    REDUCE,
    REPLACE,
    REPLACE_RECORDED,
    SET_KILL_SWITCH,
    TRADE,
    TRADING_STATE,
    Array,
)
from venue.engine.reference import reference
from venue.engine.ring import Ring
from venue.engine.showing import Showing

BATCH: Final = 64
"""Commands taken off the ring between two publications."""

SPIN: Final = 0  # wait strategies
PARK: Final = 1
ADAPTIVE: Final = 2

SPINS_BEFORE_PARKING: Final = 20_000
"""Looks at an empty ring before the adaptive strategy sleeps: some 50 to 500 µs, depending on the core's pause."""

SPINS_BEFORE_SHOWING: Final = 1_024
"""A thread that spins for ever shows what it has done as often as that."""

SLEEP_MS: Final = 100
"""The longest sleep, after which the stop flag and the wishes of those who look are looked at again."""
NS_A_MS: Final = 1_000_000


class Matcher(NamedTuple):
    """Everything that the matching thread holds."""

    books: Books
    out: Outbox
    commands: Ring
    histograms: Array  # [HISTOGRAMS, ROW] int64, in the counters page
    hints: Array  # [HINTS] HINT: what the commands ahead may touch
    wait: Array  # [2] int64: the wait strategy, and the descriptor to sleep on
    showing: Showing


def create(
    books: Books,
    out: Outbox,
    commands: Ring,
    histograms: Array,
    wait: int,
    wake_descriptor: int,
    live: Live | None = None,
) -> Matcher:
    """A matcher that reads ``commands``. ``wake_descriptor`` is where its sleep is ended; ``live`` as for the books."""
    waiting = np.array([wait, wake_descriptor], np.int64)
    hints = np.zeros(HINTS, HINT)
    shown = showing.create(live or create_private(len(books.books)))
    return Matcher(books, out, commands, histograms, hints, waiting, shown)


@inlined
def apply_recorded(b: Books, out: Outbox, command: Array, kind: int, place: int) -> None:
    """One command of the feed, the most frequent kinds first. ``place``: where the index may have its order."""
    if kind == ADD:
        recorded.add(b, out, command)
    elif kind == DELETE:
        recorded.delete(b, command, place)
    elif kind == REPLACE_RECORDED:
        recorded.replace_recorded(b, out, command, place)
    elif kind in (EXECUTE, EXECUTE_AT_PRICE):
        recorded.execute(b, out, command, place)
    elif kind == REDUCE:
        recorded.reduce_recorded(b, command, place)
    elif kind == TRADE:
        recorded.hidden_trade(b, out, command)
    elif kind == CROSS:
        recorded.cross(b, command)
    elif kind == TRADING_STATE:
        if int(command["instrument"]) < len(b.books):
            b.books[int(command["instrument"])]["state"] = command["detail"]
    elif kind == FEED_LOSS:
        recorded.lose(b)
    elif kind == FEED_RESET:
        recorded.reset(b)


@inlined
def apply_order(b: Books, out: Outbox, command: Array, kind: int) -> None:
    """One command of a client or of the service. The account's number is checked where the command is made."""
    if kind == ENTER:
        orders.enter(b, out, command)
    elif kind == CANCEL:
        orders.cancel(b, out, command)
    elif kind == REPLACE:
        orders.replace(b, out, command)
    elif kind == MODIFY:
        orders.modify(b, out, command)
    elif kind == QUERY:
        orders.query(b, out, command)
    elif kind == CANCEL_ALL:
        orders.cancel_all(b, out, int(command["account"]), int(command["detail"]), int(command["time_ns"]))
    elif kind == SET_KILL_SWITCH:
        orders.set_kill_switch(b, out, command)
    elif kind == DAY_EVENT:
        orders.day_event(b, out, command)


@inlined
def apply_timed(m: Matcher, command: Array, kind: int, stamp_ns: int) -> None:
    """``apply_order``; of a client's command also how long it has waited since ``stamp_ns``, and took."""
    scratch = m.out.scratch
    of_client = command["ingress_ns"] > 0
    begun_ns = system.now_ns(scratch) if of_client else 0
    apply_order(m.books, m.out, command, kind)
    if of_client:
        record(m.histograms[RING_WAIT], begun_ns - stamp_ns)
        record(m.histograms[MATCH], system.now_ns(scratch) - begun_ns)


@verb
def note_gauges(m: Matcher) -> None:
    """What the counters page shows of the matching thread's memory and queues."""
    counters = m.books.counters[0]
    depth = ring.depth(m.commands)
    counters["command_ring_depth"] = depth
    counters["command_ring_high_water"] = max(depth, int(counters["command_ring_high_water"]))
    standing = pool.in_use(m.books.state, ORDER_POOL)
    counters["live_orders"] = standing
    counters["orders_high_water"] = max(standing, int(counters["orders_high_water"]))
    levels = pool.in_use(m.books.state, LEVEL_POOL) - int(m.books.state[EMPTY_LEVELS])
    counters["live_levels"] = levels
    counters["levels_high_water"] = max(levels, int(counters["levels_high_water"]))


@verb
def wait(m: Matcher, idle: int) -> int:
    """Spend a moment on an empty ring; gives back how often in a row that happened."""
    strategy = m.wait[0]
    if strategy == SPIN or (strategy == ADAPTIVE and idle < SPINS_BEFORE_PARKING):
        if strategy == SPIN and idle & (SPINS_BEFORE_SHOWING - 1) == 0:
            note_gauges(m)
            showing.settle_down(m.books, m.showing, m.out.scratch)
        cpu_relax()
        return idle + 1
    note_gauges(m)
    more_in_ns = showing.settle_down(m.books, m.showing, m.out.scratch)
    if more_in_ns > 0 and ring.park(m.commands):
        m.books.counters[0]["parks"] += 1
        system.sleep(m.wait[1], min(SLEEP_MS, 1 + more_in_ns // NS_A_MS), m.out.scratch)
        ring.unpark(m.commands)
    return 0


@kernel
def run(m: Matcher, rounds: int) -> None:
    """The matching thread: ``rounds`` turns, or (negative) until ``STOP`` is set and the command ring is empty.

    Each turn applies up to ``BATCH`` commands that are ready and publishes their events. What only a client's command
    needs is kept out of the feed's way: a message takes 2 % less for it (measured as in ``look_ahead.py``).
    """
    m = reference(m)
    idle = 0
    looked_at = 0  # how many of the coming commands the look-ahead knows already
    scratch = m.out.scratch
    counters = m.books.counters[0]
    while rounds != 0:
        rounds -= 1
        coming = ring.available(m.commands)
        ready = min(coming, BATCH)
        if ready == 0:
            if load_acquire(m.out.state, STOP) != 0:
                return
            idle = wait(m, idle)
            continue
        idle = 0
        note_gauges(m)
        looking_ahead = worth_it(m.books, coming)
        if looking_ahead and looked_at != coming:
            look_ahead(m.books, m.commands, m.hints, coming)
        looked_at = coming - ready if looking_ahead else 0
        feed_ingress_ns = 0
        for ahead in range(ready):
            place = ring.read_position(m.commands, ahead)
            command = m.commands.records[place]
            if looking_ahead:
                look_further(m.books, m.commands, m.hints, ahead, coming)
            kind = int(command["kind"])
            counters["commands"] += 1
            counters["last_command_time_ns"] = command["time_ns"]
            if kind >= ENTER:
                apply_timed(m, command, kind, m.commands.stamps_ns[place])
                continue
            ingress_ns = int(command["ingress_ns"])
            if ingress_ns > 0:  # the feed's own clock, not that of the service's commands about it
                feed_ingress_ns = ingress_ns
                counters["last_feed_time_ns"] = command["time_ns"]
            apply_recorded(m.books, m.out, command, kind, int(hint_at(m.hints, place)["place"]))
        publish(m.out)
        ring.release(m.commands, ready)  # after the events: an empty ring means that all of them are out
        if feed_ingress_ns > 0:
            record(m.histograms[FEED_DATAGRAM_TO_BOOK], system.now_ns(scratch) - feed_ingress_ns)
        showing.look_up(m.books, m.showing, scratch)


def warm_up(m: Matcher) -> None:
    """Compile the matching thread and what starts and stops it. Takes seconds the first time."""
    run(m, 0)
    ring.depth(m.commands)
    system.wake(m.wait[1], m.out.scratch)
    stop(m.out)
    m.out.state[STOP] = 0
