"""Commands of all kinds for few prices, references and accounts, so that they collide, with nonsense among them.

All chance comes from one function that picks an element of a sequence: hypothesis's choice, which shrinks, or that of
a seeded generator, which goes deep. Numbers of orders are relative to the last one that the account used, and times
to the clock, so that a command still makes sense when others before it are left out: see `resolve`.
"""

from collections.abc import Callable, Sequence
from typing import Any

from commands import DAY, IOC, MARKET, OPEN_NS, Command
from exchange import Limits
from venue.engine import records as r

Pick = Callable[[Sequence[Any]], Any]
"""One element of a sequence; the first is the simplest."""

INSTRUMENTS = 2
ACCOUNTS = 3

RECORDED_KINDS = [r.ADD] * 8 + [r.EXECUTE] * 5 + [r.REPLACE_RECORDED] * 3 + [r.REDUCE] * 2 + [r.DELETE] * 2
RECORDED_KINDS += [
    r.EXECUTE_AT_PRICE,
    r.TRADE,
    r.TRADE,
    r.CROSS,
    r.TRADING_STATE,
    r.TRADING_STATE,
    r.FEED_EVENT,
]
RARE_RECORDED_KINDS = [r.FEED_LOSS, r.FEED_RESET]
ORDER_KINDS = [r.ENTER] * 10 + [r.REPLACE] * 4 + [r.CANCEL] * 3 + [r.MODIFY] * 2 + [r.QUERY]
RARE_ORDER_KINDS = [r.CANCEL_ALL, r.SET_KILL_SWITCH, r.SET_KILL_SWITCH, r.DAY_EVENT]

PRICES = [10_000, 10_100, 10_200, 10_300, 9_999, 9_998]  # both sides of the change of the tick
ODD_RECORDED_PRICES = [10_050, 0, 1, 2**31 - 1]
ODD_ORDER_PRICES = [*r.MARKET_PRICES, 10_050, 0, -1, r.MAX_PRICE, r.MAX_PRICE + 1]
REFERENCES = [1, 2, 3, 4, 5, 6, 7]
ODD_REFERENCES = [0, -1, r.FIRST_OWN_REFERENCE, 2**63 - 1, -(2**63)]
QUANTITIES = [1, 2, 3, 5, 8, 10, 13, 20]

LIMITS: list[Limits] = [
    {},
    {"self_match": r.CANCEL_NEWEST},
    {"self_match": r.CANCEL_OLDEST},
    {"self_match": r.DECREMENT},
    {"collar_bp": 150},
    {"collar_bp": 15_000, "self_match": r.CANCEL_OLDEST, "max_open_orders": 4},
    {"max_order_quantity": 12, "max_long": 25, "max_short": 25},
    {"max_order_notional": 100_000, "max_open_orders": 3, "self_match": r.DECREMENT},
    {"max_orders_per_s": 3, "max_short": 1},
]


def setting(pick: Pick) -> dict[str, Any]:
    """How an exchange is made: mode, limits, room."""
    return {
        "mode": pick([r.CONSUME, r.CONSUME, r.PASSIVE, r.MATCH]),
        "accounts": [pick(LIMITS) for _ in range(ACCOUNTS)],
        "instruments": INSTRUMENTS,
        "orders": pick([1000, 1000, 12, 5]),
    }


def any_command(pick: Pick, recorded: bool = True) -> Command:
    """Any command; without a feed (`recorded` False) only orders and halts."""
    odd = pick([False] * 12 + [True])
    if recorded and pick([True, False]):
        return recorded_command(pick, odd)
    if not recorded and pick([False] * 10 + [True]):
        return recorded_command(pick, False)._replace(kind=r.TRADING_STATE)
    return order_command(pick, odd)


def recorded_command(pick: Pick, odd: bool) -> Command:
    references = REFERENCES + (ODD_REFERENCES if odd else [])
    return Command(
        time_ns=pick([0, 1]),
        price=pick(PRICES + (ODD_RECORDED_PRICES if odd else [])),
        word0=pick(references),
        word1=pick(references),
        quantity=pick(QUANTITIES + ([0, 2**32 - 1] if odd else [])),
        instrument=pick([0, 1] + ([r.NO_INSTRUMENT] if odd else [])),
        kind=pick(RECORDED_KINDS + (RARE_RECORDED_KINDS * 4 if odd else [])),
        side=pick(b"BS"),
        detail=pick(b"TTTHQP"),
    )


def order_command(pick: Pick, odd: bool) -> Command:
    kind = pick(ORDER_KINDS + (RARE_ORDER_KINDS * 4 if odd else []))
    tif = pick([DAY, DAY, DAY, IOC, "5"] + (["6"] if odd else []))
    command = Command(
        time_ns=pick([0, 1, 100_000_000, 400_000_000, -5]),
        ingress_ns=pick([0, 5]),
        price=pick([*PRICES, MARKET] + (ODD_ORDER_PRICES if odd else [])),
        word0=pick([0, -7]),
        word1=pick([0, 9]),
        quantity=pick(QUANTITIES + ([0, r.MAX_QUANTITY, r.MAX_QUANTITY + 1, 2**32 - 1] if odd else [])),
        instrument=pick([0, 1] + ([r.NO_INSTRUMENT] if odd else [])),
        account=pick(range(ACCOUNTS)),
        kind=kind,
        tif=ord(tif),
        display=pick(b"YA" + (b"N" if odd else b"")),
        capacity=pick(b"OPX"),
        iso=pick(b"NY" + (b" " if odd else b"")),
        cross=pick(b"NO" if odd else b"N"),
    )
    if kind == r.ENTER:
        minimum = pick([0, 0, 3, 9]) if tif == IOC or odd else 0
        return command._replace(
            side=pick(b"BSBSTE" + (b"X" if odd else b"")),
            user_ref=pick([1] * 8 + [3, 0, -1]),
            extra=minimum,
            detail=pick([0, 0x0F]) if odd else 0,
        )
    if kind == r.REPLACE:
        sides = pick([b"\0\0BS", b"TEX"]) if odd else b"\0"
        return command._replace(
            side=pick(sides),
            user_ref=pick([1] * 8 + [3, 0]),
            extra=pick(range(6)),
            detail=pick([0, 7]) if odd else 0,
        )
    if kind == r.SET_KILL_SWITCH:
        return command._replace(detail=pick([0, 1]))
    return command._replace(side=pick(b"SBTE"), user_ref=pick(range(6)), detail=ord("E"))


def resolve(command: Command, clock_ns: int, last_user_ref: int) -> Command:
    """The command with its time after `clock_ns`, and its numbers after (or, of orders to find, before) the last."""
    user_ref, extra = command.user_ref, command.extra
    if command.kind in (r.ENTER, r.REPLACE):
        user_ref = max(0, last_user_ref + user_ref)
    elif command.kind in (r.CANCEL, r.MODIFY):
        user_ref = max(0, last_user_ref - user_ref)
    if command.kind == r.REPLACE:
        extra = max(0, last_user_ref - extra)
    return command._replace(time_ns=(clock_ns or OPEN_NS) + command.time_ns, user_ref=user_ref, extra=extra)
