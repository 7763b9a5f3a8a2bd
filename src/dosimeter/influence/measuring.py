"""Measure how far each individual moves the answer, and the exact numbers that get noise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from dosimeter.errors import DataError
from dosimeter.influence.contributions import Contributions
from dosimeter.influence.measured_rows import DeclaredTables, Rows, keep_everybody
from dosimeter.influence.profiles import Profile
from dosimeter.influence.rows.row_profile import Measured, measure_answer, profile_rows
from dosimeter.influence.units.unit_profile import profile_units
from dosimeter.mechanisms import Norm
from dosimeter.planning import QueryPlan
from dosimeter.problems import CHECK_SCHEMA

if TYPE_CHECKING:
    from sqlglot import exp

_ROUNDING = 1e-9


def measure_influence(
    plan: QueryPlan, tables: DeclaredTables, n: int, norm: Norm, attributes: Mapping[str, exp.Expression] | None = None
) -> tuple[Profile, Contributions]:
    """Return the profile (distinct contributions, and how many individuals have each) and everybody's contributions.

    ``n``: the number of slots; empty ones contribute nothing. ``norm``: 1 or 2, for which the contributions are scaled
    (``plan.weights``). ``attributes``: conditions of a preference's FILTERs and the ``--by`` column, by name. With
    attributes the profile has everybody, also those outside the WHERE. Raises DataError if somebody moves the answer by
    more than a Δ that follows from the schema.
    """
    if attributes is not None and plan.joins and plan.person is None:
        plan = keep_everybody(plan)
    by_rows = plan.schema.unit == "row" or (plan.is_one_row_each and attributes is None)
    measure = profile_rows if by_rows else profile_units
    profile = measure(plan, tables.find_rows(plan), attributes)
    contributions = profile.contributions(n, norm)
    _require_within(plan, contributions, norm)
    return profile, contributions


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


def measure_exactly(
    plan: QueryPlan, tables: DeclaredTables, profile: Profile | None, *, late: bool = False
) -> Measured:
    """Return the exact numbers that get noise: read off the profile if it has them, otherwise by a query.

    ``late``: many thresholded groups may come in any order, and be read when they are asked for.
    """
    rows = tables.find_rows(plan)
    return measure_rows(plan, rows, late=late) if profile is None else profile.measure_answer(rows)


def measure_rows(plan: QueryPlan, rows: Rows, *, late: bool = False) -> Measured:
    """Return the exact numbers of these rows that get noise, by queries. ``late``: as for ``measure_exactly``."""
    if not plan.further:
        return measure_answer(plan, rows, late=late)
    first, *further = (measure_answer(block, rows) for block in plan.blocks)
    return replace(first, further=tuple(further))
