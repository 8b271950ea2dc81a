"""Rings and messages for tests of the order codec, without a socket or a matching thread."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from venue.engine import cells, counters, ring, symbols, system
from venue.engine import order_decoder as decoder
from venue.engine import order_encoder as encoder
from venue.engine.records import COMMAND, EVENT, NO_INSTRUMENT
from venue.wire import ouch
from venue.wire.ouch import TagValue
from venue.wire.soupbintcp import frame

ACCOUNT = 3
FIRM = "VNUE"
ARRIVAL_NS, TIME_NS = 1_000, 34_200_000_001_000
SYMBOLS = ("AAPL", "MSFT")
BLANK_CL_ORD_ID = " " * 14
WAKE = system.wake_descriptor()


@dataclass
class Desk:
    """Both rings and all that the codec's calls need, without a socket or a matching thread."""

    capacity: int = 256

    def __post_init__(self) -> None:
        self.commands = ring.create(self.capacity, COMMAND)
        self.events = ring.create(self.capacity, EVENT)
        self.table = symbols.create(len(SYMBOLS))
        self.names = np.zeros((len(SYMBOLS), 8), np.uint8)
        for number, symbol in enumerate(SYMBOLS):
            symbols.insert(self.table, symbols.key_of(symbol), number)
            self.names[number] = list(symbol.ljust(8).encode())
        self.gateway = np.zeros(1, counters.GATEWAY)
        self.histograms = np.zeros((counters.HISTOGRAMS, cells.ROW), np.int64)
        self.account_histograms = np.zeros((counters.ACCOUNTS, cells.ROW), np.int64)
        self.inbound = (
            tuple(self.commands),
            self.table,
            self.gateway,
            self.histograms[counters.SOCKET_TO_RING],
            np.zeros(2, np.int64),
        )

    def decode(self, data: bytes, start: int = 0, end: int | None = None) -> tuple[int, int, int]:
        """The call as it stands. The bytes lie at the very end of their memory, where a read too far is noticed
        with bounds checks on."""
        buffer = np.frombuffer(data, np.uint8).copy()
        stop = len(buffer) if end is None else end
        firm = int.from_bytes(FIRM.encode(), "big")
        return decoder.decode(self.inbound, buffer, start, stop, ACCOUNT, firm, ARRIVAL_NS, TIME_NS, WAKE)

    def take(self) -> list[dict[str, Any]]:
        """The commands that were published, as dictionaries, given back to the ring."""
        count = ring.depth(self.commands)
        rows = [self.commands.records[ring.read_position(self.commands, i)].copy() for i in range(count)]
        ring.release(self.commands, count)
        return [{name: int(row[name]) for name in COMMAND.names or ()} for row in rows]


def enter(user_ref_num: int = 1, appendage: tuple[TagValue, ...] = (), **changes: Any) -> ouch.EnterOrder:
    fields: dict[str, Any] = {
        "side": "B",
        "quantity": 500,
        "symbol": "AAPL",
        "price": 1_895_000,
        "time_in_force": "0",
        "display": "Y",
        "capacity": "P",
        "intermarket_sweep_eligibility": "N",
        "cross_type": "N",
        "cl_ord_id": "first order 14",
    }
    return ouch.EnterOrder(user_ref_num=user_ref_num, appendage=appendage, **(fields | changes))


def replace(original: int, new: int, appendage: tuple[TagValue, ...] = ()) -> ouch.ReplaceOrder:
    return ouch.ReplaceOrder(
        orig_user_ref_num=original,
        user_ref_num=new,
        quantity=700,
        price=1_896_000,
        time_in_force="3",
        display="A",
        intermarket_sweep_eligibility="Y",
        cl_ord_id="second",
        appendage=appendage,
    )


def packets(*messages: ouch.InboundMessage) -> bytes:
    return b"".join(frame(b"U", message.encode()) for message in messages)


def command(kind: int, **changes: int) -> dict[str, int]:
    """A command as the decoder writes it where nothing else is said."""
    return {
        "time_ns": TIME_NS,
        "ingress_ns": ARRIVAL_NS,
        "price": 0,
        **cl_ord_id(BLANK_CL_ORD_ID),
        "quantity": 0,
        "user_ref": 0,
        "extra": 0,
        "instrument": NO_INSTRUMENT,
        "account": ACCOUNT,
        "kind": kind,
        "side": 0,
        "tif": 0,
        "display": 0,
        "capacity": 0,
        "iso": 0,
        "cross": 0,
        "detail": 0,
    } | changes


def cl_ord_id(text: str) -> dict[str, int]:
    raw = text.encode("latin-1").ljust(14)
    return {"word0": int.from_bytes(raw[:8], "big", signed=True), "word1": int.from_bytes(raw[8:], "big")}


CAPACITY = 16_384
EVENT_BASE: dict[str, int] = {
    "time_ns": TIME_NS,
    "price": 1_895_000,
    "reference": (1 << 62) + 5,
    **cl_ord_id("first order 14"),
    "quantity": 400,
    "user_ref": 9,
    "original_user_ref": 7,
    "instrument": 1,
    "account": 1,
    "side": ord("T"),
    "tif": ord("0"),
    "display": ord("Y"),
    "capacity": ord("P"),
    "iso": ord("N"),
    "cross": ord("N"),
}


@dataclass
class Streams:
    """An encoder over two small stores."""

    desk: Desk = field(default_factory=Desk)
    entries: int = CAPACITY // 16

    def __post_init__(self) -> None:
        self.store = (
            np.zeros(2 * CAPACITY, np.uint8),
            np.zeros(2 * self.entries, np.int64),
            np.zeros((2, encoder.STATE_WORDS), np.int64),
        )
        self.work = encoder.work(pass_events=64)
        tail = (self.work, self.desk.gateway, self.desk.histograms)
        self.outbound = (tuple(self.desk.events), self.store, self.desk.names.reshape(-1), *tail)
        self.finishing = (tuple(self.desk.events), *tail, self.desk.account_histograms)

    def happen(self, *kinds_and_details: tuple[str, int | str], **changes: int) -> None:
        for kind, detail in kinds_and_details:
            row = self.desk.events.records[ring.write_position(self.desk.events, 0)]
            code = detail if isinstance(detail, int) else ord(detail)
            for name, value in (EVENT_BASE | {"ingress_ns": 0} | changes | {"kind": ord(kind), "detail": code}).items():
                row[name] = value
            ring.publish(self.desk.events, 1, ARRIVAL_NS)

    def stream(self, account: int = 1) -> bytes:
        data, _, state = self.store
        return data[account * CAPACITY : account * CAPACITY + int(state[account, encoder.BYTES])].tobytes()
