"""COUNT and COUNT_IF: how many rows there are, how many values are not NULL, how often a condition holds."""

from __future__ import annotations

from abc import ABC
from fractions import Fraction
from typing import ClassVar

import numpy as np
from sqlglot import exp

from dosimeter.arrays import FloatArray, IntArray
from dosimeter.measures.argument import Argument
from dosimeter.measures.distinct import CountDistinct, CountIndividuals
from dosimeter.measures.estimates import SingleMeasure
from dosimeter.measures.measure import ArgumentMeasure, Measure, OwnTotal
from dosimeter.measures.noise_grid import SensitivityFacts
from dosimeter.measures.reading import AggregateCall, Collector, Source
from dosimeter.measures.units import RowCount, UnitField, count_present
from dosimeter.sql import expect_only, refusal


class _AnyCount(OwnTotal, ABC):
    """A count of rows, or of the rows with a value: leaving an individual out subtracts their own rows (C1)."""

    __slots__ = ()
    name: ClassVar[str] = "count"

    def _value(self, values: IntArray, people: IntArray) -> Fraction:
        return Fraction(int(people.sum()))

    def _row_effects(self, values: IntArray, people: IntArray) -> FloatArray:
        return np.ones(len(values))


class CountRows(_AnyCount):
    """COUNT(*): how many rows there are."""

    __slots__ = ()

    @classmethod
    def of_rows(cls, label: str, facts: SensitivityFacts) -> CountRows:
        """Return the measure. Its sensitivity is the most rows that one individual can have."""
        delta = float(facts.rows)  # S1
        return cls(label, Fraction(1), Fraction(1), delta, delta)

    def total(self) -> exp.Expression:
        """Write COUNT(*), which gives the exact answer."""
        return exp.Count(this=exp.Star())

    def _field(self) -> UnitField:
        return RowCount()


class Count(ArgumentMeasure, _AnyCount):
    """COUNT(x): how many values are not NULL."""

    __slots__ = ()

    @classmethod
    def over(cls, argument: Argument, label: str, facts: SensitivityFacts) -> Count:
        """Return the measure. Its sensitivity is the most rows that one individual can have."""
        delta = float(facts.rows)  # S1
        return cls(label, Fraction(1), Fraction(1), delta, delta, argument)

    def total(self) -> exp.Expression:
        """Write COUNT of the argument's column, which gives the exact answer."""
        return exp.Count(this=self.column())

    def _field(self) -> UnitField:
        return count_present(self.position)


# ---------------------------------------------------------------- reading SQL


def read_count(collector: Collector, call: AggregateCall) -> SingleMeasure:
    """Read COUNT(*), COUNT(x) or COUNT(DISTINCT x): add its measure to the query, and return its estimate."""
    node, label = call.node, call.label
    expect_only(node, "this")
    argument = node.this
    if argument is None:
        raise refusal(node, "COUNT() counts nothing. Write COUNT(*) or COUNT(column).")
    if isinstance(argument, exp.Distinct):
        expect_only(argument, "expressions")
        if len(argument.expressions) != 1:
            raise refusal(node, f"{label}: COUNT(DISTINCT) takes one column.")
        return _count_distinct(collector, call, argument.expressions[0])
    if isinstance(argument, (exp.Star, exp.Literal)):  # COUNT(1) is COUNT(*)
        expect_only(argument, *(("this", "is_string") if isinstance(argument, exp.Literal) else ()))
        if call.condition is None:
            return _count(collector, CountRows.of_rows(label, collector.facts))
        argument = exp.Literal.number(1)
    source = collector.take(call, argument)
    return _count(collector, Count.over(source.argument, label, collector.facts), source)


def read_count_if(collector: Collector, call: AggregateCall) -> SingleMeasure:
    """Read COUNT_IF(condition): add its measure to the query, and return its estimate.

    It counts the same rows as COUNT(*) FILTER (WHERE condition).
    """
    expect_only(call.node, "this")
    source = collector.take_condition(call, call.node.this)
    return _count(collector, Count.over(source.argument, call.label, collector.facts), source)


def read_distinct(collector: Collector, call: AggregateCall) -> SingleMeasure:
    """Read APPROX_COUNT_DISTINCT(x) as COUNT(DISTINCT x), and return its estimate.

    What is measured, before the noise, is the exact number of different values.
    """
    expect_only(call.node, "this")
    return _count_distinct(collector, call, call.node.this)


def _count_distinct(collector: Collector, call: AggregateCall, node: exp.Expression) -> SingleMeasure:
    distinct = collector.take_distinct(call, node)
    source, facts = distinct.source, collector.facts
    if distinct.individuals:
        return _count(collector, CountIndividuals.over(source.argument, call.label, facts), source)
    return _count(collector, CountDistinct.over(source.argument, call.label, facts, distinct.values), source)


def _count(collector: Collector, measure: Measure, source: Source | None = None) -> SingleMeasure:
    """Add a measure that counts to the query, and return its estimate: a whole number, in a range that begins at 0."""
    return SingleMeasure((collector.measure(measure, source),), measure.label, integer=True, lower=Fraction(0))
