"""The queue that rings are held against: it loses nothing, and each side wakes the other."""

import threading

import numpy as np
import pytest

from venue.bench import mutex_queue
from venue.bench.mutex_queue import MutexQueue
from venue.engine.kernel import JIT, kernel
from venue.engine.records import COMMAND, Array, aligned

STRESS = 200_000 if JIT else 2_000


@kernel
def produce(queue: MutexQueue, source: Array, count: int, batch: int) -> None:
    done = 0
    while done < count:
        now = min(batch, count - done)
        for i in range(now):
            source[(done + i) & (len(source) - 1)]["word0"] = done + i
        mutex_queue.put(queue, source, done, now)
        done += now


@kernel
def consume(queue: MutexQueue, target: Array, count: int, batch: int) -> int:
    """How many of ``count`` numbers did not come in their order."""
    wrong = 0
    done = 0
    while done < count:
        got = mutex_queue.take(queue, target, done, min(batch, count - done))
        for i in range(got):
            if target[(done + i) & (len(target) - 1)]["word0"] != done + i:
                wrong += 1
        done += got
    return wrong


def numbers(queue: MutexQueue, most: int) -> list[int]:
    target = aligned(16, COMMAND)
    count = mutex_queue.take(queue, target, 0, most)
    return target["word0"][:count].tolist()


def test_records_come_out_as_they_went_in() -> None:
    queue = mutex_queue.create(4, COMMAND)
    source = aligned(4, COMMAND)
    source["word0"] = [10, 11, 12, 13]
    mutex_queue.put(queue, source, 2, 3)  # goes on at the beginning of the source
    assert numbers(queue, 2) == [12, 13]
    mutex_queue.put(queue, source, 0, 3)
    assert numbers(queue, 16) == [10, 10, 11, 12]


@pytest.mark.parametrize("capacity", [0, 3, -4])
def test_a_capacity_that_is_no_power_of_two_is_refused(capacity: int) -> None:
    with pytest.raises(ValueError, match="power of two"):
        mutex_queue.create(capacity, COMMAND)


@pytest.mark.parametrize(("put", "take"), [(1, 1), (64, 64), (64, 1), (1, 64), (7, 3)])
def test_two_threads_lose_double_and_swap_nothing(put: int, take: int) -> None:
    queue = mutex_queue.create(32, COMMAND)  # smaller than a batch: both sides have to wait in turns
    produce(queue, aligned(64, COMMAND), 0, put)  # compiled before the threads start
    consume(queue, aligned(64, COMMAND), 0, take)
    producer = threading.Thread(target=produce, args=(queue, aligned(64, COMMAND), STRESS, put))
    producer.start()
    assert consume(queue, aligned(64, COMMAND), STRESS, take) == 0
    producer.join()


def test_a_waiter_is_woken_by_what_it_waits_for() -> None:
    queue = mutex_queue.create(2, COMMAND)
    produce(queue, aligned(2, COMMAND), 0, 1)
    consume(queue, aligned(2, COMMAND), 0, 1)
    taken = np.full(1, -1)

    def wait() -> None:
        taken[0] = consume(queue, aligned(2, COMMAND), 1, 1)

    waiter = threading.Thread(target=wait)
    waiter.start()
    produce(queue, aligned(2, COMMAND), 1, 1)
    waiter.join()
    assert taken[0] == 0
    writer = threading.Thread(target=produce, args=(queue, aligned(4, COMMAND), 4, 2))
    writer.start()  # has to wait: there is room for two
    assert consume(queue, aligned(4, COMMAND), 4, 1) == 0
    writer.join()
