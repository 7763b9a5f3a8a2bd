"""Explain what a plan would measure: for ``dosimeter explain`` and the analyst's page. Gives public facts only."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass

from sqlglot import exp

from dosimeter.html import write_paragraphs, write_table
from dosimeter.json_values import JsonObject
from dosimeter.mechanisms import NORMS, Gaussian, Laplace, default_delta
from dosimeter.planning.explained_stages import EXAMPLES, Stages, explain_stages
from dosimeter.planning.less_noise import LessNoise, find_less_noise
from dosimeter.planning.person_stage import joined_stages
from dosimeter.planning.query_notes import list_columns, note_counted_groups, note_singled_out, note_values
from dosimeter.planning.query_plan import QueryPlan
from dosimeter.planning.thresholding import find_even_chance


@dataclass(frozen=True, slots=True)
class ExplainedMeasure:
    """One noisy number per group: what is measured, how far one individual can move it, and the grid of its noise.

    ``measure``: as messages name it, such as SUM(euros). ``kind``: what such measures are called, here sum.
    ``sensitivity`` (L1) and ``grid`` are in real units, here in euros.
    """

    measure: str
    kind: str
    sensitivity: float
    grid: float


@dataclass(frozen=True, slots=True)
class ExplainedCost:
    """What an answer at one ε costs an account that counts in ε (``epsilon``), or one that counts in ρ (``rho``, O4).

    ``rho``: by mechanism, with the default δ; None for a mechanism that cannot answer the query, or has no default δ.
    """

    epsilon: float
    rho: Mapping[str, float | None]

    def describe(self) -> JsonObject:
        return {"epsilon": self.epsilon, "rho": dict(self.rho)}


@dataclass(frozen=True, slots=True, repr=False)
class Explanation:
    """An explanation of what a query would measure: all that SQL and schema decide, nothing of the data.

    ``groups`` and ``k`` (how many groups, and how many noisy numbers in all) are None where groups are not declared.
    ``sensitivity`` is Δ of the whole answer, by mechanism. ``additive``: whether each individual's contribution depends
    on their own rows only and no groups are thresholded; then ε can also be selected by a noisy test.
    ``post_processing``: what happens after the noise. ``digest``: of the query, the schema and the options. ``stages``:
    what happens to rows, people and numbers, what happens after the noise, and what each stage costs. ``less_noise``:
    how to ask for less noise; None if that was not looked for. ``group_delta``: the δ of thresholded groups (H1);
    otherwise None. ``costs``: what an answer costs at a few example ε's.
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
    stages: Stages
    less_noise: LessNoise | None
    group_delta: float | None = None
    costs: tuple[ExplainedCost, ...] = ()

    def __repr__(self) -> str:
        parts = {"k": self.k, "groups": self.groups, "sensitivity": dict(self.sensitivity)}
        measured = ", ".join(measure.measure for measure in self.measures)
        told = ", ".join(f"{name}={value}" for name, value in parts.items())
        return f"Explanation({self.query!r}, measures [{measured}], {told})"

    def _repr_html_(self) -> str:
        """Show the explanation in a notebook."""
        told = "not declared" if self.groups is None else f"{self.groups:,}"
        by = ", ".join(f"{name} {value:.6g}" for name, value in self.sensitivity.items())
        columns = ("measure", "moved by one individual by at most", "noise in steps of")
        rows = [(each.measure, each.sensitivity, each.grid) for each in self.measures]
        facts = [self.query, f"Groups: {told}. Sensitivity of the whole answer: {by}."]
        return write_paragraphs(facts) + write_table(columns, rows) + write_paragraphs(self.notes)

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
            "stages": self.stages.describe(),
            "less_noise": None if self.less_noise is None else self.less_noise.describe(),
            **({} if self.group_delta is None else {"group_delta": self.group_delta}),
            "costs": [cost.describe() for cost in self.costs],
        }


def explain_plan(plan: QueryPlan, *, advise: bool = True) -> Explanation:
    """Return what a plan would measure. ``advise``: whether to look for similar queries with less noise, too."""
    keys, after = [block.group_keys for block in plan.blocks], tuple(_post_processing(plan))
    groups = None if any(each is None for each in keys) else sum(len(each or ()) for each in keys)
    notes = [*note_person_stage(plan), *_note_blocks(plan), *note_singled_out(plan), *note_values(plan)]
    notes += [*_note_null_groups(plan), *note_counted_groups(plan), *_note_thresholded(plan), *_note_noise(plan)]
    notes += dict.fromkeys(_note_ranks(plan))
    return Explanation(
        query=plan.sql,
        table=plan.table,
        columns=list_columns(plan),
        outputs=tuple(output.name for output in plan.outputs),
        measures=tuple(
            ExplainedMeasure(measure.label, measure.name, measure.sensitivity_l1, float(measure.grid))
            for measure in plan.all_measures
        ),
        groups=groups,
        group_columns=tuple(dict.fromkeys(group.name for block in plan.blocks for group in block.groups)),
        k=plan.k,
        sensitivity={name: plan.sensitivity(norm) for name, norm in NORMS.items()},
        additive=plan.additive and plan.threshold is None,
        post_processing=after,
        digest=plan.digest,
        notes=tuple(notes),
        stages=explain_stages(plan, after),
        less_noise=find_less_noise(plan) if advise else None,
        group_delta=None if plan.threshold is None else plan.threshold.delta,
        costs=tuple(ExplainedCost(epsilon, _find_rho(plan, epsilon)) for epsilon in EXAMPLES),
    )


def _find_rho(plan: QueryPlan, epsilon: float) -> dict[str, float | None]:
    n, ranks = plan.schema.individuals, any(block.ranks for block in plan.blocks)
    gaussian = None if ranks or n is None or n < 2 else Gaussian(default_delta(n)).rho(epsilon)
    return {"laplace": Laplace().rho(epsilon), "gaussian": gaussian}


def _note_blocks(plan: QueryPlan) -> list[str]:
    """Return, if several SELECTs of a query measure, a sentence saying that they share ε (S5); else an empty list."""
    if not plan.further:
        return []
    return [
        f"The query measures {len(plan.blocks)} blocks (SELECTs, or sets of groups) over the same rows. Their "
        f"{len(plan.all_measures)} noisy numbers per group share ε: one SELECT alone would have less noise."
    ]


def note_person_stage(plan: QueryPlan) -> list[str]:
    """Return a sentence on what is computed from each individual's own rows first (Q2); an empty list if nothing is."""
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


def _note_null_groups(plan: QueryPlan) -> Iterator[str]:
    """Yield a sentence for each GROUP BY expression that has NULL as one of its declared groups (C8)."""
    for group in dict.fromkeys(group for block in plan.blocks for group in block.groups):
        if group.values is not None and None in group.values:
            yield f"{group.name}: NULL is one of its groups, the last one; rows without a value count there."


def _note_thresholded(plan: QueryPlan) -> Iterator[str]:
    """Yield a sentence on which thresholded groups are shown, and one for each expression whose NULLs are in no group.

    Yield nothing if groups are not thresholded (H1).
    """
    threshold, mechanism = plan.threshold, Laplace()
    if threshold is None:
        return
    people = plan.measures[threshold.people]
    least = find_even_chance(plan, mechanism, mechanism.scale(plan.sensitivity(mechanism.norm), 1.0))
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
    """Yield a sentence for each number whose 95 % error with Laplace noise at ε = 1 exceeds the range of its bounds."""
    mechanism = Laplace()
    scale = mechanism.scale(plan.sensitivity(mechanism.norm), 1.0)
    for block, estimate in ((each, estimate) for each in plan.blocks for estimate in each.estimates):
        at, width = estimate.alone, estimate.width
        if at is None or width is None:
            continue
        own = scale / float(block.weights(mechanism.norm)[at])
        error = mechanism.error(own, float(block.measures[at].grid) or own * 1e-6)
        if error > width > 0.0:
            yield (
                f"{estimate.label}: at ε = 1 the noise (95 % error ± {error:,.4g}) is larger than the whole range of "
                f"its bounds ({width:,.4g}). It takes an ε well above {error / width:.2g} to learn anything from it."
            )


def _note_ranks(plan: QueryPlan) -> Iterator[str]:
    """Yield a sentence for each number drawn by rank: among how many values, and its error at ε = 1 (M4, E3)."""
    share = plan.rank_share(1.0)
    for rank in plan.ranks.values():
        target = rank.describe_target(share)
        meant = "" if target is None else f" {target}"
        yield (
            f"{rank.label} is drawn by rank from {rank.candidate_count:,} values within its bounds. At ε = 1 its rank "
            f"is within about {math.ceil(plan.rank_error(rank, 1.0)):,} rows of the one sought (with 95 %).{meant}"
        )


def _post_processing(plan: QueryPlan) -> list[str]:
    estimates = [estimate for block in plan.blocks for estimate in block.estimates]
    sums = [f"{estimate.label} comes from sums" for estimate in estimates if len(estimate.measures) > 1]
    return [*(dict.fromkeys(sums) if plan.further else sums), *plan.after.steps]
