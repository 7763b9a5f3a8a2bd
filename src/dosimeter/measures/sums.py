"""SUM, and the two centred sums that AVG, VAR_POP and STDDEV_POP are computed from (S2).

A centred sum adds up how far each value lies from the middle of its bounds, or the squares of that.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from dosimeter.arrays import FloatArray, IntArray
from dosimeter.errors import QueryError
from dosimeter.measures.argument import Argument
from dosimeter.measures.counts import Count
from dosimeter.measures.estimates import Estimate, FromSums, SingleMeasure
from dosimeter.measures.exact import exact_squares, exact_sum, exact_total, fits
from dosimeter.measures.measure import ArgumentMeasure, Dependence, Total
from dosimeter.measures.noise_grid import LARGEST_TOTAL, SensitivityFacts, noise_grid, on_grid
from dosimeter.measures.reading import AggregateCall, Collector, Source, refuse_constant
from dosimeter.measures.units import Entries, UnitField, WholeNumbers, add_own, add_own_centred, add_own_squares
from dosimeter.problems import for_controller
from dosimeter.sql import constant_tree, expect_only


class _AnySum(ArgumentMeasure, Total, ABC):
    """A sum of whole steps. Leaving an individual out subtracts what their values add; nothing else changes (C1)."""

    __slots__ = ()
    depends_on: ClassVar[Dependence | None] = None
    by_group: ClassVar[bool] = False

    @abstractmethod
    def _write_summand(self, value: exp.Expression) -> exp.Expression:
        """Write the SQL of what one value adds to the sum, in steps of ``unit``."""

    @property
    @abstractmethod
    def _largest_summand(self) -> int:
        """Return the largest absolute value of what one value adds, in steps of ``unit``."""

    @abstractmethod
    def _steps(self, values: IntArray) -> NDArray[Any]:
        """Return what each value of an array adds to the sum, in steps of ``unit``."""

    @abstractmethod
    def _field(self) -> UnitField:
        """Return the field that holds what all values of one individual in a group add up to."""

    def total(self) -> exp.Expression:
        """Write the SQL that gives the exact sum, in steps of ``unit``."""
        return exact_sum(self._write_summand(self.column()), self._largest_summand)

    def _value(self, values: IntArray, people: IntArray) -> Fraction:
        return exact_total(self._steps(values), people) * self.unit

    def _row_effects(self, values: IntArray, people: IntArray) -> FloatArray:
        return self._worth(self._steps(values))

    def unit_fields(self) -> tuple[UnitField, ...]:
        """Return the one field that holds an individual's own sum in a group."""
        return (self._field(),)

    def unit_effects(self, entries: Entries) -> FloatArray:
        """Return what the values of each individual in each group add up to, in real units."""
        return self._worth(entries.whole(self._field()))

    def unit_steps(self, entries: Entries) -> WholeNumbers:
        """Return what the values of each individual in each group add up to, in steps of ``unit``."""
        return entries.whole(self._field())

    def _worth(self, steps: NDArray[Any]) -> FloatArray:
        worth: FloatArray = steps.astype(np.float64) * float(self.unit)
        return worth


class Sum(_AnySum):
    """SUM(x), in steps of the argument's grid."""

    __slots__ = ()
    name: ClassVar[str] = "sum"

    @classmethod
    def over(cls, argument: Argument, label: str, facts: SensitivityFacts) -> Sum:
        """Return the measure. Its sensitivity is m·max(|L|, |U|) for at most m rows per individual and bounds L, U."""
        largest = argument.largest * facts.rows
        grid = noise_grid(argument.unit, largest, facts)
        delta = on_grid(largest * argument.unit, grid)  # S1
        return cls(label, argument.unit, grid, delta, delta, argument)

    def _write_summand(self, value: exp.Expression) -> exp.Expression:
        return value

    @property
    def _largest_summand(self) -> int:
        return self.argument.largest

    def _steps(self, values: IntArray) -> NDArray[Any]:
        return values

    def _field(self) -> UnitField:
        return add_own(self.argument, self.position)


class CentredSum(_AnySum):
    """The sum of how far values lie from the middle of their bounds, in half grid steps (S2).

    That is Σ(2v − (L + U)) over values v with bounds L and U: a whole number.
    """

    __slots__ = ()
    name: ClassVar[str] = "centred sum"

    @classmethod
    def over(cls, argument: Argument, facts: SensitivityFacts) -> CentredSum:
        """Return the measure. Its sensitivity is mw/2 for at most m rows per individual and bounds w apart.

        Raises OverflowError where the sum cannot be counted exactly.
        """
        unit, largest = argument.unit / 2, facts.rows * argument.width  # S2
        grid, delta = _find_grid(unit, largest, facts)
        return cls(f"{cls.name} of {argument.label}", unit, grid, delta, delta, argument)

    def _write_summand(self, value: exp.Expression) -> exp.Expression:
        return self.argument.centred(value)

    @property
    def _largest_summand(self) -> int:
        return self.argument.width

    def total(self) -> exp.Expression:
        """Write the SQL of the exact sum.

        Where 64 bits hold both terms it is 2·Σv − (L + U)·COUNT(v), which needs no arithmetic on each row. Otherwise it
        is a sum of 2v − (L + U).
        """
        argument, column = self.argument, self.column()
        if not fits(2 * argument.largest):
            return exact_sum(self._write_summand(column), self._largest_summand)
        doubled = exp.Mul(this=exp.Literal.number(2), expression=exact_sum(column, argument.largest))
        middle = exp.Mul(this=constant_tree(argument.lower + argument.upper), expression=exp.Count(this=column.copy()))
        return exp.Sub(this=doubled, expression=middle)

    def _steps(self, values: IntArray) -> NDArray[Any]:
        return self._centre(values)

    def _field(self) -> UnitField:
        return add_own_centred(self.argument, self.position)


class CentredSquares(_AnySum):
    """The sum of the squares of how far values lie from the middle of their bounds (S2).

    That is Σ(2v − (L + U))² over values v with bounds L and U: a whole number of quarters of a squared grid step.
    """

    __slots__ = ()
    name: ClassVar[str] = "sum of centred squares"

    @classmethod
    def over(cls, argument: Argument, facts: SensitivityFacts) -> CentredSquares:
        """Return the measure. Its sensitivity is mw²/4 for at most m rows per individual and bounds w apart.

        Raises OverflowError where the sum cannot be counted exactly.
        """
        unit, largest = (argument.unit / 2) ** 2, facts.rows * argument.width**2  # S2
        grid, delta = _find_grid(unit, largest, facts)
        return cls(f"{cls.name} of {argument.label}", unit, grid, delta, delta, argument)

    def _write_summand(self, value: exp.Expression) -> exp.Expression:
        centred = exp.Paren(this=self.argument.centred(value))
        return exp.Mul(this=centred, expression=centred.copy())

    @property
    def _largest_summand(self) -> int:
        return self.argument.width**2

    def _steps(self, values: IntArray) -> NDArray[Any]:
        return exact_squares(self._centre(values))

    def _field(self) -> UnitField:
        return add_own_squares(self.argument, self.position)


def _find_grid(unit: Fraction, largest: int, facts: SensitivityFacts) -> tuple[Fraction, float]:
    """Return the noise grid and the sensitivity of a centred sum, both in real units.

    ``unit``: the real value of one step of the sum. ``largest``: by how many steps one individual can move the sum.
    Raises OverflowError where that is too many.
    """
    if largest >= LARGEST_TOTAL:
        raise OverflowError
    grid = noise_grid(unit, largest, facts)
    return grid, on_grid(largest * unit, grid)


# ---------------------------------------------------------------- reading SQL


def read_sum(collector: Collector, call: AggregateCall) -> SingleMeasure:
    """Read SUM(x): add its measure to the query, and return its estimate. Refuse bounds that allow only 0."""
    expect_only(call.node, "this")
    source = collector.take_value(call)
    if source.argument.largest == 0:
        raise refuse_constant(call)
    measure = Sum.over(source.argument, call.label, collector.facts)
    whole = measure.unit.denominator == 1 and measure.grid == measure.unit
    return SingleMeasure((collector.measure(measure, source),), call.label, integer=whole)


def read_through_sums(
    collector: Collector,
    call: AggregateCall,
    source: Source,
    kind: type[FromSums],
    *sums: type[CentredSum] | type[CentredSquares],
) -> Estimate:
    """Add COUNT and the centred ``sums`` of a source to the query's measures (S2).

    Return the estimate, of class ``kind``, that is computed from them.
    """
    argument = source.argument
    counted = Count.over(argument, f"COUNT({argument.label})", collector.facts)
    measures = [collector.measure(counted, source)]
    measures += [measure_sum(collector, source, each) for each in sums]
    return kind(tuple(measures), call.label, argument)


def measure_sum(collector: Collector, source: Source, kind: type[CentredSum] | type[CentredSquares]) -> int:
    """Add a centred sum to the query's measures and return its index. Refuse one that cannot be counted exactly."""
    argument = source.argument
    try:
        return collector.measure(kind.over(argument, collector.facts), source)
    except OverflowError:
        raise QueryError(
            f"{kind.name} of {argument.label} is too large to count exactly.",
            for_controller("Narrow the bounds or coarsen the resolution in the schema."),
            clause=argument.label,
        ) from None
