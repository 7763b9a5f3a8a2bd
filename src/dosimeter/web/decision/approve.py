"""Approve, deny, ask for changes: each query is decided once, even after double clicks and crashes.

A decision claims the query by comparing and setting its status in one transaction; whoever comes second is told who was
first. The claim of an approval is a reference that the ledger's entry carries too, so that after a crash at any instant
``reconcile`` finds the outcome. No charge: the query waits again. A charge and an answer: the query is released. A
charge for a noisy test that found no ε: the query is denied. Any other charge without an answer: the query counts as
interrupted, and a controller decides it again. The same is done when somebody opens a claimed query whose release ended
without writing the query's status.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, Field

from dosimeter.dataset import Dataset
from dosimeter.errors import DatasetStopped, DosimeterError, Interrupted, OptionError
from dosimeter.ledger import Entry, exact_decimal, write_decimal
from dosimeter.problems import Surface
from dosimeter.query import Query
from dosimeter.release import PreparedRelease, ReleaseOrder, release
from dosimeter.web.log import report_bug
from dosimeter.web.public import PHRASES, check_text
from dosimeter.web.state import ServedDataset, ServerState
from dosimeter.web.stopped_datasets import REFUSED
from dosimeter.web.store import (
    SERVER,
    UNDECIDED,
    QueryStatus,
    StoredQuery,
    User,
    find_query,
    is_withdrawn,
    list_approving,
    make_identifier,
    move_query,
    write_audit,
)

NOT_GRANTED = (
    "The approval could not be granted and nothing was charged: the account no longer admits this ε, or the data "
    "contradict the schema. Decide again."
)
BROKEN = "The release failed: a bug of ours. It is in the server's log. Nothing was charged: decide again."
BACK = "The approval was interrupted before anything was charged. Decide again."
FAILED = "The release failed after the charge: it counts, there is no answer, and the dataset is stopped."
CHARGED = (
    "The approval was interrupted after the charge: it counts, and there is no answer. Approving the same again costs "
    "nothing more."
)


class AlreadyDecided(DosimeterError):
    """The error that somebody else decided the query first. ``query``: the query as it is now; None if it is gone."""

    def __init__(self, query: StoredQuery | None) -> None:
        super().__init__("This query is decided already.")
        self.query = query


LONGEST_PREFERENCE = 3_000
"""Letters of a preference, as it is typed and as it goes on record."""


class Approval(BaseModel):
    """A controller's approval. ``epsilon``: the approved ε; None where the noisy test will find it.

    ``preference``: the preference that ε was found from, as text; None where ε is set in another way. ``continued``:
    the controller says that the data or the schema changed and the people are the same, so that the same account is
    charged. ``other_people``: the controller says that accounts with individuals of the same keys hold other people.
    ``reason``: the controller's words for the record.
    """

    epsilon: Annotated[float, Field(gt=0, lt=1e300, allow_inf_nan=False)] | None = None
    preference: Annotated[str, Field(max_length=LONGEST_PREFERENCE), AfterValidator(check_text)] | None = None
    continued: bool = False
    reason: str = ""
    other_people: bool = False


def claim_query(
    state: ServerState,
    served: ServedDataset,
    query: StoredQuery,
    user: User,
    approval: Approval,
    test_cost: float | None = None,
) -> tuple[str, ReleaseOrder]:
    """Check everything that needs no data, then claim the query, so that nobody else can decide it.

    ``test_cost``: the ε of the noisy test, as the controller confirmed it.
    Returns the claim (a reference that the ledger's entry will carry) and the order for the release. Raises
    AlreadyDecided if somebody was first.
    """
    claim = make_identifier()
    order = ReleaseOrder(
        served.choose_way(approval.epsilon, approval.preference, test_cost),
        terms=served.terms,
        analyst=query.analyst,
        purpose=query.purpose,
        again=True,  # always a new answer: the page offers an earlier one separately
        continued=approval.continued,
        other_people=approval.other_people,
        reference=claim,
        approved_by=user.name,
    )
    served.prepare(query.sql, order)
    shown = "ε by the noisy test" if approval.epsilon is None else f"ε = {approval.epsilon:g}"
    detail = f"{shown}; {approval.preference or 'no preference'}" + (f"; {approval.reason}" if approval.reason else "")
    state.claims.add(claim)
    try:
        _decide(
            state, query, user, QueryStatus.APPROVING, action="approved", detail=detail, claim=claim,
            epsilon=None if approval.epsilon is None else write_decimal(exact_decimal(approval.epsilon)),
            preference=approval.preference, reason=approval.reason or None, entry_id=None,
        )  # fmt: skip
    except BaseException:
        state.claims.discard(claim)
        raise
    return claim, order


def run_release(
    state: ServerState, served: ServedDataset, query: StoredQuery, claim: str, order: ReleaseOrder, dataset: Dataset
) -> QueryStatus:
    """Release the answer to a claimed query, set its status from the ledger's entry, and end the claim.

    Returns the new status; a release that fails raises nothing.
    """
    try:
        entry_id, problem = _try_release(state, served, query, claim, order, dataset)
        state.forget(served.name)
        return settle_claim(state, served.name, query.id, claim, problem, entry_id)
    finally:
        state.claims.discard(claim)


def _try_release(
    state: ServerState, served: ServedDataset, query: StoredQuery, claim: str, order: ReleaseOrder, dataset: Dataset
) -> tuple[str | None, DosimeterError | None]:
    """Release the answer to a claimed query. Return the name of its entry if there is one, and the error if it failed.

    The entry may be that of an earlier approval, which was interrupted after its charge: it is taken up.

    Nobody can stop a release, so an interrupt was meant for another job. An interrupted release is therefore tried once
    more, unless the ledger already has its entry.
    """
    for again in (True, False):
        try:
            answer = release(Query(dataset, query.sql, served.prepare(query.sql).look), order, state.database.ledger)
        except Interrupted as error:
            if not again or find_claimed(state, served.name, claim) is not None:
                return None, error
        except DosimeterError as error:
            return None, error
        except BaseException as error:  # noqa: BLE001 - whatever happened, the ledger knows what was charged
            report_bug("Releasing", error)
            return None, DosimeterError(BROKEN)
        else:
            return answer.entry, None
    return None, None


def settle_unfinished(state: ServerState, query: StoredQuery) -> StoredQuery:
    """Return the query as it is now, after settling it if its release ended without writing its status.

    That happens when the database was unreachable at the end of the release.
    """
    if query.status is not QueryStatus.APPROVING or query.claim is None or query.claim in state.claims:
        return query
    settle_claim(state, query.dataset, query.id, query.claim)
    return find_query(state.database, query.id) or query


def settle_claim(
    state: ServerState,
    dataset: str,
    query_id: str,
    claim: str,
    problem: DosimeterError | None = None,
    entry_id: str | None = None,
) -> QueryStatus:
    """Set the query's status from the ledger's entry of this name or with this claim. Return the new status.

    If the analyst withdrew the query during the release and no answer was released, the new status is withdrawn.
    ``problem``: the error with which the release failed; None if it did not fail.
    """
    entry = find_claimed(state, dataset, claim) if entry_id is None else state.database.ledger.entry(entry_id)
    status, note, charged = find_outcome(entry, problem)
    with state.database.writing() as connection:
        if status is not QueryStatus.RELEASED and is_withdrawn(connection, query_id):
            status = QueryStatus.WITHDRAWN  # its analyst withdrew it during the release
        moved = move_query(
            connection, query_id, {QueryStatus.APPROVING}, status, claimed_by=claim,
            note=note, entry_id=charged, claim=claim if charged else None,
        )  # fmt: skip
        if moved:
            action = "not granted" if status is QueryStatus.WAITING else status.value
            write_audit(connection, SERVER, action, dataset=dataset, query_id=query_id, detail=note or "")
    return status


def find_claimed(state: ServerState, dataset: str, claim: str) -> Entry | None:
    return state.database.ledger.find_reference(state.account_name(dataset), claim)


def find_outcome(entry: Entry | None, problem: DosimeterError | None) -> tuple[QueryStatus, str | None, str | None]:
    """Return what became of an approval: by the ledger's entry or, without one, by the error of the release.

    Three values: the query's new status; what happened, for the controller, None if the answer was released; the id of
    the entry, None if nothing was charged, so that the query waits again.
    """
    if entry is None:
        words = REFUSED if isinstance(problem, DatasetStopped) else problem and problem.word(Surface.WEB)
        return QueryStatus.WAITING, words or BACK, None
    if entry.status == "released":
        return QueryStatus.RELEASED, None, entry.id
    if entry.status == "reserved":
        return QueryStatus.INTERRUPTED, CHARGED, entry.id
    if entry.reason == "incident":  # its analyst sees it waiting, like all others: nothing tells which query failed
        return QueryStatus.INTERRUPTED, FAILED, entry.id
    if entry.spent.is_nothing:
        return QueryStatus.WAITING, NOT_GRANTED, None
    return QueryStatus.DENIED, "The noisy test found no ε. Its cost is charged.", entry.id


def reconcile(state: ServerState) -> int:
    """Settle, after a start, every approval that a crash left unfinished. Returns how many there were."""
    left = list_approving(state.database)
    for query in left:
        settle_claim(state, query.dataset, query.id, query.claim or "")
    return len(left)


def find_earlier(state: ServerState, served: ServedDataset, prepared: PreparedRelease) -> Entry | None:
    """Return the entry with the latest released answer to a query with the same plan, on the same data.

    None if there is none. That answer can be given again at no cost.
    """
    account = state.account(served.name)
    if account is None:
        return None
    source = served.worker.digest or account.latest_source(prepared.schema_digest)
    if source is None:
        return None
    entry = state.entry(state.database.ledger.find_earlier(account.dataset, prepared.plan.digest, source))
    return None if entry is None or entry.request.schema_digest != prepared.schema_digest else entry


def repeat_answer(state: ServerState, query: StoredQuery, user: User, entry: Entry, reason: str) -> None:
    """Give the analyst an earlier released answer, with the controller's reason. No noise, no charge.

    Raises DatasetStopped for a stopped dataset, and AlreadyDecided if somebody decided the query first.
    """
    if state.database.ledger.stopped(entry.dataset) is not None:
        raise DatasetStopped(REFUSED)
    _decide(
        state, query, user, QueryStatus.RELEASED, action="repeated", detail=f"entry {entry.id}", entry_id=entry.id,
        note="The earlier answer was handed out, at no cost.", reason=reason or None,
    )  # fmt: skip


def deny_query(state: ServerState, query: StoredQuery, user: User, reason: str) -> None:
    _decide(state, query, user, QueryStatus.DENIED, action="denied", detail=reason, reason=reason or None)


def ask_for_changes(state: ServerState, query: StoredQuery, user: User, phrase: str, reason: str) -> None:
    """Send a query back to its analyst with a fixed phrase about SQL or purpose, so that no words reveal the data.

    ``phrase``: the key of one of ``PHRASES``; others are refused. ``reason``: the controller's own words, stored with
    the query and never shown to its analyst.
    """
    if phrase not in PHRASES:
        raise OptionError("Choose one of the phrases.")
    _decide(
        state, query, user, QueryStatus.CHANGES, action="asked for changes", detail=phrase, phrase=phrase,
        reason=reason or None,
    )  # fmt: skip


def _decide(
    state: ServerState,
    query: StoredQuery,
    user: User,
    to: QueryStatus,
    *,
    action: str,
    detail: str,
    note: str | None = None,
    **changes: str | None,
) -> None:
    """Give an undecided query the status ``to``, and record who did it. Raises AlreadyDecided if it is decided.

    ``note`` and ``changes``: what else is stored with the query. ``action`` and ``detail``: for the audit log.
    """
    with state.database.writing() as connection:
        if move_query(connection, query.id, UNDECIDED, to, decided_by=user.id, note=note, **changes):
            write_audit(connection, user.name, action, dataset=query.dataset, query_id=query.id, detail=detail)
            return
    raise AlreadyDecided(find_query(state.database, query.id))
