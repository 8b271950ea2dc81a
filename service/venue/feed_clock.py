"""How far the feed lags: measured against the clock of the market, whatever the time of the recorded day."""

from __future__ import annotations

from venue.telemetry.page import Views


class FeedClock:
    """The lag is how much further behind the clock the feed is than it has been at best in this session.

    A live feed is at best its transport behind, a replay as many hours as lie between then and now; what counts is
    what comes on top. A feed that is played faster than real time never lags. Belongs to the loop thread.
    """

    def __init__(self, page: Views) -> None:
        self._page = page
        self._session = 0
        self._best_ns = 0
        self._time_ns = 0

    def update(self, market_ns: int) -> None:
        """Write the lag into the counters page; ``market_ns`` is the market time now."""
        feed = self._page.feed[0]
        time_ns = max(int(shard.matcher[0]["last_feed_time_ns"]) for shard in self._page.shards)
        behind_ns = market_ns - time_ns
        if feed["sessions_started"] != self._session or time_ns < self._time_ns:
            self._session, self._best_ns = int(feed["sessions_started"]), behind_ns
        self._best_ns = min(self._best_ns, behind_ns)
        self._time_ns = time_ns
        feed["lag_ns"] = behind_ns - self._best_ns if feed["session_open"] and time_ns else 0
