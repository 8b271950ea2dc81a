"""One TCP connection of a SoupBinTCP client: a ClientSession with a socket and a clock, on asyncio or uvloop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar, cast

from venue.wire import soupbintcp
from venue.wire.layout import WireError
from venue.wire.soupbintcp import ClientEvent, ClientSession

SECOND_NS = 1_000_000_000
CONNECT_TIMEOUT_S = 10.0

P = TypeVar("P", bound=asyncio.Protocol)


class TradingError(Exception):
    """What ends a client's connection; the text is one line for people."""


class LoginRejectedError(TradingError):
    """`reason` is the protocol's: A (not authorized) or S (session not available)."""

    def __init__(self, reason: str, username: str) -> None:
        words = {
            "A": f"login of {username} rejected: unknown name or wrong password",
            "S": f"login of {username} rejected: the venue has no such session (any more)",
        }
        super().__init__(words.get(reason, f"login of {username} rejected with reason {reason!r}"))
        self.reason = reason


class DisconnectedError(TradingError):
    """There is no connection, or there is none any more."""


class Connection(asyncio.Protocol):
    """Hands events to `on_event(connection, event)`, and to `on_lost(connection, reason)` the end, once."""

    def __init__(
        self, on_event: Callable[[Connection, ClientEvent], None], on_lost: Callable[[Connection, str], None]
    ) -> None:
        self.session = ClientSession(time.monotonic_ns())
        self.closing = False
        self._on_event = on_event
        self._on_lost = on_lost
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._why_lost = ""
        self._paused = False
        self._gone = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's are not of that class

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._gone.set()
        reason = self._why_lost or (str(exc) if exc else "the venue closed the connection")
        self._on_lost(self, reason)

    def login(self, username: str, password: str, session: str, sequence: int) -> None:
        self.session.login(username, password, session, sequence)
        self._flush()
        self._arm()

    def send(self, payload: bytes) -> None:
        """One message, at once."""
        self.session.send_unsequenced(payload)
        self._flush()

    def close(self) -> None:
        """Log out and hang up; nothing more is read."""
        self.closing = True
        self.session.logout()
        self._flush()
        self._hang_up()

    async def gone(self) -> None:
        """Wait until the socket is closed: a venue that does not read is not waited for longer than a second."""
        try:
            async with asyncio.timeout(1):
                await self._gone.wait()
        except TimeoutError:
            if self._transport is not None:
                self._transport.abort()

    def pause(self) -> None:
        """Stop reading; the venue's silence does not count meanwhile."""
        if self._transport is not None and not self._paused and not self._transport.is_closing():
            self._paused = True
            self._transport.pause_reading()

    def resume(self) -> None:
        if self._transport is not None and self._paused and not self._transport.is_closing():
            self._paused = False
            self.session.heard(time.monotonic_ns())
            self._transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        self._handle(self.session.receive(data, time.monotonic_ns()))

    def _handle(self, events: list[ClientEvent]) -> None:
        for event in events:
            if isinstance(event, soupbintcp.LoginAccepted):
                self._arm()  # heartbeats are due sooner than the end of the time for the login
            if isinstance(event, soupbintcp.ProtocolError):
                self._why_lost = f"the venue broke the protocol: {event.reason}"
            elif isinstance(event, soupbintcp.Timeout):
                what = "did not answer the login" if event.reason == "login" else "has been silent for too long"
                self._why_lost = f"the venue {what}"
            if not self.closing:
                self._on_event(self, event)
        self._flush()
        if self.session.closed:
            self._hang_up()

    def _flush(self) -> None:
        data = self.session.data_to_send()
        if data and self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)
            self.session.sent(time.monotonic_ns())

    def _hang_up(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None:
            self._transport.close()

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        due = self.session.next_timer()
        if due is not None:
            wait_s = max(0, due - time.monotonic_ns()) / SECOND_NS
            self._timer = asyncio.get_running_loop().call_later(wait_s, self._tick)

    def _tick(self) -> None:
        now = time.monotonic_ns()
        if self._paused:
            self.session.heard(now)
        self._handle([*self.session.handle_timer(now)])
        if not self.session.closed:
            self._arm()


def check_login(username: str, password: str) -> None:
    """Raises WireError, in a user's words, for what no Login Request can carry."""
    if len(username) > 6:
        raise WireError("an account's name has at most 6 characters")
    if len(password) > 10:
        raise WireError("a password has at most 10 characters")


def check_symbol(symbol: str) -> None:
    """Raises WireError, in a user's words, for what no order can carry."""
    if len(symbol) > 8:
        raise WireError("a symbol has at most 8 characters")


async def open_connection(host: str, port: int, protocol: Callable[[], P]) -> P:
    """A new TCP connection, not logged in. Raises DisconnectedError if there is nobody."""
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            _, connection = await asyncio.get_running_loop().create_connection(protocol, host, port)
    except TimeoutError:
        raise DisconnectedError(f"no answer from {host}:{port} within {CONNECT_TIMEOUT_S:.0f} s") from None
    except OSError as error:
        refused = isinstance(error, ConnectionRefusedError)
        reason = "connection refused; is a venue running there?" if refused else error.strerror or str(error)
        raise DisconnectedError(f"cannot reach {host}:{port}: {reason}") from None
    return connection
