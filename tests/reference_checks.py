"""The naive exchange, at the door: why an order is refused. Reasons are OUCH 5.0 reject reasons."""

from typing import Final

from commands import Command
from reference_state import Order, State
from venue.engine.records import BUY, MARKET_PRICES, MAX_PRICE, MAX_QUANTITY, SELL
from venue.wire.ouch.codes import RejectReason

FINE: Final = 0


def is_market(price: int) -> bool:
    return price in MARKET_PRICES


def bad_detail(c: Command, instruments: int, original: Order | None = None) -> int:
    """The first thing wrong with an order as it is written down, an Enter or (with its original) a Replace."""
    entered = original is None
    if c.detail:
        return c.detail
    if not (c.side in b"BSTE" if original is None else _may_become(original, c.side)):
        return RejectReason.INVALID_SIDE
    if not 1 <= c.quantity <= MAX_QUANTITY:
        return RejectReason.INVALID_QUANTITY
    if entered and c.instrument >= instruments:
        return RejectReason.INVALID_SYMBOL
    if c.tif not in b"035":
        return RejectReason.OTHER
    if c.display not in b"YA":
        return RejectReason.INVALID_DISPLAY
    if c.iso not in b"YN":
        return RejectReason.ISO_NOT_ALLOWED
    if entered and c.cross != ord("N"):
        return RejectReason.INVALID_CROSS_ORDER
    if not is_market(c.price) and not (1 <= c.price <= MAX_PRICE and _on_tick(c.price)):
        return RejectReason.INVALID_PRICE
    if entered and (c.extra > c.quantity or (c.extra > 0 and c.tif != ord("3"))):
        return RejectReason.INVALID_MIN_QUANTITY
    return FINE


def _on_tick(price: int) -> bool:
    """A cent from 1.0000 on, any ten-thousandth below."""
    return price < 10_000 or price % 100 == 0


def _may_become(original: Order, side: int) -> bool:
    """A Replace keeps the side (0) or changes the kind of sale; it never turns a buyer into a seller."""
    return side == 0 or (side == ord("B") if original.side == BUY else side in b"STE")


def refusal(exchange: State, c: Command, original: Order | None = None) -> int:
    """The first reason why a well-formed Enter or Replace is not taken now, the market's first, then risk's."""
    instrument = c.instrument if original is None else original.instrument
    side = (BUY if c.side == ord("B") else SELL) if original is None else original.side
    book = exchange.books[instrument]
    if book.state != ord("T"):
        return RejectReason.HALTED
    opposite = book.queue(1 - side)
    if is_market(c.price) and not opposite:
        return RejectReason.QUOTE_UNAVAILABLE
    account = exchange.accounts[c.account]
    open = c.quantity - (original.spent if original else 0)
    if account.killed:
        return RejectReason.FIRM_NOT_AUTHORIZED
    if account.max_order_quantity and c.quantity > account.max_order_quantity:
        return RejectReason.RISK_MAX_QUANTITY
    if account.max_order_notional and _value(side, c.price, open, opposite) > account.max_order_notional:
        return RejectReason.RISK_SINGLE_ORDER_NOTIONAL
    if account.collar_bp and not is_market(c.price):
        anchors = [opposite[0].price] if opposite else []
        anchors += [book.last_price] if book.last_price else []
        if any(_outside(side, c.price, anchor, account.collar_bp) for anchor in anchors):
            return RejectReason.RISK_FAT_FINGER
    open_orders = len(exchange.live_orders(c.account))
    if original is None and 0 < account.max_open_orders <= open_orders:
        return RejectReason.SHARES_OVER_THRESHOLD
    if _over_position(exchange, c.account, instrument, side, open - (original.open if original else 0)):
        return RejectReason.RISK_AGGREGATE_EXPOSURE
    return _rate(exchange, c)


def _value(side: int, price: int, shares: int, opposite: list[Order]) -> int:
    """The most that an order could trade for: a sale at its limit or the touch, a market buy all that it takes."""
    if side == SELL:
        best = opposite[0].price if opposite else 0
        return (best if is_market(price) else max(best, price)) * shares
    if not is_market(price):
        return price * shares
    value = 0
    for order in opposite:
        met = min(shares, order.open)
        value, shares = value + met * order.price, shares - met
    return value


def _outside(side: int, price: int, anchor: int, collar_bp: int) -> bool:
    if side == BUY:
        return price * 10_000 > anchor * (10_000 + collar_bp)
    return price * 10_000 < anchor * (10_000 - collar_bp)


def _over_position(exchange: State, account: int, instrument: int, side: int, more: int) -> bool:
    """With `more` open shares on this side, all filled, the position would be beyond its limit."""
    limits = exchange.accounts[account]
    now = exchange.position(account, instrument)
    if side == BUY:
        return 0 < limits.max_long < now["position"] + now["open_buy"] + more
    return 0 < limits.max_short < -(now["position"] - now["open_sell"] - more)


def _rate(exchange: State, c: Command) -> int:
    """So many orders in any second: each is due its share of a second after the one before (GCRA)."""
    account = exchange.accounts[c.account]
    if account.max_orders_per_s:
        interval_ns = 1_000_000_000 // account.max_orders_per_s
        due_ns = max(account.rate_time_ns, c.time_ns)
        if due_ns + interval_ns - c.time_ns > 1_000_000_000:
            return RejectReason.RISK_PORT_RATE
        account.rate_time_ns = due_ns + interval_ns
    return FINE
