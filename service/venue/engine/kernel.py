"""How kernels are compiled and where their machine code is kept.

A kernel is a plain function over arrays and integers that Numba compiles to code that runs without the GIL. The
disk cache of Numba notices an edit of the kernel's own file, but neither an edit of a callee in another file nor a
changed constant of another module, and would then run stale code. So every version of the sources gets a cache
folder of its own, named by a hash over them and over what compiles them.

With ``NUMBA_DISABLE_JIT=1`` the same functions run as plain Python.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from llvmlite import binding
from numba.extending import register_jitable

PACKAGE = Path(__file__).resolve().parents[1]
COMPILED_SOURCES = ("engine", "wire")
"""The folders whose constants and code end up in kernels."""

settings: Any = numba.config
JIT: bool = not settings.DISABLE_JIT

BASE: dict[str, Any] = {"nogil": True, "error_model": "numpy", "_nrt": False}
"""What all kernels have in common. Without ``nrt`` kernels cannot allocate, which they never do, and arrays are not
reference-counted: taking them out of a tuple would cost two atomic operations each. Matching the benchmark's workload
went from 1.4 to 12 million messages a second with it."""

Function = TypeVar("Function", bound=Callable[..., Any])


def sources_digest() -> str:
    """A hash over all that decides a kernel's machine code: sources, versions, CPU, settings."""
    digest = hashlib.sha256()
    for folder in COMPILED_SOURCES:
        for path in sorted((PACKAGE / folder).rglob("*.py")):
            digest.update(path.name.encode() + b"\0" + path.read_bytes())
    for package in ("numba", "llvmlite", "numpy"):
        digest.update(f"{package} {version(package)}\n".encode())
    digest.update(f"{settings.CPU_NAME or binding.get_host_cpu_name()} {settings.CPU_FEATURES}\n".encode())
    digest.update(f"{sys.version}\n{os.environ.get('NUMBA_BOUNDSCHECK', '')}\n".encode())
    return digest.hexdigest()[:16]


def cache_folder() -> Path:
    """Where compiled code is kept: ``VENUE_CACHE_DIR``, the user's cache folder, or the temporary one.

    A folder that can only be read, as in a container, is copied to the temporary one: Numba reads its cache only where
    it can write as well.
    """
    user_cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    base = Path(os.environ.get("VENUE_CACHE_DIR") or user_cache / "venue")
    folder = base / "kernels" / sources_digest()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            return folder
    except OSError:
        pass
    return temporary_folder(folder)


def temporary_folder(original: Path) -> Path:
    """A private folder of the same name, with what the original one holds if there is one."""
    base = Path(tempfile.gettempdir()) / f"venue-kernels-{os.getuid()}"
    base.mkdir(mode=0o700, exist_ok=True)
    status = base.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o022:
        base = Path(tempfile.mkdtemp(prefix="venue-kernels-"))  # never run code that somebody else may have put there
    folder = base / original.name
    if not folder.exists():
        copy = Path(tempfile.mkdtemp(dir=base))
        if original.is_dir():
            shutil.copytree(original, copy, dirs_exist_ok=True)
        try:
            copy.rename(folder)  # complete or not at all
        except OSError:  # another process was quicker
            shutil.rmtree(copy)
    return folder


settings.CACHE_DIR = str(cache_folder())


def kernel(function: Function) -> Function:
    """Compile ``function`` on its first call, without the GIL, and keep the machine code on disk."""
    return cast(Function, numba.njit(cache=True, forceinline=False, **BASE)(function))


def verb(function: Function) -> Function:
    """A small step of kernels, always inlined into them and only callable from them (or without JIT).

    The books are a tuple of many arrays; handing it to a function that is not inlined copies a hundred words.
    """
    options: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "forceinline": True}
    return cast(Function, numba.njit(cache=True, **BASE, **options)(function))


def part(function: Function) -> Function:
    """A large step of kernels, only callable from them (or without JIT).

    It begins with ``outlined()`` where it is seldom needed; otherwise the compiler decides about inlining.
    """
    options: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "forceinline": False}
    return cast(Function, numba.njit(cache=True, **BASE, **options)(function))


def compile_for(function: Callable[..., Any], *arguments: Any) -> None:
    """Compile a kernel or a part for arguments like these, without calling it. Without JIT there is nothing to do."""
    if JIT:
        cast(Any, function).compile(tuple(map(numba.typeof, arguments)))


def inlined(function: Function) -> Function:
    """A piece of one kernel, put into it before types are known: for a large step with a single caller.

    Unlike a verb it is never compiled by itself, which for the matching thread's dispatch saves a third of the time
    that compiling takes.
    """
    return cast(Function, numba.njit(inline="always", **BASE)(function))


def jitable(function: Function) -> Function:
    """A step that kernels compile into themselves and that Python calls as it stands: seldom needed, never fast."""
    return register_jitable(**BASE)(function)
