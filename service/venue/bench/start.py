"""`venue bench start`: from starting `venue serve` to its ready line, with no kernels compiled yet and with all.

A cold start has an empty VENUE_CACHE_DIR of its own; the warm starts after it find there what it has compiled. The
configuration is the default one but for ports that are free.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import asdict, dataclass
from datetime import datetime
from statistics import median
from typing import Any, Final

from venue.bench.exchange import BenchError, serving
from venue.bench.report import Report, Rows, steps

WARM_STARTS: Final = 5
"""After each cold one."""
PARTS: Final = ("imports_s", "assembling_s", "kernels_s", "doors_s", "ready_s")
COLUMNS: Final = ("start", "imports", "assembling", "kernels", "doors", "ready after")

NOTES: Final = [
    "Seconds, medians part by part. Python and its packages are in the system's file cache, their byte code is "
    "compiled. A cold start compiles in two processes if there are two cores.",
    "imports: until it logs that it starts, with all ports bound. assembling: books, rings, shared memory, the "
    "telemetry process begun, and Numba's own setting up before its first kernel. kernels: compiled, or read from the "
    "cache. doors: both threads started and all ports open.",
]


@dataclass(frozen=True, slots=True)
class Start:
    """One start, in parts (:data:`NOTES` says which), and their sum."""

    imports_s: float
    assembling_s: float
    kernels_s: float
    doors_s: float
    ready_s: float


def bench_start(repeats: int) -> Report:
    """`venue bench start`. BenchError if the exchange does not start."""
    cold, warm = [], []
    with steps(repeats * (1 + WARM_STARTS)) as progress:
        for _ in range(repeats):
            with tempfile.TemporaryDirectory(prefix="venue-bench-") as cache:
                progress.begin("cold start: compiling")
                cold.append(start_once(VENUE_CACHE_DIR=cache))
                progress.done()
                for _ in range(WARM_STARTS):
                    progress.begin("warm start")
                    warm.append(start_once(VENUE_CACHE_DIR=cache))
                    progress.done()
    return report_of(cold, warm)


def start_once(**environment: str) -> Start:
    """Start an exchange in this environment, and stop it as soon as it is ready."""
    begun = time.time()
    with serving("", VENUE_LOG="json", **environment) as served:
        logged = {line["event"]: line for line in served.log}
    try:
        starting_s = datetime.fromisoformat(logged["starting"]["at"]).timestamp() - begun
        compiled_s = datetime.fromisoformat(logged["kernels ready"]["at"]).timestamp() - begun
        kernels_s = float(logged["kernels ready"]["seconds"])
    except KeyError as missing:
        raise BenchError(f"the exchange did not log {missing}") from None
    return Start(
        imports_s=starting_s,
        assembling_s=compiled_s - kernels_s - starting_s,
        kernels_s=kernels_s,
        doors_s=served.ready_after_s - compiled_s,
        ready_s=served.ready_after_s,
    )


def report_of(cold: list[Start], warm: list[Start]) -> Report:
    """Medians of both kinds."""
    rows, figures = [], dict[str, Any]()
    for kind, starts in (("cold", cold), ("warm", warm)):
        medians = {part: median(getattr(start, part) for start in starts) for part in PARTS}
        rows.append((f"{kind}, of {len(starts)}", *(f"{medians[part]:.2f}" for part in PARTS)))
        figures[kind] = medians | {"starts": [asdict(start) for start in starts]}
    return Report([Rows("From `venue serve` to its ready line, seconds", COLUMNS, rows)], figures, NOTES)
