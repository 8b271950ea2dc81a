"""The rules of Prometheus: each alert says what to do, and is seen firing and not firing by promtool."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import promql

PROMTOOL = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason="no promtool: apt-get install prometheus")
TESTS = sorted((promql.PROMETHEUS / "tests").glob("*.yml"))

every_alert = pytest.mark.parametrize("alert", promql.rules("alert"), ids=lambda alert: alert["alert"])


def promtool(*arguments: object) -> tuple[int, str]:
    assert PROMTOOL is not None
    command = [PROMTOOL, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout + done.stderr


@needs_promtool
def test_the_configuration_is_valid() -> None:
    code, text = promtool("check", "config", promql.PROMETHEUS / "prometheus.yml")
    assert code == 0, text
    assert f"{len(promql.rules('alert')) + len(promql.rules('record'))} rules found" in text


@needs_promtool
@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.name)
def test_alerts_fire_when_they_should_and_only_then(path: Path) -> None:
    code, text = promtool("test", "rules", path)
    assert code == 0, text


def cases() -> dict[str, list[bool]]:
    """For each alert, whether it fires in the cases that the tests have of it."""
    found: dict[str, list[bool]] = {}
    for path in TESTS:
        for story in promql.load(path)["tests"]:
            for case in story.get("alert_rule_test", []):
                found.setdefault(case["alertname"], []).append(bool(case["exp_alerts"]))
    return found


@every_alert
def test_each_alert_has_a_case_in_which_it_fires_and_one_in_which_it_does_not(alert: dict[str, Any]) -> None:
    assert set(cases()[alert["alert"]]) == {True, False}


def test_no_case_is_about_an_alert_that_is_gone() -> None:
    assert set(cases()) == {alert["alert"] for alert in promql.rules("alert")}


def test_each_recording_rule_is_tested() -> None:
    tested = "".join(path.read_text() for path in TESTS)
    assert [rule["record"] for rule in promql.rules("record") if f"expr: {rule['record']}" not in tested] == []


@every_alert
def test_each_alert_says_how_bad_it_is_and_what_to_do(alert: dict[str, Any]) -> None:
    assert re.fullmatch(r"Venue([A-Z][a-z]+)+", alert["alert"])
    assert alert["labels"].keys() == {"severity"}
    assert alert["labels"]["severity"] in ("critical", "warning", "info")
    assert alert["annotations"].keys() == {"summary", "action"}
    assert "{{ $labels.instance }}" in alert["annotations"]["summary"]
    assert alert["annotations"]["action"].endswith((".", "."))


def test_the_readme_lists_the_alerts_with_their_severities() -> None:
    listed = re.findall(r"^\| `(Venue\w+)` \| (\w+) \|", (promql.PROMETHEUS / "README.md").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted((alert["alert"], alert["labels"]["severity"]) for alert in promql.rules("alert"))


def test_both_ways_to_name_the_target_are_there() -> None:
    """The local one is where `venue serve` listens without a configuration."""
    from venue.config import Http

    assert promql.load(promql.PROMETHEUS / "targets.yml") == [{"targets": [f"127.0.0.1:{Http().port}"]}]
    assert promql.load(promql.PROMETHEUS / "targets.compose.yml") == [{"targets": [f"venue:{Http().port}"]}]
