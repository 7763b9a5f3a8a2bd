"""From measured numbers, exact or noisy, to the aggregates of a query: AVG from its sums, and so on (S2).

Takes a plan and numbers; gives numbers. Never touches data and never draws noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from sqlglot import exp

from dosimeter.planning import QueryPlan


def estimate_group(plan: QueryPlan, measured: Sequence[Fraction], *, clamp: bool = False) -> list[int | float]:
    """Return the aggregates of one group, in the plan's order, from its measured numbers.

    ``clamp``: put them back into their bounds.
    """
    return [each.value([measured[at] for at in each.measures], clamp=clamp) for each in plan.estimates]


def find_counts(plan: QueryPlan) -> tuple[str, ...]:
    """Return the names of the answer's columns that are counts: there a number below 0 is due to noise."""
    found: dict[str, None] = {}
    for block in plan.answered:
        for output in block.outputs:
            formula = output.formula
            is_estimate = isinstance(formula, exp.Column) and formula.name.startswith("e")
            if is_estimate and formula is not None and block.estimates[int(formula.name[1:])].is_count:
                found[output.name] = None
    return tuple(found)
