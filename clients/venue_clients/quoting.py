"""How a market maker quotes one stock: decisions only, no network; the clock comes in as an argument.

Both quotes stand `edge` price steps behind the touch (0 joins it, less than 0 improves it) and are moved against the
inventory: long means both lower, short both higher, by up to SKEW_STEPS. A quote never reaches the other side of the
touch, and its size never lets the inventory grow beyond the limit: at the limit that side is not quoted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from venue_clients.orders import OrderState, Status
from venue_clients.prices import MAX_PRICE, TICKS_A_CENT, TICKS_A_DOLLAR
from venue_clients.touch import Touch

SKEW_STEPS: Final = 3
"""By so many price steps the quotes move with the inventory at its limit."""
PAUSES_AFTER_REJECT: Final = 10
"""An order was rejected: the next is not tried before so many pauses."""
MAX_CHAIN: Final = 999_999
"""OUCH 5.0: no chain of replaces may execute more shares."""


@dataclass(frozen=True, slots=True)
class QuoteSettings:
    size: int = 100
    """Shares of each quote."""
    edge: int = 0
    """Price steps behind the touch; a step is a cent, or 1/10,000 USD below a dollar."""
    max_inventory: int = 1_000
    """Shares, long or short."""
    pause_ns: int = 100_000_000
    """A side is changed at most once in this time."""


@dataclass(frozen=True, slots=True)
class Enter:
    side: str
    quantity: int
    price: int


@dataclass(frozen=True, slots=True)
class Replace:
    order: OrderState
    quantity: int
    """The total of the chain, as OUCH counts."""
    price: int


@dataclass(frozen=True, slots=True)
class Cancel:
    order: OrderState
    quantity: int = 0
    """What may remain, with what has been executed; 0 = nothing."""


Action = Enter | Replace | Cancel


@dataclass(frozen=True, slots=True)
class Quote:
    price: int
    size: int


def quotes(settings: QuoteSettings, touch: Touch, inventory: int) -> tuple[Quote | None, Quote | None]:
    """The bid and the offer to have now; None where there should be none."""
    if not touch.is_two_sided:
        return None, None
    step = price_step(touch.bid)
    limit = max(1, settings.max_inventory)
    skew = min(abs(inventory), limit) * SKEW_STEPS // limit * (1 if inventory > 0 else -1)
    bid = min(touch.bid - (settings.edge + skew) * step, touch.ask - step)
    ask = max(touch.ask + (settings.edge - skew) * step, touch.bid + step)
    if bid >= ask:  # both improved into a narrow spread
        bid, ask = touch.bid, touch.ask
    buys = min(settings.size, settings.max_inventory - inventory)
    sells = min(settings.size, settings.max_inventory + inventory)
    return (
        Quote(on_step(bid, down=True), buys) if buys > 0 and bid > 0 else None,
        Quote(on_step(ask, down=False), sells) if sells > 0 and ask <= MAX_PRICE else None,
    )


def price_step(price: int) -> int:
    """A cent, or below a dollar one tick."""
    return TICKS_A_CENT if price >= TICKS_A_DOLLAR else 1


def on_step(price: int, *, down: bool) -> int:
    """The nearest price an order may have, never nearer to the other side."""
    if price < TICKS_A_DOLLAR:
        return price
    return price // TICKS_A_CENT * TICKS_A_CENT if down else -(-price // TICKS_A_CENT) * TICKS_A_CENT


class Quoter:
    """Keeps the two quotes of one stock where they should be."""

    def __init__(self, settings: QuoteSettings) -> None:
        self.settings = settings
        self._changed_ns: dict[str, int] = {}

    def decide(
        self, now_ns: int, touch: Touch, inventory: int, bid: OrderState | None, ask: OrderState | None
    ) -> list[Action]:
        """What to do now, in this order. `bid` and `ask` are our latest orders on each side, whatever became of them. A
        side that waits for an answer is left alone, and so is one that has been changed within the pause. We never meet
        our own order on the other side."""
        wanted = dict(zip("BS", quotes(self.settings, touch, inventory), strict=True))
        orders = {"B": bid, "S": ask}
        standing = {side: order.price for side, order in orders.items() if order is not None and _may_trade(order)}
        sides = ["B", "S"]
        if _meets("B", wanted["B"], standing.get("S")):  # the touch has risen: our old offer makes way first
            sides.reverse()
        actions: list[Action] = []
        for side in sides:
            order = orders[side]
            if _meets(side, wanted[side], standing.get("S" if side == "B" else "B")) or self._waits(
                now_ns, side, order
            ):
                continue
            action = _change(side, wanted[side], order if order is not None and order.is_live else None)
            if action is None:
                continue
            self._changed_ns[side] = now_ns
            actions.append(action)
            if isinstance(action, Cancel) and action.quantity == 0:
                del standing[side]
            elif not isinstance(action, Cancel):
                standing[side] = action.price
        return actions

    def _waits(self, now_ns: int, side: str, order: OrderState | None) -> bool:
        if order is not None and order.status is Status.PENDING:
            return True
        rejected = order is not None and order.status is Status.REJECTED
        pause_ns = self.settings.pause_ns * (PAUSES_AFTER_REJECT if rejected else 1)
        changed_ns = self._changed_ns.get(side)
        return changed_ns is not None and now_ns - changed_ns < pause_ns


def _may_trade(order: OrderState) -> bool:
    return order.status in (Status.PENDING, Status.LIVE)


def _meets(side: str, wanted: Quote | None, opposite: int | None) -> bool:
    """Whether a quote would trade with our own order on the other side."""
    if wanted is None or opposite is None:
        return False
    return wanted.price >= opposite if side == "B" else wanted.price <= opposite


def _change(side: str, wanted: Quote | None, order: OrderState | None) -> Action | None:
    if order is None:
        return None if wanted is None else Enter(side, wanted.size, wanted.price)
    if wanted is None or order.executed + wanted.size > MAX_CHAIN:
        return Cancel(order)
    if order.price != wanted.price or order.open <= wanted.size // 2:
        return Replace(order, order.executed + wanted.size, wanted.price)
    if order.open > wanted.size:  # less, but with its place in time
        return Cancel(order, order.executed + wanted.size)
    return None
