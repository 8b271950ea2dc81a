"""What one compiled call does for order entry besides decoding and encoding: packed arguments, and sending."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

import numpy as np
import pytest

from order_desk import CAPACITY, Streams
from venue.engine import order_encoder as encoder
from venue.engine import order_turn, packed, ring
from venue.engine.kernel import JIT, kernel
from venue.engine.order_encoder import BYTES, COUNT, LINE, LOST, NO_LINE, SENT, SENT_NS
from venue.engine.records import COMMAND
from venue.store import Store

NOW = 77


def example(size: int) -> tuple[object, ...]:
    return tuple(ring.create(size, COMMAND)), np.arange(size), np.zeros(size, np.uint8)


pack, unpack = packed.packing(example(2))


@kernel
def count_up(memory: object, place: int) -> int:
    rings, numbers, octets = unpack(memory)
    numbers[place] += 1
    octets[0] += 1
    return len(rings[0]) * 1_000 + int(numbers[place])


def test_packed_arrays_are_the_same_arrays() -> None:
    made = pack(example(8))
    assert [int(count_up(made.memory, 3)) for _ in range(3)] == [8_004, 8_005, 8_006]
    _, numbers, octets = made.value
    assert (numbers[3], octets[0]) == (6, 3)


@pytest.mark.skipif(not JIT, reason="plain Python takes anything")
def test_other_types_cannot_be_packed() -> None:
    with pytest.raises(TypeError, match="is not"):
        pack((*example(2)[:2], np.zeros(2, np.int8)))


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        theirs.settimeout(5)
        yield ours, theirs


def streams_to(line: int, accepted: int = 1) -> tuple[Streams, int]:
    """Account 1 has so many messages that nobody has sent yet; and how many accounts are dirty."""
    streams = Streams()
    streams.store[2][:, LINE] = NO_LINE
    streams.store[2][1, LINE] = line
    for _ in range(accepted):
        streams.happen(("A", "L"))
    _, dirty, _, _ = encoder.encode(streams.outbound)
    return streams, dirty


def send(streams: Streams, dirty: int) -> tuple[int, list[int]]:
    """How many bytes went out, and the accounts that are left."""
    written, left = order_turn.send_streams(streams.store, streams.work, dirty, NOW)
    return written, streams.work[encoder.DIRTY_LIST : encoder.DIRTY_LIST + left].tolist()


def test_what_is_new_goes_to_the_socket(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    streams, dirty = streams_to(ours.fileno(), accepted=3)
    row = streams.store[2][1]
    row[SENT] = 67  # the first message went another way
    assert send(streams, dirty) == (2 * 67, [])
    assert theirs.recv(1_000) == streams.stream()[67:]
    assert (row[SENT], row[SENT_NS]) == (row[BYTES], NOW)


def test_without_a_line_the_account_is_left() -> None:
    streams, dirty = streams_to(NO_LINE)
    assert send(streams, dirty) == (0, [1])
    assert streams.store[2][1, SENT] == 0


def test_what_a_socket_does_not_take_is_left(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
    filled = 0
    with contextlib.suppress(BlockingIOError):
        while True:
            filled += ours.send(b"x" * 1_000)
    streams, dirty = streams_to(ours.fileno())
    assert send(streams, dirty) == (0, [1])
    while filled:
        filled -= len(theirs.recv(filled))
    assert send(streams, dirty) == (67, [])
    assert theirs.recv(1_000) == streams.stream()


def test_a_broken_socket_is_left(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    theirs.close()
    streams, dirty = streams_to(ours.fileno())
    assert send(streams, dirty) == (0, [1])


def test_an_account_whose_store_comes_to_its_end_is_left(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    streams, dirty = streams_to(ours.fileno())
    row = streams.store[2][1]
    row[BYTES] = CAPACITY * 2 // 3 + 1
    row[SENT] = row[BYTES] - 67
    assert send(streams, dirty) == (67, [1])
    assert (row[SENT], row[LOST]) == (row[BYTES], 0)
    assert len(theirs.recv(1_000)) == 67


@pytest.mark.parametrize(("word", "capacity"), [(BYTES, 3_000), (COUNT, 3_000 // 16)])
def test_compiled_code_and_the_store_agree_on_when_a_stream_comes_to_its_end(word: int, capacity: int) -> None:
    """Only what compiled code leaves is closed by the gateway, which asks the store once more."""
    store, work = Store(2, 3_000), encoder.work(2)
    work[encoder.DIRTY_LIST] = 1
    row, stream = store.arrays[2][1], store.streams[1]
    seen = []
    for used in range(capacity * 2 // 3 - 3, capacity * 2 // 3 + 4):
        row[word] = used
        row[SENT] = row[BYTES]  # nothing else to be left for
        _, left = order_turn.send_streams(store.arrays, work, 1, NOW)
        assert left == stream.nearly_full
        seen.append(left)
    assert seen == sorted(seen)
    assert set(seen) == {0, 1}, "the boundary is among them"
