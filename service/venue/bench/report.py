"""What a bench gives: tables for people, one JSON object for programs, and under which conditions it was measured."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import orjson
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

BUSY: Final = 1.5
"""Load average from which something else took part."""


@dataclass(frozen=True, slots=True)
class Rows:
    """One table. The first column is text, the others are figures."""

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that a bench has to say."""

    tables: list[Rows]
    figures: dict[str, Any]
    """The JSON object, with numbers as they were measured."""
    notes: list[str] = field(default_factory=list)
    """Sentences under the tables: what was counted, what the figures can be held against."""


def cpu_model() -> str:
    """The processor's name for itself, as far as the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def conditions() -> dict[str, Any]:
    """What a figure depends on besides the code."""
    return {
        "cpu": cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "load_average": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "numba": version("numba"),
        "venue": version("venue"),
    }


def show(name: str, report: Report, before: dict[str, Any], as_json: bool) -> None:
    """Print a report on standard output; ``before`` are the conditions when the bench began."""
    if as_json:
        sys.stdout.write(orjson.dumps({"bench": name, "conditions": before} | report.figures).decode() + "\n")
        return
    console = Console()
    for rows in report.tables:
        table = Table(title=rows.title, title_justify="left", title_style="bold")
        table.add_column(rows.columns[0], overflow="fold")
        for column in rows.columns[1:]:
            table.add_column(column, justify="right")
        for row in rows.rows:
            table.add_row(*row)
        console.print(table)
    for note in report.notes:
        console.print(note, style="dim", highlight=False)
    if before["load_average"] > BUSY:
        console.print("The machine was busy before this began: the figures say little.", style="yellow")
    facts = "{cpu}, {cores} cores, load {load_average} before, Python {python}, Numba {numba}".format_map(before)
    console.print(facts, style="dim", highlight=False)


class Steps:
    """The progress of a bench on standard error, if that is a terminal."""

    def __init__(self, progress: Progress, total: int) -> None:
        self._progress = progress
        self._task = progress.add_task("", total=total)

    def begin(self, what: str) -> None:
        """Say what is measured now."""
        self._progress.update(self._task, description=what, refresh=True)

    def done(self) -> None:
        """One of the steps is over."""
        self._progress.advance(self._task)
        self._progress.refresh()


@contextmanager
def steps(total: int) -> Iterator[Steps]:
    """A progress bar over so many steps, gone when they are done. It redraws between steps only: a thread that drew
    it ten times a second would be measured, too."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(
        *columns, console=console, transient=True, auto_refresh=False, disable=not console.is_terminal
    ) as bar:
        shown = Steps(bar, total)
        yield shown
