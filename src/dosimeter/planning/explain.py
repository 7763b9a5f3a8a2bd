"""Explain what a plan would measure: for ``dosimeter explain`` and the analyst's page. Gives public facts only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

from sqlglot import exp

from dosimeter.json_values import JsonObject
from dosimeter.mechanisms import NORMS, Laplace
from dosimeter.planning.person_stage import joined_stages, list_trees
from dosimeter.planning.query_plan import QueryPlan
from dosimeter.sql import note_unlisted


@dataclass(frozen=True, slots=True)
class ExplainedMeasure:
    """One noisy number per group: what is measured, how far one individual can move it, and the grid of its noise."""

    measure: str
    kind: str
    sensitivity: float
    grid: float


@dataclass(frozen=True, slots=True)
class Explanation:
    """An explanation of what a query would measure: all that SQL and schema decide, nothing of the data.

    ``groups`` and ``k`` (noisy numbers in all) are None where the groups are those observed in the data.
    ``sensitivity`` is Δ of the whole answer, by mechanism. ``additive``: whether ε can also be found and released
    privately. ``group_delta``: the δ of groups that nobody declared (H1); None where they are declared or observed.
    """

    query: str
    table: str
    columns: tuple[str, ...]
    outputs: tuple[str, ...]
    measures: tuple[ExplainedMeasure, ...]
    groups: int | None
    group_columns: tuple[str, ...]
    k: int | None
    sensitivity: Mapping[str, float]
    additive: bool
    post_processing: tuple[str, ...]
    digest: str
    notes: tuple[str, ...]
    group_delta: float | None = None

    def describe(self) -> JsonObject:
        """Return the explanation as ``dosimeter explain --json`` prints it."""
        return {
            "query": self.query,
            "table": self.table,
            "columns": list(self.columns),
            "outputs": list(self.outputs),
            "measures": [asdict(measure) for measure in self.measures],
            "groups": self.groups,
            "group_columns": list(self.group_columns),
            "k": self.k,
            "sensitivity": dict(self.sensitivity),
            "additive": self.additive,
            "post_processing": list(self.post_processing),
            "digest": self.digest,
            "notes": list(self.notes),
            **({} if self.group_delta is None else {"group_delta": self.group_delta}),
        }


def explain_plan(plan: QueryPlan) -> Explanation:
    """Return what a plan would measure."""
    keys = plan.group_keys
    groups = len(keys) if keys is not None else None
    notes = [
        *note_person_stage(plan),
        *note_singled_out(plan),
        *note_values(plan),
        *_note_null_groups(plan),
        *_note_thresholded(plan),
        *_note_noise(plan),
    ]
    return Explanation(
        query=plan.sql,
        table=plan.table,
        columns=list_columns(plan),
        outputs=tuple(output.name for output in plan.outputs),
        measures=tuple(
            ExplainedMeasure(measure.label, measure.name, measure.sensitivity_l1, float(measure.grid))
            for measure in plan.measures
        ),
        groups=groups,
        group_columns=tuple(group.name for group in plan.groups),
        k=groups * len(plan.measures) if groups is not None else None,
        sensitivity={name: plan.sensitivity(norm) for name, norm in NORMS.items()},
        additive=plan.additive and plan.threshold is None,
        post_processing=tuple(_post_processing(plan)),
        digest=plan.digest,
        notes=tuple(notes),
        group_delta=None if plan.threshold is None else plan.threshold.delta,
    )


def note_singled_out(plan: QueryPlan) -> list[str]:
    """Return a sentence about each column by which the query singles people out."""
    return [
        f"{clause} singles people out by {name}, which identifies them: the query is about single persons."
        for name, clause in plan.singled_out
    ]


def note_person_stage(plan: QueryPlan) -> list[str]:
    """Return a sentence about what is computed from each individual's own rows first (Q2)."""
    joined = [stage.schema for stage in joined_stages(plan.joins)]
    if plan.person is None and not joined:
        return []
    given = ([] if plan.person is None else [plan.person.schema]) + joined
    known = {*plan.table_schema.columns, *(schema.unit for schema in given)}
    made = [column for schema in given for name, column in schema.columns.items() if name not in known]
    shown = [
        column.name if column.bounds is None else f"{column.name} ({column.bounds[0]} to {column.bounds[1]})"
        for column in made
    ]
    computed = f": {', '.join(shown)}" if shown else ""
    many, unit = plan.schema.max_rows_per_unit, plan.schema.unit
    rows = "one row" if many == 1 else f"at most {many} rows"
    return [f"First, from the own rows of each {unit}{computed}. Then every individual has {rows}."]


def note_values(plan: QueryPlan) -> tuple[str, ...]:
    """Return a sentence for each text in the query that is not among the declared values of its column."""
    found = list(note_unlisted(list_conditions(plan), plan.schema))
    for schema, tree in list_trees(plan):
        found += note_unlisted([tree], schema)
    return tuple(dict.fromkeys(found))


def list_columns(plan: QueryPlan) -> tuple[str, ...]:
    """Return the table's columns that the query reads, in the order of the schema."""
    read = {node.name for _, tree in list_trees(plan) for node in tree.find_all(exp.Column)}
    if not read:
        return plan.columns
    return tuple(name for name in plan.table_schema.columns if name in read or name in plan.columns)


def list_conditions(plan: QueryPlan) -> list[Any]:
    """Return every tree of the plan in which the analyst may have written a value."""
    arguments = (argument.tree for argument in plan.arguments)
    return [plan.where, *(group.tree for group in plan.groups), *arguments]


def _note_null_groups(plan: QueryPlan) -> Iterator[str]:
    """Yield a sentence for each group of which NULL is a declared value (C8)."""
    for group in plan.groups:
        if group.values is not None and None in group.values:
            yield f"{group.name}: NULL is one of its groups, the last one; rows without a value count there."


def _note_thresholded(plan: QueryPlan) -> Iterator[str]:
    """Yield what becomes of groups that nobody declared (H1)."""
    threshold, mechanism = plan.threshold, Laplace()
    if threshold is None:
        return
    people = plan.measures[threshold.people]
    weight = float(plan.weights(mechanism.norm)[threshold.people])
    scale = mechanism.scale(plan.sensitivity(mechanism.norm), 1.0) / weight
    least = 1 + mechanism.find_excess(scale, Fraction(threshold.delta) / threshold.most)
    yield (
        f"Groups are those of the data whose noisy {people.label} is large enough: at ε = 1 a group of {least:,} "
        f"individuals has an even chance to be shown, and somebody alone in a group one of at most {threshold.delta:g} "
        "to show up. That δ is charged."
    )
    yield from (
        f"{group.name}: rows without a value (NULL) are in no group, since the schema does not say nulls = true."
        for group in plan.groups
        if not any(plan.schema.columns[node.name].nulls for node in group.tree.find_all(exp.Column))
    )


def _note_noise(plan: QueryPlan) -> Iterator[str]:
    """Yield a sentence for each number whose Laplace noise at ε = 1 is larger than the range of its bounds."""
    mechanism = Laplace()
    scale = mechanism.scale(plan.sensitivity(mechanism.norm), 1.0)
    weights = plan.weights(mechanism.norm)
    for estimate in plan.estimates:
        at, width = estimate.alone, estimate.width
        if at is None or width is None:
            continue
        own = scale / float(weights[at])
        error = mechanism.error(own, float(plan.measures[at].grid) or own * 1e-6)
        if error > width > 0.0:
            yield (
                f"{estimate.label}: at ε = 1 the noise (95 % error ± {error:,.4g}) is larger than the whole range of "
                f"its bounds ({width:,.4g}). It takes an ε well above {error / width:.2g} to learn anything from it."
            )


def _post_processing(plan: QueryPlan) -> list[str]:
    sums = [f"{estimate.label} comes from sums" for estimate in plan.estimates if len(estimate.measures) > 1]
    return [*sums, *plan.after.steps]
