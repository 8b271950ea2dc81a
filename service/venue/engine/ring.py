"""A lock-free queue between two threads: one producer, one consumer, records of whole cache lines.

The producer fills records and then moves the tail with a release store; the consumer, having seen the tail with an
acquire load, reads the records and moves the head. Each index has a cache line (and the one beside it, which cores
fetch in pairs) to itself, and each side keeps a copy of the other's index and looks at the real one only when the
copy says that there is nothing left to do. Indices only grow; they may wrap around 2^63, since only their low bits
and their masked difference are used.

A consumer that wants to sleep sets ``PARKED``, fences, looks once more, and sleeps on a file descriptor; a producer
that finds ``PARKED`` set after publishing clears it and wakes the consumer.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from venue.engine.atomics import fence, load_acquire, store_release
from venue.engine.kernel import kernel
from venue.engine.records import Array, aligned

TAIL: Final = 0  # written by the producer
KNOWN_HEAD: Final = 16  # the producer's copy of HEAD
HEAD: Final = 32  # written by the consumer
KNOWN_TAIL: Final = 48  # the consumer's copy of TAIL
PARKED: Final = 64  # 1: the consumer sleeps or is about to
SAME_THREAD: Final = 65  # 1: the producer's thread is the consumer, too: waiting for it is in vain
CONTROL_WORDS: Final = 80


class Ring(NamedTuple):
    """The memory of one ring. Threads share it; only the functions below touch ``control``."""

    records: Array  # [capacity] of any record dtype
    stamps_ns: Array  # [capacity] int64: when each record was published
    control: Array  # [CONTROL_WORDS] int64


def create(capacity: int, dtype: np.dtype[Any], start: int = 0) -> Ring:
    """A ring for ``capacity`` records (a power of two); ``start`` is the first index, for tests of wrap-around."""
    if capacity < 2 or capacity & (capacity - 1):
        raise ValueError(f"a ring's capacity must be a power of two, not {capacity}")
    control = aligned(CONTROL_WORDS, np.dtype("<i8"))
    for index in (TAIL, KNOWN_HEAD, HEAD, KNOWN_TAIL):
        control[index] = start
    return Ring(aligned(capacity, dtype), aligned(capacity, np.dtype("<i8")), control)


@kernel
def free(ring: Ring, wanted: int) -> int:
    """Producer: how many records may be written; looks at the consumer's index only if fewer than ``wanted``."""
    capacity = len(ring.records)
    used = (int(ring.control[TAIL]) - int(ring.control[KNOWN_HEAD])) & (2 * capacity - 1)
    if capacity - used < wanted:
        ring.control[KNOWN_HEAD] = load_acquire(ring.control, HEAD)
        used = (int(ring.control[TAIL]) - int(ring.control[KNOWN_HEAD])) & (2 * capacity - 1)
    return capacity - used


@kernel
def write_position(ring: Ring, ahead: int) -> int:
    """Producer: where the record ``ahead`` places after the last published one is to be written."""
    return (int(ring.control[TAIL]) + ahead) & (len(ring.records) - 1)


@kernel
def publish(ring: Ring, count: int, now_ns: int) -> None:
    """Producer: hand over the next ``count`` records, which have been written, stamped with the time."""
    for ahead in range(count):
        ring.stamps_ns[write_position(ring, ahead)] = now_ns
    publish_unstamped(ring, count)


@kernel
def publish_unstamped(ring: Ring, count: int) -> None:
    """Producer: the same for a consumer that does not ask when records came. Two stages joined by batches of 64 take 45
    instead of 46 ns an event, by single ones 55 instead of 57."""
    store_release(ring.control, TAIL, int(ring.control[TAIL]) + count)


@kernel
def available(ring: Ring) -> int:
    """Consumer: how many records can be read; looks at the producer's index only if the copy says none."""
    capacity = len(ring.records)
    ready = (int(ring.control[KNOWN_TAIL]) - int(ring.control[HEAD])) & (2 * capacity - 1)
    if ready == 0:
        ring.control[KNOWN_TAIL] = load_acquire(ring.control, TAIL)
        ready = (int(ring.control[KNOWN_TAIL]) - int(ring.control[HEAD])) & (2 * capacity - 1)
    return ready


@kernel
def read_position(ring: Ring, ahead: int) -> int:
    """Consumer: where the record ``ahead`` places after the last released one stands."""
    return (int(ring.control[HEAD]) + ahead) & (len(ring.records) - 1)


@kernel
def release(ring: Ring, count: int) -> None:
    """Consumer: give back the next ``count`` records, which have been read."""
    store_release(ring.control, HEAD, int(ring.control[HEAD]) + count)


@kernel
def depth(ring: Ring) -> int:
    """Any thread: how many records are published and not released, as far as can be seen now."""
    used = load_acquire(ring.control, TAIL) - load_acquire(ring.control, HEAD)
    return used & (2 * len(ring.records) - 1)


@kernel
def park(ring: Ring) -> bool:
    """Consumer: announce sleep. True if the ring is still empty after that, so that sleeping is safe."""
    store_release(ring.control, PARKED, 1)
    fence()
    empty = load_acquire(ring.control, TAIL) == int(ring.control[HEAD])
    if not empty:
        store_release(ring.control, PARKED, 0)
    return empty


@kernel
def unpark(ring: Ring) -> None:
    """Consumer: awake again, whoever caused it."""
    store_release(ring.control, PARKED, 0)


@kernel
def parked(ring: Ring) -> bool:
    """Producer: whether the consumer sleeps or is about to, as far as can be seen now, or does nothing meanwhile as it
    is the same thread."""
    return load_acquire(ring.control, PARKED) + int(ring.control[SAME_THREAD]) != 0


@kernel
def must_wake(ring: Ring) -> bool:
    """Producer, after publishing: True once for each sleep of the consumer; the caller then wakes it."""
    fence()
    if load_acquire(ring.control, PARKED) == 0:
        return False
    store_release(ring.control, PARKED, 0)
    return True
