"""What an incoming order meets: price first, then time, always at the resting order's price.

These verbs change books and write lines into ``Books.fills``; they know no accounts' limits and send no events. That
is for their callers, who turn the lines into events (:mod:`venue.engine.orders`) or into a benchmark's reports.
"""

from __future__ import annotations

from typing import Final

from venue.engine.atomics import outlined
from venue.engine.books import (
    MODE,
    Books,
    forget_own,
    ladder_position,
    note_empty,
    reduce,
    unlink,
)
from venue.engine.kernel import part, verb
from venue.engine.records import (
    ALLOW,
    BUY,
    CANCEL_NEWEST,
    CANCEL_OLDEST,
    DECREMENT,
    FILL_BOTH_REDUCED,
    FILL_RESTING_REDUCED,
    FILL_TRADE,
    PASSIVE,
    RECORDED,
    Array,
)

NO_LIMIT: Final = 1 << 31
"""Beyond every price and key: what a market order to buy is willing to pay (to sell, the negative of it)."""
LAST: Final = 1 << 62
"""Beyond every priority."""


@verb
def worst_key(side: int, limit: int) -> int:
    """The lowest key of the opposite ladder that an order of ``side`` with this limit still trades with."""
    return -limit if side == BUY else limit


@verb
def meets(b: Books, instrument: int, side: int, limit: int) -> bool:
    """Whether an order of ``side`` would trade at once.

    Asking first spares most orders the call of :func:`take`: 24 instead of 15 M messages/s of the benchmark's workload.
    """
    row = b.sides[2 * instrument + 1 - side]
    last = int(row["block"]) + int(row["count"]) - 1
    return int(row["count"]) > 0 and (b.ladders[last] >> 32) >= worst_key(side, limit)


@verb
def note_fill(b: Books, line: int, slot: int, quantity: int, kind: int) -> None:
    """Write one line of ``fills``, after ``open`` of the resting order in ``slot`` was made smaller."""
    order = b.orders[slot]
    fill = b.fills[line]
    fill["reference"] = order["reference"]
    fill["quantity"] = quantity
    fill["leaves"] = order["open"]
    fill["price"] = order["price"]
    fill["user_ref"] = order["user_ref"]
    fill["account"] = order["account"]
    fill["side"] = order["side"]
    fill["kind"] = kind


@verb
def take_from(b: Books, slot: int, quantity: int) -> int:
    """Take ``quantity`` open shares off a resting order; one without any leaves its queue.

    The level itself is not dropped; the count of its orders is given back (-1 while the order stays).
    """
    order = b.orders[slot]
    if quantity < int(order["open"]):
        reduce(b, slot, quantity)
        return -1
    count = unlink(b, slot)
    order["open"] = 0
    return count


@verb
def next_worse(b: Books, row: Array, position: int, emptied: bool) -> int:
    """Where in a ladder the level stands that is worse than the one at ``position``, from which all orders may have
    gone."""
    if not emptied:
        return position - 1
    key = b.ladders[int(row["block"]) + position] >> 32
    note_empty(b, row, key)
    return ladder_position(b, row, key - 1) - 1


@part
def take(
    b: Books, instrument: int, side: int, limit: int, quantity: int, account: int, self_match: int
) -> tuple[int, int, bool]:
    """Trade an own order of ``side`` with the other side of its book.

    Gives back how many lines of ``fills`` were written, how many shares are left, and whether self-match prevention
    stops the order here (the rest of it is to be canceled).
    """
    outlined()
    row = b.sides[2 * instrument + 1 - side]
    words = b.ladders
    block = int(row["block"])
    position = int(row["count"]) - 1
    bound = worst_key(side, limit)
    lines = 0
    while position >= 0 and quantity > 0 and (words[block + position] >> 32) >= bound:
        level = int(words[block + position] & 0xFFFFFFFF)
        slot = int(b.levels[level]["head"])
        count = -1
        while slot != 0 and quantity > 0:
            order = b.orders[slot]
            behind = int(order["next"])
            traded = min(quantity, int(order["open"]))
            kind = FILL_TRADE
            if int(order["account"]) == account and self_match != ALLOW:
                if self_match == CANCEL_NEWEST:
                    return lines, quantity, True
                kind = FILL_RESTING_REDUCED if self_match == CANCEL_OLDEST else FILL_BOTH_REDUCED
                if self_match == CANCEL_OLDEST:
                    traded = int(order["open"])
            if kind != FILL_RESTING_REDUCED:
                quantity -= traded
            if int(order["account"]) == RECORDED:
                if b.state[MODE] != PASSIVE:
                    count = take_from(b, slot, traded)
                note_fill(b, lines, slot, traded, kind)
            else:
                order["spent"] += traded
                count = take_from(b, slot, traded)
                note_fill(b, lines, slot, traded, kind)
                if int(order["open"]) == 0:
                    forget_own(b, slot)
            lines += 1
            slot = behind
        position = next_worse(b, row, position, count == 0)
    return lines, quantity, False


@part
def available_to(
    b: Books, instrument: int, side: int, limit: int, quantity: int, minimum: int, account: int, self_match: int
) -> bool:
    """Whether an own order for ``quantity`` shares would trade at least ``minimum`` of them at once."""
    outlined()
    row = b.sides[2 * instrument + 1 - side]
    block = int(row["block"])
    position = int(row["count"]) - 1
    bound = worst_key(side, limit)
    found = 0
    while position >= 0 and quantity > 0 and found < minimum and (b.ladders[block + position] >> 32) >= bound:
        queue = b.levels[int(b.ladders[block + position] & 0xFFFFFFFF)]
        position -= 1
        if int(queue["own"]) == 0 or self_match == ALLOW:
            traded = min(int(queue["shares"]), quantity)
            found += traded
            quantity -= traded
            continue
        slot = int(queue["head"])
        while slot != 0 and quantity > 0:
            order = b.orders[slot]
            met = min(int(order["open"]), quantity)
            if int(order["account"]) != account:
                found += met
                quantity -= met
            elif self_match == CANCEL_NEWEST:
                return found >= minimum
            elif self_match == DECREMENT:
                quantity -= met
            slot = int(order["next"])
    return found >= minimum


@verb
def reaches_further(b: Books, instrument: int, side: int, limit: int) -> bool:
    """Whether the other side has orders beyond the limit of an order of ``side``."""
    row = b.sides[2 * instrument + 1 - side]
    words = b.ladders
    position = int(row["block"])
    end = position + int(row["count"])
    while position < end and int(b.levels[int(words[position] & 0xFFFFFFFF)]["count"]) == 0:
        position += 1
    return position < end and (words[position] >> 32) < worst_key(side, limit)


@part
def take_own(b: Books, instrument: int, side: int, bound: int, before: int, quantity: int) -> tuple[int, int]:
    """Trade recorded flow with the own orders that rest on ``side``, best price first, oldest first.

    Only own orders at a key above ``bound``, or at ``bound`` with a priority below ``before``, take part; recorded
    orders are passed over. Gives back how many lines of ``fills`` were written and what is left of ``quantity``.
    """
    outlined()
    row = b.sides[2 * instrument + side]
    words = b.ladders
    block = int(row["block"])
    position = int(row["count"]) - 1
    lines = 0
    while position >= 0 and quantity > 0 and int(row["own"]) > 0:
        key = words[block + position] >> 32
        if key < bound:
            break
        queue = b.levels[int(words[block + position] & 0xFFFFFFFF)]
        slot = int(queue["head"])
        count = -1
        while slot != 0 and quantity > 0 and int(queue["own"]) > 0:
            order = b.orders[slot]
            if key == bound and int(order["priority"]) >= before:
                break
            behind = int(order["next"])
            if int(order["account"]) != RECORDED:
                traded = min(quantity, int(order["open"]))
                quantity -= traded
                order["spent"] += traded
                count = take_from(b, slot, traded)
                note_fill(b, lines, slot, traded, FILL_TRADE)
                lines += 1
                if int(order["open"]) == 0:
                    forget_own(b, slot)
            slot = behind
        position = next_worse(b, row, position, count == 0)
    return lines, quantity
