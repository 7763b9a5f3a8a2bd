"""RDRs of numbers that are drawn by rank (R12): how far a drawn number lies from the answer without one individual.

Pure. All values are private.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from dosimeter.arrays import sum_rows
from dosimeter.html import Private
from dosimeter.mechanisms import score_error
from dosimeter.risk.exposure import RDRs, Sensitivities

if TYPE_CHECKING:
    from dosimeter.arrays import FloatArray, IntArray
    from dosimeter.influence import Contributions, Measured
    from dosimeter.measures import GroupColumn, Rank
    from dosimeter.mechanisms import Mechanism
    from dosimeter.options import Indicator
    from dosimeter.planning import QueryPlan


_LEAST = float(np.finfo(np.float64).tiny)
"""The least expected distance: a drawn number can differ from the exact answer, so rounding must not make it 0."""


@dataclass(frozen=True, slots=True, repr=False)
class RankCell(Private):
    """One number that is drawn by rank, in one group. Private.

    ``cell``: its index among all cells. ``column``: the group's values and how often each occurs; None for an empty
    group. ``answer``: the exact number. ``weight``: the factor from the measure's own units to the units of the norm,
    in which contributions are measured (S5).
    """

    cell: int
    rank: Rank
    column: GroupColumn | None
    answer: float
    weight: float

    def find_error(self, epsilon: float, cells: int) -> float:
        """Return how far the drawn number can lie from the exact one, with 95 %; ∞ for a group without values (E3).

        ``epsilon``: the share of ε that this number is drawn with. ``cells``: for how many draws that holds, at once.
        """
        counts = self.rank.count(self.column)
        if not counts.any():
            return math.inf
        scores = self.rank.scores(counts, epsilon)
        near = scores <= scores.min() + score_error(self.rank.scale(epsilon), cells * len(scores))
        reached = self.rank.candidates[near][[0, -1]].astype(np.float64) * float(self.rank.unit)
        return float(np.abs(reached - self.answer).max())

    def distances(self, epsilon: float, points: FloatArray) -> FloatArray:
        """Return the expected distance of the drawn number from each of ``points``, in the units of the norm.

        ``points``: in the measure's own units. ``epsilon``: the share of ε that this number is drawn with.
        """
        counts = self.rank.count(self.column)
        return self.weight * self.rank.distances(counts, epsilon, points)


@dataclass(frozen=True, slots=True, repr=False)
class RankCells(Private):
    """All numbers of one answer that are drawn by rank. Private.

    ``noisy``: the indices of all other cells. ``_levels``: the results of ``level`` so far, by ε.
    """

    cells: tuple[RankCell, ...]
    plan: QueryPlan
    noisy: IntArray
    _levels: dict[float, float] = field(default_factory=dict)

    @classmethod
    def of(cls, plan: QueryPlan, measured: Measured) -> RankCells:
        """Return the numbers drawn by rank, from the exact measured numbers."""
        cells: list[RankCell] = []
        first = 0
        for block, found in zip(plan.blocks, measured.blocks, strict=True):
            weights, width = block.weights(1), len(block.measures)
            cells += [
                RankCell(first + group * width + at, rank, column, float(found.values[group][at]), float(weights[at]))
                for at, rank in block.ranks.items()
                for group, column in enumerate(found.columns[at])
            ]
            first += len(found.keys) * width
        noisy = np.ones(first, dtype=np.bool_)
        noisy[[cell.cell for cell in cells]] = False
        return cls(tuple(cells), plan, np.flatnonzero(noisy))

    def level(self, epsilon: float) -> float:
        """Return how far the numbers drawn by rank are expected to lie from the exact ones, in the units of the norm.

        That is Σ E|M(x) − q(x)| over these cells. ``epsilon``: the ε of the whole answer.
        """
        if epsilon not in self._levels:
            share = self.plan.rank_share(epsilon)
            empty: dict[Rank, float] = {}  # one empty group is like any other
            total = 0.0
            for cell in self.cells:
                if cell.column is None and cell.rank in empty:
                    total += empty[cell.rank]
                    continue
                distance = float(cell.distances(share, np.array([cell.answer]))[0])
                if cell.column is None:
                    empty[cell.rank] = distance
                total += distance
            self._levels[epsilon] = max(total, _LEAST)
        return self._levels[epsilon]

    def expect(self, vectors: Contributions, epsilon: float) -> FloatArray:
        """Return, for each row of ``vectors``, how far the numbers drawn by rank are expected to lie from q(x₋ᵢ).

        q(x₋ᵢ) is the exact answer without one individual of the row. The distance is Σ E|M(x) − q(x₋ᵢ)| over the cells
        drawn by rank, in the units of the norm. ``vectors``: the contributions. ``epsilon``: the ε of the whole answer.
        """
        share = self.plan.rank_share(epsilon)
        more = np.zeros(len(vectors.changes))
        order = np.argsort(vectors.cells, kind="stable")
        moved = vectors.cells[order]
        for cell in self.cells:
            entries = order[np.searchsorted(moved, cell.cell) : np.searchsorted(moved, cell.cell, side="right")]
            if len(entries):
                without = cell.answer - vectors.changes[entries] / cell.weight
                found = cell.distances(share, np.append(without, cell.answer))
                more[entries] = found[:-1] - found[-1]
        return self.level(epsilon) + sum_rows(more, vectors.starts)


def compute_rank_rdr(
    sensitivities: Sensitivities,
    mechanism: Mechanism,
    *,
    cells: RankCells,
    sensitivity: float,
    scale: float,
    epsilon: float,
    indicator: Indicator,
    grids: FloatArray,
) -> RDRs:
    """Return the RDR of every class at one ε, for a query with measures drawn by rank (R12), and RDR* (R9).

    ``cells``: the numbers drawn by rank. All other numbers get noise of the scale ``scale``; their part of the RDR is
    computed as in a query without ranks (R3, R5). ``sensitivity``: Δ. ``grids``: the noise grid of each measure.
    """
    norms = sensitivities.values
    noisy = len(cells.noisy)
    around = cells.level(epsilon) + noisy * scale
    values = norms + around
    if indicator == "exact":
        vectors = sensitivities.vectors
        assert vectors is not None, "where ranks are drawn the exact indicator needs every change with its sign"
        exact = cells.expect(vectors, epsilon)
        if noisy:
            rest = keep_cells(vectors, cells.noisy)
            own = grids[cells.noisy % len(grids)]
            exact = exact + mechanism.expect(rest.norms(1), noisy, scale=scale, grids=own, vectors=rest)
        values = np.clip(exact, _LEAST, values)
    return RDRs(
        epsilon=epsilon,
        values=values,
        counts=sensitivities.counts,
        ceiling=sensitivity + around,
        attributes=sensitivities.attributes,
    )


def keep_cells(vectors: Contributions, kept: IntArray) -> Contributions:
    """Return the contributions to some cells alone, which get the indices 0, 1 … in the order of ``kept``.

    ``kept``: the present indices of these cells.
    """
    place = np.full(vectors.k, -1)
    place[kept] = np.arange(len(kept))
    inside = place[vectors.cells] >= 0
    rows = vectors.entry_rows()[inside]
    starts = np.zeros_like(vectors.starts)
    np.cumsum(np.bincount(rows, minlength=len(vectors.people)), out=starts[1:])
    return replace(
        vectors,
        k=len(kept),
        starts=starts,
        cells=place[vectors.cells[inside]],
        changes=vectors.changes[inside],
    )
