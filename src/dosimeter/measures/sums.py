"""SUM, and the two centred sums that AVG, VAR_POP and STDDEV_POP are computed from (S2).

A centred sum adds up how far each value lies from the middle of its bounds, or the squares of that.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from fractions import Fraction
from typing import Any, ClassVar, Self

from numpy.typing import NDArray
from sqlglot import exp

from dosimeter.arrays import FloatArray, IntArray
from dosimeter.errors import QueryError
from dosimeter.measures.argument import Argument
from dosimeter.measures.counts import Count
from dosimeter.measures.estimates import Estimate, FromSums, SingleMeasure
from dosimeter.measures.exact import exact_squares, exact_sum, exact_total, fits
from dosimeter.measures.measure import ArgumentMeasure, OwnTotal
from dosimeter.measures.noise_grid import LARGEST_TOTAL, SensitivityFacts, noise_grid, on_grid
from dosimeter.measures.reading import AggregateCall, Collector, Source, refuse_constant
from dosimeter.measures.units import UnitField, add_own, add_own_centred, add_own_squares
from dosimeter.problems import for_controller
from dosimeter.sql import constant_tree, expect_only


class _AnySum(ArgumentMeasure, OwnTotal, ABC):
    """A sum of whole steps. Leaving an individual out subtracts what their values add; nothing else changes (C1)."""

    __slots__ = ()

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

    def total(self) -> exp.Expression:
        """Write the SQL that gives the exact sum, in steps of ``unit``."""
        return exact_sum(self._write_summand(self.column()), self._largest_summand)

    def _value(self, values: IntArray, people: IntArray) -> Fraction:
        return exact_total(self._steps(values), people) * self.unit

    def _row_effects(self, values: IntArray, people: IntArray) -> FloatArray:
        return self._worth(self._steps(values))


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


class Centred(_AnySum, ABC):
    """A sum of powers of how far values lie from the middle of their bounds, in half grid steps (S2).

    That is Σ(2v − (L + U))ᵖ over values v with bounds L and U: a whole number. ``power``: p.
    """

    __slots__ = ()
    power: ClassVar[int]

    @classmethod
    def over(cls, argument: Argument, facts: SensitivityFacts) -> Self:
        """Return the measure. Its sensitivity is m·wᵖ/2ᵖ for at most m rows per individual and bounds w apart.

        Raises OverflowError where the sum cannot be counted exactly.
        """
        unit, largest = (argument.unit / 2) ** cls.power, facts.rows * argument.width**cls.power  # S2
        if largest >= LARGEST_TOTAL:
            raise OverflowError
        grid = noise_grid(unit, largest, facts)
        delta = on_grid(largest * unit, grid)
        return cls(f"{cls.name} of {argument.label}", unit, grid, delta, delta, argument)

    @property
    def _largest_summand(self) -> int:
        return int(self.argument.width**self.power)


class CentredSum(Centred):
    """The sum of how far values lie from the middle of their bounds, in half grid steps (S2): the first powers."""

    __slots__ = ()
    name: ClassVar[str] = "centred sum"
    power: ClassVar[int] = 1

    def _write_summand(self, value: exp.Expression) -> exp.Expression:
        return self.argument.centred(value)

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


class CentredSquares(Centred):
    """The sum of the squares of how far values lie from the middle of their bounds (S2).

    It is a whole number of quarters of a squared grid step.
    """

    __slots__ = ()
    name: ClassVar[str] = "sum of centred squares"
    power: ClassVar[int] = 2

    def _write_summand(self, value: exp.Expression) -> exp.Expression:
        centred = exp.Paren(this=self.argument.centred(value))
        return exp.Mul(this=centred, expression=centred.copy())

    def _steps(self, values: IntArray) -> NDArray[Any]:
        return exact_squares(self._centre(values))

    def _field(self) -> UnitField:
        return add_own_squares(self.argument, self.position)


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
    *sums: type[Centred],
) -> Estimate:
    """Add COUNT and the centred ``sums`` of a source to the query's measures (S2).

    Return the estimate, of class ``kind``, that is computed from them.
    """
    argument = source.argument
    counted = Count.over(argument, f"COUNT({argument.label})", collector.facts)
    measures = [collector.measure(counted, source)]
    measures += [measure_sum(collector, source, each) for each in sums]
    return kind(tuple(measures), call.label, argument)


def measure_sum(collector: Collector, source: Source, kind: type[Centred]) -> int:
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
