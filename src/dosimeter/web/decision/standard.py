"""The controller's own standard, by their settings: the preference with which every decision page starts.

It is a preset, or least ÷ most exposed of at least their own percentage. Takes what the store keeps; gives a value, the
preference that it stands for, and the largest ε that it surely allows, which for some queries the schema alone tells.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from dosimeter.measures import Count, CountRows
from dosimeter.planning import QueryPlan
from dosimeter.release import PreparedRelease
from dosimeter.risk import PRESETS, Preference, advantage
from dosimeter.schema import Schema
from dosimeter.web.decision.form import DecisionForm, write_preference
from dosimeter.web.state import ServerState
from dosimeter.web.store import OWN, User, read_standard, read_thresholds


@dataclass(frozen=True)
class Standard:
    """What rules the defaults of a controller's decision pages. ``name``: of a preset, or "own" for their percentages.

    ``percents``: on least ÷ most exposed, by the priority of a query.
    """

    name: str
    percents: Mapping[str, float]

    def settle(self, form: DecisionForm) -> DecisionForm:
        """Return the form with this standard's preference, if the form names none."""
        if form.preset is not None:
            return form
        kind = "ratio" if self.name == OWN or form.percent is not None else self.name
        return form.model_copy(update={"preset": kind})

    def prefer(self, schema: Schema, priority: str = "normal") -> Preference:
        """Return the preference for a query of this priority: of two percentages, the smaller counts."""
        percent = min(self.percents["normal"], self.percents[priority])
        return write_preference(self.settle(DecisionForm()), schema, percent)

    def find_limit(self, prepared: PreparedRelease, candidates: Iterable[float]) -> float | None:
        """Return the largest candidate that this standard allows whatever the data; None if the schema does not tell.

        Nobody's membership advantage exceeds that of somebody who moves the answer by Δ (P4). In one count, least ÷
        most exposed is at least k/(k + ε), k being how many noisy numbers one individual can reach (R11), which it is
        exactly if somebody is in it and somebody is not. A limit on errors is left out.
        """
        plan = prepared.plan
        if self.name != OWN:
            most = PRESETS[self.name].advantage * _UP
            met = [each for each in candidates if _limit_advantage(prepared, each) <= most]
        else:
            counts = [each for each in plan.all_measures if isinstance(each, (Count, CountRows))]
            k = plan.k if len(plan.all_measures) == len(counts) == 1 and prepared.mechanism.pure else None
            met = [] if k is None else list_allowed(candidates, self.percents["normal"], min(k, _most_rows(plan)))
        return max(met, default=None)


_UP = 1.0 + 1e-12


def _limit_advantage(prepared: PreparedRelease, epsilon: float) -> float:
    """Return the largest membership advantage that anybody can have in an answer at this ε, whatever the data (P4)."""
    plan, mechanism = prepared.plan, prepared.mechanism
    sensitivity = plan.sensitivity(mechanism.norm)
    (found,) = advantage(
        np.array([sensitivity]),
        mechanism,
        sensitivity=sensitivity,
        scale=mechanism.scale(sensitivity, epsilon),
        epsilon=epsilon,
        grids=plan.grids(mechanism.norm),
        cells=_most_rows(plan) * len(plan.all_measures),
        shares=np.ones(1) if plan.ranks else None,
        group_delta=0.0 if plan.threshold is None else plan.threshold.delta,
    )
    return float(found)


def _most_rows(plan: QueryPlan) -> int:
    return 1 if plan.schema.unit == "row" or plan.is_one_row_each else plan.schema.max_rows_per_unit


def read_standards(state: ServerState, user: User) -> Standard:
    """Return the controller's standard, by their settings."""
    return Standard(read_standard(state.database, user), read_thresholds(state.database, user))


def list_allowed(candidates: Iterable[float], percent: float, k: int) -> list[float]:
    """Return the candidates at which least ÷ most exposed of a COUNT is at least ``percent`` %, whatever the data (R3).

    This ratio is k/(k + ε). ``k``: how many noisy numbers the answer has.
    """
    return [each for each in candidates if k / (k + each) >= percent / 100.0 - 1e-12]
