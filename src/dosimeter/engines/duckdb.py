"""The embedded engine: CSV, gzipped CSV, Parquet, DuckDB files and Arrow tables, through DuckDB.

Once the source is open, the connection is locked: no other file, no network, no extension, no configuration. Only
SELECT trees of our own making run. DuckDB's messages can quote cells, so none is passed on.
"""

from __future__ import annotations

import codecs
import contextlib
import csv
import glob
import gzip
import hashlib
import io
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
from sqlglot import ErrorLevel, exp

from dosimeter.engines.base import ReadOptions, combine_fingerprints, digest_files, joined_with_itself
from dosimeter.errors import DataError, Interrupted, OptionError, SchemaError
from dosimeter.model import ColumnType, JoinTable, Schema

if TYPE_CHECKING:
    import pyarrow as pa

_NATIVE = {
    ColumnType.INTEGER: "BIGINT",
    ColumnType.DECIMAL: "DOUBLE",
    ColumnType.CATEGORY: "VARCHAR",
    ColumnType.TEXT: "VARCHAR",
    ColumnType.BOOLEAN: "BOOLEAN",
    ColumnType.DATE: "DATE",
    ColumnType.TIMESTAMP: "TIMESTAMP",
}
_INTEGERS = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "HUGEINT"}
_FITS = {
    ColumnType.INTEGER: _INTEGERS,
    ColumnType.DECIMAL: _INTEGERS | {"FLOAT", "DOUBLE", "DECIMAL"},
    ColumnType.CATEGORY: {"VARCHAR", "ENUM"},
    ColumnType.TEXT: {"VARCHAR", "ENUM", "UUID"},
    ColumnType.BOOLEAN: {"BOOLEAN"},
    ColumnType.DATE: {"DATE"},
    ColumnType.TIMESTAMP: {"TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "TIMESTAMP WITH TIME ZONE"},
}
_WHOLE = (
    ' If these are whole numbers with gaps, which pandas keeps as float64: in pandas use .astype("Int64"), in SQL '
    "CAST({} AS BIGINT), and write a Parquet file anew."
)
_DAYS = (
    " If these are days without a time: in pandas use .dt.date, in SQL CAST({} AS DATE), and write a Parquet file anew."
)
_CONVERSIONS = {(native, ColumnType.INTEGER): _WHOLE for native in ("FLOAT", "DOUBLE", "DECIMAL")} | {
    (native, ColumnType.DATE): _DAYS for native in _FITS[ColumnType.TIMESTAMP]
}
# DuckDB's own; more would need an extension. Python knows the many names each goes by.
_ENCODINGS = {"utf-8": "utf-8", "utf-8-sig": "utf-8", "ascii": "utf-8", "iso8859-1": "latin-1", "utf-16": "utf-16"}
_CSV_ENDINGS = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".txt", ".txt.gz")
_PARQUET_ENDINGS = (".parquet", ".pq")
_SOURCE = "dosimeter_source"
_TYPED = "dosimeter_table"
_ATTACHED = "dosimeter_database"
_NOT_OF_TYPE = "dosimeter: not of type"


@dataclass(frozen=True, slots=True)
class _Files:
    kind: str
    paths: tuple[str, ...]


def open_duckdb(source: str | pa.Table, options: ReadOptions | None = None) -> DuckDBEngine:
    """Open a path, glob, ``duckdb:PATH`` or Arrow table."""
    options = options or ReadOptions()
    if not isinstance(source, str):
        return DuckDBEngine._over_table(source, options)
    if source.startswith("duckdb:"):
        return DuckDBEngine._over_database(source.removeprefix("duckdb:"), options)
    return DuckDBEngine._over_files(_find_files(source), options)


def _find_files(source: str) -> _Files:
    lowered = source.lower()
    if lowered.endswith(_PARQUET_ENDINGS):
        kind = "parquet"
    elif lowered.endswith(_CSV_ENDINGS):
        kind = "csv"
    else:
        raise OptionError(
            f"{source}: the kind of data is unknown. Give a .csv, .csv.gz or .parquet file or glob, duckdb:PATH, "
            "or a database URL."
        )
    is_pattern = any(mark in source for mark in "*?[") and not Path(source).exists()
    paths = sorted(glob.glob(source, recursive=True)) if is_pattern else [source]  # noqa: PTH207 (absolute patterns)
    files = tuple(path for path in paths if Path(path).is_file())
    if not files:
        raise DataError(f"There is no file {source}.")
    return _Files(kind, files)


def _quoted(text: str) -> str:
    return exp.Literal.string(text).sql(dialect="duckdb")


def _file(path: str) -> str:
    """A file's name as a literal. DuckDB reads names as patterns, so what would be one is taken literally."""
    return _quoted(re.sub(r"([*?\[])", r"[\1]", path))


def _identifier(name: str) -> str:
    return exp.to_identifier(name, quoted=True).sql(dialect="duckdb")


class DuckDBEngine:
    """One open source. Not shared between threads; ``interrupt`` and ``progress`` may be called from another."""

    name = "duckdb"

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        table: str,
        native: Mapping[str, str],
        files: _Files | None,
        options: ReadOptions,
        content: str | None,
        form: _CsvForm | None = None,
    ) -> None:
        self._connection = connection
        self._table = table
        self._native = dict(native)
        self._files = files
        self._options = options
        self._content = content
        self._form = form
        self._relation = _SOURCE
        self._joined: dict[str, str] = {}
        self._declared: Mapping[str, JoinTable] = {}
        self.rows_fetched = 0

    # ------------------------------------------------------------ opening

    @classmethod
    def _over_files(cls, files: _Files, options: ReadOptions) -> DuckDBEngine:
        connection = _connect()
        try:
            allowed = dict.fromkeys(name for path in files.paths for name in (_quoted(path), _file(path)))
            connection.execute(f"SET allowed_paths = [{', '.join(allowed)}]")
            form = _sniff_csv(connection, files, options) if files.kind == "csv" else None
            reader = _parquet_reader(files) if form is None else _csv_reader(files, options, form, form.columns)
            connection.execute(f"CREATE TEMP VIEW {_SOURCE} AS SELECT * FROM {reader}")
            native = _describe(connection, _SOURCE) if form is None else form.columns
        except duckdb.Error as error:
            connection.close()
            raise _reading_error(error, files.paths[0], files.kind) from None
        _lock(connection)
        stem = Path(files.paths[0]).name
        table = options.table or re.sub(r"\.(csv|tsv|txt|parquet|pq)(\.gz)?$", "", stem, flags=re.IGNORECASE)
        return cls(connection, table, native, files, options, None, form)

    @classmethod
    def _over_database(cls, path: str, options: ReadOptions) -> DuckDBEngine:
        """Attached to a database in memory, so that one process may have the file open several times."""
        if not Path(path).is_file():
            raise DataError(f"There is no DuckDB file {path}.")
        connection = _connect()
        try:
            connection.execute(f"ATTACH {_quoted(path)} AS {_ATTACHED} (READ_ONLY)")
            connection.execute(f"USE {_ATTACHED}")
        except duckdb.Error:
            connection.close()
            raise DataError(
                f"{path} cannot be opened as a DuckDB file. Is it one, and not in use by a writer?"
            ) from None
        table = options.table or _only_table(connection, path)
        parts = [_identifier(part) for part in table.split(".")]
        try:
            native = _describe(connection, ".".join(parts))
            columns = ", ".join(_by_bytes(name, kind) for name, kind in native.items())
            connection.execute(f"CREATE TEMP VIEW {_SOURCE} AS SELECT {columns} FROM {'.'.join(parts)}")
        except duckdb.Error:
            connection.close()
            raise DataError(f"{path} has no table {table}. Name one with --table.") from None
        _lock(connection)
        return cls(connection, table, native, _Files("duckdb", (path,)), options, None)

    @classmethod
    def _over_table(cls, table: pa.Table, options: ReadOptions) -> DuckDBEngine:
        connection = _connect()
        connection.register(_SOURCE, table)
        native = _describe(connection, _SOURCE)
        _lock(connection)
        return cls(connection, options.table or "data", native, None, options, _digest_table(table))

    # ------------------------------------------------------------ what it is

    def default_table(self) -> str:
        return self._table

    def describe(self) -> Mapping[str, ColumnType]:
        return {name: _guess(kind) for name, kind in self._native.items()}

    def impose(self, schema: Schema) -> None:
        named = {name.lower(): name for name in self._native}
        if not any(column.name.lower() in named for column in schema.columns.values()):
            raise DataError(  # without a header the "names" would be cells, so none is quoted
                f"The data has none of the columns the schema declares. The first line of a CSV must name its columns; "
                f"the schema's are {', '.join(list(schema.columns)[:20])}."
            )
        columns: list[str] = []
        for column in schema.columns.values():
            found = named.get(column.name.lower())
            if found is None:
                raise DataError(
                    f"The data has no column {column.name}, which the schema declares. "
                    f"Columns in the data: {', '.join(list(self._native)[:20])}."
                )
            native = self._native[found].split("(")[0]  # an ENUM's full name lists its values
            whole = column.type is ColumnType.INTEGER and re.fullmatch(r"DECIMAL\(\d+,0\)", self._native[found])
            if self._form is None and native not in _FITS[column.type] and not whole:
                raise DataError(
                    f"Column {column.name} is {native} in the data and {column.type} in the schema. Change one."
                    f"{_CONVERSIONS.get((native, column.type), '').format(column.name)}"
                )
            strict = self._form is not None and column.type in _READ_AS_TEXT
            value = (
                _strict_cast(found, column.type) if strict else f"CAST({_identifier(found)} AS {_NATIVE[column.type]})"
            )
            columns.append(f"{value} AS {_identifier(column.name)}")
        source = _SOURCE if self._form is None else self._typed_reader(schema)
        try:
            self._connection.execute(
                f"CREATE OR REPLACE TEMP VIEW {_TYPED} AS SELECT {', '.join(columns)} FROM {source}"
            )
        except duckdb.Error as error:
            raise self._reading_error(error) from None
        self._relation = _TYPED
        self._declared = schema.tables

    def _typed_reader(self, schema: Schema) -> str:
        """The CSV again, parsed straight into the schema's types; what needs care, and the rest, stays text."""
        assert self._files is not None
        assert self._form is not None
        kinds = {column.name.lower(): _NATIVE[column.type] for column in schema.columns.values()}
        kinds |= {column.name.lower(): "VARCHAR" for column in schema.columns.values() if column.type in _READ_AS_TEXT}
        declared = {name: kinds.get(name.lower(), "VARCHAR") for name in self._native}
        return _csv_reader(self._files, self._options, self._form, declared)

    def relation(self) -> exp.Expression:
        return exp.Table(this=exp.to_identifier(self._relation, quoted=True))

    def joined(self, table: JoinTable) -> exp.Expression:
        """The further table, read once through an engine of its own and kept beside this one."""
        if table.name not in self._joined:
            view = f"dosimeter_joined_{len(self._joined)}"
            with contextlib.closing(self._open_joined(table)) as other:
                other.impose(Schema(table=table.name, columns=table.columns))
                self._connection.register(view, other.fetch(exp.select(exp.Star()).from_(other.relation())))
            self._joined[table.name] = view
        return exp.Table(this=exp.to_identifier(self._joined[table.name], quoted=True))

    def _open_joined(self, table: JoinTable) -> DuckDBEngine:
        if table.name in self._options.tables:
            return open_duckdb(self._options.tables[table.name])
        if self._is_in_same_file(table):
            assert self._files is not None
            if table.public and (table.source or table.name).lower() == self._table.lower():
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
        if not isinstance(query, exp.Select):
            raise TypeError("only SELECT trees of our own making run")
        text = query.sql(dialect="duckdb", unsupported_level=ErrorLevel.RAISE)
        try:
            table = self._connection.sql(text).to_arrow_table()
        except duckdb.InterruptException:
            raise Interrupted("Stopped.") from None
        except KeyboardInterrupt:
            self._connection.interrupt()
            raise
        except duckdb.Error as error:
            raise self._reading_error(error) from None
        self.rows_fetched += table.num_rows
        return table

    def _reading_error(self, error: duckdb.Error) -> DataError:
        path = self._files.paths[0] if self._files else self._table
        failed = re.search(rf"{_NOT_OF_TYPE} (\w+) ([0-9a-f]*)", str(error))
        if failed is None:
            return _reading_error(error, path, self._files.kind if self._files else "table")
        form = _READ_AS_TEXT[ColumnType(failed.group(1))][1]
        return DataError(
            f"{path}: column {bytes.fromhex(failed.group(2)).decode()} holds values that are not {form}. Correct the "
            "file, or the type in the schema, or say with --null how missing values are written."
        )

    def refresh(self) -> None:
        self._joined.clear()

    def is_still(self, digest: str) -> bool:
        return self.fingerprint() == digest

    def fingerprint(self) -> str:
        beside = [table for table in self._declared.values() if not self._is_in_same_file(table)]
        return combine_fingerprints(self._digest(), {table.name: self._digest_joined(table) for table in beside})

    def _digest_joined(self, table: JoinTable) -> str:
        try:
            with contextlib.closing(self._open_joined(table)) as other:
                return other.fingerprint()
        except (DataError, OptionError, SchemaError):
            return "absent"  # no query can join it either

    def _is_in_same_file(self, table: JoinTable) -> bool:
        return self._files is not None and self._files.kind == "duckdb" and table.name not in self._options.tables

    def _digest(self) -> str:
        if self._files is None:
            assert self._content is not None
            return self._content
        logs = (f"{path}.wal" for path in self._files.paths)  # what is not yet in the file itself
        paths = (*self._files.paths, *(log for log in logs if Path(log).is_file()))
        return digest_files(self._files.kind, paths, self._options)

    def progress(self) -> float | None:
        done = self._connection.query_progress()
        return done if done >= 0 else None

    def interrupt(self) -> None:
        self._connection.interrupt()

    def close(self) -> None:
        self._connection.close()


# ---------------------------------------------------------------- connections


def _connect() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(
        ":memory:",
        config={
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "python_enable_replacements": "false",
        },
    )
    connection.execute("SET enable_progress_bar = true")
    connection.execute("SET enable_progress_bar_print = false")
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def _lock(connection: duckdb.DuckDBPyConnection) -> None:
    """From here on: no other file, no network, no change of settings."""
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def _by_bytes(name: str, kind: str) -> str:
    """A column without its collation: what is equal, and what is less, is decided by bytes, as on every engine."""
    found = _identifier(name)
    return f"{found} COLLATE C AS {found}" if kind == "VARCHAR" else found


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
        connection.close()
        raise OptionError(f"{path} has {len(names)} tables ({', '.join(names[:20]) or 'none'}). Name one with --table.")
    return names[0]


def _guess(native: str) -> ColumnType:
    bare = native.split("(")[0]
    for kind in (ColumnType.INTEGER, ColumnType.DECIMAL, ColumnType.BOOLEAN, ColumnType.DATE, ColumnType.TIMESTAMP):
        if bare in _FITS[kind]:
            return kind
    return ColumnType.TEXT


# ---------------------------------------------------------------- files


def _parquet_reader(files: _Files) -> str:
    return f"read_parquet([{', '.join(_file(path) for path in files.paths)}], union_by_name = true)"


# What DuckDB reads too generously: 12.5 as the whole number 13, and a moment with anything after it.
_READ_AS_TEXT = {
    ColumnType.INTEGER: ("TRY_CAST({0} AS DOUBLE) = TRY_CAST({0} AS BIGINT)", "whole numbers"),
    ColumnType.TIMESTAMP: (
        r"regexp_full_match({0}, '\d{{4}}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(\.\d+)?)?)?Z?') "
        "AND TRY_CAST({0} AS TIMESTAMP) IS NOT NULL",
        "moments in UTC (2024-12-31 23:59:59)",
    ),
}


def _strict_cast(name: str, kind: ColumnType) -> str:
    """Text as its type. It fails where a plain cast would guess, naming the column and nothing else."""
    text = _identifier(name)
    test = _READ_AS_TEXT[kind][0].format(text)
    failure = _quoted(f"{_NOT_OF_TYPE} {kind} {name.encode().hex()}")
    return (
        f"CASE WHEN {text} IS NULL THEN NULL WHEN {test} THEN CAST({text} AS {_NATIVE[kind]}) ELSE error({failure}) END"
    )


@dataclass(frozen=True, slots=True)
class _CsvForm:
    """How a CSV is written, found out once: afterwards nothing about it is guessed again."""

    delimiter: str
    columns: Mapping[str, str]
    skipped: bool = False  # whether the first lines do not fit the rest


def _sniff_csv(connection: duckdb.DuckDBPyConnection, files: _Files, options: ReadOptions) -> _CsvForm:
    """The first file's form. Several are read by position, so each must name the same columns in the same order."""
    settings = _csv_settings(options) | {"sample_size": "-1"}
    if options.delimiter is not None:
        settings["delim"] = _quoted(options.delimiter)
    form = _as_table(_sniff_first(connection, files.paths[0], settings, options), options, files.paths[0])
    settings |= {"delim": _quoted(form.delimiter), "sample_size": "1"}
    for path in files.paths[1:]:
        if list(_sniff_file(connection, path, settings).columns) != list(form.columns):
            raise DataError(f"{path} does not have the same columns, in the same order, as {files.paths[0]}.")
    return form


def _sniff_first(
    connection: duckdb.DuckDBPyConnection, path: str, settings: Mapping[str, str], options: ReadOptions
) -> _CsvForm:
    """The first file's form; where the sniffer gives up on it, by its first line, so that reading finds the bad row."""
    try:
        form = _sniff_file(connection, path, settings)
    except duckdb.InvalidInputException:
        if options.delimiter is None:
            raise
        return _CsvForm(options.delimiter, _read_header(path, options.delimiter, options))
    if not form.skipped:
        return form
    return _CsvForm(form.delimiter, _read_header(path, form.delimiter, options))  # otherwise cells would be names


def _read_header(path: str, delimiter: str, options: ReadOptions) -> dict[str, str]:
    known = _read_encoding(options.encoding or "utf-8")
    opening = gzip.open if path.lower().endswith(".gz") else open
    names: list[str] = []
    with (
        contextlib.suppress(OSError, EOFError, ValueError, csv.Error),
        opening(path, "rt", encoding="utf-8-sig" if known == "utf-8" else known, errors="replace") as text,
    ):
        names = next(csv.reader(text, delimiter=delimiter), [])
    if not names:
        raise DataError(f"{path} cannot be read as CSV. Its first line must name the columns.")
    return dict.fromkeys(names, "VARCHAR")


def _sniff_file(connection: duckdb.DuckDBPyConnection, path: str, settings: Mapping[str, str]) -> _CsvForm:
    listed = ", ".join(f"{name} = {value}" for name, value in settings.items())
    found = connection.sql(f"SELECT Delimiter, Columns, SkipRows FROM sniff_csv({_file(path)}, {listed})")
    delimiter, columns, skipped = found.fetchall()[0]
    names = {str(column["name"]): str(column["type"]) for column in columns}
    return _CsvForm(str(delimiter), names, skipped=bool(skipped))


def _as_table(form: _CsvForm, options: ReadOptions, path: str) -> _CsvForm:
    """Where a malformed row made the sniffer see one wide column, go by the header, so that reading finds the row."""
    if len(form.columns) != 1:
        return form
    (header,) = form.columns
    delimiter = max(",;\t|", key=header.count)
    names = next(csv.reader([header], delimiter=delimiter), [])
    if options.delimiter not in (None, delimiter) and len(names) > 1:
        shown = "tabs" if delimiter == "\t" else repr(delimiter)
        raise OptionError(
            f"{path}, line 1: the columns are separated by {shown}, not by the --delimiter {options.delimiter!r} that "
            "was given. Change it, or leave it out."
        )
    return _CsvForm(delimiter, dict.fromkeys(names, "VARCHAR")) if len(names) > 1 else form


def _csv_settings(options: ReadOptions) -> dict[str, str]:
    settings = {"header": "true", "nullstr": _quoted(options.null or ""), "strict_mode": "true"}
    settings |= {"quote": _quoted('"'), "escape": _quoted('"'), "dateformat": _quoted("%Y-%m-%d")}
    if options.delimiter is not None and len(options.delimiter) != 1:
        raise OptionError("--delimiter must be one character.")
    if options.encoding is not None:
        settings["encoding"] = _quoted(_read_encoding(options.encoding))
    return settings


def _read_encoding(name: str) -> str:
    """DuckDB's name of an encoding, whatever alias it was given by."""
    try:
        known = codecs.lookup(name).name
    except (LookupError, ValueError):  # not a name, or one with a NUL
        known = ""
    if known not in _ENCODINGS:
        raise OptionError(
            f"--encoding {name} is not supported: utf-8, latin-1 and utf-16 are. Convert the file to UTF-8, for "
            "example with iconv."
        )
    return _ENCODINGS[known]


def _csv_reader(files: _Files, options: ReadOptions, form: _CsvForm, kinds: Mapping[str, str]) -> str:
    settings = _csv_settings(options) | {
        "auto_detect": "false",
        "delim": _quoted(form.delimiter),
        "columns": "{" + ", ".join(f"{_quoted(a)}: {_quoted(b)}" for a, b in kinds.items()) + "}",
    }
    listed = ", ".join(_file(path) for path in files.paths)
    return f"read_csv([{listed}], {', '.join(f'{name} = {value}' for name, value in settings.items())})"


def _reading_error(error: duckdb.Error, path: str, kind: str) -> DataError:
    """Ours, from DuckDB's kind of error and the line number alone: its text can quote cells."""
    text = str(error)
    line = re.search(r"CSV Error on Line: (\d+)", text)
    column = re.search(r'Error when converting column "([^"\n]{1,64})"', text)
    fields = re.search(r"^Expected Number of Columns: (\d+) Found: (\d+)$", text, flags=re.MULTILINE)
    if line:
        what = "the row is malformed"
        if column:
            what = f"column {column.group(1)} does not have its declared type"
        elif "This file is not utf-8 encoded" in text:
            what = "the text is not UTF-8"
        elif fields:
            fewer = int(fields.group(2)) < int(fields.group(1))
            what = f"the row has {'fewer' if fewer else 'more'} fields than the header, which has {fields.group(1)}"
        elif "unterminated quote" in text:
            what = "a quote is not closed"
        return DataError(
            f"{path}, line {line.group(1)}: {what}. Correct the file, or the type in the schema, or say how it is "
            "written with --delimiter, --encoding and --null."
        )
    match error:
        case duckdb.ConversionException() | duckdb.OutOfRangeException():
            return DataError(
                f"{path}: a value does not have its declared type or range. Check with: dosimeter schema --check."
            )
        case duckdb.OutOfMemoryException():
            return DataError(
                f"{path}: not enough memory for this query. Group by fewer values or use a larger machine."
            )
        case duckdb.IOException() | duckdb.PermissionException():
            return DataError(f"{path} cannot be read. Does it exist, and may this user read it?")
        case _:
            named = {"csv": "CSV", "parquet": "Parquet"}.get(kind, "data")
            options = " If so, say how it is written with --delimiter, --encoding and --null." if kind == "csv" else ""
            return DataError(f"{path} cannot be read as {named}. Is the file what its name says?{options}")


def _digest_table(table: pa.Table) -> str:
    """A digest of a table's content: its Arrow stream, in one chunk, dictionaries and all."""
    import pyarrow as pa

    sink = _HashingSink()
    whole = table.replace_schema_metadata(None).combine_chunks().unify_dictionaries()
    with pa.ipc.new_stream(pa.PythonFile(sink, mode="w"), whole.schema) as writer:
        writer.write_table(whole)
    sink.digest.update(str(whole.num_rows).encode())
    return sink.digest.hexdigest()


class _HashingSink(io.RawIOBase):
    """Keeps nothing of what is written to it but the digest."""

    def __init__(self) -> None:
        self.digest = hashlib.sha256()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.digest.update(data)
        return len(data)
