"""How much hypothesis tries, and the exchanges that stories are told to."""

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from exchange import EXCHANGES, Exchange, NewExchange, new_exchange
from venue.engine import records as r

_COMMON: dict[str, Any] = {
    "deadline": None,  # the first example may compile kernels
    "derandomize": True,
    "print_blob": True,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large],
}
settings.register_profile("default", max_examples=150, **_COMMON)
settings.register_profile("quick", max_examples=25, **_COMMON)
settings.register_profile("long", max_examples=3000, **{**_COMMON, "derandomize": False})

settings.load_profile(os.environ.get("VENUE_TEST_PROFILE", "default"))
"""`default`, or `quick` where kernels run uncompiled: VENUE_TEST_PROFILE names it."""


@pytest.fixture(params=EXCHANGES)
def fresh(request: pytest.FixtureRequest) -> NewExchange:
    """How to make an exchange, the naive one and the compiled one in turn."""
    return new_exchange(request.param)


@pytest.fixture
def two(fresh: NewExchange) -> Exchange:
    """An exchange without a feed, for two clients without limits."""
    return fresh(r.MATCH, accounts=({}, {}))
