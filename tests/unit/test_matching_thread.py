"""The matching thread as a thread: it waits, is woken, waits for room, and ends."""

import threading
from collections.abc import Callable

import numpy as np
import pytest

from commands import enter
from venue.engine import books, events, loop, ring, system
from venue.engine import records as r
from venue.engine.cells import ROW
from venue.engine.counters import HISTOGRAMS
from venue.engine.kernel import JIT
from venue.engine.ring import Ring

pytestmark = pytest.mark.skipif(not JIT, reason="without JIT a waiting kernel holds the GIL")

ORDERS = 500


class Thread:
    """A matching thread over rings of a chosen size, and the test as its loop thread."""

    def __init__(self, wait: int = loop.SPIN, events_capacity: int = 4_096) -> None:
        state = books.create(
            instruments=1, accounts=r.aligned(1, r.ACCOUNT), orders=1_000, levels=1_000, user_refs=1_024, mode=r.MATCH
        )
        self.counters = state.counters[0]
        self.commands: Ring = ring.create(1_024, r.COMMAND)
        self.events: Ring = ring.create(events_capacity, r.EVENT)
        self.scratch = np.zeros(2, np.int64)
        self.wake_matcher = system.wake_descriptor()
        self.outbox = events.create_outbox(self.events)
        histograms = r.aligned(HISTOGRAMS * ROW, np.dtype("<i8")).reshape(HISTOGRAMS, ROW)
        matcher = loop.create(state, self.outbox, self.commands, histograms, wait, self.wake_matcher)
        loop.warm_up(matcher)
        self.thread = threading.Thread(target=loop.run, args=(matcher, -1))
        self.thread.start()

    def enter(self, first: int, count: int) -> None:
        """Buys that rest, one price each, in one publication."""
        for i in range(count):
            place = ring.write_position(self.commands, i)
            self.commands.records[place] = enter(first + i, "B", 1, 100 * (first + i))
        ring.publish(self.commands, count, system.now_ns(self.scratch))
        if ring.must_wake(self.commands):
            system.wake(self.wake_matcher, self.scratch)

    def answers(self, count: int) -> list[int]:
        """The numbers of the next ``count`` orders that were accepted."""
        numbers: list[int] = []
        while len(numbers) < count:
            ready = ring.available(self.events)
            for i in range(ready):
                event = self.events.records[ring.read_position(self.events, i)]
                assert event["kind"] == r.ACCEPTED
                numbers.append(int(event["user_ref"]))
            ring.release(self.events, ready)
        return numbers

    def until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            system.now_ns(self.scratch)

    def stop(self) -> None:
        events.stop(self.outbox)
        system.wake(self.wake_matcher, self.scratch)
        self.thread.join()


@pytest.mark.parametrize("wait", [loop.SPIN, loop.PARK, loop.ADAPTIVE])
def test_every_way_of_waiting_answers_every_order(wait: int) -> None:
    thread = Thread(wait)
    for first in range(1, ORDERS, 10):
        thread.enter(first, 10)
        assert thread.answers(10) == list(range(first, first + 10))
    thread.stop()


@pytest.mark.parametrize("wait", [loop.PARK, loop.ADAPTIVE])
def test_a_thread_that_sleeps_is_woken_by_the_next_order(wait: int) -> None:
    thread = Thread(wait)
    thread.until(lambda: int(thread.counters["parks"]) > 0)
    thread.enter(1, 1)
    assert thread.answers(1) == [1]
    thread.stop()


def test_a_full_event_ring_makes_the_thread_wait_and_loses_nothing() -> None:
    thread = Thread(events_capacity=16)
    thread.enter(1, ORDERS)
    thread.until(lambda: int(thread.counters["event_ring_full"]) > 0)
    assert ring.depth(thread.events) == 16
    assert int(thread.counters["orders_accepted"]) <= 18  # it stands still
    assert thread.answers(ORDERS) == list(range(1, ORDERS + 1))
    thread.stop()


def test_a_stop_comes_after_all_that_is_on_the_ring() -> None:
    thread = Thread()
    thread.enter(1, ORDERS)
    thread.stop()
    assert thread.answers(ORDERS) == list(range(1, ORDERS + 1))


def test_a_stop_ends_the_wait_for_a_reader_that_has_gone() -> None:
    thread = Thread(events_capacity=16)
    thread.enter(1, 100)
    thread.until(lambda: int(thread.counters["event_ring_full"]) > 0)
    thread.stop()
    assert not thread.thread.is_alive()
