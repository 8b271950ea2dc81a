"""Named tuples by reference: the same fields, the same arrays, tuples in tuples."""

from typing import NamedTuple

import numpy as np

from venue.engine.kernel import JIT, kernel, part, verb
from venue.engine.records import Array
from venue.engine.reference import reference


class Inner(NamedTuple):
    numbers: Array
    scale: int


class Outer(NamedTuple):
    rows: Array
    inner: Inner
    last: int


@part
def add(inner: Inner, place: int) -> int:
    inner.numbers[place] += inner.scale
    return len(inner.numbers)


@verb
def mark(outer: Outer, place: int) -> None:
    outer.rows[place]["name"] = outer.last


@kernel
def visit(outer: Outer, places: int) -> int:
    outer = reference(outer)
    total = 0
    for place in range(places):
        mark(outer, place)
        total += add(outer.inner, place) + outer.inner.scale
    return total


@kernel
def visit_twice(outer: Outer, places: int) -> int:
    outer = reference(outer)
    return visit(outer, places) + visit(reference(outer), places)  # what is a reference already stays one


def made() -> Outer:
    return Outer(np.zeros(3, [("name", "<i4"), ("_", "<i4")]), Inner(np.zeros(5, np.int64), 7), 9)


def test_functions_see_and_change_what_the_tuple_holds() -> None:
    outer = made()
    assert visit(outer, 3) == 3 * (5 + 7)
    assert outer.rows["name"].tolist() == [9, 9, 9]
    assert outer.inner.numbers.tolist() == [7, 7, 7, 0, 0]


def test_a_reference_can_be_handed_on_to_kernels() -> None:
    outer = made()
    assert visit_twice(outer, 2) == 2 * 2 * (5 + 7)
    assert outer.inner.numbers.tolist() == [14, 14, 0, 0, 0]


def test_two_tuples_of_a_type_do_not_share_their_memory() -> None:
    first, second = made(), made()._replace(last=4)
    visit(first, 1)
    visit(second, 2)
    assert (first.rows["name"].tolist(), second.rows["name"].tolist()) == ([9, 0, 0], [4, 4, 0])
    if JIT:
        assert len(visit.signatures) == 2  # type: ignore[attr-defined]  # by value and by reference
