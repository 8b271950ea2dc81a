"""Writes small capture files for tests: BinaryFILE, pcap and pcapng, and the packets inside them."""

import struct
from collections.abc import Iterable, Sequence

from venue.wire import itch
from venue.wire.moldudp64 import Request

SECOND_NS = 1_000_000_000
OPEN_NS = 34_200 * SECOND_NS
MULTICAST = ("206.200.127.138", "233.54.12.111", 26477)


def add_order(reference: int, timestamp: int, stock: str = "AAPL", locate: int = 1) -> bytes:
    return itch.AddOrder(
        stock_locate=locate,
        tracking_number=0,
        timestamp=timestamp,
        order_reference_number=reference,
        buy_sell_indicator="B",
        shares=100,
        stock=stock,
        price=1_000_000,
    ).encode()


def delete_order(reference: int, timestamp: int, locate: int = 1) -> bytes:
    return itch.OrderDelete(
        stock_locate=locate, tracking_number=0, timestamp=timestamp, order_reference_number=reference
    ).encode()


def system_event(code: str, timestamp: int) -> bytes:
    return itch.SystemEvent(stock_locate=0, tracking_number=0, timestamp=timestamp, event_code=code).encode()


def every(interval_ns: int, count: int) -> list[bytes]:
    return [add_order(i, OPEN_NS + i * interval_ns) for i in range(count)]


def ask(session: str, sequence: int, count: int) -> bytes:
    return Request(session=session, sequence=sequence, count=count).encode()


def binary_file(messages: Iterable[bytes]) -> bytes:
    return b"".join(struct.pack(">H", len(message)) + message for message in messages)


def udp(payload: bytes, port: int = MULTICAST[2]) -> bytes:
    return struct.pack(">HHHH", 50_000, port, 8 + len(payload), 0) + payload


def ipv4(transport: bytes, protocol: int = 17, fragment: int = 0) -> bytes:
    addresses = bytes(int(part) for address in MULTICAST[:2] for part in str(address).split("."))
    return struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(transport), 1, fragment, 16, protocol, 0) + addresses + transport


def ipv6(transport: bytes, next_header: int = 17, extensions: bytes = b"") -> bytes:
    body = extensions + transport
    return struct.pack(">IHBB", 6 << 28, len(body), next_header, 16) + bytes(32) + body


def ethernet(network: bytes, ether_type: int = 0x0800, vlans: Sequence[tuple[int, int]] = ()) -> bytes:
    tags = b"".join(struct.pack(">HH", tag_type, vlan) for tag_type, vlan in vlans)
    return bytes.fromhex("01005e360c6f d4aff7cb20d5") + tags + struct.pack(">H", ether_type) + network


def pcap(
    frames: Iterable[tuple[int, bytes]], *, order: str = "<", nanoseconds: bool = False, link_type: int = 1
) -> bytes:
    """`frames` are (time in ns since the epoch, bytes)."""
    magic, unit_ns = (0xA1B23C4D, 1) if nanoseconds else (0xA1B2C3D4, 1_000)
    parts = [struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, 262_144, link_type)]
    for time_ns, data in frames:
        seconds, rest_ns = divmod(time_ns, 1_000_000_000)
        parts.append(struct.pack(order + "IIII", seconds, rest_ns // unit_ns, len(data), len(data)) + data)
    return b"".join(parts)


def pcapng_block(kind: int, body: bytes, order: str = "<") -> bytes:
    body += bytes(-len(body) % 4)
    total = struct.pack(order + "I", 12 + len(body))
    return struct.pack(order + "I", kind) + total + body + total


def pcapng(frames: Iterable[tuple[int, bytes]], *, order: str = "<", resolution: int | None = 9) -> bytes:
    """One section with one Ethernet interface. `resolution` is if_tsresol as a byte; None leaves the microseconds."""
    section = struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1)
    options = b"" if resolution is None else struct.pack(order + "HHB3xHH", 9, 1, resolution, 0, 0)
    parts = [
        pcapng_block(0x0A0D0D0A, section, order),
        pcapng_block(1, struct.pack(order + "HHI", 1, 0, 0) + options, order),
        pcapng_block(5, bytes(12), order),  # interface statistics: nothing for us
    ]
    binary = resolution is not None and bool(resolution & 0x80)
    units_per_s = 10**6 if resolution is None else 1 << (resolution & 0x7F) if binary else 10**resolution
    for time_ns, data in frames:
        units = time_ns * units_per_s // 1_000_000_000
        head = struct.pack(order + "IIIII", 0, units >> 32, units & 0xFFFFFFFF, len(data), len(data))
        parts.append(pcapng_block(6, head + data, order))
    return b"".join(parts)
