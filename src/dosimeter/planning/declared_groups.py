"""The declared values of a GROUP BY expression (C8): from the schema alone, never from the data."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from itertools import product
from typing import cast

from sqlglot import exp

from dosimeter.errors import QueryError
from dosimeter.problems import ASKING, Audience, Hint, Option, for_controller
from dosimeter.schema import Column, ColumnType, Scalar, Schema
from dosimeter.sql import Checked, Type, clause_of, compile_tree, evaluate, refusal

MAX_POINTS = 1_000_000


def declared_values(source: exp.Expression, checked: Checked, schema: Schema) -> tuple[Scalar, ...]:
    """Return a plain column's declared values in order, or what the expression gives over its columns' domains."""
    if isinstance(checked.tree, exp.Column):
        return _domain(schema.columns[checked.tree.name], source, checked.tree)
    if checked.type is Type.NUMBER:
        raise QueryError(
            f"GROUP BY {clause_of(source)} gives fractions, which have no fixed list of values. "
            "Use whole numbers: // instead of /, or CASE.",
            clause=clause_of(source),
        )
    part = _date_part_values(checked.tree, schema)
    if part is not None:
        return part
    names = list(dict.fromkeys(node.name for node in checked.tree.find_all(exp.Column)))
    listed = _listed_values(checked)
    if listed is not None and math.prod(_count_values(schema.columns[name]) for name in names) > MAX_POINTS:
        return _at_least_one(listed, source)
    domains = [(None, *_domain(schema.columns[name], source, checked.tree)) for name in names]
    points = math.prod(len(domain) for domain in domains)
    if points > MAX_POINTS:
        raise QueryError(
            f"GROUP BY {clause_of(source)} would have to be evaluated over {points:,} combinations of declared values; "
            f"at most {MAX_POINTS:,} are supported. Narrow the bounds or group by fewer columns.",
            clause=clause_of(source),
        )
    value_of = compile_tree(checked.tree)
    found = {value_of(dict(zip(names, point, strict=True))) for point in product(*domains)}
    values = sorted(value for value in found if value is not None)
    # // and % are computed in doubles, and give whole numbers.
    whole = checked.type is Type.INTEGER
    return _at_least_one(tuple(int(value) if whole else value for value in values), source)


def _at_least_one(values: tuple[Scalar, ...], source: exp.Expression) -> tuple[Scalar, ...]:
    if not values:
        raise QueryError(f"GROUP BY {clause_of(source)} is always NULL, so it has no groups.", clause=clause_of(source))
    return values


def _listed_values(checked: Checked) -> tuple[Scalar, ...] | None:
    """Return what a condition, or a CASE with only constants in its branches, can give; None for other expressions."""
    if checked.type is Type.BOOLEAN:
        return (False, True)
    tree = checked.tree.unnest()
    if not isinstance(tree, exp.Case):
        return None
    results = [branch.args["true"] for branch in tree.args["ifs"]] + [tree.args.get("default") or exp.Null()]
    if any(result.find(exp.Column) is not None for result in results):
        return None
    found = dict.fromkeys(evaluate(result, {}) for result in results)
    return tuple(value for value in found if value is not None)


def _count_values(column: Column) -> float:
    """Return how many values a column is declared to have, including NULL; infinity when there is no list."""
    match column.type:
        case ColumnType.BOOLEAN:
            return 3
        case ColumnType.CATEGORY if column.values is not None:
            return len(column.values) + 1
        case ColumnType.INTEGER if column.bounds is not None:
            low, high = cast(tuple[Decimal, Decimal], column.bounds)
            return int(high - low) + 2
        case ColumnType.DATE if column.bounds is not None:
            first, last = cast(tuple[date, date], column.bounds)
            return (last - first).days + 2
        case _:
            return math.inf


def _domain(column: Column, source: exp.Expression, tree: exp.Expression) -> tuple[Scalar, ...]:
    match column.type:
        case ColumnType.CATEGORY if column.values is not None:
            return column.values
        case ColumnType.BOOLEAN:
            return (False, True)
        case ColumnType.INTEGER if column.bounds is not None:
            low, high = (int(bound) for bound in cast(tuple[Decimal, Decimal], column.bounds))
            _limit(high - low + 1, column, source)
            return tuple(range(low, high + 1))
        case ColumnType.DATE if column.bounds is not None:
            first, last = cast(tuple[date, date], column.bounds)
            _limit((last - first).days + 1, column, source)
            return tuple(_days(first, last))
        case ColumnType.TIMESTAMP if column.bounds is not None and _is_read_by_day(tree, column.name):
            first, last = (cast(datetime, bound).date() for bound in column.bounds)
            _limit((last - first).days + 1, column, source)
            return tuple(datetime.combine(day, time()) for day in _days(first, last))
    if column.identifying:
        raise QueryError(
            f"GROUP BY {clause_of(source)}: {column.name} identifies people, so it cannot be a group. "
            "Group by something that many people share.",
            clause=clause_of(source),
        )
    wanted = {
        ColumnType.INTEGER: "bounds = [low, high]",
        ColumnType.DATE: "bounds = [first day, last day]",
        ColumnType.CATEGORY: "values = […]",
        ColumnType.TEXT: 'type = "category" and values = […]',
    }.get(column.type)
    observed = Hint("Or look with ", Option("groups", "observed"), ".", audience=Audience.CONTROLLER, surfaces=ASKING)
    raise refusal(
        source,
        f"GROUP BY {clause_of(source)}: {column.name} ({column.type}) has no declared list of values.",
        for_controller(f"Add {wanted} to [columns.{column.name}] in the schema.")
        if wanted
        else Hint("Group by a condition, a CASE or a date part."),
        observed,
    )


def _is_read_by_day(tree: exp.Expression, name: str) -> bool:
    """Return whether the time of day cannot matter: the column stands only inside DATE_TRUNC and date parts."""
    parents = [node.parent for node in tree.find_all(exp.Column) if node.name == name]
    return all(
        isinstance(parent, exp.TimestampTrunc) or (isinstance(parent, exp.Extract) and parent.this.name != "HOUR")
        for parent in parents
    )


_PART_VALUES = {"QUARTER": (1, 4), "MONTH": (1, 12), "DAY": (1, 31), "HOUR": (0, 23), "ISODOW": (1, 7)}


def _date_part_values(tree: exp.Expression, schema: Schema) -> tuple[Scalar, ...] | None:
    """Return the values of a date part, None for other expressions. Only the years depend on the bounds."""
    if not (isinstance(tree, exp.Cast) and isinstance(tree.this, exp.Extract)):
        return None
    part = str(tree.this.this.name)
    if part in _PART_VALUES:
        low, high = _PART_VALUES[part]
        return tuple(range(low, high + 1))
    subject = tree.this.expression
    bounds = schema.columns[subject.name].bounds if isinstance(subject, exp.Column) else None
    if bounds is None:
        return None
    first, last = cast(tuple[date, date], bounds)
    return tuple(range(first.year, last.year + 1))


def _limit(size: int, column: Column, source: exp.Expression) -> None:
    if size > MAX_POINTS:
        raise QueryError(
            f"GROUP BY {clause_of(source)}: {column.name} has {size:,} declared values; at most {MAX_POINTS:,} "
            "can be listed.",
            clause=clause_of(source),
        )


def _days(first: date, last: date) -> Iterator[date]:
    for offset in range((last - first).days + 1):
        yield first + timedelta(days=offset)
