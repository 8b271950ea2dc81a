"""ITCH messages by the thousand: a chunk of records, indexed once, without an object for each message.

A record is `[u16 length][message]`. That is how BinaryFILE stores messages and, byte for byte, how MoldUDP64 carries
them (its message blocks), so a run of records can go into a packet as it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from venue.wire import itch

DAY_NS = 86_400_000_000_000
MAX_MESSAGE_BYTES = 1_378
"""The longest message that fits a packet of 1,400 bytes: 20 bytes of MoldUDP64 header and 2 of length go off."""

_TIMESTAMP_AT, _TIMESTAMP_END = 5, 11  # every ITCH message: type, stock locate, tracking number, timestamp
_STOCK_AT = np.zeros(256, np.int64)
for _code, _message in itch.MESSAGES.items():
    if any(field.name == "stock" for field in _message.layout.fields):
        _STOCK_AT[_code[0]] = _message.layout.offset("stock")
_SIZES = np.array(itch.SIZES, np.int64)

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some consecutive records.

    `block` holds whole records only. `bounds` has one entry more than there are records: record i is
    `block[bounds[i]:bounds[i + 1]]`. `times_ns` are the messages' timestamps in ns since midnight; they never go back.
    """

    block: bytes
    bounds: Int64s
    times_ns: Int64s

    def __len__(self) -> int:
        return len(self.times_ns)

    def messages(self) -> Iterator[bytes]:
        """The messages one by one, without their lengths."""
        bounds = self.bounds.tolist()
        for start, end in pairwise(bounds):
            yield self.block[start + 2 : end]


def whole_records(data: bytes) -> list[int]:
    """Where the records of `data` begin, and then where the last whole one ends.

    Stops before a record that is not complete and before one of length zero (end of session in BinaryFILE).
    """
    bounds = []
    at, size = 0, len(data)
    while at + 2 < size:
        length = data[at] << 8 | data[at + 1]
        if not length or at + 2 + length > size:
            break
        bounds.append(at)
        at += 2 + length
    bounds.append(at)
    return bounds


def index_records(data: bytes, bounds: list[int], not_before_ns: int, skipped: Counter[str]) -> Chunk:
    """A chunk of the records that `whole_records` found; those no receiver could read are left out and counted.

    A message too short for a timestamp, or one with a time outside the day, takes the time of the one before it.
    """
    at = np.array(bounds, np.int64)
    starts, sizes = at[:-1], at[1:] - at[:-1] - 2
    octets = np.frombuffer(data, np.uint8)
    expected = _SIZES[octets[starts + 2]]
    wrong = (expected != 0) & (expected != sizes)
    long = sizes > MAX_MESSAGE_BYTES
    _count(skipped, "message of the wrong length for its type", wrong)
    _count(skipped, "message too long for a packet", long & ~wrong)
    _count(skipped, "message of an unknown type (passed on)", (expected == 0) & ~long)

    timed = sizes >= _TIMESTAMP_END
    times = np.zeros(len(starts), np.int64)
    times[timed] = _gather(octets, starts[timed] + 2 + _TIMESTAMP_AT, _TIMESTAMP_END - _TIMESTAMP_AT).astype(np.int64)
    times[(times >= DAY_NS) | wrong] = 0
    times = np.maximum(np.maximum.accumulate(times), not_before_ns) if len(times) else times
    chunk = Chunk(data[: bounds[-1]], at, times)
    usable = ~(wrong | long)
    return chunk if usable.all() else select(chunk, usable)


def select(chunk: Chunk, wanted: npt.NDArray[np.bool_]) -> Chunk:
    """Only the records whose flag is set."""
    sizes = np.diff(chunk.bounds)
    octets = np.frombuffer(chunk.block, np.uint8)
    bounds = np.zeros(int(wanted.sum()) + 1, np.int64)
    np.cumsum(sizes[wanted], out=bounds[1:])
    return Chunk(octets[np.repeat(wanted, sizes)].tobytes(), bounds, chunk.times_ns[wanted])


class SymbolFilter:
    """Keeps the messages of some symbols, and those of the whole market (stock locate 0).

    Messages that name their stock (R, H, A, F, P, ...) are judged by it and teach the day's stock locate; those that do
    not (E, C, X, D, U, B) are judged by the locate. A file cut out of a day may hold some before their stock is named:
    these are left out.
    """

    def __init__(self, symbols: Iterable[str]) -> None:
        self._names = {int.from_bytes(symbol.encode("ascii").ljust(8), "big"): symbol for symbol in symbols}
        self._wanted = np.array(sorted(self._names), np.uint64)
        self._wanted_locates = np.zeros(65_536, np.bool_)
        self._wanted_locates[0] = True
        self.not_seen = set(self._names.values())
        """Symbols that no message has named yet."""

    def apply(self, chunk: Chunk) -> Chunk:
        """The wanted part of the chunk; call it with the chunks in their order."""
        octets = np.frombuffer(chunk.block, np.uint8)
        starts = chunk.bounds[:-1] + 2
        sizes = np.diff(chunk.bounds) - 2
        stock_at = _STOCK_AT[octets[starts]]
        named = (stock_at > 0) & (sizes >= stock_at + 8)
        locates = np.zeros(len(starts), np.uint64)
        located = sizes >= 3
        locates[located] = _gather(octets, starts[located] + 1, 2)
        stocks = np.zeros(len(starts), np.uint64)
        stocks[named] = _gather(octets, (starts + stock_at)[named], 8)
        wanted_by_name = named & np.isin(stocks, self._wanted)
        self._wanted_locates[locates[wanted_by_name]] = True
        if self.not_seen:
            self.not_seen -= {self._names[int(stock)] for stock in np.unique(stocks[wanted_by_name])}
        return select(chunk, np.where(named, wanted_by_name, self._wanted_locates[locates]))


def _gather(octets: npt.NDArray[np.uint8], at: Int64s, width: int) -> npt.NDArray[np.uint64]:
    """The big-endian integers of `width` bytes at the offsets `at`."""
    wide = np.zeros((len(at), 8), np.uint8)
    wide[:, 8 - width :] = octets[at[:, None] + np.arange(width)]
    return wide.view(">u8").ravel().astype(np.uint64)


def _count(skipped: Counter[str], reason: str, flags: npt.NDArray[np.bool_]) -> None:
    count = int(flags.sum())
    if count:
        skipped[reason] += count
