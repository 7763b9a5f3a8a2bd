"""Measure how far each individual moves the answer. Chooses the per-row or the per-unit implementation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from dosimeter.engines import Engine
from dosimeter.errors import DataError
from dosimeter.influence.bounded_rows import BoundedEngine
from dosimeter.influence.contributions import Contributions
from dosimeter.influence.joined_rows import JoinedEngine
from dosimeter.influence.joint_profile import JointProfile
from dosimeter.influence.person_rows import PersonEngine
from dosimeter.influence.rows.profile import (
    Measured,
    Profile,
    count_individuals,
    find_contributions,
    measure_answer,
    measure_profile,
    measure_profiles,
)
from dosimeter.influence.units.profile import (
    UnitProfile,
    add_up_answer,
    count_touched,
    find_unit_contributions,
    measure_unit_profile,
    measure_unit_profiles,
)
from dosimeter.mechanisms import Norm
from dosimeter.planning import QueryPlan
from dosimeter.problems import CHECK_SCHEMA
from dosimeter.schema import Schema

if TYPE_CHECKING:
    from sqlglot import exp

AnyProfile = Profile | UnitProfile | JointProfile

_ROUNDING = 1e-9


def bound_rows(engine: Engine, schema: Schema) -> Engine:
    """Return an engine that shows at most m rows of each individual; the engine itself if everybody has one row.

    m is the schema's ``max_rows_per_unit``.
    """
    return engine if schema.unit == "row" else BoundedEngine(engine, schema)


def join_tables(engine: Engine, plan: QueryPlan, schema: Schema) -> Engine:
    """Return an engine that shows the rows which the plan measures; the engine itself if they are the table's own.

    Otherwise these are rows that the plan's person stage computes from each individual's own rows, or joined rows, or
    both: computed rows that are joined.
    """
    rows = engine if plan.person is None else PersonEngine(engine, plan.person, schema)
    return JoinedEngine(rows, plan, schema, engine) if plan.joins else rows


def _first_table(engine: Engine) -> Engine:
    """Return the engine that shows the table's own rows, unwrapped from those that show joined or computed rows."""
    while isinstance(engine, (JoinedEngine, PersonEngine)):
        engine = engine.first
    return engine


def count_people(engine: Engine) -> int:
    return engine.facts().individuals if isinstance(engine, BoundedEngine) else count_individuals(engine)


def measure_influence(
    plan: QueryPlan, engine: Engine, n: int, norm: Norm, attributes: Mapping[str, exp.Expression] | None = None
) -> tuple[AnyProfile, Contributions]:
    """Return the profile (distinct contributions, and how many individuals have each) and everybody's contributions.

    ``n``: the number of slots; empty ones contribute nothing. ``norm``: 1 or 2, for which the contributions are scaled
    (``plan.weights``). ``attributes``: conditions of a preference's FILTERs and the ``--by`` column, by name. With
    attributes the profile has everybody, also those outside the WHERE. Raises DataError if somebody moves the answer by
    more than a Δ that follows from the schema.
    """
    _require_bounded(plan, engine)
    everybody = None
    if attributes is not None and plan.person is not None:
        everybody = _first_table(engine).relation()
    elif attributes is not None and isinstance(engine, JoinedEngine):
        plan, engine = engine.keeping_everybody()
    by_rows = plan.schema.unit == "row" or (plan.is_one_row_each and attributes is None)
    if plan.further:
        joint = JointProfile(
            plan,
            measure_profiles(plan, engine, attributes)
            if by_rows
            else measure_unit_profiles(plan, engine, attributes, everybody),
            None if by_rows or attributes is not None else count_touched(plan, engine),
        )
        contributions = joint.contributions(n, norm)
        _require_within(plan, contributions, norm)
        return joint, contributions
    if by_rows:
        profile = measure_profile(plan, engine, attributes)
        contributions = find_contributions(profile, n, norm)
        _require_within(plan, contributions, norm)
        return profile, contributions
    by_unit = measure_unit_profile(plan, engine, attributes, everybody)
    contributions = find_unit_contributions(by_unit, n, norm)
    _require_within(plan, contributions, norm)
    return by_unit, contributions


def _require_within(plan: QueryPlan, contributions: Contributions, norm: Norm) -> None:
    """Refuse contributions larger than Δ. The data then exceed what the schema allows for, or the engine is wrong.

    Not checked where Δ is given by hand, or where groups are observed in the data without a threshold.
    """
    if plan.hand_sensitivity is not None or not (plan.declared or plan.threshold is not None):
        return
    most = float(contributions.norms(norm).max(initial=0.0))
    if most > plan.sensitivity(norm) * (1.0 + _ROUNDING):
        raise DataError(
            "An individual moves the answer by more than the schema allows for. Correct max_rows_per_unit, the row_key "
            "or the keys of joined tables.",
            CHECK_SCHEMA,
        )


def measure_exactly(plan: QueryPlan, engine: Engine, profile: AnyProfile | None, *, late: bool = False) -> Measured:
    """Return the exact numbers that get noise: read off the profile if it has them, otherwise by a query.

    ``late``: many thresholded groups may come in any order, and be read when they are asked for.
    """
    _require_bounded(plan, engine)
    if not plan.further:
        return _measure_block(plan, engine, profile, late=late)
    parts = profile.parts if isinstance(profile, JointProfile) else [None] * len(plan.blocks)
    found = [_measure_block(block, engine, part) for block, part in zip(plan.blocks, parts, strict=True)]
    return replace(found[0], further=tuple(found[1:]))


def _measure_block(plan: QueryPlan, engine: Engine, profile: AnyProfile | None, *, late: bool = False) -> Measured:
    if isinstance(profile, UnitProfile):
        return add_up_answer(profile) or measure_answer(plan, engine)
    return measure_answer(plan, engine, profile if isinstance(profile, Profile) else None, late=late)


def _require_bounded(plan: QueryPlan, engine: Engine) -> None:
    """Require, where there is a unit column, an engine that shows at most m rows of each individual.

    Δ holds only for these rows; m is the schema's ``max_rows_per_unit``. Any other engine is an error in this program
    (AssertionError).
    """
    bounded = isinstance(_first_table(engine), BoundedEngine)
    assert plan.schema.unit == "row" or bounded, "bound_rows stands in front of the engine"
