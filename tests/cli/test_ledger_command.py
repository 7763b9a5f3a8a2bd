"""`dosimeter ledger`, and looking with a ledger: JSON to the letter, what people read, verify, export, plot."""

from __future__ import annotations

import html
import json

import pytest

from tests.cli.small_shop import COUNT, FIXED, Shop, break_content, check_refusal, read_document, read_output
from tests.small_tables import SHOP_SCHEMA as SCHEMA

# ---------------------------------------------------------------- the ledger


def test_the_json_of_the_ledger_to_the_letter(shop: Shop) -> None:
    _, released, _ = shop.release(COUNT, "--epsilon", "0.3", "--policy", "budget:0.35", "--json")
    shop.release(COUNT, "--epsilon", "0.06")
    out = read_output(shop.run("ledger", str(shop.ledger), "--json"))
    (account,) = json.loads(out)["datasets"]
    assert list(json.loads(out)) == ["datasets"]
    left = account.pop("remaining")
    assert left["epsilon"] == 0.05
    assert left["answers"] == left["gaussian"] == {"1": 0, "0.5": 0, "0.1": 0, "0.05": 1, "0.01": 5}
    first, second = account.pop("entries")
    assert account == {
        "dataset": "shop", "epsilon": 0.3, "delta": 0.0, "policy": "budget:0.35", "algorithm": "mixed", "notes": [],
        "rho": None, "curve": None, "stopped": None, "overlaps": [], "continuations": [],
    }  # fmt: skip
    names = ["id", "at", "status", "epsilon", "epsilon_svt", "delta", "charge", "reading", "rho", "algorithm"]
    assert list(first) == list(second) == [*names, "query", "answer", "analyst", "purpose", "reason"]
    assert len(first.pop("id")) == 16
    assert first.pop("at").endswith("Z")
    assert first == {
        "status": "released", "epsilon": 0.3, "epsilon_svt": None, "delta": 0.0, "charge": 0.3, "reading": 0.3,
        "rho": None, "algorithm": "fixed", "query": COUNT, "answer": json.loads(released)["answer"],
        "analyst": None, "purpose": None,
        "reason": None,
    }  # fmt: skip
    assert (second["status"], second["charge"], second["reading"], second["answer"]) == ("denied", 0.0, 0.3, None)
    assert second["reason"] == "budget"


def test_the_ledger_for_people(shop: Shop) -> None:
    who = ("--analyst", "Ada", "--purpose", "year report")
    shop.release(COUNT, "--epsilon", "0.3", "--policy", "budget:2", "--max-epsilon", "1", *who)
    out = read_output(shop.run("ledger", str(shop.ledger)))
    for text in ("0.3 of 2 spent, 1.7 left", "Ada", "year report"):
        assert text in out
    assert "shop: reading ε = 0.3" in out
    assert "policy budget:2, algorithm mixed, at most 1 per query" in out
    assert "17 more answers at ε = 0.1" in out
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
    status, _, err = shop.run("ledger", str(shop.ledger), "--dataset", "shop", "--before", "nothing")
    assert (status, "has no entry nothing" in err) == (2, True)
    assert shop.run("ledger", str(shop.ledger), "--before", entries[1])[0] == 2
    assert (
        len(json.loads(shop.run("ledger", str(shop.ledger), "--last", "1", "--json")[1])["datasets"][0]["entries"]) == 3
    )


def test_verify_and_its_head(shop: Shop) -> None:
    shop.release(COUNT, *FIXED)
    document = read_document(shop.run("ledger", str(shop.ledger), "verify", "--json"))
    assert list(document) == ["intact", "records", "head"]
    assert (document["intact"], document["records"]) == (True, 4)
    shop.release(COUNT, "--epsilon", "0.7")
    out = read_output(shop.run("ledger", str(shop.ledger), "verify", "--head", document["head"]))
    assert out.startswith("Intact: 7 records. Head ")
    status, out, _ = shop.run("ledger", str(shop.ledger), "verify", "--json", "--head", "0" * 63 + "1")
    assert status == 1
    assert json.loads(out)["intact"] is False
    assert shop.run("ledger", str(shop.ledger), "verify", "--head", "abc")[0] == 2
    break_content(shop.ledger)
    status, out, _ = shop.run("ledger", str(shop.ledger), "verify", "--json")
    assert status == 1
    assert json.loads(out)["first_bad"] == {"seq": 3, "reason": "its content does not match its digest"}
    status, out, _ = shop.run("ledger", str(shop.ledger), "verify")
    assert status == 1
    assert out.startswith("Not intact: record 3")


def test_export_to_a_file(shop: Shop) -> None:
    shop.release(COUNT, *FIXED)
    lines = shop.directory / "records.jsonl"
    status, out, _ = shop.run("ledger", str(shop.ledger), "export", "-o", str(lines))
    assert (status, out) == (0, "")
    assert lines.read_text(encoding="utf-8") == shop.run("ledger", str(shop.ledger), "export")[1]
    assert shop.run("ledger", str(shop.ledger), "export", "-o", str(shop.directory / "no" / "x"))[0] == 2


def test_the_staircase(shop: Shop) -> None:
    shop.release(COUNT, *FIXED)
    shop.release(COUNT, "--epsilon", "0.7")
    picture = shop.directory / "stairs.svg"
    out = read_output(shop.run("ledger", str(shop.ledger), "--plot", str(picture), "--json"))
    assert json.loads(out)["datasets"][0]["epsilon"] == 1.2
    assert ">The odometer reads 1.2</text>" in picture.read_text(encoding="utf-8")
    assert shop.run("ledger", str(shop.ledger), "--plot", str(picture), "--by-time")[0] == 0
    assert "time (UTC)" in picture.read_text(encoding="utf-8")
    assert shop.run("ledger", str(shop.ledger), "--by-time")[0] == 2
    shop.schema.write_text(SCHEMA.replace('"shop"', '"store"'), encoding="utf-8")
    shop.write_data(last="1")
    shop.release(COUNT.replace("shop", "store"), *FIXED)
    status, _, err = shop.run("ledger", str(shop.ledger), "--plot", str(picture))
    assert status == 2
    assert "--dataset: shop, store" in err
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


def test_looking_is_recorded_and_told(shop: Shop) -> None:
    look = ("--schema", str(shop.schema), "--ledger", str(shop.ledger))
    out = read_output(shop.run("risk", str(shop.data), COUNT, *look, "--epsilon", "1", "--json"))
    assert json.loads(out)["n"] == 30
    other = COUNT.replace("20", "10")
    status, out, _ = shop.run("find", str(shop.data), other, *look, "--prefer", "ratio:0.5", "--json")
    assert (status, json.loads(out)["reading"], json.loads(out)["cut_off"]) == (0, 0.0, [])
    assert shop.accounts() == []
    for sql in (COUNT, other):
        _, out, _ = shop.release(sql, "--epsilon", "0.2", "--policy", "budget:2", "--json")
        assert json.loads(out)["guarantee"].endswith("was looked at before.")
    _, out, _ = shop.release(COUNT.replace("20", "30"), "--epsilon", "0.2", "--json")
    assert "before" not in json.loads(out)["guarantee"]


def test_find_honours_the_account(shop: Shop) -> None:
    look = ("--schema", str(shop.schema), "--ledger", str(shop.ledger), "--prefer", "ratio:0.4")
    shop.release(COUNT, "--epsilon", "0.7", "--policy", "budget:1.2")
    document = read_document(shop.run("find", str(shop.data), COUNT, *look, "--json"))
    assert (document["epsilon"], document["reading"]) == (0.5, 0.7)
    assert document["cut_off"] == [*map(float, range(10, 0, -1)), 0.9, 0.8, 0.7, 0.6]
    out = read_output(shop.run("find", str(shop.data), COUNT, *look))
    assert "Largest ε that meets MIN(rdr) / MAX(rdr) >= 0.4: 0.5 (" in " ".join(out.split())
    shop.release(COUNT, "--epsilon", "0.5")
    status, out, _ = shop.run("find", str(shop.data), COUNT, *look, "--json")
    assert status == 1
    assert (json.loads(out)["epsilon"], json.loads(out)["reading"]) == (None, 1.2)
    status, out, _ = shop.run("find", str(shop.data), COUNT, *look)
    assert status == 1
    assert "Stopped by the account, not by MIN(rdr) / MAX(rdr) >= 0.4" in " ".join(out.split())
    status, _, err = shop.run("find", str(shop.data), COUNT, "--ledger", str(shop.ledger), "--prefer", "ratio:0.4")
    assert status == 2
    assert "--schema" in err


def test_find_says_the_same_with_and_without_a_ledger(shop: Shop) -> None:
    """To the letter, as long as the account is not in the way; where it is, terminal and picture name its own rule."""
    shop.release(COUNT, "--epsilon", "0.01", "--policy", "budget:100")
    find = ("find", str(shop.data), COUNT, "--schema", str(shop.schema), "--prefer")
    with_ledger = ("--ledger", str(shop.ledger))
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
    document = read_document(shop.run("risk", str(shop.data), sql, *look, "--json"))
    assert (document["release"], document["epsilon"], document["n"], document["k"]) == (entry, 2.0, 30, 6)
    assert sum(line["people"] for line in document["classes"]) == document["people"] == 25  # who is there (N5)
    assert all(abs(line["loss"]) <= 2.0 * line["sensitivity"] / 2 + 1e-9 for line in document["classes"])  # P1, Δ = 2
    assert document["loss"]["max"] == max(line["loss"] for line in document["classes"])
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
    status, _, err = shop.run("risk", str(shop.data), sql, *look)
    assert status == 2
    assert "other data" in err
