"""`venue bench start`: the parts of a start are parts of it; medians."""

from __future__ import annotations

import pytest

from venue.bench.start import PARTS, Start, report_of, start_once


@pytest.mark.timeout(600)  # it may be the first start of this version
def test_a_start_is_the_sum_of_its_parts() -> None:
    start = start_once()
    parts = [getattr(start, part) for part in PARTS[:-1]]
    assert all(part > 0 for part in parts)
    assert sum(parts) == pytest.approx(start.ready_s, abs=1e-6)


def test_medians_of_cold_and_warm_starts() -> None:
    cold = [Start(1, 2, 3, 4, 10)]
    warm = [Start(1, 1, 1, 1, 4), Start(2, 2, 2, 2, 8), Start(9, 9, 9, 9, 36)]
    report = report_of(cold, warm)
    assert report.tables[0].rows == [
        ("cold, of 1", "1.00", "2.00", "3.00", "4.00", "10.00"),
        ("warm, of 3", "2.00", "2.00", "2.00", "2.00", "8.00"),
    ]
    assert report.figures["cold"]["ready_s"] == 10
    assert report.figures["warm"]["ready_s"] == 8
    assert [start["kernels_s"] for start in report.figures["warm"]["starts"]] == [1, 2, 9]
