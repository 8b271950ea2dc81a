"""Live memory as files: who may read it, what is refused, what stays behind."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from venue.engine.live_records import PLACES, TRADES_KEPT
from venue.engine.records import RECORDED
from venue.telemetry import live_memory
from venue.telemetry import page as page_module
from venue.telemetry.live_memory import HEADER, LAYOUT_VERSION, LiveMemory, create, open_beside, places
from venue.telemetry.market import Market, price_text
from venue.telemetry.page import Page
from venue.telemetry.pages import COMPANIONS, PageError, beside, private_folder
from venue.telemetry.watches import LINGER_NS, Watches

README = Path(page_module.__file__).with_name("README.md")


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    page = page_module.create(mode="consume", accounts=["ALPHA"], folder=tmp_path / "pages")
    yield page
    page.remove()


def test_what_the_owner_writes_others_read_and_cannot_change(page: Page) -> None:
    owner = create(page.path, 8)
    reader = open_beside(page.path)
    owner.symbols[0] = np.frombuffer(b"AAPL    ", np.uint8)
    owner.count[0] = 1
    owner.live.tape["price"][-1] = 7
    assert Market(page, reader).symbols == ["AAPL"]
    assert reader.live.tape["price"][-1] == 7
    assert reader.live.sides.shape == (16,)
    for array in (reader.symbols, reader.live.tape, reader.live.depths, reader.live.books):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = array[1]
    reader.live.wishes[0] = 1
    assert owner.live.wishes[0] == 1, "wishes go the other way"


def test_the_files_are_private_reserved_and_removed_with_the_page(page: Page) -> None:
    create(page.path, 8)
    for suffix in COMPANIONS:
        status = beside(page.path, suffix).stat()
        assert status.st_mode & 0o777 == 0o600
        assert status.st_blocks * 512 >= status.st_size, "no room later would be a SIGBUS"
    page.remove()
    assert list(page.path.parent.iterdir()) == []


def damage_version(path: Path) -> None:
    content = bytearray(path.read_bytes())
    np.frombuffer(content, HEADER, 1)["layout_version"][0] = LAYOUT_VERSION + 1
    path.write_bytes(content)


def shorten(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


@pytest.mark.parametrize(
    ("suffix", "damage", "complaint"),
    [
        (".live", Path.unlink, "No such file"),
        (".live", lambda path: path.write_bytes(b"x"), "not live memory"),
        (".live", damage_version, f"not live memory of layout version {LAYOUT_VERSION}"),
        (".live", shorten, "damaged"),
        (".requests", Path.unlink, "No such file"),
        (".requests", shorten, "damaged"),
    ],
)
def test_what_is_not_whole_is_refused(page: Page, suffix: str, damage: object, complaint: str) -> None:
    create(page.path, 8)
    assert callable(damage)
    damage(beside(page.path, suffix))
    with pytest.raises(PageError, match=complaint):
        open_beside(page.path)


CRASH = """
import os, sys
from pathlib import Path
from venue.telemetry import live_memory, page
page = page.create(mode="match", folder=Path(sys.argv[1]))
live_memory.create(page.path, 8)
os._exit(1)
"""


def test_after_a_crash_the_page_stays_and_the_large_files_go_with_the_next_start(tmp_path: Path) -> None:
    folder = tmp_path / "pages"
    subprocess.run([sys.executable, "-c", CRASH, str(folder)], check=False)
    assert {path.suffix for path in folder.iterdir()} == {".page", *COMPANIONS}
    page_module.create(mode="match", folder=folder)
    assert [path.suffix for path in private_folder(folder).iterdir()] == [".page", ".page"]


def test_the_readme_describes_this_layout() -> None:
    text = README.read_text()
    placed, size_bytes = places(12_000)
    assert f"Layout version {LAYOUT_VERSION}. Two files" in text
    assert f"{size_bytes} bytes for 12000 of them" in text
    assert f"`.requests`, {live_memory.REQUESTS_BYTES} bytes" in text
    for name, (dtype, shape, offset) in placed.items():
        record_bytes = dtype.itemsize * int(np.prod(shape[1:]))
        assert f"| `{name}` | {offset} | {record_bytes} | {shape[0]} |" in text


# --- reading trades -----------------------------------------------------------------------------------------------


def print_trades(page: Page, memory: LiveMemory, numbers: range) -> None:
    """As the matching thread does."""
    for number in numbers:
        memory.live.tape["number"][(number - 1) % TRADES_KEPT] = number
    page.matcher["trades"] = numbers[-1]


def test_trades_that_are_no_longer_kept_are_missed_and_counted(page: Page) -> None:
    memory = create(page.path, 8)
    market = Market(page, memory)
    memory.count[0] = 1
    memory.live.tape["kind"] = 1
    assert len(market.trades_after(0)) == 0
    print_trades(page, memory, range(1, TRADES_KEPT + 11))
    numbers = market.trades_after(0)["number"].tolist()
    assert numbers == list(range(12, TRADES_KEPT + 11)), "one less than all: it may be being overwritten"
    fills = market.fills([5], 10)
    assert (fills.fills, fills.missed, fills.next) == ([], 6, TRADES_KEPT + 10)
    assert market.fills([10**15], 10).next == TRADES_KEPT + 10, "numbers of an earlier run"


def test_a_trade_that_is_counted_but_not_written_yet_waits(page: Page) -> None:
    memory = create(page.path, 8)
    print_trades(page, memory, range(1, 4))
    page.matcher["trades"] = 5
    assert Market(page, memory).trades_after(1)["number"].tolist() == [2, 3]


def test_a_book_that_is_being_written_is_not_read(page: Page) -> None:
    memory = create(page.path, 8)
    market = Market(page, memory)
    memory.count[0], memory.symbols[0] = 1, np.frombuffer(b"AAPL    ", np.uint8)
    head = memory.live.depths[2]
    head["version"], head["wish"], head["state"] = 3, 1 << 16, ord("T")
    assert market.book(2, 1 << 16) is None
    assert market.book_version(2, 1 << 16) is None
    head["version"] = 4
    assert market.book_version(2, 1 << 16) == 4
    book = market.book(2, 1 << 16)
    assert book is not None
    assert book.symbol == "AAPL"
    assert market.book(2, 2 << 16) is None, "the answer to an older wish"


# --- several matching threads -------------------------------------------------------------------------------------


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Page]:
    page = page_module.create(mode="consume", accounts=["ALPHA"], shards=2, folder=tmp_path / "pages")
    yield page
    page.remove()


def print_own(page: Page, memory: LiveMemory, shard: int, times: list[int]) -> None:
    """Trades of ALPHA at these times, the first ones of a matching thread."""
    for number, time_ns in enumerate(times, 1):
        row = memory.shards[shard].tape[number - 1]
        row["number"], row["time_ns"], row["instrument"], row["taking_account"] = number, time_ns, shard, RECORDED
    page.shards[shard].matcher["trades"] = len(times)


def test_each_matching_thread_shows_its_own_instruments(two: Page) -> None:
    owner = create(two.path, 4, shards=2)
    reader = open_beside(two.path)
    owner.symbols[:2] = np.frombuffer(b"AAPL    MSFT    ", np.uint8).reshape(2, 8)
    owner.count[0] = 2
    for number, live in enumerate(owner.shards):
        live.books["last_price"] = 10_000 * (1 + number)
        live.depths["wish"][3] = 1 << 16 | number
        live.shown["reference"][1 + number] = 7 - number
        live.shown["instrument"][1 + number] = number
    market = Market(two, reader)
    assert [one.last_price for one in market.instruments("", 0, 10).instruments] == ["1.0000", "2.0000"]
    assert market.book_version(3, 1 << 16 | 1) == 0
    assert market.book_version(3, 1 << 16 | 2) is None, "the place of the first thread answers another wish"
    assert [order.symbol for order in market.orders(None, None, 0, 10).orders] == ["MSFT", "AAPL"]
    reader.shards[1].wishes[0] = 1
    assert owner.live.wishes[0] == 1, "all hear the same wishes"


def test_trades_of_two_matching_threads_are_told_by_their_times(two: Page) -> None:
    memory = create(two.path, 4, shards=2)
    memory.symbols[:2] = np.frombuffer(b"AAPL    MSFT    ", np.uint8).reshape(2, 8)
    memory.count[0] = 2
    market = Market(two, memory)
    assert market.fills([0], 10).next == "0,0"
    print_own(two, memory, 0, [10, 30, 20])
    print_own(two, memory, 1, [5, 25, 40])
    first = market.fills([0], 4)
    told = [(trade.shard, trade.symbol, trade.number, trade.time_ns) for trade in first.fills]
    assert told == [(1, "MSFT", 1, 5), (0, "AAPL", 1, 10), (1, "MSFT", 2, 25), (0, "AAPL", 2, 30)]
    assert first.next == "2,2"
    rest = market.fills([2, 2], 4)
    assert [(trade.shard, trade.number) for trade in rest.fills] == [(0, 3), (1, 3)], "each in its own order"
    assert (rest.next, rest.missed) == ("3,3", 0)
    assert market.fills([3, 3], 4).fills == []


@pytest.mark.parametrize(
    ("ticks", "text"), [(0, "0.0000"), (1, "0.0001"), (1_895_000, "189.5000"), (-10_001, "-1.0001")]
)
def test_prices_are_told_in_dollars(ticks: int, text: str) -> None:
    assert price_text(ticks) == text


# --- wishes -------------------------------------------------------------------------------------------------------


class Looking:
    def __init__(self, memory: LiveMemory) -> None:
        self.now_ns = 0
        self.memory = memory
        self.watches = Watches(memory, lambda: self.now_ns)

    def wished(self) -> list[int]:
        """The instruments that the matching thread is asked for."""
        count = int(self.memory.live.wishes[0])
        wishes = self.memory.live.wishes[1 : 1 + count].tolist()
        return [wish & 0xFFFF for wish in wishes if wish >= 0]


def test_two_who_look_at_the_same_book_share_a_place(page: Page) -> None:
    looking = Looking(create(page.path, 40))
    first, second = looking.watches.begin(7), looking.watches.begin(7)
    assert first is second
    assert first is not None
    assert looking.wished() == [7]
    looking.watches.end(first, lingers=True)
    looking.now_ns += 2 * LINGER_NS
    looking.watches.tick()
    assert looking.wished() == [7]
    looking.watches.end(first, lingers=True)
    looking.watches.tick()
    assert looking.wished() == [7], "it lingers for those who poll"
    looking.now_ns += LINGER_NS
    looking.watches.tick()
    assert looking.wished() == []
    assert looking.memory.live.wishes[0] == 0, "nobody looks: the matching thread has nothing to do"


def test_a_page_that_goes_leaves_no_work_behind_but_somebody_who_polls_is_waited_for(page: Page) -> None:
    looking = Looking(create(page.path, 40))
    polled, opened = looking.watches.begin(7), looking.watches.begin(8)
    also_polled = looking.watches.begin(8)
    assert polled is not None
    assert opened is also_polled is not None
    looking.watches.end(polled, lingers=True)
    looking.watches.end(also_polled, lingers=True)
    looking.watches.end(opened, lingers=False)
    assert looking.wished() == [7, 8]
    looking.now_ns += LINGER_NS
    looking.watches.tick()
    assert looking.memory.live.wishes[0] == 0
    page_alone = looking.watches.begin(9)
    assert page_alone is not None
    looking.watches.end(page_alone, lingers=False)
    assert looking.memory.live.wishes[0] == 0, "at once"


def test_a_place_that_nobody_looks_at_is_given_to_another_the_longest_left_first(page: Page) -> None:
    looking = Looking(create(page.path, 40))
    watches = [looking.watches.begin(n) for n in range(PLACES)]
    assert looking.watches.begin(30) is None
    for n in (5, 3):
        looking.now_ns += 1
        watch = watches[n]
        assert watch is not None
        looking.watches.end(watch, lingers=True)
    taken = looking.watches.begin(30)
    assert taken is not None
    assert taken.place == 5
    assert looking.wished() == [30 if n == 5 else n for n in range(PLACES)]


def test_a_new_process_begins_with_no_wishes_and_new_numbers(page: Page) -> None:
    memory = create(page.path, 40)
    old = Looking(memory).watches.begin(7)
    assert old is not None
    memory.live.depths["wish"][old.place] = old.wish
    looking = Looking(memory)
    assert looking.wished() == []
    new = looking.watches.begin(7)
    assert new is not None
    assert (new.place, new.instrument) == (old.place, 7)
    assert new.wish > old.wish, "the copy that is still there answers an older wish"


def test_reading_needs_no_compiler() -> None:
    code = "import sys, venue.telemetry.server; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, env=dict(os.environ)).returncode == 0
