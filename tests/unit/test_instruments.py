"""The registry of instruments and the symbol table beneath it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from venue.engine import symbols
from venue.engine.kernel import kernel
from venue.engine.records import NO_INSTRUMENT, Array
from venue.engine.symbols import IGNORED, NONE
from venue.instruments import MAX_INSTRUMENTS, Instruments, is_symbol

wire_symbols = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=8)


@kernel
def find_all(table: Array, keys: Array, found: Array) -> None:
    for i in range(len(keys)):
        found[i] = symbols.find(table, keys[i])


def test_numbers_are_given_in_order_and_stay() -> None:
    instruments = Instruments(4)
    assert [instruments.add(symbol) for symbol in ("AAPL", "MSFT", "AAPL", "BRK.B")] == [0, 1, 0, 2]
    assert instruments.count == 3
    assert [instruments.index(symbol) for symbol in ("AAPL", "MSFT", "BRK.B", "IBM")] == [0, 1, 2, NONE]
    assert [instruments.symbol(i) for i in range(3)] == ["AAPL", "MSFT", "BRK.B"]
    assert instruments.symbols[2].tobytes() == b"BRK.B   "
    with pytest.raises(IndexError, match="no number 3"):
        instruments.symbol(3)


def test_a_full_registry_takes_no_more_but_knows_what_it_has() -> None:
    instruments = Instruments(2)
    instruments.add("A")
    assert instruments.locates[0] == NONE
    instruments.add("B")
    assert instruments.add("C") == NONE
    assert instruments.add("A") == 0
    assert instruments.index("C") == NONE
    assert instruments.locates[0] == IGNORED, "a symbol without a locate cannot be learned any more"


@pytest.mark.parametrize("symbol", ["", "NINECHARS", "A B", " A", "A\n", "Ä", "A\x00"])
def test_what_is_no_symbol_is_refused(symbol: str) -> None:
    instruments = Instruments(2)
    with pytest.raises(ValueError, match="is no symbol"):
        instruments.add(symbol)
    assert instruments.index(symbol) == NONE
    assert instruments.count == 0


@given(st.binary(min_size=8, max_size=8) | st.text("AB .~!", min_size=8, max_size=8).map(str.encode))
def test_kernels_and_python_agree_on_what_a_symbol_is(field: bytes) -> None:
    key = int.from_bytes(field, "big", signed=True)
    assert bool(symbols.is_key(key)) == is_symbol(field.decode("latin-1").rstrip(" "))


@pytest.mark.parametrize("capacity", [0, -1, MAX_INSTRUMENTS + 1])
def test_the_capacity_has_to_fit_a_command(capacity: int) -> None:
    with pytest.raises(ValueError, match="1 to 65534"):
        Instruments(capacity)


def test_locates_are_of_one_day() -> None:
    instruments = Instruments(2)
    instruments.map_locate(13, instruments.add("AAPL"))
    instruments.map_locate(65535, IGNORED)
    instruments.map_locate(0, 0)
    assert instruments.locates[[0, 12, 13, 65535]].tolist() == [NONE, NONE, 0, IGNORED]
    instruments.forget_locates()
    assert instruments.locates[[13, 65535]].tolist() == [NONE, NONE]


@given(st.lists(wire_symbols, unique=True, max_size=40), st.lists(wire_symbols, max_size=10))
def test_every_symbol_is_found_and_no_other(known: list[str], asked: list[str]) -> None:
    instruments = Instruments(40)
    for symbol in known:
        instruments.add(symbol)
    keys = np.array([symbols.key_of(symbol) for symbol in known + asked], np.int64)
    found = np.empty(len(keys), np.int64)
    find_all(instruments.table, keys, found)
    places = {symbol: number for number, symbol in enumerate(known)}
    assert found.tolist() == [places.get(symbol, NO_INSTRUMENT) for symbol in known + asked]


def test_the_largest_registry_fills_up_and_finds_everything() -> None:
    table = symbols.create(MAX_INSTRUMENTS)
    generator = np.random.default_rng(7)
    keys = np.unique(generator.integers(-(2**63), 2**63, MAX_INSTRUMENTS))
    for instrument, key in enumerate(keys.tolist()):
        symbols.insert(table, key, instrument)
    found = np.empty(len(keys), np.int64)
    find_all(table, keys, found)
    assert found.tolist() == list(range(len(keys)))
    find_all(table, keys ^ 1, found)
    assert set(found.tolist()) == {NO_INSTRUMENT}


def test_listed_symbols_spread_over_the_table() -> None:
    """Symbols differ in few bits; searches still stay short: no long run of full places."""
    instruments = Instruments(17_576)
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    for symbol in (a + b + c for a in letters for b in letters for c in letters):
        symbols.insert(instruments.table, symbols.key_of(symbol), 0)
    full = instruments.table[1::2] != symbols.EMPTY
    runs = np.diff(np.flatnonzero(np.concatenate([[True], ~full, [True]])))
    assert runs.max() < 20
