"""The counters page: who may read it, what is refused, and what is left behind by a crash."""

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import venue
from venue.engine.cells import ROW, SUM
from venue.engine.counters import ACCOUNTS, MATCH, MATCHER
from venue.engine.histogram import record
from venue.telemetry import page as page_module
from venue.telemetry import pages
from venue.telemetry.page import ALIGNMENT, HEADER, LAYOUT, LAYOUT_VERSION, SIZE_BYTES, State, create, open_read_only
from venue.telemetry.pages import DEAD_PAGES_KEPT, PageError, list_pages, process_start_ticks

README = Path(page_module.__file__).with_name("README.md")

CRASH = """
import os, sys
from pathlib import Path
from venue.telemetry.page import State, create
page = create(mode="consume", accounts=["alice"], folder=Path(sys.argv[1]))
page.matcher["fills"][0] = 7
page.set_state(State.READY)
print(page.path, flush=True)
os._exit(1)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "pages"


def crash_a_service(folder: Path) -> Path:
    done = subprocess.run([sys.executable, "-c", CRASH, str(folder)], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return Path(done.stdout.strip())


def test_a_reader_sees_what_the_owner_writes(folder: Path) -> None:
    owner = create(mode="consume", accounts=["alice", "bob"], folder=folder)
    reader = open_read_only(owner.path)
    assert (reader.state, reader.mode, reader.venue_version) == (State.STARTING, "consume", venue.__version__)
    assert reader.account_names() == ["alice", "bob"]
    assert reader.owner_alive()

    owner.set_state(State.READY)
    owner.matcher[0]["orders_rejected"][0x1D] += 1
    record(owner.histograms[MATCH], 100)

    assert reader.state is State.READY
    assert reader.matcher["orders_rejected"][0, 0x1D] == 1
    assert reader.histograms[MATCH].sum() == 1 + 100
    assert 0 <= reader.heartbeat_age_s() < 5


def test_a_snapshot_does_not_change(folder: Path) -> None:
    owner = create(mode="match", folder=folder)
    owner.feed["gaps"][0] = 1
    snapshot = open_read_only(owner.path).snapshot()
    owner.feed["gaps"][0] = 2
    assert snapshot.feed["gaps"][0] == 1


def test_a_snapshot_ends_with_the_last_account(folder: Path) -> None:
    owner = create(mode="match", accounts=["alice", "bob"], folder=folder)
    record(owner.account_histograms[1], 100)
    assert owner.account_histograms.shape == (ACCOUNTS, ROW)
    snapshot = open_read_only(owner.path).snapshot()
    assert snapshot.account_histograms.shape == (2, ROW)
    assert snapshot.account_histograms.sum(axis=1).tolist() == [0, 1 + 100]
    assert create(mode="match", folder=folder).snapshot().account_histograms.shape == (0, ROW)


def test_each_matching_thread_has_its_sections_and_a_snapshot_shows_all_in_one(folder: Path) -> None:
    owner = create(mode="consume", accounts=["alice", "bob"], shards=3, folder=folder)
    assert owner.path.stat().st_size == page_module.size_bytes(3)
    for number, shard in enumerate(owner.shards, 1):
        shard.matcher["fills"][0] = 10**number
        shard.matcher["orders_rejected"][0, 0x1D] = number
        shard.matcher["last_feed_time_ns"][0] = 7 - number
        shard.exposures["open_orders"][1] = number
        shard.exposures["max_open_orders"][1] = 5
        record(shard.histograms[MATCH], 100)
    owner.account_histograms[1, 0] = 9

    reader = open_read_only(owner.path)
    assert [int(shard.matcher["fills"][0]) for shard in reader.shards] == [10, 100, 1_000]
    assert reader.matcher["fills"][0] == 10, "the first thread's own"
    together = reader.snapshot()
    assert together.matcher["fills"][0] == 1_110
    assert together.matcher["orders_rejected"][0, 0x1D] == 6
    assert together.matcher["last_feed_time_ns"][0] == 6, "of times the latest"
    assert (together.exposures["open_orders"][1], together.exposures["max_open_orders"][1]) == (6, 5)
    assert together.histograms[MATCH, SUM] == 300
    assert together.account_histograms[1, 0] == 9
    assert len(together.account_histograms) == 2


def test_a_reader_cannot_write(folder: Path) -> None:
    reader = open_read_only(create(mode="match", folder=folder).path)
    with pytest.raises(ValueError, match="read-only"):
        reader.matcher["fills"][0] = 1


def test_only_the_user_may_look(folder: Path) -> None:
    path = create(mode="match", folder=folder).path
    assert folder.stat().st_mode & 0o777 == 0o700
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_clean_stop_removes_the_page_and_its_arrays_stay_valid(folder: Path) -> None:
    owner = create(mode="match", folder=folder)
    reader = open_read_only(owner.path)
    owner.remove()
    owner.remove()
    owner.matcher["fills"][0] = 3
    assert list_pages(folder) == []
    assert reader.matcher["fills"][0] == 3


def test_one_process_can_have_several_pages(folder: Path) -> None:
    paths = {create(mode="match", folder=folder).path for _ in range(3)}
    assert {page.path for page in list_pages(folder) if page.alive and page.pid == os.getpid()} == paths
    assert len(paths) == 3


def test_a_crashed_services_page_can_still_be_read(folder: Path) -> None:
    path = crash_a_service(folder)
    alive = create(mode="match", folder=folder)
    assert [(page.path, page.alive) for page in list_pages(folder)] == [(alive.path, True), (path, False)]

    crashed = open_read_only(path)
    assert not crashed.owner_alive()
    assert crashed.matcher["fills"][0] == 7
    assert crashed.state is State.READY


def test_a_later_process_with_the_same_pid_is_not_the_owner(folder: Path) -> None:
    page = create(mode="match", folder=folder)
    page.header["process_start_ticks"] -= 1
    assert not page.owner_alive()
    pid, start, number = page.path.stem.split("-")
    page.path.rename(folder / f"{pid}-{int(start) - 1}-{number}.page")
    assert [page.alive for page in list_pages(folder)] == [False]


def test_a_process_that_only_waits_to_be_reaped_is_dead() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        assert process_start_ticks(child.pid) is not None
        assert child.stdin is not None
        child.stdin.close()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and nobody has reaped it
        assert process_start_ticks(child.pid) is None


def test_only_the_newest_dead_pages_are_kept(folder: Path) -> None:
    living = create(mode="match", folder=folder).path
    for age in range(DEAD_PAGES_KEPT + 3):
        dead = folder / f"{os.getpid()}-1-{age}.page"
        dead.write_bytes(b"")
        os.utime(dead, ns=(0, 10**18 - age))
    stranger = folder / "notes.txt"
    stranger.write_text("not a page")

    create(mode="match", folder=folder)

    left = [page.path.name for page in list_pages(folder) if not page.alive]
    assert left == [f"{os.getpid()}-1-{age}.page" for age in range(DEAD_PAGES_KEPT)]
    assert living.exists()
    assert stranger.exists()


def spoil(field: str, value: int) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        content = bytearray(path.read_bytes())
        np.frombuffer(content, HEADER, 1)[field][0] = value
        path.write_bytes(content)

    return change


def replace_by_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def replace_by_link(path: Path) -> None:
    path.rename(path.with_name("real"))
    path.symlink_to("real")


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (Path.unlink, "No such file"),
        (lambda path: path.write_bytes(b""), "not a counters page"),
        (lambda path: path.write_bytes(b"VENUEPG\n"), "not a counters page"),
        (lambda path: path.write_bytes(b"x" * SIZE_BYTES), "not a counters page"),
        (spoil("magic", 0), "not a counters page"),
        (spoil("layout_version", LAYOUT_VERSION + 1), f"layout version {LAYOUT_VERSION + 1}, this venue reads"),
        (spoil("size_bytes", 1), "damaged"),
        (spoil("shards", 0), "damaged"),
        (spoil("shards", 2), "damaged"),
        (spoil("shards", 1 << 40), "damaged"),
        (lambda path: path.write_bytes(path.read_bytes()[:-1]), "damaged"),
        (replace_by_fifo, "not a counters page"),
        (replace_by_link, "symbolic links"),
    ],
)
def test_what_is_no_page_is_refused_in_one_line(folder: Path, damage: Callable[[Path], None], complaint: str) -> None:
    path = create(mode="match", folder=folder).path
    damage(path)
    with pytest.raises(PageError, match=complaint) as caught:
        open_read_only(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_folder_that_others_may_enter_is_refused(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir(mode=0o755)
    with pytest.raises(PageError, match="mode 0700"):
        create(mode="match", folder=shared)
    link = tmp_path / "link"
    link.symlink_to(tmp_path)
    with pytest.raises(PageError, match="mode 0700"):
        create(mode="match", folder=link)


@pytest.mark.parametrize("names", [[""], ["nine char"], ["é"], ["a"] * (ACCOUNTS + 1)])
def test_accounts_that_do_not_fit_are_refused_before_anything_is_created(folder: Path, names: list[str]) -> None:
    with pytest.raises(PageError, match="account"):
        create(mode="match", accounts=names, folder=folder)
    assert not folder.exists()


def test_no_room_in_shared_memory_is_a_clear_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(PageError, match=r"no room .*No space left"):
        create(mode="match", folder=folder)
    assert list_pages(folder) == []


def test_the_default_folder_is_the_users_own() -> None:
    assert pages.private_folder().name == f"venue-{os.geteuid()}"


def test_sections_share_no_cache_line_and_all_counters_are_int64() -> None:
    end = 0
    for section in LAYOUT:
        assert section.offset % ALIGNMENT == 0
        assert section.offset >= end
        end = section.offset + section.size_bytes
    assert end <= SIZE_BYTES
    assert {MATCHER.fields[name][0].base for name in MATCHER.names} == {np.dtype(np.int64)}


def test_the_readme_describes_this_layout() -> None:
    text = README.read_text()
    assert f"Layout version {LAYOUT_VERSION}, {SIZE_BYTES} bytes" in text
    for section in LAYOUT:
        assert f"| `{section.name}` | {section.offset} | {section.size_bytes} | {section.writer} |" in text
