"""Transactions on the web application's tables, in the ledger's database: SQLite by path, PostgreSQL by URL.

The ledger creates its own tables first, and only the ledger touches them. One server per database: its threads take
turns at writing, and a lock keeps a second server away. So what is under way when a server starts was left by a crash,
and is no other server's work.
"""

from __future__ import annotations

import fcntl
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import sqlalchemy as sa

from dosimeter.errors import LedgerError
from dosimeter.ledger import Ledger

WAIT = 30.0
_SERVERS = 0x646F7369776562  # the advisory lock's number: "dosiweb"
_LONGEST_LOCKED = 5.0  # seconds: a database takes a moment to notice that a server was killed
MIGRATING, COUNTING, AUDITING = 1, 2, 3  # numbers of further locks, added to it
_MIGRATIONS = Path(__file__).parent / "migrations"


def take_turn(connection: sa.Connection, number: int) -> None:
    """Take the lock with this number until the transaction ends. On SQLite do nothing: it has one writer at a time."""
    if connection.dialect.name == "postgresql":
        connection.execute(sa.text("SELECT pg_advisory_xact_lock(:n)"), {"n": _SERVERS + number})


class Database:
    """The web application's tables in one database, beside the ledger's.

    ``ledger``: the ledger itself, with connections of its own. ``target``: the path of a SQLite file, or a PostgreSQL
    URL. ``create``: make a ledger there if there is none; False refuses instead.
    """

    def __init__(self, target: str, *, create: bool = True) -> None:
        self.target = target
        self.ledger = Ledger.open(target, busy_timeout=WAIT, create=create)
        self.is_sqlite = "://" not in target
        self._turn = threading.Lock()
        self._lock: sa.Connection | IO[bytes] | None = None
        if self.is_sqlite:
            self.engine = sa.create_engine("sqlite://", creator=self._connect, poolclass=sa.QueuePool, pool_size=20)
        else:
            url = sa.make_url(target).set(drivername="postgresql+psycopg")
            # READ COMMITTED whatever the server's default: who waited for a lock must see what was written meanwhile.
            self.engine = sa.create_engine(
                url, pool_size=20, max_overflow=30, pool_pre_ping=True, isolation_level="READ COMMITTED"
            )

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.target, timeout=WAIT, isolation_level=None, check_same_thread=False)
        try:
            for pragma in ("synchronous = FULL", "foreign_keys = ON", "trusted_schema = OFF"):
                connection.execute(f"PRAGMA {pragma}")
        except BaseException:
            connection.close()
            raise
        return connection

    def close(self) -> None:
        try:
            if self._lock is not None:
                self._lock.close()
        finally:
            self.engine.dispose()
            self.ledger.close()

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        with self.engine.connect() as connection:
            if self.is_sqlite:
                connection.exec_driver_sql("BEGIN")
            yield connection

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """Run a transaction that writes. On SQLite the threads of this process take turns at it."""
        if not self.is_sqlite:
            with self.engine.begin() as connection:
                yield connection
            return
        with self._turn, self.engine.begin() as connection:
            connection.exec_driver_sql("BEGIN IMMEDIATE")
            yield connection

    def migrate(self) -> None:
        """Create the web application's tables, or bring them to this version, in one transaction.

        Raises LedgerError if that is not possible.
        """
        from alembic import command
        from alembic.config import Config
        from alembic.util import CommandError

        config = Config()
        config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
        config.set_main_option("path_separator", "os")
        try:
            with self.writing() as connection:
                take_turn(connection, MIGRATING)
                config.attributes["connection"] = connection
                command.upgrade(config, "head")
        except CommandError:
            raise LedgerError(
                "The web's tables were made by another version of dosimeter. Use that version, or a newer one."
            ) from None
        except sa.exc.DBAPIError as error:
            raise LedgerError(f"The web's tables cannot be made: {_explain(error)}") from None

    def lock_out_others(self) -> None:
        """Lock the database for this server until it is closed or the process ends; refuse if another server has it."""
        taken = LedgerError("Another dosimeter serve uses this database. Stop it first: one server per database.")
        if self.is_sqlite:
            handle = Path(f"{self.target}.serve-lock").open("wb")  # noqa: SIM115 - held until the process ends
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                handle.close()
                raise taken from None
            self._lock = handle
            return
        connection = self.engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        until = time.monotonic() + _LONGEST_LOCKED
        while not connection.execute(sa.text("SELECT pg_try_advisory_lock(:n)"), {"n": _SERVERS}).scalar():
            if time.monotonic() > until:
                connection.close()
                raise taken
            time.sleep(0.1)
        self._lock = connection


def _explain(error: sa.exc.DBAPIError) -> str:
    """Say why the database cannot be changed, as far as the driver tells, and what helps."""
    state, text = getattr(error.orig, "sqlstate", None), str(error.orig).lower()
    if "locked" in text or "busy" in text or state in ("55P03", "57014"):
        return "the database is in use by another program. Stop it, and start again."
    if "readonly" in text or "read-only" in text or state == "25006":
        return "the database is read-only. Give this user the right to write it."
    if "full" in text or state == "53100":
        return "the disk is full."
    if state == "42501":
        return "the database user needs CREATE on the schema."
    return f"the database refuses ({type(error.orig).__name__}{'' if state is None else f' {state}'})."
