"""What both sides of a SoupBinTCP session have in common: bytes out, the two clocks, and how it all ends.

A session has no socket and no clock. Its owner feeds it what it reads, writes what `data_to_send` returns, and calls
`handle_timer` at `next_timer`; times are integer nanoseconds of any clock that never goes back. One thread at a time.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import Literal

from venue.wire.layout import WireError
from venue.wire.soupbintcp.packets import FrameReader, frame

SECOND_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class ProtocolError:
    """The other side broke the protocol; the session is closed and so should be the connection."""

    reason: str


@dataclass(frozen=True, slots=True)
class Timeout:
    """The login did not come in time, or the other side has been silent for too long. The session is closed."""

    reason: Literal["login", "silence"]


class State(Enum):
    LOGIN = auto()
    """No login seen (server) or sent (client)."""
    PENDING = auto()
    """The login waits for its answer."""
    ESTABLISHED = auto()
    CLOSED = auto()
    """Nothing more is read. What is still to be sent goes out first, then the connection should be closed."""


class Session:
    """Base of ServerSession and ClientSession. `heartbeat_ns`: how long nothing is sent before a heartbeat is;
    `silence_ns`: how long the other side may be silent; `login_ns`: how long the login may take, counted from `now`."""

    _heartbeat_kind: bytes
    _reading: frozenset[State]
    """The states in which packets are read."""

    def __init__(self, now: int, heartbeat_ns: int, silence_ns: int, login_ns: int, limit_bytes: int) -> None:
        self.state = State.LOGIN
        self.silence_ns = silence_ns
        self._heartbeat_ns = heartbeat_ns
        self._login_deadline = now + login_ns
        self._sent_at = now
        self._heard_at = now
        self._reader = FrameReader(limit_bytes)
        self._out = bytearray()

    @property
    def established(self) -> bool:
        return self.state is State.ESTABLISHED

    @property
    def closed(self) -> bool:
        return self.state is State.CLOSED

    def data_to_send(self) -> bytes:
        """The bytes to write, once. After writing them call `sent`, so that heartbeats go out only when idle."""
        data = bytes(self._out)
        self._out.clear()
        return data

    def sent(self, now: int) -> None:
        """Something has been written at `now`, whoever made it; also told later, and in any order."""
        self._sent_at = max(self._sent_at, now)

    def heard(self, now: int) -> None:
        """Something has been read at `now`, even if it did not come through `receive`."""
        self._heard_at = now

    def next_timer(self) -> int | None:
        """When to call `handle_timer` next. It moves with every call to the session."""
        if self.closed:
            return None
        if not self.established:
            return self._login_deadline
        return min(self._sent_at + self._heartbeat_ns, self._heard_at + self.silence_ns)

    def handle_timer(self, now: int) -> list[Timeout]:
        """Ends a session whose login or life sign is overdue, or queues a heartbeat. Calling it early does no harm."""
        if self.closed:
            return []
        if not self.established:
            return self._end("login") if now >= self._login_deadline else []
        if now >= self._heard_at + self.silence_ns:
            return self._end("silence")
        if now >= self._sent_at + self._heartbeat_ns:
            self._out += frame(self._heartbeat_kind)
            self._sent_at = now
        return []

    def _end(self, reason: Literal["login", "silence"]) -> list[Timeout]:
        self.state = State.CLOSED
        return [Timeout(reason)]

    def _packets(self) -> Iterator[tuple[bytes, bytes]]:
        """Complete packets as (type, payload), debug texts left out, for as long as the session reads on."""
        while self.state in self._reading and (body := self._reader.next()) is not None:
            if body[:1] != b"+":
                yield body[:1], body[1:]

    def _require(self, state: State) -> None:
        if self.state is not state:
            raise RuntimeError(f"a session that is {self.state.name} cannot do that, only one that is {state.name}")


def no_payload(kind: bytes, payload: bytes) -> None:
    if payload:
        raise WireError(f"a packet of type {kind!r} carries nothing, not {len(payload)} bytes")
