"""Run SQL over small tables that are given with it, in an embedded DuckDB that holds nothing else.

Takes a tree that was checked and rebuilt, and columns of released or public values; gives rows. The engine can reach no
files and has little memory, and a query that runs too long is stopped (Q4).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from dosimeter.errors import QueryError
from dosimeter.sql.trees import column_tree
from dosimeter.sql.types import Type

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from dosimeter.arrays import FloatArray

SECONDS = 10.0
MEMORY = "512MB"
MOST_ROWS = 100_000
MOST_CHARACTERS = 20_000_000  # of texts that a query makes, over all its rows; as many again for short ones
_FETCHED = 250  # rows at a time
_NUMBERS = ("DOUBLE", "FLOAT", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UBIGINT", "UHUGEINT")


class EmbeddedError(Exception):
    """The error of a query that the embedded engine could not run. Quotes SQL and types, never a cell of the data."""


@dataclass(frozen=True, slots=True)
class Values:
    """One column of a small table. ``whole``: whether DuckDB is to read its values as whole numbers of 128 bits."""

    type: Type
    values: Sequence[Any] | NDArray[Any]
    whole: bool = False


Table = Mapping[str, Values]


def run_embedded(query: exp.Expression, tables: Mapping[str, Table], *, most: int = MOST_ROWS) -> list[tuple[Any, ...]]:
    """Run one query over these tables and return its rows.

    Raises EmbeddedError if it fails, runs too long, or gives more rows than ``most`` or too much text.
    """
    rows: list[tuple[Any, ...]] = []
    characters = 0
    with _running(query, tables) as cursor:
        while fetched := cursor.fetchmany(_FETCHED):
            rows += fetched
            characters += sum(len(cell) for row in fetched for cell in row if isinstance(cell, str))
            if len(rows) > most:
                raise EmbeddedError(f"it gives more than {most:,} rows")
            if characters > 2 * MOST_CHARACTERS:
                raise EmbeddedError(f"it gives more than {2 * MOST_CHARACTERS:,} characters")
    return rows


def compute_embedded(query: exp.Expression, tables: Mapping[str, Table]) -> dict[str, FloatArray]:
    """Run one query over these tables and return its numeric columns by name, NULL as NaN.

    Raises EmbeddedError if the query fails or runs too long.
    """
    with _running(query, tables) as cursor:
        kinds = {str(column[0]): _is_numeric(str(column[1])) for column in cursor.description or ()}
        columns = cursor.fetchnumpy()
    return {
        name: np.ma.filled(np.ma.asarray(column).astype(np.float64), np.nan)
        for name, column in columns.items()
        if kinds[name]
    }


def ask_embedded(sql: str) -> list[tuple[Any, ...]]:
    """Run a query over constants, written by Dosimeter, and return its rows. Raises QueryError if it fails."""
    import duckdb

    cursor = _database().cursor()
    try:
        return cursor.execute(sql).fetchall()
    except duckdb.Error:
        raise QueryError("An expression of constants has no value: NULL stands where a type is needed.") from None
    finally:
        cursor.close()


@contextmanager
def _running(query: exp.Expression, tables: Mapping[str, Table]) -> Iterator[duckdb.DuckDBPyConnection]:
    """Run a query over these tables, and hold its cursor open while the result is read.

    Raises EmbeddedError if the query fails, or if running it and reading the result take too long.
    """
    import duckdb

    cursor = _database().cursor()
    timer = threading.Timer(SECONDS, cursor.interrupt)
    try:
        for name, table in tables.items():
            _load(cursor, name, table)
        timer.start()
        cursor.execute(query.sql(dialect="duckdb"))
        yield cursor
    except duckdb.InterruptException:
        raise EmbeddedError(f"it takes longer than {SECONDS:g} seconds") from None
    except duckdb.Error as error:
        raise EmbeddedError(_first_line(error)) from None
    finally:
        timer.cancel()
        cursor.close()


def _database() -> duckdb.DuckDBPyConnection:
    """Return the one embedded engine of this process. It stays empty: every query brings its own tables."""
    return _open(os.getpid())


@lru_cache(maxsize=1)
def _open(process: int) -> duckdb.DuckDBPyConnection:
    """Open the engine of the process with this id; a forked process opens its own."""
    import duckdb

    connection = duckdb.connect(
        ":memory:",
        config={
            "threads": "1",
            "memory_limit": MEMORY,
            "max_temp_directory_size": "0KB",
            "enable_external_access": "false",
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "python_enable_replacements": "false",
        },
    )
    connection.execute("SET lock_configuration = true")
    return connection


def _load(cursor: duckdb.DuckDBPyConnection, name: str, table: Table) -> None:
    import pyarrow as pa

    kinds = {
        Type.INTEGER: pa.int64(),
        Type.NUMBER: pa.float64(),
        Type.TEXT: pa.string(),
        Type.BOOLEAN: pa.bool_(),
        Type.DATE: pa.date32(),
        Type.TIMESTAMP: pa.timestamp("us"),
        Type.NULL: pa.string(),
    }
    given = f"{name}_given"
    try:
        arrays = {column: _array(each, kinds[each.type]) for column, each in table.items()}
    except (ArithmeticError, ValueError) as error:  # Arrow's own errors are ValueErrors
        raise EmbeddedError(f"a released number does not fit: {type(error).__name__}") from None
    cursor.register(given, pa.table(arrays))
    columns = [_write_column(column, each) for column, each in table.items()]
    shown = exp.select(*columns).from_(exp.table_(given))
    cursor.execute(f"CREATE TEMP VIEW {name} AS {shown.sql(dialect='duckdb')}")


def _array(values: Values, kind: pa.DataType) -> pa.Array:
    """Return one column in Arrow; whole numbers beyond 64 bits as decimals of 128 bits."""
    import pyarrow as pa

    try:
        return pa.array(values.values, kind)
    except (OverflowError, pa.ArrowInvalid):
        if not values.whole:
            raise
        return pa.array([None if each is None else Decimal(each) for each in values.values], pa.decimal128(38, 0))


def _write_column(name: str, values: Values) -> exp.Expression:
    if not values.whole:
        return column_tree(name)
    wide = exp.Cast(this=column_tree(name), to=exp.DataType.build("HUGEINT", dialect="duckdb"))
    return exp.Alias(this=wide, alias=exp.to_identifier(name, quoted=True))


def _is_numeric(kind: str) -> bool:
    return kind.startswith("DECIMAL") or kind in _NUMBERS


def _first_line(error: Exception) -> str:
    """Return the first line of the engine's message, without the kind of error (``Binder Error:``) before it."""
    text = str(error).split("\n", 1)[0]
    return text.split(": ", 1)[-1].rstrip(".!")
