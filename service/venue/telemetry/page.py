"""The counters page: one file in shared memory that a running exchange writes and anybody else reads.

The owner creates it, hands its arrays to its threads, and removes it on a clean stop. After a crash it stays and can
still be read. Readers map it read-only, and make all their figures from one :meth:`Page.snapshot`.

The layout is the header followed by the sections of ``LAYOUT``, each at a multiple of 128 bytes (two cache lines,
as processors fetch in pairs), so that two writers never share a line. Those of the matching thread are repeated for
each other one. It is described in README.md beside this file.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import stat
import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

import venue
from venue.engine.cells import ROW, Int64s
from venue.engine.counters import ACCOUNT, ACCOUNTS, EXPOSURE, FEED, GATEWAY, HISTOGRAMS, MATCHER, NAME_BYTES, SHARDS
from venue.telemetry import pages
from venue.telemetry.pages import PageError

MAGIC: Final = int.from_bytes(b"VENUEPG\n", "little")
LAYOUT_VERSION: Final = 6
"""Goes up by one with every change of ``HEADER``, a section's dtype, its place, or the shape of a histogram."""
ALIGNMENT: Final = 128

Records = npt.NDArray[Any]
"""A structured array of one of the dtypes in :mod:`venue.engine.counters`."""


class State(IntEnum):
    """What the owner is doing."""

    STARTING = 0
    COMPILING = 1
    READY = 2
    STOPPING = 3
    STOPPED = 4


HEADER: Final = np.dtype(
    [
        ("magic", np.int64),
        ("layout_version", np.int64),
        ("size_bytes", np.int64),
        ("pid", np.int64),
        ("process_start_ticks", np.int64),  # tells the owner from a later process with the same pid
        ("started_at_ns", np.int64),  # wall clock, ns since 1970
        ("state", np.int64),
        ("heartbeat_at_ns", np.int64),  # wall clock, for people
        ("heartbeat_monotonic_ns", np.int64),  # CLOCK_MONOTONIC, to judge whether it is fresh
        ("requests_handled", np.int64),  # the number of the last one taken from the operator's mailbox
        ("shards", np.int64),  # matching threads
        ("venue_version", "S32"),
        ("mode", "S16"),  # match, consume or passive
    ],
    align=True,
)
"""The first bytes of every page; the first four fields keep their place in every layout version."""


@dataclass(frozen=True, slots=True)
class Section:
    """One array of the page: ``shape`` records of ``dtype`` from ``offset`` on, written by one thread."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    writer: str
    offset: int

    @property
    def size_bytes(self) -> int:
        return self.dtype.itemsize * int(np.prod(self.shape))


def _lay_out() -> tuple[tuple[Section, ...], int]:
    """Place the sections one after the other; returns them and the size of a page with one matching thread."""
    plan: list[tuple[str, np.dtype[Any], tuple[int, ...], str]] = [
        ("header", HEADER, (1,), "loop thread"),
        ("feed", FEED, (1,), "loop thread"),
        ("gateway", GATEWAY, (1,), "loop thread"),
        ("accounts", ACCOUNT, (ACCOUNTS,), "loop thread"),
        ("matcher", MATCHER, (1,), "matching thread"),
        ("exposures", EXPOSURE, (ACCOUNTS,), "matching thread"),
        ("histograms", np.dtype(np.int64), (HISTOGRAMS, ROW), "one thread a row"),
        ("account_histograms", np.dtype(np.int64), (ACCOUNTS, ROW), "loop thread"),
    ]
    sections = []
    offset = 0
    for name, dtype, shape, writer in plan:
        section = Section(name, dtype, shape, writer, offset)
        sections.append(section)
        offset = -(-(offset + section.size_bytes) // ALIGNMENT) * ALIGNMENT
    return tuple(sections), offset


LAYOUT, SIZE_BYTES = _lay_out()
OF_A_SHARD: Final = LAYOUT[-4:-1]
"""The sections that each matching thread has: these are the first one's."""
SHARD_BYTES: Final = LAYOUT[-1].offset - OF_A_SHARD[0].offset
"""How much further the same section of the next matching thread begins, and the last one of all with one more."""
SUMMED_EXPOSURE: Final = ("open_orders", "open_shares", "open_notional")
LATEST: Final = ("last_command_time_ns", "last_feed_time_ns")


def size_bytes(shards: int) -> int:
    """Of a page with so many matching threads."""
    return SIZE_BYTES + (shards - 1) * SHARD_BYTES


@dataclass(frozen=True, slots=True)
class Shard:
    """The sections of one matching thread."""

    matcher: Records
    exposures: Records
    histograms: Int64s


@dataclass(frozen=True, slots=True)
class Views:
    """The sections as arrays, over the page itself or over a copy. Shape (1,) where nothing else is said.

    Of those that each matching thread has, the page itself shows the first one's, a snapshot all in one.
    """

    header: Records
    feed: Records
    gateway: Records
    accounts: Records
    """Shape (ACCOUNTS,)."""
    matcher: Records
    exposures: Records
    """Shape (ACCOUNTS,), the same accounts."""
    histograms: Int64s
    """Shape (HISTOGRAMS, ROW); the places are in :mod:`venue.engine.counters` and :mod:`venue.engine.cells`."""
    account_histograms: Int64s
    """Order-to-ack of each account: shape (ACCOUNTS, ROW), in a copy only the rows of accounts that there are."""
    shards: tuple[Shard, ...]
    """Each matching thread's."""

    @property
    def state(self) -> State:
        return State(int(self.header["state"][0]))

    @property
    def mode(self) -> str:
        return text_of(self.header["mode"][0])

    @property
    def venue_version(self) -> str:
        return text_of(self.header["venue_version"][0])

    def account_names(self) -> list[str]:
        return [text_of(name) for name in self.accounts["name"] if name]

    def heartbeat_age_s(self) -> float:
        """How long ago the owner last showed that it lives; only meaningful on the owner's machine."""
        return (time.monotonic_ns() - int(self.header["heartbeat_monotonic_ns"][0])) / 1e9


def text_of(value: bytes) -> str:
    """A text field of the page."""
    return bytes(value).decode("ascii", "replace")


def _arrays(buffer: mmap.mmap | bytes, shards: int) -> dict[str, Any]:
    """The fields of ``Views``, by name, over a page or a copy of one, which may end within the last section."""

    def over(section: Section, shard: int = 0) -> Any:
        offset = section.offset + shard * SHARD_BYTES
        end = min(offset + section.size_bytes, len(buffer))
        values = np.frombuffer(buffer, section.dtype, (end - offset) // section.dtype.itemsize, offset)
        return values.reshape(-1, *section.shape[1:])

    first = {section.name: over(section) for section in LAYOUT[:-1]}
    each = tuple(Shard(**{part.name: over(part, shard) for part in OF_A_SHARD}) for shard in range(shards))
    return {**first, LAYOUT[-1].name: over(LAYOUT[-1], shards - 1), "shards": each}


def _all_in_one(shards: tuple[Shard, ...]) -> dict[str, Any]:
    """What the sections of all matching threads say together: sums; of times, limits and switches the largest."""
    matcher, exposures = np.zeros(1, MATCHER), np.zeros(ACCOUNTS, EXPOSURE)
    for field in MATCHER.names or ():
        values = np.stack([shard.matcher[field] for shard in shards])
        matcher[field] = values.max(0) if field in LATEST else values.sum(0)
    for field in EXPOSURE.names or ():
        values = np.stack([shard.exposures[field] for shard in shards])
        exposures[field] = values.sum(0) if field in SUMMED_EXPOSURE else values.max(0)
    histograms = np.sum([shard.histograms for shard in shards], axis=0)
    return {"matcher": matcher, "exposures": exposures, "histograms": histograms}


@dataclass(frozen=True, slots=True)
class Page(Views):
    """A mapped counters page, made by :func:`create` (writable) or :func:`open_read_only`.

    Its arrays stay valid for as long as somebody holds them, also after the file is removed.
    """

    path: Path
    memory: mmap.mmap

    def snapshot(self) -> Views:
        """A copy of the page at one time: 72 KiB, 59 more for each further matching thread, and 7 for each account that
        there is, whose histogram is the largest part of a page. Make all figures of one answer from the same one."""
        accounts = int(np.count_nonzero(self.accounts["name"]))
        rest = self.account_histograms[accounts:].nbytes
        arrays = _arrays(self.memory[: len(self.memory) - rest], len(self.shards))
        return Views(**(arrays if len(self.shards) == 1 else arrays | _all_in_one(arrays["shards"])))

    def owner_alive(self) -> bool:
        """Whether the process that created the page still runs."""
        ticks = pages.process_start_ticks(int(self.header["pid"][0]))
        return ticks is not None and ticks == int(self.header["process_start_ticks"][0])

    def set_state(self, state: State) -> None:
        """Owner's loop thread only. Counts as a heartbeat."""
        self.header["state"][0] = int(state)
        self.beat()

    def beat(self) -> None:
        """Show that the loop runs; owner's loop thread only, at least once a second."""
        self.header["heartbeat_at_ns"][0] = time.time_ns()
        self.header["heartbeat_monotonic_ns"][0] = time.monotonic_ns()

    def remove(self) -> None:
        """Take the files away: the owner's last step of a clean stop. Nothing happens if they are gone already."""
        self.path.unlink(missing_ok=True)
        for suffix in pages.COMPANIONS:
            pages.beside(self.path, suffix).unlink(missing_ok=True)


def create(*, mode: str, accounts: Sequence[str] = (), shards: int = 1, folder: Path | None = None) -> Page:
    """Create this process's page, in state STARTING, and clear away all but the newest pages of dead processes.

    ``accounts`` are the configured names in order, at most ``ACCOUNTS`` of them; ``shards`` is how many matching
    threads there will be. Raises PageError if the folder is not private to this user or has no room.
    """
    size = size_bytes(shards)
    if len(accounts) > ACCOUNTS:
        raise PageError(f"{len(accounts)} accounts: the counters page has room for {ACCOUNTS}")
    for name in accounts:
        if not name or len(name) > NAME_BYTES or not name.isascii():
            raise PageError(f"account name {name!r} is not 1 to {NAME_BYTES} ASCII characters")
    folder = pages.private_folder(folder)
    pages.remove_oldest_dead(folder)
    path, descriptor = pages.new_file(folder)
    try:
        os.posix_fallocate(descriptor, 0, size)  # reserve it: no room later would be a SIGBUS
        memory = mmap.mmap(descriptor, size)
    except OSError as error:
        path.unlink()
        raise PageError(f"no room for the counters page {path}: {error.strerror}") from error
    finally:
        os.close(descriptor)
    page = Page(**_arrays(memory, shards), path=path, memory=memory)
    header = page.header[0]
    header["layout_version"] = LAYOUT_VERSION
    header["size_bytes"] = size
    header["shards"] = shards
    header["pid"] = os.getpid()
    header["process_start_ticks"] = pages.process_start_ticks(os.getpid()) or 0
    header["started_at_ns"] = time.time_ns()
    header["venue_version"] = venue.__version__.encode("ascii")
    header["mode"] = mode.encode("ascii")
    page.accounts["name"][: len(accounts)] = [name.encode("ascii") for name in accounts]
    page.set_state(State.STARTING)
    header["magic"] = MAGIC  # last: from here on it is a page
    return page


def open_read_only(path: Path) -> Page:
    """Map somebody's page for reading. Raises PageError if it is none, or one of another layout version."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise PageError(f"cannot open counters page {path}: {error.strerror}") from error
    with contextlib.closing(os.fdopen(descriptor, "rb")) as file:
        status = os.fstat(descriptor)
        head = file.read(HEADER.itemsize) if stat.S_ISREG(status.st_mode) else b""
        if len(head) < HEADER.itemsize or int.from_bytes(head[:8], "little") != MAGIC:
            raise PageError(f"{path} is not a counters page of venue")
        header = np.frombuffer(head, HEADER)[0]
        if header["layout_version"] != LAYOUT_VERSION:
            raise PageError(f"{path} has layout version {header['layout_version']}, this venue reads {LAYOUT_VERSION}")
        shards = int(header["shards"])
        if not 1 <= shards <= SHARDS:
            raise PageError(f"{path} is damaged: {shards} matching threads")
        size = size_bytes(shards)
        if header["size_bytes"] != size or status.st_size != size:
            raise PageError(f"{path} is damaged: {status.st_size} bytes, should be {size}")
        memory = mmap.mmap(descriptor, size, access=mmap.ACCESS_READ)
    return Page(**_arrays(memory, shards), path=path, memory=memory)
