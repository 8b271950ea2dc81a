"""Nasdaq TotalView-ITCH 5.0 (revision of 2026-02-19; same layouts as 2023 and 2017): all 23 messages.

`timestamp` is nanoseconds since midnight, US Eastern. Prices are ticks of 1/10,000 USD, except the decline
levels of `MwcbDeclineLevel`, which are of 1/100,000,000 USD. These messages touch a book: A and F add, E, C and X
reduce, D removes, U replaces.
"""

from venue.wire.layout import (
    U2,
    U4,
    U6,
    U8,
    Alpha1,
    Alpha2,
    Alpha4,
    Alpha8,
    Bytes,
    Message,
    Price4,
    Price8x8,
    WireError,
)


class ItchMessage(Message):
    """The head that all messages share. `stock_locate` is assigned anew each day by StockDirectory; 0 = no stock."""

    stock_locate: U2
    tracking_number: U2
    timestamp: U6


class SystemEvent(ItchMessage, code=b"S"):
    event_code: Alpha1
    """O start of messages, S start of system hours, Q start of market hours, M end of market hours, E end of
    system hours, C end of messages."""


class StockDirectory(ItchMessage, code=b"R"):
    stock: Alpha8
    market_category: Alpha1
    financial_status_indicator: Alpha1
    round_lot_size: U4
    round_lots_only: Alpha1
    issue_classification: Alpha1
    issue_sub_type: Alpha2
    authenticity: Alpha1
    short_sale_threshold_indicator: Alpha1
    ipo_flag: Alpha1
    luld_reference_price_tier: Alpha1
    etp_flag: Alpha1
    etp_leverage_factor: U4
    inverse_indicator: Alpha1


class StockTradingAction(ItchMessage, code=b"H"):
    stock: Alpha8
    trading_state: Alpha1
    """H halted, P paused, Q quotation only, T trading."""
    reserved: Alpha1
    reason: Alpha4


class RegShoRestriction(ItchMessage, code=b"Y"):
    stock: Alpha8
    reg_sho_action: Alpha1
    """0 none, 1 restricted by an intraday drop, 2 the restriction remains."""


class MarketParticipantPosition(ItchMessage, code=b"L"):
    mpid: Alpha4
    stock: Alpha8
    primary_market_maker: Alpha1
    market_maker_mode: Alpha1
    market_participant_state: Alpha1


class MwcbDeclineLevel(ItchMessage, code=b"V"):
    level_1: Price8x8
    level_2: Price8x8
    level_3: Price8x8


class MwcbStatus(ItchMessage, code=b"W"):
    breached_level: Alpha1


class IpoQuotingPeriodUpdate(ItchMessage, code=b"K"):
    stock: Alpha8
    ipo_quotation_release_time: U4
    """Seconds since midnight."""
    ipo_quotation_release_qualifier: Alpha1
    ipo_price: Price4


class LuldAuctionCollar(ItchMessage, code=b"J"):
    stock: Alpha8
    auction_collar_reference_price: Price4
    upper_auction_collar_price: Price4
    lower_auction_collar_price: Price4
    auction_collar_extension: U4


class OperationalHalt(ItchMessage, code=b"h"):
    stock: Alpha8
    market_code: Alpha1
    operational_halt_action: Alpha1


class AddOrder(ItchMessage, code=b"A"):
    order_reference_number: U8
    buy_sell_indicator: Alpha1
    shares: U4
    stock: Alpha8
    price: Price4


class AddOrderMpid(ItchMessage, code=b"F"):
    order_reference_number: U8
    buy_sell_indicator: Alpha1
    shares: U4
    stock: Alpha8
    price: Price4
    attribution: Alpha4


class OrderExecuted(ItchMessage, code=b"E"):
    order_reference_number: U8
    executed_shares: U4
    match_number: U8


class OrderExecutedWithPrice(ItchMessage, code=b"C"):
    order_reference_number: U8
    executed_shares: U4
    match_number: U8
    printable: Alpha1
    """Y counts in the volume; N does not, because a later bulk print will."""
    execution_price: Price4


class OrderCancel(ItchMessage, code=b"X"):
    order_reference_number: U8
    cancelled_shares: U4
    """The amount taken off, not the amount left."""


class OrderDelete(ItchMessage, code=b"D"):
    order_reference_number: U8


class OrderReplace(ItchMessage, code=b"U"):
    original_order_reference_number: U8
    new_order_reference_number: U8
    shares: U4
    price: Price4


class Trade(ItchMessage, code=b"P"):
    """A trade against hidden interest: no displayed order changes."""

    order_reference_number: U8
    buy_sell_indicator: Alpha1
    shares: U4
    stock: Alpha8
    price: Price4
    match_number: U8


class CrossTrade(ItchMessage, code=b"Q"):
    shares: U8
    stock: Alpha8
    cross_price: Price4
    match_number: U8
    cross_type: Alpha1


class BrokenTrade(ItchMessage, code=b"B"):
    match_number: U8


class Noii(ItchMessage, code=b"I"):
    """Net Order Imbalance Indicator."""

    paired_shares: U8
    imbalance_shares: U8
    imbalance_direction: Alpha1
    stock: Alpha8
    far_price: Price4
    near_price: Price4
    current_reference_price: Price4
    cross_type: Alpha1
    price_variation_indicator: Alpha1


class Rpii(ItchMessage, code=b"N"):
    """Retail Price Improvement Indicator."""

    stock: Alpha8
    interest_flag: Alpha1


class DirectListing(ItchMessage, code=b"O"):
    """Direct Listing with Capital Raise Price Discovery."""

    stock: Alpha8
    open_eligibility_status: Alpha1
    minimum_allowable_price: Price4
    maximum_allowable_price: Price4
    near_execution_price: Price4
    near_execution_time: U8
    """Nanoseconds since midnight."""
    lower_price_range_collar: Price4
    upper_price_range_collar: Price4


MESSAGES: dict[bytes, type[ItchMessage]] = {cls.layout.code: cls for cls in ItchMessage.__subclasses__()}
"""Message class by type byte."""

SIZES: tuple[int, ...] = tuple(
    MESSAGES[bytes([code])].layout.size if bytes([code]) in MESSAGES else 0 for code in range(256)
)
"""Message size in bytes by type byte as a number; 0 = no such type."""


def decode(data: Bytes) -> ItchMessage:
    """The message in exactly these bytes. WireError for an unknown type, a wrong length, or nothing at all."""
    cls = MESSAGES.get(bytes(data[:1]))
    if cls is None:
        raise WireError(f"no ITCH message begins with {bytes(data[:1])!r}")
    return cls.decode(data)
