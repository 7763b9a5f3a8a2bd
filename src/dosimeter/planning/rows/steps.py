"""Values in whole steps of a grid: quotients, roundings, roots and logarithms of such values.

Takes integer trees with bounds; gives integer trees with bounds that hold for any data, because what could lie outside
is clamped. A result that is on no grid by itself is rounded to one (Q1).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, cast

from sqlglot import exp

from dosimeter.sql import (
    MAX_NODES,
    HalfEven,
    Log10,
    as_bigint,
    as_double,
    case,
    clamp,
    connect,
    count_nodes,
    double,
    is_not_null,
    literal,
    plain_quotient,
    quotient,
    wrap,
)

LARGEST = 2**62  # what 64-bit integers hold even when it is doubled
LARGEST_SNAPPED = 2**50  # below it the quotient of two doubles, each half a unit off, still rounds to the right integer
LARGEST_EXACT = 2**53  # whole numbers up to it are doubles
SMALLEST_UNIT, LARGEST_UNIT = Fraction(1, 10**60), Fraction(10**60)
LARGEST_FACTOR = 10**150  # what a whole number of 64 bits, or a quotient of two, can be multiplied or divided by
STEPS = 2**20  # how finely a value on no grid is rounded (Q1)
_BELOW_HALF = "0.49999999999999994"  # the largest double below a half: adding it and taking FLOOR rounds halves up


class TooDeep(ValueError):
    """Raised for an expression that becomes too long, because its parts are written out several times."""


class AlwaysNull(ValueError):
    """Raised for an expression that is NULL for every row within the bounds."""


_CLAMPS = "clamps"  # marks a CASE of ``clamped``


@dataclass(frozen=True, slots=True)
class Gridded:
    """A value in whole grid steps: an integer tree with ``lower ≤ tree ≤ upper``. The real value is tree × ``unit``.

    Every value of the tree is ``lower`` plus a multiple of ``stride``, which is 0 if there is only one value.
    ``nullable``: whether the tree can be NULL for a row. ``clamps``: whether the tree itself keeps within the bounds,
    whatever the data. Raises TooDeep for a tree that is too long, OverflowError for numbers that are too large.
    """

    tree: exp.Expression
    lower: int
    upper: int
    unit: Fraction
    stride: int = 1
    nullable: bool = True
    clamps: bool = False

    def __post_init__(self) -> None:
        if count_nodes(self.tree) > MAX_NODES:
            raise TooDeep
        if max(abs(self.lower), abs(self.upper)) >= LARGEST or not SMALLEST_UNIT <= self.unit <= LARGEST_UNIT:
            raise OverflowError

    @property
    def has_one_value(self) -> bool:
        """Return whether every row has the same value, or NULL."""
        return self.lower == self.upper and self.stride == 0


def whole(value: int) -> exp.Expression:
    """Return a whole number as a tree, cast to 64 bits."""
    return as_bigint(literal(value))


def clamped(
    raw: exp.Expression,
    ends: tuple[exp.Expression, exp.Expression],
    inside: exp.Expression,
    steps: tuple[int, int],
    unit: Fraction = Fraction(1),
) -> Gridded:
    """Return a tree clamped to its bounds, in grid steps. Written as CASE, because LEAST and GREATEST skip NULL (C5).

    ``raw``: the tree in its own units, such as pay in euros. ``ends``: its bounds in the same units, 0 and 10.
    ``inside``: the tree in grid steps, for values within the bounds: pay / 0.5 for steps of half a euro. ``steps``: the
    bounds in grid steps, 0 and 20. ``unit``: what one step is worth, 0.5.
    """
    tree = case(
        (exp.Is(this=raw.copy(), expression=exp.Null()), exp.Null()),
        (exp.LT(this=raw.copy(), expression=ends[0]), whole(steps[0])),
        (exp.GT(this=raw.copy(), expression=ends[1]), whole(steps[1])),
        default=inside,
    )
    tree.meta[_CLAMPS] = True
    return Gridded(tree, *steps, unit, clamps=True)


def find_clamped(tree: exp.Expression) -> exp.Expression | None:
    """Return SQL for whether a value that ``clamped`` holds within bounds is outside of them; None if there is none.

    Of a CASE that the query writes, only the branch that a row takes counts.
    """
    if not isinstance(tree, exp.Case):
        found = [test for part in tree.iter_expressions() if (test := find_clamped(part)) is not None]
        return connect([exp.Paren(this=test) for test in found], exp.Or) if found else None
    branches = tree.args["ifs"]
    if tree.meta.get(_CLAMPS):
        null, *ends = (branch.this for branch in branches)
        before = find_clamped(null.this)
        return connect([*(end.copy() for end in ends), *([] if before is None else [exp.Paren(this=before)])], exp.Or)
    results = [*(branch.args["true"] for branch in branches), tree.args.get("default") or exp.Null()]
    tests = [find_clamped(result) for result in results]
    if all(test is None for test in tests):
        return None
    *found, last = (exp.Boolean(this=False) if test is None else test for test in tests)
    return case(*((branch.this.copy(), test) for branch, test in zip(branches, found, strict=True)), default=last)


def list_read(tree: exp.Expression) -> Iterator[exp.Column]:
    """Yield the columns whose values a tree takes, as they are or ``clamped``: not those that a CASE only tests."""
    cases = list(tree.find_all(exp.Case))
    tests = [branch.this for each in cases if not each.meta.get(_CLAMPS) for branch in each.args["ifs"]]
    clamps = [each for each in cases if each.meta.get(_CLAMPS)]
    tested, taken = (
        {id(column) for part in parts for column in part.find_all(exp.Column)} for parts in (tests, clamps)
    )
    yield from (column for column in tree.find_all(exp.Column) if id(column) not in tested - taken)


def keep_within(value: Gridded) -> Gridded:
    """Clamp a tree to the bounds that were found for it, so that these hold even where they were found wrongly."""
    if value.clamps or value.tree.find(exp.Column) is None:
        return value
    return replace(value, tree=clamp(wrap(value.tree), whole(value.lower), whole(value.upper)), clamps=True)


def round_to_candidates(value: Gridded, step: int) -> Gridded:
    """Return a value rounded to the nearest of ``lower``, ``lower`` + step, … and ``upper`` (M4).

    ``step``: in grid steps. ``upper`` is always among these, also if it is nearer than a step to the one before it.
    """
    low, high = value.lower, value.upper
    last = low + (high - low - 1) // step * step  # the last but one: what lies beyond the middle after it is rounded up
    raw = (
        exp.Cast(this=value.tree, to=exp.DataType.build("DECIMAL(38, 0)")) if high - low >= LARGEST // 2 else value.tree
    )
    moved = exp.Paren(this=exp.Add(this=wrap(raw.copy()), expression=wrap(literal(step // 2 - low))))
    below = exp.Paren(this=exp.Sub(this=moved, expression=exp.Mod(this=moved.copy(), expression=literal(step))))
    rounded = as_bigint(exp.Paren(this=exp.Add(this=below, expression=wrap(literal(low)))))
    beyond = exp.GT(this=wrap(value.tree.copy()), expression=literal(last + (high - last) // 2))
    return Gridded(case((beyond, whole(high)), default=rounded), low, high, value.unit)


# ---------------------------------------------------------------- quotients


def divide(left: Gridded, right: Gridded) -> Gridded:
    """Return a quotient: exact if the divisor is a constant, otherwise rounded to a grid. NULL for a divisor of 0.

    A divisor on a grid is 0 or at least one step from 0, which bounds the quotient.
    """
    if right.has_one_value and right.lower != 0:
        return _divide_by_one_value(left, right)
    low, high = _quotient_ends(left, right)
    ratio = left.unit / right.unit
    value = _scaled(quotient(left.tree.copy(), right.tree.copy()), ratio)
    return _rounded(value, low * ratio, high * ratio)


def _divide_by_one_value(left: Gridded, right: Gridded) -> Gridded:
    """Return an exact quotient by a constant: only the size of a step and the sign change.

    It is NULL where the divisor is NULL.
    """
    unit = left.unit / (abs(right.lower) * right.unit)
    value = replace(left, unit=unit)
    if right.lower < 0:
        value = replace(value, tree=exp.Neg(this=wrap(left.tree)), lower=-left.upper, upper=-left.lower, clamps=False)
    if not right.nullable:
        return value
    return replace(value, tree=case((is_not_null(wrap(right.tree.copy())), value.tree)), nullable=True)


def _quotient_ends(left: Gridded, right: Gridded) -> tuple[Fraction, Fraction]:
    divisors = [end for end in (right.lower, right.upper) if end != 0]
    divisors += [end for end in (-1, 1) if right.lower <= end <= right.upper]
    if not divisors:
        raise AlwaysNull
    corners = [Fraction(a, b) for a in (left.lower, left.upper) for b in divisors]
    return min(corners), max(corners)


def divide_whole(left: Gridded, right: Gridded) -> Gridded:
    """Return a // b of two values on the same grid: the quotient rounded towards 0."""
    _expect_exact(left, right)
    low, high = _quotient_ends(left, right)
    return Gridded(
        _towards_zero(quotient(left.tree.copy(), right.tree.copy())), math.trunc(low), math.trunc(high), Fraction(1)
    )


def take_remainder(left: Gridded, right: Gridded) -> Gridded:
    """Return a % b of two values on the same grid: the remainder of a // b, with the sign of a."""
    _expect_exact(left, right)
    _quotient_ends(left, right)
    multiple = exp.Mul(this=wrap(right.tree), expression=_towards_zero(quotient(left.tree.copy(), right.tree.copy())))
    tree = exp.Sub(this=wrap(left.tree), expression=multiple)
    most = min(max(abs(left.lower), abs(left.upper)), max(abs(right.lower), abs(right.upper)) - 1)
    return Gridded(tree, -most if left.lower < 0 else 0, most if left.upper > 0 else 0, left.unit)


def _expect_exact(*parts: Gridded) -> None:
    if any(max(abs(part.lower), abs(part.upper)) >= LARGEST_SNAPPED for part in parts):
        raise OverflowError


def _towards_zero(value: exp.Expression) -> exp.Expression:
    negative = exp.LT(this=wrap(value), expression=double(0))
    return case((negative, as_bigint(exp.Ceil(this=value.copy()))), default=as_bigint(exp.Floor(this=value.copy())))


# ---------------------------------------------------------------- roundings


def _half_away(value: Fraction) -> int:
    return math.floor(value + Fraction(1, 2)) if value >= 0 else -math.floor(-value + Fraction(1, 2))


_ROUNDINGS: dict[type[exp.Expression], Callable[[Fraction], int]] = {
    exp.Floor: math.floor,
    exp.Ceil: math.ceil,
    exp.Trunc: math.trunc,
    HalfEven: round,
    exp.Round: _half_away,
}


def round_steps(kind: type[exp.Expression], inner: Gridded, places: int) -> Gridded:
    """Return a value rounded to ``places`` decimal places, exactly, in steps of the last place.

    A value that never has more decimal places than that is returned unchanged. ``kind``: the rounding, such as FLOOR or
    ROUND.
    """
    step = Fraction(1, 10**places) if places >= 0 else Fraction(10**-places)
    ratio = inner.unit / step
    if ratio.denominator == 1:
        return inner
    if max(abs(inner.lower), abs(inner.upper), 1) * ratio.numerator >= LARGEST_EXACT or ratio.denominator >= LARGEST:
        raise OverflowError
    value = _scaled(as_double(inner.tree), ratio)
    low, high = (_ROUNDINGS[kind](end * ratio) for end in (inner.lower, inner.upper))
    return Gridded(_round(kind, value), low, high, step, nullable=inner.nullable)


def _round(kind: type[exp.Expression], value: exp.Expression) -> exp.Expression:
    if kind is exp.Trunc:
        return _towards_zero(value)
    if kind is HalfEven:
        return as_bigint(exp.Anonymous(this="ROUND_EVEN", expressions=[value, exp.Literal.number(0)]))
    if kind is not exp.Round:
        return as_bigint(kind(this=value))
    half = double(_BELOW_HALF)
    size = as_bigint(exp.Floor(this=exp.Add(this=exp.Abs(this=value), expression=half)))
    return exp.Mul(this=as_bigint(exp.Sign(this=value.copy())), expression=size)


# ---------------------------------------------------------------- values on no grid


_FUNCTIONS: dict[type[exp.Expression], Callable[[Fraction], float]] = {
    exp.Sqrt: math.sqrt,
    exp.Ln: math.log,
    Log10: math.log10,
}


def apply_function(kind: type[exp.Expression], inner: Gridded) -> Gridded:
    """Return SQRT, LN, LOG10 or EXP of a value, rounded to a grid (Q1); NULL where the function has no value."""
    real = _scaled(as_double(inner.tree), inner.unit)
    least = {exp.Sqrt: 0, exp.Ln: 1, Log10: 1}.get(cast(Any, kind))  # in steps: a positive value is at least one
    if least is None:
        low, high = (_exponential(end * inner.unit) for end in (inner.lower, inner.upper))
        return _rounded(exp.Exp(this=real), low, high)
    if inner.upper < least:
        raise AlwaysNull
    compute = _FUNCTIONS[kind]
    ends = [Fraction(compute(max(end, least) * inner.unit)) for end in (inner.lower, inner.upper)]
    value = exp.Anonymous(this="LOG10", expressions=[real]) if kind is Log10 else kind(this=real)
    there = exp.GTE(this=wrap(inner.tree.copy()), expression=whole(least))
    return _rounded(case((there, value)), *ends)


def _exponential(value: Fraction) -> Fraction:
    if abs(value) > 100:
        raise OverflowError
    return Fraction(math.exp(value))


def _rounded(value: exp.Expression, low: Fraction, high: Fraction) -> Gridded:
    """Round a double to a grid of at least 2^20 steps between its bounds, and clamp it to them (Q1).

    One step is a power of two, so that dividing by it is exact on every engine.
    """
    width = (high - low) / STEPS
    unit = Fraction(1, STEPS) if width == 0 else Fraction(2) ** _floor_log2(width)
    steps = (math.floor(low / unit), math.ceil(high / unit))
    if max(abs(step) for step in steps) >= LARGEST_SNAPPED:
        raise OverflowError
    half = double("0.5")
    nearest = exp.Floor(this=exp.Add(this=wrap(_scaled(value, 1 / unit)), expression=half))
    ends = (_double(low), _double(high))
    return clamped(wrap(value), ends, as_bigint(nearest), steps, unit)


def put_on_binary_grid(value: Gridded) -> Gridded:
    """Return a value rounded to a grid whose step is a power of two (Q1): for steps that are no decimals, as 1/3."""
    return _rounded(_scaled(as_double(value.tree), value.unit), value.lower * value.unit, value.upper * value.unit)


def _floor_log2(value: Fraction) -> int:
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    return exponent if Fraction(2) ** exponent <= value else exponent - 1


def _double(value: Fraction) -> exp.Expression:
    size = double(repr(float(abs(value))))
    return exp.Neg(this=size) if value < 0 else size


def _scaled(value: exp.Expression, factor: Fraction) -> exp.Expression:
    """Write a double × a fraction. Raises OverflowError where that could leave the range of doubles."""
    if max(factor.numerator, factor.denominator) > LARGEST_FACTOR:
        raise OverflowError
    result = value
    if factor.numerator != 1:
        result = exp.Mul(this=wrap(result), expression=_double(Fraction(factor.numerator)))
    if factor.denominator != 1:
        result = plain_quotient(wrap(result), _double(Fraction(factor.denominator)))
    return exp.Paren(this=result) if result is not value else result
