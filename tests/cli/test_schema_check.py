"""``dosimeter schema --check`` for individuals with many rows, and for the tables beside theirs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from command_line import Run

VISITS = """table = "visits"
individuals = {individuals}
unit = "pid"
max_rows_per_unit = {most}
row_key = "vid"
[columns.pid]
type = "integer"
[columns.vid]
type = "integer"
[columns.ward]
type = "integer"
[tables.wards]
public = true
key = "ward"
source = "{wards}"
[tables.wards.columns.ward]
type = "integer"
[tables.wards.columns.beds]
type = "integer"
bounds = [0, 9]
"""


def check_visits(
    run: Run,
    folder: Path,
    rows: Sequence[str],
    *,
    individuals: int = 3,
    most: int = 2,
    wards: Sequence[str] = ("0,4", "1,9"),
) -> list[str]:
    """What --check finds in these rows of (pid, vid, ward), and in the wards' (ward, beds)."""
    data, facts, beside = folder / "visits.csv", folder / "visits.toml", folder / "wards.csv"
    data.write_text("\n".join(["pid,vid,ward", *rows]) + "\n")
    beside.write_text("\n".join(["ward,beds", *wards]) + "\n")
    facts.write_text(VISITS.format(individuals=individuals, most=most, wards=beside))
    result = run("schema", data, "--check", facts, "--json")
    assert result.status == (1 if result.json["findings"] else 0)
    return [finding["problem"] for finding in result.json["findings"]]


def test_check_counts_individuals_and_not_their_rows(run: Run, tmp_path: Path) -> None:
    rows = ["1,1,0", "1,2,0", "2,3,1", "2,4,1", "3,5,0"]
    assert check_visits(run, tmp_path, rows) == []
    assert check_visits(run, tmp_path, rows, individuals=2) == [
        "the data holds 3 individuals and the schema declares 2"
    ]
    (found,) = check_visits(run, tmp_path, [*rows, "2,6,1", "2,7,1"])
    assert "up to 4 rows" in found
    (found,) = check_visits(run, tmp_path, [*rows, ",6,1"])
    assert "is NULL in 1 rows" in found
    (found,) = check_visits(run, tmp_path, [*rows, "2,3,1"])
    assert "does not tell an individual's rows apart" in found


def test_check_looks_at_the_tables_beside(run: Run, tmp_path: Path) -> None:
    rows = ["1,1,0", "2,2,1"]
    assert check_visits(run, tmp_path, rows, wards=["0,4", "1,10", "2,11"]) == ["values above the upper bound: 2"]
    (found,) = check_visits(run, tmp_path, rows, wards=["0,4", "1,9", "1,9"])
    assert "is not unique" in found
