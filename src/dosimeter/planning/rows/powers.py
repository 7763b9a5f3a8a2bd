"""Place numbers of unknown size among 0 and ±1, ±2, ±5 times powers of ten: the grid by which bounds are found (B1).

Takes a column without bounds; gives its place as a whole number. The grid is the same for every table.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

from sqlglot import exp

from dosimeter.planning.rows.steps import Gridded, whole
from dosimeter.schema import Column, ColumnType, Schema
from dosimeter.sql import as_double, case, is_null, literal

_POSITIVE = [Decimal(digit).scaleb(exponent) for exponent in range(-6, 19) for digit in (1, 2, 5)]
POWERS = (*(-each for each in reversed(_POSITIVE)), Decimal(0), *_POSITIVE)
"""The grid's points, ascending: 151, from −5·10¹⁸ to 5·10¹⁸. A number's place is that of the largest point up to it."""


def find_unbounded(tree: exp.Expression, schema: Schema) -> Column | None:
    """Return the column that a tree is, if it is one of numbers that declares no bounds; None for any other tree."""
    column = schema.columns.get(tree.name) if isinstance(tree, exp.Column) else None
    if column is None or column.bounds is not None:
        return None
    return column if column.type in (ColumnType.INTEGER, ColumnType.DECIMAL) else None


def place_among_powers(tree: exp.Expression, kind: ColumnType) -> Gridded:
    """Return the place of a column's number in POWERS, a whole number; NULL for NULL. ``kind``: the column's type."""
    write = _as_whole if kind is ColumnType.INTEGER else _as_double
    number = tree if kind is ColumnType.INTEGER else as_double(tree)
    placed = _halve(number, write, 0, len(POWERS) - 1)
    return Gridded(
        case((is_null(tree.copy()), exp.Null()), default=placed), 0, len(POWERS) - 1, Fraction(1), clamps=True
    )


def _halve(number: exp.Expression, write: Callable[[Decimal], exp.Expression], low: int, high: int) -> exp.Expression:
    """Write the place between ``low`` and ``high`` by tests that halve what is left."""
    if low == high:
        return whole(low)
    middle = (low + high + 1) // 2
    below = exp.LT(this=number.copy(), expression=write(POWERS[middle]))
    left, right = _halve(number, write, low, middle - 1), _halve(number, write, middle, high)
    return case((below, left), default=right)


def _as_double(point: Decimal) -> exp.Expression:
    return as_double(literal(point))


def _as_whole(point: Decimal) -> exp.Expression:
    """Return the smallest whole number that is not below the point: whole numbers are below both or below neither."""
    return literal(point.to_integral_value("ROUND_CEILING"))
