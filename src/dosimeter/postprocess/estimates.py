"""From measured numbers, exact or noisy, to the aggregates of a query: AVG from its sums, and so on (S2).

Takes a plan and numbers; gives numbers. Never touches data and never draws noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from dosimeter.planning import QueryPlan


def estimate_group(plan: QueryPlan, measured: Sequence[Fraction], *, clamp: bool = False) -> list[int | float]:
    """Return the aggregates of one group, as the analyst wrote them, from its measured numbers."""
    return [each.value([measured[at] for at in each.measures], clamp=clamp) for each in plan.estimates]
