"""What keeps the exchange of a demo busy: the replay in a thread, market maker and taker on the event loop."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, Final

from venue_clients.capture import open_capture
from venue_clients.demo.scene import Scene
from venue_clients.demo.service import DemoError, Service
from venue_clients.demo.tape import Tape
from venue_clients.line import UdpLine
from venue_clients.maker import Maker
from venue_clients.quoting import QuoteSettings
from venue_clients.replay import Replay
from venue_clients.taker import Taker
from venue_clients.taking import TakerRules
from venue_clients.touch import Touch
from venue_clients.trading import TradingClient

MAKER, TAKER = "MAKER", "TAKER"
ROLES: Final = {MAKER: "quotes around the touch", TAKER: "trades at random"}
QUOTES: Final = QuoteSettings(size=300, edge=-1, max_inventory=3_000)
TAKER_RATE: Final = 60.0
"""Orders a second."""
WINDOW_BYTES: Final = 64 << 20
LINGER_S: Final = 0.3
"""Until the next loop, or until the demo ends: both receivers of the feed are near."""
GRACE_S: Final = 2.0
"""When the exchange dies, its clients may notice first: so long is waited for the cause."""


class Players:
    """Started in two steps, stopped in one; `stop` may be called at any time, and again."""

    def __init__(self, scene: Scene, line: UdpLine, service: Service, clients: list[TradingClient], seed: int) -> None:
        """`clients` are logged in as MAKER and TAKER."""
        self.tape = Tape((MAKER, TAKER))
        self.replay = Replay(
            open_capture(scene.path),
            line,
            speed=scene.speed,
            from_ns=scene.from_ns,
            loops=None,
            symbols=() if scene.plan else scene.symbols,
            window_bytes=WINDOW_BYTES,
            linger_s=LINGER_S,
        )
        self.maker = Maker(clients[0], scene.symbols, QUOTES, lambda fill: self.tape.add(MAKER, fill))
        rules = TakerRules(seed, TAKER_RATE)
        self.taker = Taker(clients[1], scene.symbols, rules, lambda fill: self.tape.add(TAKER, fill))
        self._service = service
        self._tasks: dict[str, asyncio.Task[Any]] = {}

    def on_touch(self, symbol: str, touch: Touch) -> None:
        """Tell both what the feed shows."""
        self.maker.on_touch(symbol, touch)
        self.taker.on_touch(symbol, touch)

    def start_replay(self) -> None:
        self._tasks["the exchange"] = asyncio.create_task(self._service.ended())
        self._tasks["the replay"] = asyncio.create_task(asyncio.to_thread(self.replay.run))

    def start_trading(self) -> None:
        self._tasks["the market maker"] = asyncio.create_task(self.maker.run())
        self._tasks["the taker"] = asyncio.create_task(self.taker.run())

    async def check(self) -> None:
        """Raise DemoError, or the error itself where it is one of ours, if anything has ended that should not."""
        for name, task in self._tasks.items():
            if not task.done():
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(GRACE_S):
                    await self._service.ended()
                    raise await self._service.failure()
            error = task.exception()
            if error is not None and type(error).__module__.partition(".")[0] != "venue_clients":
                raise error  # a bug
            raise DemoError(f"{name} stopped: {error or 'its session has ended'}")

    async def stop(self) -> None:
        """The taker's and the maker's orders are canceled, then the feed ends."""
        tasks, self._tasks = self._tasks, {}
        self.taker.stop()
        self.maker.stop()
        await _finish(tasks, "the taker", "the market maker")
        self.replay.stop()
        await _finish(tasks, "the replay")
        if "the exchange" in tasks:
            tasks["the exchange"].cancel()


async def _finish(tasks: dict[str, asyncio.Task[Any]], *names: str) -> None:
    await asyncio.gather(*(tasks[name] for name in names if name in tasks), return_exceptions=True)
