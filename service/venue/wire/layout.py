"""A message class is its table: from annotated fields follow size, offsets, dtype, checks and the codec.

    class OrderDelete(ItchMessage, code=b"D"):
        order_reference_number: U8

    OrderDelete.layout.size                                  # 19
    OrderDelete.layout.offset("order_reference_number")      # 11, which is all a compiled kernel needs to know
    OrderDelete.decode(OrderDelete(...).encode())            # the same message again

All integers are unsigned and big-endian. Prices are integer ticks: of 1/10,000 USD in Price4 and Price8x4, of
1/100,000,000 USD in Price8x8. Text is str without its padding; each byte is one character (latin-1), so whatever
a sender put into a text field comes out of encode() as it went in, NULs and all: only the spaces on the right are
padding. Anything that does not fit raises WireError with the reason in one line. Nothing here keeps state: any
thread may call.
"""

import operator
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar, Self, get_type_hints

import msgspec
import numpy as np

Bytes = bytes | bytearray | memoryview
"""What decoders take. A memoryview has to be one of bytes (format "B")."""


class WireError(ValueError):
    """Bytes that are no message, or a value that no message can carry. The reason is one line."""


@dataclass(frozen=True, slots=True)
class Kind:
    """How one field looks on the wire. `unpack` and `pack` convert between the raw bytes and the value where
    struct alone does not; they raise ValueError with a reason that reads well after the name of the field."""

    name: str
    size: int
    struct: str
    dtype: Any
    unpack: Callable[[bytes], Any] | None = None
    pack: Callable[[Any], bytes] | None = None
    secret: bool = False
    """The value must not appear in an error."""


@dataclass(frozen=True, slots=True)
class Tail:
    """Marks a last field that comes after the fixed table. With `length` the table ends in `<name>_length`."""

    length: Kind | None


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    offset: int
    kind: Kind

    @property
    def size(self) -> int:
        return self.kind.size


def uint(size: int, name: str = "uint") -> Kind:
    if size == 6:  # ITCH timestamps: neither struct nor numpy has an integer of six bytes
        return Kind(name, 6, "6s", ("u1", (6,)), _unpack_uint6, _pack_uint6)
    return Kind(name, size, {1: "B", 2: "H", 4: "I", 8: "Q"}[size], f">u{size}")


def alpha(size: int) -> Kind:
    def pack(value: str) -> bytes:
        raw = value.encode("latin-1")
        if len(raw) > size:
            raise ValueError(f"takes {size} characters at most, not {len(raw)}")
        return raw.ljust(size)

    return Kind("alpha", size, f"{size}s", f"S{size}", _unpack_alpha, pack)


def _unpack_alpha(raw: bytes) -> str:
    return raw.decode("latin-1").rstrip(" ")


def _unpack_uint6(raw: bytes) -> int:
    return int.from_bytes(raw, "big")


def _pack_uint6(value: int) -> bytes:
    return operator.index(value).to_bytes(6, "big")


U1 = Annotated[int, uint(1)]
U2 = Annotated[int, uint(2)]
U4 = Annotated[int, uint(4)]
U6 = Annotated[int, uint(6)]
U8 = Annotated[int, uint(8)]
Price4 = Annotated[int, uint(4, "price(4)")]
Price8x4 = Annotated[int, uint(8, "price(4)")]
Price8x8 = Annotated[int, uint(8, "price(8)")]
Alpha1 = Annotated[str, alpha(1)]
Alpha2 = Annotated[str, alpha(2)]
Alpha4 = Annotated[str, alpha(4)]
Alpha8 = Annotated[str, alpha(8)]
Alpha10 = Annotated[str, alpha(10)]
Alpha14 = Annotated[str, alpha(14)]


class Layout:
    """The fixed table of one message: `code` (its type byte, b"" where there is none), `name`, `size` in bytes with
    the type byte, `fields` in order, and a numpy `dtype` over the same bytes (big-endian, packed; a six-byte
    integer is an array of six bytes)."""

    def __init__(self, name: str, code: bytes, kinds: Sequence[tuple[str, Kind]]) -> None:
        self.name = name
        self.code = code
        fields, offset = [], len(code)
        for field_name, kind in kinds:
            fields.append(Field(field_name, offset, kind))
            offset += kind.size
        self.fields = tuple(fields)
        self.size = offset
        formats = "".join(kind.struct for _, kind in kinds)
        self._reader = struct.Struct(">" + "x" * len(code) + formats)
        self._writer = struct.Struct(f">{len(code)}s" + formats)
        self._unpackers = [(i, kind.unpack) for i, (_, kind) in enumerate(kinds) if kind.unpack is not None]
        self._packers = [(i, kind.pack) for i, (_, kind) in enumerate(kinds) if kind.pack is not None]
        assert self._reader.size == self._writer.size == self.size

    def __repr__(self) -> str:
        return f"<Layout {self.name} {self.code!r} {self.size} bytes>"

    @cached_property
    def _offsets(self) -> dict[str, int]:
        return {field.name: field.offset for field in self.fields}

    def offset(self, name: str) -> int:
        """Where the field begins, counted from the first byte of the message. KeyError for an unknown name."""
        return self._offsets[name]

    @cached_property
    def dtype(self) -> np.dtype[np.void]:
        head = [("message_type", f"S{len(self.code)}")] if self.code else []
        dtype: np.dtype[np.void] = np.dtype([*head, *((field.name, field.kind.dtype) for field in self.fields)])
        assert dtype.itemsize == self.size
        return dtype

    def read(self, data: Bytes) -> list[Any]:
        """The values of the table's fields from the first `size` bytes; what follows them is not looked at."""
        if len(data) < self.size:
            raise WireError(f"{self.name} needs {self.size} bytes, not {len(data)}")
        if self.code and data[0] != self.code[0]:
            raise WireError(f"{self.name} begins with {self.code!r}, not {bytes(data[:1])!r}")
        values = list(self._reader.unpack_from(data))
        try:
            for i, unpack in self._unpackers:
                values[i] = unpack(values[i])
        except ValueError as error:
            raise WireError(f"{self.name}.{self.fields[i].name} {error}") from None
        return values

    def write(self, values: Sequence[Any]) -> bytes:
        """The fixed part of a message from the values of all the table's fields."""
        row = list(values)
        try:
            for i, pack in self._packers:
                row[i] = pack(row[i])
            return self._writer.pack(self.code, *row)
        except (struct.error, ValueError, OverflowError, TypeError, AttributeError):
            raise self._complaint(values) from None

    def _complaint(self, values: Sequence[Any]) -> WireError:
        """Names the first value that does not fit, once it is known that one does not."""
        for field, value in zip(self.fields, values, strict=True):
            try:
                struct.pack(">" + field.kind.struct, value if field.kind.pack is None else field.kind.pack(value))
            except (OverflowError, UnicodeEncodeError, TypeError, AttributeError, struct.error):
                need = f"it is {field.kind.name}, {field.size} bytes"
                shown = "that" if field.kind.secret else repr(value)
                return WireError(f"{self.name}.{field.name} cannot be {shown}: {need}")
            except ValueError as error:
                return WireError(f"{self.name}.{field.name} {error}")
        return WireError(f"{self.name} cannot hold {values!r}")


class MessageMeta(msgspec.StructMeta):
    """Makes `layout` from the annotations when a class is written down. The class keyword `code` is the type byte."""

    def __new__(
        mcls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], /, *, code: bytes | None = None
    ) -> "MessageMeta":
        # Messages hold only numbers, text and tuples of those: no cycle is possible, the collector need not look.
        cls = super().__new__(mcls, name, bases, namespace, frozen=True, gc=False)
        hints = get_type_hints(cls, include_extras=True)
        kinds: list[tuple[str, Kind]] = []
        for field in cls.__struct_fields__:
            mark = next(m for m in hints[field].__metadata__ if isinstance(m, Kind | Tail))
            if isinstance(mark, Kind):
                kinds.append((field, mark))
            elif mark.length is not None:
                kinds.append((f"{field}_length", mark.length))
        inherited: bytes = getattr(cls, "layout", NO_LAYOUT).code
        cls.layout = Layout(name, inherited if code is None else code, kinds)  # type: ignore[attr-defined]
        return cls


NO_LAYOUT = Layout("Message", b"", [])


class Message(msgspec.Struct, metaclass=MessageMeta):
    """Base of all messages: frozen, compared by value, made with keywords (or in the table's order)."""

    layout: ClassVar[Layout] = NO_LAYOUT

    def encode(self) -> bytes:
        """The message's bytes, type byte first. WireError names the first field whose value does not fit."""
        return self.layout.write(msgspec.structs.astuple(self))

    @classmethod
    def decode(cls, data: Bytes) -> Self:
        """The message in exactly these bytes. WireError for another type byte, another length, or a bad field."""
        layout = cls.layout
        if len(data) != layout.size:
            raise WireError(f"{layout.name} has {layout.size} bytes, not {len(data)}")
        return cls(*layout.read(data))
