"""SoupBinTCP 3.00: packets, and both sides of a session without sockets or clocks."""

from venue.wire.soupbintcp.client import ClientEvent, ClientSession, EndOfSession, Sequenced, UnsequencedData
from venue.wire.soupbintcp.packets import (
    MAX_FRAME_BYTES,
    MAX_LOGIN_FRAME_BYTES,
    FrameReader,
    LoginAccepted,
    LoginRejected,
    LoginRequest,
    LoginRequest41,
    decode_login,
    frame,
    packet,
)
from venue.wire.soupbintcp.server import LoginRequested, LogoutRequested, ServerEvent, ServerSession, Unsequenced
from venue.wire.soupbintcp.session import ProtocolError, Session, Timeout

__all__ = [
    "MAX_FRAME_BYTES",
    "MAX_LOGIN_FRAME_BYTES",
    "ClientEvent",
    "ClientSession",
    "EndOfSession",
    "FrameReader",
    "LoginAccepted",
    "LoginRejected",
    "LoginRequest",
    "LoginRequest41",
    "LoginRequested",
    "LogoutRequested",
    "ProtocolError",
    "Sequenced",
    "ServerEvent",
    "ServerSession",
    "Session",
    "Timeout",
    "Unsequenced",
    "UnsequencedData",
    "decode_login",
    "frame",
    "packet",
]
