"""Approve, deny, ask for changes: each query is decided once, even after double clicks and crashes.

A decision claims the query by comparing and setting its status in one transaction; whoever comes second is told who
was first. An approval's claim is the reference that the ledger's entry carries, so that after a crash at any instant
``reconcile`` finds the outcome. No entry: nothing was charged, and the query waits again. A settled entry: the query
takes its status. A reservation without an answer: it is charged, the query says so, and it may be answered again.
The same is done when somebody opens a claimed query whose release ended without writing its status.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from dosimeter.dataset import Dataset
from dosimeter.errors import DatasetStopped, DosimeterError, Interrupted, OptionError
from dosimeter.ledger import Entry, exact_decimal, write_decimal
from dosimeter.problems import Surface
from dosimeter.release import ReleaseOrder, read_way, release
from dosimeter.web.log import report_bug
from dosimeter.web.public import PHRASES
from dosimeter.web.state import ServedDataset, ServerState
from dosimeter.web.store import QUERIES, SERVER, Row, User, find_query, make_identifier, write_audit, write_time

UNDECIDED = ("waiting", "interrupted")
NOT_GRANTED = (
    "The approval could not be granted and nothing was charged: the account no longer admits this ε, or the data "
    "contradict the schema. Decide again."
)
BROKEN = "The release failed: a bug of ours. It is in the server's log. Nothing was charged: decide again."
BACK = "The approval was interrupted before anything was charged. Decide again."
STOPPED = "This dataset is stopped: a release from it failed. Nothing is answered until a controller clears it."
FAILED = "The release failed after the charge: it counts, there is no answer, and the dataset is stopped."
CHARGED = "The approval was interrupted after the charge: it counts, and there is no answer. Answer again, or deny."


class AlreadyDecided(DosimeterError):
    """Another decision came first. ``row`` is the query as it is now."""

    def __init__(self, row: Row | None) -> None:
        super().__init__("This query is decided already.")
        self.row = row


@dataclass(frozen=True, slots=True)
class Approval:
    """A controller's approval. ``epsilon`` is None where the noisy test will find ε."""

    epsilon: float | None
    preference: str | None
    continued: bool
    reason: str = ""


def build_order(served: ServedDataset, row: Row, approval: Approval, *, claim: str, controller: str) -> ReleaseOrder:
    """Return the order for the release that was approved, by the algorithm of the dataset's account."""
    common: dict[str, Any] = {
        "terms": served.terms,
        "analyst": row["analyst"],
        "purpose": row["purpose"],
        "again": True,  # always a new answer: the page offers an earlier one separately
        "continued": approval.continued,
        "reference": claim,
        "approved_by": controller,
    }
    match served.settings.algorithm:
        case "fixed":
            return ReleaseOrder(read_way(epsilon=approval.epsilon), **common)
        case "find":
            return ReleaseOrder(read_way(prefer=approval.preference, chosen=approval.epsilon), **common)
        case "find-and-release":
            return ReleaseOrder(read_way(svt=served.settings.svt, variance=served.settings.variance), **common)


def claim_query(
    state: ServerState, served: ServedDataset, row: Row, user: User, approval: Approval
) -> tuple[str, ReleaseOrder]:
    """Check what needs no data, then claim the query: nobody else can decide it. Returns the claim and the order."""
    claim = make_identifier()
    order = build_order(served, row, approval, claim=claim, controller=user.name)
    served.prepare(row["sql"], order)
    values = {
        "status": "approving",
        "claim": claim,
        "epsilon": None if approval.epsilon is None else write_decimal(exact_decimal(approval.epsilon)),
        "preference": approval.preference,
        "reason": approval.reason or None,
        "note": None,
        "entry_id": None,
    }
    shown = "ε by the noisy test" if approval.epsilon is None else f"ε = {approval.epsilon:g}"
    detail = f"{shown}; {approval.preference or 'no preference'}" + (f"; {approval.reason}" if approval.reason else "")
    state.begin_claim(claim)
    try:
        _compare_and_set(state, row, user, values, action="approved", detail=detail)
    except BaseException:
        state.end_claim(claim)
        raise
    return claim, order


def run_release(
    state: ServerState, served: ServedDataset, row: Row, claim: str, order: ReleaseOrder, dataset: Dataset
) -> str:
    """Release, then set the query's status from the ledger's entry. Returns the new status."""
    try:
        problem = _try_release(state, served, row, claim, order, dataset)
        state.forget(served.name)
        return settle_claim(state, served.name, str(row["id"]), claim, problem)
    finally:
        state.end_claim(claim)


def _try_release(
    state: ServerState, served: ServedDataset, row: Row, claim: str, order: ReleaseOrder, dataset: Dataset
) -> DosimeterError | None:
    """Release; return the error if it failed.

    A release cannot be stopped by anybody, so an interrupt was meant for another job: the release is tried once more.
    """
    for again in (True, False):
        try:
            release(dataset, row["sql"], served.look, order, state.database.ledger)
        except Interrupted as error:
            if not again or find_claimed(state, served.name, claim) is not None:
                return error
        except DosimeterError as error:
            return error
        except BaseException as error:  # noqa: BLE001 - whatever happened, the ledger knows what was charged
            report_bug("Releasing", error)
            return DosimeterError(BROKEN)
        else:
            break
    return None


def settle_left(state: ServerState, row: Row) -> Row:
    """Settle a claimed query whose release ended without writing its status, because the database was unreachable.

    Returns the query as it is now.
    """
    if row["status"] != "approving" or state.is_claimed(row["claim"]):
        return row
    settle_claim(state, row["dataset"], row["id"], row["claim"])
    return find_query(state.database, row["id"]) or row


def settle_claim(
    state: ServerState, dataset: str, query_id: str, claim: str, problem: DosimeterError | None = None
) -> str:
    """Set the query's status from the ledger's entry of this claim. Returns the new status."""
    entry = find_claimed(state, dataset, claim)
    with state.database.writing() as connection:
        withdrawal = sa.select(QUERIES.c.withdrawal).where(QUERIES.c.id == query_id).with_for_update()
        values = _outcome(entry, problem)
        if values["status"] != "released" and connection.execute(withdrawal).scalar():
            values["status"] = "withdrawn"  # its analyst withdrew the query while it was being released
        changed = connection.execute(
            QUERIES.update()
            .where(QUERIES.c.id == query_id, QUERIES.c.claim == claim, QUERIES.c.status == "approving")
            .values(changed_at=write_time(), **values)
        )
        if changed.rowcount:
            known = ("released", "denied", "interrupted", "withdrawn")
            action = values["status"] if values["status"] in known else "not granted"
            write_audit(connection, SERVER, action, dataset=dataset, query_id=query_id, detail=values["note"] or "")
    return str(values["status"])


def find_claimed(state: ServerState, dataset: str, claim: str) -> Entry | None:
    account = state.database.ledger.account(state.account_name(dataset))
    entries = () if account is None else account.entries
    return next((e for e in reversed(entries) if e.request.settings.get("reference") == claim), None)


def _outcome(entry: Entry | None, problem: DosimeterError | None) -> dict[str, Any]:
    if entry is None:
        words = STOPPED if isinstance(problem, DatasetStopped) else problem and problem.word(Surface.WEB)
        return {"status": "waiting", "claim": None, "note": words or BACK}
    if entry.status == "released":
        return {"status": "released", "entry_id": entry.id, "note": None}
    if entry.status == "reserved":
        return {"status": "interrupted", "entry_id": entry.id, "note": CHARGED}
    if entry.reason == "incident":  # its analyst sees it waiting, like all others: nothing tells which query failed
        return {"status": "interrupted", "entry_id": entry.id, "note": FAILED}
    if entry.charge == 0:
        return {"status": "waiting", "claim": None, "note": NOT_GRANTED}
    return {"status": "denied", "entry_id": entry.id, "note": "The noisy test found no ε. Its cost is charged."}


def reconcile(state: ServerState) -> int:
    """Settle, after a start, every approval that a crash left unfinished. Returns how many there were."""
    with state.database.reading() as connection:
        query = sa.select(QUERIES.c.id, QUERIES.c.dataset, QUERIES.c.claim).where(QUERIES.c.status == "approving")
        left = connection.execute(query).all()
    for row in left:
        settle_claim(state, row.dataset, row.id, row.claim)
    return len(left)


def find_earlier(state: ServerState, served: ServedDataset, sql: str) -> Entry | None:
    """Return the latest released answer to the same plan on the same data, which can be given again at no cost."""
    account = state.account(served.name)
    if account is None:
        return None
    prepared = served.prepare(sql)
    source = served.worker.digest or account.latest_source(prepared.schema_digest)
    fitting = (
        e
        for e in reversed(account.entries)
        if e.status == "released"
        and e.request.plan_digest == prepared.plan.digest
        and (e.request.schema_digest, e.request.source_digest) == (prepared.schema_digest, source)
    )
    return next(fitting, None)


def repeat_answer(state: ServerState, row: Row, user: User, entry: Entry) -> None:
    """Give the analyst an earlier released answer. No noise, no charge. Raises DatasetStopped for a stopped dataset."""
    if state.database.ledger.stopped(entry.dataset) is not None:
        raise DatasetStopped(STOPPED)
    values = {"status": "released", "entry_id": entry.id, "note": "The earlier answer was handed out, at no cost."}
    _compare_and_set(state, row, user, values, action="repeated", detail=f"entry {entry.id}")


def deny_query(state: ServerState, row: Row, user: User, reason: str) -> None:
    values = {"status": "denied", "reason": reason or None, "note": None}
    _compare_and_set(state, row, user, values, action="denied", detail=reason)


def ask_for_changes(state: ServerState, row: Row, user: User, phrase: str, reason: str) -> None:
    """Send a query back to its analyst with a fixed phrase about SQL or purpose, so that no words reveal the data."""
    if phrase not in PHRASES:
        raise OptionError("Choose one of the phrases.")
    values = {"status": "changes", "phrase": phrase, "reason": reason or None, "note": None}
    _compare_and_set(state, row, user, values, action="asked for changes", detail=phrase)


def _compare_and_set(
    state: ServerState, row: Row, user: User, values: Mapping[str, Any], *, action: str, detail: str
) -> None:
    with state.database.writing() as connection:
        changed = connection.execute(
            QUERIES.update()
            .where(QUERIES.c.id == row["id"], QUERIES.c.status.in_(UNDECIDED))
            .values(changed_at=write_time(), decided_by=user.id, **values)
        )
        if changed.rowcount == 1:
            write_audit(connection, user.name, action, dataset=row["dataset"], query_id=row["id"], detail=detail)
            return
    raise AlreadyDecided(find_query(state.database, row["id"]))
