"""The protocol of engines: run a tree that Dosimeter wrote, give Arrow.

Each engine's own file translates its driver's errors.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from dosimeter.engines.file_digests import digest_bytes
from dosimeter.errors import DataError, DatasetClosed, SchemaError, SourceUnreachable
from dosimeter.schema import ColumnType, JoinTable, Schema

if TYPE_CHECKING:
    import pyarrow as pa
    from sqlglot import exp


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How to read the source: ``table`` is for a database; the others are for CSV.

    ``tables``: further tables in memory, by name, for joins. ``one_row_each``: whether rows are individuals, so that
    rows are counted by their cells; no answer depends on it.
    """

    table: str | None = None
    delimiter: str | None = None
    encoding: str | None = None
    null: str | None = None
    tables: Mapping[str, object] = field(default_factory=dict)
    decimal: str | None = None
    date_format: str | None = None
    one_row_each: bool = False

    def wording(self) -> tuple[str | None, ...]:
        """Return how a file's text is to be read: the same bytes read in another way are other data.

        What came later is left out where it was not given, so that earlier digests stay as they are.
        """
        later = (None if self.decimal == "." else self.decimal, self.date_format)
        return (self.table, self.delimiter, self.encoding, self.null, *(later if any(later) else ()))


class Engine(Protocol):
    """A table somewhere, with the means to run Dosimeter's trees over it."""

    @property
    def name(self) -> str: ...

    @property
    def rows_fetched(self) -> int:
        """Return how many rows the engine has given back so far."""
        ...

    @property
    def generation(self) -> int:
        """Return a number that changes whenever the data may have changed, and with them what was found out before."""
        ...

    def default_table(self) -> str:
        """Return what the table is called when no schema says otherwise."""
        ...

    def describe(self) -> Mapping[str, ColumnType]:
        """Return the columns and the types they would have without a schema.

        Columns of a type that has no equivalent here (a time, a list, bytes …) are left out.
        """
        ...

    def unread_columns(self) -> Mapping[str, str]:
        """Return the columns that ``describe`` leaves out, with the types they have in the source."""
        ...

    def impose(self, schema: Schema) -> None:
        """Take column types from the schema. Raise a DataError for a column that is missing or cannot have its type."""
        ...

    def relation(self) -> exp.Expression:
        """Return what stands in FROM: every column in its type, odd cells NULL (N4)."""
        ...

    def odd_cells(self, names: Collection[str], table: JoinTable | None = None) -> Mapping[str, int]:
        """Return how many cells of each column hold something in the source and count as NULL (N4).

        ``table``: a further table the schema declares, whose columns these are.
        """
        ...

    def doubtful_columns(self) -> frozenset[str]:
        """Return the columns that are known, without another look at the data, to hold odd cells."""
        ...

    def joined(self, table: JoinTable) -> exp.Expression:
        """Return a further table that the schema declares, with its declared types, as it can stand in FROM."""
        ...

    def fetch(self, query: exp.Select) -> pa.Table:
        """Run a query that Dosimeter wrote and return its rows."""
        ...

    def refresh(self) -> None:
        """See the data as they are now: end the snapshot, and read joined tables again.

        Refuse, with a DataError, a table that no longer has the columns that it was opened with.
        """
        ...

    def fingerprint(self) -> str:
        """Return a digest of the source's content and of the tables declared beside it, to notice changed data."""
        ...

    def is_still(self, digest: str) -> bool:
        """Return whether the data still have this digest. Cheap where the engine holds a snapshot."""
        ...

    def identities(self, *, public: bool = False) -> frozenset[str]:
        """Return which stored data these are, however they are read or named; see ``engines/identities.py``.

        Covers the table itself and the private ones that the schema declares beside it, whether or not a query joins
        them; with ``public``, the public ones instead. A declared table that does not exist has none.
        """
        ...

    def progress(self) -> float | None:
        """Return how far the running query is, in percent; None where the engine cannot tell."""
        ...

    def interrupt(self) -> None:
        """Stop the running query."""
        ...

    def close(self) -> None: ...


class EngineInFront:
    """A wrapper around another engine: subclasses change some of what it gives, and everything else is passed on."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.name = engine.name

    @property
    def rows_fetched(self) -> int:
        return self._engine.rows_fetched

    @property
    def generation(self) -> int:
        return self._engine.generation

    def default_table(self) -> str:
        return self._engine.default_table()

    def describe(self) -> Mapping[str, ColumnType]:
        return self._engine.describe()

    def unread_columns(self) -> Mapping[str, str]:
        return self._engine.unread_columns()

    def impose(self, schema: Schema) -> None:
        self._engine.impose(schema)

    def relation(self) -> exp.Expression:
        return self._engine.relation()

    def odd_cells(self, names: Collection[str], table: JoinTable | None = None) -> Mapping[str, int]:
        return self._engine.odd_cells(names, table)

    def doubtful_columns(self) -> frozenset[str]:
        return self._engine.doubtful_columns()

    def joined(self, table: JoinTable) -> exp.Expression:
        return self._engine.joined(table)

    def fetch(self, query: exp.Select) -> pa.Table:
        return self._engine.fetch(query)

    def refresh(self) -> None:
        self._engine.refresh()

    def fingerprint(self) -> str:
        return self._engine.fingerprint()

    def is_still(self, digest: str) -> bool:
        return self._engine.is_still(digest)

    def identities(self, *, public: bool = False) -> frozenset[str]:
        return self._engine.identities(public=public)

    def progress(self) -> float | None:
        return self._engine.progress()

    def interrupt(self) -> None:
        self._engine.interrupt()

    def close(self) -> None:
        self._engine.close()


class ClosableEngine(EngineInFront):
    """An engine that can be closed: every call afterwards is refused with one error, the same on every engine."""

    def __init__(self, engine: Engine) -> None:
        self._open: Engine | None = engine
        self.name = engine.name

    @property
    def _engine(self) -> Engine:  # type: ignore[override]
        if self._open is None:
            raise DatasetClosed(
                "This dataset is closed: its with block has ended, or close() was called. Open it again with "
                "Dataset.open, and use it and its risks while it is open."
            )
        return self._open

    def progress(self) -> float | None:
        """Return how far the running query is; None once closed, since another thread may still be asking."""
        engine = self._open
        return None if engine is None else engine.progress()

    def interrupt(self) -> None:
        """Stop the running query. Once closed there is none."""
        engine = self._open
        if engine is not None:
            engine.interrupt()

    def close(self) -> None:
        """Close the engine. A second time does nothing."""
        engine, self._open = self._open, None
        if engine is not None:
            engine.close()


def joined_with_itself(table: JoinTable) -> SchemaError:
    return SchemaError(
        f"[tables.{table.name}] is declared public and is the private table itself. Its rows belong to individuals: "
        "a public table is one that nobody's data stand in."
    )


def changed_columns(label: str) -> DataError:
    return DataError(f"{label} no longer has the columns that it was opened with. Open it again, or start again.")


def unreadable(path: str) -> SourceUnreachable:
    return SourceUnreachable(f"{path} cannot be read. Does it exist, and may this user read it?")


def digest_files(kind: str, paths: Iterable[str], options: ReadOptions) -> str:
    """Return a digest of the files' bytes and of how they are read: the same on every engine that reads files."""
    digest = hashlib.sha256()
    for path in paths:
        try:
            digest.update(digest_bytes(path))
        except OSError:
            raise unreadable(path) from None
    digest.update(repr((kind, options.wording())).encode())
    return digest.hexdigest()


def combine_fingerprints(own: str, joined: Mapping[str, str]) -> str:
    """Return one digest of a table and of those that may be joined with it; the table's own where there are none."""
    if not joined:
        return own
    return hashlib.sha256(json.dumps([own, sorted(joined.items())]).encode()).hexdigest()
