"""Real bytes decode and encode back to the same bytes."""

from collections import Counter
from pathlib import Path

import pytest

from shared import SHARED_DATA, needs_shared
from venue.wire import itch, moldudp64, ouch, soupbintcp
from wirepcap import payloads

pytestmark = needs_shared


def binary_file(path: Path) -> list[bytes]:
    data = path.read_bytes()
    messages, at = [], 0
    while at < len(data):
        end = at + 2 + int.from_bytes(data[at : at + 2], "big")
        messages.append(data[at + 2 : end])
        at = end
    assert at == len(data)
    return messages


def relative(path: Path) -> str:
    return str(path.relative_to(SHARED_DATA))


def same_again(messages: list[bytes]) -> Counter[str]:
    types: Counter[str] = Counter()
    for data in messages:
        assert itch.decode(data).encode() == data
        types[chr(data[0])] += 1
    return types


AAPL = {"A": 4758, "D": 4083, "E": 849, "P": 240, "L": 52, "U": 7, "X": 6, "F": 2, "R": 1, "H": 1, "Y": 1}
ALL = {"A": 367, "U": 225, "F": 193, "D": 167, "E": 28, "X": 6, "I": 4, "P": 4, "Q": 4, "S": 1, "C": 1}


@pytest.mark.parametrize(
    ("name", "types"),
    [("aapl-20200130-10k", AAPL), ("aapl-20200130-10k-shifted", AAPL), ("all-20191230-0930-1k", ALL)],
)
def test_days_on_disk(name: str, types: dict[str, int]) -> None:
    assert same_again(binary_file(SHARED_DATA / "itch" / f"{name}.itch")) == types


def test_a_hundred_packets_of_the_real_feed() -> None:
    receiver = moldudp64.Receiver()
    events: list[moldudp64.FeedEvent] = []
    for data in payloads(SHARED_DATA / "pcap" / "nasdaq-moldudp64-20230822.pcap"):
        packet = moldudp64.decode_packet(data)
        assert moldudp64.encode_packet(packet.session, packet.sequence, packet.messages) == data
        events += receiver.receive(0, data, 0)
    assert events[0] == moldudp64.SessionStarted("000010059B", 14757701)
    delivered = [event for event in events[1:] if isinstance(event, moldudp64.Deliver)]
    assert len(delivered) == len(events) - 1 == 100
    types = same_again([message for event in delivered for message in event.messages])
    assert types == {"A": 125, "U": 99, "D": 30, "F": 6, "I": 5, "E": 3, "S": 1}
    assert receiver.expected == 14757970
    assert receiver.lines[0] == moldudp64.LineCounters(packets=100, messages=269)


@pytest.mark.parametrize("path", sorted(SHARED_DATA.glob("pcap/itch-types*/*.pcap")), ids=relative)
def test_packets_of_each_type(path: Path) -> None:
    for data in payloads(path):
        packet = moldudp64.decode_packet(data)
        assert moldudp64.encode_packet(packet.session, packet.sequence, packet.messages) == data
        same_again(packet.messages)


def test_the_fullest_packet() -> None:
    packets = [moldudp64.decode_packet(p) for p in payloads(SHARED_DATA / "pcap/itch-types/Multiple.Packets.pcap")]
    assert 38 in [packet.count for packet in packets]


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("CancelOrderMessage", ouch.CancelOrder(user_ref_num=7679601, quantity=0)),
        (
            "CanceledMessage",
            ouch.Canceled(timestamp=44647483708183, user_ref_num=7682701, quantity=40, reason="U"),
        ),
        ("EnterOrderMessage", None),
        ("OrderAcceptedMessage", None),
        ("ClientHeartbeatPacket", b"R"),
        ("ServerHeartbeatPacket", b"H"),
    ],
)
def test_order_entry(name: str, body: ouch.OuchMessage | bytes | None) -> None:
    (data,) = payloads(SHARED_DATA / "ouch" / f"{name}.pcap")
    reader = soupbintcp.FrameReader()
    reader.feed(data)
    read = reader.next()
    assert read is not None
    assert len(reader) == 0
    assert soupbintcp.frame(read[:1], read[1:]) == data
    if isinstance(body, bytes):
        assert read == body
    else:
        decode = ouch.decode_inbound if read[:1] == b"U" else ouch.decode_outbound
        assert decode(read[1:]).encode() == read[1:]
        assert body is None or decode(read[1:]) == body


def test_a_login() -> None:
    (request,) = payloads(SHARED_DATA / "ouch/soupbintcp/LoginRequestPacket.pcap")
    (accepted,) = payloads(SHARED_DATA / "ouch/soupbintcp/LoginAcceptedPacket.pcap")
    assert soupbintcp.packet(soupbintcp.decode_login(request[2:])) == request
    assert soupbintcp.packet(soupbintcp.LoginAccepted.decode(accepted[2:])) == accepted
    assert soupbintcp.LoginAccepted.decode(accepted[2:]) == soupbintcp.LoginAccepted("1689192121", 135)

    client = soupbintcp.ClientSession(0)
    client.login("user", "password", sequence=0)
    assert client.data_to_send() == request
    server = soupbintcp.ServerSession(0)
    assert server.receive(request, 0) == [soupbintcp.LoginRequested("user", "password", "", 0)]
    server.accept_login("1689192121", 135, 0)
    assert server.data_to_send() == accepted
    assert client.receive(accepted, 0) == [soupbintcp.LoginAccepted("1689192121", 135)]
