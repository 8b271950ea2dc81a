"""What the dashboards and rules in deploy/ ask Prometheus, and which series they name.

No parser of PromQL: a name that is neither called nor a keyword is a series, and what follows it in braces are its
labels. Prometheus itself judges the rest in tests/end_to_end/test_prometheus.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

DEPLOY = Path(__file__).parents[1] / "deploy"
PROMETHEUS = DEPLOY / "prometheus"
GRAFANA = DEPLOY / "grafana"
DASHBOARDS = sorted((GRAFANA / "dashboards").glob("*.json"))
RULES = sorted((PROMETHEUS / "rules").glob("*.yml"))

SCRAPE_S = 1
RATE_INTERVAL = f"{4 * SCRAPE_S}s"
"""What Grafana makes of $__rate_interval at least: four scrape intervals."""
RANGE = "15m"

_CLAUSE = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)")
_SELECTOR = re.compile(r"(?<![\w:.$])([a-zA-Z_:][\w:]*+)\s*+(\{[^}]*\})?+(?!\()")
_MATCHER = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"')
_LIMIT = re.compile(r"\s*(?:==|!=|>=|<=|>|<)\s*-?\d[\d.e-]*")
_KEYWORDS = {"and", "or", "unless", "bool", "offset"}


class Selector(NamedTuple):
    name: str
    labels: dict[str, str]
    """Those that have to be equal to something; other kinds of matchers are refused."""

    @property
    def text(self) -> str:
        inner = ", ".join(f'{name}="{value}"' for name, value in self.labels.items())
        return f"{self.name}{{{inner}}}"


def selectors(expr: str) -> list[Selector]:
    """The series that an expression names."""
    bare = re.sub(r"\[[^\]]*\]", "", _CLAUSE.sub("", expr))
    found = []
    for name, braces in _SELECTOR.findall(bare):
        if name in _KEYWORDS:
            continue
        matchers = _MATCHER.findall(braces)
        assert {kind for _, kind, _ in matchers} <= {"="}, expr
        found.append(Selector(name, {label: value for label, _, value in matchers}))
    return found


def without_limits(expr: str) -> str:
    """The expression of an alert without its comparisons with numbers: what it looks at, in trouble or not."""
    return _LIMIT.sub("", expr)


def as_grafana_sends(expr: str) -> str:
    return expr.replace("$__rate_interval", RATE_INTERVAL).replace("$__range", RANGE)


def load(path: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = (
        json.loads(path.read_text()) if path.suffix == ".json" else yaml.safe_load(path.read_text())
    )
    return loaded


def panels(dashboard: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = load(dashboard)["panels"]
    return found


def panel_expressions() -> Iterator[tuple[str, str]]:
    """Where each query of each panel stands, and the query."""
    for dashboard in DASHBOARDS:
        for panel in panels(dashboard):
            for target in panel["targets"]:
                yield f"{dashboard.stem}, {panel['title']}, {target['refId']}", target["expr"]


def rules(kind: str) -> list[dict[str, Any]]:
    """All rules that have this key: ``alert`` or ``record``."""
    return [rule for path in RULES for group in load(path)["groups"] for rule in group["rules"] if kind in rule]
