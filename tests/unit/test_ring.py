"""The ring between two threads: order, room, wrap-around, sleep and wake-up."""

import itertools
import threading

import numpy as np
import pytest

from venue.engine import ring, system
from venue.engine.atomics import cpu_relax
from venue.engine.kernel import JIT, kernel
from venue.engine.records import COMMAND, Array
from venue.engine.ring import Ring

BELOW_THE_END = 2**63 - 3
STRESS = 2_000_000 if JIT else 2_000


@kernel
def put(r: Ring, first: int, count: int, now_ns: int) -> int:
    """Write as many of the numbers from ``first`` on as there is room for, in one publication."""
    fits = min(count, ring.free(r, count))
    for i in range(fits):
        r.records[ring.write_position(r, i)]["word0"] = first + i
    if fits > 0:
        ring.publish(r, fits, now_ns)
    return fits


@kernel
def take(r: Ring, numbers: Array) -> int:
    """Read what is there into ``numbers``."""
    count = min(ring.available(r), len(numbers))
    for i in range(count):
        numbers[i] = r.records[ring.read_position(r, i)]["word0"]
    if count > 0:
        ring.release(r, count)
    return count


@kernel
def produce(r: Ring, count: int, batch: int) -> None:
    done = 0
    while done < count:
        done += put(r, done, min(batch, count - done), done)


@kernel
def consume(r: Ring, count: int, numbers: Array) -> int:
    """How many of ``count`` numbers did not come in their order."""
    wrong = 0
    done = 0
    while done < count:
        got = take(r, numbers)
        for i in range(got):
            if numbers[i] != done + i:
                wrong += 1
        if got == 0:
            cpu_relax()
        done += got
    return wrong


def taken(r: Ring) -> list[int]:
    numbers = np.zeros(64, np.int64)
    return numbers[: take(r, numbers)].tolist()


@pytest.mark.parametrize("start", [0, BELOW_THE_END, -2])
def test_records_come_out_as_they_went_in_also_where_the_index_wraps(start: int) -> None:
    r = ring.create(4, COMMAND, start)
    for first in range(0, 40, 3):
        assert put(r, first, 3, 0) == 3
        assert ring.depth(r) == 3
        assert taken(r) == [first, first + 1, first + 2]
        assert ring.depth(r) == 0


@pytest.mark.parametrize("start", [0, BELOW_THE_END])
def test_a_full_ring_takes_nothing_until_something_is_released(start: int) -> None:
    r = ring.create(4, COMMAND, start)
    assert put(r, 0, 9, 0) == 4
    assert put(r, 4, 1, 0) == 0
    assert ring.free(r, 1) == 0
    assert taken(r) == [0, 1, 2, 3]
    assert put(r, 4, 2, 0) == 2
    assert taken(r) == [4, 5]
    assert taken(r) == []


def test_every_record_keeps_the_time_of_its_publication() -> None:
    r = ring.create(4, COMMAND)
    put(r, 0, 2, 111)
    put(r, 2, 1, 222)
    assert r.stamps_ns[:3].tolist() == [111, 111, 222]


@pytest.mark.parametrize("capacity", [0, 1, 3, 100])
def test_a_capacity_that_is_no_power_of_two_is_refused(capacity: int) -> None:
    with pytest.raises(ValueError, match="power of two"):
        ring.create(capacity, COMMAND)


def test_each_index_has_cache_lines_of_its_own() -> None:
    r = ring.create(4, COMMAND)
    assert r.control.ctypes.data % 128 == 0
    words = sorted((ring.TAIL, ring.KNOWN_HEAD, ring.HEAD, ring.KNOWN_TAIL, ring.PARKED))
    assert min(b - a for a, b in itertools.pairwise(words)) * 8 >= 128
    assert r.records.ctypes.data % 64 == 0


@pytest.mark.parametrize("batch", [1, 7, 64])
def test_two_threads_lose_double_and_swap_nothing(batch: int) -> None:
    r = ring.create(256, COMMAND, BELOW_THE_END - 1_000)
    numbers = np.zeros(100, np.int64)
    produce(r, 0, batch)  # compiled before the threads start
    consume(r, 0, numbers)
    producer = threading.Thread(target=produce, args=(r, STRESS, batch))
    producer.start()
    assert consume(r, STRESS, numbers) == 0
    producer.join()
    assert ring.depth(r) == 0


def test_a_consumer_that_parks_is_woken_once() -> None:
    r = ring.create(4, COMMAND)
    assert not ring.must_wake(r)
    assert ring.park(r)
    put(r, 1, 1, 0)
    assert ring.must_wake(r)
    assert not ring.must_wake(r)


def test_a_consumer_does_not_park_on_what_came_in_the_meantime() -> None:
    r = ring.create(4, COMMAND)
    put(r, 1, 1, 0)
    assert not ring.park(r)
    assert not ring.must_wake(r)


def test_a_sleeper_is_woken_through_its_descriptor() -> None:
    scratch = np.zeros(2, np.int64)
    descriptor = system.wake_descriptor()
    system.wake(descriptor, scratch)
    system.sleep(descriptor, 60_000, scratch)  # returns at once, or this test times out
    before_ns = system.now_ns(scratch)
    system.sleep(descriptor, 1, scratch)
    assert system.now_ns(scratch) - before_ns >= 1_000_000
