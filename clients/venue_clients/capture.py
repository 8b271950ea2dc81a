"""Recorded market data on disk: BinaryFILE days, and pcap or pcapng captures of MoldUDP64, each plain or gzip.

`open_capture` looks at a file's content, never at its name. A Capture can be iterated any number of times, each time
from the start and in bounded memory, whatever the size of the file. What a file holds besides usable data (other
packets, a truncated end) is counted in `Capture.skipped`; only a file that holds nothing usable is an error.
"""

from __future__ import annotations

import gzip
import zlib
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal, cast

from venue.wire import itch
from venue.wire.layout import WireError
from venue.wire.moldudp64 import END_OF_SESSION_COUNT, HEADER, Header, blocks_end
from venue_clients.pcap import PCAP_MAGICS, PCAPNG_MAGIC, Packet, read_pcap, read_pcapng, udp_payload
from venue_clients.records import Chunk, index_records, whole_records

CHUNK_BYTES = 65_536
_SNIFF_BYTES = 4_096
_GZIP_MAGIC = b"\x1f\x8b"

Kind = Literal["BinaryFILE", "pcap", "pcapng"]


class CaptureError(ValueError):
    """A file that cannot be used as a capture; the text is one line that says what to do."""


@dataclass(frozen=True, slots=True)
class CapturedPacket:
    """One MoldUDP64 packet as it was recorded.

    `time_ns` is when it was captured, from the Unix epoch. `blocks` are `count` records, or empty in a heartbeat (count
    0) and an end of session (count 0xFFFF).
    """

    time_ns: int
    session: str
    sequence: int
    count: int
    blocks: bytes


class _Source:
    """An opened file, gunzipped if need be, that reads exactly as much as was asked for and survives a damaged gzip."""

    def __init__(self, path: Path, skipped: Counter[str]) -> None:
        self._raw = path.open("rb")
        self.compressed = self._raw.read(2) == _GZIP_MAGIC
        self._raw.seek(0)
        self._file = cast(BinaryIO, gzip.GzipFile(fileobj=self._raw)) if self.compressed else self._raw
        self._skipped = skipped
        self._damaged = False

    def read(self, size: int) -> bytes:
        parts: list[bytes] = []
        while size > 0 and not self._damaged:
            try:
                part = self._file.read1(size)  # type: ignore[attr-defined]  # typeshed gives BinaryIO no read1
            except (EOFError, gzip.BadGzipFile, zlib.error):
                self._skipped["damaged or truncated gzip"] += 1
                self._damaged = True
                break
            if not part:
                break
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def position_bytes(self) -> int:
        """How far into the file on disk reading has come."""
        return self._raw.tell()

    def close(self) -> None:
        self._file.close()
        self._raw.close()


class Capture:
    """A file of recorded market data; made by `open_capture`. One thread at a time may iterate it."""

    def __init__(self, path: Path, kind: Kind, compressed: bool, size_bytes: int) -> None:
        self.path = path
        self.kind: Kind = kind
        self.compressed = compressed
        self.size_bytes = size_bytes
        self.skipped: Counter[str] = Counter()
        """What the latest iteration left out: reason -> how often."""
        self._source: _Source | None = None
        self._read_bytes = 0

    @property
    def has_packets(self) -> bool:
        """Whether the file holds MoldUDP64 packets (pcap, pcapng) rather than bare messages (BinaryFILE)."""
        return self.kind != "BinaryFILE"

    @property
    def fraction_read(self) -> float:
        """How far the latest iteration has come, 0.0 to 1.0."""
        if self._source is not None:
            self._read_bytes = self._source.position_bytes()
        return min(1.0, self._read_bytes / self.size_bytes) if self.size_bytes else 1.0

    def messages(self) -> Iterator[bytes]:
        """Every ITCH message, in the order of the file."""
        for chunk in self.chunks():
            yield from chunk.messages()

    def chunks(self) -> Generator[Chunk, None, None]:
        """The same messages as indexed runs of records of about 64 KiB; none is empty.

        From a pcap they come as captured: one that holds both lines of a feed has each message twice.
        """
        pieces = self._packet_records() if self.has_packets else self._file_records()
        last_ns = 0
        with closing(pieces):
            for data, bounds in pieces:
                chunk = index_records(data, bounds, last_ns, self.skipped)
                if len(chunk):
                    last_ns = int(chunk.times_ns[-1])
                    yield chunk

    def packets(self) -> Generator[CapturedPacket, None, None]:
        """MoldUDP64 packets as they were recorded, heartbeats and ends of session among them (pcap and pcapng only)."""
        if not self.has_packets:
            raise CaptureError(f"{self.path} is a BinaryFILE: it has messages but no packets")
        with self._opened() as source:
            frames = read_pcap if self.kind == "pcap" else read_pcapng
            for frame in frames(source, self.skipped):
                packet = _mold_packet(frame, self.skipped)
                if packet is not None:
                    yield packet

    def _file_records(self) -> Generator[tuple[bytes, list[int]], None, None]:
        """Whole records of a BinaryFILE with their bounds."""
        with self._opened() as source:
            rest = b""
            while fresh := source.read(CHUNK_BYTES):
                data = rest + fresh
                bounds = whole_records(data)
                rest = data[bounds[-1] :]
                if len(bounds) > 1:
                    yield data, bounds
                if rest[:2] == b"\0\0":
                    if len(rest) > 2 or source.read(1):
                        self.skipped["data after the end of session"] += 1
                    return
            if rest:
                self.skipped["truncated end"] += 1

    def _packet_records(self) -> Generator[tuple[bytes, list[int]], None, None]:
        """The records inside the packets, some packets at a time."""
        parts: list[bytes] = []
        size = 0
        for packet in self.packets():
            parts.append(packet.blocks)
            size += len(packet.blocks)
            if size >= CHUNK_BYTES:
                yield from _without_empty_records(b"".join(parts))
                parts, size = [], 0
        yield from _without_empty_records(b"".join(parts))

    @contextmanager
    def _opened(self) -> Iterator[_Source]:
        self.skipped.clear()
        try:
            source = self._source = _Source(self.path, self.skipped)
        except OSError as error:
            raise _cannot_open(self.path, error) from error
        try:
            yield source
        finally:
            self._read_bytes = source.position_bytes()
            self._source = None
            source.close()


def open_capture(path: Path | str) -> Capture:
    """Find out what a file holds. Raises CaptureError if that is nothing we can use."""
    path = Path(path)
    skipped: Counter[str] = Counter()
    try:
        size_bytes = path.stat().st_size
        with closing(_Source(path, skipped)) as source:
            compressed = source.compressed
            head = source.read(_SNIFF_BYTES)
    except OSError as error:
        raise _cannot_open(path, error) from error
    if not head:
        raise CaptureError(f"{path} is {'a damaged gzip' if skipped else 'empty'}: get it again")
    if head[:4] in PCAP_MAGICS or head[:4] == PCAPNG_MAGIC:
        capture = Capture(path, "pcap" if head[:4] in PCAP_MAGICS else "pcapng", compressed, size_bytes)
        _demand_packets(capture)
        return capture
    _demand_messages(path, head)
    return Capture(path, "BinaryFILE", compressed, size_bytes)


def _cannot_open(path: Path, error: OSError) -> CaptureError:
    return CaptureError(f"cannot read {path}: {(error.strerror or str(error)).lower()}")


def _demand_packets(capture: Capture) -> None:
    with closing(capture.packets()) as packets:
        if next(packets, None) is not None:
            return
    found = ", ".join(f"{count} × {reason}" for reason, count in capture.skipped.most_common(5)) or "nothing at all"
    raise CaptureError(
        f"{capture.path} is a {capture.kind} without MoldUDP64 packets ({found}): "
        "record the UDP market data feed itself"
    )


def _demand_messages(path: Path, head: bytes) -> None:
    """BinaryFILE has no magic number: what begins with records of known ITCH types and their lengths is one."""
    if head == b"\0\0":
        return  # an empty session: end of session and nothing else
    bounds = whole_records(head)
    known = sum(itch.SIZES[head[at + 2]] == bounds[i + 1] - at - 2 for i, at in enumerate(bounds[:-1]))
    if known > (len(bounds) - 1) / 2:
        return
    advice = "expected BinaryFILE ([u16 length][ITCH 5.0 message]), pcap or pcapng, each plain or gzip"
    if head[:2] == b"\0\0":
        advice = "it starts with a length of zero; a day without lengths must be rewritten as [u16 length][message]"
    elif itch.SIZES[head[0]]:
        advice = "it may be ITCH without lengths; rewrite it as [u16 length][message]"
    raise CaptureError(f"{path} is no capture: {advice}")


def _mold_packet(frame: Packet, skipped: Counter[str]) -> CapturedPacket | None:
    """The MoldUDP64 packet in a captured one: a header, then as many blocks as it says, and nothing more."""
    payload = udp_payload(frame, skipped)
    if payload is None:
        return None
    try:
        header = Header.decode(payload[: HEADER.size])
        blocks = 0 if header.count == END_OF_SESSION_COUNT else header.count
        whole = blocks_end(payload, blocks, HEADER.size) == len(payload)
    except WireError:
        whole = False
    if not whole:
        skipped["UDP but not MoldUDP64"] += 1
        return None
    return CapturedPacket(frame.time_ns, header.session, header.sequence, header.count, payload[HEADER.size :])


def _without_empty_records(data: bytes) -> Iterator[tuple[bytes, list[int]]]:
    """Records from packets, where length zero is legal and stands for no message."""
    bounds = whole_records(data)
    if bounds[-1] < len(data):
        at, parts = 0, []
        while at < len(data):
            end = at + 2 + (data[at] << 8 | data[at + 1])
            if end > at + 2:
                parts.append(data[at:end])
            at = end
        data = b"".join(parts)
        bounds = whole_records(data)
    if data:
        yield data, bounds
