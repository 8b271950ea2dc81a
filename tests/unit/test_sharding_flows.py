"""Random flows over several matching threads: the same again and again, and the same as with one thread."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

import random_flow
from commands import Command
from engine_under_test import Engine
from exchange import Event, Limits
from sharded_engine import Sharded, put, taken
from venue.engine import loop, ring
from venue.engine import records as r

COMMANDS = 4_000
INSTRUMENTS = 6
REFERENCES = 1 << 20
ACCOUNT_WIDE = ("max_open_orders", "max_orders_per_s")
TO_ALL = (r.CANCEL_ALL, r.SET_KILL_SWITCH)


def limits(choose: random.Random) -> list[Limits]:
    """Those that a single order or instrument is held against."""
    every = [{name: value for name, value in one.items() if name not in ACCOUNT_WIDE} for one in random_flow.LIMITS]
    return choose.sample(every, random_flow.ACCOUNTS)


def flow(seed: int, count: int = COMMANDS) -> Iterator[Command]:
    """Commands as decoders make them of an honest feed: a message is of the instrument of the order that it names."""
    choose = random.Random(seed)
    clock_ns = 0
    last = [0] * random_flow.ACCOUNTS
    made = 0
    while made < count:
        command = random_flow.any_command(choose.choice)
        instrument = choose.randrange(INSTRUMENTS)
        if command.kind < r.ENTER:
            if not (0 < command.word0 < 8 and 0 < command.word1 < 8):
                continue
            whole = command.kind in (r.FEED_LOSS, r.FEED_RESET, r.FEED_EVENT)
            command = command._replace(
                word0=command.word0 + REFERENCES * instrument,
                word1=command.word1 + REFERENCES * instrument,
                instrument=r.NO_INSTRUMENT if whole else instrument,
            )
        else:
            if command.instrument != r.NO_INSTRUMENT:
                command = command._replace(instrument=instrument)
            if command.kind == r.QUERY:
                command = command._replace(user_ref=0)
        command = random_flow.resolve(command, clock_ns, last[command.account])
        clock_ns = command.time_ns
        if command.kind in (r.ENTER, r.REPLACE):
            last[command.account] = max(last[command.account], command.user_ref)
        made += 1
        yield command


def told(events: list[Event], kind: int) -> list[Event]:
    """Without order references and match numbers; what several threads do at the same time in one order."""
    plain = [event._replace(reference=0) for event in events]
    return sorted(plain) if kind in TO_ALL else plain


@pytest.mark.parametrize("mode", [r.MATCH, r.CONSUME, r.PASSIVE])
@pytest.mark.parametrize("shards", [2, 3])
def test_without_limits_over_instruments_they_do_what_one_thread_does(shards: int, mode: int) -> None:
    accounts = limits(random.Random(shards))
    one = Engine(mode, accounts, INSTRUMENTS, 2_000)
    several = Sharded(shards, mode, accounts, INSTRUMENTS, 2_000)
    count = 0
    for command in flow(10 * shards + mode):
        expected = told(one.send(command), command.kind)
        assert told(several.send(command), command.kind) == expected, command
        count += len(expected)
    assert count > COMMANDS / 4
    for instrument in range(INSTRUMENTS):
        assert unnumbered(several.book(instrument)) == unnumbered(one.book(instrument))
        view = several.views[instrument % shards]
        assert view.state(instrument) == one.state(instrument)
        for account in range(len(accounts)):
            assert view.position(account, instrument) == one.position(account, instrument)
    for account in range(len(accounts)):
        for name in ("open_orders", "open_shares", "open_notional"):
            assert sum(view.account(account)[name] for view in several.views) == one.account(account)[name]
        assert several.total("open_orders", account) == one.account(account)["open_orders"]
        assert several.total("last_user_ref", account) == one.account(account)["last_user_ref"]
    assert several.counters() == one.counters()
    for view in several.views:
        view.check_invariants()


def unnumbered(book: object) -> object:
    """Own orders' references are each thread's own."""
    bids, asks = book  # type: ignore[misc]
    return [
        [(price, [(0 if own else reference, open_, own) for reference, open_, own in queue]) for price, queue in side]
        for side in (bids, asks)
    ]


# --- determinism --------------------------------------------------------------------------------------------------

Fields = tuple[int, ...]
LIMITED: list[Limits] = [{"max_open_orders": 6}, {"max_orders_per_s": 40, "collar_bp": 300}, {"self_match": 3}]


def run(seed: int, steps: int) -> tuple[list[list[Fields]], list[list[Command]], list[Fields]]:
    """In chunks of random sizes, with threads that are slow at times: what each thread was asked and said, and what
    clients heard. ``steps`` decides about chunks and pauses."""
    several, choose = Sharded(2, r.CONSUME, LIMITED, INSTRUMENTS, 2_000, capacities=(64, 1 << 12)), random.Random(steps)
    commands = list(flow(seed))
    asked: list[list[Command]] = [[], []]
    said: list[list[Fields]] = [[], []]
    heard: list[Fields] = []
    while commands or ring.depth(several.intake) or any(ring.depth(one.commands) for one in several.matchers):
        chunk = [commands.pop(0) for _ in range(min(choose.randrange(90), len(commands)))]
        several.put(*chunk)
        several.turn()
        for shard, one in enumerate(several.matchers):
            if choose.random() < 0.7:
                asked[shard] += [Command(*row.tolist()) for row in several.waiting(shard)]
                first = ring.depth(one.out.events)
                several.match(shard)
                events = one.out.events
                places = [ring.read_position(events, at) for at in range(first, ring.depth(events))]
                said[shard] += [events.records[place].tolist() for place in places]
        several.turn()
        heard += [record.tolist() for record in taken(several.events)]
    for view in several.views:
        view.check_invariants()
    return said, asked, heard


def test_the_same_flow_in_the_same_steps_gives_the_same_events() -> None:
    first, again = run(5, steps=1), run(5, steps=1)
    assert first == again
    said, asked, heard = first
    assert min(map(len, asked)) > COMMANDS / 4
    assert min(map(len, said)) > COMMANDS / 8
    other = run(5, steps=2)
    assert other[2] != heard, "other steps, another merge"


@pytest.mark.parametrize("steps", [1, 2])
def test_what_a_thread_says_depends_on_its_commands_alone(steps: int) -> None:
    """However they came: the same commands in one go give the same events, field for field."""
    said, asked, _ = run(6, steps)
    alone = Sharded(2, r.CONSUME, LIMITED, INSTRUMENTS, 2_000, capacities=(1 << 13, 1 << 13))
    for shard, one in enumerate(alone.matchers):
        put(one.commands, asked[shard])
        while ring.depth(one.commands):
            loop.run(one, 1)
        assert [record.tolist() for record in taken(one.out.events)] == said[shard]


def test_limits_of_the_whole_account_are_never_passed() -> None:
    """Whatever the steps: all threads together never hold more open orders than allowed."""
    several, choose = Sharded(3, r.MATCH, [{"max_open_orders": 5}], INSTRUMENTS, 2_000), random.Random(9)
    commands = [command._replace(account=0) for command in flow(7) if command.kind in (r.ENTER, r.CANCEL, r.REPLACE)]
    rejected = most = 0
    for number, command in enumerate(commands):
        changed = command._replace(user_ref=number + 1) if command.kind != r.CANCEL else command
        several.put(changed)
        if choose.random() < 0.4:
            several.turn()
            several.match(*choose.sample(range(3), 2))
        several.turn()
        rejected += sum(event.kind == r.REJECTED and event.detail == 0x1E for event in several.hear())
        most = max(most, sum(view.account(0)["open_orders"] for view in several.views))
        assert most <= 5
    assert most == 5
    assert rejected > 100
