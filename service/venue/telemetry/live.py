"""The WebSocket /live: what happens in one book, and the figures of the exchange, as they change.

A client says ``{"symbol": "AAPL"}`` and again for another one. It gets at most 20 messages a second, each with what is
new since its last one; a client that is slow to read gets fewer of them, and always the newest state.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
import orjson
from aiohttp import WSMsgType, web

from venue.telemetry.answers import encode
from venue.telemetry.service import ApiError, Service
from venue.telemetry.watches import Watch

log = logging.getLogger(__name__)

INTERVAL_S: Final = 0.05
STATS_INTERVAL_S: Final = 0.5
MAX_SOCKETS: Final = 64
MAX_MESSAGE_BYTES: Final = 512
MAX_TRADES: Final = 50
HEARTBEAT_S: Final = 15.0


class Wanted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a client says."""

    symbol: str


class Hub:
    """All sockets of one service. What several of them get is made once, and all of them at the same moment: the
    process wakes up 20 times a second for any number of pages, and not at all for none."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.sockets: set[web.WebSocketResponse] = set()
        self._beat: asyncio.Event | None = None
        self._stats = b""
        self._stats_at_s = float("-inf")
        self._books: dict[int, tuple[int, bytes]] = {}
        self._trades: dict[tuple[int, int, int], bytes] = {}

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """One client, from its request to its end."""
        _check_origin(request)
        if len(self.sockets) >= MAX_SOCKETS:
            raise ApiError(503, f"{MAX_SOCKETS} pages are open already")
        socket = web.WebSocketResponse(heartbeat=HEARTBEAT_S, max_msg_size=MAX_MESSAGE_BYTES, compress=False)
        self.sockets.add(socket)
        client = Client(self, socket)
        try:
            await socket.prepare(request)
            sending = asyncio.create_task(client.send())
            try:
                async for message in socket:
                    if message.type is WSMsgType.TEXT:
                        client.hear(message.data)
            finally:
                sending.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await sending
        finally:
            self.sockets.discard(socket)
            client.leave()
        return socket

    async def close(self, _: web.Application) -> None:
        """Say goodbye to everyone."""
        for socket in list(self.sockets):
            with contextlib.suppress(ConnectionError):
                await socket.close(code=1001, message=b"the exchange stops")

    async def beat(self) -> None:
        """Until all clients send again, in ``INTERVAL_S`` at most."""
        if self._beat is None:
            self._beat = asyncio.Event()
            asyncio.get_running_loop().call_later(INTERVAL_S, self._strike, self._beat)
        await self._beat.wait()

    def _strike(self, beat: asyncio.Event) -> None:
        self._beat = None
        beat.set()

    def stats(self) -> orjson.Fragment:
        """The figures, at most ``STATS_INTERVAL_S`` old."""
        now_s = time.monotonic()
        if now_s - self._stats_at_s >= STATS_INTERVAL_S - INTERVAL_S:
            self._stats, self._stats_at_s = encode(self.service.figures.stats()), now_s
        return orjson.Fragment(self._stats)

    def book(self, watch: Watch, version: int) -> orjson.Fragment | None:
        """A book in the given version or a newer one."""
        known = self._books.get(watch.place)
        if known is None or known[0] != version:
            book = self.service.market.book(watch.place, watch.wish)
            if book is None:
                return None
            known = self._books[watch.place] = version, encode(book)
        return orjson.Fragment(known[1])

    def trades(self, instrument: int, after: int) -> tuple[orjson.Fragment | None, int]:
        """The last trades of an instrument after a number, and up to which number that is; None if there are none."""
        market = self.service.market
        shard = market.shard_of(instrument)
        newest = market.newest_trade(shard)
        if newest == after:
            return None, newest
        key = instrument, after, newest
        if key not in self._trades:
            rows = market.trades_after(after, shard)
            newest = int(rows["number"][-1]) if len(rows) else newest
            names = market.page.account_names()
            mine = [market.trade(names, row) for row in rows[rows["instrument"] == instrument][-MAX_TRADES:]]
            if len(self._trades) >= MAX_SOCKETS:
                self._trades.clear()
            key = instrument, after, newest
            self._trades[key] = encode(mine) if mine else b""
        made = self._trades[key]
        return (orjson.Fragment(made) if made else None), newest


class Client:
    """What one client looks at, and what it has been told."""

    def __init__(self, hub: Hub, socket: web.WebSocketResponse) -> None:
        self._hub = hub
        self._socket = socket
        self._symbol = ""
        self._watch: Watch | None = None
        self._error = ""
        self._complained = ""
        self._version = -1
        self._trade = 0
        self._stats_at_s = float("-inf")

    def hear(self, text: str) -> None:
        """A message of the client."""
        try:
            wanted = msgspec.json.decode(text, type=Wanted)
        except msgspec.MsgspecError as error:
            self._complain(f'expected {{"symbol": "AAPL"}}: {error}')
            return
        self.leave()
        self._symbol, self._version, self._trade, self._complained = wanted.symbol, -1, 0, ""

    def _complain(self, error: str) -> None:
        """Say it with the next message, but not again and again."""
        if error != self._complained:
            self._error = self._complained = error

    def leave(self) -> None:
        """Look at nothing any more."""
        if self._watch is not None:
            self._hub.service.unwatch(self._watch, lingers=False)
        self._watch, self._symbol = None, ""

    async def send(self) -> None:
        """Send what is new, again and again, until the connection ends."""
        try:
            while True:
                update = self._update()
                if update is not None:
                    await self._socket.send_str(orjson.dumps(update).decode())
                await self._hub.beat()
        except ConnectionError:
            pass
        except Exception:
            log.exception("cannot go on sending to a page")
            await self._socket.close(code=1011)

    def _update(self) -> dict[str, Any] | None:
        head = {"at": datetime.now(UTC).isoformat(timespec="milliseconds")}
        self._try_to_watch()
        if self._error:
            error, self._error = self._error, ""
            return {"type": "error", **head, "error": error}
        new = {name: part for name, part in self._parts().items() if part is not None}
        return {"type": "update", **head, "symbol": self._symbol or None, **new} if new else None

    def _try_to_watch(self) -> None:
        """A symbol that is not known yet may come with the feed, and a place may become free."""
        if self._symbol and self._watch is None:
            try:
                self._watch = self._hub.service.watch(self._symbol)
            except ApiError as error:
                self._complain(str(error))

    def _parts(self) -> dict[str, Any]:
        parts: dict[str, Any] = {}
        if self._watch is not None:
            version = self._hub.service.market.book_version(self._watch.place, self._watch.wish)
            if version is not None and version != self._version:
                self._version = version
                parts["book"] = self._hub.book(self._watch, version)
            parts["trades"], self._trade = self._hub.trades(self._watch.instrument, self._trade)
        now_s = time.monotonic()
        if now_s - self._stats_at_s >= STATS_INTERVAL_S:
            self._stats_at_s = now_s
            parts["stats"] = self._hub.stats()
        return parts


def _check_origin(request: web.Request) -> None:
    """A page of another site may not read along: browsers name the site, and do not ask before they connect."""
    origin = request.headers.get("Origin")
    if origin is not None and urlsplit(origin).netloc.lower() != request.host.lower():
        raise ApiError(403, "the page of another site may not look in here")
