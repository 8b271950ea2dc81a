"""`venue bench orders` with tiny sizes: what it counted. Times are whatever they are."""

from __future__ import annotations

import orjson
import pytest

from venue.bench import orders
from venue.bench.exchange import BenchError, Served, serving
from venue.bench.order_traffic import LIVE
from venue.bench.orders import CONNECTIONS, SHARES, Sizes, bench_orders
from venue.bench.report import show
from venue.engine.kernel import JIT

pytestmark = pytest.mark.skipif(not JIT, reason="the client is compiled")

TINY = Sizes(rounds=2, block=50, burst=1_600, repeats=3, seconds=0.05)
PERCENTILES = {"p50", "p99", "p99.9"}


def test_every_order_is_acknowledged_and_counted(capsys: pytest.CaptureFixture[str]) -> None:
    report = bench_orders(TINY)
    show("orders", report, {"cores": 2}, as_json=True)
    shown = orjson.loads(capsys.readouterr().out)
    assert shown == {"bench": "orders", "conditions": {"cores": 2}} | orjson.loads(orjson.dumps(report.figures))
    assert set(report.figures) == {"round_trip", "throughput", "latency", "acknowledged"}

    trips = report.figures["round_trip"]
    assert trips["orders"] == TINY.rounds * TINY.block
    assert set(trips["order_us"]) == set(trips["echo_us"]) == set(trips["ratio"]) == PERCENTILES
    for name in PERCENTILES:
        assert trips["ratio"][name] == trips["order_us"][name] / trips["echo_us"][name]

    rows = report.figures["throughput"]
    assert [row["connections"] for row in rows] == list(CONNECTIONS)
    assert {row["orders"] for row in rows} == {TINY.repeats * TINY.burst}
    best = max(rows, key=lambda row: row["orders_per_s"])
    latencies = report.figures["latency"]
    assert [row["share"] for row in latencies] == list(SHARES)
    assert [row["rate"] for row in latencies] == [int(share * best["orders_per_s"]) for share in SHARES]

    connections = best["connections"]
    at_rates = sum(max(1, int(row["rate"] * TINY.seconds) // connections) * connections for row in latencies)
    bursts = len(CONNECTIONS) * (TINY.burst // 4 + TINY.repeats * TINY.burst)
    resting = LIVE * (1 + sum(CONNECTIONS) + connections)
    assert report.figures["acknowledged"] == (TINY.rounds + 1) * TINY.block + bursts + at_rates + resting
    assert len(report.tables) == 3


def test_an_exchange_that_counts_other_orders_is_an_error() -> None:
    with serving(orders.CONFIG) as served, pytest.raises(BenchError, match="but the exchange counts 0 Enter messages"):
        orders.check(served, 7)


def test_an_exchange_that_does_not_start_says_why() -> None:
    with (
        pytest.raises(BenchError, match=r"the exchange did not start: .*engine\.mode"),
        serving('[engine]\nmode = "x"'),
    ):
        pass


def test_the_exchange_runs_until_the_block_ends() -> None:
    def fail(served: Served) -> None:
        raise RuntimeError(str(served.pid))

    with pytest.raises(RuntimeError) as raised, serving(orders.CONFIG) as served:
        fail(served)
    assert not served.page.owner_alive()
    assert str(served.pid) == str(raised.value)
