"""Logs: one line an event on standard error, in words on a terminal and as JSON anywhere else.

    log = logging.getLogger("venue.gateway")
    log.info("login accepted", extra={"account": "TRADER", "sequence": 17})

VENUE_LOG=plain or json overrides the choice. The event is fixed words, so that it can be counted and searched for;
what differs from time to time goes into fields. Fields whose name holds "password", "token" or "secret" never get out.
There is no line for a single message of the hot path: those are counted.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import traceback
from datetime import UTC, datetime
from typing import Any, Final

import orjson

_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
"""What every record has; the rest came in `extra`."""
_SECRETS: Final = ("password", "token", "secret")


def setup(*, verbose: bool = False) -> None:
    """Send all logs of the process to standard error, from level INFO or (verbose) DEBUG on."""
    form = os.environ.get("VENUE_LOG", "")
    plain = sys.stderr.isatty() if form not in ("plain", "json") else form == "plain"
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(PlainFormatter() if plain else JsonFormatter())
    logging.basicConfig(handlers=[handler], level=logging.DEBUG if verbose else logging.INFO, force=True)
    for noisy in ("asyncio", "numba"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


class PlainFormatter(logging.Formatter):
    """`10:36:20.123 INFO    gateway: login accepted account=TRADER sequence=17`"""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created).strftime("%H:%M:%S.%f")[:-3]
        fields = "".join(f" {key}={_quoted(value)}" for key, value in _fields(record).items())
        line = f"{at} {record.levelname:7} {_short(record.name)}: {_one_line(record.getMessage())}{fields}"
        return f"{line}\n{_trace(record)}" if record.exc_info else line


class JsonFormatter(logging.Formatter):
    """`{"at":"2026-11-30T10:36:20.123456+00:00","level":"info","logger":"gateway","event":"login accepted",...}`"""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "logger": _short(record.name),
            "event": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info:
            line["traceback"] = _trace(record)
        try:
            return orjson.dumps(line, default=str, option=orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY).decode()
        except TypeError:  # text that is no UTF-8, as in the name of a file, or a number beyond 64 bits
            return json.dumps(line, default=str)


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    return {
        key: "(hidden)" if any(word in key.lower() for word in _SECRETS) else value
        for key, value in vars(record).items()
        if key not in _STANDARD
    }


def _short(name: str) -> str:
    return name.removeprefix("venue.")


def _quoted(value: object) -> str:
    text = str(value)
    return text if text and text.isprintable() and not set(text) & set(' "=') else repr(text)


def _one_line(text: str) -> str:
    return " ".join(text.splitlines())


def _trace(record: logging.LogRecord) -> str:
    return "".join(traceback.format_exception(*record.exc_info)).rstrip() if record.exc_info else ""
