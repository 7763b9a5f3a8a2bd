"""Group the contributions by fewer columns: compute the product of two columns after grouping, not before.

COVAR, CORR and REGR_* read two arguments and their product. The product follows from the two arguments. Grouping by it
too would give the same groups and take more time.
"""

from __future__ import annotations

from sqlglot import exp

from dosimeter.sql import alias, column_tree, group_by_first


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
