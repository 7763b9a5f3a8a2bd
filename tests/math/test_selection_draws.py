"""What is drawn when ε is found privately (V1): budgets and scales, and decisions by brute force."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from itertools import product

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dosimeter.mechanisms.mechanism import Mechanism
from dosimeter.options import Selection
from dosimeter.release import selection
from dosimeter.release.noise import certified_epsilon
from dosimeter.release.selection import prepare_test, select_epsilon, split_budget, svt_sensitivity
from dosimeter.risk.largest_epsilon import paper_candidates
from tests.math.selection_problems import LAPLACE, METHODS, ZCDP, make_problem


@settings(max_examples=300)
@given(st.floats(1e-6, 100.0))
def test_split_never_exceeds_the_budget(epsilon: float) -> None:
    first, second = split_budget(epsilon)
    whole = Fraction(first) + Fraction(second)
    assert whole <= min(Fraction(epsilon), Fraction(Decimal(repr(epsilon))))
    assert float(whole) == pytest.approx(epsilon, rel=1e-15)
    assert second / first == pytest.approx(2 ** (2 / 3), rel=1e-14)


class Recorder:
    """Stands in for the noise: remembers what was asked for, and gives chosen draws."""

    def __init__(self, draw: int = 0) -> None:
        self.asked: list[tuple[float, int]] = []
        self.draw = draw

    def __call__(self, scale: float, count: int) -> list[int]:
        self.asked.append((scale, count))
        return [self.draw] * count


@pytest.mark.parametrize("epsilon_svt", [0.1, 0.3, 1.0, 1 / 3, 2.7, 1e-6, 100.0])
@pytest.mark.parametrize("mechanism", [LAPLACE, ZCDP], ids=["laplace", "zcdp"])
@pytest.mark.parametrize("method", METHODS)
def test_scales_in_use_are_certified_within_the_budget(
    monkeypatch: pytest.MonkeyPatch, epsilon_svt: float, mechanism: Mechanism, method: Selection
) -> None:
    recorder = Recorder()
    monkeypatch.setattr(selection, "draw_discrete_laplace", recorder)
    select_epsilon(make_problem([0.0, 1.0, 1.0], mechanism, epsilon_svt=epsilon_svt), method=method)
    (shared, one), *own = recorder.asked
    spent = Fraction(certified_epsilon(shared, 2**30))
    if method == "sharp":
        assert own == []
    else:
        [(scale, count)] = own
        assert count == 3
        spent += Fraction(certified_epsilon(scale, 2 * 2**30))
    assert one == 1
    assert spent <= min(Fraction(epsilon_svt), Fraction(repr(epsilon_svt)))
    assert float(spent) == pytest.approx(epsilon_svt, rel=1e-12)


@pytest.mark.parametrize("mechanism", [LAPLACE, ZCDP], ids=["laplace", "zcdp"])
@pytest.mark.parametrize("method", METHODS)
def test_without_noise_it_is_the_largest_epsilon_that_meets_the_threshold(
    monkeypatch: pytest.MonkeyPatch, mechanism: Mechanism, method: Selection
) -> None:
    monkeypatch.setattr(selection, "draw_discrete_laplace", Recorder())
    slots = [0.0] * 300 + [0.4] * 30 + [1.0] * 20
    candidates = paper_candidates()[:14]
    found = set()
    for threshold in np.geomspace(1e-8, 0.2, 60):
        problem = make_problem(slots, mechanism, candidates=candidates, threshold=float(threshold), k=3)
        expanded = {}
        for epsilon in problem.candidates:
            scale = mechanism.scale(1.0, epsilon)
            if mechanism.name == "laplace":
                expanded[epsilon] = np.var((np.array(slots) + 3 * scale) / (1.0 + 3 * scale))
            else:
                expanded[epsilon] = np.var(np.sqrt(np.square(slots) + 3 * scale**2) / np.sqrt(1.0 + 3 * scale**2))
            if mechanism.name == "gaussian" and method == "sharp":  # V6: the bound, from its own formula
                s = np.sqrt(3) * scale
                expanded[epsilon] = np.var(np.square(slots)) / (4 * s**2 * (1 + s**2))
        suitable = [epsilon for epsilon, q in expanded.items() if q <= threshold]
        expected = max(suitable) if suitable else None
        assert select_epsilon(problem, method=method) == expected
        found.add(expected)
    assert None in found
    assert len(found) > 8


def test_draws_do_not_depend_on_the_data(monkeypatch: pytest.MonkeyPatch) -> None:
    recorders = []
    for slots in ([0.0] * 50, [0.0] * 25 + [1.0] * 25):
        for mechanism, method in product((LAPLACE, ZCDP), METHODS):
            recorder = Recorder()
            monkeypatch.setattr(selection, "draw_discrete_laplace", recorder)
            select_epsilon(make_problem(slots, mechanism), method=method)
            recorders.append(recorder.asked)
    assert recorders[:4] == recorders[4:]


@settings(max_examples=200)
@given(noise=st.floats(-3.0, 3.0), threshold=st.floats(1e-6, 0.3), k=st.integers(1, 40))
def test_one_noisy_number_solves_the_limit(noise: float, threshold: float, k: int) -> None:
    """F2 as post-processing: the largest candidate at or below ε* = k√τ/(s − √τ), s² the noisy variance."""
    slots = [0.0] * 40 + [0.5] * 5 + [1.0] * 15
    problem = make_problem(slots, candidates=paper_candidates(), threshold=threshold, k=k)
    test = prepare_test(problem, method="sharp")
    step = svt_sensitivity(60) / 2**30
    shift = math.floor(noise * 2**30)
    noisy = (test.levels[0] + shift) * step
    index = test.first_passing(shift)
    with mpmath.workdps(40):
        root = mpmath.sqrt(threshold)
        spread = mpmath.sqrt(max(mpmath.mpf(noisy.numerator) / noisy.denominator, 0))
        limit = mpmath.inf if spread <= root else k * root / (spread - root)
        near = [epsilon for epsilon in problem.candidates if abs(epsilon - limit) < 1e-6 * epsilon]
        expected = next((j for j, epsilon in enumerate(problem.candidates) if epsilon <= limit), None)
    assert near or index == expected
