"""Any message survives the wire, and no bytes whatever raise anything but WireError or outgrow their bounds."""

from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from venue.wire import itch, ouch, soupbintcp
from venue.wire import moldudp64 as mold
from venue.wire.layout import Bytes, Kind, Message, WireError
from venue.wire.ouch import Tag, TagValue

PACKETS = [mold.Header, mold.Request, soupbintcp.LoginRequest, soupbintcp.LoginRequest41]
PACKETS += [soupbintcp.LoginAccepted, soupbintcp.LoginRejected]
CLASSES = [*itch.MESSAGES.values(), *ouch.INBOUND.values(), *ouch.OUTBOUND.values(), *PACKETS]


def value(kind: Kind, stripped: str) -> st.SearchStrategy[Any]:
    if kind.name == "alpha":
        text = st.text(st.characters(max_codepoint=255), max_size=kind.size)
        return text.map(lambda t: t.strip(stripped) if "\0" in stripped else t.rstrip(stripped))
    if kind.name == "number":
        return st.integers(0, 10**kind.size - 1)
    if kind.name.startswith("signed"):
        return st.integers(-(2 ** (8 * kind.size - 1)), 2 ** (8 * kind.size - 1) - 1)
    return st.integers(0, 2 ** (8 * kind.size) - 1)


OPTION = st.sampled_from(Tag).flatmap(lambda tag: st.builds(TagValue, st.just(tag), value(ouch.KINDS[tag], " ")))
OPTIONS = st.lists(OPTION, max_size=8).map(tuple)


@st.composite
def messages(draw: st.DrawFn) -> Message:
    cls: Any = draw(st.sampled_from(CLASSES))
    stripped = " \0" if cls in PACKETS[2:] else " "
    fields = {field.name: draw(value(field.kind, stripped)) for field in cls.layout.fields}
    if "appendage" in cls.__struct_fields__:
        counted = fields.pop("appendage_length", None) is not None
        fields["appendage"] = draw(OPTIONS if counted else st.none() | OPTIONS)
    message: Message = cls(**fields)
    return message


def attempt(decode: Callable[[Bytes], Any], data: Bytes) -> tuple[Any, str]:
    """What was decoded and "", or None and the reason. Anything but a WireError goes through and fails the test."""
    try:
        return decode(data), ""
    except WireError as error:
        return None, str(error)


@settings(deadline=None)
@given(messages())
def test_a_message_comes_back_as_it_went(message: Message) -> None:
    data = message.encode()
    assert type(message).decode(data) == message
    assert len(data) >= message.layout.size
    assert data[: len(message.layout.code)] == message.layout.code


@settings(deadline=None)
@given(messages(), st.data())
def test_damaged_messages_are_refused_or_encode_to_the_same_bytes(message: Message, data: st.DataObject) -> None:
    """Text and options included: what decodes at all decodes without loss, except for the padding of a login."""
    raw = bytearray(message.encode())
    for _ in range(data.draw(st.integers(0, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    raw = raw[: data.draw(st.integers(0, len(raw)))] + data.draw(st.binary(max_size=4))
    decoded, reason = attempt(type(message).decode, raw)
    if decoded is None:
        assert "\n" not in reason
    elif type(message) in PACKETS[2:]:
        assert type(message).decode(decoded.encode()) == decoded
    else:
        assert decoded.encode() == raw


@settings(deadline=None)
@given(st.binary(max_size=80))
def test_random_bytes_raise_nothing_but_wire_errors(data: bytes) -> None:
    decoders = (
        itch.decode,
        ouch.decode_inbound,
        ouch.decode_outbound,
        ouch.decode_appendage,
        mold.decode_packet,
        mold.Request.decode,
        soupbintcp.decode_login,
        soupbintcp.LoginAccepted.decode,
    )
    for decode in decoders:
        assert "\n" not in attempt(decode, data)[1]
    assert mold.MessageStore("").answer(data) is None


@settings(deadline=None)
@given(st.lists(st.binary(max_size=40)), st.booleans())
def test_sessions_survive_random_bytes(chunks: list[bytes], logged_in: bool) -> None:
    server, client = soupbintcp.ServerSession(0), soupbintcp.ClientSession(0)
    client.login("user", "pw")
    if logged_in:
        server.receive(client.data_to_send(), 0)
        server.accept_login("S", 1, 0)
        client.receive(server.data_to_send(), 0)
    for session in (server, client):
        for chunk in chunks:
            closed = session.closed
            assert not (session.receive(chunk, 0) and closed)
            session.handle_timer(0)


@settings(deadline=None)
@given(st.lists(st.integers(0, 40).map(bytes), max_size=30), st.integers(62, 300))
def test_packed_messages_come_out_again_and_no_packet_is_too_large(parts: list[bytes], limit: int) -> None:
    packer = mold.Packer("S", 1, limit)
    packets = [p for part in parts if (p := packer.add(part))] + [p for p in [packer.flush()] if p]
    assert all(len(p) <= limit for p in packets)
    assert [m for p in packets for m in mold.decode_packet(p).messages] == parts
