"""Tell from a plan which columns a query reads, and warn of identifying columns and of texts nobody declared.

Takes plans; gives public facts only.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from dosimeter.planning.person_stage import list_trees
from dosimeter.planning.query_plan import QueryPlan
from dosimeter.sql import note_unlisted


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
    found = list(note_unlisted(_list_conditions(plan), plan.schema))
    for schema, tree in list_trees(plan):
        found += note_unlisted([tree], schema)
    return tuple(dict.fromkeys(found))


def list_columns(plan: QueryPlan) -> tuple[str, ...]:
    """Return the table's columns that the query reads, in the order of the schema."""
    read = {node.name for _, tree in list_trees(plan) for node in tree.find_all(exp.Column)}
    if not read:
        return plan.columns
    return tuple(name for name in plan.table_schema.columns if name in read or name in plan.columns)


def _list_conditions(plan: QueryPlan) -> list[Any]:
    """Return those trees of all blocks in which the analyst may have written a value.

    These are each block's WHERE (None without one), its groups and its arguments.
    """
    found: list[Any] = []
    for block in plan.blocks:
        arguments = (argument.tree for argument in block.arguments)
        found += [block.where, *(group.tree for group in block.groups), *arguments]
    return found
