"""Plan the groups of a query, with the values that the schema declares. Takes a SELECT; gives its Grouping.

Knows no data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import chain, combinations, product
from typing import cast

from sqlglot import exp

from dosimeter.errors import QueryError
from dosimeter.planning.after.expressions import finds_aggregate
from dosimeter.planning.options import PlannedGroups
from dosimeter.planning.query_plan import Group
from dosimeter.planning.rows.declared_groups import group_values, require_shareable
from dosimeter.planning.rows.parsing import NO_STAR, dereference, unaliased
from dosimeter.sql import (
    Checked,
    Scope,
    Type,
    check_expression,
    clause_of,
    expect_only,
    limit_text,
    make_total,
    refusal,
    require_short,
)

MAX_GROUPS = 10_000
MAX_SETS = 64


@dataclass(frozen=True, slots=True)
class Grouping:
    """The GROUP BY expressions of a SELECT.

    ``sets``: for each set of ROLLUP, CUBE or GROUPING SETS, the indices of the expressions that it keeps.
    ``without_null``: if groups are thresholded, the expressions whose NULL is no group (H1).
    """

    groups: tuple[Group, ...] = ()
    sets: tuple[tuple[int, ...], ...] = ()
    without_null: tuple[exp.Expression, ...] = ()

    @property
    def cells(self) -> int:
        """Return how many declared groups there are: combinations of values of all GROUP BY expressions."""
        return math.prod(len(group.values) for group in self.groups if group.values is not None)

    @property
    def rows(self) -> int:
        """Return how many rows the released table has: one per declared group.

        With ROLLUP, CUBE or GROUPING SETS it has one row per group of each set.
        """
        sizes = [len(group.values or ()) for group in self.groups]
        return sum(math.prod(sizes[at] for at in kept) for kept in self.sets) if self.sets else self.cells


def plan_groups(select: exp.Select, scope: Scope, mode: PlannedGroups) -> Grouping:
    """Return the GROUP BY expressions of a SELECT.

    ``mode``: whether groups are declared, thresholded, elsewhere (in another plan), or observed: all that the data
    have, for study only. If they are declared, each expression has the values that the schema declares. Raises
    QueryError for groups that cannot be declared or shown, or for too many.
    """
    clause = select.args.get("group")
    if clause is None:
        return Grouping()
    expect_only(clause, "expressions", "all")
    nodes = _ungrouped_items(select) if clause.args.get("all") else clause.expressions
    if clause.args.get("all") and not nodes:
        return Grouping()
    if not nodes:
        raise QueryError("GROUP BY is not followed by a column. Add one, or leave GROUP BY out.", clause="GROUP BY")
    sets = _combine_sets([_list_sets(node) for node in nodes], clause)
    several = any(isinstance(node, _SEVERAL) for node in nodes)
    if several and mode == "observed":
        raise refusal(clause, "Observed groups reproduce the paper, which has no ROLLUP, CUBE or GROUPING SETS.")
    if several and mode == "thresholded":
        raise refusal(
            clause,
            "Totals of thresholded groups would leave out those that are not shown. Ask for the total in a query of "
            "its own, instead of ROLLUP, CUBE or GROUPING SETS.",
        )
    groups: list[Group] = []
    kept: list[tuple[int, ...]] = []
    for each in sets:
        places = []
        for node in each:
            source = dereference(node, select, scope)
            checked = check_expression(source, scope)
            if mode == "thresholded":
                require_shareable(source, checked, scope.schema)
                checked = _limit_key(source, checked, scope)
            tree = make_total(checked.tree, scope.schema)
            known = next((at for at, group in enumerate(groups) if group.tree == tree), None)
            if known is None:
                known = len(groups)
                values = group_values(source, checked, scope.schema) if mode == "declared" else None
                groups.append(Group(name=_group_name(source, select), tree=tree, values=values, type=checked.type))
                _require_few(Grouping(tuple(groups)).cells, clause)  # before further columns are looked at
            places.append(known)
        kept.append(tuple(dict.fromkeys(places)))
    left_out = [group.tree for group in groups if mode == "thresholded" and not _reads_nulls(group.tree, scope)]
    found = Grouping(tuple(groups), tuple(kept) if several else (), tuple(left_out))
    _require_few(found.rows, clause)
    return found


def _require_few(total: int, clause: exp.Expression) -> None:
    if total > MAX_GROUPS:
        raise refusal(
            clause,
            f"The GROUP BY has {total:,} declared groups or more; at most {MAX_GROUPS:,} are supported. "
            "Group by fewer columns or by a coarser expression.",
        )


def group_distinct(select: exp.Select) -> exp.Select:
    """Return SELECT DISTINCT a, b … as SELECT a, b … GROUP BY a, b HAVING COUNT(*) > 0; any other SELECT unchanged.

    Which values occur is private, so that noisy counts tell it.
    """
    distinct = select.args.get("distinct")
    items = [unaliased(item) for item in select.expressions]
    keys = [item.copy() for item in items if not isinstance(item, exp.Literal)]
    over_rows = select.args.get("qualify") or any(item.find(exp.Window) for item in items)
    if distinct is None or distinct.args.get("on") or over_rows or not keys:
        return select
    if any(isinstance(item, exp.Star) for item in items):
        raise refusal(select, NO_STAR)
    some = exp.GT(this=exp.Count(this=exp.Star()), expression=exp.Literal.number(0))
    grouped = select.copy()
    grouped.set("distinct", None)
    grouped.set("group", exp.Group(expressions=keys))
    grouped.set("having", exp.Having(this=some))
    return grouped


def _limit_key(source: exp.Expression, checked: Checked, scope: Scope) -> Checked:
    """Return a thresholded group's expression with undeclared texts cut to their maximal length: keys are handed on.

    ``source``: the expression as written.
    """
    columns = [scope.schema.columns[node.name] for node in checked.tree.find_all(exp.Column)]
    if checked.type is not Type.TEXT or all(column.values is not None for column in columns):
        return checked
    return Checked(require_short(limit_text(checked.tree, scope.schema), scope.schema, source), checked.type)


def _reads_nulls(tree: exp.Expression, scope: Scope) -> bool:
    return any(scope.schema.columns[node.name].nulls for node in tree.find_all(exp.Column))


_SEVERAL = (exp.Rollup, exp.Cube, exp.GroupingSets)
_Set = tuple[exp.Expression, ...]


def _list_sets(node: exp.Expression) -> list[_Set]:
    """Return the sets of expressions that one element of GROUP BY stands for.

    ROLLUP (a, b) gives (a, b), (a) and (); a plain expression gives one set of itself.
    """
    match node:
        case exp.Rollup():
            parts = [_members(part) for part in node.expressions]
            return [tuple(chain.from_iterable(parts[:size])) for size in range(len(parts), -1, -1)]
        case exp.Cube():
            parts = [_members(part) for part in node.expressions]
            sizes = range(len(parts), -1, -1)
            return [tuple(chain.from_iterable(chosen)) for size in sizes for chosen in combinations(parts, size)]
        case exp.GroupingSets():
            return [each for part in node.expressions for each in _list_sets(part)]
        case _:
            return [_members(node)]


def _members(node: exp.Expression) -> _Set:
    if isinstance(node, exp.Tuple):
        return tuple(node.expressions)
    return (cast(exp.Expression, node.this),) if isinstance(node, exp.Paren) else (node,)


def _combine_sets(elements: list[list[_Set]], clause: exp.Expression) -> list[_Set]:
    """Return every combination of one set from each element of GROUP BY; refuse too many combinations.

    GROUP BY ROLLUP (a, b), c has c in each of its sets.
    """
    if math.prod(len(sets) for sets in elements) > MAX_SETS:
        raise refusal(clause, f"The GROUP BY has more than {MAX_SETS} sets of columns. Ask for fewer.")
    return [tuple(chain.from_iterable(chosen)) for chosen in product(*elements)]


def _ungrouped_items(select: exp.Select) -> list[exp.Expression]:
    """Return what GROUP BY ALL stands for: the items of the SELECT list that hold no aggregate and no window."""
    items = [unaliased(item) for item in select.expressions]
    return [item for item in items if not finds_aggregate(item) and item.find(exp.Window) is None]


def _group_name(node: exp.Expression, select: exp.Select) -> str:
    """Return the analyst's name for a group: its column, its alias in the SELECT list, or the expression as written."""
    bare = node.unnest()
    if isinstance(bare, exp.Column):
        return str(bare.name)
    aliases = [item.alias for item in select.expressions if isinstance(item, exp.Alias) and item.this == node]
    return aliases[0] if aliases else clause_of(node)
