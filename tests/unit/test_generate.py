import gzip
import hashlib
import json
import os
from collections import Counter, defaultdict
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from venue.wire import itch
from venue_clients.capture import open_capture
from venue_clients.commands_replay import generate as generate_command
from venue_clients.generate import MAX_SECONDS, OPEN_NS, DayPlan, PlanError, SyntheticDay, generate, stock_names

PLAN = DayPlan(messages=60_000, seconds=30.0, seed=7, live=1_000)
REAL_MIX = {
    "A": 43.6, "D": 42.6, "U": 8.1, "E": 2.1, "I": 1.5, "X": 1.0, "F": 0.6, "P": 0.5, "L": 0.08, "C": 0.04,
}  # fmt: skip
"""Percent of the messages of 2019-12-30."""


@pytest.fixture(scope="module")
def day(tmp_path_factory) -> list[itch.ItchMessage]:
    path = tmp_path_factory.mktemp("day") / "day.itch"
    generate(path, PLAN)
    capture = open_capture(path)
    messages = [itch.decode(message) for message in capture.messages()]
    assert not capture.skipped
    return messages


class NaiveBook:
    """What a receiver would hold: every live order by its reference, in the order of time priority."""

    def __init__(self) -> None:
        self.orders: dict[int, list] = {}  # reference -> [locate, side, price, shares]; replaced orders go to the end

    def add(self, reference: int, locate: int, side: str, price: int, shares: int) -> None:
        assert reference not in self.orders
        assert shares > 0
        assert price % 100 == 0
        assert price >= 10_000
        self.orders[reference] = [locate, side, price, shares]

    def best(self, locate: int, side: str) -> int | None:
        prices = [order[2] for order in self.orders.values() if order[:2] == [locate, side]]
        return (max(prices) if side == "B" else min(prices)) if prices else None

    def oldest(self, locate: int, side: str, price: int) -> int:
        return next(reference for reference, order in self.orders.items() if order[:3] == [locate, side, price])

    def apply(self, m: itch.ItchMessage) -> None:
        match m:
            case itch.AddOrder() | itch.AddOrderMpid():
                self.add(m.order_reference_number, m.stock_locate, m.buy_sell_indicator, m.price, m.shares)
            case itch.OrderDelete():
                assert self.orders.pop(m.order_reference_number)[0] == m.stock_locate
            case itch.OrderReplace():
                locate, side, _, _ = self.orders.pop(m.original_order_reference_number)
                assert locate == m.stock_locate
                self.add(m.new_order_reference_number, locate, side, m.price, m.shares)
            case itch.OrderCancel():
                self.orders[m.order_reference_number][3] -= m.cancelled_shares
                assert m.cancelled_shares > 0
                assert self.orders[m.order_reference_number][3] > 0
            case itch.OrderExecuted() | itch.OrderExecutedWithPrice():
                order = self.orders[m.order_reference_number]
                assert order[2] == self.best(order[0], order[1]), "an execution hits the best price"
                assert self.oldest(*order[:3]) == m.order_reference_number, "and the oldest order there"
                if isinstance(m, itch.OrderExecutedWithPrice):
                    assert m.execution_price - order[2] == (100 if order[1] == "B" else -100), "improved by a tick"
                order[3] -= m.executed_shares
                assert m.executed_shares > 0
                assert order[3] >= 0
                if not order[3]:
                    del self.orders[m.order_reference_number]


def test_mix_is_that_of_the_real_day(day) -> None:
    counts = Counter(message.layout.code.decode() for message in day)
    assert len(day) == PLAN.messages
    for code, percent in REAL_MIX.items():
        expected = percent / 100 * len(day)
        chance = 3 * expected**0.5  # three standard deviations of a Poisson count
        assert counts[code] == pytest.approx(expected, abs=chance + 0.01 * expected), code
    assert set(counts) == set(REAL_MIX) | set("SRHYQ")


def test_day_begins_and_ends_as_a_day_does(day) -> None:
    stocks = len(PLAN.symbols)
    events = [(i, m.event_code, m.timestamp) for i, m in enumerate(day) if isinstance(m, itch.SystemEvent)]
    assert "".join(code for _, code, _ in events) == "OSQMEC"
    assert events[0][0] == 0
    assert events[-1][0] == len(day) - 1
    assert events[2][2] == OPEN_NS
    assert "".join(m.layout.code.decode() for m in day[1 : events[1][0]]) == "RHYL" * stocks
    assert [m.stock for m in day[1 : events[1][0] : 4]] == list(PLAN.symbols)
    assert day[-1].timestamp - day[0].timestamp == int(PLAN.seconds * 1e9)
    crosses = [(i, m.cross_type) for i, m in enumerate(day) if isinstance(m, itch.CrossTrade)]
    assert crosses == [(events[2][0] + 1 + i, "O") for i in range(stocks)] + [
        (events[3][0] + 1 + i, "C") for i in range(stocks)
    ]
    assert {type(m) for m in day[events[4][0] + 1 : -1]} == {itch.OrderDelete}


def test_books_are_consistent_all_day(day) -> None:
    book = NaiveBook()
    checked = 0
    for i, message in enumerate(day):
        book.apply(message)
        if i % 400 == 0:
            best: dict[int, dict[str, int]] = defaultdict(dict)
            for locate, side, price, _ in book.orders.values():
                worse = best[locate].get(side, price)
                best[locate][side] = max(worse, price) if side == "B" else min(worse, price)
            for sides in best.values():
                checked += len(sides) == 2
                assert sides.get("B", 0) < sides.get("S", 2**32), "never crossed, never locked"
    assert checked > 500
    assert book.orders == {}


def test_every_new_price_stays_on_its_side_of_the_touch() -> None:
    plan = DayPlan(symbols=("AAPL",), messages=6_000, seconds=10.0, seed=3, live=100)
    book, added = NaiveBook(), 0
    for message in decoded(plan):
        book.apply(message)
        if isinstance(message, itch.AddOrder | itch.AddOrderMpid | itch.OrderReplace):
            bid, ask = book.best(1, "B"), book.best(1, "S")
            added += 1
            assert bid is None or ask is None or bid < ask
    assert added > 2_000


def test_times_and_numbers_only_grow(day) -> None:
    assert all(a.timestamp <= b.timestamp for a, b in pairwise(day))
    references = [
        m.new_order_reference_number if isinstance(m, itch.OrderReplace) else m.order_reference_number
        for m in day
        if isinstance(m, itch.AddOrder | itch.AddOrderMpid | itch.OrderReplace)
    ]
    matches = [m.match_number for m in day if hasattr(m, "match_number")]
    assert all(a < b for a, b in pairwise(references))
    assert all(a < b for a, b in pairwise(matches))


def test_flow_is_spread_like_a_poisson_process(day) -> None:
    start = next(i for i, m in enumerate(day) if isinstance(m, itch.SystemEvent) and m.event_code == "Q")
    end = next(i for i, m in enumerate(day) if isinstance(m, itch.SystemEvent) and m.event_code == "M")
    gaps = [b.timestamp - a.timestamp for a, b in pairwise(day[start + 20 : end])]
    mean = sum(gaps) / len(gaps)
    deviation = (sum((gap - mean) ** 2 for gap in gaps) / len(gaps)) ** 0.5
    assert deviation == pytest.approx(mean, rel=0.1)  # exponential gaps: as wide as their mean


def test_live_orders_stay_near_the_target() -> None:
    made = SyntheticDay(PLAN)
    sizes = [len(made._orders) for _ in made.blocks()]
    assert PLAN.live <= made.peak_live < PLAN.live * 1.1
    assert min(sizes[3:-2]) > PLAN.live * 0.85
    assert made.counts.total() == PLAN.messages


def test_same_seed_same_bytes_other_seed_other_bytes(tmp_path) -> None:
    small = replace(PLAN, messages=5_000, live=200)
    for name, plan in (("a", small), ("b", small), ("c", replace(small, seed=8)), ("d.gz", small), ("e.gz", small)):
        generate(tmp_path / name, plan)
    a, b, c, d, e = (file.read_bytes() for file in sorted(tmp_path.iterdir()))
    assert a == b
    assert a != c
    assert d == e
    assert gzip.decompress(d) == a


def test_bytes_are_the_same_on_every_machine() -> None:
    """A change here changes every capture that people have generated: do it knowingly."""
    digest = hashlib.sha256(b"".join(SyntheticDay(DayPlan(messages=5_000, seconds=5.0, seed=1)).blocks()))
    assert digest.hexdigest() == "699db771bdbfb8f9b67f7edd3bd4ed54eb59255b84ce87019e2b542a4f273ea7"


@pytest.mark.parametrize(
    "plan",
    [
        DayPlan(symbols=("A",), messages=14, seconds=0.001, live=1),
        DayPlan(symbols=("A",), messages=15, seconds=MAX_SECONDS, live=1),
        DayPlan(symbols=stock_names(100), messages=10_000, seconds=1.0),
        DayPlan(symbols=("ONE",), messages=2_000, seconds=1.0, live=3),
    ],
)
def test_extreme_plans_still_give_whole_days(plan) -> None:
    book = NaiveBook()
    messages = decoded(plan)
    for message in messages:
        book.apply(message)
    assert len(messages) == plan.messages
    assert book.orders == {}
    assert all(a.timestamp <= b.timestamp < 86_400 * 10**9 for a, b in pairwise(messages))


@pytest.mark.parametrize(
    ("plan", "reason"),
    [
        (DayPlan(symbols=()), "1 to 65,535 symbols"),
        (DayPlan(symbols=("AAPL", "AAPL")), "only once"),
        (DayPlan(symbols=("TOOLONGNAME",)), "no symbol"),
        (DayPlan(symbols=("Ä",)), "no symbol"),
        (DayPlan(seconds=0), "market time"),
        (DayPlan(seconds=float("nan")), "market time"),
        (DayPlan(seconds=MAX_SECONDS + 1), "market time"),
        (DayPlan(messages=100), "too few"),
        (DayPlan(live=-1), "negative"),
    ],
)
def test_impossible_plans_say_why(plan, reason, tmp_path) -> None:
    with pytest.raises(PlanError, match=reason):
        generate(tmp_path / "day", plan)
    assert list(tmp_path.iterdir()) == []


def test_stock_names_begin_with_aapl_and_never_repeat() -> None:
    assert stock_names(2) == ("AAPL", "MSFT")
    many = stock_names(9_000)
    assert len(set(many)) == 9_000
    assert max(map(len, many)) <= 8


def test_command_writes_the_day_and_says_what_is_in_it(tmp_path) -> None:
    app = typer.Typer()
    app.command()(generate_command)
    out = tmp_path / "day.itch.gz"
    arguments = [str(out), "--symbols", "aapl,MSFT", "--messages", "3000", "--seed", "5", "--json"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    summary = json.loads(result.stdout)
    assert summary["messages"] == 3_000 == sum(1 for _ in open_capture(out).messages())
    assert summary["symbols"] == ["AAPL", "MSFT"]
    result = CliRunner().invoke(app, [str(out), "--messages", "10"])
    assert result.exit_code == 2
    assert result.stderr.startswith("venue generate: 10 messages are too few")
    assert result.stderr.count("\n") == 1
    result = CliRunner().invoke(app, [str(tmp_path / "no" / "folder")])
    assert result.exit_code == 2
    assert "No such file or directory" in result.stderr


def decoded(plan: DayPlan) -> list[itch.ItchMessage]:
    data = b"".join(SyntheticDay(plan).blocks())
    messages, at = [], 0
    while at < len(data):
        end = at + 2 + int.from_bytes(data[at : at + 2], "big")
        messages.append(itch.decode(data[at + 2 : end]))
        at = end
    return messages


def test_a_link_stays_a_link_and_what_is_no_file_is_refused(tmp_path: Path) -> None:
    plan = DayPlan(messages=1_000, seconds=1.0)
    target, link = tmp_path / "day.itch", tmp_path / "link.itch"
    link.symlink_to(target)
    generate(link, plan)
    assert link.is_symlink()
    assert target.stat().st_size > 0
    os.mkfifo(tmp_path / "pipe")
    for no_file in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(PlanError, match="no ordinary file"):
            generate(no_file, plan)
    assert {path.name for path in tmp_path.iterdir()} == {"day.itch", "link.itch", "pipe"}
