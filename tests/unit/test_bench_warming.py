"""How threads begin together on cores that are awake."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

from venue.bench.warming import WARM_NS, begin_warm


def test_nobody_begins_before_all_have_come_and_their_cores_were_busy_for_a_while() -> None:
    start = threading.Barrier(2)
    first_waits = threading.Event()

    def first() -> int:
        first_waits.set()
        begin_warm(start)
        return time.monotonic_ns()

    def last() -> tuple[int, int]:
        assert first_waits.wait(30)
        came_ns = time.monotonic_ns()
        begin_warm(start)
        return came_ns, time.monotonic_ns()

    with ThreadPoolExecutor(2) as pool:
        early, late = pool.submit(first), pool.submit(last)
        first_began_ns, (last_came_ns, last_began_ns) = early.result(), late.result()
    assert min(first_began_ns, last_began_ns) >= last_came_ns + WARM_NS
