"""MoldUDP64 traffic for benches: a made-up day as prepared datagrams, sent at a rate again and again, and a bare
receiver to hold an exchange against.

The day begins and ends without orders, so it can follow itself; only the sequence numbers are filled in anew.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numba import types

from venue.engine.atomics import address, store_be64
from venue.engine.datagrams import HEADER_WORDS, IOV_COUNT, IOV_POINTER, DatagramReader, receive_many
from venue.engine.kernel import kernel
from venue.engine.records import Array
from venue.engine.system import now_ns
from venue.wire.moldudp64 import HEADER
from venue_clients.generate import DayPlan, SyntheticDay, stock_names

DATAGRAM_BYTES: Final = 1_400
"""What feeds fill a datagram with, at most."""
LENGTH_BYTES: Final = 2
SEQUENCE_AT: Final = HEADER.offset("sequence")
SEND_BATCH: Final = 32
"""Datagrams sent with one system call, at most."""
LOOK_IN_NS: Final = 100_000_000
PAUSE_NS: Final = 100_000
"""The sender sleeps so long when nothing is due, as it shares its core with the receiver: with 20 µs it takes half as
much again of the processor for each message."""
SECOND_NS: Final = 1_000_000_000
POLLIN: Final = 1

_sendmmsg: Any = types.ExternalFunction("sendmmsg", types.int32(types.int32, types.int64, types.uint32, types.int32))
_ppoll: Any = types.ExternalFunction("ppoll", types.int32(types.int64, types.int64, types.int64, types.int64))


class Prepared(NamedTuple):
    """Datagrams, one after the other."""

    arena: Array  # uint8: all their bytes
    starts: Array  # int64[datagrams]: where each begins
    counts: Array  # int64[datagrams]: messages in each
    headers: Array  # int64[datagrams * HEADER_WORDS]: struct mmsghdr of each
    vectors: Array  # int64[datagrams, 2]: struct iovec of each
    scratch: Array  # int64[4] for system calls

    @property
    def messages(self) -> int:
        """In all of them."""
        return int(self.counts.sum())


def prepare(messages: int, stocks: int) -> Prepared:
    """A day of about so many messages on so many stocks, in datagrams of up to ``DATAGRAM_BYTES``."""
    plan = DayPlan(symbols=stock_names(stocks), messages=messages)
    datagrams, counts = pack(b"".join(SyntheticDay(plan).blocks()))
    arena = np.frombuffer(bytearray(b"".join(datagrams)), np.uint8)
    sizes = np.array([len(datagram) for datagram in datagrams], np.int64)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    vectors = np.stack([arena.ctypes.data + starts, sizes], axis=1)
    headers = np.zeros(len(sizes) * HEADER_WORDS, np.int64)
    headers[IOV_POINTER::HEADER_WORDS] = vectors.ctypes.data + np.arange(len(sizes)) * vectors.strides[0]
    headers[IOV_COUNT::HEADER_WORDS] = 1
    return Prepared(arena, starts, np.array(counts, np.int64), headers, vectors, np.zeros(4, np.int64))


def pack(blocks: bytes) -> tuple[list[bytes], list[int]]:
    """Datagrams with these message blocks, each filled as far as it goes; and how many messages are in each. Session
    and sequence number are left open."""
    datagrams, counts = [], []
    start = position = count = 0
    while position < len(blocks):
        end = position + LENGTH_BYTES + int.from_bytes(blocks[position : position + LENGTH_BYTES], "big")
        if count and HEADER.size + end - start > DATAGRAM_BYTES:
            datagrams.append(bytes(HEADER.size - 2) + count.to_bytes(2, "big") + blocks[start:position])
            counts.append(count)
            start, count = position, 0
        position, count = end, count + 1
    datagrams.append(bytes(HEADER.size - 2) + count.to_bytes(2, "big") + blocks[start:position])
    counts.append(count)
    return datagrams, counts


@kernel
def _send(
    p: Prepared, descriptor: int, sequence: int, first: int, limit: int, rate: int, start_ns: int
) -> tuple[int, int]:
    """Send datagrams number ``first`` to ``limit`` (they go round) as they are due: the messages before a datagram, at
    ``rate`` a second from ``start_ns`` on. Returns the next datagram and the next sequence number, before the end if
    that takes long."""
    look_in_ns = now_ns(p.scratch) + LOOK_IN_NS
    number = first
    while number < limit:
        now = now_ns(p.scratch)
        if now > look_in_ns:
            break
        due = (now - start_ns) * rate // SECOND_NS
        place = number % len(p.starts)
        count = 0
        most = min(SEND_BATCH, limit - number, len(p.starts) - place)
        while count < most and sequence - 1 <= due:
            store_be64(p.arena, int(p.starts[place + count]) + SEQUENCE_AT, sequence)
            sequence += int(p.counts[place + count])
            count += 1
        if count == 0:
            p.scratch[2] = 0
            p.scratch[3] = PAUSE_NS  # struct timespec {seconds, nanoseconds}
            _ppoll(0, 0, address(p.scratch, 2), 0)
            continue
        sent = 0
        while sent < count:
            sent += max(
                0, int(_sendmmsg(descriptor, address(p.headers, (place + sent) * HEADER_WORDS), count - sent, 0))
            )
        number += count
    return number, sequence


@dataclass(frozen=True, slots=True)
class Sent:
    """One run at one rate."""

    messages: int
    datagrams: int
    seconds: float

    @property
    def messages_per_s(self) -> float:
        return self.messages / self.seconds


def send(p: Prepared, to: socket.socket, session: str, rate: int, datagrams: int) -> Sent:
    """Send so many datagrams of a new session through a connected UDP socket, ``rate`` messages a second."""
    words = np.frombuffer(session.encode().ljust(SEQUENCE_AT), np.uint8)
    p.arena[p.starts[:, None] + np.arange(SEQUENCE_AT)] = words
    begun_ns = int(now_ns(p.scratch))
    number, sequence = 0, 1
    while number < datagrams:
        number, sequence = _send(p, to.fileno(), sequence, number, datagrams, rate, begun_ns)
    return Sent(sequence - 1, datagrams, (int(now_ns(p.scratch)) - begun_ns) / SECOND_NS)


# --- the bare receiver ----------------------------------------------------------------------------------------------


@kernel
def _count_datagrams(descriptor: int, headers: Array, lengths: Array, state: Array, scratch: Array) -> None:
    """Read, as fast as it goes, until ``state[1]`` is set; ``state[0]`` is how many datagrams came."""
    while state[1] == 0:
        count = receive_many(descriptor, headers, lengths)
        if count > 0:
            state[0] += count
        else:
            scratch[0] = descriptor | POLLIN << 32  # struct pollfd {int fd; short events; short revents}
            scratch[2] = 0
            scratch[3] = LOOK_IN_NS
            _ppoll(address(scratch, 0), 1, address(scratch, 2), 0)


class BareReceiver:
    """What reads datagrams and does nothing with them, as :class:`venue.engine.datagrams.DatagramReader` reads them.
    ``run`` is for a thread of its own."""

    def __init__(self, line: socket.socket) -> None:
        self._reader = DatagramReader(line.fileno())
        self._descriptor = line.fileno()
        self._state = np.zeros(2, np.int64)
        self._scratch = np.zeros(4, np.int64)

    @property
    def datagrams(self) -> int:
        """Read so far."""
        return int(self._state[0])

    def run(self) -> None:
        """Read until :meth:`stop`."""
        _count_datagrams(self._descriptor, self._reader.headers, self._reader.batch.lengths, self._state, self._scratch)

    def stop(self) -> None:
        self._state[1] = 1
