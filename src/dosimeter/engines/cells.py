"""How a CSV cell must be written to be a value of its type: one rule per type, the same on every engine.

Takes the tree of a text; gives the tree of its value. Engines' own casts take more than this, and each something else:
12.5 as the whole number 13, 24-01-05 as a day of the year 24, 12:30 as a moment of today.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from dosimeter.model import ColumnType


@dataclass(frozen=True, slots=True)
class CellForm:
    """A pattern for all of the text but blanks around it, and what texts of that form are called.

    ``end``: the mark from which on the text adds nothing to the value, and casts do not agree about it.
    """

    pattern: str
    words: str
    end: str | None = None


_DAY = "[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}"
_CLOCK = "([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.][0-9]+)?)?"
FORMS = {
    ColumnType.INTEGER: CellForm("[+-]?[0-9]+([.]0*)?", "whole numbers", end="."),
    ColumnType.DECIMAL: CellForm(
        "[+-]?(([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][+-]?[0-9]+)?|(?i:inf|infinity))|(?i:nan)", "numbers (1234.5)"
    ),
    ColumnType.BOOLEAN: CellForm("(?i:true|false|t|f|yes|no|y|n)|1|0", "true or false"),
    ColumnType.DATE: CellForm(_DAY, "days (2024-12-31)"),
    ColumnType.TIMESTAMP: CellForm(f"{_DAY}([ T]{_CLOCK}Z?)?", "moments in UTC (2024-12-31 23:59:59)", end="Z"),
}


def read_cell(text: exp.Expression, kind: ColumnType, native: exp.DataType) -> exp.Expression:
    """The value in the engine's own type; NULL where the text is not written as one, or is no value that exists."""
    form = FORMS[kind]
    bare: exp.Expression = exp.Trim(this=text.copy())
    if form.end is not None:
        one = exp.Literal.number(1)
        bare = exp.SplitPart(this=bare, delimiter=exp.Literal.string(form.end), part_index=one)
    value = exp.TryCast(this=bare, to=native.copy(), safe=True)
    return exp.Case(ifs=[exp.If(this=matches(exp.Trim(this=text.copy()), form.pattern), true=value)])


def matches(text: exp.Expression, pattern: str) -> exp.Expression:
    """Whether all of a text has the form. ``\\z``, because $ can stand before a last line break."""
    return exp.RegexpLike(this=text.copy(), expression=exp.Literal.string(f"^({pattern})\\z"))
