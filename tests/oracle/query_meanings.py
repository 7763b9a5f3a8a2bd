"""Queries drawn together with their meaning, and tables to ask them of: everybody is a row, or has many.

The oracle knows nothing of the planner: what comes out is SQL, and beside it the same query as Python functions over
rows and exact fractions, written from the definitions (S1–S5, S8, C5–C7). Which rows of an individual count it finds
itself (``tests/rows_that_count.py``). Columns bear names that our own queries use inside.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from fractions import Fraction
from functools import partial
from operator import add, mul, sub
from typing import Any

from hypothesis import strategies as st

from dosimeter.mechanisms import Norm
from dosimeter.planning import PlanOptions
from tests.oracle.visits import COLUMNS, DECLARED, FIRST, GROUPS, LAST, Row

Value = Callable[[Row], Any]
Vector = tuple[float, ...]

# ---------------------------------------------------------------- expressions with their meaning


@dataclass(frozen=True)
class Term:
    """A numeric expression: its SQL, its exact value for a row (clamped and on the grid, C5), its bounds."""

    sql: str
    value: Value
    low: Fraction
    high: Fraction

    @property
    def middle(self) -> Fraction:
        return (self.low + self.high) / 2

    @property
    def width(self) -> Fraction:
        return self.high - self.low

    def of(self, rows: Sequence[Row]) -> list[Fraction]:
        return [value for row in rows if (value := self.value(row)) is not None]


def lift(function: Callable[..., Any], *parts: Value) -> Value:
    """A function that gives NULL when an argument is NULL."""

    def apply(row: Row) -> Any:
        values = [part(row) for part in parts]
        return None if any(value is None for value in values) else function(*values)

    return apply


def read(column: str) -> Value:
    return lambda row: row[column]


def clamp(sql: str, value: Value, low: int, high: int) -> Term:
    """Return a column of whole numbers, clamped to its bounds (C5)."""
    return Term(sql, lift(lambda x: Fraction(min(max(x, low), high)), value), Fraction(low), Fraction(high))


def snap(sql: str, value: Value, low: Fraction, high: Fraction, step: Fraction) -> Term:
    """Return a column of decimals, clamped and put on its grid (S8, in doubles)."""

    def put_on_grid(x: float) -> Fraction:
        return low if x < low else high if x > high else math.floor(x / float(step) + 0.5) * step

    return Term(sql, lift(put_on_grid, value), low, high)


X = clamp("x", read("x"), -3, 5)
Y = clamp("y", read("y"), 2, 7)
PAY = snap("n0", read("n0"), Fraction(-3, 2), Fraction(9, 4), Fraction(1, 20))


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


AT_LEAST_3 = Condition("y >= 3", lift(lambda y: y >= 3, read("y")))
AT_MOST_X = Condition("y <= x", lift(lambda y, x: y <= x, read("y"), read("x")))
SIMPLE_TESTS = st.one_of(
    st.builds(lambda o, c: compare("x", o, c, str(c)), st.sampled_from(["=", "<>", "<", ">="]), st.integers(-6, 8)),
    st.builds(lambda o, c: compare("n0", o, c, str(c)), st.sampled_from(["<", ">="]), st.sampled_from([0.05, 1.5])),
    st.sampled_from([*GROUPS, "Nowhere"]).map(lambda c: compare("grp", "=", c, "'" + c.replace("'", "''") + "'")),
    st.sampled_from(
        [
            Condition("infinite", read("infinite")),
            Condition("grp IS NULL", lambda row: row["grp"] is None),
            Condition("born >= '2020-02-01'", lift(lambda day: day >= date(2020, 2, 1), read("born"))),
            Condition("x IN (1, 2, NULL)", lift(lambda x: True if x in (1, 2) else None, read("x"))),
            Condition("y BETWEEN 3 AND x", both(AT_LEAST_3, AT_MOST_X).value),
            Condition("grp LIKE '%o%'", lift(lambda grp: "o" in grp, read("grp"))),
            Condition("entries % 2 = 0", lift(lambda key: key % 2 == 0, read("entries"))),
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
    st.sampled_from([X, Y, PAY]),
    st.sampled_from([X, Y, PAY]),
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
SIMPLE_TERMS = st.one_of(st.sampled_from([X, Y, PAY]), TERMS)


# ---------------------------------------------------------------- aggregates with their meaning


Measure = Callable[[Sequence[Row]], Fraction | float]
Deltas = Callable[[int, int], tuple[Fraction | float, Fraction | float]]
"""From the rows of an individual that count, and the number of groups, to Δ₁ and Δ₂."""


@dataclass(frozen=True)
class Part:
    """One measured number per group: its name (same name, same number: N3), itself, and its own Δ (S1–S3)."""

    name: str
    measure: Measure
    deltas: Deltas


@dataclass(frozen=True)
class Aggregate:
    sql: str
    parts: tuple[Part, ...]


def each_row(delta: Fraction | float) -> Deltas:
    """Every row of an individual moves one group by as much."""
    return lambda m, groups: (m * delta, m * delta)


def each_group(delta: Callable[[int, int], Fraction | float]) -> Deltas:
    """Whatever rows an individual has in a group, they move it by as much."""

    def deltas(m: int, groups: int) -> tuple[Fraction | float, Fraction | float]:
        moved, by = min(m, groups), delta(m, groups)
        return moved * by, math.sqrt(moved) * by

    return deltas


def mean(term: Term, rows: Sequence[Row]) -> Fraction:
    values = term.of(rows)
    return sum(values, Fraction(0)) / len(values) if values else term.middle  # C6


def variance(term: Term, rows: Sequence[Row]) -> Fraction:
    values, average = term.of(rows), mean(term, rows)
    return sum(((value - average) ** 2 for value in values), Fraction(0)) / max(len(values), 1)  # C6


def quantile(term: Term, fraction: Fraction, rows: Sequence[Row]) -> Fraction:
    values = sorted(term.of(rows))
    if not values:
        return term.middle  # C6
    place = fraction * (len(values) - 1)
    below = math.floor(place)
    above = min(below + 1, len(values) - 1)
    return Fraction(values[below] + (place - below) * (values[above] - values[below]))


def power(term: Term, exponent: int, rows: Sequence[Row]) -> Fraction:
    """Return the sum of powers of the distances from the middle; of exponent 0 the count."""
    return sum(((value - term.middle) ** exponent for value in term.of(rows)), Fraction(0))


def total(term: Term, rows: Sequence[Row]) -> Fraction:
    return sum(term.of(rows), Fraction(0))


def mean_with_floor(term: Term, floor: int, rows: Sequence[Row]) -> Fraction:
    return term.middle + power(term, 1, rows) / max(len(term.of(rows)), floor)  # S2


def filtered(term: Term, test: Condition | None) -> Term:
    return term if test is None else choose(test, term, None)


def suffix(test: Condition | None) -> str:
    return "" if test is None else f" FILTER (WHERE {test.sql})"


def holding(rows: Sequence[Row], test: Condition | None) -> list[Row]:
    return [row for row in rows if test is None or test.value(row) is True]


def make_count_star(test: Condition | None) -> Aggregate:
    sql = "COUNT(*)" + suffix(test)
    return Aggregate(sql, (Part(sql, lambda rows: Fraction(len(holding(rows, test))), each_row(1)),))


def make_count(term: Term, test: Condition | None) -> Aggregate:
    inner = filtered(term, test)
    part = Part(f"count {inner.sql}", lambda rows: power(inner, 0, rows), each_row(1))
    return Aggregate(f"COUNT({term.sql})" + suffix(test), (part,))


def make_count_distinct(column: str, test: Condition | None, most_rows: int = 1) -> Aggregate:
    """Of a column with fewer declared values than rows, only these; an individual is one value (Q3)."""
    declared = DECLARED.get(column, range(99))

    def measure(rows: Sequence[Row]) -> Fraction:
        found = {row[column] for row in holding(rows, test)} - {None}
        return Fraction(len(found & set(declared) if len(declared) < most_rows else found))

    def deltas(m: int, groups: int) -> tuple[Fraction | float, Fraction | float]:
        most = 1 if column == "unit" else min(m, len(declared))
        spread = [min(most, max(m - most * at, 0)) for at in range(groups)]  # as many as fit, group by group
        return sum(spread), math.sqrt(sum(count**2 for count in spread))

    sql = f"COUNT(DISTINCT {column})" + suffix(test)
    return Aggregate(sql, (Part(sql, measure, deltas),))


def make_sum(term: Term, test: Condition | None) -> Aggregate:
    inner = filtered(term, test)
    delta = max(abs(inner.low), abs(inner.high))
    part = Part(f"sum {inner.sql}", partial(total, inner), each_row(delta))
    return Aggregate(f"SUM({term.sql})" + suffix(test), (part,))


def make_quantile(
    sql: str, fraction: Fraction, term: Term, test: Condition | None, options: PlanOptions | None = None
) -> Aggregate:
    """An order statistic: by ranks the exact answer may move by the whole width (R12), with noise it is S3."""
    inner = filtered(term, test)
    by_ranks = options is None or options.by_ranks

    def delta(m: int, groups: int) -> Fraction:
        return (Fraction(1) if by_ranks or m > 1 else max(fraction, 1 - fraction)) * inner.width

    part = Part(f"quantile {fraction} {inner.sql}", lambda rows: quantile(inner, fraction, rows), each_group(delta))
    return Aggregate(sql.format(term.sql) + suffix(test), (part,))


def make_moments(kind: str, term: Term, test: Condition | None, options: PlanOptions) -> Aggregate:
    """AVG, VAR_POP, STDDEV_POP: through sums, with a floor on rows, or as one number (S2, S7)."""
    inner, floor, by_hand = filtered(term, test), options.min_rows, options.sensitivity
    sql = f"{kind}({term.sql})" + suffix(test)
    if by_hand is not None:
        measures: dict[str, Measure] = {
            "AVG": lambda rows: mean(inner, rows),
            "VAR_POP": lambda rows: variance(inner, rows),
            "STDDEV_POP": lambda rows: math.sqrt(variance(inner, rows)),
        }
        return Aggregate(sql, (Part(sql, measures[kind], lambda m, groups: (by_hand, by_hand)),))
    if kind == "AVG" and floor is not None:

        def deltas(m: int, groups: int) -> tuple[Fraction, Fraction]:
            delta = m * inner.width / (floor + (m if groups == 1 else 1))
            return delta, delta

        return Aggregate(sql, (Part(sql, partial(mean_with_floor, inner, floor), deltas),))
    names = ["count", "centred"] if kind == "AVG" else ["count", "centred", "squares"]
    return Aggregate(
        sql,
        tuple(
            Part(f"{name} {inner.sql}", partial(power, inner, exponent), each_row((inner.width / 2) ** exponent))
            for exponent, name in enumerate(names)
        ),
    )


RANKS = {
    "MIN({})": Fraction(0),
    "MAX({})": Fraction(1),
    "MEDIAN({})": Fraction(1, 2),
    "QUANTILE_CONT({}, 0.3)": Fraction(3, 10),
    "QUANTILE_CONT({}, 0.99)": Fraction(99, 100),
}
MOMENTS = ("AVG", "VAR_POP", "STDDEV_POP")


def draw_kinds(options: PlanOptions, most_rows: int = 1) -> dict[str, st.SearchStrategy[Aggregate]]:
    """Return how an aggregate of each kind is drawn."""
    tests = st.one_of(st.none(), st.none(), TESTS)
    fixed = st.just(options)
    return {
        "COUNT(*)": st.builds(make_count_star, tests),
        "COUNT": st.builds(make_count, SIMPLE_TERMS, tests),
        "COUNT DISTINCT": st.builds(make_count_distinct, st.sampled_from(list(COLUMNS)), tests, st.just(most_rows)),
        "SUM": st.builds(make_sum, SIMPLE_TERMS, tests),
        **{
            sql: st.builds(make_quantile, st.just(sql), st.just(p), SIMPLE_TERMS, tests, fixed)
            for sql, p in RANKS.items()
        },
        **{kind: st.builds(make_moments, st.just(kind), SIMPLE_TERMS, tests, fixed) for kind in MOMENTS},
    }


CHOSEN = {
    **{f"{kind} by hand": (kind, PlanOptions(quantiles="noise", sensitivity=0.75)) for kind in MOMENTS},
    "AVG of many": ("AVG", PlanOptions(quantiles="noise", min_rows=3)),
}
KINDS = (*draw_kinds(PlanOptions()), *CHOSEN)


# ---------------------------------------------------------------- groups with their meaning


@dataclass(frozen=True)
class Grouping:
    sql: str
    value: Value
    declared: tuple[Any, ...] = ()


GROUPINGS = (
    Grouping("grp", read("grp"), GROUPS),
    Grouping("infinite", read("infinite"), (False, True)),
    Grouping("x", read("x"), tuple(range(-3, 6))),
    Grouping("born", read("born"), (FIRST, date(2020, 1, 31), date(2020, 2, 1), LAST)),
    Grouping("EXTRACT(MONTH FROM born)", lift(lambda day: day.month, read("born")), tuple(range(1, 13))),
    Grouping("DATE_TRUNC('month', born)", lift(lambda day: day.replace(day=1), read("born")),
             (date(2020, 1, 1), date(2020, 2, 1))),
    Grouping("x // 2", lift(lambda x: int(x / 2), read("x")), (-1, 0, 1, 2)),
    Grouping("CASE WHEN n0 > 1 THEN 'high' WHEN n0 <= 1 THEN 'low' END",
             lift(lambda n0: "high" if n0 > 1 else "low", read("n0")), ("high", "low")),
    Grouping("COALESCE(grp, 'none')", lambda row: "none" if row["grp"] is None else row["grp"],
             tuple(sorted([*GROUPS, "none"]))),
)  # fmt: skip


@dataclass(frozen=True)
class Query:
    """A query: its SQL, and its meaning. ``m``: how many rows of an individual count; None: everybody is a row.

    ``source``: what stands in FROM, whose rows are given joined already. ``unit``: the column of individuals.
    """

    aggregates: tuple[Aggregate, ...]
    where: Condition | None
    groups: tuple[Grouping, ...]
    options: PlanOptions = field(default_factory=PlanOptions)
    m: int | None = None
    source: str = "visits"
    unit: str = "unit"

    @property
    def sql(self) -> str:
        items = [*(group.sql for group in self.groups), *(aggregate.sql for aggregate in self.aggregates)]
        where = f" WHERE {self.where.sql}" if self.where is not None else ""
        if not self.aggregates:
            return f"SELECT DISTINCT {', '.join(items)} FROM {self.source}{where}"
        by = f" GROUP BY {', '.join(group.sql for group in self.groups)}" if self.groups else ""
        return f"SELECT {', '.join(items)} FROM {self.source}{where}{by}"

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

    def weigh(self, norm: Norm) -> tuple[list[float], float]:
        """Return what each number is multiplied with (S5), and Δ of the whole vector."""
        groups = math.prod(len(group.declared) for group in self.groups)
        deltas = [float(part.deltas(self.m or 1, groups)[norm - 1]) for part in self.parts]
        if self.options.sensitivity is not None or len(deltas) == 1:
            return [1.0] * len(deltas), float(self.options.sensitivity or deltas[0])
        return [1.0 / delta for delta in deltas], float(len(deltas)) if norm == 1 else math.sqrt(len(deltas))

    def leave_out(
        self, rows: Sequence[Row], norm: Norm, keys: Sequence[tuple[Any, ...]] | None = None
    ) -> dict[Any, Vector]:
        """Return everybody's contribution (N1), by really leaving out their rows, of those that count.

        Who has one row has its place for a name.
        """
        keys = self.keys(rows) if keys is None else keys
        weights, _ = self.weigh(norm)
        names = [at if self.m is None else row[self.unit] for at, row in enumerate(rows)]
        whole, found = self.measure(rows, keys), {}
        for who in dict.fromkeys(names):
            left = self.measure([row for name, row in zip(names, rows, strict=True) if name != who], keys)
            found[who] = tuple(
                float(before - after) * weights[at % len(weights)]
                for at, (before, after) in enumerate(zip(whole, left, strict=True))
            )
        return found


def order_nulls_last(key: tuple[Any, ...]) -> list[tuple[bool, Any]]:
    return [(value is None, value) for value in key]


BY_ROW = (
    PlanOptions(),
    PlanOptions(quantiles="noise"),
    PlanOptions(groups="observed"),
    PlanOptions(min_rows=3),
    PlanOptions(sensitivity=0.75),
    PlanOptions(sensitivity=2.0, groups="observed"),
)
BY_UNIT = (
    PlanOptions(quantiles="noise"),
    PlanOptions(quantiles="noise", min_rows=1),
    PlanOptions(quantiles="noise", min_rows=4),
    PlanOptions(quantiles="noise", sensitivity=0.75),
)


@st.composite
def queries(draw: st.DrawFn, *, by_unit: bool = False, kind: str | None = None) -> Query:
    """Draw a query, of rows or individuals with up to five; ``kind``: what its first aggregate is."""
    m = draw(st.integers(1, 5)) if by_unit else None
    options = draw(st.sampled_from(BY_UNIT if by_unit else BY_ROW))
    if kind in CHOSEN:
        kind, options = CHOSEN[kind]
    kinds = draw_kinds(options, m or 1)
    more = draw(st.lists(st.one_of(*kinds.values()), min_size=0 if kind else 1, max_size=2 if kind else 3))
    aggregates = [draw(kinds[kind]), *more] if kind else more
    where = draw(st.one_of(st.none(), TESTS))
    groups = draw(st.lists(st.sampled_from(GROUPINGS), max_size=2, unique_by=lambda group: group.sql))
    return Query(tuple(aggregates), where, tuple(groups), options, m)
