"""What declared values tell of a GROUP BY (C8) and of a WHERE: from the schema alone, never from the data."""

from __future__ import annotations

import math
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import cast

from sqlglot import exp

from dosimeter.errors import QueryError
from dosimeter.planning.rows.grid import put_on_grid
from dosimeter.planning.rows.steps import Gridded
from dosimeter.problems import ASKING, Audience, Hint, Option, for_controller
from dosimeter.schema import Column, ColumnType, Scalar, Schema, toml_key
from dosimeter.sql import (
    OF_A_CLOCK,
    PART_VALUES,
    Checked,
    Type,
    clause_of,
    constant_tree,
    distinct_values,
    evaluate_row,
    find_date_part,
    gives_null,
    make_total,
    refusal,
)

MAX_POINTS = 1_000_000
MAX_LISTED = 10_000
_SECONDS = {"DAY": 86_400, "HOUR": 3_600, "MINUTE": 60, "SECOND": 1}


def group_values(source: exp.Expression, checked: Checked, schema: Schema) -> tuple[Scalar, ...]:
    """Return the declared groups of a GROUP BY expression: its declared values in order, then NULL if it is declared.

    NULL is declared if a column of the expression says ``nulls = true`` and the expression can be NULL. Raises
    QueryError if the schema declares no values. ``source``: the expression as written, for messages. ``checked``: the
    same expression, checked.
    """
    values = declared_values(source, checked, schema)
    return (*values, None) if _declares_null(source, checked, schema) else values


def _declares_null(source: exp.Expression, checked: Checked, schema: Schema) -> bool:
    bare = cast(exp.Expression, checked.tree.unnest())
    columns = {node.name: schema.columns[node.name] for node in bare.find_all(exp.Column)}
    if not any(column.nulls for column in columns.values()):
        return False
    if isinstance(bare, exp.Column) or math.prod(_count_values(each, bare) for each in columns.values()) > MAX_POINTS:
        return True  # an empty group more, at worst
    domains = {name: _domain(column, source, bare, null=column.nulls) for name, column in columns.items()}
    return gives_null(make_total(bare, schema), domains)


def declared_values(source: exp.Expression, checked: Checked, schema: Schema) -> tuple[Scalar, ...]:
    """Return the declared values of an expression, without NULL, in order.

    A plain column has its own declared values; the values of another expression follow from its columns' declared ones.
    Raises QueryError if there is no list of values, or if it is too long.
    """
    bare = cast(exp.Expression, checked.tree.unnest())
    part = _date_part_values(bare, schema)
    if part is not None:
        return part
    columns = {node.name: schema.columns[node.name] for node in bare.find_all(exp.Column)}
    counts = {name: _count_values(column, bare) for name, column in columns.items()}
    many = math.prod(counts.values()) > MAX_POINTS
    by_grid = checked.type is Type.NUMBER or (checked.type is Type.INTEGER and many)
    on_grid = _grid_values(checked, schema) if by_grid else None
    if many:
        listed = _listed_values(checked, schema) or on_grid
        if listed is not None:
            return _at_least_one(listed, source)
    if checked.type is Type.NUMBER and on_grid is None:
        raise refusal(
            source,
            f"GROUP BY {clause_of(source)} gives fractions, which have no fixed list of values. "
            "Use whole numbers: // instead of /, FLOOR, ROUND, or CASE.",
        )
    domains = {name: _domain(column, source, bare) for name, column in columns.items()}
    points = math.prod(counts.values())
    if points > MAX_POINTS:
        raise refusal(
            source,
            f"GROUP BY {clause_of(source)} would have to be evaluated over {int(points):,} combinations of declared "
            f"values; at most {MAX_POINTS:,} are supported. Narrow the bounds or group by fewer columns.",
        )
    if isinstance(bare, exp.Column):
        known = columns[bare.name].values or columns[bare.name].listed
        if known is not None:
            return known
    found = distinct_values(make_total(bare, schema), domains)
    return _at_least_one(tuple(_plain(value) for value in found), source)


def _plain(value: Scalar) -> Scalar:
    """Return a whole float such as 3.0 as the integer 3, since arithmetic is done in doubles; others unchanged."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _at_least_one(values: tuple[Scalar, ...], source: exp.Expression) -> tuple[Scalar, ...]:
    if not values:
        raise refusal(source, f"GROUP BY {clause_of(source)} is always NULL, so it has no groups.")
    return values


def _grid_values(checked: Checked, schema: Schema) -> tuple[Scalar, ...] | None:
    """Return a numeric expression's grid values within its bounds, in order; None if too many, or without a grid."""
    try:
        gridded = put_on_grid(checked.tree, schema, "GROUP BY")
    except QueryError:
        return None
    return list_steps(gridded.lower, gridded.upper, gridded.unit, gridded.stride)


def list_steps(lower: int, upper: int, unit: Fraction, stride: int) -> tuple[Scalar, ...] | None:
    """Return the values that a number on a grid can have, in order; None if there are too many.

    ``lower``, ``upper`` and ``stride``: its bounds, and how far apart its values are, in steps of the size ``unit``.
    """
    if (upper - lower) // (stride or 1) >= MAX_LISTED:
        return None
    return tuple(_plain(float(step * unit)) for step in range(lower, upper + 1, stride or 1))


def list_fewer(checked: Checked, value: Gridded, schema: Schema) -> tuple[Scalar, ...] | None:
    """Return the values of a computed number, if it skips steps of its grid, as FLOOR(x / 10) * 10 does; else None.

    ``value``: the same number on its grid.
    """
    bare = checked.tree.unnest()
    if isinstance(bare, exp.Column):
        return schema.columns[bare.name].listed
    listed = _listed_values(checked, schema)
    if listed is not None:
        return tuple(sorted(cast("tuple[float, ...]", listed)))
    skips = value.stride > 1 or value.unit.numerator > 1
    return list_steps(value.lower, value.upper, value.unit, value.stride) if skips else None


def _listed_values(checked: Checked, schema: Schema) -> tuple[Scalar, ...] | None:
    """Return what a condition, or a CASE with only constants in its branches, can give; None for other expressions."""
    if checked.type is Type.BOOLEAN:
        return (False, True)
    tree = checked.tree.unnest()
    if not isinstance(tree, exp.Case):
        return None
    results = [branch.args["true"] for branch in tree.args["ifs"]] + [tree.args.get("default") or exp.Null()]
    if any(result.find(exp.Column) is not None for result in results):
        return None
    found = dict.fromkeys(evaluate_row(make_total(result, schema), {}) for result in results)
    return tuple(_plain(value) for value in found if value is not None)


# ---------------------------------------------------------------- domains of columns


def _steps(column: Column) -> tuple[int, int, Fraction] | None:
    """Return the lower and the upper bound of a column in grid steps, and the size of one step; None without a grid."""
    if column.bounds is None or (column.type is ColumnType.DECIMAL and column.resolution is None):
        return None
    unit = Fraction(column.resolution) if column.resolution is not None else Fraction(1)
    low, high = (int(Fraction(bound) / unit) for bound in cast(tuple[Decimal, Decimal], column.bounds))
    return low, high, unit


def _count_values(column: Column, tree: exp.Expression) -> float:
    """Return how many values a column is declared to have, counting NULL; infinity if the schema sets no limit.

    ``tree``: the expression that reads the column. If it is EXTRACT(hour FROM t), all timestamps t in one hour of
    one day count once; if it reads whole timestamps, infinity is returned.
    """
    if column.listed is not None:
        return len(column.listed) + 1
    match column.type:
        case ColumnType.BOOLEAN:
            return 3
        case ColumnType.CATEGORY if column.values is not None:
            return len(column.values) + 1
        case ColumnType.INTEGER | ColumnType.DECIMAL if (steps := _steps(column)) is not None:
            return steps[1] - steps[0] + 2
        case ColumnType.DATE if column.bounds is not None:
            first, last = cast(tuple[date, date], column.bounds)
            return (last - first).days + 2
        case ColumnType.TIMESTAMP if column.bounds is not None and (unit := _finest_unit(tree, column.name)):
            return _count_moments(column, unit) + 1
        case _:
            return math.inf


def _domain(column: Column, source: exp.Expression, tree: exp.Expression, *, null: bool = True) -> str:
    """Return a query, which reads no table, that lists a column's declared values, and NULL too if ``null``.

    ``tree``: the expression that reads them; timestamps that it does not distinguish are listed once. Raises QueryError
    if the values are not declared or too many. ``source``: the GROUP BY expression as written, for the message.
    """
    count = _count_values(column, tree)
    if math.isinf(count):
        raise _undeclared(column, source)
    if count > MAX_POINTS:
        raise refusal(
            source,
            f"GROUP BY {clause_of(source)}: {column.name} has {int(count) - 1:,} declared values; at most "
            f"{MAX_POINTS:,} can be listed.",
        )
    if column.listed is not None:
        known = [constant_tree(value).sql(dialect="duckdb") for value in (*column.listed, *([None] if null else []))]
        return f"VALUES {', '.join(f'({each})' for each in known)}"
    numbered = f"SELECT {{}} FROM range(0, {int(count) - 1}) AS r(n){' UNION ALL SELECT NULL' if null else ''}"
    match column.type:
        case ColumnType.BOOLEAN:
            return f"VALUES (FALSE), (TRUE){', (NULL)' if null else ''}"
        case ColumnType.CATEGORY:
            texts = [exp.Literal.string(text).sql(dialect="duckdb") for text in column.values or ()]
            return f"VALUES {', '.join(f'({text})' for text in [*texts, *(['NULL'] if null else [])])}"
        case ColumnType.DATE:
            first = constant_tree(cast(tuple[date, date], column.bounds)[0]).sql(dialect="duckdb")
            return numbered.format(f"{first} + CAST(n AS INTEGER)")
        case ColumnType.TIMESTAMP:
            unit = cast(str, _finest_unit(tree, column.name))
            start = constant_tree(_floor(cast(datetime, cast(tuple[date, date], column.bounds)[0]), unit))
            return numbered.format(f"{start.sql(dialect='duckdb')} + n * INTERVAL '1' {unit}")
        case _:
            low, _, step = cast(tuple[int, int, Fraction], _steps(column))
            if column.type is ColumnType.INTEGER:
                return numbered.format(f"n + ({low})")
            scaled = f"CAST((n + ({low})) * {step.numerator} AS DOUBLE)"
            return numbered.format(f"{scaled} / {step.denominator}")


def _finest_unit(tree: exp.Expression, name: str) -> str | None:
    """Return the finest unit of time (DAY, HOUR …) of a timestamp column that matters to the tree.

    None if the tree reads the whole timestamp. ``name``: the column.
    """
    found = "DAY"
    for column in (node for node in tree.find_all(exp.Column) if node.name == name):
        parent = column.parent
        match parent:
            case exp.TimestampTrunc():
                unit = str(parent.args["unit"].name)
            case exp.Extract():
                unit = str(parent.this.name)
            case exp.Cast() if parent.to.this is exp.DataType.Type.DATE:
                unit = "DAY"
            case _:
                return None
        unit = unit if unit in OF_A_CLOCK else "DAY"
        found = min(found, unit, key=lambda each: _SECONDS[each])
    return found


def _floor(moment: datetime, unit: str) -> datetime:
    clock = timedelta(hours=moment.hour, minutes=moment.minute, seconds=moment.second, microseconds=moment.microsecond)
    return moment - clock % timedelta(seconds=_SECONDS[unit])


def _count_moments(column: Column, unit: str) -> int:
    first, last = (_floor(cast(datetime, bound), unit) for bound in cast(tuple[date, date], column.bounds))
    return int((last - first) / timedelta(seconds=_SECONDS[unit])) + 1


def require_shareable(source: exp.Expression, checked: Checked, schema: Schema) -> None:
    """Refuse groups by a column that identifies people, or by the unit: each group would be a person (H1)."""
    for node in checked.tree.find_all(exp.Column):
        if schema.columns[node.name].identifying or node.name == schema.unit:
            raise _identifies(schema.columns[node.name], source)


def _identifies(column: Column, source: exp.Expression) -> QueryError:
    return refusal(
        source,
        f"GROUP BY {clause_of(source)}: {column.name} identifies people, so it cannot be a group. "
        "Group by something that many people share.",
    )


def _undeclared(column: Column, source: exp.Expression) -> QueryError:
    if column.identifying:
        return _identifies(column, source)
    wanted = {
        ColumnType.INTEGER: "bounds = [low, high]",
        ColumnType.DECIMAL: "bounds = [low, high] and a resolution",
        ColumnType.DATE: "bounds = [first day, last day]",
        ColumnType.CATEGORY: "values = […]",
        ColumnType.TEXT: 'type = "category" and values = […]',
    }.get(column.type)
    observed = Hint(
        "Or show groups of the data with enough people: ",
        Option("groups", "thresholded"),
        " and ",
        Option("group_delta", text="D"),
        "; for study, ",
        Option("groups", "observed"),
        ".",
        audience=Audience.CONTROLLER,
        surfaces=ASKING,
    )
    return QueryError(
        f"GROUP BY {clause_of(source)}: {column.name} ({column.type}) has no declared list of values.",
        for_controller(f"Add {wanted} to [columns.{toml_key(column.name)}] in the schema.")
        if wanted
        else Hint("Group by a condition, a CASE, DATE_TRUNC or a date part."),
        observed,
        clause=clause_of(source),
        undeclared=True,
    )


def _date_part_values(tree: exp.Expression, schema: Schema) -> tuple[Scalar, ...] | None:
    """Return the values that a date part, such as EXTRACT(month FROM d), can have; None for other expressions.

    Years come from the bounds of a plain column, and None is returned without such bounds; the values of other parts
    are fixed.
    """
    part = find_date_part(tree)
    if part is None:
        return None
    known = PART_VALUES[part.this.name]
    if known is not None:
        return tuple(range(known[0], known[1] + 1))
    subject = part.expression
    bounds = schema.columns[subject.name].bounds if isinstance(subject, exp.Column) else None
    if bounds is None:
        return None
    years = [int(evaluate_row(tree, {subject.name: bound})) for bound in bounds]
    return tuple(range(years[0], years[1] + 1))


def expect_share(where: exp.Expression | None, schema: Schema) -> Fraction | None:
    """Return the share of rows that meet a WHERE if all declared values are equally frequent.

    None where declared values alone do not tell, as of a comparison with a number.
    """
    match where:
        case None:
            return Fraction(1)
        case exp.Paren():
            return expect_share(where.this, schema)
        case exp.Not():
            inner = expect_share(where.this, schema)
            return None if inner is None else 1 - inner
        case exp.And():
            both = expect_share(where.this, schema), expect_share(where.expression, schema)
            return None if both[0] is None or both[1] is None else both[0] * both[1]
        case exp.Column() as column:
            chosen = 1
        case exp.EQ(this=exp.Column() as column) | exp.NEQ(this=exp.Column() as column):
            chosen = 1
        case exp.In(this=exp.Column() as column):
            chosen = len(where.expressions)
        case _:
            return None
    declared = schema.columns.get(column.name)
    if declared is None:
        return None
    values = 2 if declared.type is ColumnType.BOOLEAN else len(declared.values or ())
    if not 0 < chosen < values:
        return None
    return 1 - Fraction(1, values) if isinstance(where, exp.NEQ) else Fraction(chosen, values)
