"""Arguments of SUM, AVG, MIN …: bounds by interval arithmetic (S9) and exact integers on a grid (S8, C5).

Takes a checked expression of one row; gives an expression of integers (in grid steps), its bounds and what one step is
worth. Every column is clamped to its declared bounds and put on its grid first, so the bounds of the whole expression
hold for any data. From there on only integers are added and multiplied, so that no engine rounds.
"""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import cast

from sqlglot import exp

from dosimeter.errors import QueryError
from dosimeter.planning.rows.date_ends import find_ends
from dosimeter.planning.rows.steps import (
    LARGEST_SNAPPED,
    AlwaysNull,
    Gridded,
    TooDeep,
    apply_function,
    clamped,
    divide,
    divide_whole,
    round_steps,
    take_remainder,
    whole,
)
from dosimeter.problems import for_controller
from dosimeter.schema import Column, ColumnType, Schema, toml_key
from dosimeter.sql import (
    PART_VALUES,
    HalfEven,
    Log10,
    UnitNumber,
    as_bigint,
    as_double,
    case,
    clause_of,
    column_tree,
    constant_tree,
    double,
    evaluate_row,
    find_date_part,
    literal,
    make_total,
    plain_quotient,
    refusal,
    round_places,
    wrap,
)


def put_on_grid(tree: exp.Expression, schema: Schema, aggregate: str) -> Gridded:
    """Return an expression of one row as whole grid steps, with its bounds. Raises QueryError if it has no grid.

    ``aggregate``: the aggregate as the analyst wrote it, for messages.
    """
    try:
        return _compile(tree, schema, aggregate)
    except TooDeep:
        raise QueryError(f"{aggregate[:200]} is nested too deeply. Simplify it.", clause=aggregate) from None
    except AlwaysNull:
        raise QueryError(f"{aggregate} is always NULL by the bounds of its columns.", clause=aggregate) from None
    except OverflowError:
        raise QueryError(
            f"{aggregate} can reach values too large to count exactly.",
            for_controller("Narrow the bounds or coarsen the resolution of its columns in the schema."),
            clause=aggregate,
        ) from None


def _compile(tree: exp.Expression, schema: Schema, aggregate: str) -> Gridded:
    def inner(node: exp.Expression) -> Gridded:
        return _compile(node, schema, aggregate)

    match tree:
        case exp.Paren():
            return inner(tree.this)
        case exp.Column():
            return _column(schema.columns[tree.name], aggregate)
        case exp.Literal() if not tree.is_string:
            return _literal(str(tree.this))
        case exp.Neg():
            operand = inner(tree.this)
            negative = exp.Neg(this=wrap(operand.tree))
            return Gridded(
                negative, -operand.upper, -operand.lower, operand.unit, operand.stride, nullable=operand.nullable
            )
        case exp.Abs():
            return _absolute(inner(tree.this))
        case exp.Add() | exp.Sub():
            left, right = _aligned([inner(side) for side in (tree.this, tree.expression)])
            ends = (right.lower, right.upper) if isinstance(tree, exp.Add) else (-right.upper, -right.lower)
            joined = type(tree)(this=wrap(left.tree), expression=wrap(right.tree))
            stride = math.gcd(left.stride, right.stride)
            nullable = left.nullable or right.nullable
            return Gridded(joined, left.lower + ends[0], left.upper + ends[1], left.unit, stride, nullable=nullable)
        case exp.Mul():
            return _product(*(inner(side) for side in (tree.this, tree.expression)))
        case exp.Div():
            divisor = tree.expression.this if isinstance(tree.expression, exp.Nullif) else tree.expression
            return divide(inner(tree.this), inner(divisor))
        case exp.IntDiv() | exp.Mod():
            compute = divide_whole if isinstance(tree, exp.IntDiv) else take_remainder
            return compute(*_aligned([inner(tree.this), inner(tree.expression)]))
        case exp.Floor() | exp.Ceil() | exp.Trunc() | HalfEven() | exp.Round():
            return round_steps(type(tree), inner(tree.this), round_places(tree) if isinstance(tree, exp.Round) else 0)
        case exp.Sqrt() | exp.Ln() | Log10() | exp.Exp():
            return apply_function(type(tree), inner(tree.this))
        case exp.Greatest() | exp.Least():
            return _extremum(type(tree), _aligned([inner(part) for part in (tree.this, *tree.expressions)]))
        case exp.Case():
            return _case(tree, schema, aggregate)
        case exp.Coalesce():
            parts = _aligned([inner(part) for part in (tree.this, *tree.expressions)])
            first = _united(exp.Coalesce(this=parts[0].tree, expressions=[part.tree for part in parts[1:]]), parts)
            return replace(first, nullable=all(part.nullable for part in parts))
        case UnitNumber():
            return _date_number(tree, schema, aggregate)
        case exp.Cast() if find_date_part(tree) is not None:
            return _date_number(tree, schema, aggregate)
        case exp.Cast():
            return inner(tree.this)
        case exp.Predicate() | exp.Connector() | exp.Not() | exp.Boolean():
            return _truth(make_total(tree, schema))
        case _:
            raise refusal(
                tree,
                f"{aggregate}: {clause_of(tree)} has no bounds. Inside an aggregate use + - * / ABS ROUND GREATEST "
                "LEAST CASE over columns with bounds in the schema.",
            )


def _column(column: Column, aggregate: str) -> Gridded:
    if column.type is ColumnType.BOOLEAN:
        return _truth(column_tree(column.name))
    if column.type not in (ColumnType.INTEGER, ColumnType.DECIMAL):
        raise QueryError(
            f"{aggregate} needs a numeric column, and {column.name} is {column.type}. "
            "COUNT takes any column; CASE turns others into numbers.",
            clause=aggregate,
        )
    if column.bounds is None:
        raise QueryError(
            f"{aggregate} has no bounds.",
            for_controller(f"Add [columns.{toml_key(column.name)}] bounds = [low, high] to the schema."),
            clause=aggregate,
        )
    lower, upper = cast(tuple[Decimal, Decimal], column.bounds)
    raw = column_tree(column.name)
    if column.type is ColumnType.INTEGER:
        whole_steps = clamped(raw, (literal(lower), literal(upper)), as_bigint(raw.copy()), (int(lower), int(upper)))
        apart = [int(cast(int, value)) - int(lower) for value in column.listed or ()]
        return replace(whole_steps, stride=math.gcd(*apart)) if apart else whole_steps
    if column.resolution is None:
        raise QueryError(
            f"{aggregate} has no resolution.",
            for_controller(f"Add [columns.{toml_key(column.name)}] resolution = 0.01 (or what fits) to the schema."),
            clause=aggregate,
        )
    step = Fraction(column.resolution)
    low, high = (int(Fraction(bound) / step) for bound in (lower, upper))
    if max(abs(low), abs(high)) >= LARGEST_SNAPPED:
        raise OverflowError
    # S8: one rounding rule on every engine.
    steps = plain_quotient(as_double(raw), as_double(literal(column.resolution)))
    half_up = exp.Floor(this=exp.Add(this=wrap(steps), expression=double("0.5")))
    ends = (as_double(literal(lower)), as_double(literal(upper)))
    return clamped(raw, ends, as_bigint(half_up), (low, high), step)


def _truth(condition: exp.Expression) -> Gridded:
    """Return a condition as the number 1 or 0; NULL stays NULL."""
    tree = case((condition, whole(1)), (exp.Not(this=wrap(condition.copy())), whole(0)))
    return Gridded(tree, 0, 1, Fraction(1), clamps=True)


def _literal(text: str) -> Gridded:
    value = Decimal(text)
    exponent = cast(int, value.as_tuple().exponent)
    unit = Fraction(10) ** min(exponent, 0)
    steps = int(Fraction(value) / unit)
    return Gridded(whole(steps), steps, steps, unit, 0, nullable=False, clamps=True)


def _absolute(inner: Gridded) -> Gridded:
    mixed = inner.lower < 0 < inner.upper
    low = 0 if mixed else min(abs(inner.lower), abs(inner.upper))
    high = max(abs(inner.lower), abs(inner.upper))
    stride = 1 if mixed else inner.stride
    return Gridded(exp.Abs(this=inner.tree), low, high, inner.unit, stride, nullable=inner.nullable)


def _product(left: Gridded, right: Gridded) -> Gridded:
    corners = [a * b for a in (left.lower, left.upper) for b in (right.lower, right.upper)]
    product = exp.Mul(this=wrap(left.tree), expression=wrap(right.tree))
    factors = [abs(one.lower) * other.stride for one, other in ((left, right), (right, left)) if one.has_one_value]
    stride, nullable = factors[0] if factors else 1, left.nullable or right.nullable
    return Gridded(product, min(corners), max(corners), left.unit * right.unit, stride, nullable=nullable)


def _extremum(kind: type[exp.Expression], parts: list[Gridded]) -> Gridded:
    """Return GREATEST or LEAST of several values. Both skip NULL.

    So a value that is never NULL bounds the result: GREATEST is at least its lower bound, LEAST at most its upper
    bound. A value that can be NULL does not.
    """
    tree = kind(this=parts[0].tree, expressions=[part.tree for part in parts[1:]], ignore_nulls=True)
    present = [part for part in parts if not part.nullable]
    joined = replace(_united(tree, parts), nullable=not present, clamps=False)
    if kind is exp.Greatest:
        return replace(joined, lower=max([joined.lower, *(part.lower for part in present)]))
    return replace(joined, upper=min([joined.upper, *(part.upper for part in present)]))


def _aligned(parts: list[Gridded]) -> list[Gridded]:
    """Return several values on one common grid, with the largest step that goes evenly into all their own steps."""
    common = parts[0].unit
    for part in parts[1:]:
        common = _common_unit(common, part.unit)
    result = []
    for part in parts:
        factor = int(part.unit / common)
        if factor == 1 or part.lower == part.upper == 0:  # 0 is 0 in every unit, and the factor may exceed 64 bits
            result.append(replace(part, unit=common, stride=part.stride * factor))
            continue
        result.append(
            replace(
                part,
                tree=exp.Mul(this=wrap(part.tree), expression=whole(factor)),
                lower=part.lower * factor,
                upper=part.upper * factor,
                unit=common,
                stride=part.stride * factor,
            )
        )
    return result


def _common_unit(a: Fraction, b: Fraction) -> Fraction:
    return Fraction(math.gcd(a.numerator * b.denominator, b.numerator * a.denominator), a.denominator * b.denominator)


def _united(tree: exp.Expression, parts: list[Gridded]) -> Gridded:
    stride = math.gcd(*(part.stride for part in parts), *(part.lower - parts[0].lower for part in parts))
    clamps = all(part.clamps for part in parts)
    return Gridded(tree, min(p.lower for p in parts), max(p.upper for p in parts), parts[0].unit, stride, clamps=clamps)


def _case(tree: exp.Case, schema: Schema, aggregate: str) -> Gridded:
    branches = tree.args["ifs"]
    default = tree.args.get("default")
    nodes = [branch.args["true"] for branch in branches] + ([default] if default is not None else [])
    numbers = [node for node in nodes if not isinstance(node.unnest(), exp.Null)]
    if not numbers:
        raise refusal(tree, f"{aggregate}: {clause_of(tree)} is always NULL.")
    parts = _aligned([_compile(node, schema, aggregate) for node in numbers])
    compiled = iter(parts)
    trees = [exp.Null() if isinstance(node.unnest(), exp.Null) else next(compiled).tree for node in nodes]
    ifs = [exp.If(this=branch.this.copy(), true=trees[at]) for at, branch in enumerate(branches)]
    joined = _united(exp.Case(ifs=ifs, default=trees[-1] if default is not None else None), parts)
    filled = default is not None and len(numbers) == len(nodes)
    return replace(joined, nullable=not filled or any(part.nullable for part in parts))


def _date_number(tree: exp.Expression, schema: Schema, aggregate: str) -> Gridded:
    """Return a number read from a date: a part (EXTRACT), such as its month, or a UnitNumber.

    A UnitNumber is the number of the date's day, month …, counted on from a fixed origin. The bounds of a part such as
    the month are fixed: 1 to 12. Those of a year and of a UnitNumber follow from the bounds of the date.
    ``aggregate``: the aggregate around the number, as the analyst wrote it, for messages.
    """
    part = find_date_part(tree)
    known = PART_VALUES[part.this.name] if part is not None else None
    total = make_total(tree, schema)
    if known is not None:
        return Gridded(total, *known, Fraction(1))
    moment = tree.this if part is None else part.expression
    ends = find_ends(moment, schema)
    if ends is None:
        raise refusal(
            tree,
            f"{aggregate}: the date has no bounds.",
            for_controller("Add bounds = [first day, last day] to its date column in the schema."),
        )
    numbers = []
    for end in ends:
        at_end = tree.copy()
        (at_end.this if part is None else cast(exp.Extract, find_date_part(at_end)).expression).replace(
            constant_tree(end)
        )
        numbers.append(int(evaluate_row(make_total(at_end, schema), {})))
    low, high = numbers
    return clamped(total, (whole(low), whole(high)), total.copy(), (low, high))
