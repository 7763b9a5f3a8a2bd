"""Questions about people at the level of SQL: what each is understood as, and what is refused with which advice."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from dosimeter.errors import QueryError
from dosimeter.planning import digest_measured, explain_plan
from dosimeter.planning.planner import plan_query
from dosimeter.schema.facts import Schema
from dosimeter.schema.toml import read_schema

FACTS: dict[str, Any] = {
    "table": "visits",
    "individuals": 100,
    "unit": "pid",
    "max_rows_per_unit": 5,
    "row_key": "vid",
    "columns": {
        "pid": {"type": "text", "identifying": True},
        "vid": {"type": "integer"},
        "ward": {"type": "category", "values": ["A", "B", "C"]},
        "x": {"type": "integer", "bounds": [-2, 6]},
        "cost": {"type": "decimal", "bounds": [1, 10], "resolution": 0.25},
        "day": {"type": "date", "bounds": ["2024-01-01", "2024-12-31"]},
        "sick": {"type": "boolean"},
    },
    "tables": {
        "labs": {
            "unit": "patient",
            "max_rows_per_unit": 2,
            "row_key": "lab",
            "columns": {
                "patient": {"type": "text"},
                "lab": {"type": "integer"},
                "score": {"type": "integer", "bounds": [0, 9]},
            },
        },
        "clinics": {"public": True, "key": "ward", "columns": {"ward": {"type": "text"}, "beds": {"type": "integer"}}},
        "codes": {
            "unit": "pid",
            "max_rows_per_unit": 1,
            "row_key": "code",
            "columns": {"pid": {"type": "integer"}, "code": {"type": "text"}},
        },
    },
}
SCHEMA = read_schema(FACTS)
PER_PERSON = "SELECT pid, {} AS v FROM visits GROUP BY pid"
PER_ROW = "SELECT pid, {} AS v FROM visits"


def find_facts(sql: str) -> tuple[str, tuple[Decimal, Decimal] | None, Decimal | None]:
    """The type, bounds and resolution of the column v that a subquery computes."""
    plan = plan_query(f"SELECT COUNT(v) FROM ({sql}) t", SCHEMA)
    assert plan.person is not None
    column = plan.person.schema.columns["v"]
    return str(column.type), column.bounds, column.resolution  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("written", "kind", "bounds", "resolution"),
    [
        ("COUNT(*)", "integer", (0, 5), None),
        ("COUNT(ward)", "integer", (0, 5), None),
        ("COUNT(DISTINCT ward)", "integer", (0, 5), None),
        ("COUNT_IF(x > 2)", "integer", (0, 5), None),
        ("SUM(x)", "integer", (-10, 30), None),
        ("SUM(cost)", "decimal", (0, 50), "0.25"),
        ("SUM(cost) FILTER (WHERE sick)", "decimal", (0, 50), "0.25"),
        ("MIN(x)", "integer", (-2, 6), None),
        ("MAX(cost)", "decimal", (1, 10), "0.25"),
        ("MEDIAN(x)", "decimal", (-2, 6), "0.5"),
        ("MAX(CASE WHEN ward = 'A' THEN 1 ELSE 0 END)", "integer", (0, 1), None),
        ("BOOL_OR(sick)", "boolean", None, None),
        ("MAX(ward)", "category", None, None),
        ("ARG_MAX(x, day)", "integer", (-2, 6), None),
        ("MIN_BY(cost * 2, day)", "decimal", (2, 20), "0.25"),
        ("ARG_MIN(ward, cost) FILTER (WHERE sick)", "category", None, None),
        ("ARG_MAX(sick, x)", "boolean", None, None),
    ],
)
def test_facts_of_what_is_computed_for_each_individual(
    written: str, kind: str, bounds: tuple[int, int] | None, resolution: str | None
) -> None:
    expected = None if bounds is None else tuple(Decimal(bound) for bound in bounds)
    assert find_facts(PER_PERSON.format(written)) == (kind, expected, resolution and Decimal(resolution))


@pytest.mark.parametrize(
    ("written", "kind", "bounds"),
    [
        ("ROW_NUMBER() OVER (PARTITION BY pid ORDER BY day)", "integer", (1, 5)),
        ("DENSE_RANK() OVER (PARTITION BY pid ORDER BY day)", "integer", (1, 5)),
        ("LAG(x) OVER (PARTITION BY pid ORDER BY day)", "integer", (-2, 6)),
        ("LEAD(cost * 2) OVER (PARTITION BY pid ORDER BY day)", "decimal", (2, 20)),
        ("SUM(x) OVER (PARTITION BY pid, ward ORDER BY day)", "integer", (-10, 30)),
        ("COUNT(*) OVER (PARTITION BY pid)", "integer", (0, 5)),
        ("MIN(cost) OVER (PARTITION BY pid)", "decimal", (1, 10)),
        ("FIRST_VALUE(ward) OVER (PARTITION BY pid ORDER BY x)", "category", None),
        ("LAST_VALUE(sick) OVER (PARTITION BY pid)", "boolean", None),
    ],
)
def test_facts_of_windows(written: str, kind: str, bounds: tuple[int, int] | None) -> None:
    found = find_facts(PER_ROW.format(written))
    assert found[:2] == (kind, None if bounds is None else tuple(Decimal(bound) for bound in bounds))


@pytest.mark.parametrize(("low", "high", "step"), [(0, 6, 1), (1, 10, "0.25"), (0, 5000, "0.01"), (-7, 2**30, 1)])
def test_a_mean_is_rounded_finely_enough_and_its_bounds_are_on_its_grid(low: int, high: int, step: Any) -> None:
    """Q2: at most (U − L)/2²⁰, and the grid's own step halved, so that the bounds are whole steps."""
    kind = {"type": "integer"} if step == 1 else {"type": "decimal", "resolution": float(step)}
    columns = {**FACTS["columns"], "cost": {**kind, "bounds": [low, high]}}
    plan = plan_query(
        f"SELECT SUM(v) FROM ({PER_PERSON.format('AVG(cost)')}) t", read_schema({**FACTS, "columns": columns})
    )
    assert plan.person is not None
    column = plan.person.schema.columns["v"]
    fine = column.resolution or Decimal(1)
    assert [Decimal(str(bound)) for bound in column.bounds or ()] == [low, high]
    assert fine * 2**20 <= high - low
    assert Decimal(low) % fine == Decimal(high) % fine == 0


@pytest.mark.parametrize(
    ("sql", "rows", "delta"),
    [
        (f"SELECT COUNT(*) FROM ({PER_PERSON.format('COUNT(*)')}) t WHERE v > 2", 1, 1.0),
        (f"SELECT SUM(v) FROM ({PER_PERSON.format('COUNT(*)')}) t", 1, 5.0),
        (f"SELECT SUM(v) FROM ({PER_PERSON.format('MAX(x) - MIN(x)')}) t", 1, 8.0),
        ("SELECT SUM(v) FROM (SELECT pid, ward, COUNT(*) AS v FROM visits GROUP BY pid, ward) t", 5, 25.0),
        ("SELECT COUNT(*) FROM visits WHERE pid IN (SELECT patient FROM labs WHERE score > 3)", 5, 5.0),
        (
            "SELECT COUNT(*) FROM (SELECT * FROM visits QUALIFY ROW_NUMBER() OVER "
            "(PARTITION BY pid ORDER BY day) = 1) t",
            1,
            1.0,
        ),
        ("SELECT COUNT(*) FROM (SELECT DISTINCT ON (pid) * FROM visits ORDER BY pid, day DESC) t", 1, 1.0),
        ("SELECT SUM(x) FROM (SELECT DISTINCT ON (pid, ward) pid, ward, x FROM visits ORDER BY 1, 2, day) t", 5, 30.0),
        (
            "SELECT SUM(n) FROM (SELECT DISTINCT ON (pid) pid, ward, COUNT(*) AS n FROM visits GROUP BY pid, ward "
            "ORDER BY pid, n DESC) t",
            1,
            5.0,
        ),
        (f"SELECT SUM(v) FROM ({PER_PERSON.format('ARG_MAX(x, day)')}) t", 1, 6.0),
        (
            "WITH v AS (SELECT *, ROW_NUMBER() OVER (PARTITION BY pid ORDER BY day) AS r FROM visits) "
            "SELECT SUM(x) FROM v WHERE r <= 2 AND ward = 'A'",
            2,
            12.0,
        ),
        (
            "WITH v AS (SELECT *, ROW_NUMBER() OVER (PARTITION BY pid, ward ORDER "
            "BY day) AS r FROM visits) "
            "SELECT SUM(x) FROM v WHERE r <= 2",
            5,
            30.0,
        ),
        (
            "WITH v AS (SELECT *, ROW_NUMBER() OVER (PARTITION BY pid ORDER BY day) AS r FROM visits) "
            "SELECT SUM(x) FROM v WHERE r <= 2 OR ward = 'A'",
            5,
            30.0,
        ),
        (
            "SELECT COUNT(*) FROM (SELECT pid, COUNT(*) AS n FROM visits JOIN labs "
            "ON visits.pid = labs.patient GROUP BY pid) t",
            1,
            1.0,
        ),
        (
            "SELECT AVG(n) FROM (SELECT pid, COUNT(*) AS n FROM visits GROUP BY "
            "pid) t JOIN labs ON t.pid = labs.patient",
            2,
            2.0,
        ),
    ],
)
def test_rows_afterwards_and_sensitivity(sql: str, rows: int, delta: float) -> None:
    plan = plan_query(sql, SCHEMA)
    assert plan.schema.max_rows_per_unit == rows
    assert plan.sensitivity(1) == delta


JOINED = "SELECT SUM(p.n) FROM visits v JOIN ({}) p ON v.pid = p.pid"


@pytest.mark.parametrize(
    ("inner", "rows", "delta"),
    [
        ("SELECT pid, COUNT(*) AS n FROM visits GROUP BY pid", 5, 25.0),
        ("SELECT pid, ward, COUNT(*) AS n FROM visits GROUP BY pid, ward", 25, 125.0),
        ("SELECT patient AS pid, MAX(score) AS n FROM labs GROUP BY patient", 5, 45.0),
        ("SELECT patient AS pid, score AS n FROM labs WHERE score > 3", 10, 90.0),
    ],
)
def test_a_joined_subquery_multiplies_rows_by_its_own(inner: str, rows: int, delta: float) -> None:
    plan = plan_query(JOINED.format(inner), SCHEMA)
    assert plan.schema.max_rows_per_unit == rows
    assert plan.sensitivity(1) == delta
    named = plan_query(f"WITH q AS ({inner}) SELECT SUM(q.n) AS s FROM visits JOIN q USING (pid)", SCHEMA)
    assert digest_measured(plan) == digest_measured(named)
    assert explain_plan(plan).notes[0].startswith("First, from the own rows of each pid: n (")


REFUSED = [
    ("SELECT COUNT(*) FROM visits WHERE cost > (SELECT AVG(cost) FROM visits)", "read off other people's rows"),
    ("SELECT COUNT(*) FROM (SELECT x, AVG(x) OVER () AS a FROM visits) t WHERE x > a", "PARTITION BY pid"),
    ("SELECT COUNT(*) FROM (SELECT x, AVG(x) OVER (PARTITION BY ward) AS a FROM visits) t", "other people's rows"),
    ("SELECT COUNT(*) FROM visits v WHERE EXISTS (SELECT 1 FROM labs l WHERE l.score = v.x)", "Compare pid"),
    ("SELECT COUNT(*) FROM visits v WHERE EXISTS (SELECT 1 FROM labs l WHERE l.score > 3)", "Say whose rows"),
    (
        "SELECT COUNT(*) FROM visits v WHERE EXISTS (SELECT 1 FROM labs l WHERE l.patient = v.pid AND l.score > v.x)",
        "v.x inside",
    ),
    (
        "SELECT COUNT(*) FROM visits v WHERE EXISTS (SELECT 1 FROM labs l WHERE l.patient = v.pid HAVING COUNT(*) > 1)",
        "Group by",
    ),
    ("SELECT COUNT(*) FROM visits WHERE ward IN (SELECT ward FROM visits WHERE x > 3)", "Compare pid"),
    ("SELECT COUNT(*) FROM visits WHERE (pid, ward) IN (SELECT pid, ward FROM visits)", "Compare pid"),
    ("SELECT COUNT(*) FROM visits WHERE pid IN (SELECT MAX(pid) FROM visits GROUP BY ward)", "GROUP BY pid HAVING"),
    (
        "SELECT COUNT(*) FROM visits WHERE pid IN (SELECT patient FROM labs ORDER BY score LIMIT 3)",
        "other people's rows",
    ),
    ("SELECT COUNT(*) FROM visits WHERE pid IN (SELECT score FROM labs)", "must give the individuals"),
    ("SELECT COUNT(*) FROM visits WHERE pid IN (SELECT pid FROM codes)", "different types"),
    ("SELECT COUNT(*) FROM visits WHERE pid IN (SELECT ward FROM clinics)", "clinics is public"),
    ("SELECT COUNT(*) FROM visits WHERE pid IN (SELECT pid FROM elsewhere)", "There is no table elsewhere"),
    (
        "SELECT COUNT(*) FROM visits WHERE pid IN (SELECT pid FROM visits UNION SELECT patient FROM labs)",
        "SELECT pid FROM",
    ),
    ("SELECT AVG(n) FROM (SELECT pid, ward, COUNT(*) AS n FROM visits GROUP BY pid) t", "MAX(ward) or MIN(ward)"),
    ("SELECT AVG(n) FROM (SELECT patient, COUNT(*) AS n FROM labs GROUP BY patient) t", "labs stands beside visits"),
    ("SELECT AVG(n) FROM (SELECT pid, VAR_POP(x) AS n FROM visits GROUP BY pid) t", "COUNT_IF"),
    ("SELECT AVG(n) FROM (SELECT pid, ANY_VALUE(x) AS n FROM visits GROUP BY pid) t", "write MIN or MAX"),
    ("SELECT AVG(n) FROM (SELECT pid, SUM(vid) AS n FROM visits GROUP BY pid) t", "has no bounds"),
    ("SELECT AVG(n) FROM (SELECT pid, COUNT(*) AS n FROM visits GROUP BY pid ORDER BY n LIMIT 5) t", "LIMIT"),
    ("SELECT AVG(n) FROM (SELECT *, COUNT(*) AS n FROM visits GROUP BY pid) t", "list the columns"),
    (
        "SELECT SUM(z) FROM (SELECT LAST_VALUE(x) OVER (PARTITION BY pid ORDER BY day) AS z FROM visits)",
        "UNBOUNDED FOLLOWING",
    ),
    ("SELECT SUM(z) FROM (SELECT LAG(x, 1, 0) OVER (PARTITION BY pid ORDER BY day) AS z FROM visits)", "COALESCE(LAG"),
    (
        "SELECT SUM(z) FROM (SELECT LAG(x IGNORE NULLS) OVER (PARTITION BY pid ORDER BY day) AS z FROM visits)",
        "with OVER",
    ),
    (
        "SELECT SUM(z) FROM (SELECT LAG(x, ward) OVER (PARTITION BY pid ORDER BY day) AS z FROM visits)",
        "whole number of rows",
    ),
    ("SELECT SUM(z) FROM (SELECT NTILE(4) OVER (PARTITION BY pid ORDER BY day) AS z FROM visits)", "with OVER"),
    ("SELECT SUM(z) FROM (SELECT RANK() OVER (PARTITION BY pid) AS z FROM visits)", "Add ORDER BY"),
    ("SELECT SUM(z) FROM (SELECT MEDIAN(x) OVER (PARTITION BY pid) AS z FROM visits)", "Use GROUP BY"),
    (
        "SELECT SUM(z) FROM (SELECT SUM(x) OVER (PARTITION BY pid ORDER BY day "
        "RANGE BETWEEN INTERVAL 1 DAY PRECEDING AND CURRENT "
        "ROW) AS z FROM visits)",
        "ROWS BETWEEN",
    ),
    ("SELECT SUM(LAG(x) OVER (PARTITION BY pid ORDER BY day)) FROM visits", "in a subquery"),
    ("SELECT COUNT(*) FROM visits v JOIN (SELECT ward, x FROM visits) p ON v.ward = p.ward", "add pid to the subquery"),
    (
        "SELECT COUNT(*) FROM visits v JOIN (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) p "
        "ON v.ward = p.ward",
        "other people's rows",
    ),
    (
        "SELECT COUNT(*) FROM visits v JOIN (SELECT pid, ward FROM visits GROUP BY pid, ward) p ON v.ward = p.ward",
        "join it on the unit column",
    ),
    ("SELECT COUNT(*) FROM visits WHERE dosimeter_member_of(0, pid)", "is not supported"),
    ("SELECT ARG_MAX(x, day) FROM visits", "in a subquery that groups by the unit"),
    ("SELECT SUM(z) FROM (SELECT ward, ARG_MAX(x, day) AS z FROM visits GROUP BY ward)", "that groups by the unit"),
    (
        "SELECT SUM(z) FROM (SELECT ARG_MAX(x, day) OVER (PARTITION BY pid) AS z FROM visits)",
        "Write FIRST_VALUE(x) OVER (PARTITION BY pid ORDER BY day DESC)",
    ),
    (
        "SELECT SUM(z) FROM (SELECT pid, ARG_MIN(x, day) OVER () AS z FROM visits GROUP BY pid)",
        "Write FIRST_VALUE(x) OVER (PARTITION BY pid ORDER BY day)",
    ),
    ("SELECT SUM(z) FROM (SELECT pid, ARG_MAX(x, day, 2) AS z FROM visits GROUP BY pid)", "(count). Leave it out"),
    ("SELECT SUM(z) FROM (SELECT pid, ARG_MAX(vid, day) AS z FROM visits GROUP BY pid)", "Add [columns.vid] bounds"),
    ("SELECT SUM(z) FROM (SELECT pid, FIRST(x ORDER BY day) AS z FROM visits GROUP BY pid)", "ARG_MIN(value, date)"),
    ("SELECT SUM(x) FROM (SELECT DISTINCT ON (ward) pid, x FROM visits ORDER BY ward, day)", "DISTINCT ON (pid) …"),
    ("SELECT DISTINCT ON (pid) pid, x FROM visits ORDER BY pid, day", "in a subquery, and aggregate"),
    ("SELECT SUM(x) FROM (SELECT DISTINCT ON (pid) pid, x FROM visits ORDER BY pid, day LIMIT 5)", "LIMIT"),
    (
        "SELECT SUM(x) FROM (SELECT DISTINCT ON (pid) x FROM visits QUALIFY RANK() OVER (PARTITION BY pid) > 1)",
        "one of them in a subquery",
    ),
    (
        "SELECT SUM(g) FROM (SELECT DATEDIFF(day, LAG(day) OVER (PARTITION BY pid ORDER BY day)) AS g FROM visits)",
        "DATE_DIFF('day', start, end)",
    ),
]


@pytest.mark.parametrize(("sql", "advice"), REFUSED, ids=lambda text: text[:90])
def test_what_reads_other_peoples_rows_is_refused(sql: str, advice: str) -> None:
    with pytest.raises(QueryError) as refused:
        plan_query(sql, SCHEMA)
    assert advice in str(refused.value)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) FROM visits WHERE pid IN (SELECT pid FROM visits)",
        "SELECT COUNT(*) FROM (SELECT LAG(x) OVER (PARTITION BY pid ORDER BY day) AS z FROM visits) t",
        "SELECT COUNT(*) FROM (SELECT DISTINCT ON (pid) pid FROM visits) t",
    ],
)
def test_without_a_unit_the_refusal_says_to_declare_it(sql: str) -> None:
    facts = {name: FACTS[name] for name in ("table", "individuals", "columns")}
    with pytest.raises(QueryError, match="name their column in the schema"):
        plan_query(sql, read_schema(facts))


# ---------------------------------------------------------------- identity and what is said


def digest(sql: str, schema: Schema = SCHEMA) -> str:
    return digest_measured(plan_query(sql, schema))


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
