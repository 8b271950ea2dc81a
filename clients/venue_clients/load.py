"""Open-loop order load: orders go out when they are due, however slow the answers are, and latency counts from when an
order was due.

Each order is a buy far below any market, so it rests, and is canceled LIVE_ORDERS orders later: the books do not grow.
Messages are encoded once and only their numbers filled in. What comes back is cut into frames a chunk at a time and
not decoded beyond its type and number.

asyncio waits with epoll, which counts in milliseconds; `run` gives it select(2), which counts in microseconds.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast

from venue.wire import ouch, soupbintcp
from venue.wire.ouch import RejectReason
from venue_clients.connection import (
    CONNECT_TIMEOUT_S,
    DisconnectedError,
    LoginRejectedError,
    TradingError,
    check_login,
    check_symbol,
    open_connection,
)
from venue_clients.latencies import SECOND_NS, Latencies, Schedule
from venue_clients.stops import STOPS

LIVE_ORDERS: Final = 64
"""Of one connection at the same time."""
BURST: Final = 512
"""At most so many orders go out before the loop looks for answers again."""
START_AFTER_NS: Final = 50_000_000
ANSWER_WITHIN_S: Final = 5.0
"""After the last order."""
FAR_PRICE: Final = 10_000
"""A dollar."""

_HEAD: Final = 3  # SoupBinTCP: length and type, before the OUCH message
_ENTER_REF: Final = _HEAD + ouch.EnterOrder.layout.offset("user_ref_num")
_CANCEL_REF: Final = _HEAD + ouch.CancelOrder.layout.offset("user_ref_num")
_ACCEPTED, _REJECTED, _QUERY_RESPONSE = ord("A"), ord("J"), ord("Q")
_REF: Final = ouch.Accepted.layout.offset("user_ref_num")
assert ouch.Rejected.layout.offset("user_ref_num") == _REF
assert ouch.AccountQueryResponse.layout.offset("next_user_ref_num") == _REF
_REASON: Final = ouch.Rejected.layout.offset("reason")


@dataclass
class LoadResult:
    sent: int = 0
    accepted: int = 0
    rejected: int = 0
    seconds: float = 0.0
    """From the first order to the last, as they were sent."""
    reasons: Counter[int] = field(default_factory=Counter)
    """Rejections by OUCH reject reason."""
    latencies: Latencies = field(default_factory=Latencies)
    """From when an order was due to its Accepted or Rejected."""
    lateness: Latencies = field(default_factory=Latencies)
    """From when an order was due to its sending: how far this program itself was behind."""
    interrupted: int = 0
    """Number of the signal that ended it early."""

    @property
    def unanswered(self) -> int:
        return self.sent - self.accepted - self.rejected

    def as_dict(self) -> dict[str, Any]:
        return {
            "sent": self.sent,
            "accepted": self.accepted,
            "rejected": self.rejected,
            "unanswered": self.unanswered,
            "reasons": {reason_name(reason): count for reason, count in sorted(self.reasons.items())},
            "seconds": round(self.seconds, 6),
            "orders_per_s": round((self.sent - 1) / self.seconds, 1) if self.seconds else 0.0,
            "latency_ns": self.latencies.percentiles(),
            "late_ns": self.lateness.percentiles(),
            "interrupted": bool(self.interrupted),
        }


def reason_name(reason: int) -> str:
    try:
        return RejectReason(reason).name.lower()
    except ValueError:
        return f"0x{reason:02X}"


class LoadConnection(asyncio.Protocol):
    """One login that sends orders `first`, `first + stride` and so on of the schedule."""

    def __init__(self, username: str, symbols: Sequence[str], load: Load) -> None:
        self.username = username
        self.ready: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        """The first UserRefNum, once logged in."""
        self.sent = 0
        self.first_ref = 0
        self._load = load
        self._templates = [_enter_template(symbol) for symbol in symbols]
        self._cancel = bytearray(soupbintcp.frame(b"U", ouch.CancelOrder(user_ref_num=0, quantity=0).encode()))
        self._rest = b""
        self._transport: asyncio.Transport | None = None
        self._gone = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def login(self, password: str) -> None:
        request = soupbintcp.LoginRequest(username=self.username, password=password, session="", sequence=0)
        self.write(soupbintcp.packet(request))

    def write(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def next_order(self) -> bytes:
        """The next Enter, and the Cancel of the order LIVE_ORDERS before it."""
        template = self._templates[self.sent % len(self._templates)]
        template[_ENTER_REF : _ENTER_REF + 4] = (self.first_ref + self.sent).to_bytes(4, "big")
        self.sent += 1
        if self.sent <= LIVE_ORDERS:
            return bytes(template)
        return bytes(template) + self._cancel_of(self.sent - 1 - LIVE_ORDERS)

    def finish(self) -> None:
        """Cancel what still stands."""
        self.write(b"".join(self._cancel_of(n) for n in range(max(0, self.sent - LIVE_ORDERS), self.sent)))

    async def close(self) -> None:
        """Log out and hang up; a venue that does not read is not waited for longer than a second."""
        if self._transport is not None:
            self.write(soupbintcp.frame(b"O"))
            self._transport.close()
            try:
                async with asyncio.timeout(1):
                    await self._gone.wait()
            except TimeoutError:
                self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._gone.set()
        reason = f": {exc}" if exc else ""
        self._fail(DisconnectedError(f"the venue closed the connection of {self.username}{reason}"))

    def data_received(self, data: bytes) -> None:
        now_ns = time.monotonic_ns()
        if self._rest:
            data = self._rest + data
        start, size = 0, len(data)
        while size - start >= _HEAD:
            end = start + 2 + (data[start] << 8 | data[start + 1])
            if end > size:
                break
            if end < start + _HEAD:
                self._fail(TradingError("the venue broke the protocol: a packet of length 0"))
                return
            self._frame(data[start + 2], data[start + _HEAD : end], now_ns)
            start = end
        self._rest = data[start:]

    def _frame(self, kind: int, payload: bytes, now_ns: int) -> None:
        if kind == ord("S") and len(payload) >= _REF + 4:
            self._message(payload, int.from_bytes(payload[_REF : _REF + 4], "big"), now_ns)
        elif kind == ord("A"):
            self.write(soupbintcp.frame(b"U", ouch.AccountQuery().encode()))
        elif kind == ord("J"):
            self._fail(LoginRejectedError(payload[:1].decode("latin-1"), self.username))
        elif kind == ord("Z"):
            self._fail(DisconnectedError("the venue ended the session"))

    def _message(self, payload: bytes, user_ref: int, now_ns: int) -> None:
        kind = payload[0]
        if kind == _QUERY_RESPONSE:
            if not self.ready.done():
                self.first_ref = user_ref
                self.ready.set_result(user_ref)
        elif kind in (_ACCEPTED, _REJECTED) and self.first_ref <= user_ref < self.first_ref + self.sent:
            reason = int.from_bytes(payload[_REASON : _REASON + 2], "big") if kind == _REJECTED else 0
            self._load.answered(self, user_ref - self.first_ref, reason, now_ns)

    def _cancel_of(self, index: int) -> bytes:
        self._cancel[_CANCEL_REF : _CANCEL_REF + 4] = (self.first_ref + index).to_bytes(4, "big")
        return bytes(self._cancel)

    def _fail(self, error: TradingError) -> None:
        if not self.ready.done():
            self.ready.set_exception(error)
        else:
            self._load.failed(error)


def _enter_template(symbol: str) -> bytearray:
    check_symbol(symbol)
    message = ouch.EnterOrder(
        user_ref_num=0,
        side="B",
        quantity=100,
        symbol=symbol,
        price=FAR_PRICE,
        time_in_force="0",
        display="Y",
        capacity="P",
        intermarket_sweep_eligibility="N",
        cross_type="N",
        cl_ord_id="",
    )
    return bytearray(soupbintcp.frame(b"U", message.encode()))


class Load:
    """A run of `rate` orders a second for `seconds`, dealt out evenly to the logins, one connection each. Once a second
    `on_progress` is called in the loop's thread, with what has been sent and answered so far."""

    def __init__(
        self,
        symbols: Sequence[str],
        rate: float,
        seconds: float,
        on_progress: Callable[[LoadResult], None] = lambda result: None,
    ) -> None:
        if not (rate > 0 and seconds > 0 and rate * seconds >= 1):
            raise TradingError(f"{rate:g} orders a second for {seconds:g} seconds are no load")
        self.result = LoadResult()
        self._symbols = symbols
        self._on_progress = on_progress
        self._schedule = Schedule(0, rate, int(rate * seconds))
        self._connections: list[LoadConnection] = []
        self._done: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._heart: asyncio.TimerHandle | None = None
        self._first_sent_ns = 0

    async def run(self, host: str, port: int, logins: Sequence[tuple[str, str]]) -> LoadResult:
        """Send it all; `logins` are pairs of name and password. Raises TradingError if a connection fails, or
        if an account has two, and WireError for what no message can carry; nothing is sent then."""
        if len({username for username, _ in logins}) < len(logins):
            raise TradingError("name each account once: it has one connection at a time")
        for username, password in logins:
            check_login(username, password)
        self._done = asyncio.get_running_loop().create_future()
        self._done.add_done_callback(lambda done: done.cancelled() or done.exception())  # it may fail before its turn
        try:
            for username, password in logins:
                await self._connect(host, port, username, password)
            self._beat()
            self._schedule = replace(self._schedule, start_ns=time.monotonic_ns() + START_AFTER_NS)
            self._wait_for(self._schedule.due_ns(0))
            await self._done
            for connection in self._connections:
                connection.finish()
        finally:
            self._done.cancel()
            for timer in (self._timer, self._heart):
                if timer is not None:
                    timer.cancel()
            for connection in self._connections:
                await connection.close()
        return self.result

    def stop(self) -> bool:
        """Send no more orders; `run` cancels those that stand, once all are answered, and returns. Called again, it
        does not wait for the answers. False, and nothing done, before the first order."""
        if not self.result.sent:
            return False
        first = self.result.sent < self._schedule.count
        self._schedule = replace(self._schedule, count=self.result.sent)
        if self._timer is not None:
            self._timer.cancel()
        if first and self.result.unanswered:
            self._timer = asyncio.get_running_loop().call_later(ANSWER_WITHIN_S, self._finish)
        else:
            self._finish()
        return True

    def answered(self, connection: LoadConnection, index: int, reason: int, now_ns: int) -> None:
        """The answer to the order with this index on its connection; reason 0 = accepted."""
        number = index * len(self._connections) + self._connections.index(connection)
        self.result.latencies.add(now_ns - self._schedule.due_ns(number))
        if reason:
            self.result.rejected += 1
            self.result.reasons[reason] += 1
        else:
            self.result.accepted += 1
        if self.result.sent == self._schedule.count and not self.result.unanswered:
            self._finish()

    def failed(self, error: TradingError) -> None:
        if self._done is not None and not self._done.done():
            self._done.set_exception(error)

    async def _connect(self, host: str, port: int, username: str, password: str) -> None:
        connection = await open_connection(host, port, lambda: LoadConnection(username, self._symbols, self))
        self._connections.append(connection)
        connection.login(password)
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                await connection.ready
        except TimeoutError:
            raise DisconnectedError(f"no answer to the login of {username}") from None

    def _send_due(self) -> None:
        now_ns = time.monotonic_ns()
        schedule, result, connections = self._schedule, self.result, self._connections
        due = schedule.due_by(now_ns)
        self._first_sent_ns = self._first_sent_ns or now_ns
        writes: list[list[bytes]] = [[] for _ in connections]
        for number in range(result.sent, min(due, result.sent + BURST)):
            place = number % len(connections)
            writes[place].append(connections[place].next_order())
            result.lateness.add(now_ns - schedule.due_ns(number))
            result.sent += 1
        for connection, data in zip(connections, writes, strict=True):
            if data:
                connection.write(b"".join(data))
        result.seconds = (now_ns - self._first_sent_ns) / SECOND_NS
        if result.sent < schedule.count:
            self._wait_for(schedule.due_ns(result.sent))
        elif result.unanswered:
            self._timer = asyncio.get_running_loop().call_later(ANSWER_WITHIN_S, self._finish)

    def _wait_for(self, due_ns: int) -> None:
        wait_s = max(0, due_ns - time.monotonic_ns()) / SECOND_NS
        self._timer = asyncio.get_running_loop().call_later(wait_s, self._send_due)

    def _finish(self) -> None:
        if self._done is not None and not self._done.done():
            self._done.set_result(None)

    def _beat(self) -> None:
        for connection in self._connections:
            connection.write(soupbintcp.frame(b"R"))
        self._on_progress(self.result)
        self._heart = asyncio.get_running_loop().call_later(1, self._beat)


def run(load: Load, host: str, port: int, logins: Sequence[tuple[str, str]]) -> LoadResult:
    """Run it in an event loop of its own, whose timers are precise. ``STOPS`` stop it in good order;
    main thread only."""
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selectors.SelectSelector())) as runner:
        return runner.run(_until_signalled(load, host, port, logins))


async def _until_signalled(load: Load, host: str, port: int, logins: Sequence[tuple[str, str]]) -> LoadResult:
    running = asyncio.ensure_future(load.run(host, port, logins))

    def stop(number: int) -> None:
        load.result.interrupted = number
        if not load.stop():
            running.cancel()

    for number in STOPS:
        asyncio.get_running_loop().add_signal_handler(number, stop, number)
    try:
        return await running
    except asyncio.CancelledError:  # before the first order
        return load.result
