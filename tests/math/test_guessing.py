"""P5 and P3 with alarms: nobody guesses a fact more often, and no alarm makes anybody surer, than is promised.

The best guesser is enumerated: for every answer they take the value with the largest prior times likelihood. All
probabilities are sums over integer noise, written here from its definition.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

from dosimeter.arrays import FloatArray
from dosimeter.errors import OptionError
from dosimeter.mechanisms import Gaussian, Laplace, Mechanism
from dosimeter.risk import largest_power, posterior_of_alarm, posterior_probability

GAUSSIAN = Gaussian(1e-6)
MECHANISMS = pytest.mark.parametrize("mechanism", [Laplace(), GAUSSIAN], ids=["laplace", "gaussian"])
EXACT = 1.0 + 1e-12

# What each value of a fact adds to the numbers of the answer, counted beside the answer without the person.
FACTS: dict[str, list[tuple[int, ...]]] = {
    "in one cell or not": [(0,), (1,)],
    "one of two cells": [(1, 0), (0, 1)],
    "one of three cells": [(1, 0, 0), (0, 1, 0), (0, 0, 1)],
    "one of three cells, or none": [(1, 0, 0), (0, 1, 0), (0, 0, 1), (0, 0, 0)],
    "a number from 0 to 3": [(0,), (1,), (2,), (3,)],
    "a number from −1 to 1": [(-1,), (0,), (1,)],
    "a count and a sum": [(1, 0), (1, 1), (0, 0)],
}


def law(mechanism: Mechanism, steps: float, reach: int) -> FloatArray:
    """The probabilities of −reach … reach; what lies beyond is left out, so that every chance is slightly too small."""
    far = np.arange(-2000, 2001) / steps
    places = np.arange(-reach, reach + 1) / steps
    if isinstance(mechanism, Laplace):
        return np.asarray(np.exp(-np.abs(places)) / np.exp(-np.abs(far)).sum())
    return np.asarray(np.exp(-0.5 * places**2) / np.exp(-0.5 * far**2).sum())


def answers(mechanism: Mechanism, steps: float, changes: tuple[int, ...], reach: int) -> FloatArray:
    """The probability of every answer near the one without the person, if they change its numbers so."""
    found, widest = np.ones(1), 3
    noise = law(mechanism, steps, reach + widest)
    for change in changes:
        found = np.multiply.outer(found, noise[widest - change : len(noise) - widest - change]).ravel()
    return found


def priors(values: int, parts: int = 20) -> Iterator[FloatArray]:
    """Every prior over so many values whose probabilities are multiples of 1/parts, but for certainty."""
    for bars in itertools.combinations(range(parts + values - 1), values - 1):
        gaps = np.diff([-1, *bars, parts + values - 1]) - 1
        if gaps.max() < parts:
            yield gaps / parts


def promise(mechanism: Mechanism, steps: float, chance: float, distance: float, **options: Any) -> float:
    """The largest power that the program gives, for noise of so many steps on a grid of 1."""
    return largest_power(chance, mechanism, distance=distance, scale=steps, **{"grids": np.ones(1), **options})


def farthest(mechanism: Mechanism, changes: Sequence[tuple[int, ...]]) -> float:
    return max(float(np.linalg.norm(each, ord=mechanism.norm)) for each in changes)


# ---------------------------------------------------------------- guessing a fact (P5)


@pytest.mark.parametrize("steps", [0.3, 0.5, 1.0, 2.0, 4.0])
@pytest.mark.parametrize("fact", list(FACTS))
@MECHANISMS
def test_nobody_guesses_a_fact_more_often(mechanism: Mechanism, fact: str, steps: float) -> None:
    """For every prior on a grid, the best of all deterministic guessers is right at most as often as promised."""
    changes = FACTS[fact]
    reach = math.ceil({1: 30, 2: 14, 3: 5}[len(changes[0])] * max(steps, 1.0))
    likelihoods = np.array([answers(mechanism, steps, each, reach) for each in changes])
    distance = farthest(mechanism, changes)
    bounds = {b: promise(mechanism, steps, b / 20, distance) for b in range(1, 20)}
    tried = 0
    for prior in priors(len(changes), 20 if likelihoods.size < 40_000 else 4):
        best = float((prior[:, np.newaxis] * likelihoods).max(axis=0).sum())
        assert best <= bounds[round(20 * prior.max())] * EXACT
        tried += 1
    assert tried >= 3


def guess_cell(mechanism: Mechanism, steps: float, cells: int) -> float:
    """How often the best guesser finds in which of so many equally likely cells the person is, summed exactly.

    It is E max_z L(o_z) / cells over answers o without the person, L being the likelihood ratio of one cell.
    """
    reach = math.ceil(45 * steps) + 2
    noise = law(mechanism, steps, reach)
    places = np.arange(-reach, reach + 1, dtype=np.float64)
    if isinstance(mechanism, Laplace):
        ratio = (np.abs(places) - np.abs(places - 1)) / steps
    else:
        ratio = (2.0 * places - 1.0) / (2.0 * steps**2)
    below: FloatArray = np.append(0.0, np.minimum(np.cumsum(noise), 1.0))
    largest = np.diff(below**cells)
    held = largest > 0.0
    return float(np.exp(ratio[held] + np.log(largest[held])).sum()) / cells


@pytest.mark.parametrize("steps", [0.5, 1.0, 2.0])
@MECHANISMS
def test_the_sum_over_cells_is_that_over_all_answers(mechanism: Mechanism, steps: float) -> None:
    for cells in (2, 3):
        changes = FACTS[f"one of {'two' if cells == 2 else 'three'} cells"]
        reach = math.ceil((30 if cells == 2 else 18) * steps)
        every = np.array([answers(mechanism, steps, each, reach) for each in changes])
        assert float(every.max(axis=0).sum()) / cells == pytest.approx(guess_cell(mechanism, steps, cells), abs=1e-6)


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 2.0, 3.0])
def test_many_equal_cells_reach_the_bound_of_pure_noise(epsilon: float) -> None:
    """With V cells the share of the bound that is missing is at most (1 + e^−ε)^−V."""
    steps = 1.0 / epsilon
    for cells in (25, 100, 400, 1600):
        if cells <= math.exp(epsilon):
            continue
        best, bound = guess_cell(Laplace(), steps, cells), promise(Laplace(), steps, 1.0 / cells, 1.0)
        assert bound == pytest.approx(math.exp(epsilon) / cells)
        assert best <= bound * EXACT
        assert best >= bound * (1.0 - (1.0 + math.exp(-epsilon)) ** -cells - 1e-9)
        if cells >= 100:
            assert best >= 0.99 * bound


@pytest.mark.parametrize("steps", [0.15, 0.25, 0.5, 1.0, 2.0, 8.0, 20.0])
def test_many_equal_cells_under_gaussian_noise(steps: float) -> None:
    for cells in (2, 3, 10, 100, 1000, 100_000):
        assert guess_cell(GAUSSIAN, steps, cells) <= promise(GAUSSIAN, steps, 1.0 / cells, 1.0) * EXACT


def test_integer_noise_tells_more_than_normal_noise() -> None:
    """With the μ of normal noise in the place of μ₁ the promise would be broken, by far more than by rounding."""
    broken = 0
    for steps, cells in itertools.product((0.2, 0.25), (100, 1000, 5000)):
        best = guess_cell(GAUSSIAN, steps, cells)
        normal = NormalDist().cdf(NormalDist().inv_cdf(1.0 / cells) + 1.0 / steps)
        broken += best > normal + 0.02
        assert best <= promise(GAUSSIAN, steps, 1.0 / cells, 1.0)
    assert broken >= 4


def test_the_promise_as_it_is_written() -> None:
    """The formulas of P5 in another way: by the odds, and by μ₁ as it was computed by hand."""
    for epsilon, chance in itertools.product((0.1, 1.0, 4.0), (1e-9, 0.1, 0.5, 0.95)):
        found = promise(Laplace(), 1.0 / epsilon, chance, 1.0)
        if chance * (1.0 + math.exp(epsilon)) <= 1.0:
            assert found / chance == pytest.approx(math.exp(epsilon))
        else:
            assert (1.0 - found) / (1.0 - chance) == pytest.approx(math.exp(-epsilon))
    normal = NormalDist()
    for steps, factor in ((1.0, 1.046), (8.0, 1.00065)):
        shift = normal.inv_cdf(promise(GAUSSIAN, steps, 0.1, 1.0)) - normal.inv_cdf(0.1)
        assert shift * steps == pytest.approx(factor, abs=5e-4 if steps == 1.0 else 5e-6)
    fine_and_coarse = promise(GAUSSIAN, 1.0, 0.1, 1.0, grids=np.array([1.0, 1e-6, 0.0]))
    assert fine_and_coarse == promise(GAUSSIAN, 1.0, 0.1, 1.0)  # the coarsest grid counts
    tiny = promise(GAUSSIAN, 1.0, 1e-30, 0.5)
    assert 1e-30 < tiny < 1e-22  # far in the tail, where 1 + erf(x) is 0


@MECHANISMS
def test_what_finding_epsilon_cost_helps_to_guess(mechanism: Mechanism) -> None:
    """A coin that tells the true one of two values with the odds e^ε_svt, beside the noisy number."""
    spent, steps = 0.7, 1.5
    changes = FACTS["one of two cells"]
    every = np.array([answers(mechanism, steps, each, 40) for each in changes])
    honest = math.exp(spent) / (1.0 + math.exp(spent))
    for prior in priors(2, 100):
        best = sum(
            float(np.max([p * q * row for p, q, row in zip(prior, coin, every, strict=True)], axis=0).sum())
            for coin in ((honest, 1.0 - honest), (1.0 - honest, honest))
        )
        # Between the coin's two laws and a fair one the odds move by less than e^ε_svt.
        assert best <= promise(mechanism, steps, float(prior.max()), 1.0, epsilon_svt=spent) * EXACT
    without = promise(mechanism, steps, 0.1, 1.0)
    assert promise(mechanism, steps, 0.1, 1.0, epsilon_svt=spent) > without


def test_a_group_that_appears_gives_its_delta_at_most() -> None:
    """Somebody alone in one of V groups, which is shown with the probability D, and else all is noise."""
    delta, cells = 0.05, 20
    best = delta + (1.0 - delta) / cells
    assert best <= promise(Laplace(), 1e9, 1.0 / cells, 1.0, group_delta=delta)
    assert promise(Laplace(), 1.0, 0.1, 0.0, group_delta=delta) == pytest.approx(0.1)  # who has no rows shows nothing
    assert promise(Laplace(), 0.01, 0.9, 1.0, group_delta=delta) == 1.0


def test_the_ends() -> None:
    for mechanism in (Laplace(), GAUSSIAN):
        assert largest_power(0.1, mechanism, distance=1.0, scale=0.0, grids=np.ones(1)) == 1.0
        assert largest_power(0.1, mechanism, distance=0.0, scale=0.0, grids=np.ones(1)) == pytest.approx(0.1)
        for chance in (0.0, 1.0, -0.1, math.nan):
            with pytest.raises(OptionError, match="strictly between 0 and 1"):
                largest_power(chance, mechanism, distance=1.0, scale=1.0, grids=np.ones(1))
    assert largest_power(0.1, GAUSSIAN, distance=1.0, scale=0.01, grids=np.ones(1)) == 1.0


# ---------------------------------------------------------------- alarms (P3)


def tail_alarms(mechanism: Mechanism, steps: float, shift: int) -> Iterator[tuple[float, float]]:
    """For every alarm "the number is at least m": how probable it is without the person, and with them."""
    noise = law(mechanism, steps, math.ceil(60 * steps) + shift)
    tails = np.cumsum(noise[::-1])[::-1]
    for at in range(shift, len(tails)):
        if tails[at] > (1e-12 if isinstance(mechanism, Laplace) else 1e-290):  # the sum ends at 60 scales
            yield float(tails[at]), float(tails[at - shift])


@pytest.mark.parametrize("steps", [0.2, 0.3, 0.5, 1.0, 2.0, 5.0, 8.0, 12.0])
@MECHANISMS
def test_no_alarm_makes_surer_than_stated(mechanism: Mechanism, steps: float) -> None:
    """Bayes' rule for each alarm, against the posterior stated for its own rate, and for any smaller one."""
    seen = 0
    for shift in (1, 2, 3, 5):
        for without, inside in tail_alarms(mechanism, steps, shift):
            if not without < 1.0 - 1e-12:
                continue
            for prior in (1e-4, 0.01, 0.3, 0.9):
                after = prior * inside / (prior * inside + (1.0 - prior) * without)
                for rate in {without, min(without, 0.01), min(without, 1e-4)}:
                    stated = posterior_of_alarm(prior, rate, promise(mechanism, steps, rate, float(shift)))
                    assert after <= stated * (1.0 + 1e-9)
                if isinstance(mechanism, Laplace):
                    assert stated <= posterior_probability(prior, shift / steps) * (1.0 + 1e-9)
                seen += without >= 0.01
    assert seen >= 8


@pytest.mark.parametrize("steps", [0.3, 0.7, 1.5])
def test_no_alarm_by_two_numbers_makes_surer(steps: float) -> None:
    """The best alarms on two numbers: the answers whose likelihood ratio is largest, added one by one."""
    for shifts in ((1, 1), (1, 2), (2, 3)):
        without, inside = (answers(GAUSSIAN, steps, each, math.ceil(9 * steps) + 3) for each in ((0, 0), shifts))
        order = np.argsort(-inside / without)
        rates, powers = np.cumsum(without[order]), np.cumsum(inside[order])
        distance = math.hypot(*shifts)
        for rate, power in zip(rates.tolist(), powers.tolist(), strict=True):
            if 1e-12 < rate < 1.0 - 1e-9:
                assert power <= promise(GAUSSIAN, steps, rate, distance) + 1e-9


def test_with_the_shift_of_normal_noise_an_alarm_would_make_surer() -> None:
    """The alarm "above 0" has the rate P(Z ≥ 1): with 1/σ for μ₁ its posterior would be stated too small."""
    normal = NormalDist()
    for steps in (0.2, 0.3, 0.5, 1.0, 1.5):
        rates = [
            (posterior_of_alarm(0.01, without, inside), without) for without, inside in tail_alarms(GAUSSIAN, steps, 1)
        ]
        above = [
            after > posterior_of_alarm(0.01, rate, normal.cdf(normal.inv_cdf(rate) + 1.0 / steps)) * 1.001
            for after, rate in rates
            if 0.0 < rate < 0.5
        ]
        assert any(above)


def test_a_single_answer_has_no_limit() -> None:
    """Why a rate is stated: under Gaussian noise the rarest alarms leave no doubt."""
    afterwards = [posterior_of_alarm(0.01, *alarm) for alarm in tail_alarms(GAUSSIAN, 2.0, 2)]
    assert max(afterwards) > 0.999
    assert posterior_of_alarm(0.01, 0.01, promise(GAUSSIAN, 2.0, 0.01, 2.0)) < 0.1
