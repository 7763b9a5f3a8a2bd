"""The Gaussian mechanism: noise of standard deviation σ in a cell, calibrated by zCDP (M3) or as in the paper (M2)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from dosimeter.errors import OptionError
from dosimeter.mechanisms.mechanism import Mechanism, RatioWarning, raise_chance
from dosimeter.mechanisms.tails import erf, invert_gamma_tail, invert_small_erf
from dosimeter.mechanisms.zcdp import ROUNDING, zcdp_epsilon, zcdp_epsilons, zcdp_rho

if TYPE_CHECKING:
    from dosimeter.arrays import FloatArray
    from dosimeter.mechanisms.mechanism import Norm, SparseRows
    from dosimeter.options import Calibration

_CONTINUOUS_FROM = 64.0
"""Steps per σ from which the discrete Gaussian's quantile is read off the normal one: they agree to 1e-8 steps."""

_SUMMED_BELOW = 4096.0
"""Steps per σ below which the tails of the discrete Gaussian are summed up, from at most 40 σ inwards."""

_GAUSS_NODES = 40
"""Enough for R6: the integrand is a bell of at most 9 widths, which 40 nodes integrate to the last digits."""

_WIDTHS = 9.0
"""The rest of a bell beyond 9 widths is below 1e-18 of it."""

_OWN_EPSILON_NODES = 2**14
"""If there are more distinct PIS than this, they are rounded up to this many values."""

_FINE_FROM = 8.0
"""Steps per σ from which P4 is read off the normal distribution, corrected for the grid."""


@dataclass(frozen=True, slots=True)
class _AnyGaussian(Mechanism):
    """Gaussian noise, however its σ was calibrated."""

    name: ClassVar[str] = "gaussian"
    norm: ClassVar[Norm] = 2
    pure: ClassVar[bool] = False
    shifts_alike: ClassVar[bool] = False
    exact_is_continuous: ClassVar[bool] = True

    delta: float

    def __post_init__(self) -> None:
        if not 0.0 < self.delta < 1.0:
            raise OptionError("delta must lie strictly between 0 and 1.")

    def own_epsilon(
        self,
        distances: FloatArray,
        *,
        sensitivity: float,
        scale: float | FloatArray,
        epsilon: float | FloatArray,
    ) -> FloatArray:
        """Return own guarantees (P1) by the conversion of M3, whatever the calibration: what this noise really gives.

        If there are more than 16,384 distinct PIS, each is rounded up to one of 16,384 numbers: from a millionth of the
        largest PIS up to the largest, neighbours less than 0.09 % apart. The ε is then slightly too high, and never too
        low.
        """
        with np.errstate(divide="ignore"):
            distinct, codes = np.unique(distances / scale, return_inverse=True)
        if len(distinct) > _OWN_EPSILON_NODES:
            steps = distinct[-1] * np.geomspace(1e-6, 1.0, _OWN_EPSILON_NODES)
            codes = np.searchsorted(steps, distinct)[codes]  # a weaker promise, never a stronger one
            distinct = steps
        return zcdp_epsilons(0.5 * np.square(distinct), self.delta)[codes]

    def advantage(
        self, distances: FloatArray, *, sensitivity: float, scale: float, epsilon: float, grids: FloatArray, cells: int
    ) -> FloatArray:
        """Return the membership advantage (P4), or an upper bound on it.

        On fine grids: the advantage with continuous noise, corrected for the grid. On coarse grids, if one individual
        can move only one number: the exact advantage (``_sum_between``). On coarse grids otherwise: an upper bound, the
        advantage with normal noise, after replacing each grid step by a shift of normal noise that is equally
        noticeable (``_unit_shift``).
        """
        if scale == 0.0:
            return np.ones(len(distances))
        steps = _list_steps(scale, grids)
        coarsest = min(steps, default=math.inf)
        if coarsest >= _FINE_FROM:
            tests = erf(distances / (scale * math.sqrt(8.0))) / (1.0 - 1.0 / (24.0 * coarsest * coarsest))
        elif cells == 1:
            tests = _sum_between(coarsest, np.rint(distances * coarsest / scale))
        else:
            tests = erf(distances * (_stretch(steps) / scale) / math.sqrt(8.0))
        return np.asarray(np.minimum(tests, 1.0), dtype=np.float64)

    def power(self, chance: float, *, distance: float, scale: float, grids: FloatArray, epsilon_svt: float) -> float:
        """Return Φ(Φ⁻¹(chance) + μ), μ being the shift of normal noise that is at least as noticeable (P3, P5).

        What was spent on finding ε raises the chance first, as pure ε does.
        """
        before = raise_chance(chance, epsilon_svt)
        if scale == 0.0 or before >= 1.0:
            return 1.0
        shift = distance * (_stretch(_list_steps(scale, grids)) / scale)
        return 0.5 * math.erfc(-(NormalDist().inv_cdf(before) + shift) / math.sqrt(2.0))

    def _error(self, steps: float, probability: float) -> float:
        if steps < _CONTINUOUS_FROM:
            return _quantile_by_summing(steps, probability)
        return _quantile_in_the_limit(steps, probability)

    def _sum_error(self, terms: int, probability: float) -> float:
        return math.sqrt(terms) * NormalDist().inv_cdf(0.5 + probability / 2.0)

    def norm_quantile(self, probability: float, numbers: int) -> float:
        """Return the number x with P(√(sum of ``numbers`` squared noises of scale 1) > x) = probability."""
        return math.sqrt(2.0 * invert_gamma_tail(numbers, probability))

    def find_excess(self, scale: float, probability: Fraction) -> int:
        """Return the least whole t with e^(−t²/2σ²) ≤ probability, rounded up slightly (H1).

        Integer Gaussian noise reaches t with at most the probability e^(−t²/2σ²).
        """
        logarithm = math.log(probability.denominator) - math.log(probability.numerator)
        return max(0, math.ceil(scale * math.sqrt(2.0 * max(logarithm, 0.0)) * (1.0 + 1e-12)))

    def exceed(self, scale: float, steps: FloatArray) -> FloatArray:
        """Return P(Z ≥ t) for each t in ``steps``: summed up, or for a large σ as in ``_quantile_in_the_limit``."""
        beyond = np.where(steps > 0, steps, 1 - steps)  # P(Z ≥ t) = 1 − P(Z ≥ 1 − t)
        if scale < _SUMMED_BELOW:
            tails = np.append(_upper_tails(scale), 0.0)
            tail = tails[np.minimum(beyond, len(tails) - 1).astype(np.int64)]
        else:
            normal, widened = NormalDist(0.0, scale), 1.0 + 1.0 / (24.0 * scale * scale)
            tail = np.array([normal.cdf((0.5 - step) * widened) for step in beyond.tolist()], dtype=np.float64)
        return np.where(steps > 0, tail, 1.0 - tail)

    def _below_median(self, shares: FloatArray) -> FloatArray:
        normal = NormalDist()
        return np.array([normal.inv_cdf(share) for share in shares.tolist()], dtype=np.float64)

    def bound(self, norms: FloatArray, k: int, scale: float) -> FloatArray:
        return np.hypot(norms, math.sqrt(k) * scale)  # R4

    def needs_vectors(self, k: int) -> bool:
        return False

    def expect(
        self, norms: FloatArray, k: int, *, scale: float, grids: FloatArray, vectors: SparseRows | None
    ) -> FloatArray:
        """Return the exact RDR (R6), computed as an integral that is stable for every k and every ‖c‖/σ.

        c: what the person changes; ‖c‖ is in ``norms``. σ: ``scale``. The formula with ₁F₁ overflows or cancels.
        E√Y = π^(−½) ∫ t^(−½) (−dφ/dt) dt with φ the Laplace transform of Y = ‖c + N(0, σ²I)‖². Put sin²θ for
        2σ²t/(1 + 2σ²t), R² = ‖c‖² + kσ² (R4 squared), p = σ/R, a = ‖c‖²/R²:

            R6 = R √(2/π) ∫₀^(π/2) exp(−a sin²θ / 2p²) cosᵏθ (1 − a sin²θ) dθ/p

        The integrand is entire, positive, and below exp(−sin²θ/2p²): a bell of width p.
        """
        distinct, codes = np.unique(norms, return_inverse=True)
        nodes, weights = np.polynomial.legendre.leggauss(_GAUSS_NODES)
        nodes, weights = 0.5 * (nodes + 1.0), 0.5 * weights
        bound = np.hypot(distinct, math.sqrt(k) * scale)
        results = np.zeros_like(distinct)
        for chunk in np.array_split(np.flatnonzero(bound), max(1, len(distinct) // 2**14)):
            level = bound[chunk, np.newaxis]
            width = np.maximum(scale / level, 1e-150)
            share = np.square(distinct[chunk, np.newaxis] / level)
            end = np.arcsin(np.minimum(1.0, _WIDTHS * width))
            sine = np.sin(end * nodes)
            square = np.square(sine)
            exponent = -0.5 * share * np.square(sine / width) + 0.5 * k * np.log1p(-square)
            integral = ((end / width) * weights * np.exp(exponent) * (1.0 - share * square)).sum(axis=1)
            results[chunk] = bound[chunk] * math.sqrt(2.0 / math.pi) * integral
        return results[codes]

    def find_ratio_warning(self, low: float, high: float, *, grids: FloatArray, scale: float) -> RatioWarning | None:
        """Return ALWAYS; None if all PIS are equal. The smaller the PIS, the more the bound exceeds the RDR (R7)."""
        return None if low == high else RatioWarning.ALWAYS

    def mass(self, values: FloatArray) -> FloatArray:
        return np.square(values)

    def mass_change(self, here: FloatArray, changes: FloatArray) -> FloatArray:
        return changes * (here + (here + changes))  # (r + c)² − r² without cancelling

    def distance(self, sums: FloatArray) -> FloatArray:
        return np.sqrt(sums)

    def loss_unit(self, scale: float) -> float:
        return 2.0 * scale * scale

    def exact_ratio_is_monotone(self, k: int) -> bool:
        return False  # no proof that it is

    def scale_for_ratio(self, low: float, high: float, k: int, threshold: float) -> float:
        above = (threshold * high - low) * (threshold * high + low)
        return math.sqrt(above / (k * (1.0 - threshold) * (1.0 + threshold)))

    def scale_for_variance(self, spread: float, k: int, threshold: float, sensitivity: float) -> float | None:
        return None

    def level_width(self, k: int, *, sensitivity: float, epsilon: float) -> Fraction:
        ratio = self._noise_ratio(k, sensitivity, epsilon)
        root = math.hypot(1.0, ratio)
        return min(Fraction(1), Fraction(1.0 / (root * (root + ratio))))  # V5: 1 − s/√(1 + s²), without cancellation

    def unit_risks(self, relative: FloatArray, k: int, *, sensitivity: float, epsilon: float) -> FloatArray:
        """Return u for each individual: where their RDR lies from the smallest possible (0) to the largest (1) (V6).

        ``relative``: their PIS/Δ. The formula uses only +, ×, / and √, which are correctly rounded: equal PIS give
        equal bits.
        """
        ratio = self._noise_ratio(k, sensitivity, epsilon)
        squares = relative * relative
        top = math.sqrt(1.0 + ratio * ratio) + ratio
        risks = squares * (top / (np.sqrt(squares + ratio * ratio) + ratio))
        return np.minimum(risks, 1.0)

    def tested_values(self, relative: FloatArray) -> FloatArray:
        return relative * relative  # V6

    def tested_slope(self, k: int, *, sensitivity: float, epsilon: float) -> Fraction:
        ratio = self._noise_ratio(k, sensitivity, epsilon)
        return Fraction(1.0 / (2.0 * ratio * math.hypot(1.0, ratio)))  # V6: w·L_s = 1/(2s·√(1 + s²))

    def _noise_ratio(self, k: int, sensitivity: float, epsilon: float) -> float:
        """Return s = √k·σ/Δ, on which normalised RDRs depend: the noise of k numbers relative to the sensitivity."""
        return math.sqrt(k) * self.scale(sensitivity, epsilon) / sensitivity


class Gaussian(_AnyGaussian):
    """Gaussian noise calibrated by zCDP (M3)."""

    __slots__ = ()
    calibration: ClassVar[Calibration] = "zcdp"

    def _scale(self, sensitivity: float, epsilon: float) -> float:
        rho = zcdp_rho(epsilon, self.delta)
        scale = sensitivity / math.sqrt(2.0 * rho) if rho > 0.0 else math.inf  # M3
        return scale * (1.0 + ROUNDING)  # more noise, never less

    def _epsilon(self, ratio: float) -> float:
        return zcdp_epsilon(0.5 * ratio * ratio, self.delta)  # M3


class ClassicGaussian(_AnyGaussian):
    """Gaussian noise calibrated as in the paper (M2): proven for ε up to 1 only, so it never backs a release."""

    __slots__ = ()
    calibration: ClassVar[Calibration] = "classic"
    caution: ClassVar[str] = (
        "The classic Gaussian calibration is proven for ε up to 1 only, and above it gives too little noise: for "  # M2
        "reproducing the paper, it never backs a release."
    )

    def _scale(self, sensitivity: float, epsilon: float) -> float:
        return sensitivity * self._factor() / epsilon  # M2

    def _epsilon(self, ratio: float) -> float:
        return ratio * self._factor()  # M2

    def _factor(self) -> float:
        return math.sqrt(2.0 * math.log(1.25 / self.delta))


def _quantile_by_summing(steps: float, probability: float) -> float:
    """Return the least whole m with P(|Z| ≤ m) ≥ probability, by adding e^(−z²/2σ²) for z outwards from 0.

    Z: the discrete Gaussian with σ = ``steps``, in grid steps.
    """
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


def _quantile_in_the_limit(steps: float, probability: float) -> float:
    """Return the least whole m with P(|Z| ≤ m) ≥ probability, computed from the normal distribution.

    Z: the discrete Gaussian with σ = ``steps``, in grid steps. With x = m + ½, P(|Z| ≤ m) is the probability that
    normal noise with this σ lies within ±x(1 + 1/24σ²), up to O(σ⁻⁴) (Euler–Maclaurin).
    """
    normal = -NormalDist().inv_cdf(0.5 * (1.0 - probability)) * steps
    return float(max(0, math.ceil(normal * (1.0 - 1.0 / (24.0 * steps * steps)) - 0.5)))


def _list_steps(scale: float, grids: FloatArray) -> set[float]:
    """Return the σ of each measure in its own grid steps, each once. ``scale``: σ, in the units of the grids."""
    return {scale / grid for grid in set(grids.tolist()) if grid > 0.0}


def _stretch(steps: set[float]) -> float:
    """Return how many times as noticeable as normal noise allows a shift of the discrete noise can be (P4).

    ``steps``: the σ of each measure, in grid steps.
    """
    return max((size * _unit_shift(size) for size in steps), default=1.0)


def _upper_tails(steps: float) -> FloatArray:
    """Return P(Z ≥ m) for m = 0, 1, …, as long as a float can hold it. Z: the discrete Gaussian with σ = ``steps``."""
    masses = np.exp(-0.5 * np.square(np.arange(math.ceil(40.0 * steps) + 2) / steps))
    tails = np.cumsum(masses[::-1])[::-1]
    return np.asarray(tails / (2.0 * tails[0] - masses[0]))


def _sum_between(steps: float, shifts: FloatArray) -> FloatArray:
    """Return the membership advantage of whoever moves a number by d grid steps, for each d in ``shifts`` (P4).

    It is the advantage of the best test that tells Z from Z + d: ½ (P(|Z| < d/2) + P(|Z| ≤ d/2)). Z: the discrete
    Gaussian with σ = ``steps``. Each d is a whole number.
    """
    tails = np.append(_upper_tails(steps), 0.0)
    last = len(tails) - 1
    reached = tails[np.minimum(np.ceil(0.5 * shifts), last).astype(np.int64)]
    passed = tails[np.minimum(np.floor(0.5 * shifts) + 1.0, last).astype(np.int64)]
    return np.asarray(1.0 - reached - passed)


def _unit_shift(steps: float) -> float:
    """Return μ₁ (P4): the shift of normal noise, in σ, that is as easy to notice as one step of the discrete noise.

    ``steps``: the σ of the discrete noise Z, in grid steps. μ₁ follows from P(Z = 0). On fine grids this probability is
    1/(σ√2π) to a float's precision; on coarse ones it takes a sum.
    """
    if steps >= _FINE_FROM:
        return 2.0 * math.sqrt(2.0) * invert_small_erf(1.0 / (steps * math.sqrt(2.0 * math.pi)))
    beyond = float(_upper_tails(steps)[1])
    return 2.0 * -NormalDist().inv_cdf(beyond) if beyond > 0.0 else math.inf
