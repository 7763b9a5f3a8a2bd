"""Transactions on the table of records. Takes a target; gives rows out and appends sealed records. Knows no kinds.

Every error of a driver becomes one LedgerError here. What a caller's own code raises inside a transaction passes
through untouched, and rolls it back.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from dosimeter.errors import LedgerError
from dosimeter.ledger.backends import FORMAT, KEYS, METADATA, RECORDS, Backend, choose_backend, list_indexes
from dosimeter.ledger.records import COLUMNS, Record

FORMAT_VERSION = 1


class Transaction:
    """One open transaction. Reading sees one state of the ledger; writing excludes every other writer."""

    def __init__(
        self, connection: sa.Connection, backend: Backend, *, writing: bool, followed: dict[str, object] | None = None
    ) -> None:
        self.followed = {} if followed is None else followed  # what readers keep for the next transaction
        self._connection = connection
        self._backend = backend
        self._writing = writing

    def rows(self, start: int = 1) -> Generator[Sequence[object], None, None]:
        """Yield the records, as they are stored, by number: all of them, or those from a number on."""
        query = _select_rows(self._backend.texts_as_bytes, whole=start <= 1)
        values = {} if start <= 1 else {"start": start}
        with _translated(self._backend, writing=self._writing), self._connection.execute(query, values) as result:
            for row in result:
                yield tuple(row)

    def row(self, seq: int) -> Sequence[object] | None:
        """Return one record as it is stored."""
        return next(iter(self._fetch(_select_row(self._backend.texts_as_bytes), {"seq": seq})), None)

    def last_checkpoint(self, before: int | None = None) -> int | None:
        """Return the number of the last checkpoint, or of the last one before a record."""
        values = {} if before is None else {"before": before}
        found = next(iter(self._fetch(_select_checkpoint(last=before is None), values)))[0]
        return found if isinstance(found, int) and found >= 1 else None

    def last(self) -> int:
        """Return the number of the last record; 0 without one."""
        found = next(iter(self._fetch(sa.select(sa.func.max(RECORDS.c.seq)))))[0]
        return found if isinstance(found, int) else 0

    def find(self, key: str, *texts: str, limit: int | None = None) -> Sequence[Sequence[object]]:
        """Return the records of all datasets under a key of KEYS, as they are stored, the latest first."""
        kind, mark, marks = KEYS[key]
        names = [f"text_{number}" for number in range(len(marks))]
        found = [f"{self._backend.text_after(each)} = :{name}" for each, name in zip(marks, names, strict=True)]
        conditions = (f"kind = '{kind}' AND {self._backend.contains(mark)}", *found)
        written = [json.dumps(text, ensure_ascii=False)[1:-1].partition('"')[0] for text in texts]  # as it is cut out
        values = dict(zip(names, written, strict=True))
        return self._fetch(_select_latest(self._backend.texts_as_bytes, conditions, limit), values)

    def find_by_entry(self, entry: str) -> Sequence[Sequence[object]]:
        """Return the records of an entry, as they are stored, in order."""
        return self._fetch(_select_entry(self._backend.texts_as_bytes), {"entry": entry})

    def numbers(
        self, dataset: str, kind: str, *, before: int | None = None, limit: int | None = None
    ) -> list[tuple[int, str]]:
        """Return number and entry of a dataset's records of one kind, the latest first."""
        query = sa.select(RECORDS.c.seq, RECORDS.c.entry).where(RECORDS.c.dataset == dataset, RECORDS.c.kind == kind)
        if before is not None:
            query = query.where(RECORDS.c.seq < before)
        found = self._fetch(query.order_by(RECORDS.c.seq.desc()).limit(limit))
        return [(seq, entry) for seq, entry in found if isinstance(seq, int) and isinstance(entry, str)]

    def add_indexes(self) -> None:
        """Create the indexes that are missing, where that is allowed."""
        with _translated(self._backend, writing=True):
            for name, statement in list_indexes(self._backend).items():
                if self._backend.may_index(self._connection, name):
                    self._connection.exec_driver_sql(statement)

    def _fetch(self, query: sa.Select[Any], values: Mapping[str, object] | None = None) -> Sequence[Sequence[object]]:
        with _translated(self._backend, writing=self._writing):
            return [tuple(row) for row in self._connection.execute(query, values or {})]

    def count(self) -> int:
        with _translated(self._backend, writing=self._writing):
            return int(self._connection.execute(sa.select(sa.func.count()).select_from(RECORDS)).scalar_one())

    def append(self, record: Record) -> None:
        with _translated(self._backend, writing=True):
            self._connection.execute(RECORDS.insert(), {name: getattr(record, name) for name in COLUMNS})


class Store:
    """A ledger's database. Connections live as long as their transaction: nothing is shared between processes."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._engine = backend.create_engine()
        self._followed: dict[str, object] = {}

    @classmethod
    def open(cls, target: str | Path, *, busy_timeout: float, create: bool) -> Store:
        backend = choose_backend(target, busy_timeout)
        backend.prepare(create=create)
        store = cls(backend)
        try:
            store._check_format(create=create)
        except BaseException:
            store.close()
            raise
        return store

    @property
    def label(self) -> str:
        return self._backend.label

    def close(self) -> None:
        self._engine.dispose()

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        with self._transaction(writing=False) as connection:
            yield Transaction(connection, self._backend, writing=False, followed=self._followed)

    @contextmanager
    def writing(self) -> Iterator[Transaction]:
        with self._transaction(writing=True) as connection:
            yield Transaction(connection, self._backend, writing=True, followed=self._followed)

    @contextmanager
    def _transaction(self, *, writing: bool) -> Iterator[sa.Connection]:
        with _translated(self._backend, writing=writing):
            connection = self._engine.connect()
            if not writing and self._backend.reading_isolation is not None:
                connection = connection.execution_options(isolation_level=self._backend.reading_isolation)
        try:
            with _translated(self._backend, writing=writing):
                transaction = connection.begin()
                if writing:
                    self._backend.begin_writing(connection)
                elif connection.dialect.name == "sqlite":
                    connection.exec_driver_sql("BEGIN")
            try:
                yield connection
            except BaseException:
                _roll_back(transaction)
                raise
            with _translated(self._backend, writing=writing):
                transaction.commit()
        finally:
            _close(connection)

    def _check_format(self, *, create: bool) -> None:
        with self._transaction(writing=False) as connection:
            version = self._read_format(connection)
        if version is None and create:
            with self._transaction(writing=True) as connection:
                version = self._read_format(connection)  # another process may have been faster
                if version is None:
                    self._create_tables(connection)
                    version = FORMAT_VERSION
        if version is None:
            raise LedgerError(f"{self.label} is not a ledger. A first release creates one.")
        if version != FORMAT_VERSION:
            raise LedgerError(
                f"The ledger {self.label} has format {version}, and this program knows format {FORMAT_VERSION}. "
                "Use the version of dosimeter that wrote it, or a newer one."
            )

    def _read_format(self, connection: sa.Connection) -> int | None:
        with _translated(self._backend, writing=False):
            if not self._backend.has_table(connection, FORMAT.name):
                return None
            version = connection.execute(sa.select(sa.func.max(FORMAT.c.version))).scalar()
            if version is None or not self._backend.has_table(connection, RECORDS.name):
                raise LedgerError(f"{self.label} is not a whole ledger: a table is missing or empty. Restore a backup.")
            return int(version)

    def _create_tables(self, connection: sa.Connection) -> None:
        with _translated(self._backend, writing=True):
            self._backend.check_vacant(connection)
            METADATA.create_all(connection, checkfirst=False)
            connection.execute(FORMAT.insert().values(version=FORMAT_VERSION))
            for statement in self._backend.guards():
                connection.exec_driver_sql(statement)
            for statement in list_indexes(self._backend).values():
                connection.exec_driver_sql(statement)


@cache
def _select_columns(texts_as_bytes: bool) -> sa.Select[Any]:
    """Return the query for whole records. Written once: that takes longer than to run it."""
    raw: list[Any] = [
        sa.cast(column, sa.LargeBinary) if texts_as_bytes and isinstance(column.type, sa.Text) else column
        for column in (RECORDS.c[name] for name in COLUMNS)
    ]
    return sa.select(*raw)


@cache
def _select_rows(texts_as_bytes: bool, *, whole: bool) -> sa.Select[Any]:
    found = _select_columns(texts_as_bytes).order_by(RECORDS.c.seq).execution_options(yield_per=1000)
    return found if whole else found.where(RECORDS.c.seq >= sa.bindparam("start"))


@cache
def _select_row(texts_as_bytes: bool) -> sa.Select[Any]:
    return _select_columns(texts_as_bytes).where(RECORDS.c.seq == sa.bindparam("seq"))


@cache
def _select_entry(texts_as_bytes: bool) -> sa.Select[Any]:
    of_entry = _select_columns(texts_as_bytes).where(sa.text("entry <> ''"), RECORDS.c.entry == sa.bindparam("entry"))
    return of_entry.order_by(RECORDS.c.seq)


@cache
def _select_latest(texts_as_bytes: bool, conditions: tuple[str, ...], limit: int | None) -> sa.Select[Any]:
    found = _select_columns(texts_as_bytes).where(*map(sa.text, conditions))
    return found.order_by(RECORDS.c.seq.desc()).limit(limit)


@cache
def _select_checkpoint(*, last: bool) -> sa.Select[Any]:
    found = sa.select(sa.func.max(RECORDS.c.seq)).where(sa.text("kind = 'checkpoint'"))
    return found if last else found.where(RECORDS.c.seq < sa.bindparam("before"))


@contextmanager
def _translated(backend: Backend, *, writing: bool) -> Iterator[None]:
    try:
        yield
    except sa.exc.DBAPIError as error:
        raise LedgerError(backend.explain(error.orig or error, writing=writing)) from None
    except UnicodeDecodeError as error:
        raise LedgerError(backend.explain(error, writing=writing)) from None


def _roll_back(transaction: sa.Transaction) -> None:
    """Roll back, and let the error that led here be the one that is raised."""
    try:
        transaction.rollback()
    except sa.exc.DBAPIError:
        return  # the connection is gone, and the transaction with it


def _close(connection: sa.Connection) -> None:
    try:
        connection.close()
    except sa.exc.DBAPIError:
        return
