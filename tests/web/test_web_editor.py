"""The editor on the page Ask: what it offers, where it marks mistakes, what it sends, and what it weighs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dosimeter.web.assets import STATIC
from tests.known import known
from tests.web.browsing import OpenPage, expect, find_barriers
from tests.web.web_site import COUNT, Guest, Site, StartSite, clinic_settings, write_dataset

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

MOST_ON_THE_WIRE = 200_000  # bytes
MOST_OF_NAMES = 100_000
RECIPE = Path(__file__).parents[2] / "tools" / "editor"
VIOLATIONS = "document.addEventListener('securitypolicyviolation', (event) => console.error(event.violatedDirective))"


def open_editor(page: Page, path: str = "/ask") -> Locator:
    """Open the page, wait until the names are there, and go into the editor."""
    page.goto(path)
    page.wait_for_selector(".cm-editor[data-names]")
    editor = page.get_by_role("textbox", name="SQL")
    editor.click()
    return editor


def offered(page: Page) -> Locator:
    return page.locator(".cm-tooltip-autocomplete li")


def take(page: Page, *keys: str) -> None:
    """Take what is offered. The editor takes no key for it in the first 75 ms: that was meant for the text."""
    page.wait_for_timeout(100)
    for key in (*keys, "Enter"):
        page.keyboard.press(key)
    expect(offered(page)).to_have_count(0)


# ---------------------------------------------------------------- writing


def test_what_is_typed_is_coloured_checked_and_submitted(site: Site, open_page: OpenPage) -> None:
    page = open_page(site, "anna")
    page.add_init_script(VIOLATIONS)  # an error in the console fails the test
    editor = open_editor(page)
    page.keyboard.type("SELECT COUNT(*)\nFROM clinic WHERE age > 30")
    page.keyboard.press("Escape")
    expect(page.locator("#check .expected")).to_be_visible()
    colours = {word: page.locator(f".cm-content span:text-is('{word}')").first for word in ("SELECT", "COUNT", "30")}
    shown = {word: span.evaluate("span => getComputedStyle(span).color") for word, span in colours.items()}
    assert shown["SELECT"] == shown["COUNT"] != shown["30"]
    assert editor.evaluate("editor => getComputedStyle(editor).color") not in shown.values()
    page.get_by_label("Purpose").fill("a test")
    page.click("text=Submit the query")
    page.wait_for_url("**/queries/*")
    expect(page.locator("main")).to_contain_text("SELECT COUNT(*) FROM clinic WHERE age > 30")


def test_tab_leaves_the_editor_and_its_label_leads_back(site: Site, open_page: OpenPage) -> None:
    page = open_page(site, "anna")
    editor = open_editor(page)
    page.keyboard.type("SELECT c")
    expect(offered(page).first).to_be_visible()
    page.keyboard.press("Tab")
    expect(page.get_by_label("Purpose")).to_be_focused()
    page.keyboard.press("Shift+Tab")
    expect(editor).to_be_focused()
    expect(editor).to_have_text("SELECT c")
    page.get_by_label("Purpose").focus()
    page.click("#sql-label")
    expect(editor).to_be_focused()


def test_an_empty_query_is_not_sent(site: Site, open_page: OpenPage) -> None:
    page = open_page(site, "anna")
    editor = open_editor(page)
    page.get_by_label("Purpose").fill("a test")
    page.click("text=Submit the query")
    expect(editor).to_be_focused()
    expect(page.locator("#check")).to_contain_text("Write a query.")
    assert page.url.endswith("/ask")


def test_examples_and_columns_of_the_schema_go_into_the_editor(site: Site, open_page: OpenPage) -> None:
    page = open_page(site, "anna")
    editor = open_editor(page)
    page.click("text=How many there are")
    expect(editor).to_have_text("SELECT COUNT(*) FROM clinic")
    expect(editor).to_be_focused()
    page.keyboard.press("End")
    page.keyboard.type(" WHERE ")
    page.click("[data-insert=smoker]")
    expect(page.locator("#sql")).to_have_value("SELECT COUNT(*) FROM clinic WHERE smoker")
    expect(page.locator("#check .good")).to_be_visible()
    page.keyboard.press("ControlOrMeta+z")
    expect(page.locator("#sql")).to_have_value("SELECT COUNT(*) FROM clinic WHERE ")
    page.fill("#sql", "")
    page.evaluate("document.querySelector('#sql').maxLength = 20")
    page.keyboard.insert_text("x" * 21)  # as the text box takes no more
    page.keyboard.insert_text("y" * 20)
    expect(page.locator("#sql")).to_have_value("y" * 20)


def test_going_back_finds_what_was_typed(site: Site, open_page: OpenPage) -> None:
    page = open_page(site, "anna")
    open_editor(page)
    page.keyboard.type(COUNT)
    page.keyboard.press("Escape")
    page.goto("/queries")
    page.go_back()
    expect(page.get_by_role("textbox", name="SQL")).to_have_text(COUNT)


# ---------------------------------------------------------------- completing


def test_names_and_values_are_completed_by_keyboard(site: Site, open_page: OpenPage) -> None:
    page = open_page(site, "anna")
    open_editor(page)
    for typed, first in (("SELECT av", "AVG"), ("cost", "cost_eur")):
        page.keyboard.type(typed)
        expect(offered(page).first).to_contain_text(first)
        take(page)
    expect(page.locator("#sql")).to_have_value("SELECT AVG(cost_eur)")
    page.keyboard.press("End")
    page.keyboard.type(" FROM clinic WHERE vis")
    expect(offered(page)).to_have_text([re.compile("visits *integer")])
    expect(page.locator(".cm-completionInfo")).to_have_text("Visits in a year")
    take(page)
    page.keyboard.type(" > 1 AND diagnosis IN ('Asthma', 'dis")
    expect(offered(page)).to_have_text(["Coronary disease", "Wilson disease"])
    take(page, "ArrowDown")
    page.keyboard.type(")")
    written = "SELECT AVG(cost_eur) FROM clinic WHERE visits > 1 AND diagnosis IN ('Asthma', 'Wilson disease')"
    expect(page.locator("#sql")).to_have_value(written)
    expect(page.locator("#check .good")).to_be_visible()


def test_nothing_is_offered_in_comments_other_texts_and_for_whole_words(site: Site, open_page: OpenPage) -> None:
    """So that Enter is Enter."""
    page = open_page(site, "anna")
    open_editor(page)
    for typed in ("-- cl", "SELECT 'cl", "SELECT clinic"):
        page.fill("#sql", "")
        page.keyboard.type(typed)
        page.wait_for_timeout(400)  # longer than the editor waits before it offers anything
        expect(offered(page)).to_have_count(0)
    page.keyboard.press("Enter")
    expect(page.locator("#sql")).to_have_value("SELECT clinic\n")
    page.keyboard.press("Control+Space")  # unless it is asked for
    expect(offered(page).first).to_contain_text("patient_id")


def test_another_dataset_brings_its_own_names(start_site: StartSite, tmp_path: Path, open_page: OpenPage) -> None:
    values = 'type = "category", values = ["O\'Hara", "Ölheizung"]'
    facts = f'individuals = 3\n[columns]\n"who & what" = {{ {values} }}\nheat = {{ {values} }}'
    lines = ["who & what,heat", "O'Hara,Ölheizung"]
    other = write_dataset(tmp_path, "other", lines, facts, algorithm="fixed", policy="budget:9")
    site = start_site(datasets={"clinic": clinic_settings(), "other": other})
    page = open_page(site, "anna")
    open_editor(page)
    page.select_option("[name=dataset]", "other")
    page.wait_for_selector(".cm-editor[data-names=other]")
    page.get_by_role("textbox", name="SQL").click()
    page.keyboard.type("SELECT COUNT(*) FROM oth")
    expect(offered(page)).to_have_count(1)
    take(page)
    for typed in (' WHERE "wh', " = 'har"):
        page.keyboard.type(typed)
        expect(offered(page)).to_have_count(1)
        take(page)
    page.keyboard.type(" AND heat <> 'öl")
    expect(offered(page)).to_have_text(["Ölheizung"])
    take(page)
    written = "SELECT COUNT(*) FROM other WHERE \"who & what\" = 'O''Hara' AND heat <> 'Ölheizung'"
    expect(page.locator("#sql")).to_have_value(written)
    page.keyboard.type(" AND diag")
    page.wait_for_timeout(400)
    expect(offered(page)).to_have_count(0)


def test_names_are_public_facts_of_the_schema_and_few(start_site: StartSite, tmp_path: Path) -> None:
    """A joined table's, too. Descriptions are cut, values come on demand and in part."""
    listed = ", ".join(f'"v{number:05d}"' for number in range(10_000))
    told = f'description = "{"Answer " * 60}"'
    facts = "individuals = 10\n[columns]\n" + "".join(
        f'q{n:03d} = {{ type = "integer", bounds = [0, 4], {told} }}\n' for n in range(348)
    )
    facts += f'code = {{ type = "category", values = [{listed}] }}\n'
    facts += '[tables.prices]\npublic = true\nkey = "item"\nsource = "prices.csv"\n'
    facts += '[tables.prices.columns]\nitem = { type = "category", values = ["tea"] }\n'
    (tmp_path / "prices.csv").write_text("item\ntea\n")
    names = [*(f"q{n:03d}" for n in range(348)), "code"]
    lines = [",".join(names), ",".join([*["1"] * 348, "v00001"])]
    site = start_site(datasets={"wide": write_dataset(tmp_path, "wide", lines, facts, policy="budget:9")})
    with site.guest("anna") as anna:
        answer = anna.get("/ask/names", params={"dataset": "wide"})
        assert len(answer.content) < MOST_OF_NAMES
        tables = answer.json()["tables"]
        assert [(table["name"], len(table["columns"])) for table in tables] == [("wide", 349), ("prices", 1)]
        assert tables[0]["columns"][0]["description"].startswith("Answer Answer")
        assert [column["name"] for table in tables for column in table["columns"] if column["listed"]] == [
            "code",
            "item",
        ]
        found = anna.get("/ask/names/values", params={"dataset": "wide", "column": "code", "text": "V0999"}).json()
        assert found == [f"v0999{digit}" for digit in range(10)]
        assert len(anna.get("/ask/names/values", params={"dataset": "wide", "column": "code"}).json()) == 200
        assert anna.get("/ask/names/values", params={"dataset": "wide", "column": "item"}).json() == ["tea"]
        for column in ("q000", "nothing"):
            assert anna.get("/ask/names/values", params={"dataset": "wide", "column": column}).status_code == 404
        assert anna.get("/ask/names", params={"dataset": "nowhere"}).status_code == 404


# ---------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("sql", "marked"),
    [
        ("SELECT AVG(age) FROM clinic WHERE age", ("age", 34)),  # not the first of them
        ("SELECT AVG(age)\r\nFROM clinic\r\nWHERE agee > 3", ("agee", 34)),
        ("SELECT AVG(age) FROM clinic WHERE (age = 3", ("3", 41)),
        ("SELECT 3 + COUNT(*) FROM clinic WHERE 3 = = 3", ("=", 42)),
        ("SELECT COUNT(*) FROM clinic WHERE sex = 'F' AND sex = 'M", ("'", 54)),
        ('SELECT COUNT(*) FROM clinic WHERE "sex = 1', ('"', 34)),
        ("SELECT COUNT(*) FROM clinic /* all", ("/*", 28)),
        ("SELECT MAX(age) FROM clinic WHERE UPPER( age ) = 'A'", ("UPPER( age )", 34)),
        ("SELECT 1; SELECT 2", None),
    ],
)
def test_a_mistake_has_its_place(anna: Guest, sql: str, marked: tuple[str, int] | None) -> None:
    """As a program counts in a text whose lines end in one character."""
    told = anna.act("/ask/check", dataset="clinic", sql=sql).text
    place = re.search(r'data-from="(\d+)" data-to="(\d+)"', told)
    assert 'class="bad"' in told
    if marked is None:
        assert place is None
    else:
        start, end = (int(at) for at in known(place).groups())
        text = sql.replace("\r\n", "\n")
        assert (text[start:end], start) == marked


def test_programs_learn_the_place_too(site: Site) -> None:
    with site.api() as api:
        told = api.post("/check", json={"dataset": "clinic", "sql": "SELECT SUM(agee) FROM clinic"}).json()
        assert (told["clause"], told["place"]) == ("agee", [11, 15])
        assert api.post("/check", json={"dataset": "clinic", "sql": COUNT}).json()["place"] is None


def test_a_mistake_is_underlined_until_it_is_mended(site: Site, open_page: OpenPage) -> None:
    page = open_page(site, "anna")
    editor = open_editor(page)
    mark = page.locator(".cm-content mark")
    page.fill("#sql", "SELECT AVG(age) /* 😀 */ FROM clinic WHERE age")
    expect(mark).to_have_text("age")
    expect(mark).to_have_attribute("title", re.compile("age is not a condition"))
    assert mark.evaluate("mark => getComputedStyle(mark).textDecorationStyle") == "wavy"
    before = mark.evaluate("mark => mark.previousSibling.textContent + mark.parentNode.textContent.slice(0, 10)")
    assert before.endswith("SELECT AVG")
    assert mark.evaluate("mark => mark.nextSibling") is None  # the last word, not the first
    expect(editor).to_have_attribute("aria-invalid", "true")
    expect(page.locator("#check .bad p")).to_contain_text("age is not a condition")
    expect(page.locator("#check pre")).to_be_hidden()  # it would say the same again
    page.keyboard.press("End")
    page.keyboard.type(" > 30")
    page.keyboard.press("Escape")
    expect(mark).to_have_count(0)
    expect(editor).to_have_attribute("aria-invalid", "false")
    page.fill("#sql", "SELECT 1; SELECT 2")
    expect(page.locator("#check .bad p")).to_contain_text("one SELECT")
    expect(mark).to_have_count(0)


def test_a_page_with_a_mistake_opens_with_its_mark(site: Site, open_page: OpenPage) -> None:
    page = open_page(site, "anna")
    open_editor(page)
    page.fill("#sql", "SELECT AVG(age)\nFROM clinic\nWHERE agee > 3")
    page.get_by_label("Purpose").fill("a test")
    page.click("text=Submit the query")
    expect(page.locator(".problem")).to_contain_text("cannot be answered as it is")
    expect(page.locator(".cm-content mark")).to_have_text("agee")


# ---------------------------------------------------------------- without it, and for everybody


def test_without_scripts_there_is_the_text_box(site: Site, open_page: OpenPage) -> None:
    page = open_page(site, "anna", java_script_enabled=False)
    page.goto("/ask")
    box = page.get_by_label("SQL")
    assert box.evaluate("box => box.tagName") == "TEXTAREA"
    box.fill("SELECT COUNT(*)\nFROM clinic WHERE agee")
    page.get_by_label("Purpose").fill("a test")
    page.click("text=Submit the query")
    expect(page.locator("#check mark")).to_have_text("agee")
    page.get_by_label("SQL").fill(COUNT)
    page.click("text=Submit the query")
    page.wait_for_url("**/queries/*")


def test_the_open_list_keeps_nobody_out(site: Site, open_page: OpenPage) -> None:
    page = open_page(site, "anna")
    open_editor(page)
    page.fill("#sql", "SELECT AVG(age) FROM clinic WHERE age")
    expect(page.locator(".cm-content mark")).to_be_visible()
    page.keyboard.press("End")
    page.keyboard.type(" AND c")
    expect(offered(page).first).to_be_visible()
    assert not find_barriers(page)


# ---------------------------------------------------------------- what it weighs


def test_it_is_loaded_on_this_page_alone_and_is_light(site: Site, open_page: OpenPage) -> None:
    page = open_page(site, "anna")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    for path in ("/queries", "/answers", "/me", "/queries"):
        page.goto(path)
    assert not [url for url in asked if "editor" in url or "codemirror" in url]
    open_editor(page)
    assert {url.partition("/static/")[0] for url in asked if "/static/" in url} == {site.url}
    parts = [url for url in asked if "editor" in url or "codemirror" in url]
    assert len(parts) == len(set(parts)) == 3
    with site.guest() as guest:
        sent = 0
        for url in parts:
            with guest.stream("GET", url, headers={"Accept-Encoding": "gzip"}) as response:
                sent += len(b"".join(response.iter_raw()))
    assert 50_000 < sent <= MOST_ON_THE_WIRE


def test_the_bundle_comes_with_its_licences_and_from_exact_versions() -> None:
    notice = (STATIC / "vendor" / "codemirror-LICENSE.txt").read_text(encoding="utf-8")
    told = dict(re.findall(r"^(\S+) (\d\S+) \(MIT\)$", notice, flags=re.MULTILINE))
    locked = json.loads((RECIPE / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    wanted = json.loads((RECIPE / "package.json").read_text(encoding="utf-8"))["dependencies"]
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in wanted.values())
    assert set(wanted) - {"esbuild"} <= set(told)
    assert told == {name: locked[f"node_modules/{name}"]["version"] for name in told}
    assert all("integrity" in facts and "resolved" not in facts for name, facts in locked.items() if name)
    assert notice.count("Permission is hereby granted") == notice.count("Copyright (C)") == 5
