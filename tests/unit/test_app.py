"""The composition root without a process: what it does when a part of it fails."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import errno
import functools
import gc
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import uvloop

from venue import app, config, feed, gateway, shards
from venue.config import Config, ConfigError
from venue.telemetry import page as pages
from venue.telemetry.page import Page, State

NO_DESCRIPTORS = OSError(errno.EMFILE, os.strerror(errno.EMFILE))


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    made = pages.create(mode="match", accounts=["TRADER"], folder=tmp_path)
    yield made
    made.remove()


@pytest.mark.parametrize("retry_s", [feed.RETRY_S, gateway.RETRY_S, shards.RETRY_S])
def test_a_retry_is_a_pause_for_the_timers_of_uvloop_too(retry_s: float) -> None:
    assert round(retry_s * 1_000) >= 1, "uvloop rounds to milliseconds, and no pause at all is a busy loop"


# --- the telemetry process ----------------------------------------------------------------------------------------


class Process:
    """Stands for the telemetry process."""

    exit_code: int | None = None

    def poll(self) -> int | None:
        return self.exit_code


class Launches:
    """Starts of the telemetry process by a clock of our own; how each ends is up to the test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, page: Page) -> None:
        self.now_s = 0.0
        self.at_s: list[float] = []
        self.error: OSError | None = None
        self.exit_code: int | None = None
        monkeypatch.setattr(app, "launch", self.launch)
        with socket.socket() as listening:
            self.telemetry = app.Telemetry(page, listening, "", clock=lambda: self.now_s)

    def launch(self, *_: object) -> Process:
        self.at_s.append(self.now_s)
        if self.error is not None:
            raise self.error
        process = Process()
        process.exit_code = self.exit_code
        return process

    def beats_until(self, end_s: float) -> None:
        while self.now_s < end_s:
            self.now_s += app.BEAT_S
            self.telemetry.keep_running()


def test_a_telemetry_process_that_lived_is_followed_by_another_at_once(
    monkeypatch: pytest.MonkeyPatch, page: Page
) -> None:
    launches = Launches(monkeypatch, page)
    launches.beats_until(100)
    launches.telemetry.process.exit_code = -9  # type: ignore[attr-defined]
    launches.beats_until(200)
    assert launches.at_s == [0, 100.5]


def test_a_telemetry_process_that_always_dies_is_started_ever_more_rarely(
    monkeypatch: pytest.MonkeyPatch, page: Page
) -> None:
    launches = Launches(monkeypatch, page)
    launches.exit_code = launches.telemetry.process.exit_code = 1  # type: ignore[attr-defined]
    launches.beats_until(100)
    assert launches.at_s == [0, 1, 3, 7, 15, 31, 61, 91]
    launches.exit_code = None
    launches.beats_until(200)
    launches.telemetry.process.exit_code = 1  # type: ignore[attr-defined]
    launches.beats_until(201)
    assert launches.at_s[8:] == [121, 200.5], "one has lived: the next is started at once again"


def test_a_telemetry_process_that_cannot_be_started_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, page: Page, caplog: pytest.LogCaptureFixture
) -> None:
    launches = Launches(monkeypatch, page)
    launches.telemetry.process.exit_code = 1  # type: ignore[attr-defined]
    launches.error = NO_DESCRIPTORS
    launches.beats_until(4)
    launches.error = None
    launches.beats_until(100)
    assert launches.at_s == [0, 1, 3, 7]
    failed = [vars(record) for record in caplog.records if "cannot be started" in record.message]
    assert [record["again_after_s"] for record in failed] == [2, 4]
    assert {record["reason"] for record in failed} == {"Too many open files"}


# --- the beat -----------------------------------------------------------------------------------------------------


def run_until_it_ends(monkeypatch: pytest.MonkeyPatch, page: Page, *matching: threading.Thread, **parts: Any) -> int:
    """The exit code of an exchange without sockets and books; `parts` are called with every beat."""

    async def nothing(*_: object) -> None:
        pass

    def quiet(*_: object) -> None:
        pass

    monkeypatch.setattr(app, "start_matching", lambda thread: thread)
    monkeypatch.setattr(app, "open_doors", nothing)
    monkeypatch.setattr(app, "stop", nothing)
    telemetry: Any = SimpleNamespace(keep_running=parts.get("keep_running", quiet))
    operator = SimpleNamespace(poll=parts.get("poll", quiet))
    exchange: Any = SimpleNamespace(page=page, matchers=matching, operator=operator, shards=None, market_offset_ns=0)
    sockets: Any = SimpleNamespace(addresses={})

    async def story() -> int:
        async with asyncio.timeout(30):
            return await app.run(exchange, sockets, telemetry)

    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(story())
    finally:
        gc.unfreeze()


def broken(*_: object) -> None:
    raise KeyError("broken")


@pytest.mark.parametrize("part", ["keep_running", "poll"])
def test_whatever_breaks_the_beat_stops_the_exchange(
    monkeypatch: pytest.MonkeyPatch, page: Page, caplog: pytest.LogCaptureFixture, part: str
) -> None:
    assert run_until_it_ends(monkeypatch, page, threading.current_thread(), **{part: broken}) == 1
    assert page.state is State.STOPPING
    [record] = [record for record in caplog.records if record.levelno == logging.CRITICAL]
    assert (vars(record)["what"], record.exc_info and record.exc_info[0]) == ("the beat ended", KeyError)


def test_an_exchange_whose_matching_thread_has_ended_stops(
    monkeypatch: pytest.MonkeyPatch, page: Page, caplog: pytest.LogCaptureFixture
) -> None:
    ended = threading.Thread(target=int)
    ended.start()
    ended.join()
    assert run_until_it_ends(monkeypatch, page, threading.current_thread(), ended) == 1
    assert "a matching thread has ended" in caplog.text


def test_a_stop_by_a_signal_is_no_failure(monkeypatch: pytest.MonkeyPatch, page: Page) -> None:
    def terminate() -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    assert run_until_it_ends(monkeypatch, page, threading.current_thread(), poll=terminate) == 0


# --- what is left of a start that fails ---------------------------------------------------------------------------


@pytest.fixture
def any_ports(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Config]:
    """A configuration to serve, with its page in `tmp_path`; signal handlers are put back."""
    monkeypatch.setattr(app, "create_page", functools.partial(pages.create, folder=tmp_path))
    before = {number: signal.getsignal(number) for number in app.STOPS}
    yield config.override(Config(), order_port=0, feed_port=0, http_port=0)
    for number, handler in before.items():
        signal.signal(number, handler)


def opened_by(monkeypatch: pytest.MonkeyPatch) -> list[app.Sockets]:
    opened: list[app.Sockets] = []
    real = app.open_sockets

    def open_sockets(settings: Config) -> app.Sockets:
        opened.append(real(settings))
        return opened[0]

    monkeypatch.setattr(app, "open_sockets", open_sockets)
    return opened


def test_a_telemetry_process_that_never_starts_leaves_nothing_behind(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, any_ports: Config
) -> None:
    def launch(*_: object) -> None:
        raise NO_DESCRIPTORS

    opened = opened_by(monkeypatch)
    monkeypatch.setattr(app, "launch", launch)
    with pytest.raises(OSError, match="Too many open files"):
        app.serve(any_ports)
    assert list(tmp_path.iterdir()) == []
    assert opened[0].orders.fileno() == opened[0].http.fileno() == -1


@pytest.mark.parametrize(
    ("mode", "host", "warned"),
    [("consume", "0.0.0.0", [["0.0.0.0"]]), ("consume", "127.0.0.1", []), ("match", "0.0.0.0", [])],
)
def test_a_feed_that_anybody_can_send_is_warned_of(
    monkeypatch: pytest.MonkeyPatch,
    any_ports: Config,
    caplog: pytest.LogCaptureFixture,
    mode: config.Mode,
    host: str,
    warned: list[list[str]],
) -> None:
    def launch(*_: object) -> None:
        raise NO_DESCRIPTORS

    monkeypatch.setattr(app, "launch", launch)
    open_feed = msgspec.structs.replace(any_ports.feed, host=host)
    engine = msgspec.structs.replace(any_ports.engine, mode=mode)
    with pytest.raises(OSError, match="Too many open files"):
        app.serve(msgspec.structs.replace(any_ports, feed=open_feed, engine=engine))
    warnings = [vars(record) for record in caplog.records if record.levelno == logging.WARNING]
    assert [record["hosts"] for record in warnings if "from anybody" in record["message"]] == warned


@pytest.mark.parametrize(("before", "stops"), [(signal.SIG_DFL, True), (signal.SIG_IGN, False)])
def test_a_closed_terminal_stops_the_exchange_unless_nohup_says_no(before: signal.Handlers, stops: bool) -> None:
    code = (
        f"import signal; signal.signal(signal.SIGHUP, {int(before)}); from venue import app; "
        "print(signal.SIGHUP in app.STOPS)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said == f"{stops}\n"


@pytest.mark.parametrize("number", app.STOPS)
def test_a_stop_while_the_page_is_made_leaves_nothing_behind(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, any_ports: Config, number: signal.Signals
) -> None:
    def create(**arguments: Any) -> Page:
        made = pages.create(folder=tmp_path, **arguments)
        os.kill(os.getpid(), number)
        return made

    opened = opened_by(monkeypatch)
    monkeypatch.setattr(app, "create_page", create)
    monkeypatch.setattr(app, "launch", lambda *_: SimpleNamespace(terminate=int, wait=int))
    monkeypatch.setattr(os, "_exit", sys.exit)
    with pytest.raises(SystemExit) as stopped:
        app.serve(any_ports)
    assert stopped.value.code == 0
    assert list(tmp_path.iterdir()) == []
    assert opened[0].orders.fileno() == -1


@pytest.mark.parametrize("error", [MemoryError(), OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)), OverflowError()])
def test_capacities_beyond_the_memory_are_one_line(
    monkeypatch: pytest.MonkeyPatch, page: Page, error: Exception
) -> None:
    def create(**_: object) -> None:
        raise error

    many = (1 << 31) - 2
    huge = msgspec.structs.replace(Config(), engine=config.Engine(orders=many, levels=many))
    with monkeypatch.context() as patched, contextlib.ExitStack() as closing:
        patched.setattr("venue.engine.books.create", create)
        patched.setattr("venue.engine.system.wake_descriptor", lambda: closing.enter_context(open(os.devnull)).fileno())
        with pytest.raises(ConfigError) as caught:
            app.assemble(huge, page)
    assert str(caught.value).startswith(f"engine: not enough memory for {many} orders, {many} levels, ")


@pytest.fixture
def stopping_early(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[list[str], list[int]]]:
    """What is cleared up by a stop before the exchange is ready, and with what codes the process would end."""
    cleared: list[str] = []
    exits: list[int] = []
    monkeypatch.setattr(os, "_exit", exits.append)
    before = [signal.getsignal(number) for number in app.STOPS]
    with contextlib.ExitStack() as closing:
        closing.callback(cleared.append, "page")
        with app.stops_held_back(functools.partial(app.end_at_once, closing)):
            pass
        closing.callback(signal.raise_signal, signal.SIGTERM)
        yield cleared, exits
    for number, handler in zip(app.STOPS, before, strict=True):
        signal.signal(number, handler)


def test_a_second_stop_does_not_end_what_the_first_one_clears_up(stopping_early) -> None:
    cleared, exits = stopping_early
    signal.raise_signal(signal.SIGINT)
    assert (cleared, exits) == (["page"], [0])
    signal.raise_signal(signal.SIGTERM)
    assert (cleared, exits) == (["page"], [0])


def test_a_stop_ends_the_process_even_if_something_cannot_be_cleared_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise NO_DESCRIPTORS

    monkeypatch.setattr(os, "_exit", sys.exit)
    monkeypatch.setattr(app, "ignore_stops", int)
    closing = contextlib.ExitStack()
    closing.callback(broken)
    with pytest.raises(SystemExit) as stopped:
        app.end_at_once(closing, signal.SIGTERM, None)
    assert stopped.value.code == 1


def test_a_stop_while_the_compiler_calls_back_is_not_lost(stopping_early) -> None:
    """An exception that comes up there goes no further."""
    cleared, exits = stopping_early
    callback = ctypes.CFUNCTYPE(None)(lambda: signal.raise_signal(signal.SIGTERM))
    callback()
    assert (cleared, exits) == (["page"], [0])
