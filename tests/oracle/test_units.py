"""Individuals with many rows: the closed form against really leaving each individual out, with all their rows.

The oracle knows nothing of the planner. It keeps the m rows with the smallest md5 of (unit, row key) itself, measures
by definitions written out here in exact fractions (S1–S5, S8, C5–C7), deletes everybody in turn, and compares person by
person, in both norms, with what the engine profiles. The table's columns bear the names our own queries use inside.
"""

from __future__ import annotations

import hashlib
import math
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dosimeter import Dataset
from dosimeter.assessment import Risk
from dosimeter.errors import DataError, OptionError
from dosimeter.mechanism import noise_scale
from dosimeter.model import Contributions
from dosimeter.unit_sensitivity import UnitProfile

Row = dict[str, Any]
Vector = tuple[float, ...]

EXAMPLES = settings().max_examples  # of the profile in use
SLOTS = 9  # declared individuals: more than there are
GROUPS = ("A", "B", "O'C")
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


def kept_rows(rows: Iterable[Row], m: int, unit: str = "unit", key: str = "entries") -> list[Row]:
    """Of each individual the m rows with the smallest md5 of (unit, row key)."""
    owned: dict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        owned[row[unit]].append(row)

    def rank(row: Row) -> tuple[str, str]:
        return hashlib.md5(f"{row[unit]}:{row[key]}".encode()).hexdigest(), str(row[key])

    return [row for own in owned.values() for row in sorted(own, key=rank)[:m]]


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

    def distinct(self, column: str) -> Number:
        def value(rows: Sequence[Row]) -> Fraction:
            return Fraction(len({row[column] for row in rows if row[column] is not None}))

        return Number(("distinct", column), value, self.m, self.m, Fraction(1))

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


Aggregate = tuple[str, Callable[[World], list[Number]]]
AGGREGATES: dict[str, st.SearchStrategy[Aggregate]] = {
    "COUNT(*)": st.just(("COUNT(*)", lambda w: [w.count()])),
    "COUNT": TERMS.map(lambda t: (f"COUNT({t.sql})", lambda w: [w.count(t)])),
    "COUNT DISTINCT": st.sampled_from(["x", "n0", "grp", "entries"]).map(
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
Condition = tuple[str, Callable[[Row], bool]]
CONDITIONS: list[Condition] = [
    ("x >= 1", lambda row: row["x"] is not None and row["x"] >= 1),
    ("x > 100", lambda row: False),
    ("infinite", lambda row: row["infinite"] is True),
    ("grp <> 'A'", lambda row: row["grp"] is not None and row["grp"] != "A"),
    ("n0 < 0 OR grp IS NULL", lambda row: row["grp"] is None or (row["n0"] is not None and row["n0"] < 0)),
    ("entries % 2 = 0", lambda row: row["entries"] % 2 == 0),
]
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
    """Everybody's vector, empty slots among them."""
    found: list[Vector] = []
    for row, people in enumerate(contributions.people):
        vector = np.zeros(contributions.k)
        owned = slice(contributions.starts[row], contributions.starts[row + 1])
        np.add.at(vector, contributions.cells[owned], contributions.changes[owned])
        found += [tuple(vector.tolist())] * int(people)
    return found


def assert_same_people(found: Iterable[Vector], expected: Iterable[Vector]) -> None:
    """The same vectors, each as often, within 1e-9."""

    def in_order(vectors: Iterable[Vector]) -> list[Vector]:
        return sorted(vectors, key=lambda vector: [round(value, 6) + 0.0 for value in vector])

    ours, theirs = in_order(found), in_order(expected)
    assert len(ours) == len(theirs)
    np.testing.assert_allclose(np.array(ours), np.array(theirs), rtol=1e-9, atol=1e-9)


def size_of(vector: Vector, norm: int) -> float:
    return math.fsum(map(abs, vector)) if norm == 1 else math.sqrt(math.fsum(value * value for value in vector))


def open_visits(rows: Sequence[Row], m: int, **facts: Any) -> Dataset:
    schema = {
        "table": "visits", "individuals": SLOTS, "unit": "unit", "max_rows_per_unit": m, "row_key": "entries",
        "reviewed": True, "columns": COLUMNS, **facts,
    }  # fmt: skip
    return Dataset.open(pa.Table.from_pylist(list(rows), schema=ARROW), schema=schema, table="visits")


def check_against_deletion(risk: Risk, question: Question, kept: Sequence[Row], m: int, unit: str = "unit") -> None:
    norm = risk.mechanism.norm
    left = leave_out(question, kept, m, norm, unit)
    slots = [(0.0,) * risk.k] * (SLOTS - len(left))
    assert risk.k == len(question.group_keys) * len(question.numbers(m))
    assert_same_people(expand(risk.contributions), [*left.values(), *slots])
    exact = [[float(value) for value in group] for group in risk.measured().values]
    np.testing.assert_allclose(exact, [[float(v) for v in g] for g in question.measure(kept, m)], rtol=1e-9, atol=1e-9)
    _, delta = weigh(question, m, norm)
    assert risk.sensitivity == pytest.approx(delta, rel=1e-9)
    assert max((size_of(vector, norm) for vector in left.values()), default=0.0) <= risk.sensitivity * (1 + 1e-12)
    sizes = sorted(size_of(vector, norm) for vector in (*left.values(), *slots))
    np.testing.assert_allclose(
        np.repeat(risk.sensitivities.values, risk.sensitivities.counts), sizes, rtol=1e-9, atol=1e-9
    )


@pytest.mark.parametrize("name", AGGREGATES)
@given(data=st.data(), rows=tables(), question=QUESTIONS, m=st.integers(1, 5))
@settings(max_examples=EXAMPLES // 4)
def test_contributions_are_those_of_deletion(
    name: str, data: st.DataObject, rows: list[Row], question: Question, m: int
) -> None:
    """Each aggregate in turn, alone or beside others."""
    question = replace(question, aggregates=(data.draw(AGGREGATES[name]), *question.aggregates[1:]))
    mechanism: Any = data.draw(st.sampled_from(["laplace", "gaussian"]))
    with open_visits(rows, m) as visits:
        risk = visits.risk(question.sql, mechanism=mechanism, min_rows=question.min_rows)
        check_against_deletion(risk, question, kept_rows(rows, m), m)


@given(rows=tables(), question=QUESTIONS, m=st.integers(1, 3))
@settings(max_examples=EXAMPLES // 4)
def test_recompute_agrees(rows: list[Row], question: Question, m: int) -> None:
    """The paper's own way, over whole individuals, sees the same kept rows."""
    with open_visits(rows, m) as visits:
        closed = visits.risk(question.sql, min_rows=question.min_rows)
        recomputed = visits.risk(question.sql, min_rows=question.min_rows, method="recompute")
        assert_same_people(expand(closed.contributions), expand(recomputed.contributions))


@pytest.mark.parametrize("aggregate", ["AVG(x)", "VAR_POP(n0)", "STDDEV_POP(x)"])
def test_moments_in_a_study_are_those_of_deletion(aggregate: str) -> None:
    """S7: with a sensitivity given by hand they are one number each."""
    rows = [
        {"unit": unit, "entries": at, "x": x, "n0": x / 4, "grp": "A", "infinite": True}
        for at, (unit, x) in enumerate([("ann", 1), ("ann", 4), ("ann", -3), ("1", 2), ("1", 5), ("bob\\", 0)])
    ]
    column = X if "x" in aggregate else PAY

    def value(own: Sequence[Row]) -> float:
        values = [float(v) for v in column.of(own)]
        if aggregate == "AVG(x)":
            return float(np.mean(values)) if values else 1.0
        return float((np.var if "VAR" in aggregate else np.std)(values)) if values else 0.0

    kept = kept_rows(rows, 2)
    expected = [value(kept) - value([r for r in kept if r["unit"] != unit]) for unit in ("ann", "1", "bob\\")]
    with open_visits(rows, 2) as visits:
        risk = visits.risk(f"SELECT {aggregate} FROM visits", sensitivity=1.0)
        assert_same_people(expand(risk.contributions), [(e,) for e in expected] + [(0.0,)] * (SLOTS - 3))


# ---------------------------------------------------------------- the exact indicator, by another road


def expected_distance(change: float, grid: float, scale: float) -> float:
    """E|c + Z| for discrete Laplace noise on the grid, term by term."""
    steps = np.arange(-math.ceil(45 * scale / grid), math.ceil(45 * scale / grid) + 1)
    weights = np.exp(-np.abs(steps) * grid / scale)
    return float(np.sum(np.abs(change + steps * grid) * weights) / np.sum(weights))


WHOLE = ["COUNT(*)", "SUM(x)", "COUNT(DISTINCT grp)", "COUNT(x)"]


@given(rows=tables(), names=st.lists(st.sampled_from(WHOLE), min_size=1, max_size=2, unique=True), data=st.data())
@settings(max_examples=EXAMPLES // 2)
def test_exact_indicator_is_the_expected_distance(rows: list[Row], names: list[str], data: st.DataObject) -> None:
    m = data.draw(st.integers(1, 4))
    grouped = data.draw(st.booleans())
    epsilon = data.draw(st.sampled_from([0.3, 1.0, 4.0]))
    meanings: dict[str, Callable[[World], list[Number]]] = {
        "COUNT(*)": lambda w: [w.count()],
        "SUM(x)": lambda w: [w.total(X)],
        "COUNT(DISTINCT grp)": lambda w: [w.distinct("grp")],
        "COUNT(x)": lambda w: [w.count(X)],
    }
    question = Question(tuple((name, meanings[name]) for name in names), None, (GROUPINGS[0],) if grouped else (), None)
    left = leave_out(question, kept_rows(rows, m), m, 1)
    weights, _ = weigh(question, m, 1)
    with open_visits(rows, m) as visits:
        risk = visits.risk(question.sql, indicator="exact")
        scale = noise_scale(risk.mechanism, risk.sensitivity, epsilon)
        grids = [w * float(n.grid or 0) for w, n in zip(weights, question.numbers(m), strict=True)]
        everybody = [*left.values(), *[(0.0,) * risk.k] * (SLOTS - len(left))]
        expected = sorted(
            sum(expected_distance(change, grids[at % len(grids)], scale) for at, change in enumerate(vector))
            for vector in everybody
        )
        found = risk.rdr(epsilon)
        np.testing.assert_allclose(np.sort(np.repeat(found.values, found.counts)), expected, rtol=1e-9)


@given(rows=tables(), m=st.integers(1, 3), grouped=st.booleans())
@settings(max_examples=EXAMPLES // 4)
def test_exact_gaussian_indicator_is_the_expected_distance(rows: list[Row], m: int, grouped: bool) -> None:
    """E‖c + σZ‖ as an integral over its Laplace transform: E√Y = ∫ (1 − E e^{−tY}) t^{−3/2} dt / 2√π."""
    question = Question((("SUM(x)", lambda w: [w.total(X)]),), None, (GROUPINGS[0],) if grouped else (), None)
    left = leave_out(question, kept_rows(rows, m), m, 2)
    with open_visits(rows, m) as visits:
        risk = visits.risk(question.sql, mechanism="gaussian", indicator="exact")
        sigma = mpmath.mpf(risk.noise_scale(1.0))

        def distance(vector: Vector) -> float:
            squared = mpmath.fsum(mpmath.mpf(value) ** 2 for value in vector) / sigma**2

            def integrand(t: Any) -> Any:
                spread = 1 + 2 * t
                transform = spread ** (-mpmath.mpf(risk.k) / 2) * mpmath.exp(-t * squared / spread)
                return (1 - transform) * t ** mpmath.mpf(-1.5)

            return float(sigma * mpmath.quad(integrand, [0, 1e-3, 1, 100, mpmath.inf]) / (2 * mpmath.sqrt(mpmath.pi)))

        everybody = [*left.values(), *[(0.0,) * risk.k] * (SLOTS - len(left))]
        known = {vector: distance(vector) for vector in set(everybody)}
        found = risk.rdr(1.0)
        np.testing.assert_allclose(
            np.sort(np.repeat(found.values, found.counts)), sorted(known[v] for v in everybody), rtol=1e-6
        )


# ---------------------------------------------------------------- preferences with FILTER, and --by


def bound(vector: Vector, risk: Risk, epsilon: float) -> float:
    return size_of(vector, 1) + risk.k * risk.sensitivity / epsilon  # R3


@given(rows=tables(), question=QUESTIONS, m=st.integers(1, 4), condition=st.sampled_from(CONDITIONS))
@settings(max_examples=EXAMPLES // 2)
def test_filter_holds_for_an_individual_when_it_holds_for_one_kept_row(
    rows: list[Row], question: Question, m: int, condition: Condition
) -> None:
    kept = kept_rows(rows, m)
    left = leave_out(question, kept, m, 1)
    chosen = {row["unit"] for row in kept if condition[1](row)}
    epsilon = 0.5
    with open_visits(rows, m) as visits:
        risk = visits.risk(question.sql, min_rows=question.min_rows)
        choice = risk.find(f"AVG(rdr) FILTER (WHERE {condition[0]}) <= 0.001 * MAX(rdr)", candidates=[epsilon])
        line = risk.find(f"AVG(rdr) FILTER (WHERE {condition[0]}) >= 0", candidates=[epsilon]).candidates[0]
        if not chosen:
            assert choice.epsilon is None or line.value is None
            return
        expected = math.fsum(bound(left[unit], risk, epsilon) for unit in chosen) / len(chosen)
        assert line.value == pytest.approx(expected, rel=1e-9)
        assert line.satisfied


@pytest.mark.parametrize("column", ["grp", "infinite", "x", "n0", "unit"])
@given(rows=tables(), question=QUESTIONS, m=st.integers(1, 4))
@settings(max_examples=EXAMPLES // 8)
def test_by_column_takes_the_value_on_which_all_kept_rows_agree(
    column: str, rows: list[Row], question: Question, m: int
) -> None:
    kept = kept_rows(rows, m)
    left = leave_out(question, kept, m, 1)
    members: dict[Any, list[str]] = defaultdict(list)
    for unit in left:
        values = {row[column] for row in kept if row["unit"] == unit}
        members[values.pop() if len(values) == 1 else None].append(unit)
    with open_visits(rows, m) as visits:
        risk = visits.risk(question.sql, min_rows=question.min_rows)
        found = {line["group"]: line for line in risk.by(column, epsilon=2.0, reveal=True)}
        everybody = [bound(v, risk, 2.0) for v in left.values()] + [bound((0.0,), risk, 2.0)] * (SLOTS - len(left))
        mean = math.fsum(everybody) / SLOTS
    assert set(found) == set(members)
    for group, units in members.items():
        rdrs = [bound(left[unit], risk, 2.0) / mean for unit in units]
        assert found[group]["people"] == len(units)
        assert found[group]["max"] == pytest.approx(max(rdrs), rel=1e-9)
        assert found[group]["median"] == pytest.approx(float(np.median(rdrs)), rel=1e-9)


@given(rows=tables(), question=QUESTIONS, m=st.integers(1, 4))
@settings(max_examples=EXAMPLES // 4)
def test_revealed_individuals_are_the_most_exposed(rows: list[Row], question: Question, m: int) -> None:
    left = leave_out(question, kept_rows(rows, m), m, 1)
    with open_visits(rows, m) as visits:
        risk = visits.risk(question.sql, min_rows=question.min_rows)
        shown = risk.people_rows(SLOTS, reveal=True)
        hidden = risk.people_rows(SLOTS)
    matching = {
        row["unit"]
        for row in kept_rows(rows, m)
        if (question.where is None or question.where[1](row))
        and tuple(value(row) for _, _, value in question.groupings) in question.group_keys
    }
    named = []
    for line in shown:
        units = line["columns"]["unit"].split(", ")
        assert len(units) == line["people"]
        for unit in units:
            assert line["sensitivity"] == pytest.approx(size_of(left[unit], 1), rel=1e-9, abs=1e-9)
        named += units
    assert sorted(named) == sorted(matching)
    assert [line["sensitivity"] for line in shown] == sorted((line["sensitivity"] for line in shown), reverse=True)
    assert {line["columns"]["unit"] for line in hidden} <= {"•••"}


# ---------------------------------------------------------------- which rows count, and what is refused


def visit(unit: str | None, key: int | None, **cells: Any) -> Row:
    return {"unit": unit, "entries": key, "x": 1, "n0": 0.5, "grp": "A", "infinite": True, **cells}


@pytest.mark.parametrize("kind", ["text", "integer", "category"])
def test_whole_and_text_units_are_bounded_by_their_written_form(kind: str) -> None:
    units: list[Any] = [-1, 0, 7, 12] if kind == "integer" else ["-1", "0", "é", "12"]
    rows = [visit(unit, key, x=at % 6) for at, unit in enumerate(units) for key in range(-4, 9)]
    rows = [{**row, "x": (row["entries"] * 7) % 6} for row in rows]
    facts = {**COLUMNS, "unit": {"type": kind} | ({"values": units} if kind == "category" else {})}
    schema = {
        "table": "visits", "individuals": SLOTS, "unit": "unit", "max_rows_per_unit": 4, "row_key": "entries",
        "columns": facts,
    }  # fmt: skip
    arrow = pa.Table.from_pylist(
        rows, schema=ARROW if kind != "integer" else ARROW.set(0, pa.field("unit", pa.int32()))
    )
    with Dataset.open(arrow, schema=schema, table="visits") as visits:
        found = visits.risk("SELECT SUM(x), COUNT(*) FROM visits").measured().values[0]
    kept = kept_rows(rows, 4)
    assert found == (sum((X.of(kept)), Fraction(0)), len(kept))
    assert len(kept) == 16


def test_bounding_comes_before_the_where() -> None:
    rows = [visit("ann", key, x=key) for key in range(6)]
    kept = kept_rows(rows, 2)
    with open_visits(rows, 2) as visits:
        for key in range(6):
            count = visits.risk(f"SELECT COUNT(*) FROM visits WHERE entries = {key}").measured().values[0][0]
            assert count == (1 if key in {row["entries"] for row in kept} else 0)


def test_null_unit_is_refused() -> None:
    rows = [visit("ann", 1), visit(None, 2)]
    with open_visits(rows, 3) as visits, pytest.raises(DataError, match=r"unit is NULL in 1 rows"):
        visits.risk("SELECT COUNT(*) FROM visits WHERE x > 5")


@pytest.mark.parametrize("keys", [(1, 1, 2), (1, None, 2), (None, None, 1)])
def test_row_key_that_does_not_tell_rows_apart_is_refused(keys: tuple[int | None, ...]) -> None:
    rows = [visit("ann", key) for key in keys]
    with open_visits(rows, 2) as visits, pytest.raises(DataError, match="does not tell an individual's rows apart"):
        visits.risk("SELECT COUNT(*) FROM visits")
    with open_visits(rows, 3) as visits:  # all rows count, so that there is nothing to choose
        assert visits.risk("SELECT COUNT(*) FROM visits").measured().values[0][0] == 3


def test_more_individuals_than_declared_are_refused() -> None:
    rows = [visit(f"p{at}", at) for at in range(SLOTS + 1)]
    with open_visits(rows, 1) as visits, pytest.raises(DataError, match=r"10 individuals .* declares 9"):
        visits.risk("SELECT COUNT(*) FROM visits")


def test_observed_groups_are_refused() -> None:
    with open_visits([visit("ann", 1)], 1) as visits, pytest.raises(OptionError, match="declared groups"):
        visits.risk("SELECT grp, COUNT(*) FROM visits GROUP BY grp", groups="observed")


def test_infinite_values_are_refused_for_whole_individuals() -> None:
    with open_visits([visit("ann", 1), visit("ann", 2, n0=math.inf)], 4) as visits:
        with pytest.raises(DataError, match="NaN or infinite"):
            visits.risk("SELECT grp, SUM(n0) FROM visits GROUP BY grp")
        with pytest.raises(DataError, match="NaN or infinite"):
            visits.risk("SELECT MEDIAN(n0) FROM visits")
        assert visits.risk("SELECT SUM(n0) FROM visits WHERE entries = 1").measured().values[0][0] == Fraction(1, 2)


def test_totals_beyond_doubles_stay_exact() -> None:
    """Squares of a wide column: texts and numbers of the profile are read as whole numbers, never through a float."""
    columns = {**COLUMNS, "x": {"type": "integer", "bounds": [-(2**28), 2**28]}}
    rows = [visit("ann", 1, x=2**28 - 1), visit("ann", 2, x=-(2**28)), visit("1", 1, x=2**27 + 1, grp="B")]
    squares = [(2 * (2**28 - 1)) ** 2 + (2**29) ** 2, (2**28 + 2) ** 2]
    for sql in (
        "SELECT VAR_POP(x) FROM visits",
        "SELECT grp, VAR_POP(x) FROM visits GROUP BY grp",
        "SELECT grp, VAR_POP(x), COUNT(DISTINCT x) FROM visits GROUP BY grp",  # entries as a text
    ):
        with open_visits(rows, 2, columns=columns) as visits:
            profile = visits.risk(sql).profile
            assert isinstance(profile, UnitProfile)
            assert sorted(value for value in profile.fields["q0"].tolist() if value) == sorted(squares)


@pytest.mark.parametrize("sql", ["SELECT SUM(x) FROM visits", "SELECT grp, SUM(x) FROM visits GROUP BY grp"])
def test_totals_beyond_64_bits_stay_exact(sql: str) -> None:
    top = 2**61
    columns = {**COLUMNS, "x": {"type": "integer", "bounds": [-top, top]}}
    rows = [visit("ann", key, x=top - key) for key in range(4)] + [visit("1", 1, x=3)]
    with open_visits(rows, 4, columns=columns) as visits:
        risk = visits.risk(sql)
        assert isinstance(risk.profile, UnitProfile)
        assert sorted(value for value in risk.profile.fields["t0"].tolist() if value) == [3, 4 * top - 6]
        assert risk.measured().values[0][0] == 4 * top - 3
        assert risk.sensitivities.values[-1] <= risk.sensitivity
