"""The demo itself: its parts in the order in which they start; they stop the other way round.

scene → market data of the players and line of the replay → exchange → logins → replay → market maker and taker
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, TypeVar

from venue_clients.demo import report, scene
from venue_clients.demo.figures import Watch, scrape
from venue_clients.demo.players import ROLES, Players
from venue_clients.demo.scene import Scene
from venue_clients.demo.screen import Moment, Screen, clock
from venue_clients.demo.service import Service
from venue_clients.line import UdpLine
from venue_clients.marketdata import MarketData
from venue_clients.stops import STOPS
from venue_clients.touch import Touch
from venue_clients.trading import TradingClient

PASSWORD: Final = "venue"
REFRESH_S: Final = 0.2
SCRAPE_EVERY_S: Final = 1.0
SETTLE_S: Final = 3.0
"""How long the last messages may take to show up in the figures."""
SIGNALLED: Final = 128
"""Exit code of a process ended by a signal, less the signal's number."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Wish:
    file: Path | None
    seconds: float
    keep: bool
    seed: int


class Stopped(Exception):  # noqa: N818 - no error: somebody wanted it
    """Ctrl-C came before there was anything to report."""


@dataclass(slots=True)
class Stage:
    """All parts, connected."""

    scene: Scene
    market: MarketData
    service: Service
    players: Players


class Demo:
    """One demo; `run` it once, on an event loop of its own."""

    def __init__(self, wish: Wish, screen: Screen) -> None:
        self._wish = wish
        self._screen = screen
        self._watch = Watch()
        self._scraped_at_s = 0.0
        self._stopping = asyncio.Event()
        self._signal = 0
        self._players: Players | None = None

    async def run(self) -> int:
        """The exit code. Raises DemoError, and what captures, sockets and clients raise; nothing is left behind."""
        loop = asyncio.get_running_loop()
        for number in STOPS:
            loop.add_signal_handler(number, self._stop, number)
        try:
            async with AsyncExitStack() as stack:
                with self._screen.picture():
                    stage = await self._set_up(stack)
                    await self._play(stage, self._wish.seconds)
                    if not self._wish.keep or self._signal:
                        await stage.players.stop()
                        await self._settle(stage)
                await self._finish(stage)
        except Stopped:
            self._screen.say("stopped")
        return SIGNALLED + self._signal if self._signal else 0

    def _stop(self, number: int) -> None:
        self._signal = number
        self._stopping.set()

    # --- start ----------------------------------------------------------------------------------------------------

    async def _set_up(self, stack: AsyncExitStack) -> Stage:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="venue-demo-")))
        what = await self._choose(folder)
        market = await MarketData.listen("127.0.0.1:0", what.symbols, self._on_touch)
        stack.push_async_callback(market.close)
        line = stack.enter_context(UdpLine(market.address))
        market.recover_from(line.request_address)
        service = await Service.start(folder, line.request_address)
        stack.push_async_callback(service.stop)
        await self._start(service, what)
        self._screen.say("Watch it in a browser: http://{}:{}/".format(*service.addresses["http"]))
        line.also_to(service.addresses["feed"])
        host, port = service.addresses["orders"]
        clients = [
            await stack.enter_async_context(await TradingClient.connect(host, port, name, PASSWORD, sequence=0))
            for name in ROLES
        ]
        self._players = Players(what, line, service, clients, self._wish.seed)
        stack.push_async_callback(self._players.stop)
        return Stage(what, market, service, self._players)

    async def _choose(self, folder: Path) -> Scene:
        file, seconds = self._wish.file, self._wish.seconds
        if file is None:
            return scene.made_up(folder, scene.LONGEST_DAY_S if self._wish.keep else seconds, self._wish.seed)
        looking = asyncio.to_thread(scene.recorded, file, seconds, self._stopping.is_set)
        return await self._while_waiting(f"looking through {file.name}", looking)

    async def _start(self, service: Service, what: Scene) -> None:
        """The exchange starts while a day is made up."""

        async def both() -> None:
            writing = asyncio.create_task(asyncio.to_thread(what.write, self._stopping.is_set))
            try:
                await service.ready()
            finally:
                await writing

        compiles = "the first start compiles for about half a minute"
        if not self._screen.moves:
            self._screen.say(f"starting an exchange for {what.title}; {compiles}")
        await self._while_waiting(f"starting an exchange; {compiles}", both())

    async def _while_waiting(self, text: str, work: Awaitable[T]) -> T:
        """Wait with something to look at. Raises Stopped."""
        task, since_s = asyncio.ensure_future(work), time.monotonic()
        while not task.done() and not self._stopping.is_set():
            self._screen.waiting(text, time.monotonic() - since_s)
            await asyncio.wait({task}, timeout=REFRESH_S / 2)
        if self._stopping.is_set():
            task.cancel()
            await asyncio.wait({task})
            raise Stopped
        return task.result()

    def _on_touch(self, symbol: str, touch: Touch) -> None:
        if self._players is not None:
            self._players.on_touch(symbol, touch)

    # --- life -----------------------------------------------------------------------------------------------------

    async def _play(self, stage: Stage, seconds: float) -> None:
        """Replay and trade for so long, or until Ctrl-C."""
        players, stats = stage.players, stage.players.replay.stats
        players.start_replay()
        since_s = time.monotonic()
        while stats.recorded_ns < stage.scene.from_ns and not self._stopping.is_set():
            self._screen.waiting(f"building the books up to {clock(stage.scene.from_ns)}", time.monotonic() - since_s)
            await players.check()
            await self._pause(0.02)
        if self._stopping.is_set():
            raise Stopped
        await self._settle(stage)
        players.start_trading()
        await self._watch_for(stage, seconds)

    async def _watch_for(self, stage: Stage, seconds: float | None) -> None:
        since_s = time.monotonic()
        while not self._stopping.is_set():
            await stage.players.check()
            elapsed_s = time.monotonic() - since_s
            if seconds is not None and elapsed_s >= seconds:
                return
            await self._scrape(stage)
            self._screen.show(self._moment(stage, elapsed_s, seconds))
            await self._pause(REFRESH_S if seconds is None else min(REFRESH_S, seconds - elapsed_s))

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            pass

    async def _scrape(self, stage: Stage, every_s: float = SCRAPE_EVERY_S) -> None:
        """New figures, if it is time for some; one scrape that fails is made up for by the next."""
        now_s = time.monotonic()
        if now_s - self._scraped_at_s < every_s:
            return
        self._scraped_at_s = now_s
        with suppress(OSError, HTTPException):
            self._watch.take(await scrape(stage.service.addresses["http"]), now_s)

    def _moment(self, stage: Stage, elapsed_s: float, seconds: float | None) -> Moment:
        what, players = stage.scene, stage.players
        return Moment(
            title=f"{what.title}, ×{what.speed:g}",
            elapsed_s=elapsed_s,
            seconds=seconds,
            recorded_ns=players.replay.stats.recorded_ns,
            watch=self._watch,
            stocks=[(symbol, stage.market.touch(symbol), players.maker.inventory(symbol)) for symbol in what.symbols],
        )

    # --- end ------------------------------------------------------------------------------------------------------

    async def _settle(self, stage: Stage) -> None:
        """Wait until the exchange has taken in, and the figures show, all that has been sent so far."""
        until_s = time.monotonic() + SETTLE_S
        sent = stage.players.replay.stats.messages
        while time.monotonic() < until_s:
            await self._scrape(stage, 0.05)
            if self._watch.latest.total("venue_feed_messages_total") >= sent:
                return
            await asyncio.sleep(0.05)

    async def _finish(self, stage: Stage) -> None:
        """The report; with --keep all goes on until Ctrl-C."""
        keep = self._wish.keep and not self._signal
        if keep:
            await self._scrape(stage, 0.0)
        console = report.output()
        players = stage.players
        sent = None if keep else players.replay.stats.messages
        report.print_report(console, self._watch, players.tape, ROLES, sent)
        if not keep:
            console.print("Stopped." if self._signal else "It is over; with --keep everything goes on.")
            return
        name = stage.scene.symbols[0]
        report.print_next_steps(console, stage.service.addresses, name, stage.market.touch(name))
        with self._screen.picture():
            await self._watch_for(stage, None)
        await players.stop()
        self._signal = 0
        self._screen.say("stopped")
