"""No command writes over a file that it reads: nothing is measured, charged or written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cli.command_line import check_refusal
from tests.cli.small_shop import COUNT, Shop
from tests.small_tables import SHOP_SCHEMA as SCHEMA

OPENED = ("--epsilon", "0.5", "--policy", "budget:9")
JOINED = """
[tables.cities]
source = "cities.csv"
public = true
key = "city"
columns.city = { type = "category", values = ["Bern", "Rome", "Ulm"] }
"""


def read_all(folder: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in folder.iterdir() if each.is_file()}


@pytest.mark.parametrize("name", ["shop.csv", "link.csv", "hard.csv", "cities.csv", "facts.csv", "ledger.csv"])
def test_a_release_is_not_written_over_what_it_reads(shop: Shop, name: str) -> None:
    folder = shop.data.parent
    (folder / "cities.csv").write_text("city\nBern\nRome\n")
    shop.schema = folder / "facts.json"  # the companion of facts.csv
    shop.schema.write_text(SCHEMA + JOINED)
    shop.ledger = folder / "ledger.csv"  # it does not exist yet
    (folder / "link.csv").symlink_to(shop.data)
    os.link(shop.data, folder / "hard.csv")
    before = read_all(folder)
    check_refusal(shop.release(COUNT, *OPENED, "-o", str(folder / name)), "would be overwritten. Choose another name")
    assert read_all(folder) == before
    assert shop.release(COUNT, *OPENED, "-o", str(folder / "answer.csv")).status == 0
    assert (folder / "answer.csv").read_text().startswith('"n"')


def test_no_other_command_writes_over_what_it_reads(shop: Shop, tmp_path: Path) -> None:
    assert shop.release(COUNT, *OPENED).status == 0
    data, schema, ledger = (str(each) for each in (shop.data, shop.schema, shop.ledger))
    (tmp_path / "page.html").symlink_to(shop.ledger)
    (tmp_path / "picture.svg").symlink_to(shop.schema)
    (tmp_path / "query.svg").write_text(COUNT)
    page, picture, query = (str(tmp_path / name) for name in ("page.html", "picture.svg", "query.svg"))
    before = read_all(tmp_path)
    with_schema = ("--schema", schema)
    find = ("find", data, "@" + query, "--prefer", "ratio:0.9", *with_schema)
    for words in (
        ("risk", data, COUNT, "-o", data),
        ("risk", data, COUNT, *with_schema, "--plot", picture),
        (*find, "--plot", picture),
        (*find, "--plot", query),
        (*find, "--ledger", ledger, "--plot", page),
        ("schema", data, "-o", data, "--force"),
        ("ledger", ledger, "export", "-o", ledger),
        ("ledger", ledger, "--plot", page),
        ("record", "0", "--ledger", ledger, "-o", page),
    ):
        check_refusal(shop.run(*words), "would be overwritten")
        assert {name: content for name, content in read_all(tmp_path).items() if name in before} == before, words
