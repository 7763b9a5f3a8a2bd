"""Read the public tables that a query joins to released numbers (Q4), before anything is charged.

An engine reads them like other tables: with their declared types, odd cells as NULL (N4), and the key checked to be
unique. They are public, so that an error message may say what is wrong with them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from dosimeter.engines import Engine
from dosimeter.errors import QueryError
from dosimeter.influence.measured_rows import DeclaredTables, not_unique
from dosimeter.planning import PublicRows, PublicTable, QueryPlan, limit_public_text, try_after
from dosimeter.sql import COLUMN_TYPES, MOST_ROWS, NUMERIC, Type, Values, column_tree, is_not_null

if TYPE_CHECKING:
    import pyarrow as pa


def read_public_tables(plan: QueryPlan, tables: DeclaredTables) -> QueryPlan:
    """Return the plan with the rows of the public tables that it joins after the noise.

    All that the query computes after the noise is tried out with these rows, on made-up numbers. Raises QueryError if
    it cannot be computed, or if a table has too many rows or too long texts; SchemaError if a key is not unique.
    """
    if not plan.after.public:
        return plan
    public = tuple(replace(each, rows=_remember_rows(each, tables)) for each in plan.after.public)
    found = replace(plan, after=replace(plan.after, public=public))
    try_after(found)
    return found


def _remember_rows(public: PublicTable, tables: DeclaredTables) -> PublicRows:
    key = "public", public.table.name, public.columns
    return tables.remember(key, lambda: _read_rows(public, tables.engine))


def _read_rows(public: PublicTable, engine: Engine) -> PublicRows:
    table, key = public.table, column_tree(str(public.table.key))
    query = exp.select(*[column_tree(name) for name in public.columns]).from_(engine.joined(table).copy(), copy=False)
    query = query.where(is_not_null(key)).limit(MOST_ROWS + 1)
    found = engine.fetch(query)
    if found.num_rows > MOST_ROWS:
        raise QueryError(
            f"{table.name} has more than {MOST_ROWS:,} rows, too many to be joined after grouping. Join it before: "
            f"FROM … JOIN {table.name} USING ({table.key}) GROUP BY ….",
            clause=table.name,
        )
    columns = {name: _read_column(found.column(at), public, name) for at, name in enumerate(public.columns)}
    if len(set(columns[str(table.key)].values)) < found.num_rows:
        raise not_unique(table)
    return PublicRows(str(table.key), columns)


def _read_column(values: pa.ChunkedArray, public: PublicTable, name: str) -> Values:
    column = public.table.columns[name]
    kind = COLUMN_TYPES[column.type]
    listed = values.to_pylist()
    if kind in NUMERIC:
        listed = [None if value is None else int(value) if kind is Type.INTEGER else float(value) for value in listed]
    most = limit_public_text(column)
    if kind is Type.TEXT and any(value is not None and len(value) > most for value in listed):
        raise QueryError(
            f"{public.table.name}.{name} has texts of more than {most:,} characters, too long to be joined after "
            "grouping. Leave the column out.",
            clause=name,
        )
    return Values(kind, listed, kind is Type.INTEGER)
