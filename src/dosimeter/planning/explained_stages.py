"""Explain the four stages of a query (rows, people, measured, after) and what each costs. Gives public facts only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from math import prod
from typing import Any

from dosimeter.json_values import JsonObject
from dosimeter.measures import Estimate
from dosimeter.mechanisms import Laplace, Mechanism, default_delta, make_with_delta
from dosimeter.planning.person_stage import joined_stages
from dosimeter.planning.query_plan import QueryPlan
from dosimeter.planning.thresholding import read_where

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
    """One noisy number per group. ``share``: its share of ε, the same for each noisy number (S5).

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

    def describe(self) -> JsonObject:
        """Return the stages as JSON."""
        return {
            "epsilons": list(self.epsilons),
            "rows": _write(asdict(self.rows)),
            "people": None if self.people is None else _write(asdict(self.people)),
            "measured": {
                "numbers": [_write(asdict(each)) for each in self.measured],
                "asked": [_write(asdict(each)) for each in self.asked],
            },
            "after": list(self.after),
        }


def _write(value: Any) -> Any:
    """Return a value in which tuples have become lists, for JSON."""
    if isinstance(value, Mapping):
        return {name: _write(part) for name, part in value.items()}
    return [_write(part) for part in value] if isinstance(value, tuple) else value


def explain_stages(plan: QueryPlan, after: tuple[str, ...]) -> Stages:
    """Return the stages of a plan. ``after``: what happens to the released numbers."""
    mechanisms = _list_mechanisms(plan)
    numbers, ranks = range(len(plan.all_measures)), plan.ranks
    return Stages(
        rows=RowsStage(
            plan.table,
            tuple(join.table.name for join in plan.joins),
            _has_where(plan),
            plan.schema.max_rows_per_unit,
        ),
        people=_explain_people(plan),
        measured=tuple(
            NoisyNumber(
                measure.label,
                {mechanism.name: measure.sensitivity(mechanism.norm) for mechanism in mechanisms},
                float(Fraction(1, plan.shares)),
                _find_errors(plan, at, mechanisms, 1),
                at in ranks,
            )
            for at, measure in enumerate(plan.all_measures)
        ),
        asked=tuple(
            _explain_asked(plan, block, own, estimate, mechanisms)
            for block, own in zip(plan.blocks, plan.split(numbers), strict=True)
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
    return any(block.where is not None for block in plan.blocks)


def _list_mechanisms(plan: QueryPlan) -> list[Mechanism]:
    """Return Laplace noise, and also Gaussian noise with the default δ if the schema says how many people there are."""
    individuals = plan.schema.individuals
    found: list[Mechanism] = [Laplace()]
    if individuals is not None and individuals > 1:
        found.append(make_with_delta("gaussian", default_delta(individuals)))
    return found


def _explain_people(plan: QueryPlan) -> PeopleStage | None:
    joined = [stage.schema for stage in joined_stages(plan.joins)]
    if plan.person is None and not joined:
        return None
    given = ([] if plan.person is None else [plan.person.schema]) + joined
    known = {*plan.table_schema.columns, *(schema.unit for schema in given)}
    return PeopleStage(
        unit=plan.schema.unit,
        columns=tuple(
            OwnColumn(name, _read_bounds(column.bounds))
            for schema in given
            for name, column in schema.columns.items()
            if name not in known
        ),
        rows_each=plan.schema.max_rows_per_unit,
    )


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
