"""Leaving an individual out removes all their rows: contributions of whole individuals (S1–S5, C1–C4, C9).

Reads the unit profile: one row per distinct list of entries, an entry being all that an individual contributes to one
group. An individual may move several groups at once, so the contribution is kept as a sparse vector.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dosimeter.columns import read_integers, read_values
from dosimeter.engines.base import Engine
from dosimeter.leave_one_out import formula_of
from dosimeter.model import Contributions, FloatArray, IntArray, Measure, MeasureKind, Norm, QueryPlan, Scalar
from dosimeter.sensitivity import infinite_values, too_many_individuals
from dosimeter.unit_queries import ENTRIES, INFINITE, PEOPLE, unit_fields, unit_profile_query

if TYPE_CHECKING:
    from sqlglot import exp

Values = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, repr=False)
class UnitProfile:
    """Distinct individuals: row r owns entries ``starts[r]:starts[r + 1]``; an entry has a group and its fields."""

    plan: QueryPlan
    keys: tuple[tuple[Scalar, ...], ...]
    people: IntArray
    texts: tuple[str, ...]
    starts: IntArray
    group: IntArray
    fields: Mapping[str, tuple[Any, ...]]
    attributes: Mapping[str, NDArray[np.generic]]

    @property
    def k(self) -> int:
        return len(self.keys) * len(self.plan.measures)

    def __repr__(self) -> str:
        return "UnitProfile(redacted)"


def measure_unit_profile(
    plan: QueryPlan, engine: Engine, attributes: Mapping[str, exp.Expression] | None = None
) -> UnitProfile:
    """Run the unit profile query and read its entries."""
    keys = plan.group_keys
    assert keys is not None, "observed groups are refused where individuals have several rows"
    table = engine.fetch(unit_profile_query(plan, engine.relation(), attributes))
    if any(table.column(INFINITE).to_pylist()):
        raise infinite_values(plan)
    names = unit_fields(plan)
    texts = [text or "" for text in table.column(ENTRIES).to_pylist()]
    starts, groups = [0], []
    columns: dict[str, list[Any]] = {name: [] for name in names}
    for text in texts:
        for entry in text.split(";") if text else ():
            number, *fields = entry.split(":")
            groups.append(int(number))
            for name, field in zip(names, fields, strict=True):
                columns[name].append(_read_values(field) if name.startswith("v") else int(float(field)))
        starts.append(len(groups))
    return UnitProfile(
        plan=plan,
        keys=keys,
        people=read_integers(table.column(PEOPLE))[0],
        texts=tuple(texts),
        starts=np.array(starts, dtype=np.int64),
        group=np.array(groups, dtype=np.int64),
        fields={name: tuple(values) for name, values in columns.items()},
        attributes={name: _attribute(read_values(table.column(name))) for name in (attributes or {})},
    )


def _read_values(text: str) -> Values:
    """``valuextimes,…``; an entry without any has 0 in its place."""
    if text in ("", "0"):
        return ()
    pairs = (item.rsplit("x", 1) for item in text.split(","))
    return tuple((int(value), int(times)) for value, times in pairs)


def _attribute(values: list[Any]) -> NDArray[np.generic]:
    if all(isinstance(value, bool) for value in values):
        return np.array(values, dtype=np.bool_)
    return np.array(values, dtype=object)


def find_unit_contributions(profile: UnitProfile, n: int, norm: Norm) -> Contributions:
    """Every individual's contribution vector in the units of the norm; empty slots contribute nothing (N2)."""
    plan = profile.plan
    counted = int(profile.people.sum())
    if counted > n:
        raise too_many_individuals(counted, n)
    weights = plan.weights(norm)
    width = len(plan.measures)
    changes = np.zeros((len(profile.group), width))
    owners = np.repeat(np.arange(len(profile.people)), np.diff(profile.starts))
    times = profile.people[owners]
    for at, measure in enumerate(plan.measures):
        changes[:, at] = _effects(profile, measure, times) * weights[at]
    entries, columns = np.nonzero(changes)
    cells = profile.group[entries] * width + columns
    per_row = (
        np.bincount(owners[entries], minlength=len(profile.people))
        if len(entries)
        else np.zeros(len(profile.people), int)
    )
    starts = np.concatenate([[0], np.cumsum(per_row)]).astype(np.int64)
    people, attributes = profile.people, dict(profile.attributes)
    if n - counted or not len(people):
        people = np.append(people, n - counted)
        starts = np.append(starts, starts[-1])
        attributes = {name: _with_nobody(values) for name, values in attributes.items()}
    return Contributions(
        k=profile.k,
        people=people,
        starts=starts,
        cells=cells.astype(np.int64),
        changes=changes[entries, columns],
        attributes=attributes,
    )


def _with_nobody(values: NDArray[np.generic]) -> NDArray[np.generic]:
    absent: Any = False if values.dtype == np.bool_ else None
    return np.append(values, np.array([absent], dtype=values.dtype))


# ---------------------------------------------------------------- effects of leaving a whole individual out


def _effects(profile: UnitProfile, measure: Measure, times: IntArray) -> FloatArray:
    at = measure.argument
    if at is None:
        return _numbers(profile, "rows_total")  # COUNT(*)
    argument = profile.plan.arguments[at]
    match measure.kind:
        case MeasureKind.COUNT:
            return _numbers(profile, f"n{at}")
        case MeasureKind.COUNT_DISTINCT:
            return _numbers(profile, f"d{at}")
        case MeasureKind.SUM:
            middle = argument.lower + argument.upper
            pairs = zip(profile.fields[f"s{at}"], profile.fields[f"n{at}"], strict=True)
            return np.array([float(Fraction(s + n * middle, 2) * measure.unit) for s, n in pairs])
        case MeasureKind.CENTRED_SUM:
            return _numbers(profile, f"s{at}") * float(measure.unit)
        case MeasureKind.CENTRED_SQUARES:
            return _numbers(profile, f"q{at}") * float(measure.unit)
        case MeasureKind.QUANTILE:
            return _by_group(profile, times, lambda rows: _quantile_effects(profile, measure, rows, times))
        case _:
            return _by_group(profile, times, lambda rows: _moment_effects(profile, measure, rows, times))


def _numbers(profile: UnitProfile, name: str) -> FloatArray:
    return np.array(profile.fields[name], dtype=np.float64)


def _by_group(profile: UnitProfile, times: IntArray, effects: Any) -> FloatArray:
    result = np.zeros(len(profile.group))
    for group in np.unique(profile.group):
        rows = np.flatnonzero(profile.group == group)
        result[rows] = effects(rows)
    return result


def _moment_effects(profile: UnitProfile, measure: Measure, rows: NDArray[np.intp], times: IntArray) -> FloatArray:
    """C2: the formula from totals less the individual's own."""
    at = measure.argument
    own_counts = [profile.fields[f"n{at}"][row] for row in rows]
    own_totals = [profile.fields[f"s{at}"][row] for row in rows]
    squares_needed = measure.kind in (MeasureKind.VARIANCE, MeasureKind.DEVIATION)
    own_squares = [profile.fields[f"q{at}"][row] if squares_needed else 0 for row in rows]
    weight = [int(times[row]) for row in rows]
    count = sum(a * w for a, w in zip(own_counts, weight, strict=True))
    total = sum(a * w for a, w in zip(own_totals, weight, strict=True))
    squares = sum(a * w for a, w in zip(own_squares, weight, strict=True))
    formula = formula_of(measure)
    here = formula(count, total, squares)
    left = [
        formula(count - n, total - s, squares - q) for n, s, q in zip(own_counts, own_totals, own_squares, strict=True)
    ]
    half = measure.unit / 2
    if measure.kind is MeasureKind.DEVIATION:
        return np.array([(math.sqrt(here) - math.sqrt(after)) * float(half) for after in left])
    scale = half**2 if measure.kind is MeasureKind.VARIANCE else half
    return np.array([float((here - after) * scale) for after in left])


def _quantile_effects(profile: UnitProfile, measure: Measure, rows: NDArray[np.intp], times: IntArray) -> FloatArray:
    """C3: the quantile of the group without all of the individual's values."""
    own: Sequence[Values] = [profile.fields[f"v{measure.argument}"][row] for row in rows]
    histogram: dict[int, int] = {}
    for values, row in zip(own, rows, strict=True):
        for value, often in values:
            histogram[value] = histogram.get(value, 0) + often * int(times[row])
    if not histogram:
        return np.zeros(len(rows))
    here = _quantile(measure, histogram)
    known: dict[Values, float] = {}
    for values in own:
        if values not in known:
            rest = dict(histogram)
            for value, often in values:
                rest[value] -= often
            known[values] = float(here - _quantile(measure, rest))
    return np.array([known[values] for values in own])


def _quantile(measure: Measure, histogram: Mapping[int, int]) -> Fraction:
    assert measure.fraction is not None
    total = sum(histogram.values())
    if total == 0:
        return measure.empty  # C6
    position = measure.fraction * (total - 1)
    whole = math.floor(position)
    low, high = _order_statistics(histogram, whole, min(whole + 1, total - 1))
    return (low + (position - whole) * (high - low)) * measure.unit


def _order_statistics(histogram: Mapping[int, int], first: int, second: int) -> tuple[int, int]:
    passed = 0
    found: list[int] = []
    for value in sorted(histogram):
        passed += histogram[value]
        while len(found) < 2 and (first, second)[len(found)] < passed:
            found.append(value)
        if len(found) == 2:
            break
    return found[0], found[1]
