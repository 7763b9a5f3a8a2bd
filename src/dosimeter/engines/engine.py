"""The protocol of engines: run an SQL tree that Dosimeter wrote, and return Arrow, or Python values where rows are few.

Each engine's own file translates its driver's errors.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

from dosimeter.engines.file_digests import digest_bytes
from dosimeter.engines.source_files import find_delimiter, name_table, read_first_line
from dosimeter.errors import DataError, DatasetClosed, SchemaError, SourceUnreachable
from dosimeter.html import Private
from dosimeter.schema import ColumnType, JoinTable, Schema

if TYPE_CHECKING:
    import pyarrow as pa
    from sqlglot import exp


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The options for reading a source. ``table``: the table to read in a database, or the name to give a file's table.

    ``tables``: further tables in memory, by name, for joins. ``one_row_each``: whether each row is one individual. This
    only saves DuckDB time, in counting rows and in ``refresh``; no answer depends on it. ``threads``: how many DuckDB
    takes for tables in memory; None for one per processor. All others are for CSV.
    """

    table: str | None = None
    delimiter: str | None = None
    encoding: str | None = None
    null: str | None = None
    tables: Mapping[str, object] = field(default_factory=dict)
    decimal: str | None = None
    date_format: str | None = None
    one_row_each: bool = False
    threads: int | None = None

    def list_digested(self) -> tuple[str | None, ...]:
        """Return the options that decide how a file's bytes are read, to be digested together with the bytes.

        Other options make other data, and so another digest. ``decimal`` and ``date_format`` were added later. They are
        left out if both have their defaults, so that earlier digests stay valid.
        """
        later = (None if self.decimal == "." else self.decimal, self.date_format)
        return (self.table, self.delimiter, self.encoding, self.null, *(later if any(later) else ()))

    def spell_alike(self, path: str) -> Iterator[ReadOptions]:
        """Yield these options, and every other spelling by which the file ``path`` is read in the same way.

        An option may be left out or say what holds without it: the file's own name, the delimiter that its first line
        shows, UTF-8, an empty cell for a missing value. Any name for the table is as good as another.
        """
        shown = find_delimiter(read_first_line(path).decode("latin-1"))
        given = (self.delimiter, self.encoding, self.null)
        spellings = [
            {None, unsaid} if said in (None, unsaid) else {said}
            for said, unsaid in zip(given, (shown, "utf-8", ""), strict=True)
        ]
        for table, delimiter, encoding, null in itertools.product({None, name_table(path), self.table}, *spellings):
            yield replace(self, table=table, delimiter=delimiter, encoding=encoding, null=null)


@dataclass(frozen=True, slots=True, repr=False)
class FewRows(Private):
    """A result of few rows. It takes longer to load Arrow than to read so few cells one by one.

    ``columns``: by name, each column's values as a list, None for NULL.

    It has ``num_rows``, ``column_names``, ``column`` and ``slice``, as an Arrow table has.
    """

    columns: Mapping[str, list[Any]]
    num_rows: int

    @classmethod
    def of(cls, table: pa.Table) -> FewRows:
        """Return the rows of an Arrow table."""
        return cls({name: table.column(name).to_pylist() for name in table.column_names}, table.num_rows)

    @property
    def column_names(self) -> list[str]:
        return list(self.columns)

    def column(self, name: str) -> list[Any]:
        return self.columns[name]

    def slice(self, offset: int, length: int) -> FewRows:
        """Return ``length`` rows from index ``offset`` on."""
        columns = {name: values[offset : offset + length] for name, values in self.columns.items()}
        return FewRows(columns, len(range(self.num_rows)[offset : offset + length]))


class Engine(Protocol):
    """An open table, with the means to run Dosimeter's SQL trees over it. Methods with a body are defaults."""

    name: str
    keeps_rows: bool
    """Whether ``keep`` can hold a table's rows; otherwise only a few numbers for each individual."""
    rows_fetched: int
    """How many rows the engine has returned so far, over all queries."""
    generation: int
    """A number that changes whenever the data may have changed: what was found out before is then void."""

    def default_table(self) -> str:
        """Return the name that the table has if no schema names it."""

    def describe(self) -> Mapping[str, ColumnType]:
        """Return the columns, each with the type that it has without a schema.

        Columns of a type that has no equivalent here (a time, a list, bytes …) are left out.
        """

    def unread_columns(self) -> Mapping[str, str]:
        """Return the columns that ``describe`` leaves out, each with its type in the source."""

    def impose(self, schema: Schema) -> None:
        """From now on, read every column in the type that the schema declares.

        Raises DataError for a column that is missing or cannot have its type.
        """

    def hold(self) -> None:
        """Prepare for many queries over the same data, as a draft of many columns makes.

        Only DuckDB's engine does anything: it holds the cells of a small CSV in memory, instead of reading them anew
        for every query.
        """
        return

    def relation(self) -> exp.Expression:
        """Return the table for a FROM clause: every column in its declared type, odd cells as NULL (N4)."""

    def count_odd_cells(self, names: Collection[str], table: JoinTable | None = None) -> Mapping[str, int]:
        """Return how many odd cells each of these columns has: not NULL in the source, but counted as NULL (N4).

        ``table``: the joined table that the columns belong to; None for the table itself.
        """

    def doubtful_columns(self) -> frozenset[str]:
        """Return the columns in which opening the source showed that there may be odd cells. Takes no further scan.

        Only DuckDB's engine returns any, and only for a CSV. Other columns may hold odd cells too.
        """
        return frozenset()

    def joined(self, table: JoinTable) -> exp.Expression:
        """Return a further table that the schema declares, with its declared types, for a FROM or JOIN clause."""

    def fetch(self, query: exp.Select) -> pa.Table:
        """Run a query that Dosimeter wrote and return its rows."""

    def fetch_few(self, query: exp.Select) -> FewRows:
        """Run a query that Dosimeter wrote and that gives few rows, and return them as Python values.

        The only dates and timestamps that the query may give are those of declared groups: Python cannot represent
        every date that a source may hold.
        """
        return FewRows.of(self.fetch(query))

    def keep(
        self, query: exp.Select, columns: Mapping[str, ColumnType], *, rows: int, by: str | None = None
    ) -> exp.Expression:
        """Run a query that Dosimeter wrote and keep its rows where the engine reads them quickly.

        Return the kept rows for a FROM clause. They are dropped when ``generation`` changes; until then the same query
        is not run again. Where there is no room for them, return the query itself as a subquery. ``columns``: the
        query's columns and their types; ``rows``: how many rows it can have at most; ``by``: a column whose equal
        values will be read together.
        """

    def refresh(self) -> None:
        """See the data as they are now: end the snapshot, and read joined tables and kept rows again.

        Raises DataError for a table that no longer has the columns that it was opened with.
        """

    def fingerprint(self) -> str:
        """Return a digest of the content of the table and of the tables declared beside it, to notice changed data."""

    def equal_fingerprints(self) -> frozenset[str]:
        """Return the fingerprints that the same files have with options that say what holds without them.

        Whoever wrote such an option, or left it out, read the same data.
        """
        return frozenset()

    def is_still(self, digest: str) -> bool:
        """Return whether the data still have this fingerprint or an equal one. Cheap where there is a snapshot."""
        return self.fingerprint() == digest or digest in self.equal_fingerprints()

    def identities(self, *, public: bool = False) -> frozenset[str]:
        """Return the identities of the stored data that the engine reads, as ``engines/identities.py`` explains them.

        They cover the table itself and the private tables that the schema declares beside it, whether or not a query
        joins them; with ``public``, only the declared public tables. A declared table that does not exist has none.
        """

    def progress(self) -> float | None:
        """Return how much of the running query is done, in percent; None where the engine cannot tell."""
        return None

    def interrupt(self) -> None:
        """Stop the running query."""

    def close(self) -> None: ...


class ClosableEngine:
    """Any engine, until it is closed: then all but ``progress``, ``interrupt`` and ``close`` raises DatasetClosed."""

    def __init__(self, engine: Engine) -> None:
        self._open: Engine | None = engine

    def __getattr__(self, name: str) -> Any:
        if self._open is None:
            raise DatasetClosed(
                "This dataset is closed: its with block has ended, or close() was called. Open it again with "
                "Dataset.open, and use it and its risks while it is open."
            )
        return getattr(self._open, name)

    def progress(self) -> float | None:
        """Return how much of the running query is done, in percent; None where that is unknown, or once closed.

        Another thread may still ask after the engine was closed.
        """
        engine = self._open
        return None if engine is None else engine.progress()

    def interrupt(self) -> None:
        """Stop the running query; do nothing once closed."""
        engine = self._open
        if engine is not None:
            engine.interrupt()

    def close(self) -> None:
        """Close the engine; do nothing if it is closed already."""
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
    """Return a digest of the files' bytes and of the options that they are read with, the same on every engine.

    ``kind``: csv, parquet or duckdb. Raises SourceUnreachable for a file that cannot be read.
    """
    return _digest_reading(kind, _digest_content(paths), options)


def digest_alike(kind: str, paths: Sequence[str], options: ReadOptions) -> frozenset[str]:
    """Return the digests of the same files with options that are spelled in another way and mean the same."""
    content = _digest_content(paths)
    return frozenset(_digest_reading(kind, content, each) for each in options.spell_alike(paths[0]))


def _digest_content(paths: Iterable[str]) -> bytes:
    """Return the digests of the files' bytes, one after the other."""
    digests = []
    for path in paths:
        try:
            digests.append(digest_bytes(path))
        except OSError:
            raise unreadable(path) from None
    return b"".join(digests)


def _digest_reading(kind: str, content: bytes, options: ReadOptions) -> str:
    return hashlib.sha256(content + repr((kind, options.list_digested())).encode()).hexdigest()


def digest_sums(columns: Iterable[tuple[str, str]], sums: pa.Table) -> str:
    """Return a digest of a table's columns (names and types) and of sums over its rows, which are one row."""
    content = [[list(column) for column in columns], [str(value) for value in sums.to_pylist()[0].values()]]
    return hashlib.sha256(json.dumps(content, ensure_ascii=False).encode()).hexdigest()


def combine_fingerprints(own: str, joined: Mapping[str, str]) -> str:
    """Return one digest of a table's own digest and the digests of its joined tables.

    ``joined``: the digests of the joined tables, by name. If there are none, return the table's own digest as it is.
    """
    if not joined:
        return own
    return hashlib.sha256(json.dumps([own, sorted(joined.items())]).encode()).hexdigest()
