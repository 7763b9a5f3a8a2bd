"""Killed at any instant, a ledger opens and verifies, and no answer is out that was not charged."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from decimal import Decimal
from pathlib import Path

import pytest

from dosimeter.ledger import Ledger, Verification
from dosimeter.mechanisms.zcdp import exact_zcdp_epsilon
from tests.known import known
from tests.ledger.ledger_worker import NOBODY, decide_on
from tests.waiting import wait_until

WORKER = Path(__file__).with_name("ledger_worker.py")
SOURCES = Path(__file__).parents[2] / "src"
CHARGE = Decimal("0.001")

Worker = Callable[..., subprocess.CompletedProcess[str]]
Kill = Callable[[list[list[str]]], None]

# step at which the process dies → the status of the one entry afterwards, None where there is none.
# The commits of a first release: opening for reading, creating the tables, the reservation, the settlement.
STEPS = {
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
    assert answered <= {entry.id for entry in entries if entry.spent.total == CHARGE}
    assert {entry.id for entry in entries if entry.status == "released"} <= answered
    if account is not None and account.reading.rho is not None:
        assert account.reading.rho == CHARGE**2 / 2 * len(entries)
        assert account.reading.epsilon == exact_zcdp_epsilon(account.reading.rho, Decimal("0.001"))
    elif account is not None:
        assert account.reading.epsilon == CHARGE * len(entries)  # what was only reserved counts in full
    return [entry.status for entry in entries]


@pytest.mark.parametrize("policy", ["budget:1000", "budget:1000@0.001"])
def test_killed_at_every_step(new_target: Callable[[], str], tmp_path: Path, kill: Kill, policy: str) -> None:
    jobs = [["crash", step, new_target(), str(tmp_path / f"outbox{at}"), policy] for at, step in enumerate(STEPS)]
    kill(jobs)
    for _, step, target, outbox, _ in jobs:
        entries = 0 if STEPS[step] is None else 1
        assert check_ledger_options(target, Path(outbox)) == [STEPS[step]][:entries], step
        with Ledger.open(target) as ledger:  # and the next one is not held up
            after = ledger.reserve("clinic", decide_on("0.001", policy)).after
        if after.rho is None:
            assert after.epsilon == (entries + 1) * CHARGE
        else:
            assert after.rho == (entries + 1) * CHARGE**2 / 2


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
            assert account.reading.epsilon == CHARGE
            assert (account.entries[0].status, account.stopped is not None) == INCIDENT_STEPS[step], step


def kill_in_the_middle(target: str, outbox: Path, after: float) -> None:
    """Let a process release one answer after the other; kill it a moment after the first."""
    process = subprocess.Popen(
        [sys.executable, str(WORKER), "loop", target, str(outbox)],
        env={**os.environ, "PYTHONPATH": str(SOURCES)},
        stderr=subprocess.PIPE,
    )
    size = outbox.stat().st_size if outbox.exists() else 0
    try:
        wait_until(
            lambda: process.poll() is not None or (outbox.exists() and outbox.stat().st_size > size),
            "the first answer is out",
        )
        time.sleep(after)  # any moment will do
    finally:
        process.kill()
        _, errors = process.communicate()
    assert process.returncode == -signal.SIGKILL, errors


def kill_often(target: str, outbox: Path, times: int) -> None:
    moments = random.Random(20261115)
    for _ in range(times):
        kill_in_the_middle(target, outbox, moments.uniform(0, 0.05))
        statuses = check_ledger_options(target, outbox)
    assert len(statuses) >= times
    assert statuses.count("reserved") <= times


def test_killed_at_random_instants(target: str, tmp_path: Path) -> None:
    kill_often(target, tmp_path / "outbox", 4)


@pytest.mark.long
def test_killed_at_many_random_instants(target: str, tmp_path: Path) -> None:
    kill_often(target, tmp_path / "outbox", 100)


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
    as_nobody: tuple[str, ...] = ()
    if os.geteuid() == 0:
        for item in (open_directory, *open_directory.iterdir()):
            os.chown(item, NOBODY, NOBODY)
        as_nobody = (str(NOBODY),)
    half.chmod(0o400)
    open_directory.chmod(0o500)
    refused = run_worker("try", str(half), "show", *as_nobody)
    assert refused.stdout.startswith("refused: "), refused
    assert "in the middle of a write" in refused.stdout
    open_directory.chmod(0o700)
    half.chmod(0o600)
    with Ledger.open(half, create=False) as ledger:
        assert ledger.verify() == before
