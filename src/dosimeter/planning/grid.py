"""Arguments of SUM, AVG, MIN …: bounds by interval arithmetic (S9) and exact integers on a grid (S8, C5).

Takes a checked row-wise tree; gives a tree of integers, its bounds and what one step is worth. Every column is
clamped to its declared bounds and put on its grid first, so the bounds of the whole expression hold for any data,
and from there on only integers are added and multiplied, so that no engine rounds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from fractions import Fraction
from typing import cast

from sqlglot import exp

from dosimeter.errors import QueryError
from dosimeter.problems import for_controller
from dosimeter.schema import Column, ColumnType, Schema
from dosimeter.sql import DATE_PARTS, as_bigint, as_double, clause_of, column_tree, refusal, wrap

LARGEST = 2**62  # what 64-bit integers hold even when it is doubled
LARGEST_SNAPPED = 2**50  # below it the quotient of two doubles, each half a unit off, still rounds to the right integer
SMALLEST_UNIT, LARGEST_UNIT = Fraction(1, 10**60), Fraction(10**60)


@dataclass(frozen=True, slots=True)
class Gridded:
    """An integer tree with ``lower ≤ tree ≤ upper``; the real value is the integer × unit."""

    tree: exp.Expression
    lower: int
    upper: int
    unit: Fraction

    def __post_init__(self) -> None:
        if max(abs(self.lower), abs(self.upper)) >= LARGEST or not SMALLEST_UNIT <= self.unit <= LARGEST_UNIT:
            raise OverflowError


def put_on_grid(tree: exp.Expression, schema: Schema, aggregate: str) -> Gridded:
    """Return a row-wise tree on its grid. ``aggregate`` is the aggregate as the analyst wrote it, for messages."""
    try:
        return _compile(tree, schema, aggregate)
    except OverflowError:
        raise QueryError(
            f"{aggregate} can reach values too large to count exactly.",
            for_controller("Narrow the bounds or coarsen the resolution of its columns in the schema."),
            clause=aggregate,
        ) from None


def _compile(tree: exp.Expression, schema: Schema, aggregate: str) -> Gridded:
    match tree:
        case exp.Paren():
            return _compile(tree.this, schema, aggregate)
        case exp.Column():
            return _column(schema.columns[tree.name], aggregate)
        case exp.Literal() if not tree.is_string:
            return _literal(str(tree.this))
        case exp.Neg():
            inner = _compile(tree.this, schema, aggregate)
            return Gridded(exp.Neg(this=wrap(inner.tree)), -inner.upper, -inner.lower, inner.unit)
        case exp.Abs():
            return _absolute(_compile(tree.this, schema, aggregate))
        case exp.Add() | exp.Sub():
            left, right = _aligned([_compile(side, schema, aggregate) for side in (tree.this, tree.expression)])
            ends = (right.lower, right.upper) if isinstance(tree, exp.Add) else (-right.upper, -right.lower)
            joined = type(tree)(this=wrap(left.tree), expression=wrap(right.tree))
            return Gridded(joined, left.lower + ends[0], left.upper + ends[1], left.unit)
        case exp.Mul():
            left, right = (_compile(side, schema, aggregate) for side in (tree.this, tree.expression))
            corners = [a * b for a in (left.lower, left.upper) for b in (right.lower, right.upper)]
            product = exp.Mul(this=wrap(left.tree), expression=wrap(right.tree))
            return Gridded(product, min(corners), max(corners), left.unit * right.unit)
        case exp.Case():
            return _case(tree, schema, aggregate)
        case exp.Coalesce():
            parts = _aligned([_compile(part, schema, aggregate) for part in (tree.this, *tree.expressions)])
            return _united(exp.Coalesce(this=parts[0].tree, expressions=[part.tree for part in parts[1:]]), parts)
        case exp.Cast() if isinstance(tree.this, exp.Extract):
            return _date_part(tree, schema, aggregate)
        case exp.Cast():
            return _compile(tree.this, schema, aggregate)
        case exp.Div() | exp.Mod() | exp.Floor() | exp.Ceil():
            raise refusal(
                tree,
                f"{aggregate}: quotients and roundings have no bounds here. Divide the aggregates instead: "
                "SUM(a) / SUM(b), or use CASE.",
            )
        case _:
            raise refusal(
                tree,
                f"{aggregate}: {clause_of(tree)} has no bounds. Inside an aggregate use + - * ABS CASE over columns "
                "with bounds in the schema.",
            )


def _column(column: Column, aggregate: str) -> Gridded:
    if column.type not in (ColumnType.INTEGER, ColumnType.DECIMAL):
        raise QueryError(
            f"{aggregate} needs a numeric column, and {column.name} is {column.type}. "
            "COUNT takes any column; CASE turns others into numbers.",
            clause=aggregate,
        )
    if column.bounds is None:
        raise QueryError(
            f"{aggregate} has no bounds.",
            for_controller(f"Add [columns.{column.name}] bounds = [low, high] to the schema."),
            clause=aggregate,
        )
    lower, upper = cast(tuple[Decimal, Decimal], column.bounds)
    raw = column_tree(column.name)
    if column.type is ColumnType.INTEGER:
        return _clamped(raw, (_number(lower), _number(upper)), as_bigint(raw.copy()), (int(lower), int(upper)))
    if column.resolution is None:
        raise QueryError(
            f"{aggregate} has no resolution.",
            for_controller(f"Add [columns.{column.name}] resolution = 0.01 (or what fits) to the schema."),
            clause=aggregate,
        )
    step = Fraction(column.resolution)
    low, high = (int(Fraction(bound) / step) for bound in (lower, upper))
    if max(abs(low), abs(high)) >= LARGEST_SNAPPED:
        raise OverflowError
    # S8: one rounding rule on every engine.
    quotient = exp.Div(this=as_double(raw), expression=as_double(_number(column.resolution)), typed=False, safe=False)
    half_up = exp.Floor(this=exp.Add(this=wrap(quotient), expression=as_double(exp.Literal.number("0.5"))))
    ends = (as_double(_number(lower)), as_double(_number(upper)))
    return _clamped(raw, ends, as_bigint(half_up), (low, high), step)


def _clamped(
    raw: exp.Expression,
    ends: tuple[exp.Expression, exp.Expression],
    inside: exp.Expression,
    steps: tuple[int, int],
    unit: Fraction = Fraction(1),
) -> Gridded:
    """Clamp a tree to its bounds, by a CASE because LEAST and GREATEST skip NULL (C5)."""
    branches = [
        exp.If(this=exp.Is(this=raw.copy(), expression=exp.Null()), true=exp.Null()),
        exp.If(this=exp.LT(this=raw.copy(), expression=ends[0]), true=_whole(steps[0])),
        exp.If(this=exp.GT(this=raw.copy(), expression=ends[1]), true=_whole(steps[1])),
    ]
    return Gridded(exp.Case(ifs=branches, default=inside), *steps, unit)


def _number(value: Decimal) -> exp.Expression:
    literal: exp.Expression = exp.Literal.number(format(abs(value), "f"))
    return exp.Neg(this=literal) if value < 0 else literal


def _whole(value: int) -> exp.Expression:
    return as_bigint(_number(Decimal(value)))


def _literal(text: str) -> Gridded:
    value = Decimal(text)
    exponent = cast(int, value.as_tuple().exponent)
    unit = Fraction(10) ** min(exponent, 0)
    steps = int(Fraction(value) / unit)
    return Gridded(_whole(steps), steps, steps, unit)


def _absolute(inner: Gridded) -> Gridded:
    low = 0 if inner.lower <= 0 <= inner.upper else min(abs(inner.lower), abs(inner.upper))
    high = max(abs(inner.lower), abs(inner.upper))
    return Gridded(exp.Abs(this=inner.tree), low, high, inner.unit)


def _aligned(parts: list[Gridded]) -> list[Gridded]:
    """Bring several integer trees to one common unit: the largest of which all units are multiples."""
    common = parts[0].unit
    for part in parts[1:]:
        common = _common_unit(common, part.unit)
    result = []
    for part in parts:
        factor = int(part.unit / common)
        tree = part.tree if factor == 1 else exp.Mul(this=wrap(part.tree), expression=_whole(factor))
        result.append(Gridded(tree, part.lower * factor, part.upper * factor, common))
    return result


def _common_unit(a: Fraction, b: Fraction) -> Fraction:
    return Fraction(math.gcd(a.numerator * b.denominator, b.numerator * a.denominator), a.denominator * b.denominator)


def _united(tree: exp.Expression, parts: list[Gridded]) -> Gridded:
    return Gridded(tree, min(p.lower for p in parts), max(p.upper for p in parts), parts[0].unit)


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
    return _united(exp.Case(ifs=ifs, default=trees[-1] if default is not None else None), parts)


_PART_BOUNDS = {"QUARTER": (1, 4), "MONTH": (1, 12), "DAY": (1, 31), "HOUR": (0, 23), "ISODOW": (1, 7)}


def _date_part(tree: exp.Cast, schema: Schema, aggregate: str) -> Gridded:
    part = str(tree.this.this.name)
    assert part in DATE_PARTS
    if part != "YEAR":
        low, high = _PART_BOUNDS[part]
        return Gridded(tree.copy(), low, high, Fraction(1))
    subject = tree.this.expression
    column = schema.columns.get(subject.name) if isinstance(subject, exp.Column) else None
    if column is None or column.bounds is None:
        raise refusal(
            tree,
            f"{aggregate}: the year has no bounds.",
            for_controller("Add bounds = [first day, last day] to its date column in the schema."),
        )
    first, last = (cast(date, bound).year for bound in column.bounds)
    return _clamped(tree, (_whole(first), _whole(last)), tree.copy(), (first, last))
