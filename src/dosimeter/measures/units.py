"""The fields that a profile holds of an individual with several rows. Works on trees and arrays; reads no data.

Here an *entry* is all that one individual contributes to one declared group, reduced to a few fields. Individuals with
equal entries in the same group share one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from dosimeter.arrays import FloatArray, IntArray
from dosimeter.html import Private
from dosimeter.measures.argument import Argument
from dosimeter.measures.exact import exact_total

Values = tuple[tuple[int, int], ...]  # of one individual: each value, and how often
WholeNumbers = NDArray[Any]  # int64, or Python's own integers where these do not fit
EntryIndices = NDArray[np.intp]

LARGEST_TERM = 2**31 - 1  # PostgreSQL adds 32-bit integers in 64 bits, and 64-bit ones as slow decimals
LARGEST_SUM = 2**62  # one individual's total below it fits into 64 bits, where engines add fastest
LARGEST_SQUARE = 2**63  # what 64-bit integers cannot hold is multiplied as decimals
ROWS = "rows_total"


@dataclass(frozen=True, slots=True)
class UnitRows:
    """The rows that meet the WHERE and belong to a declared group, for queries over them.

    ``select`` returns a query for those rows that pass further tests, with the columns ``keys`` (the individual, and
    the group if there is one) and the arguments a0, a1 …. ``most``: how many rows an individual has at most.
    """

    select: Callable[..., exp.Select]
    keys: tuple[str, ...]
    most: int

    def key_columns(self) -> list[exp.Expression]:
        """Write the columns that tell entries apart: the individual, and the group if there is one."""
        return [exp.column(key) for key in self.keys]


@dataclass(frozen=True, slots=True)
class UnitField(ABC):
    """One field of an entry (what one individual contributes to one group). Fields are sorted by ``place``.

    ``place``: the index of the argument (−1 without one), then a number for the kind of field, then the index among
    fields of that kind.
    """

    name: str
    place: tuple[int, int, int]


class ArgumentField(UnitField, ABC):
    """A field that reads an argument of an aggregate from an individual's rows in a group."""

    __slots__ = ()

    @property
    def column(self) -> exp.Expression:
        """Return the argument's column, as a tree: a0, a1 …, by the argument's index in the plan."""
        return exp.column(f"a{self.place[0]}")

    def value(self, inside: exp.Expression | None) -> exp.Expression:
        """Write the argument's column. ``inside``: a test; rows that do not pass it give NULL. None for no test."""
        return self.column if inside is None else exp.Case(ifs=[exp.If(this=inside.copy(), true=self.column)])


class Tally(UnitField, ABC):
    """A field that is a whole number: an aggregate over one individual's own rows in a group."""

    __slots__ = ()

    @abstractmethod
    def tree(self, rows: int, inside: exp.Expression | None = None) -> exp.Expression:
        """Write the aggregate, over at most ``rows`` rows of one individual.

        ``inside``: aggregate only rows that pass this test; None for all rows.
        """


@dataclass(frozen=True, slots=True)
class RowCount(Tally):
    """The number of the individual's rows."""

    name: str = ROWS
    place: tuple[int, int, int] = (-1, 0, 0)

    def tree(self, rows: int, inside: exp.Expression | None = None) -> exp.Expression:
        """Write COUNT(*): how many rows the individual has, or how many that pass the test ``inside``."""
        return _only(exp.Count(this=exp.Star()), inside)


class PresentCount(ArgumentField, Tally):
    """The number of the individual's values that are not NULL."""

    __slots__ = ()

    def tree(self, rows: int, inside: exp.Expression | None = None) -> exp.Expression:
        """Write COUNT of the argument: how many of the individual's values, in rows ``inside``, are not NULL."""
        return _only(exp.Count(this=self.column), inside)


@dataclass(frozen=True, slots=True)
class OwnSum(ArgumentField, Tally):
    """A sum over one individual's own values, exactly (S8).

    ``term``: writes what one value adds. ``largest``: the largest absolute value of a term.
    """

    term: Callable[[exp.Expression], exp.Expression]
    largest: int

    def tree(self, rows: int, inside: exp.Expression | None = None) -> exp.Expression:
        """Write the exact SUM of the terms of one individual's values in rows ``inside``; 0 if every value is NULL.

        ``rows``: how many rows an individual has at most. With ``largest`` it decides in which type terms are added:
        in the type that engines add fastest.
        """
        term = self.term(self.column)
        if self.largest * rows >= LARGEST_SUM:
            term = exp.Cast(this=term, to=exp.DataType.build("DECIMAL(38, 0)"))
        elif self.largest <= LARGEST_TERM:
            term = exp.Cast(this=term, to=exp.DataType.build("INT"))
        return exp.Coalesce(this=_only(exp.Sum(this=term), inside), expressions=[exp.Literal.number(0)])


def _only(aggregate: exp.Expression, inside: exp.Expression | None) -> exp.Expression:
    """Write an aggregate over the rows that pass a test; None for all rows."""
    return aggregate if inside is None else exp.Filter(this=aggregate, expression=exp.Where(this=inside.copy()))


def count_present(position: int) -> PresentCount:
    """Return the field that counts an individual's values of an argument that are not NULL.

    ``position``: the index of the argument in the plan.
    """
    return PresentCount(f"n{position}", (position, 0, 0))


def add_own(argument: Argument, position: int) -> OwnSum:
    """Return the field that adds up an individual's values of an argument, Σv, in grid steps."""
    return OwnSum(f"t{position}", (position, 1, 0), lambda value: value, argument.largest)


def add_own_centred(argument: Argument, position: int) -> OwnSum:
    """Return the field that adds up 2v − (L + U) over an individual's values v of an argument (S2).

    L and U: the bounds. The sum is in half grid steps.
    """
    return OwnSum(f"s{position}", (position, 2, 0), argument.centred, argument.width)


def add_own_squares(argument: Argument, position: int) -> OwnSum:
    """Return the field that adds up (2v − (L + U))² over an individual's values v of an argument (S2).

    L and U: the bounds. The sum is in quarters of a squared grid step.
    """
    largest = argument.width**2

    def square(value: exp.Expression) -> exp.Expression:
        centred: exp.Expression = exp.Paren(this=argument.centred(value))
        if largest >= LARGEST_SQUARE:
            centred = exp.Cast(this=centred, to=exp.DataType.build("DECIMAL(38, 0)"))
        return exp.Mul(this=centred, expression=centred.copy())

    return OwnSum(f"q{position}", (position, 3, 0), square, largest)


class Joined(ArgumentField, ABC):
    """A field that needs a query of its own, joined to that of the other fields by individual and group."""

    __slots__ = ()

    @abstractmethod
    def query(self, rows: UnitRows) -> exp.Select:
        """Write the query: one row per individual and group, with the keys of ``rows`` and this field."""

    @abstractmethod
    def nothing(self) -> exp.Expression:
        """Write the field's value for an individual and group that the query does not return."""


@dataclass(frozen=True, slots=True, repr=False)
class Entries(Private):
    """The entries of a unit profile: what each individual contributes to each group. Private data.

    ``group``: the index of each entry's group. ``times``: how many individuals in that group have an equal entry.
    ``fields``: by the name of a field, an array with one number per entry. Where a field is a list of values, that
    number is an index into ``values[name]``, which holds the different lists.
    """

    group: IntArray
    times: IntArray
    fields: Mapping[str, WholeNumbers]
    values: Mapping[str, tuple[Values, ...]]

    def whole(self, field: UnitField) -> WholeNumbers:
        """Return one field of every entry, as exact integers."""
        return self.fields[field.name]

    def numbers(self, field: UnitField) -> FloatArray:
        """Return one field of every entry, as floats."""
        return self.fields[field.name].astype(np.float64)

    def by_group(self, effects: Callable[[EntryIndices], FloatArray]) -> FloatArray:
        """Return, for each entry, the effect of leaving out its individual, computed one group at a time.

        For effects that depend on the rest of the group. ``effects``: the function that computes them; it takes the
        indices of one group's entries and returns the effect of each.
        """
        result = np.zeros(len(self.group))
        for indices in self._split():
            result[indices] = effects(indices)
        return result

    def add_up(self, steps: WholeNumbers, groups: int) -> list[int]:
        """Return the exact total of each group, in steps. An entry counts once for each individual who has it.

        ``steps``: what each entry (one individual's rows in one group) adds to its group. ``groups``: how many groups
        there are.
        """
        totals = [0] * groups
        for indices in self._split():
            totals[int(self.group[indices[0]])] = exact_total(steps[indices], self.times[indices])
        return totals

    def _split(self) -> list[EntryIndices]:
        """Return, for each group that has entries, the indices of these."""
        numbers = self.group.astype(np.min_scalar_type(self.group.max(initial=0)))  # short ones are sorted faster
        ordered = np.argsort(numbers, kind="stable")
        borders = np.flatnonzero(np.diff(self.group[ordered])) + 1
        return [indices for indices in np.split(ordered, borders) if len(indices)]
