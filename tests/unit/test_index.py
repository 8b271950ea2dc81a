"""The index of references against a dictionary."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from venue.engine import index
from venue.engine.kernel import kernel
from venue.engine.records import ORDER, Array


@kernel
def index_find(table: Array, orders: Array, reference: int) -> int:
    return int(index.slot_at(table, index.locate(table, orders, reference)))


@kernel
def index_confirm(table: Array, orders: Array, reference: int, place: int) -> int:
    return int(index.slot_at(table, index.confirm(table, orders, reference, place)))


@kernel
def index_guess(table: Array, reference: int) -> int:
    return int(index.guess(table, reference))


@kernel
def index_insert(table: Array, orders: Array, reference: int, slot: int) -> bool:
    orders[slot]["reference"] = reference
    return bool(index.insert(table, reference, slot))


@kernel
def index_erase(table: Array, orders: Array, reference: int) -> None:
    index.erase(table, reference, index.locate(table, orders, reference))


@kernel
def index_home(table: Array, reference: int) -> int:
    return int(index.home(table, reference))


REFERENCES = st.one_of(st.integers(0, 40), st.sampled_from([2**63 - 1, -(2**63), -1, 2**40, 2**62]))


def entries(table: Array) -> int:
    return int((table.reshape(-1, index.LINE)[:, 1:] != 0).sum())


@given(st.lists(st.tuples(st.booleans(), REFERENCES), max_size=120))
def test_the_index_agrees_with_a_dictionary(steps: list[tuple[bool, int]]) -> None:
    table, orders = index.create(16), np.zeros(121, ORDER)
    known: dict[int, int] = {}
    for number, (insert, reference) in enumerate(steps, 1):
        if insert and reference not in known and len(known) < 16:
            index_insert(table, orders, reference, number)
            known[reference] = number
        elif not insert and reference in known:
            index_erase(table, orders, reference)
            del known[reference]
        assert index_find(table, orders, reference) == known.get(reference, 0)
        for place in (0, 1, index_guess(table, reference), len(table) - 1):
            assert index_confirm(table, orders, reference, place) == known.get(reference, 0)
    for reference, slot in known.items():
        assert index_find(table, orders, reference) == slot
    assert entries(table) == len(known)
    if not known:
        assert not table.any()


def at_home(table: Array, line: int, count: int) -> list[int]:
    """That many references which all belong in one line."""
    found = [reference for reference in range(60_000) if index_home(table, reference) == line]
    return found[:count]


@pytest.mark.parametrize("line", [0, 7])
def test_a_full_line_sends_the_next_references_on_and_finds_them_again(line: int) -> None:
    """Twenty references of one line fill it and the two behind it, round the table's end if need be."""
    table, orders = index.create(32), np.zeros(64, ORDER)
    references = at_home(table, line * index.LINE, 20)
    for slot, reference in enumerate(references, 1):
        index_insert(table, orders, reference, slot)
    found = [index_find(table, orders, reference) for reference in references]
    assert found == list(range(1, 21))
    stranger = at_home(table, line * index.LINE, 21)[-1]
    assert index_find(table, orders, stranger) == 0
    for slot, reference in enumerate(references[:10], 1):
        index_erase(table, orders, reference)
        assert index_find(table, orders, reference) == 0
        assert index_find(table, orders, references[-1]) == 20, slot
    index_insert(table, orders, stranger, 21)  # into the place that was left in its own line
    assert index_guess(table, stranger) & -index.LINE == line * index.LINE
    for reference in [*references[10:], stranger]:
        index_erase(table, orders, reference)
    assert not table.any()


def test_there_is_an_end_to_a_search_when_every_line_has_sent_a_reference_on() -> None:
    """A line's counter stays until what it has sent on goes, though its own entries are gone: here none is 0."""
    table, orders = index.create(64), np.zeros(400, ORDER)
    lines = len(table) // index.LINE
    slots = iter(range(1, 400))
    for line in range(lines):
        own = iter(at_home(table, line * index.LINE, 10))
        added: list[int] = []
        while table[line * index.LINE] == 0:
            added.append(next(own))
            index_insert(table, orders, added[-1], next(slots))
        for reference in added[:-1]:
            index_erase(table, orders, reference)
    assert (table[:: index.LINE] != 0).all()
    for line in range(lines):
        assert index_find(table, orders, at_home(table, line * index.LINE, 11)[-1]) == 0


def test_references_chosen_for_one_line_fill_those_around_it_and_no_more() -> None:
    table, orders = index.create(1024), np.zeros(200, ORDER)
    room = index.FARTHEST * (index.LINE - 1)
    references = at_home(table, 0, room + 1)
    assert len(references) == room + 1
    for slot, reference in enumerate(references[:-1], 1):
        assert index_insert(table, orders, reference, slot)
    before = table.copy()
    assert not index_insert(table, orders, references[-1], room + 1)
    assert (table == before).all()
    assert index_find(table, orders, references[-1]) == 0
    assert [index_find(table, orders, reference) for reference in references[:-1]] == list(range(1, room + 1))
    for reference in references[:-1]:
        index_erase(table, orders, reference)
    assert not table.any()


def test_two_references_that_look_alike_are_told_apart_by_their_orders() -> None:
    """What is mixed is 31 folded bits: these two fall on the same place with the same tag."""
    table, orders = index.create(16), np.zeros(8, ORDER)
    one, other = 5, (1 << 31) | 4
    assert index_guess(table, one) == index_guess(table, other)
    index_insert(table, orders, one, 1)
    assert index_find(table, orders, other) == 0
    index_insert(table, orders, other, 2)
    assert (index_find(table, orders, one), index_find(table, orders, other)) == (1, 2)
    index_erase(table, orders, one)
    assert (index_find(table, orders, one), index_find(table, orders, other)) == (0, 2)


def test_references_that_rise_through_the_day_do_not_pile_up() -> None:
    """Neighbours, until the table is as full as it may be: few find their line full."""
    table, orders = index.create(1024), np.zeros(1025, ORDER)
    for reference in range(1, 1025):
        index_insert(table, orders, reference, reference)
    assert int((table[:: index.LINE] >> index.TAG).sum()) < 64
