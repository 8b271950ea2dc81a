"""Many arrays as one argument: a tuple of arrays is laid down in memory once and taken up again inside a kernel.

A call from Python costs 80 to 150 ns for each array it passes, however deep in tuples: the three calls with 23 arrays
that an order needed cost 5.0 µs with nothing to do, the one with everything packed that took their place 0.5 µs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils as codegen_helpers
from numba.extending import intrinsic
from numba.np import arrayobj

from venue.engine.kernel import JIT, kernel
from venue.engine.records import Array, aligned

cgutils: Any = codegen_helpers
make_array: Any = arrayobj.make_array

WORDS: Final = 512
"""Room for some seventy arrays."""


class Packed(NamedTuple):
    """Arrays in memory; valid for as long as this is held."""

    memory: Any
    """The argument for kernels."""
    value: Any
    """Keeps the arrays alive."""


def _place(context: Any, builder: Any, signature: Any, args: Any, packed_type: Any) -> Any:
    """The first array's memory as a pointer to the packed value."""
    kind = context.get_value_type(packed_type)
    if context.get_abi_sizeof(kind) > 8 * WORDS:
        raise ValueError("too much to pack")
    data = make_array(signature.args[0])(context, builder, args[0]).data
    return builder.bitcast(data, ir.PointerType(kind))


def _typed_put(typing: Any, memory: Any, value: Any) -> Any:
    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(args[1], _place(context, builder, signature, args, value), align=8)
        return context.get_dummy_value()

    return types.void(memory, value), build


_put: Any = intrinsic(_typed_put)


@kernel
def _lay_down(memory: Array, value: Any) -> None:
    _put(memory, value)


def packing(example: tuple[Any, ...]) -> tuple[Callable[[tuple[Any, ...]], Packed], Callable[[Any], Any]]:
    """Two functions for tuples of the same types as ``example``: one that packs, and for kernels one that takes
    ``Packed.memory`` and gives back the tuple. Without JIT a tuple stays what it is. TypeError for other types."""
    if not JIT:
        return (lambda value: Packed(value, value)), (lambda memory: memory)
    typeof: Any = numba.typeof
    packed_type = typeof(example)

    def pack(value: tuple[Any, ...]) -> Packed:
        if typeof(value) != packed_type:
            raise TypeError(f"{typeof(value)} is not {packed_type}")
        memory = aligned(WORDS, np.dtype("<i8"))
        _lay_down(memory, value)
        return Packed(memory, value)

    def typed(typing: Any, memory: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.load(_place(context, builder, signature, args, packed_type), align=8)

        return packed_type(memory), build

    unpack: Any = intrinsic(typed)
    return pack, unpack
