"""A client's connection to a venue that says nothing."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from venue.wire.soupbintcp import LoginAccepted, packet
from venue_clients.connection import Connection
from virtual_time import SECOND, VirtualLoop, VirtualSelector


class Silent(asyncio.Transport):
    """A venue that accepts the login and says no more; in memory."""

    def __init__(self, loop: VirtualLoop, connection: Connection) -> None:
        super().__init__()
        self._loop, self._connection = loop, connection
        self.written: list[tuple[int, bytes]] = []
        self.closed = False

    def write(self, data: bytes) -> None:  # type: ignore[override]
        second = (self._loop.selector.now_ns - VirtualSelector.now_ns) // SECOND
        self.written.append((second, bytes(data[2:3])))
        if data[2:3] == b"L":
            self._connection.data_received(packet(LoginAccepted(session="TEST", sequence=1)))

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True
        self._loop.call_soon(self._connection.connection_lost, None)


def test_a_client_shows_life_every_second_and_hangs_up_on_a_venue_that_shows_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop = VirtualLoop()
    monkeypatch.setattr("venue_clients.connection.time", SimpleNamespace(monotonic_ns=lambda: loop.selector.now_ns))
    reasons: list[str] = []

    async def story() -> Silent:
        def on_lost(connection: Connection, reason: str) -> None:
            reasons.append(reason)
            lost.set()

        lost = asyncio.Event()
        connection = Connection(lambda connection, event: None, on_lost)
        venue = Silent(loop, connection)
        connection.connection_made(venue)
        connection.login("TRADER", "venue", "", 0)
        await lost.wait()
        return venue

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        venue = runner.run(story())
    assert venue.written == [(0, b"L"), *((second, b"R") for second in range(1, 15))]
    assert reasons == ["the venue has been silent for too long"]
