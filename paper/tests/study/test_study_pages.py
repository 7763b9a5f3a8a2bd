"""The pages over HTTP: the order of steps, one attempt at the quiz, what each group sees, and what is stored."""

from __future__ import annotations

import re
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from dosimeter.errors import OptionError
from dosimeter_paper.study import store, texts
from dosimeter_paper.study.answers import GROUPS, read_answers, write_answers
from dosimeter_paper.study.instrument import Instrument
from dosimeter_paper.study.store import StudySettings, StudyStore
from study.study_site import RIGHT, WRONG, LiveServer, StudySite, Visitor, find_title

STATIC = Path(texts.__file__).parent / "static"
TREATMENT = re.compile(r"\bRDR|disclos|exposed|exposure|/picture/|<img|<figure", re.IGNORECASE)


def dump(path: Path) -> dict[str, list[tuple[object, ...]]]:
    with sqlite3.connect(path) as connection:
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {name: connection.execute(f'SELECT * FROM "{name}"').fetchall() for name in names}


# ---------------------------------------------------------------- the order of steps


def test_a_whole_study(site: StudySite) -> None:
    visitors = [site.visitor() for _ in range(6)]
    for visitor in visitors:
        visitor.take_part("3.5", "1.0", knowledge="yes")
        assert texts.DONE_TITLE in visitor.pages[-1] or texts.OVER_TITLE in visitor.pages[-1]
    answers = site.store.list_answers()
    assert Counter(a.group for a in answers) == dict.fromkeys(GROUPS, 2)
    assert Counter((a.group, a.first_query) for a in answers) == {(g, q): 1 for g in GROUPS for q in ("q1", "q2")}
    for answer in answers:
        assert answer.completed
        assert (answer.passed, answer.quiz, answer.quiz_score, answer.prior_knowledge) == (True, RIGHT, 4, "yes")
        chosen = (answer.epsilon_q1, answer.epsilon_q2)
        assert chosen == ((3.5, 1.0) if answer.first_query == "q1" else (1.0, 3.5))
        assert answer.used_rdr is (None if answer.group == "control" else True)


def test_quiz_cannot_be_retried(site: StudySite) -> None:
    visitor = site.visitor()
    visitor.begin()
    quiz = visitor.read()
    assert not any(f'value="{letter}" required checked' in quiz for letter in "abcd")
    assert texts.FAILED_TITLE in visitor.take_quiz(WRONG).text
    (before,) = site.store.list_answers()
    assert (before.passed, before.quiz, before.quiz_score) == (False, WRONG, 3)
    again = visitor.client.post("/step/quiz", data={f"q{i}": letter for i, letter in enumerate(RIGHT, start=1)})
    assert find_title(again.text) == texts.OVER_TITLE
    assert find_title(visitor.send("/consent", consent="yes").text) == texts.OVER_TITLE
    assert site.store.list_answers() == (before,)
    assert before.group is None


def test_passed_quiz_cannot_be_sent_again(site: StudySite) -> None:
    visitor = site.visitor()
    visitor.begin()
    visitor.take_quiz()
    before = site.store.list_answers()
    visitor.take_quiz(WRONG)
    assert site.store.list_answers() == before
    assert find_title(visitor.read()) == texts.BRIEFING_TITLE


def test_unfinished_quiz_is_no_attempt(site: StudySite) -> None:
    visitor = site.visitor()
    visitor.begin()
    response = visitor.send("/step/quiz", q1="b", q2="a", q3="c", q4="z")
    assert response.status_code == 422
    assert texts.QUIZ_MISSING in response.text
    assert 'name="q1" value="b" required checked' in response.text
    assert site.store.list_answers()[0].quiz is None


@pytest.mark.parametrize("step", ["quiz", "briefing", "first", "second", "follow-up", "done", "failed", "nonsense"])
def test_no_step_can_be_skipped(site: StudySite, step: str) -> None:
    visitor = site.visitor()
    visitor.send("/consent", consent="yes")
    before = dump(site.path)
    form = {"epsilon": "2.0", "used": "yes"} | {f"q{place}": letter for place, letter in enumerate(RIGHT, start=1)}
    assert find_title(visitor.send(f"/step/{step}", **form).text) == texts.KNOWLEDGE_TITLE
    assert dump(site.path) == before


def test_a_confirmed_epsilon_stays(site: StudySite) -> None:
    visitor = site.visitor()
    visitor.begin()
    visitor.take_quiz()
    visitor.send("/step/briefing")
    visitor.send("/step/first", epsilon="4.0")
    before = site.store.list_answers()
    visitor.send("/step/first", epsilon="1.0")
    assert site.store.list_answers() == before


@pytest.mark.parametrize("epsilon", ["", "0.0", "0.7", "5.5", "2", "nan", "-1.0", "2.0; DROP TABLE participants"])
def test_only_offered_values_of_epsilon_are_taken(site: StudySite, epsilon: str) -> None:
    visitor = site.visitor()
    visitor.begin()
    visitor.take_quiz()
    visitor.send("/step/briefing")
    response = visitor.send("/step/first", epsilon=epsilon)
    assert response.status_code == 422
    assert texts.CHOICE_MISSING in response.text
    assert site.store.list_answers()[0].epsilon_q1 is site.store.list_answers()[0].epsilon_q2 is None


def test_without_consent_nothing_is_stored(site: StudySite) -> None:
    visitor = site.visitor()
    assert visitor.send("/consent").status_code == 422
    for place in ("/step/knowledge", "/withdraw"):
        assert find_title(visitor.send(place, knowledge="no").text) == texts.TITLE
    assert site.store.list_answers() == ()
    assert texts.RECONSTRUCTION in visitor.pages[0]
    assert texts.ETHICS in visitor.pages[0]


# ---------------------------------------------------------------- what each group sees


def take_part_as(site: StudySite, group: str) -> list[Visitor]:
    """A block of six; those who came into this group."""
    found = []
    for _ in range(6):
        visitor = site.visitor()
        before = {answer.participant for answer in site.store.list_answers()}
        visitor.take_part()
        (mine,) = [answer for answer in site.store.list_answers() if answer.participant not in before]
        if mine.group == group:
            found.append(visitor)
    assert len(found) == 2
    return found


def test_control_group_never_sees_risks(site: StudySite) -> None:
    for visitor in take_part_as(site, "control"):
        seen = "\n".join(visitor.pages)
        assert texts.ACCURACY_HEADING in seen
        assert all(words.replace("'", "&#39;") in seen for words in texts.QUERY_WORDS.values())
        assert not TREATMENT.search(seen)
    assert not [path.name for path in STATIC.glob("*.js") if TREATMENT.search(path.read_text(encoding="utf-8"))]


@pytest.mark.parametrize(("group", "pictures"), [("range", 1), ("histogram", 10)])
def test_treatment_groups_see_their_own_pictures(site: StudySite, group: str, pictures: int) -> None:
    other = texts.HISTOGRAM_READING if group == "range" else texts.RANGE_READING
    own = texts.RANGE_READING if group == "range" else texts.HISTOGRAM_READING
    for visitor in take_part_as(site, group):
        tasks = [page for page in visitor.pages if texts.ACCURACY_HEADING in page]
        assert all(page.count("<img") == pictures and own in page and other not in page for page in tasks)
        assert any(texts.FOLLOW_UP_QUESTION in page for page in visitor.pages)


def test_before_the_groups_part_all_pages_are_alike(site: StudySite) -> None:
    """And they speak of no risks: nobody is primed."""
    pages = []
    for _ in range(3):
        visitor = site.visitor()
        visitor.begin()
        visitor.take_quiz()
        visitor.read()
        pages.append(visitor.pages)
    assert pages[0] == pages[1] == pages[2]
    assert not TREATMENT.search("\n".join(pages[0]))


def test_pictures_are_for_those_who_may_see_them(site: StudySite) -> None:
    asked: dict[str | None, list[list[list[int]]]] = {}
    for _ in range(6):
        visitor = site.visitor()
        assert visitor.client.get("/picture/q1/0.svg").status_code == 404
        visitor.begin()
        visitor.take_quiz()
        assert visitor.client.get("/picture/q1/0.svg").status_code == 404
        visitor.send("/step/briefing")
        (group,) = {a.group for a in site.store.list_answers() if a.epsilon_q1 is a.epsilon_q2 is None}
        found = {q: [visitor.client.get(f"/picture/{q}/{n}.svg").status_code for n in (0, 9, 10)] for q in ("q1", "q2")}
        asked.setdefault(group, []).append(sorted(found.values()))
        visitor.send("/step/first", epsilon="1.0")
    nothing = [404, 404, 404]
    assert asked["control"] == [[nothing, nothing]] * 2
    assert asked["range"] == [[[200, 404, 404], nothing]] * 2
    assert asked["histogram"] == [[[200, 200, 404], nothing]] * 2


# ---------------------------------------------------------------- no identifiers


def test_no_identifiers_are_stored(site: StudySite) -> None:
    first_day = datetime.now(UTC).date()
    visitors = [site.visitor() for _ in range(3)]
    for visitor in visitors[:2]:
        visitor.take_part()
    visitors[2].begin()
    tables = dump(site.path)
    assert tables.keys() == {"study", "participants"}
    with sqlite3.connect(site.path) as connection:
        columns = [row[1] for row in connection.execute("PRAGMA table_info(participants)")]
        with pytest.raises(sqlite3.OperationalError):  # no rowid: the order in which they came is not there
            connection.execute("SELECT rowid FROM participants")
    assert set(columns) == {
        "participant", "token", "step", "day", "texts_version", "prior_knowledge", "quiz", "quiz_score", "passed",
        "group", "first_query", "epsilon_q1", "epsilon_q2", "used_rdr",
    }  # fmt: skip
    rows = [dict(zip(columns, row, strict=True)) for row in tables["participants"]]
    days = {date.fromisoformat(str(row["day"])) for row in rows}
    assert first_day <= min(days) <= max(days) <= datetime.now(UTC).date()
    assert all(row["day"] == str(row["day"])[:10] for row in rows)
    assert sorted(row["token"] is None for row in rows) == [False, True, True]  # erased with the last answer
    content = site.path.read_bytes()
    (token,) = visitors[2].client.cookies.values()
    for unwanted in (b"Peculiar", b"peculiar", b"gsw-x", b"127.0.0.1", token.encode()):
        assert unwanted not in content
    content = re.sub(rb"[0-9a-f]{64}", b"", content)  # digests: one in fifty holds what looks like a moment
    assert not re.search(rb"\d\d:\d\d|\b\d{1,3}(?:\.\d{1,3}){3}\b|1[6-9]\d{8}", content)


def test_a_finished_token_leads_nowhere(site: StudySite) -> None:
    visitor = site.visitor()
    visitor.take_part()
    (token,) = visitor.client.cookies.values()
    assert site.store.find_progress(token) is None
    assert find_title(visitor.read()) == texts.OVER_TITLE


def test_resumed_by_the_cookie_alone(start_study: Callable[..., StudySite]) -> None:
    """Also after the server was started again; another browser begins anew."""
    first = start_study()
    visitor = first.visitor()
    visitor.begin()
    visitor.take_quiz()
    first.close()
    second = start_study()
    assert second.name == first.name
    other = second.visitor()
    assert find_title(other.read()) == texts.TITLE
    other.client.cookies.update(visitor.client.cookies)
    assert find_title(other.read()) == texts.BRIEFING_TITLE


def test_withdrawing_deletes_everything(site: StudySite, monkeypatch: pytest.MonkeyPatch) -> None:
    visitor = site.visitor()
    monkeypatch.setattr(store, "make_participant_number", lambda: 87_654_321)  # bytes that nothing else in the file has
    visitor.begin()
    visitor.take_quiz()
    ((number, *_),) = dump(site.path)["participants"]
    assert number == 87_654_321
    assert number.to_bytes(4, "big") in site.path.read_bytes()
    assert find_title(visitor.send("/withdraw").text) == texts.WITHDRAWN_TITLE
    assert dump(site.path)["participants"] == []
    assert number.to_bytes(4, "big") not in site.path.read_bytes()
    assert find_title(visitor.read()) == texts.OVER_TITLE


def test_cookie_is_closed_to_scripts_and_other_sites(site: StudySite) -> None:
    visitor = site.visitor()
    response = visitor.client.post("/consent", data={"consent": "yes"}, follow_redirects=False)
    header = response.headers["set-cookie"]
    assert "HttpOnly" in header
    assert "SameSite=lax" in header


# ---------------------------------------------------------------- many at once, and one design


def test_balance_holds_when_all_come_at_once(site: StudySite) -> None:
    tokens = []
    for _ in range(24):
        token = site.store.add_participant()
        site.store.record(token, "knowledge", "no")
        site.store.record(token, "tutorial")
        tokens.append(token)
    start = threading.Barrier(len(tokens))

    def answer(token: str) -> None:
        start.wait()
        site.store.record(token, "quiz", RIGHT)

    threads = [threading.Thread(target=answer, args=(token,)) for token in tokens]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = Counter((a.group, a.first_query) for a in site.store.list_answers())
    assert found == {(group, first): 4 for group in GROUPS for first in ("q1", "q2")}


def test_two_studies_with_one_seed_assign_alike(start_study: Callable[..., StudySite]) -> None:
    def run(name: str, seed: int) -> list[tuple[object, object]]:
        site = start_study(name, seed=seed)
        drawn: list[tuple[object, object]] = []
        for _ in range(9):
            token = site.store.add_participant()
            for step, value in (("knowledge", "no"), ("tutorial", None), ("quiz", RIGHT)):
                site.store.record(token, step, value)
            found = site.store.find_progress(token)
            assert found is not None
            drawn.append((found.group, found.queries))
        return drawn

    assert run("a.db", 4) == run("b.db", 4) != run("c.db", 5)


def test_those_who_fail_take_no_place_in_a_block(site: StudySite) -> None:
    for letters in (RIGHT, WRONG, RIGHT, WRONG, RIGHT, RIGHT, WRONG, RIGHT, RIGHT):
        visitor = site.visitor()
        visitor.begin()
        visitor.take_quiz(letters)
    assert Counter(a.group for a in site.store.list_answers()) == {None: 3, "control": 2, "range": 2, "histogram": 2}


def test_one_study_has_one_design(site: StudySite) -> None:
    digest = dump(site.path)["study"][0][3]
    assert isinstance(digest, str)
    for other in (
        StudySettings(2, GROUPS, digest),
        StudySettings(1, ("control", "range"), digest),
        StudySettings(1, GROUPS, "0"),
    ):
        with pytest.raises(OptionError, match="another"):
            site.store.begin_study(other)


def test_a_file_that_is_no_study_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.db").write_text("hello, this is no database at all", encoding="utf-8")
    with pytest.raises(OptionError, match="not a study's file"):
        StudyStore(tmp_path / "notes.db")
    with pytest.raises(OptionError, match="There is no study"):
        StudyStore(tmp_path / "absent.db", existing=True)
    assert not (tmp_path / "absent.db").exists()


def test_csv_round_trip(site: StudySite, tmp_path: Path) -> None:
    for first, second, used in (("0.5", "5.0", "yes"), ("2.0", "1.5", "no"), ("3.0", "3.5", "yes")):
        site.visitor().take_part(first, second, used=used)
    for letters in (WRONG, RIGHT):
        visitor = site.visitor()
        visitor.begin(knowledge="yes")
        visitor.take_quiz(letters)
    site.visitor().send("/consent", consent="yes")
    answers = site.store.list_answers()
    text = write_answers(answers)
    target = tmp_path / "answers.csv"
    target.write_text(text, encoding="utf-8")
    assert set(read_answers(target)) == set(answers)
    assert len(answers) == 6
    assert write_answers(read_answers(target)) == text
    assert "token" not in text.splitlines()[0]


# ---------------------------------------------------------------- the shell around every page


def test_policy_is_strict_and_pages_keep_to_it(site: StudySite) -> None:
    visitor = site.visitor()
    visitor.take_part()
    for place in ("/", "/static/study.css", "/static/slider.js", "/end/done", "/nowhere"):
        headers = visitor.client.get(place).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert headers["cache-control"] == "no-store"
    for page in visitor.pages:
        assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)|javascript:|https?://", page)


def test_large_and_foreign_forms_are_refused(site: StudySite) -> None:
    visitor = site.visitor()
    assert visitor.client.post("/consent", data={"consent": "y" * 20_000}).status_code == 413
    foreign = {"sec-fetch-site": "cross-site"}
    assert visitor.client.post("/consent", data={"consent": "yes"}, headers=foreign).status_code == 403
    assert site.store.list_answers() == ()


def test_what_the_operator_says_is_text(
    start_study: Callable[..., StudySite], serve_live: Callable[[Any], LiveServer], instrument: Instrument
) -> None:
    from dosimeter_paper.study.server import make_app

    site = start_study()
    server = serve_live(make_app(instrument, site.store, name=site.name, approval="IRB <b>7</b>"))
    visitor = Visitor(server.url)
    page = visitor.read()
    visitor.client.close()
    assert "IRB &lt;b&gt;7&lt;/b&gt;" in page
    assert texts.TRY_OUT not in page
    assert texts.TRY_OUT in site.visitor().read()
