"""`venue bench pipeline`: every row does the same work, and the work is what it says."""

import numpy as np
import orjson
import pytest

from venue.bench import maker, pipeline, pipeline_workload
from venue.bench import pipeline_stages as stages
from venue.bench.maker import UPDATE, Exchange
from venue.bench.pipeline import DifferentOutcomeError, Row
from venue.bench.pipeline_stages import ROOM
from venue.bench.pipeline_workload import Workload
from venue.bench.report import conditions, show
from venue.engine import records, ring
from venue.engine.feed_codec import Decoder
from venue.engine.kernel import kernel
from venue.engine.records import Array, aligned
from venue.engine.reference import reference
from venue.wire import itch

MESSAGES = 3_000

NOTHING = np.zeros(0, np.int64)
WORKLOAD_OF_NOTHING = Workload(NOTHING, NOTHING, NOTHING, NOTHING, live=1)

pytestmark = pytest.mark.timeout(600)  # the first test compiles the stages


@kernel
def take_own_of(decoder: Decoder, data: Array, end: int, own: Array) -> int:
    return stages.take_own(decoder, data, 0, end, own)


@pytest.fixture(scope="module")
def load() -> Workload:
    return pipeline_workload.create(MESSAGES)


@pytest.mark.parametrize("row", pipeline.ROWS, ids=lambda row: row.name)
def test_every_row_ends_with_the_same_books_quotes_and_fills(load: Workload, row: Row) -> None:
    _, inline = pipeline.run(load, pipeline.ROWS[0])
    elapsed_ns, outcome = pipeline.run(load, row)
    assert outcome == inline
    assert elapsed_ns > 0
    assert outcome.events == load.events()
    assert MESSAGES * 0.95 < outcome.events <= MESSAGES
    assert outcome.fills > 0
    assert outcome.rejected == 0


def test_the_market_is_that_of_the_input(load: Workload) -> None:
    made, parts = pipeline.whole_stages(load, pipeline.ROWS[0])
    made[0](np.zeros(2, np.int64))
    _, market, exchange = parts[0]
    counters = market.matcher.books.counters[0]
    assert counters["unknown_references"] == counters["duplicate_references"] == counters["over_executions"] == 0
    assert counters["out_of_order_executions"] == counters["incomplete_books"] == 0
    assert market.decoder.counters["messages"].sum() == MESSAGES
    assert market.decoder.counters["messages_malformed"] == market.decoder.counters["unknown_types"] == 0
    assert exchange.books.counters[0]["self_matches_prevented"] == 0
    for instrument in range(pipeline_workload.INSTRUMENTS):
        seen = exchange.makers[instrument]
        for side, name in ((records.BUY, "bid"), (records.SELL, "ask")):
            price, _, shares = pipeline_workload.ladder(market.matcher.books, instrument, side)[-1]
            assert (seen[name], seen[f"{name}_shares"]) == (price, shares)
            standing = exchange.quotes[2 * instrument + side]
            quoted = pipeline_workload.ladder(exchange.books, instrument, side)
            assert [level[0] for level in quoted] == ([standing["price"]] if standing["user_ref"] else [])


def test_a_shard_reads_the_messages_of_its_own_instruments_and_no_others(load: Workload) -> None:
    made, parts = pipeline.whole_stages(load, pipeline.ROWS[-1])
    for stage, (instruments, market, _) in zip(made, parts, strict=True):
        stage(np.zeros(2, np.int64))
        own = np.isin(load.locates, [0, *(instrument + 1 for instrument in instruments)])  # 0: the whole market's
        seen = market.decoder.counters["messages"][0]
        assert seen.sum() == own.sum()
        assert np.array_equal(seen, np.bincount(load.types[own], minlength=256))


def test_a_shard_takes_out_its_own_blocks_whole_whatever_their_length() -> None:
    sizes = [*range(itch.SIZES[ord("S")], max(itch.SIZES) + 1)] * 2
    blocks = [
        size.to_bytes(2, "big") + b"A" + (1 + number % 3).to_bytes(2, "big") + bytes([number]) * (size - 3)
        for number, size in enumerate(sizes)
    ]
    joined = b"".join(blocks)
    decoder = pipeline_workload.market(WORKLOAD_OF_NOTHING, [1], ring.create(2, records.COMMAND)).decoder
    own = aligned(len(blocks) * ROOM, np.dtype("u1"))
    data = np.frombuffer(joined + bytes(pipeline_workload.SLACK), np.uint8)
    kept = take_own_of(decoder, data, len(joined), own)
    assert own[:kept].tobytes() == b"".join(blocks[1::3])


def test_the_input_says_itself_how_many_events_it_has(load: Workload) -> None:
    position, events = 0, 0
    data = load.data.tobytes()
    for end in load.ends.tolist():
        locate = int.from_bytes(data[position + 3 : position + 5], "big")
        events += locate > 0 and chr(data[position + 2]) in "AFECXDUPQH"
        position += 2 + int.from_bytes(data[position : position + 2], "big")
        assert position == end
    assert load.events() == events
    assert 0 < load.first(events // 2).events() < events


def test_two_shards_divide_the_instruments(load: Workload) -> None:
    chosen = pipeline_workload.shards(load, 2)
    assert sorted(chosen[0] + chosen[1]) == list(range(pipeline_workload.INSTRUMENTS))
    assert len(chosen[0]) == len(chosen[1])
    messages = np.bincount(load.locates, minlength=pipeline_workload.INSTRUMENTS + 1)[1:]
    assert abs(int(messages[chosen[0]].sum()) - int(messages[chosen[1]].sum())) < 0.02 * MESSAGES


def test_a_row_that_does_something_else_stops_the_bench(load: Workload, monkeypatch: pytest.MonkeyPatch) -> None:
    run = pipeline.run

    def forgetful(load: Workload, row: Row) -> tuple[int, pipeline_workload.Outcome]:
        elapsed_ns, outcome = run(load, row)
        return elapsed_ns, outcome._replace(fills=outcome.fills - 1) if "batch 64" in row.name else outcome

    monkeypatch.setattr(pipeline, "run", forgetful)
    with pytest.raises(DifferentOutcomeError, match="batch 64"):
        pipeline.measure(load, 1, lambda what: None)


def test_messages_that_all_rows_leave_out_stop_the_bench(load: Workload, monkeypatch: pytest.MonkeyPatch) -> None:
    run = pipeline.run
    monkeypatch.setattr(pipeline, "run", lambda whole, row: run(whole.first(len(whole.ends) - 64), row))
    with pytest.raises(DifferentOutcomeError, match=f"of {load.events()}"):
        pipeline.measure(load, 1, lambda what: None)


def test_json_is_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    show("pipeline", pipeline.bench_pipeline(1, MESSAGES), conditions(), True)
    said = orjson.loads(capsys.readouterr().out)
    assert said["bench"] == "pipeline"
    keys = {"bench", "conditions", "repeats", "messages", "events", "quotes", "rejected", "fills", "filled_shares"}
    assert set(said) == keys | {"sha256", "rows"}
    assert [row["row"] for row in said["rows"]] == [row.name for row in pipeline.ROWS]
    for row in said["rows"]:
        assert row["more_threads_than_cores"] == (row["threads"] > said["conditions"]["cores"])
        assert row["events_per_s"] == pytest.approx(said["events"] / row["seconds"])
    assert said["rows"][0]["ratio_to_inline"] == 1.0


# --- the maker ----------------------------------------------------------------------------------------------------


@kernel
def see(x: Exchange, updates: Array) -> None:
    x = reference(x)
    for i in range(len(updates)):
        maker.react(x, updates[i])


def watched(*updates: dict[str, int]) -> Exchange:
    """A maker in one stock after it has seen these updates."""
    x = maker.create(1)
    rows = aligned(len(updates), UPDATE)
    for row, update in zip(rows, updates, strict=True):
        for name, value in update.items():
            row[name] = value
    see(x, rows)
    return x


CALM = {"kind": records.ADD, "bid": 10_0000, "ask": 10_0300, "bid_shares": 500, "ask_shares": 500}


def quoted(x: Exchange) -> tuple[int, int]:
    return int(x.quotes[0]["price"]), int(x.quotes[1]["price"])


def test_the_maker_joins_the_touch_and_follows_it() -> None:
    assert quoted(watched(CALM)) == (10_0000, 10_0300)
    up = CALM | {"bid": 10_0400, "ask": 10_0500}  # beyond its own ask, which has to move first
    x = watched(CALM, CALM, up)
    assert quoted(x) == (10_0400, 10_0500)
    assert (x.makers[0]["entered"], x.makers[0]["replaced"], x.makers[0]["fills"]) == (2, 2, 0)


def test_the_maker_backs_off_from_a_side_that_is_about_to_give_way() -> None:
    assert quoted(watched(CALM | {"bid_shares": 100})) == (9_9900, 10_0300)
    assert quoted(watched(CALM | {"ask_shares": 100})) == (10_0000, 10_0400)


def test_the_maker_quotes_no_side_that_nobody_else_quotes() -> None:
    x = watched(CALM, CALM | {"bid": 0, "bid_shares": 0})
    assert quoted(x) == (0, 10_0300)
    assert x.makers[0]["canceled"] == 1


def test_a_trade_at_its_price_fills_the_maker_who_quotes_again() -> None:
    trade = CALM | {"kind": records.TRADE, "price": 10_0000, "quantity": 150}
    x = watched(CALM, trade)
    assert (x.makers[0]["position"], x.makers[0]["fills"]) == (maker.LOT, 1)
    assert quoted(x) == (10_0000, 10_0300)
    assert x.makers[0]["entered"] == 3


def test_a_long_maker_bids_lower_and_at_last_not_at_all() -> None:
    trade = CALM | {"kind": records.TRADE, "price": 10_0000, "quantity": maker.LOT}
    x = watched(CALM, *[trade] * maker.LOTS_A_CENT)
    assert quoted(x) == (9_9900, 10_0300)
    sold_to = CALM | {"kind": records.TRADE, "price": 9_9600, "quantity": maker.LOT}
    x = watched(CALM, *[sold_to] * maker.MOST_LOTS)
    assert x.makers[0]["position"] == maker.MOST_LOTS * maker.LOT
    assert quoted(x) == (0, 10_0300)


def test_the_makers_orders_pass_the_risk_checks() -> None:
    fallen = CALM | {"kind": records.TRADE, "price": 5_0000, "quantity": maker.LOT}  # half of what it bids: a collar
    x = watched(CALM, fallen)
    assert quoted(x) == (0, 10_0300)
    assert x.makers[0]["rejected"] == 1
    assert x.books.counters[0]["orders_rejected"].sum() == 1
