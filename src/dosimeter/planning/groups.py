"""Plan the groups of a query, with the values that the schema declares. Takes a SELECT; gives Groups. Knows no data."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Literal, cast

from sqlglot import exp

from dosimeter.errors import QueryError
from dosimeter.planning.after_expressions import finds_aggregate
from dosimeter.planning.declared_groups import declared_values
from dosimeter.planning.parsing import read_whole_number
from dosimeter.planning.query_plan import Group
from dosimeter.sql import Scope, check_expression, clause_of, expect_only, make_total, refusal

Groups = Literal["declared", "observed"]
MAX_GROUPS = 10_000


def plan_groups(select: exp.Select, scope: Scope, mode: Groups) -> tuple[Group, ...]:
    """Return the groups of a SELECT, with the values that the schema declares for them."""
    clause = select.args.get("group")
    if clause is None:
        return ()
    expect_only(clause, "expressions", "all")
    nodes = _ungrouped_items(select) if clause.args.get("all") else clause.expressions
    if clause.args.get("all") and not nodes:
        return ()
    if not nodes:
        raise QueryError("GROUP BY is not followed by a column. Add one, or leave GROUP BY out.", clause="GROUP BY")
    groups: list[Group] = []
    for node in nodes:
        if isinstance(node, (exp.Rollup, exp.Cube, exp.GroupingSets, exp.Tuple)):
            raise refusal(node, f"{clause_of(node)} is not supported in GROUP BY. List the columns.")
        source = _dereference(node, select, scope)
        checked = check_expression(source, scope)
        tree = make_total(checked.tree, scope.schema)
        if any(group.tree == tree for group in groups):
            continue
        values = declared_values(source, checked, scope.schema) if mode == "declared" else None
        groups.append(Group(name=_group_name(source, select), tree=tree, values=values, type=checked.type))
    total = math.prod(len(group.values) for group in groups if group.values is not None)
    if total > MAX_GROUPS:
        raise QueryError(
            f"The GROUP BY has {total:,} declared groups; at most {MAX_GROUPS:,} are supported. "
            "Group by fewer columns or by a coarser expression.",
            clause=clause_of(clause),
        )
    return tuple(groups)


def _ungrouped_items(select: exp.Select) -> list[exp.Expression]:
    """Return what GROUP BY ALL stands for: the items of the SELECT list that hold no aggregate and no window."""
    items = [_unaliased(item) for item in select.expressions]
    return [item for item in items if not finds_aggregate(item) and item.find(exp.Window) is None]


def _dereference(node: exp.Expression, select: exp.Select, scope: Scope) -> exp.Expression:
    """Return the SELECT item that GROUP BY 1 or GROUP BY alias stands for; otherwise the node itself."""
    if isinstance(node, exp.Literal) and not node.is_string:
        position = read_whole_number(node)
        if position is None or not 1 <= position <= len(select.expressions):
            raise refusal(node, f"GROUP BY {clause_of(node)} does not name an item of the SELECT list.")
        return _unaliased(select.expressions[position - 1])
    if isinstance(node, exp.Column) and not node.table:
        with suppress(QueryError):
            scope.resolve(node)
            return node
        for item in select.expressions:
            if isinstance(item, exp.Alias) and item.alias.lower() == node.name.lower():
                return _unaliased(item)
    return node


def _unaliased(item: exp.Expression) -> exp.Expression:
    return cast(exp.Expression, item.this) if isinstance(item, exp.Alias) else item


def _group_name(node: exp.Expression, select: exp.Select) -> str:
    """Return the analyst's name for a group: its column, its alias in the SELECT list, or the expression as written."""
    bare = node.unnest()
    if isinstance(bare, exp.Column):
        return str(bare.name)
    aliases = [item.alias for item in select.expressions if isinstance(item, exp.Alias) and item.this == node]
    return aliases[0] if aliases else clause_of(node)
