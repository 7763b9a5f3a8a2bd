"""Ask DuckDB what an expression evaluates to, over declared values alone.

Takes trees and declared values; gives Python values. The embedded engine that is asked has no tables, no files and no
network, so that nothing here can see data. A *total* tree is one that ``make_total`` rewrote so that it cannot fail.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from sqlglot import exp

from dosimeter.sql.embedded import EmbeddedError, ask_embedded, run_embedded
from dosimeter.sql.literals import constant_tree
from dosimeter.sql.trees import alias, column_tree


def evaluate_row(tree: exp.Expression, row: Mapping[str, Any]) -> Any:
    """Return the value of a tree that cannot fail. ``row``: each column's value, by its name; None is SQL's NULL."""
    items = [alias_quoted(constant_tree(value), name) for name, value in row.items()]
    source = f" FROM (SELECT {', '.join(items)})" if items else ""
    return ask_embedded(f"SELECT {tree.sql(dialect='duckdb')}{source}")[0][0]


def alias_quoted(tree: exp.Expression, name: str) -> str:
    """Return the SQL of a value with a column's name: ``value AS "name"``."""
    return exp.Alias(this=tree, alias=exp.to_identifier(name, quoted=True)).sql(dialect="duckdb")


def find_failure(tree: exp.Expression, *, kind: str | None = None) -> str | None:
    """Return why DuckDB cannot compute an expression of constants, in its words; None if it can.

    ``kind``: the type that the expression must have, if that is not certain. DuckDB quotes the expression, never data.
    """
    try:
        [(found,)] = run_embedded(exp.select(exp.func("TYPEOF", tree)), {})
    except EmbeddedError as error:
        return str(error)
    return None if kind in (None, found) else f"it gives {found}"


def evaluate_each(build: Callable[[exp.Expression], exp.Expression], texts: Sequence[str]) -> dict[str, Any]:
    """Return what an SQL function gives for each of these texts, by text. ``build`` writes the call for an argument."""
    if not texts:
        return {}
    return dict(_evaluate_each(build(column_tree("v")).sql(dialect="duckdb"), tuple(dict.fromkeys(texts))))


@lru_cache(maxsize=256)
def _evaluate_each(sql: str, texts: tuple[str, ...]) -> tuple[tuple[str, Any], ...]:
    rows = ", ".join(f"({exp.Literal.string(text).sql(dialect='duckdb')})" for text in texts)
    return tuple((text, value) for text, value in ask_embedded(f'SELECT "v", {sql} FROM (VALUES {rows}) AS t("v")'))


def distinct_values(tree: exp.Expression, domains: Mapping[str, str]) -> list[Any]:
    """Return the different values, other than NULL, of a tree that cannot fail, over all combinations of column values.

    ``domains``: by column, a query written by Dosimeter that lists the column's values.
    """
    inner = f"SELECT DISTINCT {alias(tree.copy(), 'found').sql(dialect='duckdb')}{_product(domains)}"
    return [row[0] for row in ask_embedded(f"SELECT found FROM ({inner}) WHERE found IS NOT NULL ORDER BY found")]


def gives_null(tree: exp.Expression, domains: Mapping[str, str]) -> bool:
    """Return whether a tree that cannot fail is NULL for at least one combination of column values.

    ``domains``: by column, a query written by Dosimeter that lists the column's values.
    """
    inner = f"SELECT {alias(tree.copy(), 'found').sql(dialect='duckdb')}{_product(domains)}"
    return bool(ask_embedded(f"SELECT 1 FROM ({inner}) WHERE found IS NULL LIMIT 1"))


def _product(domains: Mapping[str, str]) -> str:
    """Return a FROM clause over all combinations of the columns' values; an empty text where there are no columns.

    ``domains``: by column, a query that lists the column's values.
    """
    sources = [
        f"({query}) AS t{at}({exp.to_identifier(name, quoted=True).sql(dialect='duckdb')})"
        for at, (name, query) in enumerate(domains.items())
    ]
    return f" FROM {', '.join(sources)}" if sources else ""
