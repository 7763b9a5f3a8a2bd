"""The plain answer: the query's numbers with nothing cut, clamped or left out (E4). Private."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np
from sqlglot import exp

from dosimeter.arrays import FloatArray
from dosimeter.html import Private
from dosimeter.mechanisms import Mechanism
from dosimeter.planning import QueryPlan
from dosimeter.postprocess.cell_errors import MOST_DERIVED, CellErrors, Noise
from dosimeter.postprocess.released_rows import Keys, Numbers, ReleasedRow, list_released_rows
from dosimeter.schema import Scalar

_Place = tuple[tuple[Scalar, ...], frozenset[int]]


class PlainAnswer(Private):
    """The numbers of the plan that leaves nothing out, by group."""

    def __init__(self, plan: QueryPlan, numbers: Sequence[tuple[Keys, Numbers]]) -> None:
        """Hold the numbers of each block. ``plan``: the one that leaves nothing out; ``numbers``: keys and values."""
        self._blocks = plan.blocks
        self._rows: list[Mapping[_Place, Sequence[Fraction]]] = [
            {(row.key, row.left_out): row.measured for row in list_released_rows(block, keys, values)}
            for block, (keys, values) in zip(self._blocks, numbers, strict=True)
        ]

    def read_column(
        self, at: int, output: int, released: Sequence[ReleasedRow], mechanism: Mechanism, *, clamp: bool
    ) -> FloatArray:
        """Return a column's plain numbers for the released rows of block ``at``; NaN where there is no such number.

        ``output``: the column's index. A group without rows has the numbers of an empty group. A derived column reads
        undeclared groups, too.
        """
        block, known = self._blocks[at], self._rows[at]
        formula = block.outputs[output].formula or block.outputs[output].derived
        if formula is None:
            return np.full(len(released), np.nan)
        empty = [measure.empty for measure in block.measures]
        rows = [
            ReleasedRow(row.key, known.get((row.key, row.left_out), empty), row.terms, row.left_out) for row in released
        ]
        if formula.find(exp.Window) is not None:
            own = {row.key for row in released}
            rows += [ReleasedRow(key, measured) for (key, _), measured in known.items() if key not in own]
            if len(rows) > MOST_DERIVED:
                return np.full(len(released), np.nan)
        noise = Noise.of(block, mechanism, 1.0)
        return CellErrors(block, noise, rows, clamp=clamp).read_column(formula)[0][: len(released)]

    def is_empty(self, at: int, measure: int, released: Sequence[ReleasedRow]) -> list[bool]:
        """Return, for each released row of block ``at``, whether a measure has the number of a group without values."""
        empty = self._blocks[at].measures[measure].empty
        return [
            self._rows[at].get((row.key, row.left_out), (empty,) * (measure + 1))[measure] == empty for row in released
        ]
