"""The order gateway on a real socket: who may log in, and how many at once."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Literal

import pytest

from gateway_rig import (
    DAY_STARTS,
    PASSWORD,
    SESSION,
    Rig,
    accepted,
    cancel,
    canceled,
    login_packet,
    order,
    with_gateway,
)
from venue.engine import cells, counters
from venue.wire.soupbintcp import LoginAccepted, LoginRejected, frame


@with_gateway()
async def test_the_day_begins_and_orders_are_answered(rig: Rig) -> None:
    client = await rig.client()
    assert await client.login("alpha", PASSWORD.lower(), SESSION, 1) == LoginAccepted(session=SESSION, sequence=1)
    await client.send(order(1) + cancel(1) + order(2))
    assert await client.messages(4) == [DAY_STARTS, accepted(1), canceled(1), accepted(2)]
    assert [rig.count(name) for name in ("logins_accepted", "connections_total")] == [1, 1]
    assert rig.page.gateway[0]["messages_in"][ord("O")] == 2
    assert rig.page.gateway[0]["messages_out"][ord("A")] == 2
    for place in (counters.SOCKET_TO_RING, counters.RING_BACK, counters.ENCODE_WRITE, counters.ORDER_TO_ACK):
        assert cells.count(rig.page.histograms[place]) == 3
    assert rig.count("bytes_in") == len(login_packet() + order(1) + cancel(1) + order(2))
    assert rig.count("bytes_out") == 33 + len(rig.stream())


@with_gateway()
async def test_login_fields_may_be_padded_on_either_side(rig: Rig) -> None:
    client = await rig.client()
    await client.send(b"\0\x2fL" + b" alpha" + b"secret".rjust(10) + b"TODAY\0\0\0\0\0" + b"1".ljust(20))
    assert await client.login_answer() == LoginAccepted(session=SESSION, sequence=1)


@pytest.mark.parametrize(
    ("username", "password", "session", "reason"),
    [
        ("ALPHA", "wrong", "", "A"),
        ("NOBODY", PASSWORD, "", "A"),
        ("", "", "", "A"),
        ("ALPHA", PASSWORD, "YESTERDAY", "S"),
        ("ALPHA", "wrong", "YESTERDAY", "A"),
    ],
)
def test_wrong_logins(tmp_path: Path, username: str, password: str, session: str, reason: Literal["A", "S"]) -> None:
    @with_gateway()
    async def scenario(rig: Rig) -> None:
        client = await rig.client()
        assert await client.login(username, password, session) == LoginRejected(reason=reason)
        assert await client.rest() == []
        counter = "logins_rejected_not_authorized" if reason == "A" else "logins_rejected_no_session"
        assert rig.count(counter) == 1
        assert rig.count("logins_accepted") == 0

    scenario(tmp_path)


@with_gateway()
async def test_whoever_guesses_waits_and_nobody_else_does(rig: Rig) -> None:
    for _ in range(2):
        client = await rig.client()
        assert await client.login(password="guess") == LoginRejected(reason="A")
        client.close()
    for number, delay_s in enumerate([1, 2, 4, 4]):
        client = await rig.client()
        await client.send(login_packet(password="guess"))
        await rig.until(lambda n=number: rig.count("logins_rejected_not_authorized") == 3 + n)
        await rig.until(lambda: len(rig.gateway.connections) == 1)
        rig.advance(delay_s - 0.1)
        good = await rig.login()
        assert len(rig.gateway.connections) == 2, "one of them still waits"
        good.close()
        rig.advance(0.2)
        assert await client.login_answer() == LoginRejected(reason="A")
        client.close()
        await rig.until(lambda: not rig.gateway.connections)


@with_gateway()
async def test_no_password_in_any_log(rig: Rig) -> None:
    records: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = records.append  # type: ignore[method-assign]
    logger = logging.getLogger("venue")
    logger.addHandler(handler)
    level, _ = logger.level, logger.setLevel(logging.DEBUG)
    try:
        await (await rig.client()).login(password="hunter2hun")
        await rig.login()
        broken = await rig.client()
        await broken.send(frame(b"L", b"ALPHA hunter2hun"))
        await broken.rest()
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
    text = " ".join(str(vars(record)) for record in records)
    assert "login rejected" in text
    assert "login accepted" in text
    assert "hunter2hun" not in text
    assert PASSWORD not in text


@with_gateway()
async def test_a_socket_that_does_not_log_in_is_closed_after_ten_seconds(rig: Rig) -> None:
    client = await rig.client()
    await rig.until(lambda: len(rig.gateway.connections) == 1)
    await client.send(b"\0\x2fL")
    rig.advance(9.9)
    assert len(rig.gateway.connections) == 1
    rig.advance(0.2)
    assert await client.rest() == []
    assert rig.count("login_timeouts") == 1


@with_gateway(max_connections=2)
async def test_more_connections_than_allowed_are_refused(rig: Rig) -> None:
    first, second = await rig.login(), await rig.login("BETA")
    assert await (await rig.client()).rest() == []
    second.close()
    await rig.until(lambda: len(rig.gateway.connections) == 1)
    await rig.login("BETA")
    await first.send(order(1))
    assert await first.messages(2) == [DAY_STARTS, accepted(1)]


@with_gateway(max_connections=8)
async def test_sockets_that_do_not_log_in_make_room_for_those_that_do(rig: Rig) -> None:
    """The longest silent one goes first; who is logged in stays."""
    trader = await rig.login()
    silent = [await rig.client() for _ in range(20)]
    other = await rig.login("BETA")
    assert len(rig.gateway.connections) <= 2 + 4
    for client in silent[:16]:
        assert await client.rest() == []
    for client in (trader, other):
        await client.send(order(1))
        assert await client.messages(2) == [DAY_STARTS, accepted(1)]
    await silent[-1].send(login_packet("GAMMA"))
    assert await silent[-1].login_answer() == LoginAccepted(session=SESSION, sequence=1)


@with_gateway(max_connections=8)
async def test_one_host_takes_no_more_than_half_of_the_places(rig: Rig) -> None:
    elsewhere = await rig.client()
    await rig.until(lambda: len(rig.gateway.connections) == 1)
    (connection,) = rig.gateway.connections
    connection.host = "192.0.2.1"
    for _ in range(20):
        await rig.client()
    await rig.until(lambda: rig.count("connections_total") == 21)
    await elsewhere.send(login_packet())
    assert await elsewhere.login_answer() == LoginAccepted(session=SESSION, sequence=1)


@with_gateway(max_connections=2)
async def test_a_connection_that_is_gone_takes_no_check(rig: Rig) -> None:
    checks: list[asyncio.Task[None] | None] = []

    async def check(username: str, password: str, host: str) -> None:
        checks.append(asyncio.current_task())
        await asyncio.Event().wait()

    rig.gateway._authenticator.check = check  # type: ignore[method-assign, assignment]
    client = await rig.client()
    await client.send(login_packet())
    await rig.until(lambda: len(checks) == 1)
    await rig.client()
    (task,) = checks
    await rig.until(lambda: task is not None and task.cancelled())
