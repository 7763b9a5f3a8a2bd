"""Killed at any step of a release: never an answer without a charge, and the books always open and verify."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest

from dosimeter.cli import main
from dosimeter.ledger import Ledger
from tests.ledger.release_worker import EPSILON, QUERY, STEPS, name_dataset, open_table

WORKER = Path(__file__).with_name("release_worker.py")
SOURCES = Path(__file__).parents[2] / "src"
CHARGE = Decimal(str(EPSILON))


def run_release_worker(*arguments: str) -> list[object]:
    result = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", str(WORKER), *arguments],
        env={**os.environ, "PYTHONPATH": str(SOURCES)},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)  # type: ignore[no-any-return]


def kill_everywhere(target: str, outbox: Path, repeats: int) -> None:
    """Each step has a dataset of its own in one ledger, so that every kill meets what the ones before it left."""
    outcomes = run_release_worker("crash", target, str(outbox), str(repeats))
    assert outcomes == [[step, -signal.SIGKILL] for step in STEPS for _ in range(repeats)]
    printed = [json.loads(line) for line in outbox.read_text(encoding="utf-8").splitlines()]
    assert {line["dataset"] for line in printed} == {name_dataset("after printing")}
    assert len(printed) == repeats
    with Ledger.open(target) as ledger:
        assert ledger.verify().intact
        for line in printed:  # never an answer without a charge
            entry = ledger.entry(line["entry"])
            assert entry is not None
            assert (entry.status, entry.charge, entry.answer) == ("released", CHARGE, line["answer"])
        for step, status in STEPS.items():
            account = ledger.account(name_dataset(step))
            if status is None:
                assert account is None  # nothing was written, and nothing was charged
                continue
            assert account is not None
            assert [entry.status for entry in account.entries] == [status] * repeats
            assert account.reading.epsilon == CHARGE * repeats  # what was only reserved counts in full


def ask_again_everywhere(target: str) -> None:
    """The same query works afterwards: from the ledger where it was answered, and otherwise at a charge of its own."""
    for step, status in STEPS.items():
        name = name_dataset(step)
        with open_table(name) as table, Ledger.open(target) as ledger:
            account = ledger.account(name)
            before = Decimal(0) if account is None else account.reading.epsilon
            answer = table.release(QUERY.format(name), ledger=ledger, epsilon=EPSILON, policy="budget:1000")
            assert answer.status == "released"
            assert answer.repeated == (status == "released")
            after = ledger.account(name)
            assert after is not None
            assert after.reading.epsilon == before + (0 if status == "released" else CHARGE)
    with Ledger.open(target) as ledger:
        assert ledger.verify().intact


def check_what_is_shown(target: str, repeats: int, capsys: pytest.CaptureFixture[str]) -> None:
    """A reservation left behind is shown as reserved, and counts."""
    capsys.readouterr()
    assert main(["ledger", target, "--json"]) == 0
    datasets = {line["dataset"]: line for line in json.loads(capsys.readouterr().out)["datasets"]}
    for step, status in STEPS.items():
        if status is not None:
            shown = datasets[name_dataset(step)]
            assert shown["epsilon"] == EPSILON * repeats
            assert [entry["status"] for entry in shown["entries"]] == [status] * repeats
            assert [entry["reading"] for entry in shown["entries"]] == [EPSILON * (at + 1) for at in range(repeats)]
            assert {entry["answer"] is None for entry in shown["entries"]} == {status == "reserved"}
    assert main(["ledger", target]) == 0
    assert capsys.readouterr().out.count("reserved and never settled") == list(STEPS.values()).count("reserved")


def test_killed_at_every_step_of_a_release(target: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kill_everywhere(target, tmp_path / "outbox", 2)
    check_what_is_shown(target, 2, capsys)
    ask_again_everywhere(target)


@pytest.mark.long
def test_killed_at_every_step_many_times(target: str, tmp_path: Path) -> None:
    kill_everywhere(target, tmp_path / "outbox", 20)
    ask_again_everywhere(target)
