"""What the tests of the feed share: blocks of messages, and a decoder whose command ring the test reads itself."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from venue.engine import feed_codec, ring
from venue.engine.counters import FEED
from venue.engine.feed_codec import DONE, NEEDS_INSTRUMENT, POSITION, PROGRESS_WORDS, Decoder
from venue.engine.records import COMMAND, NO_INSTRUMENT, RECORDED, Array
from venue.instruments import Instruments
from venue.wire import itch

DEFAULTS: dict[str, int] = dict.fromkeys(COMMAND.names or (), 0) | {"account": RECORDED, "instrument": NO_INSTRUMENT}


def command(kind: int, **fields: int) -> dict[str, int]:
    """A whole command of the feed; what is not mentioned has the value of a command that says nothing of it."""
    return DEFAULTS | {"kind": kind} | fields


def blocks(messages: Iterable[itch.ItchMessage | bytes]) -> bytes:
    """Message blocks as in a packet or a file."""
    encoded = [message if isinstance(message, bytes) else message.encode() for message in messages]
    return b"".join(len(message).to_bytes(2, "big") + message for message in encoded)


def as_array(data: bytes) -> Array:
    """Writable, as the arenas are: Numba would compile anything else anew."""
    return np.frombuffer(bytearray(data), np.uint8)


def drain(commands: ring.Ring) -> list[dict[str, int]]:
    """Everything on the ring, which is given back."""
    count = int(ring.available(commands))
    taken = [commands.records[int(ring.read_position(commands, ahead))] for ahead in range(count)]
    rows = [{name: int(row[name]) for name in DEFAULTS} for row in taken]
    ring.release(commands, count)
    return rows


class Rig:
    """A decoder over a small ring, with a registry of instruments."""

    def __init__(
        self,
        *symbols: str,
        capacity: int = 8,
        ring_capacity: int = 64,
        limit: int | None = None,
        wake: int = -1,
    ) -> None:
        self.instruments = Instruments(capacity)
        for locate, symbol in enumerate(symbols, 1):
            self.instruments.map_locate(locate, self.instruments.add(symbol))
        self.commands = ring.create(ring_capacity, COMMAND, start=2**63 - 2)
        self.counters: Array = np.zeros(1, FEED)
        self.decoder = Decoder(
            commands=self.commands,
            limit=ring_capacity if limit is None else limit,
            wake=wake,
            counters=self.counters,
            locates=self.instruments.locates,
            symbols=self.instruments.table,
            progress=np.zeros(PROGRESS_WORDS, np.int64),
            scratch=np.zeros(2, np.int64),
        )

    @property
    def progress(self) -> list[int]:
        return [int(word) for word in self.decoder.progress]

    def decode(self, data: bytes, ingress_ns: int = 0, start: int = 0) -> int:
        return int(feed_codec.decode_blocks(self.decoder, as_array(data), start, len(data), ingress_ns))

    def learn(self, data: bytes) -> None:
        """What the feed does about NEEDS_INSTRUMENT: register the stock of the message the decoder stopped at."""
        message: Any = itch.decode(
            data[(at := self.progress[POSITION]) + 2 :][: int.from_bytes(data[at : at + 2], "big")]
        )
        self.instruments.map_locate(message.stock_locate, self.instruments.add(message.stock))

    def decode_all(self, data: bytes, ingress_ns: int = 0) -> list[dict[str, int]]:
        """The commands of all the messages; every stock is learned as it comes."""
        code = self.decode(data, ingress_ns)
        taken = drain(self.commands)
        while code != DONE:
            if code == NEEDS_INSTRUMENT:
                self.learn(data)
            code = self.decode(data, ingress_ns, self.progress[POSITION])
            taken += drain(self.commands)
        return taken

    def drain(self) -> list[dict[str, int]]:
        return drain(self.commands)

    def counted(self) -> dict[str, int]:
        return counted(self.counters)


def counted(counters: Array) -> dict[str, int]:
    """All counters of the feed that are not zero; messages by their type letter, lines as a list would name them."""
    row = counters[0]
    types = {chr(code): int(row["messages"][code]) for code in np.flatnonzero(row["messages"])}
    names = [name for name in FEED.names or () if row[name].ndim == 0 and row[name] != 0]
    lines = {
        f"{name}[{line}]": int(row[name][line])
        for name in ("line_packets", "line_first_arrivals")
        for line in np.flatnonzero(row[name])
    }
    return types | {name: int(row[name]) for name in names} | lines


def read_itch(path: Path) -> list[bytes]:
    """The messages of a BinaryFILE."""
    data = path.read_bytes()
    messages, start = [], 0
    while start < len(data):
        size = int.from_bytes(data[start : start + 2], "big")
        messages.append(data[start + 2 : start + 2 + size])
        start += 2 + size
    return messages
