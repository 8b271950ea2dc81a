"""Cores that are awake before anything is timed.

A core that has slept is slow for its first milliseconds: on a virtual machine its host has to wake it, and its clock
rises again. A bench of two threads meets that each time, as the second core has slept since the run before. In `venue
bench pipeline` two shards / inline was 1.3 to 1.5 and is 1.8 with this, two threads with batch 64 1.05 to 1.3 and 1.3;
two threads that share nothing took 55 instead of 50 ns an event.
"""

from __future__ import annotations

import threading
from typing import Final

import numpy as np

from venue.engine import system
from venue.engine.atomics import cpu_relax
from venue.engine.kernel import kernel
from venue.engine.records import Array

WARM_NS: Final = 5_000_000


@kernel
def _stay_busy(duration_ns: int, scratch: Array) -> None:
    """Look at the clock for so long. ``scratch``: int64[2]."""
    begun = system.now_ns(scratch)
    while system.now_ns(scratch) - begun < duration_ns:
        cpu_relax()


def begin_warm(start: threading.Barrier) -> None:
    """Called by each thread of ``start`` just before its work: all go on together, none on a core that has slept."""
    _stay_busy(WARM_NS, np.zeros(2, np.int64))
    start.wait()
