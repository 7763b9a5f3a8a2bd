"""A release as far as SQL and schema alone decide it. Never reads the data."""

from __future__ import annotations

import numpy as np

from dosimeter.errors import OptionError, SchemaError
from dosimeter.ledger import (
    exact_decimal,
)
from dosimeter.mechanisms import Mechanism
from dosimeter.planning import Look, QueryPlan
from dosimeter.postprocess import assemble_answer, error_95
from dosimeter.release.noisy_vector import calibrate_plan
from dosimeter.release.order import Prepared, ReleaseOrder
from dosimeter.release.selection import SelectionProblem, require_additive
from dosimeter.risk import parse_candidates, parse_preference
from dosimeter.schema import Schema, digest_schema


def prepare_release(schema: Schema, sql: str, look: Look, order: ReleaseOrder) -> Prepared:
    """Check everything that can be checked without data; every refusal here may be explained to anybody."""
    from dosimeter.planning import plan_query

    n = _require_reviewed(schema)
    if look.groups != "declared":
        raise OptionError("Observed groups never back a release: which groups exist is private. Leave --groups out.")
    if look.sensitivity is not None:
        raise OptionError(
            "A sensitivity given by hand is for study and never backs a release. Leave --sensitivity out."
        )
    if look.calibration == "classic":
        raise OptionError(
            "The classic Gaussian calibration is unproven above ε = 1 and never backs a release. Use zcdp."
        )
    if look.method != "closed-form":
        raise OptionError("A release uses the closed form. Leave --method out.")
    plan = plan_query(sql, schema, look.plan_options())
    if order.algorithm == "find-and-release":
        require_additive(plan)
        if look.indicator != "bound":
            raise OptionError("--svt tests the variance of the paper's bound. Leave --indicator out.")
    preference = parse_preference(order.prefer) if order.prefer is not None else None
    mechanism = look.build_mechanism(n)
    candidates = parse_candidates(look.candidates)
    if order.chosen is not None and order.chosen not in candidates:
        raise OptionError("The chosen ε must be one of the candidates.")
    _rehearse(plan, mechanism, order, candidates)
    if order.svt is not None:
        _rehearse_selection(plan, n, mechanism, order, candidates)
    return Prepared(schema.account_name, plan, n, mechanism, candidates, preference, order, look, digest_schema(schema))


def _require_reviewed(schema: Schema) -> int:
    if not schema.reviewed:
        raise SchemaError(
            "A release needs a reviewed schema. Replace what came from private data by public facts, then set "
            "reviewed = true."
        )
    if schema.individuals is None:
        raise SchemaError("A release needs the number of individuals. Add individuals = … to the schema.")
    return schema.individuals


def _rehearse(plan: QueryPlan, mechanism: Mechanism, order: ReleaseOrder, candidates: tuple[float, ...]) -> None:
    """Everything that follows a charge, on empty groups: what cannot work is refused before anything is charged.

    Two groups, for ORDER BY to compare; what works for these works for all.
    """
    keys = (plan.group_keys or ())[:2]
    empty = tuple(tuple(measure.empty for measure in plan.measures) for _ in keys)
    for epsilon in {candidates[-1], candidates[0]} if order.epsilon is None else {order.epsilon}:
        calibrate_plan(plan, mechanism, exact_decimal(epsilon, name="epsilon"))
        error_95(plan, mechanism, mechanism.scale(plan.sensitivity(mechanism.norm), epsilon), empty)
    assemble_answer(plan, keys, empty, clamp=order.clamp)


def _rehearse_selection(
    plan: QueryPlan, n: int, mechanism: Mechanism, order: ReleaseOrder, candidates: tuple[float, ...]
) -> None:
    """The noisy test's own limits, on a table whose people move nothing."""
    groups = 1 if plan.group_keys is None else len(plan.group_keys)
    assert order.variance is not None
    assert order.svt is not None
    SelectionProblem(
        n=n,
        k=groups * len(plan.measures),
        sensitivity=plan.sensitivity(mechanism.norm),
        mechanism=mechanism,
        values=np.zeros(1),
        counts=np.array([n]),
        candidates=candidates,
        threshold=order.variance,
        epsilon_svt=order.svt,
    )
