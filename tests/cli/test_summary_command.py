"""``dosimeter summary``: printed, as JSON and as files; looked at beforehand; one charge; refused in words."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from tests.cli.command_line import Outcome, Run, check_refusal
from tests.small_tables import PATIENTS


@pytest.fixture
def ask(run: Run, patients: Path, patients_schema: Path, tmp_path: Path) -> Run:
    def ask_it(*words: object) -> Outcome:
        ledger = tmp_path / "ledger.db"
        return run("summary", patients, "--schema", patients_schema, "--ledger", ledger, *words)

    return ask_it


EXACT = ("--epsilon", 1e6, "--policy", "budget:1e9")


def test_it_prints_a_line_for_each_column(ask: Run) -> None:
    found = ask(*EXACT)
    assert found.status == 0
    lines = {line.split()[0]: line for line in found.out.splitlines() if line}
    assert [name for name in lines if name in ("name", "age", "ward", "pay", "ill", "since")] == list(lines)[1:7]
    assert lines["name"].endswith(" identifies people")
    assert "40" in lines["age"].split()
    assert lines["age"].endswith("bounds 0 to 100")
    assert "east 40.0\u00a0%, west 40.0\u00a0%, north 20.0\u00a0%" in lines["ward"]
    assert "About 5 rows." in found.out
    assert not any(name in found.out for name, *_ in PATIENTS)


def test_json_is_one_document(ask: Run) -> None:
    found = ask(*EXACT, "--json").json
    assert [column["column"] for column in found["columns"]] == ["name", "age", "ward", "pay", "ill", "since"]
    age = found["columns"][1]
    assert (age["count"], age["missing"], age["mean"]) == (4, 1, pytest.approx(50.0, abs=1e-3))
    assert found["columns"][2]["values"][0]["count"] == 2
    assert found["epsilon"] == 1e6


def test_files_are_written_whole(ask: Run, tmp_path: Path) -> None:
    for name in ("out.csv", "out.parquet", "out.html"):
        found = ask(*EXACT, "-o", tmp_path / name)
        assert found.status == 0
        assert f"{name}." in found.err
    with (tmp_path / "out.csv").open(encoding="utf-8", newline="") as stream:
        rows = {row["column"]: row for row in csv.DictReader(stream)}
    assert (rows["age"]["count"], rows["age"]["missing"]) == ("4", "1")
    assert rows["since"]["q1_day"].startswith("2020-")
    document = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert document["query"].startswith("SELECT NULL AS column_name")
    assert {"entry", "head", "columns", "rows", "guarantee", "schema_digest"} <= set(document)
    assert "answer" not in document
    page = (tmp_path / "out.html").read_text(encoding="utf-8")
    assert '<th scope="row">age</th>' in page
    assert "<script" not in page
    assert "http" not in page


def test_only_some_columns(ask: Run) -> None:
    found = ask(*EXACT, "--json", "--columns", "ill, age").json
    assert [column["column"] for column in found["columns"]] == ["ill", "age"]


def test_a_dry_run_charges_nothing(ask: Run, run: Run, tmp_path: Path) -> None:
    found = ask("--epsilon", 1, "--policy", "budget:2", "--dry-run", "--json")
    assert found.status == 0
    assert (found.json["dry_run"], found.json["granted"], found.json["cost"]["charge"]) == (True, True, 1.0)
    assert found.json["rdr"]["max"] > 0
    assert run("ledger", tmp_path / "ledger.db", "--json").json["datasets"] == []


def test_one_charge_and_the_same_numbers_again(ask: Run, run: Run, tmp_path: Path) -> None:
    first = ask("--epsilon", 1, "--policy", "budget:1", "--json")
    again = ask("--epsilon", 1, "--json")
    assert again.json == first.json
    account = run("ledger", tmp_path / "ledger.db", "--json").json["datasets"][0]
    assert [(entry["status"], entry["charge"]) for entry in account["entries"]] == [("released", 1.0)]
    denied = ask("--epsilon", 2, "--json")
    assert (denied.status, denied.json) == (1, {"status": "denied"})
    assert ask("--epsilon", 2).out == "Denied.\n"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--epsilon", 1, "--policy", "budget:1", "--columns", "age,wage"), "no column wage"),
        (("--epsilon", 1, "--policy", "budget:1", "-o", "out.txt"), ".html or .csv or .parquet"),
        (("--epsilon", 0, "--policy", "budget:1"), "epsilon"),
        (("--epsilon", 1), "policy"),
        (("--policy", "budget:1"), "--epsilon"),
    ],
)
def test_refusals_charge_nothing(ask: Run, tmp_path: Path, words: tuple[object, ...], expected: str) -> None:
    check_refusal(ask(*words), expected)
    ledger = tmp_path / "ledger.db"
    assert not ledger.exists() or ask("--epsilon", 1, "--policy", "budget:1").status == 0
