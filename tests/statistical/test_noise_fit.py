"""The draws follow the exact discrete distributions, and neighbouring totals stay as close as promised.

Every test states its n and its α; together they fail a correct program with probability at most 3e-7. Draws are
never seeded: OpenDP's source of randomness is the operating system's.
"""

import math
from itertools import product

import numpy as np
import pytest
from scipy.stats import norm

from dosimeter.mechanisms import Gaussian, Laplace
from dosimeter.mechanisms.mechanism import Mechanism
from dosimeter.release.noise import Calibrated, add_noise, calibrate, draw_discrete_laplace
from tests.statistical.fits import bin_jointly, chi_square, excess, hoeffding_slack

N = 100_000
ALPHA_FIT = 1e-8  # × 6
ALPHA_CORRELATION = 1e-8  # × 6
ALPHA_NEIGHBOURS = 5e-8  # × 2; the sum is 2.2e-7, which leaves room for chi-square being an approximation

LAPLACE, GAUSSIAN = Laplace(), Gaussian(1e-6)
CASES = [*product([LAPLACE], (0.4, 2.5, 37.0)), *product([GAUSSIAN], (0.45, 3.2, 51.0))]


def sample(mechanism: Mechanism, scale: float) -> list[int]:
    if mechanism is LAPLACE:
        return list(draw_discrete_laplace(scale, N))
    centre = 1000  # noise is added to the total, wherever that is
    noisy = add_noise([centre] * N, Calibrated(GAUSSIAN, scale, 1.0, 0.5 / scale**2))
    return [value - centre for value in noisy]


@pytest.mark.parametrize(("mechanism", "scale"), CASES)
def test_draws_fit_the_exact_distribution_and_are_uncorrelated(mechanism: Mechanism, scale: float) -> None:
    """n = 100,000, α = 1e-8. And the test can tell: a scale 12 % beside the true one is rejected at the same α.

    Of one call, the correlation of signs and that of magnitudes between neighbours in the vector, α = 1e-8.
    """
    draws = sample(mechanism, scale)
    assert chi_square(draws, mechanism, scale, bins=100)[2] > ALPHA_FIT
    assert chi_square(draws, mechanism, scale * 1.12, bins=100)[2] < ALPHA_FIT
    drawn = np.array(draws)
    bound = norm.isf(ALPHA_CORRELATION / 4) / math.sqrt(N - 1)  # two statistics, two sides
    for series in (np.sign(drawn), (np.abs(drawn) > np.median(np.abs(drawn))).astype(int)):
        assert abs(np.corrcoef(series[:-1], series[1:])[0, 1]) < bound


@pytest.mark.parametrize(("mechanism", "epsilon"), [(LAPLACE, 0.5), (GAUSSIAN, 1.0)])
def test_neighbouring_totals_stay_within_epsilon(mechanism: Mechanism, epsilon: float) -> None:
    """n = 100,000 draws for each of two totals Δ apart, α = 5e-8 over every union of bins, in both directions.

    And the test can tell: the same draws break a promise fifty times as strong.
    """
    sensitivity = 4
    calibrated = calibrate(mechanism, sensitivity=sensitivity, epsilon=epsilon)
    here, there = bin_jointly(*([(draw,) for draw in add_noise([at] * N, calibrated)] for at in (0, sensitivity)))
    for first, second in ((here, there), (there, here)):
        for promised, kept in ((epsilon, True), (epsilon / 50, False)):
            beyond = excess(first, second, promised, mechanism.delta)
            assert (beyond <= hoeffding_slack(promised, 16, N, ALPHA_NEIGHBOURS)) is kept
