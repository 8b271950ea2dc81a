"""What a client can work out from the messages it gets, held against what the exchange says of itself."""

from collections import Counter
from dataclasses import dataclass

from exchange import Event, Exchange, Print
from venue.engine import records as r
from venue.engine.records import MARKET_PRICES


@dataclass
class Line:
    """One order as its owner knows it."""

    instrument: int
    buys: bool
    price: int
    open: int


class Ledger:
    """Every share that was entered is executed, canceled or open; every trade is at a price that both agreed to."""

    def __init__(self) -> None:
        self.orders: dict[tuple[int, int], Line] = {}
        self.positions: Counter[tuple[int, int]] = Counter()
        self.last_match = 0
        self.trade: tuple[int, int] = (0, 0)  # price and shares of the last match

    def hear(self, events: list[Event]) -> None:
        for event in events:
            if event.kind == r.REPLACED:
                original = self.orders.pop((event.account, event.original_user_ref))
                assert original.instrument == event.instrument
                assert original.buys == (event.side == ord("B"))
            if event.kind in (r.ACCEPTED, r.REPLACED):
                assert event.quantity > 0
                self.orders[event.account, event.user_ref] = Line(
                    event.instrument, event.side == ord("B"), event.price, event.quantity
                )
            if event.kind in (r.EXECUTED, r.CANCELED, r.MODIFIED):
                self._change(event)

    def _change(self, event: Event) -> None:
        order = self.orders[event.account, event.user_ref]
        if event.kind == r.MODIFIED:
            assert 0 < event.quantity <= order.open
            order.open = event.quantity
            return
        assert 0 < event.quantity <= order.open
        order.open -= event.quantity
        if event.kind == r.EXECUTED:
            assert event.leaves == order.open
            self._executed(event, order)
        if order.open == 0:
            del self.orders[event.account, event.user_ref]

    def _executed(self, event: Event, order: Line) -> None:
        self.positions[event.account, order.instrument] += event.quantity if order.buys else -event.quantity
        if event.detail == ord("A"):
            assert event.price == order.price, "a trade prints at the resting order's price"
        elif order.price not in MARKET_PRICES:
            assert event.price <= order.price if order.buys else event.price >= order.price
        if event.reference == self.last_match:
            assert event.detail == ord("R"), "the resting side hears of a match first"
            assert self.trade == (event.price, event.quantity), "two sides of one match"
        assert event.reference in (self.last_match, self.last_match + 1)
        self.last_match, self.trade = event.reference, (event.price, event.quantity)

    def agrees_with(self, exchange: Exchange, accounts: int, instruments: int) -> None:
        """What is open and owned according to the messages is what the exchange has in its books."""
        for account in range(accounts):
            mine = [order for (owner, _), order in self.orders.items() if owner == account]
            told = exchange.account(account)
            assert told["open_orders"] == len(mine)
            assert told["open_shares"] == sum(order.open for order in mine)
            assert told["open_notional"] == sum(order.open * order.price for order in mine)
            for i in range(instruments):
                here = [order for order in mine if order.instrument == i]
                assert exchange.position(account, i) == {
                    "position": self.positions[account, i],
                    "open_buy": sum(order.open for order in here if order.buys),
                    "open_sell": sum(order.open for order in here if not order.buys),
                }
        for i in range(instruments):
            in_book = sum(open for side in exchange.book(i) for _, queue in side for _, open, is_own in queue if is_own)
            assert in_book == sum(order.open for order in self.orders.values() if order.instrument == i)


def check_tape(prints: list[Print], events: list[Event]) -> None:
    """The own trades on the tape are those that the clients heard of, side for side and in the same order."""
    heard: dict[int, dict[str, object]] = {}
    for event in events:
        if event.kind == r.EXECUTED:
            trade = heard.setdefault(event.reference, {"price": event.price, "quantity": event.quantity})
            trade["resting" if event.detail == ord("A") else "taking"] = event.account, event.user_ref
    own = [trade for trade in prints if trade.kind == "own"]
    assert [trade.match_number for trade in own] == list(heard)
    for trade, told in zip(own, heard.values(), strict=True):
        assert (trade.price, trade.quantity) == (told["price"], told["quantity"])
        assert (trade.resting, trade.taking) == (told.get("resting"), told.get("taking"))
