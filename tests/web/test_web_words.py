"""What the pages say: numbers, labels, axes, costs and reasons, checked by hand; and small ways of the forms."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from dosimeter.client import Client
from dosimeter.errors import LedgerError, OptionError
from dosimeter.risk import NO_ERROR
from dosimeter.show import format_small
from dosimeter.web.checks import underline_clause
from dosimeter.web.decision.accuracy import write_error
from dosimeter.web.decision.form import DecisionForm, read_fields, recall_form, write_query
from dosimeter.web.figures import show_bound, show_number
from tests.waiting import LONGEST_WAIT, wait_until
from tests.web.web_site import COUNT, Guest, Site, clinic_settings, make_settings, read_text


def test_most_exposed_are_counted_by_themselves(site: Site, anna: Guest, carol: Guest) -> None:
    """SUM(visits): by hand, how many patients have the most visits."""
    data = Path(str(clinic_settings().data)).read_text().splitlines()
    place = data[0].split(",").index("visits")
    visits = [int(line.split(",")[place] or 0) for line in data[1:]]
    holders = visits.count(max(visits))
    page = read_text(carol.get(f"/decide/{anna.ask('SELECT SUM(visits) FROM clinic')}").text)
    expected = "1 person at" if holders == 1 else f"{holders} people at"
    assert f"The most exposed: {expected}" in page


def test_an_error_without_bound_is_called_as_on_the_terminal() -> None:
    assert {write_error(None, None, in_rows=in_rows) for in_rows in (True, False)} == {NO_ERROR}
    assert write_error(None, 2.5, in_rows=False) == "± 2.5"
    assert write_error(1.5, 2.5, in_rows=True) == "± 2 rows"


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


def test_reasons_of_the_odometer_are_in_words(start_site: Callable[..., Site]) -> None:
    site = start_site(datasets={"clinic": clinic_settings(policy="budget:0.05")})
    with site.guest("anna") as anna, site.guest("carol") as carol:
        query_id = anna.ask()
        above = read_text(carol.get(f"/decide/{query_id}", params={"epsilon": "0.06"}).text)
        assert "0 of the budget of 0.05 is spent; this needs 0.06, 0.05 is left." in above
        carol.approve(query_id, "0.05")
        spent = read_text(carol.get(f"/decide/{anna.ask('SELECT SUM(visits) FROM clinic')}").text)
    assert "Nothing can be granted any more, not even the smallest candidate" in spent
    assert "What is spent goes from" not in spent


def test_two_groups_are_compared_in_words_that_say_it(site: Site, anna: Guest, carol: Guest) -> None:
    words = read_text(carol.get(f"/decide/{anna.ask()}", params={"preset": "medians"}).text)
    assert "and that of all others are each at least % of the other’s." in words


def test_warnings_fit_the_people_who_are_touched(site: Site, anna: Guest, carol: Guest) -> None:
    """Eleven people on the island, none of whom is of another sex: counted by hand in the data."""
    island = anna.ask("SELECT MEDIAN(age) FROM clinic WHERE district = 'Seal Island'")
    everybody = anna.ask("SELECT MEDIAN(age) FROM clinic")
    nobody = anna.ask("SELECT COUNT(*) FROM clinic WHERE district = 'Seal Island' AND sex = 'Other'")
    few, many, none = (
        read_text(carol.get(f"/decide/{query_id}", params={"epsilon": "0.5"}).text)
        for query_id in (island, everybody, nobody)
    )
    assert "rows where 11 people are touched, it could be almost any value." in few
    assert "almost any value" not in many + none
    assert "Nobody is in this query: the answer would be noise." in none
    assert "Nobody is in this query: the preference decides nothing." in none
    assert "would identify" not in none


def test_answer_worth_little_has_one_error_and_no_better_epsilon(site: Site, anna: Guest, carol: Guest) -> None:
    """The island's diagnoses have 1, 1, 1, 2, 2 and 4 people, counted by hand: half of the relative errors at ± 6 are
    450 % or more, and up to ε = 2, with ± 1, three of the six numbers are no larger than their error."""
    island = anna.ask("SELECT diagnosis, COUNT(*) FROM clinic WHERE district = 'Seal Island' GROUP BY diagnosis")
    page = read_text(carol.get(f"/decide/{island}", params={"epsilon": "0.5"}).text).replace("\xa0", " ")
    assert "The smallest group holds 1 person: its numbers are about them." in page
    assert page.count("450 %") == 5  # in short, in the picture, in two sentences, in the table
    assert "600 %" not in page
    assert "At ε = 0.5 the analyst would get count ± 6 (95 %); 6 of 6 numbers are no larger than their error;" in page
    assert "It is worth little at every ε that the account still allows. Ask for changes, or deny." in page
    three = read_text(carol.get(f"/decide/{anna.ask()}", params={"epsilon": "0.05"}).text).replace("\xa0", " ")
    assert (  # ± 1 beside 3 people; ± 3 at ε = 1
        "It is worth something from ε = 2 on, and the preference allows 0.05 at most. Ask for changes, or deny."
    ) in three


def test_confirmation_repeats_what_warns(site: Site, anna: Guest, carol: Guest) -> None:
    """Three people have the disease; their preference of 50 % is looser than the threshold of 95 %."""
    loose = {"epsilon": "1", "preset": "ratio", "percent": "50"}
    query_id = anna.ask()
    carol.get(f"/decide/{query_id}", params=loose)
    asked = read_text(carol.get(f"/decide/{query_id}/confirm", params=loose).text).replace("\xa0", " ")
    assert "This question touches only 3 people: whatever it answers is about them." in asked
    assert "Looser than your own threshold: at least 95 %, which admits ε = 0.05 at most." in asked
    assert "the analyst, anna, sees the answer at once, but neither ε nor its errors." in asked


def test_each_state_has_words_of_its_own(site: Site, anna: Guest, carol: Guest) -> None:
    query_id, nobody = anna.ask(), anna.ask("SELECT COUNT(*) FROM clinic WHERE age < 0")
    page = carol.get(f"/decide/{query_id}").text
    assert "<title>How many people are there with diagnosis = &#39;Wilson disease&#39;? · Decide" in page
    assert 'id="update"' in page  # without scripts a button does what the slider does
    assert "<title>(2) Queue · Dosimeter" in carol.get("/queue").text
    raw = read_text(carol.get(f"/decide/{query_id}", params={"raw": "true"}).text)
    assert "Raw RDR compares people within one bar only." in raw
    assert "Shorter bars treat people more alike" not in raw
    divided = {"preset": "own", "text": "MAX(rdr) / 0 >= 1"}
    assert "This condition has no value here, at any ε" in carol.get(f"/decide/{query_id}", params=divided).text
    unmet = read_text(carol.get(f"/decide/{query_id}", params={"percent": "99.99"}).text)
    assert "only a smaller candidate or a weaker preference will do" in unmet
    assert "indicator" not in unmet
    people = carol.get(f"/decide/{nobody}/people", params={"epsilon": "1"}).text
    assert "Nobody moves this answer, whoever is left out." in people


def test_preference_over_errors_says_what_cannot_be_told(site: Site, anna: Guest, carol: Guest) -> None:
    query_id = anna.ask("SELECT diagnosis, AVG(cost_eur) FROM clinic GROUP BY diagnosis")
    condition = "MAX(own_epsilon) <= 1 AND error <= 40000"
    page = carol.get(f"/decide/{query_id}", params={"preset": "own", "text": condition}).text
    assert "of 10 numbers 1 has too few people behind them to tell" in read_text(page)
    assert "Indicator" not in read_text(page)


def test_answer_names_each_error(start_site: Callable[..., Site]) -> None:
    site = start_site(datasets={"clinic": clinic_settings(algorithm="fixed")})
    with site.guest("anna") as anna, site.guest("carol") as carol, site.api() as api:
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
    assert f"the exact number lies within {low:,.0f} to {high:,.0f}".replace("-", "−") in pages[1].replace(
        "&nbsp;", " "
    )


def test_what_is_drawn_by_rank_is_told_in_rows(start_site: Callable[..., Site]) -> None:
    site = start_site(datasets={"clinic": clinic_settings(algorithm="fixed")})
    with site.guest("anna") as anna, site.guest("carol") as carol, site.api() as api:
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
    assert all(sentence in page.replace("\xa0", " ") for sentence in answer["about"] if "below 0" not in sentence)
    assert "people of the middle" in page
    assert "rows lie at or below" in page


def test_preview_carries_the_promise(site: Site, anna: Guest, carol: Guest) -> None:
    query_id = anna.ask()
    before = read_text(carol.get(f"/decide/{query_id}").text)
    carol.approve(query_id)
    sentence = anna.get(f"/queries/{query_id}").text.split('<p class="faint">')[-1].split("</p>")[0]
    assert read_text(sentence) in before


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


def test_new_token_is_shown_once_and_made_once(site: Site, anna: Guest) -> None:
    page = anna.act("/me/tokens", name="notebook")
    assert page.request.method == "GET"  # loading it again makes no second token
    token = page.text.split('id="fresh-token">')[1].split("<")[0]
    assert "fresh-token" not in anna.get("/me").text
    headers = {"Authorization": f"Bearer {token}"}
    assert httpx.get(f"{site.url}/api/v1/queries", headers=headers).status_code == 200


def test_error_pages_keep_the_way_on(carol: Guest, anna: Guest) -> None:
    assert 'href="/accounts"' in carol.get("/nowhere").text
    assert 'href="/queries"' in anna.get("/queue").text
    assert "Sign out" in anna.get("/queue").text


def test_withdrawn_query_says_so_once(site: Site, anna: Guest, carol: Guest) -> None:
    query_id = anna.ask()
    anna.act(f"/queries/{query_id}/withdraw")
    message = read_text(carol.act(f"/decide/{query_id}/deny", reason="too few").text)
    assert message.count("by its analyst") == 1


def test_other_dataset_keeps_what_was_typed(start_site: Callable[..., Site], tmp_path: Path) -> None:
    schema, data = tmp_path / "other.toml", tmp_path / "other.csv"
    schema.write_text(Path(str(clinic_settings().schema)).read_text().replace('table = "clinic"', 'table = "other"'))
    data.write_text(Path(clinic_settings().data).read_text().replace("Harbour", "Northgate", 1))
    site = start_site(datasets={"clinic": clinic_settings(), "other": clinic_settings(data=str(data), schema=schema)})
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


def test_contradicting_terms_name_the_configuration(site: Site, anna: Guest, carol: Guest) -> None:
    carol.approve(anna.ask())
    site.stop()
    with pytest.raises(LedgerError) as refused:
        Site.start(make_settings(site.settings.database, {"clinic": clinic_settings(policy="budget:5")}), {})
    assert "--policy" not in str(refused.value)
    assert "configuration" in str(refused.value)


def test_analyst_is_told_what_an_analyst_can_do(site: Site, anna: Guest) -> None:
    joined = anna.act("/ask/check", dataset="clinic", sql="SELECT COUNT(*) FROM clinic JOIN other USING (age)").text
    assert "[tables" not in joined
    assert "Only the controller can change that" in joined
    for mistyped in ("SELEC COUNT(*) FROM clinic", "SEL", "COUNT(*)", "DROP TABLE clinic"):
        told = anna.act("/ask/check", dataset="clinic", sql=mistyped).text
        assert 'class="bad"' in told
        assert "Only the controller" not in told
    hint = anna.act("/ask/check", dataset="clinic", sql="SELECT COUNT(*) FROM clinic WHERE sex = 'F'").text
    assert "is not among the declared values of sex" in hint
    with site.api() as api:
        broken = api.post("/queries", content=b"{]", headers={"Content-Type": "application/json"})
        assert broken.json()["error"]["message"] == "The request is not valid JSON."


class Clock:
    """Stands in for the module time: only sleeping makes its time pass."""

    def __init__(self, slept: list[float]) -> None:
        self.slept = slept
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def test_client_waits_as_long_as_it_says(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    with Client(site.url, site.tokens["anna"]) as client:
        query = client.submit(COUNT, purpose="x")
        slept: list[float] = []
        monkeypatch.setattr("dosimeter.client.time", Clock(slept))
        with pytest.raises(TimeoutError):
            query.wait(0.4, every=60.0)
        assert sum(slept) == pytest.approx(0.4)  # not a minute
        slept.clear()
        with pytest.raises(TimeoutError):
            query.wait(100.0, every=30.0)
        assert slept == pytest.approx([30.0, 30.0, 30.0, 10.0])


def test_waiting_page_asks_for_its_part_only(site: Site, anna: Guest, carol: Guest) -> None:
    worker = site.state.datasets["clinic"].worker
    free = threading.Event()
    job = worker.ask("busy", "busy", lambda _d, _m: free.wait(LONGEST_WAIT), wait=0)
    try:
        page = carol.get(f"/decide/{anna.ask()}").text
        assert "data-reload" not in page
        assert 'hx-get="/jobs/' in page
        assert "HX-Refresh" not in carol.get(f"/jobs/{job.id}").headers
    finally:
        free.set()
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
