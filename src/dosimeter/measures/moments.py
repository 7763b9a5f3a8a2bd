"""VAR_POP, STDDEV_POP and their sample versions.

They are computed from a noisy count and noisy sums (S2). VAR_POP and STDDEV_POP can also be one number that itself gets
noise, with a sensitivity given by hand (S7).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from dosimeter.arrays import FloatArray, IntArray
from dosimeter.measures.argument import Argument
from dosimeter.measures.estimates import (
    DeviationFromSums,
    Estimate,
    SampleDeviation,
    SampleVariance,
    SingleMeasure,
    VarianceFromSums,
)
from dosimeter.measures.exact import exact_squares, exact_total
from dosimeter.measures.measure import Dependence, Quotient
from dosimeter.measures.reading import AggregateCall, Collector, take_spread
from dosimeter.measures.sums import CentredSquares, CentredSum, read_through_sums
from dosimeter.measures.units import UnitField, add_own_centred, add_own_squares, count_present
from dosimeter.sql import expect_only, refusal


class _Spread(Quotient, ABC):
    """A variance or standard deviation of a group's values, as one number that itself gets noise.

    It is computed from the count, sum and sum of squares of 2v − (L + U), for values v with bounds L and U: how far v
    lies from the middle of the bounds, in half grid steps ("centred"). It is 0 for an emptied group (C6).
    """

    __slots__ = ()

    @classmethod
    def by_hand(cls, argument: Argument, label: str) -> Self:
        """Return the measure; its numbers lie on no grid. Its sensitivity, 1, stands in for the one given by hand."""
        return cls(label, argument.unit, Fraction(0), 1.0, 1.0, argument)

    def _row_effects(self, values: IntArray, people: IntArray) -> FloatArray:
        centred = self._centre(values)
        return self._leave_out([np.ones_like(centred), centred, exact_squares(centred)], people)

    def unit_fields(self) -> tuple[UnitField, ...]:
        """Return three fields of an individual's values v: their number, and the sums of c and c², c = 2v − (L + U)."""
        argument, position = self.argument, self.position
        return count_present(position), add_own_centred(argument, position), add_own_squares(argument, position)

    def _leave_out(self, own: Sequence[NDArray[Any]], people: IntArray) -> FloatArray:
        """Return the effect of leaving each individual out, in real units, from exact sums (S7).

        ``own``: the number, sum and sum of squares of each individual's own centred values.
        """
        count, total, square = (exact_total(each, people) for each in own)
        here = variance(count, total, square)
        triples = zip(*(each.tolist() for each in own), strict=True)
        return self._differences(here, [variance(count - n, total - s, square - q) for n, s, q in triples])

    @abstractmethod
    def _differences(self, here: Fraction, left: list[Fraction]) -> FloatArray:
        """Return the measure at the variance ``here``, less the measure at each variance in ``left``, in real units.

        ``here``: the group's variance. ``left``: for each individual, the variance without them. All variances are in
        quarters of a squared grid step.
        """


class Variance(_Spread):
    """VAR_POP(x) as one noisy number, with a sensitivity given by hand."""

    __slots__ = ()
    name: ClassVar[str] = "variance"
    depends_on: ClassVar[Dependence | None] = Dependence.VARIANCE

    def largest_value(self, individuals: int | None) -> int:
        """Return the largest variance, w²/4 for bounds w apart, in noise grid steps, however many people there are."""
        return math.ceil((self.argument.width * self.unit / 2) ** 2 / self.grid)

    def _value(self, values: IntArray, people: IntArray) -> Fraction:
        return _measure_variance(self._centre(values), people) * (self.unit / 2) ** 2

    def _differences(self, here: Fraction, left: list[Fraction]) -> FloatArray:
        scale = (self.unit / 2) ** 2
        return np.array([float((here - after) * scale) for after in left])


class Deviation(_Spread):
    """STDDEV_POP(x) as one noisy number, with a sensitivity given by hand."""

    __slots__ = ()
    name: ClassVar[str] = "standard deviation"
    depends_on: ClassVar[Dependence | None] = Dependence.DEVIATION

    def largest_value(self, individuals: int | None) -> int:
        """Return the largest deviation, w/2 for bounds w apart, in noise grid steps, however many people there are."""
        return math.ceil(self.argument.width * self.unit / 2 / self.grid)

    def _value(self, values: IntArray, people: IntArray) -> Fraction:
        found = _measure_variance(self._centre(values), people)
        return Fraction(math.sqrt(found) * float(self.unit) / 2)

    def _differences(self, here: Fraction, left: list[Fraction]) -> FloatArray:
        half = float(self.unit) / 2
        return np.array([(math.sqrt(here) - math.sqrt(after)) * half for after in left])


def _measure_variance(centred: IntArray, people: IntArray) -> Fraction:
    return variance(int(people.sum()), exact_total(centred, people), exact_total(exact_squares(centred), people))


def variance(count: int, total: int, squares: int) -> Fraction:
    """Return the variance, in quarters of a squared grid step; 0 without values (C6).

    ``count``, ``total``, ``squares``: the number, sum and sum of squares of 2v − (L + U), for values v with bounds L
    and U.
    """
    return Fraction(count * squares - total * total, count * count) if count else Fraction(0)


# ---------------------------------------------------------------- reading SQL


def _read_spread(
    collector: Collector,
    call: AggregateCall,
    *,
    from_sums: type[VarianceFromSums],
    by_hand: type[_Spread] | None = None,
) -> Estimate:
    """Read a variance or standard deviation: add its measures to the query, and return its estimate.

    With a sensitivity given by hand it is one measure, of the class ``by_hand`` (S7); None if it is refused. Otherwise
    it is an estimate of the class ``from_sums``, computed from a count and sums (S2).
    """
    if collector.by_hand and by_hand is None:
        raise refusal(call.node, f"{call.label}: with a sensitivity given by hand, use VAR_POP or STDDEV_POP.")
    expect_only(call.node, "this")
    source = take_spread(collector, call)
    if collector.by_hand and by_hand is not None:
        return SingleMeasure((collector.measure(by_hand.by_hand(source.argument, call.label), source),), call.label)
    return read_through_sums(collector, call, source, from_sums, CentredSum, CentredSquares)


read_variance = partial(_read_spread, from_sums=VarianceFromSums, by_hand=Variance)
read_deviation = partial(_read_spread, from_sums=DeviationFromSums, by_hand=Deviation)
read_sample_variance = partial(_read_spread, from_sums=SampleVariance)
read_sample_deviation = partial(_read_spread, from_sums=SampleDeviation)
