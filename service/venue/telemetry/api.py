"""The JSON API: what can be asked, and how it is answered. The OpenAPI document is made from ``ENDPOINTS``."""

from __future__ import annotations

import functools
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from aiohttp import web

from venue.telemetry import answers
from venue.telemetry.market import Market
from venue.telemetry.operator import Operator
from venue.telemetry.service import ApiError, Service, respond

MAX_OFFSET: Final = 1 << 31
NUMBERS: Final = r"[0-9]{1,18}(,[0-9]{1,18}){0,15}"
MAX_BODY_BYTES: Final = 1_024


@dataclass(frozen=True, slots=True)
class Parameter:
    """Of a query. A number has bounds and a default; a text only a pattern, and may be left out."""

    name: str
    meaning: str
    default: int | None = None
    low: int = 0
    high: int = 0
    pattern: str = ""

    def read(self, request: web.Request) -> Any:
        """Its value. ApiError if it is out of bounds."""
        text = request.query.get(self.name)
        if self.default is None:
            if text is not None and re.fullmatch(self.pattern, text) is None:
                raise ApiError(400, f"{self.name}: expected {self.pattern}, not {text[:40]!r}")
            return text
        if text is None:
            return self.default
        value = int(text) if re.fullmatch(r"[0-9]{1,19}", text) else -1
        if not self.low <= value <= self.high:
            raise ApiError(400, f"{self.name}: expected a number from {self.low} to {self.high}, not {text[:40]!r}")
        return value


LIMIT: Final = Parameter("limit", "How many at most.", default=100, low=1, high=1_000)
OFFSET: Final = Parameter("offset", "How many to leave out.", default=0, high=MAX_OFFSET)
ACCOUNT: Final = Parameter("account", "Only of this account.", pattern=r"[A-Za-z0-9]{1,8}")
SYMBOL: Final = Parameter("symbol", "Only of this symbol.", pattern=r"[!-~]{1,8}")

Handle = Callable[[Service, web.Request, dict[str, Any]], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One path; ``handle`` gets the parameters by name and gives back an ``answer``."""

    path: str
    summary: str
    answer: type[Any]
    handle: Handle
    parameters: tuple[Parameter, ...] = ()
    errors: tuple[int, ...] = ()


# --- handlers -----------------------------------------------------------------------------------------------------


async def get_instruments(service: Service, _: web.Request, wanted: dict[str, Any]) -> answers.Instruments:
    return service.market.instruments(wanted["prefix"] or "", wanted["offset"], wanted["limit"])


async def get_book(service: Service, request: web.Request, wanted: dict[str, Any]) -> answers.Book:
    return await service.book(request.match_info["symbol"], wanted["depth"])


async def get_orders(service: Service, _: web.Request, wanted: dict[str, Any]) -> answers.Orders:
    market = service.market
    _known(market, wanted["account"], wanted["symbol"])
    return market.orders(wanted["account"], wanted["symbol"], wanted["offset"], wanted["limit"])


async def get_fills(service: Service, _: web.Request, wanted: dict[str, Any]) -> answers.Fills:
    market = service.market
    since = [int(number) for number in (wanted["since"] or "0").split(",")]
    threads = len(market.memory.shards)
    if since != [0] and len(since) != threads:
        raise ApiError(400, f"since: expected 0, or a number of each matching thread ({threads}), not {len(since)}")
    return market.fills(since, wanted["limit"])


async def get_sessions(service: Service, _: web.Request, __: dict[str, Any]) -> answers.Sessions:
    return service.figures.sessions()


async def get_stats(service: Service, _: web.Request, __: dict[str, Any]) -> answers.Stats:
    return service.figures.stats()


def _known(market: Market, account: str | None, symbol: str | None) -> None:
    if account is not None and account not in market.page.account_names():
        raise ApiError(404, f"no account {account!r}")
    if symbol is not None and market.instrument(symbol) is None:
        raise ApiError(404, f"no instrument {symbol!r}")


ENDPOINTS: Final = (
    Endpoint(
        "/api/instruments",
        "Instruments with their best prices, in the order in which they became known.",
        answers.Instruments,
        get_instruments,
        (Parameter("prefix", "How the symbol begins.", pattern=r"[!-~]{0,8}"), OFFSET, LIMIT),
        (400, 503),
    ),
    Endpoint(
        "/api/book/{symbol}",
        "A book, at most 50 ms old, with the clients' orders in it.",
        answers.Book,
        get_book,
        (Parameter("depth", "Levels of each side.", default=10, low=1, high=20),),
        (400, 404, 503),
    ),
    Endpoint(
        "/api/orders",
        "Live orders of the clients.",
        answers.Orders,
        get_orders,
        (ACCOUNT, SYMBOL, OFFSET, LIMIT),
        (400, 404, 503),
    ),
    Endpoint(
        "/api/fills",
        "Trades of the clients; of each matching thread the last 65,536 trades, recorded ones included, are kept.",
        answers.Fills,
        get_fills,
        (Parameter("since", "Only trades after what an earlier answer gave as next; 0: all.", pattern=NUMBERS), LIMIT),
        (400, 503),
    ),
    Endpoint("/api/sessions", "The accounts and their connections.", answers.Sessions, get_sessions),
    Endpoint("/api/stats", "The exchange in figures, the same as in /metrics.", answers.Stats, get_stats),
)
KILL_PATH: Final = "/api/accounts/{account}/kill"


async def post_kill(operator: Operator, request: web.Request) -> answers.Killed:
    """Set the kill switch of an account, once the operator's token is checked."""
    await operator.check(request.headers.get("Authorization", ""))
    body = await request.content.read(MAX_BODY_BYTES + 1)
    try:
        wanted = msgspec.json.decode(body[:MAX_BODY_BYTES], type=answers.KillSwitch)
    except msgspec.MsgspecError as error:
        raise ApiError(400, f'expected {{"on": true}} or {{"on": false}}: {error}') from None
    account = request.match_info["account"]
    await operator.set_kill_switch(account, wanted.on)
    return answers.Killed(account=account, on=wanted.on)


# --- routes -------------------------------------------------------------------------------------------------------


def routes(service: Service, operator: Operator, document: bytes) -> list[web.RouteDef]:
    """All of the API; ``document`` is its OpenAPI description."""

    async def get_document(_: web.Request) -> web.Response:
        return web.Response(body=document, content_type="application/json")

    async def kill(request: web.Request) -> web.Response:
        return respond(await post_kill(operator, request))

    reading = [web.get(endpoint.path, functools.partial(_answer, service, endpoint)) for endpoint in ENDPOINTS]
    description = [web.get(path, get_document) for path in ("/api/openapi.json", "/api", "/api/")]
    return [*reading, *description, web.post(KILL_PATH, kill)]


async def _answer(service: Service, endpoint: Endpoint, request: web.Request) -> web.Response:
    wanted = {parameter.name: parameter.read(request) for parameter in endpoint.parameters}
    return respond(await endpoint.handle(service, request, wanted))


@web.middleware
async def errors_as_json(request: web.Request, handler: Any) -> web.StreamResponse:
    """Everything that goes wrong beneath /api is told in JSON."""
    try:
        answer: web.StreamResponse = await handler(request)
        return answer
    except ApiError as error:
        response = respond(answers.Error(error=str(error)), error.status)
        if error.status == 401:
            response.headers["WWW-Authenticate"] = "Bearer"
        return response
    except web.HTTPException as error:
        if error.status < 400 or not f"{request.path}/".startswith("/api/"):
            raise
        response = respond(answers.Error(error=error.reason.lower()), error.status)
        if "Allow" in error.headers:
            response.headers["Allow"] = error.headers["Allow"]
        return response
