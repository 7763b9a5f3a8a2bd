"""Answers as analysts read them: digits that the error allows, pictures, CSV, printable records; what to expect; and
what was released, for every analyst and without a trace of who asked.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import math
import re
from html import unescape
from pathlib import Path

import httpx
import pytest

from dosimeter.web.answer_view import view_answer, write_csv
from dosimeter.web.figures import show_estimate, show_interval
from dosimeter.web.public import AnswerShape, PublicAnswer
from tests.known import known
from tests.web.test_web_trail import count_actions
from tests.web.web_site import COUNT, Guest, Site, StartSite, clinic_settings, copy_clinic, read_text


@pytest.mark.parametrize(
    ("value", "error", "text", "interval"),
    [
        (12_345, 1_234.0, ("12,300", "1,300"), "11,100 to 13,600"),
        (-4, 29.96, ("−4", "30"), "−34 to 26"),
        (41.18, 0.0671, ("41.180", "0.068"), "41.112 to 41.248"),
        (7, 0.4, ("7", "1"), "6 to 8"),
        (1_234_567.0, 250_000.0, ("1,230,000", "250,000"), "980,000 to 1,490,000"),
        (3, 0.0, ("3", "0"), "exactly 3"),
    ],
)
def test_digits_end_where_the_error_begins(value: float, error: float, text: tuple[str, str], interval: str) -> None:
    assert show_estimate(value, error) == text
    assert show_interval(value, error) == interval


def test_what_is_written_never_claims_more_than_the_error() -> None:
    """Rounding may only widen: the written range holds the real one, and the written error is no smaller."""
    for step in range(1, 400):
        error, value = 1.013**step * 1e-3, (-1) ** step * 0.7 * step**2
        low, high = (float(end.replace("−", "-").replace(",", "")) for end in show_interval(value, error).split(" to "))
        assert low <= value - error + 1e-9
        assert high >= value + error - 1e-9
        assert high - low <= 2.5 * error
        assert float(show_estimate(value, error)[1].replace(",", "")) >= error * (1 - 1e-9)


def make_answer(rows: int, *, errors: bool = True) -> PublicAnswer:
    values: list[dict[str, str | int | float | bool | None]] = [
        {"g": f"g{at}", "n": at - 3, "m": None if at == 1 else at / 7} for at in range(rows)
    ]
    return PublicAnswer(
        rows=values,
        epsilon=1.0 if errors else None,
        epsilon_svt=None,
        error_95=[4.0, 0.5] if errors else None,
        errors=[{"n": 2.0 + at, "m": 0.5} for at in range(rows)] if errors else None,
        about=["NULL in place of an average: too few people to tell."],
        guarantee="ε",
    )


SHAPE = AnswerShape(measured=["n", "m"], counts=["n"])


def test_each_number_has_its_own_error_and_its_place_in_the_picture() -> None:
    answer = make_answer(10)
    view = view_answer(answer, SHAPE)
    assert [cell.text for cell in view.rows[1]] == ["g1", "−2", "too few people to tell"]
    assert view.negative
    assert view.rows[1][1].note == "negative: that is the noise"
    low, high = min(at - 3 - 2 - at for at in range(10)), max(at - 3 + 2 + at for at in range(10))
    for at, row in enumerate(view.rows):
        whisker = known(row[1].whisker)
        for drawn, number in ((whisker.dot, at - 3), (whisker.low, -5), (whisker.high, 2 * at - 1)):
            assert drawn == pytest.approx(3 + 94 * (number - low) / (high - low), abs=0.06)
    hidden = view_answer(make_answer(10, errors=False), SHAPE)
    assert not hidden.ranged
    assert not any(column.scale for column in hidden.columns)  # dots alone would look exact
    assert all(not cell.margin for row in hidden.rows for cell in row)


def test_rows_come_in_parts_and_none_is_left_out() -> None:
    answer, first, seen = make_answer(1_234), 1, list[str]()
    while first:
        view = view_answer(answer, SHAPE, first=first)
        assert view.first == first
        seen += [row[0].text for row in view.rows]
        first = view.later or 0
    assert seen == [f"g{at}" for at in range(1_234)]
    assert view.earlier == 1_101


def test_csv_holds_every_digit() -> None:
    answer = make_answer(5)
    lines = list(csv.reader(io.StringIO("".join(write_csv(answer, SHAPE)))))
    assert lines[0] == ["g", "n", "n error_95", "m", "m error_95"]
    assert [float(line[3]) for line in lines[1:] if line[3]] == [at / 7 for at in range(5) if at != 1]
    assert [float(line[2]) for line in lines[1:]] == [2.0 + at for at in range(5)]
    hidden = list(csv.reader(io.StringIO("".join(write_csv(make_answer(5, errors=False), SHAPE)))))
    assert hidden[0] == ["g", "n", "m"]


FORMULAS = ("=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1")


def test_no_text_in_a_csv_file_is_a_formula() -> None:
    name = '=HYPERLINK("http://example.org")'
    rows: list[dict[str, str | int | float | bool | None]] = [
        {"g": text, name: -at - 0.5} for at, text in enumerate((*FORMULAS, "a=1", "", "'"))
    ]
    answer = PublicAnswer(
        rows=rows, epsilon=1.0, epsilon_svt=None, error_95=[4.0], errors=[{name: 4.0}] * len(rows), guarantee="ε"
    )
    written = "".join(write_csv(answer, AnswerShape(measured=[name])))
    lines = list(csv.reader(io.StringIO(written, newline="")))
    assert lines[0] == ["g", f"'{name}", f"'{name} error_95"]
    assert [line[0] for line in lines[1:]] == [*(f"'{text}" for text in FORMULAS), "a=1", "", "'"]
    assert [line[1] for line in lines[1:]] == [str(-at - 0.5) for at in range(len(rows))]  # numbers stay numbers


# ---------------------------------------------------------------- what to expect, before anybody looks


def test_the_error_to_expect_is_decided_by_the_schema_alone(site: Site, anna: Guest, api: httpx.Client) -> None:
    """A count's noise at ε is on whole numbers: the tail beyond t is 2 q^(t+1)/(1 + q) with q = exp(−ε)."""
    body = {"dataset": "clinic", "sql": "SELECT COUNT(*) FROM clinic WHERE smoker"}
    before = api.post("/check", json=body).json()["expected"]
    site.state.datasets["clinic"].worker.dataset.close()  # nothing can be read from here on
    assert api.post("/check", json=body).json()["expected"] == before
    page = read_text(anna.act("/ask/check", **body, wanted_error="5").text)
    (count,) = before["columns"]
    for epsilon, error in zip(before["epsilons"], count["errors"], strict=True):
        q = math.exp(-epsilon)
        assert 2 * q ** (error + 1) / (1 + q) <= 0.05 + 1e-12
        assert 2 * q**error / (1 + q) > 0.05
        assert f"± {error:,.0f}" in page
    assert "± 5 takes about ε = 0.6" in page


def test_an_average_says_how_many_people_it_needs(api: httpx.Client) -> None:
    document = api.post("/check", json={"dataset": "clinic", "sql": "SELECT AVG(age) FROM clinic"}).json()
    by_people = document["expected"]["columns"][0]["by_people"]
    large = by_people["10000"]
    assert all(few is None or few > many for few, many in zip(by_people["1000"], large, strict=True))
    assert large == sorted(large, reverse=True)  # a larger ε, a smaller error


def test_examples_come_from_the_schema(api: httpx.Client, anna: Guest) -> None:
    examples = re.findall(r'data-example="([^"]+)"', anna.get("/ask").text)
    assert len(examples) >= 4
    for sql in examples:
        assert api.post("/check", json={"dataset": "clinic", "sql": unescape(sql)}).json()["answerable"], sql


# ---------------------------------------------------------------- printable records


def test_a_record_for_its_analyst_holds_nothing_they_are_not_told(bob: Guest, anna: Guest, carol: Guest) -> None:
    query_id = anna.ask(purpose="the purpose")
    carol.approve(query_id, "0.05", preference="ratio:0.9501")
    record = anna.get(f"/queries/{query_id}/record")
    assert record.status_code == 200
    assert "the purpose" in record.text
    for secret in ("carol", "0.9501", "0.05", "agreed", "records</dd>"):
        assert secret not in record.text, secret
    style = known(re.search(r"<style>(.*?)</style>", record.text, flags=re.DOTALL))
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    assert record.headers["content-security-policy"].startswith(f"default-src 'none'; style-src 'sha256-{digest}'")
    assert len(record.headers.get_list("content-security-policy")) == 1
    for part in ("record", "answer.csv"):
        assert bob.get(f"/queries/{query_id}/{part}").status_code == 404
    waiting = anna.ask("SELECT SUM(visits) FROM clinic")
    assert anna.get(f"/queries/{waiting}/record").status_code == 404
    entry = known(re.search(r'href="/records/(\w+)"', carol.get("/decided").text))
    shared, private = (carol.get(f"/records/{entry[1]}{which}").text for which in ("", "?private=true"))
    assert "carol" in shared
    for words in ("For the controller only", "Reason given", "agreed", "The rule in words", "at least 95.01 %"):
        assert (words in shared, words in private) == (False, True), words


@pytest.mark.clinic(algorithm="fixed")
def test_a_record_of_a_repeated_answer_tells_nothing_of_who_asked_first(
    bob: Guest, anna: Guest, carol: Guest, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = anna.ask("SELECT COUNT(*) /* hidden remark */ FROM clinic WHERE smoker", purpose="her own study")
    carol.approve(first, "0.05", preference="")
    hers = anna.get(f"/queries/{first}/record").text
    for text in ("anna", "her own study", "hidden remark"):
        assert text in hers, text
    monkeypatch.setattr("dosimeter.web.store.queries.write_time", lambda: "2099-01-02T03:04:05.678901Z")
    second = bob.ask("SELECT COUNT(*) FROM clinic /* his */ WHERE smoker", purpose="his own study")
    assert carol.act(f"/decide/{second}/repeat", reason="asked before").status_code == 200
    his = bob.get(f"/queries/{second}/record").text
    for text in ("bob", "his own study", "/* his */", "asked 2099-01-02T03:04:05Z, answered 2099-01-02T03:04:05Z"):
        assert text in his, text
    for text in ("anna", "her own study", "hidden remark", *re.findall(r"\d{4}-\d\d-\d\dT[\d:]+Z", hers)):
        assert text not in his, text
    table = re.compile(r"<tbody>.*?</tbody>", re.DOTALL)
    assert table.findall(his) == table.findall(hers) != []  # the same numbers


@pytest.mark.clinic(algorithm="find-and-release", policy="budget:50", svt=1.0, variance=0.24681, candidates="0.5")
def test_a_record_for_its_analyst_does_not_tell_the_threshold_of_the_test(anna: Guest, carol: Guest) -> None:
    query_id = anna.ask()
    carol.approve(query_id, "0.5", confirmed="test")
    entry = known(re.search(r'href="/records/(\w+)"', carol.get("/decided").text))
    assert "<dd>0.24681</dd>" in carol.get(f"/records/{entry[1]}").text
    page = anna.get(f"/queries/{query_id}/record").text
    assert "<dt>ε for finding it</dt><dd>1</dd>" in page
    assert "0.24681" not in page


def test_one_released_answer_has_a_page_and_a_file(bob: Guest, anna: Guest, carol: Guest) -> None:
    carol.approve(anna.ask("SELECT diagnosis, sex, COUNT(*) FROM clinic GROUP BY diagnosis, sex"))
    listed = bob.get("/answers").text
    place = known(re.search(r'href="(/answers/clinic/\w+)">All rows', listed))
    whole = bob.get(place[1])
    assert whole.text.count("Wilson disease") >= 3
    assert len(bob.get(f"{place[1]}/answer.csv").text.splitlines()) == 31
    assert bob.get("/answers/nowhere/0a").status_code == 404
    assert bob.get("/answers/clinic/0a").status_code == 404


# ---------------------------------------------------------------- people, sessions, ways back


def test_somebody_sees_and_ends_their_own_sessions(site: Site, anna: Guest) -> None:
    with site.guest("anna") as other, site.guest("bob") as bob:
        page = anna.get("/me").text
        ends = re.findall(r'action="/me/sessions/([0-9a-f]{16})/end"', page)
        assert (page.count(">this one<"), len(ends)) == (1, 1)
        assert bob.act(f"/me/sessions/{ends[0]}/end").status_code == 404
        assert other.get("/queries").url.path == "/queries"
        assert anna.act(f"/me/sessions/{ends[0]}/end").status_code == 200
        assert other.get("/queries").url.path == "/sign-in"


def test_settings_say_what_a_threshold_means(carol: Guest) -> None:
    """For a count the ratio is k/(k + ε), whatever the data."""
    page = read_text(carol.get("/settings").text)
    for priority, least in (("High", 0.90), ("Normal", 0.95), ("Low", 0.97)):
        one = max(e / 1000 for e in (10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 200) if 1 / (1 + e / 1000) >= least)
        ten = max(e / 10 for e in range(1, 11) if 10 / (10 + e / 10) >= least)
        assert f"{priority} {one:g} {ten:g}" in page


def test_health_tells_that_the_data_are_gone(start_site: StartSite, tmp_path: Path) -> None:
    clinic = copy_clinic(tmp_path)
    with start_site(datasets={"clinic": clinic}).guest() as guest:
        assert guest.get("/health").status_code == 200
        Path(clinic.data).unlink()
        answer = guest.get("/health")
        assert (answer.status_code, answer.json()) == (503, {"status": "the data of a dataset cannot be found"})


WRITTEN = "/* for Dr. Quagmire */ select sex,   count(*) as people\nfrom clinic -- anna\nwhere smoker group by sex"


# ---------------------------------------------------------------- the list


def test_every_analyst_sees_what_was_released_and_nothing_of_who_asked(site: Site, anna: Guest, carol: Guest) -> None:
    assert "Nothing was released yet." in anna.get("/answers").text
    query_id = anna.ask(WRITTEN, purpose="Quagmire's thesis")
    carol.approve(query_id)
    denied = anna.ask(COUNT)
    carol.act(f"/decide/{denied}/deny", reason="x")
    anna.ask("SELECT SUM(visits) FROM clinic")  # waits
    own = anna.get(f"/queries/{query_id}")
    with site.guest("bob") as bob, site.api("bob") as api:
        page = bob.get("/answers")
        document = api.get("/answers", params={"dataset": "clinic"}).json()
        assert bob.get(f"/queries/{query_id}").status_code == 404
    assert document["following"] is None
    (found,) = document["answers"]
    assert set(found) == {"entry", "dataset", "sql", "answer", "measured", "grouped", "counts"}
    assert found["sql"] == "SELECT sex, COUNT(*) AS people FROM clinic WHERE smoker GROUP BY sex"
    assert (found["measured"], found["grouped"]) == (["people"], True)
    assert found["answer"]["epsilon"] is found["answer"]["epsilon_svt"] is found["answer"]["error_95"] is None
    with site.api("anna") as api:
        assert found["answer"] == api.get(f"/queries/{query_id}").json()["answer"]
    for row in found["answer"]["rows"]:
        assert f"{row['people']:,}".replace("-", "−") in page.text
        assert f"{row['people']:,}".replace("-", "−") in own.text
    for text in (page.text, str(document)):
        for secret in ("Quagmire", "anna", "carol", query_id, "thesis", "2026-", "purpose"):
            assert secret not in text.replace('data-who="bob"', ""), secret


def test_answers_come_in_pages(site: Site, anna: Guest, carol: Guest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dosimeter.web.routes.results.PAGE", 2)
    made = [f"SELECT COUNT(*) FROM clinic WHERE age > {age}" for age in (10, 20, 30, 40, 50)]
    for sql in made:
        carol.approve(anna.ask(sql), "0.05", preference="ratio:0.01")
    with site.api("bob") as api, site.guest("bob") as bob:
        seen: list[str] = []
        before: dict[str, str] = {}
        for _ in range(3):
            document = api.get("/answers", params={"dataset": "clinic", "limit": 2, **before}).json()
            seen += [found["sql"] for found in document["answers"]]
            before = {"before": document["following"]}
        assert document["following"] is None
        shown, address = [], "/answers"
        while address:
            page = unescape(bob.get(address).text)
            shown += re.findall(r'<pre class="sql[^>]*>([^<]*)</pre>', page)
            link = re.search(r'href="(/answers\?[^"]*before=[^"]*)"', page)
            address = link[1] if link else ""
        assert api.get("/answers", params={"dataset": "clinic", "before": "abc123"}).json()["answers"] == []
        assert api.get("/answers", params={"dataset": "nowhere"}).status_code == 404
        assert bob.get("/answers", params={"dataset": "nowhere"}).status_code == 404
        assert bob.get("/answers", params={"before": "%00"}).status_code == 422
    assert seen == shown == made[::-1]


def test_reading_released_answers_is_on_record(site: Site, anna: Guest, carol: Guest) -> None:
    carol.approve(anna.ask())
    with site.guest("bob") as bob, site.api("bob") as api:
        for _ in range(3):
            bob.get("/answers")
            api.get("/answers", params={"dataset": "clinic"})
    assert count_actions(site, "bob")["read released answers"] == 2
    assert carol.get("/answers").status_code == 403  # controllers have the account


# ---------------------------------------------------------------- the promise as it is previewed


@pytest.mark.parametrize("algorithm", ["fixed", "find-and-release"])
def test_the_previewed_promise_is_the_one_that_comes(start_site: StartSite, algorithm: str) -> None:
    """A look at an analyst's own query shows in the promise, and so in the preview; one at a colleague's in neither."""
    dataset = clinic_settings(algorithm=algorithm, policy="budget:50", variance=0.01, candidates="0.5")
    site = start_site(datasets={"clinic": dataset})
    approved = {"confirmed": "test"} if algorithm == "find-and-release" else {}
    with site.guest("anna") as anna, site.guest("bob") as bob, site.guest("carol") as carol:

        def answer_blindly(guest: Guest, name: str) -> bool:
            """Give whether the promise tells of a look; it is the previewed one."""
            query_id = guest.ask()
            page = unescape(carol.get(f"/decide/{query_id}").text)
            promise = known(re.search(r'<blockquote class="promise">([^<]*)</blockquote>', page))
            carol.approve(query_id, "0.5", **approved)
            with site.api(name) as api:
                found = api.get(f"/queries/{query_id}").json()
            assert found["answer"]["guarantee"] == promise[1]
            return "looked at before" in promise[1]

        assert not answer_blindly(anna, "anna")
        looked_at = anna.ask()
        carol.act(f"/decide/{looked_at}/look")
        assert not answer_blindly(bob, "bob")
        assert answer_blindly(anna, "anna")


@pytest.mark.clinic(
    algorithm="find-and-release", policy="budget:5", svt=0.1, variance=0.01, violation=0.05, candidates="0.5,0.1"
)
def test_a_promise_on_violations_is_told_to_everybody(anna: Guest, carol: Guest, api: httpx.Client) -> None:
    """V7, from the settings: on the controller's pages before anything is looked at, and in the analyst's answer."""
    query_id = anna.ask()
    for page in (f"/decide/{query_id}", f"/decide/{query_id}/confirm"):
        assert "with a chance of at most 0.05" in unescape(carol.get(page).text)
    carol.approve(query_id, "0.5", confirmed="test")
    answer = api.get(f"/queries/{query_id}").json()["answer"]
    assert answer["violation"] == 0.05
    assert "with a chance of at most 0.05, in all its uses together" in answer["guarantee"]
    # What the test found is listed, though nobody approved that number.
    assert f"{answer['epsilon']:g} carol" in read_text(carol.get("/decided").text)
