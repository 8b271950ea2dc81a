"""`venue bench handoff`: what it takes to hand a record from one thread to another.

First the latency at a steady rate. A producer spins on the clock and sends each message when it is due; the consumer
reads the clock when it has it. What counts is the time since the message was *due*, so that a producer that was held up
cannot hide it. Then the throughput of a ring with its two indices on one cache line, on lines of their own, and with a
copy of the other side's index as well, which is the engine's ring.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from statistics import median
from typing import Any, Final

import numpy as np

from venue.bench import mutex_queue
from venue.bench.mutex_queue import MutexQueue
from venue.bench.report import Report, Rows, steps
from venue.bench.warming import WARM_NS, begin_warm
from venue.engine import ring, system
from venue.engine.atomics import cpu_relax, load_acquire, store_release
from venue.engine.kernel import kernel
from venue.engine.records import COMMAND, Array, aligned
from venue.engine.ring import Ring

RATE: Final = 1_000_000
"""Messages a second in the first table."""
LATE_MESSAGES: Final = 500_000
FAST_MESSAGES: Final = 2_000_000
CAPACITY: Final = 1024
HEAD_START_NS: Final = 2_000_000
"""How long after the producer began the first message is due, so that the consumer is there."""
QUANTILES: Final = {"p50_ns": 0.5, "p99_ns": 0.99, "p999_ns": 0.999}

PUBLISHED_MEDIANS_NS: Final = {"ring": 920, "mutex queue": 33_500}
"""Of the C++20 engine Pulse on an Apple M1 Pro at the same rate."""

VALUE: Final = np.dtype([("value", "<i8")])
ONE_LINE: Final = (0, 1)
"""Where an array of indices holds tail and head."""
PADDED: Final = (ring.TAIL, ring.HEAD)


# --- latency at a steady rate -------------------------------------------------------------------------------------


@kernel
def send_through_ring(r: Ring, count: int, interval_ns: int, scratch: Array) -> None:
    """Publish ``count`` records, each when it is due, with that time in ``word0``."""
    due_ns = system.now_ns(scratch) + HEAD_START_NS
    for _ in range(count):
        while system.now_ns(scratch) < due_ns or ring.free(r, 1) == 0:
            pass
        r.records[ring.write_position(r, 0)]["word0"] = due_ns
        ring.publish(r, 1, due_ns)
        due_ns += interval_ns


@kernel
def receive_from_ring(r: Ring, latencies_ns: Array, scratch: Array) -> None:
    """Take as many records as ``latencies_ns`` has places, and write down how long after they were due."""
    done = 0
    while done < len(latencies_ns):
        while ring.available(r) == 0:
            cpu_relax()
        due_ns = int(r.records[ring.read_position(r, 0)]["word0"])
        latencies_ns[done] = system.now_ns(scratch) - due_ns
        ring.release(r, 1)
        done += 1


@kernel
def send_through_queue(queue: MutexQueue, record: Array, count: int, interval_ns: int, scratch: Array) -> None:
    """The same for the mutex queue; ``record`` is one record to send from."""
    due_ns = system.now_ns(scratch) + HEAD_START_NS
    for _ in range(count):
        while system.now_ns(scratch) < due_ns:
            pass
        record[0]["word0"] = due_ns
        mutex_queue.put(queue, record, 0, 1)
        due_ns += interval_ns


@kernel
def receive_from_queue(queue: MutexQueue, record: Array, latencies_ns: Array, scratch: Array) -> None:
    """The same for the mutex queue; ``record`` is one record to receive into."""
    for done in range(len(latencies_ns)):
        mutex_queue.take(queue, record, 0, 1)
        latencies_ns[done] = system.now_ns(scratch) - int(record[0]["word0"])


# --- throughput of three rings ------------------------------------------------------------------------------------
# Nobody pauses while waiting: a pause lets the other side run ahead, and hides what the layout costs.


@kernel
def push_plainly(values: Array, indices: Array, tail_at: int, head_at: int, count: int) -> None:
    """A ring without copies of indices: looks at the consumer's for each of the numbers below ``count``."""
    for number in range(count):
        tail = int(indices[tail_at])
        while tail - load_acquire(indices, head_at) == len(values):
            pass
        values[tail & (len(values) - 1)]["value"] = number
        store_release(indices, tail_at, tail + 1)


@kernel
def pop_plainly(values: Array, indices: Array, tail_at: int, head_at: int, count: int, sink: Array) -> None:
    """Its other end: each number goes into ``sink[0]``, and ``sink[1]`` counts those that came out of order."""
    for number in range(count):
        head = int(indices[head_at])
        while load_acquire(indices, tail_at) == head:
            pass
        store_release(sink, 0, int(values[head & (len(values) - 1)]["value"]))
        sink[1] += sink[0] != number
        store_release(indices, head_at, head + 1)


@kernel
def push(r: Ring, count: int) -> None:
    """The engine's ring, one record a publication."""
    for number in range(count):
        while ring.free(r, 1) == 0:
            pass
        r.records[ring.write_position(r, 0)]["value"] = number
        ring.publish(r, 1, 0)


@kernel
def pop(r: Ring, count: int, sink: Array) -> None:
    """Its other end, as in :func:`pop_plainly`."""
    for number in range(count):
        while ring.available(r) == 0:
            pass
        store_release(sink, 0, int(r.records[ring.read_position(r, 0)]["value"]))
        sink[1] += sink[0] != number
        ring.release(r, 1)


# --- around them --------------------------------------------------------------------------------------------------


class LostError(Exception):
    """Something did not come out as it went in: a bug, and no figure counts."""


def together(send: Callable[[], None], receive: Callable[[], None]) -> float:
    """Run both ends, each on a thread of its own; the seconds until both are done."""
    start = threading.Barrier(2)
    scratch = np.zeros(2, np.int64)

    def begin(work: Callable[[], None]) -> tuple[int, int]:
        begin_warm(start)
        begun_ns = int(system.now_ns(scratch.copy()))
        work()
        return begun_ns, int(system.now_ns(scratch.copy()))

    with ThreadPoolExecutor(2) as pool:
        spans = [done.result() for done in (pool.submit(begin, receive), pool.submit(begin, send))]
    return (max(ended for _, ended in spans) - min(begun for begun, _ in spans)) / 1e9


def latencies_of_ring(count: int, interval_ns: int) -> Array:
    """How long after it was due each message came through the engine's ring, in ns."""
    r = ring.create(CAPACITY, COMMAND)
    latencies_ns = np.full(count, -1, np.int64)
    together(
        lambda: send_through_ring(r, count, interval_ns, np.zeros(2, np.int64)),
        lambda: receive_from_ring(r, latencies_ns, np.zeros(2, np.int64)),
    )
    return latencies_ns


def latencies_of_queue(count: int, interval_ns: int) -> Array:
    """The same for the mutex queue."""
    queue = mutex_queue.create(CAPACITY, COMMAND)
    latencies_ns = np.full(count, -1, np.int64)
    together(
        lambda: send_through_queue(queue, aligned(1, COMMAND), count, interval_ns, np.zeros(2, np.int64)),
        lambda: receive_from_queue(queue, aligned(1, COMMAND), latencies_ns, np.zeros(2, np.int64)),
    )
    return latencies_ns


def seconds_of_plain(count: int, places: tuple[int, int]) -> float:
    """How long ``count`` numbers take through a ring without copies, its indices at these places. LostError."""
    values, indices, sink = (
        aligned(CAPACITY, VALUE),
        aligned(ring.CONTROL_WORDS, np.dtype("<i8")),
        np.zeros(2, np.int64),
    )
    seconds = together(
        lambda: push_plainly(values, indices, *places, count),
        lambda: pop_plainly(values, indices, *places, count, sink),
    )
    check(sink, count)
    return seconds


def seconds_of_ring(count: int) -> float:
    """The same for the engine's ring."""
    r = ring.create(CAPACITY, VALUE)
    sink = np.zeros(2, np.int64)
    seconds = together(lambda: push(r, count), lambda: pop(r, count, sink))
    check(sink, count)
    return seconds


def check(sink: Array, count: int) -> None:
    """LostError unless all numbers came in their order."""
    if sink.tolist() != [count - 1, 0]:
        raise LostError(f"the last of {count} numbers was {sink[0]}, and {sink[1]} came out of order")


LATENCIES: Final[dict[str, Callable[[int, int], Array]]] = {
    "ring": latencies_of_ring,
    "mutex queue": latencies_of_queue,
}
THROUGHPUTS: Final[dict[str, Callable[[int], float]]] = {
    "indices on one cache line": lambda count: seconds_of_plain(count, ONE_LINE),
    "on lines of their own": lambda count: seconds_of_plain(count, PADDED),
    "and with copies (the engine's)": seconds_of_ring,
}


def bench_handoff(repeats: int, late_messages: int = LATE_MESSAGES, fast_messages: int = FAST_MESSAGES) -> Report:
    """`venue bench handoff`. LostError if a ring or a queue loses or swaps anything."""
    late: dict[str, list[list[float]]] = {name: [] for name in LATENCIES}
    fast: dict[str, list[float]] = {name: [] for name in THROUGHPUTS}
    interval_ns = 1_000_000_000 // RATE
    with steps((repeats + 1) * (len(LATENCIES) + len(THROUGHPUTS))) as progress:
        for turn in range(repeats + 1):  # the first one warms up
            for name, latencies in LATENCIES.items():
                progress.begin(f"latency: {name}")
                taken_ns = latencies(late_messages if turn else late_messages // 10, interval_ns)
                if turn:
                    late[name].append(np.quantile(taken_ns, list(QUANTILES.values()), method="higher").tolist())
                progress.done()
            for name, seconds in THROUGHPUTS.items():
                progress.begin(f"throughput: {name}")
                taken = seconds(fast_messages if turn else fast_messages // 10)
                if turn:
                    fast[name].append(taken)
                progress.done()
    return report(repeats, late_messages, fast_messages, late, fast)


def report(
    repeats: int,
    late_messages: int,
    fast_messages: int,
    late: dict[str, list[list[float]]],
    fast: dict[str, list[float]],
) -> Report:
    """Medians of all turns as tables and as one object."""
    quantiles = {name: [median(column) for column in zip(*turns, strict=True)] for name, turns in late.items()}
    rates = {name: fast_messages / median(turns) for name, turns in fast.items()}
    first = next(iter(rates.values()))
    latency_rows: list[dict[str, Any]] = [
        {"row": name} | dict(zip(QUANTILES, values, strict=True)) for name, values in quantiles.items()
    ]
    throughput_rows: list[dict[str, Any]] = [
        {"row": name, "messages_per_s": rate, "ratio_to_first": rate / first} for name, rate in rates.items()
    ]
    tables = [
        Rows(
            f"From when a message was due until it was there, {RATE:,} messages/s, ns, median of {repeats}",
            ("through", "p50", "p99", "p99.9"),
            [(name, *(f"{value:,.0f}" for value in values)) for name, values in quantiles.items()],
        ),
        Rows(
            f"A ring, one message of 8 bytes at a time, median of {repeats}",
            ("how", "M messages/s", "to the first"),
            [(name, f"{rate / 1e6:.2f}", f"{rate / first:.2f}") for name, rate in rates.items()],
        ),
    ]
    published = ", ".join(f"{name} {value:,} ns" for name, value in PUBLISHED_MEDIANS_NS.items())
    notes = [
        f"{late_messages:,} messages of 64 bytes a run, {fast_messages:,} of 8 bytes; all came, in their order.",
        "The consumer of the ring spins, that of the queue sleeps until it is woken. Reading the clock, about 20 ns at "
        "each end, is in the latencies.",
        f"Each core is kept busy for {WARM_NS // 1_000_000} ms before the start: one that has slept is slow at first.",
        f"Published for Pulse (C++20, Apple M1 Pro): medians {published}; padding 2 to 3 times, copies 1.5 times more.",
    ]
    figures = {
        "repeats": repeats,
        "rate_per_s": RATE,
        "latency_messages": late_messages,
        "throughput_messages": fast_messages,
        "latency": latency_rows,
        "throughput": throughput_rows,
    }
    return Report(tables, figures, notes)
