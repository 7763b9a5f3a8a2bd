"""What comes out when ε is found privately (V3, V4, V7): its distribution, accuracy and promise, by other roads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations_with_replacement, pairwise, product

import mpmath
import numpy as np
import pytest

from dosimeter.mechanisms.mechanism import Mechanism
from dosimeter.options import Selection
from dosimeter.release import selection
from dosimeter.release.noise import certified_scale
from dosimeter.release.selection import (
    SelectionProblem,
    difference_tail,
    find_margin,
    find_passing,
    known_outcome,
    noisy_test_accuracy,
    normalised_variance,
    outcome_distribution,
    prepare_test,
    violation_probability,
    violation_share,
)
from dosimeter.risk.largest_epsilon import paper_candidates
from tests.math.selection_problems import (
    LAPLACE,
    METHODS,
    ZCDP,
    make_problem,
    precise_normalised,
    precise_variance,
    varied_problem,
)

# ---------------------------------------------------------------- V3: the outcome's distribution


def precise_outcome(problem: SelectionProblem) -> list[mpmath.mpf]:
    """V3's integral in mpmath, from the definitions; the last entry is the denial."""
    n = problem.n
    unit = mpmath.mpf(n - 1) / n**2
    ratio = mpmath.mpf(2) ** (mpmath.mpf(2) / 3)
    first = unit * (1 + ratio) / mpmath.mpf(problem.epsilon_svt)
    second = 2 * unit * (1 + ratio) / ratio / mpmath.mpf(problem.epsilon_svt)
    gaps = []
    for epsilon in problem.candidates:
        q = precise_variance(precise_normalised(problem, epsilon), problem.counts.tolist())
        gaps.append(q - mpmath.mpf(problem.threshold))

    def above(x: mpmath.mpf) -> mpmath.mpf:
        return mpmath.exp(-x / second) / 2 if x >= 0 else 1 - mpmath.exp(x / second) / 2

    def integrand(j: int, r: mpmath.mpf) -> mpmath.mpf:
        value = mpmath.exp(-abs(r) / first) / (2 * first)
        for gap in gaps[:j]:
            value *= 1 - above(gap + r)
        return value * (above(gaps[j] + r) if j < len(gaps) else 1)

    reach = 60 * first
    inner = [point for point in [0, *(-gap for gap in gaps)] if -reach < point < reach]
    marks = sorted({*inner, *(reach * i / 15 for i in range(-15, 16))})
    return [mpmath.quad(lambda r, j=j: integrand(j, r), marks) for j in range(len(gaps) + 1)]


@pytest.mark.parametrize(
    ("mechanism", "threshold", "epsilon_svt"), [(LAPLACE, 0.03, 1.0), (ZCDP, 0.03, 1.0), (ZCDP, 0.003, 0.1)]
)
def test_outcome_of_the_sparse_vector_in_high_precision(
    mechanism: Mechanism, threshold: float, epsilon_svt: float
) -> None:
    problem = make_problem(
        [0.0] * 150 + [0.5] * 20 + [1.0] * 30,
        mechanism,
        candidates=(6.0, 2.0, 0.7, 0.2),
        threshold=threshold,
        epsilon_svt=epsilon_svt,
    )
    outcome = outcome_distribution(problem, method="paper")
    with mpmath.workdps(25):
        expected = [float(chance) for chance in precise_outcome(problem)]
    assert [*outcome.probabilities, outcome.denial] == pytest.approx(expected, abs=1e-8)
    assert max(expected) < 0.98


@pytest.mark.parametrize("mechanism", [LAPLACE, ZCDP], ids=["laplace", "zcdp"])
@pytest.mark.parametrize("violation", [None, 0.05])
def test_outcome_of_one_number_is_the_integer_laplace_distribution(
    mechanism: Mechanism, violation: float | None
) -> None:
    """From the definition, masses added up in closed form; V7's margin as in its own formula."""
    threshold = 0.03 if mechanism is LAPLACE else 0.0004
    problem = make_problem(
        [0.0] * 150 + [1.0] * 50, mechanism, candidates=(6.0, 2.0, 0.7, 0.2), threshold=threshold, epsilon_svt=0.1,
        two_valued=True, violation=violation,
    )  # fmt: skip
    outcome = outcome_distribution(problem, method="sharp")
    with mpmath.workdps(40):
        step = mpmath.mpf(199) / 200**2 / 2**30
        q = mpmath.exp(-mpmath.mpf(0.1) / 2**30)
        margin = 0 if violation is None else mpmath.ceil(mpmath.log(violation * (1 + q)) / mpmath.log(q))
        level = mpmath.floor(mpmath.mpf(150 * 50) / 200**2 / step)
        below = [mpmath.mpf(0)]
        for epsilon in problem.candidates:
            low, high = precise_normalised(make_problem([0.0, 1.0], mechanism), epsilon)
            gap = mpmath.floor(mpmath.mpf(problem.threshold) / (high - low) ** 2 / step) - margin - level
            below.append(q**-gap / (1 + q) if gap < 0 else 1 - q ** (gap + 1) / (1 + q))
        expected = [float(b - a) for a, b in pairwise(below)]
    assert list(outcome.probabilities) == pytest.approx(expected, rel=1e-9, abs=1e-12)
    assert outcome.denial == pytest.approx(float(1 - below[-1]), rel=1e-9)
    assert sum(chance > 1e-3 for chance in (*expected, outcome.denial)) >= 3


# ---------------------------------------------------------------- V7: a promise on violations


@pytest.mark.parametrize("mechanism", [LAPLACE, ZCDP], ids=["laplace", "zcdp"])
@pytest.mark.parametrize("beta", [0.3, 0.05, 1e-4])
def test_the_promise_holds_for_every_table(mechanism: Mechanism, beta: float) -> None:
    """All tables of up to 5 slots, each with thresholds just below what it has at a candidate: the worst case.

    Chances as sums of the integer noise's masses, from the real variance: another road than the levels.
    """
    worst = 0.0
    for n in (2, 3, 5):
        step = mpmath.mpf(n - 1) / n**2 / 2**30
        for slots in combinations_with_replacement((0.0, 1 / 3, 1.0), n):
            two_valued = {*slots} <= {0.0, 1.0}
            problem = make_problem(slots, mechanism, epsilon_svt=0.2, violation=beta, two_valued=two_valued)
            spreads = [normalised_variance(problem, epsilon) for epsilon in problem.candidates]
            for spread in spreads:
                if spread == 0.0:
                    continue
                stated = replace(problem, threshold=spread * (1 - 1e-11))
                test = prepare_test(stated, method="sharp")
                violating = [q > stated.threshold * (1 + 1e-12) for q in spreads]
                power = 1 if mechanism is LAPLACE else 2
                with mpmath.workdps(40):
                    real = precise_variance(
                        [mpmath.mpf(float(v)) ** power for v in stated.values], stated.counts.tolist()
                    )
                    level = mpmath.floor(real / step)
                    loosest = max(most for most, bad in zip(test.thresholds, violating, strict=True) if bad)
                    below = level - loosest  # the noise must be at most −below
                    q = mpmath.exp(-mpmath.mpf(0.2) / 2**30)
                    chance = q**below / (1 + q) if below >= 0 else 1
                assert chance <= beta
                assert violation_probability(stated, outcome_distribution(stated, method="sharp")) <= beta
                worst = max(worst, float(chance))
    assert worst > 0.999 * beta


@pytest.mark.parametrize("beta", [0.9, 0.5, 0.05, 1e-9])
def test_the_margin_is_the_least(beta: float) -> None:
    problem = make_problem([0.0, 1.0], two_valued=True, violation=beta, epsilon_svt=0.1)
    margin = find_margin(problem)
    with mpmath.workdps(40):
        q = mpmath.exp(-1 / mpmath.mpf(certified_scale(2**30, 0.1)))
        assert q**margin / (1 + q) <= beta
        assert margin == 0 or q ** (margin - 1) / (1 + q) > beta
    rounded = find_margin(replace(problem, two_valued=False))
    assert rounded == margin + 3  # two people: a step is 2⁻³², and rounding moves the variance by 2⁻³¹ and a little
    assert find_margin(replace(problem, violation=None)) == 0


def test_a_number_is_read_as_the_test_reads_it() -> None:
    """V8: with the same noise, the number that is kept lets the same candidate through."""
    problem = make_problem([0.0] * 40 + [0.5] * 5 + [1.0] * 15, candidates=paper_candidates(), violation=0.1)
    test = prepare_test(problem, method="sharp")
    found = set()
    for shared in range(-12 * 2**30, 3 * 2**30, 2**28 + 1):
        index = test.first_passing(shared)
        epsilon = None if index is None else problem.candidates[index]
        assert find_passing(problem, test.levels[0] + shared) == epsilon
        outcome = known_outcome(problem, test.levels[0] + shared)
        assert [*outcome.probabilities, outcome.denial].count(1.0) == 1
        found.add(epsilon)
    assert len(found) > 5


CORNERS = [(1e-7, 0.01), (1e-7, 50.0), (1e-3, 1.0), (0.3, 0.01), (0.3, 50.0)]  # the corners and the middle
ALL = tuple(product((1e-7, 1e-3, 0.3), (0.01, 1.0, 50.0)))


@pytest.mark.parametrize("mechanism", [LAPLACE, ZCDP], ids=["laplace", "zcdp"])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("count", "settings"),
    [(1, ALL), (2, ALL), (120, CORNERS), *(pytest.param(count, ALL, marks=pytest.mark.long) for count in (37, 120))],
    ids=["1", "2", "120-corners", "37", "120"],
)
def test_probabilities_add_up(
    mechanism: Mechanism, method: Selection, count: int, settings: Sequence[tuple[float, float]]
) -> None:
    """Chances and denial are integrated separately; at |E| = 120 the product of factors is at its steepest."""
    candidates = tuple(float(x) for x in np.geomspace(10.0, 0.001, count))
    for threshold, epsilon_svt in settings:
        problem = make_problem(
            [0.0] * 95 + [1.0] * 5, mechanism, candidates=candidates, threshold=threshold, epsilon_svt=epsilon_svt
        )
        outcome = outcome_distribution(problem, method=method)
        assert min(outcome.probabilities) >= 0.0
        assert math.fsum((*outcome.probabilities, outcome.denial)) == pytest.approx(1.0, abs=1e-12)


def test_quadrature_has_converged(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = make_problem([0.0] * 95 + [1.0] * 5, candidates=paper_candidates(), threshold=0.002)
    coarse = outcome_distribution(problem, method="paper")
    monkeypatch.setattr(selection, "_NODES", 48)
    fine = outcome_distribution(problem, method="paper")
    assert coarse.probabilities == pytest.approx(fine.probabilities, abs=1e-14)


def test_violations_are_the_chances_of_candidates_above_the_threshold() -> None:
    problem = make_problem([0.0] * 90 + [1.0] * 10, candidates=(5.0, 1.0, 0.5, 0.1), threshold=0.015)
    outcome = outcome_distribution(problem, method="paper")
    slots = np.array([0.0] * 90 + [1.0] * 10)
    bad = sum(
        chance
        for epsilon, chance in zip(problem.candidates, outcome.probabilities, strict=True)
        if np.var((slots + 1 / epsilon) / (1 + 1 / epsilon)) > 0.015
    )
    assert violation_probability(problem, outcome) == pytest.approx(bad, rel=1e-12)
    assert violation_share(problem, outcome) == pytest.approx(bad / (1 - outcome.denial), rel=1e-9)
    assert 0.1 < bad < 0.9


# ---------------------------------------------------------------- V4: accuracy


@pytest.mark.parametrize(("first", "second"), [(1.0, 1.0), (2.0, 2.0), (1.0, 1.5), (2.6, 3.26), (1.0, 1.0 + 1e-7)])
@pytest.mark.parametrize("distance", [0.0, 0.5, 3.0, 20.0])
def test_tail_of_a_difference_by_convolution(first: float, second: float, distance: float) -> None:
    with mpmath.workdps(30):

        def survival(y: mpmath.mpf) -> mpmath.mpf:  # P(X > y), X of the first scale
            return mpmath.exp(-y / first) / 2 if y >= 0 else 1 - mpmath.exp(y / first) / 2

        def integrand(y: mpmath.mpf) -> mpmath.mpf:
            return mpmath.exp(-abs(y) / second) / (2 * second) * survival(distance + y)

        marks = sorted({-60 * second, -distance - 5 * first, -distance, 0, 5 * second, 60 * second})
        expected = 2 * mpmath.quad(integrand, marks)
    assert difference_tail(distance, first, second) == pytest.approx(float(expected), rel=1e-6)


def test_accuracy_of_the_paper() -> None:
    problem = varied_problem(LAPLACE, 1)
    result = noisy_test_accuracy(problem, 0.05, method="paper")
    n = problem.n
    assert result.paper_alpha == pytest.approx(6 / n * math.log(2 * 37 / 0.05))
    unit, ratio = (n - 1) / n**2, 2 ** (2 / 3)
    with mpmath.workdps(30):
        b1, b2 = unit * (1 + ratio), 2 * unit * (1 + ratio) / ratio

        def tail(a: mpmath.mpf) -> mpmath.mpf:
            return (b1**2 * mpmath.exp(-a / b1) - b2**2 * mpmath.exp(-a / b2)) / (b1**2 - b2**2)

        expected = mpmath.findroot(lambda a: mpmath.log(37 * tail(a) / 0.05), result.paper_alpha / 2)
    assert result.exact_alpha == pytest.approx(float(expected), rel=1e-12)
    assert result.exact_alpha < result.paper_alpha
    assert result.by_candidate == (result.exact_alpha,) * 37
    assert result.warning


def test_accuracy_of_the_sharp_method() -> None:
    problem = varied_problem(LAPLACE, 1)
    result = noisy_test_accuracy(problem, 0.05)
    scale = (problem.n - 1) / problem.n**2
    assert result.exact_alpha == pytest.approx(scale * math.log(20) * (10 / 11) ** 2, rel=1e-12)
    assert result.by_candidate[-1] == pytest.approx(scale * math.log(20) * (0.001 / 1.001) ** 2, rel=1e-12)
    assert result.warning
    assert not noisy_test_accuracy(replace(problem, threshold=1e-3), 0.05).warning


@pytest.mark.parametrize("mechanism", [LAPLACE, ZCDP], ids=["laplace", "zcdp"])
@pytest.mark.parametrize(("method", "violation"), [("sharp", None), ("sharp", 0.01), ("paper", None)])
@pytest.mark.parametrize("matching", [1, 20, 60, 100])
def test_accuracy_holds_in_the_exact_distribution(
    mechanism: Mechanism, method: Selection, violation: float | None, matching: int
) -> None:
    """V4's two promises, checked with V3's probabilities."""
    beta = 0.1
    for threshold in (1e-4, 0.01, 0.05):
        problem = make_problem(
            [1.0] * matching + [0.0] * (200 - matching),
            mechanism,
            candidates=paper_candidates(),
            threshold=threshold,
            epsilon_svt=0.7,
            two_valued=True,
            violation=violation,
        )
        alphas = noisy_test_accuracy(problem, beta, method=method).by_candidate
        outcome = outcome_distribution(problem, method=method)
        spreads = [normalised_variance(problem, epsilon) for epsilon in problem.candidates]
        rows = list(zip(outcome.probabilities, spreads, alphas, strict=True))
        too_large = sum(chance for chance, q, alpha in rows if q > threshold + alpha)
        safe = next((j for j, (_, q, alpha) in enumerate(rows) if q < threshold - alpha), None)
        passed_over = 0.0 if safe is None else sum(outcome.probabilities[safe + 1 :]) + outcome.denial
        assert too_large + passed_over <= beta
