"""Two worlds: what may be released with the most exposed person and without, from a Risk. Private."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from dosimeter.influence import ExposedSearch, MovedNumber, find_moved
from dosimeter.measures import Rank
from dosimeter.planning import find_chances, find_even_chance
from dosimeter.postprocess import measure_scales, name_measure
from dosimeter.risk import TwoWorlds, spread_draws, spread_noise

if TYPE_CHECKING:
    from dosimeter.assessment.risk import Risk

_FINE = 2**20
"""Steps per noise scale for a number that lies on no grid, which is for study alone (S7)."""


def find_moved_number(risk: Risk) -> MovedNumber | None:
    """Return the number that the most exposed person moves most, relative to its noise; None if nobody moves any."""
    plan, norm = risk.plan, risk.mechanism.norm
    search = ExposedSearch(risk.contributions, risk.measured(), risk.tables.find_rows(plan), norm, 1, None, False)
    return find_moved(risk.profile, search, risk.sensitivity, plan.rank_share(risk.candidates[0]))


def compare_worlds(risk: Risk, epsilon: float) -> TwoWorlds | None:
    """Return the chance of each number that may be released at this ε, with the most exposed person and without.

    None if nobody moves any number.
    """
    moved = risk.moved_number
    if moved is None:
        return None
    plan, measure = risk.plan, moved.block.measures[moved.at]
    if isinstance(measure, Rank):
        assert moved.counts is not None, "a number drawn by rank comes with its counts"
        curves, shown = spread_draws(moved.counts, measure, plan.rank_share(epsilon)), None
        grid = measure.step * measure.unit
    else:
        scale = float(measure_scales(plan, risk.mechanism, risk.noise_scale(epsilon))[moved.place])
        grid = measure.grid or Fraction(scale) / _FINE
        shown, least, factors = _find_shown(risk, moved, epsilon), None, (1.0, 1.0)
        if shown is not None and plan.threshold is not None:
            factors = shown
            if moved.at == plan.threshold.people:  # which decides by itself whether it is shown
                least = find_even_chance(plan, risk.mechanism, risk.noise_scale(epsilon))
                factors = 1.0, float(shown[1] > 0.0)
        steps = _round(risk, moved, grid)
        curves = spread_noise(steps, risk.mechanism, scale, grid, shown=factors, least=least)
    number, made = name_measure(moved.block, moved.at)
    exact = float(moved.numbers[0]), float(moved.numbers[1])
    return TwoWorlds(epsilon, number, made, moved.group, exact, float(grid), curves, shown)


def _round(risk: Risk, moved: MovedNumber, grid: Fraction) -> tuple[int, int]:
    """Return the number with the person and without, in whole steps of ``grid``, as noise is added to them."""
    measure, people = moved.block.measures[moved.at], risk.plan.schema.individuals
    steps = [measure.round_to_grid(each, people) if measure.grid else round(each / grid) for each in moved.numbers]
    return steps[0], steps[1]


def _find_shown(risk: Risk, moved: MovedNumber, epsilon: float) -> tuple[float, float] | None:
    """Return the chance in each world that a thresholded group is shown; None for a declared one, which always is.

    It is shown if its noisy number of individuals is large enough, and never if nobody is in it (H1).
    """
    threshold, sizes = risk.plan.threshold, moved.sizes
    if threshold is None or sizes is None:
        return None
    here, there = find_chances(risk.plan, risk.mechanism, risk.noise_scale(epsilon), sizes)
    return here, there if sizes[1] else 0.0
