"""The live page in front of a made-up exchange: what is rare, what is missing, what breaks, and how it is operated."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from chromium import NARROW, Browsing, Visit, needs_chromium
from mock_venue import MockVenue

pytestmark = needs_chromium

BOOK = "#bids tr:first-child .price:not(:empty)"
"""There as soon as there is a book."""


@asynccontextmanager
async def served(venue: MockVenue, port: int = 0) -> AsyncIterator[str]:
    """The address of a mock that runs."""
    address = f"http://127.0.0.1:{await venue.start(port)}/"
    try:
        yield address
    finally:
        await venue.stop()


Story = Callable[[Visit], Awaitable[None]]
See = Callable[..., None]


@pytest.fixture
def see(browsing: Browsing) -> See:
    """Tell a story of one visit to a mock, which begins at a symbol."""

    def see(venue: MockVenue, story: Story, at: str = "#AAPL", **how: Any) -> None:
        async def tell() -> None:
            async with served(venue) as url, browsing.visit(url + at, **how) as visited:
                await story(visited)

        browsing.tell(tell())

    return see


# --- what is shown ------------------------------------------------------------------------------------------------


def test_the_ladder_shows_every_level_and_marks_clients_orders(see: See) -> None:
    venue = MockVenue(still=True)
    book = venue.books["AAPL"].picture(venue.time_ns)

    async def story(seen: Visit) -> None:
        await seen.until_shown(BOOK)
        for side, rows in (("asks", book["asks"][::-1]), ("bids", book["bids"])):
            assert await seen.texts(f"#{side} .price") == [row["price"][:-2] for row in rows]
            assert await seen.texts(f"#{side} .shares") == [f"{row['shares']:,}" for row in rows]
            assert await seen.texts(f"#{side} .orders") == [str(row["orders"]) for row in rows]
        ahead = [f"({order['queue_ahead']:,})" for order in book["own"]]
        assert await seen.texts("#bids .own:not(:empty)") == [f"◆ MAKER 300{ahead[0]}", f"◆ TRADER 100{ahead[1]} +1"]
        assert await seen.texts("#asks .own:not(:empty)") == [f"◆ TRADER 1,000{ahead[4]}", f"◆ MAKER 300{ahead[3]}"]
        assert await seen.page.locator("#own-orders tr").count() == len(book["own"])
        assert await seen.text("#spread") == "0.02"

    see(venue, story)


def test_prices_finer_than_a_cent_show_all_their_digits(see: See) -> None:
    async def story(seen: Visit) -> None:
        await seen.until_shown(BOOK)
        assert re.fullmatch(r"3\.12\d\d", await seen.text("#bids tr:first-child .price"))

    see(MockVenue(still=True), story, at="#SIRI")


def test_trades_of_two_clocks_stand_in_the_order_in_which_they_happened_and_the_page_says_so(see: See) -> None:
    venue = MockVenue(still=True)
    venue.books["AAPL"].exchange_ahead_ns = 4 * 3_600_000_000_000
    venue.advance(200)

    async def story(seen: Visit) -> None:
        await seen.until_shown("#trades-clocks")
        titles = await seen.page.locator("#trades td:first-child").evaluate_all("cells => cells.map(c => c.title)")
        times = await seen.texts("#trades td:first-child")
        numbers = [int(re.findall(r"[\d,]+", title)[0].replace(",", "")) for title in titles]
        assert numbers == list(range(max(numbers), max(numbers) - 50, -1))
        clocks = {title.rpartition("the ")[2]: time[:2] for title, time in zip(titles, times, strict=True)}
        assert clocks == {"exchange's clock": "14", "feed's clock": "10"}
        await seen.page.evaluate("location.hash = 'MSFT'")  # whose clocks are the same
        await seen.until("#book-symbol", "MSFT")
        await seen.until_shown("#trades tr.own")
        assert not await seen.page.locator("#trades-clocks").is_visible()

    see(venue, story)


def test_trades_name_the_clients_in_them_newest_first(see: See) -> None:
    venue = MockVenue(still=True)
    venue.advance(200)

    async def story(seen: Visit) -> None:
        await seen.until_shown("#trades tr")
        times = await seen.texts("#trades td:first-child")
        assert times == sorted(times, reverse=True)
        assert len(times) == 50
        marked = await seen.texts("#trades tr.own td:last-child")
        assert set(marked) == {"◆ TAKER / MAKER", "◆ TAKER / feed", "◆ feed / MAKER"}
        assert set(await seen.texts("#trades tr:not(.own) td:last-child")) == {"", "hidden"}
        assert (await seen.text("#last-price"))[2:] == (await seen.text("#trades tr:first-child td:nth-child(2)"))[2:]

    see(venue, story)


def test_a_halted_and_incomplete_book_says_so(see: See) -> None:
    venue = MockVenue(still=True)
    venue.books["AAPL"].state, venue.books["AAPL"].incomplete = "halted", True

    async def story(seen: Visit) -> None:
        await seen.until_shown("#book-incomplete:visible")
        assert await seen.text("#book-state") == "halted"

    see(venue, story)


def test_an_exchange_without_traffic_says_so_and_shows_no_nonsense(see: See) -> None:
    async def story(seen: Visit) -> None:
        await seen.until("#state", "ready")
        await seen.until_shown("#sessions tr")
        everything = await seen.text("body")
        assert not re.search(r"NaN|undefined|null|Infinity|object", everything)
        for panel in ("ladder", "latency", "trades", "stages", "feed", "orders"):
            assert "No traffic" in await seen.text(f"section.{panel}"), panel
        assert await seen.text("#feed-clock") == "no feed"
        assert await seen.text("#p99_ns") == "–"
        assert await seen.value("#p99_ns") is None
        await seen.page.click("#symbol")
        await seen.until_shown("#symbols-popup:visible")
        assert await seen.text("#symbols-note") == "No instruments yet: the feed names them"

    see(MockVenue(quiet=True, symbols=False), story, at="")


def test_losses_are_marked_as_soon_as_there_are_any(see: See) -> None:
    venue = MockVenue(still=True)
    healthy = venue.figures.stats
    venue.figures.stats = lambda time_ns: (stats := healthy(time_ns)) | {"feed": stats["feed"] | {"missing": 3}}  # type: ignore[method-assign]

    async def story(seen: Visit) -> None:
        await seen.until_shown("[data-alarm=on]")
        assert await seen.texts("[data-alarm=on] dd") == ["3"]

    see(venue, story)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        ("duration(64)", "64 ns"),
        ("duration(999)", "999 ns"),
        ("duration(17312)", "17.3 µs"),
        ("duration(999600)", "1.00 ms"),
        ("duration(123456789)", "123 ms"),
        ("duration(17179869184)", "17.2 s"),
        ("decade(4)", "10 µs"),
        ("decade(9)", "1 s"),
        ("plural(1, 'share')", "1 share"),
        ("plural(1200, 'share')", "1,200 shares"),
        ("timeOfDay(34200125999999, true)", "09:30:00.125"),
        ("price('12345.6700')", "12,345.67"),
        ("price('0.0001')", "0.0001"),
        ("uptime(7261)", "2 h 1 min"),
    ],
)
def test_numbers_as_text(formatted: Callable[[str], str], call: str, text: str) -> None:
    assert formatted(call) == text


@pytest.fixture(scope="module")
def formatted(browsing: Browsing) -> Callable[[str], str]:
    """What format.js makes of a call; all of them are asked for in one visit."""
    calls = test_numbers_as_text.pytestmark[0].args[1]  # type: ignore[attr-defined]
    answers: dict[str, str] = {}

    async def tell() -> None:
        async with served(MockVenue(still=True)) as url, browsing.visit(url) as seen:
            for call, _ in calls:
                answers[call] = await seen.page.evaluate(f"import('/web/format.js').then((format) => format.{call})")

    browsing.tell(tell())
    return answers.__getitem__


# --- what changes -------------------------------------------------------------------------------------------------


def test_nothing_moves_as_numbers_change(see: See) -> None:
    """Every panel and every figure's line keeps its place."""
    places = """() => [...document.querySelectorAll("section, h2, .tiles > div, .side tr, #stages tr, .top > *")]
        .map((node) => { const {x, y, width, height} = node.getBoundingClientRect(); return [x, y, width, height]; })"""

    async def story(seen: Visit) -> None:
        await seen.until_shown("#trades tr:nth-child(3)")
        await seen.until_shown("#sessions tr")
        before = await seen.page.evaluate(places)
        later = 10 * int(await seen.value("#fills") or 0)
        await seen.page.wait_for_function("(later) => document.getElementById('fills').value > later", arg=later)
        assert await seen.page.evaluate(places) == before

    see(MockVenue(), story)


def test_a_hidden_tab_piles_up_no_work(see: See) -> None:
    """A browser asks a hidden tab for no frames: there must then be one painting that waits, and not more."""
    hidden = """const show = requestAnimationFrame; window.asked = [];
        window.requestAnimationFrame = (paint) => window.asked.push(paint);"""

    async def story(seen: Visit) -> None:
        await seen.page.add_init_script(hidden)
        async with seen.page.expect_websocket() as connection:
            await seen.page.reload()
        await seen.page.wait_for_function("() => window.asked.length > 0")
        for _ in range(40):
            await (await connection.value).wait_for_event("framereceived")
        assert await seen.page.evaluate("window.asked.length") == 1
        assert await seen.page.locator("#trades tr").count() == 0
        await seen.page.evaluate("window.asked[0]()")
        assert 0 < await seen.page.locator("#trades tr").count() <= 50
        assert await seen.text("#book-symbol") == "AAPL"

    see(MockVenue(), story)


def test_a_restart_clears_what_was_seen_before(browsing: Browsing) -> None:
    async def tell() -> None:
        first = MockVenue()
        first.figures.started -= timedelta(hours=30)
        port = await first.start()
        async with browsing.visit(f"http://127.0.0.1:{port}/#AAPL", restarts=True) as seen:
            await seen.until_shown("#trades tr:nth-child(5)")
            await first.stop()
            await seen.until_shown("#banner:visible")
            assert (await seen.text("#banner")).startswith("Reconnecting…")
            await seen.until("#state", "not connected")  # with the next frame
            await seen.page.set_viewport_size({"width": NARROW[0], "height": NARROW[1]})
            assert await seen.page.evaluate("document.documentElement.scrollWidth") == NARROW[0], "the longest words"
            assert await seen.page.locator("#trades tr").count() >= 5, "what is known stays as long"
            async with served(MockVenue(quiet=True), port):
                await seen.until_hidden("#banner")
                await seen.until("#state", "ready")
                await seen.until_shown("#latency-lines + .empty:visible")
                assert await seen.page.locator("#trades tr").count() == 0
                assert await seen.value("#latency-count") == "0"
                await seen.until_shown(BOOK)

    browsing.tell(tell())


def test_a_server_that_falls_silent_counts_as_lost(see: See) -> None:
    venue = MockVenue()

    async def story(seen: Visit) -> None:
        await seen.until_shown("#trades tr")
        venue.silent = True
        await seen.until_shown("#banner:visible")
        await seen.until("#state", "not connected")  # with the next frame
        venue.silent = False
        await seen.until_hidden("#banner")
        await seen.until("#state", "ready")

    see(venue, story)


# --- how it is operated -------------------------------------------------------------------------------------------


def test_the_symbol_picker_with_the_keyboard_alone(see: See) -> None:
    async def story(seen: Visit) -> None:
        keys, symbol = seen.page.keyboard, seen.page.locator("#symbol")
        await seen.until_shown(BOOK)
        await keys.press("Tab")  # over the link that skips to the book
        await keys.press("Tab")
        assert await seen.page.evaluate("document.activeElement.id") == "symbol"
        await keys.press("ArrowDown")
        await seen.until_shown("#symbols [role=option]")
        assert await symbol.get_attribute("aria-expanded") == "true"
        assert await seen.texts("#symbols [aria-selected=true] b") == ["AAPL"], "where it is now"
        await keys.type("am")
        await seen.page.wait_for_function("() => document.querySelectorAll('#symbols li').length === 2")
        await keys.press("ArrowDown")
        assert await seen.texts("#symbols [aria-selected=true] b") == ["AMZN"]
        active = await symbol.get_attribute("aria-activedescendant")
        assert await seen.text(f"#{active} b") == "AMZN"
        await keys.press("Escape")
        assert not await seen.page.is_visible("#symbols-popup")
        assert await symbol.input_value() == "AAPL", "nothing was chosen"
        await keys.type("MSFT")
        await keys.press("Enter")
        await seen.until("#book-symbol", "MSFT")
        await seen.until_shown("#bids tr:first-child .price:text-matches('^415')")
        assert seen.page.url.endswith("#MSFT")

    see(MockVenue(still=True), story)


def test_the_symbol_is_remembered(see: See) -> None:
    async def story(seen: Visit) -> None:
        await seen.until("#book-symbol", "NVDA")
        another = Visit(await seen.page.context.new_page())
        await another.page.goto(seen.page.url.split("#")[0])
        await another.until("#book-symbol", "NVDA")

    see(MockVenue(still=True), story, at="#NVDA")


def test_light_and_dark_are_remembered_and_operated_with_the_keyboard(see: See) -> None:
    paper = "getComputedStyle(document.body).backgroundColor"

    async def story(seen: Visit) -> None:
        dark = await seen.page.evaluate(paper)
        await seen.page.focus("#theme")
        assert await seen.page.get_attribute("#theme", "aria-pressed") == "true"
        await seen.page.keyboard.press("Enter")
        light = await seen.page.evaluate(paper)
        assert light != dark
        assert await seen.page.get_attribute("#theme", "aria-pressed") == "false"
        await seen.page.reload()
        assert await seen.page.evaluate(paper) == light

    see(MockVenue(still=True), story, color_scheme="dark")


def test_the_charts_are_read_with_the_arrow_keys(see: See) -> None:
    async def story(seen: Visit) -> None:
        await seen.until_hidden("#latency-lines + .empty")
        first = await seen.value("#max_ns")
        await seen.page.wait_for_function("(first) => document.getElementById('max_ns').value !== first", arg=first)
        await seen.page.focus("#latency-lines")
        await seen.page.keyboard.press("ArrowLeft")
        await seen.until("#latency-when", "10 s until")
        await seen.page.keyboard.press("Escape")
        await seen.until("#latency-when", "the last 10 s")

    see(MockVenue(), story)


@pytest.mark.parametrize("at", ["#AAPL", "#SIRI"])
def test_a_narrow_screen_needs_no_scrolling_sideways(see: See, at: str) -> None:
    async def story(seen: Visit) -> None:
        await seen.until_shown("#trades tr")
        await seen.until_shown("#sessions tr")
        assert await seen.page.evaluate("document.documentElement.scrollWidth") == NARROW[0]
        too_wide = """[...document.querySelectorAll(".panel *")].filter((node) => !node.matches(".hidden, .hidden *")
            && node.getBoundingClientRect().right > innerWidth).map((node) => node.outerHTML.slice(0, 80))"""
        assert await seen.page.evaluate(too_wide) == []

    see(MockVenue(), story, at=at, size=NARROW)
