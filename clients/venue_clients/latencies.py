"""When open-loop orders are due, and how long their answers took: arithmetic only, no clock.

Order n is due at `start + n / rate`, whatever happened to the orders before it. Its latency counts from there: while
a venue stalls for a second, the orders of that second are late by up to a second each, as they would be for a client
who wanted to send them then. Counting from the actual send would show a single outlier.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import Final

import numpy as np

SECOND_NS: Final = 1_000_000_000
PERCENTILES: Final = {"p50": 50.0, "p90": 90.0, "p99": 99.0, "p99.9": 99.9}


@dataclass(frozen=True, slots=True)
class Schedule:
    """`count` orders from `start_ns` on, `rate` a second."""

    start_ns: int
    rate: float
    count: int

    def due_ns(self, number: int) -> int:
        """When order `number` (from 0) is to be sent."""
        return self.start_ns + int(number * SECOND_NS / self.rate)

    def due_by(self, now_ns: int) -> int:
        """How many orders are due at `now_ns`, sent or not."""
        guess = int((now_ns - self.start_ns) * self.rate / SECOND_NS) + 2
        while guess > 0 and self.due_ns(guess - 1) > now_ns:
            guess -= 1
        return max(0, min(guess, self.count))


class Latencies:
    """Samples in ns, all of them kept."""

    def __init__(self) -> None:
        self.samples = array("q")

    def __len__(self) -> int:
        return len(self.samples)

    def add(self, latency_ns: int) -> None:
        self.samples.append(latency_ns)

    def percentiles(self) -> dict[str, int]:
        """Nearest-rank percentiles and the maximum, each a latency that occurred; empty without samples."""
        if not self.samples:
            return {}
        ordered = np.sort(np.array(self.samples, np.int64))
        ranks = {name: -(-int(percent * 10) * len(ordered) // 1000) for name, percent in PERCENTILES.items()}
        return {name: int(ordered[max(1, rank) - 1]) for name, rank in ranks.items()} | {"max": int(ordered[-1])}
