"""V3 against frequencies: the integers that are really run, and the paper's algorithm simulated in floats.

χ² tests of goodness of fit. Draws from OpenDP cannot be seeded, so those tests use α = 5e-8; simulations in NumPy are
seeded and use α = 1e-3. Each says its n. Cells with fewer than 10 expected runs are pooled.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from dosimeter.mechanisms import Gaussian, Laplace
from dosimeter.mechanisms.mechanism import Mechanism
from dosimeter.options import Selection
from dosimeter.release.noise import draw_discrete_laplace
from dosimeter.release.selection import (
    OutcomeProbabilities,
    SelectionProblem,
    outcome_distribution,
    prepare_test,
    select_epsilon,
)
from dosimeter.risk.largest_epsilon import paper_candidates
from tests.statistical.conftest import PEOPLE
from tests.statistical.fits import fit_pooled

ALPHA = 5e-8
LAPLACE = Laplace()
GAUSSIAN = Gaussian(1e-6)
METHODS: list[Selection] = ["paper", "sharp"]
CASES: list[tuple[Mechanism, Selection]] = list(product([LAPLACE, GAUSSIAN], METHODS))
IDS = [f"{mechanism.name}-{method}" for mechanism, method in CASES]


def make_problem(mechanism: Mechanism, method: Selection) -> SelectionProblem:
    """400 slots, eight candidates; thresholds at which several candidates and a denial all happen."""
    threshold, epsilon_svt = {
        ("laplace", "paper"): (0.02, 1.0),
        ("laplace", "sharp"): (0.004, 0.03),
        ("gaussian", "paper"): (0.006, 0.5),
        ("gaussian", "sharp"): (0.0004, 0.05),
    }[mechanism.name, method]
    return SelectionProblem(
        n=400,
        k=2,
        sensitivity=4.0,
        mechanism=mechanism,
        values=np.array([0.0, 1.0, 2.5, 4.0]),
        counts=np.array([300, 20, 20, 60]),
        candidates=(8.0, 5.0, 3.0, 2.0, 1.5, 1.0, 0.8, 0.6),
        threshold=threshold,
        epsilon_svt=epsilon_svt,
    )


def fit(counts: Sequence[int], outcome: OutcomeProbabilities) -> float:
    """The χ² p-value of counts per candidate, denial last."""
    return fit_pooled(counts, [*outcome.probabilities, outcome.denial])


def run_integers(problem: SelectionProblem, method: Selection, runs: int) -> list[int]:
    """How often each outcome came, by the integer test itself and OpenDP's noise, drawn in bulk."""
    test, size = prepare_test(problem, method=method), len(problem.candidates)
    counts = [0] * (size + 1)
    shared = draw_discrete_laplace(test.shared_scale, runs)
    own = draw_discrete_laplace(test.own_scale, runs * size) if test.own_scale is not None else None
    for run in range(runs):
        index = test.first_passing(shared[run], own[run * size : (run + 1) * size] if own is not None else None)
        counts[size if index is None else index] += 1
    return counts


def simulate_floats(problem: SelectionProblem, method: Selection, runs: int, seed: int) -> list[int]:
    """V1, V5 and V6 as written, on n slots one by one, with NumPy's Laplace noise: another road than the integers."""
    generator = np.random.default_rng(seed)
    slots = np.repeat(problem.values, problem.counts)
    n, k, top = problem.n, problem.k, problem.sensitivity
    unit = (n - 1) / n**2
    q, w = [], []
    for epsilon in problem.candidates:
        scale = problem.mechanism.scale(top, epsilon)
        if problem.mechanism.name == "laplace":
            q.append(np.var((slots + k * scale) / (top + k * scale)))
            w.append(epsilon / (epsilon + k))
        else:
            ceiling = math.sqrt(top**2 + k * scale**2)
            q.append(np.var(np.sqrt(slots**2 + k * scale**2) / ceiling))
            w.append(1.0 - math.sqrt(k) * scale / ceiling)
    variances, weights = np.array(q), np.array(w)
    if method == "sharp":
        gaussian = problem.mechanism.name == "gaussian"
        tested = np.square(slots / top) if gaussian else slots / top
        ratios = np.array(
            [math.sqrt(k) * problem.mechanism.scale(top, epsilon) / top for epsilon in problem.candidates]
        )
        slopes = 1.0 / (2.0 * ratios * np.sqrt(1.0 + ratios**2)) if gaussian else weights  # V6, V5
        noisy = np.var(tested) + generator.laplace(scale=unit / problem.epsilon_svt, size=runs)
        passing = noisy[:, None] * slopes**2 <= problem.threshold
    else:
        first = problem.epsilon_svt / (1 + 2 ** (2 / 3))
        rho = generator.laplace(scale=unit / first, size=(runs, 1))
        nu = generator.laplace(scale=2 * unit / (problem.epsilon_svt - first), size=(runs, len(weights)))
        passing = -variances + nu >= -problem.threshold + rho
    index = np.where(passing.any(axis=1), passing.argmax(axis=1), len(weights))
    return [int(count) for count in np.bincount(index, minlength=len(weights) + 1)]


# ---------------------------------------------------------------- V3


@pytest.mark.parametrize(("mechanism", "method"), CASES, ids=IDS)
def test_floats_follow_the_distribution(mechanism: Mechanism, method: Selection) -> None:
    """n = 200,000, α = 1e-3, seeded."""
    problem = make_problem(mechanism, method)
    counts = simulate_floats(problem, method, 200_000, seed=5)
    assert fit(counts, outcome_distribution(problem, method=method)) > 1e-3


@pytest.mark.parametrize(
    ("mechanism", "method", "runs"),
    [
        pytest.param(*case, 20_000 if at < 2 else 50_000, id=IDS[at], marks=[] if at < 2 else pytest.mark.long)
        for at, case in enumerate(CASES)
    ],
)
def test_integers_follow_the_distribution(mechanism: Mechanism, method: Selection, runs: int) -> None:
    """n = 20,000 or 50,000, α = 5e-8. The same counts do not fit a budget half as large again: the test has power."""
    problem = make_problem(mechanism, method)
    counts = run_integers(problem, method, runs)
    assert fit(counts, outcome_distribution(problem, method=method)) > ALPHA
    other = replace(problem, epsilon_svt=1.5 * problem.epsilon_svt)
    assert fit(counts, outcome_distribution(other, method=method)) < ALPHA


@pytest.mark.long
@pytest.mark.parametrize(("mechanism", "method"), CASES, ids=IDS)
def test_the_real_thing_follows_the_distribution(mechanism: Mechanism, method: Selection) -> None:
    """``select_epsilon`` itself, certification included. n = 20,000, α = 5e-8."""
    problem = make_problem(mechanism, method)
    index = {epsilon: j for j, epsilon in enumerate(problem.candidates)}
    counts = [0] * (len(index) + 1)
    for _ in range(20_000):
        epsilon = select_epsilon(problem, method=method)
        counts[len(index) if epsilon is None else index[epsilon]] += 1
    assert fit(counts, outcome_distribution(problem, method=method)) > ALPHA


# ---------------------------------------------------------------- V5, on Adult


@pytest.fixture(scope="module")
def adult(matching: int) -> SelectionProblem:
    """COUNT(*) WHERE income = '>50K' AND education_num = 13 AND age = 25, at τ = 1e-5, ε_svt = 1."""
    assert 0 < matching < 100
    return SelectionProblem(
        n=PEOPLE,
        k=1,
        sensitivity=1.0,
        mechanism=LAPLACE,
        values=np.array([0.0, 1.0]),
        counts=np.array([PEOPLE - matching, matching]),
        candidates=paper_candidates(),
        threshold=1e-5,
        epsilon_svt=1.0,
        two_valued=True,
    )


def test_floats_follow_the_distribution_on_the_papers_data(adult: SelectionProblem) -> None:
    """n = 100,000, α = 1e-3, seeded. What the sharp method releases here is nearly always the same ε."""
    counts = simulate_floats(adult, "paper", 100_000, seed=3)
    assert fit(counts, outcome_distribution(adult, method="paper")) > 1e-3
