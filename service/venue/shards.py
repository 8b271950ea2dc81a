"""When the loop thread routes commands and merges events, if there are several matching threads.

Everything that has something for the loop thread writes to one descriptor: whoever publishes to the intake, and every
matching thread that publishes events, each once for a sleep. Then comes a turn (:mod:`venue.engine.merging`), after
which the gateway reads the merged events at once. Commands that a full ring holds back are tried again by the clock.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from typing import Any

from venue.engine import merging, ring, sharding, system
from venue.engine.link import Link
from venue.engine.records import Array
from venue.gateway import RETRY_S


class Shards:
    """The rings of several matching threads. ``link`` is the loop thread's; its ``command_wake`` is read here.

    ``accounts`` are ACCOUNT records with their limits set; ``user_refs`` as for the books; ``capacities`` are those of
    each thread's command ring and event ring. Belongs to the loop thread.
    """

    def __init__(
        self, link: Link, shards: int, accounts: Array, *, user_refs: int, capacities: tuple[int, int]
    ) -> None:
        wakes = [system.wake_descriptor() for _ in range(shards)]
        self.sharding = sharding.create(
            link.commands,
            link.events,
            wakes,
            accounts,
            user_refs=user_refs,
            command_capacity=capacities[0],
            event_capacity=capacities[1],
        )
        self.links = [
            Link(
                sharding.ring_of(self.sharding.commands, shard),
                sharding.ring_of(self.sharding.answers, shard),
                wakes[shard],
                link.command_wake,
            )
            for shard in range(shards)
        ]
        """Each matching thread's ends."""
        self._fields: tuple[Any, ...] = tuple(
            tuple(field) if isinstance(field, ring.Ring) else field for field in self.sharding
        )
        self._wake = link.command_wake
        self._on_events: Callable[[], None] = lambda: None
        self._next: asyncio.Handle | None = None

    def warm_up(self) -> None:
        """Compile the turn; before the matching threads start."""
        merging.turn(self._fields)

    def start(self, on_events: Callable[[], None]) -> None:
        """Go on in the running loop from now on; ``on_events`` is called when there are events to read."""
        self._on_events = on_events
        asyncio.get_running_loop().add_reader(self._wake, self._woken)
        self.turn()

    def stop(self) -> None:
        asyncio.get_running_loop().remove_reader(self._wake)
        if self._next is not None:
            self._next.cancel()

    def _woken(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake, 8)
        self.turn()

    def turn(self) -> None:
        """Move what is there, and see to it that what is left is moved, too."""
        if self._next is not None:
            self._next.cancel()
            self._next = None
        count, held, more = merging.turn(self._fields)
        if more:
            self._next = asyncio.get_running_loop().call_soon(self.turn)
        elif held:
            self._next = asyncio.get_running_loop().call_later(RETRY_S, self.turn)
        if count:
            self._on_events()
