"""Who may log in: accounts by name, passwords in an executor, and patience with those who guess."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final
from weakref import WeakValueDictionary

from venue import passwords
from venue.config import Account

SECOND_NS: Final = 1_000_000_000
FREE_REJECTIONS: Final = 2
"""So many wrong logins from one address are answered at once; each later one waits, twice as long as the one before."""
FIRST_DELAY_NS: Final = SECOND_NS
MAX_DELAY_NS: Final = 4 * SECOND_NS
"""Well below the time that a login may take."""
FORGET_NS: Final = 60 * SECOND_NS
MAX_ADDRESSES: Final = 1_024


class Authenticator:
    """Checks names and passwords; belongs to the loop thread. One check runs at a time, so that guessing cannot take
    more than one core, and all take the same time, whether the name exists or not. Addresses take turns: each has one
    check in the queue, and its others wait for that one."""

    def __init__(self, accounts: Sequence[Account]) -> None:
        self._accounts = {account.username.upper(): number for number, account in enumerate(accounts)}
        self._hashes = [account.password_hash for account in accounts]
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="passwords")
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """By address, for as long as a check of it waits or runs."""

    async def check(self, username: str, password: str, host: str) -> int | None:
        """The number of the account, or None if name or password is wrong. Names compare without case. Whoever loses
        interest cancels the call; as many wait as the caller lets."""
        account = self._accounts.get(username.upper())
        encoded = self._hashes[account if account is not None else 0]
        turn = self._turns.setdefault(host, asyncio.Lock())
        async with turn:
            loop = asyncio.get_running_loop()
            good = await loop.run_in_executor(self._executor, passwords.verify, password, encoded)
        return account if good else None

    def close(self) -> None:
        """No more checks; one that runs is not waited for."""
        self._executor.shutdown(wait=False, cancel_futures=True)


class Rejections:
    """How long to wait before an address hears that its login is wrong. Bounded, and it forgets."""

    def __init__(self) -> None:
        self._hosts: dict[str, tuple[int, int]] = {}

    def delay_ns(self, host: str, now_ns: int) -> int:
        """Count one more wrong login of ``host`` and say how long its answer has to wait."""
        count, last_ns = self._hosts.pop(host, (0, now_ns))
        if now_ns - last_ns > FORGET_NS:
            count = 0
        count += 1
        while len(self._hosts) >= MAX_ADDRESSES:
            del self._hosts[next(iter(self._hosts))]  # the one that has been quiet for longest
        self._hosts[host] = (count, now_ns)
        if count <= FREE_REJECTIONS:
            return 0
        return min(FIRST_DELAY_NS << min(count - FREE_REJECTIONS - 1, 8), MAX_DELAY_NS)
