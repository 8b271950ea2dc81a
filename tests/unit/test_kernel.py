"""How kernels are compiled: no floats, no stale code, twins that agree."""

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from venue.engine import atomics, kernel
from venue.engine.records import Array

WORDS = st.integers(-(2**63), 2**63 - 1)


@kernel.kernel
def loads(data: Array, offset: int) -> tuple[int, int, int]:
    return atomics.load_be16(data, offset), atomics.load_be32(data, offset), atomics.load_be64(data, offset)


@kernel.kernel
def stores(data: Array, offset: int, value: int) -> None:
    atomics.store_be16(data, offset, value)
    atomics.store_be32(data, offset + 2, value)
    atomics.store_be64(data, offset + 6, value)


@kernel.kernel
def zeros_above(value: int) -> int:
    return atomics.leading_zeros(value)


@kernel.kernel
def chosen(left: int, right: int, yes: int, no: int) -> int:
    return atomics.choose(left == right, yes, no)


@kernel.kernel
def moved(words: Array, to: int, start: int, count: int) -> None:
    atomics.move(words, to, start, count)


@kernel.kernel
def set_and_get(words: Array, place: int, value: int) -> int:
    atomics.store_release(words, place, value)
    atomics.fence()
    atomics.prefetch(words, 10_000_000)  # any place may be asked for
    return atomics.load_acquire(words, place)


@given(st.binary(min_size=16, max_size=16), st.integers(0, 8))
def test_big_endian_loads_are_those_of_the_wire(data: bytes, offset: int) -> None:
    array = np.frombuffer(data, np.uint8).copy()
    two, four, eight = (data[offset : offset + size] for size in (2, 4, 8))
    expected = int.from_bytes(two, "big"), int.from_bytes(four, "big"), int.from_bytes(eight, "big", signed=True)
    assert loads(array, offset) == expected


@given(WORDS)
def test_big_endian_stores_are_those_of_the_wire(value: int) -> None:
    array = np.zeros(20, np.uint8)
    stores(array, 3, value)
    word = value % 2**64
    wire = (word % 2**16).to_bytes(2, "big") + (word % 2**32).to_bytes(4, "big") + word.to_bytes(8, "big")
    assert array.tobytes() == b"\0" * 3 + wire + b"\0" * 3


@given(WORDS)
def test_leading_zeros(value: int) -> None:
    assert zeros_above(value) == 64 - (value % 2**64).bit_length()


@given(st.integers(0, 1), WORDS, WORDS)
def test_of_two_numbers_one_is_chosen(right: int, yes: int, no: int) -> None:
    assert chosen(1, right, yes, no) == (yes if right else no)


@given(WORDS)
def test_ordered_accesses_carry_every_word(value: int) -> None:
    assert set_and_get(np.zeros(3, np.int64), 1, value) == value


@pytest.mark.parametrize(("to", "start"), [(1, 0), (0, 1), (3, 3)])
def test_overlapping_words_move_whole(to: int, start: int) -> None:
    words = np.arange(8)
    moved(words, to, start, 4)
    expected = list(range(8))
    expected[to : to + 4] = range(start, start + 4)
    assert words.tolist() == expected


def test_another_source_or_another_setting_means_another_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in kernel.COMPILED_SOURCES:
        (tmp_path / folder / "deeper").mkdir(parents=True)
    monkeypatch.setattr(kernel, "PACKAGE", tmp_path)
    digests = {kernel.sources_digest()}
    (tmp_path / "engine" / "new.py").write_text("LIMIT = 1\n")
    digests.add(kernel.sources_digest())
    (tmp_path / "wire" / "deeper" / "new.py").write_text("LIMIT = 1\n")
    digests.add(kernel.sources_digest())
    (tmp_path / "engine" / "new.py").write_text("LIMIT = 2\n")
    digests.add(kernel.sources_digest())
    monkeypatch.setenv("NUMBA_BOUNDSCHECK", "other")
    digests.add(kernel.sources_digest())
    monkeypatch.setattr(kernel.settings, "CPU_NAME", "generic")
    digests.add(kernel.sources_digest())
    assert len(digests) == 6


def test_a_new_version_removes_what_nobody_has_used_for_a_month(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VENUE_CACHE_DIR", str(tmp_path))
    day_s = 24 * 3600

    def kept(name: str, days_ago: float) -> Path:
        folder = tmp_path / "kernels" / name
        folder.mkdir(parents=True)
        (folder / "run.nbi").write_bytes(b"code")
        os.utime(folder, (time.time() - days_ago * day_s,) * 2)
        return folder

    old, recent = kept("0123456789abcdef", 31), kept("fedcba9876543210", 29)
    somebody_elses = kept("photos", 400)
    monkeypatch.setattr(kernel, "sources_digest", lambda: recent.name)
    assert kernel.cache_folder() == recent
    assert old.exists(), "only a new version looks around"
    assert time.time() - recent.stat().st_mtime < day_s, "it is in use"
    monkeypatch.setattr(kernel, "sources_digest", lambda: "00000000ffffffff")
    new = kernel.cache_folder()
    assert sorted((tmp_path / "kernels").iterdir()) == sorted([new, recent, somebody_elses])


def test_a_cache_that_cannot_be_written_is_replaced_by_a_temporary_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = tmp_path / "a-file"
    blocked.write_text("")
    monkeypatch.setenv("VENUE_CACHE_DIR", str(blocked))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert kernel.cache_folder().parent.parent == tmp_path


def test_a_cache_that_can_only_be_read_is_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container whose image holds the kernels and whose file system is read-only."""
    monkeypatch.setenv("VENUE_CACHE_DIR", str(tmp_path / "image"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    filled = kernel.cache_folder() / "engine_0123"
    filled.mkdir()
    (filled / "loop.run-1.nbc").write_bytes(b"code")
    monkeypatch.setattr("os.access", lambda path, mode: False)
    folder = kernel.cache_folder()
    assert folder.parent.parent == tmp_path
    assert (folder / "engine_0123" / "loop.run-1.nbc").read_bytes() == b"code"
    assert kernel.cache_folder() == folder
    assert list(folder.parent.iterdir()) == [folder]


@pytest.mark.parametrize("made_by_others", ["open to all", "a link"])
def test_code_from_a_folder_that_others_can_write_is_never_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made_by_others: str
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    theirs = tmp_path / f"venue-kernels-{os.getuid()}"
    if made_by_others == "a link":
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        theirs.symlink_to(tmp_path / "elsewhere")
    else:
        theirs.mkdir()
        theirs.chmod(0o777)
    folder = kernel.temporary_folder(tmp_path / "original")
    assert theirs not in folder.parents
    assert folder.parent.stat().st_mode & 0o077 == 0


def test_importing_the_engine_is_enough_to_choose_the_cache(tmp_path: Path) -> None:
    code = "import numba, venue.engine.kernel as k; print(numba.config.CACHE_DIR == str(k.cache_folder()))"
    environment = {"VENUE_CACHE_DIR": str(tmp_path), "HOME": str(tmp_path), "PATH": ""}
    output = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert output.stdout == "True\n"
    assert len(list((tmp_path / "kernels").iterdir())) == 1
