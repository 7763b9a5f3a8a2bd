"""Identify the stored data that DuckDB reads: the content of tables, and of the tables that a view reads.

Takes an open connection; gives identities. Does not catch the driver's errors. Only statements that Dosimeter wrote
run.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import sqlglot
from sqlglot import exp

from dosimeter.engines.duckdb_columns import guess_type, read_column
from dosimeter.engines.duckdb_files import quote_identifier, quote_text
from dosimeter.engines.identities import identify_rows
from dosimeter.schema import ColumnType

if TYPE_CHECKING:
    import duckdb

Name = tuple[str, str]  # schema and table, as DuckDB compares them: in lower case


def identify_relation(connection: duckdb.DuckDBPyConnection, relation: str) -> frozenset[str]:
    """Return the identity of a relation's rows, a set of one digest, from one scan; an empty set without rows.

    The order of rows or columns does not change it.
    """
    natives = {str(row[0]): str(row[1]) for row in connection.execute(f"DESCRIBE {relation}").fetchall()}
    columns = sorted(natives, key=str.lower)
    row = " || ".join(_write_cell(name, natives[name]) for name in columns)
    hashes = ", ".join(f"SUM(md5_number_{half}(dosimeter_row))" for half in ("lower", "upper"))
    ((count, *sums),) = connection.execute(
        f"SELECT COUNT(*), {hashes} FROM (SELECT {row} AS dosimeter_row FROM {relation}) AS dosimeter_rows"
    ).fetchall()
    return identify_rows(columns, int(count), sums)


def _write_cell(name: str, native: str) -> str:
    """Return SQL for one column as text: the cell's length, a colon and the cell, or - for NULL.

    So the concatenated cells of a row can be read in one way only, and different rows give different texts. A timestamp
    is first read as queries read it (N4): DuckDB cannot write every value that TIMESTAMP_S and _MS hold.
    """
    moment = guess_type(native) is ColumnType.TIMESTAMP
    value = read_column(name, native, ColumnType.TIMESTAMP).sql(dialect="duckdb") if moment else quote_identifier(name)
    cell = f"CAST({value} AS VARCHAR)"
    return f"COALESCE(CAST(LENGTH({cell}) AS VARCHAR) || ':' || {cell}, '-')"


@dataclass(slots=True)
class Catalogue:
    """The tables and views of one attached database.

    ``views``: the SQL of each view. ``macros``: whether the database has functions of its own, which can hide what a
    view reads.
    """

    tables: set[Name] = field(default_factory=set)
    views: dict[Name, str] = field(default_factory=dict)
    macros: bool = False  # whether functions of its own hide what a view reads

    def find(self, name: str, schema: str) -> list[Name]:
        """Return the tables and views of this name in ``schema``, or in all schemas if ``schema`` is the empty text."""
        wanted = [known for known in (*self.tables, *self.views) if known[1] == name.lower()]
        return [known for known in wanted if not schema or known[0] == schema.lower()]

    def list_under(self, names: list[Name]) -> frozenset[Name]:
        """Return the stored tables that these tables and views read; all stored tables where that is unknown."""
        if not names or (self.macros and not self.tables.issuperset(names)):
            return frozenset(self.tables)
        found: set[Name] = set()
        seen, waiting = set[Name](), list(names)
        while waiting:
            current = waiting.pop()
            if current in seen:
                continue
            seen.add(current)
            if current in self.tables:
                found.add(current)
                continue
            read = self._list_read(self.views[current])
            if read is None:
                return frozenset(self.tables)
            waiting.extend(read)
        return frozenset(found)

    def _list_read(self, sql: str) -> list[Name] | None:
        """Return the tables and views that a view's SQL reads; None if that cannot be told from the SQL.

        It cannot if the SQL does not parse, reads from a function, or names a table that is neither in this catalogue
        nor a WITH of its own.
        """
        try:
            tree = sqlglot.parse_one(sql, dialect="duckdb")
        except sqlglot.errors.SqlglotError:
            return None
        body = tree.expression if isinstance(tree, exp.Create) else None
        if body is None:
            return None
        own = {table.alias_or_name.lower() for table in body.find_all(exp.CTE)}
        read: list[Name] = []
        for table in body.find_all(exp.Table):
            if not isinstance(table.this, exp.Identifier):
                return None  # a function that returns rows
            known = self.find(table.name, table.db)
            if not known and table.name.lower() not in own:
                return None
            read += known
        return read


def read_catalogue(connection: duckdb.DuckDBPyConnection, database: str) -> Catalogue:
    def fetch(columns: str, function: str) -> Iterable[tuple[str, ...]]:
        query = f"SELECT {columns} FROM {function}() WHERE NOT internal AND database_name = {quote_text(database)}"
        return connection.execute(query).fetchall()

    return Catalogue(
        tables={(str(s).lower(), str(t).lower()) for s, t in fetch("schema_name, table_name", "duckdb_tables")},
        views={
            (str(s).lower(), str(v).lower()): str(sql)
            for s, v, sql in fetch("schema_name, view_name, sql", "duckdb_views")
        },
        macros=any(True for _ in fetch("function_name", "duckdb_functions")),
    )


def identify_stored(connection: duckdb.DuckDBPyConnection, database: str, table: str) -> frozenset[str]:
    """Return the identities of a stored table. If it is a view: those of all tables that it reads.

    ``database``: the attached database that holds it. ``table``: its name, with or without its schema's.
    """
    catalogue = read_catalogue(connection, database)
    parts = table.split(".")
    under = catalogue.list_under(catalogue.find(parts[-1], parts[-2] if len(parts) > 1 else "main"))
    names = [[database, *stored] for stored in sorted(under)] or [parts]  # a view of constants shows all there is
    return frozenset().union(*(identify_relation(connection, ".".join(map(quote_identifier, name))) for name in names))
