"""The client's side of a SoupBinTCP session."""

from dataclasses import dataclass

from venue.wire.layout import Bytes, WireError
from venue.wire.soupbintcp.packets import MAX_FRAME_BYTES, LoginAccepted, LoginRejected, LoginRequest, frame, packet
from venue.wire.soupbintcp.session import SECOND_NS, ProtocolError, Session, State, Timeout, no_payload


@dataclass(frozen=True, slots=True)
class Sequenced:
    """One message of the server with its number in the session."""

    sequence: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class UnsequencedData:
    """A message of the server outside the sequence (4.00 and later)."""

    payload: bytes


@dataclass(frozen=True, slots=True)
class EndOfSession:
    """No more messages, and no way back into this session; ours is closed."""


ClientEvent = LoginAccepted | LoginRejected | Sequenced | UnsequencedData | EndOfSession | ProtocolError | Timeout


class ClientSession(Session):
    """One connection as the client sees it, from the moment it stands. Begin with `login`."""

    _heartbeat_kind = b"R"
    _reading = frozenset({State.LOGIN, State.PENDING, State.ESTABLISHED})

    def __init__(
        self,
        now: int,
        *,
        heartbeat_ns: int = 1 * SECOND_NS,
        silence_ns: int = 15 * SECOND_NS,
        login_ns: int = 15 * SECOND_NS,
    ) -> None:
        super().__init__(now, heartbeat_ns, silence_ns, login_ns, MAX_FRAME_BYTES)
        self.session = ""
        """The session we are logged in to."""
        self.next_sequence = 0
        """The number of the next Sequenced: what to log in with after a lost connection."""

    def login(self, username: str, password: str, session: str = "", sequence: int = 1) -> None:
        """Queues the login. Session "" = the current one; sequence = the first message wanted, 0 = from now on."""
        self._require(State.LOGIN)
        self._out += packet(LoginRequest(username=username, password=password, session=session, sequence=sequence))
        self.state = State.PENDING

    def receive(self, data: Bytes, now: int) -> list[ClientEvent]:
        """What the server said with these bytes. A frame may come in any number of pieces."""
        if self.closed:
            return []
        if data:
            self.heard(now)
        self._reader.feed(data)
        events: list[ClientEvent] = []
        try:
            for kind, payload in self._packets():
                if self.established:
                    self._handle(kind, payload, events)
                else:
                    events.append(self._handle_login(kind, payload, now))
        except WireError as error:
            self.state = State.CLOSED
            events.append(ProtocolError(str(error)))
        return events

    def send_unsequenced(self, payload: Bytes) -> None:
        """Queues one message."""
        self._require(State.ESTABLISHED)
        self._out += frame(b"U", payload)

    def logout(self) -> None:
        """Queues a logout, if logged in, and closes the session."""
        if self.established:
            self._out += frame(b"O")
        self.state = State.CLOSED

    def _handle_login(self, kind: bytes, payload: bytes, now: int) -> ClientEvent:
        if self.state is State.PENDING and kind == b"A":
            accepted = LoginAccepted.decode(kind + payload)
            self.session, self.next_sequence = accepted.session, accepted.sequence
            self.state = State.ESTABLISHED
            self.sent(now)
            return accepted
        if self.state is State.PENDING and kind == b"J":
            rejected = LoginRejected.decode(kind + payload)
            self.state = State.CLOSED
            return rejected
        raise WireError(f"a packet of type {kind!r} before the answer to our login")

    def _handle(self, kind: bytes, payload: bytes, events: list[ClientEvent]) -> None:
        if kind == b"S":
            events.append(Sequenced(self.next_sequence, payload))
            self.next_sequence += 1
        elif kind == b"U":
            events.append(UnsequencedData(payload))
        elif kind == b"H":
            no_payload(kind, payload)
        elif kind == b"Z":
            no_payload(kind, payload)
            self.state = State.CLOSED
            events.append(EndOfSession())
        else:
            raise WireError(f"no server sends a packet of type {kind!r} after a login")
