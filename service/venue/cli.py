"""The command line: `venue COMMAND`. Commands are imported when they are called, so that `venue --help` is quick.

A typed error of ours, or of the system, ends a command with one line on standard error and exit code 2; Ctrl-C ends it
with 130, and a reader that has gone away ends it quietly. Anything else is a bug and shows its traceback.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

RUN = "Run an exchange"
TRADE = "Trade on it"
DATA = "Feed it"
SERVICE = "Look after it"


class Command(NamedTuple):
    target: str
    """`module:function`, whose parameters are the command's, or `module:app` for a command with commands of its own."""
    panel: str
    summary: str
    """First line of the function's docstring, which the help page shows without importing it."""
    judges_options: bool = False
    """What looks like an option and is none comes as an argument, such as a negative number."""

    def load(self) -> Callable[..., Any]:
        module, _, name = self.target.partition(":")
        loaded: Callable[..., Any] = getattr(import_module(module), name)
        return loaded

    def placeholder(self) -> Callable[..., Any]:
        def command() -> None: ...

        command.__doc__ = self.summary
        return command


COMMANDS = {
    "serve": Command("venue.cli:serve", RUN, "Run the exchange until Ctrl-C or SIGTERM."),
    "demo": Command(
        "venue_clients.demo.command:demo", RUN, "Show a whole exchange at work: feed, market maker, trades, latencies."
    ),
    "trade": Command(
        "venue_clients.trader:trade",
        TRADE,
        "Enter orders: one from the command line, or many at a prompt.",
        judges_options=True,
    ),
    "maker": Command(
        "venue_clients.commands_trading:maker", TRADE, "Quote both sides of a stock around the touch of the feed."
    ),
    "load": Command(
        "venue_clients.commands_trading:load",
        TRADE,
        "Send orders at a fixed rate and measure how long the answers take.",
    ),
    "replay": Command(
        "venue_clients.commands_replay:replay", DATA, "Send recorded market data as a live MoldUDP64 feed over UDP."
    ),
    "generate": Command(
        "venue_clients.commands_replay:generate",
        DATA,
        "Make up a Nasdaq day: an ITCH 5.0 BinaryFILE with the message mix of a real one.",
    ),
    "stat": Command(
        "venue.telemetry.stat:stat", SERVICE, "Look at a running exchange, or at what a crashed one has left behind."
    ),
    "bench": Command("venue.bench.commands:app", SERVICE, "Measure it."),
    "warm-up": Command("venue.warm_up:warm_up", SERVICE, "Compile the kernels now, so that the next start is quick."),
    "hash-password": Command(
        "venue.cli:hash_password", SERVICE, "Turn a password into the line that goes into the configuration."
    ),
}

_HELP = """A stock exchange in a box.

Orders come in over TCP (OUCH 5.0 in SoupBinTCP), a recorded or made-up day over UDP (ITCH 5.0 in MoldUDP64),
and both meet in one price-time book. See it at work with `venue demo`, or try it with three terminals:

    venue serve

    venue replay FILE --to 127.0.0.1:26477

    venue trade buy AAPL 100 189.50
"""


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"venue {version('venue')}")
        raise typer.Exit


def _start(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None: ...


def build(arguments: Sequence[str]) -> typer.Typer:
    """The application, with the one command that the arguments call for and placeholders for the others."""
    app = typer.Typer(
        name="venue",
        help=_HELP,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode="markdown",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_start)
    called = next((argument for argument in arguments if not argument.startswith("-")), None)
    for name, command in COMMANDS.items():
        loaded = command.load() if name == called else command.placeholder()
        if isinstance(loaded, typer.Typer):
            app.add_typer(loaded, name=name, rich_help_panel=command.panel)
        else:
            settings = {"ignore_unknown_options": command.judges_options}
            app.command(name, rich_help_panel=command.panel, context_settings=settings)(loaded)
    return app


def main() -> None:
    """Entry point of the `venue` script."""
    try:
        build(sys.argv[1:])(prog_name="venue")
    except KeyboardInterrupt:  # while the command was imported
        sys.exit(130)
    except Exception as error:
        if not is_expected(error):
            raise
        print(f"venue: {describe(error)}", file=sys.stderr)
        sys.exit(2)
    finally:
        _flush()


def is_expected(error: Exception) -> bool:
    """Whether this is a failure that its text explains: of a class of ours, or of the system."""
    ours = type(error).__module__.partition(".")[0] in ("venue", "venue_clients")
    return ours or isinstance(error, OSError)


def describe(error: Exception) -> str:
    """One line."""
    text = str(error)
    if isinstance(error, OSError) and error.strerror and type(error).__module__ == "builtins":
        text = error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"
    return " ".join(text.split()) or type(error).__name__


def _flush() -> None:
    """Write out what is left; if the reader has gone, let the interpreter not find out again at exit."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


# --- the commands of the service itself ---------------------------------------------------------------------------

_PORT: dict[str, Any] = {"metavar": "PORT", "rich_help_panel": "Instead of what the file says"}


def serve(
    config: Annotated[
        Path | None, typer.Option("--config", "-c", metavar="FILE", help="TOML file; none is needed.")
    ] = None,
    host: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Of all three sockets.", rich_help_panel="Instead of what the file says"),
    ] = None,
    order_port: Annotated[int | None, typer.Option(help="TCP port for orders; 0 = any free one.", **_PORT)] = None,
    feed_port: Annotated[int | None, typer.Option(help="UDP port of the feed.", **_PORT)] = None,
    http_port: Annotated[int | None, typer.Option(help="TCP port of metrics and page.", **_PORT)] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log details as well.")] = False,
) -> None:
    """Run the exchange until Ctrl-C or SIGTERM.

    When it is ready, one line of JSON on standard output names its addresses; logs go to standard error, as JSON unless
    that is a terminal (VENUE_LOG=plain or json decides otherwise). Without a file it listens on loopback and knows the
    accounts TRADER, MAKER, TAKER and LOADER, all with the password "venue". It goes with its terminal, unless started
    by nohup.
    """
    from venue import config as configuration
    from venue import logs

    settings = configuration.override(
        configuration.load(config), host=host, order_port=order_port, feed_port=feed_port, http_port=http_port
    )
    logs.setup(verbose=verbose)
    serve_until_stopped: Callable[[configuration.Config], int] = import_module("venue.app").serve
    raise typer.Exit(serve_until_stopped(settings))


def hash_password() -> None:
    """Turn a password into the line that goes into the configuration.

    Asks for it twice on a terminal, reads one line from a pipe. Passwords have 1 to 10 ASCII characters (SoupBinTCP),
    and upper and lower case are the same.
    """
    from venue.config import ConfigError
    from venue.passwords import hash_password as hashed

    if sys.stdin.isatty():
        password: str = typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    else:
        password = sys.stdin.readline().rstrip("\r\n")
    try:
        print(f'password_hash = "{hashed(password)}"')
    except ValueError as error:
        raise ConfigError(str(error)) from None
