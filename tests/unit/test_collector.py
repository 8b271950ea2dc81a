"""What a scrape says: names, values, histograms, and the figures of the last ten seconds."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import generate_latest
from prometheus_client.core import Metric
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

import venue
from venue.engine.cells import ORDER_TO_ACK_BOUNDS
from venue.engine.counters import EXPOSURE, HISTOGRAMS, MATCH, ORDER_TO_ACK
from venue.engine.histogram import record
from venue.telemetry import collector as collector_module
from venue.telemetry.collector import PageCollector, make_registry
from venue.telemetry.metrics import METRICS
from venue.telemetry.page import LAYOUT, Page, State, create

README = Path(collector_module.__file__).with_name("README.md")

SECOND_NS = 1_000_000_000


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    page = create(mode="consume", accounts=["alice", "bob"], folder=tmp_path / "pages")
    yield page
    page.remove()


class Clock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.now_ns = 0

    def __call__(self) -> int:
        return self.now_ns


Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def samples_of(families: Iterator[Metric]) -> Samples:
    found = [
        ((sample.name, tuple(sorted(sample.labels.items()))), sample.value) for f in families for sample in f.samples
    ]
    samples = dict(found)
    assert len(samples) == len(found), "a sample occurs twice"
    return samples


def scrape(page: Page) -> Samples:
    return samples_of(PageCollector(page).collect())


def named(samples: Samples, name: str) -> dict[tuple[str, ...], float]:
    """The samples of one name by their label values, in the order of the label names."""
    return {tuple(value for _, value in labels): v for (n, labels), v in samples.items() if n == name}


def test_both_formats_parse_and_hold_the_same(page: Page) -> None:
    record(page.histograms[ORDER_TO_ACK], 20_000)
    registry, _ = make_registry(page)
    text = samples_of(parse_text(generate_latest(registry).decode()))
    modern = samples_of(parse_openmetrics(openmetrics.generate_latest(registry).decode()))
    moving = {name for name, _ in text if name.startswith("venue_process_")}
    assert moving >= {"venue_process_cpu_seconds_total", "venue_process_resident_memory_bytes"}
    assert {k: v for k, v in text.items() if k[0] not in moving} == {
        k: v for k, v in modern.items() if k[0] not in moving
    }


def test_names_follow_the_rules(page: Page) -> None:
    registry, _ = make_registry(page)
    for family in registry.collect():
        assert family.name.startswith("venue_")
        assert family.documentation.endswith(".")
        assert not any(unit in family.name for unit in ("_ns", "_ms", "_count", "total"))
        if family.type == "counter":
            assert all(sample.name == f"{family.name}_total" for sample in family.samples)


def test_every_field_of_the_page_is_exported(page: Page) -> None:
    """Each field gets a value of its own, which then has to be found among the samples."""
    silent = {"header": {"magic", "layout_version", "size_bytes", "pid", "process_start_ticks", "started_at_ns",
                         "state", "heartbeat_monotonic_ns", "requests_handled", "venue_version", "mode"},
              "accounts": {"name", "peer", "connected_at_ns"}}  # fmt: skip
    silent["exposures"] = {field for field in EXPOSURE.names or () if not field.startswith("open_")}  # limits
    value, expected = 10_000_000_000, {}
    for section in LAYOUT:
        if "histograms" in section.name:
            continue
        for field in section.dtype.names:
            if field not in silent.get(section.name, ()):
                value += 10_000_000_000
                getattr(page, section.name)[field][0] = value
                expected[f"{section.name}.{field}"] = value
    # exported as the rest: orders that are not the clients' own are the feed's
    expected["matcher.live_orders"] -= expected["matcher.live_own_orders"]
    values = set(scrape(page).values())
    missing = {
        field for field, value in expected.items() if not values & {float(value), value / 10_000, value / SECOND_NS}
    }
    assert missing == set()


def test_codes_get_the_names_of_the_protocol(page: Page) -> None:
    page.matcher["orders_rejected"][0, 0x1D] = 3
    page.matcher["orders_rejected"][0, 0x3F] = 1
    page.feed["messages"][0, ord("A")] = 5
    page.gateway["messages_in"][0, ord("O")] = 7
    page.gateway["messages_out"][0, ord("E")] = 9
    page.gateway["messages_out"][0, ord("~")] = 2
    samples = scrape(page)
    assert named(samples, "venue_orders_rejected_total")["invalid_price",] == 3
    assert named(samples, "venue_orders_rejected_total")["other_codes",] == 1
    assert named(samples, "venue_orders_total")["rejected",] == 4
    assert named(samples, "venue_feed_messages_total")["add_order",] == 5
    assert ("other_codes",) not in named(samples, "venue_feed_messages_total")
    assert named(samples, "venue_gateway_messages_received_total")["enter_order",] == 7
    assert named(samples, "venue_gateway_messages_sent_total")["executed",] == 9
    assert named(samples, "venue_gateway_messages_sent_total")["other_codes",] == 2


def test_accounts_are_those_of_the_configuration(page: Page) -> None:
    page.accounts["logged_in"][1] = 1
    page.exposures["open_notional"][0] = 1_895_000
    samples = scrape(page)
    assert named(samples, "venue_account_logged_in") == {("alice",): 0, ("bob",): 1}
    assert named(samples, "venue_account_open_notional_dollars") == {("alice",): 189.5, ("bob",): 0}


def test_state_mode_and_version(page: Page) -> None:
    page.set_state(State.COMPILING)
    samples = scrape(page)
    assert named(samples, "venue_ready") == {(): 0}
    assert named(samples, "venue_state")["compiling",] == 1
    assert sum(named(samples, "venue_state").values()) == 1
    page.set_state(State.READY)
    assert named(scrape(page), "venue_ready") == {(): 1}
    assert named(samples, "venue_run_info") == {("consume",): 1}
    assert venue.__version__ in next(iter(named(samples, "venue_build_info")))


def test_a_sample_on_a_bound_counts_in_that_le(page: Page) -> None:
    for bound_ns in ORDER_TO_ACK_BOUNDS:
        record(page.histograms[ORDER_TO_ACK], bound_ns)
    buckets = named(scrape(page), "venue_order_to_ack_seconds_bucket")
    assert list(buckets.values()) == [*range(1, 82), 81]
    assert [float(le) for (le,) in buckets] == [*(bound / 1e9 for bound in ORDER_TO_ACK_BOUNDS), float("inf")]


def test_twenty_seconds_is_only_in_inf(page: Page) -> None:
    record(page.histograms[ORDER_TO_ACK], 20 * SECOND_NS)
    samples = scrape(page)
    buckets = named(samples, "venue_order_to_ack_seconds_bucket")
    assert {le: count for le, count in buckets.items() if count} == {("+Inf",): 1}
    assert named(samples, "venue_order_to_ack_seconds_count") == {(): 1}
    assert named(samples, "venue_order_to_ack_seconds_sum") == {(): 20}


def test_inf_equals_count_while_another_thread_records(page: Page) -> None:
    stop = threading.Event()

    def write() -> None:
        latency_ns = 1
        while not stop.is_set():
            for row in range(HISTOGRAMS):
                record(page.histograms[row], latency_ns)
            latency_ns = latency_ns * 7 % (1 << 35) + 1

    writer = threading.Thread(target=write)
    writer.start()
    collector = PageCollector(page)
    last = -1.0
    try:
        for _ in range(30):
            samples = samples_of(collector.collect())
            for family in ("venue_order_to_ack_seconds", "venue_stage_seconds", "venue_feed_to_book_seconds"):
                counts = named(samples, f"{family}_count")
                buckets = named(samples, f"{family}_bucket")
                assert {("+Inf", *labels): count for labels, count in counts.items()} == {
                    labels: count for labels, count in buckets.items() if labels[0] == "+Inf"
                }
                for labels in counts:
                    rising = [count for le, count in buckets.items() if le[1:] == labels]
                    assert rising == sorted(rising)
            total = named(samples, "venue_order_to_ack_seconds_count")[()]
            assert total >= last
            last = total
    finally:
        stop.set()
        writer.join()
    assert last > 0


def test_there_are_under_fifty_histograms(page: Page) -> None:
    counts = [name for name, _ in scrape(page) if name.endswith("_seconds_count")]
    assert len(counts) == HISTOGRAMS < 50


def test_recent_quantiles_cover_ten_seconds_and_no_scrape_resets_them(page: Page) -> None:
    clock = Clock()
    record(page.histograms[MATCH], 5_000_000)  # before the telemetry process began
    collector = PageCollector(page, clock)
    name = "venue_stage_recent_seconds"

    def seconds_pass(seconds: int) -> None:
        for _ in range(seconds):
            clock.now_ns += SECOND_NS
            collector.tick()

    assert named(samples_of(collector.collect()), name) == {}, "no samples, no figures"

    seconds_pass(3)
    for latency_ns in [128] * 89 + [1024] * 10 + [4096]:
        record(page.histograms[MATCH], latency_ns)
    expected = {
        ("0.5", "match"): 128e-9, ("0.9", "match"): 1024e-9, ("0.99", "match"): 1024e-9,
        ("0.999", "match"): 4096e-9, ("1", "match"): 4096e-9,
    }  # fmt: skip
    for _ in range(3):
        assert named(samples_of(collector.collect()), name) == expected

    seconds_pass(9)
    assert named(samples_of(collector.collect()), name) == expected
    record(page.histograms[MATCH], 256)
    seconds_pass(2)
    assert set(named(samples_of(collector.collect()), name).values()) == {256e-9}
    seconds_pass(10)
    assert named(samples_of(collector.collect()), name) == {}
    assert named(samples_of(collector.collect()), "venue_stage_seconds_count")["match",] == 102


def test_each_account_has_quantiles_of_its_own_orders_and_an_idle_one_has_none(page: Page) -> None:
    clock = Clock()
    collector = PageCollector(page, clock)
    for latency_ns in [128] * 99 + [1024]:
        record(page.account_histograms[1], latency_ns)
    name = "venue_account_order_to_ack_recent_seconds"
    expected = {
        ("bob", "0.5"): 128e-9, ("bob", "0.9"): 128e-9, ("bob", "0.99"): 128e-9, ("bob", "0.999"): 1024e-9,
        ("bob", "1"): 1024e-9,
    }  # fmt: skip
    assert named(samples_of(collector.collect()), name) == expected
    for _ in range(11):
        clock.now_ns += SECOND_NS
        collector.tick()
    assert named(samples_of(collector.collect()), name) == {}


def test_overflow_shows_as_the_highest_edge_in_recent_quantiles(page: Page) -> None:
    collector = PageCollector(page, Clock())
    record(page.histograms[ORDER_TO_ACK], 20 * SECOND_NS)
    values = named(samples_of(collector.collect()), "venue_order_to_ack_recent_seconds").values()
    assert set(values) == {2**34 / 1e9}


def test_the_readme_lists_every_metric(page: Page) -> None:
    text = README.read_text()
    for metric in METRICS:
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        row = f"| `{metric.name}` | {labels} | {metric.help} |"
        assert row in text, row
    for family in PageCollector(page).collect():
        assert f"`{family.name}" in text
