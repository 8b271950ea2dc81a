"""The telemetry process's priority: below everybody's, but not so far that it starves."""

from __future__ import annotations

import os

import pytest

from venue.telemetry.giving_way import LATE_S, NICENESS, RELIEF_S, GivingWay

TICK_S = 1.0


class Kernel:
    """Takes the calls of the process down."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.nice: list[int] = []
        self.policies: list[int] = []
        self.refuses = False
        monkeypatch.setattr(os, "nice", self.nice.append)
        monkeypatch.setattr(os, "sched_setscheduler", self.set_policy)

    def set_policy(self, pid: int, policy: int, parameters: os.sched_param) -> None:
        assert (pid, parameters.sched_priority) == (0, 0)
        if self.refuses:
            raise PermissionError("not in here")
        self.policies.append(policy)


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    return Kernel(monkeypatch)


def test_it_runs_only_where_nobody_else_wants_to(kernel: Kernel) -> None:
    priority = GivingWay()
    for second in range(100):
        priority.tick(second + 0.9 * LATE_S * (second % 2), TICK_S)
    assert (kernel.nice, kernel.policies) == ([NICENESS], [os.SCHED_IDLE])


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
    assert kernel.nice == [NICENESS]
