"""The telemetry process's priority: below everybody's, but not so far that it starves."""

from __future__ import annotations

import os
import resource
import subprocess
import sys

import pytest

from venue.telemetry.giving_way import LATE_S, NICENESS, RELIEF_S, GivingWay

TICK_S = 1.0
LATE_AT_S = 1.0 + 2 * LATE_S


class Kernel:
    """Takes the calls of the process down, and allows what Linux allows: ``limit`` is RLIMIT_NICE."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.niceness = 0
        self.limit = 0
        self.capable = False
        self.policies: list[int] = []
        self.refuses = False
        self.refuses_to_leave_idle = False
        monkeypatch.setattr(os, "nice", self.nice)
        monkeypatch.setattr(os, "sched_setscheduler", self.set_policy)
        monkeypatch.setattr(
            resource, "getrlimit", lambda which: {resource.RLIMIT_NICE: (self.limit, self.limit)}[which]
        )

    def nice(self, increment: int) -> int:
        if increment < 0 and not self.capable:
            raise PermissionError("nobody gets nicer treatment")
        self.niceness = min(19, self.niceness + increment)
        return self.niceness

    def set_policy(self, pid: int, policy: int, parameters: os.sched_param) -> None:
        assert (pid, parameters.sched_priority) == (0, 0)
        allowed = self.capable or self.limit in (resource.RLIM_INFINITY, *range(20 - self.niceness, 41))
        leaves_idle = os.SCHED_IDLE in self.policies[-1:] and policy != os.SCHED_IDLE
        if self.refuses or (leaves_idle and (self.refuses_to_leave_idle or not allowed)):
            raise PermissionError("not in here")
        self.policies.append(policy)


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    """One that lets the process go on from niceness 19, and no further."""
    kernel = Kernel(monkeypatch)
    kernel.limit = 1
    return kernel


def test_it_runs_only_where_nobody_else_wants_to(kernel: Kernel) -> None:
    priority = GivingWay()
    for second in range(100):
        priority.tick(second + 0.9 * LATE_S * (second % 2), TICK_S)
    assert (kernel.niceness, kernel.policies) == (NICENESS, [os.SCHED_IDLE])


def test_late_for_its_tick_it_is_an_ordinary_process_for_a_while(kernel: Kernel) -> None:
    priority = GivingWay()
    priority.tick(100.0, TICK_S)
    priority.tick(101.0 + 2 * LATE_S, TICK_S)
    assert kernel.policies == [os.SCHED_IDLE, os.SCHED_BATCH]
    now_s = 101.0 + 2 * LATE_S
    while now_s < 101.0 + 2 * LATE_S + RELIEF_S - TICK_S:
        now_s += TICK_S
        priority.tick(now_s, TICK_S)
    assert kernel.policies == [os.SCHED_IDLE, os.SCHED_BATCH]
    priority.tick(now_s + TICK_S, TICK_S)
    assert kernel.policies == [os.SCHED_IDLE, os.SCHED_BATCH, os.SCHED_IDLE]


def test_a_sandbox_that_does_not_allow_it_is_told_once_and_no_reason_to_end(
    kernel: Kernel, caplog: pytest.LogCaptureFixture
) -> None:
    kernel.refuses = True
    priority = GivingWay()
    for second in range(10):
        priority.tick(second, TICK_S)
    assert (kernel.policies, len(caplog.records)) == ([], 1)
    assert kernel.niceness == NICENESS


@pytest.mark.parametrize(
    ("niceness", "limit", "capable", "calm"),
    [
        (0, 0, False, os.SCHED_BATCH),
        (0, 0, True, os.SCHED_IDLE),
        (0, 1, False, os.SCHED_IDLE),
        (0, 40, False, os.SCHED_IDLE),
        (0, resource.RLIM_INFINITY, False, os.SCHED_IDLE),
        (-5, 5, False, os.SCHED_BATCH),
        (-5, 6, False, os.SCHED_IDLE),
    ],
)
def test_it_is_idle_only_if_it_can_leave_that_again(
    kernel: Kernel, caplog: pytest.LogCaptureFixture, niceness: int, limit: int, capable: bool, calm: int
) -> None:
    kernel.niceness, kernel.limit, kernel.capable = niceness, limit, capable
    priority = GivingWay()
    assert kernel.niceness == niceness + NICENESS
    assert kernel.policies == [calm]
    priority.tick(0.0, TICK_S)
    priority.tick(LATE_AT_S, TICK_S)
    assert kernel.policies[-1] == os.SCHED_BATCH
    assert caplog.records == []


def test_where_it_is_not_let_out_all_the_same_it_goes_on_asking_and_says_so_once(
    kernel: Kernel, caplog: pytest.LogCaptureFixture
) -> None:
    kernel.refuses_to_leave_idle = True
    priority = GivingWay()
    priority.tick(0.0, TICK_S)
    for second in range(3):
        priority.tick(LATE_AT_S + second, TICK_S)
    assert kernel.policies == [os.SCHED_IDLE]
    assert [record.message for record in caplog.records] == ["cannot choose a scheduling policy"]
    kernel.refuses_to_leave_idle = False
    priority.tick(LATE_AT_S + 3, TICK_S)
    assert kernel.policies == [os.SCHED_IDLE, os.SCHED_BATCH]
    assert len(caplog.records) == 1


NOBODY = """
import os, resource, sys
from venue.telemetry.giving_way import GivingWay
limit = int(sys.argv[1])
try:
    resource.setrlimit(resource.RLIMIT_NICE, (limit, limit))
except ValueError:
    sys.exit("refused")
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
priority = GivingWay()
seen = [os.sched_getscheduler(0)]
for now_s in (0.0, 100.0):
    priority.tick(now_s, 1.0)
    seen.append(os.sched_getscheduler(0))
print(*seen, os.getpriority(os.PRIO_PROCESS, 0))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become nobody")
@pytest.mark.parametrize(("limit", "calm"), [(0, os.SCHED_BATCH), (1, os.SCHED_IDLE)])
def test_linux_lets_an_unprivileged_process_out_of_it(limit: int, calm: int) -> None:
    run = subprocess.run([sys.executable, "-c", NOBODY, str(limit)], capture_output=True, text=True, check=False)
    if run.stderr == "refused\n":
        pytest.skip("a root that may not raise its limits")
    assert run.stderr == ""
    assert list(map(int, run.stdout.split())) == [calm, calm, os.SCHED_BATCH, NICENESS]
