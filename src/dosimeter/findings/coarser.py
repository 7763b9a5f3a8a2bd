"""Find a query with fewer groups and a smaller share of numbers that are lost in noise. Private.

The numbers of such queries are added up from the exact numbers of the query that was asked.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from dosimeter.findings.on_answer import CoarserQuery
from dosimeter.measures import Count, CountRows, Sum
from dosimeter.postprocess import assemble_groups, needs_values

if TYPE_CHECKING:
    from dosimeter.arrays import FloatArray
    from dosimeter.influence import Measured
    from dosimeter.planning import QueryPlan
    from dosimeter.risk import AnswerAccuracy


def find_coarser(plan: QueryPlan, measured: Measured, accuracy: AnswerAccuracy) -> CoarserQuery | None:
    """Return the query without some of its GROUP BY columns, if then a smaller share of its numbers drowns in noise.

    A number drowns if it is at most as large as its error; numbers that are 0 are not counted. As few columns as
    possible are left out to bring the share of drowned numbers below one half. If that cannot be reached, those columns
    are left out with which the share is smallest. None if the share cannot be lowered, or if the numbers of coarser
    groups would not be sums of the measured numbers with the same noise. COUNT and SUM over declared groups are such
    sums: leaving out a group column does not change their sensitivity (S1).
    """
    if not _adds_up(plan) or not accuracy.numbers:
        return None
    shape = [len(group.values or ()) for group in plan.groups]
    columns = _list_numbers(plan, measured)
    errors = [error for error, _ in accuracy.errors]
    axes = range(len(shape))
    best = CoarserQuery((), accuracy.numbers, accuracy.drowned)
    for dropped in (each for size in axes for each in combinations(axes, size + 1)):
        totals = [np.abs(column.reshape(shape).sum(axis=dropped)).reshape(-1) for column in columns]
        pairs = [(sizes[sizes > 0.0], error) for sizes, error in zip(totals, errors, strict=True)]
        numbers = sum(len(sizes) for sizes, _ in pairs)
        drowned = sum(int((sizes <= error).sum()) for sizes, error in pairs if error is not None)
        if not numbers or drowned * best.numbers >= best.drowned * numbers:
            continue
        if len(dropped) > len(best.dropped) and best.dropped and 2 * best.drowned < best.numbers:
            break  # fewer groups left out, and worth something
        best = CoarserQuery(tuple(plan.groups[at].name for at in dropped), numbers, drowned)
    return best if best.dropped else None


def _adds_up(plan: QueryPlan) -> bool:
    """Return whether leaving out a group column would give sums of the measured numbers, with the same noise."""
    if not plan.groups or plan.sets or plan.is_united or plan.group_keys is None or plan.threshold is not None:
        return False
    sums = all(isinstance(measure, (Count, CountRows, Sum)) for measure in plan.measures)
    return sums and not needs_values(plan) and plan.hand_sensitivity is None


def _list_numbers(plan: QueryPlan, measured: Measured) -> list[FloatArray]:
    """Return the exact numbers of each aggregate column, an array with one number per group; NaN for NULL."""
    rows = assemble_groups(plan, measured.keys, measured.values)
    found = [[row.get(name) for row in rows] for name in plan.aggregate_names]
    return [np.array([float(cell) if isinstance(cell, int | float) else np.nan for cell in column]) for column in found]
