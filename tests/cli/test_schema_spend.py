"""``dosimeter schema --spend``: what it costs beforehand, what is confirmed, what is written, and every refusal."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
import pytest

from dosimeter import Schema
from tests.cli.command_line import Run, check_refusal

PEOPLE, VISITS = 3_000, 3


@pytest.fixture
def visits(tmp_path: Path) -> Path:
    draw, path = np.random.default_rng(3), tmp_path / "visits.csv"
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["patient", "age", "ward", "when"])
        for patient in range(PEOPLE):
            for _ in range(VISITS):
                day = f"2021-0{draw.integers(1, 9)}-03"
                writer.writerow([f"P{patient}", draw.integers(20, 80), draw.choice(["east", "west"]), day])
    return path


def spending(visits: Path, *more: object) -> list[object]:
    ledger = visits.parent / "ledger.db"
    return ["schema", visits, "--spend", "60", "--unit", "patient", "--delta", "1e-8", "--ledger", ledger, *more]


def test_from_a_file_without_a_codebook_to_an_average_by_group(run: Run, visits: Path) -> None:
    folder = visits.parent
    terms = ["--policy", "budget:100", "--yes", "-o", folder / "visits.toml"]
    written = run(*spending(visits, *terms))
    assert written.status == 0, written.err
    assert "ε = 60 was charged" in written.out
    assert "at most about" in written.out
    found = Schema.load(folder / "visits.toml")
    assert (found.unit, found.max_rows_per_unit, found.reviewed) == ("patient", 4, "released")
    assert PEOPLE <= (found.individuals or 0) <= PEOPLE + 10
    assert found.columns["ward"].values == ("east", "west")
    assert found.columns["patient"].identifying
    asked = "SELECT ward, AVG(age) AS age FROM visits GROUP BY ward"
    schema = ["--schema", folder / "visits.toml", "--ledger", folder / "ledger.db"]
    answer = run("release", visits, asked, *schema, "--epsilon", "20", "--json")
    assert answer.status == 0, answer.err
    assert [row["ward"] for row in answer.json["answer"]] == ["east", "west"]
    assert all(abs(row["age"] - 49.5) < 2 for row in answer.json["answer"])
    entries = run("ledger", folder / "ledger.db", "--json").json["datasets"][0]["entries"]
    assert [entry["charge"] for entry in entries] == [60.0, 20.0]
    facts = {(row["column"], row["fact"]) for row in entries[0]["answer"]}
    assert {(None, "individuals"), (None, "rows each"), ("age", "low"), ("when", "high"), ("ward", "value")} <= facts


def test_the_same_command_again_costs_nothing_and_writes_the_same(run: Run, visits: Path) -> None:
    folder = visits.parent
    first = run(*spending(visits, "--policy", "budget:100", "--yes", "-o", folder / "a.toml"))
    second = run(*spending(visits, "--yes", "-o", folder / "b.toml"))
    assert (first.status, second.status) == (0, 0)
    assert "It cost nothing" in second.out
    assert (folder / "a.toml").read_text() == (folder / "b.toml").read_text()
    check_refusal(run(*spending(visits, "--yes", "-o", folder / "a.toml")), "--force")


def test_a_dry_run_says_what_each_fact_costs_and_is_worth_and_makes_nothing(run: Run, visits: Path) -> None:
    shown = run(*spending(visits, "--policy", "budget:100", "--dry-run"))
    assert shown.status == 0, shown.err
    assert "patient says whose a row is" in shown.out
    for words in ("age", "ward", "when", "lie beyond each bound", "how many rows of each count", "δ = 1e-08"):
        assert words in shown.out
    assert not (visits.parent / "ledger.db").exists()
    facts = run(*spending(visits, "--policy", "budget:100", "--dry-run", "--json")).json
    assert facts["granted"]
    assert [line["fact"] for line in facts["facts"]] == ["individuals", "rows each", "bounds", "bounds", "values"]
    columns = {line["column"]: line for line in facts["facts"]}
    assert columns["age"]["needs"] == 2 * columns["age"]["beyond"]
    assert sum(line["epsilon"] for line in facts["facts"]) == pytest.approx(60)
    refused = run(*spending(visits, "--policy", "budget:59", "--dry-run"))
    assert refused.status == 1
    assert "would refuse" in refused.out


def test_columns_of_which_too_few_have_a_value_are_said_and_left_out(run: Run, visits: Path) -> None:
    small = ["schema", visits, "--spend", "0.1", "--unit", "patient", "--delta", "1e-8", "--policy", "budget:1"]
    written = run(*small, "--ledger", visits.parent / "l.db", "--yes", "-o", visits.parent / "small.toml")
    assert written.status == 0, written.err
    assert "age: no bounds were found" in written.out
    found = Schema.load(visits.parent / "small.toml")
    assert found.columns["age"].bounds is None
    assert found.columns["age"].found is None


def test_types_and_words_are_taken_from_a_file_and_its_draft_bounds_are_not(run: Run, visits: Path) -> None:
    declared = visits.parent / "declared.toml"
    declared.write_text(
        'table = "visits"\nrow = "visit"\nindividual = "patient"\nindividuals = 5\n[columns.patient]\ntype = "text"\n'
        '[columns.age]\ntype = "decimal"\nresolution = 0.5\nbounds = [0, 1]\n[columns.ward]\ntype = "text"\n'
        "identifying = true\n"
    )
    terms = ["--schema", declared, "--policy", "budget:100", "--yes", "-o", visits.parent / "v.toml"]
    assert run(*spending(visits, *terms)).status == 0
    found = Schema.load(visits.parent / "v.toml")
    assert str(found.columns["age"].resolution) == "0.5"
    assert found.columns["age"].bounds is not None
    assert float(found.columns["age"].bounds[1]) > 60  # type: ignore[arg-type]
    assert found.columns["ward"].values is None, "it identifies people: it is not searched"
    assert found.words.people == "patients"


def test_every_refusal_names_the_fix_and_charges_nothing(run: Run, visits: Path) -> None:
    ledger, yes = visits.parent / "ledger.db", ["--policy", "budget:100", "--yes"]
    start = ["schema", visits, "--spend", "60"]
    check_refusal(run(*start, "--unit", "patient", "--delta", "1e-8", *yes), "--ledger L")
    check_refusal(run(*start, "--ledger", ledger, *yes), "--unit COLUMN", "--unit row", "never guessed")
    check_refusal(run(*start, "--ledger", ledger, "--unit", "nobody", "--delta", "1e-8", *yes), "names no column")
    check_refusal(run(*start, "--ledger", ledger, "--unit", "when", "--delta", "1e-8", *yes), "integer or a text")
    check_refusal(run(*start, "--ledger", ledger, "--unit", "patient", *yes), "--delta", "--columns", "ward")
    check_refusal(run(*spending(visits, *yes, "--columns", "wards")), "There is no column 'wards'", "age, ward, when")
    check_refusal(run(*spending(visits, *yes, "--columns", "patient")), "to be found of patient", "age, ward, when")
    check_refusal(run(*spending(visits, *yes, "--keep", "1")), "--keep")
    check_refusal(run("schema", visits, "--spend", "0", "--unit", "row", "--ledger", ledger, *yes), "--spend")
    too_much = ["--unit", "row", "--columns", "age", "--ledger", ledger, *yes]
    check_refusal(run("schema", visits, "--spend", "1e20", *too_much), "--spend")
    joined = visits.parent / "joined.toml"
    joined.write_text(
        'table = "visits"\n[columns.patient]\ntype = "text"\n[columns.age]\ntype = "integer"\n'
        '[tables.bills]\nsource = "bills.csv"\nunit = "patient"\nmax_rows_per_unit = 3\n'
        '[tables.bills.columns.patient]\ntype = "text"\n[tables.bills.columns.sum]\ntype = "integer"\nbounds = [3, 8]\n'
    )
    (visits.parent / "bills.csv").write_text("patient,sum\nP1,3\nP2,8\n")
    check_refusal(run(*spending(visits, *yes, "--schema", joined)), "bills", "reviewed = true")
    check_refusal(run(*spending(visits, "--policy", "budget:100")), "--dry-run", "--yes")
    check_refusal(run(*spending(visits, "--yes")), "--policy")
    check_refusal(run("schema", visits, "--unit", "row"), "--unit goes with --spend")
    check_refusal(run("schema", visits, "--policy", "budget:1"), "--policy goes with --spend")
    draft = visits.parent / "draft.toml"
    run("schema", visits, "-o", draft)
    check_refusal(run(*spending(visits, *yes, "--schema", draft, "-o", draft)), "is the schema")
    check_refusal(run(*spending(visits, *yes, "-o", ledger)), "is the ledger")
    check_refusal(run(*spending(visits, "--check", visits)), "Choose one")
    assert not ledger.exists() or run("ledger", ledger, "--json").json == {"datasets": []}


def test_terms_that_promise_little_are_said_once_people_are_counted(run: Run, visits: Path) -> None:
    asked = spending(visits, "--columns", "age", "--policy", "budget:3000@0.01", "--yes")
    asked[asked.index("--delta") : asked.index("--delta") + 2] = []
    written = run(*asked)
    assert written.status == 0, written.err
    assert "For the controller: The δ of the policy budget:3000@0.01 is above 1/3,00" in written.err
    assert "For the controller" not in run(*asked).err


def test_a_draft_says_that_facts_can_be_found_by_spending(run: Run, visits: Path) -> None:
    drafted = run("schema", visits, "-o", visits.parent / "draft.toml")
    assert "--spend" in drafted.out


def test_facts_that_were_found_before_stay_and_only_the_rest_is_searched(run: Run, visits: Path) -> None:
    folder = visits.parent
    first, second = folder / "first.toml", folder / "second.toml"
    terms = ["--policy", "budget:200", "--yes"]
    assert run(*spending(visits, *terms, "--columns", "ward", "-o", first)).status == 0
    shown = run(*spending(visits, "--schema", first, "--dry-run", "--json")).json
    assert [line["column"] for line in shown["facts"] if line["column"]] == ["age", "when"]
    assert run(*spending(visits, "--yes", "--schema", first, "--continue", "-o", second)).status == 0
    before, after = Schema.load(first), Schema.load(second)
    assert after.columns["ward"].values == ("east", "west")
    assert after.columns["ward"].found == before.found
    assert after.columns["age"].bounds is not None
    assert after.columns["age"].found == after.found != before.found
    asked = "SELECT ward, AVG(age) AS age FROM visits GROUP BY ward"
    way = ["--schema", second, "--ledger", folder / "ledger.db", "--epsilon", "20", "--json"]
    assert [row["ward"] for row in run("release", visits, asked, *way).json["answer"]] == ["east", "west"]


def test_at_a_terminal_all_that_is_declared_is_shown_and_a_no_charges_nothing(
    run: Run, visits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dosimeter.cli.schema_search.sys.stdin", _Terminal("n\n"))
    monkeypatch.setattr("click.termui.visible_prompt_func", lambda _: "n")
    said = run(*spending(visits, "--policy", "budget:100", "--columns", "age"))
    assert said.status == 1
    assert "Not searched: patient (text, identifies people), ward (text), when (date)." in " ".join(said.out.split())
    assert "Nothing was charged." in said.err
    assert not (visits.parent / "ledger.db").exists()


class _Terminal(io.StringIO):
    """A standard input at which somebody sits."""

    def isatty(self) -> bool:
        return True


def test_a_key_of_people_identifies_them_and_is_not_searched(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "stays.csv"
    lines = [f"P{i},{i},{i % 3},x{i}" for i in range(40)]
    path.write_text("\n".join(["Patient ID,subject_no,age,icd_code", *lines]) + "\n")
    shown = run("schema", path, "--spend", "1", "--unit", "row", "--delta", "1e-8", "--dry-run", "--json").json
    assert [line["column"] for line in shown["facts"] if line["column"]] == ["age", "icd_code"]
