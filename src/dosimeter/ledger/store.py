"""Transactions on the table of records. Takes a target; gives rows and appends records, without interpreting them.

Every error of a driver becomes one LedgerError here. What a caller's own code raises inside a transaction passes
through unchanged, and rolls the transaction back.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cache
from pathlib import Path

from dosimeter.errors import LedgerError
from dosimeter.ledger.backends import (
    KEYS,
    PEOPLE,
    TABLES,
    Backend,
    Connection,
    Row,
    choose_backend,
    create_tables,
    list_indexes,
)
from dosimeter.ledger.records import Record

FORMAT_VERSION = 1
COLUMNS = tuple(Record.find_columns())


class Transaction:
    """One open transaction. One that reads sees the ledger as at one moment; one that writes excludes other writers."""

    def __init__(self, connection: Connection, backend: Backend, *, writing: bool, followed: dict[str, object]) -> None:
        self.followed = followed  # what readers keep for the next transaction
        self._connection = connection
        self._backend = backend
        self._writing = writing
        self._select = _select_columns(backend.texts_as_bytes)

    def rows(self, start: int = 1) -> Generator[Row, None, None]:
        """Yield the stored rows of all records from number ``start`` on, in the order of their numbers."""
        query = f"{self._select} WHERE seq >= :start ORDER BY seq"
        if start <= 1:  # whatever stands there: after tampering, a number may be anything
            query = f"{self._select} ORDER BY seq"
        with _translated(self._backend, writing=self._writing):
            yield from self._connection.stream(query, {} if start <= 1 else {"start": start})

    def row(self, seq: int) -> Row | None:
        """Return the stored row of one record; None if there is none."""
        found = self._fetch(f"{self._select} WHERE seq = :seq", {"seq": seq})
        return next(iter(found), None)

    def last_checkpoint(self, before: int | None = None) -> int | None:
        """Return the number of the last checkpoint; None without one.

        ``before``: the number of a record; return the last checkpoint before it.
        """
        query = "SELECT max(seq) FROM dosimeter_ledger WHERE kind = 'checkpoint'"
        earlier = {} if before is None else {"before": before}
        found = self._fetch(f"{query} AND seq < :before" if earlier else query, earlier)[0][0]
        return found if isinstance(found, int) and found >= 1 else None

    def last(self) -> int:
        """Return the number of the last record; 0 without one."""
        found = self._fetch("SELECT max(seq) FROM dosimeter_ledger")[0][0]
        return found if isinstance(found, int) else 0

    def find(self, key: str, *texts: str, limit: int | None = None) -> Sequence[Row]:
        """Return the stored rows of the records, of all datasets, that a lookup by ``key`` finds, the latest first.

        ``key``: a name in ``KEYS`` of ``backends.py``. With ``request``, for example, the lookup is by the digest of a
        request; with ``query``, by the digests of a plan and a source. ``texts``: what to look for, here these digests.
        ``limit``: the most rows.
        """
        kind, mark, marks = KEYS[key]
        names = [f"text_{number}" for number in range(len(marks))]
        found = [f"{self._backend.text_after(each)} = :{name}" for each, name in zip(marks, names, strict=True)]
        conditions = " AND ".join([f"kind = '{kind}'", self._backend.contains(mark), *found])
        query = f"{self._select} WHERE {conditions} ORDER BY seq DESC"
        written = [json.dumps(text, ensure_ascii=False)[1:-1].partition('"')[0] for text in texts]  # as it is cut out
        return self._fetch(_limit(query, limit), dict(zip(names, written, strict=True)))

    def find_by_entry(self, entry: str) -> Sequence[Row]:
        """Return the stored rows of the records of an entry, in the order of their numbers. ``entry``: its name."""
        return self._fetch(f"{self._select} WHERE entry <> '' AND entry = :entry ORDER BY seq", {"entry": entry})

    def list_entries(self, beginning: str, limit: int) -> list[str]:
        """Return the names of up to ``limit`` entries that begin with this text."""
        query = "SELECT entry FROM dosimeter_ledger WHERE kind = 'reserve' AND substr(entry, 1, :length) = :beginning"
        found = self._fetch(_limit(query, limit), {"length": len(beginning), "beginning": beginning})
        return [str(entry) for (entry,) in found]

    def numbers(
        self, dataset: str, kind: str, *, before: int | None = None, limit: int | None = None
    ) -> list[tuple[int, str]]:
        """Return, for each of a dataset's records of this kind, its number and its entry's name, the latest first.

        ``before``: only records with a smaller number. ``limit``: at most so many.
        """
        query = "SELECT seq, entry FROM dosimeter_ledger WHERE dataset = :dataset AND kind = :kind"
        values: dict[str, object] = {"dataset": dataset, "kind": kind}
        if before is not None:
            query, values = f"{query} AND seq < :before", {**values, "before": before}
        found = self._fetch(_limit(f"{query} ORDER BY seq DESC", limit), values)
        return [(seq, entry) for seq, entry in found if isinstance(seq, int) and isinstance(entry, str)]

    def add_indexes(self) -> None:
        """Create the indexes that are missing, if the user may."""
        with _translated(self._backend, writing=True):
            for name, statement in list_indexes(self._backend).items():
                if self._backend.may_index(self._connection, name):
                    self._connection.create(statement)

    def _fetch(self, query: str, values: Mapping[str, object] | None = None) -> Sequence[Row]:
        with _translated(self._backend, writing=self._writing):
            return self._connection.execute(query, values)

    def is_locked(self, name: str) -> bool:
        """Return whether somebody holds the lock of this name: a process or thread that still lives."""
        with _translated(self._backend, writing=self._writing):
            return self._backend.is_locked(self._connection, name)

    def count(self) -> int:
        found = self._fetch("SELECT count(*) FROM dosimeter_ledger")[0][0]
        assert isinstance(found, int)
        return found

    def read_people(self) -> dict[str, str]:
        """Return what ``write_people`` wrote, by account; empty for a ledger in which nothing was written yet."""
        with _translated(self._backend, writing=self._writing):
            if not self._backend.has_table(self._connection, PEOPLE):
                return {}
            return {
                str(name): str(text)
                for name, text in self._connection.execute(f"SELECT dataset, digests FROM {PEOPLE}")
            }

    def write_people(self, dataset: str, digests: str) -> None:
        """Write an account's digests of individuals, in place of earlier ones. They are outside the chain of records.

        A ledger of an earlier version gets the table here.
        """
        with _translated(self._backend, writing=True):
            if not self._backend.has_table(self._connection, PEOPLE):
                self._connection.create(
                    f"CREATE TABLE {PEOPLE} (dataset TEXT NOT NULL, digests TEXT NOT NULL, PRIMARY KEY (dataset))"
                )
            self._connection.execute(
                f"INSERT INTO {PEOPLE} (dataset, digests) VALUES (:dataset, :digests) "
                "ON CONFLICT (dataset) DO UPDATE SET digests = excluded.digests",
                {"dataset": dataset, "digests": digests},
            )

    def append(self, record: Record) -> None:
        with _translated(self._backend, writing=True):
            self._connection.execute(_INSERT, {name: getattr(record, name) for name in COLUMNS})

    def read_format(self) -> int | None:
        """Return the format of the ledger's tables; None if there are none."""
        with _translated(self._backend, writing=False):
            records, formats = TABLES
            if not self._backend.has_table(self._connection, formats):
                return None
            version = self._connection.execute(f"SELECT max(version) FROM {formats}")[0][0]
            if version is None or not self._backend.has_table(self._connection, records):
                raise LedgerError(
                    f"{self._backend.label} is not a whole ledger: a table is missing or empty. Restore a backup."
                )
            return int(str(version))

    def create_tables(self) -> None:
        with _translated(self._backend, writing=True):
            self._backend.check_vacant(self._connection)
            for statement in create_tables(self._backend.number):
                self._connection.create(statement)
            self._connection.execute(
                "INSERT INTO dosimeter_ledger_format (version) VALUES (:it)", {"it": FORMAT_VERSION}
            )
            for statement in (*self._backend.guards(), *list_indexes(self._backend).values()):
                self._connection.create(statement)


class LedgerStore:
    """A ledger's database. Each transaction opens a connection of its own: nothing is shared between processes."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self._followed: dict[str, object] = {}

    @classmethod
    def open(cls, target: str | Path, *, busy_timeout: float, create: bool) -> LedgerStore:
        backend = choose_backend(target, busy_timeout)
        backend.prepare(create=create)
        store = cls(backend)
        store._check_format(create=create)
        return store

    def close(self) -> None:
        """Forget the rows that were checked last. No connection is open outside a transaction."""
        self._followed.clear()

    def reading(self) -> AbstractContextManager[Transaction]:
        return self._transaction(writing=False)

    def writing(self) -> AbstractContextManager[Transaction]:
        return self._transaction(writing=True)

    @contextmanager
    def _transaction(self, *, writing: bool) -> Iterator[Transaction]:
        with _translated(self.backend, writing=writing):
            connection = self.backend.connect()
        try:
            with _translated(self.backend, writing=writing):
                self.backend.begin(connection, writing=writing)
            try:
                yield Transaction(connection, self.backend, writing=writing, followed=self._followed)
            except BaseException:
                with suppress(*self.backend.errors):  # the connection may be gone, and the transaction with it
                    connection.roll_back()
                raise
            with _translated(self.backend, writing=writing):
                connection.commit()
        finally:
            with suppress(*self.backend.errors):
                connection.close()

    def _check_format(self, *, create: bool) -> None:
        with self.reading() as transaction:
            version = transaction.read_format()
        if version is None and create:
            with self.writing() as transaction:
                version = transaction.read_format()  # another process may have been faster
                if version is None:
                    transaction.create_tables()
                    version = FORMAT_VERSION
        if version is None:
            raise LedgerError(f"{self.backend.label} is not a ledger. A first release creates one.")
        if version != FORMAT_VERSION:
            raise LedgerError(
                f"The ledger {self.backend.label} has format {version}, and this program knows format "
                f"{FORMAT_VERSION}. Use the version of dosimeter that wrote it, or a newer one."
            )


_INSERT = f"INSERT INTO dosimeter_ledger ({', '.join(COLUMNS)}) VALUES ({', '.join(f':{name}' for name in COLUMNS)})"


@cache
def _select_columns(texts_as_bytes: bool) -> str:
    """Return a SELECT of whole records, without a condition. ``texts_as_bytes``: whether to read texts as bytes."""
    raw = [f"CAST({name} AS BLOB)" if texts_as_bytes and name not in ("seq", "version") else name for name in COLUMNS]
    return f"SELECT {', '.join(raw)} FROM dosimeter_ledger"


def _limit(query: str, limit: int | None) -> str:
    return query if limit is None else f"{query} LIMIT {limit:d}"


@contextmanager
def _translated(backend: Backend, *, writing: bool) -> Iterator[None]:
    try:
        yield
    except backend.errors as error:
        raise LedgerError(backend.explain(getattr(error, "orig", None) or error, writing=writing)) from None
    except UnicodeDecodeError as error:
        raise LedgerError(backend.explain(error, writing=writing)) from None
