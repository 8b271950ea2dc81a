"""What every exchange under test can do, so that one suite runs over the naive and the compiled one."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from commands import Command
from venue.engine import records as r
from venue.wire.ouch.codes import RejectReason

Levels = list[tuple[int, list[tuple[int, int, bool]]]]
"""One side, best price first: (price, its queue of (reference, open shares, is an own order))."""

Limits = Mapping[str, int]
"""Limits of one account by their names in ACCOUNT; those left out are off."""


class Event(NamedTuple):
    """One EVENT record; fields that its kind does not use (see USED) are 0."""

    kind: int
    time_ns: int = 0
    ingress_ns: int = 0
    account: int = 0
    user_ref: int = 0
    original_user_ref: int = 0
    instrument: int = 0
    side: int = 0
    quantity: int = 0
    price: int = 0
    leaves: int = 0
    reference: int = 0
    tif: int = 0
    display: int = 0
    capacity: int = 0
    iso: int = 0
    cross: int = 0
    word0: int = 0
    word1: int = 0
    detail: int = 0

    def __str__(self) -> str:
        """The event in one line, without times and mere echoes: `0 executed 1: 40 @ 10000 A, 60 left`."""
        return f"{self.account} " + _LINES[self.kind].format(
            *self,
            **self._asdict(),
            side_letter=chr(self.side),
            letter=chr(self.detail),
            reason=_reason(self.detail) if self.kind == r.REJECTED else "",
        )


_LINES = {
    r.ACCEPTED: "accepted {user_ref}: {side_letter} {quantity} @ {price}",
    r.REPLACED: "replaced {original_user_ref} by {user_ref}: {side_letter} {quantity} @ {price}",
    r.EXECUTED: "executed {user_ref}: {quantity} @ {price} {letter}, {leaves} left",
    r.CANCELED: "canceled {user_ref}: {quantity} {letter}",
    r.REJECTED: "rejected {user_ref}: {reason}",
    r.MODIFIED: "modified {user_ref}: {side_letter} {quantity}",
    r.QUERY_RESPONSE: "next number {user_ref}",
    r.SYSTEM_EVENT: "system event {letter}",
}

_ALWAYS = {"kind", "time_ns", "ingress_ns", "account"}
_ECHO = {
    "user_ref",
    "instrument",
    "side",
    "quantity",
    "price",
    "reference",
    "tif",
    "display",
    "capacity",
    "iso",
} | {
    "cross",
    "word0",
    "word1",
    "detail",
}
USED: dict[int, set[str]] = {
    r.ACCEPTED: _ALWAYS | _ECHO,
    r.REPLACED: _ALWAYS | _ECHO | {"original_user_ref"},
    r.EXECUTED: _ALWAYS | {"user_ref", "instrument", "quantity", "price", "leaves", "reference", "detail"},
    r.CANCELED: _ALWAYS | {"user_ref", "quantity", "detail"},
    r.REJECTED: _ALWAYS | {"user_ref", "detail", "word0", "word1"},
    r.MODIFIED: _ALWAYS | {"user_ref", "side", "quantity"},
    r.QUERY_RESPONSE: _ALWAYS | {"user_ref"},
    r.SYSTEM_EVENT: _ALWAYS | {"detail"},
}
"""What each kind of event says."""


def _reason(code: int) -> str:
    return RejectReason(code).name if code in set(RejectReason) else hex(code)


def sent(exchange: "Exchange", *commands: Command) -> list[str]:
    """Sends the commands; what was heard of all of them, a line an event."""
    return [str(event) for command in commands for event in exchange.send(command)]


def sizes(exchange: "Exchange") -> tuple[list[tuple[int, list[int]]], list[tuple[int, list[int]]]]:
    """Bids and asks as (price, shares of each order in the queue)."""
    bids, asks = exchange.book()
    return (
        [(price, [open for _, open, _ in queue]) for price, queue in bids],
        [(price, [open for _, open, _ in queue]) for price, queue in asks],
    )


class Print(NamedTuple):
    """A trade on the tape. A party is (account, UserRefNum), None the recorded day; the side is the taker's, or ""."""

    time_ns: int
    instrument: int
    kind: str
    price: int
    quantity: int
    side: str
    match_number: int = 0
    resting: tuple[int, int] | None = None
    taking: tuple[int, int] | None = None

    def __str__(self) -> str:
        """`own B 5 @ 10000: 0/1 met by feed`"""
        parties = [f"{who[0]}/{who[1]}" if who else "feed" for who in (self.resting, self.taking)]
        return f"{self.kind} {self.side or '-'} {self.quantity} @ {self.price}: {parties[0]} met by {parties[1]}"


class Exchange(Protocol):
    """An exchange with books for `instruments` instruments and one account for each of `accounts`."""

    def send(self, command: Command) -> list[Event]:
        """Handles one command completely; everything that the clients hear of it, in order."""

    def book(self, instrument: int = 0) -> tuple[Levels, Levels]:
        """Bids and asks."""

    def displayed(self, reference: int) -> int | None:
        """What history says is left of a recorded order; None if it is not known."""

    def counters(self) -> dict[str, int]:
        """What was counted, by the names of MATCHER, without zeros; rejects as `orders_rejected 0x1d`."""

    def account(self, account: int = 0) -> dict[str, int]:
        """killed, last_user_ref, open_orders, open_shares, open_notional."""

    def position(self, account: int = 0, instrument: int = 0) -> dict[str, int]:
        """position, open_buy, open_sell."""

    def state(self, instrument: int = 0) -> dict[str, int]:
        """last_price, state, incomplete of a book."""

    def tape(self, after: int = 0) -> list[Print]:
        """The trades after number ``after``, the first one being number 1."""

    def queue_ahead(self, account: int, user_ref: int) -> int | None:
        """Shares before a live order at its price; None if it is not live."""

    def check_invariants(self) -> None:
        """Fails if the state contradicts itself."""

    def state_hash(self) -> int:
        """The same for the same state, in any process; says nothing across implementations."""


class NewExchange(Protocol):
    def __call__(
        self,
        mode: int = r.CONSUME,
        accounts: Sequence[Limits] = ({},),
        instruments: int = 1,
        orders: int = 1000,
    ) -> Exchange:
        """A fresh exchange that can hold so many `orders`, recorded and own together."""


EXCHANGES = ["reference", "compiled"]


def new_exchange(name: str) -> NewExchange:
    """How to make one of EXCHANGES."""
    if name == "reference":
        from reference import Reference

        return Reference
    from engine_under_test import Engine

    return Engine
