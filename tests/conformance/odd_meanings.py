"""Queries with their meaning: SQL, and beside it the same question as plain Python over cleaned rows.

The oracle knows nothing of the planner. A NULL follows SQL's three-valued logic; arithmetic in conditions is that of
doubles, in which sizes beyond 10^100 are NULL and below 10^-100 are 0; inside aggregates values are clamped to their
bounds and put on their grid first (C5, S8); an empty group has the value of C6. Written from docs/math.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from fractions import Fraction
from typing import Any

from tests.conformance.odd_tables import Row

Value = Callable[[Row], Any]
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


# ---------------------------------------------------------------- three-valued logic


def lift(function: Callable[..., Any], *parts: Value) -> Value:
    """Return a function of a row that is NULL where one of its parts is."""

    def apply(row: Row) -> Any:
        values = [part(row) for part in parts]
        return None if any(value is None for value in values) else function(*values)

    return apply


def negate(test: Value) -> Value:
    return lift(lambda truth: not truth, test)


def both(*tests: Value) -> Value:
    def apply(row: Row) -> Truth:
        truths = [test(row) for test in tests]
        return False if False in truths else None if None in truths else True

    return apply


def either(*tests: Value) -> Value:
    return negate(both(*(negate(test) for test in tests)))


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
        return lambda row: row[self.key]

    @property
    def number(self) -> Value:
        return lambda row: None if row[self.key] is None else as_double(row[self.key])


@dataclass(frozen=True)
class Condition:
    sql: str
    value: Value

    def holds(self, row: Row) -> bool:
        return self.value(row) is True


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


def find_condition(name: str, subject: Subject) -> Condition:
    v, value, number = subject.sql, subject.value, subject.number
    low, high = CONSTANTS[subject.kind]
    a, b = write(low), write(high)
    above = Condition(f"{v} > {a}", lift(lambda x: x > low, value))
    between = lift(lambda x: low <= x <= high, value)
    z: Value = lift(as_double, lambda row: row["z"])
    match name:
        case ">":
            return above
        case "<":
            return Condition(f"{v} < {b}", lift(lambda x: x < high, value))
        case "<>":
            return Condition(f"{v} <> {a}", lift(lambda x: x != low, value))
        case "=":
            return Condition(f"{v} = {a}", lift(lambda x: x == low, value))
        case ">= the largest":  # only a high cell is beyond it, so that statistics could decide it for a whole block
            return Condition(f"{v} > {b}", lift(lambda x: x > high, value))
        case "NOT >":
            return Condition(f"NOT {v} > {a}", negate(above.value))
        case "IN":
            return Condition(f"{v} IN ({a}, {b})", lift(lambda x: x in (low, high), value))
        case "NOT IN":
            return Condition(f"{v} NOT IN ({a}, {b})", lift(lambda x: x not in (low, high), value))
        case "BETWEEN":
            return Condition(f"{v} BETWEEN {a} AND {b}", between)
        case "NOT BETWEEN":
            return Condition(f"{v} NOT BETWEEN {a} AND {b}", negate(between))
        case "IS NULL":
            return Condition(f"{v} IS NULL", lambda row: value(row) is None)
        case "IS NOT NULL":
            return Condition(f"{v} IS NOT NULL", lambda row: value(row) is not None)
        case "CASE":
            sql = f"CASE WHEN {above.sql} THEN 1 WHEN {v} <= {a} THEN 2 ELSE 3 END >= 2"
            return Condition(sql, lambda row: not above.holds(row))  # NULL is neither, and gives 3
        case "COALESCE":
            return Condition(f"COALESCE({v}, {a}) = {a}", lambda row: value(row) is None or value(row) == low)
        case "OR":
            other = lift(lambda x: x < 4, z)
            return Condition(f"{above.sql} OR t.z < 4", either(above.value, other))
        case "AND":
            other = lift(lambda x: x >= 4, z)
            return Condition(f"NOT ({above.sql} AND t.z >= 4)", negate(both(above.value, other)))
        case "itself":
            return Condition(f"{v} = {v}", lift(lambda x: True, value))
        case "not itself":
            return Condition(f"NOT {v} <> {v} OR {v} IS NULL", lambda row: True)
        case "plain":
            return Condition(v, value)
        case "NOT":
            return Condition(f"NOT {v}", negate(value))
        case _:
            return _calculated(name, subject, number, z)


def _calculated(name: str, subject: Subject, number: Value, z: Value) -> Condition:
    v, value = subject.sql, subject.value
    match name:
        case "sum":
            return Condition(f"{v} + t.z > 6", lift(lambda x, y: x + y > 6, number, z))
        case "product":
            return Condition(f"{v} * 2 - t.z >= -1.5", lift(lambda x, y: x * 2 - y >= -1.5, number, z))
        case "quotient":
            ratio = lift(lambda x, y: None if y == 0 else x / y > 0.4, number, z)
            return Condition(f"{v} / t.z > 0.4", ratio)
        case "rounded":
            return Condition(f"FLOOR({v}) = 1 OR CEIL({v}) = 4", lift(_rounded, value))
        case "other column":
            return Condition(f"ABS({v}) > t.z", lift(lambda x, y: abs(x) > y, number, z))
        case "//":
            return Condition(f"{v} // 2 = 1", lift(lambda x: truncate(x / 2) == 1, number))
        case "%":
            return Condition(f"{v} % 3 = 1", lift(lambda x: x - 3 * truncate(x / 3) == 1, number))
        case "year":
            return Condition(f"EXTRACT(YEAR FROM {v}) = 2021", lift(lambda x: x.year == 2021, value))
        case "month":
            return Condition(f"EXTRACT(MONTH FROM {v}) <> 2", lift(lambda x: x.month != 2, value))
        case "hour":
            return Condition(f"EXTRACT(HOUR FROM {v}) < 6", lift(lambda x: x.hour < 6, value))
        case "weekday":
            return Condition(f"NOT EXTRACT(ISODOW FROM {v}) > 4", lift(lambda x: x.isoweekday() <= 4, value))
        case "truncated to month":
            sql = f"DATE_TRUNC('month', {v}) <> DATE '2021-02-01'"
            return Condition(sql, lift(lambda x: _day(x).replace(day=1) != date(2021, 2, 1), value))
        case "truncated to week":
            sql = f"DATE_TRUNC('week', {v}) <= DATE '2021-02-08'"
            return Condition(sql, lift(lambda x: _monday(x) <= date(2021, 2, 8), value))
        case "truncated to day":
            sql = f"DATE_TRUNC('day', {v}) IN (DATE '2021-02-10', DATE '9999-12-31')"
            return Condition(sql, lift(lambda x: _day(x) in (date(2021, 2, 10), date(9999, 12, 31)), value))
        case _:
            raise AssertionError(name)


def _rounded(x: float) -> Truth:
    return math.floor(x) == 1 or math.ceil(x) == 4


def _day(moment: date) -> date:
    return moment.date() if isinstance(moment, datetime) else moment


def _monday(moment: date) -> date:
    return _day(moment) - timedelta(days=moment.weekday())


# ---------------------------------------------------------------- groups


@dataclass(frozen=True)
class Grouping:
    sql: str
    value: Value


GROUPS_BY_KIND: dict[str, tuple[str, ...]] = {
    "decimal": ("none", "grp", "missing", "case", "above"),
    "integer": ("none", "grp", "missing", "case", "itself", "//", "%"),
    "date": ("none", "grp", "missing", "case", "itself", "year", "month", "weekday", "to month", "to week"),
    "timestamp": ("none", "grp", "missing", "case", "year", "hour", "weekday", "to month", "to day"),
    "boolean": ("none", "grp", "missing", "itself"),
}


def find_groupings(name: str, subject: Subject) -> tuple[Grouping, ...]:
    v, value = subject.sql, subject.value
    low = CONSTANTS[subject.kind][0]
    match name:
        case "none":
            return ()
        case "grp":
            return (Grouping("t.grp", lambda row: row["grp"]),)
        case "missing":
            return (
                Grouping(f"{v} IS NULL", lambda row: value(row) is None),
                Grouping("t.grp", lambda row: row["grp"]),
            )
        case "case":
            sql = f"CASE WHEN {v} > {write(low)} THEN 'high' WHEN {v} <= {write(low)} THEN 'low' END"
            return (Grouping(sql, lift(lambda x: "high" if x > low else "low", value)),)
        case "above":
            return (Grouping(f"{v} > 2", lift(lambda x: x > 2, value)),)
        case "itself":
            return (Grouping(v, value),)
        case "//":
            return (Grouping(f"{v} // 2", lift(lambda x: truncate(x / 2), subject.number)),)
        case "%":
            return (Grouping(f"{v} % 3", lift(lambda x: x - 3 * truncate(x / 3), subject.number)),)
        case "year" | "month" | "hour":
            return (Grouping(f"EXTRACT({name.upper()} FROM {v})", lift(lambda x: getattr(x, name), value)),)
        case "weekday":
            return (Grouping(f"EXTRACT(ISODOW FROM {v})", lift(lambda x: x.isoweekday(), value)),)
        case "to month":
            return (Grouping(f"DATE_TRUNC('month', {v})", lift(lambda x: _day(x).replace(day=1), value)),)
        case "to week":
            return (Grouping(f"DATE_TRUNC('week', {v})", lift(_monday, value)),)
        case "to day":
            return (Grouping(f"DATE_TRUNC('day', {v})", lift(_day, value)),)
        case _:
            raise AssertionError(name)


# ---------------------------------------------------------------- aggregates


@dataclass(frozen=True)
class Term:
    """What stands inside an aggregate: exact values, clamped and on their grid, and its bounds."""

    sql: str
    value: Value
    low: Fraction
    high: Fraction

    @property
    def middle(self) -> Fraction:
        return (self.low + self.high) / 2

    def of(self, rows: Sequence[Row]) -> list[Fraction]:
        return [value for row in rows if (value := self.value(row)) is not None]


def clamp(low: int, high: int) -> Callable[[Any], Fraction]:
    return lambda x: Fraction(min(max(x, low), high))


def snap(x: float) -> Fraction:
    """Return a decimal on its grid of quarters between 0 and 5 (S8)."""
    return Fraction(0) if x < 0 else Fraction(5) if x > 5 else math.floor(x / 0.25 + 0.5) * Fraction(1, 4)


def find_term(subject: Subject) -> Term:
    v, value = subject.sql, subject.value
    match subject.kind:
        case "decimal":
            return Term(v, lift(snap, value), Fraction(0), Fraction(5))
        case "integer":
            return Term(v, lift(clamp(0, 9), value), Fraction(0), Fraction(9))
        case "date":
            return Term(f"EXTRACT(MONTH FROM {v})", lift(lambda x: Fraction(x.month), value), Fraction(1), Fraction(12))
        case "timestamp":
            return Term(f"EXTRACT(HOUR FROM {v})", lift(lambda x: Fraction(x.hour), value), Fraction(0), Fraction(23))
        case _:
            sql = f"CASE WHEN {v} THEN 2 WHEN NOT {v} THEN 1 END"
            return Term(sql, lift(lambda x: Fraction(2 if x else 1), value), Fraction(1), Fraction(2))


Part = Callable[[Sequence[Row]], Fraction]
BUNDLES = ("counts", "sum and mean", "mean of many", "spread", "extremes", "quantiles", "filtered", "cases")
MIN_ROWS = 3


@dataclass(frozen=True)
class Aggregates:
    """The SELECT list, and the numbers that are measured for it, in the planner's order: each once (N3)."""

    sql: str
    parts: tuple[Part, ...]
    min_rows: int | None = None


def find_aggregates(name: str, subject: Subject) -> Aggregates:
    v, value, term = subject.sql, subject.value, find_term(subject)
    t = term.sql
    match name:
        case "counts":
            distinct: Part = lambda rows: Fraction(len({value(row) for row in rows} - {None}))  # noqa: E731
            sql = f"COUNT(*), COUNT({v}), COUNT(DISTINCT {v})"
            return Aggregates(sql, (lambda rows: Fraction(len(rows)), count(term), distinct))
        case "sum and mean":
            return Aggregates(f"SUM({t}), AVG({t})", (total(term), count(term), centred(term, 1)))
        case "mean of many":
            return Aggregates(f"AVG({t})", (bounded_mean(term),), MIN_ROWS)
        case "spread":
            moments = (count(term), centred(term, 1), centred(term, 2))
            return Aggregates(f"VAR_POP({t}), STDDEV_POP({t})", moments)
        case "extremes":
            return Aggregates(f"MIN({t}), MAX({t})", (quantile(term, Fraction(0)), quantile(term, Fraction(1))))
        case "quantiles":
            ranks = (quantile(term, Fraction(1, 2)), quantile(term, Fraction(1, 4)))
            return Aggregates(f"MEDIAN({t}), QUANTILE_CONT({t}, 0.25)", ranks)
        case "filtered":
            return _filtered(subject)
        case "cases":
            return _cases(subject, term)
        case _:
            raise AssertionError(name)


def _filtered(subject: Subject) -> Aggregates:
    """Return an aggregate for every condition on the subject, as a FILTER: all of them in one query."""
    points = Term("t.z", lift(clamp(0, 9), lambda row: row["z"]), Fraction(0), Fraction(9))
    written, parts = [], list[Part]()
    for at, name in enumerate(list_conditions(subject.kind)):
        test = find_condition(name, subject)
        if at % 3 == 2:
            written.append(f"SUM(t.z) FILTER (WHERE {test.sql})")
            parts.append(_within(test, total(points)))
        else:
            written.append(f"COUNT(*) FILTER (WHERE {test.sql})")
            parts.append(_within(test, lambda rows: Fraction(len(rows))))
    return Aggregates(", ".join(written), tuple(parts))


def _within(test: Condition, part: Part) -> Part:
    return lambda rows: part([row for row in rows if test.holds(row)])


def _cases(subject: Subject, term: Term) -> Aggregates:
    v, value, t = subject.sql, subject.value, term.sql
    missing = Term("", lambda row: Fraction(3 if value(row) is None else 1), Fraction(1), Fraction(3))
    filled = Term("", lambda row: term.middle if term.value(row) is None else term.value(row), term.low, term.high)
    doubled = Term("", lift(lambda x: 2 * x + 1, term.value), 2 * term.low + 1, 2 * term.high + 1)
    middle = Fraction(term.middle)
    literal = str(middle.numerator / middle.denominator)
    sql = (
        f"SUM(CASE WHEN {v} IS NULL THEN 3 ELSE 1 END), SUM(COALESCE({t}, {literal})), SUM(2 * ({t}) + 1), "
        f"COUNT(CASE WHEN {v} IS NOT NULL THEN t.z END)"
    )
    there: Part = lambda rows: Fraction(sum(value(row) is not None and row["z"] is not None for row in rows))  # noqa: E731
    return Aggregates(sql, (total(missing), total(filled), total(doubled), there))


def count(term: Term) -> Part:
    return lambda rows: Fraction(len(term.of(rows)))


def total(term: Term) -> Part:
    return lambda rows: sum(term.of(rows), Fraction(0))


def centred(term: Term, power: int) -> Part:
    return lambda rows: sum(((value - term.middle) ** power for value in term.of(rows)), Fraction(0))


def bounded_mean(term: Term) -> Part:
    def measure(rows: Sequence[Row]) -> Fraction:
        return term.middle + centred(term, 1)(rows) / max(len(term.of(rows)), MIN_ROWS)  # S2

    return measure


def quantile(term: Term, p: Fraction) -> Part:
    def measure(rows: Sequence[Row]) -> Fraction:
        values = sorted(term.of(rows))
        if not values:
            return term.middle  # C6
        place = p * (len(values) - 1)
        below = math.floor(place)
        above = min(below + 1, len(values) - 1)
        return values[below] + (place - below) * (values[above] - values[below])

    return measure
