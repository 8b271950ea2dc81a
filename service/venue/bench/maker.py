"""A market maker in compiled code, one for each stock, and the simulated exchange that it trades on.

On each change of its stock's touch, of a best price or of the shares there, a maker decides where to quote. It joins
the best bid and ask with one order a side, backs off by a cent where few shares stand against many on the other side
and for every few lots that it holds, and stops buying (selling) when it is long (short) enough. Its orders are commands
like those of any client: they pass the risk checks of :mod:`venue.engine.risk` and the order code of
:mod:`venue.engine.orders` into books that hold the makers' orders alone. A trade in the market comes to these books as
a recorded trade, in which the makers' orders at that price or better have their part. What a maker knows of its orders
it knows from their events.

Each maker has an account of its own, so that what one stock's maker does depends on nothing but its stock's messages.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from venue.engine import books, events, orders, recorded, ring
from venue.engine.books import Books
from venue.engine.events import PENDING, Outbox
from venue.engine.kernel import part, verb
from venue.engine.records import (
    ACCEPTED,
    ACCOUNT,
    BUY,
    CANCEL,
    CANCEL_NEWEST,
    CANCELED,
    COMMAND,
    ENTER,
    EVENT,
    EXECUTE,
    EXECUTE_AT_PRICE,
    EXECUTED,
    MATCH,
    REJECTED,
    REPLACE,
    REPLACED,
    SELL,
    TRADE,
    Array,
    aligned,
)

LOT: Final = 100
CENT: Final = 100  # ticks
HEAVY: Final = 4
"""A side is heavy with so many times the shares of the other one, which is then expected to give way."""
LOTS_A_CENT: Final = 4
"""A maker that is long so many lots bids one cent below the market, and so on."""
MOST_LOTS: Final = 16
"""Beyond that it does not buy (or sell) any more."""

UPDATE: Final = np.dtype(
    [
        ("time_ns", "<i8"),
        ("price", "<i8"),  # of a trade
        ("quantity", "<i8"),
        ("bid", "<i8"),  # ticks, the best of the market after the message; 0 = nobody bids
        ("ask", "<i8"),
        ("bid_shares", "<i8"),
        ("ask_shares", "<i8"),
        ("instrument", "<i4"),
        ("kind", "<i4"),  # of the command that the message was; 0 = no more messages
    ]
)
"""What the books say of one market data message, one cache line."""

QUOTE: Final = np.dtype(
    [
        ("user_ref", "<i8"),  # of the live order; 0 = none
        ("price", "<i8"),
        ("spent", "<i8"),  # shares of its chain of replaces that are executed
        ("_", "<i8"),
    ]
)
MAKER: Final = np.dtype(
    [
        ("bid", "<i8"),  # the market as last seen
        ("ask", "<i8"),
        ("bid_shares", "<i8"),
        ("ask_shares", "<i8"),
        ("last_user_ref", "<i8"),
        ("position", "<i8"),
        ("updates", "<i8"),  # what it counts from here on
        ("entered", "<i8"),
        ("replaced", "<i8"),
        ("canceled", "<i8"),
        ("rejected", "<i8"),
        ("fills", "<i8"),
        ("filled_shares", "<i8"),
        ("digest", "<i8"),  # over all that it heard, in its order
        ("decisions", "<i8"),
        ("_", "<i8"),
    ]
)
assert UPDATE.itemsize == 64
assert MAKER.itemsize == 128

DIGEST_BITS: Final = 0x7FFFFFFF
DIGEST_FACTOR: Final = 0x9E3779B1


class Exchange(NamedTuple):
    """The makers and the exchange that they trade on; all of it belongs to one thread."""

    books: Books
    out: Outbox
    makers: Array  # [instruments] MAKER
    quotes: Array  # [2 * instruments] QUOTE: bid, ask
    command: Array  # [1] COMMAND: the order at hand


def create(instruments: int) -> Exchange:
    """An exchange without orders. Every limit of the makers' accounts is set, and wide enough for what they do."""
    accounts = aligned(instruments, ACCOUNT)
    accounts["max_order_quantity"] = 1_000 * LOT
    accounts["max_order_notional"] = 10**12
    accounts["collar_bp"] = 1_000
    accounts["max_open_orders"] = 8
    accounts["max_long"] = accounts["max_short"] = 10 * MOST_LOTS * LOT
    accounts["max_orders_per_s"] = 1_000_000
    accounts["self_match"] = CANCEL_NEWEST
    b = books.create(instruments=instruments, accounts=accounts, orders=64, levels=64, user_refs=1 << 10, mode=MATCH)
    command = aligned(1, COMMAND)
    for name, value in {"tif": "0", "display": "Y", "capacity": "P", "iso": "N", "cross": "N"}.items():
        command[name] = ord(value)
    out = events.create_outbox(ring.create(64, EVENT))
    return Exchange(b, out, aligned(instruments, MAKER), aligned(2 * instruments, QUOTE), command)


# --- orders out ---------------------------------------------------------------------------------------------------


@part
def send(x: Exchange, instrument: int, side: int, price: int, time_ns: int) -> None:
    """Move one side of a maker's quote to ``price`` (0 = none) by an Enter, a Replace or a Cancel; hear the answer."""
    maker = x.makers[instrument]
    quote = x.quotes[2 * instrument + side]
    live = int(quote["user_ref"])
    command = x.command[0]
    command["time_ns"] = time_ns
    command["instrument"] = instrument
    command["account"] = instrument
    command["side"] = ord("B") if side == BUY else ord("S")
    if price == 0:
        command["kind"] = CANCEL
        command["user_ref"] = live
        command["quantity"] = 0
        maker["canceled"] += 1
        orders.cancel(x.books, x.out, command)
    else:
        maker["last_user_ref"] += 1
        command["user_ref"] = maker["last_user_ref"]
        command["price"] = price
        command["quantity"] = LOT + int(quote["spent"])
        command["extra"] = live
        if live == 0:
            command["kind"] = ENTER
            maker["entered"] += 1
            orders.enter(x.books, x.out, command)
        else:
            command["kind"] = REPLACE
            maker["replaced"] += 1
            orders.replace(x.books, x.out, command)
    hear(x, instrument)


@verb
def hear(x: Exchange, instrument: int) -> None:
    """Take in what the exchange has to say, all of it to the maker of one stock."""
    maker = x.makers[instrument]
    digest = int(maker["digest"])
    for i in range(int(x.out.state[PENDING])):
        event = x.out.events.records[ring.write_position(x.out.events, i)]
        kind = int(event["kind"])
        user_ref = int(event["user_ref"])
        if kind in (ACCEPTED, REPLACED):
            quote = x.quotes[2 * instrument + (BUY if int(event["side"]) == ord("B") else SELL)]
            quote["user_ref"] = user_ref
            quote["price"] = event["price"]
        elif kind == EXECUTED:
            side = BUY if int(x.quotes[2 * instrument]["user_ref"]) == user_ref else SELL
            executed(x, instrument, side, int(event["quantity"]), int(event["leaves"]))
        elif kind == CANCELED:
            side = BUY if int(x.quotes[2 * instrument]["user_ref"]) == user_ref else SELL
            gone(x.quotes[2 * instrument + side])
        elif kind == REJECTED:
            maker["rejected"] += 1
        heard = (int(event["price"]) << 20) ^ (int(event["quantity"]) << 8) ^ kind
        digest = ((digest ^ user_ref) & DIGEST_BITS) * DIGEST_FACTOR
        digest = ((digest >> 16) ^ heard) & DIGEST_BITS
    maker["digest"] = digest
    x.out.state[PENDING] = 0


@verb
def executed(x: Exchange, instrument: int, side: int, shares: int, leaves: int) -> None:
    """Shares of a quote have traded."""
    maker = x.makers[instrument]
    quote = x.quotes[2 * instrument + side]
    maker["fills"] += 1
    maker["filled_shares"] += shares
    if side == BUY:
        maker["position"] += shares
    else:
        maker["position"] -= shares  # not += -shares: a field of 32 bits without sign would wrap around
    quote["spent"] += shares
    if leaves == 0:
        gone(quote)


@verb
def gone(quote: Array) -> None:
    """A quote has no live order any more."""
    quote["user_ref"] = 0
    quote["price"] = 0
    quote["spent"] = 0


# --- market data in -----------------------------------------------------------------------------------------------


@verb
def wanted(market: int, lots: int, pressed: bool, away: int) -> int:
    """Where to quote a side; ``lots`` is how far the position goes that way already, ``away`` a cent outwards."""
    if market == 0 or lots >= MOST_LOTS:
        return 0
    cents = max(lots, 0) // LOTS_A_CENT
    if pressed:
        cents += 1
    return max(market + away * cents, CENT)


@verb
def decide(x: Exchange, instrument: int, time_ns: int) -> None:
    """Quote where the market is now. The side that the other one would run into moves first."""
    maker = x.makers[instrument]
    maker["decisions"] += 1
    lots = int(maker["position"]) // LOT
    bid_shares = int(maker["bid_shares"])
    ask_shares = int(maker["ask_shares"])
    bid = wanted(int(maker["bid"]), lots, HEAVY * bid_shares <= ask_shares, -CENT)
    ask = wanted(int(maker["ask"]), -lots, HEAVY * ask_shares <= bid_shares, CENT)
    first = SELL if bid > int(x.quotes[2 * instrument]["price"]) else BUY
    for turn in range(2):
        side = first if turn == 0 else 1 - first
        price = bid if side == BUY else ask
        if price != int(x.quotes[2 * instrument + side]["price"]):
            send(x, instrument, side, price, time_ns)


@verb
def touch_moved(maker: Array, update: Array) -> bool:
    """Whether the best prices or the shares there are others than before; remembers them."""
    same = (
        int(update["bid"]) == int(maker["bid"])
        and int(update["ask"]) == int(maker["ask"])
        and int(update["bid_shares"]) == int(maker["bid_shares"])
        and int(update["ask_shares"]) == int(maker["ask_shares"])
    )
    if same:
        return False
    maker["bid"] = update["bid"]
    maker["ask"] = update["ask"]
    maker["bid_shares"] = update["bid_shares"]
    maker["ask_shares"] = update["ask_shares"]
    return True


@verb
def react(x: Exchange, update: Array) -> None:
    """One update of the market: its trade may fill quotes, and a new touch or a fill may move them."""
    instrument = int(update["instrument"])
    maker = x.makers[instrument]
    maker["updates"] += 1
    fills = int(maker["fills"])
    kind = int(update["kind"])
    if kind in (EXECUTE, EXECUTE_AT_PRICE, TRADE):
        recorded.hidden_trade(x.books, x.out, update)
        hear(x, instrument)
    if touch_moved(maker, update) or fills != int(maker["fills"]):
        decide(x, instrument, int(update["time_ns"]))
