"""Released answers are there for every analyst, without a trace of who asked; promises are previewed as they come."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import unescape

import pytest

from tests.known import known
from tests.web.test_web_trail import count_actions, measure
from tests.web.web_site import COUNT, Guest, Site, clinic_settings, read_text

SMOKERS = "SELECT sex, COUNT(*) AS people FROM clinic WHERE smoker GROUP BY sex"
WRITTEN = "/* for Dr. Quagmire */ select sex,   count(*) as people\nfrom clinic -- anna\nwhere smoker group by sex"


def answer(site: Site, guest: Guest, carol: Guest, sql: str, purpose: str = "Quagmire's thesis") -> str:
    query_id = guest.ask(sql, purpose=purpose)
    measure(carol, query_id)
    carol.approve(query_id)
    with site.api("anna") as api:
        assert api.get("/answers", params={"dataset": "clinic"}).status_code == 200
    return query_id


# ---------------------------------------------------------------- the list


def test_every_analyst_sees_what_was_released_and_nothing_of_who_asked(site: Site, anna: Guest, carol: Guest) -> None:
    assert "Nothing was released yet." in anna.get("/answers").text
    query_id = answer(site, anna, carol, WRITTEN)
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
    from dosimeter.web.routes import results

    monkeypatch.setattr(results, "PAGE", 2)
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
def test_the_previewed_promise_is_the_one_that_comes(start_site: Callable[..., Site], algorithm: str) -> None:
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
        measure(carol, looked_at)
        assert not answer_blindly(bob, "bob")
        assert answer_blindly(anna, "anna")


def test_a_promise_on_violations_is_told_to_everybody(start_site: Callable[..., Site]) -> None:
    """V7, from the settings: on the controller's pages before anything is looked at, and in the analyst's answer."""
    dataset = clinic_settings(
        algorithm="find-and-release", policy="budget:5", svt=0.1, variance=0.01, violation=0.05, candidates="0.5,0.1"
    )
    site = start_site(datasets={"clinic": dataset})
    with site.guest("anna") as anna, site.guest("carol") as carol:
        query_id = anna.ask()
        for page in (f"/decide/{query_id}", f"/decide/{query_id}/confirm"):
            assert "finds one above that with a chance of at most 0.05" in unescape(carol.get(page).text)
        carol.approve(query_id, "0.5", confirmed="test")
        listed = read_text(carol.get("/decided").text)
    with site.api("anna") as api:
        answer = api.get(f"/queries/{query_id}").json()["answer"]
    assert f"{answer['epsilon']:g} carol" in listed  # what the test found, though nobody approved that number
    assert answer["violation"] == 0.05
    assert "with a chance of at most 0.05, in all its uses together" in answer["guarantee"]
