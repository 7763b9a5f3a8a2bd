"""An aggregate of the SELECT list, computed from measures: exact or noisy, it is the same arithmetic (N3).

A new kind of estimate is a class that implements these methods.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dosimeter.arrays import FloatArray
from dosimeter.measures.argument import Argument


@dataclass(frozen=True, slots=True)
class Estimate(ABC):
    """One aggregate as the analyst wrote it. ``measures``: the numbers of the measures that it is computed from."""

    measures: tuple[int, ...]
    label: str

    @property
    def alone(self) -> int | None:
        """Return the number of the measure that the estimate is, as it is; None where it is computed."""
        return None

    @property
    def whole(self) -> bool:
        """Return whether the estimate counts whole things."""
        return False

    @property
    @abstractmethod
    def width(self) -> float | None:
        """Return the width of the range that the estimate is clamped to; None where it has no two ends."""

    @property
    def counted(self) -> int | None:
        """Return what is taken from the count, the first measure, to give a divisor (E1); None: nothing is divided."""
        return None

    @abstractmethod
    def value(self, inputs: Sequence[Fraction], *, clamp: bool) -> int | float:
        """Return the aggregate from its measures, put back into its range if asked to."""

    @abstractmethod
    def smooth(self, inputs: Sequence[FloatArray]) -> FloatArray:
        """Return what the aggregate is a plain function of, from arrays of its measures; NaN where it divides by 0."""

    def divisors(self, inputs: Sequence[FloatArray]) -> tuple[FloatArray, ...]:
        """Return what is divided by besides the count: computed numbers that must be known to be positive (E1)."""
        return ()

    def limits(self, *, clamp: bool) -> tuple[float, float]:
        """Return the range that ``smooth`` is put back into."""
        return -math.inf, math.inf

    def finish(self, smooth: FloatArray, *, clamp: bool) -> FloatArray:
        """Return the aggregate from ``smooth``."""
        return np.clip(smooth, *self.limits(clamp=clamp))

    def spread(self, smooth: FloatArray, error: FloatArray, *, clamp: bool) -> FloatArray:
        """Return how far the aggregate can be off where ``smooth`` can: the truth is in range (E1)."""
        low, high = self.limits(clamp=clamp)
        inside = np.clip(smooth, low, high)
        return np.minimum(error, np.maximum(inside - low, high - inside))


@dataclass(frozen=True, slots=True)
class Identity(Estimate):
    """A measure itself. ``integer``: whether it counts whole things. ``lower`` and ``upper``: its range, if any."""

    integer: bool = False
    lower: Fraction | None = None
    upper: Fraction | None = None

    @classmethod
    def of_count(cls, measure: int, label: str) -> Identity:
        """Return a count, which is whole and not negative."""
        return cls((measure,), label, integer=True, lower=Fraction(0))

    @classmethod
    def within(cls, measure: int, label: str, argument: Argument) -> Identity:
        """Return a number that cannot leave the bounds of an argument."""
        return cls((measure,), label, lower=argument.lower * argument.unit, upper=argument.upper * argument.unit)

    @property
    def alone(self) -> int:
        """Return the number of the measure."""
        return self.measures[0]

    @property
    def whole(self) -> bool:
        """Return whether the measure is a whole number."""
        return self.integer

    @property
    def width(self) -> float | None:
        """Return the distance between both ends of the range."""
        return None if self.lower is None or self.upper is None else float(self.upper - self.lower)

    def value(self, inputs: Sequence[Fraction], *, clamp: bool) -> int | float:
        """Return the measure, as a whole number where it counts and is one."""
        value = inputs[0]
        if clamp and self.lower is not None:
            value = max(value, self.lower)
        if clamp and self.upper is not None:
            value = min(value, self.upper)
        return int(value) if self.integer and value.denominator == 1 else float(value)

    def smooth(self, inputs: Sequence[FloatArray]) -> FloatArray:
        """Return the measure."""
        return inputs[0]

    def limits(self, *, clamp: bool) -> tuple[float, float]:
        """Return the range of the measure, if clamped to it."""
        low = -math.inf if not clamp or self.lower is None else float(self.lower)
        return low, math.inf if not clamp or self.upper is None else float(self.upper)


@dataclass(frozen=True, slots=True)
class FromSums(Estimate, ABC):
    """An aggregate from COUNT and centred sums of one argument (S2). Its measures stand in this order."""

    argument: Argument

    @property
    def counted(self) -> int:
        """Return 0: the count itself divides."""
        return 0

    @property
    def half(self) -> Fraction:
        """Return half the distance between the bounds."""
        return self.argument.width * self.argument.unit / 2


@dataclass(frozen=True, slots=True)
class MeanFromSums(FromSums):
    """AVG(x): the middle of the bounds, and the centred sum over the count; always within the bounds (E1)."""

    @property
    def width(self) -> float:
        """Return the distance between the bounds."""
        return float(2 * self.half)

    def value(self, inputs: Sequence[Fraction], *, clamp: bool) -> float:
        """Return the mean; the middle of the bounds where the count is not positive."""
        count, total = inputs
        offset = total / count if count > 0 else Fraction(0)  # S2
        return float(self.argument.middle + min(max(offset, -self.half), self.half))

    def smooth(self, inputs: Sequence[FloatArray]) -> FloatArray:
        """Return the means."""
        count, total = inputs
        return float(self.argument.middle) + divide(total, count)

    def limits(self, *, clamp: bool) -> tuple[float, float]:
        """Return the bounds."""
        return float(self.argument.middle - self.half), float(self.argument.middle + self.half)


@dataclass(frozen=True, slots=True)
class VarianceFromSums(FromSums):
    """VAR_POP(x): the mean of centred squares less the square of the centred mean, and never negative."""

    @property
    def width(self) -> float:
        """Return the largest variance within the bounds."""
        return float(self.half**2)

    def _variance(self, inputs: Sequence[Fraction], clamp: bool) -> Fraction:
        count, total, squares = inputs
        spread = squares / count - (total / count) ** 2 if count > 0 else Fraction(0)
        variance = max(spread, Fraction(0))
        return min(variance, self.half**2) if clamp else variance

    def value(self, inputs: Sequence[Fraction], *, clamp: bool) -> float:
        """Return the variance; 0 where the count is not positive."""
        return float(self._variance(inputs, clamp))

    def smooth(self, inputs: Sequence[FloatArray]) -> FloatArray:
        """Return the variances, negative ones too."""
        count, total, squares = inputs
        return divide(squares, count) - np.square(divide(total, count))

    def limits(self, *, clamp: bool) -> tuple[float, float]:
        """Return 0 and, if clamped to it, the largest variance."""
        return 0.0, float(self.half**2) if clamp else math.inf


@dataclass(frozen=True, slots=True)
class DeviationFromSums(VarianceFromSums):
    """STDDEV_POP(x): the root of the variance."""

    @property
    def width(self) -> float:
        """Return the largest deviation within the bounds."""
        return float(self.half)

    def value(self, inputs: Sequence[Fraction], *, clamp: bool) -> float:
        """Return the deviation; 0 where the count is not positive."""
        return math.sqrt(self._variance(inputs, clamp))

    def finish(self, smooth: FloatArray, *, clamp: bool) -> FloatArray:
        """Return the deviations."""
        return np.sqrt(VarianceFromSums.finish(self, smooth, clamp=clamp))

    def spread(self, smooth: FloatArray, error: FloatArray, *, clamp: bool) -> FloatArray:
        """Return how far roots of variances can be off."""
        return _spread_root(smooth, error, self.limits(clamp=clamp))


@dataclass(frozen=True, slots=True)
class SampleVariance(VarianceFromSums):
    """VAR_SAMP(x): the variance times n/(n − 1), which is at most 2; 0 where the count is not above 1."""

    @property
    def counted(self) -> int:
        """Return 1: n − 1 divides."""
        return 1

    @property
    def width(self) -> float:
        """Return the largest variance of a sample within the bounds."""
        return 2.0 * float(self.half**2)

    def value(self, inputs: Sequence[Fraction], *, clamp: bool) -> float:
        """Return the variance of the sample."""
        count = inputs[0]
        return float(self._variance(inputs, clamp) * count / (count - 1)) if count > 1 else 0.0

    def smooth(self, inputs: Sequence[FloatArray]) -> FloatArray:
        """Return the variances of the samples, negative ones too."""
        count = inputs[0]
        return VarianceFromSums.smooth(self, inputs) * divide(count, count - 1.0)

    def limits(self, *, clamp: bool) -> tuple[float, float]:
        """Return 0 and, if clamped to it, the largest variance of a sample."""
        return 0.0, 2.0 * float(self.half**2) if clamp else math.inf


@dataclass(frozen=True, slots=True)
class SampleDeviation(SampleVariance):
    """STDDEV_SAMP(x): the root of the sample's variance."""

    @property
    def width(self) -> float:
        """Return the largest deviation of a sample within the bounds."""
        return math.sqrt(2.0) * float(self.half)

    def value(self, inputs: Sequence[Fraction], *, clamp: bool) -> float:
        """Return the deviation of the sample."""
        return math.sqrt(SampleVariance.value(self, inputs, clamp=clamp))

    def finish(self, smooth: FloatArray, *, clamp: bool) -> FloatArray:
        """Return the deviations of the samples."""
        return np.sqrt(SampleVariance.finish(self, smooth, clamp=clamp))

    def spread(self, smooth: FloatArray, error: FloatArray, *, clamp: bool) -> FloatArray:
        """Return how far roots of variances can be off."""
        return _spread_root(smooth, error, self.limits(clamp=clamp))


def divide(total: FloatArray, count: FloatArray) -> FloatArray:
    """Return the quotients, NaN where the count is not positive."""
    if np.all(count > 0):
        return total / count
    return np.where(count > 0, total / np.where(count > 0, count, 1.0), np.nan)


def _spread_root(squares: FloatArray, error: FloatArray, limits: tuple[float, float]) -> FloatArray:
    """Return how far a root can be off where its square, which is not negative, can be off by so much."""
    inside = np.clip(squares, *limits)
    up = np.sqrt(np.minimum(inside + error, limits[1])) - np.sqrt(inside)
    down = np.sqrt(inside) - np.sqrt(np.maximum(inside - error, 0.0))
    longer: FloatArray = np.maximum(up, down)
    return longer
