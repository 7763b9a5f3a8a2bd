"""A fixed ε: the controller names it before anything is measured (G0)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from dosimeter.findings import word
from dosimeter.influence import measure_exactly
from dosimeter.ledger import Algorithm
from dosimeter.options import check_option
from dosimeter.postprocess import rank_errors
from dosimeter.problems import Problem
from dosimeter.release.costs import find_refusal
from dosimeter.release.previews import DENIED, Cost, Preview, describe_released, foresee_about
from dosimeter.release.promises import promise_fixed
from dosimeter.release.ways.way import Decide, RecordedWay, ReleaseDecision, Way, deny, write_number

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from decimal import Decimal

    from dosimeter.assessment import Risk
    from dosimeter.influence import Measured
    from dosimeter.json_values import JsonObject, JsonValue
    from dosimeter.ledger import RequestCharges
    from dosimeter.options import LookOptions
    from dosimeter.postprocess import ColumnAccuracy
    from dosimeter.release.measurable import Measurable
    from dosimeter.release.order import PreparedRelease
    from dosimeter.risk import Spread


@dataclass(frozen=True, slots=True)
class Fixed(Way):
    """The way to set ε by naming it: release at ``epsilon`` if the account admits it."""

    algorithm: ClassVar[Algorithm] = "fixed"

    epsilon: float

    def __post_init__(self) -> None:
        check_option("epsilon", self.epsilon)
        object.__setattr__(self, "epsilon", float(self.epsilon))  # a Decimal or a NumPy number too

    def check(self, prepared: PreparedRelease) -> None:
        """Refuse nothing: every ε that noise can be calibrated for may be fixed."""

    @property
    def named_epsilon(self) -> float:
        return self.epsilon

    def list_tried(self, candidates: Collection[float]) -> set[float]:
        return {self.epsilon}

    def identify(self, look: LookOptions, candidates: tuple[float, ...]) -> Mapping[str, object]:
        return {"epsilon": write_number(self.epsilon)}

    def record(self) -> RecordedWay:
        return RecordedWay()

    def measure(self, dataset: Measurable, prepared: PreparedRelease) -> tuple[Measured, Decide, tuple[str, ...]]:
        def decide_release(charges: RequestCharges) -> ReleaseDecision:
            obstacle = charges.find_obstacle((self.epsilon,))
            if obstacle is not None:
                return deny(obstacle.rule)
            return ReleaseDecision(charges.charge(self.epsilon))

        return measure_exactly(prepared.plan, dataset.tables, None, late=True), decide_release, ()

    def promise(self, prepared: PreparedRelease, epsilon: Decimal, *, viewed: bool) -> str:
        threshold = prepared.plan.threshold
        shown = 0.0 if threshold is None else threshold.delta
        return promise_fixed(prepared.mechanism, epsilon, prepared.n, viewed=viewed, group_delta=shown)

    def preview(self, prepared: PreparedRelease, risk: Risk, charges: RequestCharges) -> Preview:
        line = risk.candidate(self.epsilon)
        refusal = find_refusal(charges, (self.epsilon,))
        if refusal is not None:
            reason = Problem(word(refusal))
            return FixedPreview(reason=reason, epsilon=self.epsilon, rdr=line.rdr, sees=DENIED)
        plan, accuracy = prepared.plan, risk.foresee(self.epsilon, clamp=prepared.order.clamp)
        drawn, names = rank_errors(plan, self.epsilon), plan.aggregate_names
        seen = describe_released(
            plan,
            epsilon=self.epsilon,
            error_95=[None if name in drawn else each.worst for name, each in zip(names, accuracy, strict=True)],
            rank_errors={**drawn} if plan.ranks else None,
            about=foresee_about(prepared, self.epsilon),
        )
        return FixedPreview(
            epsilon=self.epsilon, rdr=line.rdr, accuracy=accuracy, cost=Cost.of(charges, self.epsilon), sees=seen
        )


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class FixedPreview(Preview):
    """What a dry run shows of a fixed ε: also the spread of everybody's RDR, and how accurate each column would be."""

    rdr: Spread
    accuracy: tuple[ColumnAccuracy, ...] = ()

    def describe_way(self) -> JsonObject:
        accuracy: list[JsonValue] = [each.describe() for each in self.accuracy]
        return {"epsilon": self.epsilon, "rdr": self.rdr.describe(), "accuracy": accuracy}
