"""An ε found from a preference (algorithm 1): the largest candidate that meets it. It depends on the data (G2)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from dosimeter.assessment import choose
from dosimeter.errors import OptionError
from dosimeter.findings import AccountRefuses, FailsPreference, MetButNotGranted, find_undecided, word
from dosimeter.ledger import Algorithm
from dosimeter.options import check_option
from dosimeter.planning import require_lookable
from dosimeter.problems import Problem
from dosimeter.release.costs import find_objection, find_refusal
from dosimeter.release.previews import DENIED, Cost, Preview, describe_released, foresee_about
from dosimeter.release.promises import promise_chosen
from dosimeter.release.ways.way import (
    Decide,
    RecordedWay,
    ReleaseDecision,
    Way,
    deny,
    write_number,
    write_numbers,
)
from dosimeter.risk import Preference, PreferenceFunction, parse_preference

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from decimal import Decimal

    from dosimeter.assessment import Risk
    from dosimeter.findings import Choice, Finding
    from dosimeter.influence import Measured
    from dosimeter.json_values import JsonObject
    from dosimeter.ledger import DenialReason, RequestCharges
    from dosimeter.options import LookOptions
    from dosimeter.release.measurable import Measurable
    from dosimeter.release.order import PreparedRelease


@dataclass(frozen=True, slots=True)
class Preferred(Way):
    """The way to set ε by a preference: release at the largest candidate that meets it, of those the account admits.

    ``epsilon``: the candidate that the controller takes instead, which has to meet it too; None to take the largest.
    """

    algorithm: ClassVar[Algorithm] = "find"

    preference: Preference
    epsilon: float | None = None

    def __init__(self, preference: str | PreferenceFunction | Preference, *, epsilon: float | None = None) -> None:
        parsed = preference if isinstance(preference, Preference) else parse_preference(preference)
        object.__setattr__(self, "preference", parsed)
        check_option("epsilon", epsilon, optional=True)
        object.__setattr__(self, "epsilon", None if epsilon is None else float(epsilon))

    @property
    def text_identifies_request(self) -> bool:
        return self.preference.function is None  # the texts of two callables can be the same

    def check(self, prepared: PreparedRelease) -> None:
        if self.epsilon is not None and self.epsilon not in prepared.candidates:
            raise OptionError("The chosen ε must be one of the candidates.")
        if prepared.plan.threshold is not None:
            require_lookable(prepared.plan.schema)

    def list_tried(self, candidates: Collection[float]) -> set[float]:
        return {min(candidates), max(candidates)}

    def identify(self, look: LookOptions, candidates: tuple[float, ...]) -> Mapping[str, object]:
        return {
            "preference": self.preference.text,
            "indicator": look.indicator,
            "candidates": write_numbers(candidates),
        } | ({} if self.epsilon is None else {"chosen": write_number(self.epsilon)})

    def record(self) -> RecordedWay:
        settings = {} if self.epsilon is None else {"chosen": self.epsilon}
        return RecordedWay(preference=self.preference.text, settings=settings)

    def measure(self, dataset: Measurable, prepared: PreparedRelease) -> tuple[Measured, Decide, tuple[str, ...]]:
        risk = dataset.assess_plan(prepared.plan, prepared.look)
        choice = choose(risk, self.preference, prepared.candidates)

        def decide_release(charges: RequestCharges) -> ReleaseDecision:
            objection = find_objection(choice, charges, self.epsilon)
            if objection is not None:
                return _deny_by(objection, prepared, charges)
            return ReleaseDecision(charges.charge(self.epsilon or max(charges.remaining(choice.meeting))))

        return risk.measured(), decide_release, self._warn(risk, choice)

    def _warn(self, risk: Risk, choice: Choice) -> tuple[str, ...]:
        """Return that the preference limits no risk, so that the largest ε is taken that the account grants (F4)."""
        if self.epsilon is not None or not choice.unlimited:
            return ()
        met = [line for line in choice.candidates if line.satisfied]
        warning = word(find_undecided(risk, met, but_errors=choice.decides), choice.called)
        return (f"{warning} The largest that the account grants was taken.",)

    def promise(self, prepared: PreparedRelease, epsilon: Decimal, *, viewed: bool) -> str:
        return promise_chosen()

    def preview(self, prepared: PreparedRelease, risk: Risk, charges: RequestCharges) -> Preview:
        refuse = partial(find_refusal, charges)
        choice = choose(
            risk, self.preference, prepared.candidates, available=charges.remaining, refuse=refuse, hidden=True
        )
        objection = find_objection(choice, charges, self.epsilon)
        if objection is not None:
            return PreferredPreview(reason=Problem(word(objection)), choice=choice, sees=DENIED)
        epsilon = self.epsilon or choice.epsilon
        seen = describe_released(prepared.plan, about=foresee_about(prepared, None))
        return PreferredPreview(epsilon=epsilon, choice=choice, cost=Cost.of(charges, epsilon), sees=seen)


def _deny_by(objection: Finding, prepared: PreparedRelease, charges: RequestCharges) -> ReleaseDecision:
    """Return the denial for this objection.

    One that the account alone decides is free. Any other depends on the data, and so on which groups they have: the δ
    of thresholded groups is charged even then (H1).
    """
    match objection:
        case AccountRefuses():
            return deny(objection.rule)
        case FailsPreference():
            reason: DenialReason = "chosen"
        case MetButNotGranted(refusal=AccountRefuses(rule=rule)):
            reason = rule
        case _:
            reason = "preference"
    if prepared.plan.threshold is None:
        return deny(reason)
    charge = charges.charge_groups()
    return deny("delta") if charges.reading.after(charge).infinite else ReleaseDecision(charge, reason)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PreferredPreview(Preview):
    """What a dry run shows of a preference: also the choice of ε, with what the controller should know about it."""

    choice: Choice

    @property
    def findings(self) -> tuple[Finding, ...]:
        return self.choice.findings

    def judge(self, risk: Risk, charges: RequestCharges) -> Choice:
        return self.choice

    def describe_candidates(self, choice: Choice) -> list[JsonObject]:
        return choice.describe_candidates(judged=True)

    def describe(self) -> JsonObject:
        reason: JsonObject = {"reason": self.describe_reason()}
        head = self.describe_way() | reason if self.epsilon is not None else reason | self.describe_way()
        return head | {"cost": self.describe_cost(), "analyst_sees": dict(self.sees)}

    def describe_way(self) -> JsonObject:
        choice = self.choice
        return {
            "preference": choice.preference.text,
            "epsilon": self.epsilon,
            "limit": choice.limit,
            "notes": list(choice.notes),
        }
