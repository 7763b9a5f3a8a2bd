"""What is approved is what stands on the page, in a real Chromium: stale readings, default ε, ways back, sessions."""

from __future__ import annotations

import math
import re
import threading

import pytest

from dosimeter.web.store.tables import SESSIONS
from tests.waiting import LONGEST_WAIT
from tests.web.browsing import (
    OpenPage,
    approve_button,
    decide,
    expect,
    wait_for_approval,
    wait_for_decision,
    wait_for_epsilon,
)
from tests.web.web_site import PASSWORD, Guest, Site, find_user, read_text

SUM = "SELECT SUM(visits) FROM clinic"


def test_nothing_else_than_the_form_can_be_approved(site: Site, anna: Guest, open_page: OpenPage) -> None:
    query_id = anna.ask(SUM)
    carol = open_page(site, "carol")
    decide(carol, query_id)
    carol.select_option("[name=preset]", "own")
    expect(carol.locator("[name=text]")).to_have_value("MIN(rdr) / MAX(rdr) >= 0.95")  # begins with what is in force
    wait_for_approval(carol)
    carol.fill("[name=text]", "MIN(rdr) / MAX(rdr) >= 0.99999 OR")
    assert carol.is_disabled("#part-verdict .primary")  # at once, not when the server has spoken
    expect(carol.locator("#preference-problem")).to_be_visible()
    expect(carol.locator("#slider-problem")).to_be_visible()
    assert carol.is_disabled("#part-verdict .primary")
    expect(carol.locator("#part-line")).to_have_attribute("aria-busy", "true")
    carol.select_option("[name=preset]", "ratio")
    wait_for_approval(carol)
    carol.fill("[name=percent]", "")
    assert carol.is_disabled("#part-verdict .primary")
    expect(carol.locator("#preference-problem")).to_contain_text("Give a percentage")
    assert carol.is_disabled("#part-verdict .primary")
    carol.fill("[name=percent]", "90")
    wait_for_approval(carol)
    expect(approve_button(carol)).to_contain_text("Approve at ε = 0.1")


def test_old_reading_cannot_be_approved_while_a_new_one_is_computed(
    site: Site, anna: Guest, open_page: OpenPage
) -> None:
    worker = site.state.datasets["clinic"].worker
    query_id = anna.ask(SUM)
    carol = open_page(site, "carol")
    decide(carol, query_id)
    carol.wait_for_selector("#people table")
    wait_for_approval(carol)
    before = carol.input_value("#epsilon")
    free = threading.Event()
    worker.ask("busy", "busy", lambda _d, _m: free.wait(LONGEST_WAIT), wait=0)
    try:
        carol.select_option("[name=preset]", "medians")
        assert carol.is_disabled("#part-verdict .primary")
        expect(carol.locator("#valuetext")).to_have_text("Working it out …")
        expect(carol.locator("#epsilon")).to_have_value(before)
    finally:
        free.set()
    carol.wait_for_selector("#part-verdict [data-preference*='FILTER']")


def test_server_reads_the_form_anew(site: Site, anna: Guest, carol: Guest) -> None:
    """Another road than the page: the address of the confirmation, put together by hand."""
    query_id = anna.ask()
    address = f"/decide/{query_id}/confirm"
    for fields, words in (
        ({"preset": "own", "text": "MIN(rdr) OR", "epsilon": "0.05"}, "cannot be read"),
        ({"preset": "ratio", "percent": "", "epsilon": "0.05"}, "Give a percentage"),
        ({"preset": "variance", "tau": " ", "epsilon": "0.05"}, "positive number"),
    ):
        page = carol.get(address, params=fields)
        assert page.status_code == 422
        assert words in page.text
        assert "Nothing can be approved" in page.text
        assert "data-approve" not in page.text
    above = carol.get(address, params={"preset": "ratio", "percent": "95", "epsilon": "0.06"})
    assert above.status_code == 409
    assert "does not meet the preference; 0.05 does." in above.text
    between = carol.get(address, params={"preset": "ratio", "percent": "95", "epsilon": "0.045"})
    assert 'name="epsilon" value="0.04"' in between.text
    assert "0.045 is not one of the candidates" in between.text


def test_number_between_candidates_is_taken_down_and_said(site: Site, anna: Guest, open_page: OpenPage) -> None:
    query_id = anna.ask()
    carol = open_page(site, "carol")
    decide(carol, query_id)
    for typed, key, shown in (("0.045", "Tab", "0.04"), ("0.035", "Enter", "0.03")):
        carol.fill("#epsilon", typed)
        carol.keyboard.press(key)
        words = f"{typed} is not a candidate; {shown} is the next smaller one."
        expect(carol.locator("#valuetext")).to_contain_text(words)
        expect(carol.locator("#epsilon")).to_have_value(shown)
    carol.fill("#epsilon", "0.05")  # what the button names is what the confirmation asks for, also after Enter
    carol.keyboard.press("Enter")
    wait_for_epsilon(carol, "0.05")
    wait_for_approval(carol)
    expect(carol.locator("#epsilon")).to_have_value("0.05")
    carol.click("text=Approve at ε = 0.05 …")
    expect(carol.locator("h1")).to_have_text("Approve at ε = 0.05?")


def test_back_from_the_confirmation_loses_nothing(site: Site, anna: Guest, open_page: OpenPage) -> None:
    query_id = anna.ask()
    carol = open_page(site, "carol")
    decide(carol, query_id)
    carol.fill("[name=percent]", "90")
    wait_for_epsilon(carol, "0.1")
    carol.focus("#slider")
    carol.keyboard.press("ArrowLeft")
    wait_for_epsilon(carol, "0.09")
    wait_for_approval(carol)
    for back in (lambda: carol.click("text=Back >> nth=-1"), carol.go_back):
        carol.click("[data-approve]")
        carol.wait_for_url("**/confirm?*")
        carol.fill("[name=reason]", "stock of medicine")
        back()
        wait_for_decision(carol)
        expect(carol.locator("[name=percent]")).to_have_value("90")
        expect(carol.locator("#epsilon")).to_have_value("0.09")
    carol.click("[data-approve]")
    expect(carol.locator("[name=reason]")).to_have_value("stock of medicine")
    carol.check("[name=looser]")  # 90 % where the controller's own threshold is 95 %
    carol.click("main button.primary")
    carol.wait_for_selector("text=Answered")
    expect(carol.locator("#epsilon")).to_have_value("0.09")  # the page starts where it was approved
    carol.go_back()
    carol.wait_for_selector("text=Decided already")


def test_ended_session_leads_back(site: Site, anna: Guest, open_page: OpenPage) -> None:
    query_id = anna.ask()
    carol = open_page(site, "carol")
    carol.goto(f"/decide/{query_id}/confirm?epsilon=0.05", wait_until="networkidle")
    carol.fill("[name=reason]", "agreed with the board")
    end_sessions(site, "carol")
    carol.click("main button.primary")
    carol.wait_for_selector("text=Your session ended; nothing was decided")
    carol.fill("[name=name]", "carol")
    carol.fill("[name=password]", PASSWORD)
    carol.click("main button")
    carol.wait_for_url(f"**/decide/{query_id}/confirm?epsilon=0.05")
    expect(carol.locator("[name=reason]")).to_have_value("agreed with the board")
    carol.wait_for_load_state("networkidle")  # a part of the page that came later would lead to the sign-in by itself
    end_sessions(site, "carol")
    carol.goto(f"/decide/{query_id}?preset=ratio&percent=90")
    carol.fill("[name=name]", "carol")
    carol.fill("[name=password]", PASSWORD)
    carol.click("main button")
    expect(carol.locator("[name=percent]")).to_have_value("90")


def end_sessions(site: Site, name: str) -> None:
    user = find_user(site.state.database, name)
    with site.state.database.writing() as connection:
        connection.execute(SESSIONS.delete().where(SESSIONS.c.user_id == user.id))


def test_only_own_pages_are_ways_back(site: Site) -> None:
    with site.guest() as guest:
        for given in ("//evil.example", "https://evil.example", "/\\evil.example", "/%0d%0aX", "/sign-out", "/queue"):
            page = guest.get("/sign-in", params={"next": given})
            assert ('name="next" value="/queue"' in page.text) == (given == "/queue")
        guest.follow_redirects = False
        token = page.text.split('name="csrf" value="')[1].split('"')[0]
        wrong = guest.post("/sign-in", data={"csrf": token, "name": "anna", "password": "wrong", "next": "/queue"})
        assert 'value="anna"' in wrong.text  # the name stays
        token = wrong.text.split('name="csrf" value="')[1].split('"')[0]
        fields = {"csrf": token, "name": "anna", "password": PASSWORD, "next": "/queue"}
        assert guest.post("/sign-in", data=fields).headers["location"] == "/"  # not an analyst's page


@pytest.mark.clinic(algorithm="find-and-release", policy="budget:6", variance=0.01)
def test_noisy_test_is_described_by_its_worst_case(site: Site, anna: Guest, carol: Guest) -> None:
    query_id = anna.ask()
    blind = read_text(carol.get(f"/decide/{query_id}").text)
    carol.act(f"/decide/{query_id}/look")
    pages = [read_text(carol.get(f"/decide/{query_id}", params=p).text) for p in ({}, {"epsilon": "0.01"})]
    assert "What is spent goes from 0 to at most 6, the whole budget." in blind  # ε = 5, the largest that fits, and 1
    posterior = 1 / (1 + 99 * math.exp(-6))  # of a suspicion of 1 %, at ε = 5 and 1 for the test
    assert 0.8025 < posterior < 0.803
    assert "If the test finds ε = 5: somebody who knows everybody else" in blind.replace("\xa0", " ")
    assert "is at most 80.3 % sure afterwards." in blind.replace("\xa0", " ")
    for page in pages:
        assert "normalised RDR is at most 0.01" in page
        assert "to look only" in page
        assert "What is spent goes from 0 to at most 6, the whole budget." in page
        assert "The noisy test finds ε: at worst 5, and 6 is spent with the test." in page
        assert "percent" not in page.lower().split("what the test looks for")[1][:400]
    learnt = [re.findall(r"What an attacker could learn.*?Accuracy", page) for page in pages]
    assert len(learnt[0]) == 1
    assert learnt[0] == learnt[1]
