"""Evaluate rebuilt trees on plain Python values, with SQL's three-valued logic.

Used where no engine may be asked: the declared values of a GROUP BY expression (C8), and the post-processing of
a released answer (arithmetic over aggregates, HAVING, ORDER BY). A tree that neither ``expressions`` nor the planner
built is refused.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any

from sqlglot import exp

Row = Mapping[str, Any]
Evaluator = Callable[[Row], Any]


def evaluate(tree: exp.Expression, row: Row) -> Any:
    """Return the value of the tree for one row; None is SQL's NULL."""
    return compile_tree(tree)(row)


def compile_tree(tree: exp.Expression) -> Evaluator:
    """Return the tree as a function of a row, for use on many rows."""
    match tree:
        case exp.Paren():
            return compile_tree(tree.this)
        case exp.Column():
            name = tree.name
            return lambda row: row[name]
        case exp.Literal() | exp.Boolean() | exp.Null():
            value = _constant(tree)
            return lambda row: value
        case exp.And():
            left, right = compile_tree(tree.this), compile_tree(tree.expression)
            return lambda row: _both_hold(left(row), right(row))
        case exp.Or():
            left, right = compile_tree(tree.this), compile_tree(tree.expression)
            return lambda row: _either_holds(left(row), right(row))
        case exp.Is():
            subject = compile_tree(tree.this)
            return lambda row: subject(row) is None
        case exp.Case():
            return _compile_case(tree)
        case exp.Coalesce():
            parts = [compile_tree(part) for part in (tree.this, *tree.expressions)]
            return lambda row: next((found for part in parts if (found := part(row)) is not None), None)
        case exp.Least() | exp.Greatest():
            parts = [compile_tree(part) for part in (tree.this, *tree.expressions)]
            choose = min if isinstance(tree, exp.Least) else max
            return lambda row: choose((found for part in parts if (found := part(row)) is not None), default=None)
        case exp.In():
            subject, members = compile_tree(tree.this), [compile_tree(member) for member in tree.expressions]
            return lambda row: _is_member(subject(row), [member(row) for member in members])
        case exp.Between():
            subject, low, high = (compile_tree(tree.args[name]) for name in ("this", "low", "high"))
            return lambda row: _is_between(subject(row), low(row), high(row))
        case exp.Nullif():
            left, right = compile_tree(tree.this), compile_tree(tree.expression)
            return lambda row: None if (found := left(row)) is not None and found == right(row) else found
        case _ if type(tree) in _OF_TWO:
            return _compile_strict(_OF_TWO[type(tree)], tree.this, tree.expression)
        case _:
            return _compile_strict(*_function_of_one(tree))


def _compile_strict(function: Callable[..., Any], *operands: exp.Expression) -> Evaluator:
    """Return an evaluator that gives NULL as soon as an operand is NULL."""
    if len(operands) == 1:
        operand = compile_tree(operands[0])
        return lambda row: None if (value := operand(row)) is None else function(value)
    left, right = (compile_tree(operand) for operand in operands)

    def apply(row: Row) -> Any:
        a, b = left(row), right(row)
        if a is None or b is None:
            return None
        try:
            return function(a, b)
        except OverflowError:  # whole numbers beyond any float: no engine has a value for them
            return None

    return apply


def _compile_case(tree: exp.Case) -> Evaluator:
    branches = [(compile_tree(branch.this), compile_tree(branch.args["true"])) for branch in tree.args["ifs"]]
    default = compile_tree(tree.args.get("default") or exp.Null())

    def choose(row: Row) -> Any:
        for condition, result in branches:
            if condition(row) is True:
                return result(row)
        return default(row)

    return choose


def _function_of_one(tree: exp.Expression) -> tuple[Callable[[Any], Any], exp.Expression]:
    match tree:
        case exp.Not():
            return operator.not_, tree.this
        case exp.Neg():
            return operator.neg, tree.this
        case exp.Abs():
            return abs, tree.this
        case exp.Floor():
            return (lambda value: math.floor(value) if math.isfinite(value) else value), tree.this
        case exp.Ceil():
            return (lambda value: math.ceil(value) if math.isfinite(value) else value), tree.this
        case exp.Round():
            decimals = tree.args.get("decimals")
            places = int(decimals.name) if decimals is not None else 0
            return (lambda value: round(value, places)), tree.this
        case exp.Like():
            pattern = str(tree.expression.this)
            return (lambda value: _is_like(value, pattern)), tree.this
        case exp.Cast() if tree.to.this in _CASTS:
            return _CASTS[tree.to.this], tree.this
        case exp.Extract():
            part = str(tree.this.name)
            return _DATE_PARTS[part], tree.expression
        case exp.TimestampTrunc():
            truncate = _TRUNCATIONS[str(tree.args["unit"].name)]
            return (lambda value: truncate(_as_date(value))), tree.this
        case _:
            raise AssertionError(f"a tree that was not checked: {type(tree).__name__}")


def _constant(tree: exp.Expression) -> Any:
    if isinstance(tree, exp.Null):
        return None
    if isinstance(tree, exp.Boolean):
        return bool(tree.this)
    text = str(tree.this)
    return text if tree.is_string else int(text) if text.isdigit() else float(text)


def _both_hold(left: bool | None, right: bool | None) -> bool | None:
    return False if left is False or right is False else None if left is None or right is None else True


def _either_holds(left: bool | None, right: bool | None) -> bool | None:
    return True if left is True or right is True else None if left is None or right is None else False


def _is_member(subject: Any, members: Sequence[Any]) -> bool | None:
    if subject is None:
        return None
    if any(member is not None and member == subject for member in members):
        return True
    return None if None in members else False


def _is_between(subject: Any, low: Any, high: Any) -> bool | None:
    above = None if subject is None or low is None else subject >= low
    below = None if subject is None or high is None else subject <= high
    return _both_hold(above, below)


def _divide(a: Any, b: Any) -> Any:
    return None if b == 0 else a / b


def _take_remainder(a: int, b: int) -> int | None:
    """Return the remainder with the sign of the dividend, as in SQL; NULL for a zero divisor."""
    return None if b == 0 else (abs(a) % abs(b)) * (-1 if a < 0 else 1)


_OF_TWO: dict[type[exp.Expression], Callable[[Any, Any], Any]] = {
    exp.Add: operator.add,
    exp.Sub: operator.sub,
    exp.Mul: operator.mul,
    exp.Div: _divide,
    exp.Mod: _take_remainder,
    exp.EQ: operator.eq,
    exp.NEQ: operator.ne,
    exp.LT: operator.lt,
    exp.LTE: operator.le,
    exp.GT: operator.gt,
    exp.GTE: operator.ge,
}


def _as_date(value: Any) -> date:
    if isinstance(value, datetime):
        return value.date()
    return value if isinstance(value, date) else date.fromisoformat(value)


def _as_moment(value: Any) -> datetime:
    return value if isinstance(value, datetime) else datetime.fromisoformat(value)


_CASTS: dict[Any, Callable[[Any], Any]] = {
    exp.DataType.Type.DOUBLE: float,
    exp.DataType.Type.BIGINT: int,
    exp.DataType.Type.DATE: _as_date,
    exp.DataType.Type.TIMESTAMP: _as_moment,
}


_DATE_PARTS: Mapping[str, Callable[[Any], int]] = {
    "YEAR": lambda value: value.year,
    "QUARTER": lambda value: (value.month + 2) // 3,
    "MONTH": lambda value: value.month,
    "DAY": lambda value: value.day,
    "HOUR": lambda value: value.hour,
    "ISODOW": lambda value: value.isoweekday(),
}


_TRUNCATIONS: Mapping[str, Callable[[date], date]] = {
    "YEAR": lambda day: day.replace(month=1, day=1),
    "QUARTER": lambda day: day.replace(month=3 * ((day.month - 1) // 3) + 1, day=1),
    "MONTH": lambda day: day.replace(day=1),
    "WEEK": lambda day: day - timedelta(days=day.weekday()),
    "DAY": lambda day: day,
}


def _is_like(text: str, pattern: str) -> bool:
    """Return whether a text matches a LIKE pattern: % stands for any text, _ for one character.

    Never backtracks further than the last %.
    """
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
