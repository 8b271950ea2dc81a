"""The configuration: defaults, the example file, and one clear line for everything that is wrong."""

from __future__ import annotations

import re
import tomllib
from datetime import datetime
from pathlib import Path

import pytest

from venue import config, passwords
from venue.addresses import host_and_port
from venue.config import Account, Config, ConfigError, Limits

EXAMPLE = Path(__file__).parents[2] / "deploy" / "venue.toml"
HASH = config.DEMO_PASSWORD_HASH.replace("$14$", "$13$")
"""Looks like a hash, and is not that of the demo accounts."""


def parse(text: str) -> Config:
    return config.parse(tomllib.loads(text))


def account(rest: str = "", username: str = "DESK1") -> str:
    return f'[[accounts]]\nusername = "{username}"\npassword_hash = "{HASH}"\n{rest}\n'


def test_no_file_is_needed() -> None:
    assert config.load() == config.load(None) == Config()
    assert [account.username for account in config.load().accounts] == ["TRADER", "MAKER", "TAKER", "LOADER"]
    assert passwords.verify("venue", config.DEMO_PASSWORD_HASH)


def test_the_example_shows_every_key_with_its_default() -> None:
    assert config.load(EXAMPLE) == Config()
    table = tomllib.loads(EXAMPLE.read_text())
    for section, keys in table.items():
        assert list(keys) == list(getattr(Config(), section).__struct_fields__), section
    assert [*table, "accounts"] == list(Config.__struct_fields__)


def test_the_example_of_an_account_shows_every_key_with_its_default() -> None:
    commented = EXAMPLE.read_text().partition("# [[accounts]]")
    text = "".join(re.sub("^# ?", "", line) for line in "".join(commented[1:]).splitlines(keepends=True))
    table = tomllib.loads(text.replace('"..."', f'"{HASH}"'))["accounts"][0]
    assert config.parse({"accounts": [table]}).accounts == (Account(username="DESK1", password_hash=HASH),)
    assert list(table) == list(Account.__struct_fields__)
    assert list(table["limits"]) == list(Limits.__struct_fields__)


def test_a_file_says_only_what_differs(tmp_path: Path) -> None:
    path = tmp_path / "venue.toml"
    path.write_text('[engine]\nmode = "match"\n' + account('self_match = "decrement"\n[accounts.limits]\nmax_long = 5'))
    loaded = config.load(path)
    assert (loaded.engine.mode, loaded.has_feed, loaded.orders) == ("match", False, config.Orders())
    [desk] = loaded.accounts
    assert (desk.self_match, desk.limits) == ("decrement", Limits(max_long=5))


def test_notional_limits_are_dollars_in_the_file_and_ticks_in_the_engine() -> None:
    assert Limits(max_order_notional_usd=1_000_000).max_order_notional == 10_000_000_000


def test_the_command_line_wins() -> None:
    changed = config.override(Config(), host="127.0.0.2", order_port=0, feed_port=1, http_port=2)
    assert (changed.orders.host, changed.feed.host, changed.http.host) == ("127.0.0.2",) * 3
    assert (changed.orders.port, changed.feed.port, changed.http.port) == (0, 1, 2)
    assert config.override(Config()) == Config()


def test_a_session_without_a_name_gets_one_from_the_time_of_the_start() -> None:
    at = datetime(2026, 11, 30, 14, 30, 7)
    assert config.with_session(Config(), at).orders.session == "1130143007"
    named = parse('[orders]\nsession = "MONDAY"')
    assert config.with_session(named, at) == named


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[order]", "order: unknown key; known here are orders, feed, http, engine, instruments, accounts"),
        ("[http]\nprot = 1", "http.prot: unknown key; known here are host, port, operator_token_hash"),
        ("[orders]\nport = 'x'", "orders.port: expected a whole number, not text"),
        ("[orders]\nport = true", "orders.port: expected a whole number, not true or false"),
        ("[orders]\nport = 26400.5", "orders.port: expected a whole number, not a fraction"),
        ("[orders]\nport = 65536", "orders.port: expected a whole number <= 65535"),
        ("[orders]\nport = -1", "orders.port: expected a whole number >= 0"),
        ("orders = 3", "orders: expected a table, not a whole number"),
        ("[orders]\nhost = ''", "orders.host: expected an address to listen on, such as 127.0.0.1, not ''"),
        ("[orders]\nsession = 'A B'", "orders.session: expected up to 10 letters and digits, or nothing, not 'A B'"),
        ("[orders]\nport = 7\n[http]\nport = 7", "http.port: 7 is taken by orders.port; both are TCP"),
        (
            "[http]\noperator_token_hash = 'secret'",
            "http.operator_token_hash: no password hash: expected scrypt$cost$block$parallelism$salt$key; "
            "`venue hash-password` makes one",
        ),
        ("[engine]\nmode = 'x'", 'engine.mode: expected "consume" or "match" or "passive", not \'x\''),
        ("[engine]\nevent_ring = 1000", "engine.event_ring: expected a power of two, not 1000"),
        ("[engine]\ncommand_ring = 0", "engine.command_ring: expected a whole number >= 64"),
        ("[engine]\norders_per_account = 65", "engine.orders_per_account: expected a power of two, not 65"),
        ("[engine]\ninstruments = 65535", "engine.instruments: expected a whole number <= 65534"),
        ("[engine]\nshards = 0", "engine.shards: expected a whole number >= 1"),
        ("[engine]\nshards = 17", "engine.shards: expected a whole number <= 16"),
        ("[engine]\nshards = 9\ninstruments = 8", "engine.shards: 9 are more than engine.instruments, 8"),
        (
            "[engine]\nshards = 16",
            "orders.max_store_bytes: 1073741824 is too little for 4 accounts and what is in the rings: at least "
            "1207959552, or a smaller engine.command_ring and event_ring or fewer engine.shards",
        ),
        ("[engine]\ninstruments = 1", "engine.instruments: 1 is too few for 8 instruments.symbols"),
        ("[instruments]\nsymbols = 'A'", "instruments.symbols: expected a list, not text"),
        ("[instruments]\nsymbols = ['A', 'A']", "instruments.symbols: A is there 2 times"),
        (
            "[instruments]\nsymbols = ['ABCDEFGHI']",
            "instruments.symbols: expected symbols of 1 to 8 ASCII characters without spaces, not 'ABCDEFGHI'",
        ),
        ("[feed]\ngroup = '10.0.0.1'", "feed.group: expected an IPv4 multicast group, not '10.0.0.1'"),
        ("[feed]\ninterface = 'lo'", "feed.interface: expected the IPv4 address of a host, not 'lo'"),
        ("[feed]\nsource = '10.0.0.1'", "feed.source: filters multicast only, and there is no feed.group"),
        ("[feed]\nrequest_server = '10.0.0.1'", "feed.request_server: expected host:port, not '10.0.0.1'"),
        ("[feed]\nline_b = 'a:0'", "feed.line_b: expected host:port, not 'a:0'"),
        ("[feed]\nline_b = '127.0.0.1:26477'", "feed.line_b: 127.0.0.1:26477 is the first line already"),
        (
            "[orders]\nmax_store_bytes = 402653183",
            "orders.max_store_bytes: 402653183 is too little for 4 accounts and what is in the rings: at least "
            "402653184, or a smaller engine.command_ring and event_ring",
        ),
        ("accounts = []", "accounts: expected 1 to 64 of them, not 0"),
        ("[[accounts]]\nusername = 'A'", "accounts[0].password_hash: missing"),
        (
            account(username="TOOLONG"),
            "accounts[0].username: expected 1 to 6 letters and digits, not 'TOOLONG'",
        ),
        (account() + account(username="desk1"), "accounts.username: DESK1 is there 2 times"),
        (account("firm = ''"), "accounts[0].firm: expected 1 to 4 letters and digits, not ''"),
        (
            account("self_match = 'no'"),
            'accounts[0].self_match: expected "allow" or "cancel_newest" or "cancel_oldest" or "decrement", not \'no\'',
        ),
        (account("[accounts.limits]\ncollar_bp = -1"), "accounts[0].limits.collar_bp: expected a whole number >= 0"),
        (
            "[[accounts]]\nusername = 'A'\npassword_hash = 'secret'",
            "accounts[0].password_hash: no password hash: expected scrypt$cost$block$parallelism$salt$key; "
            "`venue hash-password` makes one",
        ),
    ],
)
def test_what_is_wrong_is_one_line_that_names_the_key(text: str, line: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse(text)
    assert str(error.value) == line


def test_a_store_grows_with_the_accounts_or_the_rings_shrink() -> None:
    many = "".join(account(username=f"DESK{number}") for number in range(11))
    with pytest.raises(ConfigError, match=r"^orders\.max_store_bytes: 1073741824 is too little for 11 accounts"):
        parse(many)
    assert len(parse("[orders]\nmax_store_bytes = 1107296256\n" + many).accounts) == 11
    assert len(parse("[engine]\nevent_ring = 32768\n" + many).accounts) == 11


def test_several_matching_threads_have_rings_of_their_own() -> None:
    assert parse("").engine.ring_records == 2 << 16
    engine = parse("[engine]\nshards = 4").engine
    assert engine.shard_rings == (8_192, 8_192)
    assert engine.ring_records == (2 << 16) + 4 * 2 * 8_192
    assert parse("[engine]\nshards = 2\ncommand_ring = 128\nevent_ring = 1024").engine.shard_rings == (64, 128)


def test_files_that_are_none_are_one_line_that_names_the_file(tmp_path: Path) -> None:
    missing, broken, foreign, wrong = (tmp_path / name for name in ("missing", "broken", "foreign", "wrong"))
    broken.write_text("[orders\n")
    foreign.write_bytes(b"\xff\xfe")
    wrong.write_text("[orders]\nport = 'x'")
    for path, line in [
        (missing, "no such file or directory"),
        (broken, "no valid TOML: .*line 1"),
        (foreign, "no valid TOML: .*utf-8"),
        (tmp_path, "is a directory"),
        (wrong, "orders.port: expected a whole number, not text"),
    ]:
        with pytest.raises(ConfigError, match=f"^{re.escape(str(path))}: {line}"):
            config.load(path)


@pytest.mark.parametrize("host", ["0.0.0.0", "10.1.2.3", "::", "exchange.example"])
def test_accounts_that_everyone_knows_stay_on_this_host(host: str) -> None:
    with pytest.raises(ConfigError, match=r"orders\.host: .* the password of account TRADER is public"):
        config.override(Config(), host=host)
    own = parse(account() + f'[http]\noperator_token_hash = "{HASH}"')
    assert config.override(own, host=host).orders.host == host


@pytest.mark.parametrize("host", ["0.0.0.0", "10.1.2.3", "::", "exchange.example"])
def test_a_page_that_others_can_reach_needs_an_operator_token(host: str) -> None:
    own = parse(account())
    assert config.override(own, http_port=0).http.host == "127.0.0.1"
    with pytest.raises(ConfigError, match=r"^http\.host: .* set http\.operator_token_hash first"):
        config.override(own, host=host)
    with pytest.raises(ConfigError, match=r"^http\.host: "):
        parse(account() + f'[http]\nhost = "{host}"')


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("", []),
        ("host = '::1'\nline_b = '127.0.0.2:5'", []),
        ("host = '0.0.0.0'", ["0.0.0.0"]),
        ("host = '10.0.0.1'\nline_b = '10.0.0.2:5'", ["10.0.0.1", "10.0.0.2"]),
        ("host = '0.0.0.0'\ngroup = '239.1.1.1'\nline_b = '239.1.1.2:5'", []),
        ("group = '239.1.1.1'\nline_b = '10.0.0.2:5'", ["10.0.0.2"]),
    ],
)
def test_where_anybody_can_send_a_feed(text: str, hosts: list[str]) -> None:
    assert parse(f"[feed]\n{text}").feed.exposed == hosts


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_loopback_has_many_names(host: str) -> None:
    assert config.override(Config(), host=host).orders.host == host


@pytest.mark.parametrize("text", ["", "1.2.3.4", "1.2.3.4:", ":1", "a:x", "a:70000", "a:0", "a:-1", "a:²"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(ValueError, match="expected host:port"):
        host_and_port(text)


def test_addresses() -> None:
    assert host_and_port("10.0.0.1:26477") == ("10.0.0.1", 26477)
