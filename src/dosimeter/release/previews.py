"""Parts of a dry run that every way to an ε shows: the cost, why it would be denied, what the analyst sees."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from dosimeter.ledger import ZERO, Books, Charge, Reading, exact_decimal, write_decimal

if TYPE_CHECKING:
    from dosimeter.planning import QueryPlan


def describe_cost(books: Books, epsilon: float | None) -> dict[str, Any]:
    """Return the reading before and after an answer at this ε, or after a denial that follows the noisy test."""
    return {
        "charge": float(books.charge(epsilon).total),
        "reading": _number(books.reading),
        "reading_after": _number(books.after(epsilon)),
    }


def describe_no_cost(books: Books) -> dict[str, Any]:
    reading = _number(books.reading)
    return {"charge": 0.0, "reading": reading, "reading_after": reading}


def explain_denial(books: Books, candidates: Sequence[float]) -> str:
    """Say why the account admits none of these candidates: the rule that the closest one breaks (O1, O2)."""
    reading, cap = books.reading, books.max_epsilon
    fitting = [epsilon for epsilon in map(exact_decimal, candidates) if cap is None or epsilon <= cap]
    match books.find_obstacle(candidates):
        case "delta":
            return (
                f"{reading.delta:g} of the account's δ_g = {reading.delta_total:g} is spent; this needs "
                f"{books.delta:g} more (--delta-total)."
            )
        case "cap":
            least = write_decimal(exact_decimal(min(candidates)))
            return (
                f"ε = {least} is above the account's cap of {write_decimal(cap or ZERO)} for one query (--max-epsilon)."
            )
        case "reading":
            spent, most = write_decimal(reading.epsilon), write_decimal(max(fitting))
            return f"Under the policy paper ε must be larger than the reading, which is {spent}; {most} is not."
        case "budget":
            return _explain_budget(books, min(fitting))


def _explain_budget(books: Books, epsilon: Decimal) -> str:
    """Return what is spent of the budget, and what an answer at this ε would need."""
    charge, reading = Charge(epsilon, books.epsilon_svt), books.reading
    left = max((books.policy.budget or ZERO) - reading.epsilon, ZERO)
    parts = ""
    if books.epsilon_svt:
        parts = f" (ε = {write_decimal(charge.epsilon)} and {write_decimal(books.epsilon_svt)} for finding it)"
    return (
        f"{write_decimal(reading.epsilon)} of {books.policy} is spent; this needs {write_decimal(charge.total)}"
        f"{parts}, {write_decimal(left)} is left."
    )


def _number(reading: Reading) -> float | None:
    return None if reading.infinite else float(reading.epsilon)


def deny_for(reason: str, **found: Any) -> dict[str, Any]:
    return {"reason": reason, **found, "cost": None, "analyst_sees": {"status": "denied"}}


def describe_released(plan: QueryPlan, *, epsilon: object, epsilon_svt: object, error_95: object) -> dict[str, Any]:
    """Return what the analyst would see of a released answer, in the shape of ``Answer.describe``."""
    return {
        "status": "released",
        "answer": _describe_shape(plan),
        "epsilon": epsilon,
        "epsilon_svt": epsilon_svt,
        "error_95": error_95,
        "guarantee": "…",
    }


def _describe_shape(plan: QueryPlan) -> list[dict[str, str]]:
    """Return the columns of the answer with a mark in place of each number."""
    return [{output.name: "…" if output.is_aggregate else "each declared value" for output in plan.outputs}]
