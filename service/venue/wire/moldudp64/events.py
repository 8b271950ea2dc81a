"""What a Receiver has to say."""

from dataclasses import dataclass

from venue.wire.moldudp64.packets import split_blocks


@dataclass(frozen=True, slots=True)
class SessionStarted:
    """The stream begins here: `sequence` is the first number expected."""

    session: str
    sequence: int


@dataclass(frozen=True, slots=True)
class SessionChanged:
    """Packets of another session came. SessionStarted for the new one follows."""

    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Deliver:
    """`count` messages in order, the first with number `sequence`. `blocks` is how they stand in packets: each
    `[uint16 length][data]`, whole and nothing else."""

    sequence: int
    count: int
    blocks: bytes

    @property
    def messages(self) -> list[bytes]:
        return split_blocks(self.blocks, self.count)


@dataclass(frozen=True, slots=True)
class GapDetected:
    """`count` messages from `first` on are missing so far."""

    first: int
    count: int


@dataclass(frozen=True, slots=True)
class RequestGap:
    """To be sent to the re-request server: Request(session, first, count)."""

    session: str
    first: int
    count: int


@dataclass(frozen=True, slots=True)
class MessagesLost:
    """`count` messages from `first` on will not come any more; the stream goes on behind them."""

    first: int
    count: int


@dataclass(frozen=True, slots=True)
class Duplicate:
    """A packet of `count` messages that brought nothing new."""

    count: int


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The stream is quiet; `next_sequence` will come next."""

    next_sequence: int


@dataclass(frozen=True, slots=True)
class EndOfSession:
    """All messages below `next_sequence` have been delivered or given up, and no more will come."""

    next_sequence: int


@dataclass(frozen=True, slots=True)
class Malformed:
    """A packet was dropped whole. If it was one of the stream's, its messages will be missed and asked for again."""

    reason: str


FeedEvent = (
    SessionStarted
    | SessionChanged
    | Deliver
    | GapDetected
    | RequestGap
    | MessagesLost
    | Duplicate
    | Heartbeat
    | EndOfSession
    | Malformed
)
