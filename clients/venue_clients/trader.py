"""The command `venue trade`: one order from the command line, or many at a prompt."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Annotated, Final

import typer

from venue.wire import ouch
from venue.wire.layout import WireError
from venue_clients import words
from venue_clients.login_options import Host, Password, Port
from venue_clients.orders import OrderState, OrderView, Status
from venue_clients.prices import MARKET_PRICE, PriceError, ticks
from venue_clients.trading import DAY, IOC, DisconnectedError, TradingClient

SIDES: Final = {"buy": "B", "sell": "S", "short": "T"}
HELP: Final = """buy SYMBOL QUANTITY PRICE [ioc]     PRICE in dollars, or market
sell SYMBOL QUANTITY PRICE [ioc]    short SYMBOL ... sells short
cancel NUMBER [TOTAL]               TOTAL = what may remain, with what is filled; without it, all is canceled
replace NUMBER TOTAL PRICE          a new price, and the place at the back of the queue there
orders                              those that stand, and the latest others
position                            shares by symbol
help, quit"""
ORDERS_SHOWN: Final = 10


class InputError(ValueError):
    """Words that are no order; one line."""


@dataclass(frozen=True, slots=True)
class Order:
    side: str
    symbol: str
    quantity: int
    price: int
    tif: str


def parse_order(parts: Sequence[str], *, ioc: bool = False) -> Order:
    """`buy AAPL 100 189.50`, with `market` for a price and `ioc` at the end. Raises InputError or PriceError."""
    if len(parts) == 5 and parts[4].lower() == "ioc":
        parts, ioc = parts[:4], True
    if parts and parts[0].lower() in ("cancel", "replace", "orders", "position"):
        raise InputError(f"{parts[0]} is typed at the prompt: start `venue trade` without arguments")
    if len(parts) != 4 or parts[0].lower() not in SIDES:
        raise InputError(f"expected: {'|'.join(SIDES)} SYMBOL QUANTITY PRICE [ioc], such as: buy AAPL 100 189.50")
    verb, symbol, quantity, price = parts
    market = price.lower() == "market"
    return Order(
        side=SIDES[verb.lower()],
        symbol=symbol.upper(),
        quantity=_whole(quantity, "quantity"),
        price=MARKET_PRICE if market else ticks(price),
        tif=IOC if ioc or market else DAY,
    )


def _whole(text: str, what: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 9:
        raise InputError(f"{what} is a whole number of up to nine digits, not {text!r}")
    return int(text)


def trade(
    order: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[buy|sell|short SYMBOL QUANTITY PRICE]", help="Nothing = a prompt.", show_default=False
        ),
    ] = None,
    ioc: Annotated[bool, typer.Option("--ioc", help="Trade at once or not at all.")] = False,
    wait: Annotated[float, typer.Option(metavar="SECONDS", help="Stay for fills of an order that rests.")] = 0.0,
    user: Annotated[str, typer.Option(help="Account.")] = "TRADER",
    password: Password = "venue",
    host: Host = "127.0.0.1",
    port: Port = 26_400,
) -> None:
    """Enter orders: one from the command line, or many at a prompt.

    PRICE is in dollars, or `market`. One order prints what happens to it and ends with exit code 0 if it was accepted,
    1 if it was rejected. It stays in the book when the command ends, unless the account says otherwise; `cancel NUMBER`
    at the prompt cancels it.

        venue trade buy AAPL 100 189.50

        venue trade sell MSFT 50 market

        venue trade buy AAPL 100 189.40 --wait 30

    Without an order there is a prompt, which also reads from a pipe, and knows the orders of earlier logins:

        echo cancel 1 | venue trade
    """
    if order:
        _check_options(order)
        wanted = parse_order(order, ioc=ioc)
        raise typer.Exit(asyncio.run(_trade_once(host, port, user, password, wanted, wait)))
    if ioc or wait:
        raise InputError("--ioc and --wait go with an order on the command line")
    asyncio.run(_trade_at_prompt(host, port, user, password))


def _check_options(words: Sequence[str]) -> None:
    """Unknown options come among the words of an order, so that a negative number is not taken for one."""
    for word in words:
        if re.match(r"-(?![0-9.])", word):
            raise InputError(f"no such option: {word}; try venue trade --help")


async def _trade_once(host: str, port: int, user: str, password: str, wanted: Order, wait_s: float) -> int:
    """The exit code. Everything that an order causes at once comes before the answer to a later query."""
    async with await TradingClient.connect(host, port, user, password, sequence=0) as client:
        await anext(client)  # the answer to the query of the login
        shown = OrderView()
        user_ref = client.enter(wanted.symbol, wanted.side, wanted.quantity, wanted.price, wanted.tif)
        await client.query()
        async for _, message in client:
            if isinstance(message, ouch.AccountQueryResponse):
                break
            _show(message, shown)
        state = client.view.orders[user_ref]
        if state.status is Status.PENDING:
            print(f"no answer to #{user_ref}", flush=True)
        if state.is_live and wait_s > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    async for _, message in client:
                        _show(message, shown)
                        if not state.is_live:
                            break
        if state.is_live:
            how = f"to cancel it, type `cancel {user_ref}` at the prompt of `venue trade`"
            print(f"resting #{user_ref} {state.open:,} at {words.price(state.price)}; {how}", flush=True)
        return 0 if state.status in (Status.LIVE, Status.DONE) else 1


def _show(message: ouch.OutboundMessage, shown: OrderView) -> None:
    """`shown` is what all messages up to this one tell; the client's own view may be ahead of what is printed."""
    line = words.message_line(message, shown.apply(message))
    if line is not None:
        print(line, flush=True)


# --- the prompt -----------------------------------------------------------------------------------------------------


async def _trade_at_prompt(host: str, port: int, user: str, password: str) -> None:
    async with await TradingClient.connect(host, port, user, password) as client:
        await Prompt(client, interactive=sys.stdin.isatty()).run(read_lines())


class Prompt:
    """Reads commands and prints what happens, also what nobody asked for, such as a fill of a resting order."""

    def __init__(self, client: TradingClient, *, interactive: bool) -> None:
        self._client = client
        self._interactive = interactive
        self._first_sequence = client.next_sequence
        self._shown = OrderView()
        self._queries_seen = 0
        self._seen = asyncio.Event()
        self._commands: dict[str, Callable[[list[str]], None]] = {
            "cancel": self._cancel,
            "replace": self._replace,
            "orders": self._orders,
            "position": self._position,
            "help": lambda parts: print(HELP),
            **dict.fromkeys(SIDES, self._enter),
        }

    async def run(self, lines: AsyncGenerator[str, None]) -> None:
        """Until the lines end or say quit. Raises TradingError when the venue is gone for good."""
        reader = asyncio.create_task(self._read())
        listener = asyncio.create_task(self._listen(lines))
        try:
            await asyncio.wait([reader, listener], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (reader, listener):
                task.cancel()
            results = await asyncio.gather(reader, listener, return_exceptions=True)
        for result in results:
            if isinstance(result, Exception):
                raise result

    async def _read(self) -> None:
        async for sequence, message in self._client:
            if sequence < self._first_sequence:  # of an earlier connection
                self._shown.apply(message)
                continue
            if isinstance(message, ouch.AccountQueryResponse):
                self._queries_seen += 1
                self._seen.set()
            _show(message, self._shown)
        print("the session has ended", flush=True)

    async def _listen(self, lines: AsyncGenerator[str, None]) -> None:
        self._ask()
        async with aclosing(lines):
            async for line in lines:
                parts = line.split()
                if parts and parts[0].lower() in ("quit", "exit"):
                    return
                if parts:
                    await self._execute(parts)
                self._ask()

    async def _execute(self, parts: list[str]) -> None:
        """One command. What it causes at once is shown before the next one is read."""
        command = self._commands.get(parts[0].lower())
        if command is None:
            print(f"no such command: {parts[0]}; try help", flush=True)
            return
        try:
            command(parts)
            seen = self._queries_seen
            await self._client.query()
            while self._queries_seen == seen:
                self._seen.clear()
                await self._seen.wait()
        except (InputError, PriceError, WireError, DisconnectedError) as error:
            print(error, flush=True)

    def _ask(self) -> None:
        if self._interactive:
            print("venue> ", end="", flush=True)

    def _enter(self, parts: list[str]) -> None:
        order = parse_order(parts)
        self._client.enter(order.symbol, order.side, order.quantity, order.price, order.tif)

    def _cancel(self, parts: list[str]) -> None:
        if len(parts) not in (2, 3):
            raise InputError("expected: cancel NUMBER [TOTAL]")
        order = self._known(parts[1])
        self._client.cancel(order.user_ref, _whole(parts[2], "TOTAL") if len(parts) == 3 else 0)

    def _replace(self, parts: list[str]) -> None:
        if len(parts) != 4:
            raise InputError("expected: replace NUMBER TOTAL PRICE")
        order = self._known(parts[1])
        self._client.replace(order.user_ref, _whole(parts[2], "TOTAL"), ticks(parts[3]))

    def _known(self, text: str) -> OrderState:
        number = _whole(text.removeprefix("#"), "NUMBER")
        order = self._client.view.orders.get(number)
        if order is None or not order.is_live:
            raise InputError(f"order {number} does not stand (any more)")
        return order

    def _orders(self, parts: list[str]) -> None:
        orders = list(self._client.view.orders.values())
        shown = {order.user_ref for order in orders if order.is_live} | {o.user_ref for o in orders[-ORDERS_SHOWN:]}
        for order in orders:
            if order.user_ref in shown:
                print(words.order_line(order))
        if not orders:
            print("no orders")

    def _position(self, parts: list[str]) -> None:
        for symbol, shares in sorted(self._client.view.positions.items()):
            print(f"{symbol} {shares:+,}")
        if not self._client.view.positions:
            print("no position")


async def read_lines(fd: int = 0) -> AsyncGenerator[str, None]:
    """Lines of a terminal, a pipe or a file, without a thread: one that waits for input could not be ended."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    try:
        loop.add_reader(fd, ready.set)
    except PermissionError:  # a file: epoll does not take it, and it never makes us wait
        ready.set()
        watched = False
    else:
        watched = True
    rest = b""
    try:
        while True:
            await ready.wait()
            if watched:
                ready.clear()
            data = os.read(fd, 65_536)
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                yield line.decode("utf-8", "replace")
            if not data:
                if rest:
                    yield rest.decode("utf-8", "replace")
                return
    finally:
        if watched:
            loop.remove_reader(fd)
