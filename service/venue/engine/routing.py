"""The router: from the intake to the command rings of the matching threads, on the loop thread.

====================================================  ================================================================
an order, and a recorded message with an instrument   the thread that has the instrument
Cancel, Modify, Replace                               the thread that has the order, by ``places``; if none has it,
                                                      thread 0, which counts it as stale
Account Query, commands of the service                every thread; the merge lets one answer pass
what concerns the feed as a whole (FEED_LOSS, ...)    every thread
a recorded message without an instrument              every thread: the one that knows the order applies it, the
                                                      others note that history is lost, and one of them counts it
====================================================  ================================================================

Only here do all orders of an account pass, so this is where what concerns the whole account is checked, in the order in
which orders came and never over a limit:

* UserRefNum rises over all threads. What does not is forwarded with number 0, which a thread counts as a duplicate. A
  Replace may leave its number unused; until its outcome is among the events, that number counts as used.
* ``max_open_orders``: an order counts from here until its end has been merged, so that the limit is met a little early
  while events are on their way, and is never passed. A Replace counts together with its original.
* ``max_orders_per_s``: what a thread rejects for another reason has used the allowance, too.
* Two live orders whose numbers have the same low bits (``engine.orders_per_account`` apart): as with one thread, the
  second is rejected (0x0A), here even if they are on different threads.

The reason goes into ``detail``, as from the decoder, so that a thread's events depend on its commands only. In a
Replace these reasons leave the original as it is (:mod:`venue.engine.orders`). The kill switch needs no check here:
every thread learns of it before any order that came later. Limits of one order or one instrument are the threads' own.
"""

from __future__ import annotations

from typing import Final

from venue.engine import ring
from venue.engine.atomics import store_release
from venue.engine.kernel import part, verb
from venue.engine.records import CANCEL, ENTER, MODIFY, NO_INSTRUMENT, QUERY, REPLACE, Array
from venue.engine.ring import TAIL
from venue.engine.risk import CAPACITY, OPEN_ORDERS, PASSED, RATE, SECOND_NS
from venue.engine.sharding import OF_SHARDS, Sharding, own_ring, place_of
from venue.engine.system import wake

EVERY: Final = -1
NOBODY: Final = -2
BATCH: Final = 256
"""Commands routed between two publications."""

# --- who gets a command ---------------------------------------------------------------------------------------------


@verb
def holder(s: Sharding, account: int, user_ref: int) -> int:
    """The thread of an account's order that is live or may be; ``NOBODY`` if there is none."""
    place = s.places[place_of(s, account, user_ref)]
    if user_ref == 0:
        return NOBODY
    if int(place["user_ref"]) == user_ref:
        return int(place["shard"])
    if int(place["pending"]) == user_ref:
        return int(place["pending_shard"])
    return NOBODY


@verb
def receiver(s: Sharding, command: Array) -> int:
    """The thread that gets a command, ``EVERY`` or ``NOBODY``."""
    kind = int(command["kind"])
    instrument = int(command["instrument"])
    if kind < ENTER:
        return EVERY if instrument == NO_INSTRUMENT else instrument % len(s.wakes)
    if kind == ENTER:  # a symbol that is not traded: any thread can say so
        return 0 if instrument == NO_INSTRUMENT else instrument % len(s.wakes)
    if kind in (CANCEL, MODIFY):
        return holder(s, int(command["account"]), int(command["user_ref"]))
    if kind == REPLACE:
        return holder(s, int(command["account"]), int(command["extra"]))
    return EVERY


# --- what concerns the whole account --------------------------------------------------------------------------------


@verb
def check_rate(total: Array, time_ns: int) -> int:
    """The same rule as :func:`venue.engine.risk.check_rate`, over all threads."""
    if total["max_orders_per_s"] > 0:
        due = max(int(total["rate_time_ns"]), time_ns) + SECOND_NS // int(total["max_orders_per_s"])
        if due - time_ns > SECOND_NS:
            return RATE
        total["rate_time_ns"] = due
    return PASSED


@verb
def note_enter(s: Sharding, command: Array, shard: int) -> None:
    """Check a new order against what the account has everywhere, and remember where it goes."""
    account = int(command["account"])
    user_ref = int(command["user_ref"])
    total = s.totals[account]
    if user_ref <= int(total["last_user_ref"]):
        command["user_ref"] = 0
        return
    total["last_user_ref"] = user_ref
    total["used_user_ref"] = user_ref
    if int(command["detail"]) != 0:
        return
    place = s.places[place_of(s, account, user_ref)]
    reason = PASSED
    most = int(total["max_open_orders"])
    if most > 0 and int(total["open_orders"]) >= most:
        reason = OPEN_ORDERS
    if reason == PASSED:
        reason = check_rate(total, int(command["time_ns"]))
    if reason == PASSED and (int(place["user_ref"]) != 0 or int(place["pending"]) != 0):
        reason = CAPACITY
    if reason != PASSED:
        command["detail"] = reason
        return
    place["user_ref"] = user_ref
    place["shard"] = shard
    total["open_orders"] += 1


@verb
def note_replace(s: Sharding, command: Array, shard: int) -> None:
    """The same for a Replace. Its outcome is Replaced, Rejected or ``UNTAKEN``, unless its number is made 0."""
    account = int(command["account"])
    user_ref = int(command["user_ref"])
    original = int(command["extra"])
    total = s.totals[account]
    if shard == NOBODY or user_ref <= int(total["last_user_ref"]):
        command["user_ref"] = 0
        return
    total["last_user_ref"] = user_ref
    total["replaces"] += 1
    if int(command["detail"]) != 0:
        return
    place = s.places[place_of(s, account, user_ref)]
    live = int(place["user_ref"])
    reason = check_rate(total, int(command["time_ns"]))
    if reason == PASSED and (int(place["pending"]) != 0 or (live != 0 and live != original)):
        reason = CAPACITY
    if reason != PASSED:
        command["detail"] = reason
        return
    place["pending"] = user_ref
    place["pending_shard"] = shard


# --- moving commands ------------------------------------------------------------------------------------------------


@verb
def has_room(s: Sharding, shard: int) -> bool:
    """Whether a thread's ring takes one more command than this turn has written to it."""
    written = int(s.work[OF_SHARDS + shard])
    return ring.free(own_ring(s.commands, shard), written + 1) > written


@verb
def all_have_room(s: Sharding) -> bool:
    """Whether every thread's ring does."""
    rooms = 0
    for shard in range(len(s.wakes)):
        if has_room(s, shard):
            rooms += 1
    return rooms == len(s.wakes)


@verb
def copy(s: Sharding, position: int, shard: int) -> None:
    """Write the intake's record to a thread's ring, with the time at which a decoder published it."""
    own = own_ring(s.commands, shard)
    written = int(s.work[OF_SHARDS + shard])
    to = ring.write_position(own, written)
    own.records[to] = s.intake.records[position]
    own.stamps_ns[to] = s.intake.stamps_ns[position]
    s.work[OF_SHARDS + shard] = written + 1


@part
def copy_to_all(s: Sharding, position: int) -> None:
    """A command for every thread. A recorded one says to all but the first (``extra``) that another one counts it."""
    command = s.intake.records[position]
    if int(command["kind"]) == QUERY:
        command["user_ref"] = s.totals[int(command["account"])]["last_user_ref"]
    for shard in range(len(s.wakes)):
        copy(s, position, shard)
        if int(command["kind"]) < ENTER:
            command["extra"] = 1


@verb
def hand_over(s: Sharding) -> None:
    """Publish what was written to each thread's ring, and wake those that sleep."""
    for shard in range(len(s.wakes)):
        written = int(s.work[OF_SHARDS + shard])
        if written > 0:
            own = own_ring(s.commands, shard)
            store_release(own.control, TAIL, int(own.control[TAIL]) + written)
            s.work[OF_SHARDS + shard] = 0
            if ring.must_wake(own):
                wake(int(s.wakes[shard]), s.work)


@part
def route_batch(s: Sharding, count: int) -> int:
    """Move the next ``count`` commands, or those before the first that finds no room; gives back how many."""
    moved = 0
    while moved < count:
        position = ring.read_position(s.intake, moved)
        command = s.intake.records[position]
        shard = receiver(s, command)
        to = 0 if shard == NOBODY else shard
        if not (all_have_room(s) if shard == EVERY else has_room(s, to)):
            break
        if shard == EVERY:
            copy_to_all(s, position)
        else:
            if int(command["kind"]) == ENTER:
                note_enter(s, command, shard)
            elif int(command["kind"]) == REPLACE:
                note_replace(s, command, shard)
            copy(s, position, to)
        moved += 1
    return moved


@verb
def route(s: Sharding) -> bool:
    """Move what is in the intake, in order. True if something is left that has to wait for room."""
    left = ring.depth(s.intake)
    held = False
    while left > 0 and not held:
        count = min(left, BATCH)
        moved = route_batch(s, count)
        hand_over(s)
        ring.release(s.intake, moved)
        left -= moved
        held = moved < count
    return held
