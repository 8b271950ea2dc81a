"""Compiling ahead: what is compiled is what an exchange needs, and a first start has help."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from venue import compiling
from venue.engine import kernel
from venue.warm_up import spare_exchange

jit_only = pytest.mark.skipif(not kernel.JIT, reason="looks at compiled code")

EVERYTHING = """
import json, sys
from numba import types
from venue.compiling import compile_from_the_beginning, compile_from_the_end
from venue.warm_up import spare_exchange
from tempfile import TemporaryDirectory

def compiled():
    modules = [module for name, module in sys.modules.items() if name.startswith("venue.")]
    found = {f"{f.__module__}.{f.__name__}": f for module in modules for f in vars(module).values()
             if getattr(f, "overloads", None)}
    return {name.removeprefix("venue.engine."): function for name, function in found.items()}

def signatures():
    return {name: len(function.overloads) for name, function in compiled().items()}

with TemporaryDirectory() as folder:
    small = spare_exchange(folder)
    compile_from_the_beginning(small)
    needed = signatures()
    compile_from_the_end(small)
    helped = signatures()
floats = [f"{name}: {variable} is {kind}" for name, function in compiled().items()
          for overload in function.overloads.values()
          for variable, kind in overload.type_annotation.typemap.items()
          if "float" in str(kind) or "complex" in str(kind)]
odd = [f"{name}: {kind}" for name, function in compiled().items() for signature in function.signatures
       for kind in signature if isinstance(kind, types.Integer) and kind != types.int64]
print(json.dumps({"needed": needed, "helped": helped, "floats": floats, "odd": odd}))
"""


@pytest.fixture(scope="module")
def cold(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What one process compiles that finds no cache. Without optimisation, which is quicker: types stay the same."""
    own = {"VENUE_CACHE_DIR": str(tmp_path_factory.mktemp("cache")), "NUMBA_OPT": "0"}
    run = subprocess.run(
        [sys.executable, "-c", EVERYTHING], env=os.environ | own, capture_output=True, text=True, check=True
    )
    found: dict[str, Any] = json.loads(run.stdout)
    return found


@jit_only
@pytest.mark.timeout(600)
def test_no_function_is_compiled_for_a_constant_or_a_narrow_integer(cold: dict[str, Any]) -> None:
    """Only what rings and pools need is compiled more than once: for each kind of record that they hold."""
    assert {"loop.run", "order_decoder.decode", "routing.route"} <= set(cold["needed"])
    assert cold["odd"] == []
    several = {name.rpartition(".")[0] for name, count in cold["needed"].items() if count > 1}
    assert several == {"ring", "sharding", "allocators.pool"}


@jit_only
@pytest.mark.timeout(600)
def test_no_float_ever_enters_the_engine(cold: dict[str, Any]) -> None:
    """Numba makes a float of a variable that is unsigned on one branch and signed on the other."""
    assert cold["floats"] == []


@jit_only
@pytest.mark.timeout(600)
def test_the_helper_of_a_first_start_compiles_nothing_that_is_not_needed(cold: dict[str, Any]) -> None:
    assert cold["helped"] == cold["needed"]


SERVED = """
import contextlib
import gc
from venue import app, config
from venue.compiling import compile_kernels
from venue.telemetry.page import create
from venue.warm_up import spare_exchange
from tempfile import TemporaryDirectory
from numba.core.dispatcher import Dispatcher

def compiled():
    return sum(len(thing.overloads) for thing in gc.get_objects() if isinstance(thing, Dispatcher))

with TemporaryDirectory() as folder:
    compile_kernels(spare_exchange(folder), contextlib.ExitStack())
    counts = [compiled()]
settings = config.load()
page = create(mode=settings.engine.mode, accounts=[account.username for account in settings.accounts])
try:
    compile_kernels(app.assemble(settings, page), contextlib.ExitStack())
finally:
    page.remove()
print(*counts, compiled())
"""


@jit_only
@pytest.mark.timeout(600)  # the first time it compiles
def test_what_is_compiled_ahead_is_what_an_exchange_runs() -> None:
    run = subprocess.run([sys.executable, "-c", SERVED], capture_output=True, text=True, check=True)
    ahead, served = map(int, run.stdout.split())
    assert ahead >= 5  # from the cache come only those that Python calls
    assert served == ahead, "the exchange needs something that was not compiled ahead"


@jit_only
@pytest.mark.timeout(600)
def test_venue_warm_up_says_where_the_kernels_are() -> None:
    run = subprocess.run([sys.executable, "-m", "venue", "warm-up"], capture_output=True, text=True, check=True)
    assert run.stderr == ""
    found = re.fullmatch(r"kernels ready after [\d.]+ s in (/.+)\n", run.stdout)
    assert found is not None, run.stdout
    with tempfile.TemporaryDirectory() as folder:
        entries = compiling.entries_of(spare_exchange(folder))
    assert set(entries) == {"loop.run", "order_turn.turn", "merging.turn", "feed_packets.receive"}
    for name in entries:  # what a later start looks for
        assert any(Path(found[1]).glob(f"*/{name}-*.nbi"))


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
    with contextlib.ExitStack() as helping:
        compiling.help_first_start(["loop.run"], helping)
        (helper,) = helpers
        assert helper.poll() is None
    assert helper.returncode is not None, "it goes on for nothing"
    assert [record.message for record in caplog.records] == [
        "compiling kernels for this version and this CPU, once: may take half a minute"
    ]


@jit_only
def test_on_one_processor_a_helper_would_only_be_in_the_way(
    helpers: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3})
    with contextlib.ExitStack() as helping:
        compiling.help_first_start(["loop.run"], helping)
        assert helpers == []


@jit_only
def test_a_helper_that_is_stopped_leaves_no_files(
    helpers: list[subprocess.Popen[bytes]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    with contextlib.ExitStack() as helping:
        compiling.help_first_start(["loop.run"], helping)
        (helper,) = helpers
        while not list(temporary.rglob("*.live")):  # megabytes of shared memory, reserved whole
            assert helper.poll() is None
            time.sleep(0.01)
    assert list(temporary.iterdir()) == []


def test_a_later_start_needs_none(
    helpers: list[subprocess.Popen[bytes]], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "engine_0123").mkdir()
    (tmp_path / "engine_0123" / "loop.run-165.py311.nbi").write_bytes(b"")
    with contextlib.ExitStack() as helping:
        compiling.help_first_start(["loop.run"], helping)
        assert (helpers, caplog.records) == ([], [])


@jit_only
def test_a_start_that_lacks_the_kernels_of_one_part_is_a_first_one_too(tmp_path: Path, helpers: object) -> None:
    folder = tmp_path / "engine_0123"
    folder.mkdir()
    assert compiling.is_first_start(["loop.run", "merging.turn"])
    (folder / "loop.run-165.py311.nbi").write_bytes(b"")
    assert not compiling.is_first_start(["loop.run"])
    assert compiling.is_first_start(["loop.run", "merging.turn"])
    (folder / "merging.turn-100.py311.nbi").write_bytes(b"")
    assert not compiling.is_first_start(["loop.run", "merging.turn"])
