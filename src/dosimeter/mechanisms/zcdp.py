"""Convert ρ-zCDP into (ε, δ), and (ε, δ) into ρ-zCDP, by the bound of M3. Plain numbers in, plain numbers out.

Throughout, the bound of M3 is written with t = α − 1 and L(t) = −ln(1 − 1/α) = ln(1 + 1/t):

    ln δ = t (αρ − ε − L) − ln α

It holds for every α > 1, so a search that stops close to the best α loses a negligible amount of tightness and no
validity. Setting the derivative in α to zero makes the best α the root of an increasing function, whichever of ρ, ε
and δ is asked for: one bisection is enough, never a nested one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from functools import lru_cache

import numpy as np

from dosimeter.arrays import FloatArray
from dosimeter.errors import OptionError
from dosimeter.mechanisms.mechanism import check_epsilon

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
    """Return the smallest ε that the bound of M3 gives for ρ-zCDP at this δ, rounded up (M3, P1)."""
    if not rho >= 0.0:
        raise OptionError("rho must not be negative.")
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
    """Return the ε of each ρ at this δ, as ``zcdp_epsilon`` does.

    For more than 64 numbers ρ, one bisection finds the ε of all at once, and these are rounded up slightly more.
    """
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
    """Return the largest ρ for which ρ-zCDP guarantees (ε, δ) by the bound of M3, rounded down (M3)."""
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


_DIGITS = 28
"""Digits of the exact conversion, besides those that a large α takes."""

_SHOWN = 12
"""Significant digits to which its result is rounded up."""


@lru_cache(maxsize=4096)
def exact_zcdp_epsilon(rho: Decimal, delta: Decimal) -> Decimal:
    """Return the ε of ρ-zCDP at δ by the bound of M3, rounded up to 12 digits: the same digits on every machine.

    Ledgers compare it with budgets and write it down, so nothing here is a float: the operations of decimal numbers are
    correctly rounded everywhere.
    """
    if not 0 < delta < 1 or not rho >= 0:
        raise OptionError("rho must not be negative, and delta must lie between 0 and 1.")
    if rho == 0:
        return Decimal(0)
    t = _find_order(rho, delta)
    context = Context(prec=_DIGITS + max(0, t.adjusted()), rounding=ROUND_CEILING)
    log_delta = -_log(context, delta)
    spent = context.multiply(context.add(t, Decimal(1)), rho)
    loss = _log(context, context.add(Decimal(1), context.divide(Decimal(1), t)))
    rest = context.divide(context.subtract(log_delta, _log(context, context.add(Decimal(1), t))), t)
    epsilon = context.add(context.subtract(spent, loss), rest)
    sizes = context.add(context.add(spent, loss), context.divide(log_delta, t))
    epsilon = context.add(epsilon, context.scaleb(sizes, -22))  # far more than the rounding errors of all these
    return max(Decimal(0), Context(prec=_SHOWN, rounding=ROUND_CEILING).plus(epsilon))


def _find_order(rho: Decimal, delta: Decimal) -> Decimal:
    """Return t = α − 1 for nearly the best α, at which the bound of M3 gives the smallest ε.

    It is the root of ρt² + ln(1 + t) = ln(1/δ), found by Newton's method between two bounds.
    """
    context = Context(prec=14)
    one, two = Decimal(1), Decimal(2)
    rate, target = context.plus(rho), -_log(context, delta)
    root = context.sqrt(context.add(one, context.multiply(context.multiply(Decimal(4), rate), target)))
    low = context.divide(context.multiply(two, target), context.add(one, root))  # ln(1 + t) ≤ t
    high = max(low, min(context.sqrt(context.divide(target, rate)), context.divide(one, delta)))
    t = low
    for _ in range(200):
        linear = context.multiply(rate, t)
        rest = context.subtract(
            context.add(context.multiply(linear, t), _log(context, context.add(one, t))), target
        )  # fmt: skip
        low, high = (t, high) if rest <= 0 else (low, t)
        if abs(rest) <= target.scaleb(-9) or high <= low:
            break
        slope = context.add(context.multiply(two, linear), context.divide(one, context.add(one, t)))
        step = context.subtract(t, context.divide(rest, slope))
        t = step if low < step < high else context.divide(context.add(low, high), two)
    return t


@lru_cache(maxsize=4096)
def _log_of(digits: int, rounding: str, number: Decimal) -> Decimal:
    return Context(prec=digits, rounding=rounding).ln(number)


def _log(context: Context, number: Decimal) -> Decimal:
    """Return the natural logarithm at the context's precision. It is cached, since an account's δ recurs."""
    return _log_of(context.prec, context.rounding, number)


def pure_rho(epsilon: Decimal) -> Decimal:
    """Return ρ = ε²/2 of an answer that spends a pure ε (without a δ), rounded up (O4)."""
    return round_rho(Fraction(epsilon) ** 2 / 2)


def round_rho(rho: Fraction) -> Decimal:
    """Return ρ as a decimal of 20 significant digits, rounded up, so that sums of such ρ stay exact and short.

    A positive ρ becomes 1e-300 at least.
    """
    if rho == 0:
        return Decimal(0)
    context = Context(prec=20, rounding=ROUND_CEILING)
    return max(context.divide(Decimal(rho.numerator), Decimal(rho.denominator)), _SMALLEST_RHO).normalize(context)


_SMALLEST_RHO = Decimal("1e-300")


def _solve_increasing(function: Callable[[float], float], target: float, *, low: float, high: float) -> float:
    """Return where between low and high an increasing function reaches the target, to 1e-9 relative, by bisection."""
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
