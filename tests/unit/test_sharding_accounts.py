"""Several matching threads: what is checked for an account as a whole, its numbers and its limits."""

from __future__ import annotations

import pytest

from commands import (
    OPEN_NS,
    Command,
    add,
    cancel,
    cancel_all,
    enter,
    kill_switch,
    modify,
    query,
    replace,
)
from sharded_engine import Sharded
from venue.engine import records as r

SECOND_NS = 1_000_000_000


# --- numbers -----------------------------------------------------------------------------------


def test_numbers_rise_over_all_threads() -> None:
    sharded = Sharded()
    assert sharded.sent(
        enter(5, "B", 10, 10_000, instrument=0),
        enter(5, "B", 10, 10_000, instrument=1),
        enter(4, "B", 10, 10_000, instrument=1),
        replace(5, 5, 10, 9_900),
        enter(6, "B", 10, 10_000, instrument=1),
    ) == ["0 accepted 5: B 10 @ 10000", "0 accepted 6: B 10 @ 10000"]
    assert sharded.counters() == {"orders_accepted": 2, "ignored_duplicates": 3}


def test_two_live_orders_whose_numbers_share_their_low_bits() -> None:
    sharded = Sharded(user_refs=64)
    assert sharded.sent(
        enter(1, "B", 10, 10_000, instrument=0),
        enter(65, "B", 10, 10_000, instrument=1),
        enter(66, "S", 10, 10_100, instrument=1),
        replace(66, 129, 10, 10_200),
        cancel(1),
        enter(193, "B", 10, 10_000, instrument=1),
        cancel(1),
        cancel(193),
    ) == [
        "0 accepted 1: B 10 @ 10000",
        "0 rejected 65: PROCESSING_ERROR",
        "0 accepted 66: S 10 @ 10100",
        "0 rejected 129: PROCESSING_ERROR",
        "0 canceled 1: 10 U",
        "0 accepted 193: B 10 @ 10000",
        "0 canceled 193: 10 U",
    ]
    assert sharded.book(1) == ([], [(10_100, [(r.FIRST_OWN_REFERENCE + (1 << 48), 10, True)])]), "66 stays as it was"
    assert sharded.counters()["capacity_rejects"] == 2


def test_a_replace_may_take_the_place_of_its_original() -> None:
    sharded = Sharded(user_refs=64)
    assert sharded.sent(enter(1, "B", 10, 10_000, instrument=1), replace(1, 65, 10, 9_900), cancel(65)) == [
        "0 accepted 1: B 10 @ 10000",
        "0 replaced 1 by 65: B 10 @ 9900",
        "0 canceled 65: 10 U",
    ]
    assert sharded.total("open_orders") == 0


def test_a_replace_that_does_nothing_leaves_its_number_unused() -> None:
    """Stale, or with details that cancel the original: as with one thread. Meanwhile the number counts as used."""
    sharded = Sharded()
    sharded.sent(enter(1, "B", 10, 10_000, instrument=1), enter(2, "B", 10, 10_000, instrument=1))
    sharded.put(cancel(1), replace(1, 3, 10, 9_900), query(), enter(3, "B", 10, 10_000, instrument=0))
    sharded.turn()
    sharded.match()
    sharded.turn()
    assert [str(event) for event in sharded.hear()] == ["0 canceled 1: 10 U", "0 next number 4"]
    assert sharded.counters()["ignored_duplicates"] == 1, "3 may still have been taken when it came"
    assert sharded.sent(replace(2, 3, 10, 10_050), query(), enter(3, "B", 5, 10_000, instrument=0)) == [
        "0 canceled 2: 10 U",
        "0 next number 3",
        "0 accepted 3: B 5 @ 10000",
    ]


def test_a_rejected_replace_has_used_its_number_up() -> None:
    sharded = Sharded(accounts=[{"max_order_quantity": 10}])
    assert sharded.sent(
        enter(1, "B", 10, 10_000, instrument=1), replace(1, 2, 11, 10_000), enter(2, "B", 1, 10_000), query(), cancel(1)
    ) == [
        "0 accepted 1: B 10 @ 10000",
        "0 rejected 2: RISK_MAX_QUANTITY",
        "0 next number 3",
        "0 canceled 1: 10 U",
    ]


# --- limits ------------------------------------------------------------------------------------


def test_open_orders_count_over_all_threads() -> None:
    sharded = Sharded(accounts=[{"max_open_orders": 2}, {}])
    assert sharded.sent(
        enter(1, "B", 10, 10_000, instrument=0),
        enter(2, "B", 10, 10_000, instrument=1),
        enter(3, "B", 10, 10_000, instrument=2),
        replace(2, 4, 10, 9_900),
        enter(1, "B", 10, 10_000, instrument=3, account=1),
        cancel(4),
        enter(5, "B", 10, 10_000, instrument=3),
    ) == [
        "0 accepted 1: B 10 @ 10000",
        "0 accepted 2: B 10 @ 10000",
        "0 rejected 3: SHARES_OVER_THRESHOLD",
        "0 replaced 2 by 4: B 10 @ 9900",
        "1 accepted 1: B 10 @ 10000",
        "0 canceled 4: 10 U",
        "0 accepted 5: B 10 @ 10000",
    ]


def test_an_order_counts_as_open_until_its_end_has_been_merged() -> None:
    sharded = Sharded(accounts=[{"max_open_orders": 1}])
    sharded.sent(enter(1, "B", 10, 10_000, instrument=0))
    sharded.put(cancel(1), enter(2, "B", 10, 10_000, instrument=1))
    sharded.turn()
    sharded.match()
    sharded.turn()
    assert [str(event) for event in sharded.hear()] == ["0 canceled 1: 10 U", "0 rejected 2: SHARES_OVER_THRESHOLD"]
    assert sharded.sent(enter(3, "B", 10, 10_000, instrument=1)) == ["0 accepted 3: B 10 @ 10000"]


@pytest.mark.parametrize(
    ("ends", "self_match", "left"),
    [
        ([enter(2, "S", 10, 10_000, account=1)], r.ALLOW, 0),
        ([enter(2, "S", 4, 10_000, account=1)], r.ALLOW, 1),
        ([enter(2, "S", 10, 10_000)], r.CANCEL_OLDEST, 1),
        ([enter(2, "S", 10, 10_000)], r.CANCEL_NEWEST, 1),
        ([enter(2, "S", 10, 10_000)], r.DECREMENT, 0),
        ([enter(2, "S", 4, 10_000)], r.DECREMENT, 1),
        ([enter(2, "S", 14, 10_000)], r.DECREMENT, 1),
        ([cancel(1)], r.ALLOW, 0),
        ([cancel(1, 4), cancel(1, 4), modify(1, "B", 3)], r.ALLOW, 1),
        ([modify(1, "B", 0)], r.ALLOW, 0),
        ([kill_switch(True)], r.ALLOW, 0),
        ([cancel_all("Z")], r.ALLOW, 0),
        ([replace(1, 2, 10, 10_050)], r.ALLOW, 0),
        ([replace(1, 2, 10, 9_900)], r.ALLOW, 1),
        ([add(1, "S", 4, 10_000), add(2, "S", 6, 10_000)], r.ALLOW, 0),
    ],
)
def test_every_end_of_an_order_is_seen_and_nothing_else_is_taken_for_one(
    ends: list[Command], self_match: int, left: int
) -> None:
    sharded = Sharded(accounts=[{"self_match": self_match}, {}])
    sharded.sent(enter(1, "B", 10, 10_000))
    assert sharded.total("open_orders") == 1
    sharded.sent(*ends)
    assert sharded.views[0].account(0)["open_orders"] == left
    assert sharded.total("open_orders") == left
    assert sharded.total("open_orders", 1) == sharded.total("replaces") == 0


def test_the_rate_counts_over_all_threads() -> None:
    sharded = Sharded(accounts=[{"max_orders_per_s": 2}])
    assert sharded.sent(
        enter(1, "B", 10, 10_000, instrument=0),
        enter(2, "B", 10, 10_000, instrument=1),
        enter(3, "B", 10, 10_000, instrument=0),
        replace(2, 4, 10, 9_900),
        enter(5, "B", 10, 10_000, instrument=1, time_ns=OPEN_NS + SECOND_NS // 2),
        replace(2, 6, 10, 9_900, time_ns=OPEN_NS + SECOND_NS),
    ) == [
        "0 accepted 1: B 10 @ 10000",
        "0 accepted 2: B 10 @ 10000",
        "0 rejected 3: RISK_PORT_RATE",
        "0 rejected 4: RISK_PORT_RATE",
        "0 accepted 5: B 10 @ 10000",
        "0 replaced 2 by 6: B 10 @ 9900",
    ], "a Replace that comes too soon leaves its original as it is"


def test_the_kill_switch_holds_on_every_thread() -> None:
    sharded = Sharded(accounts=[{}, {}])
    sharded.sent(*[enter(1 + number, "B", 10, 10_000, instrument=number) for number in range(3)])
    sharded.put(kill_switch(True), *[enter(4 + number, "B", 10, 10_000, instrument=number) for number in range(2)])
    sharded.put(enter(1, "B", 10, 10_000, account=1))
    sharded.turn()
    sharded.match()
    sharded.turn()
    assert [str(event) for event in sharded.hear()] == [
        "0 canceled 3: 10 S",
        "0 canceled 1: 10 S",
        "0 rejected 4: FIRM_NOT_AUTHORIZED",
        "1 accepted 1: B 10 @ 10000",
        "0 canceled 2: 10 S",
        "0 rejected 5: FIRM_NOT_AUTHORIZED",
    ]
    assert sharded.sent(kill_switch(False), enter(6, "B", 10, 10_000)) == ["0 accepted 6: B 10 @ 10000"]
