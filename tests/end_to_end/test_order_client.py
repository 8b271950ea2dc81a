"""The compiled order client against a real exchange: every order is answered, and both count the same."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator

import pytest

from venue.bench import order_client
from venue.bench.exchange import BenchError, Served, account_names, accounts_toml, serving
from venue.bench.order_client import IN_FLIGHT, OrderClient
from venue.bench.order_traffic import LIVE
from venue.engine.kernel import JIT

pytestmark = pytest.mark.skipif(not JIT, reason="the client is compiled")

CONFIG = '[engine]\nmode = "match"\n'
ENTER, CANCEL = ord("O"), ord("X")


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serving(CONFIG + accounts_toml(3)) as running:
        yield running


class Change:
    """What the exchange has counted since this was made."""

    def __init__(self, served: Served) -> None:
        self._served = served
        self._before = served.counters()

    def __call__(self) -> dict[str, int]:
        before, after = self._before, self._served.counters()
        sections = {"entered": ENTER, "cancels": CANCEL}
        inbound = {
            name: int(after.gateway["messages_in"][0, code] - before.gateway["messages_in"][0, code])
            for name, code in sections.items()
        }
        names = ("orders_accepted", "orders_canceled", "live_own_orders", "fills")
        return inbound | {name: int(after.matcher[name][0] - before.matcher[name][0]) for name in names}


def all_canceled(orders: int) -> dict[str, int]:
    return {
        "entered": orders,
        "cancels": orders,
        "orders_accepted": orders,
        "orders_canceled": orders,
        "live_own_orders": 0,
        "fills": 0,
    }


def test_many_in_flight_over_several_connections(served: Served) -> None:
    change = Change(served)
    with OrderClient(served.addresses["orders"], account_names(3)) as client:
        run = client.run(6_000, in_flight=50)
        assert (run.orders, len(run.latencies_ns)) == (6_000, 6_000)
        assert (run.latencies_ns > 0).all()
        assert change()["live_own_orders"] == 3 * LIVE
        client.run(3_000, in_flight=IN_FLIGHT)
    assert client.orders == 9_000 + 3 * LIVE
    assert change() == all_canceled(client.orders)


def test_at_a_rate_orders_are_due_one_after_the_other(served: Served) -> None:
    change = Change(served)
    with OrderClient(served.addresses["orders"], account_names(2)) as client:
        run = client.run(400, rate=4_000)
        assert run.seconds >= 399 / 4_000
        assert (run.latencies_ns > 0).all()
    assert change() == all_canceled(400 + 2 * LIVE)


def test_one_in_flight(served: Served) -> None:
    change = Change(served)
    with OrderClient(served.addresses["orders"], account_names(1)) as client:
        assert (client.round_trips(500).latencies_ns > 0).all()
        run = client.round_trips(40, rate=1_000)
        assert run.seconds >= 39 / 1_000
        client.run(100)
    assert change() == all_canceled(640 + LIVE)


def test_a_login_that_is_refused(served: Served) -> None:
    with pytest.raises(BenchError, match=r"the login of NOBODY was answered with b'J"):
        OrderClient(served.addresses["orders"], ["NOBODY"])


def test_a_connection_that_another_login_takes_over_ends_the_run(served: Served) -> None:
    def two_of_one_account() -> None:
        with OrderClient(served.addresses["orders"], account_names(1)) as first:
            OrderClient(served.addresses["orders"], account_names(1)).close()
            first.run(10)

    with pytest.raises(BenchError, match="the exchange has closed 1 of 1 connections"):
        two_of_one_account()


def test_an_exchange_that_does_not_answer_ends_the_run(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which is something else than one that closes the connection."""
    monkeypatch.setattr(order_client, "ANSWER_WITHIN_S", 1)

    def nobody_answers() -> None:
        with OrderClient(served.addresses["orders"], account_names(2)) as client:
            os.kill(served.pid, signal.SIGSTOP)
            client.run(10)

    try:
        with pytest.raises(BenchError, match="nothing came for 1 s, all connections are open"):
            nobody_answers()
    finally:
        os.kill(served.pid, signal.SIGCONT)


def test_what_the_exchange_counts_against_its_clients_is_said_with_the_error() -> None:
    def broken() -> None:
        with serving(CONFIG + accounts_toml(1)) as served:
            with socket.create_connection(served.addresses["orders"]) as stranger:
                stranger.sendall(b"\0\1?")
                assert stranger.recv(10) == b""
            raise BenchError("it is over")

    with pytest.raises(BenchError, match=r"^it is over; the exchange counts 1 protocol errors$"):
        broken()


def test_an_exchange_that_has_died_is_said_with_the_error() -> None:
    def killed() -> None:
        with (
            serving(CONFIG + accounts_toml(1)) as served,
            OrderClient(served.addresses["orders"], account_names(1)) as client,
        ):
            os.kill(served.pid, signal.SIGKILL)
            client.run(100_000)

    with pytest.raises(BenchError, match=r"closed 1 of 1 connections; the exchange has ended with exit code -9$"):
        killed()
