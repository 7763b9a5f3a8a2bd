"""Ask for the exact answer alone, where a table is measured without one person after the other."""

from __future__ import annotations

from dosimeter import Dataset
from dosimeter.influence import DeclaredTables, measure_exactly
from dosimeter.influence.rows.row_profile import Measured
from dosimeter.mechanisms import Norm
from dosimeter.planning import PlanOptions, QueryPlan, plan_query


def plan_alone(dataset: Dataset, sql: str) -> QueryPlan:
    """Return the plan of a query. It holds nothing of the data, and so is that of every table with the same schema."""
    return plan_query(sql, dataset.schema, PlanOptions(quantiles="noise"))


def measure_weighted(plan: QueryPlan, tables: DeclaredTables, norm: Norm) -> tuple[float, ...]:
    """Return the exact vector of all blocks without a profile, each number in the units of the norm (S5)."""
    found: list[float] = []
    for block, part in zip(plan.blocks, measure_exactly(plan, tables, None).blocks, strict=True):
        weights = [1.0 if len(plan.all_measures) == 1 else 1.0 / each.sensitivity(norm) for each in block.measures]
        found += [float(value) * weight for row in part.values for value, weight in zip(row, weights, strict=True)]
    return tuple(found)


def measure_alone(dataset: Dataset, plan: QueryPlan) -> Measured:
    """Return the exact vector that gets noise, without the contributions of everybody in the table."""
    return measure_exactly(plan, dataset.tables, None)
