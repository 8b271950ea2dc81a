"""The timed part of `venue bench allocators`: ``python -m venue.bench.allocating COUNT REPEATS`` prints an Outcome.

It has a process of its own, because malloc is at its best while a process has a single thread (it then takes no lock),
and because it is told here to keep what it has. numpy's own thread is kept away by OPENBLAS_NUM_THREADS=1. Needs glibc.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
from llvmlite import ir
from numba import types

from venue.bench.report import steps
from venue.engine.allocators import free_list, linear, pool, stack
from venue.engine.atomics import lowered_by
from venue.engine.kernel import kernel
from venue.engine.records import Array, aligned

CELL: Final = np.dtype([("next", "<i8"), ("value", "<i8")])
"""One block of every allocator: 16 bytes."""
SIZE_BYTES: Final = CELL.itemsize

M_TRIM_THRESHOLD: Final = -1  # a parameter of mallopt: how much free memory glibc keeps
CONSOLIDATING_BYTES: Final = 1 << 20  # so large a request has glibc join what is free first

I64: Final = ir.IntType(64)

# --- what is timed ------------------------------------------------------------------------------------------------

_malloc: Any = types.ExternalFunction("malloc", types.int64(types.int64))
_free: Any = types.ExternalFunction("free", types.void(types.int64))


def _sink(typing: Any, value: Any) -> Any:
    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.asm(ir.FunctionType(ir.VoidType(), [I64]), "", "r,~{memory}", [args[0]], True)
        return context.get_dummy_value()

    return types.void(types.int64), build


@lowered_by(_sink)
def sink(value: int) -> None:
    """A volatile sink: as far as the compiler knows, somebody looks at ``value`` and at all memory, each time.

    So no call can be dropped, joined with another or held back, and an allocator's state has to be in memory between
    two calls, as it is in the engine. It costs no instruction.
    """


def _store_word(typing: Any, address: Any, value: Any) -> Any:
    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(args[1], builder.inttoptr(args[0], I64.as_pointer()))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), build


@lowered_by(_store_word)
def store_word(address: int, value: int) -> None:
    """Write an int64 at an address that malloc gave."""
    ctypes.c_int64.from_address(address).value = value


@kernel
def malloc_all(memory: Array, state: Array, positions: Array, write: bool) -> None:
    """As many allocations as ``positions`` is long; where the blocks are is written there."""
    for i in range(len(positions)):
        position = _malloc(SIZE_BYTES)
        if write:
            store_word(position, i)
        positions[i] = position
        sink(position)


@kernel
def free_all(memory: Array, state: Array, positions: Array) -> None:
    """Give back what ``positions`` says, in its order."""
    for i in range(len(positions)):
        _free(positions[i])
        sink(i)


def kernels(allocator: Any) -> tuple[Callable[..., None], Callable[..., None]]:
    """The same two for one of our allocators, inlined."""

    @kernel
    def allocate_all(memory: Array, state: Array, positions: Array, write: bool) -> None:
        for i in range(len(positions)):
            position = allocator.allocate(memory, state, 0, 1)
            if write:
                memory[position]["next"] = i
            positions[i] = position
            sink(position)

    @kernel
    def deallocate_all(memory: Array, state: Array, positions: Array) -> None:
        for i in range(len(positions)):
            allocator.deallocate(memory, state, 0, positions[i], 1)
            sink(i)

    return allocate_all, deallocate_all


# --- around it ----------------------------------------------------------------------------------------------------


class Contender(NamedTuple):
    """One row."""

    name: str
    allocate: Callable[..., None]
    deallocate: Callable[..., None]
    allocator: Any = None  # None: malloc
    reverse: bool = False  # what was allocated last is given back first


class Condition(NamedTuple):
    """One table."""

    name: str
    fresh: bool  # the pages were never used: each has to be asked of the system
    write: bool  # the first word of each block is written


MALLOC: Final = Contender("malloc", malloc_all, free_all)
MALLOC_IN_REVERSE: Final = Contender("malloc, reverse", malloc_all, free_all, reverse=True)
CONTENDERS: Final = (
    MALLOC,
    Contender("linear", *kernels(linear), linear),
    Contender("pool", *kernels(pool), pool),
    Contender("free list", *kernels(free_list), free_list),
    MALLOC_IN_REVERSE,
    Contender("stack, reverse", *kernels(stack), stack, reverse=True),
)
CONDITIONS: Final = (
    Condition("pages in memory, blocks not written", fresh=False, write=False),
    Condition("pages in memory, first word of each block written", fresh=False, write=True),
    Condition("fresh pages, first word of each block written", fresh=True, write=True),
)


class Times(msgspec.Struct, frozen=True):
    """Seconds for all allocations and for all deallocations of one run."""

    allocate_s: float
    deallocate_s: float


class Timed(msgspec.Struct, frozen=True):
    """All runs of one row under one condition."""

    condition: str
    threads: int  # that the process had meanwhile
    name: str
    reverse: bool
    runs: list[Times]


class Outcome(msgspec.Struct, frozen=True):
    """What this process tells the one that started it."""

    count: int
    timed: list[Timed]


def mapped(length: int, dtype: np.dtype[Any]) -> Array:
    """Zeros on pages of their own, never touched; small pages, as malloc has them. (A large array of numpy's would
    come from what malloc has free, or on huge pages.)"""
    return np.frombuffer(mmap.mmap(-1, length * dtype.itemsize), dtype)


class Allocations:
    """The memory that ``count`` blocks need, and how a run begins."""

    def __init__(self, count: int) -> None:
        self._libc = ctypes.CDLL(None)
        self._libc.malloc.restype = ctypes.c_void_p
        self._libc.malloc.argtypes = [ctypes.c_size_t]
        self._libc.free.argtypes = [ctypes.c_void_p]
        if not self._libc.mallopt(M_TRIM_THRESHOLD, 1 << 30):
            raise RuntimeError("glibc does not take M_TRIM_THRESHOLD")
        self.count = count
        self._length = count + free_list.FIRST
        self._used = mapped(self._length, CELL)
        self._used["value"] = 1
        self._positions = mapped(count, np.dtype("<i8"))
        self._order = mapped(count, np.dtype("<i8"))
        self._state = aligned(free_list.STATE_WORDS, np.dtype("<i8"))

    def run(self, contender: Contender, condition: Condition) -> Times:
        """Allocate and give back once, everything free at the beginning."""
        if contender.allocator is None:
            memory = self._used  # not looked at
            self._free_heap(condition.fresh)
        else:
            memory = mapped(self._length, CELL) if condition.fresh else self._used
            contender.allocator.reset(self._state, 0)
        self._positions[:] = 0
        begun = time.perf_counter()
        contender.allocate(memory, self._state, self._positions, condition.write)
        allocated = time.perf_counter()
        if not self._positions.all():
            raise MemoryError(f"{contender.name}: no room")
        self._order[:] = self._positions[::-1] if contender.reverse else self._positions
        continued = time.perf_counter()
        contender.deallocate(memory, self._state, self._order)
        ended = time.perf_counter()
        return Times(allocated - begun, ended - continued)

    def distinct(self) -> int:
        """How many different blocks the last run had."""
        return len(np.unique(self._positions))

    def _free_heap(self, fresh: bool) -> None:
        """Have what malloc gave before joined again; its pages stay in memory, or all go back to the system."""
        self._libc.free(self._libc.malloc(CONSOLIDATING_BYTES))
        if fresh:
            self._libc.malloc_trim(0)


def measure(count: int, repeats: int) -> Outcome:
    """All rows under all conditions; then once more while the process has a second thread, which sleeps."""
    allocations = Allocations(count)
    timed = []
    over = threading.Event()
    with steps(2 * len(CONDITIONS) * len(CONTENDERS) * repeats) as progress:
        for second in (None, threading.Thread(target=over.wait, daemon=True)):
            if second is not None:
                second.start()
            threads = len(os.listdir("/proc/self/task"))
            for condition in CONDITIONS:
                progress.begin(condition.name)
                runs = take_turns(allocations, condition, repeats, progress.done)
                timed += [Timed(condition.name, threads, c.name, c.reverse, times) for c, times in runs.items()]
        over.set()
    return Outcome(count, timed)


def take_turns(
    allocations: Allocations, condition: Condition, repeats: int, done: Callable[[], None]
) -> dict[Contender, list[Times]]:
    """All rows under one condition, so that a change of the machine's speed is one for all of them."""
    for contender in CONTENDERS:  # to compile, to have the heap's pages in memory, and to look at
        allocations.run(contender, condition)
        if allocations.distinct() != allocations.count:
            raise AssertionError(f"{contender.name}: two blocks in one place")
    runs: dict[Contender, list[Times]] = {contender: [] for contender in CONTENDERS}
    for repeat in range(repeats):
        first = repeat % len(CONTENDERS)  # nobody always comes after the one that empties the caches
        for contender in CONTENDERS[first:] + CONTENDERS[:first]:
            runs[contender].append(allocations.run(contender, condition))
            done()
    return runs


if __name__ == "__main__":
    sys.stdout.buffer.write(msgspec.json.encode(measure(int(sys.argv[1]), int(sys.argv[2]))))
