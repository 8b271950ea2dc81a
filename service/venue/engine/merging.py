"""The merge: from the event rings of the matching threads to the one that the gateway reads, on the loop thread.

Of what is published when a merge begins, the event with the lowest ``time_ns`` comes next, of equal ones that of the
lower thread; one thread's events stay in their order. On the way the router's tables learn what became of the orders.

Commands that went to every thread and are answered (Account Query, System Event) are answered by each of them, alike;
the last of these answers passes. So it comes after everything that any thread had to say before.
"""

from __future__ import annotations

from typing import Any

from venue.engine import ring
from venue.engine.atomics import store_release
from venue.engine.kernel import kernel, part, verb
from venue.engine.records import (
    CANCELED,
    EXECUTED,
    QUERY_RESPONSE,
    REJECTED,
    REPLACED,
    SYSTEM_EVENT,
    UNTAKEN,
    Array,
)
from venue.engine.ring import TAIL, Ring
from venue.engine.routing import route
from venue.engine.sharding import OF_SHARDS, Sharding, own_ring, place_of

# --- what became of orders ------------------------------------------------------------------------------------------


@verb
def note_end(s: Sharding, account: int, user_ref: int) -> None:
    """An order has ended: its number is no longer looked for, and it no longer counts as open."""
    place = s.places[place_of(s, account, user_ref)]
    if int(place["user_ref"]) == user_ref and user_ref != 0:
        place["user_ref"] = 0
        s.totals[account]["open_orders"] -= 1


@verb
def note_outcome(s: Sharding, account: int, user_ref: int, used: bool) -> None:
    """A Replace has used its number up, or not. When none is on its way any more, the last number is known again."""
    place = s.places[place_of(s, account, user_ref)]
    if int(place["pending"]) == user_ref:
        place["pending"] = 0
    total = s.totals[account]
    if used:
        total["used_user_ref"] = max(int(total["used_user_ref"]), user_ref)
    total["replaces"] -= 1
    if int(total["replaces"]) == 0:
        total["last_user_ref"] = total["used_user_ref"]


@part
def note_replaced(s: Sharding, account: int, original: int, user_ref: int) -> None:
    """An order lives on under another number."""
    before = s.places[place_of(s, account, original)]
    if int(before["user_ref"]) == original:
        before["user_ref"] = 0
    place = s.places[place_of(s, account, user_ref)]
    place["user_ref"] = user_ref
    place["shard"] = place["pending_shard"]
    note_outcome(s, account, user_ref, True)


@part
def is_last_answer(s: Sharding, account: int, shard: int) -> bool:
    """Count a thread's answer to what all of them answer: True if all others have answered that one already."""
    answered = s.answered[account]
    answered[shard] += 1
    behind = 0
    for other in range(len(answered)):
        if answered[other] < answered[shard]:
            behind += 1
    return behind == 0


@verb
def note(s: Sharding, event: Array, shard: int) -> bool:
    """Let the tables know of an event; False if clients do not hear of it."""
    kind = int(event["kind"])
    account = int(event["account"])
    user_ref = int(event["user_ref"])
    if kind in (EXECUTED, CANCELED):
        if int(event["leaves"]) == 0:
            note_end(s, account, user_ref)
    elif kind == REJECTED:
        if int(event["original_user_ref"]) != 0:
            note_outcome(s, account, user_ref, True)
        else:
            note_end(s, account, user_ref)
    elif kind == REPLACED:
        note_replaced(s, account, int(event["original_user_ref"]), user_ref)
    elif kind == UNTAKEN:
        note_outcome(s, account, user_ref, False)
        return False
    elif kind in (QUERY_RESPONSE, SYSTEM_EVENT):
        return is_last_answer(s, account, shard)
    return True


# --- moving events --------------------------------------------------------------------------------------------------


@verb
def earliest(s: Sharding) -> int:
    """The thread whose next event is the earliest of those that this merge has to do with; -1 if none is left."""
    shards = len(s.wakes)
    found, first_ns = -1, 0
    for shard in range(shards):
        done = int(s.work[OF_SHARDS + shards + shard])
        if done < int(s.work[OF_SHARDS + shard]):
            own = own_ring(s.answers, shard)
            time_ns = int(own.records[ring.read_position(own, done)]["time_ns"])
            if found < 0 or time_ns < first_ns:
                found, first_ns = shard, time_ns
    return found


@part
def merge(s: Sharding) -> tuple[int, bool]:
    """Move what is published now. Gives back how many events went on, and whether some found no room."""
    shards = len(s.wakes)
    for shard in range(shards):
        s.work[OF_SHARDS + shard] = ring.depth(own_ring(s.answers, shard))
        s.work[OF_SHARDS + shards + shard] = 0
    written = 0
    full = False
    shard = earliest(s)
    while shard >= 0:
        if ring.free(s.events, written + 1) <= written:
            full = True
            break
        own = own_ring(s.answers, shard)
        done = int(s.work[OF_SHARDS + shards + shard])
        position = ring.read_position(own, done)
        if note(s, own.records[position], shard):
            to = ring.write_position(s.events, written)
            s.events.records[to] = own.records[position]
            s.events.stamps_ns[to] = own.stamps_ns[position]
            written += 1
        s.work[OF_SHARDS + shards + shard] = done + 1
        shard = earliest(s)
    for shard in range(shards):
        ring.release(own_ring(s.answers, shard), int(s.work[OF_SHARDS + shards + shard]))
        s.work[OF_SHARDS + shard] = 0
    store_release(s.events.control, TAIL, int(s.events.control[TAIL]) + written)
    return written, full


# --- a turn ---------------------------------------------------------------------------------------------------------


@verb
def rest(s: Sharding, held: bool) -> bool:
    """Announce sleep on every ring that is read here. False if something came meanwhile.

    With commands held back the intake stays as it is: it is looked at again by the clock, not with each new command.
    """
    empty = held or ring.park(s.intake)
    for shard in range(len(s.wakes)):
        empty = ring.park(own_ring(s.answers, shard)) and empty
    return empty


@kernel
def turn(fields: tuple[Any, ...]) -> tuple[int, bool, bool]:
    """Route the commands that are there, merge the events that are there, and get ready to sleep; the loop thread's.

    ``fields`` are those of a Sharding, its rings as plain tuples. Gives back how many events went to the event ring,
    whether commands have to wait for room, and whether there is more to do at once; if not, the next command or event
    wakes the loop.
    """
    intake, events, commands, answers, wakes, places, totals, answered, work = fields
    s = Sharding(
        Ring(intake[0], intake[1], intake[2]),
        Ring(events[0], events[1], events[2]),
        Ring(commands[0], commands[1], commands[2]),
        Ring(answers[0], answers[1], answers[2]),
        wakes,
        places,
        totals,
        answered,
        work,
    )
    ring.unpark(s.intake)
    for shard in range(len(s.wakes)):
        ring.unpark(own_ring(s.answers, shard))
    held = route(s)
    count, full = merge(s)
    more = full or not rest(s, held)
    return count, held, more
