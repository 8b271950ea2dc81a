"""What is logged: fixed words with fields, nothing where messages fly, no secrets. Formats are in test_cli.py."""

from __future__ import annotations

import ast
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import venue
from venue import logs
from venue.connection import _complaint
from venue.telemetry import server
from venue.wire import ouch

PACKAGE = Path(venue.__file__).parent
LEVELS = {"debug", "info", "warning", "error", "critical", "exception", "log"}


def calls_of(path: Path) -> Iterator[ast.Call]:
    """Calls that write a log line: `log.warning(...)`, `self._complaints.warning(...)`."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in LEVELS:
            name = ast.unparse(node.func.value)
            if name in ("log", "self._complaints"):
                yield node


def test_every_event_is_fixed_words() -> None:
    """So that lines can be counted and alerted on, and text from outside stays in fields, where it is quoted."""
    seen = 0
    for path in PACKAGE.rglob("*.py"):
        for call in calls_of(path):
            assert isinstance(call.func, ast.Attribute)
            words = call.args[1:] if call.func.attr == "log" else call.args
            place = f"{path.name}:{call.lineno}"
            assert len(words) == 1, f"{place}: arguments instead of fields"
            assert isinstance(words[0], ast.Constant), f"{place}: {ast.unparse(words[0])}"
            assert isinstance(words[0].value, str), place
            seen += 1
    assert seen > 15


def test_compiled_code_and_protocols_log_nothing() -> None:
    for folder in ("engine", "wire"):
        for path in (PACKAGE / folder).rglob("*.py"):
            assert "logging" not in path.read_text(), path


def formatted(**fields: Any) -> dict[str, Any]:
    record = logging.LogRecord("venue.gateway", logging.INFO, "", 0, "event", (), None)
    vars(record).update(fields)
    text = logs.JsonFormatter().format(record)
    assert "\n" not in text
    line: dict[str, Any] = json.loads(text)
    return line


@pytest.mark.parametrize("name", ["password", "operator_token", "token_hash", "client_secret"])
def test_secrets_are_hidden_by_their_names(name: str) -> None:
    assert formatted(**{name: "hunter2"})[name] == "(hidden)"


@pytest.mark.parametrize(
    "value", ["a\udcffb", 1 << 70, b"\xff", Path("/x")], ids=["not UTF-8", "large", "bytes", "path"]
)
def test_no_value_costs_a_line(value: Any) -> None:
    assert formatted(value=value)["event"] == "event"


def test_a_broken_message_is_logged_with_the_order_it_was_meant_for() -> None:
    good = ouch.CancelOrder(user_ref_num=17, quantity=5).encode()
    assert _complaint(good + b"\0\x09x").endswith(" (UserRefNum 17)")
    assert "UserRefNum" not in _complaint(good[:3])
    assert "UserRefNum" not in _complaint(b"z" + good[1:])


def test_the_telemetry_process_logs_like_the_exchange() -> None:
    code = (
        "import logging, sys\nfrom venue.telemetry import __main__ as program\n"
        "program.run = lambda path, descriptor: logging.getLogger('venue.telemetry.server').warning('full')\n"
        "sys.argv = ['x', '/nowhere', '0']\nprogram.main()"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    line = json.loads(run.stderr)
    assert (line["logger"], line["event"]) == (server.log.name.removeprefix("venue."), "full")
