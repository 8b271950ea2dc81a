"""Market data as a client hears it: a MoldUDP64 feed of ITCH messages, unicast or multicast, on asyncio or uvloop.

    feed = await MarketData.listen("127.0.0.1:26478", ["AAPL"], on_touch=lambda symbol, touch: print(symbol, touch))

Two processes of one host cannot share a unicast port: each needs a copy of the feed, or the feed is multicast.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import time
from collections.abc import Callable, Iterable
from typing import Final, Self, cast

from venue.wire import moldudp64
from venue.wire.moldudp64 import (
    Deliver,
    EndOfSession,
    FeedEvent,
    MessagesLost,
    Receiver,
    Request,
    RequestGap,
    SessionStarted,
)
from venue_clients.touch import Touch, TouchBooks

SECOND_NS: Final = 1_000_000_000
RECEIVE_BUFFER_BYTES: Final = 4 << 20

OnTouch = Callable[[str, Touch], None]


class FeedError(Exception):
    """An address that cannot be listened to; one line."""


class MarketData(asyncio.DatagramProtocol):
    """Keeps the touch of the stocks asked for and reports each change of it, after every datagram at most once.

    Without a re-request server what is lost is lost, and the touch may be wrong until the next session: `lost` counts
    such messages. With one, a session that has begun before us is asked for from its first message on."""

    def __init__(self, symbols: Iterable[str], on_touch: OnTouch) -> None:
        """Use `listen`."""
        self.books = TouchBooks(symbols)
        self.address: tuple[str, int] = ("", 0)
        self.messages = 0
        self.lost = 0
        self.session = ""
        self.ended = False
        """The feed has said that the session is over."""
        self._on_touch = on_touch
        self._touches: dict[str, Touch] = {}
        self._request_server: tuple[str, int] | None = None
        self._receiver = Receiver(join="now", request_server=False)
        self._transport: asyncio.DatagramTransport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._gone = asyncio.Event()

    @classmethod
    async def listen(
        cls,
        address: str,
        symbols: Iterable[str],
        on_touch: OnTouch = lambda symbol, touch: None,
        *,
        interface: str = "",
        request_server: str = "",
    ) -> Self:
        """Listen at `host:port` (port 0 = any free one) or to the group `group:port`, which is joined at the interface
        with the address `interface`, or at the system's choice. Raises FeedError."""
        feed = cls(symbols, on_touch)
        if request_server:
            feed.recover_from(_host_port(request_server))
        sock = _open(*_host_port(address), interface)
        await asyncio.get_running_loop().create_datagram_endpoint(lambda: feed, sock=sock)
        return feed

    def recover_from(self, request_server: tuple[str, int]) -> None:
        """Ask there for what gets lost. Before the first datagram."""
        self._request_server = request_server
        self._receiver = Receiver(join="start", request_server=True)

    def touch(self, symbol: str) -> Touch:
        return self.books.touch(symbol)

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None:
            self._transport.close()
            await self._gone.wait()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)
        self.address = self._transport.get_extra_info("sockname")[:2]

    def connection_lost(self, exc: Exception | None) -> None:
        self._gone.set()

    def error_received(self, exc: Exception) -> None:
        """A request met a closed port: the receiver asks again, and gives up in the end."""

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        line = moldudp64.RECOVERY if addr == self._request_server else 0
        self._handle(self._receiver.receive(line, data, time.monotonic_ns()))

    def _handle(self, events: list[FeedEvent]) -> None:
        for event in events:
            match event:
                case Deliver():
                    self.messages += event.count
                    for message in event.messages:
                        self.books.apply(message)
                case SessionStarted():
                    self.session, self.ended = event.session, False
                    self.books.clear()
                case MessagesLost():
                    self.lost += event.count
                case RequestGap() if self._transport is not None:
                    request = Request(event.session, event.first, event.count).encode()
                    self._transport.sendto(request, self._request_server)
                case EndOfSession():
                    self.ended = True
        self._report()
        self._arm()

    def _report(self) -> None:
        for symbol in self.books.changed:
            touch = self.books.touch(symbol)
            if touch != self._touches.get(symbol, Touch()):
                self._touches[symbol] = touch
                self._on_touch(symbol, touch)
        self.books.changed.clear()

    def _arm(self) -> None:
        due = self._receiver.next_timer()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if due is not None:
            wait_s = max(0, due - time.monotonic_ns()) / SECOND_NS
            self._timer = asyncio.get_running_loop().call_later(wait_s, self._tick)

    def _tick(self) -> None:
        self._handle(self._receiver.handle_timer(time.monotonic_ns()))


def _host_port(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not (colon and host and port.isascii() and port.isdigit() and int(port) <= 65_535):
        raise FeedError(f"expected host:port, not {text!r}")
    return host, int(port)


def _open(host: str, port: int, interface: str) -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
        if _is_multicast(host):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind((host, port))
            member = socket.inet_aton(host) + socket.inet_aton(interface or "0.0.0.0")
            sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, member)
        else:
            sock.bind((host, port))
    except OSError as error:
        sock.close()
        raise FeedError(f"cannot listen at {host}:{port}: {(error.strerror or str(error)).lower()}") from None
    return sock


def _is_multicast(host: str) -> bool:
    try:
        return ipaddress.IPv4Address(host).is_multicast
    except ValueError:
        return False
