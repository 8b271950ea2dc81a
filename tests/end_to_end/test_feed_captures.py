"""The feed over real captures, and over whatever nonsense a network may bring."""

import asyncio
import random
from collections import Counter
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from feed_live import LiveFeed, RequestServer, packet, run
from feed_rig import read_itch
from shared import SHARED_DATA, needs_shared
from venue.engine import records
from venue.engine.records import FEED_LOSS
from venue.feed import FeedStatus
from venue.wire import itch
from venue.wire.moldudp64 import Header, MessageStore, Packer, decode_packet, heartbeat
from wirepcap import payloads

# --- hostile ------------------------------------------------------------------------------------------------------

fields = st.sampled_from([0, 1, 2, 5, 2**63 - 65_536, 2**63 - 1, 2**63, 2**64 - 1])
counts = st.sampled_from([0, 1, 2, 3, 0xFFFE, 0xFFFF])
junk = st.one_of(
    st.binary(max_size=60),
    st.builds(
        lambda session, sequence, count, rest: Header(session, sequence, count).encode() + rest,
        st.sampled_from(["S1", "S2", ""]),
        fields,
        counts,
        st.one_of(st.binary(max_size=50), st.just(packet(1, 3)[20:])),
    ),
    st.just(bytes(9_300)),
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.lists(junk, max_size=10))
def test_after_whatever_nonsense_a_good_session_is_heard(tmp_path: Path, datagrams: list[bytes]) -> None:
    async def story() -> None:
        async with LiveFeed(tmp_path / "pages") as live:
            live.send(*datagrams)
            live.send(*(packet(number, 1, session="GOOD") for number in (1, 2, 3)))
            await live.until(lambda: live.feed.status().session == "GOOD")
            await live.until_number(3)
            assert live.numbers[-3:] == [1, 2, 3]
            assert int(live.page.feed[0]["datagrams"]) == len(datagrams) + 3

    run(story())


# --- real captures ------------------------------------------------------------------------------------------------


@needs_shared
def test_a_real_capture_has_no_gap(tmp_path: Path) -> None:
    datagrams = list(payloads(SHARED_DATA / "pcap" / "nasdaq-moldudp64-20230822.pcap"))
    messages = [raw for datagram in datagrams for raw in decode_packet(datagram).messages]

    async def story() -> None:
        async with LiveFeed(tmp_path, stocks=500) as live:
            live.send(*datagrams)
            await live.until_counted(datagrams=100)
            await live.until(lambda: live.feed.status().next_sequence == 14_757_970)
            live.take()
            by_type = {"A": 125, "U": 99, "D": 30, "F": 6, "I": 5, "E": 3, "S": 1}
            lines = {"line_packets[0]": 100, "line_first_arrivals[0]": 100}
            rest = {"datagrams": 100, "sessions_started": 1, "session_open": 1}
            assert live.counted() == by_type | rest | lines
            assert live.feed.status() == FeedStatus("000010059B", 14_757_701 + 269, False)
            assert live.kinds[0] == FEED_LOSS, "the capture begins in the middle of the day"
            assert len(live.seen) == 1 + 269 - 5
            for raw, row in zip((raw for raw in messages if raw[:1] != b"I"), live.seen[1:], strict=True):
                assert row["time_ns"] == itch.decode(raw).timestamp
                if raw[:1] in b"AF":
                    assert live.instruments.symbol(row["instrument"]) == raw[24:32].decode().strip()

    run(story())


@needs_shared
def test_ten_thousand_real_messages_over_two_lines_that_lose_a_tenth_each(tmp_path: Path) -> None:
    messages = read_itch(SHARED_DATA / "itch" / "aapl-20200130-10k.itch")
    choices = random.Random(10)
    store = MessageStore("AAPL")
    packer = Packer("AAPL")
    packets: list[bytes | None] = []
    for raw in messages:
        store.append(raw)
        packets.append(packer.add(raw))
        if choices.random() < 0.3:
            packets.append(packer.flush())
    packets.append(packer.flush())

    async def story() -> None:
        with RequestServer(store, loses=lambda request: request % 5 == 1) as server:
            async with LiveFeed(tmp_path, lines=2, request_server=server.address) as live:
                for data in filter(None, packets):
                    for line in (0, 1):
                        if choices.random() < 0.9:
                            live.send(data, line=line)
                    await asyncio.sleep(0)
                    live.take()
                live.send(heartbeat("AAPL", 10_001))
                await live.until(lambda: live.feed.status().next_sequence == 10_001)
                await live.until(lambda: len(live.seen) == 10_000 - 52 - 2)
                by_type = Counter(chr(raw[0]) for raw in messages)
                counted = live.counted()
                assert {letter: counted[letter] for letter in by_type} == by_type
                assert "missing_messages" not in counted
                assert counted["requests_sent"] > 0 < counted["recovered_messages"]
                references = [int.from_bytes(raw[11:19], "big") for raw in messages if raw[:1] in b"AFECXDU"]
                assert [row["word0"] for row in live.seen if row["kind"] <= records.REPLACE_RECORDED] == references

    run(story())
