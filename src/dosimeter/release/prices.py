"""What an answer costs in zCDP (O4). Takes a plan, a mechanism and ε; gives numbers. Never draws."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

from dosimeter.ledger import ZERO, RequestCharges, exact_decimal
from dosimeter.mechanisms import round_rho
from dosimeter.release.noise import Calibrated
from dosimeter.release.noisy_vector import calibrate_plan

if TYPE_CHECKING:
    from dosimeter.ledger import AccountSummary
    from dosimeter.mechanisms import Mechanism
    from dosimeter.planning import QueryPlan


def price_plan(plan: QueryPlan, mechanism: Mechanism) -> Callable[[Decimal], Decimal]:
    """Return a function from the ε of an answer to its ρ. The function remembers each result."""
    return lru_cache(maxsize=None)(lambda epsilon: find_rho(plan, mechanism, epsilon))


def charge_plan(account: AccountSummary, plan: QueryPlan, mechanism: Mechanism) -> RequestCharges:
    """Return what an answer would be charged by an account at any ε, and which ε's it admits (O2). Charges nothing."""
    return RequestCharges(
        policy=account.policy,
        max_epsilon=account.max_epsilon,
        reading=account.reading,
        epsilon_svt=ZERO,
        delta=add_delta(mechanism, group_delta(plan)),
        group_delta=group_delta(plan),
        find_rho=price_plan(plan, mechanism),
    )


def find_rho(plan: QueryPlan, mechanism: Mechanism, epsilon: Decimal) -> Decimal:
    """Return ρ of an answer at this ε, rounded up: ε²/2 for pure DP, otherwise Σ Δ²/2σ² over the measures.

    σ is the scale that the release certifies, and Δ the sensitivity that it was certified for. Thresholded groups add
    δ/(1 − δ).
    """
    shown = Fraction(group_delta(plan))
    total = shown / (1 - shown)
    if mechanism.pure:
        return round_rho(total + Fraction(epsilon) ** 2 / 2)
    for drawn in calibrate_plan(plan, mechanism, epsilon):
        assert isinstance(drawn, Calibrated), "a rank is drawn by a pure ε"
        total += Fraction(drawn.sensitivity) ** 2 / (2 * Fraction(drawn.scale) ** 2)
    return round_rho(total)


def add_delta(mechanism: Mechanism, of_groups: Decimal) -> Decimal:
    """Return δ of an answer, exactly: the δ of its noise plus the δ of thresholded groups (H1)."""
    with localcontext() as context:
        context.prec = 100
        return exact_decimal(mechanism.delta, name="delta") + of_groups


def group_delta(plan: QueryPlan) -> Decimal:
    """Return the δ of thresholded groups (H1); 0 if the schema declares the groups."""
    return ZERO if plan.threshold is None else exact_decimal(plan.threshold.delta, name="group_delta")
