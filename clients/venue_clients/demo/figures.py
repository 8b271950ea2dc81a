"""What /metrics says, as numbers to show."""

from __future__ import annotations

import asyncio
import http.client
from bisect import bisect_left
from collections.abc import Mapping
from typing import Final

from prometheus_client.parser import text_string_to_metric_families

TIMEOUT_S: Final = 5.0
ORDER_TO_ACK: Final = "venue_order_to_ack"
FEED_TO_BOOK: Final = "venue_feed_to_book"
STAGE: Final = "venue_stage"
STAGES: Final = {
    "socket_to_ring": "socket to ring",
    "ring_wait": "wait on the ring",
    "match": "risk checks and match",
    "ring_back": "back to the loop",
    "encode_write": "encode and write",
}
MAXIMUM: Final = "1"
"""The label `quantile` of the largest value."""


class Figures:
    """One scrape. Names and labels are those of the metrics; what is absent is 0, or None for a quantile."""

    def __init__(self, text: str = "") -> None:
        self._samples: dict[str, list[tuple[Mapping[str, str], float]]] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                self._samples.setdefault(sample.name, []).append((sample.labels, sample.value))

    def total(self, name: str, **labels: str) -> int:
        """The sum over all samples with these labels."""
        return int(sum(value for having, value in self._samples.get(name, []) if labels.items() <= having.items()))

    def recent(self, name: str, quantile: str, **labels: str) -> float | None:
        """Seconds, over the last ten."""
        wanted = {"quantile": quantile, **labels}
        for having, value in self._samples.get(f"{name}_recent_seconds", []):
            if wanted.items() <= having.items():
                return value
        return None

    def percentile(self, name: str, q: float, **labels: str) -> float | None:
        """Seconds, since the start; from a histogram's buckets, within one of which it is taken to be uniform."""
        buckets = sorted(
            (float(having["le"]), value)
            for having, value in self._samples.get(f"{name}_seconds_bucket", [])
            if labels.items() <= having.items()
        )
        if not buckets or not buckets[-1][1]:
            return None
        bounds, counts = [bound for bound, _ in buckets], [count for _, count in buckets]
        rank = q * counts[-1]
        place = min(bisect_left(counts, rank), len(buckets) - 2)  # the last one has no upper bound
        below, lower = (counts[place - 1], bounds[place - 1]) if place else (0.0, 0.0)
        within = (rank - below) / (counts[place] - below) if counts[place] > below else 1.0
        return lower + min(1.0, within) * (bounds[place] - lower)


class Watch:
    """The latest scrape, what has changed since the one before, and the largest latencies of all of them: each covers
    the last ten seconds, so that none is missed as long as there is a scrape every ten seconds."""

    def __init__(self) -> None:
        self.latest = Figures()
        self._before = Figures()
        self._at_s = self._before_at_s = 0.0
        self._largest: dict[tuple[str, str], float] = {}

    def take(self, figures: Figures, at_s: float) -> None:
        self._before, self.latest = self.latest, figures
        self._before_at_s, self._at_s = self._at_s, at_s
        for name, stage in [(ORDER_TO_ACK, ""), (FEED_TO_BOOK, ""), *((STAGE, stage) for stage in STAGES)]:
            seconds = figures.recent(name, MAXIMUM, **({"stage": stage} if stage else {}))
            if seconds is not None:
                self._largest[name, stage] = max(seconds, self._largest.get((name, stage), 0.0))

    def rate(self, name: str, **labels: str) -> float:
        """A second, between the last two scrapes."""
        if not self._before_at_s:
            return 0.0
        change = self.latest.total(name, **labels) - self._before.total(name, **labels)
        return change / max(1e-3, self._at_s - self._before_at_s)

    def largest(self, name: str, stage: str = "") -> float | None:
        """Seconds."""
        return self._largest.get((name, stage))


async def scrape(address: tuple[str, int]) -> Figures:
    """Read /metrics. OSError or HTTPException if there is nobody, or not within TIMEOUT_S."""
    return Figures(await asyncio.to_thread(_get, address))


def _get(address: tuple[str, int]) -> str:
    connection = http.client.HTTPConnection(*address, timeout=TIMEOUT_S)
    try:
        connection.request("GET", "/metrics")
        response = connection.getresponse()
        body = response.read().decode()
        if response.status != http.client.OK:
            raise OSError(f"/metrics answers with status {response.status}")
        return body
    finally:
        connection.close()
