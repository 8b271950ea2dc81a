"""Orders over TCP against the whole exchange: what each message does, what it answers, and what stays silent."""

from __future__ import annotations

import recorded_day as day
from exchange_rig import MARKET, Venue, cancel, enter, modify, replace, with_exchange
from venue.engine import counters
from venue.engine.cells import count
from venue.wire.ouch import Tag, TagValue
from venue_clients.trading import Status

LIVE_ONLY = {"mode": "match"}
OWN = 1 << 62
"""The first own order's reference."""


def sizes(venue: Venue, symbol: str = "AAPL") -> tuple[list[tuple[int, list[int]]], list[tuple[int, list[int]]]]:
    """Bids and asks as (price, shares of each order in the queue)."""
    bids, asks = venue.book(symbol)
    return (
        [(price, [shares for _, shares, _ in queue]) for price, queue in bids],
        [(price, [shares for _, shares, _ in queue]) for price, queue in asks],
    )


# --- numbers ------------------------------------------------------------------------------------------------------


@with_exchange(engine=LIVE_ONLY)
async def test_an_order_number_counts_once(venue: Venue) -> None:
    """The second Enter 1 would trade; it is taken for a resend. So is any number below the last."""
    trader, other = await venue.login("ALPHA"), await venue.login("BETA")
    assert await other.hear(enter(1, "S", 900, 100_0000)) == ["accepted 1: S 900 @ 1000000"]
    assert await trader.hear(enter(1, "B", 500, 99_0000), enter(1, "B", 900, 100_0000)) == [
        "accepted 1: B 500 @ 990000"
    ]
    assert await trader.hear(enter(7, "B", 5, 99_0000), enter(6, "B", 6, 99_0000)) == ["accepted 7: B 5 @ 990000"]
    assert sizes(venue) == ([(99_0000, [500, 5])], [(100_0000, [900])])
    assert venue.count("ignored_duplicates", "matcher") == 2


@with_exchange(engine=LIVE_ONLY)
async def test_numbers_are_those_of_one_account(venue: Venue) -> None:
    """What BETA does to its own number 1 is nothing to ALPHA's."""
    alpha, beta = await venue.login("ALPHA"), await venue.login("BETA")
    assert await alpha.hear(enter(1, "B", 500, 100_0000)) == ["accepted 1: B 500 @ 1000000"]
    assert await beta.hear(cancel(1), replace(1, 2, 100, 101_0000), modify(1, "B", 1)) == []
    assert await beta.hear(enter(1, "B", 10, 99_0000), cancel(1, 4)) == ["accepted 1: B 10 @ 990000", "canceled 1: 6 U"]
    assert await alpha.hear() == []
    assert sizes(venue) == ([(100_0000, [500]), (99_0000, [4])], [])
    assert venue.count("ignored_stale", "matcher") == 3


# --- cancel, replace, modify --------------------------------------------------------------------------------------


@with_exchange(engine=LIVE_ONLY)
async def test_a_cancel_names_what_is_to_be_left_of_the_whole_order(venue: Venue) -> None:
    trader, other = await venue.login("ALPHA"), await venue.login("BETA")
    assert await trader.hear(enter(1, "B", 500, 100_0000), cancel(1, 100)) == [
        "accepted 1: B 500 @ 1000000",
        "canceled 1: 400 U",
    ]
    assert await trader.hear(cancel(1, 100), cancel(1, 400), cancel(9)) == []
    assert await trader.hear(cancel(1)) == ["canceled 1: 100 U"]
    assert await trader.hear(cancel(1)) == []

    await trader.hear(*(enter(number, "B", 500, 100_0000) for number in (2, 3)))
    await other.hear(enter(1, "S", 200, 100_0000))
    assert await trader.hear(cancel(2, 300), cancel(2, 300), cancel(2)) == [
        "executed 2: 200 @ 1000000 A",
        "canceled 2: 200 U",
        "canceled 2: 100 U",
    ]
    await other.hear(enter(2, "S", 200, 100_0000))
    assert await trader.hear(cancel(3)) == ["executed 3: 200 @ 1000000 A", "canceled 3: 300 U"]
    assert sizes(venue) == ([], [])


@with_exchange(engine=LIVE_ONLY)
async def test_a_late_cancel_is_silent_and_the_fill_is_told(venue: Venue) -> None:
    trader, other = await venue.login("ALPHA"), await venue.login("BETA")
    await trader.hear(enter(1, "B", 100, 100_0000))
    await other.hear(enter(1, "S", 100, 100_0000))
    assert await trader.hear(cancel(1), replace(1, 2, 200, 100_0000)) == ["executed 1: 100 @ 1000000 A"]
    assert await trader.hear(enter(2, "B", 1, 1_0000)) == ["accepted 2: B 1 @ 10000"], "its number was not used up"


@with_exchange(engine=LIVE_ONLY)
async def test_a_replace_goes_to_the_back_under_a_new_number(venue: Venue) -> None:
    trader, other = await venue.login("ALPHA"), await venue.login("BETA")
    await trader.hear(enter(1, "B", 500, 100_0000), enter(2, "B", 50, 100_0000))
    await other.hear(enter(1, "S", 100, 100_0000))
    assert await trader.hear(replace(1, 3, 500, 100_0000)) == [
        "executed 1: 100 @ 1000000 A",
        "replaced 1 by 3: B 400 @ 1000000",
    ]
    assert sizes(venue) == ([(100_0000, [50, 400])], [])
    assert await trader.hear(replace(3, 4, 100, 100_0000)) == ["canceled 3: 400 U"], "100 are executed already"
    assert await trader.hear(replace(2, 4, 60, 101_0000), replace(2, 5, 70, 99_0000)) == [
        "replaced 2 by 4: B 60 @ 1010000"
    ]
    assert await other.hear(enter(2, "S", 60, 100_0000)) == [
        "accepted 2: S 60 @ 1000000",
        "executed 2: 60 @ 1010000 R",
    ]


@with_exchange(engine=LIVE_ONLY)
async def test_a_modify_reduces_in_place_or_changes_the_kind_of_sale(venue: Venue) -> None:
    trader, other = await venue.login("ALPHA"), await venue.login("BETA")
    await trader.hear(enter(1, "S", 100, 100_0000), enter(2, "S", 10, 100_0000))
    assert await trader.hear(modify(1, "T", 60), modify(1, "T", 80), modify(1, "S", 50), modify(2, "B", 5)) == [
        "modified 1: T 60"
    ]
    assert await other.hear(enter(1, "B", 65, 100_0000)) == [
        "accepted 1: B 65 @ 1000000",
        "executed 1: 60 @ 1000000 R",
        "executed 1: 5 @ 1000000 R",
    ]


# --- kinds of orders ----------------------------------------------------------------------------------------------


@with_exchange(engine=LIVE_ONLY)
async def test_orders_that_never_rest(venue: Venue) -> None:
    """Immediate or cancel; all or nothing, which is that with a minimum of its whole quantity; at market."""
    trader, other = await venue.login("ALPHA"), await venue.login("BETA")
    await other.hear(enter(1, "S", 4, 100_0000), enter(2, "S", 6, 101_0000))
    whole = [TagValue(Tag.MIN_QTY, 10)]
    assert await trader.hear(enter(1, "B", 10, 100_0000, tif="3", options=whole)) == [
        "accepted 1: B 10 @ 1000000",
        "canceled 1: 10 I",
    ]
    assert await trader.hear(enter(2, "B", 10, 100_0000, tif="3")) == [
        "accepted 2: B 10 @ 1000000",
        "executed 2: 4 @ 1000000 R",
        "canceled 2: 6 I",
    ]
    assert await trader.hear(enter(3, "B", 5, MARKET)) == [
        f"accepted 3: B 5 @ {MARKET}",
        "executed 3: 5 @ 1010000 R",
    ]
    await other.hear(enter(3, "S", 9, 102_0000))
    assert await trader.hear(enter(4, "B", 10, 102_0000, tif="3", options=whole)) == [
        "accepted 4: B 10 @ 1020000",
        "executed 4: 1 @ 1010000 R",
        "executed 4: 9 @ 1020000 R",
    ]
    assert await trader.hear(enter(5, "B", 5, MARKET), enter(6, "B", 5, 100_0000, tif="3")) == [
        "rejected 5: QUOTE_UNAVAILABLE",
        "accepted 6: B 5 @ 1000000",
        "canceled 6: 5 I",
    ]
    assert sizes(venue) == ([], [])


@with_exchange(engine=LIVE_ONLY)
async def test_what_makes_no_sense_is_rejected_by_its_number(venue: Venue) -> None:
    trader = await venue.login("ALPHA")
    assert await trader.hear(
        enter(1, "B", 0, 100_0000),
        enter(2, "B", 1_000_000, 100_0000),
        enter(3, "B", 2**32 - 1, 2**32 - 1),
        enter(4, "B", 100, 0),
        enter(5, "B", 100, 100_0050),
        enter(6, "B", 100, 100_0000, symbol="NOPE"),
        enter(7, "X", 100, 100_0000),
        enter(8, "B", 100, 100_0000, tif="Z"),
        enter(9, "B", 100, 100_0000, display="N"),
        enter(10, "B", 100, 100_0000, options=[TagValue(Tag.MIN_QTY, 100)]),
        enter(11, "B", 100, 100_0000, options=[TagValue(Tag.PRICE_TYPE, "M")]),
        enter(12, "B", 100, 9999),
    ) == [
        "rejected 1: INVALID_QUANTITY",
        "rejected 2: INVALID_QUANTITY",
        "rejected 3: INVALID_QUANTITY",
        "rejected 4: INVALID_PRICE",
        "rejected 5: INVALID_PRICE",
        "rejected 6: INVALID_SYMBOL",
        "rejected 7: INVALID_SIDE",
        "rejected 8: OTHER",
        "rejected 9: INVALID_DISPLAY",
        "rejected 10: INVALID_MIN_QUANTITY",
        "rejected 11: INVALID_PEG_TYPE",
        "accepted 12: B 100 @ 9999",
    ]
    assert venue.page.matcher[0]["orders_rejected"].sum() == 11


# --- history and own orders in one book ---------------------------------------------------------------------------


@with_exchange()
async def test_what_own_orders_took_of_history_stays_taken(venue: Venue) -> None:
    """A recorded offer of 200, half of which an own order takes; history then trades all of it."""
    trader = await venue.login("ALPHA")
    await venue.tell(day.added(11, "S", 200, 10_0000))
    assert await trader.hear(enter(1, "B", 100, 10_0000)) == [
        "accepted 1: B 100 @ 100000",
        "executed 1: 100 @ 100000 R",
    ]
    assert venue.book() == ([], [(10_0000, [(11, 100, False)])])
    await venue.tell(day.executed(11, 200))
    assert venue.book() == ([], [])
    assert venue.count("divergence_shares", "matcher") == 100

    await venue.tell(day.added(12, "S", 200, 10_0000))
    await trader.hear(enter(2, "B", 100, 10_0000))
    await venue.tell(day.replaced(12, 13, 300, 10_0000))
    assert venue.book() == ([], [(10_0000, [(13, 200, False)])])
    await trader.hear(enter(3, "B", 200, 10_0000))
    assert venue.book() == ([], [])
    await venue.tell(day.deleted(13))
    assert venue.view.counters() == {
        "orders_accepted": 3,
        "fills": 3,
        "filled_shares": 400,
        "filled_notional": 400 * 10_0000,
        "divergence_events": 2,  # and the delete of an order of which nothing was left
        "divergence_shares": 100,
    }
    assert venue.view.position(0, venue.instruments.index("AAPL"))["position"] == 400
    venue.view.check_invariants()


@with_exchange()
async def test_an_own_order_waits_its_turn_between_recorded_ones(venue: Venue) -> None:
    """One share ahead of it: what history sells meets that first, then the own order, then what came later."""
    trader = await venue.login("ALPHA")
    await venue.tell(day.added(11, "B", 1, 54_5900))
    await trader.hear(enter(1, "B", 3, 54_5900))
    await venue.tell(day.added(12, "B", 5, 54_5900))
    assert venue.view.queue_ahead(0, 1) == 1
    await venue.tell(day.executed(11, 1), day.executed(12, 1))
    assert await trader.hear() == ["executed 1: 1 @ 545900 A"]
    assert venue.view.queue_ahead(0, 1) == 0
    await venue.tell(day.executed(12, 2))
    assert await trader.hear() == ["executed 1: 2 @ 545900 A"]
    assert venue.book() == ([(54_5900, [(12, 5 - 3, False)])], [])


@with_exchange()
async def test_a_recorded_order_trades_with_the_own_orders_that_it_crosses(venue: Venue) -> None:
    trader = await venue.login("ALPHA")
    await venue.tell(day.added(11, "S", 100, 10_0500))
    await trader.hear(enter(1, "B", 30, 10_0200), enter(2, "B", 50, 10_0000))
    await venue.tell(day.added(12, "S", 100, 10_0000))
    assert await trader.hear() == ["executed 1: 30 @ 100200 A", "executed 2: 50 @ 100000 A"]
    assert venue.book() == ([], [(10_0000, [(12, 20, False)]), (10_0500, [(11, 100, False)])])


@with_exchange()
async def test_no_new_orders_while_a_stock_is_halted(venue: Venue) -> None:
    trader = await venue.login("ALPHA")
    await venue.tell(day.halted("H"))
    assert await trader.hear(enter(1, "B", 1, 10_0000), enter(2, "B", 1, 10_0000, symbol="MSFT")) == [
        "rejected 1: HALTED",
        "accepted 2: B 1 @ 100000",
    ]
    await venue.tell(day.halted("T"))
    assert await trader.hear(enter(3, "B", 1, 10_0000)) == ["accepted 3: B 1 @ 100000"]


# --- figures, and the client of the project -----------------------------------------------------------------------


@with_exchange(engine=LIVE_ONLY)
async def test_each_answer_is_in_the_order_to_ack_histogram_once(venue: Venue) -> None:
    """Fills, cancels that nobody asked for and system events answer no message; silence is no answer. Account Queries
    are no orders, and what the service itself asks of the engine is not measured, either."""
    trader, other = await venue.login("ALPHA"), await venue.login("BETA")
    await other.hear(*(enter(number, "S", 1, 100_0000) for number in range(1, 21)))  # 20
    await trader.hear(*(enter(number, "B", 1, 100_0000, tif="3") for number in range(1, 31)))  # 30, 20 fills
    await trader.hear(enter(31, "B", 9, 99_0000), replace(31, 32, 9, 98_0000), modify(32, "B", 5))  # 3
    await trader.hear(cancel(32), cancel(32), enter(33, "X", 1, 1), enter(33, "B", 1, 1_0000))  # 2
    answers = 20 + 30 + 3 + 2
    told = {chr(kind): int(told) for kind, told in enumerate(venue.page.gateway[0]["messages_out"]) if told}
    assert told == {"A": 51, "E": 40, "C": 11, "U": 1, "M": 1, "J": 1, "Q": 4, "S": 3}
    await venue.until(lambda: count(venue.page.histograms[counters.ENCODE_WRITE]) >= answers)
    sent = answers + 2  # the second cancel, and the Enter with a used number, are handled and not answered
    samples = {name: count(venue.page.histograms[place]) for name, place in counters.STAGES.items()}
    assert count(venue.page.histograms[counters.ORDER_TO_ACK]) == answers
    of_accounts = [count(row) for row in venue.page.snapshot().account_histograms]
    assert of_accounts == [30 + 3 + 2, 20, 0], "each account's own orders"
    assert samples == {
        "socket_to_ring": sent,
        "ring_wait": sent,
        "match": sent,
        "ring_back": answers,
        "encode_write": answers,
    }


@with_exchange()
async def test_the_trading_client_trades(venue: Venue) -> None:
    await venue.tell(day.added(11, "S", 200, 189_5000))
    async with await venue.client("ALPHA") as client:
        first = client.enter("AAPL", "B", 250, 189_5000)
        await client.query()
        order = client.view.orders[first]
        assert (order.status, order.executed, order.open) == (Status.LIVE, 200, 50)
        second = client.replace(first, 300, 189_4000)
        client.cancel(second, 260)
        third = client.enter("AAPL", "S", 10, 189_5050)
        assert await client.query() == 4
        assert client.view.orders[second].open == 60
        assert client.view.orders[third].status is Status.REJECTED
        assert client.view.positions == {"AAPL": 200}
        assert venue.book() == ([(189_4000, [(OWN + 1, 60, True)])], [])
