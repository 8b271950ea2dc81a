"""What the loop thread and the matching thread share: two rings and the descriptors that end a sleep."""

from __future__ import annotations

from typing import NamedTuple

from venue.engine.ring import Ring


class Link(NamedTuple):
    """The loop thread's ends: it writes ``commands`` and reads ``events``."""

    commands: Ring
    events: Ring
    command_wake: int
    """A descriptor to write to when ``ring.must_wake(commands)``; -1 = the matching thread never sleeps."""
    event_wake: int
    """A descriptor that becomes readable when events came while the loop thread slept."""
