"""The lag of the feed, whatever the time of the recorded day."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from venue.feed_clock import FeedClock
from venue.telemetry.page import Page, create

NOON_NS = 43_200_000_000_000
OPEN_NS = 34_200_000_000_000
SECOND_NS = 1_000_000_000


class Clocks:
    """The clock of the market, and that of the feed."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.clock = FeedClock(page)
        self.market_ns = NOON_NS
        self.begin()

    def begin(self, time_ns: int = OPEN_NS) -> None:
        self.page.feed["sessions_started"] += 1
        self.page.feed["session_open"] = 1
        self.page.matcher["last_feed_time_ns"] = time_ns

    def pass_(self, seconds: float, feed_seconds: float) -> float:
        """Both go on; the lag in seconds."""
        self.market_ns += int(seconds * SECOND_NS)
        self.page.matcher["last_feed_time_ns"] += int(feed_seconds * SECOND_NS)
        self.clock.update(self.market_ns)
        return float(self.page.feed["lag_ns"][0]) / SECOND_NS


@pytest.fixture
def clocks(tmp_path: Path) -> Iterator[Clocks]:
    page = create(mode="consume", folder=tmp_path / "pages")
    yield Clocks(page)
    page.remove()


def test_a_replay_of_the_morning_at_noon_does_not_lag(clocks: Clocks) -> None:
    assert [clocks.pass_(1, 1) for _ in range(3)] == [0, 0, 0]


def test_what_it_falls_behind_is_its_lag_until_it_has_caught_up(clocks: Clocks) -> None:
    assert [clocks.pass_(*step) for step in ((1, 1), (1, 0), (1, 0.5), (1, 2), (1, 1.5))] == [0, 1, 1.5, 0.5, 0]


def test_faster_than_the_clock_it_never_lags(clocks: Clocks) -> None:
    assert [clocks.pass_(1, 60) for _ in range(3)] == [0, 0, 0]
    assert clocks.pass_(2, 0) == 2, "but when it stops"


def test_a_session_from_an_earlier_time_begins_anew(clocks: Clocks) -> None:
    clocks.pass_(1, 100)
    clocks.begin()
    assert clocks.pass_(1, 1) == 0


def test_when_the_day_is_over_there_is_no_lag(clocks: Clocks) -> None:
    clocks.pass_(1, 1)
    assert clocks.pass_(5, 0) == 5
    clocks.page.feed["session_open"] = 0
    assert clocks.pass_(5, 0) == 0


def test_before_the_first_message_there_is_no_lag(clocks: Clocks) -> None:
    clocks.begin(0)
    assert clocks.pass_(1, 0) == 0
