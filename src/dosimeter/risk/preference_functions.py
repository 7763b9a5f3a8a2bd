"""What a preference may use: columns and functions over people, numbers of the answer, functions of numbers.

Each is a row of a table, under its name in SQL. The row holds all that parsing, notes and checks need to know about it.
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
class PersonColumn:
    """A column with one number per individual, which an aggregate of a preference can be over.

    ``follows_rdr``: whether multiplying or shifting all RDRs does the same to this column. ``words``: what the column
    is, in words.
    """

    follows_rdr: bool
    words: str


COLUMNS: Mapping[str, PersonColumn] = {
    "rdr": PersonColumn(True, "the relative disclosure risk indicator"),
    "normalized_rdr": PersonColumn(False, "the RDR, divided by the largest that anybody could have"),
    "own_epsilon": PersonColumn(False, "the ε that the answer guarantees this person"),
    "advantage": PersonColumn(False, "how much better than a coin one can tell whether this person is in"),
}


@dataclass(frozen=True, slots=True)
class AnswerTerm:
    """A single number about the whole answer, which a preference can compare.

    ``words``: what it is, in words. ``takes``: what it takes in parentheses, as in guess(b), a probability strictly
    between 0 and 1; "" for one that takes nothing. ``example``: a comparison, for messages. ``is_error``: whether it
    tells how good the answer is, and not what it tells of people.
    """

    words: str
    example: str
    takes: str = ""
    is_error: bool = False


TERMS: Mapping[str, AnswerTerm] = {
    "error": AnswerTerm("the largest 95 % error of a number of the answer", "error <= 10", is_error=True),
    "relative_error": AnswerTerm(
        "the largest 95 % error of a number, divided by that number; of those that are not 0",
        "relative_error <= 0.5",
        is_error=True,
    ),
    "guess": AnswerTerm(
        "how probably somebody who knows everybody else guesses a fact about a person, which they would guess with "
        "the probability b beforehand",
        "guess(0.1) <= 0.2",
        takes="b",
    ),
    "posterior": AnswerTerm(
        "what a suspicion of p that a person is in can become, for somebody who knows everybody else",
        "posterior(0.01) <= 0.05",
        takes="p",
    ),
}


@dataclass(frozen=True, slots=True)
class Function:
    """An aggregate function over people's RDRs.

    ``evaluate``: computes its value from distinct RDRs, how many people have each, and the fraction of a quantile.
    ``degree``: d, if multiplying every RDR by t > 0 multiplies the value by t**d (R10). ``shift``: s, if adding t to
    every RDR adds s·t to the value; None if there is no such s (R8). ``of_nobody``: the value over no people; None is
    SQL's NULL. ``fraction``: the fraction of a quantile, if the function itself fixes it. ``takes_fraction``: whether
    the fraction is an argument. ``takes_star``: whether * is allowed in place of a column.
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
    """Return the population variance of the values over people. ``counts``: how many people have each value.

    It is the mean squared deviation from the mean, less the square of the mean deviation. This square is 0 but for
    rounding; subtracting it removes the effect of a mean that was rounded.
    """
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
    """A function of plain numbers; NULLs among its arguments are skipped.

    ``single``: whether it takes exactly one number. ``shifts``: whether adding t to every argument adds t to its value
    (R8).
    """

    evaluate: Callable[[list[float]], float]
    single: bool = False
    shifts: bool = True


NUMBER_FUNCTIONS: Mapping[str, NumberFunction] = {
    "ABS": NumberFunction(lambda numbers: abs(numbers[0]), single=True, shifts=False),
    "LEAST": NumberFunction(min),
    "GREATEST": NumberFunction(max),
}
