"""The network side of a replay: UDP sockets to send packets, one to answer re-requests, and a clock to wait by."""

from __future__ import annotations

import fcntl
import ipaddress
import select
import socket
import struct
import time
from collections.abc import Callable, Sequence
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


class Destination:
    """One address that packets go to, unicast or multicast; `on_refused` is called at the first refusal. OSError if the
    address is unknown or unreachable."""

    def __init__(
        self, to: tuple[str, int], interface: str | None, ttl: int, on_refused: Callable[[Destination], None]
    ) -> None:
        try:
            family, kind, protocol, _, address = socket.getaddrinfo(*to, type=socket.SOCK_DGRAM)[0]
        except OSError as error:
            raise OSError(f"cannot send to {to[0]}: {error.strerror}") from error
        self.family: int = family
        self.address = (str(address[0]), int(address[1]))
        self.refused = 0
        """Packets that the other host refused because nothing listened there."""
        self.sent = 0
        """Packets that went out, with those that were refused then."""
        self._on_refused = on_refused
        self._socket = socket.socket(family, kind, protocol)
        try:
            if self.is_multicast:
                _set_multicast(self._socket, family, interface, ttl)
            self._socket.connect(address)
        except OSError:
            self.close()
            raise
        self.local: tuple[Any, ...] = self._socket.getsockname()

    @property
    def is_multicast(self) -> bool:
        return ipaddress.ip_address(self.address[0].partition("%")[0]).is_multicast

    @property
    def nobody_heard(self) -> bool:
        """Whether every packet was refused; what became of the last one shows with the next."""
        return 0 < self.refused >= self.sent - 1

    def send(self, packet: bytes) -> None:
        for _ in range(2):  # a refusal reported here is that of an earlier packet: this one has not gone out
            try:
                self._socket.send(packet)
            except ConnectionRefusedError:
                self.refused += 1
                if self.refused == 1:
                    self._on_refused(self)
            else:
                self.sent += 1
                return

    def close(self) -> None:
        self._socket.close()


class UdpLine:
    """A Line over real sockets. `to` is a unicast or a multicast address; requests are answered at `request_address`.
    Every packet also goes to each of the `copies`: two receivers of one host cannot share a unicast port.

    `interface` (a name, or for IPv4 also an address) and `ttl` say where multicast goes and how far; `ttl` 0 stays on
    this host, 1 on this network. The request server listens on the local address that packets to `to` leave from. One
    thread may use it, except for `wake`; `on_refused` is called in it, once for each destination where nobody
    listens. OSError when an address is unknown, unreachable or in use.
    """

    def __init__(
        self,
        to: tuple[str, int],
        *,
        copies: Sequence[tuple[str, int]] = (),
        interface: str | None = None,
        ttl: int = 1,
        request_port: int = 0,
        on_refused: Callable[[Destination], None] = lambda destination: None,
    ) -> None:
        self.destinations: list[Destination] = []
        """The feed proper, then the copies."""
        self._interface, self._ttl, self._on_refused = interface, ttl, on_refused
        self._wake_in, self._wake_out = socket.socketpair()
        self._sockets = [self._wake_in, self._wake_out]
        try:
            for each in (to, *copies):
                self.also_to(each)
            if interface is not None and not any(each.is_multicast for each in self.destinations):
                raise OSError(f"{to[0]} is no multicast address: an interface cannot be chosen for it")
            feed = self.destinations[0]
            self._requests = socket.socket(feed.family, socket.SOCK_DGRAM)
            self._sockets.append(self._requests)
            try:
                self._requests.bind((feed.local[0], request_port, *feed.local[2:]))
            except OSError as error:
                reason = f"cannot answer requests at {feed.local[0]}:{request_port}: {error.strerror}"
                raise OSError(reason) from error
        except OSError:
            self.close()
            raise
        for sock in self._sockets:
            sock.setblocking(False)
        self.request_address: tuple[str, int] = self._requests.getsockname()[:2]

    @property
    def to(self) -> tuple[str, int]:
        """Where the feed proper goes."""
        return self.destinations[0].address

    def also_to(self, copy: tuple[str, int]) -> None:
        """One more destination, before the first packet goes out."""
        self.destinations.append(Destination(copy, self._interface, self._ttl, self._on_refused))

    def now_ns(self) -> int:
        return time.monotonic_ns()

    def send(self, packet: bytes) -> None:
        for destination in self.destinations:
            destination.send(packet)

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
        for destination in self.destinations:
            destination.close()
        for sock in self._sockets:
            sock.close()

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
