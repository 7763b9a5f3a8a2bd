"""Ctrl-C and SIGTERM at any moment: one line, its status, and nothing charged that is not named."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from dosimeter.cli import progress
from dosimeter.cli.progress import run_with_progress
from dosimeter.engines import Engine, ReadOptions, open_engine
from dosimeter.errors import Interrupted, LedgerError
from dosimeter.ledger import Ledger
from tests.cli.small_shop import COUNT, Shop
from tests.waiting import LONGEST_WAIT, wait_until

STOPPED = "dosimeter: stopped."
NAMED = re.compile(rf"{re.escape(STOPPED)} The answer had been charged: entry (\w+) of the ledger, .*\n")


@pytest.fixture
def large_shop(shop: Shop) -> Shop:
    """So many rows that reading them is a part of the time."""
    rows = shop.data.read_text(encoding="utf-8").splitlines()
    shop.data.write_text("\n".join([rows[0], *rows[1:] * 20_000]) + "\n", encoding="utf-8")
    return shop


def start(words: list[str]) -> subprocess.Popen[str]:
    """Start a command, and return once it catches SIGTERM: Python itself does not, and it has no say before."""
    if not Path("/proc/self/status").exists():
        pytest.skip("this system has no /proc that tells which signals a process catches")
    process = subprocess.Popen(
        [sys.executable, "-m", "dosimeter", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )

    def catches() -> bool:
        found = re.search(r"SigCgt:\s*(\w+)", Path(f"/proc/{process.pid}/status").read_text(encoding="ascii"))
        return found is not None and bool(int(found[1], 16) >> (signal.SIGTERM - 1) & 1)

    wait_until(catches, "the command catches signals")
    return process


def interrupt_releases(shop: Shop, times: int, number: signal.Signals) -> int:
    """Interrupt a release at as many moments, spread over its length, and return how many were stopped."""
    words = shop.words(COUNT, "--epsilon", "0.001", "--policy", "budget:10", "--again", "--json")
    begun = time.monotonic()
    first = start(words)
    first.communicate(timeout=LONGEST_WAIT)
    assert first.returncode == 0
    length, stopped, charged = time.monotonic() - begun, 0, 1
    for at in range(times):
        process = start(words)
        time.sleep(length * at / times)
        process.send_signal(number)
        out, err = process.communicate(timeout=LONGEST_WAIT)
        named = NAMED.fullmatch(err)
        stopped += process.returncode != 0
        charged += named is not None or process.returncode == 0
        if process.returncode == 0:
            assert json.loads(out)["status"] == "released"
        else:
            assert process.returncode == 128 + number, err
            assert named or err == f"{STOPPED}\n"
    with Ledger.open(str(shop.ledger)) as ledger:
        assert ledger.verify().intact
        entries = ledger.entries("shop", limit=1_000)
    assert [entry.status for entry in entries] == ["released"] * charged
    return stopped


@pytest.mark.parametrize(
    ("times", "number"),
    [(4, signal.SIGINT), (2, signal.SIGTERM), pytest.param(50, signal.SIGINT, marks=pytest.mark.long)],
)
def test_a_release_ends_quietly(large_shop: Shop, times: int, number: signal.Signals) -> None:
    assert interrupt_releases(large_shop, times, number) >= max(
        1, times // 10
    )  # the first comes while modules are being loaded


def test_a_signal_that_is_ignored_stays_ignored(large_shop: Shop) -> None:
    """As nohup does, and a shell for what runs in the background."""
    words = [sys.executable, "-m", "dosimeter", *large_shop.words(COUNT, "--epsilon", "0.5", "--policy", "paper")]
    script = "import signal, subprocess, sys; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
    script += "process = subprocess.Popen(sys.argv[1:])\nprocess.send_signal(signal.SIGINT)\nsys.exit(process.wait())"
    ended = subprocess.run([sys.executable, "-c", script, *words], capture_output=True, text=True, timeout=LONGEST_WAIT)
    assert ended.returncode == 0
    assert STOPPED not in ended.stderr


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    path = tmp_path / "t.csv"
    path.write_text("x\n1\n", encoding="utf-8")
    return open_engine(str(path), None, ReadOptions())


def press_control_c() -> int:
    """Be interrupted and finish all the same, as a release does whose charge is on disk."""
    signal.raise_signal(signal.SIGINT)  # in this thread, so that it has arrived before the work ends
    return 7


def test_what_was_done_before_the_stop_is_told(engine: Engine) -> None:
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(Interrupted, match=r"^stopped\. Seven is done\.$") as caught:
        run_with_progress(engine, "Counting", press_control_c, tell=lambda found: f"{'Seven' * (found == 7)} is done.")
    assert caught.value.exit_code == 130
    with pytest.raises(Interrupted, match=r"^stopped\.$"):
        run_with_progress(engine, "Counting", press_control_c)

    def fail() -> int:
        press_control_c()
        raise LedgerError("entry 12 stays reserved.")

    with pytest.raises(LedgerError, match="entry 12"):
        run_with_progress(engine, "Releasing", fail)
    assert signal.getsignal(signal.SIGINT) is before


Said = Callable[[int], list[str]]


@pytest.fixture
def wait_for_lines(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Said:
    """Return so many lines of progress, once they were said; they come at once and not after five seconds."""
    monkeypatch.setattr(progress, "FIRST_LINE", 0.01)

    def wait(number: int) -> list[str]:
        said = ""

        def is_said() -> bool:
            nonlocal said
            said += capsys.readouterr().err
            return said.count("\n") >= number

        wait_until(is_said, f"{number} lines")
        return [re.sub(r"[\d,]+ s", "N s", line) for line in said.splitlines()[:number]]

    return wait


def test_a_line_now_and_then_where_there_is_no_terminal_and_none_goes_backwards(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, wait_for_lines: Said
) -> None:
    """An engine's share begins anew with every query: 77, 53, 0, 80 is told as 77 and 80."""
    shares, lines = iter([77.0, 53.0, 0.0]), list[str]()
    monkeypatch.setattr(type(engine), "progress", lambda _: next(shares, 80.0))
    run_with_progress(engine, "Releasing", lambda: lines.extend(wait_for_lines(4)))
    assert all(line.startswith("dosimeter: releasing for N s") for line in lines)
    assert [re.findall(r"(\d+) % done", line) for line in lines] == [["77"], [], [], ["80"]]


def test_work_of_several_parts_says_which_one_it_is_at(engine: Engine, wait_for_lines: Said) -> None:
    """A search for facts, column by column."""
    done, lines = ["Counting"], list[str]()

    def work() -> None:
        lines.extend(wait_for_lines(1))
        done.append("Searching age (1 of 2)")
        lines.extend(wait_for_lines(4))

    run_with_progress(engine, lambda: done[-1], work)
    assert lines[0].startswith("dosimeter: counting for N s")
    assert lines[-1].startswith("dosimeter: searching age (1 of 2) for N s")


def test_opening_says_so_too(wait_for_lines: Said) -> None:
    with progress.say_meanwhile("Opening the data"):
        assert set(wait_for_lines(2)) == {"dosimeter: opening the data for N s …"}


CONTROL_C = """
import os, signal, sys, threading, time
from sqlglot import exp
from dosimeter.engines import ReadOptions, open_engine
engine = open_engine(sys.argv[1], None, ReadOptions())
def press():
    while engine.progress() is None:
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=press, daemon=True).start()
try:
    while True:  # DuckDB looks for signals now and then, or at a query's end
        engine.fetch(exp.select("MAX(HASH(range))").from_("RANGE(500000000)"))
except KeyboardInterrupt:
    sys.stdout.write("KeyboardInterrupt")
"""


def test_control_c_in_python_is_a_keyboard_interrupt(tmp_path: Path) -> None:
    """And no RuntimeError, which would count as an incident while a release is measured."""
    path = tmp_path / "t.csv"
    path.write_text("x\n1\n", encoding="utf-8")
    words = [sys.executable, "-c", CONTROL_C, str(path)]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=LONGEST_WAIT)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "KeyboardInterrupt", "")
