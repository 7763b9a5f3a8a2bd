"""Formulas over influences: how exposed each individual is. Takes Contributions or Sensitivities and plain numbers;
gives Sensitivities, RDRs and numbers. Pure: no data is read, nothing is drawn at random, nothing is stored.

Everything is in the units of the norm (S5), by class of equally exposed individuals, and counts people, not classes.
The labels (N1, R1–R9, P1–P3, C9) lead to the project's page of formulas.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dosimeter.arrays import FloatArray, IntArray
from dosimeter.errors import DataError, OptionError
from dosimeter.influence import Contributions, sum_rows
from dosimeter.mechanisms import Indicator, Mechanism, Norm, zcdp_epsilon
from dosimeter.model import RDRs, Sensitivities

_DUST = 1e-12
"""Norms that had to be rounded while they were added up count as equal within this relative distance."""

_EXACT_INTEGERS = 2.0**53
"""Sums of integers below this are exact in floats, in any order."""

_GAUSS_NODES = 40
"""Enough for R6: the integrand is a bell of at most 9 widths, which 40 nodes integrate to the last digits."""

_WIDTHS = 9.0
"""The rest of a bell beyond 9 widths is below 1e-18 of it."""

_PAIR_WORK = 2**28
"""Pairs × cells that ``largest_difference`` compares one by one, at most: about a second."""

_OWN_EPSILON_NODES = 2**14
"""More distinct PIS than this are rounded up to the next of this many."""


# ---------------------------------------------------------------- per-instance sensitivities


def summarise_sensitivities(contributions: Contributions, norm: Norm, *, keep_vectors: bool) -> Sensitivities:
    """Merge rows into classes of equal PIS and attributes (and equal vectors, C9), ascending by PIS, people added up.

    A PIS that came out without rounding (one cell, or integers) is only ever merged with an equal one. Otherwise
    those within 1e-12 of the next smaller one are taken for one number, written differently by rounding, and the
    smallest stands for all; a run of close values that is wider than that altogether is data, and stays apart.
    Vectors are merged only when they are equal in every cell.
    """
    rows = _normalise_rows(contributions)
    norms = rows.norms(norm)
    values, pis_codes = _merge_dust(norms, exact=_norms_are_exact(rows, norm))
    codes = pis_codes
    if keep_vectors:
        codes = _combine_codes(codes, _code_vectors(rows))
    for column in rows.attributes.values():
        codes = _combine_codes(codes, _code_attribute(column))

    size = int(codes.max(initial=-1)) + 1
    counts = np.bincount(codes, weights=rows.people, minlength=size).astype(np.int64)
    first = np.empty(size, dtype=np.int64)
    first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)
    inhabited = counts > 0
    counts, first = counts[inhabited], first[inhabited]
    attributes = {name: column[first] for name, column in rows.attributes.items()}
    return Sensitivities(
        values=values[pis_codes[first]],
        counts=counts,
        k=rows.k,
        vectors=_take_rows(rows, first, counts) if keep_vectors else None,
        attributes=attributes,
    )


def _rows_of_entries(contributions: Contributions) -> IntArray:
    return np.repeat(np.arange(len(contributions.people)), np.diff(contributions.starts))


def _normalise_rows(contributions: Contributions) -> Contributions:
    """The same rows with cells ascending and without zero changes."""
    rows = _rows_of_entries(contributions)
    ascending = (np.diff(rows) > 0) | (np.diff(contributions.cells) > 0)
    changed = contributions.changes != 0.0
    if ascending.all() and changed.all():
        return contributions
    order = np.lexsort((contributions.cells, rows))
    order = order[changed[order]]
    starts = np.zeros_like(contributions.starts)
    np.cumsum(np.bincount(rows[order], minlength=len(contributions.people)), out=starts[1:])
    return Contributions(
        k=contributions.k,
        people=contributions.people,
        starts=starts,
        cells=contributions.cells[order],
        changes=contributions.changes[order],
        attributes=contributions.attributes,
    )


def _take_rows(contributions: Contributions, rows: IntArray, people: IntArray) -> Contributions:
    lengths = np.diff(contributions.starts)[rows]
    starts = np.zeros(len(rows) + 1, dtype=np.int64)
    np.cumsum(lengths, out=starts[1:])
    entries = np.arange(starts[-1]) + np.repeat(contributions.starts[rows] - starts[:-1], lengths)
    return Contributions(
        k=contributions.k,
        people=people,
        starts=starts,
        cells=contributions.cells[entries],
        changes=contributions.changes[entries],
        attributes={name: column[rows] for name, column in contributions.attributes.items()},
    )


def _norms_are_exact(rows: Contributions, norm: Norm) -> bool:
    """Whether no norm was rounded: one cell at most (|c| itself, and √(c²) gives it back), or sums of integers."""
    if np.diff(rows.starts).max(initial=0) <= 1:
        return True
    if not np.array_equal(rows.changes, np.rint(rows.changes)):
        return False
    return bool(sum_rows(np.abs(rows.changes) ** norm, rows.starts).max() < _EXACT_INTEGERS)


def _merge_dust(norms: FloatArray, *, exact: bool) -> tuple[FloatArray, IntArray]:
    """The distinct values, ascending, and for each norm the index of its own."""
    distinct, codes = np.unique(norms, return_inverse=True)
    if exact or len(distinct) < 2:
        return distinct, codes
    opens = np.append(True, np.diff(distinct) > _DUST * distinct[1:])
    lowest, highest = distinct[opens], distinct[np.append(opens[1:], True)]
    too_wide = highest - lowest > _DUST * highest
    opens |= too_wide[np.cumsum(opens) - 1]
    return distinct[opens], (np.cumsum(opens) - 1)[codes]


def _combine_codes(major: IntArray, minor: IntArray) -> IntArray:
    """Dense codes of pairs, ordered by the major code first. Both are dense, so that their product fits 63 bits."""
    _, codes = np.unique(major * (minor.max(initial=0) + 1) + minor, return_inverse=True)
    return codes.astype(np.int64)


def _code_vectors(rows: Contributions) -> IntArray:
    """Equal codes for equal rows, whatever the order of the rows."""
    _, change_codes = np.unique(rows.changes, return_inverse=True)
    entries = _combine_codes(rows.cells, change_codes)
    lengths = np.diff(rows.starts)
    codes = np.zeros(len(lengths), dtype=np.int64)
    used = 0
    for length in np.unique(lengths):
        alike = np.flatnonzero(lengths == length)
        code = np.zeros(len(alike), dtype=np.int64)
        for position in range(length):
            code = _combine_codes(code, entries[rows.starts[alike] + position])
        codes[alike] = used + code
        used += int(code.max()) + 1
    return codes


def _code_attribute(column: NDArray[np.generic]) -> IntArray:
    if column.dtype != np.dtype(object):
        codes: IntArray = np.unique(column, return_inverse=True)[1]
        return codes
    values = column.tolist()  # may hold None beside text, which NumPy cannot order
    ranks = {value: rank for rank, value in enumerate(sorted(set(values), key=lambda v: (type(v).__name__, str(v))))}
    return np.array([ranks[value] for value in values], dtype=np.int64)


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


# ---------------------------------------------------------------- after the output is known


def ex_post(
    contributions: Contributions, residual: FloatArray, mechanism: Mechanism, scale: float
) -> tuple[FloatArray, FloatArray]:
    """R1 and R2 for each row, given the residual o − q(x) in all k cells: the RDR for this output, and the loss."""
    if len(residual) != contributions.k:
        raise ValueError("the residual needs one number per cell")
    rows = _normalise_rows(contributions)
    here = residual[rows.cells]
    without = here + rows.changes  # o − q(x₋ᵢ) = residual + c_i
    if mechanism.kind == "laplace":
        mass, moved = np.abs(residual), np.abs(without)
        difference = sum_rows(moved - np.abs(here), rows.starts)
        unit = scale
    else:
        mass, moved = np.square(residual), np.square(without)
        difference = sum_rows(rows.changes * (here + without), rows.starts)  # (r + c)² − r² without cancelling
        unit = 2.0 * scale * scale
    total = _sum_untouched(rows, mass) + sum_rows(moved, rows.starts)
    output_rdr = total if mechanism.kind == "laplace" else np.sqrt(total)  # R1
    loss = np.zeros_like(difference)
    with np.errstate(divide="ignore"):  # no noise at all: an infinite loss for whoever moved the answer
        np.divide(difference, unit, out=loss, where=difference != 0.0)  # R2
    return output_rdr, loss


def _sum_untouched(rows: Contributions, mass: FloatArray) -> FloatArray:
    """The mass of the cells each row does not touch, in O(entries + k).

    Added up from before its first cell, the gaps, and after its last, instead of total − touched: neighbouring cells
    (the measures of one group) then leave no rounding error of the size of what they hide.
    """
    before = np.append(0.0, np.cumsum(mass))
    after = np.append(np.cumsum(mass[::-1])[::-1], 0.0)
    previous = np.append(-1, rows.cells[:-1])
    filled = np.flatnonzero(np.diff(rows.starts))
    previous[rows.starts[filled]] = -1
    sums = sum_rows(before[rows.cells] - before[previous + 1], rows.starts)
    last = np.full(len(rows.people), -1)
    last[filled] = rows.cells[rows.starts[filled + 1] - 1]
    sums += after[last + 1]
    return sums


# ---------------------------------------------------------------- beside RDR


def own_epsilon(
    values: FloatArray, mechanism: Mechanism, *, sensitivity: float, scale: float, epsilon: float
) -> FloatArray:
    """P1: the guarantee that individuals with these PIS have for themselves (per-instance differential privacy).

    For Gaussian noise more than 16,384 distinct PIS are rounded up to as many steps between a millionth of the
    largest and the largest, 0.09 % apart: the ε is then a trifle too high, and never too low.
    """
    own = np.zeros_like(values, dtype=np.float64)
    movers = values > 0.0
    if mechanism.kind == "laplace":
        own[movers] = epsilon * (values[movers] / sensitivity)
        return own
    if scale == 0.0:
        own[movers] = math.inf
        return own
    distinct, codes = np.unique(values[movers], return_inverse=True)
    if len(distinct) > _OWN_EPSILON_NODES:
        steps = distinct[-1] * np.geomspace(1e-6, 1.0, _OWN_EPSILON_NODES)
        codes = np.searchsorted(steps, distinct)[codes]  # a weaker promise, never a stronger one
        distinct = steps
    epsilons = [zcdp_epsilon(0.5 * (pis / scale) ** 2, mechanism.delta) for pis in distinct.tolist()]
    own[movers] = np.array(epsilons, dtype=np.float64)[codes]
    return own


def posterior_odds(prior: float, epsilon: float) -> float:
    """P3: the most that a prior belief can become after outputs charged ε in all; pure DP only, not for algorithm 1."""
    if not 0.0 <= prior <= 1.0:
        raise OptionError("A prior belief must lie between 0 and 1.")
    if not epsilon >= 0.0:
        raise OptionError("epsilon must not be negative.")
    if prior == 0.0:
        return 0.0
    return prior / (prior + (1.0 - prior) * math.exp(-epsilon))


def lee_clifton(n: int, epsilon: float, sensitivity: float, largest_difference: float) -> float:
    """P2: Lee and Clifton's bound on the probability of being picked out of the n."""
    if n < 1:
        raise DataError("There are no individuals to pick from. Check that the table is not empty.")
    exponent = epsilon * (largest_difference / sensitivity) if largest_difference > 0.0 else 0.0
    return 1.0 / (1.0 + (n - 1) * math.exp(-exponent))


def largest_difference(contributions: Contributions, norm: Norm) -> tuple[float, bool]:
    """P2's Δv, the largest ‖c_i − c_j‖ over pairs of individuals, and whether it is exact (otherwise: at most that).

    Rows that share no cell, directly or through others, are as far apart as their norms add up to; only within such
    a cluster of rows are pairs compared. Where everybody is in one group, a cluster is a group.
    """
    rows = _normalise_rows(_merge_attributes(contributions))
    if rows.n < 2:
        return 0.0, True
    norms = rows.norms(norm)
    clusters = _split_clusters(rows)
    reach = [float(norms[members].max()) for members in clusters]
    if np.any(norms == 0.0):
        reach.append(0.0)  # somebody who moves nothing shares no cell with anybody
    best = _add_largest_two(np.array(reach), norm)
    promising = [members for members in clusters if _add_largest_two(norms[members], norm=1) > best]
    at_most = best
    for members in promising:
        cluster = _take_rows(rows, members, rows.people[members])
        spread, exact = _spread_rows(cluster, norm, floor=best, work=_PAIR_WORK // len(promising))
        best = max(best, spread if exact else 0.0)
        at_most = max(at_most, spread)
    return at_most, best == at_most


def _merge_attributes(contributions: Contributions) -> Contributions:
    """The rows with somebody in them, without attributes; rows that differed in nothing else are one."""
    people = np.flatnonzero(contributions.people > 0)
    rows = replace(_take_rows(contributions, people, contributions.people[people]), attributes={})
    if not contributions.attributes:
        return rows
    return summarise_sensitivities(rows, 1, keep_vectors=True).vectors or rows


def _split_clusters(rows: Contributions) -> list[IntArray]:
    """The rows that move something, by connected cells: two rows that share a cell are in one cluster."""
    filled = np.flatnonzero(np.diff(rows.starts))
    labels: IntArray = np.arange(rows.k)
    owners = _rows_of_entries(rows)
    joined = np.flatnonzero(np.diff(owners) == 0)
    if len(joined):
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import connected_components

        ends = (rows.cells[joined], rows.cells[joined + 1])
        graph = coo_array((np.ones(len(joined)), ends), shape=(rows.k, rows.k))
        labels = connected_components(graph, directed=False)[1].astype(np.int64)
    label = labels[rows.cells[rows.starts[filled]]]
    order = np.argsort(label, kind="stable")
    return [part for part in np.split(filled[order], np.flatnonzero(np.diff(label[order])) + 1) if len(part)]


def _spread_rows(cluster: Contributions, norm: Norm, *, floor: float, work: int) -> tuple[float, bool]:
    """The largest distance between rows of a cluster, or an upper bound of it, and whether it is exact.

    Distances up to ``floor`` are of no interest: if there are no larger ones, any number up to it may come back.
    ``work`` limits the pairs × cells that are compared one by one.
    """
    norms = cluster.norms(norm)
    triangle = _add_largest_two(norms, norm=1)
    cells, columns = np.unique(cluster.cells, return_inverse=True)
    width = len(cells)
    if len(norms) * width > _PAIR_WORK // 16:
        return triangle, False  # too many numbers to hold side by side
    points = np.zeros((len(norms), width))
    points[_rows_of_entries(cluster), columns] = cluster.changes
    if width == 1 or (norm == 1 and width <= 20 and points.size << (width - 1) <= _PAIR_WORK):
        # ‖v‖₁ is the largest of s·v over the sign vectors s; one of s and −s will do.
        signs = 1.0 - 2.0 * (np.arange(2 ** (width - 1))[:, np.newaxis] >> np.arange(width) & 1)
        return max(float(np.ptp(points @ sign)) for sign in signs), True

    # A row whose distance to every corner of the box is below one we know of is in no farthest pair; without such
    # rows the box gets smaller.
    far = points[norms.argmax()]
    for _ in range(3):
        distances = _measure_lengths(points - far, norm)
        far = points[distances.argmax()]
        floor = max(floor, float(distances.max()))
    remaining = len(points) + 1
    while 2 <= len(points) < remaining:
        remaining = len(points)
        low, high = points.min(axis=0), points.max(axis=0)
        corners = _measure_lengths(np.maximum(high - points, points - low), norm)
        points = points[corners >= floor * (1.0 - _DUST)]
    if len(points) < 2:
        return floor, True
    if len(points) * points.size > work:
        return min(triangle, float(_measure_lengths(high - low, norm))), False
    step = max(1, 2**21 // points.size)
    blocks = (points[start : start + step, np.newaxis] - points for start in range(0, len(points), step))
    return max(float(_measure_lengths(block, norm).max()) for block in blocks), True


def _measure_lengths(vectors: FloatArray, norm: Norm) -> FloatArray:
    if norm == 1:
        return np.asarray(np.abs(vectors).sum(axis=-1))
    return np.asarray(np.sqrt(np.square(vectors).sum(axis=-1)))


def _add_largest_two(norms: FloatArray, norm: Norm) -> float:
    """How far apart the two largest are if they share no cell; with norm 1 the triangle inequality for any two."""
    if len(norms) < 2:
        return 0.0
    second, first = np.partition(norms, -2)[-2:].tolist()
    return float(second + first if norm == 1 else math.hypot(first, second))
