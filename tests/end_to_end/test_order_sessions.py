"""Sessions over TCP against the whole exchange: framing, resume, take-over, disconnects, and clients that are slow."""

from __future__ import annotations

import asyncio
import socket

import pytest

from exchange_rig import QUERY, Trader, Venue, accounts, cancel, enter, replace, say, with_exchange
from gateway_rig import SESSION, login_packet
from venue.wire import ouch
from venue.wire.soupbintcp import LoginAccepted, frame
from venue_clients.trading import Status

LIVE_ONLY = {"mode": "match"}


# --- framing ------------------------------------------------------------------------------------------------------


async def in_pieces(client: Trader, *pieces: bytes) -> None:
    """Each piece in a write of its own, and the exchange gets its turn to read it."""
    for piece in pieces:
        await client.send(piece)
        await asyncio.sleep(0)
        await asyncio.sleep(0)


@with_exchange(engine=LIVE_ONLY)
async def test_one_byte_at_a_time(venue: Venue) -> None:
    client = await venue.connect()
    data = login_packet(sequence=0) + enter(1, "B", 5, 100_0000) + cancel(1, 2) + QUERY
    await in_pieces(client, *(data[at : at + 1] for at in range(len(data))))
    assert isinstance(await client.login_answer(), LoginAccepted)
    said = [say(await client.message()) for _ in range(3)]
    assert said == ["accepted 1: B 5 @ 1000000", "canceled 1: 3 U", "next number 2"]


@with_exchange(engine=LIVE_ONLY)
async def test_a_split_at_every_offset(venue: Venue) -> None:
    client = await venue.login()
    length = len(enter(1, "B", 5, 100_0000) + cancel(1, 2) + frame(b"R", b"") + QUERY)
    for offset in range(length + 1):
        number = offset + 1
        data = enter(number, "B", 5, 100_0000) + cancel(number, 2) + frame(b"R", b"") + QUERY
        await in_pieces(client, data[:offset], data[offset:])
        said = [say(await client.message()) for _ in range(3)]
        assert said == [f"accepted {number}: B 5 @ 1000000", f"canceled {number}: 3 U", f"next number {number + 1}"]


@with_exchange(engine=LIVE_ONLY)
async def test_two_hundred_messages_in_one_piece(venue: Venue) -> None:
    client = await venue.login()
    orders = [enter(number, "B", 5, 100_0000) for number in range(1, 101)]
    heard = await client.hear(*orders, *(cancel(number) for number in range(1, 101)))
    assert heard == [f"accepted {number}: B 5 @ 1000000" for number in range(1, 101)] + [
        f"canceled {number}: 5 U" for number in range(1, 101)
    ]


BAD = {
    "a packet of length 0": b"\0\0",
    "an unknown packet": frame(b"?", b"what"),
    "a server's packet": frame(b"S", ouch.SystemEvent(timestamp=1, event_code="S").encode()),
    "an unknown message": frame(b"U", b"?what"),
    "no message": frame(b"U", b""),
    "half a message": frame(b"U", enter(2, "B", 5, 100_0000)[3:30]),
    "options that are cut": frame(b"U", enter(2, "B", 5, 100_0000)[3:-2] + b"\x00\x08\x05\x03"),
    "another login": login_packet(),
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
@with_exchange(engine=LIVE_ONLY)
async def test_what_cannot_be_read_ends_its_session_and_nothing_else(venue: Venue, bad: bytes) -> None:
    """What came before it counts, what comes after it does not: who knows what it would mean. The answer to the first
    order may come too late for this connection; it is there for the next one."""
    client, other = await venue.login("ALPHA"), await venue.login("BETA")
    await client.send(enter(1, "B", 5, 100_0000) + bad + enter(3, "B", 7, 100_0000))
    assert len(await client.rest()) <= 1
    assert venue.count("protocol_errors") == 1
    assert await other.hear(enter(1, "S", 5, 100_0000)) == ["accepted 1: S 5 @ 1000000", "executed 1: 5 @ 1000000 R"]
    again = await venue.login("ALPHA", sequence=2)
    assert await again.hear(enter(2, "B", 9, 1_0000)) == [
        "accepted 1: B 5 @ 1000000",
        "executed 1: 5 @ 1000000 A",
        "accepted 2: B 9 @ 10000",
    ]


# --- resuming -----------------------------------------------------------------------------------------------------


@with_exchange(engine=LIVE_ONLY)
async def test_the_day_again_from_any_number(venue: Venue) -> None:
    """From 1 all of it, from N what follows, from 0 and from beyond the end only what is new; the same bytes."""
    client, other = await venue.login("ALPHA", sequence=1), await venue.login("BETA")
    await client.hear(enter(1, "B", 100, 100_0000), enter(2, "B", 10, 99_0000), cancel(2), enter(3, "X", 1, 1))
    await other.hear(enter(1, "S", 60, 100_0000))
    await client.hear(replace(1, 4, 200, 101_0000))
    stream = venue.stream()
    client.close()
    await venue.until(lambda: venue.count("connections_total") == 2 and len(venue.gateway.connections) == 1)
    starts = [0]
    while starts[-1] < len(stream):
        starts.append(starts[-1] + 2 + int.from_bytes(stream[starts[-1] : starts[-1] + 2], "big"))
    assert len(starts) == 10
    for sequence in range(1, 10):
        again = await venue.connect()
        answer = await again.login("ALPHA", session=SESSION, sequence=sequence)
        assert answer == LoginAccepted(session=SESSION, sequence=sequence)
        assert await again.raw(len(stream) - starts[sequence - 1]) == stream[starts[sequence - 1] :]
    for sequence in (0, 10, 11, 10**15):
        again = await venue.connect()
        answer = await again.login("ALPHA", sequence=sequence)
        assert answer == LoginAccepted(session=SESSION, sequence=10)
    assert await again.hear() == []
    assert venue.stream()[: len(stream)] == stream


@with_exchange(engine=LIVE_ONLY)
async def test_orders_sent_again_after_a_reconnect_are_no_new_orders(venue: Venue) -> None:
    client = await venue.login("ALPHA", sequence=1)
    orders = [enter(number, "B", 100, 100_0000) for number in range(1, 6)] + [cancel(1), replace(2, 6, 50, 99_0000)]
    first = await client.hear(*orders)
    assert len(first) == 8
    client.close()
    again = await venue.login("ALPHA", sequence=1)
    assert await again.hear(*orders) == first, "up to the first query's answer"
    assert await again.hear() == []
    assert venue.count("orders_accepted", "matcher") == 5
    assert venue.count("ignored_duplicates", "matcher") == 5


@with_exchange(engine=LIVE_ONLY)
async def test_heartbeats_come_between_and_have_no_number(venue: Venue) -> None:
    now_ns = venue.gateway.clock()
    venue.gateway.clock = lambda: now_ns
    client = await venue.login("ALPHA", sequence=1)
    await client.hear()
    for _ in range(3):
        now_ns += 1_000_000_000
        venue.gateway.tick()
        assert await client.next() == b"H"
    assert await client.hear(enter(1, "B", 1, 1_0000)) == ["accepted 1: B 1 @ 10000"]
    assert venue.gateway.store.streams[0].count == 1 + 1 + 1 + 1


@with_exchange(engine=LIVE_ONLY)
async def test_the_trading_client_comes_back_by_itself(venue: Venue) -> None:
    """Its connection breaks while an order is on its way; nothing comes twice, and nothing is lost."""
    other = await venue.login("BETA")
    async with await venue.client("ALPHA") as client:
        first = client.enter("AAPL", "B", 100, 100_0000)
        await client.query()
        (connection,) = [c for c in venue.gateway.connections if c.account == 0]
        connection.cut("pulled the plug")
        second = client.enter("AAPL", "B", 50, 99_0000)
        await other.hear(enter(1, "S", 40, 100_0000))
        await venue.until(lambda: client.reconnects == 1 and client.connected)
        assert await client.query() == 3
        orders = client.view.orders
        assert [(orders[n].status, orders[n].open) for n in (first, second)] == [(Status.LIVE, 60), (Status.LIVE, 50)]
        assert client.view.positions == {"AAPL": 40}
        sequences = []
        while len(sequences) < client.next_sequence - 1:
            sequences.append((await anext(client)).sequence)
        assert sequences == list(range(1, client.next_sequence))
    assert venue.count("orders_accepted", "matcher") == 3


# --- one connection an account ------------------------------------------------------------------------------------


@with_exchange(engine=LIVE_ONLY, accounts=accounts({"cancel_on_disconnect": True}))
async def test_a_newer_login_takes_over(venue: Venue) -> None:
    """Also where a disconnect cancels: the account was never without a connection."""
    older = await venue.login("ALPHA", sequence=1)
    await older.hear(enter(1, "B", 100, 100_0000))
    newer = await venue.login("ALPHA")
    assert await older.rest() == []
    assert await newer.hear(cancel(1, 60)) == ["canceled 1: 40 U"]
    assert (venue.count("takeovers"), venue.count("live_orders", "matcher")) == (1, 1)
    assert len(venue.gateway.connections) == 1


@with_exchange(engine=LIVE_ONLY, accounts=accounts({"cancel_on_disconnect": True}))
async def test_orders_go_with_the_connection_where_the_account_says_so(venue: Venue) -> None:
    leaving, staying = await venue.login("ALPHA"), await venue.login("BETA")
    for client in (leaving, staying):
        await client.hear(enter(1, "B", 100, 100_0000), enter(2, "B", 10, 99_0000))
        client.close()
    await venue.until(lambda: not venue.gateway.connections)
    leaving, staying = await venue.login("ALPHA", sequence=5), await venue.login("BETA", sequence=5)
    assert sorted(await leaving.hear()) == ["canceled 1: 100 Z", "canceled 2: 10 Z"]
    assert await staying.hear() == []
    assert [price for price, _ in venue.book()[0]] == [100_0000, 99_0000]
    assert venue.view.account(0)["open_notional"] == 0


# --- slow clients -------------------------------------------------------------------------------------------------


@with_exchange(engine=LIVE_ONLY, orders={"max_unsent_bytes": 1 << 16})
async def test_a_client_that_does_not_read_is_cut_and_finds_everything_again(venue: Venue) -> None:
    """Its fills are not read; the other side's orders are answered all the time, and the matcher waits for nobody."""
    venue.sockets.orders.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16_384)  # its connections inherit it
    slow, quick = await venue.login("ALPHA", sequence=1, receive_buffer_bytes=4_096), await venue.login("BETA")
    await slow.send(enter(1, "S", 100_000, 100_0000))
    (connection,) = [c for c in venue.gateway.connections if c.account == 0]
    taken, largest = 0, 0
    while venue.count("slow_client_cuts") == 0:
        first = taken + 1
        heard = await quick.hear(*(enter(number, "B", 1, 100_0000) for number in range(first, first + 200)))
        assert len(heard) == 400
        taken += 200
        largest = max(largest, connection.unsent_bytes())
        assert taken < 20_000
    assert connection.end_reason.startswith("slow: ")
    assert largest < (1 << 16) + 200 * 39, "no more than the limit and what came in one go"
    assert venue.count("event_ring_full", "matcher") == 0
    stream = venue.stream()
    again = await venue.connect()
    await again.login("ALPHA", sequence=1)
    assert await again.raw(len(stream)) == stream
    assert await again.hear(cancel(1)) == [f"canceled 1: {100_000 - taken} U"]


@with_exchange(engine=LIVE_ONLY)
async def test_the_day_ends_for_everybody(venue: Venue) -> None:
    client, other = await venue.login("ALPHA", sequence=1), await venue.login("BETA")
    await client.hear(enter(1, "B", 1, 1_0000))
    stopping = asyncio.create_task(venue.stop())
    assert say(await client.message()) == "system event E"
    assert await client.rest() == [b"Z"]
    assert say(await other.message()) == "system event E"
    assert await other.rest() == [b"Z"]
    await stopping
