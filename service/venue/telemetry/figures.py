"""The exchange in figures: the same that /metrics exports, ready to be shown."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Final

from venue.engine import cells
from venue.engine.cells import ORDER_TO_ACK_BOUNDS, QUANTILES, Int64s
from venue.engine.counters import FEED_DATAGRAM_TO_BOOK, ORDER_TO_ACK, STAGES
from venue.telemetry import answers
from venue.telemetry.market import price_text
from venue.telemetry.page import Page, Views, text_of
from venue.telemetry.samples import REJECT_REASONS, order_outcomes
from venue.telemetry.window import Recent, Window

RATE_SPAN_NS: Final = 2_000_000_000
NS_A_SECOND: Final = 1_000_000_000


class Figures:
    """Reads one page; ``window`` knows the last ten seconds of its histograms, :meth:`tick` is called once a second."""

    def __init__(self, page: Page, window: Window, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._page = page
        self._window = window
        self._clock = clock
        self._messages: deque[tuple[int, int]] = deque()
        self.tick()

    def tick(self) -> None:
        """Remember how many messages the feed had brought by now."""
        now_ns = self._clock()
        self._messages.append((now_ns, int(self._page.feed["messages"].sum())))
        while len(self._messages) > 1 and self._messages[1][0] <= now_ns - RATE_SPAN_NS:
            self._messages.popleft()

    def stats(self) -> answers.Stats:
        """Everything, from one snapshot."""
        views, now_ns = self._page.snapshot(), self._clock()
        recent = self._window.since(views, now_ns)
        matcher = views.matcher[0]
        rejects = {REJECT_REASONS.get(code, "other_codes"): 0 for code in range(len(matcher["orders_rejected"]))}
        for code, number in enumerate(matcher["orders_rejected"].tolist()):
            rejects[REJECT_REASONS.get(code, "other_codes")] += number
        return answers.Stats(
            state=self._state(views),
            mode=views.mode,
            version=views.venue_version,
            started_at=iso(int(views.header["started_at_ns"][0])),
            uptime_s=round(self._uptime_ns(views) / NS_A_SECOND, 3),
            order_to_ack=percentiles(recent.histograms[ORDER_TO_ACK]),
            order_to_ack_cells=counted_cells(views.histograms[ORDER_TO_ACK]),
            stages={name: percentiles(recent.histograms[row]) for name, row in STAGES.items()},
            feed=self._feed(views, recent, now_ns),
            orders={labels[0]: int(value) for labels, value in order_outcomes(views)},
            rejects={reason: number for reason, number in rejects.items() if number},
            fills=int(matcher["fills"]),
            filled_shares=int(matcher["filled_shares"]),
            trades=int(matcher["trades"]),
            live_orders=int(matcher["live_orders"]),
            live_own_orders=int(matcher["live_own_orders"]),
            sessions=sessions(views, recent),
            ring=answers.RingFigures(
                command_depth=int(matcher["command_ring_depth"]),
                high_water=int(matcher["command_ring_high_water"]),
                capacity=int(matcher["command_ring_capacity"]),
                event_full=int(matcher["event_ring_full"]),
            ),
        )

    def sessions(self) -> answers.Sessions:
        """The accounts, from one snapshot."""
        views = self._page.snapshot()
        return answers.Sessions(sessions=sessions(views, self._window.since(views, self._clock())))

    def _state(self, views: Views) -> str:
        return views.state.name.lower() if self._page.owner_alive() else "dead"

    def _uptime_ns(self, views: Views) -> int:
        """From the start to the last sign of life."""
        return int(views.header["heartbeat_at_ns"][0] - views.header["started_at_ns"][0])

    def _feed(self, views: Views, recent: Recent, now_ns: int) -> answers.FeedFigures:
        feed, matcher = views.feed[0], views.matcher[0]
        messages, time_ns = int(feed["messages"].sum()), int(matcher["last_feed_time_ns"])
        since_ns, before = self._messages[0]
        rate = (messages - before) * NS_A_SECOND / (now_ns - since_ns) if now_ns > since_ns else 0.0
        is_open = bool(feed["session_open"])
        return answers.FeedFigures(
            time_ns=time_ns or None,
            session_open=is_open,
            messages=messages,
            rate_per_s=round(rate, 1),
            lag_ns=int(feed["lag_ns"]) if is_open and time_ns else None,
            gaps=int(feed["gaps"]),
            missing=int(feed["missing_messages"]),
            recovered=int(feed["recovered_messages"]),
            duplicates=int(feed["duplicates"]),
            kernel_drops=int(feed["kernel_drops"]),
            incomplete_books=int(matcher["incomplete_books"]),
            divergence=answers.Divergence(
                events=int(matcher["divergence_events"]), shares=int(matcher["divergence_shares"])
            ),
            to_book=percentiles(recent.histograms[FEED_DATAGRAM_TO_BOOK]),
        )


def sessions(views: Views, recent: Recent) -> list[answers.Session]:
    """All accounts in the order of the configuration."""
    return [
        answers.Session(
            account=name,
            logged_in=bool(account["logged_in"]),
            peer=text_of(account["peer"]) or None,
            connected_at=iso(int(account["connected_at_ns"])) if account["connected_at_ns"] else None,
            unsent_bytes=int(account["unsent_bytes"]),
            sequence=int(account["sequence"]),
            messages_in=int(account["messages_in"]),
            killed=bool(exposure["killed"]),
            open_orders=int(exposure["open_orders"]),
            open_shares=int(exposure["open_shares"]),
            open_notional=price_text(int(exposure["open_notional"])),
            order_to_ack=percentiles(latencies),
        )
        for name, account, exposure, latencies in zip(
            views.account_names(), views.accounts, views.exposures, recent.account_histograms, strict=False
        )
    ]


def percentiles(row: Int64s) -> answers.Percentiles:
    """What a row of a histogram says; null where it is empty."""
    values: Sequence[int | None] = cells.percentiles(row, QUANTILES) or [None] * len(QUANTILES)
    p50_ns, p90_ns, p99_ns, p999_ns, max_ns = values
    return answers.Percentiles(
        count=cells.count(row),
        p50_ns=p50_ns,
        p90_ns=p90_ns,
        p99_ns=p99_ns,
        p999_ns=p999_ns,
        max_ns=max_ns,
    )


def counted_cells(row: Int64s) -> list[tuple[int | None, int]]:
    """A histogram in the cells that /metrics exports, without the empty ones."""
    cumulative = cells.cumulative_counts(row, ORDER_TO_ACK_BOUNDS)
    bounds: tuple[int | None, ...] = (*ORDER_TO_ACK_BOUNDS, None)
    below = 0
    counted = []
    for bound_ns, until in zip(bounds, cumulative, strict=True):
        if until > below:
            counted.append((bound_ns, until - below))
        below = until
    return counted


def iso(at_ns: int) -> str:
    """A wall-clock time in ns since 1970 as ISO 8601, UTC."""
    return datetime.fromtimestamp(at_ns / 1e9, UTC).isoformat(timespec="milliseconds")
