"""The order gateway when somebody is too slow: the matching thread, a client, or the end of a store."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path

import pytest

from gateway_rig import Client, Rig, cancel, order, with_gateway
from venue import connection as connections
from venue import gateway as gateways
from venue.engine import records as r
from venue.engine import ring
from venue.wire import ouch
from venue.wire.soupbintcp import frame

CANCELED_BYTES = 21
UNSENT = 64 << 10


async def orders_sent(client: Client, first: int, last: int) -> None:
    """Orders, as fast as the other side takes them."""
    await client.send(b"".join(order(number) for number in range(first, last + 1)))


def numbers(messages: list[ouch.OutboundMessage]) -> list[int]:
    return [message.user_ref_num for message in messages if isinstance(message, ouch.Accepted)]


# --- the matching thread --------------------------------------------------------------------------------


@with_gateway(ring_capacity=16)
async def test_a_full_command_ring_stops_reading_and_loses_nothing(rig: Rig) -> None:
    first, second = await rig.login("ALPHA", sequence=0), await rig.login("BETA", sequence=0)
    rig.matcher.stalled = True
    sending = asyncio.gather(orders_sent(first, 1, 4_000), orders_sent(second, 1, 4_000))
    await rig.until(lambda: rig.count("command_ring_full") == 1)
    await rig.until(lambda: all(not c.transport.is_reading() for c in rig.gateway.connections))
    assert ring.depth(rig.link.commands) == 16
    assert rig.page.gateway[0]["messages_in"][ord("O")] == 16
    rig.matcher.stalled = False
    rig.matcher.run()
    for client in (first, second):
        assert numbers(await client.messages(4_000)) == list(range(1, 4_001))
    await sending
    first_orders = [account for kind, account, _ in rig.matcher.seen if kind == r.ENTER][:400]
    assert min(first_orders.count(account) for account in (0, 1)) > 100, "they take turns"
    assert all(c.transport.is_reading() for c in rig.gateway.connections)
    await first.send(order(4_001))
    assert numbers(await first.messages(1)) == [4_001]


@with_gateway(ring_capacity=2)
async def test_a_client_that_is_cut_while_another_one_reads_on_waits_no_longer(rig: Rig) -> None:
    """Whoever reads on delivers to all, which shows that a client is too slow that waits for the ring as well."""
    quick = await rig.login("ALPHA", sequence=0)
    slow = await rig.login("BETA", sequence=0, receive_buffer_bytes=4_096)
    first, second = rig.gateway._live[:2]
    assert first is not None
    assert second is not None
    await filled_up(rig, 1)
    rig.matcher.stalled = True
    await orders_sent(quick, 1, 3)
    await orders_sent(slow, 1, 3)
    await rig.until(lambda: list(rig.gateway._waiting) == [first, second])
    rig.gateway.max_unsent_bytes = 1
    rig.matcher.flood(1, 10)
    rig.matcher.stalled = False
    rig.matcher.run()  # there is room
    rig.gateway._try_again()
    assert second.end_reason.startswith("slow")
    assert (list(rig.gateway._waiting), rig.gateway._full, rig.gateway._retry) == ([], False, None)
    assert numbers(await quick.messages(3)) == [1, 2, 3]


@with_gateway(ring_capacity=2, cancel_on_disconnect=True)
async def test_no_order_passes_a_cancel_on_disconnect_that_waits(rig: Rig) -> None:
    client, other = await rig.login(sequence=0), await rig.login("BETA", sequence=0)
    await client.send(order(1))
    await client.messages(1)
    rig.matcher.stalled = True
    await other.send(order(1) + order(2))
    await rig.until(lambda: ring.depth(rig.link.commands) == 2)
    client.close()
    await rig.until(lambda: rig.gateway.service_waits)
    again = await rig.login(sequence=3)
    rig.matcher.stalled = False
    rig.matcher.run()  # there is room now, and before anyone has noticed comes an order:
    (connection,) = (c for c in rig.gateway.connections if c.account == 0)
    connection.get_buffer(-1)[: len(order(2))] = order(2)
    connection.buffer_updated(len(order(2)))
    taken_off, entered = await again.messages(2)
    assert isinstance(taken_off, ouch.Canceled)
    assert numbers([entered]) == [2]


@with_gateway(ring_capacity=2, cancel_on_disconnect=True)
async def test_a_cancel_on_disconnect_waits_for_room_and_later_orders_wait_behind_it(rig: Rig) -> None:
    client, other = await rig.login(sequence=0), await rig.login("BETA", sequence=0)
    await client.send(order(1))
    await client.messages(1)
    rig.matcher.stalled = True
    await other.send(order(1) + order(2))
    await rig.until(lambda: ring.depth(rig.link.commands) == 2)
    client.close()
    await rig.until(lambda: rig.gateway.service_waits)
    again = await rig.login(sequence=2)
    await again.send(order(2))
    await rig.until(lambda: any(rig.gateway.waits_for_room(c) for c in rig.gateway.connections))
    rig.matcher.stalled = False
    rig.matcher.run()
    entered, taken_off, entered_again = await again.messages(3)
    assert numbers([entered, entered_again]) == [1, 2]
    assert isinstance(taken_off, ouch.Canceled)
    assert (taken_off.user_ref_num, taken_off.reason) == (1, "Z")


# --- a client that does not read ------------------------------------------------------------------------


async def filled_up(rig: Rig, account: int) -> None:
    """Events for an account until its client's kernel takes no more."""
    while (live := rig.gateway._live[account]) is not None and live.transport.get_write_buffer_size() == 0:
        rig.matcher.flood(account, 1_000)
        await asyncio.sleep(0)


@with_gateway(max_unsent_bytes=UNSENT)
async def test_a_client_that_does_not_read_is_cut_at_the_limit_and_finds_everything_again(rig: Rig) -> None:
    slow = await rig.login("ALPHA", sequence=1, receive_buffer_bytes=4_096)
    quick = await rig.login("BETA", sequence=0)
    largest = 0
    while rig.count("slow_client_cuts") == 0:
        rig.matcher.flood(0, 500)
        await quick.send(order(1 + rig.gateway.store.streams[1].count))
        assert len(await quick.messages(1)) == 1, "others go on as ever"
        largest = max([largest, *(c.transport.get_write_buffer_size() for c in rig.gateway.connections)])
    assert 0 < largest <= connections.WRITE_BYTES
    await slow.rest()
    await rig.until(lambda: len(rig.gateway.connections) == 1)
    again = await rig.login("ALPHA", sequence=1)
    assert await again.raw(len(rig.stream())) == rig.stream()


@with_gateway()
async def test_a_client_that_takes_nothing_for_fifteen_seconds_is_cut_below_the_limit_too(rig: Rig) -> None:
    slow = await rig.login("ALPHA", sequence=0, receive_buffer_bytes=4_096)
    await filled_up(rig, 0)
    seconds = 0
    while rig.count("slow_client_cuts") == 0:
        heard = rig.count("bytes_in")
        await slow.send(frame(b"R"))
        await rig.until(lambda before=heard: rig.count("bytes_in") > before)
        rig.advance(1)
        seconds += 1
    assert 15 < seconds < 20
    await rig.until(lambda: not rig.gateway.connections)
    assert (rig.count("slow_client_cuts"), rig.count("silence_cuts")) == (1, 0)
    taken = b"".join(frame(body[:1], body[1:]) for body in await slow.rest())
    assert rig.stream()[13:].startswith(taken), "no heartbeat in the middle of a message"


@pytest.mark.parametrize("last", [frame(b"O"), frame(b"U", b"?")], ids=["logout", "garbage"])
def test_what_a_full_socket_took_in_part_is_whole_before_the_end(tmp_path: Path, last: bytes) -> None:
    """One chunk brings an order and the end, and what is delivered in the same turn does not fit into the socket."""

    @with_gateway()
    async def scenario(rig: Rig) -> None:
        client = await rig.login("ALPHA", sequence=0, receive_buffer_bytes=4_096)
        (connection,) = rig.gateway.connections
        rig.matcher.flood(0, 2_000)
        chunk = order(1) + last
        connection.get_buffer(-1)[: len(chunk)] = chunk
        connection.buffer_updated(len(chunk))
        assert connection.end_reason
        size = 2_000 * CANCELED_BYTES
        assert len(rig.stream()) == 13 + size
        assert connection.transport.get_write_buffer_size() > 0, "it does not fit"
        assert await client.raw(size) == rig.stream()[13 : 13 + size]
        with pytest.raises(EOFError):
            await client.next()

    scenario(tmp_path)


@with_gateway(max_unsent_bytes=UNSENT)
async def test_a_client_may_take_its_time_for_what_was_there_before_it_came(rig: Rig) -> None:
    for _ in range(20):
        rig.matcher.flood(0, 1_000)
        rig.gateway.handle_events()
    size = len(rig.stream())
    assert size > 4 * UNSENT
    client = await rig.login("ALPHA", sequence=1, receive_buffer_bytes=4_096)
    rig.matcher.flood(0, 100)
    rig.gateway.handle_events()
    rig.advance(0.3)
    assert rig.count("slow_client_cuts") == 0
    assert await client.raw(size + 100 * CANCELED_BYTES) == rig.stream()


def test_a_long_replay_leaves_room_for_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that takes everything at once gets a few slices, and then sockets have their turn."""
    monkeypatch.setattr(connections, "WRITE_BYTES", 64)

    @with_gateway()
    async def scenario(rig: Rig) -> None:
        client = await rig.login(sequence=0)
        (connection,) = rig.gateway.connections
        before = connection.stream.sent
        connection.stream.set_line()  # as while a client is behind
        rig.matcher.flood(0, 400)
        rig.gateway.handle_events()
        assert connection.stream.sent == before + connections.WRITES * 64
        rig.gateway.handle_events()
        await asyncio.sleep(0)
        assert connection.stream.sent < before + 4 * connections.WRITES * 64
        assert await client.raw(400 * CANCELED_BYTES) == rig.stream()[before:]
        assert connection._again is None, "nothing turns when nothing happens"

    scenario(tmp_path)


@with_gateway()
async def test_what_is_written_is_not_copied(rig: Rig) -> None:
    """The transport holds at most one slice of the store, whatever the client is owed."""
    await rig.login("ALPHA", sequence=0, receive_buffer_bytes=4_096)
    await filled_up(rig, 0)
    for _ in range(20):
        rig.matcher.flood(0, 1_000)
        rig.gateway.handle_events()
    (connection,) = rig.gateway.connections
    assert connection.unsent_bytes() > connections.WRITE_BYTES
    assert connection.transport.get_write_buffer_size() <= connections.WRITE_BYTES
    rig.gateway.tick()
    assert rig.count("send_buffer_bytes") == connection.transport.get_write_buffer_size()
    assert rig.page.accounts[0]["unsent_bytes"] == connection.unsent_bytes()


@pytest.mark.parametrize("reads", [True, False])
def test_stopping_waits_for_readers_and_for_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reads: bool
) -> None:
    monkeypatch.setattr(gateways, "STOP_TIMEOUT_S", 5.0 if reads else 0.05)

    @with_gateway()
    async def scenario(rig: Rig) -> None:
        client = await rig.login("ALPHA", sequence=0, receive_buffer_bytes=4_096)
        await filled_up(rig, 0)
        for _ in range(20):
            rig.matcher.flood(0, 1_000)
            rig.gateway.handle_events()
        size = len(rig.stream()) - 13
        stopping = asyncio.ensure_future(rig.gateway.stop())
        await asyncio.sleep(0)
        await client.send(order(1))  # too late
        if reads:
            assert await client.raw(size) == rig.stream()[13:]
            assert await client.rest() == [b"Z"]
        await stopping
        assert not [c for c in rig.gateway.connections if not c.end_reason]
        assert all(kind != r.ENTER for kind, _, _ in rig.matcher.seen)

    scenario(tmp_path)


@with_gateway()
async def test_the_end_of_the_session_reaches_a_client_that_goes_on_sending(rig: Rig) -> None:
    """What it sends is read and dropped: unread, it would reset the connection and take the last messages with it."""
    client = await rig.login("ALPHA", sequence=0, receive_buffer_bytes=4_096)
    await filled_up(rig, 0)
    size = len(rig.stream()) - 13

    async def send_on() -> None:
        while True:
            await client.send(frame(b"R") * 1_000)

    sending = asyncio.create_task(send_on())
    stopping = asyncio.create_task(rig.gateway.stop())
    try:
        assert await client.raw(size) == rig.stream()[13:]
        assert await client.next() == b"Z"
        with pytest.raises(EOFError):
            await client.next()
    finally:
        sending.cancel()
        client.close()
        await stopping


# --- the end of a store ---------------------------------------------------------------------------------


@with_gateway(max_store_bytes=3 * 90_000)
async def test_an_account_that_has_used_up_its_store_ends_whole(rig: Rig) -> None:
    client, other = await rig.login(), await rig.login("BETA", sequence=0)
    await orders_sent(client, 1, 896)  # 13 + 896 * 67 bytes: just over two thirds
    await rig.until(lambda: (r.SET_KILL_SWITCH, 0, 1) in rig.matcher.seen)
    await rig.until(lambda: not rig.matcher.open)
    await client.messages(rig.gateway.store.streams[0].count)
    accepted = rig.page.gateway[0]["messages_out"][ord("A")]
    canceled = rig.page.gateway[0]["messages_out"][ord("C")]
    assert accepted == canceled == 896
    await client.send(frame(b"R"))
    await client.send(order(897))
    await client.rest()
    assert (r.ENTER, 0, 897) not in rig.matcher.seen
    await other.send(order(1))
    assert numbers(await other.messages(1)) == [1]
    rig.gateway.end_day()
    again = await rig.login(sequence=1)
    messages = await again.messages(1 + 896 + 896 + 1)
    assert messages[-1] == ouch.SystemEvent(timestamp=messages[-1].timestamp, event_code="E")
    assert rig.count("store_full") == 0


def test_messages_that_find_no_room_are_counted_and_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    @with_gateway(max_store_bytes=3 * 21_000)
    async def scenario(rig: Rig) -> None:
        client = await rig.login(sequence=0)
        rig.matcher.flood(0, 1_010)  # 13 bytes of the start of the day leave room for 999
        await client.raw(999 * CANCELED_BYTES)
        rig.gateway.tick()
        rig.gateway.tick()
        assert rig.count("store_full") == rig.gateway.store.streams[0].lost == 11

    scenario(tmp_path)
    assert [r.messages for r in caplog.records if r.levelname == "CRITICAL"] == [11]  # type: ignore[attr-defined]


# --- many events ----------------------------------------------------------------------------------------


@with_gateway()
async def test_more_events_than_a_pass_takes_leave_room_for_others(rig: Rig) -> None:
    client = await rig.login(sequence=0)
    turns = 0

    def turn() -> None:
        nonlocal turns
        turns += 1

    count = 2 * gateways.PASSES * gateways.PASS_EVENTS - 1
    rig.matcher.flood(0, min(count, 8_191))
    asyncio.get_running_loop().call_soon(turn)
    rig.gateway.handle_events()
    assert rig.gateway.store.streams[0].count == 1 + gateways.PASSES * gateways.PASS_EVENTS
    assert turns == 0
    await client.raw(8_191 * CANCELED_BYTES)
    assert turns == 1
    await client.send(cancel(1) + order(1))
    assert numbers(await client.messages(1)) == [1]
    assert rig.gateway._again is None, "nothing turns when nothing happens"


@with_gateway()
async def test_a_connection_that_ends_leaves_no_descriptor(rig: Rig) -> None:
    """Answers go out over a descriptor of our own, which must not keep the connection open."""

    def pointing_at(target: str) -> int:
        links = [f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd")]
        return sum(os.path.islink(link) and os.readlink(link) == target for link in links)

    client = await rig.login(sequence=0)
    await client.send(order(1))
    await client.messages(1)
    (connection,) = rig.gateway.connections
    end = os.readlink(f"/proc/self/fd/{connection.transport.get_extra_info('socket').fileno()}")
    assert pointing_at(end) == 2
    client.close()
    await rig.until(lambda: not rig.gateway.connections)
    await rig.until(lambda: not pointing_at(end))


def test_without_a_descriptor_to_spare_answers_come_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_left(descriptor: int) -> int:
        raise OSError(errno.EMFILE, "too many open files")

    monkeypatch.setattr(os, "dup", none_left)

    @with_gateway()
    async def scenario(rig: Rig) -> None:
        client = await rig.login(sequence=0)
        for number in (1, 2):
            await client.send(order(number))
            assert numbers(await client.messages(1)) == [number]

    scenario(tmp_path)
