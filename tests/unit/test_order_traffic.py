"""The load client's reader of answers: whatever the chunks, every answer is seen once and in its place."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from venue.bench import order_traffic as traffic
from venue.wire import ouch, soupbintcp

FIRST = 7_001
NOW = 1_000_000


def accepted(number: int) -> bytes:
    message = ouch.Accepted(
        timestamp=1,
        user_ref_num=FIRST + number,
        side="B",
        quantity=100,
        symbol="AAPL",
        price=1,
        time_in_force="0",
        display="Y",
        order_reference_number=1,
        capacity="P",
        intermarket_sweep_eligibility="N",
        cross_type="N",
        order_state="L",
        cl_ord_id="",
    )
    return soupbintcp.frame(b"S", message.encode())


def canceled(number: int) -> bytes:
    message = ouch.Canceled(timestamp=1, user_ref_num=FIRST + number, quantity=100, reason="U")
    return soupbintcp.frame(b"S", message.encode())


HEARTBEAT = soupbintcp.frame(b"H")


class Reader:
    """A connection's row and buffer, with ``prepared`` orders out, of which number n was sent at n ns."""

    def __init__(self, prepared: int, base: int = 0) -> None:
        self.row = np.zeros(traffic.ROW, np.int64)
        self.row[traffic.FIRST_REF] = FIRST
        self.row[traffic.PREPARED] = prepared
        self.row[traffic.BASE] = base
        self.data = np.zeros(traffic.RECEIVE_BYTES, np.uint8)
        self.times_ns = np.arange(traffic.SLOTS, dtype=np.int64)
        self.latencies_ns = np.zeros(prepared - base, np.int64)

    def take(self, chunk: bytes) -> int:
        held = int(self.row[traffic.HELD])
        self.data[held : held + len(chunk)] = np.frombuffer(chunk, np.uint8)
        return int(traffic.take_answers(self.row, self.data, held + len(chunk), self.times_ns, self.latencies_ns, NOW))

    def take_all(self, chunks: Sequence[bytes]) -> list[int]:
        return [self.take(chunk) for chunk in chunks]


@st.composite
def answers(draw: st.DrawFn) -> tuple[int, int, bytes]:
    """How many Accepted and Canceled there are, and their bytes: no order is canceled before it is accepted."""
    data, entered, gone = b"", 0, 0
    for kind in draw(st.lists(st.sampled_from("AACH"), max_size=40)):
        if kind == "A":
            data, entered = data + accepted(entered), entered + 1
        elif kind == "C" and gone < entered:
            data, gone = data + canceled(gone), gone + 1
        elif kind == "H":
            data += HEARTBEAT
    return entered, gone, data


@given(answers(), st.data())
def test_chunks_may_end_anywhere(stream: tuple[int, int, bytes], draws: st.DataObject) -> None:
    entered, gone, data = stream
    cuts = sorted(draws.draw(st.sets(st.integers(0, len(data)), max_size=60)) | {0, len(data)})
    reader = Reader(entered)
    codes = reader.take_all([data[start:end] for start, end in pairwise(cuts)])
    assert set(codes) <= {traffic.DONE}
    assert (reader.row[traffic.ACCEPTED], reader.row[traffic.CANCELED], reader.row[traffic.HELD]) == (entered, gone, 0)
    assert reader.latencies_ns.tolist() == [NOW - number for number in range(entered)]


def test_a_byte_at_a_time() -> None:
    reader = Reader(2)
    data = accepted(0) + HEARTBEAT + accepted(1) + canceled(0)
    assert set(reader.take_all([data[at : at + 1] for at in range(len(data))])) == {traffic.DONE}
    assert (reader.row[traffic.ACCEPTED], reader.row[traffic.CANCELED]) == (2, 1)


def test_latencies_are_those_of_the_run() -> None:
    reader = Reader(4, base=2)
    assert reader.take(b"".join(accepted(number) for number in range(4))) == traffic.DONE
    assert reader.latencies_ns.tolist() == [NOW - 2, NOW - 3]


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (accepted(1), traffic.WRONG_ORDER),
        (accepted(0) + accepted(0), traffic.WRONG_ORDER),
        (accepted(0) + accepted(1) + accepted(2), traffic.WRONG_ORDER),  # only two were sent
        (accepted(0) + canceled(1), traffic.WRONG_ORDER),
        (canceled(0), traffic.WRONG_ORDER),  # not accepted yet
        (b"\0\0\0", traffic.BROKEN),
        (accepted(0)[:2] + b"U" + accepted(0)[3:], traffic.UNEXPECTED),
        (soupbintcp.frame(b"S", b""), traffic.UNEXPECTED),
        (soupbintcp.frame(b"S", accepted(0)[3:] + b"x"), traffic.UNEXPECTED),
        (soupbintcp.frame(b"H", b"x"), traffic.UNEXPECTED),
        (soupbintcp.frame(b"Z", b""), traffic.UNEXPECTED),
        (
            soupbintcp.frame(b"S", ouch.Rejected(timestamp=1, user_ref_num=FIRST, reason=1, cl_ord_id="").encode()),
            traffic.UNEXPECTED,
        ),
    ],
)
def test_anything_else_is_told(data: bytes, code: int) -> None:
    assert Reader(2).take(data) == code


@given(st.integers(0, 2_000), st.integers(1, 20))
def test_every_order_is_due_on_one_connection(total: int, count: int) -> None:
    due = [int(traffic.orders_due(total, k, count)) for k in range(count)]
    numbers = [int(traffic.number_of(i, k, count)) for k in range(count) for i in range(due[k])]
    assert sorted(numbers) == list(range(total))
