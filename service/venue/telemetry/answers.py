"""What the HTTP API answers: one type for each answer, from which the OpenAPI document is made.

Prices are text with four decimals, in USD, and the same number in ticks of 1/10,000 USD beside it. Times of the market
are nanoseconds since midnight in New York; wall-clock times, whose names end in ``_at``, ISO 8601 in UTC.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
import orjson
from msgspec import Meta

Price = Annotated[str, Meta(pattern=r"^-?\d+\.\d{4}$", examples=["189.5000"])]
Count = Annotated[int, Meta(ge=0)]
SideLetter = Literal["B", "S"]
TradingState = Literal["trading", "halted", "paused", "quotation only", "unknown"]
TradeKind = Literal["own", "recorded", "hidden", "cross"]


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all of them."""


class Error(Answer, frozen=True, kw_only=True):
    """Whatever went wrong, in one line."""

    error: str


# --- books --------------------------------------------------------------------------------------------------------


class Instrument(Answer, frozen=True, kw_only=True):
    symbol: str
    state: TradingState
    incomplete: bool
    """Messages of its history are missing."""
    last_price: Price | None
    bid: Price | None
    ask: Price | None


class Instruments(Answer, frozen=True, kw_only=True):
    instruments: list[Instrument]
    total: Count
    """How many match, on all pages."""
    next: int | None
    """The offset of the next page; null on the last one."""


class Level(Answer, frozen=True, kw_only=True):
    price: Price
    ticks: int
    shares: Count
    orders: Count
    own_shares: Count
    """Those of clients' orders."""


class BookOrder(Answer, frozen=True, kw_only=True):
    """A client's order in a book."""

    account: str
    user_ref: Count
    side: SideLetter
    price: Price
    ticks: int
    open: Count
    queue_ahead: Count
    """Shares before it at its price."""


class Book(Answer, frozen=True, kw_only=True):
    symbol: str
    time_ns: int | None
    """Market time of the last command before this copy."""
    state: TradingState
    incomplete: bool
    last_price: Price | None
    bids: list[Level]
    """Best first, like the asks; at most 20 of each."""
    asks: list[Level]
    own: list[BookOrder]
    """Clients' orders, at most 64: bids, then asks, best price first, then oldest first."""
    own_total: Count
    """How many clients' orders stand in this book."""


# --- orders and trades --------------------------------------------------------------------------------------------


class Order(Answer, frozen=True, kw_only=True):
    """A client's live order."""

    account: str
    user_ref: Count
    symbol: str
    side: SideLetter
    wire_side: str
    """As entered: B, S, T (short) or E (short exempt)."""
    price: Price
    ticks: int
    open: Count
    time_in_force: str
    capacity: str
    reference: int


class Orders(Answer, frozen=True, kw_only=True):
    orders: list[Order]
    """Oldest first; of several matching threads those of the first one, then those of the next."""
    total: Count
    missing: Count
    """Live orders for which the exchange's table of them had no room."""
    next: int | None


class Party(Answer, frozen=True, kw_only=True):
    account: str
    user_ref: Count


class Trade(Answer, frozen=True, kw_only=True):
    number: int
    """Counts all trades of its matching thread since the start, recorded ones included: the order in which they
    happened."""
    time_ns: int
    """That of the taker: by the exchange's clock if it is a client's order, else by the feed's. In a replay the two are
    hours apart, so sort by number."""
    symbol: str
    price: Price
    ticks: int
    quantity: Count
    side: SideLetter | None
    """The taker's; null where it is not known."""
    kind: TradeKind
    shard: Count
    """The matching thread of its symbol, from 0 on; there is only one unless engine.shards says otherwise."""
    match_number: Count
    """As the clients are told; 0 if no client has part in it."""
    resting: Party | None
    """Null: an order of the recorded day."""
    taking: Party | None


class Fills(Answer, frozen=True, kw_only=True):
    fills: list[Trade]
    next: int | str
    """What to ask for as ``since`` the next time: a number, or of several matching threads one each, with commas."""
    missed: Count
    """How many trades after ``since`` are no longer kept; some of them may have been fills."""


# --- figures ------------------------------------------------------------------------------------------------------


class Percentiles(Answer, frozen=True, kw_only=True):
    """Of the last ten seconds; null without samples."""

    count: Count
    p50_ns: int | None
    p90_ns: int | None
    p99_ns: int | None
    p999_ns: int | None
    max_ns: int | None


class Session(Answer, frozen=True, kw_only=True):
    """An account and its connection."""

    account: str
    logged_in: bool
    peer: str | None
    connected_at: str | None
    unsent_bytes: int
    sequence: Count
    """Messages in its stream."""
    messages_in: Count
    killed: bool
    open_orders: Count
    open_shares: Count
    open_notional: Price
    order_to_ack: Percentiles
    """Of its own orders."""


class Sessions(Answer, frozen=True, kw_only=True):
    sessions: list[Session]


class Divergence(Answer, frozen=True, kw_only=True):
    events: Count
    shares: Count


class FeedFigures(Answer, frozen=True, kw_only=True):
    time_ns: int | None
    """Market time of its last message."""
    session_open: bool
    messages: Count
    rate_per_s: float
    lag_ns: int | None
    """How much further behind the clock it is than it has been at best in this session."""
    gaps: Count
    missing: Count
    recovered: Count
    duplicates: Count
    kernel_drops: Count
    incomplete_books: Count
    divergence: Divergence
    to_book: Percentiles


class RingFigures(Answer, frozen=True, kw_only=True):
    command_depth: Count
    high_water: Count
    capacity: Count
    event_full: Count


class Stats(Answer, frozen=True, kw_only=True):
    """The same figures as /metrics."""

    state: str
    mode: str
    version: str
    started_at: str
    uptime_s: float
    order_to_ack: Percentiles
    order_to_ack_cells: list[tuple[int | None, int]]
    """Upper bound in ns (null above the last one) and orders since the start; without empty cells."""
    stages: dict[str, Percentiles]
    feed: FeedFigures
    orders: dict[str, int]
    rejects: dict[str, int]
    fills: Count
    filled_shares: Count
    trades: Count
    live_orders: Count
    """Recorded and clients'."""
    live_own_orders: Count
    sessions: list[Session]
    ring: RingFigures


# --- what changes something ---------------------------------------------------------------------------------------


class KillSwitch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of the request: true cancels all orders of the account and lets it enter none."""

    on: bool


class Killed(Answer, frozen=True, kw_only=True):
    account: str
    on: bool


def encode(answer: Any) -> bytes:
    """An answer, or a list of them, as JSON."""
    return orjson.dumps(msgspec.to_builtins(answer))
