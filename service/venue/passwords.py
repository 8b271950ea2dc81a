"""Passwords of order accounts: only a salted hash of them is ever kept.

A hash is one line, ``scrypt$14$8$1$<salt>$<key>``: log2 of the cost, block size, parallelism, and then salt and key
in URL-safe base64. With these numbers a guess costs some 50 ms and 16 MiB (RFC 7914). SoupBinTCP has ten characters
for a password, padded with spaces, and compares it without regard to case (SoupBinTCP 3.00, 2.2.3): letters are made
upper-case before they are hashed.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from typing import Final

MAX_CHARACTERS: Final = 10
LOG2_COST: Final = 14
BLOCK_SIZE: Final = 8
PARALLELISM: Final = 1
SALT_BYTES: Final = 16
KEY_BYTES: Final = 32
MAX_LOG2_COST: Final = 17
"""A hash that asks for more (128 MiB) is refused, so that no configuration file can stop the service."""


def hash_password(password: str) -> str:
    """The hash to keep, with a fresh salt; takes about 50 ms. ValueError for what no login could carry."""
    if not 1 <= len(password) <= MAX_CHARACTERS:
        raise ValueError(f"a password has 1 to {MAX_CHARACTERS} characters, not {len(password)}")
    if not all("!" <= character <= "~" for character in password):
        raise ValueError("a password has only printable ASCII characters without blanks")
    salt = secrets.token_bytes(SALT_BYTES)
    key = _key(password, salt, LOG2_COST, BLOCK_SIZE, PARALLELISM)
    parts = (LOG2_COST, BLOCK_SIZE, PARALLELISM, _text(salt), _text(key))
    return "$".join(["scrypt", *map(str, parts)])


def verify(password: str, encoded: str) -> bool:
    """Whether ``password`` is the one that was hashed; takes about 50 ms and the same time for every wrong one.

    It holds no lock of the interpreter meanwhile, but the loop thread has to leave it to an executor. ValueError if
    ``encoded`` is no hash of :func:`hash_password`.
    """
    log2_cost, block_size, parallelism, salt, key = _parts(encoded)
    return hmac.compare_digest(_key(password, salt, log2_cost, block_size, parallelism), key)


def check(encoded: str) -> None:
    """ValueError if this is no hash of :func:`hash_password`; costs nothing."""
    _parts(encoded)


def _parts(encoded: str) -> tuple[int, int, int, bytes, bytes]:
    try:
        name, log2_cost, block_size, parallelism, salt, key = encoded.split("$")
        parts = int(log2_cost), int(block_size), int(parallelism), _bytes(salt), _bytes(key)
    except ValueError:
        raise ValueError("no password hash: expected scrypt$cost$block$parallelism$salt$key") from None
    good = name == "scrypt" and 1 <= parts[0] <= MAX_LOG2_COST and parts[1] == BLOCK_SIZE and parts[2] == PARALLELISM
    if not good or len(parts[3]) != SALT_BYTES or len(parts[4]) != KEY_BYTES:
        raise ValueError("no password hash of a kind that is known here")
    return parts


def _key(password: str, salt: bytes, log2_cost: int, block_size: int, parallelism: int) -> bytes:
    return hashlib.scrypt(
        password.upper().encode(),
        salt=salt,
        n=1 << log2_cost,
        r=block_size,
        p=parallelism,
        maxmem=256 * block_size * (1 << log2_cost),
        dklen=KEY_BYTES,
    )


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode("ascii")


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, altchars=b"-_", validate=True)
