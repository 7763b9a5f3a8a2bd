"""Ask for the exact answer alone, where a table is measured without one person after the other."""

from __future__ import annotations

from dosimeter import Dataset
from dosimeter.influence import measure_exactly
from dosimeter.influence.rows.row_profile import Measured
from dosimeter.planning import PlanOptions, QueryPlan, plan_query


def plan_alone(dataset: Dataset, sql: str) -> QueryPlan:
    """Return the plan of a query. It holds nothing of the data, and so is that of every table with the same schema."""
    return plan_query(sql, dataset.schema, PlanOptions(quantiles="noise"))


def measure_alone(dataset: Dataset, plan: QueryPlan) -> Measured:
    """Return the exact vector that gets noise, without the contributions of everybody in the table."""
    return measure_exactly(plan, dataset.tables, None)
