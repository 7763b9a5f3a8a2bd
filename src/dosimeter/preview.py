"""A dry run: what a release would do, for the controller's eyes only. Charges nothing, releases nothing.

The exact probability of every outcome (V3) instead of "rerun it 50 times and look", what the answer would cost, and
the literal shape of what the analyst would see.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from dosimeter.accounting import Charge, Reading, exact_decimal
from dosimeter.ledger import Ledger
from dosimeter.releasing import (
    CurrentTerms,
    Prepared,
    ReleaseOrder,
    agree_on_terms,
    current_terms,
    digest_request,
    prepare_release,
    selection_problem,
)
from dosimeter.selection import (
    accuracy,
    normalised_variance,
    outcome_distribution,
    violation_probability,
    violation_share,
)

if TYPE_CHECKING:
    from dosimeter.assessment import Risk
    from dosimeter.controller import Dataset
    from dosimeter.look import Look


def dry_run(dataset: Dataset, sql: str, look: Look, order: ReleaseOrder, ledger: Ledger) -> dict[str, Any]:
    """What the controller would want to know before releasing; refused where the release would be.

    That it was looked at is recorded before anything is shown (G1). ``repeated``: the same request was answered before,
    and would be answered from the ledger, at no charge.
    """
    prepared = prepare_release(dataset.schema, sql, look, order)
    source = dataset.engine.fingerprint()
    account = ledger.account(prepared.dataset)
    opening, _ = agree_on_terms(account, prepared, source)
    risk = dataset.assess_plan(prepared.plan, look)
    ledger.record_view(prepared.dataset, prepared.plan.digest, "dry-run")
    earlier = None if order.again else ledger.find_answer(prepared.dataset, digest_request(prepared, source))
    books = _Books(prepared, current_terms(account, opening))
    document: dict[str, Any] = {
        "dry_run": True,
        "query": prepared.plan.sql,
        "algorithm": order.algorithm,
        "repeated": earlier is not None,
    }
    match order.algorithm:
        case "fixed":
            return document | _preview_fixed(prepared, risk, books)
        case "find":
            return document | _preview_found(prepared, risk, books)
        case _:
            return document | _preview_selected(prepared, risk, books)


@dataclass(frozen=True, slots=True)
class _Books:
    """The account as it is, or as it would be opened, and what this request would do to it."""

    prepared: Prepared
    terms: CurrentTerms

    def remaining(self, candidates: Sequence[float]) -> tuple[float, ...]:
        return self.terms.remaining(tuple(candidates), self.prepared)

    def cost(self, epsilon: float | None) -> dict[str, Any]:
        """The reading before and after an answer at this ε, or after a denial that follows the noisy test."""
        svt, delta = self.prepared.epsilon_svt, self.prepared.delta
        charge = Charge(Decimal(0), svt) if epsilon is None else Charge(exact_decimal(epsilon), svt, delta)
        return {
            "charge": float(charge.total),
            "reading": _number(self.terms.reading),
            "reading_after": _number(self.terms.reading.after(charge)),
        }


def _number(reading: Reading) -> float | None:
    return None if reading.infinite else float(reading.epsilon)


def _shape(prepared: Prepared) -> list[dict[str, str]]:
    """The columns of the answer with a mark where a number will stand."""
    return [{output.name: "…" if output.is_aggregate else "each declared value" for output in prepared.plan.outputs}]


def _preview_fixed(prepared: Prepared, risk: Risk, books: _Books) -> dict[str, Any]:
    epsilon = prepared.order.epsilon
    assert epsilon is not None
    line = risk.candidate(epsilon)
    granted = bool(books.remaining([epsilon]))
    seen = {
        "status": "released",
        "answer": _shape(prepared),
        "epsilon": epsilon,
        "epsilon_svt": None,
        "error_95": list(line.error_95),
        "guarantee": "…",
    }
    return {
        "epsilon": epsilon,
        "granted": granted,
        "rdr": dict(line.rdr),
        "cost": books.cost(epsilon) if granted else None,
        "analyst_sees": seen if granted else {"status": "denied"},
    }


def _preview_found(prepared: Prepared, risk: Risk, books: _Books) -> dict[str, Any]:
    assert prepared.preference is not None
    choice = risk.find(prepared.preference, candidates=prepared.candidates, available=books.remaining)
    seen: dict[str, Any] = {"status": "denied"}
    if choice.epsilon is not None:
        seen = {
            "status": "released",
            "answer": _shape(prepared),
            "epsilon": None,
            "epsilon_svt": None,
            "error_95": None,
            "guarantee": "…",
        }
    return {
        "preference": choice.preference,
        "epsilon": choice.epsilon,
        "limit": choice.limit,
        "cost": None if choice.epsilon is None else books.cost(choice.epsilon),
        "analyst_sees": seen,
        "notes": list(choice.notes),
    }


def _preview_selected(prepared: Prepared, risk: Risk, books: _Books) -> dict[str, Any]:
    order = prepared.order
    remaining = books.remaining(prepared.candidates)
    if not remaining:
        return {"candidates": [], "denial": 1.0, "violation": 0.0, "cost": None, "analyst_sees": {"status": "denied"}}
    problem = replace(selection_problem(prepared, risk), candidates=remaining)
    outcome = outcome_distribution(problem, method=order.selection)
    alpha = accuracy(problem, method=order.selection)
    threshold = problem.threshold
    lines = []
    for epsilon, probability in zip(remaining, outcome.probabilities, strict=True):
        variance = normalised_variance(problem, epsilon)
        lines.append(
            {
                "epsilon": epsilon,
                "probability": probability,
                "variance": variance,
                "violates": variance > threshold * (1 + 1e-12),
                "cost": books.cost(epsilon),
            }
        )
    return {
        "selection": order.selection,
        "threshold": threshold,
        "epsilon_svt": order.svt,
        "candidates": lines,
        "denial": outcome.denial,
        "violation": violation_probability(problem, outcome),
        "violation_share": violation_share(problem, outcome),
        "alpha": {"beta": alpha.beta, "paper": alpha.paper_alpha, "exact": alpha.exact_alpha, "warning": alpha.warning},
        "cost": {"denied": books.cost(None)},
        "analyst_sees": {
            "status": "released",
            "answer": _shape(prepared),
            "epsilon": "the ε that was found",
            "epsilon_svt": order.svt,
            "error_95": "…",
            "guarantee": "…",
        },
    }
