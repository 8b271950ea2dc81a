"""The server's side of a SoupBinTCP session."""

from dataclasses import dataclass, field
from typing import Literal

from venue.wire.layout import Bytes, WireError
from venue.wire.soupbintcp.packets import (
    MAX_FRAME_BYTES,
    MAX_LOGIN_FRAME_BYTES,
    LoginAccepted,
    LoginRejected,
    LoginRequest41,
    decode_login,
    frame,
    packet,
)
from venue.wire.soupbintcp.session import SECOND_NS, ProtocolError, Session, State, Timeout, no_payload


@dataclass(frozen=True, slots=True)
class LoginRequested:
    """Answer with accept_login or reject_login. Names compare without case. Session "" = the current one; sequence 0 =
    from now on (a blank number means the same). A number has up to 20 digits, so it may exceed any integer type."""

    username: str
    password: str = field(repr=False)
    session: str
    sequence: int
    heartbeat_timeout_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Unsequenced:
    """One message of the client."""

    payload: bytes


@dataclass(frozen=True, slots=True)
class LogoutRequested:
    """The client is done; the session is closed."""


ServerEvent = LoginRequested | Unsequenced | LogoutRequested | ProtocolError | Timeout


class ServerSession(Session):
    """One connection as the server sees it, from the moment it is accepted.

    While `established`, the owner may read the client's packets itself: it takes what the session still holds with
    `take_buffered`, reports `heard`, and passes to `receive` the bytes that it did not use.
    """

    _heartbeat_kind = b"H"
    _reading = frozenset({State.LOGIN, State.ESTABLISHED})

    def __init__(
        self,
        now: int,
        *,
        heartbeat_ns: int = 1 * SECOND_NS,
        silence_ns: int = 15 * SECOND_NS,
        login_ns: int = 10 * SECOND_NS,
    ) -> None:
        super().__init__(now, heartbeat_ns, silence_ns, login_ns, MAX_LOGIN_FRAME_BYTES)

    def receive(self, data: Bytes, now: int) -> list[ServerEvent]:
        """What the client said with these bytes. A frame may come in any number of pieces. Bytes behind a login wait
        until it is answered; nothing is read once the session is closed."""
        if self.closed:
            return []
        if data:
            self.heard(now)
        self._reader.feed(data)
        events: list[ServerEvent] = []
        try:
            for kind, payload in self._packets():
                self._handle(kind, payload, events)
            if self.state is State.PENDING and len(self._reader) > MAX_FRAME_BYTES:
                raise WireError(f"more than {MAX_FRAME_BYTES} bytes behind a login not yet answered")
        except WireError as error:
            self.state = State.CLOSED
            events.append(ProtocolError(str(error)))
        return events

    def take_buffered(self) -> bytes:
        """The bytes of a frame that is not complete yet, for an owner who reads on itself."""
        return self._reader.take()

    def accept_login(self, session: str, sequence: int, now: int) -> list[ServerEvent]:
        """Answers the login; `sequence` is the number of the next send_sequenced. Returns what the client had sent
        behind its login. Does nothing if the session has been closed meanwhile."""
        if self.closed:
            return []
        self._require(State.PENDING)
        self._out += packet(LoginAccepted(session=session, sequence=sequence))
        self.state = State.ESTABLISHED
        self._reader.limit_bytes = MAX_FRAME_BYTES
        self.sent(now)
        self.heard(now)
        return self.receive(b"", now)

    def reject_login(self, reason: Literal["A", "S"], now: int) -> None:
        """Answers the login with A (not authorized) or S (session not available) and closes the session."""
        if self.closed:
            return
        self._require(State.PENDING)
        self._out += packet(LoginRejected(reason=reason))
        self.state = State.CLOSED
        self.sent(now)

    def send_sequenced(self, payload: Bytes) -> None:
        """Queues one message, which takes the next number."""
        self._require(State.ESTABLISHED)
        self._out += frame(b"S", payload)

    def end_session(self) -> None:
        """Queues End of Session and closes the session. Does nothing if no client is logged in."""
        if self.established:
            self._out += frame(b"Z")
        self.state = State.CLOSED

    def _handle(self, kind: bytes, payload: bytes, events: list[ServerEvent]) -> None:
        if self.state is State.LOGIN:
            if kind != b"L":
                raise WireError(f"a packet of type {kind!r} before the login")
            login = decode_login(kind + payload)
            timeout_ms = login.heartbeat_timeout_ms if isinstance(login, LoginRequest41) else None
            if timeout_ms:  # 4.10: the client says how long it may be silent; 0 or blank is our own choice
                self.silence_ns = timeout_ms * (SECOND_NS // 1000)
            self.state = State.PENDING
            events.append(LoginRequested(login.username, login.password, login.session, login.sequence, timeout_ms))
        elif kind == b"U":
            events.append(Unsequenced(payload))
        elif kind == b"R":
            no_payload(kind, payload)
        elif kind == b"O":
            no_payload(kind, payload)
            self.state = State.CLOSED
            events.append(LogoutRequested())
        elif kind == b"L":
            raise WireError("a second login")
        else:
            raise WireError(f"no client sends a packet of type {kind!r}")
