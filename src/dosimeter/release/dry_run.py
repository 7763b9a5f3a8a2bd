"""A dry run: what a release would do, for the controller's eyes only. Charges nothing, releases nothing.

The exact probability of every outcome (V3) instead of "rerun it 50 times and look", what the answer would cost, and
the literal shape of what the analyst would see.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dosimeter.errors import DataError, SourceUnreachable
from dosimeter.ledger import Books, Entry, Incident, Ledger
from dosimeter.planning import digest_measured
from dosimeter.release.account_terms import digest_request, enter_books, open_books
from dosimeter.release.order import Prepared, ReleaseOrder
from dosimeter.release.prepare import prepare_release
from dosimeter.release.previews import deny_for, describe_no_cost
from dosimeter.release.run import repeat_answer

if TYPE_CHECKING:
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
        "algorithm": order.way.algorithm,
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
        "cost": describe_no_cost(books),
        "analyst_sees": repeat_answer(earlier, prepared).describe(),
    }


def _preview_new(dataset: Measurable, prepared: Prepared, books: Books) -> dict[str, Any]:
    try:
        risk = dataset.assess_plan(prepared.plan, prepared.look)
    except SourceUnreachable:
        raise
    except DataError as error:  # the release would stop the dataset, and say nothing
        return deny_for(str(error), **prepared.order.way.name_epsilon()) | {"analyst_sees": _STOPPED}
    return prepared.order.way.preview(prepared, risk, books)
