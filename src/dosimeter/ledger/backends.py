"""Adapt to the databases that can hold a ledger: how to connect, lock and create, and what errors mean.

Takes a target (a path, or a postgresql:// URL); gives a Backend. Messages never quote the driver's text or the URL,
either of which may contain a password.
"""

from __future__ import annotations

import errno
import os
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Protocol

from dosimeter.errors import LedgerError
from dosimeter.ledger.chain import GENESIS
from dosimeter.ledger.file_locks import is_file_locked, is_out_of_space, take_file_lock
from dosimeter.ledger.measurement_marks import HeldLock

_SMALLEST_PAGE = 512  # bytes, in SQLite

TABLES = ("dosimeter_ledger", "dosimeter_ledger_format")
PEOPLE = "dosimeter_ledger_people"
"""The table of digests of individuals, outside the chain of records. It is made when first written to."""


def create_tables(number: str) -> tuple[str, str]:
    """Return the statements that create the ledger's two tables.

    ``number``: the SQL type of the column ``seq``, which holds a record's number in the chain.
    """
    texts = ", ".join(f"{name} TEXT NOT NULL" for name in ("at", "entry", "payload", "previous", "digest"))
    return (
        f"CREATE TABLE dosimeter_ledger (seq {number} NOT NULL, dataset TEXT NOT NULL, kind TEXT NOT NULL, "
        # The chain cannot fork, whoever writes.
        f"version INTEGER NOT NULL, {texts}, PRIMARY KEY (seq), UNIQUE (previous), UNIQUE (digest))",
        "CREATE TABLE dosimeter_ledger_format (version INTEGER NOT NULL, PRIMARY KEY (version))",
    )


IS_RESERVED = '"status":"reserved",'
"""A text in the payload of every reservation for an answer, and in no payload of a denial.

Payloads are canonical JSON, in which a quotation mark inside a value has a backslash before it. So this text, and each
text in ``KEYS``, cannot occur inside a value.
"""

KEYS: Mapping[str, tuple[str, str, tuple[str, ...]]] = {
    "request": ("reserve", IS_RESERVED, ('"request_digest":"',)),
    "query": ("reserve", IS_RESERVED, ('"plan_digest":"', '"source_digest":"')),
    "reference": ("reserve", '"reference":"', ('"reference":"',)),
    "kept": ("reserve", '"kept":', ('"of":"',)),
    "view": ("view", 'digest":"', ('digest":"',)),
}
"""The keys that records are found by. For each: the kind of record, a text that its payload must contain, and marks.

After each mark stands a value to compare, up to the next quotation mark: after ``"request_digest":"`` the digest of a
request. Each key has an index. If a key is added here, an existing ledger gets its index with its next checkpoint.
"""


Row = Sequence[object]


class Connection(ABC):
    """A database connection that is used for one transaction. A statement refers to a value as ``:name``.

    ``driver``: the connection of the database's driver.
    """

    def __init__(self, driver: Any) -> None:
        self._driver = driver

    @abstractmethod
    def execute(self, statement: str, values: Mapping[str, object] | None = None) -> Sequence[Row]:
        """Run a statement and return its rows."""

    @abstractmethod
    def stream(self, statement: str, values: Mapping[str, object]) -> Iterator[Row]:
        """Run a query and yield its rows, without holding all of them in memory."""

    def create(self, statement: str) -> None:
        """Run a statement that creates a table, a trigger or an index, and takes no values."""
        self.execute(statement)

    def commit(self) -> None:
        """Commit the transaction: its changes are on disk when this returns."""
        self._driver.commit()

    def roll_back(self) -> None:
        """Undo the changes of the transaction."""
        self._driver.rollback()

    def close(self) -> None:
        """Close the connection. Changes that were not committed are undone."""
        self._driver.close()


class Backend(Protocol):
    """A kind of database: what it must do to hold a ledger.

    ``label``: its name in messages. ``errors``: the errors of its driver. ``number``: the type of a record's number.
    ``texts_as_bytes``: whether texts are read as bytes, so that even a text that is not valid UTF-8 can be read.
    """

    label: str
    errors: tuple[type[Exception], ...]
    number: str
    texts_as_bytes: bool

    def prepare(self, *, create: bool) -> None:
        """Check what can be checked before a connection is opened; for SQLite, create a missing file.

        ``create``: whether a file may be created; if not, a missing one is refused.
        """

    def connect(self) -> Connection: ...

    def begin(self, connection: Connection, *, writing: bool) -> None:
        """Begin a transaction. If ``writing``, first wait until nobody else writes; too long a wait raises an error.

        Otherwise the transaction only reads, and sees none of the changes that others commit meanwhile.
        """

    def take_lock(self, name: str) -> HeldLock | None:
        """Take a lock that is held until it is released or this process ends; return None if somebody holds it."""

    def is_locked(self, connection: Connection, name: str) -> bool:
        """Return whether somebody holds the lock of this name: a process or thread that still lives."""

    def forget_lock(self, name: str) -> None:
        """Remove what the lock of a dead process left behind."""

    def has_table(self, connection: Connection, name: str) -> bool: ...

    def check_vacant(self, connection: Connection) -> None:
        """Refuse to create a ledger in a database that holds something else."""

    def guards(self) -> Sequence[str]:
        """Return the statements that create triggers against accidental changes of records.

        Changes that get past the triggers show in the hash chain.
        """

    def contains(self, mark: str) -> str:
        """Return the SQL condition for records whose payload contains the text ``mark``."""

    def text_after(self, mark: str) -> str:
        """Return the SQL expression for a payload's text between the first ``mark`` and the next quotation mark.

        By such texts records are looked up: see ``KEYS``.
        """

    def may_index(self, connection: Connection, name: str) -> bool:
        """Return whether the index of this name is missing and can be created."""

    def explain(self, error: BaseException, *, writing: bool) -> str:
        """Return what a driver's error means, and what to do about it. ``writing``: whether the transaction writes."""


class SQLiteConnection(Connection):
    """A connection to an SQLite file. Only a BEGIN statement begins a transaction."""

    def execute(self, statement: str, values: Mapping[str, object] | None = None) -> Sequence[Row]:
        found: list[Row] = self._driver.execute(statement, values or {}).fetchall()
        return found

    def stream(self, statement: str, values: Mapping[str, object]) -> Iterator[Row]:
        with closing(self._driver.execute(statement, values)) as cursor:
            yield from cursor


class SQLite:
    """A ledger in an SQLite file.

    It uses a rollback journal, not WAL: a write-protected file can still be read (WAL needs its -shm file beside it), a
    backup is one file, and network file systems work. A process killed at any instant leaves at most a hot journal,
    which the next process to open the file rolls back. synchronous=EXTRA is FULL and also syncs the directory once the
    journal is deleted: with FULL alone, a power cut right after a commit can bring the journal back and undo a charge
    whose answer is already released.
    """

    errors: tuple[type[Exception], ...] = (sqlite3.Error,)
    number = "INTEGER"
    texts_as_bytes = True  # a tampered text may not be UTF-8, and must still be readable by verify

    def __init__(self, path: Path, busy_timeout: float) -> None:
        self._path = path
        self._busy_timeout = busy_timeout
        self.label = str(path)

    def prepare(self, *, create: bool) -> None:
        try:
            self._path = self._path.absolute()  # the process may change its directory later
            if self._path.is_dir():
                raise LedgerError(
                    f"{self.label} is a directory. Name a file in it, such as {Path(self.label) / 'ledger.db'}."
                )
            if self._path.exists():
                self._check_size()
                return
            if not create:
                raise LedgerError(f"There is no ledger at {self.label}. A first release creates one.")
            if not self._path.parent.is_dir():
                raise LedgerError(f"The ledger cannot be created: there is no directory {Path(self.label).parent}.")
            # Created here and not by SQLite, so that nobody else can ever read it; the journal inherits its mode.
            os.close(os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        except FileExistsError:
            return  # another process was faster
        except (OSError, ValueError):
            raise LedgerError(
                f"The ledger {self.label} cannot be reached or created: check the path and the permissions."
            ) from None

    def _check_size(self) -> None:
        """Refuse a file of a few bytes, which SQLite would take for an empty database and overwrite."""
        if 0 < self._path.stat().st_size < _SMALLEST_PAGE:
            raise LedgerError(f"{self.label} is not a ledger. Name another file.")

    def connect(self) -> Connection:
        # mode=rw never creates a file, and falls back to reading where the file is write-protected. It is not ro for
        # readers: they too must be able to roll back what a killed writer left behind.
        connection = sqlite3.connect(
            f"{self._path.absolute().as_uri()}?mode=rw",
            uri=True,
            timeout=self._busy_timeout,
            isolation_level=None,  # BEGIN is executed explicitly
            check_same_thread=False,
        )
        try:
            for pragma in ("synchronous = EXTRA", "recursive_triggers = ON", "trusted_schema = OFF"):
                connection.execute(f"PRAGMA {pragma}")
        except BaseException:
            connection.close()
            raise
        return SQLiteConnection(connection)

    def begin(self, connection: Connection, *, writing: bool) -> None:
        connection.execute("BEGIN IMMEDIATE" if writing else "BEGIN")

    def take_lock(self, name: str) -> HeldLock | None:
        try:
            return take_file_lock(self._find_lock(name), self._path)
        except OSError as error:
            if is_out_of_space(error):
                raise LedgerError(self._tell_full()) from None
            if error.errno in (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS):
                raise LedgerError(
                    f"The file system of the ledger {self.label} has no file locks (flock). Keep the ledger on a local "
                    "disk, or in PostgreSQL."
                ) from None
            raise LedgerError(self._tell_unwritable()) from None

    def is_locked(self, connection: Connection, name: str) -> bool:
        return is_file_locked(self._find_lock(name))

    def forget_lock(self, name: str) -> None:
        with suppress(OSError):
            self._find_lock(name).unlink(missing_ok=True)

    def _find_lock(self, name: str) -> Path:
        """Return the file of a lock. Links are followed, as SQLite does for its journal: all see the same file."""
        path = self._path.resolve()
        with suppress(FileNotFoundError):
            if path.stat().st_nlink > 1:
                raise LedgerError(
                    f"The ledger {self.label} has a second name (a hard link), and locks and journals are found by "
                    "name. Remove the other name, or copy the file to another directory and use the copy alone."
                )
        return path.with_name(f"{path.name}-measuring-{name}")

    def _tell_full(self) -> str:
        return f"The disk is full: the ledger {self.label} could not be written to. Make room and try again."

    def _tell_unwritable(self) -> str:
        return (
            f"The ledger {self.label} cannot be written to. The file and its directory must both be writable: "
            "SQLite keeps a journal beside the file."
        )

    def has_table(self, connection: Connection, name: str) -> bool:
        query = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = :name"
        return bool(connection.execute(query, {"name": name}))

    def check_vacant(self, connection: Connection) -> None:
        if connection.execute("SELECT 1 FROM sqlite_master LIMIT 1"):
            raise LedgerError(f"{self.label} is a database, but not a ledger. Name another file.")

    def guards(self) -> Sequence[str]:
        refuse = "BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END"
        return (
            f"CREATE TRIGGER dosimeter_ledger_no_update BEFORE UPDATE ON dosimeter_ledger {refuse}",
            f"CREATE TRIGGER dosimeter_ledger_no_delete BEFORE DELETE ON dosimeter_ledger {refuse}",
            # INSERT OR REPLACE deletes without firing the trigger above, unless the connection has switched
            # recursive_triggers on. Only the next record may be inserted, so that there is nothing to replace.
            "CREATE TRIGGER dosimeter_ledger_in_order BEFORE INSERT ON dosimeter_ledger "
            "WHEN NEW.seq IS NOT (SELECT COALESCE(MAX(seq), 0) + 1 FROM dosimeter_ledger) OR NEW.previous IS NOT "
            f"COALESCE((SELECT digest FROM dosimeter_ledger ORDER BY seq DESC LIMIT 1), '{GENESIS}') {refuse}",
            f"CREATE TRIGGER dosimeter_ledger_format_no_update BEFORE UPDATE ON dosimeter_ledger_format {refuse}",
            f"CREATE TRIGGER dosimeter_ledger_format_no_delete BEFORE DELETE ON dosimeter_ledger_format {refuse}",
            f"CREATE TRIGGER dosimeter_ledger_format_no_insert BEFORE INSERT ON dosimeter_ledger_format {refuse}",
        )

    def contains(self, mark: str) -> str:
        return f"instr(payload, '{mark}') > 0"

    def text_after(self, mark: str) -> str:
        rest = f"substr(payload, instr(payload, '{mark}') + {len(mark)})"
        return f"substr({rest}, 1, instr({rest}, '\"') - 1)"

    def may_index(self, connection: Connection, name: str) -> bool:
        return not connection.execute(
            "SELECT 1 FROM sqlite_master WHERE type = 'index' AND name = :name", {"name": name}
        )

    def explain(self, error: BaseException, *, writing: bool) -> str:
        if isinstance(error, UnicodeDecodeError):  # Python could not decode SQLite's message, which quotes the damage
            return f"The ledger {self.label} is damaged and cannot be read. Restore a backup."
        name = str(getattr(error, "sqlite_errorname", ""))
        match name.removeprefix("SQLITE_").partition("_")[0]:
            case "BUSY" | "LOCKED":
                return tell_busy(self.label, self._busy_timeout)
            case "NOTADB":
                return f"{self.label} is not a ledger. Name another file."
            case "CORRUPT":
                return f"The ledger {self.label} is damaged and cannot be read. Restore a backup."
            case "FULL":
                return self._tell_full()
            case "READONLY" | "PERM" | "AUTH" | "CANTOPEN" if writing:
                return self._tell_unwritable()
            case "READONLY":
                return (
                    f"The ledger {self.label} was left in the middle of a write by a process that died. Open it once "
                    "with permission to write, which undoes that write."
                )
            case "PERM" | "AUTH" | "CANTOPEN":
                return f"The ledger {self.label} cannot be opened: check the permissions."
            case "IOERR":
                return f"The disk failed while the ledger {self.label} was in use ({name})."
            case _:
                return f"The ledger {self.label} cannot be used ({name or type(error).__name__}). Run verify on it."


def tell_busy(label: str, seconds: float) -> str:
    """Return what it means that a ledger of this name was locked by a writer for so many seconds, and what to do."""
    return (
        f"The ledger {label} was busy for {seconds:g} seconds: another process is writing to it. Try again, or allow a "
        "longer busy timeout."
    )


def list_indexes(backend: Backend) -> Mapping[str, str]:
    """Return the SQL statements that create the indexes of the table of records, by the name of the index."""
    create = "CREATE INDEX {name} ON dosimeter_ledger "
    statements = {
        "dosimeter_ledger_checkpoints": create + "(seq) WHERE kind = 'checkpoint'",
        "dosimeter_ledger_entries": create + "(entry, seq) WHERE entry <> ''",
        "dosimeter_ledger_datasets": create + "(dataset, kind, seq)",
    }
    for key, (kind, mark, marks) in KEYS.items():
        texts = ", ".join(f"({backend.text_after(each)})" for each in marks)
        condition = f"kind = '{kind}' AND {backend.contains(mark)}"
        statements[f"dosimeter_ledger_by_{key}"] = f"{create}({texts}, seq) WHERE {condition}"
    return {name: statement.format(name=name) for name, statement in statements.items()}


def choose_backend(target: str | Path, busy_timeout: float) -> Backend:
    if not 0 <= busy_timeout <= 86400:
        raise LedgerError("The busy timeout must be between 0 and 86400 seconds.")
    text = str(target)
    if text.startswith(("postgresql://", "postgres://", "postgresql+psycopg://")):
        from dosimeter.ledger.postgresql import PostgreSQL  # only here: SQLAlchemy takes long to load

        return PostgreSQL(text, busy_timeout)
    if "://" in text and not isinstance(target, Path):
        raise LedgerError("A ledger is the path of a file, or a URL that begins with postgresql://.")
    if not text or "\0" in text:
        raise LedgerError("A ledger is the path of a file, or a URL that begins with postgresql://.")
    return SQLite(Path(target), busy_timeout)
