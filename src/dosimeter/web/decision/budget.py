"""The account in words: its policy, what is spent and left, and the cost of one approval. Nothing of the data."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from dosimeter.findings import Finding, TakesAllLeft, word_all, write_reading
from dosimeter.ledger import Reading, RequestCharges
from dosimeter.release import find_costs
from dosimeter.show import format_epsilon, format_number
from dosimeter.web.decision.offer import Offer


@dataclass(frozen=True, slots=True)
class CostView:
    """The cost of one approval, or why the account does not grant it, as findings.

    ``aside``: what accounts with another policy would count; empty where the approval is not possible. ``before`` and
    ``added``: what is spent and what the approval adds, in percent of the budget; None without a budget, and where the
    approval is not possible.
    """

    findings: tuple[Finding, ...]
    aside: str = ""
    before: float | None = None
    added: float | None = None

    @property
    def sentences(self) -> tuple[str, ...]:
        return word_all(each for each in self.findings if not isinstance(each, TakesAllLeft))

    @property
    def last(self) -> bool:
        """Return whether no answer is possible after it."""
        return any(isinstance(each, TakesAllLeft) for each in self.findings)


def view_cost(offer: Offer, epsilon: float) -> CostView:
    """Return what approving at this ε costs, or why the account does not grant it.

    With the noisy test, ``epsilon`` is ignored, and the cost is that of the largest ε that the test can find.
    """
    charges, at = offer.charges, offer.largest if offer.testing else epsilon
    found = tuple(find_costs(charges, at, offer.candidates, testing=offer.testing))
    if at not in offer.remaining:
        return CostView(found)
    return CostView(found, _compare_policies(charges, at), *_share_budget(charges, charges.after(at)))


def describe_account(charges: RequestCharges) -> str:
    """Say what the account has spent and what is left, before the query is decided."""
    spent = write_reading(float(charges.reading.epsilon))
    if charges.policy.budget is None:
        return f"So far ε = {spent} is spent; each further ε must be larger than that."
    left = charges.policy.budget - charges.reading.epsilon if not charges.reading.infinite else Decimal(0)
    budget = format_epsilon(float(charges.policy.budget))
    return f"So far ε = {spent} of {budget} is spent; {write_reading(float(max(left, Decimal(0))))} is left."


def _share_budget(charges: RequestCharges, after: Reading) -> tuple[float | None, float | None]:
    """Return how much of the budget is spent, and how much an approval adds, in percent of the budget.

    Both are None without a budget, for a budget of 0, and where a reading is infinite. ``after``: the reading after the
    approval.
    """
    budget = charges.policy.budget
    if budget is None or budget == 0 or charges.reading.infinite or after.infinite:
        return None, None
    before, then = (min(100.0, 100.0 * float(each.epsilon / budget)) for each in (charges.reading, after))
    return round(before, 2), round(then - before, 2)


def _compare_policies(charges: RequestCharges, epsilon: float) -> str:
    """Say what an answer at this ε is charged in this account, and in accounts with the other policies."""
    price = charges.price(epsilon)
    plain, rho = format_epsilon(float(price.epsilon + price.epsilon_svt)), format_number(float(price.rho or 0), 4)
    if charges.policy.in_zcdp:
        return f"This account counts ρ = {rho}; one that adds up ε would count {plain}."
    return f"This account counts {plain}; one with a budget at a δ would count ρ = {rho}."
