"""The market maker: what it decides, with a fixed clock, and what it does on a scripted exchange."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from scripted_exchange import Exchange, accepted, canceled, executed, replaced
from venue.wire import ouch
from venue_clients.maker import Maker
from venue_clients.orders import OrderState, Status
from venue_clients.prices import ticks
from venue_clients.quoting import Cancel, Enter, Quote, Quoter, QuoteSettings, Replace, quotes
from venue_clients.touch import Touch
from venue_clients.trading import TradingClient

TOUCH = Touch(ticks("100.00"), 500, ticks("100.10"), 500)
PAUSE_NS = 100_000_000


def quote(price: str, size: int) -> Quote:
    return Quote(ticks(price), size)


@pytest.mark.parametrize(
    ("settings", "inventory", "bid", "ask"),
    [
        (QuoteSettings(), 0, quote("100.00", 100), quote("100.10", 100)),
        (QuoteSettings(edge=2), 0, quote("99.98", 100), quote("100.12", 100)),
        (QuoteSettings(edge=-1), 0, quote("100.01", 100), quote("100.09", 100)),
        (QuoteSettings(edge=-9), 0, quote("100.00", 100), quote("100.10", 100)),  # they would meet: join the touch
        (QuoteSettings(), 400, quote("99.99", 100), quote("100.09", 100)),  # long: both lower
        (QuoteSettings(), -400, quote("100.01", 100), quote("100.11", 100)),
        (QuoteSettings(), 950, quote("99.98", 50), quote("100.08", 100)),  # only as much as the limit leaves
        (QuoteSettings(), 1_000, None, quote("100.07", 100)),
        (QuoteSettings(), 1_200, None, quote("100.07", 100)),
        (QuoteSettings(), -1_000, quote("100.03", 100), None),
        (QuoteSettings(size=3_000), 0, quote("100.00", 1_000), quote("100.10", 1_000)),
    ],
)
def test_where_quotes_stand(settings: QuoteSettings, inventory: int, bid: Quote | None, ask: Quote | None) -> None:
    assert quotes(settings, TOUCH, inventory) == (bid, ask)


@pytest.mark.parametrize("touch", [Touch(), Touch(1_000_000, 1), Touch(0, 0, 1_000_000, 1), Touch(2, 1, 2, 1)])
def test_no_quotes_without_a_touch(touch: Touch) -> None:
    assert quotes(QuoteSettings(), touch, 0) == (None, None)


def test_quotes_never_reach_the_other_side_and_stand_on_valid_prices() -> None:
    for bid, ask in [(1_000_000, 1_000_100), (9_999, 10_100), (9_000, 9_001), (1, 2), (1_000_050, 1_000_151)]:
        for inventory in range(-1_000, 1_001, 250):
            for edge in (-3, 0, 3):
                touch = Touch(bid, 1, ask, 1)
                ours = quotes(QuoteSettings(edge=edge), touch, inventory)
                for mine in ours:
                    assert mine is None or mine.price < 10_000 or mine.price % 100 == 0
                if ours[0]:
                    assert 0 < ours[0].price < ask
                if ours[1]:
                    assert ours[1].price > bid


def order(ref: int, side: str, price: str, open_quantity: int = 100, executed_quantity: int = 0) -> OrderState:
    state = OrderState(ref, "AAPL", side, open_quantity + executed_quantity, ticks(price), "0", Status.LIVE)
    state.open, state.executed = open_quantity, executed_quantity
    return state


BID, ASK = order(1, "B", "100.00"), order(2, "S", "100.10")


def decide(
    touch: Touch = TOUCH, bid: OrderState | None = BID, ask: OrderState | None = ASK, inventory: int = 0
) -> list:
    return Quoter(QuoteSettings()).decide(0, touch, inventory, bid, ask)


def test_the_first_touch_is_quoted_on_both_sides() -> None:
    expected = [Enter("B", 100, ticks("100.00")), Enter("S", 100, ticks("100.10"))]
    assert decide(bid=None, ask=None) == expected
    assert decide() == []


def test_a_touch_that_moves_is_followed_and_our_own_order_makes_way_first() -> None:
    higher = Touch(ticks("100.10"), 1, ticks("100.20"), 1)
    assert decide(higher) == [Replace(ASK, 100, ticks("100.20")), Replace(BID, 100, ticks("100.10"))]
    lower = Touch(ticks("99.90"), 1, ticks("100.00"), 1)
    assert decide(lower) == [Replace(BID, 100, ticks("99.90")), Replace(ASK, 100, ticks("100.00"))]


def test_a_quote_that_would_meet_our_own_order_waits() -> None:
    higher = Touch(ticks("100.10"), 1, ticks("100.20"), 1)
    waiting = order(2, "S", "100.10")
    waiting.status = Status.PENDING
    assert decide(higher, ask=waiting) == []


def test_a_touch_that_goes_away_takes_the_quotes_along() -> None:
    assert decide(Touch()) == [Cancel(BID), Cancel(ASK)]


def test_a_quote_half_eaten_is_filled_up_with_what_has_been_executed_counted_in() -> None:
    assert decide(bid=order(1, "B", "100.00", 51, 49)) == []
    eaten = order(1, "B", "100.00", 50, 50)
    assert decide(bid=eaten) == [Replace(eaten, 150, ticks("100.00"))]


def test_a_quote_larger_than_the_limit_allows_shrinks_and_keeps_its_place() -> None:
    assert quotes(QuoteSettings(), TOUCH, 940)[0] == quote("99.98", 60)
    bid = order(1, "B", "99.98", 100, 7)
    assert decide(bid=bid, inventory=940)[0] == Cancel(bid, 67)


def test_a_chain_at_its_end_is_canceled_and_begun_anew() -> None:
    old = order(1, "B", "100.00", 10, 999_950)
    assert decide(bid=old) == [Cancel(old)]


def test_a_side_changes_at_most_once_in_a_pause() -> None:
    quoter = Quoter(QuoteSettings())
    higher = Touch(ticks("100.02"), 1, ticks("100.12"), 1)
    bid = order(3, "B", "100.00")
    assert len(quoter.decide(0, TOUCH, 0, None, None)) == 2
    assert quoter.decide(PAUSE_NS - 1, higher, 0, bid, ASK) == []
    assert len(quoter.decide(PAUSE_NS, higher, 0, bid, ASK)) == 2


def test_after_a_rejection_there_is_a_longer_pause() -> None:
    quoter = Quoter(QuoteSettings())
    quoter.decide(0, TOUCH, 0, None, None)
    rejected = order(3, "B", "100.00")
    rejected.status = Status.REJECTED
    assert quoter.decide(PAUSE_NS, TOUCH, 0, rejected, ASK) == []
    assert quoter.decide(10 * PAUSE_NS, TOUCH, 0, rejected, ASK) == [Enter("B", 100, ticks("100.00"))]


# --- on an exchange -------------------------------------------------------------------------------------------------


class Market(Exchange):
    """Accepts, replaces and cancels as an exchange does, and keeps what each order has open."""

    def __init__(self) -> None:
        super().__init__()
        self.open: dict[int, tuple[str, int, int]] = {}  # side, price, shares open
        self.changed = asyncio.Event()
        self.answer = self.handle

    def handle(self, message: ouch.InboundMessage) -> list[ouch.OutboundMessage]:
        self.changed.set()
        match message:
            case ouch.EnterOrder():
                self.open[message.user_ref_num] = (message.side, message.price, message.quantity)
                return [accepted(message)]
            case ouch.ReplaceOrder():
                side, _, _ = self.open.pop(message.orig_user_ref_num)
                self.open[message.user_ref_num] = (side, message.price, message.quantity)
                return [replaced(message, side)]
            case ouch.CancelOrder():
                _, _, shares = self.open.pop(message.user_ref_num)
                return [canceled(message.user_ref_num, shares)]
        raise AssertionError(message)

    async def settles(self, *orders: tuple[str, str, int]) -> None:
        """Wait until exactly these stand: side, price, shares."""
        wanted = sorted((side, ticks(price), shares) for side, price, shares in orders)
        while sorted(self.open.values()) != wanted:
            self.changed.clear()
            await self.changed.wait()


def play(story: Callable[[Market, TradingClient, Maker], Awaitable[None]]) -> Market:
    async def run() -> Market:
        market = Market()
        await market.start()
        try:
            async with (
                asyncio.timeout(20),
                await TradingClient.connect("127.0.0.1", market.port, "MAKER", "venue") as client,
            ):
                await story(market, client, Maker(client, ["AAPL"], QuoteSettings(pause_ns=1_000_000)))
        finally:
            await market.stop()
        return market

    return asyncio.run(run())


def test_it_quotes_follows_and_leaves_nothing_behind() -> None:
    async def story(market: Market, client: TradingClient, maker: Maker) -> None:
        running = asyncio.create_task(maker.run())
        maker.on_touch("AAPL", TOUCH)
        maker.on_touch("MSFT", TOUCH)  # nothing we quote
        await market.settles(("B", "100.00", 100), ("S", "100.10", 100))
        maker.on_touch("AAPL", Touch(ticks("100.05"), 1, ticks("100.15"), 1))
        await market.settles(("B", "100.05", 100), ("S", "100.15", 100))
        maker.stop()
        await running
        assert market.open == {}
        stats = maker.stats
        assert (stats.entered, stats.replaced, stats.canceled, stats.rejected) == (2, 2, 2, 0)

    play(story)


def test_fills_move_the_inventory_the_quotes_and_the_profit() -> None:
    async def story(market: Market, client: TradingClient, maker: Maker) -> None:
        running = asyncio.create_task(maker.run())
        maker.on_touch("AAPL", TOUCH)
        await market.settles(("B", "100.00", 100), ("S", "100.10", 100))
        [bid] = [ref for ref, (side, _, _) in market.open.items() if side == "B"]
        for _ in range(4):  # what stands in the way of the fifth is the size of the quote
            market.say(executed(bid, 25, ticks("100.00")))
        del market.open[bid]
        await market.settles(("B", "100.00", 100), ("S", "100.10", 100))
        assert (maker.inventory("AAPL"), maker.stats.fills, maker.stats.bought, maker.stats.sold) == (100, 4, 100, 0)
        assert maker.profit_usd() == pytest.approx(5.0)  # bought at 100.00, the middle is 100.05
        maker.stop()
        await running

    play(story)


def test_orders_of_an_earlier_run_are_canceled_and_its_fills_not_counted_again() -> None:
    async def story(market: Market, client: TradingClient, maker: Maker) -> None:
        old = client.enter("AAPL", "B", 500, ticks("90"))
        await client.query()
        market.say(executed(old, 10, ticks("90")))
        market.open[old] = ("B", ticks("90"), 490)
        await client.close()
        again = await TradingClient.connect("127.0.0.1", market.port, "MAKER", "venue")
        second = Maker(again, ["AAPL"])
        running = asyncio.create_task(second.run())
        await market.settles()
        second.stop()
        await running
        assert (second.inventory("AAPL"), second.stats.fills) == (10, 0)
        await again.close()

    play(story)


def test_the_end_of_the_session_ends_it() -> None:
    async def story(market: Market, client: TradingClient, maker: Maker) -> None:
        running = asyncio.create_task(maker.run())
        maker.on_touch("AAPL", TOUCH)
        await market.settles(("B", "100.00", 100), ("S", "100.10", 100))
        market.end()
        await running

    play(story)
