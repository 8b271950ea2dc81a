"""The options of every command that logs in: where, and with which password."""

from __future__ import annotations

from typing import Annotated

import typer

Password = Annotated[str, typer.Option(envvar="VENUE_PASSWORD", help="Of the account.", show_default=False)]
Host = Annotated[str, typer.Option(help="Where the venue takes orders.")]
Port = Annotated[int, typer.Option(metavar="PORT", min=1, max=65_535, help="Its TCP port.")]
