"""Questions about people at the level of SQL: what each is understood as, and what is refused with which advice."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from dosimeter.errors import QueryError
from dosimeter.planning import digest_measured, explain_plan, plan_query
from dosimeter.schema import Column, ColumnType
from tests.corpus.reading import answered
from tests.corpus.tables import find_schema
from tests.known import known

SCHEMA = find_schema("care")
PER_PERSON = "SELECT pid, {} AS v FROM visits GROUP BY pid"
PER_ROW = "SELECT pid, {} AS v FROM visits"


@pytest.mark.parametrize(
    ("written", "kind", "bounds", "resolution"),
    [
        ("COUNT(*)", "integer", (0, 5), None),
        ("COUNT(DISTINCT ward)", "integer", (0, 5), None),
        ("COUNT_IF(x > 2)", "integer", (0, 5), None),
        ("SUM(x)", "integer", (-10, 30), None),
        ("SUM(cost)", "decimal", (0, 50), "0.25"),
        ("MIN(x)", "integer", (-2, 6), None),
        ("MEDIAN(x)", "decimal", (-2, 6), "0.5"),
        ("MAX(CASE WHEN ward = 'A' THEN 1 ELSE 0 END)", "integer", (0, 1), None),
        ("BOOL_OR(sick)", "boolean", None, None),
        ("MAX(ward)", "category", None, None),
        ("ARG_MAX(x, day)", "integer", (-2, 6), None),
        ("MIN_BY(cost * 2, day)", "decimal", (2, 20), "0.25"),
        ("ARG_MIN(ward, cost) FILTER (WHERE sick)", "category", None, None),
        ("ARG_MAX(sick, x)", "boolean", None, None),
        ("ROW_NUMBER() OVER (PARTITION BY pid ORDER BY day)", "integer", (1, 5), None),
        ("DENSE_RANK() OVER (PARTITION BY pid ORDER BY day)", "integer", (1, 5), None),
        ("LAG(x) OVER (PARTITION BY pid ORDER BY day)", "integer", (-2, 6), None),
        ("SUM(x) OVER (PARTITION BY pid, ward ORDER BY day)", "integer", (-10, 30), None),
        ("COUNT(*) OVER (PARTITION BY pid)", "integer", (0, 5), None),
        ("MIN(cost) OVER (PARTITION BY pid)", "decimal", (1, 10), None),
        ("FIRST_VALUE(ward) OVER (PARTITION BY pid ORDER BY x)", "category", None, None),
        ("LAST_VALUE(sick) OVER (PARTITION BY pid)", "boolean", None, None),
    ],
)
def test_facts_of_what_is_computed_for_each_individual(
    written: str, kind: str, bounds: tuple[int, int] | None, resolution: str | None
) -> None:
    inner = (PER_ROW if " OVER (" in written else PER_PERSON).format(written)
    plan = plan_query(f"SELECT COUNT(v) FROM ({inner}) t", SCHEMA)
    column = known(plan.person).schema.columns["v"]
    expected = None if bounds is None else tuple(Decimal(bound) for bound in bounds)
    assert (column.type, column.bounds) == (kind, expected)
    assert column.resolution == (resolution and Decimal(resolution)) or (resolution is None and " OVER (" in written)


@pytest.mark.parametrize(("low", "high", "step"), [(0, 6, 1), (1, 10, "0.25"), (0, 5000, "0.01"), (-7, 2**30, 1)])
def test_a_mean_is_rounded_finely_enough_and_its_bounds_are_on_its_grid(low: int, high: int, step: Any) -> None:
    """Q2: at most (U − L)/2²⁰, and the grid's own step halved, so that the bounds are whole steps."""
    bounds, resolution = (Decimal(low), Decimal(high)), None if step == 1 else Decimal(step)
    kind = ColumnType.INTEGER if step == 1 else ColumnType.DECIMAL
    columns = {**SCHEMA.columns, "cost": Column("cost", kind, bounds=bounds, resolution=resolution)}
    sql = f"SELECT SUM(v) FROM ({PER_PERSON.format('AVG(cost)')}) t"
    plan = plan_query(sql, replace(SCHEMA, columns=columns))
    column = known(plan.person).schema.columns["v"]
    fine = column.resolution or Decimal(1)
    assert [Decimal(str(bound)) for bound in column.bounds or ()] == [low, high]
    assert fine * 2**20 <= high - low
    assert Decimal(low) % fine == Decimal(high) % fine == 0


JOINED = [entry.sql for entry in answered("care") if "visits v JOIN (" in entry.sql]


@pytest.mark.parametrize("sql", JOINED)
def test_a_joined_subquery_is_the_same_by_a_name_of_its_own(sql: str) -> None:
    inner = sql.partition("JOIN (")[2].rpartition(") p ON")[0]
    plan = plan_query(sql, SCHEMA)
    named = plan_query(f"WITH q AS ({inner}) SELECT SUM(q.n) AS s FROM visits JOIN q USING (pid)", SCHEMA)
    assert digest_measured(plan) == digest_measured(named)
    assert explain_plan(plan).notes[0].startswith("First, from the own rows of each pid: n (")


def test_there_are_joined_subqueries() -> None:
    assert len(JOINED) >= 4


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) FROM visits WHERE pid IN (SELECT pid FROM visits)",
        "SELECT COUNT(*) FROM (SELECT LAG(x) OVER (PARTITION BY pid ORDER BY day) AS z FROM visits) t",
        "SELECT COUNT(*) FROM (SELECT DISTINCT ON (pid) pid FROM visits) t",
    ],
)
def test_without_a_unit_the_refusal_says_to_declare_it(sql: str) -> None:
    by_row = replace(SCHEMA, unit="row", max_rows_per_unit=1, row_key=None, tables={})
    with pytest.raises(QueryError, match="name their column in the schema"):
        plan_query(sql, by_row)


# ---------------------------------------------------------------- identity and what is said


def digest(sql: str) -> str:
    return digest_measured(plan_query(sql, SCHEMA))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            "SELECT AVG(n) FROM (SELECT pid, COUNT(*) AS n FROM visits GROUP BY pid) t",
            "WITH q AS (SELECT v.pid AS who, COUNT(*) AS visits_each FROM visits v "
            "GROUP BY 1) SELECT AVG(visits_each) FROM q",
        ),
        (
            "SELECT COUNT(*) FROM visits WHERE pid IN (SELECT patient FROM labs WHERE score > 3)",
            "SELECT COUNT(*) AS n FROM visits v WHERE EXISTS (SELECT 1 FROM labs l "
            "WHERE 3 < l.score AND v.pid = l.patient)",
        ),
        (
            "SELECT SUM(p) FROM (SELECT LAG(x) OVER (PARTITION BY pid ORDER BY day) AS p FROM visits WHERE sick) t",
            "SELECT SUM(q) FROM (SELECT LAG(v.x) OVER w AS q FROM visits v WHERE "
            "NOT NOT sick WINDOW w AS (PARTITION BY v.pid ORDER BY day)) t",
        ),
        (
            "SELECT AVG(n) FROM (SELECT pid, ward, COUNT(*) AS n FROM visits GROUP BY pid, ward) t",
            "SELECT AVG(n) FROM (SELECT pid AS who, ward, COUNT(*) AS n FROM visits GROUP BY ALL) t",
        ),
        (
            "SELECT SUM(x) FROM (SELECT DISTINCT ON (pid) pid AS who, x FROM visits ORDER BY who, day DESC) t",
            "SELECT SUM(x) FROM (SELECT x FROM visits QUALIFY ROW_NUMBER() OVER (PARTITION BY pid ORDER BY day DESC) = "
            "1) t",
        ),
        (
            "SELECT SUM(v) FROM (SELECT pid, ARG_MAX(x, day) AS v FROM visits GROUP BY pid) t",
            "SELECT SUM(last) FROM (SELECT v.pid, MAX_BY(v.x, v.day) AS last FROM visits v GROUP BY 1) t",
        ),
    ],
)
def test_the_same_question_in_other_words_has_the_same_digest(one: str, other: str) -> None:
    assert digest(one) == digest(other)


def test_other_questions_have_other_digests() -> None:
    inner = [
        "SELECT pid, COUNT(*) AS n FROM visits GROUP BY pid",
        "SELECT pid, COUNT(*) AS n FROM visits WHERE sick GROUP BY pid",
        "SELECT pid, COUNT(x) AS n FROM visits GROUP BY pid",
        "SELECT pid, COUNT(*) AS n FROM visits GROUP BY pid, ward",
        "SELECT pid, COUNT(*) AS n FROM visits GROUP BY pid HAVING COUNT(*) > 1",
        "SELECT pid, COUNT(*) OVER (PARTITION BY pid) AS n FROM visits",
        "SELECT pid, COUNT(*) OVER (PARTITION BY pid ORDER BY day) AS n FROM visits",
        "SELECT pid, ARG_MAX(x, day) AS n FROM visits GROUP BY pid",
        "SELECT pid, ARG_MIN(x, day) AS n FROM visits GROUP BY pid",
        "SELECT pid, ARG_MAX(x, cost) AS n FROM visits GROUP BY pid",
        "SELECT pid, ARG_MAX(x, day) FILTER (WHERE sick) AS n FROM visits GROUP BY pid",
        "SELECT DISTINCT ON (pid) pid, x AS n FROM visits ORDER BY pid, day",
    ]
    plans = [plan_query(f"SELECT SUM(n) FROM ({sql}) t", SCHEMA) for sql in inner]
    assert len({digest_measured(plan) for plan in plans}) == len({plan.digest for plan in plans}) == len(inner)


def test_explain_says_what_is_computed_first_and_reads_off_the_tables_own_columns() -> None:
    plan = plan_query(
        "SELECT AVG(n) FROM (SELECT pid, COUNT(cost) AS n FROM visits WHERE ward = 'Z' GROUP BY pid) t", SCHEMA
    )
    explained = explain_plan(plan)
    assert explained.columns == ("pid", "ward", "cost")
    assert explained.notes[0] == "First, from the own rows of each pid: n (0 to 5). Then every individual has one row."
    assert any("'Z' is not among the declared values of ward" in note for note in explained.notes)


def test_a_name_tested_inside_is_noticed() -> None:
    plan = plan_query("SELECT COUNT(*) FROM (SELECT pid FROM visits WHERE pid = 'p1' GROUP BY pid) t", SCHEMA)
    assert [name for name, _ in plan.singled_out] == ["pid"]
    assert not plan_query("SELECT COUNT(*) FROM visits WHERE pid IN (SELECT pid FROM visits)", SCHEMA).singled_out


def test_a_window_over_people_singles_nobody_out() -> None:
    inner = "SELECT day < LAG(day) OVER (PARTITION BY pid ORDER BY vid) + INTERVAL 3 DAY AS soon FROM visits"
    assert not plan_query(f"SELECT COUNT(*) FROM ({inner}) t WHERE soon", SCHEMA).singled_out
    named = "SELECT LAG(day) OVER (PARTITION BY pid ORDER BY pid = 'p1') AS before FROM visits"
    assert [name for name, _ in plan_query(f"SELECT COUNT(before) FROM ({named}) t", SCHEMA).singled_out] == ["pid"]
