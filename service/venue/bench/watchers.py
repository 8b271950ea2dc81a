"""Those who watch, for `venue bench watched`: a process of its own that scrapes and looks at live pages.

    python -m venue.bench.watchers HOST PORT PAGES

On standard input each line turns it on or off, the first one on; on standard output it answers each with one JSON line:
``{}`` once every page has its first book and the first scrape is in, and after the end what was seen (``Seen``). The
scrapes that count come half a second later and then every second. The pages stand for browsers on other machines, so
the process runs at the lowest priority there is.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from dataclasses import asdict, dataclass
from typing import Final

import aiohttp

SYMBOLS: Final = ("AAPL", "MSFT", "NVDA")
"""One a page, again from the first when there are more pages."""
SCRAPE_INTERVAL_S: Final = 1.0
ACCEPT: Final = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"
"""As Prometheus asks."""


@dataclass(slots=True)
class Seen:
    """What came in from the first book on."""

    seconds: float = 0.0
    scrapes: int = 0
    scraped_bytes: int = 0
    updates: int = 0
    """WebSocket messages, over all pages."""


async def look(http: aiohttp.ClientSession, symbol: str, seen: Seen, first: asyncio.Event) -> None:
    """One page: everything that /live says about a book."""
    async with http.ws_connect("/live") as socket:
        await socket.send_json({"symbol": symbol})
        async for message in socket:
            seen.updates += 1
            if not first.is_set() and "book" in json.loads(message.data):
                first.set()


async def scrape(http: aiohttp.ClientSession, seen: Seen) -> None:
    async with http.get("/metrics", headers={"Accept": ACCEPT}) as answer:
        answer.raise_for_status()
        seen.scraped_bytes += len(await answer.read())
    seen.scrapes += 1


async def scrape_on(http: aiohttp.ClientSession, seen: Seen) -> None:
    due_s = time.monotonic() + SCRAPE_INTERVAL_S / 2
    while True:
        await asyncio.sleep(due_s - time.monotonic())
        await scrape(http, seen)
        due_s += SCRAPE_INTERVAL_S


async def watch(base: str, pages: int, off: asyncio.Event) -> Seen:
    """Watch until told otherwise; says ``{}`` when everything is there."""
    seen = Seen()
    firsts = [asyncio.Event() for _ in range(pages)]
    async with aiohttp.ClientSession(base) as http, asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(look(http, SYMBOLS[number % len(SYMBOLS)], seen, first))
            for number, first in enumerate(firsts)
        ]
        await scrape(http, Seen())
        for first in firsts:
            await first.wait()
        tasks.append(group.create_task(scrape_on(http, seen)))
        tell({})
        begun_s, before = time.monotonic(), seen.updates
        await off.wait()
        seen.seconds, seen.updates = time.monotonic() - begun_s, seen.updates - before
        for task in tasks:
            task.cancel()
    return seen


def tell(what: dict[str, float]) -> None:
    print(json.dumps(what), flush=True)


async def main(base: str, pages: int) -> None:
    lines = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while await lines.readline():
        off = asyncio.Event()
        watching = asyncio.create_task(watch(base, pages, off))
        stopping = asyncio.create_task(lines.readline())
        await asyncio.wait((watching, stopping), return_when=asyncio.FIRST_COMPLETED)
        off.set()
        tell(asdict(await watching))


if __name__ == "__main__":
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    asyncio.run(main(f"http://{sys.argv[1]}:{sys.argv[2]}", int(sys.argv[3])))
