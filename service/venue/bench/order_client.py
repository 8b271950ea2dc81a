"""A compiled order client: it logs in and tidies up in plain Python, and measures in :mod:`venue.bench.order_traffic`.

    with OrderClient(served.addresses["orders"], account_names(4)) as client:
        run = client.run(100_000, rate=50_000)
        percentile_us(run.latencies_ns, 0.99)

Every order is answered or the run ends in a BenchError.
"""

from __future__ import annotations

import ctypes
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final

import numpy as np

from venue.bench import order_traffic as traffic
from venue.bench.exchange import PASSWORD, BenchError
from venue.bench.order_traffic import ACCEPTED, BASE, CANCELED, FIRST_REF, LIVE, PREPARED, SENT_BYTES, SLOTS
from venue.engine.records import Array
from venue.wire import ouch, soupbintcp

IN_FLIGHT: Final = SLOTS // 2
"""The most: an order's place must not be used again before the Cancel beside it is out."""
BUFFER_BYTES: Final = 4 << 20
"""Asked of the kernel for each direction of a socket."""
ANSWER_WITHIN_S: Final = 10
START_AFTER_NS: Final = 1_000_000
SYMBOLS: Final = ("AAPL", "AMD", "AMZN", "GOOGL", "META", "MSFT", "NVDA", "TSLA")
BUY_TICKS: Final = 900_000
SELL_TICKS: Final = 1_100_000
STEP_TICKS: Final = 100
STEPS: Final = 16
"""Price levels of a symbol and side."""
REASONS: Final = {
    traffic.BROKEN: "a packet of length 0 came",
    traffic.UNEXPECTED: "an answer came that is neither Accepted nor Canceled",
    traffic.WRONG_ORDER: "an answer came that is not that of the next order",
}
PR_SET_TIMERSLACK: Final = 29


@dataclass(frozen=True, slots=True)
class Run:
    """What a run measured."""

    orders: int
    seconds: float
    """From the first order to the last answer."""
    latencies_ns: Array
    """int64[orders], by connection and then in the order of sending: until the order's Accepted was read."""

    @property
    def orders_per_s(self) -> float:
        return self.orders / self.seconds


def percentile_us(latencies_ns: Array, percent: float) -> float:
    """The smallest sample that at least ``percent`` of all do not exceed, in microseconds."""
    return float(np.percentile(latencies_ns, percent, method="inverted_cdf")) / 1e3


class OrderClient:
    """One connection an account, all driven by the calling thread. Each keeps ``LIVE`` orders in the book until
    :meth:`close`. The exchange cuts connections that say nothing for 15 s."""

    def __init__(self, address: tuple[str, int], accounts: Sequence[str]) -> None:
        """Log in, and let the first orders rest. BenchError if that fails."""
        self.orders = 0
        """Entered so far, over all connections."""
        self._c = traffic.connections(len(accounts))
        self._sockets: list[socket.socket] = []
        self._c.out[:] = prepared_orders()
        precise_sleep()
        try:
            for account in accounts:
                self._log_in(address, account)
        except BaseException:
            self._hang_up()
            raise

    def __enter__(self) -> OrderClient:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if kind is None:
            self.close()
        else:
            self._hang_up()

    def run(self, orders: int, in_flight: int = IN_FLIGHT, rate: int = 0) -> Run:
        """Enter about ``orders`` orders, as many on each connection, and cancel as many. ``rate``: so many a second
        over all connections, each latency counted from when its order was due; 0: as soon as fewer than ``in_flight``
        of a connection are unanswered, counted from the sending."""
        if not 1 <= in_flight <= IN_FLIGHT:
            raise ValueError(f"1 to {IN_FLIGHT} orders can be in flight, not {in_flight}")
        each = max(1, orders // len(self._sockets))

        def call(start_ns: int, latencies_ns: Array) -> int:
            return int(traffic.stream(self._c, each, in_flight, rate, start_ns, latencies_ns))

        return self._measure(call, each, len(self._sockets))

    def round_trips(self, orders: int, rate: int = 0) -> Run:
        """Enter orders one after the other over the first connection, never two in flight; with a ``rate`` each when
        it is due or later. They are canceled after the measured time. At most ``SLOTS`` orders."""
        if not 1 <= orders <= SLOTS:
            raise ValueError(f"1 to {SLOTS} orders at a time, not {orders}")

        def call(start_ns: int, latencies_ns: Array) -> int:
            return int(traffic.round_trips(self._c, orders, rate, start_ns, latencies_ns))

        result = self._measure(call, orders, 1)
        row = self._c.rows[0]
        row[SENT_BYTES] = row[PREPARED] * traffic.PAIR_BYTES
        self._cancel(0, int(row[CANCELED]), int(row[PREPARED]) - LIVE)
        return result

    def close(self) -> None:
        """Cancel what still stands, log out and hang up."""
        try:
            for k, line in enumerate(self._sockets):
                row = self._c.rows[k]
                self._cancel(k, int(row[CANCELED]), int(row[PREPARED]))
                line.sendall(soupbintcp.frame(b"O"))
        finally:
            self._hang_up()

    def _measure(self, call: Callable[[int, Array], int], each: int, connections: int) -> Run:
        latencies_ns = np.zeros((connections, each), np.int64)
        self._c.rows[:, BASE] = self._c.rows[:, PREPARED]
        start_ns = time.monotonic_ns() + START_AFTER_NS
        heard, heard_ns = self._heard(), start_ns
        begun_ns = time.monotonic_ns()
        while (code := call(start_ns, latencies_ns)) == traffic.GOES_ON:
            if self._heard() != heard:
                heard, heard_ns = self._heard(), time.monotonic_ns()
            elif time.monotonic_ns() - heard_ns > ANSWER_WITHIN_S * traffic.SECOND_NS:
                code = traffic.CLOSED
                break
        seconds = (time.monotonic_ns() - begun_ns) / 1e9
        if code != traffic.DONE:
            raise self._error(code)
        self.orders += connections * each
        return Run(connections * each, seconds, latencies_ns.reshape(-1))

    def _heard(self) -> int:
        return int(self._c.rows[:, [ACCEPTED, CANCELED]].sum())

    # --- in plain Python ----------------------------------------------------------------------------------------------

    def _log_in(self, address: tuple[str, int], account: str) -> None:
        try:
            line = socket.create_connection(address, ANSWER_WITHIN_S)
        except OSError as error:
            raise BenchError(f"no connection to {address[0]}:{address[1]}: {error}") from None
        k = len(self._sockets)
        self._sockets.append(line)
        prepare_socket(line)
        request = soupbintcp.LoginRequest(username=account, password=PASSWORD, session="", sequence=0)
        line.sendall(soupbintcp.packet(request))
        if (packet := _packet(line))[:1] != b"A":
            raise BenchError(f"the login of {account} was answered with {packet[:2]!r}")
        line.sendall(soupbintcp.frame(b"U", ouch.AccountQuery().encode()))
        answer = ouch.AccountQueryResponse.decode(_packet(line)[1:])
        line.settimeout(None)  # the descriptor blocks; SO_RCVTIMEO ends that
        row = self._c.rows[k]
        row[FIRST_REF], row[PREPARED] = answer.next_user_ref_num, LIVE
        row[SENT_BYTES] = LIVE * traffic.PAIR_BYTES
        self._c.polls[k] = line.fileno()
        line.sendall(self._numbered(k, range(LIVE), traffic.ENTER_REF, slice(0, traffic.ENTER_BYTES)))
        self._read_until(k, ACCEPTED, LIVE)
        self.orders += LIVE

    def _cancel(self, k: int, start: int, end: int) -> None:
        """Cancel orders ``start`` to ``end`` and wait until they are."""
        part = slice(traffic.ENTER_BYTES, traffic.PAIR_BYTES)
        for first in range(start, end, IN_FLIGHT):
            last = min(first + IN_FLIGHT, end)
            self._sockets[k].sendall(self._numbered(k, range(first, last), traffic.CANCEL_REF, part))
            self._read_until(k, CANCELED, last)

    def _numbered(self, k: int, numbers: range, ref_at: int, part: slice) -> bytes:
        """One message, a part of the prepared pairs, for each of these orders."""
        pairs = self._c.out[k].reshape(SLOTS, traffic.PAIR_BYTES)[np.arange(numbers.start, numbers.stop) % SLOTS]
        refs = (np.arange(numbers.start, numbers.stop) + self._c.rows[k, FIRST_REF]).astype(">u4")
        pairs[:, ref_at : ref_at + 4] = refs.view(np.uint8).reshape(-1, 4)
        data: bytes = pairs[:, part].tobytes()
        return data

    def _read_until(self, k: int, what: int, count: int) -> None:
        while self._c.rows[k, what] < count:
            code = int(traffic.receive(self._c, k, self._c.times_ns[k, :0], 0))
            if code != traffic.DONE:
                raise self._error(code)

    def _error(self, code: int) -> BenchError:
        """What is wrong, in words."""
        if code != traffic.CLOSED:
            return BenchError(REASONS[code])
        if closed := sum(map(_is_closed, self._sockets)):
            return BenchError(f"the exchange has closed {closed} of {len(self._sockets)} connections")
        return BenchError(f"nothing came for {ANSWER_WITHIN_S} s, all connections are open")

    def _hang_up(self) -> None:
        for line in self._sockets:
            line.close()


def prepared_orders() -> Array:
    """The bytes of one connection's pairs of Enter and Cancel, without their numbers: by turns of each symbol, then of
    each side, then of each price. uint8[CYCLE_BYTES]."""
    cancel = soupbintcp.frame(b"U", ouch.CancelOrder(user_ref_num=0, quantity=0).encode())
    pairs = []
    for slot in range(SLOTS):
        turn, symbol = divmod(slot, len(SYMBOLS))
        step = turn // 2 % STEPS * STEP_TICKS
        enter = ouch.EnterOrder(
            user_ref_num=0,
            side="S" if turn % 2 else "B",
            quantity=100,
            symbol=SYMBOLS[symbol],
            price=SELL_TICKS + step if turn % 2 else BUY_TICKS - step,
            time_in_force="0",
            display="Y",
            capacity="P",
            intermarket_sweep_eligibility="N",
            cross_type="N",
            cl_ord_id="",
        )
        pairs.append(soupbintcp.frame(b"U", enter.encode()) + cancel)
    return np.frombuffer(b"".join(pairs), np.uint8)


def prepare_socket(line: socket.socket) -> None:
    """No waiting for more to send, room for many answers, and an end to waiting for one."""
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    line.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)
    line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
    timeout: Any = np.array([ANSWER_WITHIN_S, 0], np.int64).tobytes()  # struct timeval
    line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, timeout)


def precise_sleep() -> None:
    """Let the calling thread's sleeps end on time; Linux is 50 µs late otherwise."""
    ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)


def _is_closed(line: socket.socket) -> bool:
    """Whether the other side has closed it. What has arrived before that is taken from it."""
    try:
        while line.recv(BUFFER_BYTES, socket.MSG_DONTWAIT):
            pass
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def _packet(line: socket.socket) -> bytes:
    """The next SoupBinTCP packet without its length."""
    return _exactly(line, int.from_bytes(_exactly(line, 2), "big"))


def _exactly(line: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        try:
            more = line.recv(count - len(data))
        except OSError as error:
            raise BenchError(f"no answer to a login: {error}") from None
        if not more:
            raise BenchError("the exchange closed a connection at its login")
        data += more
    return data
