"""Individuals with many rows, and what is asked of them, with its meaning.

The oracle knows nothing of the planner. It finds the rows that count itself (``tests/rows_that_count.py``), measures by
definitions written out here in exact fractions (S1–S5, S8, C5–C7), and deletes everybody in turn. The table's columns
bear the names our own queries use inside.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import strategies as st

from dosimeter import Dataset
from dosimeter.assessment import Risk
from dosimeter.influence.contributions import Contributions
from tests.rows_that_count import rows_that_count

Row = dict[str, Any]
Vector = tuple[float, ...]
SLOTS = 9  # declared individuals: more than there are
GROUPS = ("A", "B", "O'C")
DECLARED: dict[str, Sequence[Any]] = {"grp": GROUPS}
"""The declared values of columns that queries count different values of."""
TEXT_UNITS = ("ann", "Änn", "a:1", "1", "", "bob\\")
COLUMNS: dict[str, dict[str, Any]] = {
    "unit": {"type": "text"},
    "entries": {"type": "integer"},
    "x": {"type": "integer", "bounds": [-3, 5]},
    "n0": {"type": "decimal", "bounds": [-1.5, 2.25], "resolution": 0.05},
    "grp": {"type": "category", "values": list(GROUPS)},
    "infinite": {"type": "boolean"},
}
ARROW = pa.schema(
    [
        ("unit", pa.string()),
        ("entries", pa.int64()),
        ("x", pa.int64()),
        ("n0", pa.float64()),
        ("grp", pa.string()),
        ("infinite", pa.bool_()),
    ]
)


def draw_rows(seed: int) -> list[Row]:
    """Up to 14 rows of up to 5 individuals; the row key is unique within an individual, and repeats between them."""
    chance = random.Random(seed)
    units = chance.sample(TEXT_UNITS, chance.choice([1, 3, 4, 5]))
    keys = {unit: chance.sample(range(-5, 10), 15) for unit in units}

    def some(values: Sequence[Any]) -> Any:
        return None if chance.random() < 0.15 else chance.choice(values)

    return [
        {
            "unit": (unit := chance.choice(units)),
            "entries": keys[unit].pop(),
            "x": some(range(-5, 8)),
            "n0": some([steps / 40 for steps in range(-80, 120)]),
            "grp": some([*GROUPS, *GROUPS, "Nowhere"]),
            "infinite": some([True, False]),
        }
        for _ in range(chance.choice([0, 1, 2, 6, 9, 12, 14, 14]))
    ]


def tables() -> st.SearchStrategy[list[Row]]:
    """Dense tables, not lists that Hypothesis would rather keep short."""
    return st.integers(0, 2**32).map(draw_rows)


def kept_rows(rows: Iterable[Row], m: int, columns: Mapping[str, Any] = COLUMNS, unit: str = "unit") -> list[Row]:
    """Return at most m rows of each individual: those that count (N6)."""
    return rows_that_count(rows, columns, unit, m)


# ---------------------------------------------------------------- aggregates with their meaning


@dataclass(frozen=True)
class Number:
    """One measured number of a group: what it is, its value over the group's rows, its sensitivity and its grid."""

    key: tuple[Any, ...]
    value: Callable[[Sequence[Row]], Fraction]
    delta_1: float
    delta_2: float
    grid: Fraction | None


@dataclass(frozen=True)
class Term:
    """A numeric argument, clamped and on its grid (C5, S8)."""

    sql: str
    value: Callable[[Row], Fraction | None]
    low: Fraction
    high: Fraction
    step: Fraction

    @property
    def middle(self) -> Fraction:
        return (self.low + self.high) / 2

    @property
    def width(self) -> Fraction:
        return self.high - self.low

    def of(self, rows: Sequence[Row]) -> list[Fraction]:
        return [value for row in rows if (value := self.value(row)) is not None]


def clamp_x(row: Row) -> Fraction | None:
    return None if row["x"] is None else Fraction(min(max(row["x"], -3), 5))


def snap(row: Row) -> Fraction | None:
    value = row["n0"]
    if value is None:
        return None
    return Fraction(-3, 2) if value < -1.5 else Fraction(9, 4) if value > 2.25 else steps(value)


def steps(value: float) -> Fraction:
    return math.floor(value / 0.05 + 0.5) * Fraction(1, 20)


X = Term("x", clamp_x, Fraction(-3), Fraction(5), Fraction(1))
PAY = Term("n0", snap, Fraction(-3, 2), Fraction(9, 4), Fraction(1, 20))
TERMS = st.sampled_from([X, PAY])


def quantile(values: Sequence[Fraction], p: Fraction, empty: Fraction) -> Fraction:
    if not values:
        return empty
    ordered = sorted(values)
    position = p * (len(ordered) - 1)
    low = math.floor(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (position - low) * (ordered[high] - ordered[low])


@dataclass(frozen=True)
class World:
    """What sensitivities depend on: rows per individual, groups, and the rows publicly known to match."""

    m: int
    groups: int
    min_rows: int | None

    def count(self, term: Term | None = None) -> Number:
        counted = (lambda rows: Fraction(len(rows))) if term is None else (lambda rows: Fraction(len(term.of(rows))))
        return Number(("count", term and term.sql), counted, self.m, self.m, Fraction(1))

    def holding(self, condition: Condition) -> Number:
        text, holds = condition
        return Number(("count if", text), lambda rows: Fraction(sum(map(holds, rows))), self.m, self.m, Fraction(1))

    def distinct(self, column: str) -> Number:
        """Of a group column with fewer declared values than rows, only these; an individual is one value (Q3)."""
        declared = DECLARED.get(column)
        listed = declared if declared is not None and len(declared) < self.m else None

        def value(rows: Sequence[Row]) -> Fraction:
            found = {row[column] for row in rows if row[column] is not None}
            return Fraction(len(found if listed is None else found & set(listed)))

        most = 1 if column == "unit" else self.m if listed is None else len(listed)
        spread = [min(most, max(self.m - most * at, 0)) for at in range(self.groups)]  # as many as fit, group by group
        size = math.sqrt(sum(count**2 for count in spread))
        return Number(("distinct", column), value, sum(spread), size, Fraction(1))

    def total(self, term: Term) -> Number:
        delta = float(self.m * max(abs(term.low), abs(term.high)))
        return Number(("sum", term.sql), lambda rows: sum(term.of(rows), Fraction(0)), delta, delta, term.step)

    def power(self, term: Term, power: int) -> Number:
        def value(rows: Sequence[Row]) -> Fraction:
            return sum(((v - term.middle) ** power for v in term.of(rows)), Fraction(0))

        delta = float(self.m * (term.width / 2) ** power)
        return Number(("power", power, term.sql), value, delta, delta, (term.step / 2) ** power)

    def mean(self, term: Term) -> list[Number]:
        if self.min_rows is None:
            return [self.count(term), self.power(term, 1)]
        floor = self.min_rows

        def value(rows: Sequence[Row]) -> Fraction:
            values = term.of(rows)
            centred = sum((v - term.middle for v in values), Fraction(0))
            return term.middle + centred / max(len(values), floor)

        delta = float(self.m * term.width / (floor + (self.m if self.groups == 1 else 1)))
        return [Number(("mean", term.sql), value, delta, delta, None)]

    def rank(self, term: Term, p: Fraction) -> Number:
        share = max(p, 1 - p) if self.m == 1 else Fraction(1)
        moved = min(self.m, self.groups)
        delta = float(share * term.width)
        half = term.step if (term.middle / term.step).denominator == 1 else term.step / 2
        return Number(
            ("quantile", p, term.sql), lambda rows: quantile(term.of(rows), p, term.middle),
            moved * delta, math.sqrt(moved) * delta, half if p in (0, 1) else None,
        )  # fmt: skip


Condition = tuple[str, Callable[[Row], bool]]
CONDITIONS: list[Condition] = [
    ("x >= 1", lambda row: row["x"] is not None and row["x"] >= 1),
    ("x > 100", lambda row: False),
    ("infinite", lambda row: row["infinite"] is True),
    ("grp <> 'A'", lambda row: row["grp"] is not None and row["grp"] != "A"),
    ("n0 < 0 OR grp IS NULL", lambda row: row["grp"] is None or (row["n0"] is not None and row["n0"] < 0)),
    ("entries % 2 = 0", lambda row: row["entries"] % 2 == 0),
]
Aggregate = tuple[str, Callable[[World], list[Number]]]
AGGREGATES: dict[str, st.SearchStrategy[Aggregate]] = {
    "COUNT(*)": st.just(("COUNT(*)", lambda w: [w.count()])),
    "COUNT": TERMS.map(lambda t: (f"COUNT({t.sql})", lambda w: [w.count(t)])),
    "COUNT_IF": st.sampled_from(CONDITIONS).map(lambda c: (f"COUNT_IF({c[0]})", lambda w: [w.holding(c)])),
    "COUNT DISTINCT": st.sampled_from(["x", "n0", "grp", "entries", "unit"]).map(
        lambda column: (f"COUNT(DISTINCT {column})", lambda w: [w.distinct(column)])
    ),
    "SUM": TERMS.map(lambda t: (f"SUM({t.sql})", lambda w: [w.total(t)])),
    "AVG": TERMS.map(lambda t: (f"AVG({t.sql})", lambda w: w.mean(t))),
    "MIN": TERMS.map(lambda t: (f"MIN({t.sql})", lambda w: [w.rank(t, Fraction(0))])),
    "MAX": TERMS.map(lambda t: (f"MAX({t.sql})", lambda w: [w.rank(t, Fraction(1))])),
    "MEDIAN": TERMS.map(lambda t: (f"MEDIAN({t.sql})", lambda w: [w.rank(t, Fraction(1, 2))])),
    "QUANTILE_CONT": st.tuples(TERMS, st.sampled_from(["0.1", "0.25", "0.9"])).map(
        lambda drawn: (
            f"QUANTILE_CONT({drawn[0].sql}, {drawn[1]})",
            lambda w: [w.rank(drawn[0], Fraction(drawn[1]))],
        )
    ),
    "VAR_POP": TERMS.map(lambda t: (f"VAR_POP({t.sql})", lambda w: [w.count(t), w.power(t, 1), w.power(t, 2)])),
    "STDDEV_POP": TERMS.map(lambda t: (f"STDDEV_POP({t.sql})", lambda w: [w.count(t), w.power(t, 1), w.power(t, 2)])),
}
Grouping = tuple[str, tuple[Any, ...], Callable[[Row], Any]]
GROUPINGS: list[Grouping] = [
    ("grp", GROUPS, lambda row: row["grp"]),
    ("x", tuple(range(-3, 6)), lambda row: row["x"]),
    ("infinite", (False, True), lambda row: row["infinite"]),
    ("x > 2", (False, True), lambda row: None if row["x"] is None else row["x"] > 2),
]


@dataclass(frozen=True)
class Question:
    """A query: its SQL, and its meaning."""

    aggregates: tuple[Aggregate, ...]
    where: Condition | None
    groupings: tuple[Grouping, ...]
    min_rows: int | None

    @property
    def sql(self) -> str:
        names = [name for name, _, _ in self.groupings]
        text = f"SELECT {', '.join([*names, *(sql for sql, _ in self.aggregates)])} FROM visits"
        text += f" WHERE {self.where[0]}" if self.where else ""
        return text + (f" GROUP BY {', '.join(names)}" if names else "")

    @property
    def group_keys(self) -> list[tuple[Any, ...]]:
        keys: list[tuple[Any, ...]] = [()]
        for _, values, _ in self.groupings:
            keys = [(*key, value) for key in keys for value in values]
        return keys

    def numbers(self, m: int) -> list[Number]:
        world = World(m, len(self.group_keys), self.min_rows)
        found = {number.key: number for _, meaning in self.aggregates for number in meaning(world)}
        return list(found.values())

    def measure(self, rows: Sequence[Row], m: int) -> list[list[Fraction]]:
        """The vector that gets noise, a row per declared group."""
        matching = [row for row in rows if self.where is None or self.where[1](row)]
        members: dict[tuple[Any, ...], list[Row]] = {key: [] for key in self.group_keys}
        for row in matching:
            key = tuple(value(row) for _, _, value in self.groupings)
            if key in members:
                members[key].append(row)
        numbers = self.numbers(m)
        return [[number.value(own) for number in numbers] for own in members.values()]


MORE = st.one_of(st.just(()), st.lists(st.one_of(*AGGREGATES.values()), min_size=1, max_size=2).map(tuple))
QUESTIONS = st.builds(
    Question,
    aggregates=st.tuples(st.one_of(*AGGREGATES.values()), MORE).map(lambda drawn: (drawn[0], *drawn[1])),
    where=st.one_of(st.none(), st.none(), st.sampled_from(CONDITIONS)),
    groupings=st.one_of(
        st.just(()),
        st.sampled_from(GROUPINGS).map(lambda grouping: (grouping,)),
        st.lists(st.sampled_from(GROUPINGS[:3]), min_size=2, max_size=2, unique_by=lambda g: g[0]).map(tuple),
    ),
    min_rows=st.sampled_from([None, 1, 4]),
)


# ---------------------------------------------------------------- leaving everybody out


def weigh(question: Question, m: int, norm: int) -> tuple[list[float], float]:
    """What each number is multiplied with (S5), and Δ of the whole vector."""
    deltas = [number.delta_1 if norm == 1 else number.delta_2 for number in question.numbers(m)]
    if len(deltas) == 1:
        return [1.0], deltas[0]
    return [1.0 / delta for delta in deltas], float(len(deltas)) if norm == 1 else math.sqrt(len(deltas))


def leave_out(question: Question, rows: Sequence[Row], m: int, norm: int, unit: str = "unit") -> dict[Any, Vector]:
    """Everybody's contribution, by really leaving them out."""
    weights, _ = weigh(question, m, norm)
    here = question.measure(rows, m)
    found = {}
    for person in dict.fromkeys(row[unit] for row in rows):
        after = question.measure([row for row in rows if row[unit] != person], m)
        found[person] = tuple(
            float(a - b) * weight
            for before, left in zip(here, after, strict=True)
            for a, b, weight in zip(before, left, weights, strict=True)
        )
    return found


def expand(contributions: Contributions) -> list[Vector]:
    """Everybody's vector."""
    found: list[Vector] = []
    for row, people in enumerate(contributions.people):
        vector = np.zeros(contributions.k)
        owned = slice(contributions.starts[row], contributions.starts[row + 1])
        np.add.at(vector, contributions.cells[owned], contributions.changes[owned])
        found += [tuple(vector.tolist())] * int(people)
    return found


def everybody_there(left: Iterable[Vector], risk: Risk) -> list[Vector]:
    """These vectors, and nothing for the others in the table; one empty slot where the table is empty (N5)."""
    found = list(left)
    return [*found, *[(0.0,) * risk.k] * (max(risk.present, 1) - len(found))]


def assert_same_people(found: Iterable[Vector], expected: Iterable[Vector]) -> None:
    """The same vectors, each as often, within 1e-9."""

    def in_order(vectors: Iterable[Vector]) -> list[Vector]:
        return sorted(vectors, key=lambda vector: [round(value, 6) + 0.0 for value in vector])

    ours, theirs = in_order(found), in_order(expected)
    assert len(ours) == len(theirs)
    np.testing.assert_allclose(np.array(ours), np.array(theirs), rtol=1e-9, atol=1e-9)


def size_of(vector: Vector, norm: int) -> float:
    return math.fsum(map(abs, vector)) if norm == 1 else math.sqrt(math.fsum(value * value for value in vector))


def bound(vector: Vector, risk: Risk, epsilon: float) -> float:
    return size_of(vector, 1) + risk.k * risk.sensitivity / epsilon  # R3


def open_visits(rows: Sequence[Row], m: int, **facts: Any) -> Dataset:
    schema = {
        "table": "visits", "individuals": SLOTS, "unit": "unit", "max_rows_per_unit": m, "row_key": "entries",
        "reviewed": True, "columns": COLUMNS, **facts,
    }  # fmt: skip
    return Dataset.open(pa.Table.from_pylist(list(rows), schema=ARROW), schema=schema, table="visits")


def check_against_deletion(risk: Risk, question: Question, kept: Sequence[Row], m: int, unit: str = "unit") -> None:
    norm = risk.mechanism.norm
    left = leave_out(question, kept, m, norm, unit)
    everybody = everybody_there(left.values(), risk)
    assert risk.k == len(question.group_keys) * len(question.numbers(m))
    assert_same_people(expand(risk.contributions), everybody)
    exact = [[float(value) for value in group] for group in risk.measured().values]
    np.testing.assert_allclose(exact, [[float(v) for v in g] for g in question.measure(kept, m)], rtol=1e-9, atol=1e-9)
    _, delta = weigh(question, m, norm)
    assert risk.sensitivity == pytest.approx(delta, rel=1e-9)
    assert max((size_of(vector, norm) for vector in left.values()), default=0.0) <= risk.sensitivity * (1 + 1e-12)
    sizes = sorted(size_of(vector, norm) for vector in everybody)
    np.testing.assert_allclose(
        np.repeat(risk.sensitivities.values, risk.sensitivities.counts), sizes, rtol=1e-9, atol=1e-9
    )
