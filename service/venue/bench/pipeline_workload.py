"""What `venue bench pipeline` works on: a made-up morning of eight stocks, and the parts that a row needs, all fresh.

The input are the first million messages of a day that ``venue generate`` makes (a fixed seed, the message mix of all of
Nasdaq), as length-prefixed ITCH 5.0 in memory.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from itertools import product
from typing import Final, NamedTuple

import numpy as np

from venue.bench import maker
from venue.bench.maker import Exchange
from venue.engine import books, events, feed_codec, loop, ring, symbols
from venue.engine.atomics import load_be16
from venue.engine.cells import ROW
from venue.engine.counters import FEED, HISTOGRAMS
from venue.engine.feed_codec import Decoder
from venue.engine.kernel import kernel
from venue.engine.loop import Matcher
from venue.engine.pages import touch_all
from venue.engine.records import ACCOUNT, BUY, CONSUME, EVENT, SELL, Array, aligned
from venue.engine.ring import Ring
from venue.engine.symbols import IGNORED, NONE
from venue_clients.generate import DayPlan, SyntheticDay, stock_names

INSTRUMENTS: Final = 8
MESSAGES: Final = 1_000_000
LIVE: Final = 170
"""Live orders a stock: what 340,000 over 2,000 stocks come to, as in ``venue bench book``."""
SEED: Final = 20
SECONDS: Final = 3_600.0
"""Market time of the whole day, so that the makers' rates are those of people, not of a benchmark."""
SLACK: Final = 64
"""Bytes behind the last message that may be read, though they mean nothing."""
EVENT_TYPES: Final = b"AFECXDUPQH"
"""ITCH message types that say something of a stock's book or state, which is what a row has to react to."""
REST: Final = 1.1
"""How much longer the whole day is than what is used of it, so that its books are full at the end."""


class Workload(NamedTuple):
    """The input of all rows."""

    data: Array  # uint8: message blocks, each a length of two bytes and an ITCH message; then SLACK bytes
    ends: Array  # int64: where each message ends
    locates: Array  # int64: of each message
    types: Array  # uint8: of each message
    live: int  # room for so many orders

    def first(self, messages: int) -> Workload:
        """Only the first messages of it."""
        return self._replace(ends=self.ends[:messages], locates=self.locates[:messages], types=self.types[:messages])

    def events(self) -> int:
        """How many of its messages every row has to react to, as their types say; no decoder is asked."""
        return int(np.isin(self.types, list(EVENT_TYPES)).sum())

    def ends_by(self, batch: int) -> Array:
        """Where each run of ``batch`` messages ends."""
        ends = self.ends[batch - 1 :: batch]
        return ends if len(self.ends) % batch == 0 else np.append(ends, self.ends[-1])


def create(messages: int = MESSAGES) -> Workload:
    """Make the input. Takes about 5 µs a message."""
    live = INSTRUMENTS * LIVE
    plan = DayPlan(stock_names(INSTRUMENTS), int(messages * REST) + 3 * live, SECONDS, SEED, live)
    day = SyntheticDay(plan)
    blocks = []
    for block in day.blocks():
        blocks.append(block)
        if day.counts.total() >= messages:
            break
    joined = np.frombuffer(b"".join(blocks), np.uint8)
    data = aligned(len(joined) + SLACK, np.dtype("u1"))
    data[: len(joined)] = joined
    ends = np.zeros(day.counts.total(), np.int64)
    locates = np.zeros_like(ends)
    types = np.zeros(len(ends), np.uint8)
    _look_through(data, ends, locates, types)
    return Workload(data, ends, locates, types, 2 * live).first(messages)


@kernel
def _look_through(data: Array, ends: Array, locates: Array, types: Array) -> None:
    position = 0
    for i in range(len(ends)):
        types[i] = data[position + 2]
        locates[i] = load_be16(data, position + 3)
        position += 2 + load_be16(data, position)
        ends[i] = position


# --- what each row begins with ------------------------------------------------------------------------------------


class Market(NamedTuple):
    """A decoder and the market's books."""

    decoder: Decoder
    matcher: Matcher


def market(workload: Workload, instruments: Iterable[int], commands: Ring) -> Market:
    """Empty books for the market, and a decoder that skips the messages of all but these ``instruments``."""
    locates = np.full(1 << 16, NONE, np.int32)
    table = symbols.create(INSTRUMENTS)
    locates[1 : INSTRUMENTS + 1] = IGNORED
    for instrument in instruments:
        locates[instrument + 1] = instrument
        symbols.insert(table, symbols.key_of(stock_names(INSTRUMENTS)[instrument]), instrument)
    decoder = Decoder(
        commands,
        len(commands.records),
        -1,
        np.zeros(1, FEED),
        locates,
        table,
        np.zeros(feed_codec.PROGRESS_WORDS, np.int64),
        np.zeros(2, np.int64),
    )
    b = books.create(
        instruments=INSTRUMENTS,
        accounts=aligned(1, ACCOUNT),
        orders=workload.live,
        levels=workload.live,
        user_refs=1,
        mode=CONSUME,
    )
    out = events.create_outbox(ring.create(64, EVENT))
    m = loop.create(b, out, commands, np.zeros((HISTOGRAMS, ROW), np.int64), loop.SPIN, -1)
    touch_all(b)
    return Market(decoder, m)


def exchange() -> Exchange:
    """Makers without orders."""
    made = maker.create(INSTRUMENTS)
    touch_all(made.books)
    return made


def shards(workload: Workload, count: int) -> list[list[int]]:
    """The instruments spread over ``count`` shards: as many to each, and of such spreads the one with the most even
    messages. By messages alone one of two shards got five books and took 7 % longer than the other with three.
    """
    messages = np.bincount(workload.locates, minlength=INSTRUMENTS + 1)[1 : INSTRUMENTS + 1]

    def largest(spread: tuple[int, ...]) -> tuple[int, float]:
        return int(np.bincount(spread).max()), float(np.bincount(spread, messages).max())

    best = min(product(range(count), repeat=INSTRUMENTS), key=largest)
    return [[instrument for instrument in range(INSTRUMENTS) if best[instrument] == shard] for shard in range(count)]


# --- what each row has to agree on --------------------------------------------------------------------------------


class Outcome(NamedTuple):
    """What a row did. The same for all rows, or the bench is wrong."""

    events: int
    quotes: int
    rejected: int
    fills: int
    filled_shares: int
    sha256: str
    """Over the final books of the market, and the makers' orders, positions and all that they heard."""


def outcome(parts: list[tuple[list[int], Market, Exchange]]) -> Outcome:
    """Put together what each thread knows of its instruments."""
    total = np.zeros(5, np.int64)
    digests = {}
    for instruments, market_, exchange_ in parts:
        for instrument in instruments:
            made = exchange_.makers[instrument]
            quotes = made["entered"] + made["replaced"] + made["canceled"]
            total += (made["updates"], quotes, made["rejected"], made["fills"], made["filled_shares"])
            text = f"{made} {exchange_.quotes[2 * instrument : 2 * instrument + 2]}"
            for b in (market_.matcher.books, exchange_.books):
                text += f" {ladder(b, instrument, BUY)} {ladder(b, instrument, SELL)}"
            digests[instrument] = text
    sha256 = hashlib.sha256("\n".join(digests[i] for i in sorted(digests)).encode()).hexdigest()
    counts: list[int] = total.tolist()
    return Outcome(counts[0], counts[1], counts[2], counts[3], counts[4], sha256)


def ladder(b: books.Books, instrument: int, side: int) -> list[tuple[int, int, int]]:
    """Price, orders and shares of each level of a side, the best last."""
    row = b.sides[2 * instrument + side]
    words = b.ladders[row["block"] : row["block"] + row["count"]]
    levels = b.levels[words & 0xFFFFFFFF]
    levels = levels[levels["count"] > 0]
    return list(zip(*(levels[name].tolist() for name in ("price", "count", "shares")), strict=True))
