"""What a MoldUDP64 re-request server keeps and answers."""

from venue.wire.layout import Bytes, WireError
from venue.wire.moldudp64.packets import HEADER, PAYLOAD_LIMIT_BYTES, REQUEST, Packer


class MessageStore:
    """The messages of one session, from `first` on; with `limit` only the last that many."""

    def __init__(self, session: str, first: int = 1, limit: int | None = None) -> None:
        self.session = session
        self.next_sequence = first
        self._limit = limit
        self._messages: dict[int, bytes] = {}

    def __len__(self) -> int:
        return len(self._messages)

    def append(self, message: Bytes) -> int:
        """Keeps the message and returns its number. WireError for one that no answer could carry."""
        if HEADER.size + 2 + len(message) > PAYLOAD_LIMIT_BYTES:
            raise WireError(f"a message of {len(message)} bytes does not fit a packet of {PAYLOAD_LIMIT_BYTES}")
        sequence = self.next_sequence
        self._messages[sequence] = bytes(message)
        self.next_sequence = sequence + 1
        if self._limit is not None and len(self._messages) > self._limit:
            del self._messages[sequence - self._limit]
        return sequence

    def answer(self, request: Bytes) -> bytes | None:
        """One packet with as many whole messages as fit, counted from the first one asked for. None for a request that
        is too short, of another session, or for numbers that are not here: MoldUDP64 knows no error reply."""
        if len(request) < REQUEST.size:
            return None
        session, sequence, count = REQUEST.read(request)
        if session != self.session:
            return None
        packer = Packer(self.session, sequence)
        for number in range(sequence, sequence + count):
            message = self._messages.get(number)
            if message is None:
                break
            if packet := packer.add(message):
                return packet
        return packer.flush()
