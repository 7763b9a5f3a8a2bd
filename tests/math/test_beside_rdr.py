"""Beside RDR: one's own guarantee, being picked out, the posterior, and the largest difference between two people."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dosimeter.errors import OptionError
from dosimeter.mechanisms.zcdp import zcdp_epsilon
from dosimeter.risk.absolute import largest_difference, lee_clifton, own_epsilon, posterior_probability
from tests.math.influence_tables import GAUSSIAN, LAPLACE, length, make_contributions, make_dense, sparse_rows

# ---------------------------------------------------------------- own guarantee, being picked out, posterior


def test_own_guarantee_under_laplace_is_the_share_of_the_sensitivity():
    got = own_epsilon(np.array([0.0, 1.0, 3.0, 4.0]), LAPLACE, sensitivity=4.0, scale=8.0, epsilon=0.5)
    assert got.tolist() == [0.0, 0.125, 0.375, 0.5]
    infinite = own_epsilon(np.array([0.0, 1.0]), LAPLACE, sensitivity=4.0, scale=0.0, epsilon=math.inf)
    assert infinite.tolist() == [0.0, math.inf]


def bound_on_delta(rho, epsilon):
    """M3's expression, its smallest value over α on a fine grid."""
    alphas = 1 + np.geomspace(1e-3, 1e5, 200_001)
    exponents = (alphas - 1) * (alphas * rho - epsilon) - np.log(alphas - 1) + alphas * np.log1p(-1 / alphas)
    return math.exp(exponents.min())


def test_own_guarantee_under_gaussian_solves_the_bound():
    values, sigma = np.array([0.0, 0.2, 1.0, 3.0, 1.0]), 2.5
    got = own_epsilon(values, GAUSSIAN, sensitivity=3.0, scale=sigma, epsilon=9.9)
    assert got[0] == 0.0
    assert got[2] == got[4]
    for pis, epsilon in zip(values[1:], got[1:], strict=True):
        assert bound_on_delta(pis**2 / (2 * sigma**2), epsilon) == pytest.approx(GAUSSIAN.delta, rel=1e-5)
    infinite = own_epsilon(np.array([0.0, 1.0]), GAUSSIAN, sensitivity=4.0, scale=0.0, epsilon=math.inf)
    assert infinite.tolist() == [0.0, math.inf]


def test_own_guarantee_of_very_many_is_rounded_up_a_little():
    values = np.linspace(0.001, 1000.0, 30_000)
    got = own_epsilon(values, GAUSSIAN, sensitivity=1000.0, scale=2000.0, epsilon=1.0)
    sample = np.arange(0, len(values), 997)
    exact = np.array([zcdp_epsilon((v / 2000.0) ** 2 / 2, GAUSSIAN.delta) for v in values[sample]])
    assert np.all(got[sample] >= exact)
    assert np.all(got[sample] <= exact * 1.002)


def test_being_picked_out():
    assert lee_clifton(10, 0.5, 2.0, 0.0) == pytest.approx(0.1)
    weight = math.exp(0.5 * 3.0 / 2.0)
    assert lee_clifton(10, 0.5, 2.0, 3.0) == pytest.approx(weight / (weight + 9))
    assert lee_clifton(10, math.inf, 2.0, 3.0) == 1.0
    assert lee_clifton(10, math.inf, 2.0, 0.0) == pytest.approx(0.1)
    assert lee_clifton(1, 0.5, 1.0, 0.0) == 1.0


@given(st.fractions(0, 1), st.integers(1, 50))
def test_posterior_is_bayes_with_the_largest_likelihood_ratio(prior, factor):
    epsilon = math.log(factor)
    assert posterior_probability(float(prior), epsilon) == pytest.approx(
        float(prior * factor / (1 - prior + prior * factor)), rel=1e-12
    )


def test_posterior_at_the_ends():
    assert posterior_probability(0.0, math.inf) == 0.0
    assert posterior_probability(1e-9, math.inf) == 1.0
    assert posterior_probability(0.3, 0.0) == pytest.approx(0.3)
    assert posterior_probability(0.5, 5000.0) == 1.0
    with pytest.raises(OptionError, match="prior"):
        posterior_probability(1.1, 1.0)
    with pytest.raises(OptionError, match="epsilon"):
        posterior_probability(0.5, -1.0)


# ---------------------------------------------------------------- the largest difference


def difference_by_pairs(rows, people, k, norm):
    vectors = [
        [row.get(cell, 0.0) for cell in range(k)]
        for row, count in zip(rows, people, strict=True)
        for _ in range(min(count, 2))
    ]
    pairs = itertools.combinations(vectors, 2)
    return max((length([a - b for a, b in zip(one, two, strict=True)], norm) for one, two in pairs), default=0.0)


@given(st.one_of(sparse_rows(), sparse_rows(max_cells=1)), st.sampled_from([1, 2]), st.data())
def test_largest_difference_is_that_over_all_pairs(drawn, norm, data):
    k, rows = drawn
    people = data.draw(st.lists(st.integers(0, 2), min_size=len(rows), max_size=len(rows)))
    got, exact = largest_difference(make_contributions(rows, k=k, people=people), norm)
    assert exact
    assert got == pytest.approx(difference_by_pairs(rows, people, k, norm), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize(("norm", "width"), [(1, 25), (2, 2), (2, 3), (2, 6)])
def test_largest_difference_of_rows_that_overlap(norm, width):
    """Clouds of points, round and flat, away from 0 and about it: dropping rows must never drop a farthest pair."""
    from scipy.spatial.distance import pdist

    rng = np.random.default_rng(13)
    for trial in range(60):
        points = rng.normal(size=(80, width)) ** rng.choice([1, 3])
        points = points * rng.choice([0.01, 1.0, 10.0], width) + rng.choice([0.0, 5.0]) + trial % 2 * np.eye(width)[0]
        points *= rng.random(points.shape) < rng.choice([0.6, 1.0])
        rows = [{cell: float(change) for cell, change in enumerate(point) if change} for point in points]
        got, exact = largest_difference(make_contributions(rows, k=width), norm)
        assert exact
        assert got == pytest.approx(pdist(points, "cityblock" if norm == 1 else "euclidean").max(), rel=1e-12)


@pytest.mark.parametrize(("norm", "expected"), [(1, 2.0), (2, math.sqrt(2))])
def test_largest_difference_follows_cells_shared_through_others(norm, expected):
    chain = make_contributions([{0: 1.0, 1: 9.0}, {1: 9.0, 2: 1.0}, {1: 9.0}], k=3)
    assert largest_difference(chain, norm) == (pytest.approx(expected), True)


def test_largest_difference_does_not_mind_attributes():
    flags = {"young": [True, False, True]}
    rows = make_contributions([{0: 1.0, 1: 2.0}, {0: 1.0, 1: 2.0}, {0: 3.0, 1: 3.0}], k=2, attributes=flags)
    assert largest_difference(rows, 1) == (3.0, True)


@pytest.mark.parametrize("norm", [1, 2])
def test_largest_difference_of_many_rows(norm):
    """Two measures in each of 30 groups, everybody in one group: 60,000 rows, against every pair."""
    from scipy.spatial.distance import pdist

    rng = np.random.default_rng(11)
    n, groups = 60_000, 30
    group = rng.integers(0, groups, n)
    points = rng.normal(size=(n, 2))
    cells = np.stack([2 * group, 2 * group + 1], axis=1)
    got, exact = largest_difference(make_dense(cells, points, k=2 * groups), norm)
    lengths = np.abs(points).sum(axis=1) if norm == 1 else np.hypot(*points.T)
    top = sorted(lengths[group == g].max() for g in range(groups))[-2:]
    across = sum(top) if norm == 1 else math.hypot(*top)
    within = max(pdist(points[group == g], "cityblock" if norm == 1 else "euclidean").max() for g in range(groups))
    assert exact
    assert got == pytest.approx(max(across, within), rel=1e-12)


@pytest.mark.parametrize("norm", [1, 2])
def test_largest_difference_says_when_it_is_only_a_bound(norm):
    """Points all over a sphere of 40 dimensions: no pair can be ruled out, and there are too many to compare."""
    rng = np.random.default_rng(12)
    n, k = 6000, 40
    points = rng.normal(size=(n, k))
    points /= np.linalg.norm(points, ord=norm, axis=1)[:, np.newaxis]
    got, exact = largest_difference(make_dense(np.tile(np.arange(k), (n, 1)), points, k=k), norm)
    assert not exact
    some = max(length(a - b, norm) for a, b in itertools.combinations(points[:60], 2))
    assert some <= got <= 2.0 + 1e-12
