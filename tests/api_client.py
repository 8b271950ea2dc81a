"""The JSON API of an exchange in the test's process; every answer is held against the OpenAPI document.

async with api_of(venue) as api:
    assert (await api.get("/api/book/AAPL"))["bids"] == []
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp
import jsonschema
import orjson
from aiohttp.test_utils import TestServer

from exchange_rig import Venue
from venue.telemetry import openapi
from venue.telemetry.page import Page
from venue.telemetry.server import make_app

DOCUMENT = openapi.document()
TICK_S = 0.02


def check(answer: Any, method: str, path: str, status: int) -> None:
    """Fails if the document does not allow this answer."""
    path = path.partition("?")[0]
    template = next(t for t in DOCUMENT["paths"] if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", t), path))
    content = DOCUMENT["paths"][template][method.lower()]["responses"][str(status)]["content"]
    schema = content["application/json"]["schema"] | {"components": DOCUMENT["components"]}
    jsonschema.validate(answer, closed(schema), cls=jsonschema.Draft202012Validator)


def closed(schema: Any) -> Any:
    """The same schema, which then allows no properties that it does not name: what is answered has to be documented."""
    if isinstance(schema, list):
        return [closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {key: closed(value) for key, value in schema.items()}
    return inner | {"additionalProperties": False} if "properties" in schema and "type" in schema else inner


class Api:
    """A client of the API."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self.session = session

    async def get(self, path: str, status: int = 200) -> Any:
        async with self.session.get(path) as response:
            answer = orjson.loads(await response.read())
        assert response.status == status, answer
        assert response.content_type == "application/json"
        check(answer, "GET", path, status)
        return answer

    async def kill(self, account: str, body: Any, status: int = 200, token: str | None = None) -> Any:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        path = f"/api/accounts/{account}/kill"
        data = body if isinstance(body, bytes) else orjson.dumps(body)
        async with self.session.post(path, data=data, headers=headers) as response:
            answer = orjson.loads(await response.read())
        assert response.status == status, answer
        check(answer, "POST", path, status)
        return answer

    @contextlib.asynccontextmanager
    async def live(self, symbol: str | None = None, **headers: str) -> AsyncIterator[Live]:
        async with self.session.ws_connect("/live", headers=headers) as socket:
            live = Live(socket)
            if symbol is not None:
                await live.look(symbol)
            yield live


class Live:
    """A page's WebSocket."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.socket = socket

    async def look(self, symbol: str) -> None:
        await self.socket.send_str(orjson.dumps({"symbol": symbol}).decode())

    async def next(self) -> Any:
        message = await self.socket.receive()
        assert message.type is aiohttp.WSMsgType.TEXT, message
        return orjson.loads(message.data)

    async def until(self, part: str) -> Any:
        """The next message that has this part; the test's timeout bounds it."""
        while part not in (message := await self.next()):
            pass
        return message


@contextlib.asynccontextmanager
async def api_of(venue: Venue, token_hash: str = "") -> AsyncIterator[Api]:
    """The telemetry process's application on a socket of its own, with what `venue serve` does for it."""
    async with api_of_page(venue.page, token_hash, venue.exchange.operator.poll) as api:
        yield api


@contextlib.asynccontextmanager
async def api_of_page(page: Page, token_hash: str = "", poll: Callable[[], None] = lambda: None) -> AsyncIterator[Api]:
    """The same for a page without an exchange; ``poll`` is called again and again."""
    app, tick = make_app(page, token_hash)

    async def beat() -> None:
        while True:
            tick()
            poll()
            await asyncio.sleep(TICK_S)

    beating = asyncio.create_task(beat())
    try:
        async with TestServer(app) as server, aiohttp.ClientSession(server.make_url("/")) as session:
            yield Api(session)
    finally:
        beating.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await beating
