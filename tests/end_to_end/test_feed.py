"""The feed on real loopback sockets: order, gaps, two lines, a full ring, hostile datagrams, real captures."""

import asyncio
import random
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import venue.feed
from feed_live import LiveFeed, RequestServer, address_of, message, packet, run, store_of, udp
from venue.engine import records, ring
from venue.engine.kernel import JIT
from venue.engine.records import DELETE, FEED_LOSS, FEED_RESET
from venue.feed import FeedStatus
from venue.wire import itch
from venue.wire.layout import Bytes
from venue.wire.moldudp64 import (
    FeedEvent,
    Header,
    MessageStore,
    Packer,
    Receiver,
    Request,
    encode_packet,
    end_of_session,
    heartbeat,
)

TESTS = Path(__file__).resolve().parents[1]


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No gap is given up, however slow the machine is that the test runs on."""
    monkeypatch.setattr(venue.feed, "Receiver", partial(Receiver, hold_ns=3_600_000_000_000))


def test_one_session_from_its_first_message_to_the_next_session(tmp_path: Path) -> None:
    """Gap, answer, duplicate, overlap, a gap that a heartbeat shows, broken packets, the end, another session."""

    async def story() -> None:
        with udp() as server:
            host, port = server.getsockname()
            async with LiveFeed(tmp_path, request_server=f"{host}:{port}") as live:
                assert live.feed.status() == FeedStatus(None, 0, False)
                live.send(packet(1, 3))
                await live.until_number(3)
                live.send(packet(7, 2))
                await live.until_counted(gaps=1)
                request, feed_address = server.recvfrom(100)
                assert Request.decode(request) == Request("S1", 4, 3)
                assert live.numbers == [1, 2, 3]
                server.sendto(packet(4, 3), feed_address)
                await live.until_number(8)
                live.send(packet(1, 3), packet(8, 4))
                await live.until_number(11)
                live.send(heartbeat("S1", 12), heartbeat("S1", 15))
                await live.until_counted(gaps=2)
                request, _ = server.recvfrom(100)
                assert Request.decode(request) == Request("S1", 12, 3)
                server.sendto(packet(12, 3), feed_address)
                await live.until_number(14)
                live.send(packet(15, 2)[:-1], Header("S1", 15, 3).encode() + packet(15, 2)[20:], b"short")
                live.send(end_of_session("S1", 15))
                await live.until(lambda: live.feed.status() == FeedStatus("S1", 15, True))
                assert "session_open" not in live.counted(), "gauge at 0"
                live.send(packet(1, 2, session="S2"))
                await live.until(lambda: live.feed.status() == FeedStatus("S2", 3, False))
                await live.until(lambda: len(live.seen) == 17)
                assert live.numbers == [*range(1, 15), 1, 2]
                assert live.kinds == [DELETE] * 14 + [FEED_RESET] + [DELETE] * 2
                assert live.counted() == {
                    "D": 16,
                    "datagrams": 13,
                    "gaps": 2,
                    "recovered_messages": 6,
                    "requests_sent": 2,
                    "duplicates": 4,
                    "packets_held": 1,
                    "packets_malformed": 3,
                    "heartbeats": 2,
                    "sessions_started": 2,
                    "session_open": 1,
                    "line_packets[0]": 11,
                    "line_first_arrivals[0]": 4,
                }

    run(story())


@pytest.mark.skipif(not JIT, reason="nothing is compiled")
def test_nothing_is_compiled_after_the_warm_up(tmp_path: Path) -> None:
    """In a process of its own, where nobody else has compiled anything."""
    script = """
import asyncio, pathlib, sys
from feed_live import LiveFeed, packet, run
from venue.engine import datagrams, feed_codec, feed_packets, symbols
from venue.wire import itch
from venue.wire.moldudp64 import encode_packet, heartbeat

def compiled():
    kernels = [feed_codec.put, feed_codec.decode_blocks, feed_packets.receive, feed_packets.gather]
    kernels += [feed_packets.count_datagram, datagrams.receive_many, symbols.find, symbols.insert]
    return [len(kernel.signatures) for kernel in kernels]

halt = itch.StockTradingAction(1, 0, 0, stock="A", trading_state="T", reserved="", reason="").encode()

async def story():
    async with LiveFeed(pathlib.Path(sys.argv[1])) as live:
        live.feed.warm_up()
        before = compiled()
        live.send(packet(1, 1), packet(4, 1), packet(5, 1), packet(2, 2), packet(9, 1), encode_packet("S2", 1, [halt]))
        live.send(encode_packet("S2", 2, [halt] * 2), heartbeat("S2", 4))
        await live.until(lambda: live.feed.status().next_sequence == 4)
        assert compiled() == before, (before, compiled())

run(story())
"""
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, cwd=TESTS)
    assert done.returncode == 0, done.stderr


# --- gaps ---------------------------------------------------------------------------------------------------------


def test_answers_hold_as_much_as_fits_and_lost_ones_are_asked_for_again(tmp_path: Path) -> None:
    async def story() -> None:
        with RequestServer(store_of(300), loses=lambda request: request in (0, 2)) as server:
            async with LiveFeed(tmp_path, request_server=server.address) as live:
                live.send(packet(1, 1), packet(300, 1))
                await live.until_number(300)
                assert live.numbers == list(range(1, 301))
                fit = 65  # (1400 - 20) // (19 + 2)
                first = [2, 2, 2 + fit, 2 + fit, 2 + 2 * fit, 2 + 3 * fit, 2 + 4 * fit]
                assert server.requests == [(number, 300 - number) for number in first]
                counted = live.counted()
                assert counted["requests_sent"] == 7
                assert counted["recovered_messages"] == 298
                assert (counted["gaps"], counted["packets_held"]) == (1, 1)
                assert "missing_messages" not in counted

    run(story())


def test_what_comes_behind_a_gap_is_held_by_the_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Receiver sees what opens a gap and what closes it, not each packet in between: a feed that is read slower
    while something is missing loses the more, and does not recover."""
    seen: list[bytes] = []

    class Watched(Receiver):
        def __init__(self, **options: Any) -> None:
            super().__init__(retry_ns=3_600_000_000_000, **options)

        def receive(self, line: int, packet: Bytes, now: int) -> list[FeedEvent]:
            seen.append(bytes(packet))
            return super().receive(line, packet, now)

    monkeypatch.setattr(venue.feed, "Receiver", Watched)

    async def story() -> None:
        with udp() as server:
            async with LiveFeed(tmp_path, request_server=address_of(server)) as live:
                unusual = [packet(1, 1), packet(4, 3), packet(70, 3), packet(2, 2), packet(67, 3)]
                behind = [*(packet(first, 3) for first in range(7, 67, 3)), heartbeat("S1", 67), packet(64, 3)]
                more = [packet(72, 3), packet(75, 3), packet(76, 2)]
                live.send(*unusual[:2], *behind, unusual[2], *more)
                await live.until_counted(datagrams=28)
                assert live.numbers == [1]
                assert live.feed.status().next_sequence == 2
                live.send(unusual[3])
                await live.until_number(66)
                live.send(unusual[4], packet(78, 1))
                await live.until_number(78)
                assert live.numbers == list(range(1, 79))
                assert seen == unusual
                assert live.counted() == {
                    "D": 78,
                    "datagrams": 31,
                    "gaps": 2,
                    "recovered_messages": 5,
                    "requests_sent": 2,
                    "duplicates": 6,
                    "heartbeats": 1,
                    "packets_held": 24,
                    "sessions_started": 1,
                    "session_open": 1,
                    "line_packets[0]": 31,
                    "line_first_arrivals[0]": 28,
                }

    run(story())


@pytest.mark.parametrize("answering", [True, False], ids=["silent server", "no server"])
def test_what_is_lost_for_good_is_said_to_the_engine_in_its_place(tmp_path: Path, answering: bool) -> None:
    async def story() -> None:
        with RequestServer(MessageStore("S1")) as server:
            async with LiveFeed(tmp_path, request_server=server.address if answering else "") as live:
                live.send(packet(1, 2), packet(5, 2), packet(10, 1))
                await live.until_number(10)
                assert live.numbers == [1, 2, 5, 6, 10]
                assert live.kinds == [DELETE, DELETE, FEED_LOSS, DELETE, DELETE, FEED_LOSS, DELETE]
                counted = live.counted()
                assert (counted["gaps"], counted["missing_messages"]) == (2, 5)
                assert "recovered_messages" not in counted
                assert len(server.requests) == counted.get("requests_sent", 0) == (10 if answering else 0)
                live.send(packet(3, 2), packet(11, 1))
                await live.until_number(11)
                assert live.counted()["duplicates"] == 2, "too late"

    run(story())


def test_joining_in_the_middle_of_a_session_says_that_the_beginning_is_missing(tmp_path: Path) -> None:
    async def story() -> None:
        async with LiveFeed(tmp_path, join="now") as live:
            live.send(packet(100, 2))
            await live.until_number(101)
            assert live.kinds == [FEED_LOSS, DELETE, DELETE]
            assert live.counted().get("gaps") is None

    run(story())


def test_joining_from_the_start_fetches_what_was_sent_before(tmp_path: Path) -> None:
    async def story() -> None:
        with RequestServer(store_of(99)) as server:
            async with LiveFeed(tmp_path, join="start", request_server=server.address) as live:
                live.send(packet(100, 2))
                await live.until_number(101)
                assert live.numbers == list(range(1, 102))
                assert FEED_LOSS not in live.kinds

    run(story())


def test_what_the_kernel_drops_is_counted_and_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(venue.feed, "TICK_S", 0.005)

    async def story() -> None:
        with RequestServer(store_of(2000)) as server:
            async with LiveFeed(tmp_path, request_server=server.address, receive_buffer_bytes=65_536) as live:
                live.send(*(packet(number, 1) for number in range(1, 2001)))  # the loop does not run: nobody reads
                await live.until(lambda: live.feed.status().next_sequence > 1)
                live.send(heartbeat("S1", 2001))
                await live.until_number(2000)
                await live.until_counted(kernel_drops=1)
                assert live.numbers == list(range(1, 2001))
                counted = live.counted()
                assert counted["kernel_drops"] + counted["line_packets[0]"] == 2001
                assert counted["kernel_drops"] == counted["recovered_messages"]

    run(story())


# --- one bad datagram ---------------------------------------------------------------------------------------------


def test_one_bad_datagram_neither_wipes_the_books_nor_makes_the_feed_deaf(tmp_path: Path) -> None:
    """Another session's packet, a number far ahead, an end that is none: each is counted, and the stream goes on."""

    async def story() -> None:
        async with LiveFeed(tmp_path) as live:
            live.send(packet(1, 2), packet(7, 1, session="X"), packet(3, 1), packet(4, 1))
            live.send(heartbeat("S1", 2**62), packet(5, 1), end_of_session("S1", 3), packet(6, 1))
            await live.until_number(6)
            assert live.numbers == [1, 2, 3, 4, 5, 6]
            assert live.kinds == [DELETE] * 6
            counted = live.counted()
            assert (counted["packets_malformed"], counted["sessions_started"]) == (3, 1)
            assert "gaps" not in counted
            assert live.feed.status() == FeedStatus("S1", 7, False)

    run(story())


def test_a_sender_that_starts_again_without_an_end_loses_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        async with LiveFeed(tmp_path) as live:
            live.send(packet(1, 2), *(packet(number, 1, session="S2") for number in range(1, 5)))
            await live.until_number(4)
            assert live.kinds == [DELETE] * 2 + [FEED_RESET] + [DELETE] * 4
            assert live.numbers == [1, 2, 1, 2, 3, 4]

    run(story())


# --- two lines ----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("steps", [venue.feed.STEPS_A_TURN, 1], ids=["long turns", "turns of one step"])
def test_what_either_line_loses_the_other_one_brings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, steps: int
) -> None:
    monkeypatch.setattr(venue.feed, "STEPS_A_TURN", steps)
    choices = random.Random(seed)

    async def story() -> None:
        async with LiveFeed(tmp_path, lines=2) as live:
            first, sent = 1, 0
            lines: list[list[bytes]] = [[], []]
            while first < 400:
                count = choices.randint(1, 5)
                for line in choices.choice([(0,), (1,), (0, 1), (0, 1)]):
                    lines[line].append(packet(first, count))
                    sent += 1
                first += count
            while any(lines):
                line = choices.randrange(2)
                burst, lines[line] = lines[line][:4], lines[line][4:]
                live.send(*burst, line=line)
                await asyncio.sleep(0)
                live.take()
            await live.until_counted(datagrams=sent)
            await live.until_number(first - 1)
            assert live.numbers == list(range(1, first))
            counted = live.counted()
            assert "missing_messages" not in counted
            assert counted["line_packets[0]"] + counted["line_packets[1]"] == counted["datagrams"] == sent
            assert counted["line_first_arrivals[0]"] > 0 < counted["line_first_arrivals[1]"]

    run(story())


# --- a full ring --------------------------------------------------------------------------------------------------


def test_a_full_ring_leaves_datagrams_in_the_socket_and_loses_nothing(tmp_path: Path) -> None:
    """Packets of 5 into room for 8, so that it fills in the middle of packets; overlaps and duplicates among them."""

    async def story() -> None:
        async with LiveFeed(tmp_path, ring_capacity=64) as live:
            live.send(*(packet(first, 5) for first in range(1, 500, 5)))
            live.send(packet(1, 5), packet(498, 6))
            await live.until_number(8)
            assert live.numbers[:8] == list(range(1, 9))
            await live.until_number(503)
            assert live.numbers == list(range(1, 504))
            counted = live.counted()
            assert counted == {
                "D": 503,
                "datagrams": 102,
                "duplicates": 8,
                "sessions_started": 1,
                "session_open": 1,
                "command_ring_full": 2,  # once a batch of 64 datagrams, until all of it is on the ring
                "line_packets[0]": 102,
                "line_first_arrivals[0]": 101,
            }

    run(story())


def test_while_nobody_reads_the_ring_nobody_reads_the_socket(tmp_path: Path) -> None:
    async def story() -> None:
        async with LiveFeed(tmp_path, ring_capacity=32) as live:
            turned = asyncio.Event()  # set when the feed has looked at the full ring some times more
            live.send(*(packet(number, 1) for number in range(1, 300)))
            await live.until(lambda: bool(live.page.feed[0]["command_ring_full"]), taking=False)
            asyncio.get_running_loop().call_later(5 * venue.feed.RETRY_S, turned.set)
            await turned.wait()
            counted = live.counted()
            assert int(ring.depth(live.link.commands)) == 4, "an eighth: the rest is for orders"
            assert (counted["D"], counted["command_ring_full"]) == (4, 1), "one wait, however often it looks"
            assert live.feed.status().next_sequence == 5
            await live.until_number(299)
            assert live.numbers == list(range(1, 300))

    run(story())


@pytest.mark.usefixtures("patient")
def test_a_long_gap_that_closes_is_released_through_a_small_ring(tmp_path: Path) -> None:
    async def story() -> None:
        async with LiveFeed(tmp_path, ring_capacity=32) as live:
            live.send(packet(1, 1), *(packet(first, 3) for first in range(3, 300, 3)), packet(2, 1))
            await live.until_number(299)
            assert live.numbers == list(range(1, 300))
            counted = live.counted()
            assert (counted["packets_held"], counted["recovered_messages"]) == (99, 1)
            assert "missing_messages" not in counted

    run(story())


def test_a_gap_does_not_run_out_of_time_while_the_ring_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What fills the gap may have been in the socket, unread, all the time."""
    wait_ns = 2_000_000
    monkeypatch.setattr(venue.feed, "Receiver", partial(Receiver, hold_ns=wait_ns))

    async def story() -> None:
        async with LiveFeed(tmp_path, ring_capacity=16) as live:
            overdue = asyncio.Event()
            live.send(packet(1, 1), packet(6, 1), packet(2, 2))
            await live.until(lambda: bool(live.page.feed[0]["command_ring_full"]), taking=False)
            live.send(packet(4, 2))
            asyncio.get_running_loop().call_later(10 * wait_ns / 1e9, overdue.set)
            await overdue.wait()
            await live.until_number(6)
            assert live.numbers == [1, 2, 3, 4, 5, 6]
            assert "missing_messages" not in live.counted()

    run(story())


# --- stocks -------------------------------------------------------------------------------------------------------


def test_a_new_session_gives_out_locates_afresh(tmp_path: Path) -> None:
    def add(number: int, locate: int, stock: str) -> bytes:
        head = {"stock_locate": locate, "tracking_number": 0, "timestamp": 5}
        return itch.AddOrder(
            **head, order_reference_number=number, buy_sell_indicator="B", shares=1, stock=stock, price=2
        ).encode()

    async def story() -> None:
        async with LiveFeed(tmp_path, stocks=2) as live:
            live.instruments.add("TSLA")
            packer = Packer("DAY1")
            for raw in (add(1, 7, "AAPL"), add(2, 8, "MSFT"), add(3, 7, "AAPL"), add(4, 0, "MSFT"), add(5, 0, "TSLA")):
                packer.add(raw)
            live.send(packer.flush() or b"", end_of_session("DAY1", 6))
            await live.until(lambda: len(live.seen) == 3)
            assert [(row["word0"], row["instrument"]) for row in live.seen] == [(1, 1), (3, 1), (5, 0)], "MSFT: no room"
            packer = Packer("DAY2")
            packer.add(add(6, 7, "TSLA"))
            live.send(packer.flush() or b"")
            await live.until(lambda: len(live.seen) == 5)
            assert [(row["kind"], row["instrument"]) for row in live.seen[3:]] == [
                (FEED_RESET, 0xFFFF),
                (records.ADD, 0),
            ]
            assert live.counted()["A"] == 6

    run(story())


@pytest.mark.usefixtures("patient")
def test_a_gap_that_shows_while_stocks_are_learned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Line B is in the middle of a packet of new stocks when line A brings one far ahead: nothing counts twice."""
    monkeypatch.setattr(venue.feed, "STEPS_A_TURN", 1)
    stocks = [f"STOCK{number}" for number in range(6)]
    halts = [
        itch.StockTradingAction(number, 0, 0, stock=stock, trading_state="T", reserved="", reason="").encode()
        for number, stock in enumerate(stocks, 1)
    ]

    async def story() -> None:
        async with LiveFeed(tmp_path, lines=2) as live:
            add = live.instruments.add

            def add_and_send(stock: str) -> int:
                if stock == "STOCK0":
                    live.send(packet(11, 1))
                return add(stock)

            monkeypatch.setattr(live.instruments, "add", add_and_send)
            live.send(packet(1, 1), encode_packet("S1", 2, [message(2), *halts]), line=1)
            await live.until_counted(gaps=1)
            live.send(packet(9, 2))
            await live.until_number(11)
            assert live.kinds == [DELETE] * 2 + [records.TRADING_STATE] * 6 + [DELETE] * 3
            assert [row["instrument"] for row in live.seen[2:8]] == list(range(6))
            counted = live.counted()
            assert "duplicates" not in counted
            assert (counted["H"], counted["D"], counted["line_first_arrivals[1]"]) == (6, 5, 2)

    run(story())
