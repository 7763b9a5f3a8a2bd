"""The whole story in a real Chromium: ask, look, move the slider, change the preference, approve, read; and what else
can happen to a query."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from web_site import COUNT, Site, clinic_settings

from dosimeter.ledger import Ledger
from dosimeter.web.models import DENIED

if TYPE_CHECKING:
    from playwright.sync_api import Page

OpenPage = Callable[..., "Page"]


def ask(page: Page, sql: str = COUNT, purpose: str = "a test") -> str:
    page.goto("/ask")
    page.fill("#sql", sql)
    page.wait_for_selector("#check .good")
    page.fill("[name=purpose]", purpose)
    page.click("text=Submit the query")
    page.wait_for_url("**/queries/*")
    return page.url.rsplit("/", 1)[1]


def decide(page: Page, query_id: str) -> None:
    page.goto(f"/decide/{query_id}")
    page.wait_for_selector("#range[data-drawn=true]")
    page.wait_for_selector("#histogram[data-drawn=true] svg")


def read(page: Page, selector: str) -> str:
    """The words there, with ordinary spaces."""
    return page.inner_text(selector).replace("\xa0", " ")


def read_line(page: Page) -> str:
    return read(page, "#part-line .line")


def test_whole_story(site: Site, open_page: OpenPage) -> None:
    anna, carol = open_page(site, "anna"), open_page(site, "carol")
    query_id = ask(anna, purpose="stock of a rare medicine")
    assert "waiting" in anna.inner_text("#status")

    carol.goto("/queue")
    carol.click(f"text={COUNT}")
    carol.wait_for_selector("#range[data-drawn=true] svg")
    assert "Controller only" in carol.inner_text("h1")
    assert "stock of a rare medicine" in carol.inner_text("main")
    assert read_line(carol) == "Largest ε: 0.05 (exact limit 0.0526). The next candidate, 0.06, gives 94.34 %."

    # The slider by keyboard: arrows step, Home and End jump; the words say where it stands.
    carol.focus("#slider")
    carol.keyboard.press("ArrowLeft")
    carol.wait_for_selector("body[data-shown='0.04']")
    assert carol.get_attribute("#slider", "aria-valuetext") == "ε = 0.04, meets the preference, 95 % error ± 75"
    assert carol.input_value("#epsilon") == "0.04"
    assert "Approve at ε = 0.04" in read(carol, "#part-verdict")
    carol.keyboard.press("End")
    carol.wait_for_selector("body[data-shown='10']")
    assert carol.is_disabled("#part-verdict button")
    carol.keyboard.press("Home")
    carol.wait_for_selector("body[data-shown='0.001']")
    carol.wait_for_selector("#people >> text=removing one changes count from 3 to 2")
    assert "•••" in carol.inner_text("#people")

    # Another preference finds another ε, and the slider goes there.
    carol.fill("[name=percent]", "90")
    carol.wait_for_selector("body[data-shown='0.1']")
    assert read_line(carol).startswith("Largest ε: 0.1 (exact limit 0.111).")
    assert carol.inner_text("#part-accuracy tr.selected th").startswith("0.1")
    assert carol.get_attribute("#range", "data-selected") == "0.1"

    carol.click("text=Approve at ε = 0.1")
    carol.wait_for_url("**/confirm?*")
    assert "Approve at ε = 0.1?" in read(carol, "h1")
    carol.click("main button.primary")  # without a reason nothing is sent
    carol.fill("[name=reason]", "the stock depends on it")
    carol.click("main button.primary")
    carol.wait_for_selector("text=Answered")
    assert "By carol" in carol.inner_text(".decided")

    anna.wait_for_selector("#status >> text=ε is withheld because it depends on the data.")  # the page found out itself
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
    assert "The odometer reads 0.1" in carol.inner_text("main")
    assert query_id in carol.request.get("/audit").text()


def test_denial_has_one_wording(site: Site, open_page: OpenPage) -> None:
    anna, carol = open_page(site, "anna"), open_page(site, "carol")
    query_id = ask(anna)
    decide(carol, query_id)
    carol.click("text=Deny …")
    carol.fill("[name=reason]", "too few people")
    carol.click("form[action$=deny] button")
    carol.wait_for_url("**/queue?*")
    assert "The analyst anna sees the one fixed wording." in carol.inner_text("[role=status]")
    anna.goto(f"/queries/{query_id}")
    assert DENIED in anna.inner_text("#status")
    assert "too few" not in anna.content()


def test_changes_are_asked_for_in_fixed_phrases(site: Site, open_page: OpenPage) -> None:
    anna, carol = open_page(site, "anna"), open_page(site, "carol")
    query_id = ask(anna)
    decide(carol, query_id)
    carol.click("text=Ask for changes …")
    carol.check("[value=coarser]")
    carol.click("main button.primary")
    carol.wait_for_url("**/queue?*")
    assert "Please group more coarsely." in carol.inner_text("[role=status]")
    anna.goto(f"/queries/{query_id}")
    assert "Please group more coarsely." in anna.inner_text("#status")
    anna.click("text=Revise and ask again")
    assert anna.input_value("#sql") == COUNT


def test_odometer_stops_what_the_preference_would_allow(start_site: Callable[..., Site], open_page: OpenPage) -> None:
    site = start_site(datasets={"clinic": clinic_settings(policy="paper")})
    with site.guest("anna") as analyst, site.guest("carol") as controller:
        first = analyst.ask()
        assert controller.approve(first).status_code == 200
        second = analyst.ask("SELECT COUNT(*) FROM clinic WHERE diagnosis = 'Migraine'")
    carol = open_page(site, "carol")
    decide(carol, second)
    assert read_line(carol) == "Largest ε: none."
    assert "Stopped by the odometer, not by the preference: ε = 0.05 would meet it" in read(carol, "#part-line")
    assert carol.is_disabled("#part-verdict button")
    assert "not available" in carol.inner_text("#part-accuracy")


def test_same_query_again_costs_nothing(site: Site, open_page: OpenPage) -> None:
    with site.guest("anna") as analyst, site.guest("bob") as other, site.guest("carol") as controller:
        first = analyst.ask()
        assert controller.approve(first).status_code == 200
        second = other.ask()
    carol = open_page(site, "carol")
    decide(carol, second)
    carol.click("text=Give the earlier answer")
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
    carol.wait_for_selector("#part-line >> text=No ε meets this preference.")
    text = read(carol, "#part-line")
    assert "The nearest miss is ε = 0.001, with 99.90 %." in text
    assert "3 people prevent it" in text
    assert carol.is_disabled("#part-verdict button")


def test_everybody_is_equally_exposed(site: Site, open_page: OpenPage) -> None:
    with site.guest("anna") as analyst:
        query_id = analyst.ask("SELECT COUNT(*) FROM clinic")
    carol = open_page(site, "carol")
    decide(carol, query_id)
    assert "Everybody is equally exposed, at every ε" in carol.inner_text("#part-line")


def test_own_condition_and_two_groups(site: Site, open_page: OpenPage) -> None:
    with site.guest("anna") as analyst:
        query_id = analyst.ask("SELECT SUM(visits) FROM clinic")
    carol = open_page(site, "carol")
    decide(carol, query_id)
    carol.check("[value=own]")
    carol.fill("[name=text]", "MAX(rdr) <=")
    carol.wait_for_selector("#live-problem:not([hidden])")
    carol.fill("[name=text]", "MEDIAN(rdr) FILTER (WHERE smoker) / MEDIAN(rdr) >= 0.999")
    carol.wait_for_selector("#live-problem", state="hidden")
    carol.wait_for_selector("#part-verdict [data-preference*='smoker']")
    carol.check("[value=medians]")
    carol.select_option("[name=column]", "sex")
    carol.select_option("[name=value]", "Other")
    carol.wait_for_selector("#part-verdict [data-preference*='Other']")
    carol.check("[value=variance]")
    carol.fill("[name=tau]", "0")
    carol.wait_for_selector("#live-problem >> text=The variance must be a positive number.")
    carol.select_option("#by", "sex")
    carol.wait_for_selector("#groups >> text=Other")


def test_scan_shows_progress_and_can_be_cancelled(site: Site, open_page: OpenPage) -> None:
    """A FILTER looks at everybody once more. While the engine is busy the page says so, and follows when it is free."""
    office = site.server.config.app._application.state.office  # type: ignore[union-attr]
    bench = office.desks["clinic"].bench
    free = threading.Event()

    def occupy(_dataset: object, _meter: object) -> None:
        free.wait(120)

    with site.guest("anna") as analyst:
        query_id = analyst.ask("SELECT SUM(visits) FROM clinic")
    carol = open_page(site, "carol")
    decide(carol, query_id)
    carol.wait_for_selector("#people table")
    bench.ask("busy", "busy", occupy, wait=0)
    carol.check("[value=medians]")
    carol.wait_for_selector("#live-computing:not([hidden])")
    carol.focus("#slider")  # the rest of the page goes on
    assert carol.get_attribute("#part-line", "aria-busy") == "true"
    assert carol.is_disabled("#part-verdict button")
    free.set()
    carol.wait_for_selector("#part-verdict [data-preference*='FILTER']")
    carol.wait_for_selector("#live-computing", state="hidden")

    free.clear()
    bench.ask("busy again", "busy", occupy, wait=0)
    carol.select_option("[name=value]", "Other")
    carol.wait_for_selector("#live-computing:not([hidden])")
    with carol.expect_navigation():  # cancelled, and the page starts again
        carol.click("#live-cancel")
    free.set()


def test_unsupported_sql_is_underlined(site: Site, open_page: OpenPage) -> None:
    anna = open_page(site, "anna")
    anna.goto("/ask")
    anna.fill("#sql", "SELECT COUNT(*) FROM clinic WHERE age > 40 GROUP BY MODE(age)")
    anna.wait_for_selector("#check mark")
    assert "MODE" in anna.inner_text("#check mark")
    anna.fill("[name=purpose]", "x")
    anna.click("text=Submit the query")
    assert "This query cannot be answered as it is." in anna.inner_text("form#ask")
    assert "✗" in anna.inner_text("#check")


def test_revealing_is_on_record(site: Site, open_page: OpenPage) -> None:
    with site.guest("anna") as analyst:
        query_id = analyst.ask()
    carol = open_page(site, "carol")
    decide(carol, query_id)
    carol.wait_for_selector("#people >> text=•••")
    carol.click("text=Reveal patient_id, name")
    carol.wait_for_selector("text=This is in the audit log under your name.")
    assert "•••" not in carol.inner_text("#people")
    carol.goto("/audit")
    assert "revealed identities" in carol.inner_text("main")


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
    assert "This query was answered, by carol" in conrad.inner_text("main")
    with Ledger.open(site.settings.database, create=False) as ledger:
        account = ledger.account("clinic")
        assert account is not None
        assert len(account.entries) == 1


def test_sign_out_ends_the_session(site: Site, open_page: OpenPage) -> None:
    anna = open_page(site, "anna")
    anna.click("text=Sign out")
    anna.wait_for_url("**/sign-in")
    anna.goto("/queries")
    assert anna.url.endswith("/sign-in?next=%2Fqueries")


def test_looking_is_a_choice_where_the_promise_depends_on_it(
    start_site: Callable[..., Site], open_page: OpenPage
) -> None:
    site = start_site(
        datasets={"clinic": clinic_settings(algorithm="find-and-release", policy="budget:20", variance=0.01)}
    )
    anna, carol = open_page(site, "anna"), open_page(site, "carol")
    blind, seen = ask(anna), ask(anna, "SELECT COUNT(*) FROM clinic WHERE smoker")
    carol.goto(f"/decide/{blind}")
    assert carol.query_selector("#slider") is None
    carol.click("text=Approve …")
    assert "You decide without having looked at the risk." in carol.inner_text("main")
    carol.fill("[name=reason]", "as agreed")
    carol.click("main button.primary")
    carol.wait_for_selector("text=Answered")
    carol.goto(f"/decide/{seen}")
    carol.click("button:has-text('Look at the risk')")
    carol.wait_for_selector("#range[data-drawn=true]")
    carol.click("#part-verdict button")
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
        for p in ("/ask", "/queries", f"/queries/{decided}", f"/queries/{denied}", f"/queries/{waiting}", "/me")
    ]
    visits += [
        (carol, p) for p in ("/queue", f"/decide/{waiting}", f"/decide/{decided}", "/accounts", "/accounts/clinic")
    ]
    visits += [(carol, f"/decide/{waiting}/{part}") for part in ("confirm?epsilon=0.1", "deny", "changes")]
    visits += [(carol, p) for p in ("/audit", "/settings", "/me", "/nowhere")]
    problems = {}
    for page, path in visits:
        page.goto(path)
        page.wait_for_load_state("networkidle")
        found = Axe().run(page)
        if found.violations_count:
            problems[path] = [(v["id"], v["nodes"][0]["html"]) for v in found.response["violations"]]
        assert page.evaluate("document.documentElement.scrollWidth") <= width, f"{path} is wider than the window"
    assert not problems
    anna.goto(f"/queries/{waiting}")
    anna.click("text=Sign out")
    assert Axe().run(anna).violations_count == 0
