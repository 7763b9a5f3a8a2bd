"""Write the SQL of a summary: one UNION ALL, with a SELECT for the table and one for each column. Knows no data.

Of every column it asks as much as the schema allows: the schema's public facts alone decide what.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from enum import StrEnum

from dosimeter.errors import OptionError
from dosimeter.problems import Option
from dosimeter.schema import Column, ColumnType, Schema
from dosimeter.sql import quote_text, write_name

OUTPUTS = ("column_name", "value", "n", "mean", "q1", "q2", "q3")
QUARTILES = ("0.25", "0.5", "0.75")
MISSING = "(missing)"
MOST_COLUMNS = 255  # of one summary: with the SELECT for the table, as many as a query may have
_NUMBERS = (ColumnType.INTEGER, ColumnType.DECIMAL)
_DAYS = (ColumnType.DATE, ColumnType.TIMESTAMP)


class Asked(StrEnum):
    """What a summary asks about a column, besides how many rows have a value.

    NUMBERS: mean and quartiles. DAYS: quartiles. VALUES: how often each declared value occurs. The other three are
    counted alone, for the reason that they name.
    """

    NUMBERS = "numbers"
    DAYS = "days"
    VALUES = "values"
    IDENTIFYING = "identifies people"
    TEXT = "text without declared values"
    UNBOUNDED = "no declared range"


def find_asked(column: Column) -> Asked:
    """Return what a summary asks about a column. Whatever identifies people is only counted."""
    if column.identifying:
        return Asked.IDENTIFYING
    if column.values or column.type is ColumnType.BOOLEAN:
        return Asked.VALUES
    if column.type not in (*_NUMBERS, *_DAYS):
        return Asked.TEXT
    if column.bounds is None or (column.type is ColumnType.DECIMAL and column.resolution is None):
        return Asked.UNBOUNDED
    asked, ends = (Asked.NUMBERS, column.bounds) if column.type in _NUMBERS else (Asked.DAYS, find_days(column))
    return Asked.UNBOUNDED if ends[0] == ends[1] else asked


def find_days(column: Column) -> tuple[str, str]:
    """Return the first and the last day within the bounds of a column of dates or moments, such as 2024-12-31."""
    assert column.bounds is not None
    low, high = (bound.date() if isinstance(bound, datetime) else bound for bound in column.bounds)
    return str(low), str(high)


def choose_columns(schema: Schema, names: Sequence[str] | None) -> tuple[Column, ...]:
    """Return the columns that a summary is about: all but the unit, which every row that counts has.

    ``names``: only these columns; None for all. Raises OptionError if one of them does not exist or is asked for
    twice, or if there are none or too many.
    """
    if names is None:
        found = [column for column in schema.columns.values() if column.name != schema.unit]
    else:
        for name in names:
            if name not in schema.columns:
                raise OptionError(f"The schema of {schema.table} has no column {name or '(empty)'}.")
        if len(set(names)) < len(names):
            raise OptionError(Option("columns"), " names a column twice.")
        found = [schema.columns[name] for name in names]
    if not found:
        raise OptionError("There is no column to summarise.")
    if len(found) > MOST_COLUMNS:
        raise OptionError(
            f"A summary is about at most {MOST_COLUMNS} columns; {schema.table} has {len(found):,}. Choose some: ",
            Option("columns", text="a,b"), ".",
        )  # fmt: skip
    return tuple(found)


def write_summary(schema: Schema, columns: Sequence[str] | None = None) -> str:
    """Return the SQL of a summary. The same schema and columns always give the same text.

    Args:
        schema: the public facts of the table.
        columns: the columns to summarise; None for all.

    Raises:
        OptionError: a column does not exist, or there are too many.
    """
    table = write_name(schema.table)
    named = ["NULL", "NULL", "COUNT(*)", *["NULL"] * 4]
    total = ", ".join(f"{item} AS {name}" for item, name in zip(named, OUTPUTS, strict=True))
    parts = [f"SELECT {total} FROM {table}"]
    parts += [_write_part(column, table) for column in choose_columns(schema, columns)]
    return _unite(parts)


def is_summary(sql: str, schema: Schema) -> bool:
    """Return whether this is the SQL of the summary of all columns."""
    try:
        return sql == write_summary(schema)
    except OptionError:
        return False


def _write_part(column: Column, table: str) -> str:
    asked, name = find_asked(column), write_name(column.name)
    value, rows, group, numbers = "NULL", f"COUNT({name})", "", ["NULL"] * 4
    if asked is Asked.VALUES:
        value, rows = _write_value(column, name), "COUNT(*)"
        group = f" GROUP BY {value}"
    elif asked is Asked.NUMBERS:
        numbers = [f"AVG({name})", *_write_quartiles(name)]
    elif asked is Asked.DAYS:
        day = name if column.type is ColumnType.DATE else f"{name}::DATE"
        numbers = ["NULL", *_write_quartiles(f"{day} - DATE '{find_days(column)[0]}'")]
    items = [quote_text(column.name), value, rows, *numbers]
    return f"SELECT {', '.join(items)} FROM {table}{group}"


def _write_quartiles(operand: str) -> Iterator[str]:
    return (f"QUANTILE_DISC({operand}, {quartile})" for quartile in QUARTILES)


def _write_value(column: Column, name: str) -> str:
    text = name if column.type is ColumnType.CATEGORY else f"CAST({name} AS TEXT)"
    return f"COALESCE({text}, {quote_text(name_missing(column))})"


def name_missing(column: Column) -> str:
    """Return what the group of rows without a value is called: no declared value of the column is called the same."""
    name = MISSING
    while name in (column.values or ()):
        name = f"({name})"
    return name


def _unite(parts: Sequence[str]) -> str:
    """Return the UNION ALL of all parts, in their order. Many are united in brackets, so that they nest less deeply."""
    most = 16
    if len(parts) <= most:
        return "\nUNION ALL ".join(parts)
    groups = [parts[at : at + most] for at in range(0, len(parts), most)]
    return _unite([f"({_unite(group)})" for group in groups])
