"""Warnings about what strangers send, who must not be able to fill the log."""

from __future__ import annotations

import logging
import time
from typing import Final

INTERVAL_NS: Final = 1_000_000_000


class SparingLog:
    """Logs one line a second of each kind, with how many more of them there were. For one thread."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._last: dict[str, tuple[int, int]] = {}

    def warning(self, event: str, **fields: object) -> None:
        """``event`` is the kind: fixed words, never text that came from outside. That belongs in ``fields``."""
        now_ns = time.monotonic_ns()
        logged_ns, kept = self._last.get(event, (now_ns - INTERVAL_NS, 0))
        if now_ns - logged_ns < INTERVAL_NS:
            self._last[event] = (logged_ns, kept + 1)
            return
        self._last[event] = (now_ns, 0)
        self._log.warning(event, extra=fields | ({"more_of_these": kept} if kept else {}))
