"""Explain what a plan would measure: for ``dosimeter explain`` and the analyst's page. Gives public facts only.

An Explanation is one value: what is measured, in which stages, how far off it would be, what it costs, and how to ask
for less noise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from math import prod
from typing import Any

from sqlglot import exp

from dosimeter.html import write_paragraphs, write_table
from dosimeter.json_values import JsonObject
from dosimeter.measures import Estimate
from dosimeter.mechanisms import NORMS, Gaussian, Laplace, Mechanism, default_delta
from dosimeter.planning.less_noise import LessNoise, find_less_noise
from dosimeter.planning.measured.thresholding import find_even_chance, read_where
from dosimeter.planning.people.stage import joined_stages
from dosimeter.planning.query_notes import list_columns, note_counted_groups, note_singled_out, note_values
from dosimeter.planning.query_plan import QueryPlan
from dosimeter.schema import Column

EXAMPLES = (0.1, 1.0, 10.0)
"""The ε's at which an explanation says how far off a number would be."""
TOTALS = "totals add up the released groups"


@dataclass(frozen=True, slots=True)
class RowsStage:
    """The rows that are read. Reading costs nothing, but a join can raise ``rows_each``, and with it the noise.

    ``joined``: the tables that are joined. ``chosen``: whether a WHERE decides which rows are measured. If there is a
    people stage, this is a WHERE over the rows that the people stage gives. ``rows_each``: the most rows of one
    individual that can be measured.
    """

    table: str
    joined: tuple[str, ...]
    chosen: bool
    rows_each: int


@dataclass(frozen=True, slots=True)
class OwnColumn:
    """A column that is computed from each individual's own rows. ``bounds``: None if it has none that are numbers."""

    name: str
    bounds: tuple[float, float] | None


@dataclass(frozen=True, slots=True)
class PeopleStage:
    """What is computed from each individual's own rows (Q2). ``rows_each``: the most rows that each has afterwards."""

    unit: str
    columns: tuple[OwnColumn, ...]
    rows_each: int


@dataclass(frozen=True, slots=True)
class NoisyNumber:
    """One noisy number per group. ``share``: its share of ε, the same for each noisy number that was asked for (S5).

    ``errors``: its 95 % errors by mechanism, one for each ε of ``EXAMPLES``. ``in_rows``: whether these errors are
    numbers of rows, as for a number that is drawn by rank (E3).
    """

    measure: str
    sensitivity: Mapping[str, float]
    share: float
    errors: Mapping[str, tuple[float, ...]]
    in_rows: bool = False


@dataclass(frozen=True, slots=True)
class AskedNumber:
    """An aggregate that was asked for, and the noisy numbers that it is computed from.

    ``errors``: its 95 % errors in one group by mechanism, one for each ε of ``EXAMPLES``; None if the error depends on
    the noisy numbers themselves, as for a quotient. ``terms``: how many groups the largest total of ROLLUP, CUBE or
    GROUPING SETS adds up. ``total_errors``: the 95 % errors of that total; None without totals, and if ``errors`` is
    None.
    """

    aggregate: str
    measures: tuple[str, ...]
    errors: Mapping[str, tuple[float, ...]] | None
    terms: int
    total_errors: Mapping[str, tuple[float, ...]] | None


@dataclass(frozen=True, slots=True)
class Stages:
    """The four stages of a query: rows, people, measured and after.

    ``people`` is None where nothing is computed from each individual's own rows. ``measured``: the noisy numbers, and
    ``asked``: the aggregates that are computed from them. ``after``: what happens to these, in words.
    ``epsilons``: the example ε's at which the errors are given.
    """

    rows: RowsStage
    people: PeopleStage | None
    measured: tuple[NoisyNumber, ...]
    asked: tuple[AskedNumber, ...]
    after: tuple[str, ...]
    epsilons: tuple[float, ...] = EXAMPLES


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


@dataclass(frozen=True, slots=True, repr=False)
class Explanation:
    """An explanation of what a query would measure: all that SQL and schema decide, nothing of the data.

    ``groups`` and ``k`` (how many groups, and how many noisy numbers in all) are None where groups are not declared.
    ``sensitivity`` is Δ of the whole answer, by mechanism. ``additive``: whether each individual's contribution depends
    on their own rows only and no groups are thresholded; then ε can also be selected by a noisy test.
    ``post_processing``: what happens after the noise. ``digest``: of the query, the schema and the options. ``stages``:
    what happens to rows, people and numbers, what happens after the noise, and what each stage costs. ``less_noise``:
    how to ask for less noise; None if that was not looked for. ``group_delta``: the δ of thresholded groups (H1);
    otherwise None. ``costs``: what an answer costs at a few example ε's. ``told``: which of ``measures`` are not
    asked for, but tell how many individuals were cut and clamped, once for the whole query (E5).
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
    told: tuple[str, ...] = ()

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
        document: dict[str, Any] = _write(asdict(self))
        if self.group_delta is None:
            del document["group_delta"]
        if not self.told:
            del document["told"]
        stages = document["stages"]
        measured = {"numbers": stages["measured"], "asked": stages["asked"]}
        document["stages"] = {name: stages[name] for name in ("epsilons", "rows", "people")}
        document["stages"] |= {"measured": measured, "after": stages["after"]}
        return document


def _write(value: Any) -> Any:
    """Return a value for JSON: tuples become lists, and names of changes texts."""
    match value:
        case Mapping():
            return {name: _write(part) for name, part in value.items()}
        case tuple():
            return [_write(part) for part in value]
        case Enum():
            return value.value
        case _:
            return value


def explain_plan(plan: QueryPlan, *, advise: bool = True) -> Explanation:
    """Return what a plan would measure. ``advise``: whether to look for similar queries with less noise, too."""
    mechanisms, keys = _list_mechanisms(plan), [block.group_keys for block in plan.answered]
    own, after = _list_own_columns(plan), tuple(_post_processing(plan))
    stages = _explain_stages(plan, own, after, mechanisms)
    notes = [
        *_note_own_columns(plan, own),
        *_note_blocks(plan),
        *_note_told(plan),
        *note_singled_out(plan),
        *note_values(plan),
    ]
    notes += [*_note_null_groups(plan), *note_counted_groups(plan), *_note_thresholded(plan)]
    notes += [*_note_noise(plan, stages), *dict.fromkeys(_note_ranks(plan))]
    return Explanation(
        query=plan.sql,
        table=plan.table,
        columns=list_columns(plan),
        outputs=tuple(output.name for output in plan.outputs),
        measures=tuple(
            ExplainedMeasure(measure.label, measure.name, measure.sensitivity_l1, float(measure.grid))
            for measure in plan.all_measures
        ),
        groups=None if any(each is None for each in keys) else sum(len(each or ()) for each in keys),
        group_columns=tuple(dict.fromkeys(group.name for block in plan.blocks for group in block.groups)),
        k=plan.k,
        sensitivity={name: plan.sensitivity(norm) for name, norm in NORMS.items()},
        additive=plan.additive and plan.threshold is None,
        post_processing=after,
        digest=plan.digest,
        notes=tuple(notes),
        stages=stages,
        less_noise=find_less_noise(plan) if advise else None,
        group_delta=None if plan.threshold is None else plan.threshold.delta,
        costs=tuple(ExplainedCost(epsilon, _find_rho(plan, epsilon, mechanisms)) for epsilon in EXAMPLES),
        told=tuple(measure.label for block in plan.blocks if block.share is not None for measure in block.measures),
    )


def _list_mechanisms(plan: QueryPlan) -> list[Mechanism]:
    """Return Laplace noise, and also Gaussian noise with the default δ if the schema says how many people there are."""
    individuals = plan.schema.individuals
    return [Laplace()] if individuals is None or individuals < 2 else [Laplace(), Gaussian(default_delta(individuals))]


def _find_rho(plan: QueryPlan, epsilon: float, mechanisms: list[Mechanism]) -> dict[str, float | None]:
    usable = [mechanism for mechanism in mechanisms if mechanism.pure or not plan.ranks]
    return dict.fromkeys(NORMS) | {mechanism.name: mechanism.rho(epsilon) for mechanism in usable}


def _list_own_columns(plan: QueryPlan) -> list[Column] | None:
    """Return the columns that are computed from each individual's own rows (Q2); None if there is no such stage."""
    given = [] if plan.person is None else [plan.person.schema]
    given += [stage.schema for stage in joined_stages(plan.joins)]
    known = {*plan.table_schema.columns, *(schema.unit for schema in given)}
    made = [column for schema in given for name, column in schema.columns.items() if name not in known]
    return made if given else None


# ---------------------------------------------------------------- the stages


def _explain_stages(
    plan: QueryPlan, own: list[Column] | None, after: tuple[str, ...], mechanisms: list[Mechanism]
) -> Stages:
    """Return the stages of a plan. ``own``: its own columns; ``after``: what happens to the released numbers."""
    numbers, ranks, most = range(len(plan.all_measures)), plan.ranks, plan.schema.max_rows_per_unit
    bounds = [OwnColumn(column.name, _read_bounds(column.bounds)) for column in own or ()]
    shares = [1 / block.own_shares for block in plan.blocks for _ in block.measures]
    return Stages(
        rows=RowsStage(plan.table, tuple(join.table.name for join in plan.joins), _has_where(plan), most),
        people=None if own is None else PeopleStage(plan.schema.unit, tuple(bounds), most),
        measured=tuple(
            NoisyNumber(
                measure.label,
                {mechanism.name: measure.sensitivity(mechanism.norm) for mechanism in mechanisms},
                float(share),
                _find_errors(plan, at, mechanisms, 1),
                at in ranks,
            )
            for at, (measure, share) in enumerate(zip(plan.all_measures, shares, strict=True))
        ),
        asked=tuple(
            _explain_asked(plan, block, own, estimate, mechanisms)
            for block, own in zip(plan.answered, plan.split(numbers), strict=False)
            for estimate in block.estimates
        ),
        after=(*after, *([TOTALS] if any(block.sets for block in plan.blocks) else [])),
    )


def _has_where(plan: QueryPlan) -> bool:
    """Return whether the analyst wrote a WHERE.

    The conditions by which the planner leaves NULL out of thresholded groups do not count.
    """
    if plan.threshold is not None:
        return read_where(plan) is not None
    return any(block.where is not None for block in plan.answered)


def _read_bounds(bounds: tuple[object, object] | None) -> tuple[float, float] | None:
    """Return bounds as floats; None if they are not numbers."""
    try:
        return None if bounds is None else (float(str(bounds[0])), float(str(bounds[1])))
    except ValueError:  # dates
        return None


def _explain_asked(
    plan: QueryPlan, block: QueryPlan, numbers: Sequence[int], estimate: Estimate, mechanisms: list[Mechanism]
) -> AskedNumber:
    """Return how one aggregate of a block (SELECT that measures) is computed, and its errors.

    ``numbers``: for each measure of the block, its index among the measures of all blocks.
    """
    alone, terms = None if estimate.alone is None else numbers[estimate.alone], _count_terms(block)
    return AskedNumber(
        aggregate=estimate.label,
        measures=tuple(block.measures[at].label for at in estimate.measures),
        errors=None if alone is None else _find_errors(plan, alone, mechanisms, 1),
        terms=terms,
        total_errors=None if alone is None or terms == 1 else _find_errors(plan, alone, mechanisms, terms),
    )


def _count_terms(plan: QueryPlan) -> int:
    """Return how many groups the largest total of ROLLUP, CUBE or GROUPING SETS adds up; 1 without totals."""
    sizes = [len(group.values or ()) for group in plan.groups]
    return max((prod(size for at, size in enumerate(sizes) if at not in kept) for kept in plan.sets), default=1)


def _find_errors(
    plan: QueryPlan, measure: int, mechanisms: list[Mechanism], terms: int
) -> dict[str, tuple[float, ...]]:
    """Return the 95 % errors of a sum of ``terms`` cells of one measure, by mechanism: one for each ε of ``EXAMPLES``.

    They follow from the measure's share of ε and its grid (M1, S5). For a measure that is drawn by rank they count
    rows (E3), and only mechanisms without a δ have them. ``measure``: its index among the measures of all blocks.
    """
    ranks, found = plan.ranks, {}
    if measure in ranks:
        pure = [mechanism.name for mechanism in mechanisms if mechanism.pure]
        errors = tuple(plan.rank_error(ranks[measure], epsilon) for epsilon in EXAMPLES)
        return dict.fromkeys(pure, errors)
    for mechanism in mechanisms:
        own_errors = []
        for epsilon in EXAMPLES:
            scale = mechanism.scale(plan.sensitivity(mechanism.norm), epsilon)
            own = scale / float(plan.weights(mechanism.norm)[measure])
            grid = float(plan.all_measures[measure].grid) or own * 1e-6
            own_errors.append(mechanism.error_of_sum(own, grid, terms))
        found[mechanism.name] = tuple(own_errors)
    return found


# ---------------------------------------------------------------- what is noted beside


def _note_blocks(plan: QueryPlan) -> list[str]:
    """Return, if several SELECTs of a query measure, a sentence saying that they share ε (S5); else an empty list."""
    if not plan.is_united:
        return []
    blocks = plan.answered
    numbers = sum(len(block.measures) for block in blocks)
    return [
        f"The query measures {len(blocks)} blocks (SELECTs, or sets of groups) over the same rows. Their {numbers} "
        "noisy numbers per group share ε: one SELECT alone would have less noise."
    ]


def _note_told(plan: QueryPlan) -> Iterator[str]:
    """Yield a sentence on what is told beside the answer, if that was asked for, and on what it costs (E5)."""
    if plan.told is None:
        return
    words = {
        "cut": "how many individuals have a row that would matter and is not among the "
        f"{plan.schema.max_rows_per_unit:,} that count",
        "clamped": "how many have a value that counts as the bound that it exceeds",
    }
    told = [words[name] for name in plan.told.measured]
    if told:
        spent = sum(1 / block.own_shares for block in plan.blocks if block.share is not None for _ in block.measures)
        yield f"Beside the answer, for {float(spent):.3g} of ε (with Gaussian noise of ρ): {', and '.join(told)}."
    if "cut" not in plan.told.measured:
        yield "Each row is an individual, so that no row is cut: this is told at no cost."
    if "clamped" not in plan.told.measured:
        yield "No aggregate reads values with bounds, so that no value is clamped: this is told at no cost."


def _note_own_columns(plan: QueryPlan, own: list[Column] | None) -> Iterator[str]:
    """Yield a sentence on what is computed from each individual's own rows first (Q2), if anything is."""
    if own is None:
        return
    shown = [
        column.name if column.bounds is None else f"{column.name} ({column.bounds[0]} to {column.bounds[1]})"
        for column in own
    ]
    computed = f": {', '.join(shown)}" if shown else ""
    many, unit = plan.schema.max_rows_per_unit, plan.schema.unit
    called = plan.words
    rows = f"one {called.row}" if many == 1 else f"at most {called.count_rows(many)}"
    yield f"First, from the own rows of each {unit}{computed}. Then every individual has {rows}."


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
        f"Groups are those of the data whose noisy {people.label} is large enough: at ε = 1 a group of "
        f"{plan.words.count_people(least or 0)} has an even chance to be shown, and somebody alone in a group one of "
        f"at most {threshold.delta:g} to show up. That δ is charged."
    )
    yield from (
        f"{group.name}: rows without a value (NULL) are in no group, since the schema does not say nulls = true."
        for group in plan.groups
        if not any(plan.schema.columns[node.name].nulls for node in group.tree.find_all(exp.Column))
    )


def _note_noise(plan: QueryPlan, stages: Stages) -> Iterator[str]:
    """Yield a sentence for each number whose 95 % error with Laplace noise at ε = 1 exceeds the range of its bounds."""
    estimates = [estimate for block in plan.answered for estimate in block.estimates]
    for estimate, asked in zip(estimates, stages.asked, strict=True):
        if asked.errors is None or estimate.width is None:
            continue
        error, width = asked.errors["laplace"][EXAMPLES.index(1.0)], estimate.width
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
        off = plan.words.count_rows(math.ceil(plan.rank_error(rank, 1.0)))
        yield (
            f"{rank.label} is drawn by rank from {rank.candidate_count:,} values within its bounds. At ε = 1 its rank "
            f"is within about {off} of the one sought (with 95 %).{meant}"
        )


def _post_processing(plan: QueryPlan) -> list[str]:
    estimates = [estimate for block in plan.blocks for estimate in block.estimates]
    sums = [f"{estimate.label} comes from sums" for estimate in estimates if len(estimate.measures) > 1]
    return [*(dict.fromkeys(sums) if plan.is_united else sums), *plan.after.steps]
