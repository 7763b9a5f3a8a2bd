"""``paper all``: every file is written, and the page stands alone."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dosimeter.errors import OptionError
from dosimeter_paper.reproduction.figures import write_file
from dosimeter_paper.reproduction.report import write_csv
from reproduction.paper_command import Paper

if TYPE_CHECKING:
    from playwright.sync_api import Browser


class Links(HTMLParser):
    """Collects tags, and whatever a browser would load."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.loaded: list[str] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.loaded += [value or "" for name, value in attrs if name in {"src", "href", "srcset", "data", "action"}]
        self.texts += [value or "" for name, value in attrs if name == "alt"]

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_everything_on_one_page(paper: Paper, adult_train: Path, tmp_path: Path, chromium: Browser) -> None:
    out = tmp_path / "new" / "out"
    ended = paper("all", "-o", out, "--data", adult_train, "--up-to", 300, "--runs", 1, "--limit", 5, "--json")
    assert ended.status == 0
    names = {f"{study}.{kind}" for study in ("thresholds", "variance", "scalability") for kind in ("csv", "svg", "png")}
    assert {path.name for path in out.iterdir()} == names | {"example.csv", "report.html"}
    document = ended.document
    assert document["thresholds"]["reproduced"] == 50
    assert len(document["differences"]) >= 18
    assert document["versions"]["python"].count(".") == 2

    page = (out / "report.html").read_text(encoding="utf-8")
    links = Links()
    links.feed(page)
    assert "script" not in links.tags
    assert links.tags.count("img") == 3
    assert all(address.startswith("data:image/png;base64,") for address in links.loaded)
    assert not re.search(r"url\(|@import", page)
    text = " ".join(links.texts)
    assert "50 of 50 cells" in text
    for version in document["versions"].values():
        assert version in text
    assert document["machine"]["system"] in text
    open_offline(chromium, out / "report.html")


def open_offline(browser: Browser, page: Path) -> None:
    """In a real browser without a network: no complaint, no request beyond the page itself, every picture shows."""
    context = browser.new_context(offline=True)
    shown = context.new_page()
    complaints: list[str] = []
    asked: list[str] = []
    shown.on("console", lambda message: complaints.append(message.text))
    shown.on("pageerror", lambda error: complaints.append(str(error)))
    shown.on("request", lambda request: asked.append(request.url))
    shown.goto(page.as_uri())
    widths = shown.eval_on_selector_all("img", "images => images.map(image => image.naturalWidth)")
    context.close()
    assert complaints == []
    assert [address for address in asked if not address.startswith("data:")] == [page.as_uri()]
    assert len(widths) == 3
    assert all(width > 500 for width in widths)


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OptionError, match="cannot be written"):
        write_file(tmp_path / "file" / "x.csv", b"")


def test_csv_joins_lists() -> None:
    assert write_csv([{"a": 1, "b": ["x", "y"]}, {"a": None, "b": []}]) == b"a,b\n1,x y\n,\n"
