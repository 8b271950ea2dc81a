"""The files of the web page, beside this module in ``web``. No other file can be asked for."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Final

from aiohttp import web

FOLDER: Final = Path(__file__).with_name("web")
CONTENT_TYPES: Final = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
}
_NAME: Final = re.compile(r"[a-z0-9_]+\.[a-z]+")
HEADERS: Final = {
    "Cache-Control": "no-cache",
    "Content-Security-Policy": (
        "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'; object-src 'none'"
    ),
    "Referrer-Policy": "no-referrer",
}


def routes() -> list[web.RouteDef]:
    """The page itself, and what belongs to it."""

    async def index(request: web.Request) -> web.Response:
        return _serve("index.html", request)

    async def file(request: web.Request) -> web.Response:
        return _serve(request.match_info["name"], request)

    return [web.get("/", index), web.get("/web/{name}", file)]


def _serve(name: str, request: web.Request) -> web.Response:
    path = FOLDER / name
    content_type = CONTENT_TYPES.get(path.suffix)
    if content_type is None or _NAME.fullmatch(name) is None or not path.is_file():
        raise web.HTTPNotFound
    body = path.read_bytes()
    tag = f'"{hashlib.sha256(body).hexdigest()[:16]}"'
    headers = HEADERS | {"ETag": tag}
    if request.headers.get("If-None-Match") == tag:
        return web.Response(status=304, headers=headers)
    return web.Response(body=body, content_type=content_type, charset="utf-8", headers=headers)
