"""An ε found from a preference (algorithm 1): the largest candidate that meets it. It depends on the data (G2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from dosimeter.errors import OptionError
from dosimeter.findings import word
from dosimeter.ledger import Algorithm
from dosimeter.planning import require_lookable
from dosimeter.problems import Problem
from dosimeter.release.costs import find_refusal
from dosimeter.release.previews import DENIED, Cost, Preview, describe_released, foresee_about
from dosimeter.release.promises import promise_chosen
from dosimeter.release.ways.base import (
    Decide,
    RecordedWay,
    ReleaseDecision,
    Subject,
    Way,
    deny,
    write_number,
    write_numbers,
)
from dosimeter.show import format_number

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from decimal import Decimal

    from dosimeter.assessment import Risk
    from dosimeter.findings import Choice
    from dosimeter.influence import Measured
    from dosimeter.json_values import JsonObject
    from dosimeter.ledger import RequestCharges
    from dosimeter.planning import LookOptions
    from dosimeter.release.measurable import Measurable
    from dosimeter.release.order import PreparedRelease
    from dosimeter.risk import Preference

_MET = "Some candidates meet the preference, but the account admits none of them."


@dataclass(frozen=True, slots=True)
class Found(Way):
    """The way to set ε by a preference: release at the largest candidate that meets it, of those the account admits.

    ``chosen``: the candidate that the controller takes instead, which must not be larger; None to take the largest.
    """

    algorithm: ClassVar[Algorithm] = "find"

    preference: Preference
    chosen: float | None = None

    @property
    def text_identifies_request(self) -> bool:
        return self.preference.function is None  # the texts of two callables can be the same

    def check(self, subject: Subject) -> None:
        if self.chosen is not None and self.chosen not in subject.candidates:
            raise OptionError("The chosen ε must be one of the candidates.")
        if subject.plan.threshold is not None:
            require_lookable(subject.plan.schema)

    def list_tried(self, candidates: Collection[float]) -> set[float]:
        return {min(candidates), max(candidates)}

    def identify(self, look: LookOptions, candidates: tuple[float, ...]) -> Mapping[str, object]:
        return {
            "epsilon": None,
            "preference": self.preference.text,
            "svt": "0",
            "variance": None,
            "selection": None,
            "indicator": look.indicator,
            "candidates": write_numbers(candidates),
        } | ({} if self.chosen is None else {"chosen": write_number(self.chosen)})

    def record(self) -> RecordedWay:
        settings = {} if self.chosen is None else {"chosen": self.chosen}
        return RecordedWay(preference=self.preference.text, settings=settings)

    def measure(self, dataset: Measurable, prepared: PreparedRelease) -> tuple[Measured, Decide]:
        risk = dataset.assess_plan(prepared.plan, prepared.look)
        choice = risk.find(self.preference, candidates=prepared.candidates)
        meeting = tuple(line.epsilon for line in choice.candidates if line.satisfied)

        def decide_release(charges: RequestCharges) -> ReleaseDecision:
            if not meeting:
                return _deny_unmet(prepared, charges)
            obstacle = charges.find_obstacle(meeting)
            if obstacle is not None:
                return deny(obstacle.rule)
            remaining = charges.remaining(meeting)
            epsilon = max(remaining) if self.chosen is None else self.chosen
            if epsilon > max(remaining):
                return deny("chosen")
            obstacle = charges.find_obstacle((epsilon,))
            if obstacle is not None:
                return deny(obstacle.rule)
            return ReleaseDecision(charges.charge(epsilon))

        return risk.measured(), decide_release

    def promise(self, prepared: PreparedRelease, epsilon: Decimal, *, viewed: bool) -> str:
        return promise_chosen()

    def preview(self, prepared: PreparedRelease, risk: Risk, charges: RequestCharges) -> Preview:
        choice = risk.find(self.preference, candidates=prepared.candidates, available=charges.remaining)
        if choice.epsilon is None:
            refusal = find_refusal(charges, [line.epsilon for line in choice.candidates if line.satisfied])
            reason = _explain_unmet(choice) if refusal is None else f"{_MET} {word(refusal)}"
            return FoundPreview(reason=Problem(reason), choice=choice, sees=DENIED)
        cost = Cost.of(charges, choice.epsilon)
        seen = describe_released(prepared.plan, about=foresee_about(prepared, None))
        return FoundPreview(epsilon=choice.epsilon, choice=choice, cost=cost, sees=seen)


def _deny_unmet(prepared: PreparedRelease, charges: RequestCharges) -> ReleaseDecision:
    """Return the denial of a release for which no candidate meets the preference.

    The denial depends on the data, and so on which groups they have: the δ of thresholded groups is charged even then
    (H1).
    """
    if prepared.plan.threshold is None:
        return deny("preference")
    charge = charges.charge_groups()
    return deny("delta") if charges.reading.after(charge).infinite else ReleaseDecision(charge, "preference")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class FoundPreview(Preview):
    """What a dry run shows of a preference: also the choice of ε, with what the controller should know about it."""

    choice: Choice

    def describe(self) -> JsonObject:
        reason: JsonObject = {"reason": self.describe_reason()}
        head = self.describe_way() | reason if self.choice.epsilon is not None else reason | self.describe_way()
        return head | {"cost": self.describe_cost(), "analyst_sees": dict(self.sees)}

    def describe_way(self) -> JsonObject:
        choice = self.choice
        return {
            "preference": choice.preference,
            "epsilon": choice.epsilon,
            "limit": choice.limit,
            "notes": list(choice.notes),
        }


def _explain_unmet(choice: Choice) -> str:
    reason = f"No candidate meets the preference {choice.preference}."
    if not choice.limit:
        return reason
    return f"{reason} The largest ε that does is {format_number(choice.limit, 4, down=True)}."
