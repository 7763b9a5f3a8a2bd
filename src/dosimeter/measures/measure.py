"""The base class of every measure. A new measure is a class that implements all of these methods.

A measure is one noisy number per group. It holds its argument and its sensitivities; it never sees a plan.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from dosimeter.arrays import FloatArray, IntArray
from dosimeter.measures.argument import Argument
from dosimeter.measures.noise_grid import UNDECLARED_PEOPLE
from dosimeter.measures.units import Entries, UnitField, Whole
from dosimeter.mechanisms import Norm
from dosimeter.sql import column_tree, is_there, whole_number, wrap


class Dependence(Enum):
    """What one individual's influence depends on besides their own rows. Then ε cannot be found privately (V2)."""

    VALUES = "everybody else's values"
    HOLDERS = "who else holds the same value"
    MEAN = "the mean of the group"
    VARIANCE = "the variance of the group"
    DEVIATION = "the standard deviation of the group"


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class GroupColumn:
    """The distinct inputs of one group: in whole steps, which are not NULL, and how many have each. Private."""

    values: IntArray
    present: NDArray[np.bool_]
    people: IntArray

    def __repr__(self) -> str:
        return "GroupColumn(redacted)"


@dataclass(frozen=True, slots=True)
class Native:
    """A measure as SQL's own aggregate over a column.

    ``worth``: the real value of one unit of the result. ``empty``: the result of an empty group (C6). ``exact``:
    whether results are whole numbers and are compared as such.
    """

    tree: exp.Expression
    worth: float
    empty: float
    exact: bool = False


@dataclass(frozen=True, slots=True, repr=False)
class Seen:
    """The content of a profile row for one argument, where this is not NULL. Private.

    ``reduced``: whether the profile keeps only what the measure reads of the value. ``kept`` gives all values of the
    group, ``held`` a query for the values that one individual holds alone, or that several share.
    """

    value: int
    reduced: bool
    kept: Callable[[], IntArray]
    held: Callable[[bool], exp.Select]

    def __repr__(self) -> str:
        return "Seen(redacted)"


@dataclass(frozen=True, slots=True)
class Reduction:
    """The replacement of an argument in the profile by the few values that its measures read.

    ``stages``: columns to add, each stage in a query around the one before. ``columns``: what replaces the argument.
    """

    stages: tuple[dict[str, exp.Expression], ...]
    columns: dict[str, exp.Expression]


@dataclass(frozen=True, slots=True)
class Measure(ABC):
    """One noisy number per group.

    ``unit``: the real value of one step of the exact integer. ``grid``: the step of the noise. ``name``: the name in
    JSON and in the ledger. ``by_group``: whether leaving somebody out depends on the rest of their group.
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
        """Return the global sensitivity in this norm."""
        return self.sensitivity_l1 if norm == 1 else self.sensitivity_l2

    @property
    def additive(self) -> bool:
        """Return whether the contribution of one individual depends on their own rows only."""
        return self.depends_on is None

    @property
    def adds_up(self) -> bool:
        """Return whether the number of several groups together is the sum of theirs, whoever is in several of them."""
        return self.additive

    @property
    def parameters(self) -> tuple[str | None, int | None]:
        """Return what distinguishes measures of one class over the same argument: a fraction, a floor on rows."""
        return None, None

    @property
    def empty(self) -> Fraction:
        """Return the value of the measure in a group without rows (C6)."""
        return Fraction(0)

    # ------------------------------------------------------------ grid and size

    @property
    @abstractmethod
    def is_on_grid(self) -> bool:
        """Return whether measured values need no rounding to the noise grid (M1)."""

    @abstractmethod
    def largest_total(self, individuals: int | None) -> int:
        """Return the largest size of the measure over so many people, in whole steps of the noise grid."""

    # ------------------------------------------------------------ answer

    @abstractmethod
    def total(self) -> exp.Expression | None:
        """Write the exact answer in whole steps of the unit, as SQL over a group's rows; None if it is no total.

        An argument is read from its column, by its name in a profile query.
        """

    def value(self, column: GroupColumn) -> Fraction | exp.Expression:
        """Return the exact answer from the group's distinct inputs.

        Where these are not enough, return SQL instead: a query over the group's rows has to add it up.
        """
        present = column.present
        values, people = column.values[present], column.people[present]
        return self._value(values, people) if len(values) else self.empty

    @abstractmethod
    def _value(self, values: IntArray, people: IntArray) -> Fraction | exp.Expression:
        """Return the exact answer, or the SQL that gives it, from at least one input, none of them NULL."""

    @abstractmethod
    def native(self) -> Native:
        """Return the measure as SQL defines it, over the profile's columns, for really leaving records out."""

    # ------------------------------------------------------------ leaving one individual out

    def row_effects(self, column: GroupColumn) -> FloatArray:
        """Return c_i = q(x) − q(x₋ᵢ) in real units, for each distinct input. A NULL contributes nothing (C7)."""
        result = np.zeros(len(column.people))
        present = column.present
        if present.any():
            result[present] = self._row_effects(column.values[present], column.people[present])
        return result

    @abstractmethod
    def _row_effects(self, values: IntArray, people: IntArray) -> FloatArray:
        """Return the effects of individuals with one row each, none of them NULL."""

    @abstractmethod
    def unit_fields(self) -> tuple[UnitField, ...]:
        """Return the fields that the profile must hold of an individual with several rows."""

    @abstractmethod
    def unit_effects(self, entries: Entries) -> FloatArray:
        """Return c_i in real units for each entry: all rows of an individual in one group are left out at once."""

    def unit_steps(self, entries: Entries) -> Whole | None:
        """Return what each entry adds to the answer, in steps of the unit; None where entries do not add up to it."""
        return None


@dataclass(frozen=True, slots=True)
class ArgumentMeasure(Measure, ABC):
    """A measure over the argument of an aggregate.

    ``position``: the argument's number in the plan. ``nth``: the measure's among those of its class that read it.
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
        """Return 2v − (L + U), in half steps (S2)."""
        return 2 * values - (self.argument.lower + self.argument.upper)

    def condition(self, seen: Seen | None) -> exp.Expression:
        """Write the test that the records of a profile row pass; None is a row where the argument is NULL."""
        tree = wrap(self.argument.tree.copy())
        if seen is None:
            return exp.Is(this=tree, expression=exp.Null())
        if self.argument.is_presence:
            return is_there(tree)
        return self._condition(seen)

    def _condition(self, seen: Seen) -> exp.Expression:
        """Write the test for a value that the profile keeps."""
        return exp.EQ(this=wrap(self.argument.tree.copy()), expression=whole_number(seen.value))


@dataclass(frozen=True, slots=True)
class Reducible(ArgumentMeasure, ABC):
    """A measure that reads only a few values instead of its whole argument.

    Where all measures of an argument are of one such class, the profile keeps these values and drops the argument.
    """

    @property
    @abstractmethod
    def reduced_name(self) -> str:
        """Return the name of the profile's column that holds what this measure reads."""

    @classmethod
    @abstractmethod
    def reduce(cls, readers: Sequence[Self], groups: Sequence[str], people: str, rows: int) -> Reduction:
        """Write the columns for all measures of this class that read the argument.

        ``groups``: the group columns. ``people``: the column that counts individuals. ``rows``: the most rows of one.
        """


@dataclass(frozen=True, slots=True)
class Total(Measure, ABC):
    """A number to which each individual adds at most Δ, so that it is at most Δ times the people (S1)."""

    @property
    def is_on_grid(self) -> bool:
        """Return whether totals, in steps of their unit, are whole steps of the grid."""
        return (self.unit / self.grid).denominator == 1

    def largest_total(self, individuals: int | None) -> int:
        """Return the largest size that so many people can reach together."""
        people = individuals or UNDECLARED_PEOPLE
        return math.ceil(people * Fraction(self.sensitivity_l1) / self.grid)


@dataclass(frozen=True, slots=True)
class Bounded(ArgumentMeasure, ABC):
    """A number that stays within the bounds of its argument, however many people there are."""

    @property
    def empty(self) -> Fraction:
        """Return the middle of the bounds (C6)."""
        return self.argument.middle

    def largest_total(self, individuals: int | None) -> int:
        """Return the larger bound, however many people are in the table."""
        return math.ceil(self.argument.largest * self.argument.unit / self.grid)


def count_present_people(name: str, people: str) -> exp.Expression:
    """Write the number of individuals that a profile row stands for, 0 where the argument is NULL."""
    present = is_there(column_tree(name))
    return exp.Case(ifs=[exp.If(this=present, true=column_tree(people))], default=exp.Literal.number(0))
