"""AVG: one quotient that itself gets noise, or a mean that is computed from a noisy sum and a noisy count.

The quotient gets noise in two cases: every group is publicly known to have at least ``min_rows`` rows with a
value (S2), or the controller gives a sensitivity by hand (S7).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dosimeter.arrays import FloatArray, IntArray
from dosimeter.measures.argument import Argument
from dosimeter.measures.estimates import Estimate, MeanFromSums, SingleMeasure
from dosimeter.measures.exact import FITS, exact_total, find_largest
from dosimeter.measures.measure import Bounded, Dependence, Quotient
from dosimeter.measures.noise_grid import OFF_GRID_STEPS, SensitivityFacts
from dosimeter.measures.reading import AggregateCall, Collector, take_spread
from dosimeter.measures.sums import CentredSum, read_through_sums
from dosimeter.measures.units import UnitField, add_own_centred, count_present
from dosimeter.sql import expect_only


class _AnyMean(Quotient, Bounded, ABC):
    """The mean of a group's values, as one number that itself gets noise: mid + Σ(v − mid)/max(N, r).

    v: the values. N: how many they are. mid: the middle of the bounds. r: ``floor``, below which the divisor never
    falls.
    """

    __slots__ = ()
    depends_on: ClassVar[Dependence | None] = Dependence.MEAN

    @property
    @abstractmethod
    def floor(self) -> int:
        """Return r, the least number of rows that the sum is divided by."""

    def _value(self, values: IntArray, people: IntArray) -> Fraction:
        total = exact_total(self._centre(values), people)
        return self.empty + Fraction(total, max(int(people.sum()), self.floor)) * self.unit / 2

    def _row_effects(self, values: IntArray, people: IntArray) -> FloatArray:
        centred = self._centre(values)
        return self._leave_out([np.ones_like(centred), centred], people)

    def unit_fields(self) -> tuple[UnitField, ...]:
        """Return two fields: how many values v an individual has in a group, and Σ(2v − (L + U)) for bounds L, U."""
        return count_present(self.position), add_own_centred(self.argument, self.position)

    def _leave_out(self, own: Sequence[NDArray[Any]], people: IntArray) -> FloatArray:
        """Return by how much each individual moves the mean: T/M − (T − s)/A = (sM − T(M − A))/(MA) (S2, C2).

        N and T are the group's count and total, n and s the individual's ``own``; r is
        ``floor``, M = max(N, r) and A = max(N − n, r). T and s add up 2v − (L + U), so that a total of 0 stands for
        the middle of the bounds, the mean of an emptied group (C6). The numerator is exact; the result is in real
        units. ``people``: how many individuals have each pair of n and s.
        """
        own_count, own_total = own
        count, total = exact_total(own_count, people), exact_total(own_total, people)
        here = max(count, self.floor)
        after = np.maximum(count - own_count.astype(np.int64), self.floor)
        largest = max(find_largest(own_total), 1)
        if own_total.dtype == object or max(largest, abs(total)) * here >= FITS:
            own_total, after = own_total.astype(object), after.astype(object)
        moved = own_total * here - total * (here - after)
        effects: FloatArray = moved.astype(np.float64) / after.astype(np.float64) / here * (float(self.unit) / 2)
        return effects


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundedMean(_AnyMean):
    """AVG where every group is publicly known to have at least ``min_rows`` rows with a value (S2)."""

    name: ClassVar[str] = "mean with a floor on rows"

    min_rows: int

    @classmethod
    def over(cls, argument: Argument, label: str, facts: SensitivityFacts, min_rows: int) -> BoundedMean:
        """Return the measure. Its sensitivity is mw/(r + m) for a single group, and mw/(r + 1) for several (S2).

        m: the most rows of one individual. w: the distance between the bounds. r: ``min_rows``.
        """
        width = argument.width * argument.unit
        delta = facts.rows * width / (min_rows + (facts.rows if facts.groups == 1 else 1))  # S2
        return cls(
            label=label,
            unit=argument.unit,
            grid=delta / OFF_GRID_STEPS,
            sensitivity_l1=float(delta),
            sensitivity_l2=float(delta),
            argument=argument,
            min_rows=min_rows,
        )

    @property
    def parameters(self) -> tuple[str | None, int | None]:
        """Return (None, ``min_rows``): a mean has a floor on rows, and no fraction as a quantile has."""
        return None, self.min_rows

    @property
    def floor(self) -> int:
        """Return ``min_rows``: every group is publicly known to have at least so many rows with a value."""
        return self.min_rows


class Mean(_AnyMean):
    """AVG as SQL defines it: the quotient itself gets noise, not its sum and its count.

    It needs a sensitivity that the controller gives by hand (S7).
    """

    __slots__ = ()
    name: ClassVar[str] = "mean"

    @classmethod
    def by_hand(cls, argument: Argument, label: str) -> Mean:
        """Return the measure; its numbers lie on no grid. Its sensitivity, 1, stands in for the one given by hand."""
        return cls(label, argument.unit, Fraction(0), 1.0, 1.0, argument)

    @property
    def floor(self) -> int:
        """Return 1, which avoids a division by 0: an emptied group has a total of 0, whatever it is divided by."""
        return 1


def read_mean(collector: Collector, call: AggregateCall) -> Estimate:
    """Read AVG(x): add its measures to the query, and return its estimate.

    If there is a floor on rows, or a sensitivity given by hand, the mean is one measure, which itself gets noise.
    Otherwise it is computed from two measures: a count and a sum.
    """
    expect_only(call.node, "this")
    source = take_spread(collector, call)
    if collector.by_hand:
        return SingleMeasure((collector.measure(Mean.by_hand(source.argument, call.label), source),), call.label)
    if collector.min_rows is not None:
        measure = BoundedMean.over(source.argument, call.label, collector.facts, collector.min_rows)
        return SingleMeasure.within(collector.measure(measure, source), call.label, source.argument)
    return read_through_sums(collector, call, source, MeanFromSums, CentredSum)
