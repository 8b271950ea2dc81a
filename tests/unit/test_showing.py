"""When the matching thread copies a book for those who look: at most 20 times a second, and only if there is news."""

from typing import Any

from commands import add, cancel, delete, enter, execute
from engine_under_test import Engine
from exchange import sent
from venue.engine import loop, showing
from venue.engine import records as r
from venue.engine.books import MOST_EMPTY, Books
from venue.engine.kernel import kernel
from venue.engine.live_records import DEPTH_LEVELS, DEPTH_ORDERS, PLACES
from venue.engine.showing import INTERVAL_NS, MAX_STEPS, NEVER, NEXT_NS, Showing

SERIAL = 1 << 16
START_NS = 1_000_000_000_000


@kernel
def refresh(b: Books, s: Showing, now_ns: int, most: int) -> int:
    return showing.refresh(b, s, now_ns, most)


class Look:
    """Wishes, a clock, and what was copied."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.now_ns = START_NS
        self.copies_by_itself(at_ns=NEVER)

    def copies_by_itself(self, at_ns: int) -> None:
        """When the matching thread looks at the wishes next; until then only :meth:`refresh` does."""
        self.engine.matcher.showing.state[NEXT_NS] = at_ns

    def wish(self, *wishes: int) -> None:
        self.engine.live.wishes[1 : 1 + len(wishes)] = wishes
        self.engine.live.wishes[0] = len(wishes)

    def refresh(self, most: int = PLACES) -> int | None:
        """In how many ns there is more; None: not before something happens."""
        at_ns = int(refresh(self.engine.books, self.engine.matcher.showing, self.now_ns, most))
        return None if at_ns == NEVER else at_ns - self.now_ns

    def versions(self, places: int = 1) -> list[int]:
        return [int(version) for version in self.engine.live.depths["version"][:places]]

    def head(self, place: int = 0) -> Any:
        return self.engine.live.depths[place]


def test_a_book_is_copied_when_it_is_wished_and_again_when_something_happened() -> None:
    look = Look(engine := Engine())
    assert look.refresh() is None
    assert look.versions() == [0]
    look.wish(0)
    assert look.refresh() is None
    assert look.versions() == [2]
    look.now_ns += INTERVAL_NS
    assert look.refresh() is None
    assert look.versions() == [2], "nothing happened"
    sent(engine, add(1, "B", 5, 100))
    assert look.refresh() is None
    assert (look.versions(), look.head()["bids"]) == ([4], 1)


def test_not_more_often_than_twenty_times_a_second() -> None:
    look = Look(engine := Engine())
    look.wish(0)
    look.refresh()
    sent(engine, add(1, "B", 5, 100))
    look.now_ns += 1
    assert look.refresh() == INTERVAL_NS - 1
    assert look.versions() == [2]
    look.now_ns += INTERVAL_NS - 1
    assert look.refresh() is None
    assert look.versions() == [4]


def test_a_busy_thread_copies_one_book_a_turn() -> None:
    look = Look(Engine(instruments=3))
    look.wish(0, 1, 2)
    assert look.refresh(most=1) == 0
    assert look.versions(3) == [2, 0, 0]
    assert look.refresh(most=1) == 0
    assert look.refresh(most=1) is None
    assert look.versions(3) == [2, 2, 2]
    assert [int(look.head(place)["instrument"]) for place in range(3)] == [0, 1, 2]


def test_a_new_wish_is_answered_at_once_even_for_the_same_book() -> None:
    look = Look(Engine())
    look.wish(1 * SERIAL)
    look.refresh()
    look.wish(2 * SERIAL)
    look.refresh()
    assert (look.versions(), int(look.head()["wish"])) == ([4], 2 * SERIAL)


def test_wishes_that_make_no_sense_are_ignored() -> None:
    look = Look(engine := Engine())
    look.wish(-1, 1, 0xFFFF, -(2**63), 2**63 - 1)
    assert look.refresh() is None
    for count in (-5, 2**40):
        engine.live.wishes[0] = count
        engine.live.wishes[1:] = -1
        assert look.refresh() is None
    assert look.versions(PLACES) == [0] * PLACES


def test_no_more_than_twenty_levels_and_the_best_ones() -> None:
    look = Look(engine := Engine())
    for n in range(30):
        sent(engine, add(n + 1, "B", 1, 100 + n), add(100 + n, "S", 1, 200 + n))
    look.wish(0)
    look.refresh()
    assert (look.head()["bids"], look.head()["asks"]) == (DEPTH_LEVELS, DEPTH_LEVELS)
    prices = engine.live.depth_levels["price"]
    assert prices[:DEPTH_LEVELS].tolist() == [129 - n for n in range(20)]
    assert prices[DEPTH_LEVELS : 2 * DEPTH_LEVELS].tolist() == [200 + n for n in range(20)]


def test_own_orders_far_from_the_touch_are_listed_and_more_than_64_are_counted() -> None:
    look = Look(engine := Engine())
    for n in range(70):
        sent(engine, enter(n + 1, "B", 1, 100 + n))
    look.wish(0)
    look.refresh()
    head, orders = look.head(), engine.live.depth_orders[:DEPTH_ORDERS]
    assert (head["own"], head["own_total"]) == (DEPTH_ORDERS, 70)
    assert orders["price"].tolist() == [169 - n for n in range(64)], "best price first"
    sent(engine, *[cancel(n + 1) for n in range(69)])
    look.now_ns += INTERVAL_NS
    look.refresh()
    assert (look.head()["own"], orders["price"][0]) == (1, 169)


def test_shares_ahead_are_those_before_it_in_the_queue() -> None:
    look = Look(engine := Engine())
    sent(engine, add(1, "S", 7, 100), add(2, "S", 5, 100), enter(1, "S", 3, 100), add(3, "S", 9, 100))
    look.wish(0)
    look.refresh()
    assert engine.live.depth_orders["queue_ahead"][0] == 12
    sent(engine, execute(1, 4))
    look.now_ns += INTERVAL_NS
    look.refresh()
    assert engine.live.depth_orders["queue_ahead"][0] == 8


def test_an_endless_queue_does_not_hold_the_matching_thread_up() -> None:
    engine = Engine(r.CONSUME, orders=MAX_STEPS + 100)
    for n in range(MAX_STEPS):
        engine.send(add(n + 1, "B", 1, 100))
    sent(engine, enter(1, "B", 1, 100), add(90_000, "S", 1, 200), enter(2, "S", 1, 200))
    look = Look(engine)
    look.wish(0)
    look.refresh()
    head = look.head()
    assert (head["bids"], head["asks"], head["own"], head["own_total"]) == (1, 1, 1, 2)
    assert engine.live.depth_orders["user_ref"][0] == 2, "the one on the other side"


def test_prices_whose_orders_have_gone_are_neither_shown_nor_looked_at() -> None:
    engine = Engine(r.CONSUME, orders=MAX_STEPS + 100, levels=2 * MAX_STEPS)
    for n in range(MAX_STEPS - 2):
        engine.send(add(n + 1, "B", 1, 1_000 + n))
    sent(engine, enter(1, "B", 7, 100))
    for n in range(MOST_EMPTY):
        sent(engine, add(90_000, "B", 1, 900 - n), delete(90_000))
    look = Look(engine)
    look.wish(0)
    look.refresh()
    assert (look.head()["own"], look.head()["own_total"]) == (1, 1)
    best = 1_000 + MAX_STEPS - 3
    sent(engine, delete(best - 1 - 999))
    look.now_ns += INTERVAL_NS
    look.refresh()
    assert engine.live.depth_levels["price"][:3].tolist() == [best, best - 2, best - 3]


def test_the_matching_thread_looks_at_the_wishes_by_itself() -> None:
    look = Look(engine := Engine())
    look.wish(0)
    look.copies_by_itself(at_ns=0)
    sent(engine, add(1, "B", 5, 100))
    assert look.versions() == [2]
    assert look.head()["bids"] == 1, "after the command was applied, which need not wait for it"


def test_a_thread_without_work_copies_one_book_at_a_time_and_looks_for_work_in_between() -> None:
    look = Look(engine := Engine(instruments=3))
    look.wish(0, 1, 2)
    seen = []
    for _ in range(3):
        loop.run(engine.matcher, 1)
        seen.append(look.versions(3))
    assert seen == [[2, 0, 0], [2, 2, 0], [2, 2, 2]]
