"""Which optional attributes (TagValues of the Optional Appendage) an order may carry here.

What has no meaning on this exchange is accepted and ignored; what would change how the order trades is rejected with
its reason, since an order must never trade in another way than its owner wrote.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from venue.engine.atomics import load_be16, load_be32, load_be64
from venue.engine.kernel import verb
from venue.engine.records import Array
from venue.wire.ouch import KINDS, RejectReason, Tag

OTHER: Final = int(RejectReason.OTHER)
MIN_QUANTITY_REASON: Final = int(RejectReason.INVALID_MIN_QUANTITY)
SIDE_REASON: Final = int(RejectReason.INVALID_SIDE)

EVERY: Final = None
BLANK4: Final = int.from_bytes(b"    ", "big")
OPTIONS: Final[dict[Tag, tuple[tuple[int, ...] | None, int]]] = {
    # tag: (the values that are accepted, the reject reason of the others)
    Tag.FIRM: ((BLANK4,), RejectReason.FIRM_NOT_AUTHORIZED),  # and the account's own
    Tag.MIN_QTY: (EVERY, MIN_QUANTITY_REASON),  # the matcher judges it; in Replace only 0
    Tag.CUSTOMER_TYPE: (EVERY, OTHER),
    Tag.MAX_FLOOR: ((0,), RejectReason.INVALID_MAX_FLOOR),
    Tag.PRICE_TYPE: ((ord("L"),), RejectReason.INVALID_PEG_TYPE),
    Tag.PEG_OFFSET: ((0,), RejectReason.PEGGING_NOT_ALLOWED),
    Tag.DISCRETION_PRICE: ((0,), RejectReason.PEGGING_NOT_ALLOWED),
    Tag.DISCRETION_PRICE_TYPE: ((ord("L"), ord(" ")), RejectReason.PEGGING_NOT_ALLOWED),
    Tag.DISCRETION_PEG_OFFSET: ((0,), RejectReason.PEGGING_NOT_ALLOWED),
    Tag.POST_ONLY: ((ord("N"), ord(" ")), OTHER),
    Tag.RANDOM_RESERVES: ((0,), RejectReason.INVALID_MAX_FLOOR),
    Tag.ROUTE: ((BLANK4,), RejectReason.ROUTING_NOT_ALLOWED),
    Tag.EXPIRE_TIME: ((0,), OTHER),
    Tag.TRADE_NOW: ((ord("Y"), ord("N"), ord(" ")), OTHER),  # what crosses trades at once in any case
    Tag.HANDLE_INST: ((ord(" "),), OTHER),
    Tag.GROUP_ID: (EVERY, OTHER),  # only mass cancels look at it
    Tag.SHARES_LOCATED: (EVERY, OTHER),
    Tag.LOCATE_BROKER: (EVERY, OTHER),
    Tag.SIDE: (EVERY, SIDE_REASON),  # the matcher judges it; in Enter there is a side already
    Tag.USER_REF_IDX: ((0,), OTHER),  # there is one channel only
}
"""A tag that is not in here is one that only the exchange sends: rejected as ``OTHER`` whatever its value."""

SIZE: Final = np.zeros(256, np.int64)  # bytes of the value; 0 = no such tag
REASON: Final = np.full(256, OTHER, np.int64)
ACCEPTS_EVERY: Final = np.zeros(256, np.bool_)
ACCEPTED_COUNT: Final = np.zeros(256, np.int64)
ACCEPTED: Final = np.zeros((256, max(len(values or ()) for values, _ in OPTIONS.values())), np.int64)
for _tag, _kind in KINDS.items():
    SIZE[_tag] = _kind.size
for _tag, (_values, _reason) in OPTIONS.items():
    REASON[_tag] = _reason
    ACCEPTS_EVERY[_tag] = _values is EVERY
    ACCEPTED_COUNT[_tag] = len(_values or ())
    ACCEPTED[_tag, : len(_values or ())] = _values or ()

FIRM, MIN_QTY, SIDE, USER_REF_IDX = (int(tag) for tag in (Tag.FIRM, Tag.MIN_QTY, Tag.SIDE, Tag.USER_REF_IDX))
ELEMENT_HEAD_BYTES: Final = 2


@verb
def value_of(data: Array, at: int, size: int) -> int:
    """The value of an option as a number, whatever it means."""
    if size == 1:
        return int(data[at])
    if size == 2:
        return load_be16(data, at)
    return load_be32(data, at) if size == 4 else load_be64(data, at)


@verb
def is_accepted(tag: int, value: int, firm: int) -> bool:
    """Whether an order may carry this; ``firm`` is the account's, as a number."""
    accepted = bool(ACCEPTS_EVERY[tag]) or (tag == FIRM and value == firm)
    for place in range(ACCEPTED_COUNT[tag]):
        accepted = accepted or ACCEPTED[tag, place] == value
    return accepted


@verb
def read_options(data: Array, start: int, end: int, firm: int) -> tuple[int, int, int, int, bool]:
    """The options in ``data[start:end]``: the reason of the first that is not accepted (0 = none), MinQty, Side,
    UserRefIdx (0 = not there), and whether all could be read (known tags of their right size)."""
    reason, minimum, side, channel = 0, 0, 0, 0
    at = start
    while at < end:
        if end - at < ELEMENT_HEAD_BYTES:
            return reason, minimum, side, channel, False
        tag = int(data[at + 1])
        size = int(SIZE[tag])
        if size == 0 or int(data[at]) != 1 + size or end - at < ELEMENT_HEAD_BYTES + size:
            return reason, minimum, side, channel, False
        value = value_of(data, at + ELEMENT_HEAD_BYTES, size)
        if tag == MIN_QTY:
            minimum = value
        elif tag == SIDE:
            side = value
        elif tag == USER_REF_IDX:
            channel = value
        if reason == 0 and not is_accepted(tag, value, firm):
            reason = int(REASON[tag])
        at += ELEMENT_HEAD_BYTES + size
    return reason, minimum, side, channel, True
