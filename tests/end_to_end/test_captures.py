"""Real captures through the whole exchange, over real UDP, held against what others made of them."""

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from exchange import Levels
from exchange_rig import Venue, with_exchange
from feed_rig import counted, read_itch
from oracle_streams import itch_command, lobster_books, window
from shared import SHARED_DATA, needs_shared
from venue.engine import records as r
from venue.wire import itch
from venue.wire.moldudp64 import Header
from venue_clients.line import UdpLine

pytestmark = needs_shared

ITCH = SHARED_DATA / "itch"
ANOMALIES = ("gaps", "missing_messages", "packets_malformed", "messages_malformed", "unknown_types", "duplicates")


def orders_in(book: tuple[Levels, Levels]) -> int:
    return sum(len(queue) for side in book for _, queue in side)


def by_type(venue: Venue) -> Counter[str]:
    """How many messages of each type the feed has counted."""
    return Counter({name: count for name, count in counted(venue.page.feed).items() if len(name) == 1})


@with_exchange(instruments={"symbols": []})
async def test_a_real_morning(venue: Venue) -> None:
    """The stock is learned from its directory message; nothing is unknown, late, lost or out of order."""
    await venue.replay(ITCH / "aapl-20200130-10k.itch")
    assert by_type(venue) == Counter(A=4758, D=4083, E=849, P=240, L=52, U=7, X=6, F=2, R=1, H=1, Y=1)
    assert {name: venue.count(name, "feed") for name in ANOMALIES} == dict.fromkeys(ANOMALIES, 0)
    assert venue.view.counters() == {}
    assert venue.instruments.symbol(0) == "AAPL"
    bids, asks = venue.book()
    assert orders_in((bids, asks)) == 215
    assert bids[0][0] < asks[0][0]
    assert venue.view.state(0)["incomplete"] == 0
    await venue.until(lambda: venue.count("live_orders", "matcher") == 215, "a gauge, set when there is time for it")
    venue.view.check_invariants()


# --- the book on the way ------------------------------------------------------------------------------------------


class WatchedLine(UdpLine):
    """After each packet the replay waits until ``look`` has seen what it did: the number of the last message in it."""

    def __init__(self, to: tuple[str, int], look: Callable[[int], Any]) -> None:
        super().__init__(to)
        self._look, self._running = look, asyncio.get_running_loop()

    def send(self, packet: bytes) -> None:
        super().send(packet)
        header = Header.decode(packet[:20])
        if 0 < header.count < 0xFFFF:
            last = header.sequence + header.count - 1
            asyncio.run_coroutine_threadsafe(self._look(last), self._running).result(timeout=30)


def rows_written(path: Path) -> list[int]:
    """How many rows of the book the other program has written after each message: one for each that concerns the book
    (also P and H), two for a U, after its delete and after its add."""
    rows = [0]
    for message in read_itch(path):
        concerns_the_book = itch_command(itch.decode(message)) is not None
        rows.append(rows[-1] + concerns_the_book * (2 if message[:1] == b"U" else 1))
    return rows


@with_exchange(instruments={"symbols": ["AAPL"]})
async def test_the_book_after_every_packet_is_that_of_another_program(venue: Venue) -> None:
    """Ten levels, 230 times on the way; the packets end wherever 1,400 bytes do."""
    path = ITCH / "aapl-20200130-10k-shifted.itch"
    expected = lobster_books(ITCH / "aapl-20200130-10k-shifted.orderbook_10.csv")
    rows = rows_written(path)
    seen: list[int] = []

    async def look(last: int) -> None:
        await venue.until_fed(last)
        if rows[last]:
            seen.append(last)
            assert window(venue.book(), 10) == expected[rows[last] - 1], last

    with WatchedLine(venue.line.to, look) as line:
        await venue.replay(path, line=line)
    assert len(seen) > 200
    assert seen[-1] == 10_000
    assert rows[-1] == len(expected) == 9_953


# --- captures of packets, and of a moment -------------------------------------------------------------------------


@with_exchange(feed={"join": "now"}, instruments={"symbols": []})
async def test_packets_of_the_real_feed(venue: Venue) -> None:
    """A capture of packets is replayed as it is: session and numbers of that day, from the middle of it."""
    stats = await venue.replay(SHARED_DATA / "pcap" / "nasdaq-moldudp64-20230822.pcap")
    assert (stats.messages, stats.packets, stats.requests) == (269, 100, 0)
    assert by_type(venue) == Counter(A=125, U=99, D=30, F=6, I=5, E=3, S=1)
    assert {name: venue.count(name, "feed") for name in ANOMALIES} == dict.fromkeys(ANOMALIES, 0)
    assert venue.feed.status().session == "000010059B"
    assert venue.feed.status().next_sequence == 14_757_701 + 269
    assert venue.count("commands", "matcher") == 269 - 5 + 1 + 3, "and one that the past is missing, and three accounts"
    venue.view.check_invariants()


@with_exchange(instruments={"symbols": []})
async def test_a_moment_cut_out_of_the_middle_of_a_day(venue: Venue) -> None:
    """Most of what is replaced, deleted or executed was entered before the cut; the books that miss it say so."""
    path = ITCH / "all-20191230-0930-1k.itch"
    known: set[int] = set()
    unknown: Counter[str] = Counter()
    unsure: set[int] = set()
    named: set[int] = set()
    for raw in read_itch(path):
        message = itch.decode(raw)
        command = itch_command(message)
        if command is not None and hasattr(message, "stock"):
            named.add(message.stock_locate)
        if command is None or command.kind > r.REPLACE_RECORDED:
            continue
        if command.kind != r.ADD and command.word0 not in known:
            unknown[chr(raw[0])] += 1
            unsure.add(message.stock_locate)
        elif command.kind == r.REPLACE_RECORDED:
            known.add(command.word1)
        elif command.kind == r.ADD:
            known.add(command.word0)
    assert unknown == Counter(U=225, D=139, E=28, X=6, C=1)

    await venue.replay(path)
    assert by_type(venue) == Counter(A=367, U=225, F=193, D=167, E=28, X=6, I=4, P=4, Q=4, S=1, C=1)
    assert venue.view.counters() == {"unknown_references": sum(unknown.values())}
    learned = {locate for locate in range(1, 1 << 16) if venue.instruments.locates[locate] >= 0}
    assert learned == named
    flagged = {at for at in learned if venue.view.state(int(venue.instruments.locates[at]))["incomplete"]}
    assert flagged >= unsure & learned, "also those whose stock was named only later"
    venue.view.check_invariants()
