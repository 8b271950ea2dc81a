"""The command line as people meet it: help, version, exit codes, one-line errors, logs."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from importlib.metadata import version
from inspect import getdoc
from typing import Any

import pytest
import typer

from venue import cli, logs, passwords
from venue.config import ConfigError


def venue(*arguments: str, stdin: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from venue.cli import main; main()", *arguments]
    environment = os.environ | {"COLUMNS": "100", "NO_COLOR": "1"} | environment
    return subprocess.run(command, input=stdin, capture_output=True, text=True, env=environment, timeout=60)


def test_help_names_every_command_and_how_to_begin() -> None:
    result = venue("--help")
    assert result.returncode == 0
    for name, command in cli.COMMANDS.items():
        assert f" {name} " in result.stdout
        assert command.panel in result.stdout
    assert "venue trade buy AAPL 100 189.50" in result.stdout
    assert result.stderr == ""


def test_no_arguments_is_a_question_about_the_way() -> None:
    result = venue()
    assert result.returncode == 2
    assert "Usage: venue" in result.stdout + result.stderr


def test_help_imports_nothing_that_takes_long() -> None:
    code = (
        "import sys\nfrom venue import cli\nsys.argv = ['venue', '--help']\n"
        "try:\n    cli.main()\nexcept SystemExit:\n    pass\n"
        "print([name for name in ('numba', 'numpy', 'asyncio', 'aiohttp', 'uvloop') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert result.stdout.splitlines()[-1] == "[]", result.stderr


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_command_can_be_imported_and_says_what_its_summary_says(name: str) -> None:
    command = cli.COMMANDS[name]
    loaded = command.load()
    text = loaded.info.help if isinstance(loaded, typer.Typer) else getdoc(loaded)
    assert str(text).partition("\n\n")[0] == command.summary
    result = venue(name, "--help")
    assert (result.returncode, result.stderr) == (0, "")
    assert f"Usage: venue {name}" in result.stdout


def test_version() -> None:
    result = venue("--version")
    assert (result.returncode, result.stdout) == (0, f"venue {version('venue')}\n")


def test_an_unknown_command_or_option_is_a_usage_error() -> None:
    for arguments in (["trad"], ["serve", "--colour"]):
        result = venue(*arguments)
        assert result.returncode == 2
        assert "Traceback" not in result.stderr
    assert "trade" in venue("trad").stderr


@pytest.mark.parametrize("arguments", [["trade"], ["maker", "AAPL"], ["load"]])
@pytest.mark.parametrize("port", ["0", "65536"])
def test_a_port_that_cannot_be_is_a_usage_error(arguments: list[str], port: str) -> None:
    result = venue(*arguments, "--port", port)
    assert result.returncode == 2
    assert "Invalid value for '--port'" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--order-port", "70000"], "venue: orders.port: expected a port from 0 (any free one) to 65535, not 70000"),
        (["--config", "/nowhere/venue.toml"], "venue: /nowhere/venue.toml: no such file or directory"),
        (["--order-port", "7", "--http-port", "7"], "venue: http.port: 7 is taken by orders.port; both are TCP"),
    ],
)
def test_a_bad_configuration_is_one_line_and_exit_code_2(arguments: list[str], line: str) -> None:
    result = venue("serve", *arguments)
    assert (result.returncode, result.stdout, result.stderr) == (2, "", line + "\n")


def test_a_password_from_a_pipe_becomes_a_line_for_the_configuration() -> None:
    result = venue("hash-password", stdin="Venue\n")
    assert (result.returncode, result.stderr) == (0, "")
    key, _, value = result.stdout.strip().partition(" = ")
    assert key == "password_hash"
    assert passwords.verify("venue", value.strip('"'))


def test_a_password_that_no_login_can_carry_is_one_line() -> None:
    result = venue("hash-password", stdin="elevenchars\n")
    assert (result.returncode, result.stderr) == (2, "venue: a password has 1 to 10 characters, not 11\n")


def run_main(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> int:
    """The exit code when the command raises this."""

    def command() -> None:
        """Fail."""
        raise error

    monkeypatch.setattr(cli.Command, "load", lambda self: command)
    monkeypatch.setattr(sys, "argv", ["venue", "trade"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return int(ended.value.code or 0)


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (ConfigError("a:\n  b"), 2, "venue: a: b\n"),
        (OSError(98, "Address already in use"), 2, "venue: Address already in use\n"),
        (FileNotFoundError(2, "No such file or directory", "x"), 2, "venue: x: No such file or directory\n"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_typed_errors_and_the_systems_are_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: BaseException, code: int, line: str
) -> None:
    assert run_main(monkeypatch, error) == code
    assert capsys.readouterr().err == line


def test_ctrl_c_while_a_command_is_imported_is_no_bug(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(self: cli.Command) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli.Command, "load", interrupted)
    monkeypatch.setattr(sys, "argv", ["venue", "trade"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert (ended.value.code, capsys.readouterr().err) == (130, "")


def test_a_bug_shows_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ZeroDivisionError):
        run_main(monkeypatch, ZeroDivisionError())


def test_a_reader_that_has_gone_away_is_no_error() -> None:
    code = "from venue.cli import main; main()"
    reading, writing = os.pipe()
    os.close(reading)
    result = subprocess.run(
        [sys.executable, "-c", code, "--version"], stdout=writing, stderr=subprocess.PIPE, text=True, timeout=60
    )
    os.close(writing)
    assert result.stderr == ""


def record(message: str, *arguments: Any, **fields: Any) -> logging.LogRecord:
    made = logging.LogRecord("venue.gateway", logging.INFO, "", 0, message, arguments, None)
    made.created = 1_764_498_980.25
    vars(made).update(fields)
    return made


def test_logs_are_one_line_of_json() -> None:
    line = logs.JsonFormatter().format(record("login %s", "accepted", account="TRADER", sequence=17, password="venue"))
    assert "\n" not in line
    assert json.loads(line) == {
        "at": "2025-11-30T10:36:20.250000+00:00",
        "level": "info",
        "logger": "gateway",
        "event": "login accepted",
        "account": "TRADER",
        "sequence": 17,
        "password": "(hidden)",
    }


def test_logs_for_people_are_one_line_of_words() -> None:
    line = logs.PlainFormatter().format(record("cut\noff", account="TRADER", reason="no life sign", old_password="x"))
    assert line.partition(".250 ")[2] == (
        "INFO    gateway: cut off account=TRADER reason='no life sign' old_password=(hidden)"
    )


def test_where_logs_go_decides_how_they_look() -> None:
    code = "import logging\nfrom venue import logs\nlogs.setup()\nlogging.getLogger('venue.feed').warning('gap')"
    for form, beginning in [("", '{"at":'), ("json", '{"at":'), ("plain", "")]:
        result = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            env=os.environ | {"VENUE_LOG": form},
            timeout=60,
        )
        assert result.stdout == ""
        assert result.stderr.startswith(beginning)
        assert ("WARNING feed: gap" in result.stderr) is (form == "plain")
