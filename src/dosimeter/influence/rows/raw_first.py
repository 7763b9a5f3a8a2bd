"""Group rows by raw cells first and then by contribution, so that a value is computed once per distinct cell.

Clamping a value to its bounds takes time on every row, and little on a few thousand distinct values. Cells are grouped
first only where the schema declares few of them: a choice by public facts alone. Data with more values than declared
take longer and give the same result.
"""

from __future__ import annotations

import math
from decimal import Decimal

from sqlglot import exp

from dosimeter.schema import Column, ColumnType, Schema
from dosimeter.sql import alias, column_tree, group_by_first

MOST_CELLS = 2**17
"""The most combinations of declared cells for which raw cells are grouped first."""


def group_raw_first(query: exp.Select, schema: Schema) -> exp.Select:
    """Return a query with the same result, grouped by the columns that it reads and then by what it computes of them.

    ``query``: named columns, the last of them a count, grouped by all the others. It is returned unchanged if the
    schema declares too many combinations of cells, if nothing is computed, or if a column's name is qualified by its
    table's.
    """
    *keys, counted = query.selects
    read = [node for key in keys for node in key.find_all(exp.Column)]
    if not read or all(isinstance(key.this, exp.Column) for key in keys) or any(node.table for node in read):
        return query
    names = {name: f"r{at}" for at, name in enumerate(dict.fromkeys(node.name for node in read))}
    if math.prod(_count_cells(schema.columns.get(name)) for name in names) > MOST_CELLS:
        return query

    def rename(node: exp.Expression) -> exp.Expression:
        return column_tree(names[node.name]) if isinstance(node, exp.Column) else node

    inner = query.copy()
    inner.set(
        "expressions", [*(alias(column_tree(name), raw, quoted=True) for name, raw in names.items()), counted.copy()]
    )
    group_by_first(inner, len(names))
    total = exp.Cast(this=exp.Sum(this=column_tree(counted.alias)), to=exp.DataType.build("BIGINT"))
    shown = [alias(key.this.copy().transform(rename), key.alias, quoted=True) for key in keys]
    outer = exp.select(*shown, alias(total, counted.alias, quoted=True), copy=False)
    outer = outer.from_(inner.subquery("raw", copy=False), copy=False)
    group_by_first(outer, len(keys))
    return outer


def _count_cells(column: Column | None) -> float:
    """Return how many different cells the schema declares for a column, counting NULL; ∞ if it sets no limit."""
    if column is None:
        return math.inf
    if column.values is not None:
        return len(column.values) + 1
    if column.type is ColumnType.BOOLEAN:
        return 3
    if column.type is ColumnType.INTEGER and column.bounds is not None:
        low, high = column.bounds
        return float(Decimal(str(high)) - Decimal(str(low))) + 2.0
    return math.inf
