"""Ask for the exact answer alone, where a table is measured without one person after the other."""

from __future__ import annotations

from dosimeter.dataset import Dataset
from dosimeter.influence import measure_exactly
from dosimeter.influence.rows.profile import Measured
from dosimeter.planning import PlanOptions, plan_query


def measure_alone(dataset: Dataset, sql: str) -> Measured:
    """Return the exact vector that gets noise, without the contributions of everybody in the table."""
    plan = plan_query(sql, dataset.schema, PlanOptions(quantiles="noise"))
    return measure_exactly(plan, dataset.engine_for(plan), None)
