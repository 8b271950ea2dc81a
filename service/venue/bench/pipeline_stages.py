"""The stages of `venue bench pipeline` as kernels: feed, books, strategy with exchange, and what joins them.

A joint is the engine's ring; or, with a mutex queue, a ring at each side of it that only one thread uses, and records
are copied from the near one to the queue and from there to the far one, a batch at a time. The stages are the same code
either way. A record of kind ``END`` ends the stage that reads it.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numba import types

from venue.bench import mutex_queue
from venue.bench.maker import Exchange, react
from venue.bench.mutex_queue import MutexQueue
from venue.bench.pipeline_workload import Market
from venue.engine import ring, system
from venue.engine.atomics import cpu_relax, load_be16, load_be64, prefetch, prefetch_to_read, store_be64
from venue.engine.books import best_level
from venue.engine.feed_codec import INPUT_AHEAD, LOCATE, POSITION, RING_FULL, Decoder, decode_blocks
from venue.engine.kernel import JIT, kernel, verb
from venue.engine.loop import apply_recorded
from venue.engine.records import NO_INSTRUMENT, Array
from venue.engine.reference import reference
from venue.engine.ring import Ring
from venue.engine.symbols import IGNORED
from venue.wire import itch

END: Final = 0
BATCH: Final = 64
"""Messages decoded at a time where nobody else waits for them, and records taken between two releases."""
CAPACITY: Final = 1024
"""Records of a ring or a queue between two threads."""
SPINS: Final = 1 << 10
"""Looks at an empty or a full ring before the core is offered to others, who may need it to go on."""

PAUSES: Final = 16
"""How often a ring's consumer pauses when it has caught up, before it looks for more."""
PLACES_AHEAD: Final = 16
"""How many records before its turn a producer asks for a record's cache line."""
ROOM: Final = 56
"""Bytes that are copied of each block: what the longest one takes with its length, in whole words of eight."""
assert 2 + max(itch.SIZES) <= ROOM < 256
assert ROOM % 8 == 0

BEGUN_NS: Final = 0  # words of a clock: when a stage began and ended
ENDED_NS: Final = 1

if JIT:
    sched_yield: Any = types.ExternalFunction("sched_yield", types.int32())
else:
    from os import sched_yield


class Joint(NamedTuple):
    """How one stage hands records to the next."""

    near: Ring
    far: Ring  # the same as near, if there is no queue between
    queue: MutexQueue
    by_mutex: int  # 1 or 0
    batch: int


def join(dtype: np.dtype[Any], by_mutex: bool, batch: int) -> Joint:
    """A joint for records of ``dtype``."""
    if not by_mutex:
        both = ring.create(CAPACITY, dtype)
        return Joint(both, both, mutex_queue.create(1, dtype), 0, batch)
    queue = mutex_queue.create(CAPACITY, dtype)
    return Joint(ring.create(BATCH, dtype), ring.create(BATCH, dtype), queue, 1, batch)


# --- joints -------------------------------------------------------------------------------------------------------


@verb
def rest(spins: int) -> int:
    """Wait a moment for another thread."""
    if spins & (SPINS - 1) == SPINS - 1:
        sched_yield()
    else:
        cpu_relax()
    return spins + 1


@verb
def claim(joint: Joint, pending: int) -> int:
    """Producer: the place of the next record in ``near``, behind ``pending`` ones; before the first one of a batch it
    waits for room for all of them.

    Asks for the lines of later records: they are still with the other core, and a store that waits for its line holds
    up all stores behind it. Two threads with batch 64 take 41 instead of 46 ns an event.
    """
    spins = 0
    while pending == 0 and ring.free(joint.near, joint.batch) < joint.batch:
        spins = rest(spins)
    prefetch(joint.near.records, ring.write_position(joint.near, pending + PLACES_AHEAD))
    return ring.write_position(joint.near, pending)


@verb
def forward(joint: Joint, count: int) -> None:
    """Producer: take what was published on ``near`` to the queue, if there is one."""
    if joint.by_mutex != 0:
        mutex_queue.put(joint.queue, joint.near.records, ring.read_position(joint.near, 0), count)
        ring.release(joint.near, count)


@verb
def hand_over(joint: Joint, pending: int) -> int:
    """Producer: pass the pending records on. Gives back how many are pending then."""
    ring.publish_unstamped(joint.near, pending)
    forward(joint, pending)
    return 0


@verb
def arrive(joint: Joint) -> int:
    """Consumer: how many records can be read from ``far``; waits for the first."""
    if joint.by_mutex != 0:
        count = mutex_queue.take(joint.queue, joint.far.records, ring.write_position(joint.far, 0), joint.batch)
        ring.publish_unstamped(joint.far, count)
    spins = 0
    while ring.available(joint.far) == 0:
        spins = rest(spins)
    return ring.available(joint.far)


@verb
def give_back(joint: Joint, count: int) -> None:
    """Consumer: done with ``count`` records; whoever has caught up waits a little, to find several at the next look.

    Each look takes the line of the producer's index away from it, and costs it about 100 ns at its next publication.
    Two threads with batch 1 take 54 instead of 73 ns an event. A record may wait 0.2 µs longer (a pause takes 10 ns).
    """
    ring.release(joint.far, count)
    if joint.by_mutex == 0 and count < BATCH:
        for _ in range(PAUSES):
            cpu_relax()


@verb
def finish(joint: Joint, pending: int) -> None:
    """Producer: pass on what is pending, and that it was the last."""
    last = joint.near.records[claim(joint, pending)]
    last["kind"] = END
    last["instrument"] = NO_INSTRUMENT
    hand_over(joint, pending + 1)


# --- what a shard takes out of the feed ---------------------------------------------------------------------------


@verb
def take_own(decoder: Decoder, data: Array, start: int, end: int, own: Array) -> int:
    """Copy the blocks in ``data[start:end]`` that are not of ignored Stock Locates to ``own``; gives back their bytes.

    Without a branch on what comes at random: each block is copied, and one that is not kept is written over. Of the
    length its low byte is read, which says it all (``ROOM``) and is there two steps sooner than a swapped pair; where
    the next block begins is known only then. A look takes 1.9 ns, 2.8 with a swap; two shards take 30 ns an event, 34
    if the decoder reads and skips what is not theirs.
    """
    kept = 0
    while start < end:
        prefetch_to_read(data, start + INPUT_AHEAD)
        size = 2 + int(data[start + 1])
        for word in range(0, ROOM, 8):
            store_be64(own, kept + word, load_be64(data, start + word))
        kept += size * int(decoder.locates[load_be16(data, start + 2 + LOCATE)] != IGNORED)
        start += size
    return kept


# --- the work of one message --------------------------------------------------------------------------------------


@verb
def describe(market: Market, command: Array, update: Array) -> None:
    """Say what a message did to the market, after it was applied."""
    b = market.matcher.books
    instrument = int(command["instrument"])
    bid = best_level(b, b.sides[2 * instrument])
    ask = best_level(b, b.sides[2 * instrument + 1])
    update["time_ns"] = command["time_ns"]
    update["price"] = b.books[instrument]["last_price"]
    update["quantity"] = command["quantity"]
    update["bid"] = b.levels[bid]["price"]  # level 0 is always empty
    update["ask"] = b.levels[ask]["price"]
    update["bid_shares"] = b.levels[bid]["shares"]
    update["ask_shares"] = b.levels[ask]["shares"]
    update["instrument"] = instrument
    update["kind"] = command["kind"]


@verb
def process(market: Market, ahead: int) -> Any:
    """Apply the command ``ahead`` places away to the market's books; gives it back.

    Without the look-ahead of the matching thread's loop: books of this size stay in the cache. An earlier version took
    90 ns an event inline without it and 98 with it.
    """
    m = market.matcher
    command = m.commands.records[ring.read_position(m.commands, ahead)]
    apply_recorded(m.books, m.out, command, int(command["kind"]), 0)
    return command


@verb
def pass_on(market: Market, ready: int, out: Joint, pending: int) -> int:
    """Apply the next ``ready`` commands; hand an update of each on. Gives back how many are pending."""
    for ahead in range(ready):
        command = process(market, ahead)
        if int(command["instrument"]) != NO_INSTRUMENT:
            describe(market, command, out.near.records[claim(out, pending)])
            pending += 1
            if pending == out.batch:
                pending = hand_over(out, pending)
    return pending


@verb
def do_all(market: Market, x: Exchange, update: Array) -> None:
    """Apply the commands that are there, each followed by the reaction to it."""
    commands = market.matcher.commands
    ready = ring.available(commands)
    for ahead in range(ready):
        command = process(market, ahead)
        if int(command["instrument"]) != NO_INSTRUMENT:
            describe(market, command, update[0])
            react(x, update[0])
    ring.release(commands, ready)


# --- stages -------------------------------------------------------------------------------------------------------


@kernel
def whole(market: Market, x: Exchange, data: Array, ends: Array, update: Array, clock: Array) -> None:
    """All stages on one thread, a message at a time."""
    market = reference(market)
    x = reference(x)
    clock[BEGUN_NS] = system.now_ns(x.out.scratch)
    start = 0
    for turn in range(len(ends)):
        decode_blocks(market.decoder, data, start, ends[turn], 1)
        start = int(ends[turn])
        do_all(market, x, update)
    clock[ENDED_NS] = system.now_ns(x.out.scratch)


@kernel
def shard(market: Market, x: Exchange, data: Array, ends: Array, own: Array, update: Array, clock: Array) -> None:
    """The same for the messages of a shard. ``own``: where it puts these, ``ROOM`` bytes for each message of a turn."""
    market = reference(market)
    x = reference(x)
    clock[BEGUN_NS] = system.now_ns(x.out.scratch)
    start = 0
    for turn in range(len(ends)):
        kept = take_own(market.decoder, data, start, ends[turn], own)
        start = int(ends[turn])
        decode_blocks(market.decoder, own, 0, kept, 1)
        do_all(market, x, update)
    clock[ENDED_NS] = system.now_ns(x.out.scratch)


@kernel
def feed(decoder: Decoder, data: Array, ends: Array, out: Joint, clock: Array) -> None:
    """Decode; hand the commands on."""
    clock[BEGUN_NS] = system.now_ns(decoder.scratch)
    start = 0
    for turn in range(len(ends)):
        spins = 0
        while decode_blocks(decoder, data, start, ends[turn], 1) == RING_FULL:
            start = int(decoder.progress[POSITION])
            spins = rest(spins)
        start = int(ends[turn])
        if out.by_mutex != 0:
            forward(out, ring.depth(out.near))
    finish(out, 0)
    clock[ENDED_NS] = system.now_ns(decoder.scratch)


@kernel
def rebuild(market: Market, source: Joint, out: Joint, clock: Array) -> None:
    """Apply commands to the books; hand an update of each on."""
    market = reference(market)
    scratch = market.matcher.out.scratch
    clock[BEGUN_NS] = system.now_ns(scratch)
    pending = 0
    going = True
    while going:
        ready = min(arrive(source), BATCH)
        pending = pass_on(market, ready, out, pending)
        going = int(source.far.records[ring.read_position(source.far, ready - 1)]["kind"]) != END
        give_back(source, ready)
    finish(out, pending)
    clock[ENDED_NS] = system.now_ns(scratch)


@kernel
def feed_and_rebuild(market: Market, data: Array, ends: Array, out: Joint, clock: Array) -> None:
    """Decode and apply; hand an update of each message on."""
    market = reference(market)
    scratch = market.matcher.out.scratch
    commands = market.matcher.commands
    clock[BEGUN_NS] = system.now_ns(scratch)
    start = 0
    pending = 0
    for turn in range(len(ends)):
        decode_blocks(market.decoder, data, start, ends[turn], 1)
        start = int(ends[turn])
        ready = ring.available(commands)
        pending = pass_on(market, ready, out, pending)
        ring.release(commands, ready)
    finish(out, pending)
    clock[ENDED_NS] = system.now_ns(scratch)


@kernel
def trade(x: Exchange, source: Joint, clock: Array) -> None:
    """The makers' reactions to updates, with risk checks and exchange."""
    x = reference(x)
    clock[BEGUN_NS] = system.now_ns(x.out.scratch)
    going = True
    while going:
        ready = min(arrive(source), BATCH)
        for ahead in range(ready):
            update = source.far.records[ring.read_position(source.far, ahead)]
            if int(update["kind"]) == END:
                going = False
            else:
                react(x, update)
        give_back(source, ready)
    clock[ENDED_NS] = system.now_ns(x.out.scratch)
