"""A trading client: OUCH 5.0 over SoupBinTCP on asyncio or uvloop.

    async with await TradingClient.connect("127.0.0.1", 26400, "TRADER", "venue") as client:
        user_ref = client.enter("AAPL", "B", 100, ticks("189.50"))
        async for sequence, message in client:
            print(sequence, message, client.view.orders[user_ref])

A lost connection is made again and resumed at the next sequence number: no message comes twice, none is lost, and what
was sent without having been answered is sent again, which OUCH makes harmless. All methods belong to the loop's thread.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Final, NamedTuple, Self

from venue.wire import ouch, soupbintcp
from venue.wire.layout import WireError
from venue.wire.soupbintcp import ClientEvent
from venue_clients.connection import (
    Connection,
    DisconnectedError,
    LoginRejectedError,
    TradingError,
    check_login,
    check_symbol,
    open_connection,
)
from venue_clients.orders import OrderState, OrderView, Status
from venue_clients.prices import MARKET_PRICE, PriceError, dollars, ticks

__all__ = [
    "MARKET_PRICE",
    "DisconnectedError",
    "LoginRejectedError",
    "OrderState",
    "OrderView",
    "PriceError",
    "Received",
    "Status",
    "TradingClient",
    "TradingError",
    "dollars",
    "ticks",
]

DAY: Final = "0"
IOC: Final = "3"

GIVE_UP_S: Final = 60.0
"""For so long a client tries to get a connection that lasts."""
STABLE_S: Final = 10.0
"""A connection that held for so long counts as one; until then the next attempt waits longer."""
FIRST_WAIT_S: Final = 0.1
LONGEST_WAIT_S: Final = 5.0
WAITING_LIMIT: Final = 100_000
"""So many messages may wait to be iterated over; then the client stops reading from its socket."""


_ANSWERS = (
    ouch.Accepted,
    ouch.AccountQueryResponse,
    ouch.Canceled,
    ouch.Modified,
    ouch.Rejected,
    ouch.Replaced,
)


class Received(NamedTuple):
    """A message with its number in the session."""

    sequence: int
    message: ouch.OutboundMessage


class TradingClient:
    """One login. Iterate over it for the exchange's messages, in order, each once; `view` has taken in every message
    received, iterated over or not. The iteration ends with the session or with `close`, and raises TradingError when
    the connection is lost for good. Only one task may iterate."""

    def __init__(self, host: str, port: int, username: str, password: str) -> None:
        """Use `connect`."""
        self.view = OrderView()
        self.session = ""
        """The session's name, as the venue gave it."""
        self.next_sequence = 0
        """Number of the next message."""
        self.reconnects = 0
        self._host, self._port = host, port
        self._username, self._password = username, password
        self._connection: Connection | None = None
        self._login: asyncio.Future[None] | None = None
        self._wanted = 0  # the sequence number that the login under way asks for
        self._probing = False  # logged in only to learn where the session stands
        self._ready = False  # connect has returned: from here on a lost connection is made again
        self._ended = False
        self._failure: TradingError | None = None
        self._waiting: deque[Received] = deque()
        self._unanswered: deque[ouch.InboundMessage] = deque()
        self._queries_answered = 0
        self._news = asyncio.Event()
        self._reconnecting: asyncio.Task[None] | None = None
        self._attempts = 0
        self._logged_in_at_ns = 0
        self._unstable_since_ns = 0

    @classmethod
    async def connect(
        cls, host: str, port: int, username: str, password: str, *, session: str = "", sequence: int = 1
    ) -> Self:
        """Log in and learn the next UserRefNum. `sequence` is the first message wanted: 1 = the whole session, so that
        `view` is complete when this returns; 0 = from now on, without the past. Raises
        LoginRejectedError or DisconnectedError, WireError for a name or password that no login can carry.

        Where there is a past to catch up on, this takes two logins: nothing in the protocol tells the answer to our
        Account Query from those of earlier queries that come again, so the first login asks for no past.
        """
        check_login(username, password)
        client = cls(host, port, username, password)
        client._probing = sequence > 0
        try:
            await client._open(session, 0, first_wanted=sequence)
            await client.query()
            if client._probing:
                head = client.next_sequence
                client._probing = False
                await client._open(client.session, sequence)
                await client._until(lambda: client.next_sequence >= head)
        except BaseException:
            await client.close()
            raise
        client._ready = True
        return client

    # --- orders ---------------------------------------------------------------------------------------------------

    def enter(
        self,
        symbol: str,
        side: str,
        quantity: int,
        price: int,
        tif: str = DAY,
        *,
        display: str = "Y",
        capacity: str = "P",
        cl_ord_id: str = "",
        appendage: tuple[ouch.TagValue, ...] = (),
    ) -> int:
        """Send an order and return its UserRefNum. `side` is B, S, T or E, `price` in ticks (MARKET_PRICE = at market).
        Raises DisconnectedError without a connection, WireError for what no message can carry; nothing is sent then."""
        check_symbol(symbol)
        message = ouch.EnterOrder(
            user_ref_num=self.view.next_user_ref,
            side=side,
            quantity=quantity,
            symbol=symbol,
            price=price,
            time_in_force=tif,
            display=display,
            capacity=capacity,
            intermarket_sweep_eligibility="N",
            cross_type="N",
            cl_ord_id=cl_ord_id,
            appendage=appendage,
        )
        self._send(message)
        self.view.entered(message)
        return message.user_ref_num

    def replace(self, user_ref: int, quantity: int, price: int, tif: str = DAY, *, cl_ord_id: str = "") -> int:
        """Replace an order; it loses its place in time. `quantity` is the total, with what has been executed. Returns
        the new UserRefNum. Raises KeyError for an order that is not in the view."""
        if user_ref not in self.view.orders:
            raise KeyError(user_ref)
        message = ouch.ReplaceOrder(
            orig_user_ref_num=user_ref,
            user_ref_num=self.view.next_user_ref,
            quantity=quantity,
            price=price,
            time_in_force=tif,
            display="Y",
            intermarket_sweep_eligibility="N",
            cl_ord_id=cl_ord_id,
        )
        self._send(message)
        self.view.replacing(message)
        return message.user_ref_num

    def cancel(self, user_ref: int, quantity: int = 0) -> None:
        """Cancel down to `quantity`, which counts what has been executed: 0 = all. Too late means silence."""
        self._send(ouch.CancelOrder(user_ref_num=user_ref, quantity=quantity))

    def modify(self, user_ref: int, side: str, quantity: int) -> None:
        """Change the kind of sell, or reduce to `quantity`, which counts what has been executed; keeps its place."""
        self._send(ouch.ModifyOrder(user_ref_num=user_ref, side=side, quantity=quantity))

    async def query(self) -> int:
        """Ask for the next UserRefNum to use."""
        before = self._queries_answered
        self._send(ouch.AccountQuery())
        await self._until(lambda: self._queries_answered > before)
        return self.view.next_user_ref

    # --- what the exchange says -----------------------------------------------------------------------------------

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Received:
        while not self._waiting:
            if self._failure is not None:
                raise self._failure
            if self._ended:
                raise StopAsyncIteration
            self._news.clear()
            await self._news.wait()
        if len(self._waiting) < WAITING_LIMIT // 2 and self._connection is not None:
            self._connection.resume()
        return self._waiting.popleft()

    async def close(self) -> None:
        """Log out. Orders stay where they are, unless the account cancels them on disconnect."""
        self._ended = True
        self._news.set()
        if self._reconnecting is not None:
            self._reconnecting.cancel()
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
            await connection.gone()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def connected(self) -> bool:
        return self._connection is not None and self._connection.session.established

    # --- the connection -------------------------------------------------------------------------------------------

    async def _open(self, session: str, sequence: int, first_wanted: int = 0) -> None:
        self._wanted = first_wanted or sequence
        self._login = asyncio.get_running_loop().create_future()
        connection = await open_connection(self._host, self._port, lambda: Connection(self._on_event, self._on_lost))
        try:
            connection.login(self._username, self._password, session, sequence)
            await self._login
        except BaseException:
            connection.close()
            raise
        finally:
            self._login = None

    def _send(self, message: ouch.InboundMessage) -> None:
        payload = message.encode()
        if self._connection is None or not self._connection.session.established:
            raise self._failure or DisconnectedError("not connected to the venue at the moment")
        self._unanswered.append(message)
        self._connection.send(payload)

    def _on_event(self, connection: Connection, event: ClientEvent) -> None:
        if isinstance(event, soupbintcp.LoginAccepted):
            self._accepted(connection, event)
        elif isinstance(event, soupbintcp.LoginRejected):
            self._login_failed(LoginRejectedError(event.reason, self._username))
        elif connection is not self._connection:
            return
        elif isinstance(event, soupbintcp.Sequenced):
            self._receive(connection, event)
        elif isinstance(event, soupbintcp.EndOfSession):
            self._ended = True
            self._news.set()

    def _accepted(self, connection: Connection, accepted: soupbintcp.LoginAccepted) -> None:
        if self._ready and accepted.sequence != self.next_sequence:
            self._login_failed(
                TradingError(
                    f"asked for message {self.next_sequence} of session {self.session}, but the venue goes on at "
                    f"{accepted.sequence}: it has lost the session"
                )
            )
            return
        before, self._connection = self._connection, connection
        if before is not None:
            before.close()
        self.session, self.next_sequence = accepted.session, accepted.sequence
        self._probing = self._probing and accepted.sequence > self._wanted
        self._logged_in_at_ns = time.monotonic_ns()
        for message in self._unanswered:  # before anything new: the exchange takes numbers only in rising order
            connection.send(message.encode())
        if self._login is not None and not self._login.done():
            self._login.set_result(None)

    def _login_failed(self, error: TradingError) -> None:
        if self._login is not None and not self._login.done():
            self._login.set_exception(error)

    def _receive(self, connection: Connection, event: soupbintcp.Sequenced) -> None:
        try:
            message = ouch.decode_outbound(event.payload)
        except WireError as error:
            self._fail(TradingError(f"message {event.sequence} of the venue makes no sense: {error}"))
            connection.close()
            return
        self.next_sequence = event.sequence + 1
        self._queries_answered += isinstance(message, ouch.AccountQueryResponse)
        self._settle(message)
        self._news.set()
        if self._probing and not isinstance(message, ouch.AccountQueryResponse):
            return  # comes again with the second login
        self.view.apply(message)
        if not self._probing:
            self._waiting.append(Received(event.sequence, message))
            if len(self._waiting) >= WAITING_LIMIT and self._ready:
                connection.pause()

    def _settle(self, message: ouch.OutboundMessage) -> None:
        """Forget what need not be sent again. The exchange handles our messages strictly in order, so the answer to an
        order tells that everything sent before it has been handled as well."""
        count = self._answered_by(message) if isinstance(message, _ANSWERS) else None
        if count is None:
            return
        if isinstance(message, ouch.Accepted | ouch.Replaced | ouch.Rejected):
            for _ in range(count):
                passed_over = self._unanswered.popleft()
                if isinstance(passed_over, ouch.EnterOrder | ouch.ReplaceOrder):
                    self.view.ignored(passed_over.user_ref_num)
            self._unanswered.popleft()
        else:
            answered = self._unanswered[count]
            del self._unanswered[count]
            if isinstance(answered, ouch.ReplaceOrder):  # invalid in itself: the original has been canceled
                self.view.ignored(answered.user_ref_num)

    def _answered_by(self, message: ouch.OutboundMessage) -> int | None:
        """The place of the message that this is an answer to."""
        for place, sent in enumerate(self._unanswered):
            match message, sent:
                case ouch.Accepted() | ouch.Rejected(), ouch.EnterOrder() | ouch.ReplaceOrder():
                    found = sent.user_ref_num == message.user_ref_num
                case ouch.Replaced(), ouch.ReplaceOrder():
                    found = sent.user_ref_num == message.user_ref_num
                case ouch.Canceled(reason="U"), ouch.ReplaceOrder():
                    found = sent.orig_user_ref_num == message.user_ref_num
                case ((ouch.Canceled(reason="U") | ouch.Modified()), (ouch.CancelOrder() | ouch.ModifyOrder())):
                    found = sent.user_ref_num == message.user_ref_num
                case ouch.AccountQueryResponse(), ouch.AccountQuery():
                    found = True
                case _:
                    found = False
            if found:
                return place
        return None

    def _on_lost(self, connection: Connection, reason: str) -> None:
        self._login_failed(DisconnectedError(reason))
        if connection is not self._connection:
            return
        self._connection = None
        if self._ended or self._failure is not None:
            self._news.set()
        elif not self._ready:
            self._fail(DisconnectedError(reason))
        elif self._reconnecting is None or self._reconnecting.done():
            self._reconnecting = asyncio.create_task(self._reconnect())

    def _fail(self, error: TradingError) -> None:
        self._failure = self._failure or error
        self._news.set()

    async def _reconnect(self) -> None:
        """Try until a login is accepted; at once if the last connection held for a while, else after growing waits."""
        now_ns = time.monotonic_ns()
        if now_ns - self._logged_in_at_ns >= STABLE_S * 1e9 or not self._attempts:
            self._attempts, self._unstable_since_ns = 0, now_ns
        error: TradingError = DisconnectedError("no connection lasts; has this account logged in elsewhere?")
        while self._connection is None:
            if self._attempts and time.monotonic_ns() - self._unstable_since_ns > GIVE_UP_S * 1e9:
                self._fail(DisconnectedError(f"gave up after {GIVE_UP_S:.0f} s: {error}"))
                return
            if self._attempts:
                await asyncio.sleep(min(FIRST_WAIT_S * 2 ** (self._attempts - 1), LONGEST_WAIT_S))
            self._attempts += 1
            try:
                await self._open(self.session, self.next_sequence)
            except DisconnectedError as failure:
                error = failure
            except TradingError as failure:
                self._fail(failure)
                return
        self.reconnects += 1
        self._news.set()

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            if self._failure is not None:
                raise self._failure
            if self._ended:
                raise DisconnectedError("the session has ended")
            self._news.clear()
            await self._news.wait()
