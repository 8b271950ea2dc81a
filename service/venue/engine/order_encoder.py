"""From events on the ring to bytes in the accounts' streams: one compiled call for each wake-up of the loop.

Each event becomes one OUCH 5.0 message, framed as a SoupBinTCP Sequenced Data packet at the
end of its account's stream (:mod:`venue.store`), from where it is written to the socket as it stands. No message of
ours has options: where the table ends in their length, it is 0.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from venue.engine import ring as rings
from venue.engine.atomics import load_be64, store_be16, store_be32, store_be64
from venue.engine.counters import ACCOUNTS, ENCODE_WRITE, ORDER_TO_ACK, RING_BACK
from venue.engine.histogram import record
from venue.engine.kernel import kernel, verb
from venue.engine.records import (
    ACCEPTED,
    CANCELED,
    EXECUTED,
    MODIFIED,
    QUERY_RESPONSE,
    REJECTED,
    REPLACED,
    SYSTEM_EVENT,
    Array,
    aligned,
)
from venue.engine.ring import Ring
from venue.engine.symbols import SYMBOL_BYTES
from venue.engine.system import now_ns
from venue.wire import ouch

# --- the state of an account's stream: one row of int64 an account --------------------------------------------------

BYTES: Final = 0  # of all its packets so far: where the next one begins
COUNT: Final = 1  # messages so far; the number of the last one
DIRTY: Final = 2  # 1: in the list of those that got something in this pass
LOST: Final = 3  # messages that found no room; once there is one, the stream has ended
SENT: Final = 4  # bytes given to its connection
LINE: Final = 5  # the descriptor of a socket to send to, or NO_LINE: the connection has to write
SENT_NS: Final = 6  # when something went to LINE last (the gateway's clock)
STATE_WORDS: Final = 16
"""The row's width: two cache lines."""

NO_LINE: Final = -1

# --- work: one int64 array of the loop thread for all that passes between the calls ---------------------------------

SCRATCH_WORDS: Final = 16  # for system calls, at the beginning
DIRTY_LIST: Final = SCRATCH_WORDS  # the accounts that got something in this pass
ANSWERS: Final = DIRTY_LIST + ACCOUNTS
"""To the end, two words for each answered message of this pass: its arrival (monotonic, ns) and its account."""


def work(pass_events: int) -> Array:
    """Room for passes of so many events. Few large arrays, as each argument costs a call 80 ns."""
    return aligned(ANSWERS + 2 * pass_events, np.dtype("<i8"))


HEAD_BYTES: Final = 3
SEQUENCED: Final = ord("S")

# --- offsets, all from the first byte of the message ----------------------------------------------------------------

MESSAGES: Final = {
    ACCEPTED: ouch.Accepted.layout,
    REPLACED: ouch.Replaced.layout,
    CANCELED: ouch.Canceled.layout,
    EXECUTED: ouch.Executed.layout,
    REJECTED: ouch.Rejected.layout,
    MODIFIED: ouch.Modified.layout,
    SYSTEM_EVENT: ouch.SystemEvent.layout,
    QUERY_RESPONSE: ouch.AccountQueryResponse.layout,
}
SIZE: Final = np.zeros(256, np.int64)  # of the message; 0 = no such event
for _kind, _layout in MESSAGES.items():
    assert _layout.code[0] == _kind
    SIZE[_kind] = _layout.size
MAX_FRAME_BYTES: Final = HEAD_BYTES + int(SIZE.max())

TIMESTAMP: Final = ouch.Accepted.layout.offset("timestamp")
assert {layout.offset("timestamp") for layout in MESSAGES.values()} == {TIMESTAMP}

_A, _U = ouch.Accepted.layout, ouch.Replaced.layout
ACCEPTED_NUMBER: Final = _A.offset("user_ref_num")
REPLACED_ORIGINAL: Final = _U.offset("orig_user_ref_num")
REPLACED_NUMBER: Final = _U.offset("user_ref_num")

SHIFT: Final = _U.offset("side") - _A.offset("side")
"""From Side on, Replaced is Accepted, this much later."""
assert [(f.name, f.offset + SHIFT) for f in _A.fields if f.offset >= _A.offset("side")] == [
    (f.name, f.offset) for f in _U.fields if f.offset >= _U.offset("side")
]
SIDE: Final = _A.offset("side")
QUANTITY: Final = _A.offset("quantity")
SYMBOL: Final = _A.offset("symbol")
PRICE: Final = _A.offset("price")
TIF: Final = _A.offset("time_in_force")
DISPLAY: Final = _A.offset("display")
REFERENCE: Final = _A.offset("order_reference_number")
CAPACITY: Final = _A.offset("capacity")
ISO: Final = _A.offset("intermarket_sweep_eligibility")
CROSS: Final = _A.offset("cross_type")
STATE: Final = _A.offset("order_state")
CL_ORD_ID: Final = _A.offset("cl_ord_id")
OPTIONS_LENGTH: Final = _A.offset("appendage_length")

CANCELED_NUMBER: Final = ouch.Canceled.layout.offset("user_ref_num")
CANCELED_QUANTITY: Final = ouch.Canceled.layout.offset("quantity")
CANCELED_REASON: Final = ouch.Canceled.layout.offset("reason")

EXECUTED_NUMBER: Final = ouch.Executed.layout.offset("user_ref_num")
EXECUTED_QUANTITY: Final = ouch.Executed.layout.offset("quantity")
EXECUTED_PRICE: Final = ouch.Executed.layout.offset("price")
EXECUTED_LIQUIDITY: Final = ouch.Executed.layout.offset("liquidity_flag")
EXECUTED_MATCH: Final = ouch.Executed.layout.offset("match_number")
EXECUTED_OPTIONS_LENGTH: Final = ouch.Executed.layout.offset("appendage_length")

REJECTED_NUMBER: Final = ouch.Rejected.layout.offset("user_ref_num")
REJECTED_REASON: Final = ouch.Rejected.layout.offset("reason")
REJECTED_CL_ORD_ID: Final = ouch.Rejected.layout.offset("cl_ord_id")

MODIFIED_NUMBER: Final = ouch.Modified.layout.offset("user_ref_num")
MODIFIED_SIDE: Final = ouch.Modified.layout.offset("side")
MODIFIED_QUANTITY: Final = ouch.Modified.layout.offset("quantity")

QUERY_NEXT: Final = ouch.AccountQueryResponse.layout.offset("next_user_ref_num")
EVENT_CODE: Final = ouch.SystemEvent.layout.offset("event_code")

# --- messages -------------------------------------------------------------------------------------------------------


@verb
def put_cl_ord_id(data: Array, at: int, event: Any) -> None:
    """14 bytes from two numbers: the last six first, as they are written with two bytes too many before them."""
    store_be64(data, at + 6, int(event["word1"]))
    store_be64(data, at, int(event["word0"]))


@verb
def put_order(data: Array, at: int, event: Any, symbols: Array) -> None:
    """What Accepted and Replaced have in common; ``at`` is where Accepted would begin."""
    data[at + SIDE] = event["side"]
    store_be32(data, at + QUANTITY, int(event["quantity"]))
    store_be64(data, at + SYMBOL, load_be64(symbols, SYMBOL_BYTES * int(event["instrument"])))
    store_be64(data, at + PRICE, int(event["price"]))
    data[at + TIF] = event["tif"]
    data[at + DISPLAY] = event["display"]
    store_be64(data, at + REFERENCE, int(event["reference"]))
    data[at + CAPACITY] = event["capacity"]
    data[at + ISO] = event["iso"]
    data[at + CROSS] = event["cross"]
    data[at + STATE] = event["detail"]
    put_cl_ord_id(data, at + CL_ORD_ID, event)
    store_be16(data, at + OPTIONS_LENGTH, 0)


@verb
def put_executed(data: Array, at: int, event: Any) -> None:
    store_be32(data, at + EXECUTED_NUMBER, int(event["user_ref"]))
    store_be32(data, at + EXECUTED_QUANTITY, int(event["quantity"]))
    store_be64(data, at + EXECUTED_PRICE, int(event["price"]))
    data[at + EXECUTED_LIQUIDITY] = event["detail"]
    store_be64(data, at + EXECUTED_MATCH, int(event["reference"]))
    store_be16(data, at + EXECUTED_OPTIONS_LENGTH, 0)


@verb
def put_message(data: Array, at: int, event: Any, symbols: Array) -> None:
    """Write the whole message at ``at``; there is room, and the kind is known."""
    kind = event["kind"]
    data[at] = kind
    store_be64(data, at + TIMESTAMP, int(event["time_ns"]))
    if kind == EXECUTED:
        put_executed(data, at, event)
    elif kind == ACCEPTED:
        store_be32(data, at + ACCEPTED_NUMBER, int(event["user_ref"]))
        put_order(data, at, event, symbols)
    elif kind == CANCELED:
        store_be32(data, at + CANCELED_NUMBER, int(event["user_ref"]))
        store_be32(data, at + CANCELED_QUANTITY, int(event["quantity"]))
        data[at + CANCELED_REASON] = event["detail"]
    elif kind == REPLACED:
        store_be32(data, at + REPLACED_ORIGINAL, int(event["original_user_ref"]))
        store_be32(data, at + REPLACED_NUMBER, int(event["user_ref"]))
        put_order(data, at + SHIFT, event, symbols)
    elif kind == REJECTED:
        store_be32(data, at + REJECTED_NUMBER, int(event["user_ref"]))
        store_be16(data, at + REJECTED_REASON, int(event["detail"]))
        put_cl_ord_id(data, at + REJECTED_CL_ORD_ID, event)
    elif kind == MODIFIED:
        store_be32(data, at + MODIFIED_NUMBER, int(event["user_ref"]))
        data[at + MODIFIED_SIDE] = event["side"]
        store_be32(data, at + MODIFIED_QUANTITY, int(event["quantity"]))
    elif kind == QUERY_RESPONSE:
        store_be32(data, at + QUERY_NEXT, int(event["user_ref"]))
    else:
        data[at + EVENT_CODE] = event["detail"]


@verb
def append(store: tuple[Any, Any, Any], event: Any, symbols: Array) -> bool:
    """Put the event's packet at the end of its account's stream. False if there is no room."""
    data, offsets, state = store
    account = int(event["account"])
    size = int(SIZE[event["kind"]])
    capacity, entries = len(data) // len(state), len(offsets) // len(state)
    used, count = int(state[account, BYTES]), int(state[account, COUNT])
    if state[account, LOST] > 0 or used + HEAD_BYTES + size > capacity or count == entries:
        state[account, LOST] += 1
        return False
    at = account * capacity + used
    store_be16(data, at, 1 + size)
    data[at + 2] = SEQUENCED
    put_message(data, at + HEAD_BYTES, event, symbols)
    offsets[account * entries + count] = used
    state[account, BYTES] = used + HEAD_BYTES + size
    state[account, COUNT] = count + 1
    return True


@kernel
def encode(outbound: tuple[Any, ...]) -> tuple[int, int, int, int]:
    """Append the packets of all events that are there, at most one pass's worth; the loop thread's only.

    ``outbound``: the event ring's arrays, the stores' arrays, the symbols (flat, 8 bytes each), :func:`work`, and the
    gateway's counters and the histograms of the counters page. It is a plain tuple, as a NamedTuple costs a call
    850 ns more.

    Returns how many events were read, how many accounts stand in ``DIRTY_LIST``, how many answers in ``ANSWERS``, and
    when the events were read. The first is negative, -1 minus the kind, for an event that does not exist, which only
    a fault of the matching thread can bring about.
    """
    events, store, symbols, work, counters, histograms = outbound
    ring = Ring(events[0], events[1], events[2])
    state = store[2]
    rings.unpark(ring)
    ready = min(rings.available(ring), (len(work) - ANSWERS) // 2)
    if ready == 0:
        return 0, 0, 0, 0
    read_ns = now_ns(work)
    dirty_count, answer_count = 0, 0
    for ahead in range(ready):
        position = rings.read_position(ring, ahead)
        event = ring.records[position]
        kind, account = int(event["kind"]), int(event["account"])
        if SIZE[kind] == 0 or account >= len(state):
            return -1 - kind, 0, 0, read_ns
        if not append(store, event, symbols):
            counters[0]["store_full"] += 1
            continue
        counters[0]["messages_out"][kind] += 1
        if state[account, DIRTY] == 0:
            state[account, DIRTY] = 1
            work[DIRTY_LIST + dirty_count] = account
            dirty_count += 1
        if event["ingress_ns"] != 0:
            work[ANSWERS + 2 * answer_count] = event["ingress_ns"]
            work[ANSWERS + 2 * answer_count + 1] = account
            answer_count += 1
            record(histograms[RING_BACK], read_ns - int(ring.stamps_ns[position]))
    rings.release(ring, ready)
    for place in range(dirty_count):
        state[work[DIRTY_LIST + place], DIRTY] = 0
    return ready, dirty_count, answer_count, read_ns


@kernel
def finish(finishing: tuple[Any, ...], answer_count: int, read_ns: int, written_bytes: int) -> bool:
    """After the writes of a pass: record its latencies, and get ready to sleep.

    ``finishing`` is ``outbound`` without stores and symbols, and the accounts' histograms at its end. True if the
    event ring is empty and parked, so that the next event wakes the loop; False if there is more to read.
    """
    events, work, counters, histograms, account_histograms = finishing
    ring = Ring(events[0], events[1], events[2])
    if answer_count > 0:
        written_ns = now_ns(work)
        for place in range(answer_count):
            record(histograms[ENCODE_WRITE], written_ns - read_ns)
            latency_ns = written_ns - int(work[ANSWERS + 2 * place])
            record(histograms[ORDER_TO_ACK], latency_ns)
            record(account_histograms[work[ANSWERS + 2 * place + 1]], latency_ns)
    counters[0]["bytes_out"] += written_bytes
    return rings.park(ring)
