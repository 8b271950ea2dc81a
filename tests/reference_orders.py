"""The naive exchange, live half: what accounts ask for, and how an incoming order meets the book."""

from commands import Command
from reference_checks import FINE, bad_detail, is_market, refusal
from reference_state import Order, State, crosses
from venue.engine import records as r
from venue.engine.records import BUY, SELL


class Orders(State):
    # --- what an account asks for ---------------------------------------------------------------------------------

    def enter(self, c: Command) -> None:
        account = self.accounts[c.account]
        if c.user_ref <= account.last_user_ref:
            self.counts["ignored_duplicates"] += 1
            return
        account.last_user_ref = c.user_ref
        reason = bad_detail(c, len(self.books)) or refusal(self, c)
        if reason == FINE and self.orders_held() >= self.order_capacity:
            self.counts["capacity_rejects"] += 1
            reason = 0x0A
        if reason != FINE:
            self.rejected(c, reason)
            return
        capacity = c.capacity if c.capacity in b"APRO" else ord("O")
        order = self.own_order(c, c.instrument, c.side, c.quantity, capacity, spent=0)
        self.counts["orders_accepted"] += 1
        self.tell_taken(r.ACCEPTED, order, c)
        self.trade_or_rest(order, c, minimum=c.extra)

    def replace(self, c: Command) -> None:
        """A new number, a new place at the back; the quantity is the total of the whole chain."""
        account = self.accounts[c.account]
        original = self.live(c.account, c.extra)
        if original is None:
            self.counts["ignored_stale"] += 1
            return
        if c.user_ref <= account.last_user_ref:
            self.counts["ignored_duplicates"] += 1
            return
        if bad_detail(c, len(self.books), original) != FINE or c.quantity <= original.spent:
            self.take_off(original, original.open, "U", answer=True)
            return
        account.last_user_ref = c.user_ref
        reason = refusal(self, c, original)
        if reason != FINE:
            self.rejected(c, reason)
            return
        self.books[original.instrument].orders.remove(original)
        side = c.side or original.wire_side
        quantity = c.quantity - original.spent
        order = self.own_order(c, original.instrument, side, quantity, original.capacity, original.spent)
        self.counts["orders_replaced"] += 1
        self.tell_taken(r.REPLACED, order, c, original_user_ref=c.extra)
        self.trade_or_rest(order, c, minimum=0)

    def cancel(self, c: Command) -> None:
        """The quantity is the new intended total, shares already spent included."""
        order = self.live(c.account, c.user_ref)
        if order is None:
            self.counts["ignored_stale"] += 1
            return
        after = max(0, c.quantity - order.spent)
        if after < order.open:
            self.take_off(order, order.open - after, "U", answer=True)

    def modify(self, c: Command) -> None:
        """Fewer shares or another kind of sale, without losing the place in the queue. More shares are ignored."""
        order = self.live(c.account, c.user_ref)
        allowed = (b"SS", b"SE", b"ST", b"ET", b"BB", b"EE", b"TT")
        if order is None or bytes([order.wire_side, c.side]) not in allowed:
            self.counts["ignored_stale"] += 1
            return
        if c.quantity <= order.spent:
            self.take_off(order, order.open, "U", answer=True)
            return
        open = min(order.open, c.quantity - order.spent)
        if open < order.open or c.side != order.wire_side:
            order.open, order.wire_side = open, c.side
            self.counts["orders_modified"] += 1
            self.tell(r.MODIFIED, c.account, answer=True, user_ref=c.user_ref, side=c.side, quantity=open)

    def query(self, c: Command) -> None:
        """The next number that may be used; 0 once there is none. The command names one used elsewhere, or 0."""
        following = (max(self.accounts[c.account].last_user_ref, c.user_ref) + 1) % 2**32
        self.tell(r.QUERY_RESPONSE, c.account, answer=True, user_ref=following)

    def cancel_all(self, c: Command) -> None:
        self.cancel_every_order(c.account, chr(c.detail))

    def set_kill_switch(self, c: Command) -> None:
        self.accounts[c.account].killed = c.detail
        if c.detail == 1:
            self.cancel_every_order(c.account, "S")

    def day_event(self, c: Command) -> None:
        self.tell(r.SYSTEM_EVENT, c.account, detail=c.detail)

    def cancel_every_order(self, account: int, reason: str) -> None:
        """The newest number first, over all instruments."""
        for order in sorted(self.live_orders(account), key=lambda order: -order.user_ref):
            self.take_off(order, order.open, reason)

    # --- an order meets the book ----------------------------------------------------------------------------------

    def own_order(self, c: Command, instrument: int, side: int, quantity: int, capacity: int, spent: int) -> Order:
        self.own_references += 1
        return Order(
            r.FIRST_OWN_REFERENCE + self.own_references - 1,
            instrument,
            BUY if side == ord("B") else SELL,
            c.price,
            quantity,
            self.next_arrival(),
            account=c.account,
            user_ref=c.user_ref,
            wire_side=side,
            capacity=capacity,
            spent=spent,
        )

    def trade_or_rest(self, order: Order, c: Command, minimum: int) -> None:
        """Trades with the other side, first to trade first, at the resting prices; the rest waits or is canceled."""
        book = self.books[order.instrument]
        opposite = book.queue(1 - order.side)
        limit = self.limit(order, c, opposite)
        reachable = [other for other in opposite if limit is None or crosses(order.side, limit, other.price)]
        if self.could_trade(order, reachable) < minimum:
            self.take_off(order, order.open, "I")
            return
        for resting in reachable:
            if order.open > 0:
                self.meet(order, resting)
        if order.open > 0 and is_market(c.price):
            self.take_off(order, order.open, "K" if len(reachable) < len(opposite) else "I")
        elif order.open > 0 and c.tif == ord("3"):
            self.take_off(order, order.open, "I")
        elif order.open > 0:
            book.orders.append(order)

    def limit(self, order: Order, c: Command, opposite: list[Order]) -> int | None:
        """The worst price at which the order trades; None = at any. A collar moves along with the touch at entry."""
        collar_bp = self.accounts[order.account].collar_bp
        if not is_market(c.price):
            return c.price
        if collar_bp == 0 or not opposite:
            return None
        touch = opposite[0].price
        if order.side == BUY:
            return touch * (10_000 + collar_bp) // 10_000
        return -(-touch * (10_000 - collar_bp) // 10_000)  # rounded up

    def could_trade(self, order: Order, reachable: list[Order]) -> int:
        """How much of the order would trade, for its minimum quantity: self-matches that are prevented do not."""
        policy = self.accounts[order.account].self_match
        left, traded = order.open, 0
        for resting in reachable:
            shares = min(left, resting.open)
            if resting.account != order.account or policy == r.ALLOW:
                traded += shares
                left -= shares
            elif policy == r.CANCEL_NEWEST:
                break
            elif policy == r.DECREMENT:
                left -= shares
        return traded

    def meet(self, order: Order, resting: Order) -> None:
        """The incoming order has reached a resting one."""
        shares = min(order.open, resting.open)
        policy = self.accounts[order.account].self_match
        if resting.account != order.account or policy == r.ALLOW:
            self.trade_with(order, resting, shares)
            return
        self.counts["self_matches_prevented"] += 1
        if policy == r.CANCEL_NEWEST:
            self.take_off(order, order.open, "Q")
        elif policy == r.CANCEL_OLDEST:
            self.take_off(resting, resting.open, "Q")
        else:
            resting.spent += shares
            order.spent += shares
            self.take_off(resting, shares, "Q")
            self.take_off(order, shares, "Q")

    def trade_with(self, order: Order, resting: Order, shares: int) -> None:
        match_number = self.matched(self.books[order.instrument], shares, resting.price)
        order.open -= shares
        if resting.is_own or self.mode != r.PASSIVE:
            resting.open -= shares
        self.print_own(resting, order, shares, match_number)
        if resting.is_own:
            self.executed(resting, shares, resting.price, match_number, "A")
            self.drop_if_done(resting)
        self.executed(order, shares, resting.price, match_number, "R")

    def take_off(self, order: Order, shares: int, reason: str, answer: bool = False) -> None:
        """Shares of an own order are canceled."""
        order.open -= shares
        self.counts["orders_canceled"] += 1
        self.tell(
            r.CANCELED,
            order.account,
            answer,
            user_ref=order.user_ref,
            quantity=shares,
            detail=ord(reason),
        )
        self.drop_if_done(order)
