"""The fast path of the feed: MoldUDP64 packets in order, from the datagrams to the ring in one compiled call.

It handles packets of the current session that begin at the expected number or before it, and heartbeats that announce
nothing new. Everything else (a gap, another session, the end of one, a packet that is broken) stops it, and
:class:`venue.wire.moldudp64.Receiver` decides. A packet is delivered only if all its blocks are whole.

While messages are missing the same packets, from the end of the last gap on, are gathered for the Receiver to hold.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from venue.engine.atomics import load_be16, load_be64
from venue.engine.datagrams import SLOT_BYTES, Batch
from venue.engine.feed_codec import (
    DONE,
    EXPECTED,
    INDEX,
    MESSAGES,
    TAKEN,
    UNUSUAL,
    Decoder,
    decode_blocks,
)
from venue.engine.kernel import kernel, verb
from venue.engine.records import Array
from venue.wire.moldudp64 import END_OF_SESSION_COUNT, HEADER, MAX_SEQUENCE

HEADER_BYTES: Final = HEADER.size
SESSION_AT: Final = HEADER.offset("session")
SEQUENCE_AT: Final = HEADER.offset("sequence")
COUNT_AT: Final = HEADER.offset("count")
SESSION_BYTES: Final = SEQUENCE_AT - SESSION_AT
LENGTH_BYTES: Final = 2

BROKEN: Final = -1
"""In the place of where blocks begin: they do not end inside the packet."""


def session_words(session: str) -> Array:
    """A session's name as the fast path compares it: int64[2], its first eight bytes and its last two."""
    raw = session.encode("latin-1").ljust(SESSION_BYTES)
    return np.array([int.from_bytes(raw[:8], "big", signed=True), int.from_bytes(raw[8:], "big")], np.int64)


@verb
def _is_next(arena: Array, start: int, length: int, session: Array, lowest: int, expected: int) -> bool:
    """Whether the header is that of a packet or heartbeat of the session that begins at ``lowest`` to ``expected``."""
    if length < HEADER_BYTES:
        return False
    if load_be64(arena, start + SESSION_AT) != session[0] or load_be16(arena, start + SESSION_AT + 8) != session[1]:
        return False
    sequence = load_be64(arena, start + SEQUENCE_AT)
    count = load_be16(arena, start + COUNT_AT)
    return lowest <= sequence <= min(expected, MAX_SEQUENCE - END_OF_SESSION_COUNT) and count != END_OF_SESSION_COUNT


@verb
def _new_blocks(arena: Array, start: int, length: int, known: int, count: int) -> tuple[int, int]:
    """Where the blocks after the first ``known`` ones begin and where all end; (``BROKEN``, 0) if one is not whole."""
    position = first = start + HEADER_BYTES
    end = start + length
    for i in range(count):
        if i == known:
            first = position
        if position + LENGTH_BYTES > end:
            return BROKEN, 0
        position += LENGTH_BYTES + load_be16(arena, position)
        if position > end:
            return BROKEN, 0
    return first, position


@kernel
def receive(decoder: Decoder, batch: Batch, count: int, session: Array, line: int, ingress_ns: int) -> int:
    """Deliver the datagrams from ``progress[INDEX]`` to ``count`` while they are the next ones of the stream.

    ``progress[EXPECTED]`` goes up with every message delivered, also when the call stops in the middle of a packet;
    called again it goes on there. ``line`` is 0 or 1, or negative for answers to requests. Returns ``DONE``,
    ``RING_FULL``, ``NEEDS_INSTRUMENT`` (``progress[POSITION]`` is a place in the arena) or ``UNUSUAL``.
    """
    progress, counters = decoder.progress, decoder.counters
    while progress[INDEX] < count:
        index = int(progress[INDEX])
        start = index * SLOT_BYTES
        length = int(batch.lengths[index])
        expected = int(progress[EXPECTED])
        if not _is_next(batch.arena, start, length, session, 1, expected):
            return UNUSUAL
        messages = load_be16(batch.arena, start + COUNT_AT)
        known = expected - load_be64(batch.arena, start + SEQUENCE_AT)
        if messages == 0:
            counters[0]["heartbeats"] += 1
        elif messages > known:
            first, end = _new_blocks(batch.arena, start, length, known, messages)
            if first == BROKEN:
                return UNUSUAL
            code = decode_blocks(decoder, batch.arena, first, end, ingress_ns)
            progress[EXPECTED] = expected + progress[MESSAGES]
            if code != DONE:
                progress[TAKEN] += progress[MESSAGES]
                return code
            if line >= 0:
                counters[0]["line_first_arrivals"][line] += 1
        counters[0]["duplicates"] += min(known, messages) - progress[TAKEN]
        progress[TAKEN] = 0
        count_datagram(counters, length, line)
        progress[INDEX] = index + 1
    return DONE


@kernel
def gather(
    batch: Batch, count: int, session: Array, line: int, lowest: int, progress: Array, counters: Array
) -> tuple[int, int]:
    """While messages are missing: move the blocks of the datagrams from ``progress[INDEX]`` to ``count`` together.

    ``progress[EXPECTED]``, in and out, is the first number nobody has spoken of yet, and ``lowest`` (at least 1) the
    end of the last gap: a packet that begins between the two brings nothing that is missing, and what of it is new
    goes on where the stream ends so far. The first one that is not like that ends the call; ``progress[INDEX]`` is
    its place. Returns where in the arena the new blocks are, and where they end.
    """
    begin = int(progress[INDEX]) * SLOT_BYTES
    to = begin
    while progress[INDEX] < count:
        index = int(progress[INDEX])
        start = index * SLOT_BYTES
        length = int(batch.lengths[index])
        expected = int(progress[EXPECTED])
        if not _is_next(batch.arena, start, length, session, lowest, expected):
            break
        messages = load_be16(batch.arena, start + COUNT_AT)
        known = expected - load_be64(batch.arena, start + SEQUENCE_AT)
        if messages == 0:
            counters[0]["heartbeats"] += 1
        elif messages > known:
            first, end = _new_blocks(batch.arena, start, length, known, messages)
            if first == BROKEN:
                break
            for place in range(first, end):  # always to a place before it, in a datagram that has been dealt with
                batch.arena[to] = batch.arena[place]
                to += 1
            progress[EXPECTED] = expected + messages - known
            counters[0]["packets_held"] += 1
            if line >= 0:
                counters[0]["line_first_arrivals"][line] += 1
        counters[0]["duplicates"] += min(known, messages)
        count_datagram(counters, length, line)
        progress[INDEX] = index + 1
    return begin, to


@kernel
def count_datagram(counters: Array, length: int, line: int) -> None:
    """Count one datagram of ``length`` bytes that came on ``line``."""
    counters[0]["datagrams"] += 1
    counters[0]["bytes"] += length
    if line >= 0:
        counters[0]["line_packets"][line] += 1
