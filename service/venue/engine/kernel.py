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
import sys
import tempfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

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
    """A hash over all that decides a kernel's machine code, except the CPU, which is in Numba's own key."""
    digest = hashlib.sha256()
    for folder in COMPILED_SOURCES:
        for path in sorted((PACKAGE / folder).rglob("*.py")):
            digest.update(path.name.encode() + b"\0" + path.read_bytes())
    for package in ("numba", "llvmlite", "numpy"):
        digest.update(f"{package} {version(package)}\n".encode())
    digest.update(f"{sys.version}\n{os.environ.get('NUMBA_BOUNDSCHECK', '')}\n".encode())
    return digest.hexdigest()[:16]


def cache_folder() -> Path:
    """Where compiled code is kept: ``VENUE_CACHE_DIR``, the user's cache folder, or the temporary one."""
    user_cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    base = Path(os.environ.get("VENUE_CACHE_DIR") or user_cache / "venue")
    folder = base / "kernels" / sources_digest()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise PermissionError(folder)
    except OSError:
        folder = Path(tempfile.gettempdir()) / f"venue-kernels-{os.getuid()}" / sources_digest()
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
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


def inlined(function: Function) -> Function:
    """A piece of one kernel, put into it before types are known: for a large step with a single caller.

    Unlike a verb it is never compiled by itself, which for the matching thread's dispatch saves a third of the time
    that compiling takes.
    """
    return cast(Function, numba.njit(inline="always", **BASE)(function))
