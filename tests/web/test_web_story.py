"""The whole story in a real Chromium: ask, look, move the slider, change the preference, approve, read; and what else
can happen to a query."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from dosimeter.ledger import Ledger
from dosimeter.web.public import DENIED
from tests.waiting import LONGEST_WAIT, wait_until
from tests.web.browsing import (
    OpenPage,
    approve_button,
    ask,
    decide,
    expect,
    read_line,
    wait_for_decision,
    wait_for_epsilon,
    wait_for_rest,
)
from tests.web.web_site import COUNT, Site, clinic_settings

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
    with Ledger.open(site.settings.database, create=False) as ledger:
        account = ledger.account("clinic")
        assert account is not None
        assert [entry.status for entry in account.entries] == ["released"]
        entry = account.entries[0]
    assert entry.answer == [{"count": int(answer.replace(",", "").replace("−", "-"))}]
    assert str(entry.epsilon) == "0.1"
    assert entry.request.analyst == "anna"
    assert entry.request.settings["approved_by"] == "carol"
    carol.goto("/accounts/clinic")
    carol.wait_for_selector("text=Person by person")
    expect(carol.locator("main")).to_contain_text("Spent so far: ε = 0.1")
    assert query_id in carol.request.get("/audit").text()


def test_denial_has_one_wording(site: Site, open_page: OpenPage) -> None:
    anna, carol = open_page(site, "anna"), open_page(site, "carol")
    query_id = ask(anna)
    decide(carol, query_id)
    carol.click("text=Deny …")
    carol.fill("[name=reason]", "too few people")
    carol.click("text=The purpose is not worth the risk.")  # a usual reason takes the place of what was typed
    expect(carol.locator("[name=reason]")).to_have_value("The purpose is not worth the risk.")
    carol.click("form[action$=deny] button.danger")
    carol.wait_for_url("**/queue?*")
    expect(carol.locator("[role=status]")).to_contain_text("The analyst anna sees the one fixed wording.")
    anna.goto(f"/queries/{query_id}")
    expect(anna.locator("#status")).to_contain_text(DENIED)
    assert "too few" not in anna.content()


def test_changes_are_asked_for_in_fixed_phrases(site: Site, open_page: OpenPage) -> None:
    anna, carol = open_page(site, "anna"), open_page(site, "carol")
    query_id = ask(anna)
    decide(carol, query_id)
    carol.click("text=Ask for changes …")
    carol.check("[value=coarser]")
    carol.click("main button.primary")
    carol.wait_for_url("**/queue?*")
    expect(carol.locator("[role=status]")).to_contain_text("Please group more coarsely.")
    anna.goto(f"/queries/{query_id}")
    expect(anna.locator("#status")).to_contain_text("Please group more coarsely.")
    anna.click("text=Revise and ask again")
    expect(anna.locator("#sql")).to_have_value(COUNT)


def test_odometer_stops_what_the_preference_would_allow(start_site: Callable[..., Site], open_page: OpenPage) -> None:
    site = start_site(datasets={"clinic": clinic_settings(policy="paper")})
    with site.guest("anna") as analyst, site.guest("carol") as controller:
        first = analyst.ask()
        assert controller.approve(first).status_code == 200
        second = analyst.ask("SELECT COUNT(*) FROM clinic WHERE diagnosis = 'Migraine'")
    carol = open_page(site, "carol")
    decide(carol, second)
    words = "Stopped by the account, not by the preference, which some candidates meet."
    expect(carol.locator("#part-line")).to_contain_text(words)
    expect(approve_button(carol)).to_be_disabled()
    expect(carol.locator("#part-accuracy")).to_contain_text("not available")


def test_same_query_again_costs_nothing(site: Site, open_page: OpenPage) -> None:
    with site.guest("anna") as analyst, site.guest("bob") as other, site.guest("carol") as controller:
        first = analyst.ask()
        assert controller.approve(first).status_code == 200
        second = other.ask()
    carol = open_page(site, "carol")
    decide(carol, second)
    carol.click("text=Give the earlier answer …")
    carol.fill("[name=reason]", "asked before")
    carol.click("main button.primary")
    carol.wait_for_selector("text=The earlier answer was handed out, at no cost.")
    with site.api("anna") as one, site.api("bob") as two:
        assert one.get(f"/queries/{first}").json()["answer"] == two.get(f"/queries/{second}").json()["answer"]
    with Ledger.open(site.settings.database, create=False) as ledger:
        account = ledger.account("clinic")
        assert account is not None
        assert len(account.entries) == 1


def test_no_epsilon_meets_the_preference(site: Site, open_page: OpenPage) -> None:
    with site.guest("anna") as analyst:
        query_id = analyst.ask()
    carol = open_page(site, "carol")
    decide(carol, query_id)
    carol.fill("[name=percent]", "99.99")
    line = carol.locator("#part-line")
    expect(line).to_contain_text("No candidate meets the preference: even the smallest, ε = 0.001, gives 0.999.")
    expect(line).to_contain_text("3 people prevent it: the most exposed.")
    expect(approve_button(carol)).to_be_disabled()


def test_everybody_is_equally_exposed(site: Site, open_page: OpenPage) -> None:
    with site.guest("anna") as analyst:
        query_id = analyst.ask("SELECT COUNT(*) FROM clinic")
    carol = open_page(site, "carol")
    decide(carol, query_id)
    expect(carol.locator("#part-line")).to_contain_text("Everybody is equally exposed at every ε")


def test_own_condition_and_two_groups(site: Site, open_page: OpenPage) -> None:
    with site.guest("anna") as analyst:
        query_id = analyst.ask("SELECT SUM(visits) FROM clinic")
    carol = open_page(site, "carol")
    decide(carol, query_id)
    carol.select_option("[name=preset]", "own")
    carol.fill("[name=text]", "MAX(rdr) <=")
    carol.wait_for_selector("#preference-problem:not([hidden])")
    carol.fill("[name=text]", "MEDIAN(rdr) FILTER (WHERE smoker) / MEDIAN(rdr) >= 0.999")
    carol.wait_for_selector("#preference-problem", state="hidden")
    carol.wait_for_selector("#part-verdict [data-preference*='smoker']")
    carol.select_option("[name=preset]", "medians")
    carol.select_option("[name=column]", "sex")
    carol.select_option("[name=value]", "Other")
    carol.wait_for_selector("#part-verdict [data-preference*='Other']")
    carol.select_option("[name=preset]", "variance")
    carol.fill("[name=tau]", "0")
    carol.wait_for_selector("#preference-problem >> text=The variance must be a positive number.")
    carol.select_option("#by", "sex")
    carol.wait_for_selector("#groups >> text=Other")


def test_scan_shows_progress_and_can_be_cancelled(site: Site, open_page: OpenPage) -> None:
    """A FILTER looks at everybody once more. While the engine is busy the page says so, and follows when it is free."""
    state = site.state
    worker = state.datasets["clinic"].worker
    free = threading.Event()

    def occupy(_dataset: object, _meter: object) -> None:
        free.wait(LONGEST_WAIT)

    with site.guest("anna") as analyst:
        query_id = analyst.ask("SELECT SUM(visits) FROM clinic")
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

    with site.guest("anna") as analyst:
        waiting = analyst.ask("SELECT AVG(age) FROM clinic")
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


def test_unsupported_sql_is_underlined(site: Site, open_page: OpenPage) -> None:
    anna = open_page(site, "anna")
    anna.goto("/ask")
    anna.fill("#sql", "SELECT COUNT(*) FROM clinic WHERE age > 40 GROUP BY MODE(age)")
    expect(anna.locator("#check mark")).to_contain_text("MODE")
    anna.fill("[name=purpose]", "x")
    anna.click("text=Submit the query")
    expect(anna.locator("form#ask")).to_contain_text("This query cannot be answered as it is.")
    expect(anna.locator("#check")).to_contain_text("✗")


def test_revealing_is_on_record(site: Site, open_page: OpenPage) -> None:
    with site.guest("anna") as analyst:
        query_id = analyst.ask()
    carol = open_page(site, "carol")
    decide(carol, query_id)
    expect(carol.locator("#people")).to_contain_text("•••")
    carol.click("text=Reveal patient_id, name")
    carol.wait_for_selector("text=This is in the audit log under your name.")
    expect(carol.locator("#people")).not_to_contain_text("•••")
    carol.goto("/audit")
    expect(carol.locator("main")).to_contain_text("revealed identities")


def test_two_controllers_get_a_clear_answer(site: Site, open_page: OpenPage) -> None:
    with site.guest("anna") as analyst:
        query_id = analyst.ask()
    carol, conrad = open_page(site, "carol"), open_page(site, "conrad")
    decide(carol, query_id)
    decide(conrad, query_id)
    carol.click("text=Approve at ε")
    conrad.click("text=Approve at ε")
    for page in (carol, conrad):
        page.fill("[name=reason]", "agreed")
    carol.click("main button.primary")
    carol.wait_for_selector("text=Answered")
    conrad.click("main button.primary")
    conrad.wait_for_selector("text=Decided already")
    expect(conrad.locator("main")).to_contain_text("This query was answered, by carol")
    with Ledger.open(site.settings.database, create=False) as ledger:
        account = ledger.account("clinic")
        assert account is not None
        assert len(account.entries) == 1


def test_sign_out_ends_the_session(site: Site, open_page: OpenPage) -> None:
    anna = open_page(site, "anna")
    anna.click("text=Sign out")
    anna.wait_for_url("**/sign-in")
    anna.goto("/queries")
    expect(anna).to_have_url(f"{site.url}/sign-in?next=%2Fqueries")


def test_looking_is_a_choice_where_the_promise_depends_on_it(
    start_site: Callable[..., Site], open_page: OpenPage
) -> None:
    site = start_site(
        datasets={"clinic": clinic_settings(algorithm="find-and-release", policy="budget:20", variance=0.01)}
    )
    anna, carol = open_page(site, "anna"), open_page(site, "carol")
    blind, seen = ask(anna), ask(anna, "SELECT COUNT(*) FROM clinic WHERE smoker")
    carol.goto(f"/decide/{blind}")
    expect(carol.locator("#slider")).to_have_count(0)
    carol.click("text=Approve …")
    expect(carol.locator("main")).to_contain_text("You decide without having looked at the risk of this query.")
    carol.fill("[name=reason]", "as agreed")
    carol.click("main button.primary")
    carol.wait_for_selector("text=Answered")
    carol.goto(f"/decide/{seen}")
    carol.click("button:has-text('Look at the risk')")
    wait_for_decision(carol)
    carol.click("#part-verdict .primary")
    carol.fill("[name=reason]", "as agreed")
    carol.click("main button.primary")
    carol.wait_for_selector("text=Answered")
    with site.api() as api:
        first, second = (api.get(f"/queries/{query}").json()["answer"] for query in (blind, seen))
    assert first["epsilon"] > 0
    assert first["epsilon_svt"] == 1.0
    assert len(first["error_95"]) == 1
    assert "was looked at" not in first["guarantee"]
    assert "was looked at" in second["guarantee"]


@pytest.mark.parametrize(("scheme", "width"), [("light", 1200), ("dark", 360)])
def test_every_page_is_accessible(site: Site, open_page: OpenPage, scheme: str, width: int) -> None:
    from axe_playwright_python.sync_playwright import Axe

    with site.guest("anna") as analyst, site.guest("carol") as controller:
        decided, denied, waiting = (
            analyst.ask(),
            analyst.ask(),
            analyst.ask("SELECT sex, AVG(age) FROM clinic GROUP BY sex"),
        )
        controller.approve(decided)
        controller.act(f"/decide/{denied}/deny", reason="too few people")
    options = {"color_scheme": scheme, "viewport": {"width": width, "height": 800}, "reduced_motion": "reduce"}
    anna, carol = open_page(site, "anna", **options), open_page(site, "carol", **options)
    visits = [
        (anna, p)
        for p in (
            "/ask",
            "/queries",
            f"/queries/{decided}",
            f"/queries/{denied}",
            f"/queries/{waiting}",
            "/me",
            "/answers",
        )
    ]
    visits += [
        (carol, p) for p in ("/queue", f"/decide/{waiting}", f"/decide/{decided}", "/accounts", "/accounts/clinic")
    ]
    visits += [(carol, f"/decide/{waiting}/{part}") for part in ("confirm?epsilon=0.1", "deny", "changes")]
    visits += [(carol, p) for p in ("/decided", "/audit", "/settings", "/me", "/nowhere")]
    problems = {}
    for page, path in visits:
        page.goto(path)
        if path == "/ask":  # with what to expect
            page.fill("#sql", "SELECT sex, AVG(cost_eur), COUNT(*) FROM clinic GROUP BY sex")
            expect(page.locator("#check .expected")).to_be_visible()
        wait_for_rest(page)
        found = Axe().run(page)
        if found.violations_count:
            problems[path] = [(v["id"], v["nodes"][0]["html"]) for v in found.response["violations"]]
        assert page.evaluate("document.documentElement.scrollWidth") <= width, f"{path} is wider than the window"
        if width < 500:  # a list is a stack of cards there, and what they are about has their whole width
            # In one step: between finding cells and measuring them the queue may put new ones in their place.
            shares = page.evaluate(
                """[...document.querySelectorAll(".list td.query:not(:empty)")]
                    .map((cell) => cell.offsetWidth / cell.parentElement.clientWidth)"""
            )
            assert all(share > 0.85 for share in shares), path
    assert not problems
    anna.goto(f"/queries/{waiting}")
    anna.click("text=Sign out")
    anna.wait_for_url("**/sign-in")
    assert Axe().run(anna).violations_count == 0
