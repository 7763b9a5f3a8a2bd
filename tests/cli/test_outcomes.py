"""Exit statuses and last words where something outside of the question goes wrong."""

from __future__ import annotations

import errno
import subprocess
import sys
from pathlib import Path

import pytest

from dosimeter import Ledger
from dosimeter.cli import main
from tests.cli.command_line import Run

COUNT = "SELECT COUNT(*) FROM patients"


def test_a_full_disk_after_the_release_is_no_bug_and_the_answer_is_kept(
    patients: Path, patients_schema: Path, tmp_path: Path
) -> None:
    """/dev/full takes every write and keeps none: the charge is on record before anything is printed."""
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("this system has no /dev/full to write to")
    ledger = tmp_path / "ledger.db"
    words = ["release", str(patients), COUNT, "--schema", str(patients_schema), "--ledger", str(ledger)]
    with full.open("w") as nowhere:
        finished = subprocess.run(
            [sys.executable, "-m", "dosimeter", *words, "--epsilon", "1", "--policy", "budget:2", "--json"],
            stdout=nowhere, stderr=subprocess.PIPE, text=True, check=False, timeout=300,
        )  # fmt: skip
    assert finished.returncode == 2
    assert "cannot be written" in finished.stderr
    assert "bug" not in finished.stderr
    with Ledger.open(ledger, create=False) as open_ledger:
        account = open_ledger.account("patients")
        assert account is not None
        assert [entry.status for entry in account.entries] == ["released"]


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_a_full_disk_under_the_output_leaves_no_file_and_loses_no_answer(
    run: Run, patients: Path, patients_schema: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    ledger, folder = tmp_path / "ledger.db", tmp_path / "out"
    folder.mkdir()
    words = ["release", patients, COUNT, "--schema", patients_schema, "--ledger", ledger, "--epsilon", "1"]
    words += ["--policy", "budget:2", "-o", folder / f"answer{ending}"]

    def fill(_: object, path: Path, __: str) -> None:
        path.write_bytes(b"")
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("dosimeter.release.saved_files._write_table", fill)
        failed = run(*words)
    assert failed.status == 2
    assert "disk is full. The answer is released and stands in the ledger" in failed.err
    assert list(folder.iterdir()) == []
    assert run(*words).status == 0
    assert {path.name for path in folder.iterdir()} == {f"answer{ending}", "answer.json"}
    with Ledger.open(ledger, create=False) as open_ledger:
        account = open_ledger.account("patients")
        assert account is not None
        assert [str(entry.charge) for entry in account.entries] == ["1"]


TERMINATED = """
import os, signal, sys
from dosimeter.__main__ import main
from dosimeter.release import run
measure = run._measure
def end_and_measure(*arguments):
    os.kill(os.getpid(), signal.SIGTERM)
    while True:
        measure(*arguments)  # until the engine is interrupted
run._measure = end_and_measure
main()
"""


def test_sigterm_during_a_release_is_an_interrupt_and_no_incident(
    patients: Path, patients_schema: Path, tmp_path: Path
) -> None:
    ledger = tmp_path / "ledger.db"
    words = ["release", str(patients), COUNT, "--schema", str(patients_schema), "--ledger", str(ledger)]
    ended = subprocess.run(
        [sys.executable, "-c", TERMINATED, *words, "--epsilon", "1", "--policy", "budget:2"],
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert (ended.returncode, ended.stdout, ended.stderr) == (143, "", "dosimeter: stopped.\n")
    with Ledger.open(ledger, create=False) as open_ledger:
        assert (open_ledger.accounts(), open_ledger.stopped("patients")) == ((), None)


def test_how_something_else_ends_the_process_is_passed_on(monkeypatch: pytest.MonkeyPatch, patients: Path) -> None:
    def leave(*_: object, **__: object) -> None:
        sys.exit(5)

    monkeypatch.setattr("dosimeter.dataset.Dataset.plan", leave)
    assert main(["risk", str(patients), COUNT]) == 5


def test_limits_of_the_noisy_test_do_not_depend_on_the_data(
    run: Run, patients: Path, patients_schema: Path, tmp_path: Path
) -> None:
    """Refused in words, whether or not a release of these data would be denied."""
    words = ["--schema", patients_schema, "--ledger", tmp_path / "l.db", "--policy", "budget:9999", "--variance", "1"]
    sound = run("release", patients, COUNT, *words, "--svt", "1000")
    patients.write_text(patients.read_text().replace("10.50", "inf"))
    odd = run("release", patients, COUNT, *words, "--svt", "1000")
    assert (odd.status, odd.err) == (sound.status, sound.err) == (2, sound.err)
    assert "--svt" in sound.err


def test_columns_of_several_rows_are_refused(run: Run, tmp_path: Path) -> None:
    data, facts = tmp_path / "visits.csv", tmp_path / "visits.toml"
    data.write_text("pid,vid\n1,1\n1,2\n2,3\n")
    facts.write_text(
        'table = "visits"\nindividuals = 2\nunit = "pid"\nmax_rows_per_unit = 2\nrow_key = "vid"\n'
        '[columns.pid]\ntype = "integer"\n[columns.vid]\ntype = "integer"\n'
    )
    words = ("risk", data, "SELECT COUNT(*) FROM visits", "--schema", facts, "--top", "1")
    assert run(*words).status == 0
    outcome = run(*words, "--columns", "vid")
    assert outcome.status == 2
    assert "--columns" in outcome.err


def test_more_numbers_than_anybody_reads_are_refused(run: Run, patients: Path, patients_schema: Path) -> None:
    measured = ", ".join(f"STDDEV_POP(age * {at})" for at in range(1, 200))
    outcome = run(
        "explain", f"SELECT age, since, {measured} FROM patients GROUP BY age, since", "--schema", patients_schema
    )
    assert outcome.status == 2
    measured = ", ".join(f"STDDEV_POP(age * {at})" for at in range(1, 120))
    outcome = run("explain", f"SELECT since, {measured} FROM patients GROUP BY since", "--schema", patients_schema)
    assert outcome.status == 2
    assert "fewer aggregates or fewer groups" in outcome.err
