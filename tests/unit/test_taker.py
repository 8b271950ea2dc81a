"""The taker of the demo: what it decides, from a seed, and what it does on a scripted exchange."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from scripted_exchange import Exchange, accepted, canceled, executed, replaced
from venue.wire import ouch
from venue_clients.orders import OrderState, Status
from venue_clients.prices import ticks
from venue_clients.quoting import Cancel, Replace
from venue_clients.taker import Taker
from venue_clients.taking import MAX_POSITION, MAX_RESTING, MAX_SHARES, Order, TakerAction, TakerRules
from venue_clients.touch import Touch
from venue_clients.trading import DAY, IOC, TradingClient

TOUCH = Touch(ticks("100.00"), 500, ticks("100.02"), 700)
TOUCHES = {"AAPL": TOUCH, "MSFT": Touch(ticks("415.20"), 100, ticks("415.30"), 100)}


def day_order(ref: int, side: str, symbol: str = "AAPL", executed_shares: int = 0) -> OrderState:
    order = OrderState(ref, symbol, side, 100, TOUCH.bid if side == "B" else TOUCH.ask, DAY, Status.LIVE)
    order.executed, order.open = executed_shares, 100 - executed_shares
    return order


def decisions(count: int = 2_000, seed: int = 7, touches=TOUCHES, positions=None, standing=()) -> list[TakerAction]:
    rules = TakerRules(seed, rate=50)
    made = (rules.decide(touches, positions or {}, standing) for _ in range(count))
    return [action for action in made if action is not None]


def test_the_same_seed_decides_the_same_and_another_one_differently() -> None:
    assert decisions(seed=7) == decisions(seed=7) != decisions(seed=8)
    assert TakerRules(7, 50).pause_s() == TakerRules(7, 50).pause_s()


def test_on_average_it_comes_as_often_as_asked() -> None:
    rules = TakerRules(7, rate=50)
    assert sum(rules.pause_s() for _ in range(5_000)) == pytest.approx(100, rel=0.05)


def test_most_orders_take_at_once_and_some_are_left_in_the_book() -> None:
    orders = [action for action in decisions() if isinstance(action, Order)]
    assert len(orders) == 2_000
    kinds = Counter(order.tif for order in orders)
    assert 0.7 < kinds[IOC] / 2_000 < 0.8
    assert kinds[DAY] == 2_000 - kinds[IOC]
    assert {order.symbol for order in orders} == {"AAPL", "MSFT"}
    assert 0.45 < sum(order.side == "B" for order in orders) / 2_000 < 0.55


def test_what_takes_reaches_the_other_side_and_what_rests_does_not() -> None:
    for order in decisions(touches={"AAPL": TOUCH}):
        assert isinstance(order, Order)
        buys, takes = order.side == "B", order.tif == IOC
        if takes:
            reach = order.price - TOUCH.ask if buys else TOUCH.bid - order.price
            assert reach in (0, 100, 200)
        else:
            behind = TOUCH.bid - order.price if buys else order.price - TOUCH.ask
            assert behind in (0, 100, 200, 300)


def test_sizes_are_round_odd_and_now_and_then_a_sweep() -> None:
    sizes = [action.quantity for action in decisions(touches={"AAPL": TOUCH}) if isinstance(action, Order)]
    assert min(sizes) >= 1
    assert sum(size < 100 for size in sizes) > 100
    assert sum(size > TOUCH.ask_size for size in sizes) > 50
    deep = {"AAPL": Touch(ticks("1.00"), 900_000, ticks("1.01"), 900_000)}
    assert max(action.quantity for action in decisions(touches=deep) if isinstance(action, Order)) == MAX_SHARES


@pytest.mark.parametrize(("position", "side"), [(MAX_POSITION, "S"), (-MAX_POSITION, "B")])
def test_at_its_limit_it_only_trades_back(position: int, side: str) -> None:
    taken = decisions(touches={"AAPL": TOUCH}, positions={"AAPL": position})
    assert {action.side for action in taken if isinstance(action, Order)} == {side}


def test_it_never_meets_its_own_order_but_cancels_it() -> None:
    bid = day_order(1, "B")
    actions = decisions(touches={"AAPL": TOUCH}, standing=[bid])
    assert {action.side for action in actions if isinstance(action, Order)} == {"B"}
    assert Cancel(bid) in actions
    pending = day_order(1, "B")
    pending.status = Status.PENDING  # it may be in the book already, and cannot be canceled yet
    waiting = decisions(touches={"AAPL": TOUCH}, standing=[pending])
    assert 800 < len(waiting) < 1_200
    assert all(isinstance(action, Order) and action.side == "B" for action in waiting)


def test_standing_orders_are_canceled_or_replaced_with_what_they_executed_counted_in() -> None:
    old = day_order(3, "B", executed_shares=40)
    actions = decisions(touches={"AAPL": TOUCH}, standing=[old])
    replaced = [action for action in actions if isinstance(action, Replace)]
    assert replaced
    assert {action.quantity for action in replaced} == {140, 240, 340}
    assert all(action.price <= TOUCH.bid for action in replaced)


def test_a_full_hand_changes_an_order_before_it_sends_another() -> None:
    hand = [day_order(ref, "B") for ref in range(MAX_RESTING)]
    assert not any(isinstance(action, Order) for action in decisions(standing=hand))


@pytest.mark.parametrize("touch", [Touch(), Touch(TOUCH.bid, 1), Touch(TOUCH.bid, 1, TOUCH.bid, 1)])
def test_without_a_touch_nothing_is_sent_and_what_stands_is_canceled(touch: Touch) -> None:
    assert decisions(touches={"AAPL": touch}) == []
    bid = day_order(1, "B")
    assert set(map(type, decisions(touches={"AAPL": touch}, standing=[bid]))) == {Cancel}


def test_prices_are_valid_at_the_ends_of_the_scale() -> None:
    for touch in (Touch(1, 1, 2, 1), Touch(9_999, 1, 10_000, 1), Touch(1_999_999_800, 1, 1_999_999_900, 1)):
        for action in decisions(500, touches={"AAPL": touch}):
            assert isinstance(action, Order)
            assert 0 < action.price <= 1_999_999_900
            assert action.price < 10_000 or action.price % 100 == 0


# --- on an exchange -------------------------------------------------------------------------------------------------


class Market(Exchange):
    """Fills what is immediate or cancel, keeps the rest."""

    def __init__(self) -> None:
        super().__init__()
        self.resting: set[int] = set()
        self.day_orders: dict[int, tuple[str, int]] = {}
        """Side and shares."""
        self.answer = self.handle

    def handle(self, message: ouch.InboundMessage) -> list[ouch.OutboundMessage]:
        match message:
            case ouch.EnterOrder(time_in_force="3"):
                return [accepted(message), executed(message.user_ref_num, message.quantity, message.price)]
            case ouch.EnterOrder():
                self.resting.add(message.user_ref_num)
                self.day_orders[message.user_ref_num] = (message.side, message.quantity)
                return [accepted(message)]
            case ouch.ReplaceOrder() if message.orig_user_ref_num in self.resting:
                self.resting.discard(message.orig_user_ref_num)
                self.resting.add(message.user_ref_num)
                side, _ = self.day_orders[message.orig_user_ref_num]
                self.day_orders[message.user_ref_num] = (side, message.quantity)
                return [replaced(message, side)]
            case ouch.CancelOrder() if message.user_ref_num in self.resting:
                self.resting.discard(message.user_ref_num)
                return [canceled(message.user_ref_num, self.day_orders[message.user_ref_num][1])]
        return []


def test_it_trades_tells_of_its_fills_and_leaves_nothing_behind() -> None:
    fills: list[ouch.Executed] = []
    enough = asyncio.Event()

    def on_fill(fill: ouch.Executed) -> None:
        fills.append(fill)
        if len(fills) == 50:
            enough.set()

    async def run() -> tuple[Market, Taker, TradingClient]:
        market = Market()
        await market.start()
        try:
            async with (
                asyncio.timeout(20),
                await TradingClient.connect("127.0.0.1", market.port, "TAKER", "venue") as client,
            ):
                taker = Taker(client, ["AAPL"], TakerRules(7, rate=5_000), on_fill)
                running = asyncio.create_task(taker.run())
                taker.on_touch("AAPL", TOUCH)
                taker.on_touch("MSFT", TOUCH)  # nothing we trade
                await enough.wait()
                taker.stop()
                await running
                return market, taker, client
        finally:
            await market.stop()

    market, taker, client = asyncio.run(run())
    entered = [message for message in market.heard if isinstance(message, ouch.EnterOrder)]
    assert len(entered) == taker.stats.entered
    assert {message.symbol for message in entered} == {"AAPL"}
    assert len(fills) == sum(message.time_in_force == IOC for message in entered)
    assert any(message.time_in_force == DAY for message in entered)
    assert market.resting == set()
    assert client.view.live() == []


def test_the_end_of_the_session_ends_it() -> None:
    async def run() -> None:
        market = Market()
        await market.start()
        try:
            async with (
                asyncio.timeout(20),
                await TradingClient.connect("127.0.0.1", market.port, "TAKER", "venue") as client,
            ):
                running = asyncio.create_task(Taker(client, ["AAPL"], TakerRules(7, rate=50)).run())
                await asyncio.sleep(0)
                market.end()
                await running
        finally:
            await market.stop()

    asyncio.run(run())
