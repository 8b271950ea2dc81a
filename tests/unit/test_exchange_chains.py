"""Stories of numbers and totals: what a client may do to an order that it has, and when it is too late."""

import pytest

from commands import MARKET, cancel, cancel_all, enter, kill_switch, modify, query, replace, trading_state
from exchange import Exchange, NewExchange, sent, sizes
from venue.engine import records as r

EMPTY: tuple[list[object], list[object]] = ([], [])

# --- numbers, totals and chains -----------------------------------------------------------------------------------


def test_a_number_used_before_is_ignored_and_counted(two: Exchange) -> None:
    sent(two, enter(1, "B", 10, 100, account=1), enter(1, "S", 500, 200))
    assert sent(two, enter(1, "S", 900, 100)) == []  # it would have traded
    assert sent(two, enter(0, "S", 900, 100)) == []
    assert sizes(two) == ([(100, [10])], [(200, [500])])
    assert two.counters()["ignored_duplicates"] == 2
    assert sent(two, enter(5, "S", 0, 100)) == ["0 rejected 5: INVALID_QUANTITY"]
    assert sent(two, enter(5, "S", 10, 300)) == []  # a rejected number is used up
    assert sent(two, enter(4, "S", 10, 300)) == []
    assert sent(two, query()) == ["0 next number 6"]


def test_the_last_number_of_all_is_followed_by_none(two: Exchange) -> None:
    last = 2**32 - 1
    assert sent(two, enter(last, "S", 5, 100), query()) == [
        f"0 accepted {last}: S 5 @ 100",
        "0 next number 0",
    ]
    assert sent(two, enter(last, "S", 5, 100), enter(0, "S", 5, 100)) == []
    assert sent(two, cancel(last)) == [f"0 canceled {last}: 5 U"]


def test_a_cancel_names_the_new_total(two: Exchange) -> None:
    sent(two, enter(1, "S", 500, 100))
    assert sent(two, cancel(1, 600), cancel(1, 500)) == []
    assert sent(two, cancel(1, 100)) == ["0 canceled 1: 400 U"]
    assert sent(two, cancel(1, 100)) == []
    assert "ignored_stale" not in two.counters()
    assert sent(two, cancel(9)) == []
    assert two.counters()["ignored_stale"] == 1


@pytest.mark.parametrize(("intended", "heard"), [(0, "300 U"), (300, "200 U"), (100, "300 U")])
def test_a_cancel_after_executions(two: Exchange, intended: int, heard: str) -> None:
    sent(two, enter(1, "S", 500, 100), enter(1, "B", 200, 100, account=1))
    assert sent(two, cancel(1, intended)) == [f"0 canceled 1: {heard}"]
    assert sent(two, cancel(1, intended)) == []
    two.check_invariants()


def test_a_partial_cancel_keeps_the_place(two: Exchange) -> None:
    sent(two, enter(1, "S", 10, 100), enter(2, "S", 10, 100), cancel(1, 5))
    assert two.queue_ahead(0, 2) == 5
    assert sizes(two) == ([], [(100, [5, 10])])


def test_a_chain_of_replaces_counts_what_was_executed(two: Exchange) -> None:
    sent(two, enter(1, "S", 500, 100), enter(1, "B", 100, 100, account=1))
    assert sent(two, replace(1, 2, 500, 101)) == ["0 replaced 1 by 2: S 400 @ 101"]
    assert sent(two, replace(2, 3, 600, 100)) == ["0 replaced 2 by 3: S 500 @ 100"]
    assert sent(two, enter(2, "B", 50, 100, account=1))[1] == "0 executed 3: 50 @ 100 A, 450 left"
    assert sent(two, cancel(3, 200)) == ["0 canceled 3: 400 U"]
    assert sent(two, replace(3, 4, 150, 100)) == ["0 canceled 3: 50 U"]  # no more than was executed
    assert sent(two, query()) == ["0 next number 4"]  # and the new number was not used up
    two.check_invariants()


def test_a_replace_goes_to_the_back_of_the_queue(two: Exchange) -> None:
    sent(two, enter(1, "S", 10, 100), enter(2, "S", 20, 100), replace(1, 3, 10, 100))
    assert sizes(two) == ([], [(100, [20, 10])])
    assert (two.queue_ahead(0, 2), two.queue_ahead(0, 3), two.queue_ahead(0, 1)) == (0, 20, None)


def test_a_replace_of_an_order_that_is_not_live_is_silent(two: Exchange) -> None:
    sent(two, enter(1, "S", 10, 100), enter(1, "B", 10, 100, account=1))
    assert sent(two, replace(1, 2, 20, 100), replace(8, 2, 20, 100), cancel(1)) == []
    assert two.counters()["ignored_stale"] == 3
    assert sent(two, query()) == ["0 next number 2"]


def test_a_replace_with_a_used_number_is_silent(two: Exchange) -> None:
    sent(two, enter(4, "S", 10, 100))
    assert sent(two, replace(4, 4, 20, 100), replace(4, 3, 20, 100), replace(4, 3, 0, 100)) == []
    assert two.counters()["ignored_duplicates"] == 3
    assert sizes(two) == ([], [(100, [10])])


@pytest.mark.parametrize(
    "bad",
    [
        {"quantity": 0},
        {"quantity": 1_000_000},
        {"price": 0},
        {"price": 20_050},
        {"price": r.MAX_PRICE + 200},
        {"price": -20_000},
        {"tif": "6"},
        {"display": "N"},
        {"iso": " "},
        {"side": "B"},
        {"side": "X"},
        {"detail": 0x0B},
    ],
)
def test_a_replace_with_invalid_details_cancels_the_original(two: Exchange, bad: dict[str, object]) -> None:
    sent(two, enter(1, "S", 10, 20_000))
    fields = {"quantity": 10, "price": 20_000} | bad
    assert sent(two, replace(1, 2, **fields)) == ["0 canceled 1: 10 U"]  # type: ignore[arg-type]
    assert sent(two, query()) == ["0 next number 2"]
    assert two.book() == EMPTY


def test_a_buyer_may_not_be_turned_into_a_seller(two: Exchange) -> None:
    sent(two, enter(1, "B", 10, 100), enter(2, "B", 10, 100))
    assert sent(two, replace(1, 3, 10, 101, side="B")) == ["0 replaced 1 by 3: B 10 @ 101"]
    assert sent(two, replace(2, 4, 10, 101, side="S")) == ["0 canceled 2: 10 U"]


def test_a_refused_replace_leaves_the_original_where_it_was(two: Exchange) -> None:
    sent(two, enter(1, "S", 10, 100), enter(2, "S", 10, 100), trading_state("H"))
    assert sent(two, replace(1, 3, 20, 100)) == ["0 rejected 3: HALTED"]
    assert sent(two, query()) == ["0 next number 4"]
    sent(two, trading_state("T"))
    assert sent(two, replace(1, 4, 20, MARKET)) == ["0 rejected 4: QUOTE_UNAVAILABLE"]
    assert two.queue_ahead(0, 2) == 10


def test_a_replace_to_market_takes_what_there_is(two: Exchange) -> None:
    sent(two, enter(1, "S", 10, 300), enter(1, "B", 4, 100, account=1))
    assert sent(two, replace(1, 2, 10, MARKET)) == [
        f"0 replaced 1 by 2: S 10 @ {MARKET}",
        "1 executed 1: 4 @ 100 A, 0 left",
        "0 executed 2: 4 @ 100 R, 6 left",
        "0 canceled 2: 6 I",
    ]


def test_modify_takes_shares_off_or_changes_the_kind_of_sale(two: Exchange) -> None:
    sent(two, enter(1, "S", 10, 100), enter(2, "S", 10, 100), enter(1, "B", 2, 100, account=1))
    assert sent(two, modify(1, "S", 7)) == ["0 modified 1: S 5"]
    assert sent(two, modify(1, "S", 7), modify(1, "S", 99)) == []  # no change; an increase is ignored
    assert sent(two, modify(1, "E", 99)) == ["0 modified 1: E 5"]
    assert sent(two, modify(1, "S", 7)) == []  # exempt does not turn back
    assert sent(two, modify(1, "T", 6)) == ["0 modified 1: T 4"]
    assert sent(two, modify(1, "B", 5), modify(9, "S", 5)) == []
    assert sizes(two) == ([], [(100, [4, 10])])
    assert sent(two, modify(1, "T", 2)) == ["0 canceled 1: 4 U"]
    assert sent(two, modify(1, "T", 2)) == []
    assert two.counters()["ignored_stale"] == 4
    assert two.counters()["orders_modified"] == 3


def test_another_client_can_do_nothing_to_my_order(two: Exchange) -> None:
    sent(two, enter(1, "S", 10, 100), enter(1, "S", 20, 200, account=1))
    intruder = sent(two, cancel(1, account=1), replace(1, 2, 5, 100, account=1), modify(1, "S", 1, account=1))
    assert intruder == ["1 canceled 1: 20 U"]  # his own number 1
    assert sizes(two) == ([], [(100, [10])])


# --- halts, markets, mass cancels ---------------------------------------------------------------------------------


@pytest.mark.parametrize("state", "HPQ")
def test_a_halted_stock_takes_no_orders_but_lets_them_go(two: Exchange, state: str) -> None:
    sent(two, enter(1, "S", 10, 100), trading_state(state))
    assert sent(two, enter(2, "B", 10, 100)) == ["0 rejected 2: HALTED"]
    assert sent(two, modify(1, "S", 5), cancel(1)) == ["0 modified 1: S 5", "0 canceled 1: 5 U"]
    sent(two, trading_state("T"))
    assert sent(two, enter(3, "B", 10, 100)) == ["0 accepted 3: B 10 @ 100"]


@pytest.mark.parametrize("price", r.MARKET_PRICES)
def test_a_market_order_takes_any_price_and_does_not_rest(two: Exchange, price: int) -> None:
    sent(two, enter(1, "S", 5, 100), enter(2, "S", 5, 90_000))
    assert sent(two, enter(1, "B", 12, price, account=1)) == [
        f"1 accepted 1: B 12 @ {price}",
        "0 executed 1: 5 @ 100 A, 0 left",
        "1 executed 1: 5 @ 100 R, 7 left",
        "0 executed 2: 5 @ 90000 A, 0 left",
        "1 executed 1: 5 @ 90000 R, 2 left",
        "1 canceled 1: 2 I",
    ]
    assert sent(two, enter(2, "B", 12, price, account=1)) == ["1 rejected 2: QUOTE_UNAVAILABLE"]


def test_cancel_all_takes_the_newest_number_first_over_all_instruments(fresh: NewExchange) -> None:
    exchange = fresh(r.MATCH, accounts=({}, {}), instruments=3)
    sent(
        exchange,
        enter(1, "S", 1, 100, instrument=2),
        enter(2, "S", 2, 100, instrument=0),
        enter(1, "S", 9, 100, instrument=0, account=1),
        enter(3, "B", 3, 50, instrument=2),
        replace(1, 4, 4, 100),
    )
    assert sent(exchange, cancel_all("E")) == [
        "0 canceled 4: 4 E",
        "0 canceled 3: 3 E",
        "0 canceled 2: 2 E",
    ]
    assert sent(exchange, cancel_all("E")) == []
    assert exchange.account(1)["open_orders"] == 1


def test_the_kill_switch_cancels_everything_and_refuses_more(two: Exchange) -> None:
    sent(two, enter(1, "S", 5, 100), enter(2, "B", 5, 50))
    assert sent(two, kill_switch(True)) == ["0 canceled 2: 5 S", "0 canceled 1: 5 S"]
    assert sent(two, enter(3, "S", 5, 100)) == ["0 rejected 3: FIRM_NOT_AUTHORIZED"]
    assert sent(two, enter(1, "S", 5, 100, account=1)) == ["1 accepted 1: S 5 @ 100"]
    assert sent(two, kill_switch(False), enter(4, "S", 5, 100)) == ["0 accepted 4: S 5 @ 100"]
