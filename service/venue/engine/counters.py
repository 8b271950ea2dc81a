"""What is counted: one dtype for each writer, all of it int64, in the order in which it lies in the counters page.

Every section has one writer: the thread named beside it. It adds with plain stores; readers in other processes copy
the page whenever they like. Counters only grow; gauges (marked so) are set. Each field is exported as a metric, and
its meaning in words is the help text in :mod:`venue.telemetry.metrics`.

A kernel writes ``matcher[0]["fills"] += 1`` or ``matcher[0]["orders_rejected"][reason] += 1``, which also works
without compilation.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from venue.engine import records

REASONS: Final = 64
"""The room for OUCH reject reasons, which go up to 0x33; a code beyond counts in the last place."""
MESSAGE_TYPES: Final = 256
LINES: Final = 2
ACCOUNTS: Final = 64
"""How many accounts the page has room for, in the order of the configuration."""
SHARDS: Final = 16
"""How many matching threads there can be."""
NAME_BYTES: Final = 8
PEER_BYTES: Final = 64

I8 = np.int64

MATCHER: Final = np.dtype(
    [
        ("commands", I8),
        ("events", I8),  # of this thread; of several, all answer a Query, and one answer passes
        ("trades", I8),  # of clients and recorded: the number of the last one on the tape
        ("fills", I8),  # trades with at least one client order in them
        ("filled_shares", I8),
        ("filled_notional", I8),  # ticks of 1/10,000 USD times shares
        ("orders_accepted", I8),
        ("orders_replaced", I8),
        ("orders_canceled", I8),
        ("orders_modified", I8),
        ("orders_rejected", I8, (REASONS,)),  # by OUCH reject reason
        ("ignored_duplicates", I8),  # Enter with a UserRefNum at or below the last one
        ("ignored_stale", I8),  # Replace, Cancel, Modify of an order that is unknown or no longer live
        ("self_matches_prevented", I8),
        ("divergence_shares", I8),
        ("divergence_events", I8),
        ("unknown_references", I8),
        ("duplicate_references", I8),
        ("over_executions", I8),
        ("out_of_order_executions", I8),
        ("capacity_rejects", I8),
        ("event_ring_full", I8),  # waits for room
        ("parks", I8),
        ("incomplete_books", I8),  # gauge
        ("live_orders", I8),  # gauge: recorded and own
        ("live_own_orders", I8),  # gauge
        ("live_levels", I8),  # gauge
        ("orders_high_water", I8),  # gauge
        ("levels_high_water", I8),  # gauge
        ("order_capacity", I8),  # gauge
        ("level_capacity", I8),  # gauge
        ("command_ring_depth", I8),  # gauge: seen at the last wake-up
        ("command_ring_high_water", I8),  # gauge
        ("command_ring_capacity", I8),  # gauge
        ("event_ring_capacity", I8),  # gauge
        ("last_command_time_ns", I8),  # gauge: market time, ns since midnight
        ("last_feed_time_ns", I8),  # gauge: market time, ns since midnight
    ],
    align=True,
)
"""Written by a matching thread; each has a section of its own."""

FEED: Final = np.dtype(
    [
        ("datagrams", I8),
        ("bytes", I8),
        ("messages", I8, (MESSAGE_TYPES,)),  # by ITCH message type
        ("packets_malformed", I8),
        ("messages_malformed", I8),  # a length that is not that of its type
        ("unknown_types", I8),
        ("duplicates", I8),  # messages seen before
        ("gaps", I8),
        ("missing_messages", I8),  # lost for good
        ("recovered_messages", I8),
        ("requests_sent", I8),
        ("kernel_drops", I8),  # datagrams
        ("sessions_started", I8),
        ("heartbeats", I8),
        ("packets_held", I8),  # arrived ahead of a gap
        ("line_packets", I8, (LINES,)),
        ("line_first_arrivals", I8, (LINES,)),
        ("command_ring_full", I8),  # pauses of reading
        ("receive_buffer_bytes", I8),  # gauge: size of the socket's buffer
        ("next_sequence", I8),  # gauge
        ("session_open", I8),  # gauge: 1 or 0
        ("lag_ns", I8),  # gauge: how much further behind the clock than at best in this session
    ],
    align=True,
)
"""Written by the loop thread."""

GATEWAY: Final = np.dtype(
    [
        ("connections_total", I8),
        ("logins_accepted", I8),
        ("logins_rejected_not_authorized", I8),  # SoupBinTCP reason A
        ("logins_rejected_no_session", I8),  # SoupBinTCP reason S
        ("takeovers", I8),
        ("protocol_errors", I8),
        ("slow_client_cuts", I8),
        ("silence_cuts", I8),
        ("login_timeouts", I8),
        ("bytes_in", I8),
        ("bytes_out", I8),
        ("messages_in", I8, (MESSAGE_TYPES,)),  # by OUCH message type
        ("messages_out", I8, (MESSAGE_TYPES,)),  # by OUCH message type
        ("command_ring_full", I8),  # pauses of reading
        ("store_full", I8),  # messages that found no room in the session store
        ("connections_open", I8),  # gauge
        ("sessions", I8),  # gauge: logged in
        ("send_buffer_bytes", I8),  # gauge: not yet taken by the kernel, over all clients
        ("store_bytes", I8),  # gauge
        ("intake_ring_depth", I8),  # gauge: commands that the router of several matching threads holds back
    ],
    align=True,
)
"""Written by the loop thread."""

ACCOUNT: Final = np.dtype(
    [
        ("name", f"S{NAME_BYTES}"),  # empty: no account in this row or in any later one
        ("logged_in", I8),  # gauge: 1 or 0
        ("unsent_bytes", I8),  # gauge
        ("sequence", I8),  # the number of the last message in its stream
        ("messages_in", I8),
        ("connected_at_ns", I8),  # gauge: wall clock, ns since 1970; 0 = not connected
        ("peer", f"S{PEER_BYTES}"),  # its address and port; empty = not connected
    ],
    align=True,
)
"""What the loop thread knows of an account; names are written once, from the configuration."""

EXPOSURE: Final = records.ACCOUNT
"""What a matching thread knows of an account, in the same row of a table of its own: its limits and its state."""

ORDER_TO_ACK: Final = 0
SOCKET_TO_RING: Final = 1
RING_WAIT: Final = 2
MATCH: Final = 3
RING_BACK: Final = 4
ENCODE_WRITE: Final = 5
FEED_DATAGRAM_TO_BOOK: Final = 6
HISTOGRAMS: Final = 7
"""How many histograms a section holds. Each row has the one thread that records into it:

RING_WAIT, MATCH and FEED_DATAGRAM_TO_BOOK the matching thread whose section it is, the others the loop thread, in the
first section only.
"""

STAGES: Final = {
    "socket_to_ring": SOCKET_TO_RING,
    "ring_wait": RING_WAIT,
    "match": MATCH,
    "ring_back": RING_BACK,
    "encode_write": ENCODE_WRITE,
}
"""The parts of order-to-ack by the names that people see, in the order in which an order passes them."""
