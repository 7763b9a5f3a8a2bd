"""The texts that a plan makes for each row: how many letters at most, and which columns are cut for them (N4).

Takes a plan; gives public facts, or refuses one whose texts could take too much memory. Never opens a connection.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from dosimeter.errors import QueryError
from dosimeter.planning.people.stage import list_trees
from dosimeter.planning.query_plan import QueryPlan
from dosimeter.schema import ColumnType, Schema
from dosimeter.sql import count_letters, is_cut, longest_cell

MOST_LETTERS = 2**20  # of all texts that are made for one row; a text inside another counts again
MOST_OF_ONE = 2**26  # of all texts that are made for the rows of one individual: 256 MiB, at 4 bytes a letter


def require_few_letters(plan: QueryPlan) -> None:
    """Refuse a plan that could make too much text: an engine would fail for whoever has the longest cells (N4)."""
    most = sum(count_letters(tree, schema) for schema, tree in _list_trees(plan))
    rows = max((schema.max_rows_per_unit for schema, _ in _list_trees(plan)), default=1)
    allowed = min(MOST_LETTERS, MOST_OF_ONE // rows)
    if most > allowed:
        raise QueryError(
            f"The query could make {most:,} letters of text for one row, counting every step; at most {allowed:,} are "
            "supported here. Join fewer texts, or shorter ones: LEFT(x, 100). A column's max_length in the schema says "
            "how many of its letters count."
        )


def list_cut(plan: QueryPlan) -> dict[str, int]:
    """Return the tables' own text columns that are cut where they are joined or handed on, each with its letters."""
    found: dict[str, int] = {}
    for schema, tree in _list_trees(plan):
        for node in tree.find_all(exp.Left):
            column = plan.table_schema.columns.get(node.this.name) if is_cut(node) else None
            if column is not None and column.type is ColumnType.TEXT and schema.columns[column.name] == column:
                found[column.name] = longest_cell(column)
    return found


def _list_trees(plan: QueryPlan) -> Iterator[tuple[Schema, exp.Expression]]:
    """Yield every tree of a plan, and the schema of the rows that it reads."""
    yield from list_trees(plan)
    for block in plan.blocks:
        trees = [block.where, *(group.tree for group in block.groups), *(each.tree for each in block.arguments)]
        yield from ((block.schema, tree) for tree in trees if tree is not None)
