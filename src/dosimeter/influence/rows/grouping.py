"""Group the contributions in an order that takes less time and gives the same result.

By raw cells first and then by contribution, so that a value is computed once per distinct cell: clamping a value to its
bounds takes time on every row, and little on a few thousand distinct values. Cells are grouped first only where the
schema declares few of them: a choice by public facts alone. Data with more values than declared take longer.

By a product of two columns last. COVAR, CORR and REGR_* read two arguments and their product, which follows from the
two: grouping by it too would give the same groups.
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


def multiply_last(query: exp.Select) -> exp.Select:
    """Return a query with the same result that groups by fewer columns: it computes products after grouping.

    ``query``: named columns, the last of them a count, grouped by all the others. It is returned unchanged if none of
    these others is a product that follows from the rest.
    """
    *keys, counted = query.selects
    products = {key.alias: key.this for key in keys if isinstance(key.this, exp.Mul)}
    plain = {key.alias: key.this for key in keys if key.alias not in products}
    found = {name: _write_over_columns(product, plain) for name, product in products.items()}
    derived = {name: tree for name, tree in found.items() if tree is not None}
    if not derived:
        return query
    inner = query.copy()
    kept = [key.copy() for key in keys if key.alias not in derived]
    inner.set("expressions", [*kept, counted.copy()])
    group_by_first(inner, len(kept))
    shown = [alias(derived.get(key.alias, column_tree(key.alias)), key.alias, quoted=True) for key in (*keys, counted)]
    return exp.select(*shown, copy=False).from_(inner.subquery("factors", copy=False), copy=False)


def _write_over_columns(product: exp.Expression, computed: dict[str, exp.Expression]) -> exp.Expression | None:
    """Return the product with the names of columns in place of what they compute: a0 * a1 for (x + 1) * y.

    ``computed``: what each column computes, by the column's name. None if the product reads anything else. Columns are
    placeholders first, because those of the table, which the product then still reads, may have the same names.
    """

    def mark_computed(node: exp.Expression) -> exp.Expression:
        column = next((name for name, tree in computed.items() if node == tree), None)
        return node if column is None else exp.Placeholder(this=column)

    def name_marked(node: exp.Expression) -> exp.Expression:
        return column_tree(node.name) if isinstance(node, exp.Placeholder) else node

    marked = product.copy().transform(mark_computed)
    if marked.find(exp.Column) is not None or marked.find(exp.Placeholder) is None:
        return None
    return marked.transform(name_marked)
