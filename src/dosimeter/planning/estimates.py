"""How each aggregate of SQL is computed from measured numbers: one class per kind (S2, Q3). Formulas only.

The same formula serves one group's exact numbers and arrays of noisy ones: what differs between them (a quotient by
0, a square root) is an ``Arithmetic``. A quotient whose divisor is not above 0 is 0, so that an AVG of nobody is the
middle of its bounds (C6).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

import numpy as np

Number = Any  # a Fraction, a float, or an array of floats: whatever the arithmetic computes with
Range = tuple[float | None, float | None]


class Arithmetic(Protocol):
    """What exact numbers and arrays compute differently."""

    def divide(self, a: Number, b: Number) -> Number:
        """Return a/b where b is above 0, otherwise 0."""

    def root(self, a: Number) -> Number:
        """Return the square root of what is not negative."""

    def within(self, a: Number, low: Number, high: Number) -> Number:
        """Return a, kept between two numbers of which either may be None."""


class _Exact:
    def divide(self, a: Number, b: Number) -> Number:
        return a / b if b > 0 else Fraction(0)

    def root(self, a: Number) -> Number:
        return math.sqrt(a)

    def within(self, a: Number, low: Number, high: Number) -> Number:
        a = a if low is None else max(a, low)
        return a if high is None else min(a, high)


class _Arrays:
    def divide(self, a: Number, b: Number) -> Number:
        return np.where(b > 0, a / np.where(b > 0, b, 1.0), 0.0)

    def root(self, a: Number) -> Number:
        return np.sqrt(a)

    def within(self, a: Number, low: Number, high: Number) -> Number:
        low, high = (None if end is None else float(end) for end in (low, high))
        return a if low is None and high is None else np.clip(a, low, high)


EXACT: Arithmetic = _Exact()
ARRAYS: Arithmetic = _Arrays()


@dataclass(frozen=True, slots=True)
class Estimate(ABC):
    """One aggregate as the analyst wrote it. ``measures``: the measured numbers that it is computed from."""

    measures: tuple[int, ...]
    label: str

    @property
    def whole(self) -> bool:
        """Return whether it is always a whole number."""
        return False

    @property
    def range(self) -> tuple[Fraction | None, Fraction | None]:
        """Return between which numbers the exact value lies; None where there is no such end."""
        return None, None

    @abstractmethod
    def compute(self, inputs: Sequence[Number], by: Arithmetic) -> Number:
        """Return the aggregate from its measured numbers."""

    def clamp(self, value: Number, by: Arithmetic) -> Number:
        """Return the value, brought into its range."""
        return by.within(value, *self.range)


@dataclass(frozen=True, slots=True)
class Itself(Estimate):
    """A measured number itself: COUNT, SUM, MEDIAN. ``ends``: the range that it cannot leave."""

    integer: bool = False
    ends: tuple[Fraction | None, Fraction | None] = (None, None)

    @property
    def whole(self) -> bool:
        return self.integer

    @property
    def range(self) -> tuple[Fraction | None, Fraction | None]:
        return self.ends

    def compute(self, inputs: Sequence[Number], by: Arithmetic) -> Number:
        return inputs[0]


@dataclass(frozen=True, slots=True)
class MeanFromSums(Estimate):
    """AVG from COUNT and the centred sum. ``centre``: the middle of the bounds."""

    centre: Fraction
    ends: tuple[Fraction, Fraction]

    @property
    def range(self) -> tuple[Fraction | None, Fraction | None]:
        return self.ends

    def compute(self, inputs: Sequence[Number], by: Arithmetic) -> Number:
        count, total = inputs
        return by.divide(total, count) + _fitting(self.centre, by)


@dataclass(frozen=True, slots=True)
class VarianceFromSums(Estimate):
    """VAR_POP, VAR_SAMP, STDDEV_POP and STDDEV_SAMP from COUNT, the centred sum and the sum of centred squares.

    ``sample``: divided by n − 1 instead of n. ``rooted``: its square root.
    """

    width: Fraction
    sample: bool = False
    rooted: bool = False

    @property
    def range(self) -> tuple[Fraction | None, Fraction | None]:
        largest = (self.width / 2) ** 2 * (2 if self.sample else 1)  # n/(n − 1) is at most 2
        if not self.rooted:
            return Fraction(0), largest
        return Fraction(0), self.width / 2 if not self.sample else Fraction(math.sqrt(largest))

    def compute(self, inputs: Sequence[Number], by: Arithmetic) -> Number:
        count, total, squares = inputs
        variance = by.within(_covary(count, total, total, squares, by), 0, None)
        if self.sample:
            variance = variance * by.divide(count, count - 1)
        return by.root(variance) if self.rooted else variance


@dataclass(frozen=True, slots=True)
class CovarianceFromSums(Estimate):
    """COVAR_POP and COVAR_SAMP from COUNT and the centred sums of x, y and x·y."""

    widths: tuple[Fraction, Fraction]
    sample: bool = False

    @property
    def range(self) -> tuple[Fraction | None, Fraction | None]:
        largest = self.widths[0] * self.widths[1] / 4 * (2 if self.sample else 1)
        return -largest, largest

    def compute(self, inputs: Sequence[Number], by: Arithmetic) -> Number:
        count, x, y, products = inputs
        covariance = _covary(count, x, y, products, by)
        return covariance * by.divide(count, count - 1) if self.sample else covariance


@dataclass(frozen=True, slots=True)
class CorrelationFromSums(Estimate):
    """CORR from COUNT and the centred sums of x, y, x·y, x² and y². 0 where one of them does not vary."""

    @property
    def range(self) -> tuple[Fraction | None, Fraction | None]:
        return Fraction(-1), Fraction(1)

    def compute(self, inputs: Sequence[Number], by: Arithmetic) -> Number:
        count, x, y, products, x_squares, y_squares = inputs
        spread = by.within(_covary(count, x, x, x_squares, by), 0, None) * by.within(
            _covary(count, y, y, y_squares, by), 0, None
        )
        return by.within(by.divide(_covary(count, x, y, products, by), by.root(spread)), -1, 1)


@dataclass(frozen=True, slots=True)
class SlopeFromSums(Estimate):
    """REGR_SLOPE from COUNT and the centred sums of x, y, x·y and x²."""

    def compute(self, inputs: Sequence[Number], by: Arithmetic) -> Number:
        count, x, y, products, x_squares = inputs
        return by.divide(_covary(count, x, y, products, by), _covary(count, x, x, x_squares, by))


@dataclass(frozen=True, slots=True)
class InterceptFromSums(Estimate):
    """REGR_INTERCEPT: the mean of y less the slope times the mean of x. ``centres``: of x and of y."""

    centres: tuple[Fraction, Fraction]

    def compute(self, inputs: Sequence[Number], by: Arithmetic) -> Number:
        count, x, y, products, x_squares = inputs
        slope = by.divide(_covary(count, x, y, products, by), _covary(count, x, x, x_squares, by))
        mean_x, mean_y = (
            by.divide(total, count) + _fitting(c, by) for total, c in zip((x, y), self.centres, strict=True)
        )
        return mean_y - slope * mean_x


def _covary(count: Number, x: Number, y: Number, products: Number, by: Arithmetic) -> Number:
    """Return Σxy/n − (Σx/n)(Σy/n): covariances do not depend on where x and y are centred."""
    return by.divide(products, count) - by.divide(x, count) * by.divide(y, count)


def _fitting(number: Fraction, by: Arithmetic) -> Number:
    return number if by is EXACT else float(number)
