"""The whole story in a real Chromium: ask, look, move the slider, approve, read; what else can happen to a query; and
that what is approved is what stands on the page.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

import pytest

from dosimeter.web.public import DENIED, PHRASES
from tests.waiting import wait_until
from tests.web.browsing import (
    OpenPage,
    approve_button,
    ask,
    decide,
    expect,
    find_barriers,
    read_line,
    unfold,
    wait_for_approval,
    wait_for_decision,
    wait_for_epsilon,
)
from tests.web.web_site import COUNT, PASSWORD, Guest, Site, keep_busy, read_text

if TYPE_CHECKING:
    from playwright.sync_api import Route


def test_whole_story(site: Site, open_page: OpenPage) -> None:
    anna, carol = open_page(site, "anna"), open_page(site, "carol")
    query_id = ask(anna, purpose="stock of a rare medicine")
    expect(anna.locator("#status")).to_contain_text("waiting")

    carol.goto("/queue")
    carol.click(f"text={COUNT}")
    wait_for_decision(carol)
    expect(carol.locator(".question")).to_contain_text("Controller only")
    expect(carol.locator("#touches")).to_have_text("Touches 3 of 4,000 people")
    expect(carol.locator("main")).to_contain_text("stock of a rare medicine")
    expect(read_line(carol)).to_contain_text("preference: 0.05 (exact limit 0.0526)")

    # The slider by keyboard: arrows step, Home and End jump; the words say where it stands.
    carol.focus("#slider")
    carol.keyboard.press("ArrowLeft")
    wait_for_epsilon(carol, "0.04")
    expect(carol.locator("#slider")).to_have_attribute("aria-valuetext", re.compile("ε = 0.04.*± 75"))
    expect(carol.locator("#epsilon")).to_have_value("0.04")
    expect(carol.locator("#part-verdict")).to_contain_text("Approve at ε = 0.04")
    carol.keyboard.press("End")
    wait_for_epsilon(carol, "10")
    expect(approve_button(carol)).to_be_disabled()
    carol.keyboard.press("Home")
    wait_for_epsilon(carol, "0.001")
    unfold(carol, "exposed")
    expect(carol.locator("#people")).to_contain_text("removing one changes count from 3 to 2")
    expect(carol.locator("#people")).to_contain_text("•••")
    carol.click("text=Reveal patient_id, name")
    carol.wait_for_selector("text=This is in the audit log under your name.")
    expect(carol.locator("#people")).not_to_contain_text("•••")

    # Another preference finds another ε, and the slider goes there.
    carol.fill("[name=percent]", "90")
    wait_for_epsilon(carol, "0.1")
    expect(read_line(carol)).to_contain_text("preference: 0.1 (exact limit 0.111)")
    expect(carol.locator("#part-accuracy tr.selected th")).to_contain_text("0.1")
    expect(carol.locator("#range tr.selected th")).to_have_text("0.1")

    carol.click("text=Approve at ε = 0.1")
    carol.wait_for_url("**/confirm?*")
    expect(carol.locator("h1")).to_contain_text("Approve at ε = 0.1?")
    carol.click("main button.primary")  # without a reason nothing is sent
    carol.fill("[name=reason]", "the stock depends on it")
    carol.click("main button.primary")  # nor before a looser preference than one's own is meant
    carol.check("[name=looser]")
    carol.click("main button.primary")
    carol.wait_for_selector(".decided >> text=Answered")
    expect(carol.locator(".decided")).to_contain_text("By carol")

    expect(anna.locator("#status")).to_contain_text("ε is withheld")  # the page found out itself
    answer = anna.inner_text(".number")
    (entry,) = site.entries()
    assert entry.status == "released"
    assert entry.answer == [{"count": int(answer.replace(",", "").replace("−", "-"))}]
    assert str(entry.epsilon) == "0.1"
    assert entry.request.analyst == "anna"
    assert entry.request.settings["approved_by"] == "carol"
    carol.goto("/accounts/clinic")
    carol.wait_for_selector("text=Person by person")
    expect(carol.locator("main")).to_contain_text("Spent so far: ε = 0.1")
    assert query_id in carol.request.get("/audit").text()


def test_denials_and_changes_have_fixed_words(site: Site, open_page: OpenPage) -> None:
    anna, carol = open_page(site, "anna"), open_page(site, "carol")
    denied, returned = ask(anna), ask(anna)
    decide(carol, denied)
    carol.click("text=Deny …")
    carol.fill("[name=reason]", "too few people")
    carol.click("text=The purpose is not worth the risk.")  # a usual reason takes the place of what was typed
    expect(carol.locator("[name=reason]")).to_have_value("The purpose is not worth the risk.")
    carol.click("form[action$=deny] button.danger")
    carol.wait_for_url("**/queue?*")
    anna.goto(f"/queries/{denied}")
    expect(anna.locator("#status")).to_contain_text(DENIED)
    assert "not worth" not in anna.content()
    decide(carol, returned)
    carol.click("text=Ask for changes …")
    carol.check("[value=coarser]")
    carol.click("main button.primary")
    carol.wait_for_url("**/queue?*")
    expect(carol.locator("[role=status]")).to_contain_text(PHRASES["coarser"])
    anna.goto(f"/queries/{returned}")
    expect(anna.locator("#status")).to_contain_text(PHRASES["coarser"])
    anna.click("text=Revise and ask again")
    expect(anna.locator("#sql")).to_have_value(COUNT)


def test_scan_shows_progress_and_can_be_cancelled(site: Site, anna: Guest, open_page: OpenPage) -> None:
    """A FILTER looks at everybody once more. While the engine is busy the page says so, and follows when it is free."""
    worker = site.state.datasets["clinic"].worker
    query_id = anna.ask("SELECT SUM(visits) FROM clinic")
    carol = open_page(site, "carol")
    decide(carol, query_id)
    unfold(carol, "exposed")
    carol.wait_for_selector("#people table")
    with keep_busy(worker):
        carol.select_option("[name=preset]", "medians")
        carol.wait_for_selector("#preference-computing:not([hidden])")
        carol.focus("#slider")  # the rest of the page goes on
        expect(carol.locator("#part-line")).to_have_attribute("aria-busy", "true")
        expect(approve_button(carol)).to_be_disabled()
    carol.wait_for_selector("#part-verdict [data-preference*='FILTER']")
    carol.wait_for_selector("#preference-computing", state="hidden")

    with keep_busy(worker) as busy:
        carol.select_option("[name=value]", "Other")
        carol.wait_for_selector("#preference-computing:not([hidden])")
        held: list[Route] = []
        carol.route("**/jobs/*/cancel", lambda route: held.append(route))  # as if the engine took its time to stop
        carol.click("#preference-cancel")
        expect(carol.locator("#preference-cancel")).to_have_text("Stopping …")
        wait_until(lambda: carol.evaluate("true") and held, "the page has asked to stop")
        with carol.expect_navigation():  # cancelled, and the page starts again
            held.pop().continue_()

        waiting = anna.ask("SELECT AVG(age) FROM clinic")
        carol.goto(f"/decide/{waiting}")
        carol.click(".computing button >> text=Cancel")
        expect(carol.locator(".computing button")).to_have_text("Stopping …")
        wait_until(lambda: carol.evaluate("true") and held, "the page has asked to stop")
        held.pop().continue_()
        expect(carol.locator(".computing")).to_contain_text("Stopped.")

        busy.meter.stopped = True  # it was told to stop, and goes on for a while
        with site.guest("carol") as guest:
            told = guest.get(f"/jobs/{busy.id}").text
        assert "Stopping …" in told
        assert "Cancel" not in told


def test_every_page_is_accessible(site: Site, open_page: OpenPage) -> None:
    with site.guest("anna") as analyst, site.guest("carol") as controller:
        decided, denied = analyst.ask(), analyst.ask()
        waiting = analyst.ask("SELECT sex, AVG(age) FROM clinic GROUP BY sex")
        controller.approve(decided)
        controller.approve(analyst.ask("SELECT sex, COUNT(*) FROM clinic GROUP BY sex"), "0.01")  # a second answer
        controller.act(f"/decide/{denied}/deny", reason="too few people")
    anna, carol = open_page(site, "anna"), open_page(site, "carol")
    own = [f"/queries/{query_id}" for query_id in (decided, denied, waiting)]
    visits = [(anna, path) for path in ("/ask", "/queries", *own, "/me", "/answers")]
    decisions = [f"/decide/{decided}", f"/decide/{waiting}"]
    decisions += [f"/decide/{waiting}/{part}" for part in ("confirm?epsilon=0.1", "deny", "changes")]
    others = ("/queue", "/accounts", "/accounts/clinic", "/decided", "/audit", "/settings", "/nowhere")
    visits += [(carol, path) for path in (*decisions, *others)]
    problems = {}
    for page, path in visits:
        page.goto(path)
        if path == "/ask":  # with what to expect
            page.fill("#sql", "SELECT sex, AVG(cost_eur), COUNT(*) FROM clinic GROUP BY sex")
            expect(page.locator("#check .expected")).to_be_visible()
        if found := find_barriers(page):
            problems[path] = found
        # On a narrow screen a list is a stack of cards, and what they are about has their whole width.
        # In one step: between finding cells and measuring them the queue may put new ones in their place.
        shares = page.evaluate(
            """[...document.querySelectorAll(".list td.query:not(:empty)")]
                .map((cell) => cell.offsetWidth / cell.parentElement.clientWidth)"""
        )
        assert all(share > 0.85 for share in shares), path
    assert not problems
    anna.goto(own[0])
    anna.click("text=Sign out")
    anna.wait_for_url("**/sign-in")
    assert not find_barriers(anna)


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
    carol = open_page(site, "carol")
    decide(carol, anna.ask(SUM))
    unfold(carol, "exposed")
    carol.wait_for_selector("#people table")
    wait_for_approval(carol)
    before = carol.input_value("#epsilon")
    with keep_busy(site.state.datasets["clinic"].worker):
        carol.select_option("[name=preset]", "medians")
        assert carol.is_disabled("#part-verdict .primary")
        expect(carol.locator("#valuetext")).to_have_text("Working it out …")
        expect(carol.locator("#epsilon")).to_have_value(before)
    carol.wait_for_selector("#part-verdict [data-preference*='FILTER']")


def test_server_reads_the_form_anew(anna: Guest, carol: Guest) -> None:
    """Another road than the page: the address of the confirmation, put together by hand."""
    query_id = anna.ask()
    address = f"/decide/{query_id}/confirm"
    for preset, name, value in (("own", "text", "MIN(rdr) OR"), ("ratio", "percent", ""), ("variance", "tau", " ")):
        page = carol.get(address, params={"preset": preset, name: value, "epsilon": "0.05"})
        assert (page.status_code, "data-approve" in page.text) == (422, False)
    above = carol.get(address, params={"preset": "ratio", "percent": "95", "epsilon": "0.06"})
    assert above.status_code == 409
    between = carol.get(address, params={"preset": "ratio", "percent": "95", "epsilon": "0.045"})
    assert 'name="epsilon" value="0.04"' in between.text


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

    def end_sessions() -> None:
        with site.guest("carol") as same:
            same.act("/sign-out-everywhere")

    def sign_in() -> None:
        carol.fill("[name=name]", "carol")
        carol.fill("[name=password]", PASSWORD)
        carol.click("main button")

    carol.goto(f"/decide/{query_id}/confirm?epsilon=0.05", wait_until="networkidle")
    carol.fill("[name=reason]", "agreed with the board")
    end_sessions()
    carol.click("main button.primary")
    carol.wait_for_selector("text=Your session ended; nothing was decided")
    sign_in()
    carol.wait_for_url(f"**/decide/{query_id}/confirm?epsilon=0.05")
    expect(carol.locator("[name=reason]")).to_have_value("agreed with the board")
    carol.wait_for_load_state("networkidle")  # a part of the page that came later would lead to the sign-in by itself
    end_sessions()
    carol.goto(f"/decide/{query_id}?preset=ratio&percent=90")
    sign_in()
    expect(carol.locator("[name=percent]")).to_have_value("90")


def test_only_own_pages_are_ways_back(site: Site, guest: Guest) -> None:
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
    address = "/decide/0a/confirm?epsilon=0.03&percent=90"
    for origin, back in ((site.url, address), ("https://evil.test", "/decide/0a")):
        with site.guest() as late:  # whose session ended on a confirmation
            page = late.post("/decide/0a/approve", headers={"Referer": f"{origin}{address}"})
        assert page.url.params["next"] == back


@pytest.mark.clinic(algorithm="find-and-release", policy="budget:6", variance=0.01, svt=1.0)
def test_noisy_test_is_described_by_its_worst_case(anna: Guest, carol: Guest) -> None:
    query_id = anna.ask()
    blind = read_text(carol.get(f"/decide/{query_id}").text)
    carol.act(f"/decide/{query_id}/look")
    pages = [read_text(carol.get(f"/decide/{query_id}", params=p).text) for p in ({}, {"epsilon": "0.01"})]
    posterior = 1 / (1 + 99 * math.exp(-6))  # of a suspicion of 1 %, at ε = 5 and 1 for the test
    assert 0.8025 < posterior < 0.803
    assert "is at most 81 % sure afterwards." in blind
    for page in (blind, *pages):
        assert (
            "What is spent goes from 0 to at most 6, the whole budget." in page
        )  # ε = 5, the largest that fits, and 1
    for page in pages:
        assert "; at worst 5. Your own standard, least ÷ most exposed, allows ε = 0.05 at most. Of 100 guesses" in page
    learnt = [re.findall(r"What an attacker could learn.*?Every ε as a table", page) for page in pages]
    assert len(learnt[0]) == 1
    assert learnt[0] == learnt[1]
