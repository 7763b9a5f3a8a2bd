"""The grid of a measure's noise, and sensitivities in whole steps of it (M1). Public facts only."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

OFF_GRID_STEPS = 2**20  # M1: what is on no grid is put on one of Δ / 2²⁰
FINEST_STEPS = 2**40  # a Δ of more steps than this gains nothing, and leaves too few bits for its noise
LARGEST_TOTAL = 2**60  # what OpenDP's 64-bit integers hold, with bits to spare for noise
UNDECLARED_PEOPLE = 2**30  # assumed where no number of individuals is declared


@dataclass(frozen=True, slots=True)
class SensitivityFacts:
    """The public facts behind sensitivities.

    ``rows``: m, the most rows of one individual. ``individuals``: how many there are, None if undeclared. ``groups``:
    how many groups an answer has.
    """

    rows: int
    individuals: int | None
    groups: int = 1


def noise_grid(unit: Fraction, largest: int, facts: SensitivityFacts) -> Fraction:
    """Return the step of the noise: ``unit``, which is the step of the exact total, or a power-of-two multiple of it.

    The grid is coarser than ``unit`` where the total of all people, or the noise of a small ε, could exceed 64 bits.
    ``largest``: by how many steps of ``unit`` one individual can move the total.
    """
    people = facts.individuals or UNDECLARED_PEOPLE
    grid = unit
    while largest * people * (unit / grid) >= LARGEST_TOTAL or largest * (unit / grid) >= FINEST_STEPS:
        grid *= 2
    return grid


def on_grid(delta: Fraction, grid: Fraction) -> float:
    """Return Δ rounded up to whole steps of the noise grid.

    Two totals that differ by at most Δ can differ by this much once both are rounded to the grid.
    """
    return float(math.ceil(delta / grid) * grid)
