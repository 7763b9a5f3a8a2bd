"""How far off the numbers of one query are, cell by cell, beside the exact numbers. Private to the controller."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from dosimeter.measures import Count, CountRows, Sum
from dosimeter.postprocess import assemble_cells, error_95, needs_values
from dosimeter.risk import Accuracy, Coarser

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    from dosimeter.arrays import FloatArray
    from dosimeter.influence import Measured
    from dosimeter.mechanisms import Mechanism
    from dosimeter.planning import QueryPlan

MOST_CELLS = 32
"""Up to so many groups the error of a quotient is found for each; of more, the largest stands for all."""


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class ExactNumbers:
    """The exact numbers of an answer before noise: per column, one per group; NaN where there is none. Private."""

    plan: QueryPlan
    mechanism: Mechanism
    values: Sequence[Sequence[Fraction]]
    columns: tuple[FloatArray, ...]

    @classmethod
    def of(cls, plan: QueryPlan, mechanism: Mechanism, measured: Measured) -> ExactNumbers:
        rows = assemble_cells(plan, measured.keys, measured.values)
        names = [output.name for output in plan.outputs if output.is_aggregate]
        found = [[row.get(name) for row in rows] for name in names]
        columns = [
            np.array([float(cell) if isinstance(cell, int | float) else np.nan for cell in column]) for column in found
        ]
        return cls(plan, mechanism, measured.values, tuple(columns))

    @classmethod
    def unknown(cls, plan: QueryPlan, mechanism: Mechanism) -> ExactNumbers:
        """Return those of a study, whose numbers are not measured as a plan's are: none."""
        outputs = [output for output in plan.outputs if output.is_aggregate]
        return cls(plan, mechanism, (), tuple(np.zeros(0) for _ in outputs))

    def judge(self, scale: float, largest: tuple[float | None, ...]) -> Accuracy:
        """Return how far off the numbers are with noise of this scale; ``largest``: the largest error per column."""
        errors = self._spread_errors(scale, largest)
        counted = drowned = without = 0
        relative: float | None = None
        for numbers, own in zip(self.columns, errors, strict=True):
            known = np.isfinite(own) & np.isfinite(numbers)
            without += int((~known).sum())
            sizes, off = np.abs(numbers[known & (numbers != 0.0)]), own[known & (numbers != 0.0)]
            if not len(sizes):
                continue
            counted, drowned = counted + len(sizes), drowned + int((sizes <= off).sum())
            relative = max(relative or 0.0, float((off / sizes).max()))
        return Accuracy(largest, relative, counted, drowned, without)

    def _spread_errors(self, scale: float, largest: tuple[float | None, ...]) -> list[FloatArray]:
        """Return the error of every number: per column, one per group; NaN where there is none."""
        cells = len(self.values)
        if cells <= MOST_CELLS and needs_values(self.plan):
            each = [error_95(self.plan, self.mechanism, scale, [row]) for row in self.values]
            return [
                np.array([np.nan if row[at] is None else row[at] for row in each], dtype=np.float64)
                for at in range(len(largest))
            ]
        return [np.full(cells, np.nan if error is None else error) for error in largest]

    def find_coarser(self, accuracy: Accuracy) -> Coarser | None:
        """Return the question without some of its groups that drowns a smaller share of its numbers, if there is one.

        The one that leaves out the fewest groups and is worth something, otherwise the best of all.

        Only where the numbers of the coarser question are sums of those at hand, and get the same noise: COUNT and SUM
        move by as much without the group as with it (S1).
        """
        plan = self.plan
        sums = all(isinstance(measure, (Count, CountRows, Sum)) for measure in plan.measures)
        keys = plan.group_keys
        if not sums or not plan.groups or plan.sets or keys is None or needs_values(plan) or not accuracy.numbers:
            return None
        if plan.hand_sensitivity is not None or len(accuracy.errors) != len(self.columns):
            return None
        shape = [len(group.values or ()) for group in plan.groups]
        axes = range(len(shape))
        best = Coarser((), accuracy.numbers, accuracy.drowned)
        for dropped in (each for size in axes for each in combinations(axes, size + 1)):
            totals = [np.abs(column.reshape(shape).sum(axis=dropped)).reshape(-1) for column in self.columns]
            pairs = [(sizes[sizes > 0.0], error) for sizes, error in zip(totals, accuracy.errors, strict=True)]
            numbers = sum(len(sizes) for sizes, _ in pairs)
            drowned = sum(int((sizes <= error).sum()) for sizes, error in pairs if error is not None)
            if not numbers or drowned * best.numbers >= best.drowned * numbers:
                continue
            if len(dropped) > len(best.dropped) and best.dropped and 2 * best.drowned < best.numbers:
                break  # fewer groups left out, and worth something
            best = Coarser(tuple(plan.groups[at].name for at in dropped), numbers, drowned)
        return best if best.dropped else None

    def __repr__(self) -> str:
        return "ExactNumbers(redacted)"
