"""Approve, deny, ask for changes: what a controller decides about one query, once."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Form, Request
from fastapi.responses import RedirectResponse, Response
from pydantic import Field

from dosimeter.errors import DatasetStopped, DosimeterError, OptionError
from dosimeter.findings import Choice
from dosimeter.ledger import Entry
from dosimeter.problems import Surface
from dosimeter.risk import parse_preference
from dosimeter.show import format_epsilon
from dosimeter.web.decision import (
    DENY_REASONS,
    REPEAT_REASONS,
    UNEVALUATED,
    AlreadyDecided,
    Approval,
    AskedQuery,
    Case,
    CaseOf,
    DecisionForm,
    UndecidedCase,
    admit_condition,
    ask_for_changes,
    claim_query,
    deny_query,
    describe_confirmation,
    find_earlier,
    find_measurement,
    find_shared,
    is_looser,
    make_offer,
    needs_consent,
    read_own_fields,
    read_preference,
    recall_form,
    renew_digest,
    repeat_answer,
    round_down,
    run_release,
    show_decision,
    show_earlier,
    write_query,
)
from dosimeter.web.http import Controller, Reason, Refused, Remark, StateOf, find_visitor, refuse, render, show_moment
from dosimeter.web.state import ServerState
from dosimeter.web.store import QueryStatus, StoredQuery, User
from dosimeter.web.worker import PATIENCE, JobPriority

router = APIRouter()


class ApproveForm(Approval):
    """The form of an approval, which has a reason.

    ``confirmed``: the approved ε once more, as text, or what the noisy test costs where it will find ε. If it is empty
    or differs, a page first asks whether the approval is meant. ``looser``: the controller agrees to a preference that
    is looser than their own threshold (``LooserThanOwn``); without this, the page asks about it too.
    """

    reason: Reason
    looser: bool = False
    confirmed: Annotated[str, Field(max_length=40)] = ""


ReasonField = Annotated[Reason, Form()]  # of a denial, and of giving an earlier answer


@router.get("/decide/{query_id}/confirm")
def confirm(request: Request, state: StateOf, user: Controller, case: UndecidedCase) -> Response:
    """Show a page that asks whether the approval is meant: what the form says, and what it costs. Decides nothing."""
    form, complaint = read_own_fields(request)
    if complaint:
        return show_decision(request, state, user, case, form, complaint=complaint, status=422)
    algorithm = case.served.settings.algorithm
    epsilon = None if form.epsilon is None else round_down(form.epsilon, case.served.candidates)
    if algorithm == "find-and-release":
        epsilon = None
    try:
        condition = None if needs_consent(case) else read_preference(state, case, user, form)
        preference = condition.text if condition is not None and algorithm == "find" else None
        _check(state, user, case, Approval(epsilon=epsilon, preference=preference))
    except DosimeterError as error:
        return show_decision(request, state, user, case, form, complaint=error.word(Surface.WEB), status=422)
    except Refused as refused:
        return show_decision(request, state, user, case, form, refusal=refused.message, status=refused.status)
    other_data = _is_other_data(state, case)
    compared = other_data or state.account(case.served.name) is None
    return render(
        request, "confirm.html", user, found=describe_confirmation(state, case, user, epsilon, condition),
        asked="" if epsilon is None or epsilon == form.epsilon else format_epsilon(form.epsilon or 0.0),
        other_data=other_data, shared=find_shared(state, case.served) if compared else (),
        looked_before=state.mentions_look(case.prepared, case.query.analyst),
        back=f"/decide/{case.query.id}?{write_query(form, epsilon)}",
    )  # fmt: skip


def _is_other_data(state: ServerState, case: Case) -> bool:
    """Return whether this schema with these data is new to the account, by their digests.

    Known are those with which the account was opened, and those for which a controller has said that the people are the
    same (``Approval.continued``). False if there is no account yet, or if the digest of the data is not known.
    """
    account = state.account(case.served.name)
    if account is None:
        return False
    digest = renew_digest(case.served)
    return bool(digest) and not account.is_of(case.prepared.schema_digest, digest)


@router.post("/decide/{query_id}/approve")
def approve(
    request: Request, state: StateOf, user: Controller, case: UndecidedCase, form: Annotated[ApproveForm, Form()]
) -> Response:
    algorithm = case.served.settings.algorithm
    epsilon = None if algorithm == "find-and-release" else form.epsilon
    preference = form.preference if algorithm == "find" else None
    approval = form.model_copy(update={"epsilon": epsilon, "preference": preference})
    try:
        _check(state, user, case, approval)
    except Refused as refused:
        return _show_refusal(request, state, user, case, approval, refused)
    wanted = format_epsilon(case.test_cost if approval.epsilon is None else approval.epsilon)
    if form.confirmed != wanted or (not form.looser and is_looser(state, case, user, approval)):
        query = write_query(recall_form(approval.preference, approval.epsilon), approval.epsilon)
        return RedirectResponse(f"/decide/{case.query.id}/confirm?{query}", status_code=303)
    cost = case.test_cost if algorithm == "find-and-release" else None
    claim, order = claim_query(state, case.served, case.query, user, approval, cost)
    try:
        case.served.worker.ask(
            ("release", claim), "Releasing",
            lambda dataset, _m: run_release(state, case.served, case.query, claim, order, dataset),
            wait=4 * PATIENCE, rank=JobPriority.RELEASE,
        )  # fmt: skip
    except DosimeterError:  # the server is stopping: nothing was started
        state.claims.discard(claim)
    return RedirectResponse(f"/decide/{case.query.id}", status_code=303)  # it shows the outcome, also later


def _show_refusal(
    request: Request, state: ServerState, user: User, case: Case, approval: Approval, refused: Refused
) -> Response:
    """Show the decision page again, with what was asked for and the reason for the refusal."""
    try:
        form = recall_form(approval.preference, approval.epsilon)
    except DosimeterError:
        form = DecisionForm()
    return show_decision(request, state, user, case, form, refusal=refused.message, status=refused.status)


def _check(state: ServerState, user: User, case: Case, approval: Approval) -> None:
    """Refuse an approval that the page would not have offered; the ledger checks once more, in its transaction."""
    offer = make_offer(state, case.served, case.prepared, fresh=True)
    refusal = offer.refuse(approval.epsilon)
    if refusal is not None and refusal.code == UNEVALUATED:
        choice = _recall_choice(state, user, case, approval)
        refusal = refusal if choice is None else offer.prefer(choice).refuse(approval.epsilon)
    if refusal is not None:
        raise refusal


def _recall_choice(state: ServerState, user: User, case: Case, approval: Approval) -> Choice | None:
    """Return the preference evaluated at every candidate, on the data as they are; None if it was not evaluated.

    Refuses a preference that cannot be used, and while the risk is still being computed.
    """
    try:
        preference = parse_preference(approval.preference or "")
        admit_condition(state, user, case.query, case.prepared.plan, preference)
        job = find_measurement(state, case, wait=4 * PATIENCE, renew=True)
        if job.state != "done":
            raise Refused(503, "computing", "The risk is still being computed. Try again in a moment.")
        return job.result.recall(preference)
    except DosimeterError as error:
        raise Refused(422, "unusable", error.word(Surface.WEB)) from None


def _require_earlier(state: ServerState, case: Case) -> Entry:
    """Return the entry of an earlier answer to the same query on the same data. Refuses if there is none."""
    earlier = find_earlier(state, case.served, case.prepared)
    if earlier is None:
        raise Refused(409, "no_answer", "There is no earlier answer to this query on these data.")
    return earlier


@router.get("/decide/{query_id}/repeat")
def show_repeat(request: Request, state: StateOf, user: Controller, case: UndecidedCase) -> Response:
    """Show a page that asks whether the earlier answer is to be given again: to whom, and which. Decides nothing."""
    earlier = _require_earlier(state, case)
    shown = show_earlier(case, earlier)
    return render(request, "repeat.html", user, case=case, earlier=earlier, shown=shown, reasons=REPEAT_REASONS)


@router.post("/decide/{query_id}/repeat")
def repeat(state: StateOf, user: Controller, case: CaseOf, reason: ReasonField) -> Response:
    """Give the earlier answer to the same query again: the same numbers, no charge."""
    earlier = _require_earlier(state, case)
    try:
        repeat_answer(state, case.query, user, earlier, reason)
    except DatasetStopped as stopped:
        raise Refused(409, "stopped", str(stopped)) from None
    return RedirectResponse(f"/decide/{case.query.id}", status_code=303)


@router.get("/decide/{query_id}/deny")
def show_deny(request: Request, user: Controller, query: AskedQuery) -> Response:
    return _refusal_page(request, user, query, "deny.html", reasons=DENY_REASONS)


@router.get("/decide/{query_id}/changes")
def show_changes(request: Request, user: Controller, query: AskedQuery) -> Response:
    return _refusal_page(request, user, query, "changes.html")


def _refusal_page(request: Request, user: User, query: StoredQuery, template: str, **context: Any) -> Response:
    if not query.status.undecided:
        raise AlreadyDecided(query)
    return render(request, template, user, query=query, **context)


@router.post("/decide/{query_id}/deny")
def deny(state: StateOf, user: Controller, query: AskedQuery, reason: ReasonField) -> Response:
    deny_query(state, query, user, reason)
    return RedirectResponse(f"/queue?done={query.id}", status_code=303)


@router.post("/decide/{query_id}/changes")
def changes(
    state: StateOf,
    user: Controller,
    query: AskedQuery,
    phrase: Annotated[str, Form(max_length=40)],
    reason: Annotated[Remark, Form()] = "",
) -> Response:
    try:
        ask_for_changes(state, query, user, phrase, reason)
    except OptionError as error:
        raise Refused(422, "unusable", error.word(Surface.WEB)) from None
    return RedirectResponse(f"/queue?done={query.id}", status_code=303)


_WORDS = {
    QueryStatus.APPROVING: "is being released", QueryStatus.RELEASED: "was answered", QueryStatus.DENIED: "was denied",
    QueryStatus.CHANGES: "was sent back with a request for changes",
    QueryStatus.WITHDRAWN: "was withdrawn by its analyst",
}  # fmt: skip


def show_conflict(request: Request, decided: AlreadyDecided) -> Response:
    """Show who has already decided the query, and how. It may have been this controller's own second click."""
    query, user = decided.query, find_visitor(request)
    if query is None:
        return refuse(request, 404, "not_found", "There is no such query.")
    who = "you" if user is not None and query.decided_by == user.id else query.decider
    words = _WORDS.get(query.status, "was decided")
    if who is not None and query.status is not QueryStatus.WITHDRAWN:
        words += f", by {who}"
    message = f"This query {words}, on {show_moment(query.changed_at)} UTC. Nothing more was changed."
    return render(request, "conflict.html", user, status=409, query=query, message=message)
