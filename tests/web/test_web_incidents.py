"""A dataset that an incident stopped: analysts read one sentence, controllers clear it, and nothing is released."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from dosimeter.errors import DataError
from dosimeter.ledger import Ledger
from dosimeter.release import run as releasing
from dosimeter.web.store import find_query
from tests.known import known
from tests.web.browsing import OpenPage, expect, find_barriers
from tests.web.test_web_trail import count_actions, read_trail
from tests.web.web_site import COUNT, Guest, Site, StartSite, copy_clinic, read_text

SENTENCE = "Answers from this dataset are stopped until a controller has looked at it."
REFUSED = "This dataset is stopped: a release from it failed. Clear the incident first."
SMOKERS = "SELECT COUNT(*) FROM clinic WHERE smoker"


def fail_once(monkeypatch: pytest.MonkeyPatch, site: Site, *, after_the_charge: bool = False) -> None:
    """The next release fails while it is measured, or when noise is added: as no test data can make it."""
    name = "draw_numbers" if after_the_charge else "_measure"
    right = getattr(releasing, name)

    def fail(*_: Any, **__: Any) -> None:
        monkeypatch.setattr(releasing, name, right)
        raise DataError("the cell of Xanthippe")

    monkeypatch.setattr(releasing, name, fail)


def stop(site: Site) -> None:
    state = site.state
    state.database.ledger.stop("clinic", "measuring", software="a test")
    state.forget("clinic")


def list_analyst_pages(guest: Guest, *query_ids: str) -> dict[str, str]:
    paths = ["/ask", "/queries", "/ask/schema?dataset=clinic", *(f"/queries/{each}" for each in query_ids)]
    paths += [f"/queries/{each}/status" for each in query_ids]
    return {path: read_text(guest.get(path).text) for path in paths}


@pytest.mark.parametrize("after_the_charge", [False, True])
def test_a_failed_release_stops_the_dataset_for_everybody(
    site: Site, bob: Guest, anna: Guest, carol: Guest, monkeypatch: pytest.MonkeyPatch, after_the_charge: bool
) -> None:
    failing, waiting = anna.ask(), anna.ask(SMOKERS)
    others = bob.ask(SMOKERS)
    before = list_analyst_pages(anna, failing, waiting) | list_analyst_pages(bob, others)
    assert not any("stopped" in text for text in before.values())
    fail_once(monkeypatch, site, after_the_charge=after_the_charge)
    carol.approve(failing)
    stored = known(find_query(site.state.database, failing))
    assert (stored.note == REFUSED) is not after_the_charge  # after it, the note says that the charge counts

    for pages in (list_analyst_pages(anna, failing, waiting), list_analyst_pages(bob, others)):
        for path, text in pages.items():
            assert SENTENCE in text, path
    shown = [read_text(anna.get(f"/queries/{each}/status").text) for each in (failing, waiting)]
    assert shown[0] == shown[1]  # nothing tells which query it was
    with site.api("anna") as api, site.api("bob") as other:
        for client, query_id in ((api, failing), (api, waiting), (other, others)):
            document = client.get(f"/queries/{query_id}").json()
            assert (document["status"], document["message"]) == ("waiting", SENTENCE)
        assert [dataset["stopped"] for dataset in api.get("/datasets").json()] == [True]
        assert api.post("/queries", json={"dataset": "clinic", "sql": COUNT, "purpose": "x"}).status_code == 201

    for query_id in (failing, waiting, others):  # releases are refused, and the queries stay waiting
        refused = carol.approve(query_id)
        assert refused.status_code == 409
        assert REFUSED in read_text(refused.text)
        assert carol.get(f"/decide/{query_id}/confirm", params={"epsilon": "0.05"}).status_code == 409
    assert read_text(carol.get("/queue").text).count("SELECT COUNT(*)") == 4
    assert sum(entry.charge > 0 for entry in site.entries()) == int(after_the_charge)
    assert "Xanthippe" not in str(read_trail(site))


def test_controllers_see_it_on_every_page_and_clear_it(site: Site, anna: Guest, carol: Guest) -> None:
    query_id = anna.ask()
    stop(site)
    for path in ("/queue", f"/decide/{query_id}", "/accounts", "/accounts/clinic", "/audit", "/settings", "/me"):
        assert "Stopped: clinic." in carol.get(path).text, path
    for bad in ("", "  ", "a\u202eb"):
        assert carol.act("/incidents/clinic/clear", reason=bad).status_code == 422
    assert anna.act("/incidents/clinic/clear", reason="please").status_code == 403
    assert anna.get("/incidents").status_code == 403
    assert carol.post("/incidents/clinic/clear", data={"reason": "no token"}).status_code == 403
    assert carol.act("/incidents/nowhere/clear", reason="x").status_code == 404
    assert site.state.is_stopped("clinic")

    done = carol.act("/incidents/clinic/clear", reason="The disk was full.  It is not any more.")
    assert (done.status_code, "Stopped: clinic." in done.text) == (200, False)
    assert SENTENCE not in str(list_analyst_pages(anna, query_id))
    cleared = [(w, d) for w, action, d in read_trail(site) if action == "cleared an incident"]
    assert cleared == [("carol", "The disk was full. It is not any more.")]
    (incident,) = site.state.database.ledger.incidents("clinic")
    assert (incident.cleared_by, incident.reason) == ("carol", "The disk was full. It is not any more.")
    assert carol.act("/incidents/clinic/clear", reason="twice").status_code == 409
    assert "Answered" in carol.approve(query_id).text
    assert count_actions(site, "carol")["viewed incidents"] == 1


def test_a_failure_after_the_charge_can_be_answered_again(
    site: Site, api: httpx.Client, anna: Guest, carol: Guest, monkeypatch: pytest.MonkeyPatch
) -> None:
    query_id = anna.ask()
    fail_once(monkeypatch, site, after_the_charge=True)
    carol.approve(query_id)
    assert "The release failed after the charge" in read_text(carol.get(f"/decide/{query_id}").text)
    carol.act("/incidents/clinic/clear", reason="looked into")
    carol.approve(query_id)
    assert api.get(f"/queries/{query_id}").json()["status"] == "released"
    assert [entry.status for entry in site.entries()] == ["denied", "released"]


def test_an_earlier_answer_is_not_handed_out_while_it_is_stopped(site: Site, anna: Guest, carol: Guest) -> None:
    first, second = anna.ask(), anna.ask()
    carol.approve(first)
    stop(site)
    refused = carol.act(f"/decide/{second}/repeat", reason="asked before")
    assert (refused.status_code, REFUSED in read_text(refused.text)) == (409, True)
    assert "Wilson" in anna.get("/answers").text  # what is out stays out
    carol.act("/incidents/clinic/clear", reason="looked into")
    assert carol.act(f"/decide/{second}/repeat", reason="asked before").status_code == 200


def test_a_stop_by_another_program_is_noticed(site: Site, anna: Guest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dosimeter.web.state.FRESH_STOPS", 0.0)
    with Ledger.open(site.settings.database, create=False) as ledger:
        ledger.stop("clinic", "unexpected", software="dosimeter release")
    assert SENTENCE in read_text(anna.get("/ask").text)
    with Ledger.open(site.settings.database, create=False) as ledger:
        ledger.clear("clinic", by="operator", reason="done")
    assert SENTENCE not in read_text(anna.get("/ask").text)


@pytest.mark.clinic(allow_identifying=True)
def test_pages_with_warnings_are_accessible(site: Site, open_page: OpenPage) -> None:
    with site.guest("anna") as analyst, site.guest("carol") as controller:
        waiting = analyst.ask("SELECT COUNT(*) FROM clinic WHERE name = 'Yusuf Demir'")
        controller.approve(analyst.ask())
        for number in range(2):
            stop(site)
            controller.act("/incidents/clinic/clear", reason=f"for the {number}th time")
        stop(site)
    anna, carol = open_page(site, "anna"), open_page(site, "carol")
    visits = [(anna, "/answers", "Wilson"), (anna, "/ask", SENTENCE), (anna, f"/queries/{waiting}", SENTENCE)]
    visits += [(carol, "/incidents", "for the 1th time"), (carol, f"/decide/{waiting}", "singles people out")]
    for page, path, words in visits:
        page.goto(path)
        expect(page.locator("main")).to_contain_text(words)
        assert not find_barriers(page), path
    banner = carol.get_by_role("alert").filter(has_text="Stopped: clinic.")
    expect(banner).to_be_visible()
    banner.get_by_role("link").click()
    carol.get_by_label("Reason").fill("A full disk")
    carol.get_by_role("button", name="Clear it").click()
    expect(carol.get_by_role("table")).to_contain_text("A full disk")
    expect(banner).to_have_count(0)


# ---------------------------------------------------------------- continuations


def test_the_account_tells_who_said_that_the_people_are_the_same(start_site: StartSite, tmp_path: Path) -> None:
    clinic = copy_clinic(tmp_path)
    site = start_site(datasets={"clinic": clinic})
    with site.guest("anna") as anna, site.guest("carol") as carol:
        carol.approve(anna.ask())
        head, *lines = Path(clinic.data).read_text().splitlines()
        Path(clinic.data).write_text("\n".join([head, *reversed(lines)]) + "\n")
        second = anna.ask(SMOKERS)
        assert 'name="continued"' in carol.get(f"/decide/{second}/confirm?epsilon=0.05").text
        assert "belongs to other data" in carol.approve(second).text  # nothing charged, decide again
        assert "Answered" in carol.approve(second, continued="true").text
        account = read_text(carol.get("/accounts/clinic").text)
    (step,) = known(site.state.database.ledger.account("clinic")).continuations
    assert step.by == "carol"
    assert f"{step.at[:10]} {step.at[11:16]} carol" in account
