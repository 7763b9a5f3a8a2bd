"""Selection by permute-and-flip (M4): how likely each candidate is drawn, and how far off the draw is. Pure formulas.

The higher the score of a candidate, the worse it is; 0 is best. OpenDP draws the candidate with the best noisy score,
with exponential noise, which is the same distribution.
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dosimeter.arrays import FloatArray, IntArray

_FARTHEST = 50.0
"""A score this many scales above the best is drawn with a chance below e⁻⁵⁰: it is left out."""

_BELOW_ONE = math.nextafter(1.0, 0.0)


def selection_scale(sensitivity: float, epsilon: float) -> float:
    """Return the scale 2Δ_s/ε of a selection. ``sensitivity``: Δ_s, by how much one individual moves a score (M4)."""
    return 2.0 * sensitivity / epsilon


def selection_probabilities(scores: IntArray, scale: float) -> FloatArray:
    """Return the probability with which each candidate is drawn, from its score (M4).

    With s_j the score of candidate j and λ = 1/scale, candidate c is drawn with the probability ∫₀^∞ e^(−z) Π_{j≠c}
    max(0, 1 − e^(−z − λ(s_j − s_c))) dz. With p_j = e^(−λ(s_j − min s)) and u = e^(−z) this becomes p_c ∫₀¹ Π_{j≠c} (1
    − u·p_j) du: a polynomial in u. Equal scores are merged. The integrand falls like e^(−uS), S = Σp_j, so it is
    integrated over intervals that double from 1/S on, until the rest is negligible.
    """
    distinct, where, times = np.unique(scores, return_inverse=True, return_counts=True)
    gaps = (distinct - distinct[0]).astype(np.float64)
    kept = gaps <= _FARTHEST * scale
    likely, times = np.exp(-gaps[kept] / scale), times[kept].astype(np.float64)
    mass = float(times @ likely)
    found = np.zeros_like(likely)
    start, stop = 0.0, 1.0 / mass
    nodes, weights = _find_nodes()
    while start < 1.0 and start * mass <= _FARTHEST:
        half = 0.5 * (stop - start)
        places = np.minimum(start + half * (1.0 + nodes), _BELOW_ONE)
        logs = np.log1p(-np.outer(places, likely))
        found += (half * weights) @ np.exp((logs @ times)[:, None] - logs)
        start, stop = stop, min(1.0, 2.0 * stop)
    chances = np.zeros(len(distinct))
    chances[kept] = likely * found
    chances[kept] /= times @ chances[kept]  # they add up to 1 but for rounding
    return np.asarray(chances[where.reshape(-1)])


@cache
def _find_nodes() -> tuple[FloatArray, FloatArray]:
    """Return the places and weights of a Gauss–Legendre rule. They are found when first needed: it takes time."""
    nodes, weights = np.polynomial.legendre.leggauss(16)
    return nodes, weights


def expected_distances(values: FloatArray, chances: FloatArray, points: FloatArray) -> FloatArray:
    """Return the expected distance E|v − y| of a drawn value v from each point y (R12).

    ``values``: those among which v is drawn, ascending. ``chances``: the probability of each.
    """
    middle = 0.5 * (values[0] + values[-1])  # without it, a far level would cost digits
    moved, wanted = values - middle, points - middle
    below = np.append(0.0, np.cumsum(chances))
    first = np.append(0.0, np.cumsum(chances * moved))
    place = np.searchsorted(moved, wanted, side="right")
    distances = wanted * (2.0 * below[place] - below[-1]) + first[-1] - 2.0 * first[place]
    return np.asarray(np.maximum(distances, 0.0))


def score_error(scale: float, candidates: int, probability: float = 0.95) -> float:
    """Return how far above the best score the drawn one lies at most, with at least this probability (E3).

    ``candidates``: how many there are, times the number of draws that must all be that close.
    """
    return scale * math.log(candidates / (1.0 - probability))
