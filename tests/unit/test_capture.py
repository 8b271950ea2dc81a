import gzip
import struct
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capture_files import (
    add_order,
    binary_file,
    delete_order,
    ethernet,
    ipv4,
    ipv6,
    pcap,
    pcapng,
    pcapng_block,
    system_event,
    udp,
)
from shared import SHARED_DATA, needs_shared
from venue.wire.moldudp64 import encode_packet, end_of_session, heartbeat
from venue_clients.capture import CHUNK_BYTES, Capture, CaptureError, open_capture
from venue_clients.records import MAX_MESSAGE_BYTES, SymbolFilter

MESSAGES = [
    system_event("O", 1_000),
    add_order(1, 2_000),
    add_order(2, 3_000, "MSFT", 2),
    delete_order(1, 4_000),
    delete_order(2, 5_000, 2),
]
MOLD = encode_packet("000010059B", 7, MESSAGES)
START_NS = 1_692_710_000_123_456_789


@pytest.fixture
def saved(tmp_path: Path):
    def save(data: bytes, name: str = "file.bin") -> Path:
        path = tmp_path / name
        path.write_bytes(data)
        return path

    return save


def mold_frames(count: int = 3) -> list[tuple[int, bytes]]:
    return [
        (START_NS + i * 1_000_000, ethernet(ipv4(udp(encode_packet("000010059B", 7 + 5 * i, MESSAGES)))))
        for i in range(count)
    ]


def types(capture: Capture) -> Counter[str]:
    return Counter(chr(message[0]) for message in capture.messages())


# The real captures hold what is known of them.


@needs_shared
def test_aapl_day_has_its_10000_messages() -> None:
    capture = open_capture(SHARED_DATA / "itch" / "aapl-20200130-10k.itch")
    counts = {"A": 4758, "D": 4083, "E": 849, "P": 240, "L": 52, "U": 7, "X": 6, "F": 2, "R": 1, "H": 1, "Y": 1}
    assert capture.kind == "BinaryFILE"
    assert types(capture) == counts
    assert not capture.skipped
    assert sum(len(chunk) for chunk in capture.chunks()) == 10_000


@needs_shared
def test_excerpt_of_all_stocks_has_its_1000_messages() -> None:
    capture = open_capture(SHARED_DATA / "itch" / "all-20191230-0930-1k.itch")
    assert types(capture) == {
        "A": 367, "U": 225, "F": 193, "D": 167, "E": 28, "X": 6, "I": 4, "P": 4, "Q": 4, "S": 1, "C": 1,
    }  # fmt: skip
    assert not capture.skipped


@needs_shared
def test_real_pcap_has_269_messages_without_a_gap() -> None:
    capture = open_capture(SHARED_DATA / "pcap" / "nasdaq-moldudp64-20230822.pcap")
    packets = list(capture.packets())
    assert (capture.kind, len(packets)) == ("pcap", 100)
    assert {packet.session for packet in packets} == {"000010059B"}
    expected = 14_757_701
    for packet in packets:
        assert packet.sequence == expected
        expected += packet.count
    assert expected - 1 == 14_757_969
    assert types(capture) == {"A": 125, "U": 99, "D": 30, "F": 6, "I": 5, "E": 3, "S": 1}
    assert not capture.skipped


@needs_shared
def test_full_real_packet_has_38_messages() -> None:
    packets = list(open_capture(SHARED_DATA / "pcap" / "itch-types" / "Multiple.Packets.pcap").packets())
    assert max(packet.count for packet in packets) == 38
    assert max(20 + len(packet.blocks) for packet in packets) == 1_472


@needs_shared
def test_captures_of_one_type_hold_only_that_type() -> None:
    files = sorted((SHARED_DATA / "pcap" / "itch-types-20230822").glob("*.pcap"))
    counts = {file.stem: types(open_capture(file)) for file in files}
    assert len(counts) == 15
    assert "".join(sorted(code for count in counts.values() for code in count)) == "ACDEFHIJLPQSUXY"
    assert all(sum(count.values()) == (1 if name == "SystemEvent" else 5) for name, count in counts.items())


@needs_shared
def test_gzip_and_pcapng_of_the_real_pcap_hold_the_same_packets(saved) -> None:
    path = SHARED_DATA / "pcap" / "nasdaq-moldudp64-20230822.pcap"
    data = path.read_bytes()
    original = list(open_capture(path).packets())
    frames, at = [], 24
    while at < len(data):
        seconds, micros, size, _ = struct.unpack_from("<IIII", data, at)
        frames.append((seconds * 10**9 + micros * 1_000, data[at + 16 : at + 16 + size]))
        at += 16 + size
    assert list(open_capture(saved(gzip.compress(data))).packets()) == original
    assert list(open_capture(saved(pcapng(frames))).packets()) == original
    assert list(open_capture(saved(gzip.compress(pcapng(frames)))).packets()) == original


@needs_shared
def test_orders_over_tcp_are_no_market_data() -> None:
    with pytest.raises(CaptureError, match=r"pcap without MoldUDP64 packets \(1 × not UDP\)"):
        open_capture(SHARED_DATA / "ouch" / "EnterOrderMessage.pcap")


# Each kind of file is known by its content.


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("BinaryFILE", binary_file(MESSAGES * 3)),
        ("pcap", pcap(mold_frames())),
        ("pcap", pcap(mold_frames(), order=">")),
        ("pcap", pcap(mold_frames(), nanoseconds=True)),
        ("pcap", pcap(mold_frames(), order=">", nanoseconds=True)),
        ("pcapng", pcapng(mold_frames())),
        ("pcapng", pcapng(mold_frames(), order=">")),
        ("pcapng", pcapng(mold_frames(), resolution=None)),
    ],
)
def test_kind_is_found_whatever_the_name(saved, kind, data, compress) -> None:
    capture = open_capture(saved(compress(data), "misleading.txt"))
    assert capture.kind == kind
    for _ in range(2):  # any number of times
        assert list(capture.messages()) == MESSAGES * 3
        assert not capture.skipped
        assert capture.fraction_read == 1.0


@pytest.mark.parametrize(
    ("data", "expected_ns"),
    [
        (pcap(mold_frames(1)), START_NS // 1_000 * 1_000),
        (pcap(mold_frames(1), order=">", nanoseconds=True), START_NS),
        (pcapng(mold_frames(1)), START_NS),
        (pcapng(mold_frames(1), resolution=None), START_NS // 1_000 * 1_000),
        (pcapng(mold_frames(1), resolution=0x80 | 30), START_NS * 2**30 // 10**9 * 10**9 // 2**30),
    ],
)
def test_capture_times_are_nanoseconds_since_the_epoch(saved, data, expected_ns) -> None:
    (packet,) = open_capture(saved(data)).packets()
    assert packet.time_ns == expected_ns


def test_packets_come_as_they_were(saved) -> None:
    payloads = [MOLD, heartbeat("000010059B", 12), end_of_session("000010059B", 12)]
    frames = [(i, ethernet(ipv4(udp(payload)))) for i, payload in enumerate(payloads)]
    packets = list(open_capture(saved(pcap(frames, nanoseconds=True))).packets())
    assert [(p.time_ns, p.session, p.sequence, p.count, p.blocks) for p in packets] == [
        (0, "000010059B", 7, 5, binary_file(MESSAGES)),
        (1, "000010059B", 12, 0, b""),
        (2, "000010059B", 12, 0xFFFF, b""),
    ]


@pytest.mark.parametrize(
    ("link_type", "frame"),
    [
        (1, ethernet(ipv4(udp(MOLD)), vlans=[(0x8100, 141)])),
        (1, ethernet(ipv4(udp(MOLD)), vlans=[(0x88A8, 7), (0x8100, 141)])),
        (1, ethernet(ipv6(udp(MOLD)), 0x86DD)),
        (1, ethernet(ipv6(udp(MOLD), 0, struct.pack(">BB6x", 17, 0)), 0x86DD)),
        (1, ethernet(ipv4(udp(MOLD)) + bytes(6))),  # Ethernet's padding
        (101, ipv4(udp(MOLD))),
        (101, ipv6(udp(MOLD))),
        (113, bytes(14) + b"\x08\x00" + ipv4(udp(MOLD))),
        (276, b"\x08\x00" + bytes(18) + ipv4(udp(MOLD))),
    ],
)
def test_udp_is_found_under_many_headers(saved, link_type, frame) -> None:
    capture = open_capture(saved(pcap([(0, frame)], link_type=link_type)))
    assert list(capture.messages()) == MESSAGES
    assert not capture.skipped


def test_other_packets_are_skipped_and_counted(saved) -> None:
    good = ethernet(ipv4(udp(MOLD)))
    others = {
        "not IP": ethernet(bytes(46), 0x0806),
        "not UDP": ethernet(ipv4(bytes(20), protocol=6)),
        "IP fragment": ethernet(ipv4(udp(MOLD), fragment=0x2000)),
        "UDP but not MoldUDP64": ethernet(ipv4(udp(b"hello"))),
        "malformed packet": good[:40],
    }
    frames = [(0, frame) for frame in others.values()]
    too_many = MOLD[:18] + b"\x00\x06" + MOLD[20:]
    frames += [(0, ethernet(ipv4(udp(too_many)))), (0, ethernet(ipv4(udp(MOLD + b"\0")))), (0, good)]
    capture = open_capture(saved(pcap(frames)))
    assert list(capture.messages()) == MESSAGES
    assert capture.skipped == dict.fromkeys(others, 1) | {"UDP but not MoldUDP64": 3}


def test_packet_cut_by_the_snap_length_is_skipped(saved) -> None:
    data = bytearray(pcap(mold_frames(2)))
    struct.pack_into("<I", data, 24 + 12, 9_000)  # the first packet was longer on the wire
    capture = open_capture(saved(bytes(data)))
    assert list(capture.messages()) == MESSAGES
    assert capture.skipped == {"packet cut by the snap length": 1}


def test_pcapng_of_two_sections_in_both_byte_orders(saved) -> None:
    capture = open_capture(saved(pcapng(mold_frames(1)) + pcapng(mold_frames(1), order=">")))
    assert list(capture.messages()) == MESSAGES * 2


def test_pcapng_simple_and_old_packet_blocks(saved) -> None:
    frame = mold_frames(1)[0][1]
    simple = pcapng_block(3, struct.pack("<I", len(frame)) + frame)
    old = pcapng_block(2, struct.pack("<HHIIII", 0, 0, 0, 5, len(frame), len(frame)) + frame)
    packets = list(open_capture(saved(pcapng([]) + simple + old)).packets())
    assert [packet.time_ns for packet in packets] == [0, 5]  # a Simple Packet Block has no time
    assert [packet.blocks for packet in packets] == [binary_file(MESSAGES)] * 2


def test_zero_length_blocks_in_packets_are_no_messages(saved) -> None:
    payload = encode_packet("000010059B", 1, [b"", MESSAGES[0], b"", b"", MESSAGES[1], b""])
    capture = open_capture(saved(pcap([(0, ethernet(ipv4(udp(payload))))])))
    assert [packet.count for packet in capture.packets()] == [6]
    assert list(capture.messages()) == MESSAGES[:2]


# Ends and damage.


def test_zero_length_record_ends_the_session(saved) -> None:
    capture = open_capture(saved(binary_file(MESSAGES) + b"\0\0"))
    assert list(capture.messages()) == MESSAGES
    assert not capture.skipped
    capture = open_capture(saved(binary_file(MESSAGES) + b"\0\0" + binary_file(MESSAGES)))
    assert list(capture.messages()) == MESSAGES
    assert capture.skipped == {"data after the end of session": 1}


def test_end_of_session_alone_is_an_empty_day(saved) -> None:
    assert list(open_capture(saved(b"\0\0")).messages()) == []


def test_binary_file_cut_anywhere_gives_the_messages_before(saved) -> None:
    data = binary_file(MESSAGES)
    ends = [0]
    for message in MESSAGES:
        ends.append(ends[-1] + 2 + len(message))
    for size in range(ends[1], len(data)):
        capture = open_capture(saved(data[:size]))
        whole = sum(end <= size for end in ends) - 1
        assert list(capture.messages()) == MESSAGES[:whole]
        assert capture.skipped == ({} if size in ends else {"truncated end": 1})


@pytest.mark.parametrize("write", [pcap, pcapng])
def test_packet_file_cut_anywhere_gives_the_packets_before(saved, write) -> None:
    data, first = write(mold_frames(3)), len(write(mold_frames(1)))
    size_of_one = len(write(mold_frames(2))) - first
    for size in range(first, len(data)):
        capture = open_capture(saved(data[:size]))
        whole, rest = divmod(size - first, size_of_one)
        assert list(capture.messages()) == MESSAGES * (1 + whole)
        assert capture.skipped == ({"truncated end": 1} if rest else {})


def test_cut_gzip_gives_what_could_be_read(saved) -> None:
    messages = [add_order(i, i) for i in range(5_000)]
    data = gzip.compress(binary_file(messages))
    capture = open_capture(saved(data[: len(data) // 2]))
    got = list(capture.messages())
    assert 0 < len(got) < 5_000
    assert got == messages[: len(got)]
    assert capture.skipped["damaged or truncated gzip"] == 1


def test_absurd_lengths_end_the_reading(saved) -> None:
    for write, at in ((pcap, 24 + 8), (pcapng, 4)):
        data = write(mold_frames(1))
        damaged = bytearray(write(mold_frames(1)))
        struct.pack_into("<I", damaged, at, 0x7FFFFFFF)
        capture = open_capture(saved(data + bytes(damaged[24 if write is pcap else 0 :])))
        assert list(capture.messages()) == MESSAGES
        assert capture.skipped == {"damaged record, rest of the file unread": 1}


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "is empty"),
        (b"\x1f\x8b\x08garbage", "damaged gzip"),
        (gzip.compress(b"", mtime=0), "is empty"),
        (b"time,type,id\n34200.1,1,77\n", "expected BinaryFILE"),
        (bytes(range(256)) * 40, "no capture"),
        (b"".join(MESSAGES), "ITCH without lengths"),
        (b"".join(b"\0\0" + message for message in MESSAGES), "length of zero"),
        (pcap([]), "without MoldUDP64 packets (nothing at all)"),
        (pcap(mold_frames(1), link_type=147), "1 × link type 147"),
        (pcap(mold_frames(1))[:10], "1 × truncated end"),
    ],
)
def test_what_is_no_capture_gets_one_clear_line(saved, data, reason) -> None:
    with pytest.raises(CaptureError) as caught:
        open_capture(saved(data))
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_file_and_folder(tmp_path) -> None:
    with pytest.raises(CaptureError, match="no such file"):
        open_capture(tmp_path / "nothing")
    with pytest.raises(CaptureError, match="is a directory"):
        open_capture(tmp_path)


def test_binary_file_has_no_packets(saved) -> None:
    with pytest.raises(CaptureError, match="messages but no packets"):
        list(open_capture(saved(binary_file(MESSAGES))).packets())


SEEDS = [binary_file(MESSAGES), pcap(mold_frames(2)), pcapng(mold_frames(2)), pcapng(mold_frames(2), order=">")]


@given(
    st.sampled_from(SEEDS),
    st.lists(st.tuples(st.integers(0, 600), st.binary(min_size=1, max_size=4)), max_size=6),
    st.booleans(),
)
def test_damaged_files_never_do_worse_than_a_clear_error(tmp_path_factory, seed, patches, compress) -> None:
    data = bytearray(seed)
    for at, patch in patches:
        data[at : at + len(patch)] = patch
    path = tmp_path_factory.mktemp("damaged") / "file"
    path.write_bytes(gzip.compress(data) if compress else data)
    try:
        messages = list(open_capture(path).messages())
    except CaptureError:
        return
    assert sum(map(len, messages)) <= len(data)
    assert all(0 < len(message) <= MAX_MESSAGE_BYTES for message in messages)


# Chunks: many messages at once.


def test_chunks_are_bounded_and_lose_nothing(saved) -> None:
    messages = [add_order(i, i) if i % 3 else delete_order(i, i) for i in range(20_000)]
    capture = open_capture(saved(binary_file(messages)))
    chunks = list(capture.chunks())
    assert len(chunks) > 5
    assert all(len(chunk.block) <= CHUNK_BYTES + 65_537 for chunk in chunks)
    assert b"".join(chunk.block for chunk in chunks) == binary_file(messages)
    assert [time for chunk in chunks for time in chunk.times_ns] == list(range(20_000))


def test_times_never_go_back_and_nonsense_does_not_move_them(saved) -> None:
    stamps = [5_000, 4_000, 2**47, 86_400_000_000_000, 6_000]
    messages = [delete_order(i, stamp) for i, stamp in enumerate(stamps)]
    messages.insert(3, b"?")  # too short for a timestamp
    capture = open_capture(saved(binary_file(messages)))
    (chunk,) = capture.chunks()
    assert chunk.times_ns.tolist() == [5_000, 5_000, 5_000, 5_000, 5_000, 6_000]
    assert capture.skipped == {"message of an unknown type (passed on)": 1}


def test_messages_nobody_could_read_are_left_out(saved) -> None:
    messages = [*MESSAGES, MESSAGES[1] + b"\0", b"?" * (MAX_MESSAGE_BYTES + 1), *MESSAGES]
    capture = open_capture(saved(binary_file(messages)))
    assert list(capture.messages()) == MESSAGES * 2
    assert capture.skipped == {"message of the wrong length for its type": 1, "message too long for a packet": 1}


def test_symbol_filter_keeps_a_stock_and_the_whole_market(saved) -> None:
    wanted = SymbolFilter(["MSFT", "GOOG"])
    (chunk,) = open_capture(saved(binary_file(MESSAGES))).chunks()
    kept = wanted.apply(chunk)
    assert list(kept.messages()) == [MESSAGES[0], MESSAGES[2], MESSAGES[4]]
    assert kept.times_ns.tolist() == [1_000, 3_000, 5_000]
    assert wanted.not_seen == {"GOOG"}


@needs_shared
def test_symbol_filter_on_the_real_excerpt_agrees_with_a_plain_loop() -> None:
    capture = open_capture(SHARED_DATA / "itch" / "all-20191230-0930-1k.itch")
    stock_at = {"A": 24, "F": 24, "P": 24, "Q": 19, "I": 28, "R": 11}
    named = {}
    for message in capture.messages():
        at = stock_at.get(chr(message[0]))
        if at:
            named[message[1:3]] = message[at : at + 8].rstrip().decode()
    busiest = Counter(named.get(message[1:3]) for message in capture.messages() if message[1:3] != b"\0\0")
    symbol = next(name for name, _ in busiest.most_common() if name)
    expected = [m for m in capture.messages() if m[1:3] == b"\0\0" or named.get(m[1:3]) == symbol]
    wanted = SymbolFilter([symbol])
    assert [m for chunk in capture.chunks() for m in wanted.apply(chunk).messages()] == expected
    assert len(expected) > 5
