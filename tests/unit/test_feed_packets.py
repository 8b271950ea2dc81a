"""The compiled fast path over a batch of datagrams: what it takes, and where it stops."""

from collections.abc import Iterable

import numpy as np
import pytest

from feed_live import message, packet
from feed_rig import Rig, as_array, blocks
from venue.engine.datagrams import BATCH, SLOT_BYTES, TRUNCATED, Batch
from venue.engine.feed_codec import DONE, EXPECTED, INDEX, RING_FULL, TAKEN, UNUSUAL
from venue.engine.feed_packets import gather, receive, session_words
from venue.wire.moldudp64 import Header, end_of_session, heartbeat

NUMBER = 100_000  # expected next


class Batches:
    """A rig that receives datagrams of session S1 on line 1."""

    def __init__(self, ring_capacity: int = 64) -> None:
        self.rig = Rig("AAPL", ring_capacity=ring_capacity)
        self.batch = Batch(np.full(BATCH * SLOT_BYTES, 0, np.uint8), np.zeros(BATCH, np.int64))
        self.count = 0
        self.rig.decoder.progress[EXPECTED] = NUMBER

    def receive(self, datagrams: Iterable[bytes | None] = (), session: str = "S1") -> int:
        """Go on, or begin with new datagrams; None is a truncated one."""
        if datagrams:
            self._fill(datagrams)
        return int(receive(self.rig.decoder, self.batch, self.count, session_words(session), 1, 5))

    def gather(self, datagrams: Iterable[bytes | None], lowest: int) -> bytes:
        """The blocks that are gathered from these datagrams behind the one that is at index 0 already."""
        self._fill([packet(1, 1), *datagrams])
        progress, counters = self.rig.decoder.progress, self.rig.decoder.counters
        progress[INDEX] = 1
        start, end = gather(self.batch, self.count, session_words("S1"), 1, lowest, progress, counters)
        assert start == SLOT_BYTES
        return self.batch.arena[start:end].tobytes()

    def _fill(self, datagrams: Iterable[bytes | None]) -> None:
        self.count = 0
        self.rig.decoder.progress[INDEX] = 0
        for datagram in datagrams:
            raw = b"" if datagram is None else datagram
            start = self.count * SLOT_BYTES
            self.batch.arena[start : start + len(raw)] = as_array(raw)
            self.batch.lengths[self.count] = TRUNCATED if datagram is None else len(raw)
            self.count += 1

    @property
    def numbers(self) -> list[int]:
        return [row["word0"] for row in self.rig.drain()]

    @property
    def index(self) -> int:
        return self.rig.progress[INDEX]

    @property
    def expected(self) -> int:
        return self.rig.progress[EXPECTED]


def test_packets_in_order_overlaps_duplicates_and_heartbeats_pass() -> None:
    batches = Batches()
    first = packet(NUMBER, 3)
    assert batches.receive(
        [first, heartbeat("S1", NUMBER + 3), first, packet(NUMBER + 1, 4), heartbeat("S1", 1), packet(NUMBER + 5, 1)]
    ) == DONE  # fmt: skip
    assert batches.numbers == list(range(NUMBER, NUMBER + 6))
    assert (batches.index, batches.expected) == (6, NUMBER + 6)
    counted = batches.rig.counted()
    assert counted.pop("bytes") == 2 * len(first) + len(packet(1, 4)) + len(packet(1, 1)) + 2 * 20
    assert counted == {
        "D": 6,
        "datagrams": 6,
        "duplicates": 5,
        "heartbeats": 2,
        "line_packets[1]": 6,
        "line_first_arrivals[1]": 3,
    }


UNUSUAL_DATAGRAMS = pytest.mark.parametrize(
    "datagram",
    [
        pytest.param(packet(NUMBER + 3, 1), id="gap"),
        pytest.param(heartbeat("S1", NUMBER + 3), id="heartbeat ahead"),
        pytest.param(end_of_session("S1", NUMBER + 2), id="end"),
        pytest.param(end_of_session("S1", 1), id="end with an old number"),
        pytest.param(packet(NUMBER + 2, 1, session="S2"), id="another session"),
        pytest.param(packet(NUMBER + 2, 1, session="S1      X"), id="another ninth letter"),
        pytest.param(packet(NUMBER + 2, 1, session="S1       X"), id="another tenth letter"),
        pytest.param(packet(NUMBER + 2, 1)[:-1], id="a block is cut"),
        pytest.param(Header("S1", NUMBER + 2, 2).encode() + blocks([message(1)]), id="a block is missing"),
        pytest.param(Header("S1", NUMBER + 2, 2).encode() + blocks([message(1)]) + b"\0", id="half a length"),
        pytest.param(Header("S1", NUMBER + 2, 1).encode(), id="no block"),
        pytest.param(Header("S1", 0, 2).encode() + blocks([message(1)] * 2), id="number 0"),
        pytest.param(Header("S1", 2**64 - 1, 2).encode() + blocks([message(1)] * 2), id="number -1"),
        pytest.param(Header("S1", 2**63 - 1, 2).encode() + blocks([message(1)] * 2), id="the largest number"),
        pytest.param(packet(NUMBER + 2, 1)[:19], id="short header"),
        pytest.param(b"", id="empty"),
        pytest.param(None, id="truncated"),
    ],
)


@UNUSUAL_DATAGRAMS
def test_anything_else_stops_it_before_anything_of_that_packet_is_delivered(datagram: bytes | None) -> None:
    batches = Batches()
    assert batches.receive([packet(NUMBER, 2), datagram, packet(NUMBER + 2, 1)]) == UNUSUAL
    assert (batches.index, batches.expected) == (1, NUMBER + 2)
    assert batches.numbers == [NUMBER, NUMBER + 1]
    assert batches.rig.counted()["datagrams"] == 1
    batches.rig.decoder.progress[INDEX] = 2  # somebody else has looked after it
    assert batches.receive() == DONE
    assert batches.numbers == [NUMBER + 2]


def test_what_stands_behind_a_datagram_in_the_arena_is_not_read() -> None:
    """The slot holds a longer packet of before, whose rest would make the new one whole."""
    batches = Batches()
    longer = packet(NUMBER, 3)
    assert batches.receive([longer]) == DONE
    batches.rig.decoder.progress[EXPECTED] = NUMBER
    for length in range(len(longer)):
        assert batches.receive([longer[:length]]) == UNUSUAL
        assert batches.expected == NUMBER


def test_bytes_behind_the_last_block_do_not_matter() -> None:
    batches = Batches()
    assert batches.receive([packet(NUMBER, 2) + b"trailer", packet(NUMBER + 2, 1)]) == DONE
    assert batches.numbers == [NUMBER, NUMBER + 1, NUMBER + 2]


def test_a_ring_that_fills_in_the_middle_of_a_packet_goes_on_there_and_counts_it_once() -> None:
    batches = Batches(ring_capacity=2)
    assert batches.receive([packet(NUMBER - 1, 6), packet(NUMBER, 5)]) == RING_FULL
    assert (batches.index, batches.expected, batches.rig.progress[TAKEN]) == (0, NUMBER + 2, 2)
    assert batches.receive() == RING_FULL
    assert batches.expected == NUMBER + 2
    assert batches.numbers == [NUMBER, NUMBER + 1]
    assert batches.receive() == RING_FULL
    assert batches.numbers == [NUMBER + 2, NUMBER + 3]
    assert batches.receive() == DONE
    assert batches.numbers == [NUMBER + 4]
    counted = batches.rig.counted()
    assert (counted["datagrams"], counted["duplicates"], counted["D"]) == (2, 1 + 5, 5)
    assert counted["line_first_arrivals[1]"] == 1


# --- while messages are missing -------------------------------------------------------------------------------------


def test_what_goes_on_behind_a_gap_is_gathered_in_one_piece() -> None:
    """NUMBER is the first number nobody has spoken of; the last gap ends three before it."""
    batches = Batches()
    long = packet(NUMBER + 4, 400)
    behind = [packet(NUMBER, 2), heartbeat("S1", NUMBER + 2), packet(NUMBER - 3, 3), packet(NUMBER - 1, 5), long + b"!"]
    assert batches.gather(behind, lowest=NUMBER - 3) == blocks(message(n) for n in range(NUMBER, NUMBER + 404))
    assert (batches.index, batches.expected) == (6, NUMBER + 404)
    assert batches.numbers == [], "nothing is delivered"
    counted = batches.rig.counted()
    assert counted.pop("bytes") == sum(len(datagram) for datagram in behind)
    assert counted == {
        "datagrams": 5,
        "duplicates": 6,
        "heartbeats": 1,
        "packets_held": 3,
        "line_packets[1]": 5,
        "line_first_arrivals[1]": 3,
    }


@UNUSUAL_DATAGRAMS
def test_nothing_else_is_gathered(datagram: bytes | None) -> None:
    batches = Batches()
    gathered = batches.gather([packet(NUMBER, 2), datagram, packet(NUMBER + 2, 1)], lowest=NUMBER)
    assert gathered == packet(NUMBER, 2)[20:]
    assert (batches.index, batches.expected) == (2, NUMBER + 2)
    assert batches.rig.counted()["datagrams"] == 1


@pytest.mark.parametrize("count", [0, 1, 9])
def test_a_packet_that_begins_before_the_end_of_the_last_gap_is_not_gathered(count: int) -> None:
    """It may bring what is missing."""
    batches = Batches()
    assert batches.gather([packet(NUMBER - 4, count)], lowest=NUMBER - 3) == b""
    assert (batches.index, batches.expected, batches.rig.counted()) == (1, NUMBER, {})
