"""Visits to the live page in a real Chromium, without a screen and without speaking to anybody but the server."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

if TYPE_CHECKING:
    from playwright.async_api import Browser, ConsoleMessage, Page

CHROMIUM = os.environ.get("VENUE_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
"""The browser that is installed, or the one that VENUE_CHROMIUM names."""
WIDE, NARROW = (1280, 1000), (375, 800)
PATIENCE_MS = 20_000
UNREACHABLE = ("ERR_CONNECTION_REFUSED", "ERR_CONNECTION_RESET", "ERR_EMPTY_RESPONSE", "closed before")
"""What Chromium says of a server that is not there."""

needs_chromium = pytest.mark.skipif(
    CHROMIUM is None or find_spec("playwright") is None,
    reason="no browser to test the live page in: install chromium (or name one in VENUE_CHROMIUM) and playwright",
)


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=CHROMIUM,
            args=[
                "--no-sandbox",
                "--disable-gpu",
                "--disable-quic",
                "--no-first-run",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
            ],
        )
        try:
            yield browser
        finally:
            await browser.close()


@dataclass
class Visit:
    """A page, what it complained about, and whom it spoke to."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    hosts: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.page.on("request", lambda request: self.hosts.add(urlsplit(request.url).netloc))
        self.page.on("websocket", lambda socket: self.hosts.add(urlsplit(socket.url).netloc))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("console", self._hear)

    def _hear(self, line: ConsoleMessage) -> None:
        if line.type in ("error", "warning"):
            self.complaints.append(line.text)

    async def text(self, selector: str) -> str:
        return (await self.page.inner_text(selector)).strip()

    async def texts(self, selector: str) -> list[str]:
        return [text.strip() for text in await self.page.locator(selector).all_inner_texts()]

    async def value(self, selector: str) -> str | None:
        """The exact value of a figure."""
        return await self.page.get_attribute(selector, "value")

    async def until(self, selector: str, text: str) -> None:
        """Wait until the element's text begins like this."""
        begins = "([selector, text]) => document.querySelector(selector)?.innerText.trim().startsWith(text)"
        await self.page.wait_for_function(begins, arg=[selector, text])

    async def until_shown(self, selector: str) -> None:
        await self.page.wait_for_selector(selector)

    async def until_hidden(self, selector: str) -> None:
        await self.page.wait_for_selector(selector, state="hidden")


class Browsing:
    """One browser for many stories, and the loop they are told on; no loop runs between them."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._chromium = chromium()
        self._browser = self._runner.run(self._chromium.__aenter__())

    def close(self) -> None:
        self._runner.run(self._chromium.__aexit__(None, None, None))
        self._runner.close()

    def tell(self, story: Coroutine[Any, Any, None]) -> None:
        self._runner.run(story)

    @asynccontextmanager
    async def visit(
        self, url: str, *, size: tuple[int, int] = WIDE, restarts: bool = False, **context: Any
    ) -> AsyncIterator[Visit]:
        """Open the page as somebody who was never here before, and in the end insist that it had nothing to complain
        about and spoke to this server alone.

        ``restarts``: that the server cannot be reached for a while is part of the story.
        """
        browser_context = await self._browser.new_context(viewport={"width": size[0], "height": size[1]}, **context)
        visit = Visit(await browser_context.new_page())
        visit.page.set_default_timeout(PATIENCE_MS)
        try:
            await visit.page.goto(url)
            yield visit
        finally:
            await browser_context.close()
        assert visit.hosts == {urlsplit(url).netloc}, visit.hosts
        complaints = [line for line in visit.complaints if not (restarts and any(r in line for r in UNREACHABLE))]
        assert complaints == [], complaints


@pytest.fixture(scope="module")
def browsing() -> Iterator[Browsing]:
    browsing = Browsing()
    yield browsing
    browsing.close()
