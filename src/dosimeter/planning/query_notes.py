"""Tell which columns a query reads and cuts, and warn of identifying columns, undeclared texts and empty groups.

Takes plans; gives public facts only.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from sqlglot import exp

from dosimeter.planning.people.stage import list_block_trees, list_trees
from dosimeter.planning.query_plan import QueryPlan
from dosimeter.schema import ColumnType
from dosimeter.sql import is_cut, longest_cell, note_unlisted


def note_singled_out(plan: QueryPlan) -> list[str]:
    """Return a sentence for each identifying column that the query tests, as in name = 'Yusuf Demir'.

    Such a test asks about single persons.
    """
    return [
        f"{clause} singles people out by {name}, which identifies them: the query is about single persons."
        for name, clause in plan.singled_out
    ]


def note_values(plan: QueryPlan) -> tuple[str, ...]:
    """Return a sentence for each text in the query that is not a declared value of the column it is compared with."""
    found = list(note_unlisted((tree for _, tree in list_block_trees(plan)), plan.schema))
    for schema, tree in list_trees(plan):
        found += note_unlisted([tree], schema)
    return tuple(dict.fromkeys(found))


def list_columns(plan: QueryPlan) -> tuple[str, ...]:
    """Return the table's columns that the query reads, in the order of the schema."""
    read = {node.name for _, tree in list_trees(plan) for node in tree.find_all(exp.Column)}
    if not read:
        return plan.columns
    return tuple(name for name in plan.table_schema.columns if name in read or name in plan.columns)


def list_cut(plan: QueryPlan) -> dict[str, int]:
    """Return the tables' own text columns that are cut where they are joined or handed on, each with its letters."""
    found: dict[str, int] = {}
    for schema, tree in (*list_trees(plan), *list_block_trees(plan)):
        for node in tree.find_all(exp.Left):
            column = plan.table_schema.columns.get(node.this.name) if is_cut(node) else None
            if column is not None and column.type is ColumnType.TEXT and schema.columns[column.name] == column:
                found[column.name] = longest_cell(column)
    return found


_OVER_GROUPS = (exp.Avg, exp.Count, exp.Min, exp.Max, exp.Median, exp.Quantile, exp.PercentileCont, exp.PercentileDisc,
                exp.Stddev, exp.StddevPop, exp.StddevSamp, exp.Variance, exp.VariancePop)  # fmt: skip
"""Aggregates of released numbers that empty groups change; a sum they do not."""


def note_counted_groups(plan: QueryPlan) -> Iterator[str]:
    """Yield a sentence for each list of declared groups, if what comes after the noise is computed over all of them.

    An average over the days of each month has 31 days in February too: every declared combination is a group (C8).
    """
    if plan.after.query is None or plan.after.query.find(*_OVER_GROUPS) is None:
        return
    for groups in dict.fromkeys(block.groups for block in plan.blocks):
        sizes = [len(group.values) for group in groups if group.values is not None]
        if sizes and len(sizes) == len(groups):
            each = ", ".join(f"{group.name}: {size:,}" for group, size in zip(groups, sizes, strict=True))
            yield (
                f"What is computed over groups counts all {math.prod(sizes):,} declared ones ({each}), also those that "
                "nobody is in or can be in, such as a day that a month does not have: their counts and sums are 0, "
                "but for noise."
            )
