"""SoupBinTCP sessions: what was read, in whatever pieces, and the whole list of events it led to."""

from collections.abc import Callable, Iterator

import pytest

from venue.wire import soupbintcp as sbt
from venue.wire.soupbintcp import (
    ClientSession,
    EndOfSession,
    LoginAccepted,
    LoginRejected,
    LoginRequested,
    LogoutRequested,
    ProtocolError,
    Sequenced,
    ServerSession,
    Timeout,
    Unsequenced,
    UnsequencedData,
    frame,
)

S = 1_000_000_000

LOGIN = b"\0\x2fLuser  password  " + b" " * 10 + b" " * 19 + b"0"
LOGIN_41 = b"\0\x34Luser  password  " + b" " * 10 + b" " * 19 + b"0" + b" 5000"
ACCEPTED = b"\0\x1fA1689192121" + b" " * 17 + b"135"
REQUESTED = LoginRequested("user", "password", "", 0)


def pieces(data: bytes) -> Iterator[list[bytes]]:
    """The data whole, byte by byte, and split in two at every offset."""
    yield [data]
    yield [data[i : i + 1] for i in range(len(data))]
    for at in range(1, len(data)):
        yield [data[:at], data[at:]]


def logged_in(now: int = 0, **options: int) -> ServerSession:
    session = ServerSession(now, **options)
    assert session.receive(LOGIN, now) == [REQUESTED]
    assert session.accept_login("1689192121", 135, now) == []
    assert session.data_to_send() == ACCEPTED
    return session


def client_logged_in(now: int = 0) -> ClientSession:
    session = ClientSession(now)
    session.login("user", "password", sequence=0)
    assert session.data_to_send() == LOGIN
    assert session.receive(ACCEPTED, now) == [LoginAccepted("1689192121", 135)]
    return session


# The server's side


def test_a_session_from_login_to_logout_in_any_pieces() -> None:
    talk = frame(b"+", b"hello") + frame(b"U", b"one") + frame(b"R") + frame(b"U") + frame(b"U", b"three")
    behind = frame(b"O") + frame(b"U", b"never read")
    for parts in pieces(talk + behind):
        session = logged_in()
        events = [event for part in parts for event in session.receive(part, 0)]
        assert events == [Unsequenced(b"one"), Unsequenced(b""), Unsequenced(b"three"), LogoutRequested()]
        assert session.closed
        assert session.next_timer() is None


def test_a_login_in_any_pieces() -> None:
    for login, timeout_ms in ((LOGIN, None), (LOGIN_41, 5000)):
        for parts in pieces(frame(b"+", b"debug texts may come first") + login):
            session = ServerSession(0)
            events = [event for part in parts for event in session.receive(part, 0)]
            assert events == [LoginRequested("user", "password", "", 0, timeout_ms)]


def test_what_comes_behind_a_login_waits_for_the_answer() -> None:
    for parts in pieces(LOGIN + frame(b"U", b"eager") + frame(b"U", b"half")[:4]):
        session = ServerSession(0)
        assert [event for part in parts for event in session.receive(part, 0)] == [REQUESTED]
        assert session.accept_login("X", 1, 0) == [Unsequenced(b"eager")]
        assert session.receive(frame(b"U", b"half")[4:], 0) == [Unsequenced(b"half")]


def test_two_hundred_frames_in_one_read() -> None:
    session = logged_in()
    payloads = [b"%d" % i for i in range(200)]
    data = b"".join(frame(b"U", payload) for payload in payloads)
    assert session.receive(data, 0) == [Unsequenced(payload) for payload in payloads]


def test_the_largest_frame_one_byte_at_a_time_in_blocks() -> None:
    session = logged_in()
    data = frame(b"U", bytes(65534))
    assert [session.receive(data[i : i + 1000], 0) for i in range(0, 65000, 1000)] == [[]] * 65
    assert session.receive(data[65000:], 0) == [Unsequenced(bytes(65534))]
    assert session.take_buffered() == b""


def test_the_servers_answers() -> None:
    session = logged_in()
    session.send_sequenced(b"one")
    session.send_sequenced(b"two")
    session.end_session()
    assert session.data_to_send() == b"\0\4Sone" + b"\0\4Stwo" + b"\0\1Z"
    assert session.data_to_send() == b""
    assert session.closed


@pytest.mark.parametrize("reason", ["A", "S"])
def test_a_rejected_login(reason: str) -> None:
    session = ServerSession(0)
    session.receive(LOGIN + frame(b"U", b"x"), 0)
    session.reject_login(reason, 0)  # type: ignore[arg-type]
    assert session.data_to_send() == b"\0\2J" + reason.encode()
    assert session.closed
    assert session.receive(LOGIN, 0) == []
    assert session.handle_timer(100 * S) == []


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\0\0", "a packet of length 0 has no type"),
        (frame(b"U", b"x"), "a packet of type b'U' before the login"),
        (frame(b"R"), "a packet of type b'R' before the login"),
        (frame(b"S", b"x"), "a packet of type b'S' before the login"),
        (b"\1\0L", "a packet of 258 bytes is over the limit of 256"),
        (b"\xff\xff", "a packet of 65537 bytes is over the limit of 256"),
        (b"GET / HTTP/1.1\r\n", "a packet of 18247 bytes is over the limit of 256"),
        (b"\0\x2e" + LOGIN[2:-1], "LoginRequest has 47 bytes, not 46"),
        (b"\0\1L", "LoginRequest has 47 bytes, not 1"),
        (LOGIN[:-2] + b"-1", "LoginRequest.sequence is no number: b'                  -1'"),
        (LOGIN_41[:-1] + b"x", "LoginRequest41.heartbeat_timeout_ms is no number: b' 500x'"),
    ],
)
def test_what_is_no_login_ends_the_session(data: bytes, reason: str) -> None:
    for parts in pieces(data):
        session = ServerSession(0)
        assert [event for part in parts for event in session.receive(part, 0)] == [ProtocolError(reason)]
        assert session.closed
        assert session.receive(LOGIN, 0) == []
        assert session.data_to_send() == b""


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\0\0", "a packet of length 0 has no type"),
        (LOGIN, "a second login"),
        (frame(b"S", b"x"), "no client sends a packet of type b'S'"),
        (frame(b"H"), "no client sends a packet of type b'H'"),
        (frame(b"?", b"x"), "no client sends a packet of type b'?'"),
        (frame(b"\0"), "no client sends a packet of type b'\\x00'"),
        (frame(b"R", b"x"), "a packet of type b'R' carries nothing, not 1 bytes"),
        (frame(b"O", b"xy"), "a packet of type b'O' carries nothing, not 2 bytes"),
    ],
)
def test_a_bad_frame_between_good_ones_ends_the_session_after_the_first(data: bytes, reason: str) -> None:
    for parts in pieces(frame(b"U", b"good") + data + frame(b"U", b"too late")):
        session = logged_in()
        events = [event for part in parts for event in session.receive(part, 0)]
        assert events == [Unsequenced(b"good"), ProtocolError(reason)]
        assert session.closed


def test_memory_is_bounded_while_a_login_is_being_checked() -> None:
    session = ServerSession(0)
    session.receive(LOGIN, 0)
    assert session.receive(bytes(sbt.MAX_FRAME_BYTES), 0) == []
    assert session.receive(b"x", 0) == [ProtocolError("more than 65537 bytes behind a login not yet answered")]


def test_an_owner_who_reads_frames_itself_gets_back_what_is_buffered() -> None:
    session = logged_in()
    data = frame(b"U", b"abc")
    assert session.receive(data[:4], 1 * S) == []
    assert session.take_buffered() == data[:4]
    assert session.take_buffered() == b""
    session.heard(9 * S)
    session.sent(9 * S)
    assert session.next_timer() == 10 * S
    assert session.receive(data, 9 * S) == [Unsequenced(b"abc")]


def test_answers_to_a_session_that_is_gone() -> None:
    """A login may run into its timeout while the password is being checked elsewhere."""
    session = ServerSession(0)
    session.receive(LOGIN, 0)
    assert session.handle_timer(10 * S) == [Timeout("login")]
    assert session.accept_login("X", 1, 11 * S) == []
    session.reject_login("A", 11 * S)
    session.end_session()
    assert session.data_to_send() == b""


def test_calls_out_of_turn_are_the_owners_mistake() -> None:
    session = ServerSession(0)
    for call in (lambda: session.accept_login("X", 1, 0), lambda: session.send_sequenced(b"x")):
        with pytest.raises(RuntimeError, match="LOGIN"):
            call()
    client = ClientSession(0)
    with pytest.raises(RuntimeError):
        client.send_unsequenced(b"x")
    client.login("user", "password")
    with pytest.raises(RuntimeError):
        client.login("user", "password")


# Clocks


def test_a_socket_that_does_not_log_in_is_cut_after_ten_seconds() -> None:
    session = ServerSession(5 * S)
    assert session.next_timer() == 15 * S
    assert session.handle_timer(15 * S - 1) == []
    session.receive(LOGIN[:-1], 14 * S)  # dribbling does not help
    assert session.handle_timer(15 * S) == [Timeout("login")]
    assert session.closed
    assert session.next_timer() is None


def test_the_server_sends_a_heartbeat_after_a_second_of_its_own_silence() -> None:
    session = logged_in(now=5 * S)
    assert session.next_timer() == 6 * S
    session.sent(5 * S + 7)
    assert session.handle_timer(6 * S) == []
    assert session.data_to_send() == b""
    assert session.next_timer() == 6 * S + 7
    assert session.handle_timer(6 * S + 7) == []
    assert session.data_to_send() == b"\0\1H"
    assert session.next_timer() == 7 * S + 7


@pytest.mark.parametrize("sign", [frame(b"R"), frame(b"U", b"x"), frame(b"U", b"x")[:1]])
def test_a_silent_client_is_cut_and_any_byte_is_a_sign_of_life(sign: bytes) -> None:
    session = logged_in()
    session.sent(14 * S)
    session.receive(sign, 10 * S)
    session.sent(24 * S + S // 2)
    assert session.next_timer() == 25 * S
    assert session.handle_timer(25 * S - 1) == []
    assert session.handle_timer(25 * S) == [Timeout("silence")]
    assert session.closed
    assert session.data_to_send() == b""


def test_a_4_10_login_says_how_long_the_client_may_be_silent() -> None:
    session = ServerSession(0)
    session.receive(LOGIN_41, 0)
    session.accept_login("X", 1, 0)
    assert session.handle_timer(5 * S - 1) == []
    assert session.handle_timer(5 * S) == [Timeout("silence")]
    session = ServerSession(0)
    session.receive(LOGIN_41[:-5] + b"    0", 0)
    session.accept_login("X", 1, 0)
    assert session.handle_timer(5 * S) == []
    assert session.handle_timer(15 * S) == [Timeout("silence")]


# The client's side


def test_a_clients_day_in_any_pieces() -> None:
    day = (
        frame(b"+", b"welcome")
        + ACCEPTED
        + frame(b"S", b"first")
        + frame(b"H")
        + frame(b"U", b"aside")
        + frame(b"S", b"second")
        + frame(b"Z")
        + frame(b"S", b"never read")
    )
    for parts in pieces(day):
        session = ClientSession(0)
        session.login("user", "password", sequence=0)
        assert [event for part in parts for event in session.receive(part, 0)] == [
            LoginAccepted("1689192121", 135),
            Sequenced(135, b"first"),
            UnsequencedData(b"aside"),
            Sequenced(136, b"second"),
            EndOfSession(),
        ]
        assert session.session == "1689192121"
        assert session.next_sequence == 137
        assert session.closed


def test_a_client_that_is_not_let_in() -> None:
    session = ClientSession(0)
    session.login("user", "wrong")
    assert session.receive(frame(b"J", b"A") + frame(b"S", b"x"), 0) == [LoginRejected("A")]
    assert session.closed


def test_what_a_client_sends() -> None:
    session = client_logged_in()
    session.send_unsequenced(b"order")
    session.logout()
    assert session.data_to_send() == b"\0\6Uorder" + b"\0\1O"
    assert session.closed
    assert session.receive(frame(b"S", b"x"), 0) == []


@pytest.mark.parametrize(
    ("make", "data", "reason"),
    [
        (lambda: ClientSession(0), ACCEPTED, "a packet of type b'A' before the answer to our login"),
        (client_logged_in, ACCEPTED, "no server sends a packet of type b'A' after a login"),
        (client_logged_in, frame(b"R"), "no server sends a packet of type b'R' after a login"),
        (client_logged_in, b"\0\0", "a packet of length 0 has no type"),
        (client_logged_in, frame(b"Z", b"x"), "a packet of type b'Z' carries nothing, not 1 bytes"),
    ],
)
def test_what_no_server_says(make: Callable[[], ClientSession], data: bytes, reason: str) -> None:
    session = make()
    assert session.receive(data, 0) == [ProtocolError(reason)]
    assert session.closed


def test_data_before_the_answer_to_a_login() -> None:
    session = ClientSession(0)
    session.login("user", "password")
    assert session.receive(frame(b"H"), 0) == [ProtocolError("a packet of type b'H' before the answer to our login")]


def test_the_clients_clocks() -> None:
    session = ClientSession(0)
    session.login("user", "password")
    assert session.next_timer() == 15 * S
    session.receive(ACCEPTED, 2 * S)
    assert session.next_timer() == 3 * S
    session.data_to_send()
    assert session.handle_timer(3 * S) == []
    assert session.data_to_send() == b"\0\1R"
    session.receive(frame(b"H"), 4 * S)
    assert session.handle_timer(19 * S - 1) == []
    assert session.handle_timer(19 * S) == [Timeout("silence")]

    unanswered = ClientSession(0)
    unanswered.login("user", "password")
    assert unanswered.handle_timer(15 * S) == [Timeout("login")]


def test_both_sides_talk() -> None:
    client, server = ClientSession(0), ServerSession(0)
    client.login("user", "password", "DAY", 7)
    assert server.receive(client.data_to_send(), 0) == [LoginRequested("user", "password", "DAY", 7)]
    server.accept_login("DAY", 7, 0)
    server.send_sequenced(b"seven")
    assert client.receive(server.data_to_send(), 0) == [LoginAccepted("DAY", 7), Sequenced(7, b"seven")]
    client.send_unsequenced(b"order")
    client.logout()
    assert server.receive(client.data_to_send(), 0) == [Unsequenced(b"order"), LogoutRequested()]
