"""`venue bench handoff`: everything arrives in its order, and latencies count from when a message was due."""

import numpy as np
import orjson
import pytest

from venue.bench import handoff
from venue.bench.handoff import LostError
from venue.bench.report import conditions, show
from venue.engine import ring, system
from venue.engine.kernel import JIT
from venue.engine.records import COMMAND

COUNT = 20_000 if JIT else 1_000


@pytest.mark.parametrize("name", handoff.LATENCIES)
def test_every_message_arrives_after_it_was_due(name: str) -> None:
    latencies_ns = handoff.LATENCIES[name](COUNT, 1_000)
    assert len(latencies_ns) == COUNT
    assert (latencies_ns >= 0).all()


def test_messages_are_due_at_even_intervals_however_late_they_are_sent() -> None:
    r = ring.create(8, COMMAND)
    scratch = np.zeros(2, np.int64)
    handoff.send_through_ring(r, 8, 1_000, scratch)
    due_ns = r.records["word0"]
    assert np.diff(due_ns).tolist() == [1_000] * 7
    latencies_ns = np.zeros(8, np.int64)
    taken_from_ns = system.now_ns(scratch)
    handoff.receive_from_ring(r, latencies_ns, scratch)
    assert (latencies_ns >= taken_from_ns - due_ns).all()  # all of the waiting on the ring counts


@pytest.mark.parametrize("name", handoff.THROUGHPUTS)
def test_every_ring_passes_all_numbers_in_their_order(name: str) -> None:
    assert handoff.THROUGHPUTS[name](COUNT) > 0  # LostError otherwise


def test_a_number_that_is_lost_stops_the_bench() -> None:
    with pytest.raises(LostError, match="out of order"):
        handoff.check(np.array([9, 1]), 10)
    with pytest.raises(LostError, match="the last of 10"):
        handoff.check(np.array([8, 0]), 10)


def test_json_is_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    show("handoff", handoff.bench_handoff(1, COUNT, COUNT), conditions(), True)
    said = orjson.loads(capsys.readouterr().out)
    keys = {"bench", "conditions", "repeats", "rate_per_s", "latency_messages", "throughput_messages"}
    assert set(said) == keys | {"latency", "throughput"}
    assert [row["row"] for row in said["latency"]] == list(handoff.LATENCIES)
    assert all(row["p50_ns"] <= row["p99_ns"] <= row["p999_ns"] for row in said["latency"])
    assert [row["row"] for row in said["throughput"]] == list(handoff.THROUGHPUTS)
    assert said["throughput"][0]["ratio_to_first"] == 1.0
