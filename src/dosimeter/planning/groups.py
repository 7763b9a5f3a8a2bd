"""Plan GROUP BY: each expression, the analyst's name for it, and its declared values (C8). Never opens a connection."""

from __future__ import annotations

import math
import re
from contextlib import suppress
from typing import cast

from sqlglot import exp

from dosimeter.errors import QueryError
from dosimeter.options import Groups
from dosimeter.planning.declared_groups import declared_values
from dosimeter.planning.query_plan import Group
from dosimeter.sql import Scope, Type, check_expression, clause_of, make_total, refusal

MAX_GROUPS = 10_000


def plan_groups(select: exp.Select, scope: Scope, mode: Groups) -> tuple[tuple[Group, ...], tuple[Type, ...]]:
    """Return the groups and the type of each."""
    clause = select.args.get("group")
    if clause is None:
        return (), ()
    for name, value in clause.args.items():
        if name != "expressions" and value:
            raise refusal(clause, f"GROUP BY {name.upper()} is not supported. List the columns.")
    if not clause.expressions:
        raise QueryError("GROUP BY is not followed by a column. Add one, or leave GROUP BY out.", clause="GROUP BY")
    groups: list[Group] = []
    kinds: list[Type] = []
    for node in clause.expressions:
        if isinstance(node, (exp.Rollup, exp.Cube, exp.GroupingSets, exp.Tuple)):
            raise refusal(node, f"{clause_of(node)} is not supported in GROUP BY. List the columns.")
        source = dereference(node, select, scope)
        checked = check_expression(source, scope)
        tree = make_total(checked.tree, scope.schema)
        if any(group.tree == tree for group in groups):
            continue
        values = declared_values(source, checked, scope.schema) if mode == "declared" else None
        groups.append(Group(name=_group_name(source, select), tree=tree, values=values))
        kinds.append(checked.type)
    total = math.prod(len(group.values) for group in groups if group.values is not None)
    if total > MAX_GROUPS:
        raise QueryError(
            f"The GROUP BY has {total:,} declared groups; at most {MAX_GROUPS:,} are supported. "
            "Group by fewer columns or by a coarser expression.",
            clause=clause_of(clause),
        )
    return tuple(groups), tuple(kinds)


def dereference(node: exp.Expression, select: exp.Select, scope: Scope) -> exp.Expression:
    """Return the SELECT item that GROUP BY 1 or GROUP BY alias stands for; otherwise the node itself."""
    if isinstance(node, exp.Literal) and not node.is_string:
        position = whole_number(node)
        if position is None or not 1 <= position <= len(select.expressions):
            raise refusal(node, f"GROUP BY {clause_of(node)} does not name an item of the SELECT list.")
        return unaliased(select.expressions[position - 1])
    if isinstance(node, exp.Column) and not node.table:
        with suppress(QueryError):
            scope.resolve(node)
            return node
        for item in select.expressions:
            if isinstance(item, exp.Alias) and item.alias.lower() == node.name.lower():
                return unaliased(item)
    return node


def unaliased(item: exp.Expression) -> exp.Expression:
    return cast(exp.Expression, item.this) if isinstance(item, exp.Alias) else item


def whole_number(node: exp.Expression) -> int | None:
    """Return a literal such as the 10 of LIMIT 10; None when it is anything else, or too large."""
    if not isinstance(node, exp.Literal) or node.is_string or not re.fullmatch(r"\d{1,18}", str(node.this), re.ASCII):
        return None
    return int(node.this)


def _group_name(node: exp.Expression, select: exp.Select) -> str:
    """Return the analyst's name for a group: its column, its alias in the SELECT list, or the expression as written."""
    bare = node.unnest()
    if isinstance(bare, exp.Column):
        return str(bare.name)
    aliases = [item.alias for item in select.expressions if isinstance(item, exp.Alias) and item.this == node]
    return aliases[0] if aliases else clause_of(node)
