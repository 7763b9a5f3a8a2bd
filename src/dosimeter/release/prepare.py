"""Prepare a release as far as SQL and schema alone decide it. Never reads the data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields

from dosimeter.errors import OptionError, SchemaError
from dosimeter.ledger import exact_decimal
from dosimeter.options import LookOptions, Study
from dosimeter.planning import QueryPlan, build_mechanism, plan_options, plan_query, require_drawable
from dosimeter.postprocess import Noise, assemble_answer, list_facts, word_facts
from dosimeter.problems import Option, for_controller, leave_out
from dosimeter.release.noisy_vector import Numbers, calibrate_plan
from dosimeter.release.order import PreparedRelease, ReleaseOrder
from dosimeter.release.prices import price_plan
from dosimeter.release.thresholds import find_threshold
from dosimeter.risk import parse_candidates
from dosimeter.schema import Schema, digest_schema


def prepare_release(
    schema: Schema, sql: str, look: LookOptions, order: ReleaseOrder, plan_with: Callable[..., QueryPlan] | None = None
) -> PreparedRelease:
    """Return the prepared release, after every check that needs no data. Each refusal here may be explained to anybody.

    ``plan_with``: a function that plans a query by the same schema, and may remember plans; None to plan it anew.
    """
    n = _require_reviewed(schema)
    _require_no_study(look)
    options = plan_options(look)
    plan = plan_query(sql, schema, options) if plan_with is None else plan_with(sql, options)
    mechanism = build_mechanism(look, n)
    require_drawable(plan, mechanism, look.indicator)
    prepared = PreparedRelease(
        schema.account_name, plan, n, mechanism, parse_candidates(look.candidates), order, look, digest_schema(schema),
        find_rho=price_plan(plan, mechanism),
    )  # fmt: skip
    order.way.check(prepared)
    _try_on_empty_groups(prepared)
    return prepared


def _require_no_study(look: LookOptions) -> None:
    """Refuse to release what only a study measures so (S3, S7, C8)."""
    for each in fields(Study):
        if getattr(look.study, each.name) != each.default:
            name = "groups" if each.name == "observed" else each.name
            raise OptionError(Option(name), " is set for study, and no release may be measured so.", leave_out(name))


def _require_reviewed(schema: Schema) -> int:
    if not schema.reviewed:
        raise SchemaError(
            "A release needs a reviewed schema.",
            for_controller("Replace what came from private data by public facts, then set reviewed = true."),
        )
    if schema.individuals is None:
        raise SchemaError(
            "A release needs the number of individuals.", for_controller("Add individuals = … to the schema.")
        )
    return schema.individuals


def _try_on_empty_groups(prepared: PreparedRelease) -> None:
    """Do with empty groups what a release does after its charge, so that what cannot work is refused before the charge.

    At most two groups are tried: with two, ORDER BY has something to compare.
    """
    plan, mechanism, clamp = prepared.plan, prepared.mechanism, prepared.order.clamp
    empty: list[Numbers] = []
    for block in plan.blocks:
        keys = (block.group_keys or ())[:2]
        empty.append((keys, tuple(tuple(measure.empty for measure in block.measures) for _ in keys)))
    tried = prepared.order.way.list_tried(prepared.candidates)
    for epsilon in tried:
        calibrated = calibrate_plan(plan, mechanism, exact_decimal(epsilon, name=Option("epsilon")))
        if plan.threshold is not None:
            find_threshold(plan.threshold, calibrated)
    noise = Noise.of(plan, mechanism, mechanism.scale(plan.sensitivity(mechanism.norm), min(tried)))
    answer = assemble_answer(plan, *empty[0], clamp=clamp, noise=noise, further=empty[1:])
    word_facts(list_facts(plan, answer, clamp=clamp, errors=True))
