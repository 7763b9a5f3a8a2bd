"""Account for privacy loss. Takes charges and a policy; gives the reading and which candidates remain (O1-O4).

Pure and exact: every number is a ``decimal.Decimal``, floats enter through ``exact_decimal`` as the decimal they print
as (0.3 is 0.3), and sums never round. Never opens a ledger.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import ClassVar, Literal, NamedTuple

from dosimeter.errors import OptionError
from dosimeter.json_values import JsonObject, JsonValue, read_object, read_text
from dosimeter.ledger.decimals import (
    EXACTLY,
    ZERO,
    Number,
    exact_decimal,
    read_reading,
    write_decimal,
)
from dosimeter.ledger.readings import Charge, Price, Reading, SumReading, ZcdpReading
from dosimeter.problems import Option


def default_delta_total(individuals: int) -> Decimal:
    """Return the default of δ_g, the most that an account's δ's may add up to: min(100/n², 1/n) for n individuals (O5).

    1/n², the default δ of an answer, is taken as the decimal that the float prints as. δ_g is min(100, n) times that,
    so that exactly min(100, n) answers at the default δ fit.
    """
    if individuals < 1:
        raise OptionError("individuals must be at least 1.")
    return EXACTLY.multiply(Decimal(min(100, individuals)), exact_decimal(1.0 / individuals**2))


LARGE_DELTA = Decimal("0.1")
"""The δ_g, the most that an account's δ's may add up to, from which on the account's reading says little (O5)."""


Rule = Literal["delta", "cap", "reading", "budget"]
"""What can refuse a charge: δ_g, the cap on one answer's ε, the reading (policy paper), or what is left of a budget."""


class Policy(ABC):
    """A policy: how an account may be spent (O2). One with a δ of its own counts charges in ρ (O4), others in ε.

    ``rule``: the name of the rule by which this policy refuses a charge. ``mixes``: whether an account may hold answers
    at a fixed ε and at an ε that the noisy test selected (O3). ``budget``: the ε that may be spent in all; None without
    a budget. ``delta``: the δ at which ρ is read as an ε; None if ε's are added up.
    """

    __slots__ = ()

    rule: ClassVar[Rule]
    mixes: ClassVar[bool]
    budget: Decimal | None
    delta: Decimal | None

    @property
    def in_zcdp(self) -> bool:
        """Return whether charges are counted in ρ (O4)."""
        return self.delta is not None

    @staticmethod
    def parse(text: object) -> Policy:
        """Return the policy that a text names: paper, budget:E or budget:E@D; or ``text`` itself if it is a policy.

        Raises OptionError for anything else.
        """
        if isinstance(text, Policy):
            return text
        for kind in POLICIES:
            found = kind.read(text.strip()) if isinstance(text, str) else None
            if found is not None:
                return found
        raise OptionError(
            f"Unknown policy {text!r}. Use paper, budget:E with E the epsilon to spend in all, or budget:E@D with D "
            "the delta at which it is read."
        )

    @classmethod
    @abstractmethod
    def read(cls, text: str) -> Policy | None:
        """Return the policy if the text names one of this class; otherwise None."""

    @abstractmethod
    def __str__(self) -> str:
        """Return the text that ``parse`` reads."""

    @abstractmethod
    def admits(self, charge: Charge, reading: Reading) -> bool:
        """Return whether this policy's own rule allows the charge at this reading; δ is not tested here.

        The caller makes sure that the charge's δ still fits, as ``find_broken_rule`` does: the reading is finite before
        the charge and after it. (It is infinite once the charged δ's exceed the account's δ_g.)
        """

    def left(self, reading: Reading) -> Decimal | None:
        """Return what is left of the budget, in ε; None without a budget."""
        if self.budget is None:
            return None
        return ZERO if reading.infinite else max(self.budget - reading.epsilon, ZERO)

    def agree_on_delta(self, asked: Decimal | None, individuals: int) -> Decimal:
        """Return a new account's δ_g, the most that its δ's may add up to: ``asked``, or the default if None (O5).

        Where the policy has a δ, δ_g is the part of it that is set aside for thresholded groups, by default 0. Raises
        OptionError if it is not smaller than the δ.
        """
        if self.delta is None:
            return default_delta_total(individuals) if asked is None else asked
        if asked is not None and asked >= self.delta:
            raise OptionError(
                Option("delta_total"), f" is the part of δ = {write_decimal(self.delta)} that is set aside for groups "
                "which nobody declared: it must be smaller than that.",
            )  # fmt: skip
        return ZERO if asked is None else asked

    def warn(self, delta_total: Decimal, individuals: int) -> str | None:
        """Return a warning for the controller if a δ in the account's terms is too large; otherwise None.

        δ_g (``delta_total``), the most that the charged δ's may add up to, is too large from 0.1 on; the policy's own δ
        above 1/n for n individuals. With such a δ, even publishing the row of one person, drawn at random, would keep
        the promise.
        """
        if self.delta is None and delta_total >= LARGE_DELTA:
            return (
                f"The account's δ = {write_decimal(delta_total)} is large: with Gaussian noise, answers may add up to "
                f"a chance of {float(delta_total):.0%} that ε says nothing. Open accounts of so few people with a "
                "smaller one, or use Laplace noise, which needs none."
            )
        if self.delta is None or Decimal(individuals) * self.delta <= 1:
            return None
        return (
            f"The δ of the policy {self} is above 1/{individuals:,}: to publish the row of one person, drawn by lot, "
            "would keep such a promise. Open accounts with a smaller one."
        )

    def charge(self, price: Price) -> Charge:
        """Return what this policy charges for an entry of this price: its ε, ε_svt and δ; or ρ too (O4).

        With ρ, which already counts the noise, the charged δ is that of thresholded groups alone.
        """
        if self.delta is None:
            return Charge(price.epsilon, price.epsilon_svt, price.delta)
        return Charge(price.epsilon, price.epsilon_svt, price.group_delta, price.rho)

    def start(self, delta_total: Decimal) -> Reading:
        """Return the reading of an account that has spent nothing.

        ``delta_total``: δ_g, the most that the account's δ's may add up to.
        """
        if self.delta is None:
            return SumReading(delta_total=delta_total)
        return ZcdpReading(delta_total=delta_total, delta_of_noise=EXACTLY.subtract(self.delta, delta_total))

    def write_reading(self, reading: Reading) -> JsonObject:
        """Return the exact reading as JSON values, for the ledger to keep. Equal readings give equal objects."""
        return {"rho" if self.in_zcdp else "epsilon": reading.write(), "delta": write_decimal(reading.delta)}

    def read_reading(self, payload: JsonValue, delta_total: Decimal) -> Reading:
        """Return the reading in ``payload``, which ``write_reading`` gave.

        ``delta_total``: δ_g, the most that the account's δ's may add up to.
        """
        kept = read_object(payload)
        delta = exact_decimal(read_text(kept["delta"]))
        if self.delta is None:
            return SumReading(read_reading(kept["epsilon"]), delta, delta_total=delta_total)
        return self.start(delta_total).after(Charge(ZERO, delta=delta, rho=exact_decimal(read_text(kept["rho"]))))


@dataclass(frozen=True, slots=True)
class Paper(Policy):
    """The policy ``paper``, the paper's rule: each ε must be larger than the reading."""

    rule: ClassVar[Rule] = "reading"
    mixes: ClassVar[bool] = False
    budget: ClassVar[None] = None  # type: ignore[misc]
    delta: ClassVar[None] = None  # type: ignore[misc]

    @classmethod
    def read(cls, text: str) -> Paper | None:
        """Return the policy if the text is ``paper``; otherwise None."""
        return cls() if text == "paper" else None

    def __str__(self) -> str:
        return "paper"

    def admits(self, charge: Charge, reading: Reading) -> bool:
        """Return whether the answer's ε is larger than the reading.

        A charge without an answer (its ε is 0) is always admitted: it pays for a noisy test or thresholded groups.
        """
        return charge.epsilon == 0 or charge.epsilon > reading.epsilon


@dataclass(frozen=True, slots=True)
class Budget(Policy):
    """The policy ``budget:E``: the sum of all charged ε's may not exceed E.

    With a ``delta`` it is ``budget:E@D``: all answers together may amount to at most ε = E at δ = D, counted as ρ (O4).
    When such an account is opened, a part of D can be set aside for thresholded groups (H1): δ_g, by default 0. The sum
    of all ρ is read as an ε at the rest, D − δ_g.
    """

    rule: ClassVar[Rule] = "budget"
    mixes: ClassVar[bool] = True
    budget: Decimal
    delta: Decimal | None = None

    def __init__(self, budget: Number, delta: Number | None = None) -> None:
        object.__setattr__(self, "budget", exact_decimal(budget, name="the budget"))
        found = None if delta is None else exact_decimal(delta, name="the delta of the budget")
        object.__setattr__(self, "delta", found)
        if found is not None and (self.budget == 0 or not _SMALLEST_DELTA <= found < 1):
            raise OptionError("A budget:E@D needs an E larger than 0 and a D below 1, as in budget:2@1e-06.")
        if self.budget == 0:
            raise OptionError("The budget must be larger than 0, as in budget:2.0.")

    @classmethod
    def read(cls, text: str) -> Budget | None:
        """Return the policy if the text is ``budget:E`` or ``budget:E@D``; otherwise None."""
        name, _, amounts = text.partition(":")
        if name != "budget" or ":" not in text:
            return None
        budget, mark, delta = amounts.partition("@")
        return cls(budget, delta if mark else None)

    def __str__(self) -> str:
        if self.delta is None:
            return f"budget:{write_decimal(self.budget)}"
        short = repr(float(self.delta))  # 4e-06, as people write it
        delta = short if Decimal(short) == self.delta else write_decimal(self.delta)
        return f"budget:{write_decimal(self.budget)}@{delta}"

    def admits(self, charge: Charge, reading: Reading) -> bool:
        """Return whether the reading stays within the budget after this charge."""
        return reading.after(charge).epsilon <= self.budget


_SMALLEST_DELTA = Decimal("1e-300")


POLICIES: tuple[type[Policy], ...] = (Paper, Budget)
"""Every policy that an account can be opened with."""


def find_broken_rule(policy: Policy, reading: Reading, charge: Charge, *, max_epsilon: Number | None) -> Rule | None:
    """Return the rule that this charge would break at this reading; None if it breaks none (O1, O2).

    ``max_epsilon``: the largest ε of one answer, without what finding ε costs; None without such a cap.
    """
    if reading.after(charge).infinite:
        return "delta"  # δ does not fit, or was overspent before
    if max_epsilon is not None and charge.epsilon > exact_decimal(max_epsilon, name=Option("max_epsilon")):
        return "cap"
    return None if policy.admits(charge, reading) else policy.rule


def admits_charge(policy: Policy, reading: Reading, charge: Charge, *, max_epsilon: Number | None) -> bool:
    """Return whether this charge may be added to this reading (O2). ``max_epsilon``: the largest ε of one answer."""
    return find_broken_rule(policy, reading, charge, max_epsilon=max_epsilon) is None


def _pure_rho(epsilon: Decimal) -> Decimal:
    from dosimeter.mechanisms import pure_rho  # imported late: it loads arrays

    return pure_rho(epsilon) if epsilon else ZERO


class Obstacle(NamedTuple):
    """Why an account admits none of several ε's (O1, O2): what is wrong with the one nearest to being admitted.

    ``rule``: the rule that this ε breaks. ``charge``: what an answer at it would be charged.
    """

    rule: Rule
    charge: Charge


@dataclass(frozen=True, slots=True, repr=False)
class RequestCharges:
    """What one request would be charged at any ε, and which ε's its account admits now.

    ``policy``, ``max_epsilon`` (the largest ε of one answer) and ``reading``: the account's. ``epsilon_svt``: the ε
    that finding ε costs. ``delta``: the δ of the answer's noise and thresholded groups together; ``group_delta``: the δ
    of these groups alone (H1). ``find_rho``: a function from the ε of an answer to its ρ; None for pure DP, whose ρ is
    ε²/2.
    """

    policy: Policy
    max_epsilon: Decimal | None
    reading: Reading
    epsilon_svt: Decimal
    delta: Decimal
    group_delta: Decimal = ZERO
    find_rho: Callable[[Decimal], Decimal] | None = None
    _charges: dict[float | Decimal | None, Charge] = field(default_factory=dict, init=False, compare=False)
    _rules: dict[float, Rule | None] = field(default_factory=dict, init=False, compare=False)

    def remaining(self, candidates: Sequence[float], reading: Reading | None = None) -> tuple[float, ...]:
        """Return the candidates that may still be granted at ``reading``; by default at the account's reading now."""
        return tuple(candidate for candidate in candidates if self._find_rule(candidate, reading) is None)

    def _find_rule(self, epsilon: float, reading: Reading | None = None) -> Rule | None:
        """Return the rule that an answer at this ε would break; None if the account admits it."""
        if reading is None and epsilon in self._rules:
            return self._rules[epsilon]
        charge = self.charge(epsilon)
        found = find_broken_rule(self.policy, reading or self.reading, charge, max_epsilon=self.max_epsilon)
        if reading is None:
            self._rules[epsilon] = found
        return found

    def price(self, epsilon: float | Decimal | None, *, in_zcdp: bool = True) -> Price:
        """Return what an answer at this ε costs, in ε, δ and ρ (O1). Refuse an ε of 0.

        If ``epsilon`` is None, return what a denial after the noisy test costs. ``in_zcdp``: whether to compute ρ,
        which takes a while for Gaussian noise; if not, the price's ρ is None.
        """
        answer = ZERO if epsilon is None else exact_decimal(epsilon, name="a candidate")
        if epsilon is not None and answer == 0:
            raise OptionError("A candidate epsilon must be larger than 0.")
        return Price(
            epsilon=answer,
            epsilon_svt=self.epsilon_svt,
            delta=self.delta if answer else ZERO,
            group_delta=self.group_delta if answer else ZERO,
            rho=EXACTLY.add(self._find_rho(answer), _pure_rho(self.epsilon_svt)) if in_zcdp else None,
        )

    def _find_rho(self, epsilon: Decimal) -> Decimal:
        return _pure_rho(epsilon) if self.find_rho is None or epsilon == 0 else self.find_rho(epsilon)

    def charge(self, epsilon: float | Decimal | None) -> Charge:
        """Return the charge of an answer at this ε; if that is None, of a denial after the noisy test (O1)."""
        known = self._charges.get(epsilon)
        if known is None:
            known = self._charges[epsilon] = self.policy.charge(self.price(epsilon, in_zcdp=self.policy.in_zcdp))
        return known

    def charge_groups(self) -> Charge:
        """Return the charge of a denial if thresholded groups were read but no noisy test ran: the groups' δ (H1)."""
        nothing = Price(epsilon=ZERO, epsilon_svt=ZERO, delta=self.group_delta, group_delta=self.group_delta, rho=ZERO)
        return self.policy.charge(nothing)

    def after(self, epsilon: float | None) -> Reading:
        return self.reading.after(self.charge(epsilon))

    def find_obstacle(self, candidates: Sequence[float]) -> Obstacle | None:
        """Return why none of these candidates is admitted; None if at least one is, or if there are none.

        The obstacle says what is wrong with one candidate, the one nearest to being admitted. If the cap on one
        answer's ε (``max_epsilon``) refuses all candidates, this is the smallest. Otherwise it is one that the cap does
        not refuse: the largest of these under the policy ``paper``, the smallest under a budget.
        """
        rules = {epsilon: self._find_rule(epsilon) for epsilon in sorted(candidates)}
        if not rules or None in rules.values():
            return None
        found = [Obstacle(rule, self.charge(epsilon)) for epsilon, rule in rules.items() if rule is not None]
        below_cap = [obstacle for obstacle in found if obstacle.rule != "cap"]
        return below_cap[-1] if below_cap and self.policy.budget is None else (below_cap or found)[0]
