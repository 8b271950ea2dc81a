"""What the tests of the MoldUDP64 receiver share: packets whose messages are known, and what delivers them."""

from venue.wire import moldudp64 as mold
from venue.wire.moldudp64 import Deliver, Receiver, SessionStarted

MS = 1_000_000


def message(number: int) -> bytes:
    return b"message %d" % number


def packet(sequence: int, count: int, session: str = "S") -> bytes:
    return mold.encode_packet(session, sequence, [message(n) for n in range(sequence, sequence + count)])


def deliver(sequence: int, count: int) -> Deliver:
    """Messages `sequence` and so on, and exactly their bytes."""
    return Deliver(sequence, count, packet(sequence, count)[20:])


def started(**options: object) -> Receiver:
    """A receiver that has had messages 1 to 3 at time 0."""
    receiver = Receiver(**options)  # type: ignore[arg-type]
    assert receiver.receive(0, packet(1, 3), 0) == [SessionStarted("S", 1), deliver(1, 3)]
    return receiver
