"""From measured numbers, exact or noisy, to the aggregates of a query: AVG from its sums, and so on (S2).

Takes a plan and numbers; gives numbers. Never touches data and never draws noise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dosimeter.planning import QueryPlan

if TYPE_CHECKING:
    from dosimeter.arrays import FloatArray


def estimate_group(plan: QueryPlan, measured: Sequence[Fraction], *, clamp: bool = False) -> list[int | float]:
    """Return the aggregates of one group, as the analyst wrote them, from its measured numbers."""
    return [each.value([measured[at] for at in each.measures], clamp=clamp) for each in plan.estimates]


def estimate_arrays(plan: QueryPlan, used: Sequence[int], measured: Mapping[int, FloatArray]) -> dict[str, FloatArray]:
    """Return these aggregates over arrays of measured numbers, by the names e0, e1 …."""
    with np.errstate(all="ignore"):
        return {
            f"e{at}": plan.estimates[at].on_arrays([measured[number] for number in plan.estimates[at].measures])
            for at in used
        }
