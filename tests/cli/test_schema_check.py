"""``dosimeter schema --check`` for individuals with many rows, and for the tables beside theirs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command_line import Run

VISITS = """table = "visits"
individuals = {individuals}
unit = "pid"
max_rows_per_unit = {most}
row_key = "vid"
[columns]
pid = {{ type = "integer" }}
vid = {{ type = "integer" }}
ward = {{ type = "integer" }}
[tables.wards]
public = true
key = "ward"
source = "{wards}"
columns.ward = {{ type = "integer" }}
columns.beds = {{ type = "integer", bounds = [0, 9] }}
"""


def check_visits(
    run: Run,
    folder: Path,
    rows: Sequence[str],
    *,
    individuals: int = 3,
    most: int = 2,
    wards: Sequence[str] = ("0,4", "1,9"),
) -> dict[str, Any]:
    """What --check says of these rows of (pid, vid, ward), and of the wards' (ward, beds)."""
    data, facts, beside = folder / "visits.csv", folder / "visits.toml", folder / "wards.csv"
    data.write_text("\n".join(["pid,vid,ward", *rows]) + "\n")
    beside.write_text("\n".join(["ward,beds", *wards]) + "\n")
    facts.write_text(VISITS.format(individuals=individuals, most=most, wards=beside))
    result = run("schema", data, "--check", facts, "--json")
    assert result.status == (1 if result.json["findings"] else 0)
    spoken = run("schema", data, "--check", facts)
    assert spoken.status == result.status
    assert all(finding["problem"] in spoken.out for finding in result.json["findings"])
    assert all(remark["remark"] in spoken.out for remark in result.json["remarks"])
    return result.json  # type: ignore[no-any-return]


def find_problems(*args: Any, **options: Any) -> list[str]:
    return [finding["problem"] for finding in check_visits(*args, **options)["findings"]]


def find_remarks(*args: Any, **options: Any) -> list[str]:
    """The remarks of a check that agrees."""
    said = check_visits(*args, **options)
    assert said["agrees"], said["findings"]
    return [remark["remark"] for remark in said["remarks"]]


ROWS = ["1,1,0", "1,2,0", "2,3,1", "2,4,1", "3,5,0"]


def test_check_counts_individuals_and_not_their_rows(run: Run, tmp_path: Path) -> None:
    assert check_visits(run, tmp_path, ROWS) == {"agrees": True, "findings": [], "remarks": [], "odd_cells": {}}
    assert find_problems(run, tmp_path, ROWS, individuals=2) == [
        "the data holds 3 individuals and the schema declares 2"
    ]


def test_what_is_left_out_is_told_and_nothing_to_correct(run: Run, tmp_path: Path) -> None:
    (cut,) = find_remarks(run, tmp_path, [*ROWS, "2,6,1", "2,7,1"])
    assert "up to 4 rows" in cut
    assert "2 of 7 rows (28.57 %) do not count" in cut
    (nobody,) = find_remarks(run, tmp_path, [*ROWS, ",6,1", ",7,1"])
    assert "the unit pid is NULL in 2 rows" in nobody
    (alike,) = find_remarks(run, tmp_path, [*ROWS, "3,5,1"])
    assert "the row key vid is NULL or repeated within an individual in 1 places" in alike


def test_odd_cells_are_told_and_nothing_to_correct(run: Run, tmp_path: Path) -> None:
    said = check_visits(run, tmp_path, [*ROWS, "3,6,maybe", "2,7,1.5"], most=3, wards=["0,4", "1,many", "2,9"])
    assert said["agrees"]
    assert said["odd_cells"] == {"ward": 2, "wards.beds": 1}
    assert [(remark["column"], remark["remark"]) for remark in said["remarks"]] == [
        ("ward", "2 cells are odd (no whole numbers of 64 bits) and count as NULL"),
        ("wards.beds", "1 cell is odd (no whole numbers of 64 bits) and counts as NULL"),
    ]


def test_check_looks_at_the_tables_beside(run: Run, tmp_path: Path) -> None:
    rows = ["1,1,0", "2,2,1"]
    assert find_problems(run, tmp_path, rows, wards=["0,4", "1,10", "2,11"]) == ["values above the upper bound: 2"]
    (found,) = find_problems(run, tmp_path, rows, wards=["0,4", "1,9", "1,9"])
    assert "is not unique" in found


def test_schema_check_counts_what_disagrees(run: Run, patients: Path, patients_schema: Path) -> None:
    text = patients_schema.read_text()
    text = text.replace("individuals = 6", "individuals = 4").replace("[0, 100] }\nward", "[35, 80] }\nward")
    patients_schema.write_text(text.replace('"north", ', "").replace("resolution = 0.25", "resolution = 0.5"))
    outcome = run("schema", patients, "--check", patients_schema, "--json")
    assert outcome.status == 1
    assert outcome.json["agrees"] is False
    findings = {(finding["column"], finding["problem"]) for finding in outcome.json["findings"]}
    assert findings == {
        (None, "the data holds 5 individuals and the schema declares 4"),
        ("age", "values below the lower bound: 1"),
        ("age", "values above the upper bound: 1"),
        ("ward", "values that are not in its list: 1"),
        ("pay", "values that are no multiple of its resolution, and would be rounded: 2"),
    }
    assert "pay: values that are no multiple" in run("schema", patients, "--check", patients_schema).out


def test_why_a_draft_cannot_be_written_is_told_truly(
    run: Run, patients: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    earlier = tmp_path / "draft.toml"
    assert run("schema", patients, "-o", earlier).status == 0
    before = earlier.read_text(encoding="utf-8")
    opened = Path.open

    def fill_disk(path: Path, mode: str = "r", **options: Any) -> Any:
        if mode == "w":
            path.write_bytes(b"the beginning")
        return opened(Path("/dev/full") if mode == "w" else path, mode, **options)

    monkeypatch.setattr(Path, "open", fill_disk)
    full = run("schema", patients, "-o", earlier)
    assert (full.status, full.err.count("the disk is full")) == (2, 1)
    assert "folder" not in full.err
    assert earlier.read_text(encoding="utf-8") == before
    assert [path.name for path in tmp_path.glob("*.part")] + [path.name for path in tmp_path.glob(".*.part")] == []


def test_a_file_that_is_written_again_keeps_who_may_read_it(run: Run, patients: Path, tmp_path: Path) -> None:
    draft = tmp_path / "draft.toml"
    assert run("schema", patients, "-o", draft).status == 0
    draft.chmod(0o640)
    assert run("schema", patients, "-o", draft).status == 0
    assert draft.stat().st_mode & 0o777 == 0o640
