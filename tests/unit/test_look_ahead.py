"""Every command that is applied while the loop looks ahead has been looked at, once a step and in time.

A hint never changes a result, so no other test would see one missing: only a bench, in its figures.
"""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from commands import add
from engine_under_test import Engine
from venue.engine import books, look_ahead, loop, recorded
from venue.engine.kernel import JIT
from venue.engine.records import Array

pytestmark = pytest.mark.skipif(JIT, reason="compiled kernels have their functions in them")

LOOKED_AT = ["places", "order", "neighbours", "applied"]


class Steps:
    """An engine with short distances that notes what is done for each reference, in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.done: dict[int, list[str]] = {}
        self.turns: list[Callable[[], None]] = []
        self.engine = Engine(most_together=64)
        for name, value in (("MANY", 0), ("PLACES_AHEAD", 11), ("ORDERS_AHEAD", 7), ("NEIGHBOURS_AHEAD", 3)):
            monkeypatch.setattr(look_ahead, name, value)
        monkeypatch.setattr(loop, "BATCH", 8)
        for name in ("ask_for_places", "ask_for_order", "ask_for_neighbours"):
            monkeypatch.setattr(look_ahead, name, getattr(self, name))
        monkeypatch.setattr(recorded, "add", self.apply)
        monkeypatch.setattr(loop, "publish", self.publish)

    def note(self, step: str, reference: int) -> None:
        self.done.setdefault(reference, []).append(step)

    def ask_for_places(self, b: books.Books, command: Array) -> None:
        self.note("places", int(command["word0"]))

    def ask_for_order(self, b: books.Books, command: Array, hint: Array) -> None:
        hint["level"] = command["word0"]  # nothing but the next step reads it
        self.note("order", int(command["word0"]))

    def ask_for_neighbours(self, b: books.Books, hint: Array) -> None:
        self.note("neighbours", int(hint["level"]))

    def apply(self, b: books.Books, out: Any, command: Array) -> None:
        self.note("applied", int(command["word0"]))

    def publish(self, out: Any) -> None:
        """The end of a turn."""
        if self.turns:
            self.turns.pop(0)()

    def send(self, references: Sequence[int]) -> None:
        self.engine.publish(*(add(reference, "B", 100, 10_000) for reference in references))

    def run(self) -> None:
        loop.run(self.engine.matcher, 30)


@pytest.mark.parametrize("count", [4, 5, 7, 8, 9, 11, 12, 16, 17, 31, 64])
def test_each_step_is_taken_once_and_in_time(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = Steps(monkeypatch)
    steps.send(range(1, count + 1))
    steps.run()
    assert steps.done == dict.fromkeys(range(1, count + 1), LOOKED_AT)


@pytest.mark.parametrize("count", [1, 3])
def test_a_few_commands_are_not_worth_it(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = Steps(monkeypatch)
    steps.send(range(1, count + 1))
    steps.run()
    assert steps.done == {reference: ["applied"] for reference in range(1, count + 1)}


def test_commands_that_come_while_others_are_applied_are_looked_at_when_it_is_their_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps = Steps(monkeypatch)
    steps.turns = [lambda: steps.send(range(21, 31)), lambda: steps.send(range(31, 41))]
    steps.send(range(1, 21))
    steps.run()
    assert steps.done == dict.fromkeys(range(1, 41), LOOKED_AT)


def test_after_a_turn_that_was_not_worth_it_the_look_ahead_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first turn looks at commands of the second, which does not look ahead; those of the third are seen again."""
    steps = Steps(monkeypatch)
    worth = iter([True, False, True])
    monkeypatch.setattr(loop, "worth_it", lambda b, coming: next(worth))
    steps.send(range(1, 25))
    steps.run()
    assert all(steps.done[reference] == LOOKED_AT for reference in range(1, 9))
    assert all(steps.done[reference][-1] == "applied" for reference in range(9, 17))
    for reference in range(17, 25):
        assert steps.done[reference][-4:] == LOOKED_AT
