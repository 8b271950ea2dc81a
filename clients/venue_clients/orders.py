"""What a client knows of its orders from the messages it sent and received: no network, no clock.

`OrderView` takes the exchange's messages in their order and keeps a state for each order and the position in each
stock. It follows OUCH 5.0 in the revision of 2025: Executed and Canceled are incremental, Replaced and Modified say
what is open now, a replaced order goes on under its new UserRefNum with what its chain has executed.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Final

from venue.wire import ouch
from venue_clients.prices import TICKS_A_DOLLAR

FINISHED_KEPT: Final = 10_000
"""Orders that are over and still known; the oldest are forgotten, so that a day has no end of memory."""


class Status(StrEnum):
    PENDING = "pending"
    """Sent, not answered."""
    LIVE = "live"
    REJECTED = "rejected"
    IGNORED = "ignored"
    """The exchange has passed over it without an answer, as it does with a replace that came too late."""
    REPLACED = "replaced"
    """Goes on under another number."""
    DONE = "done"
    """Nothing open: executed, canceled, or some of both."""


FINISHED: Final = frozenset({Status.REJECTED, Status.IGNORED, Status.REPLACED, Status.DONE})


@dataclass(slots=True)
class OrderState:
    """One order. Quantities are shares, prices ticks of 1/10,000 USD."""

    user_ref: int
    symbol: str
    side: str
    """B S T E"""
    quantity: int
    """The total of the chain of replaces: executed, open and canceled."""
    price: int
    tif: str
    status: Status = Status.PENDING
    open: int = 0
    executed: int = 0
    """By the whole chain."""
    notional: int = 0
    """Ticks times shares executed."""
    reference: int = 0
    """The order's number on the public feed."""
    replaces: int = 0
    """The number of the order that this one replaces; 0 = none."""
    reason: int = 0
    """Of a rejection: a RejectReason."""

    @property
    def is_live(self) -> bool:
        return self.status is Status.LIVE

    @property
    def average_price(self) -> Decimal | None:
        """Dollars; None while nothing has been executed."""
        return Decimal(self.notional) / self.executed / TICKS_A_DOLLAR if self.executed else None


class OrderView:
    """All orders of one account by UserRefNum, its positions by symbol, and the next number to use."""

    def __init__(self, finished_kept: int = FINISHED_KEPT) -> None:
        self.orders: dict[int, OrderState] = {}
        self.positions: dict[str, int] = {}
        """Shares bought less sold, as far as the messages seen tell."""
        self.next_user_ref = 1
        self.unknown = 0
        """Messages about orders from before the first message seen; they are not in the view."""
        self._finished: deque[int] = deque()
        self._finished_kept = finished_kept

    def live(self) -> list[OrderState]:
        return [order for order in self.orders.values() if order.is_live]

    def entered(self, message: ouch.EnterOrder) -> None:
        """An order has been sent."""
        self._use(message.user_ref_num)
        self._add(
            OrderState(
                message.user_ref_num,
                message.symbol,
                message.side,
                message.quantity,
                message.price,
                message.time_in_force,
            )
        )

    def replacing(self, message: ouch.ReplaceOrder) -> None:
        """A replace has been sent. KeyError if the original is not known."""
        original = self.orders[message.orig_user_ref_num]
        self._use(message.user_ref_num)
        self._add(
            OrderState(
                message.user_ref_num,
                original.symbol,
                original.side,
                message.quantity,
                message.price,
                message.time_in_force,
                replaces=original.user_ref,
            )
        )

    def ignored(self, user_ref: int) -> None:
        """The exchange has gone past the message with this number and never answered it."""
        order = self.orders.get(user_ref)
        if order is not None and order.status is Status.PENDING:
            self._finish(order, Status.IGNORED)

    def apply(self, message: ouch.OutboundMessage) -> OrderState | None:
        """Take the exchange's message in; returns the order that it is about."""
        if isinstance(message, ouch.Accepted):
            return self._accepted(message)
        if isinstance(message, ouch.Replaced):
            return self._replaced(message)
        if isinstance(message, ouch.AccountQueryResponse):
            self.next_user_ref = max(self.next_user_ref, message.next_user_ref_num)
            return None
        if isinstance(message, ouch.Rejected):
            self._use(message.user_ref_num)
        user_ref = getattr(message, "user_ref_num", None)
        order = None if user_ref is None else self.orders.get(user_ref)
        if order is not None:
            self._change(order, message)
        elif user_ref is not None:
            self.unknown += 1
        return order

    def _accepted(self, message: ouch.Accepted) -> OrderState:
        self._use(message.user_ref_num)
        order = OrderState(
            message.user_ref_num,
            message.symbol,
            message.side,
            message.quantity,
            message.price,
            message.time_in_force,
            reference=message.order_reference_number,
        )
        return self._begin(order, message.quantity, message.order_state)

    def _replaced(self, message: ouch.Replaced) -> OrderState:
        self._use(message.user_ref_num)
        order = OrderState(
            message.user_ref_num,
            message.symbol,
            message.side,
            message.quantity,
            message.price,
            message.time_in_force,
            reference=message.order_reference_number,
            replaces=message.orig_user_ref_num,
        )
        original = self.orders.get(message.orig_user_ref_num)
        if original is not None:
            order.executed, order.notional = original.executed, original.notional
            order.quantity += original.executed
            original.open = 0
            self._finish(original, Status.REPLACED)
        return self._begin(order, message.quantity, message.order_state)

    def _begin(self, order: OrderState, open_quantity: int, order_state: str) -> OrderState:
        self._add(order)
        if order_state == "L":
            order.status, order.open = Status.LIVE, open_quantity
        else:
            self._finish(order, Status.DONE)
        return order

    def _change(self, order: OrderState, message: ouch.OutboundMessage) -> None:
        match message:
            case ouch.Executed():
                order.executed += message.quantity
                order.notional += message.quantity * message.price
                sign = 1 if order.side == "B" else -1
                self.positions[order.symbol] = self.positions.get(order.symbol, 0) + sign * message.quantity
                self._reduce(order, message.quantity)
            case ouch.Canceled():
                self._reduce(order, message.quantity)
            case ouch.AiqCanceled():
                self._reduce(order, message.decrement_shares)
            case ouch.Modified():
                order.side = message.side
                self._reduce(order, order.open - message.quantity)
            case ouch.PriorityUpdate():
                order.price, order.reference = message.price, message.order_reference_number
            case ouch.Rejected():
                order.reason = message.reason
                self._finish(order, Status.REJECTED)

    def _reduce(self, order: OrderState, quantity: int) -> None:
        order.open = max(0, order.open - quantity)
        if order.open == 0:
            self._finish(order, Status.DONE)

    def _use(self, user_ref: int) -> None:
        self.next_user_ref = max(self.next_user_ref, user_ref + 1)

    def _add(self, order: OrderState) -> None:
        self.orders[order.user_ref] = order

    def _finish(self, order: OrderState, status: Status) -> None:
        if order.status in FINISHED:
            return
        order.status = status
        self._finished.append(order.user_ref)
        if len(self._finished) > self._finished_kept:
            self.orders.pop(self._finished.popleft(), None)
