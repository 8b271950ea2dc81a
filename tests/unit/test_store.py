"""Streams of accounts: numbers, positions, and memory that is not there until it is needed."""

from __future__ import annotations

import numpy as np
import pytest

from venue.engine.order_encoder import BYTES, COUNT, LOST
from venue.store import Store


def append(store: Store, account: int, packet: bytes) -> None:
    """What the compiled encoder does, in words."""
    packets, offsets, state = store.arrays
    accounts = len(state)
    at, count = int(state[account, BYTES]), int(state[account, COUNT])
    start = account * (len(packets) // accounts) + at
    packets[start : start + len(packet)] = np.frombuffer(packet, np.uint8)
    offsets[account * (len(offsets) // accounts) + count] = at
    state[account, BYTES] += len(packet)
    state[account, COUNT] += 1


def test_a_new_stream_is_empty() -> None:
    stream = Store(2, 4_096).streams[1]
    assert (stream.size_bytes, stream.count, stream.lost, stream.nearly_full) == (0, 0, 0, False)
    assert stream.position(1) == 0


def test_every_message_is_found_by_its_number() -> None:
    store = Store(3, 4_096)
    packets = [bytes([n]) * (13 + n) for n in range(1, 20)]
    for number, packet in enumerate(packets):
        append(store, number % 3, packet)
    for account in range(3):
        stream, own = store.streams[account], packets[account::3]
        assert stream.count == len(own)
        assert bytes(stream.slice(0, stream.size_bytes)) == b"".join(own)
        for sequence in range(1, len(own) + 2):
            rest = stream.slice(stream.position(sequence), stream.size_bytes)
            assert bytes(rest) == b"".join(own[sequence - 1 :])
    assert store.size_bytes == sum(map(len, packets))


@pytest.mark.parametrize("sequence", [-1, 0, 3, 10**20])
def test_a_number_that_does_not_exist(sequence: int) -> None:
    store = Store(1, 4_096)
    append(store, 0, b"x" * 20)
    with pytest.raises(IndexError):
        store.streams[0].position(sequence)


def test_a_slice_is_the_memory_itself() -> None:
    store = Store(1, 4_096)
    append(store, 0, b"abc")
    piece = store.streams[0].slice(0, 3)
    store.arrays[0][1] = ord("X")
    assert bytes(piece) == b"aXc"


def test_a_stream_is_nearly_full_when_only_the_reserve_is_left() -> None:
    store = Store(2, 3_000)
    stream, state = store.streams[0], store.arrays[2]
    state[0, BYTES] = 2_000
    assert not stream.nearly_full
    state[0, BYTES] = 2_001
    assert stream.nearly_full
    state[0, BYTES], state[0, COUNT] = 0, 3_000 // 16 * 2 // 3 + 1  # by the number of messages as well
    assert stream.nearly_full
    assert not store.streams[1].nearly_full


def test_lost_messages_are_known() -> None:
    store = Store(1, 4_096)
    store.arrays[2][0, LOST] = 7
    assert (store.streams[0].lost, store.lost) == (7, 7)


def test_memory_is_taken_only_when_it_is_written() -> None:
    def resident_bytes() -> int:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4_096

    before = resident_bytes()
    store = Store(64, 64 << 20)  # four gigabytes, and two for the offsets
    append(store, 63, b"x" * 100)
    assert bytes(store.streams[63].slice(0, 100)) == b"x" * 100
    assert resident_bytes() - before < 16 << 20


@pytest.mark.parametrize(("accounts", "capacity_bytes"), [(0, 4_096), (1, 15)])
def test_no_room_at_all_is_an_error(accounts: int, capacity_bytes: int) -> None:
    with pytest.raises(ValueError, match="no store"):
        Store(accounts, capacity_bytes)
