"""From the bytes of an order connection to commands on the ring: one compiled call for each chunk that is received.

The call cuts SoupBinTCP packets out of a connection's receive buffer, turns the OUCH 5.0
message in each ``U`` packet into one COMMAND, and publishes them all at once. Client heartbeats and
debug texts are passed over. Everything else stops it, and its caller looks after that packet.

What a message becomes:

======================================  ==============================================================================
Enter, Replace, Cancel, Modify, Query   the command of that name
Mass Cancel, Disable, Enable            not offered: an ENTER whose detail is 0x0F, so that Rejected names its number
Enter, Replace with options             see :mod:`venue.engine.order_options`; the first that is not gives ``detail``
options that cannot be read             an unknown tag, a wrong size: detail 0x0F in Enter and Replace
UserRefIdx not 0                        a channel that does not exist: detail 0x0F in Enter; Replace, Cancel and
                                        Modify then name no live order (number 0), so nothing happens; Query is
                                        answered for the only channel
anything else                           a broken message (``BAD_MESSAGE``): unknown type, shorter than its table, a
                                        length of options that does not fit the packet, options of Cancel, Modify or
                                        Query that cannot be read. No number in it could be trusted.
======================================  ==============================================================================

The offsets come from the tables in :mod:`venue.wire.ouch`, and every length is checked before a byte is used.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from venue.engine import ring as rings
from venue.engine.atomics import load_be16, load_be32, load_be64
from venue.engine.histogram import record
from venue.engine.kernel import kernel, verb
from venue.engine.order_options import MIN_QUANTITY_REASON, OTHER, SIDE_REASON, read_options
from venue.engine.records import CANCEL, ENTER, MODIFY, NO_INSTRUMENT, QUERY, REPLACE, Array
from venue.engine.ring import Ring
from venue.engine.symbols import find
from venue.engine.system import now_ns, wake
from venue.wire.ouch import INBOUND, CancelOrder, EnterOrder, ModifyOrder, ReplaceOrder

NEED_MORE: Final = 0
"""Every whole packet has been handled; what is left is the beginning of one, or nothing."""
RING_FULL: Final = 1
"""No room for the next command. Call again with the rest when there is."""
SESSION: Final = 2
"""The next packet is whole (or has length 0) and is for the session: a login, a logout, or an error."""
BAD_MESSAGE: Final = 3
"""The next packet is whole and carries no OUCH message."""

LENGTH_BYTES: Final = 2
HEAD_BYTES: Final = 3
HEARTBEAT_LENGTH: Final = 1
UNSEQUENCED, HEARTBEAT, DEBUG = ord("U"), ord("R"), ord("+")
BLANK_WORD: Final = int.from_bytes(b" " * 8, "big")

ENTER_TYPE, REPLACE_TYPE, CANCEL_TYPE, MODIFY_TYPE, QUERY_TYPE = (ord(letter) for letter in "OUXMQ")

# --- offsets, all from the first byte of the message ----------------------------------------------------------------

SIZE: Final = np.zeros(256, np.int64)  # of the table of each message type; 0 = no such type
LENGTH_AT: Final = np.zeros(256, np.int64)  # where the length of the options stands, in or behind the table
for _code, _message in INBOUND.items():
    _layout = _message.layout
    SIZE[_code[0]] = _layout.size
    _inside = _layout.fields and _layout.fields[-1].name == "appendage_length"
    LENGTH_AT[_code[0]] = _layout.offset("appendage_length") if _inside else _layout.size

NUMBER: Final = EnterOrder.layout.offset("user_ref_num")
"""Where UserRefNum stands in every message but Replace and Query."""
assert {m.layout.offset("user_ref_num") for c, m in INBOUND.items() if c not in (b"U", b"Q")} == {NUMBER}

ENTER_SIDE: Final = EnterOrder.layout.offset("side")
ENTER_QUANTITY: Final = EnterOrder.layout.offset("quantity")
ENTER_SYMBOL: Final = EnterOrder.layout.offset("symbol")
ENTER_PRICE: Final = EnterOrder.layout.offset("price")
ENTER_TIF: Final = EnterOrder.layout.offset("time_in_force")
ENTER_DISPLAY: Final = EnterOrder.layout.offset("display")
ENTER_CAPACITY: Final = EnterOrder.layout.offset("capacity")
ENTER_ISO: Final = EnterOrder.layout.offset("intermarket_sweep_eligibility")
ENTER_CROSS: Final = EnterOrder.layout.offset("cross_type")
ENTER_CL_ORD_ID: Final = EnterOrder.layout.offset("cl_ord_id")

REPLACE_ORIGINAL: Final = ReplaceOrder.layout.offset("orig_user_ref_num")
REPLACE_NUMBER: Final = ReplaceOrder.layout.offset("user_ref_num")
REPLACE_QUANTITY: Final = ReplaceOrder.layout.offset("quantity")
REPLACE_PRICE: Final = ReplaceOrder.layout.offset("price")
REPLACE_TIF: Final = ReplaceOrder.layout.offset("time_in_force")
REPLACE_DISPLAY: Final = ReplaceOrder.layout.offset("display")
REPLACE_ISO: Final = ReplaceOrder.layout.offset("intermarket_sweep_eligibility")
REPLACE_CL_ORD_ID: Final = ReplaceOrder.layout.offset("cl_ord_id")

CANCEL_QUANTITY: Final = CancelOrder.layout.offset("quantity")
MODIFY_SIDE: Final = ModifyOrder.layout.offset("side")
MODIFY_QUANTITY: Final = ModifyOrder.layout.offset("quantity")

# --- messages -------------------------------------------------------------------------------------------------------


@verb
def options_at(data: Array, at: int, length: int) -> int:
    """Where the options of the message at ``at``, ``length`` >= 1 bytes long, begin; -1 if it is no message."""
    kind = data[at]
    if SIZE[kind] == 0 or length < SIZE[kind]:
        return -1
    length_at = int(LENGTH_AT[kind])
    if length == length_at:  # it may end with its table
        return at + length
    start = length_at + LENGTH_BYTES
    if length < start or start + load_be16(data, at + length_at) != length:
        return -1
    return at + start


@verb
def clear(command: Any, kind: int, account: int, time_ns: int, arrival_ns: int) -> None:
    """Every field, since the record was another command before."""
    command["kind"] = kind
    command["account"] = account
    command["time_ns"] = time_ns
    command["ingress_ns"] = arrival_ns
    command["price"] = 0
    command["word0"] = BLANK_WORD
    command["word1"] = BLANK_WORD & 0xFFFFFFFFFFFF
    command["quantity"] = 0
    command["user_ref"] = 0
    command["extra"] = 0
    command["instrument"] = NO_INSTRUMENT
    command["side"] = 0
    command["tif"] = 0
    command["display"] = 0
    command["capacity"] = 0
    command["iso"] = 0
    command["cross"] = 0
    command["detail"] = 0


@verb
def keep_cl_ord_id(command: Any, data: Array, at: int) -> None:
    """14 bytes as two numbers: the first eight, and the last six."""
    command["word0"] = load_be64(data, at)
    command["word1"] = load_be64(data, at + 6) & 0xFFFFFFFFFFFF


@verb
def enter(command: Any, data: Array, at: int, table: Array) -> None:
    command["quantity"] = load_be32(data, at + ENTER_QUANTITY)
    command["instrument"] = find(table, load_be64(data, at + ENTER_SYMBOL))
    command["price"] = load_be64(data, at + ENTER_PRICE)
    command["side"] = data[at + ENTER_SIDE]
    command["tif"] = data[at + ENTER_TIF]
    command["display"] = data[at + ENTER_DISPLAY]
    command["capacity"] = data[at + ENTER_CAPACITY]
    command["iso"] = data[at + ENTER_ISO]
    command["cross"] = data[at + ENTER_CROSS]
    keep_cl_ord_id(command, data, at + ENTER_CL_ORD_ID)


@verb
def replace(command: Any, data: Array, at: int) -> None:
    command["user_ref"] = load_be32(data, at + REPLACE_NUMBER)
    command["extra"] = load_be32(data, at + REPLACE_ORIGINAL)
    command["quantity"] = load_be32(data, at + REPLACE_QUANTITY)
    command["price"] = load_be64(data, at + REPLACE_PRICE)
    command["tif"] = data[at + REPLACE_TIF]
    command["display"] = data[at + REPLACE_DISPLAY]
    command["iso"] = data[at + REPLACE_ISO]
    keep_cl_ord_id(command, data, at + REPLACE_CL_ORD_ID)


@verb
def change(command: Any, data: Array, at: int, readable: bool) -> bool:
    """Cancel, Modify or Query. False if its options cannot be read: there is no answer that could say so."""
    kind = data[at]
    if not readable:
        return False
    if kind == CANCEL_TYPE:
        command["kind"] = CANCEL
        command["quantity"] = load_be32(data, at + CANCEL_QUANTITY)
    elif kind == MODIFY_TYPE:
        command["kind"] = MODIFY
        command["side"] = data[at + MODIFY_SIDE]
        command["quantity"] = load_be32(data, at + MODIFY_QUANTITY)
    else:
        command["kind"] = QUERY
        command["user_ref"] = 0
        command["ingress_ns"] = 0  # no order: it counts in no latency
    return True


@verb
def fill(command: Any, data: Array, at: int, length: int, firm: int, table: Array) -> bool:
    """Write what the message at ``at`` asks for over a cleared command. False if it is no message."""
    if length < 1:
        return False
    start = options_at(data, at, length)
    if start < 0:
        return False
    kind = data[at]
    reason, minimum, side, channel, readable = read_options(data, start, at + length, firm)
    if reason == 0 and not readable:
        reason = OTHER
    if kind != QUERY_TYPE:
        command["user_ref"] = load_be32(data, at + NUMBER)
    if kind == ENTER_TYPE:
        enter(command, data, at, table)
        command["extra"] = minimum
        if side != 0 and reason == 0:
            reason = SIDE_REASON
        command["detail"] = reason
    elif kind == REPLACE_TYPE:
        command["kind"] = REPLACE
        replace(command, data, at)
        command["side"] = side
        if minimum != 0 and reason == 0:
            reason = MIN_QUANTITY_REASON
        command["detail"] = reason
        if channel != 0:
            command["extra"] = 0
    elif kind in (CANCEL_TYPE, MODIFY_TYPE, QUERY_TYPE):
        if not change(command, data, at, readable):
            return False
        if channel != 0:
            command["user_ref"] = 0
    else:  # Mass Cancel, Disable, Enable
        command["detail"] = OTHER
    return True


@kernel
def decode(
    inbound: tuple[Any, ...],
    buffer: Array,
    start: int,
    end: int,
    account: int,
    firm: int,
    arrival_ns: int,
    time_ns: int,
    command_wake: int,
) -> tuple[int, int, int]:
    """Publish a command for each order message in ``buffer[start:end]``; the loop thread's only.

    ``inbound``: the command ring's arrays, the symbol table, the counters of the gateway, the histogram
    socket_to_ring, scratch (int64, two words). It is a plain tuple, as a NamedTuple costs 850 ns more a call.
    ``arrival_ns`` is the monotonic clock when the
    bytes were read, ``time_ns`` the market time that the commands carry, ``firm`` the account's firm as a number.

    Returns why it stopped (``NEED_MORE``, ``RING_FULL``, ``SESSION``, ``BAD_MESSAGE``), how many bytes are done with,
    and how many commands were published.
    """
    commands, table, counters, histogram, scratch = inbound
    ring = Ring(commands[0], commands[1], commands[2])
    at, count, timed, stop = start, 0, 0, NEED_MORE
    while end - at >= LENGTH_BYTES:
        length = load_be16(buffer, at)
        if length == 0:
            stop = SESSION
            break
        if end - at < LENGTH_BYTES + length:
            break
        packet = buffer[at + LENGTH_BYTES]
        if packet == UNSEQUENCED:
            if rings.free(ring, count + 1) <= count:
                stop = RING_FULL
                break
            command = ring.records[rings.write_position(ring, count)]
            clear(command, ENTER, account, time_ns, arrival_ns)
            if not fill(command, buffer, at + HEAD_BYTES, length - 1, firm, table):
                stop = BAD_MESSAGE
                break
            counters[0]["messages_in"][buffer[at + HEAD_BYTES]] += 1
            count += 1
            if command["ingress_ns"] != 0:
                timed += 1
        elif packet != DEBUG and (packet != HEARTBEAT or length != HEARTBEAT_LENGTH):
            stop = SESSION
            break
        at += LENGTH_BYTES + length
    counters[0]["bytes_in"] += at - start
    if count > 0:
        published_ns = now_ns(scratch)
        rings.publish(ring, count, published_ns)
        if rings.must_wake(ring):
            wake(command_wake, scratch)
        for _ in range(timed):
            record(histogram, published_ns - arrival_ns)
    return stop, at - start, count


@kernel
def submit(inbound: tuple[Any, ...], kind: int, account: int, detail: int, time_ns: int, command_wake: int) -> bool:
    """Publish one command of the service itself, such as CANCEL_ALL. False, and nothing done, if the ring is full."""
    commands, _, _, _, scratch = inbound
    ring = Ring(commands[0], commands[1], commands[2])
    if rings.free(ring, 1) < 1:
        return False
    command = ring.records[rings.write_position(ring, 0)]
    clear(command, kind, account, time_ns, 0)
    command["detail"] = detail
    rings.publish(ring, 1, now_ns(scratch))
    if rings.must_wake(ring):
        wake(command_wake, scratch)
    return True
