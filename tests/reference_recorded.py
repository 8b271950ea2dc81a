"""The naive exchange, recorded half: what the messages of a feed do to a book that also holds own orders."""

from collections.abc import Iterable

from commands import Command
from reference_state import Book, Order, State, crosses
from venue.engine import records as r
from venue.engine.records import BUY, SELL


class RecordedFlow(State):
    def add(self, c: Command) -> None:
        """A, F: joins the queue, after it has traded with the own orders that it crosses."""
        if c.word0 in self.recorded:
            self.counts["duplicate_references"] += 1
        else:
            side = BUY if c.side == ord("B") else SELL
            self.join(c.word0, c.instrument, side, c.price, displayed=c.quantity, open=c.quantity)

    def join(self, reference: int, instrument: int, side: int, price: int, displayed: int, open: int) -> None:
        """A recorded order arrives: history shows `displayed` shares, of which `open` can trade here."""
        book = self.books[instrument]
        if not book.recorded:
            book.recorded = True
            book.incomplete = book.incomplete or self.history_lost
        if self.orders_held() >= self.order_capacity:
            self.counts["capacity_rejects"] += 1
            book.incomplete = True
            return
        crossed = [own for own in book.queue(1 - side) if own.is_own and crosses(side, price, own.price)]
        filled = self.fill_own(book, crossed, open)
        order = Order(reference, instrument, side, price, open, self.next_arrival(), displayed=displayed)
        if self.mode != r.PASSIVE:
            order.open -= filled
        book.orders.append(order)
        self.recorded[reference] = order

    def execute(self, c: Command) -> None:
        """E, C: history's aggressor meets own orders that stand before h first, then h itself."""
        h = self.known(c)
        if h is None:
            return
        book = self.books[h.instrument]
        before_h = [order for order in book.queue(h.side) if order.rank < h.rank]
        if any(not order.is_own for order in before_h):
            self.counts["out_of_order_executions"] += 1
        if c.quantity > h.displayed:
            self.counts["over_executions"] += 1
        remaining = c.quantity - self.fill_own(book, [order for order in before_h if order.is_own], c.quantity)
        price = c.price if c.kind == r.EXECUTE_AT_PRICE else h.price
        taken = min(c.quantity, h.displayed) if self.mode == r.PASSIVE else min(remaining, h.open)
        self.print_recorded("recorded", h.instrument, price, taken, "S" if h.side == BUY else "B")
        if self.mode != r.PASSIVE:
            h.open -= taken
            remaining -= taken
            if remaining > 0:
                self.counts["divergence_shares"] += remaining
                self.counts["divergence_events"] += 1
        self.show(h, max(0, h.displayed - c.quantity))
        book.last_price = price

    def reduce(self, c: Command) -> None:
        """X: history shows fewer shares; the place in the queue stays."""
        h = self.known(c)
        if h is not None:
            if c.quantity > h.displayed:
                self.counts["over_executions"] += 1
            self.show(h, max(0, h.displayed - c.quantity))

    def delete(self, c: Command) -> None:
        """D. If own orders had taken shares of it, history differs from what happened here, and that is counted."""
        h = self.known(c)
        if h is not None:
            if h.open < h.displayed:
                self.counts["divergence_events"] += 1
            self.forget(h)

    def replace_recorded(self, c: Command) -> None:
        """U: what own orders had taken of the old order is missing from the new one too."""
        old = self.known(c)
        if old is None:
            return
        consumed = old.displayed - old.open
        self.forget(old)
        if c.word1 in self.recorded:
            self.counts["duplicate_references"] += 1
        else:
            open = max(0, c.quantity - consumed)
            self.join(c.word1, old.instrument, old.side, c.price, displayed=c.quantity, open=open)

    def trade(self, c: Command) -> None:
        """P: somebody traded with hidden interest; own orders at that price or better would have come first."""
        book = self.books[c.instrument]
        asks = [own for own in book.queue(SELL) if own.is_own and own.price <= c.price]
        bids = [own for own in book.queue(BUY) if own.is_own and own.price >= c.price]
        filled = self.fill_own(book, asks or bids, c.quantity)
        left = c.quantity if self.mode == r.PASSIVE else c.quantity - filled
        self.print_recorded("hidden", c.instrument, c.price, left)
        book.last_price = c.price

    def cross(self, c: Command) -> None:
        if c.price > 0:
            self.books[c.instrument].last_price = c.price
            self.print_recorded("cross", c.instrument, c.price, c.quantity)

    def trading_state(self, c: Command) -> None:
        self.books[c.instrument].state = c.detail

    def feed_event(self, c: Command) -> None:
        """S: nothing changes in the books."""

    def feed_loss(self, c: Command) -> None:
        """No recorded book is whole any more, and none that is still to come: its first orders may be what was lost."""
        self.history_lost = True
        for book in self.books:
            book.incomplete = book.incomplete or book.recorded

    def feed_reset(self, c: Command) -> None:
        for book in self.books:
            book.orders = [order for order in book.orders if order.is_own]
            book.incomplete = book.recorded = False
            book.state = ord("T")
        self.history_lost = False
        self.recorded.clear()

    def known(self, c: Command) -> Order | None:
        """The recorded order that a message names; a message about an unknown one leaves its book incomplete."""
        if c.word0 not in self.recorded:
            self.counts["unknown_references"] += 1
            if c.instrument < len(self.books):
                self.books[c.instrument].incomplete = True
            elif c.instrument == r.NO_INSTRUMENT:  # its stock may be that of any book that is still to come
                self.history_lost = True
        return self.recorded.get(c.word0)

    def show(self, h: Order, displayed: int) -> None:
        """History says that so much is left of h; never more than that is open."""
        h.displayed = displayed
        h.open = displayed if self.mode == r.PASSIVE else min(h.open, displayed)
        if displayed == 0:
            self.forget(h)

    def forget(self, h: Order) -> None:
        self.books[h.instrument].orders.remove(h)
        del self.recorded[h.reference]

    def fill_own(self, book: Book, queue: Iterable[Order], shares: int) -> int:
        """Recorded flow of so many shares meets own orders, first to trade first; how many it took."""
        filled = 0
        for own in queue:
            take = min(own.open, shares - filled)
            if take > 0:
                filled += take
                own.open -= take
                match_number = self.matched(book, take, own.price)
                self.print_own(own, None, take, match_number)
                self.executed(own, take, own.price, match_number, "A")
                self.drop_if_done(own)
        return filled
