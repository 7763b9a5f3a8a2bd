"""`dosimeter record` and `release -o`: a page and files about one answer, with nothing private in them."""

from __future__ import annotations

import json
import re

from tests.cli.command_line import check_refusal
from tests.cli.small_shop import COUNT, Shop

SQL = "SELECT city, COUNT(*) AS n, AVG(paid) AS mean FROM shop WHERE city <> '<b>' GROUP BY city"


def record(shop: Shop, *options: str) -> str:
    entry = shop.accounts()[0]["entries"][-1]["id"]
    path = shop.directory / "record.html"
    status, out, err = shop.run("record", entry, "--ledger", str(shop.ledger), "-o", str(path), *options)
    assert (status, out, err) == (0, "", f"Wrote {path}.\n")
    return path.read_text(encoding="utf-8")


def test_the_record_of_an_answer(shop: Shop) -> None:
    options = ("--epsilon", "0.5", "--policy", "budget:7", "--analyst", "Ada", "--purpose", "year <report>", "--json")
    _, out, _ = shop.release(SQL, *options)
    answer = json.loads(out)
    page = record(shop)
    for text in ("Ada", "year &lt;report&gt;", "city &lt;&gt; &#x27;&lt;b&gt;&#x27;", "0.5-differentially private"):
        assert text in page
    assert all(fact.replace("'", "&#x27;") in page for fact in answer["about"])
    assert f"{answer['answer'][0]['n']:,} ± {answer['errors'][0]['n']:g}" in page
    status, out, _ = shop.run("ledger", str(shop.ledger), "verify", "--json")
    assert (status, json.loads(out)["head"] in page) == (0, True)
    assert not re.search(r"<script|https?://|src=|@import|url\(", page)
    assert "budget:7" not in page
    assert "For the controller only" not in page
    private = record(shop, "--controller")
    assert "budget:7" in private
    assert "For the controller only" in private


def test_the_record_withholds_what_algorithm_1_does(shop: Shop) -> None:
    shop.release(COUNT, "--prefer", "ratio:0.5", "--policy", "paper", "--candidates", "0.4375")
    page, private = record(shop), record(shop, "--controller")
    assert "0.4375" not in page
    assert "±" not in page.split("After")[0]
    assert "MIN(rdr) / MAX(rdr) &gt;= 0.5" in page
    assert "0.4375" in private


def test_the_beginning_of_an_id_names_its_entry(shop: Shop) -> None:
    for at in range(18):  # more than there are digits: two ids begin alike
        shop.release(f"SELECT COUNT(*) + {at} AS n FROM shop", "--epsilon", "0.01", "--policy", "budget:9")
    ids = [entry["id"] for entry in shop.accounts()[0]["entries"]]
    path = shop.directory / "record.html"
    shared = 0
    for name in ids:
        for length in (1, 4, 15) if name == ids[0] else (1,):
            alike = [each for each in ids if each.startswith(name[:length])]
            status, _, err = shop.run("record", name[:length], "--ledger", str(shop.ledger), "-o", str(path))
            assert status == (0 if alike == [name] else 2), err
            if status == 0:
                assert f"<code>{name}</code>" in path.read_text(encoding="utf-8")
            else:
                assert f"has several entries that begin with {name[:length]}." in err
            shared += len(alike) > 1
    assert shared >= 2


def test_what_cannot_be_recorded_is_said(shop: Shop) -> None:
    shop.release(COUNT, "--epsilon", "0.5", "--policy", "paper")
    for name, says in (("record.html", "The ledger has no entry nothing."), ("record.pdf", "Change the ending")):
        check_refusal(shop.run("record", "nothing", "-o", name, "--ledger", shop.ledger), says)


def test_a_denial_is_recorded_for_the_controller_alone(shop: Shop) -> None:
    shop.release(COUNT, "--epsilon", "0.5", "--policy", "budget:1")
    shop.release("SELECT SUM(paid) FROM shop", "--epsilon", "0.9")
    entry = shop.accounts()[0]["entries"][-1]
    path = shop.directory / "record.html"
    check_refusal(shop.run("record", entry["id"], "--ledger", shop.ledger, "-o", path), "--controller")
    assert not path.exists()
    assert "budget" in record(shop, "--controller")


def test_a_released_table_and_its_companion(shop: Shop) -> None:
    path = shop.directory / "answer.csv"
    path.write_text("an older answer")
    status, out, err = shop.release(COUNT, "--epsilon", "0.5", "--policy", "paper", "--json", "-o", str(path))
    answer = json.loads(out)
    assert (status, err) == (0, f"Wrote {path}.\nWrote {path.with_suffix('.json')}.\n")
    assert path.read_text(encoding="utf-8").split() == ['"n"', str(answer["answer"][0]["n"])]
    document = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    assert document.items() >= answer.items()
    assert document["entry"] == shop.accounts()[0]["entries"][0]["id"]


def test_a_table_that_cannot_be_written_is_refused_before_anything_is_charged(shop: Shop) -> None:
    for name, words in (("answer.xlsx", "Change the ending"), ("nowhere/answer.csv", "cannot be written")):
        path = str(shop.directory / name)
        check_refusal(shop.release(COUNT, "--epsilon", "0.5", "--policy", "paper", "-o", path), words)
    assert not shop.ledger.exists() or not shop.accounts()
