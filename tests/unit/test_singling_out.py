"""A query that tests a column by which people can be told apart asks about single persons, however it is written."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from dosimeter.cli import main
from dosimeter.planning.explain import explain_plan
from dosimeter.planning.planner import plan_query
from dosimeter.schema.toml import read_schema
from tests.schemas import declare, plain, whole

IDENTIFYING = {"type": "text", "identifying": True}
VISITS = read_schema(
    declare(
        "visits",
        100,
        {
            "visit": plain("integer"),
            "patient": whole(1, 1000),
            "name": IDENTIFYING,
            "doctor": plain("text"),
            "vip": {"type": "boolean", "identifying": True},
            "born": {"type": "date", "bounds": ["1900-01-01", "2025-12-31"], "identifying": True},
            "age": whole(0, 120),
            "salary": whole(0, 100_000) | {"identifying": True},
        },
        unit="patient",
        max_rows_per_unit=3,
        row_key="visit",
        tables={
            "ward": {
                "source": "ward.csv",
                "public": True,
                "key": "patient",
                "columns": {"patient": plain("integer"), "nurse": IDENTIFYING},
            }
        },
    )
)


def find(sql: str) -> list[str]:
    return [name for name, _ in plan_query(sql, VISITS).singled_out]


@pytest.mark.parametrize(
    ("condition", "column"),
    [
        ("name = 'Yusuf Demir'", "name"),
        ("NOT (name = 'Yusuf Demir')", "name"),
        ("name IN ('a', 'b')", "name"),
        ("name LIKE 'Yusuf%'", "name"),
        ("patient = 218", "patient"),
        ("visit BETWEEN 7 AND 8", "visit"),
        ("patient > 217 AND patient < 219", "patient"),
        ("patient - 218 = 0", "patient"),
        ("patient = age / age + age / age", "patient"),
        ("1 / (patient - 218) IS NULL", "patient"),
        ("COALESCE(name, '') = ''", "name"),
        ("CASE WHEN age > 30 THEN name END = 'x'", "name"),
        ("CASE name WHEN 'x' THEN 1 ELSE 0 END = 1", "name"),
        ("EXTRACT(YEAR FROM born) = 1950", "born"),
        ("vip", "vip"),
        ("age > 30 AND (vip OR age < 5)", "vip"),
        ("age > 30 OR name = 'x'", "name"),
        ("v.NAME = 'x'", "name"),
    ],
)
def test_a_test_of_an_identifying_column_is_found(condition: str, column: str) -> None:
    for sql in (
        f"SELECT COUNT(*) FROM visits v WHERE {condition}",
        f"SELECT COUNT(*) FILTER (WHERE {condition}) FROM visits v",
        f"SELECT COUNT_IF({condition}) FROM visits v",
        f"SELECT SUM(CASE WHEN {condition} THEN 1 ELSE 0 END) FROM visits v",
    ):
        assert find(sql) == [column], sql


HIDDEN = [
    ("SELECT COUNT(*) FROM (SELECT name AS n FROM visits) AS inside WHERE n = 'x'", "name"),
    ("SELECT COUNT(*) FROM (SELECT patient, COUNT(*) AS n FROM visits WHERE visit = 7 GROUP BY patient) t",
     "visit"),
    ("SELECT COUNT(*) FROM (SELECT patient, MAX(patient) AS m FROM visits GROUP BY patient) t WHERE m = 7", "m"),
    ("SELECT COUNT(*) FROM (SELECT patient, MAX(name) AS m FROM visits GROUP BY patient) t WHERE m = 'x'", "m"),
    ("SELECT COUNT(*) FROM (SELECT patient, visit AS k, COUNT(*) AS n FROM visits GROUP BY patient, visit) t "
     "WHERE k = 7", "visit"),
    ("SELECT COUNT(*) FROM (SELECT patient, LAG(visit) OVER (PARTITION BY patient ORDER BY age) AS m "
     "FROM visits) t WHERE m = 7", "m"),
    ("SELECT COUNT(*) FROM (SELECT * FROM visits QUALIFY LAG(visit) OVER (PARTITION BY patient ORDER BY age) = 7) "
     "t", "LAG(visit) OVER (PARTITION BY patient ORDER BY age)"),
    ("SELECT COUNT(*) FROM (SELECT * FROM visits QUALIFY MAX(salary) OVER (PARTITION BY patient) = 7) t",
     "MAX(salary) OVER (PARTITION BY patient)"),
    ("SELECT COUNT(*) FROM (SELECT * FROM visits QUALIFY ROW_NUMBER() OVER (PARTITION BY patient ORDER BY "
     "CASE WHEN visit = 7 THEN 0 ELSE 1 END) = 1) t", "visit"),
    ("WITH w AS (SELECT * FROM visits WHERE name = 'x') SELECT COUNT(*) FROM w", "name"),
    ("SELECT name = 'x' AS who, COUNT(*) FROM visits GROUP BY who", "name"),
    ("SELECT SUM(ABS(patient - 217) + ABS(patient - 219) - 2 * ABS(patient - 218)) FROM visits", "patient"),
    ("SELECT COUNT(*) FROM visits JOIN ward ON visits.patient = ward.patient WHERE ward.nurse = 'x'", "ward.nurse"),
]  # fmt: skip
FINE = [
    "SELECT COUNT(DISTINCT patient) FROM visits",
    "SELECT COUNT(DISTINCT patient) FROM visits WHERE age > 30 AND doctor = 'x'",
    "SELECT COUNT(name) FROM visits",
    "SELECT COUNT(DISTINCT visit) FROM visits",
    "SELECT COUNT(*) FROM (SELECT patient, ROW_NUMBER() OVER (PARTITION BY patient ORDER BY visit) AS r "
    "FROM visits) t WHERE r = 1",
    "SELECT COUNT(*) FROM (SELECT * FROM visits QUALIFY ROW_NUMBER() OVER (PARTITION BY patient ORDER BY visit) = 1) t",
    "SELECT COUNT(*) FROM (SELECT * FROM visits QUALIFY COUNT(*) OVER (PARTITION BY patient) > 1) t WHERE age = 7",
    "SELECT COUNT(*) FROM visits WHERE name IS NOT NULL",
    "SELECT COUNT(*) FROM visits WHERE (name) IS NULL AND age = 5",
    "SELECT COUNT(*) FROM visits WHERE name = doctor",
    "SELECT SUM(salary), AVG(2 * salary + 1), AVG(ABS(salary)) FROM visits WHERE age > 30",
    "SELECT AVG(CASE WHEN age > 30 THEN salary END) FROM visits",
    "SELECT AVG(salary) FILTER (WHERE age > 30) FROM visits HAVING AVG(salary) > 5 ORDER BY AVG(salary)",
    "SELECT COUNT(*) FROM visits JOIN ward ON visits.patient = ward.patient",
    "SELECT COUNT(*) FROM visits JOIN ward USING (patient) WHERE age = 7",
    "SELECT patient, COUNT(*) FROM visits GROUP BY patient",
]


@pytest.mark.parametrize(("sql", "column"), [*HIDDEN, *((sql, None) for sql in FINE)])
def test_a_hidden_test_is_found_and_what_counts_joins_and_adds_is_fine(sql: str, column: str | None) -> None:
    assert find(sql) == ([] if column is None else [column])


def test_explain_says_so() -> None:
    plan = plan_query("SELECT COUNT(*) FROM visits WHERE name = 'x' AND patient = 5", VISITS)
    notes = explain_plan(plan).notes
    assert notes[0].startswith("name = 'x' singles people out by name")
    assert notes[1].startswith("patient = 5 singles people out by patient")


@pytest.mark.parametrize(("sql", "told"), [("WHERE name = 'x'", True), ("WHERE age > 40", False)])
def test_the_controller_is_told_before_an_answer_and_after_it(
    clinic: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], sql: str, told: bool
) -> None:
    asked = [str(clinic), f"SELECT COUNT(*) FROM clinic {sql}", "--schema", str(clinic.with_suffix(".toml"))]
    release = ["release", *asked, "--ledger", str(tmp_path / "ledger.db"), "--policy", "budget:1", "--epsilon", "0.1"]
    looks = (["find", *asked, "--prefer", "ratio:0.5"], ["risk", *asked], [*release, "--dry-run"])
    for look in looks:
        main(look)
        assert ("singles people out by name" in " ".join(capsys.readouterr().out.split())) == told
    assert main(release) == 0
    printed = capsys.readouterr()
    assert ("For the controller: This query singles people out by name" in printed.err) == told
    assert "singles people out" not in printed.out


def test_a_dry_run_says_that_the_preference_decides_nothing(
    clinic: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = [str(clinic), "SELECT district, COUNT(*) FROM clinic GROUP BY district"]
    asked += ["--schema", str(clinic.with_suffix(".toml")), "--ledger", str(tmp_path / "ledger.db")]
    for preference, told in (("ratio:0.95", True), ("error:40", False)):
        main(["release", *asked, "--policy", "budget:2", "--prefer", preference, "--dry-run"])
        assert ("decides nothing" in " ".join(capsys.readouterr().out.split())) == told


def test_a_number_within_each_person_singles_out_nobody() -> None:
    """The first visit is everybody's; a number that tells all rows apart is one person's."""
    first = "SELECT COUNT(*) FROM visits WHERE visit = 1"
    latest = "SELECT COUNT(*) FROM (SELECT patient, MAX(visit) AS v FROM visits GROUP BY patient) p WHERE v = 3"
    for high, singled_out in ((3, False), (100_000, True)):
        numbered = replace(VISITS.columns["visit"], bounds=(Decimal(1), Decimal(high)))
        schema = replace(VISITS, columns={**VISITS.columns, "visit": numbered})
        for sql in (first, latest):
            assert (
                any("singles people out" in note for note in explain_plan(plan_query(sql, schema)).notes) is singled_out
            )
