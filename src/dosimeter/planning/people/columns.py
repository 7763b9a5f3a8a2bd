"""Columns that are computed from one individual's own rows: aggregates and windows, with their public facts (Q2).

Takes a parsed function and the Scope of the rows it reads; gives the tree that computes it, and a Column with type,
bounds, resolution and values, so that everything after it can treat the result like a column of the table. Numbers are
clamped to their bounds and put on their grid first, so that the facts hold for any data. Never opens a connection.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import cast

from sqlglot import exp

from dosimeter.errors import QueryError
from dosimeter.planning.rows.declared_groups import MAX_LISTED, declared_values, list_fewer, list_steps
from dosimeter.planning.rows.grid import put_on_grid
from dosimeter.planning.rows.joins import counts_within_people
from dosimeter.planning.rows.steps import LARGEST, LARGEST_FACTOR, Gridded, TooDeep, put_on_binary_grid
from dosimeter.schema import Column, ColumnType
from dosimeter.sql import (
    NUMERIC,
    Checked,
    Scope,
    Type,
    as_bigint,
    as_double,
    check_condition,
    check_expression,
    check_total,
    clause_of,
    double,
    expect_only,
    limit_text,
    make_total,
    measure_text,
    plain_quotient,
    refusal,
    require_short,
    wrap,
)

FINEST = 2**20  # Q2: a mean is rounded to at most this part of its bounds' width
OWN_AGGREGATES: tuple[type[exp.Expr], ...] = (
    exp.Count, exp.CountIf, exp.Sum, exp.Avg, exp.Min, exp.Max, exp.Median, exp.LogicalOr, exp.LogicalAnd,
)  # fmt: skip
SUPPORTED = (
    "For each individual: COUNT, COUNT(DISTINCT), COUNT_IF, SUM, AVG, MIN, MAX, MEDIAN, BOOL_OR, BOOL_AND, ARG_MIN, "
    "ARG_MAX."
)

Apply = Callable[[exp.Expression], exp.Expression]
"""A function that puts SQL's aggregate into its window, OVER (…); after GROUP BY it returns it unchanged."""


@dataclass(frozen=True, slots=True)
class OwnValue:
    """A tree over an individual's own rows, and the public facts of its values (type, bounds …).

    The facts are a Column, whose name is set later.
    """

    tree: exp.Expression
    column: Column


def is_own_aggregate(node: exp.Expression) -> bool:
    """Return whether the node is an aggregate, with or without FILTER."""
    return isinstance(node.this if isinstance(node, exp.Filter) else node, exp.AggFunc)


def read_aggregate(node: exp.Expression, scope: Scope, apply: Apply, *, windowed: bool) -> OwnValue:
    """Return an aggregate over an individual's own rows, with the public facts of its values.

    It is NULL if all of the individual's own values are NULL, unless it is a count. ``apply``: puts the aggregate into
    its window, if it has one. ``windowed``: whether it has one. Refuses aggregates that are not supported.
    """
    bare, condition = unfilter(node, scope)
    if not isinstance(bare, OWN_AGGREGATES):
        raise refusal(
            node,
            f"{clause_of(node)} is not supported in a subquery about each individual. {SUPPORTED} Where any value will "
            "do, write MIN or MAX; for the first or last by a date, ARG_MIN(value, date) or ARG_MAX(value, date).",
        )
    expect_only(bare, "this")
    if bare.this is None:
        raise refusal(node, f"{clause_of(node)} has no argument. Name a column.")
    if isinstance(bare, (exp.Count, exp.CountIf)):
        return _count(bare, condition, scope, apply, windowed=windowed)
    match bare:
        case exp.Sum():
            value = _sum(_gridded(bare, condition, scope), scope.schema.max_rows_per_unit, apply, node)
        case exp.Avg():
            value = _mean(_gridded(bare, condition, scope), scope.schema.max_rows_per_unit, apply, node)
        case exp.Median():
            if windowed:
                raise refusal(node, f"{clause_of(node)}: MEDIAN has no OVER on every engine. Use GROUP BY.")
            gridded = _gridded(bare, condition, scope)
            doubled = exp.Mul(this=as_double(apply(exp.Median(this=gridded.tree))), expression=double(2))
            value = _number(doubled, 2 * gridded.lower, 2 * gridded.upper, gridded.unit / 2, node, gridded.stride)
        case _:
            value = _extreme(bare, condition, scope, apply)
    return _passing_marks(value, bare, scope)


def read_value(node: exp.Expression, scope: Scope, *, clamped: bool = False) -> OwnValue:
    """Return an expression of one row, with the facts of its values. Computed numbers are clamped to their bounds.

    ``clamped``: whether the numbers of a plain column are clamped too, which must have bounds then.
    """
    checked = check_expression(node, scope)
    if checked.type in NUMERIC and (clamped or not isinstance(checked.tree, exp.Column)):
        gridded = put_on_grid(checked.tree, scope.schema, clause_of(node))
        number = _number(gridded.tree, gridded.lower, gridded.upper, gridded.unit, node)
        return _passing_marks(_listing(number, checked, gridded, scope), checked.tree, scope)
    return OwnValue(hand_on(checked, scope, node), read_facts(node, checked, scope))


def hand_on(checked: Checked, scope: Scope, node: exp.Expression) -> exp.Expression:
    """Return the total tree of a value that a stage hands to what reads it, a text cut to its maximal length.

    Refuses a text that could be too long. The unit stays whole: it says whose a row is. ``node``: the value as written.
    """
    tree = checked.tree
    if checked.type is Type.TEXT and not (isinstance(tree, exp.Column) and tree.name == scope.schema.unit):
        tree = require_short(limit_text(tree.copy(), scope.schema), scope.schema, node)
    return make_total(tree, scope.schema)


def _passing_marks(value: OwnValue, tree: exp.Expression, scope: Scope) -> OwnValue:
    """Return the value with the marks ``nulls`` and ``identifying`` on its facts that ``_marked`` finds in the tree."""
    return replace(value, column=_marked(value.column, tree, scope))


def _marked(column: Column, tree: exp.Expression, scope: Scope) -> Column:
    """Return the facts with ``nulls`` and ``identifying`` each set if at least one column in the tree has it set.

    The unit counts as identifying, and so does the row key, unless it only numbers the rows of each individual.
    """
    read = [scope.resolve(node) for node in tree.find_all(exp.Column)]
    key = scope.schema.row_key
    keys = (scope.schema.unit, None if key is not None and counts_within_people(scope.schema, key) else key)
    return replace(
        column,
        nulls=any(each.nulls for each in read),
        identifying=any(each.identifying or each.name in keys for each in read),
    )


def whole_column(lower: int, upper: int) -> Column:
    """Return the facts of a column of whole numbers from ``lower`` to ``upper``."""
    return Column("", ColumnType.INTEGER, (Decimal(lower), Decimal(upper)))


# ---------------------------------------------------------------- aggregates


def unfilter(node: exp.Expression, scope: Scope) -> tuple[exp.Expression, exp.Expression | None]:
    """Return an aggregate without its FILTER, and the condition of the FILTER, checked; None if it has none."""
    if not isinstance(node, exp.Filter):
        return node, None
    expect_only(node, "this", "expression")
    return node.this, check_condition(node.expression.this, scope)


def _only_where(tree: exp.Expression, condition: exp.Expression | None) -> exp.Expression:
    """Return a tree that is NULL where the condition of a FILTER does not hold; aggregates skip NULL."""
    return tree if condition is None else exp.Case(ifs=[exp.If(this=condition.copy(), true=tree)])


def _zero_or_one(condition: exp.Expression) -> exp.Expression:
    """Return a condition as 1 where it is true, 0 where it is false, NULL where it is NULL."""
    untrue = exp.Not(this=wrap(condition.copy()))
    one, zero = exp.Literal.number(1), exp.Literal.number(0)
    return exp.Case(ifs=[exp.If(this=condition, true=one), exp.If(this=untrue, true=zero)])


def _gridded(node: exp.Expression, condition: exp.Expression | None, scope: Scope) -> Gridded:
    if isinstance(node.this, exp.Distinct):
        raise refusal(node, f"{clause_of(node)}: DISTINCT is supported in COUNT only.")
    tree = _only_where(check_expression(node.this, scope).tree, condition)
    return put_on_grid(tree, scope.schema, clause_of(node))


def _count(
    node: exp.Expression, condition: exp.Expression | None, scope: Scope, apply: Apply, *, windowed: bool
) -> OwnValue:
    """Return COUNT or COUNT_IF over an individual's rows. Its bounds are 0 and m, the most rows of one individual."""
    column = whole_column(0, scope.schema.max_rows_per_unit)
    argument, one = node.this, exp.Literal.number(1)
    if isinstance(node, exp.CountIf):
        # DuckDB gives NULL where the condition is known of no row, as a sum does.
        truth = _only_where(_zero_or_one(check_condition(argument, scope)), condition)
        return OwnValue(as_bigint(apply(exp.Sum(this=truth))), column)
    if isinstance(argument, (exp.Star, exp.Literal)):
        expect_only(argument, *(("this", "is_string") if isinstance(argument, exp.Literal) else ()))
        counted: exp.Expression = exp.Star() if condition is None else _only_where(one, condition)
        return OwnValue(as_bigint(apply(exp.Count(this=counted))), column)
    if not isinstance(argument, exp.Distinct):
        tree = check_total(argument, scope)
        return OwnValue(as_bigint(apply(exp.Count(this=_only_where(tree, condition)))), column)
    expect_only(argument, "expressions")
    if len(argument.expressions) != 1 or windowed:
        raise refusal(node, f"{clause_of(node)}: COUNT(DISTINCT) takes one column, and GROUP BY instead of OVER.")
    tree = check_total(argument.expressions[0], scope)
    different = exp.Distinct(expressions=[_only_where(tree, condition)])
    return OwnValue(as_bigint(apply(exp.Count(this=different))), column)


def _sum(gridded: Gridded, rows: int, apply: Apply, node: exp.Expression) -> OwnValue:
    """Return the sum of at most m = ``rows`` values from L to U, with bounds m·min(L, 0) and m·max(U, 0)."""
    lower, upper = rows * min(gridded.lower, 0), rows * max(gridded.upper, 0)
    _require_countable(max(-lower, upper), node)
    stride = gridded.stride if gridded.stride and gridded.lower % gridded.stride == 0 else 1
    return _number(as_bigint(apply(exp.Sum(this=gridded.tree))), lower, upper, gridded.unit, node, stride)


def _require_countable(largest: int, node: exp.Expression) -> None:
    if largest >= LARGEST:
        raise refusal(
            node, f"{clause_of(node)} is too large to count exactly. Narrow the bounds or coarsen the resolution."
        )


def _mean(gridded: Gridded, rows: int, apply: Apply, node: exp.Expression) -> OwnValue:
    """Return the mean, rounded to a grid (Q2), of at most ``rows`` values.

    The grid's step is the step of the values, halved until it is at most 2⁻²⁰ of the distance between their bounds.
    """
    if gridded.lower == gridded.upper:
        raise refusal(node, f"{clause_of(node)} cannot change: its bounds leave it no room.")
    finer = 1
    while (gridded.upper - gridded.lower) * finer < FINEST:
        finer *= 2
    _require_countable(max(abs(gridded.lower), abs(gridded.upper)) * max(rows, finer), node)
    total, count = (as_double(apply(kind(this=gridded.tree.copy()))) for kind in (exp.Sum, exp.Count))
    # A power of two times a whole number is exact, and quotients of doubles are rounded alike on every engine.
    present = exp.Nullif(this=count, expression=double(0))
    quotient = plain_quotient(exp.Mul(this=total, expression=double(finer)), present)
    rounded = exp.Floor(this=exp.Add(this=wrap(quotient), expression=double("0.5")))
    return _number(as_bigint(rounded), gridded.lower * finer, gridded.upper * finer, gridded.unit / finer, node)


def _extreme(node: exp.Expression, condition: exp.Expression | None, scope: Scope, apply: Apply) -> OwnValue:
    """Return MIN or MAX of the individual's values; of conditions, whether all (MIN) or any (MAX) are true."""
    if isinstance(node.this, exp.Distinct):
        raise refusal(node, f"{clause_of(node)}: DISTINCT is supported in COUNT only.")
    checked = check_expression(node.this, scope)
    largest = isinstance(node, (exp.Max, exp.LogicalOr))
    kind: type[exp.Max] | type[exp.Min] = exp.Max if largest else exp.Min
    if checked.type is Type.BOOLEAN:  # not every engine has MIN and MAX of booleans
        truth = _zero_or_one(make_total(checked.tree, scope.schema))
        found = apply(kind(this=_only_where(truth, condition)))
        is_true = exp.EQ(this=found, expression=exp.Literal.number(1))
        return OwnValue(exp.Paren(this=is_true), Column("", ColumnType.BOOLEAN))
    if isinstance(node, (exp.LogicalOr, exp.LogicalAnd)):
        raise refusal(node, f"{clause_of(node)} takes a condition. Compare the value with something.")
    if checked.type in NUMERIC:
        gridded = _gridded(node, condition, scope)
        number = _number(apply(kind(this=gridded.tree)), gridded.lower, gridded.upper, gridded.unit, node)
        return _listing(number, checked, gridded, scope)
    tree = _only_where(hand_on(checked, scope, node), condition)
    return OwnValue(apply(kind(this=tree)), read_facts(node.this, checked, scope))


# ---------------------------------------------------------------- facts


def _number(
    tree: exp.Expression, lower: int, upper: int, unit: Fraction, node: exp.Expression, stride: int = 1
) -> OwnValue:
    """Return a number of whole grid steps as the value it stands for, with bounds and resolution.

    ``unit``: the size of one step. If it is no decimal, such as 1/3, the value is first rounded to a grid whose step is
    a power of two (Q1). ``lower`` and ``upper``: the bounds in steps. ``stride``: how many steps its values are apart.
    """
    if not _is_decimal(unit):
        rounded = _on_decimals(tree, lower, upper, unit, node)
        tree, lower, upper, unit, stride = rounded.tree, rounded.lower, rounded.upper, rounded.unit, 1
    bounds = (_exact(lower * unit), _exact(upper * unit))
    listed = list_steps(lower, upper, unit, stride) if stride > 1 or unit.numerator > 1 else None
    if unit.denominator == 1:
        _require_countable(int(max(-bounds[0], bounds[1])), node)  # 64 bits hold it whatever the data (N4)
        whole = tree if unit == 1 else exp.Mul(this=wrap(as_bigint(tree)), expression=exp.Literal.number(int(unit)))
        return OwnValue(as_bigint(whole), Column("", ColumnType.INTEGER, bounds, listed=listed))
    # The quotient of two whole numbers is the double nearest to the value, as a literal is.
    steps: exp.Expression = as_double(tree)
    if unit.numerator != 1:
        steps = exp.Mul(this=steps, expression=double(unit.numerator))
    quotient = plain_quotient(wrap(steps), double(unit.denominator))
    column = Column("", ColumnType.DECIMAL, bounds, resolution=_exact(unit), listed=listed)
    return OwnValue(exp.Paren(this=quotient), column)


def _listing(value: OwnValue, checked: Checked, gridded: Gridded, scope: Scope) -> OwnValue:
    """Return the value with the list of all numbers that it can be, if these are fewer than its grid has (C8)."""
    if not _is_decimal(gridded.unit):  # then the numbers were rounded to another grid
        return value
    return replace(value, column=replace(value.column, listed=list_fewer(checked, gridded, scope.schema)))


def _is_decimal(unit: Fraction) -> bool:
    """Return whether a fraction can be written as a decimal: its denominator has no other prime factors than 2 and 5.

    False also for a fraction so large or so small that its multiples might not fit into doubles.
    """
    if max(unit.numerator, unit.denominator) > LARGEST_FACTOR:
        return False
    rest = unit.denominator
    for prime in (2, 5):
        while rest % prime == 0:
            rest //= prime
    return rest == 1


def _on_decimals(tree: exp.Expression, lower: int, upper: int, unit: Fraction, node: exp.Expression) -> Gridded:
    try:
        value = Gridded(tree, lower, upper, unit)
        return value if _is_decimal(unit) else put_on_binary_grid(value)
    except (OverflowError, TooDeep):
        raise refusal(
            node, f"{clause_of(node)} cannot be written exactly. Round it: ROUND({clause_of(node)}, 3)."
        ) from None


def _exact(value: Fraction) -> Decimal:
    """Return a fraction as the decimal that equals it. Its denominator must have no prime factors but 2 and 5."""
    with localcontext() as context:
        context.prec = 400
        exact = Decimal(value.numerator) / Decimal(value.denominator)
    assert Fraction(exact) == value, "units are made of decimals and halves"
    return exact


def read_facts(node: exp.Expression, checked: Checked, scope: Scope) -> Column:
    """Return the public facts of an expression of one row; without bounds or values if none follow from the schema.

    Values of the expression are not clamped (C5).
    """
    plain = isinstance(checked.tree, exp.Column)
    column = scope.schema.columns[checked.tree.name] if plain else _made_facts(node, checked, scope)
    if checked.type is Type.TEXT and column.values is None:
        most = measure_text(limit_text(checked.tree.copy(), scope.schema), scope.schema)
        column = replace(column, max_length=most)
    return _marked(replace(column, name=""), node, scope)


def _made_facts(node: exp.Expression, checked: Checked, scope: Scope) -> Column:
    match checked.type:
        case Type.BOOLEAN:
            return Column("", ColumnType.BOOLEAN)
        case Type.INTEGER | Type.NUMBER:
            kind = ColumnType.INTEGER if checked.type is Type.INTEGER else ColumnType.DECIMAL
            with suppress(QueryError):
                exact = put_on_grid(checked.tree, scope.schema, clause_of(node))
                gridded = _on_decimals(exact.tree, exact.lower, exact.upper, exact.unit, node)
                bounds = (_exact(gridded.lower * gridded.unit), _exact(gridded.upper * gridded.unit))
                resolution = _exact(gridded.unit) if kind is ColumnType.DECIMAL else None
                made = OwnValue(gridded.tree, Column("", kind, bounds, resolution=resolution))
                return _listing(made, checked, exact, scope).column
            return Column("", kind)
        case Type.DATE | Type.TIMESTAMP:
            kind = ColumnType.DATE if checked.type is Type.DATE else ColumnType.TIMESTAMP
            with suppress(QueryError):
                days = cast("tuple[date, ...]", declared_values(node, checked, scope.schema))
                return Column("", kind, (days[0], days[-1]), listed=days if len(days) <= MAX_LISTED else None)
            return Column("", kind)
        case Type.TEXT:
            with suppress(QueryError):
                values = cast("tuple[str, ...]", declared_values(node, checked, scope.schema))
                return Column("", ColumnType.CATEGORY, values=values)
            return Column("", ColumnType.TEXT)
        case Type.NULL:
            raise refusal(node, f"{clause_of(node)} is always NULL. Leave it out.")
