"""The recorded flow: what history did, in a book that own orders share with it.

A recorded order has *displayed* shares (what history says is left) and *open* ones (what can trade here, never more
than displayed). Without own orders the two are equal and the book is the feed's book, whatever that holds: a locked
or crossed feed book is not repaired. Executions, cancels and deletes name a reference; the rules are those of ITCH
5.0, Add Order and Modify Order messages.
"""

from __future__ import annotations

from typing import Final

from venue.engine import index
from venue.engine.atomics import outlined
from venue.engine.books import (
    HISTORY_LOST,
    MODE,
    Books,
    drop_empty_levels,
    free_order,
    join,
    ladder_key,
    leave,
    new_order,
    reduce,
    take_place_in_time,
)
from venue.engine.events import Outbox
from venue.engine.kernel import part, verb
from venue.engine.live_records import NO_SIDE, RECORDED_CROSS, RECORDED_EXECUTION, RECORDED_HIDDEN
from venue.engine.match import LAST, take_own
from venue.engine.records import BUY, EXECUTE_AT_PRICE, NO_INSTRUMENT, PASSIVE, RECORDED, SELL, Array
from venue.engine.reports import settle
from venue.engine.risk import side_of
from venue.engine.tape import print_recorded

TRADING: Final = ord("T")


# --- flags and counts ---------------------------------------------------------------------------------------------


@verb
def mark_incomplete(b: Books, instrument: int) -> None:
    """Say that a book's history has a hole."""
    if instrument != NO_INSTRUMENT and instrument < len(b.books) and b.books[instrument]["incomplete"] == 0:
        b.books[instrument]["incomplete"] = 1
        b.counters[0]["incomplete_books"] += 1


@verb
def know_book(b: Books, instrument: int) -> None:
    """Remember that an instrument has a recorded book; one that begins after a loss is incomplete from the start."""
    if b.sides[2 * instrument]["recorded"] == 0:
        b.sides[2 * instrument]["recorded"] = 1
        if b.state[HISTORY_LOST] != 0:
            mark_incomplete(b, instrument)


@verb
def diverge(b: Books, shares: int) -> None:
    """Count what history traded and this book could not, since own orders had been there."""
    b.counters[0]["divergence_events"] += 1
    b.counters[0]["divergence_shares"] += shares


@verb
def unknown(b: Books, command: Array) -> None:
    """Count a message about an order that was never added: the book misses it. If not even its stock is known, it may
    be that of any book that is still to come; of several matching threads, which all hear of it then, one counts it."""
    if int(command["extra"]) == 0:
        b.counters[0]["unknown_references"] += 1
    if int(command["instrument"]) == NO_INSTRUMENT:
        b.state[HISTORY_LOST] = 1
    mark_incomplete(b, int(command["instrument"]))


@verb
def forget(b: Books, place: int) -> None:
    """Take the recorded order that stands at ``place`` of the index out of its queue, the index and the pool."""
    slot = index.slot_at(b.references, place)
    if int(b.orders[slot]["level"]) != 0:
        leave(b, slot)
    index.erase(b.references, int(b.orders[slot]["reference"]), place)
    free_order(b, slot)


@verb
def open_to(b: Books, slot: int, after: int) -> None:
    """Lower a recorded order's open shares to ``after``; without any it leaves its queue."""
    order = b.orders[slot]
    off = int(order["open"]) - after
    if off <= 0:
        return
    if after > 0:
        reduce(b, slot, off)
    else:
        leave(b, slot)
        order["open"] = 0


# --- meeting own orders -------------------------------------------------------------------------------------------


@part
def meet_own(
    b: Books, out: Outbox, instrument: int, side: int, bound: int, before: int, quantity: int, time_ns: int
) -> int:
    """Let recorded flow trade with own orders resting on ``side``; gives back what is left of it."""
    outlined()
    if int(b.sides[2 * instrument + side]["own"]) == 0 or quantity == 0:
        return quantity
    lines, left = take_own(b, instrument, side, bound, before, quantity)
    settle(b, out, lines, instrument, RECORDED, 0, quantity, time_ns)
    return left


@verb
def place_recorded(
    b: Books, out: Outbox, command: Array, instrument: int, side: int, reference: int, consumed: int
) -> None:
    """Add a recorded order: it trades with own orders that it crosses, then joins its queue.

    In a halt, too: left crossed, the two would not meet when trading resumes.

    ``consumed`` is what own orders had taken of the order that it replaces.
    """
    if index.locate(b.references, b.orders, reference) != 0:
        b.counters[0]["duplicate_references"] += 1
        return
    know_book(b, instrument)
    price = int(command["price"])
    displayed = int(command["quantity"])
    open_ = max(0, displayed - consumed)
    slot = new_order(b)
    if slot == 0:
        b.counters[0]["capacity_rejects"] += 1
        mark_incomplete(b, instrument)
        return
    if int(b.sides[2 * instrument + 1 - side]["own"]) != 0:
        left = meet_own(b, out, instrument, 1 - side, -ladder_key(side, price), LAST, open_, int(command["time_ns"]))
        if b.state[MODE] != PASSIVE:
            open_ = left
    order = b.orders[slot]
    order["reference"] = reference
    order["open"] = open_
    order["displayed"] = displayed
    order["price"] = price
    order["level"] = 0
    order["instrument"] = instrument
    order["account"] = RECORDED
    order["side"] = side
    if open_ == 0:
        take_place_in_time(b, order)
    elif not join(b, slot):
        free_order(b, slot)
        b.counters[0]["capacity_rejects"] += 1
        mark_incomplete(b, instrument)
        return
    if not index.insert(b.references, reference, slot):
        if int(order["level"]) != 0:
            leave(b, slot)
        free_order(b, slot)
        b.counters[0]["capacity_rejects"] += 1
        mark_incomplete(b, instrument)


# --- messages -----------------------------------------------------------------------------------------------------


@verb
def add(b: Books, out: Outbox, command: Array) -> None:
    """A, F: a new order, or the second half of a replace."""
    instrument = int(command["instrument"])
    if instrument >= len(b.books):
        return
    place_recorded(b, out, command, instrument, side_of(int(command["side"])), int(command["word0"]), 0)


@verb
def not_first(b: Books, slot: int) -> bool:
    """True if another recorded order stands before this one, at a better price or earlier in its queue."""
    order = b.orders[slot]
    side = int(order["side"])
    row = b.sides[2 * int(order["instrument"]) + side]
    key = ladder_key(side, int(order["price"]))
    level = int(order["level"])
    if key == int(row["best"]) and level != 0 and int(b.levels[level]["own"]) == 0:
        return int(order["previous"]) != 0  # almost always; the ladder would have to be waited for
    words = b.ladders
    position = int(row["block"]) + int(row["count"]) - 1
    while position >= int(row["block"]) and (words[position] >> 32) >= key:
        queue = b.levels[int(words[position] & 0xFFFFFFFF)]
        if int(queue["count"]) > int(queue["own"]):
            if (words[position] >> 32) > key:
                return True
            other = int(queue["head"])
            while int(b.orders[other]["account"]) != RECORDED:
                other = int(b.orders[other]["next"])
            return int(b.orders[other]["priority"]) < int(order["priority"])
        position -= 1
    return False


@verb
def execute(b: Books, out: Outbox, command: Array, place: int) -> None:
    """E, C: history traded ``quantity`` of an order. Own orders that stand before it trade first."""
    place = index.confirm(b.references, b.orders, int(command["word0"]), place)
    slot = index.slot_at(b.references, place)
    if slot == 0:
        unknown(b, command)
        return
    order = b.orders[slot]
    instrument = int(order["instrument"])
    side = int(order["side"])
    quantity = int(command["quantity"])
    displayed = int(order["displayed"]) - quantity
    if displayed < 0:
        b.counters[0]["over_executions"] += 1
        displayed = 0
    if not_first(b, slot):
        b.counters[0]["out_of_order_executions"] += 1
    key = ladder_key(side, int(order["price"]))
    left = meet_own(b, out, instrument, side, key, int(order["priority"]), quantity, int(command["time_ns"]))
    traded = min(quantity, int(order["displayed"]))
    if b.state[MODE] != PASSIVE:
        traded = min(left, int(order["open"]))
        open_to(b, slot, int(order["open"]) - traded)
        if left > traded:
            diverge(b, left - traded)
    open_to(b, slot, min(int(order["open"]), displayed))
    order["displayed"] = displayed
    price = int(command["price"]) if int(command["kind"]) == EXECUTE_AT_PRICE else int(order["price"])
    b.books[instrument]["last_price"] = price
    print_recorded(b, RECORDED_EXECUTION, instrument, 1 - side, price, traded, int(command["time_ns"]))
    if displayed == 0:
        forget(b, place)


@verb
def reduce_recorded(b: Books, command: Array, place: int) -> None:
    """X: history canceled ``quantity`` of an order, which keeps its place."""
    place = index.confirm(b.references, b.orders, int(command["word0"]), place)
    slot = index.slot_at(b.references, place)
    if slot == 0:
        unknown(b, command)
        return
    order = b.orders[slot]
    displayed = int(order["displayed"]) - int(command["quantity"])
    if displayed < 0:
        b.counters[0]["over_executions"] += 1
    if displayed <= 0:
        forget(b, place)
        return
    order["displayed"] = displayed
    open_to(b, slot, min(int(order["open"]), displayed))


@verb
def delete(b: Books, command: Array, place: int) -> None:
    """D: history took an order out. That one whose shares own orders have taken goes, too, counts as divergence."""
    place = index.confirm(b.references, b.orders, int(command["word0"]), place)
    slot = index.slot_at(b.references, place)
    if slot == 0:
        unknown(b, command)
        return
    if int(b.orders[slot]["open"]) < int(b.orders[slot]["displayed"]):
        diverge(b, 0)
    forget(b, place)


@verb
def replace_recorded(b: Books, out: Outbox, command: Array, place: int) -> None:
    """U: a new reference, price and size at the back of the queue. What own orders had taken stays taken."""
    place = index.confirm(b.references, b.orders, int(command["word0"]), place)
    slot = index.slot_at(b.references, place)
    if slot == 0:
        unknown(b, command)
        return
    order = b.orders[slot]
    instrument = int(order["instrument"])
    side = int(order["side"])
    consumed = int(order["displayed"]) - int(order["open"])
    reference = int(command["word1"])
    forget(b, place)
    place_recorded(b, out, command, instrument, side, reference, consumed)


@part
def hidden_trade(b: Books, out: Outbox, command: Array) -> None:
    """P: history traded against hidden interest. Own orders at that price or better would have been met."""
    outlined()
    instrument = int(command["instrument"])
    if instrument >= len(b.books):
        return
    price = int(command["price"])
    quantity = int(command["quantity"])
    time_ns = int(command["time_ns"])
    left = meet_own(b, out, instrument, SELL, ladder_key(SELL, price), LAST, quantity, time_ns)
    if left == quantity:
        left = meet_own(b, out, instrument, BUY, ladder_key(BUY, price), LAST, quantity, time_ns)
    b.books[instrument]["last_price"] = price
    hidden = quantity if b.state[MODE] == PASSIVE else left
    print_recorded(b, RECORDED_HIDDEN, instrument, NO_SIDE, price, hidden, time_ns)


@verb
def cross(b: Books, command: Array) -> None:
    """Q: an auction of the recorded day, in which own orders have no part. Without a price there was none."""
    instrument = int(command["instrument"])
    price = int(command["price"])
    if instrument >= len(b.books) or price == 0:
        return
    b.books[instrument]["last_price"] = price
    quantity = int(command["quantity"])
    print_recorded(b, RECORDED_CROSS, instrument, NO_SIDE, price, quantity, int(command["time_ns"]))


@part
def lose(b: Books) -> None:
    """Messages were lost for good: no book's history is whole any more, nor that of any that is still to come."""
    outlined()
    b.state[HISTORY_LOST] = 1
    for instrument in range(len(b.books)):
        if b.sides[2 * instrument]["recorded"] != 0:
            mark_incomplete(b, instrument)


@part
def reset(b: Books) -> None:
    """A new feed session: forget every recorded order and every halt; own orders stay."""
    outlined()
    for place in range(len(b.references)):
        if index.slot_at(b.references, place) != 0:
            forget(b, place)
    drop_empty_levels(b)
    b.state[HISTORY_LOST] = 0
    for instrument in range(len(b.books)):
        b.sides[2 * instrument]["recorded"] = 0
        b.books[instrument]["state"] = TRADING
        b.books[instrument]["incomplete"] = 0
    b.counters[0]["incomplete_books"] = 0
