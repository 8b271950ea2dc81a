"""`venue bench feed` with tiny sizes: what was sent, what arrived, and how the highest rate is searched."""

from __future__ import annotations

import socket
from dataclasses import replace
from typing import Any

import orjson
import pytest

from venue.bench import feed, feed_traffic
from venue.bench.exchange import BenchError, serving
from venue.bench.feed import Sizes, arrive, bench_feed, exchange_received, one_run, search
from venue.bench.report import show, steps
from venue.engine.kernel import JIT
from venue.wire import itch, moldudp64

pytestmark = pytest.mark.skipif(not JIT, reason="the sender is compiled")

MESSAGES, STOCKS = 3_000, 5


@pytest.fixture(scope="module")
def day() -> feed_traffic.Prepared:
    return feed_traffic.prepare(MESSAGES, STOCKS)


def test_datagrams_are_filled_and_carry_the_day(day: feed_traffic.Prepared) -> None:
    ends = [*day.starts[1:].tolist(), len(day.arena)]
    packets = [
        moldudp64.decode_packet(day.arena[start:end].tobytes())
        for start, end in zip(day.starts.tolist(), ends, strict=True)
    ]
    messages = [message for packet in packets for message in packet.messages]
    assert len(messages) == day.messages == MESSAGES
    assert [len(packet.messages) for packet in packets] == day.counts.tolist()
    assert {type(itch.decode(bytes(message))).__name__ for message in messages} >= {"AddOrder", "OrderDelete"}
    sizes = [end - start for start, end in zip(day.starts.tolist(), ends, strict=True)]
    assert max(sizes) <= feed_traffic.DATAGRAM_BYTES
    assert min(sizes[:-1]) > feed_traffic.DATAGRAM_BYTES - 60  # the next message did not fit


def test_the_exchange_takes_all_that_is_sent(day: feed_traffic.Prepared) -> None:
    """Twice the day and a bit more, then another session: nothing is missing, unknown or there twice."""
    datagrams, rate = 2 * len(day.starts) + 3, 100_000
    messages = 2 * day.messages + int(day.counts[:3].sum())
    with serving("") as served, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as to:
        to.connect(served.addresses["feed"])
        received = exchange_received(served)
        for session in ("first", "second"):
            assert feed_traffic.send(day, to, session, rate, datagrams).messages == messages
            assert received(datagrams) == datagrams
        counted = served.counters()
        assert counted.feed["datagrams"][0] == 2 * datagrams
        assert counted.feed["messages"].sum() == 2 * messages
        for name in ("missing_messages", "gaps", "duplicates", "packets_malformed", "messages_malformed"):
            assert counted.feed[name][0] == 0, name
        for name in ("unknown_references", "duplicate_references", "over_executions", "incomplete_books"):
            assert counted.matcher[name][0] == 0, name
        assert counted.feed["sessions_started"][0] == 2


def test_the_bench(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A sender that is said not to keep up ends the search below any loss."""

    def run(*arguments: Any) -> feed.Outcome:
        outcome = one_run(*arguments)
        assert outcome.lost == 0
        return replace(outcome, messages_per_s=0.0 if outcome.rate >= 100_000 else float(outcome.rate))

    monkeypatch.setattr(feed, "one_run", run)
    report = bench_feed(Sizes(messages=10_000, first_rate=60_000, seconds=0.02, repeats=2))
    show("feed", report, {}, as_json=True)
    shown = orjson.loads(capsys.readouterr().out)
    assert set(shown) == {
        "bench", "conditions", "exchange", "bare", "messages", "datagrams", "receive_buffer_bytes",
    }  # fmt: skip
    for name in ("exchange", "bare"):
        part = shown[name]
        assert set(part) == {"messages_per_s", "datagrams_per_s", "lossless_runs", "runs"}
        assert part["lossless_runs"] == 2
        assert 100_000 / feed.CLOSE <= part["messages_per_s"] < 100_000
        assert [run["rate"] for run in part["runs"][:3]] == [60_000, 60_000, 90_000]
        assert set(part["runs"][0]) == {"rate", "messages_per_s", "datagrams_per_s", "sent", "lost"}
    assert shown["messages"] == 10_000


def scripted(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs that lose from ``limit`` messages/s on."""

    def run(day: object, to: object, received: object, rate: int, seconds: float, session: str) -> feed.Outcome:
        return feed.Outcome(rate, float(rate), rate / 40, 100, 7 if rate >= limit else 0)

    monkeypatch.setattr(feed, "one_run", run)


def found(day: feed_traffic.Prepared, sizes: Sizes) -> dict[str, object]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as to, steps(1) as progress:
        return search(day, to, lambda _: 0, sizes, progress, "scripted")


def test_the_search_comes_close_from_below(day: feed_traffic.Prepared, monkeypatch: pytest.MonkeyPatch) -> None:
    scripted(4_000_000, monkeypatch)
    result = found(day, Sizes())
    assert isinstance(result["messages_per_s"], float)
    assert 4_000_000 / feed.CLOSE <= result["messages_per_s"] < 4_000_000
    assert result["lossless_runs"] == Sizes().repeats


def test_loss_at_the_first_rate_is_an_error(day: feed_traffic.Prepared, monkeypatch: pytest.MonkeyPatch) -> None:
    scripted(1, monkeypatch)
    with pytest.raises(BenchError, match="7 of 100 datagrams lost at 1,000,000 messages/s already"):
        found(day, Sizes())


def test_what_does_not_come_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "ARRIVE_WITHIN_S", 0.02)
    counts = iter([3, 3, 4, 4, 5])
    assert arrive(lambda: next(counts, 5), 9) == 5
    assert arrive(lambda: 9, 9) == 9
