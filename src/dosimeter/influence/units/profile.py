"""Leaving an individual out removes all their rows: contributions of whole individuals (S1–S5, C1–C4, C9).

Reads the unit profile: one row per distinct list of entries, an entry being all that an individual contributes to one
group. An individual may move several groups at once, so the contribution is kept as a sparse vector.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dosimeter.arrays import FloatArray, IntArray
from dosimeter.engines import Engine
from dosimeter.errors import SourceUnreachable
from dosimeter.influence.contributions import Contributions
from dosimeter.influence.leave_one_out import exact_total, formula_of, mean_effects
from dosimeter.influence.units.quantiles import fractions_of, near_query, quantile_of
from dosimeter.influence.units.queries import (
    ENTRIES,
    MOST_COLUMNS,
    PEOPLE,
    ROWS,
    UNDECLARED,
    Layout,
    find_countable,
    lay_out,
    undeclared_query,
    unit_fields,
    unit_profile_query,
)
from dosimeter.influence.units.trees import BY, GROUP, count_groups
from dosimeter.measures import Measure, MeasureKind
from dosimeter.mechanisms import Norm
from dosimeter.planning import QueryPlan
from dosimeter.schema import Scalar

if TYPE_CHECKING:
    import pyarrow as pa
    from sqlglot import exp

Values = tuple[tuple[int, int], ...]
Whole = NDArray[Any]  # int64, or Python's own integers where these do not fit
Rows = NDArray[np.intp]
Columns = dict[str, "pa.ChunkedArray | pa.Array"]
Lists = tuple[IntArray, tuple[Values, ...]]
Around = tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]


@dataclass(frozen=True, slots=True, repr=False)
class UnitProfile:
    """Distinct individuals: row r owns entries ``starts[r]:starts[r + 1]``; an entry has a group and its fields.

    A field v… holds numbers of ``values``: the values around a quantile and how often the individual has each.
    """

    layout: Layout
    keys: tuple[tuple[Scalar, ...], ...]
    people: IntArray
    inside: NDArray[np.bool_]
    starts: IntArray
    group: IntArray
    fields: Mapping[str, Whole]
    values: Mapping[str, tuple[Values, ...]]
    attributes: Mapping[str, NDArray[np.generic]]
    identities: pa.Table
    undeclared: int  # rows that meet the WHERE and stand in no declared group (C7)

    @property
    def plan(self) -> QueryPlan:
        return self.layout.plan

    @property
    def k(self) -> int:
        return len(self.keys) * len(self.plan.measures)

    def identity(self, row: int) -> dict[str, int | str]:
        """What tells this row's individuals from others, in the columns of the profile query."""
        found = self.identities.slice(row, 1).to_pylist()[0]
        return {name: value if isinstance(value, str) else int(value) for name, value in found.items()}

    def __repr__(self) -> str:
        return "UnitProfile(redacted)"


# ---------------------------------------------------------------- reading the profile


def measure_unit_profile(
    plan: QueryPlan, engine: Engine, attributes: Mapping[str, exp.Expression] | None = None
) -> UnitProfile:
    """Run the unit profile query and read its entries."""
    keys = plan.group_keys
    assert keys is not None, "observed groups are refused where individuals have several rows"
    query = undeclared_query(plan, engine.relation())
    undeclared = 0 if query is None else int(engine.fetch(query).column(UNDECLARED)[0].as_py())
    around = {name: _find_around(plan, engine, name) for name in find_countable(plan)}
    near = {name: tuple(values for values, _ in groups) for name, groups in around.items() if groups}
    layout = lay_out(plan, near, all_declared=not undeclared)
    table = engine.fetch(unit_profile_query(layout, engine.relation(), attributes))
    people = np.asarray(table.column(PEOPLE).to_numpy(), dtype=np.int64)
    identities = table.select(layout.identity_columns())
    inside = np.asarray(identities.column(0).is_valid().to_numpy(), dtype=np.bool_)
    if layout.wide:
        owners, group, columns, counted = _gather_entries(layout, table, inside)
        _require_unchanged(layout, around, table, people)
    else:
        owners, group, columns = _split_entries(plan, table.column(ENTRIES))
        counted = {}
    listed = counted | {name: _read_lists(column) for name, column in columns.items() if name.startswith("v")}
    whole = {name: _read_numbers(column) for name, column in columns.items() if name not in listed}
    return UnitProfile(
        layout=layout,
        keys=keys,
        people=people,
        inside=inside,
        starts=np.concatenate([[0], np.cumsum(np.bincount(owners, minlength=len(people)))]).astype(np.int64),
        group=group,
        fields=whole | {name: codes for name, (codes, _) in listed.items()},
        values={name: values for name, (_, values) in listed.items()},
        attributes={name: _attribute(table.column(name), name) for name in (attributes or {})},
        identities=identities,
        undeclared=undeclared,
    )


def _find_around(plan: QueryPlan, engine: Engine, name: str) -> Around:
    """Per group: the values around a quantile, and how many stand at each, those beyond the border at the border.

    Nothing where these are too many for columns. Where a group has none, one value that nobody has.
    """
    query = near_query(plan, engine.relation(), *quantile_of(name)).limit(MOST_COLUMNS + 1)
    found = engine.fetch(query).to_pylist()
    if len(found) > MOST_COLUMNS:
        return ()
    around = []
    for group in range(count_groups(plan)):
        rows = sorted((row for row in found if not plan.groups or row[GROUP] == group), key=lambda row: int(row["v"]))
        times = [int(row["c"]) for row in rows] or [0]
        if rows:
            below, above = int(rows[0]["upto"]) - times[0], int(rows[-1]["total"]) - int(rows[-1]["upto"])
            times[0] += below
            times[-1] += above
        around.append((tuple(int(row["v"]) for row in rows) or (0,), tuple(times)))
    return tuple(around)


def _require_unchanged(layout: Layout, around: Mapping[str, Around], table: pa.Table, people: IntArray) -> None:
    """What individuals have at the values around a quantile adds up to what was found there before."""
    for name in layout.near:
        for group, (_, times) in enumerate(around[name]):
            for column, expected in zip(layout.columns(name, group), times, strict=True):
                if int(np.sum(people * table.column(column).fill_null(0).to_numpy())) != expected:
                    raise SourceUnreachable(f"{layout.plan.table} changed while it was measured. Look again.")


def _gather_entries(
    layout: Layout, table: pa.Table, inside: NDArray[np.bool_]
) -> tuple[IntArray, IntArray, Columns, dict[str, Lists]]:
    """The fields of all groups, one group after the other, and then by individual; and those that were counted."""
    import pyarrow as pa

    names, groups = unit_fields(layout.plan), count_groups(layout.plan)
    found = table.filter(inside)
    rows = np.flatnonzero(inside).astype(np.int64)
    owners, group = np.tile(rows, groups), np.repeat(np.arange(groups, dtype=np.int64), len(rows))
    order = np.argsort(owners, kind="stable")
    columns: Columns = {}
    counted: dict[str, Lists] = {}
    for name in names:
        if name in layout.near:
            codes, values = _gather_counts(layout, found, name)
            counted[name] = codes[order], values
        else:
            parts = [found.column(layout.columns(name, at)[0]) for at in range(groups)]
            chunks = [chunk for part in parts for chunk in part.chunks]
            columns[name] = pa.chunked_array(chunks, parts[0].type).take(pa.array(order))
    return owners[order], group[order], columns, counted


def _gather_counts(layout: Layout, found: pa.Table, name: str) -> Lists:
    """How often each value around a quantile was counted, as lists of values; one group after the other."""
    codes: list[IntArray] = []
    lists: list[Values] = []
    for group, near in enumerate(layout.near[name]):
        counts = np.column_stack([found.column(each).to_numpy() for each in layout.columns(name, group)])
        distinct, where = np.unique(counts, axis=0, return_inverse=True)
        codes.append(len(lists) + where.reshape(-1))
        lists += [tuple(pair for pair in zip(near, row, strict=True) if pair[1]) for row in distinct.tolist()]
    return np.concatenate(codes), tuple(lists)


def _split_entries(plan: QueryPlan, texts: pa.ChunkedArray) -> tuple[IntArray, IntArray, Columns]:
    """``group:field:…;…`` of every individual as columns: whose entry it is, its group, its fields."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = texts.combine_chunks() if texts.num_chunks else pa.array([], pa.string())
    column = column.cast(pa.string())
    lists = pc.split_pattern(column, ";")
    owners = np.asarray(pc.list_parent_indices(lists).to_numpy(), dtype=np.int64)
    parts = pc.list_flatten(pc.split_pattern(pc.list_flatten(lists), ":"))
    names = unit_fields(plan)
    width = 1 + len(names)
    assert len(parts) == width * len(owners)
    places = np.arange(len(owners), dtype=np.int64) * width
    fields = {name: parts.take(pa.array(places + at)) for at, name in enumerate(names, start=1)}
    group = _read_numbers(parts.take(pa.array(places)))
    return owners, np.asarray(group, dtype=np.int64), fields


def _read_numbers(column: pa.ChunkedArray | pa.Array) -> Whole:
    import pyarrow as pa

    try:
        return np.asarray(column.cast(pa.int64()).to_numpy(zero_copy_only=False), dtype=np.int64)
    except pa.ArrowInvalid:  # beyond 64 bits
        return np.array([int(value) for value in column.to_pylist()], dtype=object)


def _read_lists(column: pa.ChunkedArray | pa.Array) -> Lists:
    """Each entry's number among the distinct lists, and these."""
    import pyarrow as pa

    chunked = column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])
    encoded = pa.chunked_array(chunked.chunks, pa.string()).combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    codes = np.asarray(encoded.indices.to_numpy(zero_copy_only=False), dtype=np.int64)
    return codes, tuple(_read_values(text) for text in encoded.dictionary.to_pylist())


def _read_values(text: str) -> Values:
    """``valuextimes,…``; empty for an individual with nothing but NULL."""
    pairs = (item.split("x") for item in text.split(",") if item)
    return tuple((int(value), int(times)) for value, times in pairs)


def _attribute(column: pa.ChunkedArray, name: str) -> NDArray[np.generic]:
    if name == BY:
        return np.array([*column.to_pylist(), None], dtype=object)[:-1]  # NumPy would make one array of equal lists
    return np.asarray(column.fill_null(False).to_numpy(), dtype=np.bool_)


# ---------------------------------------------------------------- contributions


def find_unit_contributions(profile: UnitProfile, n: int, norm: Norm) -> Contributions:
    """Every individual's contribution vector in the units of the norm; empty slots contribute nothing (N2)."""
    plan = profile.plan
    counted = int(profile.people.sum())
    weights = plan.weights(norm)
    width = len(plan.measures)
    changes = np.zeros((len(profile.group), width))
    owners = np.repeat(np.arange(len(profile.people)), np.diff(profile.starts))
    times = profile.people[owners]
    for at, measure in enumerate(plan.measures):
        changes[:, at] = _effects(profile, measure, times) * weights[at]
    entries, columns = np.nonzero(changes)
    per_row = np.bincount(owners[entries], minlength=len(profile.people))
    starts = np.concatenate([[0], np.cumsum(per_row)]).astype(np.int64)
    people, attributes = profile.people, dict(profile.attributes)
    if n > counted or not len(people):
        people = np.append(people, max(n - counted, 0))
        starts = np.append(starts, starts[-1])
        attributes = {name: _with_nobody(values) for name, values in attributes.items()}
    return Contributions(
        k=profile.k,
        people=people,
        starts=starts,
        cells=(profile.group[entries] * width + columns).astype(np.int64),
        changes=changes[entries, columns],
        attributes=attributes,
    )


def _with_nobody(values: NDArray[np.generic]) -> NDArray[np.generic]:
    """An empty slot has no attributes: it is in no FILTER and in no group of ``--by``."""
    absent: Any = False if values.dtype == np.bool_ else None
    return np.append(values, np.array([absent], dtype=values.dtype))


# ---------------------------------------------------------------- effects of leaving a whole individual out


def _effects(profile: UnitProfile, measure: Measure, times: IntArray) -> FloatArray:
    at = measure.argument
    if at is None:
        return _numbers(profile, ROWS)  # COUNT(*)
    unit = float(measure.unit)
    match measure.kind:
        case MeasureKind.COUNT:
            return _numbers(profile, f"n{at}")
        case MeasureKind.COUNT_DISTINCT:
            return _numbers(profile, f"d{at}")
        case MeasureKind.SUM:
            return _numbers(profile, f"t{at}") * unit
        case MeasureKind.CENTRED_SUM:
            return _numbers(profile, f"s{at}") * unit
        case MeasureKind.CENTRED_SQUARES:
            return _numbers(profile, f"q{at}") * unit
        case MeasureKind.QUANTILE:
            assert measure.fraction is not None
            name = f"v{at}_{fractions_of(profile.plan, at).index(measure.fraction)}"
            return _by_group(profile, lambda rows: _quantile_effects(profile, measure, name, rows, times[rows]))
        case MeasureKind.BOUNDED_MEAN | MeasureKind.MEAN:
            return _by_group(profile, lambda rows: _mean_effects(profile, measure, rows, times[rows]))
        case _:
            return _by_group(profile, lambda rows: _moment_effects(profile, measure, rows, times[rows]))


def _numbers(profile: UnitProfile, name: str) -> FloatArray:
    return profile.fields[name].astype(np.float64)


def _by_group(profile: UnitProfile, effects: Callable[[Rows], FloatArray]) -> FloatArray:
    result = np.zeros(len(profile.group))
    ordered = np.argsort(profile.group, kind="stable")
    borders = np.flatnonzero(np.diff(profile.group[ordered])) + 1
    for rows in np.split(ordered, borders):
        if len(rows):
            result[rows] = effects(rows)
    return result


def _mean_effects(profile: UnitProfile, measure: Measure, rows: Rows, times: IntArray) -> FloatArray:
    own_count, own_total = (profile.fields[f"{need}{measure.argument}"][rows] for need in "ns")
    count, total = exact_total(own_count, times), exact_total(own_total, times)
    return mean_effects(measure, own_total, own_count, count, total)


def _moment_effects(profile: UnitProfile, measure: Measure, rows: Rows, times: IntArray) -> FloatArray:
    """S7: variances and deviations as one number, from totals less the individual's own."""
    own = [profile.fields[f"{need}{measure.argument}"][rows] for need in "nsq"]
    count, total, squares = (exact_total(values, times) for values in own)
    formula = formula_of(measure)
    here = formula(count, total, squares)
    left = [formula(count - int(n), total - int(s), squares - int(q)) for n, s, q in zip(*own, strict=True)]
    half = measure.unit / 2
    if measure.kind is MeasureKind.DEVIATION:
        return np.array([(math.sqrt(here) - math.sqrt(after)) * float(half) for after in left])
    return np.array([float((here - after) * half**2) for after in left])


def _quantile_effects(profile: UnitProfile, measure: Measure, name: str, rows: Rows, times: IntArray) -> FloatArray:
    """C3: the quantile of the group without all of the individual's values."""
    codes, where = np.unique(profile.fields[name][rows], return_inverse=True)
    lists = [profile.values[name][code] for code in codes]
    people = np.zeros(len(codes), dtype=np.int64)
    np.add.at(people, where, times)
    histogram: dict[int, int] = {}
    for values, number in zip(lists, people.tolist(), strict=True):
        for value, often in values:
            histogram[value] = histogram.get(value, 0) + often * number
    if not histogram:
        return np.zeros(len(rows))
    ordered = sorted(histogram)
    here = _quantile(measure, ordered, histogram)
    effects = np.zeros(len(codes))
    for at, values in enumerate(lists):
        rest = dict(histogram)
        for value, often in values:
            rest[value] -= often
        effects[at] = float(here - _quantile(measure, ordered, rest))
    return effects[where]


def _quantile(measure: Measure, ordered: Sequence[int], histogram: Mapping[int, int]) -> Fraction:
    assert measure.fraction is not None
    total = sum(histogram.values())
    if total == 0:
        return measure.empty  # C6
    position = measure.fraction * (total - 1)
    whole = math.floor(position)
    low, high = _order_statistics(ordered, histogram, whole, min(whole + 1, total - 1))
    return (low + (position - whole) * (high - low)) * measure.unit


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
