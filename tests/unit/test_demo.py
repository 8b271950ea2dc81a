"""The parts of the demo by themselves: what it plays of a file, how it reads the metrics, what it shows."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from capture_files import OPEN_NS, SECOND_NS, add_order, binary_file, every, system_event
from shared import SHARED_DATA, needs_shared
from venue.wire import ouch
from venue_clients.capture import CaptureError, open_capture
from venue_clients.demo import scene, screen
from venue_clients.demo.figures import FEED_TO_BOOK, ORDER_TO_ACK, STAGE, Figures, Watch
from venue_clients.demo.report import print_report
from venue_clients.demo.screen import Moment, Screen, clock, duration
from venue_clients.demo.tape import Tape
from venue_clients.touch import Touch

PREMARKET_NS = OPEN_NS - 3_600 * SECOND_NS


def going_on() -> bool:
    return False


def look(tmp_path: Path, messages: list[bytes], seconds: float = 10.0) -> scene.Scene:
    path = tmp_path / "day.itch"
    path.write_bytes(binary_file(messages))
    return scene.recorded(path, seconds, going_on)


def busy(start_ns: int, rate: int, seconds: float, stock: str = "AAPL") -> list[bytes]:
    return [add_order(i, start_ns + i * SECOND_NS // rate, stock) for i in range(int(rate * seconds))]


# What is played


def test_a_busy_day_is_played_from_the_opening_as_fast_as_it_was(tmp_path) -> None:
    day = [*busy(PREMARKET_NS, 1, 600), system_event("Q", OPEN_NS), *busy(OPEN_NS, 300, 20)]
    found = look(tmp_path, day)
    assert (found.from_ns, found.speed, found.symbols) == (OPEN_NS, 1.0, ("AAPL",))


def test_without_an_opening_it_begins_with_the_first_order(tmp_path) -> None:
    found = look(tmp_path, [system_event("O", PREMARKET_NS), *busy(OPEN_NS + 5, 300, 20)])
    assert (found.from_ns, found.speed) == (OPEN_NS + 5, 1.0)


def test_an_opening_at_the_very_end_is_none(tmp_path) -> None:
    found = look(tmp_path, [*busy(PREMARKET_NS, 300, 20), system_event("Q", OPEN_NS)])
    assert found.from_ns == PREMARKET_NS


def test_a_quiet_day_is_played_so_fast_that_200_messages_come_a_second(tmp_path) -> None:
    found = look(tmp_path, busy(OPEN_NS, 2, 3_600), seconds=10)
    assert found.speed == pytest.approx(100, rel=0.01)


def test_a_file_that_ends_sooner_is_stretched_with_a_second_to_spare(tmp_path) -> None:
    found = look(tmp_path, every(1_000_000, 1_001), seconds=9)
    assert found.speed == pytest.approx(0.1)


def test_a_file_of_one_moment_can_be_played(tmp_path) -> None:
    assert 0 < look(tmp_path, every(0, 3)).speed < 1e-9


def test_a_day_of_many_gigabytes_is_not_read_to_its_end(tmp_path) -> None:
    looked_at = []

    def stop_when_all_is_read() -> bool:
        looked_at.append(1)
        return False

    path = tmp_path / "day.itch"
    path.write_bytes(binary_file([system_event("Q", OPEN_NS), *busy(OPEN_NS, 20_000, 10)]))
    assert scene.recorded(path, 1, stop_when_all_is_read).speed == 1.0
    assert len(looked_at) < 0.2 * len(list(open_capture(path).chunks()))


def test_the_eight_busiest_stocks_are_played(tmp_path) -> None:
    day = [message for number in range(1, 13) for message in busy(OPEN_NS, number, 2, f"S{number}")]
    found = look(tmp_path, sorted(day, key=lambda message: message[5:11]))
    assert found.symbols == tuple(f"S{number}" for number in range(12, 4, -1))
    assert found.title == "S12, S11, S10 and 5 more from day.itch"


def test_a_file_without_orders_and_one_that_is_no_capture_are_refused(tmp_path) -> None:
    with pytest.raises(CaptureError, match="holds no orders"):
        look(tmp_path, [system_event("Q", OPEN_NS)])
    with pytest.raises(CaptureError, match="cannot read"):
        scene.recorded(tmp_path / "none", 10, going_on)


@needs_shared
@pytest.mark.parametrize(
    ("name", "from_ns", "speed", "first"),
    [
        ("itch/aapl-20200130-10k.itch", 14_400_667_465_235, 301.0, "AAPL"),  # the morning before the opening
        ("itch/all-20191230-0930-1k.itch", 34_200_000_075_566, 7.38e-05, "HDS"),  # two milliseconds
        ("pcap/nasdaq-moldudp64-20230822.pcap", 34_200_000_070_384, 1.3e-05, "XLF"),
    ],
)
def test_real_captures(name: str, from_ns: int, speed: float, first: str) -> None:
    found = scene.recorded(SHARED_DATA / name, 30, going_on)
    assert (found.from_ns, found.speed, found.symbols[0]) == (from_ns, speed, first)


@pytest.mark.parametrize("seconds", [1, 5, 30])
def test_a_made_up_day_goes_on_until_after_the_demo_but_never_closes(tmp_path, seconds) -> None:
    made = scene.made_up(tmp_path, seconds, seed=3)
    made.write(going_on)
    messages = list(open_capture(made.path).messages())
    last_ns = int.from_bytes(messages[-1][5:11], "big")
    assert last_ns >= made.from_ns + (seconds + 1) * SECOND_NS
    events = [chr(message[11]) for message in messages if message[:1] == b"S"]
    assert events == ["O", "S", "Q"]


# The metrics


def histogram(name: str, counts: dict[str, int], labels: str = "") -> str:
    lines = [f"# TYPE {name} histogram"]
    lines += [f'{name}_bucket{{{labels}le="{bound}"}} {count}' for bound, count in counts.items()]
    return "\n".join([*lines, ""])


def text(fills: int = 0, largest: float = 0.0) -> str:
    buckets = {"1e-05": 0, "2e-05": 50, "4e-05": 90, "1": 100, "+Inf": 100}
    return (
        "# TYPE venue_fills counter\n"
        f"venue_fills_total {fills}\n"
        "# TYPE venue_orders counter\n"
        'venue_orders_total{outcome="accepted"} 7\nvenue_orders_total{outcome="rejected"} 2\n'
        "# TYPE venue_order_to_ack_recent_seconds gauge\n"
        f'venue_order_to_ack_recent_seconds{{quantile="1"}} {largest}\n'
        + histogram("venue_order_to_ack_seconds", buckets)
        + histogram("venue_stage_seconds", {"1e-06": 4, "+Inf": 4}, 'stage="match",')
    )


def test_figures_are_sums_over_the_samples_with_these_labels() -> None:
    figures = Figures(text(fills=12))
    assert figures.total("venue_fills_total") == 12
    assert (figures.total("venue_orders_total"), figures.total("venue_orders_total", outcome="rejected")) == (9, 2)
    assert figures.total("venue_nothing_total") == 0
    assert figures.recent(ORDER_TO_ACK, "0.5") is None


@pytest.mark.parametrize(("q", "seconds"), [(0.5, 2e-05), (0.7, 3e-05), (0.9, 4e-05), (0.95, 0.50002), (0.25, 1.5e-05)])
def test_percentiles_come_from_the_buckets(q: float, seconds: float) -> None:
    assert Figures(text()).percentile(ORDER_TO_ACK, q) == pytest.approx(seconds)


def test_percentiles_of_stages_and_of_nothing() -> None:
    figures = Figures(text())
    assert figures.percentile(STAGE, 0.5, stage="match") == pytest.approx(5e-07)
    assert figures.percentile(STAGE, 0.5, stage="ring_wait") is None
    assert figures.percentile(FEED_TO_BOOK, 0.5) is None


def test_samples_above_the_last_bound_count_as_the_last_bound() -> None:
    figures = Figures(histogram("venue_order_to_ack_seconds", {"1e-05": 1, "10": 1, "+Inf": 100}))
    assert figures.percentile(ORDER_TO_ACK, 0.99) == 10


def test_a_watch_knows_rates_and_the_largest_latency_of_all_scrapes() -> None:
    watch = Watch()
    assert (watch.rate("venue_fills_total"), watch.largest(ORDER_TO_ACK)) == (0.0, None)
    for at_s, fills, largest in [(1.0, 100, 0.002), (2.0, 150, 0.009), (4.0, 250, 0.001)]:
        watch.take(Figures(text(fills, largest)), at_s)
    assert watch.rate("venue_fills_total") == 50.0
    assert watch.largest(ORDER_TO_ACK) == 0.009


# Who traded with whom


def fill(match_number: int, quantity: int = 100) -> ouch.Executed:
    return ouch.Executed(
        timestamp=0, user_ref_num=1, quantity=quantity, price=1, liquidity_flag="A", match_number=match_number
    )


def test_trades_between_the_two_are_those_both_have_told_of() -> None:
    tape = Tape(("MAKER", "TAKER"))
    for role, match_number, quantity in [
        ("MAKER", 1, 100), ("TAKER", 1, 100), ("TAKER", 2, 30), ("MAKER", 3, 50), ("TAKER", 4, 7), ("MAKER", 4, 7),
    ]:  # fmt: skip
        tape.add(role, fill(match_number, quantity))
    assert (tape.by_role["MAKER"].fills, tape.by_role["MAKER"].shares) == (3, 157)
    assert (tape.by_role["TAKER"].fills, tape.by_role["TAKER"].shares) == (3, 137)
    assert (tape.between.fills, tape.between.shares) == (2, 107)
    assert (tape.with_recorded.fills, tape.with_recorded.shares) == (2, 80)


def test_the_tape_does_not_grow_for_ever(monkeypatch) -> None:
    monkeypatch.setattr("venue_clients.demo.tape.UNPAIRED_KEPT", 3)
    tape = Tape(("MAKER", "TAKER"))
    for match_number in range(10):
        tape.add("MAKER", fill(match_number))
    tape.add("TAKER", fill(9))
    tape.add("TAKER", fill(0))  # too old to be paired
    assert (tape.between.fills, tape.with_recorded.fills) == (1, 10)


# What is shown


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (None, "–"),
        (0.0, "0.0 ns"),
        (640e-9, "640 ns"),
        (999.6e-9, "1.0 µs"),
        (9.94e-6, "9.9 µs"),
        (9.96e-6, "10 µs"),
        (123.4e-6, "123 µs"),
        (0.0123, "12 ms"),
        (0.99951, "1.0 s"),
        (12.34, "12.3 s"),
    ],
)
def test_durations_have_three_digits_at_most(seconds: float | None, words: str) -> None:
    assert duration(seconds) == words


def test_the_recorded_clock() -> None:
    assert clock(OPEN_NS + 61 * SECOND_NS + 290_000_000) == "09:31:01.2"


def moment(seconds: float | None = 30.0, elapsed_s: float = 12.0) -> Moment:
    watch = Watch()
    for at_s, fills in [(1.0, 1_000), (2.0, 1_150)]:
        watch.take(Figures(text(fills, 0.0005)), at_s)
    stocks = [("AAPL", Touch(1_895_000, 300, 1_895_100, 200), -400), ("MSFT", Touch(), 0)]
    return Moment("a made-up day", elapsed_s, seconds, OPEN_NS, watch, stocks)


def drawn(what: object) -> str:
    console = Console(file=io.StringIO(), width=100, force_terminal=False)
    console.print(what)
    output = console.file
    assert isinstance(output, io.StringIO)
    return output.getvalue()


def test_the_picture_says_it_all_within_its_width() -> None:
    shown = drawn(screen.picture(moment()))
    for piece in ("00:12 of 00:30", "09:30:00.0", "150 trades/s", "1,150 in all", "max 500 µs", "Ctrl-C ends it early"):
        assert piece in shown
    assert "300 × 189.50" in shown
    assert "-400 shares" in shown
    assert {len(row) for row in shown.splitlines()} == {screen.WIDTH}
    assert screen.WIDTH + len("^C") < 80
    assert "Ctrl-C stops it" in drawn(screen.picture(moment(seconds=None)))


def test_without_a_terminal_there_is_a_plain_line_every_few_seconds() -> None:
    output = io.StringIO()
    shown = Screen(Console(file=output, width=40))
    with shown.picture():
        for tenths in range(100):
            shown.show(moment(elapsed_s=tenths / 10))
        shown.waiting("for something", 3)
    lines = output.getvalue().splitlines()
    assert [row[:5] for row in lines] == ["00:03", "00:06", "00:09"]
    assert all("trades 1,150" in row and "\x1b" not in row for row in lines)


def test_the_report_without_a_terminal_is_plain_and_fits() -> None:
    tape = Tape(("MAKER", "TAKER"))
    tape.add("TAKER", fill(1, 250))
    output = io.StringIO()
    console = Console(file=output, width=80)
    print_report(console, moment().watch, tape, {"MAKER": "quotes", "TAKER": "takes"}, sent=123)
    shown = output.getvalue()
    assert "\x1b" not in shown
    assert max(map(len, shown.splitlines())) <= 80
    rows = {" ".join(row.split()) for row in shown.splitlines()}
    assert {
        "MAKER quotes 0 0",
        "TAKER takes 1 250",
        "trades with recorded orders 1 250",
        "trades in all 1,150 0",
        "orders: 7 accepted, 0 replaced, 0 canceled, 2 rejected",
        "order to ack 20 µs 40 µs 500 µs 500 µs 500 µs",  # no percentile above the largest value seen
    } <= rows
    assert any(row.startswith("messages sent 123 gaps 0 duplicates 0") for row in rows)
