"""Place numbers of unknown size among 0 and ±1, ±2, ±5 times powers of ten: the grid by which bounds are found (B1).

Takes a column without bounds; gives its place as a whole number. The grid is the same for every table.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

from sqlglot import exp

from dosimeter.planning.rows.steps import Gridded, whole
from dosimeter.schema import ColumnType, Schema
from dosimeter.sql import as_double, case, is_null, literal

_POSITIVE = [Decimal(digit).scaleb(exponent) for exponent in range(-6, 19) for digit in (1, 2, 5)]
POWERS = (*(-each for each in reversed(_POSITIVE)), Decimal(0), *_POSITIVE)
"""The grid's points, ascending: 151, from −5·10¹⁸ to 5·10¹⁸. A number's place is that of the largest point up to it."""


def find_unbounded(tree: exp.Expression, schema: Schema) -> bool:
    """Return whether a tree is a column of numbers that declares no bounds."""
    column = schema.columns.get(tree.name) if isinstance(tree, exp.Column) else None
    return column is not None and column.bounds is None and column.type in (ColumnType.INTEGER, ColumnType.DECIMAL)


def place_among_powers(tree: exp.Expression) -> Gridded:
    """Return the place of a column's number in POWERS, a whole number; NULL for NULL.

    The tests halve the grid eight times, since every one of them is made for every row.
    """
    return Gridded(_with_null(tree), 0, len(POWERS) - 1, Fraction(1), clamps=True)


def _with_null(tree: exp.Expression) -> exp.Expression:
    return case((is_null(tree.copy()), exp.Null()), default=_halve(as_double(tree), 0, len(POWERS) - 1))


def _halve(number: exp.Expression, low: int, high: int) -> exp.Expression:
    if low == high:
        return whole(low)
    middle = (low + high + 1) // 2
    below = exp.LT(this=number.copy(), expression=_point(middle).copy())
    return case((below, _halve(number, low, middle - 1)), default=_halve(number, middle, high))


@lru_cache(maxsize=len(POWERS))
def _point(place: int) -> exp.Expression:
    return as_double(literal(POWERS[place]))
