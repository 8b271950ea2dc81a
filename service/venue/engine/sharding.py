"""Several matching threads behind the two rings of one: what they are made of, and one turn of the loop thread.

Decoders go on writing to one command ring, here the intake, and the gateway goes on reading one event ring. Between
them and the threads stand, on the loop thread, a router (:mod:`venue.engine.routing`) that moves each command to the
ring of the thread that has its instrument, and a merge (:mod:`venue.engine.merging`) that moves the threads' events to
the one ring. An instrument belongs to thread ``instrument % threads`` for good. With one matching thread none of this
exists.

The rings of all threads are the rows of one ring's arrays, so that one machine code does for any number of them.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from venue.engine import ring
from venue.engine.books import MATCHES, REFERENCES, Books
from venue.engine.events import SHARDED, Outbox
from venue.engine.kernel import verb
from venue.engine.records import COMMAND, EVENT, Array, aligned
from venue.engine.ring import CONTROL_WORDS, SAME_THREAD, Ring

PLACE: Final = np.dtype(
    [
        ("user_ref", "<u4"),  # of an order that may be live; 0 = none
        ("pending", "<u4"),  # a number that a Replace on its way may take; 0 = none
        ("shard", "u1"),
        ("pending_shard", "u1"),
        ("_", "<u2"),
    ]
)
"""Which matching thread has an order: one row for the low bits of an account's UserRefNums, as in ``Books.user_refs``.
Every live order has one, from the moment its command is routed until its end has been seen among the events."""

TOTAL: Final = np.dtype(
    [
        ("max_open_orders", "<i8"),  # limits; 0 = no limit
        ("max_orders_per_s", "<i8"),
        ("last_user_ref", "<i8"),  # no command at or below is a new one
        ("used_user_ref", "<i8"),  # the highest number known to be used up
        ("replaces", "<i8"),  # on their way: each may use its number up, or not
        ("open_orders", "<i8"),  # that may be live
        ("rate_time_ns", "<i8"),  # as in ACCOUNT
        ("_", "<i8"),
    ]
)
"""What concerns an account over all matching threads; a cache line."""

assert (PLACE.itemsize, TOTAL.itemsize) == (12, 64)

# words of Sharding.work; the first two are for system calls
OF_SHARDS: Final = 16
"""From here on so many words for each thread in turn: a turn's count of records, and how far it is with them."""


class Sharding(NamedTuple):
    """Everything that router and merge hold; the loop thread's only. Kernels get it as a tuple of its fields."""

    intake: Ring
    events: Ring
    commands: Ring  # arrays of [shards, capacity], like the next one
    answers: Ring
    wakes: Array  # [shards] int64: descriptors to write to when a matching thread sleeps
    places: Array  # [accounts * 2^k] PLACE
    totals: Array  # [accounts] TOTAL
    answered: Array  # [accounts, shards] int64: answers to what all threads answer
    work: Array  # [OF_SHARDS + 2 * shards] int64


def rings(shards: int, capacity: int, dtype: np.dtype[Any]) -> Ring:
    """So many rings in one, each beginning on a cache line of its own."""
    one = ring.create(capacity, dtype)  # for its checks
    return Ring(
        aligned(shards * capacity, dtype).reshape(shards, capacity),
        aligned(shards * capacity, one.stamps_ns.dtype).reshape(shards, capacity),
        aligned(shards * CONTROL_WORDS, one.control.dtype).reshape(shards, CONTROL_WORDS),
    )


def ring_of(many: Ring, shard: int) -> Ring:
    """One thread's ring."""
    return Ring(many.records[shard], many.stamps_ns[shard], many.control[shard])


@verb
def own_ring(many: Ring, shard: int) -> Ring:
    """:func:`ring_of` for kernels."""
    return Ring(many.records[shard], many.stamps_ns[shard], many.control[shard])


def create(
    intake: Ring,
    events: Ring,
    wakes: list[int],
    accounts: Array,
    *,
    user_refs: int,
    command_capacity: int,
    event_capacity: int,
) -> Sharding:
    """A router and a merge between two rings and the matching threads that sleep on ``wakes``.

    ``accounts`` are ACCOUNT records with their limits set; ``user_refs`` is as for the books; the capacities are those
    of each thread's own rings.
    """
    shards = len(wakes)
    intake.control[SAME_THREAD] = 1
    totals = aligned(len(accounts), TOTAL)
    for limit in ("max_open_orders", "max_orders_per_s"):
        totals[limit] = accounts[limit]
    words = np.dtype("<i8")
    return Sharding(
        intake,
        events,
        rings(shards, command_capacity, COMMAND),
        rings(shards, event_capacity, EVENT),
        np.array(wakes, words),
        aligned(len(accounts) * user_refs, PLACE),
        totals,
        aligned(len(accounts) * shards, words).reshape(len(accounts), shards),
        aligned(OF_SHARDS + 2 * shards, words),
    )


def number_apart(books: Books, out: Outbox, shard: int) -> None:
    """Let a new matching thread be one of several: its order references and match numbers are its own in the whole
    exchange, 2^48 for each thread, and it says what only the merge has to hear."""
    books.state[REFERENCES] = books.state[MATCHES] = shard << 48
    out.state[SHARDED] = 1


@verb
def place_of(s: Sharding, account: int, user_ref: int) -> int:
    """The row of ``places`` of an account's UserRefNum."""
    width = len(s.places) // len(s.totals)
    return account * width + (user_ref & (width - 1))
