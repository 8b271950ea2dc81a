"""How much hypothesis tries: `default`, or `quick` where kernels run uncompiled (VENUE_TEST_PROFILE names it)."""

import os

from hypothesis import HealthCheck, settings

_COMMON = {
    "deadline": None,  # the first example may compile kernels
    "derandomize": True,
    "print_blob": True,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large],
}
settings.register_profile("default", max_examples=150, **_COMMON)
settings.register_profile("quick", max_examples=25, **_COMMON)
settings.register_profile("long", max_examples=3000, **{**_COMMON, "derandomize": False})

settings.load_profile(os.environ.get("VENUE_TEST_PROFILE", "default"))
