"""One screen on latency: how long orders take, how that spreads, and where the time goes."""

from __future__ import annotations

from typing import Final

from grafana_foundation_sdk.builders.dashboard import Dashboard

from panels import NO_TRAFFIC, Limits, Panel, Series, figure, heat, over_time, page, rows

UID: Final = "venue-latency"
TITLE: Final = "venue: latency"

STAGES: Final = ("socket_to_ring", "ring_wait", "match", "ring_back", "encode_write")
"""In the order in which an order passes them."""
PERCENTILES: Final = {"0.5": "p50", "0.9": "p90", "0.99": "p99", "0.999": "p99.9"}

CLIENT_ACK: Final = "venue_account_order_to_ack_recent_seconds"
RECENT: Final = "Over the last 10 s, exact to 1/32."
P99_LIMITS: Final = Limits(attention=0.001, bad=0.01)


def recent(metric: str, quantile: str) -> str:
    return f'{metric}{{quantile="{quantile}"}}'


def percentiles(metric: str) -> list[Series]:
    """From the median to the maximum, which is not to be missed between two points of a long range."""
    lines = [Series(recent(metric, quantile), name) for quantile, name in PERCENTILES.items()]
    return [*lines, Series(f"max_over_time({recent(metric, '1')}[$__rate_interval])", "max")]


def stage_mean(stage: str) -> str:
    spent = f'rate(venue_stage_seconds_sum{{stage="{stage}"}}[$__rate_interval])'
    orders = f'rate(venue_stage_seconds_count{{stage="{stage}"}}[$__rate_interval])'
    return f"{spent} / ({orders} > 0)"


def figures() -> list[Panel]:
    ack = "venue_order_to_ack_recent_seconds"
    percentile_stats = [
        figure(
            f"Order to ack, {name}",
            f"From the read of an order's bytes to the write of its answer. {RECENT}",
            Series(recent(ack, quantile), name),
            unit="s",
            width=4,
            limits=P99_LIMITS,
        )
        for quantile, name in (("0.5", "p50"), ("0.99", "p99"), ("0.999", "p99.9"), ("1", "max"))
    ]
    return [
        figure(
            "Orders answered a second",
            "Order messages that got an answer, a second, over the last minute.",
            Series("venue:orders_answered:rate1m", "orders"),
            unit="short",
            width=4,
        ),
        *percentile_stats,
        figure(
            "Longer than 1 ms",
            "Share of the orders of the last minute that took longer than 1 ms. From 1 % on VenueSlowOrders warns.",
            Series("venue:orders_over_limit:ratio1m", "share"),
            unit="percentunit",
            width=4,
            limits=Limits(attention=0.01, bad=0.1),
        ),
    ]


def all_orders() -> list[Panel]:
    gained = "increase(venue_order_to_ack_seconds_bucket[$__rate_interval])"
    traffic = "sum(increase(venue_order_to_ack_seconds_count[$__rate_interval])) > 0"
    return [
        over_time(
            "Order to ack",
            f"Percentiles from the read of an order's bytes to the write of its answer. {RECENT}",
            *percentiles("venue_order_to_ack_recent_seconds"),
            unit="s",
            size=(12, 8),
            log=True,
        ),
        heat(
            "Order to ack: how many took how long",
            "Orders by latency, ten bounds a decade. A second band is a second kind of order, or somebody who "
            "disturbs.",
            f"sum by (le) ({gained}) and on () ({traffic})",
            unit="s",
            size=(12, 8),
        ),
    ]


def stages() -> list[Panel]:
    return [
        over_time(
            "Where the time goes: mean of each stage",
            "Mean time that orders spent in each stage of their path, stacked: together, the mean of order to ack.",
            *(Series(stage_mean(stage), stage) for stage in STAGES),
            unit="s",
            size=(12, 8),
            stacked=True,
        ),
        over_time(
            "Where the slow ones wait: p99 of each stage",
            f"The slowest hundredth of each stage; not the same orders, so they do not add up. {RECENT}",
            *(Series(f'venue_stage_recent_seconds{{stage="{stage}", quantile="0.99"}}', stage) for stage in STAGES),
            unit="s",
            size=(12, 8),
            log=True,
        ),
    ]


def feed() -> list[Panel]:
    return [
        over_time(
            "Feed to book",
            f"From the read of a datagram to its last message's place in the book. {RECENT}",
            *percentiles("venue_feed_to_book_recent_seconds"),
            unit="s",
            size=(6, 7),
            log=True,
        ),
    ]


def clients() -> list[Panel]:
    return [
        over_time(
            "Order to ack by client, p99",
            f"The slowest hundredth of each client's own orders. {RECENT}",
            Series(recent(CLIENT_ACK, "0.99"), "{{account}}"),
            unit="s",
            size=(6, 7),
            log=True,
            shades=True,
        ),
        rows(
            "Order to ack by client, now",
            f"Each client that had an order answered. {RECENT}",
            "account",
            *(
                Series(f"max by (account) ({recent(CLIENT_ACK, quantile)})", name, unit="s")
                for quantile, name in (PERCENTILES | {"1": "max"}).items()
            ),
            size=(6, 7),
            no_value=NO_TRAFFIC,
        ),
        over_time(
            "Bytes not yet taken, by client",
            "Answers that wait because a client does not read: its latency then is its own. At "
            "orders.max_unsent_bytes it is cut off.",
            Series("venue_account_unsent_bytes", "{{account}}"),
            unit="bytes",
            size=(6, 7),
            shades=True,
            no_value="no accounts",
        ),
    ]


def build() -> Dashboard:
    board = page(
        UID,
        TITLE,
        "How long orders and market data take on their way through the venue.",
        ("venue-flow", "Flow and health"),
    )
    for panel in [*figures(), *all_orders(), *stages(), *feed(), *clients()]:
        board = board.with_panel(panel)
    return board
