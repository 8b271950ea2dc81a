"""Risk limits and self-match policies from the configuration, and an account whose store is used up."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from typing import Any

from exchange_rig import MARKET, Trader, Venue, accounts, cancel, enter, replace, say, with_exchange

LIVE_ONLY = {"mode": "match"}
SYMBOLS = {"symbols": ["AAPL", "MSFT", "NVDA"]}


def limits(**values: Any) -> dict[str, Any]:
    return {"limits": values}


# --- limits -------------------------------------------------------------------------------------------------------

SIZE_LIMITS = accounts(limits(max_order_quantity=100, max_order_notional_usd=5_000, collar_bp=500))


@with_exchange(engine=LIVE_ONLY, accounts=SIZE_LIMITS)
async def test_one_order_that_is_too_large_or_too_far_away(venue: Venue) -> None:
    trader, other = await venue.login("ALPHA"), await venue.login("BETA")
    assert await trader.hear(
        enter(1, "B", 101, 1_0000),
        enter(2, "B", 51, 100_0000),
        enter(3, "B", 999_999, 199_999_9900),
        enter(4, "B", 50, 100_0000),
    ) == [
        "rejected 1: RISK_MAX_QUANTITY",
        "rejected 2: RISK_SINGLE_ORDER_NOTIONAL",
        "rejected 3: RISK_MAX_QUANTITY",
        "accepted 4: B 50 @ 1000000",
    ]
    await other.hear(enter(1, "S", 10, 200_0000, symbol="MSFT"), enter(2, "S", 10, 220_0000, symbol="MSFT"))
    assert await trader.hear(
        enter(5, "B", 20, 210_0100, symbol="MSFT"),
        enter(6, "B", 20, MARKET, symbol="MSFT"),
        enter(7, "B", 20, 210_0000, symbol="MSFT"),
        enter(8, "S", 20, 189_9900, symbol="MSFT"),
    ) == [
        "rejected 5: RISK_FAT_FINGER",
        f"accepted 6: B 20 @ {MARKET}",
        "executed 6: 10 @ 2000000 R",
        "canceled 6: 10 K",
        "accepted 7: B 20 @ 2100000",
        "rejected 8: RISK_FAT_FINGER",
    ]
    assert await trader.hear(replace(4, 9, 101, 1_0000)) == ["rejected 9: RISK_MAX_QUANTITY"]
    assert await trader.hear(cancel(4)) == ["canceled 4: 50 U"], "it stayed as it was"


@with_exchange(engine=LIVE_ONLY, accounts=accounts(limits(max_open_orders=2, max_long=300, max_short=200)))
async def test_all_that_could_still_fill_counts(venue: Venue) -> None:
    trader, other = await venue.login("ALPHA"), await venue.login("BETA")
    assert await trader.hear(
        enter(1, "B", 200, 10_0000),
        enter(2, "B", 101, 10_0000),
        enter(3, "B", 100, 10_0000),
        enter(4, "B", 1, 10_0000, symbol="MSFT"),
        cancel(3),
        enter(5, "S", 201, 11_0000),
        enter(6, "S", 200, 11_0000),
    ) == [
        "accepted 1: B 200 @ 100000",
        "rejected 2: RISK_AGGREGATE_EXPOSURE",
        "accepted 3: B 100 @ 100000",
        "rejected 4: SHARES_OVER_THRESHOLD",
        "canceled 3: 100 U",
        "rejected 5: RISK_AGGREGATE_EXPOSURE",
        "accepted 6: S 200 @ 110000",
    ]
    await other.hear(enter(1, "S", 200, 10_0000))
    assert await trader.hear(enter(7, "B", 101, 10_0000), enter(8, "B", 100, 10_0000), cancel(8), cancel(6)) == [
        "executed 1: 200 @ 100000 A",
        "rejected 7: RISK_AGGREGATE_EXPOSURE",
        "accepted 8: B 100 @ 100000",
        "canceled 8: 100 U",
        "canceled 6: 200 U",
    ]
    assert await trader.hear(enter(9, "S", 401, 11_0000), enter(10, "S", 400, 11_0000)) == [
        "rejected 9: RISK_AGGREGATE_EXPOSURE",
        "accepted 10: S 400 @ 110000",
    ]


@with_exchange(engine=LIVE_ONLY, accounts=accounts(limits(max_orders_per_s=3)))
async def test_more_orders_a_second_than_allowed(venue: Venue) -> None:
    """By the time of arrival, which is one for orders that arrive together; cancels always pass."""
    now_ns = venue.gateway.clock()
    venue.gateway.clock = lambda: now_ns
    trader = await venue.login("ALPHA")
    burst = await trader.hear(*(enter(number, "B", 1, 1_0000) for number in range(1, 5)), replace(1, 5, 2, 1_0000))
    assert burst[3:] == ["rejected 4: RISK_PORT_RATE", "rejected 5: RISK_PORT_RATE"]
    assert await trader.hear(cancel(1)) == ["canceled 1: 1 U"]
    now_ns += 333_333_333
    assert await trader.hear(enter(6, "B", 1, 1_0000), enter(7, "B", 1, 1_0000)) == [
        "accepted 6: B 1 @ 10000",
        "rejected 7: RISK_PORT_RATE",
    ]


@with_exchange(engine=LIVE_ONLY, accounts=accounts(limits(max_order_quantity=1_000_000, max_long=10)))
async def test_exposure_comes_back_to_nothing(venue: Venue) -> None:
    trader = await venue.login("ALPHA")
    for first in range(1, 10_001, 1_000):
        orders = (enter(number, "B", 10, 199_999_9900) + cancel(number) for number in range(first, first + 1_000))
        assert len(await trader.hear(*orders)) == 2_000
    assert venue.view.account(0) == {
        "killed": 0,
        "last_user_ref": 10_000,
        "open_orders": 0,
        "open_shares": 0,
        "open_notional": 0,
    }
    assert venue.view.position(0, 0) == {"position": 0, "open_buy": 0, "open_sell": 0}
    venue.view.check_invariants()


@with_exchange(engine=LIVE_ONLY, accounts=accounts(limits(kill_switch=True)))
async def test_an_account_that_is_stopped(venue: Venue) -> None:
    trader, other = await venue.login("ALPHA"), await venue.login("BETA")
    assert await trader.hear(enter(1, "B", 1, 1_0000)) == ["rejected 1: FIRM_NOT_AUTHORIZED"]
    assert await other.hear(enter(1, "B", 1, 1_0000)) == ["accepted 1: B 1 @ 10000"]


# --- meeting oneself ----------------------------------------------------------------------------------------------

POLICIES = accounts({"self_match": "cancel_newest"}, {"self_match": "cancel_oldest"}, {"self_match": "decrement"})


async def meets_itself(trader: Trader, other: Trader, symbol: str, others_number: int) -> list[str]:
    """An own offer of 5, another's of 5 behind it, an own bid for 8."""
    await trader.hear(enter(1, "S", 5, 100_0000, symbol=symbol))
    await other.hear(enter(others_number, "S", 5, 100_0000, symbol=symbol))
    return await trader.hear(enter(2, "B", 8, 100_0000, symbol=symbol))


@with_exchange(engine=LIVE_ONLY, accounts=POLICIES, instruments=SYMBOLS)
async def test_an_order_that_meets_one_of_the_same_account(venue: Venue) -> None:
    newest, oldest, both = [await venue.login(name) for name in ("ALPHA", "BETA", "GAMMA")]
    entered = "accepted 2: B 8 @ 1000000"
    assert await meets_itself(newest, oldest, "AAPL", 1) == [entered, "canceled 2: 8 Q"]
    assert [shares for _, shares, _ in venue.book("AAPL")[1][0][1]] == [5, 5]
    assert await meets_itself(both, newest, "NVDA", 3) == [
        entered,
        "canceled 1: 5 Q",
        "canceled 2: 5 Q",
        "executed 2: 3 @ 1000000 R",
    ]
    assert await oldest.hear(enter(2, "S", 5, 100_0000, symbol="MSFT")) == ["accepted 2: S 5 @ 1000000"]
    assert await newest.hear(enter(4, "S", 5, 100_0000, symbol="MSFT")) == [
        "executed 3: 3 @ 1000000 A",
        "accepted 4: S 5 @ 1000000",
    ]
    assert await oldest.hear(enter(3, "B", 8, 100_0000, symbol="MSFT")) == [
        "accepted 3: B 8 @ 1000000",
        "canceled 2: 5 Q",
        "executed 3: 5 @ 1000000 R",
    ]
    assert [shares for _, shares, _ in venue.book("MSFT")[0][0][1]] == [3]
    assert venue.count("self_matches_prevented", "matcher") == 3
    venue.view.check_invariants()


# --- the end of a store -------------------------------------------------------------------------------------------


SMALL_STORE = {"max_store_bytes": 3 * 1_200_000}
SMALL_RING = LIVE_ONLY | {"command_ring": 1 << 10, "event_ring": 1 << 9, "orders_per_account": 1 << 14}


@with_exchange(engine=SMALL_RING, orders=SMALL_STORE)
async def test_an_account_that_has_used_up_its_store_ends_whole_and_the_others_go_on(venue: Venue) -> None:
    """From two thirds on it gets no more orders, and those that it has are canceled: the last third is for that."""
    trader, other = await venue.login("ALPHA"), await venue.login("BETA")

    async def flood() -> None:
        with contextlib.suppress(ConnectionError):
            await trader.send(b"".join(enter(number, "B", 1, 1_0000) for number in range(1, 20_001)))

    await asyncio.gather(flood(), trader.rest())
    await venue.until(lambda: venue.view.account(0)["killed"] == 1)
    assert await other.hear(enter(1, "B", 1, 1_0000)) == ["accepted 1: B 1 @ 10000"]
    account, stream = venue.view.account(0), venue.gateway.store.streams[0]
    assert (account["open_orders"], account["open_shares"], account["open_notional"]) == (0, 0, 0)
    assert stream.lost == venue.count("store_full") == 0

    again = await venue.login("ALPHA", sequence=1)
    told = Counter([say(await again.message()).partition(" ")[0] for _ in range(stream.count)])
    assert told == Counter(system=1, accepted=account["last_user_ref"], canceled=account["last_user_ref"])
    assert 11_000 < account["last_user_ref"] < 14_000
    await again.send(enter(account["last_user_ref"] + 1, "B", 1, 1_0000))
    assert await again.rest() == []
    assert venue.count("protocol_errors") == 2, "the flood, and this one"
    assert await other.hear(cancel(1)) == ["canceled 1: 1 U"]
