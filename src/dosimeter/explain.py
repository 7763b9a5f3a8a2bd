"""What a plan would measure, as plain values: for ``dosimeter explain`` and the analyst's page. Public facts only."""

from __future__ import annotations

from typing import Any

from dosimeter.model import QueryPlan


def explain_plan(plan: QueryPlan) -> dict[str, Any]:
    """Measures, sensitivities, groups and grid: all that SQL and schema decide, nothing of the data."""
    keys = plan.group_keys
    groups = len(keys) if keys is not None else None
    return {
        "query": plan.sql,
        "table": plan.table,
        "columns": list(plan.columns),
        "outputs": [output.name for output in plan.outputs],
        "measures": [
            {
                "measure": measure.label,
                "kind": str(measure.kind),
                "sensitivity": measure.sensitivity_l1,
                "grid": float(measure.grid),
            }
            for measure in plan.measures
        ],
        "groups": groups,
        "group_columns": [group.name for group in plan.groups],
        "k": groups * len(plan.measures) if groups is not None else None,
        "sensitivity": {"laplace": plan.sensitivity(1), "gaussian": plan.sensitivity(2)},
        "additive": plan.additive,
        "post_processing": _post_processing(plan),
        "digest": plan.digest,
    }


def _post_processing(plan: QueryPlan) -> list[str]:
    steps = [f"{estimate.label} comes from sums" for estimate in plan.estimates if len(estimate.measures) > 1]
    if any(output.formula is not None and len(list(output.formula.walk())) > 2 for output in plan.outputs):
        steps.append("arithmetic over the released numbers")
    steps += ["HAVING"] if plan.having is not None else []
    steps += ["ORDER BY"] if plan.order else []
    steps += ["LIMIT"] if plan.limit is not None else []
    return steps
