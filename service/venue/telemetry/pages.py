"""Where counters pages lie, which there are, and which of them belong to processes that no longer run.

A page is named ``<pid>-<start>-<n>.page`` in a folder private to the user. The start is the process's start time in
clock ticks after boot, as the kernel tells it: with it a dead owner is known even when its pid is in use again.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import re
import stat
import tempfile
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Final

DEAD_PAGES_KEPT: Final = 8
COMPANIONS: Final = (".live", ".requests")
"""Files beside a page; those of a dead process go when the next one starts."""
_NAME: Final = re.compile(r"(\d{1,10})-(\d{1,20})-(\d{1,6})\.page")


class PageError(Exception):
    """A counters page cannot be created or read; the text is one line for a person."""


@dataclass(frozen=True, slots=True)
class PageFile:
    """A page found in the folder. It may still be of another layout version, or damaged."""

    path: Path
    pid: int
    alive: bool
    modified_at_ns: int


def private_folder(folder: Path | None = None) -> Path:
    """``folder`` or the user's own in shared memory (else the temporary folder), created with mode 0700.

    Raises PageError if it is not a real folder of this user that nobody else may enter.
    """
    if folder is None:
        memory = Path("/dev/shm")
        base = memory if os.access(memory, os.W_OK) else Path(tempfile.gettempdir())
        folder = base / f"venue-{os.geteuid()}"
    try:
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700, parents=True)
        status = folder.lstat()
    except OSError as error:
        raise PageError(f"cannot create the folder {folder}: {error.strerror}") from error
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
        raise PageError(f"{folder} has to be a folder of this user with mode 0700")
    return folder


def list_pages(folder: Path | None = None) -> list[PageFile]:
    """All pages of this user, those of running processes first, then the newest first."""
    found = []
    for path in private_folder(folder).iterdir():
        name = _NAME.fullmatch(path.name)
        if name is None:
            continue
        with contextlib.suppress(FileNotFoundError):  # removed by its owner meanwhile
            modified_at_ns = path.lstat().st_mtime_ns
            alive = process_start_ticks(int(name[1])) == int(name[2])
            found.append(PageFile(path, int(name[1]), alive, modified_at_ns))
    return sorted(found, key=lambda page: (not page.alive, -page.modified_at_ns, page.path.name))


def new_file(folder: Path) -> tuple[Path, int]:
    """A new, empty file for a page of this process, mode 0600, and its descriptor."""
    pid = os.getpid()
    for number in count():
        path = folder / f"{pid}-{process_start_ticks(pid) or 0}-{number}.page"
        with contextlib.suppress(FileExistsError):
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
            try:
                return path, os.open(path, flags, 0o600)
            except PermissionError as error:
                raise PageError(f"cannot create {path}: {error.strerror}") from error
    raise AssertionError("unreachable")


def remove_oldest_dead(folder: Path) -> None:
    """Remove pages whose process is gone, except for the newest ``DEAD_PAGES_KEPT``, and what lies beside them."""
    dead = [page for page in list_pages(folder) if not page.alive]
    for place, page in enumerate(dead):
        for suffix in COMPANIONS:
            beside(page.path, suffix).unlink(missing_ok=True)
        if place >= DEAD_PAGES_KEPT:
            page.path.unlink(missing_ok=True)


def beside(page_path: Path, suffix: str) -> Path:
    """The file of the same exchange with another suffix."""
    return page_path.with_suffix(suffix)


def map_file(path: Path, size_bytes: int, *, new: bool, access: int = mmap.ACCESS_WRITE) -> mmap.mmap:
    """Map a file of this size. A new one is reserved whole, as no room later would be a SIGBUS; mode 0600.

    Raises PageError if it cannot be created, is not there, or has another size.
    """
    flags = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    flags |= os.O_RDONLY if access == mmap.ACCESS_READ else os.O_RDWR
    try:
        descriptor = os.open(path, flags | (os.O_CREAT | os.O_EXCL if new else 0), 0o600)
    except OSError as error:
        raise PageError(f"cannot open {path}: {error.strerror}") from error
    try:
        if new:
            os.posix_fallocate(descriptor, 0, size_bytes)
        elif os.fstat(descriptor).st_size != size_bytes:
            raise PageError(f"{path} is damaged: it should have {size_bytes} bytes")
        return mmap.mmap(descriptor, size_bytes, access=access)
    except OSError as error:
        if new:
            path.unlink()
        raise PageError(f"no room for {path}: {error.strerror}") from error
    finally:
        os.close(descriptor)


def process_start_ticks(pid: int) -> int | None:
    """When a process started, in clock ticks after boot; None if there is none or it only waits to be reaped."""
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    fields = text.rpartition(b")")[2].split()  # the name before may hold blanks and brackets
    return None if fields[0] in (b"Z", b"X") else int(fields[19])
