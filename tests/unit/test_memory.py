"""Pools, blocks and the index of references, each against the plainest thing that could do the same."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from venue.engine import index, memory
from venue.engine.kernel import kernel
from venue.engine.records import LEVEL, Array, aligned


@kernel
def pool_allocate(records: Array, state: Array) -> int:
    return memory.allocate(records, state, 2)


@kernel
def pool_deallocate(records: Array, state: Array, slot: int) -> None:
    memory.deallocate(records, state, 2, slot)


@kernel
def block_allocate(words: Array, state: Array, size_class: int) -> int:
    return memory.allocate_block(words, state, 1, size_class)


@kernel
def block_deallocate(words: Array, state: Array, block: int, size_class: int) -> None:
    memory.deallocate_block(words, state, 1, block, size_class)


@kernel
def index_find(table: Array, reference: int) -> int:
    return index.find(table, reference)


@kernel
def index_insert(table: Array, reference: int, slot: int) -> None:
    index.insert(table, reference, slot)


@kernel
def index_erase(table: Array, reference: int) -> None:
    index.erase(table, reference)


def new_pool(capacity: int) -> tuple[Array, Array]:
    state = np.full(2 + memory.POOL_WORDS + 1, 77, np.int64)
    memory.reset_pool(state, 2)
    return aligned(capacity + 1, LEVEL), state


def test_a_pool_gives_every_slot_once_and_then_none() -> None:
    records, state = new_pool(5)
    assert sorted(pool_allocate(records, state) for _ in range(5)) == [1, 2, 3, 4, 5]
    assert pool_allocate(records, state) == 0
    pool_deallocate(records, state, 3)
    assert pool_allocate(records, state) == 3
    assert state[[0, 1, -1]].tolist() == [77, 77, 77]  # it stays in its words


@given(st.lists(st.integers(0, 20), max_size=200))
def test_a_pool_never_gives_out_what_is_in_use(choices: list[int]) -> None:
    records, state = new_pool(8)
    used: list[int] = []
    for choice in choices:
        if choice < 12:
            slot = pool_allocate(records, state)
            assert (slot == 0) == (len(used) == 8)
            assert slot not in used
            used += [slot] if slot else []
        elif used:
            pool_deallocate(records, state, used.pop(choice % len(used)))
        assert state[2 + memory.IN_USE] == len(used)


def test_blocks_of_all_sizes_do_not_overlap_and_come_back_by_size() -> None:
    words, state = aligned(64, np.dtype("<i8")), np.zeros(1 + memory.FREE_LIST_WORDS, np.int64)
    memory.reset_free_list(state, 1)
    blocks = [(block_allocate(words, state, size), size) for size in (2, 3, 2, 4)]
    assert [block for block, _ in blocks] == [0, 4, 12, 16]
    block_deallocate(words, state, 0, 2)
    block_deallocate(words, state, 12, 2)
    assert block_allocate(words, state, 2) == 12
    assert block_allocate(words, state, 2) == 0
    assert block_allocate(words, state, 5) == 32
    assert block_allocate(words, state, 0) == -1


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
