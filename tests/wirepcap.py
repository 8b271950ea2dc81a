"""TCP and UDP payloads out of classic pcap files over Ethernet: just enough to read captures in tests."""

import struct
from collections.abc import Iterator
from pathlib import Path

_ORDER = {
    b"\xd4\xc3\xb2\xa1": "<",
    b"\x4d\x3c\xb2\xa1": "<",
    b"\xa1\xb2\xc3\xd4": ">",
    b"\xa1\xb2\x3c\x4d": ">",
}


def payloads(path: Path) -> Iterator[bytes]:
    data = path.read_bytes()
    order = _ORDER[data[:4]]
    at = 24
    while at < len(data):
        (captured,) = struct.unpack_from(order + "I", data, at + 8)
        yield _payload(data[at + 16 : at + 16 + captured])
        at += 16 + captured


def _payload(ethernet: bytes) -> bytes:
    at = 12
    while ethernet[at : at + 2] == b"\x81\x00":  # VLAN tag
        at += 4
    assert ethernet[at : at + 2] == b"\x08\x00", "not IPv4"
    ip = ethernet[at + 2 :]
    ip = ip[: int.from_bytes(ip[2:4], "big")]  # without the padding of short Ethernet frames
    inner = ip[(ip[0] & 15) * 4 :]
    return inner[8:] if ip[9] == 17 else inner[(inner[12] >> 4) * 4 :]
