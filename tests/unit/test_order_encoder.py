"""Events out: the compiled encoder against the message classes of the wire layer."""

from __future__ import annotations

from typing import Any

import pytest

from order_desk import CAPACITY, TIME_NS, Streams
from venue.engine import cells, counters, ring
from venue.engine import order_encoder as encoder
from venue.wire import ouch
from venue.wire.ouch import RejectReason
from venue.wire.soupbintcp import frame


def test_each_event_becomes_its_message() -> None:
    streams = Streams()
    kinds = [("A", "L"), ("U", "L"), ("E", "R"), ("C", "U"), ("J", 0x17), ("M", 0), ("Q", 0), ("S", "E")]
    streams.happen(*kinds)
    assert streams_encode(streams)[:2] == (len(kinds), 1)
    order: dict[str, Any] = {
        "side": "T",
        "quantity": 400,
        "symbol": "MSFT",
        "price": 1_895_000,
        "time_in_force": "0",
        "display": "Y",
        "order_reference_number": (1 << 62) + 5,
        "capacity": "P",
        "intermarket_sweep_eligibility": "N",
        "cross_type": "N",
        "order_state": "L",
        "cl_ord_id": "first order 14",
    }
    at: dict[str, Any] = {"timestamp": TIME_NS}
    expected = [
        ouch.Accepted(user_ref_num=9, **at, **order),
        ouch.Replaced(orig_user_ref_num=7, user_ref_num=9, **at, **order),
        ouch.Executed(
            user_ref_num=9, quantity=400, price=1_895_000, liquidity_flag="R", match_number=(1 << 62) + 5, **at
        ),
        ouch.Canceled(user_ref_num=9, quantity=400, reason="U", **at),
        ouch.Rejected(user_ref_num=9, reason=RejectReason.INVALID_SYMBOL, cl_ord_id="first order 14", **at),
        ouch.Modified(user_ref_num=9, side="T", quantity=400, **at),
        ouch.AccountQueryResponse(next_user_ref_num=9, **at),
        ouch.SystemEvent(event_code="E", **at),
    ]
    assert streams.stream() == b"".join(frame(b"S", message.encode()) for message in expected)
    assert streams.stream(0) == b""
    sizes = [3 + len(message.encode()) for message in expected]
    assert list(streams.store[1][streams.entries :][: len(kinds)]) == [sum(sizes[:n]) for n in range(len(kinds))]
    for kind, _ in kinds:
        assert streams.desk.gateway[0]["messages_out"][ord(kind)] == 1


def streams_encode(streams: Streams) -> tuple[int, int, int, int]:
    return encoder.encode(streams.outbound)


def test_nothing_of_an_earlier_message_shows_through() -> None:
    streams = Streams()
    streams.store[0][:] = 0xAA
    streams.happen(("A", "L"), ("U", "L"), ("E", "A"), ("C", "I"), ("J", 1), ("M", 0), ("Q", 0), ("S", "S"))
    streams_encode(streams)
    assert b"\xaa" not in streams.stream()


def test_a_pass_names_each_account_once_and_keeps_the_arrival_of_answers() -> None:
    streams = Streams()
    streams.happen(("A", "L"), ingress_ns=500)
    streams.happen(("E", "R"), ("E", "R"))
    streams.happen(("J", 1), ingress_ns=600, account=0)
    count, dirty, answers, read_ns = streams_encode(streams)
    assert (count, dirty, answers) == (4, 2, 2)
    assert list(streams.work[encoder.DIRTY_LIST : encoder.DIRTY_LIST + 2]) == [1, 0]
    assert list(streams.work[encoder.ANSWERS : encoder.ANSWERS + 4]) == [500, 1, 600, 0]
    assert encoder.finish(streams.finishing, answers, read_ns, 1234)
    for place in (counters.RING_BACK, counters.ENCODE_WRITE, counters.ORDER_TO_ACK):
        assert cells.count(streams.desk.histograms[place]) == 2
    all_answers, of_accounts = streams.desk.histograms[counters.ORDER_TO_ACK], streams.desk.account_histograms
    assert [cells.count(row) for row in of_accounts[:3]] == [1, 1, 0]
    assert of_accounts[:2].sum(axis=0).tolist() == all_answers.tolist()
    assert of_accounts[1, cells.SUM] == of_accounts[0, cells.SUM] + 100, "each order's own arrival"
    assert streams.desk.gateway[0]["bytes_out"] == 1234
    streams.happen(("C", "U"))
    assert streams_encode(streams)[1] == 1, "the account can be named again"


def test_a_pass_is_bounded_and_says_that_there_is_more() -> None:
    streams = Streams()
    streams.happen(*[("C", "U")] * 100)
    assert streams_encode(streams)[0] == 64
    assert not encoder.finish(streams.finishing, 0, 0, 0)
    assert streams_encode(streams)[0] == 36
    assert encoder.finish(streams.finishing, 0, 0, 0)
    assert streams_encode(streams)[0] == 0
    assert ring.depth(streams.desk.events) == 0


def test_a_full_store_takes_no_more_and_counts_it() -> None:
    streams = Streams()
    room = CAPACITY // 67
    for _ in range(room // 64 + 1):
        streams.happen(*[("A", "L")] * 64)
        streams_encode(streams)
    lost = 64 * (room // 64 + 1) - room
    assert len(streams.stream()) == room * 67
    assert streams.store[2][1, encoder.COUNT] == room
    assert streams.store[2][1, encoder.LOST] == lost
    streams.happen(("S", "E"))  # would fit, but nothing may follow a hole
    streams_encode(streams)
    assert streams.store[2][1, encoder.LOST] == lost + 1
    assert streams.desk.gateway[0]["store_full"] == lost + 1
    assert streams.store[2][0, encoder.BYTES] == 0


@pytest.mark.parametrize(("kind", "account"), [("Z", 1), ("A", 2)])
def test_an_event_that_does_not_exist_is_reported(kind: str, account: int) -> None:
    streams = Streams()
    streams.happen((kind, 0), account=account)
    assert streams_encode(streams)[0] == -1 - ord(kind)
