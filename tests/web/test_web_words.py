"""What the pages say: questions in words, numbers, labels, axes, costs and reasons; and small ways of the forms."""

from __future__ import annotations

import tomllib
from pathlib import Path

import httpx
import pytest

from dosimeter.errors import OptionError
from dosimeter.schema.toml import read_schema
from dosimeter.show import format_small
from dosimeter.web.checks import underline_clause
from dosimeter.web.decision.form import DecisionForm, read_fields, recall_form, write_query
from dosimeter.web.figures import show_bound, show_number
from dosimeter.web.query_planner import QueryPlanner
from dosimeter.web.question import QueryInWords, describe_question
from tests.waiting import wait_until
from tests.web.web_site import (
    COUNT,
    Guest,
    Site,
    StartSite,
    clinic_settings,
    copy_clinic,
    keep_busy,
    make_settings,
    read_text,
)


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (show_number(-273.0), "−273"),
        (show_bound("50000"), "50,000"),
        (show_bound("-1234.50"), "−1,234.50"),
        (show_bound("2023-01-01"), "2023-01-01"),
        (format_small(6.25e-6), "6.25·10⁻⁶"),
        (format_small(0.0), "0"),
    ],
)
def test_numbers_are_written_for_people(written: str, shown: str) -> None:
    assert written == shown


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


def test_confirmation_repeats_what_warns(anna: Guest, carol: Guest) -> None:
    """Three people have the disease; their preference of 50 % is looser than the threshold of 95 %."""
    loose = {"epsilon": "1", "preset": "ratio", "percent": "50"}
    query_id = anna.ask()
    carol.get(f"/decide/{query_id}", params=loose)
    asked = read_text(carol.get(f"/decide/{query_id}/confirm", params=loose).text)
    assert "This question touches only 3 people: whatever it answers is about them." in asked
    assert "Looser than your own threshold: at least 95 %, which admits ε = 0.05 at most." in asked
    assert "the analyst, anna, sees the answer at once, but neither ε nor its errors." in asked


@pytest.mark.clinic(algorithm="fixed")
def test_answer_names_each_error(anna: Guest, carol: Guest, api: httpx.Client) -> None:
    grouped, alone = anna.ask("SELECT sex, COUNT(*), SUM(visits) FROM clinic GROUP BY sex"), anna.ask()
    for query_id in (grouped, alone):
        carol.approve(query_id, "0.5")
    pages = [read_text(anna.get(f"/queries/{query_id}").text) for query_id in (grouped, alone)]
    answers = [api.get(f"/queries/{query_id}").json()["answer"] for query_id in (grouped, alone)]
    for row, errors in zip(answers[0]["rows"], answers[0]["errors"], strict=True):
        assert f"{row['count']:,} ± {errors['count']:,.0f}".replace("-", "−") in pages[0]  # two digits: all of them
        assert 1_000 <= errors["sum_visits"] < 10_000
        step = 100
        total, error = round(row["sum_visits"] / step) * step, -(-errors["sum_visits"] // step) * step
        assert f"{total:,} ± {error:,.0f}".replace("-", "−") in pages[0]
    low, high = (answers[1]["rows"][0]["count"] + sign * answers[1]["error_95"][0] for sign in (-1, 1))
    assert f"the exact number lies within {low:,.0f} to {high:,.0f}".replace("-", "−") in pages[1]


@pytest.mark.clinic(algorithm="fixed")
def test_what_is_drawn_by_rank_is_told_in_rows(anna: Guest, carol: Guest, api: httpx.Client) -> None:
    query_id = anna.ask("SELECT sex, MEDIAN(visits), MIN(visits), COUNT(*) FROM clinic GROUP BY sex")
    decided = read_text(carol.get(f"/decide/{query_id}", params={"epsilon": "0.5"}).text)
    carol.approve(query_id, "0.5")
    page = read_text(anna.get(f"/queries/{query_id}").text)
    answer = api.get(f"/queries/{query_id}").json()["answer"]
    assert answer["error_95"][:2] == [None, None]
    assert set(answer["rank_errors"]) == {"median_visits", "min_visits"}
    assert " rows" in decided
    assert "Laplace noise; MEDIAN(visits) and MIN(visits) drawn by rank" in decided
    assert "no bound" not in page
    assert f"± {answer['error_95'][2]:,.0f}" in page
    assert all(sentence in page for sentence in answer["about"] if "below 0" not in sentence)
    assert "people of the middle" in page
    assert "rows lie at or below" in page


def test_revealed_names_stay_for_the_session_and_the_query(site: Site, anna: Guest, carol: Guest) -> None:
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
    with site.guest("conrad") as conrad:
        assert is_masked(conrad, one, mark)
    assert carol.get("/audit").text.count("revealed identities") == 1


def test_other_dataset_keeps_what_was_typed(start_site: StartSite, tmp_path: Path) -> None:
    site = start_site(datasets={"clinic": clinic_settings(), "other": copy_clinic(tmp_path, "other")})
    with site.guest("anna") as anna:
        page = anna.act("/ask", dataset="other", sql=COUNT, purpose="a reason", switch="1")
        assert page.status_code == 200
        assert "a reason" in page.text
        assert "Wilson disease" in page.text
        assert "other: what is publicly known" in page.text
        assert "other: what is publicly known" in anna.get("/ask/schema", params={"dataset": "other"}).text
        assert anna.get("/queries").text.count("a reason") == 0


def test_same_data_twice_are_refused_at_the_start() -> None:
    with pytest.raises(OptionError, match="are the same data"):
        make_settings("x.db", {"a": clinic_settings(), "b": clinic_settings()})


def test_analyst_is_told_what_an_analyst_can_do(api: httpx.Client, anna: Guest) -> None:
    joined = anna.act("/ask/check", dataset="clinic", sql="SELECT COUNT(*) FROM clinic JOIN other USING (age)").text
    assert "[tables" not in joined
    assert "Only the controller can change that" in joined
    for mistyped in ("SELEC COUNT(*) FROM clinic", "SEL", "COUNT(*)", "DROP TABLE clinic"):
        told = anna.act("/ask/check", dataset="clinic", sql=mistyped).text
        assert 'class="bad"' in told
        assert "Only the controller" not in told
    hint = anna.act("/ask/check", dataset="clinic", sql="SELECT COUNT(*) FROM clinic WHERE sex = 'F'").text
    assert "is not among the declared values of sex" in hint
    broken = api.post("/queries", content=b"{]", headers={"Content-Type": "application/json"})
    assert broken.json()["error"]["message"] == "The request is not valid JSON."


def test_waiting_page_asks_for_its_part_only(site: Site, anna: Guest, carol: Guest) -> None:
    with keep_busy(site.state.datasets["clinic"].worker) as job:
        page = carol.get(f"/decide/{anna.ask()}").text
        assert "data-reload" not in page
        assert 'hx-get="/jobs/' in page
        assert "HX-Refresh" not in carol.get(f"/jobs/{job.id}").headers
    wait_until(job.ended.is_set, "the job has ended")
    assert carol.get(f"/jobs/{job.id}").headers["HX-Refresh"] == "true"  # done: the page is loaded anew, once


@pytest.mark.parametrize(
    ("sql", "clause", "marked"),
    [
        ("SELECT a<b FROM t", "a < b", "SELECT <mark>a&lt;b</mark> FROM t"),
        ("select  mode( x ) from t", "MODE(x)", "select  <mark>mode( x )</mark> from t"),
        ("SELECT 1", None, "SELECT 1"),
        ("SELECT <b>", "nothing here", "SELECT &lt;b&gt;"),
    ],
)
def test_clause_is_found_and_escaped(sql: str, clause: str | None, marked: str) -> None:
    assert underline_clause(sql, clause) == marked


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
