"""Find who is most exposed, and why: the records behind the profile's largest contributions, identical ones grouped.

The only module that fetches records, and only as many as were asked for. Identifying columns are masked.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from dosimeter.arrays import FloatArray, IntArray
from dosimeter.engines import fetch_rows
from dosimeter.errors import OptionError
from dosimeter.influence.contributions import Contributions
from dosimeter.influence.measured_rows import Rows
from dosimeter.influence.profiles import ExposedSearch, Profile
from dosimeter.influence.rows.row_profile import JointRowProfile, Measured, RowProfile
from dosimeter.influence.rows.row_queries import PEOPLE, held_values_query, input_column, people_query
from dosimeter.influence.units.unit_profile import JointUnitProfile, UnitProfile
from dosimeter.json_values import JsonScalar
from dosimeter.measures import ArgumentMeasure, Seen
from dosimeter.mechanisms import Norm
from dosimeter.planning import QueryPlan
from dosimeter.postprocess import assemble_groups, estimate_group
from dosimeter.problems import Option
from dosimeter.sql import conjunction, connect, equals, is_declared, wrap

MASK = "•••"


@dataclass(frozen=True, slots=True, repr=False)
class ExposedRecord:
    """A group of identical records, or of individuals who contribute the same.

    ``row``: the index of their row in the Contributions. ``people``: how many they are. ``sensitivity``: their PIS.
    ``why``: a sentence on what changes when one of them is left out. ``columns``: what to show of the data, by column
    name; what identifies people is masked unless it was to be revealed.
    """

    row: int
    people: int
    sensitivity: float
    why: str
    columns: Mapping[str, JsonScalar]


def find_people(profile: RowProfile | JointRowProfile, search: ExposedSearch) -> list[ExposedRecord]:
    """Return groups of identical records, most exposed first, where everybody has one row.

    Raises OptionError for an unknown column.
    """
    plan, parts, rows = profile.plan, profile.parts, search.rows
    identifying = [name for name, column in plan.schema.columns.items() if column.identifying]
    shown = _shown_columns(plan, search.columns, identifying)
    visible = [name for name in shown if search.reveal or name not in identifying]
    norms = search.contributions.norms(search.norm)[: len(profile.people)]
    found: list[ExposedRecord] = []
    tried: list[exp.Expression] = []  # one query finds everybody in a group that nobody declared
    for row in _most_exposed_first(parts, norms):
        if len(found) >= search.count or not any(part.inside[row] for part in parts):
            break
        condition = _condition_of_all(parts, int(row), rows)
        if condition in tried:
            continue
        tried.append(condition)
        query = people_query(_asked(parts), rows.relation, visible, condition, search.count - len(found))
        why = explain_change(plan, search, int(row))
        for record in fetch_rows(rows.engine, query, [*(f"c{at}" for at in range(len(visible))), PEOPLE]):
            seen = {name: show_cell(record[f"c{at}"]) for at, name in enumerate(visible)}
            columns_seen = {name: seen.get(name, MASK) for name in shown}
            found.append(ExposedRecord(int(row), int(record[PEOPLE]), float(norms[row]), why, columns_seen))
    return found[: search.count]


def _asked(parts: Sequence[RowProfile]) -> QueryPlan:
    """Return the plan whose WHERE the records to show must meet.

    ``parts``: the profile of each block (SELECT that measures). With one block it is the plan of this block. With
    several it is the first block's plan without its WHERE, because ``_condition_of_all`` tests the WHERE of each block.
    """
    return parts[0].plan if len(parts) == 1 else replace(parts[0].plan, where=None)


def find_most_exposed(profile: Profile, exposure: FloatArray) -> int | None:
    """Return the row of the profile whose people ``find_people`` or ``find_units`` lists first; None for no row.

    ``exposure``: how exposed each row's individuals are, such as the norms of the contributions.
    """
    if not profile.inside.any():
        return None
    if isinstance(profile, UnitProfile | JointUnitProfile):
        return _most_exposed_units(profile, exposure[: len(profile.people)], 1)[0]
    assert isinstance(profile, RowProfile | JointRowProfile), "every profile is of rows or of units"
    return int(_most_exposed_first(profile.parts, exposure[: len(profile.people)])[0])


def _most_exposed_first(parts: Sequence[RowProfile], norms: FloatArray) -> NDArray[np.intp]:
    """Return the indices of the profile's rows, largest norm first; rows outside the WHERE of every block come last.

    Among rows with equal norms those with fewer people come first. Rows that are still equal are ordered by group and
    inputs, so that the order in which the engine gave them does not matter.
    """
    inputs = [column for part in parts for name in sorted(part.inputs) for column in part.inputs[name]]
    inside = np.any([part.inside for part in parts], axis=0)
    return np.lexsort((*inputs, *(part.group for part in parts), parts[0].people, -norms, ~inside))


def find_units(profile: UnitProfile | JointUnitProfile, search: ExposedSearch) -> list[ExposedRecord]:
    """Return groups of individuals who contribute the same, most exposed first, where individuals have several rows.

    If they are to be revealed, each group names its individuals, up to ``search.count``. Raises OptionError if columns
    are to be shown.
    """
    if search.columns:
        raise OptionError(Option("columns"), " is for one row per individual: of several rows none speaks for them.")
    plan, rows = profile.plan, search.rows
    norms = search.contributions.norms(search.norm)[: len(profile.people)]
    found: list[ExposedRecord] = []
    for row in _most_exposed_units(profile, norms, search.count):
        shown: Any = MASK
        if search.reveal:
            alike = rows.engine.fetch(profile.alike_query(rows.relation, row, search.count))
            shown = ", ".join(str(unit) for unit in alike.column(0).to_pylist())
        why = explain_change(plan, search, row)
        found.append(ExposedRecord(row, int(profile.people[row]), float(norms[row]), why, {plan.schema.unit: shown}))
    return found


def _most_exposed_units(profile: UnitProfile | JointUnitProfile, norms: FloatArray, count: int) -> list[int]:
    """Return the indices of up to ``count`` rows of the profile, largest norm first, without rows outside the WHERE.

    Among rows with equal norms those with fewer people come first. Rows that are still equal are ordered by what they
    contribute, so that the order in which the engine gave them does not matter.
    """
    inside = np.flatnonzero(profile.inside)
    least = np.sort(norms[inside])[-count:][:1]
    rows = inside[norms[inside] >= least] if len(inside) else inside
    found = profile.identities.take(rows).to_pylist()
    identities = [["" if value is None else value for value in each.values()] for each in found]
    people = profile.people[rows]
    order = sorted(range(len(rows)), key=lambda at: (-norms[rows[at]], people[at], identities[at]))
    return [int(rows[at]) for at in order[:count]]


def _shown_columns(plan: QueryPlan, columns: Sequence[str] | None, identifying: Sequence[str]) -> list[str]:
    """Return the columns asked for; if ``columns`` is None, those that the query reads or that identify people.

    Raises OptionError for an unknown column.
    """
    names = list(plan.schema.columns)
    if columns is None:
        return [name for name in names if name in plan.columns or name in identifying]
    lowered = {name.lower(): name for name in names}
    unknown = [name for name in columns if name.lower() not in lowered]
    if unknown:
        raise OptionError(f"There is no column {unknown[0]}. Known columns: {', '.join(names)}.")
    return [lowered[name.lower()] for name in columns]


def show_cell(value: Any) -> JsonScalar:
    """Return a cell of the data as JSON can hold it.

    None, truth values, texts and finite numbers stay unchanged; everything else becomes text.
    """
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return str(value.isoformat() if hasattr(value, "isoformat") else value)


def take_row(contributions: Contributions, row: int) -> Contributions:
    """Return the contribution of one individual of the row with index ``row``, as Contributions with this row alone.

    Its ``people`` is 1, and the attributes are left out.
    """
    entries = slice(int(contributions.starts[row]), int(contributions.starts[row + 1]))
    cells = contributions.cells[entries]
    return Contributions(
        k=contributions.k,
        people=np.ones(1, dtype=np.int64),
        starts=np.array([0, len(cells)], dtype=np.int64),
        cells=cells,
        changes=contributions.changes[entries],
        shares=None if contributions.shares is None else contributions.shares[[row]],
    )


def _condition_of_all(parts: Sequence[RowProfile], row: int, rows: Rows) -> exp.Expression:
    """Return the condition that a record belongs to this row of the profile.

    ``parts``: the profile of each block (SELECT that measures). With several blocks the condition tests each of them:
    if the row is outside the block's WHERE, the record must be outside too; otherwise it must be inside and have the
    row's group and inputs.
    """
    if len(parts) == 1:
        return _condition_of(parts[0], row, rows)
    tests: list[exp.Expression] = []
    for part in parts:
        where = part.plan.where
        met = exp.Coalesce(
            this=exp.Boolean(this=True) if where is None else wrap(where.copy()),
            expressions=[exp.Boolean(this=False)],
        )
        if part.inside[row]:
            tests += [met, wrap(_condition_of(part, row, rows))]
        else:
            tests.append(exp.Not(this=met))
    return connect(tests, exp.And)


def _condition_of(profile: RowProfile, row: int, rows: Rows) -> exp.Expression:
    """Return the condition by which the records of one row of the profile are found among those inside the WHERE.

    For a row without a declared group the condition says only that the group is not declared, so that it finds the
    records of all such rows.
    """
    plan = profile.plan
    group = int(profile.group[row])
    if group < 0:
        return _in_no_declared_group(plan)
    tests: list[exp.Expression] = [exp.Boolean(this=True)]
    tests += [equals(g.tree, value) for g, value in zip(plan.groups, profile.keys[group], strict=True)]
    grouped = list(tests)
    for measure in plan.measures:
        if isinstance(measure, ArgumentMeasure):
            tests.append(measure.condition(_see(profile, row, measure, rows, grouped)))
    return connect(tests, exp.And)


def _in_no_declared_group(plan: QueryPlan) -> exp.Expression:
    """Return the condition that a record is in a group that nobody declared (C7). Undeclared NULL is such a group."""
    declared = conjunction(is_declared(group.tree, group.values) for group in plan.groups if group.values is not None)
    assert declared is not None, "only declared groups leave somebody out"
    known = exp.Coalesce(this=exp.Paren(this=declared), expressions=[exp.Boolean(this=False)])
    return exp.Not(this=known)


def _see(
    profile: RowProfile, row: int, measure: ArgumentMeasure, rows: Rows, grouped: Sequence[exp.Expression]
) -> Seen | None:
    """Return what one row of the profile holds of a measure's argument (see ``Seen``); None if the argument is NULL.

    ``row``: the row's index. The queries that ``Seen.held`` returns read those of ``rows`` that meet the conditions
    ``grouped``, which say that a record is in the profile row's group.
    """
    plan = profile.plan
    name = input_column(plan, measure)
    values, present = profile.inputs[name]
    if not present[row]:
        return None

    def kept() -> IntArray:
        of_group: IntArray = values[(profile.group == profile.group[row]) & present & profile.inside]
        return of_group

    def held(alone: bool) -> exp.Select:
        tree = measure.argument.tree
        return held_values_query(plan, rows.relation, tree, conjunction(grouped), alone=alone)

    return Seen(int(values[row]), reduced=name != measure.column_name, kept=kept, held=held)


def explain_change(plan: QueryPlan, search: ExposedSearch, row: int) -> str:
    """Return a sentence on which numbers of the answer change, from what to what, without one individual of this row.

    ``row``: the index of a row of the contributions. Values of groups that identify people are shown only if they are
    to be revealed.
    """
    contributions = search.contributions
    start, stop = contributions.starts[row], contributions.starts[row + 1]
    if start == stop:
        return "leaving them out changes nothing"
    entries = list(zip(contributions.cells[start:stop].tolist(), contributions.changes[start:stop], strict=True))
    said, before = [], 0
    for block, exact in zip(plan.blocks, search.measured.blocks, strict=True):
        cells = len(exact.keys) * len(block.measures)
        own = [(cell - before, change) for cell, change in entries if 0 <= cell - before < cells]
        before += cells
        if own:
            said.append(_explain_block(block, exact, own, search))
    return "; ".join(said)


def _explain_block(
    plan: QueryPlan, measured: Measured, entries: Sequence[tuple[int, float]], search: ExposedSearch
) -> str:
    """Return a sentence on which numbers of one block (SELECT that measures) change.

    ``entries``: pairs of a cell's index, counted from the block's first cell, and the change of this cell, scaled by
    ``plan.weights(norm)``.
    """
    changed = leave_out(plan, measured, entries, search.norm)
    return "; ".join(_describe(plan, measured, group, after, search.reveal) for group, after in changed.items())


def leave_out(
    plan: QueryPlan, measured: Measured, entries: Sequence[tuple[int, float]], norm: Norm
) -> dict[int, list[Fraction]]:
    """Return the exact numbers, without one individual, of each group of a block that they move, by the group's index.

    ``entries``: pairs of a cell's index, counted from the block's first cell, and the change of this cell, scaled by
    ``plan.weights(norm)``.
    """
    weights = plan.weights(norm)
    width = len(plan.measures)
    changed: dict[int, list[Fraction]] = {}
    for cell, change in entries:
        group, measure = divmod(cell, width)
        after = changed.setdefault(group, list(measured.values[group]))
        step = plan.measures[measure].unit if plan.measures[measure].additive else None
        exact = Fraction(float(change) / float(weights[measure]))
        after[measure] -= round(exact / step) * step if step else exact
    return changed


def label_group(plan: QueryPlan, key: Sequence[Any], reveal: bool) -> str:
    """Return the values of a group as text, each masked if its GROUP BY expression reads an identifying column.

    ``reveal``: whether to show them instead of masking them.
    """
    return ", ".join(_show_key(plan, at.tree, value, reveal) for at, value in zip(plan.groups, key, strict=True))


def _describe(plan: QueryPlan, measured: Measured, group: int, after: Sequence[Fraction], reveal: bool) -> str:
    key = measured.keys[group]
    before_row, after_row = assemble_groups(plan, [key, key], [measured.values[group], after])
    label = label_group(plan, key, reveal)
    moves = [
        f"{output.name} from {_number(before_row[output.name])} to {_number(after_row[output.name])}"
        for output in plan.outputs
        if output.is_aggregate and before_row.get(output.name) != after_row.get(output.name)
    ]
    if not moves:
        parts = zip(estimate_group(plan, measured.values[group]), estimate_group(plan, after), strict=True)
        moves = [
            f"{e.label} from {_number(a)} to {_number(b)}" for e, (a, b) in zip(plan.estimates, parts, strict=True)
        ]
    prefix = f"{label}: " if label else ""
    return prefix + ", ".join(moves)


def _show_key(plan: QueryPlan, tree: exp.Expression, value: Any, reveal: bool) -> str:
    """Return a value of the GROUP BY expression ``tree`` as text, masked if ``tree`` reads an identifying column.

    ``reveal``: whether to show the value instead of masking it.
    """
    columns = (plan.schema.columns.get(node.name) for node in tree.find_all(exp.Column))
    if not reveal and any(column is not None and column.identifying for column in columns):
        return MASK
    return "NULL" if value is None else str(show_cell(value))


def _number(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.6g}" if abs(value) < 1e6 else f"{value:,.2f}"
