"""`dosimeter ledger`, and looking with a ledger: what people read, verify, export, plot. Its JSON is recorded."""

from __future__ import annotations

import html
import json

import pytest

from tests.cli.command_line import check_refusal
from tests.cli.small_shop import COUNT, FIXED, Shop, read_output
from tests.small_tables import SHOP_SCHEMA as SCHEMA

# ---------------------------------------------------------------- the ledger


def test_the_ledger_for_people(shop: Shop) -> None:
    who = ("--analyst", "Ada", "--purpose", "year report")
    shop.release(COUNT, "--epsilon", "0.3", "--policy", "budget:2", "--max-epsilon", "1", *who)
    out = read_output(shop.run("ledger", str(shop.ledger)))
    for text in ("0.3 of 2 spent", "Ada", "year report", "budget:2", "at most 1 per query", "17 more answers"):
        assert text in out
    assert COUNT in " ".join(out.split())


def test_the_ledger_in_parts(shop: Shop) -> None:
    """The latest entries, then those before them, until there are none."""
    queries = [COUNT.replace("20", str(number)) for number in (10, 11, 12)]
    for query in queries:
        shop.release(query, "--epsilon", "0.3", "--policy", "budget:2")
    entries = [entry["id"] for entry in shop.accounts()[0]["entries"]]
    whole = shop.run("ledger", str(shop.ledger))[1]
    assert all(entry in whole for entry in entries)
    assert "Earlier ones" not in whole
    latest = shop.run("ledger", str(shop.ledger), "--last", "2")[1]
    assert [entry in latest.partition("2 of 3 entries")[0] for entry in entries] == [False, True, True]
    assert f"--dataset shop --before {entries[1]}" in " ".join(latest.split())
    before = shop.run("ledger", str(shop.ledger), "--dataset", "shop", "--before", entries[1])[1]
    assert [entry in before for entry in entries] == [True, False, False]
    assert "Earlier ones" not in before
    check_refusal(shop.run("ledger", shop.ledger, "--dataset", "shop", "--before", "nothing"), "has no entry nothing")
    assert shop.run("ledger", str(shop.ledger), "--before", entries[1])[0] == 2
    (account,) = shop.run("ledger", shop.ledger, "--last", "1", "--json").json["datasets"]
    assert len(account["entries"]) == 3


def test_the_staircase(shop: Shop) -> None:
    shop.release(COUNT, *FIXED)
    shop.release(COUNT, "--epsilon", "0.7")
    picture = shop.directory / "stairs.svg"
    out = read_output(shop.run("ledger", str(shop.ledger), "--plot", str(picture), "--json"))
    assert json.loads(out)["datasets"][0]["epsilon"] == 1.2
    assert ">The odometer reads 1.2</text>" in picture.read_text(encoding="utf-8")
    check_refusal(shop.run("ledger", shop.ledger, "--by-time"))
    shop.schema.write_text(SCHEMA.replace('"shop"', '"store"'), encoding="utf-8")
    shop.write_data(last="1")
    shop.release(COUNT.replace("shop", "store"), *FIXED)
    check_refusal(shop.run("ledger", shop.ledger, "--plot", picture), "--dataset: shop, store")
    out = read_output(shop.run("ledger", str(shop.ledger), "--plot", str(picture), "--dataset", "store", "--json"))
    assert [account["dataset"] for account in json.loads(out)["datasets"]] == ["store"]
    assert shop.run("ledger", str(shop.ledger), "--dataset", "other")[0] == 2
    assert shop.run("ledger", str(shop.ledger), "--plot", str(shop.directory / "x.pdf"))[0] == 2


@pytest.mark.parametrize(
    "words", [("verify", "--plot", "x.svg"), ("show", "--head", "0"), ("show", "-o", "x"), ("verify", "--dataset", "x")]
)
def test_options_that_go_with_another_action(shop: Shop, words: tuple[str, ...]) -> None:
    shop.release(COUNT, *FIXED)
    check_refusal(shop.run("ledger", str(shop.ledger), *words), "goes with")


# ---------------------------------------------------------------- looking with a ledger


def test_find_says_the_same_with_and_without_a_ledger(shop: Shop) -> None:
    """To the letter, as long as the account is not in the way; where it is, terminal and picture name its own rule."""
    shop.release(COUNT, "--epsilon", "0.01", "--policy", "budget:100")
    find = ("find", str(shop.data), COUNT, "--schema", str(shop.schema), "--prefer")
    with_ledger = ("--ledger", str(shop.ledger))
    check_refusal(shop.run("find", shop.data, COUNT, "--prefer", "ratio:0.4", *with_ledger), "--schema")
    nobody = "MAX(rdr) FILTER (WHERE city = 'Ulm') / MAX(rdr) >= 0.5"
    for preference in ("ratio:0.99,error:1", "ratio:1", "ratio:0.4", "cautious", nobody):
        alone = shop.run(*find, preference)
        assert alone == shop.run(*find, preference, *with_ledger)
        if "error" in preference:
            assert "least ÷ most exposed" not in alone[1][alone[1].index("No candidate meets") :]
    capped = shop.directory / "capped.db"
    shop.release(COUNT, "--epsilon", "0.01", "--policy", "budget:100", "--max-epsilon", "0.5", "--ledger", str(capped))
    picture = shop.directory / "risk.html"
    options = ("--ledger", str(capped), "--plot", str(picture))
    status, out, _ = shop.run(*find, "error:3", *options)
    words = "Stopped by the account, not by error <= 3, which some candidates meet. "
    words += "ε = 0.9 is above the account's cap of 0.5 for one query."
    assert status == 1
    assert words in " ".join(out.split())
    assert "smaller candidate" not in out
    assert html.escape(words) in " ".join(picture.read_text(encoding="utf-8").split())


def test_the_risk_after_a_release(shop: Shop) -> None:
    shop.release("SELECT city, AVG(paid) FROM shop GROUP BY city", "--epsilon", "2", "--policy", "paper")
    entry = shop.accounts()[0]["entries"][0]["id"]
    look = ("--schema", str(shop.schema), "--ledger", str(shop.ledger), "--release", entry)
    sql = "SELECT city, AVG(paid) FROM shop GROUP BY city"
    out = read_output(shop.run("risk", str(shop.data), sql, *look))
    assert "ex-post loss" in out
    for words, message in (
        ((COUNT, *look), "another query"),
        ((sql, *look[:-1], "0123456789abcdef"), "no entry"),
        ((sql, *look, "--top", "3"), "Leave --top out"),
        ((sql, *look[:2], *look[4:]), "--release goes with --ledger"),
    ):
        check_refusal(shop.run("risk", str(shop.data), *words), message)
    shop.write_data(last="1")
    check_refusal(shop.run("risk", shop.data, sql, *look), "other data")
