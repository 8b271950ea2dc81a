"""The compiled side of the order client: prepared bytes out, answers in, latencies kept; nothing else.

Each connection keeps ``LIVE`` orders in the book: with every Enter goes the Cancel of the order ``LIVE`` before it. No
order trades, so each has exactly one Accepted and one Canceled, and both come in the order in which they were sent.
Any other answer ends the run.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numba import types

from venue.engine.atomics import address, load_be16, load_be32, store_be32
from venue.engine.kernel import kernel, verb
from venue.engine.records import Array
from venue.engine.system import now_ns
from venue.wire import ouch

LIVE: Final = 64
"""Orders of one connection that rest in the book."""
SLOTS: Final = 4_096
"""Prepared orders of one connection, used again and again: so many can be in flight. A power of two."""
RECEIVE_BYTES: Final = 256 << 10
IN_A_ROW: Final = 16
"""With a rate, so many orders go to one connection before the next has its turn: those that are due together then need
one system call and not one each, which would take more of the processor than the exchange does."""
TOGETHER_NS: Final = 20_000
"""With a rate, what falls due within so long is sent together: a system call an order could not follow a million."""
LOOK_IN_NS: Final = 100_000_000
"""So often a kernel returns to Python, which can be interrupted."""
SECOND_NS: Final = 1_000_000_000

HEAD: Final = 3  # length and type of a SoupBinTCP packet
ENTER_BYTES: Final = HEAD + ouch.EnterOrder.layout.size
CANCEL_BYTES: Final = HEAD + ouch.CancelOrder.layout.size
PAIR_BYTES: Final = ENTER_BYTES + CANCEL_BYTES
CYCLE_BYTES: Final = SLOTS * PAIR_BYTES
ENTER_REF: Final = HEAD + ouch.EnterOrder.layout.offset("user_ref_num")
CANCEL_REF: Final = ENTER_BYTES + HEAD + ouch.CancelOrder.layout.offset("user_ref_num")
ACCEPTED_BYTES: Final = HEAD + ouch.Accepted.layout.size
CANCELED_BYTES: Final = HEAD + ouch.Canceled.layout.size
ANSWER_REF: Final = HEAD + ouch.Accepted.layout.offset("user_ref_num")
assert HEAD + ouch.Canceled.layout.offset("user_ref_num") == ANSWER_REF
SEQUENCED, HEARTBEAT = ord("S"), ord("H")
ACCEPTED_TYPE, CANCELED_TYPE = ord("A"), ord("C")

# --- a connection's row: int64[ROW] ---------------------------------------------------------------------------------

FIRST_REF: Final = 0  # UserRefNum of order 0 of the connection
PREPARED: Final = 1  # orders so far
SENT_BYTES: Final = 2  # of the pairs from order 0 on
ACCEPTED: Final = 3  # so many answers so far
CANCELED: Final = 4
HELD: Final = 5  # bytes of a packet's beginning at the front of the receive buffer
BASE: Final = 6  # the first order of this run, whose latency has place 0
ROW: Final = 16

DONE: Final = 0
GOES_ON: Final = 1
CLOSED: Final = 2  # or, where a call waits, nothing came
BROKEN: Final = 3
UNEXPECTED: Final = 4
WRONG_ORDER: Final = 5

POLLIN: Final = 1
POLLOUT: Final = 4
MSG_DONTWAIT: Final = 0x40
MSG_NOSIGNAL: Final = 0x4000

_send: Any = types.ExternalFunction("send", types.int64(types.int32, types.int64, types.int64, types.int32))
_recv: Any = types.ExternalFunction("recv", types.int64(types.int32, types.int64, types.int64, types.int32))
_ppoll: Any = types.ExternalFunction("ppoll", types.int32(types.int64, types.int64, types.int64, types.int64))


class Connections(NamedTuple):
    """What the kernels work on: one row of each array for a connection. One thread uses it."""

    rows: Array  # int64[connections, ROW]
    out: Array  # uint8[connections, CYCLE_BYTES]: prepared orders, each with the Cancel that goes with it
    incoming: Array  # uint8[connections, RECEIVE_BYTES]
    times_ns: Array  # int64[connections, SLOTS]: when an order was due or, without a rate, sent
    polls: Array  # int64[connections]: struct pollfd {int fd; short events; short revents}
    scratch: Array  # int64[4] for system calls


def connections(count: int) -> Connections:
    return Connections(
        np.zeros((count, ROW), np.int64),
        np.zeros((count, CYCLE_BYTES), np.uint8),
        np.zeros((count, RECEIVE_BYTES), np.uint8),
        np.zeros((count, SLOTS), np.int64),
        np.zeros(count, np.int64),
        np.zeros(4, np.int64),
    )


@verb
def _descriptor(c: Connections, k: int) -> int:
    return int(c.polls[k]) & 0xFFFFFFFF


@verb
def _wait(c: Connections, count: int, timeout_ns: int) -> None:
    """Until one of the first ``count`` connections has something, or the time is up."""
    c.scratch[2] = 0
    c.scratch[3] = min(max(timeout_ns, 0), LOOK_IN_NS)  # struct timespec {seconds, nanoseconds}
    _ppoll(address(c.polls, 0), count, address(c.scratch, 2), 0)


@kernel
def take_answers(row: Array, data: Array, end: int, times_ns: Array, latencies_ns: Array, now: int) -> int:
    """Read the whole packets in ``data[:end]`` and move the beginning of one more to the front: ``DONE``, or what is
    wrong with them."""
    at = 0
    while end - at >= HEAD:
        size = 2 + load_be16(data, at)
        if size < HEAD:
            return BROKEN
        if end - at < size:
            break
        kind, message = data[at + 2], data[at + HEAD] if size > HEAD else 0
        if kind == SEQUENCED and message == ACCEPTED_TYPE and size == ACCEPTED_BYTES:
            number = int(row[ACCEPTED])
            if load_be32(data, at + ANSWER_REF) != row[FIRST_REF] + number or number >= row[PREPARED]:
                return WRONG_ORDER
            place = number - int(row[BASE])
            if 0 <= place < len(latencies_ns):
                latencies_ns[place] = now - times_ns[number & (SLOTS - 1)]
            row[ACCEPTED] = number + 1
        elif kind == SEQUENCED and message == CANCELED_TYPE and size == CANCELED_BYTES:
            if load_be32(data, at + ANSWER_REF) != row[FIRST_REF] + row[CANCELED] or row[CANCELED] >= row[ACCEPTED]:
                return WRONG_ORDER
            row[CANCELED] += 1
        elif kind != HEARTBEAT or size != HEAD:
            return UNEXPECTED
        at += size
    for place in range(end - at):
        data[place] = data[at + place]
    row[HELD] = end - at
    return DONE


@kernel
def receive(c: Connections, k: int, latencies_ns: Array, flags: int) -> int:
    """Take what has arrived on connection ``k``."""
    row, data = c.rows[k], c.incoming[k]
    held = int(row[HELD])
    count = _recv(_descriptor(c, k), address(data, held), len(data) - held, flags)
    if count <= 0:
        return CLOSED
    return int(take_answers(row, data, held + count, c.times_ns[k], latencies_ns, now_ns(c.scratch)))


@verb
def _prepare(c: Connections, k: int, until: int) -> None:
    """Fill the numbers of the orders up to ``until`` in."""
    row, out = c.rows[k], c.out[k]
    for number in range(int(row[PREPARED]), until):
        at = (number & (SLOTS - 1)) * PAIR_BYTES
        store_be32(out, at + ENTER_REF, int(row[FIRST_REF]) + number)
        store_be32(out, at + CANCEL_REF, int(row[FIRST_REF]) + number - LIVE)
    row[PREPARED] = until


@verb
def _send_on(c: Connections, k: int) -> bool:
    """Send what is prepared, as far as the kernel takes it. True if all is out."""
    row = c.rows[k]
    end = int(row[PREPARED]) * PAIR_BYTES
    while row[SENT_BYTES] < end:
        position = int(row[SENT_BYTES]) % CYCLE_BYTES
        size = min(end - int(row[SENT_BYTES]), CYCLE_BYTES - position)
        count = _send(_descriptor(c, k), address(c.out[k], position), size, MSG_DONTWAIT | MSG_NOSIGNAL)
        if count <= 0:  # full; a connection that is broken shows when it is read
            return False
        row[SENT_BYTES] += count
    return True


@kernel
def number_of(i: int, k: int, count: int) -> int:
    """Which order of all is order ``i`` of connection ``k`` of ``count``: each has ``IN_A_ROW`` and then the next."""
    return (i // IN_A_ROW * count + k) * IN_A_ROW + i % IN_A_ROW


@kernel
def orders_due(total: int, k: int, count: int) -> int:
    """How many of the first ``total`` orders are those of connection ``k`` of ``count``."""
    rounds, rest = total // (IN_A_ROW * count), total % (IN_A_ROW * count)
    return rounds * IN_A_ROW + min(max(rest - k * IN_A_ROW, 0), IN_A_ROW)


@kernel
def stream(c: Connections, orders: int, in_flight: int, rate: int, start_ns: int, latencies_ns: Array) -> int:
    """Send ``orders`` orders a connection, from order ``BASE`` on, at most ``in_flight`` of each at a time, and read
    all answers to them and to the Cancels beside them.

    ``rate``: orders a second over all connections, the first one due at ``start_ns`` (monotonic); 0 = as fast as
    answers come. ``latencies_ns`` has a row a connection. Returns ``DONE``, ``GOES_ON`` (call again) or what is wrong.
    """
    count = len(c.rows)
    look_in_ns = now_ns(c.scratch) + LOOK_IN_NS
    while True:
        now = now_ns(c.scratch)
        total = max(now - start_ns, -1) * rate // SECOND_NS + 1
        left, next_ns = 0, now + LOOK_IN_NS
        for k in range(count):
            row = c.rows[k]
            base, prepared = int(row[BASE]), int(row[PREPARED])
            due = min(orders_due(total, k, count), orders) if rate > 0 else orders
            until = max(min(base + due, int(row[ACCEPTED]) + in_flight), prepared)
            for number in range(prepared, until):
                due_ns = start_ns + number_of(number - base, k, count) * SECOND_NS // rate if rate > 0 else now
                c.times_ns[k, number & (SLOTS - 1)] = due_ns
            _prepare(c, k, until)
            out = _send_on(c, k)
            c.polls[k] = _descriptor(c, k) | (POLLIN if out else POLLIN | POLLOUT) << 32
            left += base + orders - LIVE - int(row[CANCELED])
            if rate > 0 and until < min(
                base + orders, int(row[ACCEPTED]) + in_flight
            ):  # else only answers let it go on
                due_ns = start_ns + number_of(until - base, k, count) * SECOND_NS // rate
                next_ns = min(next_ns, max(due_ns, now + TOGETHER_NS))
        if left == 0:
            return DONE
        if now > look_in_ns:
            return GOES_ON
        _wait(c, count, next_ns - now)
        for k in range(count):
            if (int(c.polls[k]) >> 48) & ~POLLOUT:
                code = receive(c, k, latencies_ns[k], MSG_DONTWAIT)
                if code != DONE:
                    return code


@kernel
def round_trips(c: Connections, orders: int, rate: int, start_ns: int, latencies_ns: Array) -> int:
    """On connection 0, one Enter after the other, each sent when the one before it is answered and, with a rate, when
    it is due. Their Cancels are left to the caller. Returns like :func:`stream`."""
    row = c.rows[0]
    look_in_ns = now_ns(c.scratch) + LOOK_IN_NS
    end = int(row[BASE]) + orders
    while row[ACCEPTED] < end:
        now = now_ns(c.scratch)
        if now > look_in_ns:
            return GOES_ON
        number = int(row[PREPARED])
        if row[ACCEPTED] == number:
            due_ns = start_ns + (number - int(row[BASE])) * SECOND_NS // rate if rate > 0 else now
            if due_ns > now:
                _wait(c, 0, due_ns - now)
                continue
            _prepare(c, 0, number + 1)
            c.times_ns[0, number & (SLOTS - 1)] = due_ns
            at = (number & (SLOTS - 1)) * PAIR_BYTES
            if _send(_descriptor(c, 0), address(c.out[0], at), ENTER_BYTES, MSG_NOSIGNAL) != ENTER_BYTES:
                return CLOSED
        code = receive(c, 0, latencies_ns[0], 0)
        if code != DONE:
            return code
    return DONE


@kernel
def echo_trips(c: Connections, orders: int, latencies_ns: Array) -> int:
    """As :func:`round_trips` with a server that answers every ``ENTER_BYTES`` with ``ACCEPTED_BYTES`` of any kind."""
    data = c.incoming[0]
    for number in range(orders):
        sent_ns = now_ns(c.scratch)
        if _send(_descriptor(c, 0), address(c.out[0], 0), ENTER_BYTES, MSG_NOSIGNAL) != ENTER_BYTES:
            return CLOSED
        received = 0
        while received < ACCEPTED_BYTES:
            count = _recv(_descriptor(c, 0), address(data, 0), len(data), 0)
            if count <= 0:
                return CLOSED
            received += count
        latencies_ns[0, number] = now_ns(c.scratch) - sent_ns
    return DONE
