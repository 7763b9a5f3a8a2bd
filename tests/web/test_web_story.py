"""The whole story in a real Chromium: ask, look, move the slider, change the preference, approve, read; and what else
can happen to a query."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from dosimeter.web.public import DENIED, PHRASES
from tests.waiting import LONGEST_WAIT, wait_until
from tests.web.browsing import (
    OpenPage,
    approve_button,
    ask,
    decide,
    expect,
    find_barriers,
    read_line,
    wait_for_decision,
    wait_for_epsilon,
)
from tests.web.web_site import COUNT, Guest, Site

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
    found = "Largest ε that meets the preference: 0.05 (exact limit 0.0526)"
    expect(read_line(carol)).to_have_text(f"{found}; the next candidate, 0.06, does not meet it and gives 0.9434.")

    # The slider by keyboard: arrows step, Home and End jump; the words say where it stands.
    carol.focus("#slider")
    carol.keyboard.press("ArrowLeft")
    wait_for_epsilon(carol, "0.04")
    words = "ε = 0.04, meets the preference, 95 % error ± 75"
    expect(carol.locator("#slider")).to_have_attribute("aria-valuetext", words)
    expect(carol.locator("#epsilon")).to_have_value("0.04")
    expect(carol.locator("#part-verdict")).to_contain_text("Approve at ε = 0.04")
    carol.keyboard.press("End")
    wait_for_epsilon(carol, "10")
    expect(approve_button(carol)).to_be_disabled()
    carol.keyboard.press("Home")
    wait_for_epsilon(carol, "0.001")
    expect(carol.locator("#people")).to_contain_text("removing one changes count from 3 to 2")
    expect(carol.locator("#people")).to_contain_text("•••")
    carol.click("text=Reveal patient_id, name")
    carol.wait_for_selector("text=This is in the audit log under your name.")
    expect(carol.locator("#people")).not_to_contain_text("•••")

    # Another preference finds another ε, and the slider goes there.
    carol.fill("[name=percent]", "90")
    wait_for_epsilon(carol, "0.1")
    expect(read_line(carol)).to_contain_text("Largest ε that meets the preference: 0.1 (exact limit 0.111);")
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

    withheld = "ε is withheld because it depends on the data."
    expect(anna.locator("#status")).to_contain_text(withheld)  # the page found out itself
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
    state = site.state
    worker = state.datasets["clinic"].worker
    free = threading.Event()

    def occupy(_dataset: object, _meter: object) -> None:
        free.wait(LONGEST_WAIT)

    query_id = anna.ask("SELECT SUM(visits) FROM clinic")
    carol = open_page(site, "carol")
    decide(carol, query_id)
    carol.wait_for_selector("#people table")
    worker.ask("busy", "busy", occupy, wait=0)
    carol.select_option("[name=preset]", "medians")
    carol.wait_for_selector("#preference-computing:not([hidden])")
    carol.focus("#slider")  # the rest of the page goes on
    expect(carol.locator("#part-line")).to_have_attribute("aria-busy", "true")
    expect(approve_button(carol)).to_be_disabled()
    free.set()
    carol.wait_for_selector("#part-verdict [data-preference*='FILTER']")
    carol.wait_for_selector("#preference-computing", state="hidden")

    free.clear()
    worker.ask("busy again", "busy", occupy, wait=0)
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

    busy = next(job for job in worker.running() if job.title == "busy")
    busy.meter.stopped = True  # it was told to stop, and goes on for a while
    with site.guest("carol") as guest:
        told = guest.get(f"/jobs/{busy.id}").text
    assert "Stopping …" in told
    assert "Cancel" not in told
    free.set()


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
