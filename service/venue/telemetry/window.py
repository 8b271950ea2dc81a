"""The last ten seconds of every histogram, by subtracting what it held ten seconds ago."""

from __future__ import annotations

from collections import deque
from typing import Final

from venue.engine.cells import Int64s

SPAN_NS: Final = 10_000_000_000


class Window:
    """Keeps one copy of the histograms a second, so that a reading covers the last 10 to 11 seconds.

    Readings take nothing away: any number of scrapers see the same figures. Younger than ten seconds, the window
    reaches back to where it began.
    """

    def __init__(self, histograms: Int64s, now_ns: int) -> None:
        self._kept = deque([(now_ns, histograms)])

    def keep(self, histograms: Int64s, now_ns: int) -> None:
        """Remember a copy; call once a second. ``now_ns`` is any clock that only rises."""
        self._kept.append((now_ns, histograms))
        while len(self._kept) > 1 and self._kept[1][0] <= now_ns - SPAN_NS:
            self._kept.popleft()

    def since(self, histograms: Int64s, now_ns: int) -> Int64s:
        """What ``histograms`` gained in the window that ends at ``now_ns``, in the same shape."""
        start = self._kept[0][1]
        for kept_at_ns, kept in self._kept:
            if kept_at_ns > now_ns - SPAN_NS:
                break
            start = kept
        return histograms - start
