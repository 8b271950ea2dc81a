"""34 order sequences on which three independent matching engines agree, report line by report line."""

import hashlib
import json
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

from commands import DAY, IOC, cancel, enter
from exchange import EXCHANGES, Exchange, new_exchange
from shared import SHARED_DATA, needs_shared
from venue.bench import match as bench
from venue.engine import records as r

pytestmark = needs_shared

CASES: dict[str, Any] = (
    json.loads((SHARED_DATA / "matching" / "edge-cases.json").read_text()) if SHARED_DATA.is_dir() else {}
)
Message = tuple[int, int, int, int, int, int]
"""Type (0 new, 1 cancel, 2 modify), side (0 buy, 1 sell), immediate or cancel, quantity, order id, price."""


class OrderBook:
    """Reports as data/README.md of the cases describes them, from an exchange with one client."""

    def __init__(self, exchange: Exchange) -> None:
        self.exchange = exchange
        self.numbers: dict[int, int] = {}  # UserRefNum of each order id's latest order
        self.ids: dict[int, tuple[int, int, int]] = {}  # id, side and price of a UserRefNum

    def handle(self, sequence: int, message: Message) -> list[str]:
        kind, side, _, quantity, order_id, price = message
        if kind == 0:
            return [f"0,{sequence},{side},{order_id},{price},{quantity}", *self.enter(sequence, message)]
        canceled = self.exchange.send(cancel(self.numbers.get(order_id, 0)))
        if not canceled:
            return [f"{4 if kind == 1 else 5},{sequence},{order_id}"]
        if kind == 1:
            _, side, price = self.ids[self.numbers[order_id]]
            return [f"2,{sequence},{side},{order_id},{price}"]
        trades = self.enter(sequence, message)
        return [*trades, f"3,{sequence},{side},{order_id},{price},{quantity}"]

    def enter(self, sequence: int, message: Message) -> list[str]:
        """A new order; its trades, and the cancel of what an immediate one leaves."""
        _, side, ioc, quantity, order_id, price = message
        number = len(self.ids) + 1
        self.numbers[order_id] = number
        self.ids[number] = (order_id, side, price)
        accepted, *events = self.exchange.send(enter(number, "BS"[side], quantity, price, tif=IOC if ioc else DAY))
        assert accepted.kind == r.ACCEPTED
        reports = []
        for event in events:
            if event.kind == r.CANCELED:
                reports.append(f"2,{sequence},{side},{order_id},{price}")
            elif event.detail == ord("A"):
                maker = self.ids[event.user_ref][0]
                reports.append(f"1,{sequence},{event.price},{event.quantity},{maker},{order_id}")
        return reports


def through_exchange(name: str) -> Callable[[Iterable[Message]], list[str]]:
    def run(messages: Iterable[Message]) -> list[str]:
        book = OrderBook(new_exchange(name)(r.MATCH, orders=6_000))
        return [line for sequence, message in enumerate(messages) for line in book.handle(sequence, message)]

    return run


def through_bench(messages: Iterable[Message]) -> list[str]:
    """The driver of `venue bench match`, which handles the engine's book without accounts and events."""
    rows = [
        (kind, side, ioc, 0, quantity, sequence, order_id, price, 0)
        for sequence, (kind, side, ioc, quantity, order_id, price) in enumerate(messages)
    ]
    _, reports = bench.measure(np.array(rows, bench.MESSAGE), repeats=1)
    return bench.report_lines(reports)


RUNNERS: dict[str, Callable[[Iterable[Message]], list[str]]] = {
    **{name: through_exchange(name) for name in EXCHANGES},
    "bench": through_bench,
}


SWEEP = [(0, 1, 0, 1, order_id, 100) for order_id in range(1, 5001)] + [(0, 0, 0, 5000, 5001, 100)]
"""The case that the file only describes; the hash of its 10,001 reports is there."""


@pytest.mark.parametrize("runner", RUNNERS)
@pytest.mark.parametrize("case", CASES or [pytest.param("", marks=pytest.mark.skip(reason="no cases"))])
def test_matching_case(case: str, runner: str) -> None:
    expected = CASES[case]
    sweep = case == "deep_recursive_sweep_5000"
    reports = sorted_reports(RUNNERS[runner](SWEEP if sweep else map(tuple, expected["messages"])))
    assert sweep or reports == expected["reports"]
    assert hashlib.sha256("\n".join(reports).encode()).hexdigest()[:16] == expected["hash"]


def sorted_reports(lines: list[str]) -> list[str]:
    """Stably by sequence, then kind."""
    return sorted(lines, key=lambda line: (int(line.split(",")[1]), int(line[0])))
