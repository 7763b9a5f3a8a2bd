"""COUNT(DISTINCT x): how many different values, or individuals, there are.

A value disappears when its only holder is left out (C4). Where x is the unit, everybody is the only holder of their
value.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import ClassVar, Self

import numpy as np
from sqlglot import exp

from dosimeter.arrays import FloatArray, IntArray
from dosimeter.measures.argument import Argument
from dosimeter.measures.measure import (
    ArgumentMeasure,
    Dependence,
    OwnTotal,
    Reducible,
    Reduction,
    Seen,
    Total,
    count_present_people,
)
from dosimeter.measures.noise_grid import SensitivityFacts
from dosimeter.measures.units import Entries, Joined, UnitField, UnitRows, WholeNumbers, count_present
from dosimeter.sql import alias, column_tree, is_not_null, select_from, window, wrap


class CountDistinct(Reducible, Total):
    """COUNT(DISTINCT x), where x is not the unit: how many different values there are."""

    __slots__ = ()
    name: ClassVar[str] = "count distinct"
    depends_on: ClassVar[Dependence | None] = Dependence.HOLDERS
    by_group: ClassVar[bool] = False  # the profile already tells who holds a value alone

    @classmethod
    def over(cls, argument: Argument, label: str, facts: SensitivityFacts, values: int | None = None) -> CountDistinct:
        """Return the measure with its sensitivities.

        ``values``: how many different values x can have; None if that is not known.
        """
        return cls(label, Fraction(1), Fraction(1), *count_different(facts, values), argument)

    def total(self) -> exp.Expression:
        """Write COUNT(DISTINCT x), which gives the exact answer."""
        return exp.Count(this=exp.Distinct(expressions=[self.column()]))

    def _value(self, values: IntArray, people: IntArray) -> exp.Expression:
        return self.total()  # the profile keeps who holds a value alone, not how many values there are

    @property
    def reduced_name(self) -> str:
        """Return the name of the profile column that replaces x: 1 where one individual alone has the value, else 0."""
        return f"{self.column_name}_alone"

    @classmethod
    def reduce(cls, readers: Sequence[Self], groups: Sequence[str], people: str, rows: int) -> Reduction:
        """Write the profile column in place of x: 1 if one individual alone has x's value in a group, else 0 (C4).

        The parameters are those of ``Reducible.reduce``.
        """
        name = readers[0].column_name
        held = f"{name}_holders"
        stage = {held: window(exp.Sum(this=count_present_people(name, people)), [*groups, name])}
        alone = exp.EQ(this=column_tree(held), expression=exp.Literal.number(1))
        flag = exp.Case(ifs=[exp.If(this=alone, true=exp.Literal.number(1))], default=exp.Literal.number(0))
        return Reduction((stage,), {reader.reduced_name: flag.copy() for reader in readers})

    def _row_effects(self, values: IntArray, people: IntArray) -> FloatArray:
        return values.astype(np.float64)  # C4: 1 for whoever alone holds a value

    def _condition(self, seen: Seen) -> exp.Expression:
        """Write the SQL test that finds the records behind one profile row.

        If ``seen.value`` is 1, these are the records whose value of x one individual alone holds in the group; if it is
        0, those whose value is NULL or shared by several individuals.
        """
        alone = seen.value == 1
        tree = wrap(self.argument.tree.copy())
        held = exp.In(this=tree, query=seen.held(alone).subquery(copy=False))
        if alone:
            return held
        return exp.Paren(this=exp.Or(this=exp.Is(this=tree.copy(), expression=exp.Null()), expression=held))

    def unit_fields(self) -> tuple[UnitField, ...]:
        """Return the one field that the profile must hold: how many values only this individual has in a group."""
        return (self._held_alone(),)

    def unit_effects(self, entries: Entries) -> FloatArray:
        """Return how many values each individual has in each of their groups that nobody else has there."""
        return entries.numbers(self._held_alone())  # C4

    def _held_alone(self) -> HeldAlone:
        return HeldAlone(f"d{self.position}", (self.position, 4, 0))


def count_different(facts: SensitivityFacts, values: int | None) -> tuple[float, float]:
    """Return the L1 and the L2 sensitivity of counting different values in each group, for all groups together (Q3).

    ``values``: how many different values one individual can have in a group, however many rows they have there; None if
    that is not known.
    """
    rows, groups = facts.rows, facts.groups
    if values is None or values >= rows:
        return float(rows), float(rows)  # S1
    full = min(groups, rows // values)  # groups in which the individual has every value
    left = rows - full * values if full < groups else 0
    return float(min(rows, values * groups)), math.sqrt(full * values**2 + left**2)


class CountIndividuals(ArgumentMeasure, OwnTotal):
    """COUNT(DISTINCT unit): how many individuals there are, however many rows each has."""

    __slots__ = ()
    name: ClassVar[str] = "count individuals"

    @classmethod
    def over(cls, argument: Argument, label: str, facts: SensitivityFacts) -> CountIndividuals:
        """Return the measure. One individual changes the number by 1 in each group that they are in (Q3)."""
        return cls(label, Fraction(1), Fraction(1), *count_different(facts, 1), argument)  # Q3

    @property
    def adds_up(self) -> bool:
        """Return False: an individual with rows in two groups counts only once in both groups together."""
        return False

    def total(self) -> exp.Expression:
        """Write COUNT(DISTINCT unit), which gives the exact answer."""
        return exp.Count(this=exp.Distinct(expressions=[self.column()]))

    def _value(self, values: IntArray, people: IntArray) -> exp.Expression:
        return self.total()  # the profile counts rows, and an individual may have several

    def _row_effects(self, values: IntArray, people: IntArray) -> FloatArray:
        return np.ones(len(values))  # C1

    def _field(self) -> UnitField:
        """Return the field that holds how many rows of an individual in a group have a unit, and not NULL in it."""
        return count_present(self.position)

    def unit_steps(self, entries: Entries) -> WholeNumbers:
        """Return 1 for each individual in each group where they have a row whose unit is not NULL, otherwise 0."""
        return (entries.whole(self._field()) > 0).astype(np.int64)  # C1


class HeldAlone(Joined):
    """The field that counts the values that one individual holds and nobody else in the group does (C4)."""

    __slots__ = ()

    def query(self, rows: UnitRows) -> exp.Select:
        """Write the query that finds each group's values with a single holder, and counts them for each holder."""
        unit, *groups = rows.key_columns()
        first, last = exp.Min(this=unit), exp.Max(this=unit.copy())
        held_rows, same = rows.select(is_not_null(self.column)), exp.EQ(this=first.copy(), expression=last)
        source = held_rows.subquery("held_rows", copy=False)
        lonely = select_from(source, alias(first, "holder"), *groups, group=[*groups, self.column], having=same)
        keys = [exp.column("holder"), *groups]
        shown = [alias(keys[0], rows.keys[0]), *keys[1:], alias(exp.Count(this=exp.Star()), self.name)]
        return select_from(lonely.subquery("lonely", copy=False), *shown, group=keys)

    def nothing(self) -> exp.Expression:
        """Write 0: an individual whom the query does not return holds no value alone."""
        return exp.Literal.number(0)
