"""The WebSocket of the page: what it sends, how often, and to whom it does not."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import aiohttp
import orjson
import pytest

import recorded_day as day
from api_client import Api, api_of, check
from exchange_rig import Venue, enter, with_exchange
from venue.telemetry.collector import make_registry
from venue.telemetry.live import MAX_SOCKETS, MAX_TRADES, Client, Hub
from venue.telemetry.service import Service


@with_exchange(engine={"mode": "match"})
async def test_a_page_sees_the_book_the_trades_and_the_figures_as_they_change(venue: Venue) -> None:
    alpha = await venue.login("ALPHA")
    await alpha.hear(enter(1, "S", 30, 190_0000), enter(2, "B", 5, 190_0000))
    async with api_of(venue) as api, api.live() as page:
        first = await page.next()
        assert (first["type"], first["symbol"], list(first)) == ("update", None, ["type", "at", "symbol", "stats"])
        check(first["stats"], "GET", "/api/stats", 200)
        await page.look("AAPL")
        both: dict[str, Any] = {}
        while not {"trades", "book"} <= set(both):
            both |= await page.next()
        trades, book = both["trades"], both["book"]
        check(book, "GET", "/api/book/AAPL", 200)
        check({"fills": trades, "next": 1, "missed": 0}, "GET", "/api/fills", 200)
        assert [(trade["number"], trade["kind"]) for trade in trades] == [(1, "own")], "also what was before it came"
        assert book["asks"][0]["shares"] == 25

        await alpha.hear(enter(3, "B", 10, 190_0000), enter(4, "B", 1, 180_0000, symbol="MSFT"))
        while (update := await page.until("book"))["book"]["asks"][0]["shares"] != 15:
            pass
        assert update["symbol"] == "AAPL"
        await page.look("MSFT")
        while (update := await page.until("book"))["symbol"] != "MSFT":
            pass
        assert update["book"]["bids"][0]["price"] == "180.0000"
        assert "trades" not in update
        await page.until("stats")


@with_exchange()
async def test_each_trade_comes_once_and_in_order(venue: Venue) -> None:
    await venue.tell(day.added(1, "S", 100_000, 190_0000))
    async with api_of(venue) as api, api.live("AAPL") as page:
        await page.until("book")
        seen: list[int] = []
        for _ in range(4):
            await venue.tell(*[day.executed(1, 1) for _ in range(10)])
            seen += [trade["number"] for trade in (await page.until("trades"))["trades"]]
        while len(seen) < 40:
            seen += [trade["number"] for trade in (await page.until("trades"))["trades"]]
        assert seen == list(range(1, 41))
        await venue.tell(*[day.executed(1, 1) for _ in range(200)])
        while seen[-1] < 240:
            batch = [trade["number"] for trade in (await page.until("trades"))["trades"]]
            assert len(batch) <= MAX_TRADES
            seen += batch
        assert seen == sorted(set(seen)), "of more than fifty at once the oldest are left out, none comes twice"


@with_exchange()
async def test_at_most_twenty_messages_a_second_however_much_happens(venue: Venue) -> None:
    await venue.tell(day.added(1, "S", 1_000_000, 190_0000))
    async with api_of(venue) as api, api.live("AAPL") as page:
        await page.until("book")
        begun, count = time.monotonic(), 0
        while count < 30:
            await venue.tell(day.executed(1, 1))
            try:
                async with asyncio.timeout(0.001):
                    await page.next()
                    count += 1
            except TimeoutError:
                pass
        assert count / (time.monotonic() - begun) <= 21


@with_exchange(engine={"mode": "match"})
async def test_what_a_page_says_wrong_is_told_once(venue: Venue) -> None:
    async with api_of(venue) as api, api.live() as page:
        for nonsense in ("hello", "[]", '{"symbol": 5}', '{"symbol": "AAPL", "depth": 5}'):
            await page.socket.send_str(nonsense)
            assert 'expected {"symbol": "AAPL"}' in (await page.until("error"))["error"]
        await page.look("LATER")
        assert (await page.until("error"))["error"] == "no instrument 'LATER'"
        venue.instruments.add("LATER")
        assert (await page.until("book"))["book"]["symbol"] == "LATER", "it is looked for until it is there"
        await page.socket.send_str("x" * 1000)
        assert (await page.socket.receive()).type in (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.TEXT)


@with_exchange(engine={"mode": "match"})
async def test_pages_of_other_sites_are_refused_and_the_number_is_bounded(venue: Venue) -> None:
    async with api_of(venue) as api:
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await api.session.ws_connect("/live", headers={"Origin": "https://elsewhere.example"})
        assert refused.value.status == 403
        own = str(api.session._base_url).rstrip("/")
        sockets = [await api.session.ws_connect("/live", headers={"Origin": own}) for _ in range(MAX_SOCKETS)]
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await api.session.ws_connect("/live")
        assert refused.value.status == 503
        await sockets.pop().close()
        await one_more(api)
        for each in sockets:
            await each.close()


async def one_more(api: Api) -> None:
    while True:
        try:
            await (await api.session.ws_connect("/live")).close()
        except aiohttp.WSServerHandshakeError:
            await asyncio.sleep(0.005)
        else:
            return


class Socket:
    """Takes a message only when it is allowed to."""

    def __init__(self, may_take: int = 0) -> None:
        self.taken: asyncio.Queue[Any] = asyncio.Queue()
        self.may_take = asyncio.Semaphore(may_take)

    async def send_str(self, text: str) -> None:
        await self.may_take.acquire()
        self.taken.put_nowait(orjson.loads(text))


@with_exchange()
async def test_a_page_that_does_not_read_gets_the_newest_state_when_it_does(venue: Venue) -> None:
    await venue.tell(day.added(1, "S", 1_000, 190_0000))
    hub = Hub(Service(venue.page, make_registry(venue.page)[1]))
    slow, quick = Socket(), Socket(may_take=1_000)
    sending = []
    for socket in (slow, quick):
        client = Client(hub, socket)  # type: ignore[arg-type]
        client.hear('{"symbol": "AAPL"}')
        sending.append(asyncio.create_task(client.send()))
    for number in range(5):
        await venue.tell(day.executed(1, 100))
        while (await quick.taken.get()).get("book", {"asks": []})["asks"][:1] != level(900 - 100 * number):
            pass  # it does not wait for the slow one
    slow.may_take.release()
    slow.may_take.release()
    made_long_ago, newest = await slow.taken.get(), await slow.taken.get()
    for task in sending:
        task.cancel()
    trades = made_long_ago.get("trades", []) + newest["trades"]
    assert [trade["number"] for trade in trades] == [1, 2, 3, 4, 5]
    assert newest["book"]["asks"] == level(500), "one book, the last one"


def level(shares: int) -> list[dict[str, Any]]:
    return [{"price": "190.0000", "ticks": 190_0000, "shares": shares, "orders": 1, "own_shares": 0}]
