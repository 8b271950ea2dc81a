"""Commands to an exchange under test, in the words of a trader; every field of the record has a default."""

from typing import NamedTuple

from venue.engine import records as r

OPEN_NS = 34_200_000_000_000
"""09:30, when every story begins."""
INGRESS_NS = 777
"""When the bytes of an order came in, unless the story says otherwise."""

DAY, IOC, EXTENDED = "0", "3", "5"
MARKET = 0x7FFFFFFF


class Command(NamedTuple):
    """One COMMAND record: the same fields in the same order."""

    time_ns: int = OPEN_NS
    ingress_ns: int = 0
    price: int = 0
    word0: int = 0
    word1: int = 0
    quantity: int = 0
    user_ref: int = 0
    extra: int = 0
    instrument: int = 0
    account: int = 0
    kind: int = 0
    side: int = 0
    tif: int = 0
    display: int = 0
    capacity: int = 0
    iso: int = 0
    cross: int = 0
    detail: int = 0


assert Command._fields == r.COMMAND.names


# --- recorded flow ------------------------------------------------------------------------------------------------


def add(ref: int, side: str, quantity: int, price: int, *, instrument: int = 0, time_ns: int = OPEN_NS) -> Command:
    return Command(time_ns, 0, price, ref, quantity=quantity, instrument=instrument, kind=r.ADD, side=ord(side))


def execute(ref: int, quantity: int, *, price: int | None = None, instrument: int = 0) -> Command:
    kind = r.EXECUTE if price is None else r.EXECUTE_AT_PRICE
    return Command(price=price or 0, word0=ref, quantity=quantity, instrument=instrument, kind=kind)


def reduce(ref: int, quantity: int, *, instrument: int = 0) -> Command:
    return Command(word0=ref, quantity=quantity, instrument=instrument, kind=r.REDUCE)


def delete(ref: int, *, instrument: int = 0) -> Command:
    return Command(word0=ref, instrument=instrument, kind=r.DELETE)


def replace_recorded(old: int, new: int, quantity: int, price: int, *, instrument: int = 0) -> Command:
    return Command(price=price, word0=old, word1=new, quantity=quantity, instrument=instrument, kind=r.REPLACE_RECORDED)


def hidden_trade(quantity: int, price: int, *, instrument: int = 0) -> Command:
    return Command(price=price, quantity=quantity, instrument=instrument, kind=r.TRADE, side=ord("B"))


def crossed(price: int, *, quantity: int = 0, instrument: int = 0) -> Command:
    return Command(price=price, quantity=quantity, instrument=instrument, kind=r.CROSS)


def trading_state(state: str, *, instrument: int = 0) -> Command:
    return Command(instrument=instrument, kind=r.TRADING_STATE, detail=ord(state))


def feed_loss() -> Command:
    return Command(kind=r.FEED_LOSS)


def feed_reset() -> Command:
    return Command(kind=r.FEED_RESET)


# --- orders -------------------------------------------------------------------------------------------------------


def enter(
    user_ref: int,
    side: str,
    quantity: int,
    price: int,
    *,
    account: int = 0,
    instrument: int = 0,
    tif: str = DAY,
    minimum: int = 0,
    display: str = "Y",
    capacity: str = "O",
    iso: str = "N",
    cross: str = "N",
    detail: int = 0,
    time_ns: int = OPEN_NS,
    words: tuple[int, int] = (0, 0),
) -> Command:
    return Command(
        time_ns,
        INGRESS_NS,
        price,
        *words,
        quantity=quantity,
        user_ref=user_ref,
        extra=minimum,
        instrument=instrument,
        account=account,
        kind=r.ENTER,
        side=ord(side),
        tif=ord(tif),
        display=ord(display),
        capacity=ord(capacity),
        iso=ord(iso),
        cross=ord(cross),
        detail=detail,
    )


def replace(
    original: int,
    user_ref: int,
    quantity: int,
    price: int,
    *,
    account: int = 0,
    side: str = "",
    tif: str = DAY,
    display: str = "Y",
    iso: str = "N",
    detail: int = 0,
    time_ns: int = OPEN_NS,
    words: tuple[int, int] = (0, 0),
) -> Command:
    return Command(
        time_ns,
        INGRESS_NS,
        price,
        *words,
        quantity=quantity,
        user_ref=user_ref,
        extra=original,
        account=account,
        kind=r.REPLACE,
        side=ord(side) if side else 0,
        tif=ord(tif),
        display=ord(display),
        iso=ord(iso),
        detail=detail,
    )


def cancel(user_ref: int, quantity: int = 0, *, account: int = 0, time_ns: int = OPEN_NS) -> Command:
    return Command(time_ns, INGRESS_NS, quantity=quantity, user_ref=user_ref, account=account, kind=r.CANCEL)


def modify(user_ref: int, side: str, quantity: int, *, account: int = 0) -> Command:
    return Command(
        ingress_ns=INGRESS_NS,
        quantity=quantity,
        user_ref=user_ref,
        account=account,
        kind=r.MODIFY,
        side=ord(side),
    )


def query(*, account: int = 0) -> Command:
    return Command(ingress_ns=INGRESS_NS, account=account, kind=r.QUERY)


def cancel_all(reason: str, *, account: int = 0) -> Command:
    return Command(account=account, kind=r.CANCEL_ALL, detail=ord(reason))


def kill_switch(on: bool, *, account: int = 0) -> Command:
    return Command(account=account, kind=r.SET_KILL_SWITCH, detail=int(on))


def day_event(code: str, *, account: int = 0) -> Command:
    return Command(account=account, kind=r.DAY_EVENT, detail=ord(code))
