"""The base class of every measure. A new measure is a class that implements all of its abstract methods.

A measure is one noisy number per group. It holds its argument and its sensitivities; it never sees a plan. A *profile*
is the result of a query that lists, for each group, the distinct inputs and how many individuals have each.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from dosimeter.arrays import FloatArray, IntArray
from dosimeter.html import Private
from dosimeter.measures.argument import Argument
from dosimeter.measures.noise_grid import UNDECLARED_PEOPLE
from dosimeter.measures.units import Entries, EntryIndices, UnitField, WholeNumbers
from dosimeter.mechanisms import Norm
from dosimeter.sql import column_tree, constant_tree, is_not_null, wrap


class Dependence(Enum):
    """What the effect of leaving one individual out can depend on, besides this individual's own rows.

    Where it depends on any of these, ε cannot be found privately (V2).
    """

    VALUES = "everybody else's values"
    HOLDERS = "who else holds the same value"
    MEAN = "the mean of the group"
    VARIANCE = "the variance of the group"
    DEVIATION = "the standard deviation of the group"


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class GroupColumn(Private):
    """The distinct inputs of a measure in one group, with one element per input in each array. Private data.

    For a measure that needs no separate groups (``by_group`` is False) it holds the inputs of all groups. ``values``:
    the inputs, in whole grid steps. ``present``: whether each is not NULL. ``people``: how many individuals have each.
    """

    values: IntArray
    present: NDArray[np.bool_]
    people: IntArray


@dataclass(frozen=True, slots=True, repr=False)
class Seen(Private):
    """What one row of a profile holds of an argument that is not NULL there. Private data.

    ``value``: the argument's value or, if ``reduced``, what the profile keeps in its place. ``kept`` returns the
    values of all profile rows of the same group. ``held(True)`` returns a query for the argument's values that one
    individual alone holds, ``held(False)`` for those that several share.
    """

    value: int
    reduced: bool
    kept: Callable[[], IntArray]
    held: Callable[[bool], exp.Select]


@dataclass(frozen=True, slots=True)
class Reduction:
    """The columns by which the profile replaces an argument: they hold only what its measures need of it.

    For a quantile these are the values, clamped to the few around it (C3); for COUNT(DISTINCT x), a flag that says
    whether one individual alone has the value (C4). ``stages``: helper columns, by name. Each stage wraps the query so
    far in one more SELECT that adds its columns; the first stage is the innermost. ``columns``: the replacing columns,
    by name, computed from the argument and the helper columns.
    """

    stages: tuple[dict[str, exp.Expression], ...]
    columns: dict[str, exp.Expression]


@dataclass(frozen=True, slots=True)
class Measure(ABC):
    """One noisy number per group.

    ``name``: what this class of measures is called in JSON and in the ledger. ``depends_on``: what the effect of
    leaving somebody out depends on besides their own rows; None for nothing. ``by_group``: whether that effect is
    computed for each group apart, from the inputs of everybody in it. ``label``: the measure as messages name it.
    ``unit``: the real value of one step of the exact number. ``grid``: the step of the noise. ``grid`` and both
    sensitivities are in real units.
    """

    name: ClassVar[str]
    depends_on: ClassVar[Dependence | None]
    by_group: ClassVar[bool]

    label: str
    unit: Fraction
    grid: Fraction
    sensitivity_l1: float
    sensitivity_l2: float

    def sensitivity(self, norm: Norm) -> float:
        """Return the global sensitivity in the L1 or the L2 norm, in real units."""
        return self.sensitivity_l1 if norm == 1 else self.sensitivity_l2

    @property
    def additive(self) -> bool:
        """Return whether the contribution of one individual depends on their own rows only."""
        return self.depends_on is None

    @property
    def adds_up(self) -> bool:
        """Return whether two groups taken together have the sum of both numbers, even if somebody is in both groups."""
        return self.additive

    @property
    def parameters(self) -> tuple[str | None, int | None]:
        """Return the fraction of a quantile and the floor on the rows of a mean, each None where the measure has none.

        They tell apart measures of one class over the same argument.
        """
        return None, None

    @property
    def empty(self) -> Fraction:
        """Return the value of the measure in a group without rows (C6)."""
        return Fraction(0)

    # ------------------------------------------------------------ grid and size

    @property
    @abstractmethod
    def is_on_grid(self) -> bool:
        """Return whether every exact number is a multiple of the noise grid, so that it needs no rounding (M1)."""

    @abstractmethod
    def largest_value(self, individuals: int | None) -> int:
        """Return the largest absolute value that the measure can have, in steps of the noise grid.

        ``individuals``: how many are declared; None if that is not declared.
        """

    def round_to_grid(self, number: Fraction, individuals: int | None) -> int:
        """Return a number in whole steps of the noise grid, cut to the largest absolute value: what gets the noise.

        Cutting never moves two numbers further apart, so Δ stays the same. ``individuals``: how many are declared; None
        if that is not declared.
        """
        most = self.largest_value(individuals)
        return max(-most, min(most, math.floor(number / self.grid + Fraction(1, 2))))

    # ------------------------------------------------------------ answer

    @abstractmethod
    def total(self) -> exp.Expression | None:
        """Write the SQL aggregate that gives a group's exact answer, in steps of ``unit``; None if there is none.

        Counts and sums have such an aggregate, other measures do not. It reads the argument from its column in a
        profile query.
        """

    def value(self, column: GroupColumn) -> Fraction | exp.Expression:
        """Return the exact answer of a group, in real units, from the group's distinct inputs.

        Where these are not enough, return SQL instead, which computes the answer in a query over the group's rows.
        """
        present = column.present
        values, people = column.values[present], column.people[present]
        return self._value(values, people) if len(values) else self.empty

    @abstractmethod
    def _value(self, values: IntArray, people: IntArray) -> Fraction | exp.Expression:
        """Return the exact answer in real units, or SQL that gives it, from one or more inputs that are not NULL."""

    # ------------------------------------------------------------ leaving one individual out

    def row_effects(self, column: GroupColumn) -> FloatArray:
        """Return, for each distinct input, the group's answer minus the answer without one such row, in real units.

        That is c_i = q(x) − q(x₋ᵢ), where everybody has one row. It is 0 for a NULL, which contributes nothing (C7).
        """
        result = np.zeros(len(column.people))
        present = column.present
        if present.any():
            result[present] = self._row_effects(column.values[present], column.people[present])
        return result

    @abstractmethod
    def _row_effects(self, values: IntArray, people: IntArray) -> FloatArray:
        """Return, for each of these inputs, the group's answer minus the answer without one such row, in real units.

        That is c_i = q(x) − q(x₋ᵢ), where everybody has one row. No input is NULL. ``people``: how many individuals
        have each.
        """

    @abstractmethod
    def unit_fields(self) -> tuple[UnitField, ...]:
        """Return the fields that the profile must hold per individual and group, if somebody can have several rows."""

    @abstractmethod
    def unit_effects(self, entries: Entries) -> FloatArray:
        """Return the group's answer minus the answer without an individual's rows, for each entry, in real units.

        An entry is one individual in one group. The effect is c_i = q(x) − q(x₋ᵢ): all rows that the individual has in
        the group are left out.
        """

    def unit_steps(self, entries: Entries) -> WholeNumbers | None:
        """Return what each individual in each of their groups adds to the group's answer, in steps of ``unit``.

        None where the answer is not the sum of such parts.
        """
        return None


@dataclass(frozen=True, slots=True)
class ArgumentMeasure(Measure, ABC):
    """A measure over the argument of an aggregate.

    ``position``: the index of the argument in the plan. ``nth``: the index of this measure among those of its class
    that read the same argument.
    """

    argument: Argument
    position: int = 0
    nth: int = 0

    @property
    def column_name(self) -> str:
        """Return the name of the argument's column in a profile query."""
        return f"a{self.position}"

    def column(self) -> exp.Column:
        """Write the argument's column of a profile query."""
        return column_tree(self.column_name)

    def _centre(self, values: IntArray) -> IntArray:
        """Return 2v − (L + U): how far each value v lies from the middle of its bounds, in half grid steps (S2)."""
        return 2 * values - (self.argument.lower + self.argument.upper)

    def condition(self, seen: Seen | None) -> exp.Expression:
        """Write the SQL test that finds the records behind one profile row.

        ``seen``: what the row holds of the argument; None where the argument is NULL.
        """
        tree = wrap(self.argument.tree.copy())
        if seen is None:
            return exp.Is(this=tree, expression=exp.Null())
        if self.argument.is_presence:
            return is_not_null(tree)
        return self._condition(seen)

    def _condition(self, seen: Seen) -> exp.Expression:
        """Write the SQL test that finds the records behind one profile row, where the argument is not NULL."""
        return exp.EQ(this=wrap(self.argument.tree.copy()), expression=constant_tree(seen.value))


class Reducible(ArgumentMeasure, ABC):
    """A measure that needs only a few numbers computed from its argument, such as how many rows lie above a bound.

    If all measures of an argument need the same few numbers, the profile keeps these in place of the argument.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def reduced_name(self) -> str:
        """Return the name of the profile's column that holds what this measure reads."""

    @classmethod
    @abstractmethod
    def reduce(cls, readers: Sequence[Self], groups: Sequence[str], people: str, rows: int) -> Reduction:
        """Write the columns that replace the argument, for all measures of this class that read it: the ``readers``.

        ``groups``: the names of the group columns. ``people``: the name of the column that counts individuals.
        ``rows``: the most rows that one individual has.
        """


class Total(Measure, ABC):
    """A measure to which each individual adds at most Δ, so that n people make it at most nΔ (S1)."""

    __slots__ = ()

    @property
    def is_on_grid(self) -> bool:
        """Return whether ``unit`` is a multiple of the noise grid, so that exact numbers need no rounding."""
        return (self.unit / self.grid).denominator == 1

    def largest_value(self, individuals: int | None) -> int:
        """Return the most that this many individuals can add up to, in steps of the noise grid.

        ``individuals``: how many are declared; if None, 2³⁰ are assumed.
        """
        people = individuals or UNDECLARED_PEOPLE
        return math.ceil(people * Fraction(self.sensitivity_l1) / self.grid)


class OwnTotal(Total, ABC):
    """A total to which each individual adds what their own rows add up to: leaving them out subtracts that (C1)."""

    __slots__ = ()
    depends_on: ClassVar[Dependence | None] = None
    by_group: ClassVar[bool] = False

    @abstractmethod
    def _field(self) -> UnitField:
        """Return the field of a profile entry that holds what one individual's rows in one group add up to."""

    def unit_fields(self) -> tuple[UnitField, ...]:
        """Return the one field that the profile must hold."""
        return (self._field(),)

    def unit_effects(self, entries: Entries) -> FloatArray:
        """Return what each individual adds in each of their groups, in real units."""
        return self._worth(self.unit_steps(entries))

    def unit_steps(self, entries: Entries) -> WholeNumbers:
        """Return what each individual adds in each of their groups, in steps of ``unit``."""
        return entries.whole(self._field())

    def _worth(self, steps: NDArray[Any]) -> FloatArray:
        worth: FloatArray = steps.astype(np.float64) * float(self.unit)
        return worth


class Bounded(ArgumentMeasure, ABC):
    """A measure that stays within the bounds of its argument, however many people there are."""

    __slots__ = ()

    @property
    def empty(self) -> Fraction:
        """Return the middle of the bounds, in real units (C6)."""
        return self.argument.middle

    def largest_value(self, individuals: int | None) -> int:
        """Return the larger absolute bound, in whole steps of the noise grid, however many people are in the table."""
        return math.ceil(self.argument.largest * self.argument.unit / self.grid)


class Quotient(ArgumentMeasure, ABC):
    """A quotient of totals of a group, as one number that itself gets noise: it is on no grid, and no total."""

    __slots__ = ()
    by_group: ClassVar[bool] = True

    @property
    def is_on_grid(self) -> bool:
        return False

    def total(self) -> exp.Expression | None:
        return None

    def unit_effects(self, entries: Entries) -> FloatArray:
        """Return the group's number minus its number without an individual's values, for each entry."""
        totals = [entries.whole(field) for field in self.unit_fields()]

        def leave_out(indices: EntryIndices) -> FloatArray:
            return self._leave_out([own[indices] for own in totals], entries.times[indices])

        return entries.by_group(leave_out)

    @abstractmethod
    def _leave_out(self, own: Sequence[NDArray[Any]], people: IntArray) -> FloatArray:
        """Return by how much each individual of a group moves its number, in real units.

        ``own``: for each of ``unit_fields``, what the individual adds to the group's total. ``people``: how many
        individuals are alike in all of these.
        """


def count_present_people(name: str, people: str) -> exp.Expression:
    """Write the number of individuals behind a profile row, 0 where the argument is NULL.

    ``name``: the argument's column. ``people``: the column that counts individuals.
    """
    present = is_not_null(column_tree(name))
    return exp.Case(ifs=[exp.If(this=present, true=column_tree(people))], default=exp.Literal.number(0))
