"""Order entry: OUCH 5.0 over SoupBinTCP over TCP, between sockets and the two rings.

Nothing here looks at one message at a time. For a received chunk there is one compiled call, which makes commands of
it and, when the matching thread is quick, sends the answers as well; a wake-up encodes and sends all waiting events in
another (:mod:`venue.engine.order_turn`). Each client that got something is written to once, and only those that do not
take it at once are seen here.

Each account has one stream for the day (:mod:`venue.store`), and at most one connection at a time
(:mod:`venue.connection`): a newer login takes over. All of it runs in the loop thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from venue.authentication import Authenticator, Rejections
from venue.config import Account, Orders
from venue.connection import NOBODY, Connection
from venue.engine import counters, order_decoder, order_encoder, order_turn, ring
from venue.engine.counters import PEER_BYTES
from venue.engine.link import Link
from venue.engine.records import CANCEL_ALL, COMMAND, DAY_EVENT, SET_KILL_SWITCH
from venue.instruments import Instruments
from venue.sparing_log import SparingLog
from venue.store import Store
from venue.telemetry.page import Page
from venue.wire.ouch import CancelReason
from venue.wire.soupbintcp import LoginRequested

log = logging.getLogger("venue.gateway")

TICK_S: Final = 0.25
RETRY_S: Final = 0.001  # uvloop counts whole milliseconds: anything less is a busy loop
"""How soon a full command ring is tried again."""
PASS_EVENTS: Final = 2_048
PASSES: Final = 2
"""So many passes before sockets get their turn."""
FINAL_PASSES: Final = 64
STOP_TIMEOUT_S: Final = 2.0
BACKLOG: Final = 128
NO_DESCRIPTOR: Final = -1


class Gateway:
    """The order port. ``clock`` is the monotonic clock in ns, which tests replace; ``market_offset_ns`` turns its
    time into market time. ``page`` is the counters page, whose gateway and account sections are written here."""

    def __init__(
        self,
        link: Link,
        page: Page,
        instruments: Instruments,
        accounts: Sequence[Account],
        settings: Orders,
        market_offset_ns: int,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.clock = clock
        self.market_offset_ns = market_offset_ns
        self.command_wake = link.command_wake
        self.max_unsent_bytes = settings.max_unsent_bytes
        self.counters: Any = page.gateway[0]
        self.firms = [int.from_bytes(account.firm.encode("ascii").ljust(4), "big") for account in accounts]
        self.store = Store(len(accounts), settings.max_store_bytes // len(accounts))
        self.closed_accounts = [False] * len(accounts)
        """Accounts that have used up their store: they may read, but send no more orders."""
        self.messages_in = [0] * len(accounts)
        """Order messages taken from each account."""
        self.closing = False
        """The day has ended: no more orders are taken."""
        self.connections: set[Connection] = set()
        self._live: list[Connection | None] = [None] * len(accounts)
        self._accounts = accounts
        self._settings = settings
        self._account_rows = page.accounts[: len(accounts)]
        self._authenticator = Authenticator(accounts)
        self._rejections = Rejections()
        self._logins: dict[Connection, asyncio.Task[None]] = {}
        """Logins whose password is being checked."""
        self._strangers: dict[Connection, None] = {}
        """Connections that are no account's, the oldest first: not logged in yet, or on their way out."""
        self._complaints = SparingLog(log)
        self._refused = 0
        self._lost = 0
        # towards the matching thread
        scratch = np.zeros(2, np.int64)
        socket_to_ring = page.histograms[counters.SOCKET_TO_RING]
        self._inbound = (tuple(link.commands), instruments.table, page.gateway, socket_to_ring, scratch)
        self._service: deque[tuple[int, int, int]] = deque()
        self._waiting: deque[Connection] = deque()
        self._retry: asyncio.TimerHandle | None = None
        self._full = False
        # from the matching thread
        self._event_wake = link.event_wake
        self._work = order_encoder.work(PASS_EVENTS)
        tail = (self._work, page.gateway, page.histograms)
        symbols = instruments.symbols.reshape(-1)
        outbound = (tuple(link.events), self.store.arrays, symbols, *tail)
        finishing = (tuple(link.events), *tail, page.account_histograms)
        self._packed = order_turn.pack((self._inbound, outbound, finishing))
        self.turn_memory = self._packed.memory
        """What :func:`venue.engine.order_turn.turn` works on."""
        self._again: asyncio.Handle | None = None
        self._server: asyncio.Server | None = None
        self._tick: asyncio.TimerHandle | None = None

    # --- life ---------------------------------------------------------------------------------------------------------

    def warm_up(self) -> None:
        """Compile all that is called later; before the matching thread starts. Takes seconds the first time."""
        spare = (tuple(ring.create(2, COMMAND)), *self._inbound[1:])
        order_decoder.submit(spare, DAY_EVENT, 0, 0, 0, NO_DESCRIPTOR)
        order_turn.turn(self.turn_memory, np.zeros(1, np.uint8), 0, 0, 0, 0, 0, 0, NO_DESCRIPTOR)
        order_turn.deliver(self.turn_memory, 0)

    async def start(self, listening_socket: socket.socket) -> None:
        """Serve a bound socket, and read events whenever the matching thread wakes the loop."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: Connection(self), sock=listening_socket, backlog=BACKLOG)
        loop.add_reader(self._event_wake, self._woken)
        self._tick = loop.call_later(TICK_S, self._tick_again)
        self.handle_events()

    def start_day(self) -> None:
        """System Event S to every account. Called before orders can come, it is the first message of each stream."""
        for account in range(len(self._accounts)):
            self._command(DAY_EVENT, account, ord("S"))

    def end_day(self) -> None:
        """System Event E to every account. What clients send from now on is dropped."""
        self.closing = True
        for account in range(len(self._accounts)):
            self._command(DAY_EVENT, account, ord("E"))

    def set_kill_switch(self, account: int, on: bool) -> None:
        """Cancel all orders of an account and let it enter none, or let it trade again."""
        self._command(SET_KILL_SWITCH, account, int(on))

    async def stop(self) -> None:
        """Write what is there, End of Session to everyone, and close; a client that does not read is cut after
        ``STOP_TIMEOUT_S``."""
        self.closing = True
        if self._server is not None:
            self._server.close()
        for _ in range(FINAL_PASSES):
            if self._pass():
                break
        for connection in list(self.connections):
            connection.end(self.clock())
        if self.connections:
            await asyncio.wait([connection.ended for connection in self.connections], timeout=STOP_TIMEOUT_S)
        for connection in list(self.connections):
            connection.cut("end of session, not read")
        asyncio.get_running_loop().remove_reader(self._event_wake)
        for handle in (self._tick, self._retry, self._again):
            if handle is not None:
                handle.cancel()
        for login in self._logins.values():
            login.cancel()
        self._authenticator.close()
        self._gauges()

    def _tick_again(self) -> None:
        self._tick = asyncio.get_running_loop().call_later(TICK_S, self._tick_again)
        self.tick()

    def tick(self) -> None:
        """One timer for all connections: what is due by the clock, and the gauges."""
        now = self.clock()
        for connection in list(self.connections):
            connection.tick(now)
        if self._refused:
            log.warning("connections refused", extra={"refused": self._refused, "open": len(self.connections)})
            self._refused = 0
        if self.store.lost != self._lost:
            log.critical("session store full: messages lost", extra={"messages": self.store.lost - self._lost})
            self._lost = self.store.lost
        self._gauges()

    # --- connections --------------------------------------------------------------------------------------------------

    def connected(self, connection: Connection) -> None:
        """Where there is no room, the oldest stranger makes some: sockets that say nothing lock nobody out. Strangers
        of one host take no more than half of the places."""
        self.counters["connections_total"] += 1
        self.connections.add(connection)
        self._strangers[connection] = None
        of_host = [stranger for stranger in self._strangers if stranger.host == connection.host]
        if len(of_host) > max(self._settings.max_connections // 2, 1):
            self._refuse(of_host[0])
        elif len(self.connections) > self._settings.max_connections:
            self._refuse(next(iter(self._strangers)))

    def _refuse(self, stranger: Connection) -> None:
        self._refused += 1
        stranger.cut("too many connections")
        self.disconnected(stranger)

    def leaving(self, connection: Connection) -> None:
        """It has ended or is about to: nothing more is read from it or written to it."""
        known = connection.account != NOBODY
        fields = {"peer": connection.peer, "reason": connection.end_reason}
        if known:
            fields["account"] = self._accounts[connection.account].username
        log.log(logging.INFO if known else logging.DEBUG, "connection ended", extra=fields)
        if self.waits_for_room(connection):
            self._waiting.remove(connection)
        if login := self._logins.pop(connection, None):
            login.cancel()
        if known and self._live[connection.account] is connection:
            self._live[connection.account] = None
            self._strangers[connection] = None
            if self._accounts[connection.account].cancel_on_disconnect and not self.closing:
                self._command(CANCEL_ALL, connection.account, ord(CancelReason.SYSTEM))

    def disconnected(self, connection: Connection) -> None:
        self.connections.discard(connection)
        self._strangers.pop(connection, None)

    def login(self, connection: Connection, request: LoginRequested) -> None:
        """Answer a login as soon as its password is checked."""
        self._logins[connection] = asyncio.get_running_loop().create_task(self._login(connection, request))

    async def _login(self, connection: Connection, request: LoginRequested) -> None:
        account = await self._authenticator.check(request.username, request.password, connection.host)
        del self._logins[connection]
        now = self.clock()
        fields = {"account": request.username, "peer": connection.peer}
        if account is None:
            self.counters["logins_rejected_not_authorized"] += 1
            delay_ns = self._rejections.delay_ns(connection.host, now)
            self._complaints.warning("login rejected: not authorized", **fields)
            if delay_ns:
                connection.reject_at(now + delay_ns)
            else:
                connection.reject("A", now)
        elif request.session not in ("", self._settings.session):
            self.counters["logins_rejected_no_session"] += 1
            self._complaints.warning("login rejected: no such session", **fields, session=request.session)
            connection.reject("S", now)
        else:
            self._accept(connection, account, request.sequence, now)

    def _accept(self, connection: Connection, account: int, requested: int, now: int) -> None:
        older = self._live[account]
        self._live[account] = connection
        del self._strangers[connection]
        if older is not None:
            self.counters["takeovers"] += 1
            older.cut("taken over by a newer login")
        self.counters["logins_accepted"] += 1
        stream = self.store.streams[account]
        sequence = connection.accept(account, stream, self._settings.session, requested, now)
        fields = {"account": self._accounts[account].username, "peer": connection.peer}
        numbers = {"session": self._settings.session, "sequence": sequence, "last": stream.count}
        log.info("login accepted", extra=fields | numbers)

    # --- commands -----------------------------------------------------------------------------------------------------

    @property
    def service_waits(self) -> bool:
        """Commands of the service wait for room in the ring: no order may pass them."""
        return bool(self._service)

    def waits_for_room(self, connection: Connection) -> bool:
        return connection in self._waiting

    def wait_for_room(self, connection: Connection) -> None:
        """The command ring is full: no more is read from this client until it is not."""
        if not self.waits_for_room(connection):
            self._waiting.append(connection)
            connection.transport.pause_reading()
        self._retry_soon()

    def _command(self, kind: int, account: int, detail: int) -> None:
        """A command of the service itself: published now, or as soon as there is room, never lost."""
        self._service.append((kind, account, detail))
        self._submit_service()

    def _submit_service(self) -> None:
        while self._service:
            time_ns = self.clock() + self.market_offset_ns
            if not order_decoder.submit(self._inbound, *self._service[0], time_ns, self.command_wake):
                self._retry_soon()
                return
            self._service.popleft()

    def _retry_soon(self) -> None:
        if not self._full:
            self._full = True
            self.counters["command_ring_full"] += 1
        if self._retry is None:
            self._retry = asyncio.get_running_loop().call_later(RETRY_S, self._try_again)

    def _try_again(self) -> None:
        """The oldest first; whoever finds the ring full again goes to the end."""
        self._retry = None
        self._submit_service()
        now = self.clock()
        while self._waiting and self._retry is None:
            self._waiting.popleft().read_on(now)  # which may cut others that wait, by what it delivers to them
        self._full = self._retry is not None

    # --- events -------------------------------------------------------------------------------------------------------

    def _woken(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._event_wake, 4096)
        self.handle_events()

    def handle_events(self) -> None:
        """Encode and write what the matching thread has published. RuntimeError for an event that does not exist."""
        if self._again is not None:
            self._again.cancel()
            self._again = None
        for _ in range(PASSES):
            if self._pass():
                return
        self._again = asyncio.get_running_loop().call_soon(self.handle_events)

    def _pass(self) -> bool:
        """One bounded pass. True if the event ring is empty, and the next event will wake the loop."""
        count, left, empty = order_turn.deliver(self.turn_memory, self.clock())
        self._look_after(count, left)
        return bool(empty)

    def delivered(self, count: int, left: int, empty: bool) -> None:
        """A turn of a connection has delivered events, too; the arguments are what it returned about them."""
        self._look_after(count, left)
        if not empty and self._again is None:
            self._again = asyncio.get_running_loop().call_soon(self.handle_events)

    def _look_after(self, count: int, left: int) -> None:
        """What compiled code leaves to Python after ``count`` events: clients that are behind or are not there, and
        accounts whose store comes to its end."""
        if count < 0:
            raise RuntimeError(f"the matching thread published an event of kind {-1 - count}, which does not exist")
        if not left:
            return
        now = self.clock()
        for account in self._work[order_encoder.DIRTY_LIST : order_encoder.DIRTY_LIST + left].tolist():
            connection = self._live[account]
            if connection is not None:
                self.count_bytes_out(connection.pump(now))
            if not self.closed_accounts[account] and self.store.streams[account].nearly_full:
                self._close_account(account)

    def _close_account(self, account: int) -> None:
        """Only the reserve of its store is left: cancel its orders and take no more, so that the stream ends whole."""
        self.closed_accounts[account] = True
        stream = self.store.streams[account]
        fields = {"account": self._accounts[account].username, "bytes": stream.size_bytes, "messages": stream.count}
        log.error("session store nearly full: the account's orders are canceled, and no more are taken", extra=fields)
        self.set_kill_switch(account, True)

    # --- figures ------------------------------------------------------------------------------------------------------

    def count_bytes_in(self, count: int) -> None:
        self.counters["bytes_in"] += count

    def count_bytes_out(self, count: int) -> None:
        self.counters["bytes_out"] += count

    def _gauges(self) -> None:
        logged_in = [connection is not None for connection in self._live]
        self.counters["connections_open"] = len(self.connections)
        self.counters["sessions"] = sum(logged_in)
        self.counters["send_buffer_bytes"] = sum(c.transport.get_write_buffer_size() for c in self.connections)
        self.counters["store_bytes"] = self.store.size_bytes
        rows = self._account_rows
        rows["logged_in"] = logged_in
        rows["unsent_bytes"] = [0 if c is None else c.unsent_bytes() for c in self._live]
        rows["sequence"] = [stream.count for stream in self.store.streams]
        rows["messages_in"] = self.messages_in
        rows["connected_at_ns"] = [0 if c is None else c.connected_at_ns for c in self._live]
        rows["peer"] = [b"" if c is None else c.peer.encode("ascii", "replace")[:PEER_BYTES] for c in self._live]
