"""What a replay has sent of one session, kept to answer re-requests.

Runs of records are kept as the blocks they were read in, with an index of four bytes a message, so that a replay can
keep millions of messages without an object for each (`venue.wire.moldudp64.MessageStore` keeps messages one by one).
The oldest runs go when the window is full: a day of 10 GB needs no more memory than the window.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from venue.wire.moldudp64 import HEADER, PAYLOAD_LIMIT_BYTES

BLOCKS_LIMIT_BYTES = PAYLOAD_LIMIT_BYTES - HEADER.size


class _Run(NamedTuple):
    first: int
    blocks: bytes
    bounds: npt.NDArray[np.uint32]  # one more than there are messages

    def size_bytes(self) -> int:
        return len(self.blocks) + self.bounds.nbytes + 200  # the objects themselves


class SentMessages:
    """The latest messages of a session, at most `window_bytes` of them. One thread may use it."""

    def __init__(self, window_bytes: int) -> None:
        self._window_bytes = window_bytes
        self._size_bytes = 0
        self._firsts: list[int] = []
        self._runs: list[_Run] = []

    def add(self, first: int, blocks: bytes, bounds: npt.NDArray[np.int64]) -> None:
        """Keep the records `blocks[bounds[i]:bounds[i + 1]]` as messages `first`, `first + 1` and so on."""
        at = bisect_left(self._firsts, first)
        if len(bounds) < 2 or self._firsts[at : at + 1] == [first]:
            return
        run = _Run(first, blocks, bounds.astype(np.uint32))
        self._firsts.insert(at, first)
        self._runs.insert(at, run)
        self._size_bytes += run.size_bytes()
        if self._size_bytes > self._window_bytes and len(self._runs) > 1:
            self._forget()

    def _forget(self) -> None:
        """Drop the oldest eighth at once, so that the cost of moving the lists is shared by many calls to `add`."""
        count = max(1, len(self._runs) // 8)
        while self._size_bytes - sum(run.size_bytes() for run in self._runs[:count]) > self._window_bytes:
            count += 1
        self._size_bytes -= sum(run.size_bytes() for run in self._runs[:count])
        del self._runs[:count], self._firsts[:count]

    def answer(self, sequence: int, count: int) -> tuple[int, bytes]:
        """How many messages from `sequence` on, up to `count`, fit one packet, and their blocks; 0 if none is here."""
        parts: list[bytes] = []
        room, found = BLOCKS_LIMIT_BYTES, 0
        while found < count:
            at = bisect_right(self._firsts, sequence + found) - 1
            if at < 0:
                break
            run = self._runs[at]
            begin = sequence + found - run.first
            if begin >= len(run.bounds) - 1:
                break
            start = int(run.bounds[begin])
            end = int(np.searchsorted(run.bounds, start + room, side="right")) - 1
            if end <= begin and not parts:
                end = begin + 1  # a single message longer than the limit, as a capture may hold
            end = min(end, begin + count - found)
            if end <= begin:
                break
            parts.append(run.blocks[start : int(run.bounds[end])])
            room -= len(parts[-1])
            found += end - begin
        return found, b"".join(parts)
