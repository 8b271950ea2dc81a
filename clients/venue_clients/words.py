"""What the exchange's messages say, in words, one line each."""

from __future__ import annotations

from typing import Final

from venue.wire import ouch
from venue.wire.ouch import CancelReason, LiquidityFlag, RejectReason
from venue_clients.orders import OrderState, Status
from venue_clients.prices import MARKET_PRICE, dollars

SIDES: Final = {"B": "buy", "S": "sell", "T": "sell short", "E": "sell short exempt"}
_TIFS: Final = {
    "0": "day",
    "3": "immediate or cancel",
    "5": "extended hours",
    "6": "good till time",
    "E": "after hours",
}

_REJECTS: Final = {
    RejectReason.QUOTE_UNAVAILABLE: "nobody on the other side for a market order",
    RejectReason.HALTED: "the stock is halted",
    RejectReason.INVALID_SIDE: "no such side",
    RejectReason.PROCESSING_ERROR: "the venue has no room for it",
    RejectReason.FIRM_NOT_AUTHORIZED: "the account is stopped",
    RejectReason.INVALID_MIN_QUANTITY: "the minimum quantity does not fit the order",
    RejectReason.OTHER: "this time in force or option is not supported",
    RejectReason.INVALID_QUANTITY: "the quantity is not 1 to 999,999",
    RejectReason.INVALID_SYMBOL: "this symbol is not traded here",
    RejectReason.INVALID_PRICE: "no valid price: whole cents from one dollar on",
    RejectReason.SHARES_OVER_THRESHOLD: "risk: too many open orders",
    RejectReason.RISK_AGGREGATE_EXPOSURE: "risk: the position would be too large if all open orders filled",
    RejectReason.RISK_FAT_FINGER: "risk: the price is too far from the market",
    RejectReason.RISK_PORT_RATE: "risk: too many orders a second",
    RejectReason.RISK_SINGLE_ORDER_NOTIONAL: "risk: the order is worth too much",
    RejectReason.RISK_MAX_QUANTITY: "risk: too many shares in one order",
}
_CANCELS: Final = {
    CancelReason.IMMEDIATE_OR_CANCEL: "nothing more to trade with at once",
    CancelReason.MARKET_COLLARS: "the market is too far away",
    CancelReason.SELF_MATCH_PREVENTION: "it would have traded with an order of the same account",
    CancelReason.SUPERVISORY: "by the venue",
    CancelReason.USER: "as asked",
    CancelReason.SYSTEM: "the venue has no room for it",
}
_FLAGS: Final = {LiquidityFlag.ADDED: "added liquidity", LiquidityFlag.REMOVED: "removed liquidity"}


def reject_reason(code: int) -> str:
    try:
        reason = RejectReason(code)
    except ValueError:
        return f"reason 0x{code:02X}"
    return f"{_REJECTS.get(reason) or reason.name.lower().replace('_', ' ')} (0x{code:02X})"


def cancel_reason(code: str) -> str:
    try:
        reason = CancelReason(code)
    except ValueError:
        return f"reason {code!r}"
    return _CANCELS.get(reason) or reason.name.lower().replace("_", " ")


def liquidity(code: str) -> str:
    try:
        flag = LiquidityFlag(code)
    except ValueError:
        return f"flag {code!r}"
    return _FLAGS.get(flag) or flag.name.lower().replace("_", " ")


def price(price_ticks: int) -> str:
    return "market" if price_ticks >= MARKET_PRICE else dollars(price_ticks)


def terms(side: str, quantity: int, symbol: str, price_ticks: int, tif: str) -> str:
    """`buy 100 AAPL at 189.50, day`"""
    return f"{SIDES.get(side, side)} {quantity:,} {symbol} at {price(price_ticks)}, {_TIFS.get(tif, tif)}"


def order_line(order: OrderState) -> str:
    """What has become of an order."""
    line = f"#{order.user_ref} {terms(order.side, order.quantity, order.symbol, order.price, order.tif)}: "
    if order.status is Status.LIVE:
        line += f"{order.open:,} open"
    elif order.status is Status.REJECTED:
        line += f"rejected: {reject_reason(order.reason)}"
    else:
        line += order.status.value
    if order.executed:
        line += f", {order.executed:,} executed at {order.average_price:.4f} on average"
    return line


def message_line(message: ouch.OutboundMessage, order: OrderState | None) -> str | None:
    """One line about a message, or None for one that says nothing to people. `order` is the state after it."""
    match message:
        case ouch.Accepted() | ouch.Replaced():
            dead = "" if message.order_state == "L" else ", and at once canceled"
            verb = "accepted" if isinstance(message, ouch.Accepted) else f"replaced #{message.orig_user_ref_num} by"
            what = terms(message.side, message.quantity, message.symbol, message.price, message.time_in_force)
            return f"{verb} #{message.user_ref_num} {what}{dead}"
        case ouch.Executed():
            left = f", {order.open:,} left" if order is not None else ""
            at = f"{message.quantity:,} at {dollars(message.price)}"
            return f"filled #{message.user_ref_num} {at} ({liquidity(message.liquidity_flag)}){left}"
        case ouch.Canceled():
            return f"canceled #{message.user_ref_num} {message.quantity:,} ({cancel_reason(message.reason)})"
        case ouch.AiqCanceled():
            return f"canceled #{message.user_ref_num} {message.decrement_shares:,} ({cancel_reason(message.reason)})"
        case ouch.Rejected():
            return f"rejected #{message.user_ref_num} {reject_reason(message.reason)}"
        case ouch.Modified():
            side = SIDES.get(message.side, message.side)
            return f"modified #{message.user_ref_num} {side}, {message.quantity:,} open"
        case ouch.BrokenTrade():
            return f"broken #{message.user_ref_num} trade {message.match_number} is void"
        case ouch.SystemEvent():
            return {"S": "the day begins", "E": "the day is over"}.get(message.event_code)
    return None
