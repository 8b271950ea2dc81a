"""What is refused at the door, each with its own reason, and exposure that returns to exactly nothing."""

import pytest

from commands import IOC, MARKET, OPEN_NS, add, cancel, enter, execute, modify, replace
from exchange import NewExchange, sent
from venue.engine import records as r

NOTHING_OPEN = {"open_orders": 0, "open_shares": 0, "open_notional": 0, "killed": 0}


BAD = [
    ({"detail": 0x0F}, "OTHER"),
    ({"detail": 0x10, "side": ord("X")}, "CANCEL_NOT_ALLOWED"),  # what the decoder found goes first
    ({"side": ord("X"), "quantity": 0}, "INVALID_SIDE"),
    ({"side": 0}, "INVALID_SIDE"),
    ({"quantity": 0, "instrument": 9}, "INVALID_QUANTITY"),
    ({"quantity": 1_000_000}, "INVALID_QUANTITY"),
    ({"quantity": 2**32 - 1}, "INVALID_QUANTITY"),
    ({"instrument": 1, "tif": ord("6")}, "INVALID_SYMBOL"),
    ({"instrument": r.NO_INSTRUMENT}, "INVALID_SYMBOL"),
    ({"tif": ord("6"), "display": 0}, "OTHER"),
    ({"display": ord("N"), "iso": 0}, "INVALID_DISPLAY"),
    ({"iso": ord(" "), "cross": 0}, "ISO_NOT_ALLOWED"),
    ({"cross": ord("O"), "price": 0}, "INVALID_CROSS_ORDER"),
    ({"price": 0, "extra": 11}, "INVALID_PRICE"),
    ({"price": -10_000}, "INVALID_PRICE"),
    ({"price": 10_050}, "INVALID_PRICE"),
    ({"price": 10_001}, "INVALID_PRICE"),
    ({"price": r.MAX_PRICE + 200}, "INVALID_PRICE"),
    ({"price": 2**62}, "INVALID_PRICE"),
    ({"price": r.MAX_PRICE, "extra": 11, "tif": ord(IOC)}, "INVALID_MIN_QUANTITY"),
    ({"extra": 1}, "INVALID_MIN_QUANTITY"),
    ({"price": MARKET}, "QUOTE_UNAVAILABLE"),
]


@pytest.mark.parametrize(("fields", "reason"), BAD)
def test_a_malformed_order_is_refused_by_its_own_number(
    fresh: NewExchange, fields: dict[str, int], reason: str
) -> None:
    exchange = fresh(r.MATCH)
    assert sent(exchange, enter(3, "B", 10, 10_000)._replace(**fields)) == [f"0 rejected 3: {reason}"]
    assert exchange.book() == ([], [])
    assert sum(exchange.counters().values()) == 1


@pytest.mark.parametrize("price", [1, 9_999, 10_000, 10_100, r.MAX_PRICE])
def test_prices_on_a_tick_are_fine(fresh: NewExchange, price: int) -> None:
    assert sent(fresh(r.MATCH), enter(1, "B", r.MAX_QUANTITY, price)) == [f"0 accepted 1: B 999999 @ {price}"]


def test_quantity_of_one_order(fresh: NewExchange) -> None:
    exchange = fresh(r.MATCH, accounts=({"max_order_quantity": 100},))
    assert sent(exchange, enter(1, "B", 100, 50), enter(2, "B", 101, 50)) == [
        "0 accepted 1: B 100 @ 50",
        "0 rejected 2: RISK_MAX_QUANTITY",
    ]
    assert sent(exchange, replace(1, 3, 101, 50)) == ["0 rejected 3: RISK_MAX_QUANTITY"]


def test_notional_of_one_order(fresh: NewExchange) -> None:
    exchange = fresh(r.MATCH, accounts=({"max_order_notional": 5_000}, {}))
    assert sent(exchange, enter(1, "B", 100, 50), enter(2, "B", 100, 51)) == [
        "0 accepted 1: B 100 @ 50",
        "0 rejected 2: RISK_SINGLE_ORDER_NOTIONAL",
    ]
    sent(exchange, enter(1, "S", 500, 60, account=1))
    assert sent(exchange, enter(3, "B", 84, MARKET)) == ["0 rejected 3: RISK_SINGLE_ORDER_NOTIONAL"]
    assert sent(exchange, enter(4, "B", 83, MARKET))[0] == f"0 accepted 4: B 83 @ {MARKET}"
    sent(exchange, enter(2, "S", 40, 50, account=1))  # of order 1, 40 are executed
    assert sent(exchange, replace(1, 5, 141, 50)) == ["0 rejected 5: RISK_SINGLE_ORDER_NOTIONAL"]
    assert sent(exchange, replace(1, 6, 140, 50)) == ["0 replaced 1 by 6: B 100 @ 50"]


def test_notional_of_a_sale_is_what_it_could_trade_for(fresh: NewExchange) -> None:
    """Its limit may be far below the bid that it meets."""
    exchange = fresh(r.MATCH, accounts=({"max_order_notional": 5_000}, {}))
    sent(exchange, enter(1, "B", 500, 90, account=1))
    assert sent(exchange, enter(1, "S", 56, 1)) == ["0 rejected 1: RISK_SINGLE_ORDER_NOTIONAL"]
    assert sent(exchange, enter(2, "S", 56, MARKET)) == ["0 rejected 2: RISK_SINGLE_ORDER_NOTIONAL"]
    assert sent(exchange, enter(3, "S", 55, 1))[0] == "0 accepted 3: S 55 @ 1"
    assert sent(exchange, enter(4, "S", 50, 101)) == ["0 rejected 4: RISK_SINGLE_ORDER_NOTIONAL"]


def test_notional_of_a_market_order_counts_every_level_that_it_needs(fresh: NewExchange) -> None:
    exchange = fresh(r.MATCH, accounts=({"max_order_notional": 5_000}, {}))
    sent(exchange, enter(1, "S", 10, 1, account=1), enter(2, "S", 100, 90, account=1))
    assert sent(exchange, enter(1, "B", 66, MARKET)) == ["0 rejected 1: RISK_SINGLE_ORDER_NOTIONAL"]
    assert sent(exchange, enter(2, "B", 65, MARKET))[0] == f"0 accepted 2: B 65 @ {MARKET}"


def test_the_largest_notional_does_not_wrap(fresh: NewExchange) -> None:
    largest = r.MAX_PRICE * r.MAX_QUANTITY
    exchange = fresh(r.MATCH, accounts=({"max_order_notional": largest - 1}, {"max_order_notional": largest}))
    assert sent(exchange, enter(1, "B", r.MAX_QUANTITY, r.MAX_PRICE)) == ["0 rejected 1: RISK_SINGLE_ORDER_NOTIONAL"]
    assert sent(exchange, enter(2, "B", 2**32 - 1, 2**32 - 1)) == ["0 rejected 2: INVALID_QUANTITY"]
    assert len(sent(exchange, enter(1, "B", r.MAX_QUANTITY, r.MAX_PRICE, account=1))) == 1
    assert exchange.account(1)["open_notional"] == largest


def test_the_collar_looks_at_the_touch_and_at_the_last_trade(fresh: NewExchange) -> None:
    exchange = fresh(r.CONSUME, accounts=({"collar_bp": 1_000},))
    assert sent(exchange, enter(1, "B", 1, 500_000)) == ["0 accepted 1: B 1 @ 500000"]  # nothing to compare with
    sent(exchange, cancel(1), add(1, "S", 100, 10_000), add(2, "B", 100, 8_000))
    assert sent(exchange, enter(2, "B", 1, 11_100), enter(3, "B", 1, 11_000))[:2] == [
        "0 rejected 2: RISK_FAT_FINGER",
        "0 accepted 3: B 1 @ 11000",
    ]
    assert sent(exchange, enter(4, "S", 1, 8_999)) == ["0 rejected 4: RISK_FAT_FINGER"]  # last trade: 10000
    assert sent(exchange, enter(5, "S", 1, 9_000)) == ["0 accepted 5: S 1 @ 9000"]
    sent(exchange, execute(2, 10))  # last trade: 8000
    assert sent(exchange, enter(6, "S", 1, 7_199)) == ["0 rejected 6: RISK_FAT_FINGER"]
    assert sent(exchange, enter(7, "S", 1, 7_200))[0] == "0 accepted 7: S 1 @ 7200"


def test_a_market_order_stops_at_the_collar(fresh: NewExchange) -> None:
    exchange = fresh(r.CONSUME, accounts=({"collar_bp": 1_000},))
    sent(exchange, add(1, "S", 10, 9_999), add(2, "S", 10, 10_998), add(3, "S", 10, 10_999))
    assert sent(exchange, enter(1, "B", 50, MARKET)) == [  # no worse than 9999 × 1.1, rounded down
        f"0 accepted 1: B 50 @ {MARKET}",
        "0 executed 1: 10 @ 9999 R, 40 left",
        "0 executed 1: 10 @ 10998 R, 30 left",
        "0 canceled 1: 30 K",
    ]
    sent(exchange, add(4, "B", 10, 9_999), add(5, "B", 10, 9_000), add(6, "B", 10, 8_999))
    assert sent(exchange, enter(2, "S", 50, MARKET)) == [  # no worse than 9999 × 0.9, rounded up
        f"0 accepted 2: S 50 @ {MARKET}",
        "0 executed 2: 10 @ 9999 R, 40 left",
        "0 executed 2: 10 @ 9000 R, 30 left",
        "0 canceled 2: 30 K",
    ]
    assert sent(exchange, enter(3, "S", 50, MARKET))[-1] == "0 canceled 3: 40 I"  # nothing is left there


def test_the_number_of_open_orders(fresh: NewExchange) -> None:
    exchange = fresh(r.MATCH, accounts=({"max_open_orders": 2},))
    sent(exchange, enter(1, "B", 1, 50), enter(2, "B", 1, 50))
    assert sent(exchange, enter(3, "B", 1, 50)) == ["0 rejected 3: SHARES_OVER_THRESHOLD"]
    assert sent(exchange, replace(1, 4, 1, 51)) == ["0 replaced 1 by 4: B 1 @ 51"]
    sent(exchange, cancel(2))
    assert sent(exchange, enter(5, "B", 1, 50)) == ["0 accepted 5: B 1 @ 50"]


def test_the_position_after_everything_open_has_filled(fresh: NewExchange) -> None:
    exchange = fresh(r.MATCH, accounts=({"max_long": 100, "max_short": 50}, {}), instruments=2)
    sent(exchange, enter(1, "S", 70, 40, account=1), enter(1, "B", 70, 40))
    assert exchange.position() == {"position": 70, "open_buy": 0, "open_sell": 0}
    assert sent(exchange, enter(2, "B", 31, 30)) == ["0 rejected 2: RISK_AGGREGATE_EXPOSURE"]
    assert sent(exchange, enter(3, "B", 30, 30)) == ["0 accepted 3: B 30 @ 30"]
    assert sent(exchange, enter(4, "B", 1, 30)) == ["0 rejected 4: RISK_AGGREGATE_EXPOSURE"]
    assert sent(exchange, replace(3, 5, 31, 30)) == ["0 rejected 5: RISK_AGGREGATE_EXPOSURE"]
    assert sent(exchange, replace(3, 6, 30, 31)) == ["0 replaced 3 by 6: B 30 @ 31"]
    assert sent(exchange, enter(7, "S", 121, 90)) == ["0 rejected 7: RISK_AGGREGATE_EXPOSURE"]
    assert sent(exchange, enter(8, "T", 120, 90)) == ["0 accepted 8: T 120 @ 90"]
    assert sent(exchange, enter(9, "E", 1, 90)) == ["0 rejected 9: RISK_AGGREGATE_EXPOSURE"]
    assert sent(exchange, enter(10, "B", 100, 30, instrument=1)) == ["0 accepted 10: B 100 @ 30"]
    sent(exchange, modify(8, "T", 100), cancel(6, 20))
    assert exchange.position() == {"position": 70, "open_buy": 20, "open_sell": 100}
    exchange.check_invariants()


def test_the_rate_of_orders_is_judged_by_their_own_times(fresh: NewExchange) -> None:
    exchange = fresh(r.MATCH, accounts=({"max_orders_per_s": 3},))
    burst = [enter(n, "B", 1, 50) for n in range(1, 5)]
    assert sent(exchange, *burst)[2:] == ["0 accepted 3: B 1 @ 50", "0 rejected 4: RISK_PORT_RATE"]
    third = 1_000_000_000 // 3
    assert sent(exchange, enter(5, "B", 1, 50, time_ns=OPEN_NS + third - 2)) == ["0 rejected 5: RISK_PORT_RATE"]
    assert len(sent(exchange, replace(1, 6, 2, 50, time_ns=OPEN_NS + third))) == 1  # a Replace counts too
    assert sent(exchange, replace(6, 7, 3, 50, time_ns=OPEN_NS + third)) == ["0 rejected 7: RISK_PORT_RATE"]
    assert sent(exchange, cancel(6, time_ns=OPEN_NS + third)) == ["0 canceled 6: 2 U"]  # this always goes
    later = [enter(n, "B", 1, 50, time_ns=OPEN_NS + 10**10) for n in range(8, 12)]
    assert [line.split()[1] for line in sent(exchange, *later)] == ["accepted"] * 3 + ["rejected"]


def test_ten_thousand_orders_and_cancels_leave_no_exposure(fresh: NewExchange) -> None:
    exchange = fresh(r.MATCH, accounts=({},), orders=10)
    for n in range(1, 20_001, 2):
        exchange.send(enter(n, "BS"[n % 4 == 1], n % 900 + 1, 20_000 + 100 * (n % 7) * (1 if n % 4 == 1 else -1)))
        exchange.send(replace(n, n + 1, n % 800 + 2, 20_000))
        exchange.send(cancel(n + 1))
    assert exchange.account() == NOTHING_OPEN | {"last_user_ref": 20_000}
    assert exchange.position() == {"position": 0, "open_buy": 0, "open_sell": 0}
    assert exchange.counters() == {
        "orders_accepted": 10_000,
        "orders_replaced": 10_000,
        "orders_canceled": 10_000,
    }


def test_out_of_room_is_a_reject_with_a_reason(fresh: NewExchange) -> None:
    exchange = fresh(r.CONSUME, orders=2)
    sent(exchange, add(1, "S", 10, 100), enter(1, "B", 5, 50))
    assert sent(exchange, enter(2, "B", 5, 50)) == ["0 rejected 2: PROCESSING_ERROR"]
    assert sent(exchange, add(2, "S", 5, 50)) == []  # nor does it trade
    assert exchange.state()["incomplete"] == 1
    assert exchange.displayed(2) is None
    assert exchange.counters() == {
        "orders_accepted": 1,
        "orders_rejected 0x0a": 1,
        "capacity_rejects": 2,
    }
    assert sent(exchange, replace(1, 3, 5, 51)) == ["0 replaced 1 by 3: B 5 @ 51"]  # takes the place of its original
    exchange.check_invariants()
