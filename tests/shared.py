"""Where the tests find real captures and outside answers, which are not part of this repository."""

import os
from pathlib import Path

import pytest

SHARED_DATA = Path(os.environ.get("VENUE_SHARED_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
"""A folder of real market data beside the checkout, or wherever VENUE_SHARED_DATA points."""

needs_shared = pytest.mark.skipif(
    not SHARED_DATA.is_dir(),
    reason="no real captures: put them beside the checkout or name their folder in VENUE_SHARED_DATA",
)
