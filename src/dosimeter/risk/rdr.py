"""How exposed each individual is. Takes Sensitivities and plain numbers; gives RDRs and numbers. Pure: no data is read,
nothing is drawn at random, nothing is stored.

Everything is in the units of the norm (S5), by class of equally exposed individuals, and counts people, not classes.
The labels (N1, R1–R9, P1–P3, C9) lead to the project's page of formulas.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dosimeter.errors import DataError, OptionError
from dosimeter.risk.values import RDRs, Sensitivities, Spread

if TYPE_CHECKING:
    from dosimeter.arrays import FloatArray, IntArray
    from dosimeter.mechanisms import Mechanism
    from dosimeter.options import Indicator


_MOST_AT_ONCE = 2**17
"""RDRs that are summarised at once, at most: 1 MB, which stays near the processor."""


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
    """Return the RDR of every class at one ε (R3–R6), whose noise has this scale, and the ceiling RDR* (R9).

    ``grids``: the noise grid of each measure, for the exact Laplace indicator only; without vectors this indicator
    takes a class's PIS for a change in a single cell. Scale 0 (ε = ∞) gives RDR = PIS. The cell indicator is the bound
    over fewer numbers: ``sensitivities.k`` is k₁ then (R11).
    """
    if not 0.0 <= scale < math.inf:
        raise ValueError("the scale of the noise must be finite and not negative")
    norms, k = sensitivities.values, sensitivities.k
    bound = mechanism.bound(norms, k, scale)
    if indicator != "exact" or scale == 0.0:
        values = bound
    else:
        steps = np.asarray(grids, dtype=np.float64)
        exact = mechanism.expect(norms, k, scale=scale, grids=steps, vectors=sensitivities.vectors)
        values = np.clip(exact, norms, bound)  # where it lies by Jensen; rounding must not undo that
    return RDRs(
        epsilon=epsilon,
        values=values,
        counts=sensitivities.counts,
        ceiling=float(mechanism.bound(np.array([sensitivity]), k, scale)[0]),  # R9
        attributes=sensitivities.attributes,
    )


def summarise_rdr(rdrs: RDRs) -> Spread:
    """Return how RDRs are spread over people; the variance is that of the population."""
    return summarise_rdrs([rdrs])[0]


def summarise_rdrs(many: Sequence[RDRs]) -> list[Spread]:
    """Return the same for RDRs of the same classes at several ε, in one pass where they are few enough."""
    if not many:
        return []
    counts = many[0].counts
    step = max(1, _MOST_AT_ONCE // max(len(counts), 1))
    found: list[Spread] = []
    for start in range(0, len(many), step):
        values = np.array([rdrs.values for rdrs in many[start : start + step]])
        found += _summarise(*_keep_inhabited(values, counts))
    return found


def _summarise(values: FloatArray, counts: IntArray) -> list[Spread]:
    """Return the spread of each row of RDRs."""
    n = int(counts.sum())
    low, high = values.min(axis=1), values.max(axis=1)
    above = values - low[:, np.newaxis]  # what matters to the variance, without the level and its rounding
    weights = counts.astype(np.float64)
    mean_above = above @ weights / n
    above -= mean_above[:, np.newaxis]
    variance = np.square(above, out=above) @ weights / n
    if np.any(values[:, 1:] < values[:, :-1]):
        medians = [weighted_quantile(row, counts, 0.5) for row in values]
    else:
        medians = _find_quantile(values, counts, 0.5).tolist()
    columns = (low.tolist(), high.tolist(), (low + mean_above).tolist(), medians, variance.tolist())
    return [Spread(*row) for row in zip(*columns, strict=True)]


def weighted_quantile(values: FloatArray, counts: IntArray, p: float) -> float:
    """Return QUANTILE_CONT over everybody: linear between the order statistics around place p(n − 1).

    p is taken for the decimal it prints as, so that the place is exact however many people there are.
    """
    if not 0.0 <= p <= 1.0:
        raise OptionError("A quantile must be asked for at a fraction between 0 and 1.")
    values, counts = _keep_inhabited(values, counts)
    if np.any(values[1:] < values[:-1]):  # an RDR grows with the PIS, so that they mostly come in order
        order = np.argsort(values, kind="stable")
        values, counts = values[order], counts[order]
    return float(_find_quantile(values, counts, p))


def _find_quantile(values: FloatArray, counts: IntArray, p: float) -> FloatArray:
    """Return the quantile of ascending values; of each row where there are several."""
    ends = np.cumsum(counts)
    place = Fraction(str(float(p))) * (int(ends[-1]) - 1)
    below = math.floor(place)
    low, high = (values[..., np.searchsorted(ends, rank, side="right")] for rank in (below, math.ceil(place)))
    found: FloatArray = low + (high - low) * float(place - below)
    return found


def _keep_inhabited(values: FloatArray, counts: IntArray) -> tuple[FloatArray, IntArray]:
    """Return the last axis of the values, and the counts, without classes that nobody is in."""
    inhabited = counts > 0
    if inhabited.all() and len(counts):
        return values, counts
    if not inhabited.any():
        raise DataError("There are no individuals to summarise. Check that the table is not empty.")
    return values[..., inhabited], counts[inhabited]
