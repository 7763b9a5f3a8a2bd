"""What leaving one individual out does to one measure of one group: the closed forms C1–C4 (one row each).

Works on a group's distinct inputs and counts, in whole steps, and only then in real units: no cancellation.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dosimeter.arrays import FloatArray, IntArray
from dosimeter.measures import Measure, MeasureKind
from dosimeter.planning import QueryPlan

_FITS = 2**62  # two numbers below it can be added in 64 bits


@dataclass(frozen=True, slots=True)
class GroupColumn:
    """Distinct inputs of one group: whole steps, which are not NULL, and how many individuals have each."""

    values: IntArray
    present: NDArray[np.bool_]
    people: IntArray


def effect_on(measure: Measure, plan: QueryPlan, column: GroupColumn) -> FloatArray:
    """c_i = q(x) − q(x₋ᵢ) in real units, for each distinct input. A NULL contributes nothing (C7)."""
    result = np.zeros(len(column.people))
    present = column.present
    if not present.any():
        return result
    values, people = column.values[present], column.people[present]
    result[present] = _effects(measure, plan, values, people)
    return result


def _effects(measure: Measure, plan: QueryPlan, values: IntArray, people: IntArray) -> FloatArray:
    unit = float(measure.unit)
    match measure.kind:
        case MeasureKind.COUNT:
            return np.ones(len(values))  # C1
        case MeasureKind.SUM:
            return values.astype(np.float64) * unit  # C1
        case MeasureKind.CENTRED_SUM:
            return _centred(measure, plan, values).astype(np.float64) * unit
        case MeasureKind.CENTRED_SQUARES:
            return _centred(measure, plan, values).astype(np.float64) ** 2 * unit
        case MeasureKind.COUNT_DISTINCT:
            return values.astype(np.float64)  # C4: 1 for whoever alone holds a value
        case MeasureKind.QUANTILE:
            return _quantile_effects(measure, values, people)
        case _:
            return _moment_effects(measure, plan, values, people)


def _centred(measure: Measure, plan: QueryPlan, values: IntArray) -> IntArray:
    """2v − (L + U), in half steps."""
    assert measure.argument is not None
    argument = plan.arguments[measure.argument]
    return 2 * values - (argument.lower + argument.upper)


# ---------------------------------------------------------------- order statistics (C3)


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
    position = fraction * (total - 1)
    whole = math.floor(position)
    return whole, position - whole


def _quantile_effects(measure: Measure, values: IntArray, people: IntArray) -> FloatArray:
    assert measure.fraction is not None
    unit = float(measure.unit)
    ordered, where = _sort(values, people)
    total = int(ordered.upto[-1])
    whole, part = _rank(measure.fraction, total)
    reference = int(ordered.at(np.array([whole]))[0])
    before = float(part) * float(int(ordered.at(np.array([min(whole + 1, total - 1)]))[0]) - reference)
    if total == 1:  # C6: an emptied group gives the middle of the bounds
        return np.array([float(reference * measure.unit - measure.empty)] * len(values))
    first = np.concatenate([[0], ordered.upto[:-1]])
    left, left_part = _rank(measure.fraction, total - 1)
    low = ordered.at(left + (left >= first))
    high = ordered.at(np.minimum(left + 1 + (left + 1 >= first), total - 1))
    after = (low - reference).astype(np.float64) + float(left_part) * (high - low).astype(np.float64)
    return ((before - after) * unit)[where]


def _quantile_value(measure: Measure, values: IntArray, people: IntArray) -> Fraction:
    assert measure.fraction is not None
    ordered, _ = _sort(values, people)
    total = int(ordered.upto[-1])
    whole, part = _rank(measure.fraction, total)
    low = int(ordered.at(np.array([whole]))[0])
    high = int(ordered.at(np.array([min(whole + 1, total - 1)]))[0])
    return (low + part * (high - low)) * measure.unit


# ---------------------------------------------------------------- means and variances as one number (C2, S2, S7)


def exact_total(values: NDArray[Any], people: IntArray) -> int:
    """Σ value · people, exactly: in 64 bits where these hold it, in Python's integers where they do not."""
    largest = max(abs(int(values.max(initial=0))), abs(int(values.min(initial=0))))
    if values.dtype != object and largest * int(people.sum()) < _FITS:
        return int(np.dot(values, people))
    return int(np.dot(values.astype(object), people.astype(object)))


def _moments(steps: IntArray, people: IntArray) -> tuple[int, int, int]:
    largest = max(abs(int(steps.max(initial=0))), abs(int(steps.min(initial=0))))
    squares = steps**2 if largest**2 < _FITS else steps.astype(object) ** 2
    return int(people.sum()), exact_total(steps, people), exact_total(squares, people)


def mean_effects(
    measure: Measure, own_total: NDArray[Any], own_count: NDArray[Any], count: int, total: int
) -> FloatArray:
    """S2, C2: T/M − (T − s)/A = (sM − T(M − A))/(MA), where M = max(N, r), and A = max(N − n, r) without them.

    T and s are centred half steps, so that an emptied group is 0: the middle (C6). The numerator is exact.
    """
    floor = measure.min_rows or 0
    here = max(count, floor, 1)
    after = np.maximum(count - own_count.astype(np.int64), max(floor, 1))
    largest = max(abs(int(own_total.max(initial=0))), abs(int(own_total.min(initial=0))), 1)
    if own_total.dtype == object or max(largest, abs(total)) * here >= _FITS:
        own_total, after = own_total.astype(object), after.astype(object)
    moved = own_total * here - total * (here - after)
    effects: FloatArray = moved.astype(np.float64) / after.astype(np.float64) / here * (float(measure.unit) / 2)
    return effects


def _moment_effects(measure: Measure, plan: QueryPlan, values: IntArray, people: IntArray) -> FloatArray:
    centred = _centred(measure, plan, values)
    count, total, squares = _moments(centred, people)
    if measure.kind in (MeasureKind.MEAN, MeasureKind.BOUNDED_MEAN):
        return mean_effects(measure, centred, np.ones_like(centred), count, total)
    steps = centred.tolist()
    formula = formula_of(measure)
    here = formula(count, total, squares)
    if measure.kind is MeasureKind.DEVIATION:
        effects = [math.sqrt(here) - math.sqrt(formula(count - 1, total - v, squares - v * v)) for v in steps]
        return np.array(effects) * float(measure.unit) / 2
    scale = (measure.unit / 2) ** (2 if measure.kind is MeasureKind.VARIANCE else 1)
    return np.array([float((here - formula(count - 1, total - v, squares - v * v)) * scale) for v in steps])


def formula_of(measure: Measure) -> Callable[[int, int, int], Fraction]:
    """The measure from count, Σ and Σ² of centred half steps, so that an emptied group is 0: the middle (C6)."""
    floor = measure.min_rows
    match measure.kind:
        case MeasureKind.BOUNDED_MEAN if floor is not None:
            return lambda count, total, squares: Fraction(total, max(count, floor))  # S2
        case MeasureKind.MEAN:
            return lambda count, total, squares: Fraction(total, count) if count else Fraction(0)
        case _:
            return lambda count, total, squares: (
                Fraction(count * squares - total * total, count * count) if count else Fraction(0)
            )


def measured_value(measure: Measure, plan: QueryPlan, column: GroupColumn) -> Fraction:
    """The measure itself, exactly, from the group's distinct inputs."""
    present = column.present
    values, people = column.values[present], column.people[present]
    if measure.kind is MeasureKind.COUNT:
        return Fraction(int(people.sum()))
    if not len(values):
        return measure.empty
    if measure.kind is MeasureKind.QUANTILE:
        return _quantile_value(measure, values, people)
    if measure.kind is MeasureKind.SUM:
        return exact_total(values, people) * measure.unit
    count, total, squares = _moments(_centred(measure, plan, values), people)
    if measure.kind is MeasureKind.CENTRED_SUM:
        return total * measure.unit
    if measure.kind is MeasureKind.CENTRED_SQUARES:
        return squares * measure.unit
    value = formula_of(measure)(count, total, squares)
    if measure.kind is MeasureKind.VARIANCE:
        return value * (measure.unit / 2) ** 2
    if measure.kind is MeasureKind.DEVIATION:
        return Fraction(math.sqrt(value) * float(measure.unit) / 2)
    return measure.empty + value * measure.unit / 2
