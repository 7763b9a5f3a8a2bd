"""Account for privacy loss. Takes charges and a policy; gives the reading and which candidates remain (O1-O3).

Pure and exact: every number is a ``decimal.Decimal``, floats enter through ``exact_decimal`` as the decimal they
print as (0.3 is 0.3), and sums never round. Never opens a ledger.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Context, Decimal, DivisionByZero, Inexact, InvalidOperation, Overflow
from typing import ClassVar, Literal

from dosimeter.errors import OptionError
from dosimeter.json_values import JsonObject, JsonValue, read_object, read_text
from dosimeter.problems import Option

Number = Decimal | float | int | str

INFINITY = Decimal("Infinity")
ZERO = Decimal(0)

# Every double lies between 5e-324 and 1.8e308. With numbers kept in this range, no sum of fewer than 10^300 of them
# needs more than 1,000 digits, so that additions are exact and need no rounding rule.
_SMALLEST_EXPONENT = -340
_LARGEST_MAGNITUDE = 320
_DIGITS = 1000


def _exact_context() -> Context:
    """Return a context for arithmetic that raises rather than rounds."""
    return Context(prec=_DIGITS, traps=[Inexact, InvalidOperation, DivisionByZero, Overflow])


def exact_decimal(value: Number, *, name: str | Option = "the number") -> Decimal:
    """Return the decimal that ``value`` prints as, without trailing zeros. Refuse what is not finite or is negative."""
    text = str(value).strip()
    try:
        number = Decimal(text)
    except InvalidOperation:
        raise OptionError(name, f" must be a number, not {text!r}.") from None
    if not number.is_finite() or number < 0:
        raise OptionError(name, f" must be finite and not negative, not {text}.")
    if number == 0:
        return ZERO
    exponent = number.as_tuple().exponent
    if not isinstance(exponent, int) or exponent < _SMALLEST_EXPONENT or number.adjusted() > _LARGEST_MAGNITUDE:
        raise OptionError(name, " is out of range: use a number that a double can hold.")
    return _exact_context().normalize(number)


def write_decimal(number: Decimal) -> str:
    """Write one text per number: ``2.0`` and ``2`` are both written ``2``. ``exact_decimal`` reads it back."""
    canonical = exact_decimal(number)
    if canonical == 0:
        return "0"
    return format(canonical, "f") if -7 < canonical.adjusted() < 16 else str(canonical)


def write_reading(epsilon: Decimal) -> str:
    """Write the ε of a reading, which can be infinite, as one text per number."""
    return str(INFINITY) if epsilon.is_infinite() else write_decimal(epsilon)


def read_reading(payload: JsonValue) -> Decimal:
    text = read_text(payload)
    return INFINITY if text == str(INFINITY) else exact_decimal(text)


def default_delta_total(individuals: int) -> Decimal:
    """Return δ_g = min(100/n², 1/n) (O5), computed as min(100, n) times the *printed* default δ = 1/n².

    So exactly that many answers at the default δ fit into it.
    """
    if individuals < 1:
        raise OptionError("individuals must be at least 1.")
    return _exact_context().multiply(Decimal(min(100, individuals)), exact_decimal(1.0 / individuals**2))


LARGE_DELTA = Decimal("0.1")


def warn_of_delta(delta_total: Decimal) -> str | None:
    """Return a warning where δ_g is so large that the reading says little (O5): with ten individuals or fewer."""
    if delta_total < LARGE_DELTA:
        return None
    return (
        f"The account's δ = {write_decimal(delta_total)} is large: with Gaussian noise, answers may add up to a chance "
        f"of {float(delta_total):.0%} that ε says nothing. Open accounts of so few people with a smaller one, or use "
        "Laplace noise, which needs none."
    )


Rule = Literal["delta", "cap", "reading", "budget"]
"""What is in the way of a charge: δ_g, the cap of one query, the reading (policy paper), or the rest of the budget."""


class Policy(ABC):
    """How an account may be spent (O2).

    ``rule``: the obstacle that it puts in the way of a charge. ``budget``: what may be spent in all; None without a
    budget.
    """

    __slots__ = ()

    rule: ClassVar[Rule]
    budget: Decimal | None

    @staticmethod
    def parse(text: str) -> Policy:
        """Return the policy that a controller wrote."""
        for kind in POLICIES:
            found = kind.read(text.strip())
            if found is not None:
                return found
        raise OptionError(f"Unknown policy {text!r}. Use paper, or budget:E with E the epsilon to spend in all.")

    @classmethod
    @abstractmethod
    def read(cls, text: str) -> Policy | None:
        """Return the policy where the text names this one; otherwise None."""

    @abstractmethod
    def __str__(self) -> str:
        """Return the policy as it is written."""

    @abstractmethod
    def admits(self, charge: Charge, reading: Reading) -> bool:
        """Return whether this charge may be added to this finite reading."""

    def left(self, reading: Reading) -> Decimal | None:
        """Return what the budget still allows; None without a budget."""
        if self.budget is None:
            return None
        return ZERO if reading.infinite else max(self.budget - reading.epsilon, ZERO)

    def start(self, delta_total: Decimal) -> Reading:
        """Return the reading of an account that has spent nothing."""
        return Reading(delta_total=delta_total)

    def write_reading(self, reading: Reading) -> JsonObject:
        """Return the reading as a checkpoint keeps it: exact, and one text per number."""
        return {"epsilon": write_reading(reading.epsilon), "delta": write_decimal(reading.delta)}

    def read_reading(self, payload: JsonValue, delta_total: Decimal) -> Reading:
        """Return the reading that ``write_reading`` wrote."""
        kept = read_object(payload)
        delta = exact_decimal(read_text(kept["delta"]))
        return Reading(read_reading(kept["epsilon"]), delta, delta_total=delta_total)


@dataclass(frozen=True, slots=True)
class PaperRule(Policy):
    """The paper's rule: each ε must be larger than the reading."""

    rule: ClassVar[Rule] = "reading"
    budget: ClassVar[None] = None  # type: ignore[misc]

    @classmethod
    def read(cls, text: str) -> PaperRule | None:
        """Return the rule for ``paper``."""
        return cls() if text == "paper" else None

    def __str__(self) -> str:
        return "paper"

    def admits(self, charge: Charge, reading: Reading) -> bool:
        """Return whether ε is larger than the reading, or nothing but the test is charged."""
        return charge.epsilon == 0 or charge.epsilon > reading.epsilon


@dataclass(frozen=True, slots=True)
class Budget(Policy):
    """A budget for the sum of all charges."""

    rule: ClassVar[Rule] = "budget"
    budget: Decimal

    def __post_init__(self) -> None:
        budget = exact_decimal(self.budget, name="the budget")
        if budget == 0:
            raise OptionError("The budget must be larger than 0, as in budget:2.0.")
        object.__setattr__(self, "budget", budget)

    @classmethod
    def read(cls, text: str) -> Budget | None:
        """Return the budget of ``budget:E``."""
        name, mark, amount = text.partition(":")
        return cls(exact_decimal(amount, name="the budget")) if (name, mark) == ("budget", ":") else None

    def __str__(self) -> str:
        return f"budget:{write_decimal(self.budget)}"

    def admits(self, charge: Charge, reading: Reading) -> bool:
        """Return whether the reading stays within the budget."""
        return reading.after(charge).epsilon <= self.budget


POLICIES: tuple[type[Policy], ...] = (PaperRule, Budget)
"""Every policy that an account can be opened with."""


@dataclass(frozen=True, slots=True)
class Charge:
    """The cost of one entry: ε for an answer, ε_svt where ε was found privately, and δ (O1)."""

    epsilon: Decimal
    epsilon_svt: Decimal = ZERO
    delta: Decimal = ZERO

    def __post_init__(self) -> None:
        for part in ("epsilon", "epsilon_svt", "delta"):
            object.__setattr__(self, part, exact_decimal(getattr(self, part), name=part))

    @property
    def total(self) -> Decimal:
        return _exact_context().add(self.epsilon, self.epsilon_svt)


@dataclass(frozen=True, slots=True)
class Reading:
    """The state of the odometer: the sum of all charges, and infinity once Σδ > δ_g (O1)."""

    epsilon: Decimal = ZERO
    delta: Decimal = ZERO
    delta_total: Decimal = field(kw_only=True)

    @property
    def infinite(self) -> bool:
        return self.epsilon.is_infinite()

    def after(self, charge: Charge) -> Reading:
        """Return the reading once this charge is added: what an approval would cost."""
        context = _exact_context()
        delta = context.add(self.delta, charge.delta)
        overspent = self.infinite or delta > self.delta_total
        epsilon = INFINITY if overspent else context.add(self.epsilon, charge.total)  # O1
        return Reading(epsilon, delta, delta_total=self.delta_total)


def find_broken_rule(policy: Policy, reading: Reading, charge: Charge, *, max_epsilon: Number | None) -> Rule | None:
    """Return the rule that keeps this charge from being added to this reading; None where it may be added (O1, O2).

    ``max_epsilon`` caps the ε of one answer, without its ε_svt.
    """
    if reading.after(charge).infinite:
        return "delta"  # δ does not fit, or was overspent before
    if max_epsilon is not None and charge.epsilon > exact_decimal(max_epsilon, name=Option("max_epsilon")):
        return "cap"
    return None if policy.admits(charge, reading) else policy.rule


def admits_charge(policy: Policy, reading: Reading, charge: Charge, *, max_epsilon: Number | None) -> bool:
    """Return whether this charge may be added to this reading (O2)."""
    return find_broken_rule(policy, reading, charge, max_epsilon=max_epsilon) is None


def remaining_candidates(
    policy: Policy,
    reading: Reading,
    candidates: Sequence[float],
    *,
    epsilon_svt: Number,
    delta: Number,
    max_epsilon: Number | None,
) -> tuple[float, ...]:
    """Return the candidates that may still be granted, in the order given (O2).

    Where there are none, a request is denied without a test and without a charge.
    """
    svt = exact_decimal(epsilon_svt, name="epsilon_svt")
    each_delta = exact_decimal(delta, name="delta")
    remaining = []
    for candidate in candidates:
        epsilon = exact_decimal(candidate, name="a candidate")
        if epsilon == 0:
            raise OptionError("A candidate epsilon must be larger than 0.")
        if admits_charge(policy, reading, Charge(epsilon, svt, each_delta), max_epsilon=max_epsilon):
            remaining.append(candidate)
    return tuple(remaining)


@dataclass(frozen=True, slots=True)
class Obstacle:
    """What is in the way of some ε's: the rule that the closest of them breaks, and its numbers (O1, O2).

    ``charge``: what an answer at that ε costs. ``cap``: the largest ε of one answer, None without a cap.
    """

    rule: Rule
    charge: Charge
    reading: Reading
    policy: Policy
    cap: Decimal | None

    @property
    def left(self) -> Decimal:
        """Return what the budget still allows; nothing where there is none."""
        return ZERO if self.policy.budget is None else max(self.policy.budget - self.reading.epsilon, ZERO)


@dataclass(frozen=True, slots=True, repr=False)
class Books:
    """An account as one request finds it: its terms and reading, and what an answer costs besides its own ε."""

    policy: Policy
    max_epsilon: Decimal | None
    reading: Reading
    epsilon_svt: Decimal
    delta: Decimal

    def remaining(self, candidates: Sequence[float], reading: Reading | None = None) -> tuple[float, ...]:
        """Return the candidates that may still be granted, now or at another reading."""
        return remaining_candidates(
            self.policy, reading or self.reading, candidates,
            epsilon_svt=self.epsilon_svt, delta=self.delta, max_epsilon=self.max_epsilon,
        )  # fmt: skip

    def charge(self, epsilon: float | None) -> Charge:
        """Return the charge of an answer at this ε; without ε, that of a denial that follows the noisy test (O1)."""
        if epsilon is None:
            return Charge(ZERO, self.epsilon_svt)
        return Charge(exact_decimal(epsilon), self.epsilon_svt, self.delta)

    def after(self, epsilon: float | None) -> Reading:
        return self.reading.after(self.charge(epsilon))

    def find_obstacle(self, candidates: Sequence[float]) -> Obstacle | None:
        """Return why none of these candidates is admitted; None where one is.

        The closest is the largest under the paper's rule and the smallest in a budget, of those that the cap allows.
        """
        charges = sorted((self.charge(epsilon) for epsilon in candidates), key=lambda charge: charge.epsilon)
        found = [
            Obstacle(rule, charge, self.reading, self.policy, self.max_epsilon)
            for charge in charges
            if (rule := find_broken_rule(self.policy, self.reading, charge, max_epsilon=self.max_epsilon)) is not None
        ]
        if len(found) < len(charges):
            return None
        below_cap = [obstacle for obstacle in found if obstacle.rule != "cap"]
        return below_cap[-1] if below_cap and self.policy.budget is None else (below_cap or found)[0]
