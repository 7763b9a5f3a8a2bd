"""Connections of DuckDB: how they are opened, locked and interrupted, and rows that they keep. Knows no source."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence

import duckdb
from sqlglot import exp

from dosimeter.errors import Interrupted

_ROOM = 4  # kept rows may take this part of DuckDB's memory, so that queries over them have the rest
_CELL = 16  # bytes: what a number or a short text takes at most
_UNITS = {"bytes": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}


@contextlib.contextmanager
def opening(*, one_row_each: bool) -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield a connection to open a source with, and lock it at the end of the block; close it after an error.

    ``one_row_each``: as in ``connect``.
    """
    connection = connect(one_row_each=one_row_each)
    try:
        yield connection
        lock(connection)
    except BaseException:
        connection.close()
        raise


def connect(*, one_row_each: bool) -> duckdb.DuckDBPyConnection:
    """Open a database in memory that loads no extension and sees no variables of Python.

    ``one_row_each``: whether each row is one individual, which saves time in counting rows.
    """
    connection = duckdb.connect(
        ":memory:",
        config={
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "python_enable_replacements": "false",
        },
    )
    with contextlib.suppress(duckdb.InvalidInputException):  # in a notebook without ipywidgets there is no progress
        connection.execute("SET enable_progress_bar = true")
        connection.execute("SET enable_progress_bar_print = false")
    connection.execute("SET TimeZone = 'UTC'")
    if one_row_each:  # counting rows by small numbers is faster without; windows over individuals are not
        connection.execute("SET disabled_optimizers = 'compressed_materialization'")
    return connection


def lock(connection: duckdb.DuckDBPyConnection) -> None:
    """Forbid the connection, from now on, other files, the network and any change of settings."""
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Raise Interrupted where another thread stopped DuckDB, and KeyboardInterrupt for Ctrl-C in this thread.

    DuckDB itself then raises a plain RuntimeError.
    """
    try:
        yield
    except duckdb.InterruptException:
        raise Interrupted("Stopped.") from None
    except RuntimeError as error:
        if str(error) != "Query interrupted":
            raise
        raise KeyboardInterrupt from None


class KeptTables:
    """Rows that one connection has computed once, kept in a database of their own in memory. ``drop`` forgets them all.

    They stand in an attached database because DuckDB compresses no temporary table: sorted by individual, 16 million
    rows take 0.14 GB instead of 0.8, and are read in less time.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self._database = f"dosimeter_kept_{id(self):x}"  # connections to one DuckDB share what is attached
        self._names: dict[tuple[str, ...], str] = {}
        self._made = 0

    def keep(self, parts: Sequence[str], *, cells: int, by: str | None = None) -> str | None:
        """Return the name of a table with the rows of SELECTs, which are run only the first time.

        Return None where there is no room for them. ``cells``: how many cells they can have at most. ``by``: the column
        to sort each part by, so that queries that group by it find equal values side by side. Sorting takes as much
        memory as the rows that are sorted: the parts are sorted and compressed one by one.
        """
        asked = tuple(parts)
        if asked not in self._names:
            if cells * _CELL > self._find_memory() // _ROOM:
                return None
            if not self._made:
                self._connection.execute(f"DETACH DATABASE IF EXISTS {self._database}")  # of an object that is gone
                self._connection.execute(f"ATTACH ':memory:' AS {self._database} (COMPRESS)")
            self._made += 1
            name = f"{self._database}.dosimeter_kept_{self._made}"  # never an earlier one, which may still be read
            order = "" if by is None else f" ORDER BY {exp.to_identifier(by, quoted=True).sql('duckdb')}"
            try:
                for at, part in enumerate(asked):
                    into = f"INSERT INTO {name}" if at else f"CREATE TABLE {name} AS"
                    self._connection.execute(f"{into} {part}{order}")
                    self._connection.execute(f"CHECKPOINT {self._database}")
            except duckdb.Error as error:  # no room for long texts, or an interrupt between the parts
                self._connection.execute(f"DROP TABLE IF EXISTS {name}")
                if isinstance(error, duckdb.OutOfMemoryException):
                    return None
                raise
            self._names[asked] = name
        return self._names[asked]

    def _find_memory(self) -> int:
        row = self._connection.execute("SELECT current_setting('memory_limit')").fetchone()
        limit = re.fullmatch(r"([0-9.]+) ?(\w+)", str(row[0] if row else ""))
        return int(float(limit[1]) * _UNITS.get(limit[2], 0)) if limit else 0

    def drop(self) -> None:
        for name in self._names.values():
            self._connection.execute(f"DROP TABLE {name}")
        self._names.clear()
