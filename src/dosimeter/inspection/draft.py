"""Draft a schema from the data. For the controller: a draft reads private data.

A draft is never reviewed: its bounds and values came from the people in the table and have to be replaced by what
is publicly known before anything is released.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import TYPE_CHECKING, Any, cast

from sqlglot import exp

from dosimeter.engines import Engine
from dosimeter.errors import DataError
from dosimeter.inspection.row_owners import (
    MOST_ROWS_EACH,
    ColumnCounts,
    is_key,
    list_counts,
    names_people,
    names_person_key,
    names_things,
    read_row,
)
from dosimeter.schema import Column, ColumnType, Schema
from dosimeter.sql import as_double, column_tree

if TYPE_CHECKING:
    import pyarrow as pa

MOST_VALUES = 100
MOST_LISTED = 20
LONGEST_VALUE = 100  # letters: longer text is prose, and no name of a group
MOST_AT_ONCE = 25  # columns in one query: what an engine needs for many distinct counts grows faster than their number
LARGEST = Decimal(2) ** 62  # a schema takes no bounds beyond this
LARGEST_WHOLE_FLOAT = 2**53  # beyond it every float is a whole number
DIGITS = 6  # a grid is fine when the largest number is this many powers of ten above a step
MOST_PLACES = 9  # how many powers of ten down an exact grid is looked for
MOST_DIGITS = 14  # S8 distinguishes as many steps
FINEST_EXPONENT = -30  # the finest that a schema takes
_DOUBLE, _SINGLE = "1e-14", "1.2e-7"  # relative precision of floats: 2^-53 and 2^-24, with a margin for sums
COMMENT = """Drafted from the data. Everything below was read off private data and must not back a release as it is.
Replace bounds, values and individuals by what is publicly known (the form's limits, the official list, the
register's size), mark the columns that identify people, and then set reviewed = true. What nobody knows can
be found by spending a little ε."""


def draft_schema(engine: Engine, *, only: Collection[str] | None = None) -> Schema:
    """Return a schema drafted from the data, with every row as an individual.

    Every column has its type. Bounds and values are read for every column, or only for those named in ``only``.
    """
    return draft_with_facts(engine, only=only)[0]


def draft_with_facts(engine: Engine, *, only: Collection[str] | None = None) -> tuple[Schema, TableFacts]:
    """Return the schema as ``draft_schema`` drafts it, and the facts that were read off the data for it."""
    kinds = _describe(engine)
    wanted = [name for name in kinds if only is None or name.lower() in {word.lower() for word in only}]
    facts = read_facts(engine, {name: kinds[name] for name in wanted})
    texts = [name for name in wanted if kinds[name] is ColumnType.TEXT and is_listed(name, facts.columns[name])]
    values = _read_values(engine, texts)
    columns = {
        name: _draft_column(name, kind, facts, values) if name in wanted else _bare_column(name, kind)
        for name, kind in kinds.items()
    }
    return Schema(table=engine.default_table(), columns=columns, individuals=max(facts.rows, 1)), facts


def bare_schema(engine: Engine) -> Schema:
    """Return a schema with the columns' names and types alone, without reading the data."""
    columns = {name: _bare_column(name, kind) for name, kind in _describe(engine).items()}
    return Schema(table=engine.default_table(), columns=columns)


def _describe(engine: Engine) -> Mapping[str, ColumnType]:
    """Return the type of each column. Refuse a table without columns, or with two whose names differ only in case."""
    kinds = engine.describe()
    if not kinds:
        raise DataError(
            f"{engine.default_table()} has no column whose type has an equivalent here. Read a view that casts them."
        )
    seen: dict[str, str] = {}
    for name in kinds:
        other = seen.setdefault(name.lower(), name)
        if other != name:
            raise DataError(
                f"The columns {other} and {name} differ only in upper and lower case, which SQL does not tell apart. "
                "Read a view that renames one, or give a schema with one of them."
            )
    return kinds


def _bare_column(name: str, kind: ColumnType) -> Column:
    return Column(name, kind, identifying=names_people(name) or names_person_key(name))


@dataclass(frozen=True, slots=True)
class ColumnFacts(ColumnCounts):
    """Facts read off one column.

    ``low`` and ``high``: the smallest and the largest value; None for text and for TRUE and FALSE. ``is_whole``:
    whether the numbers are floats that are all whole. ``places``: the exponent of the largest power of ten, at most 1,
    of which all floats are multiples, or nearly so; None if none was found. It is −2 for 3.25 and 0.5: both are
    multiples of 0.01 = 10^−2, but not both of 0.1.
    """

    low: Any = None
    high: Any = None
    is_whole: bool = False
    places: int | None = None


@dataclass(frozen=True, slots=True)
class TableFacts:
    rows: int
    columns: Mapping[str, ColumnFacts]


def read_facts(engine: Engine, kinds: Mapping[str, ColumnType]) -> TableFacts:
    """Read the number of rows and the facts of these columns, 25 columns per scan; floats need one or two scans more.

    Odd cells are NULL (N4), so none of the facts includes them.
    """
    rows, facts = 0, dict[str, ColumnFacts]()
    for part in list(in_parts(kinds)) or [[]]:
        rows, found = _read_extremes(engine, {name: kinds[name] for name in part})
        facts |= found
    decimals = [name for name, kind in kinds.items() if kind is ColumnType.DECIMAL and facts[name].low is not None]
    for tolerance, digits in ((_DOUBLE, MOST_PLACES), (_SINGLE, DIGITS)):
        unplaced = {name: facts[name] for name in decimals if facts[name].places is None}
        for part in in_parts(unplaced):
            facts |= _find_places(engine, {name: unplaced[name] for name in part}, tolerance, digits)
    return TableFacts(rows, facts)


def in_parts(names: Collection[str]) -> Iterator[list[str]]:
    listed = list(names)
    return (listed[at : at + MOST_AT_ONCE] for at in range(0, len(listed), MOST_AT_ONCE))


def _read_extremes(engine: Engine, kinds: Mapping[str, ColumnType]) -> tuple[int, dict[str, ColumnFacts]]:
    """Return the number of rows, and each column's facts except ``is_whole`` and ``places``, in one scan."""
    trees = list_counts(kinds)
    for at, (name, kind) in enumerate(kinds.items()):
        if kind not in (ColumnType.BOOLEAN, ColumnType.TEXT):
            trees |= {f"low{at}": exp.Min(this=column_tree(name)), f"high{at}": exp.Max(this=column_tree(name))}
    row = read_row(engine, trees)
    facts = {
        name: ColumnFacts(row[f"present{at}"], row[f"distinct{at}"], row.get(f"low{at}"), row.get(f"high{at}"))
        for at, name in enumerate(kinds)
    }
    return row["rows"], facts


# ---------------------------------------------------------------- grids


def _find_places(
    engine: Engine, columns: Mapping[str, ColumnFacts], tolerance: str, digits: int
) -> dict[str, ColumnFacts]:
    """Return the facts of each column for which a grid is found, with ``places`` and ``is_whole`` set.

    A column's grid is the largest power of ten, at most 1, of which all its numbers are multiples, or nearly so.
    ``tolerance``: how far a number may lie from a multiple, as a share of the number. ``digits``: how many digits after
    the first digit of the largest number a grid may keep: with 3, the finest grid that is tried for 25.75 is 0.01.
    (``_exponents`` has the exceptions.)
    """
    tried = {name: exponents for name, facts in columns.items() if (exponents := _exponents(facts, digits))}
    if not tried:
        return {}
    levels = {
        f"level{at}": exp.Max(this=_level(column_tree(name), exponents, tolerance))
        for at, (name, exponents) in enumerate(tried.items())
    }
    found = {}
    for (name, exponents), level in zip(tried.items(), read_row(engine, levels).values(), strict=True):
        if level == 0:
            found[name] = replace(columns[name], places=exponents[0], is_whole=True)
        elif level <= len(exponents):
            found[name] = replace(columns[name], places=exponents[level - 1])
    return found


def _exponents(facts: ColumnFacts, digits: int) -> range:
    """Return the exponents of the powers of ten to try as a column's grid: 0, −1, −2 to try 1, 0.1 and 0.01.

    Let 10^s be the place of the first digit of the largest absolute value: s is 2 for 250, and −2 for 0.03.

    - The first exponent is 0, or s if s is negative.
    - The last exponent is s − ``digits``, or lower, so that there are at least three.
    - But exponents below s − 14 are left out, except for the first one.
    - All exponents below −30, a schema's finest resolution, are left out. So the range can be empty.
    """
    size = _size(float(facts.low), float(facts.high))
    coarsest = min(size, 0)
    finest = max(min(size - digits, coarsest - 2), size - MOST_DIGITS)
    return range(coarsest, max(min(finest, coarsest), FINEST_EXPONENT) - 1, -1)


def _size(low: float, high: float) -> int:
    """Return s, where 10^s is the place of the first digit of the larger absolute value: 2 for 250, −2 for 0.03.

    Return 0 if both numbers are zero.
    """
    widest = max(abs(low), abs(high))
    return math.floor(math.log10(widest)) if widest > 0.0 else 0


def _level(column: exp.Expression, exponents: Sequence[int], tolerance: str) -> exp.Expression:
    """Return an SQL expression that says which is the first of several powers of ten of which a number is a multiple.

    It gives the position of the power's exponent in ``exponents``, counted from 1: with 0, −1 and −2, it gives 3 for
    3.25, which is a multiple of 0.01 and not of 0.1. But a whole number gives 0, whatever ``exponents`` are. A number
    that is a multiple of none of the powers gives the last position plus 1. NULL gives NULL. ``tolerance``: as for
    ``_is_multiple``.
    """
    value = as_double(column)
    branches = [
        exp.If(this=exp.Is(this=column.copy(), expression=exp.Null()), true=exp.Null()),
        exp.If(this=exp.EQ(this=value, expression=exp.Floor(this=value.copy())), true=exp.Literal.number(0)),
    ]
    for at, exponent in enumerate(exponents, start=1):
        step = format(Decimal(10) ** exponent, "f")
        branches.append(exp.If(this=_is_multiple(column, step, tolerance), true=exp.Literal.number(at)))
    return exp.Case(ifs=branches, default=exp.Literal.number(len(exponents) + 1))


def _is_multiple(column: exp.Expression, step: str, tolerance: str) -> exp.Expression:
    """Return an SQL condition: whether a number is a multiple of ``step``, or nearly so.

    Rounding it to a multiple (S8) may move it by at most ``tolerance``, a share of the number itself.
    """
    steps = exp.Div(
        this=as_double(column.copy()), expression=as_double(exp.Literal.number(step)), typed=False, safe=False
    )
    nearest = exp.Floor(this=exp.Add(this=exp.Paren(this=steps), expression=exp.Literal.number("0.5")))
    off = exp.Abs(this=exp.Sub(this=exp.Paren(this=steps.copy()), expression=nearest))
    allowed = exp.Mul(this=exp.Abs(this=steps.copy()), expression=as_double(exp.Literal.number(tolerance)))
    return exp.LTE(this=off, expression=allowed)


def is_rounded(column: Column) -> exp.Expression | None:
    """Return an SQL condition: whether rounding a value to its column's grid (S8) changes it noticeably.

    A change that is within the precision of a single-precision float does not count. Return None if the column has no
    resolution, or one so fine that no change matters: a million steps or more from 0 to the bound that is larger in
    absolute value.
    """
    if column.resolution is None or _is_fine(column):
        return None
    fits = _is_multiple(column_tree(column.name), format(column.resolution, "f"), _SINGLE)
    return exp.Not(this=exp.Paren(this=fits))


def _is_fine(column: Column) -> bool:
    if column.resolution is None or column.bounds is None:
        return False
    low, high = cast(tuple[Decimal, Decimal], column.bounds)
    return bool(max(abs(low), abs(high)) >= column.resolution * 10**DIGITS)


# ---------------------------------------------------------------- columns


def _draft_column(name: str, kind: ColumnType, facts: TableFacts, values: Mapping[str, tuple[str, ...]]) -> Column:
    """Return the draft of a column. ``values``: by name, the values of each text column to be drafted as a category."""
    found = facts.columns[name]
    low, high = found.low, found.high
    if kind is ColumnType.DECIMAL and found.is_whole and max(abs(low), abs(high)) < LARGEST_WHOLE_FLOAT:
        kind = ColumnType.INTEGER
    if names_people(name) and name not in values:
        return Column(name, kind, identifying=True)  # its extremes and values would identify somebody
    match kind:
        case ColumnType.TEXT:
            if name in values:
                return Column(name, ColumnType.CATEGORY, values=values[name])
            return Column(name, kind, identifying=found.present <= MOST_ROWS_EACH * found.distinct)
        case ColumnType.INTEGER if low is not None:
            unique = found.distinct == facts.rows > 1 and (is_key(name) or name.lower().endswith("no"))
            bounds = (Decimal(int(low)), Decimal(int(high)))
            return Column(name, kind, bounds=bounds if max(map(abs, bounds)) < LARGEST else None, identifying=unique)
        case ColumnType.DECIMAL if low is not None:
            return draft_decimal(name, float(low), float(high), found.places)
        case ColumnType.DATE if isinstance(low, date):
            return Column(name, kind, bounds=(low, high))
        case ColumnType.TIMESTAMP if isinstance(low, datetime):
            return Column(name, kind, bounds=(low.replace(tzinfo=None), high.replace(tzinfo=None)))
        case _:
            return Column(name, kind)


def is_listed(name: str, found: ColumnFacts) -> bool:
    """Return whether a draft lists the values of a column of text.

    It does if they are few, and neither their counts nor the column's name suggest that they identify people.
    """
    few = 0 < found.distinct <= MOST_VALUES and not tells_apart(found.distinct, found.present)
    return few and (not names_people(name) or names_things(name))


def tells_apart(distinct: int, present: int) -> bool:
    """Return whether a column has so many distinct values that they tell people apart: to list them would list people.

    ``present``: the number of cells that hold a value.
    """
    return (distinct > 10 and 2 * distinct >= present) or distinct == present > 1


def draft_decimal(name: str, low: float, high: float, places: int | None) -> Column:
    """Return a decimal column with bounds on the grid of 10^``places``, and this grid as its resolution.

    If ``places`` is None, because no grid was found, take one with a million steps or more up to the largest absolute
    value. The column has neither bounds nor resolution if they would be too large or too fine for a schema.
    """
    size = _size(low, high)
    exponent = min(size - DIGITS, max(size - MOST_DIGITS, 0)) if places is None else places
    if exponent < FINEST_EXPONENT:
        return Column(name, ColumnType.DECIMAL)
    resolution = Decimal(10) ** exponent
    lower = (_written(low) / resolution).to_integral_value(ROUND_FLOOR) * resolution
    upper = (_written(high) / resolution).to_integral_value(ROUND_CEILING) * resolution
    if max(abs(lower), abs(upper)) >= LARGEST:
        return Column(name, ColumnType.DECIMAL)
    return Column(name, ColumnType.DECIMAL, bounds=(lower + 0, upper + 0), resolution=resolution)


def _written(number: float) -> Decimal:
    """Return the decimal number that a float is written as: 0.7, and not 0.69999999999999996."""
    return Decimal(repr(number))


# ---------------------------------------------------------------- types under which cells would be lost


def impose_draft(engine: Engine, schema: Schema, names: Sequence[str] | None = None) -> tuple[Schema, dict[str, int]]:
    """Make the engine read by a draft, and change the type of a column where another type leaves fewer cells odd.

    Returns the schema by which the engine reads now, and the number of odd cells of each column that has any.
    ``names``: the columns to check, by default all.
    """
    schema = _read_lone_letters(engine, schema, list(schema.columns) if names is None else names)
    engine.impose(schema)
    odd = _count_odd(engine, list(schema.columns) if names is None else names)
    for name, count in list(odd.items()):
        other = _other_type(engine, schema.columns[name], count)
        if other is None:
            continue
        changed = replace(schema, columns={**schema.columns, name: other})
        try:
            engine.impose(changed)
        except DataError:  # a typed source, which cannot be read as this
            continue
        left = engine.count_odd_cells([name])[name]
        if left < count:
            schema, odd[name] = changed, left
        if left < count and other.type is ColumnType.TEXT:
            facts = read_facts(engine, {name: other.type})
            values = _read_values(engine, [name] if is_listed(name, facts.columns[name]) else [])
            drafted = _draft_column(name, other.type, facts, values)
            schema = replace(changed, columns={**changed.columns, name: drafted})
        engine.impose(schema)
    return schema, {name: count for name, count in odd.items() if count}


def _read_lone_letters(engine: Engine, schema: Schema, names: Sequence[str]) -> Schema:
    """Return the schema with TRUE/FALSE columns as categories where a CSV holds one letter alone, such as f.

    Both t and f, or the word false, speak of a flag; an f alone as well of a sex. From then on the engine reads by
    another schema.
    """
    flags = {name: kind for name in names if (kind := schema.columns[name].type) is ColumnType.BOOLEAN}
    lone = [name for name, facts in read_facts(engine, flags).columns.items() if facts.distinct == 1] if flags else []
    if not lone:
        return schema
    as_text = {name: Column(name, ColumnType.TEXT) for name in lone}
    try:
        engine.impose(replace(schema, columns={**schema.columns, **as_text}))
    except DataError:  # a typed source: its flags are flags
        return schema
    letters = {name: values for name, values in _read_values(engine, lone).items() if max(map(len, values)) == 1}
    found = {name: Column(name, ColumnType.CATEGORY, values=values) for name, values in letters.items()}
    return replace(schema, columns={**schema.columns, **found})


def _count_odd(engine: Engine, names: Sequence[str]) -> dict[str, int]:
    found = [engine.count_odd_cells(part) for part in in_parts(names)]
    return {name: count for part in found for name, count in part.items() if count}


def _other_type(engine: Engine, column: Column, odd: int) -> Column | None:
    """Return the column with another type to try, under which fewer cells may be odd; None if there is none to try.

    ``odd``: how many of its cells are odd under its present type.
    """
    if column.type is ColumnType.INTEGER and engine.describe().get(column.name) is ColumnType.DECIMAL:
        step = None if column.bounds is None else Decimal(1)  # 1e5 is a number, but whole numbers are not written so
        return replace(column, type=ColumnType.DECIMAL, resolution=step)
    if odd <= read_row(engine, {"kept": exp.Count(this=column_tree(column.name))})["kept"]:
        return None
    match column.type:
        case ColumnType.INTEGER:  # most are beyond 64 bits
            return replace(column, type=ColumnType.DECIMAL, bounds=None)
        case ColumnType.DATE | ColumnType.TIMESTAMP | ColumnType.BOOLEAN:
            return replace(column, type=ColumnType.TEXT, bounds=None)
        case _:
            return None


_ODD = {
    ColumnType.INTEGER: "no whole numbers of 64 bits",
    ColumnType.DECIMAL: "no finite numbers",
    ColumnType.BOOLEAN: "neither true nor false",
    ColumnType.DATE: "no days of the years 1 to 9999",
    ColumnType.TIMESTAMP: "no moments of the years 1 to 9999 in UTC",
}


def describe_odd_cells(kind: ColumnType, count: int) -> str:
    """Say in words that ``count`` cells of a column of this type are odd, and that they count as NULL (N4)."""
    cells = "1 cell is" if count == 1 else f"{count:,} cells are"
    return f"{cells} odd ({_ODD.get(kind, 'no text')}) and {'counts' if count == 1 else 'count'} as NULL"


def _read_values(engine: Engine, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the distinct values of these columns of text, sorted, 25 columns per scan.

    Columns with a value of more than 100 letters are left out.
    """
    found: dict[str, set[str]] = {name: set() for name in names}
    for part in in_parts(names):
        at = exp.column("place", table="places")
        cell = exp.Case(
            this=at, ifs=[exp.If(this=exp.Literal.number(p), true=column_tree(name)) for p, name in enumerate(part)]
        )
        places: exp.Query = exp.select(exp.alias_(exp.Literal.number(0), "place"))
        for place in range(1, len(part)):
            places = exp.union(
                places, exp.select(exp.alias_(exp.Literal.number(place), "place")), distinct=False, copy=False
            )
        query = exp.select(at.copy(), exp.alias_(cell, "held")).distinct().from_(engine.relation())
        table: pa.Table = engine.fetch(query.join(places.subquery("places"), join_type="cross"))
        for place, value in zip(table.column(0).to_pylist(), table.column(1).to_pylist(), strict=True):
            if value is not None:
                found[part[int(place)]].add(str(value))
    short = {name: values for name, values in found.items() if max(map(len, values), default=0) <= LONGEST_VALUE}
    return {name: tuple(sorted(values)) for name, values in short.items()}


def count_each(engine: Engine, relation: exp.Expression, tests: Sequence[exp.Expression]) -> list[int]:
    """Return in how many rows each of these tests is met."""
    if not tests:
        return []
    return list(read_row(engine, {f"c{at}": count_if(test) for at, test in enumerate(tests)}, relation).values())


def count_if(test: exp.Expression) -> exp.Expression:
    return exp.Count(this=exp.Case(ifs=[exp.If(this=test, true=exp.Literal.number(1))]))
