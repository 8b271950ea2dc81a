"""`venue bench watched` with tiny sizes: who watched, and what was counted. Times are whatever they are."""

from __future__ import annotations

import numpy as np
import orjson
import pytest

from venue.bench.exchange import BenchError
from venue.bench.report import show
from venue.bench.watched import SIDES, Sizes, bench_watched, compare, of_histograms, of_samples, what_was_seen
from venue.engine import cells
from venue.engine.histogram import record
from venue.engine.kernel import JIT

TINY = Sizes(rate=200, blocks=1, block_s=1.2, pages=2)


@pytest.mark.skipif(not JIT, reason="the client is compiled")
def test_both_sides_are_measured_and_one_is_watched(capsys: pytest.CaptureFixture[str]) -> None:
    report = bench_watched(TINY)
    show("watched", report, {"cores": 2}, as_json=True)
    shown = orjson.loads(capsys.readouterr().out)
    assert shown == {"bench": "watched", "conditions": {"cores": 2}} | orjson.loads(orjson.dumps(report.figures))
    figures = report.figures
    assert (figures["rate"], figures["pages"], figures["blocks"], figures["orders"]) == (200, 2, 1, 240)
    for measured in (figures["order_to_ack_us"], figures["client_us"]):
        for side in SIDES:
            assert 0 < measured[side]["p50"] <= measured[side]["p99"] <= measured[side]["p99.9"]
            assert measured["block_p99"][side] == [measured[side]["p99"]], "of one block"
        assert measured["p99_difference"] == measured["watched"]["p99"] / measured["alone"]["p99"] - 1
    assert figures["scrapes"] >= 1
    assert figures["scrape_bytes"] > 10_000
    assert figures["updates_per_page_s"] > 0
    assert len(report.tables) == 2


def test_a_percentile_of_histograms_is_that_of_their_samples_within_a_cell() -> None:
    samples = np.random.default_rng(1).lognormal(10, 1, 20_000).astype(np.int64)
    blocks = []
    for part in np.split(samples, 4):
        blocks.append(np.zeros(cells.ROW, np.int64))
        for value in part:
            record(blocks[-1], int(value))
    for percent in (50.0, 99.0, 99.9):
        assert of_histograms(blocks, percent) == pytest.approx(of_samples([samples], percent), rel=1 / 32)


def test_blocks_that_are_alike_leave_no_room_for_a_difference_and_others_show_it() -> None:
    block = np.arange(1, 1_001, dtype=np.int64)
    assert compare([block] * 4, [block * 2] * 4, of_samples)["p99_difference_90"] == [1.0, 1.0]
    noisy = compare([block, block * 3], [block * 3, block], of_samples)
    assert noisy["p99_difference"] == 0
    low, high = noisy["p99_difference_90"]
    assert low < -0.5 < 0.5 < high


def test_watchers_that_saw_nothing_are_an_error() -> None:
    seen = {"seconds": 10.0, "scrapes": 10, "scraped_bytes": 1_000, "updates": 600}
    assert what_was_seen([seen], Sizes(), 0.5)["updates_per_page_s"] == 20
    for name in ("scrapes", "updates"):
        with pytest.raises(BenchError, match="saw nothing"):
            what_was_seen([seen | {name: 0}], Sizes(), 0.5)
