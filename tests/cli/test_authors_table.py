"""The paper's own numbers through the public command line: its authors' table of 50 ε's, and its three patients."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pytest

from dosimeter import Dataset
from tests.cli.command_line import Run

QUERIES = {
    "Q1": "SELECT COUNT(*) FROM adult WHERE income == '>50K' AND education_num == 13 AND age == 25",
    "Q2": "SELECT marital_status, COUNT(*) FROM adult WHERE race == 'Asian-Pac-Islander' AND age >= 30 AND age <= 40 "
    "GROUP BY marital_status",
    "Q3": "SELECT COUNT(*) FROM adult WHERE native_country != 'United-States' AND sex == 'Female'",
    "Q4": "SELECT AVG(hours_per_week) FROM adult WHERE workclass == 'Federal-gov' OR workclass == 'Local-gov' "
    "OR workclass == 'State-gov'",
    "Q5": "SELECT SUM(capital_gain) FROM adult",
}
# The authors' Δ of an AVG: the range over all rows, even under a WHERE. The others are what the data's bounds give.
BY_HAND = {"Q4": (99 - 1) / 32561}
THRESHOLDS = (0.95, 0.75, 0.50, 0.25, 0.05)
FOUND = {
    ("laplace", "Q1"): (0.05, 0.3, 1, 3, 10),
    ("laplace", "Q2"): (0.3, 2, 6, 10, 10),
    ("laplace", "Q3"): (0.05, 0.3, 1, 3, 10),
    ("laplace", "Q4"): (0.01, 0.07, 0.2, 0.6, 4),
    ("laplace", "Q5"): (0.05, 0.3, 1, 3, 10),
    ("gaussian", "Q1"): (2, 5, 10, 10, 10),
    ("gaussian", "Q2"): (5, 10, 10, 10, 10),
    ("gaussian", "Q3"): (2, 5, 10, 10, 10),
    ("gaussian", "Q4"): (0.4, 1, 2, 5, 10),
    ("gaussian", "Q5"): (2, 5, 10, 10, 10),
}
CELLS = [
    (mechanism, query, threshold, epsilon)
    for (mechanism, query), row in FOUND.items()
    for threshold, epsilon in zip(THRESHOLDS, row, strict=True)
]


def write_arguments(adult: Path, mechanism: str, query: str, threshold: float) -> list[str]:
    words = ["find", str(adult), QUERIES[query], "--table", "adult", "--groups", "observed", "--json"]
    words += ["--mechanism", mechanism, "--prefer", f"MIN(rdr) / MAX(rdr) >= {threshold}"]
    if mechanism == "gaussian":
        words += ["--calibration", "classic", "--delta", "1/n²"]
    if query in BY_HAND:
        words += ["--sensitivity", repr(BY_HAND[query])]
    return words


@pytest.mark.parametrize(("mechanism", "query", "threshold", "epsilon"), CELLS)
def test_cell(adult_train: Path, run: Run, mechanism: str, query: str, threshold: float, epsilon: float) -> None:
    outcome = run(*write_arguments(adult_train, mechanism, query, threshold))
    assert (outcome.status, outcome.err) == (0, "")
    document = outcome.json
    assert document["epsilon"] == epsilon
    assert (document["n"], document["k"]) == (32561, 6 if query == "Q2" else 1)
    assert document["delta"] == (0.0 if mechanism == "laplace" else pytest.approx(1 / 32561**2, rel=1e-15))


def test_every_cell_is_there() -> None:
    assert len(CELLS) == len({cell[:3] for cell in CELLS}) == 50


@pytest.mark.parametrize("query", ["Q2", "Q4"])
def test_cell_from_a_shell(adult_train: Path, query: str) -> None:
    words = write_arguments(adult_train, "gaussian", query, 0.95)
    finished = subprocess.run(
        [sys.executable, "-m", "dosimeter", *words], capture_output=True, text=True, check=True, timeout=300
    )
    assert json.loads(finished.stdout)["epsilon"] == FOUND["gaussian", query][0]
    assert finished.stderr == ""


# ---------------------------------------------------------------- three patients, one of them ill

ILL = "SELECT COUNT(*) FROM patients WHERE d = 1"
RDRS = {1.0: (1, 2), 0.1: (10, 11), 0.01: (100, 101)}  # A and B, C


def test_three_patients_in_python() -> None:
    with Dataset.open(pa.table({"p": ["A", "B", "C"], "d": [0, 0, 1]}), table="patients") as dataset:
        risk = dataset.risk(ILL)
        assert risk.rdr(float("inf")).values.tolist() == [0.0, 1.0]
        assert risk.sensitivities.counts.tolist() == [2, 1]
        for epsilon, (healthy, ill) in RDRS.items():
            assert risk.rdr(epsilon).values.tolist() == pytest.approx([healthy, ill], rel=1e-15)
        choice = risk.find("ratio:0.9")
        assert (choice.epsilon, choice.limit) == (0.1, pytest.approx(1 / 9))
        assert [candidate.value for candidate in risk.find("ratio:0.9", candidates=[1, 0.1, 0.01]).candidates] == (
            pytest.approx([float(Fraction(*pair)) for pair in RDRS.values()], rel=1e-15)
        )


def test_three_patients_on_the_command_line(tmp_path: Path, run: Run) -> None:
    path = tmp_path / "patients.csv"
    path.write_text("p,d\nA,0\nB,0\nC,1\n")
    looked = run("risk", path, ILL, "--epsilon", 1, "--epsilon", 0.1, "--epsilon", 0.01, "--json").json
    assert looked["sensitivities"]["histogram"] == [{"value": 0.0, "count": 2}, {"value": 1.0, "count": 1}]
    for line in looked["candidates"]:
        healthy, ill = RDRS[line["epsilon"]]
        assert (line["rdr"]["min"], line["rdr"]["max"]) == pytest.approx((healthy, ill), rel=1e-15)
        assert line["rdr"]["ratio"] == pytest.approx(float(Fraction(healthy, ill)), rel=1e-15)
    found = run("find", path, ILL, "--prefer", "ratio:0.9", "--json").json
    assert (found["epsilon"], found["limit"]) == (0.1, pytest.approx(1 / 9))


def test_three_patients_in_the_demo(run: Run, tmp_path: Path) -> None:
    outcome = run("demo", "-o", tmp_path)
    assert outcome.status == 0
    rows = [line.split() for line in outcome.out.splitlines()]
    assert ["∞", "0", "0", "1", "0.000"] in rows
    assert ["0.1", "10", "10", "11", "0.909"] in rows
    assert "the largest ε is 0.1." in " ".join(outcome.out.split())
    assert (tmp_path / "clinic-range.svg").read_text(encoding="utf-8").startswith("<svg")


def test_the_demo_ends_with_a_release_and_says_what_it_is_worth(run: Run, tmp_path: Path) -> None:
    words = " ".join(run("demo", "-o", tmp_path).out.split())
    assert "Most exposed: 11 people, all alike." in words
    assert "Warning: at ε = 0.5 the answer would be worth little." in words
    assert "0.5-differentially private for each of the 4,000 individuals" in words
    assert re.search(r"Is it worth anything\? Yes, mostly: 5 of 6 numbers are larger than their error", words) or (
        "Yes: all 6 numbers are larger" in words  # with luck also that of the island
    )
    account = run("ledger", tmp_path / "ledger.db", "--json").json["datasets"][0]
    assert (account["epsilon"], account["entries"][0]["algorithm"]) == (0.5, "fixed")
