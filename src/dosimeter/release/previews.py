"""Parts of a dry run that every way to an ε shows: the cost, why it would be denied, what the analyst sees."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dosimeter.ledger import ZERO, Books, Obstacle, Reading, write_decimal
from dosimeter.problems import Piece, Problem

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


def word_obstacle(obstacle: Obstacle) -> str:
    """Say why the account admits none of the ε's that could be granted (O1, O2)."""
    reading, epsilon = obstacle.reading, write_decimal(obstacle.charge.epsilon)
    match obstacle.rule:
        case "delta":
            return (
                f"{reading.delta:g} of the account's δ_g = {reading.delta_total:g} is spent; this needs "
                f"{obstacle.charge.delta:g} more."
            )
        case "cap":
            return f"ε = {epsilon} is above the account's cap of {write_decimal(obstacle.cap or ZERO)} for one query."
        case "reading":
            spent = write_decimal(reading.epsilon)
            return f"Under the policy paper ε must be larger than the reading, which is {spent}; {epsilon} is not."
        case "budget":
            svt = obstacle.charge.epsilon_svt
            parts = f" (ε = {epsilon} and {write_decimal(svt)} for finding it)" if svt else ""
            return (
                f"{write_decimal(reading.epsilon)} of {obstacle.policy} is spent; this needs "
                f"{write_decimal(obstacle.charge.total)}{parts}, {write_decimal(obstacle.left)} is left."
            )


def _number(reading: Reading) -> float | None:
    return None if reading.infinite else float(reading.epsilon)


def deny_for(*reason: Piece, **found: Any) -> dict[str, Any]:
    """Return what a dry run shows of a denial, for this reason."""
    return {"reason": Problem(*reason), **found, "cost": None, "analyst_sees": {"status": "denied"}}


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
