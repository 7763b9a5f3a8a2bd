"""What a plan would measure, as plain values: for ``dosimeter explain`` and the analyst's page. Public facts only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dosimeter.mechanisms import Mechanism, error_quantile, noise_scale
from dosimeter.planning.query_plan import EstimateKind, QueryPlan
from dosimeter.sql import note_unlisted


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
                "kind": measure.name,
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
        "notes": [*note_singled_out(plan), *note_unlisted(list_conditions(plan), plan.schema), *_note_noise(plan)],
    }


def note_singled_out(plan: QueryPlan) -> list[str]:
    """Return a sentence about each column by which the query singles people out."""
    return [
        f"{clause} singles people out by {name}, which identifies them: the query is about single persons."
        for name, clause in plan.singled_out
    ]


def list_conditions(plan: QueryPlan) -> list[Any]:
    """Every tree of the plan in which the analyst may have written a value."""
    arguments = (argument.tree for argument in plan.arguments)
    return [plan.where, *(group.tree for group in plan.groups), *arguments]


def _note_noise(plan: QueryPlan) -> Iterator[str]:
    """Numbers that stay within bounds of their own, where Laplace noise at ε = 1 does not."""
    mechanism = Mechanism("laplace")
    scale = noise_scale(mechanism, plan.sensitivity(mechanism.norm), 1.0)
    weights = plan.weights(mechanism.norm)
    for estimate in plan.estimates:
        if estimate.kind is not EstimateKind.IDENTITY or estimate.lower is None or estimate.upper is None:
            continue
        (at,) = estimate.measures
        width, own = float(estimate.upper - estimate.lower), scale / float(weights[at])
        error = error_quantile(mechanism, own, float(plan.measures[at].grid) or own * 1e-6)
        if error > width > 0.0:
            yield (
                f"{estimate.label}: at ε = 1 the noise (95 % error ± {error:,.4g}) is larger than the whole range of "
                f"its bounds ({width:,.4g}). It takes an ε well above {error / width:.2g} to learn anything from it."
            )


def _post_processing(plan: QueryPlan) -> list[str]:
    steps = [f"{estimate.label} comes from sums" for estimate in plan.estimates if len(estimate.measures) > 1]
    if any(output.formula is not None and len(list(output.formula.walk())) > 2 for output in plan.outputs):
        steps.append("arithmetic over the released numbers")
    steps += ["HAVING"] if plan.having is not None else []
    steps += ["ORDER BY"] if plan.order else []
    steps += ["LIMIT"] if plan.limit is not None else []
    return steps
