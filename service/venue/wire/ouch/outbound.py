"""OUCH 5.0 (2025, revision 1.04), exchange to client: carried in SoupBinTCP Sequenced Data."""

from venue.wire.layout import U2, U4, U8, Alpha1, Alpha4, Alpha8, Alpha14, Bytes, Price8x4, WireError
from venue.wire.ouch.message import Appendage, LaterAppendage, OuchMessage


class OutboundMessage(OuchMessage):
    """The head that all of the exchange's messages share."""

    timestamp: U8


class SystemEvent(OutboundMessage, code=b"S"):
    event_code: Alpha1
    """S start of day, E end of day."""


class Accepted(OutboundMessage, code=b"A"):
    user_ref_num: U4
    side: Alpha1
    quantity: U4
    symbol: Alpha8
    price: Price8x4
    time_in_force: Alpha1
    display: Alpha1
    order_reference_number: U8
    """The number that the ITCH feed uses for the order when it is displayed."""
    capacity: Alpha1
    intermarket_sweep_eligibility: Alpha1
    cross_type: Alpha1
    order_state: Alpha1
    """L live, D dead: accepted and at once canceled."""
    cl_ord_id: Alpha14
    appendage: Appendage = ()


class Replaced(OutboundMessage, code=b"U"):
    orig_user_ref_num: U4
    user_ref_num: U4
    side: Alpha1
    quantity: U4
    """Shares open now."""
    symbol: Alpha8
    price: Price8x4
    time_in_force: Alpha1
    display: Alpha1
    order_reference_number: U8
    capacity: Alpha1
    intermarket_sweep_eligibility: Alpha1
    cross_type: Alpha1
    order_state: Alpha1
    cl_ord_id: Alpha14
    appendage: Appendage = ()


class Canceled(OutboundMessage, code=b"C"):
    user_ref_num: U4
    quantity: U4
    """Shares just taken off, not what is left."""
    reason: Alpha1
    """A CancelReason."""
    appendage: LaterAppendage = None


class AiqCanceled(OutboundMessage, code=b"D"):
    """Taken off by self-match prevention (anti-internalization)."""

    user_ref_num: U4
    decrement_shares: U4
    reason: Alpha1
    quantity_prevented_from_trading: U4
    execution_price: Price8x4
    liquidity_flag: Alpha1
    aiq_strategy: Alpha1
    appendage: LaterAppendage = None


class Executed(OutboundMessage, code=b"E"):
    user_ref_num: U4
    quantity: U4
    """Shares just executed."""
    price: Price8x4
    liquidity_flag: Alpha1
    """A LiquidityFlag."""
    match_number: U8
    appendage: Appendage = ()


class BrokenTrade(OutboundMessage, code=b"B"):
    user_ref_num: U4
    match_number: U8
    reason: Alpha1
    cl_ord_id: Alpha14
    appendage: LaterAppendage = None


class Rejected(OutboundMessage, code=b"J"):
    user_ref_num: U4
    reason: U2
    """A RejectReason."""
    cl_ord_id: Alpha14
    appendage: LaterAppendage = None


class CancelPending(OutboundMessage, code=b"P"):
    user_ref_num: U4
    appendage: LaterAppendage = None


class CancelReject(OutboundMessage, code=b"I"):
    user_ref_num: U4
    appendage: LaterAppendage = None


class PriorityUpdate(OutboundMessage, code=b"T"):
    user_ref_num: U4
    price: Price8x4
    display: Alpha1
    order_reference_number: U8
    appendage: LaterAppendage = None


class Modified(OutboundMessage, code=b"M"):
    user_ref_num: U4
    side: Alpha1
    quantity: U4
    """Shares open now."""
    appendage: LaterAppendage = None


class Restated(OutboundMessage, code=b"R"):
    user_ref_num: U4
    reason: Alpha1
    """R the display of a reserve order was refreshed, P the displayed price changed."""
    appendage: Appendage = ()


class AccountQueryResponse(OutboundMessage, code=b"Q"):
    next_user_ref_num: U4
    appendage: LaterAppendage = None


class MassCancelResponse(OutboundMessage, code=b"X"):
    user_ref_num: U4
    firm: Alpha4
    symbol: Alpha8
    appendage: Appendage = ()


class DisableResponse(OutboundMessage, code=b"G"):
    user_ref_num: U4
    firm: Alpha4
    appendage: Appendage = ()


class EnableResponse(OutboundMessage, code=b"K"):
    user_ref_num: U4
    firm: Alpha4
    appendage: Appendage = ()


OUTBOUND: dict[bytes, type[OutboundMessage]] = {cls.layout.code: cls for cls in OutboundMessage.__subclasses__()}
"""Message class by type byte."""


def decode_outbound(data: Bytes) -> OutboundMessage:
    """The exchange's message in exactly these bytes. WireError with the reason for anything else."""
    cls = OUTBOUND.get(bytes(data[:1]))
    if cls is None:
        raise WireError(f"no OUCH message from the exchange begins with {bytes(data[:1])!r}")
    return cls.decode(data)
