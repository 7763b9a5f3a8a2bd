"""The error of a total that adds up several noisy numbers, by closed forms and limits."""

from __future__ import annotations

import math
from statistics import NormalDist

import pytest

from dosimeter.mechanisms import Gaussian, Laplace

LEVEL = 0.95


def test_two_laplace_noises_by_their_closed_form():
    """The density of the sum is (1 + |x|) e^(−|x|) / 4, so that P(|S| ≤ t) = 1 − (1 + t/2) e^(−t)."""
    error = Laplace().error_of_sum(1.0, 1e-9, 2)
    assert 1.0 - (1.0 + error / 2.0) * math.exp(-error) >= LEVEL
    nearly = error - 0.02
    assert 1.0 - (1.0 + nearly / 2.0) * math.exp(-nearly) < LEVEL


def test_many_laplace_noises_are_nearly_normal():
    error = Laplace().error_of_sum(3.0, 1e-9, 10_000)
    normal = 3.0 * math.sqrt(2.0 * 10_000) * NormalDist().inv_cdf(0.975)
    assert normal < error < 1.01 * normal


@pytest.mark.parametrize("terms", [2, 7, 100])
def test_gaussian_noises_add_up_by_their_variances(terms: int):
    gaussian = Gaussian(delta=1e-6)
    assert gaussian.error_of_sum(2.0, 1e-9, terms) == pytest.approx(
        2.0 * math.sqrt(terms) * NormalDist().inv_cdf(0.975), rel=1e-8
    )


@pytest.mark.parametrize("mechanism", [Laplace(), Gaussian(delta=1e-6)], ids=lambda each: each.name)
def test_one_term_is_the_noise_itself_and_more_terms_are_further_off(mechanism):
    errors = [mechanism.error_of_sum(5.0, 1.0, terms) for terms in (1, 2, 3, 10, 50)]
    assert errors[0] == mechanism.error(5.0, 1.0)
    assert errors == sorted(errors)
    assert all(error == int(error) for error in errors)
