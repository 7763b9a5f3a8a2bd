"""MIN, MAX, MEDIAN and quantiles: order statistics. Leaving somebody out moves them to nearby values only (C3, S3).

``OrderStatistic`` says what the exact answer is and how individuals move it; a ``Quantile`` is one that gets noise.
"""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from dosimeter.arrays import FloatArray, IntArray
from dosimeter.measures.argument import Argument
from dosimeter.measures.measure import Bounded, Dependence, Reducible, Reduction, Seen, count_present_people
from dosimeter.measures.near_values import NearValues, list_near_conditions
from dosimeter.measures.noise_grid import OFF_GRID_STEPS, SensitivityFacts
from dosimeter.measures.units import Entries, EntryIndices, UnitField
from dosimeter.sql import clamp, column_tree, conjunction, constant_tree, is_not_null, window, wrap


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderStatistic(Bounded, ABC):
    """The quantile at ``fraction``: 0 for MIN, 1 for MAX, 1/2 for MEDIAN. Between two values it interpolates."""

    depends_on: ClassVar[Dependence | None] = Dependence.VALUES
    by_group: ClassVar[bool] = True

    fraction: Fraction

    @property
    def parameters(self) -> tuple[str | None, int | None]:
        """Return the fraction as text, and None: only a mean has a floor on rows."""
        return str(self.fraction), None

    # ------------------------------------------------------------ answer

    def total(self) -> exp.Expression | None:
        """Return None: a quantile is no total."""
        return None

    def _value(self, values: IntArray, people: IntArray) -> Fraction:
        ordered, _ = _sort(values, people)
        total = int(ordered.upto[-1])
        whole, part = _rank(self.fraction, total)
        low = int(ordered.at(np.array([whole]))[0])
        high = int(ordered.at(np.array([min(whole + 1, total - 1)]))[0])
        return (low + part * (high - low)) * self.unit

    # ------------------------------------------------------------ individuals with one row

    def _row_effects(self, values: IntArray, people: IntArray) -> FloatArray:
        """Return, for each value, the quantile minus the quantile without one row of it, in real units (C3).

        Everybody has one row. Ranks count from 0. Leaving out the row of rank f moves every row above it down by one
        rank: the remaining row of rank j had the rank j before if j < f, otherwise j + 1. f is the rank of the first
        row with the value.
        """
        ordered, where = _sort(values, people)
        total = int(ordered.upto[-1])
        whole, part = _rank(self.fraction, total)
        reference = int(ordered.at(np.array([whole]))[0])
        before = float(part) * float(int(ordered.at(np.array([min(whole + 1, total - 1)]))[0]) - reference)
        if total == 1:  # C6: an emptied group gives the middle of the bounds
            return np.array([float(reference * self.unit - self.empty)] * len(values))
        first = np.concatenate([[0], ordered.upto[:-1]])
        left, left_part = _rank(self.fraction, total - 1)
        low = ordered.at(left + (left >= first))
        high = ordered.at(np.minimum(left + 1 + (left + 1 >= first), total - 1))
        after = (low - reference).astype(np.float64) + float(left_part) * (high - low).astype(np.float64)
        return ((before - after) * float(self.unit))[where]

    # ------------------------------------------------------------ individuals with several rows

    def unit_fields(self) -> tuple[UnitField, ...]:
        """Return the field that lists an individual's values, clamped to those around the group's quantile."""
        return (self._near_values(),)

    def _near_values(self) -> NearValues:
        return NearValues(f"v{self.position}_{self.nth}", (self.position, 5, self.nth), self.fraction)

    def unit_effects(self, entries: Entries) -> FloatArray:
        """Return, for each individual in each group, the group's quantile minus the quantile without their values."""
        field = self._near_values()
        codes, lists = entries.whole(field), entries.values[field.name]

        def leave_out(indices: EntryIndices) -> FloatArray:
            """Return the effect of each entry of one group (C3). Equal entries are computed once.

            ``indices``: the indices of these entries in the arrays of ``entries``.
            """
            distinct, where = np.unique(codes[indices], return_inverse=True)
            own = [lists[code] for code in distinct]
            people = np.zeros(len(distinct), dtype=np.int64)
            np.add.at(people, where, entries.times[indices])
            histogram: dict[int, int] = {}
            for values, number in zip(own, people.tolist(), strict=True):
                for value, often in values:
                    histogram[value] = histogram.get(value, 0) + often * number
            if not histogram:
                return np.zeros(len(indices))
            ordered = sorted(histogram)
            here = self._of_histogram(ordered, histogram)
            effects = np.zeros(len(distinct))
            for at, values in enumerate(own):
                rest = dict(histogram)
                for value, often in values:
                    rest[value] -= often
                effects[at] = float(here - self._of_histogram(ordered, rest))
            return effects[where]

        return entries.by_group(leave_out)

    def _of_histogram(self, ordered: Sequence[int], histogram: Mapping[int, int]) -> Fraction:
        total = sum(histogram.values())
        if total == 0:
            return self.empty  # C6
        whole, part = _rank(self.fraction, total)
        low, high = _order_statistics(ordered, histogram, whole, min(whole + 1, total - 1))
        return (low + part * (high - low)) * self.unit


class Quantile(Reducible, OrderStatistic):
    """An order statistic that gets noise scaled to its global sensitivity (S3)."""

    __slots__ = ()
    name: ClassVar[str] = "quantile"

    @classmethod
    def over(cls, argument: Argument, label: str, facts: SensitivityFacts, fraction: Fraction) -> Quantile:
        """Return the measure with its sensitivities (S3).

        One individual changes the quantile of a group by at most max(p, 1 − p)·w if everybody has one row, otherwise by
        at most w. Somebody with several rows can change several groups. p: ``fraction``. w: the distance between the
        bounds.
        """
        share = max(fraction, 1 - fraction) if facts.rows == 1 else Fraction(1)  # S3
        delta = share * argument.width * argument.unit
        # MIN and MAX are values of the column or the middle of the bounds, so they are on the half grid at worst.
        half_grid = argument.unit if (argument.middle / argument.unit).denominator == 1 else argument.unit / 2
        moved = min(facts.rows, facts.groups)  # S3: an individual's rows may fall into several groups
        return cls(
            label=label,
            unit=argument.unit,
            grid=half_grid if fraction in (0, 1) else delta / OFF_GRID_STEPS,
            sensitivity_l1=float(moved * delta),
            sensitivity_l2=float(delta) if moved == 1 else math.nextafter(math.sqrt(moved) * float(delta), math.inf),
            argument=argument,
            fraction=fraction,
        )

    @property
    def is_on_grid(self) -> bool:
        """Return whether the quantile is MIN or MAX: only their numbers are always multiples of the noise grid."""
        return self.fraction in (0, 1)

    @property
    def reduced_name(self) -> str:
        """Return the name of the profile's column that holds values clamped to those around the quantile."""
        return f"{self.column_name}_q{self.nth}"

    @classmethod
    def reduce(cls, readers: Sequence[Self], groups: Sequence[str], people: str, rows: int) -> Reduction:
        """Write a column for each quantile of the argument: the argument, clamped to values around that quantile (C3).

        The parameters are those of ``Reducible.reduce``.
        """
        name = readers[0].column_name
        same, upto, total = f"{name}_same", f"{name}_upto", f"{name}_total"
        counted = exp.Sum(this=count_present_people(name, people))
        ranks = {
            same: window(counted, [*groups, name]),
            upto: window(counted.copy(), groups, order=name),
            total: window(counted.copy(), groups),
        }
        borders: dict[str, exp.Expression] = {}
        clamped: dict[str, exp.Expression] = {}
        for reader in readers:
            low, high = f"{name}_low{reader.nth}", f"{name}_high{reader.nth}"
            near = list_near_conditions(
                reader.fraction, rows, upto=column_tree(upto), same=column_tree(same), total=column_tree(total)
            )
            test = conjunction([is_not_null(column_tree(name)), *near])
            around = exp.Case(ifs=[exp.If(this=test, true=column_tree(name))])
            borders[low] = window(exp.Min(this=around), groups)
            borders[high] = window(exp.Max(this=around.copy()), groups)
            clamped[reader.reduced_name] = clamp(column_tree(name), column_tree(low), column_tree(high))
        return Reduction((ranks, borders), clamped)

    def _condition(self, seen: Seen) -> exp.Expression:
        """Write the SQL test that finds the records behind one profile row.

        If the profile keeps clamped values, the lowest and the highest one also stand for all values beyond them.
        """
        tree = wrap(self.argument.tree.copy())
        if not seen.reduced:
            return exp.EQ(this=tree, expression=constant_tree(seen.value))
        kept = seen.kept()
        lowest, highest = int(kept.min()), int(kept.max())
        if lowest == highest:
            return is_not_null(tree)
        kind = exp.LTE if seen.value == lowest else exp.GTE if seen.value == highest else exp.EQ
        return kind(this=tree, expression=constant_tree(seen.value))


@dataclass(frozen=True, slots=True)
class _Sorted:
    values: IntArray
    upto: IntArray

    def at(self, index: NDArray[np.int64]) -> IntArray:
        return self.values[np.searchsorted(self.upto, index, side="right")]


def _sort(values: IntArray, people: IntArray) -> tuple[_Sorted, NDArray[np.intp]]:
    distinct, where = np.unique(values, return_inverse=True)
    counts = np.zeros(len(distinct), dtype=np.int64)
    np.add.at(counts, where, people)
    return _Sorted(distinct, np.cumsum(counts)), where


def _rank(fraction: Fraction, total: int) -> tuple[int, Fraction]:
    """Return the whole part and the fractional part of the rank p(N − 1), with p = ``fraction`` and N = ``total``."""
    position = fraction * (total - 1)
    whole = math.floor(position)
    return whole, position - whole


def _order_statistics(ordered: Sequence[int], histogram: Mapping[int, int], first: int, second: int) -> tuple[int, int]:
    passed = 0
    found: list[int] = []
    for value in ordered:
        passed += histogram[value]
        while len(found) < 2 and (first, second)[len(found)] < passed:
            found.append(value)
        if len(found) == 2:
            break
    return found[0], found[1]
