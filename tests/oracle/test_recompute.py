"""Really leaving records out against the closed forms."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from dosimeter.engines.duckdb import DuckDBEngine, open_duckdb
from dosimeter.errors import DataError
from dosimeter.influence.rows.row_profile import measure_profile
from dosimeter.measures import CountIndividuals
from dosimeter.planning import PlanOptions, plan_query
from dosimeter.schema import Column, ColumnType, Schema
from dosimeter.schema.toml import load_schema, read_schema
from dosimeter_paper.recompute.run import recompute_contributions
from tests.measure_classes import list_measures
from tests.oracle.recompute_tables import SMALL_SCHEMA, assert_equals_closed_form, assert_same, draw_people, open_table
from tests.whole_tables import whole_table

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
        plan, whole_table(clinic_engine), 4000, 1, processes=2, progress=lambda done, total: heard.append((done, total))
    )
    assert_same(found, measure_profile(plan, whole_table(clinic_engine)).contributions(4000, 1))
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
EVERYTHING = (
    "SELECT team, COUNT(*), COUNT(pay), SUM(score), SUM(pay) FILTER (WHERE score > 0), AVG(pay), VAR_POP(score), "
    "STDDEV_POP(pay), MIN(score), MAX(pay), MEDIAN(pay), QUANTILE_CONT(score, 0.3), COUNT(DISTINCT score), "
    "COUNT_IF(pay > 40), SUM(ABS(score - 2 * pay)) FROM people WHERE score IS NULL OR score < 12 GROUP BY team"
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
    # Individuals are counted where there is a unit: test_people_queries.py leaves them out.
    assert {type(measure) for plan in plans for measure in plan.measures} == set(list_measures()) - {CountIndividuals}


def test_deletion_by_hand() -> None:
    """S2, C6 and C7 without either method: three people, one of them alone in their team, one undeclared."""
    engine = open_table({"team": ["a", "a", "b", "x"], "score": [1, 4, 9, 9], "pay": [0.0] * 4}, SMALL_SCHEMA)
    plan = plan_query("SELECT team, MEDIAN(score) FROM people GROUP BY team", SMALL_SCHEMA)
    found = recompute_contributions(plan, whole_table(engine), 6, 1, processes=1)
    middle = 2.0  # of [-5, 9]
    expected = [[2.5 - 4, 0, 0, 0], [2.5 - 1, 0, 0, 0], [0, 9 - middle, 0, 0], [0] * 4, [0] * 4, [0] * 4]
    rows = np.array(expected, dtype=np.float64)
    assert_same(found, rows[np.lexsort(np.round(rows, 6).T)])
    bounded = plan_query("SELECT AVG(score) FROM people WHERE team = 'a'", SMALL_SCHEMA, PlanOptions(min_rows=5))
    found = recompute_contributions(bounded, whole_table(engine), 4, 1, processes=1)
    moves = sorted([(1 - middle) / 5, (4 - middle) / 5, 0.0, 0.0])
    assert_same(found, np.array(moves)[:, None])


def test_totals_beyond_64_bits_stay_exact() -> None:
    top = 2**61
    schema = read_schema({"table": "t", "columns": {"v": {"type": "integer", "bounds": [Decimal(-top), Decimal(top)]}}})
    values = [top, top, top - 1, top, top, 3]
    plan = plan_query("SELECT SUM(v) FROM t", schema)
    found = recompute_contributions(plan, whole_table(open_table({"v": values}, schema)), len(values), 1, processes=1)
    assert sum(values) > 2**63
    # A total taken for a double is off by up to 1024 here, so 3 would not come out.
    moved = dict(zip(found.changes.tolist(), found.people.tolist(), strict=True))
    assert moved == {3.0: 1, float(top): 5}


@pytest.mark.parametrize("aggregate", ["MEDIAN", "MIN", "MAX"])
def test_values_beyond_doubles_are_read_all_the_same(aggregate: str) -> None:
    """Rounded like every number that is not a total; not refused, in words that would quote a cell."""
    values = [2**61, 2**61 + 2**59 + 1, 2**60, 5, 2**53 + 1]
    schema = read_schema(
        {"table": "t", "columns": {"v": {"type": "integer", "bounds": [Decimal(0), Decimal(2**62 - 1)]}}}
    )
    plan = plan_query(f"SELECT {aggregate}(v) FROM t", schema)
    assert_equals_closed_form(plan, open_table({"v": values}, schema), len(values))


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
    found = recompute_contributions(plan, whole_table(engine), len(people) + 3, 1, processes=1)
    assert_same(found, expected[np.lexsort(np.round(expected, 6).T)])


def test_more_rows_of_an_individual_than_declared_are_refused() -> None:
    columns = {"person": ["p"] * 4, "team": ["a"] * 4, "score": [1] * 4, "visit": [1, 2, 3, 4], "pay": [0.0] * 4}
    plan = plan_query("SELECT COUNT(*) FROM visits", VISITS_SCHEMA)
    with pytest.raises(DataError, match="max_rows_per_unit = 3"):
        recompute_contributions(plan, whole_table(open_table(columns, VISITS_SCHEMA)), 40, 1)


# ---------------------------------------------------------------- nobody


@pytest.mark.parametrize("sql", ["SELECT COUNT(*) FROM people", "SELECT team, MAX(pay) FROM people GROUP BY team"])
def test_an_empty_table_moves_nothing(sql: str) -> None:
    plan = plan_query(sql, SMALL_SCHEMA)
    found = recompute_contributions(plan, whole_table(open_table(draw_people(0, 0), SMALL_SCHEMA)), 40, 1, processes=2)
    assert found.people.tolist() == [40]
    assert found.starts.tolist() == [0, 0]
    assert found.k == len(plan.group_keys or ())
