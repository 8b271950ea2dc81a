"""Several matching threads: who gets which command, and in which order answers come."""

from __future__ import annotations

from commands import (
    add,
    cancel,
    day_event,
    delete,
    enter,
    execute,
    feed_loss,
    feed_reset,
    modify,
    query,
    reduce,
    replace,
    replace_recorded,
    trading_state,
)
from sharded_engine import Sharded
from venue.engine import records as r
from venue.engine import ring

SECOND_NS = 1_000_000_000


def numbers(sharded: Sharded, shard: int) -> list[int]:
    return [int(command["user_ref"]) for command in sharded.waiting(shard)]


# --- who gets a command -------------------------------------------------------------------------------------------


def test_each_instrument_has_its_thread() -> None:
    sharded = Sharded(shards=2, instruments=4)
    sharded.put(*[enter(1 + instrument, "B", 10, 10_000, instrument=instrument) for instrument in range(4)])
    sharded.put(add(8, "S", 5, 10_100, instrument=2), execute(8, 2, instrument=2), trading_state("H", instrument=3))
    sharded.turn()
    assert [(int(c["kind"]), int(c["instrument"])) for c in sharded.waiting(0)] == [
        (r.ENTER, 0), (r.ENTER, 2), (r.ADD, 2), (r.EXECUTE, 2)
    ]  # fmt: skip
    assert [(int(c["kind"]), int(c["instrument"])) for c in sharded.waiting(1)] == [
        (r.ENTER, 1), (r.ENTER, 3), (r.TRADING_STATE, 3)
    ]  # fmt: skip
    sharded.match()
    sharded.turn()
    assert [str(event) for event in sharded.hear()] == [
        "0 accepted 1: B 10 @ 10000",
        "0 accepted 3: B 10 @ 10000",
        "0 accepted 2: B 10 @ 10000",
        "0 accepted 4: B 10 @ 10000",
    ]
    assert [len(view.book(instrument)[0]) for instrument in range(4) for view in sharded.views] == [
        1, 0, 0, 1, 1, 0, 0, 1
    ]  # fmt: skip


def test_a_command_stands_on_a_threads_ring_as_it_came_and_with_its_time() -> None:
    sharded = Sharded(shards=3)
    order = enter(7, "S", 10, 10_000, instrument=1, words=(-3, 9))
    sharded.put(order)
    sharded.turn()
    [command] = sharded.waiting(1)
    assert command.tolist() == tuple(order)
    commands = sharded.matchers[1].commands
    assert commands.stamps_ns[ring.read_position(commands, 0)] == 5, "when it was put on the intake"


def test_a_symbol_that_is_not_traded_is_rejected_once() -> None:
    sharded = Sharded()
    assert sharded.sent(enter(1, "B", 10, 10_000, instrument=r.NO_INSTRUMENT)) == ["0 rejected 1: INVALID_SYMBOL"]
    assert sharded.total("open_orders") == 0


def test_cancel_modify_and_replace_find_the_thread_of_their_order() -> None:
    sharded = Sharded(shards=3)
    assert sharded.sent(
        enter(1, "S", 10, 10_000, instrument=2),
        enter(2, "B", 10, 9_900, instrument=1),
        modify(1, "T", 8),
        cancel(2, 4),
        replace(1, 3, 20, 10_100),
        cancel(3),
        cancel(2),
    ) == [
        "0 accepted 1: S 10 @ 10000",
        "0 accepted 2: B 10 @ 9900",
        "0 modified 1: T 8",
        "0 canceled 2: 6 U",
        "0 replaced 1 by 3: T 20 @ 10100",
        "0 canceled 3: 20 U",
        "0 canceled 2: 4 U",
    ]
    assert sharded.total("open_orders") == 0
    assert not sharded.sharding.places["user_ref"].any()
    assert not sharded.sharding.places["pending"].any()


def test_what_names_no_live_order_is_stale_once() -> None:
    sharded = Sharded(shards=3)
    sharded.sent(enter(1, "B", 10, 10_000, instrument=2), cancel(1))
    assert sharded.sent(cancel(1), modify(1, "B", 5), replace(1, 2, 5, 10_000), cancel(0), replace(0, 2, 5, 1)) == []
    assert sharded.counters() == {"orders_accepted": 1, "orders_canceled": 1, "ignored_stale": 5}
    assert sharded.sent(enter(2, "B", 1, 10_000)) == ["0 accepted 2: B 1 @ 10000"], "the number was not used up"


def test_a_whole_chain_in_one_chunk_stays_with_its_thread() -> None:
    """The client does not wait for answers: each command names a number that only the one before it takes."""
    sharded = Sharded(shards=2)
    sharded.put(
        enter(1, "B", 10, 10_000, instrument=1),
        replace(1, 2, 10, 9_900),
        replace(2, 3, 12, 9_800),
        modify(3, "B", 11),
        cancel(3, 5),
    )
    sharded.turn()
    assert (numbers(sharded, 0), numbers(sharded, 1)) == ([], [1, 2, 3, 3, 3])
    sharded.match()
    sharded.turn()
    assert [str(event) for event in sharded.hear()] == [
        "0 accepted 1: B 10 @ 10000",
        "0 replaced 1 by 2: B 10 @ 9900",
        "0 replaced 2 by 3: B 12 @ 9800",
        "0 modified 3: B 11",
        "0 canceled 3: 6 U",
    ]
    assert (sharded.total("open_orders"), sharded.total("last_user_ref")) == (1, 3)


# --- the feed -----------------------------------------------------------------------------------------------------


def test_what_concerns_the_feed_as_a_whole_goes_to_every_thread() -> None:
    sharded = Sharded(shards=2)
    sharded.sent(add(1, "B", 10, 10_000, instrument=0), add(2, "B", 10, 10_000, instrument=1), feed_loss()._replace(
        instrument=r.NO_INSTRUMENT
    ))  # fmt: skip
    assert [view.state(number)["incomplete"] for number, view in enumerate(sharded.views)] == [1, 1]
    sharded.sent(feed_reset()._replace(instrument=r.NO_INSTRUMENT))
    assert [view.state(number)["incomplete"] for number, view in enumerate(sharded.views)] == [0, 0]
    assert (sharded.book(0), sharded.book(1)) == (([], []), ([], []))


def test_a_reference_that_no_thread_knows_counts_once_and_flags_books_still_to_come_everywhere() -> None:
    sharded = Sharded(shards=3, instruments=6)
    sharded.sent(add(1, "B", 10, 10_000, instrument=1))
    sharded.sent(delete(99, instrument=r.NO_INSTRUMENT))
    assert sharded.counters() == {"unknown_references": 1}
    sharded.sent(*[add(10 + number, "B", 10, 10_000, instrument=number) for number in range(3, 6)])
    incomplete = [sharded.views[number % 3].state(number)["incomplete"] for number in (1, 3, 4, 5)]
    assert incomplete == [0, 1, 1, 1]


def test_without_a_stock_a_message_reaches_the_thread_that_knows_the_order() -> None:
    """A file with Stock Locate 0 throughout: books are right; that others know nothing of the order costs a flag."""
    sharded = Sharded(shards=2)
    nothing = {"instrument": r.NO_INSTRUMENT}
    sharded.sent(
        add(1, "B", 10, 10_000, instrument=1),
        execute(1, 3)._replace(**nothing),
        reduce(1, 2)._replace(**nothing),
        replace_recorded(1, 2, 8, 9_900)._replace(**nothing),
    )
    assert sharded.book(1) == ([(9_900, [(2, 8, False)])], [])
    sharded.sent(delete(2)._replace(**nothing))
    assert sharded.book(1) == ([], [])
    assert sharded.counters()["unknown_references"] == 4, "as seen by the first thread"


# --- one answer ---------------------------------------------------------------------------------------------------


def test_a_query_is_answered_once_after_all_that_came_before_it() -> None:
    sharded = Sharded(shards=3, accounts=[{}, {}])
    sharded.put(enter(1, "B", 10, 10_000, instrument=1), query(), enter(2, "B", 10, 10_000, instrument=0), query())
    sharded.put(query(account=1))
    sharded.turn()
    sharded.match(0)
    sharded.turn()
    assert [str(event) for event in sharded.hear()] == ["0 accepted 2: B 10 @ 10000"]
    sharded.match(2)
    sharded.turn()
    assert sharded.hear() == []
    sharded.match(1)
    sharded.turn()
    assert [str(event) for event in sharded.hear()] == [
        "0 accepted 1: B 10 @ 10000",
        "0 next number 2",
        "0 next number 3",
        "1 next number 1",
    ]


def test_the_day_begins_and_ends_once_and_last_of_all() -> None:
    sharded = Sharded(accounts=[{}, {}])
    sharded.put(day_event("S"), day_event("S", account=1))
    sharded.put(enter(1, "B", 10, 10_000, instrument=1), enter(2, "B", 10, 10_000, instrument=0), day_event("E"))
    sharded.turn()
    sharded.match(0)
    sharded.turn()
    assert [str(event) for event in sharded.hear()] == ["0 accepted 2: B 10 @ 10000"]
    sharded.match(1)
    sharded.turn()
    assert [str(event) for event in sharded.hear()] == [
        "0 system event S",
        "1 system event S",
        "0 accepted 1: B 10 @ 10000",
        "0 system event E",
    ]


# --- rings --------------------------------------------------------------------------------------------------------


def test_events_come_by_time_then_thread_and_each_threads_in_its_order() -> None:
    sharded = Sharded(shards=3, accounts=[{}, {}, {}])
    at = {0: [5, 9, 2], 1: [5, 5, 1], 2: [4, 7]}
    for instrument, times in at.items():
        orders = [
            enter(1 + number, "B", 1, 10_000, instrument=instrument, account=instrument, time_ns=time_ns)
            for number, time_ns in enumerate(times)
        ]
        sharded.put(*orders)
    sharded.turn()
    sharded.match()
    sharded.turn()
    heard = [(event.time_ns, event.account, event.user_ref) for event in sharded.hear()]
    assert heard == [(4, 2, 1), (5, 0, 1), (5, 1, 1), (5, 1, 2), (1, 1, 3), (7, 2, 2), (9, 0, 2), (2, 0, 3)]


def test_a_full_ring_of_a_thread_holds_back_what_follows_in_order_and_nothing_is_lost() -> None:
    sharded = Sharded(capacities=(64, 1 << 12))
    sharded.put(*[enter(1 + number, "B", 1, 10_000, instrument=0) for number in range(70)])
    sharded.put(enter(71, "B", 1, 10_000, instrument=1), query(), cancel(3))
    sharded.turn()
    assert (sharded.held, sharded.more) == (True, False)
    assert (len(sharded.waiting(0)), len(sharded.waiting(1)), ring.depth(sharded.intake)) == (64, 0, 9)
    sharded.turn()
    assert (len(sharded.waiting(0)), ring.depth(sharded.intake)) == (64, 9), "no room, nothing moves"
    sharded.match(0)
    sharded.turn()
    assert (sharded.held, sharded.more, ring.depth(sharded.intake)) == (False, False, 0)
    sharded.match()
    sharded.turn()
    heard = [str(event) for event in sharded.hear()]
    assert heard[:70] == [f"0 accepted {number}: B 1 @ 10000" for number in range(1, 71)]
    assert heard[70:] == ["0 canceled 3: 1 U", "0 accepted 71: B 1 @ 10000", "0 next number 72"]


def test_a_full_event_ring_holds_back_events_and_loses_none() -> None:
    sharded = Sharded(event_ring=16)
    sharded.put(*[enter(1 + number, "B", 1, 10_000, instrument=number % 2) for number in range(40)])
    sharded.turn()
    sharded.match()
    heard = []
    for _ in range(3):
        sharded.turn()
        heard.append((sharded.more, [event.user_ref for event in sharded.hear()]))
    assert [(more, len(told)) for more, told in heard] == [(True, 16), (True, 16), (False, 8)]
    told = [number for _, part in heard for number in part]
    assert sorted(told) == list(range(1, 41))
    assert [number for number in told if number % 2] == list(range(1, 41, 2))


def test_whoever_publishes_after_a_turn_wakes_the_loop_once() -> None:
    sharded = Sharded()
    sharded.turn()
    answers = [one.out.events for one in sharded.matchers]
    assert [ring.must_wake(one) for one in (sharded.intake, *answers)] == [True, True, True]
    assert [ring.must_wake(one) for one in (sharded.intake, *answers)] == [False, False, False], "once a sleep"
    sharded.turn()
    assert [ring.must_wake(one) for one in (sharded.intake, *answers)] == [True, True, True]


def test_nobody_waits_for_the_intake_to_be_emptied() -> None:
    """The router runs on the thread that would wait (:mod:`venue.engine.order_turn`)."""
    sharded = Sharded()
    sharded.turn()
    sharded.put(query())
    assert ring.must_wake(sharded.intake)
    assert ring.parked(sharded.intake)
    assert not ring.parked(sharded.matchers[0].commands), "with one thread it is worth it"


def test_commands_held_back_wait_for_the_clock_and_events_still_wake() -> None:
    sharded = Sharded(capacities=(64, 64))
    sharded.put(*[enter(1 + number, "B", 1, 10_000) for number in range(65)])
    sharded.turn()
    assert (sharded.held, sharded.more) == (True, False)
    assert not ring.must_wake(sharded.intake), "each new command would wake it for nothing"
    assert ring.must_wake(sharded.matchers[0].out.events)
