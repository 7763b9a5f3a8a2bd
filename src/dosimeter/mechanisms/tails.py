"""The tail of a gamma variable, the error function, and their inverses, to a float's precision.

SciPy has them too, but takes 0.2 s to load. It is loaded only for the error function of many numbers at once.
"""

from __future__ import annotations

import math
from itertools import pairwise
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dosimeter.arrays import FloatArray

_MANY = 4096
"""From so many numbers on, loading SciPy is worth it."""

_STEPS = 200


def invert_gamma_tail(doubled: int, probability: float) -> float:
    """Return the x that a gamma variable of shape a exceeds with this probability: Q(a, x) = probability.

    ``doubled``: 2a, a whole number. By Newton's method on ln Q, which is concave for a ≥ 1: from the first step on it
    comes down to x from above.
    """
    if doubled == 1:
        return 0.5 * NormalDist().inv_cdf(0.5 * probability) ** 2  # Q(½, x) = erfc(√x)
    wanted = math.log(probability)
    x = max(0.5 * doubled - 1.0, 0.0) - wanted
    for _ in range(_STEPS):
        tail, density = _gamma_tail(doubled, x)
        step = (math.log(tail) - wanted) * tail / density
        x += step
        if abs(step) <= 1e-15 * x:
            break
    return x


def _gamma_tail(doubled: int, x: float) -> tuple[float, float]:
    """Return Q(a, x), the probability that a gamma variable of shape a exceeds x, and its density at x.

    ``doubled``: 2a. For a whole a, Q is the sum of x^(s − 1) e^(−x)/Γ(s) over s = a, a − 1, … down to 1. For a
    half-integer a, it is the same sum down to s = 1½, plus erfc(√x).
    """
    if doubled % 2:
        total, power, shape = math.erfc(math.sqrt(x)), math.exp(-x) / math.sqrt(math.pi * x), 0.5
    else:
        total, power, shape = math.exp(-x), math.exp(-x), 1.0
    while 2.0 * shape < doubled:
        power *= x / shape
        total += power
        shape += 1.0
    return total, power


def erf(values: FloatArray) -> FloatArray:
    """Return the error function of each value."""
    if values.size < _MANY:
        return np.array([math.erf(value) for value in values.reshape(-1).tolist()]).reshape(values.shape)
    from scipy.special import erf as many

    found: FloatArray = many(values)
    return found


def invert_small_erf(value: float) -> float:
    """Return erf⁻¹ of a number from 0 to 1/16, by its series. The first term left out is below a float's precision."""
    square = math.pi * value * value
    series = 1.0
    for factor in _ERF_SERIES:
        series = 1.0 + factor * square * series
    return 0.5 * math.sqrt(math.pi) * value * series


_COEFFICIENTS = (1.0, 1 / 12, 7 / 480, 127 / 40320, 4369 / 5806080, 34807 / 182476800, 20036983 / 398529331200)
_ERF_SERIES = tuple(b / a for a, b in pairwise(_COEFFICIENTS))[::-1]
"""Of √π/2 · (y + π/12 y³ + 7π²/480 y⁵ + …): each coefficient, as a multiple of the one before; the last first."""
