"""Draft a schema from the data, and compare a schema with the data. For the controller: both read private data.

A draft is never reviewed: its bounds and values came from the people in the table and have to be replaced by what
is publicly known before anything is released.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from dosimeter.columns import read_values
from dosimeter.engines.base import Engine
from dosimeter.errors import DataError
from dosimeter.expression import as_double, column_tree, is_infinite
from dosimeter.model import Column, ColumnType, Schema

if TYPE_CHECKING:
    import pyarrow as pa

MOST_VALUES = 100
LARGEST = Decimal(2) ** 62  # bounds beyond this are no bounds a schema takes
_RESOLUTIONS = ("1", "0.1", "0.01", "0.001", "0.0001", "0.00001", "0.000001")
COMMENT = """Drafted from the data. Everything below was read off private data and must not back a release as it is.
Replace bounds, values and individuals by what is publicly known (the form's limits, the official list, the
register's size), mark the columns that identify people, and then set reviewed = true."""


def draft_schema(engine: Engine, *, only: Collection[str] | None = None) -> Schema:
    """Types for every column; bounds and values for all, or for those in ``only``."""
    kinds = _describe(engine)
    wanted = [name for name in kinds if only is None or name.lower() in {word.lower() for word in only}]
    facts = _summarise(engine, {name: kinds[name] for name in wanted})
    columns = {
        name: _draft_column(engine, name, kind, facts) if name in wanted else _bare_column(name, kind)
        for name, kind in kinds.items()
    }
    return Schema(table=engine.default_table(), columns=columns, individuals=max(facts.rows, 1))


def bare_schema(engine: Engine) -> Schema:
    """Names and types alone, without reading the data."""
    columns = {name: _bare_column(name, kind) for name, kind in _describe(engine).items()}
    return Schema(table=engine.default_table(), columns=columns)


def _describe(engine: Engine) -> Mapping[str, ColumnType]:
    """The columns a schema can be made of: at least one, and no two that SQL does not tell apart."""
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
    return Column(name, kind, identifying=names_people(name))


def names_people(name: str) -> bool:
    """Whether a column's name says that it identifies people: name, e-mail, phone, …, as a word of it."""
    words = re.findall(r"[^\W\d_]+", re.sub(r"(?<=[^\W\dA-Z_])(?=[A-Z])", "_", name))
    return not _IDENTIFYING.isdisjoint(word.lower() for word in words)


_IDENTIFYING = frozenset(
    {"name", "names", "surname", "forename", "firstname", "lastname", "fullname"}
    | {"email", "mail", "phone", "telephone", "address", "ssn", "passport", "iban"}
)


def fetch_rows(engine: Engine, query: exp.Select, names: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """The rows of a query as Python values, its columns called by other names if given. Engines know days that
    Python does not."""
    table: pa.Table = engine.fetch(query)
    if names is not None:
        table = table.rename_columns(list(names))
    columns = [read_values(column) for column in table.columns]
    return [dict(zip(table.column_names, row, strict=True)) for row in zip(*columns, strict=True)]


@dataclass(frozen=True, slots=True)
class _Facts:
    rows: int
    values: Mapping[str, Any]


def _summarise(engine: Engine, kinds: Mapping[str, ColumnType]) -> _Facts:
    """Row count and each column's extremes and number of distinct values, in one scan."""
    items: list[exp.Expr] = [exp.alias_(exp.Count(this=exp.Star()), "rows")]
    for position, (name, kind) in enumerate(kinds.items()):
        column = column_tree(name)
        items.append(exp.alias_(exp.Count(this=exp.Distinct(expressions=[column])), f"distinct{position}"))
        items.append(exp.alias_(exp.Count(this=column.copy()), f"present{position}"))
        if kind in (ColumnType.BOOLEAN, ColumnType.TEXT):
            continue
        ranged: exp.Expression = column.copy()
        if kind is ColumnType.DECIMAL:
            finite = exp.Not(this=exp.Paren(this=is_infinite(column)))
            ranged = exp.Case(ifs=[exp.If(this=finite, true=ranged)])
        items.append(exp.alias_(exp.Min(this=ranged), f"low{position}"))
        items.append(exp.alias_(exp.Max(this=ranged.copy()), f"high{position}"))
        if kind is ColumnType.DECIMAL:
            items += [
                exp.alias_(count_if(misfit(column, step)), f"step{position}_{at}")
                for at, step in enumerate(_RESOLUTIONS)
            ]
    row = fetch_rows(engine, exp.select(*items).from_(engine.relation()))[0]
    facts: dict[str, Any] = {}
    for position, name in enumerate(kinds):
        steps = [step for at, step in enumerate(_RESOLUTIONS) if row.get(f"step{position}_{at}") == 0]
        facts[name] = {
            "distinct": row[f"distinct{position}"],
            "present": row[f"present{position}"],
            "low": row.get(f"low{position}"),
            "high": row.get(f"high{position}"),
            "step": steps[0] if steps else None,
        }
    return _Facts(int(row["rows"]), facts)


def misfit(column: exp.Expression, step: str) -> exp.Expression:
    """Whether a finite value is no multiple of the step, to a millionth of it or, for large ones, to a double's end."""
    value = as_double(column.copy())
    steps = exp.Div(this=value, expression=as_double(exp.Literal.number(step)), typed=False, safe=False)
    nearest = exp.Floor(this=exp.Add(this=exp.Paren(this=steps), expression=exp.Literal.number("0.5")))
    off = exp.Abs(this=exp.Sub(this=exp.Paren(this=steps.copy()), expression=nearest))
    grain = exp.Mul(this=exp.Abs(this=steps.copy()), expression=exp.Literal.number("1e-15"))
    allowed = exp.Add(this=exp.Literal.number("1e-6"), expression=grain)
    finite = exp.Not(this=exp.Paren(this=is_infinite(column)))
    return exp.And(this=finite, expression=exp.GT(this=off, expression=allowed))


def _draft_column(engine: Engine, name: str, kind: ColumnType, facts: _Facts) -> Column:
    found = facts.values[name]
    low, high, distinct, present = found["low"], found["high"], int(found["distinct"]), int(found["present"])
    if names_people(name):
        return Column(name, kind, identifying=True)  # its extremes and values would be somebody's
    match kind:
        case ColumnType.TEXT:
            if 0 < distinct <= MOST_VALUES and not tells_apart(distinct, present):
                return Column(name, ColumnType.CATEGORY, values=_values(engine, name))
            return Column(name, kind, identifying=True)
        case ColumnType.INTEGER if low is not None:
            unique = distinct == facts.rows > 1 and name.lower().endswith(("id", "key", "number", "no"))
            bounds = (Decimal(int(low)), Decimal(int(high)))
            return Column(name, kind, bounds=bounds if max(map(abs, bounds)) < LARGEST else None, identifying=unique)
        case ColumnType.DECIMAL if low is not None:
            return _draft_decimal(name, float(low), float(high), found["step"])
        case ColumnType.DATE if isinstance(low, date):
            return Column(name, kind, bounds=(low, high))
        case ColumnType.TIMESTAMP if isinstance(low, datetime):
            return Column(name, kind, bounds=(low.replace(tzinfo=None), high.replace(tzinfo=None)))
        case _:
            return Column(name, kind)


def tells_apart(distinct: int, present: int) -> bool:
    """Whether a column's values tell people apart, so that listing them would list people."""
    return (distinct > 10 and 2 * distinct >= present) or distinct == present > 1


def _draft_decimal(name: str, low: float, high: float, step: str | None) -> Column:
    if step is None:
        widest = max(abs(low), abs(high), 1e-9)
        resolution = Decimal(10) ** (math.floor(math.log10(widest)) - 6)
    else:
        resolution = Decimal(step)
    lower = Decimal(math.floor(low / float(resolution))) * resolution
    upper = Decimal(math.ceil(high / float(resolution))) * resolution
    if max(abs(lower), abs(upper)) >= LARGEST:
        return Column(name, ColumnType.DECIMAL)
    return Column(name, ColumnType.DECIMAL, bounds=(lower, upper), resolution=resolution)


def draft_remarks(engine: Engine) -> tuple[str, ...]:
    """What the controller should know about columns that were drafted as text and look like something else.

    Counts decide, and no cell is read.
    """
    names = [name for name, kind in engine.describe().items() if kind is ColumnType.TEXT]
    if not names:
        return ()
    items: list[exp.Expr] = []
    for at, name in enumerate(names):
        column = column_tree(name)
        items.append(exp.alias_(exp.Count(this=column), f"present{at}"))
        for place, (pattern, _) in enumerate(_LOOKS):
            test = exp.RegexpLike(this=column.copy(), expression=exp.Literal.string(pattern))
            items.append(exp.alias_(count_if(test), f"look{at}_{place}"))
    row = fetch_rows(engine, exp.select(*items).from_(engine.relation()))[0]
    return tuple(
        f"{name} {remark}"
        for at, name in enumerate(names)
        for place, (_, remark) in enumerate(_LOOKS)
        if 0 < int(row[f"present{at}"]) * 9 <= int(row[f"look{at}_{place}"]) * 10
    )


# Without backslashes, which engines read differently. Nine values in ten have to match.
_LOOKS = (
    (
        "^[+-]?[0-9]{1,3}([. ]?[0-9]{3})*,[0-9]+$",
        "looks like numbers with a decimal comma and is drafted as text. Convert the file to decimal points: text "
        "cannot be summed.",
    ),
    (
        "^[0-9]{1,2}[./][0-9]{1,2}[./][0-9]{4}$",
        "looks like dates and is drafted as text. Convert the file to the form 2021-12-31: otherwise day and month "
        "would have to be guessed.",
    ),
)


def _values(engine: Engine, name: str) -> tuple[str, ...]:
    query = exp.select(exp.alias_(column_tree(name), "v", quoted=True)).distinct().from_(engine.relation())
    table: pa.Table = engine.fetch(query)
    return tuple(sorted(str(value) for value in table.column(0).to_pylist() if value is not None))


def count_if(test: exp.Expression) -> exp.Expression:
    return exp.Count(this=exp.Case(ifs=[exp.If(this=test, true=exp.Literal.number(1))]))
