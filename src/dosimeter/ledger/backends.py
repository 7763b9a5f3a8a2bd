"""Adapt to the databases that can hold a ledger: how to connect, lock and create, and what errors mean.

Takes a target (a path, or a postgresql:// URL); gives a Backend. Messages never quote the driver's text or the URL,
either of which may contain a password.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, Protocol

import sqlalchemy as sa

from dosimeter.errors import LedgerError
from dosimeter.ledger.records import GENESIS

Isolation = Literal["REPEATABLE READ"]
_SMALLEST_PAGE = 512  # bytes, in SQLite

METADATA = sa.MetaData()
RECORDS = sa.Table(
    "dosimeter_ledger",
    METADATA,
    sa.Column("seq", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), primary_key=True, autoincrement=False),
    sa.Column("dataset", sa.Text, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("at", sa.Text, nullable=False),
    sa.Column("entry", sa.Text, nullable=False),
    sa.Column("payload", sa.Text, nullable=False),
    sa.Column("previous", sa.Text, nullable=False, unique=True),  # the chain cannot fork, whoever writes
    sa.Column("digest", sa.Text, nullable=False, unique=True),
)
FORMAT = sa.Table(
    "dosimeter_ledger_format",
    METADATA,
    sa.Column("version", sa.Integer, primary_key=True, autoincrement=False),
)


IS_RESERVED = '"status":"reserved",'
"""How the payload of a reservation for an answer differs from that of a denial. Payloads are canonical JSON, in which a
quotation mark inside a text has a backslash before it: this, and every mark below, stands only where it is meant."""

KEYS: Mapping[str, tuple[str, str, tuple[str, ...]]] = {
    "request": ("reserve", IS_RESERVED, ('"request_digest":"',)),
    "query": ("reserve", IS_RESERVED, ('"plan_digest":"', '"source_digest":"')),
    "reference": ("reserve", '"reference":"', ('"reference":"',)),
    "kept": ("reserve", '"kept":', ('"of":"',)),
    "view": ("view", 'digest":"', ('digest":"',)),
}
"""What records are found by: their kind, what their payload must contain, and after which marks the key's texts stand.

A new row is a new index; ledgers get it with their next checkpoint."""


class Backend(Protocol):
    """One kind of database."""

    label: str
    texts_as_bytes: bool
    reading_isolation: Isolation | None

    def prepare(self, *, create: bool) -> None:
        """Do what has to happen before a connection can be opened."""

    def create_engine(self) -> sa.Engine: ...

    def begin_writing(self, connection: sa.Connection) -> None:
        """Wait, at most the busy timeout, until this is the only writer."""

    def has_table(self, connection: sa.Connection, name: str) -> bool: ...

    def check_vacant(self, connection: sa.Connection) -> None:
        """Refuse to create a ledger in a file that holds something else."""

    def guards(self) -> Sequence[str]:
        """Return statements that create triggers against accidents. Proof of integrity is left to the hash chain."""

    def contains(self, mark: str) -> str:
        """Return the condition that a payload contains a text."""

    def text_after(self, mark: str) -> str:
        """Return the expression for what a payload has between the first such mark and the next quotation mark."""

    def may_index(self, connection: sa.Connection, name: str) -> bool:
        """Return whether this index can be created, and is not there yet."""

    def explain(self, error: BaseException, *, writing: bool) -> str:
        """Say what a driver's error means, and what to do."""


class SQLite:
    """A ledger in a file.

    Rollback journal, not WAL: a write-protected file can still be read (WAL needs its -shm file beside it), a backup is
    one file, and network file systems work. A process killed at any instant leaves at most a hot journal, which the
    next one to open the file rolls back. synchronous=EXTRA, which is FULL and also syncs the directory once the journal
    is gone: with FULL alone a power cut right after a commit can bring the journal back and undo a charge whose answer
    is already out.
    """

    texts_as_bytes = True  # a tampered text may not be UTF-8, and must still be readable by verify
    reading_isolation: Isolation | None = None  # a transaction sees one state anyway

    def __init__(self, path: Path, busy_timeout: float) -> None:
        self._path = path
        self._busy_timeout = busy_timeout
        self.label = str(path)

    def prepare(self, *, create: bool) -> None:
        try:
            if self._path.is_dir():
                raise LedgerError(
                    f"{self.label} is a directory. Name a file in it, such as {self._path / 'ledger.db'}."
                )
            if self._path.exists():
                self._check_size()
                return
            if not create:
                raise LedgerError(f"There is no ledger at {self.label}. A first release creates one.")
            if not self._path.parent.is_dir():
                raise LedgerError(f"The ledger cannot be created: there is no directory {self._path.parent}.")
            # Created here and not by SQLite, so that nobody else can ever read it; the journal inherits its mode.
            os.close(os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        except FileExistsError:
            return  # another process was faster
        except (OSError, ValueError):
            raise LedgerError(
                f"The ledger {self.label} cannot be reached or created: check the path and the permissions."
            ) from None

    def _check_size(self) -> None:
        """Refuse a file of a few bytes: SQLite would take it for an empty database, and write over it."""
        if 0 < self._path.stat().st_size < _SMALLEST_PAGE:
            raise LedgerError(f"{self.label} is not a ledger. Name another file.")

    def create_engine(self) -> sa.Engine:
        return sa.create_engine("sqlite://", creator=self._connect, poolclass=sa.NullPool)

    def _connect(self) -> sqlite3.Connection:
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
        return connection

    def begin_writing(self, connection: sa.Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    def has_table(self, connection: sa.Connection, name: str) -> bool:
        query = sa.text("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = :name")
        return connection.execute(query, {"name": name}).first() is not None

    def check_vacant(self, connection: sa.Connection) -> None:
        if connection.execute(sa.text("SELECT 1 FROM sqlite_master LIMIT 1")).first() is not None:
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

    def may_index(self, connection: sa.Connection, name: str) -> bool:
        query = sa.text("SELECT 1 FROM sqlite_master WHERE type = 'index' AND name = :name")
        return connection.execute(query, {"name": name}).first() is None

    def explain(self, error: BaseException, *, writing: bool) -> str:
        if isinstance(error, UnicodeDecodeError):  # Python could not decode SQLite's message, which quotes the damage
            return f"The ledger {self.label} is damaged and cannot be read. Restore a backup."
        name = str(getattr(error, "sqlite_errorname", ""))
        match name.removeprefix("SQLITE_").partition("_")[0]:
            case "BUSY" | "LOCKED":
                return (
                    f"The ledger {self.label} was busy for {self._busy_timeout:g} seconds: another process is writing "
                    "to it. Try again, or allow a longer busy timeout."
                )
            case "NOTADB":
                return f"{self.label} is not a ledger. Name another file."
            case "CORRUPT":
                return f"The ledger {self.label} is damaged and cannot be read. Restore a backup."
            case "FULL":
                return f"The disk is full: nothing was added to the ledger {self.label}. Make room and try again."
            case "READONLY" | "PERM" | "AUTH" | "CANTOPEN" if writing:
                return (
                    f"The ledger {self.label} cannot be written to. The file and its directory must both be writable: "
                    "SQLite keeps a journal beside the file."
                )
            case "READONLY":
                return (
                    f"The ledger {self.label} was left in the middle of a write by a process that died. Open it once "
                    "with permission to write, which undoes that write."
                )
            case "PERM" | "AUTH" | "CANTOPEN":
                return f"The ledger {self.label} cannot be opened: check the permissions."
            case "IOERR":
                return f"The disk failed while the ledger {self.label} was in use ({name}). Nothing was added to it."
            case _:
                return f"The ledger {self.label} cannot be used ({name or type(error).__name__}). Run verify on it."


class PostgreSQL:
    """A ledger in two tables of a PostgreSQL database."""

    texts_as_bytes = False
    reading_isolation: Isolation | None = "REPEATABLE READ"  # all that a reader asks is about one state
    _WRITERS = 0x646F73696D657465  # the advisory lock's number: "dosimete"

    def __init__(self, url: str, busy_timeout: float) -> None:
        self._busy_timeout = busy_timeout
        try:
            parsed = sa.make_url(url)
        except (sa.exc.ArgumentError, ValueError):
            parsed = None
        parts = () if parsed is None else (parsed.username or "", parsed.host or "", parsed.database or "")
        if parsed is None or "@" in "".join(parts):
            raise LedgerError(
                "The ledger's URL cannot be read. It looks like postgresql://user:password@host:5432/database; in the "
                "password write @ as %40, : as %3A and / as %2F."
            )
        host = parsed.host or parsed.query.get("host") or "the local socket"
        self.label = f"{parsed.database or 'default'} on {host} (PostgreSQL)"
        self._url = parsed.set(drivername="postgresql+psycopg")

    def prepare(self, *, create: bool) -> None:
        try:
            import psycopg  # noqa: F401
        except ImportError:
            raise LedgerError(
                "A ledger in PostgreSQL needs the psycopg driver: pip install 'dosimeter[postgres]'."
            ) from None

    def create_engine(self) -> sa.Engine:
        arguments: dict[str, str | int] = {"client_encoding": "utf8", "application_name": "dosimeter ledger"}
        if "connect_timeout" not in self._url.query:
            arguments["connect_timeout"] = max(2, min(10, round(self._busy_timeout)))
        # READ COMMITTED whatever the server's default: a writer must see what was committed while it waited.
        return sa.create_engine(
            self._url, connect_args=arguments, isolation_level="READ COMMITTED", poolclass=sa.NullPool
        )

    def begin_writing(self, connection: sa.Connection) -> None:
        settings = sa.text(
            "SELECT set_config('lock_timeout', :wait, true), CASE WHEN current_setting('synchronous_commit') = 'off' "
            "THEN set_config('synchronous_commit', 'on', true) END"
        )
        connection.execute(settings, {"wait": f"{max(1, round(self._busy_timeout * 1000))}ms"})
        # An advisory lock, for LOCK TABLE would need more than the right to SELECT and INSERT.
        connection.execute(sa.text("SELECT pg_advisory_xact_lock(:number)"), {"number": self._WRITERS})

    def has_table(self, connection: sa.Connection, name: str) -> bool:
        return connection.execute(sa.text("SELECT to_regclass(:name)"), {"name": name}).scalar() is not None

    def check_vacant(self, connection: sa.Connection) -> None:
        """Accept any database: other tables may be in it."""

    def guards(self) -> Sequence[str]:
        refuse = "EXECUTE FUNCTION dosimeter_ledger_refuse()"
        tables = ("dosimeter_ledger", "dosimeter_ledger_format")
        return (
            "CREATE FUNCTION dosimeter_ledger_refuse() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION 'the ledger is append-only'; END $$",
            "CREATE FUNCTION dosimeter_ledger_in_order() RETURNS trigger LANGUAGE plpgsql AS $$ "
            "DECLARE last_seq bigint; last_digest text; BEGIN "
            "EXECUTE 'SELECT seq, digest FROM ' || TG_RELID::regclass || ' ORDER BY seq DESC LIMIT 1' "
            "INTO last_seq, last_digest; "
            "IF NEW.seq IS DISTINCT FROM COALESCE(last_seq, 0) + 1 "
            f"OR NEW.previous IS DISTINCT FROM COALESCE(last_digest, '{GENESIS}') "
            "THEN RAISE EXCEPTION 'the ledger is append-only'; END IF; RETURN NEW; END $$",
            "CREATE TRIGGER dosimeter_ledger_in_order BEFORE INSERT ON dosimeter_ledger "
            "FOR EACH ROW EXECUTE FUNCTION dosimeter_ledger_in_order()",
            "CREATE TRIGGER dosimeter_ledger_format_no_insert BEFORE INSERT ON dosimeter_ledger_format "
            f"FOR EACH ROW {refuse}",
            *(f"CREATE TRIGGER {t}_no_change BEFORE UPDATE OR DELETE ON {t} FOR EACH ROW {refuse}" for t in tables),
            *(f"CREATE TRIGGER {t}_no_truncate BEFORE TRUNCATE ON {t} FOR EACH STATEMENT {refuse}" for t in tables),
        )

    def contains(self, mark: str) -> str:
        return f"strpos(payload, '{mark}') > 0"

    def text_after(self, mark: str) -> str:
        return f"split_part(substr(payload, strpos(payload, '{mark}') + {len(mark)}), '\"', 1)"

    def may_index(self, connection: sa.Connection, name: str) -> bool:
        """Return False also for a user who is not the owner: without the index, lookups read the table."""
        query = sa.text(
            "SELECT to_regclass(:name) IS NULL AND pg_has_role(relowner, 'USAGE') FROM pg_class "
            "WHERE oid = 'dosimeter_ledger'::regclass"
        )
        return bool(connection.execute(query, {"name": name}).scalar())

    def explain(self, error: BaseException, *, writing: bool) -> str:
        state = getattr(error, "sqlstate", None) or _guess_state(str(error))
        match state:
            case "55P03":
                return (
                    f"The ledger {self.label} was busy for {self._busy_timeout:g} seconds: another process is writing "
                    "to it. Try again, or allow a longer busy timeout."
                )
            case "28P01" | "28000":
                return f"The server of the ledger {self.label} refuses this user or password. Check the URL."
            case "3D000":
                return f"There is no such database: {self.label}. Create it, or correct the URL."
            case "42501" if writing:
                return (
                    f"The user may not write to the ledger {self.label}. It needs SELECT and INSERT on "
                    "dosimeter_ledger and SELECT on dosimeter_ledger_format; for the first use, CREATE on the schema."
                )
            case "42501":
                return f"The user may not read the ledger {self.label}. It needs SELECT on both of its tables."
            case "25006":
                return f"The ledger {self.label} is on a server that is read-only. Use the primary server."
            case "53100":
                return f"The server's disk is full: nothing was added to the ledger {self.label}."
            case "22P05":
                return f"The database {self.label} cannot hold this text: it was not created with the encoding UTF8."
            case None | "":
                return (
                    f"The ledger {self.label} cannot be reached, or the connection was lost. Check host, port and "
                    "network, and that the server is running."
                )
            case _:
                return f"The ledger {self.label} cannot be used: PostgreSQL says SQLSTATE {state}."


def list_indexes(backend: Backend) -> Mapping[str, str]:
    """Return the statement that creates each index. None is trusted: what is found by one is checked like the rest."""
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


def _guess_state(message: str) -> str | None:
    """Guess the SQLSTATE of a refused connection from its words: it carries none."""
    if "authentication failed" in message or "no password supplied" in message or "no pg_hba.conf entry" in message:
        return "28P01"
    if "database" in message and "does not exist" in message:
        return "3D000"
    return None


def choose_backend(target: str | Path, busy_timeout: float) -> Backend:
    if not 0 <= busy_timeout <= 86400:
        raise LedgerError("The busy timeout must be between 0 and 86400 seconds.")
    text = str(target)
    if text.startswith(("postgresql://", "postgres://", "postgresql+psycopg://")):
        return PostgreSQL(text, busy_timeout)
    if "://" in text and not isinstance(target, Path):
        raise LedgerError("A ledger is the path of a file, or a URL that begins with postgresql://.")
    if not text or "\0" in text:
        raise LedgerError("A ledger is the path of a file, or a URL that begins with postgresql://.")
    return SQLite(Path(target), busy_timeout)
