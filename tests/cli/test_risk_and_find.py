"""`dosimeter risk` and `dosimeter find`, option by option, on five people who can be counted by hand."""

from __future__ import annotations

import csv
import io
import math
import re
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from tests.cli.command_line import Run, check_refusal

SUM = "SELECT SUM(age) FROM patients"
EAST = "SELECT COUNT(*) FROM patients WHERE ward = 'east'"
WARDS = "SELECT ward, COUNT(*) AS people FROM patients GROUP BY ward"
AGES = [30, 40, 40, 0, 90]  # Dan's is NULL; one of the six declared slots is empty, and nobody is counted for it (N5)

# ---------------------------------------------------------------- risk


def test_risk_json(run: Run, patients: Path, patients_schema: Path) -> None:
    outcome = run("risk", patients, SUM, "--schema", patients_schema, "--epsilon", 1, "--epsilon", 0.5, "--json")
    assert (outcome.status, outcome.err) == (0, "")
    document = outcome.json
    assert (document["n"], document["k"], document["sensitivity"]) == (6, 1, 100.0)
    assert (document["people"], document["matched"]) == (5, 5)
    assert "5 people are in the table; 6 were declared." in document["notes"]
    bars = {bar["value"]: bar["count"] for bar in document["sensitivities"]["histogram"]}
    assert bars == {0.0: 1, 30.0: 1, 40.0: 2, 90.0: 1}
    assert document["sensitivities"]["distinct"] == 4
    assert document["sensitivities"]["mean"] == pytest.approx(np.mean(AGES))
    assert document["sensitivities"]["variance"] == pytest.approx(np.var(AGES))
    for line, scale in zip(document["candidates"], (100.0, 200.0), strict=True):
        rdrs = np.array(AGES) + scale  # R3
        assert line["noise_scale"] == scale
        assert line["rdr"] == pytest.approx(
            {
                "min": rdrs.min(), "max": rdrs.max(), "mean": rdrs.mean(), "median": np.median(rdrs),
                "variance": rdrs.var(), "ratio": rdrs.min() / rdrs.max(),
            }
        )  # fmt: skip
        tail = [2 * math.exp(-(t + 1) / scale) / (1 + math.exp(-1 / scale)) for t in range(2000)]
        assert line["error_95"] == [next(t for t, beyond in enumerate(tail) if beyond <= 0.05)]


def test_risk_looks_at_the_papers_candidates_by_default(run: Run, patients: Path) -> None:
    document = run("risk", patients, EAST, "--json").json
    assert len(document["candidates"]) == 37
    assert document["n"] == 5  # without a schema people are counted
    assert any("No schema was given" in note for note in document["notes"])


def test_gaussian(run: Run, patients: Path, patients_schema: Path) -> None:
    words = ["risk", patients, WARDS, "--schema", patients_schema, "--mechanism", "gaussian", "--epsilon", 0.8]
    classic = run(*words, "--calibration", "classic", "--delta", "1/n^2", "--json").json
    assert (classic["calibration"], classic["delta"], classic["k"]) == ("classic", pytest.approx(1 / 36), 3)
    (line,) = classic["candidates"]
    assert line["noise_scale"] == pytest.approx(math.sqrt(2 * math.log(1.25 * 36)) / 0.8)  # M2
    default, smaller = (run(*words, *delta, "--json").json for delta in ((), ("--delta", 1e-9)))
    assert (default["calibration"], default["delta"]) == ("zcdp", pytest.approx(1 / 36))
    assert smaller["candidates"][0]["noise_scale"] > default["candidates"][0]["noise_scale"]


def test_top_masks_what_identifies(run: Run, patients: Path, patients_schema: Path) -> None:
    words = ["risk", patients, SUM, "--schema", patients_schema, "--epsilon", 1, "--top", 3]
    document = run(*words, "--json").json
    assert [(person["people"], person["sensitivity"], person["record"]) for person in document["most_exposed"]] == [
        (1, 90.0, {"name": "•••", "age": 90}),
        (2, 40.0, {"name": "•••", "age": 40}),
        (1, 30.0, {"name": "•••", "age": 30}),
    ]
    mean = 100 + sum(AGES) / 5
    assert document["most_exposed"][0] == {
        "people": 1, "sensitivity": 90.0, "why": "sum_age from 200 to 110", "times_average": pytest.approx(190 / mean),
        "own_epsilon": pytest.approx(0.9), "record": {"name": "•••", "age": 90},
    }  # fmt: skip
    revealed = run(*words, "--reveal", "--json").json["most_exposed"]
    assert [person["record"]["name"] for person in revealed] == ["Zara", "Bob", "Cleo"]
    chosen = run(*words, "--columns", "ward, since", "--json").json["most_exposed"]
    assert chosen[0]["record"] == {"ward": "north", "since": "2021-12-31"}
    assert run(*words, "--columns", "NAME,ward", "--json").json["most_exposed"][0]["record"]["name"] == "•••"
    for extra in ([], ["--columns", "name,age"]):
        text = run(*words, *extra).out
        assert "•••" in text
        assert not any(name in text for name in ("Ann", "Bob", "Cleo", "Zara"))
    assert "Zara" in run(*words, "--reveal").out


def test_exact_indicator_of_the_most_exposed_in_several_groups(run: Run, patients: Path, patients_schema: Path) -> None:
    """Two measures: Bob and Cleo move two cells, Zara as well, and the norm alone does not give their RDR (C9)."""
    query = "SELECT COUNT(*), SUM(pay) FROM patients"
    words = ["risk", patients, query, "--schema", patients_schema, "--indicator", "exact", "--epsilon", 2, "--json"]
    document = run(*words, "--top", 5).json
    grid = 0.25 / 100  # the resolution, in units of SUM(pay)'s own Δ (S5); b = 2/2 = 1 in those units

    def expected(pay: float | None) -> float:
        changes = [(1, 1.0), ((pay or 0) / 100, grid)]
        return sum(abs(c) + g * math.exp(-abs(c)) / math.sinh(g) for c, g in changes)

    everybody = [expected(pay) for pay in (10.5, 20.25, 30.0, None, 99.75)]
    assert [person["times_average"] for person in document["most_exposed"]] == pytest.approx(
        [value / np.mean(everybody) for value in sorted(everybody, reverse=True)]
    )


def test_by_column(run: Run, patients: Path, patients_schema: Path) -> None:
    words = ["risk", patients, SUM, "--schema", patients_schema, "--epsilon", 1, "--by", "Ward"]
    document = run(*words, "--json").json
    mean = 100 + sum(AGES) / 5
    assert document["by"] == {
        "column": "Ward",
        "epsilon": 1.0,
        "groups": [
            {"group": "east", "people": 2, "median": pytest.approx(135 / mean), "max": pytest.approx(140 / mean)},
            {"group": "north", "people": 1, "median": pytest.approx(190 / mean), "max": pytest.approx(190 / mean)},
            {"group": "west", "people": 2, "median": pytest.approx(120 / mean), "max": pytest.approx(140 / mean)},
        ],
    }
    text = run(*words).out
    assert re.search(r"north\s+1\s", text)
    dates = run("risk", patients, SUM, "--epsilon", 1, "--by", "since", "--json").json["by"]["groups"]
    assert [group["group"] for group in dates] == ["2020-01-01", "2020-06-01", "2021-01-01", "2021-12-31", None]


def test_output_csv_and_parquet(run: Run, patients: Path, tmp_path: Path) -> None:
    for name in ("out.csv", "out.parquet"):
        assert run("risk", patients, SUM, "--epsilon", 1, "--epsilon", 0.1, "-o", tmp_path / name).status == 0
    read = pa.parquet.read_table(tmp_path / "out.parquet")
    assert read.column_names == ["sensitivity", "people", "rdr_1.0", "rdr_0.1"]
    assert read.column("people").to_pylist() == [1, 1, 2, 1]
    width = 90.0  # drafted bounds 30 … 90
    assert read.column("rdr_0.1").to_pylist() == pytest.approx([value + 10 * width for value in (0, 30, 40, 90)])
    with (tmp_path / "out.csv").open(newline="") as stream:
        assert [float(row["sensitivity"]) for row in csv.DictReader(stream)] == [0.0, 30.0, 40.0, 90.0]


def test_all_shows_every_candidate(run: Run, patients: Path) -> None:
    words = ["find", patients, EAST, "--prefer", "ratio:0.9"]
    few, every = run(*words).out, run(*words, "--all").out
    assert "37 candidates" in few
    assert not re.search(r"^\s*0\.007\s", few, re.MULTILINE)
    assert re.search(r"^\s*0\.007\s", every, re.MULTILINE)


def test_sql_from_a_file_and_from_standard_input(
    run: Run, patients: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "query.sql").write_text(f"{SUM}\n-- everybody's age\n", encoding="utf-8")
    assert run("risk", patients, f"@{tmp_path / 'query.sql'}", "--epsilon", 1, "--json").json["query"].startswith(SUM)
    for name in ("-", "@-"):
        monkeypatch.setattr(sys, "stdin", io.StringIO(SUM))
        assert run("risk", patients, name, "--epsilon", 1, "--json").json["query"] == SUM
    monkeypatch.setattr(sys, "stdin", None)
    assert run("risk", patients, "-").status == 2
    for source in ("-", "/dev/stdin"):  # read more than once
        check_refusal(run("risk", source, SUM), "standard input")


# ---------------------------------------------------------------- find


def test_find_json(run: Run, patients: Path, patients_schema: Path) -> None:
    outcome = run("find", patients, SUM, "--schema", patients_schema, "--prefer", "ratio:0.75", "--json")
    assert (outcome.status, outcome.err) == (0, "")
    document = outcome.json
    limit = 100 * 0.25 / (0.75 * 90)  # F2: kΔ(1 − τ)/(τ·PIS_max − PIS_min)
    assert (document["epsilon"], document["limit"]) == (0.3, pytest.approx(limit))
    assert document["preference"] == "MIN(rdr) / MAX(rdr) >= 0.75"
    for line in document["candidates"]:
        scale = 100 / line["epsilon"]
        assert line["value"] == pytest.approx(scale / (90 + scale))
        assert line["satisfied"] is (line["epsilon"] <= limit)


def test_find_with_several_conditions(run: Run, patients: Path, patients_schema: Path) -> None:
    prefer = "MIN(rdr)/MAX(rdr) >= 0.5 AND AVG(rdr) <= 1.2 * MIN(rdr)"
    joined = run("find", patients, SUM, "--schema", patients_schema, "--json", "--prefer", prefer).json
    assert {line["value"] for line in joined["candidates"]} == {None}
    assert joined["epsilon"] == 0.5  # 1 + 200/5·ε/100 ≤ 1.2: ε ≤ 0.5; the ratio allows 1.11


# ---------------------------------------------------------------- by hand, observed groups, a floor


def test_hand_made_sensitivity_measures_the_average_directly(run: Run, patients: Path) -> None:
    query = "SELECT AVG(age) FROM patients WHERE age IS NOT NULL"
    document = run("risk", patients, query, "--sensitivity", 15, "--epsilon", 1, "--json").json
    ages = [30, 40, 40, 90]
    moved = [abs(np.mean(ages) - np.mean(ages[:at] + ages[at + 1 :])) for at in range(4)]
    assert document["k"] == 1
    assert document["sensitivities"]["max"] == pytest.approx(max(moved))
    assert document["candidates"][0]["noise_scale"] == 15
    assert any("by hand" in note for note in document["notes"])


def test_observed_groups_and_a_floor_on_rows(run: Run, patients: Path, patients_schema: Path) -> None:
    where = "SELECT ward, COUNT(*) FROM patients WHERE age >= 40 GROUP BY ward"
    north = where.replace(">= 40", "> 40")
    words = ["--schema", patients_schema, "--epsilon", 1, "--json"]
    assert run("risk", patients, north, *words).json["k"] == 3
    observed = run("risk", patients, north, *words, "--groups", "observed").json
    assert observed["k"] == 1
    assert any("observed" in note for note in observed["notes"])
    mean = run("risk", patients, "SELECT AVG(age) FROM patients", *words, "--min-rows", 4).json
    assert (mean["k"], mean["sensitivity"]) == (1, pytest.approx(100 / 5))  # S2
    told = run("explain", "SELECT AVG(age) FROM patients", "--schema", patients_schema, "--min-rows", 9, "--json").json
    assert told["sensitivity"]["laplace"] == pytest.approx(100 / 10)
