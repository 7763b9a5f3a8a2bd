"""COVAR_POP, COVAR_SAMP, CORR, REGR_SLOPE and REGR_INTERCEPT, computed from a noisy count and noisy sums (Q3).

Only rows in which neither x nor y is NULL count. In the sums, x and y stand for how far each lies from the middle of
its bounds ("centred"). The measured numbers are COUNT, Σx, Σy, Σxy and, where it is needed, Σx² and Σy².
"""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import ClassVar

import numpy as np

from dosimeter.arrays import FloatArray
from dosimeter.measures.argument import Argument
from dosimeter.measures.counts import Count
from dosimeter.measures.estimates import Estimate, divide
from dosimeter.measures.reading import AggregateCall, Collector
from dosimeter.measures.sums import CentredSquares, CentredSum, Sum, measure_sum
from dosimeter.sql import expect_only, refusal


@dataclass(frozen=True, slots=True)
class FromPairs(Estimate, ABC):
    """An aggregate of two arguments, x and y, computed from COUNT and centred sums.

    Centred: x and y are counted from the middle of their bounds. ``x`` and ``y`` hold the bounds. The ``inputs`` of its
    methods are COUNT, Σx, Σy, Σxy and then those of Σx² and Σy² that the aggregate needs.
    """

    counted: ClassVar[int | None] = 0

    x: Argument
    y: Argument

    @property
    def width(self) -> float | None:
        """Return None: the aggregate has no range, unless a subclass gives one."""
        return None

    @property
    def half(self) -> float | None:
        """Return how far from 0 the exact value can lie: half the width of the range; None without a range."""
        return None if self.width is None else self.width / 2.0

    def limits(self, *, clamp: bool) -> tuple[float, float]:
        """Return the range, which is symmetric around 0, if ``clamp``; otherwise, or without a range, infinite ends."""
        return (-math.inf, math.inf) if not clamp or self.half is None else (-self.half, self.half)

    def value(self, inputs: Sequence[Fraction], *, clamp: bool) -> float:
        """Return the aggregate, put into its range if ``clamp``; 0 where a divisor is not positive."""
        smooth = self.smooth([np.array([float(number)]) for number in inputs])
        return float(np.nan_to_num(self.finish(smooth, clamp=clamp))[0])


class Covariance(FromPairs):
    """COVAR_POP(x, y): the mean of products less the product of means."""

    __slots__ = ()

    @property
    def width(self) -> float:
        """Return the width of the range of covariances that values within the bounds can have."""
        widths = (float(each.width * each.unit) for each in (self.x, self.y))
        return math.prod(widths) / 2.0

    def smooth(self, inputs: Sequence[FloatArray]) -> FloatArray:
        """Return the covariances before clamping, one per element of the inputs; NaN where a count is not positive."""
        return _covary(*inputs[:4])


class SampleCovariance(Covariance):
    """COVAR_SAMP(x, y): the covariance times n/(n − 1), where n is the count; 0 if n is not above 1.

    The factor n/(n − 1) is at most 2, since n is a whole number.
    """

    __slots__ = ()
    counted: ClassVar[int | None] = 1

    @property
    def width(self) -> float:
        """Return the width of the range of sample covariances that values within the bounds can have."""
        widths = (float(each.width * each.unit) for each in (self.x, self.y))
        return math.prod(widths)

    def smooth(self, inputs: Sequence[FloatArray]) -> FloatArray:
        """Return the sample covariances before clamping; NaN where the count is not above 1."""
        count = inputs[0]
        return _covary(*inputs[:4]) * divide(count, count - 1.0)


class Correlation(FromPairs):
    """CORR(x, y): the covariance divided by both standard deviations; 0 where a variance is not positive."""

    __slots__ = ()

    @property
    def width(self) -> float:
        """Return 2: a correlation lies between −1 and 1."""
        return 2.0

    def smooth(self, inputs: Sequence[FloatArray]) -> FloatArray:
        """Return the correlations before clamping, also beyond ±1; NaN where a variance is not positive."""
        count, x, y, products, _, _ = inputs
        spreads = (np.maximum(spread, 0.0) for spread in self.divisors(inputs))
        return divide(_covary(count, x, y, products), np.sqrt(math.prod(spreads)))

    def divisors(self, inputs: Sequence[FloatArray]) -> tuple[FloatArray, ...]:
        """Return the variances of x and of y: the covariance is divided by their square roots."""
        count, x, y, _, x_squares, y_squares = inputs
        return _covary(count, x, x, x_squares), _covary(count, y, y, y_squares)

    def spread_evenly(self, rows: float) -> tuple[float, ...]:
        """Return COUNT, Σx, Σy, Σxy, Σx² and Σy² for so many rows spread evenly over the bounds."""
        return _spread_evenly(rows, self.x, self.y)

    def limits(self, *, clamp: bool) -> tuple[float, float]:
        """Return −1 and 1, whether ``clamp`` is set or not."""
        return -1.0, 1.0


class Slope(FromPairs):
    """REGR_SLOPE(y, x): the covariance of x and y divided by the variance of x."""

    __slots__ = ()

    def smooth(self, inputs: Sequence[FloatArray]) -> FloatArray:
        """Return the slopes, NaN where the variance of x is not positive."""
        count, x, y, products, _ = inputs
        return divide(_covary(count, x, y, products), *self.divisors(inputs))

    def divisors(self, inputs: Sequence[FloatArray]) -> tuple[FloatArray, ...]:
        """Return the variance of x, the only divisor besides the count."""
        count, x, _, _, x_squares = inputs
        return (_covary(count, x, x, x_squares),)

    def spread_evenly(self, rows: float) -> tuple[float, ...]:
        """Return COUNT, Σx, Σy, Σxy and Σx² for so many rows spread evenly over the bounds."""
        return _spread_evenly(rows, self.x)


class Intercept(Slope):
    """REGR_INTERCEPT(y, x): the mean of y less the slope times the mean of x."""

    __slots__ = ()

    def smooth(self, inputs: Sequence[FloatArray]) -> FloatArray:
        """Return the intercepts, NaN where the variance of x is not positive."""
        count, x, y, _, _ = inputs
        means = (float(each.middle) + divide(total, count) for each, total in ((self.x, x), (self.y, y)))
        mean_x, mean_y = means
        return mean_y - super().smooth(inputs) * mean_x


def _spread_evenly(rows: float, *squares: Argument) -> tuple[float, ...]:
    """Return COUNT, Σx, Σy, Σxy and these sums of squares for values spread evenly, and independently, over the bounds.

    The variance of such values is a twelfth of the squared width of their bounds.
    """
    return rows, 0.0, 0.0, 0.0, *(rows * float(each.width * each.unit) ** 2 / 12.0 for each in squares)


def _covary(count: FloatArray, x: FloatArray, y: FloatArray, products: FloatArray) -> FloatArray:
    """Return the covariance Σxy/n − (Σx/n)(Σy/n), which is the same wherever x and y are counted from.

    ``count``: n. ``x``, ``y``, ``products``: the sums Σx, Σy and Σxy. NaN where n is not positive.
    """
    return divide(products, count) - divide(x, count) * divide(y, count)


# ---------------------------------------------------------------- reading SQL


def _measure_pairs(collector: Collector, call: AggregateCall, *, kind: type[FromPairs], squares: str = "") -> Estimate:
    """Read an aggregate of two arguments: add its measures to the query, and return its estimate."""
    expect_only(call.node, "this", "expression")
    if collector.by_hand:
        raise refusal(call.node, f"{call.label} takes no sensitivity given by hand here.")
    x, y, product = collector.take_pair(call)
    facts = collector.facts
    counted = Count.over(x.argument, f"COUNT({x.argument.label})", facts)
    measures = [collector.measure(counted, x), *(measure_sum(collector, side, CentredSum) for side in (x, y))]
    total = Sum.over(product.argument, f"SUM({product.argument.label})", facts)
    measures.append(collector.measure(total, product))
    sides = {"x": x, "y": y}
    measures += [measure_sum(collector, sides[name], CentredSquares) for name in squares]
    return kind(tuple(measures), call.label, x.argument, y.argument)


def _read_regression(collector: Collector, call: AggregateCall, *, kind: type[FromPairs]) -> Estimate:
    """Read REGR_SLOPE(y, x) or REGR_INTERCEPT(y, x): SQL's regressions take y first."""
    expect_only(call.node, "this", "expression")
    exchanged = type(call.node)(this=call.node.expression, expression=call.node.this)
    return _measure_pairs(collector, AggregateCall(exchanged, call.condition, call.label), kind=kind, squares="x")


read_covariance = partial(_measure_pairs, kind=Covariance)
read_sample_covariance = partial(_measure_pairs, kind=SampleCovariance)
read_correlation = partial(_measure_pairs, kind=Correlation, squares="xy")
read_slope = partial(_read_regression, kind=Slope)
read_intercept = partial(_read_regression, kind=Intercept)
