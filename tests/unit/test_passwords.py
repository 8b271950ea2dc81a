"""Salted hashes of passwords, and how logins are checked against them."""

from __future__ import annotations

import asyncio

import pytest

from venue import authentication, passwords
from venue.authentication import SECOND_NS, Authenticator, Rejections
from venue.config import Account


@pytest.fixture(autouse=True)
def cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passwords, "LOG2_COST", 2)


@pytest.mark.parametrize("password", ["a", "ABCDEFGHIJ", "pa$$w0rd!", "~"])
def test_a_password_fits_its_hash_and_no_other(password: str) -> None:
    encoded = passwords.hash_password(password)
    assert passwords.verify(password, encoded)
    assert passwords.verify(password.upper(), encoded)
    assert passwords.verify(password.lower(), encoded)
    for wrong in ("", password + "x", password[:-1], "\xff" * 10):
        assert not passwords.verify(wrong, encoded)


def test_each_hash_has_a_salt_of_its_own_and_shows_nothing() -> None:
    first, second = passwords.hash_password("secret"), passwords.hash_password("secret")
    assert first != second
    assert "secret" not in first.lower()
    assert first.startswith("scrypt$2$8$1$")


def test_the_cost_is_in_the_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded = passwords.hash_password("secret")
    monkeypatch.setattr(passwords, "LOG2_COST", 3)
    assert passwords.verify("secret", encoded)


@pytest.mark.parametrize("password", ["", "elevenchars", "with blank", "tab\t", "é", "nul\0"])
def test_what_no_login_can_carry_is_no_password(password: str) -> None:
    with pytest.raises(ValueError, match="a password has"):
        passwords.hash_password(password)


GOOD = "scrypt$2$8$1$AAAAAAAAAAAAAAAAAAAAAA==$" + "A" * 43 + "="


def test_a_hash_is_checked_without_its_password() -> None:
    passwords.check(GOOD)


@pytest.mark.parametrize(
    "encoded",
    [
        "",
        "secret",
        GOOD[:-1],
        GOOD + "$",
        GOOD.replace("scrypt", "bcrypt"),
        GOOD.replace("$2$", "$99$"),
        GOOD.replace("$2$", "$0$"),
        GOOD.replace("$2$", "$x$"),
        GOOD.replace("$8$", "$16$"),
        GOOD.replace("AAAA", "A*AA"),
        GOOD.replace("AAAA", "", 1),
    ],
)
def test_what_is_no_hash(encoded: str) -> None:
    with pytest.raises(ValueError, match="no password hash"):
        passwords.check(encoded)
    with pytest.raises(ValueError, match="no password hash"):
        passwords.verify("secret", encoded)


def authenticator() -> Authenticator:
    names = ("ALPHA", "Beta")
    return Authenticator([Account(username=n, password_hash=passwords.hash_password(f"of{n}")) for n in names])


def test_logins_are_checked_in_the_background() -> None:
    async def scenario() -> None:
        checks = authenticator()
        logins = [("alpha", "OFALPHA"), ("BETA", "ofbeta"), ("ALPHA", "ofBeta"), ("NOBODY", "ofALPHA"), ("", "")]
        answers = [await checks.check(name, password, "host") for name, password in logins]
        assert answers == [0, 1, None, None, None]
        checks.close()

    asyncio.run(scenario())


def test_addresses_take_turns_and_nobody_is_rejected_for_being_late() -> None:
    """200 guesses of one address make another one wait for one check, and a right password there for its turn."""

    async def scenario() -> None:
        checks, answers = authenticator(), []

        async def check(password: str, host: str) -> None:
            answers.append((host, await checks.check("ALPHA", password, host)))

        guesses = [check("guess", "noisy") for _ in range(200)]
        await asyncio.gather(*guesses, check("ofALPHA", "noisy"), check("ofALPHA", "quiet"))
        assert answers.index(("quiet", 0)) <= 2
        assert answers[-1] == ("noisy", 0)
        assert [host for host, account in answers if account is None] == ["noisy"] * 200
        checks.close()

    asyncio.run(scenario())


def test_rejections_are_answered_ever_more_slowly_up_to_a_bound() -> None:
    rejections = Rejections()
    delays = [rejections.delay_ns("a", now * SECOND_NS) for now in range(7)]
    assert [delay // SECOND_NS for delay in delays] == [0, 0, 1, 2, 4, 4, 4]
    assert rejections.delay_ns("b", 7 * SECOND_NS) == 0
    assert rejections.delay_ns("a", 66 * SECOND_NS) == 4 * SECOND_NS
    assert rejections.delay_ns("a", 127 * SECOND_NS) == 0, "forgotten after a minute"


def test_addresses_are_forgotten_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authentication, "MAX_ADDRESSES", 2)
    rejections = Rejections()
    for host in ("a", "b", "a", "c", "a"):
        delay_ns = rejections.delay_ns(host, 0)
    assert delay_ns == SECOND_NS, "the busy one is remembered"
    assert rejections.delay_ns("b", 0) == 0
