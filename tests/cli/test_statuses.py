"""Exit statuses, interruptions, closed pipes, and what a terminal gets."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from unittest.mock import Mock

import pytest

import dosimeter
from dosimeter.dataset import Dataset
from tests.cli.command_line import Run
from tests.cli.test_risk_and_find import EAST, SUM
from tests.waiting import LONGEST_WAIT


def test_version(run: Run) -> None:
    assert run("--version").out == f"dosimeter {dosimeter.__version__}\n"


def test_closed_streams_get_nothing(patients: Path) -> None:
    """A shell's >&- closes standard output. The status is that of the command, and no traceback is shown."""
    command = [sys.executable, "-m", "dosimeter"]
    for words, closed, status in (
        (["explain", "no query", "--schema", "none.toml"], ">&-", 2),
        (["--version"], "<&- >&- 2>&-", 0),
    ):
        line = f'"$@" {closed}'
        finished = subprocess.run(
            ["sh", "-c", line, "sh", *command, *words], capture_output=True, text=True, timeout=LONGEST_WAIT
        )
        assert finished.returncode == status, (words, closed, finished.stderr)
        assert "Traceback" not in finished.stderr
        assert (finished.stderr != "") == (status != 0)


def test_a_bug_of_ours_is_status_3(run: Run, patients: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Dataset, "plan", Mock(side_effect=RuntimeError("Ann is 30")))
    monkeypatch.delenv("DOSIMETER_DEBUG", raising=False)
    outcome = run("risk", patients, SUM, "--json")
    assert (outcome.status, outcome.out) == (3, "")
    assert "a bug of ours (RuntimeError at " in outcome.err
    assert "report" in outcome.err
    assert "Ann" not in outcome.err
    assert "Traceback" not in outcome.err
    monkeypatch.setenv("DOSIMETER_DEBUG", "1")
    assert "Traceback" in run("risk", patients, SUM).err


# Says "ready" in the middle of its work, and would go on for hours.
COUNT_FOR_HOURS = """
import sys, threading, time
from sqlglot import exp
from dosimeter.cli import main
from dosimeter.dataset import Dataset
def watch(engine):
    while engine.progress() is None:
        time.sleep(0.01)
    sys.stderr.write("ready\\n")
    sys.stderr.flush()
def measure(self, *_, **__):
    threading.Thread(target=watch, args=(self.engine,), daemon=True).start()
    return self.engine.fetch(exp.select("MAX(HASH(range))").from_("RANGE(1000000000000)"))
Dataset.plan = measure
"""


def test_control_c_stops_the_work(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("x\n1\n")
    words = ["risk", path, "SELECT MEDIAN(x) FROM t"]
    process = subprocess.Popen(
        [sys.executable, "-c", COUNT_FOR_HOURS + "from dosimeter.__main__ import main as run\nrun()", *map(str, words)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    assert process.stderr is not None
    while (line := process.stderr.readline()) != "ready\n":
        assert line.startswith("dosimeter: measuring everybody's influence for ")  # on a slow machine
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=LONGEST_WAIT)
    said = [line for line in err.splitlines() if not line.endswith(" …")]
    assert (process.returncode, out, said) == (130, "", ["dosimeter: stopped."])


def test_a_closed_pipe_is_no_error(patients: Path) -> None:
    command = f"{sys.executable} -m dosimeter risk {patients} '{SUM}' --all | head -1; echo ${{PIPESTATUS[0]}}"
    finished = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True, timeout=LONGEST_WAIT)
    assert finished.stdout.splitlines() == [SUM, "0"]
    assert finished.stderr == ""


def read_from_terminal(words: list[str], environment: Mapping[str, str]) -> str:
    """What a command prints on a terminal of 80 columns."""
    ours, theirs = pty.openpty()
    settings = {**os.environ, "COLUMNS": "80", "LINES": "50", "TERM": "xterm-256color", **environment}
    for name in {"NO_COLOR", "FORCE_COLOR"} - set(environment):
        settings.pop(name, None)
    with subprocess.Popen(
        [sys.executable, "-m", "dosimeter", *words], stdin=theirs, stdout=theirs, stderr=theirs, env=settings
    ) as process:
        os.close(theirs)
        parts = []
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # Linux: the other end is closed
                break
            if not part:
                break
            parts.append(part)
        assert process.wait(timeout=LONGEST_WAIT) == 0
    os.close(ours)
    return b"".join(parts).decode()


def test_a_terminal_gets_colours_unless_told_otherwise(patients: Path) -> None:
    words = ["find", str(patients), EAST, "--prefer", "ratio:0.9"]
    colour = re.compile(r"\x1b\[[0-9;]*3[0-9]")
    coloured, plain = read_from_terminal(words, {}), read_from_terminal(words, {"NO_COLOR": "1"})
    assert colour.search(coloured)
    assert not colour.search(plain)
    lines = [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", line) for line in plain.splitlines()]
    assert max(map(len, lines)) <= 80


def test_output_survives_a_terminal_without_unicode(patients: Path) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    words = [sys.executable, "-m", "dosimeter", "risk", str(patients)]
    query = "SELECT COUNT(*) FROM patients WHERE ward = 'Œst'"
    finished = subprocess.run(
        [*words, query, "--json"], capture_output=True, text=True, check=True, timeout=LONGEST_WAIT, env=environment
    )
    assert finished.stdout.isascii()
    assert json.loads(finished.stdout)["query"] == query
