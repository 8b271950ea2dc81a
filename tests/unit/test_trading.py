"""TradingClient against a scripted exchange: fills, reconnects, what is sent again and what is not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
import uvloop

from scripted_exchange import Exchange, accepted, canceled, executed
from venue.wire import ouch
from venue.wire.layout import WireError
from venue_clients.prices import MARKET_PRICE, ticks
from venue_clients.trading import DisconnectedError, LoginRejectedError, Status, TradingClient, TradingError

Story = Callable[[Exchange, TradingClient], Awaitable[None]]


def play(
    story: Story, exchange: Exchange | None = None, *, sequence: int = 1, runner: Callable = asyncio.run
) -> Exchange:
    exchange = exchange or Exchange()

    async def run() -> None:
        await exchange.start()
        try:
            async with asyncio.timeout(20):
                client = await connect(exchange, sequence)
                async with client:
                    await story(exchange, client)
        finally:
            await exchange.stop()

    runner(run())
    return exchange


async def connect(exchange: Exchange, sequence: int = 1) -> TradingClient:
    return await TradingClient.connect("127.0.0.1", exchange.port, "TRADER", "venue", sequence=sequence)


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110  both sides run in this loop: their turn comes with each pass
        await asyncio.sleep(0)


async def take(client: TradingClient, count: int) -> list[tuple[int, str]]:
    """Numbers and kinds of the next messages."""
    return [(number, type(message).__name__) for number, message in [await anext(client) for _ in range(count)]]


@pytest.mark.parametrize("runner", [asyncio.run, uvloop.run])
def test_an_order_is_accepted_and_filled(runner: Callable) -> None:
    async def story(exchange: Exchange, client: TradingClient) -> None:
        user_ref = client.enter("AAPL", "B", 100, ticks("189.50"), cl_ord_id="first")
        assert client.view.orders[user_ref].status is Status.PENDING
        assert await take(client, 2) == [(1, "AccountQueryResponse"), (2, "Accepted")]
        exchange.say(executed(user_ref, 40, ticks("189.49")), executed(user_ref, 60, ticks("189.50")))
        assert await take(client, 2) == [(3, "Executed"), (4, "Executed")]
        order = client.view.orders[user_ref]
        assert (user_ref, order.status, order.open, order.executed) == (1, Status.DONE, 0, 100)
        assert str(order.average_price) == "189.496"
        assert client.view.positions == {"AAPL": 100}

    exchange = play(story, runner=runner)
    assert [type(message).__name__ for message in exchange.heard] == ["AccountQuery", "EnterOrder"]
    assert exchange.logins == [0]


def test_a_second_client_learns_the_past_and_the_next_number() -> None:
    """The first login asks for nothing: only so is the answer to the query surely the answer to this one."""

    async def first(exchange: Exchange, client: TradingClient) -> None:
        client.enter("AAPL", "B", 100, ticks("189.50"))
        client.enter("AAPL", "S", 10, ticks("190"))
        await take(client, 3)

    async def second(exchange: Exchange, client: TradingClient) -> None:
        assert exchange.logins == [0, 0, 1]
        assert client.view.next_user_ref == 3
        assert [order.user_ref for order in client.view.live()] == [1, 2]
        kinds = ["AccountQueryResponse", "Accepted", "Accepted", "AccountQueryResponse"]
        assert await take(client, 4) == list(enumerate(kinds, 1))
        assert client.enter("MSFT", "B", 1, ticks("400")) == 3
        assert await take(client, 1) == [(5, "Accepted")]

    play(second, play(first))


def test_from_now_on_means_without_the_past() -> None:
    async def first(exchange: Exchange, client: TradingClient) -> None:
        client.enter("AAPL", "B", 100, ticks("189.50"))
        await take(client, 2)

    async def second(exchange: Exchange, client: TradingClient) -> None:
        assert client.view.orders == {}
        assert client.enter("AAPL", "B", 1, ticks("1")) == 2
        assert await take(client, 2) == [(3, "AccountQueryResponse"), (4, "Accepted")]
        exchange.say(executed(1, 1, ticks("189.50")))  # of an order from before
        assert await take(client, 1) == [(5, "Executed")]
        assert client.view.unknown == 1

    play(second, play(first), sequence=0)


def test_a_lost_connection_resumes_without_gap_or_repeat() -> None:
    async def story(exchange: Exchange, client: TradingClient) -> None:
        user_ref = client.enter("AAPL", "B", 100, ticks("189.50"))
        assert await take(client, 2) == [(1, "AccountQueryResponse"), (2, "Accepted")]
        exchange.cut()
        exchange.say(executed(user_ref, 30, ticks("189.50")), executed(user_ref, 30, ticks("189.50")))
        assert await take(client, 2) == [(3, "Executed"), (4, "Executed")]
        exchange.say(executed(user_ref, 40, ticks("189.50")))
        assert await take(client, 1) == [(5, "Executed")]
        assert client.view.positions == {"AAPL": 100}

    exchange = play(story)
    assert exchange.logins == [0, 3]


def test_orders_that_got_lost_are_sent_again_in_their_order() -> None:
    async def story(exchange: Exchange, client: TradingClient) -> None:
        exchange.deaf = True
        first = client.enter("AAPL", "B", 100, ticks("189.50"))
        second = client.enter("AAPL", "B", 200, ticks("189.40"))
        await asyncio.sleep(0)
        exchange.cut()
        exchange.deaf = False
        assert await take(client, 3) == [(1, "AccountQueryResponse"), (2, "Accepted"), (3, "Accepted")]
        assert client.view.orders[first].is_live
        assert client.view.orders[second].is_live

    exchange = play(story)
    assert [getattr(message, "user_ref_num", None) for message in exchange.heard] == [None, 1, 2]


def test_orders_that_arrived_although_their_answers_did_not_are_not_doubled() -> None:
    async def story(exchange: Exchange, client: TradingClient) -> None:
        await take(client, 1)
        exchange.mute = True
        client.enter("AAPL", "B", 100, ticks("189.50"))
        await until(lambda: len(exchange.heard) == 2)
        exchange.cut()
        exchange.mute = False
        assert await take(client, 1) == [(2, "Accepted")]
        assert client.enter("AAPL", "B", 1, ticks("1")) == 2
        assert await take(client, 1) == [(3, "Accepted")]

    exchange = play(story)
    entered = [message.user_ref_num for message in exchange.heard if isinstance(message, ouch.EnterOrder)]
    assert entered == [1, 1, 2]
    assert len(exchange.sent) == 3


def test_answered_messages_are_not_sent_again() -> None:
    def answer(message: ouch.InboundMessage) -> list[ouch.OutboundMessage]:
        match message:
            case ouch.EnterOrder():
                return [accepted(message)]
            case ouch.CancelOrder():
                return [canceled(message.user_ref_num, 50)]
            case ouch.ModifyOrder():
                return [ouch.Modified(timestamp=0, user_ref_num=message.user_ref_num, side="T", quantity=40)]
        raise AssertionError(message)

    async def story(exchange: Exchange, client: TradingClient) -> None:
        user_ref = client.enter("AAPL", "S", 100, ticks("189.50"))
        client.cancel(user_ref, 50)
        client.modify(user_ref, "T", 40)
        await take(client, 4)
        order = client.view.orders[user_ref]
        assert (order.open, order.side, order.status) == (40, "T", Status.LIVE)
        before = len(exchange.heard)
        exchange.cut()
        exchange.say(executed(user_ref, 40, ticks("189.50")))
        await take(client, 1)
        assert exchange.heard[before:] == []
        assert client.view.positions == {"AAPL": -40}

    exchange = Exchange()
    exchange.answer = answer
    play(story, exchange)


def test_a_replace_goes_on_under_the_new_number() -> None:
    def answer(message: ouch.InboundMessage) -> list[ouch.OutboundMessage]:
        if isinstance(message, ouch.EnterOrder):
            return [accepted(message), executed(message.user_ref_num, 100, ticks("10"))]
        assert isinstance(message, ouch.ReplaceOrder)
        return [
            ouch.Replaced(
                timestamp=4,
                orig_user_ref_num=message.orig_user_ref_num,
                user_ref_num=message.user_ref_num,
                side="B",
                quantity=message.quantity - 100,
                symbol="AAPL",
                price=message.price,
                time_in_force=message.time_in_force,
                display="Y",
                order_reference_number=2,
                capacity="P",
                intermarket_sweep_eligibility="N",
                cross_type="N",
                order_state="L",
                cl_ord_id="",
            )
        ]

    async def story(exchange: Exchange, client: TradingClient) -> None:
        old = client.enter("AAPL", "B", 500, ticks("10"))
        await take(client, 3)
        new = client.replace(old, 600, ticks("11"))
        await take(client, 1)
        order = client.view.orders[new]
        assert (new, order.open, order.executed, order.quantity, order.replaces) == (2, 500, 100, 600, old)
        assert (client.view.orders[old].status, client.view.orders[old].open) == (Status.REPLACED, 0)
        with pytest.raises(KeyError):
            client.replace(99, 1, ticks("1"))

    exchange = Exchange()
    exchange.answer = answer
    play(story, exchange)


def test_a_replace_that_came_too_late_is_known_to_be_ignored_by_the_next_answer() -> None:
    def answer(message: ouch.InboundMessage) -> list[ouch.OutboundMessage]:
        if isinstance(message, ouch.ReplaceOrder):
            return []
        assert isinstance(message, ouch.EnterOrder)
        return [accepted(message), executed(message.user_ref_num, message.quantity, message.price)]

    async def story(exchange: Exchange, client: TradingClient) -> None:
        old = client.enter("AAPL", "B", 500, ticks("10"))
        new = client.replace(old, 600, ticks("11"))
        client.enter("AAPL", "B", 1, ticks("10"))
        await take(client, 5)
        assert client.view.orders[old].status is Status.DONE
        assert client.view.orders[new].status is Status.IGNORED

    exchange = Exchange()
    exchange.answer = answer
    play(story, exchange)


def test_a_rejected_order_uses_up_its_number() -> None:
    def answer(message: ouch.InboundMessage) -> list[ouch.OutboundMessage]:
        assert isinstance(message, ouch.EnterOrder)
        return [ouch.Rejected(timestamp=1, user_ref_num=message.user_ref_num, reason=0x17, cl_ord_id="")]

    async def story(exchange: Exchange, client: TradingClient) -> None:
        user_ref = client.enter("NOPE", "B", 500, MARKET_PRICE)
        await take(client, 2)
        order = client.view.orders[user_ref]
        assert (order.status, order.reason) == (Status.REJECTED, ouch.RejectReason.INVALID_SYMBOL)
        assert client.view.next_user_ref == 2

    exchange = Exchange()
    exchange.answer = answer
    play(story, exchange)


def test_a_wrong_password_is_one_clear_error() -> None:
    async def story() -> None:
        exchange = Exchange()
        exchange.refuse = "A"
        await exchange.start()
        with pytest.raises(LoginRejectedError, match="TRADER rejected: unknown name or wrong password"):
            await connect(exchange)
        await exchange.stop()

    asyncio.run(story())


@pytest.mark.parametrize(
    ("username", "password", "reason"),
    [
        ("TOOLONG", "venue", "an account's name has at most 6 characters"),
        ("TRADER", "x" * 11, "a password has at most 10 characters"),
    ],
)
def test_a_login_that_no_message_can_carry_is_refused_before_there_is_a_connection(
    username: str, password: str, reason: str
) -> None:
    with pytest.raises(WireError, match=f"^{reason}$"):
        asyncio.run(TradingClient.connect("127.0.0.1", 1, username, password))


def test_nobody_there_is_one_clear_error() -> None:
    async def story() -> None:
        exchange = Exchange()
        await exchange.start()
        await exchange.stop()
        with pytest.raises(DisconnectedError, match="connection refused; is a venue running there"):
            await connect(exchange)

    asyncio.run(story())


def test_a_session_that_is_gone_after_a_lost_connection_ends_the_iteration_with_an_error() -> None:
    async def story(exchange: Exchange, client: TradingClient) -> None:
        await take(client, 1)
        exchange.refuse = "S"
        exchange.cut()
        with pytest.raises(LoginRejectedError, match="no such session"):
            await anext(client)
        with pytest.raises(TradingError):
            client.enter("AAPL", "B", 1, ticks("1"))

    play(story)


def test_a_venue_that_forgot_its_messages_is_not_trusted() -> None:
    async def story(exchange: Exchange, client: TradingClient) -> None:
        client.enter("AAPL", "B", 100, ticks("189.50"))
        await take(client, 2)
        exchange.sent.clear()
        exchange.cut()
        with pytest.raises(TradingError, match="goes on at 1: it has lost the session"):
            await anext(client)

    play(story)


def test_without_a_connection_nothing_is_sent() -> None:
    async def story(exchange: Exchange, client: TradingClient) -> None:
        await take(client, 1)
        exchange.cut()
        await until(lambda: not client.connected)
        with pytest.raises(DisconnectedError, match="not connected"):
            client.enter("AAPL", "B", 100, ticks("189.50"))
        assert client.view.orders == {}

    play(story)


def test_an_order_that_no_message_can_carry_uses_no_number() -> None:
    async def story(exchange: Exchange, client: TradingClient) -> None:
        with pytest.raises(WireError, match=r"^a symbol has at most 8 characters$"):
            client.enter("TOOLONGNAME", "B", 100, ticks("189.50"))
        assert client.view.next_user_ref == 1

    play(story)


def test_the_end_of_the_session_ends_the_iteration() -> None:
    async def story(exchange: Exchange, client: TradingClient) -> None:
        exchange.say(ouch.SystemEvent(timestamp=9, event_code="E"))
        exchange.end()
        assert [type(message).__name__ async for _, message in client] == ["AccountQueryResponse", "SystemEvent"]

    play(story)


def test_a_message_that_makes_no_sense_ends_it_with_an_error() -> None:
    async def story(exchange: Exchange, client: TradingClient) -> None:
        await take(client, 1)
        exchange.say_bytes(b"?")
        with pytest.raises(TradingError, match="message 2 of the venue makes no sense"):
            await anext(client)

    play(story)


def test_messages_that_nobody_takes_stop_the_reading_and_all_come_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("venue_clients.trading.WAITING_LIMIT", 4)

    async def story(exchange: Exchange, client: TradingClient) -> None:
        user_ref = client.enter("AAPL", "B", 100, ticks("1"))
        for _ in range(2):
            exchange.say(executed(user_ref, 1, 1))
        await until(lambda: len(client._waiting) == 4)
        exchange.say(*[executed(user_ref, 1, 1)] * 5)
        for _ in range(50):
            await asyncio.sleep(0)
        assert len(client._waiting) == 4
        assert [number for number, _ in await take(client, 9)] == list(range(1, 10))

    play(story)


def test_finished_orders_are_forgotten_in_the_end() -> None:
    from venue_clients.orders import OrderView

    view = OrderView(finished_kept=2)
    enter = ouch.EnterOrder(
        user_ref_num=1,
        side="B",
        quantity=1,
        symbol="A",
        price=1,
        time_in_force="3",
        display="Y",
        capacity="P",
        intermarket_sweep_eligibility="N",
        cross_type="N",
        cl_ord_id="",
    )
    for user_ref in range(1, 6):
        order = ouch.EnterOrder(user_ref, *[getattr(enter, name) for name in enter.__struct_fields__[1:]])
        view.entered(order)
        view.apply(accepted(order))
        if user_ref != 2:
            view.apply(canceled(user_ref, 1, "I"))
    assert sorted(view.orders) == [2, 4, 5]
