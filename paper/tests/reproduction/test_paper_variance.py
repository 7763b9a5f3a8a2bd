"""The noisy test's runs and chances, by other roads: simulation, the product's own V3, everybody's RDR written out."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from scipy.stats import chi2

from dosimeter.release.selection import SelectionProblem, outcome_distribution, violation_share
from dosimeter.risk.largest_epsilon import paper_candidates
from dosimeter_paper.reproduction.queries import AVERAGE, MECHANISMS, QUERIES, VARIANCES, Adult, MechanismName
from dosimeter_paper.reproduction.variance import (
    Normaliser,
    ReleaseProbabilities,
    Trial,
    _spreads,
    expect_sparse_vector,
    run_sparse_vector,
    state_problem,
    study_variance,
)
from reproduction.paper_command import Paper

ADDITIVE = [query for query in QUERIES if query.name != AVERAGE]


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("query", ADDITIVE, ids=lambda query: query.name)
def test_chances_agree_with_the_products_own(opened: Adult, mechanism: MechanismName, query: object) -> None:
    """Two quadratures, two ways to the levels. Δ_svt is 1/n in the paper and (n − 1)/n² here, hence n²/(n − 1)."""
    risk = opened.assess(query, mechanism, "authors")  # type: ignore[arg-type]
    levels = _spreads(risk, "ceiling")
    for threshold in (1e-9, 1e-5):
        n = risk.n**2 / (risk.n - 1)
        ours = expect_sparse_vector(levels, threshold, n)  # type: ignore[arg-type]
        problem = state_problem(risk, threshold)
        outcome = outcome_distribution(problem, method="paper")
        assert ours.chances == pytest.approx(outcome.probabilities, abs=2e-7)
        assert ours.denial == pytest.approx(outcome.denial, abs=2e-7)
        assert ours.violations == pytest.approx(violation_share(problem, outcome), abs=1e-6)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("normalise", ["ceiling", "data"])
def test_levels_are_the_variance_over_everybody(opened: Adult, mechanism: MechanismName, normalise: Normaliser) -> None:
    """Everybody's RDR written out, by the formulas of R3 and R4, for the query with RDRs above RDR*."""
    risk = opened.assess(QUERIES[3], mechanism, "authors")
    people = np.repeat(risk.sensitivities.values, risk.sensitivities.counts)
    delta, n = opened.hand_sensitivity, len(people)
    expected = []
    for epsilon in paper_candidates():
        if mechanism == "laplace":
            rdr, ceiling = people + delta / epsilon, delta + delta / epsilon
        else:
            square = 2 * delta**2 * np.log(1.25 * n**2) / epsilon**2
            rdr, ceiling = np.sqrt(people**2 + square), np.sqrt(delta**2 + square)
        expected.append(np.var(rdr / (ceiling if normalise == "ceiling" else rdr.max())))
    assert _spreads(risk, normalise) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_normalising_by_the_data_is_another_problem(opened: Adult, mechanism: MechanismName) -> None:
    """With PIS_max for Δ and every ε times PIS_max/Δ the noise is the same: a problem that selection accepts."""
    risk = opened.assess(QUERIES[3], mechanism, "authors")
    largest = float(risk.sensitivities.values.max())
    problem = SelectionProblem(
        n=risk.n,
        k=1,
        sensitivity=largest,
        mechanism=risk.mechanism,
        values=risk.sensitivities.values,
        counts=risk.sensitivities.counts,
        candidates=tuple(epsilon * largest / risk.sensitivity for epsilon in paper_candidates()),
        threshold=1e-5,
        epsilon_svt=1.0,
    )
    expected = outcome_distribution(problem, method="paper").probabilities
    n = risk.n**2 / (risk.n - 1)
    ours = expect_sparse_vector(_spreads(risk, "data"), 1e-5, n)  # type: ignore[arg-type]
    assert ours.chances == pytest.approx(expected, abs=2e-7)


def test_runs_have_these_chances(opened: Adult) -> None:
    """Pearson's test over the outcomes, those expected fewer than 25 times put together; n = 3,000, α = 5·10⁻⁸."""
    risk = opened.assess(QUERIES[0], "laplace", "authors")
    levels = _spreads(risk, "ceiling")
    runs = 3_000
    found = run_sparse_vector(levels, 1e-5, risk.n, runs)
    expected = expect_sparse_vector(levels, 1e-5, risk.n)
    assert sum(expected.chances) + expected.denial == pytest.approx(1.0, abs=1e-12)
    pairs = [(found.count(e), runs * p) for e, p in zip(paper_candidates(), expected.chances, strict=True)]
    pairs.append((found.count(None), runs * expected.denial))
    kept = [pair for pair in pairs if pair[1] >= 25]
    rest = [pair for pair in pairs if pair[1] < 25]
    kept.append((sum(pair[0] for pair in rest), sum(pair[1] for pair in rest)))
    statistic = sum((seen - wanted) ** 2 / wanted for seen, wanted in kept)
    assert chi2.sf(statistic, len(kept) - 1) > 5e-8


@pytest.mark.parametrize(("source", "factor"), [("label", 1.0), ("code", 10.0)])
def test_study_has_every_cell(opened: Adult, source: Literal["label", "code"], factor: float) -> None:
    study = study_variance(opened, thresholds=source, runs=3)
    assert len(study.trials) == 2 * 5 * 4
    assert sorted({trial.threshold / trial.label for trial in study.trials}) == pytest.approx([factor])
    candidates = {*paper_candidates(), None}
    for trial in study.trials:
        assert len(trial.found) == 3
        assert set(trial.found) <= candidates
        for outcomes in (trial.paper, trial.sharp):
            assert sum(outcomes.chances) + outcomes.denial == pytest.approx(1.0, abs=1e-9)
    document: dict[str, Any] = study.document()
    assert {trial["query"] for trial in document["trials"] if not trial["for_release"]} == {"Q4"}
    assert "never for a release" in study.words[-1]


def test_ten_times_the_threshold_finds_larger_epsilons(opened: Adult) -> None:
    levels = _spreads(opened.assess(QUERIES[0], "laplace", "authors"), "ceiling")
    label, code = (expect_sparse_vector(levels, threshold, 32_561) for threshold in (1e-5, 1e-4))
    assert label.met == 0.1
    assert code.met is not None
    assert code.met > label.met
    assert sum(code.chances[:10]) > sum(label.chances[:10])


def test_quantiles_and_violations_of_a_known_distribution() -> None:
    chances = tuple([0.0] * 35 + [0.25, 0.25])  # 0.002 and 0.001
    outcomes = ReleaseProbabilities(chances, denial=0.5, violations=0.5, met=0.001)
    assert [outcomes.quantile(share) for share in (0.25, 0.5, 0.6, 0.75, 0.9, 1.0)] == [
        None, None, 0.001, 0.001, 0.002, 0.002,
    ]  # fmt: skip
    trial = Trial("laplace", "Q1", 1e-5, 1e-5, (None, 0.001, 0.002, 10.0), outcomes, outcomes)
    assert trial.violating_runs == 2


def test_command_writes_chances_that_add_up(paper: Paper, adult_train: Path, tmp_path: Path) -> None:
    options = ("--runs", 2, "--thresholds", "code", "--normalise", "data", "--json")
    ended = paper("variance", "--data", adult_train, "-o", tmp_path, *options)
    assert ended.status == 0
    assert (ended.document["thresholds"], ended.document["normalise"], ended.document["runs"]) == ("code", "data", 2)
    assert {path.name for path in tmp_path.iterdir()} == {"variance.csv", "variance.svg", "variance.png"}
    with (tmp_path / "variance.csv").open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert len(rows) == 40 * 2 * 38
    assert sum(float(row["chance"]) for row in rows) == pytest.approx(80.0)
    assert sum(int(row["runs"]) for row in rows if row["selection"] == "paper") == 80
    assert len(VARIANCES) == 4
