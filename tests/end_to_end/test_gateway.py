"""The order gateway on a real socket: logins, framing, streams, and how connections end."""

from __future__ import annotations

import asyncio
import logging
import random
from pathlib import Path
from typing import Literal

import pytest

from gateway_rig import (
    NAMES,
    OFFSET_NS,
    PASSWORD,
    SESSION,
    START_NS,
    Client,
    Rig,
    cancel,
    login_packet,
    order,
    with_gateway,
)
from venue import app
from venue.connection import RECEIVE_BYTES
from venue.engine import cells, counters, ring
from venue.engine import records as r
from venue.wire import ouch
from venue.wire.soupbintcp import LoginAccepted, LoginRejected, frame

DAY_STARTS = ouch.SystemEvent(timestamp=START_NS + OFFSET_NS, event_code="S")


def accepted(number: int) -> ouch.Accepted:
    return ouch.Accepted(
        timestamp=START_NS + OFFSET_NS,
        user_ref_num=number,
        side="B",
        quantity=100,
        symbol="AAPL",
        price=1_000_000,
        time_in_force="0",
        display="Y",
        order_reference_number=r.FIRST_OWN_REFERENCE,
        capacity="P",
        intermarket_sweep_eligibility="N",
        cross_type="N",
        order_state="L",
        cl_ord_id=f"order {number}",
    )


def canceled(number: int, reason: str = "U") -> ouch.Canceled:
    return ouch.Canceled(timestamp=START_NS + OFFSET_NS, user_ref_num=number, quantity=100, reason=reason)


# --- logging in -----------------------------------------------------------------------------------------


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


# --- framing --------------------------------------------------------------------------------------------


@with_gateway()
async def test_one_byte_at_a_time(rig: Rig) -> None:
    client = await rig.client()
    for byte in login_packet() + order(1) + frame(b"R") + order(2):
        await client.send(bytes([byte]))
    assert await client.login_answer() == LoginAccepted(session=SESSION, sequence=1)
    assert await client.messages(3) == [DAY_STARTS, accepted(1), accepted(2)]


@with_gateway()
async def test_a_login_and_two_hundred_orders_in_one_piece(rig: Rig) -> None:
    client = await rig.client()
    await client.send(login_packet() + b"".join(order(number) for number in range(1, 201)))
    assert await client.login_answer() == LoginAccepted(session=SESSION, sequence=1)
    assert await client.messages(201) == [DAY_STARTS, *(accepted(number) for number in range(1, 201))]


@with_gateway()
async def test_more_than_a_buffer_of_orders_behind_a_login_waits_for_its_answer(rig: Rig) -> None:
    answered, check = asyncio.Event(), rig.gateway._authenticator.check

    async def slow_check(username: str, password: str, host: str) -> int | None:
        await answered.wait()
        return await check(username, password, host)

    rig.gateway._authenticator.check = slow_check  # type: ignore[method-assign]
    client = await rig.client()
    data = login_packet() + b"".join(order(number) for number in range(1, 6_001))
    assert len(data) > 2 * RECEIVE_BYTES
    sending = asyncio.ensure_future(client.send(data))
    await rig.until(lambda: any(not c.transport.is_reading() for c in rig.gateway.connections))
    assert not client_got_anything(client)
    answered.set()
    assert await client.login_answer() == LoginAccepted(session=SESSION, sequence=1)
    assert await client.messages(6_001) == [DAY_STARTS, *(accepted(number) for number in range(1, 6_001))]
    await sending


def client_got_anything(client: Client) -> bool:
    try:
        return bool(client.sock.recv(1))
    except BlockingIOError:
        return False


@with_gateway()
async def test_orders_behind_a_wrong_login_do_nothing(rig: Rig) -> None:
    client = await rig.client()
    await client.send(login_packet(password="wrong") + order(1))
    assert await client.login_answer() == LoginRejected(reason="A")
    await client.rest()
    assert all(kind == r.DAY_EVENT for kind, _, _ in rig.matcher.seen)


@pytest.mark.parametrize(
    "bad",
    [
        b"\0\0",
        frame(b"?"),
        frame(b"Z"),
        frame(b"U"),
        frame(b"U", b"?"),
        frame(b"U", b"O" + bytes(20)),
        frame(b"R", b"x"),
        login_packet(),
        order(9)[:-2] + b"\0\7",
    ],
    ids=lambda bad: bad[:12].hex(),
)
def test_a_bad_packet_ends_the_connection_after_what_came_before_it(tmp_path: Path, bad: bytes) -> None:
    @with_gateway()
    async def scenario(rig: Rig) -> None:
        client = await rig.login(sequence=0)
        other = await rig.login("BETA", sequence=0)
        await client.send(order(1) + bad + order(2))
        await client.rest()
        assert rig.count("protocol_errors") == 1
        await other.send(order(1))
        assert await other.messages(1) == [accepted(1)]
        assert (r.ENTER, 0, 1) in rig.matcher.seen
        assert (r.ENTER, 0, 2) not in rig.matcher.seen

    scenario(tmp_path)


@with_gateway()
async def test_noise_ends_its_own_connection_and_nothing_else(rig: Rig) -> None:
    noise = random.Random(5)
    other = await rig.login("BETA", sequence=0)
    start = login_packet() + order(1) + frame(b"R")
    for attempt in range(200):
        data = bytearray(start + b"".join(order(number) for number in range(2, 6)))
        for _ in range(noise.randint(1, 6)):
            data[noise.randrange(0 if attempt % 2 else 49, len(data))] = noise.randrange(256)
        client = await rig.client()
        await client.send(data[: noise.randint(1, len(data))])
        client.close()
    while len(rig.gateway.connections) > 1:  # some of the logins are wrong and answered late
        await other.send(frame(b"R"))
        rig.advance(0.1)
        await asyncio.sleep(0)
    await other.send(order(1))
    while (answer := await other.next()) == b"H":
        pass
    assert ouch.Accepted.decode(answer[1:]).user_ref_num == 1


@with_gateway()
async def test_an_order_is_not_a_login(rig: Rig) -> None:
    client = await rig.client()
    await client.send(order(1))
    assert await client.rest() == []
    assert rig.count("protocol_errors") == 1


# --- the stream -----------------------------------------------------------------------------------------


@with_gateway()
async def test_a_client_that_comes_back_gets_the_same_bytes(rig: Rig) -> None:
    client = await rig.login()
    await client.send(b"".join(order(number) for number in range(1, 11)) + cancel(3))
    live = await client.raw(len(frame(b"S", DAY_STARTS.encode())) + 10 * 67 + 21)
    assert live == rig.stream()
    client.close()
    for sequence, start in [(1, 0), (2, 13), (12, 13 + 10 * 67)]:
        again = await rig.client()
        assert await again.login(sequence=sequence) == LoginAccepted(session=SESSION, sequence=sequence)
        assert await again.raw(len(live) - start) == live[start:]
        again.close()


@pytest.mark.parametrize("requested", [0, 4, 5, 10**19, 10**20 - 1])
def test_from_now_and_beyond_the_end_mean_the_next_number(tmp_path: Path, requested: int) -> None:
    @with_gateway()
    async def scenario(rig: Rig) -> None:
        client = await rig.login()
        await client.send(order(1) + order(2))
        await client.messages(3)
        again = await rig.client()
        assert await again.login(sequence=requested) == LoginAccepted(session=SESSION, sequence=4)
        await again.send(order(3))
        assert await again.messages(1) == [accepted(3)]

    scenario(tmp_path)


@with_gateway()
async def test_each_account_has_a_stream_of_its_own(rig: Rig) -> None:
    first, second = await rig.login("ALPHA"), await rig.login("BETA")
    await first.send(order(1))
    await second.send(order(7))
    assert await first.messages(2) == [DAY_STARTS, accepted(1)]
    assert await second.messages(2) == [DAY_STARTS, accepted(7)]
    assert rig.matcher.seen[-2:] == [(r.ENTER, 0, 1), (r.ENTER, 1, 7)]


@with_gateway()
async def test_heartbeats_come_when_nothing_else_does_and_use_no_number(rig: Rig) -> None:
    client = await rig.login()
    await client.messages(1)
    rig.advance(0.9)
    rig.advance(0.2)
    assert await client.next() == b"H"
    await client.send(order(1))
    (answer,) = await client.messages(1)
    assert answer.timestamp == START_NS + OFFSET_NS + 1_100_000_000
    rig.advance(0.9)
    rig.advance(0.2)
    assert await client.next() == b"H"
    assert rig.gateway.store.streams[0].count == 2


@with_gateway()
async def test_a_client_that_says_nothing_for_fifteen_seconds_is_cut(rig: Rig) -> None:
    client = await rig.login(sequence=0)
    rig.advance(14)
    await client.send(frame(b"R"))
    await rig.until(lambda: rig.count("bytes_in") == len(login_packet()) + 3)
    rig.advance(14)
    assert len(rig.gateway.connections) == 1
    rig.advance(1.1)
    assert set(await client.rest()) <= {b"H"}
    assert rig.count("silence_cuts") == 1


@with_gateway(cancel_on_disconnect=True)
async def test_a_newer_login_takes_over_and_cancels_nothing(rig: Rig) -> None:
    older = await rig.login()
    await older.send(order(1))
    await older.messages(2)
    newer = await rig.login(sequence=2)
    assert await newer.messages(1) == [accepted(1)]
    assert await older.rest() == []
    await newer.send(order(2))
    assert await newer.messages(1) == [accepted(2)]
    assert rig.count("takeovers") == 1
    rig.gateway.tick()
    assert (rig.count("sessions"), rig.count("connections_open")) == (1, 1)
    assert all(kind != r.CANCEL_ALL for kind, _, _ in rig.matcher.seen)


@with_gateway(cancel_on_disconnect=True)
async def test_orders_are_canceled_when_the_connection_goes(rig: Rig) -> None:
    client = await rig.login()
    await client.send(order(1) + order(2))
    await client.messages(3)
    client.close()
    await rig.until(lambda: (r.CANCEL_ALL, 0, ord("Z")) in rig.matcher.seen)
    again = await rig.login(sequence=4)
    assert await again.messages(2) == [canceled(1, "Z"), canceled(2, "Z")]


@with_gateway()
async def test_orders_stay_when_the_connection_goes(rig: Rig) -> None:
    client = await rig.login()
    await client.send(order(1))
    await client.messages(2)
    await client.send(frame(b"O"))
    assert await client.rest() == []
    again = await rig.login(sequence=0)
    await again.send(cancel(1))
    assert await again.messages(1) == [canceled(1)]


@with_gateway()
async def test_the_end_of_the_session(rig: Rig) -> None:
    clients = [await rig.login(name) for name in NAMES]
    stranger = await rig.client()
    rig.gateway.end_day()
    rig.matcher.run()
    await rig.gateway.stop()
    day_ends = ouch.SystemEvent(timestamp=START_NS + OFFSET_NS, event_code="E")
    for client in clients:
        assert await client.messages(2) == [DAY_STARTS, day_ends]
        assert await client.rest() == [b"Z"]
    assert await stranger.rest() == []
    with pytest.raises(ConnectionRefusedError):
        await rig.client()


@with_gateway(cancel_on_disconnect=True)
async def test_no_order_and_no_cancel_comes_after_the_end_of_the_day(rig: Rig) -> None:
    client = await rig.login()
    (connection,) = rig.gateway.connections
    rig.gateway.end_day()
    connection.get_buffer(-1)[: len(order(1))] = order(1)
    connection.buffer_updated(len(order(1)))
    client.close()
    await rig.until(lambda: not rig.gateway.connections)
    rig.matcher.run()
    days = [(r.DAY_EVENT, account, ord(event)) for event in "SE" for account in range(len(NAMES))]
    assert rig.matcher.seen == days


@with_gateway(ring_capacity=2)
async def test_the_end_of_the_day_waits_for_room_and_the_exchange_for_it(rig: Rig) -> None:
    client = await rig.login()
    rig.matcher.stalled = True
    await client.send(order(1) + order(2) + order(3))
    await rig.until(lambda: any(rig.gateway.waits_for_room(c) for c in rig.gateway.connections))
    rig.gateway.end_day()
    rig.matcher.stalled = False
    rig.matcher.run()
    assert ring.depth(rig.link.commands) == 0
    await app.settle(rig.gateway, [rig.link.commands])
    ends = [(r.DAY_EVENT, account, ord("E")) for account in range(len(NAMES))]
    assert rig.matcher.seen[3:] == [(r.ENTER, 0, 1), (r.ENTER, 0, 2), *ends]


@with_gateway()
async def test_an_event_that_does_not_exist_stops_everything(rig: Rig) -> None:
    row = rig.link.events.records[0:].view()[rig.link.events.control[0] & (len(rig.link.events.records) - 1)]
    row["kind"], row["account"] = ord("?"), 0
    rig.link.events.control[0] += 1
    with pytest.raises(RuntimeError, match="kind 63"):
        rig.gateway.handle_events()
    row["kind"] = r.SYSTEM_EVENT  # so that the gateway can stop
