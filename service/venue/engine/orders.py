"""The orders of clients: Enter, Replace, Cancel, Modify, Account Query, and what becomes of them.

The semantics are those of OUCH 5.0 (2025); where its text leaves a choice, the function says what was chosen. Each
function handles one command completely: checks, book, exposure, events.
"""

from __future__ import annotations

from typing import Final

from venue.engine import risk
from venue.engine.atomics import outlined
from venue.engine.books import (
    REFERENCES,
    Books,
    find_own,
    forget_own,
    free_order,
    join,
    leave,
    new_order,
    reduce,
    user_ref_place,
)
from venue.engine.events import SHARDED, Outbox, emit
from venue.engine.kernel import part, verb
from venue.engine.match import NO_LIMIT, available_to, meets, reaches_further, take
from venue.engine.records import (
    ACCEPTED,
    BUY,
    FILL_RESTING_REDUCED,
    FIRST_OWN_REFERENCE,
    MAX_QUANTITY,
    MODIFIED,
    QUERY_RESPONSE,
    REPLACED,
    SELL,
    SYSTEM_EVENT,
    UNTAKEN,
    Array,
)
from venue.engine.reports import BY_SELF_MATCH, cancel_event, describe, reject, settle
from venue.engine.risk import PASSED, expose, side_of

BY_USER: Final = ord("U")  # cancel reasons
BY_IOC: Final = ord("I")
BY_COLLAR: Final = ord("K")
BY_SUPERVISOR: Final = ord("S")
BY_SYSTEM: Final = ord("Z")


@verb
def limit_of(b: Books, instrument: int, side: int, price: int, collar_bp: int) -> int:
    """The worst price at which an order may trade. A market order stops at the collar around the touch it found."""
    if not risk.is_market(price):
        return price
    if collar_bp > 0:
        return risk.collared(side, risk.touch(b, instrument, 1 - side), collar_bp)
    return NO_LIMIT if side == BUY else -NO_LIMIT


@part
def work(b: Books, out: Outbox, slot: int, price: int, minimum: int, time_ns: int) -> None:
    """Trade an accepted order as far as it goes, then let the rest stand in the book or cancel it."""
    outlined()
    order = b.orders[slot]
    account = int(order["account"])
    user_ref = int(order["user_ref"])
    instrument = int(order["instrument"])
    side = int(order["side"])
    shares = int(order["open"])
    policy = int(b.accounts[account]["self_match"])
    market = risk.is_market(price)
    collar_bp = int(b.accounts[account]["collar_bp"])
    limit = limit_of(b, instrument, side, price, collar_bp)
    left = shares
    stopped = False
    enough = minimum == 0 or available_to(b, instrument, side, limit, shares, minimum, account, policy)
    if enough and meets(b, instrument, side, limit):
        lines, left, stopped = take(b, instrument, side, limit, shares, account, policy)
        settle(b, out, lines, instrument, account, user_ref, shares, time_ns)
        for line in range(lines):  # what self-match prevention took off counts as spent, like what was executed
            if int(b.fills[line]["kind"]) != FILL_RESTING_REDUCED:
                order["spent"] += b.fills[line]["quantity"]
    order["open"] = left
    if left == 0:
        free_order(b, slot)
    elif stopped or market or int(order["tif"]) == risk.IOC:
        reason = BY_SELF_MATCH if stopped else BY_IOC
        if stopped:
            b.counters[0]["self_matches_prevented"] += 1
        elif market and enough and reaches_further(b, instrument, side, limit):
            reason = BY_COLLAR
        cancel_event(b, out, account, user_ref, left, 0, reason, time_ns, 0)
        free_order(b, slot)
    elif join(b, slot):
        b.user_refs[user_ref_place(b, account, user_ref)] = slot
        expose(b, account, instrument, side, price, left, 1)
    else:
        b.counters[0]["capacity_rejects"] += 1
        cancel_event(b, out, account, user_ref, left, 0, BY_SYSTEM, time_ns, 0)
        free_order(b, slot)


@verb
def next_reference(b: Books) -> int:
    """A reference for an own order, beyond all that a feed uses."""
    reference = FIRST_OWN_REFERENCE + b.state[REFERENCES]
    b.state[REFERENCES] += 1
    return int(reference)


# --- commands -----------------------------------------------------------------------------------------------------


@part
def enter(b: Books, out: Outbox, command: Array) -> None:
    """Enter Order. A number at or below the last one used is a retransmission: ignored and counted.

    A rejected number is used up.
    """
    outlined()
    account = int(command["account"])
    user_ref = int(command["user_ref"])
    state = b.accounts[account]
    if user_ref <= state["last_user_ref"]:
        b.counters[0]["ignored_duplicates"] += 1
        return
    state["last_user_ref"] = user_ref
    reason = risk.check_enter(b, command)
    instrument = int(command["instrument"])
    side = side_of(int(command["side"]))
    price = int(command["price"])
    shares = int(command["quantity"])
    time_ns = int(command["time_ns"])
    if reason == PASSED:
        reason = risk.check_risk(b, account, instrument, side, price, shares, shares, 1, time_ns)
    slot = 0
    if reason == PASSED:
        if b.user_refs[user_ref_place(b, account, user_ref)] == 0:
            slot = new_order(b)
        if slot == 0:
            reason = risk.CAPACITY
    if reason != PASSED:
        if reason == risk.CAPACITY:
            b.counters[0]["capacity_rejects"] += 1
        reject(b, out, command, reason, 0)
        return
    order = b.orders[slot]
    order["reference"] = next_reference(b)
    order["open"] = shares
    order["displayed"] = 0
    order["price"] = 0 if risk.is_market(price) else price
    order["spent"] = 0
    order["level"] = 0
    order["user_ref"] = user_ref
    order["instrument"] = instrument
    order["account"] = account
    order["side"] = side
    order["wire_side"] = command["side"]
    order["tif"] = command["tif"]
    capacity = int(command["capacity"])
    known = capacity == ord("A") or capacity == ord("P") or capacity == ord("R")
    order["capacity"] = capacity if known else ord("O")
    b.counters[0]["orders_accepted"] += 1
    describe(b, out, ACCEPTED, slot, command)
    work(b, out, slot, price, int(command["extra"]), time_ns)


@verb
def sell_kind_allowed(now: int, wanted: int) -> bool:
    """Modify (OUCH 5.0): from S to E or T, from E to T; the same side is no change."""
    return (
        wanted == now
        or (now == ord("S") and (wanted == ord("E") or wanted == ord("T")))
        or (now == ord("E") and wanted == ord("T"))
    )


@verb
def of_account(reason: int) -> bool:
    """True for what only the router of several matching threads finds (:mod:`venue.engine.routing`), a limit of the
    whole account: no fault in a Replace's details."""
    return reason == risk.RATE or reason == risk.CAPACITY


@part
def untaken(b: Books, out: Outbox, command: Array) -> None:
    """Of several matching threads: say that a Replace has not used its number up. Number 0: nobody waits to know."""
    outlined()
    number = int(command["user_ref"])
    if out.state[SHARDED] != 0 and number != 0:
        emit(out, b.counters, UNTAKEN, int(command["time_ns"]), int(command["account"]), number, 0)


@verb
def check_replace(b: Books, command: Array, slot: int) -> int:
    """Whether the details of a Replace are valid for its original order; a reject reason if not."""
    order = b.orders[slot]
    detail = int(command["detail"])
    if detail != 0 and not of_account(detail):
        return detail
    wanted = int(command["side"])
    if wanted != 0:
        selling = wanted == ord("S") or wanted == ord("T") or wanted == ord("E")
        if (int(order["side"]) == SELL and not selling) or (int(order["side"]) == BUY and wanted != risk.BUY_BYTE):
            return risk.SIDE
    quantity = int(command["quantity"])
    if quantity > MAX_QUANTITY or quantity <= int(order["spent"]):
        return risk.QUANTITY
    reason = risk.check_terms(command)
    if reason == PASSED:
        reason = risk.check_price(int(command["price"]))
    return reason


@part
def withdraw(b: Books, out: Outbox, slot: int, reason: int, time_ns: int, ingress_ns: int) -> None:
    """Cancel all that a resting order has open."""
    outlined()
    order = b.orders[slot]
    shares = int(order["open"])
    account = int(order["account"])
    user_ref = int(order["user_ref"])
    leave(b, slot)
    expose(b, account, int(order["instrument"]), int(order["side"]), int(order["price"]), -shares, -1)
    forget_own(b, slot)
    cancel_event(b, out, account, user_ref, shares, 0, reason, time_ns, ingress_ns)


@part
def replace(b: Books, out: Outbox, command: Array) -> None:
    """Replace Order. The quantity is the total of the chain, executed shares included.

    The original not live, or the new number used before: silence, and the number is not used up. Invalid details, or
    a total at or below what was executed: the original is canceled, the number not used up. A limit that forbids the
    new order: Rejected, which uses the number up, and the original stays as it was.
    """
    outlined()
    account = int(command["account"])
    user_ref = int(command["user_ref"])
    original = int(command["extra"])
    time_ns = int(command["time_ns"])
    slot = find_own(b, account, original)
    if slot == 0:
        b.counters[0]["ignored_stale"] += 1
        untaken(b, out, command)
        return
    if user_ref <= b.accounts[account]["last_user_ref"]:
        b.counters[0]["ignored_duplicates"] += 1
        return
    order = b.orders[slot]
    if check_replace(b, command, slot) != PASSED:
        withdraw(b, out, slot, BY_USER, time_ns, int(command["ingress_ns"]))
        untaken(b, out, command)
        return
    b.accounts[account]["last_user_ref"] = user_ref
    instrument = int(order["instrument"])
    side = int(order["side"])
    was_open = int(order["open"])
    was_price = int(order["price"])
    price = int(command["price"])
    total = int(command["quantity"])
    shares = total - int(order["spent"])
    expose(b, account, instrument, side, was_price, -was_open, -1)
    taken = int(b.user_refs[user_ref_place(b, account, user_ref)])
    reason = int(command["detail"])
    if reason == PASSED:
        reason = risk.check_risk(b, account, instrument, side, price, total, shares, 1, time_ns)
    if reason == PASSED and taken != 0 and taken != slot:
        reason = risk.CAPACITY
    if reason != PASSED:
        if reason == risk.CAPACITY:
            b.counters[0]["capacity_rejects"] += 1
        expose(b, account, instrument, side, was_price, was_open, 1)
        reject(b, out, command, reason, original)
        return
    leave(b, slot)
    b.user_refs[user_ref_place(b, account, original)] = 0
    order["reference"] = next_reference(b)
    order["open"] = shares
    order["price"] = 0 if risk.is_market(price) else price
    order["user_ref"] = user_ref
    order["tif"] = command["tif"]
    if int(command["side"]) != 0:
        order["wire_side"] = command["side"]
    b.counters[0]["orders_replaced"] += 1
    event_place = describe(b, out, REPLACED, slot, command)
    out.events.records[event_place]["original_user_ref"] = original
    work(b, out, slot, price, 0, time_ns)


@part
def cancel(b: Books, out: Outbox, command: Array) -> None:
    """Cancel Order. The quantity is the new intended total; what is already executed counts.

    Nothing to take off, or no live order of that number: silence.
    """
    outlined()
    account = int(command["account"])
    user_ref = int(command["user_ref"])
    slot = find_own(b, account, user_ref)
    if slot == 0:
        b.counters[0]["ignored_stale"] += 1
        return
    order = b.orders[slot]
    after = max(0, int(command["quantity"]) - int(order["spent"]))
    shares = int(order["open"]) - after
    if shares <= 0:
        return
    if after == 0:
        withdraw(b, out, slot, BY_USER, int(command["time_ns"]), int(command["ingress_ns"]))
        return
    reduce(b, slot, shares)
    expose(b, account, int(order["instrument"]), int(order["side"]), int(order["price"]), -shares, 0)
    cancel_event(b, out, account, user_ref, shares, after, BY_USER, int(command["time_ns"]), int(command["ingress_ns"]))


@part
def modify(b: Books, out: Outbox, command: Array) -> None:
    """Modify Order: another kind of sale, or fewer shares, without loss of priority. An increase is ignored."""
    outlined()
    account = int(command["account"])
    user_ref = int(command["user_ref"])
    slot = find_own(b, account, user_ref)
    side = int(command["side"])
    if slot == 0 or not sell_kind_allowed(int(b.orders[slot]["wire_side"]), side):
        b.counters[0]["ignored_stale"] += 1
        return
    order = b.orders[slot]
    after = int(command["quantity"]) - int(order["spent"])
    if after <= 0:
        withdraw(b, out, slot, BY_USER, int(command["time_ns"]), int(command["ingress_ns"]))
        return
    shares = int(order["open"]) - after
    if shares <= 0 and side == int(order["wire_side"]):
        return
    if shares > 0:
        reduce(b, slot, shares)
        expose(b, account, int(order["instrument"]), int(order["side"]), int(order["price"]), -shares, 0)
    order["wire_side"] = side
    b.shown[int(order["displayed"])]["wire_side"] = side
    b.counters[0]["orders_modified"] += 1
    event = out.events.records[emit(out, b.counters, MODIFIED, int(command["time_ns"]), account, user_ref, 0)]
    event["ingress_ns"] = command["ingress_ns"]
    event["side"] = side
    event["quantity"] = order["open"]
    event["leaves"] = order["open"]


@part
def cancel_all(b: Books, out: Outbox, account: int, reason: int, time_ns: int) -> None:
    """Cancel every order of an account, the newest number first (so that the search ends with the oldest live one)."""
    outlined()
    user_ref = int(b.accounts[account]["last_user_ref"])
    searched = 0
    width = len(b.user_refs) // len(b.accounts)
    while b.accounts[account]["open_orders"] > 0 and searched < width:
        slot = int(b.user_refs[user_ref_place(b, account, user_ref - searched)])
        if slot != 0:
            withdraw(b, out, slot, reason, time_ns, 0)
        searched += 1


@verb
def query(b: Books, out: Outbox, command: Array) -> None:
    """Account Query: the next number that can be used; 0 if all are used up.

    The command's own number is the last one that went to another matching thread, 0 if there is none.
    """
    account = int(command["account"])
    last = max(int(b.accounts[account]["last_user_ref"]), int(command["user_ref"]))
    following = (last + 1) & 0xFFFFFFFF
    place = emit(out, b.counters, QUERY_RESPONSE, int(command["time_ns"]), account, following, 0)
    out.events.records[place]["ingress_ns"] = command["ingress_ns"]


@verb
def set_kill_switch(b: Books, out: Outbox, command: Array) -> None:
    """Let an account enter no orders any more and cancel those it has, or allow it again."""
    account = int(command["account"])
    b.accounts[account]["killed"] = command["detail"]
    if int(command["detail"]) != 0:
        cancel_all(b, out, account, BY_SUPERVISOR, int(command["time_ns"]))


@verb
def day_event(b: Books, out: Outbox, command: Array) -> None:
    """System Event: S begins an account's day, E ends it."""
    emit(out, b.counters, SYSTEM_EVENT, int(command["time_ns"]), int(command["account"]), 0, int(command["detail"]))
