"""MoldUDP64 1.00: packets, the re-request server's store, and the receiver that keeps a stream in order."""

from venue.wire.moldudp64.packets import (
    END_OF_SESSION_COUNT,
    HEADER,
    MAX_SEQUENCE,
    PAYLOAD_LIMIT_BYTES,
    Header,
    Packer,
    Packet,
    Request,
    blocks_end,
    decode_packet,
    encode_packet,
    end_of_session,
    heartbeat,
    split_blocks,
)
from venue.wire.moldudp64.store import MessageStore

__all__ = [
    "END_OF_SESSION_COUNT",
    "HEADER",
    "MAX_SEQUENCE",
    "PAYLOAD_LIMIT_BYTES",
    "Header",
    "MessageStore",
    "Packer",
    "Packet",
    "Request",
    "blocks_end",
    "decode_packet",
    "encode_packet",
    "end_of_session",
    "heartbeat",
    "split_blocks",
]
