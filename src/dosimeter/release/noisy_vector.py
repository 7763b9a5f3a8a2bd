"""Turn a QueryPlan, the exact numbers and the chosen ε into noisy numbers (M1–M5, S5, G0–G3).

Every measure gets its own share of the budget. A Rank is drawn by a selection among its candidates, any other measure
by integer noise on its own grid. Nothing here decides whether to release, and nothing here is stored.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from dosimeter.errors import OptionError
from dosimeter.measures import GroupColumn, Measure, Rank
from dosimeter.mechanisms import Mechanism
from dosimeter.planning import QueryPlan
from dosimeter.problems import for_controller, leave_out
from dosimeter.release.noise import (
    Calibrated,
    CalibratedSelection,
    add_noise,
    calibrate,
    calibrate_selection,
    fits_int64,
    select_lowest,
)
from dosimeter.schema import Scalar

GroupKey = tuple[Scalar, ...]
RankColumns = Mapping[int, Sequence[GroupColumn | None]]
Numbers = tuple[Sequence[GroupKey], Sequence[Sequence[Fraction]]]  # of one block: its groups, their measured numbers

_HALF_ULP = Fraction(1, 2**53)  # how far, relatively, the nearest float can lie from a number
_EXACT_INTEGERS = 2**53


@dataclass(frozen=True, slots=True)
class NoisyVector:
    """The mechanism's output: for each group, a number per measure, in the data's units and on the measure's grid."""

    keys: tuple[GroupKey, ...]
    values: tuple[tuple[Fraction, ...], ...]


def calibrate_plan(
    plan: QueryPlan, mechanism: Mechanism, epsilon: Decimal
) -> tuple[Calibrated | CalibratedSelection, ...]:
    """Return how each measure is drawn, by noise or by rank, as OpenDP certifies it. Public: never reads the data.

    Raises OptionError for a sensitivity given by hand, for a measure that this mechanism cannot draw, and for noise
    that is too large for 64-bit integers.
    """
    if plan.hand_sensitivity is not None:
        raise OptionError(
            "A sensitivity given by hand is for study and never backs a release.", leave_out("sensitivity")
        )
    return tuple(
        _calibrate_rank(block, measure, mechanism, epsilon)
        if isinstance(measure, Rank)
        else _calibrate_noise(block, measure, mechanism, epsilon)
        for block in plan.blocks
        for measure in block.measures
    )


def _calibrate_noise(plan: QueryPlan, measure: Measure, mechanism: Mechanism, epsilon: Decimal) -> Calibrated:
    calibrated = calibrate(
        mechanism, sensitivity=_steps(plan, measure, mechanism), epsilon=epsilon, shares=plan.own_shares
    )
    # Decided here, from public facts: a total found too large later would reveal something about the data.
    if not fits_int64(calibrated, measure.largest_value(plan.schema.individuals)):
        raise OptionError(
            f"{measure.label} at ε = {epsilon:f} can leave exact 64-bit numbers.",
            for_controller("Use a larger ε, a coarser resolution or narrower bounds."),
        )
    return calibrated


def _calibrate_rank(plan: QueryPlan, measure: Rank, mechanism: Mechanism, epsilon: Decimal) -> CalibratedSelection:
    if not mechanism.pure:
        raise OptionError(f"{measure.label} is drawn by rank, which spends a pure ε and no δ.")
    return calibrate_selection(shift=measure.shift, rows=measure.rows, epsilon=epsilon, shares=plan.shares)


def _steps(plan: QueryPlan, measure: Measure, mechanism: Mechanism) -> int:
    """Return how far one individual moves the measure, in whole grid steps, rounded up: noise is never too small.

    Δ is a float. If it differs from a whole number of steps only by a float's rounding, as with steps of 0.01, it
    counts as this number and is not rounded up to the next.
    """
    steps = Fraction(measure.sensitivity(mechanism.norm)) / measure.grid
    nearest = round(steps)
    if abs(steps - nearest) > nearest * _HALF_ULP or nearest >= _EXACT_INTEGERS:
        nearest = math.ceil(steps * (1 + 2 * _HALF_ULP))  # whatever number the float stands for
    return nearest + _rounding(plan, measure, mechanism)


def _rounding(plan: QueryPlan, measure: Measure, mechanism: Mechanism) -> int:
    """Return how much rounding measured values to the grid can add to Δ, in grid steps (M1).

    For an individual who moves one cell it adds nothing: two numbers that lie at most m whole steps apart still do
    after rounding. An individual who moves c cells, cell j by x_j steps, can move each by up to one step more after
    rounding. Then Σ⌈|x_j|⌉ is at most ⌈Σ|x_j|⌉ + c − 1, and ‖x‖₂ grows by at most √c.
    """
    keys = plan.group_keys
    cells = min(plan.schema.max_rows_per_unit, plan.schema.max_rows_per_unit if keys is None else len(keys))
    if cells <= 1 or measure.is_on_grid:
        return 0
    return cells - 1 if mechanism.norm == 1 else math.isqrt(cells - 1) + 1  # ⌈√c⌉


def add_noise_to(
    plan: QueryPlan,
    keys: Sequence[GroupKey],
    values: Sequence[Sequence[Fraction]],
    noise: Sequence[Calibrated | CalibratedSelection],
    columns: RankColumns | None = None,
) -> NoisyVector:
    """Draw every measure, by noise or by rank, and return the noisy numbers in the data's units.

    ``keys`` and ``values``: the groups and their exact numbers, one per measure. ``noise``: how each measure is drawn.
    ``columns``: for each measure that is drawn by rank, the counts of its values in each group.
    """
    drawn = [
        _draw_rank(plan.ranks[at], (columns or {}).get(at, ()), calibrated)
        if isinstance(calibrated, CalibratedSelection)
        else _draw_noise(plan, at, values, calibrated)
        for at, calibrated in enumerate(noise[: len(plan.measures)])
    ]
    rows = tuple(tuple(column[at] for column in drawn) for at in range(len(keys)))
    return NoisyVector(tuple(keys), rows)


def _draw_noise(
    plan: QueryPlan, at: int, values: Sequence[Sequence[Fraction]], calibrated: Calibrated
) -> list[Fraction]:
    """Return the numbers of the measure with index ``at``, one per group, rounded to its grid and with noise added.

    A total is first cut to what the declared number of individuals can reach, so that no table, however many people it
    holds, exceeds the range that the noise was checked for (N4).
    """
    measure = plan.measures[at]
    totals = [measure.round_to_grid(row[at], plan.schema.individuals) for row in values]
    return [number * measure.grid for number in add_noise(totals, calibrated)]


def _draw_rank(rank: Rank, columns: Sequence[GroupColumn | None], calibrated: CalibratedSelection) -> list[Fraction]:
    """Return a number per group of a measure that is drawn by rank among its candidates (M4, M5).

    ``columns``: for each group, how often each value occurs.
    """
    scores = [rank.scores(rank.count(column), calibrated.share).tolist() for column in columns]
    return [int(rank.candidates[place]) * rank.unit for place in select_lowest(scores, calibrated)]
