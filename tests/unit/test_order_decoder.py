"""Order messages in: the compiled decoder against the message classes of the wire layer."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from order_desk import (
    FIRM,
    SYMBOLS,
    WAKE,
    Desk,
    cl_ord_id,
    command,
    enter,
    packets,
    replace,
)
from venue.engine import cells, counters, ring, system
from venue.engine import order_decoder as decoder
from venue.engine.order_decoder import BAD_MESSAGE, NEED_MORE, RING_FULL, SESSION
from venue.engine.records import (
    CANCEL,
    CANCEL_ALL,
    ENTER,
    MODIFY,
    NO_INSTRUMENT,
    QUERY,
    REPLACE,
)
from venue.wire import ouch
from venue.wire.layout import WireError
from venue.wire.ouch import RejectReason, Tag, TagValue
from venue.wire.soupbintcp import frame


@pytest.fixture
def desk() -> Desk:
    return Desk()


# --- what each message becomes --------------------------------------------------------------------------


def test_each_message_becomes_its_command(desk: Desk) -> None:
    data = packets(
        enter(7, side="E", quantity=999_999, price=2**64 - 1, time_in_force="5", capacity="O", cross_type="N"),
        replace(7, 9),
        ouch.CancelOrder(user_ref_num=9, quantity=100),
        ouch.ModifyOrder(user_ref_num=9, side="T", quantity=2**32 - 1),
        ouch.AccountQuery(),
    )
    assert desk.decode(data) == (NEED_MORE, len(data), 5)
    assert desk.take() == [
        command(
            ENTER,
            user_ref=7,
            side=ord("E"),
            quantity=999_999,
            price=-1,
            instrument=0,
            tif=ord("5"),
            display=ord("Y"),
            capacity=ord("O"),
            iso=ord("N"),
            cross=ord("N"),
            **cl_ord_id("first order 14"),
        ),
        command(
            REPLACE,
            user_ref=9,
            extra=7,
            quantity=700,
            price=1_896_000,
            tif=ord("3"),
            display=ord("A"),
            iso=ord("Y"),
            **cl_ord_id("second"),
        ),
        command(CANCEL, user_ref=9, quantity=100),
        command(MODIFY, user_ref=9, side=ord("T"), quantity=2**32 - 1),
        command(QUERY, ingress_ns=0),
    ]


def test_an_unknown_symbol_is_the_matchers_to_reject(desk: Desk) -> None:
    desk.decode(packets(enter(symbol="NOSUCH"), enter(symbol="MSFT"), enter(symbol="")))
    assert [each["instrument"] for each in desk.take()] == [NO_INSTRUMENT, 1, NO_INSTRUMENT]


def test_what_is_not_offered_comes_back_as_a_reject_naming_its_number(desk: Desk) -> None:
    data = packets(
        ouch.MassCancel(user_ref_num=4, firm=FIRM, symbol=""),
        ouch.DisableOrderEntry(user_ref_num=5, firm=FIRM),
        ouch.EnableOrderEntry(user_ref_num=6, firm=FIRM, appendage=(TagValue(Tag.SIDE, "B"),)),
    )
    assert desk.decode(data) == (NEED_MORE, len(data), 3)
    assert desk.take() == [command(ENTER, user_ref=number, detail=RejectReason.OTHER) for number in (4, 5, 6)]


OPTION_CASES = [
    (Tag.FIRM, "VNUE", 0),
    (Tag.FIRM, "", 0),
    (Tag.FIRM, "MLRO", RejectReason.FIRM_NOT_AUTHORIZED),
    (Tag.CUSTOMER_TYPE, "R", 0),
    (Tag.MAX_FLOOR, 0, 0),
    (Tag.MAX_FLOOR, 100, RejectReason.INVALID_MAX_FLOOR),
    (Tag.PRICE_TYPE, "L", 0),
    (Tag.PRICE_TYPE, "M", RejectReason.INVALID_PEG_TYPE),
    (Tag.PEG_OFFSET, 0, 0),
    (Tag.PEG_OFFSET, -100, RejectReason.PEGGING_NOT_ALLOWED),
    (Tag.DISCRETION_PRICE, 0, 0),
    (Tag.DISCRETION_PRICE, 1 << 63, RejectReason.PEGGING_NOT_ALLOWED),
    (Tag.DISCRETION_PRICE_TYPE, "L", 0),
    (Tag.DISCRETION_PRICE_TYPE, "P", RejectReason.PEGGING_NOT_ALLOWED),
    (Tag.DISCRETION_PEG_OFFSET, 1, RejectReason.PEGGING_NOT_ALLOWED),
    (Tag.POST_ONLY, "N", 0),
    (Tag.POST_ONLY, "P", RejectReason.OTHER),
    (Tag.RANDOM_RESERVES, 5, RejectReason.INVALID_MAX_FLOOR),
    (Tag.ROUTE, "", 0),
    (Tag.ROUTE, "SCAN", RejectReason.ROUTING_NOT_ALLOWED),
    (Tag.EXPIRE_TIME, 60, RejectReason.OTHER),
    (Tag.TRADE_NOW, "Y", 0),
    (Tag.TRADE_NOW, "?", RejectReason.OTHER),
    (Tag.HANDLE_INST, "", 0),
    (Tag.HANDLE_INST, "I", RejectReason.OTHER),
    (Tag.GROUP_ID, 65_535, 0),
    (Tag.SHARES_LOCATED, "Y", 0),
    (Tag.LOCATE_BROKER, "ABCD", 0),
    (Tag.SIDE, "S", RejectReason.INVALID_SIDE),
    (Tag.USER_REF_IDX, 0, 0),
    (Tag.USER_REF_IDX, 255, RejectReason.OTHER),
    (Tag.SECONDARY_ORD_REF_NUM, 1 << 63, RejectReason.OTHER),
    (Tag.BBO_WEIGHT_INDICATOR, "0", RejectReason.OTHER),
    (Tag.DISPLAY_QUANTITY, 0, RejectReason.OTHER),
    (Tag.DISPLAY_PRICE, 0, RejectReason.OTHER),
]


@pytest.mark.parametrize(("tag", "value", "reason"), OPTION_CASES)
def test_options_of_an_enter(desk: Desk, tag: Tag, value: int | str, reason: int) -> None:
    desk.decode(packets(enter(appendage=(TagValue(tag, value),))))
    (found,) = desk.take()
    assert (found["kind"], found["user_ref"], found["detail"]) == (ENTER, 1, reason)


def test_every_tag_has_a_case() -> None:
    assert {tag for tag, _, _ in OPTION_CASES} | {Tag.MIN_QTY} == set(Tag)


def test_the_first_option_that_is_not_accepted_gives_the_reason(desk: Desk) -> None:
    options = (TagValue(Tag.FIRM, "VNUE"), TagValue(Tag.POST_ONLY, "P"), TagValue(Tag.MAX_FLOOR, 1))
    desk.decode(packets(enter(appendage=options), enter(appendage=options[::-1])))
    assert [each["detail"] for each in desk.take()] == [RejectReason.OTHER, RejectReason.INVALID_MAX_FLOOR]


def test_a_minimum_quantity_goes_to_the_matcher(desk: Desk) -> None:
    minimum = (TagValue(Tag.MIN_QTY, 300),)
    desk.decode(packets(enter(appendage=minimum), replace(1, 2, minimum), replace(1, 2, (TagValue(Tag.MIN_QTY, 0),))))
    first, second, third = desk.take()
    assert (first["extra"], first["detail"]) == (300, 0)
    assert (second["extra"], second["detail"]) == (1, RejectReason.INVALID_MIN_QUANTITY)
    assert (third["extra"], third["detail"]) == (1, 0)


def test_the_side_of_a_replace_goes_to_the_matcher(desk: Desk) -> None:
    desk.decode(packets(replace(1, 2, (TagValue(Tag.SIDE, "T"),)), replace(2, 3)))
    assert [(each["side"], each["detail"]) for each in desk.take()] == [(ord("T"), 0), (0, 0)]


def test_another_channel_names_no_order_of_this_one(desk: Desk) -> None:
    channel = (TagValue(Tag.USER_REF_IDX, 2),)
    desk.decode(
        packets(
            replace(1, 2, channel),
            ouch.CancelOrder(user_ref_num=1, quantity=0, appendage=channel),
            ouch.ModifyOrder(user_ref_num=1, side="S", quantity=0, appendage=channel),
            ouch.CancelOrder(user_ref_num=1, quantity=0, appendage=(TagValue(Tag.USER_REF_IDX, 0),)),
        )
    )
    found = [(each["kind"], each["extra"] if each["kind"] == REPLACE else each["user_ref"]) for each in desk.take()]
    assert found == [(REPLACE, 0), (CANCEL, 0), (MODIFY, 0), (CANCEL, 1)]


BROKEN_OPTIONS = [b"\x01", b"\x03\x02VN", b"\x05\x02VNU", b"\x00\x02", b"\x05\x08VNUE", b"\xff\x02VNUE"]


@pytest.mark.parametrize("broken", BROKEN_OPTIONS)
def test_options_that_cannot_be_read(desk: Desk, broken: bytes) -> None:
    length = len(broken).to_bytes(2, "big")
    good = packets(ouch.AccountQuery())
    for message in (enter(5), replace(4, 5)):
        desk.decode(frame(b"U", message.encode()[:-2] + length + broken))
        (found,) = desk.take()
        assert (found["user_ref"], found["detail"]) == (5, RejectReason.OTHER)
    for change in (ouch.CancelOrder(user_ref_num=5, quantity=0), ouch.AccountQuery()):
        data = good + frame(b"U", change.encode() + length + broken)
        assert desk.decode(data) == (BAD_MESSAGE, len(good), 1)
        assert len(desk.take()) == 1


# --- packets --------------------------------------------------------------------------------------------


def test_heartbeats_and_debug_texts_are_passed_over(desk: Desk) -> None:
    data = frame(b"R") + frame(b"+", b"hello") + packets(enter()) + frame(b"+") + frame(b"R")
    assert desk.decode(data) == (NEED_MORE, len(data), 1)


@pytest.mark.parametrize(
    "packet",
    [frame(b"O"), frame(b"L", b"x" * 46), frame(b"S", b"x"), frame(b"R", b"x"), frame(b"?"), b"\0\0", b"\0\0U"],
    ids=repr,
)
def test_the_session_gets_what_is_not_an_order(desk: Desk, packet: bytes) -> None:
    before = packets(enter())
    assert desk.decode(before + packet + packets(enter(2))) == (SESSION, len(before), 1)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"?",
        b"O",
        b"o" + enter().encode()[1:],
        enter().encode()[:-1],
        enter().encode() + b"\0",
        enter().encode()[:-2] + b"\xff\xff",
        enter().encode()[:-2] + b"\0\1",
        replace(1, 2).encode()[:-1],
        ouch.CancelOrder(user_ref_num=1, quantity=0).encode() + b"\0",
        ouch.CancelOrder(user_ref_num=1, quantity=0).encode() + b"\0\1",
        ouch.MassCancel(user_ref_num=1, firm="", symbol="").encode()[:-1],
        b"Q\0\0\0",
    ],
    ids=repr,
)
def test_a_broken_message_stops_the_call_before_it(desk: Desk, payload: bytes) -> None:
    with pytest.raises(WireError):
        ouch.decode_inbound(payload)
    before = packets(enter())
    assert desk.decode(before + frame(b"U", payload) + packets(enter(2))) == (BAD_MESSAGE, len(before), 1)
    assert [each["user_ref"] for each in desk.take()] == [1]


def test_two_hundred_orders_in_one_chunk(desk: Desk) -> None:
    data = packets(*(enter(number) for number in range(1, 201)))
    assert desk.decode(data) == (NEED_MORE, len(data), 200)
    assert [each["user_ref"] for each in desk.take()] == list(range(1, 201))
    assert desk.gateway[0]["messages_in"][ord("O")] == 200
    assert desk.gateway[0]["bytes_in"] == len(data)
    assert cells.count(desk.histograms[counters.SOCKET_TO_RING]) == 200


def test_an_account_query_is_no_order_and_not_timed(desk: Desk) -> None:
    desk.decode(packets(enter(1), ouch.AccountQuery(), enter(2), ouch.AccountQuery()))
    assert [each["ingress_ns"] > 0 for each in desk.take()] == [True, False, True, False]
    assert cells.count(desk.histograms[counters.SOCKET_TO_RING]) == 2


def test_a_split_at_every_offset(desk: Desk) -> None:
    data = packets(enter(1), ouch.CancelOrder(user_ref_num=1, quantity=0)) + frame(b"R") + packets(replace(1, 2))
    desk.decode(data)
    whole = desk.take()
    for split in range(len(data) + 1):
        stop, used, _ = desk.decode(data[:split])
        assert stop == NEED_MORE
        assert desk.decode(data[used:])[0] == NEED_MORE
        assert desk.take() == whole, split


def test_byte_by_byte(desk: Desk) -> None:
    data = packets(enter(1), ouch.AccountQuery(), replace(1, 2)) + frame(b"+", b"text")
    at = 0
    for end in range(len(data) + 1):
        stop, used, _ = desk.decode(data, at, end)
        assert stop == NEED_MORE
        at += used
    assert at == len(data)
    assert [each["kind"] for each in desk.take()] == [ENTER, QUERY, REPLACE]


def test_a_full_ring_keeps_the_rest_for_later() -> None:
    desk = Desk(capacity=4)
    data = packets(*(enter(number) for number in range(1, 8)))
    stop, used, count = desk.decode(data)
    assert (stop, used, count) == (RING_FULL, len(data) * 4 // 7, 4)
    assert desk.decode(data, used) == (RING_FULL, 0, 0)
    assert [each["user_ref"] for each in desk.take()] == [1, 2, 3, 4]
    assert desk.decode(data, used) == (NEED_MORE, len(data) - used, 3)
    assert [each["user_ref"] for each in desk.take()] == [5, 6, 7]
    assert desk.gateway[0]["messages_in"][ord("O")] == 7


def test_a_sleeping_matcher_is_woken_once_a_chunk(desk: Desk) -> None:
    assert ring.park(desk.commands)
    desk.decode(packets(enter(1), enter(2)))
    scratch = np.zeros(2, np.int64)
    system.sleep(WAKE, 0, scratch)  # returns at once and takes the wake-up
    assert not ring.must_wake(desk.commands)


def test_commands_of_the_service_itself() -> None:
    desk = Desk(capacity=2)
    desk.decode(packets(enter(1)))
    assert decoder.submit(desk.inbound, CANCEL_ALL, 9, ord("Z"), 77, WAKE)
    assert not decoder.submit(desk.inbound, CANCEL_ALL, 9, ord("Z"), 78, WAKE)
    assert desk.take()[1] == command(CANCEL_ALL, account=9, detail=ord("Z"), time_ns=77, ingress_ns=0)


# --- anything at all ------------------------------------------------------------------------------------

OPTION = st.one_of(
    st.sampled_from([TagValue(tag, value) for tag, value, _ in OPTION_CASES]),
    st.builds(TagValue, st.just(Tag.MIN_QTY), st.integers(0, 2**32 - 1)),
)
NUMBER = st.integers(0, 2**32 - 1)
MESSAGE = st.one_of(
    st.builds(
        enter, NUMBER, st.lists(OPTION, max_size=4).map(tuple), side=st.sampled_from("BSTEx"), quantity=NUMBER,
        price=st.integers(0, 2**64 - 1), symbol=st.sampled_from([*SYMBOLS, "NONE"]),
        cl_ord_id=st.text("aZ0 \xff\0", max_size=14),
    ),
    st.builds(replace, NUMBER, NUMBER, st.lists(OPTION, max_size=4).map(tuple)),
    st.builds(ouch.CancelOrder, user_ref_num=NUMBER, quantity=NUMBER, appendage=st.sampled_from([None, ()])),
    st.just(ouch.AccountQuery()),
    st.builds(ouch.MassCancel, user_ref_num=NUMBER, firm=st.just("VNUE"), symbol=st.just("")),
)  # fmt: skip
PACKET = st.one_of(
    MESSAGE.map(lambda message: frame(b"U", message.encode())),
    st.binary(max_size=60).map(lambda payload: frame(b"U", payload)),
    st.tuples(st.sampled_from([b"R", b"+", b"O", b"L", b"S", b"x"]), st.binary(max_size=5)).map(lambda t: frame(*t)),
    st.binary(max_size=4),
)


@st.composite
def hostile(draw: st.DrawFn) -> bytes:
    """Good packets, bad packets, and a few bytes changed anywhere."""
    data = bytearray(b"".join(draw(st.lists(PACKET, max_size=6))))
    for _ in range(draw(st.integers(0, 3))):
        if data:
            data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    return bytes(data)


def expected_stop(data: bytes) -> tuple[int, int, list[int]]:
    """What the message classes say: why to stop, where, and the numbers of the messages before that."""
    at, numbers = 0, []
    while len(data) - at >= 2:
        length = int.from_bytes(data[at : at + 2], "big")
        if length == 0:
            return SESSION, at, numbers
        body = data[at + 2 : at + 2 + length]
        if len(body) < length:
            break
        if body[:1] == b"U":
            try:
                message = ouch.decode_inbound(body[1:])
            except WireError:
                message = without_options(body[1:])
            if message is None:
                return BAD_MESSAGE, at, numbers
            numbers.append(number_of(message))
        elif body[:1] != b"+" and body != b"R":
            return SESSION, at, numbers
        at += 2 + length
    return NEED_MORE, at, numbers


def without_options(payload: bytes) -> ouch.InboundMessage | None:
    """The message if only the options in it cannot be read and a Rejected can say so."""
    cls = ouch.INBOUND.get(payload[:1])
    if cls is None or payload[:1] in b"XMQ" or len(payload) < cls.layout.size:
        return None
    if len(payload) - cls.layout.size != int.from_bytes(payload[cls.layout.size - 2 : cls.layout.size], "big"):
        return None
    return ouch.decode_inbound(payload[: cls.layout.size - 2] + b"\0\0")


def number_of(message: ouch.InboundMessage) -> int:
    options = message.appendage or () if isinstance(message, ouch.CancelOrder | ouch.ModifyOrder) else ()
    if any(option.tag == Tag.USER_REF_IDX and option.value for option in options):
        return 0
    return getattr(message, "user_ref_num", 0)


@settings(max_examples=400, deadline=None)
@given(hostile(), st.integers(0, 400))
@example(b"\0\1U", 0)
@example(b"\0\2U\xff", 1)
@example(b"\xff\xffU", 2)
def test_hostile_bytes_stop_where_the_message_classes_say(data: bytes, split: int) -> None:
    stop, at, numbers = expected_stop(data)
    desk = Desk()
    assert desk.decode(data) == (stop, at, len(numbers))
    assert [each["user_ref"] for each in desk.take()] == numbers
    first, used, _ = desk.decode(data, 0, min(split, len(data)))  # and cut in two anywhere
    if first == NEED_MORE:
        second, more, _ = desk.decode(data, used)
        assert (second, used + more) == (stop, at)
    assert [each["user_ref"] for each in desk.take()] == numbers
