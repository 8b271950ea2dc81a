"""A recorded day with scripted orders in it through the matching thread's kernel, reduced to what must not vary.

    python deterministic_day.py DAY [BATCH ...]

runs it once for each batch size, each time with everything new, and prints one line of JSON a run.
"""

from __future__ import annotations

import hashlib
import json
import random
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from commands import IOC, Command, cancel, day_event, enter, modify, query, replace
from engine_under_test import Engine
from feed_rig import read_itch
from oracle_streams import itch_command
from venue.engine import loop, ring
from venue.engine import records as r
from venue.wire import itch

ACCOUNTS = ({"self_match": r.CANCEL_NEWEST, "collar_bp": 2_000}, {"self_match": r.DECREMENT, "max_orders_per_s": 500})


class Outcome(NamedTuple):
    events: int
    fills: int
    event_bytes: str
    """SHA-256 of all event records, as they lie in the ring."""
    books: str
    """A hash over every book, account and position."""


def script(path: Path) -> list[Command]:
    """The day's commands, and after each third of them on average one of a client, at the same moment."""
    choose = random.Random(26)
    commands: list[Command] = [day_event("S", account=0), day_event("S", account=1)]
    instruments: dict[int, int] = {}
    last_price: dict[int, int] = {}
    numbers = [0, 0]
    for raw in read_itch(path):
        message = itch.decode(raw)
        instrument = instruments.setdefault(message.stock_locate, len(instruments))
        command = itch_command(message, instrument)
        if command is None:
            continue
        commands.append(command)
        if command.kind == r.ADD:
            last_price[instrument] = command.price
        if instrument in last_price and choose.random() < 0.33:
            commands.append(_order(choose, numbers, instrument, last_price[instrument], command.time_ns))
    return commands


def _order(choose: random.Random, numbers: list[int], instrument: int, price: int, time_ns: int) -> Command:
    account = choose.randrange(2)
    earlier = max(1, numbers[account] - choose.randrange(20))
    kind = choose.choice("EEEERCMQ")
    numbers[account] += kind in "ER"
    number, side = numbers[account], choose.choice("BS")
    price += 100 * choose.randrange(-8, 9)
    tif = choose.choice(["0", "0", IOC])
    match kind:
        case "E":
            made = enter(number, side, choose.randrange(1, 900), price, account=account, instrument=instrument, tif=tif)
        case "R":
            made = replace(earlier, number, choose.randrange(1, 900), price, account=account)
        case "C":
            made = cancel(earlier, choose.randrange(0, 400), account=account)
        case "M":
            made = modify(earlier, side, choose.randrange(1, 400), account=account)
        case _:
            made = query(account=account)
    return made._replace(time_ns=time_ns)


def run(commands: Sequence[Command], batch: int) -> Outcome:
    """All of it through a new engine, ``batch`` commands (at most 64) at a time."""
    engine = Engine(r.CONSUME, accounts=ACCOUNTS, instruments=400, orders=1 << 13)
    waiting = ring.create(64, r.COMMAND)
    matcher = engine.matcher._replace(commands=waiting)
    digest, events = hashlib.sha256(), 0
    for first in range(0, len(commands), batch):
        some = commands[first : first + batch]
        for ahead, command in enumerate(some):
            waiting.records[ring.write_position(waiting, ahead)] = command
        ring.publish(waiting, len(some), 0)
        loop.run(matcher, 1)
        for record in _published(engine.events):
            digest.update(record)
            events += 1
    engine.check_invariants()
    fills = engine.counters()["fills"]
    return Outcome(events, fills, digest.hexdigest(), f"{engine.state_hash():016x}")


def _published(events: ring.Ring) -> Iterator[bytes]:
    count = int(ring.available(events))
    for ahead in range(count):
        yield events.records[int(ring.read_position(events, ahead))].tobytes()
    ring.release(events, count)


if __name__ == "__main__":
    day = script(Path(sys.argv[1]))
    for batch in sys.argv[2:]:
        print(json.dumps(run(day, int(batch))))
