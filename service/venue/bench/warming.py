"""Cores that are awake before anything is timed.

A core that has slept is slow for its first milliseconds: on a virtual machine its host has to wake it, and its clock
rises again. A bench of two threads meets that each time, as the second core has slept since the run before. `venue
bench pipeline` without this and with it, to inline: two shards 1.4 and 1.8, two threads with batch 64 1.2 and 1.3.
First busy, then together: threads that are woken together may share a core for some milliseconds (two shards 1.4 to
1.8), while busy ones have been spread over the cores.
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
    """Look at the clock for ``duration_ns``. ``scratch``: int64[2]."""
    begun = system.now_ns(scratch)
    while system.now_ns(scratch) - begun < duration_ns:
        cpu_relax()


def begin_warm(start: threading.Barrier) -> None:
    """Called by each thread of ``start`` just before its work: all go on together, each on a core that was busy."""
    _stay_busy(WARM_NS, np.zeros(2, np.int64))
    start.wait()
