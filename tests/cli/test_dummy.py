"""`dosimeter dummy`: invented rows in files, which are read as they are declared; nothing real is overwritten."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyarrow import csv, parquet

from dosimeter import Dataset, Schema
from tests.cli.command_line import Run, check_refusal

FACTS = """
table = "visits"
individuals = 800
unit = "pid"
max_rows_per_unit = 3
row_key = "vid"
reviewed = true
[columns]
pid = { type = "integer", identifying = true }
vid = { type = "text" }
ward = { type = "category", values = ["a, b", "c \\"d\\"", "=e"] }
cost = { type = "decimal", bounds = [-1, 1], resolution = 0.01 }
came = { type = "date", bounds = [1582-01-01, 2400-01-01] }
went = { type = "timestamp", bounds = [2024-01-01T00:00:00, 2024-12-31T23:59:59] }
sick = { type = "boolean", nulls = true }
[tables.wards]
source = "real/wards.csv"
public = true
key = "ward"
columns.ward = { type = "text" }
columns.beds = { type = "integer" }
[tables.labs]
source = "labs"
unit = "pid"
max_rows_per_unit = 2
row_key = "lab"
columns.pid = { type = "integer" }
columns.lab = { type = "integer" }
"""


@pytest.fixture
def facts(tmp_path: Path) -> Path:
    path = tmp_path / "visits.toml"
    path.write_text(FACTS, encoding="utf-8")
    return path


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_every_table_is_written_and_read_as_it_was_invented(run: Run, facts: Path, ending: str) -> None:
    folder, schema = facts.parent, Schema.load(facts)
    files = {name: folder / f"{name}{ending}" for name in ("visits", "wards", "labs")}
    done = run("dummy", "--schema", facts, "--rows", 40, "-o", files["visits"])
    counts = {name: schema.dummy(40, table=name).num_rows for name in files}
    assert (done.status, done.err) == (0, "")
    assert done.out.splitlines() == [f"Wrote {files[name]}: {counts[name]} invented rows." for name in files]
    assert counts["visits"] == 40
    assert counts["wards"] == 3
    for name, path in files.items():
        own = schema if name == "visits" else None
        columns = schema.columns if own else schema.tables[name].columns
        with Dataset.open(str(path), schema=own) as dataset:
            assert dataset.engine.default_table() == name
            assert not any(dataset.engine.count_odd_cells(list(columns)).values()) if own else True
        read = csv.read_csv(path) if ending == ".csv" else parquet.read_table(path)
        assert read.num_rows == counts[name]
    assert csv.read_csv(files["wards"]).column("ward").to_pylist() == ["a, b", 'c "d"', "=e"] if ending == ".csv" else 1


def test_a_release_on_the_files(run: Run, facts: Path, tmp_path: Path) -> None:
    """Those of joined tables are read where the schema says that the data are."""
    assert run("dummy", "--schema", facts, "-o", tmp_path / "visits.csv").status == 0
    (tmp_path / "real").mkdir()
    (tmp_path / "wards.csv").rename(tmp_path / "real" / "wards.csv")
    sql = "SELECT sick, COUNT(*) AS n FROM visits JOIN wards USING (ward) WHERE beds < 90 GROUP BY sick"
    words = ("--schema", facts, "--epsilon", 1, "--policy", "budget:1", "--ledger", tmp_path / "l.db", "--json")
    answer = run("release", tmp_path / "visits.csv", sql, *words)
    assert [row["sick"] for row in answer.json["answer"]] == [False, True, None]


def test_the_same_rows_each_time(run: Run, facts: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        assert run("dummy", "--schema", facts, "-o", tmp_path / name / "x.csv").out.startswith("Wrote")
    one, two = ({each.name: each.read_bytes() for each in (tmp_path / name).iterdir()} for name in ("one", "two"))
    assert one == two
    assert one["x.csv"].count(b"\n") == 1_001


def test_rows_of_a_draft_may_tell_of_the_data(run: Run, facts: Path, tmp_path: Path) -> None:
    facts.write_text(FACTS.replace("reviewed = true", "reviewed = false"), encoding="utf-8")
    *_, last = run("dummy", "--schema", facts, "-o", tmp_path / "x.csv").out.splitlines()
    assert "is not reviewed: its facts may come from the data" in last


def test_fewer_rows_of_fewer_people(run: Run, facts: Path, tmp_path: Path) -> None:
    facts.write_text(FACTS.replace("individuals = 800", "individuals = 20"), encoding="utf-8")
    assert "x.csv: 60 invented rows" in run("dummy", "--schema", facts, "-o", tmp_path / "x.csv").out


def test_what_may_be_real_is_not_overwritten(run: Run, facts: Path, tmp_path: Path) -> None:
    output = tmp_path / "visits.csv"
    (tmp_path / "real").mkdir()
    for name in ("visits.csv", "labs.csv", "real/wards.csv"):
        path = tmp_path / name
        path.write_text("real\n")
        if name == "real/wards.csv":  # what the schema reads is not replaced at all
            words = ("dummy", "--schema", facts, "-o", tmp_path / "real" / "x.csv", "--force")
            check_refusal(run(*words), "wards.csv is the table wards, which would be overwritten")
        else:
            check_refusal(run("dummy", "--schema", facts, "-o", output), f"{path} exists, and may hold real data")
        assert path.read_text() == "real\n"
        if name == "visits.csv":
            path.unlink()
    (tmp_path / "real" / "wards.csv").unlink()
    assert run("dummy", "--schema", facts, "-o", output, "--force").status == 0
    assert (tmp_path / "labs.csv").read_text() != "real\n"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("-o", "x.txt"), "invented rows are written as .csv or .parquet"),
        (("-o", "nowhere/x.csv"), "there is no folder"),
        (("-o", "labs.csv"), "The joined table labs would be written beside labs.csv under its own name"),
        (("--rows", 0, "-o", "x.csv"), "a whole number, at least 1"),
        (("--rows", 2_401, "-o", "x.csv"), "At most 2,400 rows can be invented for this schema"),
        (("--rows", "many", "-o", "x.csv"), "--rows"),
        (("--rows", 5), "'-o' / '--output'"),
        (("--schema", "nothing.toml", "-o", "x.csv"), "There is no schema file nothing.toml"),
    ],
)
def test_refusals(run: Run, facts: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[object, ...], says: str) -> None:
    monkeypatch.chdir(facts.parent)
    check_refusal(run("dummy", "--schema", facts, *words), says)
    assert [each.name for each in facts.parent.iterdir()] == ["visits.toml"]


def test_a_joined_table_is_written_in_no_other_folder(run: Run, facts: Path, tmp_path: Path) -> None:
    facts.write_text(FACTS.replace("[tables.wards]", '[tables."../wards"]'), encoding="utf-8")
    (tmp_path / "inner").mkdir()
    check_refusal(run("dummy", "--schema", facts, "-o", tmp_path / "inner" / "x.csv"), "The joined table ../wards")
