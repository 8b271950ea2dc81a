"""The operator: whoever shows the token may set an account's kill switch. The request goes through shared memory."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from venue import passwords
from venue.telemetry import live_memory
from venue.telemetry.live_memory import MAILBOX, LiveMemory
from venue.telemetry.page import Page
from venue.telemetry.service import ApiError, Service

TIMEOUT_S: Final = 5.0
POLL_S: Final = 0.02
MAX_WAITING: Final = 8
"""Checks of a token, and requests, that may wait for their turn; one check takes 50 ms of a core."""
SCHEME: Final = "Bearer "


class Operator:
    """The writing end of the mailbox. One request at a time."""

    def __init__(self, service: Service, token_hash: str) -> None:
        self._service = service
        self._token_hash = token_hash
        self._waiting = 0
        self._checking = asyncio.Lock()
        self._writing = asyncio.Lock()

    async def check(self, authorization: str) -> None:
        """ApiError unless the header shows the operator's token."""
        if not self._token_hash:
            raise ApiError(403, "no operator token is configured: nothing can be changed over HTTP")
        token = authorization.removeprefix(SCHEME)
        if token == authorization:
            raise ApiError(401, "needs the operator token: Authorization: Bearer TOKEN")
        if self._waiting >= MAX_WAITING:
            raise ApiError(429, "too many requests at once")
        self._waiting += 1
        try:
            async with self._checking:
                good = len(token) <= passwords.MAX_CHARACTERS and await asyncio.to_thread(
                    passwords.verify, token, self._token_hash
                )
        finally:
            self._waiting -= 1
        if not good:
            raise ApiError(403, "that is not the operator token")

    async def set_kill_switch(self, account: str, on: bool) -> None:
        """Returns once the exchange has done it. ApiError if there is no such account, or no answer in time."""
        page, memory = self._service.page, self._service.market.memory
        names = page.account_names()
        if account not in names:
            raise ApiError(404, f"no account {account!r}")
        async with self._writing:
            await self._send(page, memory, names.index(account), on)

    async def _send(self, page: Page, memory: LiveMemory, account: int, on: bool) -> None:
        words = memory.requests
        number = max(int(words[MAILBOX]), int(page.header["requests_handled"][0])) + 1
        words[MAILBOX + 1 : MAILBOX + 3] = account, on
        words[MAILBOX] = number  # last: from here on it is a request
        deadline = time.monotonic() + TIMEOUT_S
        while page.header["requests_handled"][0] < number or any(
            bool(shard.exposures["killed"][account]) is not on for shard in page.shards
        ):
            if time.monotonic() > deadline:
                raise ApiError(504, f"the exchange has not done it within {TIMEOUT_S:.0f} s")
            await asyncio.sleep(POLL_S)


assert MAILBOX + 3 <= live_memory.REQUEST_WORDS
