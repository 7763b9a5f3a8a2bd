"""What the pages say: questions in words, numbers, labels, axes, costs and reasons; and small ways of the forms."""

from __future__ import annotations

import tomllib
from pathlib import Path

import httpx
import pytest

from dosimeter.errors import OptionError
from dosimeter.schema.toml import read_schema
from dosimeter.show import format_small
from dosimeter.web.checks import find_clause, underline
from dosimeter.web.decision.form import DecisionForm, read_fields, recall_form, write_query
from dosimeter.web.figures import show_bound, show_number
from dosimeter.web.query_planner import QueryPlanner
from dosimeter.web.question import QueryInWords, describe_question
from tests.web.web_site import (
    COUNT,
    Guest,
    StartSite,
    clinic_settings,
    copy_clinic,
    make_settings,
    read_text,
)


def test_numbers_are_written_for_people() -> None:
    assert (show_number(-273.0), show_bound("-1234.50"), show_bound("2023-01-01")) == (
        "−273",
        "−1,234.50",
        "2023-01-01",
    )
    assert (format_small(6.25e-6), format_small(0.0)) == ("6.25·10⁻⁶", "0")


@pytest.mark.parametrize(
    "form",
    [
        DecisionForm(percent=97.5, epsilon=0.3),
        DecisionForm(preset="variance", tau=1e-5),
        DecisionForm(preset="medians", column="a b", value="c&d", share=80),
        DecisionForm(preset="own", text="MIN(rdr) / MAX(rdr) >= 0.5"),
    ],
)
def test_form_survives_its_address(form: DecisionForm) -> None:
    fields = dict(httpx.QueryParams(write_query(form, form.epsilon)))
    assert read_fields(fields) == (form, "")


def test_stored_preference_becomes_its_sentence_again() -> None:
    assert recall_form("MIN(rdr) / MAX(rdr) >= 0.9", 0.1) == DecisionForm(preset="ratio", percent=90.0, epsilon=0.1)
    assert recall_form("variance:1e-4", None) == DecisionForm(preset="variance", tau=1e-4)
    assert recall_form(None, 0.1) == DecisionForm(epsilon=0.1)


@pytest.mark.clinic(algorithm="fixed")
def test_answer_names_each_error(anna: Guest, carol: Guest, api: httpx.Client) -> None:
    """In the number's own units, with an interval where there is one number, and in rows where it is drawn by rank."""
    columns = ("COUNT(*), SUM(visits)", "MEDIAN(visits), MIN(visits), COUNT(*)")
    asked = [anna.ask(f"SELECT sex, {each} FROM clinic GROUP BY sex") for each in columns] + [anna.ask()]
    for query_id in asked:
        carol.approve(query_id, "0.5")
    grouped, ranked, alone = (read_text(anna.get(f"/queries/{query_id}").text).replace("−", "-") for query_id in asked)
    summed, drawn, counted = (api.get(f"/queries/{query_id}").json()["answer"] for query_id in asked)
    for row, errors in zip(summed["rows"], summed["errors"], strict=True):
        assert f"{row['count']:,} ± {errors['count']:,.0f}" in grouped  # two digits: all of them
        assert 1_000 <= errors["sum_visits"] < 10_000
        total, error = round(row["sum_visits"] / 100) * 100, -(-errors["sum_visits"] // 100) * 100
        assert f"{total:,} ± {error:,.0f}" in grouped
    low, high = (counted["rows"][0]["count"] + sign * counted["error_95"][0] for sign in (-1, 1))
    assert f"{low:,.0f} to {high:,.0f}" in alone
    assert drawn["error_95"][:2] == [None, None]
    assert set(drawn["rank_errors"]) == {"median_visits", "min_visits"}
    assert f"± {drawn['error_95'][2]:,.0f}" in ranked


def test_revealed_names_stay_for_the_session_and_the_query(conrad: Guest, anna: Guest, carol: Guest) -> None:
    one, two = anna.ask(), anna.ask("SELECT SUM(visits) FROM clinic")
    for query_id in (one, two):
        carol.get(f"/decide/{query_id}")
    page = carol.act(f"/decide/{one}/reveal", epsilon="0.05").text
    mark = page.split('data-revealed="')[1].split('"')[0]

    def is_masked(guest: Guest, query_id: str, given: str) -> bool:
        found = guest.get(f"/decide/{query_id}/people", params={"epsilon": "0.04", "revealed": given})
        assert found.status_code == 200
        return "•••" in found.text

    assert not is_masked(carol, one, mark)
    assert is_masked(carol, two, mark)
    assert is_masked(carol, one, mark[:-1])
    assert is_masked(conrad, one, mark)
    assert carol.get("/audit").text.count("revealed identities") == 1


def test_other_dataset_keeps_what_was_typed(start_site: StartSite, tmp_path: Path) -> None:
    site = start_site(datasets={"clinic": clinic_settings(), "other": copy_clinic(tmp_path, "other")})
    with site.guest("anna") as anna:
        page = anna.act("/ask", dataset="other", sql=COUNT, purpose="a reason", switch="1")
        assert all(words in page.text for words in ("a reason", "Wilson disease", "other: what is publicly known"))
        assert anna.get("/queries").text.count("a reason") == 0


def test_same_data_twice_are_refused_at_the_start() -> None:
    with pytest.raises(OptionError, match="are the same data"):
        make_settings("x.db", {"a": clinic_settings(), "b": clinic_settings()})


def test_what_only_the_controller_can_change_is_said_without_its_settings(anna: Guest) -> None:
    for sql, controllers in (("SELECT COUNT(*) FROM clinic JOIN other USING (age)", True), ("SELEC COUNT(*)", False)):
        told = anna.act("/ask/check", dataset="clinic", sql=sql).text
        assert ('class="bad"' in told, "[tables" in told) == (True, False)
        assert ("Only the controller" in told) is controllers


@pytest.mark.parametrize(
    ("sql", "clause", "at", "marked"),
    [
        ("SELECT a<b FROM t", "a < b", None, "SELECT <mark>a&lt;b</mark> FROM t"),
        ("select  mode( x ) from t", "MODE(x)", None, "select  <mark>mode( x )</mark> from t"),
        ("SELECT 1", None, None, "SELECT 1"),
        ("SELECT <b>", "nothing here", None, "SELECT &lt;b&gt;"),
        ("SELECT ages, age FROM t", "age", None, "SELECT ages, <mark>age</mark> FROM t"),  # no part of a word
        ("SELECT age FROM t WHERE age", "age", 24, "SELECT age FROM t WHERE <mark>age</mark>"),
        ("SELECT x::TEXT FROM t", "CAST(x AS TEXT)", 7, "SELECT <mark>x</mark>::TEXT FROM t"),
        ("SELECT age FROM t", "no_such", None, "SELECT age FROM t"),
    ],
)
def test_clause_is_found_and_escaped(sql: str, clause: str | None, at: int | None, marked: str) -> None:
    assert underline(sql, find_clause(sql, clause, at)) == marked


VISITS = """
table = "visits"\nindividuals = 300\nunit = "patient"\nmax_rows_per_unit = 3\nrow_key = "visit"\nreviewed = true
columns.patient.type = "text"\ncolumns.visit.type = "integer"\ncolumns.urgent.type = "boolean"
columns.ward = {type = "category", values = ["A", "B"]}\ncolumns.minutes = {type = "integer", bounds = [0, 90]}
columns.day = {type = "date", bounds = [2024-01-01, 2024-12-31]}\ncolumns.doctor.type = "text"
tables.wards.public = true\ntables.wards.key = "name"\ntables.wards.source = "wards.csv"
tables.wards.columns = {name = {type = "category", values = ["A", "B"]}, floor = {type = "integer", bounds = [0, 1]}}
"""
AMONG_ROWS = {
    "COUNT(*) AS people FROM visits WHERE urgent": "How many rows are there with urgent = true?",
    "ward, COUNT(*) FROM visits GROUP BY ward": "How many rows are there, for each ward (2 groups)?",
    "COUNT(DISTINCT patient) FROM visits WHERE ward = 'A'": "How many people have rows with ward = 'A'?",
    "ward, COUNT(DISTINCT patient) FROM visits GROUP BY 1": "How many people are there, for each ward (2 groups)?",
    "COUNT(minutes) FROM visits WHERE urgent": "How many rows with urgent = true have a value of minutes?",
    "AVG(minutes) FROM visits": "What is the average minutes over all rows?",
    "AVG(CAST(urgent AS INT)) FROM visits": "What is the share of rows with urgent = true?",
    "MONTH(day) AS w, COUNT(*) FROM visits GROUP BY 1": "How many rows are there, for each month of day (12 groups)?",
    "doctor, COUNT(*) FROM visits GROUP BY 1": "How many rows are there, for each doctor that enough people share?",
    "ward, COUNT(*) FROM visits GROUP BY ward HAVING AVG(minutes) > 5": (
        "How many rows are there, for each ward (2 groups)? Only groups with AVG(minutes) > 5 are shown, by the noisy "
        "numbers."
    ),
    "ward, COUNT(*) FROM visits GROUP BY ward HAVING ward <> 'e0' LIMIT 1": (
        "How many rows are there, for each ward (2 groups)? Only the first row with ward ≠ 'e0' is shown."
    ),
    "ward, COUNT(*) AS n FROM visits GROUP BY ward ORDER BY 2 DESC LIMIT 3": (
        "How many rows are there, for each ward (2 groups)? Only the first 3 rows are shown, by n, the largest first."
    ),
}
NAMED = {
    "COUNT(*) FROM visits WHERE urgent": "How many stays are there with urgent = true?",
    "ward, COUNT(*) FROM visits GROUP BY ward": "How many stays are there, for each ward (2 groups)?",
    "COUNT(DISTINCT patient) FROM visits": "How many patients are there?",
    "COUNT(DISTINCT patient) FROM visits WHERE ward = 'A'": "How many patients have stays with ward = 'A'?",
    "ward, COUNT(*) FROM visits WHERE urgent AND ward = 'A' AND NOT urgent GROUP BY 1": (
        "How many stays are there with urgent = true and ward = 'A' and urgent = false, for each ward (2 groups)?"
    ),
    "COUNT(*) FROM visits WHERE NOT (urgent AND ward = 'A')": (
        "How many stays are there with NOT (urgent AND (ward = 'A'))?"
    ),
    "COUNT(*) FROM visits WHERE (ward = 'A' OR urgent) AND minutes > 5": (
        "How many stays are there with ((ward = 'A') OR urgent) AND (minutes > 5)?"
    ),
    "COUNT(DISTINCT doctor) FROM visits": "How many different values are there of doctor?",
    "COUNT(minutes) FROM visits WHERE urgent": "How many stays with urgent = true have a value of minutes?",
    "AVG(minutes) FROM visits": "What is the average minutes over all stays?",
    "COUNT(*), AVG(minutes) FROM visits": "What are the number of stays and the average minutes over all stays?",
    "AVG(CAST(urgent AS INT)) FROM visits": "What is the share of stays with urgent = true?",
    "doctor, COUNT(*) FROM visits GROUP BY 1": (
        "How many stays are there, for each doctor that enough patients share?"
    ),
    "AVG(n) FROM (SELECT patient, COUNT(*) AS n FROM visits GROUP BY patient)": "",
}
BY_SQL = [
    "AVG(n) FROM (SELECT patient, COUNT(*) AS n FROM visits GROUP BY patient)",
    "COUNT(*) FROM visits WHERE patient IN (SELECT patient FROM visits WHERE urgent)",
    "COUNT(*) FROM (SELECT patient, MAX(minutes) AS most FROM visits GROUP BY patient) WHERE most > 60",
    "ward, COUNT(*) FROM visits GROUP BY ward ORDER BY 2 DESC LIMIT 1 OFFSET 1",
    "SUM(minutes) / COUNT(*) FROM visits",
    "ward, COUNT(*) FROM visits GROUP BY ROLLUP (ward)",
    "COUNT(*) FROM visits UNION ALL SELECT COUNT(*) FROM visits WHERE urgent",
    "floor, COUNT(*) FROM visits JOIN wards ON ward = name GROUP BY floor",
    "COUNT(*) FROM visits WHERE day + INTERVAL 1 MONTH > DATE '2024-03-01'",
    "w, COUNT(*) FROM (SELECT patient, ARG_MAX(ward, day) AS w FROM visits GROUP BY patient) GROUP BY w",
    "ward, COUNT(*) FROM (SELECT DISTINCT ON (patient) ward FROM visits ORDER BY patient, day) GROUP BY ward",
]


def test_words_say_rows_or_people_and_stand_only_where_they_are_right() -> None:
    """People with one row each are people. Where words would be wrong the SQL stands."""

    def describe(sql: str, **changes: int | str) -> QueryInWords:
        settings = clinic_settings(algorithm="fixed", delta_total=1e-3, group_delta=1e-6)
        planner = QueryPlanner(settings, read_schema(tomllib.loads(VISITS) | changes))
        return describe_question(planner.plan_anew(f"SELECT {sql}"))

    for sql, words in AMONG_ROWS.items():
        assert describe(sql).title == describe(sql).words == words
    for sql in BY_SQL:
        assert (describe(sql).words, describe(sql).title) == ("", f"SELECT {sql}")
    alone = describe("COUNT(*) FROM visits WHERE urgent", max_rows_per_unit=1)
    assert alone.words == "How many people are there with urgent = true?"
    named = {"row": "stay", "individual": "patient"}
    for sql, words in NAMED.items():
        assert describe(sql, **named).words == words
    alone = describe("COUNT(*) FROM visits WHERE urgent", max_rows_per_unit=1, **named)
    assert alone.words == "How many patients are there with urgent = true?"
