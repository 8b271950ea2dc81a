"""The naive exchange: what `venue` does, with lists and dicts, so plain that one can see that it is right.

Nothing is indexed and nothing is kept up to date: the best order is found by looking at all of them, exposure by
adding up what is open. It reads as the specification of the product: reference_recorded.py is what a feed does to a
book, reference_orders.py what orders do, reference_checks.py what an order has to pass.
"""

from collections.abc import Callable

from commands import Command
from exchange import Event
from reference_orders import Orders
from reference_recorded import RecordedFlow
from venue.engine import records as r


class Reference(RecordedFlow, Orders):
    """Handles one command at a time; see exchange.Exchange for what each method answers."""

    def send(self, command: Command) -> list[Event]:
        self.command, self.events = command, []
        if command.kind not in _NAMES_NO_INSTRUMENT and command.instrument >= len(self.books):
            return []
        _HANDLERS[command.kind](self, command)
        return self.events


_HANDLERS: dict[int, Callable[[Reference, Command], None]] = {
    r.ADD: Reference.add,
    r.EXECUTE: Reference.execute,
    r.EXECUTE_AT_PRICE: Reference.execute,
    r.REDUCE: Reference.reduce,
    r.DELETE: Reference.delete,
    r.REPLACE_RECORDED: Reference.replace_recorded,
    r.TRADE: Reference.trade,
    r.CROSS: Reference.cross,
    r.TRADING_STATE: Reference.trading_state,
    r.FEED_EVENT: Reference.feed_event,
    r.FEED_LOSS: Reference.feed_loss,
    r.FEED_RESET: Reference.feed_reset,
    r.ENTER: Reference.enter,
    r.REPLACE: Reference.replace,
    r.CANCEL: Reference.cancel,
    r.MODIFY: Reference.modify,
    r.QUERY: Reference.query,
    r.CANCEL_ALL: Reference.cancel_all,
    r.SET_KILL_SWITCH: Reference.set_kill_switch,
    r.DAY_EVENT: Reference.day_event,
}

_NAMES_NO_INSTRUMENT = _HANDLERS.keys() - {r.ADD, r.TRADE, r.CROSS, r.TRADING_STATE}
"""Kinds to which the instrument of the command does not matter, or that judge it themselves."""
