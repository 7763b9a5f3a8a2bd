"""Tell the controller what a draft cannot decide: columns that may be of another type, odd cells, a missing header.

Takes an engine and a draft; gives sentences, to be worded for the terminal, Python or the web. They quote no cell.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from sqlglot import exp

from dosimeter.engines import Engine
from dosimeter.inspection.draft import MOST_AT_ONCE, MOST_LISTED, count_each, count_if, describe_odd_cells, in_parts
from dosimeter.inspection.row_owners import read_row
from dosimeter.problems import Option, Piece, Problem
from dosimeter.schema import ColumnType, Schema
from dosimeter.sql import column_tree

_TIME = "( [0-9]{1,2}:[0-9]{2}(:[0-9]{2})?)?"
_MISSING = ("NA", "N/A", "n/a", "na", "null", "NULL", "None", "none", "nan", "NaN", "-", "?", ".")
_NUMBER = "[+-]?[0-9]+([.][0-9]+)?"
_YEARS = range(1900, 2101)
HEADERLESS = Problem(
    "The first line was read as the names of the columns and looks like a row of data, which would not count. If the "
    "file has no header line, write one above it."
)


def _days(mark: str) -> tuple[str, tuple[Piece, ...]]:
    pattern = f"^[0-9]{{1,2}}[{mark}][0-9]{{1,2}}[{mark}][0-9]{{4}}{_TIME}$"
    first, second = (Option("date_format", mark.join(order)) for order in (("%d", "%m", "%Y"), ("%m", "%d", "%Y")))
    return pattern, (
        "looks like days and is read as text. A CSV can be read with ",
        first,
        " or, where the month stands first, ",
        second,
        "; otherwise write them as 2024-12-31.",
    )


# Without backslashes, which engines read differently. Nine values in ten have to match; the first that matches counts.
_LOOKS: tuple[tuple[str, tuple[Piece, ...]], ...] = (
    (
        "^[+-]?[0-9]{1,3}(,[0-9]{3})+([.][0-9]+)?$",
        (
            "looks like numbers with commas and is read as text. If the commas stand between thousands, remove them; "
            "if they are decimal commas, a CSV can be read with ",
            Option("decimal", ","),
            ".",
        ),
    ),
    (
        "^[+-]?[0-9]{1,3}([. ]?[0-9]{3})*,[0-9]+$",
        (
            "looks like numbers with a decimal comma and is read as text, which cannot be summed. A CSV can be read "
            "with ",
            Option("decimal", ","),
            "; otherwise convert them to numbers.",
        ),
    ),
    _days("."),
    _days("/"),
    _days("-"),
    (
        "^[0-9]{1,2}[./-][0-9]{1,2}[./-][0-9]{2}$",
        ("looks like days with two digits for the year and is read as text. Write them as 2024-12-31.",),
    ),
    (
        "^[+-]?[0-9]+([.,][0-9]+)? ?%$",
        ("looks like percentages and is read as text, which cannot be summed. Remove the percent signs.",),
    ),
    (
        "^([$€£]|EUR|USD|GBP|CHF) ?[+-]?[0-9][0-9., ]*$|^[+-]?[0-9][0-9., ]* ?([$€£]|EUR|USD|GBP|CHF)$",
        ("looks like amounts of money and is read as text, which cannot be summed. Remove the currency signs.",),
    ),
)


def odd_remarks(engine: Engine, schema: Schema, odd: Mapping[str, int]) -> list[Problem]:
    """Return sentences about odd cells, timestamps that are drafted as text, and numbers without bounds.

    ``odd``: the number of odd cells by column.
    """
    sentences = [f"{name}: {describe_odd_cells(schema.columns[name].type, count)}." for name, count in odd.items()]
    sentences += [
        f"{name} looks like moments that are not in UTC and is drafted as text. Convert them to UTC "
        "(2024-12-31 23:59:59)."
        for name, kind in engine.describe().items()
        if kind is ColumnType.TIMESTAMP and schema.columns[name].type is not kind
    ]
    sentences += [
        f"{column.name}: no bounds are drafted, since its numbers are beyond what bounds can be (2^62) or too small "
        "for any resolution. It can be counted and not summed."
        for column in schema.columns.values()
        if column.type is ColumnType.DECIMAL and column.bounds is None and not column.identifying
    ]
    return [Problem(sentence) for sentence in sentences]


def unread_remarks(engine: Engine) -> list[Problem]:
    """Return one sentence that names the columns left out of the draft; none if every column could be read.

    A column is left out where no type of a schema corresponds to its type in the source.
    """
    unread = engine.unread_columns()
    if not unread:
        return []
    listed = ", ".join(f"{name} ({kind})" for name, kind in list(unread.items())[:MOST_LISTED])
    more = f" and {len(unread) - MOST_LISTED:,} more" if len(unread) > MOST_LISTED else ""
    return [
        Problem(
            f"Left out, since these types have no equivalent here: {listed}{more}. To use such a column, read a view "
            "or a file that casts it."
        )
    ]


def text_remarks(engine: Engine) -> list[Problem]:
    """Return a sentence for each column of text whose cells look like numbers, dates or another type."""
    names = [name for name, kind in engine.describe().items() if kind is ColumnType.TEXT]
    remarks = []
    for part in in_parts(names):
        row = read_row(engine, {label: tree for at, name in enumerate(part) for label, tree in _counts(at, name)})
        for at, name in enumerate(part):
            words = _what_it_looks_like(engine, name, at, row)
            if words is not None:
                remarks.append(Problem(f"{name} ", *words))
    return remarks


def _counts(at: int, name: str) -> list[tuple[str, exp.Expression]]:
    """Return the counts that are taken of the column ``name``: each is a pair of a label and an SQL expression.

    They count its cells with a value, matches of each pattern of ``_LOOKS``, numbers, numbers with leading zeros, and
    words for a missing value.
    ``at``: the column's index, which is part of the labels: present0, number0 ….
    """
    column = column_tree(name)
    tests = {f"look{at}_{place}": _matches(column, pattern) for place, (pattern, _) in enumerate(_LOOKS)}
    tests[f"number{at}"] = _matches(column, f"^{_NUMBER}$")
    tests[f"padded{at}"] = _matches(column, "^0[0-9]+$")
    tests[f"missing{at}"] = exp.In(this=column.copy(), expressions=[exp.Literal.string(word) for word in _MISSING])
    return [(f"present{at}", exp.Count(this=column)), *((label, count_if(test)) for label, test in tests.items())]


def _matches(column: exp.Expression, pattern: str) -> exp.Expression:
    return exp.RegexpLike(this=column.copy(), expression=exp.Literal.string(pattern))


def _what_it_looks_like(engine: Engine, name: str, at: int, row: Mapping[str, object]) -> tuple[Piece, ...] | None:
    def count(label: str) -> int:
        return int(str(row[label]))

    there = count(f"present{at}") - count(f"missing{at}")
    if there <= 0:
        return None
    for place, (_, words) in enumerate(_LOOKS):
        if there * 9 <= count(f"look{at}_{place}") * 10:
            return words
    if count(f"number{at}") != there:
        return None
    if count(f"padded{at}"):
        return ("holds codes with leading zeros: kept as text, since numbers would lose the zeros.",)
    if count(f"missing{at}"):  # otherwise it would have been read as numbers
        return (
            "looks like numbers, with missing values written as a word, and is read as text. A CSV can be read with ",
            Option("null", _find_missing_word(engine, name)),
            ".",
        )
    return None


def _find_missing_word(engine: Engine, name: str) -> str:
    """Return the word for a missing value (such as NA) that is most frequent in a column."""
    tests = [exp.EQ(this=column_tree(name), expression=exp.Literal.string(word)) for word in _MISSING]
    counts = count_each(engine, engine.relation(), tests)
    return _MISSING[counts.index(max(counts))]


def header_remarks(engine: Engine) -> list[Problem]:
    """Return a sentence if the table seems to lack a header, because the columns' names look like cells; else none.

    Names look like cells if they are numbers or dates above columns of numbers or dates, or if columns of text hold
    their own names as values. Names that are all years are names: a table may have a column per year.
    """
    kinds = engine.describe()
    typed = {name for name, kind in kinds.items() if kind not in (ColumnType.TEXT, ColumnType.BOOLEAN)}
    texts = [name for name, kind in kinds.items() if kind is ColumnType.TEXT]
    if any(not re.fullmatch(f"({_NUMBER}|[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}.*)(_[0-9]+)?", name) for name in typed):
        return []
    if typed and not all(name.isdecimal() and int(name) in _YEARS for name in typed):
        return [HEADERLESS]
    found = _count_own_names(engine, texts[:MOST_AT_ONCE])
    wanted = 1 if typed else max(2, len(texts[:MOST_AT_ONCE]) / 2)
    return [HEADERLESS] if found >= wanted else []


def _count_own_names(engine: Engine, names: list[str]) -> int:
    """Return how many of these columns hold their own name as a value."""
    tests = [exp.EQ(this=column_tree(name), expression=exp.Literal.string(name)) for name in names]
    return sum(1 for count in count_each(engine, engine.relation(), tests) if count)
