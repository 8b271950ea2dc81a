"""The telemetry process: an HTTP server over a counters page that it maps read-only.

It lives as long as the page's owner, or until SIGTERM. It leaves SIGINT and SIGHUP to the owner, and gives way to
it (:mod:`venue.telemetry.giving_way`).
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from aiohttp import web
from prometheus_client.exposition import choose_encoder

from venue.telemetry import api, live, openapi, web_files
from venue.telemetry.collector import make_registry
from venue.telemetry.giving_way import GivingWay
from venue.telemetry.launcher import TOKEN_HASH
from venue.telemetry.operator import Operator
from venue.telemetry.page import Page, State, open_read_only
from venue.telemetry.service import Service

TICK_S: Final = 1.0
HEARTBEAT_LIMIT_S: Final = 5.0
CONNECTIONS: Final = 2 * live.MAX_SOCKETS
"""How many connections may be open at once; those beyond are closed as they come."""
IDLE_TIMEOUT_S: Final = 60.0
"""A connection is closed after so long without a complete request."""
SHUTDOWN_TIMEOUT_S: Final = 1.0

log = logging.getLogger(__name__)


def why_unhealthy(page: Page) -> str | None:
    """One line on what is wrong with the page's owner, or None.

    While it starts and compiles, its loop does not beat; that it runs is enough then.
    """
    if not page.owner_alive():
        return "the exchange process is gone"
    if page.state in (State.STARTING, State.COMPILING):
        return None
    age_s = page.heartbeat_age_s()
    return f"no heartbeat for {age_s:.1f} s" if age_s > HEARTBEAT_LIMIT_S else None


def make_app(page: Page, operator_token_hash: str = "") -> tuple[web.Application, Callable[[], None]]:
    """Everything that is served, and what has to be called once a second."""
    registry, collector = make_registry(page)
    service = Service(page, collector)
    hub = live.Hub(service)

    async def metrics(request: web.Request) -> web.Response:
        try:
            encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        except (ValueError, TypeError):  # asks for a version that is no version
            encode, content_type = choose_encoder("")
        return web.Response(body=encode(registry), headers={"Content-Type": content_type})

    async def healthz(_: web.Request) -> web.Response:
        reason = why_unhealthy(page)
        return web.Response(text=f"{reason or 'ok'}\n", status=503 if reason else 200)

    async def readyz(_: web.Request) -> web.Response:
        state = page.state
        return web.Response(text=f"{state.name.lower()}\n", status=200 if state is State.READY else 503)

    app = web.Application(middlewares=[api.errors_as_json], client_max_size=api.MAX_BODY_BYTES)
    app.add_routes([web.get("/metrics", metrics), web.get("/healthz", healthz), web.get("/readyz", readyz)])
    app.add_routes(api.routes(service, Operator(service, operator_token_hash), openapi.encoded()))
    app.add_routes([web.get("/live", hub.handle), *web_files.routes()])
    app.on_response_prepare.append(_harden)
    app.on_shutdown.append(hub.close)

    def tick() -> None:
        collector.tick()
        service.tick()

    return app, tick


async def _harden(_: web.Request, response: web.StreamResponse) -> None:
    response.headers.setdefault("X-Content-Type-Options", "nosniff")


async def serve(page: Page, listening_socket: socket.socket, operator_token_hash: str = "") -> None:
    """Answer on a listening socket until SIGTERM or until the page's owner is gone."""
    loop = asyncio.get_running_loop()
    priority = GivingWay()
    stop = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    app, tick = make_app(page, operator_token_hash)
    runner = web.AppRunner(app, access_log=None, keepalive_timeout=IDLE_TIMEOUT_S, shutdown_timeout=SHUTDOWN_TIMEOUT_S)
    await runner.setup()
    http = runner.server
    assert http is not None

    accepting = asyncio.create_task(_accept(http, listening_socket))
    try:
        while not stop.is_set() and page.owner_alive():
            priority.tick(loop.time(), TICK_S)
            tick()
            await _wait(stop.wait, TICK_S)
    finally:
        accepting.cancel()
        await runner.cleanup()


async def _accept(http: web.Server, listening_socket: socket.socket) -> None:
    """Take connections, never more than ``CONNECTIONS`` at once.

    One after the other, as asyncio's own servers accept a hundred before they are counted.
    """
    loop = asyncio.get_running_loop()
    while True:
        try:
            connection, _ = await loop.sock_accept(listening_socket)
            if len(http.connections) < CONNECTIONS:
                await loop.connect_accepted_socket(http, connection)
            else:
                connection.close()
        except OSError as error:  # out of descriptors, or the client is gone again
            log.warning("cannot take a connection", extra={"reason": str(error)})
            await asyncio.sleep(TICK_S)


async def _wait(wait: Callable[[], Awaitable[object]], timeout_s: float) -> None:
    """Wait for something, but no longer than ``timeout_s``."""
    try:
        async with asyncio.timeout(timeout_s):
            await wait()
    except TimeoutError:
        pass


def run(page_path: Path, descriptor: int) -> None:
    """The process's main function: serve the page at ``page_path`` on the inherited listening socket ``descriptor``.

    Raises PageError if the page cannot be read, and OSError if the descriptor is no socket.
    """
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    page = open_read_only(page_path)
    with socket.socket(fileno=descriptor) as listening_socket:
        listening_socket.setblocking(False)
        asyncio.run(serve(page, listening_socket, os.environ.get(TOKEN_HASH, "")))
