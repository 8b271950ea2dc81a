"""The network side of a replay: one UDP socket to send packets, one to answer re-requests, and a clock to wait by."""

from __future__ import annotations

import fcntl
import ipaddress
import select
import socket
import struct
import time
from contextlib import suppress
from types import TracebackType
from typing import Any, Protocol, Self

Address = Any
"""Where a request came from, as the socket module gives it."""

_REQUESTS_AT_ONCE = 64
_SIOCGIFADDR = 0x8915


class Line(Protocol):
    """What a replay needs of the outside world. Times are ns of one monotonic clock."""

    def now_ns(self) -> int: ...

    def send(self, packet: bytes) -> None: ...

    def reply(self, packet: bytes, address: Address) -> None: ...

    def wait(self, until_ns: int) -> list[tuple[bytes, Address]]:
        """Requests that have arrived. Returns as soon as there are any, at `until_ns`, or early when woken."""

    def wake(self) -> None:
        """End the current or next wait; any thread and a signal handler may call it."""


class UdpLine:
    """A Line over real sockets. `to` is a unicast or a multicast address; requests are answered at `request_address`.

    `interface` (a name, or for IPv4 also an address) and `ttl` say where multicast goes and how far; `ttl` 0 stays on
    this host, 1 on this network. The request server listens on the local address that packets leave from. One thread
    may use it, except for `wake`. OSError when an address is unknown, unreachable or in use.
    """

    def __init__(
        self, to: tuple[str, int], *, interface: str | None = None, ttl: int = 1, request_port: int = 0
    ) -> None:
        try:
            family, kind, protocol, _, address = socket.getaddrinfo(*to, type=socket.SOCK_DGRAM)[0]
        except OSError as error:
            raise OSError(f"cannot send to {to[0]}: {error.strerror}") from error
        self.refused = 0
        """Packets that the other host refused because nothing listened there."""
        self._out = socket.socket(family, kind, protocol)
        self._requests = socket.socket(family, kind, protocol)
        self._wake_in, self._wake_out = socket.socketpair()
        try:
            if ipaddress.ip_address(str(address[0]).partition("%")[0]).is_multicast:
                _set_multicast(self._out, family, interface, ttl)
            elif interface is not None:
                raise OSError(f"{to[0]} is no multicast address: an interface cannot be chosen for it")
            self._out.connect(address)
            local = self._out.getsockname()
            try:
                self._requests.bind((local[0], request_port, *local[2:]))
            except OSError as error:
                reason = f"cannot answer requests at {local[0]}:{request_port}: {error.strerror}"
                raise OSError(reason) from error
        except OSError:
            self.close()
            raise
        for each in (self._requests, self._wake_in, self._wake_out):
            each.setblocking(False)
        self.to = (str(address[0]), int(address[1]))
        self.request_address: tuple[str, int] = self._requests.getsockname()[:2]

    def now_ns(self) -> int:
        return time.monotonic_ns()

    def send(self, packet: bytes) -> None:
        for _ in range(2):  # a refusal reported here is that of an earlier packet: this one has not gone out
            try:
                self._out.send(packet)
            except ConnectionRefusedError:
                self.refused += 1
            else:
                return

    def reply(self, packet: bytes, address: Address) -> None:
        with suppress(OSError):  # a full buffer or an address that cannot be reached: whoever asked will ask again
            self._requests.sendto(packet, address)

    def wait(self, until_ns: int) -> list[tuple[bytes, Address]]:
        timeout_s = max(0, until_ns - time.monotonic_ns()) / 1e9
        readable, _, _ = select.select([self._requests, self._wake_in], [], [], timeout_s)
        with suppress(OSError):
            if self._wake_in in readable:
                self._wake_in.recv(64)
        arrived: list[tuple[bytes, Address]] = []
        if self._requests in readable:
            with suppress(OSError):
                while len(arrived) < _REQUESTS_AT_ONCE:
                    arrived.append(self._requests.recvfrom(2_048))
        return arrived

    def wake(self) -> None:
        with suppress(OSError):
            self._wake_out.send(b"w")

    def close(self) -> None:
        for each in (self._out, self._requests, self._wake_in, self._wake_out):
            each.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _set_multicast(sock: socket.socket, family: int, interface: str | None, ttl: int) -> None:
    if family == socket.AF_INET:
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, ttl)
        if interface is not None:
            sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, _ipv4_address(sock, interface))
    else:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, ttl)
        if interface is not None:
            try:
                index = socket.if_nametoindex(interface)
            except OSError as error:
                raise OSError(f"no network interface {interface!r}") from error
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, index)


def _ipv4_address(sock: socket.socket, interface: str) -> bytes:
    """The four bytes of an address, given as such or as the name of the interface that has it (netdevice(7))."""
    with suppress(OSError):
        return socket.inet_pton(socket.AF_INET, interface)
    try:
        return fcntl.ioctl(sock.fileno(), _SIOCGIFADDR, struct.pack("256s", interface.encode()[:15]))[20:24]
    except OSError as error:
        raise OSError(f"no network interface {interface!r} with an IPv4 address") from error
