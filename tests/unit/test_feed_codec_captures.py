"""From ITCH messages to commands: recorded messages of real days."""

from collections import Counter

from feed_rig import Rig, blocks, read_itch
from shared import SHARED_DATA, needs_shared
from venue.engine import records
from venue.wire import itch


@needs_shared
def test_ten_thousand_real_messages_of_one_stock() -> None:
    messages = read_itch(SHARED_DATA / "itch" / "aapl-20200130-10k.itch")
    rig = Rig(ring_capacity=1 << 14)
    rows = rig.decode_all(blocks(messages))
    by_type = Counter(chr(message[0]) for message in messages)
    assert rig.counted() == by_type
    assert by_type == {
        "A": 4758,
        "D": 4083,
        "E": 849,
        "P": 240,
        "L": 52,
        "U": 7,
        "X": 6,
        "F": 2,
        "R": 1,
        "H": 1,
        "Y": 1,
    }
    kinds = Counter(row["kind"] for row in rows)
    assert kinds[records.ADD] == 4760
    assert kinds[records.DELETE] == 4083
    assert len(rows) == 10_000 - 52 - 1 - 1
    assert {row["instrument"] for row in rows} == {0}
    assert rig.instruments.symbol(0) == "AAPL"
    times = [row["time_ns"] for row in rows]
    assert times == sorted(times)


@needs_shared
def test_a_thousand_real_messages_of_322_stocks_from_the_middle_of_a_day() -> None:
    messages = read_itch(SHARED_DATA / "itch" / "all-20191230-0930-1k.itch")
    rig = Rig(capacity=500, ring_capacity=1 << 11)
    rows = rig.decode_all(blocks(messages))
    assert rig.counted() == Counter(chr(message[0]) for message in messages)
    named = {
        str(message.stock) for raw in messages if hasattr(message := itch.decode(raw), "stock") and raw[:1] in b"AFPQH"
    }
    assert rig.instruments.count == len(named)
    for raw, row in zip((raw for raw in messages if raw[:1] in b"AFECXDUPQHS"), rows, strict=True):
        message = itch.decode(raw)
        assert row["time_ns"] == message.timestamp
        if isinstance(message, itch.AddOrder | itch.AddOrderMpid):
            assert rig.instruments.symbol(row["instrument"]) == message.stock
