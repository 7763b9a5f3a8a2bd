"""The embedded engine: CSV, gzipped CSV, Parquet, DuckDB files and Arrow tables, through DuckDB.

Once the source is open, the connection is locked: no other file, no network, no extension, no configuration. Only
SELECT trees that Dosimeter wrote run. DuckDB's messages can quote cells, so none is passed on.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
from sqlglot import ErrorLevel, exp

from dosimeter.engines.duckdb_columns import (
    guess_type,
    is_read_as,
    match_columns,
    native_type,
    read_column,
    read_text_column,
)
from dosimeter.engines.duckdb_connections import KeptTables, interruptible, opening
from dosimeter.engines.duckdb_files import (
    CsvForm,
    explain_error,
    find_files,
    is_database,
    quote_identifier,
    quote_path,
    quote_text,
    sniff_csv,
    write_csv_reader,
    write_parquet_reader,
)
from dosimeter.engines.duckdb_identities import identify_relation, identify_stored
from dosimeter.engines.duckdb_trees import write_parts, write_query
from dosimeter.engines.engine import (
    Engine,
    FewRows,
    ReadOptions,
    changed_columns,
    combine_fingerprints,
    digest_alike,
    digest_files,
    joined_with_itself,
    unreadable,
)
from dosimeter.engines.file_digests import State, read_state, read_states
from dosimeter.engines.identities import identify_files
from dosimeter.engines.source_files import Files, name_table, read_first_line
from dosimeter.engines.written_cells import CellWriting, infer_types, inference_query
from dosimeter.errors import DataError, OptionError, SchemaError
from dosimeter.problems import Option
from dosimeter.schema import ColumnType, JoinTable, Schema

if TYPE_CHECKING:
    import pyarrow as pa

_SOURCE = "dosimeter_source"
_TYPED = "dosimeter_table"
_ATTACHED = "dosimeter_database"
_CELLS = "dosimeter_cells"
_HELD = "dosimeter_held"
_LARGEST_HELD = 2**25  # bytes of a file, whose cells take up to ten times as much


def open_duckdb(source: str | pa.Table, options: ReadOptions | None = None) -> DuckDBEngine:
    """Open a path, glob, ``duckdb:PATH`` or Arrow table."""
    options = options or ReadOptions()
    if not isinstance(source, str):
        with interruptible():
            return DuckDBEngine._over_table(source, options)
    with interruptible():
        if source.startswith("duckdb:") or is_database(source):
            return DuckDBEngine._over_database(source.removeprefix("duckdb:"), options)
        return DuckDBEngine._over_files(find_files(source), options)


# Ctrl-C while DuckDB calls back into Python, for a table in memory. Nothing of a cell can stand before these words.
_INTERRUPTED = re.compile(r"Invalid Input Error: [a-z ]+ registered as '\w+' failed: KeyboardInterrupt\b")


class DuckDBEngine(Engine):
    """An engine over one source, through DuckDB. Other threads may call only ``interrupt`` and ``progress``."""

    name = "duckdb"
    keeps_rows = True

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        table: str,
        native: Mapping[str, str],
        files: Files | None,
        options: ReadOptions,
        content: str | None,
        form: CsvForm | None = None,
        attached: tuple[int, ...] | None = None,
    ) -> None:
        self._connection = connection
        self._table = table
        self._native = dict(native)
        self._files = files
        self._options = options
        self._content = content
        self._form = form
        self._holds = False  # whether the cells of a CSV are held in a table
        self._writing = CellWriting() if form is None else CellWriting.of(options)
        if not self._writing.is_standard:
            self._native = self._infer_types()
        self._reading = {name: (name, kind) for name, kind in self.describe().items()}
        self._typed = self._writing.is_standard  # whether cells are read as DuckDB's values; text of a CSV for a schema
        self._joined: dict[str, str] = {}
        self._kept = KeptTables(connection)
        self._headers = self._read_headers()
        self._targets = self._find_targets()  # the files that DuckDB may read, whatever links lead to them
        self._attached = attached  # what _stat_file said of a DuckDB file when it was opened
        self.generation = 0
        self._seen: tuple[State, ...] | None = None  # the states of the files of this generation, where they tell
        self._declared: Mapping[str, JoinTable] = {}
        self.rows_fetched = 0
        self._has_view = False

    # ------------------------------------------------------------ opening

    @classmethod
    def _over_files(cls, files: Files, options: ReadOptions) -> DuckDBEngine:
        with opening(one_row_each=options.one_row_each) as connection:
            try:
                allowed = dict.fromkeys(name for path in files.paths for name in (quote_text(path), quote_path(path)))
                connection.execute(f"SET allowed_paths = [{', '.join(allowed)}]")
                form = sniff_csv(connection, files, options) if files.kind == "csv" else None
                reader = (
                    write_parquet_reader(files)
                    if form is None
                    else write_csv_reader(files, options, form, form.columns)
                )
                connection.execute(f"CREATE TEMP VIEW {_SOURCE} AS SELECT * FROM {reader}")
                native = _describe(connection, _SOURCE) if form is None else form.columns
            except duckdb.Error as error:
                raise explain_error(error, files.paths[0], files.kind) from None
        return cls(connection, options.table or name_table(files.paths[0]), native, files, options, None, form)

    @classmethod
    def _over_database(cls, path: str, options: ReadOptions) -> DuckDBEngine:
        """Open a DuckDB file, attached to a database in memory so that one process may open it several times."""
        if not Path(path).is_file():
            raise DataError(f"There is no DuckDB file {path}.")
        with opening(one_row_each=options.one_row_each) as connection:
            stat = _stat_file(path)
            try:
                connection.execute(f"ATTACH {quote_text(path)} AS {_ATTACHED} (READ_ONLY)")
                connection.execute(f"USE {_ATTACHED}")
            except duckdb.Error:
                raise DataError(
                    f"{path} cannot be opened as a DuckDB file. Is it one, and not in use by a writer?"
                ) from None
            table = options.table or _only_table(connection, path)
            parts = [quote_identifier(part) for part in table.split(".")]
            try:
                native = _describe(connection, ".".join(parts))
                columns = ", ".join(_by_bytes(name, kind) for name, kind in native.items())
                connection.execute(f"CREATE TEMP VIEW {_SOURCE} AS SELECT {columns} FROM {'.'.join(parts)}")
            except duckdb.Error:
                raise DataError(f"{path} has no table {table}. Name one with ", Option("table"), ".") from None
        return cls(connection, table, native, Files("duckdb", (path,)), options, None, attached=stat)

    @classmethod
    def _over_table(cls, table: pa.Table, options: ReadOptions) -> DuckDBEngine:
        from dosimeter.engines.arrow_tables import copy_table, digest_table, without_zones

        digest, table = digest_table(table), copy_table(table)
        unread: dict[str, str] = {}
        with opening(one_row_each=options.one_row_each) as connection:
            if options.threads is not None:
                connection.execute(f"SET threads = {options.threads:d}")
            try:
                connection.register(_SOURCE, without_zones(table))
                native = _describe(connection, _SOURCE)
            except duckdb.Error:
                unread = {field.name: str(field.type) for field in table.schema if not _is_readable(connection, field)}
                if not unread or len(unread) == len(table.schema):
                    listed = ", ".join(f"{name} ({kind})" for name, kind in list(unread.items())[:20])
                    raise DataError(
                        f"The table has no column of a type that DuckDB reads: {listed}. Cast them first."
                    ) from None
                connection.register(_SOURCE, without_zones(table.drop_columns(list(unread))))
                native = _describe(connection, _SOURCE)
        return cls(connection, options.table or "data", native | unread, None, options, digest)

    # ------------------------------------------------------------ describing

    def default_table(self) -> str:
        return self._table

    def describe(self) -> Mapping[str, ColumnType]:
        """Return the columns and their types. Columns of a type without equivalent (times, lists …) are left out."""
        if self._form is not None:  # a CSV's cells are text in any case
            return {name: guess_type(native) or ColumnType.TEXT for name, native in self._native.items()}
        found = {name: guess_type(native) for name, native in self._native.items()}
        return {name: kind for name, kind in found.items() if kind is not None}

    def unread_columns(self) -> Mapping[str, str]:
        """Return the columns that ``describe`` leaves out, each with its type in the source."""
        described = self.describe()
        return {name: native.split("(")[0] for name, native in self._native.items() if name not in described}

    def _infer_types(self) -> dict[str, str]:
        """Return by name, for each column of a CSV, the DuckDB type that all its cells can be read as: one scan.

        This is for a CSV with decimal commas or with dates in a given format, which DuckDB itself cannot recognise.
        """
        cells = {name: exp.column(exp.to_identifier(name, quoted=True)) for name in self._native}
        query = inference_query(cells, exp.Table(this=exp.to_identifier("cells")), self._writing, native_type)
        text = query.sql(dialect="duckdb", unsupported_level=ErrorLevel.RAISE)
        row = self._run(f"WITH cells AS (FROM {self._text_reader()}) {text}").to_pylist()[0]
        kinds = infer_types(cells, row)
        return {name: native_type(kind).sql(dialect="duckdb") for name, kind in kinds.items()}

    def impose(self, schema: Schema) -> None:
        self._reading = match_columns(schema.columns, self._native, text=self._form is not None)
        self._create_view(typed=self._form is None)
        self._kept.drop()
        self._declared = schema.tables

    def _create_view(self, *, typed: bool) -> None:
        """Make the view that every query reads: each column in its type, odd cells NULL (N4).

        ``typed``: whether the source gives typed values; otherwise it is a CSV whose cells are read as text.
        """
        columns = ", ".join(
            f"{self._value_of(name, typed=typed).sql(dialect='duckdb')} AS {quote_identifier(name)}"
            for name in self._reading
        )
        view = f"TABLE {_HELD}" if self._holds else f"VIEW {_TYPED}"
        with self._translated():
            self._connection.execute(
                f"CREATE OR REPLACE TEMP {view} AS SELECT {columns} FROM {self._source(typed=typed)}"
            )
        self._typed, self._has_view = typed, True

    def _source(self, *, typed: bool) -> str:
        """Return what the view reads: DuckDB's values if ``typed``, otherwise the cells of a CSV as text."""
        if not typed:
            return self._text_reader()
        if not self._holds:
            return _SOURCE
        cells = {quote_identifier(name): native for name, native in self._native.items()}
        return f"(SELECT {', '.join(f'TRY_CAST({a} AS {b}) AS {a}' for a, b in cells.items())} FROM {_CELLS})"

    def hold(self) -> None:
        if self._form is None or self._files is None or self._holds:
            return
        size = sum(Path(path).stat().st_size * (8 if path.endswith(".gz") else 1) for path in self._files.paths)
        if size > _LARGEST_HELD:
            return
        with self._translated():
            self._connection.execute(f"CREATE OR REPLACE TEMP TABLE {_CELLS} AS FROM {self._text_reader()}")
        self._holds, self._has_view = True, False

    def _value_of(self, name: str, *, typed: bool) -> exp.Expression:
        source, kind = self._reading[name]
        if typed:
            return read_column(source, self._native[source], kind)
        return read_text_column(source, kind, self._writing)

    def doubtful_columns(self) -> frozenset[str]:
        """Return the columns of a CSV that may have cells not written as the declared type; none for other sources."""
        if self._typed:
            return frozenset()
        found = {name for name, (source, kind) in self._reading.items() if not is_read_as(self._native[source], kind)}
        return frozenset(found)

    def count_odd_cells(self, names: Collection[str], table: JoinTable | None = None) -> Mapping[str, int]:
        """Return how many cells of each column are not NULL in the source but count as NULL (N4)."""
        if table is not None:
            with contextlib.closing(self._open_joined(table)) as other:
                other.impose(Schema(table=table.name, columns=table.columns))
                return other.count_odd_cells(names)
        counts = ", ".join(
            f"COUNT({quote_identifier(self._reading[name][0])}) - "
            f"COUNT({self._value_of(name, typed=self._typed).sql(dialect='duckdb')})"
            for name in names
        )
        if not counts:
            return {}
        found = self._run(f"SELECT {counts} FROM {self._source(typed=self._typed)}")
        return {name: int(column[0].as_py()) for name, column in zip(names, found.columns, strict=True)}

    def _text_reader(self) -> str:
        """Return SQL that reads the CSV with every cell as text, again unless its cells are held."""
        if self._holds:
            return _CELLS
        assert self._files is not None
        assert self._form is not None
        return write_csv_reader(self._files, self._options, self._form, dict.fromkeys(self._native, "VARCHAR"))

    def relation(self) -> exp.Expression:
        """Return the view that queries read. Without a schema it is made here, of the source's own types."""
        if not self._has_view:
            self._create_view(typed=self._typed)
        return exp.Table(this=exp.to_identifier(_HELD if self._holds else _TYPED, quoted=True))

    def joined(self, table: JoinTable) -> exp.Expression:
        """Return a further table for a FROM clause. Another DuckDBEngine reads its rows once; this one keeps them."""
        if table.name not in self._joined:
            view = f"dosimeter_joined_{self.generation}_{len(self._joined)}"
            with contextlib.closing(self._open_joined(table)) as other:
                other.impose(Schema(table=table.name, columns=table.columns))
                self._connection.register(view, other.fetch(exp.select(exp.Star()).from_(other.relation())))
            self._joined[table.name] = view
        return exp.Table(this=exp.to_identifier(self._joined[table.name], quoted=True))

    def _open_joined(self, table: JoinTable) -> DuckDBEngine:
        if table.name in self._options.tables:
            return open_duckdb(self._options.tables[table.name], ReadOptions(threads=self._options.threads))
        if self._files is not None and self._is_in_same_file(table):
            if table.public and _bare(table.source or table.name) == _bare(self._table):
                raise joined_with_itself(table)
            return open_duckdb(f"duckdb:{self._files.paths[0]}", ReadOptions(table=table.source or table.name))
        if table.source is None:
            raise SchemaError(f'[tables.{table.name}] does not say where its data are. Add source = "file.csv" to it.')
        other = open_duckdb(table.source)
        if table.public and self._shares_files(other):
            other.close()
            raise joined_with_itself(table)
        return other

    def _shares_files(self, other: DuckDBEngine) -> bool:
        own, others = ({Path(path).resolve() for path in e._files.paths} if e._files else set() for e in (self, other))
        return not own.isdisjoint(others)

    # ------------------------------------------------------------ running

    def fetch(self, query: exp.Select) -> pa.Table:
        table = self._run(write_query(query))
        self.rows_fetched += table.num_rows
        return table

    def fetch_few(self, query: exp.Select) -> FewRows:
        """Run the query and read its rows as Python values. Reading them as Arrow would make DuckDB plan it twice."""
        with self._translated():
            found = self._connection.execute(write_query(query))
            names = [str(column[0]) for column in found.description or ()]
            rows = found.fetchall()
        self.rows_fetched += len(rows)
        return FewRows({name: [row[at] for row in rows] for at, name in enumerate(names)}, len(rows))

    def keep(
        self, query: exp.Select, columns: Mapping[str, ColumnType], *, rows: int, by: str | None = None
    ) -> exp.Expression:
        with self._translated():
            parts = (write_query(query),) if by is None else write_parts(query)
            name = self._kept.keep(parts, cells=rows * len(columns), by=by)
        return query.subquery("kept") if name is None else exp.to_table(name)

    def _run(self, text: str) -> pa.Table:
        with self._translated():
            return self._connection.sql(text).to_arrow_table()

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        """Raise errors of our own for DuckDB's."""
        try:
            with interruptible():
                yield
        except duckdb.Error as error:
            if _INTERRUPTED.match(str(error)):
                raise KeyboardInterrupt from None
            raise self._reading_error(error) from None

    def _reading_error(self, error: duckdb.Error) -> DataError:
        gone = next((path for path in self._files.paths if not os.access(path, os.R_OK)), None) if self._files else None
        if gone is not None:
            return unreadable(gone)
        path = self._files.paths[0] if self._files else self._table
        return explain_error(error, path, self._files.kind if self._files else "table")

    def refresh(self) -> None:
        """Void what was found out about the data, and forget joined tables, which are read again when they are needed.

        Do nothing if all of this holds: every individual has one row, no further tables are declared, and no file has
        changed since the last look at it. A table in memory always counts as changed, since its changes do not show.
        Joined tables that are read after a refresh get new names, so that an old name never reads a new table. Raises
        DataError if columns changed.
        """
        if self._files is not None and self._read_headers() != self._headers:
            raise changed_columns(self._files.paths[0])
        seen, self._seen = self._seen, read_states(self._list_paths())
        changed = self._files is None or seen is None or seen != self._seen
        if changed:
            self._require_columns()
            self._holds, self._has_view = False, self._has_view and not self._holds
        elif self._options.one_row_each and not self._declared:
            return
        for view in self._joined.values():
            self._connection.unregister(view)
        self._joined.clear()
        self._kept.drop()
        self.generation += 1

    def _require_columns(self) -> None:
        """Refuse paths that now lead to other files, which DuckDB may not read, and Parquet files with other columns.

        Also refuse a DuckDB file that was replaced: it stays attached, so that queries would read what it was before.
        """
        if self._files is None:
            return
        moved = self._find_targets() != self._targets
        if self._files.kind == "duckdb":
            moved = moved or _stat_file(self._files.paths[0]) != self._attached
        if moved:
            raise DataError(f"{self._files.paths[0]} leads to another file now. Open it again, or start again.")
        if self._files.kind == "parquet":
            with self._translated():
                found = _describe(self._connection, _SOURCE)
            if found != self._native:
                raise changed_columns(self._files.paths[0])

    def _find_targets(self) -> list[str]:
        return [os.path.realpath(path) for path in self._files.paths] if self._files else []

    def _read_headers(self) -> list[bytes]:
        """Return the first line of every CSV; no lines for other sources. A changed line means other columns."""
        if self._form is None or self._files is None:
            return []
        for path in self._files.paths:
            if not os.access(path, os.R_OK):
                raise unreadable(path)
        return [read_first_line(path) for path in self._files.paths]

    def fingerprint(self) -> str:
        return combine_fingerprints(self._digest(), self._digest_all_joined())

    def equal_fingerprints(self) -> frozenset[str]:
        """Return the fingerprints of the same files with other options that mean the same; none for other sources."""
        if self._files is None or self._files.kind == "duckdb":
            return frozenset()
        joined = self._digest_all_joined()
        alike = digest_alike(self._files.kind, self._list_paths(), self._options)
        return frozenset(combine_fingerprints(each, joined) for each in alike)

    def _digest_all_joined(self) -> Mapping[str, str]:
        beside = [table for table in self._declared.values() if not self._is_in_same_file(table)]
        return {table.name: self._digest_joined(table) for table in beside}

    def _digest_joined(self, table: JoinTable) -> str:
        try:
            with contextlib.closing(self._open_joined(table)) as other:
                return other.fingerprint()
        except (DataError, OptionError, SchemaError):
            return "absent"  # no query can join it either

    def identities(self, *, public: bool = False) -> frozenset[str]:
        """Return the identities of files' bytes, or of tables' content. ``public``: as in ``Engine.identities``."""
        found = set() if public else set(self._identify())
        for table in self._declared.values():
            if table.public is not public:
                continue
            try:
                other = self._open_joined(table)
            except (DataError, OptionError, SchemaError):
                continue  # absent: no query can join it either
            with contextlib.closing(other):
                found |= other.identities()
        return frozenset(found)

    def _identify(self) -> frozenset[str]:
        if self._files is not None and self._files.kind != "duckdb":
            return identify_files(self._files.paths)
        try:
            with interruptible():
                if self._files is not None:
                    return identify_stored(self._connection, _ATTACHED, self._table)
                return identify_relation(self._connection, _SOURCE)
        except duckdb.Error as error:
            if self._content is not None:  # in memory, with text that is not UTF-8: identified by its bytes alone
                return frozenset({f"arrow:{self._content}"})
            raise self._reading_error(error) from None

    def _is_in_same_file(self, table: JoinTable) -> bool:
        return self._files is not None and self._files.kind == "duckdb" and table.name not in self._options.tables

    def _digest(self) -> str:
        """Return the digest of the table's own data, without joined tables."""
        if self._files is None:
            assert self._content is not None
            return self._content
        return digest_files(self._files.kind, self._list_paths(), self._options)

    def _list_paths(self) -> tuple[str, ...]:
        if self._files is None:
            return ()
        logs = (f"{path}.wal" for path in self._files.paths)  # what is not yet in the file itself
        return (*self._files.paths, *(log for log in logs if Path(log).is_file()))

    def progress(self) -> float | None:
        done = self._connection.query_progress()
        return done if done >= 0 else None

    def interrupt(self) -> None:
        self._connection.interrupt()

    def close(self) -> None:
        self._connection.close()


# ---------------------------------------------------------------- opening


def _stat_file(path: str) -> tuple[int, ...]:
    """Return a file's device, inode, size and time of change. They differ once another file has replaced it."""
    try:
        return read_state(path)[:4]  # without the inode's time, which a change of access rights moves
    except OSError:
        raise unreadable(path) from None


def _bare(table: str) -> str:
    return table.lower().removeprefix("main.").strip('"')


def _by_bytes(name: str, kind: str) -> str:
    """Return SQL for a column of the DuckDB type ``kind``. Bytes decide equality and order of text, not a collation."""
    found = quote_identifier(name)
    return f"{found} COLLATE C AS {found}" if kind == "VARCHAR" else found


def _is_readable(connection: duckdb.DuckDBPyConnection, field: pa.Field[Any]) -> bool:
    import pyarrow as pa

    try:
        connection.register("dosimeter_probe", pa.schema([field]).empty_table())
        _describe(connection, "dosimeter_probe")
    except duckdb.Error:
        return False
    return True


def _describe(connection: duckdb.DuckDBPyConnection, view: str) -> dict[str, str]:
    rows = connection.execute(f"DESCRIBE {view}").fetchall()
    return {str(row[0]): str(row[1]) for row in rows}


def _only_table(connection: duckdb.DuckDBPyConnection, path: str) -> str:
    rows = connection.execute(
        f"""
        SELECT schema_name, table_name FROM duckdb_tables() WHERE NOT internal AND database_name = '{_ATTACHED}'
        UNION ALL
        SELECT schema_name, view_name FROM duckdb_views() WHERE NOT internal AND database_name = '{_ATTACHED}'
        ORDER BY ALL
        """
    ).fetchall()
    names = [str(table) if schema == "main" else f"{schema}.{table}" for schema, table in rows]
    if len(names) != 1:
        listed = ", ".join(names[:20]) or "none"
        raise OptionError(f"{path} has {len(names)} tables ({listed}). Name one with ", Option("table"), ".")
    return names[0]
