"""Who traded with whom: the fills of the demo's two accounts, paired by match number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from venue.wire import ouch

UNPAIRED_KEPT: Final = 10_000
"""Both sides of a trade are told at the same moment: older fills without another side were with recorded orders."""


@dataclass(slots=True)
class Volume:
    fills: int = 0
    shares: int = 0

    def add(self, shares: int) -> None:
        self.fills += 1
        self.shares += shares


class Tape:
    """Takes the fills of both accounts. `by_role` counts each account's, `between` the trades with both sides here."""

    def __init__(self, roles: tuple[str, str]) -> None:
        self.by_role = {role: Volume() for role in roles}
        self.between = Volume()
        self._unpaired: dict[int, None] = {}  # match numbers, the oldest first

    @property
    def with_recorded(self) -> Volume:
        """Trades with the recorded flow."""
        return Volume(
            sum(volume.fills for volume in self.by_role.values()) - 2 * self.between.fills,
            sum(volume.shares for volume in self.by_role.values()) - 2 * self.between.shares,
        )

    def add(self, role: str, fill: ouch.Executed) -> None:
        self.by_role[role].add(fill.quantity)
        if fill.match_number in self._unpaired:
            del self._unpaired[fill.match_number]
            self.between.add(fill.quantity)
            return
        self._unpaired[fill.match_number] = None
        if len(self._unpaired) > UNPAIRED_KEPT:
            del self._unpaired[next(iter(self._unpaired))]
