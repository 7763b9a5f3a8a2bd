"""What a preference may use: columns and functions over people, plain terms, functions of numbers; a table row each.

A new one is a new row, by the name it is called by in SQL. The row holds everything that reading, notes and checks need
to know of it, so that nothing has to be guessed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dosimeter.risk.rdr import weighted_quantile

if TYPE_CHECKING:
    from dosimeter.arrays import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class Column:
    """One number of everybody, which an aggregate may be over.

    ``follows_rdr``: whether it is multiplied and shifted as RDRs are. ``words``: what it is.
    """

    follows_rdr: bool
    words: str


COLUMNS: Mapping[str, Column] = {
    "rdr": Column(True, "the relative disclosure risk indicator"),
    "normalized_rdr": Column(False, "the RDR, divided by the largest that anybody could have"),
    "own_epsilon": Column(False, "the ε that the answer guarantees this person"),
    "advantage": Column(False, "how much better than a coin one can tell whether this person is in"),
}

TERMS: Mapping[str, str] = {
    "error": "the largest 95 % error of a number of the answer",
    "relative_error": "the largest 95 % error of a number, divided by that number; of those that are not 0",
}
"""Plain numbers about the answer: what each is. How many numbers of the answer have none is shown beside it."""


@dataclass(frozen=True, slots=True)
class Function:
    """One function over RDRs.

    ``evaluate``: its value, from distinct RDRs, how many people have each, and the fraction of a quantile.
    ``degree``: d, when multiplying every RDR by t > 0 multiplies it by t**d (R10).
    ``shift``: s, when adding t to every RDR adds s·t to it; None when there is no such s (R8).
    ``of_nobody``: its value over no people; None is SQL's NULL.
    ``fraction``: the fraction of a quantile, where the function fixes it; ``takes_fraction``: whether it is given.
    ``takes_star``: whether it may be asked of * instead of an RDR.
    """

    evaluate: Callable[[FloatArray, IntArray, float], float]
    degree: int
    shift: float | None
    of_nobody: float | None = None
    fraction: float | None = None
    takes_fraction: bool = False
    takes_star: bool = False

    @property
    def is_spread(self) -> bool:
        """Return whether the function tells how far RDRs lie apart, and not where they lie."""
        return self.degree > 0 and self.shift == 0.0


def _weighted_variance(values: FloatArray, counts: IntArray) -> float:
    """Return the variance, in two passes; the second term takes away what rounding left in the mean."""
    n = counts.sum()
    deviations = values - np.sum(values * counts) / n
    return max(0.0, float(np.sum(counts * deviations**2) / n - (np.sum(counts * deviations) / n) ** 2))


FUNCTIONS: Mapping[str, Function] = {
    "MIN": Function(lambda values, _, __: float(values.min()), degree=1, shift=1.0),
    "MAX": Function(lambda values, _, __: float(values.max()), degree=1, shift=1.0),
    "AVG": Function(lambda values, counts, _: float(np.sum(values * counts) / counts.sum()), degree=1, shift=1.0),
    "SUM": Function(lambda values, counts, _: float(np.sum(values * counts)), degree=1, shift=None),
    "COUNT": Function(lambda _, counts, __: float(counts.sum()), degree=0, shift=0.0, of_nobody=0.0, takes_star=True),
    "VAR_POP": Function(lambda values, counts, _: _weighted_variance(values, counts), degree=2, shift=0.0),
    "STDDEV_POP": Function(
        lambda values, counts, _: math.sqrt(_weighted_variance(values, counts)), degree=1, shift=0.0
    ),
    "MEDIAN": Function(weighted_quantile, degree=1, shift=1.0, fraction=0.5),
    "QUANTILE_CONT": Function(weighted_quantile, degree=1, shift=1.0, takes_fraction=True),
}


@dataclass(frozen=True, slots=True)
class NumberFunction:
    """One function of numbers, of which NULL is left out.

    ``single``: whether it takes one number. ``shifts``: whether adding t to every number adds t to it (R8).
    """

    evaluate: Callable[[list[float]], float]
    single: bool = False
    shifts: bool = True


NUMBER_FUNCTIONS: Mapping[str, NumberFunction] = {
    "ABS": NumberFunction(lambda numbers: abs(numbers[0]), single=True, shifts=False),
    "LEAST": NumberFunction(min),
    "GREATEST": NumberFunction(max),
}
