"""The study from end to end in a real Chromium: by keyboard, without scripts, narrow and dark, and accessible."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from study_site import LiveServer, StudySite

from dosimeter.experiment import texts

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

Serve = Callable[[Any], LiveServer]


def open_study(browser: Browser, url: str, complaints: list[str], **options: Any) -> Page:
    page = browser.new_context(base_url=url, **options).new_page()
    page.set_default_timeout(60_000)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.goto("/")
    return page


def reach_task(page: Page) -> None:
    page.check("[name=consent]")
    page.click("main button")
    page.check("[name=knowledge][value=no]")
    page.click("main button")
    page.click("main button")
    for place, question in enumerate(texts.QUIZ, start=1):
        page.check(f"[name=q{place}][value={question.right}]")
    page.click("main button")
    page.click("main button")
    page.wait_for_selector("form.choice")


def test_whole_study_in_a_browser(site: StudySite, serve_live: Serve, chromium: Browser) -> None:
    """Six participants: both orders of every group. The slider is used by keyboard and by mouse."""
    server, complaints = serve_live(site.app), []
    for _ in range(6):
        page = open_study(chromium, server.url, complaints)
        reach_task(page)
        slider = page.locator("input[type=range]")
        page.click("main form.choice button")  # nothing chosen yet: nothing is sent
        assert page.locator("output").inner_text() == texts.CHOICE_MISSING
        slider.focus()
        page.keyboard.press("Home")
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowRight")
        assert page.locator("output").inner_text() == "ε = 1.5"
        assert slider.get_attribute("aria-valuetext") == "ε = 1.5"
        page.wait_for_load_state()
        for picture in page.locator("figure img").all():
            assert picture.evaluate("image => image.complete && image.naturalWidth > 0")
        page.click("main form.choice button")
        page.wait_for_url("/")
        assert page.locator("h1").inner_text() == "Query 2 of 2"
        slider = page.locator("input[type=range]")
        box = slider.bounding_box()
        assert box is not None
        slider.click(position={"x": box["width"] - 2, "y": box["height"] / 2})
        assert page.locator("output").inner_text() == "ε = 5.0"
        page.click("main form.choice button")
        if page.locator("[name=used]").count():
            page.check("[name=used][value=yes]")
            page.click("main button")
        assert page.locator("h1").inner_text() == texts.DONE_TITLE
        page.go_back()
        page.goto("/")
        assert page.locator("h1").inner_text() == texts.OVER_TITLE
        page.context.close()
    answers = site.store.list_answers()
    assert sorted(str(a.group) for a in answers) == sorted(["control", "range", "histogram"] * 2)
    for answer in answers:
        assert (answer.epsilon_q1, answer.epsilon_q2) == ((1.5, 5.0) if answer.first_query == "q1" else (5.0, 1.5))
    assert not complaints


def test_without_scripts_a_list_takes_the_place_of_the_slider(
    site: StudySite, serve_live: Serve, chromium: Browser
) -> None:
    complaints: list[str] = []
    page = open_study(chromium, serve_live(site.app).url, complaints, java_script_enabled=False)
    reach_task(page)
    assert not page.locator("input[type=range]").is_visible()
    page.select_option("select", "3.5")
    page.click("main form.choice button")
    page.select_option("select", "0.5")
    page.click("main form.choice button")
    (answer,) = site.store.list_answers()
    assert {answer.epsilon_q1, answer.epsilon_q2} == {3.5, 0.5}
    page.context.close()
    assert not complaints


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_are_accessible_and_fit_a_narrow_window(
    start_study: Callable[..., StudySite], serve_live: Serve, chromium: Browser, scheme: str
) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="pip install axe-playwright-python").Axe()
    site = start_study(groups=("histogram" if scheme == "dark" else "range",))
    complaints: list[str] = []
    options = {"viewport": {"width": 360, "height": 740}, "color_scheme": scheme}
    page = open_study(chromium, serve_live(site.app).url, complaints, bypass_csp=True, **options)

    def check() -> None:
        page.wait_for_load_state()
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= 360, f"{page.locator('h1').inner_text()}: {width} wide"
        violations = axe.run(page).response["violations"]
        assert not [(v["id"], [node["target"] for node in v["nodes"]]) for v in violations]

    check()
    page.check("[name=consent]")
    page.click("main button")
    check()
    page.check("[name=knowledge][value=yes]")
    page.click("main button")
    check()
    page.click("main button")
    check()
    for place, question in enumerate(texts.QUIZ, start=1):
        page.check(f"[name=q{place}][value={question.right}]")
    page.click("main button")
    check()
    page.click("main button")
    page.wait_for_selector("form.choice")
    page.click("summary")
    check()
    page.context.close()
    assert not complaints
