"""Killed or interrupted at any instant, a ledger verifies, and no answer is out that was not charged."""

from __future__ import annotations

import json
import random
import shutil
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable
from contextlib import closing
from decimal import Decimal
from pathlib import Path

import pytest

from dosimeter import Answer, Dataset
from dosimeter.errors import DatasetStopped
from dosimeter.ledger import Ledger, Verification
from dosimeter.mechanisms.zcdp import exact_zcdp_epsilon
from tests.known import known
from tests.ledger.ledger_worker import decide_on
from tests.ledger.processes import hand_over, keep_running, run_releases
from tests.ledger.raw_records import describe_datasets
from tests.ledger.release_worker import EPSILON, OTHERS, QUERY, STEPS, name_dataset, open_table
from tests.waiting import wait_until

SMALL = Decimal("0.001")

Worker = Callable[..., subprocess.CompletedProcess[str]]
Kill = Callable[[list[list[str]]], None]

# step at which the process dies → the status of the one entry afterwards, None where there is none.
# The commits of a first release: opening for reading, creating the tables, the reservation, the settlement.
RESERVATION_STEPS = {
    "before commit 1": None,
    "before commit 2": None,
    "before the reservation": None,
    "inside the decision": None,
    "after insert None": None,
    "after insert reserved": None,
    "before commit 3": None,
    "after the reservation": "reserved",
    "after the answer": "reserved",
    "after insert released": "reserved",
    "before commit 4": "reserved",
    "after the settlement": "released",
}


def check_ledger_options(target: str, outbox: Path) -> list[str]:
    """No answer without a charge, the chain intact, the reading the sum. Gives the status of every entry."""
    answered = set(outbox.read_text(encoding="utf-8").split()) if outbox.exists() else set()
    with Ledger.open(target) as ledger:
        assert ledger.verify().intact
        account = ledger.account("clinic")
    entries = () if account is None else account.entries
    assert answered <= {entry.id for entry in entries if entry.spent.total == SMALL}
    assert {entry.id for entry in entries if entry.status == "released"} <= answered
    if account is not None and account.reading.rho is not None:
        assert account.reading.rho == SMALL**2 / 2 * len(entries)
        assert account.reading.epsilon == exact_zcdp_epsilon(account.reading.rho, Decimal("0.001"))
    elif account is not None:
        assert account.reading.epsilon == SMALL * len(entries)  # what was only reserved counts in full
    return [entry.status for entry in entries]


@pytest.mark.smoke
@pytest.mark.parametrize("policy", ["budget:1000", "budget:1000@0.001"])
def test_killed_at_every_step(new_target: Callable[[], str], tmp_path: Path, kill: Kill, policy: str) -> None:
    jobs = [
        ["crash", step, new_target(), str(tmp_path / f"outbox{at}"), policy]
        for at, step in enumerate(RESERVATION_STEPS)
    ]
    kill(jobs)
    for _, step, target, outbox, _ in jobs:
        entries = 0 if RESERVATION_STEPS[step] is None else 1
        assert check_ledger_options(target, Path(outbox)) == [RESERVATION_STEPS[step]][:entries], step
        with Ledger.open(target) as ledger:  # and the next one is not held up
            after = ledger.reserve("clinic", decide_on("0.001", policy)).after
        if after.rho is None:
            assert after.epsilon == (entries + 1) * SMALL
        else:
            assert after.rho == (entries + 1) * SMALL**2 / 2


# step at which the process dies → the entry's status and whether the dataset is stopped. A failed entry is settled and
# the dataset stopped in one transaction: never the one without the other.
INCIDENT_STEPS = {
    "before the stop": ("reserved", False),
    "after insert denied": ("reserved", False),
    "after inserting kind, request_digest, salt, software": ("reserved", False),
    "before commit 4": ("reserved", False),
    "after the stop": ("denied", True),
    "after inserting by, reason, salt": ("denied", True),
    "before commit 5": ("denied", True),
    "after the end": ("denied", False),
}


def test_killed_at_every_step_of_an_incident(new_target: Callable[[], str], kill: Kill) -> None:
    jobs = [["incident", step, new_target()] for step in INCIDENT_STEPS]
    kill(jobs)
    for _, step, target in jobs:
        with Ledger.open(target) as ledger:
            assert ledger.verify().intact
            account = known(ledger.account("clinic"))
            assert account.reading.epsilon == SMALL
            assert (account.entries[0].status, account.stopped is not None) == INCIDENT_STEPS[step], step


def kill_in_the_middle(target: str, outbox: Path, after: float) -> None:
    """Let a process release one answer after the other; kill it a moment after the first."""
    size = outbox.stat().st_size if outbox.exists() else 0
    with keep_running("ledger_worker.py", "loop", target, str(outbox)) as process:
        wait_until(
            lambda: process.poll() is not None or (outbox.exists() and outbox.stat().st_size > size),
            "the first answer is out",
        )
        time.sleep(after)  # any moment will do
    assert process.returncode == -signal.SIGKILL


@pytest.mark.parametrize("times", [4, pytest.param(100, marks=pytest.mark.long)])
def test_killed_at_random_instants(target: str, tmp_path: Path, times: int) -> None:
    moments, outbox = random.Random(20261115), tmp_path / "outbox"
    for _ in range(times):
        kill_in_the_middle(target, outbox, moments.uniform(0, 0.05))
        statuses = check_ledger_options(target, outbox)
    assert len(statuses) >= times
    assert statuses.count("reserved") <= times


def leave_half_a_commit(directory: Path) -> tuple[Path, Verification]:
    """What a power cut in the middle of a commit leaves: some of the new pages, and the journal with the old ones."""
    path, copy = directory / "ledger.db", directory / "copy.db"
    with Ledger.open(path) as ledger:
        for count in range(20):
            entry = ledger.reserve("clinic", decide_on("0.001"))
            ledger.settle(entry.id, status="released", answer=[{"count": count}])
        before = ledger.verify()
    with closing(sqlite3.connect(path, isolation_level=None)) as raw:
        raw.execute("PRAGMA cache_size = 1")
        raw.execute("PRAGMA cache_spill = 1")
        raw.execute("DROP TRIGGER dosimeter_ledger_in_order")
        raw.execute("DROP TRIGGER dosimeter_ledger_no_update")
        raw.execute("BEGIN IMMEDIATE")
        raw.execute("UPDATE dosimeter_ledger SET payload = '{}'")
        for number in range(200):
            values = (number + 100, "x" * 1000, str(number), f"d{number}")
            raw.execute("INSERT INTO dosimeter_ledger VALUES (?, 'clinic', 'view', 1, '', '', ?, ?, ?)", values)
        shutil.copy(path, copy)
        shutil.copy(f"{path}-journal", f"{copy}-journal")
        raw.execute("ROLLBACK")
    return copy, before


def test_half_a_commit_is_undone(tmp_path: Path) -> None:
    half, before = leave_half_a_commit(tmp_path)
    alone = tmp_path / "alone.db"
    shutil.copy(half, alone)
    with Ledger.open(alone) as ledger:
        assert not ledger.verify().intact  # without its journal it is damaged
    with Ledger.open(half, create=False) as ledger:
        assert ledger.verify() == before
    assert not Path(f"{half}-journal").exists()


def test_half_a_commit_that_may_not_be_undone_is_explained(open_directory: Path, run_worker: Worker) -> None:
    half, before = leave_half_a_commit(open_directory)
    as_nobody = hand_over(open_directory, *open_directory.iterdir())
    half.chmod(0o400)
    open_directory.chmod(0o500)
    refused = run_worker("try", str(half), "show", *as_nobody)
    assert refused.stdout.startswith("refused: "), refused
    assert "in the middle of a write" in refused.stdout
    open_directory.chmod(0o700)
    half.chmod(0o600)
    with Ledger.open(half, create=False) as ledger:
        assert ledger.verify() == before


# ---------------------------------------------------------------- whole releases


CHARGE = Decimal(str(EPSILON))


def list_names(repeats: int) -> list[tuple[str, str | None]]:
    """Return every dataset that was killed once, and what must be left of it."""
    return [(name_dataset(step, turn), left) for step, left in STEPS.items() for turn in range(repeats)]


def kill_everywhere(target: str, outbox: Path, repeats: int) -> None:
    """Each kill has a dataset of its own in one ledger, in which other processes release meanwhile."""
    outcomes, others = run_releases("crash", target, str(outbox), str(repeats))
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


def check_what_is_shown(target: str, repeats: int) -> None:
    """A reservation left behind is shown as reserved, and counts; a killed measurement is shown as a stop."""
    with Ledger.open(target) as ledger:
        datasets = {line["dataset"]: line for line in describe_datasets(ledger)}
    for name, left in list_names(repeats):
        if left is None:
            assert name not in datasets
            continue
        shown = datasets[name]
        assert (shown["stopped"] and shown["stopped"]["kind"]) == ("killed" if left == "killed" else None)
        assert shown["epsilon"] == (0 if left == "killed" else EPSILON)
        told = [] if left == "killed" else [(left, left == "reserved")]
        assert [(entry["status"], entry["answer"] is None) for entry in shown["entries"]] == told


@pytest.mark.parametrize("repeats", [1, pytest.param(20, marks=pytest.mark.long)])
def test_killed_at_every_step_of_a_release(target: str, tmp_path: Path, repeats: int) -> None:
    kill_everywhere(target, tmp_path / "outbox", repeats)
    check_what_is_shown(target, repeats)
    ask_again_everywhere(target, repeats)


@pytest.mark.parametrize("times", [25, pytest.param(1000, marks=pytest.mark.long)])
def test_interrupted_at_moments_of_every_part(target: str, times: int) -> None:
    """An interrupt ends quietly at any moment: nothing is charged, or the charge is named; and nothing is stopped."""
    (_, first, _), *outcomes = run_releases("interrupt", target, str(times))
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
