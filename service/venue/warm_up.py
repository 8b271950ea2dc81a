"""`venue warm-up`: compile the kernels without running an exchange.

``python -m venue.warm_up FOLDER`` helps a first start, which gives it a folder to keep files in and clears that away.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec
from numba.core import event
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from venue.app import Exchange, assemble
from venue.compiling import compile_from_the_end, compile_kernels
from venue.config import Config, Engine, check
from venue.engine import kernel
from venue.telemetry.page import create as create_page

SMALL = Engine(shards=2, orders=64, levels=64, instruments=8, orders_per_account=64, command_ring=64, event_ring=64)
"""Kernels do not depend on capacities, nor on how many matching threads there are if there are several."""


def spare_exchange(folder: str) -> Exchange:
    """All parts of a small exchange, only to compile for. What it would show lies in ``folder``, where nobody looks."""
    config = msgspec.structs.replace(Config(), engine=SMALL)
    check(config)
    page = create_page(mode=config.engine.mode, accounts=[], shards=config.engine.shards, folder=Path(folder) / "pages")
    return assemble(config, page)


class CompileCounter(event.Listener):
    """Shows how many functions have been compiled."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task = progress.add_task("compiling", total=None)

    def on_start(self, event: Any) -> None:
        pass

    def on_end(self, event: Any) -> None:
        self._progress.advance(self._task)


def warm_up() -> None:
    """Compile the kernels now, so that the next start is quick.

    Takes 14 to 30 seconds on two cores the first time, and about a second when it has been done before. Where they
    are kept is printed: VENUE_CACHE_DIR, or else ~/.cache/venue. They hold for this version and this CPU; with
    NUMBA_CPU_NAME=generic, here and when the exchange starts, for every CPU of the architecture.
    """
    begun = time.monotonic()
    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("compiling: {task.completed:.0f} functions"), TimeElapsedColumn())
    with (
        Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress,
        event.install_listener("numba:compile", CompileCounter(progress)),
        tempfile.TemporaryDirectory(prefix="venue-") as folder,
    ):
        compile_kernels(spare_exchange(folder), contextlib.ExitStack())
    print(f"kernels ready after {time.monotonic() - begun:.1f} s in {kernel.settings.CACHE_DIR}")


if __name__ == "__main__":
    compile_from_the_end(spare_exchange(sys.argv[1]))
