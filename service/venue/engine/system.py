"""System calls from compiled code: the clock, and the descriptors that threads sleep on.

Numba calls libc through ``ExternalFunction`` (ctypes function objects cannot be cached). Each call has a plain twin
for ``NUMBA_DISABLE_JIT=1``. ``scratch`` is an int64 array of at least two words that belongs to the calling thread;
the calls put their structures there.
"""

from __future__ import annotations

import contextlib
import os
import select
import time
from typing import Any, Final

from numba import types

from venue.engine.atomics import address
from venue.engine.kernel import JIT, kernel
from venue.engine.records import Array

CLOCK_MONOTONIC: Final = 1
POLLIN: Final = 1
MSG_DONTWAIT: Final = 0x40
MSG_NOSIGNAL: Final = 0x4000

if JIT:
    _clock_gettime: Any = types.ExternalFunction("clock_gettime", types.int32(types.int32, types.int64))
    _write: Any = types.ExternalFunction("write", types.int64(types.int32, types.int64, types.int64))
    _read: Any = types.ExternalFunction("read", types.int64(types.int32, types.int64, types.int64))
    _send: Any = types.ExternalFunction("send", types.int64(types.int32, types.int64, types.int64, types.int32))
    _poll: Any = types.ExternalFunction("poll", types.int32(types.int64, types.int64, types.int32))
else:

    def _clock_gettime(clock: int, pointer: int) -> int:
        return 0


@kernel
def _now_ns(scratch: Array) -> int:
    _clock_gettime(CLOCK_MONOTONIC, address(scratch, 0))
    nanoseconds: int = scratch[0] * 1_000_000_000 + scratch[1]
    return nanoseconds


def _plain_now_ns(scratch: Array) -> int:
    return time.monotonic_ns()


@kernel
def _wake(descriptor: int, scratch: Array) -> None:
    scratch[0] = 1
    _write(descriptor, address(scratch, 0), 8)


def _plain_wake(descriptor: int, scratch: Array) -> None:
    os.write(descriptor, (1).to_bytes(8, "little"))


@kernel
def _sleep(descriptor: int, timeout_ms: int, scratch: Array) -> None:
    scratch[0] = descriptor | (POLLIN << 32)  # struct pollfd {int fd; short events; short revents}
    if _poll(address(scratch, 0), 1, timeout_ms) > 0:
        _read(descriptor, address(scratch, 0), 8)


def _plain_sleep(descriptor: int, timeout_ms: int, scratch: Array) -> None:
    if select.select([descriptor], [], [], timeout_ms / 1000)[0]:
        os.read(descriptor, 8)


@kernel
def _send_now(descriptor: int, data: Array, start: int, count: int) -> int:
    return int(_send(descriptor, address(data, start), count, MSG_DONTWAIT | MSG_NOSIGNAL))


def _plain_send_now(descriptor: int, data: Array, start: int, count: int) -> int:
    with contextlib.suppress(OSError):
        return os.write(descriptor, data[start : start + count].data)
    return -1


now_ns: Any = _now_ns if JIT else _plain_now_ns
"""``now_ns(scratch)``: the monotonic clock in nanoseconds, the same as ``time.monotonic_ns()`` (22 ns a call)."""

wake: Any = _wake if JIT else _plain_wake
"""``wake(descriptor, scratch)``: let whoever sleeps on the descriptor go on."""

sleep: Any = _sleep if JIT else _plain_sleep
"""``sleep(descriptor, timeout_ms, scratch)``: until somebody wakes the descriptor, at most ``timeout_ms``."""

send_now: Any = _send_now if JIT else _plain_send_now
"""``send_now(descriptor, data, start, count)``: give ``data[start : start + count]`` (uint8) to a socket; how many
bytes it took, without waiting, or -1 if it is full or broken."""


def wake_descriptor() -> int:
    """A descriptor to sleep on and to wake: an eventfd (Linux), which is both ends in one."""
    return os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
