"""Rows that DuckDB has computed once, kept in temporary tables in memory. Takes a connection and SELECTs as text."""

from __future__ import annotations

import re

import duckdb
from sqlglot import exp

_ROOM = 4  # kept rows may take this part of DuckDB's memory, so that queries over them have the rest
_CELL = 16  # bytes: what a number or a short text takes at most
_UNITS = {"bytes": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}


class KeptTables:
    """The kept tables of one connection. ``drop`` forgets them all."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self._names: dict[str, str] = {}
        self._made = 0

    def keep(self, select: str, *, cells: int, by: str | None = None) -> str | None:
        """Return the name of a table with the rows of a SELECT, which is run only the first time.

        Return None where there is no room for them. ``cells``: how many cells they can have at most. ``by``: the column
        to sort by, so that queries that group by it find equal values side by side. The rows are sorted half by half,
        because sorting takes as much memory as the rows.
        """
        if select not in self._names:
            if cells * _CELL > self._find_memory() // _ROOM:
                return None
            self._made += 1
            name = f"dosimeter_kept_{self._made}"  # never the name of an earlier table, which somebody may still read
            try:
                if by is None:
                    self._connection.execute(f"CREATE TEMP TABLE {name} AS {select}")
                else:
                    column = exp.to_identifier(by, quoted=True).sql("duckdb")
                    half = f"SELECT * FROM ({select}) WHERE hash({column}) % 2 = {{}} ORDER BY {column}"
                    self._connection.execute(f"CREATE TEMP TABLE {name} AS {half.format(0)}")
                    self._connection.execute(f"INSERT INTO {name} {half.format(1)}")
            except duckdb.Error as error:  # no room for long texts, or an interrupt between the halves
                self._connection.execute(f"DROP TABLE IF EXISTS {name}")
                if isinstance(error, duckdb.OutOfMemoryException):
                    return None
                raise
            self._names[select] = name
        return self._names[select]

    def _find_memory(self) -> int:
        row = self._connection.execute("SELECT current_setting('memory_limit')").fetchone()
        limit = re.fullmatch(r"([0-9.]+) ?(\w+)", str(row[0] if row else ""))
        return int(float(limit[1]) * _UNITS.get(limit[2], 0)) if limit else 0

    def drop(self) -> None:
        for name in self._names.values():
            self._connection.execute(f"DROP TABLE {name}")
        self._names.clear()
