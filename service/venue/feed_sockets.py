"""The sockets of the feed: one or two lines, unicast or multicast, and the one that asks for lost messages."""

from __future__ import annotations

import errno
import logging
import socket
import struct
import sys
import time
from typing import Final, NamedTuple

from venue import config
from venue.addresses import host_and_port, is_multicast
from venue.engine.datagrams import DatagramReader

log = logging.getLogger("venue.feed")

# Linux has these, Python 3.11 does not name them: include/uapi/asm-generic/socket.h and linux/in.h
SO_RCVBUFFORCE: Final = 33
SO_MEMINFO: Final = 55
MEMINFO_DROPS: Final = 8
IP_ADD_SOURCE_MEMBERSHIP: Final = 39
IP_MULTICAST_ALL: Final = 49
LINUX: Final = sys.platform == "linux"


class FeedSockets(NamedTuple):
    """Non-blocking UDP sockets. Whoever holds them closes them; :class:`venue.feed.Feed` does once it has started."""

    lines: tuple[socket.socket, ...]
    """One or two, bound."""
    requests: socket.socket | None
    """Connected to the request server, if there is one."""

    def close(self) -> None:
        for open_socket in (*self.lines, *filter(None, [self.requests])):
            open_socket.close()


class FeedLine:
    """A socket and the batch of datagrams read from it last, of which those from ``index`` on are still to be done."""

    def __init__(self, number: int, line: socket.socket) -> None:
        self.number = number
        """0 or 1, or RECOVERY for the socket that brings answers to requests."""
        self.socket = line
        self.reader = DatagramReader(line.fileno())
        self.count = 0
        self.index = 0
        self.taken = 0
        """How many messages of datagram ``index`` have reached the ring."""
        self.ingress_ns = 0
        """Monotonic clock when the batch was read."""
        self.dropped = 0
        """What the kernel said last of :func:`dropped_datagrams`."""

    def read(self) -> None:
        self.count = self.reader.receive()
        self.index = 0
        self.ingress_ns = time.monotonic_ns()


def open_feed_sockets(settings: config.Feed) -> FeedSockets:
    """Open and bind them all, or none: OSError whose text is one line that names the address."""
    places = [("feed.group" if settings.group else "feed.port", settings.group or settings.host, settings.port)]
    if settings.line_b:
        places.append(("feed.line_b", *host_and_port(settings.line_b)))
    opened: list[socket.socket] = []
    try:
        for key, host, port in places:
            opened.append(_open_line(key, host, port, settings))
        requests = _open_requests(settings.request_server) if settings.request_server else None
    except OSError:
        for line in opened:
            line.close()
        raise
    return FeedSockets(tuple(opened), requests)


def _open_line(key: str, host: str, port: int, settings: config.Feed) -> socket.socket:
    family, address = _resolve(key, host, port)
    line = socket.socket(family, socket.SOCK_DGRAM)
    try:
        line.setblocking(False)
        _ask_for_buffer(line, settings.receive_buffer_bytes)
        if family == socket.AF_INET and is_multicast(address[0]):
            # Several may listen to a group. A unicast port is ours alone: a second service must hear that it is taken.
            line.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            line.bind(address)  # bound to the group, not to any address: only its packets arrive
            _join(line, address[0], settings.interface, settings.source)
        else:
            line.bind(address)
    except OSError as error:
        line.close()
        raise _wrong(key, host, port, error) from None
    return line


def _open_requests(server: str) -> socket.socket:
    host, port = host_and_port(server)
    family, address = _resolve("feed.request_server", host, port)
    requests = socket.socket(family, socket.SOCK_DGRAM)
    try:
        requests.setblocking(False)
        requests.connect(address)  # only this server's answers arrive
    except OSError as error:
        requests.close()
        raise _wrong("feed.request_server", host, port, error) from None
    return requests


def _wrong(key: str, host: str, port: int, error: OSError) -> OSError:
    """One line that names the key of the configuration that is to blame, or two where either may be."""
    hint = ""
    if error.errno == errno.ENODEV:
        key += " or feed.interface"
    elif key == "feed.port" and error.errno == errno.EADDRINUSE:
        hint = "; choose another with --feed-port, 0 = any"
    elif key == "feed.port" and (isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL):
        key = "feed.host"
    wrong = OSError(f"{key}: {host}:{port}: {(error.strerror or str(error)).lower()}{hint}")
    wrong.errno = error.errno
    return wrong


def _resolve(key: str, host: str, port: int) -> tuple[socket.AddressFamily, tuple[str, int]]:
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
    except OSError as error:
        raise _wrong(key, host, port, error) from None
    return family, (str(address[0]), int(address[1]))


def _join(line: socket.socket, group: str, interface: str, source: str) -> None:
    where = socket.inet_aton(interface or "0.0.0.0")
    if source:
        request = struct.pack("=4s4s4s", socket.inet_aton(group), where, socket.inet_aton(source))
        line.setsockopt(socket.IPPROTO_IP, IP_ADD_SOURCE_MEMBERSHIP, request)
    else:
        line.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton(group) + where)
    if LINUX:  # otherwise what others joined on another interface would arrive here too, from any source
        line.setsockopt(socket.IPPROTO_IP, IP_MULTICAST_ALL, 0)


def _ask_for_buffer(line: socket.socket, wanted_bytes: int) -> None:
    try:
        line.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE if LINUX else socket.SO_RCVBUF, wanted_bytes)
    except OSError:  # beyond the system's limit only with CAP_NET_ADMIN
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, wanted_bytes)
    if (granted := receive_buffer_bytes(line)) < wanted_bytes:
        hint = f"sysctl -w net.core.rmem_max={wanted_bytes}"
        log.warning("small receive buffer", extra={"bytes": granted, "wanted_bytes": wanted_bytes, "hint": hint})


def receive_buffer_bytes(line: socket.socket) -> int:
    """How much the kernel granted. Linux reports twice that, to count its own bookkeeping in."""
    return line.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) // (2 if LINUX else 1)


def dropped_datagrams(line: socket.socket) -> int:
    """How many datagrams the kernel has dropped since the socket was opened (32 bits wide); 0 where it does not say."""
    if not LINUX:
        return 0
    words = line.getsockopt(socket.SOL_SOCKET, SO_MEMINFO, 4 * (MEMINFO_DROPS + 1))
    return int.from_bytes(words[4 * MEMINFO_DROPS :], sys.byteorder)
