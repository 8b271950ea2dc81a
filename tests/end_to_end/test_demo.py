"""`venue demo` as a new user meets it: a subprocess in an empty home; only the compiled kernels are shared."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from venue.engine.kernel import cache_folder
from venue.telemetry.pages import private_folder

STARTS_WITHIN_S = 300
"""The first start compiles, and the machine may be busy."""

pytestmark = pytest.mark.timeout(2 * STARTS_WITHIN_S)


class Run:
    """A running demo in a process group of its own, as a shell would start it."""

    def __init__(self, home: Path, *arguments: str) -> None:
        self.temporary = home / "tmp"
        self.temporary.mkdir()
        self.exchange = 0
        self.seen = ""
        kernels = cache_folder().parent.parent
        environment = {
            name: value
            for name, value in os.environ.items()
            if name in ("PATH", "PYTHONPATH", "LANG", "NUMBA_DISABLE_JIT", "NUMBA_BOUNDSCHECK")
        }
        environment |= {"HOME": str(home), "TMPDIR": str(self.temporary), "VENUE_CACHE_DIR": str(kernels)}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "venue", "demo", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            cwd=home,
            process_group=0,
        )
        self.watchdog = threading.Timer(STARTS_WITHIN_S, self.kill)
        self.watchdog.start()

    def started(self) -> Run:
        """Wait until it has started its exchange, a child of it."""
        self.wait_for("^starting an exchange")
        tasks = Path("/proc", str(self.process.pid), "task").iterdir()
        [self.exchange] = [int(child) for task in tasks for child in (task / "children").read_text().split()]
        return self

    def wait_for(self, pattern: str) -> None:
        """Until a line of standard error matches."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.seen += line
            if re.search(pattern, line):
                return
        raise AssertionError(f"no line with {pattern!r}: {self.seen}")

    def interrupt(self) -> None:
        """As a terminal does: the whole group gets it."""
        os.killpg(self.process.pid, signal.SIGINT)

    def finish(self) -> tuple[int, str, str]:
        """Exit code, standard output, standard error."""
        out, err = self.process.communicate()
        return self.process.returncode, out, self.seen + err

    def left_behind(self) -> list[str]:
        """Files, the exchange's counters page, processes of the group."""
        left = [str(path) for path in [*self.temporary.iterdir(), *self.pages()]]
        try:
            os.killpg(self.process.pid, 0)
            left.append("processes")
        except ProcessLookupError:
            pass
        return left

    def pages(self) -> list[Path]:
        return list(private_folder().glob(f"{self.exchange}-*"))

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def close(self) -> None:
        self.watchdog.cancel()
        self.kill()
        self.process.communicate()


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Callable[..., Run]]:
    runs: list[Run] = []

    def start(*arguments: str) -> Run:
        runs.append(Run(tmp_path, *arguments))
        return runs[-1]

    yield start
    for run in runs:
        run.close()


def figures(report: str) -> dict[str, list[int]]:
    """The rows of the report by their words: the numbers in each."""
    found: dict[str, list[int]] = {}
    for words, numbers in re.findall(r"([A-Za-z][A-Za-z ]*?)  +((?:[\d,]+(?: +(?=\d|$))?)+)", report, re.MULTILINE):
        found[words.split("  ")[-1].strip()] = [int(number.replace(",", "")) for number in numbers.split()]
    for count, outcome in re.findall(r"([\d,]+) (accepted|replaced|canceled|rejected)", report):
        found[outcome] = [int(count.replace(",", ""))]
    return found


def test_a_demo_trades_reports_and_leaves_nothing_behind(demo) -> None:
    run = demo("--seconds", "5").started()
    code, out, err = run.finish()
    assert code == 0, err
    assert "\x1b" not in out + err
    assert "Traceback" not in err
    assert re.search(r"^00:03 .*feed [\d,]+/s, 0 lost .*trades [\d,]+, [\d,]+ shares .*p99 \d", err, re.MULTILINE)
    assert re.search(r"^Watch it in a browser: http://127\.0\.0\.1:\d+/$", err, re.MULTILINE)

    found = figures(out)
    maker, taker = found["quotes around the touch"], found["trades at random"]
    between, recorded = found["trades between the two"], found["trades with recorded orders"]
    assert min(*maker, *taker, *between, *recorded) > 0
    assert [a + b for a, b in zip(between, recorded, strict=True)] == found["trades in all"]
    assert found["accepted"][0] > 50
    assert found["rejected"] == [0]

    assert found["messages received"] == found["messages sent"]
    assert found["messages sent"][0] > 10_000
    for name in ("missing", "unknown references"):
        assert found[name] == [0]

    for name in ("order to ack", "wait on the ring", "risk checks and match", "encode and write", "datagram to book"):
        assert re.search(rf"^ *{name}(  +[\d.]+ (ns|µs|ms|s)){{5}} *$", out, re.MULTILINE), out
    assert run.left_behind() == []


def test_ctrl_c_on_the_way_reports_what_there_is_and_leaves_nothing_behind(demo) -> None:
    run = demo("--seconds", "300").started()
    run.wait_for(r"^00:03 .* trades [1-9]")
    run.interrupt()
    code, out, err = run.finish()
    assert code == 128 + signal.SIGINT, err
    assert "Traceback" not in err
    assert figures(out)["trades in all"][0] > 0
    assert run.left_behind() == []


def test_ctrl_c_while_the_exchange_starts_stops_it_and_leaves_nothing_behind(demo) -> None:
    run = demo().started()
    run.interrupt()
    code, out, err = run.finish()
    assert (code, out, err.splitlines()[1:]) == (128 + signal.SIGINT, "", ["stopped"])
    assert run.left_behind() == []


def test_an_exchange_that_dies_is_one_clear_line_after_its_log(demo) -> None:
    run = demo("--seconds", "300").started()
    run.wait_for(r"^00:03 ")
    os.kill(run.exchange, signal.SIGKILL)
    code, out, err = run.finish()
    assert (code, out) == (1, "")
    assert err.splitlines()[-1] == "venue demo: the exchange ended with signal 9"
    assert '"event":"kernels ready"' in err
    assert "Traceback" not in err
    for page in run.pages():  # what a crash leaves on purpose
        page.unlink()
    assert run.left_behind() == []


def test_keep_goes_on_after_the_report_and_says_what_to_try(demo, tmp_path) -> None:
    run = demo("--seconds", "1", "--keep").started()
    run.wait_for(r"^00:06 .* feed [1-9]")  # longer than it was asked to play
    trying = re.compile(r"^    (.* trade buy AAPL 100 \d+\.\d+ --port \d+)$", re.MULTILINE)
    assert run.process.stdout is not None
    report = ""
    while not (found := trying.search(report)):
        report += run.process.stdout.readline()
    tried = subprocess.run(found[1].split(), capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert tried.returncode == 0, tried.stderr
    assert tried.stdout.startswith("accepted #1 buy 100 AAPL")
    run.interrupt()
    code, out, err = run.finish()
    assert (code, err.splitlines()[-1]) == (0, "stopped")
    assert "trades in all" in report + out
    assert run.left_behind() == []


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, r"cannot read .*day\.itch: no such file or directory"),
        (b"", r"day\.itch is empty"),
        (b"# no market data\n" * 100, r"day\.itch is no capture: expected BinaryFILE"),
        (b"\0\x0cS" + bytes(10) + b"O", r"day\.itch holds no orders: nothing can be traded on it"),
    ],
)
def test_a_bad_file_is_one_line_and_exit_code_2(demo, tmp_path: Path, content: bytes | None, reason: str) -> None:
    path = tmp_path / "day.itch"
    if content is not None:
        path.write_bytes(content)
    run = demo(str(path))
    code, out, err = run.finish()
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert re.match(f"venue: .*{reason}", err)
    assert run.left_behind() == []
