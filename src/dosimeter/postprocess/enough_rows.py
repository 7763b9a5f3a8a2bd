"""From how many rows per group on CORR, REGR_SLOPE and the like could be told: from the schema and scales alone (E1).

They divide by variances, whose noise is that of squares, so that they need far more rows than an average. Public.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from dosimeter.planning import QueryPlan
from dosimeter.postprocess.cell_errors import CellErrors, Noise
from dosimeter.postprocess.released_rows import ReleasedRow

_TRIED = sorted(digits * 10**zeros for zeros in range(9) for digits in range(10, 100))  # two digits are enough to say


def find_enough_rows(plan: QueryPlan, noise: Noise, at: int) -> int | None:
    """Return from about how many rows on a group can be told, if its values are spread evenly over their bounds.

    ``plan``: one block. ``noise``: of this block. ``at``: the index of an aggregate. None if it divides by no variance,
    or if ten thousand million rows would not be enough.
    """
    estimate = plan.estimates[at]
    if estimate.spread_evenly(1.0) is None:
        return None
    released = []
    for rows in _TRIED:
        numbers = dict(zip(estimate.measures, estimate.spread_evenly(float(rows)) or (), strict=True))
        measured = [Fraction(numbers.get(each, 0.0)) for each in range(len(plan.measures))]
        released.append(ReleasedRow((None,) * len(plan.groups), measured))
    enough = CellErrors(plan, noise, released).has_enough(at)
    first = len(_TRIED) - int(np.argmin(enough[::-1])) if not enough.all() else 0
    return _TRIED[first] if first < len(_TRIED) else None


def name_rows(plan: QueryPlan) -> str:
    """Return what the rows of a group are called: as the people, if everybody has one row at most."""
    return plan.words.people if plan.schema.max_rows_per_unit == 1 else plan.words.rows


def word_enough_rows(label: str, rows: int, counted: str) -> str:
    """Say from how many rows on an aggregate can be told. ``counted``: people or rows."""
    return (
        f"{label} needs about {rows:,} {counted} in a group to be told at this ε, if their values are spread evenly "
        "over the bounds. Where values lie close together within wide bounds, it needs far more."
    )
