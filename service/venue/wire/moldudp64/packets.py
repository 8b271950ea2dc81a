"""MoldUDP64 1.00 packets: downstream (data, heartbeat, end of session) and request.

A downstream packet is HEADER and `count` message blocks, each `[uint16 length][data]`. `sequence` is the number of the
first message, or the next number to come where there are no blocks. The payload limit of 1,400 bytes, header included,
is Nassau's: it fits every Ethernet path.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from venue.wire.layout import U2, U8, Alpha10, Bytes, Message, WireError

PAYLOAD_LIMIT_BYTES = 1400
END_OF_SESSION_COUNT = 0xFFFF
MAX_SEQUENCE = 2**63 - 1
"""Numbers stay below 2^63, so that compiled code can hold them as int64; a larger one is taken for garbage."""

_LENGTH = struct.Struct(">H")


class Header(Message):
    """Head of every downstream packet."""

    session: Alpha10
    sequence: U8
    count: U2


class Request(Message):
    """Asks the re-request server for `count` messages from `sequence` on."""

    session: Alpha10
    sequence: U8
    count: U2


HEADER = Header.layout
REQUEST = Request.layout


@dataclass(frozen=True, slots=True)
class Packet:
    """A downstream packet taken apart. `messages` is empty in heartbeats and at the end of the session."""

    session: str
    sequence: int
    count: int
    messages: list[bytes]


def decode_packet(data: Bytes) -> Packet:
    """A whole packet. WireError when a block or the header is cut short; bytes after the last block are ignored."""
    session, sequence, count = HEADER.read(data)
    blocks = 0 if count == END_OF_SESSION_COUNT else count
    return Packet(session, sequence, count, split_blocks(memoryview(data)[HEADER.size :], blocks))


def encode_packet(session: str, sequence: int, messages: Sequence[Bytes]) -> bytes:
    """A data packet; with no messages it is a heartbeat. WireError for 65,535 messages, or one over 65,535 bytes."""
    if len(messages) >= END_OF_SESSION_COUNT:
        raise WireError(f"a packet counts at most {END_OF_SESSION_COUNT - 1} messages, not {len(messages)}")
    parts: list[Bytes] = [Header(session, sequence, len(messages)).encode()]
    for message in messages:
        if len(message) > 0xFFFF:
            raise WireError(f"a message block holds at most 65535 bytes, not {len(message)}")
        parts += (_LENGTH.pack(len(message)), message)
    return b"".join(parts)


def heartbeat(session: str, next_sequence: int) -> bytes:
    """Sent about once a second while there is nothing to say; the number tells listeners what they should have."""
    return Header(session, next_sequence, 0).encode()


def end_of_session(session: str, next_sequence: int) -> bytes:
    """Sent in place of heartbeats for a while after the last message."""
    return Header(session, next_sequence, END_OF_SESSION_COUNT).encode()


def blocks_end(data: Bytes, count: int, start: int = 0) -> int:
    """Where `count` blocks that begin at `start` end. WireError when fewer are there: nothing past the end is read."""
    size = len(data)
    for i in range(count):
        if start + 2 > size:
            raise WireError(f"block {i + 1} of {count} is missing")
        start += 2 + (data[start] << 8 | data[start + 1])
        if start > size:
            raise WireError(f"block {i + 1} of {count} is cut short by {start - size} bytes")
    return start


def split_blocks(blocks: Bytes, count: int) -> list[bytes]:
    """The messages in `count` blocks. WireError when fewer are there."""
    blocks_end(blocks, count)
    messages, start = [], 0
    for _ in range(count):
        end = start + 2 + (blocks[start] << 8 | blocks[start + 1])
        messages.append(bytes(blocks[start + 2 : end]))
        start = end
    return messages


class Packer:
    """Collects messages into packets of at most `limit_bytes`, header included.

    packer = Packer("0000000001")
    for message in messages:
        if packet := packer.add(message):
            send(packet)
    if packet := packer.flush():
        send(packet)
    """

    def __init__(self, session: str, sequence: int = 1, limit_bytes: int = PAYLOAD_LIMIT_BYTES) -> None:
        self.session = session
        self.next_sequence = sequence
        """The number that the next message added will have."""
        self._limit_bytes = limit_bytes
        self._messages: list[Bytes] = []
        self._size_bytes = HEADER.size

    def add(self, message: Bytes) -> bytes | None:
        """Takes the message; returns the packet before it if the two do not fit together."""
        need = 2 + len(message)
        if HEADER.size + need > self._limit_bytes:
            raise WireError(f"a message of {len(message)} bytes does not fit a packet of {self._limit_bytes}")
        full = self._size_bytes + need > self._limit_bytes or len(self._messages) == END_OF_SESSION_COUNT - 1
        packet = self.flush() if full else None
        self._messages.append(message)
        self._size_bytes += need
        self.next_sequence += 1
        return packet

    def flush(self) -> bytes | None:
        """The packet of what has been collected, or None."""
        if not self._messages:
            return None
        packet = encode_packet(self.session, self.next_sequence - len(self._messages), self._messages)
        self._messages = []
        self._size_bytes = HEADER.size
        return packet
