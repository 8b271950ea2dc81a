"""MoldUDP64 packets, the packer, and the re-request server's store."""

import pytest

from venue.wire import moldudp64 as mold
from venue.wire.layout import WireError

REAL_HEADER = bytes.fromhex("303030303130303539420000000000e12f450001")


def test_the_head_of_a_real_packet() -> None:
    assert mold.Header.decode(REAL_HEADER) == mold.Header(session="000010059B", sequence=14757701, count=1)
    message = b"U" + bytes(34)
    packet = REAL_HEADER + b"\0\x23" + message
    assert mold.encode_packet("000010059B", 14757701, [message]) == packet
    assert mold.decode_packet(packet) == mold.Packet("000010059B", 14757701, 1, [message])


def test_heartbeat_end_and_request_are_twenty_bytes() -> None:
    assert mold.heartbeat("000008367I", 9) == b"000008367I" + bytes(7) + b"\x09\0\0"
    assert mold.end_of_session("ABC", 9) == b"ABC       " + bytes(7) + b"\x09\xff\xff"
    assert mold.Request("ABC", 4, 3).encode() == b"ABC       " + bytes(7) + b"\x04\0\x03"
    assert mold.decode_packet(mold.end_of_session("ABC", 9)) == mold.Packet("ABC", 9, 0xFFFF, [])
    assert mold.Request.decode(mold.Request("ABC", 4, 3).encode()) == mold.Request("ABC", 4, 3)


def test_a_block_may_be_empty_and_bytes_behind_the_last_are_ignored() -> None:
    packet = mold.encode_packet("S", 1, [b"", b"ab", b""])
    assert mold.decode_packet(packet + b"tail").messages == [b"", b"ab", b""]


@pytest.mark.parametrize("size", range(27))
def test_a_packet_cut_at_every_length(size: int) -> None:
    packet = mold.encode_packet("S", 1, [b"a", b"bc"])
    assert len(packet) == 27
    with pytest.raises(WireError):
        mold.decode_packet(packet[:size])


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "block 1 of 2 is missing"),
        (b"\0", "block 1 of 2 is missing"),
        (b"\0\1", "block 1 of 2 is cut short by 1 bytes"),
        (b"\0\1a\0", "block 2 of 2 is missing"),
        (b"\0\1a\xff\xffa", "block 2 of 2 is cut short by 65534 bytes"),
    ],
)
def test_blocks_that_are_not_there(data: bytes, reason: str) -> None:
    with pytest.raises(WireError) as error:
        mold.split_blocks(data, 2)
    assert str(error.value) == reason


def test_what_no_packet_can_carry() -> None:
    with pytest.raises(WireError, match="not 65536"):
        mold.encode_packet("S", 1, [bytes(65536)])
    with pytest.raises(WireError, match="at most 65534 messages"):
        mold.encode_packet("S", 1, [b""] * 65535)
    with pytest.raises(WireError, match=r"Header\.session takes 10 characters"):
        mold.heartbeat("12345678901", 1)


def test_the_packer_fills_packets_to_the_limit() -> None:
    packer = mold.Packer("S", 5)
    messages = [bytes([i]) * 36 for i in range(100)]
    packets = [packet for message in messages if (packet := packer.add(message))]
    packets += [packet for packet in [packer.flush()] if packet]
    assert packer.flush() is None
    assert packer.next_sequence == 105
    assert [len(packet) for packet in packets] == [20 + 36 * 38, 20 + 36 * 38, 20 + 28 * 38]
    taken = [mold.decode_packet(packet) for packet in packets]
    assert [(packet.sequence, packet.count) for packet in taken] == [(5, 36), (41, 36), (77, 28)]
    assert [message for packet in taken for message in packet.messages] == messages


def test_a_message_as_large_as_a_packet_and_one_larger() -> None:
    packer = mold.Packer("S")
    assert packer.add(b"first") is None
    assert packer.add(bytes(1378)) == mold.encode_packet("S", 1, [b"first"])
    with pytest.raises(WireError, match="1379 bytes does not fit"):
        packer.add(bytes(1379))
    assert packer.flush() == mold.encode_packet("S", 2, [bytes(1378)])


def ask(store: mold.MessageStore, session: str, sequence: int, count: int) -> bytes | None:
    return store.answer(mold.Request(session, sequence, count).encode())


def store_of(count: int, size: int = 36, limit: int | None = None) -> mold.MessageStore:
    store = mold.MessageStore("S", limit=limit)
    for i in range(count):
        assert store.append(bytes([i % 256]) * size) == i + 1
    return store


def test_an_answer_is_one_packet_with_what_fits() -> None:
    store = store_of(100)
    assert ask(store, "S", 3, 2) == mold.encode_packet("S", 3, [b"\2" * 36, b"\3" * 36])
    assert mold.decode_packet(ask(store, "S", 1, 65535) or b"").count == 36
    assert mold.decode_packet(ask(store, "S", 99, 10) or b"").messages == [b"\x62" * 36, b"\x63" * 36]


def test_bad_requests_are_not_answered() -> None:
    store = store_of(3)
    good = mold.Request("S", 1, 1).encode()
    assert store.answer(good) is not None
    assert store.answer(good + b"more") is not None
    assert [store.answer(good[:size]) for size in range(20)] == [None] * 20
    assert ask(store, "T", 1, 1) is None
    assert ask(store, "S", 0, 5) is None
    assert ask(store, "S", 4, 1) is None
    assert ask(store, "S", 1, 0) is None
    assert ask(store, "S", 2**64 - 1, 65535) is None
    assert mold.MessageStore("S").answer(good) is None


def test_a_bounded_store_forgets_the_oldest() -> None:
    store = store_of(10, limit=4)
    assert len(store) == 4
    assert store.next_sequence == 11
    assert ask(store, "S", 6, 1) is None
    assert mold.decode_packet(ask(store, "S", 7, 100) or b"").count == 4


def test_the_store_takes_only_what_an_answer_can_carry() -> None:
    store = mold.MessageStore("S")
    store.append(bytes(1378))
    with pytest.raises(WireError):
        store.append(bytes(1379))
    assert store.next_sequence == 2
    assert len(ask(store, "S", 1, 1) or b"") == 1400
