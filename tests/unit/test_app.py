"""The composition root without a process: what it does when a part of it fails."""

from __future__ import annotations

import pytest

from venue import feed, gateway


@pytest.mark.parametrize("retry_s", [feed.RETRY_S, gateway.RETRY_S])
def test_a_retry_is_a_pause_for_the_timers_of_uvloop_too(retry_s: float) -> None:
    assert round(retry_s * 1_000) >= 1, "uvloop rounds to milliseconds, and no pause at all is a busy loop"
