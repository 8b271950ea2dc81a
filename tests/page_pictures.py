"""Take pictures of a running venue's live page, light and dark, wide and narrow.

    python tests/page_pictures.py http://127.0.0.1:26480/#AAPL FOLDER [SECONDS]

SECONDS is how long the page watches before, so that there is something in its charts (default 45).
"""

import asyncio
import sys
from pathlib import Path

from chromium import NARROW, WIDE, chromium


async def take(url: str, folder: Path, watch_s: float = 45.0) -> None:
    """Write `wide-light.png` and so on into the folder, at double resolution."""
    async with chromium() as browser:
        pages = {}
        for name, (width, height) in {"wide": WIDE, "narrow": NARROW}.items():
            for theme in ("light", "dark"):
                pages[f"{name}-{theme}"] = page = await browser.new_page(
                    viewport={"width": width, "height": height}, color_scheme=theme, device_scale_factor=2
                )
                await page.goto(url)
        await asyncio.sleep(watch_s)
        for name, page in pages.items():
            await page.screenshot(path=folder / f"{name}.png", full_page=True)


if __name__ == "__main__":
    asyncio.run(take(sys.argv[1], Path(sys.argv[2]), *map(float, sys.argv[3:])))
