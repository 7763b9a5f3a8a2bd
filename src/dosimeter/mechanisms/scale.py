"""How much noise an ε needs, and how far it throws an answer. Takes a Mechanism and plain numbers; gives plain numbers.

Pure formulas (M1–M3), fast enough for every candidate of every query. A scale from here informs the controller;
the scale that backs a release is certified again, and if need be enlarged, in ``dosimeter.release.noise``.

Throughout, the bound of M3 is written with t = α − 1 and L(t) = −ln(1 − 1/α) = ln(1 + 1/t):

    ln δ = t (αρ − ε − L) − ln α

It holds for every α > 1, so a search that stops a little beside the best α loses a second-order trifle of
tightness and no validity. Setting the derivative in α to zero makes the best α the root of one increasing function
each, whichever of ρ, ε and δ is asked for: one bisection, never a nested one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist

import numpy as np

from dosimeter.arrays import FloatArray
from dosimeter.errors import OptionError
from dosimeter.mechanisms.mechanism import Mechanism

_UNIT = 2.0**-53
_ROUNDING = 8 * _UNIT
"""More than the rounding errors of the expressions below can add up to, relative to the sum of their terms' sizes."""

_SMALLEST_DELTA = 1e-300
"""Below it 1/δ is no longer a float."""

_CONTINUOUS_FROM = 64.0
"""Steps per σ from which the discrete Gaussian's quantile is read off the normal one: they agree to 1e-8 steps."""


# ---------------------------------------------------------------- scale from ε, and back


def default_delta(n: int) -> float:
    """δ = 1/n² for n declared individuals."""
    if n < 2:
        raise OptionError("The default delta of 1/n² needs at least 2 individuals. Give delta yourself.")
    return 1.0 / (n * n)


def noise_scale(mechanism: Mechanism, sensitivity: float, epsilon: float) -> float:
    """The Laplace scale b or the Gaussian σ that ε asks for, in the units of the sensitivity. 0 for ε = ∞."""
    _check_sensitivity(sensitivity)
    _check_epsilon(epsilon)
    if epsilon == math.inf:
        return 0.0
    if mechanism.kind == "laplace":
        scale = sensitivity / epsilon  # M1
    elif mechanism.calibration == "classic":
        scale = sensitivity * _classic_factor(mechanism.delta) / epsilon  # M2
    else:
        rho = zcdp_rho(epsilon, mechanism.delta)
        scale = sensitivity / math.sqrt(2.0 * rho) if rho > 0.0 else math.inf  # M3
        scale *= 1.0 + _ROUNDING  # more noise, never less
    if scale == math.inf:
        raise OptionError(f"epsilon {epsilon:g} is too small: the noise would have no finite scale.")
    return scale


def epsilon_for_scale(mechanism: Mechanism, sensitivity: float, scale: float) -> float:
    """The smallest ε that noise of this scale gives: the inverse of ``noise_scale``. ∞ for scale 0."""
    _check_sensitivity(sensitivity)
    if not scale >= 0.0:
        raise OptionError("The scale of the noise must not be negative.")
    if scale == 0.0:
        return math.inf
    ratio = sensitivity / scale
    if mechanism.kind == "laplace":
        return ratio  # M1
    if mechanism.calibration == "classic":
        return ratio * _classic_factor(mechanism.delta)  # M2
    return zcdp_epsilon(0.5 * ratio * ratio, mechanism.delta)  # M3


def _classic_factor(delta: float) -> float:
    return math.sqrt(2.0 * math.log(1.25 / delta))  # M2


# ---------------------------------------------------------------- M3: ρ-zCDP and (ε, δ)


def zcdp_epsilon(rho: float, delta: float) -> float:
    """M3, P1: the smallest ε that the bound gives a ρ-zCDP mechanism at this δ, rounded up."""
    _check_rho(rho)
    _check_delta(delta)
    if rho in (0.0, math.inf):
        return rho
    # Best t: ρt² + ln(1 + t) = ln(1/δ).
    log_delta = -math.log(delta)
    t = _solve_increasing(
        lambda t: rho * t * t + math.log1p(t),
        log_delta,
        low=2.0 * log_delta / (1.0 + math.sqrt(1.0 + 4.0 * rho * log_delta)),  # ln(1 + t) ≤ t
        high=min(math.sqrt(log_delta / rho), 1.0 / delta),
    )
    spent, loss = (1.0 + t) * rho, math.log1p(1.0 / t)
    epsilon = spent - loss + (log_delta - math.log1p(t)) / t
    epsilon += _ROUNDING * (spent + loss + log_delta / t)  # a weaker promise, never a stronger one
    return max(0.0, epsilon)


def zcdp_rho(epsilon: float, delta: float) -> float:
    """M3: the largest ρ whose zCDP gives (ε, δ) by the bound, rounded down."""
    _check_epsilon(epsilon)
    _check_delta(delta)
    if epsilon == math.inf:
        return math.inf
    # With the best t for ρ put in, ρ = (ε + L)/(2t + 1) and ln(1/δ) = t²(ε + L)/(2t + 1) + ln(1 + t), increasing in t.
    log_delta = -math.log(delta)
    ratio = log_delta / epsilon
    t = _solve_increasing(
        lambda t: t / (2.0 + 1.0 / t) * (epsilon + math.log1p(1.0 / t)) + math.log1p(t),
        log_delta,
        low=log_delta / (0.5 * epsilon + 2.0),  # L ≤ 1/t and ln(1 + t) ≤ t
        high=min(ratio + math.sqrt(ratio) * math.sqrt(ratio + 1.0), 1.0 / delta),
    )
    loss = math.log1p(1.0 / t)
    budget = epsilon + loss - (log_delta - math.log1p(t)) / t
    budget -= _ROUNDING * (epsilon + loss + log_delta / t)  # more noise, never less
    return max(0.0, budget / (1.0 + t))


def _solve_increasing(function: Callable[[float], float], target: float, *, low: float, high: float) -> float:
    """Where an increasing function meets the target, to 1e-9 relative, by bisection of the logarithm."""
    low = max(low, 1e-300)
    high = max(low, high)
    for _ in range(100):
        if high <= low * (1.0 + 1e-9):
            break
        middle = math.sqrt(low) * math.sqrt(high)
        if function(middle) < target:
            low = middle
        else:
            high = middle
    return high


# ---------------------------------------------------------------- how far the noise throws an answer


def error_quantile(mechanism: Mechanism, scale: float, grid: float, probability: float = 0.95) -> float:
    """The smallest multiple a of the grid with P(|noise| ≤ a) ≥ probability, for the discrete noise on that grid."""
    if not 0.0 <= scale < math.inf:
        raise OptionError("The scale of the noise must be finite and not negative.")
    if not 0.0 < grid < math.inf:
        raise OptionError("The grid of the noise must be positive and finite.")
    if not 0.0 < probability < 1.0:
        raise OptionError("The probability must lie strictly between 0 and 1.")
    steps = scale / grid
    if steps == 0.0:
        return 0.0
    if mechanism.kind == "laplace":
        return grid * _laplace_quantile(steps, probability)
    if steps < _CONTINUOUS_FROM:
        return grid * _gaussian_quantile_by_summing(steps, probability)
    return grid * _gaussian_quantile_in_the_limit(steps, probability)


def _laplace_quantile(steps: float, probability: float) -> float:
    """P(|Z| ≤ m) = 1 − 2 q^(m+1) / (1 + q) with q = e^(−1/b), solved for m."""
    tail = 0.5 * (1.0 - probability) * (1.0 + math.exp(-1.0 / steps))
    return float(max(0, math.ceil(-math.log(tail) * steps - 1.0)))


def _gaussian_quantile_by_summing(steps: float, probability: float) -> float:
    """The probabilities e^(−z²/2σ²) added outwards from 0 until enough of their total is covered."""
    rate = 0.5 / (steps * steps)
    if steps < 1.5:
        total = 1.0 + 2.0 * math.fsum(math.exp(-rate * z * z) for z in range(1, 60))
    else:
        total = steps * math.sqrt(2.0 * math.pi)  # Poisson summation: the rest is below 2 e^(−2π²σ²) < 1e-18
    covered, quantile = 1.0, 0
    while covered < probability * total:
        quantile += 1
        mass = 2.0 * math.exp(-rate * quantile * quantile)
        if covered + mass == covered:
            break  # the probability is 1 to the last digit
        covered += mass
    return float(quantile)


def _gaussian_quantile_in_the_limit(steps: float, probability: float) -> float:
    """By Euler–Maclaurin, |Z| ≤ m holds with the normal probability of ±x(1 + 1/24σ²), x = m + ½, up to O(σ⁻⁴)."""
    normal = -NormalDist().inv_cdf(0.5 * (1.0 - probability)) * steps
    return float(max(0, math.ceil(normal * (1.0 - 1.0 / (24.0 * steps * steps)) - 0.5)))


def noise_quantiles(mechanism: Mechanism, scale: float, count: int) -> FloatArray:
    """``count`` equally likely points of the continuous noise: its inverse distribution function at (i + ½)/count."""
    if not 0.0 <= scale < math.inf:
        raise OptionError("The scale of the noise must be finite and not negative.")
    if count < 1:
        raise OptionError("The number of noise points must be at least 1.")
    lower = (np.arange(count // 2) + 0.5) / count
    if mechanism.kind == "laplace":
        half = scale * np.log(2.0 * lower)
    else:
        normal = NormalDist()
        half = scale * np.array([normal.inv_cdf(float(u)) for u in lower], dtype=np.float64)
    middle = np.zeros(count % 2)
    return np.concatenate([half, middle, -half[::-1]])  # mirrored: the points are symmetric to the last bit


# ---------------------------------------------------------------- guards


def _check_epsilon(epsilon: float) -> None:
    if not epsilon > 0.0:
        raise OptionError("epsilon must be greater than 0.")


def _check_delta(delta: float) -> None:
    if not _SMALLEST_DELTA <= delta < 1.0:
        raise OptionError(f"delta must lie between {_SMALLEST_DELTA:g} and 1, and below 1.")


def _check_rho(rho: float) -> None:
    if not rho >= 0.0:
        raise OptionError("rho must not be negative.")


def _check_sensitivity(sensitivity: float) -> None:
    if not 0.0 < sensitivity < math.inf:  # S7
        raise OptionError(
            "The sensitivity must be positive and finite. If nobody can move the answer it needs no noise."
        )
