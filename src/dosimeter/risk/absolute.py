"""Absolute risks beside RDRs: own guarantees, odds, being picked out, being told to be in (P1–P4). Pure."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from dosimeter.arrays import sum_rows
from dosimeter.errors import DataError, OptionError
from dosimeter.mechanisms import Mechanism, Norm
from dosimeter.risk.sensitivities import TOLERANCE, summarise_sensitivities

if TYPE_CHECKING:
    from dosimeter.arrays import FloatArray, IntArray
    from dosimeter.influence import Contributions

_PAIR_WORK = 2**28
"""Pairs × cells that ``largest_difference`` compares one by one, at most: about a second."""


def own_epsilon(
    values: FloatArray,
    mechanism: Mechanism,
    *,
    sensitivity: float,
    scale: float | FloatArray,
    epsilon: float | FloatArray,
    shares: FloatArray | None = None,
) -> FloatArray:
    """Return the guarantee that individuals with these PIS have for themselves (P1, per-instance DP).

    ``scale`` and ``epsilon``: of all, or of each. ``shares``: where something is drawn by rank, the share of ε that
    bounds it, whatever the PIS (R12).
    """
    if shares is not None:
        return epsilon * shares
    own = np.zeros_like(values, dtype=np.float64)
    movers = values > 0.0
    if isinstance(scale, np.ndarray) and isinstance(epsilon, np.ndarray):
        scale, epsilon = scale[movers], epsilon[movers]
    own[movers] = mechanism.own_epsilon(values[movers], sensitivity=sensitivity, scale=scale, epsilon=epsilon)
    return own


def advantage(
    values: FloatArray,
    mechanism: Mechanism,
    *,
    sensitivity: float,
    scale: float,
    epsilon: float,
    grids: FloatArray,
    cells: int,
    epsilon_svt: float = 0.0,
    shares: FloatArray | None = None,
    group_delta: float = 0.0,
) -> FloatArray:
    """Return the membership advantage of individuals with these PIS, or a little more (P4).

    ``cells``: how many noisy numbers one individual can move. ``epsilon_svt``: what finding ε with noise cost.
    ``shares``: where something is drawn by rank, the share of ε that bounds it (R12). ``group_delta``: the chance with
    which somebody shows up in a group of their own, where nobody declared the groups (H1).
    """
    if shares is not None or (mechanism.pure and epsilon_svt > 0.0):
        own = own_epsilon(values, mechanism, sensitivity=sensitivity, scale=scale, epsilon=epsilon, shares=shares)
        found = np.tanh(0.5 * (own + epsilon_svt))
    else:
        found = np.zeros_like(values, dtype=np.float64)
        movers = values > 0.0
        found[movers] = mechanism.advantage(
            values[movers], sensitivity=sensitivity, scale=scale, epsilon=epsilon, grids=grids, cells=cells
        )
        if epsilon_svt > 0.0:
            found = 1.0 - (1.0 - found) * (1.0 - math.tanh(0.5 * epsilon_svt))
    return np.where(found > 0.0, np.minimum(found + group_delta, 1.0), 0.0)


def posterior_odds(prior: float, epsilon: float) -> float:
    """Return the most that a prior belief can become after outputs charged ε in all (P3).

    Holds for pure DP only, not for algorithm 1.
    """
    if not 0.0 <= prior <= 1.0:
        raise OptionError("A prior belief must lie between 0 and 1.")
    if not epsilon >= 0.0:
        raise OptionError("epsilon must not be negative.")
    if prior == 0.0:
        return 0.0
    return prior / (prior + (1.0 - prior) * math.exp(-epsilon))


def lee_clifton(n: int, epsilon: float, sensitivity: float, largest_difference: float) -> float:
    """Return Lee and Clifton's bound on the probability of being picked out of the n (P2)."""
    if n < 1:
        raise DataError("There are no individuals to pick from. Check that the table is not empty.")
    exponent = epsilon * (largest_difference / sensitivity) if largest_difference > 0.0 else 0.0
    return 1.0 / (1.0 + (n - 1) * math.exp(-exponent))


def largest_difference(contributions: Contributions, norm: Norm) -> tuple[float, bool]:
    """Return P2's Δv, the largest ‖c_i − c_j‖ over pairs of individuals, and whether it is exact (or an upper bound).

    Rows that share no cell, directly or through others, are as far apart as their norms add up to; only within such
    a cluster of rows are pairs compared. Where everybody is in one group, a cluster is a group.
    """
    rows = _merge_attributes(contributions).normalise()
    if rows.n < 2:
        return 0.0, True
    if rows.k == 1:
        return float(np.ptp(sum_rows(rows.changes, rows.starts))), True
    norms = rows.norms(norm)
    clusters = _split_clusters(rows)
    reach = [float(norms[members].max()) for members in clusters]
    if np.any(norms == 0.0):
        reach.append(0.0)  # somebody who moves nothing shares no cell with anybody
    best = _add_largest_two(np.array(reach), norm)
    promising = [members for members in clusters if _add_largest_two(norms[members], norm=1) > best]
    at_most = best
    for members in promising:
        cluster = rows.take(members, rows.people[members])
        spread, exact = _spread_rows(cluster, norm, floor=best, work=_PAIR_WORK // len(promising))
        best = max(best, spread if exact else 0.0)
        at_most = max(at_most, spread)
    return at_most, best == at_most


def _merge_attributes(contributions: Contributions) -> Contributions:
    """Return the rows with somebody in them, without attributes; rows that differed only in these are merged."""
    people = np.flatnonzero(contributions.people > 0)
    rows = replace(contributions.take(people, contributions.people[people]), attributes={})
    if not contributions.attributes:
        return rows
    return summarise_sensitivities(rows, 1, keep_vectors=True).vectors or rows


def _split_clusters(rows: Contributions) -> list[IntArray]:
    """Return the rows that move something, by connected cells: two rows that share a cell are in one cluster."""
    filled = np.flatnonzero(np.diff(rows.starts))
    labels: IntArray = np.arange(rows.k)
    owners = rows.entry_rows()
    joined = np.flatnonzero(np.diff(owners) == 0)
    if len(joined):
        pairs = np.sort(rows.cells[joined] * rows.k + rows.cells[joined + 1])
        pairs = pairs[np.append(True, np.diff(pairs) > 0)]
        labels = _join_cells(labels, pairs // rows.k, pairs % rows.k)
    label = labels[rows.cells[rows.starts[filled]]]
    order = np.argsort(label, kind="stable")
    return [part for part in np.split(filled[order], np.flatnonzero(np.diff(label[order])) + 1) if len(part)]


def _join_cells(labels: IntArray, one: IntArray, other: IntArray) -> IntArray:
    """Return the smallest cell that each cell is connected to, directly or through others."""
    while True:
        before = labels
        labels = labels.copy()
        least = np.minimum(before[one], before[other])
        for ends in (one, other):
            np.minimum.at(labels, before[ends], least)
            np.minimum.at(labels, ends, least)
        labels = labels[labels]
        if np.array_equal(labels, before):
            return labels


def _spread_rows(cluster: Contributions, norm: Norm, *, floor: float, work: int) -> tuple[float, bool]:
    """Return the largest distance between rows of a cluster, or an upper bound of it, and whether it is exact.

    Distances up to ``floor`` are of no interest: if there are no larger ones, any number up to it may be returned.
    ``work`` limits the pairs × cells that are compared one by one.
    """
    norms = cluster.norms(norm)
    triangle = _add_largest_two(norms, norm=1)
    cells, columns = np.unique(cluster.cells, return_inverse=True)
    width = len(cells)
    if len(norms) * width > _PAIR_WORK // 16:
        return triangle, False  # too many numbers to hold side by side
    points = np.zeros((len(norms), width))
    points[cluster.entry_rows(), columns] = cluster.changes
    if width == 1 or (norm == 1 and width <= 20 and points.size << (width - 1) <= _PAIR_WORK):
        # ‖v‖₁ is the largest of s·v over the sign vectors s; one of s and −s will do.
        signs = 1.0 - 2.0 * (np.arange(2 ** (width - 1))[:, np.newaxis] >> np.arange(width) & 1)
        return max(float(np.ptp(points @ sign)) for sign in signs), True

    # A row whose distance to every corner of the box is below a known distance is in no farthest pair; without such
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
        points = points[corners >= floor * (1.0 - TOLERANCE)]
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
    """Return the distance between the two largest rows if they share no cell.

    With norm 1 that is their sum, which is also an upper bound for any two rows (triangle inequality).
    """
    if len(norms) < 2:
        return 0.0
    second, first = np.partition(norms, -2)[-2:].tolist()
    return float(second + first if norm == 1 else math.hypot(first, second))
