"""The counters page: one file in shared memory that a running exchange writes and anybody else reads.

The owner creates it, hands its arrays to its threads, and removes it on a clean stop. After a crash it stays and can
still be read. Readers map it read-only, and make all their figures from one :meth:`Page.snapshot`.

The layout is the header followed by the sections of ``LAYOUT``, each at a multiple of 128 bytes (two cache lines,
as processors fetch in pairs), so that two writers never share a line. It is described in README.md beside this file.
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
from venue.engine.counters import ACCOUNT, ACCOUNTS, EXPOSURE, FEED, GATEWAY, HISTOGRAMS, MATCHER, NAME_BYTES
from venue.telemetry import pages
from venue.telemetry.pages import PageError

MAGIC: Final = int.from_bytes(b"VENUEPG\n", "little")
LAYOUT_VERSION: Final = 4
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
    """Place the sections one after the other; returns them and the size of the page."""
    plan: list[tuple[str, np.dtype[Any], tuple[int, ...], str]] = [
        ("header", HEADER, (1,), "loop thread"),
        ("matcher", MATCHER, (1,), "matching thread"),
        ("feed", FEED, (1,), "loop thread"),
        ("gateway", GATEWAY, (1,), "loop thread"),
        ("accounts", ACCOUNT, (ACCOUNTS,), "loop thread"),
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


@dataclass(frozen=True, slots=True)
class Views:
    """The sections as arrays, over the page itself or over a copy. Shape (1,) where nothing else is said."""

    header: Records
    matcher: Records
    feed: Records
    gateway: Records
    accounts: Records
    """Shape (ACCOUNTS,)."""
    exposures: Records
    """Shape (ACCOUNTS,), the same accounts."""
    histograms: Int64s
    """Shape (HISTOGRAMS, ROW); the places are in :mod:`venue.engine.counters` and :mod:`venue.engine.cells`."""
    account_histograms: Int64s
    """Order-to-ack of each account: shape (ACCOUNTS, ROW), in a copy only the rows of accounts that there are."""

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


def _arrays(buffer: mmap.mmap | bytes) -> dict[str, Any]:
    """The fields of ``Views``, by name, over a page or a copy of one, which may end within the last section."""
    arrays = {}
    for section in LAYOUT:
        end = min(section.offset + section.size_bytes, len(buffer))
        count = (end - section.offset) // section.dtype.itemsize
        values = np.frombuffer(buffer, section.dtype, count, section.offset)
        arrays[section.name] = values.reshape(-1, *section.shape[1:])
    return arrays


@dataclass(frozen=True, slots=True)
class Page(Views):
    """A mapped counters page, made by :func:`create` (writable) or :func:`open_read_only`.

    Its arrays stay valid for as long as somebody holds them, also after the file is removed.
    """

    path: Path
    memory: mmap.mmap

    def snapshot(self) -> Views:
        """A copy of the page at one time: 72 KiB, and 7 more for each account that there is, whose histogram is the
        largest part of a page. Make all figures of one answer from the same one."""
        accounts = int(np.count_nonzero(self.accounts["name"]))
        return Views(**_arrays(self.memory[: LAYOUT[-1].offset + accounts * self.account_histograms[0].nbytes]))

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


def create(*, mode: str, accounts: Sequence[str] = (), folder: Path | None = None) -> Page:
    """Create this process's page, in state STARTING, and clear away all but the newest pages of dead processes.

    ``accounts`` are the configured names in order, at most ``ACCOUNTS`` of them. Raises PageError if the folder is
    not private to this user or has no room.
    """
    if len(accounts) > ACCOUNTS:
        raise PageError(f"{len(accounts)} accounts: the counters page has room for {ACCOUNTS}")
    for name in accounts:
        if not name or len(name) > NAME_BYTES or not name.isascii():
            raise PageError(f"account name {name!r} is not 1 to {NAME_BYTES} ASCII characters")
    folder = pages.private_folder(folder)
    pages.remove_oldest_dead(folder)
    path, descriptor = pages.new_file(folder)
    try:
        os.posix_fallocate(descriptor, 0, SIZE_BYTES)  # reserve it: no room later would be a SIGBUS
        memory = mmap.mmap(descriptor, SIZE_BYTES)
    except OSError as error:
        path.unlink()
        raise PageError(f"no room for the counters page {path}: {error.strerror}") from error
    finally:
        os.close(descriptor)
    page = Page(**_arrays(memory), path=path, memory=memory)
    header = page.header[0]
    header["layout_version"] = LAYOUT_VERSION
    header["size_bytes"] = SIZE_BYTES
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
        if header["size_bytes"] != SIZE_BYTES or status.st_size != SIZE_BYTES:
            raise PageError(f"{path} is damaged: {status.st_size} bytes, should be {SIZE_BYTES}")
        memory = mmap.mmap(descriptor, SIZE_BYTES, access=mmap.ACCESS_READ)
    return Page(**_arrays(memory), path=path, memory=memory)
