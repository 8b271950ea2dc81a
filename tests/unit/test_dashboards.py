"""The Grafana dashboards are what their sources generate, ask for what the venue exports, and look as they should."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

import promql
from venue.engine.histogram import record
from venue.telemetry.collector import PageCollector
from venue.telemetry.page import create

Exported = dict[str, list[dict[str, str]]]
"""The labels of all samples, by name."""

OKABE_ITO = {"#56B4E9", "#0072B2", "#009E73", "#E69F00", "#D55E00", "#CC79A7"}
TITLES = {
    "latency": [
        "Orders answered a second",
        "Order to ack, p50",
        "Order to ack, p99",
        "Order to ack, p99.9",
        "Order to ack, max",
        "Longer than 1 ms",
        "Order to ack",
        "Order to ack: how many took how long",
        "Where the time goes: mean of each stage",
        "Where the slow ones wait: p99 of each stage",
        "Feed to book",
        "Order to ack by client, p99",
        "Order to ack by client, now",
        "Bytes not yet taken, by client",
    ],
    "flow": [
        "State",
        "Feed session",
        "Market time",
        "Clients",
        "Messages lost",
        "Incomplete books",
        "Alerts",
        "Feed messages a second",
        "Orders a second, by outcome",
        "Trades, fills and divergence a second",
        "Command ring",
        "Waits for a full ring",
        "Orders in the books",
        "Feed losses",
        "Rejects by reason",
        "Connections that the venue closed",
        "Accounts",
        "Pace of the feed",
        "Runtime",
    ],
}

every_panel = pytest.mark.parametrize(
    "panel",
    [panel for dashboard in promql.DASHBOARDS for panel in promql.panels(dashboard)],
    ids=lambda panel: panel["title"],
)


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    """Everything a venue exports once it has seen an order, a feed message and a client."""
    page = create(mode="consume", accounts=["ALPHA"], folder=tmp_path_factory.mktemp("pages"))
    collector = PageCollector(page)
    for row in (*page.histograms, page.account_histograms[0]):
        record(row, 20_000)
    page.matcher["last_feed_time_ns"] = page.matcher["last_command_time_ns"] = 1
    found: Exported = {}
    for family in collector.collect():
        for sample in family.samples:
            found.setdefault(sample.name, []).append(dict(sample.labels))
    page.remove()
    for process in ("cpu_seconds_total", "resident_memory_bytes", "open_fds", "max_fds"):  # prometheus_client's
        found[f"venue_process_{process}"] = [{}]
    found["up"] = [{}]
    found["ALERTS"] = [{"alertstate": state} for state in ("pending", "firing")]
    for rule in promql.rules("record"):
        found[rule["record"]] = [{}]
    return found


def missing(expr: str, exported: Exported) -> list[str]:
    """Series that an expression names and nobody exports."""
    return [
        selector.text
        for selector in promql.selectors(expr)
        if not any(
            all(labels.get(name) == value for name, value in selector.labels.items() if name != "job")
            for labels in exported.get(selector.name, [])
        )
    ]


# --- names --------------------------------------------------------------------------------------------------------


def test_what_counts_as_a_series() -> None:
    expr = (
        'clamp_min(1 - rate(venue_a_bucket{le="0.1"}[1m]) / ignoring (le) (rate(venue_a_count[1m]) > 1e-9), 0)'
        ' and on (instance, job) venue:b:rate1m > 10 unless up{job="venue"} == 0'
    )
    assert [selector.text for selector in promql.selectors(expr)] == [
        'venue_a_bucket{le="0.1"}',
        "venue_a_count{}",
        "venue:b:rate1m{}",
        'up{job="venue"}',
    ]
    assert promql.without_limits('a{b="1"} > 0.5 and c == 0 or d / (e > 1e-9)') == 'a{b="1"} and c or d / (e)'


def test_a_name_or_label_that_nobody_exports_is_found(exported: Exported) -> None:
    assert missing("rate(venue_fills[1m]) / venue_fills_total", exported) == ["venue_fills{}"]
    assert missing('venue_stage_recent_seconds{stage="match", quantile="0.99"}', exported) == []
    assert missing('venue_stage_recent_seconds{stage="march", quantile="0.99"}', exported) != []
    assert missing('venue_order_to_ack_seconds_bucket{le="0.001"}', exported) != []


def test_panels_and_rules_name_what_is_exported(exported: Exported) -> None:
    expressions = dict(promql.panel_expressions()) | {
        rule[kind]: rule["expr"] for kind in ("record", "alert") for rule in promql.rules(kind)
    }
    assert [where for where, expr in expressions.items() if not promql.selectors(expr)] == []
    wrong = {where: missing(expr, exported) for where, expr in expressions.items()}
    assert {where: names for where, names in wrong.items() if names} == {}


# --- files --------------------------------------------------------------------------------------------------------


def test_the_generated_files_are_current(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-B", promql.GRAFANA / "generate.py", tmp_path], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    generated = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert generated == {path.name: path.read_text() for path in promql.DASHBOARDS}, (
        "run python deploy/grafana/generate.py"
    )


def test_they_are_dashboards_by_the_types_of_grafana() -> None:
    """Read with the SDK's classes and written again, nothing is gone: no field is unknown to it, or of another type."""
    register_default_plugins()
    for path in promql.DASHBOARDS:
        board = promql.load(path)
        assert lost(board, json.loads(JSONEncoder().encode(Dashboard.from_json(board)))) == []


def lost(before: Any, after: Any, where: str = "") -> list[str]:
    """Where in ``before`` something stands that ``after`` does not have; what it has besides are defaults."""
    if isinstance(before, dict) and isinstance(after, dict):
        return [place for key in before for place in lost(before[key], after.get(key), f"{where}.{key}")]
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        return [place for at, one in enumerate(before) for place in lost(one, after[at], f"{where}[{at}]")]
    return [] if before == after else [where]


def test_addresses_and_titles_are_stable() -> None:
    """Bookmarks and links depend on them."""
    dashboards = {path.stem: promql.load(path) for path in promql.DASHBOARDS}
    assert {stem: (board["uid"], board["title"]) for stem, board in dashboards.items()} == {
        "flow": ("venue-flow", "venue: flow and health"),
        "latency": ("venue-latency", "venue: latency"),
    }
    for stem, board in dashboards.items():
        assert [panel["title"] for panel in board["panels"]] == TITLES[stem]
        assert [panel["id"] for panel in board["panels"]] == list(range(1, len(TITLES[stem]) + 1))


def test_each_dashboard_links_to_the_other_one() -> None:
    links = {path.stem: [link["url"] for link in promql.load(path)["links"]] for path in promql.DASHBOARDS}
    assert links == {"flow": ["/d/venue-latency"], "latency": ["/d/venue-flow"]}


def test_each_fits_one_screen() -> None:
    """A grid cell is 30 pixels high and 8 apart: 26 of them fit into 1080 lines with the bar above, 27 without."""
    for path in promql.DASHBOARDS:
        places = [panel["gridPos"] for panel in promql.panels(path)]
        assert max(place["y"] + place["h"] for place in places) <= 27
        cells = [
            (x, y)
            for place in places
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        ]
        assert len(cells) == len(set(cells)), "panels overlap"
        assert max(x for x, _ in cells) == 23


# --- the data source ----------------------------------------------------------------------------------------------


def test_the_data_source_is_the_provisioned_one_and_nothing_is_asked_at_import() -> None:
    (source,) = promql.load(promql.GRAFANA / "provisioning/datasources/prometheus.yml")["datasources"]
    assert (source["uid"], source["type"]) == ("venue-prometheus", "prometheus")
    for path in promql.DASHBOARDS:
        text = path.read_text()
        assert set(re.findall(r'"uid": "([^"]*)"', text)) == {source["uid"], promql.load(path)["uid"]}
        assert "${DS_" not in text
        assert "__inputs" not in text


def test_grafana_knows_the_real_scrape_interval() -> None:
    config = promql.load(promql.PROMETHEUS / "prometheus.yml")
    (source,) = promql.load(promql.GRAFANA / "provisioning/datasources/prometheus.yml")["datasources"]
    assert config["global"]["scrape_interval"] == source["jsonData"]["timeInterval"] == f"{promql.SCRAPE_S}s"
    assert config["global"]["evaluation_interval"] == config["global"]["scrape_interval"]
    assert all("scrape_interval" not in job for job in config["scrape_configs"])


# --- looks --------------------------------------------------------------------------------------------------------


@every_panel
def test_a_panel_says_what_it_shows_in_which_unit_and_that_there_is_nothing(panel: dict[str, Any]) -> None:
    assert panel["description"].endswith(".")
    defaults = panel["fieldConfig"]["defaults"]
    assert defaults["noValue"]
    assert defaults.get("unit") or panel["options"]["yAxis"]["unit"]


@every_panel
def test_colours_are_told_apart_by_everybody(panel: dict[str, Any]) -> None:
    """Only colours of Okabe and Ito, no series with the colour of another one, and no palette of Grafana's own."""
    text = str(panel["fieldConfig"])
    assert set(re.findall(r"#[0-9A-Fa-f]{6}", text)) <= OKABE_ITO
    assert "palette" not in text
    if panel["type"] == "heatmap":
        assert panel["options"]["color"]["scheme"] == "Viridis"
        return
    fixed = [
        one["value"]["fixedColor"]
        for override in panel["fieldConfig"]["overrides"]
        for one in override["properties"]
        if one["id"] == "color"
    ]
    assert len(fixed) == len(set(fixed))
    if panel["type"] == "timeseries":
        mode = panel["fieldConfig"]["defaults"].get("color", {}).get("mode")
        assert len(fixed) == len(panel["targets"]) or mode == "shades"


@every_panel
def test_nothing_is_divided_by_zero(panel: dict[str, Any]) -> None:
    """A divisor is filtered, so that without traffic there is no value instead of NaN, or a limit that is never 0."""
    for target in panel["targets"]:
        for divisor in re.findall(r"/\s*(?:ignoring \(\w+\)\s*)?(\S.*)", target["expr"]):
            assert re.search(r"> 0\)", divisor) or divisor == "venue_process_max_fds"


def test_percentiles_are_in_order_on_a_log_axis() -> None:
    for title in ("Order to ack", "Feed to book"):
        (panel,) = [p for p in promql.panels(promql.GRAFANA / "dashboards/latency.json") if p["title"] == title]
        assert [target["legendFormat"] for target in panel["targets"]] == ["p50", "p90", "p99", "p99.9", "max"]
        assert panel["fieldConfig"]["defaults"]["custom"]["scaleDistribution"] == {"log": 10, "type": "log"}
