"""What a dry run shows of each way to set ε: the cost, why a release would be denied, what the analyst would see."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from dosimeter.assessment import choose
from dosimeter.html import Private
from dosimeter.json_values import JsonObject, JsonValue
from dosimeter.ledger import Reading, RequestCharges
from dosimeter.postprocess import list_facts, tell_ranks, word_facts
from dosimeter.problems import Problem, Surface
from dosimeter.risk import USUAL_PRESET, parse_preference

if TYPE_CHECKING:
    from dosimeter.assessment import Risk
    from dosimeter.findings import Choice, Finding
    from dosimeter.planning import QueryPlan
    from dosimeter.release.order import PreparedRelease


STOPPED: JsonObject = {"status": "stopped"}
DENIED: JsonObject = {"status": "denied"}


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of an answer to its account. A reading that is infinite is None.

    ``charge``: what the answer adds to the reading, in ε. ``reading`` and ``reading_after``: the reading before and
    after the answer. ``epsilon``: ε plus what finding it costs, which a policy ``budget:E`` would charge. ``rho``: what
    a policy ``budget:E@D`` would charge (O4).
    """

    charge: float | None
    reading: float | None
    reading_after: float | None
    epsilon: float
    rho: float

    @classmethod
    def of(cls, charges: RequestCharges, epsilon: float | None) -> Cost:
        """Return the cost of an answer at this ε; if ``epsilon`` is None, the cost of a denial after the noisy test."""
        price, after = charges.price(epsilon), charges.after(epsilon)
        added = after.added(charges.policy.charge(price))
        return cls(
            charge=None if added.is_infinite() else float(added),
            reading=_number(charges.reading),
            reading_after=_number(after),
            epsilon=float(price.epsilon + price.epsilon_svt),
            rho=float(price.rho or 0),
        )

    @classmethod
    def nothing(cls, charges: RequestCharges) -> Cost:
        return cls(0.0, _number(charges.reading), _number(charges.reading), 0.0, 0.0)

    def describe(self) -> JsonObject:
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Preview(Private):
    """The part of a dry run that depends on the way to set ε. A way that shows more than the ε has a subclass. Private.

    ``reason``: why the release would be denied for certain, or would stop the dataset; None if it would do neither.
    ``epsilon``: the ε, if it is known beforehand. ``sees``: what the analyst would get, with placeholders for numbers.
    """

    reason: Problem | None = None
    epsilon: float | None = None
    cost: Cost | None = None
    sees: JsonObject

    @property
    def likely(self) -> float | None:
        """Return the ε at which the answer is judged: the one that is known, or the likeliest; None without one."""
        return self.epsilon

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Return what is worth saying about how ε is set; nothing where it is simply given."""
        return ()

    def judge(self, risk: Risk, charges: RequestCharges) -> Choice:
        """Return the verdict on each ε, by the preset that rules where nothing else is preferred."""
        epsilons = sorted({*risk.candidates, *([] if self.epsilon is None else [self.epsilon])}, reverse=True)
        return choose(risk, parse_preference(USUAL_PRESET), epsilons, available=charges.remaining)

    def describe_candidates(self, choice: Choice) -> list[JsonObject]:
        """Return the candidates as JSON has them, each with its verdict; of a given ε that one alone."""
        found = choice.describe_candidates(judged=False)
        return [line for line in found if self.epsilon in (None, line["epsilon"])]

    def describe(self) -> JsonObject:
        return {
            "reason": self.describe_reason(),
            **self.describe_way(),
            "cost": self.describe_cost(),
            "analyst_sees": dict(self.sees),
        }

    def describe_reason(self) -> str | None:
        return None if self.reason is None else self.reason.word(Surface.PYTHON)

    def describe_way(self) -> JsonObject:
        """Return the JSON fields that only this way to set ε has."""
        return {"epsilon": self.epsilon}

    def describe_cost(self) -> JsonObject | None:
        return None if self.cost is None else self.cost.describe()


def _number(reading: Reading) -> float | None:
    return None if reading.infinite else float(reading.epsilon)


def describe_released(
    plan: QueryPlan,
    *,
    epsilon: JsonValue = None,
    epsilon_svt: float | None = None,
    error_95: JsonValue = None,
    violation: float | None = None,
    rank_errors: JsonValue = None,
    about: list[JsonValue] | None = None,
) -> JsonObject:
    """Return what the analyst would see of a released answer, in the form of ``Answer.describe``, without numbers.

    The arguments are what is known of it beforehand, or placeholders.
    """
    return {
        "status": "released",
        "answer": _describe_shape(plan),
        "epsilon": epsilon,
        "epsilon_svt": epsilon_svt,
        "error_95": error_95,
        "errors": None if error_95 is None else "…",
        **({} if violation is None else {"violation": violation}),
        **({} if rank_errors is None else {"rank_errors": rank_errors}),
        **_describe_told(plan, "…" if error_95 is not None else None),
        "about": about or [],
        "guarantee": "…",
    }


def _describe_told(plan: QueryPlan, error: JsonValue) -> JsonObject:
    """Return what would be told beside the answer, if that was asked for (E5).

    ``error``: what is known of the error of a number that gets noise.
    """
    if plan.told is None:
        return {}
    measured = plan.told.measured
    public: JsonObject = {"individuals": 0, "error": None if error is None else 0.0}
    noisy: JsonObject = {"individuals": "…", "error": error}
    return {name: noisy if name in measured else public for name in ("cut", "clamped")}


def foresee_about(prepared: PreparedRelease, epsilon: float | None, *, errors: bool = False) -> list[JsonValue]:
    """Return the public facts that the answer would come with, as far as they do not depend on its numbers.

    ``epsilon``: None if it is not known yet, or hidden. ``errors``: whether the analyst will be told errors even if
    ``epsilon`` is None.
    """
    facts = list_facts(prepared.plan, None, clamp=prepared.order.clamp, errors=errors or epsilon is not None)
    return [*word_facts(facts), *tell_ranks(prepared.plan, epsilon)]


def _describe_shape(plan: QueryPlan) -> list[dict[str, str]]:
    """Return one row of the answer, with a placeholder for each value."""
    group = "each declared value" if plan.threshold is None else "the values of each group that is shown"
    shown = ((output.name, "a public value" if output.label else group, output.is_aggregate) for output in plan.outputs)
    return [{name: "…" if number else words for name, words, number in shown}]
