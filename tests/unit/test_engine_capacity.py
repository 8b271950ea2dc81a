"""Room that only the compiled engine can run out of: each time a typed answer and a counter, never a crash."""

import random

import pytest

from commands import IOC, add, cancel, delete, enter, feed_reset, replace
from engine_under_test import BooksView, Engine
from exchange import sent
from reference import Reference
from venue.engine import books, index
from venue.engine import records as r
from venue.engine.kernel import kernel


def test_no_room_for_another_price() -> None:
    engine = Engine(r.CONSUME, levels=2)
    sent(engine, add(1, "B", 5, 100), enter(1, "B", 5, 101))
    assert sent(engine, enter(2, "B", 5, 102)) == ["0 accepted 2: B 5 @ 102", "0 canceled 2: 5 Z"]
    assert sent(engine, enter(3, "B", 5, 101), enter(4, "S", 1, 101, tif=IOC)) == [
        "0 accepted 3: B 5 @ 101",
        "0 accepted 4: S 1 @ 101",
        "0 executed 1: 1 @ 101 A, 4 left",
        "0 executed 4: 1 @ 101 R, 0 left",
    ]
    assert engine.counters()["capacity_rejects"] == 1
    assert engine.state()["incomplete"] == 0
    sent(engine, add(2, "B", 5, 99))
    assert engine.counters()["capacity_rejects"] == 2
    assert engine.state()["incomplete"] == 1
    assert engine.displayed(2) is None
    sent(engine, delete(1))  # its level is free again
    assert sent(engine, enter(5, "B", 5, 102)) == ["0 accepted 5: B 5 @ 102"]
    engine.check_invariants()


def test_a_price_is_kept_when_its_last_order_goes() -> None:
    """But for the best price. Nobody sees that, and the next order there finds it."""
    engine = Engine(r.CONSUME)
    sent(engine, add(1, "B", 5, 100), add(2, "B", 5, 99), add(3, "B", 5, 98), delete(2))
    assert (engine.book()[0], kept(engine)) == ([(100, [(1, 5, False)]), (98, [(3, 5, False)])], 3)
    sent(engine, add(4, "B", 5, 99), delete(4), delete(1))
    assert (engine.book()[0], kept(engine)) == ([(98, [(3, 5, False)])], 1)
    engine.check_invariants()


def kept(engine: Engine) -> int:
    """How many prices stand in the ladder of the bids."""
    return int(engine.books.sides[0]["count"])


@pytest.mark.parametrize("step", [1, -1])
def test_prices_without_orders_do_not_pile_up(step: int) -> None:
    """A side that had orders at many prices and has few, the best and the worst, is not walked through all of them for
    ever, whether the better or the worse went first."""
    engine = Engine(r.CONSUME, orders=600)
    for n in range(600):
        engine.send(add(n + 1, "B", 5, 100 + n))
    for n in range(1, 599, 2):
        engine.send(delete(n + 1))
    for n in range(2, 599, 2)[::step]:
        engine.send(delete(n + 1))
        engine.check_invariants()
    assert [price for price, _ in engine.book()[0]] == [699, 100]
    assert kept(engine) <= 2 + books.MOST_EMPTY


def test_prices_without_orders_take_no_room_from_other_books() -> None:
    """Each of many books keeps all the prices that it may, until its best order goes. A ladder stays as large as it was
    then, and yet there is room for all."""
    instruments, sides = 100, (("B", -100), ("S", 100))
    engine = Engine(r.CONSUME, instruments=instruments, orders=1_000, levels=1_000)
    for instrument in range(instruments):
        for side, away in sides:
            best, worst, other = (10 * instrument + place + 5 * (side == "S") for place in (1, 2, 3))
            engine.send(add(best, side, 5, 1_000_000 + away, instrument=instrument))
            engine.send(add(worst, side, 5, 1_000_000 + 99 * away, instrument=instrument))
            for n in range(books.MOST_EMPTY):
                engine.send(add(other, side, 5, 1_000_000 + (n + 2) * away, instrument=instrument))
                engine.send(delete(other, instrument=instrument))
            engine.send(delete(best, instrument=instrument))
    assert engine.counters() == {}
    engine.check_invariants()


def test_prices_that_go_while_an_order_trades() -> None:
    """It meets two own orders below a recorded one that stays, and the price of the first is one too many to keep."""
    engine = Engine(r.PASSIVE, orders=300, accounts=({}, {}))
    sent(engine, add(1, "B", 5, 201), enter(1, "B", 5, 200), enter(2, "B", 5, 100), add(2, "B", 5, 99))
    most = books.MOST_EMPTY
    for n in range(3, 3 + most):
        engine.send(add(n, "B", 5, 98 + n))
    for n in range(3, 3 + most):
        engine.send(delete(n))
    assert kept(engine) == 4 + most
    assert [line for line in sent(engine, enter(1, "S", 50, 99, account=1, tif=IOC)) if line[0] == "1"] == [
        "1 accepted 1: S 50 @ 99",
        "1 executed 1: 5 @ 201 R, 45 left",
        "1 executed 1: 5 @ 200 R, 40 left",
        "1 executed 1: 5 @ 100 R, 35 left",
        "1 executed 1: 5 @ 99 R, 30 left",
        "1 canceled 1: 30 I",
    ]
    assert kept(engine) == 3
    engine.check_invariants()


def test_no_price_is_kept_where_levels_are_scarce() -> None:
    """Empty ones go while more than three quarters of all are in use."""
    engine = Engine(r.CONSUME, levels=40, orders=40)
    for n in range(40):
        engine.send(add(n + 1, "B", 5, 100 + n))
    for n in range(39):  # the best stays
        engine.send(delete(n + 1))
    assert kept(engine) == 30
    engine.check_invariants()


def test_a_new_feed_session_begins_without_any_price() -> None:
    engine = Engine(r.CONSUME)
    sent(engine, add(1, "B", 5, 100), add(2, "B", 5, 99), enter(1, "B", 5, 101), feed_reset())
    assert (engine.book()[0], kept(engine)) == ([(101, [(r.FIRST_OWN_REFERENCE, 5, True)])], 1)
    engine.check_invariants()


def test_every_level_can_be_used_whatever_was_before() -> None:
    """With orders at as many prices as there is room for, coming and going at random, none is ever refused."""
    room = 24
    pick = random.Random(1)
    naive, engine = Reference(r.CONSUME), Engine(r.CONSUME, levels=room, orders=room)
    live: dict[int, tuple[str, int]] = {}
    for reference in range(1, 2_000):
        if len(live) == room or (live and pick.random() < 0.45):
            gone = pick.choice(sorted(live))
            del live[gone]
            command = delete(gone)
        else:
            taken = set(live.values())
            live[reference] = pick.choice(
                [at for price in range(100, 140) for at in (("B", price), ("S", price + 60)) if at not in taken]
            )
            side, price = live[reference]
            command = add(reference, side, 5, price)
        naive.send(command)
        engine.send(command)
        assert engine.book() == naive.book()
        engine.check_invariants()
    assert engine.counters() == {}


@kernel
def where(table: r.Array, reference: int) -> int:
    return int(index.home(table, reference))


def test_references_chosen_to_collide() -> None:
    """A feed that somebody has made up so that all its references belong in one place: some find room, the others are
    counted, and nothing that has come before is lost."""
    engine = Engine(r.CONSUME)
    table = engine.books.references
    room = index.FARTHEST * (index.LINE - 1)
    chosen = [reference for reference in range(100_000) if where(table, reference) == 0][: room + 3]
    sent(engine, *(add(reference, "B", 5, 100) for reference in chosen))
    assert (engine.counters(), engine.state()["incomplete"]) == ({"capacity_rejects": 3}, 1)
    assert [engine.displayed(reference) for reference in chosen] == [5] * room + [None] * 3
    engine.check_invariants()
    sent(engine, *(delete(reference) for reference in chosen[:room]), add(chosen[-1], "B", 7, 101))
    assert engine.book() == ([(101, [(chosen[-1], 7, False)])], [])
    engine.check_invariants()


def test_numbers_that_are_too_far_apart() -> None:
    """A number whose place is taken by a live order much older than it is refused, not confused with it."""
    engine = Engine(r.MATCH, accounts=({}, {}), user_refs=4)
    sent(engine, enter(1, "B", 5, 100), enter(2, "B", 5, 100))
    assert sent(engine, enter(5, "B", 5, 100)) == ["0 rejected 5: PROCESSING_ERROR"]
    assert sent(engine, replace(2, 9, 6, 100)) == ["0 rejected 9: PROCESSING_ERROR"]
    assert engine.counters()["capacity_rejects"] == 2
    assert sent(engine, cancel(5), cancel(9)) == []
    assert sent(engine, enter(9, "B", 5, 100, account=1)) == ["1 accepted 9: B 5 @ 100"]
    sent(engine, cancel(1))
    assert sent(engine, enter(13, "B", 5, 100)) == ["0 accepted 13: B 5 @ 100"]
    engine.check_invariants()


def test_a_ladder_grows_with_its_prices() -> None:
    engine = Engine(r.CONSUME, orders=3000)
    prices = [100 * (1 + 7919 * n % 2000) + 10_000 for n in range(2000)]  # far apart and in no order
    for n, price in enumerate(prices):
        engine.send(add(n + 1, "S", 1, price))
    assert [price for price, _ in engine.book()[1]] == sorted(prices)
    engine.check_invariants()
    for n in range(2000):
        engine.send(delete(n + 1))
    assert engine.book() == ([], [])
    engine.check_invariants()


def test_no_room_to_show_another_own_order() -> None:
    """It trades like any other, and the next one that leaves makes room."""
    engine = Engine(r.MATCH, shown=2)
    sent(engine, enter(1, "B", 5, 100), enter(2, "B", 5, 101), enter(3, "B", 5, 102))
    assert [order[1] for order in engine.shown_orders()] == [1, 2]
    sent(engine, cancel(3, 4), cancel(1))
    assert [order[1] for order in engine.shown_orders()] == [2]
    sent(engine, enter(4, "B", 5, 103), enter(5, "S", 12, 101, tif=IOC))
    assert [(order[1], order[6]) for order in engine.shown_orders()] == [(2, 2)]
    assert engine.account()["open_orders"] == 1
    BooksView.check_invariants(engine)


def test_the_largest_order_of_a_feed_is_taken_in_part() -> None:
    engine = Engine(r.CONSUME)
    sent(engine, add(1, "S", 2**32 - 1, 100))
    assert sent(engine, enter(1, "B", 5, 100)) == ["0 accepted 1: B 5 @ 100", "0 executed 1: 5 @ 100 R, 0 left"]
    assert engine.book()[1] == [(100, [(1, 2**32 - 6, False)])]
    engine.check_invariants()
