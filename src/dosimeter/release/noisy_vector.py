"""Turn a QueryPlan, an exact vector and the chosen ε into a noisy vector (M1–M3, S5, G0–G3).

Every measure gets its own share of the budget and its own integer noise on its own grid. Nothing here decides
whether to release, and nothing here is stored.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from dosimeter.errors import OptionError
from dosimeter.measures import Measure
from dosimeter.mechanisms import Mechanism
from dosimeter.planning import QueryPlan
from dosimeter.problems import for_controller, leave_out
from dosimeter.release.noise import Calibrated, add_noise, calibrate, has_room
from dosimeter.schema import Scalar

GroupKey = tuple[Scalar, ...]
Numbers = tuple[Sequence[GroupKey], Sequence[Sequence[Fraction]]]  # of one block: its groups, their measured numbers

_HALF_ULP = Fraction(1, 2**53)  # how far, relatively, the nearest float can lie from a number
_EXACT_INTEGERS = 2**53


@dataclass(frozen=True, slots=True)
class NoisyVector:
    """The mechanism's output: one number per group and measure, in real units, on each measure's grid."""

    keys: tuple[GroupKey, ...]
    values: tuple[tuple[Fraction, ...], ...]


def calibrate_plan(plan: QueryPlan, mechanism: Mechanism, epsilon: Decimal) -> tuple[Calibrated, ...]:
    """Return the certified noise of every measure. Public: depends on SQL, schema and ε alone."""
    if plan.hand_sensitivity is not None:
        raise OptionError(
            "A sensitivity given by hand is for study and never backs a release.", leave_out("sensitivity")
        )
    shares = len(plan.all_measures)
    noise = tuple(
        calibrate(mechanism, sensitivity=_steps(block, measure, mechanism), epsilon=epsilon, shares=shares)
        for block in plan.blocks
        for measure in block.measures
    )
    for measure, calibrated in zip(plan.all_measures, noise, strict=True):
        # Decided here, from public facts: a total found too large later would reveal something about the data.
        if not has_room(calibrated, measure.largest_total(plan.schema.individuals)):
            raise OptionError(
                f"{measure.label} at ε = {epsilon:f} can leave exact 64-bit numbers.",
                for_controller("Use a larger ε, a coarser resolution or narrower bounds."),
            )
    return noise


def _steps(plan: QueryPlan, measure: Measure, mechanism: Mechanism) -> int:
    """Return how far one individual moves the measure, in whole steps of the noise grid, rounded up: never less noise.

    A Δ that is the float nearest a whole number of steps stands for that number, so that a grid of 0.01 costs no
    extra step.
    """
    steps = Fraction(measure.sensitivity(mechanism.norm)) / measure.grid
    nearest = round(steps)
    if abs(steps - nearest) > nearest * _HALF_ULP or nearest >= _EXACT_INTEGERS:
        nearest = math.ceil(steps * (1 + 2 * _HALF_ULP))  # whatever number the float stands for
    return nearest + _rounding(plan, measure, mechanism)


def _rounding(plan: QueryPlan, measure: Measure, mechanism: Mechanism) -> int:
    """Return what rounding measured values to the grid can add to Δ, in steps (M1).

    In one cell nothing: numbers at most m whole steps apart stay so. An individual who moves c cells can move each by
    up to a step more: Σ⌈|x_j|⌉ ≤ ⌈Σ|x_j|⌉ + c − 1, and ‖x‖₂ grows by at most √c.
    """
    keys = plan.group_keys
    cells = min(plan.schema.max_rows_per_unit, plan.schema.max_rows_per_unit if keys is None else len(keys))
    if cells <= 1 or measure.is_on_grid:
        return 0
    return cells - 1 if mechanism.norm == 1 else math.isqrt(cells - 1) + 1  # ⌈√c⌉


def add_noise_to(
    plan: QueryPlan, keys: Sequence[GroupKey], values: Sequence[Sequence[Fraction]], noise: Sequence[Calibrated]
) -> NoisyVector:
    """Round each measure to its grid, add its noise, and return it in real units.

    A total is first cut to what the declared number of individuals can reach, so that no table, however many people
    it holds, exceeds the range that the noise was checked for (N4). Cutting brings no two numbers further apart: Δ
    stays.
    """
    columns: list[list[Fraction]] = []
    for at, measure in enumerate(plan.measures):
        most = measure.largest_total(plan.schema.individuals)
        totals = [max(-most, min(most, math.floor(row[at] / measure.grid + Fraction(1, 2)))) for row in values]
        columns.append([number * measure.grid for number in add_noise(totals, noise[at])])
    rows = tuple(tuple(column[at] for column in columns) for at in range(len(keys)))
    return NoisyVector(tuple(keys), rows)
