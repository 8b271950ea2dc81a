"""The tape: every trade in the order in which it happened, those of the clients and those of the recorded day.

It is what people see, not what the exchange rests on: the oldest trades are overwritten, and nobody waits for a
reader. A made-up day of a million messages, of which 2 % are executions, went through ``loop.run`` at 9.18 million a
second before there was a tape (and the best prices in ``SIDE``), and at 9.11 with both: medians of 14 alternating
runs, each the best of 11, on a machine where they scatter by 5 %.
"""

from __future__ import annotations

from venue.engine.atomics import store_release_first
from venue.engine.books import Books
from venue.engine.kernel import part, verb
from venue.engine.live_records import OWN_TRADE
from venue.engine.records import RECORDED


@verb
def next_line(b: Books) -> int:
    """Where the next trade is written; it counts once ``print_line`` is called."""
    return int(b.counters[0]["trades"]) & (len(b.tape) - 1)


@verb
def print_line(b: Books, line: int) -> None:
    """Number the trade that was written, which is when readers see it."""
    number = int(b.counters[0]["trades"]) + 1
    store_release_first(b.tape, line, number)
    b.counters[0]["trades"] = number


@verb
def print_own(
    b: Books, fill_line: int, instrument: int, match_number: int, account: int, user_ref: int, time_ns: int
) -> None:
    """A trade of ``fills[fill_line]`` with the taking order of ``account`` (``RECORDED``: of the recorded day)."""
    fill = b.fills[fill_line]
    line = next_line(b)
    trade = b.tape[line]
    trade["time_ns"] = time_ns
    trade["price"] = fill["price"]
    trade["quantity"] = fill["quantity"]
    trade["match_number"] = match_number
    trade["resting_user_ref"] = fill["user_ref"] if int(fill["account"]) != RECORDED else 0
    trade["taking_user_ref"] = user_ref
    trade["instrument"] = instrument
    trade["resting_account"] = fill["account"]
    trade["taking_account"] = account
    trade["side"] = 1 - int(fill["side"])
    trade["kind"] = OWN_TRADE
    print_line(b, line)


@part
def print_recorded(b: Books, kind: int, instrument: int, side: int, price: int, quantity: int, time_ns: int) -> None:
    """A trade of the recorded day in which no client has part; ``side`` is that of the taker, or ``NO_SIDE``.

    What own orders took of it is on the tape already. Nothing is printed if nothing is left.
    """
    if quantity <= 0:
        return
    line = next_line(b)
    trade = b.tape[line]
    trade["time_ns"] = time_ns
    trade["price"] = price
    trade["quantity"] = quantity
    trade["match_number"] = 0
    trade["resting_user_ref"] = 0
    trade["taking_user_ref"] = 0
    trade["instrument"] = instrument
    trade["resting_account"] = RECORDED
    trade["taking_account"] = RECORDED
    trade["side"] = side
    trade["kind"] = kind
    print_line(b, line)
