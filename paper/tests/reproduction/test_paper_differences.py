"""Every demonstration, checked by another road than the one it takes; and docs/paper.md tells what they show."""

from __future__ import annotations

import math
import re
import statistics
from functools import cache
from pathlib import Path

import mpmath
import numpy as np
import pytest

from dosimeter.mechanisms import Gaussian
from dosimeter.risk.largest_epsilon import paper_candidates
from dosimeter_paper.reproduction import demonstrations as d
from dosimeter_paper.reproduction.attacks import _chance_beyond, _clopper_pearson, attack_count, attack_sum
from dosimeter_paper.reproduction.differences import DIFFERENCES, Difference
from dosimeter_paper.reproduction.queries import QUERIES, Adult
from dosimeter_paper.reproduction.variance import expect_sparse_vector
from reproduction.paper_command import Paper

PAGE = Path(__file__).parents[3] / "docs" / "paper.md"
DRAWN = {"data-dependent-count", "data-dependent-sum"}  # these draw noise: their counts are never the same twice


def floor_to_candidate(limit: float) -> float:
    return max(epsilon for epsilon in paper_candidates() if epsilon <= limit * (1 + 1e-12))


def test_bound_and_exact_indicator() -> None:
    """(1/ε)/(1 + 1/ε) ≥ τ gives 1/τ − 1; the exact ratio is 1/cosh ε."""
    shown = d.show_bound_and_exact().numbers
    assert shown["bound_limit"] == pytest.approx(1 / 0.95 - 1)
    assert shown["exact_limit"] == pytest.approx(math.acosh(1 / 0.95), rel=1e-9)


def test_raw_variance_is_that_of_the_data() -> None:
    shown = d.show_raw_variance().numbers
    assert shown["at_10"] == shown["at_0.001"] == pytest.approx(statistics.pvariance(range(100)))
    assert shown["ratio_at_10"] == pytest.approx(9.9 / (99 + 9.9))


def test_classic_gaussian_breaks_its_promise() -> None:
    """δ by integrating the privacy-loss density: E[(1 − e^(ε − L))⁺] over Gaussian noise, mpmath."""
    shown = d.show_classic_gaussian().numbers
    sigma = mpmath.sqrt(2 * mpmath.log(mpmath.mpf("1.25e6"))) / 10
    assert shown["sigma"] == pytest.approx(float(sigma))

    def beyond(z: mpmath.mpf) -> mpmath.mpf:
        loss = (2 * z * sigma + 1) / (2 * sigma**2)
        return mpmath.npdf(z) * max(0, 1 - mpmath.exp(10 - loss))

    start = sigma * (10 - 1 / (2 * sigma**2))
    exact = mpmath.quad(beyond, [start, start + 2, start + 10])
    assert shown["true_delta"] == pytest.approx(float(exact), rel=1e-6)
    assert exact > 1e-6


@pytest.mark.parametrize("groups", [1, 7, 190])
def test_more_groups_allow_a_larger_epsilon(groups: int) -> None:
    assert d.show_groups_widen().numbers[f"groups_{groups}"] == floor_to_candidate(groups * 0.05 / 0.95)


def test_observed_groups_and_bounds_tell() -> None:
    assert d.show_observed_groups().numbers == {"with": 2, "without": 1}
    assert d.show_bounds_from_data().numbers == {"with": 100_000, "without": 1000}


def test_average_by_deleting_everybody() -> None:
    values = [1] * 10 + [99]
    moves = [
        abs(statistics.fmean(values) - statistics.fmean(values[:at] + values[at + 1 :])) for at in range(len(values))
    ]
    shown = d.show_average_sensitivity().numbers
    assert shown["largest"] == pytest.approx(max(moves))
    assert shown["excess"] == pytest.approx(max(moves) / 0.098)
    assert shown["through_sums"] is not None
    assert shown["through_sums"] <= 1.0 + 1e-12


def test_an_average_spends_twice() -> None:
    shown = d.show_average_spent_twice().numbers
    assert shown["each_alone"] == pytest.approx(2 * 0.5)
    assert shown["shared"] == pytest.approx(0.5)


# ---------------------------------------------------------------- the noisy test


def sparse_vector_levels(n: int, matches: int) -> np.ndarray:
    """q_svt of a COUNT, from everybody's normalised RDR."""
    share = matches / n
    return np.array([share * (1 - share) * (epsilon / (epsilon + 1)) ** 2 for epsilon in paper_candidates()])


def test_shares_of_violations_by_a_second_quadrature() -> None:
    n, matches = d.ADULT_ROWS, d.Q1_MATCHES
    shown = d.show_violations().numbers
    paper = expect_sparse_vector(sparse_vector_levels(n, matches), 1e-5, n)
    assert shown["paper_laplace"] == pytest.approx(paper.violations, abs=1e-4)
    assert shown["paper_laplace"] == pytest.approx(0.8707, abs=5e-5)
    # Sharp, Laplace: ε = 0.2, the next above 0.1, is met when noise takes V below τ/w².
    variance, limit = matches / n * (1 - matches / n), 1e-5 / (0.2 / 1.2) ** 2
    exact = 0.5 * math.exp(-(variance - limit) * n**2 / (n - 1))
    assert shown["sharp_laplace"] == pytest.approx(exact, rel=1e-4)
    assert shown["sharp_laplace"] == pytest.approx(0.00035, abs=5e-6)
    # Sharp, Gaussian: the same number, and ε = 4, the next above 3.
    s = Gaussian(1 / n**2).scale(1.0, 4.0)
    limit = 1e-5 / (1 - s / math.sqrt(1 + s**2)) ** 2
    assert shown["sharp_gaussian"] == pytest.approx(0.5 * math.exp(-(variance - limit) * n**2 / (n - 1)), rel=1e-4)
    assert shown["sharp_gaussian"] == pytest.approx(0.00125, abs=5e-6)


def test_q1_matches_so_many(opened: Adult) -> None:
    risk = opened.assess(QUERIES[0], "laplace", "authors")
    assert (risk.n, risk.sensitivities.counts.tolist()[1]) == (d.ADULT_ROWS, d.Q1_MATCHES)


def test_ten_times_the_threshold() -> None:
    shown = d.show_threshold_factor().numbers
    assert shown["factor"] == pytest.approx(10.0)
    n = d.ADULT_ROWS
    for name, threshold in (("large_as_meant", 1e-5), ("large_as_written", 1e-4)):
        expected = expect_sparse_vector(sparse_vector_levels(n, d.Q1_MATCHES), threshold, n)
        assert shown[name] == pytest.approx(sum(expected.chances[:10]), abs=1e-4)


def test_data_normalisation_by_hand() -> None:
    """Removing the one at 1000: RDRs 100 and 200 over 1100 become 100 and 200 over 200."""
    shown = d.show_data_normalisation().numbers
    before = statistics.pvariance([100 / 1100] * 500 + [200 / 1100] * 500 + [1.0])
    after = statistics.pvariance([100 / 200] * 501 + [200 / 200] * 500)
    assert shown["moved"] == pytest.approx(abs(before - after))
    assert shown["moved"] is not None
    assert shown["hidden"] is not None
    assert shown["moved"] > 50 * shown["hidden"]
    assert shown["moved_with_ceiling"] is not None
    assert shown["moved_with_ceiling"] < shown["hidden"]


def test_counterexamples_by_deletion() -> None:
    """Each person really deleted, with Python's own median and sets."""

    def spread_median(values: list[int], slots: int) -> float:
        whole = statistics.median(values)
        by_value = {v: abs(whole - statistics.median(_without(values, v))) for v in set(values)}
        return statistics.pvariance([by_value[v] for v in values] + [0.0] * (slots - len(values)))

    def spread_distinct(values: list[int]) -> float:
        moves = [len(set(values)) - len(set(_without(values, v))) for v in values]
        return statistics.pvariance([10 / 11 * move for move in moves])

    shown = d.show_non_additive().numbers
    median = spread_median([0] * 501 + [1] * 500, 1001) - spread_median([0] * 500 + [1] * 500, 1001)
    assert shown["median"] == pytest.approx(abs(median))
    assert shown["median"] == pytest.approx(1 / 16, abs=1e-3)
    distinct = spread_distinct([0, 0, *range(1, 9)]) - spread_distinct([0, *range(1, 9)])
    assert shown["distinct"] == pytest.approx(abs(distinct))
    assert shown["distinct"] == pytest.approx(0.132, abs=5e-4)


def _without(values: list[int], value: int) -> list[int]:
    place = values.index(value)
    return values[:place] + values[place + 1 :]


def test_reruns_cost_and_keep_what_one_likes() -> None:
    shown = d.show_reruns().numbers
    n = d.ADULT_ROWS
    outcomes = expect_sparse_vector(sparse_vector_levels(n, d.Q1_MATCHES), 1e-5, n)
    assert shown["charge"] == 50
    assert shown["one_run_violates"] == pytest.approx(outcomes.violations * (1 - outcomes.denial), abs=1e-4)
    assert shown["large_among_runs"] == pytest.approx(1 - (1 - sum(outcomes.chances[:10])) ** 50, abs=1e-4)


def test_denials_tell_by_convolution() -> None:
    """P(level + ρ − ν > τ) by summing two discretised Laplace densities."""
    n = 20
    unit = (n - 1) / n**2
    first = 1 / (1 + 2 ** (2 / 3))
    grid = np.arange(-400, 400, 0.01) * unit
    shared = np.exp(-np.abs(grid) * first / unit)
    shared /= shared.sum()
    shown = d.show_uncharged_denials().numbers
    scale = 2 * unit / (1 - first)
    for name, variance in (("denial_with", unit), ("denial_without", 0.0)):
        gap = unit / 2 - variance * (10 / 11) ** 2
        tail = 0.5 * np.exp(-np.abs(grid - gap) / scale)  # P(ν < ρ − gap)
        denied = np.where(grid > gap, 1 - tail, tail)
        assert shown[name] == pytest.approx(float(shared @ denied), abs=1e-4)
    assert shown["ratio"] is not None
    assert 1.1 < shown["ratio"] < math.e


def test_thirteen_answers_are_the_most() -> None:
    """The longest row of candidates, each larger than the sum of all before it, by trying every one."""
    thousandths = sorted(round(1000 * epsilon) for epsilon in paper_candidates())

    @cache
    def longest(total: int) -> int:
        return max((1 + longest(total + c) for c in thousandths if c > total), default=0)

    shown = d.show_doubling().numbers
    assert shown["answers"] == longest(0) == 13
    assert shown["least_growth"] is not None
    assert shown["least_growth"] > 2.0
    assert (shown["first"], shown["second"]) == (0.05, None)


def test_the_list_of_candidates() -> None:
    literal = [*range(10, 0, -1), *range(9, 0, -1), *range(9, 0, -1), *range(99, 0, -1)]
    assert d.show_candidates().numbers == {"printed": len(literal), "values": 37, "smallest": 0.001}


# ---------------------------------------------------------------- an ε chosen from the data


def test_chance_beyond_by_summing() -> None:
    scale, shift, reach = 3.0, 4, 10
    masses = {z: math.exp(-abs(z) / scale) for z in range(-400, 401)}
    total = sum(masses.values())
    expected = sum(m for z, m in masses.items() if abs(shift + z) >= reach) / total
    assert _chance_beyond(reach, shift, scale) == pytest.approx(expected, rel=1e-12)


def test_confidence_bounds_by_the_binomial() -> None:
    """At the bound, so few or so many hits have chance 0.001."""
    lower, upper = _clopper_pearson(50)
    at_least = math.fsum(math.comb(50, k) * lower(20) ** k * (1 - lower(20)) ** (50 - k) for k in range(20, 51))
    at_most = math.fsum(math.comb(50, k) * upper(20) ** k * (1 - upper(20)) ** (50 - k) for k in range(21))
    assert at_least == pytest.approx(0.001, rel=1e-6)
    assert at_most == pytest.approx(0.001, rel=1e-6)
    assert (lower(0), upper(50)) == (0.0, 1.0)


def test_a_count_of_one_is_told_from_none() -> None:
    """6,000 real releases each. e^0.05 = 1.05 is what DP at the ε chosen with the person would allow. The bounds hold
    together with 99.8 % confidence; a shortfall of this size takes three hits without the person: below 10⁻¹⁴."""
    attack = attack_count(6_000)
    assert (attack.present.epsilon, attack.absent.epsilon) == (0.05, 10.0)
    assert attack.proven > 400 * math.exp(attack.present.epsilon)
    assert attack.exact > attack.allowed  # not even the largest candidate covers it


def test_one_outlier_in_a_sum_is_told() -> None:
    """6,000 real releases each. Without the person |noise| ≥ 400,000 is 20 scales away: chance 2·10⁻⁹ each, and
    3·10⁻¹⁶ for three among them all."""
    attack = attack_sum(6_000)
    assert (attack.present.epsilon, attack.absent.epsilon) == (0.05, 5.0)
    assert attack.absent.hits <= 2
    assert attack.proven > attack.allowed > math.exp(attack.present.epsilon)


# ---------------------------------------------------------------- the page and the command


def squeeze(text: str) -> str:
    return re.sub(r"\s+", " ", text)


@pytest.mark.parametrize("point", DIFFERENCES, ids=lambda point: point.key)
def test_the_page_tells_what_is_shown(point: Difference) -> None:
    page = squeeze(PAGE.read_text(encoding="utf-8"))
    assert point.title in page
    if point.key not in DRAWN:
        assert point.demonstrate().words in page


def test_command_lists_them_all(paper: Paper) -> None:
    document = paper("differences", "--json").document
    assert [entry["key"] for entry in document["differences"]] == [point.key for point in DIFFERENCES]
    assert len({entry["key"] for entry in document["differences"]}) == len(DIFFERENCES)
    assert all(entry["words"] and entry["numbers"] for entry in document["differences"])
