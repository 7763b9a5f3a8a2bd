"""Really leaving records out against the closed forms, and studies against deletion in plain Python."""

from __future__ import annotations

import math
import os
import signal
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dosimeter import recompute
from dosimeter.engines.base import ReadOptions
from dosimeter.engines.duckdb import DuckDBEngine, open_duckdb
from dosimeter.errors import DataError, OptionError, QueryError
from dosimeter.model import Column, ColumnType, Contributions, FloatArray, MeasureKind, Norm, QueryPlan, Schema
from dosimeter.plan import PlanOptions, plan_query
from dosimeter.recompute import recompute_contributions, recompute_study
from dosimeter.schema import load_schema, read_schema
from dosimeter.sensitivity import find_contributions, measure_profile
from dosimeter.study import plan_study

REPOSITORY = Path(__file__).parents[2]


def open_table(columns: dict[str, Any], schema: Schema) -> DuckDBEngine:
    engine = open_duckdb(pa.table(columns), ReadOptions(table=schema.table))
    engine.impose(schema)
    return engine


def list_vectors(contributions: Contributions) -> FloatArray:
    """Everybody's vector, one row each, in an order that does not depend on how they were grouped."""
    dense = np.zeros((len(contributions.people), contributions.k))
    for row in range(len(contributions.people)):
        owned = slice(contributions.starts[row], contributions.starts[row + 1])
        dense[row, contributions.cells[owned]] = contributions.changes[owned]
    everybody = np.repeat(dense, contributions.people, axis=0)
    return everybody[np.lexsort(np.round(everybody, 6).T)]


def assert_same(found: Contributions, expected: Contributions | FloatArray) -> None:
    wanted = list_vectors(expected) if isinstance(expected, Contributions) else expected
    scale = max(1.0, float(np.abs(wanted).max(initial=0.0)))
    np.testing.assert_allclose(list_vectors(found), wanted, rtol=1e-9, atol=1e-9 * scale)


def assert_equals_closed_form(plan: QueryPlan, engine: DuckDBEngine, n: int, norms: Sequence[Norm] = (1, 2)) -> None:
    profile = measure_profile(plan, engine)
    for norm in norms:
        found = recompute_contributions(plan, engine, n, norm, processes=1)
        assert found.n == n
        assert_same(found, find_contributions(profile, n, norm))


# ---------------------------------------------------------------- the plan's vector


@pytest.fixture(scope="module")
def clinic_schema(clinic: Path) -> Schema:
    return load_schema(clinic.with_suffix(".toml"))


@pytest.fixture(scope="module")
def clinic_engine(clinic: Path, clinic_schema: Schema) -> Iterator[DuckDBEngine]:
    engine = open_duckdb(str(clinic))
    engine.impose(clinic_schema)
    yield engine
    engine.close()


CLINIC = [
    ("SELECT COUNT(*) FROM clinic", PlanOptions()),
    ("SELECT COUNT(*) FROM clinic WHERE age = 25", PlanOptions()),
    ("SELECT COUNT(*) FROM clinic WHERE age > 119 AND visits > 99", PlanOptions()),
    ("SELECT COUNT(smoker), COUNT(*) FILTER (WHERE visits > 3) FROM clinic WHERE age < 12", PlanOptions()),
    ("SELECT SUM(visits) FROM clinic", PlanOptions()),
    ("SELECT district, SUM(cost_eur) FROM clinic WHERE age > 75 GROUP BY district", PlanOptions()),
    ("SELECT AVG(visits) FROM clinic WHERE sex = 'Other'", PlanOptions()),
    (
        "SELECT sex, AVG(visits), VAR_POP(visits), STDDEV_POP(age) FROM clinic WHERE age > 85 GROUP BY sex",
        PlanOptions(),
    ),
    ("SELECT sex, AVG(visits) FROM clinic GROUP BY sex", PlanOptions(min_rows=200)),
    ("SELECT MEDIAN(age), MIN(age), MAX(age) FROM clinic", PlanOptions()),
    ("SELECT diagnosis, QUANTILE_CONT(visits, 0.9) FROM clinic GROUP BY diagnosis", PlanOptions()),
    (
        "SELECT sex, COUNT(DISTINCT age), COUNT(DISTINCT diagnosis) FROM clinic WHERE age > 60 GROUP BY sex",
        PlanOptions(),
    ),
    ("SELECT EXTRACT(YEAR FROM admitted) AS year, smoker, COUNT(*) FROM clinic GROUP BY 1, smoker", PlanOptions()),
    ("SELECT diagnosis, COUNT(*), MAX(visits) FROM clinic WHERE age > 80 GROUP BY 1", PlanOptions(groups="observed")),
    (
        "SELECT sex, AVG(visits), VAR_POP(visits), STDDEV_POP(visits) FROM clinic GROUP BY sex",
        PlanOptions(sensitivity=1),
    ),
]


@pytest.mark.parametrize(("sql", "options"), CLINIC)
def test_clinic_equals_closed_form(
    sql: str, options: PlanOptions, clinic_schema: Schema, clinic_engine: DuckDBEngine
) -> None:
    plan = plan_query(sql, clinic_schema, options)
    assert_equals_closed_form(plan, clinic_engine, 4000, norms=(1, 2) if len(plan.measures) > 1 else (1,))  # S5


def test_processes_share_the_work(clinic_schema: Schema, clinic_engine: DuckDBEngine) -> None:
    plan = plan_query("SELECT diagnosis, COUNT(*), AVG(age) FROM clinic GROUP BY diagnosis", clinic_schema)
    heard: list[tuple[int, int]] = []
    found = recompute_contributions(
        plan, clinic_engine, 4000, 1, processes=2, progress=lambda done, total: heard.append((done, total))
    )
    assert_same(found, find_contributions(measure_profile(plan, clinic_engine), 4000, 1))
    records = len(found.people)  # age and diagnosis decide the vector, so there are as many rows as records
    assert heard[0] == (0, records)
    assert heard[-1] == (records, records)
    assert len(heard) > 2
    assert heard == sorted(heard)


def test_papers_queries_on_adult(adult: Path) -> None:
    def category(name: str) -> dict[str, Any]:
        return {"type": "category", "values": sorted(set(table.column(name).drop_null().to_pylist()))}

    def whole(low: int, high: int) -> dict[str, Any]:
        return {"type": "integer", "bounds": [Decimal(low), Decimal(high)]}

    plain = open_duckdb(str(adult))
    plain_schema = read_schema({"table": "adult", "columns": {name: {"type": "text"} for name in ADULT_CATEGORIES}})
    plain.impose(plain_schema)
    from sqlglot import exp

    table = plain.fetch(exp.select(*ADULT_CATEGORIES).from_(plain.relation()))
    columns = {name: category(name) for name in ADULT_CATEGORIES}
    columns |= {"age": whole(17, 90), "education_num": whole(1, 16), "hours_per_week": whole(1, 99)}
    columns |= {"capital_gain": whole(0, 99_999)}
    schema = read_schema({"table": "adult", "individuals": 48_842, "columns": columns})
    engine = open_duckdb(str(adult))
    engine.impose(schema)
    for sql in PAPERS_QUERIES:
        assert_equals_closed_form(plan_query(sql, schema), engine, 48_842, norms=(1,))


ADULT_CATEGORIES = ("income", "race", "marital_status", "native_country", "sex", "workclass")
PAPERS_QUERIES = (
    "SELECT COUNT(*) FROM adult WHERE income = '>50K' AND education_num = 13 AND age = 25",
    "SELECT marital_status, COUNT(*) FROM adult WHERE race = 'Asian-Pac-Islander' AND age BETWEEN 30 AND 40 "
    "GROUP BY marital_status",
    "SELECT COUNT(*) FROM adult WHERE native_country <> 'United-States' AND sex = 'Female'",
    "SELECT AVG(hours_per_week) FROM adult WHERE workclass IN ('Federal-gov', 'Local-gov', 'State-gov')",
    "SELECT SUM(capital_gain) FROM adult",
)

SMALL_SCHEMA = read_schema(
    {
        "table": "people",
        "individuals": 40,
        "columns": {
            "team": {"type": "category", "values": ["a", "b", "c", "nobody"]},
            "score": {"type": "integer", "bounds": [Decimal(-5), Decimal(9)]},
            "pay": {"type": "decimal", "bounds": [Decimal(-2), Decimal(10)], "resolution": Decimal("0.25")},
        },
    }
)


def draw_people(seed: int, rows: int) -> dict[str, Any]:
    """NULLs, values out of bounds and off the grid, a team nobody declared, groups of one."""
    random = Random(seed)
    return {
        "team": pa.array(random.choices(["a", "b", "c", "undeclared", None], [9, 5, 1, 1, 1], k=rows), pa.string()),
        "score": pa.array([random.choice([None, -7, -5, 0, 1, 1, 2, 3, 9, 12]) for _ in range(rows)], pa.int64()),
        "pay": pa.array([random.choice([None, -3.0, 0.1, 0.125, 2.4, 7.75, 10.2]) for _ in range(rows)], pa.float64()),
    }


EVERYTHING = (
    "SELECT team, COUNT(*), COUNT(pay), SUM(score), SUM(pay) FILTER (WHERE score > 0), AVG(pay), VAR_POP(score), "
    "STDDEV_POP(pay), MIN(score), MAX(pay), MEDIAN(pay), QUANTILE_CONT(score, 0.3), COUNT(DISTINCT score), "
    "SUM(ABS(score - 2 * pay)) FROM people WHERE score IS NULL OR score < 12 GROUP BY team"
)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "options",
    [
        PlanOptions(),
        PlanOptions(groups="observed"),
        PlanOptions(min_rows=4),
        PlanOptions(sensitivity=2.5, groups="observed"),
    ],
    ids=["declared", "observed", "min rows", "by hand"],
)
def test_generated_tables_equal_closed_form(seed: int, options: PlanOptions) -> None:
    plan = plan_query(EVERYTHING, SMALL_SCHEMA, options)
    for rows in (1 + seed, 31):
        assert_equals_closed_form(plan, open_table(draw_people(seed, rows), SMALL_SCHEMA), 40, norms=(1 + seed % 2,))  # type: ignore[arg-type]


def test_every_kind_of_measure_is_compared() -> None:
    plans = [plan_query(EVERYTHING, SMALL_SCHEMA, options) for options in (PlanOptions(min_rows=4), PlanOptions())]
    plans.append(plan_query(EVERYTHING, SMALL_SCHEMA, PlanOptions(sensitivity=2.5)))
    assert {measure.kind for plan in plans for measure in plan.measures} == set(MeasureKind)


def test_deletion_by_hand() -> None:
    """S2, C6 and C7 without either method: three people, one of them alone in their team, one undeclared."""
    engine = open_table({"team": ["a", "a", "b", "x"], "score": [1, 4, 9, 9], "pay": [0.0] * 4}, SMALL_SCHEMA)
    plan = plan_query("SELECT team, MEDIAN(score) FROM people GROUP BY team", SMALL_SCHEMA)
    found = recompute_contributions(plan, engine, 6, 1, processes=1)
    middle = 2.0  # of [-5, 9]
    expected = [[2.5 - 4, 0, 0, 0], [2.5 - 1, 0, 0, 0], [0, 9 - middle, 0, 0], [0] * 4, [0] * 4, [0] * 4]
    rows = np.array(expected, dtype=np.float64)
    assert_same(found, rows[np.lexsort(np.round(rows, 6).T)])
    bounded = plan_query("SELECT AVG(score) FROM people WHERE team = 'a'", SMALL_SCHEMA, PlanOptions(min_rows=5))
    found = recompute_contributions(bounded, engine, 4, 1, processes=1)
    moves = sorted([(1 - middle) / 5, (4 - middle) / 5, 0.0, 0.0])
    assert_same(found, np.array(moves)[:, None])


def test_totals_beyond_64_bits_stay_exact() -> None:
    top = 2**61
    schema = read_schema({"table": "t", "columns": {"v": {"type": "integer", "bounds": [Decimal(-top), Decimal(top)]}}})
    values = [top, top, top - 1, top, top, 3]
    plan = plan_query("SELECT SUM(v) FROM t", schema)
    found = recompute_contributions(plan, open_table({"v": values}, schema), len(values), 1, processes=1)
    assert sum(values) > 2**63
    # A total taken for a double is off by up to 1024 here, so 3 would not come out.
    moved = dict(zip(found.changes.tolist(), found.people.tolist(), strict=True))
    assert moved == {3.0: 1, float(top): 5}


def test_names_of_ours_may_be_columns_of_theirs() -> None:
    names = [
        "owner",
        "kind",
        "left_out",
        "g0",
        "a0",
        "a1",
        "m0",
        "people",
        "matching",
    ]
    schema = read_schema(
        {
            "table": "people",
            "individuals": 9,
            "columns": {name: {"type": "integer", "bounds": [Decimal(0), Decimal(50)]} for name in names},
        }
    )
    random = Random(3)
    engine = open_table({name: [random.randrange(4) for _ in range(9)] for name in names}, schema)
    for first, second in zip(names[::2], names[1::2], strict=False):
        sql = (
            f'SELECT "{second}", SUM("{first}"), MEDIAN(people), MAX(a0) FROM people '
            f'WHERE "{first}" + g0 + kind + owner < 8 GROUP BY "{second}"'
        )
        plan = plan_query(sql, schema, PlanOptions(groups="observed"))
        assert_equals_closed_form(plan, engine, 9, norms=(1,))


# ---------------------------------------------------------------- individuals with several rows


VISITS_SCHEMA = replace(
    SMALL_SCHEMA,
    table="visits",
    unit="person",
    max_rows_per_unit=3,
    row_key="visit",
    columns={
        **SMALL_SCHEMA.columns,
        "person": Column("person", ColumnType.TEXT),
        "visit": Column("visit", ColumnType.INTEGER),
    },
)


def draw_visits(seed: int) -> list[tuple[str, str, int]]:
    """Person, team and score of visits: up to three each, some people alike."""
    random = Random(seed)
    return [
        (f"p{person}", random.choice("abbc"), random.choice([-5, 0, 0, 3, 9]))
        for person in range(14)
        for _ in range(random.randrange(1, 4))
    ]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    ("aggregate", "of", "empty"),
    [
        ("COUNT(*)", len, 0.0),
        ("SUM(score)", sum, 0.0),
        ("MEDIAN(score)", statistics.median, 2.0),
        ("MAX(score)", max, 2.0),
        ("COUNT(DISTINCT score)", lambda scores: len(set(scores)), 0.0),
    ],
)
def test_individuals_go_with_all_their_rows(
    seed: int, aggregate: str, of: Callable[[list[int]], float], empty: float
) -> None:
    visits = draw_visits(seed)
    columns = dict(zip(("person", "team", "score"), map(list, zip(*visits, strict=True)), strict=True))
    engine = open_table({**columns, "visit": list(range(len(visits))), "pay": [0.0] * len(visits)}, VISITS_SCHEMA)
    plan = plan_query(f"SELECT team, {aggregate} FROM visits WHERE score < 9 GROUP BY team", VISITS_SCHEMA)

    def answer(rows: list[tuple[str, str, int]]) -> list[float]:
        read = [[score for _, team, score in rows if team == name and score < 9] for name in ("a", "b", "c", "nobody")]
        return [of(scores) if scores else empty for scores in read]

    people = sorted({person for person, _, _ in visits})
    whole = np.array(answer(visits))
    moves = [whole - answer([row for row in visits if row[0] != person]) for person in people]
    expected = np.array([*moves, *np.zeros((3, 4))])
    found = recompute_contributions(plan, engine, len(people) + 3, 1, processes=1)
    assert_same(found, expected[np.lexsort(np.round(expected, 6).T)])


def test_more_rows_of_an_individual_than_declared_are_refused() -> None:
    columns = {"person": ["p"] * 4, "team": ["a"] * 4, "score": [1] * 4, "visit": [1, 2, 3, 4], "pay": [0.0] * 4}
    plan = plan_query("SELECT COUNT(*) FROM visits", VISITS_SCHEMA)
    with pytest.raises(DataError, match="max_rows_per_unit = 3"):
        recompute_contributions(plan, open_table(columns, VISITS_SCHEMA), 40, 1)


# ---------------------------------------------------------------- nobody


@pytest.mark.parametrize("sql", ["SELECT COUNT(*) FROM people", "SELECT team, MAX(pay) FROM people GROUP BY team"])
def test_an_empty_table_moves_nothing(sql: str) -> None:
    plan = plan_query(sql, SMALL_SCHEMA)
    found = recompute_contributions(plan, open_table(draw_people(0, 0), SMALL_SCHEMA), 40, 1, processes=2)
    assert found.people.tolist() == [40]
    assert found.starts.tolist() == [0, 0]
    assert found.k == len(plan.group_keys or ())


# ---------------------------------------------------------------- studies, against plain Python


Rows = list[tuple[str, float, float]]


def moments(values: Sequence[float]) -> tuple[int, float, float, float]:
    n, mean = len(values), statistics.fmean(values)
    second, third, fourth = (sum((v - mean) ** power for v in values) / n for power in (2, 3, 4))
    return n, second, third, fourth


def skewness(rows: Rows) -> float | None:
    if len(rows) < 3:
        return None
    n, second, third, _ = moments([x for _, x, _ in rows])
    return math.sqrt(n * (n - 1)) / (n - 2) * third / second**1.5 if second else None


def kurtosis(rows: Rows) -> float | None:
    if len(rows) < 4:
        return None
    n, second, _, fourth = moments([x for _, x, _ in rows])
    return (n - 1) / ((n - 2) * (n - 3)) * ((n + 1) * (fourth / second**2 - 3) + 6) if second else None


def covariance(rows: Rows, less: int) -> float | None:
    if len(rows) <= less:
        return None
    return (
        statistics.covariance([x for _, x, _ in rows], [y for _, _, y in rows]) * (len(rows) - 1) / (len(rows) - less)
    )


def correlation(rows: Rows) -> float | None:
    if len(rows) < 2 or len({x for _, x, _ in rows}) == 1 or len({y for _, _, y in rows}) == 1:
        return None
    return statistics.correlation([x for _, x, _ in rows], [y for _, _, y in rows])


def slope(rows: Rows) -> float | None:
    """Of x on y: REGR_SLOPE takes the dependent variable first."""
    if len(rows) < 2 or len({y for _, _, y in rows}) == 1:
        return None
    return statistics.linear_regression([y for _, _, y in rows], [x for _, x, _ in rows]).slope


def ratio(rows: Rows) -> float | None:
    positive = sum(y for _, _, y in rows if y > 0)
    return abs(-sum(x for _, x, _ in rows)) / positive + 1 if positive else None


def lower_quantile(rows: Rows) -> float | None:
    ordered = sorted(x for _, x, _ in rows)
    return ordered[max(0, math.ceil(len(ordered) * 0.25) - 1)] if ordered else None


STUDIES: list[tuple[str, Callable[[Rows], float | None]]] = [
    ("CORR(x, y)", correlation),
    ("COVAR_POP(x, y)", lambda rows: covariance(rows, 0) if len(rows) > 1 else (0.0 if rows else None)),
    ("COVAR_SAMP(x, y)", lambda rows: covariance(rows, 1)),
    ("REGR_SLOPE(x, y)", slope),
    ("VAR_SAMP(x)", lambda rows: statistics.variance([x for _, x, _ in rows]) if len(rows) > 1 else None),
    ("STDDEV_SAMP(x)", lambda rows: statistics.stdev([x for _, x, _ in rows]) if len(rows) > 1 else None),
    ("STDDEV(y) * 2", lambda rows: 2 * statistics.stdev([y for _, _, y in rows]) if len(rows) > 1 else None),
    ("SKEWNESS(x)", skewness),
    ("KURTOSIS(x)", kurtosis),
    ("AVG(x * y)", lambda rows: statistics.fmean([x * y for _, x, y in rows]) if rows else None),
    ("MEDIAN(x)", lambda rows: statistics.median([x for _, x, _ in rows]) if rows else None),
    ("QUANTILE_DISC(x, 0.25)", lower_quantile),
    ("PERCENTILE_DISC(0.25) WITHIN GROUP (ORDER BY x)", lower_quantile),
    ("ABS(-SUM(x)) / SUM(y) FILTER (WHERE y > 0) + 1", ratio),
    ("COUNT(DISTINCT x) - COUNT(*)", lambda rows: len({x for _, x, _ in rows}) - len(rows)),
]
STUDY_SCHEMA = read_schema(
    {
        "table": "t",
        "columns": {
            "g": {"type": "text"},
            "x": {"type": "decimal"},
            "y": {"type": "integer"},
        },
    }
)


def draw_rows(seed: int, count: int) -> Rows:
    random = Random(seed)
    rows: Rows = [
        (random.choice("pqr"), random.choice([0.5, 1.75, 2.25, 8.5, -3.0]), random.randrange(-4, 5))
        for _ in range(count)
    ]
    return [*rows, ("alone", 6.5, 2)]


def open_rows(rows: Rows) -> DuckDBEngine:
    columns = {"g": [g for g, _, _ in rows], "x": [x for _, x, _ in rows], "y": [int(y) for _, _, y in rows]}
    return open_table(columns, STUDY_SCHEMA)


def delete_each(rows: Rows, functions: Sequence[Callable[[Rows], float | None]]) -> FloatArray:
    """q(x) − q(x₋ᵢ) over the observed groups, NULL as 0, by deleting each person from a list."""
    groups = sorted({g for g, _, _ in rows})

    def answer(kept: Rows) -> list[float]:
        return [function([row for row in kept if row[0] == group]) or 0.0 for group in groups for function in functions]

    whole = np.array(answer(rows))
    moves = np.array([whole - np.array(answer(rows[:at] + rows[at + 1 :])) for at in range(len(rows))])
    return moves[np.lexsort(np.round(moves, 6).T)]


@pytest.mark.parametrize("seed", range(3))
def test_study_equals_deletion_in_python(seed: int) -> None:
    rows = draw_rows(seed, 24)
    engine = open_rows(rows)
    for text, function in STUDIES:
        study = plan_study(f"SELECT g, {text} AS value FROM t GROUP BY g", STUDY_SCHEMA, 1.0)
        found = recompute_study(study, engine, len(rows), 1, processes=1)
        assert found.k == len({g for g, _, _ in rows}), text
        assert_same(found, delete_each(rows, [function]))


def test_study_of_several_outputs_in_processes() -> None:
    rows = draw_rows(11, 20)
    listed = ", ".join(text for text, _ in STUDIES)
    study = plan_study(f"SELECT {listed}, g FROM t AS u WHERE u.x < 100 GROUP BY u.g", STUDY_SCHEMA, 3.0)
    found = recompute_study(study, open_rows(rows), len(rows), 2, processes=2)
    assert found.k == len(STUDIES) * len({g for g, _, _ in rows})
    assert_same(found, delete_each(rows, [function for _, function in STUDIES]))
    assert study.sensitivity(1) == study.sensitivity(2) == 3.0
    assert any("counts as 0" in note for note in study.notes)


def test_study_without_groups_and_with_empty_slots() -> None:
    rows = [("p", x, y) for _, x, y in draw_rows(5, 12)]
    study = plan_study("SELECT CORR(x, y) FROM t", STUDY_SCHEMA, 1.0)
    found = recompute_study(study, open_rows(rows), len(rows) + 3, 1, processes=1)
    assert found.k == 1
    moves = np.vstack([delete_each(rows, [correlation]), np.zeros((3, 1))])
    assert_same(found, moves[np.lexsort(np.round(moves, 6).T)])


def test_study_groups_by_position_alias_and_expression() -> None:
    rows = draw_rows(8, 15)
    texts = ["1", "positive", "CASE WHEN y > 0 THEN 1 ELSE 0 END"]
    found = [
        recompute_study(
            plan_study(
                f"SELECT CASE WHEN y > 0 THEN 1 ELSE 0 END AS positive, VAR_SAMP(x) FROM t GROUP BY {text}",
                STUDY_SCHEMA,
                1.0,
            ),
            open_rows(rows),
            len(rows),
            1,
            processes=1,
        )
        for text in texts
    ]
    relabelled = [(str(int(y > 0)), x, y) for _, x, y in rows]
    variance = dict(STUDIES)["VAR_SAMP(x)"]
    for contributions in found:
        assert_same(contributions, delete_each(relabelled, [variance]))


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT x FROM t",
        "SELECT * FROM t",
        "SELECT COUNT() FROM t",
        "SELECT g FROM t GROUP BY g",
        "SELECT 1 FROM t",
        "SELECT x, AVG(y) FROM t GROUP BY g",
        "SELECT AVG(g) FROM t",
        "SELECT CORR(x) FROM t",
        "SELECT CORR(x, g) FROM t",
        "SELECT MAX(x, 3) FROM t",
        "SELECT SUM(DISTINCT x) FROM t",
        "SELECT COUNT(DISTINCT x, y) FROM t",
        "SELECT MODE(x) FROM t",
        "SELECT FIRST(x) FROM t",
        "SELECT ANY_VALUE(x) FROM t",
        "SELECT ARG_MAX(x, y) FROM t",
        "SELECT STRING_AGG(g, ',') FROM t",
        "SELECT LIST(x) FROM t",
        "SELECT APPROX_COUNT_DISTINCT(x) FROM t",
        "SELECT APPROX_QUANTILE(x, 0.5) FROM t",
        "SELECT RESERVOIR_QUANTILE(x, 0.5) FROM t",
        "SELECT QUANTILE_CONT(x, 1.5) FROM t",
        "SELECT QUANTILE_CONT(x, [0.1, 0.2]) FROM t",
        "SELECT QUANTILE_CONT(x, y) FROM t",
        "SELECT PERCENTILE_CONT(0.3) WITHIN GROUP (ORDER BY x DESC) FROM t",
        "SELECT AVG(x) OVER () FROM t",
        "SELECT AVG(AVG(x)) FROM t",
        "SELECT AVG((SELECT MAX(x) FROM t)) FROM t",
        "SELECT AVG(x) + (SELECT MAX(x) FROM t) FROM t",
        "SELECT AVG(x) FROM (SELECT * FROM t)",
        "SELECT AVG(x) FROM t WHERE x IN (SELECT x FROM t)",
        "SELECT AVG(x) FROM t WHERE EXISTS (SELECT 1)",
        "SELECT AVG(x) FROM read_csv('secret.csv')",
        "SELECT AVG(x) FROM 'secret.csv'",
        "SELECT AVG(x) FROM range(10)",
        "SELECT AVG(x) FROM t, t AS u",
        "SELECT AVG(x) FROM t JOIN t AS u ON true",
        "SELECT AVG(x) FROM other",
        "SELECT AVG(unknown) FROM t",
        "SELECT AVG(x) FROM t USING SAMPLE 10",
        "SELECT DISTINCT AVG(x) FROM t",
        "SELECT AVG(x) FROM t UNION SELECT AVG(y) FROM t",
        "WITH u AS (SELECT 1) SELECT AVG(x) FROM t",
        "SELECT AVG(x) FROM t GROUP BY ROLLUP (g)",
        "SELECT g, AVG(x) FROM t GROUP BY ALL",
        "SELECT g, AVG(x) FROM t GROUP BY 5",
        "SELECT g, AVG(x) FROM t GROUP BY g HAVING COUNT(*) > 3",
        "SELECT g, AVG(x) FROM t GROUP BY g ORDER BY 2",
        "SELECT g, AVG(x) FROM t GROUP BY g LIMIT 3",
        "SELECT AVG(x ORDER BY y) FROM t",
        "SELECT AVG(x) FILTER (WHERE AVG(x) > 1) FROM t",
        "SELECT AVG(x) FILTER (WHERE x) FROM t",
        "SELECT AVG(random()) FROM t",
        "SELECT AVG(x) + random() FROM t",
        "SELECT SQRT(AVG(x)) FROM t",
        "SELECT AVG(getenv('HOME')) FROM t",
        "SELECT AVG(CAST(g AS DOUBLE)) FROM t",
        "SELECT AVG(x); DROP TABLE t",
        "COPY t TO 'out.csv'",
    ],
)  # fmt: skip
def test_study_refuses(sql: str) -> None:
    with pytest.raises(QueryError):
        plan_study(sql, STUDY_SCHEMA, 1.0)


@pytest.mark.parametrize("sensitivity", [0.0, -1.0, math.inf, math.nan])
def test_study_needs_a_positive_sensitivity(sensitivity: float) -> None:
    with pytest.raises(OptionError):
        plan_study("SELECT CORR(x, y) FROM t", STUDY_SCHEMA, sensitivity)


# ---------------------------------------------------------------- when it goes wrong


def test_more_people_than_declared_is_refused() -> None:
    plan = plan_query("SELECT COUNT(*) FROM people", SMALL_SCHEMA)
    with pytest.raises(DataError, match="holds 7 individuals and the schema declares 6"):
        recompute_contributions(plan, open_table(draw_people(0, 7), SMALL_SCHEMA), 6, 1)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_values_that_are_no_numbers_are_refused_where_they_are_read(bad: float) -> None:
    columns = {"team": ["a", "b"], "score": [1, 2], "pay": [1.0, bad]}
    engine = open_table(columns, SMALL_SCHEMA)
    study_engine = open_rows([("a", 1.0, 1), ("b", bad, 2)])
    for where, refused in (("", True), (" WHERE team = 'a'", False), (" WHERE team = 'b'", True)):
        plan = plan_query(f"SELECT MAX(pay) FROM people{where}", SMALL_SCHEMA)
        study = plan_study(f"SELECT STDDEV_SAMP(x) FROM t{where.replace('team', 'g')}", STUDY_SCHEMA, 1.0)
        if not refused:
            assert recompute_contributions(plan, engine, 2, 1).n == 2
            assert recompute_study(study, study_engine, 2, 1).n == 2
            continue
        with pytest.raises(DataError, match=r"\(pay\) holds NaN or infinite"):
            recompute_contributions(plan, engine, 2, 1)
        with pytest.raises(DataError, match=r"\(x\) holds NaN or infinite"):
            recompute_study(study, study_engine, 2, 1)


def test_processes_must_be_positive() -> None:
    plan = plan_query("SELECT COUNT(*) FROM people", SMALL_SCHEMA)
    with pytest.raises(OptionError, match="at least 1"):
        recompute_contributions(plan, open_table(draw_people(0, 3), SMALL_SCHEMA), 40, 1, processes=0)


def test_progress_can_stop_the_work() -> None:
    class Enough(Exception):
        pass

    def stop(done: int, total: int) -> None:
        if done:
            raise Enough

    plan = plan_query("SELECT SUM(score) FROM people", SMALL_SCHEMA)
    with pytest.raises(Enough):
        recompute_contributions(plan, open_table(draw_people(0, 30), SMALL_SCHEMA), 40, 1, processes=1, progress=stop)


def test_a_worker_reports_no_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def __init__(self, *_: object) -> None:
            raise ArithmeticError("Could not convert string 'Ada Lovelace' to INT64")

    monkeypatch.setattr(recompute, "DeletionTable", Broken)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    ours, theirs = Pipe()
    ours.send((None, None, None))
    recompute._serve(theirs)
    with pytest.raises(DataError, match="ArithmeticError") as caught:
        recompute._receive(ours)
    assert "Ada" not in str(caught.value)


def test_a_lost_worker_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recompute, "_serve", Connection.close)  # a process that leaves without a word
    plan = plan_query("SELECT SUM(score) FROM people", SMALL_SCHEMA)
    with pytest.raises(DataError, match="ended before its time"):
        recompute_contributions(plan, open_table(draw_people(0, 30), SMALL_SCHEMA), 40, 1, processes=2)


INTERRUPTED = """
import multiprocessing, sys, time
import pyarrow as pa
from dosimeter.engines.base import ReadOptions
from dosimeter.engines.duckdb import open_duckdb
from dosimeter.recompute import recompute_study
from dosimeter.schema import read_schema
from dosimeter.study import plan_study

def show(done, total):
    if done:
        sys.stdout.write(" ".join(str(child.pid) for child in multiprocessing.active_children()) + "\\n")
        sys.stdout.flush()

if __name__ == "__main__":
    schema = read_schema({"table": "t", "columns": {"x": {"type": "integer"}, "y": {"type": "integer"}}})
    rows = pa.table({"x": list(range(60000)), "y": [at * at % 977 for at in range(60000)]})
    engine = open_duckdb(rows, ReadOptions(table="t"))
    engine.impose(schema)
    study = plan_study("SELECT MEDIAN(x), CORR(x, y) FROM t", schema, 1.0)
    try:
        recompute_study(study, engine, 60000, 1, processes=2, progress=show)
    except KeyboardInterrupt:
        sys.exit(130)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="process groups are sent signals on POSIX")
def test_ctrl_c_stops_every_process(tmp_path: Path) -> None:
    script = tmp_path / "study.py"
    script.write_text(INTERRUPTED)
    with subprocess.Popen(
        [sys.executable, script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as run:
        assert run.stdout is not None
        workers = [int(word) for word in run.stdout.readline().split()]
        os.killpg(run.pid, signal.SIGINT)  # as a terminal does: to all of them
        _, errors = run.communicate(timeout=30)
    assert run.returncode == 130
    assert errors == ""
    assert len(workers) == 2
    for worker in workers:
        with pytest.raises(ProcessLookupError):
            os.kill(worker, 0)
