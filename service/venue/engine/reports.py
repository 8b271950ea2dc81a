"""What clients hear of their orders and trades, and what a trade does to their exposure.

The words are those of OUCH 5.0; its execution reports are events here, which the order encoder turns into messages.
"""

from __future__ import annotations

from typing import Final

from venue.engine.atomics import outlined
from venue.engine.books import MATCHES, Books
from venue.engine.events import Outbox, emit
from venue.engine.kernel import part, verb
from venue.engine.records import (
    CANCELED,
    EXECUTED,
    FILL_RESTING_REDUCED,
    FILL_TRADE,
    RECORDED,
    REJECTED,
    Array,
)
from venue.engine.risk import expose, trade
from venue.engine.tape import print_own

ADDED: Final = ord("A")  # liquidity flags
REMOVED: Final = ord("R")
LIVE: Final = ord("L")
BY_SELF_MATCH: Final = ord("Q")  # cancel reason


# --- events -------------------------------------------------------------------------------------------------------


@verb
def reject(b: Books, out: Outbox, command: Array, reason: int, original: int) -> None:
    """Rejected: names the client's own number and the reason; ``original`` is 0 unless a Replace is rejected."""
    b.counters[0]["orders_rejected"][min(reason, 63)] += 1
    place = emit(
        out, b.counters, REJECTED, int(command["time_ns"]), int(command["account"]), int(command["user_ref"]), reason
    )
    event = out.events.records[place]
    event["ingress_ns"] = command["ingress_ns"]
    event["original_user_ref"] = original
    event["word0"] = command["word0"]
    event["word1"] = command["word1"]


@part
def cancel_event(
    b: Books,
    out: Outbox,
    account: int,
    user_ref: int,
    shares: int,
    leaves: int,
    reason: int,
    time_ns: int,
    ingress_ns: int,
) -> None:
    """Canceled: how many shares came off, how many are left, and why."""
    outlined()
    b.counters[0]["orders_canceled"] += 1
    event = out.events.records[emit(out, b.counters, CANCELED, time_ns, account, user_ref, reason)]
    event["quantity"] = shares
    event["leaves"] = leaves
    event["ingress_ns"] = ingress_ns


@part
def executed_event(
    b: Books, out: Outbox, account: int, user_ref: int, shares: int, price: int, leaves: int, flag: int, time_ns: int
) -> None:
    """Executed, for one side of the trade that was numbered last."""
    outlined()
    event = out.events.records[emit(out, b.counters, EXECUTED, time_ns, account, user_ref, flag)]
    event["quantity"] = shares
    event["price"] = price
    event["leaves"] = leaves
    event["reference"] = b.state[MATCHES]


@verb
def describe(b: Books, out: Outbox, kind: int, slot: int, command: Array) -> int:
    """Accepted or Replaced: the order as it was taken."""
    order = b.orders[slot]
    place = emit(
        out, b.counters, kind, int(command["time_ns"]), int(command["account"]), int(command["user_ref"]), LIVE
    )
    event = out.events.records[place]
    event["ingress_ns"] = command["ingress_ns"]
    event["price"] = command["price"]
    event["reference"] = order["reference"]
    event["word0"] = command["word0"]
    event["word1"] = command["word1"]
    event["quantity"] = order["open"]
    event["leaves"] = order["open"]
    event["instrument"] = order["instrument"]
    event["side"] = order["wire_side"]
    event["tif"] = command["tif"]
    event["display"] = command["display"]
    event["capacity"] = order["capacity"]
    event["iso"] = command["iso"]
    event["cross"] = ord("N")
    return place


# --- trades -------------------------------------------------------------------------------------------------------


@part
def settle(
    b: Books, out: Outbox, lines: int, instrument: int, account: int, user_ref: int, open_: int, time_ns: int
) -> None:
    """Turn ``fills[:lines]`` into exposure, positions and events; the resting side of each trade comes first.

    ``account`` is that of the taking order (``RECORDED``: nobody to tell), ``open_`` what it had open before.
    """
    outlined()
    for line in range(lines):
        fill = b.fills[line]
        shares = int(fill["quantity"])
        price = int(fill["price"])
        resting = int(fill["account"])
        side = int(fill["side"])
        resting_ref = int(fill["user_ref"])
        leaves = int(fill["leaves"])
        kind = int(fill["kind"])
        if resting != RECORDED:
            expose(b, resting, instrument, side, price, -shares, -1 if leaves == 0 else 0)
        if kind == FILL_TRADE:
            open_ -= shares
            b.state[MATCHES] += 1
            b.books[instrument]["last_price"] = price
            b.counters[0]["fills"] += 1
            b.counters[0]["filled_shares"] += shares
            b.counters[0]["filled_notional"] += shares * price
            print_own(b, line, instrument, int(b.state[MATCHES]), account, user_ref, time_ns)
            if resting != RECORDED:
                trade(b, resting, instrument, side, shares)
                executed_event(b, out, resting, resting_ref, shares, price, leaves, ADDED, time_ns)
            if account != RECORDED:
                trade(b, account, instrument, 1 - side, shares)
                executed_event(b, out, account, user_ref, shares, price, open_, REMOVED, time_ns)
        else:
            b.counters[0]["self_matches_prevented"] += 1
            cancel_event(b, out, resting, resting_ref, shares, leaves, BY_SELF_MATCH, time_ns, 0)
            if kind != FILL_RESTING_REDUCED:
                open_ -= shares
                cancel_event(b, out, account, user_ref, shares, open_, BY_SELF_MATCH, time_ns, 0)
