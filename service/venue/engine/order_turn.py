"""A turn of order entry in one compiled call: a chunk in, commands out, their answers encoded and on the socket.

The matching thread, if it is awake, needs less than a microsecond for a command, and going to sleep for its wake-up
costs ten: the call waits for it, for a moment. With both, an order to ack of 30 µs takes 10 µs where a bare echo server
takes 6.6 µs (two cores). What the kernel of a client takes at once goes out from here; the rest
is left to :mod:`venue.connection`, and while it is, ``LINE`` of that account is ``NO_LINE``.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from venue.engine import order_decoder, order_encoder, symbols
from venue.engine import ring as rings
from venue.engine.atomics import cpu_relax
from venue.engine.cells import ROW
from venue.engine.counters import GATEWAY, HISTOGRAMS
from venue.engine.kernel import kernel
from venue.engine.order_encoder import BYTES, COUNT, DIRTY_LIST, LINE, NO_LINE, SENT, SENT_NS, STATE_WORDS
from venue.engine.packed import packing
from venue.engine.records import COMMAND, EVENT, Array, aligned
from venue.engine.ring import Ring
from venue.engine.system import now_ns, send_now

SOON: Final = 64
"""So few commands, of the chunk or before it, the matching thread has done in a moment."""
SOON_NS: Final = 5_000
"""How long that moment is at most."""
IN_VAIN: Final = 2
"""The word of ``work`` that counts down turns which do not wait."""
TURNS_IN_VAIN: Final = 31
"""So many after one that waited in vain: the matching thread has lost its core, maybe to the one who waits. With both
cores busy with other things order to ack took 35 µs without this, and 19 µs with it."""
RESERVE: Final = 3
"""A third of a stream is kept for the end of an account that has used the rest: see :mod:`venue.store`."""


def _example() -> tuple[Any, ...]:
    """Arrays of the types that the gateway has."""
    words, octets = aligned(STATE_WORDS, np.dtype("<i8")), np.zeros(8, np.uint8)
    gateway, histograms = np.zeros(1, GATEWAY), np.zeros((HISTOGRAMS, ROW), np.int64)
    commands, events = tuple(rings.create(2, COMMAND)), tuple(rings.create(2, EVENT))
    inbound = (commands, symbols.create(1), gateway, histograms[0], words)
    outbound = (events, (octets, words, words.reshape(1, -1)), octets, words, gateway, histograms)
    return inbound, outbound, (events, words, gateway, histograms, histograms)


pack, unpack = packing(_example())
"""``pack((inbound, outbound, finishing))`` makes ``packed`` below: what :func:`venue.engine.order_decoder.decode`,
:func:`venue.engine.order_encoder.encode` and :func:`venue.engine.order_encoder.finish` take."""


@kernel
def send_streams(store: tuple[Any, ...], work: Array, dirty: int, sent_ns: int) -> tuple[int, int]:
    """Send what is new in the streams of ``DIRTY_LIST`` to those that take it at once. Returns the bytes, and how many
    accounts now stand in ``DIRTY_LIST``: those that the gateway has to look after."""
    data, offsets, state = store
    capacity, entries = len(data) // len(state), len(offsets) // len(state)
    written, left = 0, 0
    for place in range(dirty):
        account = int(work[DIRTY_LIST + place])
        row = state[account]
        if row[LINE] != NO_LINE and row[SENT] < row[BYTES]:
            start = int(row[SENT])
            count = send_now(int(row[LINE]), data, account * capacity + start, int(row[BYTES]) - start)
            if count > 0:
                row[SENT] = start + count
                row[SENT_NS] = sent_ns
                written += count
        full = (capacity - row[BYTES]) * RESERVE < capacity or (entries - row[COUNT]) * RESERVE < entries
        if row[SENT] < row[BYTES] or full:
            work[DIRTY_LIST + left] = account
            left += 1
    return written, left


@kernel
def deliver(packed: Any, sent_ns: int) -> tuple[int, int, bool]:
    """Encode and send what the matching thread has published, one pass; the loop thread's only.
    ``sent_ns`` is the gateway's clock.

    Returns how many events it read (negative: see :func:`venue.engine.order_encoder.encode`), how many accounts in
    ``DIRTY_LIST`` are left to the gateway, and whether the event ring is empty and parked.
    """
    _, outbound, finishing = unpack(packed)
    events, dirty, answers, read_ns = order_encoder.encode(outbound)
    written, left = send_streams(outbound[1], outbound[3], dirty, sent_ns)
    return events, left, order_encoder.finish(finishing, answers, read_ns, written)


@kernel
def turn(
    packed: Any,
    buffer: Array,
    start: int,
    end: int,
    account: int,
    firm: int,
    arrival_ns: int,
    time_ns: int,
    command_wake: int,
) -> tuple[int, int, int, int, int, bool]:
    """:func:`venue.engine.order_decoder.decode`, and :func:`deliver` once the commands are done, if that is soon."""
    inbound, outbound, _ = unpack(packed)
    commands = Ring(inbound[0][0], inbound[0][1], inbound[0][2])
    events = Ring(outbound[0][0], outbound[0][1], outbound[0][2])
    rings.unpark(events)  # what is published from now on needs no wake-up
    work = outbound[3]
    awake = not rings.parked(commands) and rings.depth(commands) < SOON
    stop, used, count = order_decoder.decode(
        inbound, buffer, start, end, account, firm, arrival_ns, time_ns, command_wake
    )
    if work[IN_VAIN] > 0:
        work[IN_VAIN] -= 1
    elif awake and 0 < count <= SOON:
        until_ns = now_ns(work) + SOON_NS
        while rings.depth(commands) > 0 and now_ns(work) < until_ns:
            cpu_relax()
        if rings.depth(commands) > 0:
            work[IN_VAIN] = TURNS_IN_VAIN
    done, left, empty = deliver(packed, arrival_ns)
    return stop, used, count, done, left, empty
