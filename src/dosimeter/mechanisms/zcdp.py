"""ρ-zCDP and (ε, δ): the conversion of M3, both ways. Plain numbers in, plain numbers out.

Throughout, the bound of M3 is written with t = α − 1 and L(t) = −ln(1 − 1/α) = ln(1 + 1/t):

    ln δ = t (αρ − ε − L) − ln α

It holds for every α > 1, so a search that stops close to the best α loses a negligible amount of tightness and no
validity. Setting the derivative in α to zero makes the best α the root of an increasing function, whichever of ρ, ε
and δ is asked for: one bisection is enough, never a nested one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from dosimeter.arrays import FloatArray
from dosimeter.errors import OptionError
from dosimeter.mechanisms.base import check_epsilon

ROUNDING = 8 * 2.0**-53
"""More than the rounding errors of the expressions below can add up to, relative to the sum of their terms' sizes."""

_FEW = 64
"""Up to so many numbers are converted one by one: that is faster."""

_SMALLEST_DELTA = 1e-300
"""Below it 1/δ is no longer a float."""


def default_delta(n: int) -> float:
    """Return δ = 1/n² for n declared individuals."""
    if n < 2:
        raise OptionError("The default delta of 1/n² needs at least 2 individuals. Give delta yourself.")
    return 1.0 / (n * n)


def zcdp_epsilon(rho: float, delta: float) -> float:
    """Return the smallest ε that the bound gives a ρ-zCDP mechanism at this δ, rounded up (M3, P1)."""
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
    epsilon += ROUNDING * (spent + loss + log_delta / t)  # a weaker promise, never a stronger one
    return max(0.0, epsilon)


def zcdp_epsilons(rhos: FloatArray, delta: float) -> FloatArray:
    """Return the ε of each ρ, as ``zcdp_epsilon`` does: by the same bisection, for all at once."""
    if len(rhos) <= _FEW:
        return np.array([zcdp_epsilon(rho, delta) for rho in rhos.tolist()], dtype=np.float64)
    _check_delta(delta)
    log_delta = -math.log(delta)
    inside = np.isfinite(rhos) & (rhos > 0.0)
    rho = np.where(inside, rhos, 1.0)
    low = np.maximum(2.0 * log_delta / (1.0 + np.sqrt(1.0 + 4.0 * rho * log_delta)), 1e-300)
    high = np.maximum(low, np.minimum(np.sqrt(log_delta / rho), 1.0 / delta))
    for _ in range(100):
        if np.all(high <= low * (1.0 + 1e-9)):
            break
        middle = np.sqrt(low) * np.sqrt(high)
        below = rho * middle * middle + np.log1p(middle) < log_delta
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    spent, loss = (1.0 + high) * rho, np.log1p(1.0 / high)
    epsilon = spent - loss + (log_delta - np.log1p(high)) / high
    epsilon += 4.0 * ROUNDING * (spent + loss + log_delta / high)  # array functions are less exact: four times as much
    return np.where(inside, np.maximum(epsilon, 0.0), rhos)


@lru_cache(maxsize=1024)
def zcdp_rho(epsilon: float, delta: float) -> float:
    """Return the largest ρ whose zCDP gives (ε, δ) by the bound, rounded down (M3)."""
    check_epsilon(epsilon)
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
    budget -= ROUNDING * (epsilon + loss + log_delta / t)  # more noise, never less
    return max(0.0, budget / (1.0 + t))


def _solve_increasing(function: Callable[[float], float], target: float, *, low: float, high: float) -> float:
    """Return where an increasing function reaches the target, to 1e-9 relative, by bisection of the logarithm."""
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


def _check_delta(delta: float) -> None:
    if not _SMALLEST_DELTA <= delta < 1.0:
        raise OptionError(f"delta must lie between {_SMALLEST_DELTA:g} and 1, and below 1.")


def _check_rho(rho: float) -> None:
    if not rho >= 0.0:
        raise OptionError("rho must not be negative.")
