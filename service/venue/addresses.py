"""What the texts of addresses say: host and port, and who can reach them."""

from __future__ import annotations

import ipaddress


def host_and_port(text: str) -> tuple[str, int]:
    """Host and port of `host:port`. ValueError with one line."""
    host, colon, port = text.rpartition(":")
    if not (colon and host and port.isascii() and port.isdigit() and 0 < int(port) <= 65_535):
        raise ValueError(f"expected host:port, not {text!r}")
    return host, int(port)


def is_loopback(host: str) -> bool:
    """A name other than localhost counts as reachable from outside."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def is_multicast(text: str) -> bool:
    """Whether this is the address of an IPv4 multicast group."""
    try:
        return ipaddress.IPv4Address(text).is_multicast
    except ValueError:
        return False


def is_unicast(text: str) -> bool:
    """Whether this is any other IPv4 address."""
    try:
        return not ipaddress.IPv4Address(text).is_multicast
    except ValueError:
        return False
