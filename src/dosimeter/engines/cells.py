"""Read cells: how text is read as a value of its type, and which values are odd and count as NULL (N4).

Takes trees; gives trees, by one rule per type, the same on every engine. The engines' own casts accept more than these
rules, and differ: 12.5 as the whole number 13, 24-01-05 as a date of the year 24, 12:30 as a timestamp of today.

Odd cells are NaN, infinities, dates or timestamps outside the years 1 to 9999, whole numbers outside 64 bits, and text
that is not written as its type. Since they count as NULL, no cell makes a query fail, and none moves an answer by more
than its individual may.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from dosimeter.schema import ColumnType

if TYPE_CHECKING:
    import pyarrow as pa

FIRST_MOMENT, LAST_MOMENT = "0001-01-01 00:00:00", "9999-12-31 23:59:59.999999"
_LARGEST_DOUBLE = "1.7976931348623157e308"
BEYOND_INTEGERS = "9223372036854775808"  # 2^63, a double: whole numbers lie from its negative up to below it
RANGES = {
    ColumnType.DECIMAL: (f"-{_LARGEST_DOUBLE}", _LARGEST_DOUBLE),
    ColumnType.DATE: (FIRST_MOMENT[:10], LAST_MOMENT[:10]),
    ColumnType.TIMESTAMP: (FIRST_MOMENT, LAST_MOMENT),
}
"""The smallest and the largest value of each type that are not odd, where there are such."""


@dataclass(frozen=True, slots=True)
class CellForm:
    """The form in which cells of one type are written as text.

    ``pattern``: a regular expression for the text without the blanks around it. ``words``: the form as messages name
    it. ``ends``: marks after which the text adds nothing to the value, such as the point of the whole number 12.0; the
    text from such a mark on is cut off, since engines' casts disagree on it.
    """

    pattern: str
    words: str
    ends: tuple[str, ...] = ()


_DAY = "[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}"
_TIME = "([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.][0-9]+)?)?"
_UTC = "Z|[+]00(:?00)?"
CLOCK = f"{_TIME}({_UTC})?"
FORMS = {
    ColumnType.INTEGER: CellForm("[+-]?[0-9]+([.]0*)?", "whole numbers", ends=(".",)),
    ColumnType.DECIMAL: CellForm("[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][+-]?[0-9]+)?", "numbers (1234.5)"),
    ColumnType.BOOLEAN: CellForm("(?i:true|false|t|f|yes|no|y|n)|1|0", "true or false"),
    ColumnType.DATE: CellForm(_DAY, "days (2024-12-31)"),
    ColumnType.TIMESTAMP: CellForm(f"{_DAY}([ T]{CLOCK})?", "moments in UTC (2024-12-31 23:59:59)", ends=("Z", "+")),
}


def read_cell(text: exp.Expression, kind: ColumnType, native: exp.DataType) -> exp.Expression:
    """Return SQL that reads a text as a value of the type ``kind``; NULL where the text is odd (N4).

    ``kind``: a key of ``FORMS``, which has every type but text and category. ``native``: the engine's own type for
    values of this type.
    """
    value = _parse(text, kind, native)
    return keep_in_range(value, kind, native) if kind in RANGES else value  # 1e999 has the form of a number


_FLAGS = ((exp.true(), ("true", "t", "yes", "y", "1")), (exp.false(), ("false", "f", "no", "n", "0")))


def read_flag(text: exp.Expression) -> exp.Expression:
    """Return SQL that reads a typed source's text as TRUE or FALSE; NULL where it is neither.

    A CSV's cells are read by the same words (``FORMS``). Here they are compared, since engines' patterns differ.
    """
    word = exp.Lower(this=without_blanks(text))
    tests = [(exp.In(this=word.copy(), expressions=[*map(exp.Literal.string, words)]), flag) for flag, words in _FLAGS]
    return exp.Case(ifs=[exp.If(this=test, true=flag.copy()) for test, flag in tests])


def _parse(text: exp.Expression, kind: ColumnType, native: exp.DataType) -> exp.Expression:
    form = FORMS[kind]
    bare: exp.Expression = without_blanks(text)
    for end in form.ends:
        one = exp.Literal.number(1)
        bare = exp.SplitPart(this=bare, delimiter=exp.Literal.string(end), part_index=one)
    value = exp.TryCast(this=bare, to=native.copy(), safe=True)
    return exp.Case(ifs=[exp.If(this=matches(without_blanks(text), form.pattern), true=value)])


def odd_cells_query(cells: Mapping[str, tuple[exp.Expression, exp.Expression]], source: exp.Expression) -> exp.Select:
    """Return the query that counts each column's odd cells: not NULL in the source, but counted as NULL.

    ``cells``: for each column, SQL for its cells as they are in the source, and as they are read.
    """
    counts = {name: exp.Sub(this=exp.Count(this=a), expression=exp.Count(this=b)) for name, (a, b) in cells.items()}
    return exp.select(*(exp.alias_(each, name, quoted=True) for name, each in counts.items())).from_(source)


def read_odd_cells(found: pa.Table) -> dict[str, int]:
    """Return how many odd cells each column has, as ``odd_cells_query`` counted them."""
    return {name: int(count) for name, count in found.to_pylist()[0].items()}


def without_blanks(text: exp.Expression) -> exp.Expression:
    """Return SQL for a text without the spaces around it. Only spaces: engines differ in what else they trim."""
    return exp.Trim(this=text.copy(), expression=exp.Literal.string(" "))


def matches(text: exp.Expression, pattern: str) -> exp.Expression:
    """Return SQL for the test that the pattern matches the whole text.

    The SQL does not use $, which would also match before a line break at the end of the text.
    """
    return exp.RegexpLike(this=text.copy(), expression=exp.Literal.string(f"^({pattern})\\z"))


def keep_if(test: exp.Expression, value: exp.Expression) -> exp.Expression:
    """Return SQL for the value where the test holds, otherwise NULL: a CASE computes the value only there."""
    return exp.Case(ifs=[exp.If(this=test, true=value.copy())])


def keep_in_range(value: exp.Expression, kind: ColumnType, native: exp.DataType) -> exp.Expression:
    """Return SQL for a value of the type ``kind``; NULL where it lies outside the type's range (``RANGES``).

    ``native``: the engine's own type for values of this type.
    """
    return keep_if(is_within(value, *RANGES[kind], native), value)


def is_within(value: exp.Expression, low: str, high: str, native: exp.DataType) -> exp.Expression:
    """Return SQL for the test that a value lies between low and high, both included.

    ``native``: the engine's type, in which ``low`` and ``high`` are written. NaN does not pass:
    engines order it above all numbers.
    """
    ends = [exp.Cast(this=exp.Literal.string(end), to=native.copy()) for end in (low, high)]
    return exp.Between(this=exp.Paren(this=value.copy()), low=ends[0], high=ends[1])


def is_whole(value: exp.Expression, native: exp.DataType) -> exp.Expression:
    """Return SQL for the test that a double is a whole number that fits into 64 bits.

    ``native``: the engine's type of doubles.
    """
    ends = [
        exp.Cast(this=exp.Literal.string(end), to=native.copy()) for end in (f"-{BEYOND_INTEGERS}", BEYOND_INTEGERS)
    ]
    return exp.And(
        this=exp.And(
            this=exp.GTE(this=value.copy(), expression=ends[0]),
            expression=exp.LT(this=value.copy(), expression=ends[1]),
        ),
        expression=exp.EQ(this=value.copy(), expression=exp.Floor(this=value.copy())),
    )
