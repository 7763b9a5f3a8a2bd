"""An ε selected by a noisy test over the candidates, and published (find-and-release-ε-from-RDR, G1)."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from dosimeter.errors import OptionError
from dosimeter.findings import word
from dosimeter.html import Private
from dosimeter.ledger import Algorithm, exact_decimal, write_decimal
from dosimeter.options import Selection, check_option
from dosimeter.problems import Option, Problem, for_controller, leave_out
from dosimeter.release.costs import find_refusal
from dosimeter.release.previews import DENIED, Cost, Preview, describe_released, foresee_about
from dosimeter.release.promises import promise_found, promise_violation
from dosimeter.release.selection import (
    STEPS,
    NoisyTestAccuracy,
    SelectionProblem,
    draw_number,
    find_passing,
    is_two_valued,
    known_outcome,
    noisy_test_accuracy,
    normalised_variance,
    outcome_distribution,
    refuse_promise,
    require_additive,
    select_epsilon,
    violation_probability,
    violation_share,
)
from dosimeter.release.ways.way import (
    Decide,
    RecordedWay,
    ReleaseDecision,
    Way,
    deny,
    write_number,
    write_numbers,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from dosimeter.assessment import Risk
    from dosimeter.findings import Choice
    from dosimeter.influence import Measured
    from dosimeter.json_values import JsonObject
    from dosimeter.ledger import DenialReason, RequestCharges
    from dosimeter.options import LookOptions
    from dosimeter.release.measurable import Measurable
    from dosimeter.release.order import PreparedRelease


@dataclass(frozen=True, slots=True)
class Selected(Way):
    """The way to set ε by a noisy test: try the candidates, the largest first, and release at the first that passes.

    A candidate passes if the noisy variance of the normalised RDRs is at most ``variance``. ``svt``: the ε that the
    test costs. ``violation``: the promised probability of releasing an ε whose exact variance is larger, whatever the
    data; None without a promise (V7).
    """

    algorithm: ClassVar[Algorithm] = "find-and-release"

    svt: float
    variance: float
    selection: Selection = "sharp"
    violation: float | None = None

    def __post_init__(self) -> None:
        check_option("svt", self.svt)
        check_option("variance", self.variance)
        check_option("selection", self.selection)
        check_option("violation", self.violation, optional=True)
        for name in ("svt", "variance"):
            object.__setattr__(self, name, float(getattr(self, name)))
        if self.selection == "paper":
            refuse_promise(self.violation)

    @property
    def epsilon_svt(self) -> Decimal:
        return exact_decimal(self.svt, name=Option("svt"))

    def check(self, prepared: PreparedRelease) -> None:
        """Refuse measures, groups and indicators that the test does not cover, and numbers outside its limits."""
        plan, mechanism = prepared.plan, prepared.mechanism
        if plan.threshold is not None:
            raise OptionError(
                "The noisy test counts on a publicly known number of groups, and how many the data have is private.",
                for_controller("Fix ε, or declare the groups."),
            )
        require_additive(plan)
        if prepared.look.indicator != "bound":
            raise OptionError(Option("svt"), " tests the variance of the paper's bound.", leave_out("indicator"))
        SelectionProblem(  # checks its arguments, on a table whose people move nothing
            n=prepared.n,
            k=len(plan.measures) if plan.k is None else plan.k,
            sensitivity=plan.sensitivity(mechanism.norm),
            mechanism=mechanism,
            values=np.zeros(1),
            counts=np.array([prepared.n]),
            candidates=prepared.candidates,
            threshold=self.variance,
            epsilon_svt=self.svt,
            violation=self.violation,
        )

    def list_tried(self, candidates: Collection[float]) -> set[float]:
        return {min(candidates), max(candidates)}

    def identify(self, look: LookOptions, candidates: tuple[float, ...]) -> Mapping[str, object]:
        return {
            "svt": write_decimal(self.epsilon_svt),
            "variance": write_number(self.variance),
            "selection": self.selection,
            "candidates": write_numbers(candidates),
        } | ({} if self.violation is None else {"violation": write_number(self.violation)})

    def name_number(self, prepared: PreparedRelease, source: str) -> str | None:
        """Return a digest of the question that the noisy number is drawn for (V8); None for the paper's test.

        The question is the query, the schema, the data, the number's cost and its promise. Threshold and candidates do
        not count, since the number is compared with them afterwards. The mechanism counts unless everybody moves the
        answer by nothing or by Δ (V6). The paper's test has no such number.
        """
        if self.selection == "paper":
            return None
        plan, two_valued = prepared.plan, is_two_valued(prepared.plan)
        content = {
            "plan": plan.digest,
            "schema": prepared.schema_digest,
            "source": source,
            "n": prepared.n,
            "of": "counted or not" if two_valued else prepared.mechanism.name,
            "steps": STEPS,
            "svt": write_decimal(self.epsilon_svt),
            "violation": write_number(self.violation),
        }
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    def record(self) -> RecordedWay:
        settings = {"svt": self.svt} | ({} if self.violation is None else {"violation": self.violation})
        return RecordedWay(tau=exact_decimal(self.variance), selection=self.selection, settings=settings)

    def measure(self, dataset: Measurable, prepared: PreparedRelease) -> tuple[Measured, Decide, tuple[str, ...]]:
        risk = dataset.assess_plan(prepared.plan, prepared.look)
        problem = self.state_problem(prepared, risk)

        def decide_release(charges: RequestCharges) -> ReleaseDecision:
            obstacle = charges.find_obstacle(prepared.candidates)
            if obstacle is not None:
                return deny(obstacle.rule)  # O2: no test, no charge
            left = replace(problem, candidates=charges.remaining(prepared.candidates))
            number = None
            if self.selection == "paper":
                epsilon = select_epsilon(left, method=self.selection)
            else:
                number = draw_number(left) if prepared.kept is None else int(prepared.kept.number)  # V8
                epsilon = find_passing(left, number)
            reason: DenialReason | None = "noisy test" if epsilon is None else None
            return ReleaseDecision(charges.charge(epsilon), reason, number)  # O1: the test is charged even for a denial

        return risk.measured(), decide_release, ()

    def state_problem(self, prepared: PreparedRelease, risk: Risk) -> SelectionProblem:
        """Return the input of the noisy test.

        Each person's sensitivity must depend on their own rows alone, to the last bit (V2). So values are not merged
        here: merging those that differ only by rounding would mix in other people's values. The test is over the
        declared slots; those that nobody fills move nothing (N2, N5).
        """
        there = risk.contributions
        slots = there.with_empty_slots(max(prepared.n - there.n, 0))
        return SelectionProblem(
            n=prepared.n,
            k=risk.k,
            sensitivity=risk.sensitivity,
            mechanism=prepared.mechanism,
            values=slots.norms(prepared.mechanism.norm),
            counts=slots.people,
            candidates=prepared.candidates,
            threshold=self.variance,
            epsilon_svt=self.svt,
            two_valued=is_two_valued(risk.plan),
            violation=self.violation,
        )

    def promise(self, prepared: PreparedRelease, epsilon: Decimal, *, viewed: bool) -> str:
        largest = exact_decimal(max(prepared.candidates))
        kept = promise_violation(self.violation, self.variance, prepared.n)
        return promise_found(epsilon, self.epsilon_svt, largest, prepared.mechanism, viewed=viewed) + kept

    def preview(self, prepared: PreparedRelease, risk: Risk, charges: RequestCharges) -> Preview:
        refusal = find_refusal(charges, prepared.candidates)
        if refusal is not None:
            return NoCandidatePreview(reason=Problem(word(refusal)), sees=DENIED)
        remaining = charges.remaining(prepared.candidates)
        problem = replace(self.state_problem(prepared, risk), candidates=remaining)
        if prepared.kept is None:
            outcome = outcome_distribution(problem, method=self.selection)
        else:
            outcome = known_outcome(problem, int(prepared.kept.number))
        lines = []
        for epsilon, probability in zip(remaining, outcome.probabilities, strict=True):
            variance = normalised_variance(problem, epsilon)
            violates = variance > self.variance * (1 + 1e-12)
            lines.append(PossibleEpsilon(epsilon, probability, variance, violates, Cost.of(charges, epsilon)))
        return SelectedPreview(
            way=self,
            candidates=tuple(lines),
            denial=outcome.denial,
            violation=violation_probability(problem, outcome),
            violation_share=violation_share(problem, outcome),
            accuracy=noisy_test_accuracy(problem, method=self.selection),
            kept=prepared.kept is not None,
            cost=Cost.of(charges, None),
            sees=describe_released(
                prepared.plan,
                epsilon="the ε that was found",
                epsilon_svt=self.svt,
                error_95="…",
                violation=self.violation,
                about=foresee_about(prepared, None, errors=True),
            ),
        )


@dataclass(frozen=True, slots=True, repr=False)
class PossibleEpsilon(Private):
    """An ε that the noisy test may select. ``probability``: of its selection. ``cost``: what the answer would cost.

    ``variance``: the exact variance of the normalised RDRs at this ε; ``violates``: whether that exceeds the threshold.
    """

    epsilon: float
    probability: float
    variance: float
    violates: bool
    cost: Cost

    def describe(self) -> JsonObject:
        return asdict(self)


class NoCandidatePreview(Preview):
    """What a dry run shows if the account admits no candidate: the test would not run, and the denial is certain."""

    __slots__ = ()

    def describe_way(self) -> JsonObject:
        return {"candidates": [], "denial": 1.0, "violation": 0.0}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SelectedPreview(Preview):
    """What a dry run shows of the noisy test: every outcome with its probability (V3).

    ``candidates``: the ε's that the account still admits, with the probability of each. ``denial``: the probability
    that none passes; ``cost``: what such a denial costs. An ε violates the threshold if the exact variance of the
    normalised RDRs there exceeds ``way.variance``. ``violation``: the probability that an ε is released and violates
    it; ``violation_share``: the same, given that an ε is released (0 if none ever is). ``accuracy``: how far the test
    may err (V4). ``kept``: whether the noisy number was paid for before, so that the outcome is certain and finding ε
    costs nothing (V8).
    """

    way: Selected
    candidates: tuple[PossibleEpsilon, ...]
    denial: float
    violation: float
    violation_share: float
    accuracy: NoisyTestAccuracy
    kept: bool

    @property
    def likely(self) -> float | None:
        """Return the ε that the test most probably finds; None if a denial is likelier."""
        best = max(self.candidates, key=lambda line: line.probability, default=None)
        return None if best is None or best.probability < self.denial else best.epsilon

    def describe_candidates(self, choice: Choice) -> list[JsonObject]:
        own = {line.epsilon: line.describe() for line in self.candidates}
        found = choice.describe_candidates(judged=False)
        return [line | own[epsilon] for line in found for epsilon in own if line["epsilon"] == epsilon]

    def describe_way(self) -> JsonObject:
        return {
            "selection": self.way.selection,
            "threshold": self.way.variance,
            "epsilon_svt": self.way.svt,
            "promised": self.way.violation,
            "kept": self.kept,
            "candidates": [line.describe() for line in self.candidates],
            "denial": self.denial,
            "violation": self.violation,
            "violation_share": self.violation_share,
            "alpha": {
                "beta": self.accuracy.beta,
                "paper": self.accuracy.paper_alpha,
                "exact": self.accuracy.exact_alpha,
                "warning": self.accuracy.warning,
            },
        }

    def describe_cost(self) -> JsonObject | None:
        return None if self.cost is None else {"denied": self.cost.describe()}
