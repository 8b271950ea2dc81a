"""SoupBinTCP 3.00: packets, and both sides of a session without sockets or clocks."""

from venue.wire.soupbintcp.packets import (
    MAX_FRAME_BYTES,
    FrameReader,
    LoginAccepted,
    LoginRejected,
    LoginRequest,
    LoginRequest41,
    decode_login,
    frame,
    packet,
)

__all__ = [
    "MAX_FRAME_BYTES",
    "FrameReader",
    "LoginAccepted",
    "LoginRejected",
    "LoginRequest",
    "LoginRequest41",
    "decode_login",
    "frame",
    "packet",
]
