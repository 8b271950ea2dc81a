"""The feed's sockets: busy ports, multicast groups with and without a source, their end."""

import asyncio
import errno
import logging
import socket
from pathlib import Path

import msgspec
import pytest

from feed_live import LiveFeed, address_of, packet, run, udp
from venue import config
from venue.feed_sockets import FeedSockets, open_feed_sockets, receive_buffer_bytes

GROUP = "239.192.7.31"
LOOPBACK = "127.0.0.1"


def multicast_works() -> bool:
    try:
        sockets = open_feed_sockets(config.Feed(group=GROUP, port=0, interface=LOOPBACK))
    except OSError:
        return False
    with udp() as sender:
        sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(LOOPBACK))
        try:
            sender.sendto(b"?", sockets.lines[0].getsockname())
            return sockets.lines[0].recv(10) == b"?"
        except OSError:
            return False
        finally:
            sockets.close()


needs_multicast = pytest.mark.skipif(not multicast_works(), reason="this machine's loopback takes no multicast")


def multicast_sender(address: str = LOOPBACK) -> socket.socket:
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sender.bind((address, 0))
    sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(LOOPBACK))
    return sender


def close(sockets: FeedSockets) -> None:
    sockets.close()
    assert all(line.fileno() == -1 for line in sockets.lines)


def test_a_busy_port_is_one_line() -> None:
    with udp() as taken:
        port = taken.getsockname()[1]
        with pytest.raises(
            OSError, match=f"^feed.port: 127.0.0.1:{port}: address already in use; .* --feed-port"
        ) as caught:
            open_feed_sockets(config.Feed(port=port))
        assert caught.value.errno == errno.EADDRINUSE


def test_if_the_second_line_cannot_be_opened_the_first_is_closed() -> None:
    with udp() as taken, udp() as free:
        port = free.getsockname()[1]
        free.close()
        with pytest.raises(OSError, match=f"^feed.line_b: {address_of(taken)}: address already in use$"):
            open_feed_sockets(config.Feed(port=port, line_b=address_of(taken)))
        close(open_feed_sockets(config.Feed(port=port)))  # would be busy otherwise


@pytest.mark.parametrize(
    ("settings", "where"),
    [
        ({"host": "no.such.host.invalid"}, "^feed.host: no.such.host.invalid:0: "),
        ({"host": "192.0.2.1"}, "^feed.host: 192.0.2.1:0: "),
        ({"request_server": "no.such.host.invalid:5"}, "^feed.request_server: no.such.host.invalid:5: "),
        (
            {"group": "239.1.1.1", "interface": "192.0.2.1"},
            "^feed.group or feed.interface: 239.1.1.1:0: no such device",
        ),
    ],
)
def test_an_address_that_is_not_ours_is_one_line(settings: dict[str, str], where: str) -> None:
    with pytest.raises(OSError, match=where):
        open_feed_sockets(msgspec.convert({"port": 0} | settings, config.Feed))


def test_the_buffer_that_was_granted_is_known_and_too_small_a_one_is_said(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async def story() -> None:
        async with LiveFeed(tmp_path, receive_buffer_bytes=100_000) as live:
            assert live.page.feed[0]["receive_buffer_bytes"] == receive_buffer_bytes(live.sockets.lines[0]) == 100_000

    run(story())
    assert not caplog.records
    monkeypatch.setattr("venue.feed_sockets.SO_RCVBUFFORCE", -1)  # as without the privilege
    with caplog.at_level(logging.WARNING):
        sockets = open_feed_sockets(config.Feed(port=0, receive_buffer_bytes=1 << 30))
    granted = receive_buffer_bytes(sockets.lines[0])
    close(sockets)
    assert 0 < granted < 1 << 30
    assert [(record.message, vars(record)["bytes"]) for record in caplog.records] == [("small receive buffer", granted)]
    assert "net.core.rmem_max=1073741824" in vars(caplog.records[0])["hint"]


@needs_multicast
def test_a_group_is_heard_by_all_who_join_it(tmp_path: Path) -> None:
    async def story() -> None:
        async with LiveFeed(tmp_path, group=GROUP, interface=LOOPBACK) as live:
            port = live.sockets.lines[0].getsockname()[1]
            also = open_feed_sockets(config.Feed(group=GROUP, interface=LOOPBACK, port=port))
            with multicast_sender() as sender:
                sender.sendto(packet(1, 3), (GROUP, port))
            await live.until_number(3)
            assert also.lines[0].recv(2000) == packet(1, 3)
            also.close()

    run(story())


@needs_multicast
def test_two_lines_are_two_groups(tmp_path: Path) -> None:
    async def story() -> None:
        with udp() as port_of_b:
            other = f"239.192.7.32:{port_of_b.getsockname()[1]}"
        async with LiveFeed(tmp_path, group=GROUP, interface=LOOPBACK, line_b=other) as live:
            with multicast_sender() as sender:
                sender.sendto(packet(1, 1), live.sockets.lines[0].getsockname())
                sender.sendto(packet(1, 2), live.sockets.lines[1].getsockname())
                await live.until_counted(datagrams=2)
            await live.until_number(2)
            assert live.numbers == [1, 2]
            counted = live.counted()
            assert (counted["line_packets[0]"], counted["line_packets[1]"]) == (1, 1)

    run(story())


@needs_multicast
def test_only_the_configured_source_is_heard_also_if_others_on_this_host_listen_to_all(tmp_path: Path) -> None:
    async def story() -> None:
        async with LiveFeed(tmp_path, group=GROUP, interface=LOOPBACK, source="127.0.0.2") as live:
            port = live.sockets.lines[0].getsockname()[1]
            anybody = open_feed_sockets(config.Feed(group=GROUP, interface=LOOPBACK, port=port))
            with multicast_sender("127.0.0.3") as stranger, multicast_sender("127.0.0.2") as source:
                stranger.sendto(packet(1, 1, session="FALSE"), (GROUP, port))
                source.sendto(packet(1, 2), (GROUP, port))
            await live.until_number(2)
            assert live.counted()["datagrams"] == 1
            assert live.feed.status().session == "S1"
            assert anybody.lines[0].recv(2000) == packet(1, 1, session="FALSE")
            anybody.close()

    run(story())


def test_a_feed_also_runs_on_the_loop_of_the_standard_library_and_closes_what_it_was_given(tmp_path: Path) -> None:
    async def story() -> None:
        with udp() as server:
            async with LiveFeed(tmp_path, request_server=address_of(server)) as live:
                live.send(packet(1, 3), packet(9, 1))
                await live.until_counted(requests_sent=1)
                assert live.numbers == [1, 2, 3]
            close(live.sockets)
            live.feed.stop()  # twice does no harm

    asyncio.run(story())
