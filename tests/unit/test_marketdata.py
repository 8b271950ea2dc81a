"""The touch that clients keep from a feed: message by message, over UDP, and against a real morning."""

from __future__ import annotations

import asyncio
import csv
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import uvloop

from shared import SHARED_DATA, needs_shared
from venue.wire import itch
from venue.wire.moldudp64 import Request, encode_packet, end_of_session
from venue_clients.marketdata import FeedError, MarketData
from venue_clients.touch import Touch, TouchBooks

HEAD = {"stock_locate": 1, "tracking_number": 0, "timestamp": 0}


def add(reference: int, side: str, shares: int, price: int, stock: str = "AAPL") -> bytes:
    return itch.AddOrder(
        **HEAD, order_reference_number=reference, buy_sell_indicator=side, shares=shares, stock=stock, price=price
    ).encode()


def execute(reference: int, shares: int) -> bytes:
    return itch.OrderExecuted(**HEAD, order_reference_number=reference, executed_shares=shares, match_number=1).encode()


def cancel(reference: int, shares: int) -> bytes:
    return itch.OrderCancel(**HEAD, order_reference_number=reference, cancelled_shares=shares).encode()


def delete(reference: int) -> bytes:
    return itch.OrderDelete(**HEAD, order_reference_number=reference).encode()


def replace(old: int, new: int, shares: int, price: int) -> bytes:
    return itch.OrderReplace(
        **HEAD, original_order_reference_number=old, new_order_reference_number=new, shares=shares, price=price
    ).encode()


def test_every_message_that_touches_a_book() -> None:
    books = TouchBooks(["AAPL"])
    story = [
        (add(1, "B", 100, 99), Touch(99, 100, 0, 0)),
        (add(2, "S", 200, 101), Touch(99, 100, 101, 200)),
        (add(3, "B", 50, 99), Touch(99, 150, 101, 200)),
        (add(4, "B", 10, 98), Touch(99, 150, 101, 200)),
        (execute(1, 60), Touch(99, 90, 101, 200)),
        (cancel(2, 150), Touch(99, 90, 101, 50)),
        (replace(2, 5, 70, 100), Touch(99, 90, 100, 70)),
        (delete(3), Touch(99, 40, 100, 70)),
        (execute(1, 40), Touch(98, 10, 100, 70)),
        (execute(4, 1_000), Touch(0, 0, 100, 70)),  # more than is there: it is gone, nothing is negative
        (delete(4), Touch(0, 0, 100, 70)),
        (add(5, "S", 5, 100), Touch(0, 0, 100, 70)),  # a number that is there already
        (replace(2, 6, 1, 1), Touch(0, 0, 100, 70)),  # of an order that is gone
        (delete(5), Touch()),
    ]
    for message, touch in story:
        books.apply(message)
        assert books.touch("AAPL") == touch
    assert books._orders == {}


def test_attributed_orders_and_executions_at_another_price_count_like_others() -> None:
    books = TouchBooks(["AAPL"])
    books.apply(
        itch.AddOrderMpid(
            **HEAD,
            order_reference_number=1,
            buy_sell_indicator="S",
            shares=100,
            stock="AAPL",
            price=101,
            attribution="MMID",
        ).encode()
    )
    books.apply(
        itch.OrderExecutedWithPrice(
            **HEAD, order_reference_number=1, executed_shares=30, match_number=1, printable="Y", execution_price=100
        ).encode()
    )
    assert books.touch("AAPL") == Touch(0, 0, 101, 70)


def test_other_stocks_and_broken_messages_do_no_harm() -> None:
    books = TouchBooks(["AAPL"])
    books.apply(add(1, "B", 100, 99, "MSFT"))
    books.apply(execute(1, 60))
    books.apply(add(2, "B", 100, 99)[:-1])
    books.apply(b"")
    books.apply(b"~ not a type of ITCH")
    assert (books.touch("AAPL"), books.malformed, books.changed) == (Touch(), 2, set())
    with pytest.raises(KeyError):
        books.touch("MSFT")


def test_a_touch_with_two_sides_is_neither_locked_nor_crossed() -> None:
    assert Touch(99, 1, 100, 1).is_two_sided
    for touch in (Touch(), Touch(99, 1), Touch(0, 0, 100, 1), Touch(100, 1, 100, 1), Touch(101, 1, 100, 1)):
        assert not touch.is_two_sided


@needs_shared
def test_a_real_morning_has_the_touch_that_another_program_found() -> None:
    """LOBSTER rows: best ask, its size, best bid, its size; a replace has two rows, a message without a book none."""
    name = "aapl-20200130-10k-shifted"
    rows = csv.reader((SHARED_DATA / "itch" / f"{name}.orderbook_10.csv").read_text().splitlines())
    books = TouchBooks(["AAPL"])
    compared = 0
    for message in binary_file(SHARED_DATA / "itch" / f"{name}.itch"):
        books.apply(message)
        row: list[str] = []
        for _ in range({b"U": 2, b"R": 0, b"Y": 0, b"L": 0}.get(message[:1], 1)):
            row = next(rows)
        if row:
            ask, ask_size, bid, bid_size = map(int, row[:4])
            expected = Touch(max(bid, 0), bid_size, ask if ask_size else 0, ask_size)
            assert books.touch("AAPL") == expected
            compared += 1
    assert compared == 9_946
    assert next(rows, None) is None
    assert len(books._orders) == 215


def binary_file(path: Path) -> list[bytes]:
    data, messages, at = path.read_bytes(), [], 0
    while at < len(data):
        size = int.from_bytes(data[at : at + 2], "big")
        messages.append(data[at + 2 : at + 2 + size])
        at += 2 + size
    return messages


# --- over UDP -------------------------------------------------------------------------------------------------------


class Feed:
    """Sends packets to a listener, and collects what that reports."""

    def __init__(self) -> None:
        self.touches: asyncio.Queue[tuple[str, Touch]] = asyncio.Queue()
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.to = ("", 0)

    def on_touch(self, symbol: str, touch: Touch) -> None:
        self.touches.put_nowait((symbol, touch))

    def send(self, sequence: int, *messages: bytes, session: str = "MONDAY") -> None:
        self._socket.sendto(encode_packet(session, sequence, messages), self.to)

    def end(self, sequence: int, session: str = "MONDAY") -> None:
        self._socket.sendto(end_of_session(session, sequence), self.to)

    def close(self) -> None:
        self._socket.close()


def listen(
    story: Callable[[Feed, MarketData], Awaitable[None]],
    *,
    address: str = "127.0.0.1:0",
    runner: Callable = asyncio.run,
    request_server: str = "",
    interface: str = "",
) -> None:
    async def run() -> None:
        feed = Feed()
        heard = await MarketData.listen(
            address, ["AAPL"], feed.on_touch, request_server=request_server, interface=interface
        )
        feed.to = heard.address
        try:
            async with asyncio.timeout(20):
                await story(feed, heard)
        finally:
            await heard.close()
            feed.close()

    runner(run())


@pytest.mark.parametrize("runner", [asyncio.run, uvloop.run])
def test_each_datagram_reports_a_change_once(runner: Callable) -> None:
    async def story(feed: Feed, heard: MarketData) -> None:
        feed.send(1, add(1, "B", 100, 99), add(2, "B", 50, 99), add(3, "B", 5, 98))
        assert await feed.touches.get() == ("AAPL", Touch(99, 150))
        feed.send(4, add(4, "B", 5, 98))  # not at the touch
        feed.send(5, add(5, "S", 7, 101))
        assert await feed.touches.get() == ("AAPL", Touch(99, 150, 101, 7))
        assert (heard.session, heard.messages, heard.lost, feed.touches.empty()) == ("MONDAY", 5, 0, True)

    listen(story, runner=runner)


def test_a_feed_that_has_begun_before_us_is_joined_where_it_is() -> None:
    async def story(feed: Feed, heard: MarketData) -> None:
        feed.send(1_000, add(1, "B", 100, 99))
        assert await feed.touches.get() == ("AAPL", Touch(99, 100))
        assert heard.lost == 0

    listen(story)


def test_without_a_request_server_what_is_lost_is_counted() -> None:
    async def story(feed: Feed, heard: MarketData) -> None:
        feed.send(1, add(1, "B", 100, 99))
        await feed.touches.get()
        feed.send(4, add(4, "B", 100, 100))
        assert await feed.touches.get() == ("AAPL", Touch(100, 100))
        assert heard.lost == 2

    listen(story)


def test_a_new_session_begins_with_empty_books() -> None:
    async def story(feed: Feed, heard: MarketData) -> None:
        feed.send(1, add(1, "B", 100, 99))
        await feed.touches.get()
        feed.end(2)
        feed.send(1, add(1, "S", 30, 120), session="TUESDAY")
        assert await feed.touches.get() == ("AAPL", Touch(0, 0, 120, 30))
        feed.end(2, session="TUESDAY")
        feed.send(1, add(1, "S", 31, 120), session="WEDNESDAY")
        assert await feed.touches.get() == ("AAPL", Touch(0, 0, 120, 31))

    listen(story)


def test_what_is_missing_is_asked_for_from_the_beginning() -> None:
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("127.0.0.1", 0))
    server.setblocking(False)

    async def story(feed: Feed, heard: MarketData) -> None:
        feed.send(3, add(3, "S", 5, 101))
        data, client = await asyncio.get_running_loop().sock_recvfrom(server, 2_048)
        assert Request.decode(data) == Request("MONDAY", 1, 2)
        server.sendto(encode_packet("MONDAY", 1, [add(1, "B", 100, 99), add(2, "B", 50, 99)]), client)
        assert await feed.touches.get() == ("AAPL", Touch(99, 150, 101, 5))
        assert heard.lost == 0

    try:
        listen(story, request_server=f"127.0.0.1:{server.getsockname()[1]}")
    finally:
        server.close()


def test_a_group_is_joined() -> None:
    probe = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    probe.bind(("127.0.0.1", 0))
    port = probe.getsockname()[1]
    probe.close()

    async def story(feed: Feed, heard: MarketData) -> None:
        feed._socket.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("127.0.0.1"))
        feed._socket.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 0)
        feed.send(1, add(1, "B", 100, 99))
        assert await feed.touches.get() == ("AAPL", Touch(99, 100))

    listen(story, address=f"239.255.77.1:{port}", interface="127.0.0.1")


@pytest.mark.parametrize("address", ["127.0.0.1", "x:y", ":1", "127.0.0.1:99999", "203.0.113.1:1"])
def test_an_address_that_cannot_be_listened_to_is_one_line(address: str) -> None:
    with pytest.raises(FeedError) as error:
        asyncio.run(MarketData.listen(address, ["AAPL"]))
    assert address in str(error.value)
