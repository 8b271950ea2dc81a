"""How samples are read from a snapshot of the counters page: label values beside a value in base units.

Labels come from the protocols' tables and from the configuration, never from what a client or a feed sends.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from venue.telemetry.page import State, Views
from venue.wire import itch, ouch

Sample = tuple[tuple[str, ...], float]
"""Label values, and the value."""
Read = Callable[[Views], Iterable[Sample]]

TICKS_A_DOLLAR: Final = 10_000
NS_A_SECOND: Final = 1_000_000_000
OTHER_CODES: Final = "other_codes"
"""The label of codes without a name; a reject reason is called ``other`` already."""


def _snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def _type_names(messages: Mapping[bytes, type[Any]]) -> dict[int, str]:
    return {code[0]: _snake_case(message.__name__) for code, message in messages.items()}


ITCH_TYPES: Final = _type_names(itch.MESSAGES)
OUCH_INBOUND_TYPES: Final = _type_names(ouch.INBOUND)
OUCH_OUTBOUND_TYPES: Final = _type_names(ouch.OUTBOUND)
REJECT_REASONS: Final = {int(reason): reason.name.lower() for reason in ouch.RejectReason}


def one_field(section: str, field: str, divisor: int = 1) -> Read:
    """One field, one sample."""
    return lambda views: [((), getattr(views, section)[field][0] / divisor)]


def time_of_day(section: str, field: str) -> Read:
    """A time in seconds since midnight; no sample as long as there is none."""
    return lambda views: [((), time_ns / NS_A_SECOND) for time_ns in getattr(views, section)[field].tolist() if time_ns]


def one_field_each(section: str, fields: Mapping[str, str]) -> Read:
    """One sample for each label value, from the field beside it."""
    return lambda views: [((label,), getattr(views, section)[field][0]) for label, field in fields.items()]


def by_code(section: str, field: str, names: Mapping[int, str]) -> Read:
    """One sample for each code that has a name, zero or not; the others together, if there are any."""

    def read(views: Views) -> Iterable[Sample]:
        counts = getattr(views, section)[field][0].tolist()
        for code, name in names.items():
            yield (name,), counts[code]
        if other := sum(counts) - sum(counts[code] for code in names):
            yield (OTHER_CODES,), other

    return read


def by_account(section: str, field: str, divisor: int = 1) -> Read:
    def read(views: Views) -> Iterable[Sample]:
        values = getattr(views, section)[field].tolist()
        return [((name,), value / divisor) for name, value in zip(views.account_names(), values, strict=False)]

    return read


def order_outcomes(views: Views) -> Iterable[Sample]:
    matcher = views.matcher[0]
    for outcome in ("accepted", "replaced", "canceled", "modified"):
        yield (outcome,), matcher[f"orders_{outcome}"]
    yield ("rejected",), matcher["orders_rejected"].sum()
    yield ("ignored_duplicate",), matcher["ignored_duplicates"]
    yield ("ignored_stale",), matcher["ignored_stale"]


def live_orders(views: Views) -> Iterable[Sample]:
    own = views.matcher["live_own_orders"][0]
    return [(("client",), own), (("feed",), views.matcher["live_orders"][0] - own)]


def lines(field: str) -> Read:
    return lambda views: list(zip((("a",), ("b",)), views.feed[field][0].tolist(), strict=True))


def states(views: Views) -> Iterable[Sample]:
    return [((state.name.lower(),), views.state is state) for state in State]
