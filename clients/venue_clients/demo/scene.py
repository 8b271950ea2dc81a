"""What a demo plays: a made-up day, or the lively part of a recorded one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from venue.wire import itch
from venue_clients.capture import CaptureError, open_capture
from venue_clients.generate import OPEN_NS, DayPlan, SyntheticDay, stock_names
from venue_clients.records import Chunk, Int64s

SECOND_NS: Final = 1_000_000_000
STOCKS: Final = 8
"""At most so many are played: market maker and taker follow each of them in Python."""
MADE_UP_RATE: Final = 4_000
"""Messages a second of a made-up day."""
LONGEST_DAY_S: Final = 120.0
ACTIVE: Final = 0.85
"""Of a made-up day, from the opening on: it closes after 0.92 (`generate`)."""
LEAST_RATE: Final = 200
"""Messages a second below which a recorded day is played faster than it was."""
SCAN_LIMIT: Final = 20_000_000
"""Messages after which nobody looks for the opening any more; on a real day it comes after some eight million."""

Stopped = Callable[[], bool]
"""Whether nobody waits for the result any more; asked from another thread."""

_EVENT_CODE_AT: Final = itch.SystemEvent.layout.offset("event_code")
_STOCK_AT: Final = itch.AddOrder.layout.offset("stock")
assert itch.AddOrderMpid.layout.offset("stock") == _STOCK_AT


@dataclass(frozen=True, slots=True)
class Scene:
    path: Path
    symbols: tuple[str, ...]
    """What is played of it."""
    from_ns: int
    """Time of day; what was recorded before only builds the books."""
    speed: float
    title: str
    plan: DayPlan | None = None
    """Of a made-up day, which is yet to be written."""

    def write(self, stopped: Stopped) -> None:
        """Takes a second or a few for a made-up day. OSError if there is no room for it."""
        if self.plan is None:
            return
        day, end_ns = SyntheticDay(self.plan), OPEN_NS + int(self.plan.seconds * ACTIVE * SECOND_NS)
        with self.path.open("wb") as file:
            for block in day.blocks():
                file.write(block)
                if stopped() or day.last_ns >= end_ns:
                    return


def made_up(folder: Path, seconds: float, seed: int) -> Scene:
    """A day that is long enough, up to LONGEST_DAY_S. It ends before it closes: what goes on then begins anew."""
    span_s = (min(seconds, LONGEST_DAY_S) + 8) / ACTIVE
    symbols = stock_names(STOCKS)
    plan = DayPlan(symbols, int(span_s * MADE_UP_RATE), span_s, seed)
    return Scene(folder / "day.itch", symbols, OPEN_NS, 1.0, f"a made-up day of {STOCKS} stocks", plan)


def recorded(path: Path, seconds: float, stopped: Stopped) -> Scene:
    """The part of a file that is worth `seconds` of somebody's time. Raises CaptureError.

    It begins when the market opens, or with the first order where the file holds no opening, and is played as fast as
    it happened; faster where there are less than LEAST_RATE messages a second, and slower where the file ends sooner.
    """
    survey = Survey(int(seconds * SECOND_NS), int(seconds * LEAST_RATE))
    capture = open_capture(path)
    with closing(capture.chunks()) as chunks:
        for chunk in chunks:
            if survey.take(chunk) or stopped():
                break
    stretch, symbols = survey.stretch(), survey.busiest(STOCKS)
    if stretch is None or not symbols:
        raise CaptureError(f"{path} holds no orders: nothing can be traded on it")
    names = ", ".join(symbols[:3]) + (f" and {len(symbols) - 3} more" if len(symbols) > 3 else "")
    return Scene(path, symbols, stretch.begin_ns, stretch.speed(), f"{names} from {path.name}")


class Stretch:
    """A part of a recorded day, from `begin_ns` on, and how much of it is worth `seconds_ns` of somebody's time."""

    def __init__(self, begin_ns: int, seconds_ns: int, least: int) -> None:
        self.begin_ns = begin_ns
        self.count = 0
        self._seconds_ns = seconds_ns
        self._least = least
        self._enough_ns: int | None = None  # time of message number `least`
        self._last_ns = begin_ns

    @property
    def done(self) -> bool:
        return self._enough_ns is not None and self._last_ns >= self.begin_ns + self._seconds_ns

    def take(self, times_ns: Int64s) -> None:
        """The times of the next messages, which never go back."""
        times_ns = times_ns[np.searchsorted(times_ns, self.begin_ns) :]
        if self.done or not len(times_ns):
            return
        if self._enough_ns is None and self.count + len(times_ns) >= self._least:
            self._enough_ns = int(times_ns[self._least - self.count - 1])
        self.count += len(times_ns)
        self._last_ns = int(times_ns[-1])

    def speed(self) -> float:
        """The factor at which it is played, to three digits."""
        if self.done and self._enough_ns is not None:
            span_ns, takes_ns = max(self._seconds_ns, self._enough_ns - self.begin_ns), self._seconds_ns
        else:  # the file ends sooner: all of it, and a second to spare
            span_ns, takes_ns = max(1, self._last_ns - self.begin_ns), self._seconds_ns + SECOND_NS
        return float(f"{span_ns / takes_ns:.3g}")


class Survey:
    """Finds the opening, the busiest stocks, and the pace of what comes after."""

    def __init__(self, seconds_ns: int, least: int) -> None:
        self._seconds_ns = seconds_ns
        self._least = max(1, least)
        self._orders: Counter[str] = Counter()
        self._scanned = 0
        self._from_first_order: Stretch | None = None
        self._from_opening: Stretch | None = None

    def take(self, chunk: Chunk) -> bool:
        """Returns whether enough has been seen."""
        octets = np.frombuffer(chunk.block, np.uint8)
        starts = chunk.bounds[:-1] + 2
        kinds = octets[starts]
        adds = np.flatnonzero((kinds == ord("A")) | (kinds == ord("F")))
        self._count_orders(octets, starts[adds])
        if self._from_first_order is None and len(adds):
            self._from_first_order = self._begin(int(chunk.times_ns[adds[0]]))
        if self._from_opening is None:
            for event in np.flatnonzero(kinds == ord("S")):
                if octets[starts[event] + _EVENT_CODE_AT] == ord("Q"):
                    self._from_opening = self._begin(int(chunk.times_ns[event]))
        for stretch in (self._from_first_order, self._from_opening):
            if stretch is not None:
                stretch.take(chunk.times_ns)
        self._scanned += len(chunk)
        opened = self._from_opening is not None and self._from_opening.done
        quiet = self._scanned >= SCAN_LIMIT and self._from_first_order is not None and self._from_first_order.done
        return opened or quiet

    def stretch(self) -> Stretch | None:
        """From the opening, unless next to nothing comes after it."""
        if self._from_opening is not None and self._from_opening.count > 1:
            return self._from_opening
        return self._from_first_order

    def busiest(self, count: int) -> tuple[str, ...]:
        """The stocks with the most orders, the first of them first."""
        ranked = sorted(self._orders.items(), key=lambda item: (-item[1], item[0]))
        return tuple(symbol for symbol, _ in ranked[:count])

    def _begin(self, begin_ns: int) -> Stretch:
        return Stretch(begin_ns, self._seconds_ns, self._least)

    def _count_orders(self, octets: np.ndarray[tuple[int], np.dtype[np.uint8]], starts: Int64s) -> None:
        stocks = octets[(starts + _STOCK_AT)[:, None] + np.arange(8)]
        for stock, count in zip(*np.unique(stocks.view("S8"), return_counts=True), strict=True):
            symbol = bytes(stock).decode("latin-1").rstrip()
            if symbol and symbol.isascii() and symbol.isprintable() and " " not in symbol:
                self._orders[symbol] += int(count)
