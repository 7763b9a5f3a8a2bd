"""What a controller reads first: who is on top, what the advice claims, what is never listed, what is overwritten."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command_line import Run, check_refusal

WARDS = ["east"] * 6 + ["west"] * 5 + ["north"]


@pytest.fixture
def wards(tmp_path: Path) -> Path:
    """Twelve people in three wards, one of them alone in the north; each also has a name."""
    path = tmp_path / "wards.csv"
    path.write_text("name,ward\n" + "".join(f"Person {at},{ward}\n" for at, ward in enumerate(WARDS)))
    return path


GROUPED = "SELECT ward, COUNT(*) FROM wards GROUP BY ward"


def test_whoever_is_alone_is_shown_first(run: Run, wards: Path) -> None:
    """Everybody moves one count by 1; the tie goes to the smallest number of people."""
    shown = run("risk", wards, GROUPED, "--top", 3, "--columns", "ward", "--json").json["most_exposed"]
    assert [(row["record"]["ward"], row["people"]) for row in shown] == [("north", 1), ("west", 5), ("east", 6)]


def test_equally_exposed_is_not_called_safe(run: Run, wards: Path, tmp_path: Path) -> None:
    picture = tmp_path / "risk.svg"
    outcome = run("risk", wards, GROUPED, "--epsilon", 1, "--plot", picture)
    for text in (" ".join(outcome.out.split()), picture.read_text(encoding="utf-8")):
        assert "not the same as safe" in text or "is not safe" in text
        assert "RDR cannot help to choose ε" in text
        assert "by accuracy" not in text
        assert "nobody stands out" not in text
    assert outcome.out.count("The smallest group holds 1 person") == 1
    notes = run("risk", wards, GROUPED, "--epsilon", 1, "--json").json["notes"]
    assert any("at ε = 1 it is ε = 1 for everybody" in note for note in notes)  # P1: everybody's PIS is Δ


def test_two_worlds_are_a_picture_of_their_own(run: Run, wards: Path, tmp_path: Path) -> None:
    """North has one person: at ε = 2 her count is e² times as likely with her, at the first ε that is given."""
    for name in ("worlds.svg", "worlds.html", "worlds.png"):
        picture = tmp_path / name
        outcome = run("risk", wards, GROUPED, "--epsilon", 2, "--epsilon", 0.1, "--plot", picture, "--view", "worlds")
        assert outcome.status == 0
        if name != "worlds.png":
            text = picture.read_text(encoding="utf-8")
            assert "If 1 is released for count of north, it is 7.39 times as likely" in text
            assert "Person" not in text
    assert GROUPED in picture.with_suffix(".html").read_text(encoding="utf-8")
    raw = tmp_path / "raw.svg"
    alone = "SELECT COUNT(*) FROM wards WHERE ward = 'north'"
    assert run("risk", wards, alone, "--epsilon", 2, "--plot", raw, "--view", "raw").status == 0
    assert "Raw RDR" in raw.read_text(encoding="utf-8")
    check_refusal(run("risk", wards, GROUPED, "--view", "worlds"), "--view is for --plot")


def test_names_are_not_listed_by_accident(run: Run, wards: Path) -> None:
    refused = run("risk", wards, GROUPED, "--by", "name")
    check_refusal(refused, "name identifies people", "--reveal")
    assert "Person" not in refused.err
    revealed = run("risk", wards, GROUPED, "--by", "name", "--reveal", "--json")
    assert len(revealed.json["by"]["groups"]) == len(WARDS)
    observed = "SELECT name, COUNT(*) FROM wards GROUP BY name"
    shown = run("risk", wards, observed, "--groups", "observed", "--top", 2, "--json").json["most_exposed"]
    assert all(person["why"] == "•••: count from 1 to 0" for person in shown)
    grouped = run("risk", wards, observed)
    check_refusal(grouped, "name identifies people")
    assert "values = " not in grouped.err


def test_a_draft_lists_nobody(run: Run, tmp_path: Path) -> None:
    rows = 40
    columns: dict[str, list[Any]] = {
        "patient": [f"P{at % 30}" for at in range(rows)],  # 30 values of 40: tells people apart
        "contactEmail": ["same@example.org"] * rows,  # by its name
        "phone": list(range(100, 100 + rows)),  # by its name, a number too
        "ward": [f"W{at % 3}" for at in range(rows)],
        "rename": [f"R{at % 3}" for at in range(rows)],  # no word of it is name
        "amount": [f"{at % 7},5" for at in range(rows)],
        "day": [f"{1 + at % 28:02}.12.2021" for at in range(rows)],
    }
    path, target = tmp_path / "drafted.csv", tmp_path / "draft.toml"
    lines = [";".join(columns), *(";".join(str(cells[at]) for cells in columns.values()) for at in range(rows))]
    path.write_text("\n".join(lines) + "\n")
    drafted = run("schema", path, "--json").json["columns"]
    for name in ("patient", "contactEmail", "phone"):
        assert drafted[name]["identifying"] is True
        assert not {"values", "bounds"} & set(drafted[name])
    for name in ("ward", "rename"):
        assert drafted[name]["type"] == "category"
    run("schema", path, "-o", target)
    comment = [line for line in target.read_text(encoding="utf-8").splitlines() if line.startswith("#")]
    assert [line.split()[1] for line in comment if "looks like" in line] == ["amount", "day"]
    assert "decimal comma" in " ".join(comment)
    assert "--date-format %d.%m.%Y" in " ".join(comment)


def test_a_reviewed_schema_is_not_overwritten(run: Run, wards: Path, tmp_path: Path) -> None:
    target = tmp_path / "schema.toml"
    assert run("schema", wards, "-o", target).status == 0
    assert run("schema", wards, "-o", target).status == 0  # an older draft may go
    reviewed = target.read_text(encoding="utf-8").replace("reviewed = false", "reviewed = true")
    target.write_text(reviewed, encoding="utf-8")
    check_refusal(run("schema", wards, "-o", target), "reviewed = false", "--force")
    assert target.read_text(encoding="utf-8") == reviewed
    before = wards.read_bytes()
    assert run("schema", wards, "-o", wards).status == 2
    assert wards.read_bytes() == before
    assert run("schema", wards, "-o", target, "--force").status == 0
    assert "reviewed = false" in target.read_text(encoding="utf-8")


NOBODY = "MEDIAN(rdr) FILTER (WHERE ward = 'nroth') / MEDIAN(rdr) >= 0.5"


def test_a_filter_that_matches_nobody_is_the_headline(run: Run, patients: Path, patients_schema: Path) -> None:
    words = ("find", patients, "SELECT SUM(age) FROM patients", "--schema", patients_schema, "--prefer", NOBODY)
    outcome = run(*words)
    headline, _, further = outcome.out.partition("\n·")
    assert outcome.status == 1
    assert ("matches nobody" in headline, "matches nobody" in further) == (True, False)
    notes = run(*words, "--json").json["notes"]
    assert ["'nroth'" in note for note in notes].index(True) == 0
    assert any("matches nobody" in note for note in notes)


def test_values_that_the_schema_does_not_list(run: Run, patients: Path, patients_schema: Path) -> None:
    where = "ward IN ('east', 'West') OR 'south pole' <> ward OR name = 'nobody'"
    query = f"SELECT SUM(CASE WHEN ward = 'nort' THEN 1 ELSE 0 END) FROM patients WHERE {where}"
    expected = {
        "'West' is not among the declared values of ward. Is 'west' meant?",
        "'south pole' is not among the declared values of ward.",
        "'nort' is not among the declared values of ward. Is 'north' meant?",
    }
    assert expected <= set(run("explain", query, "--schema", patients_schema, "--json").json["notes"])
    notes = run("risk", patients, query, "--schema", patients_schema, "--json").json["notes"]
    assert {note for note in notes if "declared values" in note} == expected
    clean = "SELECT COUNT(*) FROM patients WHERE ward = 'east'"
    assert run("explain", clean, "--schema", patients_schema, "--json").json["notes"] == []


def test_what_is_drawn_is_not_said_to_get_noise(run: Run, patients: Path, patients_schema: Path) -> None:
    """Its error counts rows, rounded up everywhere; beside a COUNT both are told apart."""
    sql, with_schema = "SELECT MEDIAN(age) FROM patients", ("--schema", patients_schema)
    drawn = run("explain", sql, *with_schema).out
    assert not re.search("Laplace|Gaussian|with noise", drawn)
    notes = run("explain", sql, *with_schema, "--json").json["notes"]
    told = re.search(r"within about (\d+) rows", " ".join(notes))
    assert told is not None
    row = next(line for line in drawn.splitlines() if line.startswith("MEDIAN(age)"))
    assert re.findall(r"(\d+) rows", row)[1] == told[1]
    assert "without noise" in run("risk", patients, sql, *with_schema).out
    for command in (("explain",), ("risk", patients)):
        both = run(*command, "SELECT MEDIAN(age), COUNT(*) FROM patients", *with_schema).out
        assert "Laplace noise" in both
        assert "drawn by rank" in both


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("SELECT EXTRACT(YEAR FROM since) AS jahr, COUNT(*) FROM patients GROUP BY jahr", ["jahr"]),
        ("SELECT EXTRACT(YEAR FROM since) AS jahr, COUNT(*) FROM patients GROUP BY 1", ["jahr"]),
        ("SELECT COUNT(*) FROM patients GROUP BY EXTRACT(YEAR FROM since), ill", ["EXTRACT(YEAR FROM since)", "ill"]),
    ],
)
def test_groups_are_called_as_written(run: Run, patients_schema: Path, sql: str, names: list[str]) -> None:
    document = run("explain", sql, "--schema", patients_schema, "--json").json
    assert document["group_columns"] == names


def test_what_was_written_is_confirmed_beside_the_output(run: Run, wards: Path, tmp_path: Path) -> None:
    picture, table = tmp_path / "p.svg", tmp_path / "t.csv"
    spoken = run("risk", wards, GROUPED, "--epsilon", 1, "--plot", picture, "-o", table)
    assert spoken.err.splitlines() == [f"Wrote {table}.", f"Wrote {picture}."]
    assert run("risk", wards, GROUPED, "--epsilon", 1, "--plot", picture, "--json").err == ""


@pytest.mark.parametrize("columns", ["60", "", "wide"])
def test_width_of_what_is_piped(run: Run, wards: Path, monkeypatch: pytest.MonkeyPatch, columns: str) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert os.environ["COLUMNS"] == columns
    lines = run("risk", wards, GROUPED, "--top", 2).out.splitlines()
    assert max(map(len, lines)) <= (60 if columns == "60" else 120)
    assert columns == "60" or max(map(len, lines)) > 80
    assert [line for line in lines if line != line.rstrip()] == []


# ---------------------------------------------------------------- reading files


@pytest.mark.parametrize("name", ["latin-1", "Latin1", "iso-8859-1", "L1", "cp1252", "windows-1252"])
def test_encodings_by_any_name(run: Run, tmp_path: Path, name: str) -> None:
    path = tmp_path / "words.csv"
    path.write_bytes("word,x\nGrüße,1\nGrüße,2\n".encode("latin-1"))
    assert run("schema", path, "--encoding", name, "--json").json["columns"]["word"]["values"] == ["Grüße"]


@pytest.mark.parametrize(
    ("content", "options", "words"),
    [
        (b"a,b\n1,2\n3,4,5\n", ["--delimiter", ","], "line 3: the row has more fields than the header"),
        (b"a,b,c\n1,2,3\n4,5\n", ["--delimiter", ","], "line 3: the row has fewer fields than the header"),
        (b"a;b\n1;2\n", ["--delimiter", ","], "line 1: the columns are separated by ';'"),
        (b"a;b\n1;2,5\n3;4,5\n", ["--delimiter", ","], "line 1: the columns are separated by ';'"),
        ("a,b\n1,ß\n".encode("latin-1"), [], "the text is not UTF-8"),
        (b'a,b\n1,"2\n', [], "a quote is not closed"),
    ],
)
def test_badly_written_files(run: Run, tmp_path: Path, content: bytes, options: list[str], words: str) -> None:
    path = tmp_path / "bad.csv"
    path.write_bytes(content)
    check_refusal(run("schema", path, *options), words, "--encoding cp1252" if "UTF-8" in words else "--delimiter")
