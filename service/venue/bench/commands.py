"""`venue bench …`: each prints a table for people or, with --json, one JSON object."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

app = typer.Typer(help="Measure it.", no_args_is_help=True)

AsJson = Annotated[bool, typer.Option("--json", help="One JSON object instead of a table.")]


@app.callback()
def bench() -> None:
    """Measure the exchange. Run benches on a quiet machine: the figures are the median of several runs."""


@app.command()
def match(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A workload of the matching-engine benchmark, plain or xz.")
    ],
    repeats: Annotated[int, typer.Option(min=1, help="Runs; the median time counts.")] = 5,
    as_json: AsJson = False,
) -> None:
    """Match a workload in one thread and print the SHA-256 of its reports.

    The time is that of matching and writing the reports into memory. Reading the file, sorting, formatting and hashing
    are not in it. The hash has to be the one that is published for the workload.

    venue bench match orders_normal_s23_n1000000.bin.xz --json
    """
    from venue.bench import match as workload

    result, _ = workload.measure(workload.read_workload(file), repeats)
    if as_json:
        print(json.dumps(dataclasses.asdict(result)))
        return
    table = Table(title=f"matching, one thread, median of {repeats}", title_justify="left")
    for column in ("messages", "reports", "seconds", "messages/s"):
        table.add_column(column, justify="right")
    figures = (f"{result.messages:,}", f"{result.reports:,}", f"{result.seconds:.4f}", f"{result.messages_per_s:,.0f}")
    table.add_row(*figures)
    console = Console()
    console.print(table)
    console.print(f"sha256 {result.sha256}")
