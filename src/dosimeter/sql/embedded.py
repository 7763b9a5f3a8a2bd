"""Ask DuckDB what an expression means, over declared values alone: an embedded engine of its own, without any table.

Takes trees and declared values; gives Python values. Nothing here can see data: the connection has no tables, no files
and no network, and its settings are locked.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from dosimeter.errors import QueryError
from dosimeter.sql.literals import constant_tree
from dosimeter.sql.trees import alias, column_tree

if TYPE_CHECKING:
    import duckdb

_SETTINGS: dict[str, str | int | float | list[str]] = {
    "threads": 1,
    "memory_limit": "1GB",
    "enable_external_access": "false",
    "python_enable_replacements": "false",
    "lock_configuration": "true",
}


@lru_cache(maxsize=1)
def _connect(process: int) -> duckdb.DuckDBPyConnection:
    import duckdb

    return duckdb.connect(":memory:", config=dict(_SETTINGS))


def _ask(sql: str) -> list[tuple[Any, ...]]:
    """Return the rows of a query of our own making. A cursor for each, because threads plan at the same time."""
    import duckdb

    cursor = _connect(os.getpid()).cursor()
    try:
        return cursor.execute(sql).fetchall()
    except duckdb.Error:
        raise QueryError("An expression of constants has no value: NULL stands where a type is needed.") from None
    finally:
        cursor.close()


def evaluate_row(tree: exp.Expression, row: Mapping[str, Any]) -> Any:
    """Return the value of a total tree for one row; None is SQL's NULL."""
    items = [alias_quoted(constant_tree(value), name) for name, value in row.items()]
    source = f" FROM (SELECT {', '.join(items)})" if items else ""
    return _ask(f"SELECT {tree.sql(dialect='duckdb')}{source}")[0][0]


def alias_quoted(tree: exp.Expression, name: str) -> str:
    """Write a value under a column's name."""
    return exp.Alias(this=tree, alias=exp.to_identifier(name, quoted=True)).sql(dialect="duckdb")


def evaluate_each(build: Callable[[exp.Expression], exp.Expression], texts: Sequence[str]) -> dict[str, Any]:
    """Return what a function of one text gives for each of these texts."""
    if not texts:
        return {}
    return dict(_evaluate_each(build(column_tree("v")).sql(dialect="duckdb"), tuple(dict.fromkeys(texts))))


@lru_cache(maxsize=256)
def _evaluate_each(sql: str, texts: tuple[str, ...]) -> tuple[tuple[str, Any], ...]:
    rows = ", ".join(f"({exp.Literal.string(text).sql(dialect='duckdb')})" for text in texts)
    return tuple((text, value) for text, value in _ask(f'SELECT "v", {sql} FROM (VALUES {rows}) AS t("v")'))


def distinct_values(tree: exp.Expression, domains: Mapping[str, str]) -> list[Any]:
    """Return the different values, other than NULL, of a total tree over the product of these domains.

    domains: by column, a query of our own making for the column's values.
    """
    sources = [
        f"({query}) AS t{at}({exp.to_identifier(name, quoted=True).sql(dialect='duckdb')})"
        for at, (name, query) in enumerate(domains.items())
    ]
    value = alias(tree.copy(), "found").sql(dialect="duckdb")
    inner = f"SELECT DISTINCT {value}" + (f" FROM {', '.join(sources)}" if sources else "")
    return [row[0] for row in _ask(f"SELECT found FROM ({inner}) WHERE found IS NOT NULL ORDER BY found")]
