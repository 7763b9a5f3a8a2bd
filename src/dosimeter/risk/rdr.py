"""How exposed each individual is: RDRs from Sensitivities and plain numbers. Pure: no data is read, nothing is drawn.

Everything is in the units of the norm (S5). Arrays have one item per class, a set of equally exposed individuals;
averages and quantiles are over people, not over classes. The labels (N1, R1–R9, P1–P3, C9) lead to the project's page
of formulas.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dosimeter.errors import DataError, OptionError
from dosimeter.risk.exposure import RDRs, Sensitivities, Spread

if TYPE_CHECKING:
    from dosimeter.arrays import FloatArray, IntArray
    from dosimeter.mechanisms import Mechanism
    from dosimeter.options import Indicator


_MOST_AT_ONCE = 2**17
"""The most RDRs that are summarised at once: 1 MB, which fits the processor's cache."""

_BLOCK = 2**15
"""The most classes that are added up at once, for the same reason."""


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
    """Return the RDR of every class of equally exposed people at one ε (R3–R6), and RDR*, which none exceeds (R9).

    ``sensitivity``: Δ. ``scale``: the noise scale at this ε; scale 0 (ε = ∞) gives RDR = PIS. ``grids``: the noise grid
    of each measure, which only the exact Laplace indicator reads. Without ``sensitivities.vectors`` the exact indicator
    takes each PIS for a change in a single cell. The cell indicator is the bound over fewer numbers: for it,
    ``sensitivities.k`` must be how many noisy numbers one individual can reach (R11).
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
    """Return the smallest, largest, mean and median RDR over people, and the population variance."""
    return summarise_rdrs([rdrs])[0]


def summarise_rdrs(many: Sequence[RDRs]) -> list[Spread]:
    """Return the spread over people of the RDRs at each of several ε. All must be of the same classes."""
    if not many:
        return []
    counts = many[0].counts
    step = max(1, _MOST_AT_ONCE // max(len(counts), 1))
    found: list[Spread] = []
    for start in range(0, len(many), step):
        rows = [rdrs.values for rdrs in many[start : start + step]]
        values = rows[0][np.newaxis] if len(rows) == 1 else np.array(rows)
        found += _summarise(*_keep_inhabited(values, counts))
    return found


def _summarise(values: FloatArray, counts: IntArray) -> list[Spread]:
    """Return the spread over people of each row of ``values``. ``counts``: how many people each column stands for."""
    n = int(counts.sum())
    low, high = values.min(axis=1), values.max(axis=1)
    mean_above = _add_up(values, counts, low) / n
    variance = _add_up(values, counts, low, mean_above) / n
    if np.any(values[:, 1:] < values[:, :-1]):
        medians = [weighted_quantile(row, counts, 0.5) for row in values]
    else:
        medians = _find_quantile(values, counts, 0.5).tolist()
    columns = (low.tolist(), high.tolist(), (low + mean_above).tolist(), medians, variance.tolist())
    return [Spread(*row) for row in zip(*columns, strict=True)]


def _add_up(values: FloatArray, counts: IntArray, low: FloatArray, mean_above: FloatArray | None = None) -> FloatArray:
    """Return, for each row of ``values``, the sum over people of value − low, or of (value − low − mean_above)².

    The second is returned if ``mean_above`` is given. ``counts``: how many people each column stands for. ``low``,
    ``mean_above``: one number per row. ``low`` is subtracted first: values that are all large and close together would
    otherwise be rounded more than they differ. The sum is taken in blocks and without BLAS, whose threads wait for each
    other by spinning: on a busy machine that takes many times longer than the sum itself.
    """
    total: FloatArray = np.zeros(len(values))
    for start in range(0, len(counts), _BLOCK):
        part = values[:, start : start + _BLOCK] - low[:, np.newaxis]
        if mean_above is not None:
            part -= mean_above[:, np.newaxis]
            np.square(part, out=part)
        part *= counts[start : start + _BLOCK]
        total += part.sum(axis=1)
    return total


def weighted_quantile(values: FloatArray, counts: IntArray, p: float) -> float:
    """Return SQL's QUANTILE_CONT over people, at the fraction ``p``. ``counts``: how many people have each value.

    It interpolates between the values around rank p(n − 1), counted from 0. ``p`` is taken for the decimal that it
    prints as, so that the rank is exact however many people there are.
    """
    if not 0.0 <= p <= 1.0:
        raise OptionError("A quantile must be asked for at a fraction between 0 and 1.")
    values, counts = _keep_inhabited(values, counts)
    if np.any(values[1:] < values[:-1]):  # an RDR grows with the PIS, so that they mostly come in order
        order = np.argsort(values, kind="stable")
        values, counts = values[order], counts[order]
    return float(_find_quantile(values, counts, p))


def _find_quantile(values: FloatArray, counts: IntArray, p: float) -> FloatArray:
    """Return the quantile at the fraction ``p`` of ascending values; one per row if ``values`` has several rows."""
    place = Fraction(str(float(p))) * (int(counts.sum()) - 1)
    below = math.floor(place)
    low, high = (values[..., _find_class(counts, rank)] for rank in (below, math.ceil(place)))
    found: FloatArray = low + (high - low) * float(place - below)
    return found


def _find_class(counts: IntArray, rank: int) -> int:
    """Return the index of the class that the person with this rank is in.

    Ranks count people from 0, class after class.
    """
    ends = np.cumsum(np.add.reduceat(counts, np.arange(0, len(counts), _BLOCK)))
    block = int(np.searchsorted(ends, rank, side="right"))
    start, before = block * _BLOCK, int(ends[block - 1]) if block else 0
    return start + int(np.searchsorted(np.cumsum(counts[start : start + _BLOCK]), rank - before, side="right"))


def _keep_inhabited(values: FloatArray, counts: IntArray) -> tuple[FloatArray, IntArray]:
    """Return ``values`` and ``counts`` without classes that nobody is in; classes are the last axis."""
    inhabited = counts > 0
    if inhabited.all() and len(counts):
        return values, counts
    if not inhabited.any():
        raise DataError("There are no individuals to summarise. Check that the table is not empty.")
    return values[..., inhabited], counts[inhabited]
