"""Find ways to ask for less noise: other queries and narrower bounds, planned and compared. Never reads data.

Nothing here is a rule of thumb: each piece of advice is a plan of its own, and it is given only if no number that both
plans measure gets more noise, and some number gets less. No bounds are ever proposed: which ones hold is known to those
who know the values, and bounds that cut values off would ruin the answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import Enum
from itertools import islice

from sqlglot import exp

from dosimeter.errors import InputError
from dosimeter.mechanisms import Laplace
from dosimeter.planning.after.expressions import finds_aggregate
from dosimeter.planning.after.outer_select import OUTER_SELECT
from dosimeter.planning.options import PlanOptions
from dosimeter.planning.people.stage import list_stages, list_trees
from dosimeter.planning.planner import plan_query
from dosimeter.planning.query_plan import QueryPlan
from dosimeter.planning.rows.parsing import parse_select, unaliased
from dosimeter.schema import Column, ColumnType, Schema
from dosimeter.sql import clause_of

_SMALLER = 0.99
_MOST_TRIED = 12
_LONGEST_TRIED = 1_000  # characters of SQL
_MOST_WRITTEN = 1_000  # nodes of what is measured
_MOST_STAGES = 10
_OVER_KNOWN_ROWS = (exp.Avg, exp.VariancePop, exp.Variance, exp.StddevPop, exp.StddevSamp, exp.Stddev)


class Change(Enum):
    """A kind of change to a query or to bounds, after which the numbers that are still asked for have less noise."""

    COUNT_KNOWN = "count_known"
    LEAVE_OUT = "leave_out"
    FEWER_GROUPS = "fewer_groups"
    NARROWER_BOUNDS = "narrower_bounds"
    NEARER_ZERO = "nearer_zero"


@dataclass(frozen=True, slots=True)
class NoiseAdvice:
    """One way to ask for less noise.

    ``given``: the clause to be changed, or the declared bounds. ``instead``: what to write in its place; None to leave
    it out, and for bounds. ``column``: the column whose bounds may be wider than its values; None for a change to the
    query. ``factors``: for each number that both queries measure, by what its noise would be multiplied; for bounds, if
    they were half as wide (NARROWER_BOUNDS) or half as far from 0 (NEARER_ZERO).
    """

    change: Change
    given: str
    instead: str | None
    factors: Mapping[str, float]
    column: str | None = None


@dataclass(frozen=True, slots=True)
class LessNoise:
    """The ways to ask for less noise that were found.

    ``groups_matter``: whether at least one number would have less noise without groups. None if the query has no
    groups, or if that could not be tried.
    """

    advice: tuple[NoiseAdvice, ...]
    groups_matter: bool | None


def find_less_noise(plan: QueryPlan) -> LessNoise:
    """Return changes that would leave less noise on the same numbers.

    These are at most one of each kind of change to the query, and one for each column whose narrower bounds would help.
    None is looked for where the SQL is long or has many stages: every change that is tried is planned.
    """
    found: list[NoiseAdvice] = []
    groups_matter = None
    trees = [argument.tree for block in plan.blocks for argument in block.arguments]
    written = sum(1 for tree in [*trees, *(tree for _, tree in list_trees(plan))] for _ in tree.walk())
    stages = sum(1 for _ in list_stages(plan))
    if len(plan.sql) > _LONGEST_TRIED or written > _MOST_WRITTEN or stages > _MOST_STAGES:
        return LessNoise((), None)
    if OUTER_SELECT not in plan.after.steps and not plan.is_united:
        select = parse_select(plan.sql)
        found += islice(_try_known_counts(plan, select), 1)
        found += sorted(_try_without(plan, select), key=lambda advice: max(advice.factors.values()))[:1]
        fewer = _try_fewer_groups(plan, select)
        groups_matter = None if fewer is None else bool(fewer.factors)
        found += [fewer] if fewer is not None and fewer.factors else []
    found += _try_bounds(plan)
    return LessNoise(tuple(found), groups_matter)


def compare_noise(plan: QueryPlan, *others: QueryPlan) -> dict[str, float]:
    """Return, for each number that all plans measure, its noise in another plan divided by that in ``plan``.

    If there are several others, the largest quotient counts. Empty if no number gets less noise, or if one gets more.
    """
    before, after = _scales(plan), [_scales(other) for other in others]
    shared = [key for key in before if all(key in scales for scales in after)]
    factors = {key[1]: max(scales[key] / before[key] for scales in after) for key in shared}
    helps = min(factors.values(), default=1.0) < _SMALLER and max(factors.values()) <= 1.0 + 1e-12
    return factors if helps else {}


def _scales(plan: QueryPlan) -> dict[tuple[str, str], float]:
    """Return the noise scale of each measure at ε = 1, by its kind and label (S5).

    For a measure that is drawn by rank it is the 95 % error in rows (E3).
    """
    mechanism = Laplace()
    scale = mechanism.scale(plan.sensitivity(mechanism.norm), 1.0)
    scales = {
        (each.name, each.label): scale / float(weight)
        for each, weight in zip(plan.all_measures, plan.weights(mechanism.norm), strict=True)
    }
    ranks = plan.ranks.values()
    return scales | {(rank.name, rank.label): rank.rank_error(plan.rank_share(1.0), None) for rank in ranks}


def _plan_other(plan: QueryPlan, sql: str, schema: Schema | None = None) -> QueryPlan | None:
    """Return the plan of another query, or of the same under another schema, with the same options.

    None if it is refused.
    """
    floors = [floor for measure in plan.measures if (floor := measure.parameters[1]) is not None]
    options = PlanOptions(
        "thresholded" if plan.threshold is not None else "declared" if plan.declared else "observed",
        floors[0] if floors else None,
        plan.hand_sensitivity,
        "ranks" if plan.ranks else "noise",
        None if plan.threshold is None else plan.threshold.delta,
        None if plan.told is None else plan.told.share,
    )
    try:
        return plan_query(sql, plan.declared_schema or plan.schema if schema is None else schema, options)
    except InputError:
        return None


def _compare_query(plan: QueryPlan, other: exp.Select) -> dict[str, float] | None:
    """Return by what each number's noise would be multiplied in another query; None if that one is refused."""
    tried = _plan_other(plan, other.sql(dialect="duckdb", comments=False))
    return None if tried is None else compare_noise(plan, tried)


# ---------------------------------------------------------------- other queries


def _own_aggregates(select: exp.Select) -> Iterator[exp.Expression]:
    """Yield the aggregates in the SELECT list, HAVING and ORDER BY of a SELECT, without those of its subqueries."""
    for clause in (*select.expressions, select.args.get("having"), select.args.get("order")):
        for node in () if clause is None else clause.find_all(exp.AggFunc):
            if node.parent_select is select and not isinstance(node.parent, (exp.Filter, exp.Window)):
                yield node


def _try_known_counts(plan: QueryPlan, select: exp.Select) -> Iterator[NoiseAdvice]:
    """Yield the advice to ask for COUNT(x) instead of COUNT(*) beside AVG(x), which measures COUNT(x) already."""
    means = [node for node in _own_aggregates(select) if isinstance(node, _OVER_KNOWN_ROWS)]
    for known in dict.fromkeys(node.this for node in means):
        other = select.copy()
        counts = [
            node for node in _own_aggregates(other) if isinstance(node, exp.Count) and isinstance(node.this, exp.Star)
        ]
        for node in counts:
            node.set("this", known.copy())
            node.set("big_int", None)
        factors = _compare_query(plan, other) if counts else None
        if factors:
            yield NoiseAdvice(Change.COUNT_KNOWN, "COUNT(*)", f"COUNT({clause_of(known)})", factors)


def _try_without(plan: QueryPlan, select: exp.Select) -> Iterator[NoiseAdvice]:
    """Yield the advice to leave out an aggregate, for each aggregate without which the others get less noise."""
    items = select.expressions
    aggregates = [at for at, item in enumerate(items) if finds_aggregate(unaliased(item))]
    if len(aggregates) < 2:
        return
    for at in aggregates[:_MOST_TRIED]:
        other = select.copy()
        other.set("expressions", [item.copy() for place, item in enumerate(items) if place != at])
        factors = _compare_query(plan, other)
        if factors:
            yield NoiseAdvice(Change.LEAVE_OUT, clause_of(unaliased(items[at])), None, factors)


def _try_fewer_groups(plan: QueryPlan, select: exp.Select) -> NoiseAdvice | None:
    """Return the advice to leave out GROUP BY; None if that cannot be tried.

    ``factors`` of the advice is empty if leaving out GROUP BY would not help.
    """
    if not plan.groups or plan.sets or not plan.declared:
        return None
    aggregates = [item.copy() for item in select.expressions if finds_aggregate(unaliased(item))]
    other = select.copy()
    for clause in ("group", "having", "order", "limit", "offset", "qualify"):
        other.set(clause, None)
    other.set("expressions", aggregates)
    factors = _compare_query(plan, other) if aggregates else None
    named = ", ".join(group.name for group in plan.groups)
    return None if factors is None else NoiseAdvice(Change.FEWER_GROUPS, named, None, factors)


# ---------------------------------------------------------------- narrower bounds

_Bounds = tuple[Decimal, Decimal]


def _try_bounds(plan: QueryPlan) -> Iterator[NoiseAdvice]:
    """Yield the advice to narrow a column's bounds, if its values are known to allow it.

    Bounds half as wide must leave less noise wherever they lie; those half as far from 0 are tried for numbers that
    only these help.
    """
    schema = plan.declared_schema or plan.schema
    read = {node.name for argument in plan.arguments for node in argument.tree.find_all(exp.Column)}
    wanted = schema.columns if plan.person is not None else {name: schema.columns.get(name) for name in read}
    tried = [(name, column) for name, column in sorted(wanted.items()) if column is not None and _is_bounded(column)]
    for name, column in tried[:_MOST_TRIED]:
        lower, upper = (Decimal(str(end)) for end in column.bounds or ())
        middle = _step_down((lower + upper) / 2, column)
        far = _step_down(max(-lower, upper) / 2, column)
        halves = [(lower, middle), (middle, upper)]
        narrower = _compare_bounds(plan, schema, column, halves)
        nearer = _compare_bounds(plan, schema, column, [(max(lower, -far), min(upper, far))])
        given = f"{lower:f} to {upper.normalize():f}"
        if narrower:
            yield NoiseAdvice(Change.NARROWER_BOUNDS, given, None, narrower, name)
        if any(factor < min(_SMALLER, narrower.get(label, 1.0)) for label, factor in nearer.items()):
            yield NoiseAdvice(Change.NEARER_ZERO, given, None, nearer, name)


def _compare_bounds(plan: QueryPlan, schema: Schema, column: Column, tried: Sequence[_Bounds]) -> dict[str, float]:
    """Return by what each number's noise would be multiplied with any of several bounds of a column; empty if none."""
    if any(lower >= upper for lower, upper in tried):
        return {}
    changed = [{**schema.columns, column.name: replace(column, bounds=bounds)} for bounds in tried]
    others = [_plan_other(plan, plan.sql, replace(schema, columns=columns)) for columns in changed]
    known = [other for other in others if other is not None]
    return compare_noise(plan, *known) if len(known) == len(others) else {}


def _is_bounded(column: Column) -> bool:
    return column.bounds is not None and column.type in (ColumnType.INTEGER, ColumnType.DECIMAL)


def _step_down(value: Decimal, column: Column) -> Decimal:
    """Return the largest value on the column's grid that is not above ``value``."""
    step = Decimal(1) if column.type is ColumnType.INTEGER or column.resolution is None else column.resolution
    return (value // step) * step
