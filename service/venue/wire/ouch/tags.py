"""OUCH 5.0 optional attributes: `[uint8 length][uint8 tag][value]`, the length counting tag and value."""

from enum import IntEnum
from typing import NamedTuple

from venue.wire.layout import Bytes, Kind, WireError, alpha, uint


class Tag(IntEnum):
    """Numbers 8 and 19 to 21 are not used."""

    SECONDARY_ORD_REF_NUM = 1
    FIRM = 2
    MIN_QTY = 3
    CUSTOMER_TYPE = 4
    MAX_FLOOR = 5
    PRICE_TYPE = 6
    PEG_OFFSET = 7
    DISCRETION_PRICE = 9
    DISCRETION_PRICE_TYPE = 10
    DISCRETION_PEG_OFFSET = 11
    POST_ONLY = 12
    RANDOM_RESERVES = 13
    ROUTE = 14
    EXPIRE_TIME = 15
    TRADE_NOW = 16
    HANDLE_INST = 17
    BBO_WEIGHT_INDICATOR = 18
    DISPLAY_QUANTITY = 22
    DISPLAY_PRICE = 23
    GROUP_ID = 24
    SHARES_LOCATED = 25
    LOCATE_BROKER = 26
    SIDE = 27
    USER_REF_IDX = 28


class TagValue(NamedTuple):
    """One attribute: text for the alpha tags, an integer for the others (prices in ticks of 1/10,000 USD)."""

    tag: Tag
    value: int | str


def _unpack_signed4(raw: bytes) -> int:
    return int.from_bytes(raw, "big", signed=True)


def _pack_signed4(value: int) -> bytes:
    return value.to_bytes(4, "big", signed=True)


_U1, _U2, _U4, _U8 = uint(1), uint(2), uint(4), uint(8)
_CHAR, _ALPHA4 = alpha(1), alpha(4)
_PRICE8 = uint(8, "price(4)")
_OFFSET4 = Kind("signed price(4)", 4, "4s", ">i4", _unpack_signed4, _pack_signed4)

KINDS: dict[Tag, Kind] = {
    Tag.SECONDARY_ORD_REF_NUM: _U8,
    Tag.FIRM: _ALPHA4,
    Tag.MIN_QTY: _U4,
    Tag.CUSTOMER_TYPE: _CHAR,
    Tag.MAX_FLOOR: _U4,
    Tag.PRICE_TYPE: _CHAR,
    Tag.PEG_OFFSET: _OFFSET4,
    Tag.DISCRETION_PRICE: _PRICE8,
    Tag.DISCRETION_PRICE_TYPE: _CHAR,
    Tag.DISCRETION_PEG_OFFSET: _OFFSET4,
    Tag.POST_ONLY: _CHAR,
    Tag.RANDOM_RESERVES: _U4,
    Tag.ROUTE: _ALPHA4,
    Tag.EXPIRE_TIME: _U4,
    Tag.TRADE_NOW: _CHAR,
    Tag.HANDLE_INST: _CHAR,
    Tag.BBO_WEIGHT_INDICATOR: _CHAR,
    Tag.DISPLAY_QUANTITY: _U4,
    Tag.DISPLAY_PRICE: _PRICE8,
    Tag.GROUP_ID: _U2,
    Tag.SHARES_LOCATED: _CHAR,
    Tag.LOCATE_BROKER: _ALPHA4,
    Tag.SIDE: _CHAR,
    Tag.USER_REF_IDX: _U1,
}
"""What the value of each tag looks like."""


def encode_appendage(appendage: tuple[TagValue, ...]) -> bytes:
    """The elements one after the other, without a length before them. WireError for a value that does not fit."""
    parts = []
    for tag, value in appendage:
        kind = KINDS.get(tag)
        if kind is None:
            raise WireError(f"there is no option tag {tag!r}")
        try:
            raw = kind.pack(value) if kind.pack else value.to_bytes(kind.size, "big")  # type: ignore[union-attr]
        except (ValueError, OverflowError, AttributeError, TypeError):
            need = f"it is {kind.name}, {kind.size} bytes"
            raise WireError(f"option {Tag(tag).name} cannot be {value!r}: {need}") from None
        parts += [bytes([1 + kind.size, tag]), raw]
    return b"".join(parts)


def decode_appendage(data: Bytes) -> tuple[TagValue, ...]:
    """All elements, in order. WireError for an unknown tag, a length other than the tag's, or half an element."""
    elements, start = [], 0
    while start < len(data):
        if start + 2 > len(data):
            raise WireError("the appendage ends inside an element")
        length, number = data[start], data[start + 1]
        try:
            tag = Tag(number)
        except ValueError:
            raise WireError(f"there is no option tag {number}") from None
        kind = KINDS[tag]
        if length != 1 + kind.size:
            raise WireError(f"option {tag.name} has length {1 + kind.size}, not {length}")
        start += 2
        raw = bytes(data[start : start + kind.size])
        if len(raw) < kind.size:
            raise WireError(f"the appendage ends inside option {tag.name}")
        elements.append(TagValue(tag, kind.unpack(raw) if kind.unpack else int.from_bytes(raw, "big")))
        start += kind.size
    return tuple(elements)
