"""The same day with the same orders gives the same bytes and books: in any process, again, and however it is cut up."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import deterministic_day
from deterministic_day import Outcome
from shared import SHARED_DATA, needs_shared
from venue.engine import records as r
from venue_clients.generate import DayPlan, generate

PROGRAM = Path(deterministic_day.__file__)
REAL = SHARED_DATA / "itch" / "aapl-20200130-10k.itch"


@pytest.fixture(params=["made up", pytest.param("real", marks=needs_shared)])
def day(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    if request.param == "real":
        return REAL
    generate(tmp_path / "day.itch", DayPlan(("AAPL", "MSFT"), 8_000, seed=26))
    return tmp_path / "day.itch"


def outcomes(day: Path, hash_seed: str) -> list[Outcome]:
    """Of a process of its own: three times from the start, one command at a time, then in batches."""
    done = subprocess.run(
        [sys.executable, PROGRAM, day, "1", "64", "7"],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [Outcome(*json.loads(line)) for line in done.stdout.splitlines()]


def test_the_same_commands_give_the_same_bytes(day: Path) -> None:
    here = deterministic_day.run(deterministic_day.script(day), 64)
    first, second = outcomes(day, "1"), outcomes(day, "2")
    assert first == second == [here, here, here]
    assert here.fills > 200
    assert here.events > 2_000


def test_another_order_gives_other_bytes(day: Path) -> None:
    """That the comparison can fail: one share more, in one order out of thousands."""
    commands = deterministic_day.script(day)
    place = next(at for at, command in enumerate(commands) if at > len(commands) // 2 and command.kind == r.ENTER)
    changed = [*commands]
    changed[place] = commands[place]._replace(quantity=commands[place].quantity + 1)
    as_it_was, other = deterministic_day.run(commands, 64), deterministic_day.run(changed, 64)
    assert as_it_was.event_bytes != other.event_bytes
