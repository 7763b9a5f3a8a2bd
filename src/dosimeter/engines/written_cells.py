"""Read CSV cells that are not written in the standard way: with decimal commas, or dates such as 31.12.2024.

Takes trees of text; gives trees of the same text in the standard way, which ``cells.py`` reads: 1234.5, 2024-12-31. So
there is one rule per type and per way of writing, the same on every engine.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Self

from sqlglot import exp

from dosimeter.engines.cells import CLOCK, matches, read_cell, without_blanks
from dosimeter.engines.engine import ReadOptions
from dosimeter.options import check_option
from dosimeter.schema import ColumnType

INFERRED = (ColumnType.BOOLEAN, ColumnType.INTEGER, ColumnType.DECIMAL, ColumnType.DATE, ColumnType.TIMESTAMP)
# Without a schema a type must be clearer, as in DuckDB: y and 1 are not taken for truth values, nor 12.0 and 007 for
# whole numbers.
_DIGITS = "(0|[1-9][0-9]*)"
_INFERRED_FORM = {
    ColumnType.BOOLEAN: "(?i:true|false|t|f|yes|no)",
    ColumnType.INTEGER: f" *-?{_DIGITS} *",
    ColumnType.DECIMAL: f"-?({_DIGITS}([.][0-9]*)?|[.][0-9]+)([eE][+-]?[0-9]+)?|(?i:nan)",
}
_GROUPING = ". \u00a0\u202f"  # what stands between thousands where the decimal mark is a comma
_COMMA_NUMBER = f"[+-]?([0-9]+|[0-9]{{1,3}}([{_GROUPING}][0-9]{{3}})+)?(,[0-9]*)?([eE][+-]?[0-9]+)?"
_NUMBERS = (ColumnType.INTEGER, ColumnType.DECIMAL)
_TIMES = (ColumnType.DATE, ColumnType.TIMESTAMP)


@dataclass(frozen=True, slots=True)
class CellWriting:
    """The way in which the cells of a CSV are written.

    ``comma``: whether the decimal mark is a comma. ``days``: a regular expression for a date, and which of its
    parenthesised parts (1, 2, 3) are the year, the month and the day, in this order; None for dates in the standard
    way.
    """

    comma: bool = False
    days: tuple[str, tuple[int, int, int]] | None = None

    @classmethod
    def of(cls, options: ReadOptions) -> Self:
        """Return how cells are written according to these options. Refuse an option with an unknown value."""
        check_option("decimal", options.decimal, optional=True)
        check_option("date_format", options.date_format, optional=True)
        days = None if options.date_format is None else _read_format(options.date_format)
        return cls(options.decimal == ",", days)

    @property
    def is_standard(self) -> bool:
        """Return whether cells are written as ``cells.py`` reads them."""
        return not self.comma and self.days is None

    def standardize(self, text: exp.Expression, kind: ColumnType) -> exp.Expression:
        """Return SQL for a cell's text in the standard way, so that it can be read as a value of this type.

        With a decimal comma, points and blanks may only stand between thousands: 1.234 is read as 1234, and 12.5 is no
        number. Dates may be in the standard way too.
        """
        if kind in _NUMBERS and self.comma:
            return _without_comma(text)
        if kind in _TIMES and self.days is not None:
            return _with_standard_day(text, *self.days)
        return text


def _without_comma(text: exp.Expression) -> exp.Expression:
    bare: exp.Expression = without_blanks(text)
    for mark in _GROUPING:
        bare = exp.Replace(this=bare, expression=exp.Literal.string(mark), replacement=exp.Literal.string(""))
    bare = exp.Replace(this=bare, expression=exp.Literal.string(","), replacement=exp.Literal.string("."))
    return exp.Case(ifs=[exp.If(this=matches(without_blanks(text), _COMMA_NUMBER), true=bare)])


def _with_standard_day(text: exp.Expression, day: str, places: tuple[int, int, int]) -> exp.Expression:
    bare = without_blanks(text)
    whole = f"^{day}([ T]{CLOCK})?\\z"

    def part(place: int) -> exp.Expression:
        return exp.RegexpExtract(
            this=bare.copy(), expression=exp.Literal.string(whole), group=exp.Literal.number(place)
        )

    year, month, number = (part(place) for place in places)
    dash = exp.Literal.string("-")
    written = exp.Concat(expressions=[year, dash, month, dash.copy(), number, part(4)], safe=False, coalesce=False)
    test = exp.RegexpLike(this=bare.copy(), expression=exp.Literal.string(whole))
    return exp.Case(ifs=[exp.If(this=test, true=written)], default=text.copy())


def _read_format(text: str) -> tuple[str, tuple[int, int, int]]:
    """Return a regular expression for a date in a format such as %d.%m.%Y, and where its year, month and day are.

    That is (3, 2, 1) for this format: the third parenthesised part is the year, the second the month. Days and months
    may have one digit, except beside another part without a separator (%Y%m%d).
    """
    parts = re.findall(r"%[dmY]|[^%]", re.sub(r"[ T]%H:%M(:%S)?$", "", text))
    pattern, order = "", []
    for at, part in enumerate(parts):
        if not part.startswith("%"):
            pattern += f"[{part}]"
            continue
        order.append(part)
        crowded = any(0 <= beside < len(parts) and parts[beside].startswith("%") for beside in (at - 1, at + 1))
        pattern += "([0-9]{4})" if part == "%Y" else "([0-9]{2})" if crowded else "([0-9]{1,2})"
    return pattern, (order.index("%Y") + 1, order.index("%m") + 1, order.index("%d") + 1)


def inference_query(
    cells: Mapping[str, exp.Expression],
    source: exp.Expression,
    writing: CellWriting,
    native: Callable[[ColumnType], exp.DataType],
) -> exp.Select:
    """Return the query that counts the cells of each column, and how many of them can be read as each type.

    ``cells``: SQL for the text of each column. ``native``: returns the engine's own type for a column type.
    """
    items = []
    for at, cell in enumerate(cells.values()):
        items.append(exp.alias_(exp.Count(this=cell), f"c{at}"))
        for kind in INFERRED:
            text = writing.standardize(cell, kind)
            value = read_cell(text, kind, native(kind))
            if kind is ColumnType.DECIMAL:
                value = exp.Literal.number(1)  # the form is enough: NaN is odd, and still a sign of a number
            if kind in _INFERRED_FORM:
                value = exp.Case(ifs=[exp.If(this=matches(text, _INFERRED_FORM[kind]), true=value)])
            items.append(exp.alias_(exp.Count(this=value), f"c{at}_{kind}"))
    return exp.select(*items).from_(source)


def infer_types(names: Mapping[str, object], row: Mapping[str, int]) -> dict[str, ColumnType]:
    """Return for each column the first type of INFERRED that all its cells can be read as; otherwise, text.

    A column without cells is text. ``names``: the columns that ``inference_query`` counted. ``row``: the only row of
    that query's result.
    """
    kinds = {}
    for at, name in enumerate(names):
        there = row[f"c{at}"]
        kinds[name] = next((kind for kind in INFERRED if there and row[f"c{at}_{kind}"] == there), ColumnType.TEXT)
    return kinds
