"""How free elements are chained: records by their field ``next``, words by themselves.

The plain functions are what runs with ``NUMBA_DISABLE_JIT=1``; compiled code takes the branch that its array needs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from numba import types
from numba.extending import overload

from venue.engine.kernel import BASE, Function
from venue.engine.records import Array


def compiled_as(plain: Callable[..., Any]) -> Callable[[Function], Function]:
    """Let the function that is decorated choose, by the types of the arguments, what is compiled for ``plain``."""
    options: Any = BASE | {"forceinline": True}
    return cast(Callable[[Function], Function], overload(plain, options, strict=False))  # strict minds annotations


def link(memory: Array, position: int) -> int:
    """The element behind ``position`` in its chain."""
    return int(memory[position]["next"] if memory.dtype.names else memory[position])


def set_link(memory: Array, position: int, other: int) -> None:
    """Chain ``position`` before ``other``."""
    if memory.dtype.names:
        memory[position]["next"] = other
    else:
        memory[position] = other


@compiled_as(link)
def _link(memory: Any, position: Any) -> Callable[..., int]:
    if isinstance(memory.dtype, types.Record):
        return lambda memory, position: int(memory[position]["next"])
    return lambda memory, position: int(memory[position])


@compiled_as(set_link)
def _set_link(memory: Any, position: Any, other: Any) -> Callable[..., None]:
    def by_field(memory: Array, position: int, other: int) -> None:
        memory[position]["next"] = other

    def by_itself(memory: Array, position: int, other: int) -> None:
        memory[position] = other

    return by_field if isinstance(memory.dtype, types.Record) else by_itself
