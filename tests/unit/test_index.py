"""The index of references against a dictionary."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from venue.engine import index
from venue.engine.kernel import kernel
from venue.engine.records import Array


@kernel
def index_find(table: Array, reference: int) -> int:
    return int(table[index.locate(table, reference) + 1])


@kernel
def index_insert(table: Array, reference: int, slot: int) -> None:
    index.insert(table, index.locate(table, reference), reference, slot)


@kernel
def index_erase(table: Array, reference: int) -> None:
    index.erase(table, index.locate(table, reference))


REFERENCES = st.one_of(st.integers(0, 40), st.sampled_from([2**63 - 1, -(2**63), -1, 2**40, 2**62]))


@given(st.lists(st.tuples(st.booleans(), REFERENCES), max_size=120))
def test_the_index_agrees_with_a_dictionary(steps: list[tuple[bool, int]]) -> None:
    table = index.create(16)
    known: dict[int, int] = {}
    for number, (insert, reference) in enumerate(steps, 1):
        if insert and reference not in known and len(known) < 16:
            index_insert(table, reference, number)
            known[reference] = number
        elif not insert and reference in known:
            index_erase(table, reference)
            del known[reference]
        assert index_find(table, reference) == known.get(reference, 0)
    for reference, slot in known.items():
        assert index_find(table, reference) == slot
    assert int((table[1::2] != 0).sum()) == len(known)


def test_references_that_rise_through_the_day_do_not_pile_up() -> None:
    """A thousand neighbours and then some of the next round of the table: nobody has far to go."""
    table = index.create(1024)
    for reference in range(1, 1025):
        index_insert(table, reference, reference)
    taken = np.flatnonzero(table[1::2])
    gaps = np.diff(np.flatnonzero(np.diff(np.concatenate([[-2], taken])) > 1))
    assert gaps.max() < 64  # the longest run of taken places
