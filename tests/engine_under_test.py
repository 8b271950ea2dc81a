"""The compiled engine as an Exchange: the one file that knows how it is driven and how its arrays are read."""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from commands import Command
from exchange import USED, Event, Levels, Limits, Print
from venue.engine import books, events, index, live_records, loop, ring, showing
from venue.engine import records as r
from venue.engine.allocators import pool
from venue.engine.cells import ROW
from venue.engine.counters import HISTOGRAMS, MATCHER
from venue.engine.kernel import kernel
from venue.engine.live_records import DEPTH_LEVELS, DEPTH_ORDERS
from venue.engine.records import BUY, RECORDED, SELL

KINDS = ("own", "recorded", "hidden", "cross")

_ACCOUNT = ("killed", "last_user_ref", "open_orders", "open_shares", "open_notional")
_COUNTED = [
    name
    for name in MATCHER.names or ()
    if name.startswith(("orders_", "ignored_", "divergence_", "fill", "self_", "unknown_", "duplicate_", "over_"))
    or name in ("out_of_order_executions", "capacity_rejects")
    if name != "orders_high_water"
]


class BooksView:
    """Reads the arrays of a compiled engine, in the words of exchange.Exchange, while nobody writes to them."""

    def __init__(self, engine_books: books.Books, mode: int) -> None:
        self.books, self.mode = engine_books, mode
        self.instruments = len(engine_books.books)

    def _levels(self, instrument: int, side: int) -> Iterator[int]:
        """The levels of one side, best first, empty ones too."""
        row = self.books.sides[2 * instrument + side]
        start, count = int(row["block"]), int(row["count"])
        for word in self.books.ladders[start : start + count][::-1].tolist():
            yield word & 0xFFFFFFFF

    def _queue(self, level: int) -> Iterator[int]:
        """The slots of the orders at one level, oldest first."""
        following = self.books.orders["next"]
        slot = int(self.books.levels["head"][level])
        while slot:
            yield slot
            slot = following.item(slot)

    def book(self, instrument: int = 0) -> tuple[Levels, Levels]:
        orders = self.books.orders
        reference, open_, account = orders["reference"], orders["open"], orders["account"]

        def side(which: int) -> Levels:
            return [
                (
                    self.books.levels["price"].item(level),
                    [
                        (reference.item(slot), open_.item(slot), account.item(slot) != RECORDED)
                        for slot in self._queue(level)
                    ],
                )
                for level in self._levels(instrument, which)
                if self.books.levels["count"].item(level) > 0
            ]

        return side(BUY), side(SELL)

    def _recorded(self) -> dict[int, int]:
        """Slots of the known recorded orders by reference."""
        slots = self.books.references.reshape(-1, index.LINE)[:, 1:] & index.SLOT_MASK
        return {int(self.books.orders["reference"][slot]): int(slot) for slot in slots[slots != 0]}

    def _own(self, account: int) -> dict[int, int]:
        """Slots of an account's live orders by UserRefNum."""
        slots = self.books.user_refs.reshape(len(self.books.accounts), -1)[account]
        return {int(self.books.orders["user_ref"][slot]): int(slot) for slot in slots[slots != 0]}

    def displayed(self, reference: int) -> int | None:
        slot = self._recorded().get(reference)
        return None if slot is None else int(self.books.orders["displayed"][slot])

    def counters(self) -> dict[str, int]:
        row = self.books.counters[0]
        counted = {}
        for name in _COUNTED:
            if name == "orders_rejected":
                reasons = {f"{name} {reason:#04x}": int(count) for reason, count in enumerate(row[name])}
                counted.update({reason: count for reason, count in reasons.items() if count})
            elif row[name]:
                counted[name] = int(row[name])
        return counted

    def account(self, account: int = 0) -> dict[str, int]:
        return {name: int(self.books.accounts[account][name]) for name in _ACCOUNT}

    def position(self, account: int = 0, instrument: int = 0) -> dict[str, int]:
        row = self.books.positions[account * self.instruments + instrument]
        return {name: int(row[name]) for name in ("position", "open_buy", "open_sell")}

    def state(self, instrument: int = 0) -> dict[str, int]:
        row = self.books.books[instrument]
        return {name: int(row[name]) for name in ("last_price", "state", "incomplete")}

    def queue_ahead(self, account: int, user_ref: int) -> int | None:
        own = self._own(account).get(user_ref)
        if own is None:
            return None
        ahead = 0
        for slot in self._queue(int(self.books.orders["level"][own])):
            if slot == own:
                return ahead
            ahead += int(self.books.orders["open"][slot])
        raise AssertionError(f"order {user_ref} of account {account} is in no queue")

    def tape(self, after: int = 0) -> list[Print]:
        newest, kept = int(self.books.counters["trades"][0]), len(self.books.tape)
        assert newest - after <= kept, "the tape is shorter than that"
        rows = self.books.tape[[number % kept for number in range(after, newest)]]
        assert rows["number"].tolist() == list(range(after + 1, newest + 1))
        return [_print(row) for row in rows]

    def shown_orders(self) -> list[tuple[int, ...]]:
        """The table of own orders: account, UserRefNum, instrument, side, wire side, price, open, reference."""
        names = ["account", "user_ref", "instrument", "side", "wire_side", "price", "open", "reference"]
        rows = self.books.shown[1:]
        return sorted(rows[rows["reference"] != 0][names].tolist())

    def state_hash(self) -> int:
        recorded = self._recorded()
        displayed = sorted((ref, int(self.books.orders["displayed"][slot])) for ref, slot in recorded.items())
        text = repr(([self.book(i) for i in range(self.instruments)], displayed))
        digest = hashlib.sha256(text.encode())
        for array in (self.books.books, self.books.accounts, self.books.positions, self.books.state):
            digest.update(array.tobytes())
        return int.from_bytes(digest.digest()[:8])

    # --- what must always hold ------------------------------------------------------------------------------------

    def check_invariants(self) -> None:
        levels = sum(
            self._check_side(instrument, side) for instrument in range(self.instruments) for side in (BUY, SELL)
        )
        assert pool.in_use(self.books.state, books.LEVEL_POOL) == levels, "levels leak"
        assert self.books.state[books.EMPTY_LEVELS] == self.books.sides["empty"].sum()
        recorded = self._recorded()
        own = [self._own(account) for account in range(len(self.books.accounts))]
        held = len(recorded) + sum(len(orders) for orders in own)
        assert pool.in_use(self.books.state, books.ORDER_POOL) == held, "orders leak"
        for reference, slot in recorded.items():
            order = self.books.orders[slot]
            assert order["reference"] == reference
            assert order["account"] == RECORDED
            assert 0 <= order["open"] <= order["displayed"]
            assert (order["level"] != 0) == (order["open"] > 0)
        for account, orders in enumerate(own):
            self._check_account(account, list(orders.values()))
        self._check_shown([slot for orders in own for slot in orders.values()])
        if self.mode != r.PASSIVE:
            for instrument in range(self.instruments):
                self._check_not_crossed(instrument)

    def _check_side(self, instrument: int, side: int) -> int:
        """Ladder, levels and queues of one side; how many levels it has."""
        row, orders = self.books.sides[2 * instrument + side], self.books.orders
        levels = list(self._levels(instrument, side))
        prices = [int(self.books.levels["price"][level]) for level in levels]
        assert prices == sorted(set(prices), reverse=side == BUY), "ladder out of order"
        own_of_side = 0
        for level in levels:
            queue = list(self._queue(level))
            at_level = orders[queue]
            entry = self.books.levels[level]
            assert len(queue) == entry["count"]
            assert (queue or [0])[-1] == entry["tail"]
            assert [0, *queue][: len(queue)] == at_level["previous"].tolist()
            assert entry["shares"] == at_level["open"].sum()
            assert (at_level["open"] > 0).all()
            assert (at_level["level"] == level).all()
            assert (at_level["price"] == entry["price"]).all()
            assert (at_level["side"] == side).all()
            assert (at_level["instrument"] == instrument).all()
            assert (np.diff(at_level["priority"]) > 0).all(), "the queue is not in order of time"
            own = int((at_level["account"] != RECORDED).sum())
            assert entry["own"] == own
            own_of_side += own
        assert row["own"] == own_of_side
        empty = int((self.books.levels["count"][levels] == 0).sum())
        assert row["empty"] == empty <= books.MOST_EMPTY
        if levels:
            assert row["best"] == (prices[0] if side == BUY else -prices[0])
            assert self.books.levels["count"][levels[0]] > 0, "the best level is empty"
        assert row["count"] <= row["capacity"]
        return len(levels)

    def _check_account(self, account: int, slots: list[int]) -> None:
        """Exposure is exactly the sum of what is open."""
        live = self.books.orders[slots]
        assert (live["account"] == account).all()
        assert (live["level"] != 0).all()
        row = self.account(account)
        assert row["open_orders"] == len(live)
        assert row["open_shares"] == live["open"].sum()
        assert row["open_notional"] == (live["open"] * live["price"]).sum()
        for instrument in range(self.instruments):
            here = live[live["instrument"] == instrument]
            position = self.position(account, instrument)
            assert position["open_buy"] == here["open"][here["side"] == BUY].sum()
            assert position["open_sell"] == here["open"][here["side"] == SELL].sum()

    def _check_shown(self, slots: list[int]) -> None:
        """The table of own orders has each of them as it is, as far as there is room."""
        names = ["account", "user_ref", "instrument", "side", "wire_side", "price", "open", "reference"]
        live = sorted(self.books.orders[slots][names].tolist())
        shown = self.shown_orders()
        assert len(shown) == min(len(live), len(self.books.shown) - 1)
        assert set(shown) <= set(live)

    def _check_not_crossed(self, instrument: int) -> None:
        bids, asks = self.book(instrument)
        for bid, bidders in bids:
            for ask, offers in asks:
                own = any(is_own for _, _, is_own in bidders + offers)
                assert bid < ask or not own, "crossed"


class Engine(BooksView):
    """The matching thread's kernel, one turn a command, in the thread of the test; see exchange.Exchange."""

    def __init__(
        self,
        mode: int = r.CONSUME,
        accounts: Sequence[Limits] = ({},),
        instruments: int = 1,
        orders: int = 1000,
        *,
        levels: int = 0,
        user_refs: int = 1 << 15,
        shown: int | None = None,
        most_together: int = 2,
    ) -> None:
        rows = r.aligned(len(accounts), r.ACCOUNT)
        for row, limits in zip(rows, accounts, strict=True):
            for name, value in limits.items():
                row[name] = value
        live = live_records.create_private(instruments, 1 << 10, orders if shown is None else shown)
        state = books.create(
            instruments=instruments,
            accounts=rows,
            orders=orders,
            levels=levels or orders,
            user_refs=user_refs,
            mode=mode,
            live=live,
        )
        super().__init__(state, mode)
        self.commands = ring.create(most_together, r.COMMAND)
        self.events = ring.create(1 << (4 * orders + 64).bit_length(), r.EVENT)
        histograms = r.aligned(HISTOGRAMS * ROW, np.dtype("<i8")).reshape(HISTOGRAMS, ROW)
        outbox = events.create_outbox(self.events)
        self.live = live
        self.matcher = loop.create(self.books, outbox, self.commands, histograms, loop.SPIN, -1, live)

    def send(self, command: Command) -> list[Event]:
        return self.send_together(command)

    def publish(self, *commands: Command) -> None:
        """At most ``most_together`` commands, ready for the matching thread."""
        for place, command in enumerate(commands):
            self.commands.records[ring.write_position(self.commands, place)] = command
        ring.publish(self.commands, len(commands), 0)

    def send_together(self, *commands: Command) -> list[Event]:
        """Commands that are ready before the matching thread looks; all that came of them."""
        self.publish(*commands)
        loop.run(self.matcher, -(-len(commands) // loop.BATCH))
        count = ring.available(self.events)
        told = [event_of(self.events.records[ring.read_position(self.events, i)]) for i in range(count)]
        ring.release(self.events, count)
        return told

    # --- what is shown of a book ----------------------------------------------------------------------------------

    def check_invariants(self) -> None:
        super().check_invariants()
        for instrument in range(self.instruments):
            self._check_depth(instrument)

    def _check_depth(self, instrument: int) -> None:
        """A copy for those who look is the book, and knows each own order's queue ahead."""
        copy_book(self.books, self.matcher.showing, 0, instrument)
        head, orders = self.live.depths[0], self.live.depth_orders[:DEPTH_ORDERS]
        assert head["version"] % 2 == 0
        assert {"state", "last_price", "incomplete"} == set(state := self.state(instrument))
        assert {name: int(head[name]) for name in state} == state
        for side, (count, levels) in enumerate(zip(("bids", "asks"), self.book(instrument), strict=True)):
            rows = self.live.depth_levels[side * DEPTH_LEVELS :][: head[count]]
            assert rows[["price", "shares", "own_shares", "orders"]].tolist() == [
                (
                    price,
                    sum(open_ for _, open_, _ in queue),
                    sum(open_ for _, open_, own in queue if own),
                    len(queue),
                )
                for price, queue in levels[:DEPTH_LEVELS]
            ]
        live = [order for order in self.shown_orders() if order[2] == instrument]
        assert head["own_total"] == len(live)
        assert head["own"] == min(len(live), DEPTH_ORDERS)
        own = orders[: head["own"]]
        listed = own[["account", "user_ref", "side", "price", "open"]].tolist()
        assert len(set(listed)) == len(listed)
        assert set(listed) <= {
            (account, user_ref, side, price, open_) for account, user_ref, _, side, _, price, open_, _ in live
        }
        for row in own:
            assert row["queue_ahead"] == self.queue_ahead(int(row["account"]), int(row["user_ref"]))


@kernel
def copy_book(b: books.Books, s: showing.Showing, place: int, wish: int) -> None:
    showing.copy_book(b, s, place, wish)


def _print(row: Any) -> Print:
    def party(name: str) -> tuple[int, int] | None:
        account = int(row[f"{name}_account"])
        return None if account == RECORDED else (account, int(row[f"{name}_user_ref"]))

    return Print(
        time_ns=int(row["time_ns"]),
        instrument=int(row["instrument"]),
        kind=KINDS[int(row["kind"])],
        price=int(row["price"]),
        quantity=int(row["quantity"]),
        side={BUY: "B", SELL: "S"}.get(int(row["side"]), ""),
        match_number=int(row["match_number"]),
        resting=party("resting"),
        taking=party("taking"),
    )


def event_of(record: Any) -> Event:
    used = USED[int(record["kind"])]
    return Event(**{name: int(record[name]) for name in Event._fields if name in used})
