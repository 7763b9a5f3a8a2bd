"""The paper's own numbers through the public command line: its authors' table, and its three patients."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path

import pytest

from dosimeter_paper.reproduction.queries import AUTHORS_EPSILON, QUERIES, RATIOS, MechanismName, PaperQuery
from tests.cli.command_line import Run

# The authors' Δ of an AVG: the range over all rows, even under a WHERE. The others are what the data's bounds give.
BY_HAND = {"Q4": (99 - 1) / 32561}


@pytest.mark.parametrize("mechanism", AUTHORS_EPSILON)
@pytest.mark.parametrize("paper_query", QUERIES, ids=lambda each: each.name)
def test_cell(adult_train: Path, run: Run, mechanism: MechanismName, paper_query: PaperQuery) -> None:
    """The authors' row for 0.75; paper/tests computes the other forty cells in the same way."""
    query = paper_query.name
    words = ["--mechanism", mechanism, "--prefer", "MIN(rdr) / MAX(rdr) >= 0.75", "--groups", "observed", "--json"]
    if mechanism == "gaussian":
        words += ["--calibration", "classic", "--delta", "1/n²"]
    if query in BY_HAND:
        words += ["--sensitivity", repr(BY_HAND[query])]
    outcome = run("find", adult_train, paper_query.sql, "--table", "adult", *words)
    assert (outcome.status, outcome.err) == (0, "")
    document = outcome.json
    assert document["epsilon"] == AUTHORS_EPSILON[mechanism][query][RATIOS.index(0.75)]
    assert (document["n"], document["k"]) == (32561, 6 if query == "Q2" else 1)
    assert document["delta"] == (0.0 if mechanism == "laplace" else pytest.approx(1 / 32561**2, rel=1e-15))


# ---------------------------------------------------------------- three patients, one of them ill

ILL = "SELECT COUNT(*) FROM patients WHERE d = 1"
RDRS = {1.0: (1, 2), 0.1: (10, 11), 0.01: (100, 101)}  # A and B, C


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


def test_the_demo_ends_with_a_release_and_says_what_it_is_worth(run: Run, tmp_path: Path) -> None:
    outcome = run("demo", "-o", tmp_path)
    assert outcome.status == 0
    rows = [line.split() for line in outcome.out.splitlines()]
    assert ["∞", "0", "0", "1", "0.000"] in rows
    assert ["0.1", "10", "10", "11", "0.909"] in rows
    assert (tmp_path / "clinic-range.svg").read_text(encoding="utf-8").startswith("<svg")
    assert re.search(r"mostly:\s5\sof\s6\s|all\s6\snumbers", outcome.out)  # with luck also that of the island
    account = run("ledger", tmp_path / "ledger.db", "--json").json["datasets"][0]
    assert (account["epsilon"], account["entries"][0]["algorithm"]) == (0.5, "fixed")
