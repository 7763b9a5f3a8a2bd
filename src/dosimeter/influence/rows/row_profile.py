"""Measure how far individuals with one row each move the answer: leave-one-out in closed form (C1–C9).

One profile query gives distinct contributions and how many individuals have each; the rest is arithmetic on those few
rows. Nobody's record is fetched, and nobody is really left out (``recompute`` does that, as the paper did).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from dosimeter.arrays import FloatArray, IntArray
from dosimeter.engines import FewRows, read_booleans, read_codes, read_integers, read_values
from dosimeter.html import Private
from dosimeter.influence.contributions import Contributions
from dosimeter.influence.observed_keys import AT_ONCE, GroupKey, LateRows, observe_keys, read_keys_late
from dosimeter.influence.profiles import ExposedSearch, JointProfile, Profile
from dosimeter.influence.rows.row_queries import (
    INSIDE,
    PEOPLE,
    answer_query,
    input_column,
    name_part,
    null_column,
    profile_query,
    totals_query,
)
from dosimeter.influence.units.unit_rows import BY
from dosimeter.measures import ArgumentMeasure, GroupColumn, Measure
from dosimeter.mechanisms import Norm
from dosimeter.planning import QueryPlan, require_few_observed

if TYPE_CHECKING:
    import pyarrow as pa
    from sqlglot import exp

    from dosimeter.influence.measured_rows import Rows
    from dosimeter.influence.most_exposed import ExposedRecord
    from dosimeter.influence.units.unit_profile import UnitProfile

_Table = TypeVar("_Table", "pa.Table", FewRows)

FEW = 4096
"""The most rows of a result that are read as Python values, which loads no Arrow."""


@dataclass(frozen=True, slots=True, repr=False)
class RowProfile(Private):
    """The result of the profile query, as arrays with one element per distinct contribution.

    ``keys``: the groups. ``group``: the contribution's group, as an index into ``keys``; -1 for a group that nobody
    declared (C7), and outside the WHERE. ``inside``: whether the contribution is of rows that meet the WHERE.
    ``people``: how many individuals have the contribution. ``inputs``, by column name: an array of what measures read,
    in whole grid steps, and an array that is False where this is NULL. ``attributes``: whether a preference's FILTER
    holds, and the value of the ``--by`` column.
    """

    plan: QueryPlan
    keys: tuple[GroupKey, ...]
    group: IntArray
    inside: NDArray[np.bool_]
    people: IntArray
    inputs: Mapping[str, tuple[IntArray, NDArray[np.bool_]]]
    attributes: Mapping[str, NDArray[np.generic]]

    holds_totals: ClassVar[bool] = True

    @property
    def parts(self) -> tuple[RowProfile, ...]:
        return (self,)

    @property
    def touched(self) -> NDArray[np.bool_]:
        """Return, for each contribution, whether it moves a number: it is inside the WHERE and in a group."""
        found: NDArray[np.bool_] = self.inside & (self.group >= 0)
        return found

    @property
    def outside_groups(self) -> NDArray[np.bool_]:
        """Return, for each contribution, whether it is inside the WHERE and in a group that nobody declared (C7)."""
        found: NDArray[np.bool_] = self.inside & (self.group < 0)
        return found

    @property
    def undeclared(self) -> int:
        return int(self.people[self.outside_groups].sum())

    @property
    def matched(self) -> int:
        return int(self.people[self.touched].sum())

    def contributions(self, n: int, norm: Norm) -> Contributions:
        plan, ranks = self.plan, self.plan.ranks
        weights = plan.weights(norm)
        changes = np.zeros((len(self.people), len(plan.measures)))
        shares = np.zeros_like(changes)
        for at, measure in enumerate(plan.measures):
            for rows, column in _group_columns(self, measure):
                changes[rows, at] = measure.row_effects(column) * weights[at]
                if at in ranks:
                    shares[rows, at] = ranks[at].own_shares(column)
        return gather(self, changes, shares, np.arange(len(self.people)), n)

    def measure_answer(self, rows: Rows) -> Measured:
        return measure_answer(self.plan, rows, self)

    def group_sizes(self) -> list[int]:
        if not self.plan.groups:
            return []
        sizes = np.bincount(self.group[self.touched], weights=self.people[self.touched])
        return [int(size) for size in sizes[sizes > 0]]

    def find_exposed(self, search: ExposedSearch) -> list[ExposedRecord]:
        from dosimeter.influence.most_exposed import find_people

        return find_people(self, search)


class JointRowProfile(JointProfile[RowProfile]):
    """The profile of a plan with several blocks, where an individual has one row."""

    __slots__ = ()

    def find_exposed(self, search: ExposedSearch) -> list[ExposedRecord]:
        from dosimeter.influence.most_exposed import find_people

        return find_people(self, search)


@dataclass(frozen=True, slots=True, repr=False)
class Measured(Private):
    """The exact numbers that get noise: one row per group, one number per measure, in the data's units. Private.

    ``columns``, by the index of each measure that is drawn by rank: for each group its values and how many individuals
    have each, or None if it is empty. ``further``: the numbers of the plan's other blocks (SELECTs that measure).
    """

    keys: Sequence[GroupKey]
    values: Sequence[tuple[Fraction, ...]]
    columns: Mapping[int, tuple[GroupColumn | None, ...]] = field(default_factory=dict, compare=False)
    further: tuple[Measured, ...] = ()

    @property
    def blocks(self) -> tuple[Measured, ...]:
        """Return the exact numbers of each block (SELECT that measures), in the plan's order."""
        return (self, *self.further)


# ---------------------------------------------------------------- the profile


def profile_rows(plan: QueryPlan, rows: Rows, attributes: Mapping[str, exp.Expression] | None = None) -> Profile:
    """Run the profile query, and return its result.

    ``attributes``: conditions of a preference's FILTERs and the ``--by`` column, by name. With them people who do not
    meet the WHERE are profiled too.
    """
    parts = _measure_blocks(plan, rows, attributes)
    if len(parts) == 1:
        return parts[0]
    people = parts[0].people
    matched = int(people[np.any([part.touched for part in parts], axis=0)].sum())
    undeclared = int(people[np.any([part.outside_groups for part in parts], axis=0)].sum())
    return JointRowProfile(plan, parts, matched, undeclared)


def measure_profile(plan: QueryPlan, rows: Rows, attributes: Mapping[str, exp.Expression] | None = None) -> RowProfile:
    """Run the profile query of a plan with one block (SELECT that measures), and return its result."""
    (profile,) = _measure_blocks(plan, rows, attributes)
    return profile


def _measure_blocks(
    plan: QueryPlan, rows: Rows, attributes: Mapping[str, exp.Expression] | None
) -> tuple[RowProfile, ...]:
    """Run the profile query, and return one profile per block. Row r of every profile stands for the same people."""
    query, blocks = profile_query(plan, rows.relation, attributes), plan.blocks
    if attributes is None and len(blocks) == 1 and _count_contributions(plan) <= FEW:
        return (_read_profile(plan, _without_nobody(rows.engine.fetch_few(query)), None),)
    table = _without_nobody(rows.engine.fetch(query))
    if len(blocks) == 1:
        return (_read_profile(plan, table, attributes),)
    shared = [PEOPLE, *(attributes or {})]
    found = []
    for at, block in enumerate(blocks):
        prefix = name_part(blocks, at)
        own = [name for name in table.column_names if name.startswith(prefix)]
        part = table.select([*own, *shared])
        names = [*(name.removeprefix(prefix) for name in own), *shared]
        found.append(_read_profile(block, part.rename_columns(names), attributes))
    return tuple(found)


def _count_contributions(plan: QueryPlan) -> float:
    """Return how many different contributions the declared groups and bounds allow at most; ∞ if they set no limit."""
    if any(group.values is None for group in plan.groups) or any(each.role == "distinct" for each in plan.arguments):
        return math.inf
    groups = [len(group.values or ()) + 1 for group in plan.groups]
    return math.prod([*groups, *(each.width + 2 for each in plan.arguments)])


def _without_nobody(table: _Table) -> _Table:
    """Return the table of a profile, emptied if its only row counts 0 individuals.

    A query without GROUP BY gives such a row if it reads no rows.
    """
    return table.slice(0, 0) if table.num_rows == 1 and not read_integers(table.column(PEOPLE))[0][0] else table


def _read_profile(
    plan: QueryPlan, table: pa.Table | FewRows, attributes: Mapping[str, exp.Expression] | None
) -> RowProfile:
    everyone = INSIDE in table.column_names
    inside = read_booleans(table.column(INSIDE)) if everyone else np.ones(table.num_rows, dtype=np.bool_)
    group = np.full(table.num_rows, -1, dtype=np.int64)
    # Whoever is outside the WHERE is in no group, observed or not. Few rows hold nobody who is.
    met = table.filter(inside) if everyone and not isinstance(table, FewRows) else table
    keys, group[inside] = _index_groups(plan, met)
    names = {input_column(plan, measure) for measure in plan.measures if isinstance(measure, ArgumentMeasure)}
    inputs = {name: read_integers(table.column(name)) for name in names}
    return RowProfile(
        plan=plan,
        keys=keys,
        group=group,
        inside=inside,
        people=read_integers(table.column(PEOPLE))[0],
        inputs=inputs,
        attributes={name: _attribute(table.column(name), name) for name in (attributes or {})},
    )


def _index_groups(plan: QueryPlan, table: pa.Table | FewRows) -> tuple[tuple[GroupKey, ...], IntArray]:
    if not plan.groups:
        return ((),), np.zeros(table.num_rows, dtype=np.int64)
    columns = [read_codes(table.column(f"g{at}")) for at in range(len(plan.groups))]
    declared = plan.group_keys
    if declared is None:
        require_few_observed(plan, max(len(values) for _, values in columns))
        return observe_keys(columns)
    index = np.zeros(table.num_rows, dtype=np.int64)
    known = np.ones(table.num_rows, dtype=np.bool_)
    for at, ((codes, values), group) in enumerate(zip(columns, plan.groups, strict=True)):
        assert group.values is not None
        positions = {value: place for place, value in enumerate(group.values)}
        lookup = np.array([positions.get(value, -1) for value in values], dtype=np.int64)
        position = lookup[codes]
        if null_column(at) in table.column_names:  # elsewhere, what nobody declared was not fetched at all
            absent = np.array([value is None for value in values], dtype=np.bool_)[codes]
            position[absent & ~read_booleans(table.column(null_column(at)))] = -1
        known &= position >= 0
        index = index * len(group.values) + position
    return declared, np.where(known, index, -1)


def _attribute(column: pa.ChunkedArray, name: str) -> NDArray[np.generic]:
    """Return a value per profile row: of the ``--by`` column, or whether a FILTER holds (for NULL it does not).

    ``name``: the attribute's name. ``BY`` is the name of the ``--by`` column; every other one is a FILTER's.
    """
    import pyarrow as pa

    if name != BY and pa.types.is_boolean(column.type):
        return read_booleans(column)
    return np.array(read_values(column), dtype=object)


# ---------------------------------------------------------------- contributions


def gather(
    profile: RowProfile | UnitProfile, changes: FloatArray, ranked: FloatArray, owners: IntArray, slots: int
) -> Contributions:
    """Return the contributions of a profile's individuals.

    ``changes``: a row per entry, scaled by ``plan.weights(norm)``, and a column per measure. ``ranked``: the same for
    measures that are drawn by rank, each the part of its share of ε. ``owners``: for each entry, its profile row.
    """
    plan = profile.plan
    return Contributions.of_entries(
        changes,
        owners=owners,
        group=profile.group,
        groups=len(profile.keys),
        people=profile.people,
        attributes=profile.attributes,
        slots=slots,
        shares=share_epsilon(plan, changes, ranked) if plan.ranks or plan.part_of else None,
    )


def share_epsilon(plan: QueryPlan, changes: FloatArray, ranked: FloatArray) -> FloatArray:
    """Return, for each row of ``changes``, the share of ε that bounds the own guarantee of its individuals (P1, R12).

    ``changes``: a column per measure, scaled by ``plan.weights(1)``. Every measure has a share of ε (S5). Of its share,
    a measure that gets noise uses the part PIS/Δ, and one that is drawn by rank the part given in ``ranked``.
    """
    most = np.array([measure.sensitivity(1) for measure in plan.measures]) * plan.weights(1)
    used = np.abs(changes) / most
    for at in plan.ranks:
        used[:, at] = ranked[:, at]
    total: FloatArray = used.sum(axis=1) / float(plan.own_shares)
    return total


def _group_columns(profile: RowProfile, measure: Measure) -> list[tuple[NDArray[np.intp], GroupColumn]]:
    """Return, for each group, the indices of its profile rows and what a measure reads of them.

    Rows that the query does not touch are left out. If the measure can be computed for all groups at once (``by_group``
    is false), the result has one item with the rows of all groups.
    """
    parts = _split_by_group(profile) if measure.by_group else [np.flatnonzero(profile.touched)]
    return [(rows, read_column(profile, measure, rows)) for rows in parts]


def _split_by_group(profile: RowProfile) -> list[NDArray[np.intp]]:
    rows = np.flatnonzero(profile.touched)
    ordered = rows[np.argsort(profile.group[rows], kind="stable")]
    borders = np.flatnonzero(np.diff(profile.group[ordered])) + 1
    return [part for part in np.split(ordered, borders) if len(part)]


def read_column(profile: RowProfile, measure: Measure, rows: NDArray[np.intp]) -> GroupColumn:
    """Return what a measure reads of the profile rows with these indices. COUNT(*) reads only that they exist."""
    people = profile.people[rows]
    if not isinstance(measure, ArgumentMeasure):
        return GroupColumn(np.ones_like(people), np.ones(len(rows), dtype=np.bool_), people)
    values, present = profile.inputs[input_column(profile.plan, measure)]
    return GroupColumn(values[rows], present[rows], people)


# ---------------------------------------------------------------- the exact answer


def measure_answer(plan: QueryPlan, rows: Rows, profile: RowProfile | None = None, *, late: bool = False) -> Measured:
    """Return the exact numbers that get noise (S6), computed from the profile if there is one, otherwise by queries.

    Totals that a profile does not tell are fetched by a query as well. ``late``: many thresholded groups may come in
    any order, and be read when they are asked for.
    """
    query = answer_query(plan, rows.relation) if profile is None else None
    if query is not None:
        table = _fetch_totals(plan, rows, query)
        many = plan.threshold is not None and table.num_rows > AT_ONCE
        return _read_totals_late(plan, table) if late and many else _read_totals(plan, table)
    if profile is None and plan.ranks and len(plan.arguments) > 1:
        return _measure_apart(plan, rows)
    profile = profile if profile is not None else measure_profile(plan, rows)
    empty = [measure.empty for measure in plan.measures]
    values = [list(empty) for _ in profile.keys]
    untold: dict[int, exp.Expression] = {}
    columns: dict[int, list[GroupColumn | None]] = {at: [None] * len(profile.keys) for at in plan.ranks}
    for own in _split_by_group(profile):
        group = int(profile.group[own[0]])
        for at, measure in enumerate(plan.measures):
            if at in untold:
                continue
            column = read_column(profile, measure, own)
            if at in columns:
                columns[at][group] = column
            value = measure.value(column)
            if isinstance(value, Fraction):
                values[group][at] = value
            else:
                untold[at] = value
    if untold:
        _add_totals(plan, rows, profile.keys, untold, values)
    counted = {at: tuple(found) for at, found in columns.items()}
    return Measured(profile.keys, tuple(tuple(row) for row in values), counted)


def _measure_apart(plan: QueryPlan, rows: Rows) -> Measured:
    """Return the exact numbers, measured by one query per argument.

    A single query would give one row for every combination of the arguments' values.
    """
    parts: dict[int, list[int]] = {}
    for at, measure in enumerate(plan.measures):
        parts.setdefault(measure.position if isinstance(measure, ArgumentMeasure) else -1, []).append(at)
    found: dict[int, tuple[Measured, int]] = {}
    for position, places in parts.items():
        arguments = () if position < 0 else (plan.arguments[position],)
        measures = [plan.measures[at] for at in places]
        moved = tuple(replace(each, position=0) if isinstance(each, ArgumentMeasure) else each for each in measures)
        measured = measure_answer(replace(plan, arguments=arguments, measures=moved), rows)
        found |= {at: (measured, column) for column, at in enumerate(places)}
    keys = found[0][0].keys
    columns = range(len(plan.measures))
    values = tuple(tuple(found[at][0].values[row][found[at][1]] for at in columns) for row in range(len(keys)))
    return Measured(keys, values, {at: found[at][0].columns[found[at][1]] for at in plan.ranks})


def _add_totals(
    plan: QueryPlan,
    rows: Rows,
    keys: tuple[GroupKey, ...],
    untold: Mapping[int, exp.Expression],
    values: list[list[Fraction]],
) -> None:
    """Fetch the totals that the profile does not give, and write them into ``values``.

    ``untold``: the aggregate to run for each such measure, by the measure's index. ``values``: a list per key, a number
    per measure.
    """
    alone = replace(plan, measures=tuple(plan.measures[at] for at in untold))
    query = totals_query(alone, rows.relation, list(untold.values()))
    counted = _read_totals(alone, _fetch_totals(alone, rows, query))
    found = dict(zip(counted.keys, counted.values, strict=True))
    for position, key in enumerate(keys):
        for column, at in enumerate(untold):
            values[position][at] = found[key][column] if key in found else Fraction(0)


def _fetch_totals(plan: QueryPlan, rows: Rows, query: exp.Select) -> pa.Table | FewRows:
    """Fetch the totals of every group: as plain lists if at most ``FEW`` groups are declared, otherwise as Arrow."""
    few = plan.group_keys is not None and len(plan.group_keys) <= FEW
    return rows.engine.fetch_few(query) if few else rows.engine.fetch(query)


def _read_totals_late(plan: QueryPlan, table: pa.Table | FewRows) -> Measured:
    keys = read_keys_late([table.column(f"g{at}") for at in range(len(plan.groups))])
    totals = [table.column(f"m{at}") for at in range(len(plan.measures))]
    return Measured(keys, LateRows(totals, [partial(_scale, measure.unit) for measure in plan.measures]))


def _scale(unit: Fraction, total: Any) -> Fraction:
    return int(total) * unit


def _read_totals(plan: QueryPlan, table: pa.Table | FewRows) -> Measured:
    keys, group = _index_groups(plan, table)
    empty = [measure.empty for measure in plan.measures]
    values = [list(empty) for _ in keys]
    for at, measure in enumerate(plan.measures):
        totals = read_values(table.column(f"m{at}"))
        for row, total in enumerate(totals):
            if group[row] >= 0:
                values[group[row]][at] = int(total) * measure.unit
    return Measured(keys, tuple(tuple(row) for row in values))
