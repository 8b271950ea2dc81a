"""Faults on purpose, to test receivers: packets lost, sent twice or overtaken, the same ones for the same seed."""

from __future__ import annotations

import random


class Faults:
    """Decides packet by packet what really goes out. Rates are in percent of packets, each fault drawn for itself.

    A reordered packet is held back until the next one that is sent has overtaken it. One thread may use it.
    """

    def __init__(self, drop: float = 0.0, duplicate: float = 0.0, reorder: float = 0.0, seed: int = 1) -> None:
        for name, percent in (("drop", drop), ("duplicate", duplicate), ("reorder", reorder)):
            if not 0 <= percent <= 100:
                raise ValueError(f"{name} is a percentage from 0 to 100, not {percent}")
        self._drop, self._duplicate, self._reorder = drop / 100, duplicate / 100, reorder / 100
        self._uniform = random.Random(seed).random
        self._held: list[bytes] = []
        self.dropped = self.duplicated = self.reordered = 0

    def apply(self, packet: bytes) -> list[bytes]:
        """The packets to send now in place of this one."""
        drop, duplicate, reorder = self._uniform(), self._uniform(), self._uniform()
        if drop < self._drop:
            self.dropped += 1
            return []
        out = [packet]
        if duplicate < self._duplicate:
            self.duplicated += 1
            out.append(packet)
        if self._held:
            out += self._held
            self._held = []
            self.reordered += 1
        elif reorder < self._reorder:
            self._held = out
            return []
        return out

    def flush(self) -> list[bytes]:
        """What is still held back, once nothing more will overtake it."""
        held, self._held = self._held, []
        return held
