"""Single persons: a query about one of them, and a controller's condition that finds one, are noticed."""

from __future__ import annotations

import json
from collections.abc import Callable

import httpx
import pytest

from tests.web.test_web_trail import count_actions, measure, read_trail
from tests.web.web_site import COUNT, Guest, Site, clinic_settings, read_text

NAMED = "SELECT diagnosis, COUNT(*) FROM clinic WHERE name = 'Yusuf Demir' GROUP BY diagnosis"
ISLAND = "SELECT diagnosis, COUNT(*) FROM clinic WHERE district = 'Seal Island' GROUP BY diagnosis"


# ---------------------------------------------------------------- queries


def test_a_query_about_one_person_is_refused_where_it_is_checked_and_where_it_is_asked(
    site: Site, api: httpx.Client, anna: Guest
) -> None:
    for sql in (NAMED, "SELECT COUNT(*) FILTER (WHERE patient_id LIKE 'P218%') FROM clinic"):
        words = read_text(anna.act("/ask/check", dataset="clinic", sql=sql).text)
        assert "asks about single persons" in words
        assert anna.act("/ask", dataset="clinic", sql=sql, purpose="x").status_code == 422
        with site.api() as api:
            checked = api.post("/check", json={"dataset": "clinic", "sql": sql}).json()
            assert not checked["answerable"]
            assert checked["clause"] in ("name = 'Yusuf Demir'", "patient_id LIKE 'P218%'")
            refused = api.post("/queries", json={"dataset": "clinic", "sql": sql, "purpose": "x"})
            assert refused.status_code == 422
            assert "identifies people" in refused.json()["error"]["message"]
    assert "You have not asked anything yet." in anna.get("/queries").text
    for sql in (COUNT, "SELECT COUNT(DISTINCT patient_id) FROM clinic WHERE name IS NOT NULL"):
        answer = api.post("/check", json={"dataset": "clinic", "sql": sql}).json()
        assert "single persons" not in answer["message"]


@pytest.mark.parametrize("algorithm", ["find", "fixed"])
def test_where_it_is_allowed_the_decision_opens_with_an_alarm(start_site: Callable[..., Site], algorithm: str) -> None:
    site = start_site(datasets={"clinic": clinic_settings(allow_identifying=True, algorithm=algorithm)})
    with site.guest("anna") as anna, site.guest("carol") as carol:
        assert "singles people out by name" in read_text(anna.act("/ask/check", dataset="clinic", sql=NAMED).text)
        page = carol.get(f"/decide/{anna.ask(NAMED)}").text
        assert page.index('class="alarm"') < page.index("<h1")
        assert "This query singles people out by name: name = &#39;Yusuf Demir&#39;." in page
        assert 'class="alarm"' not in carol.get(f"/decide/{anna.ask('SELECT COUNT(*) FROM clinic WHERE smoker')}").text


# ---------------------------------------------------------------- conditions


def list_tried(site: Site, user: str = "carol") -> list[str]:
    return [detail for who, action, detail in read_trail(site) if (who, action) == (user, "tried a condition")]


@pytest.mark.parametrize("condition", ["name = 'Yusuf Demir'", "patient_id LIKE 'P218%'", "name IS NULL"])
def test_a_condition_that_names_people_needs_them_revealed_first(
    site: Site, anna: Guest, carol: Guest, condition: str
) -> None:
    query_id = anna.ask(ISLAND)
    measure(carol, query_id)
    text = f"MAX(rdr) FILTER (WHERE {condition}) / MIN(rdr) <= 1.0"
    form = {"preset": "own", "text": text}
    refused = carol.get(f"/decide/{query_id}/live", params=form).json()
    assert "Choose Reveal under Most exposed first" in refused["problem"]
    assert refused["job"] is None
    assert not refused["fragments"]
    page = carol.get(f"/decide/{query_id}", params=form)
    assert "Choose Reveal under Most exposed first" in read_text(page.text)
    confirm = carol.get(f"/decide/{query_id}/confirm", params=form | {"epsilon": "0.05"})
    assert confirm.status_code == 422
    assert carol.approve(query_id, preference=text).status_code == 422
    assert len(list_tried(site)) == 1
    assert condition in list_tried(site)[0]
    assert count_actions(site, "carol")["revealed identities"] == 0

    carol.act(f"/decide/{query_id}/reveal", epsilon="1")
    assert count_actions(site, "carol")["revealed identities"] == 1
    assert "Reveal" not in carol.get(f"/decide/{query_id}/live", params=form).json()["problem"]
    with site.guest("carol") as elsewhere:  # another session
        again = elsewhere.get(f"/decide/{query_id}/live", params=form).json()
        assert "Choose Reveal" in again["problem"]
    other = anna.ask()  # another query
    measure(carol, other)
    assert "Choose Reveal" in carol.get(f"/decide/{other}/live", params=form).json()["problem"]


def test_every_own_condition_is_on_record(site: Site, anna: Guest, carol: Guest) -> None:
    query_id = anna.ask()
    measure(carol, query_id)
    texts = ["QUANTILE_CONT(rdr, 0.9) <= 1.5 * AVG(rdr)", "MEDIAN(rdr) FILTER (WHERE smoker) <= 2"]
    for text in (*texts, *texts, "MIN(rdr) / MAX(rdr) >= 0.5", "this is no condition"):
        for epsilon in ("0.01", "0.02"):
            carol.get(f"/decide/{query_id}/live", params={"preset": "own", "text": text, "epsilon": epsilon})
    carol.get(f"/decide/{query_id}/live", params={"preset": "variance", "tau": "0.1"})
    carol.get(f"/decide/{query_id}/live", params={"preset": "medians", "column": "sex", "value": "Other"})
    tried = list_tried(site)
    assert (
        len(tried) == 3
    )  # each once; the fixed sentences are no conditions of one's own, and nor is what has no meaning
    assert "QUANTILE_CONT(rdr, 0.9)" in tried[0]
    assert "smoker" in tried[1].lower()
    assert "Other" in tried[2]
    carol.approve(query_id, preference="MAX(rdr) / AVG(rdr) <= 3")
    assert len(list_tried(site)) == 4
    assert "MAX(rdr) / AVG(rdr)" in json.dumps(list_tried(site)[3])
