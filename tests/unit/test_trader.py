"""`venue trade`: what is understood, what is printed, and the exit codes."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from scripted_exchange import Exchange, accepted, canceled, executed
from venue.wire import ouch
from venue_clients import words
from venue_clients.orders import OrderState, Status
from venue_clients.prices import MARKET_PRICE, PriceError, ticks
from venue_clients.trader import InputError, Order, Prompt, parse_order, read_lines
from venue_clients.trading import TradingClient


@pytest.mark.parametrize(
    ("text", "order"),
    [
        ("buy AAPL 100 189.50", Order("B", "AAPL", 100, 1_895_000, "0")),
        ("SELL aapl 1 0.5", Order("S", "AAPL", 1, 5_000, "0")),
        ("short AAPL 100 189.50 ioc", Order("T", "AAPL", 100, 1_895_000, "3")),
        ("buy AAPL 100 market", Order("B", "AAPL", 100, MARKET_PRICE, "3")),
    ],
)
def test_orders_as_people_write_them(text: str, order: Order) -> None:
    assert parse_order(text.split()) == order


@pytest.mark.parametrize(
    "text",
    ["", "buy", "buy AAPL 100", "by AAPL 100 1", "buy AAPL x 1", "buy AAPL -1 1", "buy AAPL 1.5 1", "buy A 1 2 day"],
)
def test_what_is_no_order(text: str) -> None:
    with pytest.raises(InputError):
        parse_order(text.split())
    with pytest.raises(PriceError):
        parse_order(["buy", "AAPL", "100", "cheap"])


def test_every_reason_has_words() -> None:
    for reason in ouch.RejectReason:
        assert f"(0x{reason:02X})" in words.reject_reason(reason)
    for cancel in ouch.CancelReason:
        assert words.cancel_reason(cancel)
    for flag in ouch.LiquidityFlag:
        assert words.liquidity(flag)
    assert words.reject_reason(0x7F) == "reason 0x7F"
    assert (words.cancel_reason("?"), words.liquidity("?")) == ("reason '?'", "flag '?'")


def test_an_order_in_words() -> None:
    order = OrderState(7, "AAPL", "B", 1_000, ticks("189.50"), "0", Status.LIVE, open=400, executed=600)
    order.notional = 600 * ticks("189.45")
    line = "#7 buy 1,000 AAPL at 189.50, day: 400 open, 600 executed at 189.4500 on average"
    assert words.order_line(order) == line


class Desk(Exchange):
    """Fills 60 shares of a buy at once, rejects what is not AAPL, and cancels the rest of an IOC."""

    def __init__(self) -> None:
        super().__init__()
        self.answer = self.handle

    def handle(self, message: ouch.InboundMessage) -> list[ouch.OutboundMessage]:
        if isinstance(message, ouch.CancelOrder):
            return [canceled(message.user_ref_num, 40)]
        assert isinstance(message, ouch.EnterOrder)
        ref = message.user_ref_num
        if message.symbol != "AAPL":
            return [ouch.Rejected(timestamp=1, user_ref_num=ref, reason=0x17, cl_ord_id="")]
        answers: list[ouch.OutboundMessage] = [accepted(message)]
        if message.side == "B":
            answers.append(executed(ref, 60, ticks("189.48")))
        if message.time_in_force == "3":
            answers.append(canceled(ref, 40, "I"))
        return answers


def command(*arguments: str, stdin: bytes = b"", desk: Desk | None = None) -> tuple[int, str, str]:
    """Exit code, output and errors of `venue trade ...` at a desk."""

    async def run() -> tuple[int, str, str]:
        exchange = desk or Desk()
        await exchange.start()
        process = await asyncio.create_subprocess_exec(
            *[sys.executable, "-c", "from venue.cli import main; main()", "trade", "--port", str(exchange.port)],
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(60):
            out, err = await process.communicate(stdin)
        await exchange.stop()
        assert process.returncode is not None
        return process.returncode, out.decode(), err.decode()

    return asyncio.run(run())


def test_one_order_from_the_command_line() -> None:
    code, out, err = command("buy", "AAPL", "100", "189.50")
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "accepted #1 buy 100 AAPL at 189.50, day",
        "filled #1 60 at 189.48 (removed liquidity), 40 left",
        "resting #1 40 at 189.50; to cancel it, type `cancel 1` at the prompt of `venue trade`",
    ]


def test_what_cannot_trade_at_once_is_canceled() -> None:
    code, out, _ = command("buy", "AAPL", "100", "market")
    assert code == 0
    assert out.splitlines() == [
        "accepted #1 buy 100 AAPL at market, immediate or cancel",
        "filled #1 60 at 189.48 (removed liquidity), 40 left",
        "canceled #1 40 (nothing more to trade with at once)",
    ]
    assert command("--ioc", "buy", "AAPL", "100", "189.50")[1].splitlines()[-1].startswith("canceled #1 40")


def test_a_rejection_is_exit_code_1() -> None:
    code, out, err = command("buy", "NOPE", "100", "189.50")
    assert (code, out, err) == (1, "rejected #1 this symbol is not traded here (0x17)\n", "")


def test_what_is_no_order_or_finds_no_venue_is_exit_code_2_and_one_line() -> None:
    for arguments, line in [
        (["buy", "AAPL", "100", "cheap"], "venue: 'cheap' is no price in dollars, such as 189.50\n"),
        (
            ["buy", "AAPL"],
            "venue: expected: buy|sell|short SYMBOL QUANTITY PRICE [ioc], such as: buy AAPL 100 189.50\n",
        ),
        (["cancel", "1"], "venue: cancel is typed at the prompt: start `venue trade` without arguments\n"),
        (["buy", "AAPL", "-5", "1"], "venue: quantity is a whole number of up to nine digits, not '-5'\n"),
        (["buy", "AAPL", "100", "-.5", "--ioc"], "venue: a price is above 0 and at most 199999.99, not -.5\n"),
        (["buy", "AAPL", "100", "1", "--iok"], "venue: no such option: --iok; try venue trade --help\n"),
        (["-x", "buy", "AAPL", "100", "1"], "venue: no such option: -x; try venue trade --help\n"),
        (["buy", "TOOLONGNAME", "1", "1"], "venue: a symbol has at most 8 characters\n"),
        (["--ioc"], "venue: --ioc and --wait go with an order on the command line\n"),
    ]:
        assert command(*arguments) == (2, "", line)
    desk = Desk()
    desk.refuse = "A"
    assert command("buy", "AAPL", "100", "1", desk=desk) == (
        2,
        "",
        "venue: login of TRADER rejected: unknown name or wrong password\n",
    )


def test_waiting_for_fills_ends_with_the_order() -> None:
    desk = Desk()

    def handle(message: ouch.InboundMessage) -> list[ouch.OutboundMessage]:
        assert isinstance(message, ouch.EnterOrder)
        asyncio.get_running_loop().call_later(0.05, desk.say, executed(message.user_ref_num, 100, ticks("189.50")))
        return [accepted(message)]

    desk.answer = handle
    code, out, _ = command("sell", "AAPL", "100", "189.50", "--wait", "30", desk=desk)
    assert code == 0
    assert out.splitlines()[-1] == "filled #1 100 at 189.50 (removed liquidity), 0 left"


def test_a_prompt_reads_from_a_pipe() -> None:
    script = b"""help me
        buy AAPL 100 189.50
        buy AAPL 100 cheap
        fly
        cancel 9
        orders
        cancel 1
        position
        quit
        sell AAPL 1 1
    """
    code, out, err = command(stdin=script)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].startswith("buy SYMBOL QUANTITY PRICE")
    assert lines[-8:] == [
        "accepted #1 buy 100 AAPL at 189.50, day",
        "filled #1 60 at 189.48 (removed liquidity), 40 left",
        "'cheap' is no price in dollars, such as 189.50",
        "no such command: fly; try help",
        "order 9 does not stand (any more)",
        "#1 buy 100 AAPL at 189.50, day: 40 open, 60 executed at 189.4800 on average",
        "canceled #1 40 (as asked)",
        "AAPL +60",
    ]


def test_the_end_of_the_session_ends_the_prompt(capsys: pytest.CaptureFixture[str]) -> None:
    async def endless() -> AsyncGenerator[str, None]:
        await asyncio.Event().wait()
        yield ""

    async def story() -> None:
        desk = Desk()
        await desk.start()
        async with asyncio.timeout(20), await TradingClient.connect("127.0.0.1", desk.port, "TRADER", "x") as client:
            prompt = asyncio.create_task(Prompt(client, interactive=False).run(endless()))
            desk.say(ouch.SystemEvent(timestamp=0, event_code="E"))
            desk.end()
            await prompt
        await desk.stop()

    asyncio.run(story())
    assert capsys.readouterr().out == "the day is over\nthe session has ended\n"


def test_lines_come_from_files_and_pipes(tmp_path: Path) -> None:
    async def lines(fd: int) -> list[str]:
        return [line async for line in read_lines(fd)]

    path = tmp_path / "orders"
    path.write_bytes(b"one\n" + b"x" * 100_000 + b"\nlast")
    with path.open("rb") as file:
        assert asyncio.run(lines(file.fileno())) == ["one", "x" * 100_000, "last"]
    reading, writing = os.pipe()
    os.write(writing, b"one\ntwo\n")
    os.close(writing)
    assert asyncio.run(lines(reading)) == ["one", "two"]
    os.close(reading)
