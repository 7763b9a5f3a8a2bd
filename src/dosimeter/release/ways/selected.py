"""An ε selected by a noisy test over the candidates, and published (find-and-release-ε-from-RDR, G1)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dosimeter.errors import OptionError
from dosimeter.ledger import Algorithm, exact_decimal, write_decimal
from dosimeter.options import Selection, check_option
from dosimeter.problems import Option, leave_out
from dosimeter.release.previews import deny_for, describe_cost, describe_released, word_obstacle
from dosimeter.release.promises import promise_found
from dosimeter.release.selection import (
    SelectionProblem,
    accuracy,
    normalised_variance,
    outcome_distribution,
    require_additive,
    select_epsilon,
    violation_probability,
    violation_share,
)
from dosimeter.release.ways.base import (
    Grant,
    Granted,
    Recorded,
    Subject,
    Way,
    deny,
    write_number,
    write_numbers,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from dosimeter.assessment import Risk
    from dosimeter.influence import Measured
    from dosimeter.ledger import Books
    from dosimeter.planning import Look
    from dosimeter.release.measurable import Measurable
    from dosimeter.release.order import Prepared


@dataclass(frozen=True, slots=True)
class Selected(Way):
    """Spend ``svt`` on finding the first candidate whose variance a noisy test takes for at most ``variance``."""

    algorithm: ClassVar[Algorithm] = "find-and-release"

    svt: float
    variance: float
    method: Selection = "sharp"

    def __post_init__(self) -> None:
        check_option("svt", self.svt)
        check_option("variance", self.variance)
        check_option("selection", self.method)

    @property
    def epsilon_svt(self) -> Decimal:
        return exact_decimal(self.svt, name=Option("svt"))

    def check(self, subject: Subject) -> None:
        """Refuse measures and indicators that the test is not made for, and what is beyond its own limits."""
        plan, mechanism = subject.plan, subject.mechanism
        require_additive(plan)
        if subject.look.indicator != "bound":
            raise OptionError(Option("svt"), " tests the variance of the paper's bound.", leave_out("indicator"))
        groups = 1 if plan.group_keys is None else len(plan.group_keys)
        SelectionProblem(  # checks its arguments, on a table whose people move nothing
            n=subject.n,
            k=groups * len(plan.measures),
            sensitivity=plan.sensitivity(mechanism.norm),
            mechanism=mechanism,
            values=np.zeros(1),
            counts=np.array([subject.n]),
            candidates=subject.candidates,
            threshold=self.variance,
            epsilon_svt=self.svt,
        )

    def rehearsed(self, candidates: Collection[float]) -> set[float]:
        return {min(candidates), max(candidates)}

    def identify(self, look: Look, candidates: tuple[float, ...]) -> Mapping[str, object]:
        return {
            "epsilon": None,
            "preference": None,
            "svt": write_decimal(self.epsilon_svt),
            "variance": write_number(self.variance),
            "selection": self.method,
            "indicator": None,
            "candidates": write_numbers(candidates),
        }

    def record(self) -> Recorded:
        return Recorded(tau=exact_decimal(self.variance), selection=self.method)

    def measure(self, dataset: Measurable, prepared: Prepared) -> tuple[Measured, Grant]:
        risk = dataset.assess_plan(prepared.plan, prepared.look)
        problem = self.state_problem(prepared, risk)

        def grant(books: Books) -> Granted:
            obstacle = books.find_obstacle(prepared.candidates)
            if obstacle is not None:
                return deny(obstacle.rule)  # O2: no test, no charge
            remaining = books.remaining(prepared.candidates)
            epsilon = select_epsilon(replace(problem, candidates=remaining), method=self.method)
            if epsilon is None:
                return Granted(books.charge(None), "noisy test")  # O1: the test is charged even for a denial
            return Granted(books.charge(epsilon))

        return risk.measured(), grant

    def state_problem(self, prepared: Prepared, risk: Risk) -> SelectionProblem:
        """Return the noisy test's input.

        Each person's sensitivity must depend on their own rows alone, to the last bit (V2). So nothing is merged here:
        to merge values that differ only by rounding would mix in other people's.
        """
        return SelectionProblem(
            n=prepared.n,
            k=risk.k,
            sensitivity=risk.sensitivity,
            mechanism=prepared.mechanism,
            values=risk.contributions.norms(prepared.mechanism.norm),
            counts=risk.contributions.people,
            candidates=prepared.candidates,
            threshold=self.variance,
            epsilon_svt=self.svt,
        )

    def promise(self, prepared: Prepared, epsilon: Decimal, *, viewed: bool) -> str:
        largest = exact_decimal(max(prepared.candidates))
        return promise_found(epsilon, self.epsilon_svt, largest, prepared.mechanism, viewed=viewed)

    def preview(self, prepared: Prepared, risk: Risk, books: Books) -> dict[str, Any]:
        obstacle = books.find_obstacle(prepared.candidates)
        if obstacle is not None:
            return deny_for(word_obstacle(obstacle), candidates=[], denial=1.0, violation=0.0)
        remaining = books.remaining(prepared.candidates)
        problem = replace(self.state_problem(prepared, risk), candidates=remaining)
        outcome = outcome_distribution(problem, method=self.method)
        alpha = accuracy(problem, method=self.method)
        lines = []
        for epsilon, probability in zip(remaining, outcome.probabilities, strict=True):
            variance = normalised_variance(problem, epsilon)
            lines.append(
                {
                    "epsilon": epsilon,
                    "probability": probability,
                    "variance": variance,
                    "violates": variance > self.variance * (1 + 1e-12),
                    "cost": describe_cost(books, epsilon),
                }
            )
        return {
            "reason": None,
            "selection": self.method,
            "threshold": self.variance,
            "epsilon_svt": self.svt,
            "candidates": lines,
            "denial": outcome.denial,
            "violation": violation_probability(problem, outcome),
            "violation_share": violation_share(problem, outcome),
            "alpha": {
                "beta": alpha.beta,
                "paper": alpha.paper_alpha,
                "exact": alpha.exact_alpha,
                "warning": alpha.warning,
            },
            "cost": {"denied": describe_cost(books, None)},
            "analyst_sees": describe_released(
                prepared.plan, epsilon="the ε that was found", epsilon_svt=self.svt, error_95="…"
            ),
        }
