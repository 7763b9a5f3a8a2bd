"""Measure the contributions of whole individuals: leaving one out removes all their rows (S1–S5, C1–C4, C9).

Reads the unit profile: one row per distinct list of entries. An entry is all that an individual contributes to one
group. An individual may move several groups at once, so the contribution is kept as a sparse vector.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from dosimeter.arrays import IntArray
from dosimeter.engines import read_codes
from dosimeter.errors import SourceUnreachable
from dosimeter.html import Private
from dosimeter.influence.contributions import Contributions
from dosimeter.influence.observed_keys import observe_keys
from dosimeter.influence.profiles import ExposedSearch, JointProfile, Profile
from dosimeter.influence.rows.row_profile import Measured, gather, measure_answer
from dosimeter.influence.units.joint_queries import (
    TOUCHED,
    is_wide,
    joint_profile_query,
    joint_unit_query,
    list_columns,
    prefix,
    touched_query,
)
from dosimeter.influence.units.unit_queries import (
    ENTRIES,
    MOST_COLUMNS,
    PEOPLE,
    UNDECLARED,
    Layout,
    find_countable,
    find_near,
    lay_out,
    matching_units_query,
    per_unit_query,
    undeclared_query,
    unit_fields,
    unit_profile_query,
)
from dosimeter.influence.units.unit_rows import BY, GROUP, count_groups, observed_groups_query, unit_rows
from dosimeter.measures import Entries, NearValues, UnitField, Values, WholeNumbers
from dosimeter.mechanisms import Norm
from dosimeter.planning import QueryPlan, require_few_observed
from dosimeter.schema import Scalar

if TYPE_CHECKING:
    import pyarrow as pa

    from dosimeter.influence.measured_rows import Rows
    from dosimeter.influence.most_exposed import ExposedRecord

Columns = dict[str, "pa.ChunkedArray | pa.Array"]
Lists = tuple[IntArray, tuple[Values, ...]]
Around = tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]


@dataclass(frozen=True, slots=True, repr=False)
class UnitProfile(Private):
    """The result of the unit profile query: one row per distinct contribution, and how many people have it.

    ``layout``: the form of a row in that query's result. ``people``, ``inside``, ``attributes`` and ``identities`` (the
    columns in which the rows differ) have one element per row. An entry is what each individual of a row contributes to
    one group. ``inside``: whether the row has entries. Row r has the entries ``starts[r]:starts[r + 1]``. ``group`` and
    ``fields`` have one element per entry; ``group`` is an index into ``keys``, the groups' values. A quantile's field
    (v…) holds indices into ``values``: lists of the values near the quantile, each value with how many of the
    individual's rows have it. ``undeclared``: how many individuals have rows that meet the WHERE and are in no declared
    group.
    """

    layout: Layout
    keys: tuple[tuple[Scalar, ...], ...]
    people: IntArray
    inside: NDArray[np.bool_]
    starts: IntArray
    group: IntArray
    fields: Mapping[str, WholeNumbers]
    values: Mapping[str, tuple[Values, ...]]
    attributes: Mapping[str, NDArray[np.generic]]
    identities: pa.Table
    undeclared: int  # individuals with rows that meet the WHERE and are in no declared group (C7)

    holds_totals: ClassVar[bool] = False

    @property
    def plan(self) -> QueryPlan:
        return self.layout.plan

    @property
    def matched(self) -> int:
        return int(self.people[self.inside].sum())

    @property
    def owners(self) -> IntArray:
        """Return, for each entry, the index of the profile row that it belongs to."""
        return np.repeat(np.arange(len(self.people)), np.diff(self.starts))

    @property
    def entries(self) -> Entries:
        """Return the entries of all rows, each with how many individuals have it."""
        return Entries(self.group, self.people[self.owners], self.fields, self.values)

    def identity(self, row: int) -> dict[str, int | str | None]:
        """Return what the individuals of this row contribute, as the values of the profile query's columns, by name."""
        found = self.identities.slice(row, 1).to_pylist()[0]
        return {name: value if value is None or isinstance(value, str) else int(value) for name, value in found.items()}

    def alike_query(self, relation: exp.Expression, row: int, count: int) -> exp.Select:
        """Return the query for up to ``count`` of the individuals whom this row of the profile stands for."""
        return matching_units_query(per_unit_query(self.layout, relation), self.identity(row), count)

    def contributions(self, n: int, norm: Norm) -> Contributions:
        plan = self.plan
        weights = plan.weights(norm)
        changes = np.zeros((len(self.group), len(plan.measures)))
        everything = self.entries
        for at, measure in enumerate(plan.measures):
            changes[:, at] = measure.unit_effects(everything) * weights[at]
        shares = np.zeros_like(changes)
        for at, rank in plan.ranks.items():
            shares[:, at] = rank.unit_shares(everything)
        return gather(self, changes, shares, self.owners, n)

    def measure_answer(self, rows: Rows) -> Measured:
        return _add_up_answer(self) or measure_answer(self.plan, rows)

    def group_sizes(self) -> list[int]:
        return []

    def find_exposed(self, search: ExposedSearch) -> list[ExposedRecord]:
        from dosimeter.influence.most_exposed import find_units

        return find_units(self, search)


class JointUnitProfile(JointProfile[UnitProfile]):
    """The profile of a plan with several blocks, where individuals have several rows."""

    __slots__ = ()

    @property
    def identities(self) -> pa.Table:
        """Return the columns, of all blocks, in which the rows differ: every part has them."""
        return self.parts[0].identities

    def alike_query(self, relation: exp.Expression, row: int, count: int) -> exp.Select:
        """Return the query for up to ``count`` of the individuals whom this row of the profile stands for."""
        return matching_units_query(joint_unit_query(self.plan, relation), self.parts[0].identity(row), count)

    def find_exposed(self, search: ExposedSearch) -> list[ExposedRecord]:
        from dosimeter.influence.most_exposed import find_units

        return find_units(self, search)


def profile_units(plan: QueryPlan, rows: Rows, attributes: Mapping[str, exp.Expression] | None = None) -> Profile:
    """Run the unit profile query, and return its result.

    ``attributes``: conditions of a preference's FILTERs and the ``--by`` column, by name; with them people outside the
    WHERE are profiled too. Raises SourceUnreachable if the data changed meanwhile.
    """
    return (_measure_joint if plan.further else _measure_single)(plan, rows, attributes)


def _measure_single(plan: QueryPlan, rows: Rows, attributes: Mapping[str, exp.Expression] | None) -> UnitProfile:
    """Return the profile of a plan with one block (SELECT that measures)."""
    observed = None if plan.threshold is None else _observe_groups(plan, rows)
    undeclared = _count_undeclared(plan, rows)
    around = {field.name: _find_around(plan, rows, field) for field in find_countable(plan)}
    near = {name: tuple(values for values, _ in groups) for name, groups in around.items() if groups}
    layout = lay_out(plan, near, all_declared=not undeclared)
    table = rows.engine.fetch(unit_profile_query(layout, rows.relation, attributes, rows.everybody))
    if layout.wide:
        _require_unchanged(layout, around, table, _read_people(table))
    identities = table.select(layout.identity_columns())
    return _read_profile(layout, table, identities, undeclared, attributes or {}, own=identities, observed=observed)


def _measure_joint(plan: QueryPlan, rows: Rows, attributes: Mapping[str, exp.Expression] | None) -> JointUnitProfile:
    """Return the profile of a plan with several blocks (SELECTs that measure)."""
    table = rows.engine.fetch(joint_profile_query(plan, rows.relation, attributes, rows.everybody))
    names = [list_columns(plan, at) for at in range(len(plan.blocks))]
    identities = table.select([name for own in names for name in own])
    found = []
    for at, (block, own) in enumerate(zip(plan.blocks, names, strict=True)):
        part = table.select(own).rename_columns([name.removeprefix(prefix(at)) for name in own])
        layout = Layout(block, is_wide(plan), {})
        undeclared = _count_undeclared(block, rows)
        found.append(_read_profile(layout, table, identities, undeclared, attributes or {}, own=part))
    if is_wide(plan) and attributes is None:
        matched = _count_touched(plan, rows)
    else:
        matched = int(found[0].people[np.any([part.inside for part in found], axis=0)].sum())
    return JointUnitProfile(plan, tuple(found), matched, max(part.undeclared for part in found))


def _read_profile(
    layout: Layout,
    table: pa.Table,
    identities: pa.Table,
    undeclared: int,
    attributes: Iterable[str],
    *,
    own: pa.Table,
    observed: _Observed | None = None,
) -> UnitProfile:
    """Return the profile of one block, read from the table that the profile query gave.

    ``own``: the block's columns, as ``layout`` names them. ``table``: all columns. ``identities``: the columns, of all
    blocks, that tell profile rows apart. ``undeclared``: how many rows of the data are in no declared group.
    ``observed``: the groups of the data, where groups are thresholded.
    """
    plan = layout.plan
    keys = plan.group_keys if observed is None else observed.keys
    assert keys is not None, "observed groups are refused where individuals have several rows"
    inside = np.asarray(own.column(0).is_valid().to_numpy(), dtype=np.bool_)
    counted: dict[str, Lists] = {}
    if layout.wide:
        owners, group, columns, counted = _gather_entries(layout, own, inside)
    else:
        owners, group, columns = _split_entries(plan, own.column(ENTRIES))
        group = group if observed is None else observed.find(group)
    lists = {field.name for field in unit_fields(plan) if isinstance(field, NearValues)}
    listed = counted | {name: _read_lists(column) for name, column in columns.items() if name in lists}
    whole = {name: _read_numbers(column) for name, column in columns.items() if name not in listed}
    people = _read_people(table)
    return UnitProfile(
        layout=layout,
        keys=keys,
        people=people,
        inside=inside,
        starts=np.concatenate([[0], np.cumsum(np.bincount(owners, minlength=len(people)))]).astype(np.int64),
        group=group,
        fields=whole | {name: codes for name, (codes, _) in listed.items()},
        values={name: values for name, (_, values) in listed.items()},
        attributes={name: _attribute(table.column(name), name) for name in attributes},
        identities=identities,
        undeclared=undeclared,
    )


def _read_people(table: pa.Table) -> IntArray:
    return np.asarray(table.column(PEOPLE).to_numpy(), dtype=np.int64)


def _count_touched(plan: QueryPlan, rows: Rows) -> int:
    """Return how many individuals at least one block (SELECT that measures) touches (N5), counted by a query.

    A profile with columns of numbers (``is_wide``) does not tell: there, somebody whom a block does not touch has
    zeros, and so has somebody whom it touches and who contributes zeros. One with a text for each block has NULL.
    """
    return int(rows.engine.fetch(touched_query(plan, rows.relation)).column(TOUCHED)[0].as_py())


def _count_undeclared(plan: QueryPlan, rows: Rows) -> int:
    """Return how many individuals have rows that meet the WHERE and are in no declared group.

    If the groups can be read from the table's own rows, a cheap query comes first, without the WHERE and without the
    queries of IN and EXISTS. If it finds no row in an undeclared group, the answer is 0 and those queries need not run.
    """
    query = undeclared_query(plan, rows.relation)
    if query is None:
        return 0
    read = {node.name for group in plan.groups for node in group.tree.find_all(exp.Column)}
    if rows.everybody is not None and rows.flags is not None and not read & rows.flags:
        everywhere = undeclared_query(plan, rows.everybody, everywhere=True)
        if everywhere is not None and not rows.engine.fetch(everywhere).column(UNDECLARED)[0].as_py():
            return 0
    return int(rows.engine.fetch(query).column(UNDECLARED)[0].as_py())


@dataclass(frozen=True, slots=True, repr=False)
class _Observed:
    """The groups that are in the data (H1). Private data.

    ``keys``: their values, in order. ``places``: the index of each group in ``keys``, by the whole number that stands
    for the group in queries (``observed_number``).
    """

    keys: tuple[tuple[Scalar, ...], ...]
    places: Mapping[int, int]

    def find(self, numbers: IntArray) -> IntArray:
        return np.array([self.places[number] for number in numbers.tolist()], dtype=np.int64)


def _observe_groups(plan: QueryPlan, rows: Rows) -> _Observed:
    table = rows.engine.fetch(observed_groups_query(plan, rows.relation))
    require_few_observed(plan, table.num_rows)
    keys, index = observe_keys([read_codes(table.column(f"g{at}")) for at in range(len(plan.groups))])
    numbers = (int(number) for number in table.column(GROUP).to_pylist())
    return _Observed(keys, dict(zip(numbers, index.tolist(), strict=True)))


def _find_around(plan: QueryPlan, rows: Rows, field: NearValues) -> Around:
    """Return, for each group, the values near a quantile and how many rows have each.

    Rows with other values are counted at the nearest of these values. A group without values has the value 0 with 0
    rows. The result is empty if all groups together have more such values than a profile may have columns.
    """
    query = field.near_query(unit_rows(plan, rows.relation)).limit(MOST_COLUMNS + 1)
    found = rows.engine.fetch(query).to_pylist()
    if len(found) > MOST_COLUMNS:
        return ()
    around = []
    for group in range(count_groups(plan)):
        near = sorted((row for row in found if not plan.groups or row[GROUP] == group), key=lambda row: int(row["v"]))
        times = [int(row["c"]) for row in near] or [0]
        if near:
            below, above = int(near[0]["upto"]) - times[0], int(near[-1]["total"]) - int(near[-1]["upto"])
            times[0] += below
            times[-1] += above
        around.append((tuple(int(row["v"]) for row in near) or (0,), tuple(times)))
    return tuple(around)


def _require_unchanged(layout: Layout, around: Mapping[str, Around], table: pa.Table, people: IntArray) -> None:
    """Refuse data that changed between two queries, by comparing how many rows have each value near a quantile.

    ``around``: for each quantile field, the values in each group and how many rows had each when they were looked for.
    ``table``: the profile, measured later, whose counts must add up to the same. Raises SourceUnreachable.
    """
    for field in find_near(layout):
        for group, (_, times) in enumerate(around[field.name]):
            for column, expected in zip(layout.columns(field, group), times, strict=True):
                if int(np.sum(people * table.column(column).fill_null(0).to_numpy())) != expected:
                    raise SourceUnreachable(f"{layout.plan.table} changed while it was measured. Look again.")


def _gather_entries(
    layout: Layout, table: pa.Table, inside: NDArray[np.bool_]
) -> tuple[IntArray, IntArray, Columns, dict[str, Lists]]:
    """Return the entries of a wide profile, ordered by profile row and then by group.

    Wide: with a column for each field of each group. ``inside``: which rows of ``table`` have entries. Returns four
    things: the profile row of each entry; the group of each entry; by name, the fields with one column per group; and
    by name, the quantile fields with one column per value near the quantile. Such a quantile field is returned as the
    index of each entry's list of values, and the distinct lists.
    """
    import pyarrow as pa

    groups = count_groups(layout.plan)
    found = table.filter(inside)
    rows = np.flatnonzero(inside).astype(np.int64)
    order = np.arange(groups * len(rows)).reshape(groups, len(rows)).T.ravel()  # by row, then by group
    columns: Columns = {}
    counted: dict[str, Lists] = {}
    for field in unit_fields(layout.plan):
        if field.name in layout.near:
            codes, values = _gather_counts(layout, found, field)
            counted[field.name] = codes[order], values
        else:
            parts = [found.column(layout.columns(field, at)[0]) for at in range(groups)]
            chunks = [chunk for part in parts for chunk in part.chunks]
            columns[field.name] = pa.chunked_array(chunks, parts[0].type).take(pa.array(order))
    return np.repeat(rows, groups), np.tile(np.arange(groups, dtype=np.int64), len(rows)), columns, counted


def _gather_counts(layout: Layout, found: pa.Table, field: UnitField) -> Lists:
    """Return, for each entry of the profile, which values near a quantile the individual's rows have, and how often.

    These are lists of pairs: a value, and how many of the individual's rows in the group have it. A row with another
    value counts at the nearest value near the quantile. Equal lists of one group are kept once; the result has the
    lists, and for each entry the index of its own. Entries are ordered by group and then by profile row. ``found``: the
    rows of a wide profile, which has a column for each value near the quantile in each group.
    """
    codes: list[IntArray] = []
    lists: list[Values] = []
    for group, near in enumerate(layout.near[field.name]):
        counts = np.column_stack([found.column(each).to_numpy() for each in layout.columns(field, group)])
        distinct, where = np.unique(counts, axis=0, return_inverse=True)
        codes.append(len(lists) + where.reshape(-1))
        lists += [tuple(pair for pair in zip(near, row, strict=True) if pair[1]) for row in distinct.tolist()]
    return np.concatenate(codes), tuple(lists)


def _split_entries(plan: QueryPlan, texts: pa.ChunkedArray) -> tuple[IntArray, IntArray, Columns]:
    """Return the profile row of each entry, its group, and its fields by name, split from ``group:field:…;…``.

    ``texts``: one text per profile row.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    column = texts.combine_chunks() if texts.num_chunks else pa.array([], pa.string())
    column = column.cast(pa.string())
    lists = pc.split_pattern(column, ";")
    owners = np.asarray(pc.list_parent_indices(lists).to_numpy(), dtype=np.int64)
    parts = pc.list_flatten(pc.split_pattern(pc.list_flatten(lists), ":"))
    names = [field.name for field in unit_fields(plan)]
    width = 1 + len(names)
    assert len(parts) == width * len(owners)
    places = np.arange(len(owners), dtype=np.int64) * width
    fields = {name: parts.take(pa.array(places + at)) for at, name in enumerate(names, start=1)}
    group = _read_numbers(parts.take(pa.array(places)))
    return owners, np.asarray(group, dtype=np.int64), fields


def _read_numbers(column: pa.ChunkedArray | pa.Array) -> WholeNumbers:
    import pyarrow as pa

    try:
        return np.asarray(column.cast(pa.int64()).to_numpy(zero_copy_only=False), dtype=np.int64)
    except pa.ArrowInvalid:  # beyond 64 bits
        return np.array([int(value) for value in column.to_pylist()], dtype=object)


def _read_lists(column: pa.ChunkedArray | pa.Array) -> Lists:
    """Return, for each entry, the index of its list of values among the distinct lists, and the distinct lists.

    ``column``: each entry's list as text, such as ``3x2,5x1`` (see ``_read_values``).
    """
    import pyarrow as pa

    chunked = column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])
    encoded = pa.chunked_array(chunked.chunks, pa.string()).combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    codes = np.asarray(encoded.indices.to_numpy(zero_copy_only=False), dtype=np.int64)
    return codes, tuple(_read_values(text) for text in encoded.dictionary.to_pylist())


def _read_values(text: str) -> Values:
    """Return the (value, rows) pairs of ``3x2,5x1``: two rows with 3, one with 5. Empty if all rows were NULL."""
    pairs = (item.split("x") for item in text.split(",") if item)
    return tuple((int(value), int(times)) for value, times in pairs)


def _attribute(column: pa.ChunkedArray, name: str) -> NDArray[np.generic]:
    if name == BY:
        return np.array([*column.to_pylist(), None], dtype=object)[:-1]  # NumPy would make one array of equal lists
    return np.asarray(column.fill_null(False).to_numpy(), dtype=np.bool_)


def _add_up_answer(profile: UnitProfile) -> Measured | None:
    """Return the exact numbers as sums of what individuals add to them; None if a measure is not such a sum."""
    measures, groups = profile.plan.measures, len(profile.keys)
    entries = profile.entries
    totals = []
    for measure in measures:
        steps = measure.unit_steps(entries)
        if steps is None:
            return None
        totals.append([total * measure.unit for total in entries.add_up(steps, groups)])
    return Measured(profile.keys, tuple(zip(*totals, strict=True)))
