"""The formulas M1–M3 by another road: minimisation over α in 60 digits, OpenDP's map, sums of the exact pmf."""

import itertools
import math
from collections.abc import Callable
from functools import partial

import mpmath as mp
import numpy as np
import opendp.prelude as opendp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dosimeter.errors import OptionError
from dosimeter.mechanisms import ClassicGaussian, Gaussian, Laplace, Mechanism
from dosimeter.mechanisms.table import PURE, WITH_DELTA, make_with_delta
from dosimeter.mechanisms.zcdp import default_delta, zcdp_epsilon, zcdp_rho
from dosimeter.release.noise import DRAWN, calibrate
from dosimeter.risk.largest_epsilon import paper_candidates

LAPLACE = Laplace()
EPSILONS = (0.001, 0.009, 0.1, 0.3, 1.0, 3.0, 10.0, 50.0)
DELTAS = (1e-12, 9.4e-10, 1e-6, 1e-3, 0.2)


def gaussian(delta: float, calibration: str = "zcdp") -> Mechanism:
    return {"zcdp": Gaussian, "classic": ClassicGaussian}[calibration](delta)


def minimise(function: Callable[[mp.mpf], mp.mpf]) -> mp.mpf:
    """The least value over α > 1 by golden sections of ln(α − 1): no derivative, no knowledge of the code's algebra."""
    golden = (mp.sqrt(5) - 1) / 2
    low, high = mp.mpf(-60), mp.mpf(60)
    left, right = high - golden * (high - low), low + golden * (high - low)
    at_left, at_right = function(1 + mp.exp(left)), function(1 + mp.exp(right))
    for _ in range(110):
        if at_left < at_right:
            high, right, at_right = right, left, at_left
            left = high - golden * (high - low)
            at_left = function(1 + mp.exp(left))
        else:
            low, left, at_left = left, right, at_right
            right = low + golden * (high - low)
            at_right = function(1 + mp.exp(right))
    return min(at_left, at_right)


def least_delta(rho: mp.mpf, epsilon: mp.mpf) -> mp.mpf:
    """M3 as printed, in logarithms so that the search does not overflow."""

    def log_delta(alpha: mp.mpf) -> mp.mpf:
        return (alpha - 1) * (alpha * rho - epsilon) - mp.log(alpha - 1) + alpha * mp.log1p(-1 / alpha)

    return mp.exp(minimise(log_delta))


def least_epsilon(rho: mp.mpf, delta: mp.mpf) -> mp.mpf:
    """M3's expression set equal to δ and solved for ε at each α."""

    def epsilon(alpha: mp.mpf) -> mp.mpf:
        return alpha * rho - (mp.log(delta) + mp.log(alpha - 1) - alpha * mp.log1p(-1 / alpha)) / (alpha - 1)

    return max(mp.mpf(0), minimise(epsilon))


# ---------------------------------------------------------------- M1, M2


@pytest.mark.parametrize("epsilon", paper_candidates())
def test_laplace_scale_is_sensitivity_over_epsilon(epsilon: float) -> None:
    assert LAPLACE.scale(3.0, epsilon) == pytest.approx(float(mp.mpf(3) / mp.mpf(epsilon)), rel=1e-15)


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 10.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-4])
def test_classic_scale_solves_its_own_equation(epsilon: float, delta: float) -> None:
    sigma = mp.mpf(gaussian(delta, "classic").scale(2.5, epsilon))
    # σ²ε²/2Δ² = ln(1.25/δ), read backwards.
    assert float(mp.mpf(1.25) * mp.exp(-((sigma * epsilon / 2.5) ** 2) / 2)) == pytest.approx(delta, rel=1e-12)


def continuous_delta(sigma: float, epsilon: float) -> mp.mpf:
    """The exact δ of continuous Gaussian noise at sensitivity 1 (Balle and Wang)."""
    sigma, epsilon = mp.mpf(sigma), mp.mpf(epsilon)
    half, shift = 1 / (2 * sigma), epsilon * sigma
    return mp.ncdf(half - shift) - mp.exp(epsilon) * mp.ncdf(-half - shift)


def test_classic_scale_is_too_small_beyond_its_proof() -> None:
    """M2: at ε = 10, δ = 1e-6 it gives 0.530 where 0.541 is needed."""
    sigma = gaussian(1e-6, "classic").scale(1.0, 10.0)
    assert sigma == pytest.approx(0.530, abs=5e-4)
    assert continuous_delta(sigma, 10.0) > 1.5e-6
    assert continuous_delta(0.5405, 10.0) > 1e-6 > continuous_delta(0.5415, 10.0)
    assert continuous_delta(gaussian(1e-6, "classic").scale(1.0, 1.0), 1.0) < 1e-6


# ---------------------------------------------------------------- M3


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("delta", DELTAS)
def test_zcdp_scale_is_the_smallest_that_meets_the_bound(epsilon: float, delta: float) -> None:
    with mp.workdps(60):
        sigma = mp.mpf(gaussian(delta).scale(1.0, epsilon))
        assert least_delta(1 / (2 * sigma**2), mp.mpf(epsilon)) <= delta
        smaller = sigma * (1 - mp.mpf("1e-9"))
        assert least_delta(1 / (2 * smaller**2), mp.mpf(epsilon)) > delta


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("delta", DELTAS)
def test_zcdp_scale_agrees_with_opendp(epsilon: float, delta: float) -> None:
    opendp.enable_features("contrib")
    space = opendp.vector_domain(opendp.atom_domain(T="i64")), opendp.l2_distance(T="f64")

    def certified(scale: float) -> float:
        measurement = opendp.m.make_gaussian(*space, scale=scale)
        return float(opendp.c.make_zCDP_to_approxDP(measurement).map(3.0).delta(epsilon))

    sigma = gaussian(delta).scale(3.0, epsilon)
    assert certified(sigma * (1 + 1e-12)) <= delta
    assert certified(sigma * (1 - 1e-9)) > delta


@pytest.mark.parametrize("rho", [1e-12, 3e-7, 0.00125, 0.0459, 0.5, 5.5, 40.0])
def test_zcdp_epsilon_is_the_least_and_rounded_up(rho: float) -> None:
    with mp.workdps(60):
        for delta in (1e-100, *DELTAS):
            reference = least_epsilon(mp.mpf(rho), mp.mpf(delta))
            result = zcdp_epsilon(rho, delta)
            assert reference <= result <= reference * (1 + mp.mpf("1e-12")) + mp.mpf("1e-15")


@pytest.mark.parametrize("epsilon", [1e-9, *EPSILONS, 800.0])
@pytest.mark.parametrize("delta", [1e-290, *DELTAS, 0.99])
def test_zcdp_rho_is_the_largest_and_rounded_down(epsilon: float, delta: float) -> None:
    rho = zcdp_rho(epsilon, delta)
    with mp.workdps(60):
        assert least_delta(mp.mpf(rho), mp.mpf(epsilon)) <= delta
        assert least_delta(mp.mpf(rho) * (1 + mp.mpf("1e-12")), mp.mpf(epsilon)) > delta


def discrete_delta(sigma: float, epsilon: float, shift: int) -> mp.mpf:
    """The exact δ of the discrete Gaussian: Σ max(0, p(z) − e^ε p(z + shift))."""
    sigma = mp.mpf(sigma)
    reach = shift + int(mp.ceil(40 * sigma))
    weight = {z: mp.exp(-(mp.mpf(z) ** 2) / (2 * sigma**2)) for z in range(-reach, reach + shift + 1)}
    excess = mp.fsum(
        max(mp.mpf(0), weight[z] - mp.exp(mp.mpf(epsilon)) * weight[z + shift]) for z in range(-reach, reach + 1)
    )
    return excess / mp.fsum(weight.values())


def analytic_scale(epsilon: float, delta: float) -> float:
    low, high = 1e-3, 1e3
    for _ in range(60):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if continuous_delta(middle, epsilon) <= delta else (middle, high)
    return high


def test_integer_noise_keeps_the_promise_of_zcdp_and_breaks_the_analytic_one() -> None:
    """M3: calibrated for continuous noise, the true δ of integer noise comes out several times too large."""
    worst = mp.mpf(0)
    for epsilon, delta in itertools.product((2.0, 5.0, 7.5, 10.0), (1e-8, 1e-6, 1e-3)):
        assert discrete_delta(gaussian(delta).scale(1.0, epsilon), epsilon, 1) <= delta
        assert discrete_delta(gaussian(delta).scale(3.0, epsilon), epsilon, 3) <= delta
        worst = max(worst, discrete_delta(analytic_scale(epsilon, delta), epsilon, 1) / delta)
    assert worst > 1.5


# ---------------------------------------------------------------- relations

mechanisms = st.one_of(
    st.just(LAPLACE),
    st.builds(gaussian, st.floats(1e-15, 0.05), st.sampled_from(["zcdp", "classic"])),
)


@given(mechanisms, st.floats(1e-4, 60.0), st.floats(1e-6, 1e9))
def test_scale_is_proportional_to_sensitivity_falls_in_epsilon_and_gives_it_back(
    mechanism: Mechanism, epsilon: float, sensitivity: float
) -> None:
    scale, unit = mechanism.scale(sensitivity, epsilon), mechanism.scale(1.0, epsilon)
    assert mechanism.epsilon(sensitivity, scale) == pytest.approx(epsilon, rel=1e-10)
    assert scale == pytest.approx(sensitivity * unit, rel=1e-14)
    assert mechanism.scale(1.0, epsilon * 1.001) < unit


@settings(max_examples=300)
@given(st.floats(1e-300, 1e300), st.floats(1e-300, 1.0, exclude_max=True))
def test_zcdp_conversions_survive_extremes(epsilon: float, delta: float) -> None:
    rho = zcdp_rho(epsilon, delta)
    assert 0.0 <= rho < math.inf
    assert 0.0 <= zcdp_epsilon(rho, delta) < math.inf


@pytest.mark.parametrize("mechanism", [LAPLACE, gaussian(1e-6), gaussian(1e-6, "classic")])
def test_limits(mechanism: Mechanism) -> None:
    assert mechanism.scale(1.0, math.inf) == 0.0
    assert mechanism.epsilon(1.0, 0.0) == math.inf
    assert mechanism.epsilon(1.0, math.inf) == 0.0
    assert mechanism.error(0.0, 1.0) == 0.0
    assert gaussian(0.1).epsilon(1.0, 20.0) == 0.0  # much noise at a large δ


# ---------------------------------------------------------------- quantiles of discrete noise


def brute_force_quantile(kind: str, steps: float, probability: float) -> int:
    """Probabilities added outwards from 0 in 30 digits, against the total of all of them."""
    scale, reach = mp.mpf(steps), int(80 * steps if kind == "laplace" else 14 * steps) + 60
    if kind == "laplace":
        weights = [mp.exp(-mp.mpf(z) / scale) for z in range(reach)]
    else:
        weights = [mp.exp(-(mp.mpf(z) ** 2) / (2 * scale**2)) for z in range(reach)]
    total = weights[0] + 2 * mp.fsum(weights[1:])
    covered = weights[0]
    for quantile in itertools.count(1):
        if covered >= mp.mpf(probability) * total:
            return quantile - 1
        covered += 2 * weights[quantile]
    raise AssertionError("unreachable")


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
@pytest.mark.parametrize("steps", [0.02, 0.1, 0.33, 0.7, 1.0, 1.49, 1.51, 2.7, 9.9, 31.0, 63.97, 64.03, 101.3])
def test_error_quantile_by_summing(kind: str, steps: float) -> None:
    mechanism = LAPLACE if kind == "laplace" else gaussian(1e-6)
    with mp.workdps(30):
        for probability in (0.05, 0.5, 0.9, 0.95, 0.999, 0.9999999):
            expected = brute_force_quantile(kind, steps, probability)
            for grid in (1.0, 0.25):
                assert mechanism.error(steps * grid, grid, probability) == expected * grid


def test_error_quantile_has_no_seam() -> None:
    """Around the change from sum to limit, 95 % quantiles rise by at most a step, and both ways give the same."""
    scales = np.linspace(60.0, 68.0, 801)
    quantiles = np.array([gaussian(1e-6).error(scale, 1.0) for scale in scales])
    assert set(np.diff(quantiles)) == {0.0, 1.0}
    assert np.abs(quantiles - (1.959963984540054 * scales - 0.5)).max() <= 1.001


@pytest.mark.parametrize("steps", [1e4, 1e9, 1e17])
def test_error_quantile_tends_to_the_continuous_one(steps: float) -> None:
    assert LAPLACE.error(1.0, 1.0 / steps) == pytest.approx(math.log(20.0), abs=1.5 / steps, rel=1e-14)
    normal = float(mp.sqrt(2) * mp.erfinv(mp.mpf("0.95")))
    assert gaussian(1e-6).error(1.0, 1.0 / steps) == pytest.approx(normal, abs=1.5 / steps, rel=1e-14)


@pytest.mark.parametrize("count", [1, 2, 7, 1000])
def test_noise_quantiles_are_equally_likely_and_symmetric(count: int) -> None:
    shares = (np.arange(count) + 0.5) / count
    laplace, normal = 2.0 * LAPLACE.quantiles(shares), 2.0 * gaussian(1e-6).quantiles(shares)
    assert laplace.shape == normal.shape == (count,)
    for points in (laplace, normal):
        assert points == pytest.approx(-points[::-1], rel=1e-12, abs=1e-15)
    for i in range(0, count, max(1, count // 7)):
        z = mp.mpf(laplace[i]) / 2
        below = mp.exp(z) / 2 if z < 0 else 1 - mp.exp(-z) / 2
        assert float(below) == pytest.approx((i + 0.5) / count, rel=1e-12)
        assert float(mp.ncdf(mp.mpf(normal[i]) / 2)) == pytest.approx((i + 0.5) / count, rel=1e-12)


@pytest.mark.parametrize("numbers", [1, 2, 6])
@pytest.mark.parametrize("tail", [0.5, 0.05, 1e-7])
def test_the_norm_of_several_noises_exceeds_its_reach_as_often_as_stated(numbers: int, tail: float) -> None:
    """Sizes of Laplace noise add up to a Gamma variable, squares of normal noise to a chi-square one."""
    laplace, normal = LAPLACE.norm_quantile(tail, numbers), gaussian(1e-6).norm_quantile(tail, numbers)
    assert float(mp.gammainc(numbers, laplace, mp.inf, regularized=True)) == pytest.approx(tail, rel=1e-9)
    half = mp.mpf(numbers) / 2
    assert float(mp.gammainc(half, mp.mpf(normal) ** 2 / 2, mp.inf, regularized=True)) == pytest.approx(tail, rel=1e-9)


# ---------------------------------------------------------------- guards and weight


def exact_chance(kind: str, scale: float, low: int, high: int) -> mp.mpf:
    """P(low ≤ Z ≤ high): the geometric sum, or a theta function's terms; a σ of many steps by Poisson summation."""
    if kind == "laplace":
        q = mp.exp(-1 / mp.mpf(scale))
        return mp.fsum((1 - q) / (1 + q) * q ** abs(z) for z in range(low, high + 1))
    rate = 1 / (2 * mp.mpf(scale) ** 2)
    if scale > 30:
        total = mp.mpf(scale) * mp.sqrt(2 * mp.pi)  # the next term is below e^(−2π²·900)
    else:
        total = mp.fsum(mp.exp(-rate * z * z) for z in range(-int(60 * scale) - 60, int(60 * scale) + 61))
    return mp.fsum(mp.exp(-rate * z * z) for z in range(low, high + 1)) / total


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
@pytest.mark.parametrize("scale", [0.2, 1.0, 7.3, 80.0, 5_000.0])
def test_chances_between_edges_are_sums_of_the_exact_pmf(kind: str, scale: float) -> None:
    """Also far from 0, where a tail would be lost beside 1, and in a single step."""
    mechanism = LAPLACE if kind == "laplace" else gaussian(1e-6)
    far = math.ceil(6 * scale)
    edges = [-far - 3, -far, -2, 0, 1, 2, 5, far + 5, far + 6, far + 9]
    found = mechanism.chances(scale, np.array(edges, dtype=np.float64))
    with mp.workdps(40):
        expected = [float(exact_chance(kind, scale, low, high - 1)) for low, high in itertools.pairwise(edges)]
    if kind == "gaussian" and scale > 4_096:  # read off the normal distribution: O(σ⁻⁴), 10⁻¹⁰ of a chance at 6 σ
        assert found == pytest.approx(expected, rel=1e-8)
    else:
        assert found == pytest.approx(expected, rel=1e-11, abs=1e-300)


def test_default_delta() -> None:
    assert default_delta(32561) == pytest.approx(9.432e-10, rel=1e-3)
    with pytest.raises(OptionError, match="at least 2"):
        default_delta(1)


@pytest.mark.parametrize("sensitivity", [0.0, -1.0, math.inf, math.nan])
def test_sensitivity_must_be_positive_and_finite(sensitivity: float) -> None:
    with pytest.raises(OptionError, match="sensitivity"):
        LAPLACE.scale(sensitivity, 1.0)
    with pytest.raises(OptionError, match="sensitivity"):
        LAPLACE.epsilon(sensitivity, 1.0)


def test_what_is_out_of_range_is_refused() -> None:
    refused: list[Callable[[], object]] = [
        *(partial(LAPLACE.scale, 1.0, epsilon) for epsilon in (0.0, -1.0, math.nan)),
        *(partial(zcdp_rho, epsilon, 1e-6) for epsilon in (0.0, -1.0, math.nan)),
        lambda: LAPLACE.scale(1e300, 1e-300),
        lambda: gaussian(1e-299).scale(1.0, 1e-299),
        lambda: LAPLACE.epsilon(1.0, -1.0),
        lambda: zcdp_rho(1.0, 0.0),
        lambda: zcdp_epsilon(-1.0, 1e-6),
        lambda: LAPLACE.error(1.0, 0.0),
        lambda: LAPLACE.error(math.nan, 1.0),
        lambda: LAPLACE.error(1.0, 1.0, 1.0),
    ]
    for call in refused:
        with pytest.raises(OptionError):
            call()


def test_every_listed_mechanism_but_the_paper_s_own_is_drawn() -> None:
    made = [make() for make in PURE.values()] + [make(1e-6) for ways in WITH_DELTA.values() for make in ways.values()]
    assert {type(mechanism) for mechanism in made} - set(DRAWN) == {ClassicGaussian}


def test_a_mechanism_that_nobody_listed_is_refused() -> None:
    class Staircase(Laplace):
        """Knows its scale, and nothing draws it."""

    with pytest.raises(OptionError, match="mechanism= must be one of laplace, gaussian"):
        make_with_delta("staircase", 1e-6)
    with pytest.raises(OptionError, match="never backs a release"):
        calibrate(Staircase(), sensitivity=1, epsilon=1.0)
