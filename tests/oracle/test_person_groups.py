"""Groups by what is computed per person: DuckDB's own counts, and no group that the computation cannot give."""

from __future__ import annotations

import random
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from dosimeter import Dataset
from tests.oracle.exact_answers import measure_alone, plan_alone
from tests.shared_duckdb import ask_plain_duckdb

SCHEMA: dict[str, Any] = {
    "table": "visits",
    "individuals": 400,
    "unit": "pid",
    "row_key": "vid",
    "max_rows_per_unit": 4,
    "reviewed": True,
    "columns": {
        "pid": {"type": "integer", "identifying": True},
        "vid": {"type": "integer"},
        "day": {"type": "date", "bounds": ["2013-01-01", "2013-11-20"]},
        "seen": {"type": "timestamp", "bounds": ["2013-01-01 00:00:00", "2013-01-03 12:00:00"]},
        "x": {"type": "integer", "bounds": [3, 87]},
        "y": {"type": "decimal", "bounds": [-20, 40], "resolution": 0.5},
    },
}
FIRST = "SELECT pid, {} AS c FROM visits GROUP BY pid"
OWN = "SELECT pid, {} OVER (PARTITION BY pid ORDER BY vid) AS c FROM visits"
SHAPES = [
    "SELECT c, COUNT(*) FROM ({}) f GROUP BY c",
    "WITH f AS ({}) SELECT f.c, COUNT(*) FROM visits JOIN f ON visits.pid = f.pid GROUP BY f.c",
    "WITH e AS ({}), f AS (SELECT pid, c FROM e) SELECT f.c, COUNT(*) FROM visits JOIN f USING (pid) GROUP BY f.c",
]


@pytest.fixture(scope="module")
def visits() -> pa.Table:
    draw = random.Random(11)
    rows = [(pid, visit) for pid in range(400) for visit in range(draw.randint(1, 4))]
    return pa.table(
        {
            "pid": [pid for pid, _ in rows],
            "vid": list(range(len(rows))),
            "day": [date(2013, 1, 1) + timedelta(days=draw.randint(0, 323)) for _ in rows],
            "seen": [datetime.fromisoformat("2013-01-01") + timedelta(minutes=draw.randint(0, 3600)) for _ in rows],
            "x": [draw.randint(3, 87) for _ in rows],
            "y": [draw.randint(-40, 80) / 2 for _ in rows],
        }
    )


def count_groups(visits: pa.Table, sql: str) -> dict[Any, int]:
    """Return how many rows each declared group has, and check those that somebody is in against DuckDB."""
    with Dataset.open(visits, schema=SCHEMA, table="visits") as dataset:
        plan = plan_alone(dataset, sql)
        measured = measure_alone(dataset, plan)
    (group,) = plan.groups
    assert group.values == tuple(key[0] for key in measured.keys)
    found = {key[0]: int(values[0]) for key, values in zip(measured.keys, measured.values, strict=True)}
    with ask_plain_duckdb(visits=visits) as plain:
        truth = {key: rows for key, rows in plain.execute(sql).fetchall() if key is not None}
    assert {_same(key): rows for key, rows in found.items() if rows} == {_same(key): n for key, n in truth.items()}
    return found


def _same(value: Any) -> Any:
    """Return DuckDB's timestamp of a truncated date as the date, and its decimal as a float."""
    if isinstance(value, Decimal):
        return float(value)
    return value.date() if isinstance(value, datetime) and not any(value.timetuple()[3:6]) else value


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    ("computed", "groups"),
    [
        ("DATE_TRUNC('month', MIN(day))", 11),
        ("MIN(DATE_TRUNC('month', day))", 11),
        ("DATE_TRUNC('quarter', MAX(day))", 4),
        ("DATE_TRUNC('week', MIN(day))", 47),
        ("DATE_TRUNC('year', MIN(day))", 1),
        ("DATE_TRUNC('month', MIN(seen))", 1),
        ("MIN(CAST(seen AS DATE))", 3),
        ("DATE_TRUNC('hour', MIN(seen))", 61),
        ("MIN(DATE_TRUNC('hour', seen))", 61),
        ("FLOOR(MIN(x) / 10) * 10", 9),
        ("MAX(x // 10 * 10)", 9),
        ("MIN(ROUND(x, -1))", 10),
        ("FLOOR(AVG(x) / 10) * 10", 9),
        ("FLOOR(MIN(y) / 5) * 5", 13),
        ("SUM(x // 10 * 10)", 33),
        ("CASE WHEN MIN(x) < 30 THEN 1 WHEN MIN(x) < 50 THEN 20 ELSE 99 END", 3),
        ("CASE WHEN MIN(x) < 30 THEN 0.5 ELSE 2.1 END", 2),
        ("YEAR(MIN(day))", 1),
    ],
)
def test_a_month_stays_a_month(visits: pa.Table, shape: str, computed: str, groups: int) -> None:
    assert len(count_groups(visits, shape.format(FIRST.format(computed)))) == groups


@pytest.mark.parametrize(
    ("computed", "groups"),
    [
        ("FIRST_VALUE(DATE_TRUNC('month', day))", 11),
        ("LAG(x // 20 * 20)", 5),
        ("MIN(DATE_TRUNC('month', day))", 11),
        ("MAX(CASE WHEN x < 40 THEN 7 ELSE 70 END)", 2),
    ],
)
def test_windows_keep_it_too(visits: pa.Table, computed: str, groups: int) -> None:
    assert len(count_groups(visits, SHAPES[0].format(OWN.format(computed)))) == groups


@pytest.mark.parametrize(
    ("inner", "outer", "groups"),
    [
        ("DATE_TRUNC('month', MIN(day))", "DATE_TRUNC('quarter', c)", 4),
        ("DATE_TRUNC('month', MIN(day))", "MONTH(c)", 12),
        ("MIN(x // 10 * 10)", "c + 5", 9),
        ("MIN(x // 10 * 10)", "c // 20 * 20", 5),
        ("CASE WHEN MIN(x) < 30 THEN 1 WHEN MIN(x) < 50 THEN 20 ELSE 99 END", "c * 2", 3),
    ],
)
def test_what_is_computed_from_it_reads_its_list(visits: pa.Table, inner: str, outer: str, groups: int) -> None:
    sql = f"SELECT {outer} AS g, COUNT(*) FROM ({FIRST.format(inner)}) f GROUP BY {outer}"
    assert len(count_groups(visits, sql)) == groups


def test_further_keys_of_a_subquery_about_people_keep_it(visits: pa.Table) -> None:
    inner = "SELECT pid, {0} AS c, COUNT(*) AS n FROM visits GROUP BY pid, {0}"
    for key, groups in (("DATE_TRUNC('month', day)", 11), ("x // 10 * 10", 9)):
        assert len(count_groups(visits, SHAPES[0].format(inner.format(key)))) == groups


def test_cohorts_have_one_row_per_month_and_age(visits: pa.Table) -> None:
    sql = (
        "WITH f AS (SELECT pid, DATE_TRUNC('month', MIN(day)) AS cohort FROM visits GROUP BY pid) "
        "SELECT f.cohort, DATE_DIFF('month', f.cohort, day) AS age, COUNT(DISTINCT visits.pid) "
        "FROM visits JOIN f ON visits.pid = f.pid GROUP BY f.cohort, age"
    )
    with Dataset.open(visits, schema=SCHEMA, table="visits") as dataset:
        plan = plan_alone(dataset, sql)
        measured = measure_alone(dataset, plan)
    assert len(measured.keys) == 11 * 21
    with ask_plain_duckdb(visits=visits) as plain:
        truth = {(_same(cohort), age): people for cohort, age, people in plain.execute(sql).fetchall()}
    pairs = zip(measured.keys, measured.values, strict=True)
    assert {(_same(key[0]), key[1]): int(values[0]) for key, values in pairs if values[0]} == truth
