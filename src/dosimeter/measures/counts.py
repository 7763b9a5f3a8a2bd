"""COUNT: how many rows there are, or how many values are not NULL."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from sqlglot import exp

from dosimeter.arrays import FloatArray, IntArray
from dosimeter.measures.argument import Argument
from dosimeter.measures.measure import ArgumentMeasure, Dependence, Native, Total
from dosimeter.measures.noise_grid import Facts
from dosimeter.measures.units import Entries, RowCount, UnitField, count_present


@dataclass(frozen=True, slots=True)
class CountRows(Total):
    """COUNT(*)."""

    name: ClassVar[str] = "count"
    depends_on: ClassVar[Dependence | None] = None
    by_group: ClassVar[bool] = False

    @classmethod
    def of_rows(cls, label: str, facts: Facts) -> CountRows:
        """Return the measure with its sensitivity: the most rows of one individual."""
        delta = float(facts.rows)  # S1
        return cls(label, Fraction(1), Fraction(1), delta, delta)

    def total(self) -> exp.Expression:
        """Count the rows."""
        return exp.Count(this=exp.Star())

    def _value(self, values: IntArray, people: IntArray) -> Fraction:
        return Fraction(int(people.sum()))

    def native(self) -> Native:
        """Return COUNT(*)."""
        return Native(exp.Count(this=exp.Star()), float(self.unit), 0, exact=True)

    def _row_effects(self, values: IntArray, people: IntArray) -> FloatArray:
        return np.ones(len(values))  # C1

    def unit_fields(self) -> tuple[UnitField, ...]:
        """Return the field that counts an individual's rows."""
        return (RowCount(),)

    def unit_effects(self, entries: Entries) -> FloatArray:
        """Return how many rows each individual has."""
        return entries.numbers(RowCount())  # C1


@dataclass(frozen=True, slots=True)
class Count(ArgumentMeasure, Total):
    """COUNT(x): how many values are not NULL."""

    name: ClassVar[str] = "count"
    depends_on: ClassVar[Dependence | None] = None
    by_group: ClassVar[bool] = False

    @classmethod
    def over(cls, argument: Argument, label: str, facts: Facts) -> Count:
        """Return the measure with its sensitivity: the most rows of one individual."""
        delta = float(facts.rows)  # S1
        return cls(label, Fraction(1), Fraction(1), delta, delta, argument)

    def total(self) -> exp.Expression:
        """Count the values."""
        return exp.Count(this=self.argument.tree.copy())

    def _value(self, values: IntArray, people: IntArray) -> Fraction:
        return Fraction(int(people.sum()))

    def native(self) -> Native:
        """Return COUNT(x)."""
        return Native(exp.Count(this=self.column()), float(self.unit), 0, exact=True)

    def _row_effects(self, values: IntArray, people: IntArray) -> FloatArray:
        return np.ones(len(values))  # C1

    def unit_fields(self) -> tuple[UnitField, ...]:
        """Return the field that counts an individual's values."""
        return (count_present(self.position),)

    def unit_effects(self, entries: Entries) -> FloatArray:
        """Return how many values each individual has."""
        return entries.numbers(count_present(self.position))  # C1
