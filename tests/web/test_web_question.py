"""A query in words: what is counted is called what it is, and where words would be wrong its SQL stands."""

from __future__ import annotations

import tomllib

import pytest

from dosimeter.schema.toml import read_schema
from dosimeter.web.query_planner import QueryPlanner
from dosimeter.web.question import QueryInWords, describe_question
from tests.web.web_site import clinic_settings

SMOKERS = "SELECT COUNT(*) FROM clinic WHERE smoker"
VISITS = """
table = "visits"\nindividuals = 300\nunit = "patient"\nmax_rows_per_unit = 3\nrow_key = "visit"\nreviewed = true
columns.patient.type = "text"\ncolumns.visit.type = "integer"\ncolumns.urgent.type = "boolean"
columns.ward = {type = "category", values = ["A", "B"]}\ncolumns.minutes = {type = "integer", bounds = [0, 90]}
columns.day = {type = "date", bounds = [2024-01-01, 2024-12-31]}\ncolumns.doctor.type = "text"
tables.wards.public = true\ntables.wards.key = "name"\ntables.wards.source = "wards.csv"
tables.wards.columns = {name = {type = "category", values = ["A", "B"]}, floor = {type = "integer", bounds = [0, 1]}}
"""
AMONG_ROWS = {
    "COUNT(*) FROM visits": "How many rows are there?",
    "COUNT(*) AS people FROM visits WHERE urgent": "How many rows are there with urgent = true?",
    "ward, COUNT(*) FROM visits GROUP BY ward": "How many rows are there, for each ward (2 groups)?",
    "COUNT(DISTINCT patient) FROM visits": "How many people are there?",
    "COUNT(DISTINCT patient) FROM visits WHERE ward = 'A'": "How many people have rows with ward = 'A'?",
    "ward, COUNT(DISTINCT patient) FROM visits GROUP BY 1": "How many people are there, for each ward (2 groups)?",
    "COUNT(minutes) FROM visits WHERE urgent": "How many rows with urgent = true have a value of minutes?",
    "AVG(minutes) FROM visits": "What is the average minutes over all rows?",
    "AVG(minutes) FROM visits WHERE urgent": "What is the average minutes among rows with urgent = true?",
    "AVG(CAST(urgent AS INT)) FROM visits": "What is the share of rows with urgent = true?",
    "MONTH(day) AS w, COUNT(*) FROM visits GROUP BY 1": "How many rows are there, for each month of day (12 groups)?",
    "doctor, COUNT(*) FROM visits GROUP BY 1": "How many rows are there, for each doctor that enough people share?",
}
BY_SQL = [
    "AVG(n) FROM (SELECT patient, COUNT(*) AS n FROM visits GROUP BY patient)",
    "COUNT(*) FROM visits WHERE patient IN (SELECT patient FROM visits WHERE urgent)",
    "COUNT(*) FROM (SELECT patient, MAX(minutes) AS most FROM visits GROUP BY patient) WHERE most > 60",
    "ward, COUNT(*) FROM visits GROUP BY ward ORDER BY 2 DESC LIMIT 3",
    "ward, COUNT(*) FROM visits GROUP BY ward HAVING COUNT(*) > 5",
    "SUM(minutes) / COUNT(*) FROM visits",
    "ward, COUNT(*) FROM visits GROUP BY ROLLUP (ward)",
    "COUNT(*) FROM visits UNION ALL SELECT COUNT(*) FROM visits WHERE urgent",
    "floor, COUNT(*) FROM visits JOIN wards ON ward = name GROUP BY floor",
    "COUNT(*) FROM visits WHERE day + INTERVAL 1 MONTH > DATE '2024-03-01'",
    "w, COUNT(*) FROM (SELECT patient, ARG_MAX(ward, day) AS w FROM visits GROUP BY patient) GROUP BY w",
    "ward, COUNT(*) FROM (SELECT DISTINCT ON (patient) ward FROM visits ORDER BY patient, day) GROUP BY ward",
]


def ask_visits(sql: str) -> QueryInWords:
    settings = clinic_settings(algorithm="fixed", delta_total=1e-3, group_delta=1e-6)
    return describe_question(QueryPlanner(settings, read_schema(tomllib.loads(VISITS))).plan_anew(f"SELECT {sql}"))


@pytest.mark.parametrize(("sql", "words"), AMONG_ROWS.items())
def test_rows_are_called_rows_and_people_people(sql: str, words: str) -> None:
    assert ask_visits(sql).title == ask_visits(sql).words == words


@pytest.mark.parametrize("sql", BY_SQL)
def test_where_words_would_be_wrong_the_sql_stands(sql: str) -> None:
    asked = ask_visits(sql)
    assert asked.words == ""
    assert asked.title == f"SELECT {sql}"


def test_people_with_one_row_each_are_people() -> None:
    facts = tomllib.loads(VISITS) | {"max_rows_per_unit": 1}
    planner = QueryPlanner(clinic_settings(algorithm="fixed"), read_schema(facts))
    asked = describe_question(planner.plan_anew("SELECT COUNT(*) FROM visits WHERE urgent"))
    assert asked.words == "How many people are there with urgent = true?"
