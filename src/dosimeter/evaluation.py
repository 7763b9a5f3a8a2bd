"""Evaluate trees of our own making on plain Python values, with SQL's three-valued logic.

Used where no engine may be asked: the declared values of a GROUP BY expression (C8), and the post-processing of
a released answer (arithmetic over aggregates, HAVING, ORDER BY). A tree that ``expression`` or ``plan`` did not
write is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from typing import Any

from sqlglot import exp

Row = Mapping[str, Any]

_ARITHMETIC: dict[type[exp.Expression], Callable[[Any, Any], Any]] = {
    exp.Add: lambda a, b: a + b,
    exp.Sub: lambda a, b: a - b,
    exp.Mul: lambda a, b: a * b,
    exp.Div: lambda a, b: None if b == 0 else a / b,
    exp.Mod: lambda a, b: None if b == 0 else (abs(a) % abs(b)) * (-1 if a < 0 else 1),  # the sign of the dividend
}
_COMPARISON: dict[type[exp.Expression], Callable[[Any, Any], bool]] = {
    exp.EQ: lambda a, b: a == b,
    exp.NEQ: lambda a, b: a != b,
    exp.LT: lambda a, b: a < b,
    exp.LTE: lambda a, b: a <= b,
    exp.GT: lambda a, b: a > b,
    exp.GTE: lambda a, b: a >= b,
}


def evaluate(tree: exp.Expression, row: Row) -> Any:
    """The value of the tree for one row; None is SQL's NULL."""
    match tree:
        case exp.Paren():
            return evaluate(tree.this, row)
        case exp.Column():
            return row[tree.name]
        case exp.Literal():
            return _literal(tree)
        case exp.Boolean():
            return bool(tree.this)
        case exp.Null():
            return None
        case exp.And() | exp.Or():
            return _connect(tree, row)
        case exp.Not():
            value = evaluate(tree.this, row)
            return None if value is None else not value
        case exp.Is():
            return evaluate(tree.this, row) is None
        case exp.Case():
            for branch in tree.args["ifs"]:
                if evaluate(branch.this, row) is True:
                    return evaluate(branch.args["true"], row)
            default = tree.args.get("default")
            return None if default is None else evaluate(default, row)
        case exp.Coalesce():
            parts = (evaluate(part, row) for part in (tree.this, *tree.expressions))
            return next((part for part in parts if part is not None), None)
        case exp.Least() | exp.Greatest():
            known = [v for v in (evaluate(p, row) for p in (tree.this, *tree.expressions)) if v is not None]
            return (min(known) if isinstance(tree, exp.Least) else max(known)) if known else None
        case exp.In():
            return _is_member(tree, row)
        case _:
            return _strict(tree, row)


def _strict(tree: exp.Expression, row: Row) -> Any:
    """Operators that give NULL as soon as one operand is NULL."""
    match tree:
        case exp.Nullif():
            left, right = evaluate(tree.this, row), evaluate(tree.expression, row)
            return None if left is not None and left == right else left
        case exp.Add() | exp.Sub() | exp.Mul() | exp.Div() | exp.Mod():
            return _both(tree, row, _ARITHMETIC[type(tree)])
        case exp.EQ() | exp.NEQ() | exp.LT() | exp.LTE() | exp.GT() | exp.GTE():
            return _both(tree, row, _COMPARISON[type(tree)])
        case exp.Between():
            subject, low, high = (evaluate(tree.args[name], row) for name in ("this", "low", "high"))
            above = None if subject is None or low is None else subject >= low
            below = None if subject is None or high is None else subject <= high
            return _all_of(above, below)
        case exp.Neg():
            return _apply(tree.this, row, lambda value: -value)
        case exp.Abs():
            return _apply(tree.this, row, abs)
        case exp.Floor():
            return _apply(tree.this, row, lambda value: math.floor(value) if math.isfinite(value) else value)
        case exp.Ceil():
            return _apply(tree.this, row, lambda value: math.ceil(value) if math.isfinite(value) else value)
        case exp.Round():
            decimals = tree.args.get("decimals")
            places = int(decimals.name) if decimals is not None else 0
            return _apply(tree.this, row, lambda value: round(value, places))
        case exp.Like():
            return _apply(tree.this, row, lambda value: _is_like(value, str(tree.expression.this)))
        case exp.Cast():
            return _cast(tree, row)
        case exp.Extract():
            return _apply(tree.expression, row, lambda value: _date_part(str(tree.this.name), value))
        case exp.TimestampTrunc():
            return _apply(tree.this, row, lambda value: _truncate(str(tree.args["unit"].name), value))
        case _:
            raise AssertionError(f"a tree that was not checked: {type(tree).__name__}")


def _both(tree: exp.Expression, row: Row, operator: Callable[[Any, Any], Any]) -> Any:
    left, right = evaluate(tree.this, row), evaluate(tree.expression, row)
    if left is None or right is None:
        return None
    try:
        return operator(left, right)
    except OverflowError:  # whole numbers beyond any float: no engine has a value for them
        return None


def _apply(operand: exp.Expression, row: Row, function: Callable[[Any], Any]) -> Any:
    value = evaluate(operand, row)
    return None if value is None else function(value)


def _connect(tree: exp.Expression, row: Row) -> bool | None:
    left, right = evaluate(tree.this, row), evaluate(tree.expression, row)
    if isinstance(tree, exp.And):
        return _all_of(left, right)
    return True if left is True or right is True else None if left is None or right is None else False


def _all_of(left: bool | None, right: bool | None) -> bool | None:
    return False if left is False or right is False else None if left is None or right is None else True


def _is_member(tree: exp.In, row: Row) -> bool | None:
    subject = evaluate(tree.this, row)
    if subject is None:
        return None
    members = [evaluate(member, row) for member in tree.expressions]
    if subject in [member for member in members if member is not None]:
        return True
    return None if None in members else False


def _literal(tree: exp.Literal) -> Any:
    if tree.is_string:
        return str(tree.this)
    text = str(tree.this)
    return int(text) if text.isdigit() else float(text)


def _cast(tree: exp.Cast, row: Row) -> Any:
    readers: dict[Any, Callable[[Any], Any]] = {
        exp.DataType.Type.DOUBLE: float,
        exp.DataType.Type.BIGINT: int,
        exp.DataType.Type.DATE: _as_date,
        exp.DataType.Type.TIMESTAMP: _as_moment,
    }
    return _apply(tree.this, row, readers[tree.to.this])


def _as_date(value: Any) -> date:
    if isinstance(value, datetime):
        return value.date()
    return value if isinstance(value, date) else date.fromisoformat(value)


def _as_moment(value: Any) -> datetime:
    return value if isinstance(value, datetime) else datetime.fromisoformat(value)


def _date_part(part: str, value: date) -> int:
    match part:
        case "QUARTER":
            return (value.month + 2) // 3
        case "ISODOW":
            return value.isoweekday()
        case _:
            return int(getattr(value, part.lower()))


def _truncate(unit: str, value: date) -> date:
    day = _as_date(value)
    match unit:
        case "YEAR":
            return day.replace(month=1, day=1)
        case "QUARTER":
            return day.replace(month=3 * ((day.month - 1) // 3) + 1, day=1)
        case "MONTH":
            return day.replace(day=1)
        case "WEEK":
            return day - timedelta(days=day.weekday())
        case _:
            return day


def _is_like(text: str, pattern: str) -> bool:
    """SQL's LIKE: % stands for any text, _ for one character. Never backtracks further than the last %."""
    at, place, star, resume = 0, 0, -1, 0
    while at < len(text):
        if place < len(pattern) and pattern[place] == "%":
            star, resume, place = place, at, place + 1
        elif place < len(pattern) and pattern[place] in ("_", text[at]):
            at, place = at + 1, place + 1
        elif star >= 0:
            resume += 1
            at, place = resume, star + 1
        else:
            return False
    return all(mark == "%" for mark in pattern[place:])
