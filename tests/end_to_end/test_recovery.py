"""A bad network, and an exchange that is slow: what arrives in the books is what a clean run would have brought."""

import asyncio
import time
from pathlib import Path

import pytest
import uvloop

from capture_files import binary_file
from exchange import Levels
from exchange_rig import PATIENCE_S, Venue, enter, running, with_exchange
from feed_rig import read_itch
from venue.engine import ring
from venue.wire.moldudp64 import END_OF_SESSION_COUNT, Header
from venue_clients.faults import Faults
from venue_clients.generate import DayPlan, generate
from venue_clients.line import UdpLine

MESSAGES = 24_000
AHEAD_PACKETS = 32
Books = dict[str, tuple[Levels, Levels]]


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A made-up day, cut off in the middle: at its end all books would be empty."""
    folder = tmp_path_factory.mktemp("day")
    generate(folder / "whole.itch", DayPlan(("AAPL", "MSFT", "NVDA"), MESSAGES * 5 // 4, seed=26, live=600))
    (folder / "day.itch").write_bytes(binary_file(read_itch(folder / "whole.itch")[:MESSAGES]))
    return folder / "day.itch"


@pytest.fixture(scope="module")
def clean(day: Path, tmp_path_factory: pytest.TempPathFactory) -> Books:
    """The books after a replay in which nothing goes wrong: every order of every level in its place."""

    async def story() -> Books:
        async with running(tmp_path_factory.mktemp("pages")) as venue:
            await venue.replay(day)
            assert venue.count("gaps", "feed") == 0
            assert venue.view.counters() == {}
            return venue.books()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        books = runner.run(story())
    assert list(books) == ["AAPL", "MSFT", "NVDA"]
    assert sum(len(queue) for sides in books.values() for side in sides for _, queue in side) > 400
    return books


class KeptLine:
    """Keeps what it sends, and is never so far ahead of the exchange that the kernel would have to drop a datagram."""

    def __init__(self, venue: Venue) -> None:
        line = venue.line
        self.now_ns, self.reply, self.wait, self.wake = line.now_ns, line.reply, line.wait, line.wake
        self._venue = venue
        self.sent: list[Header] = []

    def send(self, packet: bytes) -> None:
        self._venue.line.send(packet)
        self.sent.append(Header.decode(packet[: Header.layout.size]))
        deadline = time.monotonic() + PATIENCE_S
        while len(self.sent) - int(self._venue.page.feed[0]["line_packets"][0]) > AHEAD_PACKETS:
            assert time.monotonic() < deadline, "the exchange does not read"
            time.sleep(0.000_2)

    def gaps(self) -> list[int]:
        """How many messages were missing each time that a packet was ahead of all that had been sent before it."""
        found, horizon = [], 1
        for head in self.sent:
            if head.sequence > horizon:
                found.append(head.sequence - horizon)
            messages = 0 if head.count == END_OF_SESSION_COUNT else head.count
            horizon = max(horizon, head.sequence + messages)
        return found


@pytest.mark.parametrize("seed", [1, 2, 3])
@with_exchange()
async def test_lost_doubled_and_reordered_packets(venue: Venue, day: Path, clean: Books, seed: int) -> None:
    faults = Faults(drop=5, duplicate=5, reorder=5, seed=seed)
    line = KeptLine(venue)
    stats = await venue.replay(day, line=line, faults=faults)
    assert min(faults.dropped, faults.duplicated, faults.reordered) > 5
    assert venue.books() == clean
    assert venue.view.counters() == {}
    assert stats.requests > 0
    gaps = line.gaps()
    assert venue.count("kernel_drops", "feed") == 0
    assert venue.count("gaps", "feed") == len(gaps) > faults.dropped, "reordered packets open one too"
    assert venue.count("recovered_messages", "feed") == sum(gaps)
    assert venue.count("duplicates", "feed") > 0
    assert venue.count("missing_messages", "feed") == venue.count("incomplete_books", "matcher") == 0
    venue.view.check_invariants()


# --- two lines ----------------------------------------------------------------------------------------------------


class BothLines:
    """Sends each packet on two lines, each of which loses some of them; requests are answered beside the first."""

    def __init__(self, first: UdpLine, second: UdpLine, *faults: Faults) -> None:
        self.now_ns, self.reply, self.wait, self.wake = first.now_ns, first.reply, first.wait, first.wake
        self._lines = list(zip((first, second), faults, strict=True))

    def send(self, packet: bytes) -> None:
        for line, faults in self._lines:
            for each in faults.apply(packet):
                line.send(each)


@with_exchange(two_lines=True)
async def test_two_lines_that_lose_different_packets(venue: Venue, day: Path, clean: Books) -> None:
    """What one line loses the other one brings; what both lose is asked for."""
    assert venue.second_line is not None
    faults = Faults(drop=10, reorder=2, seed=4), Faults(drop=10, duplicate=2, seed=5)
    await venue.replay(day, line=BothLines(venue.line, venue.second_line, *faults))
    assert min(each.dropped for each in faults) > 40
    assert venue.books() == clean
    assert venue.view.counters() == {}
    assert venue.count("missing_messages", "feed") == venue.count("incomplete_books", "matcher") == 0
    first, second = venue.page.feed[0]["line_first_arrivals"].tolist()
    assert min(first, second) > 10, "either line was needed"
    assert venue.count("duplicates", "feed") > MESSAGES // 2


# --- a slow matching thread ---------------------------------------------------------------------------------------


@with_exchange(matching=False, engine={"command_ring": 64, "event_ring": 64})
async def test_a_matching_thread_that_comes_late_finds_everything(venue: Venue, day: Path, clean: Books) -> None:
    """Both rings are tiny. Until the thread runs, datagrams wait in the socket and orders in the client's kernel."""
    client = await venue.login("ALPHA", sequence=1)
    hearing = asyncio.create_task(client.hear(*(enter(number, "B", 1, 1) for number in range(1, 3_001))))
    replaying = asyncio.create_task(venue.replay(day))
    await venue.until(lambda: venue.count("command_ring_full", "feed") > 0 < venue.count("command_ring_full"))
    assert ring.depth(venue.exchange.link.commands) == 64
    assert venue.count("commands", "matcher") == 0
    venue.start_matching()
    await replaying
    heard = await hearing
    assert heard == ["system event S", *(f"accepted {number}: B 1 @ 1" for number in range(1, 3_001))]
    await venue.until_applied()
    own = [(4611686018427387904 + number, 1, True) for number in range(3_000)]
    bids, asks = clean["AAPL"]
    assert venue.books() == clean | {"AAPL": ([*bids, (1, own)], asks)}
    assert venue.count("missing_messages", "feed") == venue.count("incomplete_books", "matcher") == 0
    venue.view.check_invariants()
