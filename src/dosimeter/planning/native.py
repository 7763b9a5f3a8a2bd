"""Plan a study: SQL that cannot back a release, with a sensitivity given by hand (S7). Never opens a connection.

Aggregates need no bounds and are computed as SQL defines them, over observed groups. Only really leaving records out
(``recompute``) can measure what one individual does to them. The allow-list is as strict as the planner's: every node
is rebuilt, so that nothing of the analyst's tree runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

import numpy as np
from sqlglot import exp

from dosimeter.arrays import FloatArray
from dosimeter.errors import QueryError
from dosimeter.mechanisms import Norm
from dosimeter.planning.aggregates import unfold_within_group
from dosimeter.planning.groups import dereference
from dosimeter.planning.joins import resolve_table
from dosimeter.planning.parsing import check_shape, parse_select, unaliased
from dosimeter.planning.planner import PlanOptions
from dosimeter.planning.query_plan import Group
from dosimeter.schema import Schema
from dosimeter.sql import (
    NUMERIC,
    Scope,
    as_double,
    check_condition,
    check_expression,
    clause_of,
    column_tree,
    expect_only,
    make_total,
    refusal,
    wrap,
)

_OF_ONE_NUMBER = (
    exp.Sum, exp.Avg, exp.Min, exp.Max, exp.Median, exp.Stddev, exp.StddevSamp, exp.StddevPop, exp.Variance,
    exp.VariancePop, exp.Skewness, exp.Kurtosis,
)  # fmt: skip
_OF_TWO_NUMBERS = (exp.Corr, exp.CovarPop, exp.CovarSamp, exp.RegrSlope, exp.RegrIntercept, exp.RegrR2)
_OF_A_FRACTION = (exp.PercentileCont, exp.PercentileDisc)
_AGGREGATES = (exp.Count, *_OF_ONE_NUMBER, *_OF_TWO_NUMBERS, *_OF_A_FRACTION)
SUPPORTED = (
    "A study takes COUNT, COUNT(DISTINCT), SUM, AVG, MIN, MAX, MEDIAN, QUANTILE_CONT, QUANTILE_DISC, VAR_POP, "
    "VAR_SAMP, STDDEV_POP, STDDEV_SAMP, SKEWNESS, KURTOSIS, CORR, COVAR_POP, COVAR_SAMP, REGR_SLOPE, REGR_INTERCEPT "
    "and REGR_R2, joined by + - * / and ABS."
)
UNDEFINED_IS_ZERO = (
    "In this study a result that is NULL or not a number (a group left without rows, a CORR without spread) "
    "counts as 0."
)
TAKEN_AS_IT_IS = "Values are taken as they are, without bounds; the sensitivity was given by hand and backs no release."


@dataclass(frozen=True, slots=True)
class StudyOutput:
    """One numeric column of a study's answer: arithmetic over SQL's own aggregates of the arguments a0, a1 …"""

    name: str
    tree: exp.Expression


@dataclass(frozen=True, slots=True)
class StudyPlan:
    """The plan of a study: all that follows from SQL and schema alone. Groups are observed in the data (C8).

    ``arguments``: the expressions inside aggregates. ``hand_sensitivity``: the sensitivity given by hand. All trees are
    rebuilt, none is the analyst's own.
    """

    sql: str
    table: str
    columns: tuple[str, ...]
    where: exp.Expression | None
    groups: tuple[Group, ...]
    arguments: tuple[exp.Expression, ...]
    outputs: tuple[StudyOutput, ...]
    hand_sensitivity: float
    schema: Schema

    @property
    def notes(self) -> tuple[str, ...]:
        return (UNDEFINED_IS_ZERO, TAKEN_AS_IT_IS)

    def sensitivity(self, norm: Norm) -> float:
        """Return the sensitivity given by hand, which is the same for both norms (S7)."""
        return self.hand_sensitivity

    def weights(self, norm: Norm) -> FloatArray:
        """Return 1 for each output: with a sensitivity given by hand, outputs are not scaled."""
        return np.ones(len(self.outputs))


def plan_study(sql: str, schema: Schema, sensitivity: float) -> StudyPlan:
    """Return the plan of one study, or raise a QueryError that names the clause."""
    PlanOptions(groups="observed", sensitivity=sensitivity)  # refuses a sensitivity that is not positive
    select = parse_select(sql)
    check_shape(select)
    if select.args.get("joins") or select.args.get("with_"):
        raise QueryError("A study asks one table: leave JOIN and WITH out.")
    for name in ("having", "order", "limit"):
        if select.args.get(name):
            raise QueryError(
                f"A study measures every group: leave {'ORDER BY' if name == 'order' else name.upper()} out.",
                clause=clause_of(select.args[name]),
            )
    scope = resolve_table(select, schema)
    condition = select.args.get("where")
    where = check_condition(condition.this, scope) if condition is not None else None
    groups = _plan_groups(select, scope)
    arguments = _Arguments(scope)
    outputs = _plan_outputs(select, scope, groups, arguments)
    trees = [*arguments.trees.values(), *(group.tree for group in groups), *([] if where is None else [where])]
    return StudyPlan(
        sql=sql,
        table=schema.table,
        columns=_columns_in(trees, schema),
        where=where,
        groups=groups,
        arguments=tuple(arguments.trees.values()),
        outputs=outputs,
        hand_sensitivity=sensitivity,
        schema=schema,
    )


def _columns_in(trees: Iterable[exp.Expression], schema: Schema) -> tuple[str, ...]:
    used = {node.name for tree in trees for node in tree.find_all(exp.Column)}
    return tuple(name for name in schema.columns if name in used)


def _plan_groups(select: exp.Select, scope: Scope) -> tuple[Group, ...]:
    clause = select.args.get("group")
    if clause is None:
        return ()
    for name, value in clause.args.items():
        if name != "expressions" and value:
            raise refusal(clause, f"GROUP BY {name.upper()} is not supported. List the columns.")
    groups: list[Group] = []
    for node in clause.expressions:
        checked = check_expression(dereference(node, select, scope), scope)
        tree = make_total(checked.tree, scope.schema)
        if all(group.tree != tree for group in groups):
            name = tree.name if isinstance(tree, exp.Column) else f"group{len(groups) + 1}"
            groups.append(Group(name=name, tree=tree, values=None, type=checked.type))
    return tuple(groups)


def _plan_outputs(
    select: exp.Select, scope: Scope, groups: Sequence[Group], arguments: _Arguments
) -> tuple[StudyOutput, ...]:
    outputs: list[StudyOutput] = []
    for item in select.expressions:
        node = unaliased(item)
        if isinstance(node, exp.Star):
            raise refusal(node, "SELECT * would show rows. Ask for aggregates, such as COUNT(*).")
        if _is_group(node, scope, groups):
            continue
        tree = _formula(node, arguments)
        if tree.find(exp.AggFunc) is None:
            raise refusal(node, f"{clause_of(node)} holds no aggregate. {SUPPORTED}")
        name = item.alias if isinstance(item, exp.Alias) else clause_of(node)
        outputs.append(StudyOutput(name, as_double(tree)))
    if not outputs:
        raise QueryError(f"The query has no aggregate. {SUPPORTED}")
    return tuple(outputs)


def _is_group(node: exp.Expression, scope: Scope, groups: Sequence[Group]) -> bool:
    try:
        tree = make_total(check_expression(node, scope).tree, scope.schema)
    except QueryError:
        return False
    return any(group.tree == tree for group in groups)


def _formula(node: exp.Expression, arguments: _Arguments) -> exp.Expression:
    """Rebuild arithmetic over aggregates. A zero divisor gives NULL, as everywhere in this tool."""

    def inner(part: exp.Expression) -> exp.Expression:
        return wrap(_formula(part, arguments))

    match node:
        case exp.Paren():
            expect_only(node, "this")
            return inner(node.this)
        case exp.Literal() if not node.is_string:
            return as_double(check_expression(node, arguments.scope).tree)
        case exp.Neg() | exp.Abs():
            expect_only(node, "this")
            return type(node)(this=inner(node.this))
        case exp.Add() | exp.Sub() | exp.Mul():
            expect_only(node, "this", "expression")
            return type(node)(this=inner(node.this), expression=inner(node.expression))
        case exp.Div():
            expect_only(node, "this", "expression")
            divisor = exp.Nullif(this=as_double(inner(node.expression)), expression=as_double(exp.Literal.number(0)))
            return exp.Div(this=as_double(inner(node.this)), expression=divisor, typed=False, safe=False)
        case exp.Filter():
            expect_only(node, "this", "expression")
            aggregate = _aggregate(node.this, arguments)
            condition = arguments.add(check_condition(node.expression.this, arguments.scope))
            return exp.Filter(this=aggregate, expression=exp.Where(this=condition))
        case exp.Subquery() | exp.Select() | exp.SetOperation() | exp.Exists():
            raise refusal(node, "Subqueries are not supported. Ask a plain SELECT … FROM table WHERE … GROUP BY ….")
        case exp.Window():
            raise refusal(node, "Window functions (OVER) are not supported. Use GROUP BY.")
        case exp.Column():
            arguments.scope.resolve(node)
            raise refusal(node, f"{clause_of(node)} is neither an aggregate nor in the GROUP BY. Add it there.")
        case _:
            return _aggregate(node, arguments)


@dataclass(slots=True)
class _Arguments:
    """The expressions of one row inside aggregates, rebuilt: the columns a0, a1 …. Equal expressions share a column."""

    scope: Scope
    trees: dict[str, exp.Expression] = field(default_factory=dict)

    def add(self, tree: exp.Expression) -> exp.Column:
        tree = make_total(tree, self.scope.schema)
        key = tree.sql(dialect="duckdb")
        self.trees.setdefault(key, tree)
        return column_tree(f"a{list(self.trees).index(key)}")

    def add_number(self, node: exp.Expression, aggregate: exp.Expression) -> exp.Column:
        checked = check_expression(node, self.scope)
        if checked.type not in NUMERIC:
            raise refusal(aggregate, f"{clause_of(aggregate)} needs numbers, and {clause_of(node)} is {checked.type}.")
        return self.add(as_double(checked.tree))


def _aggregate(node: exp.Expression, arguments: _Arguments) -> exp.Expression:
    if isinstance(node, exp.WithinGroup):
        return _aggregate(unfold_within_group(node, *_OF_A_FRACTION), arguments)
    if type(node) not in _AGGREGATES:
        raise refusal(node, f"{clause_of(node)} is not supported. {SUPPORTED}")
    if isinstance(node, exp.Count):
        return _count(node, arguments)
    if isinstance(node, _OF_ONE_NUMBER):
        expect_only(node, "this")
        return type(node)(this=arguments.add_number(node.this, node))
    expect_only(node, "this", "expression")
    if node.args.get("expression") is None:
        raise refusal(node, f"{clause_of(node)} takes two arguments.")
    first = arguments.add_number(node.this, node)
    if isinstance(node, _OF_TWO_NUMBERS):
        return type(node)(this=first, expression=arguments.add_number(node.expression, node))
    return type(node)(this=first, expression=_fraction(node))


def _count(node: exp.Count, arguments: _Arguments) -> exp.Expression:
    expect_only(node, "this")
    match node.this:
        case None:
            raise refusal(node, "COUNT() counts nothing. Write COUNT(*) or COUNT(column).")
        case exp.Star():
            expect_only(node.this)
            return exp.Count(this=exp.Star())
        case exp.Distinct():
            expect_only(node.this, "expressions")
            if len(node.this.expressions) != 1:
                raise refusal(node, f"{clause_of(node)}: COUNT(DISTINCT) takes one column.")
            tree = check_expression(node.this.expressions[0], arguments.scope).tree
            return exp.Count(this=exp.Distinct(expressions=[arguments.add(tree)]))
        case _:
            return exp.Count(this=arguments.add(check_expression(node.this, arguments.scope).tree))


def _fraction(node: exp.Expression) -> exp.Expression:
    literal = node.expression
    if not isinstance(literal, exp.Literal) or literal.is_string or not 0 <= Decimal(str(literal.this)) <= 1:
        raise refusal(node, f"{clause_of(node)}: the quantile must be a number between 0 and 1.")
    return exp.Literal.number(str(literal.this))
