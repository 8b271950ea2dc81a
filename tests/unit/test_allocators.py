"""The four allocators through their one interface: no block overlaps another, what is given back comes again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from venue.engine.allocators import free_list, linear, pool, stack
from venue.engine.kernel import kernel
from venue.engine.records import ORDER, Array, aligned

CELL = np.dtype([("next", "<i8"), ("value", "<i8")])
WORD = np.dtype("<i8")
AT = 3  # where the allocator's own words begin
NEIGHBOUR = 77


def verbs(allocator: ModuleType) -> tuple[Callable[..., int], Callable[..., None], Callable[..., None]]:
    """An allocator's functions, to be called from Python."""
    inner: Any = allocator

    @kernel
    def allocate(memory: Array, state: Array, size: int) -> int:
        return int(inner.allocate(memory, state, AT, size))

    @kernel
    def deallocate(memory: Array, state: Array, position: int, size: int) -> None:
        inner.deallocate(memory, state, AT, position, size)

    @kernel
    def reset(state: Array) -> None:
        inner.reset(state, AT)

    return allocate, deallocate, reset


VERBS = {allocator: verbs(allocator) for allocator in (linear, stack, pool, free_list)}


@dataclass
class Owner:
    """Somebody who uses an allocator, marks all elements it has as its own, and knows what it has to get."""

    allocator: ModuleType
    capacity: int
    dtype: np.dtype[Any] = CELL
    live: list[tuple[int, int]] = field(default_factory=list)
    given_back: dict[int, list[int]] = field(default_factory=dict)
    end: int = 0  # the first element that was never given out
    marks: int = 0

    def __post_init__(self) -> None:
        self._allocate, self._deallocate, self._reset = VERBS[self.allocator]
        self.memory = aligned(self.capacity + self.first, self.dtype)
        self.state = np.full(AT + self.allocator.STATE_WORDS + 1, NEIGHBOUR, np.int64)
        self.reset()

    @property
    def first(self) -> int:
        return free_list.FIRST if self.allocator is free_list else 1

    def rounded(self, size: int) -> int:
        return 1 << (size - 1).bit_length() if self.allocator is free_list else size

    def reset(self) -> None:
        self.live.clear()
        self.given_back.clear()
        self.end = self.first
        self._reset(self.state)
        assert (np.delete(self.state, np.s_[AT:-1]) == NEIGHBOUR).all(), "it writes beside its own words"

    def expected(self, size: int) -> int:
        """What an allocation of this size has to give."""
        if size < 1 or (self.allocator is pool and size != 1):
            return 0
        again = self.given_back.get(self.rounded(size))
        if again:
            return again[-1]
        return self.end if self.end + self.rounded(size) <= len(self.memory) else 0

    def words(self, position: int, size: int) -> Array:
        width = self.dtype.itemsize // WORD.itemsize
        return self.memory.view(WORD)[position * width : (position + size) * width]

    def allocate(self, size: int) -> int:
        """Allocate, and hold what comes against all that is known."""
        expected, before = self.expected(size), self.state.copy()
        position = int(self._allocate(self.memory, self.state, size))
        assert position == expected
        assert (np.delete(self.state, np.s_[AT:-1]) == NEIGHBOUR).all(), "it writes beside its own words"
        if position == 0:
            assert (self.state == before).all(), "an allocation that failed has changed something"
            return 0
        taken = {element for start, length in self.live for element in range(start, start + length)}
        assert taken.isdisjoint(range(position, position + size)), "two blocks overlap"
        assert 0 < position < position + size <= len(self.memory)
        assert self.words(position, size).ctypes.data % self.dtype.itemsize == 0
        if position == self.end:
            self.end += self.rounded(size)
        else:
            self.given_back[self.rounded(size)].pop()
        self.marks += 1
        self.words(position, size)[:] = -self.marks
        self.live.append((position, size))
        return position

    def free(self, number: int) -> None:
        """Give the live block of this number back, or for a stack the last one."""
        position, size = self.live.pop(-1 if self.allocator is stack else number % len(self.live))
        marks = self.words(position, size)
        assert marks[0] < 0
        assert (marks == marks[0]).all(), "somebody has written into a block that was in use"
        self._deallocate(self.memory, self.state, position, size)
        if self.allocator is stack:
            self.end = position
        elif self.allocator is not linear:
            self.given_back.setdefault(self.rounded(size), []).append(position)


ALLOCATORS = pytest.mark.parametrize("allocator", VERBS, ids=lambda module: module.__name__.rpartition(".")[2])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("allocate"), st.one_of(st.just(1), st.integers(1, 20))),
        st.tuples(st.just("free"), st.integers(0, 99)),
        st.tuples(st.just("reset"), st.just(0)),
    ),
    max_size=120,
)


@ALLOCATORS
@given(steps=STEPS, capacity=st.integers(0, 60), dtype=st.sampled_from([CELL, WORD]))
def test_what_is_in_use_is_nobody_elses(
    allocator: ModuleType, steps: list[tuple[str, int]], capacity: int, dtype: np.dtype[Any]
) -> None:
    owner = Owner(allocator, capacity, dtype)
    for step, number in steps:
        if step == "allocate":
            owner.allocate(number)
        elif step == "reset":
            owner.reset()
        elif owner.live:
            owner.free(number)
        assert allocator is not pool or pool.in_use(owner.state, AT) == len(owner.live)
    while owner.live:
        owner.free(0)


@ALLOCATORS
def test_exhaustion_gives_none_and_reset_gives_all_again(allocator: ModuleType) -> None:
    owner = Owner(allocator, capacity=100)
    everything = [owner.allocate(1) for _ in range(100)]
    assert sorted(everything) == list(range(owner.first, owner.first + 100))
    assert [owner.allocate(1) for _ in range(3)] == [0, 0, 0]
    owner.reset()
    assert [owner.allocate(1) for _ in range(101)] == [*everything, 0]


@ALLOCATORS
def test_what_is_given_back_is_used_again(allocator: ModuleType) -> None:
    owner = Owner(allocator, capacity=100)
    first = [owner.allocate(1) for _ in range(50)]
    for _ in range(50):
        owner.free(-1)
    again = [owner.allocate(1) for _ in range(50)]
    assert set(again).isdisjoint(first) if allocator is linear else again == first


@ALLOCATORS
@pytest.mark.parametrize("size", [0, -1, -(2**63), 109, 2**40, 2**62, 2**63 - 1])
def test_sizes_that_cannot_be(allocator: ModuleType, size: int) -> None:
    owner = Owner(allocator, capacity=100)
    assert owner.allocate(size) == 0
    assert owner.allocate(1) == owner.first


def test_a_pool_counts_its_slots_and_chains_them_by_their_field() -> None:
    """Only ``next`` of a free record is written to: what others look at stays as it was."""
    owner = Owner(pool, 5, ORDER)
    slots = [owner.allocate(1) for _ in range(5)]
    assert pool.in_use(owner.state, AT) == 5
    owner.memory["price"] = 7
    for slot in slots[:3]:
        VERBS[pool][1](owner.memory, owner.state, slot, 1)
    assert pool.in_use(owner.state, AT) == 2
    assert owner.memory["next"][slots[1:3]].tolist() == slots[:2]
    assert (owner.memory["price"] == 7).all()
    assert owner.allocate(2) == 0


def test_blocks_of_the_free_list_come_back_by_size_and_begin_on_lines() -> None:
    owner = Owner(free_list, 248, WORD)
    small, large, another = (owner.allocate(size) for size in (16, 33, 9))
    assert (small, large, another) == (8, 24, 88)
    assert [owner.words(block, 1).ctypes.data % 64 for block in (small, large, another)] == [0, 0, 0]
    owner.free(0)
    owner.free(1)
    assert [owner.allocate(size) for size in (17, 12, 15, 16)] == [104, 88, 8, 136]
