"""Queries with their meaning: SQL, and beside it the same question as plain Python over cleaned rows.

The oracle knows nothing of the planner. A NULL follows SQL's three-valued logic; arithmetic in conditions is that of
doubles, in which sizes beyond 10^100 are NULL and below 10^-100 are 0; inside aggregates values are clamped to their
bounds and put on their grid first (C5, S8); an empty group has the value of C6. Written from docs/math.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from fractions import Fraction
from typing import Any

from dosimeter.planning import PlanOptions
from tests.oracle.query_meanings import (
    Aggregate,
    Condition,
    Grouping,
    Part,
    Term,
    Value,
    both,
    choose,
    clamp,
    coalesce,
    combine,
    constant,
    each_row,
    either,
    lift,
    make_count,
    make_count_star,
    make_moments,
    make_quantile,
    make_sum,
    negate,
    read,
    snap,
)

Truth = bool | None

# What conditions compare with, by the column's kind: the second and the fourth of its ordinary values.
CONSTANTS: dict[str, tuple[Any, Any]] = {
    "decimal": (1.25, 3.75),
    "integer": (2, 7),
    "date": (date(2021, 2, 10), date(2021, 3, 15)),
    "timestamp": (datetime(2021, 2, 10, 5, 30), datetime(2021, 3, 15, 23, 59, 59)),  # noqa: DTZ001
    "boolean": (True, False),
}


def write(value: Any) -> str:
    match value:
        case bool():
            return "TRUE" if value else "FALSE"
        case datetime():
            return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
        case date():
            return f"DATE '{value.isoformat()}'"
        case _:
            return str(value)


def as_double(value: Any) -> float | None:
    """Return an operand of arithmetic outside aggregates, where nothing may overflow."""
    number = float(value)
    return None if abs(number) > 1e100 else 0.0 if abs(number) < 1e-100 else number


def truncate(quotient: float) -> float:
    return float(math.ceil(quotient) if quotient < 0 else math.floor(quotient))


# ---------------------------------------------------------------- conditions


@dataclass(frozen=True)
class Subject:
    """The column a query is about: how SQL names it, where a row keeps it, and of which kind it is."""

    sql: str
    key: str
    kind: str

    @property
    def value(self) -> Value:
        return read(self.key)

    @property
    def number(self) -> Value:
        return lambda row: None if row[self.key] is None else as_double(row[self.key])


GENERAL = (
    ">", "<", "<>", "=", ">= the largest", "NOT >", "IN", "NOT IN", "BETWEEN", "NOT BETWEEN", "IS NULL", "IS NOT NULL",
    "CASE", "COALESCE", "OR", "AND", "itself", "not itself",
)  # fmt: skip
BY_KIND: dict[str, tuple[str, ...]] = {
    "decimal": ("sum", "product", "quotient", "rounded", "other column"),
    "integer": ("sum", "product", "quotient", "//", "%", "other column"),
    "date": ("year", "month", "weekday", "truncated to month", "truncated to week"),
    "timestamp": ("year", "hour", "weekday", "truncated to month", "truncated to day"),
    "boolean": ("plain", "NOT"),
}


def list_conditions(kind: str) -> tuple[str, ...]:
    general = [name for name in GENERAL if kind != "boolean" or name not in _ORDERED]
    return (*general, *BY_KIND[kind])


_ORDERED = (">", "<", ">= the largest", "NOT >", "BETWEEN", "NOT BETWEEN", "CASE", "OR", "AND")


# Each condition as SQL, where {v} is the subject, {a} and {b} what its kind is compared with; and what it means.
OF_THE_VALUE: dict[str, tuple[str, Callable[[Any, Any, Any], Truth]]] = {
    ">": ("{v} > {a}", lambda x, low, high: x > low),
    "<": ("{v} < {b}", lambda x, low, high: x < high),
    "<>": ("{v} <> {a}", lambda x, low, high: x != low),
    "=": ("{v} = {a}", lambda x, low, high: x == low),
    # Only a high cell is beyond the largest, so that statistics could decide it for a whole block.
    ">= the largest": ("{v} > {b}", lambda x, low, high: x > high),
    "NOT >": ("NOT {v} > {a}", lambda x, low, high: not x > low),
    "IN": ("{v} IN ({a}, {b})", lambda x, low, high: x in (low, high)),
    "NOT IN": ("{v} NOT IN ({a}, {b})", lambda x, low, high: x not in (low, high)),
    "BETWEEN": ("{v} BETWEEN {a} AND {b}", lambda x, low, high: low <= x <= high),
    "NOT BETWEEN": ("{v} NOT BETWEEN {a} AND {b}", lambda x, low, high: not low <= x <= high),
    "itself": ("{v} = {v}", lambda x, low, high: True),
    "plain": ("{v}", lambda x, low, high: x),
    "NOT": ("NOT {v}", lambda x, low, high: not x),
    "rounded": ("FLOOR({v}) = 1 OR CEIL({v}) = 4", lambda x, low, high: math.floor(x) == 1 or math.ceil(x) == 4),
    "year": ("EXTRACT(YEAR FROM {v}) = 2021", lambda x, low, high: x.year == 2021),
    "month": ("EXTRACT(MONTH FROM {v}) <> 2", lambda x, low, high: x.month != 2),
    "hour": ("EXTRACT(HOUR FROM {v}) < 6", lambda x, low, high: x.hour < 6),
    "weekday": ("NOT EXTRACT(ISODOW FROM {v}) > 4", lambda x, low, high: x.isoweekday() <= 4),
    "truncated to month": (
        "DATE_TRUNC('month', {v}) <> DATE '2021-02-01'",
        lambda x, low, high: _day(x).replace(day=1) != date(2021, 2, 1),
    ),
    "truncated to week": (
        "DATE_TRUNC('week', {v}) <= DATE '2021-02-08'",
        lambda x, low, high: _monday(x) <= date(2021, 2, 8),
    ),
    "truncated to day": (
        "DATE_TRUNC('day', {v}) IN (DATE '2021-02-10', DATE '9999-12-31')",
        lambda x, low, high: _day(x) in (date(2021, 2, 10), date(9999, 12, 31)),
    ),
}
EVEN_OF_NULL: dict[str, tuple[str, Callable[[Any, Any], bool]]] = {
    "IS NULL": ("{v} IS NULL", lambda x, low: x is None),
    "IS NOT NULL": ("{v} IS NOT NULL", lambda x, low: x is not None),
    "CASE": ("CASE WHEN {v} > {a} THEN 1 WHEN {v} <= {a} THEN 2 ELSE 3 END >= 2", lambda x, low: x is None or x <= low),
    "COALESCE": ("COALESCE({v}, {a}) = {a}", lambda x, low: x is None or x == low),
    "not itself": ("NOT {v} <> {v} OR {v} IS NULL", lambda x, low: True),
}
OF_NUMBERS: dict[str, tuple[str, Callable[..., Truth]]] = {
    "sum": ("{v} + t.z > 6", lambda x, z: x + z > 6),
    "product": ("{v} * 2 - t.z >= -1.5", lambda x, z: x * 2 - z >= -1.5),
    "quotient": ("{v} / t.z > 0.4", lambda x, z: None if z == 0 else x / z > 0.4),
    "other column": ("ABS({v}) > t.z", lambda x, z: abs(x) > z),
    "//": ("{v} // 2 = 1", lambda x: truncate(x / 2) == 1),
    "%": ("{v} % 3 = 1", lambda x: x - 3 * truncate(x / 3) == 1),
}


def find_condition(name: str, subject: Subject) -> Condition:
    value = subject.value
    low, high = CONSTANTS[subject.kind]
    z: Value = lift(as_double, read("z"))

    def say(sql: str) -> str:
        return sql.format(v=subject.sql, a=write(low), b=write(high))

    if name in ("OR", "AND"):
        above = find_condition(">", subject)
        if name == "OR":
            return Condition(f"{above.sql} OR t.z < 4", either(above, Condition("", lift(lambda x: x < 4, z))).value)
        later = Condition("", lift(lambda x: x >= 4, z))
        return Condition(f"NOT ({above.sql} AND t.z >= 4)", negate(both(above, later)).value)
    if name in EVEN_OF_NULL:
        sql, holds = EVEN_OF_NULL[name]
        return Condition(say(sql), lambda row: holds(value(row), low))
    if name in OF_NUMBERS:
        sql, found = OF_NUMBERS[name]
        parts = (subject.number, z) if "t.z" in sql else (subject.number,)
        return Condition(say(sql), lift(found, *parts))
    sql, known = OF_THE_VALUE[name]
    return Condition(say(sql), lift(lambda x: known(x, low, high), value))


def _day(moment: date) -> date:
    return moment.date() if isinstance(moment, datetime) else moment


def _monday(moment: date) -> date:
    return _day(moment) - timedelta(days=moment.weekday())


# ---------------------------------------------------------------- groups


GROUPS_BY_KIND: dict[str, tuple[str, ...]] = {
    "decimal": ("none", "grp", "missing", "case", "above"),
    "integer": ("none", "grp", "missing", "case", "itself", "//", "%"),
    "date": ("none", "grp", "missing", "case", "itself", "year", "month", "weekday", "to month", "to week"),
    "timestamp": ("none", "grp", "missing", "case", "year", "hour", "weekday", "to month", "to day"),
    "boolean": ("none", "grp", "missing", "itself"),
}


PARTS_OF_VALUES: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "above": ("{v} > 2", lambda x: x > 2),
    "itself": ("{v}", lambda x: x),
    "//": ("{v} // 2", lambda x: truncate(float(x) / 2)),
    "%": ("{v} % 3", lambda x: float(x) - 3 * truncate(float(x) / 3)),
    "year": ("EXTRACT(YEAR FROM {v})", lambda x: x.year),
    "month": ("EXTRACT(MONTH FROM {v})", lambda x: x.month),
    "hour": ("EXTRACT(HOUR FROM {v})", lambda x: x.hour),
    "weekday": ("EXTRACT(ISODOW FROM {v})", lambda x: x.isoweekday()),
    "to month": ("DATE_TRUNC('month', {v})", lambda x: _day(x).replace(day=1)),
    "to week": ("DATE_TRUNC('week', {v})", lambda x: _monday(x)),
    "to day": ("DATE_TRUNC('day', {v})", lambda x: _day(x)),
}


def find_groupings(name: str, subject: Subject) -> tuple[Grouping, ...]:
    v, value = subject.sql, subject.value
    low = CONSTANTS[subject.kind][0]
    by_group = Grouping("t.grp", read("grp"))
    match name:
        case "none":
            return ()
        case "grp":
            return (by_group,)
        case "missing":
            return (Grouping(f"{v} IS NULL", lambda row: value(row) is None), by_group)
        case "case":
            sql = f"CASE WHEN {v} > {write(low)} THEN 'high' WHEN {v} <= {write(low)} THEN 'low' END"
            return (Grouping(sql, lift(lambda x: "high" if x > low else "low", value)),)
        case _:
            sql, part = PARTS_OF_VALUES[name]
            return (Grouping(sql.format(v=v), lift(part, value)),)


# ---------------------------------------------------------------- aggregates


def find_term(subject: Subject) -> Term:
    v, value = subject.sql, subject.value
    match subject.kind:
        case "decimal":
            return snap(v, value, Fraction(0), Fraction(5), Fraction(1, 4))
        case "integer":
            return clamp(v, value, 0, 9)
        case "date":
            return Term(f"EXTRACT(MONTH FROM {v})", lift(lambda x: Fraction(x.month), value), Fraction(1), Fraction(12))
        case "timestamp":
            return Term(f"EXTRACT(HOUR FROM {v})", lift(lambda x: Fraction(x.hour), value), Fraction(0), Fraction(23))
        case _:
            sql = f"CASE WHEN {v} THEN 2 WHEN NOT {v} THEN 1 END"
            return Term(sql, lift(lambda x: Fraction(2 if x else 1), value), Fraction(1), Fraction(2))


BUNDLES = ("counts", "sum and mean", "mean of many", "spread", "extremes", "quantiles", "filtered", "cases")
MIN_ROWS = 3
QUARTER = "QUANTILE_CONT({}, 0.25)"


POINTS = clamp("t.z", read("z"), 0, 9)


def find_aggregates(name: str, subject: Subject) -> tuple[Aggregate, ...]:
    v, value, term, plain = subject.sql, subject.value, find_term(subject), PlanOptions()
    match name:
        case "counts":
            there = Term(v, lift(lambda _: Fraction(1), value), Fraction(0), Fraction(1))
            distinct = Part(name, lambda rows: Fraction(len({value(row) for row in rows} - {None})), each_row(1))
            counted = make_count_star(None), make_count(there, None)
            return (*counted, Aggregate(f"COUNT(DISTINCT {v})", (distinct,)))
        case "sum and mean":
            return (make_sum(term, None), make_moments("AVG", term, None, plain))
        case "mean of many":
            return (make_moments("AVG", term, None, PlanOptions(min_rows=MIN_ROWS)),)
        case "spread":
            return tuple(make_moments(kind, term, None, plain) for kind in ("VAR_POP", "STDDEV_POP"))
        case "extremes" | "quantiles":
            ranks = {"MIN({})": 0, "MAX({})": 1} if name == "extremes" else {"MEDIAN({})": 0.5, QUARTER: 0.25}
            return tuple(make_quantile(sql, Fraction(fraction), term, None) for sql, fraction in ranks.items())
        case "filtered":  # every condition on the subject, all of them in one query
            tests = [find_condition(each, subject) for each in list_conditions(subject.kind)]
            return tuple(
                make_sum(POINTS, test) if at % 3 == 2 else make_count_star(test) for at, test in enumerate(tests)
            )
        case _:
            missing, known = (find_condition(each, subject) for each in ("IS NULL", "IS NOT NULL"))
            one, two, three, middle = map(constant, ("1", "2", "3", str(float(term.middle))))
            return (
                make_sum(choose(missing, three, one), None),
                make_sum(coalesce(term, middle), None),
                make_sum(combine(combine(two, "*", term), "+", one), None),
                make_count(choose(known, POINTS, None), None),
            )
