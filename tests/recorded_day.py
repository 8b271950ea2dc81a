"""Messages of a recorded day, for stories about it: one stock, at 09:30."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from capture_files import OPEN_NS, binary_file
from venue.wire import itch

LOCATE = 7
_HEAD: dict[str, Any] = {"stock_locate": LOCATE, "tracking_number": 0, "timestamp": OPEN_NS}


def added(reference: int, side: str, shares: int, price: int, stock: str = "AAPL") -> itch.AddOrder:
    return itch.AddOrder(
        **_HEAD, order_reference_number=reference, buy_sell_indicator=side, shares=shares, stock=stock, price=price
    )


def executed(reference: int, shares: int, match: int = 1) -> itch.OrderExecuted:
    return itch.OrderExecuted(**_HEAD, order_reference_number=reference, executed_shares=shares, match_number=match)


def replaced(original: int, reference: int, shares: int, price: int) -> itch.OrderReplace:
    return itch.OrderReplace(
        **_HEAD,
        original_order_reference_number=original,
        new_order_reference_number=reference,
        shares=shares,
        price=price,
    )


def deleted(reference: int) -> itch.OrderDelete:
    return itch.OrderDelete(**_HEAD, order_reference_number=reference)


def halted(state: str, stock: str = "AAPL") -> itch.StockTradingAction:
    return itch.StockTradingAction(**_HEAD, stock=stock, trading_state=state, reserved="", reason="")


def write(path: Path, messages: Iterable[itch.ItchMessage]) -> Path:
    """A BinaryFILE of them."""
    path.write_bytes(binary_file(message.encode() for message in messages))
    return path
