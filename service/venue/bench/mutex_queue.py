"""What a ring is held against: a bounded queue between threads under a mutex, with condition variables to sleep on.

It is what most programs use, done well: an array instead of a list, one lock for a whole batch, and the mutex, the two
condition variables and the indices on cache lines of their own. Records are copied in and out under the lock.
"""

from __future__ import annotations

import ctypes
from typing import Any, Final, NamedTuple

import numpy as np
from numba import types

from venue.engine.atomics import address
from venue.engine.kernel import JIT, kernel
from venue.engine.records import Array, aligned

# words of MutexQueue.words; what POSIX keeps in a mutex or a condition variable is below 128 bytes everywhere
HEAD: Final = 0  # records taken so far
TAIL: Final = 1  # records put so far
MUTEX: Final = 16
NOT_EMPTY: Final = 32
NOT_FULL: Final = 48
WORDS: Final = 64

if JIT:

    def _libc(name: str, *arguments: Any) -> Any:
        return types.ExternalFunction(name, types.int32(*arguments))

    POINTER: Any = types.int64
else:

    def _libc(name: str, *arguments: Any) -> Any:
        function = ctypes.CDLL(None)[name]  # lets go of the GIL while it waits
        function.argtypes = arguments
        return function

    POINTER = ctypes.c_void_p

_mutex_init = _libc("pthread_mutex_init", POINTER, POINTER)
_cond_init = _libc("pthread_cond_init", POINTER, POINTER)
_lock = _libc("pthread_mutex_lock", POINTER)
_unlock = _libc("pthread_mutex_unlock", POINTER)
_wait = _libc("pthread_cond_wait", POINTER, POINTER)
_signal = _libc("pthread_cond_signal", POINTER)


class MutexQueue(NamedTuple):
    """The memory of one queue, which threads share through the functions below only."""

    records: Array  # [capacity] of any record dtype
    words: Array  # [WORDS] int64


def create(capacity: int, dtype: np.dtype[Any]) -> MutexQueue:
    """An empty queue for ``capacity`` records (a power of two). Nothing has to be closed."""
    if capacity < 1 or capacity & (capacity - 1):
        raise ValueError(f"a queue's capacity must be a power of two, not {capacity}")
    words = aligned(WORDS, np.dtype("<i8"))
    _initialise(words)
    return MutexQueue(aligned(capacity, dtype), words)


@kernel
def _initialise(words: Array) -> None:
    _mutex_init(address(words, MUTEX), 0)
    _cond_init(address(words, NOT_EMPTY), 0)
    _cond_init(address(words, NOT_FULL), 0)


@kernel
def put(queue: MutexQueue, source: Array, start: int, count: int) -> None:
    """Copy ``count`` records in, from ``source[start]`` on; waits for room.

    ``source`` has a power of two of records, and goes on at its beginning, like a ring's.
    """
    words = queue.words
    capacity = len(queue.records)
    done = 0
    _lock(address(words, MUTEX))
    while done < count:
        while words[TAIL] - words[HEAD] == capacity:
            _wait(address(words, NOT_FULL), address(words, MUTEX))
        fits = min(count - done, capacity - (int(words[TAIL]) - int(words[HEAD])))
        for i in range(fits):
            queue.records[(int(words[TAIL]) + i) & (capacity - 1)] = source[(start + done + i) & (len(source) - 1)]
        words[TAIL] += fits
        done += fits
        _signal(address(words, NOT_EMPTY))
    _unlock(address(words, MUTEX))


@kernel
def take(queue: MutexQueue, target: Array, start: int, most: int) -> int:
    """Copy up to ``most`` records out, to ``target[start]`` and on; waits for the first. Gives back how many.

    ``target`` is as ``source`` in :func:`put`.
    """
    words = queue.words
    capacity = len(queue.records)
    _lock(address(words, MUTEX))
    while words[TAIL] == words[HEAD]:
        _wait(address(words, NOT_EMPTY), address(words, MUTEX))
    count = min(most, int(words[TAIL]) - int(words[HEAD]))
    for i in range(count):
        target[(start + i) & (len(target) - 1)] = queue.records[(int(words[HEAD]) + i) & (capacity - 1)]
    words[HEAD] += count
    _signal(address(words, NOT_FULL))
    _unlock(address(words, MUTEX))
    return count
