"""Stories of recorded flow and own orders in one book: what history does here, and what it no longer can."""

import pytest

from commands import (
    add,
    cancel,
    crossed,
    delete,
    enter,
    execute,
    feed_loss,
    feed_reset,
    hidden_trade,
    modify,
    reduce,
    replace,
    replace_recorded,
    trading_state,
)
from exchange import Exchange, NewExchange, sent
from venue.engine import records as r

B = r.FIRST_OWN_REFERENCE


@pytest.fixture
def book(fresh: NewExchange) -> Exchange:
    """Liquidity that own orders took stays taken."""
    return fresh(r.CONSUME, accounts=({}, {}))


# --- the feed alone -----------------------------------------------------------------------------------------------


def test_the_feeds_own_book_is_not_repaired(book: Exchange) -> None:
    """Before the open a bid may stand above an ask."""
    assert sent(book, add(1, "B", 10, 101), add(2, "S", 10, 100), add(3, "S", 5, 101)) == []
    assert book.book() == ([(101, [(1, 10, False)])], [(100, [(2, 10, False)]), (101, [(3, 5, False)])])
    assert book.counters() == {}
    assert book.state() == {"last_price": 0, "state": ord("T"), "incomplete": 0}


def test_hundreds_of_prices_of_both_sides_keep_their_levels_apart(book: Exchange) -> None:
    """More prices than are remembered without a search, every one on both sides; each level goes and comes again."""
    prices = range(1, 301)
    for turn in range(3):
        for price in prices:
            sent(book, add(4000 * turn + price, "B", 10, price), add(4000 * turn + 1000 + price, "S", 20, price))
        for price in reversed(prices):
            sent(book, add(4000 * turn + 2000 + price, "B", 30, price), delete(4000 * turn + price))
        assert book.book() == (
            [(price, [(4000 * turn + 2000 + price, 30, False)]) for price in reversed(prices)],
            [(price, [(4000 * turn + 1000 + price, 20, False)]) for price in prices],
        )
        for price in prices:
            sent(book, delete(4000 * turn + 1000 + price), delete(4000 * turn + 2000 + price))
        assert book.book() == ([], [])
    assert book.counters() == {}


def test_every_message_moves_the_book_as_it_says(book: Exchange) -> None:
    sent(book, add(1, "S", 100, 100), add(2, "S", 50, 100), add(3, "S", 70, 101))
    sent(book, reduce(1, 40), execute(1, 10))
    assert book.book()[1] == [(100, [(1, 50, False), (2, 50, False)]), (101, [(3, 70, False)])]
    sent(book, replace_recorded(1, 4, 80, 100))  # the side stays; the back of the queue
    assert book.book()[1] == [(100, [(2, 50, False), (4, 80, False)]), (101, [(3, 70, False)])]
    sent(book, delete(2), execute(4, 80))
    assert book.book() == ([], [(101, [(3, 70, False)])])
    assert [book.displayed(ref) for ref in (1, 2, 3, 4)] == [None, None, 70, None]
    assert book.counters() == {}
    book.check_invariants()


def test_the_last_price_follows_trades_of_all_kinds(book: Exchange) -> None:
    def last_price() -> int:
        return book.state()["last_price"]

    sent(book, add(1, "S", 100, 100))
    assert last_price() == 0
    sent(book, execute(1, 1))
    assert last_price() == 100
    sent(book, execute(1, 1, price=99))
    assert last_price() == 99
    sent(book, hidden_trade(5, 98))
    assert last_price() == 98
    sent(book, crossed(97), crossed(0))
    assert last_price() == 97
    sent(book, enter(1, "B", 1, 100))
    assert last_price() == 100
    sent(book, reduce(1, 1), delete(1), feed_reset())
    assert last_price() == 100


def test_an_unknown_reference_is_counted_and_its_book_is_incomplete(fresh: NewExchange) -> None:
    exchange = fresh(instruments=6)
    sent(exchange, enter(1, "S", 10, 100), add(1, "B", 5, 100, instrument=5))
    nonsense = [execute(8, 5, instrument=1), reduce(8, 5, instrument=2), delete(8, instrument=3)]
    nonsense += [
        replace_recorded(8, 9, 5, 100, instrument=4),
        execute(B, 5, price=7),
        delete(8, instrument=77),
    ]
    assert sent(exchange, *nonsense) == []
    assert exchange.counters() == {"orders_accepted": 1, "unknown_references": 6}
    assert [exchange.state(i)["incomplete"] for i in range(6)] == [1, 1, 1, 1, 1, 0]
    assert exchange.state()["last_price"] == 0
    assert exchange.displayed(9) is None  # what replaces an unknown order has an unknown side
    assert exchange.book(0) == ([], [(100, [(B, 10, True)])])


def test_a_known_reference_is_not_added_again(book: Exchange) -> None:
    sent(book, add(1, "B", 10, 100), add(1, "S", 99, 90), add(2, "B", 20, 100))
    assert book.book() == ([(100, [(1, 10, False), (2, 20, False)])], [])
    sent(book, replace_recorded(1, 2, 30, 100))  # history contradicts itself: the old one is gone for certain
    assert book.book() == ([(100, [(2, 20, False)])], [])
    sent(book, replace_recorded(2, 2, 30, 99))  # the same number again is fine
    assert book.book() == ([(99, [(2, 30, False)])], [])
    assert book.counters() == {"duplicate_references": 2}


def test_a_known_reference_begins_no_book_elsewhere(fresh: NewExchange) -> None:
    """Not even after a loss, when a book that begins is incomplete."""
    exchange = fresh(instruments=2)
    sent(exchange, add(1, "B", 10, 100), feed_loss(), add(1, "S", 5, 90, instrument=1))
    assert [exchange.state(i)["incomplete"] for i in range(2)] == [1, 0]
    assert exchange.counters() == {"duplicate_references": 1}


def test_more_than_there_is_leaves_nothing_and_never_less(book: Exchange) -> None:
    sent(book, add(1, "B", 10, 100), add(2, "B", 10, 100), add(3, "B", 10, 100))
    sent(book, execute(1, 14), reduce(2, 11), execute(3, 2**32 - 1))
    assert book.book() == ([], [])
    divergence = {"divergence_shares": 4 + 2**32 - 1 - 10, "divergence_events": 2}
    assert book.counters() == {"over_executions": 3} | divergence
    assert sent(book, delete(1)) == []
    assert book.counters()["unknown_references"] == 1
    book.check_invariants()


def test_an_execution_that_is_not_first_in_the_queue_is_applied_and_counted(book: Exchange) -> None:
    sent(book, add(1, "S", 10, 100), add(2, "S", 10, 100), add(3, "S", 10, 101))
    sent(book, execute(2, 4))
    assert book.counters() == {"out_of_order_executions": 1}
    sent(book, execute(3, 4))
    assert book.counters() == {"out_of_order_executions": 2}
    sent(book, execute(1, 4), delete(1), execute(2, 1))
    assert book.counters() == {"out_of_order_executions": 2}
    assert book.book()[1] == [(100, [(2, 5, False)]), (101, [(3, 6, False)])]


def test_an_order_without_shares_is_known_but_in_no_queue(book: Exchange) -> None:
    sent(book, add(1, "S", 0, 100))
    assert (book.book(), book.displayed(1)) == (([], []), 0)
    sent(book, replace_recorded(1, 2, 5, 100))
    assert book.book() == ([], [(100, [(2, 5, False)])])
    book.check_invariants()


def test_prices_of_the_feed_are_taken_as_they_are(book: Exchange) -> None:
    sent(book, add(1, "B", 5, 0), add(2, "S", 5, 2**31 - 1), add(3, "S", 5, 10_001), add(-1, "B", 5, 1))
    assert book.book() == (
        [(1, [(-1, 5, False)]), (0, [(1, 5, False)])],
        [(10_001, [(3, 5, False)]), (2**31 - 1, [(2, 5, False)])],
    )


def test_a_loss_marks_every_book_and_a_reset_forgets_the_recorded_orders(fresh: NewExchange) -> None:
    exchange = fresh(instruments=2)
    sent(exchange, add(1, "B", 5, 100), add(2, "B", 5, 100, instrument=1), enter(1, "B", 7, 100), feed_loss())
    assert [exchange.state(i)["incomplete"] for i in range(2)] == [1, 1]
    assert exchange.queue_ahead(0, 1) == 5
    sent(exchange, feed_reset())
    assert [exchange.state(i)["incomplete"] for i in range(2)] == [0, 0]
    assert exchange.book(0) == ([(100, [(B, 7, True)])], [])
    assert exchange.book(1) == ([], [])
    assert exchange.queue_ahead(0, 1) == 0
    exchange.check_invariants()
    sent(exchange, add(1, "B", 5, 100))
    assert exchange.book(0) == ([(100, [(B, 7, True), (1, 5, False)])], [])


def test_a_loss_also_concerns_books_that_begin_after_it(fresh: NewExchange) -> None:
    """Their first orders may be what was lost. A stock without any order has no book that could be incomplete."""
    exchange = fresh(instruments=3)
    sent(exchange, add(1, "B", 5, 100, instrument=1), feed_loss(), add(2, "B", 5, 100, instrument=2))
    assert [exchange.state(i)["incomplete"] for i in range(3)] == [0, 1, 1]


def test_an_unknown_order_of_an_unknown_stock_may_be_that_of_any_book_to_come(fresh: NewExchange) -> None:
    """Its message names no stock; the stock's own name comes with the first order that is added, too late for it."""
    exchange = fresh(instruments=3)
    sent(exchange, add(1, "B", 5, 100, instrument=1), delete(8, instrument=r.NO_INSTRUMENT))
    sent(exchange, add(2, "B", 5, 100, instrument=2))
    assert [exchange.state(i)["incomplete"] for i in range(3)] == [0, 0, 1]
    sent(exchange, feed_reset(), add(3, "B", 5, 100, instrument=2))
    assert exchange.state(2)["incomplete"] == 0


def test_a_reset_clears_a_book_of_which_only_unknown_orders_were_heard(fresh: NewExchange) -> None:
    exchange = fresh(instruments=2)
    sent(exchange, add(1, "B", 5, 100), execute(7, 1, instrument=1))
    assert exchange.state(1)["incomplete"] == 1
    sent(exchange, feed_reset())
    assert exchange.state(1)["incomplete"] == 0


# --- own orders take recorded ones --------------------------------------------------------------------------------


def test_an_own_order_takes_recorded_liquidity_and_it_stays_taken(book: Exchange) -> None:
    sent(book, add(1, "S", 200, 100))
    assert sent(book, enter(1, "B", 100, 100)) == [
        "0 accepted 1: B 100 @ 100",
        "0 executed 1: 100 @ 100 R, 0 left",
    ]
    assert (book.book()[1], book.displayed(1)) == ([(100, [(1, 100, False)])], 200)
    assert sent(book, execute(1, 200)) == []
    assert book.counters()["divergence_shares"] == 100
    assert book.counters()["divergence_events"] == 1
    assert "over_executions" not in book.counters()
    assert (book.book(), book.displayed(1)) == (([], []), None)
    book.check_invariants()


def test_a_recorded_replace_misses_what_was_taken(book: Exchange) -> None:
    sent(book, add(1, "S", 200, 100), enter(1, "B", 100, 100))
    sent(book, replace_recorded(1, 2, 300, 101))
    assert (book.book()[1], book.displayed(2)) == ([(101, [(2, 200, False)])], 300)
    sent(book, replace_recorded(2, 3, 100, 101))  # as much as was taken
    assert (book.book()[1], book.displayed(3)) == ([], 100)
    sent(book, replace_recorded(3, 4, 90, 101))
    assert (book.book()[1], book.displayed(4)) == ([], 90)
    sent(book, replace_recorded(4, 5, 300, 101))  # what was missing of 4 is 90
    assert (book.book()[1], book.displayed(5)) == ([(101, [(5, 210, False)])], 300)
    assert "divergence_events" not in book.counters()


@pytest.mark.parametrize("taken", [100, 200])
def test_the_delete_of_an_order_that_was_taken_is_counted(book: Exchange, taken: int) -> None:
    sent(book, add(1, "S", 200, 100), enter(1, "B", taken, 100))
    assert sent(book, delete(1)) == []
    assert book.book() == ([], [])
    assert book.counters()["divergence_events"] == 1
    assert "divergence_shares" not in book.counters()
    assert "unknown_references" not in book.counters()


def test_reductions_first_use_up_what_is_not_open(book: Exchange) -> None:
    sent(book, add(1, "S", 200, 100), add(2, "S", 5, 100), enter(1, "B", 150, 100))
    sent(book, reduce(1, 100))
    assert (book.book()[1], book.displayed(1)) == ([(100, [(1, 50, False), (2, 5, False)])], 100)
    sent(book, reduce(1, 60))
    assert (book.book()[1], book.displayed(1)) == ([(100, [(1, 40, False), (2, 5, False)])], 40)


def test_a_taken_order_is_still_known_and_later_executions_of_it_diverge(book: Exchange) -> None:
    sent(book, add(1, "S", 100, 100), enter(1, "B", 100, 100))
    assert (book.book(), book.displayed(1)) == (([], []), 100)
    sent(book, execute(1, 30), add(1, "S", 5, 100))
    assert book.displayed(1) == 70
    assert book.counters()["divergence_shares"] == 30
    assert book.counters()["duplicate_references"] == 1
    sent(book, execute(1, 71))
    assert book.displayed(1) is None
    assert book.counters()["divergence_shares"] == 101
    assert book.counters()["over_executions"] == 1


def test_an_order_that_was_taken_keeps_its_place_in_time(book: Exchange) -> None:
    """It has nothing open, so the aggressor meets own orders before it, and none behind it."""
    sent(book, enter(1, "S", 10, 100), add(1, "S", 20, 100))
    sent(book, enter(1, "B", 30, 100, account=1), enter(2, "S", 10, 100), enter(3, "S", 10, 99))
    assert sent(book, execute(1, 15)) == ["0 executed 3: 10 @ 99 A, 0 left"]
    assert book.counters()["divergence_shares"] == 5
    assert book.book()[1] == [(100, [(B + 2, 10, True)])]


def test_an_order_that_arrives_with_nothing_open_has_its_place_in_time_too(book: Exchange) -> None:
    """Own order 2 came after recorded order 1, and before the order that replaced it."""
    sent(book, add(1, "S", 20, 101), enter(1, "B", 20, 101), enter(2, "S", 10, 101))
    sent(book, *[add(n, "B", 1, 50) for n in range(10, 15)], *[delete(n) for n in range(10, 15)])
    sent(book, replace_recorded(1, 2, 20, 101), enter(3, "S", 10, 101))
    assert book.book()[1] == [(101, [(B + 1, 10, True), (B + 2, 10, True)])]
    assert sent(book, execute(2, 15)) == ["0 executed 2: 10 @ 101 A, 0 left"]
    assert book.counters()["divergence_shares"] == 5
    assert "out_of_order_executions" not in book.counters()


def test_an_order_that_was_taken_can_be_out_of_order_too(book: Exchange) -> None:
    sent(book, add(1, "S", 10, 100), enter(1, "B", 10, 100), add(2, "S", 10, 99), execute(1, 5))
    assert book.counters()["out_of_order_executions"] == 1
    assert book.counters()["divergence_shares"] == 5


# --- recorded orders meet own ones --------------------------------------------------------------------------------


def test_a_recorded_order_trades_with_the_own_orders_it_crosses(book: Exchange) -> None:
    sent(book, add(1, "S", 10, 100), enter(1, "S", 10, 101), enter(2, "S", 10, 100), enter(3, "S", 10, 102))
    assert sent(book, add(2, "B", 25, 101)) == [
        "0 executed 2: 10 @ 100 A, 0 left",
        "0 executed 1: 10 @ 101 A, 0 left",
    ]  # never with recorded ones, though better
    assert book.book() == (
        [(101, [(2, 5, False)])],
        [(100, [(1, 10, False)]), (102, [(B + 2, 10, True)])],
    )
    assert (book.displayed(2), book.state()["last_price"]) == (25, 101)
    assert sent(book, add(3, "B", 10, 102), add(4, "B", 7, 102)) == ["0 executed 3: 10 @ 102 A, 0 left"]
    assert book.book()[0] == [(102, [(4, 7, False)]), (101, [(2, 5, False)])]
    assert book.displayed(3) == 10
    assert book.counters()["fills"] == 3
    assert book.counters()["filled_shares"] == 30
    book.check_invariants()


def test_a_recorded_replace_trades_like_a_new_order(book: Exchange) -> None:
    sent(book, add(1, "B", 20, 90), enter(1, "S", 5, 90), enter(2, "S", 10, 100))
    assert book.displayed(1) == 20
    assert sent(book, replace_recorded(1, 2, 20, 100)) == ["0 executed 2: 10 @ 100 A, 0 left"]
    assert (book.book(), book.displayed(2)) == (([(100, [(2, 5, False)])], []), 20)


def test_an_execution_fills_own_orders_that_stand_before_it(book: Exchange) -> None:
    """Best price first, then the earlier ones at its own price; those behind it wait."""
    sent(book, enter(1, "S", 10, 100), add(1, "S", 50, 100), enter(2, "S", 10, 100), enter(3, "S", 10, 99))
    assert sent(book, execute(1, 35)) == [
        "0 executed 3: 10 @ 99 A, 0 left",
        "0 executed 1: 10 @ 100 A, 0 left",
    ]
    # 15 of 35 came from order 1; history shows 15 left of it, and that is all that can be open
    assert (book.book()[1], book.displayed(1)) == ([(100, [(1, 15, False), (B + 1, 10, True)])], 15)
    assert book.counters() == {
        "orders_accepted": 3,
        "fills": 2,
        "filled_shares": 20,
        "filled_notional": 1_990,
    }
    assert book.state()["last_price"] == 100


def test_an_execution_smaller_than_the_own_order_before_it(book: Exchange) -> None:
    sent(book, enter(1, "B", 100, 100), add(1, "B", 50, 100))
    assert sent(book, execute(1, 20)) == ["0 executed 1: 20 @ 100 A, 80 left"]
    assert (book.book()[0], book.displayed(1)) == ([(100, [(B, 80, True), (1, 30, False)])], 30)
    assert sent(book, execute(1, 30, price=98)) == ["0 executed 1: 30 @ 100 A, 50 left"]
    assert book.state()["last_price"] == 98
    assert "divergence_events" not in book.counters()
    assert book.position() == {"position": 50, "open_buy": 50, "open_sell": 0}


def test_own_orders_do_not_make_an_execution_out_of_order(book: Exchange) -> None:
    sent(book, enter(1, "S", 10, 99), enter(2, "S", 10, 100), add(1, "S", 50, 100), execute(1, 5))
    assert "out_of_order_executions" not in book.counters()


def test_a_trade_with_hidden_interest_reaches_own_orders_at_that_price_or_better(book: Exchange) -> None:
    sent(book, enter(1, "S", 10, 101), enter(2, "S", 10, 100), enter(3, "S", 10, 102), add(1, "S", 10, 99))
    assert sent(book, hidden_trade(15, 101)) == [
        "0 executed 2: 10 @ 100 A, 0 left",
        "0 executed 1: 5 @ 101 A, 5 left",
    ]
    assert book.state()["last_price"] == 101
    sent(book, enter(4, "B", 10, 97), enter(5, "B", 10, 98))
    assert sent(book, hidden_trade(15, 98)) == ["0 executed 5: 10 @ 98 A, 0 left"]
    assert sent(book, hidden_trade(15, 98), hidden_trade(0, 97), hidden_trade(3, 100)) == []
    assert book.book() == (
        [(97, [(B + 3, 10, True)])],
        [(99, [(1, 10, False)]), (101, [(B, 5, True)]), (102, [(B + 2, 10, True)])],
    )


def test_the_queue_ahead_is_known_at_all_times(book: Exchange) -> None:
    sent(book, add(1, "B", 1, 545_900), enter(1, "B", 3, 545_900), add(2, "B", 50, 545_900))
    assert book.queue_ahead(0, 1) == 1
    sent(book, reduce(2, 10), delete(2))
    assert book.queue_ahead(0, 1) == 1
    assert sent(book, enter(1, "S", 2, 545_900, account=1)) == [
        "1 accepted 1: S 2 @ 545900",
        "1 executed 1: 1 @ 545900 R, 1 left",
        "0 executed 1: 1 @ 545900 A, 2 left",
        "1 executed 1: 1 @ 545900 R, 0 left",
    ]
    assert book.queue_ahead(0, 1) == 0
    assert sent(book, hidden_trade(2, 545_900)) == ["0 executed 1: 2 @ 545900 A, 0 left"]
    assert book.queue_ahead(0, 1) is None


def test_someone_ahead_leaves_and_the_queue_is_shorter_by_exactly_that(book: Exchange) -> None:
    sent(
        book,
        add(1, "S", 5, 100),
        add(2, "S", 7, 100),
        enter(1, "S", 9, 100, account=1),
        enter(1, "S", 1, 100),
    )
    assert book.queue_ahead(0, 1) == 21
    sent(book, delete(1))
    assert book.queue_ahead(0, 1) == 16
    sent(book, cancel(1, 4, account=1), reduce(2, 3))
    assert book.queue_ahead(0, 1) == 8
    sent(book, modify(1, "S", 2, account=1), replace_recorded(2, 3, 7, 100))
    assert book.queue_ahead(0, 1) == 2
    sent(book, replace(1, 2, 50, 100, account=1))
    assert book.queue_ahead(0, 1) == 0


def test_history_goes_on_in_a_halt(book: Exchange) -> None:
    sent(book, enter(1, "S", 10, 100), trading_state("H"))
    assert sent(book, add(1, "B", 4, 100)) == ["0 executed 1: 4 @ 100 A, 6 left"]
    assert sent(book, enter(2, "B", 4, 100)) == ["0 rejected 2: HALTED"]


def test_a_reset_ends_every_halt(book: Exchange) -> None:
    sent(book, trading_state("H"), feed_reset())
    assert sent(book, enter(1, "B", 4, 100)) == ["0 accepted 1: B 4 @ 100"]
