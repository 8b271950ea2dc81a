"""Stories of live orders: what each client hears, word for word. Both exchanges have to tell them the same way."""

import pytest

from commands import (
    INGRESS_NS,
    IOC,
    OPEN_NS,
    cancel,
    cancel_all,
    day_event,
    enter,
    modify,
    query,
    replace,
)
from exchange import Event, Exchange, NewExchange, sent, sizes
from venue.engine import records as r

EMPTY: tuple[list[object], list[object]] = ([], [])


# --- every field of every event -----------------------------------------------------------------------------------


def test_accepted_echoes_the_order_and_executions_carry_one_match_number(two: Exchange) -> None:
    words = (0x4142434445464748, -2)
    [accepted] = two.send(enter(7, "T", 50, 20_000, display="A", iso="Y", capacity="X", words=words))
    assert accepted == Event(
        r.ACCEPTED,
        time_ns=OPEN_NS,
        ingress_ns=INGRESS_NS,
        account=0,
        user_ref=7,
        instrument=0,
        side=ord("T"),
        quantity=50,
        price=20_000,
        reference=r.FIRST_OWN_REFERENCE,
        tif=ord("0"),
        display=ord("A"),
        capacity=ord("O"),  # X is none of A P R O
        iso=ord("Y"),
        cross=ord("N"),
        word0=words[0],
        word1=words[1],
        detail=ord("L"),
    )
    events = two.send(enter(1, "B", 60, 20_100, account=1, capacity="P", time_ns=OPEN_NS + 5))
    assert [event.kind for event in events] == [r.ACCEPTED, r.EXECUTED, r.EXECUTED]
    assert events[0].capacity == ord("P")
    assert events[0].reference == r.FIRST_OWN_REFERENCE + 1
    maker = Event(
        r.EXECUTED,
        time_ns=OPEN_NS + 5,
        account=0,
        user_ref=7,
        quantity=50,
        price=20_000,
        leaves=0,
        reference=1,
        detail=ord("A"),
    )
    taker = maker._replace(account=1, user_ref=1, leaves=10, detail=ord("R"))
    assert events[1:] == [maker, taker]


def test_replaced_rejected_canceled_modified_and_the_rest_in_full(two: Exchange) -> None:
    two.send(enter(1, "S", 100, 20_000, capacity="A"))
    answer = {"time_ns": OPEN_NS, "ingress_ns": INGRESS_NS}
    assert two.send(replace(1, 2, 80, 30_000, side="E", display="A", iso="Y", tif="5", words=(3, 4))) == [
        Event(
            r.REPLACED,
            **answer,
            user_ref=2,
            original_user_ref=1,
            side=ord("E"),
            quantity=80,
            price=30_000,
            reference=r.FIRST_OWN_REFERENCE + 1,
            tif=ord("5"),
            display=ord("A"),
            capacity=ord("A"),
            iso=ord("Y"),
            cross=ord("N"),
            word0=3,
            word1=4,
            detail=ord("L"),
        )
    ]
    assert two.send(modify(2, "T", 70)) == [Event(r.MODIFIED, **answer, user_ref=2, side=ord("T"), quantity=70)]
    assert two.send(cancel(2, 30)) == [Event(r.CANCELED, **answer, user_ref=2, quantity=40, detail=ord("U"))]
    assert two.send(enter(3, "B", 0, 20_000, words=(5, 6))) == [
        Event(r.REJECTED, **answer, user_ref=3, word0=5, word1=6, detail=0x13)
    ]
    assert two.send(query()) == [Event(r.QUERY_RESPONSE, **answer, user_ref=4)]
    assert two.send(day_event("S", account=1)) == [Event(r.SYSTEM_EVENT, time_ns=OPEN_NS, account=1, detail=ord("S"))]
    assert two.send(cancel_all("T")) == [Event(r.CANCELED, time_ns=OPEN_NS, user_ref=2, quantity=30, detail=ord("T"))]


# --- the book -----------------------------------------------------------------------------------------------------


def test_a_partial_fill_keeps_the_place_at_the_front(two: Exchange) -> None:
    sent(two, enter(1, "S", 10, 100), enter(2, "S", 10, 100))
    assert sent(two, enter(1, "B", 4, 100, account=1)) == [
        "1 accepted 1: B 4 @ 100",
        "0 executed 1: 4 @ 100 A, 6 left",
        "1 executed 1: 4 @ 100 R, 0 left",
    ]
    assert sizes(two) == ([], [(100, [6, 10])])
    assert sent(two, enter(2, "B", 8, 100, account=1)) == [
        "1 accepted 2: B 8 @ 100",
        "0 executed 1: 6 @ 100 A, 0 left",
        "1 executed 2: 6 @ 100 R, 2 left",
        "0 executed 2: 2 @ 100 A, 8 left",
        "1 executed 2: 2 @ 100 R, 0 left",
    ]
    assert sizes(two) == ([], [(100, [8])])


def test_a_one_tick_spread_is_crossed_once(two: Exchange) -> None:
    sent(two, enter(1, "B", 5, 100), enter(2, "S", 5, 101))
    assert sent(two, enter(1, "B", 5, 101, account=1)) == [
        "1 accepted 1: B 5 @ 101",
        "0 executed 2: 5 @ 101 A, 0 left",
        "1 executed 1: 5 @ 101 R, 0 left",
    ]
    assert sizes(two) == ([(100, [5])], [])
    assert sent(two, enter(2, "B", 5, 101, account=1)) == ["1 accepted 2: B 5 @ 101"]
    assert sizes(two) == ([(101, [5]), (100, [5])], [])


def test_a_sweep_trades_level_by_level_and_rests_what_is_left(two: Exchange) -> None:
    sent(two, enter(1, "S", 5, 101), enter(2, "S", 5, 102), enter(3, "S", 5, 103))
    assert sent(two, enter(1, "B", 12, 102, account=1)) == [
        "1 accepted 1: B 12 @ 102",
        "0 executed 1: 5 @ 101 A, 0 left",
        "1 executed 1: 5 @ 101 R, 7 left",
        "0 executed 2: 5 @ 102 A, 0 left",
        "1 executed 1: 5 @ 102 R, 2 left",
    ]
    assert sizes(two) == ([(102, [2])], [(103, [5])])


def test_the_remainder_becomes_the_ask(two: Exchange) -> None:
    sent(two, enter(1, "B", 100, 12_000), enter(2, "B", 100, 12_000))
    assert sent(two, enter(1, "S", 309, 12_000, account=1))[-2:] == [
        "0 executed 2: 100 @ 12000 A, 0 left",
        "1 executed 1: 100 @ 12000 R, 109 left",
    ]
    assert sizes(two) == ([], [(12_000, [109])])


def test_what_happens_behind_the_touch_leaves_the_touch_alone(two: Exchange) -> None:
    sent(two, enter(1, "B", 5, 100), enter(2, "B", 5, 99), enter(3, "B", 5, 98))
    sent(two, cancel(3), cancel(2, 2))
    assert sizes(two) == ([(100, [5]), (99, [2])], [])
    sent(two, enter(4, "B", 1, 100), replace(1, 5, 8, 100))  # the same price: 5 shares out, 8 in, at the back
    assert sizes(two) == ([(100, [1, 8]), (99, [2])], [])


def test_a_reprice_into_the_market_trades_at_the_resting_price(two: Exchange) -> None:
    sent(two, enter(1, "B", 5, 99), enter(1, "S", 5, 101, account=1))
    assert sent(two, replace(1, 2, 5, 105)) == [
        "0 replaced 1 by 2: B 5 @ 105",
        "1 executed 1: 5 @ 101 A, 0 left",
        "0 executed 2: 5 @ 101 R, 0 left",
    ]
    assert two.book() == EMPTY


def test_immediate_or_cancel_never_rests(two: Exchange) -> None:
    sent(two, enter(1, "S", 4, 100))
    assert sent(two, enter(1, "B", 10, 100, account=1, tif=IOC)) == [
        "1 accepted 1: B 10 @ 100",
        "0 executed 1: 4 @ 100 A, 0 left",
        "1 executed 1: 4 @ 100 R, 6 left",
        "1 canceled 1: 6 I",
    ]
    assert sent(two, enter(2, "B", 10, 100, account=1, tif=IOC)) == [
        "1 accepted 2: B 10 @ 100",
        "1 canceled 2: 10 I",
    ]
    assert two.book() == EMPTY


def test_a_minimum_quantity_is_all_or_nothing_below_it(two: Exchange) -> None:
    sent(two, enter(1, "S", 4, 100), enter(2, "S", 4, 101))
    assert sent(two, enter(1, "B", 10, 101, account=1, tif=IOC, minimum=10)) == [
        "1 accepted 1: B 10 @ 101",
        "1 canceled 1: 10 I",
    ]
    assert sizes(two) == ([], [(100, [4]), (101, [4])])
    assert sent(two, enter(2, "B", 10, 101, account=1, tif=IOC, minimum=8))[-2:] == [
        "1 executed 2: 4 @ 101 R, 2 left",
        "1 canceled 2: 2 I",
    ]


@pytest.mark.parametrize(
    ("policy", "heard", "left"),
    [
        (
            r.ALLOW,
            [
                "0 executed 1: 5 @ 100 A, 0 left",
                "0 executed 2: 5 @ 100 R, 3 left",
                "1 executed 1: 3 @ 100 A, 2 left",
                "0 executed 2: 3 @ 100 R, 0 left",
            ],
            ([], [(100, [2])]),
        ),
        (r.CANCEL_NEWEST, ["0 canceled 2: 8 Q"], ([], [(100, [5, 5])])),
        (
            r.CANCEL_OLDEST,
            ["0 canceled 1: 5 Q", "1 executed 1: 5 @ 100 A, 0 left", "0 executed 2: 5 @ 100 R, 3 left"],
            ([(100, [3])], []),
        ),
        (
            r.DECREMENT,
            [
                "0 canceled 1: 5 Q",
                "0 canceled 2: 5 Q",
                "1 executed 1: 3 @ 100 A, 2 left",
                "0 executed 2: 3 @ 100 R, 0 left",
            ],
            ([], [(100, [2])]),
        ),
    ],
)
def test_self_match_prevention(
    fresh: NewExchange, policy: int, heard: list[str], left: tuple[list[object], list[object]]
) -> None:
    exchange = fresh(r.MATCH, accounts=({"self_match": policy}, {}))
    sent(exchange, enter(1, "S", 5, 100), enter(1, "S", 5, 100, account=1))
    assert sent(exchange, enter(2, "B", 8, 100)) == ["0 accepted 2: B 8 @ 100", *heard]
    assert sizes(exchange) == left
    assert exchange.counters().get("self_matches_prevented", 0) == (policy != r.ALLOW)
    exchange.check_invariants()


def test_shares_lost_to_self_match_prevention_are_spent_in_the_chain(fresh: NewExchange) -> None:
    exchange = fresh(r.MATCH, accounts=({"self_match": r.DECREMENT},))
    sent(exchange, enter(1, "S", 100, 100), enter(2, "B", 30, 100))
    assert sent(exchange, replace(1, 3, 100, 101)) == ["0 replaced 1 by 3: S 70 @ 101"]
    assert sent(exchange, cancel(3, 50)) == ["0 canceled 3: 50 U"]


@pytest.mark.parametrize(
    ("policy", "most"), [(r.ALLOW, 8), (r.CANCEL_NEWEST, 3), (r.CANCEL_OLDEST, 8), (r.DECREMENT, 6)]
)
def test_a_minimum_quantity_counts_only_what_would_really_trade(fresh: NewExchange, policy: int, most: int) -> None:
    """Ahead are 3 of another client's, 2 of one's own, and 20 of the other client's."""
    exchange = fresh(r.MATCH, accounts=({"self_match": policy}, {}))
    sent(exchange, enter(1, "S", 3, 100, account=1), enter(1, "S", 2, 100), enter(2, "S", 20, 100, account=1))
    if most < 8:
        assert sent(exchange, enter(2, "B", 8, 100, tif=IOC, minimum=most + 1)) == [
            "0 accepted 2: B 8 @ 100",
            "0 canceled 2: 8 I",
        ]
        assert sizes(exchange) == ([], [(100, [3, 2, 20])])
        assert "self_matches_prevented" not in exchange.counters()
    events = exchange.send(enter(3, "B", 8, 100, tif=IOC, minimum=most))
    assert sum(e.quantity for e in events if e.kind == r.EXECUTED and e.detail == ord("R")) == most
    exchange.check_invariants()


def test_a_filled_order_is_gone_and_its_place_in_memory_returns(fresh: NewExchange) -> None:
    exchange = fresh(r.MATCH, accounts=({}, {}), orders=4)
    for n in range(1, 50):  # many more than fit at once
        assert len(sent(exchange, enter(2 * n, "S", 10, 100), enter(2 * n, "B", 10, 100, account=1))) == 4
        assert sent(exchange, cancel(2 * n)) == []
        assert exchange.book() == EMPTY
    exchange.check_invariants()
    assert exchange.counters()["ignored_stale"] == 49
    assert exchange.counters()["fills"] == 49
    assert "capacity_rejects" not in exchange.counters()


def test_reused_memory_does_not_decide_who_trades_first(two: Exchange) -> None:
    sent(two, *[enter(n, "S", 10, 100) for n in range(1, 6)])
    sent(two, cancel(2), cancel(1), enter(6, "S", 10, 100), enter(7, "S", 10, 100))
    heard = sent(two, enter(1, "B", 50, 100, account=1))
    assert [line.split(":")[0] for line in heard if line.startswith("0")] == [
        f"0 executed {n}" for n in (3, 4, 5, 6, 7)
    ]


def test_nothing_leaks_from_one_exchange_to_the_next(fresh: NewExchange) -> None:
    def day() -> tuple[list[str], int]:
        exchange = fresh(r.MATCH, accounts=({}, {}))
        heard = sent(exchange, enter(1, "S", 10, 100), enter(1, "B", 4, 100, account=1), cancel(1), query())
        return heard, exchange.state_hash()

    assert day() == day()
