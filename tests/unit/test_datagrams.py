"""Reading datagrams in batches, with one system call for many and with one for each."""

import socket
from collections.abc import Iterator

import pytest

from venue.engine.datagrams import BATCH, HAVE_RECVMMSG, SLOT_BYTES, TRUNCATED, DatagramReader

needs_recvmmsg = pytest.mark.skipif(not HAVE_RECVMMSG, reason="recvmmsg is called from compiled code on Linux only")
WAYS = [pytest.param(True, id="recvmmsg", marks=needs_recvmmsg), pytest.param(False, id="readv")]


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """A receiving socket and one that sends to it."""
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiving,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sending,
    ):
        receiving.bind(("127.0.0.1", 0))
        receiving.setblocking(False)
        receiving.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        sending.connect(receiving.getsockname())
        yield receiving, sending


@pytest.mark.parametrize("many", WAYS)
def test_datagrams_come_one_by_one_and_in_order(pair: tuple[socket.socket, socket.socket], many: bool) -> None:
    receiving, sending = pair
    reader = DatagramReader(receiving.fileno(), many)
    assert reader.receive() == 0
    sent = [b"first", b"", bytes(range(256)) * 5 + b"x" * 192, b"last"]
    for data in sent:
        sending.send(data)
    assert reader.receive() == 4
    assert [reader.datagram(i) for i in range(4)] == sent
    assert reader.batch.lengths[:4].tolist() == [5, 0, 1472, 4]
    assert reader.batch.arena[2 * SLOT_BYTES :][:1472].tobytes() == sent[2]
    assert reader.receive() == 0


@pytest.mark.parametrize("many", WAYS)
def test_a_batch_leaves_the_rest_in_the_socket(pair: tuple[socket.socket, socket.socket], many: bool) -> None:
    receiving, sending = pair
    reader = DatagramReader(receiving.fileno(), many)
    for number in range(2 * BATCH + 3):
        sending.send(b"%d" % number)
    seen = []
    while count := reader.receive():
        seen += [reader.datagram(i) for i in range(count)]
        assert count in (BATCH, 3)
    assert seen == [b"%d" % number for number in range(2 * BATCH + 3)]


@pytest.mark.parametrize("many", WAYS)
def test_a_datagram_that_is_too_long_is_marked(pair: tuple[socket.socket, socket.socket], many: bool) -> None:
    receiving, sending = pair
    reader = DatagramReader(receiving.fileno(), many)
    sent = [b"a" * (SLOT_BYTES - 1), b"b" * SLOT_BYTES, b"c" * 60_000, b"d"]
    for data in sent:
        sending.send(data)
    assert reader.receive() == 4
    assert [reader.datagram(i) for i in range(4)] == [sent[0], None, None, sent[3]]
    assert reader.batch.lengths[1] == TRUNCATED


@pytest.mark.parametrize("many", WAYS)
def test_an_error_of_the_socket_is_nothing_to_read(many: bool) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as gone:
        gone.bind(("127.0.0.1", 0))
        address = gone.getsockname()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.setblocking(False)
        asking.connect(address)
        asking.send(b"anybody?")  # on loopback the refusal is there when send returns
        reader = DatagramReader(asking.fileno(), many)
        assert reader.receive() == 0
        asking.send(b"the error is taken, and sending works again")
