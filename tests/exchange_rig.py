"""A whole exchange in the test's process: real sockets, a real matching thread, gateway and feed on the test's uvloop.

    @with_exchange(engine={"mode": "match"})
    async def test_two_clients_trade(venue: Venue) -> None:
        seller, buyer = await venue.login("ALPHA"), await venue.login("BETA")
        assert await seller.hear(enter(1, "S", 5, 100_0000)) == ["accepted 1: S 5 @ 1000000"]

Only the signals, the telemetry process and the command line of `venue serve` are missing. Nothing sleeps to wait:
`Venue.until` polls a condition and fails at a deadline.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import os
import socket
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

import uvloop

from engine_under_test import BooksView
from exchange import Levels
from gateway_rig import NAMES, PASSWORD, SESSION, Client, password_hash
from venue import app, config
from venue.engine import ring
from venue.telemetry import page as pages
from venue.wire import itch, ouch
from venue.wire.moldudp64 import encode_packet
from venue.wire.soupbintcp import LoginAccepted, frame
from venue_clients.capture import open_capture
from venue_clients.faults import Faults
from venue_clients.line import Line, UdpLine
from venue_clients.replay import Replay, ReplayStats
from venue_clients.trading import TradingClient

PATIENCE_S = 30.0
DEFAULTS: dict[str, dict[str, Any]] = {
    "orders": {"port": 0, "session": SESSION, "max_store_bytes": 24 << 20},
    "http": {"port": 0},
    "engine": {
        "orders": 1 << 14,
        "levels": 1 << 13,
        "instruments": 400,
        "orders_per_account": 1 << 13,
        "command_ring": 1 << 12,
        "event_ring": 1 << 12,
    },
    "instruments": {"symbols": ["AAPL", "MSFT"]},
}


def free_udp_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def accounts(*changes: dict[str, Any]) -> list[dict[str, Any]]:
    """ALPHA, BETA and GAMMA as the configuration has them; the first of ``changes`` is for ALPHA, and so on."""
    padded = [*changes, {}, {}, {}]
    return [{"username": name, "password_hash": password_hash(), **padded[at]} for at, name in enumerate(NAMES)]


class Venue:
    """The running exchange, and what a test asks of it."""

    def __init__(self, folder: Path, sections: dict[str, Any]) -> None:
        """Everything is connected, nothing runs. The request server of `replay` is there before the feed's sockets."""
        self._matching: list[threading.Thread] = []
        self._stopped = False
        self._replays = 0
        self._told = 0
        self.clients = contextlib.ExitStack()
        """Closes the sockets of clients."""
        with contextlib.ExitStack() as opened:
            self.line = opened.enter_context(UdpLine(("127.0.0.1", free_udp_port())))
            feed = {"port": self.line.to[1], "request_server": "{}:{}".format(*self.line.request_address)}
            self.second_line: UdpLine | None = None
            if sections.pop("two_lines", False):
                self.second_line = opened.enter_context(UdpLine(("127.0.0.1", free_udp_port())))
                feed["line_b"] = "{}:{}".format(*self.second_line.to)
            table = {name: given | sections.pop(name, {}) for name, given in (DEFAULTS | {"feed": feed}).items()}
            self.config = config.parse({"accounts": accounts(), **table, **sections})
            self.sockets = opened.enter_context(contextlib.closing(app.open_sockets(self.config)))
            names = [account.username for account in self.config.accounts]
            self.page = pages.create(
                mode=self.config.engine.mode, accounts=names, shards=self.config.engine.shards, folder=folder
            )
            opened.callback(self.page.remove)
            self._assemble()
            self.closing = opened.pop_all()
            """Closes what a test puts on it, too."""

    def _assemble(self) -> None:
        self.exchange = app.assemble(self.config, self.page)
        app.compile_kernels(self.exchange, contextlib.ExitStack())
        self.feed, self.gateway, self.matchers = self.exchange.feed, self.exchange.gateway, self.exchange.matchers
        self.instruments = self.exchange.instruments
        mode = app.MODES[self.config.engine.mode]
        self.views = [BooksView(matcher.books, mode) for matcher in self.matchers]
        self.view = self.views[0]
        """Of the first matching thread."""
        self.port: int = self.sockets.orders.getsockname()[1]

    # --- life -----------------------------------------------------------------------------------------------------

    def start_matching(self) -> None:
        if not self._matching:
            self._matching = [app.start_matching(matcher) for matcher in self.matchers]

    async def stop(self) -> None:
        """As the service stops; once is enough."""
        if not self._stopped:
            self._stopped = True
            self.start_matching()
            await app.stop(self.exchange, self._matching)
            assert not any(thread.is_alive() for thread in self._matching)

    def close(self) -> None:
        self.closing.close()
        link = self.exchange.link
        for descriptor in {link.command_wake, link.event_wake, *(int(m.wait[1]) for m in self.matchers)}:
            os.close(descriptor)

    # --- waiting --------------------------------------------------------------------------------------------------

    async def until(self, condition: Callable[[], bool], why: str = "") -> None:
        """Let the loop run until something holds, and fail if it does not in time."""
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            if time.monotonic() > deadline:
                fed = self.feed and (self.feed.status(), self.fed)
                raise AssertionError(f"in vain: {why or inspect.getsource(condition)}; {fed}, {self.view.counters()}")
            await asyncio.sleep(0.0005)

    async def until_fed(self, messages: int) -> None:
        """Until the books have taken in so many messages of the feed, all in all."""
        await self.until(lambda: self.fed >= messages, f"{messages} messages")
        assert self.fed == messages
        await self.until_applied()

    async def until_applied(self) -> None:
        """Until every command on the rings has been applied."""
        await self.until(lambda: not any(ring.depth(queue) for queue in self.exchange.queues))

    # --- figures --------------------------------------------------------------------------------------------------

    @property
    def fed(self) -> int:
        """Messages of the feed that are on the command ring, or behind it."""
        return int(self.page.feed[0]["messages"].sum())

    def count(self, name: str, section: str = "gateway") -> int:
        return int(getattr(self.page, section)[0][name])

    def book(self, symbol: str = "AAPL") -> tuple[Levels, Levels]:
        """Bids and asks: (price, its queue of (reference, open shares, is an own order)). For a matcher at rest."""
        return self._book(self.instruments.index(symbol))

    def _book(self, instrument: int) -> tuple[Levels, Levels]:
        return self.views[instrument % len(self.views)].book(instrument)

    def books(self) -> dict[str, tuple[Levels, Levels]]:
        """Every book by symbol, each order in its place. For a matcher at rest."""
        return {self.instruments.symbol(number): self._book(number) for number in range(self.instruments.count)}

    def stream(self, username: str = "ALPHA") -> bytes:
        """All that an account was ever sent, as it goes out on the wire."""
        stream = self.gateway.store.streams[NAMES.index(username)]
        return bytes(stream.slice(0, stream.size_bytes))

    # --- the other side -------------------------------------------------------------------------------------------

    async def replay(self, path: Path, *, line: Line | None = None, faults: Faults | None = None) -> ReplayStats:
        """Replay a file over UDP at maximum speed; returns when the exchange has taken all of it in."""
        self._replays += 1
        session = f"REPLAY{self._replays}"
        player = Replay(
            open_capture(path), line or self.line, speed=None, faults=faults, session=session, linger_s=PATIENCE_S
        )
        before, stats = self.fed, player.stats
        sending = asyncio.create_task(asyncio.to_thread(player.run))
        try:
            await self.until(lambda: sending.done() or (stats.loops > 0 and self.fed == before + stats.messages))
        finally:
            player.stop()
            await sending
        await self.until_applied()
        return stats

    async def tell(self, *messages: itch.ItchMessage) -> None:
        """Messages of a recorded day that goes on from call to call; returns when the books have taken them in."""
        before, data = self.fed, [message.encode() for message in messages]
        self.line.send(encode_packet("STORY", self._told + 1, data))
        self._told += len(data)
        await self.until_fed(before + len(data))

    async def connect(self, receive_buffer_bytes: int = 0) -> Trader:
        """A socket that has not logged in."""
        sock = self.clients.enter_context(socket.socket())
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if receive_buffer_bytes:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", self.port))
        return Trader(sock)

    async def login(self, username: str = "ALPHA", sequence: int = 0, receive_buffer_bytes: int = 0) -> Trader:
        """A raw client that gets its messages from number ``sequence`` on; 0 = from now."""
        client = await self.connect(receive_buffer_bytes)
        answer = await client.login(username, sequence=sequence)
        assert isinstance(answer, LoginAccepted), answer
        return client

    async def client(self, username: str = "ALPHA", sequence: int = 1) -> TradingClient:
        """The trading client that comes with the project."""
        return await TradingClient.connect("127.0.0.1", self.port, username, PASSWORD, sequence=sequence)


class Trader(Client):
    """A socket that says what it hears in the words of a trader."""

    async def hear(self, *packets: bytes) -> list[str]:
        """Send packets; everything that the exchange says until it has handled the last of them."""
        await self.send(b"".join(packets) + QUERY)
        heard = []
        while not isinstance(message := await self.message(), ouch.AccountQueryResponse):
            heard.append(say(message))
        return heard

    async def message(self) -> ouch.OutboundMessage:
        """The next message, heartbeats aside."""
        while (body := await self.next()) == b"H":
            pass
        assert body[:1] == b"S", body
        return ouch.decode_outbound(body[1:])


# --- packets of a client ------------------------------------------------------------------------------------------

MARKET = 0x7FFFFFFF


def packet(message: ouch.InboundMessage) -> bytes:
    return frame(b"U", message.encode())


QUERY = packet(ouch.AccountQuery())


def enter(
    number: int,
    side: str,
    quantity: int,
    price: int,
    *,
    symbol: str = "AAPL",
    tif: str = "0",
    options: Iterable[ouch.TagValue] = (),
    **fields: str,
) -> bytes:
    return packet(
        ouch.EnterOrder(
            user_ref_num=number,
            side=side,
            quantity=quantity,
            symbol=symbol,
            price=price,
            time_in_force=tif,
            appendage=tuple(options),
            cl_ord_id=f"order {number}",
            **{"display": "Y", "capacity": "P", "intermarket_sweep_eligibility": "N", "cross_type": "N"} | fields,
        )
    )


def replace(original: int, number: int, quantity: int, price: int, *, tif: str = "0") -> bytes:
    return packet(
        ouch.ReplaceOrder(
            orig_user_ref_num=original,
            user_ref_num=number,
            quantity=quantity,
            price=price,
            time_in_force=tif,
            display="Y",
            intermarket_sweep_eligibility="N",
            cl_ord_id=f"order {number}",
        )
    )


def cancel(number: int, intended: int = 0) -> bytes:
    return packet(ouch.CancelOrder(user_ref_num=number, quantity=intended))


def modify(number: int, side: str, quantity: int) -> bytes:
    return packet(ouch.ModifyOrder(user_ref_num=number, side=side, quantity=quantity))


def say(message: ouch.OutboundMessage) -> str:
    """A message in one line, without times and references."""
    match message:
        case ouch.Accepted():
            return f"accepted {message.user_ref_num}: {message.side} {message.quantity} @ {message.price}"
        case ouch.Replaced():
            numbers = f"{message.orig_user_ref_num} by {message.user_ref_num}"
            return f"replaced {numbers}: {message.side} {message.quantity} @ {message.price}"
        case ouch.Executed():
            return f"executed {message.user_ref_num}: {message.quantity} @ {message.price} {message.liquidity_flag}"
        case ouch.Canceled():
            return f"canceled {message.user_ref_num}: {message.quantity} {message.reason}"
        case ouch.Rejected():
            return f"rejected {message.user_ref_num}: {ouch.RejectReason(message.reason).name}"
        case ouch.Modified():
            return f"modified {message.user_ref_num}: {message.side} {message.quantity}"
        case ouch.SystemEvent():
            return f"system event {message.event_code}"
        case ouch.AccountQueryResponse():
            return f"next number {message.next_user_ref_num}"
    raise AssertionError(message)


# --- tests --------------------------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def running(folder: Path, *, matching: bool = True, **sections: Any) -> AsyncIterator[Venue]:
    """A running exchange; ``sections`` change the configuration. With ``matching=False`` its thread starts later."""
    venue = Venue(folder, sections)
    loop = asyncio.get_running_loop()
    faults: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: faults.append(context))
    try:
        if matching:
            venue.start_matching()
        await app.open_doors(venue.exchange, venue.sockets)
        if matching:
            await venue.until(lambda: all(stream.count for stream in venue.gateway.store.streams))
        try:
            yield venue
        finally:
            venue.clients.close()  # first: a stop waits for clients that have not gone
            await venue.stop()
    finally:
        venue.close()
    assert not faults, "an exception in a callback of the loop"


def with_exchange(**options: Any) -> Callable[[Callable[..., Awaitable[None]]], Callable[..., None]]:
    """Run an async test against a running exchange on uvloop; it gets the Venue, and what else it asks pytest for."""

    def decorate(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
        fixtures = list(inspect.signature(test).parameters)[1:]

        async def main(values: dict[str, Any], folder: Path) -> None:
            # the first test may have to compile its kernels, for as long as that takes
            async with running(folder, **options) as venue, asyncio.timeout(2 * PATIENCE_S):
                await test(venue, **{name: values[name] for name in fixtures})

        @functools.wraps(test)
        def run(**values: Any) -> None:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(main(values, values["tmp_path"] / "pages"))

        names = dict.fromkeys(["tmp_path", *fixtures])
        parameters = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in names]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what pytest asks for
        return run

    return decorate
