"""What browser tests do on the pages: ask, open a decision, and wait for what it shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import pytest

from tests.web.web_site import COUNT

pytest.importorskip("playwright.sync_api", reason="there is no driver for a browser: pip install playwright")

from playwright.sync_api import expect as expect  # for the tests, which import it from here

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page, ViewportSize

OpenPage = Callable[..., "Page"]


def ask(page: Page, sql: str = COUNT, purpose: str = "a test") -> str:
    """Submit a query as an analyst does; return its id."""
    page.goto("/ask")
    page.fill("#sql", sql)
    expect(page.locator("#check .good")).to_be_visible()
    page.fill("[name=purpose]", purpose)
    page.click("text=Submit the query")
    page.wait_for_url("**/queries/*")
    return page.url.rsplit("/", 1)[1]


def decide(page: Page, query_id: str) -> None:
    """Open the page on which a query is decided."""
    page.goto(f"/decide/{query_id}")
    wait_for_decision(page)


def wait_for_decision(page: Page) -> None:
    """Return once a decision's page listens."""
    page.wait_for_selector("body[data-shown]")


def wait_for_epsilon(page: Page, epsilon: str) -> None:
    """Return once everything on the page is about this ε."""
    page.wait_for_selector(f"body[data-shown='{epsilon}']")
    page.wait_for_selector("#part-line:not([aria-busy])")


def wait_for_approval(page: Page) -> None:
    """Return once what stands on the page can be approved."""
    page.wait_for_selector("#part-verdict:not([aria-busy]) .primary:enabled")


def wait_for_rest(page: Page) -> None:
    """Return once nothing is loading, and nothing is faded because it is out of date."""
    page.wait_for_load_state("networkidle")
    expect(page.locator("[aria-busy=true]")).to_have_count(0)
    expect(page.locator(".htmx-request")).to_have_count(0)


WIDE: ViewportSize = {"width": 1200, "height": 800}
NARROW: ViewportSize = {"width": 360, "height": 800}
# What another colour or width can break. Names, roles and the order of headings are the same on every screen.
LOOKS = {"runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block", "scrollable-region-focusable"]}}


def find_barriers(page: Page) -> list[str]:
    """Return what keeps people out of the page that is open: on a wide and light screen, and on a narrow dark one."""
    from axe_playwright_python.sync_playwright import Axe

    found = []
    looks: list[tuple[Literal["light", "dark"], ViewportSize, dict[str, Any] | None]]
    looks = [("light", WIDE, None), ("dark", NARROW, LOOKS)]
    for scheme, size, options in looks:
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        page.set_viewport_size(size)
        wait_for_rest(page)
        violations = Axe().run(page, options=options).response["violations"]
        found += [f"{scheme}: {each['id']}: {each['nodes'][0]['html']}" for each in violations]
        if page.evaluate("document.documentElement.scrollWidth") > size["width"]:
            found.append(f"wider than {size['width']}")
    return found


def approve_button(page: Page) -> Locator:
    return page.locator("#part-verdict .primary")


def read_line(page: Page) -> Locator:
    """What is said of the preference: which ε it finds, or why none, and remarks."""
    return page.locator("#part-line")


def unfold(page: Page, part: str) -> None:
    """Open a part of the decision page that is shown on demand."""
    page.click(f"#{part} > summary")
