"""Files, catalogue tables and DataFrames through Spark, classic or Connect: SQL and the DataFrame API only.

Takes a path or URI, ``spark:TABLE``, a SparkSession or a Spark DataFrame; gives an Engine. Only SELECT trees that
Dosimeter wrote run. They are analysed in ANSI mode and in UTC whatever the session is set to, over the table with the
schema's types imposed. Spark's messages and logs can quote cells: neither is passed on.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from dosimeter.engines.cells import odd_cells_query, read_odd_cells
from dosimeter.engines.columns import NativeColumn, NativeTypes, require_column
from dosimeter.engines.engine import (
    Engine,
    ReadOptions,
    changed_columns,
    combine_fingerprints,
    digest_alike,
    digest_files,
    digest_sums,
    joined_with_itself,
)
from dosimeter.engines.identities import identify_files
from dosimeter.engines.source_files import Files, name_table, say_how
from dosimeter.engines.spark_files import (
    find_files,
    identify_input,
    is_remote,
    read_csv,
    read_parquet,
)
from dosimeter.engines.spark_kept import KeptViews
from dosimeter.engines.spark_sessions import find_session, prepared, without_version_warnings
from dosimeter.engines.spark_trees import (
    NATIVE,
    fingerprint_query,
    held_cells,
    read_column,
    text_types_query,
    write_query,
)
from dosimeter.engines.written_cells import CellWriting, infer_types
from dosimeter.errors import (
    ConnectionLost,
    DataError,
    DosimeterError,
    Interrupted,
    OptionError,
    SchemaError,
    SourceUnreachable,
)
from dosimeter.problems import CHECK_SCHEMA, Option
from dosimeter.schema import Column, ColumnType, JoinTable, Schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_INTEGERS = frozenset({"tinyint", "smallint", "int", "bigint", "whole decimal"})
_NUMBERS = _INTEGERS | {"decimal", "float", "double"}
_TEXTS = frozenset({"string", "varchar", "char"})
_MOMENTS = frozenset({"timestamp", "timestamp_ntz"})
_TYPES = NativeTypes.of(
    integers=_INTEGERS, numbers=_NUMBERS, texts=_TEXTS, moments=_MOMENTS, boolean="boolean", flags=_INTEGERS
)
# They write failing queries, cells and all, to stderr.
_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
_OUT_OF_RANGE = ("CAST_", "ARITHMETIC_OVERFLOW", "NUMERIC_", "BINARY_ARITHMETIC_OVERFLOW", "INVALID_", "DATETIME_")


def open_spark(source: Any, options: ReadOptions | None = None) -> SparkEngine:
    """Open a path or URI (CSV, Parquet), ``spark:TABLE``, a SparkSession with ``table``, or a DataFrame."""
    options = options or ReadOptions()
    if not isinstance(source, str):
        return _open_object(source, options)
    if source.startswith("spark:"):
        named = source.removeprefix("spark:").strip("/") or options.table
        return _open_table(find_session(), named, ReadOptions(table=options.table or named))
    files = find_files(source)
    session = find_session()
    label = files.paths[0]

    def read() -> DataFrame:
        return read_csv(session, files, options) if files.kind == "csv" else read_parquet(session, files)

    with _translated(label), prepared(session):
        return SparkEngine(session, read, options.table or name_table(files.paths[0]), label, options, files)


def _open_object(source: Any, options: ReadOptions) -> SparkEngine:
    if hasattr(source, "createOrReplaceTempView"):
        session = source.sparkSession
        table = options.table or "data"
        with _translated(table), prepared(session):
            return SparkEngine(session, lambda: source, table, "the DataFrame", options, None)
    if hasattr(source, "table") and hasattr(source, "conf"):
        return _open_table(source, options.table, options)
    raise OptionError("Spark reads a path, spark:TABLE, a Spark DataFrame, or a SparkSession together with table.")


def _open_table(session: SparkSession, table: str | None, options: ReadOptions) -> SparkEngine:
    if not table:
        raise OptionError("Which table of Spark's catalogue? Name it with ", Option("table"), ", or as spark:TABLE.")
    with _translated(table), prepared(session):
        return SparkEngine(session, lambda: session.table(table), options.table or table, table, options, None)


class SparkEngine(Engine):
    """An engine over one source, in Spark. Another thread may call ``interrupt``. Closing keeps the session open."""

    name = "spark"
    keeps_rows = True

    def __init__(
        self,
        session: SparkSession,
        read: Callable[[], DataFrame],
        table: str,
        label: str,
        options: ReadOptions,
        files: Files | None,
    ) -> None:
        self._session = session
        self._table = table
        self._label = label
        self._options = options
        self._files = files
        self._is_text = files is not None and files.kind == "csv"
        self._writing = CellWriting.of(options)
        self._read = read
        frame = read()
        self._native = _native_types(frame)
        self.generation = 0
        self._reading: dict[str, tuple[str, ColumnType]] | None = None
        self._joined: dict[str, SparkEngine] = {}
        self._declared: Mapping[str, JoinTable] = {}
        self._view = f"dosimeter_{os.getpid()}_{id(self):x}"
        self._kept = KeptViews(session, self._view)
        self._tag = self._view
        self._interrupted = False
        self.rows_fetched = 0
        frame.createOrReplaceTempView(self._view)

    # ------------------------------------------------------------ describing

    def default_table(self) -> str:
        return self._table

    def describe(self) -> Mapping[str, ColumnType]:
        """Return the columns and their types. Columns of a type without equivalent (arrays, bytes …) are left out."""
        if self._is_text:
            return self._infer_types()
        found = {name: _column_type(native) for name, native in self._native.items()}
        return {name: kind for name, kind in found.items() if kind is not None}

    def unread_columns(self) -> Mapping[str, str]:
        """Return the columns that ``describe`` leaves out, each with its type in the source."""
        if self._is_text:
            return {}
        return {name: native for name, native in self._native.items() if _column_type(native) is None}

    def _infer_types(self) -> dict[str, ColumnType]:
        """Return the type that all cells of each CSV column can be read as, by the rules of ``cells.py``: one scan."""
        query = text_types_query(list(self._native), self._source(), self._null() or "", self._writing)
        return infer_types(self._native, self.fetch(query).to_pylist()[0])

    def impose(self, schema: Schema) -> None:
        lowered, columns = {name.lower(): name for name in self._native}, schema.columns

        def find(name: str) -> str | None:
            return name if name in self._native else lowered.get(name.lower())

        if self._is_text:
            reading = {each.name: require_column(each, find(each.name), self._native) for each in columns.values()}
        else:
            found = {name: NativeColumn(native, _kind(native)) for name, native in self._native.items()}
            reading = _TYPES.match(columns, found, find, _advise_cast)
        self._reading = {each.name: (reading[each.name], each.type) for each in columns.values()}
        self._declared = schema.tables

    def relation(self) -> exp.Expression:
        """Return the table for a FROM clause: every column in its declared type."""
        columns = [exp.alias_(self._value_of(name), name, quoted=True) for name in self._read_as()]
        return exp.select(*columns).from_(self._source()).subquery(f"{self._view}_typed")

    def _read_as(self) -> Mapping[str, tuple[str, ColumnType]]:
        if self._reading is None:
            self._reading = {name: (name, kind) for name, kind in self.describe().items()}
        return self._reading

    def _value_of(self, name: str) -> exp.Expression:
        source, kind = self._read_as()[name]
        return read_column(source, _kind(self._native[source]), kind, self._null(), self._writing)

    def count_odd_cells(self, names: Collection[str], table: JoinTable | None = None) -> Mapping[str, int]:
        if table is not None:
            self.joined(table)
            return self._joined[table.name].count_odd_cells(names)
        if not names:
            return {}
        cells = {name: (held_cells(self._read_as()[name][0], self._null()), self._value_of(name)) for name in names}
        return read_odd_cells(self.fetch(odd_cells_query(cells, self._source())))

    def joined(self, table: JoinTable) -> exp.Expression:
        """Return a further table for a FROM or JOIN clause, read by another engine in the same session."""
        if table.name not in self._joined:
            other = self._open_joined(table)
            if table.public and self._is_same(other):
                other.close()
                raise joined_with_itself(table)
            other.impose(Schema(table=table.name, columns=table.columns))
            self._joined[table.name] = other
        return self._joined[table.name].relation()

    def _is_same(self, other: SparkEngine) -> bool:
        if self._files is not None and other._files is not None:
            own, others = ({os.path.realpath(path) for path in e._files.paths} for e in (self, other) if e._files)
            return not own.isdisjoint(others)
        return self._files is other._files and self._full_name() == other._full_name()

    def _full_name(self) -> str:
        """Return the name of this engine's catalogue table with its database, in lower case: default.visits."""
        name = self._label.lower().removeprefix("spark_catalog.")
        return name if "." in name else f"{self._session.catalog.currentDatabase()}.{name}"

    def _open_joined(self, table: JoinTable) -> SparkEngine:
        given = self._options.tables.get(table.name, table.source)
        if given is None and self._files is not None:
            raise SchemaError(f'[tables.{table.name}] does not say where its data are. Add source = "file.csv" to it.')
        if given is None:
            return _open_table(self._session, table.name, ReadOptions())
        if not isinstance(given, str) and not type(given).__module__.startswith("pyspark."):
            given = self._session.createDataFrame(given)  # an Arrow table
        return open_spark(given)

    def _source(self) -> exp.Expression:
        return exp.Table(this=exp.to_identifier(self._view, quoted=True))

    def _null(self) -> str | None:
        """Return the text that stands for NULL in a CSV; None where the source has typed columns."""
        return (self._options.null or "") if self._is_text else None

    # ------------------------------------------------------------ running

    def fetch(self, query: exp.Select) -> pa.Table:
        text = write_query(query)
        self._interrupted = False
        with _translated(self._label, self), prepared(self._session), self._tagged():
            table = self._session.sql(text).toArrow()
        self.rows_fetched += table.num_rows
        return table

    def keep(
        self, query: exp.Select, columns: Mapping[str, ColumnType], *, rows: int, by: str | None = None
    ) -> exp.Expression:
        """Keep the rows in Spark's cache, which moves to disk what has no room in memory."""
        with _translated(self._label, self), prepared(self._session):
            return exp.to_table(self._kept.keep(write_query(query)))

    @contextmanager
    def _tagged(self) -> Iterator[None]:
        """Tag the Spark jobs that start while the block runs, so that ``interrupt`` can cancel them.

        In a Connect session the tag is set on the session. In a classic session it is set on the Spark context: the
        tags of such a session do not reach the thread that collects Arrow.
        """
        add, remove, _ = self._find_tag_calls()
        add(self._tag)
        try:
            yield
        finally:
            remove(self._tag)

    def _find_tag_calls(self) -> tuple[Callable[[str], None], Callable[[str], None], Callable[[str], object]]:
        """Return what adds a tag, what removes it, and what cancels the jobs that have it."""
        if is_remote(self._session):
            return self._session.addTag, self._session.removeTag, self._session.interruptTag
        context = self._session.sparkContext
        return context.addJobTag, context.removeJobTag, context.cancelJobsWithTag

    def refresh(self) -> None:
        """List files and look tables up again. Joined tables are closed, and opened again when they are needed."""
        self._close_joined()
        self.generation += 1
        with _translated(self._label), prepared(self._session):
            self._kept.drop()
            frame = self._read()
            if _native_types(frame) != self._native:
                raise changed_columns(self._label)
            frame.createOrReplaceTempView(self._view)

    def equal_fingerprints(self) -> frozenset[str]:
        """Return the fingerprints of the same files with other options that mean the same; none for other sources."""
        if self._files is None or not self._files.local:
            return frozenset()
        joined = {name: self._digest_joined(table) for name, table in self._declared.items()}
        alike = digest_alike(self._files.kind, self._files.paths, self._options)
        return frozenset(combine_fingerprints(each, joined) for each in alike)

    def fingerprint(self) -> str:
        """Return a digest of local files' bytes, the same as DuckDBEngine returns, or of a table's content.

        The content's digest covers the columns' names and types, the number of rows, and sums over a hash of each row,
        which do not depend on the order of rows. It notices that data changed; it is no proof against somebody who can
        write to the table and tries to keep two 64-bit sums the same.
        """
        return combine_fingerprints(
            self._digest(), {name: self._digest_joined(table) for name, table in self._declared.items()}
        )

    def _digest_joined(self, table: JoinTable) -> str:
        try:
            self.joined(table)
        except SparkLostError:
            raise
        except (DataError, OptionError, SchemaError):
            return "absent"  # no query can join it either
        return self._joined[table.name].fingerprint()

    def identities(self, *, public: bool = False) -> frozenset[str]:
        """Return the identities of the files read; if none, of the rows. ``public``: see ``Engine.identities``."""
        found = set() if public else set(self._identify())
        for table in self._declared.values():
            if table.public is public and self._digest_joined(table) != "absent":
                found |= self._joined[table.name].identities()
        return frozenset(found)

    def _identify(self) -> frozenset[str]:
        if self._files is not None and self._files.local:
            return identify_files(self._files.paths)
        with _translated(self._label, self), prepared(self._session):
            found = identify_input(self._session, self._read())
        return found or frozenset({f"spark-rows:{self._digest()}"})

    def _digest(self) -> str:
        if self._files is not None and self._files.local:
            return digest_files(self._files.kind, self._files.paths, self._options)
        columns = [name for name, native in self._native.items() if self._is_text or _column_type(native) is not None]
        found = self.fetch(fingerprint_query(columns, self._source()))
        self.rows_fetched -= found.num_rows
        return digest_sums(self._native.items(), found)

    def interrupt(self) -> None:
        self._interrupted = True
        with _translated(self._label):
            self._find_tag_calls()[2](self._tag)

    def _close_joined(self) -> None:
        for other in self._joined.values():
            other.close()
        self._joined.clear()

    def close(self) -> None:
        self._close_joined()
        with suppress(SparkLostError), _translated(self._label):
            self._kept.drop()
            self._session.catalog.dropTempView(self._view)


def _native_types(frame: DataFrame) -> dict[str, str]:
    return {field.name: field.dataType.simpleString() for field in frame.schema.fields}


def _kind(native: str) -> str:
    bare = re.split(r"[ (]", native, maxsplit=1)[0]
    return "whole decimal" if re.fullmatch(r"decimal\(\d+,0\)", native) else bare


def _advise_cast(column: Column, native: NativeColumn) -> str:
    """Return a sentence on a cast that keeps what the values mean, such as timestamps to dates; "" if there is none."""
    if native.kind not in _TYPES.castable[column.type]:
        return ""
    name = exp.to_identifier(column.name).sql(dialect="spark")
    return f" If its values are such, read a view with CAST({name} AS {NATIVE[column.type]})."


def _column_type(native: str) -> ColumnType | None:
    return _TYPES.find_type(_kind(native))


# ---------------------------------------------------------------- errors


class SparkLostError(ConnectionLost):
    """The error that Spark's Java process has ended: nothing is left in it to clean up."""


@contextmanager
def _translated(label: str, engine: SparkEngine | None = None) -> Iterator[None]:
    """Raise Spark's errors as this project's, and keep its loggers silent, while the block runs.

    ``label``: the source's name, for messages. ``engine``: the one whose query runs, to tell an interrupt from an
    error; None if no query runs that can be interrupted.
    """
    with without_version_warnings():
        from pyspark.errors import PySparkException

    loggers = [logging.getLogger(name) for name in _LOGGERS]
    before = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        with without_version_warnings():
            yield
    except Exception as error:
        known = isinstance(error, (PySparkException, OSError, RuntimeError))
        if not known and not type(error).__module__.startswith("py4j"):
            raise
        raise _explain(error, label, engine) from None
    finally:
        for logger, disabled in zip(loggers, before, strict=True):
            logger.disabled = disabled


def _explain(error: Exception, label: str, engine: SparkEngine | None) -> DosimeterError:
    """Return our own error for one of Spark's, chosen by its error condition: Spark's message can quote cells."""
    if engine is not None and engine._interrupted:
        return Interrupted("Stopped.")
    if _is_gone(error):
        return SparkLostError(
            f"{label} cannot be read: Spark's Java process has ended, for want of memory perhaps. Start again, with "
            "more of it if need be (spark.driver.memory)."
        )
    condition = _condition(error)
    if condition.startswith(("TABLE_OR_VIEW_NOT_FOUND", "PARSE_SYNTAX_ERROR", "INVALID_IDENTIFIER")):
        return OptionError(
            f"Spark's catalogue has no table {label}. Name one with ", Option("table"), ", database.table if need be."
        )
    if condition.startswith("PATH_NOT_FOUND"):
        return SourceUnreachable(f"There is no file {label}.")
    if condition.startswith(("MALFORMED", "FAILED_READ_FILE")) or "MALFORMED" in str(error):
        return DataError(f"{label}: a row is malformed. Correct the file.", say_how("Or"))
    if condition.startswith(_OUT_OF_RANGE):
        return DataError(
            f"{label}: a value does not have its declared type, or a number in the query went out of range.",
            CHECK_SCHEMA,
        )
    return DataError(f"{label} cannot be read by Spark: {condition or type(error).__name__}.")


def _is_gone(error: Exception) -> bool:
    """Return whether Spark's Java process has ended: py4j then raises a network error, or one without a Java trace."""
    kind = type(error).__name__
    of_py4j = kind == "Py4JNetworkError" or (kind == "Py4JError" and "Trace:" not in str(error))
    return of_py4j or isinstance(error, ConnectionError)


def _condition(error: Exception) -> str:
    getter = getattr(error, "getCondition", None)
    found = getter() if getter is not None else None
    named = None if found else re.search(r"\[([A-Z][A-Z_]{3,}(?:\.[A-Z_]+)?)\]", str(error))
    return str(found or (named.group(1) if named else ""))
