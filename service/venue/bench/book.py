"""`venue bench book`: from the bytes of an ITCH file to books, on one thread, through the code that a live feed takes.

The feed's decoder turns messages into commands on a ring, and the matching thread's loop takes them off: here in turns
on one thread, a few hundred at a time. A made-up flow grows in two directions, to see what symbols and live orders
cost.
"""

from __future__ import annotations

import gzip
import mmap
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Final

import numpy as np

from venue.bench import book_flow
from venue.bench.report import Report, Rows, steps
from venue.engine import books, events, feed_codec, loop, ring
from venue.engine.cells import ROW
from venue.engine.counters import FEED, HISTOGRAMS
from venue.engine.feed_codec import DONE, NEEDS_INSTRUMENT, POSITION, PROGRESS_WORDS, Decoder
from venue.engine.kernel import kernel
from venue.engine.loop import BATCH, Matcher
from venue.engine.pages import touch_all
from venue.engine.records import ACCOUNT, COMMAND, CONSUME, EVENT, Array, aligned
from venue.instruments import MAX_INSTRUMENTS, Instruments
from venue.wire import itch

CHUNK: Final = 512
"""Commands that the decoder writes before the loop takes them off: 32 KiB."""
MESSAGES: Final = 10_000_000
SYMBOLS: Final = 2_000
LIVE: Final = 340_000
GROWTH_MESSAGES: Final = 1_000_000
"""Measured once as many orders are live as a row says; building them up is not counted."""
GROWTH_SYMBOLS: Final = (8, 100, 1_000, 8_000)
MOST_LIVE: Final = 2_000_000
GROWTH_LIVE: Final = (10_000, 100_000, 1_000_000, MOST_LIVE)
TITLE: Final = "From ITCH to books, one thread, medians"
COLUMNS: Final = ("flow", "messages", "symbols", "live orders", "ns a message", "M messages/s")
ELSEWHERE: Final = (
    "CppTrader (C++), given this very flow on the same core in turns with this engine (medians of five): 19.6 M "
    "messages/s in its aggressive variant and 20.9 in its optimized one, when this did 25.6. Both keep the volume of "
    "each price but no queues, and trust every message. Its complete market manager, measured apart and earlier: 2.0."
)
COUNTED: Final = (
    "Counted: decoding every message, applying it to its book, the service's own counters. The bytes lie in memory; "
    "that of the books has been written to once."
)
FLOW: Final = (
    "The flow is made up with the message mix of a Nasdaq day; whichever live order is deleted or replaced is drawn at "
    "random. The whole flow begins with empty books; the other rows begin when as many orders are live."
)
WARM_UP: Final = 1_000
"""Messages applied before anything is timed, so that the kernels are compiled."""


SKIPPED: Final = ("unknown_types", "messages_malformed")
UNDONE: Final = ("unknown_references", "duplicate_references", "over_executions", "capacity_rejects")
FILE_ORDERS: Final = 1 << 22
"""Room for the live orders of a file: twice a real day's peak."""
NAMES_A_STOCK: Final = (
    itch.StockDirectory,
    itch.StockTradingAction,
    itch.AddOrder,
    itch.AddOrderMpid,
    itch.Trade,
    itch.CrossTrade,
)


class BookFileError(ValueError):
    """The file is no ITCH file; one line says why."""


@kernel
def through(decoder: Decoder, m: Matcher, data: Array, position: int, end: int) -> int:
    """Decode the records in ``data[position:end]`` and apply them, in turns. Gives back why it stopped, as
    ``decode_blocks`` does, but for a full ring; where stands in the decoder's progress."""
    while True:
        code = feed_codec.decode_blocks(decoder, data, position, end, 1)
        loop.run(m, (ring.depth(decoder.commands) + BATCH - 1) // BATCH)
        position = int(decoder.progress[POSITION])
        if code != feed_codec.RING_FULL:
            return int(code)


class Bench:
    """Fresh books, and the decoder and the loop that fill them."""

    def __init__(self, orders: int, symbols: int) -> None:
        commands = ring.create(CHUNK, COMMAND)
        self.instruments = Instruments(symbols)
        self.books = books.create(
            instruments=symbols,
            accounts=aligned(1, ACCOUNT),
            orders=orders,
            levels=max(orders // 2, 4096) + 128 * symbols,
            user_refs=1,
            mode=CONSUME,
        )
        self.counters = np.zeros(1, FEED)
        instruments, progress = self.instruments, np.zeros(PROGRESS_WORDS, np.int64)
        scratch = np.zeros(2, np.int64)
        self.decoder = Decoder(
            commands, CHUNK, -1, self.counters, instruments.locates, instruments.table, progress, scratch
        )
        histograms = np.zeros((HISTOGRAMS, ROW), np.int64)
        outbox = events.create_outbox(ring.create(64, EVENT))
        self.matcher = loop.create(self.books, outbox, commands, histograms, loop.SPIN, -1)

    def know(self, symbols: int) -> None:
        """Map the Stock Locates of a made-up flow."""
        for number, name in enumerate(book_flow.names(symbols)):
            self.instruments.map_locate(number + 1, self.instruments.add(name))

    def run(self, data: Array, start: int, end: int) -> float:
        """Apply the records in ``data[start:end]``; the seconds that it took."""
        begun = time.perf_counter()
        code = through(self.decoder, self.matcher, data, start, end)
        while code == NEEDS_INSTRUMENT:
            position = int(self.decoder.progress[POSITION])
            code = through(self.decoder, self.matcher, data, self.learn(data, position), end)
        if code != DONE:
            raise BookFileError(f"no ITCH file: a record is cut short at byte {int(self.decoder.progress[POSITION])}")
        return time.perf_counter() - begun

    def learn(self, data: Array, position: int) -> int:
        """Know the stock that the record at ``position`` names; gives back where to go on, which is there."""
        size = int.from_bytes(data[position : position + 2].tobytes(), "big")
        message = itch.decode(data[position + 2 : position + 2 + size].tobytes())
        assert isinstance(message, NAMES_A_STOCK)
        self.instruments.map_locate(message.stock_locate, self.instruments.add(message.stock))
        return position

    @property
    def messages(self) -> int:
        return int(self.counters[0]["messages"].sum())

    @property
    def live_orders(self) -> int:
        """How many orders stood in the books when most did."""
        return int(self.books.counters[0]["orders_high_water"])

    def check(self) -> None:
        """BookFileError if messages did less than they seem to: then they would count as quick ones."""
        for counters, names in ((self.counters[0], SKIPPED), (self.books.counters[0], UNDONE)):
            for name in names:
                if int(counters[name]) != 0:
                    raise BookFileError(f"not a whole day in order: {int(counters[name])} {name.replace('_', ' ')}")


# --- what is measured ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Figure:
    """One row: a flow and the median time that a message of it took."""

    name: str
    messages: int
    symbols: int
    live_orders: int
    ns_a_message: float
    messages_per_s: float


def figure(name: str, messages: int, symbols: int, live: int, seconds: list[float]) -> Figure:
    """The median of the runs."""
    ns = median(seconds) / messages * 1e9
    return Figure(name, messages, symbols, live, ns, 1e9 / ns)


def made_up(messages: int, symbols: int, live: int) -> tuple[Array, int]:
    """A flow as the bytes of a BinaryFILE (uint8), and where it ends."""
    data = np.empty(messages * book_flow.LARGEST, np.uint8)  # pages that are not reached are never touched
    return data, int(book_flow.make(book_flow.create(symbols, live, seed=1), data, 0, messages, live))


def whole(name: str, data: Array, end: int, symbols: int, live: int, repeats: int) -> Figure:
    """A whole made-up flow, from empty books on."""
    seconds = []
    for _ in range(repeats):
        bench = Bench(live, symbols)
        bench.know(symbols)
        touch_all(bench.books)
        seconds.append(bench.run(data, 0, end))
        bench.check()
    return figure(name, bench.messages, symbols, bench.live_orders, seconds)


def grown(name: str, messages: int, symbols: int, live: int, repeats: int) -> Figure:
    """The last ``messages`` of a made-up flow that has as many live orders as wished before."""
    flow = book_flow.create(symbols, live, seed=1)
    before = live * 5 // 4
    data = np.empty((before + messages) * book_flow.LARGEST, np.uint8)
    middle = int(book_flow.make(flow, data, 0, before, live))
    end = int(book_flow.make(flow, data, middle, messages, live))
    seconds = []
    for _ in range(repeats):
        bench = Bench(len(flow.live), symbols)
        bench.know(symbols)
        touch_all(bench.books)
        bench.run(data, 0, middle)
        seconds.append(bench.run(data, middle, end))
        bench.check()
    return figure(name, messages, symbols, int(flow.numbers[book_flow.LIVE]), seconds)


def file_bytes(path: Path) -> Array:
    """The records of a BinaryFILE (uint8), plain or gzip. BookFileError if it cannot be read."""
    try:
        raw = path.read_bytes()
        return np.frombuffer(gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw, np.uint8)
    except (OSError, EOFError, gzip.BadGzipFile) as error:
        raise BookFileError(f"{path}: {getattr(error, 'strerror', None) or error}") from None


def from_file(path: Path, data: Array, repeats: int) -> Figure:
    """A file of a real or a made-up day. BookFileError if it is none."""
    seconds = []
    for _ in range(repeats):
        bench = Bench(FILE_ORDERS, MAX_INSTRUMENTS)
        touch_all(bench.books)
        seconds.append(bench.run(data, 0, len(data)))
        bench.check()
    if bench.messages == 0:
        raise BookFileError(f"{path}: no ITCH file: no message in it")
    return figure(path.name, bench.messages, bench.instruments.count, bench.live_orders, seconds)


def resident_bytes() -> int:
    """How much memory the process has touched."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE


def memory_a_live_order() -> float:
    """Bytes that books with a real day's peak of live orders touch, each order's share of them."""
    messages = MOST_LIVE * 5 // 4
    data, end = made_up(messages, SYMBOLS, MOST_LIVE)
    bench = Bench(MOST_LIVE * 9 // 8, SYMBOLS)
    bench.know(SYMBOLS)
    before = resident_bytes()
    bench.run(data, 0, end)
    return (resident_bytes() - before) / bench.live_orders


def row_of(of: Figure) -> tuple[str, ...]:
    """A figure as a line of a table."""
    return (
        of.name,
        f"{of.messages:,}",
        f"{of.symbols:,}",
        f"{of.live_orders:,}",
        f"{of.ns_a_message:.1f}",
        f"{of.messages_per_s / 1e6:.2f}",
    )


def bench_book(file: Path | None, repeats: int) -> Report:
    """`venue bench book`. BookFileError if ``file`` is given and is no ITCH file."""
    figures: list[Figure] = []
    with steps(1 if file else 2 + len(GROWTH_SYMBOLS) + len(GROWTH_LIVE)) as progress:
        day = file_bytes(file) if file is not None else None
        progress.begin("compiling")
        warm_up()
        if file is not None and day is not None:
            progress.begin(file.name)
            figures.append(from_file(file, day, repeats))
            return Report([Rows(TITLE, COLUMNS, [row_of(figures[0])])], {"whole": asdict(figures[0])}, [COUNTED])
        progress.begin(f"{MESSAGES:,} messages")
        data, end = made_up(MESSAGES, SYMBOLS, LIVE)
        figures.append(whole("whole flow", data, end, SYMBOLS, LIVE, repeats))
        for symbols in GROWTH_SYMBOLS:
            progress.done()
            progress.begin(f"{symbols:,} symbols")
            figures.append(grown("more symbols", GROWTH_MESSAGES, symbols, LIVE, repeats))
        for live in GROWTH_LIVE:
            progress.done()
            progress.begin(f"{live:,} live orders")
            figures.append(grown("more orders", GROWTH_MESSAGES, SYMBOLS, live, repeats))
        progress.done()
        progress.begin("memory")
        a_live_order = memory_a_live_order()
    notes = [
        COUNTED,
        FLOW,
        ELSEWHERE,
        f"Memory: {a_live_order:.0f} bytes a live order at {MOST_LIVE:,} of them.",
    ]
    named = {"whole": asdict(figures[0]), "growth": [asdict(of) for of in figures[1:]]}
    return Report(
        [Rows(TITLE, COLUMNS, [row_of(of) for of in figures])],
        named | {"repeats": repeats, "bytes_a_live_order": a_live_order},
        notes,
    )


def warm_up() -> None:
    """Compile all that is timed."""
    data, end = made_up(WARM_UP, 8, 100)
    bench = Bench(200, 8)
    bench.know(8)
    bench.run(data, 0, end)
