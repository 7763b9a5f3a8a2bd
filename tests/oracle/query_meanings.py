"""Queries drawn together with their meaning, and tables to ask them of.

The oracle knows nothing of the planner: what comes out is SQL, and beside it the same query as Python functions over
rows and exact fractions, written from the definitions (S2, S5, S8, C5–C7).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from fractions import Fraction
from operator import add, mul, sub
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from dosimeter.planning import PlanOptions
from dosimeter.schema import Column, ColumnType, Schema

Row = dict[str, Any]
Value = Callable[[Row], Any]

SLOTS = 15  # declared individuals: a few more than there are rows
CITIES = ("Bonn", "Köln", "O'Hara")
FIRST, LAST = date(2020, 1, 30), date(2020, 2, 2)
SCHEMA = Schema(
    table="people",
    individuals=SLOTS,
    columns={
        "x": Column("x", ColumnType.INTEGER, bounds=(Decimal(-3), Decimal(5))),
        "y": Column("y", ColumnType.INTEGER, bounds=(Decimal(2), Decimal(7))),
        "pay": Column("pay", ColumnType.DECIMAL, bounds=(Decimal("-1.5"), Decimal("2.25")), resolution=Decimal("0.05")),
        "city": Column("city", ColumnType.CATEGORY, values=CITIES),
        "member": Column("member", ColumnType.BOOLEAN),
        "born": Column("born", ColumnType.DATE, bounds=(FIRST, LAST)),
    },
)
ARROW = pa.schema(
    [
        ("x", pa.int64()),
        ("y", pa.int64()),
        ("pay", pa.float64()),
        ("city", pa.string()),
        ("member", pa.bool_()),
        ("born", pa.date32()),
    ]
)


# ---------------------------------------------------------------- the world


def maybe(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(st.none(), values, values, values)


# Values beyond the bounds, ties of the grid (0.025, 0.125 …) and duplicates are the rule here, not the exception.
PAYS = st.one_of(
    st.integers(-40, 60).map(lambda steps: steps / 20),
    st.integers(-80, 120).map(lambda steps: steps / 40),
    st.floats(-3.0, 4.0, allow_nan=False),
)
ROWS = st.fixed_dictionaries(
    {
        "x": maybe(st.integers(-6, 8)),
        "y": maybe(st.integers(0, 9)),
        "pay": maybe(PAYS),
        "city": maybe(st.sampled_from([*CITIES, "Nowhere"])),
        "member": maybe(st.booleans()),
        "born": maybe(st.dates(date(2020, 1, 28), date(2020, 2, 4))),
    }
)
TABLES = st.one_of(
    st.lists(ROWS, max_size=12),
    st.lists(ROWS, min_size=1, max_size=3).flatmap(lambda kinds: st.lists(st.sampled_from(kinds), max_size=12)),
)


# ---------------------------------------------------------------- expressions with their meaning


@dataclass(frozen=True)
class Term:
    """A numeric expression: its SQL, its exact value for a row (clamped and on the grid, C5), its bounds."""

    sql: str
    value: Value
    low: Fraction
    high: Fraction


def snap(value: float | None) -> Fraction | None:
    if value is None:
        return None
    if value < -1.5:
        return Fraction(-3, 2)
    if value > 2.25:
        return Fraction(9, 4)
    return math.floor(value / 0.05 + 0.5) * Fraction(1, 20)  # S8, in doubles


def clamp(value: int | None, low: int, high: int) -> Fraction | None:
    return None if value is None else Fraction(min(max(value, low), high))


def lift(function: Callable[..., Any], *parts: Value) -> Value:
    """A function that gives NULL when an argument is NULL."""

    def apply(row: Row) -> Any:
        values = [part(row) for part in parts]
        return None if any(value is None for value in values) else function(*values)

    return apply


COLUMNS = (
    Term("x", lambda row: clamp(row["x"], -3, 5), Fraction(-3), Fraction(5)),
    Term("y", lambda row: clamp(row["y"], 2, 7), Fraction(2), Fraction(7)),
    Term("pay", lambda row: snap(row["pay"]), Fraction(-3, 2), Fraction(9, 4)),
)


@dataclass(frozen=True)
class Condition:
    """A condition: its SQL and what it gives for a row: True, False or None."""

    sql: str
    value: Value


def negate(test: Condition) -> Condition:
    return Condition(f"NOT ({test.sql})", lift(lambda value: not value, test.value))


def both(a: Condition, b: Condition) -> Condition:
    def value(row: Row) -> bool | None:
        left, right = a.value(row), b.value(row)
        return False if left is False or right is False else None if None in (left, right) else True

    return Condition(f"({a.sql}) AND ({b.sql})", value)


def either(a: Condition, b: Condition) -> Condition:
    return Condition(f"({a.sql}) OR ({b.sql})", negate(both(negate(a), negate(b))).value)


def compare(column: str, operator: str, constant: Any, text: str) -> Condition:
    operations: dict[str, Callable[[Any, Any], bool]] = {
        "=": lambda a, b: a == b,
        "<>": lambda a, b: a != b,
        "<": lambda a, b: a < b,
        ">=": lambda a, b: a >= b,
    }
    return Condition(
        f"{column} {operator} {text}", lift(lambda a: operations[operator](a, constant), lambda row: row[column])
    )


def read(column: str) -> Value:
    return lambda row: row[column]


AT_LEAST_3 = Condition("y >= 3", lift(lambda y: y >= 3, read("y")))
AT_MOST_X = Condition("y <= x", lift(lambda y, x: y <= x, read("y"), read("x")))
SIMPLE_TESTS = st.one_of(
    st.builds(lambda o, c: compare("x", o, c, str(c)), st.sampled_from(["=", "<>", "<", ">="]), st.integers(-6, 8)),
    st.builds(lambda o, c: compare("pay", o, c, str(c)), st.sampled_from(["<", ">="]), st.sampled_from([0.05, 1.5])),
    st.sampled_from([*CITIES, "Nowhere"]).map(lambda c: compare("city", "=", c, "'" + c.replace("'", "''") + "'")),
    st.sampled_from(
        [
            Condition("member", read("member")),
            Condition("city IS NULL", lambda row: row["city"] is None),
            Condition("born >= '2020-02-01'", lift(lambda day: day >= date(2020, 2, 1), read("born"))),
            Condition("x IN (1, 2, NULL)", lift(lambda x: True if x in (1, 2) else None, read("x"))),
            Condition("y BETWEEN 3 AND x", both(AT_LEAST_3, AT_MOST_X).value),
            Condition("city LIKE '%o%'", lift(lambda city: "o" in city, read("city"))),
        ]
    ),
)
TESTS = st.recursive(
    SIMPLE_TESTS,
    lambda inner: st.one_of(inner.map(negate), st.builds(both, inner, inner), st.builds(either, inner, inner)),
    max_leaves=3,
)


def constant(text: str) -> Term:
    value = Fraction(Decimal(text))
    return Term(text, lambda row: value, value, value)


def combine(a: Term, operator: str, b: Term) -> Term:
    operation = {"+": add, "-": sub, "*": mul}[operator]
    corners = [operation(u, v) for u in (a.low, a.high) for v in (b.low, b.high)]
    return Term(f"({a.sql}) {operator} ({b.sql})", lift(operation, a.value, b.value), min(corners), max(corners))


def absolute(term: Term) -> Term:
    ends = sorted((abs(term.low), abs(term.high)))
    low = Fraction(0) if term.low <= 0 <= term.high else ends[0]
    return Term(f"ABS({term.sql})", lift(abs, term.value), low, ends[1])


def choose(test: Condition, a: Term, b: Term | None) -> Term:
    def value(row: Row) -> Any:
        if test.value(row) is True:
            return a.value(row)
        return b.value(row) if b is not None else None

    tail = f" ELSE {b.sql}" if b is not None else ""
    low, high = (min(a.low, b.low), max(a.high, b.high)) if b is not None else (a.low, a.high)
    return Term(f"CASE WHEN {test.sql} THEN {a.sql}{tail} END", value, low, high)


def coalesce(a: Term, b: Term) -> Term:
    def value(row: Row) -> Any:
        first = a.value(row)
        return b.value(row) if first is None else first

    return Term(f"COALESCE({a.sql}, {b.sql})", value, min(a.low, b.low), max(a.high, b.high))


LEAVES = st.one_of(
    st.sampled_from(COLUMNS),
    st.sampled_from(COLUMNS),
    st.sampled_from(["2", "0.5", "3", "0.25"]).map(constant),
)
TERMS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(combine, inner, st.sampled_from("+-*"), inner),
        inner.map(absolute),
        inner.map(lambda term: combine(constant("0"), "-", term)),
        st.builds(choose, TESTS, inner, st.one_of(st.none(), inner)),
        st.builds(coalesce, inner, inner),
    ),
    max_leaves=3,
).filter(lambda term: term.low < term.high)
SIMPLE_TERMS = st.one_of(st.sampled_from(COLUMNS), TERMS)


# ---------------------------------------------------------------- aggregates with their meaning


@dataclass(frozen=True)
class Part:
    """One measured number per group: its name (same name, same number: N3), itself, and its own Δ (S1–S3)."""

    name: str
    measure: Callable[[Sequence[Row]], Fraction | float]
    delta: Fraction | float


@dataclass(frozen=True)
class Aggregate:
    sql: str
    parts: tuple[Part, ...]


def present(value: Value, rows: Sequence[Row]) -> list[Any]:
    return [value(row) for row in rows if value(row) is not None]


def middle(term: Term) -> Fraction:
    return (term.low + term.high) / 2


def width(term: Term) -> Fraction:
    return term.high - term.low


def mean(term: Term) -> Callable[[Sequence[Row]], Fraction]:
    def measure(rows: Sequence[Row]) -> Fraction:
        values = present(term.value, rows)
        return sum(values, Fraction(0)) / len(values) if values else middle(term)  # C6

    return measure


def variance(term: Term) -> Callable[[Sequence[Row]], Fraction]:
    def measure(rows: Sequence[Row]) -> Fraction:
        values = present(term.value, rows)
        if not values:
            return Fraction(0)  # C6
        average = sum(values, Fraction(0)) / len(values)
        return sum(((value - average) ** 2 for value in values), Fraction(0)) / len(values)

    return measure


def mean_with_floor(term: Term, floor: int) -> Callable[[Sequence[Row]], Fraction]:
    def measure(rows: Sequence[Row]) -> Fraction:
        values = present(term.value, rows)
        spread = sum((value - middle(term) for value in values), Fraction(0))
        return middle(term) + spread / max(len(values), floor)  # S2

    return measure


def quantile(term: Term, fraction: Fraction) -> Callable[[Sequence[Row]], Fraction]:
    def measure(rows: Sequence[Row]) -> Fraction:
        values = sorted(present(term.value, rows))
        if not values:
            return middle(term)  # C6
        place = fraction * (len(values) - 1)
        below = math.floor(place)
        above = min(below + 1, len(values) - 1)
        return Fraction(values[below] + (place - below) * (values[above] - values[below]))

    return measure


def total(value: Value) -> Callable[[Sequence[Row]], Fraction]:
    return lambda rows: sum(present(value, rows), Fraction(0))


def count(value: Value) -> Callable[[Sequence[Row]], Fraction]:
    return lambda rows: Fraction(len(present(value, rows)))


def filtered(term: Term, test: Condition | None) -> Term:
    return term if test is None else choose(test, term, None)


def suffix(test: Condition | None) -> str:
    return "" if test is None else f" FILTER (WHERE {test.sql})"


def make_count_star(test: Condition | None) -> Aggregate:
    def measure(rows: Sequence[Row]) -> Fraction:
        return Fraction(sum(test is None or test.value(row) is True for row in rows))

    sql = "COUNT(*)" + suffix(test)
    return Aggregate(sql, (Part(sql, measure, 1),))


def make_count(term: Term, test: Condition | None) -> Aggregate:
    name = f"count {filtered(term, test).sql}"
    return Aggregate(f"COUNT({term.sql})" + suffix(test), (Part(name, count(filtered(term, test).value), 1),))


def make_count_distinct(column: str, test: Condition | None) -> Aggregate:
    def measure(rows: Sequence[Row]) -> Fraction:
        kept = [row for row in rows if test is None or test.value(row) is True]
        return Fraction(len({row[column] for row in kept if row[column] is not None}))

    sql = f"COUNT(DISTINCT {column})" + suffix(test)
    return Aggregate(sql, (Part(sql, measure, 1),))


def make_sum(term: Term, test: Condition | None) -> Aggregate:
    inner = filtered(term, test)
    part = Part(f"sum {inner.sql}", total(inner.value), max(abs(inner.low), abs(inner.high)))
    return Aggregate(f"SUM({term.sql})" + suffix(test), (part,))


def make_quantile(
    sql: str, fraction: Fraction, term: Term, test: Condition | None, options: PlanOptions | None = None
) -> Aggregate:
    """An order statistic: by ranks the exact answer may move by the whole width (R12), with noise it is S3."""
    inner = filtered(term, test)
    by_ranks = options is None or options.by_ranks
    delta = (Fraction(1) if by_ranks else max(fraction, 1 - fraction)) * width(inner)
    part = Part(f"quantile {fraction} {inner.sql}", quantile(inner, fraction), delta)
    return Aggregate(sql.format(term.sql) + suffix(test), (part,))


def make_moments(kind: str, term: Term, test: Condition | None, options: PlanOptions) -> Aggregate:
    """AVG, VAR_POP, STDDEV_POP: through sums, with a floor on rows, or as one number (S2, S7)."""
    inner = filtered(term, test)
    sql = f"{kind}({term.sql})" + suffix(test)
    if options.sensitivity is not None:
        measures: dict[str, Callable[[Sequence[Row]], Fraction | float]] = {
            "AVG": mean(inner),
            "VAR_POP": variance(inner),
            "STDDEV_POP": lambda rows: math.sqrt(variance(inner)(rows)),
        }
        return Aggregate(sql, (Part(sql, measures[kind], options.sensitivity),))
    if kind == "AVG" and options.min_rows is not None:
        delta = width(inner) / (options.min_rows + 1)
        return Aggregate(sql, (Part(sql, mean_with_floor(inner, options.min_rows), delta),))
    half = width(inner) / 2
    parts = [
        Part(f"count {inner.sql}", count(inner.value), 1),
        Part(f"centred {inner.sql}", total(lift(lambda v: v - middle(inner), inner.value)), half),
    ]
    if kind != "AVG":
        squares = total(lift(lambda v: (v - middle(inner)) ** 2, inner.value))
        parts.append(Part(f"squares {inner.sql}", squares, half**2))
    return Aggregate(sql, tuple(parts))


def draw_aggregates(options: PlanOptions) -> st.SearchStrategy[Aggregate]:
    tests = st.one_of(st.none(), st.none(), TESTS)
    spread = SIMPLE_TERMS
    return st.one_of(
        st.builds(make_count_star, tests),
        st.builds(make_count, spread, tests),
        st.builds(make_count_distinct, st.sampled_from(list(SCHEMA.columns)), tests),
        st.builds(make_sum, spread, tests),
        st.builds(make_quantile, st.just("MIN({})"), st.just(Fraction(0)), spread, tests, st.just(options)),
        st.builds(make_quantile, st.just("MAX({})"), st.just(Fraction(1)), spread, tests, st.just(options)),
        st.builds(make_quantile, st.just("MEDIAN({})"), st.just(Fraction(1, 2)), spread, tests, st.just(options)),
        st.builds(
            make_quantile, st.just("QUANTILE_CONT({}, 0.3)"), st.just(Fraction(3, 10)), spread, tests, st.just(options)
        ),
        st.builds(
            make_quantile,
            st.just("QUANTILE_CONT({}, 0.99)"),
            st.just(Fraction(99, 100)),
            spread,
            tests,
            st.just(options),
        ),
        st.builds(make_moments, st.sampled_from(["AVG", "VAR_POP", "STDDEV_POP"]), spread, tests, st.just(options)),
        st.builds(make_moments, st.just("AVG"), spread, tests, st.just(options)),
    )


# ---------------------------------------------------------------- groups with their meaning


@dataclass(frozen=True)
class Grouping:
    sql: str
    value: Value
    declared: tuple[Any, ...]


GROUPINGS = (
    Grouping("city", lambda row: row["city"], CITIES),
    Grouping("member", lambda row: row["member"], (False, True)),
    Grouping("x", lambda row: row["x"], tuple(range(-3, 6))),
    Grouping("born", lambda row: row["born"], (FIRST, date(2020, 1, 31), date(2020, 2, 1), LAST)),
    Grouping("EXTRACT(MONTH FROM born)", lift(lambda day: day.month, lambda row: row["born"]), tuple(range(1, 13))),
    Grouping("DATE_TRUNC('month', born)", lift(lambda day: day.replace(day=1), lambda row: row["born"]),
             (date(2020, 1, 1), date(2020, 2, 1))),
    Grouping("x // 2", lift(lambda x: int(x / 2), lambda row: row["x"]), (-1, 0, 1, 2)),
    Grouping("CASE WHEN pay > 1 THEN 'high' WHEN pay <= 1 THEN 'low' END",
             lift(lambda pay: "high" if pay > 1 else "low", lambda row: row["pay"]), ("high", "low")),
    Grouping("COALESCE(city, 'none')", lambda row: "none" if row["city"] is None else row["city"],
             tuple(sorted([*CITIES, "none"]))),
)  # fmt: skip


@dataclass(frozen=True)
class Query:
    aggregates: tuple[Aggregate, ...]
    where: Condition | None
    groups: tuple[Grouping, ...]
    options: PlanOptions = field(default_factory=PlanOptions)

    @property
    def sql(self) -> str:
        items = [*(group.sql for group in self.groups), *(aggregate.sql for aggregate in self.aggregates)]
        where = f" WHERE {self.where.sql}" if self.where is not None else ""
        by = f" GROUP BY {', '.join(group.sql for group in self.groups)}" if self.groups else ""
        return f"SELECT {', '.join(items)} FROM people{where}{by}"

    @property
    def parts(self) -> list[Part]:
        return list({part.name: part for aggregate in self.aggregates for part in aggregate.parts}.values())

    def key(self, row: Row) -> tuple[Any, ...]:
        return tuple(group.value(row) for group in self.groups)

    def matches(self, row: Row) -> bool:
        return self.where is None or self.where.value(row) is True

    def keys(self, rows: Sequence[Row]) -> list[tuple[Any, ...]]:
        if self.options.groups == "observed" and self.groups:
            return sorted({self.key(row) for row in rows if self.matches(row)}, key=order_nulls_last)
        keys: list[tuple[Any, ...]] = [()]
        for group in self.groups:
            keys = [(*key, value) for key in keys for value in group.declared]
        return keys

    def measure(self, rows: Sequence[Row], keys: Sequence[tuple[Any, ...]]) -> list[Fraction | float]:
        """The vector q(rows): for each group in order, each part."""
        inside: dict[tuple[Any, ...], list[Row]] = {key: [] for key in keys}
        for row in rows:
            if self.matches(row) and self.key(row) in inside:
                inside[self.key(row)].append(row)
        return [part.measure(inside[key]) for key in keys for part in self.parts]


def order_nulls_last(key: tuple[Any, ...]) -> list[tuple[bool, Any]]:
    return [(value is None, value) for value in key]


@st.composite
def queries(draw: st.DrawFn) -> Query:
    options = draw(
        st.sampled_from(
            [
                PlanOptions(),
                PlanOptions(quantiles="noise"),
                PlanOptions(groups="observed"),
                PlanOptions(min_rows=3),
                PlanOptions(sensitivity=0.75),
                PlanOptions(sensitivity=2.0, groups="observed"),
            ]
        )
    )
    aggregates = draw(st.lists(draw_aggregates(options), min_size=1, max_size=3))
    where = draw(st.one_of(st.none(), TESTS))
    groups = draw(st.lists(st.sampled_from(GROUPINGS), max_size=2, unique_by=lambda group: group.sql))
    return Query(tuple(aggregates), where, tuple(groups), options)
