"""An event loop in which waiting takes no time, for tests of what clients do by the clock."""

from __future__ import annotations

import asyncio
import selectors
from typing import Any

SECOND = 1_000_000_000


class VirtualSelector(selectors.SelectSelector):
    """Waiting takes no time: the clock jumps to when it would be over."""

    now_ns = 1_000 * SECOND

    def select(self, timeout: float | None = None) -> Any:
        self.now_ns += max(0, round((timeout or 0) * SECOND))
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self.selector = VirtualSelector()
        super().__init__(self.selector)

    def time(self) -> float:
        return self.selector.now_ns / SECOND
