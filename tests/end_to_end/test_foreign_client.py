"""A client that nobody here wrote: Nasdaq's own Python library, with an OUCH 5.0 codec that its generator makes."""

from __future__ import annotations

import asyncio
import importlib.util
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import recorded_day as day
from exchange_rig import SESSION, Venue, with_exchange
from gateway_rig import PASSWORD
from venue.wire import ouch
from venue.wire.soupbintcp import frame

SPECIFICATION = Path(__file__).parents[1] / "foreign" / "ouch50.xml"
CODEGEN = Path(sys.executable).with_name("nasdaq-ouch-codegen")
HEARTBEAT_BYTES = 3
MORNING = [
    day.added(11, "S", 200, 189_5000),
    day.added(12, "S", 100, 189_6000),
    day.added(13, "B", 300, 189_4000),
]


@pytest.fixture(scope="module")
def codec(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """The generated module. It registers its messages for the whole process, so there can be only one."""
    folder = tmp_path_factory.mktemp("codec")
    command = [CODEGEN, "--spec-file", SPECIFICATION, "--app-name", "venue", "--op-dir", folder, "--no-init-file"]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    found = importlib.util.spec_from_file_location("foreign_ouch_codec", folder / "ouch_venue.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


async def connect(codec: ModuleType, venue: Venue, sequence: int, **options: Any) -> Any:
    """A session of the foreign client; its `raw` holds the bytes of every message as they came."""

    class Session(codec.ClientSession):  # type: ignore[misc, name-defined]
        def decode(self, payload: bytes) -> Any:
            self.raw.append(payload)
            return codec.Message.from_bytes(payload)

    def factory(soup: Any) -> Any:
        session = Session(soup)
        session.raw = []
        return session

    address = ("127.0.0.1", venue.port)
    return await codec.connect_async(
        address, "ALPHA", PASSWORD, options.pop("session", ""), sequence, factory, connect_timeout=5, **options
    )


def message(codec: ModuleType, name: str, **fields: Any) -> Any:
    made = getattr(codec, name)()
    for field, value in fields.items():
        setattr(made, field, value)
    return made


def enter(
    codec: ModuleType, number: int, side: str, quantity: int, price: int, tif: str = "0", symbol: str = "AAPL"
) -> Any:
    return message(
        codec, "EnterOrder", user_ref_num=number, side=side, quantity=quantity, symbol=symbol, price=price,
        time_in_force=tif, display="Y", capacity="P", intermarket_sweep_eligibility="N", cross_type="N",
        cl_ord_id=f"foreign {number}",
    )  # fmt: skip


def replace(codec: ModuleType, original: int, number: int, quantity: int, price: int) -> Any:
    return message(
        codec, "ReplaceOrder", orig_user_ref_num=original, user_ref_num=number, quantity=quantity, price=price,
        time_in_force="0", display="Y", intermarket_sweep_eligibility="N", cl_ord_id=f"foreign {number}",
    )  # fmt: skip


async def heard(session: Any, count: int) -> list[tuple[Any, ...]]:
    """The next messages of the exchange as the foreign codec reads them: name, number, and what matters of the rest."""
    told = []
    for _ in range(count):
        async with asyncio.timeout(20):
            said = await session.receive_message()
        name = type(said).__name__
        fields = {
            "SystemEvent": ("event_code",),
            "OrderAccepted": ("user_ref_num", "side", "quantity", "price", "order_state", "cl_ord_id"),
            "OrderReplaced": ("orig_user_ref_num", "user_ref_num", "quantity", "price"),
            "OrderExecuted": ("user_ref_num", "quantity", "price", "liquidity_flag"),
            "OrderCanceled": ("user_ref_num", "quantity", "reason"),
            "Rejected": ("user_ref_num", "reason"),
        }[name]
        told.append((name, *(getattr(said, field) for field in fields)))
    return told


@with_exchange()
async def test_a_day_of_a_foreign_client(venue: Venue, codec: ModuleType, tmp_path: Path) -> None:
    await venue.replay(day.write(tmp_path / "morning.itch", MORNING))
    session = await connect(codec, venue, 1)
    assert await heard(session, 1) == [("SystemEvent", "S")]

    session.send_message(enter(codec, 1, "B", 250, 189_5000))
    assert await heard(session, 2) == [
        ("OrderAccepted", 1, "B", 250, 189_5000, "L", "foreign 1"),
        ("OrderExecuted", 1, 200, 189_5000, "R"),
    ]
    session.send_message(replace(codec, 1, 2, 400, 189_6000))
    assert await heard(session, 2) == [("OrderReplaced", 1, 2, 200, 189_6000), ("OrderExecuted", 2, 100, 189_6000, "R")]
    session.send_message(message(codec, "CancelOrder", user_ref_num=2, quantity=350))
    assert await heard(session, 1) == [("OrderCanceled", 2, 50, "U")]
    session.send_message(message(codec, "CancelOrder", user_ref_num=2, quantity=0))
    assert await heard(session, 1) == [("OrderCanceled", 2, 50, "U")]
    session.send_message(enter(codec, 3, "S", 500, 189_4000, tif="3"))
    assert await heard(session, 3) == [
        ("OrderAccepted", 3, "S", 500, 189_4000, "L", "foreign 3"),
        ("OrderExecuted", 3, 300, 189_4000, "R"),
        ("OrderCanceled", 3, 200, "I"),
    ]
    session.send_message(enter(codec, 4, "B", 100, 0))
    assert await heard(session, 1) == [("Rejected", 4, ouch.RejectReason.INVALID_PRICE)]
    assert venue.book() == ([], [])
    assert venue.view.position(0, 0) == {"position": 0, "open_buy": 0, "open_sell": 0}
    assert venue.count("protocol_errors") == 0

    first = session.raw
    await session.close()
    await venue.until(lambda: not venue.gateway.connections)
    again = await connect(codec, venue, 1, session=SESSION)
    await heard(again, 11)
    assert again.raw == first
    assert b"".join(frame(b"S", payload) for payload in first) == venue.stream()
    await again.close()
    later = await connect(codec, venue, 9)
    await heard(later, 3)
    assert later.raw == first[8:]
    await later.close()


@with_exchange(engine={"shards": 2})
async def test_two_symbols_on_two_matching_threads(venue: Venue, codec: ModuleType) -> None:
    await venue.tell(*MORNING)
    session = await connect(codec, venue, 1)
    assert await heard(session, 1) == [("SystemEvent", "S")]
    session.send_message(enter(codec, 1, "B", 250, 189_5000))
    assert await heard(session, 2) == [
        ("OrderAccepted", 1, "B", 250, 189_5000, "L", "foreign 1"),
        ("OrderExecuted", 1, 200, 189_5000, "R"),
    ]
    session.send_message(enter(codec, 2, "S", 80, 400_0000, symbol="MSFT"))
    assert await heard(session, 1) == [("OrderAccepted", 2, "S", 80, 400_0000, "L", "foreign 2")]
    session.send_message(replace(codec, 2, 3, 90, 401_0000))
    assert await heard(session, 1) == [("OrderReplaced", 2, 3, 90, 401_0000)]
    first = session.raw
    await session.close()
    await venue.until(lambda: not venue.gateway.connections)

    again = await connect(codec, venue, 1, session=SESSION)
    await heard(again, 5)
    assert again.raw == first
    for number, quantity in ((1, 50), (3, 90)):
        again.send_message(message(codec, "CancelOrder", user_ref_num=number, quantity=0))
        assert await heard(again, 1) == [("OrderCanceled", number, quantity, "U")]
    assert [len(view.books.books) and view.account(0)["open_orders"] for view in venue.views] == [0, 0]
    assert venue.count("protocol_errors") == 0
    await again.close()


@with_exchange()
async def test_its_heartbeats_keep_it_and_the_end_of_the_day_reaches_it(venue: Venue, codec: ModuleType) -> None:
    """It sends one each ten seconds (here: each tenth of one, while our clock goes on by twelve each time)."""
    jumped_ns = 0
    venue.gateway.clock = lambda: time.monotonic_ns() + jumped_ns
    session = await connect(codec, venue, 0, client_heartbeat_interval=0.1)
    read = venue.count("bytes_in")
    for beat in range(1, 5):
        await venue.until(lambda beats=beat: venue.count("bytes_in") >= read + HEARTBEAT_BYTES * beats, "a heartbeat")
        jumped_ns += 12_000_000_000
        venue.gateway.tick()
    assert (venue.count("silence_cuts"), venue.count("sessions")) == (0, 1)
    session.send_message(enter(codec, 1, "B", 10, 100_0000))
    assert await heard(session, 1) == [("OrderAccepted", 1, "B", 10, 100_0000, "L", "foreign 1")]

    await venue.stop()
    assert await heard(session, 1) == [("SystemEvent", "E")]
    await venue.until(lambda: session.closed, "the end of the session")


@with_exchange()
async def test_a_wrong_password_is_refused(venue: Venue, codec: ModuleType) -> None:
    address = ("127.0.0.1", venue.port)
    with pytest.raises(ConnectionRefusedError, match="NOT_AUTHORIZED"):
        await codec.connect_async(address, "ALPHA", "wrong", "", 1)
    with pytest.raises(ConnectionRefusedError, match="SESSION_NOT_AVAILABLE"):
        await codec.connect_async(address, "ALPHA", PASSWORD, "YESTERDAY", 1)
    assert venue.count("logins_rejected_not_authorized") == venue.count("logins_rejected_no_session") == 1


def test_both_codecs_have_the_same_tables(codec: ModuleType) -> None:
    """Every message that the foreign one has: the same bytes for the same values, in both directions."""
    for table, direction in ((ouch.INBOUND, "incoming"), (ouch.OUTBOUND, "outgoing")):
        foreign = [kind for kind in codec.Message.get_msg_classes() if kind.MsgId.direction == direction]
        assert len(foreign) == len(table) - (direction == "incoming"), "all but the Account Query without a field"
        for kind in foreign:
            ours = table[bytes([kind.MsgId.indicator])]
            values: dict[str, Any] = {}
            for at, field in enumerate(kind.BodyRecord.Fields):
                text = field.type.hint == "str"
                length = getattr(field.type, "length", 1)
                if field.name != "appendage_length":
                    values[field.name] = "ABCDEFGHIJKLMNOPQRST"[at : at + length] if text else 3 + at
            theirs = kind()
            for name, value in values.items():
                setattr(theirs, name, value)
            assert theirs.to_bytes()[1] == ours(**values).encode(), kind.__name__
