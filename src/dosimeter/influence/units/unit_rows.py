"""Select the rows a unit profile is made of: their unit, their group, the arguments. Trees for any engine to transpile.

Never opens a connection.
"""

from __future__ import annotations

import math

from sqlglot import exp

from dosimeter.measures import UnitRows
from dosimeter.planning import Group, QueryPlan
from dosimeter.schema import Scalar
from dosimeter.sql import (
    alias,
    are_consecutive,
    as_bigint,
    column_tree,
    conjunction,
    equals,
    is_declared,
    is_not_null,
    literal,
    select_from,
    without_null,
    wrap,
)

UNIT = "unit"
GROUP = "grp"
BY = "by"  # this attribute is a column's value; every other one is a FILTER's condition


def count_groups(plan: QueryPlan) -> int:
    return math.prod(len(group.values or ()) for group in plan.groups)


def declared_rows(plan: QueryPlan, relation: exp.Expression, *more: exp.Expression) -> exp.Select:
    """Return the query for the rows that meet the WHERE and are in a declared group: unit, group index, arguments.

    ``more``: further conditions on these columns. With thresholded groups all observed groups count as declared.
    """
    tests = list(more)
    if plan.groups:
        number = group_number(plan.groups) if plan.threshold is None else observed_number(plan.groups)
        query = all_rows(plan, relation, alias(number, GROUP))
        tests.append(is_not_null(exp.column(GROUP)))
    else:
        query = all_rows(plan, relation)
    condition = conjunction(tests)
    if condition is None:
        return query
    return exp.select(exp.Star()).from_(query.subquery("all_rows", copy=False), copy=False).where(condition, copy=False)


def all_rows(plan: QueryPlan, relation: exp.Expression, *groups: exp.Expression) -> exp.Select:
    """Return the query for the rows that meet the WHERE: unit, the columns ``groups``, arguments a0, a1 …"""
    arguments = [alias(argument.column(), f"a{at}") for at, argument in enumerate(plan.arguments)]
    where = None if plan.where is None else plan.where.copy()
    return select_from(relation.copy(), alias(column_tree(plan.schema.unit), UNIT), *groups, *arguments, where=where)


def group_number(groups: tuple[Group, ...]) -> exp.Expression:
    """Return the index of a row's group among the declared groups, as a tree.

    The tree is NULL for a group that nobody declared (C7).
    """
    number: exp.Expression | None = None
    for group in groups:
        assert group.values is not None
        code = _value_number(group.tree, group.values)
        if number is None:
            number = code
        else:
            scaled = exp.Mul(this=wrap(number), expression=exp.Literal.number(len(group.values)))
            number = exp.Add(this=scaled, expression=code)
    assert number is not None
    return number


def observed_number(groups: tuple[Group, ...]) -> exp.Expression:
    """Return the place of a row's group among the observed groups (1 for the first in their order), as a tree.

    A group has the same place in every query over the same rows.
    """
    order = exp.Order(expressions=[exp.Ordered(this=wrap(each.tree.copy()), nulls_first=False) for each in groups])
    return exp.Window(this=exp.DenseRank(), order=order, over="OVER")


def observed_groups_query(plan: QueryPlan, relation: exp.Expression) -> exp.Select:
    """Return the query for the groups that rows inside the WHERE are in: one row per group, with grp, g0, g1 …

    ``grp``: the group's place (``observed_number``), by which queries over the same rows name it. g0, g1 …: its values.
    """
    named = [alias(group.tree.copy(), f"g{at}") for at, group in enumerate(plan.groups)]
    rows = all_rows(plan, relation, alias(observed_number(plan.groups), GROUP), *named)
    names = [exp.column(name) for name in (GROUP, *(f"g{at}" for at in range(len(named))))]
    return exp.select(*names).distinct(copy=False).from_(rows.subquery("observed", copy=False), copy=False)


def _value_number(tree: exp.Expression, values: tuple[Scalar, ...]) -> exp.Expression:
    """Return the index of a value among the declared ones, as a tree; NULL for other values.

    It is a CASE that tests one value after the other. Where the values are consecutive whole numbers, it subtracts the
    smallest of them instead. SQL's NULL, if declared, is tested last.
    """
    known = without_null(values)
    if are_consecutive(known):
        shifted = exp.Sub(this=wrap(tree.copy()), expression=wrap(literal(known[0])))
        branches = [exp.If(this=is_declared(tree, known), true=as_bigint(exp.Paren(this=shifted)))]
    else:
        branches = [exp.If(this=equals(tree, value), true=exp.Literal.number(at)) for at, value in enumerate(known)]
    if len(known) < len(values):
        branches.append(exp.If(this=equals(tree, None), true=exp.Literal.number(len(known))))
    return exp.Case(ifs=branches)


def unit_rows(plan: QueryPlan, relation: exp.Expression) -> UnitRows:
    """Return the rows that meet the WHERE and are in a declared group, in the form that measures take (UnitRows)."""

    def select(*tests: exp.Expression) -> exp.Select:
        return declared_rows(plan, relation, *tests)

    return UnitRows(select, (UNIT, GROUP) if plan.groups else (UNIT,), plan.schema.max_rows_per_unit)
