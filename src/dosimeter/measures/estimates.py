"""Estimates: the aggregates of a query, computed from measures. The arithmetic is the same with and without noise (N3).

A new kind of estimate is a class that implements the abstract methods of Estimate.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from dosimeter.arrays import FloatArray
from dosimeter.measures.argument import Argument


@dataclass(frozen=True, slots=True)
class Estimate(ABC):
    """One aggregate as the analyst wrote it, computed from measures.

    ``measures``: the indices of these measures in the plan. Methods take the numbers of these measures as ``inputs``,
    in real units and in the same order. ``label``: the aggregate as messages and answers name it. ``counted``: d if the
    estimate divides by N − d, where N is its first measure, a count (E1): 1 for the sample versions, such as VAR_SAMP,
    and 0 for other quotients. None if the estimate divides by no count.
    """

    counted: ClassVar[int | None] = None

    measures: tuple[int, ...]
    label: str

    @property
    def alone(self) -> int | None:
        """Return the index, in the plan, of the measure that the estimate equals; None if it is made from several."""
        return None

    @property
    def whole(self) -> bool:
        """Return whether the estimate is a whole number, such as a count."""
        return False

    @property
    def is_count(self) -> bool:
        """Return whether the estimate counts something, so that only noise can bring it below 0."""
        return False

    @property
    @abstractmethod
    def width(self) -> float | None:
        """Return the width of the range that the estimate is clamped to; None if it is open at one end or both."""

    @abstractmethod
    def value(self, inputs: Sequence[Fraction], *, clamp: bool) -> int | float:
        """Return the aggregate from the numbers of its measures. ``clamp``: put it into its range."""

    @abstractmethod
    def smooth(self, inputs: Sequence[FloatArray]) -> FloatArray:
        """Return the aggregate before its last step (clamping, or also a square root).

        ``inputs``: for each measure, an array of numbers. The result is a smooth function of these, and NaN where a
        divisor is not positive.
        """

    def divisors(self, inputs: Sequence[FloatArray]) -> tuple[FloatArray, ...]:
        """Return the variances by which, or by whose square roots, the estimate divides; by default there are none.

        CORR(x, y) has two, the variances of x and of y; REGR_SLOPE(y, x) has one, that of x. If the noise leaves open
        whether such a variance is positive, the estimate is NULL (E1).
        """
        return ()

    def spread_evenly(self, rows: float) -> tuple[float, ...] | None:
        """Return the numbers of the measures for so many rows whose values are spread evenly over their bounds.

        None unless the estimate divides by variances (``divisors``), for which alone they are needed.
        """
        return None

    def limits(self, *, clamp: bool) -> tuple[float, float]:
        """Return both ends of the range that the result of ``smooth`` is put back into; infinite by default.

        ``clamp``: whether released numbers are put back into their bounds. Some ends, such as the 0 of a variance, do
        not depend on it.
        """
        return -math.inf, math.inf

    def finish(self, smooth: FloatArray, *, clamp: bool) -> FloatArray:
        """Return the aggregate from the result of ``smooth``, put back into the range that ``limits`` gives."""
        return np.clip(smooth, *self.limits(clamp=clamp))

    def spread(self, smooth: FloatArray, error: FloatArray, *, clamp: bool) -> FloatArray:
        """Return how far the aggregate can be off where the result of ``smooth`` is off by at most ``error`` (E1).

        The exact number lies within ``limits``, so no error is larger than the distance to the farther end of that
        range.
        """
        low, high = self.limits(clamp=clamp)
        inside = np.clip(smooth, low, high)
        return np.minimum(error, np.maximum(inside - low, high - inside))


@dataclass(frozen=True, slots=True)
class SingleMeasure(Estimate):
    """An estimate that is one measure itself.

    ``integer``: whether its numbers are whole, as those of a count are. ``lower`` and ``upper``: the ends of its range,
    in real units; None where there is no end.
    """

    integer: bool = False
    lower: Fraction | None = None
    upper: Fraction | None = None

    @classmethod
    def within(cls, measure: int, label: str, argument: Argument) -> SingleMeasure:
        """Return the estimate of a number within the bounds of an argument. ``measure``: the index of its measure."""
        return cls((measure,), label, lower=argument.lower * argument.unit, upper=argument.upper * argument.unit)

    @property
    def alone(self) -> int:
        """Return the index of the one measure that this estimate is, among the plan's measures."""
        return self.measures[0]

    @property
    def whole(self) -> bool:
        """Return whether the measure's numbers are whole."""
        return self.integer

    @property
    def is_count(self) -> bool:
        """Return whether the measure is a count, such as COUNT(*): a whole number from 0 on."""
        return self.integer and self.lower == 0

    @property
    def width(self) -> float | None:
        """Return the distance between both ends of the range, in real units; None where an end is missing."""
        return None if self.lower is None or self.upper is None else float(self.upper - self.lower)

    def value(self, inputs: Sequence[Fraction], *, clamp: bool) -> int | float:
        """Return the measure's number, put into its range if ``clamp``.

        It is an int if the measure's numbers are whole and this one is, otherwise a float.
        """
        value = inputs[0]
        if clamp and self.lower is not None:
            value = max(value, self.lower)
        if clamp and self.upper is not None:
            value = min(value, self.upper)
        return int(value) if self.integer and value.denominator == 1 else float(value)

    def smooth(self, inputs: Sequence[FloatArray]) -> FloatArray:
        """Return the measure's numbers unchanged."""
        return inputs[0]

    def limits(self, *, clamp: bool) -> tuple[float, float]:
        """Return the range of the measure if ``clamp``, otherwise infinite ends."""
        low = -math.inf if not clamp or self.lower is None else float(self.lower)
        return low, math.inf if not clamp or self.upper is None else float(self.upper)


@dataclass(frozen=True, slots=True)
class FromSums(Estimate, ABC):
    """An aggregate that is computed from COUNT and centred sums of one argument (S2).

    Centred: of how far each value lies from the middle of the bounds, instead of the value itself. Its measures are, in
    this order, COUNT, the centred sum and, for variances, the sum of centred squares.
    """

    counted: ClassVar[int | None] = 0

    argument: Argument

    @property
    def half(self) -> Fraction:
        """Return half the distance between the bounds, in real units."""
        return self.argument.width * self.argument.unit / 2


class MeanFromSums(FromSums):
    """AVG(x): the middle of the bounds plus the centred sum divided by the count, always put into the bounds (E1)."""

    __slots__ = ()

    @property
    def width(self) -> float:
        """Return the distance between the bounds, in real units."""
        return float(2 * self.half)

    def value(self, inputs: Sequence[Fraction], *, clamp: bool) -> float:
        """Return the mean, put into the bounds even without ``clamp``; their middle if the count is not positive."""
        count, total = inputs
        offset = total / count if count > 0 else Fraction(0)  # S2
        return float(self.argument.middle + min(max(offset, -self.half), self.half))

    def smooth(self, inputs: Sequence[FloatArray]) -> FloatArray:
        """Return the means before clamping, NaN where the count is not positive."""
        count, total = inputs
        return float(self.argument.middle) + divide(total, count)

    def limits(self, *, clamp: bool) -> tuple[float, float]:
        """Return the bounds, in real units, whether ``clamp`` is set or not."""
        return float(self.argument.middle - self.half), float(self.argument.middle + self.half)


class VarianceFromSums(FromSums):
    """VAR_POP(x): the mean of d² less the square of the mean of d, and never negative.

    d: how far a value lies from the middle of the bounds.
    """

    __slots__ = ()

    @property
    def width(self) -> float:
        """Return the largest variance that values within the bounds can have."""
        return float(self.half**2)

    def _variance(self, inputs: Sequence[Fraction], clamp: bool) -> Fraction:
        count, total, squares = inputs
        spread = squares / count - (total / count) ** 2 if count > 0 else Fraction(0)
        variance = max(spread, Fraction(0))
        return min(variance, self.half**2) if clamp else variance

    def value(self, inputs: Sequence[Fraction], *, clamp: bool) -> float:
        """Return the variance, never negative and, if ``clamp``, at most ``width``; 0 if the count is not positive."""
        return float(self._variance(inputs, clamp))

    def smooth(self, inputs: Sequence[FloatArray]) -> FloatArray:
        """Return the variances before clamping, also negative ones; NaN where the count is not positive."""
        count, total, squares = inputs
        return divide(squares, count) - np.square(divide(total, count))

    def limits(self, *, clamp: bool) -> tuple[float, float]:
        """Return 0 and, if ``clamp``, the largest variance within the bounds, otherwise ∞."""
        return 0.0, float(self.half**2) if clamp else math.inf


class _RootOfVariance(VarianceFromSums, ABC):
    """The square root of the variance that the next class in line computes."""

    __slots__ = ()

    def value(self, inputs: Sequence[Fraction], *, clamp: bool) -> float:
        return math.sqrt(super().value(inputs, clamp=clamp))

    def finish(self, smooth: FloatArray, *, clamp: bool) -> FloatArray:
        """Return the square roots of the variances ``smooth``, which are first put into the range of a variance."""
        return np.sqrt(super().finish(smooth, clamp=clamp))

    def spread(self, smooth: FloatArray, error: FloatArray, *, clamp: bool) -> FloatArray:
        """Return how far the standard deviations can be off where the variances ``smooth`` can be off by ``error``."""
        low, high = self.limits(clamp=clamp)
        inside = np.clip(smooth, low, high)
        up = np.sqrt(np.minimum(inside + error, high)) - np.sqrt(inside)
        down = np.sqrt(inside) - np.sqrt(np.maximum(inside - error, 0.0))
        longer: FloatArray = np.maximum(up, down)
        return longer


class DeviationFromSums(_RootOfVariance):
    """STDDEV_POP(x): the square root of the variance; 0 where the count is not positive."""

    __slots__ = ()

    @property
    def width(self) -> float:
        """Return the largest standard deviation that values within the bounds can have."""
        return float(self.half)


class SampleVariance(VarianceFromSums):
    """VAR_SAMP(x): the variance times n/(n − 1), where n is the count; 0 if n is not above 1.

    The factor n/(n − 1) is at most 2, since n is a whole number.
    """

    __slots__ = ()
    counted: ClassVar[int | None] = 1

    @property
    def width(self) -> float:
        """Return the largest sample variance that values within the bounds can have."""
        return 2.0 * float(self.half**2)

    def value(self, inputs: Sequence[Fraction], *, clamp: bool) -> float:
        """Return the sample variance; 0 where the count is not above 1."""
        count = inputs[0]
        return float(self._variance(inputs, clamp) * count / (count - 1)) if count > 1 else 0.0

    def smooth(self, inputs: Sequence[FloatArray]) -> FloatArray:
        """Return the sample variances before clamping, also negative ones; NaN where the count is not above 1."""
        count = inputs[0]
        return VarianceFromSums.smooth(self, inputs) * divide(count, count - 1.0)

    def limits(self, *, clamp: bool) -> tuple[float, float]:
        """Return 0 and, if ``clamp``, the largest sample variance within the bounds, otherwise ∞."""
        return 0.0, 2.0 * float(self.half**2) if clamp else math.inf


class SampleDeviation(_RootOfVariance, SampleVariance):
    """STDDEV_SAMP(x): the square root of the sample variance; 0 where the count is not above 1."""

    __slots__ = ()

    @property
    def width(self) -> float:
        """Return the largest sample standard deviation that values within the bounds can have."""
        return math.sqrt(2.0) * float(self.half)


def divide(total: FloatArray, count: FloatArray) -> FloatArray:
    """Return total/count for each element, NaN where the count is not positive."""
    if np.all(count > 0):
        return total / count
    return np.where(count > 0, total / np.where(count > 0, count, 1.0), np.nan)
