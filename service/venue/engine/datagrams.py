"""Reading many UDP datagrams with one system call, into memory that is allocated once.

On Linux ``recvmmsg`` is called from compiled code; elsewhere, or without compilation, each datagram is one ``readv``.
"""

from __future__ import annotations

import os
import sys
from typing import Any, Final, NamedTuple

import numpy as np
from numba import types

from venue.engine.atomics import address
from venue.engine.kernel import JIT, kernel
from venue.engine.records import Array

BATCH: Final = 64
"""Datagrams read at once. Beyond some tens the system call's own cost is spread thin already."""
SLOT_BYTES: Final = 9_216
"""Room for one datagram, of which the last byte stays free: a jumbo frame. Only what is written is ever touched."""
TRUNCATED: Final = -1
"""In the place of a length: the datagram was longer than its slot, and its end is gone."""

HEADER_WORDS: Final = 8  # struct mmsghdr in 64-bit Linux: 56 bytes of msghdr, unsigned msg_len, padding
IOV_POINTER: Final = 2  # msg_iov
IOV_COUNT: Final = 3  # msg_iovlen
FLAGS: Final = 6  # msg_flags in the low half
LENGTH: Final = 7  # msg_len in the low half
LOW_HALF: Final = 0xFFFFFFFF
MSG_TRUNC: Final = 0x20
MSG_DONTWAIT: Final = 0x40

HAVE_RECVMMSG: Final = JIT and sys.platform == "linux" and sys.maxsize > 2**32

if HAVE_RECVMMSG:
    _recvmmsg: Any = types.ExternalFunction(
        "recvmmsg", types.int32(types.int32, types.int64, types.uint32, types.int32, types.int64)
    )


class Batch(NamedTuple):
    """The datagrams read last. Slot ``i`` is ``arena[i * SLOT_BYTES :]``."""

    arena: Array  # uint8[BATCH * SLOT_BYTES]
    lengths: Array  # int64[BATCH], or TRUNCATED


@kernel
def receive_many(descriptor: int, headers: Array, lengths: Array) -> int:
    """Read what is there into the slots behind ``headers`` (int64[BATCH * HEADER_WORDS]); how many datagrams it was."""
    count = int(_recvmmsg(descriptor, address(headers, 0), len(lengths), MSG_DONTWAIT, 0))
    for i in range(count):
        length = headers[i * HEADER_WORDS + LENGTH] & LOW_HALF
        truncated = headers[i * HEADER_WORDS + FLAGS] & MSG_TRUNC
        lengths[i] = TRUNCATED if truncated else length
    return max(count, 0)


class DatagramReader:
    """Reads from one non-blocking UDP socket, which stays its owner's. For one thread.

    ``many`` chooses between the two ways to read; both give the same.
    """

    def __init__(self, descriptor: int, many: bool = HAVE_RECVMMSG) -> None:
        self.batch = Batch(np.zeros(BATCH * SLOT_BYTES, np.uint8), np.zeros(BATCH, np.int64))
        self._descriptor = descriptor
        self._many = many
        self._vectors = np.empty((BATCH, 2), np.int64)  # struct iovec {void *base; size_t length}
        self._vectors[:, 0] = self.batch.arena.ctypes.data + np.arange(BATCH) * SLOT_BYTES
        self._vectors[:, 1] = SLOT_BYTES - 1
        self.headers = np.zeros(BATCH * HEADER_WORDS, np.int64)
        vector_bytes = self._vectors.strides[0]
        self.headers[IOV_POINTER::HEADER_WORDS] = self._vectors.ctypes.data + np.arange(BATCH) * vector_bytes
        self.headers[IOV_COUNT::HEADER_WORDS] = 1
        memory = self.batch.arena.data
        self._slots = [memory[i * SLOT_BYTES : (i + 1) * SLOT_BYTES] for i in range(BATCH)]

    def receive(self) -> int:
        """Read what is there, at most ``BATCH`` datagrams, over the last batch; 0 if nothing is.

        An error that the socket holds (a connected one learns that its peer is not there) is taken and counts as
        nothing.
        """
        if self._many:
            return int(receive_many(self._descriptor, self.headers, self.batch.lengths))
        for i in range(BATCH):
            try:
                length = os.readv(self._descriptor, [self._slots[i]])
            except OSError:
                return i
            self.batch.lengths[i] = length if length < SLOT_BYTES else TRUNCATED
        return BATCH

    def datagram(self, i: int) -> bytes | None:
        """A copy of datagram ``i`` of the last batch; None if it was truncated."""
        length = int(self.batch.lengths[i])
        return None if length == TRUNCATED else bytes(self._slots[i][:length])
