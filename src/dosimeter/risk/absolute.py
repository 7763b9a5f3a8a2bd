"""Absolute risks of one individual, which compare nobody with anybody else (P1–P5). Pure.

They are: own guarantees (P1), the probability of being picked out (P2), the belief that somebody is in the data (P3),
the membership advantage (P4) and the chance of guessing a fact (P5).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from dosimeter.arrays import sum_rows
from dosimeter.errors import DataError, OptionError
from dosimeter.mechanisms import Mechanism, Norm, raise_chance
from dosimeter.risk.sensitivities import TOLERANCE, summarise_sensitivities

if TYPE_CHECKING:
    from dosimeter.arrays import FloatArray, IntArray
    from dosimeter.influence import Contributions

FALSE_ALARMS = 0.01
"""The rate of false alarms for which a posterior is stated where single answers have none (P3)."""

_PAIR_WORK = 2**28
"""The most pairs × cells that ``largest_difference`` compares one by one: about a second's work."""


def own_epsilon(
    values: FloatArray,
    mechanism: Mechanism,
    *,
    sensitivity: float,
    scale: float | FloatArray,
    epsilon: float | FloatArray,
    shares: FloatArray | None = None,
) -> FloatArray:
    """Return the own guarantee, in ε, of individuals with these PIS: one per PIS (P1, per-instance DP).

    ``values``: the PIS. ``sensitivity``: Δ. ``scale`` and ``epsilon``: the noise scale and the ε of the answer, one
    number for all PIS or one per PIS. ``shares``: given for a query with measures drawn by rank, a factor from 0 to 1
    for each individual; the own guarantee is then ``epsilon`` times this factor, and the PIS are not used (R12).
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
    """Return the membership advantage, or a slightly larger bound, of individuals with these PIS: one per PIS (P4).

    ``values``: the PIS. ``grids``: the noise grid of each measure. ``cells``: how many noisy numbers one individual can
    move. ``epsilon_svt``: the ε that was spent on finding ε with noise. ``shares``: as in ``own_epsilon`` (R12).
    ``group_delta``: the δ of thresholded groups, the probability that somebody alone in a group makes it appear (H1).
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


def posterior_probability(prior: float, epsilon: float) -> float:
    """Return the largest probability that a prior belief can become after answers that cost ``epsilon`` in all (P3).

    Holds only for pure DP and an ε that does not depend on the data: not for an ε found by algorithm 1.
    """
    _check_prior(prior)
    if not epsilon >= 0.0:
        raise OptionError("epsilon must not be negative.")
    if prior == 0.0:
        return 0.0
    return prior / (prior + (1.0 - prior) * math.exp(-epsilon))


def posterior_of_alarm(prior: float, false_alarms: float, power: float) -> float:
    """Return the largest probability that a prior belief can become after an alarm (P3).

    ``false_alarms``: at least so probable is the alarm if the person is not in the data. ``power``: the largest
    probability, as ``largest_power`` gives it, that an alarm which is exactly so probable can have if the person is in.
    """
    _check_prior(prior)
    right, wrong = prior * power, (1.0 - prior) * false_alarms
    return right / (right + wrong)


def _check_prior(prior: float) -> None:
    if not 0.0 <= prior <= 1.0:
        raise OptionError("A prior belief must lie between 0 and 1.")


def largest_power(
    chance: float,
    mechanism: Mechanism,
    *,
    distance: float,
    scale: float,
    grids: FloatArray,
    epsilon_svt: float = 0.0,
    group_delta: float = 0.0,
) -> float:
    """Return the largest probability that somebody can give to an event that has the probability ``chance`` without.

    An event is a set of answers. If these are the answers after which a fact about somebody is guessed, this is the
    chance of a right guess, ``chance`` being that of guessing it before (P5). If they raise an alarm that somebody is
    in the data, it is the alarm's power (P3).

    ``distance``: how far the person moves the answer; Δ if the person's rows are not known. ``scale``: of its noise.
    ``epsilon_svt`` and ``group_delta``: as in ``advantage``.
    """
    if not 0.0 < chance < 1.0:
        raise OptionError("The chance of guessing a fact beforehand must lie strictly between 0 and 1.")
    if distance == 0.0:
        return raise_chance(chance, epsilon_svt)
    found = mechanism.power(chance, distance=distance, scale=scale, grids=grids, epsilon_svt=epsilon_svt)
    return min(found + group_delta, 1.0)


def lee_clifton(n: int, epsilon: float, sensitivity: float, largest_difference: float) -> float:
    """Return Lee and Clifton's upper bound on the probability of picking one individual out of ``n`` (P2).

    ``largest_difference``: the largest distance between the contributions of two individuals, P2's Δv.
    """
    if n < 1:
        raise DataError("There are no individuals to pick from. Check that the table is not empty.")
    exponent = epsilon * (largest_difference / sensitivity) if largest_difference > 0.0 else 0.0
    return 1.0 / (1.0 + (n - 1) * math.exp(-exponent))


def largest_difference(contributions: Contributions, norm: Norm) -> tuple[float, bool]:
    """Return P2's Δv, the largest ‖c_i − c_j‖ over pairs of individuals, or an upper bound, and whether it is exact.

    A cluster is a set of rows of the contributions that are connected by shared cells, directly or through other rows.
    The distance of rows in different clusters follows from their two norms, so only rows of one cluster are compared
    pair by pair. If nobody is in several groups, the clusters are the groups.
    """
    rows = _merge_attributes(contributions).normalise()
    if rows.n < 2:
        return 0.0, True
    if rows.k == 1:
        return float(np.ptp(sum_rows(rows.changes, rows.starts))), True
    norms = rows.norms(norm)
    lengths = np.diff(rows.starts)
    # A row that changes every cell connects all of them.
    clusters = [np.flatnonzero(lengths)] if lengths.max() == rows.k else _split_clusters(rows)
    reach = [float(norms[members].max()) for members in clusters]
    if np.any(norms == 0.0):
        reach.append(0.0)  # somebody who moves nothing shares no cell with anybody
    best = _add_largest_two(np.array(reach), norm)
    promising = [members for members in clusters if _add_largest_two(norms[members], norm=1) > best]
    at_most = best
    for members in promising:
        cluster = rows if len(members) == len(rows.people) else rows.take(members, rows.people[members])
        spread, exact = _spread_rows(cluster, norm, floor=best, work=_PAIR_WORK // len(promising))
        best = max(best, spread if exact else 0.0)
        at_most = max(at_most, spread)
    return at_most, best == at_most


def _merge_attributes(contributions: Contributions) -> Contributions:
    """Return the contributions without attributes, and without rows that stand for no individual.

    Attributes say, for example, whether a row meets a FILTER of the preference. Rows that differed only in attributes
    are merged into one.
    """
    people = np.flatnonzero(contributions.people > 0)
    everybody = len(people) == len(contributions.people)
    rows = contributions if everybody else contributions.take(people, contributions.people[people])
    rows = replace(rows, attributes={})
    if not contributions.attributes:
        return rows
    return summarise_sensitivities(rows, 1, keep_vectors=True).vectors or rows


def _split_clusters(rows: Contributions) -> list[IntArray]:
    """Return the indices of the rows that move at least one cell, one array per cluster.

    Rows that share a cell, directly or through other rows, are in one cluster.
    """
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
    """Return, for each cell, the lowest index of a cell that it is connected to, directly or through other cells.

    Two cells are connected if some row changes both. ``labels``: the lowest index known so far, for each cell. ``one``
    and ``other``: the connected pairs; cell ``one[i]`` is connected to cell ``other[i]``.
    """
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
    """Return the largest distance between two rows of a cluster, or an upper bound of it, and whether it is exact.

    Only distances above ``floor`` matter: if there are none, any number up to ``floor`` may be returned. ``work``: how
    many differences of two numbers may be computed, one per cell of each pair of rows. If comparing all pairs takes
    more, an upper bound is returned.
    """
    norms = cluster.norms(norm)
    triangle = _add_largest_two(norms, norm=1)
    width, columns = cluster.k, cluster.cells
    if np.diff(cluster.starts).max() < cluster.k:
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
    """Return how far apart the two rows with the largest norms are if they share no cell; 0 for fewer than two rows.

    ``norms``: the norm of each row. For norms a and b the distance is a + b in norm 1, and √(a² + b²) in norm 2. In
    norm 1 no two rows at all are further apart, by the triangle inequality.
    """
    if len(norms) < 2:
        return 0.0
    second, first = np.partition(norms, -2)[-2:].tolist()
    return float(second + first if norm == 1 else math.hypot(first, second))
