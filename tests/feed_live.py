"""A Feed on real loopback sockets; the test is the sender, the request server and the matching thread."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import msgspec
import uvloop

from feed_rig import counted, drain
from venue import config
from venue.engine import ring
from venue.engine.link import Link
from venue.engine.records import COMMAND, DELETE, EVENT
from venue.feed import Feed
from venue.feed_sockets import open_feed_sockets
from venue.instruments import Instruments
from venue.telemetry import page as pages
from venue.wire import itch
from venue.wire.moldudp64 import MessageStore, Request, encode_packet

PATIENCE_S = 20.0


def message(number: int) -> bytes:
    """The message of this number in the made-up sessions: its reference says which it is."""
    head = {"stock_locate": 1, "tracking_number": 0, "timestamp": number}
    return itch.OrderDelete(**head, order_reference_number=number).encode()


def packet(first: int, count: int, session: str = "S1") -> bytes:
    return encode_packet(session, first, [message(number) for number in range(first, first + count)])


def udp() -> socket.socket:
    """A bound, non-blocking socket on loopback."""
    new = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    new.bind(("127.0.0.1", 0))
    new.setblocking(False)
    return new


def address_of(bound: socket.socket) -> str:
    host, port = bound.getsockname()
    return f"{host}:{port}"


class LiveFeed:
    """Use as an async context manager; ``settings`` are those of ``config.Feed``."""

    def __init__(
        self, folder: Path, *, ring_capacity: int = 1 << 12, stocks: int = 8, lines: int = 1, **settings: Any
    ) -> None:
        if lines == 2:
            with udp() as second:
                settings["line_b"] = address_of(second)  # a free port, which the feed binds in a moment
        self.settings = msgspec.convert({"port": 0, "join": "now"} | settings, config.Feed)
        self.page = pages.create(mode="consume", folder=folder)
        self.instruments = Instruments(stocks)
        self.link = Link(ring.create(ring_capacity, COMMAND), ring.create(2, EVENT), command_wake=-1, event_wake=-1)
        self.feed = Feed(self.link, self.page, self.instruments, self.settings, market_offset_ns=0)
        self.sender = udp()
        self.seen: list[dict[str, int]] = []

    async def __aenter__(self) -> LiveFeed:
        self.sockets = open_feed_sockets(self.settings)
        self.feed.start(self.sockets)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.feed.stop()
        self.sender.close()
        self.page.remove()

    def send(self, *datagrams: bytes, line: int = 0) -> None:
        """They are in the feed's socket when this returns."""
        for datagram in datagrams:
            self.sender.sendto(datagram, self.sockets.lines[line].getsockname())

    def take(self) -> None:
        """What the matching thread would do: read everything on the ring."""
        self.seen += drain(self.link.commands)

    async def until(self, done: Callable[[], bool], taking: bool = True) -> None:
        """Let the loop run, and read the ring, until ``done``. A test that waits in vain says what it has seen."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                while not done():
                    await asyncio.sleep(0)
                    if taking:
                        self.take()
        except TimeoutError:
            raise AssertionError(f"still not: {self.counted()}, numbers {self.numbers[-20:]}") from None

    async def until_counted(self, **counters: int) -> None:
        await self.until(lambda: all(int(self.page.feed[0][name]) >= value for name, value in counters.items()))

    async def until_number(self, number: int) -> None:
        """Until the message of this number has come out."""
        await self.until(lambda: bool(self.numbers) and self.numbers[-1] >= number)

    @property
    def numbers(self) -> list[int]:
        """Which of the made-up messages have come out, in order."""
        return [row["word0"] for row in self.seen if row["kind"] == DELETE]

    @property
    def kinds(self) -> list[int]:
        return [row["kind"] for row in self.seen]

    def counted(self) -> dict[str, int]:
        gauges = ("receive_buffer_bytes", "next_sequence", "bytes")
        return {name: value for name, value in counted(self.page.feed).items() if name not in gauges}


class RequestServer:
    """Answers from a store, except for requests that ``loses`` by their count from 0. Runs in the test's loop."""

    def __init__(self, store: MessageStore, loses: Callable[[int], bool] = lambda request: False) -> None:
        self.socket = udp()
        self.address = address_of(self.socket)
        self.requests: list[tuple[int, int]] = []
        self._store = store
        self._loses = loses

    def __enter__(self) -> RequestServer:
        asyncio.get_running_loop().add_reader(self.socket, self._answer)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.get_running_loop().remove_reader(self.socket)
        self.socket.close()

    def _answer(self) -> None:
        data, sender = self.socket.recvfrom(100)
        request = Request.decode(data)
        lost = self._loses(len(self.requests))
        self.requests.append((request.sequence, request.count))
        if not lost and (answer := self._store.answer(data)):
            self.socket.sendto(answer, sender)


def store_of(count: int, session: str = "S1") -> MessageStore:
    store = MessageStore(session)
    for number in range(1, count + 1):
        store.append(message(number))
    return store


def run(story: Coroutine[Any, Any, None]) -> None:
    """As the service runs it: on uvloop."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(story)
