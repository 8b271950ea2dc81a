"""Several matching threads behind one intake and one event ring, driven step by step in the thread of the test."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from commands import Command
from engine_under_test import BooksView, event_of
from exchange import Event, Levels, Limits
from venue.engine import books, events, live_records, loop, merging, ring, sharding
from venue.engine import records as r
from venue.engine.cells import ROW
from venue.engine.counters import HISTOGRAMS
from venue.engine.ring import Ring


class Sharded:
    """``shards`` matchers, a router and a merge, and what the test asks of them. Nothing moves by itself."""

    def __init__(
        self,
        shards: int = 2,
        mode: int = r.CONSUME,
        accounts: Sequence[Limits] = ({},),
        instruments: int = 4,
        orders: int = 1_000,
        *,
        user_refs: int = 1 << 15,
        command_ring: int = 1 << 12,
        event_ring: int = 1 << 12,
        capacities: tuple[int, int] = (1 << 12, 1 << 12),
    ) -> None:
        self.intake, self.events = ring.create(command_ring, r.COMMAND), ring.create(event_ring, r.EVENT)
        limits = [limited(accounts) for _ in range(shards)]
        self.sharding = sharding.create(
            self.intake,
            self.events,
            [-1] * shards,
            limits[0],
            user_refs=user_refs,
            command_capacity=capacities[0],
            event_capacity=capacities[1],
        )
        self._fields: tuple[Any, ...] = tuple(
            tuple(field) if isinstance(field, Ring) else field for field in self.sharding
        )
        self.matchers = []
        for shard in range(shards):
            live = live_records.create_private(instruments, 1 << 10, orders)
            state = books.create(
                instruments=instruments,
                accounts=limits[shard],
                orders=orders,
                levels=orders,
                user_refs=user_refs,
                mode=mode,
                live=live,
            )
            self.matchers.append(matcher(state, self.sharding, shard, live))
        self.views = [BooksView(one.books, mode) for one in self.matchers]
        self.count, self.held, self.more = 0, False, False

    # --- the loop thread's side -----------------------------------------------------------------------------------

    def put(self, *commands: Command) -> None:
        """As a decoder does."""
        put(self.intake, commands)

    def turn(self) -> None:
        self.count, self.held, self.more = merging.turn(self._fields)

    def hear(self) -> list[Event]:
        """What the gateway reads."""
        return [event_of(record) for record in taken(self.events)]

    # --- the matching threads' side -------------------------------------------------------------------------------

    def waiting(self, shard: int) -> list[Any]:
        """The commands on a thread's ring."""
        commands = self.matchers[shard].commands
        return [commands.records[ring.read_position(commands, ahead)].copy() for ahead in range(ring.depth(commands))]

    def match(self, *shards: int) -> None:
        """Let these threads, or all, apply what they have."""
        for shard in shards or range(len(self.matchers)):
            while ring.depth(self.matchers[shard].commands):
                loop.run(self.matchers[shard], 1)

    # --- all of it ------------------------------------------------------------------------------------------------

    def send(self, command: Command) -> list[Event]:
        """One command, handled by whomever it concerns."""
        self.put(command)
        self.turn()
        self.match()
        self.turn()
        return self.hear()

    def sent(self, *commands: Command) -> list[str]:
        """Commands one after the other; what was heard of all of them, a line an event."""
        return [str(event) for command in commands for event in self.send(command)]

    def book(self, instrument: int) -> tuple[Levels, Levels]:
        return self.views[instrument % len(self.views)].book(instrument)

    def counters(self) -> dict[str, int]:
        """Of all threads."""
        every = [view.counters() for view in self.views]
        return {
            name: sum(one.get(name, 0) for one in every) for name in sorted({name for one in every for name in one})
        }

    def total(self, name: str, account: int = 0) -> int:
        """What the router knows of an account."""
        return int(self.sharding.totals[account][name])


def limited(accounts: Sequence[Limits]) -> Any:
    rows = r.aligned(len(accounts), r.ACCOUNT)
    for row, limits in zip(rows, accounts, strict=True):
        for name, value in limits.items():
            row[name] = value
    return rows


def matcher(state: books.Books, among: sharding.Sharding, shard: int, live: live_records.Live) -> loop.Matcher:
    outbox = events.create_outbox(sharding.ring_of(among.answers, shard))
    sharding.number_apart(state, outbox, shard)
    histograms = r.aligned(HISTOGRAMS * ROW, np.dtype("<i8")).reshape(HISTOGRAMS, ROW)
    commands = sharding.ring_of(among.commands, shard)
    return loop.create(state, outbox, commands, histograms, loop.SPIN, -1, live)


def put(commands: Ring, new: Sequence[Command]) -> None:
    """Publish commands, which have to find room."""
    assert ring.free(commands, len(new)) >= len(new)
    for ahead, command in enumerate(new):
        commands.records[ring.write_position(commands, ahead)] = command
    ring.publish(commands, len(new), 5)


def taken(events_ring: Ring) -> list[Any]:
    """Copies of all events that are there, which are gone then."""
    count = ring.depth(events_ring)
    records = [events_ring.records[ring.read_position(events_ring, ahead)].copy() for ahead in range(count)]
    ring.release(events_ring, count)
    return records
