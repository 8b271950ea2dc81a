"""How the matching thread speaks: one EVENT record for each thing that a client has to know."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from venue.engine import ring, system
from venue.engine.atomics import cpu_relax, load_acquire, store_release
from venue.engine.kernel import kernel, verb
from venue.engine.records import EVENT, Array, aligned
from venue.engine.ring import Ring

# words of Outbox.state
PENDING: Final = 0  # events written and not yet published
SHARDED: Final = 1  # 1: one of several matching threads, whose events are merged
STOP: Final = 16  # on a cache line of its own: set by another thread, the matching thread then ends


class Outbox(NamedTuple):
    """The matching thread's end of the event ring."""

    events: Ring
    state: Array  # [32] int64
    scratch: Array  # [2] int64
    wake: Array  # [1] int64: the descriptor that wakes the loop thread, -1 = nobody sleeps on it


def create_outbox(events: Ring, wake_descriptor: int = -1) -> Outbox:
    """An outbox that writes to ``events``. No other matching thread's lies on its cache lines."""
    words = np.dtype("<i8")
    return Outbox(events, aligned(32, words), aligned(2, words), np.array([wake_descriptor], np.int64))


@kernel
def stop(out: Outbox) -> None:
    """Any thread: let the matching thread end once the command ring is empty. The caller wakes it if it may sleep."""
    store_release(out.state, STOP, 1)


@verb
def publish(out: Outbox) -> None:
    """Hand the pending events to the loop thread and wake it if it sleeps."""
    pending = int(out.state[PENDING])
    if pending == 0:
        return
    ring.publish(out.events, pending, system.now_ns(out.scratch))
    out.state[PENDING] = 0
    if ring.must_wake(out.events) and out.wake[0] >= 0:
        system.wake(out.wake[0], out.scratch)


@verb
def new_event(out: Outbox, counters: Array) -> int:
    """The place of the next event's record; waits for room if the ring is full (nothing is ever dropped).

    Only a stop ends the wait early: then nobody reads any more, and the record overwrites one that was not read.
    """
    pending = int(out.state[PENDING])
    if ring.free(out.events, pending + 1) <= pending:
        counters[0]["event_ring_full"] += 1
        publish(out)
        pending = 0
        while ring.free(out.events, 1) == 0 and load_acquire(out.state, STOP) == 0:
            cpu_relax()
    out.state[PENDING] = pending + 1
    return ring.write_position(out.events, pending)


@verb
def clear(event: Array) -> None:
    """Zero the fields that not every kind of event sets."""
    event["ingress_ns"] = 0
    event["price"] = 0
    event["reference"] = 0
    event["word0"] = 0
    event["word1"] = 0
    event["quantity"] = 0
    event["original_user_ref"] = 0
    event["leaves"] = 0
    event["instrument"] = 0
    event["side"] = 0
    event["tif"] = 0
    event["display"] = 0
    event["capacity"] = 0
    event["iso"] = 0
    event["cross"] = 0


@verb
def emit(out: Outbox, counters: Array, kind: int, time_ns: int, account: int, user_ref: int, detail: int) -> int:
    """Begin an event of ``kind`` for an account; gives back its place in the ring, for what else it says."""
    place = new_event(out, counters)
    event = out.events.records[place]
    clear(event)
    event["kind"] = kind
    event["time_ns"] = time_ns
    event["account"] = account
    event["user_ref"] = user_ref
    event["detail"] = detail
    counters[0]["events"] += 1
    return place


assert EVENT.itemsize == 128
