"""The two grids on which a column's bounds are searched for (B1). Takes what was drawn; gives bounds. Knows no data.

The first grid is the same for every table: 0 and ±1, ±2, ±5 times powers of ten; for a date, the years 1 to 9999. The
second is even, between the ends that the first search found. Days are counted as whole numbers, from 1 January of the
year 1 on.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, time
from decimal import Decimal
from fractions import Fraction

from dosimeter.planning import POWERS
from dosimeter.schema import Column, ColumnType

EVEN = 256
"""The most points of the second grid."""
YEARS = 9_999
"""The points of the first grid of a date."""
FIRST_DAY, LAST_DAY = Decimal(date.min.toordinal()), Decimal(date.max.toordinal())
_LARGEST = Decimal(4) * 10**18  # a schema takes no bounds beyond 2^62
_STEPS = 250  # of a decimal column's second grid where nothing is declared of its resolution

Ends = tuple[Decimal, Decimal]
"""The two ends of a search. Of a date: days, as whole numbers."""


def is_of_days(column: Column) -> bool:
    return column.type in (ColumnType.DATE, ColumnType.TIMESTAMP)


def read_day(number: Decimal) -> date:
    return date.fromordinal(int(number))


def bound_days(column: Column, ends: Ends) -> tuple[date, date]:
    """Return days as the bounds of a date column, or of moments: from the first one's start to the last one's end."""
    low, high = map(read_day, ends)
    if column.type is ColumnType.DATE:
        return low, high
    return datetime.combine(low, time.min), datetime.combine(high, time(23, 59, 59))


def read_first(column: Column, drawn: Sequence[Fraction]) -> Ends:
    """Return the ends that the first search found: the lower one down to the grid's next point, the upper one up.

    ``drawn``: MIN and MAX as places in POWERS; of a date, as years.
    """
    low, high = (int(number) for number in sorted(drawn))
    if is_of_days(column):
        return Decimal(date(low, 1, 1).toordinal()), Decimal(date(high, 12, 31).toordinal())
    below, above = POWERS[min(low, len(POWERS) - 2)], POWERS[min(high + 1, len(POWERS) - 1)]
    unit = find_unit(column)
    if unit is not None:
        below, above = round_down(below, unit), round_up(above, unit)
    return max(below, -_LARGEST), min(above, _LARGEST)


def read_second(column: Column, ends: Ends, step: Fraction, drawn: Sequence[Fraction]) -> Ends:
    """Return the bounds that the second search found: what was drawn and half a ``step`` of its grid, within ``ends``.

    ``drawn``: MIN and MAX; of a date, in days from the first of the ends.
    """
    start = Fraction(ends[0]) if is_of_days(column) else 0
    low, high = (start + number for number in sorted(drawn))
    unit = find_unit(column)
    below, above = _write(low - step / 2), _write(high + step / 2)
    if unit is not None:  # what lies on the column's own grid and was rounded to what was drawn
        below, above = round_up(below, unit), round_down(above, unit)
    return max(ends[0], below), min(ends[1], above)


def find_unit(column: Column) -> Decimal | None:
    """Return the distance between neighbouring values of a column; None of a decimal column without a resolution."""
    return column.resolution if column.type is ColumnType.DECIMAL else Decimal(1)


def find_step(column: Column, ends: Ends) -> Decimal:
    """Return how far apart the points of a number column's second grid lie: a multiple of its unit."""
    (low, high), unit = ends, find_unit(column)
    if unit is None:
        return (high - low) / _STEPS
    steps = (high - low) / unit / (EVEN - 3)  # with one more point at either end
    return max(Decimal(1), round_up(steps, Decimal(1))) * unit


def round_down(number: Decimal, unit: Decimal) -> Decimal:
    """Return the largest multiple of ``unit`` that is not above the number."""
    return (number / unit).to_integral_value("ROUND_FLOOR") * unit


def round_up(number: Decimal, unit: Decimal) -> Decimal:
    """Return the smallest multiple of ``unit`` that is not below the number."""
    return -round_down(-number, unit)


def _write(number: Fraction) -> Decimal:
    return Decimal(number.numerator) / Decimal(number.denominator)
