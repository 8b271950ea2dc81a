"""A gateway on a real loopback socket, with a matcher of a few lines behind its rings and a clock that stands still."""

from __future__ import annotations

import asyncio
import functools
import os
import socket
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import uvloop

from venue import passwords
from venue.config import Account, Orders
from venue.engine import records as r
from venue.engine import ring, system
from venue.engine.link import Link
from venue.gateway import Gateway
from venue.instruments import Instruments
from venue.telemetry import page as pages
from venue.wire import ouch
from venue.wire.soupbintcp import FrameReader, LoginAccepted, LoginRejected, LoginRequest, frame, packet

SECOND_NS = 1_000_000_000
START_NS = 1_000 * SECOND_NS
OFFSET_NS = 33_000 * SECOND_NS
SESSION = "TODAY"
PASSWORD = "Secret"
NAMES = ("ALPHA", "BETA", "GAMMA")
TIMEOUT_S = 30.0


@functools.cache
def password_hash() -> str:
    """A hash that is checked in no time."""
    cost, passwords.LOG2_COST = passwords.LOG2_COST, 2  # type: ignore[misc]
    try:
        return passwords.hash_password(PASSWORD)
    finally:
        passwords.LOG2_COST = cost  # type: ignore[misc]


def accounts(**changes: Any) -> list[Account]:
    return [Account(username=name, password_hash=password_hash(), firm=name[:4], **changes) for name in NAMES]


DAY_STARTS = ouch.SystemEvent(timestamp=START_NS + OFFSET_NS, event_code="S")


def accepted(number: int) -> ouch.Accepted:
    """What the matcher below answers to :func:`order`."""
    return ouch.Accepted(
        timestamp=START_NS + OFFSET_NS,
        user_ref_num=number,
        side="B",
        quantity=100,
        symbol="AAPL",
        price=1_000_000,
        time_in_force="0",
        display="Y",
        order_reference_number=r.FIRST_OWN_REFERENCE,
        capacity="P",
        intermarket_sweep_eligibility="N",
        cross_type="N",
        order_state="L",
        cl_ord_id=f"order {number}",
    )


def canceled(number: int, reason: str = "U") -> ouch.Canceled:
    return ouch.Canceled(timestamp=START_NS + OFFSET_NS, user_ref_num=number, quantity=100, reason=reason)


class Matcher:
    """Accepts every order, cancels on request, and never trades. It runs whenever commands wake it, or on demand."""

    def __init__(self, link: Link, commands_read: int) -> None:
        self.link = link
        self.commands_read = commands_read
        self.stalled = False
        self.seen: list[tuple[int, int, int]] = []
        """(kind, account, user_ref or detail) of each command."""
        self.open: dict[tuple[int, int], int] = {}

    def woken(self) -> None:
        os.read(self.commands_read, 8)
        self.run()

    def run(self) -> None:
        commands = self.link.commands
        while not self.stalled:
            for _ in range(ring.available(commands)):
                self.handle(commands.records[ring.read_position(commands, 0)].copy())
                ring.release(commands, 1)
            if ring.park(commands):
                return

    def handle(self, command: Any) -> None:
        kind, account, number = int(command["kind"]), int(command["account"]), int(command["user_ref"])
        own_service = kind in (r.CANCEL_ALL, r.SET_KILL_SWITCH, r.DAY_EVENT)
        self.seen.append((kind, account, int(command["detail"]) if own_service else number))
        if kind == r.ENTER and command["detail"]:
            self.emit(command, r.REJECTED, user_ref=number, detail=int(command["detail"]))
        elif kind == r.ENTER:
            self.open[account, number] = int(command["quantity"])
            self.emit(command, r.ACCEPTED, user_ref=number, detail=ord("L"))
        elif kind == r.CANCEL and (account, number) in self.open:
            self.emit(command, r.CANCELED, user_ref=number, quantity=self.open.pop((account, number)), detail=ord("U"))
        elif kind == r.QUERY:
            self.emit(command, r.QUERY_RESPONSE, user_ref=1 + max((n for a, n in self.open if a == account), default=0))
        elif kind == r.DAY_EVENT:
            self.emit(command, r.SYSTEM_EVENT, detail=int(command["detail"]))
        elif kind in (r.CANCEL_ALL, r.SET_KILL_SWITCH):
            reason = int(command["detail"]) if kind == r.CANCEL_ALL else ord("S")
            for key in [key for key in self.open if key[0] == account]:
                self.emit(command, r.CANCELED, user_ref=key[1], quantity=self.open.pop(key), detail=reason)

    def emit(self, command: Any, kind: int, **fields: int) -> None:
        row = self.link.events.records[ring.write_position(self.link.events, 0)]
        for name in ("time_ns", "ingress_ns", "price", "word0", "word1", "quantity", "instrument", "account", "side"):
            row[name] = command[name]
        for name in ("tif", "display", "capacity", "iso", "cross"):
            row[name] = command[name]
        row["kind"], row["reference"] = kind, r.FIRST_OWN_REFERENCE
        for name, value in fields.items():
            row[name] = value
        self.publish(1)

    def publish(self, count: int) -> None:
        ring.publish(self.link.events, count, 0)
        if ring.must_wake(self.link.events):
            os.write(self.link.event_wake, (1).to_bytes(8, "little"))

    def flood(self, account: int, count: int) -> None:
        """So many Canceled messages for one account, as fast as the event ring takes them."""
        for number in range(1, count + 1):
            row = self.link.events.records[ring.write_position(self.link.events, 0)]
            row["kind"], row["account"], row["user_ref"], row["quantity"] = r.CANCELED, account, number, 1
            row["detail"], row["ingress_ns"] = ord("U"), 0
            self.publish(1)


class Rig:
    """Everything between a client's socket and the matcher."""

    def __init__(self, folder: Path, ring_capacity: int, settings: Orders, account_list: list[Account]) -> None:
        self.now_ns = START_NS
        command_wake, event_wake = system.wake_descriptor(), system.wake_descriptor()
        self.link = Link(ring.create(ring_capacity, r.COMMAND), ring.create(8_192, r.EVENT), command_wake, event_wake)
        self.matcher = Matcher(self.link, command_wake)
        self.page = pages.create(mode="match", accounts=NAMES, folder=folder)
        self.instruments = Instruments(4)
        self.instruments.add("AAPL")
        self.gateway = Gateway(
            self.link, self.page, self.instruments, account_list, settings, OFFSET_NS, clock=lambda: self.now_ns
        )
        self.gateway.warm_up()
        self.port = 0
        self.clients: list[Client] = []

    def count(self, name: str) -> int:
        return int(self.page.gateway[0][name])

    def advance(self, seconds: float) -> None:
        """Move the clock, and let the gateway notice."""
        self.now_ns += int(seconds * SECOND_NS)
        self.gateway.tick()

    def stream(self, account: int = 0) -> bytes:
        """All that the account was ever sent."""
        stream = self.gateway.store.streams[account]
        return bytes(stream.slice(0, stream.size_bytes))

    async def until(self, condition: Callable[[], bool]) -> None:
        """Let the loop turn until something has happened; the test's timeout bounds it."""
        while not condition():  # noqa: ASYNC110 - one turn at a time, no pause
            await asyncio.sleep(0)

    async def client(self, receive_buffer_bytes: int = 0) -> Client:
        sock = socket.socket()
        self.clients.append(Client(sock))
        if receive_buffer_bytes:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", self.port))
        return self.clients[-1]

    async def login(self, username: str = "ALPHA", sequence: int = 1, receive_buffer_bytes: int = 0) -> Client:
        client = await self.client(receive_buffer_bytes)
        answer = await client.login(username, sequence=sequence)
        assert isinstance(answer, LoginAccepted), answer
        return client


class Client:
    """A socket and nothing that helps."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._reader = FrameReader()
        self._bodies: list[bytes] = []

    async def send(self, data: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self.sock, data)

    async def login(
        self, username: str = "ALPHA", password: str = PASSWORD, session: str = "", sequence: int = 1
    ) -> LoginAccepted | LoginRejected:
        await self.send(login_packet(username, password, session, sequence))
        return await self.login_answer()

    async def login_answer(self) -> LoginAccepted | LoginRejected:
        body = await self.next()
        return (LoginAccepted if body[:1] == b"A" else LoginRejected).decode(body)

    async def next(self) -> bytes:
        """The next packet from its type byte on; EOFError at the end."""
        while not self._bodies:
            data = await asyncio.get_running_loop().sock_recv(self.sock, 1 << 16)
            if not data:
                raise EOFError
            self._reader.feed(data)
            while (body := self._reader.next()) is not None:
                self._bodies.append(body)
        return self._bodies.pop(0)

    async def messages(self, count: int) -> list[ouch.OutboundMessage]:
        """The next sequenced messages; anything else between them is an error."""
        bodies = [await self.next() for _ in range(count)]
        assert all(body[:1] == b"S" for body in bodies), bodies
        return [ouch.decode_outbound(body[1:]) for body in bodies]

    async def raw(self, size: int) -> bytes:
        """So many bytes of the stream, framed as they came."""
        raw = b""
        while len(raw) < size:
            body = await self.next()
            raw += frame(body[:1], body[1:])
        return raw

    async def rest(self) -> list[bytes]:
        """What comes until the other side closes the connection."""
        bodies = []
        while True:
            try:
                bodies.append(await self.next())
            except (EOFError, ConnectionResetError):
                self.sock.close()
                return bodies

    def close(self) -> None:
        self.sock.close()


def login_packet(username: str = "ALPHA", password: str = PASSWORD, session: str = "", sequence: int = 1) -> bytes:
    return packet(LoginRequest(username=username, password=password, session=session, sequence=sequence))


def order(number: int, **changes: Any) -> bytes:
    """The packet of an Enter."""
    fields: dict[str, Any] = {"side": "B", "quantity": 100, "symbol": "AAPL", "price": 1_000_000} | changes
    message = ouch.EnterOrder(
        user_ref_num=number,
        time_in_force="0",
        display="Y",
        capacity="P",
        intermarket_sweep_eligibility="N",
        cross_type="N",
        cl_ord_id=f"order {number}",
        **fields,
    )
    return frame(b"U", message.encode())


def cancel(number: int) -> bytes:
    return frame(b"U", ouch.CancelOrder(user_ref_num=number, quantity=0).encode())


@asynccontextmanager
async def running(folder: Path, ring_capacity: int, settings: Orders, account_list: list[Account]) -> Any:
    rig = Rig(folder, ring_capacity, settings, account_list)
    loop = asyncio.get_running_loop()
    faults: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: faults.append(context))
    loop.add_reader(rig.matcher.commands_read, rig.matcher.woken)
    listening = socket.create_server(("127.0.0.1", 0))
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16_384)  # connections inherit it: full after few bytes
    rig.port = listening.getsockname()[1]
    rig.gateway.start_day()
    rig.matcher.run()
    await rig.gateway.start(listening)
    try:
        yield rig
    finally:
        rig.matcher.stalled = False
        for client in rig.clients:  # first: a stop waits for clients that have not gone
            client.close()
        await rig.gateway.stop()
        loop.remove_reader(rig.matcher.commands_read)
        os.close(rig.matcher.commands_read)
        os.close(rig.link.event_wake)
        listening.close()
        rig.page.remove()
    assert not faults, "an exception in a callback of the loop"


def with_gateway(
    *, ring_capacity: int = 1_024, cancel_on_disconnect: bool = False, **settings: Any
) -> Callable[[Callable[..., Awaitable[None]]], Callable[[Path], None]]:
    """Run an async test against a running gateway on uvloop; it gets the rig."""
    orders = msgspec.structs.replace(Orders(session=SESSION, max_store_bytes=3 << 20), **settings)

    def decorate(test: Callable[..., Awaitable[None]]) -> Callable[[Path], None]:
        async def main(folder: Path, *more: Any) -> None:
            account_list = accounts(cancel_on_disconnect=cancel_on_disconnect)
            # the first test may have to compile its kernels, for as long as that takes
            async with running(folder, ring_capacity, orders, account_list) as rig, asyncio.timeout(TIMEOUT_S):
                await test(rig, *more)

        def run(tmp_path: Path) -> None:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(main(tmp_path))

        run.__name__, run.__doc__ = test.__name__, test.__doc__
        return run

    return decorate
