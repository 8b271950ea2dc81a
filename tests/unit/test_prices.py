"""Prices as people write them."""

from __future__ import annotations

import pytest

from venue_clients.prices import PriceError, dollars, ticks


@pytest.mark.parametrize(
    ("text", "value"), [("189.50", 1_895_000), ("0.0001", 1), ("199999.99", 1_999_999_900), (" 7 ", 70_000)]
)
def test_prices_are_exact(text: str, value: int) -> None:
    assert ticks(text) == value
    assert ticks(dollars(value)) == value


@pytest.mark.parametrize(
    "text",
    ["", "x", "1.00001", "0", "-1", "nan", "inf", "1e9", "1e2", "١٢", "1_0", "+5", ".", "9" * 99, "200000", "1,5"],
)
def test_what_is_no_price_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(PriceError) as error:
        ticks(text)
    assert "\n" not in str(error.value)
