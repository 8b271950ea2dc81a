"""From one snapshot of the counters page to everything that Prometheus scrapes.

Each scrape takes one copy of the page and makes all samples from it, so that ``+Inf`` equals ``_count`` always.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from venue.engine.cells import (
    ORDER_TO_ACK_BOUNDS,
    QUANTILES,
    STAGE_BOUNDS,
    SUM,
    Int64s,
    cumulative_counts,
    percentiles,
)
from venue.engine.counters import FEED_DATAGRAM_TO_BOOK, ORDER_TO_ACK, STAGES
from venue.telemetry.metrics import METRICS
from venue.telemetry.page import Page, Views
from venue.telemetry.window import Window

Rows = dict[tuple[str, ...], int]
"""Label values of each histogram in a family, and its row in the page."""

LATENCIES: Final[tuple[tuple[str, str, tuple[str, ...], Rows, tuple[int, ...]], ...]] = (
    (
        "venue_order_to_ack",
        "Time from the read of an order's bytes to the write of its answer",
        (),
        {(): ORDER_TO_ACK},
        ORDER_TO_ACK_BOUNDS,
    ),
    (
        "venue_stage",
        "Time that an order spent in one stage of its path",
        ("stage",),
        {(stage,): row for stage, row in STAGES.items()},
        STAGE_BOUNDS,
    ),
    (
        "venue_feed_to_book",
        "Time from the read of a datagram to its last message's place in the book",
        (),
        {(): FEED_DATAGRAM_TO_BOOK},
        STAGE_BOUNDS,
    ),
)
"""The histogram families: name without unit, meaning, label names, rows, and bounds in ns."""


class PageCollector(Collector):
    """Reads one page. Call :meth:`tick` once a second; one thread may use it."""

    def __init__(self, page: Page, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._page = page
        self._clock = clock
        self.window = Window(page.snapshot(), clock())

    def tick(self) -> None:
        """Keep a copy of the page for the rolling figures."""
        self.window.keep(self._page.snapshot(), self._clock())

    def collect(self) -> Iterator[Metric]:
        """All families, from one snapshot."""
        views = self._page.snapshot()
        recent = self.window.since(views, self._clock())
        yield from _infos(views)
        yield from _counters_and_gauges(views)
        for name, meaning, labels, rows, bounds_ns in LATENCIES:
            yield _histogram(views.histograms, f"{name}_seconds", f"{meaning}.", labels, rows, bounds_ns)
            yield _quantiles(recent.histograms, name, meaning, labels, rows)
        accounts: Rows = {(account,): row for row, account in enumerate(views.account_names())}
        meaning = "Time from the read of an account's order to the write of its answer"
        yield _quantiles(recent.account_histograms, "venue_account_order_to_ack", meaning, ("account",), accounts)


def make_registry(page: Page) -> tuple[CollectorRegistry, PageCollector]:
    """What to encode for a scrape, with CPU, memory and descriptors of the page's owner, and the collector to tick."""
    registry = CollectorRegistry()
    collector = PageCollector(page)
    registry.register(collector)
    ProcessCollector(namespace="venue", pid=lambda: int(page.header["pid"][0]), registry=registry)
    return registry, collector


def _infos(views: Views) -> Iterable[Metric]:
    build = {"version": views.venue_version, "python_version": platform.python_version()}
    yield InfoMetricFamily("venue_build", "Versions of the software that runs.", value=build)
    yield InfoMetricFamily("venue_run", "How recorded and client orders meet in this run.", value={"mode": views.mode})


def _counters_and_gauges(views: Views) -> Iterable[Metric]:
    for metric in METRICS:
        family_type = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
        family = family_type(metric.name, metric.help, labels=metric.labels)
        for label_values, value in metric.read(views):
            family.add_metric(label_values, float(value))
        yield family


def _histogram(
    histograms: Int64s, name: str, text: str, labels: tuple[str, ...], rows: Rows, bounds_ns: tuple[int, ...]
) -> Metric:
    bounds = [str(bound_ns / 1e9) for bound_ns in bounds_ns] + ["+Inf"]
    family = HistogramMetricFamily(name, text, labels=labels)
    for label_values, row in rows.items():
        counts = cumulative_counts(histograms[row], bounds_ns)
        buckets = list(zip(bounds, map(float, counts), strict=True))
        family.add_metric(label_values, buckets, float(histograms[row, SUM]) / 1e9)
    return family


def _quantiles(recent: Int64s, name: str, meaning: str, labels: tuple[str, ...], rows: Rows) -> Metric:
    text = f"{meaning}: quantiles over the last 10 s, 1 is the maximum; absent without samples."
    family = GaugeMetricFamily(f"{name}_recent_seconds", text, labels=(*labels, "quantile"))
    for label_values, row in rows.items():
        for quantile, value_ns in zip(QUANTILES, percentiles(recent[row], QUANTILES) or (), strict=False):
            family.add_metric((*label_values, f"{quantile:g}"), value_ns / 1e9)
    return family
