"""Exit statuses and last words where something outside of the question goes wrong."""

from __future__ import annotations

import errno
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest

from dosimeter.cli import main
from tests.cli.command_line import Run, check_refusal
from tests.cli.small_shop import COUNT, Shop

TERMS = ("--epsilon", "1", "--policy", "budget:2")


def test_a_full_disk_after_the_release_is_no_bug_and_the_answer_is_kept(shop: Shop) -> None:
    """/dev/full takes every write and keeps none: the charge is on record before anything is printed."""
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("this system has no /dev/full to write to")
    words = [sys.executable, "-m", "dosimeter", *shop.words(COUNT, *TERMS, "--json")]
    with full.open("w") as nowhere:
        finished = subprocess.run(words, stdout=nowhere, stderr=subprocess.PIPE, text=True, check=False, timeout=300)
    assert finished.returncode == 2
    assert "cannot be written" in finished.stderr
    assert "bug" not in finished.stderr
    assert [entry["status"] for entry in shop.accounts()[0]["entries"]] == ["released"]


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_a_full_disk_under_the_output_leaves_no_file_and_loses_no_answer(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    words = shop.words(COUNT, *TERMS, "-o", str(folder / f"answer{ending}"))

    def fill(_: object, path: Path, __: str) -> None:
        path.write_bytes(b"")
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("dosimeter.release.saved_files._write_table", fill)
        failed = shop.run(*words)
    assert failed.status == 2
    assert "disk is full. The answer is released" in failed.err
    assert list(folder.iterdir()) == []
    assert shop.run(*words).status == 0
    assert {path.name for path in folder.iterdir()} == {f"answer{ending}", "answer.json"}
    assert [entry["charge"] for entry in shop.accounts()[0]["entries"]] == [1]


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


def test_sigterm_during_a_release_is_an_interrupt_and_no_incident(shop: Shop) -> None:
    words = [sys.executable, "-c", TERMINATED, *shop.words(COUNT, *TERMS)]
    ended = subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)
    assert (ended.returncode, ended.stdout, ended.stderr) == (143, "", "dosimeter: stopped.\n")
    assert shop.accounts() == []  # nor is the dataset stopped


def test_how_something_else_ends_the_process_is_passed_on(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dosimeter.dataset.Dataset.plan", Mock(side_effect=SystemExit(5)))
    assert main(["risk", str(shop.data), COUNT]) == 5


def test_limits_of_the_noisy_test_do_not_depend_on_the_data(shop: Shop) -> None:
    """Refused in words, whether or not a release of these data would be denied."""
    words = ("--policy", "budget:9999", "--variance", "1", "--svt", "1000")
    sound = shop.release("SELECT COUNT(*) FROM shop", *words)
    shop.write_data(last="inf")
    odd = shop.release("SELECT COUNT(*) FROM shop", *words)
    check_refusal(sound, "--svt")
    assert odd == sound


def test_columns_of_several_rows_are_refused(run: Run, tmp_path: Path) -> None:
    data, facts = tmp_path / "visits.csv", tmp_path / "visits.toml"
    data.write_text("pid,vid\n1,1\n1,2\n2,3\n")
    facts.write_text(
        'table = "visits"\nindividuals = 2\nunit = "pid"\nmax_rows_per_unit = 2\nrow_key = "vid"\n'
        '[columns.pid]\ntype = "integer"\n[columns.vid]\ntype = "integer"\n'
    )
    words = ("risk", data, "SELECT COUNT(*) FROM visits", "--schema", facts, "--top", "1")
    assert run(*words).status == 0
    check_refusal(run(*words, "--columns", "vid"), "--columns")


def test_more_numbers_than_anybody_reads_are_refused(run: Run, patients_schema: Path) -> None:
    for many, groups in ((200, "age, since"), (120, "since")):
        measured = ", ".join(f"STDDEV_POP(age * {at})" for at in range(1, many))
        query = f"SELECT {groups}, {measured} FROM patients GROUP BY {groups}"
        check_refusal(run("explain", query, "--schema", patients_schema), "fewer")
