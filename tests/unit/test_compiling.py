"""Compiling ahead: what is compiled is what an exchange needs, and a first start has help."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from venue import compiling
from venue.engine import kernel

jit_only = pytest.mark.skipif(not kernel.JIT, reason="looks at compiled code")

BOTH = """
import gc
from venue import app, config
from venue.compiling import compile_from_the_end, compile_kernels
from venue.telemetry.page import create
from venue.warm_up import spare_exchange
from numba.core.dispatcher import Dispatcher

def compiled():
    return sum(len(thing.overloads) for thing in gc.get_objects() if isinstance(thing, Dispatcher))

counts = []
with spare_exchange() as small:
    compile_from_the_end(small)
    counts.append(compiled())
    compile_kernels(small)
    counts.append(compiled())
    compile_from_the_end(small)
    counts.append(compiled())
settings = config.load()
page = create(mode=settings.engine.mode, accounts=[account.username for account in settings.accounts])
try:
    compile_kernels(app.assemble(settings, page))
finally:
    page.remove()
counts.append(compiled())
print(*counts)
"""


@jit_only
@pytest.mark.timeout(600)  # the first time it compiles
def test_what_is_compiled_ahead_is_what_an_exchange_runs() -> None:
    run = subprocess.run([sys.executable, "-c", BOTH], capture_output=True, text=True, check=True)
    helped, warm, helped_again, served = map(int, run.stdout.split())
    assert 10 < helped < warm  # more of them, if it has to compile what they call as well
    assert helped_again == warm, "the helper compiles something that nobody needs"
    assert served == warm, "the exchange needs something that was not compiled ahead"


@jit_only
@pytest.mark.timeout(600)
def test_venue_warm_up_says_where_the_kernels_are() -> None:
    run = subprocess.run([sys.executable, "-m", "venue", "warm-up"], capture_output=True, text=True, check=True)
    assert run.stderr == ""
    found = re.fullmatch(r"kernels ready after [\d.]+ s in (/.+)\n", run.stdout)
    assert found is not None, run.stdout
    assert any(Path(found[1]).glob("*/loop.run-*.nbi"))


@pytest.fixture
def helpers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[subprocess.Popen[bytes]]:
    """An empty cache and two processors; the processes that were started to help."""
    started = []
    real = subprocess.Popen

    def popen(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
        started.append(real(*arguments, **options))
        return started[-1]

    monkeypatch.setenv("VENUE_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(kernel.settings, "CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(compiling.subprocess, "Popen", popen)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    return started


@jit_only
def test_a_first_start_says_so_and_has_help_until_it_is_done(
    helpers: list[subprocess.Popen[bytes]], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with compiling.help_for_first_start():
        (helper,) = helpers
        assert helper.poll() is None
    assert helper.returncode is not None, "it goes on for nothing"
    assert [record.message for record in caplog.records] == [
        "compiling the kernels: none yet for this version and this CPU"
    ]


@jit_only
def test_on_one_processor_a_helper_would_only_be_in_the_way(
    helpers: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3})
    with compiling.help_for_first_start():
        assert helpers == []


def test_a_later_start_needs_none(
    helpers: list[subprocess.Popen[bytes]], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "engine_0123").mkdir()
    (tmp_path / "engine_0123" / "loop.run-165.py311.nbi").write_bytes(b"")
    with compiling.help_for_first_start():
        assert (helpers, caplog.records) == ([], [])
