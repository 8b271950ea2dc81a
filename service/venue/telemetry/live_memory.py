"""What lies beside the counters page: books, trades and own orders to look at, and what those who look ask for.

Two files with the page's name. ``.live`` is written by the exchange and mapped read-only by others; ``.requests``
(wishes, and the operator's mailbox) is written by the telemetry process and read by the exchange. Both are reserved
when they are created, mode 0600, and removed with the page. The layout is described in README.md beside this file.
"""

from __future__ import annotations

import mmap
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from venue.engine import live_records
from venue.engine.cells import Int64s
from venue.engine.counters import SHARDS
from venue.engine.live_records import ORDERS_SHOWN, PLACES, TRADES_KEPT, WISHES, Live
from venue.engine.records import Array
from venue.telemetry.pages import PageError, beside, map_file

MAGIC: Final = int.from_bytes(b"VENUELV\n", "little")
LAYOUT_VERSION: Final = 3
"""Goes up by one with every change of ``HEADER``, a record of :mod:`venue.engine.live_records`, or their places."""
ALIGNMENT: Final = 128
SYMBOL_BYTES: Final = 8

HEADER: Final = np.dtype(
    [
        ("magic", np.int64),
        ("layout_version", np.int64),
        ("size_bytes", np.int64),
        ("instruments", np.int64),  # capacity
        ("count", np.int64),  # instruments known so far
        ("shards", np.int64),  # matching threads
    ]
)

MAILBOX: Final = WISHES
"""Words of ``.requests`` after the wishes: the request's number (written last), the account, 1 (kill) or 0."""
REQUEST_WORDS: Final = 64
REQUESTS_BYTES: Final = REQUEST_WORDS * 8


def places(instruments: int, shards: int = 1) -> tuple[dict[str, tuple[np.dtype[Any], tuple[int, ...], int]], int]:
    """Record type, shape and offset of each section of ``.live``, and the size of the file.

    The first matching thread's sections are called as in :class:`Live`, those of the others ``books/1`` and so on.
    """
    plan: dict[str, tuple[np.dtype[Any], tuple[int, ...]]] = {
        "header": (HEADER, (1,)),
        "symbols": (np.dtype(np.uint8), (instruments, SYMBOL_BYTES)),
    }
    for shard in range(shards):
        for name, (dtype, length) in live_records.shapes(instruments, TRADES_KEPT, ORDERS_SHOWN).items():
            plan[_name(name, shard)] = (dtype, (length,))
    placed = {}
    offset = 0
    for name, (dtype, shape) in plan.items():
        placed[name] = (dtype, shape, offset)
        offset = -(-(offset + dtype.itemsize * int(np.prod(shape))) // ALIGNMENT) * ALIGNMENT
    return placed, offset


def _name(section: str, shard: int) -> str:
    return f"{section}/{shard}" if shard else section


@dataclass(frozen=True, slots=True)
class LiveMemory:
    """The mapped files. The owner made them with :func:`create`, others with :func:`open_beside`.

    The arrays stay valid for as long as somebody holds them, also after the files are removed.
    """

    header: Array
    symbols: Array
    """[instrument, 8] bytes, padded with blanks; written by the loop thread, ``count`` in the header after them."""
    shards: tuple[Live, ...]
    """What each matching thread shows. They share the wishes, and each answers those for the books that it has."""
    requests: Int64s
    """[REQUEST_WORDS]."""

    @property
    def live(self) -> Live:
        """What the first matching thread shows."""
        return self.shards[0]

    def of(self, instrument: int) -> Live:
        """What the matching thread shows that has this instrument."""
        return self.shards[instrument % len(self.shards)]

    @property
    def count(self) -> Array:
        """[1] int64: how many instruments there are; written by the loop thread."""
        count: Array = self.header["count"]
        return count


def create(page_path: Path, instruments: int, shards: int = 1) -> LiveMemory:
    """Create both files beside this process's page. Raises PageError if there is no room."""
    _, size_bytes = places(instruments, shards)
    live = map_file(beside(page_path, ".live"), size_bytes, new=True)
    requests = map_file(beside(page_path, ".requests"), REQUESTS_BYTES, new=True)
    made = _arrays(live, requests, instruments, shards)
    made.symbols[:] = ord(" ")
    header = made.header[0]
    header["layout_version"] = LAYOUT_VERSION
    header["size_bytes"] = size_bytes
    header["instruments"] = instruments
    header["shards"] = shards
    header["magic"] = MAGIC
    return made


def open_beside(page_path: Path) -> LiveMemory:
    """Map the files beside somebody's page: ``.live`` for reading, ``.requests`` also for writing.

    Raises PageError if they are not there (yet), or not of this layout version.
    """
    path = beside(page_path, ".live")
    try:
        with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            head = file.read(HEADER.itemsize)
    except OSError as error:
        raise PageError(f"cannot open {path}: {error.strerror}") from error
    header = np.frombuffer(head.ljust(HEADER.itemsize, b"\0"), HEADER)[0]
    if header["magic"] != MAGIC or header["layout_version"] != LAYOUT_VERSION:
        raise PageError(f"{path} is not live memory of layout version {LAYOUT_VERSION}")
    instruments, shards = int(header["instruments"]), int(header["shards"])
    if not 1 <= shards <= SHARDS:
        raise PageError(f"{path} is damaged: {shards} matching threads")
    _, size_bytes = places(instruments, shards)
    live = map_file(path, size_bytes, new=False, access=mmap.ACCESS_READ)
    requests = map_file(beside(page_path, ".requests"), REQUESTS_BYTES, new=False)
    return _arrays(live, requests, instruments, shards)


def _arrays(live: mmap.mmap, requests: mmap.mmap, instruments: int, shards: int) -> LiveMemory:
    placed, _ = places(instruments, shards)
    arrays: dict[str, Any] = {
        name: np.frombuffer(live, dtype, int(np.prod(shape)), offset).reshape(shape)
        for name, (dtype, shape, offset) in placed.items()
    }
    words = np.frombuffer(requests, np.int64, REQUEST_WORDS)
    shown = [name for name in Live._fields if name != "wishes"]
    lives = tuple(
        Live(**{name: arrays[_name(name, shard)] for name in shown}, wishes=words[:WISHES]) for shard in range(shards)
    )
    return LiveMemory(arrays["header"], arrays["symbols"], lives, words)


assert 1 + PLACES <= WISHES
