"""What the naive exchange knows, how it tells it, and how a test looks at it. Nothing here decides anything."""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby

from commands import Command
from exchange import Event, Levels, Limits, Print
from venue.engine import records as r
from venue.engine.records import BUY, RECORDED, SELL


@dataclass(eq=False)
class Order:
    """An order in a book, recorded or own."""

    reference: int
    instrument: int
    side: int
    price: int
    open: int  # shares that can trade here
    arrival: int  # place in time
    displayed: int = 0  # recorded: what history says is left
    account: int = RECORDED
    user_ref: int = 0
    wire_side: int = 0  # own: B S T E
    capacity: int = 0
    spent: int = 0  # own: shares of the chain of replaces executed or taken off by self-match prevention

    @property
    def is_own(self) -> bool:
        return self.account != RECORDED

    @property
    def rank(self) -> tuple[int, int]:
        """Lower trades first: the better price, then the earlier arrival."""
        return (-self.price if self.side == BUY else self.price, self.arrival)


@dataclass
class Book:
    orders: list[Order] = field(default_factory=list)  # all that are known, also those with nothing open
    last_price: int = 0
    state: int = ord("T")
    recorded: bool = False  # a recorded order was ever in it
    incomplete: bool = False

    def queue(self, side: int) -> list[Order]:
        """The orders of one side that can trade, the first to trade first."""
        return sorted((o for o in self.orders if o.side == side and o.open > 0), key=lambda o: o.rank)


@dataclass
class Account:
    max_order_quantity: int = 0
    max_order_notional: int = 0
    collar_bp: int = 0
    max_open_orders: int = 0
    max_long: int = 0
    max_short: int = 0
    max_orders_per_s: int = 0
    self_match: int = r.ALLOW
    killed: int = 0
    last_user_ref: int = 0
    rate_time_ns: int = 0

    def __post_init__(self) -> None:
        self.positions: Counter[int] = Counter()  # shares bought less sold, by instrument


def crosses(side: int, price: int, other: int) -> bool:
    """An order of this side and price would trade with one of the other side at `other`."""
    return other <= price if side == BUY else other >= price


class State:
    """Books, accounts, counters and the events of the command at hand."""

    def __init__(
        self,
        mode: int = r.CONSUME,
        accounts: Sequence[Limits] = ({},),
        instruments: int = 1,
        orders: int = 1000,
    ) -> None:
        self.mode = mode
        self.order_capacity = orders
        self.books = [Book() for _ in range(instruments)]
        self.accounts = [Account(**limits) for limits in accounts]
        self.recorded: dict[int, Order] = {}  # every recorded order that is known, by its reference
        self.history_lost = False  # messages of this feed session were lost for good
        self.counts: Counter[str] = Counter()
        self.arrivals = 0
        self.own_references = 0
        self.match_numbers = 0
        self.events: list[Event] = []
        self.prints: list[Print] = []
        self.command = Command()

    # --- what is told ---------------------------------------------------------------------------------------------

    def tell(self, kind: int, account: int, answer: bool = False, **fields: int) -> None:
        """An event; `answer` if it is the first one that answers the message of a client."""
        ingress_ns = self.command.ingress_ns if answer else 0
        self.events.append(Event(kind, time_ns=self.command.time_ns, ingress_ns=ingress_ns, account=account, **fields))

    def tell_taken(self, kind: int, order: Order, c: Command, original_user_ref: int = 0) -> None:
        self.tell(
            kind,
            order.account,
            answer=True,
            user_ref=order.user_ref,
            original_user_ref=original_user_ref,
            instrument=order.instrument,
            side=order.wire_side,
            quantity=order.open,
            price=c.price,
            reference=order.reference,
            tif=c.tif,
            display=c.display,
            capacity=order.capacity,
            iso=c.iso,
            cross=ord("N"),
            word0=c.word0,
            word1=c.word1,
            detail=ord("L"),
        )

    def rejected(self, c: Command, reason: int) -> None:
        self.counts[f"orders_rejected {reason:#04x}"] += 1
        self.tell(r.REJECTED, c.account, True, user_ref=c.user_ref, detail=reason, word0=c.word0, word1=c.word1)

    def next_arrival(self) -> int:
        self.arrivals += 1
        return self.arrivals

    def matched(self, book: Book, shares: int, price: int) -> int:
        """A trade in which at least one order is an own one; gives back its match number."""
        book.last_price = price
        self.counts["fills"] += 1
        self.counts["filled_shares"] += shares
        self.counts["filled_notional"] += shares * price
        self.match_numbers += 1
        return self.match_numbers

    def print_own(self, resting: Order, taking: Order | None, shares: int, match_number: int) -> None:
        """A trade with an own order in it goes on the tape."""
        parties = [(o.account, o.user_ref) if o is not None and o.is_own else None for o in (resting, taking)]
        side = "B" if resting.side == SELL else "S"
        head = (self.command.time_ns, resting.instrument, "own", resting.price, shares, side)
        self.prints.append(Print(*head, match_number, *parties))

    def print_recorded(self, kind: str, instrument: int, price: int, shares: int, side: str = "") -> None:
        """What is left of a trade of the recorded day goes on the tape, too."""
        if shares > 0:
            self.prints.append(Print(self.command.time_ns, instrument, kind, price, shares, side))

    def executed(self, order: Order, shares: int, price: int, match_number: int, liquidity: str) -> None:
        """An own order has traded; its `open` is already what is left."""
        order.spent += shares
        self.accounts[order.account].positions[order.instrument] += shares if order.side == BUY else -shares
        self.tell(
            r.EXECUTED,
            order.account,
            user_ref=order.user_ref,
            quantity=shares,
            price=price,
            leaves=order.open,
            reference=match_number,
            detail=ord(liquidity),
        )

    def drop_if_done(self, own: Order) -> None:
        book = self.books[own.instrument]
        if own.open == 0 and own in book.orders:
            book.orders.remove(own)

    # --- looking at it --------------------------------------------------------------------------------------------

    def tape(self, after: int = 0) -> list[Print]:
        return self.prints[after:]

    def live_orders(self, account: int) -> list[Order]:
        return [order for book in self.books for order in book.orders if order.account == account]

    def live(self, account: int, user_ref: int) -> Order | None:
        return next((order for order in self.live_orders(account) if order.user_ref == user_ref), None)

    def orders_held(self) -> int:
        return sum(len(book.orders) for book in self.books)

    def book(self, instrument: int = 0) -> tuple[Levels, Levels]:
        def levels(side: int) -> Levels:
            by_price = groupby(self.books[instrument].queue(side), key=lambda order: order.price)
            return [(price, [(o.reference, o.open, o.is_own) for o in orders]) for price, orders in by_price]

        return levels(BUY), levels(SELL)

    def displayed(self, reference: int) -> int | None:
        return self.recorded[reference].displayed if reference in self.recorded else None

    def counters(self) -> dict[str, int]:
        return {name: count for name, count in self.counts.items() if count}

    def account(self, account: int = 0) -> dict[str, int]:
        orders = self.live_orders(account)
        return {
            "killed": self.accounts[account].killed,
            "last_user_ref": self.accounts[account].last_user_ref,
            "open_orders": len(orders),
            "open_shares": sum(order.open for order in orders),
            "open_notional": sum(order.open * order.price for order in orders),
        }

    def position(self, account: int = 0, instrument: int = 0) -> dict[str, int]:
        orders = [order for order in self.books[instrument].orders if order.account == account]
        return {
            "position": self.accounts[account].positions[instrument],
            "open_buy": sum(order.open for order in orders if order.side == BUY),
            "open_sell": sum(order.open for order in orders if order.side == SELL),
        }

    def state(self, instrument: int = 0) -> dict[str, int]:
        book = self.books[instrument]
        return {"last_price": book.last_price, "state": book.state, "incomplete": int(book.incomplete)}

    def queue_ahead(self, account: int, user_ref: int) -> int | None:
        order = self.live(account, user_ref)
        if order is None:
            return None
        queue = [other for other in self.books[order.instrument].queue(order.side) if other.price == order.price]
        return sum(other.open for other in queue[: queue.index(order)])

    def check_invariants(self) -> None:
        for book in self.books:
            for order in book.orders:
                assert order.open >= 0
                assert order.open > 0 if order.is_own else order.open <= order.displayed
            if self.mode != r.PASSIVE:
                for bid in book.queue(BUY):
                    for ask in book.queue(SELL):
                        assert bid.price < ask.price or not (bid.is_own or ask.is_own), "crossed"
        assert self.orders_held() <= self.order_capacity

    def state_hash(self) -> int:
        books = [(self.book(i), self.state(i)) for i in range(len(self.books))]
        accounts = [(self.account(i), self.accounts[i].positions) for i in range(len(self.accounts))]
        text = repr((books, accounts, self.own_references, self.match_numbers, sorted(self.recorded)))
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])
