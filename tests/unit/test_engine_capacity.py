"""Room that only the compiled engine can run out of: each time a typed answer and a counter, never a crash."""

from commands import IOC, add, cancel, delete, enter, replace
from engine_under_test import BooksView, Engine
from exchange import sent
from venue.engine import index
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
