"""Stories of recorded flow and own orders that leave no mark on it: the mode `passive`."""

import pytest

from commands import (
    IOC,
    MARKET,
    add,
    delete,
    enter,
    execute,
    replace_recorded,
)
from exchange import Exchange, NewExchange, sent
from venue.engine import records as r

B = r.FIRST_OWN_REFERENCE


@pytest.fixture
def passive(fresh: NewExchange) -> Exchange:
    """History stays as it was."""
    return fresh(r.PASSIVE, accounts=({}, {}))


def test_passive_own_orders_leave_no_mark_on_history(passive: Exchange) -> None:
    sent(passive, add(1, "S", 30, 100), add(2, "S", 30, 101))
    for number in (1, 2):  # the same shares, again
        assert sent(passive, enter(number, "B", 50, 100, tif=IOC)) == [
            f"0 accepted {number}: B 50 @ 100",
            f"0 executed {number}: 30 @ 100 R, 20 left",
            f"0 canceled {number}: 20 I",
        ]
    assert passive.book()[1] == [(100, [(1, 30, False)]), (101, [(2, 30, False)])]
    assert sent(passive, enter(3, "B", 100, MARKET))[-1] == "0 canceled 3: 40 I"
    assert sent(passive, enter(4, "B", 50, 100))[-1] == "0 executed 4: 30 @ 100 R, 20 left"
    assert passive.book()[0] == [(100, [(B + 3, 20, True)])]  # rests against what it has already met
    sent(passive, execute(1, 30), delete(2))
    assert passive.book()[1] == []
    assert "divergence_events" not in passive.counters()


def test_passive_market_orders_are_stopped_by_a_collar_only_if_there_is_more_beyond_it(
    fresh: NewExchange,
) -> None:
    exchange = fresh(r.PASSIVE, accounts=({"collar_bp": 100},))
    sent(exchange, add(1, "S", 30, 10_000))
    assert sent(exchange, enter(1, "B", 50, MARKET))[-1] == "0 canceled 1: 20 I"
    sent(exchange, add(2, "S", 30, 20_000), add(3, "S", 30, 30_000))
    assert sent(exchange, enter(2, "B", 50, MARKET))[-1] == "0 canceled 2: 20 K"
    sent(exchange, delete(3))
    assert sent(exchange, enter(3, "B", 50, MARKET))[-1] == "0 canceled 3: 20 K"
    sent(exchange, delete(2))
    assert sent(exchange, enter(4, "B", 50, MARKET))[-1] == "0 canceled 4: 20 I"  # what was beyond it has gone


def test_passive_fills_take_nothing_from_the_recorded_aggressor(passive: Exchange) -> None:
    sent(passive, enter(1, "S", 10, 100), add(1, "S", 50, 100))
    assert sent(passive, execute(1, 15)) == ["0 executed 1: 10 @ 100 A, 0 left"]
    assert passive.book()[1] == [(100, [(1, 35, False)])]
    sent(passive, enter(2, "B", 10, 90))
    assert sent(passive, add(2, "S", 4, 90)) == ["0 executed 2: 4 @ 90 A, 6 left"]
    assert passive.book() == (
        [(90, [(B + 1, 6, True)])],
        [(90, [(2, 4, False)]), (100, [(1, 35, False)])],
    )
    assert sent(passive, replace_recorded(2, 3, 20, 90)) == ["0 executed 2: 6 @ 90 A, 0 left"]
    assert passive.book() == ([], [(90, [(3, 20, False)]), (100, [(1, 35, False)])])
    assert (passive.displayed(1), passive.displayed(3)) == (35, 20)
