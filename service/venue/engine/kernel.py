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
import re
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import numba
from llvmlite import binding
from numba import types
from numba.extending import register_jitable
from numba.np import arrayobj

PACKAGE = Path(__file__).resolve().parents[1]
COMPILED_SOURCES = ("engine", "wire", "bench")
"""The folders whose constants and code end up in kernels."""

KEPT_DAYS: Final = 30
DIGEST: Final = re.compile("[0-9a-f]{16}")
"""What :func:`sources_digest` gives."""

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
        known = folder.exists()
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            os.utime(folder)  # it is in use
            if not known:
                remove_unused(folder.parent)
            return folder
    except OSError:
        pass
    return temporary_folder(folder)


def remove_unused(folders: Path) -> None:
    """Remove what versions have left behind that nobody has started for ``KEPT_DAYS``.

    One that still runs has all its kernels in memory.
    """
    oldest = time.time() - KEPT_DAYS * 24 * 3600
    for folder in folders.iterdir():
        if DIGEST.fullmatch(folder.name) and folder.lstat().st_mtime < oldest:
            shutil.rmtree(folder, ignore_errors=True)


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


def _index_as_it_is(context: Any, builder: Any, index_type: Any, index: Any, size: Any) -> Any:
    """In the place of Numba's function that adds the length to a negative index: kernels know no such index.

    With bounds checks a negative index is one out of bounds. A book update took 74 ns before, 67 without.
    """
    return context.cast(builder, index, index_type, types.intp)


arrayobj.fix_integer_index = _index_as_it_is


def compiled(function: Function, **options: Any) -> Function:
    """Have Numba compile ``function`` when it is first called, and keep the machine code on disk.

    Other kernels call it with int64 wherever they have a constant or a narrower integer. Numba would compile it for
    each constant and each width anew: 295 functions instead of 207 for a first start, 50 s of one core instead of 32.
    """
    dispatcher: Any = numba.njit(cache=True, **BASE, **options)(function)
    if JIT:
        find = dispatcher.get_call_template

        def get_call_template(args: tuple[Any, ...], kws: dict[str, Any]) -> Any:
            return find(tuple(map(widened, args)), {name: widened(kind) for name, kind in kws.items()})

        dispatcher.get_call_template = get_call_template
    return cast(Function, dispatcher)


def widened(kind: Any) -> Any:
    """The type that an argument of this type is passed as. uint64, which int64 cannot hold, stays."""
    if isinstance(kind, types.Literal):
        return widened(kind.literal_type)
    return types.int64 if isinstance(kind, types.Integer) and kind != types.uint64 else kind


def kernel(function: Function) -> Function:
    """Compile ``function`` on its first call, without the GIL, and keep the machine code on disk."""
    return compiled(function, forceinline=False)


def verb(function: Function) -> Function:
    """A small step of kernels, always inlined into them and only callable from them (or without JIT).

    The books are a tuple of many arrays; handing it to a function that is not inlined copies a hundred words.
    """
    return compiled(function, no_cpython_wrapper=True, no_cfunc_wrapper=True, forceinline=True)


def part(function: Function) -> Function:
    """A large step of kernels, only callable from them (or without JIT).

    It begins with ``outlined()`` where it is seldom needed; otherwise the compiler decides about inlining.
    """
    return compiled(function, no_cpython_wrapper=True, no_cfunc_wrapper=True, forceinline=False)


def compile_for(function: Callable[..., Any], *arguments: Any) -> None:
    """Compile a kernel or a part for arguments of these types, without calling it. Without JIT: nothing."""
    if JIT:
        cast(Any, function).compile(arguments)


def inlined(function: Function) -> Function:
    """A piece of one kernel, put into it before types are known: for a large step with a single caller.

    Unlike a verb it is never compiled by itself, which for the matching thread's dispatch saves a third of the time
    that compiling takes.
    """
    return cast(Function, numba.njit(inline="always", **BASE)(function))


def jitable(function: Function) -> Function:
    """A step that kernels compile into themselves, like a verb, and that Python calls as it stands."""
    return register_jitable(**BASE, forceinline=True)(function)
