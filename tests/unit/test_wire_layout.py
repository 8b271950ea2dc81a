"""Every message table against an independently made list, and what a table refuses."""

import json
import re

import msgspec
import numpy as np
import pytest

from shared import SHARED_DATA, needs_shared
from venue.wire import itch, ouch
from venue.wire.layout import U2, U6, Alpha4, Message, WireError

GROUPS = {"ITCH": itch.MESSAGES, "O50_IN": ouch.INBOUND, "O50_OUT": ouch.OUTBOUND}
ALL_CLASSES = [cls for classes in GROUPS.values() for cls in classes.values()]

# Type byte and length of each message, from the documents' own overviews.
ITCH_SIZES = "S12 R39 H25 Y20 L26 V35 W12 K28 J35 h21 A36 F40 E31 C36 X23 D19 U35 P44 Q40 B19 I50 N20 O48"
INBOUND_SIZES = "O47 U40 X9 M10 Q1 C19 D11 E11"
OUTBOUND_SIZES = "S10 A64 U68 C18 D32 E36 B36 J29 P13 I13 T30 M18 R16 Q13 X27 G19 K19"


class Sample(Message, code=b"z"):
    number: U2
    moment: U6
    name: Alpha4


def plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def entries() -> list[tuple[str, str, dict]]:
    path = SHARED_DATA.parent / "reference" / "wire-layouts.json"
    if not path.is_file():
        return []
    layouts = json.loads(path.read_text())
    return [(group, code, entry) for group in GROUPS for code, entry in layouts[group].items()]


@needs_shared
@pytest.mark.parametrize(("group", "code", "entry"), [pytest.param(*e, id=f"{e[0]}-{e[1]}") for e in entries()])
def test_table_equals_the_independent_list(group: str, code: str, entry: dict) -> None:
    layout = GROUPS[group][code.encode()].layout
    listed = [field for field in entry["fields"] if field["type"] != "bytes"]
    assert layout.size == entry["fixed_length"]
    assert [(plain(field.name), field.offset, field.size, field.kind.name) for field in layout.fields] == [
        (plain(field["name"]), field["offset"], field["length"], field["type"]) for field in listed
    ]


@needs_shared
def test_the_independent_list_and_ours_have_the_same_messages() -> None:
    listed = {(group, code) for group, code, _ in entries()}
    assert listed == {(group, code.decode()) for group, classes in GROUPS.items() for code in classes}


@pytest.mark.parametrize(
    ("classes", "sizes"), [(itch.MESSAGES, ITCH_SIZES), (ouch.INBOUND, INBOUND_SIZES), (ouch.OUTBOUND, OUTBOUND_SIZES)]
)
def test_every_type_is_there_with_its_length(classes: dict[bytes, type[Message]], sizes: str) -> None:
    expected = {word[:1].encode(): int(word[1:]) for word in sizes.split()}
    assert {code: cls.layout.size for code, cls in classes.items()} == expected


def test_sizes_by_type_byte() -> None:
    assert len(itch.SIZES) == 256
    assert {chr(code): size for code, size in enumerate(itch.SIZES) if size} == {
        word[:1]: int(word[1:]) for word in ITCH_SIZES.split()
    }


@pytest.mark.parametrize("cls", ALL_CLASSES, ids=lambda cls: f"{cls.__module__}.{cls.__name__}")
def test_dtype_and_offsets_describe_the_bytes(cls: type[Message]) -> None:
    """Bytes 0, 1, 2, … seen through the dtype and through the offsets are the same bytes."""
    layout = cls.layout
    rows = np.frombuffer(bytes(range(layout.size)), layout.dtype)
    assert layout.dtype.itemsize == layout.size
    assert layout.dtype.names[1:] == tuple(field.name for field in layout.fields)
    for field in layout.fields:
        assert field.offset == layout.offset(field.name)
        assert rows[field.name].tobytes() == bytes(range(field.offset, field.offset + field.size))


def test_a_message_reads_well_and_compares_by_value() -> None:
    message = Sample(number=7, moment=2**47, name="AB")
    assert repr(message) == "Sample(number=7, moment=140737488355328, name='AB')"
    assert message == Sample(number=7, moment=2**47, name="AB") != Sample(number=8, moment=2**47, name="AB")
    assert message.encode() == b"z\0\7\x80\0\0\0\0\0AB  "
    with pytest.raises(AttributeError):
        message.number = 8  # type: ignore[misc]


def test_only_spaces_on_the_right_are_padding() -> None:
    for raw in (b"AB  ", b" AB ", b"AB\0\0", b"\0\0\0\0", b"    ", b"\xff\xfe\n "):
        data = b"z" + bytes(8) + raw
        assert Sample.decode(data).name == raw.decode("latin-1").rstrip(" ")
        assert Sample.decode(data).encode() == data


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"number": -1}, "Sample.number cannot be -1: it is uint, 2 bytes"),
        ({"number": 65536}, "Sample.number cannot be 65536: it is uint, 2 bytes"),
        ({"number": 1.0}, "Sample.number cannot be 1.0: it is uint, 2 bytes"),
        ({"moment": 2**48}, "Sample.moment cannot be 281474976710656: it is uint, 6 bytes"),
        ({"moment": "now"}, "Sample.moment cannot be 'now': it is uint, 6 bytes"),
        ({"name": "ABCDE"}, "Sample.name takes 4 characters at most, not 5"),
        ({"name": "€"}, "Sample.name cannot be '€': it is alpha, 4 bytes"),
        ({"name": None}, "Sample.name cannot be None: it is alpha, 4 bytes"),
    ],
)
def test_a_value_that_does_not_fit_is_named(change: dict, reason: str) -> None:
    message = msgspec.structs.replace(Sample(number=1, moment=2, name="A"), **change)
    with pytest.raises(WireError) as error:
        message.encode()
    assert str(error.value) == reason


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "Sample has 13 bytes, not 0"),
        (b"z" + bytes(11), "Sample has 13 bytes, not 12"),
        (b"z" + bytes(13), "Sample has 13 bytes, not 14"),
        (b"y" + bytes(12), "Sample begins with b'z', not b'y'"),
    ],
)
def test_bytes_that_are_no_such_message(data: bytes, reason: str) -> None:
    with pytest.raises(WireError) as error:
        Sample.decode(data)
    assert str(error.value) == reason


def test_decoders_take_any_bytes() -> None:
    data = itch.OrderDelete(stock_locate=1, tracking_number=2, timestamp=3, order_reference_number=4).encode()
    assert itch.decode(data) == itch.decode(bytearray(data)) == itch.decode(memoryview(data))


@pytest.mark.parametrize("data", [b"", b"?", b"\xff" * 36])
def test_an_unknown_type_is_an_error(data: bytes) -> None:
    for decode in (itch.decode, ouch.decode_inbound, ouch.decode_outbound):
        with pytest.raises(WireError, match="begins with"):
            decode(data)
