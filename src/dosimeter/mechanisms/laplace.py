"""The Laplace mechanism (M1): noise of scale b = Δ₁/ε in every cell. Pure formulas."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from dosimeter.arrays import sum_rows
from dosimeter.mechanisms.mechanism import Mechanism, RatioWarning, raise_chance
from dosimeter.mechanisms.tails import invert_gamma_tail

if TYPE_CHECKING:
    from dosimeter.arrays import FloatArray
    from dosimeter.mechanisms.mechanism import Norm, SparseRows


_SAFE = Decimal("1e-30")
"""Far above the rounding of 60 digits, far below a step."""


@dataclass(frozen=True, slots=True)
class Laplace(Mechanism):
    """Laplace noise. It has no δ and no calibration."""

    name: ClassVar[str] = "laplace"
    calibration: ClassVar[None] = None
    norm: ClassVar[Norm] = 1
    pure: ClassVar[bool] = True
    shifts_alike: ClassVar[bool] = True
    exact_is_continuous: ClassVar[bool] = False
    delta: ClassVar[float] = 0.0  # type: ignore[misc]

    def _scale(self, sensitivity: float, epsilon: float) -> float:
        return sensitivity / epsilon  # M1

    def _epsilon(self, ratio: float) -> float:
        return ratio  # M1

    def own_epsilon(
        self,
        distances: FloatArray,
        *,
        sensitivity: float,
        scale: float | FloatArray,
        epsilon: float | FloatArray,
    ) -> FloatArray:
        return epsilon * (distances / sensitivity)  # P1

    def advantage(
        self, distances: FloatArray, *, sensitivity: float, scale: float, epsilon: float, grids: FloatArray, cells: int
    ) -> FloatArray:
        """Return an upper bound on each membership advantage: tanh(ε/2), ε being the individual's own guarantee (P4).

        The best test reaches the bound where an individual changes a number by one grid step.
        """
        own = self.own_epsilon(distances, sensitivity=sensitivity, scale=scale, epsilon=epsilon)
        return np.tanh(0.5 * own)

    def power(self, chance: float, *, distance: float, scale: float, grids: FloatArray, epsilon_svt: float) -> float:
        return raise_chance(chance, (math.inf if scale == 0.0 else distance / scale) + epsilon_svt)  # P1, P5

    def _error(self, steps: float, probability: float) -> float:
        """Return the smallest whole m with P(|Z| ≤ m) = 1 − 2 q^(m+1) / (1 + q) ≥ probability, where q = e^(−1/steps).

        Z: the noise, in grid steps.
        """
        tail = 0.5 * (1.0 - probability) * (1.0 + math.exp(-1.0 / steps))
        return float(max(0, math.ceil(-math.log(tail) * steps - 1.0)))

    def _sum_error(self, terms: int, probability: float) -> float:
        return _find_sum_error(terms, probability)

    def norm_quantile(self, probability: float, numbers: int) -> float:
        """Return the number x with P(sum of ``numbers`` absolute noises of scale 1 > x) = probability.

        Each absolute noise is an exponential variable.
        """
        return invert_gamma_tail(2 * numbers, probability)

    def find_excess(self, scale: float, probability: Fraction) -> int:
        """Return the least whole t ≥ 0 with P(Z ≥ t) = q^t / (1 + q) ≤ probability, where q = e^(−1/b) (H1).

        Z: integer noise of the scale b. Computed with 60 digits, and rounded up by far more than the rounding errors,
        so that t is never too small.
        """
        with localcontext() as context:
            context.prec = 60
            wanted = Decimal(probability.numerator) / Decimal(probability.denominator)
            width = Decimal(scale)
            least = -width * (wanted.ln() + (1 + (-1 / width).exp()).ln())
            return max(0, math.ceil(least * (1 + _SAFE) + _SAFE))

    def exceed(self, scale: float, steps: FloatArray) -> FloatArray:
        beyond = np.where(steps > 0, steps, 1 - steps)  # P(Z ≥ t) = 1 − P(Z ≥ 1 − t)
        tail = np.exp(-beyond / scale) / (1.0 + math.exp(-1.0 / scale))
        return np.where(steps > 0, tail, 1.0 - tail)

    def _below_median(self, shares: FloatArray) -> FloatArray:
        return np.log(2.0 * shares)

    def bound(self, norms: FloatArray, k: int, scale: float) -> FloatArray:
        return norms + k * scale  # R3

    def needs_vectors(self, k: int) -> bool:
        return k > 1

    def expect(
        self, norms: FloatArray, k: int, *, scale: float, grids: FloatArray, vectors: SparseRows | None
    ) -> FloatArray:
        """Return the exact RDR (R5): the sum over all cells of |c| + e^(−|c|/b)·E|noise|, where E|noise| = g/sinh(g/b).

        c: by how much the person changes the cell, 0 in most. g: the cell's grid. b: ``scale``.
        """
        if len(grids) == 0 or k % len(grids):
            raise ValueError("the number of cells must be a multiple of the number of measures")
        steps = grids / scale
        shrink = np.ones_like(steps)  # t/sinh(t), without overflow; 1 for t = 0, continuous noise
        np.divide(2.0 * steps * np.exp(-steps), -np.expm1(-2.0 * steps), out=shrink, where=steps > 0.0)
        mean_noise = scale * shrink
        everywhere = k // len(grids) * float(mean_noise.sum())
        if vectors is not None:
            per_entry = mean_noise[vectors.cells % len(grids)] * np.expm1(-np.abs(vectors.changes) / scale)
            covered = sum_rows(per_entry, vectors.starts)
        elif np.all(grids == grids[0]):
            covered = mean_noise[0] * np.expm1(-norms / scale)
        else:
            raise ValueError("measures on different grids need the vectors of the sensitivities")
        return norms + (everywhere + covered)

    def find_ratio_warning(self, low: float, high: float, *, grids: FloatArray, scale: float) -> RatioWarning | None:
        if low == high:
            return None
        if low > 0.0:
            return RatioWarning.EVERYBODY_MOVES
        return RatioWarning.COARSE_GRID if _grid_is_coarse(high, grids, scale) else None

    def mass(self, values: FloatArray) -> FloatArray:
        return np.abs(values)

    def mass_change(self, here: FloatArray, changes: FloatArray) -> FloatArray:
        return np.abs(here + changes) - np.abs(here)

    def distance(self, sums: FloatArray) -> FloatArray:
        return sums

    def loss_unit(self, scale: float) -> float:
        return scale

    def exact_ratio_is_monotone(self, k: int) -> bool:
        return k == 1

    def scale_for_ratio(self, low: float, high: float, k: int, threshold: float) -> float:
        return (threshold * high - low) / (k * (1.0 - threshold))  # ε* = kΔ(1 − τ)/(τ·PIS_max − PIS_min)

    def scale_for_variance(self, spread: float, k: int, threshold: float, sensitivity: float) -> float | None:
        root = math.sqrt(threshold)
        return sensitivity * (spread - root) / (k * root)  # ε* = k√τ/(s − √τ), s = sd(PIS)/Δ

    def level_width(self, k: int, *, sensitivity: float, epsilon: float) -> Fraction:
        exact = Fraction(epsilon)
        return exact / (exact + k)  # V5

    def unit_risks(self, relative: FloatArray, k: int, *, sensitivity: float, epsilon: float) -> FloatArray:
        return relative  # V5

    def tested_values(self, relative: FloatArray) -> FloatArray:
        return relative  # V5

    def tested_slope(self, k: int, *, sensitivity: float, epsilon: float) -> Fraction:
        return self.level_width(k, sensitivity=sensitivity, epsilon=epsilon)  # V5


@lru_cache(maxsize=256)
def _find_sum_error(terms: int, probability: float) -> float:
    """Return a distance x with P(|sum of ``terms`` Laplace noises of scale 1| ≤ x) ≥ probability.

    The characteristic function (1 + u²)^(−terms) is inverted on a fine grid, and the result rounded up by one step of
    that grid.
    """
    count, reach = 2**14, 8.0 * math.sqrt(2.0 * terms) + 40.0
    step = 2.0 * reach / count
    waves = 2.0 * math.pi * np.fft.fftfreq(count, d=step)
    density = np.fft.ifft(np.exp(-terms * np.log1p(waves**2))).real  # 0 first, then upwards
    within = density[0] + 2.0 * np.cumsum(density[1 : count // 2])
    return float(step * (np.searchsorted(within, probability) + 2))


def _grid_is_coarse(high: float, grids: FloatArray, scale: float) -> bool:
    """Return whether some grid is so coarse that a ratio of upper bounds of RDRs exceeds that of the exact RDRs (R7).

    Compared are somebody with PIS 0 and somebody with PIS ``high``, who moves one number by j = high/g steps of the
    grid g. With s = g/b, where b is ``scale``, and k noisy numbers, however many, the ratio of the exact RDRs is
    k/(k − 1 + j·sinh s + e^(−js)), and the ratio of the bounds is k/(k + js). For one COUNT (j = 1) the first is below
    the second from s = 1.616 on, the root of cosh s = 1 + s.
    """
    for grid in set(grids[grids > 0.0].tolist()):
        steps, size = high / grid, min(grid / scale, 700.0)
        if steps * (math.sinh(size) - size) > -math.expm1(-steps * size):
            return True
    return False
