"""What OUCH 5.0 messages have in common: a fixed table, and after it optional attributes."""

from typing import Annotated, Self

import msgspec

from venue.wire.layout import Bytes, Message, Tail, WireError, uint
from venue.wire.ouch.tags import TagValue, decode_appendage, encode_appendage

Appendage = Annotated[tuple[TagValue, ...], Tail(uint(2))]
"""Attributes whose length, `appendage_length`, is part of the table: it is 0 when there are none."""

LaterAppendage = Annotated[tuple[TagValue, ...] | None, Tail(None)]
"""Attributes which revision 1.03 put behind a message that had none. None: the message ends with its table, as it does
unless the order uses a UserRefIdx. (): a length of 0 follows the table."""


class OuchMessage(Message):
    """Base of both directions. Quantities are shares, prices ticks of 1/10,000 USD, timestamps nanoseconds since
    midnight."""

    def encode(self) -> bytes:
        values = msgspec.structs.astuple(self)
        layout = self.layout
        if self.__struct_fields__[-1:] != ("appendage",):
            return layout.write(values)
        appendage: tuple[TagValue, ...] | None = values[-1]
        if appendage is None:
            return layout.write(values[:-1])
        tail = encode_appendage(appendage)
        if len(tail) > 0xFFFF:
            raise WireError(f"{layout.name} cannot carry {len(tail)} bytes of options")
        if len(layout.fields) == len(values):
            return layout.write((*values[:-1], len(tail))) + tail
        return layout.write(values[:-1]) + len(tail).to_bytes(2, "big") + tail

    @classmethod
    def decode(cls, data: Bytes) -> Self:
        """The message in exactly these bytes. WireError for another type byte, another length, or bad options."""
        layout = cls.layout
        values = layout.read(data)
        if cls.__struct_fields__[-1:] != ("appendage",):
            if len(data) != layout.size:
                raise WireError(f"{layout.name} has {layout.size} bytes, not {len(data)}")
            return cls(*values)
        if len(layout.fields) == len(cls.__struct_fields__):
            length, start = values.pop(), layout.size
        elif len(data) == layout.size:
            return cls(*values, None)
        else:
            start = layout.size + 2
            if len(data) < start:
                raise WireError(f"{layout.name} ends inside the length of its options")
            length = data[start - 2] << 8 | data[start - 1]
        if len(data) != start + length:
            raise WireError(f"{layout.name} promises {length} bytes of options, but {len(data) - start} follow")
        return cls(*values, decode_appendage(data[start:]))
