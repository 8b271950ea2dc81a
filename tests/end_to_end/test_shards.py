"""An exchange with several matching threads, over its sockets: outside nobody can tell, but by the counters."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import uvloop

from api_client import api_of
from exchange import Levels
from exchange_rig import Trader, Venue, accounts, cancel, enter, modify, replace, running, say, with_exchange
from venue import app
from venue.engine import cells
from venue.engine.counters import FEED_DATAGRAM_TO_BOOK, MATCH, ORDER_TO_ACK, RING_WAIT
from venue.wire import ouch
from venue_clients.generate import DayPlan, generate

TWO = {"mode": "match", "shards": 2}
"""AAPL belongs to the first matching thread, MSFT to the second."""
Books = dict[str, tuple[Levels, Levels]]


@with_exchange(engine=TWO)
async def test_a_client_trades_on_two_matching_threads_and_resumes(venue: Venue) -> None:
    seller, buyer = await venue.login("ALPHA", sequence=1), await venue.login("BETA")
    assert say(await seller.message()) == "system event S"
    chunk = await seller.hear(
        enter(1, "S", 5, 100_0000, symbol="AAPL"),
        enter(2, "S", 7, 200_0000, symbol="MSFT"),
        enter(3, "S", 9, 300_0000, symbol="NOPE"),
        replace(2, 4, 8, 201_0000),
        modify(1, "T", 4),
    )
    assert [line for line in chunk if line.split()[1] in ("1:", "3:")] == [
        "accepted 1: S 5 @ 1000000",
        "rejected 3: INVALID_SYMBOL",
        "modified 1: T 4",
    ], "the first thread's, in their order"
    assert [line for line in chunk if "2" in line.split(":")[0]] == [
        "accepted 2: S 7 @ 2000000",
        "replaced 2 by 4: S 8 @ 2010000",
    ], "the second's"
    assert await buyer.hear(enter(1, "B", 4, 100_0000, symbol="AAPL")) == [
        "accepted 1: B 4 @ 1000000",
        "executed 1: 4 @ 1000000 R",
    ]
    seller.close()
    assert await buyer.hear(enter(2, "B", 3, 201_0000, symbol="MSFT")) == [
        "accepted 2: B 3 @ 2010000",
        "executed 2: 3 @ 2010000 R",
    ]
    again = await venue.login("ALPHA", sequence=1)
    told = [say(await again.message()) for _ in range(9)]
    assert told == ["system event S", *chunk, "next number 5", "executed 1: 4 @ 1000000 A", "executed 4: 3 @ 2010000 A"]
    assert await again.hear(cancel(4), cancel(1), cancel(2)) == ["canceled 4: 5 U"]
    assert venue.book("AAPL") == venue.book("MSFT") == ([], [])
    assert [view.counters()["fills"] for view in venue.views] == [1, 1]
    async with api_of(venue) as api:
        fills = await api.get("/api/fills?since=0")
        assert (len(fills["fills"]), fills["next"]) == (2, "1,1")
        assert (await api.get("/api/fills?since=0,1"))["fills"] == [fills["fills"][0]]
        for since in ("1", "0,0,0"):
            assert "a number of each matching thread (2)" in (await api.get(f"/api/fills?since={since}", 400))["error"]


@with_exchange(engine=TWO, accounts=accounts({"limits": {"max_open_orders": 2}, "cancel_on_disconnect": True}))
async def test_limits_and_what_the_service_does_hold_on_all_threads(venue: Venue) -> None:
    trader, other = await venue.login("ALPHA"), await venue.login("BETA")
    assert await trader.hear(enter(1, "B", 5, 100_0000, symbol="AAPL")) == ["accepted 1: B 5 @ 1000000"]
    assert await trader.hear(enter(2, "B", 5, 200_0000, symbol="MSFT")) == ["accepted 2: B 5 @ 2000000"]
    assert await trader.hear(enter(3, "B", 5, 200_0000, symbol="MSFT")) == ["rejected 3: SHARES_OVER_THRESHOLD"]
    trader.close()
    await venue.until(lambda: venue.page.snapshot().exposures["open_orders"][0] == 0, "both are canceled")
    trader = await venue.login("ALPHA", sequence=1)
    told = [say(await trader.message()) for _ in range(9)]
    assert sorted(told[-2:]) == ["canceled 1: 5 Z", "canceled 2: 5 Z"]
    venue.gateway.set_kill_switch(0, True)
    await venue.until(lambda: all(shard.exposures["killed"][0] for shard in venue.page.shards))
    assert await trader.hear(enter(4, "B", 5, 200_0000, symbol="MSFT"), enter(5, "B", 5, 100_0000)) in (
        ["rejected 4: FIRM_NOT_AUTHORIZED", "rejected 5: FIRM_NOT_AUTHORIZED"],
        ["rejected 5: FIRM_NOT_AUTHORIZED", "rejected 4: FIRM_NOT_AUTHORIZED"],
    )
    await other.send(enter(1, "S", 5, 200_0000, symbol="MSFT") + enter(2, "S", 5, 100_0000))
    await venue.until(lambda: venue.gateway.messages_in[1] == 2, "both are on their way to the threads")
    await venue.stop()
    ends = [ouch.decode_outbound(body[1:]) for body in await other.rest() if body[:1] == b"S"]
    assert Counter(say(message) for message in ends) == {
        "accepted 1: S 5 @ 2000000": 1,
        "accepted 2: S 5 @ 1000000": 1,
        "system event E": 1,
    }
    assert say(ends[-1]) == "system event E"


def books_after(folder: Path, path: Path, shards: int) -> tuple[Books, dict[str, int], list[int]]:
    """Every book after a replay of a file, what the page counts, and how much each thread had to do."""

    async def story() -> tuple[Books, dict[str, int], list[int]]:
        async with running(folder, engine={"shards": shards}, orders={"max_store_bytes": 32 << 20}) as venue:
            await venue.replay(path)
            matcher = venue.page.snapshot().matcher[0]
            names = ("trades", "incomplete_books", "unknown_references", "last_feed_time_ns")
            done = [cells.count(shard.histograms[FEED_DATAGRAM_TO_BOOK]) for shard in venue.page.shards]
            for view in venue.views:
                view.check_invariants()
            return venue.books(), {name: int(matcher[name]) for name in names}, done

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(story())


def test_a_replayed_day_leaves_the_same_books_as_with_one_thread(tmp_path: Path) -> None:
    symbols = ("AAPL", "MSFT", "NVDA", "TSLA", "AMD")
    generate(tmp_path / "day.itch", DayPlan(symbols, 20_000, seed=7, live=500))
    one, counted, _ = books_after(tmp_path / "one", tmp_path / "day.itch", 1)
    for shards in (2, 3):
        books, also, done = books_after(tmp_path / str(shards), tmp_path / "day.itch", shards)
        assert list(books) == list(one)
        assert books == one
        assert also == counted
        assert len(done) == shards
        assert min(done) > 0


# --- under load ---------------------------------------------------------------------------------------------------

ORDERS = 6_000
CHUNK = 200


async def trade(trader: Trader, told: Counter[str]) -> None:
    """Orders and cancels on both threads, as fast as they are taken; what is heard is counted by kind."""

    async def write() -> None:
        for first in range(1, ORDERS + 1, CHUNK):
            batch = range(first, first + CHUNK)
            await trader.send(
                b"".join(enter(n, "B", 5, 100_0000, symbol=("AAPL", "MSFT")[n % 2]) for n in batch)
                + b"".join(cancel(n) for n in batch)
            )

    writing = asyncio.create_task(write())
    for _ in range(2 * ORDERS):
        told[say(await trader.message()).split()[0]] += 1
    await writing


@with_exchange(matching=False, engine=TWO | {"command_ring": 256, "event_ring": 256})
async def test_commands_that_a_slow_matching_thread_holds_back_are_shown(
    venue: Venue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "BEAT_S", 0.01)
    telemetry: Any = SimpleNamespace(keep_running=lambda: None)
    beating = asyncio.create_task(app.beat(venue.exchange, telemetry, []))
    trader, orders = await venue.login("ALPHA"), venue.config.engine.shard_rings[0] + 100
    async with api_of(venue) as api:
        await trader.send(b"".join(enter(n, "B", 5, 100_0000) for n in range(1, orders + 1)))
        await venue.until(lambda: venue.count("intake_ring_depth") > 100, "some are held back")
        async with api.session.get("/metrics") as response:
            depth = venue.count("intake_ring_depth")
            assert f"venue_intake_ring_depth {depth}.0" in (await response.text()).splitlines()
        venue.start_matching()
        told = Counter([say(await trader.message()).split()[0] for _ in range(orders + 1)])
        assert told == {"system": 1, "accepted": orders}
        await venue.until(lambda: venue.count("intake_ring_depth") == 0, "none is held back")
    beating.cancel()


@with_exchange(engine=TWO | {"command_ring": 256, "event_ring": 256, "orders_per_account": 1 << 10})
async def test_under_load_every_order_is_answered_and_both_threads_count_it(venue: Venue) -> None:
    """Rings are small, so that commands wait at every place where they can."""
    traders = [await venue.login(name) for name in ("ALPHA", "BETA", "GAMMA")]
    told: list[Counter[str]] = [Counter() for _ in traders]
    await asyncio.gather(*(trade(trader, counted) for trader, counted in zip(traders, told, strict=True)))
    for counted in told:
        assert counted["accepted"] + counted["rejected"] == ORDERS
        assert counted["canceled"] == counted["accepted"]
    answers = 3 * 2 * ORDERS
    page = venue.page
    await venue.until(lambda: cells.count(page.histograms[ORDER_TO_ACK]) == answers, "the last latency")
    assert [cells.count(shard.histograms[MATCH]) for shard in page.shards] == [answers // 2, answers // 2]
    assert [cells.count(shard.histograms[RING_WAIT]) for shard in page.shards] == [answers // 2, answers // 2]
    assert cells.count(page.snapshot().histograms[MATCH]) == answers
    assert [cells.count(row) for row in page.snapshot().account_histograms] == [2 * ORDERS] * 3
    assert venue.count("command_ring_full") > 0
    assert venue.page.snapshot().exposures["open_orders"].sum() == 0
    assert venue.exchange.shards is not None
    assert venue.exchange.shards.sharding.totals["open_orders"].sum() == 0
