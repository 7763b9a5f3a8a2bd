"""A dry run: what a release would do, for the controller's eyes only. Charges nothing, releases nothing.

The exact probability of every outcome (V3) instead of "rerun it 50 times and look", what the answer would cost, and
the literal shape of what the analyst would see.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from dosimeter.errors import DataError, SourceUnreachable
from dosimeter.ledger import ZERO, Books, Charge, Entry, Incident, Ledger, Reading, exact_decimal, write_decimal
from dosimeter.planning import digest_measured
from dosimeter.postprocess import cap_errors
from dosimeter.release.account_terms import digest_request, enter_books, open_books
from dosimeter.release.order import Prepared, ReleaseOrder
from dosimeter.release.prepare import prepare_release
from dosimeter.release.run import repeat_answer, selection_problem
from dosimeter.release.selection import (
    accuracy,
    normalised_variance,
    outcome_distribution,
    violation_probability,
    violation_share,
)
from dosimeter.risk import Choice
from dosimeter.show import format_number

if TYPE_CHECKING:
    from dosimeter.assessment import Risk
    from dosimeter.planning import Look
    from dosimeter.release.measurable import Measurable


def preview_release(dataset: Measurable, sql: str, look: Look, order: ReleaseOrder, ledger: Ledger) -> dict[str, Any]:
    """What the controller would want to know before releasing; refused where the release would be.

    That it was looked at is recorded before anything is shown (G1). ``repeated``: the same request was answered before,
    and would be answered from the ledger, at no charge. ``reason``: why it would be denied for certain, or what would
    stop the dataset, or None. ``stopped``: the incident that has stopped the dataset already. A dry run makes no
    incident (N4): it tells the controller what the release would not.
    """
    prepared = prepare_release(dataset.schema, sql, look, order)
    source = dataset.renew()
    account, agreement, _ = enter_books(ledger, prepared, source, dataset.engine)
    ledger.record_view(prepared.dataset, digest_measured(prepared.plan), "dry-run", analyst=order.analyst)
    earlier = None
    if account is not None and not order.again:
        earlier = account.find_answer(digest_request(prepared, source))
    books = open_books(account, agreement.opening, prepared)
    found = _preview_repeat(prepared, earlier, books) if earlier else _preview_new(dataset, prepared, books)
    stopped = ledger.stopped(prepared.dataset)
    if stopped is not None:
        found = {**found, "reason": found["reason"] or _explain_stop(stopped), "cost": None, "analyst_sees": _STOPPED}
    return {
        "dry_run": True,
        "query": prepared.plan.sql,
        "algorithm": order.algorithm,
        "repeated": earlier is not None,
        "granted": found["reason"] is None,
        "stopped": None if stopped is None else stopped.describe(),
        **found,
    }


_STOPPED = {"status": "stopped"}


def _explain_stop(incident: Incident) -> str:
    return (
        f"The dataset is stopped since {incident.at}: {incident.words}. Nothing fails now. When it may go on: "
        "dosimeter ledger LEDGER clear."
    )


def _preview_repeat(prepared: Prepared, earlier: Entry, books: Books) -> dict[str, Any]:
    return {
        "reason": None,
        "epsilon": None if earlier.epsilon is None else float(earlier.epsilon),
        "cost": _no_cost(books),
        "analyst_sees": repeat_answer(earlier, prepared).describe(),
    }


def _preview_new(dataset: Measurable, prepared: Prepared, books: Books) -> dict[str, Any]:
    try:
        risk = dataset.assess_plan(prepared.plan, prepared.look)
    except SourceUnreachable:
        raise
    except DataError as error:  # the release would stop the dataset, and say nothing
        return _deny(str(error), epsilon=prepared.order.epsilon) | {"analyst_sees": _STOPPED}
    match prepared.order.algorithm:
        case "fixed":
            return _preview_fixed(prepared, risk, books)
        case "find":
            return _preview_found(prepared, risk, books)
        case _:
            return _preview_selected(prepared, risk, books)


def _cost(books: Books, epsilon: float | None) -> dict[str, Any]:
    """The reading before and after an answer at this ε, or after a denial that follows the noisy test."""
    return {
        "charge": float(books.charge(epsilon).total),
        "reading": _number(books.reading),
        "reading_after": _number(books.after(epsilon)),
    }


def _no_cost(books: Books) -> dict[str, Any]:
    reading = _number(books.reading)
    return {"charge": 0.0, "reading": reading, "reading_after": reading}


def _explain_denial(books: Books, candidates: Sequence[float]) -> str:
    """Why the account admits none of these: the rule that is in the way of the one that comes closest (O1, O2)."""
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


def _deny(reason: str, **found: Any) -> dict[str, Any]:
    return {"reason": reason, **found, "cost": None, "analyst_sees": {"status": "denied"}}


def _shape(prepared: Prepared) -> list[dict[str, str]]:
    """The columns of the answer with a mark where a number will stand."""
    return [{output.name: "…" if output.is_aggregate else "each declared value" for output in prepared.plan.outputs}]


def _preview_fixed(prepared: Prepared, risk: Risk, books: Books) -> dict[str, Any]:
    epsilon = prepared.order.epsilon
    assert epsilon is not None
    line = risk.candidate(epsilon)
    if not books.remaining([epsilon]):
        return _deny(_explain_denial(books, [epsilon]), epsilon=epsilon, rdr=dict(line.rdr))
    seen = {
        "status": "released",
        "answer": _shape(prepared),
        "epsilon": epsilon,
        "epsilon_svt": None,
        "error_95": list(cap_errors(prepared.plan, line.error_95) if prepared.order.clamp else line.error_95),
        "guarantee": "…",
    }
    return {
        "reason": None,
        "epsilon": epsilon,
        "rdr": dict(line.rdr),
        "cost": _cost(books, epsilon),
        "analyst_sees": seen,
    }


def _preview_found(prepared: Prepared, risk: Risk, books: Books) -> dict[str, Any]:
    assert prepared.preference is not None
    choice = risk.find(prepared.preference, candidates=prepared.candidates, available=books.remaining)
    found: dict[str, Any] = {
        "preference": choice.preference,
        "epsilon": choice.epsilon,
        "limit": choice.limit,
        "notes": list(choice.notes),
    }
    if choice.epsilon is None:
        every = risk.find(prepared.preference, candidates=prepared.candidates).candidates
        meeting = [line.epsilon for line in every if line.satisfied]
        reason = _explain_unmet(choice) if not meeting else f"{_MET} {_explain_denial(books, meeting)}"
        return _deny(reason, **found)
    seen = {
        "status": "released",
        "answer": _shape(prepared),
        "epsilon": None,
        "epsilon_svt": None,
        "error_95": None,
        "guarantee": "…",
    }
    return found | {"reason": None, "cost": _cost(books, choice.epsilon), "analyst_sees": seen}


_MET = "Some candidates meet the preference, but the account admits none of them."


def _explain_unmet(choice: Choice) -> str:
    reason = f"No candidate meets the preference {choice.preference}."
    if not choice.limit:
        return reason
    return f"{reason} The largest ε that does is {format_number(choice.limit, 4, down=True)}."


def _preview_selected(prepared: Prepared, risk: Risk, books: Books) -> dict[str, Any]:
    order = prepared.order
    remaining = books.remaining(prepared.candidates)
    if not remaining:
        return _deny(_explain_denial(books, prepared.candidates), candidates=[], denial=1.0, violation=0.0)
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
                "cost": _cost(books, epsilon),
            }
        )
    return {
        "reason": None,
        "selection": order.selection,
        "threshold": threshold,
        "epsilon_svt": order.svt,
        "candidates": lines,
        "denial": outcome.denial,
        "violation": violation_probability(problem, outcome),
        "violation_share": violation_share(problem, outcome),
        "alpha": {"beta": alpha.beta, "paper": alpha.paper_alpha, "exact": alpha.exact_alpha, "warning": alpha.warning},
        "cost": {"denied": _cost(books, None)},
        "analyst_sees": {
            "status": "released",
            "answer": _shape(prepared),
            "epsilon": "the ε that was found",
            "epsilon_svt": order.svt,
            "error_95": "…",
            "guarantee": "…",
        },
    }
