"""A dry run: what a release would do, for the controller's eyes only. Charges nothing, releases nothing.

Gives the exact probability of every outcome (V3) instead of "rerun it 50 times and look", what the answer would cost,
and the literal shape of what the analyst would see.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dosimeter.errors import DataError, SourceUnreachable
from dosimeter.ledger import Algorithm, Books, Entry, Incident, Ledger
from dosimeter.planning import digest_measured
from dosimeter.problems import Command, Problem, Surface
from dosimeter.release.account_terms import digest_request, enter_books, open_books
from dosimeter.release.order import Prepared, ReleaseOrder
from dosimeter.release.prepare import prepare_release
from dosimeter.release.previews import deny_for, describe_no_cost
from dosimeter.release.run import repeat_answer

if TYPE_CHECKING:
    from dosimeter.planning import Look
    from dosimeter.release.measurable import Measurable


@dataclass(frozen=True, slots=True, repr=False)
class DryRun:
    """What a release would do. For the controller's eyes only.

    ``repeated``: the same request was answered before, and would be answered from the ledger, at no charge.
    ``stopped``: the incident that has stopped the dataset already. ``found``: what the way to ε shows beforehand:
    why it would be denied, what it would find and cost, and what the analyst would see.
    """

    query: str
    algorithm: Algorithm
    repeated: bool
    stopped: Incident | None
    found: Mapping[str, Any]

    @property
    def reason(self) -> str | None:
        """Return why it would be denied for certain, or what would stop the dataset; None where neither."""
        return None if self.problem is None else self.problem.word(Surface.PYTHON)

    @property
    def problem(self) -> Problem | None:
        """Return the reason for a surface to word."""
        problem: Problem | None = self.found["reason"]
        return problem

    @property
    def granted(self) -> bool:
        """Return whether an answer would follow, or could."""
        return self.problem is None

    @property
    def analyst_sees(self) -> Mapping[str, Any]:
        """Return the shape of what the analyst would get."""
        seen: Mapping[str, Any] = self.found["analyst_sees"]
        return seen

    def describe(self) -> dict[str, Any]:
        """Return the dry run as ``dosimeter release --dry-run --json`` prints it."""
        return {
            "dry_run": True,
            "query": self.query,
            "algorithm": self.algorithm,
            "repeated": self.repeated,
            "granted": self.granted,
            "stopped": None if self.stopped is None else self.stopped.describe(),
            **self.found,
            "reason": self.reason,
        }

    def __repr__(self) -> str:
        return "DryRun(redacted)"


def preview_release(dataset: Measurable, sql: str, look: Look, order: ReleaseOrder, ledger: Ledger) -> DryRun:
    """Return what the controller would want to know before releasing. Refuse what the release would refuse.

    That it was looked at is recorded before anything is shown (G1). A dry run causes no incident (N4): it tells the
    controller what the release would not.
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
    return DryRun(prepared.plan.sql, order.way.algorithm, earlier is not None, stopped, found)


_STOPPED = {"status": "stopped"}


def _explain_stop(incident: Incident) -> Problem:
    return Problem(
        f"The dataset is stopped since {incident.at}: {incident.words}. Nothing fails now. When it may go on: ",
        Command("ledger LEDGER clear", call="Ledger.clear"),
        ".",
    )


def _preview_repeat(prepared: Prepared, earlier: Entry, books: Books) -> dict[str, Any]:
    return {
        "reason": None,
        "epsilon": None if earlier.epsilon is None else float(earlier.epsilon),
        "cost": describe_no_cost(books),
        "analyst_sees": repeat_answer(earlier, prepared).describe(),
    }


def _preview_new(dataset: Measurable, prepared: Prepared, books: Books) -> dict[str, Any]:
    try:
        risk = dataset.assess_plan(prepared.plan, prepared.look)
    except SourceUnreachable:
        raise
    except DataError as error:  # the release would stop the dataset without saying why
        return deny_for(*error.problem.pieces, **prepared.order.way.name_epsilon()) | {"analyst_sees": _STOPPED}
    return prepared.order.way.preview(prepared, risk, books)
