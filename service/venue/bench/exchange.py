"""The exchange that benches measure: a real `venue serve`, a process of its own on loopback and free ports."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from venue.passwords import hash_password
from venue.telemetry.page import Page, Views, open_read_only
from venue.telemetry.pages import list_pages

READY_WITHIN_S: Final = 300.0
"""The first start compiles."""
STOP_WITHIN_S: Final = 30.0
ENDED_WITHIN_S: Final = 1.0
"""A process that dies closes its sockets before it is gone."""
PASSWORD: Final = "bench"
AGAINST_CLIENTS: Final = ("slow_client_cuts", "silence_cuts", "protocol_errors", "takeovers", "store_full")
"""Counters of the gateway."""


class BenchError(Exception):
    """A bench cannot be run, or what came back is not what was sent for; one line for a person."""


@dataclass(frozen=True, slots=True)
class Served:
    """A running exchange."""

    pid: int
    addresses: dict[str, tuple[str, int]]
    """By service: orders, http, and feed unless the mode is match."""
    page: Page
    ready_after_s: float
    """From starting the process to its ready line."""
    log: list[dict[str, Any]]
    """What it logged until then, if it logs JSON."""

    def counters(self) -> Views:
        """What it has counted so far."""
        return self.page.snapshot()


def accounts_toml(count: int) -> str:
    """So many accounts (their names: :func:`account_names`) with ``PASSWORD`` and without limits."""
    hashed = hash_password(PASSWORD)
    return "".join(f'[[accounts]]\nusername = "{name}"\npassword_hash = "{hashed}"\n' for name in account_names(count))


def account_names(count: int) -> list[str]:
    return [f"BENCH{number:X}" for number in range(count)]


@contextlib.contextmanager
def serving(config: str, **environment: str) -> Iterator[Served]:
    """Run `venue serve` with this TOML until the block ends. BenchError if it does not start; one out of the block says
    as well what the exchange knows of it."""
    with tempfile.TemporaryDirectory(prefix="venue-bench-") as folder:
        file, log = Path(folder) / "venue.toml", Path(folder) / "venue.log"
        file.write_text(config)
        begun = time.monotonic()
        with log.open("wb") as errors, _started(_command(file), errors.fileno(), environment) as process:
            addresses = _ready(process, log)
            ready_after_s = time.monotonic() - begun
            page = next((page.path for page in list_pages() if page.pid == process.pid), None)
            if page is None:
                raise BenchError("the exchange has no counters page")
            lines = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
            served = Served(process.pid, addresses, open_read_only(page), ready_after_s, lines)
            try:
                yield served
            except BenchError as error:
                raise BenchError("; the exchange ".join([str(error), *_known(process, served)])) from error


def _known(process: subprocess.Popen[bytes], served: Served) -> list[str]:
    """What the exchange has counted against its clients, or how it has ended."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        return [f"has ended with exit code {process.wait(ENDED_WITHIN_S)}"]
    counted = served.counters().gateway[0]
    return [f"counts {counted[name]} {name.replace('_', ' ')}" for name in AGAINST_CLIENTS if counted[name]]


def _command(config: Path) -> list[str]:
    ports = [word for name in ("order", "feed", "http") for word in (f"--{name}-port", "0")]
    return [sys.executable, "-m", "venue", "serve", "--config", str(config), *ports]


@contextlib.contextmanager
def _started(command: Sequence[str], errors: int, environment: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(
        command, env=os.environ | environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors
    ) as process:
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(STOP_WITHIN_S)
            except subprocess.TimeoutExpired:
                process.kill()


def _ready(process: subprocess.Popen[bytes], log: Path) -> dict[str, tuple[str, int]]:
    """Where it listens, as its line on standard output says."""
    assert process.stdout is not None
    readable, _, _ = select.select([process.stdout], [], [], READY_WITHIN_S)
    line = process.stdout.readline() if readable else b""
    if not line:
        last = log.read_text(errors="replace").strip().rpartition("\n")[2]
        raise BenchError(f"the exchange did not start: {last or 'it said nothing'}")
    named = {name: value.rpartition(":") for name, value in json.loads(line).items() if isinstance(value, str)}
    return {name: (host, int(port)) for name, (host, _, port) in named.items()}
