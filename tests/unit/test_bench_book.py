"""What `venue bench book` computes: the flow is what it says it is, and the books are those that it was made with."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from venue.bench import book, book_flow
from venue.bench.commands import app
from venue.engine.look_ahead import MANY
from venue.engine.records import Array
from venue.wire import itch
from venue_clients.generate import DayPlan, generate

pytestmark = pytest.mark.timeout(600)  # the first call compiles


def messages_of(data: Array, end: int) -> list[itch.ItchMessage]:
    """Every record, decoded by the wire layer."""
    raw, found, at = data[:end].tobytes(), [], 0
    while at < end:
        size = int.from_bytes(raw[at : at + 2], "big")
        found.append(itch.decode(raw[at + 2 : at + 2 + size]))
        at += 2 + size
    assert at == end
    return found


def test_the_flow_is_valid_itch_with_the_mix_of_a_real_day() -> None:
    data, end = book.made_up(40_000, 10, 500)
    messages = messages_of(data, end)
    assert len(messages) == 40_000
    share = {kind: sum(isinstance(m, kind) for m in messages) / len(messages) for kind in itch.MESSAGES.values()}
    assert 0.42 < share[itch.AddOrder] < 0.46
    assert 0.40 < share[itch.OrderDelete] < 0.45
    assert 0.07 < share[itch.OrderReplace] < 0.10
    assert 0.01 < share[itch.OrderExecuted] < 0.03
    assert 0 < share[itch.OrderCancel] < 0.02
    assert share[itch.AddOrderMpid] > 0
    assert share[itch.Trade] > 0
    times = [m.timestamp for m in messages]
    assert times == sorted(times)


@pytest.mark.parametrize(("symbols", "live"), [(20, 2_000), (200, 2 * MANY)])
def test_the_books_of_the_flow_are_those_that_it_was_made_with(symbols: int, live: int) -> None:
    """With few live orders, and with so many that the loop looks ahead."""
    flow = book_flow.create(symbols, live, seed=1)
    messages = 40_000 + 3 * live
    data = np.zeros(messages * book_flow.LARGEST, np.uint8)
    end = int(book_flow.make(flow, data, 0, messages, live))
    bench = book.Bench(len(flow.live), symbols)
    bench.know(symbols)
    bench.run(data, 0, end)
    bench.check()
    assert bench.messages == messages
    standing = int(flow.numbers[book_flow.LIVE])
    assert abs(standing - live) < live // 8
    assert levels_of(bench.books) == levels_of(flow.b)


def levels_of(b: book.books.Books) -> list[tuple[int, int, int, int]]:
    """Side, price, shares and orders of every level with orders of every book, from the worst price on."""
    found = []
    for side, row in enumerate(b.sides):
        block, count = int(row["block"]), int(row["count"])
        for word in b.ladders[block : block + count].tolist():
            level = b.levels[word & 0xFFFFFFFF]
            if int(level["count"]) > 0:
                found.append((side, int(level["price"]), int(level["shares"]), int(level["count"])))
    return found


def test_no_book_of_the_flow_is_ever_crossed() -> None:
    flow = book_flow.create(3, 200, seed=5)
    data = np.zeros(20 * book_flow.LARGEST, np.uint8)
    for _ in range(300):
        book_flow.make(flow, data, 0, 20, 200)
        for bids, asks in flow.b.sides.reshape(-1, 2):
            if bids["count"] and asks["count"]:
                assert int(bids["best"]) < -int(asks["best"])


@pytest.mark.parametrize("name", ["day.itch", "day.itch.gz"])
def test_a_file_is_read_whole(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    day = generate(path, DayPlan(messages=3_000, live=100))
    result = book.from_file(path, book.file_bytes(path), 1)
    assert result.messages == sum(day.counts.values()) == 3_000
    assert result.symbols == 8
    assert day.peak_live - 64 <= result.live_orders <= day.peak_live  # looked at between batches of 64


def test_what_is_no_itch_file_is_said_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "cut").write_bytes(b"\x00\x13D")
    (tmp_path / "bad.gz").write_bytes(gzip.compress(b"x")[:-4])
    for name in ("cut", "bad.gz", "absent"):
        with pytest.raises(book.BookFileError):
            book.from_file(tmp_path / name, book.file_bytes(tmp_path / name), 1)


def test_the_command_prints_one_json_object(tmp_path: Path) -> None:
    path = tmp_path / "day.itch"
    generate(path, DayPlan(messages=2_000, live=100))
    answer = json.loads(CliRunner().invoke(app, ["book", str(path), "--repeats", "1", "--json"]).stdout)
    assert answer["bench"] == "book"
    assert answer["whole"]["messages"] == 2_000
    assert answer["whole"]["ns_a_message"] > 0
