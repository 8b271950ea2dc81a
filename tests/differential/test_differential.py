"""The compiled engine against the naive exchange: the same commands, the same events, the same books, each step."""

import os
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commands import Command
from engine_under_test import Engine
from exchange import Exchange
from ledger import Ledger, check_tape
from random_flow import ACCOUNTS, INSTRUMENTS, ODD_REFERENCES, REFERENCES, any_command, resolve, setting
from reference import Reference
from venue.engine import books, look_ahead, loop
from venue.engine import records as r
from venue.engine.kernel import JIT

LONG_RUNS = {"quick": (2, 300), "default": (12, 1500), "long": (300, 5000)}
SEEDS, STEPS = LONG_RUNS[os.environ.get("VENUE_TEST_PROFILE", "default")]
"""Seeded runs, and commands in each, by the profile of conftest.py."""


def seen(exchange: Exchange) -> dict[str, Any]:
    """All that can be seen of books and accounts."""
    return {
        "books": [exchange.book(i) for i in range(INSTRUMENTS)],
        "states": [exchange.state(i) for i in range(INSTRUMENTS)],
        "accounts": [exchange.account(a) for a in range(ACCOUNTS)],
        "positions": [exchange.position(a, i) for a in range(ACCOUNTS) for i in range(INSTRUMENTS)],
        "counters": exchange.counters(),
    }


class Pair:
    """Both exchanges, in step, and what the clients make of it."""

    def __init__(self, setting: dict[str, Any]) -> None:
        self.naive, self.compiled = Reference(**setting), Engine(**setting)
        self.ledger = Ledger()
        self.clock_ns = 0
        self.printed = 0

    def send(self, relative: Command) -> None:
        last_user_ref = self.naive.accounts[relative.account].last_user_ref
        command = resolve(relative, self.clock_ns, last_user_ref)
        self.clock_ns = command.time_ns
        expected = self.naive.send(command)
        assert self.compiled.send(command) == expected, command
        assert seen(self.compiled) == seen(self.naive), command
        self.ledger.hear(expected)
        prints = self.naive.tape(self.printed)
        assert self.compiled.tape(self.printed) == prints, command
        check_tape(prints, expected)
        self.printed += len(prints)

    def check(self) -> None:
        """Costs more than a command does."""
        self.naive.check_invariants()
        self.compiled.check_invariants()
        self.ledger.agrees_with(self.compiled, ACCOUNTS, INSTRUMENTS)
        for reference in REFERENCES + ODD_REFERENCES:
            assert self.compiled.displayed(reference) == self.naive.displayed(reference)
        for account, user_ref in self.ledger.orders:
            assert self.compiled.queue_ahead(account, user_ref) == self.naive.queue_ahead(account, user_ref)


settings_ = st.composite(lambda draw: setting(lambda choices: draw(st.sampled_from(choices))))
with_feed = st.composite(lambda draw: any_command(lambda choices: draw(st.sampled_from(choices))))
without_feed = st.composite(lambda draw: any_command(lambda choices: draw(st.sampled_from(choices)), recorded=False))


@given(st.data(), settings_())
def test_any_short_story_is_told_the_same_way(data: st.DataObject, setting: dict[str, Any]) -> None:
    pair = Pair(setting)
    commands = without_feed() if setting["mode"] == r.MATCH else with_feed()
    for command in data.draw(st.lists(commands, max_size=60)):
        pair.send(command)
        pair.check()


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_long_day_is_told_the_same_way(seed: int) -> None:
    pick = random.Random(seed).choice
    made = setting(pick)
    pair = Pair(made)
    for step in range(STEPS):
        pair.send(any_command(pick, recorded=made["mode"] != r.MATCH))
        if step % 20 == 0:
            pair.check()
    pair.check()


@pytest.mark.skipif(JIT, reason="compiled kernels have the constant in them")
@pytest.mark.parametrize("seed", range(SEEDS))
def test_commands_that_were_looked_at_ahead_are_told_the_same_way(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The look-ahead says where things stand some commands before one, and those between may change it. Here it looks
    into the next batch, too, with just as many hints as it needs; half of the days it is not always worth it; and
    ladders keep hardly any level without orders."""
    monkeypatch.setattr(look_ahead, "MANY", 12 * (seed % 2))
    monkeypatch.setattr(loop, "HINTS", 8)
    monkeypatch.setattr(look_ahead, "PLACES_AHEAD", 11)
    monkeypatch.setattr(look_ahead, "ORDERS_AHEAD", 7)
    monkeypatch.setattr(look_ahead, "NEIGHBOURS_AHEAD", 3)
    monkeypatch.setattr(loop, "BATCH", 8)
    pick = random.Random(seed).choice
    made = setting(pick) | {"mode": r.CONSUME}
    naive, engine = Reference(**made), Engine(**made, most_together=32)
    monkeypatch.setattr(books, "MOST_EMPTY", 1)  # only now: it says how much room ladders need
    clock_ns = 0
    for _ in range(STEPS // 10):
        batch, expected = [], []
        for _ in range(pick(range(1, 33))):
            relative = any_command(pick)
            batch.append(resolve(relative, clock_ns, naive.accounts[relative.account].last_user_ref))
            clock_ns = batch[-1].time_ns
            expected += naive.send(batch[-1])
        assert engine.send_together(*batch) == expected
        assert seen(engine) == seen(naive)
        engine.check_invariants()


def test_the_same_commands_give_the_same_state_in_another_engine() -> None:
    def day() -> list[int]:
        pick = random.Random(5).choice
        pair = Pair(setting(pick) | {"mode": r.CONSUME})
        hashes = []
        for _ in range(300):
            pair.send(any_command(pick))
            hashes.append(pair.compiled.state_hash())
        return hashes

    first = day()
    assert len(set(first)) > 100  # the hash sees what happens
    assert day() == first
