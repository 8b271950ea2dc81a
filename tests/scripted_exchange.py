"""A scripted exchange on loopback for tests of clients, with the real server side of SoupBinTCP."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import cast

from venue.wire import ouch
from venue.wire.soupbintcp import LoginRequested, LogoutRequested, ServerEvent, ServerSession, Unsequenced

Answer = Callable[[ouch.InboundMessage], list[ouch.OutboundMessage]]


def accepted(enter: ouch.EnterOrder, reference: int = 1) -> ouch.Accepted:
    return ouch.Accepted(
        timestamp=1,
        user_ref_num=enter.user_ref_num,
        side=enter.side,
        quantity=enter.quantity,
        symbol=enter.symbol,
        price=enter.price,
        time_in_force=enter.time_in_force,
        display=enter.display,
        order_reference_number=reference,
        capacity=enter.capacity,
        intermarket_sweep_eligibility="N",
        cross_type="N",
        order_state="L",
        cl_ord_id=enter.cl_ord_id,
    )


def executed(user_ref: int, quantity: int, price: int) -> ouch.Executed:
    return ouch.Executed(
        timestamp=2, user_ref_num=user_ref, quantity=quantity, price=price, liquidity_flag="R", match_number=1
    )


def canceled(user_ref: int, quantity: int, reason: str = "U") -> ouch.Canceled:
    return ouch.Canceled(timestamp=3, user_ref_num=user_ref, quantity=quantity, reason=reason)


def replaced(message: ouch.ReplaceOrder, side: str) -> ouch.Replaced:
    return ouch.Replaced(
        timestamp=1,
        orig_user_ref_num=message.orig_user_ref_num,
        user_ref_num=message.user_ref_num,
        side=side,
        quantity=message.quantity,
        symbol="AAPL",
        price=message.price,
        time_in_force="0",
        display="Y",
        order_reference_number=1,
        capacity="P",
        intermarket_sweep_eligibility="N",
        cross_type="N",
        order_state="L",
        cl_ord_id="",
    )


class Exchange:
    """Answers orders with what the test scripts, and keeps the session: connections come and go, it stays."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.heard: list[ouch.InboundMessage] = []
        self.logins: list[int] = []
        """The sequence numbers asked for."""
        self.last_user_ref = 0
        self.deaf = False
        """Loses what clients send, as a network that breaks does."""
        self.mute = False
        """Handles what clients send, but its answers do not arrive: they are only kept."""
        self.refuse: str | None = None
        self.answer: Answer = self.accept_everything
        self._links: list[tuple[ServerSession, asyncio.Transport]] = []
        self._server: asyncio.Server | None = None
        self.gone: list[asyncio.Event] = []
        self.port = 0

    def accept_everything(self, message: ouch.InboundMessage) -> list[ouch.OutboundMessage]:
        return [accepted(message)] if isinstance(message, ouch.EnterOrder) else []

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Link(self), "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop_listening(self) -> None:
        assert self._server is not None
        self._server.close()

    async def stop(self) -> None:
        await self.stop_listening()
        self.cut()
        for gone in self.gone:
            await gone.wait()

    def cut(self) -> None:
        """All connections break."""
        for _, transport in self._links:
            transport.abort()
        self._links.clear()

    def say(self, *messages: ouch.OutboundMessage) -> None:
        for message in messages:
            self.say_bytes(message.encode())

    def say_bytes(self, payload: bytes) -> None:
        self.sent.append(payload)
        if self._links and not self.mute and self._links[-1][0].established:  # who has logged out hears no more
            session, transport = self._links[-1]
            session.send_sequenced(payload)
            transport.write(session.data_to_send())

    def end(self) -> None:
        session, transport = self._links[-1]
        session.end_session()
        transport.write(session.data_to_send())
        transport.close()

    def login(self, session: ServerSession, transport: asyncio.Transport, login: LoginRequested) -> list[ServerEvent]:
        self.logins.append(login.sequence)
        now = time.monotonic_ns()
        if self.refuse:
            session.reject_login("S" if self.refuse == "S" else "A", now)
            transport.write(session.data_to_send())
            transport.close()
            return []
        first = min(login.sequence or len(self.sent) + 1, len(self.sent) + 1)
        events = session.accept_login("MONDAY0001", first, now)
        for payload in self.sent[first - 1 :]:
            session.send_sequenced(payload)
        for _, older in self._links:
            older.abort()
        self._links = [(session, transport)]
        return events

    def hear(self, payload: bytes) -> None:
        if self.deaf:
            return
        message = ouch.decode_inbound(payload)
        self.heard.append(message)
        if isinstance(message, ouch.AccountQuery):
            self.say(ouch.AccountQueryResponse(timestamp=0, next_user_ref_num=self.last_user_ref + 1))
        elif isinstance(message, ouch.EnterOrder) and message.user_ref_num <= self.last_user_ref:
            pass  # a number used before
        else:
            self.last_user_ref = max(self.last_user_ref, getattr(message, "user_ref_num", 0))
            self.say(*self.answer(message))


class _Link(asyncio.Protocol):
    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._session = ServerSession(time.monotonic_ns())
        self._gone = asyncio.Event()
        exchange.gone.append(self._gone)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._gone.set()

    def data_received(self, data: bytes) -> None:
        events = self._session.receive(data, time.monotonic_ns())
        while events:
            event = events.pop(0)
            match event:
                case LoginRequested():
                    events += self._exchange.login(self._session, self._transport, event)
                    self._transport.write(self._session.data_to_send())
                case Unsequenced():
                    self._exchange.hear(event.payload)
                case LogoutRequested():
                    self._transport.close()
                case _:
                    raise AssertionError(event)
