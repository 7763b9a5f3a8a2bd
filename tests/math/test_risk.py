"""The formulas over influences, by another road: high precision, enumeration over discrete noise, expanded people."""

from __future__ import annotations

import functools
import itertools
import math
import statistics
import time
from collections import Counter
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dosimeter.errors import DataError, OptionError
from dosimeter.mechanism import zcdp_epsilon
from dosimeter.model import Contributions, Mechanism, RDRs, Sensitivities
from dosimeter.risk import (
    compute_rdr,
    ex_post,
    largest_difference,
    lee_clifton,
    own_epsilon,
    per_row_norms,
    posterior_odds,
    summarise_rdr,
    summarise_sensitivities,
    weighted_quantile,
)

LAPLACE = Mechanism("laplace")
GAUSSIAN = Mechanism("gaussian", delta=1e-6, calibration="zcdp")


def make_contributions(rows, *, k, people=None, attributes=None):
    """From a list of {cell: change}."""
    people = [1] * len(rows) if people is None else people
    return Contributions(
        k=k,
        people=np.array(people, dtype=np.int64),
        starts=np.array([0, *itertools.accumulate(len(row) for row in rows)], dtype=np.int64),
        cells=np.array([cell for row in rows for cell in row], dtype=np.int64),
        changes=np.array([change for row in rows for change in row.values()], dtype=np.float64),
        attributes={name: np.array(column) for name, column in (attributes or {}).items()},
    )


def list_rows(contributions):
    bounds = itertools.pairwise(contributions.starts.tolist())
    cells, changes = contributions.cells.tolist(), contributions.changes.tolist()
    return [dict(zip(cells[low:high], changes[low:high], strict=True)) for low, high in bounds]


def make_sensitivities(values, *, k, counts=None, vectors=None):
    counts = [1] * len(values) if counts is None else counts
    return Sensitivities(np.array(values, dtype=np.float64), np.array(counts, dtype=np.int64), k, vectors)


def rdr(sensitivities, mechanism, *, scale, indicator, grids=(1.0,), sensitivity=1.0, epsilon=1.0):
    return compute_rdr(
        sensitivities,
        mechanism,
        sensitivity=sensitivity,
        scale=scale,
        epsilon=epsilon,
        indicator=indicator,
        grids=np.array(grids, dtype=np.float64),
    )


def length(vector, norm):
    return math.fsum(map(abs, vector)) if norm == 1 else math.sqrt(math.fsum(v * v for v in vector))


numbers = st.one_of(st.integers(-20, 20).map(float), st.floats(-50, 50).filter(lambda v: v == 0 or abs(v) > 1e-6))


@st.composite
def sparse_rows(draw, max_k=6, max_rows=12, values=numbers, max_cells=6):
    k = draw(st.integers(1, max_k))
    row = st.dictionaries(st.integers(0, k - 1), values, max_size=max_cells)
    return k, draw(st.lists(row, min_size=1, max_size=max_rows))


# ---------------------------------------------------------------- per-instance sensitivities


@given(sparse_rows(), st.sampled_from([1, 2]))
def test_norms_are_those_of_each_row(drawn, norm):
    k, rows = drawn
    rows = [{}, *rows, {}]
    got = per_row_norms(make_contributions(rows, k=k), norm)
    assert got == pytest.approx([length(row.values(), norm) for row in rows], rel=1e-13)


def test_norms_of_nobody_who_moves_anything():
    assert per_row_norms(make_contributions([{}, {}], k=3), 1).tolist() == [0.0, 0.0]


@given(sparse_rows(values=st.integers(-3, 3).map(float)), st.sampled_from([1, 2]), st.booleans(), st.data())
def test_classes_are_those_of_people_counted_one_by_one(drawn, norm, keep_vectors, data):
    k, rows = drawn
    people = data.draw(st.lists(st.integers(0, 5), min_size=len(rows), max_size=len(rows)))
    races = data.draw(st.lists(st.sampled_from(["a", "b", None]), min_size=len(rows), max_size=len(rows)))
    flags = data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows)))
    contributions = make_contributions(rows, k=k, people=people, attributes={"race": races, "flag": flags})
    got = summarise_sensitivities(contributions, norm, keep_vectors=keep_vectors)

    def key(row, race, flag):
        power = sum(abs(int(change)) ** norm for change in row.values())
        vector = frozenset((cell, change) for cell, change in row.items() if change) if keep_vectors else None
        return power, vector, race, flag

    expected = Counter()
    for row, count, race, flag in zip(rows, people, races, flags, strict=True):
        expected[key(row, race, flag)] += count
    expected = +expected

    vectors = list_rows(got.vectors) if keep_vectors else [{}] * len(got.values)
    found = Counter()
    for value, vector, race, flag, count in zip(
        got.values, vectors, got.attributes["race"], got.attributes["flag"], got.counts, strict=True
    ):
        power = round(value**norm)
        found[power, frozenset(vector.items()) if keep_vectors else None, race, bool(flag)] += int(count)
    assert found == expected
    assert len(got.values) == len(expected)
    assert np.all(np.diff(got.values) >= 0)
    assert got.n == sum(people)
    assert (got.vectors is None) != keep_vectors
    if keep_vectors:
        assert got.vectors.people.tolist() == got.counts.tolist()
        assert per_row_norms(got.vectors, norm) == pytest.approx(got.values, rel=1e-13)
        assert got.vectors.attributes["race"].tolist() == got.attributes["race"].tolist()


@given(sparse_rows(values=st.integers(-3, 3).map(lambda v: v / 7)), st.randoms(use_true_random=False))
def test_classes_do_not_depend_on_the_order_of_rows_and_cells(drawn, random):
    k, rows = drawn
    shuffled = [dict(random.sample(list(row.items()), len(row))) for row in random.sample(rows, len(rows))]
    one = summarise_sensitivities(make_contributions(rows, k=k), 1, keep_vectors=True)
    two = summarise_sensitivities(make_contributions(shuffled, k=k), 1, keep_vectors=True)
    assert one.values.tolist() == two.values.tolist()
    assert list_rows(one.vectors) == list_rows(two.vectors)


def test_a_sum_written_differently_by_rounding_is_one_class():
    rows = [{0: 0.1, 1: 0.2, 2: 0.3}, {0: 0.3, 1: 0.2, 2: 0.1}, {0: 0.6}, {1: 0.7}]
    contributions = make_contributions(rows, k=3, people=[2, 3, 5, 7])
    assert len(set(per_row_norms(contributions, 1).tolist())) > 2  # floats alone would split it
    got = summarise_sensitivities(contributions, 1, keep_vectors=False)
    assert got.values.tolist() == pytest.approx([0.6, 0.7], rel=1e-15)
    assert got.counts.tolist() == [10, 7]


@pytest.mark.parametrize("second", [{0: 2.0**50 + 1}, {0: 2.0**50, 1: 1.0}])
def test_exact_numbers_a_unit_apart_are_never_merged(second):
    rows = [{0: 2.0**50}, second]
    got = summarise_sensitivities(make_contributions(rows, k=2), 1, keep_vectors=False)
    assert got.values.tolist() == [2.0**50, 2.0**50 + 1]


def test_a_long_run_of_close_values_is_data_and_stays_apart():
    rows = [{0: 1.0 + 5e-13 * i, 1: 0.1} for i in range(100)]
    got = summarise_sensitivities(make_contributions(rows, k=2), 1, keep_vectors=False)
    assert len(got.values) == 100


def test_a_million_rows_are_summarised_in_a_moment():
    n = 1_000_000
    contributions = Contributions(
        k=1,
        people=np.ones(n, dtype=np.int64),
        starts=np.arange(n + 1),
        cells=np.zeros(n, dtype=np.int64),
        changes=(np.arange(n, dtype=np.float64) * 7919) % 500_000,
    )
    start = time.perf_counter()
    got = summarise_sensitivities(contributions, 1, keep_vectors=False)
    assert time.perf_counter() - start < 3.0
    assert got.values.tolist() == list(range(500_000))
    assert set(got.counts.tolist()) == {2}


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


def test_attributes_stay_with_their_classes():
    flags = {"young": np.array([True, False])}
    people = Sensitivities(np.array([0.0, 1.0]), np.array([3, 4]), 1, attributes=flags)
    got = rdr(people, LAPLACE, scale=1.0, indicator="exact")
    assert got.attributes["young"].tolist() == [True, False]


# ---------------------------------------------------------------- RDR: exact expectations


def expect_laplace(vector, scale, grids):
    """Σ_j E|c_j + X_j|, adding up the discrete Laplace distribution."""
    return math.fsum(expect_one_laplace(change, scale, grids[j % len(grids)]) for j, change in enumerate(vector))


@functools.cache
def expect_one_laplace(change, scale, grid):
    with mp.workdps(30):
        q = mp.exp(-mp.mpf(grid) / mp.mpf(scale))
        steps = range(-math.ceil(50 * scale / grid) - 1, math.ceil(50 * scale / grid) + 2)
        masses = [q ** abs(step) for step in steps]
        sizes = [abs(mp.mpf(change) + step * mp.mpf(grid)) for step in steps]
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


@pytest.mark.parametrize("epsilon", [0.001, 0.0526, 0.323, 1.0, 5.0, 10.0])
def test_one_count_has_ratio_one_over_cosh(epsilon):
    got = rdr(make_sensitivities([0.0, 1.0], k=1), LAPLACE, scale=1 / epsilon, indicator="exact", epsilon=epsilon)
    assert summarise_rdr(got)["ratio"] == pytest.approx(1 / math.cosh(epsilon), rel=1e-13)


@pytest.mark.parametrize(
    ("indicator", "limit", "printed"),
    [("bound", Fraction(1, 19), 0.0526), ("exact", math.acosh(1 / 0.95), 0.323)],
)
def test_the_same_words_give_another_epsilon_by_another_indicator(indicator, limit, printed):
    """R7: ratio ≥ 0.95 for one COUNT."""

    def ratio(epsilon):
        people = make_sensitivities([0.0, 1.0], k=1)
        return summarise_rdr(rdr(people, LAPLACE, scale=1 / epsilon, indicator=indicator, epsilon=epsilon))["ratio"]

    assert ratio(float(limit) * (1 - 1e-9)) > 0.95 > ratio(float(limit) * (1 + 1e-9))
    assert float(limit) == pytest.approx(printed, rel=2e-3)


def test_the_bound_can_accept_what_the_exact_indicator_rejects():
    """R7: a ratio of upper bounds is not a cautious ratio, here beyond ε of about 1.6."""
    people = make_sensitivities([0.0, 1.0], k=1)

    def ratio(indicator, epsilon):
        return summarise_rdr(rdr(people, LAPLACE, scale=1 / epsilon, indicator=indicator))["ratio"]

    assert ratio("bound", 1.5) < ratio("exact", 1.5)
    assert ratio("bound", 1.7) > ratio("exact", 1.7)


@given(st.lists(st.floats(0, 100), min_size=1, max_size=8), st.floats(0.01, 10), st.floats(0.01, 10))
def test_range_and_variance_of_the_laplace_bound_do_not_depend_on_epsilon(values, one, other):
    """R8."""
    people = make_sensitivities(sorted(values), k=3)
    first, second = (summarise_rdr(rdr(people, LAPLACE, scale=1 / e, indicator="bound")) for e in (one, other))
    assert first["max"] - first["min"] == pytest.approx(second["max"] - second["min"], abs=1e-9)
    assert first["variance"] == pytest.approx(second["variance"], abs=1e-9)


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
    assert list(got) == ["min", "max", "mean", "median", "variance", "ratio"]
    assert got["min"] == min(people)
    assert got["max"] == max(people)
    assert got["mean"] == pytest.approx(float(statistics.mean(people)), rel=1e-14)
    assert got["median"] == pytest.approx(float(statistics.median(people)), rel=1e-14)
    assert got["variance"] == pytest.approx(float(statistics.pvariance(people)), rel=1e-9, abs=1e-300)
    assert got["ratio"] == pytest.approx(float(min(people) / max(people)) if max(people) else 1.0, rel=1e-14)
    assert all(type(value) is float for value in got.values())


@pytest.mark.parametrize("step", [1.0, 2.0**-20])
def test_variance_keeps_its_digits_on_a_high_level(step):
    """Two values a step apart on a level of 1e8: a mean rounded there is off by more than the deviation is wide."""
    got = summarise_rdr(make_rdrs([(1e8, 999_999_961), (1e8 + step, 39)]))
    share = Fraction(39, 10**9)
    assert got["variance"] == pytest.approx(float(share * (1 - share)) * step**2, rel=1e-9, abs=0)


def test_everybody_alike_has_variance_zero_and_ratio_one():
    got = summarise_rdr(make_rdrs([(0.1, 3), (0.1, 7)]))
    assert got == {"min": 0.1, "max": 0.1, "mean": 0.1, "median": 0.1, "variance": 0.0, "ratio": 1.0}


def test_nobody_at_all_is_an_error():
    with pytest.raises(DataError, match="no individuals"):
        summarise_rdr(make_rdrs([(1.0, 0)]))


@given(weighted, st.one_of(st.floats(0, 1), st.sampled_from([0.0, 0.25, 0.5, 0.9, 0.99, 1.0])))
def test_quantiles_are_those_of_people_one_by_one(pairs, p):
    people = sorted(Fraction(value) for value, count in pairs for _ in range(count))
    place = Fraction(str(p)) * (len(people) - 1)
    below = math.floor(place)
    above = min(below + 1, len(people) - 1)
    expected = people[below] + (people[above] - people[below]) * (place - below)
    got = weighted_quantile(make_rdrs(pairs).values, make_rdrs(pairs).counts, p)
    assert got == pytest.approx(float(expected), rel=1e-13, abs=1e-300)


def test_quantiles_agree_with_a_database():
    import duckdb

    pairs = [(0.5, 3), (4.0, 1), (1.25, 6), (9.0, 2)]
    for p in (0.0, 0.1, 0.25, 0.5, 0.77, 0.9, 1.0):
        (expected,) = duckdb.execute(
            "SELECT quantile_cont(v, ?::DOUBLE) FROM (SELECT unnest(?::DOUBLE[]) AS v)",
            [p, [value for value, count in pairs for _ in range(count)]],
        ).fetchone()
        assert weighted_quantile(make_rdrs(pairs).values, make_rdrs(pairs).counts, p) == pytest.approx(expected)


def test_a_quantile_place_is_exact_however_many_people():
    """At n = 10¹⁵ + 1 the 0.9-quantile is one person's value; a place computed in floats may fall beside it."""
    n = 10**15
    counts = np.array([9 * n // 10, 1, n // 10], dtype=np.int64)
    assert weighted_quantile(np.array([0.0, 1.0, 2.0]), counts, 0.9) == 1.0


def test_a_quantile_outside_its_range_is_refused():
    with pytest.raises(OptionError, match="between 0 and 1"):
        weighted_quantile(np.array([1.0]), np.array([1]), 1.5)


# ---------------------------------------------------------------- after the output is known


def log_pmf(mechanism, z, scale):
    """Of the discrete noise on the integers, with its own normalisation, 50 digits."""
    power = 1 if mechanism.kind == "laplace" else 2
    unit = mp.mpf(scale) if power == 1 else 2 * mp.mpf(scale) ** 2
    total = mp.fsum(mp.exp(-(mp.mpf(abs(y)) ** power) / unit) for y in range(-400, 401))
    return -(mp.mpf(abs(z)) ** power) / unit - mp.log(total)


@pytest.mark.parametrize("mechanism", [LAPLACE, GAUSSIAN])
def test_loss_is_the_log_of_the_ratio_of_probabilities(mechanism):
    k, scale = 4, 1.7
    exact, output = [5, 0, -2, 9], [7, -1, -2, 4]
    rows = [{}, {0: 1.0}, {2: -3.0}, {0: 2.0, 1: 1.0}, {3: -5.0, 0: -2.0}, dict.fromkeys(range(k), 1.0)]
    residual = np.array(output, dtype=np.float64) - np.array(exact)
    output_rdr, loss = ex_post(make_contributions(rows, k=k), residual, mechanism, scale)
    with mp.workdps(50):
        for row, got_rdr, got_loss in zip(rows, output_rdr, loss, strict=True):
            without = [value - int(row.get(cell, 0)) for cell, value in enumerate(exact)]
            expected = mp.fsum(
                log_pmf(mechanism, o - q, scale) - log_pmf(mechanism, o - w, scale)
                for o, q, w in zip(output, exact, without, strict=True)
            )
            assert got_loss == pytest.approx(float(expected), rel=1e-13, abs=1e-15)
            distance = length([o - w for o, w in zip(output, without, strict=True)], mechanism.norm)
            assert got_rdr == pytest.approx(distance, rel=1e-14)


@given(sparse_rows(), st.sampled_from([LAPLACE, GAUSSIAN]), st.data())
def test_output_rdr_is_the_length_of_the_whole_vector(drawn, mechanism, data):
    k, rows = drawn
    residual = data.draw(st.lists(numbers, min_size=k, max_size=k))
    output_rdr, loss = ex_post(make_contributions(rows, k=k), np.array(residual), mechanism, 2.0)
    power = mechanism.norm
    unit = 2.0 if power == 1 else 8.0
    for row, got_rdr, got_loss in zip(rows, output_rdr, loss, strict=True):
        exact_residual = [Fraction(value) for value in residual]
        without = [value + Fraction(row.get(cell, 0.0)) for cell, value in enumerate(exact_residual)]
        moved, stayed = (sum(abs(value) ** power for value in vector) for vector in (without, exact_residual))
        assert got_rdr == pytest.approx(float(moved) ** (1 / power), rel=1e-7, abs=1e-6)
        assert got_loss == pytest.approx(float(moved - stayed) / unit, rel=1e-10, abs=1e-10)


def test_an_output_that_fits_the_dataset_without_a_person_keeps_its_digits():
    """Noise of 1e8 in the cells of one group and 1e-3 elsewhere: total − touched would be off by its whole size."""
    residual = np.array([1e-3, 1e8, -3e8, 1e-3])
    output_rdr, _ = ex_post(make_contributions([{1: -1e8, 2: 3e8}], k=4), residual, GAUSSIAN, 1.0)
    assert output_rdr[0] == pytest.approx(math.sqrt(2) * 1e-3, rel=1e-12)


def test_loss_never_exceeds_the_own_guarantee_under_laplace():
    rng = np.random.default_rng(4)
    rows = [{cell: float(rng.integers(-4, 5)) for cell in rng.choice(5, 2, replace=False)} for _ in range(50)]
    contributions = make_contributions(rows, k=5)
    _, loss = ex_post(contributions, rng.integers(-9, 9, 5).astype(float), LAPLACE, 8.0)
    own = own_epsilon(per_row_norms(contributions, 1), LAPLACE, sensitivity=8.0, scale=8.0, epsilon=1.0)
    assert np.all(np.abs(loss) <= own)


def test_without_noise_the_loss_is_infinite_for_whoever_moved_the_answer():
    output_rdr, loss = ex_post(make_contributions([{}, {0: -2.0}], k=2), np.zeros(2), LAPLACE, 0.0)
    assert output_rdr.tolist() == [0.0, 2.0]
    assert loss.tolist() == [0.0, math.inf]


def test_a_residual_needs_every_cell():
    with pytest.raises(ValueError, match="per cell"):
        ex_post(make_contributions([{0: 1.0}], k=2), np.zeros(1), LAPLACE, 1.0)


# ---------------------------------------------------------------- beside RDR


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
    assert posterior_odds(float(prior), epsilon) == pytest.approx(
        float(prior * factor / (1 - prior + prior * factor)), rel=1e-12
    )


def test_posterior_at_the_ends():
    assert posterior_odds(0.0, math.inf) == 0.0
    assert posterior_odds(1e-9, math.inf) == 1.0
    assert posterior_odds(0.3, 0.0) == pytest.approx(0.3)
    assert posterior_odds(0.5, 5000.0) == 1.0
    with pytest.raises(OptionError, match="prior"):
        posterior_odds(1.1, 1.0)
    with pytest.raises(OptionError, match="epsilon"):
        posterior_odds(0.5, -1.0)


def difference_by_pairs(rows, people, k, norm):
    vectors = [
        [row.get(cell, 0.0) for cell in range(k)]
        for row, count in zip(rows, people, strict=True)
        for _ in range(min(count, 2))
    ]
    pairs = itertools.combinations(vectors, 2)
    return max((length([a - b for a, b in zip(one, two, strict=True)], norm) for one, two in pairs), default=0.0)


@given(sparse_rows(), st.sampled_from([1, 2]), st.data())
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


@given(sparse_rows(max_cells=1), st.sampled_from([1, 2]))
def test_largest_difference_where_everybody_is_in_one_cell(drawn, norm):
    k, rows = drawn
    got, exact = largest_difference(make_contributions(rows, k=k), norm)
    assert exact
    assert got == pytest.approx(difference_by_pairs(rows, [1] * len(rows), k, norm), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize(
    ("rows", "people", "expected"),
    [
        ([{0: 5.0}, {0: 6.0}], [1, 1], 1.0),  # nobody has 0: not the largest PIS
        ([{0: 5.0}, {0: 6.0}, {}], [1, 1, 1], 6.0),
        ([{0: 5.0}, {0: 6.0}, {}], [1, 1, 0], 1.0),
        ([{0: 5.0}, {0: -6.0}], [1, 1], 11.0),
        ([{0: 5.0}, {1: 6.0}], [1, 1], 11.0),  # moving from one group to another moves both
        ([{0: 5.0}], [7], 0.0),
        ([{0: 5.0}], [1], 0.0),
    ],
)
def test_largest_difference_in_the_cases_one_remembers(rows, people, expected):
    assert largest_difference(make_contributions(rows, k=2, people=people), 1) == (expected, True)


@pytest.mark.parametrize("norm", [1, 2])
def test_largest_difference_of_many_rows(norm):
    """Two measures in each of 30 groups, everybody in one group: 60,000 rows, against every pair."""
    from scipy.spatial.distance import pdist

    rng = np.random.default_rng(11)
    n, groups = 60_000, 30
    group = rng.integers(0, groups, n)
    points = rng.normal(size=(n, 2))
    contributions = Contributions(
        k=2 * groups,
        people=np.ones(n, dtype=np.int64),
        starts=np.arange(0, 2 * n + 1, 2),
        cells=np.stack([2 * group, 2 * group + 1], axis=1).ravel(),
        changes=points.ravel(),
    )
    start = time.perf_counter()
    got, exact = largest_difference(contributions, norm)
    assert time.perf_counter() - start < 3.0
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
    contributions = Contributions(
        k=k,
        people=np.ones(n, dtype=np.int64),
        starts=np.arange(0, n * k + 1, k),
        cells=np.tile(np.arange(k), n),
        changes=points.ravel(),
    )
    got, exact = largest_difference(contributions, norm)
    assert not exact
    some = max(length(a - b, norm) for a, b in itertools.combinations(points[:60], 2))
    assert some <= got <= 2.0 + 1e-12
