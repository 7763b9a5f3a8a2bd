"""One suite, every engine: distinct contributions, counts, exact totals and the found ε are those of DuckDB."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import psycopg
import pyarrow as pa
import pytest

from dosimeter import Dataset
from dosimeter.assessment import Risk
from dosimeter.engines.engine import Engine
from dosimeter.influence.rows.row_profile import measure_answer
from dosimeter.inspection.compare import check_schema
from dosimeter.inspection.draft import draft_schema
from dosimeter.inspection.remarks import text_remarks
from dosimeter.inspection.written_draft import write_draft
from dosimeter.ledger import Ledger
from dosimeter.planning import plan_query
from dosimeter.schema import Schema
from dosimeter.schema.toml import parse_schema
from dosimeter_paper.recompute import recompute_risk
from tests.conformance.engine_cases import GROUP, queries
from tests.conformance.group_tables import count_vectors
from tests.corpus.reading import read_corpus

ROWS = 240
BIG = 2**53 + 1
pytestmark = GROUP

WHERE = [entry.sql for entry in read_corpus("engines/conditions")]
NOISY = [
    "SELECT MIN(pay), MEDIAN(pay), MAX(pay), QUANTILE_CONT(pay, 0.9) FROM people",
    "SELECT city, MEDIAN(pay), COUNT(DISTINCT name) FROM people GROUP BY city",
]
PREFERENCES: list[tuple[str, Literal["laplace", "gaussian"]]] = [
    ("MIN(rdr) / MAX(rdr) >= 0.95", "laplace"),
    ("MEDIAN(rdr) FILTER (WHERE city = 'Bonn') / MEDIAN(rdr) FILTER (WHERE city <> 'Bonn') >= 0.9", "laplace"),
    ("AVG(rdr) FILTER (WHERE member AND name < 'a') <= 1.1 * AVG(rdr)", "gaussian"),
    ("QUANTILE_CONT(rdr, 0.9) FILTER (WHERE born >= '2020-06-01') <= 1.5 * AVG(rdr)", "laplace"),
]


def compare(dataset: Dataset, reference: Dataset, sql: str, **look: Any) -> Risk:
    expected, found = (one.risk(sql, **look) for one in (reference, dataset))
    assert found.k == expected.k
    assert count_vectors(found.contributions) == count_vectors(expected.contributions)
    assert found.measured() == expected.measured()
    return found


def test_conditions_select_the_same_people(dataset: Dataset, reference: Dataset, schema: Schema) -> None:
    """As one query, so that an engine goes through the table once for all of them."""
    counts = ", ".join(f"COUNT(*) FILTER (WHERE {where})" for where in WHERE)
    plan = plan_query(f"SELECT {counts} FROM people", schema)
    assert len(plan.measures) == len(WHERE)
    expected, found = (
        dict(zip(WHERE, measure_answer(plan, one.tables.find_rows(plan)).values[0], strict=True))
        for one in (reference, dataset)
    )
    assert found == expected
    assert sum(0 < count < ROWS for count in expected.values()) > len(WHERE) - 8  # nearly all of them tell people apart


@pytest.mark.parametrize("sql", queries("rows"))
def test_contributions_and_totals_agree(dataset: Dataset, reference: Dataset, table: pa.Table, sql: str) -> None:
    """Nor do more rows leave the engine than there are distinct contributions.

    These follow from the query's columns: there are at most as many as distinct records of these.
    """
    dataset.count()
    before = dataset.engine.rows_fetched
    found = compare(dataset, reference, sql)
    assert found.profile is not None
    moved = len(found.profile.people)
    columns = list(found.plan.columns)
    assert moved <= max(table.select(columns).group_by(columns).aggregate([]).num_rows, 1)
    if found.plan.additive:
        assert dataset.engine.rows_fetched - before <= 2 * moved  # the profile, and the exact totals of its groups
        if len(found.plan.measures) == 1 and not found.plan.groups:
            assert moved <= len(count_vectors(found.contributions)) + 1  # NULL and 0 are two, and move nothing


@pytest.mark.servers
@pytest.mark.parametrize(
    ("column", "intervals"),
    [
        ("fine", "-1, 1, 20"),
        ("fine", "0.7, -0.3, 100"),
        ("pay", "0, 1, 8"),
        ("pay", "1234.5, 0.025, 3"),
        ("age", "0, 9, 4"),
    ],
)
def test_intervals_are_those_of_postgres(postgres_url: str, reference: Dataset, column: str, intervals: str) -> None:
    """Of exact numbers: PostgreSQL's own function asks itself."""
    with psycopg.connect(postgres_url) as connection:
        plain = f"width_bucket({column}::numeric, {intervals})"
        rows = connection.execute(f"SELECT {plain}, COUNT(*) FROM registry.people GROUP BY 1").fetchall()
    expected = {int(bucket): people for bucket, people in rows if bucket is not None}
    bucket = f"WIDTH_BUCKET({column}, {intervals})"
    measured = reference.risk(f"SELECT {bucket} AS b, COUNT(*) FROM people GROUP BY b").measured()
    found = {key: int(people) for (key,), (people,) in zip(measured.keys, measured.values, strict=True) if people}
    assert {each: people for each, people in expected.items() if (each,) in measured.keys} == found
    assert len(found) > 2


@pytest.mark.parametrize("sql", NOISY)
def test_order_statistics_with_noise_agree(dataset: Dataset, reference: Dataset, sql: str) -> None:
    compare(dataset, reference, sql, quantiles="noise")


@pytest.mark.parametrize(
    ("column", "step", "low", "high"), [("age", 1, -5, 90), ("pay", 0.05, -1000, 2000), ("big", None, -BIG, BIG)]
)
def test_counts_per_candidate_are_those_of_python(
    dataset: Dataset, table: pa.Table, column: str, step: float | None, low: int, high: int
) -> None:
    """M4: values clamped, put on the grid, and rounded to the nearest candidate: by Python's own numbers."""
    plan = plan_query(f"SELECT city, MEDIAN({column}) FROM people GROUP BY city", dataset.schema)
    measured = measure_answer(plan, dataset.tables.find_rows(plan))
    rank = plan.ranks[0]
    cells = len(measured.keys)
    assert rank.candidate_count <= min(2**16, 2**20 // cells)
    candidates = [int(each) * rank.unit for each in rank.candidates]
    assert (candidates[0], candidates[-1]) == (low, high)
    for (city,), found in zip(measured.keys, measured.columns[0], strict=True):
        counts: Counter[Fraction] = Counter()
        for row in table.select(["city", column]).to_pylist():
            if row["city"] == city and row[column] is not None:
                value = row[column] if step is None else math.floor(row[column] / step + 0.5) * rank.unit
                clamped = min(max(Fraction(value), Fraction(low)), Fraction(high))
                place = bisect_left(candidates, clamped)
                near = candidates[max(place - 1, 0) : place + 1]
                counts[min(near, key=lambda each: (abs(each - clamped), -each))] += 1
        own = dict(zip(candidates, rank.count(found).tolist(), strict=True))
        assert {value: count for value, count in own.items() if count} == counts


@pytest.mark.parametrize("sql", queries("observed"))
def test_observed_groups_agree(dataset: Dataset, reference: Dataset, sql: str) -> None:
    compare(dataset, reference, sql, groups="observed")


@pytest.mark.parametrize(("prefer", "mechanism"), PREFERENCES)
def test_found_epsilon_agrees(
    dataset: Dataset, reference: Dataset, prefer: str, mechanism: Literal["laplace", "gaussian"]
) -> None:
    sql = "SELECT SUM(pay), COUNT(age) FROM people WHERE age > 3"
    expected, found = (one.risk(sql, mechanism=mechanism).find(prefer) for one in (reference, dataset))
    assert (found.epsilon, found.limit) == (expected.epsilon, expected.limit)
    assert found.candidates == expected.candidates
    assert expected.epsilon is not None


@pytest.mark.parametrize("column", ["city", "member", "age", "name", "born", "pay"])
def test_groups_of_by_agree(dataset: Dataset, reference: Dataset, column: str) -> None:
    sql = "SELECT SUM(fine) FROM people WHERE name >= 'A'"
    expected, found = (one.risk(sql).by(column) for one in (reference, dataset))
    assert found == expected
    assert sum(row.people for row in found) == ROWS


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT SUM(pay) FROM people WHERE id > 500",
        "SELECT city, MEDIAN(age) FROM people WHERE city IN ('Ülm', 'Nowhere') AND member GROUP BY city",
        "SELECT COUNT(DISTINCT name) FROM people WHERE seen < '2020-03-30'",
    ],
)
def test_exposed_people_agree(dataset: Dataset, reference: Dataset, sql: str) -> None:
    """All of them, since among equally exposed people there is no order."""
    shown = ["name", "city", "age", "pay", "born", "seen", "member"]
    everybody = [one.risk(sql).list_people(ROWS, columns=shown) for one in (reference, dataset)]
    expected, found = (Counter(str(person.describe()) for person in people) for people in everybody)
    assert found == expected
    assert len(found) >= 7


def test_leaving_out_each_record_agrees(dataset: Dataset, reference: Dataset) -> None:
    """The closed form in one engine against deletion over the records that the other engine gives."""
    sql = "SELECT member, SUM(age), COUNT(*) FROM people WHERE seen >= '2020-02-01' GROUP BY member"
    closed = reference.risk(sql).contributions
    recomputed = recompute_risk(dataset, sql).contributions
    assert count_vectors(recomputed) == count_vectors(closed)


@pytest.mark.smoke
def test_drafts_and_checks_agree(openers: dict[str, Callable[[], Engine]], dataset: Dataset, schema: Schema) -> None:
    found = []
    for name in ("duckdb", dataset.engine.name):
        with closing(openers[name]()) as engine:
            draft = draft_schema(engine)
            assert text_remarks(engine) == []
            found.append((draft.columns, draft.individuals, check_schema(engine, schema)))
    assert found[1] == found[0]
    assert found[0][1] == ROWS
    assert {finding.column for finding in found[0][2].findings} >= {"age", "pay", "fine", "city"}


def test_written_drafts_are_accepted(openers: dict[str, Callable[[], Engine]], dataset: Dataset) -> None:
    with closing(openers[dataset.engine.name]()) as engine:
        written = write_draft(engine)
    with closing(openers[dataset.engine.name]()) as engine:
        found = check_schema(engine, parse_schema(written.text))
    assert found.agrees, found.findings
    if dataset.engine.name == "postgres":  # the one table with columns that have no equivalent
        assert (
            "Left out, since these types have no equivalent here: notes (jsonb), tags (text[])." in written.remarks[0]
        )


@pytest.mark.smoke
def test_an_answer_is_released_and_found_again(dataset: Dataset, tmp_path: Path) -> None:
    """The fingerprint stays, so the same question is answered from the ledger: the same numbers, no charge."""
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        first, second = (
            dataset.release("SELECT COUNT(*) FROM people", epsilon=0.5, ledger=ledger, policy="budget:1")
            for _ in range(2)
        )
    assert first.status == second.status == "released"
    assert first.answer == second.answer
