"""Groups that nobody declared: shown where enough individuals are in them (H1). Public facts only; knows no data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np
from sqlglot import exp

from dosimeter.errors import QueryError
from dosimeter.measures import CountIndividuals, Measure
from dosimeter.mechanisms import Mechanism
from dosimeter.planning.measured.aggregate_collector import AggregateCollector
from dosimeter.planning.query_plan import Group, QueryPlan, Threshold
from dosimeter.problems import for_controller, leave_out
from dosimeter.schema import Schema
from dosimeter.sql import column_tree, conjunction

MEMORY = 2 * 2**30  # bytes that the groups of the data may take while noise is added
GROUP_BYTES, NUMBER_BYTES = 120, 40  # of one group, and of each of its columns and measures
MAX_LOOKED = 2_000_000  # groups whose risks can be looked at
MAX_COLLECTED = 1_000_000  # groups whose numbers the engine cannot add up: all are held at once


def limit_observed(groups: tuple[Group, ...], schema: Schema) -> int:
    """Return ℓ₀, in how many groups one individual can be at most: as many as they can have rows, m.

    Refuses a query without GROUP BY.
    """
    if not groups:
        raise QueryError(
            "The query has no GROUP BY, so there are no groups to choose from.", leave_out("groups"), clause="GROUP BY"
        )
    return schema.max_rows_per_unit


def count_observable(schema: Schema) -> int:
    """Return n·m, how many groups the data can have at most. n: the declared number of individuals, 1 if undeclared."""
    return (schema.individuals or 1) * schema.max_rows_per_unit


def require_observable(groups: Sequence[Group], measures: Sequence[Measure], schema: Schema) -> None:
    """Refuse a query whose groups, if everybody's rows were in groups of their own, would take too much memory.

    Decided by n·m and by the query alone: how many groups there really are is private, and never a reason to refuse
    (N4). If the engine can add up every measure, noise is added to some groups at a time.
    """
    added_up = all(measure.total() is not None for measure in measures)
    limit = MEMORY // (GROUP_BYTES + NUMBER_BYTES * (len(groups) + len(measures))) if added_up else MAX_COLLECTED
    most = count_observable(schema)
    if most > limit:
        raise QueryError(
            f"{schema.individuals or 1:,} individuals with {schema.max_rows_per_unit:,} rows each could be in {most:,} "
            f"groups; at most {limit:,} are supported for this query where nobody declared the groups.",
            for_controller("Declare the groups, or lower max_rows_per_unit."),
            clause="GROUP BY",
        )


def require_lookable(schema: Schema) -> None:
    """Refuse to find ε from a preference where there could be too many groups to look at (decided as above, by n·m)."""
    if count_observable(schema) > MAX_LOOKED:
        raise QueryError(
            f"There could be {count_observable(schema):,} groups; a preference can be tested over {MAX_LOOKED:,}.",
            for_controller("Release at a fixed ε, or declare the groups."),
            clause="GROUP BY",
        )


def require_few_observed(plan: QueryPlan, count: int) -> None:
    """Refuse a look at more groups than fit into memory. For the controller alone: it depends on the data.

    ``count``: how many groups the data have.
    """
    if plan.threshold is not None and count > MAX_LOOKED:
        raise QueryError(
            f"The data have more than {MAX_LOOKED:,} groups, too many to look at.",
            for_controller("Group by something coarser, or release at a fixed ε without a look."),
            clause="GROUP BY",
        )


def add_threshold(aggregates: AggregateCollector, delta: float) -> Threshold:
    """Return the threshold of thresholded groups, with the measure that counts each group's individuals (S5).

    If the query has such a measure, that one is taken; otherwise one is added. ``delta``: the δ of the groups.
    """
    schema = aggregates.schema
    counted: exp.Expression = exp.Count(this=exp.Star())
    known = [at for at, measure in enumerate(aggregates.measures) if _counts_everybody(measure, schema)]
    if schema.max_rows_per_unit > 1:
        counted = exp.Count(this=exp.Distinct(expressions=[column_tree(schema.unit)]))
    if known:
        return Threshold(people=known[0], delta=delta, most=schema.max_rows_per_unit)
    added = aggregates.add(counted)
    return Threshold(people=aggregates.estimates[added].measures[0], delta=delta, most=schema.max_rows_per_unit)


def find_even_chance(plan: QueryPlan, mechanism: Mechanism, scale: float) -> int | None:
    """Return how many individuals give a thresholded group an even chance to be shown (H1); None for other groups.

    ``scale``: the noise scale in units of the norm. The scale of the noise on the count of people follows from it (S5).
    """
    threshold = plan.threshold
    if threshold is None:
        return None
    return 1 + mechanism.find_excess(
        _scale_people(plan, threshold, mechanism, scale), Fraction(threshold.delta) / threshold.most
    )


def find_chances(plan: QueryPlan, mechanism: Mechanism, scale: float, sizes: Sequence[int]) -> list[float]:
    """Return how probably thresholded groups with so many individuals are shown (H1); 1 for other groups.

    ``scale``: as for ``find_even_chance``.
    """
    threshold, least = plan.threshold, find_even_chance(plan, mechanism, scale)
    if threshold is None or least is None:
        return [1.0] * len(sizes)
    missing = np.array([float(least - size) for size in sizes])
    chances: list[float] = mechanism.exceed(_scale_people(plan, threshold, mechanism, scale), missing).tolist()
    return chances


def _scale_people(plan: QueryPlan, threshold: Threshold, mechanism: Mechanism, scale: float) -> float:
    """Return the scale of the noise on the count of people that decides whether a group is shown (S5)."""
    return scale / float(plan.weights(mechanism.norm)[threshold.people])


def read_where(plan: QueryPlan) -> exp.Expression | None:
    """Return the WHERE as it was asked: without the conditions that leave NULL out of thresholded groups (H1)."""
    if plan.where is None or plan.threshold is None:
        return plan.where
    added = [exp.Not(this=exp.Is(this=group.tree.copy(), expression=exp.Null())) for group in plan.groups]
    return conjunction(each for each in _list_conditions(plan.where) if each not in added)


def _list_conditions(where: exp.Expression) -> Iterator[exp.Expression]:
    """Yield the conditions that AND connects, in their order."""
    if isinstance(where, exp.Paren):
        yield from _list_conditions(where.this)
    elif isinstance(where, exp.And):
        yield from _list_conditions(where.this)
        yield from _list_conditions(where.expression)
    else:
        yield where


def _counts_everybody(measure: object, schema: Schema) -> bool:
    """Return whether a measure is COUNT(DISTINCT unit) without a FILTER: all individuals of a group."""
    if not isinstance(measure, CountIndividuals):
        return False
    tree = measure.argument.tree
    return isinstance(tree, exp.Column) and tree.name == schema.unit
