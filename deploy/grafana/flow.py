"""One screen on flow and health: what comes in, what becomes of it, what waits, what is lost, and who is there."""

from __future__ import annotations

from typing import Final

from grafana_foundation_sdk.builders.dashboard import Dashboard

from panels import Limits, Panel, Series, bars, figure, over_time, page, rows

UID: Final = "venue-flow"
TITLE: Final = "venue: flow and health"
SIZE: Final = (8, 6)
EVERY: Final = "[$__rate_interval]"


def a_second(counter: str) -> str:
    return f"rate({counter}{EVERY})"


def outcome(name: str) -> Series:
    return Series(a_second(f'venue_orders_total{{outcome="{name}"}}'), name)


def now() -> list[Panel]:
    return [
        figure(
            "State",
            "What the exchange is doing: starting, compiling, ready, stopping or stopped.",
            Series("venue_state == 1", "{{state}}"),
            unit="short",
            width=3,
            no_value="down",
            show_name=True,
        ),
        figure(
            "Feed session",
            "Open from the first packet of a MoldUDP64 session to its end of session.",
            Series("venue_feed_session_open", "session"),
            unit="short",
            width=3,
            words={"0": "closed", "1": "open"},
            no_value="down",
        ),
        figure(
            "Market time",
            "Time of day of the last feed message in the books.",
            Series("venue_feed_time_of_day_seconds", "market time"),
            unit="dthms",
            width=3,
            no_value="no feed",
        ),
        figure(
            "Clients",
            "Clients logged in now.",
            Series("venue_gateway_sessions", "clients"),
            unit="short",
            width=3,
            no_value="down",
        ),
    ]


def troubles() -> list[Panel]:
    return [
        figure(
            "Messages lost",
            "Feed messages lost for good since the exchange started. Any make books incomplete.",
            Series("venue_feed_missing_messages_total", "lost"),
            unit="short",
            width=3,
            limits=Limits(attention=1, bad=1),
            no_value="down",
        ),
        figure(
            "Incomplete books",
            "Books that a lost or impossible feed message has made unreliable.",
            Series("venue_incomplete_books", "books"),
            unit="short",
            width=3,
            limits=Limits(attention=1, bad=1),
            no_value="down",
        ),
        figure(
            "Alerts",
            "Alerts that are firing now; what to do about each is in its annotation, in Prometheus under Alerts.",
            Series('ALERTS{alertstate="firing", job="venue"}', "{{alertname}}"),
            unit="short",
            width=6,
            limits=Limits(attention=1, bad=1),
            no_value="none",
            show_name=True,
        ),
    ]


def traffic() -> list[Panel]:
    return [
        over_time(
            "Feed messages a second",
            "ITCH messages delivered in sequence, and how many MoldUDP64 packets they came in.",
            Series(f"sum without (type) ({a_second('venue_feed_messages_total')})", "messages"),
            Series(f"sum without (line) ({a_second('venue_feed_line_packets_total')})", "packets"),
            unit="short",
            size=SIZE,
        ),
        over_time(
            "Orders a second, by outcome",
            "Order messages by what became of them. Ignored ones repeat a number that was used, and get no answer.",
            *map(outcome, ("accepted", "replaced", "canceled", "modified", "rejected", "ignored_duplicate")),
            unit="short",
            size=SIZE,
        ),
        over_time(
            "Trades, fills and divergence a second",
            "Trades, recorded ones included; fills are those with a client order in them. Divergence: recorded "
            "executions that could not happen in full, as client orders had taken the shares.",
            Series(a_second("venue_trades_total"), "trades"),
            Series(a_second("venue_fills_total"), "fills"),
            Series(a_second("venue_divergence_events_total"), "divergence"),
            Series(a_second("venue_filled_shares_total"), "filled shares (right)", unit="short"),
            unit="short",
            size=SIZE,
        ),
    ]


def queues() -> list[Panel]:
    return [
        over_time(
            "Command ring",
            "How full it was when the matching thread last looked, and at its fullest since the start. "
            "From 50 % on VenueCommandRingDeep warns.",
            Series("venue:command_ring:ratio", "now"),
            Series(
                'venue_command_ring_high_water / ignoring (ring) (venue_ring_capacity{ring="command"} > 0)',
                "at its fullest",
            ),
            unit="percentunit",
            size=SIZE,
        ),
        over_time(
            "Waits for a full ring",
            "Times that reading paused as the command ring was full, or matching as the event ring was.",
            Series(f'increase(venue_command_ring_full_total{{source="feed"}}{EVERY})', "feed reading"),
            Series(f'increase(venue_command_ring_full_total{{source="gateway"}}{EVERY})', "order reading"),
            Series(f"increase(venue_event_ring_full_total{EVERY})", "matching"),
            unit="short",
            size=SIZE,
            bars=True,
        ),
        over_time(
            "Orders in the books",
            "Orders that stand in the books, by where they came from; price levels.",
            Series('venue_live_orders{origin="feed"}', "recorded orders"),
            Series('venue_live_orders{origin="client"}', "client orders"),
            Series("venue_live_levels", "price levels"),
            unit="short",
            size=SIZE,
        ),
    ]


def losses() -> list[Panel]:
    return [
        over_time(
            "Feed losses",
            "Gaps in the sequence, what became of their messages, and what never got as far: dropped by the kernel, or "
            "malformed.",
            Series(f"increase(venue_feed_gaps_total{EVERY})", "gaps"),
            Series(f"increase(venue_feed_recovered_messages_total{EVERY})", "recovered messages"),
            Series(f"increase(venue_feed_missing_messages_total{EVERY})", "lost messages"),
            Series(f"increase(venue_feed_kernel_drops_total{EVERY})", "kernel drops"),
            Series(f"sum without (kind) (increase(venue_feed_malformed_total{EVERY}))", "malformed"),
            Series("venue_feed_receive_buffer_bytes", "socket buffer (right)", unit="bytes"),
            unit="short",
            size=SIZE,
        ),
        bars(
            "Rejects by reason",
            "Rejected orders in the time range, by OUCH reject reason. Reasons that begin with risk are limits of the "
            "account.",
            Series("sort_desc(sum by (reason) (increase(venue_orders_rejected_total[$__range])) > 0)", "{{reason}}"),
            unit="short",
            size=SIZE,
            no_value="no rejects",
        ),
        bars(
            "Connections that the venue closed",
            "In the time range, by reason. slow_client: it did not read; silence: no heartbeat for 15 s; takeover: a "
            "newer login of the same account.",
            Series("sum by (reason) (increase(venue_gateway_disconnects_total[$__range]))", "{{reason}}"),
            unit="short",
            size=SIZE,
            no_value="down",
        ),
    ]


def people_and_machine() -> list[Panel]:
    return [
        rows(
            "Accounts",
            "Every account of the configuration.",
            "account",
            Series("max by (account) (venue_account_logged_in)", "logged in"),
            Series("sum by (account) (rate(venue_account_received_messages_total[1m]))", "in a second"),
            Series("sum by (account) (rate(venue_account_sent_messages_total[1m]))", "out a second"),
            Series("sum by (account) (venue_account_open_orders)", "open orders"),
            Series("sum by (account) (venue_account_open_shares)", "shares"),
            Series("sum by (account) (venue_account_open_notional_dollars)", "notional", unit="currencyUSD"),
            Series("sum by (account) (venue_account_unsent_bytes)", "unsent", unit="bytes"),
            size=SIZE,
            no_value="no accounts",
        ),
        over_time(
            "Pace of the feed",
            "Seconds of market time a second: 1 is as recorded, less is falling behind, more is a faster replay. Lag: "
            "how much further behind the clock the feed is than at its best in this session.",
            Series(f"clamp_min(deriv(venue_feed_time_of_day_seconds{EVERY}), 0)", "market seconds a second"),
            Series("venue_feed_lag_seconds", "lag (right)", unit="s"),
            unit="short",
            size=SIZE,
            no_value="no feed",
        ),
        over_time(
            "Runtime",
            "The exchange's process: cores in use (two threads, so about two at most), memory, open descriptors.",
            Series(a_second("venue_process_cpu_seconds_total"), "cores"),
            Series("venue_process_resident_memory_bytes", "memory (right)", unit="bytes"),
            Series("venue_process_open_fds / venue_process_max_fds", "descriptors, share of the limit"),
            unit="short",
            size=SIZE,
            no_value="down",
        ),
    ]


def build() -> Dashboard:
    board = page(
        UID,
        TITLE,
        "What flows through the venue, what waits, what is lost, and who is connected.",
        ("venue-latency", "Latency"),
    )
    for panel in [*now(), *troubles(), *traffic(), *queues(), *losses(), *people_and_machine()]:
        board = board.with_panel(panel)
    return board
