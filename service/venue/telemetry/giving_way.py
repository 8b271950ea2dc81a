"""The telemetry process gives way to the exchange, but does not starve.

It runs as ``SCHED_IDLE``: where no other process wants to, and whoever wakes up takes the core from it at once. An
ordinary process, however nice, may finish its slice first, and by that make an order wait for milliseconds. On a
machine whose every core is busy all the time nothing would be left, though: pages would stand still, and a health check
would give up. So whenever it has come late for its tick, it is an ordinary process of the lowest priority for a while.

Linux lets a thread leave ``SCHED_IDLE`` only if it could also give itself its niceness: with an ``RLIMIT_NICE`` of 1 or
more for niceness 19, or with ``CAP_SYS_NICE``. Where that is not so, as for most users, it is always an ordinary one.

Measured while two connections sent all that an exchange on two cores could take: a scrape took 0.6 s (median; at most
3.4 s) as ``SCHED_IDLE`` and 20 ms (1.7 s) as an ordinary process of niceness 19.
"""

from __future__ import annotations

import logging
import os
import resource
from typing import Final

NICENESS: Final = 19
LATE_S: Final = 0.25
"""A tick that is so late has waited for a core: nothing that the process does itself takes as long."""
RELIEF_S: Final = 10.0

log = logging.getLogger(__name__)


def can_leave_idle(niceness: int) -> bool:
    """Whether the calling thread, of this niceness, may become an ordinary one again once it is ``SCHED_IDLE``."""
    limit = resource.getrlimit(resource.RLIMIT_NICE)[0]
    if limit == resource.RLIM_INFINITY or limit >= 20 - niceness:
        return True
    try:
        os.nice(-1)  # Linux asks the same for it; what a process says of its capabilities may hold in a container only
    except OSError:
        return False
    os.nice(1)
    return True


class GivingWay:
    """The priority of the calling thread, which is the process's only one that does anything."""

    def __init__(self) -> None:
        self._calm = os.SCHED_IDLE if can_leave_idle(os.nice(NICENESS)) else os.SCHED_BATCH
        self._relief_until_s = float("-inf")
        self._due_s = float("inf")
        self._policy = os.SCHED_OTHER
        self._told = False
        self._run_as(self._calm)

    def tick(self, now_s: float, next_in_s: float) -> None:
        """Call again ``next_in_s`` later; ``now_s`` is a monotonic clock."""
        if now_s - self._due_s > LATE_S:
            self._relief_until_s = now_s + RELIEF_S
        self._due_s = now_s + next_in_s
        self._run_as(os.SCHED_BATCH if now_s < self._relief_until_s else self._calm)

    def _run_as(self, policy: int) -> None:
        if policy == self._policy:
            return
        try:
            os.sched_setscheduler(0, policy, os.sched_param(0))
            self._policy = policy
        except OSError as error:  # a sandbox that does not allow it
            if not self._told:
                self._told = True
                log.warning("cannot choose a scheduling policy", extra={"reason": str(error)})
