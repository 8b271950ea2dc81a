"""What every account has been sent today: its stream of Sequenced Data packets, as they go out on the wire.

A stream is append-only and never moves, so that it is the send buffer and the resume store at once: slices of it are
written to sockets without a copy, and a client that comes back is served from the byte where its next message begins.
Message numbers start at 1 (SoupBinTCP 3.00).

All streams lie in one reserved piece of memory whose pages exist only once they are written. The compiled encoder
(:mod:`venue.engine.order_encoder`) appends; all of it belongs to the loop thread.
"""

from __future__ import annotations

import mmap
from typing import Final

import numpy as np

from venue.engine import order_turn
from venue.engine.order_encoder import BYTES, COUNT, LINE, LOST, NO_LINE, SENT, SENT_NS, STATE_WORDS
from venue.engine.records import Array, aligned

BYTES_A_MESSAGE: Final = 16
"""No message of which there can be many is smaller with its frame, so there are places for so many offsets."""

RESERVE: Final = order_turn.RESERVE
"""A third of a stream is kept for the end of an account that has used the rest: all its orders are canceled then.
Each of them was Accepted with 67 bytes and takes 21 to be Canceled, so that two thirds of orders need less than a
quarter; what is in the rings at that time fits beside it: :mod:`venue.config` sees to that."""

MAP_NORESERVE: Final = getattr(mmap, "MAP_NORESERVE", 0x4000)
"""Linux: memory that may never be used is not counted. The constant is not in the module before Python 3.13."""


def _reserve(size_bytes: int) -> memoryview:
    """Zeros that take memory only once they are written."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE
    return memoryview(mmap.mmap(-1, size_bytes, flags=flags))


class Stream:
    """The packets of one account, read side. Sizes and positions are bytes from the stream's beginning."""

    def __init__(self, packets: memoryview, offsets: memoryview, state: memoryview) -> None:
        self._packets = packets
        self._offsets = offsets
        self._state = state

    @property
    def size_bytes(self) -> int:
        """How much there is so far: where the next message begins."""
        size: int = self._state[BYTES]
        return size

    @property
    def count(self) -> int:
        """The number of the last message, 0 before the first."""
        count: int = self._state[COUNT]
        return count

    @property
    def lost(self) -> int:
        """How many messages found no room: the stream ended before them."""
        lost: int = self._state[LOST]
        return lost

    @property
    def sent(self) -> int:
        """Where what has not been given to the account's connection begins."""
        sent: int = self._state[SENT]
        return sent

    @sent.setter
    def sent(self, position: int) -> None:
        self._state[SENT] = position

    @property
    def sent_ns(self) -> int:
        """When compiled code sent something last (monotonic)."""
        sent_ns: int = self._state[SENT_NS]
        return sent_ns

    def set_line(self, descriptor: int = NO_LINE) -> None:
        """The socket to which compiled code may send what comes next; none: it asks the connection."""
        self._state[LINE] = descriptor

    @property
    def nearly_full(self) -> bool:
        """Whether only the reserve is left."""
        capacity_bytes, capacity = len(self._packets), len(self._offsets)
        return (capacity_bytes - self.size_bytes) * RESERVE < capacity_bytes or (
            capacity - self.count
        ) * RESERVE < capacity

    def position(self, sequence: int) -> int:
        """Where message ``sequence`` (1 to ``count + 1``) begins. IndexError for any other number."""
        if not 1 <= sequence <= self.count + 1:
            raise IndexError(f"there is no message {sequence}, only 1 to {self.count}")
        if sequence > self.count:
            return self.size_bytes
        start: int = self._offsets[sequence - 1]
        return start

    def slice(self, start: int, end: int) -> memoryview:
        """The bytes from ``start`` to ``end`` (at most ``size_bytes``), which will never change."""
        return self._packets[start:end]


class Store:
    """The streams of ``accounts`` accounts, each with room for ``capacity_bytes``. OSError if there is no memory."""

    def __init__(self, accounts: int, capacity_bytes: int) -> None:
        entries = capacity_bytes // BYTES_A_MESSAGE
        if accounts < 1 or entries < 1:
            raise ValueError(f"no store for {accounts} accounts of {capacity_bytes} bytes each")
        packets = _reserve(accounts * capacity_bytes)
        offsets = _reserve(accounts * entries * 8).cast("q")
        state = aligned(accounts * STATE_WORDS, np.dtype("<i8"))
        state[LINE::STATE_WORDS] = NO_LINE
        words = state.data
        self.arrays: tuple[Array, Array, Array] = (
            np.frombuffer(packets, np.uint8),
            np.frombuffer(offsets, np.int64),
            state.reshape(accounts, STATE_WORDS),
        )
        """What the encoder takes: packets and offsets of all accounts one after the other, and a row of state each."""
        self.streams = [
            Stream(
                packets[account * capacity_bytes : (account + 1) * capacity_bytes],
                offsets[account * entries : (account + 1) * entries],
                words[account * STATE_WORDS : (account + 1) * STATE_WORDS],
            )
            for account in range(accounts)
        ]

    @property
    def lost(self) -> int:
        """Messages of all streams that found no room."""
        return int(self.arrays[2][:, LOST].sum())

    @property
    def size_bytes(self) -> int:
        """Of all streams together."""
        return int(self.arrays[2][:, BYTES].sum())
