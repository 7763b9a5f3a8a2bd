"""The profile query: few rows where few values tell everything, and attributes that change no contribution."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sqlglot import exp

from dosimeter.engines.duckdb import DuckDBEngine, open_duckdb
from dosimeter.engines.engine import ReadOptions
from dosimeter.influence.contributions import Contributions
from dosimeter.influence.measured_rows import count_individuals
from dosimeter.influence.rows.row_profile import measure_answer, measure_profile
from dosimeter.influence.rows.row_queries import PEOPLE, count_query, people_query
from dosimeter.mechanisms.mechanism import Norm
from dosimeter.planning import PlanOptions, plan_query
from dosimeter.planning.query_plan import QueryPlan
from dosimeter.schema.facts import Column, ColumnType, Schema
from dosimeter.schema.toml import read_schema
from dosimeter.sql import column_tree
from tests.schemas import category, declare, whole
from tests.whole_tables import whole_table

PEOPLE_COUNT = 20_000
SCHEMA = Schema(
    table="people",
    individuals=PEOPLE_COUNT + 5,
    columns={
        "pay": Column("pay", ColumnType.INTEGER, bounds=(Decimal(0), Decimal(10**6))),
        "wage": Column("wage", ColumnType.DECIMAL, bounds=(Decimal(0), Decimal(10**6)), resolution=Decimal("0.01")),
        "group": Column("group", ColumnType.CATEGORY, values=("a", "b", "c")),
        "name": Column("name", ColumnType.TEXT),
        "age": Column("age", ColumnType.INTEGER, bounds=(Decimal(0), Decimal(9))),
    },
)


@pytest.fixture(scope="module")
def table() -> pa.Table:
    """Nearly every pay, wage and name is somebody's own."""
    order = np.random.default_rng(7).permutation(PEOPLE_COUNT)
    return pa.table(
        {
            "pay": pa.array([None if at % 97 == 0 else int(at) * 37 for at in order], pa.int64()),
            "wage": pa.array([float(at) * 3.17 for at in order], pa.float64()),
            "group": pa.array(["abcd"[at % 4] if at % 11 else None for at in range(PEOPLE_COUNT)]),
            "name": pa.array([f"n{at}" if at % 5 else f"n{at % 50}" for at in order]),
            "age": pa.array([int(at) % 12 for at in order], pa.int64()),
        }
    )


@pytest.fixture(scope="module")
def engine(table: pa.Table) -> DuckDBEngine:
    engine = open_duckdb(table)
    engine.impose(SCHEMA)
    return engine


def profile_rows(plan: QueryPlan, engine: DuckDBEngine) -> int:
    before = engine.rows_fetched
    measure_profile(plan, whole_table(engine))
    return engine.rows_fetched - before


NEAR = 8  # values kept around one order statistic: at most this many, however many there are


@pytest.mark.parametrize(
    ("select", "most"),
    [
        ("MEDIAN(pay)", NEAR + 1),
        ("MIN(pay)", NEAR + 1),
        ("MAX(wage)", NEAR + 1),
        ("QUANTILE_CONT(wage, 0.37)", NEAR + 1),
        ("MIN(wage), MAX(wage)", 2 * NEAR),
        ("MEDIAN(pay), COUNT(DISTINCT name)", 2 * (NEAR + 1)),
        ("COUNT(DISTINCT name)", 2),
        ("COUNT(DISTINCT pay)", 2),
        ("COUNT(DISTINCT name), COUNT(DISTINCT pay)", 4),
        ("COUNT(*)", 1),
        ("COUNT(pay)", 2),
    ],
)
@pytest.mark.parametrize("grouped", [False, True])
def test_few_rows_come_back(select: str, most: int, grouped: bool, engine: DuckDBEngine) -> None:
    by = ' GROUP BY "group"' if grouped else ""
    plan = plan_query(f"SELECT {select} FROM people{by}", SCHEMA, PlanOptions(quantiles="noise"))
    groups = 5 if grouped else 1  # the declared ones, "d", and NULL
    assert 1 <= profile_rows(plan, engine) <= groups * most


def dense(contributions: Contributions) -> Counter[tuple[float, ...]]:
    """How many individuals have each contribution vector."""
    found: Counter[tuple[float, ...]] = Counter()
    for at, people in enumerate(contributions.people.tolist()):
        vector = [0.0] * contributions.k
        for place in range(int(contributions.starts[at]), int(contributions.starts[at + 1])):
            vector[int(contributions.cells[place])] = round(float(contributions.changes[place]), 9)
        found[tuple(vector)] += people
    return found


SHAPES = [
    "SELECT age, COUNT(*) FROM people WHERE age < 4 GROUP BY age",
    "SELECT age, COUNT(*) FROM people WHERE age < 0 GROUP BY age",
    "SELECT COUNT(*) FROM people",
    "SELECT COUNT(*) FROM people WHERE age = 3",
    'SELECT "group", COUNT(*), MEDIAN(pay) FROM people WHERE age < 5 GROUP BY "group"',
    "SELECT MEDIAN(pay) FROM people WHERE age > 4",
    "SELECT COUNT(DISTINCT name), MAX(wage) FROM people WHERE age <> 1",
    'SELECT COUNT(DISTINCT name) FROM people WHERE age < 2 GROUP BY "group"',
    "SELECT AVG(age) FROM people WHERE name LIKE 'n1%' GROUP BY \"group\"",
    "SELECT SUM(age), MIN(wage) FROM people WHERE pay IS NULL",
]


@pytest.mark.parametrize("mode", ["declared", "observed"])
@pytest.mark.parametrize("sql", SHAPES)
def test_attributes_change_no_contribution(sql: str, mode: Any, engine: DuckDBEngine) -> None:
    """With attributes everybody is profiled, also those outside the WHERE: they contribute nothing."""
    plan = plan_query(sql, SCHEMA, PlanOptions(groups=mode))
    attributes: dict[str, exp.Expression] = {
        "x0": exp.EQ(this=column_tree("age"), expression=exp.Literal.number(3)),
        "x1": column_tree("group"),
    }
    plain, everybody = (measure_profile(plan, whole_table(engine), each) for each in (None, attributes))
    assert int(everybody.people.sum()) == PEOPLE_COUNT
    assert plain.keys == everybody.keys
    assert plain.undeclared == everybody.undeclared
    norms: tuple[Norm, ...] = (1, 2)
    for norm in norms:
        slots = PEOPLE_COUNT + 5
        left = plain.contributions(slots, norm)
        right = everybody.contributions(slots, norm)
        assert dense(left) == dense(right)
        assert left.n == right.n == slots
    assert int(everybody.people[everybody.inside].sum()) == int(plain.people.sum())
    answers = [measure_answer(plan, whole_table(engine), profile).values for profile in (plain, everybody)]
    assert answers[0] == answers[1]


def test_attributes_are_those_of_the_people(engine: DuckDBEngine, table: pa.Table) -> None:
    plan = plan_query("SELECT COUNT(*) FROM people WHERE age = 3", SCHEMA)
    attributes = {"x0": column_tree("group")}
    contributions = measure_profile(plan, whole_table(engine), attributes).contributions(PEOPLE_COUNT + 5, 1)
    found: Counter[tuple[Any, bool]] = Counter()
    for at, people in enumerate(contributions.people.tolist()):
        moved = contributions.starts[at + 1] > contributions.starts[at]
        found[(contributions.attributes["x0"][at], bool(moved))] += people
    ages, groups = table.column("age").to_pylist(), table.column("group").to_pylist()
    expected = Counter((group, age == 3) for age, group in zip(ages, groups, strict=True))
    expected[(None, False)] += 5  # the empty slots
    assert found == expected


def test_individuals_are_counted(engine: DuckDBEngine) -> None:
    assert count_individuals(engine) == PEOPLE_COUNT
    assert count_query(engine.relation()).sql(dialect="duckdb").startswith("SELECT COUNT(*)")
    plan = plan_query("SELECT COUNT(*) FROM people", SCHEMA)
    for slots in (PEOPLE_COUNT - 1, PEOPLE_COUNT, PEOPLE_COUNT + 1):  # more people than slots are all there (N4)
        assert measure_profile(plan, whole_table(engine)).contributions(slots, 1).n == max(slots, PEOPLE_COUNT)


def test_people_are_looked_up(engine: DuckDBEngine, table: pa.Table) -> None:
    plan = plan_query("SELECT COUNT(*) FROM people WHERE age > 5", SCHEMA)
    condition = exp.EQ(this=column_tree("group"), expression=exp.Literal.string("a"))
    found = engine.fetch(people_query(plan, engine.relation(), ["age", "group"], condition, 3)).to_pylist()
    pairs = zip(table.column("age").to_pylist(), table.column("group").to_pylist(), strict=True)
    expected = Counter(pair for pair in pairs if pair[0] > 5 and pair[1] == "a")
    assert len(found) == 3
    assert all(row[PEOPLE] == expected[(row["age"], row["group"])] for row in found)
    assert [row[PEOPLE] for row in found] == sorted(expected.values(), reverse=True)[:3]


def test_zero_and_minus_zero_are_one_observed_group() -> None:
    """−1 // 2 is −0.0 in doubles, and each of the two zeros stands beside another value."""
    schema = read_schema({"table": "t", "columns": {name: {"type": "integer", "bounds": [-5, 5]} for name in "xy"}})
    engine = open_duckdb(pa.table({"x": [-1, 1, 0, 3], "y": [1, 2, 3, 4]}), ReadOptions(table="t"))
    engine.impose(schema)
    plan = plan_query("SELECT x // 2, SUM(y) FROM t GROUP BY x // 2", schema, PlanOptions(groups="observed"))
    profile = measure_profile(plan, whole_table(engine))
    assert profile.keys == ((0,), (1,))
    assert measure_answer(plan, whole_table(engine), profile).values == ((6,), (4,))
    assert measure_answer(plan, whole_table(engine)).values == ((6,), (4,))


@pytest.mark.parametrize("ends", [(1, 99), (-7, 3), (0, 2**21), (-(2**22), 2**21), (0, 2**22 + 1), (-(10**15), 10**15)])
def test_totals_are_exact_in_64_bits_and_beyond(ends: tuple[int, int]) -> None:
    """Sums that 64 bits are sure to hold are written otherwise; NULL adds nothing, nobody declared group x (S8)."""
    low, high = ends
    values = [None, low - 5, low, high, high + 10**9, None, (low + high) // 3, high - 1, low]
    groups = ["a", "a", "a", "a", "b", "b", "x", "x", None]
    schema = read_schema(declare("t", 9, {"v": whole(low, high), "g": category("a", "b", "c")}))
    engine = open_duckdb(pa.table({"v": pa.array(values, pa.int64()), "g": groups}), ReadOptions(table="t"))
    engine.impose(schema)
    plan = plan_query("SELECT g, COUNT(*), SUM(v), AVG(v) FROM t GROUP BY g", schema)
    found = measure_answer(plan, whole_table(engine))
    assert found.keys == (("a",), ("b",), ("c",))
    for (key,), answer in zip(found.keys, found.values, strict=True):
        own = [value for value, group in zip(values, groups, strict=True) if group == key]
        kept = [min(max(value, low), high) for value in own if value is not None]
        centred = sum(Fraction(2 * value - low - high, 2) for value in kept)
        assert list(answer) == [len(own), sum(kept), len(kept), centred]
