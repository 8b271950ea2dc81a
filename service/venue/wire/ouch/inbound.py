"""OUCH 5.0 (2025, revision 1.04), client to exchange: carried in SoupBinTCP Unsequenced Data."""

from venue.wire.layout import U4, Alpha1, Alpha4, Alpha8, Alpha14, Bytes, Price8x4, WireError
from venue.wire.ouch.message import Appendage, LaterAppendage, OuchMessage


class InboundMessage(OuchMessage):
    """A client's message. `user_ref_num` names the order: unique and rising through the day, from 1."""


class EnterOrder(InboundMessage, code=b"O"):
    user_ref_num: U4
    side: Alpha1
    """B buy, S sell, T sell short, E sell short exempt."""
    quantity: U4
    symbol: Alpha8
    price: Price8x4
    """The limit; 200,000.0000 or 0x7FFFFFFF = a market order for a cross."""
    time_in_force: Alpha1
    """0 day, 3 immediate or cancel, 5 extended hours, 6 until ExpireTime, E after hours."""
    display: Alpha1
    capacity: Alpha1
    intermarket_sweep_eligibility: Alpha1
    cross_type: Alpha1
    cl_ord_id: Alpha14
    """Echoed, never checked."""
    appendage: Appendage = ()


class ReplaceOrder(InboundMessage, code=b"U"):
    orig_user_ref_num: U4
    user_ref_num: U4
    quantity: U4
    """The total for the whole chain, shares already executed included."""
    price: Price8x4
    time_in_force: Alpha1
    display: Alpha1
    intermarket_sweep_eligibility: Alpha1
    cl_ord_id: Alpha14
    appendage: Appendage = ()


class CancelOrder(InboundMessage, code=b"X"):
    user_ref_num: U4
    quantity: U4
    """The new intended size of the order, 0 = cancel all."""
    appendage: LaterAppendage = None


class ModifyOrder(InboundMessage, code=b"M"):
    user_ref_num: U4
    side: Alpha1
    quantity: U4
    appendage: LaterAppendage = None


class AccountQuery(InboundMessage, code=b"Q"):
    appendage: LaterAppendage = None


class MassCancel(InboundMessage, code=b"C"):
    user_ref_num: U4
    firm: Alpha4
    symbol: Alpha8
    """Blank = all."""
    appendage: Appendage = ()


class DisableOrderEntry(InboundMessage, code=b"D"):
    user_ref_num: U4
    firm: Alpha4
    appendage: Appendage = ()


class EnableOrderEntry(InboundMessage, code=b"E"):
    user_ref_num: U4
    firm: Alpha4
    appendage: Appendage = ()


INBOUND: dict[bytes, type[InboundMessage]] = {cls.layout.code: cls for cls in InboundMessage.__subclasses__()}
"""Message class by type byte."""


def decode_inbound(data: Bytes) -> InboundMessage:
    """The client's message in exactly these bytes. WireError with the reason for anything else."""
    cls = INBOUND.get(bytes(data[:1]))
    if cls is None:
        raise WireError(f"no OUCH message from a client begins with {bytes(data[:1])!r}")
    return cls.decode(data)
