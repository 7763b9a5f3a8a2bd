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


def name_measure(block: QueryPlan, at: int) -> tuple[str, tuple[str, ...]]:
    """Return what to call a measured number of a block: the answer's column that it is, or else its own label.

    With a label, also return the columns that are computed from the number. ``at``: the index of the measure.
    """
    made: dict[str, None] = {}
    for output in block.outputs:
        formula = output.formula
        read = [] if formula is None else [node.name for node in formula.find_all(exp.Column)]
        estimates = [block.estimates[int(name[1:])] for name in read if name.startswith("e")]
        if isinstance(formula, exp.Column) and estimates and estimates[0].alone == at:
            return output.name, ()
        if any(at in each.measures for each in estimates):
            made[output.name] = None
    return block.measures[at].label, tuple(made)


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
