"""Handing the engine's tuples from function to function by reference.

Numba passes a tuple of arrays by value, seven words an array: calling one ``@part`` with the books and the outbox
pushes some 140 words on the stack. A kernel that begins with ``m = reference(m)`` writes them into memory once; from
there on ``m`` and each named tuple in it is one pointer, and fields are read where they are used. Enters, replaces and
cancels through ``loop.run`` went from 150 to 57 ns each, while recorded messages, which call few parts, cost the same
(80 ns); medians of alternating runs.
"""

from __future__ import annotations

from typing import Any, TypeVar

from numba import types
from numba.core.datamodel import models, registry
from numba.core.imputils import lower_getattr_generic
from numba.core.typing import templates
from numba.extending import infer_getattr

from venue.engine.atomics import BYTE, I32, lowered_by

Tuple = TypeVar("Tuple")
pointer_model: Any = models.PrimitiveModel  # none of these has types
typing_template: Any = templates.AttributeTemplate
model_for: Any = registry.register_default
typed_fields: Any = infer_getattr
lowered_fields: Any = lower_getattr_generic


class Reference(types.Type):
    """The Numba type of a pointer to a named tuple."""

    def __init__(self, target: Any) -> None:
        self.target = target
        super().__init__(name=f"Reference({target})")

    @property
    def key(self) -> Any:
        """What makes two of them the same type."""
        return self.target


@model_for(Reference)
class _Model(pointer_model):  # type: ignore[misc]
    def __init__(self, manager: Any, reference: Any) -> None:
        super().__init__(manager, reference, BYTE.as_pointer())


@typed_fields
class _Fields(typing_template):  # type: ignore[misc]
    key = Reference

    def generic_resolve(self, reference: Any, name: str) -> Any:
        """The type of a field; a tuple in the tuple is a reference, too."""
        if name not in reference.target.fields:
            return None
        field = reference.target[reference.target.fields.index(name)]
        return Reference(field) if isinstance(field, types.BaseNamedTuple) else field


def _field(context: Any, builder: Any, reference: Any, value: Any, name: str) -> Any:
    place = reference.target.fields.index(name)
    tuple_pointer = builder.bitcast(value, context.get_value_type(reference.target).as_pointer())
    pointer = builder.gep(tuple_pointer, [I32(0), I32(place)], inbounds=True)
    if isinstance(reference.target[place], types.BaseNamedTuple):
        return builder.bitcast(pointer, BYTE.as_pointer())
    return builder.load(pointer)


lowered_fields(Reference)(_field)


def _reference(typing: Any, target: Any) -> Any:
    def build(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        with builder.goto_entry_block():
            memory = builder.alloca(args[0].type)
        builder.store(args[0], memory)
        return builder.bitcast(memory, BYTE.as_pointer())

    def keep(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return args[0]

    if isinstance(target, Reference):
        return target(target), keep
    return Reference(target)(target), build


@lowered_by(_reference)
def reference(target: Tuple) -> Tuple:
    """The same named tuple by reference. Only for a kernel's own arguments, and only until the kernel returns."""
    return target
