"""Row-wise arithmetic that cannot fail, whatever the data hold, and means the same on every engine.

An engine that stops on an overflow would tell an analyst, without noise, whether some row overflowed: a condition can
be written so that only one person's row does. So outside aggregates every sum, product and quotient is computed in
doubles; values too extreme for sensible arithmetic count as NULL (beyond 10^100) or 0 (nearer to 0 than 10^-100); and
an expression whose result could exceed the range of doubles is refused, by the SQL and the schema alone.

Functions that engines compute differently are one node each in rebuilt trees. ``_WRITTEN`` says how each is written for
engines. A tree in which nothing can fail is called *total*.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import ClassVar, cast

from sqlglot import exp

from dosimeter.errors import QueryError
from dosimeter.schema import ColumnType, Schema
from dosimeter.sql.trees import as_bigint, as_double, case, double, plain_quotient, wrap
from dosimeter.sql.types import MAX_NODES, count_nodes


class Log10(exp.Expression, exp.Func):
    """The logarithm to the base 10."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}


class HalfEven(exp.Expression, exp.Func):
    """The nearest whole number; halves go to the even one. This is how DuckDB casts doubles to integers."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}


class UnitNumber(exp.Expression, exp.Func):
    """The number of the day, month … (``unit``) in which a date or timestamp lies, counted from a fixed origin.

    The difference of two such numbers is how many times a new day, month … begins between the two dates.
    """

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "unit": True}


_HUGE, _TINY = "1e100", "1e-100"
_LARGEST, _SMALLEST = 1e300, 1e-300
_INTEGER_SPAN = (1.0, 2.0**63)
_LARGEST_EXPONENT = "230"  # e^230 is below 1e100
_BELOW_HALF = "0.49999999999999994"  # the largest double below a half: adding it and taking FLOOR rounds halves up
_DONE = "total"  # marks nodes that are rewritten already, so that a second call changes nothing


def make_total(tree: exp.Expression, schema: Schema, *, in_place: bool = False) -> exp.Expression:
    """Return the same expression in arithmetic that never makes a query fail. Refuse one that could exceed a double.

    ``in_place``: change the tree itself, which nobody else holds, and not a copy.
    """
    result = exp.Paren(this=tree if in_place else tree.copy())  # so that the whole tree can be replaced, too
    found = cast(list[exp.Expression], list(result.find_all(*_CALCULATED, *_WRITTEN)))
    nodes = [node for node in found if not node.meta.get(_DONE)]
    for node in nodes:
        if _is_signed_literal(node) or isinstance(node, UnitNumber):
            continue
        _span(node, schema)
        for name in ("this", "expression"):
            operand = node.args.get(name)
            if isinstance(operand, exp.Expression):
                node.set(name, wrap(_as_number(operand, schema)))
    for node in nodes:
        node.meta[_DONE] = True
    for node in reversed(nodes):  # inner ones first
        write = _WRITTEN.get(type(node))
        if write is not None:
            node.replace(mark_safe(write(node)))
    return cast(exp.Expression, result.this.pop())


def mark_safe(tree: exp.Expression) -> exp.Expression:
    """Return the tree with every node marked as unable to fail, so that ``make_total`` leaves all of it alone.

    Refuse a tree of too many nodes.
    """
    if count_nodes(tree) > MAX_NODES:
        raise QueryError("The expression is nested too deeply. Simplify it.")
    for node in tree.walk():
        node.meta[_DONE] = True
    return tree


def mark_done(node: exp.Expression) -> None:
    """Mark one node so that ``make_total`` leaves it alone, such as a date plus an interval, which is no arithmetic."""
    node.meta[_DONE] = True


def _is_signed_literal(node: exp.Expression) -> bool:
    return isinstance(node, exp.Neg) and isinstance(node.this.unnest(), exp.Literal)


def _as_number(operand: exp.Expression, schema: Schema) -> exp.Expression:
    """Return an operand as a double. Values of decimal columns become NULL above 10^100 in size, 0 below 10^-100."""
    bare = cast(exp.Expression, operand.unnest())
    if (
        isinstance(bare, (*_CALCULATED, *_WRITTEN))
        and not isinstance(bare, UnitNumber)
        and not _is_signed_literal(bare)
    ):
        return operand
    match bare:
        case exp.Cast() if bare.to.this == exp.DataType.Type.DOUBLE and not isinstance(bare.this, exp.Literal):
            return _as_number(bare.this, schema)
        case exp.Cast() if bare.to.this == exp.DataType.Type.DOUBLE:
            return bare
        case exp.Case():
            branches = [(branch.this, _as_number(branch.args["true"], schema)) for branch in bare.args["ifs"]]
            default = bare.args.get("default")
            return case(*branches, default=None if default is None else _as_number(default, schema))
        case exp.Coalesce() | exp.Greatest() | exp.Least():
            extra = {} if isinstance(bare, exp.Coalesce) else {"ignore_nulls": True}
            parts = [_as_number(part, schema) for part in bare.expressions]
            return type(bare)(this=_as_number(bare.this, schema), expressions=parts, **extra)
        case exp.Nullif():
            return exp.Nullif(this=_as_number(bare.this, schema), expression=bare.expression)
        case exp.Floor() | exp.Ceil():
            return type(bare)(this=_as_number(bare.this, schema))
        case exp.Column() if schema.columns[bare.name].type is ColumnType.DECIMAL:
            return _within_range(bare)
    return as_double(operand if not isinstance(bare, exp.Column) else bare.copy())


def _within_range(column: exp.Expression) -> exp.Expression:
    value = as_double(column.copy())
    size = exp.Abs(this=value.copy())
    huge = exp.GT(this=size, expression=double(_HUGE))
    tiny = exp.LT(this=size.copy(), expression=double(_TINY))
    return mark_safe(case((huge, exp.Null()), (tiny, double("0")), default=value))


# ---------------------------------------------------------------- functions, written for every engine


def _write_quotient(node: exp.Expression) -> exp.Expression:
    """Write a // b in doubles, rounded towards 0; NULL where b is 0. Whole numbers below 2^53 divide exactly."""
    divisor = exp.Nullif(this=wrap(node.expression.copy()), expression=double("0"))
    return _towards_zero(plain_quotient(wrap(node.this.copy()), divisor))


def _write_remainder(node: exp.Expression) -> exp.Expression:
    """Write a % b, with the sign of a."""
    multiple = exp.Mul(this=wrap(node.expression.copy()), expression=_write_quotient(node))
    return exp.Paren(this=exp.Sub(this=wrap(node.this.copy()), expression=multiple))


def _towards_zero(value: exp.Expression) -> exp.Expression:
    negative = exp.LT(this=wrap(value), expression=double("0"))
    return case((negative, exp.Ceil(this=value.copy())), default=exp.Floor(this=value.copy()))


def _write_truncation(node: exp.Expression) -> exp.Expression:
    return _towards_zero(node.this.copy())


def _write_rounding(node: exp.Expression) -> exp.Expression:
    """Write ROUND, halves away from 0, by the same operations as DuckDB."""
    places = round_places(node)
    power = double(f"1e{abs(places)}")
    scaling, unscaling = (exp.Mul, exp.Div) if places >= 0 else (exp.Div, exp.Mul)
    value = wrap(node.this.copy())
    scaled = value if places == 0 else exp.Paren(this=_of_two(scaling, value, power))
    size = exp.Abs(this=scaled)
    rounded = exp.Mul(
        this=as_double(exp.Sign(this=scaled.copy())),
        expression=exp.Floor(this=exp.Add(this=size, expression=double(_BELOW_HALF))),
    )
    return exp.Paren(this=rounded if places == 0 else _of_two(unscaling, exp.Paren(this=rounded), power.copy()))


def _of_two(kind: type[exp.Expression], left: exp.Expression, right: exp.Expression) -> exp.Expression:
    extra = {"typed": False, "safe": False} if kind is exp.Div else {}
    return kind(this=left, expression=right, **extra)


def round_places(node: exp.Expression) -> int:
    """Return to how many decimal places a rebuilt ROUND rounds; negative for tens, hundreds …."""
    decimals = node.args["decimals"]
    return -int(decimals.this.name) if isinstance(decimals, exp.Neg) else int(decimals.name)


def _write_half_even(node: exp.Expression) -> exp.Expression:
    return exp.Anonymous(this="ROUND_EVEN", expressions=[node.this.copy(), exp.Literal.number(0)])


def _write_root(node: exp.Expression) -> exp.Expression:
    return _only_where(exp.GTE, node.this, exp.Sqrt(this=node.this.copy()))


def _write_natural_logarithm(node: exp.Expression) -> exp.Expression:
    return _only_where(exp.GT, node.this, exp.Ln(this=node.this.copy()))


def _write_logarithm(node: exp.Expression) -> exp.Expression:
    return _only_where(exp.GT, node.this, exp.Anonymous(this="LOG10", expressions=[node.this.copy()]))


def _only_where(test: type[exp.Expression], operand: exp.Expression, value: exp.Expression) -> exp.Expression:
    """Return SQL for ``value`` where the operand passes the test, NULL elsewhere. ``test``: such as GT, operand > 0."""
    return case((test(this=wrap(operand.copy()), expression=double("0")), value))


def _write_exponential(node: exp.Expression) -> exp.Expression:
    most = double(_LARGEST_EXPONENT)
    low = exp.LT(this=wrap(node.this.copy()), expression=exp.Neg(this=most))
    fits = exp.LTE(this=wrap(node.this.copy()), expression=most.copy())
    return case((low, double("0")), (fits, exp.Exp(this=node.this.copy())))


def _write_unit_number(node: exp.Expression) -> exp.Expression:
    moment, unit = node.this, node.args["unit"].name

    def part(name: str) -> exp.Expression:
        return extract(name, moment.copy())

    match unit:
        case "YEAR":
            return part("YEAR")
        case "QUARTER":
            return exp.Paren(this=_scaled(part("YEAR"), 4, part("QUARTER")))
        case "MONTH":
            return exp.Paren(this=_scaled(part("YEAR"), 12, part("MONTH")))
    day = exp.Cast(this=moment.copy(), to=exp.DataType.build("DATE"))
    start = exp.Cast(this=exp.Literal.string("1970-01-01"), to=exp.DataType.build("DATE"))
    number = as_bigint(exp.DateDiff(this=day, expression=start, unit=exp.Var(this="DAY")))
    for finer, times in (("HOUR", 24), ("MINUTE", 60), ("SECOND", 60)):
        if unit == "DAY":
            break
        number = exp.Paren(this=_scaled(number, times, part(finer)))
        if unit == finer:
            break
    return number


def _scaled(number: exp.Expression, times: int, added: exp.Expression) -> exp.Expression:
    return exp.Add(this=exp.Mul(this=number, expression=exp.Literal.number(times)), expression=added)


def extract(part: str, moment: exp.Expression) -> exp.Expression:
    """Return SQL for a part of a date or timestamp, such as YEAR, as a whole number.

    Seconds are rounded down, since some engines give fractions of them.
    """
    found: exp.Expression = exp.Extract(this=exp.Var(this=part), expression=moment)
    return as_bigint(exp.Floor(this=found) if part == "SECOND" else found)


def find_date_part(tree: exp.Expression) -> exp.Extract | None:
    """Return the EXTRACT if a rebuilt tree is nothing but one part of a date; None for any other tree."""
    if not isinstance(tree, exp.Cast):
        return None
    inner = tree.this.this if isinstance(tree.this, exp.Floor) else tree.this
    return inner if isinstance(inner, exp.Extract) else None


_WRITTEN: dict[type[exp.Expression], Callable[[exp.Expression], exp.Expression]] = {
    exp.IntDiv: _write_quotient,
    exp.Mod: _write_remainder,
    exp.Trunc: _write_truncation,
    exp.Round: _write_rounding,
    HalfEven: _write_half_even,
    exp.Sqrt: _write_root,
    exp.Ln: _write_natural_logarithm,
    Log10: _write_logarithm,
    exp.Exp: _write_exponential,
    UnitNumber: _write_unit_number,
}
_CALCULATED = (exp.Add, exp.Sub, exp.Mul, exp.Neg, exp.Abs, exp.Div)


# ---------------------------------------------------------------- the range of doubles


def _span(tree: exp.Expression, schema: Schema) -> tuple[float, float]:
    """Return a lower and an upper bound on the absolute value of a tree where it is not 0.

    Refuse a tree if doubles cannot hold these bounds.
    """
    low, high = _measure_span(tree, schema)
    if high > _LARGEST or low < _SMALLEST:
        text = tree.sql(dialect="duckdb")[:200]
        raise QueryError(f"{text} can leave the range of numbers. Use smaller factors, or fewer of them.", clause=text)
    return low, high


def _measure_span(tree: exp.Expression, schema: Schema) -> tuple[float, float]:
    match tree:
        case exp.Column():
            decimal = schema.columns[tree.name].type is ColumnType.DECIMAL
            return (float(_TINY), float(_HUGE)) if decimal else _INTEGER_SPAN
        case exp.Literal() if not tree.is_string:
            size = abs(float(tree.this))
            return (size, size) if size else (1.0, 1.0)
        case exp.Add() | exp.Sub():
            (low, high), (other_low, other_high) = _span(tree.this, schema), _span(tree.expression, schema)
            return min(low, other_low) * 2.0**-53, high + other_high  # what is left of two nearly equal numbers
        case exp.Mul():
            (low, high), (other_low, other_high) = _span(tree.this, schema), _span(tree.expression, schema)
            return low * other_low, high * other_high
        case exp.Div() | exp.IntDiv() | exp.Mod():
            (low, high), (other_low, other_high) = _span(tree.this, schema), _span(tree.expression, schema)
            return low / other_high, max(high, high / other_low)
        case exp.Round():
            low, high = _span(tree.this, schema)
            power = 10.0 ** abs(round_places(tree))
            return min(low, 1.0) / power, max(high, 1.0) * power
        case exp.Sqrt():
            low, high = _span(tree.this, schema)
            return math.sqrt(low), math.sqrt(high)
        case exp.Ln() | Log10():
            _span(tree.this, schema)
            return 1e-17, 1e3
        case exp.Exp():
            _span(tree.this, schema)
            return float(_TINY), float(_HUGE)
        case exp.Floor() | exp.Ceil() | exp.Trunc() | HalfEven():
            return 1.0, _span(tree.this, schema)[1] + 1.0
        case exp.Case():
            results = [branch.args["true"] for branch in tree.args["ifs"]]
            default = tree.args.get("default")
            return _union([*results, *([default] if default is not None else [])], schema)
        case exp.Coalesce() | exp.Greatest() | exp.Least():
            return _union([tree.this, *tree.expressions], schema)
        case exp.Cast() if find_date_part(tree) is not None:
            return 1.0, 1e6
        case exp.Paren() | exp.Neg() | exp.Abs() | exp.Cast() | exp.Nullif() | exp.Sign():
            return _span(tree.this, schema)
        case exp.Null():
            return 1.0, 1.0
        case _:
            return _INTEGER_SPAN


def _union(parts: list[exp.Expression], schema: Schema) -> tuple[float, float]:
    spans = [_span(part, schema) for part in parts]
    return min(low for low, _ in spans), max(high for _, high in spans)
