"""RDR by another road: the paper's bounds, enumeration over discrete noise, high precision, people one by one."""

from __future__ import annotations

import functools
import itertools
import math
import statistics
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dosimeter.errors import DataError, OptionError
from dosimeter.risk.exposure import RDRs
from dosimeter.risk.rdr import summarise_rdr, weighted_quantile
from dosimeter.risk.sensitivities import summarise_sensitivities
from tests.math.influence_tables import (
    GAUSSIAN,
    LAPLACE,
    list_rows,
    make_contributions,
    make_sensitivities,
    rdr,
    sparse_rows,
)

# ---------------------------------------------------------------- RDR: bounds and ceilings


def test_bounds_and_ceilings_are_the_papers():
    people = make_sensitivities([0.0, 3.0], k=4)
    laplace = rdr(people, LAPLACE, scale=5.0, indicator="bound", sensitivity=12.0)
    assert laplace.values.tolist() == [20.0, 23.0]  # R3
    assert laplace.ceiling == 32.0  # R9
    gaussian = rdr(people, GAUSSIAN, scale=2.0, indicator="bound", sensitivity=3.0)
    assert gaussian.values.tolist() == pytest.approx([4.0, 5.0])  # R4
    assert gaussian.ceiling == pytest.approx(5.0)


@pytest.mark.parametrize("mechanism", [LAPLACE, GAUSSIAN])
@pytest.mark.parametrize("indicator", ["bound", "exact"])
def test_without_noise_the_rdr_is_the_pis(mechanism, indicator):
    people = make_sensitivities([0.0, 0.1, 3.0, 1e9], k=4, counts=[4, 3, 2, 1])
    got = rdr(people, mechanism, scale=0.0, indicator=indicator, sensitivity=1e9, epsilon=math.inf)
    assert got.values.tolist() == people.values.tolist()
    assert got.ceiling == 1e9
    assert got.epsilon == math.inf
    assert got.counts.tolist() == [4, 3, 2, 1]


# ---------------------------------------------------------------- RDR: exact expectations


def expect_laplace(vector, scale, grids):
    """Σ_j E|c_j + X_j|, adding up the discrete Laplace distribution."""
    return math.fsum(expect_one_laplace(change, scale, grids[j % len(grids)]) for j, change in enumerate(vector))


@functools.cache
def discrete_laplace(scale, grid):
    """The masses at …, −1, 0, 1, … steps of the grid, up to one factor."""
    with mp.workdps(30):
        q = mp.exp(-mp.mpf(grid) / mp.mpf(scale))
        steps = range(math.ceil(50 * scale / grid) + 1)
        outwards = list(itertools.accumulate(steps, lambda mass, _: mass * q, initial=mp.mpf(1)))
        return [*outwards[:0:-1], *outwards]


@functools.cache
def expect_one_laplace(change, scale, grid):
    masses = discrete_laplace(scale, grid)
    reach = len(masses) // 2
    sizes = [abs(change + step * grid) for step in range(-reach, reach + 1)]  # exact: all are multiples of 1/4
    with mp.workdps(30):
        return float(mp.fdot(masses, sizes) / mp.fsum(masses))


@pytest.mark.parametrize("scale", [0.01, 0.3, 1.0, 7.5, 40.0])
@pytest.mark.parametrize("grids", [(1.0,), (1.0, 0.25, 0.5)])
def test_exact_laplace_is_the_mean_over_discrete_noise(scale, grids):
    k = 6
    rows = [{}, {0: 1.0}, {1: -2.5}, {0: 3.0, 1: 0.25, 2: -4.5}, {2: 0.5, 4: 40.0}, dict.fromkeys(range(k), 2.0)]
    if len(grids) == 1:
        rows = [{cell: float(math.ceil(change)) for cell, change in row.items()} for row in rows]
    people = summarise_sensitivities(make_contributions(rows, k=k), 1, keep_vectors=True)
    got = rdr(people, LAPLACE, scale=scale, indicator="exact", grids=grids)
    vectors = [[row.get(cell, 0.0) for cell in range(k)] for row in list_rows(people.vectors)]
    assert got.values == pytest.approx([expect_laplace(vector, scale, grids) for vector in vectors], rel=1e-12)


def test_exact_laplace_without_vectors_is_a_change_of_one_cell():
    changes = [0.0, 0.5, 2.0, 30.0]
    got = rdr(make_sensitivities(changes, k=3), LAPLACE, scale=1.7, indicator="exact", grids=[0.5])
    assert got.values == pytest.approx([expect_laplace([c, 0, 0], 1.7, [0.5]) for c in changes], rel=1e-12)


def test_exact_laplace_refuses_to_guess_the_grid():
    with pytest.raises(ValueError, match="vectors"):
        rdr(make_sensitivities([1.0], k=2), LAPLACE, scale=1.0, indicator="exact", grids=[1.0, 0.5])
    with pytest.raises(ValueError, match="multiple"):
        rdr(make_sensitivities([1.0], k=3), LAPLACE, scale=1.0, indicator="exact", grids=[1.0, 1.0])


@pytest.mark.parametrize("grid", [2.0**-20, 1e-9, 1e-300, 0.0])
def test_exact_laplace_tends_to_the_continuous_mean(grid):
    changes, scale = np.array([0.0, 0.5, 1.0, 8.0]), 1.25

    def density(x):
        return mp.exp(-abs(x) / scale) / (2 * scale)

    expected = [
        float(mp.quad(lambda x, c=c: abs(x + c) * density(x), [-mp.inf, -c, 0, mp.inf] if c else [-mp.inf, 0, mp.inf]))
        for c in changes.tolist()
    ]
    got = rdr(make_sensitivities(changes, k=1), LAPLACE, scale=scale, indicator="exact", grids=[grid])
    assert got.values == pytest.approx(expected, rel=1e-11)


def test_exact_laplace_does_not_overflow_on_a_coarse_grid():
    got = rdr(make_sensitivities([0.0, 1.0], k=1), LAPLACE, scale=1e-5, indicator="exact")
    assert got.values.tolist() == [0.0, 1.0]  # e^(−100000) is nothing in floats


def expect_gaussian(change, k, scale):
    with mp.workdps(50):
        c, s, half = mp.mpf(change), mp.mpf(scale), mp.mpf(k) / 2
        level = s * mp.sqrt(2) * mp.gammaprod([half + mp.mpf(1) / 2], [half])
        return float(level * mp.hyp1f1(-mp.mpf(1) / 2, half, -c * c / (2 * s * s)))


@pytest.mark.parametrize("k", [1, 2, 3, 8, 81, 82, 1000, 30_000, 1_000_000])
def test_exact_gaussian_is_the_hypergeometric_formula(k):
    changes = [0.0, 1e-9, 0.01, 0.7, 1.0, 3.0, 8.17, 9.0, 30.0, 500.0, 1e4, 1e6]
    got = rdr(make_sensitivities(changes, k=k), GAUSSIAN, scale=1.3, indicator="exact")
    assert got.values == pytest.approx([expect_gaussian(c, k, 1.3) for c in changes], rel=3e-14)


@pytest.mark.parametrize(("change", "scale"), [(0.0, 2.0), (0.5, 1.0), (3.0, 0.8)])
def test_exact_gaussian_is_the_mean_length_by_integration(change, scale):
    """In one and two dimensions by quadrature of the density, which does not know of ₁F₁."""

    def density(x):
        return mp.npdf(x, 0, scale)

    line = mp.quad(lambda x: abs(x + change) * density(x), [-mp.inf, -change - 1, -change, 0, 1, mp.inf])
    plane = mp.quad(  # the Rice density, by radius
        lambda r: r * r / scale**2 * mp.exp(-((r - change) ** 2) / (2 * scale**2))
        * mp.besseli(0, r * change / scale**2) * mp.exp(-r * change / scale**2),
        [0, change + scale, change + 4 * scale, change + 12 * scale],
    )  # fmt: skip
    for k, expected in ((1, line), (2, plane)):
        got = rdr(make_sensitivities([change], k=k), GAUSSIAN, scale=scale, indicator="exact")
        assert got.values[0] == pytest.approx(float(expected), rel=1e-10)


def test_exact_gaussian_survives_extremes():
    got = rdr(make_sensitivities([0.0, 1e-300, 1.0, 1e150], k=3), GAUSSIAN, scale=1e-160, indicator="exact")
    mean_noise = expect_gaussian(0, 3, 1) * 1e-160
    assert got.values == pytest.approx([mean_noise, mean_noise, 1.0, 1e150], rel=1e-13, abs=0)


@given(sparse_rows(), st.sampled_from([LAPLACE, GAUSSIAN]), st.floats(1e-3, 1e3), st.floats(1e-6, 10))
@example((1, [{0: float(change)} for change in range(1, 20)]), LAPLACE, 1e-3, 1e-6)
@example((1, [{0: float(change)} for change in range(1, 20)]), GAUSSIAN, 1e-9, 1.0)
def test_exact_never_exceeds_the_bound_nor_falls_below_the_pis(drawn, mechanism, scale, grid):
    k, rows = drawn
    people = summarise_sensitivities(make_contributions(rows, k=k), mechanism.norm, keep_vectors=True)
    exact = rdr(people, mechanism, scale=scale, indicator="exact", grids=[grid]).values
    bound = rdr(people, mechanism, scale=scale, indicator="bound", grids=[grid]).values
    assert np.all(exact <= bound)
    assert np.all(exact >= people.values)


@pytest.mark.parametrize(
    ("indicator", "limit", "printed"),
    [("bound", Fraction(1, 19), 0.0526), ("exact", math.acosh(1 / 0.95), 0.323)],
)
def test_the_same_words_give_another_epsilon_by_another_indicator(indicator, limit, printed):
    """R7: ratio ≥ 0.95 for one COUNT."""

    def ratio(epsilon):
        people = make_sensitivities([0.0, 1.0], k=1)
        return summarise_rdr(rdr(people, LAPLACE, scale=1 / epsilon, indicator=indicator, epsilon=epsilon)).ratio

    assert ratio(float(limit) * (1 - 1e-9)) > 0.95 > ratio(float(limit) * (1 + 1e-9))
    assert float(limit) == pytest.approx(printed, rel=2e-3)


@given(st.lists(st.floats(0, 100), min_size=1, max_size=8), st.floats(0.01, 10), st.floats(0.01, 10))
def test_range_and_variance_of_the_laplace_bound_do_not_depend_on_epsilon(values, one, other):
    """R8."""
    people = make_sensitivities(sorted(values), k=3)
    first, second = (summarise_rdr(rdr(people, LAPLACE, scale=1 / e, indicator="bound")) for e in (one, other))
    assert first.max - first.min == pytest.approx(second.max - second.min, abs=1e-9)
    assert first.variance == pytest.approx(second.variance, abs=1e-9)


# ---------------------------------------------------------------- over people


weighted = st.lists(st.tuples(st.floats(0, 1e6), st.integers(0, 6)), min_size=1, max_size=10).filter(
    lambda pairs: any(count for _, count in pairs)
)


def make_rdrs(pairs):
    values, counts = zip(*pairs, strict=True)
    return RDRs(1.0, np.array(values, dtype=np.float64), np.array(counts, dtype=np.int64), 1.0)


@given(weighted)
def test_the_summary_is_that_of_people_one_by_one(pairs):
    people = [Fraction(value) for value, count in pairs for _ in range(count)]
    got = summarise_rdr(make_rdrs(pairs))
    assert list(got.describe()) == ["min", "max", "mean", "median", "variance", "ratio"]
    assert got.min == min(people)
    assert got.max == max(people)
    assert got.mean == pytest.approx(float(statistics.mean(people)), rel=1e-14)
    assert got.median == pytest.approx(float(statistics.median(people)), rel=1e-14)
    assert got.variance == pytest.approx(float(statistics.pvariance(people)), rel=1e-9, abs=1e-300)
    assert got.ratio == pytest.approx(float(min(people) / max(people)) if max(people) else 1.0, rel=1e-14)
    assert all(type(value) is float for value in got.describe().values())


@pytest.mark.parametrize("step", [1.0, 2.0**-20])
def test_variance_keeps_its_digits_on_a_high_level(step):
    """Two values a step apart on a level of 1e8: a mean rounded there is off by more than the deviation is wide."""
    got = summarise_rdr(make_rdrs([(1e8, 999_999_961), (1e8 + step, 39)]))
    share = Fraction(39, 10**9)
    assert got.variance == pytest.approx(float(share * (1 - share)) * step**2, rel=1e-9, abs=0)


def test_everybody_alike_has_variance_zero_and_ratio_one():
    got = summarise_rdr(make_rdrs([(0.1, 3), (0.1, 7)]))
    assert got.describe() == {"min": 0.1, "max": 0.1, "mean": 0.1, "median": 0.1, "variance": 0.0, "ratio": 1.0}


@given(weighted, st.one_of(st.floats(0, 1), st.sampled_from([0.0, 0.25, 0.5, 0.9, 0.99, 1.0])))
def test_quantiles_are_those_of_people_one_by_one(pairs, p):
    people = sorted(Fraction(value) for value, count in pairs for _ in range(count))
    place = Fraction(str(p)) * (len(people) - 1)
    below = math.floor(place)
    above = min(below + 1, len(people) - 1)
    expected = people[below] + (people[above] - people[below]) * (place - below)
    got = weighted_quantile(make_rdrs(pairs).values, make_rdrs(pairs).counts, p)
    assert got == pytest.approx(float(expected), rel=1e-13, abs=1e-300)


def test_a_quantile_place_is_exact_however_many_people():
    """At n = 10¹⁵ + 1 the 0.9-quantile is one person's value; a place computed in floats may fall beside it."""
    n = 10**15
    counts = np.array([9 * n // 10, 1, n // 10], dtype=np.int64)
    assert weighted_quantile(np.array([0.0, 1.0, 2.0]), counts, 0.9) == 1.0


def test_a_summary_of_nobody_and_a_quantile_outside_its_range_are_refused():
    with pytest.raises(DataError, match="no individuals"):
        summarise_rdr(make_rdrs([(1.0, 0)]))
    with pytest.raises(OptionError, match="between 0 and 1"):
        weighted_quantile(np.array([1.0]), np.array([1]), 1.5)
