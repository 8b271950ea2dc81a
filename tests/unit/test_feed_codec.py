"""From ITCH messages to commands: every type, hostile bytes, a full ring, stocks that are new."""

import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from feed_rig import Rig, as_array, blocks, command
from venue.engine import feed_codec, records, ring, system
from venue.engine.feed_codec import CUT_SHORT, DONE, MESSAGES, NEEDS_INSTRUMENT, POSITION, RING_FULL
from venue.engine.records import NO_INSTRUMENT
from venue.engine.symbols import IGNORED
from venue.wire import itch

TIME_NS = 0xA1B2C3D4E5F6  # all six bytes matter
HEAD = {"stock_locate": 1, "tracking_number": 0xFFFF, "timestamp": TIME_NS}
NO_STOCK = HEAD | {"stock_locate": 0}
REFERENCE = 0xFFEEDDCCBBAA9988
MATCH = 2**63 + 5


def signed(word: int) -> int:
    return word - 2**64 if word >= 2**63 else word


ADD = itch.AddOrder(
    **HEAD,
    order_reference_number=REFERENCE,
    buy_sell_indicator="S",
    shares=4_000_000_000,
    stock="AAPL",
    price=2**31 - 1,
)
ADD_MPID = itch.AddOrderMpid(
    **HEAD, order_reference_number=8, buy_sell_indicator="B", shares=0, stock="AAPL", price=0, attribution="LEHM"
)
EXECUTED = itch.OrderExecuted(**HEAD, order_reference_number=REFERENCE, executed_shares=7, match_number=MATCH)
EXECUTED_AT = itch.OrderExecutedWithPrice(
    **HEAD, order_reference_number=9, executed_shares=8, match_number=10, printable="N", execution_price=1_895_000
)
CANCEL = itch.OrderCancel(**HEAD, order_reference_number=9, cancelled_shares=3)
DELETE = itch.OrderDelete(**HEAD, order_reference_number=9)
REPLACE = itch.OrderReplace(
    **HEAD, original_order_reference_number=REFERENCE, new_order_reference_number=11, shares=12, price=13
)
TRADE = itch.Trade(
    **HEAD, order_reference_number=0, buy_sell_indicator="B", shares=14, stock="AAPL", price=15, match_number=16
)
CROSS = itch.CrossTrade(**HEAD, shares=17, stock="AAPL", cross_price=18, match_number=19, cross_type="O")
HALT = itch.StockTradingAction(**HEAD, stock="AAPL", trading_state="H", reserved="", reason="T1")
SYSTEM = itch.SystemEvent(**NO_STOCK, event_code="Q")

BOOK_MESSAGES = [
    (ADD, command(records.ADD, word0=signed(REFERENCE), side=ord("S"), quantity=4_000_000_000, price=2**31 - 1)),
    (ADD_MPID, command(records.ADD, word0=8, side=ord("B"))),
    (EXECUTED, command(records.EXECUTE, word0=signed(REFERENCE), word1=signed(MATCH), quantity=7)),
    (EXECUTED_AT, command(records.EXECUTE_AT_PRICE, word0=9, word1=10, quantity=8, price=1_895_000)),
    (CANCEL, command(records.REDUCE, word0=9, quantity=3)),
    (DELETE, command(records.DELETE, word0=9)),
    (REPLACE, command(records.REPLACE_RECORDED, word0=signed(REFERENCE), word1=11, quantity=12, price=13)),
    (TRADE, command(records.TRADE, word1=16, side=ord("B"), quantity=14, price=15)),
    (CROSS, command(records.CROSS, word1=19, quantity=17, price=18)),
    (HALT, command(records.TRADING_STATE, detail=ord("H"))),
]

DIRECTORY = itch.StockDirectory(
    **HEAD,
    stock="AAPL",
    market_category="Q",
    financial_status_indicator="N",
    round_lot_size=100,
    round_lots_only="N",
    issue_classification="C",
    issue_sub_type="Z",
    authenticity="P",
    short_sale_threshold_indicator="N",
    ipo_flag="N",
    luld_reference_price_tier="1",
    etp_flag="N",
    etp_leverage_factor=0,
    inverse_indicator="N",
)
OTHER_MESSAGES: list[itch.ItchMessage] = [
    DIRECTORY,
    itch.RegShoRestriction(**HEAD, stock="AAPL", reg_sho_action="0"),
    itch.MarketParticipantPosition(
        **HEAD,
        mpid="LEHM",
        stock="AAPL",
        primary_market_maker="Y",
        market_maker_mode="N",
        market_participant_state="A",
    ),
    itch.MwcbDeclineLevel(**NO_STOCK, level_1=2**64 - 1, level_2=2, level_3=3),
    itch.MwcbStatus(**NO_STOCK, breached_level="1"),
    itch.IpoQuotingPeriodUpdate(
        **NO_STOCK, stock="NEW", ipo_quotation_release_time=1, ipo_quotation_release_qualifier="A", ipo_price=1
    ),
    itch.LuldAuctionCollar(
        **HEAD,
        stock="AAPL",
        auction_collar_reference_price=1,
        upper_auction_collar_price=2,
        lower_auction_collar_price=3,
        auction_collar_extension=4,
    ),
    itch.OperationalHalt(**HEAD, stock="AAPL", market_code="Q", operational_halt_action="H"),
    itch.BrokenTrade(**HEAD, match_number=1),
    itch.Noii(
        **HEAD,
        paired_shares=1,
        imbalance_shares=2,
        imbalance_direction="B",
        stock="AAPL",
        far_price=3,
        near_price=4,
        current_reference_price=5,
        cross_type="O",
        price_variation_indicator="L",
    ),
    itch.Rpii(**HEAD, stock="AAPL", interest_flag="A"),
    itch.DirectListing(
        **HEAD,
        stock="AAPL",
        open_eligibility_status="N",
        minimum_allowable_price=1,
        maximum_allowable_price=2,
        near_execution_price=3,
        near_execution_time=4,
        lower_price_range_collar=5,
        upper_price_range_collar=6,
    ),
]


def test_these_are_all_the_types_there_are() -> None:
    here = [type(message) for message, _ in BOOK_MESSAGES] + [type(SYSTEM)] + [type(m) for m in OTHER_MESSAGES]
    assert sorted(kind.__name__ for kind in here) == sorted(kind.__name__ for kind in itch.MESSAGES.values())


@pytest.mark.parametrize(("message", "expected"), BOOK_MESSAGES, ids=lambda value: type(value).__name__)
def test_a_book_message_becomes_one_command(message: itch.ItchMessage, expected: dict[str, int]) -> None:
    rig = Rig("AAPL")
    assert rig.decode(blocks([message]), ingress_ns=77) == DONE
    assert rig.drain() == [expected | {"time_ns": TIME_NS, "ingress_ns": 77, "instrument": 0}]
    assert rig.counted() == {message.layout.code.decode(): 1}
    assert rig.progress[:2] == [len(blocks([message])), 1]


@pytest.mark.parametrize("message", OTHER_MESSAGES, ids=lambda value: type(value).__name__)
def test_other_messages_are_counted_and_nothing_else(message: itch.ItchMessage) -> None:
    rig = Rig("AAPL")
    assert rig.decode(blocks([message])) == DONE
    assert rig.drain() == []
    assert rig.counted() == {message.layout.code.decode(): 1}


def test_events_of_the_day_are_of_no_stock() -> None:
    rig = Rig("AAPL")
    codes = "OSQMEC"
    assert rig.decode(blocks(itch.SystemEvent(**NO_STOCK, event_code=code) for code in codes)) == DONE
    assert rig.drain() == [command(records.FEED_EVENT, time_ns=TIME_NS, detail=ord(code)) for code in codes]


def test_a_command_leaves_nothing_of_the_one_before_in_its_place() -> None:
    rig = Rig("AAPL", ring_capacity=2)
    rig.commands.records.view(np.uint8)[:] = 0xFF
    assert rig.decode(blocks([DELETE])) == DONE
    assert rig.drain() == [command(records.DELETE, time_ns=TIME_NS, word0=9, instrument=0)]
    assert feed_codec.put(rig.decoder, records.FEED_LOSS, 5)
    assert rig.drain() == [command(records.FEED_LOSS, time_ns=5)]


def test_a_cross_of_more_shares_than_a_command_can_say() -> None:
    rig = Rig("AAPL")
    for shares in (2**32, 2**64 - 1):
        rig.decode(
            blocks(
                [itch.CrossTrade(**HEAD, shares=shares, stock="AAPL", cross_price=1, match_number=2, cross_type="C")]
            )
        )
        assert [row["quantity"] for row in rig.drain()] == [2**32 - 1]


# --- stocks -------------------------------------------------------------------------------------------------------


def test_a_stock_directory_stops_the_call_once() -> None:
    rig = Rig()
    data = blocks([DELETE, DIRECTORY, ADD])
    assert rig.decode(data) == NEEDS_INSTRUMENT
    assert rig.progress[:2] == [21, 1]
    assert rig.drain() == [command(records.DELETE, time_ns=TIME_NS, word0=9)], "an order needs no locate to be deleted"
    rig.learn(data)
    assert rig.decode(data, start=21) == DONE
    assert [(row["kind"], row["instrument"]) for row in rig.drain()] == [(records.ADD, 0)]
    assert rig.decode(data, start=21) == DONE, "the same directory again is no news"
    assert rig.counted() == {"D": 1, "R": 2, "A": 2}


@pytest.mark.parametrize("message", [ADD, ADD_MPID, TRADE, CROSS, HALT], ids=lambda value: type(value).__name__)
def test_joining_in_the_middle_of_the_day_learns_stocks_from_what_names_them(message: itch.ItchMessage) -> None:
    rig = Rig()
    data = blocks([message, EXECUTED])
    assert rig.decode(data) == NEEDS_INSTRUMENT
    assert rig.progress[:2] == [0, 0]
    assert rig.counted() == {}
    rig.learn(data)
    assert rig.decode(data) == DONE
    assert [row["instrument"] for row in rig.drain()] == [0, 0]


def test_a_configured_symbol_needs_its_locate_learned_once() -> None:
    rig = Rig()
    rig.instruments.add("AAPL")
    data = blocks([ADD])
    assert rig.decode(data) == NEEDS_INSTRUMENT
    rig.learn(data)
    assert rig.decode(data) == DONE
    assert rig.instruments.count == 1


def test_orders_of_an_unknown_locate_go_to_the_engine_all_the_same() -> None:
    rig = Rig()
    assert rig.decode(blocks([EXECUTED, EXECUTED_AT, CANCEL, DELETE, REPLACE])) == DONE
    assert [row["instrument"] for row in rig.drain()] == [NO_INSTRUMENT] * 5


def test_a_directory_that_gives_a_locate_to_another_stock_is_believed() -> None:
    rig = Rig("MSFT")
    data = blocks([DIRECTORY, ADD])
    assert [row["instrument"] for row in rig.decode_all(data)] == [1]
    assert rig.instruments.locates[1] == 1


def test_without_a_locate_the_symbol_decides() -> None:
    rig = Rig()
    first = itch.AddOrder.decode(ADD.encode()[:1] + b"\0\0" + ADD.encode()[3:])
    other = itch.AddOrder.decode(first.encode().replace(b"AAPL", b"MSFT"))
    rows = rig.decode_all(blocks([first, other, first]))
    assert [row["instrument"] for row in rows] == [0, 1, 0]
    assert rig.instruments.locates[0] == -1


def test_stocks_for_which_there_is_no_room_are_skipped_with_their_orders() -> None:
    rig = Rig("MSFT", "IBM", capacity=2)
    rig.instruments.map_locate(1, IGNORED)
    data = blocks([DIRECTORY, *(message for message, _ in BOOK_MESSAGES)])
    assert rig.decode(data) == DONE
    assert rig.drain() == []
    assert rig.counted() == dict.fromkeys("RAFECXDUPQH", 1)


def test_a_full_registry_skips_unknown_symbols_without_a_locate() -> None:
    rig = Rig("MSFT", capacity=1)
    unknown = ADD.encode()[:1] + b"\0\0" + ADD.encode()[3:]
    known = unknown.replace(b"AAPL", b"MSFT")
    assert rig.decode(blocks([unknown, known, SYSTEM])) == DONE
    assert [row["kind"] for row in rig.drain()] == [records.ADD, records.FEED_EVENT]
    assert rig.counted() == {"A": 2, "S": 1}


# --- what is not right --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "message", [m for m, _ in BOOK_MESSAGES] + OTHER_MESSAGES, ids=lambda value: type(value).__name__
)
@pytest.mark.parametrize("change", [-1, 1])
def test_a_wrong_length_is_skipped_and_counted(message: itch.ItchMessage, change: int) -> None:
    rig = Rig("AAPL")
    wrong = (message.encode() + b"\0")[: message.layout.size + change]
    assert rig.decode(blocks([wrong, DELETE])) == DONE
    assert [row["kind"] for row in rig.drain()] == [records.DELETE]
    assert rig.counted() == {"messages_malformed": 1, "D": 1}


@pytest.mark.parametrize("message", [ADD, ADD_MPID, EXECUTED_AT, REPLACE, TRADE, CROSS], ids=lambda m: type(m).__name__)
def test_a_price_that_the_engine_cannot_hold_is_malformed(message: itch.ItchMessage) -> None:
    rig = Rig("AAPL")
    layout = message.layout
    name = next(
        name for name in ("price", "execution_price", "cross_price") if name in {field.name for field in layout.fields}
    )
    raw = bytearray(message.encode())
    raw[layout.offset(name) : layout.offset(name) + 4] = b"\x80\0\0\0"
    assert rig.decode(blocks([bytes(raw), DELETE])) == DONE
    assert [row["kind"] for row in rig.drain()] == [records.DELETE]
    assert rig.counted() == {"messages_malformed": 1, "D": 1}


@pytest.mark.parametrize("side", [b"b", b"\0", b"T"])
def test_an_order_is_bought_or_sold(side: bytes) -> None:
    rig = Rig("AAPL")
    raw = ADD.encode()
    assert rig.decode(blocks([raw[:19] + side + raw[20:]])) == DONE
    assert rig.drain() == []
    assert rig.counted() == {"messages_malformed": 1}


@pytest.mark.parametrize("stock", [b" " * 8, b"\0" * 8, b"A B     ", b"AAPL\0\0\0\0", b"\xc4APL    "])
@pytest.mark.parametrize("locate", [b"\0\0", b"\0\x09"])
def test_a_new_stock_that_is_no_symbol_is_malformed(stock: bytes, locate: bytes) -> None:
    rig = Rig("MSFT")
    raw = ADD.encode()
    raw = raw[:1] + locate + raw[3:24] + stock + raw[32:]
    assert rig.decode(blocks([raw, DELETE])) == DONE
    assert [row["kind"] for row in rig.drain()] == [records.DELETE]
    assert rig.counted() == {"messages_malformed": 1, "D": 1}


def test_unknown_types_and_empty_blocks_are_skipped_and_counted() -> None:
    rig = Rig("AAPL")
    assert rig.decode(blocks([b"z", b"", b"\xff" * 300, b"a" + ADD.encode()[1:], DELETE])) == DONE
    assert [row["kind"] for row in rig.drain()] == [records.DELETE]
    assert rig.counted() == {"unknown_types": 4, "D": 1}


def test_every_cut_waits_for_the_rest() -> None:
    messages: list[itch.ItchMessage | bytes] = [*(message for message, _ in BOOK_MESSAGES), SYSTEM, b"", b"unknown"]
    data = blocks(messages)
    whole = Rig("AAPL").decode_all(data)
    for cut in range(len(data)):
        rig = Rig("AAPL")
        code = rig.decode(data[:cut])
        assert code == (DONE if rig.progress[POSITION] == cut else CUT_SHORT)
        done = rig.progress[MESSAGES]
        assert rig.progress[POSITION] == len(blocks(messages[:done]))
        assert rig.decode(data, start=rig.progress[POSITION]) == DONE
        assert rig.drain() == whole


block = st.one_of(
    st.sampled_from([message.encode() for message, _ in BOOK_MESSAGES] + [m.encode() for m in OTHER_MESSAGES]),
    st.binary(max_size=60),
    st.tuples(st.sampled_from(list(itch.MESSAGES)), st.binary(max_size=50)).map(b"".join),
    st.sampled_from(list(itch.MESSAGES.values())).flatmap(
        lambda kind: st.binary(min_size=kind.layout.size - 1, max_size=kind.layout.size - 1).map(
            lambda tail: kind.layout.code + tail
        )
    ),
)


@given(st.lists(block, max_size=12), st.binary(max_size=30), st.binary(min_size=70, max_size=70))
def test_hostile_bytes_do_no_harm(messages: list[bytes], rest: bytes, beyond: bytes) -> None:
    """Whatever comes: it ends, every message counts once, and what lies behind the region makes no difference."""
    data = blocks(messages) + rest
    results = []
    for behind in (bytes(70), beyond):
        rig = Rig("AAPL", capacity=20)
        array = as_array(data + behind)
        position = done = 0
        while True:
            code = int(feed_codec.decode_blocks(rig.decoder, array, position, len(data), 3))
            position, done = rig.progress[POSITION], done + rig.progress[MESSAGES]
            if code != NEEDS_INSTRUMENT:
                break
            rig.learn(data)
        assert code in (DONE, CUT_SHORT)
        assert (position == len(data)) == (code == DONE)
        counted = rig.counted()
        assert sum(counted.values()) == done >= len(messages)
        results.append((code, position, counted, rig.drain()))
    assert results[0] == results[1]


# --- the ring -----------------------------------------------------------------------------------------------------


def test_a_full_ring_stops_the_call_and_nothing_is_lost() -> None:
    messages = [itch.OrderDelete(**HEAD, order_reference_number=number) for number in range(11)]
    data = blocks(messages)
    rig = Rig("AAPL", ring_capacity=4)
    seen, position, calls = [], 0, []
    code = RING_FULL
    while code == RING_FULL:
        code = rig.decode(data, start=position)
        position = rig.progress[POSITION]
        calls.append(rig.progress[MESSAGES])
        assert rig.decode(data, start=position) == code
        assert rig.progress[:2] == [position, 0], "nothing moves while the ring is full"
        assert feed_codec.put(rig.decoder, records.FEED_LOSS, 0) == (code == DONE)
        seen += [row["word0"] for row in rig.drain() if row["kind"] == records.DELETE]
    assert calls == [4, 4, 3]
    assert seen == list(range(11))
    assert rig.counted() == {"D": 11}


def test_the_feed_leaves_room_for_orders() -> None:
    """Commands of others count: the limit is on what an order would have to wait for."""
    data = blocks([DELETE] * 20)
    rig = Rig("AAPL", ring_capacity=64, limit=8)
    assert feed_codec.put(rig.decoder, records.FEED_LOSS, 0), "as somebody else would"
    assert rig.decode(data) == RING_FULL
    assert (rig.progress[MESSAGES], ring.depth(rig.commands)) == (7, 8)
    for _ in range(12):
        assert feed_codec.put(rig.decoder, records.FEED_LOSS, 0)
    assert rig.decode(data) == RING_FULL
    assert (rig.progress[MESSAGES], ring.depth(rig.commands)) == (0, 20)
    ring.release(rig.commands, 15)
    assert rig.decode(data) == RING_FULL
    assert (rig.progress[MESSAGES], ring.depth(rig.commands)) == (3, 8)


def test_messages_without_a_command_pass_a_full_ring() -> None:
    rig = Rig("AAPL", ring_capacity=2)
    assert rig.decode(blocks([DELETE, DELETE, *OTHER_MESSAGES, DELETE])) == RING_FULL
    assert rig.progress[MESSAGES] == 2 + len(OTHER_MESSAGES)


def test_commands_are_stamped_and_a_sleeping_reader_is_woken_once() -> None:
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    try:
        rig = Rig("AAPL", wake=writing)
        rig.decode(blocks([DELETE]))
        with pytest.raises(BlockingIOError):
            os.read(reading, 8)
        rig.drain()
        assert ring.park(rig.commands)
        before_ns = int(system.now_ns(rig.decoder.scratch))
        rig.decode(blocks([DELETE, DELETE]))
        rig.decode(blocks([DELETE]))
        after_ns = int(system.now_ns(rig.decoder.scratch))
        assert len(os.read(reading, 64)) == 8
        places = [int(ring.read_position(rig.commands, ahead)) for ahead in range(3)]
        stamps = [int(rig.commands.stamps_ns[place]) for place in places]
        assert before_ns <= stamps[0] == stamps[1] <= stamps[2] <= after_ns
    finally:
        os.close(reading)
        os.close(writing)
