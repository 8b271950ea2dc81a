"""Who looks at which book: the wishes that the matching thread reads."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from venue.engine.live_records import PLACES
from venue.telemetry.live_memory import LiveMemory

LINGER_NS: Final = 5_000_000_000
"""A book goes on being shown for so long after somebody who polls looked, since that one comes back."""
NOTHING: Final = -1
INSTRUMENT_BITS: Final = 16


@dataclass(slots=True)
class Watch:
    """A book that is shown in a place, and by how many it is looked at."""

    place: int
    wish: int
    users: int = 0
    left_ns: int = -LINGER_NS
    """When somebody who may come back looked last."""

    @property
    def instrument(self) -> int:
        return self.wish & ((1 << INSTRUMENT_BITS) - 1)


class Watches:
    """All places. A new telemetry process begins with none, whatever an earlier one has left behind."""

    def __init__(self, memory: LiveMemory, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._wishes = memory.live.wishes
        self._clock = clock
        answered = max(int(live.depths["wish"].max()) for live in memory.shards)
        self._serial = max(0, *self._wishes[1:].tolist(), answered) >> INSTRUMENT_BITS
        self._watches: dict[int, Watch] = {}
        """By instrument."""
        self._wishes[0] = 0
        self._wishes[1:] = NOTHING

    def begin(self, instrument: int) -> Watch | None:
        """Look at a book until :meth:`end`; None if all places are taken by others who look."""
        watch = self._watches.get(instrument)
        if watch is None:
            place = self._free_place()
            if place is None:
                return None
            self._serial += 1
            watch = Watch(place, self._serial << INSTRUMENT_BITS | instrument)
            self._watches[instrument] = watch
            self._wishes[1 + place] = watch.wish
            self._wishes[0] = max(int(self._wishes[0]), place + 1)
        watch.users += 1
        return watch

    def end(self, watch: Watch, *, lingers: bool) -> None:
        """Look no longer. With ``lingers`` the book is shown for ``LINGER_NS`` more."""
        watch.users -= 1
        if lingers:
            watch.left_ns = self._clock()
        self.tick()

    def tick(self) -> None:
        """Give up what nobody looks at any more; call about once a second."""
        now = self._clock()
        for watch in [w for w in self._watches.values() if w.users == 0 and now - w.left_ns >= LINGER_NS]:
            self._give_up(watch)
        places = [watch.place for watch in self._watches.values()]
        self._wishes[0] = max(places, default=-1) + 1

    def _free_place(self) -> int | None:
        taken = {watch.place for watch in self._watches.values()}
        free = next((place for place in range(PLACES) if place not in taken), None)
        if free is not None:
            return free
        idle = min((w for w in self._watches.values() if w.users == 0), key=lambda w: w.left_ns, default=None)
        if idle is None:
            return None
        self._give_up(idle)
        return idle.place

    def _give_up(self, watch: Watch) -> None:
        del self._watches[watch.instrument]
        self._wishes[1 + watch.place] = NOTHING
