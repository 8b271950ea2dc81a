"""The configuration: one TOML file, typed, with defaults for every key, so that no file is needed.

`load()` gives the embedded defaults, `load(path)` a file over them; `deploy/venue.toml` shows every key. Whatever is
wrong ends in a ConfigError of one line that names the key and says what is expected there.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from venue import passwords
from venue.addresses import host_and_port, is_loopback, is_multicast, is_unicast
from venue.engine.counters import ACCOUNTS, SHARDS

TICKS_A_DOLLAR: Final = 10_000

Port = Annotated[int, Meta(ge=0, le=65_535)]
"""TCP or UDP; 0 = any free one."""
Limit = Annotated[int, Meta(ge=0, le=1 << 40)]
"""Of a risk check; 0 = no limit."""
Slots = Annotated[int, Meta(ge=1, le=(1 << 31) - 2)]
"""Of a pool whose links are 32 bits wide."""
SelfMatch = Literal["allow", "cancel_newest", "cancel_oldest", "decrement"]
Mode = Literal["match", "consume", "passive"]
Wait = Literal["adaptive", "spin", "park"]


STORE_BYTES_A_RECORD: Final = 768
"""Of all rings: so much of an account's session store. When two thirds of it are used, all its orders are canceled,
and what is in the rings then comes on top. An order is Accepted with 67 bytes and Canceled with 21: C bytes of which
two thirds are Accepted orders need 2/3 C × 21/67 for the end, 0.124 C of the last third are left for the rings, and
67 + 21 bytes a record are at most that if C is 708 bytes a record or more."""


class ConfigError(ValueError):
    """A configuration that cannot be used. The text is one line that names the key and what is expected."""


class _Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pass


class Orders(_Section, frozen=True, kw_only=True):
    """Order entry: OUCH 5.0 over SoupBinTCP over TCP. Timeouts are those of the protocol and no options."""

    host: str = "127.0.0.1"
    port: Port = 26_400
    session: str = ""
    """Up to 10 letters and digits; empty = made from the time of the start, so that a client which asks to resume a
    session of an earlier run is told that it is gone."""
    max_connections: Annotated[int, Meta(ge=1, le=10_000)] = 256
    """Once there are more, or one host has half as many that are not logged in, the oldest of those is closed."""
    max_unsent_bytes: Annotated[int, Meta(ge=4_096, le=1 << 30)] = 8 << 20
    """A client that has not taken this much of what was written for it is cut off."""
    max_store_bytes: Annotated[int, Meta(ge=65_536, le=1 << 40)] = 1 << 30
    """Everything ever sent to all accounts of the session, in equal shares, kept so that they can resume. At least
    768 for every account and record of engine.command_ring and event_ring, and an eighth more for each of several
    engine.shards; memory is taken only when it is used."""


class Feed(_Section, frozen=True, kw_only=True):
    """Market data: ITCH 5.0 over MoldUDP64 over UDP. Not listened to in mode match."""

    host: str = "127.0.0.1"
    """Where unicast arrives; with a group it is not used. MoldUDP64 has no password: on another address than loopback
    a firewall has to keep others out. The exchange says so when it starts."""
    port: Port = 26_477
    group: str = ""
    """IPv4 multicast group to join; empty = unicast."""
    interface: str = ""
    """Address of the interface that joins; empty = the system's choice."""
    source: str = ""
    """The only sender accepted (source-specific multicast); empty = any."""
    line_b: str = ""
    """A second line with the same packets, `address:port`: a group or, for unicast, a local address."""
    request_server: str = ""
    """Where lost messages are asked for, `host:port`; empty = what is lost is lost, and the books are flagged."""
    join: Literal["start", "now"] = "start"
    """A first packet that is not number 1 is a gap (start), or that is where the day begins for us (now)."""
    receive_buffer_bytes: Annotated[int, Meta(ge=65_536, le=1 << 30)] = 8 << 20
    """Asked of the kernel, which may give less."""

    @property
    def exposed(self) -> list[str]:
        """Unicast hosts reachable from outside, where anybody's packets are taken for the feed."""
        hosts = [self.group or self.host, *([host_and_port(self.line_b)[0]] if self.line_b else [])]
        return [] if self.source else [host for host in hosts if not (is_loopback(host) or is_multicast(host))]


class Http(_Section, frozen=True, kw_only=True):
    """The telemetry process: the page, the API, /metrics, /healthz, /readyz. Reading needs no token."""

    host: str = "127.0.0.1"
    port: Port = 26_480
    operator_token_hash: str = ""
    """Of the token that whoever changes anything has to show, as `venue hash-password` prints it; empty = nobody can.
    Another address than loopback needs one."""


SMALLEST_RING: Final = 64


class Engine(_Section, frozen=True, kw_only=True):
    """The matching threads. Capacities are fixed at start; memory is touched only when it is used."""

    mode: Mode = "consume"
    """match: live orders only, no feed; consume: what own orders took of the recorded ones stays taken; passive: own
    fills leave the recorded orders untouched."""
    wait: Wait = "adaptive"
    """For work: spin and then park, always spin (a core of its own), or park at once."""
    shards: Annotated[int, Meta(ge=1, le=SHARDS)] = 1
    """Matching threads; instrument number n, counted from 0 in the order in which they become known, belongs to thread
    n modulo shards. Each wants a core of its own beside the loop thread's."""
    orders: Slots = 1 << 21
    """Live at the same time in each matching thread, recorded and own; the busiest day of all of Nasdaq has 1.92
    million."""
    levels: Slots = 1 << 20
    instruments: Annotated[int, Meta(ge=1, le=65_534)] = 12_000
    orders_per_account: Annotated[int, Meta(ge=64, le=1 << 30)] = 1 << 20
    """Spread of the UserRefNums of an account's live orders; a power of two."""
    command_ring: Annotated[int, Meta(ge=SMALLEST_RING, le=1 << 26)] = 1 << 16
    """Records of 64 bytes; a power of two."""
    event_ring: Annotated[int, Meta(ge=SMALLEST_RING, le=1 << 26)] = 1 << 16
    """Records of 128 bytes; a power of two."""

    @property
    def shard_rings(self) -> tuple[int, int]:
        """Records of the two rings that each of several matching threads has besides: an eighth, as an order should
        find few commands of the feed before it (:mod:`venue.feed`)."""
        return max(self.command_ring // 8, SMALLEST_RING), max(self.event_ring // 8, SMALLEST_RING)

    @property
    def ring_records(self) -> int:
        """Of all rings."""
        own = self.shards * sum(self.shard_rings) if self.shards > 1 else 0
        return self.command_ring + self.event_ring + own


class Instruments(_Section, frozen=True, kw_only=True):
    symbols: tuple[str, ...] = ("AAPL", "AMD", "AMZN", "GOOGL", "META", "MSFT", "NVDA", "TSLA")
    """Known from the start; a feed adds those of its stock directory."""


class Limits(_Section, frozen=True, kw_only=True):
    """Checked before the book, in this order; 0 or absent = no limit. Each has an OUCH reject reason of its own."""

    max_order_quantity: Limit = 0
    """Shares of one order (reason 0x31)."""
    max_order_notional_usd: Limit = 0
    """Whole dollars of one order (0x30)."""
    collar_bp: Annotated[int, Meta(ge=0, le=10_000)] = 0
    """Basis points by which a limit price may be worse than the opposite touch or the last trade (0x26)."""
    max_open_orders: Limit = 0
    """Of the account, over all instruments (0x1E)."""
    max_long: Limit = 0
    """Shares of one instrument once all open buys are filled (0x20)."""
    max_short: Limit = 0
    """Shares of one instrument once all open sells are filled (0x20)."""
    max_orders_per_s: Annotated[int, Meta(ge=0, le=1_000_000_000)] = 0
    """Enter and Replace, by the time of arrival; bursts of up to one second's worth pass (0x29)."""
    kill_switch: bool = False
    """No new orders at all (0x0C)."""

    @property
    def max_order_notional(self) -> int:
        """Ticks × shares, as the engine counts."""
        return self.max_order_notional_usd * TICKS_A_DOLLAR


class Account(_Section, frozen=True, kw_only=True):
    username: str
    """1 to 6 letters and digits; upper and lower case are the same."""
    password_hash: str
    """As `venue hash-password` prints it."""
    firm: str = "VNUE"
    """Up to 4 letters and digits."""
    cancel_on_disconnect: bool = False
    self_match: SelfMatch = "allow"
    """What happens when an order meets one of the same account."""
    limits: Limits = Limits()


DEMO_PASSWORD_HASH: Final = "scrypt$14$8$1$Bu2F5RmY591DhY9riINuQg==$BgOzYcOyupysTyJceFaLeyaVFqtSzwkfK0VtV13Qw2g="
DEMO_ACCOUNTS: Final = tuple(
    Account(username=name, password_hash=DEMO_PASSWORD_HASH) for name in ("TRADER", "MAKER", "TAKER", "LOADER")
)
"""Known to everyone who can read, hence refused on anything but loopback."""


class Config(_Section, frozen=True, kw_only=True):
    orders: Orders = Orders()
    feed: Feed = Feed()
    http: Http = Http()
    engine: Engine = Engine()
    instruments: Instruments = Instruments()
    accounts: tuple[Account, ...] = DEMO_ACCOUNTS

    @property
    def has_feed(self) -> bool:
        return self.engine.mode != "match"


def load(path: Path | str | None = None) -> Config:
    """The configuration in a TOML file, or the embedded defaults. Raises ConfigError."""
    if path is None:
        config = Config()
        check(config)
        return config
    try:
        with open(path, "rb") as file:
            table = tomllib.load(file)
    except OSError as error:
        raise ConfigError(f"{path}: {(error.strerror or str(error)).lower()}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: no valid TOML: {_one_line(str(error))}") from None
    try:
        config = parse(table)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
    return config


def parse(table: dict[str, Any]) -> Config:
    """The configuration in an already decoded TOML document. Raises ConfigError."""
    try:
        config = msgspec.convert(table, Config)
    except msgspec.ValidationError as error:
        raise ConfigError(_explain(str(error))) from None
    check(config)
    return config


def override(
    config: Config,
    *,
    host: str | None = None,
    order_port: int | None = None,
    feed_port: int | None = None,
    http_port: int | None = None,
) -> Config:
    """The same configuration with what the command line says instead; `host` is that of all three sockets."""

    def section(old: Any, port: int | None) -> Any:
        new = {"host": host, "port": port}
        return msgspec.structs.replace(old, **{key: value for key, value in new.items() if value is not None})

    result: Config = msgspec.structs.replace(
        config,
        orders=section(config.orders, order_port),
        feed=section(config.feed, feed_port),
        http=section(config.http, http_port),
    )
    check(result)
    return result


def with_session(config: Config, started_at: datetime) -> Config:
    """With a name for the session if the file gives none: month, day and time of the start, as in `1130143007`."""
    if config.orders.session:
        return config
    orders = msgspec.structs.replace(config.orders, session=f"{started_at:%m%d%H%M%S}")
    return msgspec.structs.replace(config, orders=orders)


# --- what types alone do not say ----------------------------------------------------------------------------------


def check(config: Config) -> None:
    """Raise ConfigError for the first thing that cannot work."""
    _check_sockets(config)
    _check_feed(config.feed)
    _check_engine(config)
    _check_accounts(config.accounts)
    _check_store(config)
    demo = next((account for account in config.accounts if account.password_hash == DEMO_PASSWORD_HASH), None)
    if demo is not None and not is_loopback(config.orders.host):
        raise ConfigError(
            f"orders.host: {config.orders.host} can be reached from outside, and the password of account "
            f"{demo.username} is public: configure [[accounts]] of your own first"
        )
    _check_operator(config.http)


def _check_sockets(config: Config) -> None:
    ports = {"orders.port": config.orders.port, "feed.port": config.feed.port, "http.port": config.http.port}
    for key, port in ports.items():  # the command line gets here without msgspec's check
        _require(0 <= port <= 65_535, key, "a port from 0 (any free one) to 65535", port)
    for key, host in (("orders.host", config.orders.host), ("http.host", config.http.host)):
        _require(bool(host.strip()), key, "an address to listen on, such as 127.0.0.1", host)
    if config.orders.port and config.orders.port == config.http.port:
        raise ConfigError(f"http.port: {config.http.port} is taken by orders.port; both are TCP")
    _require(
        re.fullmatch(r"[A-Za-z0-9]{0,10}", config.orders.session) is not None,
        "orders.session",
        "up to 10 letters and digits, or nothing",
        config.orders.session,
    )


def _check_operator(http: Http) -> None:
    if http.operator_token_hash:
        try:
            passwords.check(http.operator_token_hash)
        except ValueError as error:
            raise ConfigError(f"http.operator_token_hash: {error}; `venue hash-password` makes one") from None
    elif not is_loopback(http.host):
        raise ConfigError(
            f"http.host: {http.host} can be reached from outside: set http.operator_token_hash first, as "
            "`venue hash-password` prints it"
        )


def _check_feed(feed: Feed) -> None:
    if feed.group:
        _require(is_multicast(feed.group), "feed.group", "an IPv4 multicast group", feed.group)
    else:
        _require(bool(feed.host.strip()), "feed.host", "an address to listen on, such as 127.0.0.1", feed.host)
    for key, value in (("interface", feed.interface), ("source", feed.source)):
        if value:
            _require(is_unicast(value), f"feed.{key}", "the IPv4 address of a host", value)
    if feed.source and not feed.group:
        raise ConfigError("feed.source: filters multicast only, and there is no feed.group")
    for key, value in (("line_b", feed.line_b), ("request_server", feed.request_server)):
        if value:
            try:
                host_and_port(value)
            except ValueError as error:
                raise ConfigError(f"feed.{key}: {error}") from None
    if feed.line_b and host_and_port(feed.line_b) == (feed.group or feed.host, feed.port):
        raise ConfigError(f"feed.line_b: {feed.line_b} is the first line already")


def _check_engine(config: Config) -> None:
    engine = config.engine
    for key in ("orders_per_account", "command_ring", "event_ring"):
        value = getattr(engine, key)
        _require(value & (value - 1) == 0, f"engine.{key}", "a power of two", value)
    if engine.shards > engine.instruments:
        raise ConfigError(f"engine.shards: {engine.shards} are more than engine.instruments, {engine.instruments}")
    symbols = config.instruments.symbols
    for symbol in symbols:
        good = re.fullmatch(r"[!-~]{1,8}", symbol) is not None
        _require(good, "instruments.symbols", "symbols of 1 to 8 ASCII characters without spaces", symbol)
    _no_twice("instruments.symbols", symbols)
    if len(symbols) > engine.instruments:
        raise ConfigError(f"engine.instruments: {engine.instruments} is too few for {len(symbols)} instruments.symbols")


def _check_accounts(accounts: Sequence[Account]) -> None:
    if not 1 <= len(accounts) <= ACCOUNTS:
        raise ConfigError(f"accounts: expected 1 to {ACCOUNTS} of them, not {len(accounts)}")
    for number, account in enumerate(accounts):
        key = f"accounts[{number}]"
        good = re.fullmatch(r"[A-Za-z0-9]{1,6}", account.username) is not None
        _require(good, f"{key}.username", "1 to 6 letters and digits", account.username)
        good = re.fullmatch(r"[A-Za-z0-9]{1,4}", account.firm) is not None
        _require(good, f"{key}.firm", "1 to 4 letters and digits", account.firm)
        try:
            passwords.check(account.password_hash)
        except ValueError as error:
            raise ConfigError(f"{key}.password_hash: {error}; `venue hash-password` makes one") from None
    _no_twice("accounts.username", [account.username.upper() for account in accounts])


def _check_store(config: Config) -> None:
    accounts = len(config.accounts)
    needed = accounts * config.engine.ring_records * STORE_BYTES_A_RECORD
    if config.orders.max_store_bytes < needed:
        fewer = " or fewer engine.shards" if config.engine.shards > 1 else ""
        raise ConfigError(
            f"orders.max_store_bytes: {config.orders.max_store_bytes} is too little for {accounts} accounts and what "
            f"is in the rings: at least {needed}, or a smaller engine.command_ring and event_ring{fewer}"
        )


def _no_twice(key: str, values: Sequence[str]) -> None:
    for value, count in Counter(values).items():
        if count > 1:
            raise ConfigError(f"{key}: {value} is there {count} times")


def _require(good: bool, key: str, expected: str, value: object) -> None:
    if not good:
        raise ConfigError(f"{key}: expected {expected}, not {value!r}")


# --- errors in words ----------------------------------------------------------------------------------------------

_WORDS = {
    "`int`": "a whole number", "`str`": "text", "`bool`": "true or false", "`array`": "a list", "`object`": "a table",
    "`float`": "a fraction",
}  # fmt: skip


def _explain(message: str) -> str:
    """A complaint of msgspec as a line that begins with the key: "Expected `int`, got `str` - at `$.orders.port`"."""
    reason, _, place = message.partition(" - at `$")
    path = place.rstrip("`").lstrip(".")
    if unknown := re.fullmatch(r"Object contains unknown field `(.*)`", reason, re.DOTALL):
        key = f"{path}.{unknown[1]}" if path else unknown[1]
        return f"{_one_line(key)}: unknown key; known here are {', '.join(_known_keys(path))}"
    if missing := re.fullmatch(r"Object missing required field `(.*)`", reason):
        return f"{path}.{missing[1]}: missing"
    if choice := re.fullmatch(r"Invalid enum value (.*)", reason, re.DOTALL):
        return f"{path}: expected {' or '.join(_choices(path))}, not {_one_line(choice[1])}"
    for name, words in _WORDS.items():
        reason = reason.replace(name, words)
    return f"{path or 'file'}: {_one_line(reason[0].lower() + reason[1:]).replace(', got', ', not')}"


def _at(path: str) -> Any:
    """The type at a path such as `accounts[0].limits`."""
    kind: Any = msgspec.inspect.type_info(Config)
    for name in filter(None, re.sub(r"\[[^]]*]", "", path).split(".")):
        kind = next(field.type for field in kind.fields if field.encode_name == name)
        if isinstance(kind, msgspec.inspect.VarTupleType):
            kind = kind.item_type
    return kind


def _known_keys(path: str) -> list[str]:
    return [field.encode_name for field in _at(path).fields]


def _choices(path: str) -> list[str]:
    return [f'"{value}"' for value in _at(path).values]


def _one_line(text: str) -> str:
    return " ".join(text.split())
