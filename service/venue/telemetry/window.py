"""The last ten seconds of every histogram, by subtracting what it held ten seconds ago."""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

from venue.engine.cells import Int64s
from venue.telemetry.page import Views

SPAN_NS: Final = 10_000_000_000


class Recent(NamedTuple):
    """What histograms gained in a window; shapes as in ``Views``."""

    histograms: Int64s
    account_histograms: Int64s


class Window:
    """Keeps one snapshot a second, so that a reading covers the last 10 to 11 seconds.

    Readings take nothing away: any number of scrapers see the same figures. Younger than ten seconds, the window
    reaches back to where it began.
    """

    def __init__(self, views: Views, now_ns: int) -> None:
        self._kept = deque([(now_ns, views)])

    def keep(self, views: Views, now_ns: int) -> None:
        """Remember a snapshot; call once a second. ``now_ns`` is any clock that only rises."""
        self._kept.append((now_ns, views))
        while len(self._kept) > 1 and self._kept[1][0] <= now_ns - SPAN_NS:
            self._kept.popleft()

    def since(self, views: Views, now_ns: int) -> Recent:
        """What the histograms of ``views`` gained in the window that ends at ``now_ns``."""
        start = self._kept[0][1]
        for kept_at_ns, kept in self._kept:
            if kept_at_ns > now_ns - SPAN_NS:
                break
            start = kept
        return Recent(
            views.histograms - start.histograms,
            views.account_histograms - start.account_histograms,
        )
