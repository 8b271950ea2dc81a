"""`venue bench match FILE`: the workload of a public matching-engine benchmark through the engine's own book.

A file has a header of 16 bytes (magic, version, count) and then messages of 40 bytes: new, cancel or modify for one
book. What comes out are report lines; their SHA-256 is published, so that a fast wrong answer does not pass. The
timed part is one kernel on one thread: it matches and writes the reports into memory. Reading the file, sorting,
formatting and hashing are outside of it.
"""

from __future__ import annotations

import hashlib
import lzma
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import numpy as np

from venue.bench.report import Report, Rows, steps
from venue.engine import books
from venue.engine.atomics import prefetch
from venue.engine.books import (
    Books,
    find_own,
    forget_own,
    join,
    leave,
    new_order,
    user_ref_place,
)
from venue.engine.kernel import kernel, verb
from venue.engine.match import meets, take
from venue.engine.records import ACCOUNT, MATCH, Array, aligned
from venue.engine.reference import reference

MESSAGE: Final = np.dtype(
    [
        ("type", "u1"),
        ("side", "u1"),
        ("ioc", "u1"),
        ("_0", "u1"),
        ("quantity", "<u4"),
        ("sequence", "<u8"),
        ("id", "<u8"),
        ("price", "<i8"),
        ("_1", "<i8"),
    ]
)
HEADER_BYTES: Final = 16

NEW: Final = 0  # message types
CANCEL: Final = 1
MODIFY: Final = 2

PUBLISHED: Final = (
    "e9b2e3926854410b01a035aeb25dd05f1e597c233be8263de9eb49b6713d367e",
    "cff8d3f94b709fc64a8b2058a6ca4fb6920364904796e46906895e362d2bb16b",
)
"""What the benchmark gives for its scenarios `normal` and `flash-crash` (seed 23, a million orders)."""

REPORT: Final = np.dtype(
    [
        ("kind", "<i4"),
        ("sequence", "<i4"),
        ("side", "<i4"),
        ("id", "<i4"),  # of the order; of the resting order in a trade
        ("taker", "<i4"),
        ("price", "<i4"),
        ("quantity", "<i4"),
        ("_", "<i4"),
    ]
)

ACK: Final = 0  # report kinds, in the order in which those of one message are printed
TRADE: Final = 1
CANCEL_ACK: Final = 2
MODIFY_ACK: Final = 3
CANCEL_REJECT: Final = 4
MODIFY_REJECT: Final = 5

FAR_AHEAD: Final = 32
AHEAD: Final = 16
"""How many messages ahead the index is asked for, and then the order itself: 27 instead of 20 M messages/s."""

LARGEST_ID: Final = (1 << 31) - 1


class WorkloadError(ValueError):
    """The file is no workload; one line says why."""


def read_workload(path: Path) -> Array:
    """The messages of a workload file, plain or xz."""
    try:
        data = path.read_bytes()
        if data[:6] == b"\xfd7zXZ\x00":
            data = lzma.decompress(data)
    except (OSError, lzma.LZMAError) as error:
        raise WorkloadError(f"{path}: {error.strerror if isinstance(error, OSError) else error}") from None
    count = int.from_bytes(data[12:16], "little")
    if len(data) < HEADER_BYTES or len(data) != HEADER_BYTES + count * MESSAGE.itemsize:
        raise WorkloadError(f"{path}: not a workload: {len(data)} bytes do not hold a header and {count} messages")
    messages = np.frombuffer(data, MESSAGE, count, HEADER_BYTES)
    check(messages)
    return messages


def check(messages: Array) -> None:
    """WorkloadError for what the book's records have no room for."""
    if int(messages["side"].max(initial=0)) > 1 or int(messages["type"].max(initial=0)) > MODIFY:
        raise WorkloadError("a message has a side or a type that does not exist")
    largest = max(int(messages[name].max(initial=0)) for name in ("id", "price", "quantity", "sequence"))
    if largest > LARGEST_ID or int(messages["price"].min(initial=0)) < 0:
        raise WorkloadError(f"ids, prices, quantities and sequence numbers have to be from 0 to {LARGEST_ID}")


# --- the timed part -----------------------------------------------------------------------------------------------


@verb
def report(reports: Array, line: int, kind: int, message: Array, quantity: int) -> int:
    """Write one report about the message's own order; gives back the next line."""
    row = reports[line]
    row["kind"] = kind
    row["sequence"] = message["sequence"]
    row["side"] = message["side"]
    row["id"] = message["id"]
    row["price"] = message["price"]
    row["quantity"] = quantity
    return line + 1


@verb
def put(b: Books, message: Array, reports: Array, line: int) -> int:
    """Match an order, and let the rest stand or (IOC) cancel it."""
    side = int(message["side"])
    price = int(message["price"])
    order_id = int(message["id"])
    left = int(message["quantity"])
    fills = 0
    if meets(b, 0, side, price):
        fills, left, _ = take(b, 0, side, price, left, 0, int(b.accounts[0]["self_match"]))
    for i in range(fills):
        row = reports[line]
        row["kind"] = TRADE
        row["sequence"] = message["sequence"]
        row["id"] = b.fills[i]["user_ref"]
        row["taker"] = order_id
        row["price"] = b.fills[i]["price"]
        row["quantity"] = b.fills[i]["quantity"]
        line += 1
    if left == 0:
        return line
    if message["ioc"] != 0:
        return report(reports, line, CANCEL_ACK, message, 0)
    slot = new_order(b)
    order = b.orders[slot]
    order["open"] = left
    order["price"] = price
    order["spent"] = 0
    order["user_ref"] = order_id
    order["instrument"] = 0
    order["account"] = 0
    order["side"] = side
    join(b, slot)
    b.user_refs[user_ref_place(b, 0, order_id)] = slot
    return line


@verb
def withdraw(b: Books, slot: int, reports: Array, line: int, message: Array) -> int:
    """Take an order out of the book and say so."""
    order = b.orders[slot]
    row = reports[line]
    row["kind"] = CANCEL_ACK
    row["sequence"] = message["sequence"]
    row["side"] = order["side"]
    row["id"] = order["user_ref"]
    row["price"] = order["price"]
    leave(b, slot)
    forget_own(b, slot)
    return line + 1


@kernel
def run(b: Books, messages: Array, reports: Array) -> int:
    """Apply all messages to book 0; gives back how many reports were written."""
    b = reference(b)  # books that are passed on by value cost 25 ns a message
    line = 0
    last = len(messages) - 1
    for i in range(len(messages)):
        prefetch(b.user_refs, int(messages[min(i + FAR_AHEAD, last)]["id"]))
        prefetch(b.orders, int(b.user_refs[int(messages[min(i + AHEAD, last)]["id"])]))
        message = messages[i]
        kind = int(message["type"])
        if kind == NEW:
            line = report(reports, line, ACK, message, int(message["quantity"]))
            line = put(b, message, reports, line)
            continue
        slot = find_own(b, 0, int(message["id"]))
        if slot == 0:
            line = report(reports, line, CANCEL_REJECT if kind == CANCEL else MODIFY_REJECT, message, 0)
        elif kind == CANCEL:
            line = withdraw(b, slot, reports, line, message)
        else:
            leave(b, slot)
            forget_own(b, slot)
            line = report(reports, line, MODIFY_ACK, message, int(message["quantity"]))
            line = put(b, message, reports, line)
    return line


# --- around it ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Result:
    """What a workload gave, and how long the median of the repeats took."""

    messages: int
    reports: int
    seconds: float
    messages_per_s: float
    sha256: str


def new_books(messages: Array) -> Books:
    """An empty book with room for the workload."""
    ids = 1 << int(messages["id"].max(initial=1)).bit_length()
    orders = int((messages["type"] == NEW).sum()) + 1
    return books.create(
        instruments=1, accounts=aligned(1, ACCOUNT), orders=orders, levels=1 << 16, user_refs=ids, mode=MATCH
    )


def bench_match(file: Path, repeats: int) -> Report:
    """`venue bench match`. WorkloadError if the file is none."""
    with steps(1) as progress:
        progress.begin("matching")
        result, _ = measure(read_workload(file), repeats)
    figures = (
        f"{result.messages:,}",
        f"{result.reports:,}",
        f"{result.seconds:.4f}",
        f"{result.messages_per_s / 1e6:.2f}",
    )
    table = Rows(
        f"Matching, one thread, median of {repeats}",
        ("workload", "messages", "reports", "seconds", "M messages/s"),
        [(file.name, *figures)],
    )
    as_published = result.sha256 in PUBLISHED
    verdict = "as published" if as_published else "not one of those that are published for `normal` and `flash-crash`"
    notes = [
        f"SHA-256 of the reports {result.sha256}: {verdict}.",
        "The workloads are those of the public matching-engine-benchmark (flash1-dev). CppTrader (C++), measured with "
        "them on such a machine, on another, perhaps busier day: 13.9 and 15.6 M messages/s.",
    ]
    as_json = {"file": file.name, "repeats": repeats, "as_published": as_published} | asdict(result)
    return Report([table], as_json, notes)


def measure(messages: Array, repeats: int) -> tuple[Result, Array]:
    """Run the workload ``repeats`` times on fresh books; the median time, and the reports of the last run."""
    reports = aligned(2 * len(messages) + 1024 + int(messages["quantity"].sum()), REPORT)
    run(new_books(messages[:0]), messages[:0], reports)
    seconds = []
    count = 0
    for _ in range(repeats):
        b = new_books(messages)
        begun = time.perf_counter()
        count = int(run(b, messages, reports))
        seconds.append(time.perf_counter() - begun)
    median = sorted(seconds)[len(seconds) // 2]
    lines = report_lines(reports[:count])
    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
    return Result(len(messages), count, median, len(messages) / median, digest), reports[:count]


def report_lines(reports: Array) -> list[str]:
    """The reports as text, stably sorted by sequence and kind, as the benchmark prints them."""
    order = np.lexsort((reports["kind"], reports["sequence"]))
    fields = ("kind", "sequence", "side", "id", "taker", "price", "quantity")
    columns = [reports[name][order].tolist() for name in fields]
    return [line_of(*row) for row in zip(*columns, strict=True)]


def line_of(kind: int, sequence: int, side: int, order_id: int, taker: int, price: int, quantity: int) -> str:
    """One report line; which fields it has depends on its kind."""
    if kind in (ACK, MODIFY_ACK):
        return f"{kind},{sequence},{side},{order_id},{price},{quantity}"
    if kind == TRADE:
        return f"{kind},{sequence},{price},{quantity},{order_id},{taker}"
    if kind == CANCEL_ACK:
        return f"{kind},{sequence},{side},{order_id},{price}"
    return f"{kind},{sequence},{order_id}"
