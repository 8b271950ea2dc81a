from itertools import pairwise

import pytest

from venue_clients.faults import Faults


def faulty(seed: int, **rates: float) -> tuple[list[int], Faults]:
    faults = Faults(**rates, seed=seed)
    out = [packet for i in range(2_000) for packet in faults.apply(i.to_bytes(2, "big"))] + faults.flush()
    return [int.from_bytes(packet, "big") for packet in out], faults


def test_faults_are_the_same_for_the_same_seed() -> None:
    assert faulty(3, drop=5, duplicate=5, reorder=5)[0] == faulty(3, drop=5, duplicate=5, reorder=5)[0]
    assert faulty(3, drop=5, duplicate=5, reorder=5)[0] != faulty(4, drop=5, duplicate=5, reorder=5)[0]


def test_faults_come_as_often_as_asked_for() -> None:
    out, faults = faulty(1, drop=5)
    assert faults.dropped == 2_000 - len(out) == pytest.approx(100, abs=40)
    assert out == sorted(out)
    out, faults = faulty(1, duplicate=5)
    assert faults.duplicated == len(out) - 2_000 == pytest.approx(100, abs=40)
    out, faults = faulty(1, reorder=5)
    assert faults.reordered == sum(a > b for a, b in pairwise(out)) == pytest.approx(100, abs=40)
    assert sorted(out) == list(range(2_000))
    assert faulty(1)[0] == list(range(2_000))
    assert faulty(1, drop=100)[0] == []
    assert sorted(faulty(1, reorder=100)[0]) == list(range(2_000))


@pytest.mark.parametrize("rates", [{"drop": -1}, {"duplicate": 101}, {"reorder": float("nan")}])
def test_impossible_rates_are_refused(rates) -> None:
    with pytest.raises(ValueError, match="percentage"):
        Faults(**rates)
