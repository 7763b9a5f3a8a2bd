"""Functions of a row inside aggregates and groups: the closed form is really leaving somebody out, and Δ holds.

Beside that, the whole answer is what DuckDB gives for the query as it was written, to within the grid (Q1).
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from dosimeter.dataset import Dataset
from dosimeter.planning import QueryPlan
from tests.oracle.exact_answers import measure_alone, plan_alone
from tests.shared_duckdb import ask_plain_duckdb

SCHEMA: dict[str, Any] = {
    "table": "stays",
    "individuals": 40,
    "reviewed": True,
    "unit": "patient",
    "max_rows_per_unit": 3,
    "row_key": "stay",
    "columns": {
        "patient": {"type": "integer", "identifying": True},
        "stay": {"type": "integer"},
        "age": {"type": "integer", "bounds": [0, 100]},
        "cost": {"type": "decimal", "bounds": [0, 900], "resolution": 0.5},
        "ward": {"type": "category", "values": ["North ", "south", "Öst"]},
        "urgent": {"type": "boolean"},
        "came": {"type": "date", "bounds": ["2024-01-01", "2024-12-31"]},
        "went": {"type": "timestamp", "bounds": ["2024-01-01T00:00:00", "2024-12-31T23:59:59"]},
    },
}
SUMS = [
    "SUM(GREATEST(cost - 100, 0))",
    "SUM(LEAST(age, 50))",
    "SUM(cost / 4)",
    "SUM(cost / age)",
    "SUM(SQRT(cost))",
    "SUM(LN(cost + 1))",
    "SUM(ROUND(cost, -2))",
    "SUM(FLOOR(cost / 7))",
    "SUM(age // 7)",
    "SUM(age % 7)",
    "SUM(POWER(age, 2))",
    "SUM(NULLIF(age, 50))",
    "SUM(CAST(urgent AS INTEGER))",
    "SUM(CAST(cost AS INTEGER))",
    "SUM(DATE_DIFF('day', came, went))",
    "SUM(DATE_DIFF('month', came, went))",
    "SUM(LENGTH(ward))",
    "SUM(POSITION('t' IN ward))",
    "SUM(CAST(ward ~ '^[A-Z]' AS INTEGER))",
    "SUM(LENGTH(SPLIT_PART(ward, 'o', 2)) + LENGTH(REGEXP_EXTRACT(ward, '[a-z]+')))",
    "SUM(IF(came + INTERVAL '1' MONTH > went, 1, 0))",
    # GREATEST and LEAST skip NULL: what can be NULL bounds nothing, however constant it is otherwise.
    "SUM(LEAST(age, CASE WHEN urgent THEN 1 END))",
    "SUM(GREATEST(cost - 900, CASE WHEN urgent THEN 1 END))",
    "SUM(LEAST(age, 1 + IF(urgent, 1, NULL), 90))",
    "SUM(LEAST(age, LENGTH(CASE WHEN urgent THEN 'a' END)))",
    "SUM(LEAST(age, COALESCE(CASE WHEN urgent THEN 1 END, CASE WHEN cost > 500 THEN 1 END)))",
    "SUM(LEAST(age, POWER(cost, 0)))",
    "SUM(LEAST(age, COALESCE(CASE WHEN urgent THEN age END, 7)))",
    "SUM(cost / CASE WHEN urgent THEN -2 END)",
    "SUM(100 / CASE WHEN urgent THEN 8 END)",
]
GROUPS = [
    "UPPER(TRIM(ward))",
    "LEFT(ward, 1) || urgent",
    "FLOOR(cost / 300) * 300",
    "ROUND(cost, -2)",
    "SPLIT_PART(ward, 'o', 1)",
    "REGEXP_FULL_MATCH(ward, '[A-Z].*')",
    "POSITION('t' IN ward)",
    "CASE ward WHEN 'south' THEN '{\"at\": [1, 2]}' ELSE '{\"at\": 3}' END -> 'at' ->> 1",
    "WIDTH_BUCKET(cost, 100, 800, 7)",
    "WIDTH_BUCKET(age, 90, 10, 4)",
    "CAST(FLOOR(age / 10) AS INTEGER)",
    "STRFTIME(went, '%Y-%m')",
    "DAYOFWEEK(came)",
    "CAST(DATE_TRUNC('quarter', went) AS DATE)",
]


def build_table() -> pa.Table:
    chance = random.Random(7)
    rows = []
    for stay in range(60):
        came = date(2024, 1, 1) + timedelta(days=chance.randrange(340))
        rows.append(
            {
                "patient": chance.randrange(25),
                "stay": stay,
                "age": chance.choice([None, 0, *range(1, 100, 7)]),
                "cost": chance.choice([None, 0.0, 0.5, *(chance.randrange(1800) / 2 for _ in range(9))]),
                "ward": chance.choice(["North ", "south", "Öst", "elsewhere", None]),
                "urgent": chance.choice([True, False, None]),
                "came": came,
                "went": datetime.combine(came, datetime.min.time()) + timedelta(hours=chance.randrange(500)),
            }
        )
    kept: Counter[int] = Counter()
    chosen = []
    for row in rows:
        kept[row["patient"]] += 1
        if kept[row["patient"]] <= 3:
            chosen.append(row)
    return pa.Table.from_pylist(chosen)


TABLE = build_table()
PATIENTS = sorted(set(TABLE.column("patient").to_pylist()))


def measure(dataset: Dataset, plan: QueryPlan) -> list[float]:
    return [float(value) for row in measure_alone(dataset, plan).values for value in row]


@pytest.fixture(scope="module")
def everybody() -> Iterator[Dataset]:
    with Dataset.open(TABLE, schema=SCHEMA, table="stays") as dataset:
        yield dataset


@pytest.fixture(scope="module")
def without_each() -> Iterator[list[Dataset]]:
    """The table without each patient in turn, opened once for all queries."""
    owners = TABLE.column("patient").to_pylist()
    with ExitStack() as opened:
        yield [
            opened.enter_context(
                Dataset.open(
                    TABLE.filter(pa.array([owner != patient for owner in owners])), schema=SCHEMA, table="stays"
                )
            )
            for patient in PATIENTS
        ]


@pytest.mark.parametrize(
    "sql",
    [f"SELECT {total} FROM stays" for total in SUMS]
    + [f"SELECT {group} AS class, COUNT(*) FROM stays GROUP BY class" for group in GROUPS]
    + ["SELECT ROUND(cost, -2) AS class, SUM(SQRT(age)) FROM stays WHERE LOWER(ward) <> 'south' GROUP BY class"]
    + ["SELECT SUM(WIDTH_BUCKET(cost, 0, 900, 9) * age) FROM stays WHERE NOT ward ~* 'N'"]
    + ["SELECT DISTINCT urgent, LEFT(ward, 1) FROM stays WHERE age > 20"],
)
def test_closed_form_is_leaving_a_person_out(sql: str, everybody: Dataset, without_each: list[Dataset]) -> None:
    plan = plan_alone(everybody, sql)
    whole = measure(everybody, plan)
    expected: Counter[tuple[tuple[int, float], ...]] = Counter()
    for fewer in without_each:
        left = measure(fewer, plan)
        moved = {at: round(a - b, 7) for at, (a, b) in enumerate(zip(whole, left, strict=True)) if round(a - b, 7)}
        expected[tuple(sorted(moved.items()))] += 1
    risk = everybody.risk(sql)
    found: Counter[tuple[tuple[int, float], ...]] = Counter()
    contributions = risk.contributions
    for row, people in enumerate(contributions.people.tolist()):
        owned = slice(contributions.starts[row], contributions.starts[row + 1])
        cells = zip(contributions.cells[owned].tolist(), contributions.changes[owned].tolist(), strict=True)
        found[tuple(sorted((cell, round(change, 7)) for cell, change in cells if round(change, 7)))] += people
    assert found == expected
    delta = risk.plan.sensitivity(1)
    assert max(sum(abs(change) for _, change in vector) for vector in expected) <= delta * (1 + 1e-9)


@pytest.mark.parametrize("total", SUMS)
def test_the_sum_is_that_of_the_query_as_written(total: str) -> None:
    """Values within the bounds and on their columns' grids: what is rounded by itself is off by a millionth at most."""
    declared = "CASE WHEN ward IN ('North ', 'south', 'Öst') THEN ward END"
    replaced = f"SELECT * REPLACE ({declared} AS ward, NULLIF(age, 0) AS age) FROM stays"
    with ask_plain_duckdb(stays=TABLE) as plain:
        expected = plain.execute(f"SELECT {total} FROM ({replaced})").fetchall()[0][0]
    age = pa.array([value or None for value in TABLE.column("age").to_pylist()], pa.int64())
    table = TABLE.set_column(TABLE.schema.get_field_index("age"), "age", age)
    with Dataset.open(table, schema=SCHEMA, table="stays") as dataset:
        found = measure(dataset, plan_alone(dataset, f"SELECT {total} FROM stays"))
    assert found[0] == pytest.approx(float(expected), rel=1e-5)
