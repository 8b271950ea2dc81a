"""SoupBinTCP packets: real bytes, every kind of padding, and what Nasdaq's own library makes of ours."""

import pytest
from nasdaq_protocols import soup

from venue.wire import soupbintcp as sbt
from venue.wire.layout import WireError
from venue.wire.soupbintcp import (
    ClientSession,
    LoginAccepted,
    LoginRejected,
    LoginRequested,
    Sequenced,
    ServerSession,
    frame,
)

LOGIN = b"\0\x2fLuser  password  " + b" " * 10 + b" " * 19 + b"0"
LOGIN_41 = b"\0\x34Luser  password  " + b" " * 10 + b" " * 19 + b"0" + b" 5000"
ACCEPTED = b"\0\x1fA1689192121" + b" " * 17 + b"135"


def test_packets_are_the_real_bytes() -> None:
    assert sbt.packet(sbt.LoginRequest("user", "password", "", 0)) == LOGIN
    assert sbt.packet(sbt.LoginRequest41("user", "password", "", 0, 5000)) == LOGIN_41
    assert sbt.packet(LoginAccepted("1689192121", 135)) == ACCEPTED
    assert sbt.packet(LoginRejected("S")) == b"\0\2JS"
    assert frame(b"R") == b"\0\1R"
    assert frame(b"S", b"abc") == b"\0\4Sabc"
    assert len(frame(b"S", bytes(65534))) == sbt.MAX_FRAME_BYTES
    with pytest.raises(WireError, match="not 65535"):
        frame(b"S", bytes(65535))


PADDED = [
    (b"user  ", b"password  ", b"SESSION   ", b"1".ljust(20)),
    (b"user  ", b"password  ", b"   SESSION", b"1".rjust(20)),
    (b"  user", b"  password", b"SESSION".ljust(10, b"\0"), b"1".ljust(20, b"\0")),
    (b"user".ljust(6, b"\0"), b"password".ljust(10, b"\0"), b" SESSION  ", b"1".rjust(20, b"0")),
]


@pytest.mark.parametrize("fields", PADDED)
def test_login_fields_are_read_however_they_are_padded(fields: tuple[bytes, ...]) -> None:
    assert sbt.decode_login(b"L" + b"".join(fields)) == sbt.LoginRequest("user", "password", "SESSION", 1)


@pytest.mark.parametrize(
    ("number", "value"), [(b" " * 20, 0), (bytes(20), 0), (b"0".rjust(20), 0), (b"9" * 20, 10**20 - 1)]
)
def test_a_blank_number_is_zero(number: bytes, value: int) -> None:
    assert sbt.decode_login(b"L" + b" " * 26 + number).sequence == value


@pytest.mark.parametrize("number", [b"-1", b"+1", b"1.0", b"1 2", b"1_0", b"x", b"\xb2"])
def test_a_number_that_is_none(number: bytes) -> None:
    with pytest.raises(WireError, match=r"LoginRequest\.sequence is no number"):
        sbt.decode_login(b"L" + b" " * 26 + number.rjust(20))


@pytest.mark.parametrize(
    ("username", "sequence", "reason"),
    [
        ("toolong", 1, "LoginRequest.username takes 6 characters at most, not 7"),
        ("u", -1, "LoginRequest.sequence is 0 or more with 20 digits at most, not -1"),
        ("u", 10**20, f"LoginRequest.sequence is 0 or more with 20 digits at most, not {10**20}"),
    ],
)
def test_a_login_that_does_not_fit(username: str, sequence: int, reason: str) -> None:
    with pytest.raises(WireError) as error:
        sbt.LoginRequest(username, "p", "", sequence).encode()
    assert str(error.value) == reason


def test_no_password_is_ever_shown() -> None:
    secret = "s3cr3t"
    shown = [
        sbt.LoginRequest("user", secret, "", 1),
        sbt.LoginRequest41("user", secret, "", 1, 5000),
        LoginRequested("user", secret, "", 1),
    ]
    assert not any(secret in str(value) or secret in repr(value) for value in shown)
    assert "user" in repr(shown[0])
    session = ServerSession(0)
    bad = sbt.packet(sbt.LoginRequest("user", secret, "", 1))[:-1] + b"x"
    (event,) = session.receive(bad, 0)
    assert secret not in repr(event)
    for unfit in (secret * 2, secret + "€"):
        with pytest.raises(WireError, match="password") as error:
            sbt.LoginRequest("user", unfit, "", 1).encode()
        assert secret not in str(error.value)


FOREIGN: list[tuple[soup.SoupMessage, bytes]] = [
    (soup.LoginAccepted("SESSION", 7), sbt.packet(LoginAccepted("SESSION", 7))),
    (soup.LoginRejected("A"), sbt.packet(LoginRejected("A"))),
    (soup.SequencedData(b"abc"), frame(b"S", b"abc")),
    (soup.UnSequencedData(b"abc"), frame(b"U", b"abc")),
    (soup.ClientHeartbeat(), frame(b"R")),
    (soup.ServerHeartbeat(), frame(b"H")),
    (soup.EndOfSession(), frame(b"Z")),
    (soup.LogoutRequest(), frame(b"O")),
    (soup.Debug("hello"), frame(b"+", b"hello")),
]


@pytest.mark.parametrize(("theirs", "ours"), FOREIGN, ids=lambda x: type(x).__name__)
def test_nasdaqs_own_library_reads_what_we_write(theirs: soup.SoupMessage, ours: bytes) -> None:
    assert soup.SoupMessage.from_bytes(ours) == (len(ours), theirs)


def test_we_read_what_nasdaqs_own_library_writes() -> None:
    """It pads numbers on the right."""
    data = soup.LoginRequest("user", "password", "SESSION", "42").to_bytes()[1]
    assert ServerSession(0).receive(data, 0) == [LoginRequested("user", "password", "SESSION", 42)]
    session = ClientSession(0)
    session.login("user", "password")
    assert session.receive(soup.LoginAccepted("SESSION", 42).to_bytes()[1], 0) == [LoginAccepted("SESSION", 42)]
    assert session.receive(soup.SequencedData(b"x").to_bytes()[1], 0) == [Sequenced(42, b"x")]
