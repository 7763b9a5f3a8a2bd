"""Take the pictures of the web application's main pages for docs/images/: a demonstration server, a real Chromium.

Needs the extra ``web``, Playwright for Python, and Chromium (Debian: apt-get install chromium).
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn
from playwright.sync_api import Browser, Page, ViewportSize, expect, sync_playwright

from dosimeter.web.app import make_app
from dosimeter.web.demo import DemoSettings, prepare_demo

TARGET = Path(__file__).parents[1] / "docs" / "images"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-dev-shm-usage"]
PORT = 8791


@contextmanager
def run_demo(folder: Path) -> Iterator[DemoSettings]:
    demonstration = prepare_demo(folder, port=PORT, algorithm="find")
    server = uvicorn.Server(uvicorn.Config(make_app(demonstration.settings), port=PORT, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        if not thread.is_alive():
            raise SystemExit(f"The server does not start on port {PORT}. Is it in use?")
        time.sleep(0.05)
    try:
        yield demonstration
    finally:
        server.should_exit = True
        thread.join()


def sign_in(browser: Browser, demonstration: DemoSettings, name: str, **options: object) -> Page:
    password = {user: word for user, _, word in demonstration.sign_ins}[name]
    page = browser.new_context(base_url=f"http://127.0.0.1:{PORT}", **options).new_page()  # type: ignore[arg-type]
    page.goto("/sign-in")
    page.fill("[name=name]", name)
    page.fill("[name=password]", password)
    page.click("main button")
    page.wait_for_url(lambda url: "sign-in" not in url)
    return page


def settle(page: Page) -> None:
    """Wait until nothing is loading."""
    page.wait_for_load_state("networkidle")
    expect(page.locator(".htmx-request")).to_have_count(0, timeout=300_000)


def take(page: Page, folder: Path, name: str, *, height: int | None = None) -> None:
    settle(page)
    clip = None
    if height is not None:
        size = page.viewport_size or {"width": 1200}
        clip = {"x": 0, "y": 0, "width": size["width"], "height": height}
    page.screenshot(path=folder / f"{name}.png", full_page=True, clip=clip)  # type: ignore[arg-type]
    print(folder / f"{name}.png")


def take_all(folder: Path, *, everything: bool) -> None:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        raise SystemExit("There is no chromium. On Debian: apt-get install chromium")
    with tempfile.TemporaryDirectory() as place, run_demo(Path(place)) as demo, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        size: ViewportSize = {"width": 1120, "height": 800}
        wide = {"viewport": size}
        carol, anna = sign_in(browser, demo, "carol", **wide), sign_in(browser, demo, "anna", **wide)
        carol.goto("/settings")
        carol.check("[name=standard][value=own]")  # the rare disease of the pictures meets no preset
        carol.click("main button.primary")
        carol.goto("/queue")
        anna.fill("#sql", "SELECT diagnosis, MODE(age) FROM clinic WHERE smoker GROUP BY diagnosis")
        anna.wait_for_selector(".cm-content mark")
        take(anna, folder, "web-ask")
        take(carol, folder, "web-queue")
        carol.click("text=Wilson disease")
        carol.wait_for_selector("#range")
        carol.set_viewport_size({"width": 1400, "height": 900})
        take(carol, folder, "web-decision", height=None if everything else 900)
        carol.set_viewport_size(size)
        if everything:
            take_variants(browser, demo, carol.url, folder)
        carol.click("text=Approve at ε")
        carol.fill("[name=reason]", "The stock of a rare medicine depends on it")
        take(carol, folder, "web-confirm")
        carol.click("main button.primary")
        carol.wait_for_selector(".decided >> text=Answered")
        carol.goto("/queue")
        carol.click("text=Seal Island")
        carol.wait_for_selector("#range")
        settle(carol)
        carol.click("text=Approve at ε")
        carol.fill("[name=reason]", "Yearly report")
        carol.click("main button.primary")
        carol.wait_for_selector(".decided >> text=Answered")
        carol.goto("/accounts/clinic")
        carol.wait_for_selector("text=Person by person")
        take(carol, folder, "web-account")
        anna.goto("/queries")
        if everything:
            take(anna, folder, "web-queries")
        anna.click("text=Wilson disease")
        anna.wait_for_url("**/queries/*")
        take(anna, folder, "web-answer")
        if everything:
            for name, page, address in (
                ("audit", carol, "/audit"),
                ("settings", carol, "/settings"),
                ("me", anna, "/me"),
            ):
                page.goto(address)
                take(page, folder, f"web-{name}")
        browser.close()


def take_variants(browser: Browser, demo: DemoSettings, url: str, folder: Path) -> None:
    """Take the decision page in dark mode and on a telephone: for checking, not for the documentation."""
    dark = sign_in(browser, demo, "carol", viewport={"width": 1400, "height": 900}, color_scheme="dark")
    dark.goto(url)
    take(dark, folder, "web-decision-dark")
    small = sign_in(browser, demo, "carol", viewport={"width": 360, "height": 740})
    small.goto(url)
    take(small, folder, "web-decision-small")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, default=TARGET)
    parser.add_argument("--everything", action="store_true", help="also dark, small and minor pages, to look at")
    chosen = parser.parse_args()
    chosen.output.mkdir(parents=True, exist_ok=True)
    take_all(chosen.output, everything=chosen.everything)


if __name__ == "__main__":
    main()
