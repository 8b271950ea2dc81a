"""The tape: what of each trade is printed, told to the naive and to the compiled exchange alike."""

import pytest

from commands import add, crossed, enter, execute, hidden_trade
from engine_under_test import Engine
from exchange import EXCHANGES, Exchange, new_exchange, sent
from venue.engine import records as r


def printed(exchange: Exchange) -> list[str]:
    return [str(trade) for trade in exchange.tape()]


@pytest.fixture(params=EXCHANGES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_two_clients(name: str) -> None:
    exchange = new_exchange(name)(r.MATCH, accounts=({}, {}))
    sent(exchange, enter(1, "S", 5, 100, account=1), enter(1, "S", 5, 101, account=1), enter(2, "S", 5, 101, account=1))
    sent(exchange, enter(7, "B", 8, 101))
    assert printed(exchange) == ["own B 5 @ 100: 1/1 met by 0/7", "own B 3 @ 101: 1/2 met by 0/7"]
    assert [trade.match_number for trade in exchange.tape()] == [1, 2]


def test_a_client_takes_what_the_feed_left_and_is_met_by_the_feed(name: str) -> None:
    exchange = new_exchange(name)(r.CONSUME)
    sent(exchange, add(1, "S", 5, 100), enter(1, "B", 8, 100), add(2, "S", 2, 99))
    assert printed(exchange) == ["own B 5 @ 100: feed met by 0/1", "own S 2 @ 100: 0/1 met by feed"]


def test_an_execution_of_the_recorded_day(name: str) -> None:
    exchange = new_exchange(name)(r.CONSUME)
    sent(exchange, add(1, "B", 10, 100), execute(1, 4), execute(1, 2, price=98))
    assert printed(exchange) == ["recorded S 4 @ 100: feed met by feed", "recorded S 2 @ 98: feed met by feed"]
    assert [trade.match_number for trade in exchange.tape()] == [0, 0]


def test_what_an_own_order_takes_of_an_execution_is_printed_as_its_trade(name: str) -> None:
    exchange = new_exchange(name)(r.CONSUME)
    sent(exchange, add(1, "B", 10, 100), enter(1, "B", 3, 101), execute(1, 10))
    assert printed(exchange) == ["own S 3 @ 101: 0/1 met by feed", "recorded S 7 @ 100: feed met by feed"]


def test_what_could_not_happen_is_not_printed(name: str) -> None:
    """Divergence: own orders had taken the shares before."""
    exchange = new_exchange(name)(r.CONSUME)
    sent(exchange, add(1, "S", 10, 100), enter(1, "B", 10, 100), execute(1, 10))
    assert printed(exchange) == ["own B 10 @ 100: feed met by 0/1"]


def test_without_impact_history_prints_as_it_was(name: str) -> None:
    exchange = new_exchange(name)(r.PASSIVE)
    sent(exchange, add(1, "S", 10, 100), enter(1, "B", 10, 100), execute(1, 12), hidden_trade(5, 100))
    assert printed(exchange) == [
        "own B 10 @ 100: feed met by 0/1",
        "recorded B 10 @ 100: feed met by feed",
        "hidden - 5 @ 100: feed met by feed",
    ]


def test_hidden_interest_and_auctions_have_no_side(name: str) -> None:
    exchange = new_exchange(name)(r.CONSUME)
    sent(exchange, enter(1, "S", 3, 100), hidden_trade(5, 101), hidden_trade(2, 101), crossed(102, quantity=50))
    sent(exchange, crossed(0, quantity=50), crossed(103, quantity=0))
    assert printed(exchange) == [
        "own B 3 @ 100: 0/1 met by feed",
        "hidden - 2 @ 101: feed met by feed",
        "hidden - 2 @ 101: feed met by feed",
        "cross - 50 @ 102: feed met by feed",
    ]


def test_the_oldest_trades_are_overwritten() -> None:
    engine = Engine(r.CONSUME)
    kept = len(engine.books.tape)
    sent(engine, add(1, "B", 2 * kept, 100), *[execute(1, 1)] * (kept + 3))
    assert len(engine.tape(after=3)) == kept
    assert engine.books.tape["number"].min() == 4
