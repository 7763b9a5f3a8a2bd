"""The study from end to end in a real Chromium: by keyboard, without scripts, narrow and dark, and accessible."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from study.study_site import LiveServer, StudySite

pytest.importorskip("playwright.sync_api", reason="there is no driver for a browser: pip install playwright")

from playwright.sync_api import expect

from dosimeter_paper.study import texts

if TYPE_CHECKING:
    from playwright.sync_api import Page

Serve = Callable[[Any], LiveServer]
OpenStudy = Callable[..., "Page"]
FIRST, SECOND = (texts.TASK_TITLE.format(place=place) for place in (1, 2))
CHOOSE = "main form.choice button"


@pytest.fixture
def open_study(new_page: Callable[..., Page]) -> OpenStudy:
    """Open the first page of a study."""

    def open_it(url: str, **options: Any) -> Page:
        page = new_page(base_url=url, **options)
        page.goto("/")
        return page

    return open_it


def go_on(page: Page, *titles: str, button: str = "main button") -> str:
    """Click the page's button, and wait for the page with one of these titles; return its title."""
    page.click(button)
    expect(page.locator("h1")).to_have_text(re.compile("|".join(f"^{re.escape(title)}$" for title in titles)))
    page.wait_for_load_state()  # its script has run, and its pictures are there
    return page.locator("h1").inner_text()


def take_quiz(page: Page) -> None:
    for place, question in enumerate(texts.QUIZ, start=1):
        page.check(f"[name=q{place}][value={question.right}]")


def reach_task(page: Page) -> None:
    page.check("[name=consent]")
    go_on(page, texts.KNOWLEDGE_TITLE)
    page.check("[name=knowledge][value=no]")
    go_on(page, texts.TUTORIAL_TITLE)
    go_on(page, texts.QUIZ_TITLE)
    take_quiz(page)
    go_on(page, texts.BRIEFING_TITLE)
    go_on(page, FIRST)


def test_whole_study_in_a_browser(site: StudySite, serve_live: Serve, open_study: OpenStudy) -> None:
    """Six participants: both orders of every group. The slider is used by keyboard and by mouse."""
    page, followed_up = open_study(serve_live(site.app).url), 0
    for _ in range(6):
        page.context.clear_cookies()  # somebody else sits down
        page.goto("/")
        reach_task(page)
        slider, output = page.locator("input[type=range]"), page.locator("output")
        page.click(CHOOSE)  # nothing chosen yet: nothing is sent
        expect(output).to_have_text(texts.CHOICE_MISSING)
        slider.focus()
        page.keyboard.press("Home")
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowRight")
        expect(output).to_have_text("ε = 1.5")
        expect(slider).to_have_attribute("aria-valuetext", "ε = 1.5")
        for picture in page.locator("figure img").all():
            expect(picture).to_have_js_property("complete", True)
            assert picture.evaluate("image => image.naturalWidth") > 0
        go_on(page, SECOND, button=CHOOSE)
        box = slider.bounding_box()
        assert box is not None
        slider.click(position={"x": box["width"] - 2, "y": box["height"] / 2})
        expect(output).to_have_text("ε = 5.0")
        if go_on(page, texts.FOLLOW_UP_TITLE, texts.DONE_TITLE, button=CHOOSE) == texts.FOLLOW_UP_TITLE:
            followed_up += 1
            page.check("[name=used][value=yes]")
            go_on(page, texts.DONE_TITLE)
        page.go_back()
        page.goto("/")
        expect(page.locator("h1")).to_have_text(texts.OVER_TITLE)
    answers = site.store.list_answers()
    assert sorted(str(a.group) for a in answers) == sorted(["control", "range", "histogram"] * 2)
    assert followed_up == 4  # whoever saw a picture is asked about it
    for answer in answers:
        assert (answer.epsilon_q1, answer.epsilon_q2) == ((1.5, 5.0) if answer.first_query == "q1" else (5.0, 1.5))


def test_without_scripts_a_list_takes_the_place_of_the_slider(
    site: StudySite, serve_live: Serve, open_study: OpenStudy
) -> None:
    page = open_study(serve_live(site.app).url, java_script_enabled=False)
    reach_task(page)
    expect(page.locator("select")).to_be_visible()
    expect(page.locator("input[type=range]")).to_be_hidden()
    page.select_option("select", "3.5")
    go_on(page, SECOND, button=CHOOSE)
    page.select_option("select", "0.5")
    go_on(page, texts.FOLLOW_UP_TITLE, texts.DONE_TITLE, button=CHOOSE)
    (answer,) = site.store.list_answers()
    assert {answer.epsilon_q1, answer.epsilon_q2} == {3.5, 0.5}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_are_accessible_and_fit_a_narrow_window(
    start_study: Callable[..., StudySite], serve_live: Serve, open_study: OpenStudy, scheme: str
) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="pip install axe-playwright-python").Axe()
    site = start_study(groups=("histogram" if scheme == "dark" else "range",))
    options = {"viewport": {"width": 360, "height": 740}, "color_scheme": scheme}
    page = open_study(serve_live(site.app).url, bypass_csp=True, **options)

    def check() -> None:
        title = page.locator("h1").inner_text()
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= 360, f"{title}: {width} wide"
        violations = axe.run(page).response["violations"]
        assert not [(v["id"], [node["target"] for node in v["nodes"]]) for v in violations], title

    check()
    page.check("[name=consent]")
    go_on(page, texts.KNOWLEDGE_TITLE)
    check()
    page.check("[name=knowledge][value=yes]")
    go_on(page, texts.TUTORIAL_TITLE)
    check()
    go_on(page, texts.QUIZ_TITLE)
    check()
    take_quiz(page)
    go_on(page, texts.BRIEFING_TITLE)
    check()
    go_on(page, FIRST)
    page.click("summary")
    check()
