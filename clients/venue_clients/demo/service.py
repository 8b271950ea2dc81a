"""The exchange of a demo: `venue serve` as a process of its own, spoken to by its command line and its ports."""

from __future__ import annotations

import asyncio
import ctypes
import json
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

READY_WITHIN_S: Final = 600.0
"""The first start compiles for half a minute on an idle machine, and for longer on a busy or small one."""
STOP_WITHIN_S: Final = 30.0
LOG_LINES: Final = 30
"""How much of its log is passed on when it fails."""

_PR_SET_PDEATHSIG: Final = 1
_libc: Final = ctypes.CDLL(None)


class DemoError(Exception):
    """A part of the demo failed; one line. `log` is what the part had to say, if anything."""

    def __init__(self, reason: str, log: str = "") -> None:
        super().__init__(reason)
        self.log = log


class Service:
    """A running `venue serve`; made by `start`. Its log goes to a file in the folder."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        """Use `start`."""
        self.addresses: dict[str, tuple[str, int]] = {}
        """By name (orders, feed, http), once ready."""
        self._process = process
        self._log = log

    @classmethod
    async def start(cls, folder: Path, request_server: tuple[str, int]) -> Service:
        """Start it on any free ports, with the address where it may ask for lost messages of the feed."""
        config, log = folder / "venue.toml", folder / "venue.log"
        config.write_text('[feed]\nrequest_server = "{}:{}"\n'.format(*request_server))
        ports = [word for name in ("order", "feed", "http") for word in (f"--{name}-port", "0")]
        with log.open("wb") as file, _deaf_to_ctrl_c():
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "venue", "serve", "--config", str(config), *ports),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=file,
                preexec_fn=_end_with_parent,
            )
        return cls(process, log)

    async def ready(self) -> None:
        """Wait for the line that says where it listens. Raises DemoError."""
        stdout = self._process.stdout
        assert stdout is not None
        try:
            async with asyncio.timeout(READY_WITHIN_S):
                line = await stdout.readline()
        except TimeoutError:
            raise DemoError(f"the exchange was not ready after {READY_WITHIN_S:.0f} s") from None
        if not line:
            raise await self.failure()
        for name, address in json.loads(line).items():
            if isinstance(address, str):
                host, _, port = address.rpartition(":")
                self.addresses[name] = (host, int(port))

    async def ended(self) -> None:
        """Wait until the process is gone."""
        await self._process.wait()

    async def failure(self) -> DemoError:
        """Why it has gone."""
        code = await self._process.wait()
        lines = self._log.read_text(errors="replace").splitlines()[-LOG_LINES:]
        how = f"exit code {code}" if code >= 0 else f"signal {-code}"
        return DemoError(f"the exchange ended with {how}", "\n".join(lines))

    async def stop(self) -> None:
        """As Ctrl-C would, and by force only if that does not help."""
        if self._process.returncode is None:
            self._process.terminate()
        try:
            async with asyncio.timeout(STOP_WITHIN_S):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()


@contextmanager
def _deaf_to_ctrl_c() -> Iterator[None]:
    """What is started here does not hear Ctrl-C, which a terminal sends to all of us: the parts of a demo stop in
    order. A signal mask outlives exec; a Ctrl-C that comes meanwhile comes a moment later."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end_with_parent() -> None:
    """In the new process: SIGTERM comes when the demo dies, however it dies (prctl(2), which only Linux has)."""
    if sys.platform == "linux":
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
