"""Packets out of pcap and pcapng files, and UDP payloads out of packets.

Formats: libpcap's pcap-savefile(5) and the pcapng Internet-Draft (draft-ietf-opsawg-pcapng), both byte orders,
microseconds and nanoseconds. Everything is read in one pass and in bounded memory. What cannot be used is counted by
its reason in a Counter that the caller owns; nothing here raises for a damaged file, since what came before the damage
is still good.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

PCAP_MAGICS = {
    b"\xd4\xc3\xb2\xa1": ("<", 1_000),
    b"\xa1\xb2\xc3\xd4": (">", 1_000),
    b"\x4d\x3c\xb2\xa1": ("<", 1),
    b"\xa1\xb2\x3c\x4d": (">", 1),
}
"""First four bytes of a pcap file -> struct byte order, nanoseconds in one unit of its fraction field."""

PCAPNG_MAGIC = b"\x0a\x0d\x0d\x0a"

MAX_PACKET_BYTES = 262_144
"""libpcap's own bound (MAXIMUM_SNAPLEN). A longer packet means that the file is damaged."""

MAX_BLOCK_BYTES = 16 * 1_048_576
"""The longest pcapng block that is read; draft section 3.1 leaves it open, Wireshark stops at the same size."""

_SECTION, _INTERFACE, _PACKET_OBSOLETE, _PACKET_SIMPLE, _PACKET = 0x0A0D0D0A, 1, 2, 3, 6
_ETHERNET, _RAW_IP, _LINUX_COOKED, _IPV4, _IPV6, _LINUX_COOKED_2 = 1, 101, 113, 228, 229, 276
_VLAN_TYPES = (0x8100, 0x88A8, 0x9100)
_UDP = 17


class Stream(Protocol):
    def read(self, size: int, /) -> bytes:
        """Exactly `size` bytes, or fewer at the end."""


class Packet(NamedTuple):
    """One captured packet. `time_ns` counts from the Unix epoch (0 where the file has no time for it)."""

    time_ns: int
    link_type: int
    data: bytes


class _UnusableError(Exception):
    """Why a packet has no UDP payload for us; the text becomes the key of the skip counter."""


def read_pcap(stream: Stream, skipped: Counter[str]) -> Iterator[Packet]:
    """Packets of a pcap file whose stream stands at its first byte."""
    head = stream.read(24)
    if len(head) < 24:
        skipped["truncated end"] += 1
        return
    order, unit_ns = PCAP_MAGICS[head[:4]]
    link_type = struct.unpack(order + "I", head[20:])[0] & 0xFFFF  # the upper bits say how long the checksum is
    record = struct.Struct(order + "IIII")
    while header := stream.read(16):
        if len(header) < 16:
            skipped["truncated end"] += 1
            return
        seconds, fraction, captured, original = record.unpack(header)
        if captured > MAX_PACKET_BYTES:
            skipped["damaged record, rest of the file unread"] += 1
            return
        data = stream.read(captured)
        if len(data) < captured:
            skipped["truncated end"] += 1
            return
        if captured < original:
            skipped["packet cut by the snap length"] += 1
            continue
        yield Packet(seconds * 1_000_000_000 + fraction * unit_ns, link_type, data)


class _Interface(NamedTuple):
    link_type: int
    snap_bytes: int
    units_per_s: int
    offset_s: int


def read_pcapng(stream: Stream, skipped: Counter[str]) -> Iterator[Packet]:
    """Packets of a pcapng file whose stream stands at its first byte."""
    order = "<"
    interfaces: list[_Interface] = []
    while head := stream.read(8):
        if head[:4] == PCAPNG_MAGIC:  # reads the same in both byte orders; the next word tells which one it is
            head += stream.read(4)
            order = ">" if head[8:12] == b"\x1a\x2b\x3c\x4d" else "<"
            interfaces = []
        body = _read_block(stream, head, order, skipped)
        if body is None:
            return
        kind = struct.unpack(order + "I", head[:4])[0]
        if kind == _INTERFACE and len(body) >= 8:
            interfaces.append(_read_interface(body, order))
        elif kind in (_PACKET, _PACKET_SIMPLE, _PACKET_OBSOLETE):
            packet = _read_packet_block(kind, body, order, interfaces, skipped)
            if packet is not None:
                yield packet


def _read_block(stream: Stream, head: bytes, order: str, skipped: Counter[str]) -> bytes | None:
    """The body of the block that begins with `head`, or None (counted) when the file ends or makes no sense there."""
    if len(head) < 8:
        skipped["truncated end"] += 1
        return None
    total = struct.unpack(order + "I", head[4:8])[0]
    if total < 12 or total < len(head) + 4 or total % 4 or total > MAX_BLOCK_BYTES:
        skipped["damaged record, rest of the file unread"] += 1
        return None
    rest = stream.read(total - len(head))
    if len(rest) < total - len(head):
        skipped["truncated end"] += 1
        return None
    if rest[-4:] != head[4:8]:
        skipped["damaged record, rest of the file unread"] += 1
        return None
    return rest[:-4]


def _read_interface(body: bytes, order: str) -> _Interface:
    """Link type, snap length and clock of an Interface Description Block (draft section 4.2)."""
    link_type, _, snap_bytes = struct.unpack_from(order + "HHI", body)
    units_per_s, offset_s = 1_000_000, 0
    at = 8
    while at + 4 <= len(body):
        code, length = struct.unpack_from(order + "HH", body, at)
        value = body[at + 4 : at + 4 + length]
        if code == 0 or len(value) < length:
            break
        if code == 9 and length == 1:  # if_tsresol: a power of ten, or of two when the top bit is set
            units_per_s = 1 << (value[0] & 0x7F) if value[0] & 0x80 else 10 ** value[0]
        elif code == 14 and length == 8:  # if_tsoffset
            offset_s = struct.unpack(order + "q", value)[0]
        at += 4 + (length + 3) // 4 * 4
    return _Interface(link_type, snap_bytes, units_per_s, offset_s)


def _read_packet_block(
    kind: int, body: bytes, order: str, interfaces: list[_Interface], skipped: Counter[str]
) -> Packet | None:
    """The packet in an Enhanced, Simple or (obsolete) Packet Block (draft sections 4.3, 4.4 and appendix A)."""
    head_bytes = 4 if kind == _PACKET_SIMPLE else 20
    if len(body) < head_bytes:
        skipped["damaged packet block"] += 1
        return None
    high = low = index = 0
    if kind == _PACKET_SIMPLE:
        (original,) = struct.unpack_from(order + "I", body)
        captured = min(original, len(body) - 4)
    elif kind == _PACKET:
        index, high, low, captured, original = struct.unpack_from(order + "IIIII", body)
    else:
        index, _, high, low, captured, original = struct.unpack_from(order + "HHIIII", body)
    if index >= len(interfaces) or captured > len(body) - head_bytes:
        skipped["damaged packet block"] += 1
        return None
    interface = interfaces[index]
    if kind == _PACKET_SIMPLE and interface.snap_bytes:
        captured = min(captured, interface.snap_bytes)
    if captured < original:
        skipped["packet cut by the snap length"] += 1
        return None
    time_ns = 0
    if kind != _PACKET_SIMPLE:
        time_ns = (high << 32 | low) * 1_000_000_000 // interface.units_per_s + interface.offset_s * 1_000_000_000
    return Packet(time_ns, interface.link_type, body[head_bytes : head_bytes + captured])


def udp_payload(packet: Packet, skipped: Counter[str]) -> bytes | None:
    """The UDP payload of a packet, or None after counting why there is none."""
    try:
        return _payload(packet)
    except _UnusableError as reason:
        skipped[str(reason)] += 1
    return None


def _payload(packet: Packet) -> bytes:
    network = _NETWORK_LAYER.get(packet.link_type)
    if network is None:
        raise _UnusableError(f"link type {packet.link_type}")
    data = packet.data
    ether_type, at = network(data)
    if ether_type == 0x0800:
        protocol, at, end = _ipv4(data, at)
    elif ether_type == 0x86DD:
        protocol, at, end = _ipv6(data, at)
    else:
        raise _UnusableError("not IP")
    if protocol != _UDP:
        raise _UnusableError("not UDP")
    if end < at + 8 or end > len(data):
        raise _UnusableError("malformed packet")
    length = data[at + 4] << 8 | data[at + 5]
    if length < 8 or at + length > end:
        raise _UnusableError("malformed packet")
    return data[at + 8 : at + length]


def _ethernet(data: bytes) -> tuple[int, int]:
    at = 12
    while len(data) >= at + 2:
        ether_type = data[at] << 8 | data[at + 1]
        if ether_type not in _VLAN_TYPES:
            return ether_type, at + 2
        at += 4
    raise _UnusableError("malformed packet")


def _linux_cooked(data: bytes) -> tuple[int, int]:
    if len(data) < 16:
        raise _UnusableError("malformed packet")
    return data[14] << 8 | data[15], 16


def _linux_cooked_2(data: bytes) -> tuple[int, int]:
    if len(data) < 20:
        raise _UnusableError("malformed packet")
    return data[0] << 8 | data[1], 20


def _raw_ip(data: bytes) -> tuple[int, int]:
    if not data:
        raise _UnusableError("malformed packet")
    return (0x86DD if data[0] >> 4 == 6 else 0x0800), 0


_NETWORK_LAYER: dict[int, Callable[[bytes], tuple[int, int]]] = {
    _ETHERNET: _ethernet,
    _RAW_IP: _raw_ip,
    _IPV4: _raw_ip,
    _IPV6: _raw_ip,
    _LINUX_COOKED: _linux_cooked,
    _LINUX_COOKED_2: _linux_cooked_2,
}
"""Link type (tcpdump.org/linktypes) -> where the network layer begins: EtherType and offset."""


def _ipv4(data: bytes, at: int) -> tuple[int, int, int]:
    """Protocol, offset of the transport header and end of an IPv4 packet (RFC 791)."""
    if len(data) < at + 20 or data[at] >> 4 != 4:
        raise _UnusableError("malformed packet")
    header = (data[at] & 0x0F) * 4
    total = data[at + 2] << 8 | data[at + 3]
    if header < 20 or total < header:
        raise _UnusableError("malformed packet")
    if (data[at + 6] << 8 | data[at + 7]) & 0x3FFF:  # more fragments, or an offset
        raise _UnusableError("IP fragment")
    return data[at + 9], at + header, at + total


def _ipv6(data: bytes, at: int) -> tuple[int, int, int]:
    """Protocol, offset of the transport header and end of an IPv6 packet (RFC 8200)."""
    if len(data) < at + 40 or data[at] >> 4 != 6:
        raise _UnusableError("malformed packet")
    end = at + 40 + (data[at + 4] << 8 | data[at + 5])
    protocol = data[at + 6]
    at += 40
    while protocol in (0, 43, 60):  # hop-by-hop options, routing, destination options
        if len(data) < at + 8:
            raise _UnusableError("malformed packet")
        protocol, at = data[at], at + 8 + data[at + 1] * 8
    if protocol == 44:
        raise _UnusableError("IP fragment")
    return protocol, at, end
