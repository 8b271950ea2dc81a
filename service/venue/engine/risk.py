"""Checks before the book, and the exposure that they look at.

Every limit has a reject reason of its own (OUCH 5.0, Rejected; the reasons from 0x20 on are those of risk checks).
A limit of 0 is no limit. No check can overflow: quantities are at most ``MAX_QUANTITY`` before they are multiplied
with a price. (The sums that only metrics show, such as ``open_notional``, wrap after some 4,600 open orders of the
largest size at the highest price.)
"""

from __future__ import annotations

from typing import Final

from venue.engine.atomics import outlined
from venue.engine.books import Books, best_level, position_of
from venue.engine.kernel import part, verb
from venue.engine.records import BUY, MARKET_PRICES, MAX_PRICE, MAX_QUANTITY, NO_INSTRUMENT, SELL, Array
from venue.wire.ouch import RejectReason

PASSED: Final = 0
QUOTE_UNAVAILABLE: Final = int(RejectReason.QUOTE_UNAVAILABLE)
DISPLAY: Final = int(RejectReason.INVALID_DISPLAY)
HALTED: Final = int(RejectReason.HALTED)
ISO: Final = int(RejectReason.ISO_NOT_ALLOWED)
SIDE: Final = int(RejectReason.INVALID_SIDE)
CAPACITY: Final = int(RejectReason.PROCESSING_ERROR)
KILL_SWITCH: Final = int(RejectReason.FIRM_NOT_AUTHORIZED)
MIN_QUANTITY: Final = int(RejectReason.INVALID_MIN_QUANTITY)
OTHER: Final = int(RejectReason.OTHER)
QUANTITY: Final = int(RejectReason.INVALID_QUANTITY)
CROSS_ORDER: Final = int(RejectReason.INVALID_CROSS_ORDER)
SYMBOL: Final = int(RejectReason.INVALID_SYMBOL)
PRICE: Final = int(RejectReason.INVALID_PRICE)
OPEN_ORDERS: Final = int(RejectReason.SHARES_OVER_THRESHOLD)
POSITION: Final = int(RejectReason.RISK_AGGREGATE_EXPOSURE)
COLLAR: Final = int(RejectReason.RISK_FAT_FINGER)
RATE: Final = int(RejectReason.RISK_PORT_RATE)
ORDER_NOTIONAL: Final = int(RejectReason.RISK_SINGLE_ORDER_NOTIONAL)
ORDER_QUANTITY: Final = int(RejectReason.RISK_MAX_QUANTITY)

SECOND_NS: Final = 1_000_000_000
BASIS_POINTS: Final = 10_000
DOLLAR: Final = 10_000  # ticks
CENT: Final = 100  # ticks: what prices from one dollar on are a multiple of (Regulation NMS, Rule 612)

BUY_BYTE: Final = ord("B")
IOC: Final = ord("3")
TRADING: Final = ord("T")


@verb
def side_of(wire_side: int) -> int:
    """``BUY`` or ``SELL`` for the side byte of the wire: S, T (short) and E (short exempt) all sell."""
    return BUY if wire_side == BUY_BYTE else SELL


@verb
def is_market(price: int) -> bool:
    """True for the prices that OUCH 5.0 takes as "at market"."""
    return price in MARKET_PRICES


@verb
def check_terms(command: Array) -> int:
    """The terms that Enter and Replace share, without quantity and price: time in force, display, sweep."""
    tif = int(command["tif"])
    if tif != ord("0") and tif != IOC and tif != ord("5"):
        return OTHER
    display = int(command["display"])
    if display != ord("Y") and display != ord("A"):
        return DISPLAY
    iso = int(command["iso"])
    if iso != ord("Y") and iso != ord("N"):
        return ISO
    return PASSED


@verb
def check_price(price: int) -> int:
    """A limit price has to be positive, at most the highest that OUCH allows, and a multiple of its tick."""
    if is_market(price):
        return PASSED
    if price < 1 or price > MAX_PRICE or (price >= DOLLAR and price % CENT != 0):
        return PRICE
    return PASSED


@verb
def check_enter(b: Books, command: Array) -> int:
    """Whether an Enter says something that this exchange can do; the reject reason if not."""
    if int(command["detail"]) != 0:
        return int(command["detail"])
    side = int(command["side"])
    if side != BUY_BYTE and side != ord("S") and side != ord("T") and side != ord("E"):
        return SIDE
    quantity = int(command["quantity"])
    if quantity < 1 or quantity > MAX_QUANTITY:
        return QUANTITY
    instrument = int(command["instrument"])
    if instrument == NO_INSTRUMENT or instrument >= len(b.books):
        return SYMBOL
    reason = check_terms(command)
    if reason == PASSED and int(command["cross"]) != ord("N"):
        reason = CROSS_ORDER
    if reason == PASSED:
        reason = check_price(int(command["price"]))
    if reason != PASSED:
        return reason
    minimum = int(command["extra"])
    if minimum > quantity or (minimum > 0 and int(command["tif"]) != IOC):
        return MIN_QUANTITY
    return PASSED


@verb
def touch(b: Books, instrument: int, side: int) -> int:
    """The best price of a side, -1 if it is empty."""
    level = best_level(b, b.sides[2 * instrument + side])
    return int(b.levels[level]["price"]) if level != 0 else -1


@verb
def beyond_collar(side: int, price: int, reference: int, collar_bp: int) -> bool:
    """True if a limit is more than the collar worse for its owner than a reference price."""
    if side == BUY:
        return price * BASIS_POINTS > reference * (BASIS_POINTS + collar_bp)
    return price * BASIS_POINTS < reference * (BASIS_POINTS - collar_bp)


@verb
def collared(side: int, reference: int, collar_bp: int) -> int:
    """The worst price within the collar, for a market order."""
    if side == BUY:
        return reference * (BASIS_POINTS + collar_bp) // BASIS_POINTS
    return -(-reference * (BASIS_POINTS - collar_bp) // BASIS_POINTS)


@verb
def largest_value(b: Books, instrument: int, side: int, price: int, shares: int, opposite: int) -> int:
    """The most that an order could trade for now, in ticks × shares; ``opposite`` is the touch it meets, -1 = none.

    A sale may trade far above its limit, and a market order to buy goes through as many levels as it needs.
    """
    if side == SELL:
        return max(opposite, 0 if is_market(price) else price) * shares
    if not is_market(price):
        return price * shares
    row = b.sides[2 * instrument + SELL]
    position = int(row["block"]) + int(row["count"]) - 1
    value = 0
    while position >= int(row["block"]) and shares > 0:
        level = b.levels[int(b.ladders[position] & 0xFFFFFFFF)]
        met = min(shares, int(level["shares"]))
        value += met * int(level["price"])
        shares -= met
        position -= 1
    return value


@part
def check_risk(
    b: Books, account: int, instrument: int, side: int, price: int, total: int, shares: int, new: int, time_ns: int
) -> int:
    """All limits of an account for ``shares`` that would newly be open, of an order for ``total``.

    ``new`` is 1 if the order adds to the count of open orders. The rate counts only what passed everything else.
    """
    outlined()
    limits = b.accounts[account]
    opposite = touch(b, instrument, 1 - side)
    if int(b.books[instrument]["state"]) != TRADING:
        return HALTED
    market = is_market(price)
    if market and opposite < 0:
        return QUOTE_UNAVAILABLE
    if limits["killed"] != 0:
        return KILL_SWITCH
    if limits["max_order_quantity"] > 0 and total > limits["max_order_quantity"]:
        return ORDER_QUANTITY
    most = int(limits["max_order_notional"])
    if most > 0 and largest_value(b, instrument, side, price, shares, opposite) > most:
        return ORDER_NOTIONAL
    collar_bp = int(limits["collar_bp"])
    if collar_bp > 0 and not market:
        last = int(b.books[instrument]["last_price"])
        if opposite >= 0 and beyond_collar(side, price, opposite, collar_bp):
            return COLLAR
        if last > 0 and beyond_collar(side, price, last, collar_bp):
            return COLLAR
    if limits["max_open_orders"] > 0 and limits["open_orders"] + new > limits["max_open_orders"]:
        return OPEN_ORDERS
    held = b.positions[position_of(b, account, instrument)]
    if side == BUY:
        if limits["max_long"] > 0 and held["position"] + held["open_buy"] + shares > limits["max_long"]:
            return POSITION
    elif limits["max_short"] > 0 and held["open_sell"] + shares - held["position"] > limits["max_short"]:
        return POSITION
    return check_rate(b, account, time_ns)


@verb
def check_rate(b: Books, account: int, time_ns: int) -> int:
    """Orders a second by command time: each passes if the allowance of one second is not used up (GCRA)."""
    limits = b.accounts[account]
    if limits["max_orders_per_s"] > 0:
        due = max(int(limits["rate_time_ns"]), time_ns) + SECOND_NS // int(limits["max_orders_per_s"])
        if due - time_ns > SECOND_NS:
            return RATE
        limits["rate_time_ns"] = due
    return PASSED


# --- exposure -----------------------------------------------------------------------------------------------------


@verb
def expose(b: Books, account: int, instrument: int, side: int, price: int, shares: int, orders: int) -> None:
    """Add resting shares (negative: take them away) and orders to what an account could still trade."""
    state = b.accounts[account]
    state["open_orders"] += orders
    state["open_shares"] += shares
    state["open_notional"] += shares * price
    b.counters[0]["live_own_orders"] += orders
    held = b.positions[position_of(b, account, instrument)]
    if side == BUY:
        held["open_buy"] += shares
    else:
        held["open_sell"] += shares


@verb
def trade(b: Books, account: int, instrument: int, side: int, shares: int) -> None:
    """Add executed shares to an account's position."""
    b.positions[position_of(b, account, instrument)]["position"] += shares if side == BUY else -shares
