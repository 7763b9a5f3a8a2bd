"""Formulas over influences: how exposed each individual is. Takes Contributions or Sensitivities and plain numbers;
gives Sensitivities, RDRs and numbers. Pure: no data is read, nothing is drawn at random, nothing is stored.

Everything is in the units of the norm (S5), by class of equally exposed individuals, and counts people, not classes.
The labels (N1, R1–R9, P1–P3, C9) lead to the project's page of formulas.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dosimeter.errors import DataError, OptionError
from dosimeter.influence import sum_rows
from dosimeter.risk.values import RDRs, Sensitivities

if TYPE_CHECKING:
    from dosimeter.arrays import FloatArray, IntArray
    from dosimeter.mechanisms import Indicator, Mechanism

_GAUSS_NODES = 40
"""Enough for R6: the integrand is a bell of at most 9 widths, which 40 nodes integrate to the last digits."""

_WIDTHS = 9.0
"""The rest of a bell beyond 9 widths is below 1e-18 of it."""


# ---------------------------------------------------------------- RDR at one ε


def compute_rdr(
    sensitivities: Sensitivities,
    mechanism: Mechanism,
    *,
    sensitivity: float,
    scale: float,
    epsilon: float,
    indicator: Indicator,
    grids: FloatArray,
) -> RDRs:
    """R3–R6: the RDR of every class at one ε, whose noise has this scale, and the ceiling RDR* (R9).

    ``grids``: the noise grid of each measure, for the exact Laplace indicator only. Without vectors that one takes
    a class's PIS for a change in a single cell. Scale 0 (ε = ∞) gives RDR = PIS.
    """
    if not 0.0 <= scale < math.inf:
        raise ValueError("the scale of the noise must be finite and not negative")
    bound = _bound_rdr(sensitivities.values, sensitivities.k, mechanism, scale)
    if indicator == "bound" or scale == 0.0:
        values = bound
    else:
        if mechanism.kind == "laplace":
            exact = _expect_laplace(sensitivities, scale, np.asarray(grids, dtype=np.float64))
        else:
            exact = _expect_gaussian(sensitivities.values, sensitivities.k, scale)
        values = np.clip(exact, sensitivities.values, bound)  # where it lies by Jensen; rounding must not undo that
    return RDRs(
        epsilon=epsilon,
        values=values,
        counts=sensitivities.counts,
        ceiling=float(_bound_rdr(np.array([sensitivity]), sensitivities.k, mechanism, scale)[0]),  # R9
        attributes=sensitivities.attributes,
    )


def _bound_rdr(norms: FloatArray, k: int, mechanism: Mechanism, scale: float) -> FloatArray:
    if mechanism.kind == "laplace":
        return norms + k * scale  # R3
    return np.hypot(norms, math.sqrt(k) * scale)  # R4


def _expect_laplace(sensitivities: Sensitivities, scale: float, grids: FloatArray) -> FloatArray:
    """R5: noise of mean size g/sinh(g/b) in every cell, and e^(−|c|/b) of it on top of a change by c."""
    k, vectors = sensitivities.k, sensitivities.vectors
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
        covered = mean_noise[0] * np.expm1(-sensitivities.values / scale)
    else:
        raise ValueError("measures on different grids need the vectors of the sensitivities")
    return sensitivities.values + (everywhere + covered)


def _expect_gaussian(norms: FloatArray, k: int, scale: float) -> FloatArray:
    """R6 as an integral: stable for every k and every ‖c‖/σ, where ₁F₁ overflows or cancels.

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


# ---------------------------------------------------------------- over people


def summarise_rdr(rdrs: RDRs) -> dict[str, float]:
    """Minimum, maximum, mean, median, population variance and ratio min/max (1 when everybody has 0), over people."""
    values, counts = _keep_inhabited(rdrs.values, rdrs.counts)
    n = int(counts.sum())
    low, high = float(values.min()), float(values.max())
    above = values - low  # what matters to the variance, without the level and its rounding
    mean_above = float((counts * above).sum()) / n
    variance = float((counts * np.square(above - mean_above)).sum()) / n
    return {
        "min": low,
        "max": high,
        "mean": low + mean_above,
        "median": weighted_quantile(values, counts, 0.5),
        "variance": variance,
        "ratio": low / high if high > 0.0 else 1.0,
    }


def weighted_quantile(values: FloatArray, counts: IntArray, p: float) -> float:
    """QUANTILE_CONT over everybody: linear between the order statistics around place p(n − 1), without expanding.

    p is taken for the decimal it prints as, so that the place is exact however many people there are.
    """
    if not 0.0 <= p <= 1.0:
        raise OptionError("A quantile must be asked for at a fraction between 0 and 1.")
    values, counts = _keep_inhabited(values, counts)
    if np.any(values[1:] < values[:-1]):  # an RDR grows with the PIS, so that they mostly come in order
        order = np.argsort(values, kind="stable")
        values, counts = values[order], counts[order]
    ends = np.cumsum(counts)
    place = Fraction(str(float(p))) * (int(ends[-1]) - 1)
    below, above = math.floor(place), math.ceil(place)
    low, high = (float(values[np.searchsorted(ends, rank, side="right")]) for rank in (below, above))
    return low + (high - low) * float(place - below)


def _keep_inhabited(values: FloatArray, counts: IntArray) -> tuple[FloatArray, IntArray]:
    inhabited = counts > 0
    if inhabited.all() and len(counts):
        return values, counts
    if not inhabited.any():
        raise DataError("There are no individuals to summarise. Check that the table is not empty.")
    return values[inhabited], counts[inhabited]
