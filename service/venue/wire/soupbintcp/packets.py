"""SoupBinTCP 3.00 packets, and the 52-byte login of 4.10.

A frame is `[uint16 length][type][payload]`, the length counting type and payload. The tables here hold what comes after
the length: `packet(LoginRequest(...))` is the frame. The other packets have no table:

    +  both    Debug: text, to be ignored          S  server  Sequenced Data: one message
    H  server  heartbeat, no payload               U  both    Unsequenced Data: one message
    Z  server  End of Session, no payload          R  client  heartbeat, no payload
                                                   O  client  Logout Request, no payload

Login fields are read without the spaces and NULs on either side, since senders pad as they like (Nasdaq's own Python
library on the right, the documents and real captures on the left). We write session and numbers padded on the left,
name and password on the right.
"""

import struct
from typing import Annotated

from venue.wire.layout import Alpha1, Bytes, Kind, Message, WireError

MAX_FRAME_BYTES = 2 + 0xFFFF
MAX_LOGIN_FRAME_BYTES = 256
"""Before a login only the login itself (54 bytes) and short debug texts are expected."""

_HEAD = struct.Struct(">Hc")
_PADDING = " \0"


def text(size: int, *, left: bool, secret: bool = False) -> Kind:
    """Text that is read without padding on either side and written padded on one."""

    def unpack(raw: bytes) -> str:
        return raw.decode("latin-1").strip(_PADDING)

    def pack(value: str) -> bytes:
        raw = value.encode("latin-1")
        if len(raw) > size:
            raise ValueError(f"takes {size} characters at most, not {len(raw)}")
        return raw.rjust(size) if left else raw.ljust(size)

    return Kind("alpha", size, f"{size}s", f"S{size}", unpack, pack, secret)


def number(size: int) -> Kind:
    """An ASCII number, read leniently: blank is 0. Anything but digits is an error."""

    def unpack(raw: bytes) -> int:
        digits = raw.strip(b" \0")
        if digits and not digits.isdigit():
            raise ValueError(f"is no number: {raw!r}")
        return int(digits or b"0")

    def pack(value: int) -> bytes:
        raw = b"%d" % value
        if value < 0 or len(raw) > size:
            raise ValueError(f"is 0 or more with {size} digits at most, not {value}")
        return raw.rjust(size)

    return Kind("number", size, f"{size}s", f"S{size}", unpack, pack)


class LoginRequest(Message, code=b"L"):
    """Names compare without case (3.00, section 2.2.3). Session blank = the current one. Sequence: the number to resume
    at; 0 = from now on, and a blank number is read as 0."""

    username: Annotated[str, text(6, left=False)]
    password: Annotated[str, text(10, left=False, secret=True)]
    session: Annotated[str, text(10, left=True)]
    sequence: Annotated[int, number(20)]

    def __repr__(self) -> str:
        """Everything but the password, which belongs in no log."""
        return f"{type(self).__name__}({self.username!r}, session={self.session!r}, sequence={self.sequence})"


class LoginRequest41(LoginRequest):
    """The login of version 4.10, which also says after how many milliseconds of silence the other side is dead."""

    heartbeat_timeout_ms: Annotated[int, number(5)]


class LoginAccepted(Message, code=b"A"):
    """`sequence` is the number of the next Sequenced Data packet."""

    session: Annotated[str, text(10, left=True)]
    sequence: Annotated[int, number(20)]


class LoginRejected(Message, code=b"J"):
    reason: Alpha1
    """A not authorized, S session not available."""


def decode_login(data: Bytes) -> LoginRequest:
    """Either form of the login, from its type byte on."""
    return (LoginRequest41 if len(data) == LoginRequest41.layout.size else LoginRequest).decode(data)


def frame(kind: bytes, payload: Bytes = b"") -> bytes:
    """One packet of type `kind`. WireError for a payload over 65,534 bytes."""
    if len(payload) >= 0xFFFF:
        raise WireError(f"a packet carries at most 65534 bytes, not {len(payload)}")
    return _HEAD.pack(1 + len(payload), kind) + payload


def packet(message: Message) -> bytes:
    """The frame of a packet that has a table."""
    body = message.encode()
    return frame(body[:1], body[1:])


class FrameReader:
    """Cuts a byte stream into frames and keeps at most one that is incomplete. `limit_bytes` may be changed between
    frames. After a WireError the stream is beyond repair."""

    def __init__(self, limit_bytes: int = MAX_FRAME_BYTES) -> None:
        self.limit_bytes = limit_bytes
        self._buffer = bytearray()
        self._start = 0

    def __len__(self) -> int:
        """How many bytes have been fed and not been read."""
        return len(self._buffer) - self._start

    def feed(self, data: Bytes) -> None:
        self._buffer += data

    def take(self) -> bytes:
        """What has been fed and not been read, which is then forgotten here."""
        data = bytes(self._buffer[self._start :])
        self._buffer.clear()
        self._start = 0
        return data

    def next(self) -> bytes | None:
        """The next complete frame from its type byte on, or None. WireError for a length of 0 or beyond the limit."""
        buffer, start = self._buffer, self._start
        if len(buffer) - start >= 2:
            length = buffer[start] << 8 | buffer[start + 1]
            if length == 0:
                raise WireError("a packet of length 0 has no type")
            if 2 + length > self.limit_bytes:
                raise WireError(f"a packet of {2 + length} bytes is over the limit of {self.limit_bytes}")
            if len(buffer) - start >= 2 + length:
                self._start = start + 2 + length
                return bytes(buffer[start + 2 : self._start])
        del buffer[:start]
        self._start = 0
        return None
