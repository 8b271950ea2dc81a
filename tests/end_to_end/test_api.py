"""The JSON API over a whole exchange: real orders and a real feed on one side, HTTP on the other."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import jsonschema
from prometheus_client.parser import text_string_to_metric_families

import recorded_day as day
from api_client import DOCUMENT, Api, api_of, api_of_page
from exchange_rig import Venue, enter, with_exchange
from gateway_rig import PASSWORD, password_hash
from shared import SHARED_DATA, needs_shared
from venue.engine.live_records import PLACES
from venue.telemetry import live_memory
from venue.telemetry.page import create


async def until(api: Api, path: str, condition: Any) -> Any:
    """Ask until the answer is as expected; the test's timeout bounds it."""
    while not condition(answer := await api.get(path)):  # noqa: ASYNC110 - nothing tells a client of HTTP
        await asyncio.sleep(0.005)
    return answer


@with_exchange(engine={"mode": "match"})
async def test_a_book_with_the_orders_of_clients_and_what_stands_before_them(venue: Venue) -> None:
    async with api_of(venue) as api:
        assert (await api.get("/api/book/AAPL"))["bids"] == []
        alpha, beta = await venue.login("ALPHA"), await venue.login("BETA")
        await alpha.hear(enter(1, "B", 100, 189_5000), enter(2, "S", 30, 190_0000))
        await beta.hear(enter(1, "B", 50, 189_5000), enter(2, "B", 10, 189_4000))
        book = await until(api, "/api/book/AAPL?depth=1", lambda book: book["own_total"] == 4)
    assert book["bids"] == [{"price": "189.5000", "ticks": 1895000, "shares": 150, "orders": 2, "own_shares": 150}]
    assert book["asks"] == [{"price": "190.0000", "ticks": 1900000, "shares": 30, "orders": 1, "own_shares": 30}]
    assert (book["state"], book["incomplete"], book["last_price"]) == ("trading", False, None)
    names = ("account", "user_ref", "side", "open", "queue_ahead")
    assert [tuple(order[name] for name in names) for order in book["own"]] == [
        ("ALPHA", 1, "B", 100, 0),
        ("BETA", 1, "B", 50, 100),
        ("BETA", 2, "B", 10, 0),
        ("ALPHA", 2, "S", 30, 0),
    ]


@with_exchange()
async def test_a_halted_stock_of_the_recorded_day_and_a_client_in_its_queue(venue: Venue) -> None:
    await venue.tell(day.added(1, "S", 70, 190_0000), day.added(2, "S", 30, 190_0000), day.executed(1, 20))
    alpha = await venue.login("ALPHA")
    await alpha.hear(enter(1, "S", 10, 190_0000))
    await venue.tell(day.halted("H"))
    async with api_of(venue) as api:
        book = await until(api, "/api/book/AAPL", lambda book: book["state"] == "halted")
        assert book["asks"] == [{"price": "190.0000", "ticks": 1900000, "shares": 90, "orders": 3, "own_shares": 10}]
        assert [order["queue_ahead"] for order in book["own"]] == [80]
        assert (book["last_price"], book["incomplete"]) == ("190.0000", False)
        assert (await api.get("/api/fills")) == {"fills": [], "next": 1, "missed": 0}
        [aapl] = (await api.get("/api/instruments?prefix=AAPL"))["instruments"]
        assert (aapl["state"], aapl["bid"], aapl["ask"]) == ("halted", None, "190.0000")


@with_exchange(engine={"mode": "match"})
async def test_fills_and_live_orders(venue: Venue) -> None:
    alpha, beta = await venue.login("ALPHA"), await venue.login("BETA")
    await alpha.hear(enter(1, "S", 100, 189_5000), enter(2, "S", 100, 189_5000, symbol="MSFT"))
    await beta.hear(enter(7, "B", 30, 189_5000), enter(8, "B", 5, 189_5000))
    async with api_of(venue) as api:
        fills = await api.get("/api/fills?limit=1")
        [first] = fills["fills"]
        assert (first["symbol"], first["price"], first["quantity"], first["side"]) == ("AAPL", "189.5000", 30, "B")
        assert first["resting"] == {"account": "ALPHA", "user_ref": 1}
        assert first["taking"] == {"account": "BETA", "user_ref": 7}
        assert (first["kind"], fills["next"], fills["missed"]) == ("own", 1, 0)
        fills = await api.get("/api/fills?since=1")
        assert ([fill["number"] for fill in fills["fills"]], fills["next"]) == ([2], 2)
        assert (await api.get("/api/fills?since=2"))["fills"] == []
        wrong = await api.get("/api/fills?since=1,0", 400)
        assert wrong == {"error": "since: expected 0, or a number of each matching thread (1), not 2"}

        orders = await api.get("/api/orders")
        assert [(o["account"], o["symbol"], o["open"]) for o in orders["orders"]] == [
            ("ALPHA", "AAPL", 65),
            ("ALPHA", "MSFT", 100),
        ]
        assert (await api.get("/api/orders?symbol=MSFT"))["total"] == 1
        assert (await api.get("/api/orders?account=BETA"))["total"] == 0
        page = await api.get("/api/orders?limit=1")
        assert (page["total"], page["next"]) == (2, 1)
        assert (await api.get("/api/orders?limit=1&offset=1"))["next"] is None


@with_exchange(engine={"mode": "match"})
async def test_instruments_sessions_and_figures(venue: Venue) -> None:
    alpha = await venue.login("ALPHA")
    async with api_of(venue) as api:
        await alpha.hear(enter(1, "B", 100, 189_5000), enter(2, "S", 40, 189_6000), enter(3, "B", 0, 100))
        venue.gateway.tick()
        assert (await api.get("/api/instruments"))["instruments"][0] == {
            "symbol": "AAPL",
            "state": "trading",
            "incomplete": False,
            "last_price": None,
            "bid": "189.5000",
            "ask": "189.6000",
        }
        assert (await api.get("/api/instruments?prefix=MS"))["total"] == 1
        assert (await api.get("/api/instruments?limit=1"))["next"] == 1
        [first, beta, _] = (await api.get("/api/sessions"))["sessions"]
        assert (first["account"], first["logged_in"], first["open_orders"]) == ("ALPHA", True, 2)
        assert first["peer"].startswith("127.0.0.1:")
        assert (first["messages_in"], first["sequence"]) == (4, 5)  # with the query, and the start of the day
        assert first["open_notional"] == "26534.0000"
        assert (beta["logged_in"], beta["peer"], beta["connected_at"]) == (False, None, None)

        stats = await api.get("/api/stats")
        assert (stats["orders"]["accepted"], stats["rejects"]) == (2, {"invalid_quantity": 1})
        assert stats["order_to_ack"]["count"] == sum(count for _, count in stats["order_to_ack_cells"]) == 3
        async with api.session.get("/metrics") as response:
            families = text_string_to_metric_families(await response.text())
        metrics = {(s.name, *s.labels.values()): s.value for family in families for s in family.samples}
        assert stats["order_to_ack"]["p99_ns"] == round(metrics["venue_order_to_ack_recent_seconds", "0.99"] * 1e9)
        ack = stats["sessions"][0]["order_to_ack"]
        recent = "venue_account_order_to_ack_recent_seconds"
        assert (ack["count"], ack["max_ns"]) == (3, round(metrics[recent, "ALPHA", "1"] * 1e9))
        assert ((recent, "BETA", "1") in metrics, stats["sessions"][1]["order_to_ack"]["max_ns"]) == (False, None)
        assert stats["live_orders"] == metrics["venue_live_orders", "client"] == 2


@with_exchange(engine={"mode": "match"})
async def test_what_cannot_be_answered_is_an_error_in_json(venue: Venue) -> None:
    async with api_of(venue) as api:
        assert await api.get("/api/book/NONE", 404) == {"error": "no instrument 'NONE'"}
        assert await api.get("/api/orders?account=NOBODY", 404) == {"error": "no account 'NOBODY'"}
        for query in ("depth=0", "depth=21", "depth=-1", "depth=x", "depth=", "depth=" + 99 * "9", "depth=1_0"):
            assert "depth: expected a number from 1 to 20" in (await api.get(f"/api/book/AAPL?{query}", 400))["error"]
        for path in ("fills?since=-1", "orders?limit=1001", "orders?symbol=%00", "instruments?prefix=%C3%84"):
            await api.get(f"/api/{path}", 400)
        for method, path in (("GET", "/api/nothing"), ("DELETE", "/api/orders"), ("POST", "/api")):
            async with api.session.request(method, path) as response:
                status = 404 if method == "GET" else 405
                assert (response.status, list(await response.json())) == (status, ["error"])


@with_exchange(engine={"mode": "match"}, instruments={"symbols": [f"S{n}" for n in range(PLACES + 1)]})
async def test_only_so_many_books_are_looked_at_and_polling_takes_no_place(venue: Venue) -> None:
    async with api_of(venue) as api:
        for n in range(PLACES + 1):
            await api.get(f"/api/book/S{n}")
        sockets = [await api.session.ws_connect("/live") for _ in range(PLACES)]
        for n, socket in enumerate(sockets):
            await socket.send_str(f'{{"symbol": "S{n}"}}')
            while b'"book"' not in (await socket.receive()).data.encode():
                pass
        answer = await api.get(f"/api/book/S{PLACES}", 503)
        assert answer == {"error": "too many books are looked at; try again later"}
        await sockets[3].close()
        await until_ok(api, f"/api/book/S{PLACES}")
        for socket in sockets:
            await socket.close()


async def until_ok(api: Api, path: str) -> None:
    while True:
        async with api.session.get(path) as response:
            if response.status == 200:
                return
        await asyncio.sleep(0.005)


@with_exchange(engine={"mode": "match"})
async def test_the_operator_kills_an_account_and_lets_it_trade_again(venue: Venue) -> None:
    alpha = await venue.login("ALPHA")
    await alpha.hear(enter(1, "B", 100, 189_5000))
    async with api_of(venue, password_hash()) as api:
        await api.kill("ALPHA", {"on": True}, 401)
        await api.kill("ALPHA", {"on": True}, 403, token="wrong")
        await api.kill("ALPHA", {"on": True}, 403, token=PASSWORD + 100 * "x")
        for body in (b"", b"{}", b'{"on": 1}', b"x" * 5000, {"on": True, "off": True}):
            await api.kill("ALPHA", body, 400, token=PASSWORD)
        await api.kill("NOBODY", {"on": True}, 404, token=PASSWORD)
        assert (await api.get("/api/orders"))["total"] == 1

        assert await api.kill("ALPHA", {"on": True}, token=PASSWORD) == {"account": "ALPHA", "on": True}
        [canceled, rejected] = await alpha.hear(enter(2, "B", 1, 100))
        assert (canceled, rejected) == ("canceled 1: 100 S", "rejected 2: FIRM_NOT_AUTHORIZED")
        assert (await api.get("/api/sessions"))["sessions"][0]["killed"] is True
        await api.kill("ALPHA", {"on": False}, token=PASSWORD)
        assert await alpha.hear(enter(3, "B", 1, 100)) == ["accepted 3: B 1 @ 100"]


@with_exchange(engine={"mode": "match"})
async def test_without_a_token_nobody_changes_anything(venue: Venue) -> None:
    async with api_of(venue) as api:
        answer = await api.kill("ALPHA", {"on": True}, 403, token=PASSWORD)
    assert answer == {"error": "no operator token is configured: nothing can be changed over HTTP"}


@with_exchange()
async def test_the_document_is_one_and_is_served(venue: Venue) -> None:
    async with api_of(venue) as api:
        for path in ("/api/openapi.json", "/api", "/api/"):
            async with api.session.get(path) as response:
                assert await response.json() == DOCUMENT
    assert DOCUMENT["openapi"].startswith("3.1.")
    for schema in DOCUMENT["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)
    references = {part["$ref"] for part in parts(DOCUMENT) if "$ref" in part}
    assert references
    assert {name.rpartition("/")[2] for name in references} <= set(DOCUMENT["components"]["schemas"])


def parts(document: Any) -> list[dict[str, Any]]:
    """Every object in it."""
    inner = document.values() if isinstance(document, dict) else document if isinstance(document, list) else ()
    return ([document] if isinstance(document, dict) else []) + [part for item in inner for part in parts(item)]


@needs_shared
@with_exchange()
async def test_the_books_of_a_capture_are_those_of_the_matching_thread(venue: Venue) -> None:
    await venue.replay(Path(SHARED_DATA) / "itch" / "aapl-20200130-10k.itch")
    bids, asks = venue.book("AAPL")
    async with api_of(venue) as api:
        book = await api.get("/api/book/AAPL?depth=20")
        trades = venue.count("trades", "matcher")
        assert (await api.get("/api/fills")) == {"fills": [], "next": trades, "missed": 0}
        assert (await api.get("/api/stats"))["feed"]["messages"] == venue.fed
    assert trades > 0
    for shown, levels in ((book["bids"], bids), (book["asks"], asks)):
        assert [(level["ticks"], level["shares"], level["orders"]) for level in shown] == [
            (price, sum(open_ for _, open_, _ in queue), len(queue)) for price, queue in levels[:20]
        ]


def test_while_the_exchange_starts_there_are_figures_but_no_books(tmp_path: Path) -> None:
    page = create(mode="consume", accounts=["ALPHA"], folder=tmp_path / "pages")

    async def ask() -> None:
        async with api_of_page(page) as api:
            for path in ("/api/book/AAPL", "/api/instruments", "/api/orders", "/api/fills"):
                assert await api.get(path, 503) == {"error": "the exchange is starting: no books yet"}
            assert (await api.get("/api/stats"))["state"] == "starting"
            assert len((await api.get("/api/sessions"))["sessions"]) == 1
            live_memory.create(page.path, 4)
            assert (await api.get("/api/instruments"))["total"] == 0

    asyncio.run(ask())
    page.remove()
    assert list((tmp_path / "pages").iterdir()) == []
