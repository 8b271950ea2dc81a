"""`venue stat`: which exchange it looks at, and what it says."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest
from rich.console import Console

from venue.engine.counters import MATCH, ORDER_TO_ACK
from venue.engine.histogram import record
from venue.telemetry import pages, stat
from venue.telemetry.figures import Figures
from venue.telemetry.page import Page, State, create
from venue.telemetry.pages import PageError

CRASH = """
import os, sys
from pathlib import Path
from venue.telemetry.page import State, create
page = create(mode="match", accounts=["ALPHA"], folder=Path(sys.argv[1]))
page.matcher["fills"][0] = 1234567
page.set_state(State.READY)
os._exit(1)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where pages lie for this test, instead of the user's own folder."""
    folder = tmp_path / "pages"
    listed = pages.list_pages
    monkeypatch.setattr(pages, "list_pages", lambda given=None: listed(given or folder))
    return folder


@pytest.fixture
def page(folder: Path) -> Iterator[Page]:
    page = create(mode="consume", accounts=["ALPHA", "BETA"], folder=folder)
    page.set_state(State.READY)
    yield page
    page.remove()


def crash(folder: Path) -> int:
    """A crashed exchange; its pid."""
    with subprocess.Popen([sys.executable, "-c", CRASH, str(folder)]) as process:
        return process.pid


def shown(page: Page) -> str:
    console = Console(width=80, no_color=True)
    with console.capture() as capture:
        console.print(stat.view(Figures(page, stat.since_the_start(page)).stats(), 4711, "since the start"))
    return capture.get()


def test_a_running_exchange_is_looked_at_before_a_dead_one_unless_it_is_named(folder: Path, page: Page) -> None:
    dead = crash(folder)
    found = pages.list_pages()
    assert stat.choose(found, None).pid == os.getpid()
    assert stat.choose(found, dead).path != page.path
    with pytest.raises(PageError, match="no exchange with the pid 1"):
        stat.choose(found, 1)
    with pytest.raises(PageError, match="no exchange has left a counters page"):
        stat.choose([], None)


def test_what_a_crashed_exchange_has_left_behind(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pid = crash(folder)
    stat.stat(pid=None, watch=False, as_json=True, list_=False)
    stats = json.loads(capsys.readouterr().out)
    assert (stats["state"], stats["mode"], stats["fills"]) == ("dead", "match", 1234567)
    stat.stat(pid=pid, watch=True, as_json=True, list_=False)  # it ends by itself, as the exchange has
    assert json.loads(capsys.readouterr().out)["fills"] == 1234567
    stat.stat(pid=None, watch=False, as_json=False, list_=True)
    assert re.search(r"dead for \d+ s, was ready", capsys.readouterr().out)
    heard = datetime.fromtimestamp(stat.open_read_only(pages.list_pages()[0].path).header["heartbeat_at_ns"][0] / 1e9)
    stat.stat(pid=None, watch=False, as_json=False, list_=False)
    assert f"last sign of life {heard.isoformat(' ', 'seconds')}, " in capsys.readouterr().out


def test_a_running_exchange_says_nothing_of_its_end(page: Page) -> None:
    assert "last sign" not in shown(page)


@pytest.mark.parametrize(
    ("age_s", "text"),
    [(-3.0, "0 s"), (59.9, "59 s"), (60.0, "1 min"), (7_199.0, "1 h"), (86_400.0, "1 d"), (1e7, "115 d")],
)
def test_ages(age_s: float, text: str) -> None:
    assert stat.age(age_s) == text


def test_everything_is_said_in_eighty_columns(page: Page) -> None:
    for _ in range(100):
        record(page.histograms[ORDER_TO_ACK], 20_000)
    for latency_ns in (20_000, 5_000):
        record(page.account_histograms[1], latency_ns)
    record(page.histograms[MATCH], 3_000_000)
    page.matcher["orders_accepted"][0] = 12
    page.matcher["orders_rejected"][0, 0x1D] = 3
    page.matcher["last_feed_time_ns"] = 34_201_000_000_000
    page.accounts["logged_in"][0], page.accounts["peer"][0] = 1, b"127.0.0.1:5000"
    page.exposures["killed"][1] = 1
    text = shown(page)
    assert max(map(len, text.splitlines())) <= 80
    words = " ".join(text.split())
    for expected in (
        "pid 4711 ready mode consume",
        "order to ack │ 100 │ 20.5 µs │ 20.5 µs │ 20.5 µs",
        "of BETA │ 2 │ 5.12 µs │ 20.5 µs │ 20.5 µs",
        "match │ 1 │ 3.01 ms",
        "feed 09:30:01",
        "accepted 12",
        "rejected: invalid price 3",
        "ALPHA │ 127.0.0.1:5000",
        "BETA │ killed, not connected",
    ):
        assert expected in words, words


@pytest.mark.parametrize(
    ("value_ns", "text"),
    [
        (None, "–"),
        (5, "5 ns"),
        (1_000, "1.00 µs"),
        (20_480, "20.5 µs"),
        (999_999, "1,000 µs"),
        (61_000_000_000, "61.0 s"),
    ],
)
def test_durations(value_ns: int | None, text: str) -> None:
    assert stat.duration(value_ns) == text
