"""OUCH 5.0: real messages field by field, and the rules of the appendage."""

from typing import Any

import pytest

from venue.wire import ouch
from venue.wire.layout import WireError
from venue.wire.ouch import Tag, TagValue


def unhex(text: str) -> bytes:
    return bytes.fromhex(text.replace(" ", ""))


ENTER = unhex(
    "4f 00000071 54 000000e1 43564c5420202020 0000000000099db8 30 59 41 4e 4e"
    "4838465542384956202020202020 0006 05024c494d45"
)
ACCEPTED = unhex(
    "41 0000289b4d64af87 00753a8d 42 00000028 4144424520202020 000000000048e748 35 59 000000000f56b4f5"
    "41 4e 4e 4c 3736383237303120202020202020 0009 05024d4c524f 021230"
)
CANCELED = unhex("43 0000289b4d681317 00753a8d 00000028 55")
CANCEL = unhex("58 00752e71 00000000")


def test_a_real_enter_order() -> None:
    message = ouch.EnterOrder(
        user_ref_num=113,
        side="T",
        quantity=225,
        symbol="CVLT",
        price=63_0200,
        time_in_force="0",
        display="Y",
        capacity="A",
        intermarket_sweep_eligibility="N",
        cross_type="N",
        cl_ord_id="H8FUB8IV",
        appendage=(TagValue(Tag.FIRM, "LIME"),),
    )
    assert ouch.decode_inbound(ENTER) == message
    assert message.encode() == ENTER


def test_a_real_accepted() -> None:
    hours, minutes, seconds = 12, 24, 7
    message = ouch.Accepted(
        timestamp=((hours * 60 + minutes) * 60 + seconds) * 10**9 + 483_486_087,
        user_ref_num=7682701,
        side="B",
        quantity=40,
        symbol="ADBE",
        price=477_7800,
        time_in_force="5",
        display="Y",
        order_reference_number=257340661,
        capacity="A",
        intermarket_sweep_eligibility="N",
        cross_type="N",
        order_state="L",
        cl_ord_id="7682701",
        appendage=(TagValue(Tag.FIRM, "MLRO"), TagValue(Tag.BBO_WEIGHT_INDICATOR, "0")),
    )
    assert ouch.decode_outbound(ACCEPTED) == message
    assert message.encode() == ACCEPTED


def test_a_real_cancel_and_canceled() -> None:
    assert ouch.decode_inbound(CANCEL) == ouch.CancelOrder(user_ref_num=7679601, quantity=0)
    assert ouch.decode_outbound(CANCELED) == ouch.Canceled(
        timestamp=44647483708183, user_ref_num=7682701, quantity=40, reason=ouch.CancelReason.USER
    )
    assert ouch.decode_inbound(CANCEL).encode() == CANCEL
    assert ouch.decode_outbound(CANCELED).encode() == CANCELED


WITH_LATER_APPENDAGE = [
    (ouch.INBOUND, "X9 M10 Q1"),
    (ouch.OUTBOUND, "C18 D32 B36 J29 P13 I13 T30 M18 Q13"),
]


@pytest.mark.parametrize(
    ("classes", "code", "size"),
    [(classes, w[:1].encode(), int(w[1:])) for classes, words in WITH_LATER_APPENDAGE for w in words.split()],
)
def test_an_appendage_that_came_later_may_be_absent_empty_or_there(
    classes: dict[bytes, type[ouch.OuchMessage]], code: bytes, size: int
) -> None:
    cls: Any = classes[code]
    fixed = code + bytes(size - 1)
    index = TagValue(Tag.USER_REF_IDX, 3)
    assert cls.decode(fixed).appendage is None
    assert cls.decode(fixed + b"\0\0").appendage == ()
    assert cls.decode(fixed + b"\0\3\2\x1c\3").appendage == (index,)
    for data in (fixed, fixed + b"\0\0", fixed + b"\0\3\2\x1c\3"):
        assert cls.decode(data).encode() == data
    for bad in (fixed[:-1], fixed + b"\0", fixed + b"\0\3\2\x1c", fixed + b"\0\3\2\x1c\3\0", fixed + b"\0\0\0"):
        with pytest.raises(WireError):
            cls.decode(bad)


def test_every_other_message_has_an_appendage_from_the_start_except_the_system_event() -> None:
    later = {(id(classes), word[:1]) for classes, words in WITH_LATER_APPENDAGE for word in words.split()}
    for classes in (ouch.INBOUND, ouch.OUTBOUND):
        for code, cls in classes.items():
            counted = "appendage_length" in [field.name for field in cls.layout.fields]
            assert counted == ((id(classes), code.decode()) not in later and cls is not ouch.SystemEvent)
    with pytest.raises(WireError):
        ouch.SystemEvent.decode(b"S" + bytes(9) + b"\0\0")


# Tag, value, element on the wire: reference of the 2025 revision, section "TagValue".
ELEMENTS = [
    (Tag.SECONDARY_ORD_REF_NUM, 2**62, "09 01 4000000000000000"),
    (Tag.FIRM, "AB", "05 02 41422020"),
    (Tag.MIN_QTY, 100, "05 03 00000064"),
    (Tag.CUSTOMER_TYPE, "R", "02 04 52"),
    (Tag.MAX_FLOOR, 300, "05 05 0000012c"),
    (Tag.PRICE_TYPE, "m", "02 06 6d"),
    (Tag.PEG_OFFSET, -100, "05 07 ffffff9c"),
    (Tag.DISCRETION_PRICE, 2**40, "09 09 0000010000000000"),
    (Tag.DISCRETION_PRICE_TYPE, "L", "02 0a 4c"),
    (Tag.DISCRETION_PEG_OFFSET, 2**31 - 1, "05 0b 7fffffff"),
    (Tag.POST_ONLY, "P", "02 0c 50"),
    (Tag.RANDOM_RESERVES, 2**32 - 1, "05 0d ffffffff"),
    (Tag.ROUTE, "SCAN", "05 0e 5343414e"),
    (Tag.EXPIRE_TIME, 86399, "05 0f 0001517f"),
    (Tag.TRADE_NOW, "Y", "02 10 59"),
    (Tag.HANDLE_INST, "I", "02 11 49"),
    (Tag.BBO_WEIGHT_INDICATOR, "", "02 12 20"),
    (Tag.DISPLAY_QUANTITY, 1, "05 16 00000001"),
    (Tag.DISPLAY_PRICE, 1, "09 17 0000000000000001"),
    (Tag.GROUP_ID, 65535, "03 18 ffff"),
    (Tag.SHARES_LOCATED, "Y", "02 19 59"),
    (Tag.LOCATE_BROKER, "LOCA", "05 1a 4c4f4341"),
    (Tag.SIDE, "T", "02 1b 54"),
    (Tag.USER_REF_IDX, 255, "02 1c ff"),
]


@pytest.mark.parametrize(("tag", "value", "wire"), ELEMENTS, ids=lambda x: x.name if isinstance(x, Tag) else None)
def test_each_tag(tag: Tag, value: int | str, wire: str) -> None:
    assert ouch.encode_appendage((TagValue(tag, value),)) == unhex(wire)
    assert ouch.decode_appendage(unhex(wire)) == (TagValue(tag, value),)


def test_the_list_of_tags_is_complete() -> None:
    assert [tag for tag, _, _ in ELEMENTS] == list(Tag) == list(ouch.KINDS)
    assert sorted(Tag) == [*range(1, 8), *range(9, 19), *range(22, 29)]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ("02", "the appendage ends inside an element"),
        ("02 1c", "the appendage ends inside option USER_REF_IDX"),
        ("05 02 414243", "the appendage ends inside option FIRM"),
        ("02 08 00", "there is no option tag 8"),
        ("02 ff 00", "there is no option tag 255"),
        ("00 02", "option FIRM has length 5, not 0"),
        ("04 02 41424344", "option FIRM has length 5, not 4"),
        ("ff 1c 00", "option USER_REF_IDX has length 2, not 255"),
    ],
)
def test_options_that_are_none(data: str, reason: str) -> None:
    options = unhex(data)
    with pytest.raises(WireError) as error:
        ouch.decode_appendage(options)
    assert str(error.value) == reason
    with pytest.raises(WireError):
        ouch.decode_inbound(ENTER[:45] + len(options).to_bytes(2, "big") + options)


@pytest.mark.parametrize(
    ("tag", "value", "reason"),
    [
        (Tag.FIRM, "ABCDE", "option FIRM cannot be 'ABCDE': it is alpha, 4 bytes"),
        (Tag.FIRM, 5, "option FIRM cannot be 5: it is alpha, 4 bytes"),
        (Tag.MIN_QTY, -1, "option MIN_QTY cannot be -1: it is uint, 4 bytes"),
        (Tag.PEG_OFFSET, 2**31, "option PEG_OFFSET cannot be 2147483648: it is signed price(4), 4 bytes"),
        (Tag.GROUP_ID, "1", "option GROUP_ID cannot be '1': it is uint, 2 bytes"),
        (8, 1, "there is no option tag 8"),
    ],
)
def test_options_that_do_not_fit(tag: Tag, value: int | str, reason: str) -> None:
    with pytest.raises(WireError) as error:
        ouch.CancelOrder(user_ref_num=1, quantity=0, appendage=(TagValue(tag, value),)).encode()
    assert str(error.value) == reason


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (ENTER[:46], "EnterOrder needs 47 bytes, not 46"),
        (ENTER[:-1], "EnterOrder promises 6 bytes of options, but 5 follow"),
        (ENTER + b"\0", "EnterOrder promises 6 bytes of options, but 7 follow"),
        (ENTER[:45] + b"\xff\xff" + ENTER[47:], "EnterOrder promises 65535 bytes of options, but 6 follow"),
        (ENTER[:45], "EnterOrder needs 47 bytes, not 45"),
        (CANCEL + b"\0", "CancelOrder ends inside the length of its options"),
    ],
)
def test_a_length_that_does_not_add_up(data: bytes, reason: str) -> None:
    with pytest.raises(WireError) as error:
        ouch.decode_inbound(data)
    assert str(error.value) == reason


def test_options_beyond_what_the_length_can_say() -> None:
    options = (TagValue(Tag.SIDE, "B"),) * 30000
    with pytest.raises(WireError, match="cannot carry 90000 bytes"):
        ouch.CancelOrder(user_ref_num=1, quantity=0, appendage=options).encode()


def test_reject_reasons_are_the_documents_numbers() -> None:
    assert sorted(ouch.RejectReason) == [*range(0x01, 0x34)]
    assert ouch.RejectReason.INVALID_SYMBOL == 0x17
    assert "".join(sorted(ouch.CancelReason)) == "DEFGHIKQSTUXZe"
    assert set("ARJkmN78OMCLHKin0eujpqrt1") == set(ouch.LiquidityFlag)
