"""Killed or interrupted at any step of a release: never an answer without a charge, and the ledger always verifies."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from dosimeter import Answer, Dataset
from dosimeter.cli import main
from dosimeter.errors import DatasetStopped
from dosimeter.ledger import Ledger
from tests.known import known
from tests.ledger.release_worker import EPSILON, OTHERS, QUERY, STEPS, name_dataset, open_table

WORKER = Path(__file__).with_name("release_worker.py")
SOURCES = Path(__file__).parents[2] / "src"
CHARGE = Decimal(str(EPSILON))


def run_release_worker(*arguments: str) -> list[Any]:
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


def list_names(repeats: int) -> list[tuple[str, str | None]]:
    """Return every dataset that was killed once, and what must be left of it."""
    return [(name_dataset(step, turn), left) for step, left in STEPS.items() for turn in range(repeats)]


def kill_everywhere(target: str, outbox: Path, repeats: int) -> None:
    """Each kill has a dataset of its own in one ledger, in which other processes release meanwhile."""
    outcomes, others = run_release_worker("crash", target, str(outbox), str(repeats))
    assert outcomes == [[step, -signal.SIGKILL] for step in STEPS for _ in range(repeats)]
    assert len(others) == OTHERS
    assert {status for statuses in others for status in statuses} == {"released"}
    printed = [json.loads(line) for line in outbox.read_text(encoding="utf-8").splitlines()]
    assert [line["dataset"] for line in printed] == [name_dataset("after printing", turn) for turn in range(repeats)]
    with Ledger.open(target) as ledger:
        assert ledger.verify().intact
        for line in printed:  # never an answer without a charge
            entry = known(ledger.entry(line["entry"]))
            assert (entry.status, entry.charge, entry.answer) == ("released", CHARGE, line["answer"])
        killed = {name for name, left in list_names(repeats) if left == "killed"}
        assert {incident.dataset for incident in ledger.stopped_datasets()} == killed  # exactly these
        for name, left in list_names(repeats):
            account = ledger.account(name)
            if left in (None, "killed"):
                assert account is None  # nothing was charged
                continue
            assert account is not None
            assert [entry.status for entry in account.entries] == [left]
            assert account.reading.epsilon == CHARGE  # what was only reserved counts in full


def ask_again_everywhere(target: str, repeats: int) -> None:
    """Ask the same again: what was answered is repeated, what was reserved is taken up, what was killed is stopped.

    Nothing is charged twice, and never is there a retry of a killed measurement before a controller clears it.
    """
    for name, left in list_names(repeats):
        with open_table(name) as table, Ledger.open(target) as ledger:

            def ask(table: Dataset = table, ledger: Ledger = ledger, name: str = name) -> Answer:
                return table.release(QUERY.format(name), ledger=ledger, epsilon=EPSILON, policy="budget:1000")

            if left == "killed":
                for _ in range(2):
                    with pytest.raises(DatasetStopped):
                        ask()
                (incident,) = ledger.incidents(name)
                assert (incident.kind, incident.entry) == ("killed", None)
                ledger.clear(name, by="Carol", reason="the machine was short of memory")
            before = ledger.account(name)
            answer = ask()
            assert answer.status == "released"
            assert answer.repeated == (left == "released")
            after = known(ledger.account(name))
            assert after.reading.epsilon == CHARGE
            assert [entry.id for entry in after.entries] == [answer.entry]
            assert before is None or [entry.id for entry in before.entries] == [answer.entry]
            assert ask().answer == answer.answer
    with Ledger.open(target) as ledger:
        assert ledger.verify().intact


def check_what_is_shown(target: str, repeats: int, capsys: pytest.CaptureFixture[str]) -> None:
    """A reservation left behind is shown as reserved, and counts; a killed measurement is shown as a stop."""
    capsys.readouterr()
    assert main(["ledger", target, "--json"]) == 0
    datasets = {line["dataset"]: line for line in json.loads(capsys.readouterr().out)["datasets"]}
    for name, left in list_names(repeats):
        if left is None:
            assert name not in datasets
            continue
        shown = datasets[name]
        assert (shown["stopped"] and shown["stopped"]["kind"]) == ("killed" if left == "killed" else None)
        assert shown["epsilon"] == (0 if left == "killed" else EPSILON)
        assert [entry["status"] for entry in shown["entries"]] == ([] if left == "killed" else [left])
        assert [entry["answer"] is None for entry in shown["entries"]] == (
            [] if left == "killed" else [left == "reserved"]
        )
    assert main(["ledger", target]) == 0
    text = capsys.readouterr().out
    lefts = [left for _, left in list_names(repeats)]
    assert text.count("reserved and never settled") == lefts.count("reserved")
    assert "".join(text.split()).count("waskilledbeforeithadfinished") == lefts.count("killed")


def test_killed_at_every_step_of_a_release(target: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kill_everywhere(target, tmp_path / "outbox", 1)
    check_what_is_shown(target, 1, capsys)
    ask_again_everywhere(target, 1)


@pytest.mark.long
def test_killed_at_every_step_many_times(target: str, tmp_path: Path) -> None:
    kill_everywhere(target, tmp_path / "outbox", 20)
    ask_again_everywhere(target, 20)


def interrupt_everywhere(target: str, times: int) -> None:
    """An interrupt ends quietly at any moment: nothing is charged, or the charge is named; and nothing is stopped."""
    (_, first, _), *outcomes = run_release_worker("interrupt", target, str(times))
    assert first == "released"
    assert len(outcomes) == times
    kinds = [kind for _, kind, _ in outcomes]
    assert set(kinds) <= {"interrupted", "Interrupted", "released"}, outcomes
    assert kinds.count("interrupted") > times // 4
    assert kinds.count("Interrupted") > times // 5  # after the charge
    with Ledger.open(target) as ledger, open_table("turns") as table:
        assert ledger.stopped_datasets() == ()
        assert ledger.verify().intact
        account = known(ledger.account("turns"))
        entries = {entry.query: entry for entry in account.entries}
        assert len(entries) == len(account.entries)
        for sql, kind, told in outcomes:
            assert (sql in entries) == (kind != "interrupted")
            if sql in entries:  # what was charged is named, and answered without another charge
                assert entries[sql].id in told
                answer = table.release(sql, ledger=ledger, epsilon=EPSILON)
                assert (answer.entry, answer.status) == (entries[sql].id, "released")
        assert known(ledger.account("turns")).reading == account.reading


def test_interrupted_at_moments_of_every_part(target: str) -> None:
    interrupt_everywhere(target, 25)


@pytest.mark.long
def test_interrupted_at_many_moments(target: str) -> None:
    interrupt_everywhere(target, 1000)
