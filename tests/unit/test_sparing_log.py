"""One line a second of each kind."""

import logging

import pytest

from venue.sparing_log import INTERVAL_NS, SparingLog


def test_a_flood_is_one_line_a_second_that_says_how_many(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_ns = [5]
    monkeypatch.setattr("venue.sparing_log.time.monotonic_ns", lambda: now_ns[0])
    sparing = SparingLog(logging.getLogger("venue.test"))
    for number in range(100):
        sparing.warning("malformed", number=number)
    sparing.warning("another kind")
    now_ns[0] += INTERVAL_NS
    sparing.warning("malformed", number=100)
    now_ns[0] += INTERVAL_NS
    sparing.warning("malformed", number=101)
    lines = [(r.message, vars(r).get("number"), vars(r).get("more_of_these")) for r in caplog.records]
    assert lines == [
        ("malformed", 0, None),
        ("another kind", None, None),
        ("malformed", 100, 99),
        ("malformed", 101, None),
    ]
