"""Prices as people write them and as the wire holds them: integer ticks of 1/10,000 USD."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

TICKS_A_DOLLAR: Final = 10_000
TICKS_A_CENT: Final = 100
MAX_PRICE: Final = 1_999_999_900
"""OUCH 5.0: the highest limit price, 199,999.9900."""
MARKET_PRICE: Final = 2_000_000_000
"""OUCH 5.0, Enter Order: 200,000.0000 means "at market"."""
_DOLLARS: Final = re.compile(r"-?([0-9]{1,20}\.?[0-9]{0,20}|\.[0-9]{1,20})")


class PriceError(ValueError):
    """Text that is no price; one line."""


def ticks(text: str) -> int:
    """A price in dollars, such as `189.50`, in ticks; exact. PriceError for what no limit order can have."""
    if _DOLLARS.fullmatch(text.strip()) is None:
        raise PriceError(f"{text!r} is no price in dollars, such as 189.50")
    price = Decimal(text.strip()) * TICKS_A_DOLLAR
    value = int(price)
    if price != value:
        raise PriceError(f"{text} has more than four decimals")
    if not 0 < value <= MAX_PRICE:
        raise PriceError(f"a price is above 0 and at most 199999.99, not {text}")
    return value


def dollars(price_ticks: int) -> str:
    """`189.50`, or all four decimals where two do not tell."""
    sign, price_ticks = ("-", -price_ticks) if price_ticks < 0 else ("", price_ticks)
    whole, rest = divmod(price_ticks, TICKS_A_DOLLAR)
    return f"{sign}{whole}.{rest:04d}" if rest % TICKS_A_CENT else f"{sign}{whole}.{rest // TICKS_A_CENT:02d}"
