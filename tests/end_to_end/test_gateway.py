"""The order gateway on a real socket: framing, streams, and how connections end."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from gateway_rig import (
    DAY_STARTS,
    NAMES,
    OFFSET_NS,
    SESSION,
    START_NS,
    Client,
    Rig,
    accepted,
    cancel,
    canceled,
    login_packet,
    order,
    with_gateway,
)
from venue import app
from venue.connection import RECEIVE_BYTES
from venue.engine import records as r
from venue.engine import ring
from venue.wire import ouch
from venue.wire.soupbintcp import LoginAccepted, LoginRejected, frame

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
