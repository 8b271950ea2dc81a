"""Every counter and gauge that is exported: its name, what it means, and where in the counters page it lies.

The names are stable: dashboards and alerts depend on them. Base units; counters end in ``_total``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from venue.telemetry.page import State
from venue.telemetry.samples import (
    ITCH_TYPES,
    NS_A_SECOND,
    OUCH_INBOUND_TYPES,
    OUCH_OUTBOUND_TYPES,
    REJECT_REASONS,
    TICKS_A_DOLLAR,
    Read,
    by_account,
    by_code,
    lines,
    live_orders,
    one_field,
    one_field_each,
    order_outcomes,
    states,
    time_of_day,
)


@dataclass(frozen=True, slots=True)
class Metric:
    """One exported family."""

    kind: Literal["counter", "gauge"]
    name: str
    help: str
    read: Read
    labels: tuple[str, ...] = ()


def _counter(section: str, field: str, name: str, text: str, divisor: int = 1) -> Metric:
    return Metric("counter", name, text, one_field(section, field, divisor))


def _gauge(section: str, field: str, name: str, text: str, divisor: int = 1) -> Metric:
    return Metric("gauge", name, text, one_field(section, field, divisor))


STATE: Final = (
    Metric(
        "gauge",
        "venue_ready",
        "1 while the venue takes orders and feed, else 0.",
        lambda views: [((), views.state is State.READY)],
    ),
    Metric("gauge", "venue_state", "1 for what the venue is doing now, 0 for the other states.", states, ("state",)),
    _gauge(
        "header",
        "heartbeat_at_ns",
        "venue_heartbeat_timestamp_seconds",
        "When the loop thread last showed that it runs, in seconds since 1970.",
        NS_A_SECOND,
    ),
    _gauge(
        "header",
        "shards",
        "venue_matching_threads",
        "Matching threads; the metrics of matching and of books are those of all together.",
    ),
)

ORDERS: Final = (
    Metric(
        "counter",
        "venue_orders_total",
        "Order messages by what became of them; ignored ones get no answer.",
        order_outcomes,
        ("outcome",),
    ),
    Metric(
        "counter",
        "venue_orders_rejected_total",
        "Rejected orders by OUCH reject reason.",
        by_code("matcher", "orders_rejected", REJECT_REASONS),
        ("reason",),
    ),
    _counter("matcher", "trades", "venue_trades_total", "Trades on the tape, those of the recorded day included."),
    _counter("matcher", "fills", "venue_fills_total", "Trades with at least one client order in them."),
    _counter("matcher", "filled_shares", "venue_filled_shares_total", "Shares in these trades."),
    _counter(
        "matcher",
        "filled_notional",
        "venue_filled_notional_dollars_total",
        "Price times shares of these trades, in USD.",
        TICKS_A_DOLLAR,
    ),
    _counter(
        "matcher",
        "self_matches_prevented",
        "venue_self_matches_prevented_total",
        "Times an order was kept from trading with one of its own account.",
    ),
    _counter(
        "matcher",
        "capacity_rejects",
        "venue_capacity_rejects_total",
        "Orders rejected because a pool or table of the matcher was full.",
    ),
)

MATCHER: Final = (
    _counter(
        "matcher", "commands", "venue_matcher_commands_total", "Commands that the matching thread took from its ring."
    ),
    _counter("matcher", "events", "venue_matcher_events_total", "Events that the matching thread put on its ring."),
    _counter(
        "matcher", "parks", "venue_matcher_parks_total", "Times the matching thread found nothing to do and slept."
    ),
    Metric(
        "gauge",
        "venue_matcher_time_of_day_seconds",
        "Market time of the last command, in seconds since midnight; absent before the first.",
        time_of_day("matcher", "last_command_time_ns"),
    ),
    _gauge(
        "matcher",
        "command_ring_depth",
        "venue_command_ring_depth",
        "Commands that waited when the matching thread last looked.",
    ),
    _gauge(
        "matcher", "command_ring_high_water", "venue_command_ring_high_water", "The most commands that ever waited."
    ),
    Metric(
        "gauge",
        "venue_ring_capacity",
        "How many records a ring holds.",
        one_field_each("matcher", {"command": "command_ring_capacity", "event": "event_ring_capacity"}),
        ("ring",),
    ),
    _counter(
        "matcher",
        "event_ring_full",
        "venue_event_ring_full_total",
        "Times the matching thread waited for room on the event ring.",
    ),
    Metric(
        "counter",
        "venue_command_ring_full_total",
        "Times reading paused because the command ring was full (for the feed: an eighth full), by who reads.",
        lambda views: [
            (("feed",), views.feed["command_ring_full"][0]),
            (("gateway",), views.gateway["command_ring_full"][0]),
        ],
        ("source",),
    ),
    _gauge(
        "gateway",
        "intake_ring_depth",
        "venue_intake_ring_depth",
        "Of several matching threads: commands that wait for room in the ring of one of them.",
    ),
)

BOOKS: Final = (
    Metric("gauge", "venue_live_orders", "Orders in the books, by where they came from.", live_orders, ("origin",)),
    _gauge("matcher", "live_levels", "venue_live_levels", "Price levels with orders in the books."),
    Metric(
        "gauge",
        "venue_pool_capacity",
        "How many orders or levels there is room for.",
        one_field_each("matcher", {"orders": "order_capacity", "levels": "level_capacity"}),
        ("pool",),
    ),
    Metric(
        "gauge",
        "venue_pool_high_water",
        "The most orders or levels that ever stood at once.",
        one_field_each("matcher", {"orders": "orders_high_water", "levels": "levels_high_water"}),
        ("pool",),
    ),
    _gauge(
        "matcher",
        "incomplete_books",
        "venue_incomplete_books",
        "Books that a lost or impossible feed message has made unreliable.",
    ),
    Metric(
        "counter",
        "venue_book_anomalies_total",
        "Feed messages that do not fit the book: applied as far as possible, then counted here.",
        one_field_each(
            "matcher",
            {
                "unknown_reference": "unknown_references",
                "duplicate_reference": "duplicate_references",
                "over_execution": "over_executions",
                "out_of_order_execution": "out_of_order_executions",
            },
        ),
        ("kind",),
    ),
    _counter(
        "matcher",
        "divergence_events",
        "venue_divergence_events_total",
        "Recorded executions that could not happen in full, as client orders had taken the shares.",
    ),
    _counter(
        "matcher", "divergence_shares", "venue_divergence_shares_total", "The shares missing from these executions."
    ),
)

FEED: Final = (
    _counter("feed", "datagrams", "venue_feed_datagrams_total", "UDP datagrams received on all lines."),
    _counter("feed", "bytes", "venue_feed_received_bytes_total", "Bytes in these datagrams."),
    Metric(
        "counter",
        "venue_feed_messages_total",
        "ITCH messages delivered in sequence, by type.",
        by_code("feed", "messages", ITCH_TYPES),
        ("type",),
    ),
    Metric(
        "counter",
        "venue_feed_malformed_total",
        "Packets and messages skipped because their length is wrong.",
        one_field_each("feed", {"packet": "packets_malformed", "message": "messages_malformed"}),
        ("kind",),
    ),
    _counter(
        "feed", "unknown_types", "venue_feed_unknown_types_total", "Messages skipped because their type is not known."
    ),
    _counter(
        "feed", "duplicates", "venue_feed_duplicate_messages_total", "Messages dropped because they had arrived before."
    ),
    _counter("feed", "gaps", "venue_feed_gaps_total", "Holes found in the sequence numbers."),
    _counter(
        "feed", "recovered_messages", "venue_feed_recovered_messages_total", "Messages of a gap that arrived after all."
    ),
    _counter(
        "feed", "missing_messages", "venue_feed_missing_messages_total", "Messages of a gap that are lost for good."
    ),
    _counter("feed", "requests_sent", "venue_feed_requests_total", "Requests for retransmission sent."),
    _counter(
        "feed",
        "packets_held",
        "venue_feed_held_packets_total",
        "Packets that arrived ahead of a gap and were held back.",
    ),
    _counter(
        "feed",
        "kernel_drops",
        "venue_feed_kernel_drops_total",
        "Datagrams that the kernel dropped because the socket's buffer was full.",
    ),
    _counter("feed", "heartbeats", "venue_feed_heartbeats_total", "MoldUDP64 heartbeats received."),
    _counter("feed", "sessions_started", "venue_feed_sessions_total", "MoldUDP64 sessions that began."),
    Metric(
        "counter",
        "venue_feed_line_packets_total",
        "Packets by the line they came on.",
        lines("line_packets"),
        ("line",),
    ),
    Metric(
        "counter",
        "venue_feed_line_first_arrivals_total",
        "Packets that this line brought before the other one.",
        lines("line_first_arrivals"),
        ("line",),
    ),
    _gauge(
        "feed",
        "receive_buffer_bytes",
        "venue_feed_receive_buffer_bytes",
        "Size of the receive buffer that the kernel granted.",
    ),
    _gauge("feed", "next_sequence", "venue_feed_next_sequence", "The sequence number expected next."),
    _gauge(
        "feed",
        "session_open",
        "venue_feed_session_open",
        "1 from the first packet of a MoldUDP64 session to its end of session, else 0.",
    ),
    _gauge(
        "feed",
        "lag_ns",
        "venue_feed_lag_seconds",
        "How much further behind the clock the feed is than it has been at best in this session.",
        NS_A_SECOND,
    ),
    Metric(
        "gauge",
        "venue_feed_time_of_day_seconds",
        "Market time of the last feed message, in seconds since midnight; absent before the first.",
        time_of_day("matcher", "last_feed_time_ns"),
    ),
)

GATEWAY: Final = (
    _gauge(
        "gateway", "connections_open", "venue_gateway_open_connections", "TCP connections open now, logged in or not."
    ),
    _gauge("gateway", "sessions", "venue_gateway_sessions", "Clients logged in now."),
    _counter("gateway", "connections_total", "venue_gateway_connections_total", "TCP connections taken."),
    Metric(
        "counter",
        "venue_gateway_logins_total",
        "Logins by result.",
        one_field_each(
            "gateway",
            {
                "accepted": "logins_accepted",
                "not_authorized": "logins_rejected_not_authorized",
                "no_session": "logins_rejected_no_session",
            },
        ),
        ("result",),
    ),
    Metric(
        "counter",
        "venue_gateway_disconnects_total",
        "Connections that the venue closed, by reason.",
        one_field_each(
            "gateway",
            {
                "takeover": "takeovers",
                "protocol_error": "protocol_errors",
                "slow_client": "slow_client_cuts",
                "silence": "silence_cuts",
                "login_timeout": "login_timeouts",
            },
        ),
        ("reason",),
    ),
    _counter("gateway", "bytes_in", "venue_gateway_received_bytes_total", "Bytes read from clients."),
    _counter("gateway", "bytes_out", "venue_gateway_sent_bytes_total", "Bytes written to clients."),
    Metric(
        "counter",
        "venue_gateway_messages_received_total",
        "OUCH messages from clients, by type.",
        by_code("gateway", "messages_in", OUCH_INBOUND_TYPES),
        ("type",),
    ),
    Metric(
        "counter",
        "venue_gateway_messages_sent_total",
        "OUCH messages to clients, by type.",
        by_code("gateway", "messages_out", OUCH_OUTBOUND_TYPES),
        ("type",),
    ),
    _gauge(
        "gateway",
        "send_buffer_bytes",
        "venue_gateway_send_buffer_bytes",
        "Bytes that clients have not taken yet, over all connections.",
    ),
    _gauge(
        "gateway",
        "store_bytes",
        "venue_session_store_bytes",
        "Bytes of outbound messages kept for clients that come back.",
    ),
    _counter("gateway", "store_full", "venue_session_store_full_total", "Messages that found no room in this store."),
)

ACCOUNTS: Final = (
    Metric(
        "gauge",
        "venue_account_logged_in",
        "1 while the account has a session.",
        by_account("accounts", "logged_in"),
        ("account",),
    ),
    Metric(
        "gauge",
        "venue_account_unsent_bytes",
        "Bytes that the account's client has not taken yet.",
        by_account("accounts", "unsent_bytes"),
        ("account",),
    ),
    Metric(
        "counter",
        "venue_account_sent_messages_total",
        "Messages in the account's stream, read by its client or not.",
        by_account("accounts", "sequence"),
        ("account",),
    ),
    Metric(
        "counter",
        "venue_account_received_messages_total",
        "OUCH messages from the account's clients.",
        by_account("accounts", "messages_in"),
        ("account",),
    ),
    Metric(
        "gauge",
        "venue_account_open_orders",
        "The account's orders in the books.",
        by_account("exposures", "open_orders"),
        ("account",),
    ),
    Metric(
        "gauge",
        "venue_account_open_shares",
        "Shares of these orders, both sides added.",
        by_account("exposures", "open_shares"),
        ("account",),
    ),
    Metric(
        "gauge",
        "venue_account_open_notional_dollars",
        "Price times shares of these orders, in USD.",
        by_account("exposures", "open_notional", TICKS_A_DOLLAR),
        ("account",),
    ),
)

METRICS: Final = STATE + ORDERS + MATCHER + BOOKS + FEED + GATEWAY + ACCOUNTS
